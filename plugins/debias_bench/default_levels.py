"""Error rates of the default test where it is not that of `debias bench significance`, and on awkward data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias_bench.awkward_settings import awkward_settings
from debias_bench.dependence import further_settings
from debias_bench.measurement import Measurement, lines_of_settings, rate, with_error
from debias_bench.runner import machine_line
from debias_bench.significance import kept, level_page, levels, one_data_set, unfinished
from debias_bench.significance_settings import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from debias_bench.significance_settings import Setting


ALPHA = 0.05


def chosen_settings() -> list[Setting]:
    """Return the settings: those on held-out rows, where the default tests residuals, awkward and further ones."""
    held_out = [each for each in settings() if each.held_out and each.test == "auto"]
    return [*held_out, *awkward_settings(), *further_settings()]


def _trial(setting: Setting, repeat: int) -> dict[str, Any]:
    scores = kept(*one_data_set(setting, 0, repeat, of="auto"))
    return {"design": setting.name, "repeat": repeat, "scores": scores}


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        yield from ((setting.name, repeat, _trial, setting, repeat) for setting in chosen_settings())


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    table, counts = level_page(trials, chosen_settings())
    return [
        "# Error rates of the default test on held-out and awkward data",
        "`debias bench default-levels`: audits with their default test, that of "
        "[residuals](../significance.md#the-test-of-residuals) on held-out rows, of simulated data whose truth is "
        "known. Settings with the same names as in [significance](significance.md) or [dependence](dependence.md) have "
        "the same data. The others have 12 columns of noise: with 2, 4 or 20 values, 5 % ones, heavy tails, counts, "
        "and columns that depend on one another. Models of held-out rows are XGBoost where the name has no other. "
        "Settings without `held out` in the name are forests out of bag, and say nothing of held-out rows. With 100 "
        "rows and 5 % of class 1 the default permutes the response.",
        f"*Written by the runner; {machine_line()}.*",
        "Rates of noise features, with standard errors over data sets in (); the rate of the noise feature with "
        "the highest rate; family-wise error rate and false discovery rate at 5 %; share of relevant features "
        "found by step-down max-z.",
        table,
        _together(trials),
        *unfinished(counts, repeats),
    ]


def _together(trials: list[dict[str, Any]]) -> str:
    """Return a sentence on the family-wise error rate over all settings."""
    found = np.array([any_noise(trial["scores"]["frozen"]) for trial in trials], dtype=np.float64)
    if not found.size:
        return "No data set was simulated."
    return f"Over all settings, any noise feature was found in {with_error(rate(found))} of {found.size:,} data sets."


def any_noise(scores: dict[str, Any]) -> bool:
    """Whether a noise feature is found family-wise at 5 % in one data set."""
    return bool((np.array(scores["adjusted"])[~np.array(scores["relevant"])] <= ALPHA).any())


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return lines_of_settings(levels(trials, chosen_settings()))


run = Measurement("default-levels", 300, _tasks, _parts, _lines).run
