"""Compiled loops over paths ordered by feature (debias.significance.feature_paths), for many permutations at once.

The innermost loops compute several permutations together, as *lanes*. In each row of an array
the lanes of column 0 come first, then those of column 1, and so on. Loops run over slices of a row, so that the
compiler can use vector instructions.
"""

import numpy as np
from numba import njit

ROUNDING = 1e-13
"""Smaller differences, relative to the values that are subtracted, are rounding errors and count as 0."""
AT_ONCE = 64
"""Number of rows whose contributions are computed together."""


@njit(cache=True, nogil=True)
def places_above(begin, end, start, slot_of_split, column, position, place, above):
    """Write the deepest place of the same column on the path to each split of trees begin..end to `above`; -1: none.

    Place and position of a split, and the order of `above`, are those of ``FeaturePaths``.
    """
    for tree in range(begin, end):
        for d in range(start[tree], start[tree + 1]):
            above[position[d]] = -1
            at = slot_of_split[d]
            while at > 0:
                upper = start[tree] + ((at - 1) >> 1)
                if column[upper] == column[d]:
                    above[position[d]] = place[upper] + ((at - 1) & 1)
                    break
                at = slot_of_split[upper]


@njit(cache=True, nogil=True)
def count_visits(begin, end, slots, evaluated, start, slot_of_split, column, n_visits, n_rows):
    """Count, for rows begin..end and each column, the visits (one per row and tree) and the rows with a visit."""
    n_trees = start.size - 1
    last = np.full(n_visits.size, -1, dtype=np.int64)
    for i in range(begin, end):
        for tree in range(n_trees):
            if not evaluated[tree, i]:
                continue
            now, at = i * n_trees + tree, np.int64(slots[tree, i])
            while at > 0:
                d = start[tree] + ((at - 1) >> 1)
                k = column[d]
                if last[k] < now:
                    n_visits[k] += 1
                    n_rows[k] += last[k] < i * n_trees
                    last[k] = now
                at = np.int64(slot_of_split[d])


@njit(cache=True, nogil=True)
def list_visits(begin, end, slots, evaluated, start, slot_of_split, column, place, visit, entry, visits, rows, sizes):
    """Write for each column the rows of begin..end that visit it, the number of visits, and the place of each visit.

    `visit` and `entry` (n_columns,) are the positions where the lists of each column begin, in `visits` and in `rows`
    and `sizes`. They are moved to the ends of the lists.
    """
    n_trees = start.size - 1
    last = np.full(visit.size, -1, dtype=np.int64)
    for i in range(begin, end):
        for tree in range(n_trees):
            if not evaluated[tree, i]:
                continue
            now, at = i * n_trees + tree, np.int64(slots[tree, i])
            while at > 0:
                d = start[tree] + ((at - 1) >> 1)
                k = column[d]
                if last[k] < now:
                    if last[k] < i * n_trees:
                        rows[entry[k]] = i
                        sizes[entry[k]] = 0
                        entry[k] += 1
                    last[k] = now
                    sizes[entry[k] - 1] += 1
                    visits[visit[k]] = place[d] + ((at - 1) & 1)
                    visit[k] += 1
                at = np.int64(slot_of_split[d])


@njit(cache=True, nogil=True)
def moments(
    columns,
    begin,
    end,
    lists,
    first_split,
    above,
    output,
    factor,
    step,
    y,
    weight,
    block,
    lanes,
    sums,
):
    """Write sums of contributions, and of squares of their totals by block, of some columns in parts begin..end.

    Parameters
    ----------
    columns : array of int64
    lists : tuple
        ``visits``, ``rows``, ``sizes`` as `list_visits` writes them, and the positions where the lists of each column
        in each part begin: ``visit_start`` and ``entry_start``, of shape (n_columns, n_parts + 1).
    first_split : array of shape (n_columns + 1,)
        Position of the first dividing split of each column in the following arrays.
    above : array of shape (n_dividing,)
    output : array of shape (n_dividing,), or empty
        First output of the tree of each split; empty: all trees have all outputs.
    factor : array of shape (n_dividing, 2)
    step : array of shape (n_dividing, 2, width x lanes)
    y : array of shape (n_rows, n_outputs x lanes)
    weight : array of shape (n_rows,)
    block : array of shape (n_rows,), or empty
        Block of each row; the rows of a block must be together. Empty: every row is a block.
    lanes : int
    sums : array of shape (n_parts, 2, n_columns, lanes)

    Notes
    -----
    A row contributes weight x (response . slope - offset), where slope = sum of factor x difference and
    offset = sum of factor x (difference . mean) over its path. Both are cumulated down the trees, place by place, so
    that a row adds one place for each tree.
    """
    visits, rows, sizes, visit_start, entry_start = lists
    most = 0
    for k in columns:
        most = max(most, first_split[k + 1] - first_split[k])
    at_places, along = np.empty((2 * most, step.shape[2] + lanes)), np.empty((AT_ONCE, y.shape[1] + lanes))
    by_lane, of_rows = along.reshape(AT_ONCE, -1, lanes), y.reshape(len(y), -1, lanes)
    phi, of_block = np.empty((AT_ONCE, lanes)), np.zeros(lanes)
    room = np.empty((AT_ONCE, lanes)), np.empty((AT_ONCE, lanes))
    twos = np.empty(2 * lanes), np.empty(2 * lanes)
    for k in columns:
        first, last = first_split[k], first_split[k + 1]
        _cumulate(above[first:last], factor[first:last], step[first:last], lanes, at_places)
        outputs = output[first:last] if output.size else output
        for part in range(begin, end):
            total, squares = sums[part, 0, k], sums[part, 1, k]
            total[:], squares[:] = 0.0, 0.0
            e, stop = visit_start[k, part], entry_start[k, part + 1]
            for r in range(entry_start[k, part], stop, AT_ONCE):
                some = rows[r : min(r + AT_ONCE, stop)]
                for q in range(some.size):
                    after = e + sizes[r + q]
                    if outputs.size:
                        _add_places_of_outputs(visits, e, after, outputs, at_places, lanes, along[q])
                    else:
                        _add_places(visits, e, after, at_places, along[q])
                    e = after
                _write_contributions(some, of_rows, weight, by_lane, room, phi)
                if block.size == 0:
                    _add_up(phi, some.size, twos, total, squares)
                    continue
                for q in range(some.size):
                    is_last = r + q + 1 == stop or block[rows[r + q + 1]] != block[some[q]]
                    _add_to_block(phi[q], is_last, of_block, total, squares)


@njit(cache=True, nogil=True)
def _cumulate(above, factor, step, lanes, at_places):
    """Write slope and offset at every place of one column to `at_places` (n_places, (width + 1) x lanes)."""
    width = step.shape[2]
    for r in range(above.size):
        difference, mean = step[r, 0], step[r, 1]
        for side in range(2):
            into, c = at_places[2 * r + side], factor[r, side]
            for b in range(width):
                into[b] = c * difference[b]
            offset = into[width:]
            offset[:] = 0.0
            for k in range(0, width, lanes):
                slope, of = into[k : k + lanes], mean[k : k + lanes]
                for b in range(lanes):
                    offset[b] += slope[b] * of[b]
            if above[r] >= 0:
                so_far = at_places[above[r]]
                for b in range(into.size):
                    into[b] += so_far[b]


@njit(cache=True, nogil=True)
def _add_places(visits, begin, end, at_places, along):
    """Write the sums of slopes and offsets over the places of a row to `along` ((n_outputs + 1) x lanes,)."""
    along[:] = 0.0
    for e in range(begin, end - 1, 2):  # two at a time, which halves the waits for stored values
        place, other = at_places[np.uint64(visits[e])], at_places[np.uint64(visits[e + 1])]
        for b in range(along.size):
            along[b] += place[b] + other[b]
    if (end - begin) % 2:
        place = at_places[np.uint64(visits[end - 1])]
        for b in range(along.size):
            along[b] += place[b]


@njit(cache=True, nogil=True)
def _add_places_of_outputs(visits, begin, end, output, at_places, lanes, along):
    """Write the same sums for trees that have their own outputs."""
    along[:] = 0.0
    width = at_places.shape[1] - lanes
    for e in range(begin, end):
        place, first = at_places[visits[e]], output[visits[e] >> 1] * lanes
        for b in range(width):
            along[first + b] += place[b]
        for b in range(lanes):
            along[along.size - lanes + b] += place[width + b]


@njit(cache=True, nogil=True)
def _write_contributions(rows, y, weight, along, room, phi):
    """Write the contributions of some rows to `phi` (AT_ONCE, lanes).

    Loops over the lanes of one row are too short for the widest vector instructions, so the factors of the products are
    copied into one contiguous array.
    """
    responses, factors = room
    in_line, n = (phi.reshape(-1), responses.reshape(-1), factors.reshape(-1)), rows.size * phi.shape[1]
    phi[:] = 0.0
    n_outputs = y.shape[1]
    for k in range(n_outputs + 1):
        for q in range(rows.size):
            w, into, slope = weight[rows[q]], factors[q], along[q, k]
            for b in range(into.size):
                into[b] = w * slope[b]
        if k == n_outputs:
            break
        for q in range(rows.size):
            into, response = responses[q], y[np.uint64(rows[q]), k]
            for b in range(into.size):
                into[b] = response[b]
        _add_products(*in_line, n)
    _less_offsets(in_line[0], in_line[2], n)


@njit(cache=True, nogil=True)
def _add_products(phi, responses, factors, n):
    for b in range(n):
        phi[b] += responses[b] * factors[b]


@njit(cache=True, nogil=True)
def _less_offsets(phi, offsets, n):
    for b in range(n):
        difference = phi[b] - offsets[b]
        # What is left where all rows of the nodes have the same response is rounding.
        phi[b] = difference if abs(difference) > ROUNDING * abs(offsets[b]) else 0.0


@njit(cache=True, nogil=True)
def _add_up(phi, n_rows, twos, total, squares):
    """Add contributions of rows, and their squares, to the sums; two rows at a time."""
    lanes, (of_two, squares_of_two) = total.size, twos
    of_two[:], squares_of_two[:] = 0.0, 0.0
    pairs = phi.reshape(-1, 2 * lanes)
    if n_rows % 2:
        phi[n_rows] = 0.0
    for r in range((n_rows + 1) // 2):
        two = pairs[r]
        for b in range(of_two.size):
            of_two[b] += two[b]
        for b in range(of_two.size):
            squares_of_two[b] += two[b] * two[b]
    for b in range(2 * lanes):
        total[b % lanes] += of_two[b]
        squares[b % lanes] += squares_of_two[b]


@njit(cache=True, nogil=True)
def _add_to_block(phi, is_last, of_block, total, squares):
    """Add the contributions of a row to those of its block, and add these to the sums when the block is complete."""
    for b in range(phi.size):
        of_block[b] += phi[b]
    if is_last:
        for b in range(phi.size):
            total[b] += of_block[b]
        for b in range(phi.size):
            squares[b] += of_block[b] * of_block[b]
        of_block[:] = 0.0
