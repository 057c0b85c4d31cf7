"""``debias.plot.EffectsDisplay``: the direction of the effects of the most important features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.api.audit import audit as audit_model
from debias.api.partial_dependence import ColumnChanger, partial_dependence
from debias.data.user_rows import dataset
from debias.errors import RowsError
from debias.random_state import seed_of
from debias.results.report.figures import refuse_most, require_matplotlib
from debias.results.vocabulary import Verdict
from debias.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from debias.api.partial_dependence import Output
    from debias.results.audit import Audit
    from debias.results.partial_dependence import PartialDependence


OF_CURVES = ("level", "random_state", "n_jobs")
"""Arguments of an audit that partial dependence has too."""


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
    candidates = np.flatnonzero(informative if informative.any() else is_column)
    order = candidates[np.lexsort((-audit.tested_scores.values[candidates], -audit.share[candidates]))]
    return [names[k] for k in order[:most]]
