"""Partial permutation: how often a feature scores above a partly permuted copy (Deng, Runger and Tuv 2011, Alg. 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.data.digest import digest_of
from debias.retraining.replicates import child_seed, replicate
from debias_plugins.meta_methods.null_adjustment import check_replicates
from debias_plugins.meta_methods.permuted_columns import names_of_copies, with_copies

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _check(inner: debias.plugin.Scorer, options: Mapping[str, Any]) -> None:
    share = options["share"]
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise debias.plugin.CompositionError(f"partial_permutation: share={share!r} must be above 0 and at most 1")
    check_replicates("partial_permutation", options["replicates"])


@debias.plugin.meta_method_plugin(
    "partial_permutation",
    unit="share of replicates above a partly permuted copy",
    gives=debias.plugin.Gives.P_VALUE,
    check=_check,
)
def partial_permutation(
    inner: debias.plugin.Scorer, problem: debias.plugin.Problem, *, replicates: int = 200, share: float = 0.2
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the share of replicates in which a feature scores above its partly permuted copy.

    The copy has the same values as the feature, so it gains as much from their number. Only the order of some rows
    differs.

    Parameters
    ----------
    replicates : int
        Number of times that copies are made and the model is fitted.
    share : float
        Share of the rows whose values are permuted among each other. The rows are drawn again for each copy; 1 means
        all rows.

    Returns
    -------
    (array of shape (n_features,), dict)
        ``p_value``: binomial, for this many wins with probability one half. ``ties``: number of replicates with equal
        scores, which are not wins. ``null``: scores of the copies, shape (replicates, n_features).

    Notes
    -----
    If other features can replace a feature, its share falls below one half: it shares its score with them, and its copy
    does not. The p-value counts fits to the same rows. It says whether more fits would change the decision, not whether
    other rows would.
    """
    from scipy.special import bdtrc

    copies = names_of_copies(tuple(name for columns in problem.members for name in columns))
    k = problem.n_features
    drawn = replicate(
        scores_with_copies,
        inner,
        problem,
        copies,
        share,
        n=replicates,
        seed=problem.seed or 0,
        engine=problem.engine,
        fingerprint=lambda: digest_of("partial_permutation", share, inner.name, problem.fingerprint()),
    )
    own, null = drawn.values[:, :k], drawn.values[:, k:]
    wins = (own > null).sum(axis=0)
    return wins / len(own), {
        **drawn.report(),
        "null": null,
        "p_value": np.where(wins > 0, bdtrc(wins - 1.0, len(own), 0.5), 1.0),
        "ties": (own == null).sum(axis=0).tolist(),
    }


def scores_with_copies(
    inner: debias.plugin.Scorer,
    problem: debias.plugin.Problem,
    copies: dict[str, str],
    share: float,
    child: np.random.SeedSequence,
) -> NDArray[np.float64]:
    """Return the scores of the columns, followed by those of their copies, shape (2 n_features,)."""
    change = with_copies(np.random.default_rng(child), copies, share)
    return problem.changed(change, copies).inside(child_seed(child)).score(inner)[0]


@debias.plugin.hookimpl
def debias_meta_methods() -> Sequence[debias.plugin.MetaMethod]:
    """Return partial permutation."""
    return [partial_permutation]
