"""Scorers of the merit of a single feature for a class, relative to noise with the same values.

The source is Hong, Hosking and Winograd (1996), section 2. A feature splits the N rows into F branches with a_j rows,
the class has frequencies b_i, and branch j has x_ij rows of class i. A noise feature is the feature with its values
permuted, so x_ij is hypergeometric and the expectations are exact. The formulas are in
:mod:`debias_plugins.data_scorers.merit_statistics`.

>>> import debias
>>> y = [0, 0, 0, 0, 1, 1, 1, 1]
>>> X = [[0, row] for row in range(8)]
>>> for row in (4, 5, 6):
...     X[row][0] = 1
>>> debias.score(None, X, y, "gini_merit", form="merit").values  # a distinct value for every row explains everything
array([0.3, 0.5])
>>> debias.score(None, X, y, "gini_merit").values  # but any other distinct values would do the same
array([4.2, 1. ])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import RowsError
from debias.plugin import CompositionError
from debias_plugins.data_scorers.merit_statistics import (
    APPROXIMATE_ENTROPY,
    CHI_SQUARE,
    ENTROPY,
    GAIN_RATIO,
    GINI,
    SYMMETRIC_UNCERTAINTY,
    Merit,
    ratio,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]
    Result = tuple[NDArray[np.float64], dict[str, Any]]

FORMS = ("normalized", "merit", "excess", "demerit", "log_p")


@debias.plugin.data_scorer_plugin(
    "gini_merit",
    unit="ratio to noise of the same values",
    null_mean=lambda data, **options: _mean_for_noise(data, "gini_merit", **options),
)
def gini_merit(
    data: debias.plugin.Data,
    *,
    form: str = "normalized",
    branching: str = "full",
    bins: int = 10,
    replicates: int = 200,
) -> Result:
    """Return the decrease of the Gini impurity of the class in the branches of a feature (Hong et al. 1996, eq. 7, 16).

    Parameters
    ----------
    data : Data of (n_rows, n_features)
        The response has classes. A missing value is a value of its own.
    form : {"normalized", "merit", "excess", "demerit"}
        "merit": I(C) - I(C|F). "normalized": the merit divided by its mean for noise with the same values, 1 on average
        for noise; 1 where both are 0. "excess": the merit minus that mean, 0 on average for noise. "demerit": Hong's
        I(C|F) / E I(C|F), 1 on average for noise, and lower is better; 1 where both are 0.
    branching : {"full", "bins", "binary"}
        "full": one branch for every distinct value. "bins": numbers are put into `bins` bins of about equal frequency.
        "binary": two branches by the best threshold of numbers (missing values go with the large ones) or the best
        single category. Choosing the best increases the mean for noise, so that mean is then computed from
        `replicates` permuted responses.
    bins, replicates : int

    Returns
    -------
    (array of shape (n_features,), dict)
        The scores; ``branches``, the number of branches, and ``expected``, the mean merit of noise (lists of
        n_features).

    Raises
    ------
    RowsError
        The response is numeric, or there are sample weights: merits count rows.
    """
    return _score(data, GINI, form, branching, bins, replicates)


@debias.plugin.data_scorer_plugin(
    "entropy_merit",
    unit="ratio to noise of the same values",
    null_mean=lambda data, **options: _mean_for_noise(data, "entropy_merit", **options),
)
def entropy_merit(
    data: debias.plugin.Data,
    *,
    form: str = "normalized",
    branching: str = "full",
    bins: int = 10,
    replicates: int = 200,
    null: str = "exact",
) -> Result:
    """Return the mutual information of class and feature in nats (Hong et al. 1996, eq. 8).

    Parameters
    ----------
    data, form, branching, bins, replicates
        As for ``gini_merit``.
    null : {"exact", "approximate"}
        "exact": the mean for noise by the hypergeometric distribution. "approximate": (F - 1)(C - 1) / 2N of eq. 24,
        for branches and classes with many rows.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    if null not in ("exact", "approximate"):
        raise CompositionError(f"entropy_merit: null={null!r} is not one of 'exact', 'approximate'")
    return _score(data, ENTROPY if null == "exact" else APPROXIMATE_ENTROPY, form, branching, bins, replicates)


@debias.plugin.data_scorer_plugin("gain_ratio", unit="mutual information above noise / H(F)")
def gain_ratio(
    data: debias.plugin.Data,
    *,
    form: str = "excess",
    branching: str = "full",
    bins: int = 10,
    replicates: int = 200,
) -> Result:
    """Return Quinlan's gain ratio: mutual information divided by the entropy H(F) of the feature; 0 where H(F) is 0.

    Parameters
    ----------
    data, form, branching, bins, replicates
        As for ``gini_merit``. The default "excess" has mean 0 for noise. "merit" is Quinlan's own score, which still
        grows with the number of values. "normalized" equals that of ``entropy_merit``.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    return _score(data, GAIN_RATIO, form, branching, bins, replicates)


@debias.plugin.data_scorer_plugin("symmetric_uncertainty", unit="2 x mutual information above noise / (H(C) + H(F))")
def symmetric_uncertainty(
    data: debias.plugin.Data,
    *,
    form: str = "excess",
    branching: str = "full",
    bins: int = 10,
    replicates: int = 200,
) -> Result:
    """Return twice the mutual information divided by H(C) + H(F), from 0 to 1 before noise is subtracted.

    It is 0 where both entropies are 0.

    Parameters
    ----------
    data, form, branching, bins, replicates
        As for ``gain_ratio``.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    return _score(data, SYMMETRIC_UNCERTAINTY, form, branching, bins, replicates)


@debias.plugin.data_scorer_plugin(
    "chi_square",
    unit="ratio to noise of the same values",
    null_mean=lambda data, **options: _mean_for_noise(data, "chi_square", **options),
)
def chi_square(
    data: debias.plugin.Data,
    *,
    form: str = "normalized",
    branching: str = "full",
    bins: int = 10,
    replicates: int = 200,
) -> Result:
    """Return Pearson's chi-square of class and feature; its exact mean for noise is N (F - 1)(C - 1) / (N - 1).

    Parameters
    ----------
    data, branching, bins, replicates
        As for ``gini_merit``.
    form : {"normalized", "merit", "excess", "log_p"}
        "merit" is chi-square itself. "log_p" is -log10 of the p-value with (F - 1)(C - 1) degrees of freedom. It is
        valid for branches and classes with many rows, and not after the choice of a best binary split.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    return _score(data, CHI_SQUARE, form, branching, bins, replicates)


@debias.plugin.hookimpl
def debias_scorers() -> Sequence[debias.plugin.Scorer]:
    """Return the merits."""
    return [gini_merit, entropy_merit, gain_ratio, symmetric_uncertainty, chi_square]


def _score(data: debias.plugin.Data, merit: Merit, form: str, branching: str, bins: int, replicates: int) -> Result:
    _check(data, merit, form, branching, bins, replicates)
    classes, codes = data.labels
    permuted = _permuted(data, codes, replicates) if branching == "binary" else None
    merits, expected, branches = (np.zeros(data.n_features) for _ in range(3))
    tail = np.zeros(data.n_features)
    for k, column in enumerate(data.columns):
        values = _binned(column, bins) if branching == "bins" and not column.categorical else column.codes
        table = _table(values, codes, len(classes))
        branches[k] = len(table)
        if permuted is None:
            merits[k], expected[k] = merit.of(table), merit.expected(table)
        else:
            branches[k] = min(len(table), 2)
            merits[k] = _best_binary(merit, table, column.categorical)
            tables = (_table(values, codes_of_noise, len(classes)) for codes_of_noise in permuted)
            expected[k] = np.mean([_best_binary(merit, of_noise, column.categorical) for of_noise in tables])
        if form == "log_p":
            from debias_plugins.data_scorers.kernels.chi_square import log_tail

            tail[k] = -log_tail(merits[k], (len(table) - 1) * (len(classes) - 1)) / np.log(10)
    merits[np.abs(merits) < 1e-14] = 0.0  # entropies of large tables differ in their last digit
    details = {"branches": branches.astype(int).tolist(), "expected": expected.tolist()}
    if form == "demerit":
        assert merit.impurity is not None
        impurity = float(merit.impurity(np.bincount(codes)))
        left, left_expected = (np.where(impurity - part < 1e-12, 0.0, impurity - part) for part in (merits, expected))
        return ratio(left, left_expected, 1.0), details
    forms = {"merit": merits, "excess": merits - expected, "normalized": ratio(merits, expected, 1.0), "log_p": tail}
    return forms[form], details


def _mean_for_noise(data: debias.plugin.Data, name: str, **options: Any) -> NDArray[np.float64] | None:
    """Return the exact mean of plain merits under permutation; None for other forms and for best binary splits."""
    if options.get("form") != "merit" or options.get("branching") == "binary" or options.get("null") == "approximate":
        return None
    merit = {known.name: known for known in (GINI, ENTROPY, CHI_SQUARE)}[name]
    _, details = _score(data, merit, "merit", options.get("branching", "full"), options.get("bins", 10), 1)
    return np.asarray(details["expected"])


def _check(data: debias.plugin.Data, merit: Merit, form: str, branching: str, bins: int, replicates: int) -> None:
    has = {"demerit": merit.impurity is not None, "log_p": merit is CHI_SQUARE}
    forms = [known for known in FORMS if has.get(known, True)]
    for name, value, known in (("form", form, forms), ("branching", branching, ["full", "bins", "binary"])):
        if value not in known:
            raise CompositionError(f"{merit.name}: {name}={value!r} is not one of {', '.join(map(repr, known))}")
    if form == "log_p" and branching == "binary":
        raise CompositionError("chi_square: form='log_p' is not a p-value after the choice of a best binary split")
    for name, number, least in (("bins", bins, 2), ("replicates", replicates, 1)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise CompositionError(f"{merit.name}: {name}={number!r} must be a whole number of {least} or more")
    data.refuse_weights(merit.name)
    if not data.is_classification:
        raise RowsError(
            f"{merit.name} needs classes, but y is numeric ({len(np.unique(data.y))} distinct values): bin y, or pass "
            "its classes as text or a category"
        )


def _permuted(data: debias.plugin.Data, codes: NDArray[np.int64], replicates: int) -> list[NDArray[np.int64]]:
    rngs = map(np.random.default_rng, np.random.SeedSequence(data.seed).spawn(replicates))
    return [rng.permutation(codes) for rng in rngs]


def _table(values: NDArray[np.int64], codes: NDArray[np.int64], n_classes: int) -> Counts:
    n_values = int(values.max()) + 1
    return np.bincount(values * n_classes + codes, minlength=n_values * n_classes).reshape(n_values, n_classes)


def _binned(column: Any, bins: int) -> NDArray[np.int64]:
    """Return the codes of bins of about equal frequency, cut at values; the last code is for missing values."""
    values = column.values
    missing = np.isnan(values)
    if missing.all():
        return column.codes
    edges = np.unique(np.quantile(values[~missing], np.arange(1, bins) / bins, method="inverted_cdf"))
    place = np.where(missing, edges.size + 1, np.searchsorted(edges, values))
    return np.unique(place, return_inverse=True)[1].astype(np.int64)


def _best_binary(merit: Merit, table: Counts, categorical: bool) -> float:
    if len(table) < 2:
        return 0.0
    left = table if categorical else np.cumsum(table, axis=0)[:-1]
    return float(merit.of(np.stack([left, table.sum(axis=0) - left], axis=1)).max())
