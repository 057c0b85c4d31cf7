"""The check of meta-methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.errors import CompositionError
from debias.hooks.contracts import MetaMethod, Scorer
from debias.hooks.scorers import scorer_plugin
from debias.testing.promises import check_call, require, small_data

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.dataset import Data


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
    require(
        isinstance(meta, MetaMethod),
        f"{meta!r} is no meta-method: it needs name, with_options and __call__. @debias.meta_method_plugin makes one "
        "of a function (inner, problem)",
    )
    inner = distance_of_means if scorer is None else scorer
    wrapped = meta(inner)
    require(isinstance(wrapped, Scorer), f"{meta.name} makes {wrapped!r}, which is no scorer: return what wraps it")
    require(
        inner.name in wrapped.name,
        f"the name {wrapped.name!r} does not tell what is inside, {inner.name!r}: a reader of the result must see both",
    )
    require(
        "data-only" in wrapped.needs,
        f"{wrapped.name} wraps a scorer of data, and must need data only: its needs are {set(wrapped.needs)}",
    )
    try:
        meta.with_options(no_such_option_1=1)
    except CompositionError:
        pass
    else:
        raise AssertionError(
            f"{meta.name} takes an option it does not have, no_such_option_1: a misspelt option would be ignored in "
            "silence. Raise debias.CompositionError"
        )
    data = small_data()
    check_call(wrapped, lambda each: each.score(None, data), lambda: (data.X, data.y), data.n_features)


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
