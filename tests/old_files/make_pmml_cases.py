"""Make small PMML files of one tree each, about values, types and predicates, and ask JPMML for its answers.

They are run in the environment of make_pmml.py:

    old/bin/python tests/old_files/make_pmml_cases.py

The script writes ``cases.json`` to ``tests/old_files/pmml``: of each case the file, the rows, and what JPMML answers
for each row: a number, None for no prediction, or the class of an error.
"""

import json
import tempfile
from pathlib import Path

from jpmml_evaluator import make_evaluator

HOME = Path(__file__).parent / "pmml"
HEAD = '<PMML xmlns="http://www.dmg.org/PMML-4_4" version="4.4"><Header/>'
STAYS = 'noTrueChildStrategy="returnLastPrediction"'
PLUS = '<Targets><Target field="y" rescaleFactor="10" rescaleConstant="5"/></Targets>'


def numbers(name, kind="double", inside=""):
    return f'<DataField name="{name}" optype="continuous" dataType="{kind}">{inside}</DataField>'


def labels(name, values=(), kind="string", inside=""):
    listed = "".join(f'<Value value="{each}"/>' for each in values)
    return f'<DataField name="{name}" optype="categorical" dataType="{kind}">{listed}{inside}</DataField>'


def node(score, predicate, *children):
    return f'<Node score="{score}">{predicate}{"".join(children)}</Node>'


def compare(field, operator, value=None):
    of = "" if value is None else f' value="{value}"'
    return f'<SimplePredicate field="{field}" operator="{operator}"{of}/>'


def joined(operator, *parts):
    return f'<CompoundPredicate booleanOperator="{operator}">{"".join(parts)}</CompoundPredicate>'


def schema(fields, more=""):
    columns = "".join(f'<MiningField name="{name}" {more}/>' for name in fields)
    return f'<MiningSchema><MiningField name="y" usageType="target"/>{columns}</MiningSchema>'


def tree(fields, root, attributes=STAYS, more=""):
    return f'<TreeModel functionName="regression" {attributes}>{schema(fields, more)}{root}</TreeModel>'


def file(dictionary, model, transformations=""):
    return f"{HEAD}<DataDictionary>{dictionary}{numbers('y')}</DataDictionary>{transformations}{model}</PMML>"


def split(predicate):
    return node(1, "<True/>", node(2, predicate))


def derived(expression, kind="double", optype="continuous"):
    made = f'<DerivedField name="made" optype="{optype}" dataType="{kind}">{expression}</DerivedField>'
    return f"<TransformationDictionary>{made}</TransformationDictionary>"


def minus(kind, value="0.1"):
    of = f' dataType="{kind}"' if kind else ""
    return f'<Apply function="-"><FieldRef field="a"/><Constant{of}>{value}</Constant></Apply>'


def mapped(field, values, attributes=""):
    """Return a table of numbers for the values of a field."""
    rows = "".join(f"<row><in>{value}</in><out>{made}</out></row>" for value, made in values.items())
    pair = f'<FieldColumnPair field="{field}" column="in"/>'
    return f'<MapValues outputColumn="out" {attributes}>{pair}<InlineTable>{rows}</InlineTable></MapValues>'


def chain(of_chain="", of_last="", method="none"):
    """Return a chain of a sum of one tree and a last model."""
    output = '<Output><OutputField name="z" optype="continuous" dataType="double" isFinalResult="false"/></Output>'
    of_tree = "<MiningSchema><MiningField name='a'/></MiningSchema>"
    one = f'<TreeModel functionName="regression" {STAYS}>{of_tree}{split(compare("a", "lessThan", 0))}</TreeModel>'
    total = (
        f'<MiningModel functionName="regression">{of_tree}{output}<Segmentation multipleModelMethod="sum"><Segment>'
        f"<True/>{one}</Segment></Segmentation></MiningModel>"
    )
    last = (
        f'<RegressionModel functionName="regression" normalizationMethod="{method}">{schema(["z"])}{of_last}'
        '<RegressionTable intercept="0"><NumericPredictor name="z" coefficient="1"/></RegressionTable>'
        "</RegressionModel>"
    )
    segments = "".join(f"<Segment><True/>{each}</Segment>" for each in (total, last))
    return (
        f'<MiningModel functionName="regression">{schema("a")}{of_chain}'
        f'<Segmentation multipleModelMethod="modelChain">{segments}</Segmentation></MiningModel>'
    )


def apply(function, *arguments):
    return f'<Apply function="{function}">{"".join(arguments)}</Apply>'


def constant(value, kind=None):
    of = f' dataType="{kind}"' if kind else ""
    return f"<Constant{of}>{value}</Constant>"


def field(name):
    return f'<FieldRef field="{name}"/>'


def discretized(bins, attributes=""):
    """Return bins of the field a: the value, the closure, and the limits, which may be None."""
    made = ""
    for value, closure, low, high in bins:
        limits = "".join(
            f' {name}="{each}"' for name, each in (("leftMargin", low), ("rightMargin", high)) if each is not None
        )
        made += f'<DiscretizeBin binValue="{value}"><Interval closure="{closure}"{limits}/></DiscretizeBin>'
    return f'<Discretize field="a" {attributes}>{made}</Discretize>'


def within(models, method, weights=None, factor=1, constant=0):
    """Return an ensemble of models."""
    weights = weights or [1] * len(models)
    segments = "".join(
        f'<Segment weight="{weight}"><True/>{each}</Segment>' for each, weight in zip(models, weights, strict=True)
    )
    targets = f'<Targets><Target field="y" rescaleFactor="{factor}" rescaleConstant="{constant}"/></Targets>'
    return (
        f'<MiningModel functionName="regression">{schema("ab")}{targets}'
        f'<Segmentation multipleModelMethod="{method}">{segments}</Segmentation></MiningModel>'
    )


def of_derived():
    """Yield cases about columns that the file computes: bins, choices, tables of labels."""
    rows = [{"a": each} for each in (-2.0, -1.0, 0.0, 0.1, 0.5, 1.0, 2.0, 7.0, None)]
    bins = (
        ("1", "openClosed", None, -1),
        ("2", "openOpen", -1, 0.1),
        ("3", "closedClosed", 0.1, 1),
        ("4", "openOpen", 1, 5),
    )
    steps = node(0, "<True/>", *(node(k, compare("made", "lessOrEqual", k)) for k in range(5)))
    for kind in ("double", "float"):
        for made in ("double", "float", "integer"):
            for more in ("", 'defaultValue="0"', 'mapMissingTo="2"', 'defaultValue="0" mapMissingTo="4"'):
                content = file(numbers("a", kind), tree("a", steps), derived(discretized(bins, more), made))
                yield f"bins of {kind} to {made}, {more}", content, rows
    named = tuple((name, *each[1:]) for name, each in zip(("low", "mid", "high", "low"), bins, strict=True))
    of_label = tree(
        "a",
        node(
            0,
            "<True/>",
            *(node(k, compare("made", "equal", each)) for k, each in enumerate(("low", "high", "none"), 1)),
        ),
    )
    for more in ("", 'defaultValue="none"', 'mapMissingTo="high"'):
        content = file(numbers("a"), of_label, derived(discretized(named, more), "string", "categorical"))
        yield f"bins to labels, {more}", content, rows
    table = derived(mapped("k", {"u": "low", "v": "high", "w": "mid"}, 'defaultValue="none"'), "string", "categorical")
    of_k = of_label.replace('name="a"', 'name="k"')
    yield (
        "labels mapped to labels",
        file(labels("k", "uvwx"), of_k, table),
        [{"k": each} for each in ("u", "v", "w", "x", None)],
    )
    two = [{"a": a, "b": b} for a in (-1.0, 0.1, 1.0, None) for b in (-1.0, 0.1, 1.0, None)]
    below, above = apply("lessThan", field("a"), constant(0.1)), apply("greaterThan", field("b"), constant(0.1))
    conditions = {
        "missing": apply("isMissing", field("a")),
        "present": apply("isNotMissing", field("a")),
        "less": below,
        "less or equal": apply("lessOrEqual", field("a"), constant(0.1)),
        "greater or equal": apply("greaterOrEqual", field("a"), field("b")),
        "equal": apply("equal", field("a"), constant(0.1)),
        "not equal": apply("notEqual", field("a"), constant(0.1)),
        "and": apply("and", below, above),
        "or": apply("or", below, above),
        "not": apply("not", above),
        "and of or": apply("and", apply("or", below, above), apply("isNotMissing", field("b"))),
        "in": apply("isIn", field("a"), constant(-1.0), constant("1.0")),
        "not in": apply("isNotIn", field("a"), constant(-1.0), constant("1.0")),
        "of a sum": apply("greaterThan", apply("+", field("a"), field("b")), constant(0)),
    }
    both = numbers("a") + numbers("b")
    for name, condition in conditions.items():
        for kind, of in {"double": both, "float": numbers("a", "float") + numbers("b", "float")}.items():
            choice = apply("if", condition, constant(1), constant(3))
            content = file(of, tree("ab", steps), derived(choice, kind))
            yield f"if {name}, {kind}", content, two
        choice = apply("if", condition, constant("low", "string"), constant("high", "string"))
        content = file(both, of_label.replace(schema("a"), schema("ab")), derived(choice, "string", "categorical"))
        yield f"if {name}, labels", content, two
        truth = tree("ab", split(compare("made", "equal", "true")))
        yield f"{name}, true or false", file(both, truth, derived(condition, "boolean", "categorical")), two
    filled = apply("if", apply("isNotMissing", field("a")), field("a"), constant(0.1))
    for kind in ("double", "float"):
        for made in ("double", "float"):
            content = file(
                numbers("a", kind), tree("a", split(compare("made", "lessOrEqual", 0.1))), derived(filled, made)
            )
            yield f"{kind} filled in as {made}", content, [{"a": each} for each in (0.1, 0.09, 0.2, None)]
    once = apply("if", apply("isNotMissing", field("a")), field("a"))
    yield "if without another value", file(numbers("a"), tree("a", steps), derived(once)), rows
    for function in ("equal", "notEqual", "isIn", "isNotIn"):
        choice = apply("if", apply(function, field("k"), constant("u")), constant(1), constant(3))
        content = file(labels("k", "uv"), tree("k", steps), derived(choice))
        yield f"if of a label, {function}", content, [{"k": each} for each in ("u", "v", None)]
    other = apply("if", apply("isMissing", field("k")), constant("none", "string"), field("k"))
    content = file(labels("k", ("low", "high")), of_k, derived(other, "string", "categorical"))
    yield "labels filled in", content, [{"k": each} for each in ("low", "high", None)]


def of_ensembles():
    """Yield cases about ensembles within ensembles."""
    rows = [{"a": a, "b": b} for a in (-1.0, 0.5, None) for b in (-1.0, 0.5, None)]
    one, two, three = (
        tree(
            "ab",
            node(k, "<True/>", node(2.5 * k, compare("a", "lessThan", 0)), node(k - 7, compare("b", "lessThan", 0))),
        )
        for k in (1, 2, 5)
    )
    found = {
        "an average of averages": within(
            [within([one, two], "average"), within([two, three, one], "average")], "average"
        ),
        "a sum of averages": within([within([one, two], "average"), three], "sum"),
        "an average of sums": within([within([one, two], "sum"), within([three, one], "sum")], "average", None, 3, 1),
        "a sum of sums": within([within([one, two], "sum", None, 1, 2), within([three], "sum", None, 1, 5)], "sum"),
        "weights of weights": within(
            [within([one, two], "weightedAverage", [1, 3]), within([three, one], "average", None, 2, 1)],
            "weightedAverage", [2, 5], 0.5, 4,
        ),
        "a weighted sum": within([one, two, three], "weightedSum", [0.5, 1, 2], 2, 1),
        "three levels": within([within([within([one, two], "average"), three], "sum"), two], "weightedSum", [0.3, 0.7]),
    }  # fmt: skip
    for name, model in found.items():
        yield name, file(numbers("a") + numbers("b"), model), rows


def of_values():
    """Yield cases about values at limits, values that are very large or small, and trees of one leaf."""
    values = (0.1, 0.10000000149011612, 0.1000000014901162, 0.09999999, 0.10000001, -0.1, 0.0, -0.0, 5e-324, 1e-45)
    extremes = (3.4028234e38, 3.5e38, -3.5e38, 1e308, -1e308, 16777216.0, 16777217.0, 16777218.0)
    rows = [{"a": value} for value in (*values, *extremes)]
    for kind in ("double", "float"):
        for operator in ("lessThan", "lessOrEqual", "greaterThan", "greaterOrEqual", "equal", "notEqual"):
            for limit in ("0.1", "0.10000000149011612", "0", "16777217", "3.4028234E38"):
                content = file(numbers("a", kind), tree("a", split(compare("a", operator, limit))))
                yield f"{kind} {operator} {limit}", content, rows
    leaf = tree("a", node(-1.25, "<True/>"), "")
    yield "one leaf", file(numbers("a"), leaf), rows[:1]
    below = tree("a", split(compare("a", "lessThan", 0.05)))
    yield (
        "one leaf and a tree",
        file(numbers("a"), within([leaf, below, leaf], "sum").replace(schema("ab"), schema("a"))),
        rows,
    )


def cases():
    """Yield the name of each case, its file and its rows."""
    yield from of_values()
    yield from of_derived()
    yield from of_ensembles()
    below = node(1, "<True/>", node(2, compare("a", "lessThan", 0)), node(3, compare("a", "greaterOrEqual", 0)))
    for kind in ("double", "float", "integer"):
        for text in ("-999", "-999.0"):
            missing = f'<Value value="{text}" property="missing"/>'
            rows = [{"a": value} for value in (-999, -999.0, -1, 1)]
            yield f"missing {text} {kind}", file(numbers("a", kind, missing), tree("a", below)), rows
    by_label = tree("k", split(compare("made", "equal", "x")))
    other_name = derived('<FieldRef field="k"/>', "string", "categorical")
    yield "label of another name", file(labels("k"), by_label, other_name), [{"k": "x"}, {"k": "z"}]
    listed = file(labels("k", "ux"), by_label, other_name)
    yield "listed label of another name", listed, [{"k": "x"}, {"k": "u"}, {"k": "z"}]
    as_is = 'invalidValueTreatment="asIs"'
    of_label = tree("k", split(compare("k", "equal", "x")), more=as_is)
    yield "unlisted label as it is", file(labels("k", "uv"), of_label), [{"k": "x"}, {"k": "u"}, {"k": "w"}]
    for kind in ("double", "float", "integer", "string"):
        for more in ("", as_is):
            rows = [{"k": value} for value in ((1, 2, 3) if kind in ("integer", "string") else (1, 1.0, 2.0, 3.0))]
            content = file(labels("k", "12", kind), tree("k", split(compare("k", "equal", 1)), more=more))
            yield f"labels of the type {kind} {more}".strip(), content, rows
    truth = file(labels("k", ("true", "false"), "boolean"), tree("k", split(compare("k", "equal", "true"))))
    yield "labels of the type boolean", truth, [{"k": True}, {"k": False}]
    text = '<Value value="N/A" property="missing"/>'
    content = file(labels("k", "uv", inside=text), tree("k", split(compare("k", "notEqual", "u"))))
    yield "text for a missing label", content, [{"k": each} for each in ("N/A", "u", "v", None)]
    for name, content in {
        "of the chain": chain(PLUS), "of the last model": chain(of_last=PLUS), "none": chain(),
    }.items():  # fmt: skip
        yield f"Targets, {name}", file(numbers("a"), content), [{"a": -1.0}, {"a": 1.0}]
    yield "a logistic regression", file(numbers("a"), chain(method="logit")), [{"a": -1.0}, {"a": 1.0}]
    content = file(
        numbers("a"), tree("a", split(compare("a", "lessThan", 0)), more='missingValueTreatment="returnInvalid"')
    )
    yield "missing values are invalid", content, [{"a": None}, {"a": -1.0}]
    whole = file(numbers("a", "integer"), tree("a", split(compare("a", "lessOrEqual", 2))))
    yield "whole numbers", whole, [{"a": each} for each in (2, 3, 2.0, 2.5, None)]
    at_zero = tree("a", split(compare("made", "lessOrEqual", 0)))
    for field in ("float", "double"):
        for kind in ("float", "double", None):
            content = file(numbers("a", field), at_zero, derived(minus(kind)))
            yield f"{field} minus {kind}", content, [{"a": 0.1}, {"a": 0.11}, {"a": 0.09}]
    content = file(
        numbers("a", "float"), tree("a", split(compare("made", "lessOrEqual", "0.1"))), derived(minus(None, "3"))
    )
    yield "float minus a whole number", content, [{"a": 3.1}, {"a": 3.2}]
    in_float = derived(f'<Apply function="/">{minus("float")}<Constant dataType="float">0.3</Constant></Apply>')
    content = file(numbers("a", "float"), tree("a", split(compare("made", "lessOrEqual", 1))), in_float)
    yield "arithmetic in 32 bits", content, [{"a": each} for each in (0.4, 0.40000001, 0.41, 0.39)]
    interval = '<Interval closure="closedClosed" leftMargin="0" rightMargin="1"/>'
    for treatment in ("returnInvalid", "asIs", "asMissing"):
        more = f'invalidValueTreatment="{treatment}" missingValueReplacement="0.7"'
        content = file(numbers("a", inside=interval), tree("a", split(compare("a", "lessThan", 0.5)), more=more))
        yield f"interval, {treatment}", content, [{"a": each} for each in (-1.0, 0.2, 0.9, 1.0, None)]
    points = '<LinearNorm orig="0" norm="0"/><LinearNorm orig="2" norm="1"/>'
    scaling = derived(f'<NormContinuous field="a">{points}</NormContinuous>')
    root = node(
        1, "<True/>", *(node(2 + k, compare("made", "lessOrEqual", each)) for k, each in enumerate((0, 0.5, 1)))
    )
    yield "scaling", file(numbers("a"), tree("a", root), scaling), [{"a": each} for each in (-1.0, 0.5, 1.5, 3.0, None)]
    root = node(
        1, "<True/>", *(node(2 + k, compare("made", "lessOrEqual", each)) for k, each in enumerate((-1, 0.1, 1)))
    )
    values = {"u": 0.1, "v": 1, "w": 2.5}
    for more in ("", 'defaultValue="-1"', 'mapMissingTo="0"', 'defaultValue="-1" mapMissingTo="0"'):
        for treatment in ("returnInvalid", "asIs", "asMissing"):
            for of, listed in {"all": "uvwx", "some": "uvx", "none": ""}.items():
                for kind in ("double", "float"):
                    table = derived(mapped("k", values, more), kind)
                    of_tree = tree("k", root, more=f'invalidValueTreatment="{treatment}"')
                    content = file(labels("k", listed), of_tree, table)
                    name = f"labels mapped to numbers, {of} listed, {treatment}, {more}, {kind}"
                    yield name, content, [{"k": each} for each in ("u", "v", "w", "x", "z", None)]
    for kind in ("integer", "double", "float"):
        for optype in ("continuous", "categorical"):
            table = derived(mapped("a", {"1": 0, "2.0": 1, "4": 3}, 'defaultValue="-1"'), "integer", optype)
            yield (
                f"{kind} mapped to whole numbers, {optype}",
                file(numbers("a", kind), tree("a", split(compare("made", "equal", 1))), table),
                [{"a": each} for each in (1, 2, 2.0, 3, 4, None)],
            )
    two = numbers("a") + numbers("b")
    rows = [{"a": a, "b": b} for a in (-1.0, 1.0, None) for b in (-1.0, 1.0, None)]
    for operator in ("and", "or", "xor", "surrogate"):
        for strategy in ("none", "lastPrediction", "nullPrediction"):
            both = joined(operator, compare("a", "lessThan", 0), compare("b", "lessThan", 0))
            root = node(1, "<True/>", node(2, both), node(3, compare("a", "greaterThan", 0)))
            content = file(two, tree("ab", root, f'missingValueStrategy="{strategy}" {STAYS}'))
            yield f"{operator}, {strategy}", content, rows
    first = node(2, joined("or", compare("a", "isMissing"), compare("a", "lessThan", 0)))
    rest = (
        node(3, compare("b", "isNotMissing"), node(4, compare("b", "equal", 1)), node(5, "<True/>")),
        node(6, "<True/>"),
    )
    yield "tests for missing values", file(two, tree("ab", node(1, "<True/>", first, *rest), "")), rows


def answer(content, rows):
    """Return JPMML's answers."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.pmml"
        path.write_text(content)
        evaluator = make_evaluator(str(path), backend="jpype")
        for row in rows:
            try:
                value = evaluator.evaluate(row)["y"]
                found.append(None if value is None else float(value))
            except Exception as error:  # of Java
                found.append(str(error).partition(":")[0].rpartition(".")[2])
    return found


def main():
    """Write the cases."""
    made = {name: {"file": content, "rows": rows, "answers": answer(content, rows)} for name, content, rows in cases()}
    (HOME / "cases.json").write_text(json.dumps(made, indent=0) + "\n")


if __name__ == "__main__":
    main()
