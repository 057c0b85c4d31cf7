"""What the rows of a history tell before their responses are known."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.results.fields import Malformed, plain_numbers
from debias.results.policy import SMALLEST_SHIFT
from debias.results.sentences import in_a_row
from debias.results.windows import ENOUGH_PERIODS, MeanOfPeriods, WindowOfPeriods, too_few_periods
from debias.text import counted, escaped, feature_index, listed, percent, with_sign

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

NOT_LOOKED_FOR = "they were not looked for"
MOST_NAMED = 5
"""A sentence names at most this many features."""
UNSEEN = (
    "Before the responses, nothing tells whether the response depends on a feature in another way than before, or "
    "whether the values of a column that goes together with no other one are in another order."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Provisional:
    """What rows without responses tell, against a reference of the same model.

    Parameters
    ----------
    feature_names : tuple of str
    reference, waiting : WindowOfPeriods
        The periods to compare with, and those without responses.
    level : float
        Largest adjusted p-value of a difference: ``alpha / looks``.
    statistics : dict of str to array of shape (n_features,)
        See :meth:`to_frame`.
    splits : tuple of str
        For each feature the split at which the rows differ most.
    prediction : MeanOfPeriods or None
        The mean prediction; of several outputs, that which changed most clearly. None if the sums do not tell it, as
        for absolute errors and quantiles.
    broken : tuple of str
        Features whose values may be broken: if the reference had their recent values, of one of them alone, what every
        feature is expected to save would be as it is now. The best fit first. If there are several, it is one of them.
    no_broken_because : str or None
        Why they are not known; None if they are.
    """

    STATISTICS: ClassVar[tuple[str, ...]] = (
        "expected_before",
        "expected_after",
        "expected_error",
        "expected_p_adjusted",
        "used",
        "shift",
        "shift_p_adjusted",
        "shifted",
        "left_before",
        "left_after",
        "unseen_before",
        "unseen_after",
    )

    feature_names: tuple[str, ...]
    reference: WindowOfPeriods
    waiting: WindowOfPeriods
    level: float
    statistics: dict[str, NDArray[Any]] = field(default_factory=dict)
    splits: tuple[str, ...] = ()
    prediction: MeanOfPeriods | None = None
    broken: tuple[str, ...] = ()
    no_broken_because: str | None = NOT_LOOKED_FOR

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature``, the largest shift first.

        Columns: ``shift`` (effect size w of the difference between the rows at the splits on the feature),
        ``shift_p_adjusted``, ``shifted``; ``expected_before`` and ``expected_after`` (the mean loss that the feature
        would save if the response were what the model predicts), ``expected_error`` (standard error of the difference)
        and ``expected_p_adjusted`` (two-sided, Holm); ``unseen_before`` and ``unseen_after`` (share of the rows with a
        category that the model never saw); and ``may_be_broken``.
        """
        import pandas as pd

        names = [name for name in self.STATISTICS if name != "used" and not name.startswith("left_")]
        frame = pd.DataFrame({name: self.statistics[name] for name in names}, index=feature_index(self.feature_names))
        frame["may_be_broken"] = [name in self.broken for name in self.feature_names]
        return frame.iloc[np.argsort(-np.nan_to_num(frame["shift"].to_numpy()), kind="stable")]

    @property
    def changed(self) -> NDArray[np.int64]:
        """Positions of the features of which the model expects to save more or less than before, beyond chance."""
        p = self.statistics["expected_p_adjusted"]
        found = np.flatnonzero(p <= self.level)
        return found[np.argsort(p[found], kind="stable")]

    def summary(self) -> list[str]:
        """Return in sentences what the rows tell, and first what they cannot tell."""
        waiting, reference = self.waiting, self.reference
        ends = dict.fromkeys(escaped(str(end)) for end in (waiting.first, waiting.last))
        span = f" ({' to '.join(ends)})"
        return [
            UNSEEN,
            f"Provisional: {counted(waiting.n_periods, 'period')} without responses{span}, "
            f"{counted(waiting.n_rows, 'row')}, compared with {counted(reference.n_periods, 'period')}, "
            f"{counted(reference.n_rows, 'row')}.",
            *self._unseen(),
            *self._prediction(),
            self._shifted(),
            *self._broken(),
        ]

    def _unseen(self) -> list[str]:
        before, after = self.statistics["unseen_before"], self.statistics["unseen_after"]
        found = sorted(np.flatnonzero(after > 0).tolist(), key=lambda k: -after[k])
        if not found:
            return []
        named = [
            f"{escaped(self.feature_names[k])} ({percent(after[k])} of the rows; before, {percent(before[k])})"
            for k in found
        ]
        return [f"Provisional: categories that the model never saw: {in_a_row(named, MOST_NAMED)}."]

    def _prediction(self) -> list[str]:
        mean = self.prediction
        if mean is None:
            return []
        change = mean.after - mean.before
        if np.isnan(mean.p_value):
            because = (
                too_few_periods(self.reference.n_periods)
                if self.reference.n_periods < ENOUGH_PERIODS
                else "predictions for rows of these periods differ among themselves by more than before, so that few "
                "rows may be the reason"
            )
            return [
                f"Provisional: the mean prediction is {with_sign(change)} from that before, which was not tested: "
                f"{because}."
            ]
        if not mean.changed:
            return [f"Provisional: no change of the mean prediction was detected ({with_sign(change)})."]
        return [f"Provisional: the {mean.name} changed {mean.moved_by}, beyond chance{mean.at_most}."]

    def _shifted(self) -> str:
        size, left = self.statistics["shift"], [self.statistics[f"left_{when}"] for when in ("before", "after")]
        found = sorted(np.flatnonzero(self.statistics["shifted"]).tolist(), key=lambda k: -size[k])
        used = self.statistics["used"].astype(bool)
        if np.isnan(size).all():
            because = "no split has enough rows" if used.any() else "the model has no splits"
            return f"Provisional: no shift was tested: {because}."
        unknown = [escaped(self.feature_names[k]) for k in np.flatnonzero(np.isnan(size) & used)]
        too_few = f" Too few rows to tell at the splits on {in_a_row(unknown, MOST_NAMED)}." if unknown else ""
        if not found:
            least = f"(effect size {SMALLEST_SHIFT:g} or more)"
            return f"Provisional: no shift of the rows was detected at the splits {least}.{too_few}"

        def in_words(k: int) -> str:
            name = f"{escaped(self.feature_names[k])} (effect size {size[k]:.2f}"
            if not self.splits[k] or np.isnan([left[0][k], left[1][k]]).any():
                return f"{name})"
            return (
                f"{name}; at {escaped(self.splits[k])}, {percent(left[0][k])} of the rows there went left before, "
                f"{percent(left[1][k])} now)"
            )

        named = in_a_row([in_words(k) for k in found], MOST_NAMED, "; ")
        return f"Provisional: rows shifted at the splits on {named}.{too_few}"

    def _broken(self) -> list[str]:
        expected = self.statistics
        if self.no_broken_because is not None:
            return [f"Whether the values of a column are broken is not known: {escaped(self.no_broken_because)}."]
        changed = self.changed
        if not np.isfinite(expected["expected_p_adjusted"]).any():
            because = "there are too few periods" if expected["used"].any() else "the model has no splits"
            return [f"What the model expects to save by its features was not tested: {because}."]
        if not changed.size:
            return ["Provisional: what the model expects to save by its features did not change beyond chance."]
        before, after = expected["expected_before"], expected["expected_after"]
        moved = in_a_row(
            [f"{escaped(self.feature_names[k])} {with_sign(after[k] - before[k])}" for k in changed], MOST_NAMED
        )
        sentences = [f"Provisional: what the model expects to save changed, beyond chance, by {moved}."]
        names = [escaped(name) for name in self.broken]
        if not names:
            sentences.append(
                "Provisional: no column was found that explains this alone. It may be a drift of several columns, or "
                "there are several faults."
            )
        elif len(names) == 1:
            sentences.append(
                f"Provisional: the recent values of {names[0]} alone, in the rows of the reference, give the same: its "
                "values changed or are broken."
            )
        else:
            sentences.append(
                f"Provisional: the recent values of one of {listed(names, MOST_NAMED)} alone, in the rows of the "
                "reference, give the same: the values of one of them changed or are broken. The rows do not tell which."
            )
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values. Numbers that are not known are None."""
        mean = None if self.prediction is None else asdict(self.prediction)
        if mean is not None and np.isnan(mean["p_value"]):
            mean["p_value"] = None
        return {
            "reference": asdict(self.reference),
            "waiting": asdict(self.waiting),
            "level": self.level,
            "statistics": {name: plain_numbers(values) for name, values in self.statistics.items()},
            "shift_split": list(self.splits),
            "prediction": mean,
            "broken": list(self.broken),
            "no_broken_because": self.no_broken_because,
            "summary": self.summary(),
        }

    @classmethod
    def read(cls, fields: Mapping[str, Any], feature_names: tuple[str, ...]) -> Provisional:
        """Return what :meth:`to_dict` returned, from its fields.

        Raises
        ------
        Malformed
            They contradict each other.
        """
        names = ("level", "statistics", "broken", "no_broken_because")
        own: dict[str, Any] = {name: fields[name] for name in names}
        own["prediction"] = None if fields["prediction"] is None else MeanOfPeriods(**fields["prediction"])
        own |= {name: WindowOfPeriods(**fields[name]) for name in ("reference", "waiting")}
        found = cls(feature_names=feature_names, splits=fields["shift_split"], **own)
        n_features, statistics = len(feature_names), found.statistics
        if set(statistics) != set(cls.STATISTICS) or any(values.size != n_features for values in statistics.values()):
            raise Malformed(
                f"provisional.statistics does not have {n_features} numbers for each of {', '.join(cls.STATISTICS)}"
            )
        if len(found.splits) != n_features or not set(found.broken) <= set(feature_names):
            raise Malformed("provisional names other features than there are")
        return found
