"""Debiased scores as the ``importance_getter`` of scikit-learn's SelectFromModel and RFE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import ProvenanceError, RowsError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DebiasedImportance:
    """Score a fitted estimator on given rows. scikit-learn's selectors call it with the estimator alone.

    RFE fits the estimator to fewer and fewer columns, and does not say to which. This class removes the columns with
    the smallest importances, as RFE does. The counts in the nodes must prove that the remaining columns are those of
    the fit; otherwise it raises an error. So RFE needs a forest with bootstrap. RFECV fits to other rows, so it is
    refused; use DebiasedSelector inside a search.

    Parameters
    ----------
    X, y
        Rows as for :func:`debias.score`. For RFE they are the training rows.
    scorer : str or Scorer
    **options
        Further arguments of :func:`debias.score`: ``rows``, ``train``, ``sample_weight``, ``seed``, ...

    Notes
    -----
    Scores below 0 are returned as 0, because SelectFromModel takes absolute values and RFE squares them.

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

    def __init__(self, X: Any, y: Any, scorer: Any = "mdi_oob", **options: Any) -> None:
        self.X, self.y, self.scorer, self.options = X, y, scorer, options
        self._columns = np.arange(_n_columns(X))
        self._importance: NDArray[np.float64] | None = None

    def __call__(self, estimator: Any) -> NDArray[np.float64]:
        """Return the debiased importance of each feature of the estimator, shape (n_features,).

        Raises
        ------
        DebiasError
            As for :func:`debias.score`. A ProvenanceError if the estimator was fitted to other rows or columns.
        """
        n_features = getattr(estimator, "n_features_in_", _n_columns(self.X))
        if n_features == _n_columns(self.X):
            self._columns = np.arange(n_features)
            scores = self._score(estimator, self.X, self.options)
        else:
            columns = self._left(n_features)
            options = {**self.options, "rows": "oob"}
            scores = self._score(estimator, self._part(columns), options)
            self._columns = columns
        self._importance = np.maximum(scores.values, 0.0)
        return self._importance

    def _score(self, estimator: Any, X: Any, options: dict[str, Any]) -> debias.Scores:
        try:
            return debias.score(estimator, X, self.y, self.scorer, **options)
        except ProvenanceError as error:
            raise ProvenanceError(
                f"{error} If this is inside RFECV, a search or a cross-validation: these fit the estimator to parts of "
                "the rows, and DebiasedImportance has all of them. Use debias.selection.DebiasedSelector there, which "
                "scores the rows that it is fitted to"
            ) from error

    def _left(self, n_features: int) -> NDArray[np.int64]:
        """Return the columns that remain when the columns with the smallest importances are removed."""
        if self._importance is None or n_features > self._columns.size:
            raise RowsError(
                f"the estimator was fitted to {n_features} columns, but X has {_n_columns(self.X)}. Which of them is "
                "known only within one RFE, from its first step on"
            )
        if self.options.get("rows", "auto") not in ("auto", "oob"):
            raise RowsError(
                "RFE does not say to which columns it fits the estimator, and only training rows can prove it: leave "
                "rows out, and pass the rows to which RFE is fitted"
            )
        order = np.argsort(self._importance**2, kind="stable")
        return np.sort(self._columns[order[self._columns.size - n_features :]])

    def _part(self, columns: NDArray[np.int64]) -> Any:
        """Return the columns as an array, because RFE fits the estimator to an array whatever the type of X."""
        if hasattr(self.X, "tocsc"):
            return self.X.tocsc()[:, columns]
        return np.asarray(self.X)[:, columns]


def _n_columns(X: Any) -> int:
    return int(X.shape[1] if hasattr(X, "shape") else np.shape(X)[1])
