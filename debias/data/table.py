"""The class Table: the user's X in any container, its columns in the order of a model, and its rows as floats.

The file is long because every operation must handle arrays, sparse matrices and data frames of several libraries.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from copy import copy
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.arrow_streams import is_stream
from debias.data.spark_rows import is_spark, refuse_spark
from debias.errors import RowsError, nearest_name, with_article
from debias.parallel import over_parts, worth
from debias.text import listed, percent
from debias.trees.routing import Router, route, row_blocks
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.trees.ensemble import TreeEnsemble


LABELS_TO_CHECK = 32
"""Number of labels per column for which a row is kept for the comparison with the library."""
VALUES_AT_ONCE = 2**20
"""Number of values that `fine_columns` reads at a time."""
VALUES_KEPT = 2**26
"""Largest number of values of rows that are kept for routing them again."""
LAZY = "these rows are a lazy frame or a query: read them into memory first, with collect() or df()"


OF_NAMES = ". If they are names of columns, pass the table with these columns, table[names]"
OF_DICTIONARIES = ". For rows in dictionaries, pass pandas.DataFrame(X)"
INSTEAD_OF_A_COLUMN = {
    str: f". For texts, pass what the model was trained on: vectorizer.transform(texts){OF_NAMES}",
    dict: OF_DICTIONARIES,
}
"""What to type instead of an X of one column, by the type of what it holds."""


class Table:
    """Rows of features: an array, a sparse matrix, or a pandas, polars or Arrow table. X is never changed.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rows, n_features)

    Raises
    ------
    RowsError
        `X` is none of these, is not two-dimensional, has no rows, or has columns of the same name.
    """

    def __init__(self, X: Any) -> None:
        import narwhals.stable.v2 as nw

        refuse_spark(X)
        self._order: list[int] | None = None
        self._codes: dict[int, NDArray[np.float64]] = {}
        self.special_labels: dict[tuple[int, Any], int] = {}
        self._unseen: dict[int, int] = {}
        self.unseen_before: dict[int, NDArray[np.bool_]] = {}
        """By the first column of the trees that is made of it: rows with a category that a step before never saw."""
        self.uncounted: tuple[str, ...] = ()
        """Columns of categories before the trees of which it is not known which categories were seen."""
        self._frame: Any = None
        self._array: NDArray[Any] | None = None
        self._given: Any = None
        self._sparse: Any = None
        self._entries: Any = None
        self.names: tuple[str, ...] | None = None
        refuse_library_rows(X)
        twice = repeated(names_of_columns(X) or ())
        if twice:
            raise RowsError(f"X has columns of the same name: {', '.join(twice)}")
        frame = nw.from_native(X, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            raise RowsError(LAZY)
        if isinstance(frame, nw.DataFrame):
            self._frame, self.shape = frame, frame.shape
            self.names = tuple(str(name) for name in frame.columns)
            self._entries = _entries_of(X)
        elif hasattr(X, "tocsr"):
            self._sparse, self.shape, self._given = X.tocsr(), X.shape, X
        else:
            self._array = two_dimensional(X)
            self._given = X if isinstance(X, np.ndarray) else rows_and_columns(X)  # keeps objects as they are
            self.shape = self._array.shape
        if not self.n_rows:
            raise RowsError("X has no rows: pass at least one row")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.shape[0])

    @property
    def unseen(self) -> dict[int, int]:
        """Number of rows with a category that was not there in training, by the column of the trees."""
        before = {k: int(is_unseen.sum()) for k, is_unseen in self.unseen_before.items()}
        return {k: max(self._unseen.get(k, 0), before.get(k, 0)) for k in self._unseen | before}

    def aligned_to(self, ensemble: TreeEnsemble, log: WarningLog) -> Table:
        """Return the same rows with columns in the order of the model and with encoded labels of categories.

        Parameters
        ----------
        ensemble : TreeEnsemble
        log : WarningLog
            Gets a warning if the columns were in another order and were matched by name, about columns that the model
            does not know, which are left out, and about labels that it never saw.

        Raises
        ------
        RowsError
            Columns are missing or not numeric; the message names them.
        """
        table = self._in_order(ensemble, log)
        if table._sparse is not None and ensemble.sparse_absent is None:
            raise RowsError(
                f"X is a sparse matrix, which {with_article(ensemble.source)} does not take: pass X.toarray()"
            )
        table.special_labels, table._unseen, table.unseen_before = {}, {}, {}
        table._codes = {
            k: table._encode(k, labels, ensemble, log) for k, labels in (ensemble.category_labels or {}).items()
        }
        table._refuse_non_numeric(ensemble)
        return table

    def _in_order(self, ensemble: TreeEnsemble, log: WarningLog) -> Table:
        order = column_order(self.names, self.shape[1], ensemble)
        ordered = copy(self)
        if order is None:
            return ordered
        assert self.names is not None
        warn_of_unknown(self.names, order, log)
        if len(order) < len(self.names):
            kept = sorted(order)
            ordered._frame, ordered.shape = self._frame[:, kept], (self.n_rows, len(kept))
            order = [kept.index(k) for k in order]
        ordered.names = tuple(ensemble.feature_names)
        if order != sorted(order):
            log.warn("the columns of X are in another order than the model was trained on; they are matched by name")
            ordered._order = order
        return ordered

    def fine_columns(self, steps: float, repeated: float) -> Iterator[tuple[str, NDArray[np.int64], float]]:
        """Yield the columns with fine values, which should be different in every row, that have repeated values.

        Parameters
        ----------
        steps : float
            The values of a column are fine if the distance of its quartiles is more than this times its smallest gap.
        repeated : float
            A column is left out if at most this share of its rows have a value that another row also has.

        Yields
        ------
        name : str
            The name of the column, or its position if X has no names.
        codes : array of int64 of shape (n_rows,)
            Number of each row's value among the distinct values; -1 where it is missing.
        coincidence : float
            Rough chance that two rows have the same value: the smallest gap of repeated values, divided by the distance
            of the quartiles. Amounts that people round have few repeated values between the round ones.
        """
        labelled = {k if self._order is None else self._order[k] for k in self._codes}
        plain = [k for k in range(self.shape[1]) if k not in labelled]
        at_once = max(1, VALUES_AT_ONCE // self.n_rows)  # pandas is slow at taking single columns of a wide frame
        for begin in range(0, len(plain), at_once):
            block = self._floats(plain[begin : begin + at_once])
            for j in np.flatnonzero(_repeated_share(block) > repeated):
                values = block[:, j]
                distinct, codes, count = np.unique(values, return_inverse=True, return_counts=True)
                finite = distinct[np.isfinite(distinct)]
                if finite.size < steps:
                    continue
                low, high = np.quantile(finite, [0.25, 0.75])
                least = 1e-9 * np.abs(finite).max()
                if high - low > steps * _smallest_gap(finite, least):
                    gap = _smallest_gap(distinct[np.isfinite(distinct) & (count > 1)], least)
                    coincidence = min(1.0, gap / (high - low))
                    codes = np.where(np.isnan(values), -1, codes.ravel()).astype(np.int64)
                    yield self._name_at(plain[begin + j]), codes, float(coincidence)

    def _name_at(self, position: int) -> str:
        """Return the name of the column at a position in X, or the position in words if X has no names."""
        if self.names is None:
            return f"number {position}"
        return repr(self.names[position if self._order is None else self._order.index(position)])

    def _floats(self, columns: list[int]) -> NDArray[np.float64]:
        """Return some columns of X, by their positions in X."""
        if self._array is not None:
            return self._array[:, columns].astype(np.float64)
        if self._sparse is not None:
            dense: NDArray[np.float64] = self._sparse[:, columns].toarray().astype(np.float64)
            return dense
        if self._entries is not None:
            return np.asarray(self._entries[:, columns].toarray())
        return frame_rows(self._frame[:, columns], None)

    def matrix(
        self, ensemble: TreeEnsemble, rows: slice | NDArray[np.int64] | None = None
    ) -> NDArray[np.floating[Any]]:
        """Return some rows, or all, as the float matrix on which the model's library routes.

        Parameters
        ----------
        ensemble : TreeEnsemble
            Gives the precision, and the value that means missing.
        rows : slice or array of int, optional

        Returns
        -------
        array of shape (n_rows, n_features)
            C-contiguous, missing values as NaN.
        """
        from debias.data.kernels import columns as column_kernels

        if self._codes:
            part = self._with_codes(rows)
        elif self._array is not None:
            part = self._array if rows is None else self._array[rows]
            if self._given.dtype.kind in ensemble.narrowed_kinds:
                part = part.astype(np.float32)
        elif self._sparse is not None:
            assert ensemble.sparse_absent is not None
            part = to_dense(self._sparse if rows is None else self._sparse[rows], ensemble.sparse_absent)
        elif self._entries is not None:
            part = (self._entries if rows is None else self._entries[rows]).toarray()
        else:
            part = frame_rows(self._frame, rows)
        if self._order is not None and not self._codes:
            part = part[:, self._order]
        with np.errstate(over="ignore"):  # values too large for float32 are refused below, with the column's name
            matrix = np.ascontiguousarray(part, dtype=ensemble.routing_dtype)
        if not np.isnan(ensemble.missing_value):
            matrix = np.where(matrix == ensemble.missing_value, np.nan, matrix).astype(ensemble.routing_dtype)
        if column_kernels.all_finite(matrix):
            return matrix
        if matrix.dtype == np.float32 and np.isinf(matrix).any():
            row, column = np.argwhere(np.isinf(matrix))[0]
            raise RowsError(
                f"{ensemble.column_in_words(column)} has a value that is infinite or too large for float32 "
                f"(row {_position(rows, int(row))}); {with_article(ensemble.source)} does not take such values"
            )
        if ensemble.missing_refusal is not None and np.isnan(matrix).any():
            row, column = np.argwhere(np.isnan(matrix))[0]
            raise RowsError(
                f"{ensemble.column_in_words(column)} has a missing value "
                f"(row {_position(rows, int(row))}); {ensemble.missing_refusal}"
            )
        return matrix

    def part(self, ensemble: TreeEnsemble, rows: NDArray[np.int64]) -> Table:
        """Return some rows of a table that was aligned to these trees, as a table of its own; nothing is warned of."""
        part = Table(self.native(rows)).aligned_to(ensemble, WarningLog(quiet=True))
        part.unseen_before = {k: is_unseen[rows] for k, is_unseen in self.unseen_before.items()}
        part.uncounted = self.uncounted
        return part

    def native(self, rows: NDArray[np.int64]) -> Any:
        """Return some rows in the user's own container, with columns in the order of the model and nothing encoded.

        Parameters
        ----------
        rows : array of int64

        Returns
        -------
        array, sparse matrix or data frame of shape (n_rows, n_features)
            A copy.
        """
        if self._frame is not None:
            part = some_rows(self._frame, rows)
            return (part if self._order is None else part[:, self._order]).to_native()
        part = self._given[rows] if self._sparse is None else self._sparse[rows].asformat(self._given.format)
        return part if self._order is None else part[:, self._order]

    def labelled(self, ensemble: TreeEnsemble, rows: NDArray[np.int64]) -> pd.DataFrame | None:
        """Return some rows as a pandas frame, for a library that does not take the user's own container.

        Labels become categories: first those the model knows, then the others. Other columns become floats. Return None
        if the user passed an array or a pandas frame without labels: a frame would be nothing new for the library.
        """
        import pandas as pd

        if not self._codes and (self._frame is None or is_pandas(self._frame)):
            return None
        numbers = self._with_codes(rows) if self._codes else frame_rows(self._frame, rows)
        columns: dict[str, Any] = {name: numbers[:, k] for k, name in enumerate(ensemble.feature_names)}
        if not self._codes and self._order is not None:
            columns = {name: numbers[:, at] for name, at in zip(ensemble.feature_names, self._order, strict=True)}
        for k in self._codes:
            known = [label for label in (ensemble.category_labels or {})[k].tolist() if label is not None]
            values = self._labels(k, rows)
            distinct = pd.unique(values[~pd.isna(values)]).tolist()
            categories = known + [value for value in distinct if value not in known]
            columns[ensemble.feature_names[k]] = pd.Categorical(values, categories=categories)
        return pd.DataFrame(columns)

    def _with_codes(self, rows: slice | NDArray[np.int64] | None) -> NDArray[np.floating[Any]]:
        """Return some rows in the order of the model, with codes instead of labels."""
        selection = slice(None) if rows is None else rows
        plain = [k for k in range(self.shape[1]) if k not in self._codes]
        part = np.empty((np.arange(self.n_rows)[selection].size, self.shape[1]))
        positions = [k if self._order is None else self._order[k] for k in plain]
        if plain and self._frame is not None:
            part[:, plain] = frame_rows(self._frame[:, positions], rows)
        elif plain:
            assert self._array is not None
            part[:, plain] = self._array[selection][:, positions]  # an array of objects has numbers in these columns
        for k, codes in self._codes.items():
            part[:, k] = codes[selection]
        return part

    def _encode(self, k: int, labels: NDArray[Any], ensemble: TreeEnsemble, log: WarningLog) -> NDArray[np.float64]:
        """Return the code of each row's label of feature k; NaN where the label is missing."""
        import pandas as pd

        values = self._labels(k)
        number, distinct = pd.factorize(values)  # the position of each row's value in `distinct`; -1 where missing
        code = {label: j for j, label in enumerate(labels.tolist())}
        codes = np.array([code.get(value, ensemble.unknown_label) for value in distinct], dtype=np.float64)
        self._note_special(k, values, number, distinct, code)
        unknown = [value for value in distinct if value not in code]
        by_text = {str(label): label for label in labels.tolist()}
        for value in unknown:
            if str(value) in by_text:
                label = by_text[str(value)]
                raise RowsError(
                    f"column {ensemble.feature_names[k]!r} has the value {value!r} ({type(value).__name__}), but the "
                    f"model was trained on {label!r} ({type(label).__name__}): convert it"
                )
        kinds = {_kind(label) for label in labels.tolist() if label is not None}
        for value in unknown:
            if kinds and _kind(value) not in kinds:
                raise RowsError(
                    f"column {ensemble.feature_names[k]!r} has the value {value!r} ({type(value).__name__}), but the "
                    f"model was trained on labels such as {labels[0]!r} ({type(labels[0]).__name__}): pass the labels, "
                    "not their codes"
                )
        if unknown:
            self._unseen[k] = int(np.isin(number, [j for j, value in enumerate(distinct) if value not in code]).sum())
            seen_as = "missing" if np.isnan(ensemble.unknown_label) else "one category, that of unknown values"
            examples, share = listed([repr(value) for value in unknown]), percent(self._unseen[k] / self.n_rows)
            log.warn(
                f"column {ensemble.feature_names[k]!r} has values that the model never saw ({examples}, in {share} of "
                f"the rows); the model treats them as {seen_as}"
            )
        encoded: NDArray[np.float64] = np.where(number < 0, np.nan, np.append(codes, np.nan)[number])
        if None in code:  # scikit-learn treats None as a category like others, if it was there in training
            missing = np.flatnonzero(number < 0)
            encoded[[row for row in missing if values[row] is None]] = code[None]
        return encoded

    def _labels(self, k: int, rows: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return the user's values of the model's feature k as objects, for some rows or all."""
        position = k if self._order is None else self._order[k]
        if self._frame is None:
            column = self._given[:, position] if rows is None else self._given[rows, position]
            return np.asarray(column).astype(object)
        part = self._frame[:, [position]] if rows is None else some_rows(self._frame[:, [position]], rows)
        values = np.empty(len(part), dtype=object)
        values[:] = part.get_column(part.columns[0]).to_list()
        return values

    def _note_special(
        self, k: int, values: NDArray[Any], number: NDArray[np.int64], distinct: Any, code: dict[Any, int]
    ) -> None:
        """Keep a row of feature k for each kind of missing value, for unknown labels, and for rare labels."""
        missing = np.flatnonzero(number < 0)
        kinds = {type(values[row]): int(row) for row in missing[::-1].tolist()}
        self.special_labels |= {(k, kind): row for kind, row in kinds.items()}
        present = np.flatnonzero(number >= 0)
        labels, first, count = np.unique(number[present], return_index=True, return_counts=True)
        rank = [(distinct[j] in code, n) for j, n in zip(labels, count, strict=True)]
        for place in sorted(range(labels.size), key=rank.__getitem__)[:LABELS_TO_CHECK]:
            self.special_labels[k, distinct[labels[place]]] = int(present[first[place]])

    def _refuse_non_numeric(self, ensemble: TreeEnsemble) -> None:
        """Raise a RowsError if a column without known labels is not numeric."""
        try:
            self._require_numbers()
        except RowsError as error:
            if ensemble.category_set is None or ensemble.category_labels is not None:
                raise
            raise RowsError(
                f"{error} The model splits on codes of categories and does not keep their labels (XGBoost keeps them "
                "from 3.1 on): pass the codes that the labels had in training, and NaN for missing ones"
            ) from None

    def _require_numbers(self) -> None:
        positions = [k if self._order is None else self._order[k] for k in range(self.shape[1]) if k not in self._codes]
        if self._frame is not None:
            refuse_non_numeric(self._frame[:, positions])
        elif self._array is not None and self._array.dtype.kind == "O":
            try:
                self._array[:, positions].astype(np.float64)
            except (TypeError, ValueError) as error:
                raise RowsError(f"X must be numeric: {error}") from None


def column_order(names: tuple[str, ...] | None, n_columns: int, ensemble: TreeEnsemble) -> list[int] | None:
    """Return the position of each of the model's features among the columns of X; None if these are the columns.

    Parameters
    ----------
    names : tuple of str, or None
        Names of the columns, if they have any.
    n_columns : int
        Number of columns.
    ensemble : TreeEnsemble

    Raises
    ------
    RowsError
        Columns are missing; the message names them, and those that the model does not know.
    """
    wanted = [ensemble.stored_name(name) for name in ensemble.feature_names]
    known = set(wanted)
    have = [] if names is None else [ensemble.stored_name(name) for name in names]
    # Names that a library made up may be real names, if X has all of them.
    if names is None or not (ensemble.named or sorted(have) == sorted(wanted)):
        if n_columns != ensemble.n_features:
            raise RowsError(f"X has {n_columns} features, but the model was trained on {ensemble.n_features}")
        return None
    if have == wanted:
        return None
    position = {name: k for k, name in enumerate(have)}
    missing = [name for name in wanted if name not in position]
    extra = [name for name in have if name not in known]
    if missing:
        near = nearest_name(missing[0], extra)
        hint = "" if near is None else f" Is {near!r} the {missing[0]!r} of the model? Then rename it."
        raise RowsError(
            f"X does not have the columns the model was trained on; missing: {listed(missing)}"
            + (f"; unknown to the model: {listed(extra)}" if extra else "")
            + f".{hint} Pass the training columns with their training names."
        )
    repeated = next((name for k, name in enumerate(have) if position[name] != k and name in known), None)
    if repeated is not None:
        raise RowsError(
            f"several columns of X have the name {repeated!r} after blanks are replaced, as the model does: rename them"
        )
    return [position[name] for name in wanted]


def warn_of_unknown(names: tuple[str, ...] | None, order: list[int], log: WarningLog) -> None:
    """Warn if columns are left out.

    Parameters
    ----------
    names : tuple of str, or None
        Names of the columns of X.
    order : list of int
        Positions of the columns that the model knows.
    log : WarningLog
    """
    known = set(order)
    unknown = [name for k, name in enumerate(names or ()) if k not in known]
    if unknown:
        log.warn(f"columns of X that the model does not know are left out: {listed(unknown)}")


def _kind(label: Any) -> type:
    """Return the kind of a label: str, Number, or its own type."""
    for kind in (str, Number):
        if isinstance(label, kind):
            return kind
    return type(label)


def _position(rows: slice | NDArray[np.int64] | None, row: int) -> int:
    if rows is None:
        return row
    return row + (rows.start or 0) if isinstance(rows, slice) else int(rows[row])


def _smallest_gap(values: NDArray[np.float64], least: float) -> float:
    """Return the smallest difference of consecutive sorted values that is larger than `least`; infinite without any."""
    gaps = np.diff(values)
    return float(gaps[gaps > least].min(initial=np.inf))


def _repeated_share(block: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each column, the share of rows with a value that another row also has; NaN equals nothing."""
    ordered = np.sort(block, axis=0)
    equal_to_next = np.zeros((len(block) + 1, block.shape[1]), dtype=bool)
    equal_to_next[1:-1] = ordered[1:] == ordered[:-1]
    share: NDArray[np.float64] = (equal_to_next[1:] | equal_to_next[:-1]).mean(axis=0)
    return share


def route_table(
    ensemble: TreeEnsemble, table: Table, trees: NDArray[np.int64] | None = None, n_jobs: int | None = None
) -> NDArray[np.int32]:
    """Return the leaf of each row of a table in each tree, computed block by block; see :func:`route`."""
    trees = np.arange(ensemble.n_trees) if trees is None else trees
    leaves = np.empty((trees.size, table.n_rows), dtype=np.int32).T
    for rows in row_blocks(table.n_rows, ensemble.n_features, trees.size):
        leaves[rows] = route(ensemble, table.matrix(ensemble, rows), trees, n_jobs=n_jobs)
    return leaves


class RoutedTable:
    """The rows of a table, which are routed through some trees after others. They are encoded as bins once.

    Parameters
    ----------
    ensemble : TreeEnsemble
    table : Table
    """

    def __init__(self, ensemble: TreeEnsemble, table: Table) -> None:
        self._ensemble, self._table = ensemble, table
        self._kept: list[Router] | None = [] if table.n_rows * ensemble.n_features <= VALUES_KEPT else None

    def leaves(self, trees: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the leaf of each row in each of `trees`, shape (n_rows, len(trees))."""
        leaves = np.empty((trees.size, self._table.n_rows), dtype=np.int32).T
        for rows, router in self.routers():
            router.encode_for(self._ensemble.n_trees)
            leaves[rows] = router.leaves(trees)
        return leaves

    def add_outputs(self, trees: NDArray[np.int64], raw: NDArray[np.float64]) -> None:
        """Add the values of the leaves in each of `trees` to `raw` (n_rows, n_outputs), tree by tree."""
        if not trees.size:
            return
        for rows, router in self.routers():
            router.encode_for(self._ensemble.n_trees)
            router.add_outputs(trees, raw[rows])

    def routers(self) -> Iterator[tuple[slice, Router]]:
        """Yield blocks of rows: their position and their router, the same each time unless the table is too large."""
        blocks = row_blocks(self._table.n_rows, self._ensemble.n_features)
        if self._kept:
            yield from zip(blocks, self._kept, strict=True)
            return
        made = list[Router]()
        for rows in blocks:
            router = Router(self._ensemble, self._table.matrix(self._ensemble, rows))
            if self._kept is not None:
                made.append(router)
            yield rows, router
        if self._kept is not None:
            self._kept = made


def distinct_values(X: NDArray[np.floating[Any]], grouping: Grouping) -> NDArray[np.int64]:
    """Return the number of distinct values of each feature, and of distinct combinations of each group of columns.

    Missing values of a single column are not counted. In a group of columns, missing is one more value.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        In the precision of the model; in float32, close values may become equal.
    grouping : Grouping

    Returns
    -------
    array of int64 of shape (n_groups,)
        0 for a group without columns.
    """
    from debias.data.kernels import columns as kernels

    n_columns = np.bincount(grouping.index, minlength=len(grouping.names))
    counts = np.zeros(len(grouping.names), dtype=np.int64)
    single = np.flatnonzero(n_columns[grouping.index] == 1)
    of_single = np.empty(single.size, dtype=np.int64)
    over_parts(
        single.size,
        lambda part: kernels.count_distinct(X, single[part], of_single[part]),
        at_least=worth(single.size, X.size),
    )
    counts[grouping.index[single]] = of_single
    for group in np.flatnonzero(n_columns > 1):
        columns = np.flatnonzero(grouping.index == group)
        codes = [np.unique(X[:, k], return_inverse=True)[1] for k in columns]  # all missing values get one code
        counts[group] = len(np.unique(np.column_stack(codes), axis=0))
    return counts


def names_of_columns(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a frame; None for anything else."""
    if is_spark(X):  # it has an attribute of any name
        return None
    if hasattr(X, "collect_schema"):  # a lazy frame
        return tuple(X.collect_schema().names())
    columns = getattr(X, "column_names", getattr(X, "columns", None))  # Arrow calls them so, and its columns are arrays
    if columns is None or callable(columns) or not hasattr(columns, "__iter__"):
        return None
    return tuple(str(name) for name in columns)


def numbered_columns(X: Any) -> tuple[str, ...]:
    """Return the names of the columns of X: numbers if they have none, "text" for one column of texts or for no X."""
    names = names_of_columns(X)
    if names is not None:
        return names
    return ("text",) if X is None or is_one_column(X) else tuple(f"x{k}" for k in range(Table(X).shape[1]))


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def is_one_column(X: Any) -> bool:
    """Whether X is one column of texts or other objects: a list, a Series or an array of one dimension."""
    if isinstance(X, (list, tuple)):
        return bool(X) and isinstance(X[0], (str, dict))
    # The shape of a query takes a query.
    return not is_spark(X) and not is_stream(X) and len(getattr(X, "shape", ())) == 1


def refuse_library_rows(X: Any) -> None:
    """Raise a RowsError if X is a lazy frame, or a container that a library made of a table: DMatrix, Dataset, Pool."""
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):  # even the names of its columns need a query
        raise RowsError(LAZY)
    if hasattr(X, "get_label"):
        kind = f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}"
        raise RowsError(
            f"X has the type {kind}, which holds rows in a form of its library. Pass the table that it was made from "
            "(an array or a data frame), and y"
        )


def two_dimensional(X: Any) -> NDArray[Any]:
    """Return X, which is not a frame, as an array of numbers, or of objects if it holds labels."""
    if isinstance(X, np.ma.MaskedArray):
        raise RowsError("X is a masked array; pass X.filled(numpy.nan)")
    array = rows_and_columns(X)
    if array.dtype.kind == "O":
        with suppress(TypeError, ValueError):  # labels stay objects; they are refused later if the model knows none
            return array.astype(np.float64)
    elif array.dtype.kind not in "fiub":
        raise RowsError(f"X must be numeric; it has dtype {array.dtype}")
    return array


def rows_and_columns(X: Any) -> NDArray[Any]:
    """Return X as a two-dimensional array; raise a RowsError if it has another number of dimensions."""
    try:
        array = np.asarray(X)
    except ValueError:
        raise RowsError("X must be two-dimensional (n_rows, n_features); its rows have different lengths") from None
    if array.ndim != 2:
        first = array[0] if array.ndim == 1 and array.dtype.kind in "OUT" and array.size else None
        hint = next((hint for kind, hint in INSTEAD_OF_A_COLUMN.items() if isinstance(first, kind)), "")
        raise RowsError(f"X must be two-dimensional (n_rows, n_features); it has shape {array.shape}{hint}")
    return array


def to_dense(part: Any, absent: float) -> NDArray[np.floating[Any]]:
    """Return a sparse matrix as a dense array, with the value `absent` where it has no entry."""
    if absent == 0:
        return np.asarray(part.toarray())
    entries = part.tocoo()
    dense = np.full(part.shape, absent, dtype=np.result_type(part.dtype, np.float32))
    dense[entries.row, entries.col] = entries.data
    return dense


def frame_rows(frame: Any, rows: slice | NDArray[np.int64] | None) -> NDArray[np.float64]:
    """Return some rows of a frame, or all, as floats, with missing values as NaN."""
    if rows is not None:
        frame = some_rows(frame, rows)
    native = frame.to_native()
    if is_pandas(frame):
        # In nullable columns of pandas, NA becomes NaN only if `na_value` says so.
        array: NDArray[np.float64] = native.to_numpy(dtype=np.float64, na_value=np.nan)
        return array
    columns = [np.asarray(frame[name].to_numpy(), dtype=np.float64) for name in frame.columns]
    return np.column_stack(columns)


def some_rows(frame: Any, rows: slice | NDArray[np.int64]) -> Any:
    """Return some rows of a frame."""
    return frame[rows] if isinstance(rows, slice) else frame[rows.tolist()]


def is_pandas(frame: Any) -> bool:
    """Whether a frame is a pandas frame."""
    native = frame.to_native()
    return hasattr(native, "to_numpy") and hasattr(native, "dtypes") and hasattr(native, "iloc")


def _entries_of(X: Any) -> Any:
    """Return a pandas frame of sparse columns as a sparse matrix of floats, of which rows are taken fast.

    None if X is anything else, or if a column leaves out another value than 0.
    """
    if not hasattr(X, "sparse"):
        return None
    if not all(_is_sparse_number(dtype) and dtype.fill_value == 0 for dtype in X.dtypes):
        return None
    return X.sparse.to_coo().tocsr().astype(np.float64)


def _is_sparse_number(dtype: Any) -> bool:
    """Whether a type of a pandas column is that of a sparse column of numbers."""
    return getattr(getattr(dtype, "subtype", None), "kind", "") in ("f", "i", "u", "b")


def refuse_non_numeric(frame: Any) -> None:
    """Raise a RowsError if columns of a frame are not numeric; the message names them."""
    wrong = {
        str(name): str(dtype)
        for name, dtype in zip(frame.columns, frame.schema.dtypes(), strict=True)
        if not (dtype.is_numeric() or str(dtype) == "Boolean")
    }
    if wrong and is_pandas(frame):
        native = dict(zip(wrong, frame.to_native()[list(wrong)].dtypes, strict=True))
        wrong = {name: str(dtype) for name, dtype in native.items() if not _is_sparse_number(dtype)}
    if wrong:
        numbers = " If they hold numbers, pass X.astype(float)." if "object" in map(str.lower, wrong.values()) else ""
        raise RowsError(
            f"these columns of X are not numeric: {', '.join(f'{name} ({dtype})' for name, dtype in wrong.items())}. "
            f"Pass X as the model saw it, after all encoding.{numbers}"
        )
