"""A score against what permuted responses give it: GUIDE's ratio, Altmann's p-value, a difference, a z."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.digest import digest_of
from debias.retraining.replicates import child_seed, replicate
from debias_plugins.meta_methods.null_adjustment import against_draws, check_level, check_rule, decided

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _check(inner: debias.Scorer, options: Mapping[str, Any]) -> None:
    check_rule("response_permutation", options["rule"], options["tail"], options["replicates"])
    check_level("response_permutation", options["alpha"], options["adaptive"])


@debias.meta_method_plugin(
    "response_permutation",
    unit="{rule} to permuted responses of: {unit}",
    gives=debias.Gives.NULL | debias.Gives.P_VALUE,
    check=_check,
)
def response_permutation(
    inner: debias.Scorer,
    problem: debias.Problem,
    *,
    replicates: int = 100,
    rule: str = "z",
    tail: str = "empirical",
    adaptive: bool = False,
    alpha: float = 0.05,
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Permute the response, train and score again: what is left of a score when chance is taken off.

    The rows keep their features, so that what a feature gains by its type, values and correlations, it gains in the
    draws too. On held-out rows both responses are permuted, each among its own rows.

    Parameters
    ----------
    replicates : int
        Number of permuted responses.
    rule : {"z", "ratio", "difference", "pvalue"}
        "z": (v - mean v*) / sd v*, for any score. "ratio": v / mean v* (Loh and Zhou 2020, eq. 2), 1 for noise, for
        scores whose mean for noise is above 0. "difference": v - mean v*. "pvalue": -log10 of the p-value (Altmann et
        al. 2010), so that more is more important.
    tail : {"empirical", "normal", "gamma"}
        How p-values are had: counted, (1 + #{v* >= v}) / (1 + B); or from a law fitted to the draws of the feature.
    adaptive : bool
        Stop once it is settled for every feature on which side of `alpha` its counted p-value is, but for a risk of
        1e-3 a feature (Gandy 2009).
    alpha : float

    Returns
    -------
    (array of shape (n_features,), dict)
        ``null``: scores of permuted responses, (B, n_features). ``p_value``. ``unadjusted``: v.

    Raises
    ------
    DebiasError
        "ratio" of a score whose mean for noise is not clearly above 0, or "gamma" of one that is not above 0.
    RefitError
        No model could be trained.
    """
    v, _ = problem.score(inner)
    drawn = replicate(
        permuted_score,
        inner,
        problem,
        n=replicates,
        seed=problem.seed or 0,
        engine=problem.engine,
        fingerprint=lambda: digest_of("response_permutation", inner.name, problem.fingerprint()),
        settled=decided(v, alpha) if adaptive else None,
    )
    return against_draws(v, drawn, rule, tail)


def permuted_score(inner: debias.Scorer, problem: debias.Problem, child: np.random.SeedSequence) -> NDArray[np.float64]:
    """Return the scores of one permuted response."""
    return problem.permuted(np.random.default_rng(child)).inside(child_seed(child)).score(inner)[0]


@debias.hookimpl
def debias_meta_methods() -> Sequence[debias.MetaMethod]:
    """Offer response permutation."""
    return [response_permutation]
