"""What changed between two windows of a history."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.results import change_sentences, console, stored
from debias.results.any_look import AnyLook
from debias.results.base import ReportedResult
from debias.results.fields import SCHEMA_VERSION, Malformed, mapping, plain_numbers
from debias.results.loss_change import LossChange
from debias.results.pair_changes import PairChanges
from debias.results.performance import Y_IS_PREDICTED
from debias.results.policy import SMALLEST_SHIFT
from debias.results.provisional import Provisional
from debias.results.vocabulary import ChangeVerdict
from debias.results.windows import MeanOfPeriods, WindowOfPeriods
from debias.text import feature_index

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.gate_outcome import Gate


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Changes(ReportedResult):
    """What changed between two windows of a history.

    Parameters
    ----------
    series : str
        Label of the model.
    model : str
        Its kind.
    feature_names : tuple of str
    reference, recent : WindowOfPeriods
        The windows that were compared.
    alpha : float
        Family-wise error rate of each test, over all `looks` together.
    least : float
        A change counts if the slope of the response changed by more than this, see :meth:`to_frame`.
    looks : int or "any"
        Number of comparisons that share `alpha`. "any": `any_look` says of which p-values this holds.
    statistics : dict of str to array of shape (n_features,)
        The statistics of the comparison, see :meth:`to_frame`; none if nothing was compared.
    splits : tuple of str
        For each feature the split at which the two windows differ most.
    method : str
        Where the standard errors are from: "between periods", "between periods of one window" or "within periods".
    not_compared_because : str or None
        Why there is nothing to compare; None if there is.
    warnings : tuple of str
        What a reader must know about the comparison and about the rows.
    n_other_series : int
        Number of other models in the history, whose periods were not used.
    last_period : datetime or None
        Time of the last period of the model with responses, in a window or not; None if periods have numbers or labels.
    newer_waiting : int
        Number of periods of the model after all of these, which wait for their responses.
    last_waiting : datetime or None
        Time of the last of them; None if there is none, or without dates.
    reference_given : str
        How the reference was chosen: as it was passed, or what it is by default.
    repeated : tuple of float
        Share of the rows of each window that repeat another row of the same period; NaN if that was not counted.
    means : tuple of MeanOfPeriods
        The response, the prediction and the residual: their means in both windows. None if nothing was compared.
    longer : tuple of Changes
        The same comparison with longer recent windows, for features that the recent window is too short to judge.
    loss : LossChange or None
        The change of the loss of the model, divided into a base and what each feature costs more than before.
    no_loss_because : str or None
        Why the change of the loss is not known, or which periods it lacks; None if it is known, or nothing was
        compared.
    provisional : Provisional or None
        What the rows tell whose responses are not known yet; None if there are none in the recent window, or
        ``looks="any"``.
    any_look : AnyLook or None
        With ``looks="any"``, what was looked at.
    pairs : PairChanges or None
        Whether the response to what the model does with two features together changed, for the pairs in `interactions`
        of the history; None if there are none, or ``looks="any"``.

    Notes
    -----
    With ``looks="any"``, the p-values of the loss, of what each feature costs, and of the means hold at any look;
    docs/monitoring.md says what this rests on. Nothing else is judged then: the p-values of the response and of shifts
    are NaN, every `verdict` is "not compared" or "no splits", `loss` has no causes, and `provisional` is None.

    The test of change is about the response: whether it depends on the feature in another way than before. It is made
    so that other rows (drift in X) are no change. Those are in ``shift``. docs/methods.md has the formulas.
    """

    WRITTEN_AS: ClassVar[str] = "changes written by debias (Changes.to_json, debias monitor changes --json)"
    STATISTICS: ClassVar[tuple[str, ...]] = (
        "before",
        "after",
        "before_error",
        "after_error",
        "change",
        "response_change",
        "response_error",
        "rows_change",
        "slope_before",
        "slope_after",
        "p_value",
        "p_adjusted",
        "changed",
        "informative_before",
        "informative_after",
        "faded",
        "undetected",
        "comparable",
        "kept",
        "used",
        "unseen_before",
        "unseen_after",
        "shift",
        "shift_p_adjusted",
        "shifted",
        "left_before",
        "left_after",
    )

    series: str
    model: str
    feature_names: tuple[str, ...]
    reference: WindowOfPeriods
    recent: WindowOfPeriods
    alpha: float
    least: float
    looks: int | str = 1
    statistics: dict[str, NDArray[Any]] = field(default_factory=dict)
    splits: tuple[str, ...] = ()
    method: str = "none"
    not_compared_because: str | None = None
    warnings: tuple[str, ...] = ()
    n_other_series: int = 0
    last_period: datetime | None = None
    newer_waiting: int = 0
    last_waiting: datetime | None = None
    reference_given: str = ""
    repeated: tuple[float, float] = (nan, nan)
    means: tuple[MeanOfPeriods, ...] = ()
    longer: tuple[Changes, ...] = ()
    loss: LossChange | None = None
    no_loss_because: str | None = None
    provisional: Provisional | None = None
    any_look: AnyLook | None = None
    pairs: PairChanges | None = None

    def __repr__(self) -> str:
        return console.short_changes(self)

    @property
    def compared(self) -> bool:
        """Whether there were two windows to compare."""
        return bool(self.statistics)

    @property
    def response_predicted(self) -> str | None:
        """The warning that y seems to be what the model predicts, in a period of either window; None without one."""
        return next((warning for warning in self.warnings if warning.startswith(Y_IS_PREDICTED)), None)

    @property
    def tested(self) -> NDArray[np.bool_]:
        """For each feature whether its change was tested: trees split on it, and its standard error is known."""
        if not self.compared:
            return np.zeros(len(self.feature_names), dtype=bool)
        return np.isfinite(self.statistics["response_error"]) & np.isfinite(self.statistics["p_adjusted"])

    @property
    def undecided(self) -> NDArray[np.bool_]:
        """For each feature whether a longer recent window may tell what this one does not.

        It is not known whether an informative feature lost its effect, or the rows at the splits differ by an amount
        that may be chance. Rows that cannot be compared, because all values are others than before, are no reason.
        """
        statistics = self.statistics
        faded = (
            statistics["informative_before"] & ~statistics["changed"] & ~statistics["kept"] & statistics["comparable"]
        )
        size = statistics["shift"]
        shift = np.isnan(size) & statistics["used"] | (size >= SMALLEST_SHIFT) & ~statistics["shifted"]
        return np.asarray(faded | shift)

    @cached_property
    def verdict(self) -> list[ChangeVerdict]:
        """One verdict per feature.

        - "faded": it was distinguishable from noise, is not any more, and its response changed downwards;
        - "changed (weaker)", "changed (stronger)": the response changed, by the adjusted p-value;
        - "no longer distinguishable": it was, and no change was detected. This may be for lack of rows;
        - "no change detected";
        - "not compared": there were no two windows, or no test of this feature;
        - "no splits": no tree splits on it, so a history cannot tell whether the response to it changed.
        """
        if not self.compared:
            return [ChangeVerdict.NOT_COMPARED] * len(self.feature_names)
        statistics = self.statistics | {"tested": self.tested}
        return [
            ChangeVerdict.FADED
            if statistics["faded"][k]
            else (ChangeVerdict.WEAKER if statistics["response_change"][k] < 0 else ChangeVerdict.STRONGER)
            if statistics["changed"][k]
            else ChangeVerdict.UNUSED
            if not statistics["used"][k]
            else ChangeVerdict.NOT_COMPARED
            if not statistics["tested"][k]
            else ChangeVerdict.UNDETECTED
            if statistics["undetected"][k]
            else ChangeVerdict.UNCHANGED
            for k in range(len(self.feature_names))
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature``, sorted by evidence: the smallest p-value of the change first.

        Columns: ``before`` and ``after`` (scores in the two windows) with ``before_error`` and ``after_error``;
        ``change``, the sum of ``response_change`` (the response depends on the feature in another way) and
        ``rows_change`` (other rows); ``slope_before``, ``slope_after`` (1 if the response follows the splits on the
        feature as the model believes, 0 if it does not follow them; NaN if the model believes in no effect);
        ``response_error``, ``p_value``, ``p_adjusted`` (Holm) of ``response_change``; ``informative_before``,
        ``informative_after``; ``shift`` (effect size w of the difference between the rows of the windows at the splits
        on the feature), ``shift_p_adjusted``, ``shifted``; ``unseen_before``, ``unseen_after`` (share of the rows with
        a category that the model never saw); and ``verdict``. With ``looks="any"`` also ``cost``, ``cost_since``,
        ``since``, ``cost_p_adjusted`` and ``cost_verdict`` of the loss (:meth:`LossChange.to_frame`), which are judged
        then. If nothing was compared, only ``verdict``: :attr:`not_compared_because` says why.
        """
        import pandas as pd

        index = feature_index(self.feature_names)
        if not self.compared:
            return pd.DataFrame({"verdict": list(map(str, self.verdict))}, index=index)
        left_out = ("changed", "faded", "undetected", "comparable", "kept", "used", "left_before", "left_after")
        frame = pd.DataFrame(
            {name: self.statistics[name] for name in self.STATISTICS if name not in left_out}, index=index
        )
        if self.any_look is not None and self.loss is not None:
            costs = self.loss.to_frame()[["cost", "cost_since", "since", "p_adjusted", "verdict"]]
            frame = frame.join(costs.rename(columns={"p_adjusted": "cost_p_adjusted", "verdict": "cost_verdict"}))
        frame["verdict"] = list(map(str, self.verdict))
        size = -np.abs(self.statistics["response_change"])
        order = np.lexsort((-self.statistics["before"], size, self.statistics["p_value"]))  # NaN comes last
        return frame.iloc[order]

    def _reservations(self) -> dict[str, str]:
        reason = self.not_compared_because
        return {} if self.compared or reason is None else {"not_compared_because": reason}

    def summary(self) -> list[str]:
        """Return the result in sentences: what cannot be told, what changed, what shifted, and what was compared.

        Returns
        -------
        list of str
            At most five features are named in a sentence.
        """
        return change_sentences.summary(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version. Numbers that are not known are None."""
        return {
            "schema_version": SCHEMA_VERSION,
            "series": self.series,
            "model": self.model,
            "reference": asdict(self.reference),
            "recent": asdict(self.recent),
            "alpha": self.alpha,
            "least": self.least,
            "looks": self.looks,
            "method": self.method,
            "not_compared_because": self.not_compared_because,
            "n_other_series": self.n_other_series,
            "last_period": None if self.last_period is None else self.last_period.isoformat(),
            "newer_waiting": self.newer_waiting,
            "last_waiting": None if self.last_waiting is None else self.last_waiting.isoformat(),
            "reference_given": self.reference_given,
            "repeated": [None if np.isnan(share) else share for share in self.repeated],
            "means": [asdict(mean) | {"p_value": plain_numbers(np.array([mean.p_value]))[0]} for mean in self.means],
            "longer": [each.to_dict() for each in self.longer],
            "loss": None if self.loss is None else self.loss.to_dict(),
            "no_loss_because": self.no_loss_because,
            "provisional": None if self.provisional is None else self.provisional.to_dict(),
            "any_look": None if self.any_look is None else self.any_look.to_dict(),
            "pairs": None if self.pairs is None else self.pairs.to_dict(),
            "feature_names": list(self.feature_names),
            "verdict": self.verdict,
            "statistics": {name: plain_numbers(values) for name, values in self.statistics.items()},
            "shift_split": list(self.splits),
            "summary": self.summary(),
            "warnings": list(self.warnings),
        }

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> Changes:
        fields, verdict = stored.changes_fields(plain, _longer)
        fields |= {name: WindowOfPeriods(**fields[name]) for name in ("reference", "recent")}
        fields["means"] = tuple(MeanOfPeriods(**each) for each in fields["means"])
        if fields.get("loss") is not None:  # an earlier version wrote none
            fields["loss"] = LossChange.read(fields["loss"], fields["feature_names"])
        if fields.get("provisional") is not None:
            fields["provisional"] = Provisional.read(fields["provisional"], fields["feature_names"])
        if fields.get("any_look") is not None:
            fields["any_look"] = AnyLook(**fields["any_look"])
        if fields.get("pairs") is not None:
            fields["pairs"] = PairChanges.read(fields["pairs"], fields["feature_names"])
        changes = cls(**fields)
        stored.check_read_changes(changes, verdict)
        return changes

    def _page(self, title: str | None) -> str:
        from debias.results.report.changes import changes_page

        return changes_page(self, title)

    def plot(self, kind: str = "interval", ax: Any = None, max_features: int = 30) -> Any:
        """Draw the score of each feature before and recently, or how the loss changed.

        Parameters
        ----------
        kind : {"interval", "loss"}
            "interval": scores, the strongest evidence for a change on top. "loss": from the loss before to the recent
            one, with a bar for the base and for what each feature costs more or less.
        ax : matplotlib Axes, optional
            New axes by default.
        max_features : int
            Draw at most this many features. A last line stands for the others.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ValueError
            Nothing was compared, or the change of the loss is not known.
        ImportError
            matplotlib is not installed.
        """
        from debias.results.report.changes import changes_on_axes
        from debias.results.report.figures import refuse_kind
        from debias.results.report.loss_change import loss_on_axes

        refuse_kind(kind, ("interval", "loss"))
        return (loss_on_axes if kind == "loss" else changes_on_axes)(ax, self, max_features)

    def check(self, policy: Any) -> Gate:
        """Check the changes against the rules of a policy.

        Parameters
        ----------
        policy : HistoryPolicy, mapping of rules, or path of a TOML file
            The rules are the parameters of :class:`debias.results.policy.HistoryPolicy`.

        Returns
        -------
        Gate
            ``gate.passed``, and one result per rule.

        Raises
        ------
        PolicyError
            The policy is wrong, or has rules for an audit.
        """
        from debias.results.gate_of_changes import check

        return check(self, policy)


def _longer(value: Any, at: str) -> Changes:
    """Read the comparison with a longer recent window."""
    try:
        return Changes._read(mapping(value, at))
    except Malformed as error:
        raise Malformed(f"{at}: {error}") from None
