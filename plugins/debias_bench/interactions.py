"""Level and power of the test of interactions, by simulation with fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


def _additive(x: Array) -> Array:
    """Return lines, a curve and a threshold: no interaction."""
    return 2 * x[:, 0] + 2 * x[:, 1] + 2 * np.sin(2 * x[:, 2]) + 4 * (x[:, 3] > 0)


def _friedman(x: Array) -> Array:
    """Return the first function of Friedman (1991), of uniform columns."""
    from scipy.special import ndtr

    u = ndtr(x)
    return 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2 + 10 * u[:, 3] + 5 * u[:, 4]


TRUTHS: dict[str, tuple[Callable[[Array], Array], tuple[tuple[int, int], ...]]] = {
    "additive": (_additive, ()),
    "product": (lambda x: _additive(x) + 1.2 * x[:, 0] * x[:, 1], ((0, 1),)),
    "exclusive or": (lambda x: _additive(x) + 2.0 * np.sign(x[:, 4] * x[:, 5]), ((4, 5),)),
    "three together": (
        lambda x: _additive(x) + 3.0 * np.sign(x[:, 4] * x[:, 5] * x[:, 6]),
        ((4, 5), (4, 6), (5, 6)),
    ),
    "Friedman 1": (_friedman, ((0, 1),)),
}
"""Functions of the columns, and the pairs that work together in them."""
RESPONSES = ("number", "t3 columns", "skewed noise", "class", "rare class", "count")
MODELS = ("XGBoost, depth 3", "XGBoost, depth 6", "forest", "LightGBM")


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
        Setting(response="class", model=MODELS[1], correlation=0.9),
        *(Setting(truth=truth, correlation=rho) for truth in list(TRUTHS)[1:] for rho in (0.0, 0.5)),
        *(Setting(truth="product", response=response, correlation=0.0) for response in ("class", "count")),
        Setting(truth="Friedman 1", model="forest"),
    ]


def drawn(setting: Setting, rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Return X and y of a setting.

    Parameters
    ----------
    setting : Setting
    rng : numpy.random.Generator
    n_rows : int
    """
    rho = setting.correlation
    x = np.sqrt(1 - rho) * rng.normal(size=(n_rows, N_COLUMNS)) + np.sqrt(rho) * rng.normal(size=(n_rows, 1))
    if setting.response == "t3 columns":
        x /= np.sqrt(rng.chisquare(3, size=(n_rows, 1)) / 3)
    effect = TRUTHS[setting.truth][0](x)
    scaled = (effect - effect.mean()) / effect.std()
    if setting.response in ("class", "rare class"):
        log_odds = 1.5 * scaled - 3 * (setting.response == "rare class")
        return x, (rng.random(n_rows) < 1 / (1 + np.exp(-log_odds))).astype(np.float64)
    if setting.response == "count":
        return x, rng.poisson(np.exp(0.5 + 0.6 * scaled)).astype(np.float64)
    noise = rng.normal(size=n_rows)
    if setting.response == "skewed noise":
        noise = (np.exp(noise) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)  # lognormal, mean 0, variance 1
    return x, effect + 2 * noise


def _model(setting: Setting, seed: int) -> Any:
    is_class = setting.response in ("class", "rare class")
    if setting.model == "forest":
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        return (RandomForestClassifier if is_class else RandomForestRegressor)(50, random_state=seed)
    of_trees: dict[str, Any] = {"n_estimators": 100, "learning_rate": 0.1, "random_state": seed, "n_jobs": 1}
    if setting.model == "LightGBM":
        from lightgbm import LGBMClassifier, LGBMRegressor

        return (LGBMClassifier if is_class else LGBMRegressor)(verbose=-1, **of_trees)
    from xgboost import XGBClassifier, XGBRegressor

    of_trees["max_depth"] = int(setting.model[-1])
    if setting.response == "count":
        of_trees["objective"] = "count:poisson"
    return (XGBClassifier if is_class else XGBRegressor)(**of_trees)


def _trial(setting: Setting, number: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed_of(np.random.default_rng(list(setting.name.encode()))), number])
    X, y = drawn(setting, rng, N_TRAINING_ROWS + setting.n_rows)
    model = _model(setting, seed_of(rng)).fit(X[:N_TRAINING_ROWS], y[:N_TRAINING_ROWS])
    found = debias.interactions(model, X[N_TRAINING_ROWS:], y[N_TRAINING_ROWS:], rows="held-out", error_rate=ALPHA)
    is_true = np.array([tuple(pair) in TRUTHS[setting.truth][1] for pair in found.pairs.tolist()], dtype=bool)
    false, n_true = found.tested & ~is_true, len(TRUTHS[setting.truth][1])
    confirmed = found.p_adjusted <= ALPHA
    scores = {
        "single": float((found.p_value[false] <= ALPHA).mean()) if false.any() else 0.0,
        "any false": bool(confirmed[false].any()),
        "true found": float(confirmed[is_true].sum() / n_true) if n_true else None,
    }
    return {"design": setting.name, "repeat": number, "scores": scores}


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for number in range(repeats):
        yield from ((setting.name, number, _trial, setting, number) for setting in settings())


def _rates(trials: list[dict[str, Any]]) -> dict[Setting, dict[str, Any]]:
    """Return, for each setting, the number of sets, and the mean and standard error of each quantity."""
    rates = {}
    for setting in settings():
        of_sets = [trial["scores"] for trial in trials if trial["design"] == setting.name]
        rates[setting] = {"sets": len(of_sets)} | {
            name: _mean([float(scores[name]) for scores in of_sets if scores[name] is not None])
            for name in ("single", "any false", "true found")
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
    heading = ["truth", "response", "model", "correlation", "rows", "sets", "single pairs", "any false", "true found"]
    lines = []
    for setting, of_setting in _rates(trials).items():
        cells = [setting.truth, setting.response, setting.model, f"{setting.correlation:g}", f"{setting.n_rows:,}"]
        values = [of_setting[name] for name in ("single", "any false", "true found")]
        lines.append([*cells, str(of_setting["sets"]), *("-" if each is None else with_error(each) for each in values)])
    of_all = [
        scores for trial in trials if not TRUTHS[trial["design"].split(", ")[0]][1] for scores in [trial["scores"]]
    ]
    pooled = "; ".join(
        f"{words} {with_error(estimate)}"
        for words, name in (("single pairs", "single"), ("any false pair", "any false"))
        if (estimate := _mean([float(scores[name]) for scores in of_all])) is not None
    )
    return [
        "# Which interactions are confirmed?",
        f"`debias bench interactions`: {N_COLUMNS} columns, {N_TRAINING_ROWS:,} training rows, and the test of all "
        "pairs on fresh rows ([what it is](../interactions.md)). *Single pairs*: the share of p-values of at most "
        f"{ALPHA:g} among the pairs that do not work together. *Any false*: the share of sets in which such a pair is "
        f"confirmed, at a family-wise error rate of {ALPHA:.0%}. *True found*: the share of the pairs that work "
        "together which are confirmed. Standard errors in () are over sets.",
        f"*Written by the runner; {machine_line()}.*",
        markdown_table(heading, lines, texts=(0, 1, 2)),
        f"All additive truths together, {len(of_all):,} sets: {pooled}.",
    ]


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for setting, of_setting in _rates(trials).items():
        row: dict[str, Any] = {"truth": setting.truth, "response": setting.response, "model": setting.model}
        row |= {"correlation": setting.correlation, "n_rows": setting.n_rows, "sets": of_setting["sets"]}
        for name in ("single", "any false", "true found"):
            if of_setting[name] is not None:
                share, error = of_setting[name]
                lines.append(row | {"quantity": name, "share": share, "standard_error": error})
    return lines


run = Measurement("interactions", 100, _tasks, _parts, _lines).run
