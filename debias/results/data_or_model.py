"""Whether the data or a new model changed the scores of features after retraining."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.results import console
from debias.results.base import ReportedResult
from debias.results.fields import (
    SCHEMA_VERSION,
    Malformed,
    list_of,
    mapping,
    number,
    or_missing,
    or_none,
    plain_numbers,
    record,
    repeated,
    text_of,
    texts,
    whole,
    without_version,
)
from debias.results.sentences import in_a_row
from debias.results.vocabulary import ScoreCause
from debias.results.windows import ENOUGH_PERIODS, WindowOfPeriods
from debias.text import counted, escaped, feature_index

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

KIND = "data or model"
ALIKE = 0.1
"""A correlation of neighbouring periods that is larger is told."""
MOST_NAMED = 5


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DataOrModel(ReportedResult):
    """Whether scores changed by the data or by the model. Arrays have one entry for each feature of both models.

    ``History.data_or_model`` makes it. ``change = data + model``: from the score of the old model on the days before to
    that of the new model on the recent days. A score is the mean of the scores (``mdi_oob``) of single days.

    Parameters
    ----------
    old, new : str
        Labels of the models.
    names : tuple of str
        Features of both models.
    before, after : WindowOfPeriods
        The days before and the recent ones.
    data : array of float64
        Score of the old model on the recent days, less that on the days before.
    model : array of float64
        On the recent days, score of the new model less that of the old one.
    data_error, model_error : array of float64
        Standard errors from differences between days: Welch's, and of the differences on the same days. They are larger
        if neighbouring days are alike. NaN if a window has fewer than 8 days, or if the feature has the same score on
        all days.
    data_memory, model_memory : array of float64
        The correlation of neighbouring days that these errors allow for, 0 or more; NaN where there is no error.
    data_p_adjusted, model_p_adjusted : array of float64
        Two-sided, Student's t, adjusted by Holm over both questions of all features. NaN if not tested.
    error_rate : float
    left_out : tuple of str
        Days of the windows that only the old model has, or that have other rows in the two series.
    only_one : tuple of str
        Features of one model only.
    """

    WRITTEN_AS: ClassVar[str] = "a division of changes into data and model written by debias (DataOrModel.to_json)"
    PARTS: ClassVar[tuple[str, ...]] = (
        "data",
        "data_error",
        "data_memory",
        "data_p_adjusted",
        "model",
        "model_error",
        "model_memory",
        "model_p_adjusted",
    )

    old: str
    new: str
    names: tuple[str, ...]
    before: WindowOfPeriods
    after: WindowOfPeriods
    data: Array
    model: Array
    data_error: Array
    model_error: Array
    data_memory: Array
    model_memory: Array
    data_p_adjusted: Array
    model_p_adjusted: Array
    error_rate: float
    left_out: tuple[str, ...] = ()
    only_one: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return console.short_data_or_model(self)

    @property
    def change(self) -> Array:
        """The sum of both parts."""
        return self.data + self.model

    @property
    def verdict(self) -> list[ScoreCause]:
        """For each feature "data", "model", "data and model", "no change detected" or "untested".

        It is "model, data untested" if the model changed the score and whether the data did was not tested, and "data,
        model untested" the other way round.
        """
        found = []
        for data, model in zip(self.data_p_adjusted, self.model_p_adjusted, strict=True):
            match bool(data <= self.error_rate), bool(model <= self.error_rate):
                case True, True:
                    found.append(ScoreCause.BOTH)
                case True, False:
                    found.append(ScoreCause.DATA_MODEL_UNTESTED if np.isnan(model) else ScoreCause.DATA)
                case False, True:
                    found.append(ScoreCause.MODEL_DATA_UNTESTED if np.isnan(data) else ScoreCause.MODEL)
                case _:
                    unknown = np.isnan(data) or np.isnan(model)
                    found.append(ScoreCause.UNTESTED if unknown else ScoreCause.UNCHANGED)
        return found

    def which(self, cause: ScoreCause | str) -> list[str]:
        """Return the names of the features with a verdict, the largest change first."""
        size = np.abs(self.change)
        found = [k for k, each in enumerate(self.verdict) if each is ScoreCause(cause)]
        return [self.names[k] for k in sorted(found, key=lambda k: -size[k])]

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a row for each feature, in the order of the new model."""
        import pandas as pd

        columns = ("change", "data", "data_error", "data_p_adjusted", "model", "model_error", "model_p_adjusted")
        frame = {name: getattr(self, name) for name in columns} | {"verdict": list(map(str, self.verdict))}
        return pd.DataFrame(frame, index=feature_index(self.names))

    @property
    def headline(self) -> str:
        """How many scores the data and the model changed, and what was not tested."""
        of = f"Of {counted(len(self.names), 'feature')}"
        untested = {name: np.isnan(getattr(self, f"{name}_p_adjusted")) for name in ("data", "model")}
        if untested["data"].all() and untested["model"].all():
            return "Whether the data or the model changed the scores was not tested"
        if untested["data"].all():
            return f"{of}, {self._of_one('model', 'data')}"
        if untested["model"].all():
            return f"{of}, {self._of_one('data', 'model')}"
        n_open = int((untested["data"] | untested["model"]).sum())
        rest = f"; {n_open:,} {'was' if n_open == 1 else 'were'} not tested, or not completely" if n_open else ""
        data, model, both = (
            sum(len(self.which(cause)) for cause in causes)
            for causes in (
                (ScoreCause.DATA, ScoreCause.DATA_MODEL_UNTESTED),
                (ScoreCause.MODEL, ScoreCause.MODEL_DATA_UNTESTED),
                (ScoreCause.BOTH,),
            )
        )
        if not data + model + both:
            return f"{of}, no change of a score was detected{rest}"
        counts = ((data, "the data"), (model, "the model"), (both, "both the data and the model"))
        found = [f"{what} changed the scores of {number:,}" for number, what in counts if number]
        n_alike = len(self.which(ScoreCause.UNCHANGED))
        if n_alike:
            found.append(f"no change of the scores of {n_alike:,} was detected")
        return f"{of}, {'; '.join(found)}{rest}"

    def _of_one(self, tested: str, other: str) -> str:
        """Return how many scores the one changed, where the other was tested for no feature."""
        p = getattr(self, f"{tested}_p_adjusted")
        n_changed, n_open = int((p <= self.error_rate).sum()), int(np.isnan(p).sum())
        found = f"the {tested} changed the scores of {n_changed:,}"
        if not n_changed:
            found = f"no change of a score by the {tested} was detected"
        more = f", and for {counted(n_open, 'feature')} whether the {tested} did" if n_open else ""
        return f"{found}; whether the {other} changed scores was not tested{more}"

    def summary(self) -> list[str]:
        """Return sentences: the days, the features of each verdict, what was left out, and how errors were made."""
        sentences = [
            f"{escaped(self.old)} on {_in_words(self.before)} and {escaped(self.new)} on {_in_words(self.after)}."
        ]
        on_new_days = f"{escaped(self.old)} has other scores on the recent days too."
        why = {
            ScoreCause.DATA: ("The data changed the scores of", on_new_days),
            ScoreCause.MODEL: (
                "The model changed the scores of",
                "On the same days the two models have other scores.",
            ),
            ScoreCause.DATA_MODEL_UNTESTED: (
                "The data changed the scores of",
                f"{on_new_days} Whether the model changed these scores was not tested.",
            ),
            ScoreCause.MODEL_DATA_UNTESTED: (
                "The model changed the scores of",
                "On the same days the two models have other scores. Whether the data changed these scores was not "
                "tested.",
            ),
            ScoreCause.BOTH: ("Both the data and the model changed the scores of", on_new_days),
            ScoreCause.UNCHANGED: ("No change was detected of", "This does not show that there is none."),
            ScoreCause.UNTESTED: ("Not tested, or not completely", self._why_untested),
        }
        for cause, (what, reason) in why.items():
            features = [escaped(name) for name in self.which(cause)]
            if features:
                sentences.append(f"{what}: {in_a_row(features, MOST_NAMED)}. {reason}")
        if self.before.n_periods < ENOUGH_PERIODS <= self.after.n_periods:
            sentences.append(
                f"Whether the data changed scores is not tested: the window before has fewer than {ENOUGH_PERIODS} "
                "periods."
            )
        return [*sentences, *self._of_memory(), *self._left_out()]

    @property
    def _why_untested(self) -> str:
        if min(self.before.n_periods, self.after.n_periods) >= ENOUGH_PERIODS:
            return "A score is the same in all periods, as that of a feature on which no tree splits."
        return f"This needs {ENOUGH_PERIODS} periods in each window, and scores that vary between periods."

    def _of_memory(self) -> list[str]:
        """Return that neighbouring periods are alike, if they are."""
        known = [memory[np.isfinite(memory)] for memory in (self.data_memory, self.model_memory)]
        largest = max((float(each.max()) for each in known if each.size), default=0.0)
        if largest <= ALIKE:
            return []
        return [
            f"Neighbouring periods are alike (a correlation of up to {largest:.2f}): standard errors are larger for "
            "it, as far as so many periods show it."
        ]

    def _left_out(self) -> list[str]:
        sentences = []
        if self.left_out:
            sentences.append(
                "Left out, because one model has no rows or other rows there: "
                f"{in_a_row([escaped(each) for each in self.left_out], MOST_NAMED)}."
            )
        if self.only_one:
            sentences.append(
                f"Features of one model only: {in_a_row([escaped(name) for name in self.only_one], MOST_NAMED)}."
            )
        return sentences

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was left out."""
        return tuple(self._left_out())

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version. Numbers that are not known are None."""
        return {
            "kind": KIND,
            "schema_version": SCHEMA_VERSION,
            "old": self.old,
            "new": self.new,
            "names": list(self.names),
            "before": asdict(self.before),
            "after": asdict(self.after),
            **{name: plain_numbers(getattr(self, name)) for name in self.PARTS},
            "verdict": self.verdict,
            "error_rate": self.error_rate,
            "left_out": list(self.left_out),
            "only_one": list(self.only_one),
            "summary": self.summary(),
        }

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> DataOrModel:
        if plain.get("kind") != KIND:
            raise Malformed(f"its kind is not {KIND!r}")
        fields = record(without_version(plain, "a division of changes"), FIELDS, "")
        verdict = fields.pop("verdict")
        del fields["kind"], fields["summary"]
        found = cls(**fields)
        if any(getattr(found, name).shape != (len(found.names),) for name in cls.PARTS):
            raise Malformed(f"its columns do not have {len(found.names)} entries")
        twice = repeated(found.names)
        if twice is not None:
            raise Malformed(f"names has {twice!r} twice")
        for name in ("data", "model"):
            p, error = getattr(found, f"{name}_p_adjusted"), getattr(found, f"{name}_error")
            if (p < 0).any() or (p > 1).any() or (error < 0).any() or np.isnan(getattr(found, name)).any():
                raise Malformed(f"{name} has numbers that are out of range")
        if not 0 < found.error_rate < 1:
            raise Malformed("error_rate is not between 0 and 1")
        if verdict != found.verdict:
            raise Malformed("verdict does not follow from the p-values")
        return found

    def _page(self, title: str | None) -> str:
        from debias.results.report.data_or_model import data_or_model_page

        return data_or_model_page(self, title)

    def plot(self, kind: str = "parts", ax: Any = None, max_features: int = 12) -> Any:
        """Draw what the data and what the model changed of each feature, with 95% intervals.

        Parameters
        ----------
        kind : {"parts"}
        ax : matplotlib Axes, optional
            New axes by default.
        max_features : int
            Draw at most this many features, those of which a part is largest.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            matplotlib is not installed.
        """
        from debias.results.report.data_or_model import parts_on_axes
        from debias.results.report.figures import refuse_kind

        refuse_kind(kind, ("parts",))
        return parts_on_axes(ax, self, max_features)


def _in_words(window: WindowOfPeriods) -> str:
    ends = [escaped(str(each)) for each in (window.first, window.last)]
    return f"{ends[0]} to {ends[1]} ({counted(window.n_periods, 'period')})"


def _window(value: Any, at: str) -> WindowOfPeriods:
    readers = {"first": or_none(text_of), "last": or_none(text_of), "n_periods": whole, "n_rows": whole}
    return WindowOfPeriods(**record(mapping(value, at), readers, f"{at}."))


FIELDS = {
    "kind": text_of,
    "old": text_of,
    "new": text_of,
    "names": texts,
    "before": _window,
    "after": _window,
    **dict.fromkeys(DataOrModel.PARTS, or_missing),
    "verdict": list_of,
    "error_rate": number,
    "left_out": texts,
    "only_one": texts,
    "summary": texts,
}
