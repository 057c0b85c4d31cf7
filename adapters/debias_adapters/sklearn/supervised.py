"""Steps before a model that were fitted with y: which they are, and what they gave the model to be trained on.

scikit-learn has no sign of them that always holds: SelectKBest does not say that it needs y, and transformers of other
libraries may use y or ignore it. So a step that does not say it is tried: clones of it are fitted to a few rows.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from functools import partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.user_columns import copied
from debias.hooks.wrapping import Supervised
from debias.positions import evenly_spaced
from debias_adapters.sklearn.columns import rows_before, rows_of_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Rows = Callable[[], Any]

ROWS_TO_TRY = 100
"""Number of rows, evenly spread, that a clone of a step is fitted to."""
DEEPEST = 8
"""Numbers of a fitted step are looked for in attributes of attributes, down to this depth."""
SAME = 1e-9
"""Numbers of two fits that differ by less, relative to the largest, are the same: sums depend on the order of rows."""


def supervised_in(transformers: Any, X: Any, y: Any) -> Supervised | None:
    """Return what the steps of a pipeline have seen of y; None if none was fitted with it.

    Parameters
    ----------
    transformers : Pipeline
        The fitted steps before the model.
    X, y
        Rows as the pipeline sees them, to try steps on. They are not changed. None if there are no rows in memory:
        steps are then tried on random numbers.
    """
    have_rows = X is not None and y is not None and _n_rows(X) == _n_rows(y)
    steps = _single_steps(transformers, (lambda: X) if have_rows else None)
    found = [(name, step, rows) for name, step, rows in steps if _sees_y(step, rows, y)]
    if not found:
        return None
    crossed = [(name, step, rows) for name, step, rows in found if _is_cross_fitted(step, rows, y)]
    if not crossed:
        return Supervised(_in_words(found))
    return Supervised(
        _in_words(found),
        _in_words(crossed),
        fitted_on_these=partial(_any_is_the_same, crossed, y) if have_rows else None,
        in_training=partial(_in_training, transformers, [step for _, step, _ in crossed], X, y) if have_rows else None,
    )


def _n_rows(values: Any) -> int | None:
    shape = values.shape if hasattr(values, "shape") else (len(values),) if hasattr(values, "__len__") else ()
    return int(shape[0]) if shape else None


def _in_words(found: list[tuple[str, Any, Any]]) -> str:
    steps = [f"{name!r} ({type(step).__name__})" for name, step, _ in found]
    return f"the step {steps[0]}" if len(steps) == 1 else f"the steps {', '.join(steps[:-1])} and {steps[-1]}"


def _single_steps(transformer: Any, rows: Rows | None, name: str = "") -> Iterator[tuple[str, Any, Rows | None]]:
    """Yield the fitted steps inside pipelines, unions and column transformers: name, step, and rows as it sees them."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import FeatureUnion, Pipeline

    def inside(part_name: str) -> str:
        return f"{name} > {part_name}" if name else part_name

    if transformer is None or isinstance(transformer, str):
        return
    if isinstance(transformer, Pipeline):
        for place, (part_name, part) in enumerate(transformer.steps):
            seen = None if rows is None else partial(rows_before, transformer, place, rows)
            yield from _single_steps(part, seen, inside(part_name))
    elif isinstance(transformer, FeatureUnion):
        for part_name, part in transformer.transformer_list:
            yield from _single_steps(part, rows, inside(part_name))
    elif isinstance(transformer, ColumnTransformer):
        for part_name, part, _ in transformer.transformers_:
            made = transformer.output_indices_[part_name]
            if made.stop == made.start:  # it may not be fitted: no column was chosen for it
                continue
            seen = None if rows is None else partial(rows_of_part, transformer, part_name, rows)
            yield from _single_steps(part, seen, inside(part_name))
    else:
        yield name, transformer, rows


def _sees_y(step: Any, rows: Rows | None, y: Any) -> bool:
    """Whether a fitted step was fitted with y: it says so, it cannot be fitted without, or another y changes it."""
    inner = getattr(step, "estimator", None)
    if type(step).__name__ == "FrozenEstimator":  # its `fit` does nothing
        return _sees_y(inner, rows, y)
    if _requires_y(step):
        return True
    if not hasattr(step, "fit") or not _may_need_fit(step):
        return False
    X, response = _tried_rows(step, rows, y)
    without = _fitted(step, X)
    if without is None:
        return _requires_y(inner) or _asks_for_y(step) or _fitted(step, X, response) is not None
    once = _numbers_of(_fitted(step, X, response), X)
    if _all_equal(_numbers_of(without, X), once):
        return False
    again, permuted = (
        _numbers_of(_fitted(step, X, each), X) for each in (response, np.random.default_rng(0).permutation(response))
    )
    steady = {name for name in once if name in again and _equal(once[name], again[name])}
    return any(name not in permuted or not _equal(once[name], permuted[name]) for name in steady)


def _is_cross_fitted(step: Any, rows: Rows | None, y: Any) -> bool:
    """Whether a step that sees y gives rows other values while it is fitted to them than later on."""
    if type(step).__name__ == "FrozenEstimator" or not _has_fit_transform_of_its_own(step):
        return False
    X, response = _tried_rows(step, rows, y)
    fitted = _fitted(step, X, response)
    if fitted is None:
        return True
    try:
        with _quiet():
            while_fitted = _as_numbers(_unfitted(step).fit_transform(copied(X), response))
            later = _as_numbers(fitted.transform(copied(X)))
    except Exception:  # a step that cannot be tried may do anything
        return True
    return while_fitted is None or later is None or not _equal(while_fitted, later)


def _has_fit_transform_of_its_own(step: Any) -> bool:
    """Whether `fit_transform` is anything else than `fit`, then `transform`."""
    from sklearn.base import TransformerMixin

    owner = next((kind for kind in type(step).__mro__ if "fit_transform" in vars(kind)), None)
    return owner is not None and owner is not TransformerMixin


def _in_training(transformers: Any, crossed: list[Any], X: Any, y: Any) -> Any:
    """Return the columns that the model was trained on, if these are its training rows; None if a step refuses them.

    Steps that give other values while they are fitted are fitted again; the others are as the pipeline has them.
    """
    for _, step in transformers.steps:
        if step is None or isinstance(step, str):
            continue
        inside = [part for _, part, _ in _single_steps(step, None)]
        try:
            with _quiet():
                if any(part is each for part in inside for each in crossed):
                    X = _unfitted(step).fit_transform(copied(X), np.asarray(y))
                else:
                    X = step.transform(copied(X))
        except Exception:  # rows that cannot be fitted to are not the training rows
            return None
    return X


def _any_is_the_same(steps: list[tuple[str, Any, Rows | None]], y: Any) -> bool:
    """Whether a step, fitted again on these rows in any order, is the same: then it was fitted on these rows.

    Without one of the rows it must be another step. Otherwise the comparison tells nothing.
    """
    from sklearn.utils import _safe_indexing

    response = np.asarray(y)
    for _, step, rows in steps:
        assert rows is not None
        try:
            X, fewer = rows(), np.arange(len(response) - 1)
        except Exception:  # an earlier step does not take them in this container
            continue
        again = _fitted(step, X, response)
        less = _fitted(step, _safe_indexing(X, fewer), response[fewer])
        known, found, other = numbers(step), numbers(again), numbers(less)
        if known and _all_equal(known, found) and not _all_equal(known, other):
            return True
    return False


def _tried_rows(step: Any, rows: Rows | None, y: Any) -> tuple[Any, NDArray[Any]]:
    """Return a few rows to fit clones to; random numbers if there are none."""
    from sklearn.utils import _safe_indexing

    if rows is not None:
        some, response = evenly_spaced(len(y), ROWS_TO_TRY), np.asarray(y)
        with contextlib.suppress(Exception):  # an earlier step may not take them, or not in this container
            return _safe_indexing(rows(), some), response[some]
    rng, n_columns = np.random.default_rng(0), getattr(step, "n_features_in_", 1)
    return rng.uniform(size=(ROWS_TO_TRY, n_columns)), np.arange(ROWS_TO_TRY) % 2


def _fitted(step: Any, X: Any, y: NDArray[Any] | None = None) -> Any:
    """Return a clone that is fitted to rows; None if it cannot be."""
    try:
        with _quiet():
            return _unfitted(step).fit(copied(X), *(() if y is None else (y,)))
    except Exception:  # any error: a step without y, or with a few rows of it, may raise anything
        return None


def _unfitted(step: Any) -> Any:
    """Return an unfitted clone with the same seeds; what has none gets one, to leave numpy's own state as it is."""
    from sklearn.base import clone

    clean = clone(step)
    settings = clean.get_params(deep=True)
    for splitter in settings.values():  # a copy: `clone` copies settings that are no estimators
        if getattr(splitter, "random_state", 0) is None and not hasattr(splitter, "get_params"):
            splitter.random_state = 0
    unseeded = [
        name for name, value in settings.items() if name.split("__")[-1] == "random_state" and _is_default(value)
    ]
    return clean.set_params(**dict.fromkeys(unseeded, 0))


def _is_default(random_state: Any) -> bool:
    """Whether a random state is the default; it has a word of its own where it is deprecated."""
    return random_state is None or isinstance(random_state, str)


def _numbers_of(fitted: Any, X: Any) -> dict[str, NDArray[Any]]:
    """Return the numbers of a fitted step, with what it makes of rows."""
    found = numbers(fitted)
    try:
        with _quiet():
            output = _as_numbers(fitted.transform(copied(X)))
    except Exception:  # it cannot be fitted, or not transform these rows
        return found
    return found if output is None else {**found, "output": output}


def numbers(fitted: Any, depth: int = 0) -> dict[str, NDArray[Any]]:
    """Return the arrays of numbers of a fitted step, without its settings, by where they are."""
    if depth > DEEPEST or fitted is None or isinstance(fitted, (str, bytes)):
        return {}
    array = _as_numbers(fitted) if isinstance(fitted, (np.ndarray, np.number, float, int)) else None
    if array is not None:
        return {"": array}
    if hasattr(fitted, "to_numpy") and hasattr(fitted, "items"):  # a frame or a series of pandas
        array = _as_numbers(fitted)
        return {"": array} if array is not None else numbers(dict(fitted.items()), depth + 1)
    if isinstance(fitted, Mapping):
        parts = {str(name): value for name, value in fitted.items()}
    elif isinstance(fitted, (list, tuple)):
        parts = {str(k): value for k, value in enumerate(fitted)}
    elif hasattr(fitted, "get_params"):
        settings = fitted.get_params(deep=False)
        parts = {name: value for name, value in vars(fitted).items() if name not in settings}
    else:
        return {}
    return {
        f"{name}/{where}": array for name, value in parts.items() for where, array in numbers(value, depth + 1).items()
    }


def _as_numbers(values: Any) -> NDArray[Any] | None:
    """Return values as an array of numbers; None if they are no numbers."""
    array = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            return None
    return array if array.dtype.kind in "fiub" else None


def _equal(first: NDArray[Any], second: NDArray[Any]) -> bool:
    if first.shape != second.shape:
        return False
    largest = np.nanmax(np.abs(first.astype(np.float64)), initial=0.0)
    return bool(np.allclose(first, second, rtol=0.0, atol=SAME * largest, equal_nan=True))


def _all_equal(first: dict[str, NDArray[Any]], second: dict[str, NDArray[Any]]) -> bool:
    return first.keys() == second.keys() and all(_equal(array, second[name]) for name, array in first.items())


def _requires_y(step: Any) -> bool:
    """Whether an estimator says that it cannot be fitted without y."""
    tags = _tags(step)
    if isinstance(tags, Mapping):  # before scikit-learn 1.6
        return bool(tags.get("requires_y", False))
    return tags is not None and bool(tags.target_tags.required)


def _asks_for_y(step: Any) -> bool:
    """Whether `fit` has an argument y without a default."""
    y = signature(step.fit).parameters.get("y")
    return y is not None and y.default is Parameter.empty


def _may_need_fit(step: Any) -> bool:
    """Whether fitting may change what a step does."""
    tags = _tags(step)
    if isinstance(tags, Mapping):
        return not tags.get("stateless", False)
    return tags is None or bool(tags.requires_fit)


def _tags(step: Any) -> Any:
    """Return the tags of an estimator; None if it has none."""
    for method in ("__sklearn_tags__", "_get_tags"):
        if hasattr(step, method):
            try:
                return getattr(step, method)()
            except Exception:  # those of an estimator of another library, or for another version
                continue
    return None


def _quiet() -> warnings.catch_warnings[Any]:
    """Return a context without warnings: what steps say of a few rows is not about the user's rows."""
    return warnings.catch_warnings(action="ignore")
