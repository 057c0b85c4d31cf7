"""Contextual merit: how well a feature separates rows of different classes that are similar in the other features.

The source is Hong, Hosking and Winograd (1996), section 3.

>>> import debias
>>> from debias_bench.simulate import hong_exor
>>> drawn = hong_exor(seed=0)  # the class is the parity of X1, X2 and X3
>>> scores = debias.score(None, drawn.X, drawn.y, "contextual_merit").to_frame()["contextual_merit"]
>>> sorted(scores.nlargest(3).index)
['X1', 'X2', 'X3']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import RowsError
from debias.parallel import allowed
from debias.plugin import CompositionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Result = tuple[NDArray[np.float64], dict[str, Any]]

ROWS_A_TASK = 64
"""Number of rows whose neighbours one task finds. Sums are taken in this order for any number of threads."""


@debias.plugin.data_scorer_plugin("contextual_merit", unit="ratio to noise of the same values")
def contextual_merit(
    data: debias.plugin.Data,
    *,
    weights: str = "CM1",
    form: str = "normalized",
    threshold: float = 0.5,
    neighbours: int | None = None,
    replicates: int = 10,
) -> Result:
    """Return the contextual merit of features of any type, for any number of classes (Hong et al. 1996, eq. 27 to 38).

    Two rows differ in a category by 0 or 1, and in a number by min(difference / (threshold x range), 1). A missing
    value is a value of its own, at distance 1 from all others. D is the sum of the differences over all features, and
    Delta the sum over all features but one. The merit of a feature is the weighted sum of its differences, over each
    row and its nearest rows of other classes.

    Parameters
    ----------
    data : Data of (n_rows, n_features)
        The response has classes.
    weights : {"CM1", "CM0"}
        "CM1": neighbours by Delta, weight 1 / (1 + Delta)^2; the mean merit of noise is exact (eq. 35).
        "CM0": Hong's (1994) first form, neighbours by D, weight 1 / D^2. Rows at D = 0 do not differ in any feature and
        add nothing. The mean merit of noise is the mean over `replicates` permutations of the feature's values, which
        takes that many times longer.
    form : {"normalized", "merit"}
        "normalized": the merit divided by its mean for noise with the same values; 1 where both are 0.
    threshold : float
        Share of the range beyond which numbers differ by 1. The paper uses 1/2.
    neighbours : int, optional
        Number of nearest rows. By default it is log2 of the number of rows of other classes, rounded down, at least 1.
        Rows at the same distance as the last one share its places equally, so the order of rows does not matter.
    replicates : int

    Returns
    -------
    (array of shape (n_features,), dict)
        The scores, and ``expected``: the mean merit of noise, if it was computed (list of n_features).

    Raises
    ------
    RowsError
        The response is numeric or has one class only, or there are sample weights.

    Notes
    -----
    Compare the values with each other; their size alone has no meaning. Below 1, a random feature would help more among
    these features. Eq. 32 is summed over both rows of a pair, as written. The merits printed in the paper are about
    half of it; the normalized merits agree. Time grows with N^2 K, memory with N K. There is no form for regression:
    the paper does not define how far apart two responses of different classes must be.
    """
    _check(data, weights, form, threshold, neighbours, replicates)
    classes, codes = data.labels
    if len(classes) < 2:
        raise RowsError("contextual_merit compares rows of different classes, but y has one class only")
    order = np.argsort(codes, kind="stable")
    Z = _scaled(data, threshold)
    start = np.searchsorted(codes[order], np.arange(len(classes) + 1))
    wanted = form == "normalized"
    permuted = _permuted(Z, data.seed, replicates) if weights == "CM0" and wanted else Z[None, :0]
    merit, weight = _sums(Z[:, order], permuted[..., order], start, weights == "CM0", neighbours or 0, data.n_jobs)
    if not wanted:
        return merit[0], {}
    expected = weight * _mean_difference(Z) if weights == "CM1" else merit[1:].mean(axis=0)
    scores = np.divide(merit[0], expected, out=np.ones(data.n_features), where=expected > 0)
    return scores, {"expected": expected.tolist()}


@debias.plugin.hookimpl
def debias_scorers() -> Sequence[debias.plugin.Scorer]:
    """Return contextual merit."""
    return [contextual_merit]


def _check(
    data: debias.plugin.Data, weights: str, form: str, threshold: float, neighbours: int | None, replicates: int
) -> None:
    for name, value, known in (("weights", weights, ("CM1", "CM0")), ("form", form, ("normalized", "merit"))):
        if value not in known:
            raise CompositionError(f"contextual_merit: {name}={value!r} is not one of {', '.join(map(repr, known))}")
    if not 0 < threshold <= 1:
        raise CompositionError(
            f"contextual_merit: threshold={threshold!r} must be a share of the range, above 0 up to 1"
        )
    for name, number in (("neighbours", neighbours), ("replicates", replicates)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise CompositionError(f"contextual_merit: {name}={number!r} must be a whole number of 1 or more")
    data.refuse_weights("contextual_merit")
    if not data.is_classification:
        raise RowsError(
            f"contextual_merit needs classes, but y is numeric ({len(np.unique(data.y))} distinct values): bin y, or "
            "pass its classes as text or a category"
        )


def _scaled(data: debias.plugin.Data, threshold: float) -> NDArray[np.float64]:
    """Return the features scaled so that d = min(abs(z_r - z_s), 1), also for missing values (eq. 27 and 28)."""
    Z = np.empty((data.n_features, data.n_rows))
    for z, column in zip(Z, data.columns, strict=True):
        values = column.values
        missing = np.isnan(values)
        if missing.all():
            z[:] = 0
            continue
        low, high = np.nanmin(values), np.nanmax(values)
        scale = 1.0 if column.categorical or high == low else threshold * (high - low)
        z[:] = np.where(missing, (high - low) / scale + 2, (values - low) / scale)
    return Z


def _permuted(Z: NDArray[np.float64], seed: int | None, replicates: int) -> NDArray[np.float64]:
    rngs = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(replicates))
    return np.stack([Z[:, rng.permutation(Z.shape[1])] for rng in rngs])


def _sums(
    Z: NDArray[np.float64],
    permuted: NDArray[np.float64],
    start: NDArray[np.int64],
    by_all: bool,
    neighbours: int,
    n_jobs: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the merits (of the features and of each permutation) and the sums of weights; rows are sorted by class."""
    from debias_plugins.data_scorers.kernels.contextual_merit import add_merits

    Z, permuted = np.ascontiguousarray(Z), np.ascontiguousarray(permuted)
    n_versions = 1 + (len(permuted) if permuted.size else 0)

    def task(begin: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        merit, weight = np.zeros((n_versions, len(Z))), np.zeros(len(Z))
        end = min(begin + ROWS_A_TASK, Z.shape[1])
        add_merits(Z, permuted, start, begin, end, by_all, neighbours, merit, weight)
        return merit, weight

    with allowed(n_jobs) as threads:
        tasks = threads.map(task, range(0, Z.shape[1], ROWS_A_TASK), "blocks of rows")
    return sum(merit for merit, _ in tasks), sum(weight for _, weight in tasks)


def _mean_difference(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean difference of two different rows in each feature: the last factor of eq. 35 (or eq. 36)."""
    n = Z.shape[1]
    mean = np.empty(len(Z))
    for k, z in enumerate(Z):
        z = np.sort(z)
        near = np.searchsorted(z, z - 1, side="left")  # from here on, rows differ by at most 1
        sums = np.concatenate([[0.0], np.cumsum(z)])
        index = np.arange(n)
        pairs = near + (index - near) * z - (sums[index] - sums[near])
        mean[k] = 2 * pairs.sum() / (n * (n - 1))
    return mean
