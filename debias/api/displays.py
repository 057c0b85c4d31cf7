"""The displays of :mod:`debias.plot`: importances, the direction of effects, and contributions of rows as pictures.

They follow the conventions of scikit-learn's displays. Over 500 lines, because each is a public class with its
documentation.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from debias.api.audit import audit as audit_model
from debias.api.partial_dependence import ColumnChanger, partial_dependence
from debias.api.score import contributions
from debias.data.table import names_of_columns
from debias.data.user_columns import column_values, is_missing
from debias.data.user_rows import dataset
from debias.errors import RowsError
from debias.random_state import seed_of
from debias.results.report.figures import new_axes, on_axes, refuse_kind, refuse_most, require_matplotlib
from debias.results.report.swarms import draw_row, draw_swarms
from debias.results.vocabulary import Verdict
from debias.rows.request import Request
from debias.text import escaped, listed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    import pandas as pd
    from numpy.typing import NDArray

    from debias.api.partial_dependence import Output
    from debias.results.audit import Audit
    from debias.results.partial_dependence import PartialDependence


Kind = Literal["bar", "interval", "slope", "evidence"]
KINDS: tuple[str, ...] = get_args(Kind)
OF_CURVES = ("level", "random_state", "n_jobs")
"""Arguments of an audit that partial dependence has too,"""
OF_CONTRIBUTIONS = ("rows", "train", "sample_weight", "level", "n_jobs")
"""and those that contributions have too."""


class ImportanceDisplay:
    """A picture of the importances of an audit, by the conventions of scikit-learn's displays.

    Make one with :meth:`from_estimator` or :meth:`from_audit`.

    Parameters
    ----------
    audit : Audit

    Attributes
    ----------
    audit : Audit
        What is drawn.
    ax_ : matplotlib Axes
        The axes, once :meth:`plot` was called.
    figure_ : matplotlib Figure
        The figure of the axes.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> display = debias.plot.ImportanceDisplay.from_estimator(forest, X, y, kind="bar", random_state=0)
    >>> display.ax_.get_yticklabels()[0].get_text()
    'bmi'
    """

    ax_: Any
    figure_: Any

    def __init__(self, audit: Audit) -> None:
        self.audit = audit

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        kind: Kind = "bar",
        max_features: int = 20,
        ax: Any = None,
        **settings: Any,
    ) -> Self:
        """Audit a fitted model and draw the result.

        Parameters
        ----------
        model, X, y
            As for :func:`debias.audit`.
        kind, max_features, ax
            As for :meth:`plot`.
        **settings
            Further arguments of :func:`debias.audit`, for example ``random_state=0`` or ``rows="held-out"``.

        Returns
        -------
        ImportanceDisplay

        Raises
        ------
        DebiasError
            As for :func:`debias.audit` and :meth:`plot`.
        """
        refuse_kind(kind, KINDS)  # before the audit, which takes longer
        return cls.from_audit(audit_model(model, X, y, **settings), kind=kind, max_features=max_features, ax=ax)

    @classmethod
    def from_audit(cls, audit: Audit, *, kind: Kind = "bar", max_features: int = 20, ax: Any = None) -> Self:
        """Draw an audit.

        Parameters
        ----------
        audit : Audit
        kind, max_features, ax
            As for :meth:`plot`.

        Returns
        -------
        ImportanceDisplay
        """
        return cls(audit).plot(ax, kind=kind, max_features=max_features)

    def plot(self, ax: Any = None, *, kind: Kind = "bar", max_features: int = 20) -> Self:
        """Draw the shares. Colour, pattern and marker show the verdicts.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            New axes by default.
        kind : {"bar", "interval", "slope", "evidence"}
            - "bar": the debiased share as a bar. Diamonds show the reported share, and the same figure on these rows.
            - "interval": the debiased share with its 95% interval (splits fixed), and the same diamonds.
            - "slope": a line from the reported share on the left to the same figure on these rows on the right.
            - "evidence": the test statistic z, and the band in which noise would lie.
        max_features : int
            Largest number of features: the ones reported highest (at most half), and the informative ones with
            the largest debiased shares. The picture says how many are left out.

        Returns
        -------
        ImportanceDisplay
            Itself, with ``ax_`` and ``figure_``.

        Raises
        ------
        CompositionError
            There is no such kind; the model reports no importance, which "slope" needs; or the scores have no z, which
            "evidence" needs.
        ValueError
            `max_features` is less than 1.
        ImportError
            matplotlib is not installed (``pip install matplotlib``).
        """
        self.ax_ = self.audit.plot(kind, ax, max_features)
        self.figure_ = self.ax_.figure
        return self


class EffectsDisplay:
    """Small pictures of the partial dependence on the most important features, each with its verdict and share.

    An audit says which features matter, and these pictures say in which direction the model uses them.

    Parameters
    ----------
    partial_dependence : PartialDependence
    audit : Audit, optional
        Gives the verdicts and shares in the titles.

    Attributes
    ----------
    partial_dependence, audit
        What is drawn.
    axes_ : array of matplotlib Axes of shape (n_features,)
        The axes, once :meth:`plot` was called.
    figure_ : matplotlib Figure
        The figure of the axes.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> display = debias.plot.EffectsDisplay.from_estimator(forest, X, y, max_features=3, random_state=0)
    >>> [axes.get_title(loc="left") for axes in display.axes_]
    ['bmi', 's5', 'bp']
    """

    axes_: Any
    figure_: Any

    def __init__(self, partial_dependence: PartialDependence, audit: Audit | None = None) -> None:
        self.partial_dependence, self.audit = partial_dependence, audit

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        audit: Audit | None = None,
        features: str | Iterable[str] | None = None,
        max_features: int = 6,
        output: Output = "response",
        individual: bool = False,
        max_rows: int = 1000,
        ax: Any = None,
        **settings: Any,
    ) -> Self:
        """Audit a fitted model, compute the partial dependence on its most important features, and draw it.

        Parameters
        ----------
        model, X, y
            As for :func:`debias.audit`. `y` is not needed with an `audit`.
        audit : Audit, optional
            Audit of this model; made here by default.
        features : str or iterable of str, optional
            Features to draw. By default the informative ones with the largest shares; if none is informative, the
            features with the largest shares. Groups of columns are left out, because they have no one value.
        max_features : int
            Largest number of features that are chosen here.
        output, max_rows
            As for :func:`debias.partial_dependence`.
        individual : bool
            Whether to draw single rows too: thin lines, or for labels the quartiles of the rows as a grey bar.
        ax : array of matplotlib Axes, optional
            As for :meth:`plot`.
        **settings
            Further arguments of :func:`debias.audit`, for example ``rows="held-out"``. `level`, `random_state` and
            `n_jobs` are used for the partial dependence too.

        Returns
        -------
        EffectsDisplay

        Raises
        ------
        RowsError
            There is neither `y` nor `audit`, or a feature is not one column of `X`.
        DebiasError
            As for :func:`debias.audit` and :func:`debias.partial_dependence`.
        """
        require_matplotlib()
        if "random_state" in settings:  # one seed for the audit and the curves, also if a generator draws it
            settings["random_state"] = seed_of(settings["random_state"])
        if audit is None:
            if dataset(X, y).y is None:
                raise RowsError("pass y, or an audit of this model as audit=")
            audit = audit_model(model, X, y, **settings)
        shared: dict[str, Any] = {name: settings[name] for name in OF_CURVES if name in settings}
        if features is None:
            names = ColumnChanger(model, X, max_rows=1, level=shared.get("level")).names
            features = strongest(audit, names, max_features)
        curves = partial_dependence(
            model, X, features, output=output, individual=individual, max_rows=max_rows, **shared
        )
        return cls(curves, audit).plot(ax)

    def plot(self, ax: Any = None, *, max_features: int | None = None, columns: int = 3) -> Self:
        """Draw one small picture for each feature, all with the same vertical range.

        A tick at the bottom is a value that the feature was set to: a value or a quantile of the rows.

        Parameters
        ----------
        ax : array of matplotlib Axes, optional
            One for each feature that is drawn; new axes by default.
        max_features : int, optional
            Draw at most this many features, the first ones. All by default.
        columns : int
            Number of pictures beside one another.

        Returns
        -------
        EffectsDisplay
            Itself, with ``axes_`` and ``figure_``.

        Raises
        ------
        ValueError
            `ax` has another number of axes than there are features.
        ImportError
            matplotlib is not installed (``pip install matplotlib``).
        """
        curves = self.partial_dependence
        n_drawn = len(curves.curves) if max_features is None else max_features
        self.axes_ = curves.plot(ax=ax, max_features=n_drawn, audit=self.audit, columns=columns)
        self.figure_ = self.axes_[0].figure
        return self


def strongest(audit: Audit, columns: tuple[str, ...], most: int) -> list[str]:
    """Return the columns that are informative features with the largest shares; of all features if none is informative.

    Groups of columns are features, but not columns.
    """
    refuse_most(most)
    names, known = audit.tested_scores.feature_names, set(columns)
    is_column = np.array([name in known for name in names])
    if not is_column.any():
        raise RowsError(
            f"the features of the audit ({listed(names, 3)}) are not columns that can be changed: pass the model and "
            "the columns that the audit is of, and the same level="
        )
    informative = is_column & audit.which(Verdict.INFORMATIVE)
    candidates = informative if informative.any() else is_column
    return [names[k] for k in audit.strongest_first if candidates[k]][:most]


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
        request = Request.of(model, X, level=settings.get("level"), takes_lines=True)
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
