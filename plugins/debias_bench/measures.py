"""Measures of a set of scores: how well it separates relevant features from noise, and how equal it is for noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Outcome:
    """Scores of one trial, and the truth about its features.

    Parameters
    ----------
    score : array of float64 of shape (n_features,)
    rank : array of int64 of the same shape
        Expected place of each feature's group; 0 is the most important.
    relevant : array of bool of the same shape
    selected : array of bool of the same shape, or None
        The features that the scorer selects; None if it does not decide.
    """

    score: NDArray[np.float64]
    rank: NDArray[np.int64]
    relevant: NDArray[np.bool_]
    selected: NDArray[np.bool_] | None = None

    @property
    def has_signal_and_noise(self) -> bool:
        """Whether there are both relevant features and noise features."""
        return bool(self.relevant.any() and not self.relevant.all())


@dataclass(frozen=True)
class Measure:
    """A measure of one trial; its value is NaN where it is undefined."""

    title: str
    explained: str
    of: Callable[[Outcome], float]


def auc(trial: Outcome) -> float:
    """Return the share of (relevant, noise) pairs in which the relevant feature scores higher; ties count half."""
    if not trial.has_signal_and_noise:
        return np.nan
    ahead = np.sign(trial.score[trial.relevant][:, None] - trial.score[~trial.relevant][None, :])
    return float(ahead.mean() / 2 + 0.5)


def first(trial: Outcome) -> float:
    """Return 1 if a relevant feature has the highest score, else 0; in a tie, the share of relevant features in it."""
    if not trial.has_signal_and_noise:
        return np.nan
    return float(trial.relevant[trial.score == trial.score.max()].mean())


def on_top(trial: Outcome) -> float:
    """Return 1 if every relevant feature scores higher than every noise feature, else 0."""
    if not trial.has_signal_and_noise:
        return np.nan
    return float(trial.score[trial.relevant].min() > trial.score[~trial.relevant].max())


def order(trial: Outcome) -> float:
    """Return Kendall's concordance with the expected groups: 1 in order, 0 by chance, -1 reversed.

    It is the number of concordant minus discordant pairs, divided by the number of pairs of features from different
    groups (Somers' D of the score given the group). Pairs within a group have no expected order, and a tie in the score
    counts as neither concordant nor discordant.
    """
    above = np.sign(trial.rank[:, None] - trial.rank[None, :])
    pairs = np.abs(above).sum()
    if not pairs:
        return np.nan
    return float((-above * np.sign(trial.score[:, None] - trial.score[None, :])).sum() / pairs)


def false_alarm(trial: Outcome) -> float:
    """Return 1 if a noise feature was selected, else 0; the mean over trials is the family-wise error rate."""
    if trial.selected is None or trial.relevant.all():
        return np.nan
    return float((trial.selected & ~trial.relevant).any())


def found(trial: Outcome) -> float:
    """Return the share of relevant features that were selected."""
    if trial.selected is None or not trial.relevant.any():
        return np.nan
    return float(trial.selected[trial.relevant].mean())


MEASURES = {
    "auc": Measure("AUC of relevant against noise", "1 perfect, .5 chance, below .5 noise is preferred", auc),
    "first": Measure("A relevant feature ranks first", "share of trials", first),
    "on_top": Measure("All relevant features rank above all noise", "share of trials", on_top),
    "order": Measure("Order agreement with the expected groups", "Kendall: 1 as expected, 0 chance", order),
    "fwer": Measure("A noise feature is selected", "share of trials: family-wise error", false_alarm),
    "found": Measure("Relevant features selected", "mean share of them", found),
}


def correlation(score: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Return Pearson's correlation over features; NaN if one of the two is constant."""
    if np.ptp(score) == 0 or np.ptp(reference) == 0:
        return np.nan
    return float(np.corrcoef(score, reference)[0, 1])


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float, int]:
    """Return mean, standard error and number of trials, over the trials in which a measure is defined."""
    values = values[~np.isnan(values)]
    n = values.size
    if not n:
        return np.nan, np.nan, 0
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan, n


def homogeneity(scores: NDArray[np.float64]) -> float:
    """Return the p-value of Hotelling's T-squared test that all features have equal mean scores over paired trials.

    Parameters
    ----------
    scores : array of shape (n_trials, n_features)

    Returns
    -------
    float
        NaN if there are fewer trials than features plus one, or if no score varies.
    """
    from scipy import linalg, stats

    n = len(scores)
    if n < 3:
        return np.nan
    contrasts = scores - scores.mean(axis=1, keepdims=True)
    spread = contrasts.std(axis=0)
    contrasts = contrasts[:, spread > 0] / spread[spread > 0]  # the same scale, for the rank below
    if not contrasts.size:
        return np.nan
    mean, covariance = contrasts.mean(axis=0), np.atleast_2d(np.cov(contrasts, rowvar=False))
    inverse, rank = linalg.pinvh(covariance, rtol=1e-10, return_rank=True)
    if not rank or rank >= n - 1:  # too few trials to estimate the covariance
        return np.nan
    unexplained = mean - covariance @ inverse @ mean
    if np.abs(unexplained).max() > 1e-6 * max(1.0, np.abs(mean).max()):
        return 0.0  # the means differ in a direction in which no trial varies
    statistic = n * mean @ inverse @ mean * (n - rank) / (rank * (n - 1))
    return float(stats.f.sf(statistic, rank, n - rank))
