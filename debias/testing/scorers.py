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
    """Check that a scorer keeps its promises: on toy forests and boosted trees, or on small data if it needs only that.

    Parameters
    ----------
    scorer : Scorer
    model : estimator or Booster, optional
        A fitted model to try it on as well, for scorers that refuse the toy models (those that ask the library).
    X : array or data frame of shape (n_rows, n_features), optional
        Rows of that model: its training rows if it is a bagged one, else rows it has not seen.
    y : array-like of shape (n_rows,), optional
        Their response.

    Raises
    ------
    AssertionError
        It lacks something, takes options it does not have, returns figures of the wrong shape or that are not finite,
        follows the position of columns, changes what it is given, draws from the global random state, gives other
        numbers for the same seed, cannot be sent to another process, raises what is no error of debias's, or its
        `node_weight` or `null_mean` belong to another score.

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
        "debias.DataScorer, or let @debias.scorer_plugin(name, unit=...) make a scorer of a function (ensemble, rows)",
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
    why = "; ".join(f"of {case}: {error}" for case, error in refused.items())
    require(
        len(refused) < n_cases,
        f"{scorer.name} refuses all it was shown, so nothing was checked. Pass model=, X= and y= of a model it does "
        f"score. It said, {why}",
    )


def _check_names(scorer: Scorer) -> None:
    base = str(scorer.name).split("(")[0]
    require(
        re.fullmatch(r"[A-Za-z_]\w*", base) is not None,
        f"the name {scorer.name!r} cannot stand in an expression such as 'shadow({base})': use letters, digits and _",
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
        f"{scorer.name} takes an option it does not have, no_such_option_1: a misspelt option would be ignored in "
        "silence. Name options as keyword-only arguments (after a *), or raise debias.CompositionError"
    )


def _check_data(scorer: DataScorer, data: Data, case: str) -> DebiasError | None:
    """Check on data alone; return the error by which the scorer refuses it, if it does."""

    def score(each: Any) -> Any:
        return _scored(each, f"data whose response is of {case}", data)

    try:
        values = check_call(scorer, score, lambda: (data.X, data.y), data.n_features)
    except (CompositionError, RowsError) as error:
        return error
    claimed = scorer.null_mean(data)
    if claimed is None:
        return None
    require(
        np.shape(claimed) == values.shape,
        f"null_mean of {scorer.name} has shape {np.shape(claimed)}, not {values.shape}: one mean a feature",
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
    """Check on one model; return the error by which the scorer refuses it, if it does."""
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
            f"{failure}. Its needs_rows is False, so rows may be None: set needs_rows=True, or raise "
            "debias.RowsError where this model takes rows after all"
        ) from failure


def _check_columns(scorer: TreeScorer, case: str, values: NDArray[np.float64]) -> None:
    """Check that scores go with their columns; of scorers that draw, where order may rightly matter, not asked."""
    other_seed = toy_rows(case, seed=1)
    if not np.array_equal(_scored(scorer, case, other_seed.ensemble, other_seed)[0], values):
        return
    order = np.roll(np.arange(len(NAMES)), 2)
    moved = toy_rows(case, order)
    found, _ = _scored(scorer, case, moved.ensemble, moved)
    off = np.flatnonzero(~np.isclose(found, values[order], rtol=1e-9, atol=1e-12))
    require(
        off.size == 0,
        f"{scorer.name} follows the position of columns: with the same columns in another order "
        f"{[moved.ensemble.feature_names[k] for k in off]} of {case} have other scores. Leaves have feature -1, which "
        "indexes the last column: take ensemble.feature[ensemble.splits]",
    )


def _check_contributions(scorer: TreeScorer, rows: Rows, case: str, values: NDArray[np.float64]) -> None:
    weight = scorer.node_weight(rows.ensemble, rows)
    if weight is None:
        return
    n_nodes = rows.ensemble.n_nodes
    require(
        np.shape(weight) == (n_nodes,),
        f"node_weight of {scorer.name} has shape {np.shape(weight)}, not ({n_nodes},): one factor a node",
    )
    total = contributions(rows.paths, rows, np.asarray(weight, dtype=np.float64)).sum(axis=0)
    gap = abs(total - values).max()
    require(
        bool(gap <= 1e-9 * (1 + abs(values).max())),
        f"node_weight of {scorer.name} belongs to another score: centred covariances times it add up to {total} on "
        f"{case}, and the scorer returns {values}; p-values would be of a score that is not shown",
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
    """Call a scorer; whatever it raises but a refusal is told with what it was called on."""
    try:
        found = scorer.score(*what)
    except (CompositionError, RowsError):
        raise
    except Exception as error:
        if isinstance(error, ValueError) and "read-only" in str(error):
            raise AssertionError(
                f"{scorer.name} writes into arrays of the ensemble, which are read-only since every scorer shares "
                "them: copy an array before you write to it"
            ) from error
        hint = (
            ""
            if isinstance(error, DebiasError)
            else ". A scorer that cannot serve a model says so by debias.CompositionError or debias.RowsError, with "
            "what to do instead"
        )
        raise AssertionError(f"{scorer.name} fails on {case}: {type(error).__name__}: {error}{hint}") from error
    require(
        isinstance(found, tuple) and len(found) == 2,
        f"{scorer.name}.score returns {type(found).__name__}, not the pair (values, details)",
    )
    return found
