"""The questions about one score: ``debias.score``, and what each row contributes to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.api.evaluation import prepared_members, score_data, score_refits, score_trees
from debias.errors import CompositionError, RowsError
from debias.hooks.contracts import DataScorer, RefitScorer
from debias.hooks.expressions import scorer as read_scorer
from debias.parallel import Engine, in_threads
from debias.rows.request import Request
from debias.significance.procedure import Procedure
from debias.text import feature_index

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from debias.hooks.contracts import Scorer
    from debias.parallel import Progress
    from debias.results.scores import Scores


@in_threads
def score(
    model: Any,
    X: Any = None,
    y: Any = None,
    scorer: str | Scorer = "mdi_oob",
    *,
    rows: str = "auto",
    train: tuple[Any, ...] | None = None,
    sample_weight: Any = None,
    base_margin: Any = None,
    groups: Mapping[str, Any] | None = None,
    blocks: Any = None,
    test: str | None = None,
    params: Any = None,
    seed: int | None = None,
    n_jobs: int | None = None,
    progress: Progress = False,
    budget: float | None = None,
    checkpoint: str | Path | None = None,
    **options: Any,
) -> Scores:
    """Score the features of a fitted model with one scorer.

    Parameters
    ----------
    model : estimator or Booster, or None
        A fitted scikit-learn forest or tree, or an XGBoost or LightGBM model. Never changed. None is allowed for
        scorers that need only data; with a model these score the rows passed all the same, whatever those are to it.
    X : array or data frame of shape (n_rows, n_features), or a source of rows
        Evaluation rows. None is allowed for scorers that look at none (``mdi``, ``gain``, ``cover``, ``split_count``).
        Rows need not be in memory (docs/large-data.md): a Parquet or Feather file, a pyarrow dataset, a Dask data frame
        or array, an iterable of (X, y) or (X, y, weight) batches, or :class:`debias.NodeSums` of this model.
        For scorers that need only data, categories (pandas categories, text) and missing values are welcome.
    y : array-like of shape (n_rows,), or str
        Their response, as the model was trained on; the column of a file, dataset or Dask frame that has it. Rows are
        taken by position. A pandas Series whose index has the labels of X in another order is refused, and so are
        weights and `blocks`: ``y.loc[X.index]`` puts them in order.
    scorer : str or Scorer
        A name, an expression such as ``"mdi_oob(shrinkage=100)"`` or ``"response_permutation(mdi)"``, or a scorer.
        ``debias.plugins()`` lists them. Meta-methods train the model again: on X and y if these are its training rows,
        else on `train`.
    rows : {"auto", "oob", "held-out", "train"}
        What the rows are. "oob": the training rows, in training order; each is used where it was out of a tree's bag,
        and that they are is proven. "held-out": rows the model has not seen. "train": training rows for what they are,
        biased. "auto": "oob" if proven, an error if they look like training rows all the same, else "held-out".
    train : (X, y) or (X, y, weight), optional
        Training rows beside held-out ones, for scorers that need in-bag sums the model does not store; `weight` is what
        the rows weighed in training (sample weight times class weight).
    sample_weight : array-like of shape (n_rows,), or str, optional
        Weights of the evaluation rows, or their column. A meta-method that trains the model again on these rows trains
        with them too.
    base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Margin each row starts from, of boosted models that were trained so (XGBoost's ``base_margin``, LightGBM's
        ``init_score``); the model does not keep it.
    groups : mapping of str to list of str, optional
        Columns that are judged as one, by the name of the group: their scores are summed. Others stay as they are.
        What a pipeline makes of one column of X is one group already; "auto" says so.
    blocks : array-like of shape (n_rows,), optional
        A label for each row, where rows of one label depend on one another (repeated measurements, neighbours in time):
        a row is then out of a tree's bag only if its whole block is.
    test : {None, "auto", "permutation", "conservative", "naive"}
        Whether and how to test the scores, as :func:`audit` does with its defaults; None, the default, does not.
    params : mapping or estimator, optional
        Hyper-parameters to train the model again with, which go before those it kept; all of them where it kept none.
        An unfitted estimator of XGBoost, of a Booster whose file lost them; it is then scored as that estimator.
    seed : int, optional
        For all that is drawn; it is recorded with the scores. Without one permutations are those of seed 0, so that
        the same call gives the same numbers.
    n_jobs : int, optional
        Threads; 1 by default. Of a meta-method, workers of the active joblib backend; each trains with one thread.
    progress : bool or callable
        Of a meta-method: True shows a bar on stderr, if that is a terminal; a callable is called with the number of
        replicates done and the number wanted.
    budget : float, optional
        Seconds the replicates of a meta-method may take; no limit by default. What was drawn until then counts.
    checkpoint : str or Path, optional
        File in which finished replicates of a meta-method are kept: the same call goes on from there.
    **options
        Options of the scorer.

    Returns
    -------
    Scores

    Raises
    ------
    UnsupportedModelError
        The model is not fitted, or of a kind no adapter can audit.
    RowsError
        X, y or weights do not fit the model or each other.
    ProvenanceError
        The rows are not what they were said to be.
    InBagUnavailableError
        Out-of-bag rows were asked of a model that has none.
    CompositionError
        No such scorer or option, a composition without meaning, or `test` for a scorer that is no sum over rows.
    RefitError
        No replicate of a meta-method could be run.

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
    request = Request.of(
        model,
        X,
        y,
        rows=rows,
        train=train,
        sample_weight=sample_weight,
        base_margin=base_margin,
        groups=groups,
        blocks=blocks,
        params=params,
        seed=seed,
        n_jobs=n_jobs,
    )
    chosen = read_scorer(scorer, **options)
    engine = Engine(n_jobs=request.n_jobs, progress=progress, budget=budget, checkpoint=checkpoint)
    if chosen.inner is None and (request.params, budget, checkpoint) != (None, None, None):
        raise CompositionError(f"{chosen.name} trains nothing again: params, budget and checkpoint are of meta-methods")
    return scores_of(request, chosen, test, engine)


@in_threads
def contributions(
    model: Any,
    X: Any,
    y: Any,
    scorer: str | Scorer = "mdi_oob",
    *,
    rows: str = "auto",
    train: tuple[Any, ...] | None = None,
    sample_weight: Any = None,
    blocks: Any = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Return what each row contributes to the score of each feature: a local explanation.

    A positive contribution says that the splits on the feature, in trees that have not seen the row, moved it towards
    its response, as compared with the other evaluation rows of each node.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, blocks, n_jobs
        As for :func:`score`.
    scorer : str or Scorer
        ``mdi_oob``, or another score that is a sum over rows.

    Returns
    -------
    DataFrame of shape (n_rows, n_features)
        In the unit of the score: the sum over rows is the score. Indexed like `X` if that is a pandas data frame.

    Raises
    ------
    CompositionError
        The score is no sum over rows.
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

    request = Request.of(model, X, y, rows=rows, train=train, sample_weight=sample_weight, blocks=blocks, n_jobs=n_jobs)
    chosen = read_scorer(scorer)
    total: NDArray[np.float64] | None = None
    for prepared in prepared_members(request, [chosen]):
        part = prepared.member.weight * prepared.contributions(chosen)
        total, names = part if total is None else total + part, prepared.grouping.names
    index = X.index if isinstance(X, pd.DataFrame) else None
    return pd.DataFrame(total, index=index, columns=feature_index(names, None))


def scores_of(request: Request, scorer: Scorer, test: str | None, engine: Engine) -> Scores:
    """Return the scores of a request with any scorer; refuse what it does not take.

    Parameters
    ----------
    request : Request
    scorer : Scorer
    test : str or None
        As for :func:`score`.
    engine : Engine
        How a meta-method runs its replicates.
    """
    procedure = None if test is None else Procedure(test)
    needs_all_rows = isinstance(scorer, DataScorer | RefitScorer)
    if request.in_batches and (needs_all_rows or request.blocks is not None or request.base_margin is not None):
        raise CompositionError(
            f"{scorer.name} needs all rows at once: pass X and y in memory, and not as a source of rows"
            if needs_all_rows
            else "blocks and base_margin need all rows at once: pass X and y in memory"
        )
    if isinstance(scorer, RefitScorer):
        if procedure is not None or request.blocks is not None or request.base_margin is not None:
            raise CompositionError(
                f"{scorer.name} trains the model again on rows of their own: leave test, blocks and base_margin out"
            )
        return score_refits(request, scorer, engine)
    if isinstance(scorer, DataScorer):
        if request.rows != "auto" or request.train is not None:
            raise RowsError(f"{scorer.name} looks at no model, so there are no `rows` or `train` to tell apart")
        if procedure is not None:
            raise CompositionError(f"{scorer.name} looks at no model, so test={test!r} cannot test it")
        if request.groups is not None:
            raise CompositionError(f"{scorer.name} does not add up over the columns of a group; score them one by one")
        return score_data(request, scorer, engine)
    return score_trees(request, scorer, procedure)
