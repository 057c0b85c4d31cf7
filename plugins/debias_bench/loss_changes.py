"""Which features are blamed for a change of the loss, by simulation with fixed seeds.

Each trial trains a model, draws the periods of two windows, and divides the change of the loss. In the window after,
the values of a feature are broken, its effect changes, or nothing or only X changes. Beside it stand what is watched
without the model: the population stability index and the Kolmogorov-Smirnov test of each column, and the loss alone.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias import DebiasWarning
from debias.data.groups import Grouping
from debias.p_values import holm
from debias.rows.period_sums import PeriodSums
from debias.rows.preparation import batch_rows
from debias.significance.change import compare_windows, groups_of
from debias.significance.kept_windows import KeptWindow
from debias.significance.loss_causes import with_causes
from debias_bench.change import ABSOLUTE_ERROR, FOREST_OF_CLASSES, fitted, rates_of
from debias_bench.change import MODELS as MODELS_OF_MEANS
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, with_error
from debias_bench.runner import machine_line
from debias_bench.significance_settings import seed_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MODELS = (*MODELS_OF_MEANS, ABSOLUTE_ERROR, FOREST_OF_CLASSES)
N_FEATURES = 8
N_TRAINING_ROWS = 2000
BEFORE, AFTER, N_ROWS = 30, 10, 200
"""Periods of the two windows, and rows of a period."""
KEPT_ROWS = 50
"""Rows of a period that are kept for causes, the default of a history."""
CORRELATION = 0.6
"""Of x0, x1, x2 and x4."""
ALPHA = 0.05
LARGE_INDEX = 0.2
"""A population stability index above this is usually called a large change."""
BINS = 10
SEASON = 10
"""Periods of one cycle of the season."""


@dataclass(frozen=True)
class Setting:
    """What happens in the window after.

    Parameters
    ----------
    table, name : str
        Heading of the table, and of the row in it.
    values : tuple of (int, str)
        Columns whose values are broken, and how: "permuted", "stuck", "unit", "higher", "reversed", "mixed" (half of
        the rows have the value of another row) or "joined" (the same, all of these columns from one other row).
    effects : tuple of two float
        Factors of the effects of x0 and of x2.
    level : float
        Added to the mean of the response, or to half of its log odds.
    drift : {None, "mean", "spread", "correlation"}
        How X differs.
    season : bool
        Whether the mean of x1 goes up and down in both windows, in whole cycles.
    """

    table: str
    name: str
    values: tuple[tuple[int, str], ...] = ()
    effects: tuple[float, float] = (1.0, 1.0)
    level: float = 0.0
    drift: str | None = None
    season: bool = False

    @property
    def truth(self) -> tuple[int, ...]:
        """The features that are broken or whose effect changes."""
        changed = (column for column, factor in zip((0, 2), self.effects, strict=True) if factor != 1)
        return (*(column for column, _ in self.values), *changed)

    def key(self, model: str) -> str:
        """Name of the setting and a model in the file of trials."""
        return f"{self.table} / {self.name} / {model}"


NOTHING, X_ONLY, VALUES, EFFECTS = "Nothing changes", "Only X drifts", "Values are broken", "The effect of x0 changes"
TWO_EFFECTS = "The effects of x0 and x2 change"
LEVEL = "The level of the response changes"
TABLES = (NOTHING, X_ONLY, LEVEL, VALUES, EFFECTS, TWO_EFFECTS)
KIND_OF_TABLE = {VALUES: "values", EFFECTS: "effect", TWO_EFFECTS: "effect"}
"""What is rightly said of the cause."""
SAYS_A_FAULT = ("values", "effect", "values or effect")
NOT_TOLD = ("values or effect", "rows or values", "rows, values or effect")


def settings() -> list[Setting]:
    """Return the settings of all tables."""
    return [
        Setting(NOTHING, "all periods alike"),
        Setting(NOTHING, "a season of x1", season=True),
        Setting(X_ONLY, "the mean of x0 by half a standard deviation", drift="mean of x0"),
        Setting(X_ONLY, "the means of x0 and x1 by half a standard deviation", drift="mean"),
        Setting(X_ONLY, "all standard deviations by 1.3", drift="spread"),
        Setting(X_ONLY, "the correlation from .6 to 0", drift="correlation"),
        Setting(LEVEL, "up by 0.8", level=0.8),
        Setting(LEVEL, "down by 0.8", level=-0.8),
        Setting(VALUES, "x0 permuted", ((0, "permuted"),)),
        Setting(VALUES, "x0 stuck at its mean", ((0, "stuck"),)),
        Setting(VALUES, "x0 a hundred times as large", ((0, "unit"),)),
        Setting(VALUES, "x0 higher by 1.5", ((0, "higher"),)),
        Setting(VALUES, "x0 reversed", ((0, "reversed"),)),
        Setting(VALUES, "x0 of other rows in half of the rows", ((0, "mixed"),)),
        Setting(VALUES, "x0 and x2 permuted", ((0, "permuted"), (2, "permuted"))),
        Setting(VALUES, "x0 and x2 of other rows in half of the rows", ((0, "mixed"), (2, "mixed"))),
        Setting(VALUES, "x0 and x2 of one other row in half of the rows", ((0, "joined"), (2, "joined"))),
        Setting(VALUES, "x0 permuted while the mean of x1 moves", ((0, "permuted"),), drift="mean of x1"),
        Setting(VALUES, "x0 permuted while the level goes up by 0.8", ((0, "permuted"),), level=0.8),
        Setting(EFFECTS, "to half", effects=(0.5, 1.0)),
        Setting(EFFECTS, "to zero", effects=(0.0, 1.0)),
        Setting(EFFECTS, "changes its sign", effects=(-1.0, 1.0)),
        Setting(EFFECTS, "changes its sign while the mean of x1 moves", effects=(-1.0, 1.0), drift="mean of x1"),
        Setting(TWO_EFFECTS, "both to half", effects=(0.5, 0.5)),
        Setting(TWO_EFFECTS, "that of x0 to zero, that of x2 changes its sign", effects=(0.0, -1.0)),
    ]


def drawn(setting: Setting, rng: np.random.Generator, n_rows: int, number: int, after: bool) -> tuple[Array, Array]:
    """Return the columns as the world has them and as the model gets them, each of shape (n_rows, n_features).

    Parameters
    ----------
    setting : Setting
    rng : numpy.random.Generator
    n_rows : int
    number : int
        Number of the period, for the season.
    after : bool
        Whether it is a period of the window after.
    """
    drift = setting.drift if after else None
    X = rng.normal(size=(n_rows, N_FEATURES))
    together = [0, 1, 2, 4]
    correlation = 0.0 if drift == "correlation" else CORRELATION
    X[:, together] = np.sqrt(1 - correlation) * X[:, together] + np.sqrt(correlation) * rng.normal(size=(n_rows, 1))
    if setting.season:
        X[:, 1] += 0.7 * np.sin(2 * np.pi * number / SEASON)
    if drift == "mean":
        X[:, :2] += 0.5
    elif drift in ("mean of x0", "mean of x1"):
        X[:, int(drift[-1])] += 0.5
    elif drift == "spread":
        X *= 1.3
    seen = X.copy()
    joined = np.array([column for column, fault in setting.values if fault == "joined"], dtype=np.int64)
    for column, fault in setting.values if after and not joined.size else ():
        seen[:, column] = _broken(fault, X[:, column], rng)
    if after and joined.size:
        some = np.flatnonzero(rng.random(n_rows) < 0.5)
        seen[np.ix_(some, joined)] = X[np.ix_(rng.permutation(n_rows)[some], joined)]
    return X, seen


def _broken(fault: str, values: Array, rng: np.random.Generator) -> Array:
    match fault:
        case "permuted":
            return rng.permutation(values)
        case "stuck":
            return np.zeros(values.size)
        case "unit":
            return 100 * values
        case "higher":
            return values + 1.5
        case "reversed":
            return -values
        case "mixed":
            return np.where(rng.random(values.size) < 0.5, rng.permutation(values), values)
        case _:
            raise ValueError(fault)


def response(
    rng: np.random.Generator, X: Array, model: str, effects: tuple[float, float] = (1.0, 1.0), level: float = 0.0
) -> Array:
    """Return responses: numbers, or classes of a model of classes.

    Parameters
    ----------
    rng : numpy.random.Generator
    X : array of shape (n_rows, n_features)
    model : str
    effects : tuple of two float
        Factors of the effects of x0 and of x2.
    level : float
        Added to the mean, or to half of the log odds.
    """
    mean = effects[0] * X[:, 0] + np.sin(2 * X[:, 1]) + effects[1] * np.abs(X[:, 2]) + 0.3 * X[:, 3] + level
    if model.endswith("classes"):
        return (rng.random(len(X)) < 1 / (1 + np.exp(-2 * (mean - 0.8)))).astype(np.float64)
    noisy: Array = mean + rng.normal(size=len(X))
    return noisy


def outcome(setting: Setting, model: str, number: int) -> dict[str, float | None]:
    """Train a model, draw two windows, and divide the change of the loss.

    Parameters
    ----------
    setting : Setting
    model : str
        One of MODELS.
    number : int
        Number of the trial.

    Returns
    -------
    dict of str to float or None
        ``rose``: whether the loss is said to have risen. ``blamed``: whether any feature that did not change is said to
        cost more. ``false cause`` and ``false kind``: whether such a feature is called a cause, and one whose values or
        effect changed. ``found``: whether all features that changed are called causes. ``kind``, ``wrong kind``,
        ``rows`` and ``not told``: of the first of these, or of the first cause if no feature changed, whether it is
        said rightly or wrongly what changed; that only other rows came; and that the data do not tell. ``index``,
        ``false index``, ``test`` and ``false test``: whether the population stability index and the Kolmogorov-Smirnov
        test name those features, and others. None if it does not apply.
    """
    rng = np.random.default_rng([*setting.key(model).encode(), number])
    _, X = drawn(setting, rng, N_TRAINING_ROWS, 0, False)
    empty = PeriodSums(fitted(model, X, response(rng, X, model), seed_of(rng)), kept_rows=KEPT_ROWS)
    windows: list[list[PeriodSums]] = [[], []]
    columns: list[list[Array]] = [[], []]
    for period in range(BEFORE + AFTER):
        after = period >= BEFORE
        X, seen = drawn(setting, rng, N_ROWS, period, after)
        y = response(rng, X, model, *((setting.effects, setting.level) if after else ()))
        sums = empty.empty()
        sums.add_rows(batch_rows(empty.model, empty.ensemble, seen, y, None, empty.notes, 1, False))
        windows[after].append(sums)
        columns[after].append(seen)
    grouping = Grouping.of(None, empty.ensemble.feature_names)
    change = compare_windows(windows[0], windows[1], grouping, alpha=ALPHA).loss
    assert change is not None
    kept = [KeptWindow.of([sums.kept for sums in window], groups_of(len(window))) for window in windows]
    found = with_causes(change, empty.ensemble, grouping, *kept)
    truth, names = set(setting.truth), list(found.feature_names)
    causes = [names.index(cause.feature) for cause in found.causes]
    result: dict[str, float | None] = {
        "rose": float(found.loss.p_value <= ALPHA),
        "blamed": float(bool(set(found.costs_more.tolist()) - truth)),
        "false cause": float(bool(set(causes) - truth)),
        "false kind": float(
            any(c.kind in SAYS_A_FAULT for c, at in zip(found.causes, causes, strict=True) if at not in truth)
        ),
    }
    before, after_ = (np.vstack(each) for each in columns)
    for name, flagged in (("index", _large_index(before, after_)), ("test", _by_kolmogorov(before, after_))):
        result[f"false {name}"] = float(bool(flagged - truth))
        result[name] = float(truth <= flagged) if truth else None
    result |= dict.fromkeys(("found", "kind", "wrong kind", "rows", "not told"))
    own = [cause.kind for cause, at in zip(found.causes, causes, strict=True) if at in truth or not truth]
    if own or not truth:
        result["rows"] = float("rows" in own[:1])
        result["not told"] = float(bool(set(own[:1]) & set(NOT_TOLD)))
    if truth:
        result["found"] = float(truth <= set(causes))
        if own:
            right = KIND_OF_TABLE[setting.table]
            result["kind"] = float(own[0] == right)
            result["wrong kind"] = float(own[0] in {*KIND_OF_TABLE.values(), "rows"} - {right})
    return result


def _large_index(before: Array, after: Array) -> set[int]:
    """Return the columns with a large population stability index, in ten classes of equal frequency before."""
    found = set()
    for column, (one, other) in enumerate(zip(before.T, after.T, strict=True)):
        edges = np.quantile(one, np.linspace(0, 1, BINS + 1)[1:-1])
        shares = [
            np.maximum(np.bincount(np.searchsorted(edges, values), minlength=BINS) / values.size, 1e-4)
            for values in (one, other)
        ]
        if ((shares[1] - shares[0]) * np.log(shares[1] / shares[0])).sum() > LARGE_INDEX:
            found.add(column)
    return found


def _by_kolmogorov(before: Array, after: Array) -> set[int]:
    """Return the columns that differ by the test of Kolmogorov and Smirnov, by Holm's method."""
    from scipy.stats import ks_2samp

    p = np.array([ks_2samp(one, other).pvalue for one, other in zip(before.T, after.T, strict=True)])
    return set(np.flatnonzero(holm(p) <= ALPHA).tolist())


def _trial(setting: Setting, model: str, repeat: int) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DebiasWarning)
        return {"design": setting.key(model), "repeat": repeat, "scores": outcome(setting, model, repeat)}


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        for setting in settings():
            yield from ((setting.key(model), repeat, _trial, setting, model, repeat) for model in MODELS)


FALSE = {"blamed": "false costs", "false cause": "false cause", "false kind": "called changed"}
FALSE |= {"false index": "PSI, false", "false test": "KS, false"}
TRUE = {"found": "found", "kind": "what changed, right", "wrong kind": "wrong", "not told": "not told"}
TRUE |= {"index": "PSI", "test": "KS"}
OF_ROWS = {"rows": "only other rows", "not told": "not told"}


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    return [
        "# Which features are blamed for a change of the loss?",
        f"`debias bench loss-changes`: a model is trained on {N_TRAINING_ROWS:,} rows, and the change of its loss from "
        f"{BEFORE} periods of {N_ROWS} rows to {AFTER} is [divided among the features](../monitoring.md), at a "
        f"family-wise error rate of {ALPHA:.0%}. Eight standard normal features: x0, x1, x2 are relevant and x3 "
        f"weakly, x4 to x7 are noise; x0, x1, x2 and x4 have a correlation of {CORRELATION:g}. Shares of trials, "
        "with standard errors in ().",
        "*Loss rose*: the loss alone is said to have risen (a one-sided test of 5 %). *False costs*: any feature that "
        "did not change is said to cost more, neighbours of a broken one included. *False cause*: any such feature is "
        "called a cause, after the steps that explain neighbours. *Called changed*: the values or the effect of any "
        "such feature are said to have changed. *Found*: all features that changed are called causes. *What changed*: "
        "of the first of these, whether “values” or “effect” is said, rightly or wrongly (also “rows”); *not told*: "
        "that the data do not tell; else it is said that nothing of this alone explains it. *PSI*: the population "
        f"stability index of a column is above {LARGE_INDEX:g}; *KS*: a column differs by the test of Kolmogorov and "
        "Smirnov (Holm). If only X drifts, features may truly cost more, and that its values changed is true of a "
        "feature whose mean moved; but nothing is broken. *Only other rows*: this is said of the first cause.",
        f"*Written by the runner; {machine_line()}.*",
        *(part for table in TABLES for part in (f"## {table}", _table(trials, table))),
    ]


def _table(trials: list[dict[str, Any]], table: str) -> str:
    columns = {"rose": "loss rose"} | (TRUE if table in KIND_OF_TABLE else {}) | FALSE
    columns |= OF_ROWS if table == X_ONLY else {}
    lines = []
    for setting in settings():
        for model in MODELS if setting.table == table else ():
            n, rates = rates_of(trials, setting.key(model))
            if n:
                lines.append([setting.name, model, str(n), *(with_error(rates.get(name)) or "-" for name in columns)])
    return markdown_table(["in the window after", "model", "trials", *columns.values()], lines, texts=(0, 1))


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for setting in settings():
        for model in MODELS:
            n, rates = rates_of(trials, setting.key(model))
            row = {"table": setting.table, "after": setting.name, "model": model, "trials": n}
            lines += [
                row | {"outcome": name, "share": rate[0], "standard_error": rate[1]} for name, rate in rates.items()
            ]
    return lines


run = Measurement("loss-changes", 100, _tasks, _parts, _lines).run
