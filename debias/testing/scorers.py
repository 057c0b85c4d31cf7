"""The check of scorers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from debias.errors import CompositionError, DebiasError, RowsError
from debias.hooks.contracts import DataScorer, RefitScorer, TreeScorer
from debias.significance.contributions import contributions
from debias.testing.promises import check_call, require, small_data
from debias.testing.toy_forests import NAMES, TASKS, toy_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.dataset import Data
    from debias.hooks.contracts import Scorer
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

MEMBERS = {
    kind: tuple(sorted(name for name in dir(kind) if not name.startswith("_"))) for kind in (DataScorer, TreeScorer)
}
DRAWS = 300


def check_scorer(scorer: Scorer, model: Any = None, X: Any = None, y: Any = None) -> None:
    """Check that a scorer keeps its contract, on toy forests and boosted trees, or on small data for a scorer of data.

    Parameters
    ----------
    scorer : Scorer
    model : estimator or Booster, optional
        A fitted model on which to check the scorer too, for scorers that refuse the toy models because they ask the
        library.
    X : array or data frame of shape (n_rows, n_features), optional
        Rows for that model: its training rows if it is bagged, otherwise rows it has not seen.
    y : array-like of shape (n_rows,), optional
        Their response.

    Raises
    ------
    AssertionError
        A member is missing; it accepts unknown options; it returns values of the wrong shape or that are not finite;
        its scores depend on the position of columns; it changes the data it gets; it draws from the global random
        state, or returns other numbers for the same seed; it cannot be sent to another process; it raises an error that
        is not one of debias; or its `node_weight` or `null_mean` do not match the score.

    Examples
    --------
    >>> import debias
    >>> from debias.testing import check_scorer
    >>> check_scorer(debias.scorer("mdi_oob"))
    """
    if isinstance(scorer, RefitScorer):
        raise AssertionError(f"{scorer.name} refits models: debias.testing.check_meta_method checks its meta-method")
    missing = {kind: [name for name in members if not hasattr(scorer, name)] for kind, members in MEMBERS.items()}
    nearest_kind = min(missing, key=lambda kind: len(missing[kind]))
    require(
        not missing[nearest_kind],
        f"{scorer!r} is not a scorer: it has no {', '.join(missing[nearest_kind])}. Inherit from debias.TreeScorer or "
        "debias.DataScorer, or decorate a function (ensemble, rows) with @debias.scorer_plugin(name, unit=...)",
    )
    _check_names(scorer)
    if isinstance(scorer, DataScorer):
        cases: dict[str, Any] = {"numbers": small_data(), "classes": small_data(classes=True)}
        refused = {case: why for case, data in cases.items() if (why := _check_data(scorer, data, case))}
        _require_one(scorer, refused, len(cases))
        return
    assert isinstance(scorer, TreeScorer)
    cases = {task: toy_rows(task) for task in TASKS}
    if model is not None:
        cases["the model passed"] = _rows_of(scorer, model, X, y)
    refused = {case: why for case, rows in cases.items() if (why := _check_model(scorer, rows, case))}
    _require_one(scorer, refused, len(cases))


def _require_one(scorer: Scorer, refused: dict[str, DebiasError], n_cases: int) -> None:
    why = "; ".join(f"for {case}: {error}" for case, error in refused.items())
    require(
        len(refused) < n_cases,
        f"{scorer.name} refuses all models or data of this check, so nothing was checked. Pass model=, X= and y= of a "
        f"model it can score. Its errors: {why}",
    )


def _check_names(scorer: Scorer) -> None:
    base = str(scorer.name).split("(")[0]
    require(
        re.fullmatch(r"[A-Za-z_]\w*", base) is not None,
        f"the name {scorer.name!r} cannot be used in an expression such as 'shadow({base})': use letters, digits and _",
    )
    require(
        isinstance(scorer.unit, str) and bool(scorer.unit),
        f"{scorer.name} has unit {scorer.unit!r}: say in words what one unit of the score is, for tables and axes",
    )
    try:
        scorer.with_options(no_such_option_1=1)
    except CompositionError:
        return
    raise AssertionError(
        f"{scorer.name} accepts an unknown option, no_such_option_1, so it would ignore a misspelt option. Make "
        "options keyword-only arguments (after a *), or raise debias.CompositionError"
    )


def _check_data(scorer: DataScorer, data: Data, case: str) -> DebiasError | None:
    """Check the scorer on data alone; return the error with which it refuses the data, or None."""

    def score(copied: Any) -> Any:
        return _scored(copied, f"data with a response of {case}", data)

    try:
        values = check_call(scorer, score, lambda: (data.X, data.y), data.n_features)
    except (CompositionError, RowsError) as error:
        return error
    claimed = scorer.null_mean(data)
    if claimed is None:
        return None
    require(
        np.shape(claimed) == values.shape,
        f"null_mean of {scorer.name} has shape {np.shape(claimed)}, not {values.shape}: one mean per feature",
    )
    rng = np.random.default_rng(0)
    drawn = np.array([scorer.score(data.permuted(rng))[0] for _ in range(DRAWS)])
    spread = drawn.std(axis=0, ddof=1) / np.sqrt(DRAWS)
    wrong = np.flatnonzero(abs(drawn.mean(axis=0) - claimed) > 5 * spread + 1e-9)
    require(
        wrong.size == 0,
        f"null_mean of {scorer.name} is not the mean of its score under permutation: over {DRAWS} of them "
        + ", ".join(f"{data.feature_names[k]} has {drawn[:, k].mean():.4g} (SE {spread[k]:.1g})" for k in wrong[:3])
        + ", and null_mean says "
        + ", ".join(f"{claimed[k]:.4g}" for k in wrong[:3]),
    )
    return None


def _check_model(scorer: TreeScorer, rows: Rows, case: str) -> DebiasError | None:
    """Check the scorer on one model; return the error with which it refuses the model, or None."""
    ensemble = rows.ensemble
    sums = rows.node_sums

    def shared() -> Any:
        response = rows.response.codes, rows.response.values
        return sums.n.copy(), sums.s.copy(), sums.q.copy(), rows.weight, response, ensemble.value

    try:
        values = check_call(
            scorer, lambda copied: _scored(cast(TreeScorer, copied), case, ensemble, rows), shared, ensemble.n_features
        )
    except (CompositionError, RowsError) as error:
        return error
    if not scorer.needs_rows:
        _without_rows(scorer, ensemble, case)
    if case in TASKS:
        _check_columns(scorer, case, values)
    _check_contributions(scorer, rows, case, values)
    return None


def _without_rows(scorer: TreeScorer, ensemble: TreeEnsemble, case: str) -> None:
    try:
        _scored(scorer, f"{case} without rows", ensemble, None)
    except RowsError:
        pass
    except AssertionError as failure:
        raise AssertionError(
            f"{failure}. Its needs_rows is False, so rows may be None: set needs_rows=True, or raise debias.RowsError "
            "if this model needs rows"
        ) from failure


def _check_columns(scorer: TreeScorer, case: str, values: NDArray[np.float64]) -> None:
    """Check that scores do not depend on the position of columns; skip scorers that draw random numbers."""
    other_seed = toy_rows(case, seed=1)
    if not np.array_equal(_scored(scorer, case, other_seed.ensemble, other_seed)[0], values):
        return
    order = np.roll(np.arange(len(NAMES)), 2)
    moved = toy_rows(case, order)
    scores, _ = _scored(scorer, case, moved.ensemble, moved)
    off = np.flatnonzero(~np.isclose(scores, values[order], rtol=1e-9, atol=1e-12))
    require(
        off.size == 0,
        f"the scores of {scorer.name} depend on the position of columns: with the same columns in another order "
        f"{[moved.ensemble.feature_names[k] for k in off]} of {case} have other scores. Leaves have feature -1, which "
        "is the index of the last column: use ensemble.feature[ensemble.splits]",
    )


def _check_contributions(scorer: TreeScorer, rows: Rows, case: str, values: NDArray[np.float64]) -> None:
    weight = scorer.node_weight(rows.ensemble, rows)
    if weight is None:
        return
    n_nodes = rows.ensemble.n_nodes
    require(
        np.shape(weight) == (n_nodes,),
        f"node_weight of {scorer.name} has shape {np.shape(weight)}, not ({n_nodes},): one factor per node",
    )
    total = contributions(rows.paths, rows, np.asarray(weight, dtype=np.float64)).sum(axis=0)
    gap = abs(total - values).max()
    require(
        bool(gap <= 1e-9 * (1 + abs(values).max())),
        f"node_weight of {scorer.name} does not match the score: centred covariances times node_weight sum to {total} "
        f"on {case}, but the scorer returns {values}; p-values would be for another score than the one shown",
    )


def _rows_of(scorer: Scorer, model: Any, X: Any, y: Any) -> Rows:
    from debias.rows.preparation import prepare
    from debias.rows.request import Request

    request = Request.of(model, X, y, seed=0)
    (member,) = request.members
    _, rows, _ = prepare(request, member, [scorer])
    require(rows is not None, "a model was passed without rows: pass X= and y= too")
    assert rows is not None
    return rows


def _scored(scorer: TreeScorer | DataScorer, case: str, *what: Any) -> Any:
    """Call a scorer; an error that is not a refusal becomes an AssertionError that names the case."""
    try:
        result = scorer.score(*what)
    except (CompositionError, RowsError):
        raise
    except Exception as error:
        if isinstance(error, ValueError) and "read-only" in str(error):
            raise AssertionError(
                f"{scorer.name} writes into arrays of the ensemble, which are read-only because all scorers share "
                "them: copy an array before you write to it"
            ) from error
        hint = (
            ""
            if isinstance(error, DebiasError)
            else ". A scorer that cannot score a model raises debias.CompositionError or debias.RowsError, and says "
            "what to do instead"
        )
        raise AssertionError(f"{scorer.name} fails on {case}: {type(error).__name__}: {error}{hint}") from error
    require(
        isinstance(result, tuple) and len(result) == 2,
        f"{scorer.name}.score returns {type(result).__name__}, not the pair (values, details)",
    )
    return result
