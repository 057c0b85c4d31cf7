"""``debias.plot.ContributionsDisplay``: what each row contributes to the scores of the most important features."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.api.audit import audit as audit_model
from debias.api.score import contributions
from debias.data.table import names_of_columns
from debias.data.user_columns import column_values, is_missing
from debias.errors import RowsError
from debias.results.report.figures import new_axes, on_axes, refuse_most, require_matplotlib
from debias.results.report.swarms import draw_row, draw_swarms
from debias.rows.request import Request
from debias.text import escaped

if TYPE_CHECKING:
    from typing import Self

    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.audit import Audit

OF_CONTRIBUTIONS = ("rows", "train", "sample_weight", "level", "n_jobs")
"""Arguments of an audit that contributions have too."""


class ContributionsDisplay:
    """A picture of the contributions of rows to the scores: of all rows, or of one row.

    A contribution is positive if the splits on a feature moved the prediction of the row towards its response, in trees
    that have not seen the row, compared with the other evaluation rows of each node. It is a part of the score, not of
    the prediction: it says on which rows the model gains from a feature and on which it loses.
    :class:`debias.plot.EffectsDisplay` has the direction of the effect on the prediction.

    Parameters
    ----------
    contributions : DataFrame of shape (n_rows, n_features)
        As :func:`debias.contributions` returns them.
    audit : Audit
        Audit of the same model and rows.
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
        The rows, for the values of the features. Features that are not columns of `X` are drawn without values.

    Attributes
    ----------
    contributions, audit, X
        What is drawn.
    ax_ : matplotlib Axes
        The axes, once :meth:`plot` was called.
    figure_ : matplotlib Figure
        The figure of the axes.

    Raises
    ------
    RowsError
        The contributions have other features than the audit, or another number of rows than `X`.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> display = debias.plot.ContributionsDisplay.from_estimator(forest, X, y, random_state=0)
    >>> display.plot(row=17).ax_.get_title(loc="left")
    'Row 17'
    """

    ax_: Any
    figure_: Any

    def __init__(self, contributions: pd.DataFrame, audit: Audit, X: Any) -> None:
        if tuple(map(str, contributions.columns)) != audit.tested_scores.feature_names:
            raise RowsError(
                "the contributions have other features than the audit: make both of one model, without groups"
            )
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if len(contributions) != n_rows:
            raise RowsError(f"the contributions have {len(contributions):,} rows, but X has {n_rows:,}")
        self.contributions, self.audit, self.X = contributions, audit, X

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        audit: Audit | None = None,
        row: Any = None,
        max_features: int = 10,
        ax: Any = None,
        **settings: Any,
    ) -> Self:
        """Compute the contributions of rows to the scores of a fitted model, and draw them.

        Parameters
        ----------
        model, X, y
            As for :func:`debias.audit`.
        audit : Audit, optional
            Audit of this model and these rows; made here by default.
        row, max_features, ax
            As for :meth:`plot`.
        **settings
            Further arguments of :func:`debias.audit`, without `groups`; also for the contributions, as far as
            :func:`debias.contributions` has them.

        Returns
        -------
        ContributionsDisplay

        Raises
        ------
        DebiasError
            As for :func:`debias.audit`, :func:`debias.contributions` and :meth:`plot`.
        """
        require_matplotlib()
        if audit is None:
            audit = audit_model(model, X, y, **settings)
        shared = {name: settings[name] for name in OF_CONTRIBUTIONS if name in settings}
        phi = contributions(model, X, y, audit.tested_scorer, **shared)
        request = Request.of(model, X, level=settings.get("level"))
        seen_by_trees = request.level_of_columns == "model" and len(request.members) == 1
        return cls(phi, audit, request.members[0].X if seen_by_trees else request.X).plot(
            ax, row=row, max_features=max_features
        )

    def plot(self, ax: Any = None, *, row: Any = None, max_features: int = 10) -> Self:
        """Draw the contributions, times the number of rows: their mean is the score.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            New axes by default.
        row : label, optional
            One row, by its label in the index of the contributions: that of X if it is a pandas frame, else its
            position. Its contributions are drawn as bars. By default each row is a point, coloured by the value of the
            feature.
        max_features : int
            Largest number of features: those reported highest (at most half) and the informative ones with the
            largest shares; for one row, those with the largest contributions.

        Returns
        -------
        ContributionsDisplay
            Itself, with ``ax_`` and ``figure_``.

        Raises
        ------
        RowsError
            No row has the label `row`, or several have.
        ValueError
            `max_features` is less than 1.
        ImportError
            matplotlib is not installed (``pip install matplotlib``).
        """
        require_matplotlib()
        refuse_most(max_features)
        phi = self.contributions.to_numpy() * len(self.contributions)
        if row is None:
            draw = partial(draw_swarms, phi, level=self._level)
        else:
            position = self._position(row)
            values = [self._value(k, position) for k in range(phi.shape[1])]
            draw = partial(draw_row, phi[position], values=values, label=escaped(str(row)))
        ax = new_axes(7.0, 1.3 + 0.44 * min(max_features, phi.shape[1])) if ax is None else ax
        self.ax_ = on_axes(
            lambda audit, axes, most: draw(audit=audit, axes=axes, most=most), self.audit, ax, max_features
        )
        self.figure_ = self.ax_.figure
        return self

    def _position(self, row: Any) -> int:
        """Return the position of the row with a label."""
        at = np.flatnonzero(self.contributions.index == row)
        if at.size != 1:
            how_many = "no row has" if not at.size else f"{at.size:,} rows have"
            raise RowsError(f"{how_many} the label {row!r} in the index of the contributions")
        return int(at[0])

    def _values(self, k: int) -> NDArray[Any] | None:
        """Return the values of a feature; None if it is not a column of X."""
        name, shape = self.audit.tested_scores.feature_names[k], tuple(getattr(self.X, "shape", ()))
        names = names_of_columns(self.X)
        if names is not None:
            stored = {re.sub(r"\s", "_", each): at for at, each in enumerate(names)}  # as LightGBM stores names
            position = (stored | {each: at for at, each in enumerate(names)}).get(name)
            return None if position is None else column_values(self.X, position)
        if shape != self.contributions.shape:
            return None
        return column_values(self.X, k)

    def _level(self, k: int) -> NDArray[np.float64] | None:
        """Return the place of each row's value among the values of a feature, from 0 to 1; None without an order."""
        values = self._values(k)
        if values is None or values.dtype.kind != "f":
            return None
        from scipy.stats import rankdata

        level = rankdata(values, nan_policy="omit") - 1
        return level / max(np.nanmax(level, initial=0.0), 1.0)

    def _value(self, k: int, position: int) -> str:
        """Return the value of a feature in one row as text."""
        values = self._values(k)
        if values is None:
            return ""
        value = values[position]
        if is_missing(values[position : position + 1])[0]:
            return "missing"
        return f"{value:.4g}" if isinstance(value, float) else escaped(str(value))[:16]
