"""What the rows of the file mean: trees of a series, sums of a part, scores of a period.

Of trees it has the arrays that sums at the leaves need so that they can be scored without the model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

from debias.data.groups import Grouping
from debias.errors import ExtractionError, HistoryError
from debias.monitor.scores import scores_with_errors
from debias.monitor.times import IN_WORDS, Moment, time_text
from debias.rows.node_sums import added, refuse_impossible
from debias.rows.period_sums import PeriodSums
from debias.rows.sealed import Damage, seal, unseal
from debias.text import counted, listed
from debias.trees.ensemble import NODE_ARRAYS, OTHER_ARRAYS, TreeEnsemble
from debias.trees.objectives import SQUARED_ERROR

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.monitor.store import Content, Part, Period, Series

    State = dict[str, NDArray[Any]]

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
"""Kinds of sealed bytes in the file."""
AGREE = 1e-9
"""Sums over the same rows agree to this relative error, whatever the order of the rows."""
BEFORE_ROUNDING = (5**0.5 - 1) / 2
"""This is added to sums of leaves before they are rounded down. It is irrational."""


@dataclass(frozen=True, eq=False)
class StoredTrees:
    """The trees of a series, and the columns that its scores are for."""

    ensemble: TreeEnsemble
    grouping: Grouping
    empty: PeriodSums
    """Sums over no rows of these trees."""

    def sums(self, state: State) -> PeriodSums:
        """Return sums with this state."""
        sums = self.empty.empty()
        sums.merge(state)
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

    def series_of(self, digest: str) -> Series | None:
        """Return the series of a model; None if it has none."""
        return next((series for series in self.content.series() if series.digest == digest), None)

    def add_series(self, digest: str, label: str | None, trees: bytes) -> Series:
        """Add a series, and return it. A label that another model has, or may get, is refused."""
        if label is not None and (why := self._why_taken(label)) is not None:
            raise HistoryError(f"label={label!r} is {why}")
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

    def state(self, series: Series, period: Period, part: Part) -> tuple[State, list[str]]:
        """Return the sums of a part, in the form in which they can be added, and what a reader of them must know."""
        try:
            facts, state = unseal(self.content.blob("parts", "sums", part.id), SUMS, FORMAT)
            notes = facts.pop("notes", None)
            if facts != _facts(series, period.moment, part.part, part.n_rows):
                raise Damage("stored sums belong to another period or part")
            if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
                raise Damage("the warnings of a part are not texts")
            _refuse_other_arrays(state, self.trees(series), part.n_rows)
        except Damage as damage:
            raise self.content.damage(damage) from None
        return state | {"names": self.trees(series).names}, notes

    def state_of_period(self, series: Series, period: Period) -> tuple[State, list[str]]:
        """Return the sums over all parts of a period, and what a reader of them must know."""
        total: State = {}
        notes: list[str] = []
        for part in self.content.parts(period.id):
            state, of_part = self.state(series, period, part)
            total, notes = added(total, state) if total else state, notes + of_part
        if not total:
            raise self.content.damage("one of its periods has no part")
        return total, notes

    def scores_and_errors(self, series: Series, period: Period) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the scores of a period and their standard errors, each of shape (n_features,)."""
        try:
            facts, arrays = unseal(self.content.blob("periods", "scores", period.id), SCORES, FORMAT)
            shape = (len(self.trees(series).grouping.names),)
            if facts != {"series": series.digest, "at": period.at} or arrays.keys() != {"scores", "errors"}:
                raise Damage("stored scores belong to another period")
            if any(array.dtype != np.float64 or array.shape != shape for array in arrays.values()):
                raise Damage("stored scores do not fit the model")
        except Damage as damage:
            raise self.content.damage(damage) from None
        return arrays["scores"], arrays["errors"]

    def period_at(self, series: Series, moment: Moment) -> Period | None:
        """Return the period of a series at a time; None if there is none."""
        return next(iter(self.content.periods(series.id, moment.text)), None)

    def put(
        self,
        series: Series,
        moment: Moment,
        part: str,
        state: State,
        notes: list[str],
        replace: bool,
        source: Path | None = None,
    ) -> bool:
        """Add a part to a period, and compute the scores of the period.

        Parameters
        ----------
        series, moment, part, state, notes
            The part and its sums. A part without a name is "".
        replace : bool
            Whether to replace other rows of the part. A part without a name replaces all parts of a period whose parts
            have names.
        source : Path, optional
            The other history that the part comes from.

        Returns
        -------
        bool
            False if the same rows were there already, so that nothing changed.

        Raises
        ------
        HistoryError
            Other rows are there and are not to be replaced, or the times of this history are of another kind.
        """
        n_rows = int(state["totals"][0])
        period = self.period_at(series, moment)
        if period is None:
            self._refuse_other_kind(moment)
        else:
            known = self.content.parts(period.id)
            old = [each for each in known if each.part == part]
            if old and same_rows(self.state(series, period, old[0])[0], state):
                return False
            # All parts may be added at once that were added one by one before.
            at_once = not part and known != old and n_rows == sum(each.n_rows for each in known)
            if at_once and same_rows(self.state_of_period(series, period)[0], state):
                return False
            # Rows of the whole period are not one more of its named parts: they would be counted twice.
            instead_of = old if part or old else known
            if instead_of and not replace:
                raise HistoryError(_other_rows(moment, part, instead_of, n_rows, source))
            for each in instead_of:
                self.content.delete("parts", each.id)
        if period is None:
            # Labels are sorted by when they first came.
            key = 1 + self.content.last_key() if moment.key is None else moment.key
            values = {"series": series.id, "kind": moment.kind, "sorted": key, "at": moment.text}
            self.content.insert("periods", **values, scores=b"")
            period = self.period_at(series, moment)
            assert period is not None
        facts = _facts(series, moment, part, n_rows)
        stored = {name: array for name, array in state.items() if name != "names"}  # the trees have them
        self.content.insert(
            "parts",
            period=period.id,
            part=part,
            n_rows=n_rows,
            rows_digest=_rows_digest(state),
            added=_now(),
            sums=seal(SUMS, FORMAT, {**facts, "notes": notes}, stored),
        )
        one_part = len(self.content.parts(period.id)) == 1
        self._score(series, period, state if one_part else self.state_of_period(series, period)[0])
        return True

    def remove(self, series: Series, moment: Moment, part: str | None) -> int:
        """Remove a part of a period, or all, and return how many were removed."""
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
            self._score(series, period, self.state_of_period(series, period)[0])
        return len(removed)

    def repeated(self, series: Series, moment: Moment, part: str, state: State) -> str | None:
        """Return a warning if the same rows are another part or another period too, which may be a mistake."""
        known = self.content.parts(rows_digest=_rows_digest(state))
        periods = {period.id: period for period in self.content.periods(series.id)} if len(known) > 1 else {}
        for other in known:
            at = periods.get(other.period)
            if at is None or (at.at, other.part) == (moment.text, part):
                continue
            if same_rows(self.state(series, at, other)[0], state):
                return (
                    f"period {time_text(moment)}{_of_part(part)} has the same rows as period {time_text(at.moment)}"
                    f"{_of_part(other.part)}. If the wrong rows were added, remove or replace them"
                )
        return None

    def _score(self, series: Series, period: Period, state: State) -> None:
        """Store the scores of a period with these sums."""
        trees = self.trees(series)
        scores, errors = scores_with_errors(trees.sums(state), trees.grouping)
        facts = {"series": series.digest, "at": period.at}
        blob = seal(SCORES, FORMAT, facts, {"scores": scores, "errors": errors})
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
            raise HistoryError(
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
    if state.keys() != trees.forms.keys():
        raise Damage("stored sums have other arrays than debias stores")
    for name, array in state.items():
        if (array.dtype, array.shape) != (trees.forms[name].dtype, trees.forms[name].shape):
            raise Damage(f"the stored array {name!r} does not fit the model")
    if state["totals"][0] != n_rows:
        raise Damage("stored sums are over another number of rows")
    refuse_impossible(state, trees.ensemble)


def _other_rows(moment: Moment, part: str, there: list[Part], n_rows: int, source: Path | None) -> str:
    """Return what to say of rows that would replace parts of a period, and what to do."""
    before = f"{sum(each.n_rows for each in there):,} rows"
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
    number, repeated, unlabelled = 0, list[str | None](), list[str]()
    for series in source.content.series():
        trees = source.content.blob("series", "trees", series.id)
        own = target.series_of(series.digest)
        if own is None:
            own = target.add_series(series.digest, None, trees)
        label = series.given_label
        if label is not None and own.given_label is None and not target.take_label(own, label):
            unlabelled.append(
                f"{own.label!r} stays without a label: {label!r}, its label in {source.content.path}, is that of "
                f"another model in {target.content.path}"
            )
        one, other = source.trees(series), target.trees(own)
        if one.ensemble.feature_names != other.ensemble.feature_names or one.grouping.names != other.grouping.names:
            raise HistoryError(
                f"the columns of {series.label!r} have other names in {source.content.path} than in "
                f"{target.content.path}, so their scores cannot be put side by side"
            )
        for period in source.content.periods(series.id):
            moment = period.moment if period.kind != "label" else period.moment.without_key
            for part in source.content.parts(period.id):
                state, notes = source.state(series, period, part)
                if target.put(own, moment, part.part, state, notes, replace, source=source.content.path):
                    number += 1
                    repeated.append(target.repeated(own, moment, part.part, state))
    texts = [text for text in repeated if text is not None]
    if unlabelled:  # before the first text, since each of the others is for one more part
        texts[:1] = ["; ".join([*unlabelled, *texts[:1]])]
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
