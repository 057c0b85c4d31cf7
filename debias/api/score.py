"""What a user calls: one score of the features, and what each row contributes to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from debias.api.evaluation import combined, node_weight_of, refitted, require_one_scale, scored, tested, whole_seed
from debias.api.streaming import streamed_scores
from debias.data.groups import Grouping
from debias.data.row_order import refuse_other_order
from debias.data.sources import is_source
from debias.errors import CompositionError, RowsError, UnsupportedModelError
from debias.hooks.contracts import Scorer, innermost
from debias.hooks.expressions import scorer as read_scorer
from debias.models.extraction import extract
from debias.models.refitting import with_params
from debias.models.wrappers import is_one, is_wrapper, members_in_words, unwrap
from debias.parallel import Engine, in_threads, threads
from debias.retraining.experiment import Experiment
from debias.rows.preparation import prepare, prepare_data
from debias.rows.streamed_sums import NodeSums
from debias.significance.procedure import Procedure
from debias.text import feature_index
from debias.warning_log import Notes

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

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
    refuse_other_order(X, train, y=y, sample_weight=sample_weight, base_margin=base_margin, blocks=blocks)
    chosen = read_scorer(scorer, **options)
    procedure = None if test is None else Procedure(test)
    seed = whole_seed(seed)
    engine = Engine(n_jobs=threads(n_jobs), progress=progress, budget=budget, checkpoint=checkpoint)
    model, params = with_params(model, params)
    if not hasattr(chosen, "inner") and (params, budget, checkpoint) != (None, None, None):
        raise CompositionError(f"{chosen.name} trains nothing again: params, budget and checkpoint are of meta-methods")
    streamed = isinstance(X, NodeSums) or is_source(X, y)
    if streamed and ({"refit", "data-only"} & chosen.needs or blocks is not None or base_margin is not None):
        raise CompositionError(
            f"{chosen.name} needs all rows at once: pass X and y in memory, and not as a source of rows"
            if {"refit", "data-only"} & chosen.needs
            else "blocks and base_margin need all rows at once: pass X and y in memory"
        )
    if "refit" in chosen.needs:
        if procedure is not None or blocks is not None or base_margin is not None:
            raise CompositionError(
                f"{chosen.name} trains the model again on rows of their own: leave test, blocks and base_margin out"
            )
        plain = innermost(chosen)
        passed: dict[str, Any] = {"train": train, "sample_weight": sample_weight, "groups": groups, "seed": seed}
        observed = score(model, X, y, plain, rows=rows, n_jobs=n_jobs, **passed)
        return refitted(chosen, Experiment.of(model, X, y, observed, params=params, engine=engine, **passed), observed)
    if "data-only" in chosen.needs:
        if rows != "auto" or train is not None:
            raise RowsError(f"{chosen.name} looks at no model, so there are no `rows` or `train` to tell apart")
        if procedure is not None:
            raise CompositionError(f"{chosen.name} looks at no model, so test={test!r} cannot test it")
        if groups is not None:
            raise CompositionError(f"{chosen.name} does not add up over the columns of a group; score them one by one")
        alone = None if is_wrapper(model) else model  # a wrapper's own columns are those of X
        trees, data = prepare_data(alone, X, y, chosen, sample_weight, seed, n_jobs, engine)
        return scored(chosen, trees, data, Grouping.of(groups, data.feature_names), Notes(), seed)
    if model is None:
        raise UnsupportedModelError(
            f"{chosen.name} scores a model: pass the fitted model; only scorers of data need none"
        )
    if "rows" not in chosen.needs and train is None and _needs_no_rows(chosen, model):
        X, streamed = None, False
    if streamed:
        apart: dict[str, Any] = {"rows": rows, "train": train, "sample_weight": sample_weight, "groups": groups}
        return streamed_scores(model, X, y, chosen, **apart, test=procedure, seed=seed, n_jobs=threads(n_jobs))
    members = unwrap(model, X, y, train)
    ensembles = [extract(member.model) for member in members] if len(members) > 1 else []
    require_one_scale(members, ensembles)
    if procedure is not None and not is_one(members):
        raise CompositionError(f"{members_in_words(members)}, or leave test out")
    scores = []
    for member in members:
        ensemble, given, caught = prepare(
            *(member.model, member.X, member.y, [chosen], rows, member.train, sample_weight, seed, n_jobs),
            *(base_margin, blocks, member.notes),
        )
        grouping = member.grouping(groups, ensemble)
        found = scored(chosen, ensemble, given, grouping, caught, seed)
        scores.append(found if procedure is None else tested(found, chosen, given, grouping, procedure, caught))
    return combined(members, scores, ensembles)


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

    from debias.significance.contributions import contributions as contributions_of

    refuse_other_order(X, train, y=y, sample_weight=sample_weight, blocks=blocks)
    chosen = read_scorer(scorer)
    members = unwrap(model, X, y, train)
    if len(members) > 1:
        require_one_scale(members, [extract(member.model) for member in members])
    total: NDArray[np.float64] | None = None
    for member in members:
        ensemble, given, _ = prepare(
            *(member.model, member.X, member.y, [chosen], rows, member.train, sample_weight, None, n_jobs),
            *(None, blocks, member.notes),
        )
        assert given is not None
        grouping = member.grouping(None, ensemble)
        phi = contributions_of(given.paths, given, node_weight_of(chosen, ensemble, given))
        part = member.weight * grouping.sum_columns(phi)
        total = part if total is None else total + part
    index = X.index if isinstance(X, pd.DataFrame) else None
    return pd.DataFrame(total, index=index, columns=feature_index(grouping.names, None))


def _needs_no_rows(scorer: Scorer, model: Any) -> bool:
    """Whether a scorer that may do without rows does so for this model: what is not looked at need not be proven."""
    try:
        for member in unwrap(model):
            scorer.score(extract(member.model), None)
    except RowsError:
        return False
    return True
