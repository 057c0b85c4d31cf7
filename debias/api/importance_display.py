"""``debias.ImportanceDisplay``: the reported and the debiased importance as one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from debias.api.audit import audit as audit_model
from debias.errors import CompositionError
from debias.results.report import figures, importance
from debias.results.report.drawn import refuse_most
from debias.results.report.needs import require_matplotlib

if TYPE_CHECKING:
    from typing import Self

    from debias.results.audit import Audit

Kind = Literal["bar", "interval", "slope"]
KINDS: tuple[str, ...] = get_args(Kind)


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
    >>> display = debias.ImportanceDisplay.from_estimator(forest, X, y, kind="bar", seed=0)
    >>> display.ax_.get_yticklabels()[0].get_text()
    'bmi'
    """

    ax_: Any
    figure_: Any

    def __init__(self, audit: Audit) -> None:
        self.audit = audit

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, kind: Kind = "bar", max_features: int = 20, ax: Any = None, **settings: Any
    ) -> Self:
        """Audit a fitted model and draw the result.

        Parameters
        ----------
        model, X, y
            As for :func:`debias.audit`.
        kind, max_features, ax
            As for :meth:`plot`.
        **settings
            Further arguments of :func:`debias.audit`, for example ``seed=0`` or ``rows="held-out"``.

        Returns
        -------
        ImportanceDisplay

        Raises
        ------
        DebiasError
            As for :func:`debias.audit` and :meth:`plot`.
        """
        _refuse_kind(kind)
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
        kind : {"bar", "interval", "slope"}
            - "bar": the debiased share as a bar, and the reported share as a diamond.
            - "interval": the debiased share with its 95% interval (splits fixed), and the reported share.
            - "slope": a line from the reported share on the left to the debiased share on the right.
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
            There is no such kind, or the model reports no importance, which "slope" needs.
        ValueError
            `max_features` is less than 1.
        ImportError
            matplotlib is not installed (``pip install matplotlib``).
        """
        _refuse_kind(kind)
        if kind == "slope" and self.audit.reported is None:
            raise CompositionError("kind='slope' begins at the reported importance, and this model reports none")
        refuse_most(max_features, "max_features")
        require_matplotlib()
        draw = {
            "bar": importance.draw_bars,
            "interval": figures.draw_shares,
            "slope": importance.draw_slopes_of_shares,
        }[kind]
        self.ax_ = figures.on_axes(draw, self.audit, ax, max_features)
        self.figure_ = self.ax_.figure
        return self


def _refuse_kind(kind: str) -> None:
    if kind not in KINDS:
        raise CompositionError(f"kind={kind!r} is not one of {', '.join(map(repr, KINDS))}")
