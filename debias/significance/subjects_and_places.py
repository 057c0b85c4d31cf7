"""The warning that rows of one subject or place are alike, in whatever order they come, and which blocks to pass.

P-values treat rows as independent. A test goes wrong if rows of one subject or place have similar responses and also
similar features; either alone does no harm. So both are examined, in two ways:

- A column tells subjects if rows with the same value are more alike than rows with neighbouring values. An age or an
  amount does not: what follows it smoothly is as similar in neighbouring values. An identifier does, and so does an age
  if the rows of one age are those of one person.
- Two columns with names of coordinates tell places if near rows are more alike than a quadratic surface says. So may
  one or two columns with other names, such as a time, if half of the features are alike in near rows, more than a
  surface of degree 4 says, and follow no quadratic surface closely: features that depend on two others often do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.text import counted, escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from debias.warning_log import WarningLog

ROWS_TO_JUDGE = 40
"""Fewer rows are not examined."""
MOST_ROWS = 2000
"""At most about this many rows are examined for each column."""
MOST_FEATURES = 100
"""At most this many features are examined."""
FEWEST_VALUES = 8
"""A column tells subjects only if this many values are in two rows or more,"""
LEAST_REPEATED = 0.3
"""and at least this share of the rows has one of them."""
MOST_ROWS_A_VALUE = 25
"""Values of more rows tell no subject, unless the column has the name of an identifier,"""
MOST_IN_LARGE = 0.2
"""and at most this share of the rows may have them; with such a name, at most this share may have one value."""
VALUES_A_WINDOW, IDENTIFIERS_A_WINDOW = 6, 12
"""Rows are compared within windows of this many neighbouring values, less a line; identifiers follow hardly any."""
ROWS_A_WINDOW = 20
"""A window has at least this many rows."""
NEAREST = 8
"""Rows are compared with this many nearest rows."""
WORTH_A_LOOK, ALIKE, ALIKE_BY_NAME = 2.0, 3.5, 3.0
"""Responses are alike if their similarity is this many standard errors above that of permuted rows. Subjects without a
name of an identifier may have the same age, so the similarity for the age alone need only be worth a look."""
FALSE_FEATURE = 1e-3
"""The normal probability of calling any feature alike, over all columns that may tell subjects."""
CONSTANT = 0.65
"""A feature belongs to the subject if its rows differ in at most this share of the pairs that would by chance."""
MOST_IN_KEY = 3
"""A subject is told by at most this many columns."""
MOST_UNNAMED, MOST_WITHOUT_SPLITS = 8, 4
"""Of columns without names of coordinates, pairs of this many are examined: at most so many that the model does not
split on, and those with the most splits,"""
ROWS_OF_UNNAMED = 500
"""with at most this many rows,"""
BINS, WORTH_CELLS = 10, 1.0
"""if responses are alike by so many standard errors in cells of so many bins of both,"""
LEAST_VALUES = 8
"""and the columns have this many values,"""
LEAST_PLACES = 0.8
"""and this share of the rows has values, or pairs of them, of its own;"""
NOT_ONE_COLUMN = 0.9
"""columns with a larger rank correlation are no two coordinates."""
QUADRATIC, UNNAMED_DEGREE, MOST_EXPLAINED = 2, 4, 0.5
"""Degree of the surface that is taken out, of columns with and without names of coordinates, and largest share of the
variation that the quadratic one may explain where there are no names."""
LEAST_ALIKE = 2
"""At least this many features are alike, and at least half of them."""
CELLS_OF_REACHES = 2
"""Advised cells have sides of this many times the distance over which rows stay similar."""
FEW_CELLS = 20
"""With fewer cells, the warning says that a test finds little."""
IDENTIFIER = re.compile(
    r"(^|[^a-z])(u?u?ids?|identifier|patient|subject|subj|person|participant|respondent|individual|user|customer|client|"
    r"household|family|animal|pupil|student|school|classroom|site|center|centre|clinic|hospital|cluster|group|plot|"
    r"station|litter|village)($|[^a-z])"
)
"""Names of identifiers, in lower case."""
AXES = (
    ("longitude", "latitude"),
    ("long", "lat"),
    ("lng", "lat"),
    ("lon", "lat"),
    ("easting", "northing"),
    ("utmx", "utmy"),
    ("xcoordinate", "ycoordinate"),
    ("xcoord", "ycoord"),
    ("coordx", "coordy"),
    ("utme", "utmn"),
    ("xutm", "yutm"),
    ("eastings", "northings"),
    ("gridx", "gridy"),
    ("x", "y"),
)
"""Names of coordinates, in lower case and without separators. Except x and y, they may be a part of the name."""


@dataclass(frozen=True, eq=False)
class Column:
    """A column of the user's X.

    Parameters
    ----------
    name : str
    values : array of float64 of shape (n_rows,)
        Numbers, or codes of labels in their order; NaN where missing.
    n_splits : int
        Number of splits of the model on it.
    """

    name: str
    values: NDArray[np.float64]
    n_splits: int


@dataclass(frozen=True)
class Alike:
    """Rows that are alike.

    Parameters
    ----------
    by : tuple of str
        Columns whose values the rows share, or two coordinates in which they are near.
    features : tuple of str
        Other features that are alike, the most similar first.
    z : float
        Similarity of the responses, in standard errors.
    """

    by: tuple[str, ...]
    features: tuple[str, ...]
    z: float


def warn_of_subjects(X: Any, columns: Sequence[Column], found: Alike, log: WarningLog) -> None:
    """Warn that rows with the same values of columns are alike.

    Parameters
    ----------
    X : array or data frame
        What the user calls X: the warning says what to type.
    columns : sequence of Column
        All columns of X.
    found : Alike
        From :func:`same_subject`.
    log : WarningLog
    """
    typed = _labels(X, [column.name for column in columns], found.by)
    log.warn(
        f"rows with the same {'value' if len(found.by) == 1 else 'values'} of {_enumerated(found.by)} are alike: they "
        f"have similar responses{_and_features(found.features)}, more than rows with neighbouring values. P-values "
        "treat rows as independent. If these rows are of one subject or place, noise is called informative too often: "
        f"pass debias.Dataset(X, y, blocks={typed}), on rows of subjects that the model has not seen "
        "(rows='held-out'), since hardly any whole subject is out of bag. If the values are a fixed set of kinds, they "
        "may be alike for this reason only"
    )


def warn_of_places(X: Any, columns: Sequence[Column], near: Alike, y: NDArray[np.float64], log: WarningLog) -> None:
    """Warn that rows which are near one another are alike.

    Parameters
    ----------
    X, columns, log
        As for :func:`warn_of_subjects`.
    near : Alike
        From :func:`near_places` or :func:`near_in_columns`.
    y : array of shape (n_rows, n_outputs)
    """
    names = [column.name for column in columns]
    reach = reach_of_places(columns, y, near)
    side = float(f"{CELLS_OF_REACHES * reach:.1g}")
    place = np.column_stack([columns[names.index(name)].values for name in near.by])
    n_cells = len(np.unique(place[~np.isnan(place).any(axis=1)] // side, axis=0))
    few = f". These are only {counted(n_cells, 'cell')}, on which a test finds little" if n_cells < FEW_CELLS else ""
    by, are_places, otherwise = _enumerated(near.by), "", ""
    if not coordinates(near.by):
        are_places = f"If {by} {'is a time or a place' if len(near.by) == 1 else 'are coordinates'}: similarity"
        otherwise = (
            f". If the rows are of subjects{'' if len(near.by) == 1 else ' or times'} instead, pass labels of these as "
            f"blocks. If they are independent, these features depend on {by}, and no blocks are needed"
        )
    log.warn(
        f"rows that are near in {by} are alike: they have similar responses{_and_features(near.features)}. P-values "
        "treat rows as independent. If they are not, noise is called informative too often. "
        f"{are_places or 'Similarity'} reaches over about {reach:.2g}: pass cells of about twice that size, "
        f"debias.Dataset(X, y, blocks={_labels(X, names, near.by, side)}), on cells that the model has not seen "
        f"(rows='held-out'), since hardly any whole cell is out of bag{few}{otherwise}"
    )


def columns_of(frame: pd.DataFrame, n_splits: Sequence[int]) -> list[Column]:
    """Return the columns of a frame as numbers: numbers and times as they are, labels as codes in their order.

    Columns of other objects, such as lists, are left out.

    Parameters
    ----------
    frame : DataFrame of shape (n_rows, n_columns)
    n_splits : sequence of int
        Number of splits of the model on each column.
    """
    import pandas as pd

    if all(isinstance(kind, np.dtype) and kind.kind in "buif" for kind in frame.dtypes):
        matrix = np.ascontiguousarray(frame.to_numpy(dtype=np.float64).T)
        named = zip(frame.columns, matrix, n_splits, strict=True)
        return [Column(str(name), numbers, n) for name, numbers, n in named]
    columns = []
    for k, name in enumerate(frame.columns):
        values = frame.iloc[:, k]
        if pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_complex_dtype(values.dtype):
            numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            try:
                codes = pd.factorize(values, sort=True)[0]
            except TypeError:  # labels of mixed types have no order, and lists are no labels
                continue
            numbers = np.where(codes < 0, np.nan, codes.astype(np.float64))
        columns.append(Column(str(name), numbers, n_splits[k]))
    return columns


def same_subject(columns: Sequence[Column], y: NDArray[np.float64]) -> Alike | None:
    """Return the columns whose rows with equal values have similar responses and features; None if there are none.

    Identifiers by name come first, then columns whose rows have the most similar responses.

    Parameters
    ----------
    columns : sequence of Column
    y : array of shape (n_rows, n_outputs)
    """
    from scipy.stats import norm

    compared = [(column, rows) for column in columns if (rows := EqualRows.of(column)) is not None]
    features = _features(columns)
    n_tests = len(features) * sum(not is_identifier(column.name) for column, _ in compared)
    found = []
    for column, equal in compared:
        by_name = is_identifier(column.name)
        z = equal.similarity(y)
        if z < WORTH_A_LOOK:
            continue
        others = [each for each in features if each is not column and not equal.is_one_to_one(each.values)]
        least = max(ALIKE, norm.isf(FALSE_FEATURE / max(1, len(features) if by_name else n_tests)))
        alike = _alike(others, [equal.similarity(each.values[:, None]) for each in others], least)
        if not alike and not (by_name and column.n_splits):
            continue
        key = [column]
        if not by_name:
            unused = [each for each in columns if each is not column and not each.n_splits]
            key += [each for each in (*alike, *unused) if equal.has_constant(each.values)]
            key = _needed(key, equal.rows)[:MOST_IN_KEY]
            finer = equal.within([each.values for each in key[1:]]) if len(key) > 1 else None
            z = max(z, 0.0 if finer is None else finer.similarity(y))
        if z > (ALIKE_BY_NAME if by_name else ALIKE):
            found.append(Alike(tuple(each.name for each in key), tuple(each.name for each in alike), z))
    return max(found, key=lambda each: (is_identifier(each.by[0]), each.z), default=None)


def is_identifier(name: str) -> bool:
    """Return whether a column has the name of an identifier, such as patient_id, userId or Subject."""
    return IDENTIFIER.search(re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()) is not None


@dataclass(frozen=True, eq=False)
class EqualRows:
    """Rows of which several have the same value, sorted by value, in windows of neighbouring values.

    Parameters
    ----------
    rows : array of int of shape (n,)
        Positions of the rows.
    code : array of int of shape (n,)
        Number of the value of each row, ascending from 0.
    window : array of int of shape (n,)
        Number of the window of each row, ascending from 0.
    values_a_window : int
    """

    rows: NDArray[np.int64]
    code: NDArray[np.int64]
    window: NDArray[np.int64]
    values_a_window: int

    @classmethod
    def of(cls, column: Column) -> EqualRows | None:
        """Return the rows of a column that may tell subjects; None if its values are too many or too few."""
        in_order = np.sort(column.values)
        if np.count_nonzero(in_order[1:] == in_order[:-1]) < FEWEST_VALUES:  # most numbers are all different
            return None
        by_name, n = is_identifier(column.name), column.values.size
        most = MOST_IN_LARGE * n if by_name else MOST_ROWS_A_VALUE
        order = np.argsort(column.values, kind="stable")
        order = order[: n - int(np.isnan(column.values).sum())]
        ordered = column.values[order]
        code = np.cumsum(np.r_[False, ordered[1:] != ordered[:-1]])
        count = np.bincount(code) if order.size else np.zeros(0, dtype=np.int64)
        repeated = (count >= 2) & (count <= most)
        n_large, n_repeated = count[count > most].sum(), count[repeated].sum()
        if (
            repeated.sum() < FEWEST_VALUES
            or n_large > (0 if by_name else MOST_IN_LARGE * n)
            or n_repeated < max(ROWS_TO_JUDGE, LEAST_REPEATED * n)
        ):
            return None
        used = repeated[code]
        one_part = np.zeros(int(used.sum()), dtype=np.int64)
        values_a_window = IDENTIFIERS_A_WINDOW if by_name else VALUES_A_WINDOW
        rows = cls._in_windows(order[used], code[used], one_part, values_a_window)
        if rows is None:  # fewer values than a window should have are one window
            rows = cls(order[used], _numbered(code[used]), one_part, values_a_window)
        n_parts = -(-rows.rows.size // MOST_ROWS)
        kept = rows.window % n_parts == 0
        return cls(rows.rows[kept], _numbered(rows.code[kept]), _numbered(rows.window[kept]), rows.values_a_window)

    @classmethod
    def _in_windows(
        cls, rows: NDArray[np.int64], code: NDArray[np.int64], part: NDArray[np.int64], values_a_window: int
    ) -> EqualRows | None:
        """Return sorted rows in windows, none of which has rows of two parts; too small parts are left out."""
        code = _numbered(code)
        size = np.bincount(code)
        part_of_code = part[np.cumsum(size) - size]
        window, at = np.full(size.size, -1), 0
        for begin, end in _runs(part_of_code):
            full = [begin]
            for k in range(begin, end):
                if k + 1 - full[-1] >= values_a_window and size[full[-1] : k + 1].sum() >= ROWS_A_WINDOW:
                    full.append(k + 1)
            for first in full[:-1]:
                window[first:end] = at  # the last window has what is left
                at += 1
        used = window[code] >= 0
        return cls(rows[used], _numbered(code[used]), window[code][used], values_a_window) if at else None

    def within(self, first: list[NDArray[np.float64]]) -> EqualRows | None:
        """Return the same rows, sorted by other columns before the value; rows are equal if all of them are.

        Windows have one value of the other columns. None if no window has enough rows.
        """
        part = np.zeros(self.rows.size, dtype=np.int64)
        for values in first:
            other = _numbers(values[self.rows])
            part = _numbers(part * (other.max() + 1) + other)
        order = np.lexsort([self.code, part])
        changes = (np.diff(self.code[order]) != 0) | (np.diff(part[order]) != 0)
        return self._in_windows(self.rows[order], np.cumsum(np.r_[False, changes]), part[order], self.values_a_window)

    def similarity(self, values: NDArray[np.float64]) -> float:
        """Return how much more alike equal rows are than permuted rows of a window, in standard errors.

        Within each window, ranks are taken without a line and have a variance of 1. The statistic is the sum of the
        products of equal rows.

        Parameters
        ----------
        values : array of shape (n_rows, n_columns)
            Values of all rows, NaN where missing. The largest number of several columns is returned.
        """
        code, window = self.code, self.window
        size, m = np.bincount(code), np.bincount(window).astype(np.float64)
        window_of_code = window[np.r_[True, np.diff(code) > 0]]
        place = code - (np.bincount(window, weights=code) / m)[window]
        squares = np.bincount(window, weights=place**2)
        n_pairs = np.bincount(window_of_code, weights=size * (size - 1.0))
        degrees = np.bincount(window_of_code, weights=size * (size - 1.0) ** 2)
        largest = 0.0
        for column in ranks(values[self.rows]).T:
            left = column - (np.bincount(window, weights=column) / m)[window]
            slope = np.divide(
                np.bincount(window, weights=place * left), squares, out=np.zeros_like(m), where=squares > 0
            )
            left = left - slope[window] * place
            variance = np.bincount(window, weights=left**2) / m
            varies = variance > 1e-12 * np.mean(column**2)
            scale = np.where(varies, np.sqrt(variance), 1.0)
            left = left / scale[window]
            of_codes = np.bincount(window_of_code, weights=np.bincount(code, weights=left) ** 2)
            total = of_codes - np.bincount(window, weights=left**2)
            mean, spread = moments_of_products(m, n_pairs, degrees, np.bincount(window, weights=left**4) / m)
            variance_of_total = spread[varies].sum()
            if variance_of_total > 0:
                largest = max(largest, float((total - mean)[varies].sum() / np.sqrt(variance_of_total)))
        return largest

    def is_one_to_one(self, values: NDArray[np.float64]) -> bool:
        """Return whether each value has one value of another column, and the reverse: both say the same."""
        other = _numbers(values[self.rows])
        n_both = np.unique(self.code * (other.max() + 1) + other).size
        return bool(n_both == other.max() + 1 == self.code[-1] + 1)

    def has_constant(self, values: NDArray[np.float64]) -> bool:
        """Return whether equal rows have the same value of another column, or much more often than by chance."""
        other = _numbers(values[self.rows])
        size, n_of_value = np.bincount(self.code).astype(np.float64), np.bincount(other).astype(np.float64)
        joint = np.unique(self.code * (other.max() + 1) + other, return_counts=True)[1].astype(np.float64)
        differ = 1 - (joint * (joint - 1)).sum() / (size * (size - 1)).sum()
        by_chance = 1 - (n_of_value * (n_of_value - 1)).sum() / (other.size * (other.size - 1.0))
        return bool(differ <= CONSTANT * by_chance)


def moments_of_products(
    m: NDArray[np.float64], n_pairs: NDArray[Any], degrees: NDArray[Any], fourth: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and variance of sums of products over pairs of permuted values.

    Parameters
    ----------
    m : array
        Numbers of values in each sum: at least 4 of them, with mean 0 and variance 1.
    n_pairs : array
        Numbers of ordered pairs.
    degrees : array
        Sums over the values of the squared number of pairs that a value is the first of.
    fourth : array
        Means of the fourth powers of the values.

    References
    ----------
    A. D. Cliff, J. K. Ord (1981). Spatial Processes, chapter 2: Moran's I under randomisation.
    """
    s1, s2 = 2 * n_pairs, 4 * degrees
    mean = -n_pairs / (m - 1)
    normal = m * ((m**2 - 3 * m + 3) * s1 - m * s2 + 3 * n_pairs**2)
    of_tails = fourth * ((m**2 - m) * s1 - 2 * m * s2 + 6 * n_pairs**2)
    return mean, np.maximum((normal - of_tails) / ((m - 1) * (m - 2) * (m - 3)) - mean**2, 0.0)


def near_places(columns: Sequence[Column], y: NDArray[np.float64]) -> list[Alike]:
    """Return the pairs of coordinates of which near rows have similar responses and features.

    Parameters
    ----------
    columns : sequence of Column
    y : array of shape (n_rows, n_outputs)
    """
    from scipy.stats import norm

    found = []
    for axes in coordinates([column.name for column in columns]):
        first, second = columns[axes[0]], columns[axes[1]]
        rows, place = _places([first, second])
        if rows.size < ROWS_TO_JUDGE or not (place.std(axis=0) > 0).all():
            continue
        near = NearRows(place)
        z = near.similarity(y[rows])
        features = [each for each in _features(columns) if each is not first and each is not second]
        if z <= ALIKE or not features:
            continue
        least = max(ALIKE, norm.isf(FALSE_FEATURE / len(features)))
        alike = _alike(features, [near.similarity(each.values[rows, None]) for each in features], least)
        if alike:
            found.append(Alike((first.name, second.name), tuple(each.name for each in alike), z))
    return found


def near_in_columns(columns: Sequence[Column], y: NDArray[np.float64]) -> Alike | None:
    """Return the one or two columns that tell places or times most clearly, whatever their names; None if none do.

    Rows that are near in them have similar responses, and similar values of at least half of the features.

    Parameters
    ----------
    columns : sequence of Column
    y : array of shape (n_rows, n_outputs)
    """
    from scipy.stats import norm

    features = _features(columns)
    rows = np.random.default_rng(np.random.SeedSequence(0)).permutation(len(y))[:ROWS_OF_UNNAMED]
    without_splits = [each for each in columns if not each.n_splits][:MOST_WITHOUT_SPLITS]
    numbers = [each for each in (*without_splits, *features) if np.isfinite(each.values[rows]).all()]
    numbers = [each for each in numbers if np.unique(each.values[rows]).size >= LEAST_VALUES]
    if rows.size < ROWS_TO_JUDGE or not numbers:
        return None
    ranked = ranks(np.column_stack([each.values[rows] for each in numbers]))
    correlation: NDArray[np.float64] = np.atleast_2d(np.corrcoef(ranked, rowvar=False))
    first = combinations(range(min(len(numbers), MOST_UNNAMED)), 2)
    pairs = [(i, j) for i, j in first if abs(correlation[i, j]) <= NOT_ONE_COLUMN]
    bins, of_y = ((ranked + rows.size / 2) * BINS / (rows.size + 1)).astype(np.int64).T, ranks(y[rows])
    least = max(ALIKE, float(norm.isf(FALSE_FEATURE / (len(numbers) + len(pairs)))))

    def look(axes: tuple[int, ...], most_explained: float) -> tuple[float, Alike | None]:
        """Return the least of the similarities that count, and what is alike; None if too little is."""
        place = ranked[:, axes]  # with a long tail, powers of the values would only follow outliers
        near = NearRows(place, UNNAMED_DEGREE)
        z = near.similarity(y[rows], most_explained)
        if z <= least or np.unique(place, axis=0).shape[0] < LEAST_PLACES * rows.size:
            return 0.0, None
        by = tuple(numbers[k].name for k in axes)
        others = [each for each in features if not any(each is numbers[k] for k in axes)]
        n_alike = max(LEAST_ALIKE, -(-len(others) // 2))
        if len(others) < n_alike:
            return 0.0, None
        z_of = [near.similarity(each.values[rows, None], most_explained) for each in others]
        alike = tuple(each.name for each in _alike(others, z_of, least))
        return min(z, sorted(z_of)[-n_alike]), Alike(by, alike, z) if len(alike) >= n_alike else None

    singles = [(k,) for k in range(len(numbers))]
    worth_a_look = [
        *((k,) for (k,) in singles if _alike_in_order(ranked[:, k], of_y)),
        *((i, j) for i, j in pairs if _alike_in_cells(bins[i], bins[j], of_y)),
    ]
    if not any(look(axes, MOST_EXPLAINED)[1] for axes in worth_a_look):
        return None
    # Features tell where a row is, too: the columns in which near rows are most alike are the coordinates.
    return max((look(axes, 1.0) for axes in (*singles, *pairs)), key=lambda each: each[0])[1]


def coordinates(names: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of columns with names of coordinates, such as longitude and latitude.

    Columns x and y beside a column z are no coordinates of places.

    Examples
    --------
    >>> coordinates(["price", "pickup_lat", "pickup_lon", "flat"])
    [(2, 1)]
    """
    # All names together: thousands of them are as many calls otherwise.
    in_words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", "\n".join(name.replace("\n", " ") for name in names)).lower()
    words = [name.split() for name in re.sub(r"[^a-z0-9\n]+", " ", in_words).split("\n")] if names else []
    plain = ["".join(each) for each in words]
    pairs, taken = list[tuple[int, int]](), set[int]()
    for first, second in AXES:
        for k, parts in enumerate(words):
            if first in parts:
                partner = "".join(second if part == first else part for part in parts)
            elif plain[k] == first:
                partner = second
            else:
                continue
            if len(first) == 1 and (plain[k] != first or "z" in plain):
                continue
            others = [j for j, name in enumerate(plain) if name == partner and j != k]
            if len(others) == 1 and not taken & {k, others[0]}:
                pairs.append((k, others[0]))
                taken |= {k, others[0]}
    return pairs


class NearRows:
    """Pairs of rows that are near one another.

    Parameters
    ----------
    place : array of shape (n_rows, 1) or (n_rows, 2)
        Coordinates, which are in one unit if `degree` is 2.
    degree : int
        Degree of the surface that is taken out.
    """

    def __init__(self, place: NDArray[np.float64], degree: int = QUADRATIC) -> None:
        from scipy.spatial import cKDTree

        n = len(place)
        standard = (place - place.mean(axis=0)) / place.std(axis=0)
        searched = place if degree == QUADRATIC else standard
        near = cKDTree(searched).query(searched, k=NEAREST + 1)[1]
        i, j = np.repeat(np.arange(n), NEAREST + 1), near.ravel()
        pair = np.sort((np.minimum(i, j) * n + np.maximum(i, j))[i != j])
        pair = pair[np.r_[True, pair[1:] != pair[:-1]]]
        self.pairs = np.stack([pair // n, pair % n])
        self._quadratic = _surface(standard, QUADRATIC)
        self._surface = self._quadratic if degree == QUADRATIC else _surface(standard, degree)

    def similarity(self, values: NDArray[np.float64], most_explained: float = 1.0) -> float:
        """Return how much more alike near rows are than permuted rows, without the surface, in standard errors.

        Parameters
        ----------
        values : array of shape (n_rows, n_columns)
            NaN where missing. The largest number of several columns is returned.
        most_explained : float
            Columns of which a quadratic surface explains more of the variation are left out.
        """
        i, j = self.pairs
        n = np.array([len(values)], dtype=np.float64)
        degree = np.bincount(self.pairs.ravel(), minlength=len(values)).astype(np.float64)
        largest = 0.0
        for column in ranks(values).T:
            if ((self._quadratic.T @ column) ** 2).sum() > most_explained * (column**2).sum():
                continue
            left = column - self._surface @ (self._surface.T @ column)
            variance = np.mean(left**2)
            if not variance > 1e-12 * np.mean(column**2):
                continue
            left = left / np.sqrt(variance)
            sums = np.array([2.0 * i.size]), np.array([(degree**2).sum()]), np.array([np.mean(left**4)])
            mean, spread = moments_of_products(n, *sums)
            largest = max(largest, float((2 * (left[i] * left[j]).sum() - mean[0]) / np.sqrt(spread[0])))
        return largest


def reach_of_places(columns: Sequence[Column], y: NDArray[np.float64], near: Alike) -> float:
    """Return over which distance responses and the most similar feature both stay more similar than by chance."""
    from scipy.spatial.distance import pdist

    by_name = {column.name: column for column in columns}
    rows, place = _places([by_name[name] for name in near.by])
    rows, place = rows[: MOST_ROWS // 2], place[: MOST_ROWS // 2]
    distance = pdist(place)
    edges = np.linspace(0, distance.max() / 2, 41)
    at = np.searchsorted(edges, distance, side="right") - 1
    n_pairs = np.maximum(np.bincount(at, minlength=edges.size), 1)
    similar = []
    for values in (y[rows], by_name[near.features[0]].values[rows, None]):
        standard = ranks(values)
        standard = standard / np.maximum(standard.std(axis=0), 1e-300)
        i, j = np.triu_indices(rows.size, 1)
        products = (standard[i] * standard[j]).max(axis=1)
        similar.append(np.bincount(at, weights=products, minlength=edges.size) / n_pairs)
    below = np.flatnonzero(np.minimum(*similar)[: edges.size - 1] < 2 / np.sqrt(rows.size))
    return float(edges[max(1, int(below[0]))] if below.size else edges[-1])


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return centred ranks of each column, 0 where missing."""
    from scipy.stats import rankdata

    known = ~np.isnan(values)
    ranked = np.zeros(values.shape)
    for k, column in enumerate(values.T):
        rank = rankdata(column[known[:, k]])
        ranked[known[:, k], k] = rank - (rank.size + 1) / 2
    return ranked


def _surface(standard: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
    """Return an orthonormal basis of polynomials of one or two coordinates."""
    first, *second = (np.vander(each, degree + 1, increasing=True) for each in standard.T)
    products = [first[:, [a]] * other[:, 1 : degree + 1 - a] for other in second for a in range(degree)]
    basis: NDArray[np.float64] = np.linalg.qr(np.column_stack([first, *products]))[0]
    return basis


def _alike_in_order(column: NDArray[np.float64], of_y: NDArray[np.float64]) -> bool:
    """Return whether values of rows that follow one another in a column may be alike: a quick look."""
    ordered = of_y[np.argsort(column, kind="stable")]
    products, variance = (ordered[1:] * ordered[:-1]).sum(axis=0), (ordered**2).mean(axis=0)
    return bool((products > WORTH_A_LOOK * variance * np.sqrt(len(ordered))).any())


def _alike_in_cells(first: NDArray[np.int64], second: NDArray[np.int64], of_y: NDArray[np.float64]) -> bool:
    """Return whether values may be alike in cells of two columns, less the means of both: a quick look."""
    for column in of_y.T:
        left = column
        for code in (first, second, first):
            left = left - (np.bincount(code, weights=left) / np.maximum(np.bincount(code), 1))[code]
        cell, squares = first * BINS + second, left**2
        size = np.bincount(cell)
        products = (np.bincount(cell, weights=left) ** 2).sum() - squares.sum()
        if products > WORTH_CELLS * squares.mean() * np.sqrt(2 * (size * (size - 1)).sum()):
            return True
    return False


def _features(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that the model splits on, those with the most splits first, at most `MOST_FEATURES`."""
    return sorted((each for each in columns if each.n_splits), key=lambda each: -each.n_splits)[:MOST_FEATURES]


def _alike(features: list[Column], z: list[float], least: float) -> list[Column]:
    """Return the features with a similarity above the least, the most similar first."""
    return [features[k] for k in np.argsort(-np.array(z), kind="stable") if z[k] > least]


def _needed(key: list[Column], rows: NDArray[np.int64]) -> list[Column]:
    """Return the columns of a key without those that the columns before them determine."""
    needed, code = key[:1], _numbers(key[0].values[rows])
    for column in key[1:]:
        other = _numbers(column.values[rows])
        both = _numbers(code * (other.max() + 1) + other)
        if both.max() > code.max():
            needed, code = [*needed, column], both
    return needed


def _numbers(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of each value among the distinct values; all missing values get one number."""
    return np.unique(values, return_inverse=True)[1].ravel().astype(np.int64)


def _runs(values: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return begin and end of each run of equal values."""
    begins = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    return list(zip(begins.tolist(), [*begins[1:].tolist(), values.size], strict=True))


def _numbered(ascending: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ascending codes without gaps, from 0."""
    return np.cumsum(np.r_[False, np.diff(ascending) > 0])


def _places(axes: Sequence[Column]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows to examine, in random order, and their coordinates."""
    place = np.column_stack([each.values for each in axes])
    known = np.flatnonzero(np.isfinite(place).all(axis=1))
    rng = np.random.default_rng(np.random.SeedSequence(0))  # the same rows always get the same answer
    rows = rng.permutation(known)[:MOST_ROWS]
    return rows, place[rows]


def _enumerated(names: Sequence[str]) -> str:
    *first, last = [escaped(name) for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def _and_features(features: Sequence[str]) -> str:
    if not features:
        return ""
    others = f" and {counted(len(features) - 1, 'more feature')}" if len(features) > 1 else ""
    return f" and similar values of {escaped(features[0])}{others}"


def _labels(X: Any, names: list[str], by: Sequence[str], side: float | None = None) -> str:
    """Return what to type for one label per row: of equal values of columns, or of cells of a grid."""
    positions = [names.index(name) for name in by]
    cells = "" if side is None else f" // {side:g}"
    if not hasattr(X, "columns"):
        if len(by) == 1:
            return f"X[:, {positions[0]}]{cells}"
        return f"numpy.unique(X[:, {positions}]{cells}, axis=0, return_inverse=True)[1].ravel()"
    own = [X.columns[k] if hasattr(X, "groupby") else name for k, name in zip(positions, by, strict=True)]
    if len(by) == 1:
        return f"X[{escaped(repr(own[0]))}]{cells}"
    text = escaped(repr(own))
    if not hasattr(X, "groupby"):
        return f"numpy.unique(X[{text}].to_numpy(){cells}, axis=0, return_inverse=True)[1].ravel()"
    cells = "" if side is None else f".floordiv({side:g})"
    return f"X[{text}]{cells}.groupby({text}, dropna=False).ngroup()"
