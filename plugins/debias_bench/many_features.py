"""Error rate of the default test of dependence where features are many, and lines are fitted in 20 trees of 40 only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.api.prepared import prepared_members
from debias.rows.request import Request
from debias.significance.procedure import Procedure
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
ALPHA = 0.05


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
        Setting("600 rows, 200 features: skewed numbers", 600, 200, skewed),
        Setting("1,000 rows, 200 features correlated .8: classes of 9:1", 1000, 200, partial(_classes, share=0.1), 0.8),
        Setting("200 rows, 1,000 features: two classes", 200, 1000, _classes),
        Setting("200 rows, 1,000 features correlated .8: numbers", 200, 1000, _numbers, 0.8),
    ]


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        yield from ((setting.name, repeat, _trial, setting, repeat) for setting in settings())


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    found = estimates(trials)
    return [
        "# Error rate of the default test of dependence where features are many",
        "`debias bench many-features`: no feature says anything about the response. Where features are many, the "
        "default of an audit fits [lines](../honest-effects.md) in fewer trees: in "
        f"{FEW_TREES} of {N_TREES} here. The table shows the share of data sets in which any feature is found to be "
        f"dependent, at a family-wise error rate of {ALPHA:.0%}, with standard errors in ().",
        f"*Written by the runner; {machine_line()}.*",
        _table(found),
        *unfinished({setting.name: found.get(setting.name, (0, {}))[0] for setting in settings()}, repeats),
        "Forests try sqrt(features) at each split. Skewed numbers are log-normal with a scale of 1.5. Up to 200 "
        "permutations are drawn, fewer where decisions are settled, as in an audit.",
    ]


def any_found(setting: Setting, number: int) -> bool:
    """Draw a data set, train a forest, and return whether the default test of dependence finds a feature.

    Parameters
    ----------
    setting : Setting
    number : int
        The same number gives the same data.

    Raises
    ------
    DebiasError
        Lines were not fitted in `FEW_TREES` trees.
    """
    rng = np.random.default_rng([10, [each.name for each in settings()].index(setting.name), number])
    X = rng.normal(size=(setting.n_rows, setting.n_features))
    X = np.sqrt(setting.correlation) * rng.normal(size=(setting.n_rows, 1)) + np.sqrt(1 - setting.correlation) * X
    y = setting.response(rng, setting.n_rows)
    forest = _forest(y, seed_of(rng)).fit(X, y)
    # As debias.audit tests it, without what an audit does beside it.
    scorer = debias.plugin.scorer("honest_effects(kind='linear')")
    request = Request.of(forest, X, y, rows="oob", random_state=seed_of(rng))
    (prepared,) = prepared_members(request, [scorer], tested=True)
    tested = prepared.test(prepared.score(scorer), scorer, Procedure("combined", ALPHA, within_fit=True), aside=True)
    n_trees = tested.details["test"]["trees_of_lines"]
    if tested.selected is None or n_trees != FEW_TREES:
        raise debias.DebiasError(f"{setting.name}: lines were fitted in {n_trees} trees, not in {FEW_TREES}")
    return bool(tested.selected.any())


def estimates(trials: list[dict[str, Any]]) -> dict[str, tuple[int, dict[str, Estimate]]]:
    """Return the number of data sets of each setting, and of all together, with the share in which a feature is found.

    Parameters
    ----------
    trials : list of dict
    """
    by_setting: dict[str, list[bool]] = {setting.name: [] for setting in settings()}
    for trial in trials:
        if trial["design"] in by_setting:
            by_setting[trial["design"]].append(trial["scores"]["default"]["found"])
    by_setting["all"] = [found for of_setting in by_setting.values() for found in of_setting]
    return {name: (len(found), {"FWER": rate(np.array(found))}) for name, found in by_setting.items() if found}


def _table(found: dict[str, tuple[int, dict[str, Estimate]]]) -> str:
    lines = [[name, f"{n:,}", with_error(shares["FWER"])] for name, (n, shares) in found.items()]
    return markdown_table(["setting", "data sets", "FWER"], lines)


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return lines_of_settings(estimates(trials))


def _trial(setting: Setting, repeat: int) -> dict[str, Any]:
    return {
        "design": setting.name,
        "repeat": repeat,
        "scores": {"default": {"found": any_found(setting, repeat)}},
    }


def _classes(rng: np.random.Generator, n_rows: int, share: float = 0.5) -> NDArray[np.int64]:
    classes = (rng.random(size=n_rows) < share).astype(np.int64)
    classes[:2] = 0, 1
    return classes


def _numbers(rng: np.random.Generator, n_rows: int, skewed: bool = False) -> NDArray[np.float64]:
    normal = rng.normal(size=n_rows)
    return np.exp(1.5 * normal) if skewed else normal


def _forest(y: NDArray[Any], seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestClassifier if y.dtype.kind == "i" else RandomForestRegressor
    return kind(N_TREES, max_features="sqrt", random_state=seed)


run = Measurement("many-features", 200, _tasks, _parts, _lines).run
