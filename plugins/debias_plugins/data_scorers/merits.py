"""Merits of a single feature for a class, measured against what noise of the same values would have.

Hong, Hosking and Winograd (1996), section 2. A feature splits the N rows into F branches with a_j rows, the class has
frequencies b_i, and x_ij rows are of class i in branch j. A noise feature is the feature with its values permuted, so
that x_ij is hypergeometric: the expectations below are exact.

>>> import debias
>>> y = [0, 0, 0, 0, 1, 1, 1, 1]
>>> X = [[0, row] for row in range(8)]
>>> for row in (4, 5, 6):
...     X[row][0] = 1
>>> debias.score(None, X, y, "gini_merit", form="merit").values  # a name for every row explains it all
array([0.3, 0.5])
>>> debias.score(None, X, y, "gini_merit").values  # as any other names would
array([4.2, 1. ])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import CompositionError, RowsError
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


@debias.data_scorer_plugin(
    "gini_merit",
    unit="ratio to noise of the same values",
    null_mean=lambda data, **options: _mean_for_noise(data, "gini_merit", **options),
)
def gini_merit(
    data: debias.Data,
    *,
    form: str = "normalized",
    branching: str = "full",
    bins: int = 10,
    replicates: int = 200,
) -> Result:
    """Decrease of the class's Gini impurity in the branches of a feature (Hong et al. 1996, eq. 7 and 16).

    Parameters
    ----------
    data : Data of (n_rows, n_features)
        The response is of classes; a missing value is a value of its own.
    form : {"normalized", "merit", "excess", "demerit"}
        "merit": I(C) - I(C|F). "normalized": that over its mean for noise of the same values, so noise has 1 on
        average; 1 where both are 0. "excess": the difference of the two, 0 on average for noise. "demerit": Hong's
        I(C|F) / E I(C|F), 1 on average for noise and the lower the better; 1 where both are 0.
    branching : {"full", "bins", "binary"}
        "full": a branch for every distinct value. "bins": numbers in `bins` bins of about equal frequency. "binary":
        two branches by the best threshold of numbers (missing values go with the large ones) or the best single
        category; the mean for noise then is that of `replicates` permuted responses, since choosing the best raises it.
    bins, replicates : int

    Returns
    -------
    (array of shape (n_features,), dict)
        The scores; ``branches``, and ``expected``: the mean merit of noise (each a list of n_features).

    Raises
    ------
    RowsError
        The response is not of classes, or there are sample weights: merits count rows.
    """
    return _score(data, GINI, form, branching, bins, replicates)


@debias.data_scorer_plugin(
    "entropy_merit",
    unit="ratio to noise of the same values",
    null_mean=lambda data, **options: _mean_for_noise(data, "entropy_merit", **options),
)
def entropy_merit(
    data: debias.Data,
    *,
    form: str = "normalized",
    branching: str = "full",
    bins: int = 10,
    replicates: int = 200,
    null: str = "exact",
) -> Result:
    """Mutual information of class and feature in natural units (Hong et al. 1996, eq. 8).

    Parameters
    ----------
    data, form, branching, bins, replicates
        As for ``gini_merit``.
    null : {"exact", "approximate"}
        "exact": the mean for noise from the hypergeometric law. "approximate": (F - 1)(C - 1) / 2N of eq. 24, for
        branches and classes of many rows.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    if null not in ("exact", "approximate"):
        raise CompositionError(f"entropy_merit: null={null!r} is none of 'exact', 'approximate'")
    return _score(data, ENTROPY if null == "exact" else APPROXIMATE_ENTROPY, form, branching, bins, replicates)


@debias.data_scorer_plugin("gain_ratio", unit="mutual information above noise / H(F)")
def gain_ratio(
    data: debias.Data,
    *,
    form: str = "excess",
    branching: str = "full",
    bins: int = 10,
    replicates: int = 200,
) -> Result:
    """Quinlan's gain ratio, mutual information over the entropy H(F) of the feature; 0 where H(F) is 0.

    Parameters
    ----------
    data, form, branching, bins, replicates
        As for ``gini_merit``. The default "excess" has mean 0 for noise; "merit" is Quinlan's own, which still grows
        with the number of values; "normalized" is that of ``entropy_merit``.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    return _score(data, GAIN_RATIO, form, branching, bins, replicates)


@debias.data_scorer_plugin("symmetric_uncertainty", unit="2 x mutual information above noise / (H(C) + H(F))")
def symmetric_uncertainty(
    data: debias.Data,
    *,
    form: str = "excess",
    branching: str = "full",
    bins: int = 10,
    replicates: int = 200,
) -> Result:
    """Twice the mutual information over H(C) + H(F), from 0 to 1 before noise is taken off; 0 where both are 0.

    Parameters
    ----------
    data, form, branching, bins, replicates
        As for ``gain_ratio``.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    return _score(data, SYMMETRIC_UNCERTAINTY, form, branching, bins, replicates)


@debias.data_scorer_plugin(
    "chi_square",
    unit="ratio to noise of the same values",
    null_mean=lambda data, **options: _mean_for_noise(data, "chi_square", **options),
)
def chi_square(
    data: debias.Data,
    *,
    form: str = "normalized",
    branching: str = "full",
    bins: int = 10,
    replicates: int = 200,
) -> Result:
    """Pearson's chi-square of class and feature; its exact mean for noise is N (F - 1)(C - 1) / (N - 1).

    Parameters
    ----------
    data, branching, bins, replicates
        As for ``gini_merit``.
    form : {"normalized", "merit", "excess", "log_p"}
        "merit" is chi-square itself; "log_p" is -log10 of the p-value with (F - 1)(C - 1) degrees of freedom, which
        holds for branches and classes of many rows, and not after the choice of a best binary split.

    Returns
    -------
    (array of shape (n_features,), dict)
    """
    return _score(data, CHI_SQUARE, form, branching, bins, replicates)


@debias.hookimpl
def debias_scorers() -> Sequence[debias.Scorer]:
    """Offer the merits."""
    return [gini_merit, entropy_merit, gain_ratio, symmetric_uncertainty, chi_square]


def _score(data: debias.Data, merit: Merit, form: str, branching: str, bins: int, replicates: int) -> Result:
    _check(data, merit, form, branching, bins, replicates)
    classes, codes = data.labels
    permuted = _permuted(data, codes, replicates) if branching == "binary" else None
    found, expected, branches = (np.zeros(data.n_features) for _ in range(3))
    tail = np.zeros(data.n_features)
    for k, column in enumerate(data.columns):
        values = _binned(column, bins) if branching == "bins" and not column.categorical else column.codes
        table = _table(values, codes, len(classes))
        branches[k] = len(table)
        if permuted is None:
            found[k], expected[k] = merit.of(table), merit.expected(table)
        else:
            branches[k] = min(len(table), 2)
            found[k] = _best_binary(merit, table, column.categorical)
            drawn = [_best_binary(merit, _table(values, each, len(classes)), column.categorical) for each in permuted]
            expected[k] = np.mean(drawn)
        if form == "log_p":
            from debias_plugins.data_scorers.kernels.chi_square import log_tail

            tail[k] = -log_tail(found[k], (len(table) - 1) * (len(classes) - 1)) / np.log(10)
    found[np.abs(found) < 1e-14] = 0.0  # entropies of large tables differ in their last digit
    details = {"branches": branches.astype(int).tolist(), "expected": expected.tolist()}
    if form == "demerit":
        assert merit.impurity is not None
        impurity = float(merit.impurity(np.bincount(codes)))
        left, left_expected = (np.where(impurity - each < 1e-12, 0.0, impurity - each) for each in (found, expected))
        return ratio(left, left_expected, 1.0), details
    forms = {"merit": found, "excess": found - expected, "normalized": ratio(found, expected, 1.0), "log_p": tail}
    return forms[form], details


def _mean_for_noise(data: debias.Data, name: str, **options: Any) -> NDArray[np.float64] | None:
    """Return the exact mean of plain merits under permutation; None for other forms, and for bests of several."""
    if options.get("form") != "merit" or options.get("branching") == "binary" or options.get("null") == "approximate":
        return None
    merit = {each.name: each for each in (GINI, ENTROPY, CHI_SQUARE)}[name]
    _, details = _score(data, merit, "merit", options.get("branching", "full"), options.get("bins", 10), 1)
    return np.asarray(details["expected"])


def _check(data: debias.Data, merit: Merit, form: str, branching: str, bins: int, replicates: int) -> None:
    has = {"demerit": merit.impurity is not None, "log_p": merit is CHI_SQUARE}
    forms = [each for each in FORMS if has.get(each, True)]
    for name, value, known in (("form", form, forms), ("branching", branching, ["full", "bins", "binary"])):
        if value not in known:
            raise CompositionError(f"{merit.name}: {name}={value!r} is none of {', '.join(map(repr, known))}")
    if form == "log_p" and branching == "binary":
        raise CompositionError("chi_square: form='log_p' is no p-value after the choice of a best binary split")
    for name, number, least in (("bins", bins, 2), ("replicates", replicates, 1)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise CompositionError(f"{merit.name}: {name}={number!r} must be a whole number of {least} or more")
    data.refuse_weights(merit.name)
    if not data.is_classification:
        raise RowsError(
            f"{merit.name} is of classes, but y is of numbers ({len(np.unique(data.y))} distinct): bin y, or pass its "
            "classes as text or a category"
        )


def _permuted(data: debias.Data, codes: NDArray[np.int64], replicates: int) -> list[NDArray[np.int64]]:
    rngs = map(np.random.default_rng, np.random.SeedSequence(data.seed).spawn(replicates))
    return [rng.permutation(codes) for rng in rngs]


def _table(values: NDArray[np.int64], codes: NDArray[np.int64], n_classes: int) -> Counts:
    n_values = int(values.max()) + 1
    return np.bincount(values * n_classes + codes, minlength=n_values * n_classes).reshape(n_values, n_classes)


def _binned(column: Any, bins: int) -> NDArray[np.int64]:
    """Return codes of about equally frequent bins, cut at values; the last code is missing."""
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
    one = table if categorical else np.cumsum(table, axis=0)[:-1]
    return float(merit.of(np.stack([one, table.sum(axis=0) - one], axis=1)).max())
