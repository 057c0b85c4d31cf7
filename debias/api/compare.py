"""``debias.compare``: scores of one model side by side, with traits of features that may explain disagreements.

Two models (``baseline=``) and pairs (``of="pairs"``) are compared in modules of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from debias.api.compared_models import compared_models
from debias.api.compared_pairs import compared_pairs
from debias.api.evaluation import refuse_features, refuse_what_is_no_list
from debias.api.score import scores_of
from debias.data.table import Table
from debias.errors import CompositionError, UnsupportedModelError
from debias.hooks.contracts import DataScorer
from debias.hooks.expressions import scorer
from debias.hooks.registry import scorers as offered_scorers
from debias.parallel import Engine, in_threads
from debias.positions import evenly_spaced
from debias.progress import with_progress
from debias.results.comparison import Comparison
from debias.results.vocabulary import RowsKind
from debias.rows.request import Request
from debias.text import feature_index
from debias.trees.shapley import shapley_values
from debias.warning_log import WarningLog
from debias.wrong_arguments import explains_wrong_arguments

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.data.user_rows import Dataset
    from debias.hooks.contracts import Scorer
    from debias.models.wrappers import Member
    from debias.random_state import RandomState
    from debias.results.model_comparison import ModelComparison
    from debias.results.pair_comparison import PairComparison
    from debias.results.scores import Scores
    from debias.rows.provenance import RowsOption
    from debias.rows.request import Level
    from debias.trees.ensemble import TreeEnsemble


REPORTED, UNSEEN, DEBIASED = "native", "native_unseen", "mdi_oob"
"""Scorers of the core: what the model reports, the same on unseen rows, and what these say about the response."""
EXPLAINED = 500
"""Largest number of rows, evenly spread, whose SHAP values show which features interact."""
BINS = 10
"""Number of equal-frequency bins of a feature in which its SHAP values are averaged."""


@overload
def compare(
    model: Any,
    X: Any,
    y: Any = None,
    scorers: list[str | Scorer] | tuple[str | Scorer, ...] | None = None,
    *,
    of: Literal["features"] = "features",
    baseline: None = None,
    rows: RowsOption = "auto",
    train: tuple[Any, Any] | Dataset | None = None,
    sample_weight: Any = None,
    level: Level | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Comparison: ...


@overload
def compare(
    model: Any,
    X: Any,
    y: Any = None,
    scorers: None = None,
    *,
    of: Literal["pairs"],
    baseline: None = None,
    rows: RowsOption = "auto",
    train: tuple[Any, Any] | Dataset | None = None,
    sample_weight: Any = None,
    level: Level | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> PairComparison: ...


@overload
def compare(
    model: Any,
    X: Any,
    y: Any = None,
    scorers: None = None,
    *,
    of: Literal["features"] = "features",
    baseline: object,
    rows: RowsOption = "auto",
    train: tuple[Any, Any] | Dataset | None = None,
    sample_weight: Any = None,
    level: Level | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> ModelComparison: ...


@explains_wrong_arguments
@in_threads
@with_progress
def compare(
    model: Any,
    X: Any,
    y: Any = None,
    scorers: list[str | Scorer] | tuple[str | Scorer, ...] | None = None,
    *,
    of: Literal["features", "pairs"] = "features",
    baseline: Any = None,
    rows: RowsOption = "auto",
    train: tuple[Any, Any] | Dataset | None = None,
    sample_weight: Any = None,
    level: Level | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Comparison | PairComparison | ModelComparison:
    """Compare scores of one model side by side, of features or of pairs; or a model with an older one.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, level, random_state, n_jobs
        As for :func:`debias.score`, which is called for each scorer.
    scorers : list of str or Scorer, optional
        Two or more scorers, which may include scorers that need only data. The default is ``native`` (if the model
        reports an importance), ``mdi_oob``, and the scorers of plugins that say ``compared=True``: of those that come
        with debias, ``permutation``, ``shap`` and ``shap_oob``. A warning says which are not defined for the model.
    of : {"features", "pairs"}
        "pairs" compares what the model does with two features together: the SHAP interactions of each pair, their
        covariance with the response on unseen rows, and the test of :func:`debias.interactions` at a family-wise error
        rate of 5 % where it applies (docs/scorers/shap-interactions.md). Columns that are made from one column of X
        are one feature. It takes no `scorers`.
    baseline : estimator or Booster, optional
        Another model, such as the one in use. Then the losses of the two models on the same rows are compared, which
        neither has seen, and the difference is divided exactly into a base and each feature (docs/comparing.md). The
        models may be of different libraries and have different features: of columns with names, each takes its own. The
        loss must be the same. Rows of one block (:class:`debias.Dataset`) may depend on one another. It takes no
        `scorers` and no `train`.

    Returns
    -------
    Comparison, PairComparison for pairs, or ModelComparison with a baseline
        ``to_frame()`` has the scores, or what each feature costs. ``ranks`` and ``rank_correlation`` show how far
        scores of features agree. ``disagreements`` shows where they do not agree, and possible reasons; ``summary()``
        says it of pairs, and by which features two models differ.

    Raises
    ------
    CompositionError
        There are fewer than two scorers, or one of them twice; or `of` is "pairs" and there are scorers. With a
        baseline: the losses of the models are not the same, or have no parts (rankers, Cox, own objectives).
    ProvenanceError
        With a baseline: the rows are training rows of one of the models.
    UnsupportedModelError
        The model is a wrapper that makes several columns from one (for features), or holds several models.
    DebiasError
        As for :func:`debias.score`.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> comparison = debias.compare(forest, X, y, ["native", "mdi_oob", "shap"])
    >>> comparison.to_frame().idxmax().tolist()
    ['bmi', 'bmi', 'bmi']
    >>> comparison.traits.loc["s1", "correlated_with"]
    's2'

    A new forest, and the one in use, which had fewer columns:

    >>> old = RandomForestRegressor(random_state=0).fit(X[:300][["age", "sex", "bp"]], y[:300])
    >>> new = RandomForestRegressor(random_state=0).fit(X[:300], y[:300])
    >>> found = debias.compare(new, X[300:], y[300:], baseline=old)
    >>> found.metric, found.loss.change < 0
    ('mean squared error', True)
    """
    if of not in ("features", "pairs"):
        raise CompositionError(f"of={of!r} is not one of 'features', 'pairs'")
    refuse_what_is_no_list(scorers, "[{!r}, ...]")
    refuse_features(scorers, X)
    settings: dict[str, Any] = {
        "rows": rows,
        "train": train,
        "sample_weight": sample_weight,
        "level": level,
        "random_state": random_state,
        "n_jobs": n_jobs,
    }
    if baseline is not None:
        if scorers is not None or of != "features":
            raise CompositionError("two models are compared by their losses: leave scorers= and of= out with baseline=")
        return compared_models(model, baseline, X, y, settings)
    if of == "pairs":
        if scorers is not None:
            raise CompositionError("scorers are scores of features: leave them out with of='pairs'")
        return compared_pairs(model, X, y, settings)
    chosen = [scorer(expression) for expression in (_default() if scorers is None else scorers)]
    names = [chosen_scorer.name for chosen_scorer in chosen]
    if len(names) < 2 or len(set(names)) < len(names):
        raise CompositionError(f"pass two or more different scorers to compare, not {names}")
    request = Request.of(model, X, y, **settings)
    request.passed.refuse_batches("compare")
    member = _only_member(request)
    engine = Engine(n_jobs=request.n_jobs)
    scores, log = {}, WarningLog()
    for chosen_scorer in chosen:
        uses_model = not isinstance(chosen_scorer, DataScorer)
        request_of_scorer = request if uses_model else replace(request, rows="auto", train=None)
        try:
            scores[chosen_scorer.name] = scores_of(request_of_scorer, chosen_scorer, None, engine)
        except CompositionError as error:
            if scorers is not None or chosen_scorer.name == DEBIASED:
                raise
            if chosen_scorer.name != REPORTED:  # a model that reports no importance has no such column
                log.warn(f"{chosen_scorer.name} is left out of the comparison: {error}")
    ensemble = member.ensemble
    matrix = Table(member.X).aligned_to(ensemble, WarningLog()).matrix(ensemble)
    if request.sample_weight is not None and member.positions is None:
        matrix = matrix[np.asarray(request.sample_weight) > 0]
    explained = matrix[evenly_spaced(len(matrix), EXPLAINED)]
    upheld = _upheld(request, scores, engine)
    return Comparison(scores, _traits(scores, matrix, _interaction(ensemble, explained), upheld))


def _default() -> list[str | Scorer]:
    """Return what is compared by default; scorers of plugins are in alphabetical order."""
    return [REPORTED, DEBIASED, *(each for each in offered_scorers().values() if getattr(each, "compared", False))]


def _only_member(request: Request) -> Member:
    """Return the one model of trees inside a model, with X as it sees it; its columns must be scored one by one."""
    members = request.members
    columns = members[0].columns
    if len(members) > 1 or (columns is not None and columns.index.tolist() != list(range(len(columns.names)))):
        raise UnsupportedModelError(
            f"debias.compare describes the columns that the trees see, and in this {type(request.model).__name__} "
            "these are not the columns of X one by one. "
            + (
                "Compare the models inside one by one, with X transformed by the steps before them"
                if len(members) > 1
                else "Pass level='model' to compare the columns that the trees see"
            )
        )
    return members[0]


def _traits(
    scores: dict[str, Scores], X: NDArray[np.floating[Any]], interaction: NDArray[np.float64], upheld: Scores | None
) -> pd.DataFrame:
    import pandas as pd

    names = feature_index(next(iter(scores.values())).feature_names)
    related = pd.DataFrame(X).corr(method="spearman").abs().fillna(0.0).to_numpy(copy=True)
    np.fill_diagonal(related, -1.0)
    nearest = related.argmax(axis=1)
    return pd.DataFrame(
        {
            "n_values": [np.unique(column[~np.isnan(column)]).size for column in X.T],
            "correlation": np.maximum(related.max(axis=1), 0.0),
            "correlated_with": [str(names[k]) if related[j, k] > 0 else "" for j, k in enumerate(nearest)],
            "interaction": interaction,
            "not_upheld": _not_upheld(scores, upheld, len(names)),
        },
        index=names,
    )


def _upheld(request: Request, scores: dict[str, Scores], engine: Engine) -> Scores | None:
    """Return the reported importance, computed on the evaluation rows; None if it was not asked for or is not known.

    Nor is it told on training rows, because these always support the fitted splits.
    """
    if REPORTED not in scores:
        return None
    try:
        upheld = scores_of(request, scorer(UNSEEN), None, engine)
    except CompositionError:
        return None
    return None if upheld.rows == RowsKind.TRAIN else upheld


def _not_upheld(scores: dict[str, Scores], upheld: Scores | None, n_features: int) -> NDArray[np.float64]:
    """Return 1 - share on the evaluation rows over reported share, at least 0; NaN if one of them is not known."""
    if upheld is None:
        return np.full(n_features, np.nan)
    reported, unseen = (np.maximum(each.values, 0.0) for each in (scores[REPORTED], upheld))
    reported, unseen = (values / values.sum() if values.sum() > 0 else values for values in (reported, unseen))
    lost = np.divide(reported - unseen, reported, out=np.full(n_features, np.nan), where=reported > 0)
    return np.where(np.isnan(lost), np.nan, np.maximum(lost, 0.0))


def _interaction(ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the share of the variance of each feature's SHAP values within bins of the feature.

    Without interactions the SHAP value is a function of the feature alone, so it is nearly constant within a bin. Sums
    of squares are divided by their degrees of freedom, so that many bins with few rows do not look like a function.
    """
    phi = shapley_values(ensemble, X)
    share = np.full(ensemble.n_features, np.nan)
    for k in range(ensemble.n_features):
        bins = _bins(X[:, k])
        total = _within(phi[:, k], np.zeros(len(X), dtype=np.int64))
        if total > 0:
            share[k] = min(1.0, _within(phi[:, k], bins) / total)
    return share


def _bins(x: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return the bin of each row; missing values have their own bin."""
    edges = np.unique(np.nanquantile(x, np.linspace(0, 1, BINS + 1)[1:-1])) if not np.isnan(x).all() else np.zeros(1)
    bins = np.searchsorted(edges, x)
    return np.unique(np.where(np.isnan(x), edges.size + 1, bins), return_inverse=True)[1]


def _within(phi: NDArray[np.float64], bins: NDArray[np.int64]) -> float:
    """Return the sum of squares about the means of the bins, summed over outputs, over its degrees of freedom."""
    count = np.bincount(bins)
    squares = 0.0
    for column in phi.T:
        mean = np.bincount(bins, weights=column) / count
        squares += float(((column - mean[bins]) ** 2).sum())
    return squares / max(1, len(phi) - count.size)
