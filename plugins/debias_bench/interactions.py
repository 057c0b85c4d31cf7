"""Level and power of the test of interactions, by simulation with fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, with_error
from debias_bench.runner import machine_line
from debias_bench.significance_settings import seed_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

N_TRAINING_ROWS = 1000
N_COLUMNS = 8
ALPHA = 0.05
WITH_SIMILAR = ", with similar"
QUANTITIES = ("single", "any false", f"any false{WITH_SIMILAR}", "true found", f"true found{WITH_SIMILAR}")


def _additive(x: Array) -> Array:
    """Return lines, a curve and a threshold: no interaction."""
    return 2 * x[:, 0] + 2 * x[:, 1] + 2 * np.sin(2 * x[:, 2]) + 4 * (x[:, 3] > 0)


def _friedman(x: Array) -> Array:
    """Return the first function of Friedman (1991), of uniform columns."""
    from scipy.special import ndtr

    u = ndtr(x)
    return 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2 + 10 * u[:, 3] + 5 * u[:, 4]


@dataclass(frozen=True)
class Truth:
    """A function of the columns.

    Parameters
    ----------
    function : callable
    sets : tuple of tuples of int
        The columns that work together, of those that are tested.
    unclear : tuple of tuples of int
        Pairs that are not counted: they are parts of what three columns do together, and where columns are correlated
        a part of that may be said of them.
    groups : bool
        Whether the first two columns are one feature.
    """

    function: Callable[[Array], Array]
    sets: tuple[tuple[int, ...], ...] = ()
    unclear: tuple[tuple[int, ...], ...] = ()
    groups: bool = False


def _product(x: Array) -> Array:
    return _additive(x) + 1.2 * x[:, 0] * x[:, 1]


TRUTHS = {
    "additive": Truth(_additive),
    "product in a group": Truth(_product, groups=True),
    "product": Truth(_product, ((0, 1),)),
    "weak product": Truth(lambda x: _additive(x) + 0.6 * x[:, 0] * x[:, 1], ((0, 1),)),
    "strong product": Truth(lambda x: _additive(x) + 3.0 * x[:, 0] * x[:, 1], ((0, 1),)),
    "exclusive or": Truth(lambda x: _additive(x) + 2.0 * np.sign(x[:, 4] * x[:, 5]), ((4, 5),)),
    "three together": Truth(
        lambda x: _additive(x) + 3.0 * np.sign(x[:, 4] * x[:, 5] * x[:, 6]),
        ((4, 5, 6),),
        ((4, 5), (4, 6), (5, 6)),
    ),
    "Friedman 1": Truth(_friedman, ((0, 1),)),
}
TRIPLES = ((4, 5, 6), (0, 1, 2))
"""Tested beside all pairs."""
MANY_VALUES = {"120 codes": 120, "500 codes": 500}
RESPONSES = (
    *("number", "t3 columns", "codes", *MANY_VALUES, "blocks", "skewed noise", "class", "rare class", "count"),
    "missing",
)
ROWS_PER_BLOCK = 25
SHARE_MISSING = 0.1
MODELS = ("XGBoost, depth 3", "XGBoost, depth 6", "forest", "LightGBM", "extra trees", "early stopping", "CatBoost")


@dataclass(frozen=True)
class Setting:
    """One row of the table.

    Parameters
    ----------
    truth, response, model : str
        Of TRUTHS, RESPONSES and MODELS.
    correlation : float
        Of any two columns.
    n_rows : int
        Number of held-out rows.
    """

    truth: str = "additive"
    response: str = "number"
    model: str = MODELS[0]
    correlation: float = 0.5
    n_rows: int = 1000

    @property
    def name(self) -> str:
        """Name of the setting in the file of trials."""
        return f"{self.truth}, {self.response}, {self.model}, {self.correlation}, {self.n_rows}"


def settings() -> list[Setting]:
    """Return the settings of the table."""
    return [
        *(Setting(correlation=rho, model=model) for rho in (0.0, 0.5, 0.9) for model in MODELS[:2]),
        *(Setting(model=model) for model in MODELS[2:]),
        *(Setting(n_rows=n_rows) for n_rows in (400, 4000)),
        *(Setting(response=response) for response in RESPONSES[1:]),
        Setting(response="120 codes", model=MODELS[1]),
        Setting(response="500 codes", model="forest"),
        Setting(response="missing", n_rows=4000),
        Setting(response="missing", model="LightGBM", correlation=0.9),
        Setting(response="class", model=MODELS[1], correlation=0.9),
        Setting(truth="product in a group"),
        *(Setting(truth="product", correlation=rho) for rho in (0.0, 0.5)),
        Setting(truth="weak product"),
        Setting(truth="strong product", n_rows=4000),
        *(Setting(truth="exclusive or", correlation=rho) for rho in (0.0, 0.5)),
        *(Setting(truth="three together", correlation=rho) for rho in (0.0, 0.5)),
        Setting(truth="three together", model=MODELS[1]),
        *(Setting(truth="Friedman 1", correlation=rho) for rho in (0.0, 0.5)),
        Setting(truth="Friedman 1", model="forest"),
        *(Setting(truth="product", response=response) for response in ("blocks", "missing")),
        *(Setting(truth="product", response="class", correlation=rho) for rho in (0.0, 0.5)),
        Setting(truth="exclusive or", response="class"),
        Setting(truth="product", response="count", correlation=0.0),
    ]


def drawn(setting: Setting, rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Return X and y of a setting.

    Parameters
    ----------
    setting : Setting
    rng : numpy.random.Generator
    n_rows : int
    """
    from scipy.special import ndtr

    rho, block = setting.correlation, np.arange(n_rows) // ROWS_PER_BLOCK
    x = np.sqrt(1 - rho) * rng.normal(size=(n_rows, N_COLUMNS)) + np.sqrt(rho) * rng.normal(size=(n_rows, 1))
    if setting.response == "t3 columns":
        x /= np.sqrt(rng.chisquare(3, size=(n_rows, 1)) / 3)
    if setting.response == "blocks":  # half of the variance is that between blocks
        x = np.sqrt(0.5) * x + np.sqrt(0.5) * rng.normal(size=(n_rows, N_COLUMNS))[block]
    effect = TRUTHS[setting.truth].function(x)
    if setting.response == "codes":  # of ten values without an order
        codes = np.clip(np.round(2 * x[:, :2] + 4.5), 0, 9).astype(np.int64)
        effect = effect - 2 * x[:, 0] - 2 * x[:, 1] + (codes - 4.5).sum(axis=1)
        x[:, :2] = rng.permutation(10)[codes]
    if setting.response in MANY_VALUES:  # with an effect of its own for each, beside the line
        n_values = MANY_VALUES[setting.response]
        codes = (ndtr(x[:, 0]) * n_values).astype(np.int64)
        effect = effect + 4 * rng.normal(size=n_values)[codes]
        x[:, 0] = rng.permutation(n_values)[codes]
    scaled = (effect - effect.mean()) / effect.std()
    if setting.response in ("class", "rare class"):
        log_odds = 1.5 * scaled - 3 * (setting.response == "rare class")
        return x, (rng.random(n_rows) < 1 / (1 + np.exp(-log_odds))).astype(np.float64)
    if setting.response == "count":
        return x, rng.poisson(np.exp(0.5 + 0.6 * scaled)).astype(np.float64)
    if setting.response == "missing":
        x[rng.random(x.shape) < SHARE_MISSING] = np.nan
    noise = rng.normal(size=n_rows)
    if setting.response == "skewed noise":
        noise = (np.exp(noise) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)  # lognormal, mean 0, variance 1
    if setting.response == "blocks":
        noise = np.sqrt(0.5) * noise + np.sqrt(0.5) * rng.normal(size=n_rows)[block]
    return x, effect + 2 * noise


def fitted(setting: Setting, seed: int, X: Any, y: Array) -> Any:
    """Return the model of a setting.

    Parameters
    ----------
    setting : Setting
    seed : int
    X, y
        The training rows.
    """
    is_class = setting.response in ("class", "rare class")
    if setting.model in ("forest", "extra trees"):
        from sklearn import ensemble

        kind = ("RandomForest" if setting.model == "forest" else "ExtraTrees") + (
            "Classifier" if is_class else "Regressor"
        )
        return getattr(ensemble, kind)(50, random_state=seed).fit(X, y)
    of_trees: dict[str, Any] = {"n_estimators": 100, "learning_rate": 0.1, "random_state": seed, "n_jobs": 1}
    if setting.model == "LightGBM":
        from lightgbm import LGBMClassifier, LGBMRegressor

        return (LGBMClassifier if is_class else LGBMRegressor)(verbose=-1, **of_trees).fit(X, y)
    if setting.model == "CatBoost":
        from catboost import CatBoostClassifier, CatBoostRegressor

        quiet = {"verbose": False, "allow_writing_files": False, "random_seed": seed, "thread_count": 1}
        return (CatBoostClassifier if is_class else CatBoostRegressor)(iterations=100, depth=6, **quiet).fit(X, y)
    from xgboost import XGBClassifier, XGBRegressor

    if setting.response == "count":
        of_trees["objective"] = "count:poisson"
    kind = XGBClassifier if is_class else XGBRegressor
    if setting.model == "early stopping":
        n_fit = len(X) * 3 // 4
        stopped = kind(**of_trees | {"n_estimators": 500}, max_depth=3, early_stopping_rounds=10)
        return stopped.fit(X[:n_fit], y[:n_fit], eval_set=[(X[n_fit:], y[n_fit:])], verbose=False)
    return kind(max_depth=int(setting.model[-1]), **of_trees).fit(X, y)


def _trial(setting: Setting, number: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed_of(np.random.default_rng(list(setting.name.encode()))), number])
    X, y = drawn(setting, rng, N_TRAINING_ROWS + setting.n_rows)
    truth, names = TRUTHS[setting.truth], [f"x{j}" for j in range(N_COLUMNS)]
    model = fitted(setting, seed_of(rng), X[:N_TRAINING_ROWS], y[:N_TRAINING_ROWS])
    block = np.arange(setting.n_rows) // ROWS_PER_BLOCK if setting.response == "blocks" else None
    rows = debias.Dataset(X[N_TRAINING_ROWS:], y[N_TRAINING_ROWS:], blocks=block, feature_names=names)
    asked: dict[str, Any] = {"groups": {"first two": names[:2]}} if truth.groups else {"features": _asked(names)}
    found = debias.interactions(model, rows, rows="held-out", error_rate=ALPHA, **asked)
    position = {name: j for j, name in enumerate(names)}
    members = [tuple(position.get(name, -1) for name in each) for each in found.sets]
    is_true = np.array([each in truth.sets for each in members], dtype=bool)
    false = found.tested & ~np.array([each in truth.sets + truth.unclear for each in members], dtype=bool)
    confirmed = np.array([each == "confirmed" for each in found.verdict], dtype=bool)
    either = confirmed | np.array([each == "confirmed, or a similar pair" for each in found.verdict], dtype=bool)
    scores: dict[str, Any] = {"single": float((found.p_value[false] <= ALPHA).mean()) if false.any() else 0.0}
    for which, of_words in ((confirmed, ""), (either, WITH_SIMILAR)):
        scores[f"any false{of_words}"] = bool(which[false].any())
        scores[f"true found{of_words}"] = float(which[is_true].sum() / len(truth.sets)) if truth.sets else None
    return {"design": setting.name, "repeat": number, "scores": scores}


def _asked(names: list[str]) -> list[tuple[str, ...]]:
    """Return all pairs, and two triples."""
    return [*combinations(names, 2), *(tuple(names[j] for j in each) for each in TRIPLES)]


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    from importlib.util import find_spec

    run = [setting for setting in settings() if setting.model != "CatBoost" or find_spec("catboost")]
    for number in range(repeats):
        yield from ((setting.name, number, _trial, setting, number) for setting in run)


def _rates(trials: list[dict[str, Any]]) -> dict[Setting, dict[str, Any]]:
    """Return, for each setting, the number of sets, and the mean and standard error of each quantity."""
    rates = {}
    for setting in settings():
        of_sets = [trial["scores"] for trial in trials if trial["design"] == setting.name]
        rates[setting] = {"sets": len(of_sets)} | {
            name: _mean([float(scores[name]) for scores in of_sets if scores[name] is not None]) for name in QUANTITIES
        }
    return rates


def _mean(values: list[float]) -> tuple[float, float] | None:
    if not values:
        return None
    n, share = len(values), float(np.mean(values))
    # Not 0 where all sets agree: as if one more set did not.
    least = np.sqrt(max(share * (1 - share), 1 / (4 * n)) / n) if set(values) <= {0.0, 1.0} else 0.0
    return share, max(float(np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else 0.0, least)


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    heading = ["truth", "response", "model", "correlation", "rows", "sets", *QUANTITIES]
    lines = []
    for setting, of_setting in _rates(trials).items():
        cells = [setting.truth, setting.response, setting.model, f"{setting.correlation:g}", f"{setting.n_rows:,}"]
        values = [of_setting[name] for name in QUANTITIES]
        lines.append([*cells, str(of_setting["sets"]), *("-" if each is None else with_error(each) for each in values)])
    of_all = [
        scores for trial in trials if not TRUTHS[trial["design"].split(", ")[0]].sets for scores in [trial["scores"]]
    ]
    pooled = "; ".join(
        f"{name} {with_error(estimate)}"
        for name in QUANTITIES[:3]
        if (estimate := _mean([float(scores[name]) for scores in of_all])) is not None
    )
    return [
        "# Which interactions are confirmed?",
        f"`debias bench interactions`: {N_COLUMNS} columns, {N_TRAINING_ROWS:,} training rows, and the test of all "
        "pairs and of two triples on fresh rows ([what it is](../interactions.md)). *Single*: the share of p-values of "
        f"at most {ALPHA:g} among pairs and triples that do not work together. *Any false*: the share of sets in which "
        f"one of these is confirmed, at a family-wise error rate of {ALPHA:.0%}. *True found*: how often what works "
        "together is confirmed: a pair, or the triple of “three together”, whose pairs are not counted. *With similar* "
        "counts the verdict “confirmed, or a similar pair” too. Standard errors in () are over sets. "
        "*Codes*: two columns are codes of ten values without an order; *120 codes*, *500 codes*: the first column is "
        "a code of so many values, each with an effect of its own. *Blocks*: rows in "
        f"blocks of {ROWS_PER_BLOCK}, with half of the variance of columns and noise between blocks, passed as "
        f"`blocks`. *Missing*: {SHARE_MISSING:.0%} of the values of all columns, at random, after y was made of them.",
        f"*Written by the runner; {machine_line()}.*",
        markdown_table(heading, lines, texts=(0, 1, 2)),
        f"Without any interaction, {len(of_all):,} sets: {pooled}.",
    ]


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for setting, of_setting in _rates(trials).items():
        row: dict[str, Any] = {"truth": setting.truth, "response": setting.response, "model": setting.model}
        row |= {"correlation": setting.correlation, "n_rows": setting.n_rows, "sets": of_setting["sets"]}
        for name in QUANTITIES:
            if of_setting[name] is not None:
                share, error = of_setting[name]
                lines.append(row | {"quantity": name, "share": share, "standard_error": error})
    return lines


run = Measurement("interactions", 100, _tasks, _parts, _lines).run
