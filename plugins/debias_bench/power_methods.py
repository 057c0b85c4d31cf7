"""The tests of the power tables: our audit, and other tests restated from their publications in a few lines each."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import DebiasError
from debias.p_values import holm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias_bench.simulate import Simulation

N_PERMUTATIONS = 999
"""The smallest p-value is then .001: one of 100 features can still be found at a false discovery rate of .1."""
N_REFITS = 19
"""Forests refitted to permuted responses: (1 + k) / 20 <= .05 has a probability of exactly .05 under the null."""
AUDIT = "audit"
"""Beginning of the names of our tests: ``audit`` is ``test="auto"``, ``audit:NAME`` another test."""


EFFECTS = "honest_effects"
"""The scorer that the combined test of an audit belongs to."""


@dataclass(frozen=True, eq=False)
class Case:
    """One fitted model with its data.

    Parameters
    ----------
    model : object
        Fitted to `train`.
    train : Simulation
    held_out : Simulation or None
    unfitted : callable
        ``unfitted(seed)`` returns a model of the same kind, to fit again.
    seed : int
    """

    model: Any
    train: Simulation
    held_out: Simulation | None
    unfitted: Callable[[int], Any]
    seed: int

    @property
    def X(self) -> NDArray[np.float64]:
        """The training rows as an array."""
        return self.train.numeric.to_numpy()


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What a test says about each feature.

    Parameters
    ----------
    p : array of float64 of shape (n_features,), or None
        P-values without adjustment; None if the test only selects.
    adjusted : array of the same shape, or None
        P-values with family-wise adjustment, or 0 for a selected feature and 1 for another; None if there is none.
    """

    p: NDArray[np.float64] | None
    adjusted: NDArray[np.float64] | None


def audit(case: Case, test: str = "auto") -> Verdicts:
    """Return the p-values of an audit; the adjusted ones are those of the audit itself."""
    rows = case.train if case.held_out is None else case.held_out
    of: Any = "response" if test == "permutation" else "auto"
    all_drawn = debias.Permutation(permutations(test, case.X.shape[1]), adaptive=False, of=of)
    options: dict[str, Any] = {
        "rows": "oob" if case.held_out is None else "held-out",
        # All permutations are drawn, for p-values of single features.
        "test": all_drawn if test in ("auto", "permutation", "combined") else test,
        "dependence": test == "combined",
        "random_state": case.seed,
        "n_jobs": 1,
    }
    if case.held_out is not None and test == "combined":
        options["train"] = (case.train.numeric, case.train.y)
    found = debias.audit(case.model, rows.numeric, rows.y, ["mdi_oob"], **options)
    scores = found.scores[EFFECTS] if test == "combined" else found.tested_scores
    return Verdicts(scores.p_value, scores.p_adjusted)


def permutations(test: str, n_features: int) -> int:
    """Return the number of permutations of an audit.

    The combined test takes longer, so it has only as many as a single one of the features needs at a false discovery
    rate of .1: a smallest p-value of .1 / n_features or below.
    """
    if test != "combined":
        return N_PERMUTATIONS
    return next((b for b in (199, 499) if n_features <= 0.1 * (b + 1)), N_PERMUTATIONS)


def correlation(case: Case) -> Verdicts:
    """Return the p-values of Pearson's correlation of each feature with the response, adjusted by Holm's method.

    Of more than two classes it is the smallest p-value of a class against the others, times the number of classes.
    """
    from scipy import stats

    X, y = _all_rows(case)
    values = np.unique(y) if y.dtype.kind == "i" else ()
    responses = [y] if len(values) <= 2 else [(y == value).astype(np.float64) for value in values]  # noqa: PLR2004
    of_columns = [
        min(stats.pearsonr(column, response).pvalue for response in responses) if np.ptp(column) > 0 else 1.0
        for column in X.T
    ]
    p = np.minimum(len(responses) * np.array(of_columns), 1.0)
    return Verdicts(p, holm(p))


def guide(case: Case) -> Verdicts:
    """Return the selection of GUIDE at 5 % (Loh and Zhou 2020)."""
    scores = debias.score(None, case.train.X, case.train.y, "guide", random_state=case.seed)
    return Verdicts(None, np.where(getattr(scores, "selected"), 0.0, 1.0))  # noqa: B009


def boruta(case: Case, rounds: int = 20) -> Verdicts:
    """Return the features that Boruta confirms (Kursa and Rudnicki 2010): binomial tests, Bonferroni's method."""
    from scipy import stats

    hits, _ = boruta_hits(case.unfitted, case.X, case.train.y, rounds, case.seed)
    p = stats.binom.sf(hits - 1, rounds, 0.5)
    return Verdicts(None, np.minimum(p * hits.size, 1.0))


def boruta_hits(
    unfitted: Callable[[int], Any], X: NDArray[np.float64], y: NDArray[Any], rounds: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return how often each feature had a higher importance than every permuted copy.

    Parameters
    ----------
    unfitted : callable
        ``unfitted(seed)`` returns a model with ``feature_importances_``.
    X : array of shape (n_rows, n_features)
    y : array of shape (n_rows,)
    rounds : int
        Number of forests, each with new copies. All features take part in every round; Boruta drops those that are
        decided, which changes little.
    seed : int

    Returns
    -------
    hits : array of int64 of shape (n_features,)
    importance : array of float64 of the same shape
        Mean importance over the forests.
    """
    rng = np.random.default_rng(seed)
    hits, total = np.zeros(X.shape[1], dtype=np.int64), np.zeros(X.shape[1])
    for _ in range(rounds):
        model = unfitted(int(rng.integers(2**31))).fit(np.hstack([X, rng.permuted(X, axis=0)]), y)
        own, copies = np.split(np.asarray(model.feature_importances_), 2)
        hits += own > copies.max()
        total += own
    return hits, total / rounds


def pimp(case: Case) -> Verdicts:
    """Return PIMP (Altmann et al. 2010): MDI beside that of refits to permuted responses.

    Single features: the share of refits. Adjusted: Holm's method on a normal distribution of the refits, one of those
    that Altmann et al. offer, because shares of a few refits cannot get small enough. Its mean and variance are
    estimated from the refits, so a new value has Student's t distribution.
    """
    return _against_refits(case, _impurity)


def altmann(case: Case) -> Verdicts:
    """Return Altmann's p-values for the corrected impurity importance, as in ranger (Nembrini et al. 2018)."""
    return _against_refits(case, _corrected_impurity)


def janitza(case: Case) -> Verdicts:
    """Return the test of Janitza et al. (2018): hold-out importance beside its mirrored negative values.

    Two forests are fitted to the two halves, and permutation importance is measured on the other half. A feature above
    all mirrored values has p = 0.
    """
    X, y = case.X, case.train.y
    rng = np.random.default_rng(case.seed)
    half = rng.permutation(len(y)) < len(y) // 2
    total = np.zeros(X.shape[1])
    for rows in (half, ~half):
        model = case.unfitted(int(rng.integers(2**31))).fit(X[rows], y[rows])
        total += _increase_of_loss(model, X[~rows], y[~rows], 1, rng).mean(axis=0)
    below = total[total < 0]
    null = np.concatenate([below, np.zeros(int((total == 0).sum())), -below])
    p = np.array([(null >= value).mean() for value in total]) if null.size else np.ones(total.size)
    return Verdicts(p, holm(p))


def paired_permutation(case: Case, repeats: int = 1) -> Verdicts:
    """Return one-sided paired t-tests of the loss with and without a permuted column, on rows the model has not seen.

    Without held-out rows, the model is fitted again to two thirds of the rows and tested on the others.
    """
    from scipy import stats

    rng = np.random.default_rng(case.seed)
    if case.held_out is not None:
        model, X, y = case.model, case.held_out.numeric.to_numpy(), case.held_out.y
    else:
        test = rng.permutation(len(case.train.y)) < len(case.train.y) // 3
        model = case.unfitted(case.seed).fit(case.X[~test], case.train.y[~test])
        X, y = case.X[test], case.train.y[test]
    increase = _increase_of_loss(model, X, y, repeats, rng)
    error = increase.std(axis=0, ddof=1) / np.sqrt(len(y))
    t = np.divide(increase.mean(axis=0), error, out=np.zeros_like(error), where=error > 0)
    p = np.where(error > 0, stats.t.sf(t, len(y) - 1), 1.0)
    return Verdicts(p, holm(p))


def sign_of_masking(case: Case, *, split_ties: bool = False) -> Verdicts:
    """Return the sign test of AICO: whether the loss is larger with a masked feature in most held-out rows.

    As in the authors' code: a feature is masked by its mean in the training rows; one of whole numbers by its most
    frequent value there, or by the second where the row has the first. P-values are randomised, so that each level is
    exact.

    Parameters
    ----------
    case : Case
    split_ties : bool
        Whether a row whose loss does not change counts for or against the feature with probability 1/2. In the authors'
        code it counts against it. Trees have many such rows.
    """
    from scipy import stats

    if case.held_out is None:
        raise DebiasError("the sign test of AICO needs held-out rows")
    X, y = case.held_out.numeric.to_numpy(), case.held_out.y
    rng = np.random.default_rng(case.seed)
    full, p = _loss(case.model, X, y), np.ones(X.shape[1])
    for k in range(X.shape[1]):
        masked = X.copy()
        masked[:, k] = _mask(X[:, k], case.X[:, k])
        gain = _loss(case.model, masked, y) - full
        worse = int((gain > 0).sum())
        if split_ties:
            worse += int(rng.binomial(int((gain == 0).sum()), 0.5))
        p[k] = stats.binom.sf(worse, len(y), 0.5) + rng.uniform() * stats.binom.pmf(worse, len(y), 0.5)
    return Verdicts(p, holm(p))


def leave_out(case: Case) -> Verdicts:
    """Return the test of LOCO (Lei et al. 2018): whether held-out rows have larger errors without a feature.

    The model is fitted again without each feature. The test is Wilcoxon's signed-rank test, one-sided, of the absolute
    error of each row without the feature minus that with it.
    """
    from scipy import stats

    if case.held_out is None:
        raise DebiasError("LOCO needs held-out rows here")
    X, y = case.held_out.numeric.to_numpy(), case.held_out.y
    full, p = np.sqrt(_loss(case.model, X, y)), np.ones(X.shape[1])
    for k in range(X.shape[1]):
        refit = case.unfitted(case.seed).fit(np.delete(case.X, k, axis=1), case.train.y)
        more = np.sqrt(_loss(refit, np.delete(X, k, axis=1), y)) - full
        p[k] = stats.wilcoxon(more, alternative="greater").pvalue if more.any() else 1.0
    return Verdicts(p, holm(p))


def scorer(case: Case, name: str) -> Verdicts:
    """Return the p-values that a scorer of debias gives by itself on held-out rows."""
    if case.held_out is None:
        raise DebiasError(f"{name} needs held-out rows here")
    X, y = case.held_out.numeric, case.held_out.y
    found = debias.score(case.model, X, y, name, rows="held-out", random_state=case.seed, n_jobs=1)
    return Verdicts(found.p_value, found.p_adjusted)


METHODS: dict[str, Callable[[Case], Verdicts]] = {
    "correlation": correlation,
    "guide": guide,
    "boruta": boruta,
    "LOCO": leave_out,
    "PIMP": pimp,
    "ranger, Altmann": altmann,
    "Janitza": janitza,
    "paired permutation": paired_permutation,
    "AICO": sign_of_masking,
    "AICO, ties split": partial(sign_of_masking, split_ties=True),
    "ablation": partial(scorer, name="ablation"),
    "permutation": partial(scorer, name="permutation(p_values=True)"),
}
ON_HELD_OUT_ROWS = ("AICO", "AICO, ties split", "LOCO", "ablation", "permutation")
"""Methods that need rows the model has not seen."""
REFITTING = ("LOCO", "PIMP", "ranger, Altmann", "boruta")
"""Methods that fit many forests for one test: they take part in a fifth of the trials of some designs."""
SLOW = ("guide", "Janitza")
"""Methods that take part in a fifth of the trials of every design."""


def verdicts(name: str, case: Case) -> Verdicts:
    """Return what a test says: a key of METHODS, ``audit``, or ``audit:TEST``.

    Raises
    ------
    DebiasError
        There is no such test, or it refuses the case.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)  # the page says which rows are used
        if name in METHODS:
            return METHODS[name](case)
        kind, _, test = name.partition(":")
        if kind != AUDIT:
            raise DebiasError(f"there is no test {name!r}: pass {AUDIT}, {AUDIT}:TEST or one of {', '.join(METHODS)}")
        return audit(case, test or "auto")


def _all_rows(case: Case) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return training and held-out rows together: a test without a model can use both."""
    parts = [case.train] if case.held_out is None else [case.train, case.held_out]
    return np.vstack([part.numeric.to_numpy() for part in parts]), np.concatenate([part.y for part in parts])


def _against_refits(case: Case, importance: Callable[[Case, NDArray[Any], int], NDArray[np.float64]]) -> Verdicts:
    from scipy import stats

    rng = np.random.default_rng(case.seed)
    own = importance(case, case.train.y, int(rng.integers(2**31)))
    null = np.array(
        [importance(case, rng.permutation(case.train.y), int(rng.integers(2**31))) for _ in range(N_REFITS)]
    )
    p = (1 + (null >= own).sum(axis=0)) / (1 + N_REFITS)
    spread = null.std(axis=0, ddof=1) * np.sqrt(1 + 1 / N_REFITS)
    t = np.divide(own - null.mean(axis=0), spread, out=np.zeros_like(own), where=spread > 0)
    return Verdicts(p, holm(stats.t.sf(t, N_REFITS - 1)))


def _impurity(case: Case, y: NDArray[Any], seed: int) -> NDArray[np.float64]:
    return np.asarray(case.unfitted(seed).fit(case.X, y).feature_importances_)


def _corrected_impurity(case: Case, y: NDArray[Any], seed: int) -> NDArray[np.float64]:
    """Return the importance of each feature minus that of its permuted copy, from one forest of both."""
    copies = np.random.default_rng(seed).permuted(case.X, axis=0)
    own, permuted = np.split(
        np.asarray(case.unfitted(seed).fit(np.hstack([case.X, copies]), y).feature_importances_), 2
    )
    return np.asarray(own - permuted)


def _increase_of_loss(
    model: Any, X: NDArray[np.float64], y: NDArray[Any], repeats: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return for each row and feature the mean loss with the permuted column minus the loss without."""
    full = _loss(model, X, y)
    increase = np.zeros(X.shape)
    for k in range(X.shape[1]):
        permuted = X.copy()
        for _ in range(repeats):
            permuted[:, k] = rng.permutation(X[:, k])
            increase[:, k] += (_loss(model, permuted, y) - full) / repeats
    return increase


def _loss(model: Any, X: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
    """Return the squared error of each row; for classes, half of that of all probabilities."""
    if y.dtype.kind != "i":
        return np.asarray((y - model.predict(X)) ** 2, dtype=np.float64)
    error = (y[:, None] == model.classes_) - model.predict_proba(X)
    return np.asarray((error**2).sum(axis=1) / 2, dtype=np.float64)


def _mask(column: NDArray[np.float64], of_training: NDArray[np.float64]) -> NDArray[np.float64] | float:
    """Return the values that replace a column of the held-out rows in AICO's test."""
    values, counts = np.unique(of_training, return_counts=True)
    if not np.array_equal(values, np.round(values)):
        return float(of_training.mean())
    if values.size == 1:
        return float(values[0])
    first, second = values[np.argsort(-counts, kind="stable")[:2]]
    return np.where(column == first, second, first)
