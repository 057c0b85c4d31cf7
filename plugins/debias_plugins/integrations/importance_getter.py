"""Debiased scores as the ``importance_getter`` of scikit-learn's SelectFromModel and RFE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import RowsError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DebiasedImportance:
    """Score a fitted estimator on given rows; called with the estimator alone, as scikit-learn's selectors do.

    RFE trains on ever fewer columns and does not say which: those of the smallest importances are taken off, as RFE
    does, and that the rest are the columns trained on is proven by the counts in the nodes, or an error. So RFE needs
    a forest with bootstrap, and RFECV, which trains on other rows, is refused; DebiasedSelector goes into any search.

    Parameters
    ----------
    X, y
        Rows as for :func:`debias.score`; for RFE the training rows.
    scorer : str or Scorer
    **given
        Further arguments of :func:`debias.score`: ``rows``, ``train``, ``sample_weight``, ``seed``, ...

    Notes
    -----
    Scores below 0 are returned as 0: SelectFromModel takes absolute values, and RFE squares.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from sklearn.feature_selection import RFE, SelectFromModel
    >>> from debias.selection import DebiasedImportance
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest, importance = RandomForestRegressor(random_state=0), DebiasedImportance(X, y)
    >>> [str(name) for name in SelectFromModel(forest, importance_getter=importance).fit(X, y).get_feature_names_out()]
    ['bmi', 's5']
    >>> rfe = RFE(forest, n_features_to_select=3, step=3, importance_getter=importance).fit(X, y)
    >>> [str(name) for name in rfe.get_feature_names_out()]
    ['bmi', 'bp', 's5']
    """

    def __init__(self, X: Any, y: Any, scorer: Any = "mdi_oob", **given: Any) -> None:
        self.X, self.y, self.scorer, self.given = X, y, scorer, given
        self._columns = np.arange(_n_columns(X))
        self._importance: NDArray[np.float64] | None = None

    def __call__(self, estimator: Any) -> NDArray[np.float64]:
        """Return the debiased importance of each feature of the estimator, shape (n_features,).

        Raises
        ------
        DebiasError
            As for :func:`debias.score`; a ProvenanceError where it was trained on other rows or columns.
        """
        n_features = getattr(estimator, "n_features_in_", _n_columns(self.X))
        if n_features == _n_columns(self.X):
            self._columns, given = np.arange(n_features), self.given
            scores = debias.score(estimator, self.X, self.y, self.scorer, **given)
        else:
            columns = self._left(n_features)
            scores = debias.score(estimator, self._part(columns), self.y, self.scorer, **{**self.given, "rows": "oob"})
            self._columns = columns
        self._importance = np.maximum(scores.values, 0.0)
        return self._importance

    def _left(self, n_features: int) -> NDArray[np.int64]:
        """Return the columns that are left when those of the smallest importances are taken off."""
        if self._importance is None or n_features > self._columns.size:
            raise RowsError(
                f"the estimator was trained on {n_features} columns, and X has {_n_columns(self.X)}: which of them is "
                "known only within one RFE, from its first step on"
            )
        if self.given.get("rows", "auto") not in ("auto", "oob"):
            raise RowsError(
                "RFE does not say which columns it trains on, and only training rows can prove it: leave rows out, and "
                "pass the rows RFE is fitted to"
            )
        order = np.argsort(self._importance**2, kind="stable")
        return np.sort(self._columns[order[self._columns.size - n_features :]])

    def _part(self, columns: NDArray[np.int64]) -> Any:
        """Return the columns as an array: RFE trains on such, whatever it was given."""
        if hasattr(self.X, "tocsc"):
            return self.X.tocsc()[:, columns]
        return np.asarray(self.X)[:, columns]


def _n_columns(X: Any) -> int:
    return int(X.shape[1] if hasattr(X, "shape") else np.shape(X)[1])
