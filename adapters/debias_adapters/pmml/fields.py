"""The fields of a PMML file: the columns that it takes, and those that it derives from them before the trees."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError
from debias.text import listed
from debias_adapters.pmml.document import SOURCE, damaged, number, to_number, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from xml.etree.ElementTree import Element

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NUMBERS = ("double", "float", "integer")
TREATMENTS = ("returnInvalid", "asIs", "asMissing")


@dataclass(frozen=True, eq=False)
class Field:
    """A column of the user's rows.

    Parameters
    ----------
    name : str
    type : str
        Its type in the file: "double", "float", "integer", "string", "boolean".
    labels : tuple of str, or None
        The categories, in the order of their codes; None for numbers.
    closed : bool
        Whether the file lists all valid categories.
    missing : tuple of str
        Texts that mean a missing value.
    intervals : tuple of (float, float, bool, bool)
        Valid numbers: the limits, and whether they are valid themselves; none if all are.
    invalid : str
        What happens to other values: one of `TREATMENTS`.
    replacement : str or None
        What missing values are replaced by.
    takes_missing : bool
        False if a missing value is invalid, and its row has no prediction.

    Attributes
    ----------
    codes : dict of str to int
        The codes of the categories, also of those that only predicates name.
    """

    name: str
    type: str
    labels: tuple[str, ...] | None
    closed: bool = False
    missing: tuple[str, ...] = ()
    intervals: tuple[tuple[float, float, bool, bool], ...] = ()
    invalid: str = "returnInvalid"
    replacement: str | None = None
    takes_missing: bool = True
    codes: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for label in self.labels or ():
            self.codes.setdefault(self.spelled(label), len(self.codes))

    def values(self, column: Sequence[Any]) -> Floats:
        """Return the values of the column of a table as numbers: codes of categories, and NaN where one is missing.

        Raises
        ------
        RowsError
            A value is no number, or one for which the model gives no prediction.
        """
        found = self._numbers(column) if self.labels is None else self._codes(column)
        if not self.takes_missing:
            self._refuse(np.isnan(found), column)
        if self.replacement is not None:
            found[np.isnan(found)] = self.value_of(self.replacement)
        return self.rounded(found)

    def value_of(self, text: str) -> float:
        """Return a text of the file as a value of this column; NaN for a category that it does not have."""
        if self.labels is None:
            return float(self.rounded(np.array([to_number(text, f"a value of the field {self.name}")]))[0])
        return float(self.codes.get(self.spelled(text), np.nan))

    def rounded(self, values: Floats) -> Floats:
        """Return numbers in the precision of the field."""
        return in_single(values) if self.type == "float" else values

    def _numbers(self, column: Sequence[Any]) -> Floats:
        array = np.asarray(column)
        if array.dtype.kind in "fiub":
            found = array.astype(np.float64)
        else:
            found = np.array([self._number(each) for each in column], dtype=np.float64)
        found[np.isin(found, [_number_or_nan(text) for text in self.missing])] = np.nan  # -9 may be written as -9.0
        outside = np.zeros(found.size, dtype=bool)
        if self.type == "integer":
            outside = found != np.floor(found)
            outside &= ~np.isnan(found)
            self._refuse(outside, column)
        if self.intervals:
            outside = ~np.isnan(found)
            for low, high, with_low, with_high in self.intervals:
                above = found >= low if with_low else found > low
                outside &= ~(above & (found <= high if with_high else found < high))
        return self._without_invalid(found, outside, column)

    def _number(self, value: Any) -> float:
        if is_missing(value) or str(value) in self.missing:
            return float("nan")
        try:
            return float(value)
        except (TypeError, ValueError):
            raise RowsError(
                f"column {self.name!r} has the value {value!r}, and the model takes numbers there"
            ) from None

    def _codes(self, column: Sequence[Any]) -> Floats:
        assert self.labels is not None
        code = self.codes | {self.spelled(text): -1 for text in self.missing}
        other = len(self.codes)
        found = np.array(
            [-1 if is_missing(each) else code.get(self.spelled(each), other) for each in column], dtype=np.float64
        )
        unknown = found == other
        found[found < 0] = np.nan
        return self._without_invalid(found, unknown & self.closed, column)

    def spelled(self, value: Any) -> str:
        """Return a category in one spelling: true for True and 1, and 3.0 for 3 where categories are numbers."""
        if self.type == "boolean":
            return {"true": "true", "1": "true", "false": "false", "0": "false"}.get(str(value).lower(), str(value))
        if self.type in NUMBERS:
            with suppress(ValueError):
                return str(float(value))
        return str(value)

    def _without_invalid(self, values: Floats, invalid: NDArray[np.bool_], column: Sequence[Any]) -> Floats:
        if invalid.any() and self.invalid == "asMissing":
            return np.where(invalid, np.nan, values)
        if self.invalid == "returnInvalid":
            self._refuse(invalid, column)
        return values

    def _refuse(self, invalid: NDArray[np.bool_], column: Sequence[Any]) -> None:
        """Raise a RowsError if there are values for which the model gives no prediction."""
        if invalid.any():
            row = int(np.argmax(invalid))
            raise RowsError(
                f"column {self.name!r} has the value {column[row]!r} in row {row}, for which the {SOURCE} gives "
                f"no prediction ({int(invalid.sum())} such rows): leave these rows out"
            )


@dataclass(frozen=True, eq=False)
class Derived:
    """A column that the file computes of others.

    Parameters
    ----------
    as_field : Field
        Its name, type and categories.
    of : tuple of str
        The columns of the user that it is made of.
    compute : callable
        Called with the values of all earlier columns by name; returns its values.
    """

    as_field: Field
    of: tuple[str, ...]
    compute: Callable[[dict[str, Floats]], Floats]


@dataclass
class Fields:
    """All columns that the trees of a file may test.

    Parameters
    ----------
    inputs : list of Field
        The columns of the user, in the order of the file.
    derived : dict of str to Derived
        In an order in which each is made of earlier ones.
    other_names : dict of str to str
        Derived fields that are a column of the user under another name.
    """

    inputs: list[Field]
    derived: dict[str, Derived] = field(default_factory=dict)
    other_names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_name = {each.name: each for each in self.inputs}

    def find(self, name: str | None) -> Field:
        """Return a column by its name."""
        name = self.other_names.get(name or "", name)
        found = self._by_name.get(name or "") or (self.derived[name].as_field if name in self.derived else None)
        if found is None:
            raise damaged(f"it uses the field {name!r}, which it does not define")
        return found

    def code_of(self, name: str, text: str) -> float:
        """Return a text of the file as a value of a column; a category that the file does not list becomes one."""
        name = self.other_names.get(name, name)
        found = self.find(name)
        if found.labels is not None and np.isnan(found.value_of(text)):
            if found.closed and found.invalid != "asIs":
                return float("nan")
            found.codes[found.spelled(text)] = len(found.codes)
        return found.value_of(text)

    def origin(self, name: str) -> tuple[int, ...]:
        """Return the positions of the user's columns that a column is made of."""
        names = _inputs_of(self, name)
        return tuple(sorted(k for k, each in enumerate(self.inputs) if each.name in names))

    def columns(self, X: Any, names: Sequence[str]) -> Floats:
        """Return the columns `names` of the user's rows, shape (n_rows, n_names)."""
        found = {each.name: each.values(column) for each, column in zip(self.inputs, self._taken(X), strict=True)}
        for name, each in self.derived.items():
            with np.errstate(all="ignore"):  # of missing and huge values
                found[name] = each.as_field.rounded(np.asarray(each.compute(found), dtype=np.float64))
        return np.column_stack([found[self.other_names.get(name, name)] for name in names])

    def _taken(self, X: Any) -> list[Sequence[Any]]:
        """Return the columns of a table by name, or those of an array by position."""
        import narwhals.stable.v2 as nw

        frame = nw.from_native(X, pass_through=True)
        names = [each.name for each in self.inputs]
        if isinstance(frame, nw.DataFrame):
            absent = [name for name in names if name not in frame.columns]
            if absent and (len(frame.columns) != len(names) or len(absent) < len(names)):
                raise RowsError(f"X has no column {listed(list(map(repr, absent)))}, which the {SOURCE} needs")
            return [frame.get_column(name).to_list() for name in (frame.columns if absent else names)]
        array = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
        if array.ndim != 2 or array.shape[1] != len(names):
            raise RowsError(
                f"X has the shape {array.shape}, and the {SOURCE} takes {len(names)} columns: {listed(names)}"
            )
        return list(array.T)


def in_single(values: Floats) -> Floats:
    """Return numbers in the precision of 32 bits: too large ones become infinite, as in an evaluator."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def _number_or_nan(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def is_missing(value: Any) -> bool:
    """Whether a value of a table is None, NaN, pandas' NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)  # noqa: PLR0124


def dictionary_of(root: Element) -> dict[str, Field]:
    """Return the fields of the data dictionary by name."""
    dictionary = root.find("DataDictionary")
    if dictionary is None:
        raise damaged("it has no DataDictionary")
    return {each.get("name", ""): _data_field(each) for each in dictionary.iterfind("DataField")}


def _data_field(element: Element) -> Field:
    name, kind = element.get("name", ""), element.get("dataType", "")
    categorical = element.get("optype") in ("categorical", "ordinal")
    if not categorical and kind not in NUMBERS:
        raise unsupported(f"the field {name!r} of the type {kind!r} and optype {element.get('optype')!r}")
    values = {use: list[str]() for use in ("valid", "missing", "invalid")}
    for each in element.iterfind("Value"):
        values.setdefault(each.get("property", "valid"), []).append(each.get("value", ""))
    labels = tuple(dict.fromkeys(values["valid"])) if categorical else None
    return Field(
        name,
        kind,
        labels,
        closed=bool(labels),
        missing=tuple(values["missing"]),
        intervals=tuple(map(_interval, element.iterfind("Interval"))),
    )


def _interval(element: Element) -> tuple[float, float, bool, bool]:
    closure = element.get("closure", "")
    if closure not in ("openOpen", "openClosed", "closedOpen", "closedClosed"):
        raise damaged(f"an Interval has the closure {closure!r}")
    low = number(element, "leftMargin", -np.inf) if "leftMargin" in element.attrib else -np.inf
    high = number(element, "rightMargin", np.inf) if "rightMargin" in element.attrib else np.inf
    return low, high, closure.startswith("closed"), closure.endswith("Closed")


def inputs_of(model: Element, dictionary: dict[str, Field]) -> tuple[list[Field], Field | None]:
    """Return the columns that a model takes, and its response.

    Parameters
    ----------
    model : Element
        The outermost model.
    dictionary : dict of str to Field
    """
    schema = model.find("MiningSchema")
    if schema is None:
        raise damaged("its model has no MiningSchema")
    inputs, response = list[Field](), None
    for each in schema.iterfind("MiningField"):
        name, usage = each.get("name", ""), each.get("usageType", "active")
        if name not in dictionary:
            raise damaged(f"the field {name!r} is not in its DataDictionary")
        if usage in ("target", "predicted"):
            if response is not None:
                raise unsupported("several responses")
            response = dictionary[name]
        elif usage == "active":
            inputs.append(_as_used(each, dictionary[name]))
    if not inputs:
        raise unsupported("a model that takes no columns, whose trees have no splits")
    return inputs, response


def _as_used(element: Element, found: Field) -> Field:
    treatment = element.get("invalidValueTreatment", "returnInvalid")
    if treatment not in TREATMENTS:
        raise unsupported(f"invalidValueTreatment={treatment!r} of the field {found.name!r}")
    if element.get("outliers", "asIs") != "asIs":
        raise unsupported(f"outliers={element.get('outliers')!r} of the field {found.name!r}")
    return replace(
        found,
        invalid=treatment,
        replacement=element.get("missingValueReplacement"),
        takes_missing=element.get("missingValueTreatment") != "returnInvalid",
    )


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
        is_mapped = expression.tag == "MapValues" and kind in NUMBERS
        if categorical and not is_mapped:
            _add_other_name(fields, name, kind, expression)
            continue
        if kind not in ("double", "float") and not (kind == "integer" and expression.tag in WHOLE):
            raise unsupported(f"the derived field {name!r} of the type {kind!r}")
        made = _expression(fields, expression)
        if kind == "integer" and made.type != "integer" and expression.tag != "NormDiscrete":
            raise unsupported(f"the derived field {name!r}, which makes whole numbers of others")
        of = dict.fromkeys(each for used in made.used for each in _inputs_of(fields, used))
        fields.derived[name] = Derived(Field(name, kind, None), tuple(of), made.compute)


def _add_other_name(fields: Fields, name: str, kind: str, expression: Element) -> None:
    """Add derived categories: a column of categories under another name."""
    if expression.tag != "FieldRef" or expression.get("mapMissingTo") is not None:
        raise unsupported(f"the derived categories {name!r} by {expression.tag}")
    source = fields.find(expression.get("field"))
    if source.labels is None or source.type != kind:
        raise unsupported(f"the derived categories {name!r} of the type {kind!r}, made of the type {source.type!r}")
    fields.other_names[name] = source.name


WHOLE = ("FieldRef", "NormDiscrete", "MapValues")
"""Expressions that give whole numbers of whole numbers."""


def _inputs_of(fields: Fields, name: str) -> tuple[str, ...]:
    name = fields.other_names.get(name, name)
    return fields.derived[name].of if name in fields.derived else (name,)


@dataclass(frozen=True, eq=False)
class _Computed:
    """An expression: a function of the values of all columns, the columns in it, and the type of its result."""

    compute: Callable[[dict[str, Floats]], Floats]
    used: tuple[str, ...]
    type: str


def _expression(fields: Fields, element: Element) -> _Computed:
    """Return what an expression computes."""
    if element.tag == "Constant":
        return _constant(element)
    if element.tag == "Apply":
        return _apply(fields, element)
    if element.tag == "MapValues":
        return _mapped(fields, element)
    if element.tag not in ("FieldRef", "NormDiscrete", "NormContinuous"):
        raise unsupported(f"a derived field by {element.tag}")
    source = fields.find(element.get("field", ""))
    name = source.name
    if element.get("mapMissingTo") is not None:
        raise unsupported(f"mapMissingTo in an expression of {name!r}")
    if element.tag == "FieldRef":
        if source.labels is not None:
            raise unsupported(f"an expression that takes the field {name!r} as numbers")
        return _Computed(lambda found: found[name], (name,), source.type)
    if element.tag == "NormDiscrete":
        code = fields.code_of(name, element.get("value", ""))
        return _Computed(lambda found: np.where(np.isnan(found[name]), np.nan, found[name] == code), (name,), "double")
    return _Computed(_scaling(element, source), (name,), "double")


def _mapped(fields: Fields, element: Element) -> _Computed:
    """Return what a table of numbers gives for the values of one column, as ordinal and target encoders have it."""
    pairs = list(element.iterfind("FieldColumnPair"))
    rows = element.findall("InlineTable/row")
    if len(pairs) != 1 or not rows:
        raise unsupported("a MapValues of several columns, or without an InlineTable")
    source = fields.find(pairs[0].get("field", ""))
    name = source.name
    value_of = dict[float, float]()
    for row in rows:
        cells = {_local(each.tag): each.text for each in row}
        value, made = cells.get(_local(pairs[0].get("column", ""))), cells.get(_local(element.get("outputColumn", "")))
        if value is None or made is None:
            raise damaged(f"a row of the MapValues of {name!r} has no value, or nothing that it is mapped to")
        key = fields.code_of(name, value)
        if np.isnan(key):  # rows with a category that the file does not list are refused
            continue
        if key in value_of:
            raise damaged(f"the MapValues of {name!r} has the value {value!r} twice")
        value_of[key] = to_number(made, f"a value of the MapValues of {name!r}")
    other, missing = (
        float("nan") if element.get(each) is None else number(element, each)
        for each in ("defaultValue", "mapMissingTo")
    )

    def mapped(found: dict[str, Floats]) -> Floats:
        x = found[name]
        return np.array([missing if np.isnan(each) else value_of.get(each, other) for each in x.tolist()])

    is_whole = all(each.is_integer() or np.isnan(each) for each in (*value_of.values(), other, missing))
    return _Computed(mapped, (name,), "integer" if is_whole else "double")


def _local(name: str) -> str:
    """Return the name of a column of a table without its prefix."""
    return name.rpartition(":")[2]


def _constant(element: Element) -> _Computed:
    value = to_number(element.text, "a Constant")
    kind = element.get("dataType", "integer" if value.is_integer() and "." not in (element.text or "") else "double")
    if kind not in NUMBERS:
        raise unsupported(f"a Constant of the type {kind!r}")
    constant = float(np.float32(value)) if kind == "float" else value
    return _Computed(lambda found: np.full(len(next(iter(found.values()))), constant), (), kind)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}


def _apply(fields: Fields, element: Element) -> _Computed:
    function = element.get("function", "")
    if function not in OPERATIONS or {"mapMissingTo", "defaultValue"} & set(element.attrib):
        raise unsupported(f"a derived field by the function {function!r}")
    if element.find("MapValues") is not None:
        raise unsupported(f"a MapValues inside of the function {function!r}")
    parts = [_expression(fields, each) for each in element if each.tag != "Extension"]
    if len(parts) != 2:
        raise damaged(f"the function {function!r} has {len(parts)} arguments")
    first, second = parts
    kinds = {first.type, second.type}
    kind = next(each for each in NUMBERS if each in kinds)
    if kind == "integer" and function == "/":
        raise unsupported("a division of whole numbers in a derived field")

    def compute(found: dict[str, Floats]) -> Floats:
        made = OPERATIONS[function](first.compute(found), second.compute(found))
        # One operation in 64 bits that is rounded to 32 is this operation in 32 bits.
        return made.astype(np.float32).astype(np.float64) if kind == "float" else made

    return _Computed(compute, (*first.used, *second.used), kind)


def _scaling(element: Element, source: Field) -> Callable[[dict[str, Floats]], Floats]:
    """Return a piecewise linear function, which goes on beyond its ends."""
    name = source.name
    if element.get("outliers", "asIs") != "asIs" or source.labels is not None:
        raise unsupported(f"a NormContinuous of {name!r} with other outliers than asIs, or of categories")
    points = np.array([[number(each, "orig"), number(each, "norm")] for each in element.iterfind("LinearNorm")])
    if len(points) < 2 or not (np.diff(points[:, 0]) > 0).all():
        raise damaged(f"the NormContinuous of {name!r} has not two or more ascending points")
    slope = np.diff(points[:, 1]) / np.diff(points[:, 0])

    def scaled(found: dict[str, Floats]) -> Floats:
        x = found[name]
        part = np.clip(np.searchsorted(points[:, 0], x, side="right") - 1, 0, len(slope) - 1)
        return np.asarray(points[part, 1] + (x - points[part, 0]) * slope[part])

    return scaled
