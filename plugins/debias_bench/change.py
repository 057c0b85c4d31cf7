"""Error rates and power of the comparison of two windows of a history, by simulation with fixed seeds.

Each trial trains a model, draws the periods of two windows, and compares them. Eight features: four are relevant, one
of them weakly, and four are noise.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from debias import DebiasWarning
from debias.data.groups import Grouping
from debias.p_values import holm
from debias.rows.period_sums import PeriodSums
from debias.rows.preparation import batch_rows
from debias.significance.change import LEAST, compare_windows
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, with_error
from debias_bench.runner import machine_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

N_FEATURES = 8
N_TRAINING_ROWS = 2000
ALPHA = 0.05
MODELS = ("XGBoost", "XGBoost, classes", "forest")
ABSOLUTE_ERROR, FOREST_OF_CLASSES = "XGBoost, absolute error", "forest, classes"
INTERACTIONS = "interactions"
MANY = 60
"""Settings with more periods than this are simulated last."""


@dataclass(frozen=True)
class Setting:
    """Two windows of one kind of stream.

    Parameters
    ----------
    table, name : str
        Heading of the table, and of the row in it.
    before, after : int
        Number of periods in each window.
    n_rows : int
        Number of rows of a period.
    response : {"additive", "interactions"}
        Whether the first features act alone, or also by their product.
    drift : {None, "mean", "correlation", "spread", "rare"}
        How X differs in the window after: the means of two features moved by half a standard deviation; two noise
        features are correlated .6 with relevant ones; all standard deviations are 1.3 times as large; rows in one
        corner are three times as frequent.
    target : int
        The feature whose effect changes.
    factor : float
        Factor of this effect in the window after.
    sizes : bool
        Whether periods have between half and one and a half times as many rows.
    day_slope, day_mean : float
        Standard deviation, between periods, of the effect of the first feature and of its mean.
    memory : float
        Correlation of these deviations from one period to the next.
    weighted : bool
        Whether rows have weights, between 0 and 2.
    n_rows_after : int, optional
        Number of rows of a period in the window after, if it is another.
    """

    table: str
    name: str
    before: int = 10
    after: int = 10
    n_rows: int = 500
    response: str = "additive"
    drift: str | None = None
    target: int = 0
    factor: float = 1.0
    sizes: bool = False
    day_slope: float = 0.0
    day_mean: float = 0.0
    memory: float = 0.0
    weighted: bool = False
    n_rows_after: int | None = field(default=None, repr=False)  # seeds come from the others

    @property
    def until(self) -> Setting:
        """The setting without what happens in the window after."""
        return replace(self, table="", name="", after=0, drift=None, target=0, factor=1.0, n_rows_after=None)

    def key(self, model: str) -> str:
        """Name of the setting and a model in the file of trials."""
        return f"{self.table} / {self.name} / {model}"


NULL, DAYS, X_ONLY, POWER = "Nothing changes", "Days differ as a whole", "Only X drifts", "One effect changes"


def settings() -> list[Setting]:
    """Return the settings of all tables."""
    x_drifts = [("mean", "two means by half a standard deviation"), ("correlation", "two correlations from 0 to .6")]
    x_drifts += [("spread", "all standard deviations by 1.3"), ("rare", "rows of a corner are 3 times as frequent")]
    effects = [(0.75, "x0 by a quarter"), (0.5, "x0 to half"), (0.0, "x0 to zero"), (-1.0, "x0 changes its sign")]
    effects += [(1.5, "x0 grows by half")]
    return [
        Setting(NULL, "10 periods of 500 rows, and 10"),
        Setting(NULL, "10 and 10, interactions", response=INTERACTIONS),
        Setting(NULL, "30 and 8 periods of 200 rows", 30, 8, 200),
        Setting(NULL, "60 and 60 periods of 100 rows", 60, 60, 100),
        Setting(NULL, "10 and 10 of 250 to 750 rows", sizes=True),
        Setting(NULL, "10 and 10, weights from 0 to 2", weighted=True),
        Setting(NULL, "30 periods and 1 of 500 rows", 30, 1),
        Setting(NULL, "30 periods of 500 rows, and 1 of 10", 30, 1, n_rows_after=10),
        Setting(NULL, "30 periods of 500 rows, and 1 of 40", 30, 1, n_rows_after=40),
        Setting(NULL, "3 and 3 periods of 1,000 rows", 3, 3, 1000),
        Setting(NULL, "1 and 1 period of 2,000 rows", 1, 1, 2000),
        Setting(DAYS, "slope and mean of x0, 10 and 10", day_slope=0.2, day_mean=0.3),
        Setting(DAYS, "slope and mean of x0, 30 and 1", 30, 1, day_slope=0.2, day_mean=0.3),
        Setting(DAYS, "slope and mean of x0, 3 and 3", 3, 3, day_slope=0.2, day_mean=0.3),
        Setting(DAYS, "the same with memory .7, 10 and 10", day_slope=0.2, day_mean=0.3, memory=0.7),
        Setting(DAYS, "the same with memory .7, 60 and 60", 60, 60, 100, day_slope=0.2, day_mean=0.3, memory=0.7),
        *(Setting(X_ONLY, f"{words}, additive", drift=drift) for drift, words in x_drifts),
        *(Setting(X_ONLY, f"{words}, interactions", drift=drift, response=INTERACTIONS) for drift, words in x_drifts),
        *(Setting(POWER, words, factor=factor) for factor, words in effects),
        Setting(POWER, "x0 to half, 10 and 10 of 100 rows", factor=0.5, n_rows=100),
        Setting(POWER, "x0 to half, 3 and 3 of 500 rows", 3, 3, factor=0.5),
        Setting(POWER, "the weak x3 to zero", target=3, factor=0.0),
        Setting(POWER, "x0 to half while two means move", factor=0.5, drift="mean"),
    ]


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for many in (False, True):  # many periods take longest
        for repeat in range(repeats):
            for setting in settings():
                if (setting.before + setting.after > MANY) == many:
                    yield from ((setting.key(model), repeat, _trial, setting, model, repeat) for model in MODELS)


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    return [
        "# Error rates and power of the comparison of windows",
        f"`debias bench monitor`: a model is trained on {N_TRAINING_ROWS:,} rows, and the periods of two windows "
        f"are compared, at a family-wise error rate of {ALPHA:.0%} ([how](../methods.md)). Eight features, "
        "standard normal: x0, x1 and x2 are relevant, x3 weakly, and x4 to x7 are noise. Shares of trials, with "
        "standard errors in ().",
        f"*false change*: the response of any feature is called changed that did not change. *least 0*: the same "
        f"with `least=0`, which tests for any change of a slope, not for one of more than {LEAST}. *shift*: the "
        "rows are called shifted at the splits of any feature. *false fading*: any feature is called faded that "
        "did not change. *noise found*: a feature of noise is called informative in the window before or in the "
        "window after, which are two tests of 5 %. In a model of classes the probability depends less on a "
        "feature the more it depends on others, so the other effects do change a little if one does.",
        f"*Written by the runner; {machine_line()}.*",
        *_unfinished(trials, repeats),
        *(part for table in (NULL, DAYS, X_ONLY, POWER) for part in (f"## {table}", _table(trials, table))),
    ]


def outcome(setting: Setting, model: str, number: int) -> dict[str, bool]:
    """Train a model, draw two windows, and compare them.

    Parameters
    ----------
    setting : Setting
    model : str
        One of MODELS.
    number : int
        Number of the trial; the same number gives the same model in all settings of one response.

    Returns
    -------
    dict of str to bool
        ``false`` and ``false, least 0``: whether a feature is called changed that did not change. ``false fading``:
        whether such a feature is called faded. ``shift``: whether any feature is called shifted. ``noise``: whether a
        feature of noise is called informative in a window. ``found``, ``faded``: whether the target is called changed,
        and faded.
    """
    from scipy.stats import t as student

    empty = _empty(model, setting.response, number)
    before, after = _window(setting.until, model, number, False), _window(setting, model, number, True)
    grouping = Grouping.of(None, empty.ensemble.feature_names)
    found = compare_windows(before, after, grouping, alpha=ALPHA)
    changed_at_all = holm(2 * student.sf(np.abs(found.t), found.degrees_of_freedom)) <= ALPHA
    same = np.ones(N_FEATURES, dtype=bool)
    if setting.factor != 1:
        same[setting.target] = False
    return {
        "false": bool(found.changed[same].any()),
        "false, least 0": bool(changed_at_all[same].any()),
        "false fading": bool(found.faded[same].any()),
        "shift": bool(found.shifted.any()),
        "noise": bool((found.informative_before | found.informative_after)[4:].any()),
        "found": bool(found.changed[setting.target]),
        "faded": bool(found.faded[setting.target]),
    }


@lru_cache(maxsize=6)
def _empty(model: str, response: str, number: int) -> PeriodSums:
    """Return sums over no rows of a fitted model."""
    rng = np.random.default_rng([number, MODELS.index(model), response == INTERACTIONS])
    X = rng.normal(size=(N_TRAINING_ROWS, N_FEATURES))
    return PeriodSums(fitted(model, X, _response(rng, X, response, model, np.ones(4)), number))


@lru_cache(maxsize=12)
def _window(setting: Setting, model: str, number: int, after: bool) -> list[PeriodSums]:
    """Return the periods of a window. Settings with the same window before share it in a trial."""
    empty = _empty(model, setting.response, number)
    rng = np.random.default_rng([number, MODELS.index(model), crc32(repr(setting).encode()), after])
    deviation, window = rng.normal(size=2), []
    for _ in range(setting.after if after else setting.before):
        n_rows = (setting.n_rows_after if after else None) or setting.n_rows
        n_rows = int(n_rows * rng.uniform(0.5, 1.5)) if setting.sizes else n_rows
        factor = np.ones(4)
        if after:
            factor[setting.target] = setting.factor
        factor[0] += setting.day_slope * deviation[0]
        X = _rows(rng, n_rows, setting.drift if after else None)
        X[:, 0] += setting.day_mean * deviation[1]
        y = _response(rng, X, setting.response, model, factor)
        sums = empty.empty()
        weight = rng.uniform(0, 2, n_rows) if setting.weighted else None
        sums.add_rows(batch_rows(empty.model, empty.ensemble, X, y, weight, empty.notes, 1, False))
        window.append(sums)
        deviation = setting.memory * deviation + np.sqrt(1 - setting.memory**2) * rng.normal(size=2)
    return window


def _rows(rng: np.random.Generator, n_rows: int, drift: str | None) -> NDArray[np.float64]:
    X = rng.normal(size=(n_rows, N_FEATURES))
    if drift == "mean":
        X[:, :2] += 0.5
    elif drift == "correlation":
        X[:, 4:6] = 0.6 * X[:, :2] + 0.8 * X[:, 4:6]
    elif drift == "spread":
        X *= 1.3
    elif drift == "rare":
        more = rng.normal(size=(8 * n_rows, N_FEATURES))
        kept = (more[:, 0] > 0) & (more[:, 1] > 0) | (rng.random(len(more)) < 1 / 3)
        X = more[kept][:n_rows]
    return X


def _response(
    rng: np.random.Generator, X: NDArray[np.float64], response: str, model: str, factor: NDArray[np.float64]
) -> NDArray[np.float64]:
    parts = [X[:, 0], np.sin(2 * X[:, 1]), np.abs(X[:, 2]), 0.3 * X[:, 3]]
    if response == INTERACTIONS:
        parts[1] = X[:, 0] * X[:, 1]
    mean = sum(each * part for each, part in zip(factor, parts, strict=True))
    if model == "XGBoost, classes":
        return (rng.random(len(X)) < 1 / (1 + np.exp(-2 * (mean - 0.8)))).astype(np.float64)
    noisy: NDArray[np.float64] = mean + rng.normal(size=len(X))
    return noisy


def fitted(model: str, X: NDArray[np.float64], y: NDArray[np.float64], seed: int) -> Any:
    """Return a model of a kind, of MODELS, ABSOLUTE_ERROR or FOREST_OF_CLASSES, trained on these rows."""
    if model in ("forest", FOREST_OF_CLASSES):
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        of_kind = RandomForestRegressor if model == "forest" else RandomForestClassifier
        return of_kind(20, min_samples_leaf=5, max_features=0.5, random_state=seed).fit(X, y)
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBClassifier if model == "XGBoost, classes" else XGBRegressor
    objective = {"objective": "reg:absoluteerror"} if model == ABSOLUTE_ERROR else {}
    settings = {"n_estimators": 60, "max_depth": 3, "learning_rate": 0.15, "n_jobs": 1, "random_state": seed}
    return kind(**settings, **objective).fit(X, y)


def _trial(setting: Setting, model: str, repeat: int) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DebiasWarning)
        result = outcome(setting, model, repeat)
    return {
        "design": setting.key(model),
        "repeat": repeat,
        "scores": {key: int(value) for key, value in result.items()},
    }


def rates_of(trials: list[dict[str, Any]], design: str) -> tuple[int, dict[str, tuple[float, float]]]:
    """Return the number of trials of a design, and the share with each outcome, with its standard error.

    An outcome that is None is left out of its share.
    """
    outcomes = [trial["scores"] for trial in trials if trial["design"] == design]
    rates = {}
    for key in outcomes[0] if outcomes else ():
        known = [each[key] for each in outcomes if each[key] is not None]
        if known:
            share = float(np.mean(known))
            # The error of a share of 0 or 1 is that of one trial more.
            inner = min(max(share, 1 / len(known)), 1 - 1 / len(known))
            rates[key] = share, float(np.sqrt(inner * (1 - inner) / len(known)))
    return len(outcomes), rates


def _unfinished(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    """Return a paragraph about rows with fewer trials than wanted, if there are any."""
    fewest = min(rates_of(trials, setting.key(model))[0] for setting in settings() for model in MODELS)
    if fewest >= repeats:
        return []
    return [
        f"The run was stopped before each row had its {repeats} trials, so some rows have fewer, and settings without "
        "trials are left out. The same command continues it."
    ]


def _table(trials: list[dict[str, Any]], table: str) -> str:
    columns = {"false": "false change", "false, least 0": "least 0", "false fading": "false fading", "shift": "shift"}
    if table in (NULL, DAYS):
        columns |= {"noise": "noise found"}
    if table == POWER:
        columns = {"found": "found", "faded": "called faded"} | columns
    lines = []
    for setting in settings():
        for model in MODELS if setting.table == table else ():
            n, rates = rates_of(trials, setting.key(model))
            if not n:
                continue  # a run that was stopped
            shown = [with_error(rates[key]) for key in columns]
            lines.append([setting.name, model, str(n), *shown])
    return markdown_table(["windows", "model", "trials", *columns.values()], lines, texts=(0, 1))


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for setting in settings():
        for model in MODELS:
            n, rates = rates_of(trials, setting.key(model))
            for key, (share, error) in rates.items():
                row = {"table": setting.table, "windows": setting.name, "model": model, "trials": n}
                lines.append(row | {"outcome": key, "share": share, "standard_error": error})
    return lines


run = Measurement("monitor", 200, _tasks, _parts, _lines).run
