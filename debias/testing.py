"""Checks of the contract, for authors of plugins; each raises an AssertionError that says what is broken."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data import Data
from debias.errors import CompositionError
from debias.meta_methods import MetaMethod, given_by
from debias.scoring import Scorer, scorer_plugin

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check_meta_method(meta: MetaMethod, scorer: Scorer | None = None) -> None:
    """Check that a meta-method keeps its promises, on small data with categories and missing values.

    Parameters
    ----------
    meta : MetaMethod
        With so few replicates that it is quick.
    scorer : Scorer, optional
        A data-only scorer to wrap, where the meta-method does not wrap just any.

    Raises
    ------
    AssertionError
        What it makes is no scorer, changes the data or the global random state, is not repeatable, cannot be sent to
        another process, or returns figures of the wrong shape.

    Examples
    --------
    >>> import debias
    >>> from debias.testing import check_meta_method
    >>> check_meta_method(debias.meta_method("response_permutation", replicates=3))
    """
    import cloudpickle

    _require(isinstance(meta, MetaMethod), f"{meta!r} has no name, with_options and __call__")
    inner = distance_of_means if scorer is None else scorer
    wrapped = meta(inner)
    _require(isinstance(wrapped, Scorer), f"{meta.name} makes {wrapped!r}, which is no scorer")
    _require(inner.name in wrapped.name, f"the name {wrapped.name!r} does not tell what is inside, {inner.name!r}")
    _require("data-only" in wrapped.needs, f"{wrapped.name} wraps a scorer of data, and must need data only")
    try:
        meta.with_options(no_such_option_1=1)
    except CompositionError:
        pass
    else:
        raise AssertionError(f"{meta.name} takes an option it does not have")
    data = _data()
    before = pickle.dumps((data.X, data.y)), _global_state()
    values, details = wrapped.score(None, data)
    _check_figures(wrapped, values, details, data.n_features)
    after = pickle.dumps((data.X, data.y)), _global_state()
    _require(before[0] == after[0], f"{wrapped.name} changes the data")
    _require(before[1] == after[1], f"{wrapped.name} draws from the global random state")
    again, _ = pickle.loads(cloudpickle.dumps(wrapped)).score(None, data)
    _require(np.array_equal(values, again), f"{wrapped.name} gives other numbers for the same seed")


@scorer_plugin("distance_of_means", unit="standard deviations", needs={"data-only"})
def distance_of_means(data: Data) -> NDArray[np.float64]:
    """Between rows with a large and a small value, codes of categories being values; a scorer to try wrappers on."""
    y = data.numbers
    found = np.zeros(data.n_features)
    for k, column in enumerate(data.columns):
        high = column.values > np.nanmedian(column.values)
        if 0 < high.sum() < high.size:
            found[k] = abs(y[high].mean() - y[~high].mean()) / (y.std() or 1.0)
    return found


def _check_figures(wrapped: Scorer, values: Any, details: dict[str, Any], n_features: int) -> None:
    _require(np.shape(values) == (n_features,), f"{wrapped.name} returns shape {np.shape(values)}, not ({n_features},)")
    _require(bool(np.isfinite(values).all()), f"{wrapped.name} returns scores that are not finite")
    shapes = {"p-value": ("p_value",), "decision": ("selected",), "null": ("null", "unadjusted")}
    for given in given_by(wrapped):
        for name in shapes.get(given, ()):
            _require(name in details, f"{wrapped.name} says it gives {given!r}, but details have no {name!r}")
    for name in ("p_value", "selected", "unadjusted", "null"):
        if name in details:
            found = np.shape(details[name])
            _require(found[-1:] == (n_features,), f"details[{name!r}] of {wrapped.name} have shape {found}")
    if "p_value" in details:
        p = np.asarray(details["p_value"])
        _require(bool(((p > 0) & (p <= 1)).all()), f"p-values of {wrapped.name} are not above 0 and at most 1")


def _data() -> Data:
    import pandas as pd

    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    X = pd.DataFrame(
        {
            "informative": x,
            "missing": np.where(rng.random(80) < 0.3, np.nan, rng.normal(size=80)),
            "category": pd.Categorical(rng.choice(["a", "b", "c"], 80)),
            "constant": np.ones(80),
        }
    )
    return Data.of(X, x + rng.normal(size=80), seed=0)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _global_state() -> tuple[object, ...]:
    """Return NumPy's global random state: its words, and how many of them are used up."""
    _, words, position, *_ = np.random.get_state()  # noqa: NPY002 - what must not be used is looked at
    return tuple(np.asarray(words).tolist()), position
