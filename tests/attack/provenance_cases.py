"""The cases of the attack on rows: what is passed to an audit as evaluation rows, and what debias must say of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from attack.attacked_models import LEVELS, REGION, Family, Floats, draw, response
from attack.fresh_rates import titanic

N_TRAIN, N_FRESH = 480, 320
GROUP = 4
"""Rows a subject has, in grouped data."""
CLASSES = ("two", "rare", "three")
Y = NDArray[Any]


@dataclass
class World:
    """Training rows, fresh rows and the models that one family makes of them, by seed."""

    family: Family
    seed: int

    @cached_property
    def rows(self) -> tuple[Floats, Y, Floats, Y]:
        """X and y of training, X and y that no model has seen (as many as of training)."""
        X, y = draw(np.random.default_rng([self.seed, 1]), 2 * N_TRAIN, self.family.task)
        return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]

    @property
    def train(self) -> tuple[Floats, Y]:
        """X and y of training."""
        return self.rows[:2]

    @property
    def fresh(self) -> tuple[Floats, Y]:
        """Held-out rows, fewer than those of training."""
        return self.rows[2][:N_FRESH].copy(), self.rows[3][:N_FRESH]

    @property
    def rng(self) -> np.random.Generator:
        """A generator of its own for each case."""
        return np.random.default_rng([self.seed, 2])

    @cached_property
    def model(self) -> Any:
        """The model as it is fitted on the training rows."""
        return self.family.fit(*self.train)

    @cached_property
    def weighted(self) -> Any:
        """A model fitted with weights of rows."""
        return self.family.fit(*self.train, weight=self.rng.uniform(0.5, 2.0, N_TRAIN))

    @cached_property
    def resampled(self) -> tuple[Any, NDArray[np.int64]]:
        """A model fitted on a bootstrap sample of the training rows, and the rows that are in it, each once."""
        drawn = self.rng.integers(0, N_TRAIN, N_TRAIN)
        X, y = self.train
        return self.family.fit(X[drawn], y[drawn]), np.unique(drawn)

    @cached_property
    def stopped(self) -> tuple[Any, NDArray[np.int64]]:
        """A model that stopped early, and the rows it was validated on."""
        return self.family.fit_stopping(*self.train)

    @cached_property
    def offset(self) -> Any:
        """A model whose rows start from margins that depend on the age."""
        return self.family.fit(*self.train, margin=self.margin(self.train[0]))

    def margin(self, X: Floats) -> Floats:
        """Return the margin that rows start from in :attr:`offset`."""
        return (X[:, 0] - 45) / (1.2 if self.family.task == "numbers" else 12)


@dataclass(frozen=True)
class Attempt:
    """One call of an audit."""

    model: Any
    X: Any
    y: Any
    passed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Rows that are passed, and whether they are what an audit needs.

    Parameters
    ----------
    group : str
    make : callable
        Returns the attempt a world makes of it; None where it makes no sense.
    right : bool
        Whether the rows are fresh, or the training rows that out-of-bag scores need: then they have to be accepted.
    right_if_proven : bool
        Whether a proof may hold: the trees send changed rows the same way, so that out-of-bag scores are right.
    """

    group: str
    make: Callable[[World], Attempt | None]
    right: bool = False
    right_if_proven: bool = False


def of_training(change: Callable[[World, Floats, Y], tuple[Any, Y]]) -> Callable[[World], Attempt]:
    """Make a case of training rows that are changed."""

    def make(world: World) -> Attempt:
        X, y = change(world, *(each.copy() for each in world.train))
        return Attempt(world.model, world.family.table(X), y)

    return make


def of_fresh(change: Callable[[World, Floats, Y], tuple[Any, Y] | None]) -> Callable[[World], Attempt | None]:
    """Make a case of fresh rows that are changed."""

    def make(world: World) -> Attempt | None:
        changed = change(world, *world.fresh)
        return None if changed is None else Attempt(world.model, world.family.table(changed[0]), changed[1])

    return make


def some(rows: Callable[[World, Floats, Y], NDArray[Any]]) -> Callable[[World, Floats, Y], tuple[Floats, Y]]:
    """Change rows by taking some of them, or all in another order."""

    def change(world: World, X: Floats, y: Y) -> tuple[Floats, Y]:
        chosen = rows(world, X, y)
        return X[chosen], y[chosen]

    return change


def shuffled(world: World, X: Floats, y: Y) -> NDArray[np.int64]:
    return world.rng.permutation(len(y))


def share(of: float) -> Callable[[World, Floats, Y], NDArray[np.int64]]:
    return lambda world, X, y: world.rng.permutation(len(y))[: int(of * len(y))]


def first(y: Y) -> Y:
    """Return the response, or its first column."""
    return y if y.ndim == 1 else y[:, 0]


def high(world: World, X: Floats, y: Y) -> NDArray[np.bool_]:
    """Choose the rows of the most frequent class, or with a response above its median."""
    one = first(y)
    if world.family.task in CLASSES:
        return one == np.bincount(one).argmax()
    return one > np.median(one)


def column(k: int, change: Callable[[Floats], Floats]) -> Callable[[World, Floats, Y], tuple[Floats, Y]]:
    """Change one column."""

    def of_rows(world: World, X: Floats, y: Y) -> tuple[Floats, Y]:
        X[:, k] = change(X[:, k])
        return X, y

    return of_rows


def half_fresh(world: World, X: Floats, y: Y) -> tuple[Floats, Y]:
    n = N_TRAIN // 2
    chosen = world.rng.permutation(2 * n)
    X_fresh, y_fresh = world.fresh
    return np.concatenate([X[:n], X_fresh[:n]])[chosen], np.concatenate([y[:n], y_fresh[:n]])[chosen]


def then_fresh(world: World, X: Floats, y: Y) -> tuple[Floats, Y]:
    X_fresh, y_fresh = world.fresh
    return np.concatenate([X, X_fresh[:100]]), np.concatenate([y, y_fresh[:100]])


def deduplicated(world: World) -> Attempt:
    model, rows = world.resampled
    X, y = world.train
    return Attempt(model, world.family.table(X[rows]), y[rows])


def one_permuted(world: World, X: Floats, y: Y) -> tuple[Floats, Y]:
    X[:, 0] = world.rng.permutation(X[:, 0])
    return X, y


def few_changed(world: World, X: Floats, y: Y) -> tuple[Floats, Y]:
    y[:5] = y[5:10] if len(np.unique(y)) > 10 else y.max() - y[:5]
    return X, y


def noisy(world: World, X: Floats, y: Y) -> tuple[Floats, Y]:
    continuous = [0, 1, 2, 6, 7]
    noise = 1e-3 * X[:, continuous].std(axis=0) * world.rng.normal(size=(len(X), len(continuous)))
    X[:, continuous] += noise
    return X, y


def with_weights(reorder: bool) -> Callable[[World], Attempt | None]:
    def make(world: World) -> Attempt | None:
        if not world.family.weighted:
            return None
        X, y = world.train
        order = shuffled(world, X, y) if reorder else np.arange(len(y))
        return Attempt(world.weighted, world.family.table(X[order]), y[order])

    return make


def validation(world: World) -> Attempt | None:
    if not world.family.stops:
        return None
    model, rows = world.stopped
    X, y = world.train
    return Attempt(model, world.family.table(X[rows]), y[rows])


def other_data(world: World, X: Floats, y: Y) -> tuple[Floats, Y]:
    other = world.rng.normal(size=X.shape)
    other[:, REGION] = world.rng.integers(0, LEVELS, len(X))
    return other, y


def constant(value: Callable[[Floats], Floats]) -> Callable[[World, Floats, Y], tuple[Floats, Y]]:
    return lambda world, X, y: (np.broadcast_to(value(X), X.shape).copy(), y)


def missing(world: World, X: Floats, y: Y) -> tuple[Floats, Y] | None:
    return column(0, lambda x: np.full_like(x, np.nan))(world, X, y) if world.family.missing else None


def standardised(world: World, X: Floats, y: Y) -> tuple[Floats, Y]:
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    if world.family.framed:
        Z[:, REGION] = X[:, REGION]
    return Z, y


def derange(world: World, X: Floats, y: Y) -> tuple[Floats, Y]:
    return np.roll(X, 1, axis=1), y


def numbers_only(change: Callable[[Y], Y]) -> Callable[[World, Floats, Y], tuple[Floats, Y] | None]:
    return lambda world, X, y: None if world.family.task in CLASSES else (X, change(y))


def classes_only(change: Callable[[Y], Y]) -> Callable[[World, Floats, Y], tuple[Floats, Y] | None]:
    return lambda world, X, y: (X, change(y)) if world.family.task in CLASSES else None


def swapped(y: Y) -> Y:
    return (y + 1) % (y.max() + 1)


def shifted_population(world: World, X: Floats, y: Y) -> tuple[Floats, Y]:
    X[:, 0] += 12  # one standard deviation
    return X, response(world.rng, X, world.family.task)


def said_to_be(kind: str, make: Callable[[World], Attempt | None]) -> Callable[[World], Attempt | None]:
    """Say what the rows of an attempt are, wrongly."""

    def of_world(world: World) -> Attempt | None:
        attempt = make(world)
        return None if attempt is None else Attempt(attempt.model, attempt.X, attempt.y, {"rows": kind})

    return of_world


def beside(train: Callable[[World], tuple[Floats, Y]]) -> Callable[[World], Attempt]:
    """Pass rows as those of training beside fresh ones."""

    def make(world: World) -> Attempt:
        X, y = world.fresh
        X_train, y_train = train(world)
        given = (world.family.table(X_train), y_train)
        return Attempt(world.model, world.family.table(X), y, {"rows": "held-out", "train": given})

    return make


def without_margin(world: World) -> Attempt | None:
    if not world.family.margin:
        return None
    X, y = world.train
    return Attempt(world.offset, X, y)


def wrong_margin(world: World) -> Attempt | None:
    if not world.family.margin:
        return None
    X, y = world.train
    return Attempt(world.offset, X, y, {"base_margin": world.rng.permutation(world.margin(X))})


def stratified(world: World) -> Attempt:
    X, y = np.concatenate(world.rows[::2]), np.concatenate(world.rows[1::2])
    one = first(y)
    strata = one if len(np.unique(one)) < 10 else pd.qcut(one, 10, labels=False, duplicates="drop")
    strata = np.minimum(strata, 5) if world.family.task == "counts" else strata  # large counts are too rare to split
    kept, held = train_test_split(np.arange(len(y)), test_size=0.4, stratify=strata, random_state=world.seed)
    return Attempt(world.family.fit(X[kept], y[kept]), world.family.table(X[held]), y[held])


def few(n: int) -> Callable[[World, Floats, Y], tuple[Floats, Y]]:
    return lambda world, X, y: (X[:n], y[:n])


def as_many(world: World) -> Attempt:
    return Attempt(world.model, world.family.table(world.rows[2]), world.rows[3])


def in_container(change: Callable[[Any, Y], tuple[Any, Any]]) -> Callable[[World], Attempt | None]:
    def make(world: World) -> Attempt | None:
        if world.family.framed:
            return None
        return Attempt(world.model, *change(*world.fresh))

    return make


def in_frame(X: Any, y: Y) -> tuple[Any, Any]:
    frame = pd.DataFrame(X)
    return frame, pd.DataFrame(y) if y.ndim > 1 else pd.Series(y)


def categorical(world: World) -> Attempt | None:
    """Split the passengers of the Titanic: 46 different rows among 1,046."""
    if world.family.region or world.family.task == "rare":
        return None
    codes = titanic().apply(lambda column: pd.Categorical(column.astype(str)).codes).to_numpy()
    X, y = codes[:, 1:].astype(np.float64), codes[:, 0].astype(np.int64)
    rng = world.rng
    targets = {"two": y, "three": y + rng.integers(0, 2, len(y)), "counts": y + rng.poisson(1, len(y))}
    noise = rng.normal(size=(len(y), 2))
    target = targets.get(world.family.task, 60 + 10 * y + noise[:, 0])
    if world.family.task == "outputs":
        target = 60 + 10 * y[:, None] + noise
    kept, held = train_test_split(np.arange(len(y)), test_size=0.4, random_state=world.seed)
    return Attempt(world.family.fit(X[kept], target[kept]), X[held], target[held])


def grouped(world: World) -> Attempt:
    """Hold out whole subjects, each with several rows that are nearly alike."""
    rng = world.rng
    subjects, _ = draw(rng, 2 * N_TRAIN // GROUP, "numbers")
    X = np.repeat(subjects, GROUP, axis=0)
    X[:, [0, 1, 6]] += rng.normal(0, [0.5, 1.0, 0.3], (len(X), 3))
    y = response(rng, X, world.family.task)
    n = 288 * 2
    return Attempt(world.family.fit(X[:n], y[:n]), world.family.table(X[n:]), y[n:])


TRAINING, IMPOSSIBLE, SAID_WRONG, CONTROL = "training rows", "rows of another kind", "said to be", "right rows"

CASES: dict[str, Case] = {
    "training rows": Case(TRAINING, of_training(lambda world, X, y: (X, y)), right_if_proven=True),
    "shuffled": Case(TRAINING, of_training(some(shuffled))),
    "half": Case(TRAINING, of_training(some(share(0.5)))),
    "a fifth": Case(TRAINING, of_training(some(share(0.2)))),
    "de-duplicated": Case(TRAINING, deduplicated),
    "doubled": Case(TRAINING, of_training(lambda world, X, y: (np.concatenate([X, X]), np.concatenate([y, y])))),
    "less one": Case(TRAINING, of_training(lambda world, X, y: (X[:-1], y[:-1]))),
    "half training, half fresh": Case(TRAINING, of_training(half_fresh)),
    "all training rows, then fresh ones": Case(TRAINING, of_training(then_fresh)),
    "y permuted": Case(TRAINING, of_training(lambda world, X, y: (X, world.rng.permutation(y)))),
    "X permuted": Case(TRAINING, of_training(lambda world, X, y: (world.rng.permutation(X), y))),
    "one column permuted": Case(TRAINING, of_training(one_permuted)),
    "columns reversed": Case(TRAINING, of_training(lambda world, X, y: (X[:, ::-1].copy(), y))),
    "y changed in 5 rows": Case(TRAINING, of_training(few_changed)),
    "rounded to 2 decimals": Case(TRAINING, of_training(lambda world, X, y: (X.round(2), y)), right_if_proven=True),
    "as float32": Case(TRAINING, of_training(lambda world, X, y: (X.astype(np.float32), y)), right_if_proven=True),
    "noise of 1e-3 sd": Case(TRAINING, of_training(noisy), right_if_proven=True),
    "weighted fit": Case(TRAINING, with_weights(reorder=False), right_if_proven=True),
    "weighted fit, shuffled": Case(TRAINING, with_weights(reorder=True)),
    "sorted by y": Case(TRAINING, of_training(some(lambda world, X, y: first(y).argsort(kind="stable")))),
    "sorted by a column": Case(TRAINING, of_training(some(lambda world, X, y: X[:, 0].argsort()))),
    "of one class, or y high": Case(TRAINING, of_training(some(high))),
    "one column high": Case(TRAINING, of_training(some(lambda world, X, y: X[:, 0] > np.median(X[:, 0])))),
    "validation rows of early stopping": Case(TRAINING, validation),
    "columns rolled": Case(IMPOSSIBLE, of_fresh(derange)),
    "a column x 1000": Case(IMPOSSIBLE, of_fresh(column(0, lambda x: 1000 * x))),
    "a column x 2": Case(IMPOSSIBLE, of_fresh(column(0, lambda x: 2 * x))),
    "a column + 3 sd": Case(IMPOSSIBLE, of_fresh(column(0, lambda x: x + 3 * x.std()))),
    "another data set": Case(IMPOSSIBLE, of_fresh(other_data)),
    "columns constant": Case(IMPOSSIBLE, of_fresh(constant(lambda X: X[0]))),
    "all zeros": Case(IMPOSSIBLE, of_fresh(constant(lambda X: 0 * X[0]))),
    "a column missing": Case(IMPOSSIBLE, of_fresh(missing)),
    "standardised": Case(IMPOSSIBLE, of_fresh(standardised)),
    "codes of a category permuted": Case(
        IMPOSSIBLE, of_fresh(column(REGION, lambda x: np.array([2.0, 3.0, 1.0, 4.0, 0.0])[x.astype(int)]))
    ),
    "Fahrenheit": Case(IMPOSSIBLE, of_fresh(column(1, lambda x: 1.8 * x + 32))),
    "y x 1000": Case(IMPOSSIBLE, of_fresh(numbers_only(lambda y: 1000 * y))),
    "log of y": Case(IMPOSSIBLE, of_fresh(numbers_only(lambda y: np.log1p(np.maximum(y, 0))))),
    "labels swapped": Case(IMPOSSIBLE, of_fresh(classes_only(swapped))),
    "other classes": Case(IMPOSSIBLE, of_fresh(classes_only(lambda y: y + 10))),
    "population shifted by 1 sd": Case(IMPOSSIBLE, of_fresh(shifted_population)),
    "fresh, of one class or y high": Case(IMPOSSIBLE, of_fresh(some(high))),
    "oob: fresh rows": Case(SAID_WRONG, said_to_be("oob", of_fresh(lambda world, X, y: (X, y)))),
    "oob: as many fresh rows": Case(SAID_WRONG, said_to_be("oob", as_many)),
    "oob: shuffled": Case(SAID_WRONG, said_to_be("oob", of_training(some(shuffled)))),
    "held-out: training rows": Case(SAID_WRONG, said_to_be("held-out", of_training(lambda world, X, y: (X, y)))),
    "held-out: shuffled": Case(SAID_WRONG, said_to_be("held-out", of_training(some(shuffled)))),
    "held-out: half": Case(SAID_WRONG, said_to_be("held-out", of_training(some(share(0.5))))),
    "train=: as many fresh rows": Case(SAID_WRONG, beside(lambda world: world.rows[2:])),
    "train=: half": Case(SAID_WRONG, beside(lambda world: tuple(each[::2] for each in world.train))),
    "train=: y permuted": Case(
        SAID_WRONG, beside(lambda world: (world.train[0], world.rng.permutation(world.train[1])))
    ),
    "base_margin left out": Case(SAID_WRONG, without_margin),
    "base_margin permuted": Case(SAID_WRONG, wrong_margin),
    "fresh rows": Case(CONTROL, of_fresh(lambda world, X, y: (X, y)), right=True),
    "fresh, stratified": Case(CONTROL, stratified, right=True),
    "fresh, as many as of training": Case(CONTROL, as_many, right=True),
    "fresh, 80 rows": Case(CONTROL, of_fresh(few(80)), right=True),
    "fresh, 30 rows": Case(CONTROL, of_fresh(few(30)), right=True),
    "fresh, a frame": Case(CONTROL, in_container(in_frame), right=True),
    "fresh, lists": Case(CONTROL, in_container(lambda X, y: (X.tolist(), y.tolist())), right=True),
    "fresh, float32": Case(CONTROL, in_container(lambda X, y: (np.asfortranarray(X, np.float32), y)), right=True),
    "fresh, Titanic": Case(CONTROL, categorical, right=True),
    "fresh, whole subjects": Case(CONTROL, grouped, right=True),
}
