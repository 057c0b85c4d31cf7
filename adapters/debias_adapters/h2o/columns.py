"""Columns as the user has them, and as the trees of a MOJO see them: codes of labels, or what H2O makes of labels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.errors import RowsError, UnsupportedModelError
from debias.text import listed
from debias_adapters.h2o.archive import damaged, labels_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from debias_adapters.h2o.archive import Archive, Info

SAME_COLUMNS = ("AUTO", "Enum", "SortByResponse")
"""Encodings of categories in which trees split on the columns themselves."""
LABEL_ENCODER, ONE_HOT, BINARY, LIMITED, EIGEN = "LabelEncoder", "OneHotExplicit", "Binary", "EnumLimited", "Eigen"
LIMITED_NAME = re.compile(r"(.*)\.top_\d+_levels", re.DOTALL)
"""What H2O calls a column of which it keeps the labels that most rows have; the last label stands for the others."""
MISSING = "missing(NA)"
"""What H2O calls the column that is 1 where the label is missing."""


class Made(NamedTuple):
    """How a column of the trees is made.

    Parameters
    ----------
    column : int
        The position of the user's column.
    part : int or None
        The code whose rows have 1 (-1 for missing labels), or the number of the bit; None for the column itself.
    """

    column: int
    part: int | None


@dataclass(frozen=True, eq=False)
class Encoding:
    """The columns that H2O makes of those of the user, where trees split on other columns.

    Parameters
    ----------
    kind : {"LabelEncoder", "OneHotExplicit", "Binary", "EnumLimited", "Eigen"}
    names : tuple of str
        The user's columns.
    labels : dict of int to tuple of str
        Labels of columns of categories, in the order of their codes.
    made : tuple of Made
        Of each column of the trees.
    values : dict of int to tuple of float
        With "EnumLimited" and "Eigen": the values of columns of the trees for the codes of the user's labels, and last
        that for a label that the model never saw.
    """

    kind: str
    names: tuple[str, ...]
    labels: dict[int, tuple[str, ...]]
    made: tuple[Made, ...]
    values: dict[int, tuple[float, ...]]

    @classmethod
    def of(cls, archive: Archive, info: Info) -> Encoding | None:
        """Read the encoding of a MOJO; None if trees split on the columns themselves.

        Raises
        ------
        UnsupportedModelError
            The encoding is another one, or the file is damaged.
        """
        kind = info.values.get("_genmodel_encoding", "AUTO")
        if kind in SAME_COLUMNS:
            return None
        if kind not in (LABEL_ENCODER, ONE_HOT, BINARY, LIMITED, EIGEN):
            raise UnsupportedModelError(
                f"this MOJO was trained with categorical_encoding={kind!r}, so its trees split on other columns than "
                "those of the rows. Train with 'AUTO' or 'Enum', or encode the columns before H2O gets them"
            )
        names = labels_of(archive.text("_orig_names"), info.whole("_n_orig_names"), escaped=True)
        if info.whole("_n_orig_domain_values") != len(names):
            raise damaged("it states labels of other columns than those of the rows")
        n_labels = [info.whole(f"_m_orig_domain_values_{k}") for k in range(len(names))]
        labels = {
            k: tuple(labels_of(archive.text(f"_orig_domain_values_{k}"), n, escaped=True))
            for k, n in enumerate(n_labels)
            if n
        }
        columns = info.columns[: info.whole("n_features")]
        if len(set(columns)) < len(columns):  # "few.north" of a column of that name, and of the label of another
            raise UnsupportedModelError(f"this MOJO has two columns of the same name, by categorical_encoding={kind!r}")
        known = _made(kind, names, labels) if kind != LIMITED else _limited(names, labels, columns)
        unknown = [name for name in columns if name not in known]
        if unknown:
            raise damaged(f"its trees have the columns {listed(unknown)}, which {kind} does not make of its columns")
        made = tuple(known[name] for name in columns)
        taken = sorted({each.column for each in made})  # the response is none of them
        place = {column: k for k, column in enumerate(taken)}
        return cls(
            kind,
            tuple(names[column] for column in taken),
            {place[column]: each for column, each in labels.items() if column in place},
            tuple(Made(place[column], part) for column, part in made),
            _values(archive, info, kind, labels, made),
        )

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the columns of the trees, shape (n_rows, n_columns), of rows as the user has them.

        A label that the model never saw has the code after the last one, so that no column of ``OneHotExplicit`` is 1;
        with ``EnumLimited`` and ``Eigen`` it is missing, as for H2O's scorer of MOJOs.

        Raises
        ------
        RowsError
            A column is missing, or an array has another number of columns; or there are labels that the model never
            saw, with ``Binary``: their bits in H2O depend on the other rows that are scored with them.
        """
        codes = codes_of(columns_of(X, self.names), self.labels, unseen_is_last=True)
        if self.kind == BINARY:
            strange = [self.names[k] for k, labels in self.labels.items() if (codes[:, k] == len(labels)).any()]
            if strange:
                raise RowsError(
                    f"X has labels that the model never saw, in {listed(strange)}. What H2O makes of them with "
                    "categorical_encoding='Binary' depends on the other rows: leave these rows out"
                )
        return np.column_stack([self._part(codes[:, column], part, k) for k, (column, part) in enumerate(self.made)])

    def _part(self, codes: NDArray[np.float64], part: int | None, k: int) -> NDArray[np.float64]:
        if k in self.values:
            missing = np.isnan(codes)
            return np.where(missing, np.nan, np.array(self.values[k])[np.where(missing, 0, codes).astype(np.int64)])
        if part is None:
            return codes
        known = np.where(np.isnan(codes), -1, codes).astype(np.int64)
        if self.kind == ONE_HOT:
            return np.asarray(known == part, dtype=np.float64)
        return np.asarray((known + 1) >> part & 1, dtype=np.float64)


def _made(kind: str, names: Sequence[str], labels: Mapping[int, tuple[str, ...]]) -> dict[str, Made]:
    """Return how each column is made that the trees can have."""
    found = dict[str, Made]()
    for column, name in enumerate(names):
        if column not in labels or kind == LABEL_ENCODER:
            found[name] = Made(column, None)
        elif kind == EIGEN:
            found[f"{name}.Eigen"] = Made(column, None)
        elif kind == ONE_HOT:
            found |= {f"{name}.{label}": Made(column, code) for code, label in enumerate(labels[column])}
            found[f"{name}.{MISSING}"] = Made(column, -1)
        else:
            n_bits = len(labels[column]).bit_length()  # codes begin with 1, and 0 is a missing label
            found |= {f"{name}:{bit}": Made(column, bit) for bit in range(n_bits)}
    return found


def _limited(names: Sequence[str], labels: Mapping[int, tuple[str, ...]], columns: Sequence[str]) -> dict[str, Made]:
    """Return the same for ``EnumLimited``, which leaves columns of few labels as they are."""
    found = {name: Made(column, None) for column, name in enumerate(names)}
    for name in columns:
        matched = LIMITED_NAME.fullmatch(name)
        if name not in found and matched and matched[1] in names and names.index(matched[1]) in labels:
            found[name] = Made(names.index(matched[1]), None)
    return found


def _values(
    archive: Archive, info: Info, kind: str, labels: Mapping[int, tuple[str, ...]], made: Sequence[Made]
) -> dict[int, tuple[float, ...]]:
    """Return the values of columns of the trees for the codes of labels, and last for a label that was never seen."""
    if kind == EIGEN:
        projected = info.numbers("_orig_projection_array")
        start = dict(zip(labels, np.cumsum([0, *map(len, labels.values())]).tolist(), strict=False))
        if sum(map(len, labels.values())) != len(projected) or not np.isfinite(projected).all():
            raise damaged("its projection is not one number for each label")
        return {
            k: (*projected[start[column] : start[column] + len(labels[column])], float("nan"))
            for k, (column, _) in enumerate(made)
            if column in labels
        }
    if kind != LIMITED:
        return {}
    found = dict[int, tuple[float, ...]]()
    for k, (column, _) in enumerate(made):
        if column not in labels:
            continue
        n_labels, name = info.label_files.get(k, (0, ""))
        kept = labels_of(archive.text(name), n_labels, escaped=True) if n_labels else []
        if not kept:
            raise damaged(f"the column {info.columns[k]!r} of its trees has no labels")
        code = {label: float(place) for place, label in enumerate(kept)}
        other = float(len(kept) - 1)
        if not LIMITED_NAME.fullmatch(info.columns[k]) and tuple(kept) != labels[column]:
            raise damaged(f"the column {info.columns[k]!r} of its trees has other labels than that of the rows")
        found[k] = (*(code.get(label, other) for label in labels[column]), float("nan"))
    return found


def columns_of(X: Any, names: Sequence[str] | None = None) -> list[Sequence[Any]]:
    """Return the columns of a table or of an array.

    With names, those of a table by name, and those of an array by position, which must be as many.
    """
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        absent = [name for name in names or () if name not in frame.columns]
        if absent:
            raise RowsError(f"X has no column {listed(list(map(repr, absent)))}, which the MOJO needs")
        return [frame.get_column(name).to_list() for name in names or frame.columns]
    array = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    if names is not None and array.shape[1:] != (len(names),):
        raise RowsError(f"X has the shape {array.shape}, and the MOJO takes {len(names)} columns: {listed(names)}")
    return list(array.T)


def codes_of(
    columns: Sequence[Sequence[Any]], labels: Mapping[int, tuple[str, ...]], unseen_is_last: bool = False
) -> NDArray[np.float64]:
    """Return numbers and codes of labels, shape (n_rows, n_columns).

    Labels that H2O never saw are missing, or have the code after the last one.
    """
    made = np.empty((len(columns[0]) if columns else 0, len(columns)))
    for k, values in enumerate(columns):
        if k in labels:
            code = {label: number for number, label in enumerate(typed(labels[k]).tolist())}
            unseen = len(code) if unseen_is_last else np.nan
            made[:, k] = [np.nan if _is_missing(each) else code.get(each, unseen) for each in values]
        else:
            made[:, k] = [np.nan if _is_missing(each) else float(each) for each in values]
    return made


def typed(labels: tuple[str, ...]) -> NDArray[Any]:
    """Return labels, as numbers or truth values if all of them are such: H2O keeps the texts of all labels."""
    if labels and all(re.fullmatch("0|-?[1-9][0-9]{0,17}", each) for each in labels):
        return np.array([int(each) for each in labels])
    if set(labels) == {"False", "True"}:  # what H2O makes of a pandas column of truth values
        return np.array([each == "True" for each in labels])
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found


def _is_missing(value: Any) -> bool:
    return value is None or value != value or type(value).__name__ in ("NAType", "NaTType")
