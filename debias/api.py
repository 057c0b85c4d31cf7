"""What a user calls: score one way, audit many ways, list the plugins, load a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from debias.audits import Audit
from debias.discovery import plugin_manager
from debias.errors import RowsError, UnsupportedModelError
from debias.preparation import extract, prepare
from debias.scoring import Scorer, Scores, scorer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from debias.ensemble import TreeEnsemble
    from debias.notes import Notes
    from debias.rows import Rows


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
    seed: int | None = None,
    n_jobs: int | None = None,
    **options: Any,
) -> Scores:
    """Score the features of a fitted model with one scorer.

    Parameters
    ----------
    model : estimator or Booster
        A fitted scikit-learn forest or tree, or an XGBoost or LightGBM model. Never changed.
    X : array or data frame of shape (n_rows, n_features)
        Evaluation rows. None is allowed for scorers that look at none (``mdi``, ``gain``, ``cover``, ``split_count``).
    y : array-like of shape (n_rows,)
        Their response, as the model was trained on.
    scorer : str or Scorer
        A name, an expression such as ``"mdi_oob(shrinkage=100)"``, or a scorer. ``debias.plugins()`` lists them.
    rows : {"auto", "oob", "held-out", "train"}
        What the rows are. "oob": the training rows, in training order; each is used where it was out of a tree's bag,
        and that they are is proven. "held-out": rows the model has not seen. "train": training rows for what they are,
        biased. "auto": "oob" if proven, an error if they look like training rows all the same, else "held-out".
    train : (X, y) or (X, y, weight), optional
        Training rows beside held-out ones, for scorers that need in-bag sums the model does not store; `weight` is what
        the rows weighed in training (sample weight times class weight).
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the evaluation rows.
    base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Margin each row starts from, of boosted models that were trained so (XGBoost's ``base_margin``, LightGBM's
        ``init_score``); the model does not keep it.
    seed : int, optional
        For scorers that draw; it is recorded with the scores.
    n_jobs : int, optional
        Threads; 1 by default.
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
        No such scorer or option.

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
    if "rows" not in chosen.needs and train is None and _needs_no_rows(chosen, model):
        X = None
    ensemble, given, caught = prepare(model, X, y, [chosen], rows, train, sample_weight, seed, n_jobs, base_margin)
    return _score(chosen, ensemble, given, caught, seed)


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
    seed: int | None = None,
    n_jobs: int | None = None,
) -> Audit:
    """Set the importance a model reports beside debiased scores.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, base_margin, seed, n_jobs
        As for :func:`score`.
    scorers : list of str or Scorer, optional
        What to set beside the reported importance. ``mdi_oob`` is always there, since the share is made of it; by
        default ``oob_loss`` as well, where it is defined.

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
    >>> audit = debias.audit(forest, X, y)
    >>> list(audit.table.columns)
    ['reported', 'share', 'mdi_oob', 'oob_loss']
    """
    chosen = [_scorer(each, {}) for each in (["mdi_oob", "oob_loss"] if scorers is None else scorers)]
    if "mdi_oob" not in [each.name for each in chosen]:
        chosen.insert(0, _scorer("mdi_oob", {}))
    names = [each.name for each in chosen]
    if len(set(names)) < len(names):
        raise RowsError(f"a scorer is asked for twice: {', '.join(names)}")
    ensemble, given, caught = prepare(model, X, y, chosen, rows, train, sample_weight, seed, n_jobs, base_margin)
    assert given is not None
    if scorers is None and not (ensemble.averaged or given.can_run_loss):
        del chosen[1:]  # no loss to run
    found = plugin_manager().hook.debias_reported_importance(model=model)
    reported, kind = found if found is not None else (None, "not reported")
    return Audit.of(reported, kind, {each.name: _score(each, ensemble, given, caught, seed) for each in chosen})


def plugins() -> pd.DataFrame:
    """List what is installed.

    Returns
    -------
    DataFrame
        One row a scorer or adapter: ``name``, ``kind``, ``unit``, ``plugin``, ``distribution``, ``version``.

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
    columns = ["name", "kind", "unit", "plugin", "distribution", "version"]
    return pd.DataFrame(listed, columns=columns).sort_values(["kind", "name"], ignore_index=True)


def load_model(path: str | Path) -> Any:
    """Load a model from a file that cannot carry code: XGBoost JSON or UBJSON, LightGBM text.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    object
        A Booster of the library that wrote the file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    UnsupportedModelError
        The file is of another format, damaged, or its library is not installed.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    model = plugin_manager().hook.debias_load_model(path=path)
    if model is None:
        raise UnsupportedModelError(
            f"{path} is not a model file debias reads: XGBoost .json or .ubj (save_model), LightGBM .txt (save_model). "
            "Pickled models run code when loaded; load one yourself and use debias from Python."
        )
    return model


def _needs_no_rows(scorer: Scorer, model: Any) -> bool:
    """Whether a scorer that may do without rows does so for this model: what is not looked at need not be proven."""
    try:
        scorer.score(extract(model), None)
    except RowsError:
        return False
    return True


def _scorer(expression: str | Scorer, options: dict[str, Any]) -> Scorer:
    return scorer(expression, **options)


def _score(scorer: Scorer, ensemble: TreeEnsemble, rows: Rows | None, notes: Notes, seed: int | None) -> Scores:
    from debias import __version__

    values, details = scorer.score(ensemble, rows)
    looked = rows is not None and "rows" in scorer.needs
    return Scores(
        values=values,
        feature_names=ensemble.feature_names,
        scorer=scorer.name,
        unit=scorer.unit,
        rows=rows.kind if rows is not None and looked else None,
        n_rows=rows.n_rows if rows is not None and looked else None,
        provenance=rows.provenance.to_dict() if rows is not None and looked else {},
        details=details,
        warnings=tuple(notes.texts),
        settings={
            "model": ensemble.source,
            "library_version": ensemble.version,
            "n_trees": ensemble.n_trees,
            "debias_version": __version__,
            "seed": None if seed is None else int(seed),
        },
    )


def _distributions() -> dict[str, tuple[str, str]]:
    from importlib.metadata import entry_points

    return {
        point.name: (point.dist.name, point.dist.version)
        for point in entry_points(group="debias")
        if point.dist is not None
    }
