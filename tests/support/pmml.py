"""PMML: a writer for the trees of any model, files drawn at random, and an evaluator by the words of the standard."""

from __future__ import annotations

import random
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<PMML xmlns="http://www.dmg.org/PMML-4_4" version="4.4">'
HEADER = '<Header><Application name="debias tests" version="1"/></Header>'


def file(fields, response, model, transformations=""):
    """Return the text of a file; `fields` and `response` are elements DataField."""
    dictionary = f"<DataDictionary>{''.join(fields)}{response}</DataDictionary>"
    return f"{HEAD}{HEADER}{dictionary}{transformations}{model}</PMML>".encode()


def numbers(name, kind="double", inside=""):
    return f'<DataField name={quoteattr(name)} optype="continuous" dataType="{kind}">{inside}</DataField>'


def labels(name, values, kind="string"):
    values = "".join(f"<Value value={quoteattr(str(value))}/>" for value in values)
    return f'<DataField name={quoteattr(name)} optype="categorical" dataType="{kind}">{values}</DataField>'


def schema(names, response="y", **attributes):
    """Return a MiningSchema; `attributes` are those of all columns."""
    more = "".join(f' {name}="{value}"' for name, value in attributes.items())
    columns = "".join(f"<MiningField name={quoteattr(name)}{more}/>" for name in names)
    return f'<MiningSchema><MiningField name="{response}" usageType="target"/>{columns}</MiningSchema>'


def tree(schema, root, function="regression", **attributes):
    more = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<TreeModel functionName="{function}"{more}>{schema}{root}</TreeModel>'


def ensemble(schema, trees, method, function="regression", weights=None, targets=""):
    weights = weights or [1] * len(trees)
    segments = "".join(
        f'<Segment weight="{weight}"><True/>{each}</Segment>' for each, weight in zip(trees, weights, strict=True)
    )
    segmentation = f'<Segmentation multipleModelMethod="{method}">{segments}</Segmentation>'
    output = _PROBABILITIES if function == "classification" else ""
    return f'<MiningModel functionName="{function}">{schema}{output}{targets}{segmentation}</MiningModel>'


def written(model):
    """Return the file of a TreeEnsemble with one output: a mean of its trees, or their sum."""
    names, known = model.feature_names, model.category_labels or {}
    fields = [labels(name, known[k]) if k in known else numbers(name) for k, name in enumerate(names)]
    inner = schema(names)
    trees = [
        tree(inner, _node(model, t), missingValueStrategy="defaultChild", splitCharacteristic="binarySplit")
        for t in range(model.n_trees)
    ]
    base = f'<Targets><Target field="y" rescaleConstant="{float(model.base[0])!r}"/></Targets>'
    return file(fields, numbers("y"), ensemble(inner, trees, "average" if model.averaged else "sum", targets=base))


def _node(model, t, predicate="<True/>", at=0):
    k = model.tree_start[t] + at
    count = "" if model.count is None else f' recordCount="{model.count[k]}"'
    feature = model.feature[k]
    if feature < 0:
        return f'<Node id="{at}" score="{float(model.value[k, 0])!r}"{count}>{predicate}</Node>'
    name = quoteattr(model.feature_names[feature])
    left, right = model.left[k], model.right[k]
    if model.category_set is not None and model.category_set[k] >= 0:
        s = model.category_set[k]
        codes = model.category_codes[model.category_start[s] : model.category_start[s + 1]]
        listed = " ".join('"' + str(model.category_labels[feature][code]) + '"' for code in codes)
        array = f'<Array type="string" n="{len(codes)}">{listed.replace("&", "&amp;").replace("<", "&lt;")}</Array>'
        sides = ("isIn", "isNotIn") if model.listed_left[s] else ("isNotIn", "isIn")
        tests = [
            f'<SimpleSetPredicate field={name} booleanOperator="{each}">{array}</SimpleSetPredicate>' for each in sides
        ]
    else:
        limit = f'value="{float(model.threshold[k])!r}"'
        tests = [
            f'<SimplePredicate field={name} operator="{each}" {limit}/>' for each in ("lessOrEqual", "greaterThan")
        ]
    default = left if model.missing_left[k] else right
    below = "".join(_node(model, t, test, child) for test, child in zip(tests, (left, right), strict=True))
    return f'<Node id="{at}" defaultChild="{default}"{count}>{predicate}{below}</Node>'


# --- files drawn at random

COLORS = ("red", "light green", 'the "blue"', "grey & <white>")
WORDS = ("a", "b", "few", "color")
CLASSES = ("no", "yes", "perhaps")
_PROBABILITIES = "".join(
    f'<OutputField name="probability({each})" feature="probability" value="{each}" '
    'optype="continuous" dataType="double"/>'
    for each in CLASSES
)
_PROBABILITIES = f"<Output>{_PROBABILITIES}</Output>"


def rows(seed, n=40):
    """Return rows as lists of values: two numbers, a whole number and a color. One in six is missing."""
    draw = random.Random(seed)
    values = [
        lambda: round(draw.gauss(0, 1), 1),
        lambda: round(draw.expovariate(1), 1),
        lambda: draw.randrange(5),
        lambda: draw.choice(COLORS),
    ]
    return [[None if draw.random() < 1 / 6 else value() for value in values] for _ in range(n)]


def drawn(seed):
    """Return a file with random trees: nodes with several children, compound predicates, all ways of missing values."""
    draw = random.Random(seed)
    fields = [numbers("a"), numbers("b", "float"), numbers("few", "integer"), labels("color", COLORS)]
    function = draw.choice(["regression", "regression", "classification"])
    inner = schema(WORDS)
    trees = [_drawn_tree(draw, inner, function) for _ in range(draw.randrange(1, 4))]
    if function == "classification":
        response, methods = labels("y", CLASSES), ("average", "majorityVote", "weightedAverage")
    else:
        response, methods = numbers("y"), ("sum", "average", "weightedAverage")
    weights = [draw.choice([1, 2, 0.5]) for _ in trees]
    targets = ""
    if function == "regression" and draw.random() < 0.5:
        targets = (
            f'<Targets><Target field="y" rescaleFactor="{draw.choice([0.1, 2])}" rescaleConstant="1.5"/></Targets>'
        )
    return file(fields, response, ensemble(inner, trees, draw.choice(methods), function, weights, targets))


def _drawn_tree(draw, inner, function):
    strategy = draw.choice(["none", "none", "defaultChild", "lastPrediction", "nullPrediction"])
    keeps = strategy != "defaultChild" and draw.random() < 0.5
    numbered = iter(range(1000))
    root = _drawn_node(draw, numbered, strategy, keeps, function, depth=3, predicate="<True/>")
    otherwise = "returnLastPrediction" if keeps else "returnNullPrediction"
    return tree(inner, root, function, missingValueStrategy=strategy, noTrueChildStrategy=otherwise)


def _drawn_node(draw, numbered, strategy, keeps, function, depth, predicate):
    name = f"n{next(numbered)}"
    if function == "regression":
        score, shares = f' score="{round(draw.gauss(0, 1), 3)}"', ""
    else:
        counts = [draw.randrange(1, 9) for _ in range(3)]
        score = f' score="{CLASSES[counts.index(max(counts))]}"'
        shares = "".join(
            f'<ScoreDistribution value="{each}" recordCount="{count}"/>'
            for each, count in zip(CLASSES, counts, strict=True)
        )
    if depth == 0 or draw.random() < 0.15:
        return f'<Node id="{name}"{score}>{predicate}{shares}</Node>'
    tests = _drawn_tests(draw, strategy, keeps)
    children = [_drawn_node(draw, numbered, strategy, keeps, function, depth - 1, test) for test in tests]
    default = ""
    if strategy == "defaultChild":
        named = ElementTree.fromstring(f"<x>{''.join(children)}</x>")
        default = f' defaultChild="{draw.choice([each.get("id") for each in named])}"'
    return f'<Node id="{name}"{score}{default}>{predicate}{shares}{"".join(children)}</Node>'


def _drawn_tests(draw, strategy, keeps):
    """Return predicates of the children of a node; without `keeps`, one of them holds for every row without NaN."""
    if keeps and draw.random() < 0.6:  # the compact form of sklearn2pmml
        return [_simple(draw, draw.choice(WORDS)) for _ in range(draw.randrange(1, 4))]
    name = draw.choice(WORDS)
    if name == "color":
        chosen = draw.sample(COLORS, draw.randrange(1, 4))
        kind = draw.random()
        if kind < 0.4 and len(chosen) == 1:
            return [_compare(name, "equal", chosen[0]), _compare(name, "notEqual", chosen[0])]
        return [_set(name, "isIn", chosen), _set(name, "isNotIn", chosen)]
    low, high = sorted(draw.sample([-1, -0.5, 0, 0.3, 1, 2, 3], 2))
    kind = draw.randrange(5)
    if kind == 0 and strategy != "defaultChild":
        between = _joined("and", _compare(name, "greaterThan", low), _compare(name, "lessOrEqual", high))
        return [_compare(name, "lessOrEqual", low), between, _compare(name, "greaterThan", high)]
    if kind == 1:
        missing = f'<SimplePredicate field="{name}" operator="isMissing"/>'
        return [_joined("or", missing, _compare(name, "lessThan", low)), _compare(name, "greaterOrEqual", low)]
    if kind == 2 and strategy == "none":
        both = _joined("and", _compare(name, "lessThan", low), _simple(draw, draw.choice(WORDS)))
        return [both, "<True/>"]
    if kind == 3 and strategy == "none":
        other = _joined("or", _simple(draw, draw.choice(WORDS)), _compare(name, "greaterThan", high))
        return [other, "<True/>"]
    return [_compare(name, "lessOrEqual", low), _compare(name, "greaterThan", low)]


def _simple(draw, name):
    if name == "color":
        return _set(name, draw.choice(["isIn", "isNotIn"]), draw.sample(COLORS, 2))
    operator = draw.choice(["lessThan", "lessOrEqual", "greaterThan", "greaterOrEqual", "equal", "notEqual"])
    return _compare(name, operator, draw.choice([-0.5, 0, 0.3, 1, 2]))


def _compare(name, operator, value):
    value = quoteattr(str(int(value) if name == "few" else value))
    return f'<SimplePredicate field="{name}" operator="{operator}" value={value}/>'


def _set(name, operator, values):
    texts = " ".join('"' + value.replace('"', '\\"') + '"' for value in values)
    texts = texts.replace("&", "&amp;").replace("<", "&lt;")
    array = f'<Array type="string" n="{len(values)}">{texts}</Array>'
    return f'<SimpleSetPredicate field="{name}" booleanOperator="{operator}">{array}</SimpleSetPredicate>'


def _joined(operator, *parts):
    return f'<CompoundPredicate booleanOperator="{operator}">{"".join(parts)}</CompoundPredicate>'


# --- the evaluator


def evaluated(content, row):
    """Return the prediction for a row, a dict: a number, or shares of classes by label; None if there is none."""
    root = ElementTree.fromstring(content)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    model = root.find("MiningModel")
    segments = model.findall("Segmentation/Segment")
    method = model.find("Segmentation").get("multipleModelMethod")
    found = [_predicted(each.find("TreeModel"), row, "Vote" in method) for each in segments]
    if any(each is None for each in found):
        return None
    weights = [float(each.get("weight")) if method.startswith("weighted") else 1.0 for each in segments]
    if method == "sum":
        total = sum(found)
    elif model.get("functionName") == "regression":
        total = sum(w * each for w, each in zip(weights, found, strict=True)) / sum(weights)
    else:
        return {
            label: sum(w * each.get(label, 0.0) for w, each in zip(weights, found, strict=True)) / sum(weights)
            for label in {label for each in found for label in each}
        }
    target = model.find("Targets/Target")
    if target is None:
        return total
    return total * float(target.get("rescaleFactor", "1")) + float(target.get("rescaleConstant", "0"))


def _predicted(model, row, by_vote):
    strategy = model.get("missingValueStrategy", "none")
    node = model.find("Node")
    while node.find("Node") is not None:
        following = None
        for child in node.findall("Node"):
            truth = _holds(child[0], row)
            if truth is None and strategy == "nullPrediction":
                return None
            if truth is None and strategy == "lastPrediction":
                return _result(node, by_vote)
            if truth is None and strategy == "defaultChild":
                following = next(each for each in node if each.get("id") == node.get("defaultChild"))
                break
            if truth:
                following = child
                break
        if following is None:
            return _result(node, by_vote) if model.get("noTrueChildStrategy") == "returnLastPrediction" else None
        node = following
    return _result(node, by_vote)


def _result(node, by_vote):
    shares = {each.get("value"): float(each.get("recordCount")) for each in node.findall("ScoreDistribution")}
    if not shares:
        return float(node.get("score"))
    return {node.get("score"): 1.0} if by_vote else {k: each / sum(shares.values()) for k, each in shares.items()}


def _holds(predicate, row):
    """Return True, False, or None if it is not known."""
    if predicate.tag in ("True", "False"):
        return predicate.tag == "True"
    if predicate.tag == "CompoundPredicate":
        parts = [_holds(each, row) for each in predicate]
        if predicate.get("booleanOperator") == "and":
            return False if False in parts else None if None in parts else True
        return True if True in parts else None if None in parts else False
    value, operator = row[predicate.get("field")], predicate.get("operator") or predicate.get("booleanOperator")
    if operator == "isMissing":
        return value is None
    if value is None:
        return None
    if operator in ("isIn", "isNotIn"):
        texts = predicate.find("Array").text
        listed = [color for color in COLORS if '"' + color.replace('"', '\\"') + '"' in texts]
        return (value in listed) == (operator == "isIn")
    limit = predicate.get("value")
    if isinstance(value, str):
        return (value == limit) == (operator == "equal")
    limit = float(limit)
    if predicate.get("field") == "b":  # of the type float
        value, limit = _as_float(value), _as_float(limit)
    return {
        "lessThan": value < limit,
        "lessOrEqual": value <= limit,
        "greaterThan": value > limit,
        "greaterOrEqual": value >= limit,
        "equal": value == limit,
        "notEqual": value != limit,
    }[operator]


def _as_float(value):
    import struct

    return struct.unpack("f", struct.pack("f", value))[0]
