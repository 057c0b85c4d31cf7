"""The checks of scorers and of meta-methods, and the small models that they are tried on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from debias.data.response import encode
from debias.data.table import Table
from debias.errors import CompositionError, DebiasError, RowsError
from debias.hooks.contracts import DataScorer, MetaMethod, RefitScorer, Scorer, TreeScorer
from debias.hooks.scorers import data_scorer_plugin
from debias.results.vocabulary import RowsKind
from debias.rows.provenance import Provenance
from debias.rows.rows import Rows
from debias.significance.contributions import contributions
from debias.testing.promises import check_call, require, small_data
from debias.trees.ensemble import TreeEnsemble
from debias.trees.in_bag import InBag
from debias.trees.objectives import LOGISTIC, SQUARED_ERROR

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
    >>> check_scorer(debias.plugin.scorer("mdi_oob"))
    """
    if isinstance(scorer, RefitScorer):
        raise AssertionError(f"{scorer.name} refits models: debias.testing.check_meta_method checks its meta-method")
    missing = {kind: [name for name in members if not hasattr(scorer, name)] for kind, members in MEMBERS.items()}
    nearest_kind = min(missing, key=lambda kind: len(missing[kind]))
    require(
        not missing[nearest_kind],
        f"{scorer!r} is not a scorer: it has no {', '.join(missing[nearest_kind])}. Inherit from "
        "debias.plugin.TreeScorer or debias.plugin.DataScorer, or decorate a function (ensemble, rows) with "
        "@debias.plugin.scorer_plugin(name, unit=...)",
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
        "options keyword-only arguments (after a *), or raise debias.plugin.CompositionError"
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

    request = Request.of(model, X, y, random_state=0)
    (member,) = request.members
    rows, _ = prepare(request, member, [scorer])
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
            else ". A scorer that cannot score a model raises debias.plugin.CompositionError or debias.RowsError, and "
            "says what to do instead"
        )
        raise AssertionError(f"{scorer.name} fails on {case}: {type(error).__name__}: {error}{hint}") from error
    require(
        isinstance(result, tuple) and len(result) == 2,
        f"{scorer.name}.score returns {type(result).__name__}, not the pair (values, details)",
    )
    return result


TASKS = ("a regression forest", "a forest of two classes", "a boosted model of two classes")
N_ROWS, N_TREES, DEPTH = 60, 4, 3
NAMES = ("informative", "noise", "unused", "binary", "last")


def toy_rows(task: str, order: NDArray[np.int64] | None = None, seed: int = 0) -> Rows:
    """Return rows of a toy model: out-of-bag rows of a forest, held-out rows of a boosted model.

    Parameters
    ----------
    task : str
        One of `TASKS`.
    order : array of int64 of shape (5,), optional
        Order of the features. The trees and rows are otherwise the same.
    seed : int
        The seed of the rows, for scorers that draw random numbers.

    Returns
    -------
    Rows
        Their ``ensemble`` has a feature without a split, and, for a forest, all optional statistics.
    """
    order = np.arange(len(NAMES)) if order is None else order
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N_ROWS, len(NAMES)))
    X[:, 3] = X[:, 3] > 0
    y: NDArray[Any] = X[:, 0] + X[:, 3] + rng.normal(size=N_ROWS)
    if task != TASKS[0]:
        y = np.where(y > np.median(y), "yes", "no")
    bags = [rng.integers(0, N_ROWS, N_ROWS) for _ in range(N_TREES)]
    ensemble = _ensemble(task, X, y, bags, order, rng)
    boosted = task == TASKS[2]
    return Rows(
        ensemble=ensemble,
        model=None,
        table=Table(X[:, order]),
        response=encode(y, ensemble, N_ROWS),
        weight=np.ones(N_ROWS),
        kind=RowsKind.HELD_OUT if boosted else RowsKind.OOB,
        in_bag=None if boosted else InBag.from_rows(bags, N_ROWS),
        provenance=Provenance(RowsKind.HELD_OUT if boosted else "oob", "known", "a toy model of debias.testing"),
        seed=seed,
    )


def _ensemble(
    task: str,
    X: NDArray[np.float64],
    y: NDArray[Any],
    bags: list[NDArray[np.int64]],
    order: NDArray[np.int64],
    rng: np.random.Generator,
) -> TreeEnsemble:
    boosted, numbers = task == TASKS[2], task == TASKS[0]
    target = y[:, None].astype(float) if numbers else (y[:, None] == ["no", "yes"]).astype(float)
    trees = [_grown(X, target, bag, order, rng) for bag in bags]
    joined: dict[str, Any] = {
        name: np.concatenate([np.asarray([node[name] for node in tree]) for tree in trees]) for name in trees[0][0]
    }
    stored: dict[str, Any] = {"weight": joined["weight"], "count": joined["count"], "impurity": joined["impurity"]}
    if boosted:
        stored = {"gain": joined["impurity"] * joined["weight"], "cover": joined["weight"] / 4}
        joined["value"] = 0.5 * (joined["value"][:, 1:] - 0.5)
    return TreeEnsemble(
        tree_start=np.cumsum([0] + [len(tree) for tree in trees]),
        feature=joined["feature"],
        threshold=joined["threshold"],
        left=joined["left"],
        right=joined["right"],
        missing_left=joined["missing_left"],
        value=joined["value"],
        averaging_weight=joined["weight"],
        tree_output=np.zeros(len(trees), dtype=np.int32),
        base=np.zeros(2 if task == TASKS[1] else 1),
        averaged=not boosted,
        objective=LOGISTIC if boosted else SQUARED_ERROR,
        feature_names=tuple(NAMES[k] for k in order),
        named=True,
        classes=None if numbers else np.array(["no", "yes"]),
        routing_dtype=np.dtype(np.float64),
        source=task.removeprefix("a "),
        version="debias.testing",
        criterion=None if boosted else "squared_error" if numbers else "gini",
        mean_values=not boosted,
        n_train=len(y),
        **stored,
    )


def _grown(
    X: NDArray[np.float64],
    target: NDArray[np.float64],
    bag: NDArray[np.int64],
    order: NDArray[np.int64],
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Grow a tree with random splits, which do not depend on the order of the features."""
    used = [k for k, name in enumerate(NAMES) if name != "unused"]
    nodes: list[dict[str, Any]] = []

    def grow(rows: NDArray[np.int64], depth: int) -> int:
        feature, mean = int(rng.choice(used)), target[rows].mean(axis=0)
        here = len(nodes)
        nodes.append(
            {
                "feature": -1, "threshold": 0.0, "left": -1, "right": -1, "missing_left": True, "value": mean,
                "weight": float(len(rows)), "count": len(np.unique(rows)),
                "impurity": float(((target[rows] - mean) ** 2).sum(axis=1).mean()),
            }
        )  # fmt: skip
        threshold = float(np.median(X[rows, feature]))
        left = X[rows, feature] <= threshold
        if depth < DEPTH and 0 < left.sum() < len(rows):
            children = {"left": grow(rows[left], depth + 1), "right": grow(rows[~left], depth + 1)}
            nodes[here] |= {"feature": int(np.flatnonzero(order == feature)[0]), "threshold": threshold, **children}
        return here

    grow(bag, 0)
    return nodes


def check_meta_method(meta: MetaMethod, scorer: Scorer | None = None) -> None:
    """Check that a meta-method keeps its contract, on small data with categories and missing values.

    Parameters
    ----------
    meta : MetaMethod
        With few replicates, for a quick check.
    scorer : Scorer, optional
        The scorer of data to wrap, if the meta-method cannot wrap every scorer.

    Raises
    ------
    AssertionError
        Its result is not a scorer, changes the data or the global random state, is not reproducible, cannot be sent to
        another process, or returns values of the wrong shape.

    Examples
    --------
    >>> import debias
    >>> from debias.testing import check_meta_method
    >>> check_meta_method(debias.plugin.meta_method("response_permutation", replicates=3))
    """
    require(
        isinstance(meta, MetaMethod),
        f"{meta!r} is not a meta-method: it needs name, with_options and __call__. @debias.plugin.meta_method_plugin "
        "makes one from a function (inner, problem)",
    )
    inner = distance_of_means if scorer is None else scorer
    wrapped = meta(inner)
    require(
        isinstance(wrapped, Scorer),
        f"{meta.name} returns {wrapped!r}, which is not a scorer: return a scorer that wraps the inner one",
    )
    require(
        inner.name in wrapped.name,
        f"the name {wrapped.name!r} does not contain the name of the scorer inside, {inner.name!r}: a reader of the "
        "result must see both",
    )
    require(
        isinstance(wrapped, DataScorer),
        f"{wrapped.name} wraps a scorer of data, so it must be a debias.plugin.DataScorer, but it is a "
        f"{type(wrapped).__name__}",
    )
    try:
        meta.with_options(no_such_option_1=1)
    except CompositionError:
        pass
    else:
        raise AssertionError(
            f"{meta.name} accepts an unknown option, no_such_option_1, so it would ignore a misspelt option. Raise "
            "debias.plugin.CompositionError"
        )
    assert isinstance(wrapped, DataScorer)
    data = small_data()
    check_call(wrapped, lambda scorer: cast(DataScorer, scorer).score(data), lambda: (data.X, data.y), data.n_features)


@data_scorer_plugin("distance_of_means", unit="standard deviations")
def distance_of_means(data: Data) -> NDArray[np.float64]:
    """Return the distance of the mean response between rows with large and with small values of the feature.

    Categories count by their codes. This scorer is for trying out meta-methods.
    """
    y = data.numbers
    distance = np.zeros(data.n_features)
    for k, column in enumerate(data.columns):
        high = column.values > np.nanmedian(column.values)
        if 0 < high.sum() < high.size:
            distance[k] = abs(y[high].mean() - y[~high].mean()) / (y.std() or 1.0)
    return distance
