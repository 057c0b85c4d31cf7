"""Level and power of `conditional_importance`, beside other tests of conditional independence."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias_bench.conditional_designs import TESTED, Cell, draw, fit, unfitted
from debias_bench.conditional_rivals import Case, boosting, carfi, cfi, gcm, ridge, semi_knockoffs
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, holds, rate_of, with_error
from debias_bench.runner import machine_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALPHA = 0.05
N_ROWS = 300
"""Training rows, and as many new rows."""
EFFECT = 0.3
OWN = "debias"
RIVALS: dict[str, Callable[[Case], float]] = {
    "GCM": gcm,
    "CFI": cfi,
    "cARFi": carfi,
    "semi-knockoffs, ridge": partial(semi_knockoffs, regression=ridge),
    "semi-knockoffs, boosting": partial(semi_knockoffs, regression=boosting),
}
TESTS = (OWN, *RIVALS)
NOTES = {
    OWN: "[`conditional_importance`](../scorers/conditional-importance.md) on the new rows",
    "GCM": "the generalised covariance measure (Shah and Peters 2020): both residuals are out of bag, of forests of "
    "200 trees with leaves of at least five rows, on all rows",
    "CFI": "conditional feature importance of the package hidimstat (Chamma et al. 2023) with its defaults: a ridge "
    "regression, and a t-test over its 50 permutations",
    "cARFi": "conditional feature importance with draws from an adversarial random forest (Blesch et al. 2025): ten "
    "draws, a forest of the training rows with the defaults of the authors' package, a one-sided t-test over the new "
    "rows",
    "semi-knockoffs, ridge": "semi-knockoffs (Reyero-Lobo et al. 2026), with ridge regressions: model and regressions "
    "are fitted to all rows, and Wilcoxon's test is over all rows",
    "semi-knockoffs, boosting": "the same with gradient boosting",
}
"""What each test is, for the page."""


@dataclass(frozen=True)
class Setting:
    """One line of the tables: how it is called, and what it draws."""

    name: str
    cell: Cell


FUNCTIONS = {
    "a square": "square",
    "a column of 2 values, by a threshold": "binary",
    "a column of 5 categories": "category",
    "a product of two columns": "product",
    "a sine": "sine",
    "the largest of three columns": "max",
    "a jump of one column": "jump",
    "an and/or rule of three columns": "rule",
    "one of 3 sites, coded as an integer": "3 sites",
    "one of 15 sites": "15 sites",
    "one of 50 sites": "50 sites",
    "a slope that depends on one of 10 sites": "slopes by site",
    "a smooth field of two coordinates": "field",
    "in or out of a circle": "circle",
    "in or out of a diagonal band": "band",
    "in or out of a ball of three columns": "ball",
    "the sign of a product of two columns": "xor",
    "the sign of a product of three columns": "parity",
}
"""What column and response follow, and its name in the designs."""
WITH_POWER = (
    *("a square", "a column of 2 values, by a threshold", "a sine", "a product of two columns", "one of 15 sites"),
    "a smooth field of two coordinates",
)


def settings() -> tuple[list[Setting], list[Setting]]:
    """Return the settings of the table of levels, and those of the table of power."""
    lines = {f"a line, correlation {r}": Cell("linear", r, N_ROWS, "forest") for r in (0.8, 0.95)}
    lines["a line, correlation 0.8; XGBoost"] = Cell("linear", 0.8, N_ROWS, "xgboost")
    changed = {"a line, less steep in the new rows": Cell("changed", 0.8, N_ROWS, "forest")}
    level = lines | changed | {name: Cell(function, 0.8, N_ROWS, "forest") for name, function in FUNCTIONS.items()}
    power = {name: cell for name, cell in level.items() if name in lines or name in WITH_POWER}
    return (
        [Setting(name, cell) for name, cell in level.items()],
        [
            Setting(f"{name}, and an effect", Cell(cell.dependence, cell.correlation, cell.n, cell.model, EFFECT))
            for name, cell in power.items()
        ],
    )


def case_of(cell: Cell, number: int) -> Case:
    """Draw a data set and fit its model; the same number of other models has the same data."""
    X, y = draw(cell, np.random.default_rng(np.random.SeedSequence(number, spawn_key=(cell.n,))))
    train, new = (X[: cell.n], y[: cell.n]), (X[cell.n :], y[cell.n :])
    return Case(fit(cell, *train, number), train, new, partial(unfitted, cell, number), TESTED, number)


def of_debias(case: Case, train: bool = False) -> tuple[float, bool]:
    """Return the p-value of `conditional_importance`, and whether the column is untested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        known = case.train if train else None
        scores = debias.score(
            case.model, *case.new, "conditional_importance", rows="held-out", train=known, random_state=case.seed
        )
    assert scores.p_value is not None
    name = scores.feature_names[case.column]
    return float(scores.p_value[case.column]), name in scores.details.get("untested_features", {})


def trial(setting: Setting, number: int) -> dict[str, list[float]]:
    """Return for each test that takes part whether it found the column, and whether it has no verdict."""
    case = case_of(setting.cell, number)
    found: dict[str, list[float]] = {}
    for name in TESTS:
        if name == "CFI" and find_spec("hidimstat") is None:
            continue
        p_value, untested = (RIVALS[name](case), False) if name in RIVALS else of_debias(case)
        found[name] = [float(p_value <= ALPHA), float(untested and p_value > ALPHA)]
    return found


def _values(trials: list[dict[str, Any]], setting: Setting, test: str) -> NDArray[np.float64]:
    scores = [each["scores"][test] for each in trials if each["design"] == setting.name and test in each["scores"]]
    return np.array(scores, dtype=np.float64).reshape(-1, 2)


def _table(trials: list[dict[str, Any]], lines: list[Setting], level_of: dict[str, Setting]) -> str:
    """Return the shares of the tests; in brackets if the test does not hold its level in the same design."""
    rows = []
    for setting in lines:
        cells = []
        for test in TESTS:
            values = _values(trials, setting, test)
            if not len(values):
                cells.append("-")
                continue
            text = with_error(rate_of(values[:, 0]))
            null = _values(trials, level_of.get(setting.name, setting), test)[:, 0]
            text = text if not null.size or holds(null) else f"[{text}]"
            cells.append(f"{text}; {values[:, 1].mean():.2f}" if test not in RIVALS else text)
        rows.append([setting.name, *cells])
    return markdown_table(["column and response follow", *TESTS], rows)


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        for part in settings():
            yield from ((setting.name, repeat, _trial, setting, repeat) for setting in part)


def _trial(setting: Setting, repeat: int) -> dict[str, Any]:
    return {"design": setting.name, "repeat": repeat, "scores": trial(setting, repeat)}


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    level, power = settings()
    level_of = {f"{setting.name}, and an effect": setting for setting in level}
    return [
        "# Tests of a column given the others",
        f"`debias bench conditional`: {N_ROWS} training rows, {N_ROWS} new rows, a forest of 50 trees (XGBoost: 60 "
        "trees of depth 3) and three or four columns, of which one is tested. This column and the response each are "
        "the same function of the others plus noise, the column with a correlation of .8 unless stated. "
        f"{repeats} data set{'s' if repeats > 1 else ''} for each line.",
        "\n".join(f"- *{name}*: {note}." for name, note in NOTES.items()),
        "The tests ask whether the response is independent of the column given the others. Those of CFI and cARFi are "
        "about the error of the fixed model, which they ask by draws.",
        f"*Written by the runner; {machine_line()}.*",
        "## Level",
        f"Share of data sets in which a column is found (p at most {ALPHA}) that adds nothing to the others, and its "
        "standard error. After the semicolon is the share in which debias has no verdict (the column is *untested*). A "
        "share in brackets is above 5 % by more than two standard errors.",
        _table(trials, level, {}),
        "## Power",
        f"The same, but the response also rises by {EFFECT} standard deviations with one standard deviation of the "
        "column. A share in brackets is not comparable: without the effect the test finds the column too often.",
        _table(trials, power, level_of),
    ]


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"design": setting.name, "test": test, "data_sets": len(values), "quantity": what, "value": value,
         "standard_error": error}
        for part in settings()
        for setting in part
        for test in TESTS
        if len(values := _values(trials, setting, test))
        for what, (value, error) in {"found": rate_of(values[:, 0]), "untested": rate_of(values[:, 1])}.items()
    ]  # fmt: skip


run = Measurement("conditional", 60, _tasks, _parts, _lines).run
"""The benchmark of tests of conditional independence: its trials repeat, and its page has the rates of each test."""
