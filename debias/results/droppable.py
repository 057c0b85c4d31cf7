"""Features that may be dropped together: the sets that were tried, what each costs, and which are certified."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.p_values import passed_on
from debias.results import console, drop_sentences, stored
from debias.results.base import ReportedResult
from debias.results.fields import SCHEMA_VERSION
from debias.results.performance import OF_QUERIES
from debias.results.vocabulary import DropDecision, DropStatus

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.gate_outcome import Gate
    from debias.results.performance import Performance


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Droppable(ReportedResult):
    """Sets of features that a model was refitted without, and the share of its gain that each refit loses.

    :func:`debias.droppable` makes it. The *gain* is the loss of the best constant minus the loss of the model, on rows
    that neither has seen. A refit that predicts better than the model has lost a share below 0.

    Parameters
    ----------
    feature_names : tuple of str
        All features, in the order of X: columns, or groups of columns.
    members : tuple of tuples of str
        The columns of each feature.
    order : tuple of str
        The features in the order in which they are dropped. The set of size k has the first k.
    sizes : array of int64 of shape (n_sets,)
        Numbers of features dropped, ascending.
    lost : array of shape (n_sets,)
        Estimated share of the gain that the refit loses.
    low, high : array of shape (n_sets,)
        Its bounds, each one-sided with error rate `alpha`; infinite if there is none.
    p_value : array of shape (n_sets,)
        One-sided p-value of each set by itself: small if the refit loses less than the tolerance.
    needed : array of shape (n_sets,)
        Rows (blocks, queries) with which a test at the tolerance decides with probability .8, if the estimate is right;
        infinite if the estimate is the tolerance. The level is ``alpha / n_sets`` to certify a set, which it has in any
        case, and alpha to show a loss above the tolerance.
    tolerance, alpha : float
    performance : Performance
        How well the model predicts the rows, with all features.
    n_rows : int
        Number of rows that the losses were compared on.
    n_independent : int
        Number of blocks of these rows, or of queries that have something to rank; else of rows.
    blocks : bool
        Whether rows were passed in blocks.
    n_train : int
        Number of training rows.
    path : {"frozen", "refitted", "given"}
        How the order was found: with models of the folds that have all features, with models that are trained again at
        each size, or not at all.
    folds : int
        Number of folds of the training rows.
    at_a_time : int
        Number of features that were dropped at a time.
    n_fits : int
        Number of models that were trained.
    provenance : dict
        What is known about the rows, see :class:`Scores`.
    settings : dict
        Kind of the model, version of its library and of debias, number of trees, seed.
    warnings : tuple of str
    model : object or None
        The refit that is certified, trained on all training rows without `columns`. None if no set is certified, and
        for a result that was read from JSON.

    Notes
    -----
    A certificate is about one refit. It does not say that a part of its set may be dropped, or that another model may
    do without these features.
    """

    WRITTEN_AS: ClassVar[str] = "features to drop, written by debias (Droppable.to_json)"

    feature_names: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]
    order: tuple[str, ...]
    sizes: NDArray[np.int64]
    lost: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p_value: NDArray[np.float64]
    needed: NDArray[np.float64]
    tolerance: float
    alpha: float
    performance: Performance
    n_rows: int
    n_independent: int
    blocks: bool
    n_train: int
    path: str
    folds: int
    at_a_time: int
    n_fits: int
    provenance: dict[str, Any]
    settings: dict[str, Any]
    warnings: tuple[str, ...] = ()
    model: Any = field(default=None, compare=False)

    def __repr__(self) -> str:
        return console.short_droppable(self)

    @property
    def status(self) -> list[DropStatus]:
        """One status for each set.

        - "certified": the refit loses less than the tolerance. All sets share `alpha`: each is tested at ``alpha /
          n_sets``, and what a certified set had passes on to the next larger one. So any set is certified by error with
          probability at most `alpha` (:func:`debias.p_values.passed_on`).
        - "do not drop together": the refit loses more than the tolerance, and so do those of all larger sets. Each is
          tested at `alpha`, the largest first, and the tests end at the first that does not show it.
        - "undecided": neither.
        """
        is_certified = passed_on(self.p_value, self.alpha)
        n_harmful = int(np.argmin([*(self.low > self.tolerance)[::-1], False]))
        found = [DropStatus.CERTIFIED if each else DropStatus.UNDECIDED for each in is_certified]
        return found[: len(found) - n_harmful] + [DropStatus.HARMFUL] * n_harmful

    @property
    def certified(self) -> int | None:
        """Position of the largest set that is certified; None if there is none."""
        return max((k for k, status in enumerate(self.status) if status is DropStatus.CERTIFIED), default=None)

    @property
    def size(self) -> int:
        """Number of features that may be dropped together; 0 if no set is certified."""
        return 0 if self.certified is None else int(self.sizes[self.certified])

    @property
    def features(self) -> list[str]:
        """The features that may be dropped together, in the order in which they are dropped."""
        return self.dropped(self.size)

    @property
    def columns(self) -> list[str]:
        """The columns of X of these features: ``X.drop(columns=result.columns)`` is what ``result.model`` takes."""
        of_feature = dict(zip(self.feature_names, self.members, strict=True))
        return [column for name in self.features for column in of_feature[name]]

    @property
    def decisions(self) -> dict[str, DropDecision]:
        """One decision for each feature, in the order of X: by the largest certified set, then by the first larger one.

        - "drop": the largest certified set has the feature. It holds for all features with this decision together.
        - "keep": the refit without the set loses more than the tolerance. So are called the features that would be
          dropped after the largest set, if its refit loses that much. Alone a feature may still be useless.
        - "not settled": the set is undecided, so these rows cannot tell. Keep it, or pass more rows.
        - "not tried": no set has the feature, and nothing is known about it.
        """
        decision = {
            DropStatus.CERTIFIED: DropDecision.DROP,
            DropStatus.UNDECIDED: DropDecision.OPEN,
            DropStatus.HARMFUL: DropDecision.KEEP,
        }
        # On a path, what all sets leave would be dropped after the largest one; a given set says nothing about others.
        is_harmful = self.path != "given" and self.status[-1] is DropStatus.HARMFUL
        beyond = DropDecision.KEEP if is_harmful else DropDecision.NOT_TRIED
        found = dict.fromkeys(self.feature_names, beyond)
        for begin, end, status in zip((0, *self.sizes[:-1]), self.sizes, self.status, strict=True):
            found |= dict.fromkeys(self.order[begin:end], decision[status])
        return found | dict.fromkeys(self.features, DropDecision.DROP)

    @property
    def units(self) -> str:
        """What is independent: "held-out rows", "blocks of held-out rows", or "held-out queries" of a ranker."""
        if self.blocks:
            return "blocks of held-out rows"
        return "held-out queries" if self.performance.metric == OF_QUERIES else "held-out rows"

    def dropped(self, size: int) -> list[str]:
        """Return the features of the set of a size."""
        return list(self.order[:size])

    def place(self, size: int) -> int:
        """Return the position of the set of a size among the sets that were tried."""
        return int(np.searchsorted(self.sizes, size))

    def metric_at(self, lost: Any) -> NDArray[np.float64]:
        """Return the metric of a model that loses a share of the gain; it is a linear function of the loss."""
        value, constant = self.performance.value, self.performance.constant
        assert value is not None
        assert constant is not None
        return np.asarray(value - np.asarray(lost, dtype=np.float64) * (value - constant))

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each set, and the number of features dropped as its index ``dropped``.

        Columns: ``kept``, the number of features kept; ``also_dropped``, the features that the smaller set before does
        not have; the metric of the refit, called by its name; ``lost``, the share of the gain that the refit loses,
        with ``lost_low`` and ``lost_high``, its one-sided bounds; ``p_value``, small if that is less than the
        tolerance; ``rows_needed``, for an undecided set whose lower bound is below the tolerance the number of rows (of
        blocks or queries) that would decide if the estimate is right, else NaN; and ``status``.
        """
        import pandas as pd

        undecided = np.array([status is DropStatus.UNDECIDED for status in self.status])
        known = undecided & (self.low <= self.tolerance) & np.isfinite(self.needed)
        added = zip((0, *self.sizes[:-1]), self.sizes, strict=True)
        return pd.DataFrame(
            {
                "kept": len(self.feature_names) - self.sizes,
                "also_dropped": [", ".join(self.order[begin:end]) for begin, end in added],
                str(self.performance.metric): self.metric_at(self.lost),
                "lost": self.lost,
                "lost_low": self.low,
                "lost_high": self.high,
                "p_value": self.p_value,
                "rows_needed": np.where(known, np.ceil(np.where(known, self.needed, 0.0)), np.nan),
                "status": [status.value for status in self.status],
            },
            index=pd.Index(self.sizes, name="dropped"),
        )

    def summary(self) -> list[str]:
        """Return the result in sentences: what may be dropped, what is undecided, and what must stay together.

        The last sentences say how the order was found, and what a certificate does not say.
        """
        return drop_sentences.summary(self)

    def check(self, policy: Any) -> Gate:
        """Check the rule ``may_drop`` of a policy: the features that it names must be a certified set.

        Parameters
        ----------
        policy : Policy, mapping of rules, or path of a TOML file
            Other rules are for an audit. The gate warns that they were not checked.

        Returns
        -------
        Gate
            The rule is not judged if the set was not tried; ``droppable(..., columns=[...])`` tries one.

        Raises
        ------
        PolicyError
            The policy is wrong, or it has no rule ``may_drop``.
        """
        from debias.results.gate_of_drops import check

        return check(self, policy)

    def plot(self, ax: Any = None) -> Any:
        """Draw the metric of each refit against the number of features that it keeps, with its bounds.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            New axes by default.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            matplotlib is not installed (``pip install matplotlib``).
        """
        from debias.results.report.drop_page import drops_on_axes

        return drops_on_axes(self, ax)

    def _page(self, title: str | None) -> str:
        from debias.results.report.drop_page import drop_page

        return drop_page(self, title)

    def _repr_html_(self) -> str:
        from debias.text import escaped

        return str(self.to_frame().map(lambda cell: escaped(cell) if isinstance(cell, str) else cell).to_html())

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version. The refitted model is not among them."""
        plain = {name: getattr(self, name) for name in stored.OF_DROPPABLE if name not in ("kind", "performance")}
        for name in stored.NUMBERS_OF_SETS:
            plain[name] = [value if np.isfinite(value) else None for value in plain[name].tolist()]
        return {
            "kind": stored.DROPPABLE,
            "schema_version": SCHEMA_VERSION,
            **plain,
            "members": [list(columns) for columns in self.members],
            "feature_names": list(self.feature_names),
            "order": list(self.order),
            "sizes": self.sizes.tolist(),
            "warnings": list(self.warnings),
            "performance": self.performance.to_dict(),
            "status": [status.value for status in self.status],
            "columns": self.columns,
            "decisions": {name: decision.value for name, decision in self.decisions.items()},
            "summary": self.summary(),
        }

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> Droppable:
        fields, derived = stored.droppable_fields(plain)
        result = cls(**fields)
        stored.check_read_droppable(result, derived)
        return result
