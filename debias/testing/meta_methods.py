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
    """Check that a meta-method keeps its contract, on small data with categories and missing values.

    Parameters
    ----------
    meta : MetaMethod
        With few replicates, for a quick check.
    scorer : Scorer, optional
        The scorer of data to wrap, if the meta-method cannot wrap every scorer.

    Raises
    ------
    AssertionError
        Its result is not a scorer, changes the data or the global random state, is not reproducible, cannot be sent to
        another process, or returns values of the wrong shape.

    Examples
    --------
    >>> import debias
    >>> from debias.testing import check_meta_method
    >>> check_meta_method(debias.meta_method("response_permutation", replicates=3))
    """
    require(
        isinstance(meta, MetaMethod),
        f"{meta!r} is not a meta-method: it needs name, with_options and __call__. @debias.meta_method_plugin makes "
        "one from a function (inner, problem)",
    )
    inner = distance_of_means if scorer is None else scorer
    wrapped = meta(inner)
    require(
        isinstance(wrapped, Scorer),
        f"{meta.name} returns {wrapped!r}, which is not a scorer: return a scorer that wraps the inner one",
    )
    require(
        inner.name in wrapped.name,
        f"the name {wrapped.name!r} does not contain the name of the scorer inside, {inner.name!r}: a reader of the "
        "result must see both",
    )
    require(
        isinstance(wrapped, DataScorer),
        f"{wrapped.name} wraps a scorer of data, so it must be a debias.DataScorer, but it is a "
        f"{type(wrapped).__name__}",
    )
    try:
        meta.with_options(no_such_option_1=1)
    except CompositionError:
        pass
    else:
        raise AssertionError(
            f"{meta.name} accepts an unknown option, no_such_option_1, so it would ignore a misspelt option. Raise "
            "debias.CompositionError"
        )
    assert isinstance(wrapped, DataScorer)
    data = small_data()
    check_call(wrapped, lambda scorer: cast(DataScorer, scorer).score(data), lambda: (data.X, data.y), data.n_features)


@data_scorer_plugin("distance_of_means", unit="standard deviations")
def distance_of_means(data: Data) -> NDArray[np.float64]:
    """Return the distance of the mean response between rows with large and with small values of the feature.

    Categories count by their codes. This scorer is for trying out meta-methods.
    """
    y = data.numbers
    distance = np.zeros(data.n_features)
    for k, column in enumerate(data.columns):
        high = column.values > np.nanmedian(column.values)
        if 0 < high.sum() < high.size:
            distance[k] = abs(y[high].mean() - y[~high].mean()) / (y.std() or 1.0)
    return distance
