"""Response permutation: a score compared with its values for permuted responses, by ratio, p-value, difference or z."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.data.digest import digest_of
from debias.retraining.replicates import child_seed, replicate
from debias_plugins.meta_methods.null_adjustment import against_draws, all_settled, check_level, check_rule

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _check(inner: debias.plugin.Scorer, options: Mapping[str, Any]) -> None:
    check_rule("response_permutation", options["rule"], options["tail"], options["replicates"])
    check_level("response_permutation", options["alpha"], options["adaptive"])


@debias.plugin.meta_method_plugin(
    "response_permutation",
    unit="{rule} to permuted responses of: {unit}",
    gives=debias.plugin.Gives.NULL | debias.plugin.Gives.P_VALUE,
    check=_check,
)
def response_permutation(
    inner: debias.plugin.Scorer,
    problem: debias.plugin.Problem,
    *,
    replicates: int = 100,
    rule: str = "z",
    tail: str = "empirical",
    adaptive: bool = False,
    alpha: float = 0.05,
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Permute the response, fit and score again, and adjust the score by the scores of the permutations.

    The rows keep their features. So a feature that gains from its type, values or correlations gains the same in the
    permutations. With held-out rows, the responses of training and held-out rows are permuted separately.

    Parameters
    ----------
    replicates : int
        Number of permuted responses.
    rule : {"z", "ratio", "difference", "pvalue"}
        v is the score, v* are the scores of permuted responses. "z": (v - mean v*) / sd v*, for any score. "ratio":
        v / mean v* (Loh and Zhou 2020, eq. 2), 1 for noise, for scores with a mean above 0 for noise. "difference":
        v - mean v*. "pvalue": -log10 of the p-value (Altmann et al. 2010), so higher is more important.
    tail : {"empirical", "normal", "gamma"}
        How p-values are computed: counted, (1 + #{v* >= v}) / (1 + B), or by a distribution fitted to the draws of the
        feature.
    adaptive : bool
        Stop when it is settled for every feature on which side of `alpha` its counted p-value is. The risk that all
        replicates would decide otherwise is at most 2e-3 per feature.
    alpha : float
        Error rate for `adaptive`.

    Returns
    -------
    (array of shape (n_features,), dict)
        ``null``: scores of permuted responses, shape (B, n_features). ``p_value``. ``unadjusted``: v.

    Raises
    ------
    DebiasError
        "ratio" and the mean for noise is not clearly above 0, or "gamma" and a score of a permutation is not above 0.
    RefitError
        No model could be fitted.
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
        settled=all_settled(v, alpha, replicates) if adaptive else None,
    )
    return against_draws(v, drawn, rule, tail)


def permuted_score(
    inner: debias.plugin.Scorer, problem: debias.plugin.Problem, child: np.random.SeedSequence
) -> NDArray[np.float64]:
    """Return the scores for one permuted response."""
    return problem.permuted(np.random.default_rng(child)).inside(child_seed(child)).score(inner)[0]


@debias.plugin.hookimpl
def debias_meta_methods() -> Sequence[debias.plugin.MetaMethod]:
    """Return response permutation."""
    return [response_permutation]
