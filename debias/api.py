"""What a user calls: score one way, audit many ways, list the plugins, load a model file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.audits import Audit
from debias.discovery import adapters_loaded, plugin_manager
from debias.errors import DebiasWarning, RowsError, UnsupportedModelError
from debias.provenance import resolve
from debias.response import encode
from debias.rows import Rows
from debias.scoring import Scorer, Scores, scorer
from debias.table import Table
from debias.verify import verify_prediction

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.ensemble import TreeEnsemble

_TRAIN_WARNING = (
    "these are scores on training rows: they are as biased towards features with many values as the reported "
    "importance, and no judgement should rest on them"
)


def score(
    model: Any,
    X: Any = None,
    y: Any = None,
    scorer: str | Scorer = "mdi_oob",
    *,
    rows: str = "auto",
    train: tuple[Any, Any] | None = None,
    sample_weight: Any = None,
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
    train : (X, y), optional
        Training rows beside held-out ones, for scorers that need in-bag sums the model does not store.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the evaluation rows.
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
    ensemble, given, caught = _prepare(model, X, y, [chosen], rows, train, sample_weight, seed, n_jobs)
    return _score(chosen, ensemble, given, caught, seed)


def audit(
    model: Any,
    X: Any,
    y: Any,
    scorers: list[str | Scorer] | None = None,
    *,
    rows: str = "auto",
    train: tuple[Any, Any] | None = None,
    sample_weight: Any = None,
    seed: int | None = None,
    n_jobs: int | None = None,
) -> Audit:
    """Set the importance a model reports beside debiased scores.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, seed, n_jobs
        As for :func:`score`.
    scorers : list of str or Scorer, optional
        What to set beside the reported importance. ``mdi_oob`` is always there, since the share is made of it; by
        default ``oob_loss`` as well.

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
    ensemble, given, caught = _prepare(model, X, y, chosen, rows, train, sample_weight, seed, n_jobs)
    assert given is not None
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
    origin = {id(plugin): (dist.project_name, dist.version) for plugin, dist in manager.list_plugin_distinfo()}
    distribution = _distributions()
    listed = []
    for impl in manager.hook.debias_extract.get_hookimpls():
        where = distribution.get(impl.plugin_name, origin.get(id(impl.plugin), ("", "")))
        listed.append((impl.plugin_name, "adapter", "", impl.plugin_name, *where))
    for impl in manager.hook.debias_scorers.get_hookimpls():
        where = distribution.get(impl.plugin_name, origin.get(id(impl.plugin), ("", "")))
        listed.extend((each.name, "scorer", each.unit, impl.plugin_name, *where) for each in impl.function())
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


def extract(model: Any) -> TreeEnsemble:
    """Return the trees of a fitted model in the common form.

    Parameters
    ----------
    model : estimator or Booster

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    UnsupportedModelError
        No adapter recognises the model, or it cannot be audited.
    """
    ensemble: TreeEnsemble | None = plugin_manager().hook.debias_extract(model=model)
    if ensemble is None:
        kind = type(model)
        loaded = ", ".join(adapters_loaded()) or "none; install debias itself (pip install -e . in a checkout)"
        raise UnsupportedModelError(
            f"no adapter recognises {kind.__module__}.{kind.__qualname__}. Supported are scikit-learn forests and trees, "
            f"XGBoost and LightGBM models. Adapters loaded: {loaded}."
        )
    return ensemble


def _scorer(expression: str | Scorer, options: dict[str, Any]) -> Scorer:
    return scorer(expression, **options)


def _prepare(
    model: Any,
    X: Any,
    y: Any,
    scorers: list[Scorer],
    rows: str,
    train: tuple[Any, Any] | None,
    sample_weight: Any,
    seed: int | None,
    n_jobs: int | None,
) -> tuple[TreeEnsemble, Rows | None, tuple[str, ...]]:
    """Extract, encode, verify, prove: all that comes before the first score."""
    ensemble = extract(model)
    if X is None:
        for each in scorers:
            if "rows" in each.needs:
                raise RowsError(f"{each.name} is evaluated on rows: pass X and y")
        return ensemble, None, ()
    table, ensemble = _aligned(X, ensemble)
    response = encode(y, ensemble, table.n_rows)
    if table.n_rows == 0:
        raise RowsError("X has no rows: there is nothing to evaluate on")
    weight = _weights(sample_weight, table.n_rows)
    verify_prediction(ensemble, model, table)
    kind, in_bag, provenance = resolve(ensemble, model, table, response, rows)
    notes = []
    if kind == "train":
        warnings.warn(_TRAIN_WARNING, DebiasWarning, stacklevel=3)
        notes.append(_TRAIN_WARNING)
    given = Rows(
        ensemble=ensemble,
        model=model,
        table=table,
        response=response,
        weight=weight,
        kind=kind,
        in_bag=in_bag,
        train=None if train is None else _training_rows(ensemble, model, train, n_jobs),
        provenance=provenance,
        seed=seed,
        n_jobs=1 if n_jobs is None else n_jobs,
        with_running_loss=not ensemble.averaged and any("running-loss" in each.needs for each in scorers),
    )
    return ensemble, given, tuple(notes)


def _aligned(X: Any, ensemble: TreeEnsemble) -> tuple[Table, TreeEnsemble]:
    """Return X in the model's column order, and the ensemble under X's names if the model saw none."""
    from dataclasses import fields, replace

    table = Table(X).aligned_to(ensemble)
    if ensemble.named or table.names is None:
        return table, ensemble
    changed = {each.name: getattr(ensemble, each.name) for each in fields(ensemble) if each.init}
    return table, replace(ensemble, **{**changed, "feature_names": table.names})


def _training_rows(ensemble: TreeEnsemble, model: Any, train: tuple[Any, Any], n_jobs: int | None) -> Rows:
    try:
        X, y = train
    except (TypeError, ValueError):
        raise RowsError("train must be a pair (X_train, y_train)") from None
    table = Table(X).aligned_to(ensemble)
    response = encode(y, ensemble, table.n_rows)
    if table.n_rows == 0:
        raise RowsError("train has no rows")
    kind, in_bag, provenance = resolve(ensemble, model, table, response, "train")
    return Rows(
        ensemble=ensemble,
        model=model,
        table=table,
        response=response,
        weight=np.ones(table.n_rows),
        kind=kind,
        in_bag=in_bag,
        provenance=provenance,
        n_jobs=1 if n_jobs is None else n_jobs,
    )


def _weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    if sample_weight is None:
        return np.ones(n_rows)
    weight = np.array(sample_weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise RowsError(f"sample_weight has shape {weight.shape} for {n_rows} rows")
    if not np.isfinite(weight).all() or (weight < 0).any() or weight.sum() == 0:
        raise RowsError("sample_weight must be finite, not negative, and not all zero")
    return weight


def _score(
    scorer: Scorer, ensemble: TreeEnsemble, rows: Rows | None, notes: tuple[str, ...], seed: int | None
) -> Scores:
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
        warnings=notes if looked else (),
        settings={
            "model": ensemble.source,
            "library_version": ensemble.version,
            "n_trees": ensemble.n_trees,
            "debias_version": __version__,
            "seed": seed,
        },
    )


def _distributions() -> dict[str, tuple[str, str]]:
    from importlib.metadata import entry_points

    return {
        point.name: (point.dist.name, point.dist.version)
        for point in entry_points(group="debias")
        if point.dist is not None
    }

