"""The check of meta-methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from debias.errors import CompositionError
from debias.hooks.contracts import DataScorer, MetaMethod, Scorer
from debias.hooks.scorers import data_scorer_plugin
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
        isinstance(wrapped, DataScorer),
        f"{wrapped.name} wraps a scorer of data, so it must be a debias.DataScorer: it is a {type(wrapped).__name__}",
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
    assert isinstance(wrapped, DataScorer)
    data = small_data()
    check_call(wrapped, lambda scorer: cast(DataScorer, scorer).score(data), lambda: (data.X, data.y), data.n_features)


@data_scorer_plugin("distance_of_means", unit="standard deviations")
def distance_of_means(data: Data) -> NDArray[np.float64]:
    """Between rows with a large and a small value, codes of categories being values; a scorer to try wrappers on."""
    y = data.numbers
    found = np.zeros(data.n_features)
    for k, column in enumerate(data.columns):
        high = column.values > np.nanmedian(column.values)
        if 0 < high.sum() < high.size:
            found[k] = abs(y[high].mean() - y[~high].mean()) / (y.std() or 1.0)
    return found
