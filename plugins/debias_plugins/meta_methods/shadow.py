"""Shadow features: a score compared with that of permuted copies; the model is fitted to both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.data.digest import digest_of
from debias.retraining.replicates import child_seed, replicate
from debias_plugins.meta_methods.null_adjustment import check_known, check_replicates
from debias_plugins.meta_methods.permuted_columns import names_of_copies, with_copies

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _check(inner: debias.plugin.Scorer, options: Mapping[str, Any]) -> None:
    for name, known in (("rule", ("subtract", "max")), ("permute", ("joint", "column"))):
        check_known("shadow", name, options[name], known)
    check_replicates("shadow", options["replicates"])


def _gives(options: Mapping[str, Any]) -> debias.plugin.Gives:
    return debias.plugin.Gives.P_VALUE if options["rule"] == "max" else debias.plugin.Gives.NOTHING


@debias.plugin.meta_method_plugin("shadow", unit="rule {rule} against copies of: {unit}", gives=_gives, check=_check)
def shadow(
    inner: debias.plugin.Scorer,
    problem: debias.plugin.Problem,
    *,
    replicates: int = 20,
    rule: str = "subtract",
    permute: str = "joint",
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Fit the model to the columns and permuted copies of them, and compare their scores.

    Copies keep dtype, categories and missing values, and are made again in each replicate. A group of columns has a
    group of copies.

    Parameters
    ----------
    replicates : int
        Number of times that copies are made and the model is fitted.
    rule : {"subtract", "max"}
        X_k is a column and Z_k its copy. "subtract": the mean of score(X_k) - score(Z_k) (Sandri and Zuccolotto 2008),
        0 on average for noise. "max": the share of replicates in which score(X_k) is above the score of every copy
        (Kursa and Rudnicki 2010), with the binomial p-value for this many hits with probability one half.
    permute : {"joint", "column"}
        Permute whole rows of the copies, which keeps their correlations, or each column separately.

    Returns
    -------
    (array of shape (n_features,), dict)
        ``null``: scores of the copies, shape (replicates, n_features). "subtract": ``standard_error`` over replicates;
        it does not include the variation due to the sample of rows. "max": ``p_value`` and the number of ``hits``.

    Notes
    -----
    The p-value of "max" counts fits to the same rows. It says whether more fits would change the decision, not whether
    other rows would.
    """
    copies = names_of_copies(tuple(name for columns in problem.members for name in columns))
    k = problem.n_features
    drawn = replicate(
        scores_with_copies,
        inner,
        problem,
        copies,
        permute == "joint",
        n=replicates,
        seed=problem.seed or 0,
        engine=problem.engine,
        fingerprint=lambda: digest_of("shadow", permute, inner.name, problem.fingerprint()),
    )
    own, null = drawn.values[:, :k], drawn.values[:, k:]
    details: dict[str, Any] = {**drawn.report(), "null": null}
    if rule == "subtract":
        gap = own - null
        if len(gap) > 1:
            details["standard_error"] = (gap.std(axis=0, ddof=1) / np.sqrt(len(gap))).tolist()
        return gap.mean(axis=0), details
    from scipy.special import bdtrc

    hits = (own > null.max(axis=1, keepdims=True)).sum(axis=0)
    details |= {"hits": hits.tolist(), "p_value": np.where(hits > 0, bdtrc(hits - 1.0, len(own), 0.5), 1.0)}
    return hits / len(own), details


def scores_with_copies(
    inner: debias.plugin.Scorer,
    problem: debias.plugin.Problem,
    copies: dict[str, str],
    jointly: bool,
    child: np.random.SeedSequence,
) -> NDArray[np.float64]:
    """Return the scores of the columns, followed by those of their copies, shape (2 n_features,)."""
    change = with_copies(np.random.default_rng(child), copies, jointly=jointly)
    return problem.changed(change, copies).inside(child_seed(child)).score(inner)[0]


@debias.plugin.hookimpl
def debias_meta_methods() -> Sequence[debias.plugin.MetaMethod]:
    """Return shadow features."""
    return [shadow]
