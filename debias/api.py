"""What a user calls: score one way, audit many ways, list the plugins, load a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from debias.audits import Audit
from debias.blocks import warn_of_repeats
from debias.data import Data
from debias.discovery import plugin_manager
from debias.errors import CompositionError, RowsError, UnsupportedModelError
from debias.experiment import Experiment
from debias.fingerprints import Fingerprints, distinct_values
from debias.groups import Grouping
from debias.meta_methods import MetaMethod, innermost
from debias.notes import Notes
from debias.preparation import extract, prepare, prepare_data, threads
from debias.refitting import restored
from debias.replicates import Engine
from debias.rows import Rows
from debias.scoring import Scorer, Scores, decided, refitted, scorer
from debias.significance import Procedure, significance
from debias.unwrapping import combined, is_one, is_wrapper, require_one_scale, unwrap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from debias.ensemble import TreeEnsemble
    from debias.replicates import Progress


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
    se: str | None = None,
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
    X : array or data frame of shape (n_rows, n_features)
        Evaluation rows. None is allowed for scorers that look at none (``mdi``, ``gain``, ``cover``, ``split_count``).
        For scorers that need only data, categories (pandas categories, text) and missing values are welcome.
    y : array-like of shape (n_rows,)
        Their response, as the model was trained on.
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
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the evaluation rows. A meta-method that trains the model again on these rows trains with them too.
    base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Margin each row starts from, of boosted models that were trained so (XGBoost's ``base_margin``, LightGBM's
        ``init_score``); the model does not keep it.
    groups : mapping of str to list of str, optional
        Columns that are judged as one, by the name of the group: their scores are summed. Others stay as they are.
        What a pipeline makes of one column of X is one group already; "auto" says so.
    blocks : array-like of shape (n_rows,), optional
        A label for each row, where rows of one label depend on one another (repeated measurements, neighbours in time):
        a row is then out of a tree's bag only if its whole block is.
    se : {None, "auto", "permutation", "conservative", "naive"}
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
        No such scorer or option, a composition without meaning, or `se` for a scorer that is no sum over rows.
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
    chosen = _scorer(scorer, options)
    test = None if se is None else Procedure(se)
    engine = Engine(n_jobs=threads(n_jobs), progress=progress, budget=budget, checkpoint=checkpoint)
    model, params = _with_params(model, params)
    if not hasattr(chosen, "inner") and (params, budget, checkpoint) != (None, None, None):
        raise CompositionError(f"{chosen.name} trains nothing again: params, budget and checkpoint are of meta-methods")
    if "refit" in chosen.needs:
        if test is not None or blocks is not None or base_margin is not None:
            raise CompositionError(
                f"{chosen.name} trains the model again on rows of their own: leave se, blocks and base_margin out"
            )
        plain = innermost(chosen)
        passed: dict[str, Any] = {"train": train, "sample_weight": sample_weight, "groups": groups, "seed": seed}
        observed = score(model, X, y, plain, rows=rows, n_jobs=n_jobs, **passed)
        return refitted(chosen, Experiment.of(model, X, y, observed, params=params, engine=engine, **passed), observed)
    if "data-only" in chosen.needs:
        if rows != "auto" or train is not None:
            raise RowsError(f"{chosen.name} looks at no model, so there are no `rows` or `train` to tell apart")
        if test is not None:
            raise CompositionError(f"{chosen.name} looks at no model, so se={se!r} cannot test it")
        if groups is not None:
            raise CompositionError(f"{chosen.name} does not add up over the columns of a group; score them one by one")
        alone = None if is_wrapper(model) else model  # a wrapper's own columns are those of X
        trees, data = prepare_data(alone, X, y, chosen, sample_weight, seed, n_jobs, engine)
        return _score(chosen, trees, data, Grouping.of(groups, data.feature_names), Notes(), seed)
    if model is None:
        raise UnsupportedModelError(
            f"{chosen.name} scores a model: pass the fitted model; only scorers of data need none"
        )
    if "rows" not in chosen.needs and train is None and _needs_no_rows(chosen, model):
        X = None
    members = unwrap(model, X, y, train)
    if len(members) > 1:
        require_one_scale(members, [extract(member.model) for member in members])
    if test is not None and not is_one(members):
        raise CompositionError(_UNTESTED.format(members[0].path[0]))
    scores = []
    for member in members:
        ensemble, given, caught = prepare(
            *(member.model, member.X, member.y, [chosen], rows, member.train, sample_weight, seed, n_jobs),
            *(base_margin, blocks, member.notes),
        )
        grouping = member.grouping(groups, ensemble)
        found = _score(chosen, ensemble, given, grouping, caught, seed)
        scores.append(found if test is None else _tested(found, chosen, given, grouping, test, caught))
    return combined(members, scores)


def audit(
    model: Any,
    X: Any,
    y: Any,
    scorers: list[str | Scorer] | None = None,
    *,
    rows: str = "auto",
    train: tuple[Any, ...] | None = None,
    sample_weight: Any = None,
    base_margin: Any = None,
    groups: Mapping[str, Any] | None = None,
    blocks: Any = None,
    se: str | None = "auto",
    alpha: float = 0.05,
    error: str = "fwer",
    n_permutations: int = 200,
    budget: float | None = None,
    adaptive: bool = True,
    params: Any = None,
    seed: int | None = None,
    n_jobs: int | None = None,
) -> Audit:
    """Set the importance a model reports beside debiased scores, and tell which of them are more than chance.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, base_margin, groups, blocks, params, seed, n_jobs
        As for :func:`score`.
    scorers : list of str or Scorer, optional
        What to set beside the reported importance. ``mdi_oob`` is always there, since the share is made of it; by
        default ``oob_loss`` as well, where it is defined.
    se : {"auto", "permutation", "conservative", "naive", None}
        How ``mdi_oob`` is tested. "permutation": the response is permuted, the trees stay as they are. "conservative":
        a normal test with sqrt(2) times the naive standard error, for out-of-bag rows. "naive": a normal test, right
        for held-out rows. "auto": "permutation" for out-of-bag rows and up to 2,000 held-out ones, else "naive". None:
        no test, every verdict is "untested".
    alpha : float
        Error rate of the verdicts.
    error : {"fwer", "fdr", "fdr_by"}
        "fwer": the chance to call any noise informative (step-down max-z, or Holm). "fdr": the expected share of noise
        among what is called informative (Benjamini-Hochberg; "fdr_by" under any dependence); needs many permutations.
    n_permutations : int
        At most so many. On out-of-bag rows 200 take about half the time in which the forest was fitted.
    budget : float, optional
        Seconds the permutations may take; no limit by default. What was drawn until then counts.
    adaptive : bool
        Whether drawing stops once every verdict is settled, but for a risk of 1e-3 a feature that further draws would
        have changed it. P-values rest on what was drawn until then.

    Returns
    -------
    Audit
        ``audit.table`` has the figures, ``audit.summary()`` the sentences.

    Raises
    ------
    DebiasError
        As for :func:`score`.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> audit = debias.audit(forest, X, y, seed=0)
    >>> list(audit.table.columns)
    ['reported', 'share', 'mdi_oob', 'oob_loss', 'standard_error', 'z', 'p_value', 'p_adjusted', 'verdict']
    >>> audit.table.loc["bmi", "verdict"]
    'informative'
    """
    chosen = [_scorer(each, {}) for each in (["mdi_oob", "oob_loss"] if scorers is None else scorers)]
    if "mdi_oob" not in [each.name for each in chosen]:
        chosen.insert(0, _scorer("mdi_oob", {}))
    names = [each.name for each in chosen]
    if len(set(names)) < len(names):
        raise RowsError(f"a scorer is asked for twice: {', '.join(names)}")
    test = None if se is None else Procedure(se, alpha, error, n_permutations, budget, adaptive)
    model, params = _with_params(model, params)
    wrapping = [each for each in chosen if "refit" in each.needs]
    if params is not None and not wrapping:
        raise CompositionError("none of the scorers trains anything again: params are of meta-methods")
    chosen = [each for each in chosen if each not in wrapping]
    members = unwrap(model, X, y, train)
    for each in chosen:
        if "data-only" in each.needs and any(member.columns is not None for member in members):
            raise CompositionError(
                f"{each.name} scores data, and this {members[0].path[0]} shows its trees other columns than X has: "
                f"score X by itself, debias.score(None, X, y, {each.name!r})"
            )
    if len(members) > 1:
        require_one_scale(members, [extract(member.model) for member in members])
    if test is not None and not is_one(members):
        if se != "auto":
            raise CompositionError(_UNTESTED.format(members[0].path[0]))
        test = None
    scores: dict[str, list[Scores]] = {}
    reported, kind = None, "not reported"
    fingerprints, n_values = Fingerprints(), None
    for member in members:
        ensemble, given, caught = prepare(
            *(member.model, member.X, member.y, chosen, rows, member.train, sample_weight, seed, n_jobs),
            *(base_margin, blocks, member.notes),
        )
        assert given is not None
        if scorers is None and not (ensemble.averaged or given.can_run_loss):
            del chosen[1:]  # no loss to run
        grouping = member.grouping(groups, ensemble)
        matrix = given.table.matrix(ensemble)
        fingerprints.add(ensemble, given, matrix)
        n_values = distinct_values(matrix, grouping) if n_values is None else n_values
        del matrix
        if test is not None and blocks is None and member.columns is None:  # transformers may make repeats of their own
            warn_of_repeats(given.table, caught)
        for each in chosen:
            found = _score(each, ensemble, given, grouping, caught, seed)
            if test is not None and given.kind != "train" and each.name == "mdi_oob":
                found = _tested(found, each, given, grouping, test, caught)
            scores.setdefault(each.name, []).append(found)
        if len(members) == 1:
            importance = plugin_manager().hook.debias_reported_importance(model=member.model)
            if importance is not None:
                reported, kind = grouping.sum(np.asarray(importance[0], dtype=np.float64)), importance[1]
    every = {name: combined(members, each) for name, each in scores.items()}
    passed: dict[str, Any] = {"train": train, "sample_weight": sample_weight, "groups": groups, "seed": seed}
    for each in wrapping:
        every[each.name] = score(model, X, y, each, rows=rows, n_jobs=n_jobs, params=params, **passed)
    return Audit.of(reported, kind, every, n_values, fingerprints.to_dict())


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

    from debias.contributions import contributions as contributions_of

    chosen = _scorer(scorer, {})
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
        phi = contributions_of(given.paths, given, _node_weight(chosen, ensemble, given))
        part = member.weight * grouping.sum_columns(phi)
        total = part if total is None else total + part
    index = X.index if isinstance(X, pd.DataFrame) else None
    return pd.DataFrame(total, index=index, columns=list(grouping.names))


def plugins() -> pd.DataFrame:
    """List what is installed.

    Returns
    -------
    DataFrame
        One row a scorer, meta-method or adapter: ``name``, ``kind``, ``unit``, ``plugin``, ``distribution``,
        ``version``.

    Examples
    --------
    >>> import debias
    >>> "mdi_oob" in set(debias.plugins()["name"])
    True
    """
    import pandas as pd

    manager = plugin_manager()
    distribution = _distributions()
    listed = [
        (impl.plugin_name, "adapter", "", impl.plugin_name, *distribution.get(impl.plugin_name, ("", "")))
        for impl in manager.hook.debias_extract.get_hookimpls()
    ]
    for impl in manager.hook.debias_scorers.get_hookimpls():
        where = distribution.get(impl.plugin_name, ("", ""))
        offered = cast("Sequence[Scorer]", impl.function())
        listed += [(each.name, "scorer", each.unit, impl.plugin_name, *where) for each in offered]
    for impl in manager.hook.debias_meta_methods.get_hookimpls():
        where = distribution.get(impl.plugin_name, ("", ""))
        wrappers = cast("Sequence[MetaMethod]", impl.function())
        listed += [(each.name, "meta-method", "", impl.plugin_name, *where) for each in wrappers]
    columns = ["name", "kind", "unit", "plugin", "distribution", "version"]
    return pd.DataFrame(listed, columns=columns).sort_values(["kind", "name"], ignore_index=True)


def load_model(path: str | Path, *, trust: Sequence[str] = (), allow_pickle: bool = False, params: Any = None) -> Any:
    """Load a model from a file, running no code that is in it, and check that it holds trees.

    Parameters
    ----------
    path : str or Path
        A file of skops, XGBoost (JSON or UBJSON) or LightGBM (text), or an MLflow model directory with such a file.
    trust : sequence of str
        Full names of types a skops file may hold beside those models of trees are made of.
    allow_pickle : bool
        Whether pickles are loaded (also joblib's and cloudpickle's): they run code from the file.
    params : mapping or estimator, optional
        Hyper-parameters the file lost: XGBoost's keep none. Names and plain values; or an unfitted ``XGBRegressor``,
        ``XGBClassifier``, ..., which also brings an objective of its own, and comes back fitted. Meta-methods train
        with them, and ``missing`` counts in every score. How many rounds there are, the file says.

    Returns
    -------
    object
        The estimator, or a Booster of the library that wrote the file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    UnsupportedModelError, ExtractionError
        The file is of another format, damaged, of another version, or its library is not installed.
    UntrustedModelError
        It is a pickle, or holds a type that is not trusted.
    RowsError
        There is no such hyper-parameter, or the trees say that it was another.

    Notes
    -----
    The readers of the libraries are native code: a file crafted to crash them takes the process down. The command line
    loads every file in a process of its own first (``debias.model_check.check``).
    """
    from debias.model_files import load

    return load(Path(path), tuple(trust), allow_pickle, params)


_UNTESTED = (
    "the scores of a {} combine those of several models, whose common standard error is not known: leave se out, or "
    "test its members one by one"
)


def _with_params(model: Any, params: Any) -> tuple[Any, Mapping[str, Any] | None]:
    """Return the model with the settings of an estimator, or a mapping of them to train it again with."""
    from collections.abc import Mapping

    if params is None or isinstance(params, Mapping):
        return model, params
    return restored(model, params), None


def _needs_no_rows(scorer: Scorer, model: Any) -> bool:
    """Whether a scorer that may do without rows does so for this model: what is not looked at need not be proven."""
    try:
        for member in unwrap(model):
            scorer.score(extract(member.model), None)
    except RowsError:
        return False
    return True


def _scorer(expression: str | Scorer, options: dict[str, Any]) -> Scorer:
    return scorer(expression, **options)


def _node_weight(scorer: Scorer, ensemble: TreeEnsemble, rows: Rows) -> NDArray[np.float64]:
    function = getattr(scorer, "node_weight", None)
    weight: NDArray[np.float64] | None = None if function is None else function(ensemble, rows)
    if weight is None:
        raise CompositionError(
            f"{scorer.name} has no contributions of rows, and so no standard errors: it is no weighted sum of centred "
            "covariances. mdi_oob is, also with shrinkage= or, of a model that stores in-bag counts, weights='in_bag'"
        )
    return weight


def _tested(
    scores: Scores, scorer: Scorer, rows: Rows | None, grouping: Grouping, test: Procedure, notes: Notes
) -> Scores:
    if rows is None:
        raise CompositionError(f"{scorer.name} looks at no rows, so it cannot be tested")
    return significance(scores, rows, _node_weight(scorer, rows.ensemble, rows), grouping, test, notes)


def _score(
    scorer: Scorer,
    ensemble: TreeEnsemble | None,
    rows: Rows | Data | None,
    grouping: Grouping,
    notes: Notes,
    seed: int | None,
) -> Scores:
    from debias import __version__

    data = rows.data if isinstance(rows, Rows) and "data-only" in scorer.needs else rows
    values, found = scorer.score(None if isinstance(data, Data) else ensemble, data)
    details, fields, warned = decided(found)
    for text in warned:
        notes.warn(text)
    proven = rows if isinstance(rows, Rows) and "rows" in scorer.needs else None
    return Scores(
        values=grouping.sum(values),
        feature_names=grouping.names,
        scorer=scorer.name,
        unit=scorer.unit,
        rows="data" if isinstance(data, Data) else None if proven is None else proven.kind,
        n_rows=data.n_rows if isinstance(data, Data) else None if proven is None else proven.n_rows,
        provenance={} if proven is None else proven.provenance.to_dict(),
        details=details,
        warnings=tuple(notes.texts),
        settings={
            "model": None if ensemble is None else ensemble.source,
            "library_version": None if ensemble is None else ensemble.version,
            "n_trees": None if ensemble is None else ensemble.n_trees,
            "debias_version": __version__,
            "seed": _whole(seed),
        },
        **fields,
    )


def _whole(seed: Any) -> int | None:
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise RowsError(f"seed={seed!r} is no seed: pass a whole number, 0 or more")
    return int(seed)


def _distributions() -> dict[str, tuple[str, str]]:
    from importlib.metadata import entry_points

    return {
        point.name: (point.dist.name, point.dist.version)
        for point in entry_points(group="debias")
        if point.dist is not None
    }
