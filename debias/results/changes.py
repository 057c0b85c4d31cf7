"""What changed between two windows of a history."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.atomic_files import written
from debias.results import change_sentences, short_text
from debias.results.performance import Y_IS_PREDICTED
from debias.results.policy import SMALLEST_SHIFT
from debias.text import feature_index, json_text, to_csv

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.gate_outcome import Gate

SCHEMA_VERSION = 1
NOT_COMPARED = "not compared"
WEAKER, STRONGER, FADED = "changed (weaker)", "changed (stronger)", "faded"
UNDETECTED, UNCHANGED = "no longer distinguishable", "no change detected"


@dataclass(frozen=True)
class WindowOfPeriods:
    """A window of periods.

    Parameters
    ----------
    first, last : str or None
        Its first and last period; None if it has none.
    n_periods, n_rows : int
    """

    first: str | None
    last: str | None
    n_periods: int
    n_rows: int


@dataclass(frozen=True)
class MeanOfPeriods:
    """The mean of the response, the prediction or the residual of the periods of two windows.

    Parameters
    ----------
    of : {"response", "prediction", "residual"}
        For boosted trees, the mean of the response and of the prediction is less a constant.
    before, after : float
    p_value : float
        Test that the periods of the recent window have the same mean, together and each alone; NaN with fewer than 8
        periods in the reference window.
    changed : bool
        It is at most alpha / looks.
    most : str
        The recent period that deviates most.
    """

    of: str
    before: float
    after: float
    p_value: float
    changed: bool
    most: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Changes:
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
        A change counts if the slope of the response changed by more than this, see :attr:`table`.
    looks : int
        Number of comparisons that share `alpha`.
    figures : dict of str to array of shape (n_features,)
        The figures of the comparison, see :attr:`table`; none if nothing was compared.
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
        Time of the last period of the model, in a window or not; None if periods have numbers or labels.
    reference_given : str
        How the reference was chosen: as it was passed, or what it is by default.
    repeated : tuple of float
        Share of the rows of each window that repeat another row of the same period; NaN if that was not counted.
    means : tuple of MeanOfPeriods
        The response, the prediction and the residual: their means in both windows. None if nothing was compared.
    longer : tuple of Changes
        The same comparison with longer recent windows, for features that the recent window is too short to judge.

    Notes
    -----
    The test of change is about the response: whether it depends on the feature in another way than before. It is made
    so that other rows (drift in X) are no change. Those are in ``shift``. docs/methods.md has the formulas.
    """

    FIGURES: ClassVar[tuple[str, ...]] = (
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
    looks: int = 1
    figures: dict[str, NDArray[Any]] = field(default_factory=dict)
    splits: tuple[str, ...] = ()
    method: str = "none"
    not_compared_because: str | None = None
    warnings: tuple[str, ...] = ()
    n_other_series: int = 0
    last_period: datetime | None = None
    reference_given: str = ""
    repeated: tuple[float, float] = (nan, nan)
    means: tuple[MeanOfPeriods, ...] = ()
    longer: tuple[Changes, ...] = ()

    def __repr__(self) -> str:
        return short_text.of_changes(self)

    @property
    def compared(self) -> bool:
        """Whether there were two windows to compare."""
        return bool(self.figures)

    @property
    def response_predicted(self) -> str | None:
        """The warning that y seems to be what the model predicts, in a period of either window; None without one."""
        return next((warning for warning in self.warnings if warning.startswith(Y_IS_PREDICTED)), None)

    @property
    def tested(self) -> NDArray[np.bool_]:
        """For each feature whether its change was tested: its standard error is known."""
        if not self.compared:
            return np.zeros(len(self.feature_names), dtype=bool)
        return np.isfinite(self.figures["response_error"]) & np.isfinite(self.figures["p_adjusted"])

    @property
    def undecided(self) -> NDArray[np.bool_]:
        """For each feature whether a longer recent window may tell what this one does not.

        It is not known whether an informative feature lost its effect, or the rows at the splits differ by an amount
        that may be chance. Rows that cannot be compared, because all values are others than before, are no reason.
        """
        figures = self.figures
        faded = figures["informative_before"] & ~figures["changed"] & ~figures["kept"] & figures["comparable"]
        size = figures["shift"]
        return np.asarray(faded | np.isnan(size) | (size >= SMALLEST_SHIFT) & ~figures["shifted"])

    @cached_property
    def verdict(self) -> list[str]:
        """One verdict per feature.

        - "faded": it was distinguishable from noise, is not any more, and its response changed downwards;
        - "changed (weaker)", "changed (stronger)": the response changed, by the adjusted p-value;
        - "no longer distinguishable": it was, and no change was detected. This may be for lack of rows;
        - "no change detected";
        - "not compared": there were no two windows, or no test of this feature.
        """
        if not self.compared:
            return [NOT_COMPARED] * len(self.feature_names)
        figures = self.figures | {"tested": self.tested}
        return [
            FADED
            if figures["faded"][k]
            else (WEAKER if figures["response_change"][k] < 0 else STRONGER)
            if figures["changed"][k]
            else NOT_COMPARED
            if not figures["tested"][k]
            else UNDETECTED
            if figures["undetected"][k]
            else UNCHANGED
            for k in range(len(self.feature_names))
        ]

    @cached_property
    def table(self) -> pd.DataFrame:
        """Data frame with index ``feature``, sorted by evidence: the smallest p-value of the change first.

        Columns: ``before`` and ``after`` (scores in the two windows) with ``before_error`` and ``after_error``;
        ``change``, the sum of ``response_change`` (the response depends on the feature in another way) and
        ``rows_change`` (other rows); ``slope_before``, ``slope_after`` (1 if the response follows the splits on the
        feature as the model believes, 0 if it does not follow them; NaN if the model believes in no effect);
        ``response_error``, ``p_value``, ``p_adjusted`` (Holm) of ``response_change``; ``informative_before``,
        ``informative_after``; ``shift`` (effect size w of the difference between the rows of the windows at the splits
        on the feature), ``shift_p_adjusted``, ``shifted``; ``unseen_before``, ``unseen_after`` (share of the rows with
        a category that the model never saw); and ``verdict``. If nothing was compared, only ``verdict`` and
        ``not_compared_because``.
        """
        import pandas as pd

        index = feature_index(self.feature_names)
        if not self.compared:
            columns = {"verdict": self.verdict, "not_compared_because": self.not_compared_because}
            return pd.DataFrame(columns, index=index)
        shown = ("changed", "faded", "undetected", "comparable", "kept", "left_before", "left_after")
        frame = pd.DataFrame({name: self.figures[name] for name in self.FIGURES if name not in shown}, index=index)
        frame["verdict"] = self.verdict
        size = -np.abs(self.figures["response_change"])
        order = np.lexsort((-self.figures["before"], size, self.figures["p_value"]))  # NaN comes last
        return frame.iloc[order]

    def summary(self) -> list[str]:
        """Return the result in sentences: what cannot be told, what changed, what shifted, and what was compared.

        Returns
        -------
        list of str
            At most five features are named in a sentence.
        """
        return change_sentences.summary(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version. Figures that are not known are None."""
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
            "reference_given": self.reference_given,
            "repeated": [None if np.isnan(share) else share for share in self.repeated],
            "means": [asdict(mean) | {"p_value": _plain(np.array([mean.p_value]))[0]} for mean in self.means],
            "longer": [
                {"recent": asdict(each.recent), "reference": asdict(each.reference), "verdict": each.verdict}
                for each in self.longer
            ],
            "feature_names": list(self.feature_names),
            "verdict": self.verdict,
            "figures": {name: _plain(values) for name, values in self.figures.items()},
            "shift_split": list(self.splits),
            "summary": self.summary(),
            "warnings": list(self.warnings),
        }

    def to_json(self, path: Any = None, indent: int | None = 2) -> str:
        """Return the changes as JSON, and write it to `path` if that is not None."""
        return written(path, json_text(self.to_dict(), indent=indent, allow_nan=False), end="\n")

    def to_csv(self, path: Any = None) -> str:
        """Return the table as CSV that is safe to open in a spreadsheet, and write it to `path` if that is not None."""
        return written(path, to_csv(self.table))

    def to_html(self, path: Any = None, title: str | None = None) -> str:
        """Return one self-contained HTML page, and write it to `path` if that is not None.

        Parameters
        ----------
        path : str or Path, optional
        title : str, optional
            Title of the page. By default it names the kind of model.

        Returns
        -------
        str

        Raises
        ------
        ImportError
            matplotlib or Jinja2 is not installed (``pip install matplotlib jinja2``).
        """
        from debias.results.report.changes import changes_page

        return written(path, changes_page(self, title))

    def plot(self, axes: Any = None, most: int = 30) -> Any:
        """Draw the score of each feature before and recently, the strongest evidence for a change on top.

        Parameters
        ----------
        axes : matplotlib Axes, optional
            New axes by default.
        most : int
            Draw at most this many features. A last line stands for the others.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ValueError
            Nothing was compared.
        ImportError
            matplotlib is not installed.
        """
        from debias.results.report.changes import changes_on_axes

        return changes_on_axes(axes, self, most)

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


def _plain(values: NDArray[Any]) -> list[Any]:
    """Return an array as a list, with None for NaN and infinity."""
    if values.dtype.kind == "b":
        return list(map(bool, values))
    return [float(value) if np.isfinite(value) else None for value in values]
