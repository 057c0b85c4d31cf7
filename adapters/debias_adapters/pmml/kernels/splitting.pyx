"""Compiled walk through the nodes of a PMML tree, which makes binary splits of them.

See debias_adapters/pmml/splits.py for what it does, and for the arrays. Over 500 lines, because it is one walk: each kind
of question and each strategy for missing values is a step of it.
"""

from libc.math cimport INFINITY, NAN
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

# Answers of questions; a question that must be asked first is its number plus ASK.
cdef enum:
    UNKNOWN = -1
    NO = 0
    YES = 1
    ASK = 2

# Kinds of questions, in the order of `debias_adapters.pmml.splits.KINDS`.
cdef enum:
    ALWAYS = 0
    NEVER = 1
    LE = 2
    IN = 3
    MISSING = 4
    AND = 5
    OR = 6
    XOR = 7
    FIRST = 8

# What is done where an answer is unknown, in the order of `debias_adapters.pmml.splits.UNKNOWN_ANSWERS`.
cdef enum:
    NEXT_CHILD = 0
    DEFAULT_CHILD = 1
    LAST_PREDICTION = 2
    NO_PREDICTION = 3

# What is told of a split: the column of labels is asked whether it is missing, or the column is one of numbers.
cdef enum:
    ANY_LABEL = -2
    NUMBER = -1

cdef enum:
    MOST_ASKED = 1000  # questions looked at for each split that there may be: more would take longer than a large file

cdef enum:
    NOWHERE = -2  # a leaf of rows without a prediction
    GAP = -1
    TOO_MANY = -2
    NO_MEMORY = -3

# What the splits before have told of a column: numbers are above `low` (NaN: there is no such limit) and up to `high`.
cdef struct Known:
    double low
    double high
    bint present
    bint missing

# Where rows are: at the predicate of the child `child` of `node`, before the question `test`; or at the leaf `node`,
# where the others are -1. All are -1 where rows have no prediction. `node` is -1 above the root.
cdef struct Place:
    int32_t node
    int32_t child
    int32_t test

# What follows for an answer to a test.
cdef struct Way:
    Place place
    int32_t test  # -1 if there was none
    int32_t answer  # 0 for yes, 1 for no
    bint asks_missing  # whether the question was if the column of the test is missing: yes for present values
    bint takes_missing
    int32_t n_told
    int32_t parent  # the split above, and the side of it
    int32_t side

cdef struct Walk:
    # the tree
    const int32_t* child_start
    const int32_t* children
    const int32_t* default_child
    const int32_t* asked
    const uint8_t* predicts
    bint keeps_last
    int on_unknown
    # its questions
    const uint8_t* kind
    const int32_t* column
    const double* limit
    const uint8_t* sense
    const int32_t* set_of
    const uint64_t* sets
    const int32_t* part_start
    const int32_t* parts
    # what is known
    Py_ssize_t n_words
    Known* known
    uint64_t* codes
    int n_absent
    # what was known before
    Py_ssize_t n_told
    Py_ssize_t room
    int32_t* told_column
    Known* told
    uint64_t* told_codes
    int64_t n_asked  # how many questions were looked at
    # answers to a test: yes, no
    Known[2] answer
    bint[2] possible
    uint64_t* answer_codes


cdef inline Place place_of(int32_t node, int32_t child, int32_t test) noexcept nogil:
    cdef Place made
    made.node, made.child, made.test = node, child, test
    return made


cdef inline bint same(Place a, Place b) noexcept nogil:
    return a.node == b.node and a.child == b.child and a.test == b.test


cdef int make_room(Walk* walk) noexcept nogil:
    """Double the room for what was known before; -1 if there is none."""
    cdef Py_ssize_t room = 2 * walk.room
    cdef void* columns = realloc(walk.told_column, room * sizeof(int32_t))
    if columns == NULL:
        return -1
    walk.told_column = <int32_t*> columns
    cdef void* told = realloc(walk.told, room * sizeof(Known))
    if told == NULL:
        return -1
    walk.told = <Known*> told
    cdef void* codes = realloc(walk.told_codes, room * walk.n_words * sizeof(uint64_t))
    if codes == NULL:
        return -1
    walk.told_codes = <uint64_t*> codes
    walk.room = room
    return 0


cdef int tell(Walk* walk, int32_t column, Known known, const uint64_t* codes) noexcept nogil:
    """Note what an answer has told of a column; -1 if there is no memory. `codes` is NULL if they stay."""
    cdef Py_ssize_t size = walk.n_words * sizeof(uint64_t), t = walk.n_told
    if t == walk.room and make_room(walk) < 0:
        return -1
    walk.told_column[t] = column
    walk.told[t] = walk.known[column]
    memcpy(walk.told_codes + t * walk.n_words, walk.codes + column * walk.n_words, size)
    walk.n_absent += walk.known[column].present - known.present
    walk.known[column] = known
    if codes != NULL:
        memcpy(walk.codes + column * walk.n_words, codes, size)
    walk.n_told += 1
    return 0


cdef void forget(Walk* walk, Py_ssize_t n_told) noexcept nogil:
    """Forget all but the first answers."""
    cdef Py_ssize_t size = walk.n_words * sizeof(uint64_t)
    cdef int32_t column
    while walk.n_told > n_told:
        walk.n_told -= 1
        column = walk.told_column[walk.n_told]
        walk.n_absent += walk.known[column].present - walk.told[walk.n_told].present
        walk.known[column] = walk.told[walk.n_told]
        memcpy(walk.codes + column * walk.n_words, walk.told_codes + walk.n_told * walk.n_words, size)


cdef void find_answers(Walk* walk, int32_t test) noexcept nogil:
    """Find what is known of present values for which the answer is yes, and no, and whether there are any."""
    cdef int32_t column = walk.column[test]
    cdef Known known = walk.known[column]
    cdef double limit = walk.limit[test]
    cdef const uint64_t* codes = walk.codes + column * walk.n_words
    cdef const uint64_t* listed
    cdef Py_ssize_t w
    walk.possible[0] = walk.possible[1] = False
    if not known.present:
        return
    known.missing = False
    walk.answer[0] = walk.answer[1] = known
    if walk.kind[test] == MISSING:
        walk.possible[1] = True
        memcpy(walk.answer_codes + walk.n_words, codes, walk.n_words * sizeof(uint64_t))
    elif walk.kind[test] == LE:
        walk.possible[0] = not known.low >= limit
        walk.possible[1] = not known.high <= limit
        walk.answer[0].high = min(known.high, limit)
        if not known.low > limit:
            walk.answer[1].low = limit
        memcpy(walk.answer_codes, codes, walk.n_words * sizeof(uint64_t))
        memcpy(walk.answer_codes + walk.n_words, codes, walk.n_words * sizeof(uint64_t))
    else:
        listed = walk.sets + walk.set_of[test] * walk.n_words
        for w in range(walk.n_words):
            walk.answer_codes[w] = codes[w] & listed[w]
            walk.answer_codes[walk.n_words + w] = codes[w] & ~listed[w]
            walk.possible[0] |= walk.answer_codes[w] != 0
            walk.possible[1] |= walk.answer_codes[walk.n_words + w] != 0


cdef int32_t answer(Walk* walk, int32_t question) noexcept nogil:
    """Return YES, NO or UNKNOWN, or ASK plus a test that has to be made first."""
    cdef int kind = walk.kind[question]
    cdef Known known
    cdef int32_t each, first = -1
    cdef Py_ssize_t p
    cdef bint unknown = False, some_yes = False, some_no = False, odd = False
    walk.n_asked += 1
    if kind == ALWAYS:
        return YES
    if kind == NEVER:
        return NO
    if kind <= MISSING:
        known = walk.known[walk.column[question]]
        if known.present and known.missing:
            return ASK + question
        if kind == MISSING:
            return known.missing == walk.sense[question]
        if not known.present:
            return UNKNOWN
        find_answers(walk, question)
        if walk.possible[0] and walk.possible[1]:
            return ASK + question
        return walk.possible[0] == walk.sense[question]
    for p in range(walk.part_start[question], walk.part_start[question + 1]):
        each = answer(walk, walk.parts[p])
        if kind == FIRST:
            if each != UNKNOWN:
                return each
        elif each >= ASK:
            first = each if first < 0 else first
        elif each == UNKNOWN:
            unknown = True
        elif each == YES:
            some_yes, odd = True, not odd
        else:
            some_no = True
    if kind == FIRST or (kind == XOR and unknown):
        return UNKNOWN
    if kind == AND and some_no:
        return NO
    if kind == OR and some_yes:
        return YES
    if first >= 0:
        return first
    if unknown:
        return UNKNOWN
    return odd if kind == XOR else kind == AND


cdef inline Place own(Walk* walk, int32_t node) noexcept nogil:
    """Return the prediction of a node with children, which need not have one."""
    return place_of(node if walk.predicts[node] else -1, -1, -1)


cdef Place on(Walk* walk, Place start, Place until) noexcept nogil:
    """Return where rows are after all predicates whose answer is known; `until` if they come there."""
    cdef int32_t node = start.node, child = start.child, begin, count, below, found
    while True:
        if until.test >= 0 and node == until.node and child == until.child:
            return until
        if child < 0:
            return place_of(node, -1, -1)
        begin = walk.child_start[node] if node >= 0 else 0
        count = walk.child_start[node + 1] - begin if node >= 0 else 1
        if count == 0:
            return place_of(node, -1, -1)
        if child == count:
            return own(walk, node) if walk.keeps_last and node >= 0 else place_of(-1, -1, -1)
        below = walk.children[begin + child] if node >= 0 else 0
        found = answer(walk, walk.asked[below])
        if found >= ASK:
            return place_of(node, child, found - ASK)
        if found == YES:
            node, child = below, 0
        elif found == NO or walk.on_unknown == NEXT_CHILD or node < 0:
            child += 1
        elif walk.on_unknown == LAST_PREDICTION:
            return own(walk, node)
        elif walk.on_unknown == DEFAULT_CHILD:
            node, child = walk.default_child[node], 0
        else:
            return place_of(-1, -1, -1)


cdef int on_if(
    Walk* walk, int32_t column, Known known, const uint64_t* codes, Place start, Place until, Place* found
) noexcept nogil:
    """Find where rows come if something is known of a column; -1 if there is no memory."""
    if tell(walk, column, known, codes) < 0:
        return -1
    found[0] = on(walk, start, until)
    forget(walk, walk.n_told - 1)
    return 0


cdef int find_ways(Walk* walk, Place place, Way* ways, uint64_t* codes) noexcept nogil:
    """Find what follows for the answers to a test that can be, and return how many these are.

    Missing values go with the rows of an answer that come where they come themselves. If there are none, the test
    becomes whether the value is missing. `codes` has room for those of both answers. Returns -1 if there is no memory.
    """
    cdef int32_t test = place.test, column = walk.column[test]
    cdef Known known = walk.known[column], absent, told
    cdef Known[2] answers
    cdef bint[2] possible
    cdef Place nowhere = place_of(-1, -1, -1), there = nowhere, back = nowhere, meeting = nowhere
    cdef int a, with_missing = -1, n = 0
    cdef bint asks_missing = False
    cdef const uint64_t* of_answer
    find_answers(walk, test)
    for a in range(2):
        answers[a], possible[a] = walk.answer[a], walk.possible[a]
    memcpy(codes, walk.answer_codes, 2 * walk.n_words * sizeof(uint64_t))
    if known.missing:
        absent = known
        absent.present = False
        if walk.kind[test] != MISSING:
            for a in range(1, -1, -1):
                if not possible[a] or with_missing >= 0:
                    continue
                if on_if(walk, column, answers[a], codes + a * walk.n_words, place, nowhere, &there) < 0:
                    return -1
                if there.node == place.node and there.child == place.child:
                    continue
                if on_if(walk, column, absent, NULL, place, there, &back) < 0:
                    return -1
                if same(back, there):
                    with_missing, meeting = a, there
        if with_missing < 0:
            asks_missing = True
            answers[0], answers[1] = known, absent
            answers[0].missing = False
            possible[0], possible[1] = known.present, True
    for a in range(2):
        if not possible[a]:
            continue
        told = answers[a]
        if a == with_missing:
            told.missing = True
        of_answer = NULL if asks_missing else codes + a * walk.n_words
        if on_if(walk, column, told, of_answer, meeting if a == with_missing else place, nowhere, &ways[n].place) < 0:
            return -1
        ways[n].test, ways[n].answer = test, a
        ways[n].asks_missing, ways[n].takes_missing = asks_missing, a == with_missing
        n += 1
    return n


cdef int tell_way(Walk* walk, Way* way) noexcept nogil:
    """Note what a way tells; -1 if there is no memory."""
    cdef int32_t column
    cdef Known known
    if way.test < 0:
        return 0
    column = walk.column[way.test]
    if way.asks_missing:
        known = walk.known[column]
        if way.answer == 0:
            known.missing = False
        else:
            known.present = False
        return tell(walk, column, known, NULL)
    find_answers(walk, way.test)
    known = walk.answer[way.answer]
    known.missing = way.takes_missing
    return tell(walk, column, known, walk.answer_codes + way.answer * walk.n_words)


def make(
    const int32_t[::1] child_start,
    const int32_t[::1] children,
    const int32_t[::1] default_child,
    const int32_t[::1] asked,
    const uint8_t[::1] predicts,
    bint keeps_last,
    int on_unknown,
    const uint8_t[::1] kind,
    const int32_t[::1] column,
    const double[::1] limit,
    const uint8_t[::1] sense,
    const int32_t[::1] set_of,
    const uint64_t[:, ::1] sets,
    const int32_t[::1] part_start,
    const int32_t[::1] parts,
    const uint8_t[::1] is_label,
    uint64_t[:, ::1] codes,
    uint64_t[:, ::1] scratch,
    bint with_missing,
    int32_t[::1] feature,
    double[::1] threshold,
    int32_t[::1] left,
    int32_t[::1] right,
    uint8_t[::1] missing_left,
    int32_t[::1] of_set,
    int32_t[::1] node,
):
    """Fill the splits of a tree, and return how many nodes they are; a negative number if there are none.

    Parameters
    ----------
    child_start, children, default_child, asked, predicts
        The children of the nodes (with room for one more), and of each node the default child, the question, and
        whether it has a prediction.
    kind, column, limit, sense, set_of, sets, part_start, parts
        The questions.
    is_label
        Whether each column is of labels.
    codes : (n_columns, n_words)
        The labels that a column can have; it is overwritten.
    scratch : (4, n_words)
    with_missing
        Whether values can be missing.
    feature, threshold, left, right, missing_left, of_set, node
        The splits, all of one size. `of_set` is the set of a split on labels, `node` the node that predicts at a leaf.
    """
    cdef Py_ssize_t n_columns = is_label.shape[0], size = node.shape[0], made = 0, n_waiting = 1, i
    cdef Walk walk
    cdef Way way
    cdef Way[2] ways
    cdef Way* waiting = NULL
    cdef int n = 0, n_told = 0
    cdef int32_t above
    walk.child_start, walk.children = &child_start[0], &children[0]
    walk.default_child, walk.asked, walk.predicts = &default_child[0], &asked[0], &predicts[0]
    walk.keeps_last, walk.on_unknown = keeps_last, on_unknown
    walk.kind, walk.column, walk.limit, walk.sense = &kind[0], &column[0], &limit[0], &sense[0]
    walk.set_of, walk.sets, walk.part_start, walk.parts = &set_of[0], &sets[0, 0], &part_start[0], &parts[0]
    walk.n_words, walk.codes, walk.answer_codes = codes.shape[1], &codes[0, 0], &scratch[2, 0]
    walk.n_absent, walk.n_told, walk.room, walk.n_asked = 0, 0, 32, 0
    walk.known, walk.told_column, walk.told, walk.told_codes = NULL, NULL, NULL, NULL
    with nogil:
        walk.known = <Known*> realloc(NULL, n_columns * sizeof(Known))
        waiting = <Way*> realloc(NULL, (size + 2) * sizeof(Way))
        if walk.known == NULL or waiting == NULL or make_room(&walk) < 0:
            n = NO_MEMORY
        else:
            for i in range(n_columns):
                walk.known[i].low, walk.known[i].high = NAN, INFINITY
                walk.known[i].present, walk.known[i].missing = True, with_missing
            waiting[0].place = on(&walk, place_of(-1, 0, -1), place_of(-1, -1, -1))
            waiting[0].test, waiting[0].n_told, waiting[0].parent = -1, 0, -1
        while n >= 0 and n_waiting > 0:
            n_waiting -= 1
            way = waiting[n_waiting]
            forget(&walk, way.n_told)
            if made == size or walk.n_asked > MOST_ASKED * <int64_t> size:
                n = TOO_MANY
                break
            if tell_way(&walk, &way) < 0:
                n = NO_MEMORY
                break
            if way.place.test < 0:
                if way.place.node < 0 and walk.n_absent == 0:
                    n = GAP
                    break
                feature[made], threshold[made], of_set[made] = -1, 0, NUMBER
                missing_left[made] = False
                node[made] = way.place.node if way.place.node >= 0 else NOWHERE
            else:
                n_told = <int> walk.n_told
                n = find_ways(&walk, way.place, ways, &scratch[0, 0])
                if n < 0:
                    n = NO_MEMORY
                    break
                if n == 1:  # all values that are left go one way, and missing ones with them
                    ways[0].n_told, ways[0].parent, ways[0].side = n_told, way.parent, way.side
                    waiting[n_waiting] = ways[0]
                    n_waiting += 1
                    continue
                feature[made] = walk.column[ways[0].test]
                missing_left[made], node[made] = ways[0].takes_missing, -1
                threshold[made], of_set[made] = 0, NUMBER
                if ways[0].asks_missing:
                    if is_label[feature[made]]:
                        of_set[made] = ANY_LABEL
                    else:
                        threshold[made] = INFINITY
                elif walk.kind[ways[0].test] == IN:
                    of_set[made] = walk.set_of[ways[0].test]
                else:
                    threshold[made] = walk.limit[ways[0].test]
                for i in range(1, -1, -1):
                    ways[i].n_told, ways[i].parent, ways[i].side = n_told, <int32_t> made, <int32_t> i
                    waiting[n_waiting] = ways[i]
                    n_waiting += 1
            left[made] = right[made] = -1
            above = way.parent
            if above >= 0:
                if way.side == 0:
                    left[above] = <int32_t> made
                else:
                    right[above] = <int32_t> made
            made += 1
        free(walk.known)
        free(walk.told_column)
        free(walk.told)
        free(walk.told_codes)
        free(waiting)
    if n == NO_MEMORY:
        raise MemoryError("no memory for the splits of a tree")
    return made if n >= 0 else n


def without_dead_ends(
    const int32_t[::1] left, const int32_t[::1] right, const int32_t[::1] node, int32_t[::1] place, uint8_t[::1] stays
):
    """Find the splits that stay if those with a side of rows without a prediction are left out.

    Sets `stays`, and `place`: of a split that is left out the one that stands for it, -1 if none does.
    """
    cdef Py_ssize_t i
    with nogil:
        for i in range(node.shape[0] - 1, -1, -1):  # children come after their parents
            if left[i] < 0:
                stays[i] = node[i] != NOWHERE
                place[i] = <int32_t> i if stays[i] else -1
            elif place[left[i]] >= 0 and place[right[i]] >= 0:
                stays[i], place[i] = True, <int32_t> i
            else:
                stays[i], place[i] = False, max(place[left[i]], place[right[i]])
