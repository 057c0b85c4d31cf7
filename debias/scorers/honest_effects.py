"""Honest effects: what every feature could do at every node of a fitted forest, evaluated on unseen rows.

A frozen forest is asked only about the splits it made: a feature that lost a node to another one leaves no trace there.
Here every feature is fitted at every node on the in-bag rows (a line, level means, or its best split), and the fit is
evaluated on the rows that the tree has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.groups import LOG_OF_MEAN, Grouping
from debias.errors import CompositionError
from debias.hooks.scorers import scorer_plugin
from debias.hooks.specs import hookimpl
from debias.rows.effects import BINS, MIN_NODE_SIZE, SHRINKAGE
from debias.scorers.honest_splits import check_options, honest_splits
from debias.scorers.mixed_evidence import mixed_evidence
from debias.significance.contributions import moments, spread
from debias.significance.evidence import shrunk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.hooks.contracts import Scorer
    from debias.rows.effects import LinearEffects
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

    Result = tuple[NDArray[np.float64], dict[str, Any]]

KINDS = ("both", "linear", "splits")
PRIOR_WEIGHTS = (0.475, 0.05, 0.475)
"""Weights of lines, folded lines and the splits of the model before the data are seen: few features have U shapes."""
NO_DOUBT = 0.0005
"""Added to the p-values of lines and folded lines. If that of a line is far below, the response depends on the feature
beyond doubt. This is then true of features that are only correlated with relevant ones too, and how much smaller the
p-value is does not tell them apart: what the model chose to split on does."""


def _effects(
    ensemble: TreeEnsemble,
    rows: Rows,
    *,
    kind: str = "both",
    bins: int = BINS,
    min_node_size: float | None = None,
    shrinkage: float | None = None,
) -> LinearEffects | None:
    """Return the linear effects that are tested; None for splits."""
    if kind == "splits":
        return None
    return rows.linear_effects(
        min_node_size=MIN_NODE_SIZE if min_node_size is None else float(min_node_size),
        shrinkage=SHRINKAGE if shrinkage is None else float(shrinkage),
        bins=bins,
    )


@scorer_plugin(
    "honest_effects",
    unit="log of evidence; with kind=, covariance of fit and response",
    effects=_effects,
    lines="left out",
)
def honest_effects(
    ensemble: TreeEnsemble,
    rows: Rows,
    *,
    kind: str = "both",
    bins: int = BINS,
    min_node_size: float | None = None,
    shrinkage: float | None = None,
) -> NDArray[np.float64] | Result:
    """Return how much every feature, fitted at every node, says about the response of unseen rows.

    At a node t, the line of feature k is fitted on the in-bag rows; its term is the covariance, over the evaluation
    rows of the node, between the line and the response: ``b_tk sum_i (x_ik - mean x_k) y_i``. Terms are multiplied by
    n_t / (n_t + shrinkage), divided by the evaluation weight of the tree, summed over nodes, and averaged over trees. A
    feature that is independent of the response and of the other features has mean 0.

    Parameters
    ----------
    kind : {"both", "linear", "splits"}
        "linear": the score above. "splits": the best split of every feature at every node instead of a line; this is
        ``honest_splits``. "both": the evidence of three scores, divided by their standard errors: of the lines, of
        lines in the distance from the middle rank (for U shapes), and of the splits which the model made. Their
        p-values by the normal distribution become e-values, and the score is the log of the weighted mean of the
        three. The weights are the shares of the three kinds among the features that seem to matter, fitted to all
        features. It ranks features well over all kinds of effects. It grows with the number of rows; it is at least
        -0.7, and noise is mostly below 0. The score of a group is the log of the mean evidence of its columns.
        ``test="combined"`` tests the larger of the z of lines and of splits.
    bins : int
        Numbers are replaced by the middle ranks of at most this many bins, or split between them.
    min_node_size : float, optional
        Skip nodes with less in-bag weight: 30 for lines and 5 for splits by default.
    shrinkage : float, optional
        Node terms are multiplied by n_t / (n_t + shrinkage): 300 for lines and 0 for splits by default.

    Returns
    -------
    array of shape (n_features,), or (array, dict)

    Raises
    ------
    RowsError
        There are held-out rows but no training rows (pass ``train=``), or no rows that the trees have not seen.
    CompositionError
        An option is out of range.

    Notes
    -----
    The score is debias' own (docs/honest-effects.md); the e-values are those of Vovk and Wang (2021). If the model
    splits a feature as categories, level means are fitted instead of a line, in nodes with at least two rows per
    level. Whether a number is missing is a second line, and the first leaves missing values out. For boosted models the
    response is r_0, the negative gradient at the margin before any tree. Weights of classes are not used.
    """
    if kind not in KINDS:
        raise CompositionError(f"honest_effects: kind={kind!r} is not one of {', '.join(map(repr, KINDS))}")
    check_options("honest_effects", bins, 0.0 if min_node_size is None else min_node_size, shrinkage or 0.0)
    if kind == "splits":
        return honest_splits(
            ensemble,
            rows,
            bins=bins,
            min_node_size=5 if min_node_size is None else min_node_size,
            shrinkage=0.0 if shrinkage is None else shrinkage,
        )
    effects = _effects(ensemble, rows, kind=kind, bins=bins, min_node_size=min_node_size, shrinkage=shrinkage)
    assert effects is not None
    if kind == "linear":
        return effects.moments[0]
    folded = effects.moments_of(effects.singles, effects.response[:, :, None], folded=True)[..., 0]
    n_blocks = rows.paths.n_blocks
    evidence = _evidence(_ratio(effects.moments, n_blocks), _ratio(folded, n_blocks), _studentised_splits(rows))
    return evidence, {LOG_OF_MEAN: True}


@hookimpl
def debias_scorers() -> Sequence[Scorer]:
    """Return the scorer of honest effects."""
    return [honest_effects]


def _evidence(
    of_lines: NDArray[np.float64], of_folds: NDArray[np.float64], of_splits: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Combine studentised scores."""
    from scipy.special import log_ndtr

    fits = np.logaddexp([_log_p_of_fits(of_lines), _log_p_of_fits(of_folds)], np.log(NO_DOUBT))
    return mixed_evidence(np.stack([*fits, log_ndtr(-of_splits)]), np.array(PRIOR_WEIGHTS))


def _log_p_of_fits(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log p-value of studentised fits: if one node dominates, noise is |u| - 1/|u| with a normal u."""
    from scipy.special import log_ndtr

    log_p: NDArray[np.float64] = np.log(2) + log_ndtr(-(z + np.sqrt(z**2 + 4)) / 2)
    return log_p


def _studentised_splits(rows: Rows) -> NDArray[np.float64]:
    """Return the z of the splits of the model, as in a test of ``mdi_oob``."""
    paths, ensemble = rows.paths, rows.ensemble
    grouping = Grouping.of(None, ensemble.feature_names)
    sums, _ = moments(paths, rows, paths.factor(shrunk(rows)), grouping)
    return _ratio(sums[:2], paths.n_blocks)


def _ratio(sums: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    error = spread(sums, n)
    return np.divide(sums[0], error, out=np.zeros_like(error), where=error > 0)
