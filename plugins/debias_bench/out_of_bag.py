"""Error rates and power of tests out of bag by permutations of the response: those of mdi_oob and shap_oob."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias_bench.awkward_settings import noise
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, rate, with_error
from debias_bench.runner import machine_line
from debias_bench.significance_settings import seed_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Drawn = tuple[NDArray[np.float64], NDArray[Any], int]

LEVEL, N_ROWS, N_TREES = 0.05, 200, 50
TESTED = {"mdi_oob": "mdi_oob", "shap_oob": "shap_oob(p_values=True)"}
QUANTITIES = ("noise at 5 %", "any noise", "found")


def _correlated(rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw five columns of noise with a correlation of .95."""
    return np.sqrt(0.95) * rng.normal(size=(N_ROWS, 1)) + np.sqrt(0.05) * rng.normal(size=(N_ROWS, 5))


def _beside(
    mean: Callable[[NDArray[np.float64]], NDArray[np.float64]], n_relevant: int, correlated: bool = False
) -> Callable[[np.random.Generator], Drawn]:
    """Return how to draw a mean of the first columns, beside noise of many kinds or correlated noise."""

    def draw(rng: np.random.Generator) -> Drawn:
        X = rng.normal(size=(N_ROWS, n_relevant))
        y = mean(X) + rng.normal(size=N_ROWS)
        return np.column_stack([X, _correlated(rng) if correlated else noise(rng, N_ROWS)]), y, n_relevant

    return draw


DESIGNS: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "noise of many kinds": lambda rng: (noise(rng, N_ROWS), rng.normal(size=N_ROWS), 0),
    "the same, two classes": lambda rng: (noise(rng, N_ROWS), (rng.random(N_ROWS) < 0.3).astype(np.int64), 0),
    "the same, lognormal": lambda rng: (noise(rng, N_ROWS), np.exp(2 * rng.normal(size=N_ROWS)), 0),
    "noise correlated .95": lambda rng: (_correlated(rng), rng.normal(size=N_ROWS), 0),
    "noise correlated .95 beside two effects": _beside(lambda X: X[:, 0] + X[:, 1], 2, correlated=True),
    "additive": _beside(lambda X: 0.5 * X[:, 0] + 0.5 * np.abs(X[:, 1]) + 0.5 * (X[:, 2] > 0), 3),
    "interactions": _beside(lambda X: 1.5 * (X[:, 0] > 0) * X[:, 1] + X[:, 2] * X[:, 3], 4),
    "weak": _beside(lambda X: 0.3 * X.sum(axis=1), 4),
}
"""How to draw X, y and the number of relevant features, which come first."""


def trial(design: str, number: int) -> dict[str, list[float]]:
    """Return for each test the share of noise with p <= .05, whether any is found, and the share found of the rest."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    rng = np.random.default_rng([sum(map(ord, design)), number])
    X, y, n_relevant = DESIGNS[design](rng)
    kind = RandomForestClassifier if y.dtype.kind == "i" else RandomForestRegressor
    forest = kind(N_TREES, max_features=1 / 3, min_samples_leaf=5, random_state=seed_of(rng)).fit(X, y)
    found, is_noise = {}, np.arange(X.shape[1]) >= n_relevant
    for name, expression in TESTED.items():
        test = debias.Permutation(199, adaptive=False) if name == "mdi_oob" else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", debias.DebiasWarning)
            scores = debias.score(forest, X, y, expression, rows="oob", test=test, random_state=number)
        assert scores.p_value is not None
        assert scores.p_adjusted is not None
        selected = scores.p_adjusted <= LEVEL
        power = float(selected[~is_noise].mean()) if n_relevant else np.nan
        found[name] = [float((scores.p_value[is_noise] <= LEVEL).mean()), float(selected[is_noise].any()), power]
    return found


def _trial(design: str, repeat: int) -> dict[str, Any]:
    return {"design": design, "repeat": repeat, "scores": trial(design, repeat)}


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        yield from ((design, repeat, _trial, design, repeat) for design in DESIGNS)


def _values(trials: list[dict[str, Any]], design: str, test: str) -> NDArray[np.float64]:
    return np.array([each["scores"][test] for each in trials if each["design"] == design], dtype=np.float64)


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    lines = []
    for design in DESIGNS:
        for test in TESTED:
            values = _values(trials, design, test)
            if len(values):
                cells = ["" if np.isnan(column).any() else with_error(rate(column)) for column in values.T]
                lines.append([design, test, str(len(values)), *cells])
    return [
        "# Tests out of bag of mdi_oob and shap_oob",
        f"`debias bench out-of-bag`: forests of {N_TREES} trees on {N_ROWS} rows, leaves of five rows or more, a third "
        "of the features tried at each split. Both tests permute the response and keep the trees; [what they "
        "test](../significance.md#the-test-of-shap_oob).",
        f"*Written by the runner; {machine_line()}.*",
        "*Noise at 5 %* is the share of noise features with p <= .05, *any noise* how often any is found family-wise "
        f"at {LEVEL:.0%}, *found* the share of relevant features that are found family-wise. Means over data sets, "
        "with standard errors in (). Both tests of one data set have the same forest.",
        markdown_table(["design", "test", "data sets", *QUANTITIES], lines, texts=(0, 1)),
    ]


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "design": design, "test": test, "data_sets": len(values), "quantity": what,
            "value": rate(column)[0], "standard_error": rate(column)[1],
        }
        for design in DESIGNS
        for test in TESTED
        if len(values := _values(trials, design, test))
        for what, column in zip(QUANTITIES, values.T, strict=True)
        if not np.isnan(column).any()
    ]  # fmt: skip


run = Measurement("out-of-bag", 200, _tasks, _parts, _lines).run
