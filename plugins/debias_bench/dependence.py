"""Error rates of the combined test of dependence, in the settings of the other tests and in further ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from debias_bench.measurement import Measurement, lines_of_settings
from debias_bench.runner import machine_line
from debias_bench.significance import kept, level_page, levels, one_data_set, unfinished
from debias_bench.significance_settings import Setting, forest, loh_rows, settings, xgboost_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Drawn = tuple[NDArray[np.float64], NDArray[Any], NDArray[np.bool_]]

LEFT_OUT = "rows in pairs, no blocks"
"""Wrong for every test."""
LAST = "E0, n = 2000"
"""The slowest setting."""


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        yield from ((setting.name, repeat, _trial, setting, repeat) for setting in all_settings())


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    table, counts = level_page(trials, all_settings())
    return [
        "# Error rates of the test of dependence",
        "`debias bench dependence`: the combined test of [honest effects](../honest-effects.md) on simulated data "
        "whose truth is known, in the settings of [significance](significance.md) and in further ones.",
        f"*Written by the runner; {machine_line()}.*",
        "Rates of noise features, with standard errors over data sets in (); the rate of the noise feature with "
        "the highest rate; family-wise error rate and false discovery rate at 5 %; share of relevant features "
        "found family-wise. 199 permutations, 999 for 50 features.",
        table,
        *unfinished(counts, repeats),
    ]


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return lines_of_settings(levels(trials, all_settings()))


def all_settings() -> list[Setting]:
    """Return the settings: those of the other tests that permute, and further ones."""
    first = [setting for setting in settings() if setting.test == "auto" and setting.name != LEFT_OUT]
    return sorted([*first, *further_settings()], key=lambda setting: setting.name == LAST)


def further_settings() -> list[Setting]:
    """Return settings that the page of significance does not have: tails, few rows, other forests, and others."""
    leaf_5 = partial(forest, min_samples_leaf=5)
    return [
        Setting("heavy tails of y (Student, 2)", partial(_noise, response="tails"), leaf_5),
        Setting("counts, most of them 0", partial(_noise, response="counts"), leaf_5),
        Setting("heavy tails of X (Cauchy)", partial(_noise, features="tails"), leaf_5),
        Setting("X correlated .95", partial(_noise, features="correlated"), leaf_5),
        Setting("binary X, 5 % ones", partial(_noise, features="binary"), leaf_5),
        Setting("n = 60", partial(_noise, n_rows=60), leaf_5),
        Setting("depth 3", partial(_noise), partial(forest, max_depth=3)),
        Setting("bags of 30 % of the rows", partial(_noise), partial(forest, max_samples=0.3)),
        Setting("extra trees", partial(_noise), _extra_trees),
        Setting("one relevant of X correlated .5", partial(_noise, features="half", effect=0.5), leaf_5),
        Setting("XOR beside noise", _xor, leaf_5),
        Setting("XGBoost, depth 6, 200 trees, held out", partial(loh_rows, "E0"), _deep_booster, held_out=True),
    ]


def _noise(
    rng: np.random.Generator,
    n_rows: int = 200,
    features: str = "normal",
    response: str = "normal",
    effect: float = 0.0,
) -> Drawn:
    """Draw eight features and a response that depends on the first one only, or on none."""
    X = rng.normal(size=(n_rows, 8))
    if features == "tails":
        X = rng.standard_cauchy(size=X.shape)
    elif features == "correlated":
        X = np.sqrt(0.95) * X[:, :1] + np.sqrt(0.05) * rng.normal(size=X.shape)
    elif features == "half":  # the first four are correlated, so they all depend on the response; four are noise
        X[:, 1:4] = np.sqrt(0.5) * X[:, :1] + np.sqrt(0.5) * X[:, 1:4]
    elif features == "binary":
        X = (rng.random(size=X.shape) < 0.05).astype(np.float64)
    noise = {
        "normal": rng.normal(size=n_rows),
        "tails": rng.standard_t(2, size=n_rows),
        "counts": rng.poisson(0.3, size=n_rows).astype(np.float64),
    }[response]
    return X, effect * X[:, 0] + noise, np.arange(8) < (4 if effect else 0)


def _xor(rng: np.random.Generator) -> Drawn:
    X = rng.normal(size=(400, 8))
    return X, np.sign(X[:, 0] * X[:, 1]) + rng.normal(size=400), np.arange(8) < 2  # noqa: PLR2004


def _extra_trees(seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(100, bootstrap=True, min_samples_leaf=5, random_state=seed)


def _deep_booster(seed: int) -> Any:
    return xgboost_model(seed).set_params(n_estimators=200, max_depth=6)


def _trial(setting: Setting, repeat: int) -> dict[str, Any]:
    p, adjusted, relevant = one_data_set(setting, 0, repeat, dependence=True)
    return {"design": setting.name, "repeat": repeat, "scores": kept(p, adjusted, relevant)}


run = Measurement("dependence", 100, _tasks, _parts, _lines).run
