"""What is passed to an audit in the attack on rows: every wrong use, and the right ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

import debias
from attack.attacked_models import AFTER_Y, Family, Floats
from attack.real_data import CLASSES, NUMBERS, RANKS, SURVIVAL, DataSet, Rows

SIZES = (0.3, 0.5, 0.8, 1.0, 1.5)
"""How many rows are passed, for every training row."""
TRAINED = 0.4
"""Share of the rows that models of wrong uses are trained on, so that there are 1.5 fresh rows for each."""
SPLITS = (0.4, 0.3, 0.2)
"""Shares of the rows that are held out in right uses."""
Make = Callable[["World", float, np.random.Generator], "Attempt | None"]


@dataclass
class World:
    """The models that one family makes of one data set, and their rows, by seed."""

    data: DataSet
    family: Family
    seed: int
    rows_at_most: int

    @cached_property
    def rows(self) -> Rows:
        """All rows that are used."""
        return self.data.draw(self.seed, self.rows_at_most)

    @cached_property
    def parts(self) -> tuple[Rows, Rows]:
        """Training rows and fresh rows."""
        train, fresh = self.split(1 - TRAINED, stratified=True)
        return self.rows.at(train), self.rows.at(fresh)

    @property
    def train(self) -> Rows:
        """The training rows, in training order."""
        return self.parts[0]

    @property
    def fresh(self) -> Rows:
        """Rows that no model has seen."""
        return self.parts[1]

    def split(self, held_out: float, stratified: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return positions of training rows and of held-out rows; whole queries for rankers."""
        every = np.arange(len(self.rows))
        if self.rows.qid is not None:
            queries = np.unique(self.rows.qid)
            kept, _ = train_test_split(queries, test_size=held_out, random_state=self.seed)
            within = np.isin(self.rows.qid, kept)
            return every[within], every[~within]
        strata = strata_of(self.rows.y, self.data.task) if stratified else None
        kept, held = train_test_split(every, test_size=held_out, stratify=strata, random_state=self.seed)
        return kept, held

    def new(self) -> Any:
        """Return an unfitted model."""
        return self.family.make(self.data)

    @cached_property
    def model(self) -> Any:
        """The model as it is fitted on the training rows."""
        return self.family.fit(self.new(), self.train)

    @cached_property
    def weighted(self) -> tuple[Any, Floats]:
        """A model fitted with weights of rows, and these."""
        weight = np.random.default_rng([self.seed, 3]).uniform(0.5, 2.0, len(self.train))
        return self.family.fit(self.new(), self.train, weight), weight

    @cached_property
    def started(self) -> tuple[Any, Floats]:
        """A model of numbers whose rows start from margins, and these."""
        margin = self.train.y.mean() + self.train.y.std() * np.random.default_rng([self.seed, 4]).normal(
            size=len(self.train)
        )
        return self.family.fit(self.new(), self.train, **{self.family.margin: margin}), margin

    @cached_property
    def stopped(self) -> tuple[Any, NDArray[np.int64]]:
        """A model that stopped early, and the positions of the training rows that it was validated on."""
        return self.family.fit_stopping(self.new(), self.train)

    @cached_property
    def continued(self) -> tuple[Any, Rows]:
        """A model whose training was continued on the second half of the training rows, and these."""
        halves = train_test_split(
            np.arange(len(self.train)),
            test_size=0.5,
            stratify=self.train.y if self.data.task == CLASSES else None,
            random_state=self.seed,
        )
        first, second = (self.train.at(np.sort(half)) for half in halves)
        start = self.new()
        if self.family.continues == "warm_start":
            start.set_params(warm_start=True)
        return self.family.fit_on(self.new(), second, self.family.fit(start, first)), second


OF_ROWS = ("base_margin", "blocks", "qid")
"""What belongs to rows, beside weights."""


@dataclass(frozen=True)
class Attempt:
    """One call of an audit."""

    model: Any
    X: Any
    y: Any
    passed: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> debias.Dataset:
        """The rows as they are passed."""
        return debias.Dataset(self.X, self.y, **{name: self.passed[name] for name in OF_ROWS if name in self.passed})

    @property
    def arguments(self) -> dict[str, Any]:
        """Other arguments of the audit."""
        return {name: value for name, value in self.passed.items() if name not in OF_ROWS}

    @classmethod
    def of(cls, model: Any, rows: Rows, /, **passed: Any) -> Attempt:
        """Pass rows to an audit as they are."""
        return cls(model, rows.X, rows.y, passed if rows.qid is None else {"qid": rows.qid, **passed})


@dataclass(frozen=True)
class Use:
    """Rows that are passed, and what is wrong with them.

    Parameters
    ----------
    about : {"rows", "columns", "y", "weights", "right"}
        What debias must speak of; "right" if it must accept the rows.
    make : callable
        Returns the attempt of a world for a size; None where it makes no sense.
    sizes : tuple of float
        Numbers of rows, for every training row (for a right use: share of the rows that are held out).
    cannot_be_seen : str
        Why nothing in the model or the rows shows the mistake; empty if something does.
    """

    about: str
    make: Make
    sizes: tuple[float, ...] = SIZES
    cannot_be_seen: str = ""

    @property
    def right(self) -> bool:
        """Whether the rows have to be accepted."""
        return self.about == "right"


def strata_of(y: NDArray[Any], task: str) -> NDArray[np.int64]:
    """Return what a stratified split keeps alike: classes, tenths of numbers, or events."""
    if task == CLASSES:
        return y
    if task == SURVIVAL:
        return y["event"].astype(np.int64)
    return np.asarray(pd.qcut(pd.Series(y).rank(method="first"), 10, labels=False))


def some(rows: Rows, n_rows: int, rng: np.random.Generator) -> Rows:
    """Return so many of the rows in random order: each once, or some of them twice if there are too few.

    Whole queries of rankers stay together.
    """
    if rows.qid is not None:
        queries = rng.permutation(np.unique(rows.qid))
        positions = np.concatenate([np.flatnonzero(rows.qid == query) for query in queries])
        return rows.at(positions[:n_rows])
    every = rng.permutation(len(rows))
    return rows.at(rng.permutation(np.concatenate([every, rng.permutation(len(rows))])[:n_rows]))


def n_passed(world: World, size: float) -> int:
    """Return how many rows are passed."""
    return round(size * len(world.train))


# --- training rows


def training(world: World, size: float, rng: np.random.Generator) -> Attempt:
    return Attempt.of(world.model, some(world.train, n_passed(world, size), rng))


def stated(kind: str) -> Make:
    """Say what training rows are, wrongly."""
    return lambda world, size, rng: Attempt.of(world.model, some(world.train, n_passed(world, size), rng), rows=kind)


def twice(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
    if world.data.task == RANKS:
        return None
    half = some(world.train, n_passed(world, size) // 2, rng)
    return Attempt.of(world.model, some(half.then(half), 2 * len(half), rng))


def mixed(share: float) -> Make:
    """Pass training rows and fresh rows together."""

    def make(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
        n_rows = n_passed(world, size)
        n_seen = round(share * n_rows)
        if n_seen > len(world.train):
            return None
        rows = some(world.train, n_seen, rng).then(some(world.fresh, n_rows - n_seen, rng))
        return Attempt.of(world.model, some(rows, len(rows), rng))

    return make


def of_second_part(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
    if not world.family.continues:
        return None
    model, second = world.continued
    return Attempt.of(model, some(second, round(size * len(second)), rng))


def mixed_with_second_part(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
    if not world.family.continues:
        return None
    model, second = world.continued
    n_rows = round(size * len(second))
    rows = some(second, n_rows // 2, rng).then(some(world.fresh, n_rows - n_rows // 2, rng))
    return Attempt.of(model, some(rows, len(rows), rng))


def validation(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
    if not world.family.stops:
        return None
    model, positions = world.stopped
    n_rows = round(size * len(positions))
    rows = some(world.train.at(positions), min(n_rows, len(positions)), rng)
    return Attempt.of(model, rows.then(some(world.fresh, n_rows - len(rows), rng)))


def through_supervised_step(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
    return Attempt.of(world.model, world.train) if world.family.group == AFTER_Y else None


def chosen_by_y(fresh: bool) -> Make:
    """Pass the rows of the most frequent class, or those with the largest y."""

    def make(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
        if world.data.task not in (NUMBERS, CLASSES):
            return None
        rows = world.fresh if fresh else world.train
        last = rows.y == np.bincount(rows.y).argmax() if world.data.task == CLASSES else rows.y
        chosen = rows.at(np.argsort(last, kind="stable")[-n_passed(world, size) :])
        return Attempt.of(world.model, some(chosen, len(chosen), rng))

    return make


def other_margins(margins: Callable[[Floats, np.random.Generator], Floats | None]) -> Make:
    """Pass training rows with other margins than those that they started from."""

    def make(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
        if not world.family.margin or world.data.task != NUMBERS:
            return None
        model, margin = world.started
        return Attempt.of(model, world.train, base_margin=margins(margin, rng))

    return make


# --- columns


def array_of(order: Callable[[int, np.random.Generator], NDArray[np.int64]]) -> Make:
    """Pass the columns of fresh rows in another order, without their names."""

    def make(world: World, size: float, rng: np.random.Generator) -> Attempt:
        rows = some(world.fresh, n_passed(world, size), rng)
        changed = Rows(pd.DataFrame(rows.X.to_numpy()[:, order(rows.X.shape[1], rng)]), rows.y, rows.qid)
        attempt = Attempt.of(world.model, changed)
        return Attempt(attempt.model, changed.X.to_numpy(), attempt.y, attempt.passed)

    return make


def deranged(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return an order in which no column is at its own place."""
    order = rng.permutation(n)
    rolled = np.empty(n, dtype=np.int64)
    rolled[order] = np.roll(order, 1)
    return rolled


def with_columns(change: Callable[[pd.DataFrame, str, np.random.Generator], pd.DataFrame], fresh: bool = True) -> Make:
    """Change the columns of a frame; the strongest of them is named to `change`."""

    def make(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
        rows = some(world.fresh if fresh else world.train, n_passed(world, size), rng)
        if change is times_1000 and np.array_equal(
            world.model.predict(rows.X), world.model.predict(change(rows.X.copy(), strongest(world.train), rng))
        ):
            return None  # the model sees the same rows, as with a column of 0 and 1
        return Attempt.of(world.model, Rows(change(rows.X.copy(), strongest(world.train), rng), rows.y, rows.qid))

    return make


def strongest(rows: Rows) -> str:
    """Return the column of numbers that goes with the response most."""
    y = rows.y["time"] if rows.y.dtype.names else rows.y
    with np.errstate(invalid="ignore"):
        return str(rows.X.corrwith(pd.Series(y, dtype=np.float64), method="spearman").abs().idxmax())


def times_1000(X: pd.DataFrame, name: str, rng: np.random.Generator) -> pd.DataFrame:
    return X.assign(**{name: 1000 * X[name]})


def permuted(X: pd.DataFrame, name: str, rng: np.random.Generator) -> pd.DataFrame:
    return X.assign(**{name: rng.permutation(X[name].to_numpy())})


def codes_permuted(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
    """Exchange the codes of the category with the most values."""
    if not world.data.categories:
        return None
    rows = some(world.fresh, n_passed(world, size), rng)
    name = str(world.train.X[list(world.data.categories)].nunique().idxmax())
    order = deranged(int(world.rows.X[name].max()) + 1, rng).astype(np.float64)
    codes = order[rows.X[name].to_numpy(int)]
    return Attempt.of(world.model, Rows(rows.X.assign(**{name: codes}), rows.y, rows.qid))


# --- y


def with_y(change: Callable[[World, Rows, np.random.Generator], Any], *tasks: str, seen: bool = False) -> Make:
    """Pass fresh rows, or all training rows of a model with bags, with another response."""

    def make(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
        if world.data.task not in tasks or (seen and not world.family.bagged):
            return None
        rows = world.train if seen else some(world.fresh, n_passed(world, size), rng)
        return Attempt.of(world.model, Rows(rows.X, change(world, rows, rng), rows.qid))

    return make


def y_permuted(world: World, rows: Rows, rng: np.random.Generator) -> Any:
    return rng.permutation(rows.y)


def y_rolled(world: World, rows: Rows, rng: np.random.Generator) -> Any:
    return np.roll(rows.y, 1)


def y_predicted(world: World, rows: Rows, rng: np.random.Generator) -> Any:
    return np.asarray(world.model.predict(rows.X)).ravel().astype(rows.y.dtype)


def labels_exchanged(world: World, rows: Rows, rng: np.random.Generator) -> Any:
    n_classes = int(world.rows.y.max()) + 1
    return (rows.y + 1) % n_classes


def events_inverted(world: World, rows: Rows, rng: np.random.Generator) -> Any:
    y = rows.y.copy()
    y["event"] = ~y["event"]
    return y


def other_train(change: Callable[[World, np.random.Generator], Rows]) -> Make:
    """Pass fresh rows, and beside them as `train=` what the model was not trained on."""

    def make(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
        if world.data.task in (RANKS, SURVIVAL):
            return None
        rows, given = some(world.fresh, n_passed(world, size), rng), change(world, rng)
        return Attempt.of(world.model, rows, rows="held-out", train=(given.X, given.y))

    return make


def train_with_y_permuted(world: World, rng: np.random.Generator) -> Rows:
    return Rows(world.train.X, rng.permutation(world.train.y))


def fresh_train(world: World, rng: np.random.Generator) -> Rows:
    return some(world.fresh, len(world.train), rng)


# --- weights, queries


def without_weights(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
    if not world.family.weighted or world.data.task not in (NUMBERS, CLASSES):
        return None
    return Attempt.of(world.weighted[0], some(world.train, n_passed(world, size), rng))


def in_order(weights: Callable[[Floats, np.random.Generator], Floats | None]) -> Make:
    """Pass all training rows of a model with bags in order, with weights that may be others than in training."""

    def make(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
        if not (world.family.bagged and world.family.weighted and world.data.task in (NUMBERS, CLASSES)):
            return None
        model, weight = world.weighted
        return Attempt.of(model, world.train, sample_weight=weights(weight, rng))

    return make


def queries_rolled(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
    if world.data.task != RANKS:
        return None
    rows = some(world.fresh, n_passed(world, size), rng)
    return Attempt.of(world.model, rows, qid=np.roll(rows.qid, 1))


def shuffled_without_queries(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
    if world.data.task != RANKS:
        return None
    rows = some(world.fresh, n_passed(world, size), rng)
    return Attempt.of(world.model, rows.at(rng.permutation(len(rows))), qid=rows.qid)


# --- right uses


def held_out(stratified: bool) -> Make:
    """Hold out a share of the rows, with a fit of its own."""

    def make(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
        if stratified and world.data.task == RANKS:
            return None
        train, held = world.split(size, stratified)
        return Attempt.of(world.family.fit(world.new(), world.rows.at(train)), world.rows.at(held))

    return make


def fresh_rows(world: World, size: float, rng: np.random.Generator) -> Attempt:
    return Attempt.of(world.model, some(world.fresh, n_passed(world, size), rng))


def out_of_bag(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
    return Attempt.of(world.model, world.train) if world.family.bagged else None


def fresh_of_weighted(world: World, size: float, rng: np.random.Generator) -> Attempt | None:
    """Pass fresh rows of a weighted fit. Some libraries then store no counts, so the rows are said to be held out."""
    if not world.family.weighted or world.data.task not in (NUMBERS, CLASSES):
        return None
    rows = some(world.fresh, n_passed(world, size), rng)
    weight = rng.uniform(0.5, 2.0, len(rows))
    return Attempt.of(world.weighted[0], rows, rows="held-out", sample_weight=weight)


ANY = (NUMBERS, CLASSES, RANKS, SURVIVAL)
WHOLE = (1.0,)
FILLS_LEAVES = "rows chosen by y are no random part: they fill the leaves of that y"
FEW_SPLITS = "splits on sets of categories, or few splits on the column, may send as many rows to either side"
BY_CHANCE = "each column alone is as it was, and so are all leaves that do not use it"

USES: dict[str, Use] = {
    "training rows, shuffled": Use("rows", training),
    "a fifth or a third of the training rows": Use("rows", training, (0.2, 1 / 3)),
    "training rows, each twice": Use("rows", twice),
    "training rows, said to be held-out": Use("rows", stated("held-out")),
    "training rows shuffled, said to be out-of-bag": Use("rows", stated("oob")),
    **{
        f"{share:.0%} training rows among fresh ones": Use("rows", mixed(share)) for share in (0.3, 0.4, 0.5, 0.6, 0.75)
    },
    "rows of a continued training": Use("rows", of_second_part),
    "half rows of a continued training, half fresh": Use("rows", mixed_with_second_part),
    "training rows with the highest y, or of one class": Use(
        "rows", chosen_by_y(fresh=False), (0.3, 0.5), cannot_be_seen=FILLS_LEAVES
    ),
    "fresh rows with the highest y, or of one class": Use(
        "y", chosen_by_y(fresh=True), (0.3, 0.5), cannot_be_seen=FILLS_LEAVES
    ),
    "margins left out": Use("rows", other_margins(lambda margin, rng: None), WHOLE),
    "margins permuted": Use("rows", other_margins(lambda margin, rng: rng.permutation(margin)), WHOLE),
    "validation rows of early stopping": Use("rows", validation),
    "training rows in order behind a step that saw y": Use("rows", through_supervised_step, WHOLE),
    "train= of other rows": Use("rows", other_train(fresh_train)),
    "columns reversed": Use("columns", array_of(lambda n, rng: np.arange(n)[::-1])),
    "columns in random order": Use("columns", array_of(deranged)),
    "columns renamed": Use("columns", with_columns(lambda X, name, rng: X.add_prefix("new "))),
    "a column dropped": Use("columns", with_columns(lambda X, name, rng: X.drop(columns=name))),
    "a column x 1000": Use("columns", with_columns(times_1000)),
    "codes of a category exchanged": Use("columns", codes_permuted, cannot_be_seen=FEW_SPLITS),
    "a column permuted": Use("columns", with_columns(permuted), cannot_be_seen=BY_CHANCE),
    "a column of training rows permuted": Use("columns", with_columns(permuted, fresh=False), cannot_be_seen=BY_CHANCE),
    "y permuted": Use("y", with_y(y_permuted, *ANY)),
    "y rolled by one": Use("y", with_y(y_rolled, *ANY)),
    "own predictions as y": Use("y", with_y(y_predicted, NUMBERS, CLASSES)),
    "y x 1000": Use("y", with_y(lambda world, rows, rng: 1000 * rows.y, NUMBERS)),
    "y / 24": Use("y", with_y(lambda world, rows, rng: rows.y / 24, NUMBERS)),
    "log1p of y": Use("y", with_y(lambda world, rows, rng: np.log1p(rows.y - min(0, rows.y.min())), NUMBERS)),
    "labels exchanged": Use("y", with_y(labels_exchanged, CLASSES)),
    "events inverted": Use("y", with_y(events_inverted, SURVIVAL)),
    "out of bag: y permuted": Use("y", with_y(y_permuted, *ANY, seen=True), WHOLE),
    "out of bag: y rolled by one": Use("y", with_y(y_rolled, *ANY, seen=True), WHOLE),
    "out of bag: y x 1000": Use("y", with_y(lambda world, rows, rng: 1000 * rows.y, NUMBERS, seen=True), WHOLE),
    "out of bag: labels exchanged": Use("y", with_y(labels_exchanged, CLASSES, seen=True), WHOLE),
    "out of bag: events inverted": Use("y", with_y(events_inverted, SURVIVAL, seen=True), WHOLE),
    "train= with y permuted": Use("y", other_train(train_with_y_permuted)),
    "queries rolled": Use("y", queries_rolled),
    "rows shuffled without their queries": Use("y", shuffled_without_queries),
    "weights forgotten, training rows shuffled": Use("weights", without_weights),
    "out of bag: weights forgotten": Use("weights", in_order(lambda weight, rng: None), WHOLE),
    "out of bag: weights permuted": Use("weights", in_order(lambda weight, rng: rng.permutation(weight)), WHOLE),
    "held-out rows": Use("right", held_out(stratified=False), SPLITS),
    "held-out rows, stratified": Use("right", held_out(stratified=True), SPLITS),
    "fresh rows": Use("right", fresh_rows),
    "training rows in order, out of bag": Use("right", out_of_bag, WHOLE),
    "weighted fit, out of bag": Use("right", in_order(lambda weight, rng: weight), WHOLE),
    "weighted fit, fresh rows and weights": Use("right", fresh_of_weighted, WHOLE),
}
