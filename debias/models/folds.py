"""The folds of a cross-validation: for each model, the rows it was trained on and the rows that were held out.

:func:`folds_of` is the entry point. Models come as a list or mapping, as the dict of scikit-learn's ``cross_validate``,
or in a container of a library, which its adapter reads (``debias_cross_validated``). Folds come with the container, or
from ``cv=``. Whether the models were really trained on these rows is proven later, in :mod:`debias.rows.fold_proof`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from debias.data.row_order import refuse_other_order
from debias.data.sources import is_source
from debias.data.spark_rows import is_spark
from debias.errors import DebiasError, PluginError, RowsError, UnsupportedModelError, with_article
from debias.hooks.cross_validated import CrossValidated
from debias.models.wrappers import unwrap
from debias.text import listed

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEVER = -1
"""Label of rows that are in no test fold, as in scikit-learn's PredefinedSplit. A missing label means the same."""
_OF_CROSS_VALIDATE = "dict of cross_validate"
_WITHOUT_WEIGHTS = (
    "these models were trained again without weights: if the cross-validation used weights, pass them as sample_weight="
)
_FIT_FAILED = "Its fit may have failed in cross_validate: cross_validate(..., error_score='raise') shows why"


@dataclass(frozen=True, eq=False)
class Fold:
    """A model of a cross-validation, and its rows.

    Parameters
    ----------
    name : str
        "fold 0", "fold 1", ... in the order of the models or, for labels that are whole numbers, by these; otherwise
        the name of the model or the label.
    model : object
        The fitted model.
    train : array of int64 of shape (n_train,), or None
        Positions in X of the rows that the model was trained on; None if they are not known.
    test : array of int64 of shape (n_test,)
        Positions in X of the rows that were held out.
    notes : tuple of str
        Warnings for readers of the scores of all folds.
    tuned : str, or None
        The one of `notes` that says what a library chose by the rows held out, such as the number of trees.
    proven_by : str, or None
        How the library itself proves that the model was not trained on the rows held out, if it does.
    others_are_train : bool
        Whether `train` are all rows that are not in `test`, because ``cv=`` has labels only.
    if_unfitted : str, or None
        Why the model may not be fitted, for the message about it.
    """

    name: str
    model: Any
    train: NDArray[np.int64] | None
    test: NDArray[np.int64]
    notes: tuple[str, ...] = ()
    tuned: str | None = None
    proven_by: str | None = None
    others_are_train: bool = False
    if_unfitted: str | None = None


def folds_of(results: Any, X: Any, y: Any, cv: Any = None, sample_weight: Any = None) -> list[Fold]:
    """Return the folds of a cross-validation.

    Parameters
    ----------
    results : dict, list, tuple or mapping of models, or container of a library
        The dict of ``cross_validate(..., return_estimator=True, return_indices=True)``; fitted models, in the order of
        the folds or by their names; or an object that an adapter reads, such as a CalibratedClassifierCV.
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
        All rows of the cross-validation, in the same order.
    y : array-like of shape (n_rows,)
    cv : int, splitter, iterable of (train, test), or array of shape (n_rows,); optional
        The folds, if `results` does not keep them. An array has the label of the fold in which each row was held out;
        rows with -1 or a missing label were in no test fold. Labels are matched to the names of a mapping of models,
        and in ascending order to a list.
    sample_weight : array-like of shape (n_rows,), optional
        The weights of models that are trained again, because `results` keeps none.

    Returns
    -------
    list of Fold

    Raises
    ------
    RowsError
        The folds are not known, do not fit X or the number of models, or are other folds on each call.
    UnsupportedModelError
        `results` holds no models of folds.
    ProvenanceError
        The library that keeps the folds cannot prove them for X and y.
    """
    if is_spark(X) or is_source(X, y):
        raise RowsError("the folds of a cross-validation are rows by position: pass X and y in memory")
    refuse_other_order(X, y=y, cv=cv)
    n_labels = len(y) if hasattr(y, "__len__") else _n_rows(y)
    if n_labels != _n_rows(X):
        raise RowsError(f"y has {n_labels} entries, but X has {_n_rows(X)} rows")
    found = _models_of(results)
    if found.unseen is not None:
        return _unseen_folds(found, X, y)
    splits = _splits(found, cv, X, y)
    models = _named_models(found, splits, X, y, sample_weight)
    tuned, notes = _tuned(found), _notes(found)
    if found.models is None and sample_weight is None:
        notes = (*notes, _WITHOUT_WEIGHTS)
    return [
        Fold(
            name,
            model,
            split.train,
            split.test,
            notes,
            tuned,
            others_are_train=split.others_are_train,
            if_unfitted=_if_unfitted(found),
        )
        for (name, model), split in zip(models.items(), splits, strict=True)
    ]


_WITHOUT_LABEL = (
    "If the training rows of this fold do not have these labels, divide the rows so that all folds have them, as "
    "StratifiedKFold does, and train the models again."
)


@contextmanager
def about_fold(name: str, if_unfitted: str | None = None) -> Iterator[None]:
    """Put the name of a fold before the message of every error of debias that is raised inside.

    Parameters
    ----------
    name, if_unfitted : str
        As in :class:`Fold`.
    """
    try:
        yield
    except DebiasError as error:
        is_unfitted = isinstance(error, UnsupportedModelError) and "not fitted" in str(error)  # as all adapters say
        why = f". {if_unfitted}" if is_unfitted and if_unfitted is not None else ""
        if isinstance(error, RowsError) and "labels that the model never saw" in str(error):
            why = f" {_WITHOUT_LABEL}"
        raise type(error)(f"{name}: {error}{why}") from error


def models_in(results: Any) -> list[Any]:
    """Return the models in a list or mapping, or in the dict of ``cross_validate``; anything else is one model."""
    if isinstance(results, Mapping):
        estimators = results.get("estimator")
        return list(estimators if isinstance(estimators, (list, tuple)) else results.values())
    return list(results) if isinstance(results, (list, tuple)) else [results]


class _Split(NamedTuple):
    """The rows of one fold, its label if it has one, and whether all rows without the label are training rows."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    label: str | None = None
    others_are_train: bool = False


def _models_of(results: Any) -> CrossValidated:
    from debias.hooks.registry import plugin_manager

    found = plugin_manager().hook.debias_cross_validated(results=results)
    if found is not None:
        if not isinstance(found, CrossValidated):
            raise PluginError(
                f"debias_cross_validated returned {with_article(type(found).__name__)} for {type(results)!r}, not a "
                "CrossValidated"
            )
        return found
    if isinstance(results, Mapping) and _is_of_cross_validate(results):
        return _of_cross_validate(results)
    if isinstance(results, (Mapping, list, tuple)):
        if not len(results):
            raise RowsError("there are no models of folds: the list is empty")
        return CrossValidated(type(results).__name__, _by_name(results) if isinstance(results, Mapping) else results)
    raise UnsupportedModelError(
        f"{with_article(type(results).__name__)} holds no models of folds. Pass the dict of cross_validate(..., "
        "return_estimator=True, return_indices=True), or the fitted models of the folds as a list, with cv=. For one "
        "model there is debias.audit"
    )


def _by_name(models: Mapping[Any, Any]) -> dict[str, Any]:
    repeated = _repeated(map(str, models))
    if repeated:
        raise RowsError(f"several models have the same name as text ({listed(repeated)}): give each another name")
    return {str(name): model for name, model in models.items()}


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _is_of_cross_validate(results: Mapping[Any, Any]) -> bool:
    return isinstance(results.get("estimator"), (list, tuple)) or "fit_time" in results


def _of_cross_validate(results: Mapping[Any, Any]) -> CrossValidated:
    if "estimator" not in results:
        raise RowsError(
            "these results of cross_validate have no models: call cross_validate(..., return_estimator=True, "
            "return_indices=True)"
        )
    indices = results.get("indices")
    kept = None if indices is None else list(zip(indices["train"], indices["test"], strict=True))
    return CrossValidated(_OF_CROSS_VALIDATE, list(results["estimator"]), kept)


def _if_unfitted(found: CrossValidated) -> str | None:
    return _FIT_FAILED if found.kind == _OF_CROSS_VALIDATE else None


def _named_models(found: CrossValidated, splits: list[_Split], X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
    """Return the model of each fold, by the name of the fold and in the order of `splits`."""
    labels = [str(k) if split.label is None else split.label for k, split in enumerate(splits)]
    names = [f"fold {label}" if label.isdecimal() else label for label in labels]
    repeated = _repeated(names)
    if repeated:
        raise RowsError(f"several labels in cv= give folds the same name ({listed(repeated)}): rename these labels")
    models = found.models
    if models is None:
        return {
            name: _trained(found, name, split, X, y, sample_weight) for name, split in zip(names, splits, strict=True)
        }
    if isinstance(models, Mapping) and all(split.label is not None for split in splits):
        _refuse_other_labels(models, labels)
        return {name: models[label] for name, label in zip(names, labels, strict=True)}
    if len(models) != len(splits):
        raise RowsError(
            f"there are {len(models)} models, but {len(splits)} folds: pass the cv= that the models were trained with"
        )
    if isinstance(models, Mapping):
        return dict(models)
    return dict(zip(names, models, strict=True))


def _trained(found: CrossValidated, name: str, split: _Split, X: Any, y: Any, sample_weight: Any) -> Any:
    assert found.fit is not None
    with about_fold(name):
        return found.fit(X, y, split.train, sample_weight)


def _refuse_other_labels(models: Mapping[str, Any], labels: list[str]) -> None:
    """Refuse names of models that are not the labels of the folds."""
    without_rows, without_model = sorted(models.keys() - {*labels}), sorted({*labels} - models.keys())
    if without_rows or without_model:
        faults = [f"models without held-out rows: {listed(without_rows)}"] if without_rows else []
        faults += [f"labels without a model: {listed(without_model)}"] if without_model else []
        raise RowsError(f"the names of the models and the labels in cv= are not the same; {'; '.join(faults)}")


def _unseen_folds(found: CrossValidated, X: Any, y: Any) -> list[Fold]:
    """Return the folds of a library that proves itself which rows each model has not seen."""
    assert found.unseen is not None
    assert found.models is not None
    n_rows, tuned, notes = _n_rows(X), _tuned(found), _notes(found)
    return [
        Fold(f"fold {k}", model, _others(test, n_rows), test, notes, tuned, found.proof)
        for k, (model, test) in enumerate(zip(found.models, found.unseen(X, y), strict=True))
    ]


def _notes(found: CrossValidated) -> tuple[str, ...]:
    return tuple(note for note in (_tuned(found), found.note) if note is not None)


def _tuned(found: CrossValidated) -> str | None:
    if found.tuned_on_test is None:
        return None
    return f"{found.tuned_on_test}, so scores on these rows are too high on average, also those of noise"


def _splits(found: CrossValidated, cv: Any, X: Any, y: Any) -> list[_Split]:
    if cv is None and found.cv is None:
        with_indices = (
            "call cross_validate with return_indices=True, or pass cv="
            if found.kind == _OF_CROSS_VALIDATE
            else "pass cv="
        )
        raise RowsError(
            f"the rows of each fold are not known: {with_indices}, with the splitter that the models were trained "
            "with, (train, test) positions of each fold, or the label of the fold in which each row was held out"
        )
    splits = _read(found.cv if cv is None else cv, found, X, y)
    if cv is None or not isinstance(found.cv, list):
        return splits
    kept = _read(found.cv, found, X, y)
    if splits[0].others_are_train and len(splits) == len(kept):  # the results know the training rows
        splits = [_Split(its.train, split.test, split.label) for split, its in zip(splits, kept, strict=True)]
    if not _same(splits, kept):
        raise RowsError("cv= has other folds than the results, which keep their own (indices): leave cv= out")
    return splits


def _read(cv: Any, found: CrossValidated, X: Any, y: Any) -> list[_Split]:
    """Return the folds from any form of ``cv=``, checked."""
    n_rows = _n_rows(X)
    if isinstance(cv, (bool, str, bytes)):
        raise RowsError(f"cv={cv!r} is no number of folds, splitter, list of (train, test) or array of labels")
    if isinstance(cv, (int, np.integer)):
        pairs = _divided(int(cv), found, X, y)
    elif hasattr(cv, "split"):
        pairs = _by_splitter(cv, X, y)
    elif isinstance(cv, Iterable):
        pairs = list(cv)
        if pairs and not isinstance(pairs[0], (tuple, list, np.ndarray)):
            return _by_label(pairs, n_rows)
    else:
        raise RowsError(
            f"cv= is {with_article(type(cv).__name__)}: pass a number of folds, a splitter, an iterable of (train, "
            "test) positions, or an array with the label of the fold of each row"
        )
    splits = [_checked(k, pair, n_rows) for k, pair in enumerate(pairs)]
    if not splits:
        raise RowsError(
            "cv= has no folds. An iterator such as cv.split(X, y) is empty when it has been used: make it new"
        )
    return splits


def _divided(n_folds: int, found: CrossValidated, X: Any, y: Any) -> Sequence[Any]:
    from debias.hooks.registry import plugin_manager

    is_classifier = found.is_classifier
    if is_classifier is None:
        assert found.models is not None
        named = found.models if isinstance(found.models, Mapping) else {"fold 0": found.models[0]}
        name, first = next(iter(named.items()))
        with about_fold(name, _if_unfitted(found)):
            is_classifier = unwrap(first)[0].ensemble.is_classifier
    pairs: Sequence[Any] | None = plugin_manager().hook.debias_splits(cv=n_folds, X=X, y=y, is_classifier=is_classifier)
    if pairs is None:
        raise RowsError(f"cv={n_folds} needs scikit-learn's adapter: pass (train, test) positions of each fold")
    return pairs


def _by_splitter(splitter: Any, X: Any, y: Any) -> list[Any]:
    """Return the folds of a splitter; refuse one that gives other folds each time."""
    kind, random_state = type(splitter).__name__, getattr(splitter, "random_state", 0)
    is_random = getattr(splitter, "shuffle", True) and not isinstance(random_state, (int, np.integer))
    try:
        pairs = None if is_random else [list(splitter.split(X, y)) for _ in range(2)]
    except (ValueError, TypeError) as error:
        by_groups = (
            ": pass cv=list(splitter.split(X, y, groups)), with the groups of the cross-validation"
            if "group" in str(error)
            else ""
        )
        raise RowsError(f"the {kind} cannot divide these rows ({error}){by_groups}") from error
    if pairs is None or not _same(*([_Split(*pair) for pair in each] for each in pairs)):
        raise RowsError(
            f"this {kind} gives other folds on each call (random_state={random_state!r}), so these would not be the "
            "folds of the models. Pass the (train, test) positions that the models were trained with as cv=, such as "
            "the indices of cross_validate(..., return_indices=True); or train them again with a whole number as "
            "random_state"
        )
    return pairs[0]


def _by_label(labels: list[Any], n_rows: int) -> list[_Split]:
    """Return the folds from the label of each row: the fold in which it was held out."""
    if len(labels) != n_rows:
        raise RowsError(f"cv= has {len(labels)} labels, but X has {n_rows} rows: pass one for each row")
    codes, names = _coded(labels)
    if len(names) < 2 and (codes != NEVER).all():
        raise RowsError("cv= has the same label for all rows, so no row is left that a model was trained on")
    folds = [np.flatnonzero(codes == code) for code in range(len(names))]
    return [_Split(_others(test, n_rows), test, name, True) for test, name in zip(folds, names, strict=True)]


def labels_of(labels: Any) -> list[str]:
    """Return the names of the folds in labels of rows, in ascending order."""
    return _coded(labels)[1]


def _coded(labels: Iterable[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the fold of each row as a number, -1 for none, and the names of the folds."""
    import pandas as pd

    column = pd.Series([label.as_py() if hasattr(label, "as_py") else label for label in labels])  # of pyarrow
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")  # whole numbers are floats if some are missing
    held_out = (column.notna() & (column != NEVER).fillna(False)).to_numpy(dtype=bool)
    found, names = pd.factorize(column[held_out], sort=True)
    codes = np.full(len(column), NEVER, dtype=np.int64)
    codes[held_out] = found
    return codes, [str(name) for name in names]


def _checked(k: int, pair: Any, n_rows: int) -> _Split:
    """Return one pair of (train, test) as positions."""
    if not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
        raise RowsError(f"fold {k} of cv= is not a pair of (train, test) positions")
    train, test = (_positions(k, name, rows, n_rows) for name, rows in zip(("train", "test"), pair, strict=True))
    both = np.intersect1d(train, test)
    if both.size:
        raise RowsError(
            f"{both.size} of the {test.size} test rows of fold {k} are training rows of the same fold (row {both[0]}, "
            "for example): rows that a model was trained on are not held out"
        )
    if np.unique(test).size < test.size:
        raise RowsError(f"the test rows of fold {k} contain a row more than once")
    return _Split(train, test)


def _positions(k: int, name: str, rows: Any, n_rows: int) -> NDArray[np.int64]:
    positions = np.asarray(rows)
    if positions.dtype.kind == "b" and positions.shape == (n_rows,):
        positions = np.flatnonzero(positions)
    if positions.ndim != 1 or positions.dtype.kind not in "iu" or not positions.size:
        empty = "empty" if not positions.size else f"{positions.dtype} of shape {positions.shape}"
        raise RowsError(f"the {name} rows of fold {k} are {empty}: pass positions of rows, whole numbers from 0")
    if positions.min() < 0 or positions.max() >= n_rows:
        wrong = positions[(positions < 0) | (positions >= n_rows)][0]
        raise RowsError(
            f"fold {k} has the {name} row {wrong}, but the rows of X are 0 to {n_rows - 1}: pass all rows of the "
            "cross-validation as X and y, in the same order"
        )
    return positions.astype(np.int64)


def _same(splits: list[_Split], others: list[_Split]) -> bool:
    return len(splits) == len(others) and all(
        np.array_equal(one.train, other.train) and np.array_equal(one.test, other.test)
        for one, other in zip(splits, others, strict=True)
    )


def _others(test: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Return the positions of all rows that are not among `test`."""
    is_other = np.ones(n_rows, dtype=bool)
    is_other[test] = False
    return np.flatnonzero(is_other)


def _n_rows(X: Any) -> int:
    if hasattr(X, "shape"):
        return int(X.shape[0])
    if hasattr(X, "__len__"):
        return len(X)
    raise RowsError(f"X is {with_article(type(X).__name__)}: folds are rows by position, so pass all rows at once")
