"""Feature permutation: a score compared with the score of the permuted feature (Hong, Hosking and Winograd 1996)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.data.digest import digest_of
from debias.retraining.replicates import child_seed, replicate
from debias_plugins.meta_methods.null_adjustment import against_draws, all_settled, check_level, check_rule, normalise
from debias_plugins.meta_methods.permuted_columns import with_permuted

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _check(inner: debias.plugin.Scorer, options: Mapping[str, Any]) -> None:
    check_rule("feature_permutation", options["rule"], options["tail"], options["replicates"])
    check_level("feature_permutation", options["alpha"], options["adaptive"])


def _gives(options: Mapping[str, Any]) -> debias.plugin.Gives:
    return debias.plugin.Gives.P_VALUE if options["rule"] in ("z", "pvalue") else debias.plugin.Gives.NOTHING


@debias.plugin.meta_method_plugin(
    "feature_permutation",
    unit="{rule} to its permuted values of: {unit}",
    gives=_gives,
    check=_check,
)
def feature_permutation(
    inner: debias.plugin.Scorer,
    problem: debias.plugin.Problem,
    *,
    replicates: int = 50,
    rule: str = "ratio",
    tail: str = "empirical",
    adaptive: bool = False,
    alpha: float = 0.05,
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Permute one feature, fit and score again, for each feature in turn.

    Unlike a permuted response, this keeps the relation of the other features with the response. A replicate fits one
    model per feature. If the mean of the score for noise is known in closed form, as for ``gini_merit(form='merit')``,
    the rules "ratio" and "difference" draw no permutations.

    Parameters
    ----------
    replicates : int
        Number of permutations of each feature.
    rule : {"ratio", "difference", "z", "pvalue"}
        v / mean v*; v - mean v*; (v - mean v*) / sd v*; -log10 of the p-value. v is the score, v* are the scores of
        permutations.
    tail : {"empirical", "normal", "gamma"}
        How p-values are computed, as for ``response_permutation``.
    adaptive, alpha
        When to stop early, as for ``response_permutation``.

    Returns
    -------
    (array of shape (n_features,), dict)
        ``null``: scores of each feature when it is permuted, shape (replicates, n_features), and ``p_value``; or
        ``null_mean``, if it is known in closed form.
    """
    v, _ = problem.score(inner)
    if rule in ("ratio", "difference"):
        mean = None
        if isinstance(inner, debias.plugin.DataScorer) and isinstance(problem, debias.plugin.Data):
            mean = inner.null_mean(problem)
        if mean is not None:
            return normalise(v, mean[None, :], rule), {
                "rule": rule,
                "unadjusted": v.tolist(),
                "null_mean": mean.tolist(),
            }
    drawn = replicate(
        scores_of_permuted,
        inner,
        problem,
        n=replicates,
        seed=problem.seed or 0,
        engine=problem.engine,
        fingerprint=lambda: digest_of("feature_permutation", inner.name, problem.fingerprint()),
        settled=all_settled(v, alpha, replicates) if adaptive else None,
    )
    return against_draws(v, drawn, rule, tail)


def scores_of_permuted(
    inner: debias.plugin.Scorer, problem: debias.plugin.Problem, child: np.random.SeedSequence
) -> NDArray[np.float64]:
    """Return the score of each feature when only this feature is permuted, shape (n_features,)."""
    rng, seed = np.random.default_rng(child), child_seed(child)
    scores = np.empty(problem.n_features)
    for k, columns in enumerate(problem.members):
        scores[k] = problem.changed(with_permuted(rng, columns)).inside(seed).score(inner)[0][k]
    return scores


@debias.plugin.hookimpl
def debias_meta_methods() -> Sequence[debias.plugin.MetaMethod]:
    """Return feature permutation."""
    return [feature_permutation]
