"""``debias.score``, the scores of the features, and ``debias.contributions``, what each row contributes to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.api.evaluation import refuse_features, score_data, score_refits, score_trees, shared_names
from debias.api.prepared import prepared_members
from debias.errors import CompositionError, RowsError
from debias.hooks.contracts import DataScorer, RefitScorer
from debias.hooks.expressions import scorer as read_scorer
from debias.parallel import checked, in_threads
from debias.progress import with_progress
from debias.rows.request import Request
from debias.significance.procedure import Procedure
from debias.text import feature_index
from debias.wrong_arguments import explains_wrong_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from debias.data.user_rows import Dataset
    from debias.hooks.contracts import Scorer
    from debias.parallel import Engine, Refits
    from debias.random_state import RandomState
    from debias.results.scores import Scores
    from debias.rows.provenance import RowsOption
    from debias.rows.request import Level
    from debias.significance.procedure import Test


@explains_wrong_arguments
@in_threads
@with_progress
def score(
    model: Any,
    X: Any = None,
    y: Any = None,
    scorer: str | Scorer = "mdi_oob",
    *,
    rows: RowsOption = "auto",
    train: tuple[Any, Any] | Dataset | None = None,
    sample_weight: Any = None,
    groups: Mapping[str, Any] | None = None,
    level: Level | None = None,
    test: Test | None = None,
    refits: Refits | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    **options: Any,
) -> Scores:
    """Score the features of a fitted model with one scorer.

    Parameters
    ----------
    model : estimator or Booster, or None
        A fitted scikit-learn forest or tree, or an XGBoost or LightGBM model. It is never changed. None is allowed for
        scorers that need only data. If there is a model, such scorers use the rows that are passed, of whatever kind.
    X : array, sparse matrix or data frame of shape (n_rows, n_features), list of texts, source of rows, or Dataset
        Evaluation rows, as the model takes them (a list or Series of texts for a pipeline that begins with a
        vectorizer). A :class:`Dataset` has y, weights, queries, blocks, start margins and names of columns too. None is
        allowed for scorers that use no rows (``mdi``, ``gain``, ``cover``, ``split_count``).
        Rows need not be in memory (docs/large-data.md): pass a Parquet or Feather file, a pyarrow dataset, a data frame
        of Spark or Dask, a relation of DuckDB, a lazy frame of Polars, an Arrow stream, an iterable of (X, y) or
        (X, y, weight) batches, or :class:`debias.NodeSums` of this model.
        Scorers that need only data take categories (pandas categories, text) and missing values.
    y : array-like of shape (n_rows,), or str
        Response of the rows, as the model was trained on; or the name of its column in a file, dataset, query, lazy
        frame, stream, or frame of Spark or Dask.
        Rows are matched by position. A pandas Series whose index has the labels of X in another order is refused, also
        as weights or `blocks`: ``y.loc[X.index]`` puts it in the order of X.
    scorer : str or Scorer
        A name, an expression such as ``"mdi_oob(shrinkage=100)"`` or ``"response_permutation(mdi)"``, or a scorer.
        ``debias.plugin.plugins()`` lists the names. Meta-methods refit the model, on X and y if these are its training
        rows, else on `train`.
    rows : {"auto", "oob", "held-out", "train"}
        The kind of the rows.

        - "oob": the training rows, in training order. Each row is used for the trees for which it was out of bag.
          debias proves that these are the training rows.
        - "held-out": rows the model has not seen.
        - "train": training rows, used as they are. Such scores are biased.
        - "auto": "oob" if this can be proven; otherwise "held-out", with an error if the rows look like training rows.
    train : (X, y) or Dataset, optional
        Training rows, passed in addition to held-out rows, for scorers that need in-bag sums that the model does not
        store. A :class:`Dataset` has their weights in training and, for a ranker, their queries.
    sample_weight : array-like of shape (n_rows,), or str, optional
        Weights of the evaluation rows, or the name of their column. A meta-method that refits the model on these rows
        uses them as training weights too.
    groups : mapping of str to list of str, optional
        Groups of columns by name. The scores of the columns of a group are summed, and the group is treated as one
        feature. Other columns stay as they are. The columns that a pipeline makes from one column of X are a group
        already; "auto" stands for these groups.
    level : {None, "source", "model"}
        The columns that are scored, if the model transforms its rows before the trees see them.

        - "source": the columns of X. The scores of the columns that are made from one column of X are summed. Columns
          that are computed from several columns of X are a group of these, named like "a + b".
        - "model": the columns that the trees see (words, categories, components), by the names that the transformers
          give them. `groups` are then groups of these columns.
        - None: "model" if X is one column of texts, else "source".
    test : {None, "auto", "residuals", "permutation", "conservative", "naive", "combined"} or Permutation
        How to test the scores, as in :func:`audit` with its defaults; None, the default: no test. "combined", which
        "auto" chooses for ``honest_effects``, tests linear effects together with the splits of the model.
    refits : Refits, optional
        Hyper-parameters, time limit and checkpoint of the refits of a meta-method, see :class:`Refits`.
    random_state : int or numpy.random.Generator, optional
        Seed of all random draws, recorded with the scores; a generator draws one. Without one, permutations use seed 0,
        so that the same call gives the same numbers.
    n_jobs : int, optional
        Number of threads; 1 by default. For a meta-method, the number of workers of the active joblib backend; each
        refits with one thread.
    **options
        Options of the scorer.

    Returns
    -------
    Scores

    Raises
    ------
    UnsupportedModelError
        The model is not fitted, or no adapter supports it.
    RowsError
        X, y or weights do not fit the model or each other.
    ProvenanceError
        The rows are not of the kind that `rows` states.
    InBagUnavailableError
        `rows` is "oob" and the model has no bags.
    CompositionError
        There is no such scorer or option, the combination has no meaning, or `test` is set for a scorer that is not a
        sum over rows.
    RefitError
        Every replicate of a meta-method failed.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> scores = debias.score(forest, X, y)
    >>> scores.rows
    'oob'
    >>> scores.to_frame()["mdi_oob"].idxmax()
    'bmi'
    """
    of_refits = checked(refits)
    request = Request.of(
        model,
        X,
        y,
        rows=rows,
        train=train,
        sample_weight=sample_weight,
        groups=groups,
        level=level,
        params=of_refits.params,
        random_state=random_state,
        n_jobs=n_jobs,
        takes_lines=True,
    )
    refuse_features([scorer], request.X)
    if isinstance(scorer, (list, tuple)):
        raise CompositionError(
            f"scorer must be one scorer: pass {list(scorer)!r} one by one, or to debias.audit as scorers"
        )
    chosen = read_scorer(scorer, **options)
    if chosen.inner is None and (request.params is not None or of_refits.has_limits):
        raise CompositionError(f"refits are for meta-methods, and {chosen.name} refits no model: leave refits out")
    return scores_of(request, chosen, test, of_refits.engine(request.n_jobs))


@explains_wrong_arguments
@in_threads
@with_progress
def contributions(
    model: Any,
    X: Any,
    y: Any = None,
    scorer: str | Scorer = "mdi_oob",
    *,
    rows: RowsOption = "auto",
    train: tuple[Any, Any] | Dataset | None = None,
    sample_weight: Any = None,
    level: Level | None = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Return the contribution of each row to the score of each feature: a local explanation.

    A positive contribution means: in trees that have not seen the row, the splits on the feature moved its prediction
    towards its response, compared with the other evaluation rows of each node.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, level, n_jobs
        As for :func:`score`.
    scorer : str or Scorer
        ``mdi_oob``, or another scorer whose score is a sum over rows.

    Returns
    -------
    DataFrame of shape (n_rows, n_features)
        Contributions in the unit of the score: the sum over rows is the score. The index is that of `X` if it is a
        pandas data frame.

    Raises
    ------
    CompositionError
        The score is not a sum over rows.
    DebiasError
        As for :func:`score`.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> phi = debias.contributions(forest, X, y)
    >>> phi.shape
    (442, 10)
    >>> bool(abs(phi.sum() - debias.score(forest, X, y).values).max() < 1e-9)
    True
    """
    import pandas as pd

    request = Request.of(
        model,
        X,
        y,
        rows=rows,
        train=train,
        sample_weight=sample_weight,
        level=level,
        n_jobs=n_jobs,
        takes_lines=True,
    )
    chosen = read_scorer(scorer)
    request.passed.refuse_batches("debias.contributions")
    total: NDArray[np.float64] | None = None
    found, names = list[tuple[str, ...]](), tuple[str, ...]()
    for prepared in prepared_members(request, [chosen]):
        part = prepared.member.weight * prepared.contributions(chosen)
        positions = prepared.member.positions
        if positions is not None:  # the other rows are those that the model was trained on
            of_fold, part = part, np.zeros((len(request.y), part.shape[1]))
            part[positions] = of_fold
        found.append(prepared.grouping.names)
        names = shared_names(request.members[: len(found)], found)
        total = part if total is None else total + part
    index = request.X.index if isinstance(request.X, (pd.DataFrame, pd.Series)) else None
    return pd.DataFrame(total, index=index, columns=feature_index(names, None))


def scores_of(request: Request, scorer: Scorer, test: Test | None, engine: Engine) -> Scores:
    """Return the scores of a request with any scorer; refuse arguments that the scorer cannot use.

    Parameters
    ----------
    request : Request
    scorer : Scorer
    test
        As for :func:`score`.
    engine : Engine
        How a meta-method runs its replicates.
    """
    procedure = Procedure.of(test)
    needs_all_rows = isinstance(scorer, DataScorer | RefitScorer)
    if needs_all_rows:
        request.passed.refuse_batches(scorer.name)
    if request.qid is not None and isinstance(scorer, DataScorer):
        members = () if request.model is None else request.members
        how = (
            "it compares X with y over all rows, and the relevance of a row means something only within its query. Use "
            "a scorer that takes queries, such as mdi_oob"
            if any(member.ensemble.objective.by_query for member in members)
            else "leave qid out"
        )
        raise CompositionError(f"{scorer.name} takes no queries: {how}")
    if isinstance(scorer, RefitScorer):
        if procedure is not None or request.blocks is not None or request.base_margin is not None:
            raise CompositionError(
                f"{scorer.name} refits the model, and cannot use test, blocks or base_margin: leave them out"
            )
        return score_refits(request, scorer, engine)
    if isinstance(scorer, DataScorer):
        if request.rows != "auto" or request.train is not None:
            raise RowsError(f"{scorer.name} uses no model: leave `rows` and `train` out")
        if procedure is not None:
            raise CompositionError(f"{scorer.name} uses no model, so it cannot be tested: leave test out")
        if request.blocks is not None or request.base_margin is not None:
            raise CompositionError(f"{scorer.name} uses no model: leave blocks and base_margin out")
        if request.groups is not None:
            raise CompositionError(
                f"the scores of {scorer.name} cannot be summed over the columns of a group: leave groups out"
            )
        return score_data(request, scorer, engine)
    return score_trees(request, scorer, procedure)
