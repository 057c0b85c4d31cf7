"""The test of a score by permutations of the response: a score that is a sum over rows of an effect times the response.

The effect of a feature on row i is what it does to the output of the trees that have not seen the row. Out of bag it is
a linear function of the responses of the rows in the bags, because the values of nodes are means:

    score_k = sum_i y_i . sum_j E_k[i, j] y_j

So the trees stay, the response is permuted, and a matrix product gives the scores of many permutations. As in the test
of ``mdi_oob`` (:mod:`debias.significance.permutation`) the splits were chosen to fit the real response, so scores
cannot be compared with permuted scores. Sums over their standard errors over rows can:

    z_k = sum_i c_i / sqrt(sum_i c_i^2 - (sum_i c_i)^2 / n),   c_i = y_i . sum_j E_k[i, j] y_j

On held-out rows the effects are fixed, and the test is exact if no feature matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.groups import Grouping
from debias.errors import CompositionError, RowsError
from debias.results.vocabulary import NO_INTERVAL
from debias.rows.effects import response_columns
from debias.rows.paths import row_order
from debias.significance.contributions import counts, spread
from debias.significance.evidence import EvidenceInMemory
from debias.significance.normal_scores import NORMAL_SCORES
from debias.significance.permutation import LANES, Drawing, PermutedResponses, decided, refuse_unequal_blocks, seed_of
from debias.significance.procedure import Procedure
from debias.significance.row_test import check_procedure
from debias.trees.routing import route
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.rows import Rows

    Array = NDArray[np.float64]
    Effects = Callable[[Array], Array]
    OfLeaf = tuple[int, NDArray[np.integer[Any]], Array]

NULL_HYPOTHESIS = "the feature, together with the columns that depend on it, is independent of the response"
MOST_EFFECTS = 2**27
"""At most this many features x rows x rows out of bag: the matrices then take 1 GB."""


def response_test(rows: Rows, effects: Effects, *, alpha: float = 0.05, error: str = "fwer") -> dict[str, Any]:
    """Test a score that is a sum over rows of an effect times the response, by permutations of the response.

    Parameters
    ----------
    rows : Rows
        Out-of-bag or held-out rows.
    effects : callable
        ``effects(y)`` gets permuted responses, shape (n_rows, n_columns, n_permutations), each column less its mean. It
        returns what each feature does to the output on each row, shape (n_features, n_rows, n_columns,
        n_permutations), or 1 for the last where it does not depend on y. Where it does, it is linear in y. Weights of
        rows are factors of the effects. :func:`out_of_bag_effects` makes such a function.
    alpha : float
        Error rate.
    error : {"fwer", "fdr", "fdr_by"}
        Family-wise (step-down max-z), or false discovery rate (Benjamini-Hochberg, Benjamini-Yekutieli).

    Returns
    -------
    dict
        ``z``, ``p_value``, ``p_adjusted`` and ``selected``, arrays of shape (n_features,); ``test``, ``warnings``, and
        why there is no interval. A scorer returns them in its details. The seed is that of `rows`, or 0.

    Raises
    ------
    CompositionError
        An option is out of range.
    RowsError
        The rows are training rows, too few to test, or in blocks of different sizes; or the response is constant.

    Examples
    --------
    ``shap_oob`` calls it:

    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> scores = debias.score(forest, X, y, "shap_oob", p_values=True)
    >>> bool(scores.selected[scores.feature_names.index("bmi")])
    True
    """
    check_procedure(error, alpha)
    if rows.kind == "train":
        raise RowsError(
            "scores of training rows cannot be tested, because the trees were fitted to these rows: pass rows='oob' or "
            "rows='held-out'"
        )
    evidence = EvidenceInMemory(rows, np.ones(rows.ensemble.n_nodes), Grouping.of(None, rows.ensemble.feature_names))
    reason = evidence.no_verdict("permutation")
    if reason is not None:
        raise RowsError(f"nothing can be tested: {reason}")
    evidence.refuse_uncalibrated()
    refuse_unequal_blocks(rows)
    log = WarningLog(quiet=True)
    evidence.warn("permutation", log)
    statistic = EffectTimesResponse(rows, effects, evidence.normal_scores)
    source = PermutedResponses(statistic.block, statistic.response, seed_of(rows), statistic.weight)
    procedure = Procedure.of("permutation", (error, alpha))  # type: ignore[arg-type]  # it was checked
    assert procedure is not None
    tested = decided([Drawing(statistic, source)], seed_of(rows), procedure, log)
    details: dict[str, Any] = {
        "method": "permutation",
        "alpha": float(alpha),
        "error": error,
        "n_independent": evidence.n_independent,
        "blocks": evidence.has_blocks,
        "null_hypothesis": NULL_HYPOTHESIS,
    }
    if evidence.normal_scores is not None:
        details["response"] = NORMAL_SCORES
    return {
        "z": tested.z,
        "p_value": tested.p_value,
        "p_adjusted": tested.p_adjusted,
        "selected": tested.p_adjusted <= alpha,
        "test": details | tested.details,
        NO_INTERVAL: "permutations of the response give p-values, and no standard error of the score",
        "warnings": log.texts,
    }


def out_of_bag_effects(
    rows: Rows, of_leaves: Callable[[int, NDArray[np.int64]], Iterable[OfLeaf]]
) -> Callable[[Array], Array]:
    """Return the effects of features out of bag, as a function of the response.

    Parameters
    ----------
    rows : Rows
        Out-of-bag rows.
    of_leaves : callable
        ``of_leaves(tree, at)`` yields for each leaf that has effects: its number in the tree; features, shape (m,); and
        what it adds to their effects on the out-of-bag rows `at` if its value is 1, shape (m, n_at). For each row the
        numbers of all leaves sum to 0.

    Returns
    -------
    callable
        For :func:`response_test`. In each tree effects are less their mean over its out-of-bag rows, so that their
        products with the response sum to a covariance; then they are averaged over trees.

    Raises
    ------
    CompositionError
        The values of the leaves are not means of the responses in the bag, or the matrices would be too large.
    RowsError
        No row is out of bag.
    """
    ensemble, bags = rows.ensemble, rows.in_bag
    assert bags is not None
    if not ensemble.averaged or not ensemble.mean_values or bags.class_weight is not None:
        raise CompositionError(
            "this test recomputes the values of the leaves as means of permuted responses, and those of this model are "
            "not such means (medians, or bags weighted by class). debias.audit tests mdi_oob"
        )
    n, used = rows.n_rows, np.unique(ensemble.feature[ensemble.splits])
    if used.size * n * n > MOST_EFFECTS:
        raise CompositionError(
            f"this test needs features x rows x rows numbers out of bag, {used.size} x {n:,} x {n:,}, and at most "
            f"{MOST_EFFECTS:,} are allowed. debias.audit tests mdi_oob on so many rows; or hold rows out"
        )
    place = np.full(ensemble.n_features, -1)
    place[used] = np.arange(used.size)
    matrix, n_scored = np.zeros((used.size, n, n)), 0  # of features, rows in the bag, rows out of bag
    X = rows.table.matrix(ensemble)
    for tree in range(ensemble.n_trees):
        at, drawn = bags.out_of_bag(tree), bags.draw(tree)
        share = rows.weight[at]
        if not share.sum() > 0:
            continue
        share, n_scored = share / share.sum(), n_scored + 1
        inside = np.flatnonzero(drawn > 0)
        leaf_of = route(ensemble, X[inside], trees=np.array([tree]))[:, 0]
        n_nodes = int(ensemble.tree_start[tree + 1] - ensemble.tree_start[tree])
        mean_of = drawn[inside] / np.bincount(leaf_of, weights=drawn[inside], minlength=n_nodes)[leaf_of]
        of_nodes = np.zeros((used.size, n_nodes, at.size))
        for leaf, features, found in of_leaves(tree, at):
            of_nodes[place[features], leaf] = share * (found - (found @ share)[:, None])
        matrix[:, inside[:, None], at] += of_nodes[:, leaf_of] * mean_of[:, None]
    if not n_scored:
        raise RowsError("no row is out of bag in any tree: pass rows the model has not seen, with rows='held-out'")
    matrix /= n_scored

    def effects(y: Array) -> Array:
        found = np.zeros((ensemble.n_features, *y.shape))
        found[used] = (matrix.transpose(0, 2, 1) @ y.reshape(n, -1)).reshape(used.size, *y.shape)
        return found

    return effects


class EffectTimesResponse:
    """The studentised sums over rows of effects times permuted responses.

    Parameters
    ----------
    rows : Rows
    effects : callable
        As for :func:`response_test`.
    values : array of shape (n_rows, n_columns), or None
        A function of the response that takes its place.
    """

    rounding = 0.0
    steps_of_lines = 0.0
    lanes = LANES

    def __init__(self, rows: Rows, effects: Effects, values: Array | None) -> None:
        self._order, self.block = row_order(rows)
        values = response_columns(rows) if values is None else values
        values, self.weight = values[self._order], rows.weight[self._order]
        used = counts(self.weight)
        self.response = values - values[used].mean(axis=0)
        self._effects, self._n_rows = effects, rows.n_rows
        self._first = np.unique(self.block, return_index=True)[1]  # rows of a block are together
        self._n_blocks = int(np.logical_or.reduceat(used, self._first).sum())

    @property
    def details(self) -> dict[str, object]:
        """Nothing."""
        return {}

    def observed(self) -> None:
        """Return None: all sums are in double precision."""

    def of(self, drawn: Array) -> Array:
        """Return z of permuted responses, shape (n_permutations, n_features)."""
        y = np.zeros((self._n_rows, *drawn.shape[1:]))
        y[self._order] = drawn
        of_rows = (self._effects(y) * y).sum(axis=2)[:, self._order]
        if self._first.size < self.block.size:
            of_rows = np.add.reduceat(of_rows, self._first, axis=1)
        sums = np.stack([of_rows.sum(axis=1), (of_rows**2).sum(axis=1)])
        error = spread(sums, self._n_blocks)
        return np.divide(sums[0], error, out=np.zeros_like(error), where=error > 0).T
