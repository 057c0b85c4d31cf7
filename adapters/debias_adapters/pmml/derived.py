"""The columns that a PMML file derives from others: scalings, one-hot columns, tables, bins, choices and arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError
from debias.text import listed
from debias_adapters.pmml.document import SOURCE, damaged, number, to_number, unsupported
from debias_adapters.pmml.fields import NUMBERS, ROW, Derived, Field, in_single, inputs_of_column, interval_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from xml.etree.ElementTree import Element

    from numpy.typing import NDArray

    from debias_adapters.pmml.fields import Fields

    Floats = NDArray[np.float64]
    Values = dict[str, Floats]


def add_derived(fields: Fields, elements: Iterable[Element]) -> None:
    """Add the derived fields of a list of transformations, in the order of the file."""
    for element in elements:
        name = element.get("name", "")
        expressions = [each for each in element if each.tag not in ("Extension", "Value")]
        if len(expressions) != 1:
            raise damaged(f"the derived field {name!r} has {len(expressions)} expressions")
        if name in fields.derived or name in fields.other_names:
            raise unsupported(f"two derived fields with the name {name!r}")
        kind, categorical = element.get("dataType", ""), element.get("optype") in ("categorical", "ordinal")
        (expression,) = expressions
        if categorical and expression.tag == "FieldRef":
            _add_other_name(fields, name, kind, expression)
            continue
        whole = kind == "integer" and (expression.tag in WHOLE or expression.get("function") == "if")
        if kind not in ("double", "float") and not whole and not (categorical and kind in ("string", "boolean")):
            raise unsupported(f"the derived field {name!r} of the type {kind!r}")
        if categorical and expression.tag not in CHOICES and expression.get("function") not in CHOOSING:
            raise unsupported(f"the derived categories {name!r} by {expression.tag}")
        made = expression_of(fields, expression, kind)
        if (made.labels is None) != (kind in NUMBERS):
            raise unsupported(f"the derived field {name!r} of the type {kind!r}, made of the type {made.type!r}")
        if kind == "integer" and made.type != "integer" and expression.tag != "NormDiscrete":
            raise unsupported(f"the derived field {name!r}, which makes whole numbers of others")
        of = dict.fromkeys(each for used in made.used for each in inputs_of_column(fields, used))
        as_field = Field(name, kind, made.labels, closed=made.labels is not None)
        fields.derived[name] = Derived(as_field, tuple(of), made.used, made.compute)


def _add_other_name(fields: Fields, name: str, kind: str, expression: Element) -> None:
    """Add derived categories: a column of categories under another name."""
    if expression.get("mapMissingTo") is not None:
        raise unsupported(f"the derived categories {name!r} with mapMissingTo")
    source = fields.find(expression.get("field"))
    if source.labels is None or source.type != kind:
        raise unsupported(f"the derived categories {name!r} of the type {kind!r}, made of the type {source.type!r}")
    fields.other_names[name] = source.name


WHOLE = ("FieldRef", "NormDiscrete", "MapValues", "Discretize")
"""Expressions that give whole numbers of whole numbers."""
CHOICES = ("MapValues", "Discretize")
"""Expressions that give one of a few values."""


@dataclass(frozen=True, eq=False)
class _Computed:
    """An expression.

    Parameters
    ----------
    compute : callable
        Returns its values for those of all columns by name: numbers, codes of its labels, or 1 and 0 for true and
        false; NaN where one is missing.
    used : tuple of str
        The columns in it.
    type : str
        Of its result: one of `NUMBERS`, "string", "boolean", or "mixed" for numbers of several types.
    labels : tuple of str, or None
        The categories of its result; None for numbers.
    text : str or None
        Of a constant: what stands there.
    """

    compute: Callable[[Values], Floats]
    used: tuple[str, ...]
    type: str
    labels: tuple[str, ...] | None = None
    text: str | None = None


TRUTH = ("false", "true")
"""Labels of what is true or not, by their codes."""


def expression_of(fields: Fields, element: Element, kind: str) -> _Computed:
    """Return what an expression computes. `kind` is the type that it is wanted for."""
    if element.tag == "Constant":
        return _constant(element, kind)
    if element.tag == "Apply":
        return _apply(fields, element, kind)
    if element.tag == "MapValues":
        return _mapped(fields, element, kind)
    if element.tag == "Discretize":
        return _discretized(fields, element, kind)
    if element.tag not in ("FieldRef", "NormDiscrete", "NormContinuous"):
        raise unsupported(f"a derived field by {element.tag}")
    source = fields.find(element.get("field", ""))
    name = source.name
    if element.get("mapMissingTo") is not None:
        raise unsupported(f"mapMissingTo in an expression of {name!r}")
    if element.tag == "FieldRef":
        if source.labels is None:
            return _Computed(lambda found: found[name], (name,), source.type)
        if kind in NUMBERS or not source.closed or source.invalid == "asIs":
            raise unsupported(f"an expression that takes the field {name!r} as numbers, or any of its labels")
        return _Computed(lambda found: found[name], (name,), source.type, tuple(source.codes))
    if element.tag == "NormDiscrete":
        code = fields.code_of(name, element.get("value", ""))
        return _Computed(lambda found: np.where(np.isnan(found[name]), np.nan, found[name] == code), (name,), "double")
    return _Computed(_scaling(element, source), (name,), "double")


def _values_of(texts: Iterable[str | None], kind: str, what: str) -> tuple[list[float], str, tuple[str, ...] | None]:
    """Return texts of a file as numbers (NaN for None) or as codes of labels, with their type and the labels."""
    given = list(texts)
    if kind in NUMBERS:
        numbers = [float("nan") if each is None else to_number(each, what) for each in given]
        is_whole = all(each.is_integer() or np.isnan(each) for each in numbers)
        return numbers, "integer" if is_whole else "double", None
    labels = TRUTH if kind == "boolean" else tuple(dict.fromkeys(each for each in given if each is not None))
    if kind == "boolean" and not {each for each in given if each is not None} <= set(TRUTH):
        raise damaged(f"{what} is neither true nor false")
    code = {label: float(k) for k, label in enumerate(labels)}
    return [float("nan") if each is None else code[each] for each in given], kind, labels


def _mapped(fields: Fields, element: Element, kind: str) -> _Computed:
    """Return what a table gives for the values of one column, as ordinal and target encoders have it."""
    pairs = list(element.iterfind("FieldColumnPair"))
    rows = element.findall("InlineTable/row")
    if len(pairs) != 1 or not rows:
        raise unsupported("a MapValues of several columns, or without an InlineTable")
    source = fields.find(pairs[0].get("field", ""))
    name = source.name
    text_of = dict[float, str]()
    for row in rows:
        cells = {_local(each.tag): each.text for each in row}
        value, made = cells.get(_local(pairs[0].get("column", ""))), cells.get(_local(element.get("outputColumn", "")))
        if value is None or made is None:
            raise damaged(f"a row of the MapValues of {name!r} has no value, or nothing that it is mapped to")
        key = fields.code_of(name, value)
        if np.isnan(key):  # rows with a category that the file does not list are refused
            continue
        if key in text_of:
            raise damaged(f"the MapValues of {name!r} has the value {value!r} twice")
        text_of[key] = made
    texts = (*text_of.values(), element.get("defaultValue"), element.get("mapMissingTo"))
    values, result, labels = _values_of(texts, kind, f"a value of the MapValues of {name!r}")
    value_of, (other, missing) = dict(zip(text_of, values, strict=False)), values[-2:]

    def mapped(found: Values) -> Floats:
        x = found[name]
        return np.array([missing if np.isnan(each) else value_of.get(each, other) for each in x.tolist()])

    return _Computed(mapped, (name,), result, labels)


def _discretized(fields: Fields, element: Element, kind: str) -> _Computed:
    """Return the value of the first bin that a number is in."""
    source = fields.find(element.get("field", ""))
    name = source.name
    if source.labels is not None:
        raise unsupported(f"a Discretize of the labels of {name!r}")
    bins = element.findall("DiscretizeBin")
    inside = []
    for each in bins:
        interval = each.find("Interval")
        if interval is None or each.get("binValue") is None:
            raise damaged(f"a bin of the Discretize of {name!r} has no Interval, or no binValue")
        inside.append(interval_of(interval))
    texts = (*(each.get("binValue") for each in bins), element.get("defaultValue"), element.get("mapMissingTo"))
    values, result, labels = _values_of(texts, kind, f"a value of the Discretize of {name!r}")
    *of_bin, other, missing = values

    def discretized(found: Values) -> Floats:
        x = found[name]
        made = np.full(x.size, other)
        for (low, high, with_low, with_high), value in zip(reversed(inside), reversed(of_bin), strict=True):
            above = x >= low if with_low else x > low
            made[above & (x <= high if with_high else x < high)] = value
        made[np.isnan(x)] = missing
        return made

    return _Computed(discretized, (name,), result, labels)


def _local(name: str) -> str:
    """Return the name of a column of a table without its prefix."""
    return name.rpartition(":")[2]


def _constant(element: Element, kind: str) -> _Computed:
    text = element.text or ""
    if kind not in NUMBERS:
        (code,), made, labels = _values_of([text], kind, "a Constant")
        return _Computed(lambda found: np.full(_n_rows(found), code), (), made, labels, text)
    value = to_number(text, "a Constant")
    kind = element.get("dataType", "integer" if value.is_integer() and "." not in text else "double")
    if kind not in NUMBERS:
        raise unsupported(f"a Constant of the type {kind!r}")
    constant = float(np.float32(value)) if kind == "float" else value
    return _Computed(lambda found: np.full(_n_rows(found), constant), (), kind, None, text)


def _n_rows(found: Values) -> int:
    return len(next(iter(found.values())))


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": np.equal,
    "notEqual": np.not_equal,
    "lessThan": np.less,
    "lessOrEqual": np.less_equal,
    "greaterThan": np.greater,
    "greaterOrEqual": np.greater_equal,
}
SETS = ("isIn", "isNotIn")
OF_MISSING = ("isMissing", "isNotMissing")
_JOINED: dict[str, Callable[[Floats], Floats]] = {
    "and": lambda parts: parts.min(axis=0),
    "or": lambda parts: parts.max(axis=0),
    "not": lambda parts: 1 - parts[0],
}
LOGIC = tuple(_JOINED)
CHOOSING = ("if", *COMPARISONS, *SETS, *OF_MISSING, *LOGIC)
"""Functions whose result may be labels, or true and false."""


def _apply(fields: Fields, element: Element, kind: str) -> _Computed:
    function = element.get("function", "")
    if function not in (*OPERATIONS, *CHOOSING) or {"mapMissingTo", "defaultValue"} & set(element.attrib):
        raise unsupported(f"a derived field by the function {function!r}")
    parts = [each for each in element if each.tag not in ("Extension",)]
    _refuse_depth(element)
    if function == "if":
        return _if(fields, parts, kind)
    if function in OPERATIONS:
        return _arithmetic(fields, function, parts)
    made = _truth(fields, function, parts)
    if kind in NUMBERS:
        raise unsupported(f"the function {function!r}, which is true or false, as a number")
    return made


DEEPEST = 50
"""Most functions within functions."""


def _refuse_depth(element: Element) -> None:
    level, depth = [element], 0
    while level:
        level = [each for part in level for each in part if each.tag == "Apply"]
        depth += 1
        if depth > DEEPEST:
            raise unsupported(f"functions within functions in more than {DEEPEST} levels")


def _arithmetic(fields: Fields, function: str, arguments: list[Element]) -> _Computed:
    if any(each.tag in CHOICES for each in arguments):
        raise unsupported(f"a MapValues or a Discretize inside of the function {function!r}")
    parts = [expression_of(fields, each, "double") for each in arguments]
    if len(parts) != 2:
        raise damaged(f"the function {function!r} has {len(parts)} arguments")
    first, second = parts
    kinds = {first.type, second.type}
    if "mixed" in kinds:
        raise unsupported(f"the function {function!r} of numbers of different types")
    kind = next(each for each in NUMBERS if each in kinds)
    if kind == "integer" and function == "/":
        raise unsupported("a division of whole numbers in a derived field")

    def compute(found: Values) -> Floats:
        made = OPERATIONS[function](first.compute(found), second.compute(found))
        # One operation in 64 bits that is rounded to 32 is this operation in 32 bits.
        return in_single(made) if kind == "float" else made

    return _Computed(compute, (*first.used, *second.used), kind)


def _if(fields: Fields, arguments: list[Element], kind: str) -> _Computed:
    """Return a choice between two values; missing where the condition does not hold and there is no second value.

    Only the value that is chosen is computed: the other one may be wrong for the row.
    """
    if len(arguments) not in (2, 3):
        raise damaged(f"the function 'if' has {len(arguments)} arguments")
    condition = expression_of(fields, arguments[0], "boolean")
    if condition.type != "boolean":
        raise unsupported("an 'if' whose condition is neither true nor false")
    parts = [expression_of(fields, each, kind) for each in arguments[1:]]
    labels, codes = None, [np.empty(0)] * 2
    if kind not in NUMBERS:
        if any(each.labels is None for each in parts):
            raise unsupported(f"an 'if' of the type {kind!r} with a value of another type")
        labels = (
            TRUTH if kind == "boolean" else tuple(dict.fromkeys(label for each in parts for label in each.labels or ()))
        )
        codes = [np.array([labels.index(label) for label in each.labels or ()], dtype=np.float64) for each in parts]

    def value(part: int, found: Values) -> Floats:
        made = parts[part].compute(found)
        if labels is None:
            return made
        known = ~np.isnan(made)
        return np.where(known, codes[part][np.where(known, made, 0).astype(np.int64)], np.nan)

    def compute(found: Values) -> Floats:
        holds = condition.compute(found) == 1
        made = np.full(holds.size, np.nan)
        for part, rows in enumerate((holds, ~holds)[: len(parts)]):
            made[rows] = value(part, {name: each[rows] for name, each in found.items()})
        return made

    kinds = {each.type for each in parts}
    made = next(iter(kinds)) if len(kinds) == 1 else "mixed" if "float" in kinds or "mixed" in kinds else "double"
    used = tuple(name for each in (condition, *parts) for name in each.used)
    return _Computed(compute, used, made if labels is None else kind, labels)


def _truth(fields: Fields, function: str, arguments: list[Element]) -> _Computed:
    """Return what is true or false: a comparison, a set, a test for missing values, or these joined."""
    if function in LOGIC:
        parts = [expression_of(fields, each, "boolean") for each in arguments]
        if any(each.type != "boolean" for each in parts) or len(parts) < (1 if function == "not" else 2):
            raise unsupported(f"the function {function!r} of what is neither true nor false")
        if function == "not" and len(parts) != 1:
            raise damaged(f"the function 'not' has {len(parts)} arguments")
        used = tuple(name for each in parts for name in each.used)
        return _Computed(
            lambda found: _JOINED[function](np.array([each.compute(found) for each in parts])), used, "boolean", TRUTH
        )
    if not arguments:
        raise damaged(f"the function {function!r} has no arguments")
    first, *others = arguments
    if function in OF_MISSING:
        if others or first.tag != "FieldRef":
            raise unsupported(f"the function {function!r} of another expression than one field")
        name, sense = fields.find(first.get("field", "")).name, function == "isMissing"
        return _Computed(lambda found: (np.isnan(found[name]) == sense).astype(float), (name,), "boolean", TRUTH)
    if not others or (function in COMPARISONS and len(others) != 1):
        raise damaged(f"the function {function!r} has {len(arguments)} arguments")
    source = fields.find(first.get("field", "")) if first.tag == "FieldRef" else None
    if source is not None and source.labels is not None:
        return _label_truth(fields, function, source, others)
    compared = expression_of(fields, first, "double")
    values = [expression_of(fields, each, "double") for each in others]
    if function in SETS and any(each.text is None for each in values):
        raise unsupported(f"the function {function!r} with other values than constants")
    used = tuple(name for each in (compared, *values) for name in each.used)
    if compared.type == "mixed" or (compared.type == "integer" and any(each.type != "integer" for each in values)):
        raise unsupported(f"the function {function!r} of numbers of different types")

    def compute(found: Values) -> Floats:
        x, others = compared.compute(found), [each.compute(found) for each in values]
        if compared.type == "float":  # values are compared in the type of the first
            others = [in_single(each) for each in others]
        if function in SETS:
            return _in(function, x, np.any([x == each for each in others], axis=0))
        _refuse_missing(function, used, [x, *others], found)
        return np.asarray(COMPARISONS[function](x, others[0]), dtype=np.float64)

    return _Computed(compute, used, "boolean", TRUTH)


def _label_truth(fields: Fields, function: str, source: Field, others: list[Element]) -> _Computed:
    """Return whether a label is one of some constants."""
    if function not in ("equal", "notEqual", *SETS) or any(each.tag != "Constant" for each in others):
        raise unsupported(f"the function {function!r} of the labels of {source.name!r}")
    name, sense = source.name, function in ("equal", "isIn")
    codes = [fields.code_of(name, each.text or "") for each in others]

    def compute(found: Values) -> Floats:
        x = found[name]
        if function not in SETS:
            _refuse_missing(function, (name,), [x], found)
        return _in(function, x, np.isin(x, codes)) if function in SETS else (np.isin(x, codes) == sense).astype(float)

    return _Computed(compute, (name,), "boolean", TRUTH)


def _in(function: str, x: Floats, is_in: NDArray[np.bool_]) -> Floats:
    """Return the answer of ``isIn`` or ``isNotIn``: a missing value is in no set."""
    return (is_in == (function == "isIn")).astype(float)


def _refuse_missing(function: str, names: tuple[str, ...], values: list[Floats], found: Values) -> None:
    """Refuse rows with a missing value in a comparison: evaluators give no prediction for them."""
    missing = np.flatnonzero(np.isnan(values).any(axis=0))
    if missing.size:
        columns = listed(list(map(repr, dict.fromkeys(names))))
        raise RowsError(
            f"row {int(found[ROW][missing[0]])} has a missing value in {columns}, which the {SOURCE} compares by the "
            f"function {function!r} ({missing.size} such rows): leave these rows out, or fill in the values"
        )


def _scaling(element: Element, source: Field) -> Callable[[Values], Floats]:
    """Return a piecewise linear function, which goes on beyond its ends."""
    name = source.name
    if element.get("outliers", "asIs") != "asIs" or source.labels is not None:
        raise unsupported(f"a NormContinuous of {name!r} with other outliers than asIs, or of categories")
    points = np.array([[number(each, "orig"), number(each, "norm")] for each in element.iterfind("LinearNorm")])
    if len(points) < 2 or not (np.diff(points[:, 0]) > 0).all():
        raise damaged(f"the NormContinuous of {name!r} has not two or more ascending points")
    slope = np.diff(points[:, 1]) / np.diff(points[:, 0])

    def scaled(found: Values) -> Floats:
        x = found[name]
        part = np.clip(np.searchsorted(points[:, 0], x, side="right") - 1, 0, len(slope) - 1)
        return np.asarray(points[part, 1] + (x - points[part, 0]) * slope[part])

    return scaled
