"""Many models at once: a line for each, those first that a person should look at.

Over 500 lines: what is found of a model, its line, and the page and file of all lines are read together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.atomic_files import written
from debias.results.any_look import ANY
from debias.results.change_sentences import LARGE_SHIFT
from debias.results.fields import SCHEMA_VERSION
from debias.results.sentences import in_a_row
from debias.results.tables import DASH, Table
from debias.results.vocabulary import ChangeVerdict, FleetVerdict, LossVerdict, error_rate_in_words
from debias.results.windows import last_periods, waiting_in_words, why_not_judged
from debias.text import UNKNOWN, counted, escaped, feature_index, few_digits, json_text, percent, to_csv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.changes import Changes
    from debias.results.gate_outcome import Result
    from debias.results.loss_change import LossChange
    from debias.results.windows import MeanOfPeriods, WindowOfPeriods

EXIT_CODES = {FleetVerdict.NOTHING: 0, FleetVerdict.LOOK: 1, FleetVerdict.NOT_JUDGED: 4}
"""The exit code of a command for the worst verdict."""
MIXED_MARGINS = "were added with start margins and the others without"
"""Part of the warning about them."""
MORE_FAULTS = 0.05
"""A share of rows with a new category, or of repeated rows, that is larger than before by more than this is told, and
makes periods unfit for the reference."""
MOST_NAMED, MOST_REASONS = 5, 2
FEW, ALL = "loss, means and faults of the rows", "all"
"""What was judged: what needs no sums at leaves, or what ``History.changes`` judges too."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Findings:
    """What the last periods of a model show against earlier ones.

    Parameters
    ----------
    reference, recent : WindowOfPeriods
    feature_names : tuple of str
    loss : LossChange or None
    no_loss_because : str or None
        As for :class:`debias.Changes`.
    residual : MeanOfPeriods or None
        Its mean in both windows; None if it is not known.
    unseen : tuple of two arrays of shape (n_features,)
        Share of the rows with a category that the model never saw, before and recently.
    repeated : tuple of float
        Share of the rows that repeat another row of the same period, before and recently.
    response_predicted : str or None
        The warning that y seems to be what the model predicts.
    mixed_margins : str or None
        The warning that some periods have start margins and others have none.
    warnings : tuple of str
        Those that tell what is not judged, and why.
    changes : Changes or None
        The full comparison, if it was made; not with ``looks="any"``, which judges no more than the rest.
    """

    reference: WindowOfPeriods
    recent: WindowOfPeriods
    feature_names: tuple[str, ...]
    loss: LossChange | None
    no_loss_because: str | None
    residual: MeanOfPeriods | None
    unseen: tuple[NDArray[np.float64], NDArray[np.float64]]
    repeated: tuple[float, float]
    response_predicted: str | None = None
    mixed_margins: str | None = None
    warnings: tuple[str, ...] = ()
    changes: Changes | None = None

    @classmethod
    def of(cls, changes: Changes) -> Findings:
        """Return the findings of a full comparison, which has compared something."""
        return cls(
            reference=changes.reference,
            recent=changes.recent,
            feature_names=changes.feature_names,
            loss=changes.loss,
            no_loss_because=changes.no_loss_because,
            residual=next((mean for mean in changes.means if mean.of == "residual"), None),
            unseen=(changes.statistics["unseen_before"], changes.statistics["unseen_after"]),
            repeated=changes.repeated,
            response_predicted=changes.response_predicted,
            mixed_margins=next((text for text in changes.warnings if MIXED_MARGINS in text), None),
            warnings=changes.warnings,
            changes=changes if changes.any_look is None else None,
        )

    @property
    def more_unseen(self) -> list[int]:
        """Features with clearly more categories than before that the model never saw, the worst first."""
        before, after = self.unseen
        return sorted(np.flatnonzero(after - before > MORE_FAULTS).tolist(), key=lambda k: -after[k])

    def reasons(self) -> list[str]:
        """Return why a person should look at the model."""
        texts, loss = [] if self.mixed_margins is None else [self.mixed_margins], self.loss
        if loss is not None and loss.direction == "rose":
            change, about = loss.loss.change, f" (standard error {few_digits(loss.loss.error, 2)})"
            if loss.loss.since is not None:
                change, about = loss.loss.since[1], f" since {escaped(loss.loss.since[0])}"
                about += ", by the ranks of periods" * loss.loss.by_ranks
            by = "" if loss.loss.by_ranks and not change else f" by {few_digits(change)}"
            texts.append(f"the {escaped(loss.metric)} rose{by}{about}")
        if loss is not None and loss.costs_more.size:
            texts.append(f"features that cost more than before: {self._named(loss.costs_more, loss.cost_in_words)}")
        if self.residual is not None and self.residual.changed:
            since = "" if self.residual.since is None else f" since {escaped(self.residual.since)}"
            texts.append(f"the {self.residual.name} moved{since}: {self.residual.in_words}{self.residual.at_most}")
        if self.more_unseen:
            after = self.unseen[1]
            shares = self._named(self.more_unseen, lambda k: f" ({percent(float(after[k]))} of the recent rows)")
            texts.append(f"categories that the model never saw: {shares}")
        if self.repeated[1] - self.repeated[0] > MORE_FAULTS:
            texts.append(f"repeated rows: {percent(self.repeated[1])} of the recent rows")
        return texts + ([] if self.changes is None else self._reasons_by_feature(self.changes))

    def _reasons_by_feature(self, changes: Changes) -> list[str]:
        """Return what only the sums at leaves tell."""
        statistics = changes.statistics
        verdict = np.array([str(each) for each in changes.verdict])
        found = (
            (ChangeVerdict.FADED.text, verdict == ChangeVerdict.FADED),
            ("the response follows these less", verdict == ChangeVerdict.WEAKER),
            (
                "perhaps stuck, empty or in another unit",
                statistics["informative_before"] & ~statistics["comparable"].astype(bool),
            ),
            ("rows moved far at the splits on", statistics["shifted"] & (statistics["shift"] >= LARGE_SHIFT)),
        )
        texts = [f"{what}: {self._named(np.flatnonzero(which))}" for what, which in found if which.any()]
        weaker = [] if changes.pairs is None else changes.pairs.weaker
        return texts + ([f"the response follows these together less: {in_a_row(weaker, MOST_NAMED)}"] if weaker else [])

    def not_judged(self) -> list[str]:
        """Return what could not be judged, and why."""
        texts = [] if self.response_predicted is None else [self.response_predicted]
        if self.loss is None or self.no_loss_because is not None:
            texts.append(f"the loss: {escaped(str(self.no_loss_because))}")
        elif isnan(self.loss.loss.error):
            texts.append("the loss: too few periods, or periods that are all alike, do not tell what is chance")
        if self.residual is None or isnan(self.residual.p_value):
            texts.append(f"the mean residual: {why_not_judged('residual', self.reference.n_periods, self.warnings)}")
        if self.changes is not None:
            statistics = self.changes.statistics
            open_ = statistics["informative_before"] & statistics["comparable"].astype(bool) & ~self.changes.tested
            if open_.any():
                texts.append(f"whether the response changed to: {self._named(np.flatnonzero(open_))}")
            pairs = self.changes.pairs
            if pairs is not None:
                texts += [f"two features together: {each}" for each in pairs.not_tested()]
        return texts

    @property
    def worst(self) -> str | None:
        """The feature to look at first; None if none was found.

        The first cause of a higher loss, the feature that costs most more if causes are not known, one with new
        categories; with the full comparison also one that changed or whose rows moved far, with the strongest evidence.
        """
        names = self.feature_names
        if self.loss is not None and self.loss.causes:
            return self.loss.causes[0].feature
        at = [] if self.loss is None or self.loss.explained else self.loss.costs_more.tolist()
        at += self.more_unseen
        if not at and self.changes is not None:
            statistics = self.changes.statistics
            gone = np.flatnonzero(statistics["informative_before"] & ~statistics["comparable"].astype(bool)).tolist()
            weaker = np.flatnonzero(statistics["changed"] & (statistics["response_change"] < 0)).tolist()
            far = np.flatnonzero(statistics["shifted"] & (statistics["shift"] >= LARGE_SHIFT)).tolist()
            at = [
                *sorted(gone, key=lambda k: -statistics["before"][k]),
                *sorted(weaker, key=lambda k: statistics["p_value"][k]),
                *sorted(far, key=lambda k: -statistics["shift"][k]),
            ]
        return names[at[0]] if at else None

    def cost_of(self, feature: str) -> float:
        """Return how much more loss a feature costs than before."""
        assert self.loss is not None
        return float(self.loss.statistics["cost"][self.feature_names.index(feature)])

    def _named(self, which: Iterable[int], more: Any = lambda k: "") -> str:
        return in_a_row([f"{escaped(self.feature_names[k])}{more(k)}" for k in which], MOST_NAMED)


@dataclass(frozen=True)
class FeatureCost:
    """What a feature saves of the loss, and costs more than before.

    Parameters
    ----------
    feature : str
    saved_before, saved_recent, cost, error : float
        As ``saved_before``, ``saved_after``, ``cost`` and ``error`` of :meth:`LossChange.to_frame`.
    costs_more : bool or None
        By more than chance; None if that was not tested.
    since : str or None
        With ``looks="any"``, the first period of the start with the smallest p-value. None otherwise.
    """

    feature: str
    saved_before: float
    saved_recent: float
    cost: float
    error: float
    costs_more: bool | None
    since: str | None = None


@dataclass(frozen=True, kw_only=True)
class FleetLine:
    """What is said of one model.

    Parameters
    ----------
    history : str
        Path of its file, as it was given.
    verdict : FleetVerdict
        "needs a look", "not judged" or "nothing found".
    reasons : tuple of str
        Why a person should look at it.
    not_judged : tuple of str
        What could not be judged, and why.
    series, model : str or None
        Label and kind of the model; None if the file cannot be read.
    last_period : str or None
        The last period that came, also if it waits for its responses.
    last_at : datetime or None
        Its time; None if periods have numbers or labels.
    n_periods : int
        Number of its periods with responses.
    waiting : int
        Number of its periods with rows that wait for their responses.
    newer_waiting : int
        Those of them that come after all periods with responses. They are not judged.
    missing : int or None
        Number of periods that did not come since the recent window began, at their usual distance; None without dates.
        Those that wait for their responses came.
    metric : str or None
        The loss; None if it is not known.
    loss_before, loss_recent, loss_change, loss_error : float
        Its mean in both windows, the difference, and the standard error of that; NaN if it is not known.
    trend : {"rose", "fell", "may be chance"} or None
        None if it was not tested.
    loss_since : str or None
        With ``looks="any"``, the first period of the start with the smallest p-value of that. None otherwise.
    worst_feature : str or None
        The feature to look at first; None if none was found.
    cost : float
        What it costs more loss than before; NaN if that is not known.
    features : tuple of FeatureCost
        The features of the model, if the parts of the loss are known.
    reference, recent : WindowOfPeriods or None
        The windows that were compared.
    judged : str
        What was judged: "loss, means and faults of the rows", or "all".
    page : str or None
        The page of the model, relative to that of the fleet.
    """

    history: str
    verdict: FleetVerdict
    reasons: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()
    series: str | None = None
    model: str | None = None
    last_period: str | None = None
    last_at: datetime | None = None
    n_periods: int = 0
    waiting: int = 0
    newer_waiting: int = 0
    missing: int | None = None
    metric: str | None = None
    loss_before: float = nan
    loss_recent: float = nan
    loss_change: float = nan
    loss_error: float = nan
    trend: str | None = None
    loss_since: str | None = None
    worst_feature: str | None = None
    cost: float = nan
    features: tuple[FeatureCost, ...] = ()
    reference: WindowOfPeriods | None = None
    recent: WindowOfPeriods | None = None
    judged: str = FEW
    page: str | None = None

    @classmethod
    def unread(cls, history: str, why: str) -> FleetLine:
        """Return the line of a file that cannot be read."""
        return cls(history=history, verdict=FleetVerdict.NOT_JUDGED, not_judged=(why,))

    def judged_by(self, found: Findings | str, late: Result | None = None) -> FleetLine:
        """Return the line with what was found, or with why nothing was compared.

        Parameters
        ----------
        found : Findings or str
        late : Result, optional
            The rule about the age of the last period, if it failed.
        """
        reasons = () if late is None else (_in_words(late),)
        if isinstance(found, str):
            return replace(self, verdict=verdict_of(reasons, (found,)), reasons=reasons, not_judged=(found,))
        reasons, open_ = (*reasons, *found.reasons()), tuple(found.not_judged())
        line = replace(
            self,
            verdict=verdict_of(reasons, open_),
            reasons=reasons,
            not_judged=open_,
            reference=found.reference,
            recent=found.recent,
            worst_feature=found.worst,
            judged=FEW if found.changes is None else ALL,
        )
        if found.loss is None:
            return line
        loss = found.loss.loss
        return replace(
            line,
            metric=found.loss.metric,
            loss_before=loss.before,
            loss_recent=loss.after,
            loss_change=loss.change,
            loss_error=loss.error,
            trend=None if isnan(loss.error) else found.loss.direction or "may be chance",
            loss_since=None if loss.since is None else loss.since[0],
            cost=nan if found.worst is None else found.cost_of(found.worst),
            features=_costs(found.loss),
        )

    @property
    def why(self) -> str:
        """The reasons, what could not be judged, and newer periods that wait for their responses, in one text."""
        open_ = f"{FleetVerdict.NOT_JUDGED.text}: {'; '.join(self.not_judged)}" if self.not_judged else ""
        newer = waiting_in_words(self.newer_waiting) if self.newer_waiting and self.n_periods else ""
        return "; ".join([*self.reasons, *(text for text in (open_, newer) if text)])

    @property
    def urgency(self) -> tuple[Any, ...]:
        """What lines are sorted by: the smallest is that of the model that a person should look at first."""
        at = (FleetVerdict.LOOK, FleetVerdict.NOT_JUDGED, FleetVerdict.NOTHING).index(self.verdict)
        rise = self.loss_change / self.loss_error if self.loss_error > 0 else 0.0  # losses have different units
        return at, self.series is not None, -rise, -(self.missing or 0), self.history

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; numbers that are not known are None."""
        return _plain(asdict(self) | {"last_at": None if self.last_at is None else self.last_at.isoformat()})


def _in_words(late: Result) -> str:
    """Return the rule about the age of the last period, which failed, as a reason."""
    is_number = late.value.replace(".", "", 1).isdecimal()
    return f"{late.reason}, {late.value} days ago" if is_number else late.reason


def _costs(loss: LossChange) -> tuple[FeatureCost, ...]:
    names = ("saved_before", "saved_after", "cost", "error")
    numbers = zip(*(loss.statistics[name].tolist() for name in names), strict=True)
    more = {LossVerdict.MORE: True, LossVerdict.NO_MORE: False, LossVerdict.UNTESTED: None}
    each = zip(loss.feature_names, numbers, loss.verdict, strict=True)
    since = [first or None for first in loss.since] or [None] * len(loss.feature_names)
    return tuple(
        FeatureCost(name, before, recent, cost, error, more[verdict], first)
        for (name, (before, recent, cost, error), verdict), first in zip(each, since, strict=True)
    )


def _plain(value: Any) -> Any:
    """Return plain values of JSON; numbers that are not known are None."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and isnan(value) else value


def headline_of(changes: Changes) -> str:
    """Return the verdict on a model in a sentence or two, with the first reasons; its page begins with it."""
    newer = f" {waiting_in_words(changes.newer_waiting)}." if changes.newer_waiting else ""
    return f"{_verdict_in_words(changes)}{newer}"


def _verdict_in_words(changes: Changes) -> str:
    if not changes.compared:
        return f"{FleetVerdict.NOT_JUDGED.text.capitalize()}: {changes.not_compared_because}."
    found = Findings.of(changes)
    reasons, open_ = found.reasons(), found.not_judged()
    verdict = verdict_of(reasons, open_)
    if reasons:
        # "and 1 more" after a list of features would read as one more feature.
        left = len(reasons) - MOST_REASONS
        more = f"; and {left:,} more {'reason' if left == 1 else 'reasons'}" if left > 0 else ""
        return f"This model {verdict.text}: {'; '.join(reasons[:MOST_REASONS])}{more}."
    last = last_periods(changes.recent.n_periods)
    if changes.any_look is not None:
        open_ = [*open_, "the response to single features, and shifts of the rows"]
    if open_:
        return f"Nothing was found in {last}, but this was not judged: {'; '.join(open_)}."
    return f"{verdict.text.capitalize()} in {last}."


def verdict_of(reasons: Sequence[str], not_judged: Sequence[str]) -> FleetVerdict:
    """Return the verdict on a model with these reasons to look at it, and these gaps."""
    if reasons:
        return FleetVerdict.LOOK
    return FleetVerdict.NOT_JUDGED if not_judged else FleetVerdict.NOTHING


@dataclass(frozen=True, eq=False, kw_only=True)
class Fleet:
    """Many models at once, those first that a person should look at; made by ``History.fleet``.

    Parameters
    ----------
    lines : tuple of FleetLine
    alpha : float
        Family-wise error rate of each test, over all models and `looks` together.
    looks : int or "any"
    recent, reference : str
        The windows, as they were chosen.
    """

    lines: tuple[FleetLine, ...]
    alpha: float
    looks: int | str
    recent: str
    reference: str

    def __repr__(self) -> str:
        return "\n".join(self.summary()[:1] + self.table().to_text(120, 40))

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def exit_code(self) -> int:
        """1 if a model needs a look, 4 if none does but one was not judged, 0 if nothing was found."""
        verdicts = {line.verdict for line in self.lines}
        return next((EXIT_CODES[each] for each in FleetVerdict if each in verdicts), 0)

    @property
    def looks_in_words(self) -> str:
        """The number of looks that share the error rate."""
        return "all" if isinstance(self.looks, str) else f"{self.looks:,}"

    def name_of(self, line: FleetLine) -> str:
        """Return what a line is called for a reader: the file, and the model if two models of it have a line."""
        is_alone = sum(each.history == line.history for each in self.lines) == 1
        return escaped(line.history if is_alone else f"{line.history} ({line.series})")

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``history``, the model that a person should look at first on top.

        Columns: ``verdict``; ``why``; ``series``, ``model``; ``last_period``, ``n_periods`` (with responses),
        ``waiting`` (periods with rows that wait for their responses), ``missing`` (since the recent window began);
        ``metric``, ``loss_before``, ``loss_recent``, ``loss_change``, ``loss_error``, ``trend``; ``worst_feature``
        with its ``cost``; and ``page``.
        """
        import pandas as pd

        names = (
            "verdict",
            "why",
            "series",
            "model",
            "last_period",
            "n_periods",
            "waiting",
            "missing",
            "metric",
            "loss_before",
            "loss_recent",
            "loss_change",
            "loss_error",
            "trend",
            "worst_feature",
            "cost",
            "page",
        )
        columns: dict[str, Any] = {
            name: [str(value) if name == "verdict" else value for value in (getattr(line, name) for line in self.lines)]
            for name in names
        }
        columns["missing"] = pd.array(columns["missing"], dtype="Int64")
        return pd.DataFrame(columns, index=feature_index([line.history for line in self.lines], "history"))

    def summary(self) -> list[str]:
        """Return the result in sentences: how many models need a look, what was judged, and the error rate."""
        by_verdict = {each: [line for line in self.lines if line.verdict is each] for each in FleetVerdict}
        look, open_, nothing = (by_verdict[each] for each in FleetVerdict)
        named = in_a_row([self.name_of(line) for line in look], MOST_NAMED)
        needs = f"{'needs' if len(look) == 1 else 'need'} a look"
        of_all = counted(len(self.lines), "model")
        texts = [f"{len(look):,} of {of_all} {needs}: {named}."] if look else []
        if open_:
            not_all = in_a_row([self.name_of(line) for line in open_], MOST_NAMED)
            texts.append(
                f"{FleetVerdict.NOT_JUDGED.text.capitalize()}, or not in all: {len(open_):,} of {of_all} ({not_all})."
            )
        if not look and (nothing or not open_):
            texts.append(f"Nothing was found in {len(nothing):,} of {of_all}.")
        newer = in_a_row([self.name_of(line) for line in self.lines if line.newer_waiting], MOST_NAMED)
        if newer:
            texts.append(f"The newest periods wait for their responses and are not judged: {newer}.")
        if any(line.judged == FEW and line.recent is not None for line in self.lines):
            elsewhere = ": the pages of the models judge them, and the command debias monitor changes"
            texts.append(
                "Judged are the loss and what each feature costs, the mean residual, new categories and repeated rows. "
                "Shifts of the rows and the response to single features are not"
                f"{' judged at any look' if self.looks == ANY else elsewhere}."
            )
        rate = error_rate_in_words("fwer", self.alpha)
        looks = "" if self.looks == 1 else f" and {self.looks_in_words} looks"
        texts.append(
            f"Compared: the last periods ({escaped(self.recent)}) with {escaped(self.reference)}. Each test: {rate} of "
            f"all models{looks} together."
        )
        return texts

    def table(self, unknown: str = UNKNOWN, why: bool = True) -> Table:
        """Return the lines for a reader, with or without the reasons; waiting periods if there are any."""
        lines = self.lines
        waiting = {"waiting": [f"{line.waiting:,}" if line.series else unknown for line in lines]}
        reasons = {"why": [line.why for line in lines]} if why else {}
        return Table.of_cells(
            {
                "history": [self.name_of(line) for line in lines],
                "verdict": [line.verdict.text for line in lines],
                "until": [escaped(line.last_period or unknown) for line in lines],
                **(waiting if any(line.waiting for line in lines) else {}),
                "missing": [unknown if line.missing is None else f"{line.missing:,}" for line in lines],
                "loss": [short_number(line.loss_recent, unknown) for line in lines],
                "change": [short_number(line.loss_change, unknown, "+") for line in lines],
                "trend": [line.trend or unknown for line in lines],
                "worst": [escaped(line.worst_feature or unknown) for line in lines],
            }
            | reasons
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version. Numbers that are not known are None."""
        return {
            "schema_version": SCHEMA_VERSION,
            "alpha": self.alpha,
            "looks": self.looks,
            "recent": self.recent,
            "reference": self.reference,
            "exit_code": self.exit_code,
            "models": [line.to_dict() for line in self.lines],
            "summary": self.summary(),
        }

    def to_json(self, path: Any = None, indent: int | None = 2) -> str:
        """Return the result as JSON, and write it to `path` if that is not None."""
        return written(path, json_text(self.to_dict(), indent=indent, allow_nan=False), end="\n")

    def to_csv(self, path: Any = None) -> str:
        """Return the table as CSV that is safe to open in a spreadsheet, and write it to `path` if that is not None."""
        return written(path, to_csv(self.to_frame()))

    def to_prometheus(self, path: Any = None) -> str:
        """Return gauges in the text format of Prometheus, and write them to `path` if that is not None.

        The file is replaced when it is complete, as the textfile collector of the node exporter needs.
        """
        from debias.results.prometheus import exposition

        return written(path, exposition(self))

    def worded(self, word: Callable[[str], str]) -> Fleet:
        """Return the same with all reasons in the words of another reader, such as a user of the commands."""
        lines = (
            replace(line, reasons=tuple(map(word, line.reasons)), not_judged=tuple(map(word, line.not_judged)))
            for line in self.lines
        )
        return replace(self, lines=tuple(lines))

    def to_html(self, path: Any = None, title: str | None = None) -> str:
        """Return one self-contained HTML page, which links to the pages of the models if there are any.

        Parameters
        ----------
        path : str or Path, optional
            The page is written there.
        title : str, optional

        Raises
        ------
        ImportError
            matplotlib or Jinja2 is not installed (``pip install matplotlib jinja2``).
        """
        from debias.results.report.fleet_page import fleet_page

        return written(path, fleet_page(self, title))


def short_number(value: float, unknown: str = DASH, sign: str = "") -> str:
    """Return a number with three digits: each loss has its own unit, so a column has no common number of decimals."""
    if isnan(value):
        return unknown
    if 1000 <= abs(value) < 1e9:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}.3g}"
