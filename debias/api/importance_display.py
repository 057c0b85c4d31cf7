"""``debias.plot.ImportanceDisplay``: the reported and the debiased importance as one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from debias.api.audit import audit as audit_model
from debias.results.report.figures import refuse_kind

if TYPE_CHECKING:
    from typing import Self

    from debias.results.audit import Audit

Kind = Literal["bar", "interval", "slope", "evidence"]
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
            - "bar": the debiased share as a bar, and the reported share as a diamond.
            - "interval": the debiased share with its 95% interval (splits fixed), and the reported share.
            - "slope": a line from the reported share on the left to the debiased share on the right.
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
