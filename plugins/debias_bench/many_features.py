"""Error rate of the default test of dependence where features are many, and lines are fitted in 20 trees of 40 only."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, lines_of_settings, rate, with_error
from debias_bench.runner import machine_line
from debias_bench.significance import unfinished
from debias_bench.significance_settings import seed_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias_bench.measurement import Estimate

N_TREES, FEW_TREES = 40, 20
FEWEST_ROWS = 200
ALPHA = 0.05
DEFAULT, ALL_TREES = "lines in 20 trees", "lines in all trees"
TESTS: dict[str, Any] = {DEFAULT: "auto", ALL_TREES: True}
"""The argument `dependence` of an audit, for each test. Both test the same data sets and forests."""


@dataclass(frozen=True)
class Setting:
    """One row of the table: features that are independent of the response, and a forest.

    Parameters
    ----------
    name : str
    n_rows, n_features : int
    response : callable
        ``response(rng, n_rows)`` draws the response; whole numbers are classes.
    correlation : float
        Correlation of each two features.
    """

    name: str
    n_rows: int
    n_features: int
    response: Callable[[np.random.Generator, int], NDArray[Any]]
    correlation: float = 0.0


def settings() -> list[Setting]:
    """Return the settings of the table."""
    skewed = partial(_numbers, skewed=True)
    return [
        Setting("200 rows, 60 features: two classes", 200, 60, _classes),
        Setting("200 rows, 60 features: numbers", 200, 60, _numbers),
        Setting("200 rows, 200 features: two classes", 200, 200, _classes),
        Setting("200 rows, 200 features correlated .8: two classes", 200, 200, _classes, 0.8),
        Setting("200 rows, 200 features: numbers", 200, 200, _numbers),
        Setting("200 rows, 200 features: skewed numbers", 200, 200, skewed),
        Setting("1,000 rows, 200 features correlated .8: classes of 9:1", 1000, 200, partial(_classes, share=0.1), 0.8),
        Setting("1,000 rows, 200 features: skewed numbers", 1000, 200, skewed),
        Setting("600 rows, 1,000 features: two classes", 600, 1000, _classes),
        Setting("600 rows, 1,000 features correlated .8: numbers", 600, 1000, _numbers, 0.8),
    ]


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        yield from ((setting.name, repeat, _trial, setting, repeat) for setting in settings())


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    found = estimates(trials)
    return [
        "# Error rate of the default test of dependence where features are many",
        "`debias bench many-features`: no feature says anything about the response. Where features are many, "
        '`dependence="auto"`, the default of an audit, fits [lines](../honest-effects.md) in fewer trees: in '
        f"{FEW_TREES} of {N_TREES} here. `dependence=True` fits them in all {N_TREES}, or in 33 where there are 1,000 "
        "features. The table shows the share of data sets in which any feature is found to be dependent, at a "
        f"family-wise error rate of {ALPHA:.0%}, with standard errors in (). Both tests have the same data sets, "
        "forests and permutations, so the standard error of the difference is that of pairs.",
        f"*Written by the runner; {machine_line()}.*",
        _table(found),
        *unfinished({setting.name: found.get(setting.name, (0, {}))[0] for setting in settings()}, repeats),
        "Forests of two classes try sqrt(features) at each split, those of numbers a third of the features, or "
        f"sqrt(features) if there are more than {FEWEST_ROWS} rows. Skewed numbers are log-normal with a scale of 1.5. "
        "Up to 200 permutations are drawn, fewer where decisions are settled, as in every audit.",
    ]


def any_found(setting: Setting, number: int) -> dict[str, bool]:
    """Draw a data set, train a forest, and return for each test whether it finds a feature.

    Parameters
    ----------
    setting : Setting
    number : int
        The same number gives the same data.

    Returns
    -------
    dict
        For each key of `TESTS`, whether any feature is found.

    Raises
    ------
    DebiasError
        The default did not fit lines in 20 trees, or the other test did.
    """
    rng = np.random.default_rng([10, [each.name for each in settings()].index(setting.name), number])
    X = rng.normal(size=(setting.n_rows, setting.n_features))
    X = np.sqrt(setting.correlation) * rng.normal(size=(setting.n_rows, 1)) + np.sqrt(1 - setting.correlation) * X
    y = setting.response(rng, setting.n_rows)
    forest = _forest(y, seed_of(rng)).fit(X, y)
    seed, found = seed_of(rng), {}
    for test, dependence in TESTS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", debias.DebiasWarning)
            audit = debias.audit(forest, X, y, rows="oob", random_state=seed, dependence=dependence)
        scores = audit.scores["honest_effects"]
        n_trees = scores.details["test"]["trees_of_lines"]
        if scores.selected is None or (n_trees == FEW_TREES) != (test == DEFAULT):
            raise debias.DebiasError(f"{setting.name}: {test} were {n_trees} trees")
        found[test] = bool(scores.selected.any())
    return found


def estimates(trials: list[dict[str, Any]]) -> dict[str, tuple[int, dict[str, Estimate]]]:
    """Return the number of data sets of each setting, of all together, and the share in which a feature is found."""
    by_setting: dict[str, list[list[float]]] = {setting.name: [] for setting in settings()}
    for trial in trials:
        if trial["design"] in by_setting:
            by_setting[trial["design"]].append([float(trial["scores"][test]["found"]) for test in TESTS])
    by_setting["all"] = [found for of_setting in by_setting.values() for found in of_setting]
    shares = {}
    for name, found in by_setting.items():
        if found:
            few, every = np.array(found).T
            shares[name] = len(found), {DEFAULT: rate(few), ALL_TREES: rate(every), "difference": rate(few - every)}
    return shares


def _table(found: dict[str, tuple[int, dict[str, Estimate]]]) -> str:
    columns = [*TESTS, "difference"]
    lines = [
        [name, f"{n:,}", *(with_error(shares[column]) for column in columns)] for name, (n, shares) in found.items()
    ]
    return markdown_table(["setting", "data sets", *columns], lines)


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return lines_of_settings(estimates(trials))


def _trial(setting: Setting, repeat: int) -> dict[str, Any]:
    scores = {test: {"found": found} for test, found in any_found(setting, repeat).items()}
    return {"design": setting.name, "repeat": repeat, "scores": scores}


def _classes(rng: np.random.Generator, n_rows: int, share: float = 0.5) -> NDArray[np.int64]:
    classes = (rng.random(size=n_rows) < share).astype(np.int64)
    classes[:2] = 0, 1
    return classes


def _numbers(rng: np.random.Generator, n_rows: int, skewed: bool = False) -> NDArray[np.float64]:
    normal = rng.normal(size=n_rows)
    return np.exp(1.5 * normal) if skewed else normal


def _forest(y: NDArray[Any], seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if y.dtype.kind == "i":
        return RandomForestClassifier(N_TREES, random_state=seed)
    return RandomForestRegressor(N_TREES, max_features="sqrt" if len(y) > FEWEST_ROWS else 1 / 3, random_state=seed)


run = Measurement("many-features", 200, _tasks, _parts, _lines).run
