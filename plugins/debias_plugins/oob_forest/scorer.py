"""A scorer of data: the importance of an OOBForest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import RowsError
from debias.plugin import CompositionError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@debias.plugin.data_scorer_plugin("oob_forest", unit="out-of-bag decrease in impurity a tree")
def oob_forest(
    data: debias.plugin.Data,
    *,
    n_estimators: int = 200,
    max_features: str | int | float | None = "auto",
    max_depth: int | None = None,
    min_samples_leaf: int = 1,
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Fit an OOBForest to X and y, and return its importances (Deng, Runger and Tuv 2011, section 3).

    Parameters
    ----------
    data : Data of (n_rows, n_features)
        The response has classes or numbers. Categorical features are numbered in their order, or alphabetically if they
        have no order.
    n_estimators : int
        The paper uses 200.
    max_features : {"auto", "sqrt", "log2"}, int, float or None
        Features drawn at each node. "auto": "sqrt" for classes, all features for numbers.
    max_depth, min_samples_leaf
        As for ``OOBForestClassifier``.

    Returns
    -------
    (array of shape (n_features,), dict)
        The importances, which are never negative; ``oob_score``, which is too high, because the same rows chose the
        features.

    Raises
    ------
    RowsError
        There are fewer than two rows, or y is constant.
    CompositionError
        An option is not valid for a forest, or rows are repeated.

    Examples
    --------
    >>> import debias
    >>> from debias_bench.simulate import deng_t1
    >>> drawn = deng_t1(300, seed=0)
    >>> debias.score(None, drawn.X, drawn.y, "oob_forest", random_state=0).to_frame()["oob_forest"].idxmax()[0]
    'X'
    """
    from debias_plugins.oob_forest.forests import OOBForestClassifier, OOBForestRegressor

    data.refuse_copies("oob_forest")
    X = np.column_stack([column.values for column in data.columns])
    y = data.labels[1] if data.is_classification else data.numbers
    if data.n_rows < 2 or (y == y[0]).all():
        raise RowsError("oob_forest needs two rows or more with different responses: y is constant")
    features = ("sqrt" if data.is_classification else 1.0) if max_features == "auto" else max_features
    kind = OOBForestClassifier if data.is_classification else OOBForestRegressor
    forest = kind(
        n_estimators,
        max_features=features,
        max_depth=max_depth,
        min_samples_leaf=min_samples_leaf,
        random_state=0 if data.seed is None else data.seed % 2**32,
        n_jobs=data.n_jobs,
    )
    try:
        forest.fit(X, y, data.weight)
    except ValueError as error:
        raise CompositionError(f"oob_forest: {error}") from error
    return forest.feature_importances_, {"oob_score": forest.oob_score_}


@debias.plugin.hookimpl
def debias_scorers() -> Sequence[debias.plugin.Scorer]:
    """Return the importance of an OOBForest."""
    return [oob_forest]
