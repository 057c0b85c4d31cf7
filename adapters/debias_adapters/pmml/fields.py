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
    from collections.abc import Callable, Sequence
    from xml.etree.ElementTree import Element

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NUMBERS = ("double", "float", "integer")
ROW = "\n"
"""Name of the numbers of the rows among the values of columns; no attribute has it."""
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
    used : tuple of str
        The columns in its expression.
    compute : callable
        Called with the values of all columns in it by name, and with the numbers of the rows by the name `ROW`;
        returns its values.
    """

    as_field: Field
    of: tuple[str, ...]
    used: tuple[str, ...]
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
        names = inputs_of_column(self, name)
        return tuple(sorted(k for k, each in enumerate(self.inputs) if each.name in names))

    def columns(self, X: Any, names: Sequence[str]) -> Floats:
        """Return the columns `names` of the user's rows, shape (n_rows, n_names)."""
        found = {each.name: each.values(column) for each, column in zip(self.inputs, self._taken(X), strict=True)}
        found[ROW] = np.arange(float(len(next(iter(found.values())))))
        needed = self._needed(names)
        for name, each in self.derived.items():
            if name not in needed:
                continue
            with np.errstate(all="ignore"):  # of missing and huge values
                found[name] = each.as_field.rounded(np.asarray(each.compute(found), dtype=np.float64))
        return np.column_stack([found[self.other_names.get(name, name)] for name in names])

    def _needed(self, names: Sequence[str]) -> set[str]:
        """Return the columns that some columns are made of, with themselves."""
        needed = {self.other_names.get(name, name) for name in names}
        for name, each in reversed(self.derived.items()):
            if name in needed:
                needed |= set(each.used)
        return needed

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
        intervals=tuple(map(interval_of, element.iterfind("Interval"))),
    )


def interval_of(element: Element) -> tuple[float, float, bool, bool]:
    """Return the limits of an Interval, and whether they are inside."""
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


def inputs_of_column(fields: Fields, name: str) -> tuple[str, ...]:
    """Return the names of the user's columns that a column is made of."""
    name = fields.other_names.get(name, name)
    return fields.derived[name].of if name in fields.derived else (name,)
