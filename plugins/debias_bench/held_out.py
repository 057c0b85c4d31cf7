"""Error rates and power of the tests on held-out rows: of residuals, of scores, and of `ablation`.

Every trial draws new training rows, trains a model, and draws new rows to test on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.api.prepared import prepared_members
from debias.rows.request import Request
from debias.significance.procedure import Procedure
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, with_error
from debias_bench.runner import machine_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

ALPHA = 0.05
TESTS = {"residuals": "residuals (default)", "scores": "permuted response", "ablation": "`ablation`"}
MODELS = ("XGBoost .1, depth 3", "XGBoost .3, depth 6", "LightGBM", "forest")
N_NOISE, N_PERMUTATIONS = 12, 199


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of one data set, training rows first.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    y : array of shape (n_rows,)
    relevant : array of bool of shape (n_features,)
    noise : array of bool of shape (n_features,), or None
        Features that are independent of the response; None: those that are not relevant.
    weight, block : arrays of shape (n_rows,), or None
    """

    X: Array
    y: NDArray[Any]
    relevant: NDArray[np.bool_]
    noise: NDArray[np.bool_] | None = None
    weight: Array | None = None
    block: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Setting:
    """One line of the tables.

    Parameters
    ----------
    table : {"level", "power"}
    name : str
    draw : callable
        ``draw(rng, n_rows)`` returns a Sample.
    n_rows : tuple of int
        Numbers of training rows and of held-out rows.
    models : tuple of str
        The model of trial i is the i-th of these, in turn.
    """

    table: str
    name: str
    draw: Callable[[np.random.Generator, int], Sample]
    n_rows: tuple[int, int]
    models: tuple[str, ...] = MODELS


def settings() -> list[Setting]:
    """Return the settings of the tables."""
    level = [
        Setting("level", f"{name}, {n} rows", partial(_of_noise, response=response), (max(n, 200), n))
        for name, response in RESPONSES.items()
        for n in (100, 300, 1000)
    ]
    level += [
        Setting("level", f"beside signals, {n} rows", _beside_signals, (max(n, 200), n)) for n in (100, 300, 1000)
    ]
    level += [
        Setting("level", f"{name}, 300 rows", draw, (300, 300))
        for name, draw in {
            "random weights": partial(_weighted, balanced=False),
            "weights of classes, 10 %": partial(_weighted, balanced=True),
            "blocks of 5": partial(_clustered, unequal=False),
            "blocks of 1 to 12": partial(_clustered, unequal=True),
            "blocks of 1 to 12, 10 % of class 1": partial(_clustered, unequal=True, share=0.1),
        }.items()
    ]
    level.append(Setting("level", "normal, 4,000 rows (signs)", partial(_of_noise, response=_normal), (1000, 4000)))
    boosted = MODELS[:3]
    power = [
        Setting(
            "power", "correlated .85, sd 1", partial(_correlated, deviation=1), (1000, 1000), ("XGBoost .3, depth 3",)
        ),
        Setting(
            "power", "correlated .85, sd 5", partial(_correlated, deviation=5), (1000, 1000), ("XGBoost .3, depth 3",)
        ),
        *(
            Setting("power", f"{name}, 200 rows", partial(_skewed, response=response), (200, 200), boosted)
            for name, response in SKEWED.items()
        ),
        *(
            Setting("power", f"{name}, {n} rows", partial(_few, name=name), (300, n))
            for name in MEANS
            for n in (50, 100)
        ),
        Setting("power", "heteroscedastic, 1,000 rows", _heteroscedastic, (1000, 1000), boosted),
        Setting("power", "class of 5 %, 100 rows", _rare, (1000, 100)),
        Setting("power", "class of 5 %, 300 rows", _rare, (1000, 300)),
        Setting("power", "three relevant of eleven, three classes, 100 rows", _three, (300, 100)),
        Setting(
            "power", "additive, blocks of 1 to 12, 300 rows", partial(_few, name="additive", unequal=True), (300, 300)
        ),
    ]
    return [*level, *power]


def trial(setting: Setting, number: int) -> dict[str, list[float]]:
    """Return for each test the share of noise with p <= .05, whether any is found, and the share found of the rest."""
    rng = np.random.default_rng([sum(map(ord, setting.name)), number])
    n_train, n_held_out = setting.n_rows
    sample = setting.draw(rng, n_train + n_held_out)
    classes = sample.y.dtype.kind == "i" and np.unique(sample.y).size <= 5
    model = _model(setting.models[number % len(setting.models)], classes, number)
    model.fit(sample.X[:n_train], sample.y[:n_train])
    new = slice(n_train, None)
    weight = None if sample.weight is None else sample.weight[new]
    block = None if sample.block is None else sample.block[new]
    rows = debias.Dataset(sample.X[new], sample.y[new], sample_weight=weight, blocks=block)
    unequal = block is not None and np.ptp(np.unique(block, return_counts=True)[1]) > 0
    permuted: dict[str, Any] = {"n_permutations": N_PERMUTATIONS, "adaptive": False}
    tests: dict[str, Any] = {
        "residuals": debias.Permutation(**permuted),
        "scores": "naive" if unequal else debias.Permutation(**permuted, of="response"),
    }
    tested, ablation = debias.plugin.scorer("mdi_oob"), debias.plugin.scorer("ablation")
    request = Request.of(model, rows, rows="held-out", random_state=number)
    (prepared,) = prepared_members(request, [tested, ablation], known=True)  # the rows are fresh: nothing to recognise
    scores = {"ablation": prepared.score(ablation)}
    untested = prepared.score(tested)
    for name, test in tests.items():
        procedure = Procedure.of(test, ALPHA)
        assert procedure is not None
        scores[name] = prepared.test(untested, tested, procedure)
    found = {}
    for name, each in scores.items():
        assert each.p_value is not None
        assert each.p_adjusted is not None
        noise = ~sample.relevant if sample.noise is None else sample.noise
        selected = each.p_adjusted <= ALPHA
        relevant = selected[sample.relevant].mean() if sample.relevant.any() else np.nan
        found[name] = [float((each.p_value[noise] <= ALPHA).mean()), float(selected[noise].any()), float(relevant)]
    return found


def _model(name: str, classes: bool, seed: int) -> Any:
    if name.startswith("XGBoost"):
        from xgboost import XGBClassifier, XGBRegressor

        rate, depth = float(name[8:10]), int(name[-1])
        kind = XGBClassifier if classes else XGBRegressor
        return kind(n_estimators=100, learning_rate=rate, max_depth=depth, random_state=seed, n_jobs=1)
    if name == "LightGBM":
        from lightgbm import LGBMClassifier, LGBMRegressor

        return (LGBMClassifier if classes else LGBMRegressor)(
            n_estimators=60, num_leaves=15, random_state=seed, n_jobs=1, verbose=-1
        )
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    return (RandomForestClassifier if classes else RandomForestRegressor)(60, random_state=seed, n_jobs=1)


def _noise(rng: np.random.Generator, n: int) -> Array:
    """Draw columns with few values, rare ones, heavy tails, and some that depend on one another."""
    X = rng.normal(size=(n, N_NOISE))
    X[:, :3] = rng.integers(0, [2, 4, 20], (n, 3))
    X[:, 3] = rng.random(n) < 0.05
    X[:, 4], X[:, 5] = rng.standard_t(2, n), rng.lognormal(0, 1.5, n)
    X[:, 6] = rng.poisson(1.0, n)
    X[:, 8] = 0.95 * X[:, 7] + 0.3 * X[:, 8]
    X[:, 9] = X[:, 7] ** 2 + rng.normal(size=n)
    return X


def _normal(rng: np.random.Generator, n: int) -> Array:
    return rng.normal(size=n)


RESPONSES: dict[str, Callable[[np.random.Generator, int], NDArray[Any]]] = {
    "normal": _normal,
    "exp(2x) lognormal": lambda rng, n: np.exp(2 * rng.normal(size=n)),
    "counts": lambda rng, n: rng.poisson(rng.gamma(0.5, 2.0, n)).astype(float),
    "5 % of class 1": lambda rng, n: (np.arange(n) % 20 == 0)[rng.permutation(n)].astype(np.int64),
    "three classes": lambda rng, n: rng.choice(3, n, p=[0.6, 0.3, 0.1]),
}


def _of_noise(rng: np.random.Generator, n: int, response: Callable[[np.random.Generator, int], NDArray[Any]]) -> Sample:
    return Sample(_noise(rng, n), response(rng, n), np.zeros(N_NOISE, dtype=bool))


def _beside_signals(rng: np.random.Generator, n: int) -> Sample:
    """Three relevant columns with heteroscedastic noise, beside columns of noise."""
    signal = rng.normal(size=(n, 3))
    y = signal[:, 0] + signal[:, 1] * signal[:, 2] + np.exp(0.5 * signal[:, 0]) * rng.normal(size=n)
    return Sample(np.column_stack([_noise(rng, n), signal]), y, np.arange(N_NOISE + 3) >= N_NOISE)


def _weighted(rng: np.random.Generator, n: int, balanced: bool) -> Sample:
    y = (rng.random(n) < 0.1).astype(np.int64) if balanced else rng.normal(size=n)
    weight = np.where(y == 1, 9.0, 1.0) if balanced else rng.exponential(size=n)
    return Sample(_noise(rng, n), y, np.zeros(N_NOISE, dtype=bool), weight=weight)


def _blocks(rng: np.random.Generator, n: int, unequal: bool) -> NDArray[np.int64]:
    size = rng.integers(1, 13, n) if unequal else np.full(n, 5)
    return np.repeat(np.arange(n), size)[:n]


def _clustered(rng: np.random.Generator, n: int, unequal: bool, share: float | None = None) -> Sample:
    """Draw columns and a response of which half of the variance is between blocks."""
    block = _blocks(rng, n, unequal)
    X = np.where(rng.random((n, N_NOISE)) < 0.5, _noise(rng, n)[block], _noise(rng, n))
    y = (rng.normal(size=n)[block] + rng.normal(size=n)) / np.sqrt(2)
    response = y if share is None else (y > np.quantile(y, 1 - share)).astype(np.int64)
    return Sample(X, response, np.zeros(N_NOISE, dtype=bool), block=block)


def _correlated(rng: np.random.Generator, n: int, deviation: float) -> Sample:
    """Nine relevant columns, most of them correlated by .85, with other distributions, and ten of noise."""
    common = rng.normal(size=(n, 1))
    X = np.sqrt(0.85) * common + np.sqrt(0.15) * rng.normal(size=(n, 6))
    other = np.column_stack([rng.poisson(3, n), rng.standard_t(5, n), rng.integers(0, 2, n)])
    X = np.column_stack([X, other, rng.normal(size=(n, 5)), _noise(rng, n)[:, :5]])
    mean = 3 + 4 * X[:, 0] + X[:, 0] * X[:, 1] + 3 * X[:, 2] ** 2 + 2 * X[:, 3] + 3 * X[:, 4] + 2 * X[:, 5]
    mean += 4 * X[:, 6] + 3 * X[:, 7] + 5 * X[:, 8]
    return Sample(X, mean + deviation * rng.normal(size=n), np.arange(19) < 9)


SKEWED: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "exp(2x) lognormal .3": lambda rng, x: np.exp(2 * x) * rng.lognormal(0, 0.3, x.size),
    "lognormal 1": lambda rng, x: np.exp(x) * rng.lognormal(0, 1, x.size),
    "claims, 80 % zero": lambda rng, x: (rng.random(x.size) < 0.2) * rng.gamma(1, 1000 * np.exp(0.7 * x)),
    "counts, overdispersed": lambda rng, x: rng.poisson(rng.gamma(0.5, 2 * np.exp(0.6 * x))).astype(float),
    "Student 1.5": lambda rng, x: x + rng.standard_t(1.5, x.size),
}


def _skewed(rng: np.random.Generator, n: int, response: Callable[[np.random.Generator, Array], Array]) -> Sample:
    x = rng.normal(size=n)
    return Sample(np.column_stack([x, _noise(rng, n)[:, :9]]), response(rng, x), np.arange(10) < 1)


MEANS: dict[str, tuple[Callable[[Array], Array], int]] = {
    "additive": (lambda X: X[:, 0] + np.abs(X[:, 1]) + (X[:, 2] > 0), 3),
    "interactions": (lambda X: 2 * (X[:, 0] > 0) * X[:, 1] + X[:, 2] * X[:, 3], 4),
    "weak": (lambda X: 0.4 * X[:, :4].sum(axis=1), 4),
    "one strong": (lambda X: 3 * X[:, 0] + 0.6 * X[:, 1] + 0.6 * X[:, 2], 3),
}
"""Means of y, and the number of columns on which they depend, the first ones."""


def _few(rng: np.random.Generator, n: int, name: str, unequal: bool = False) -> Sample:
    mean, n_relevant = MEANS[name]
    X = np.column_stack([rng.normal(size=(n, 4)), _noise(rng, n)[:, :8]])
    block, noise = None, rng.normal(size=n)
    if unequal:
        block = _blocks(rng, n, unequal)
        noise = (rng.normal(size=n)[block] + noise) / np.sqrt(2)
    return Sample(X, mean(X) + noise, np.arange(12) < n_relevant, block=block)


def _heteroscedastic(rng: np.random.Generator, n: int) -> Sample:
    """Draw a mean that depends on one column, and a standard deviation that depends much more on another one."""
    X = np.column_stack([rng.normal(size=(n, 2)), _noise(rng, n)[:, :8]])
    y = X[:, 0] + np.exp(2 * X[:, 1]) * rng.normal(size=n)
    return Sample(X, y, np.arange(10) < 1, noise=np.arange(10) > 1)


def _rare(rng: np.random.Generator, n: int) -> Sample:
    X = np.column_stack([rng.normal(size=(n, 2)), _noise(rng, n)[:, :8]])
    tendency = X[:, 0] + X[:, 1] + rng.normal(size=n)
    return Sample(X, (tendency > np.quantile(tendency, 0.95)).astype(np.int64), np.arange(10) < 2)


def _three(rng: np.random.Generator, n: int) -> Sample:
    X = np.column_stack([rng.normal(size=(n, 3)), _noise(rng, n)[:, :8]])
    tendency = np.column_stack([X[:, 0], X[:, 1] * X[:, 2], np.zeros(n)]) + rng.gumbel(size=(n, 3))
    return Sample(X, tendency.argmax(axis=1), np.arange(11) < 3)


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        yield from ((setting.name, repeat, _trial, setting, repeat) for setting in settings())


def _trial(setting: Setting, repeat: int) -> dict[str, Any]:
    return {"design": setting.name, "repeat": repeat, "scores": trial(setting, repeat)}


def _estimates(trials: list[dict[str, Any]], names: list[str], test: str, which: int) -> tuple[float, float]:
    """Return a mean over trials of some settings, and its standard error; NaN if there is none."""
    values = np.array([each["scores"][test][which] for each in trials if each["design"] in names])
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    if which == 1 and values.size:  # a rate of 0 has an error too
        error = max(error, np.sqrt(max(values.mean(), 1 / values.size) * (1 - values.mean()) / values.size))
    return float(values.mean()) if values.size else np.nan, float(error)


def _table(trials: list[dict[str, Any]], table: str) -> str:
    chosen = [setting for setting in settings() if setting.table == table]
    figures = (0, 1) if table == "level" else (2, 1)
    lines = []
    names = [([setting.name], setting.name) for setting in chosen]
    for of_line, title in [*names, ([setting.name for setting in chosen], "**all**")]:
        n_sets = sum(each["design"] in of_line for each in trials)
        cells = [with_error(_estimates(trials, of_line, test, which)) for test in TESTS for which in figures]
        lines.append([title, f"{n_sets:,}", *cells])
    what = ("one by one", "any noise") if table == "level" else ("found", "any noise")
    heading = ["design", "sets", *(f"{test}: {each}" for test in TESTS.values() for each in what)]
    return markdown_table(heading, lines, texts=(0,))


def _by_model(trials: list[dict[str, Any]]) -> str:
    level = [setting for setting in settings() if setting.table == "level"]
    lines = []
    for place, model in enumerate(MODELS):
        some = [each for each in trials if each["repeat"] % len(MODELS) == place]
        names = [setting.name for setting in level]
        n_sets = sum(each["design"] in names for each in some)
        cells = [with_error(_estimates(some, names, test, which)) for test in TESTS for which in (0, 1)]
        lines.append([model, f"{n_sets:,}", *cells])
    heading = ["model", "sets", *(f"{test}: {each}" for test in TESTS.values() for each in ("one by one", "any noise"))]
    return markdown_table(heading, lines, texts=(0,))


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    return [
        "# Tests on held-out rows: how often noise is found, and how often relevant features",
        "`debias bench held-out`: each data set has its own training rows, model and held-out rows. Boosters have 100 "
        "trees (XGBoost) or 60 trees of 15 leaves (LightGBM), forests 60 trees; the models take turns. Boosters alone "
        "have skewed responses, and XGBoost alone, of depth 3 and rate .3, correlated columns. Standard errors in ().",
        f"The level is {ALPHA:.0%}: *one by one* is the share of noise features with a p-value of at most that, *any "
        "noise* how often any is found family-wise, *found* the share of relevant features that are found family-wise; "
        "[what the tests are](../significance.md). Noise has 2, 4 or 20 values, 5 % ones, heavy tails, counts, and "
        "columns that depend on one another. With blocks of different sizes the response is not permuted: the second "
        "test is then a t-test. With 100 rows and 5 % of class 1 fewer than ten rows are of that class, so the default "
        "is the second test.",
        f"*Written by the runner; {machine_line()}.*",
        "## Noise",
        _table(trials, "level"),
        "By model:",
        _by_model(trials),
        "## Relevant features",
        "*Heteroscedastic*: the column on which the mean depends is relevant; the one on which the standard deviation "
        "depends is not counted.",
        _table(trials, "power"),
    ]


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for setting in settings():
        for test in TESTS:
            for which, figure in enumerate(("one by one", "any noise", "found")):
                estimate, error = _estimates(trials, [setting.name], test, which)
                row = {"design": setting.name, "test": test, "figure": figure}
                lines.append(row | {"estimate": estimate, "standard_error": error})
    return lines


run = Measurement("held-out", 100, _tasks, _parts, _lines).run
