"""What the rows of the file mean: trees of a series, sums of a part, scores of a period.

Of trees it has the arrays that sums at the leaves need so that they can be scored without the model.

Over 500 lines, because parts with responses and parts that wait for them are kept, compared and merged by one set of
rules; which rows are among others is told in :mod:`debias.monitor.settling`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from blake3 import blake3

from debias.data.groups import Grouping
from debias.errors import ExtractionError, HistoryArgumentError, HistoryError
from debias.monitor.scores import scores_with_errors
from debias.monitor.settling import AGREE, answered, n_rows, together, within
from debias.monitor.store import Waiting
from debias.monitor.summaries import SUMMARY, VARIANCES, PeriodSummary
from debias.monitor.times import IN_WORDS, Moment, time_text
from debias.rows.node_sums import KEPT, added, refuse_impossible
from debias.rows.pair_sums import OF_PAIRS, PairSums, are_possible, common_pairs
from debias.rows.period_sums import PeriodSums
from debias.rows.sealed import Damage, seal, unseal
from debias.text import counted, listed, spelled_alike
from debias.trees.ensemble import NODE_ARRAYS, OTHER_ARRAYS, TreeEnsemble
from debias.trees.objectives import SQUARED_ERROR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.monitor.settling import Counts
    from debias.monitor.store import Content, Part, Period, Series

    State = dict[str, NDArray[Any]]

NOTES = "notes"
"""A fact beside sums. Beside scores that an earlier version of debias stored it is missing."""
HAS_MARGINS = "the rows have start margins (base_margin)"
"""The note about rows that were added with them. Within a series, all periods have it or none."""
LOSS_PARTS, SQUARES = "loss_parts", "squares_of_rows"
"""Arrays of a state that parts have not which an earlier version of debias added."""
OF_ROWS = ("totals", "n", "s")
"""Arrays of a state that are equal, up to rounding errors, if the rows are."""
STORED = ("tree_start", "feature", "threshold", "left", "right", "value", "tree_output", "base")
OPTIONAL = ("averaging_weight",)
"""Arrays of the trees that a series stores, and those that it stores if there are any."""
BY_CATEGORY = "by_category"
"""Name of the array that says which splits are on categories. It is stored if there are any."""
FORMAT = 1
"""Version of the sealed trees, sums and scores."""
TREES, SUMS, SCORES = "trees of a series", "sums of a part", "scores of a period"
UNLABELLED = "sums of a part without responses"
"""Kinds of sealed bytes in the file."""
BEFORE_ROUNDING = (5**0.5 - 1) / 2
"""This is added to sums of leaves before they are rounded down. It is irrational."""


class About(NamedTuple):
    """What is stored beside the sums of a part.

    Parameters
    ----------
    notes : list of str
        What a reader must know about the rows.
    metric : str or None
        Name of the loss whose parts are in the sums; None if there are none.
    no_loss : str or None
        Why the sums have no parts of the loss; None if they have.
    """

    notes: list[str]
    metric: str | None
    no_loss: str | None

    @classmethod
    def of(cls, sums: PeriodSums, notes: list[str]) -> About:
        """Return what to store beside sums."""
        return cls(notes, None, sums.no_loss) if sums.loss_parts is None else cls(notes, sums.metric, None)

    @classmethod
    def taken_from(cls, facts: dict[str, Any]) -> About:
        """Return what is stored in facts, and remove it from them."""
        notes, texts = facts.pop(NOTES, None), [facts.pop(name, None) for name in ("metric", "no_loss")]
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            raise Damage("the warnings of a part are not texts")
        if not all(isinstance(text, str | None) for text in texts):
            raise Damage("what is stored about the loss of a part is not text")
        return cls(notes, *texts)

    def with_other(self, other: About) -> About:
        """Return what is known of two parts together."""
        return About(self.notes + other.notes, self.metric or other.metric, self.no_loss or other.no_loss)


@dataclass(frozen=True, eq=False)
class StoredTrees:
    """The trees of a series, and the columns that its scores are for."""

    ensemble: TreeEnsemble
    grouping: Grouping
    empty: PeriodSums
    """Sums over no rows of these trees."""

    def sums(self, state: State, about: About | None = None) -> PeriodSums:
        """Return sums with this state."""
        sums = self.empty.empty()
        sums.merge(state)
        if about is not None:  # the trees that are stored do not tell their loss
            sums.metric, sums.no_loss = about.metric, about.no_loss
        return sums

    @cached_property
    def names(self) -> NDArray[np.str_]:
        """Names of the features of the trees, as a state has them."""
        return np.array(self.ensemble.feature_names)

    @cached_property
    def forms(self) -> State:
        """Arrays of the types and shapes that a stored state has."""
        return {name: array for name, array in self.empty.state().items() if name != "names"}


class Records:
    """The records of a history during one transaction.

    Parameters
    ----------
    content : Content
    models : dict of str to StoredTrees
        The trees of series that were read before, by their digest. Others are added.
    """

    def __init__(self, content: Content, models: dict[str, StoredTrees]) -> None:
        self.content, self._models = content, models
        self.doubts: list[str] = []
        """What to warn of: parts of which only the number of rows tells whether they are those that waited."""

    def series_of(self, digest: str) -> Series | None:
        """Return the series of a model; None if it has none."""
        return next((series for series in self.content.series() if series.digest == digest), None)

    def latest(self) -> Series:
        """Return the series with the latest period."""
        number = self.content.latest_series()
        if number is None:
            raise HistoryError(f"there is no period in {self.content.path}")
        return next(series for series in self.content.series() if series.id == number)

    def add_series(self, digest: str, label: str | None, trees: bytes) -> Series:
        """Add a series, and return it. A label that another model has, or may get, is refused."""
        if label is not None and (why := self._why_taken(label)) is not None:
            raise HistoryArgumentError(f"label={label!r} is {why}")
        self.content.insert("series", digest=digest, label=label, added=_now(), trees=trees)
        series = self.series_of(digest)
        assert series is not None
        return series

    def take_label(self, series: Series, label: str) -> bool:
        """Give a label to a series that has none, and return True, unless another model has it, or may get it."""
        if self._why_taken(label) is not None:
            return False
        self.content.update("series", series.id, label=label)
        return True

    def trees(self, series: Series) -> StoredTrees:
        """Return the trees of a series."""
        if series.digest not in self._models:
            try:
                facts, arrays = unseal(self.content.blob("series", "trees", series.id), TREES, FORMAT)
                if facts.get("digest") != series.digest:
                    raise Damage("the stored trees belong to another series")
                ensemble, grouping = from_arrays(facts, arrays)
            except Damage as damage:
                raise self.content.damage(damage) from None
            self._models[series.digest] = StoredTrees(ensemble, grouping, PeriodSums(ensemble))
        return self._models[series.digest]

    def state(self, series: Series, period: Period, part: Part) -> tuple[State, About]:
        """Return the sums of a part, in the form in which they can be added, and what is stored beside them."""
        return self._unsealed("parts", SUMS, series, period.moment, part)

    def state_of_period(self, series: Series, period: Period) -> tuple[State, About]:
        """Return the sums over all parts of a period, and what is stored beside them."""
        total: State = {}
        about = About([], None, None)
        for part in self.content.parts(period.id):
            state, of_part = self.state(series, period, part)
            total, about = added(total, state) if total else state, about.with_other(of_part)
        if not total:
            raise self.content.damage("one of its periods has no part")
        return total, about

    def scores_and_errors(self, series: Series, period: Period) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the scores of a period and their standard errors, each of shape (n_features,)."""
        arrays = self._beside_sums(series, period, self.content.blob("periods", "scores", period.id))[1]
        return arrays["scores"], arrays["errors"]

    def summaries(self, series: Series, periods: Sequence[Period]) -> list[PeriodSummary]:
        """Return what is known of periods without their sums at leaves; from these if an earlier version wrote them."""
        found, ensemble = [], self.trees(series).ensemble
        blobs = self.content.blobs("periods", "scores", [period.id for period in periods])
        for period in periods:
            about, arrays = self._beside_sums(series, period, blobs[period.id])
            if about is None:
                state, about = self.state_of_period(series, period)
                arrays = PeriodSummary.arrays_of(self.trees(series).sums(state))
            try:
                found.append(PeriodSummary.of(arrays, ensemble, *about))
            except Damage as damage:
                raise self.content.damage(damage) from None
        return found

    def _beside_sums(self, series: Series, period: Period, blob: bytes) -> tuple[About | None, State]:
        """Return the arrays that are stored of a period, and what is stored beside them; None by an earlier version."""
        try:
            facts, arrays = unseal(blob, SCORES, FORMAT)
            about = About.taken_from(facts) if NOTES in facts else None
            shape = (len(self.trees(series).grouping.names),)
            known = {"scores", "errors"} if about is None else {"scores", "errors", SUMMARY}
            if facts != {"series": series.digest, "at": period.at} or arrays.keys() - {VARIANCES} != known:
                raise Damage("stored scores belong to another period")
            if any(arrays[name].dtype != np.float64 or arrays[name].shape != shape for name in ("scores", "errors")):
                raise Damage("stored scores do not fit the model")
        except Damage as damage:
            raise self.content.damage(damage) from None
        return about, arrays

    def period_at(self, series: Series, moment: Moment) -> Period | None:
        """Return the period of a series at a time; None if there is none."""
        return next(iter(self.content.periods(series.id, moment.text)), None)

    def refuse_other_margins(self, series: Series, about: About) -> None:
        """Refuse rows with start margins if the last period has none, and rows without if it has."""
        periods = self.content.periods(series.id)
        if not periods:
            return
        (last,) = self.summaries(series, periods[-1:])
        before, now = (HAS_MARGINS in notes for notes in (last.notes, about.notes))
        at = time_text(periods[-1].moment)
        if before and not now:
            raise HistoryError(
                f"these rows have no start margins, and period {at} was added with them: pass base_margin=, otherwise "
                "this period looks like a change of the response"
            )
        if now and not before:
            raise HistoryError(
                f"these rows have start margins, and period {at} was added without them. If the model "
                "needs margins, add the earlier periods again with base_margin= and replace=True; otherwise "
                "leave base_margin out"
            )

    def put(
        self,
        series: Series,
        moment: Moment,
        part: str,
        state: State,
        about: About,
        replace: bool,
        source: Path | None = None,
    ) -> bool:
        """Add a part to a period, and compute the scores of the period.

        Parameters
        ----------
        series, moment, part, state, about
            The part and its sums, and what to store beside them. A part without a name is "".
        replace : bool
            Whether to replace other rows of the part. A part without a name replaces all parts of a period whose parts
            have names.
        source : Path, optional
            The other history that the part comes from.

        Returns
        -------
        bool
            False if the same rows were there already, so that nothing changed. If they were there without parts of the
            loss, squares of rows or sums for pairs, and have them now, they are stored again.

        Raises
        ------
        HistoryError
            Other rows are there or wait there, and are not to be replaced, or the times of this history are of another
            kind.
        """
        number = n_rows(state)
        has_whole = again = False
        period = self.period_at(series, moment)
        if period is None:
            self._refuse_other_kind(moment)
        else:
            known = self.content.parts(period.id)
            old = [each for each in known if each.part == part]
            if old and same_rows(before := self.state(series, period, old[0])[0], state):
                if not _gains(before, state):
                    return False
                again = True
            # All parts may be added at once that were added one by one before.
            has_whole = any(not each.part for each in known)
            at_once = not part and known != old and number == sum(each.n_rows for each in known)
            if at_once and same_rows(self.state_of_period(series, period)[0], state):
                return False
            # Rows of the whole period are not one more of its named parts: they would be counted twice.
            instead_of = old if part or old else known
            if instead_of and not (replace or again):
                raise HistoryError(_other_rows(moment, part, instead_of, number, source))
            if old and not part and not again:
                named = [(each, self.state(series, period, each)[0]) for each in known if each.part]
                instead_of += self._that_came(moment, named, state)
            for each in instead_of:
                self.content.delete("parts", each.id)
        if period is None:
            key = self._key(series, moment)
            values = {"series": series.id, "kind": moment.kind, "sorted": key, "at": moment.text}
            self.content.insert("periods", **values, scores=b"")
            period = self.period_at(series, moment)
            assert period is not None
        self._settle(series, moment, part, state, has_whole, replace, source)
        facts = _facts(series, moment, part, number)
        stored = {name: array for name, array in state.items() if name != "names"}  # the trees have them
        self.content.insert(
            "parts",
            period=period.id,
            part=part,
            n_rows=number,
            rows_digest=_rows_digest(state),
            added=_now(),
            sums=seal(SUMS, FORMAT, {**facts, **about._asdict()}, stored),
        )
        self._settle_whole(series, moment, period)
        one_part = len(self.content.parts(period.id)) == 1
        self._score(series, period, *((state, about) if one_part else self.state_of_period(series, period)))
        return True

    def wait(
        self,
        series: Series,
        moment: Moment,
        part: str,
        state: State,
        about: About,
        replace: bool,
        source: Path | None = None,
    ) -> bool:
        """Keep a part whose responses are not known yet, and return whether something changed.

        The parameters are those of :meth:`put`; the state is of the rows with responses as predicted.

        Raises
        ------
        HistoryError
            Other rows are there and are not to be replaced, or rows with responses; or the times of this history are of
            another kind.
        """
        number = n_rows(state)
        there = self.content.waiting(series.id, moment.text)
        old = [each for each in there if each.part == part]
        if old and same_rows(self.waiting_state(series, old[0])[0], state):
            return False
        period = self.period_at(series, moment)
        if period is not None and self._is_answered(series, period, part, state, source):
            return False
        if not (part or old) and self._wait_together(series, there, state):
            return False
        instead_of = old if part or old else there
        if instead_of and not replace:
            raise HistoryError(_other_rows(moment, part, instead_of, number, source))
        if old and not part:
            named = [(each, self.waiting_state(series, each)[0]) for each in there if each.part]
            instead_of += self._that_came(moment, named, state)
        for each in instead_of:
            self.content.delete("waiting", each.id)
        if period is None and not there:
            self._refuse_other_kind(moment)
        stored = {name: array for name, array in state.items() if name != "names"}
        self.content.insert(
            "waiting",
            series=series.id,
            kind=moment.kind,
            sorted=self._key(series, moment),
            at=moment.text,
            part=part,
            n_rows=number,
            rows_digest=_rows_digest(state),
            added=_now(),
            sums=seal(UNLABELLED, FORMAT, {**_facts(series, moment, part, number), **about._asdict()}, stored),
        )
        if part:
            self._forget_repeated(series, moment, period)
        return True

    def _that_came(self, moment: Moment, named: Sequence[tuple[Any, State]], state: State) -> list[Any]:
        """Return the named parts whose rows are among those that replace the part without a name, and say so."""
        came = [part for part, of_part in named if within(of_part, state) is not False]
        if came:
            parts = listed([repr(each.part) for each in came])
            self.doubts.append(
                f"period {time_text(moment)}: the rows without part replace {'part' if len(came) == 1 else 'parts'} "
                f"{parts} too, since {'its' if len(came) == 1 else 'their'} rows are among them by the counts at the "
                "leaves. If they are other rows, add them again with their part"
            )
        return came

    def _forget_repeated(self, series: Series, moment: Moment, period: Period | None) -> None:
        """Remove what waits twice: named parts that are the whole period, which has responses or waits too."""
        there = self.content.waiting(series.id, moment.text)
        whole, named = [each for each in there if not each.part], [each for each in there if each.part]
        has_responses = None if period is None else self.whole_at(series, moment)
        if has_responses is not None and self._wait_together(series, named, has_responses):
            repeated = named
        elif whole and self._wait_together(series, named, self.waiting_state(series, whole[0])[0]):
            repeated = whole
        else:
            return
        for each in repeated:
            self.content.delete("waiting", each.id)

    def _wait_together(self, series: Series, parts: Sequence[Waiting], state: Counts) -> bool:
        """Return whether waiting parts have together the same rows, as far as counts tell."""
        if not parts or sum(each.n_rows for each in parts) != n_rows(state):  # before any sums are read
            return False
        return within(together(self.waiting_state(series, each)[0] for each in parts), state) is True

    def n_answered(self, series: Series, parts: Sequence[Waiting]) -> int:
        """Return how many rows of the waiting parts of a period have responses."""
        period = self.period_at(series, parts[0].moment)
        if period is None:
            return 0
        known = self._states_by_part(series, period)
        waits = {each.part: self.waiting_state(series, each)[0] for each in parts}
        number = 0
        for part, state in waits.items():
            number += answered(state, known.values() if not part else [known[part]] if part in known else [])[0]
        if "" in known and "" not in waits:
            number += answered(together(waits.values()), [known[""]])[0]
        return number

    def waiting_state(self, series: Series, part: Waiting) -> tuple[State, About]:
        """Return the sums of a part whose responses are not known, as :meth:`state` does."""
        return self._unsealed("waiting", UNLABELLED, series, part.moment, part)

    def _unsealed(
        self, table: str, kind: str, series: Series, moment: Moment, part: Part | Waiting
    ) -> tuple[State, About]:
        try:
            facts, state = unseal(self.content.blob(table, "sums", part.id), kind, FORMAT)
            about = About.taken_from(facts)
            if facts != _facts(series, moment, part.part, part.n_rows):
                raise Damage("stored sums belong to another period or part")
            _refuse_other_arrays(state, self.trees(series), part.n_rows)
        except Damage as damage:
            raise self.content.damage(damage) from None
        return state | {"names": self.trees(series).names}, about

    def _states_by_part(self, series: Series, period: Period) -> dict[str, State]:
        return {each.part: self.state(series, period, each)[0] for each in self.content.parts(period.id)}

    def _is_answered(self, series: Series, period: Period, part: str, state: State, source: Path | None) -> bool:
        """Return whether all rows of a part have responses; refuse it if its rows that have them are other rows."""
        known, number = self._states_by_part(series, period), n_rows(state)
        if not part:
            n_answered, sure = answered(state, known.values())
            if n_answered == number:
                self._doubt(period.moment, part, sure)
                return True
        elif "" in known and n_rows(known[""]) == number and within(known[""], state):
            return True
        if part not in known:
            return False
        found = within(known[part], state)
        if found is False:
            raise HistoryError(
                f"period {time_text(period.moment)}{_of_part(part)} has {n_rows(known[part]):,} rows with responses "
                f"already, and {'these are' if source is None else f'{source} has'} {number:,} others without. Nothing "
                "was changed. Remove the period first if its rows were wrong, or pass part='...' if these rows are to "
                "be added to them"
            )
        self._doubt(period.moment, part, found)
        return n_rows(known[part]) == number

    def _settle(
        self,
        series: Series,
        moment: Moment,
        part: str,
        state: State,
        has_whole: bool,
        replace: bool,
        source: Path | None,
    ) -> None:
        """Remove what waited for the responses of a part, if it has those of all its rows; refuse other rows.

        Rows without a part are the whole period: they answer all its named parts, unless the period has rows without a
        part already (`has_whole`), which the named ones add to.
        """
        there = self.content.waiting(series.id, moment.text)
        own = [each for each in there if each.part == part]
        if not (own or part or has_whole):
            own = there
        if not own:
            return
        states = [self.waiting_state(series, each)[0] for each in own]
        everything = together(states)
        found = within(everything, state)
        done = own
        if found is False:
            found = within(state, everything)
            # Some of the rows came: parts of which they are all rows are settled, and the others wait for more.
            done = [
                each
                for each, of_part in zip(own, states, strict=True)
                if each.n_rows == n_rows(state) and within(of_part, state)
            ]
            if found is False:
                if not replace:
                    raise HistoryError(_other_rows(moment, part, own, n_rows(state), source))
                done = own
        self._doubt(moment, part, found is not None)
        for each in done:
            self.content.delete("waiting", each.id)

    def _settle_whole(self, series: Series, moment: Moment, period: Period) -> None:
        """Remove what waited without a part, if its rows have come with responses, in any parts."""
        for each in self.content.waiting(series.id, moment.text):
            if not each.part:
                parts = self._states_by_part(series, period).values()
                n_answered, sure = answered(self.waiting_state(series, each)[0], parts)
                if n_answered == each.n_rows:
                    self._doubt(moment, "", sure)
                    self.content.delete("waiting", each.id)

    def _doubt(self, moment: Moment, part: str, sure: bool | None) -> None:
        text = (
            f"period {time_text(moment)}{_of_part(part)}: whether the rows with responses are those without was told "
            "by their number, because some have weights, and others have other weights or none"
        )
        if not sure and text not in self.doubts:
            self.doubts.append(text)

    def _key(self, series: Series, moment: Moment) -> int | float:
        """Return what a period is sorted by. Labels are in the order in which they first came."""
        if moment.key is not None:
            return moment.key
        there: list[Period | Waiting] = [*self.content.periods(series.id, moment.text)]
        there += self.content.waiting(series.id, moment.text)
        return there[0].key if there else 1 + self.content.last_key()

    def remove(self, series: Series, moment: Moment, part: str | None) -> int:
        """Remove a part of a period, or all, also those that wait for responses; return how many were removed."""
        waiting = [each for each in self.content.waiting(series.id, moment.text) if part is None or each.part == part]
        for each in waiting:
            self.content.delete("waiting", each.id)
        return len(waiting) + self._remove(series, moment, part)

    def _remove(self, series: Series, moment: Moment, part: str | None) -> int:
        period = self.period_at(series, moment)
        if period is None:
            return 0
        parts = self.content.parts(period.id)
        removed = [known for known in parts if part is None or known.part == part]
        for known in removed:
            self.content.delete("parts", known.id)
        if len(removed) == len(parts):
            self.content.delete("periods", period.id)
        elif removed:
            self._score(series, period, *self.state_of_period(series, period))
        return len(removed)

    def repeated(self, series: Series, moment: Moment, part: str, state: State, waits: bool) -> str | None:
        """Return a warning if the rows that were added are another part or another period too: maybe a mistake.

        So it is if the named parts of a period have together the same rows as its part without a name. Rows that wait
        for their responses are compared with others that do, and rows with responses likewise.
        """
        others: list[tuple[Moment, str, Part | Waiting]]
        if waits:
            own: list[Part] | list[Waiting] = self.content.waiting(series.id, moment.text)
        else:
            period = self.period_at(series, moment)
            own = [] if period is None else self.content.parts(period.id)
        digest = next((each.rows_digest for each in own if each.part == part), None)
        if digest is None:  # the whole period has responses, or did wait already
            return None
        if waits:
            there = self.content.waiting(series.id, rows_digest=digest)
            others = [(other.moment, other.part, other) for other in there]
        else:
            known = self.content.parts(rows_digest=digest)
            periods = {period.id: period for period in self.content.periods(series.id)} if len(known) > 1 else {}
            others = [(periods[each.period].moment, each.part, each) for each in known if each.period in periods]
        for at, of_part, other in others:
            if (at.text, of_part) == (moment.text, part):
                continue
            if isinstance(other, Waiting):
                before = self.waiting_state(series, other)[0]
            else:
                before = self.state(series, periods[other.period], other)[0]
            if same_rows(before, state):
                return (
                    f"period {time_text(moment)}{_of_part(part)} has the same rows as period {time_text(at)}"
                    f"{_of_part(of_part)}. If the wrong rows were added, remove or replace them"
                )
        whole = self.whole_at(series, moment) if part and not waits else None
        if whole is not None and self._parts_repeat(series, moment, whole):
            return (
                f"period {time_text(moment)}: its parts with names have together the same rows as its part without a "
                "name, so each is counted twice. Remove one or the other"
            )
        if part and not waits:
            text = self._more_than_wait(series, moment)
            if text is not None:
                return text
        if whole is not None and within(state, whole) is not False:
            return (
                f"period {time_text(moment)}{_of_part(part)} may have rows that the period has without a part already. "
                "If it has, they are counted twice: remove the part then"
            )
        return None

    def _more_than_wait(self, series: Series, moment: Moment) -> str | None:
        """Return a warning if parts with responses have rows of one that waits, and together more than it has."""
        period = self.period_at(series, moment)
        waiting = [each for each in self.content.waiting(series.id, moment.text) if not each.part]
        if period is None or not waiting:
            return None
        whole = self.waiting_state(series, waiting[0])[0]
        among = [state for state in self._states_by_part(series, period).values() if within(state, whole) is True]
        number = sum(map(n_rows, among))
        if number <= n_rows(whole):
            return None
        return (
            f"period {time_text(moment)}: {counted(n_rows(whole), 'row')} wait for their responses, and parts with "
            f"{number:,} responses have come for them. So some rows are counted twice: remove the parts that share "
            "rows, or add all rows without part and with replace=True"
        )

    def whole_at(self, series: Series, moment: Moment) -> State | None:
        """Return the sums of the part without a name of a period; None if there is none."""
        period = self.period_at(series, moment)
        for part in [] if period is None else self.content.parts(period.id):
            if not part.part:
                assert period is not None
                return self.state(series, period, part)[0]
        return None

    def _parts_repeat(self, series: Series, moment: Moment, whole: State) -> bool:
        period = self.period_at(series, moment)
        assert period is not None
        named = [each for each in self.content.parts(period.id) if each.part]
        if sum(each.n_rows for each in named) != n_rows(whole):  # before any sums are read
            return False
        first, *others = (self.state(series, period, each)[0] for each in named)
        return same_rows(reduce(added, others, first), whole)

    def _score(self, series: Series, period: Period, state: State, about: About) -> None:
        """Store the scores of a period with these sums, and its summary."""
        trees = self.trees(series)
        sums = trees.sums(state, about)
        scores, errors = scores_with_errors(sums, trees.grouping)
        facts = {"series": series.digest, "at": period.at, **about._asdict()}
        blob = seal(SCORES, FORMAT, facts, {"scores": scores, "errors": errors, **PeriodSummary.arrays_of(sums)})
        self.content.update("periods", period.id, scores=blob)

    def _why_taken(self, label: str) -> str | None:
        """Return why a model cannot get a label, and what to do; None if it can."""
        if re.fullmatch("model [0-9]+", label):
            return "how debias calls models without a label: choose another one"
        if label in {series.label for series in self.content.series()}:
            return f"that of another model in {self.content.path}: choose another label"
        return None

    def _refuse_other_kind(self, moment: Moment) -> None:
        kinds = self.content.kinds()
        if kinds and kinds != {moment.kind}:
            raise HistoryArgumentError(
                f"at={moment.text!r} is of another kind than the periods in {self.content.path}, which are "
                f"{' and '.join(IN_WORDS.get(kind, kind) for kind in sorted(kinds))}: pass at= of the same kind"
            )


def packed_trees(digest: str, ensemble: TreeEnsemble, grouping: Grouping) -> bytes:
    """Return the trees of a new series as bytes."""
    facts, arrays = to_arrays(ensemble, grouping)
    return seal(TREES, FORMAT, {**facts, "digest": digest}, arrays)


def same_rows(one: State, other: State) -> bool:
    """Return whether two sums are over the same rows: counts and sums agree at every leaf, up to rounding errors."""
    return all(_agree(one[name], other[name]) for name in OF_ROWS)


def _gains(before: State, state: State) -> bool:
    """Return whether a state has the parts of the loss, squares of rows, or sums for pairs, and one of its rows not."""
    has_parts = [LOSS_PARTS in each and each[LOSS_PARTS][0] > 0 for each in (before, state)]
    has_squares = [SQUARES in each for each in (before, state)]
    if [False, True] in (has_parts, has_squares):
        return True
    one, other = (PairSums.of_state(each) for each in (before, state))
    if other is None or not other.complete:
        return False
    return one is None or not one.complete or len(common_pairs([other.pairs, one.pairs])) < len(other.pairs)


def _agree(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    if one.shape != other.shape:
        return False
    scale = np.abs(one).max(axis=0, initial=0.0)  # of each output: they may have different units
    return bool((np.abs(one - other) <= AGREE * scale).all())


def _rows_digest(state: State) -> str:
    """Return a digest that is the same for the same rows in any order. That of other rows may be the same too.

    Sums depend on the order by their rounding errors. So the digest is of whole numbers: the number of rows, the weight
    in each leaf in rows of average weight, and the sum of the response in each leaf in hundredths of the largest one.
    They are rounded at a fraction that no sum is likely to have.
    """
    n_rows, weight, *_ = state["totals"]
    largest = np.abs(state["s"]).max(axis=0, initial=0.0)
    sums = state["n"] / (weight or 1.0) * n_rows, 100 * (state["s"] / np.where(largest > 0, largest, 1.0))
    whole = np.concatenate([np.floor(each + BEFORE_ROUNDING).ravel() for each in sums])
    return blake3(np.append(whole, n_rows).astype("<i8").tobytes()).hexdigest()


def _facts(series: Series, moment: Moment, part: str, n_rows: int) -> dict[str, Any]:
    return {"series": series.digest, "kind": moment.kind, "at": moment.text, "part": part, "n_rows": n_rows}


def _refuse_other_arrays(state: State, trees: StoredTrees, n_rows: int) -> None:
    """Refuse arrays that sums of this model cannot have: a forged file may have the right digest."""
    if not trees.forms.keys() - {LOSS_PARTS, SQUARES, *KEPT} <= state.keys() - {*OF_PAIRS} <= trees.forms.keys():
        raise Damage("stored sums have other arrays than debias stores")
    if not are_possible(state, trees.ensemble.n_outputs, len(trees.grouping.names)):
        raise Damage("the stored sums for pairs do not fit the model")
    n_kept = {len(state[name]) for name in KEPT if name in state}
    if len(n_kept) > 1:
        raise Damage("the rows that are kept do not fit together")
    for name, array in ((name, array) for name, array in state.items() if name not in OF_PAIRS):
        shape = trees.forms[name].shape
        if (array.dtype, array.shape) != (trees.forms[name].dtype, (*n_kept, *shape[1:]) if name in KEPT else shape):
            raise Damage(f"the stored array {name!r} does not fit the model")
    if state["totals"][0] != n_rows:
        raise Damage("stored sums are over another number of rows")
    refuse_impossible(state, trees.ensemble)


def _other_rows(moment: Moment, part: str, there: list[Part] | list[Waiting], n_rows: int, source: Path | None) -> str:
    """Return what to say of rows that would replace parts of a period, and what to do."""
    waits = " without responses" if isinstance(there[0], Waiting) else ""
    before = f"{sum(each.n_rows for each in there):,} rows{waits}"
    if there[0].part == part:
        what = f"period {time_text(moment)}{_of_part(part)} has other rows already: {before}, added {there[0].added}"
    else:
        named = listed([repr(each.part) for each in there], most=5)
        what = f"period {time_text(moment)} has {counted(len(there), 'part')} already ({named}): {before}"
    if source is None:
        return (
            f"{what}, and these are {n_rows:,}. Nothing was changed. Pass replace=True to replace them, or part='...' "
            "if these rows are to be added to them"
        )
    return (
        f"{what}, and {source} has {n_rows:,} for it. Nothing was changed. Pass "
        f"replace=True to take the rows of {source} instead. If the rows of both histories belong to the period, "
        "remove it from both, and add the rows of each machine with a part='...' of its own"
    )


def _of_part(part: str) -> str:
    return f", part {part!r}" if part else ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def merged(source: Records, target: Records, replace: bool) -> tuple[int, list[str]]:
    """Add all parts of a source to a target, and return how many were added or replaced, and what to warn of.

    Parameters
    ----------
    source, target : Records
    replace : bool
        Whether parts of the source replace those of the target that have other rows.

    Raises
    ------
    HistoryError
        As for ``History.merge``.
    """
    number, repeated, apart = 0, list[str | None](), list[str]()
    for series in source.content.series():
        trees = source.content.blob("series", "trees", series.id)
        own = target.series_of(series.digest)
        if own is None:
            own = target.add_series(series.digest, None, trees)
        label = series.given_label
        if label is not None and own.given_label is None and not target.take_label(own, label):
            apart.append(
                f"{own.label!r} stays without a label: {label!r}, its label in {source.content.path}, is that of "
                f"another model in {target.content.path}"
            )
        one, other = source.trees(series), target.trees(own)
        if not all(
            spelled_alike(names, others)
            for names, others in (
                (one.ensemble.feature_names, other.ensemble.feature_names),
                (one.grouping.names, other.grouping.names),
            )
        ):
            raise HistoryError(
                f"the columns of {series.label!r} have other names in {source.content.path} than in "
                f"{target.content.path}, so their scores cannot be put side by side"
            )
        for period in source.content.periods(series.id):
            moment = period.moment if period.kind != "label" else period.moment.without_key
            parts = source.content.parts(period.id)
            # A whole period may have come in named parts to the other history: they would be counted beside it.
            whole = None if any(not part.part for part in parts) else target.whole_at(own, moment)
            if whole is not None and same_rows(whole, source.state_of_period(series, period)[0]):
                continue
            for part in parts:
                state, about = source.state(series, period, part)
                if target.put(own, moment, part.part, state, about, replace, source=source.content.path):
                    number += 1
                    repeated.append(target.repeated(own, moment, part.part, state, waits=False))
        for waiting in source.content.waiting(series.id):
            moment = waiting.moment if waiting.kind != "label" else waiting.moment.without_key
            state, about = source.waiting_state(series, waiting)
            if target.wait(own, moment, waiting.part, state, about, replace, source=source.content.path):
                number += 1
                repeated.append(target.repeated(own, moment, waiting.part, state, waits=True))
    texts = [text for text in repeated if text is not None]
    if target.doubts:
        others = len(target.doubts) - 1
        apart.append(target.doubts[0] + (f" (so it is with {counted(others, 'other part')})" if others else ""))
    if apart:  # before the first text, since each of the others is for one more part
        texts[:1] = ["; ".join([*apart, *texts[:1]])]
    return number, texts


def to_arrays(ensemble: TreeEnsemble, grouping: Grouping) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return plain facts and arrays from which :func:`from_arrays` makes the trees again.

    Parameters
    ----------
    ensemble : TreeEnsemble
    grouping : Grouping
        The columns of the user that each feature of the trees belongs to.
    """
    arrays = {name: getattr(ensemble, name) for name in STORED}
    arrays |= {name: getattr(ensemble, name) for name in OPTIONAL if getattr(ensemble, name) is not None}
    if ensemble.category_set is not None:
        arrays[BY_CATEGORY] = ensemble.category_set >= 0
    facts = {
        "source": ensemble.source,
        "version": ensemble.version,
        "averaged": ensemble.averaged,
        "n_classes": 0 if ensemble.classes is None else len(ensemble.classes),
        "feature_names": list(ensemble.feature_names),
        "group_names": list(grouping.names),
    }
    return facts, {**arrays, "group_of_feature": grouping.index}


def from_arrays(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[TreeEnsemble, Grouping]:
    """Return the trees and the grouping of features.

    Sums at their leaves have the scores that they have with the model. Rows cannot be added: the objective, the labels
    and what routes missing values and categories are not stored. Splits on categories are known to be so, but all have
    an empty set.

    Raises
    ------
    Damage
        The arrays are not those that :func:`to_arrays` returns, or do not form trees.
    """
    try:
        n_classes, n_nodes = int(facts["n_classes"]), arrays["feature"].size
        known = NODE_ARRAYS | OTHER_ARRAYS
        node_arrays: dict[str, Any] = {name: arrays[name] for name in (*STORED, *OPTIONAL) if name in arrays}
        if any(array.dtype != known[name] for name, array in node_arrays.items()):
            raise ValueError("an array has another type")
        if not 0 <= n_classes <= max(2, arrays["base"].size):
            raise ValueError("the number of classes is not possible")
        ensemble = TreeEnsemble(
            **node_arrays,
            **_unknown_sets(arrays),
            missing_left=np.zeros(n_nodes, dtype=bool),
            averaged=bool(facts["averaged"]),
            objective=SQUARED_ERROR,
            feature_names=tuple(map(str, facts["feature_names"])),
            named=True,
            classes=np.arange(n_classes) if n_classes else None,
            routing_dtype=np.dtype(np.float64),
            source=str(facts["source"]),
            version=str(facts["version"]),
        )
        grouping = Grouping(tuple(map(str, facts["group_names"])), arrays["group_of_feature"])
        index, names = grouping.index, grouping.names
        if index.dtype != np.int64 or index.shape != (ensemble.n_features,) or len(set(names)) < len(names):
            raise ValueError("the groups of features do not fit the trees")
        if index.size and not 0 <= index.min() <= index.max() < len(names):
            raise ValueError("the groups of features do not fit the trees")
    except (KeyError, ValueError, TypeError, IndexError, OverflowError, ExtractionError) as error:
        raise Damage(f"the stored trees are not complete: {error}") from None
    return ensemble, grouping


def _unknown_sets(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return one empty set of categories for all splits on categories; nothing if there are none."""
    if BY_CATEGORY not in arrays:
        return {}
    by_category = arrays[BY_CATEGORY]
    if by_category.dtype != bool:
        raise ValueError("an array has another type")
    return {
        "category_set": np.where(by_category, 0, -1),
        "category_start": np.zeros(2, dtype=np.int64),
        "category_codes": np.zeros(0, dtype=np.int32),
        "listed_left": np.ones(1, dtype=bool),
    }
