"""Power of tests on held-out rows, with their family-wise errors: those of debias, and others.

Every trial draws new training rows, trains a model, and draws new rows to test on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import debias
from debias.api.prepared import prepared_members
from debias.rows.request import Request
from debias.significance.procedure import Procedure
from debias_bench import simulate
from debias_bench.awkward_settings import noise, unequal_blocks
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Estimate, Measurement, holds, rate, rate_of, with_error
from debias_bench.power_designs import aico, forest
from debias_bench.power_methods import Case, boruta, correlation, leave_out, sign_of_masking
from debias_bench.runner import machine_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias_bench.power_methods import Verdicts

    Array = NDArray[np.float64]

ALPHA = 0.05
N_PERMUTATIONS = 199
MODELS = ("XGBoost .1, depth 3", "XGBoost .3, depth 6", "LightGBM", "forest")
DEFAULT = "residuals"
OF_AUDIT: dict[str, Literal["auto", "response"]] = {DEFAULT: "auto", "response": "response"}
"""Tests of an audit, and what they permute."""
SCORERS = {"permutation": "permutation(p_values=True)", "ablation": "ablation"}
"""Scorers with p-values of their own."""
OTHERS: dict[str, Callable[[Case], Verdicts]] = {
    "AICO": partial(sign_of_masking, split_ties=True),
    "Pearson": correlation,
    "LOCO": leave_out,
    "Boruta": boruta,
}
OF_HELD_OUT = {"Pearson, held out": "Pearson", "Boruta, held out": "Boruta"}
"""Tests without the model that are made on the held-out rows alone, too."""
TESTS = (*OF_AUDIT, *SCORERS, *OTHERS, *OF_HELD_OUT)
OTHER_ROWS, LINES = ("Pearson", "Boruta"), ("Pearson, held out",)
"""Tests that are given the training rows too, and one that sees lines only: the default is not compared with them."""


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
    block : array of shape (n_rows,), or None
    """

    X: Array
    y: NDArray[Any]
    relevant: NDArray[np.bool_]
    noise: NDArray[np.bool_] | None = None
    block: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Setting:
    """One design, a line of the tables.

    Parameters
    ----------
    name : str
    draw : callable
        ``draw(rng, n_rows)`` returns a Sample.
    n_rows : tuple of int
        Numbers of training rows and of held-out rows.
    models : tuple of str
        The model of trial i is the i-th of these, in turn.
    """

    name: str
    draw: Callable[[np.random.Generator, int], Sample]
    n_rows: tuple[int, int]
    models: tuple[str, ...] = MODELS


def settings() -> list[Setting]:
    """Return the designs of the tables."""
    boosted = MODELS[:3]
    of_aico = [
        Setting(f"AICO, sd {deviation}", partial(_aico, deviation=deviation), (1000, 1000), ("XGBoost .3, depth 3",))
        for deviation in (1, 5)
    ]
    skewed = [
        Setting(f"{name}, 200 rows", partial(_skewed, response=response), (200, 200), boosted)
        for name, response in SKEWED.items()
    ]
    few = [Setting(f"{name}, {n} rows", partial(_few, name=name), (300, n)) for name in MEANS for n in (50, 100)]
    return [
        *of_aico,
        *skewed,
        *few,
        Setting("heteroscedastic, 1,000 rows", _heteroscedastic, (1000, 1000), boosted),
        Setting("class of 5 %, 100 rows", _rare, (1000, 100)),
        Setting("class of 5 %, 300 rows", _rare, (1000, 300)),
        Setting("three relevant of eleven, three classes, 100 rows", _three, (300, 100)),
        Setting("additive, blocks of 1 to 12, 300 rows", partial(_few, name="additive", unequal=True), (300, 300)),
    ]


def trial(setting: Setting, number: int) -> dict[str, Any]:
    """Draw one data set, fit the model and test its features.

    Returns
    -------
    dict
        For each test that takes part (share of relevant features found, whether any noise is found), family-wise; or
        the reason why it refused.
    """
    rng = np.random.default_rng([sum(map(ord, setting.name)), number])
    n_train, n_held_out = setting.n_rows
    sample = setting.draw(rng, n_train + n_held_out)
    classes = sample.y.dtype.kind == "i"

    def unfitted(seed: int) -> Any:
        return _model(setting.models[number % len(setting.models)], classes, seed)

    old, new = (_part(sample, rows) for rows in (slice(None, n_train), slice(n_train, None)))
    model = unfitted(number).fit(old.numeric.to_numpy(), old.y)
    case = Case(model, old, new, unfitted, number)
    adjusted = _of_debias(case, None if sample.block is None else sample.block[n_train:])
    for name, test in OTHERS.items():
        adjusted[name] = test(_without_model(_part(sample, slice(None)), number) if name == "Boruta" else case).adjusted
    for name, test_of in OF_HELD_OUT.items():
        adjusted[name] = OTHERS[test_of](_without_model(new, number)).adjusted
    noise_features = ~sample.relevant if sample.noise is None else sample.noise
    found = {name: np.asarray(each) <= ALPHA for name, each in adjusted.items() if not isinstance(each, str)}
    return {name: {"refused": each} for name, each in adjusted.items() if isinstance(each, str)} | {
        name: [float(each[sample.relevant].mean()), float(each[noise_features].any())] for name, each in found.items()
    }


def _of_debias(case: Case, block: NDArray[np.int64] | None) -> dict[str, Any]:
    """Return the adjusted p-values of the tests of debias, or the reason why one refused."""
    assert case.held_out is not None
    rows = debias.Dataset(case.held_out.numeric.to_numpy(), case.held_out.y, blocks=block)
    tested, *scorers = (debias.plugin.scorer(name) for name in ("mdi_oob", *SCORERS.values()))
    request = Request.of(case.model, rows, rows="held-out", random_state=case.seed)
    (prepared,) = prepared_members(request, [tested, *scorers], known=True)  # the rows are fresh: nothing to recognise
    adjusted = {name: prepared.score(each).p_adjusted for name, each in zip(SCORERS, scorers, strict=True)}
    untested = prepared.score(tested)
    for name, of in OF_AUDIT.items():
        test: Any = debias.Permutation(N_PERMUTATIONS, adaptive=False, of=of)
        if block is not None and of == "response":
            test = "naive"  # blocks of different sizes cannot be permuted
        procedure = Procedure.of(test, ALPHA)
        assert procedure is not None
        adjusted[name] = prepared.test(untested, tested, procedure).p_adjusted
    return adjusted


def _part(sample: Sample, rows: slice) -> simulate.Simulation:
    import pandas as pd

    frame = pd.DataFrame(sample.X[rows], columns=[f"x{k}" for k in range(sample.X.shape[1])])
    return simulate.Simulation(frame, sample.y[rows], (), tuple(frame.columns[sample.relevant]))


def _without_model(rows: simulate.Simulation, seed: int) -> Case:
    """Return the case of some rows and forests that are fitted to them, as Boruta does by default."""
    return Case(None, rows, None, lambda seed: forest(seed, rows.y, min_samples_leaf=5, n_estimators=50), seed)


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


def _aico(rng: np.random.Generator, n: int, deviation: float) -> Sample:
    """Draw the regression of AICO."""
    drawn = aico(int(rng.integers(2**31)), deviation, n // 2)
    assert drawn.held_out is not None
    parts = (drawn.simulation, drawn.held_out)
    X, y = np.vstack([part.numeric for part in parts]), np.concatenate([part.y for part in parts])
    return Sample(X, y, ~drawn.noise)


SKEWED: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "exp(2x) lognormal .3": lambda rng, x: np.exp(2 * x) * rng.lognormal(0, 0.3, x.size),
    "lognormal 1": lambda rng, x: np.exp(x) * rng.lognormal(0, 1, x.size),
    "claims, 80 % zero": lambda rng, x: (rng.random(x.size) < 0.2) * rng.gamma(1, 1000 * np.exp(0.7 * x)),
    "counts, overdispersed": lambda rng, x: rng.poisson(rng.gamma(0.5, 2 * np.exp(0.6 * x))).astype(float),
    "Student 1.5": lambda rng, x: x + rng.standard_t(1.5, x.size),
}


def _skewed(rng: np.random.Generator, n: int, response: Callable[[np.random.Generator, Array], Array]) -> Sample:
    x = rng.normal(size=n)
    return Sample(np.column_stack([x, noise(rng, n)[:, :9]]), response(rng, x), np.arange(10) < 1)


MEANS: dict[str, tuple[Callable[[Array], Array], int]] = {
    "additive": (lambda X: X[:, 0] + np.abs(X[:, 1]) + (X[:, 2] > 0), 3),
    "interactions": (lambda X: 2 * (X[:, 0] > 0) * X[:, 1] + X[:, 2] * X[:, 3], 4),
    "weak": (lambda X: 0.4 * X[:, :4].sum(axis=1), 4),
    "one strong": (lambda X: 3 * X[:, 0] + 0.6 * X[:, 1] + 0.6 * X[:, 2], 3),
}
"""Means of y, and the number of columns on which they depend, the first ones."""


def _few(rng: np.random.Generator, n: int, name: str, unequal: bool = False) -> Sample:
    mean, n_relevant = MEANS[name]
    X = np.column_stack([rng.normal(size=(n, 4)), noise(rng, n)[:, :8]])
    block, error = None, rng.normal(size=n)
    if unequal:
        block = unequal_blocks(rng, n)
        error = (rng.normal(size=n)[block] + error) / np.sqrt(2)
    return Sample(X, mean(X) + error, np.arange(12) < n_relevant, block=block)


def _heteroscedastic(rng: np.random.Generator, n: int) -> Sample:
    """Draw a mean that depends on one column, and a standard deviation that depends much more on another one."""
    X = np.column_stack([rng.normal(size=(n, 2)), noise(rng, n)[:, :8]])
    y = X[:, 0] + np.exp(2 * X[:, 1]) * rng.normal(size=n)
    return Sample(X, y, np.arange(10) < 1, noise=np.arange(10) > 1)


def _rare(rng: np.random.Generator, n: int) -> Sample:
    X = np.column_stack([rng.normal(size=(n, 2)), noise(rng, n)[:, :8]])
    tendency = X[:, 0] + X[:, 1] + rng.normal(size=n)
    return Sample(X, (tendency > np.quantile(tendency, 0.95)).astype(np.int64), np.arange(10) < 2)


def _three(rng: np.random.Generator, n: int) -> Sample:
    X = np.column_stack([rng.normal(size=(n, 3)), noise(rng, n)[:, :8]])
    tendency = np.column_stack([X[:, 0], X[:, 1] * X[:, 2], np.zeros(n)]) + rng.gumbel(size=(n, 3))
    return Sample(X, tendency.argmax(axis=1), np.arange(11) < 3)


def _values(trials: list[dict[str, Any]], design: str, test: str) -> NDArray[np.float64]:
    """Return the shares found and whether any noise is found, one row per data set that the test took part in."""
    scores = [each["scores"].get(test) for each in trials if each["design"] == design]
    return np.array([score for score in scores if isinstance(score, list)], dtype=np.float64).reshape(-1, 2)


def behind(trials: list[dict[str, Any]], design: str, rivals: Sequence[str]) -> tuple[str, Estimate] | None:
    """Return the rival that finds most of those that hold the level, and what the default finds more, on its sets.

    Returns
    -------
    tuple
        The name of the rival, and the mean difference with its standard error; None if there is no such rival.
    """
    best = None
    for rival in rivals:
        values = _values(trials, design, rival)
        if len(values) and holds(values[:, 1]) and (best is None or values[:, 0].mean() > best[1]):
            best = (rival, values[:, 0].mean())
    if best is None:
        return None
    both = [each["scores"] for each in trials if each["design"] == design and best[0] in each["scores"]]
    return best[0], rate(np.array([scores[DEFAULT][0] - scores[best[0]][0] for scores in both]))


def _found_table(trials: list[dict[str, Any]]) -> str:
    lines = []
    for setting in settings():
        cells = []
        for test in TESTS:
            values = _values(trials, setting.name, test)
            cell = with_error(rate(values[:, 0])) if len(values) else "-"
            cells.append(cell if not len(values) or holds(values[:, 1]) else f"[{cell}]")
        rivals = [test for test in TESTS if test not in (DEFAULT, *OTHER_ROWS, *LINES)]
        best = behind(trials, setting.name, rivals)
        lines.append([setting.name, *cells, "-" if best is None else f"{with_error(best[1])}, {best[0]}"])
    return markdown_table(
        ["design", *TESTS, f"{DEFAULT} less the best of these rows"], lines, texts=(0, len(TESTS) + 1)
    )


def _error_table(trials: list[dict[str, Any]]) -> str:
    lines = []
    for names, title in [*(([each.name], each.name) for each in settings()), ([e.name for e in settings()], "**all**")]:
        cells = []
        for test in TESTS:
            found = np.concatenate([_values(trials, name, test)[:, 1] for name in names])
            cells.append(f"{with_error(rate_of(found))}; {found.size:,}" if found.size else "-")
        lines.append([title, *cells])
    return markdown_table(["design", *TESTS], lines, texts=(0,))


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        yield from ((setting.name, repeat, _trial, setting, repeat) for setting in settings())


def _trial(setting: Setting, repeat: int) -> dict[str, Any]:
    return {"design": setting.name, "repeat": repeat, "scores": trial(setting, repeat)}


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    return [
        "# Tests on held-out rows: how many relevant features are found",
        "`debias bench held-out`: each data set has its own training rows, model and held-out rows. Boosters have 100 "
        "trees (XGBoost) or 60 trees of 15 leaves (LightGBM), forests 60 trees; the models take turns. Boosters alone "
        "have skewed responses and unequal variances, and XGBoost alone, of depth 3 and rate .3, the design of "
        "[AICO](aico.md). Standard errors in (). [Error rates](significance.md) without relevant features are on a "
        "page of their own.",
        "\n".join(f"- *{test}*: {text}." for test, text in NOTES.items()),
        f"*Written by the runner; {machine_line()}.*",
        "## Relevant features found",
        f"Mean share of the relevant features that are found at a family-wise level of {ALPHA:.0%}. A share in "
        "brackets is not comparable: the test finds noise in more data sets than that, by more than two standard "
        "errors. The last column has the test without brackets that finds most, of those that are given the same rows "
        "and apart from Pearson's, and the mean difference on the data sets of that test. Pearson and Boruta are given "
        "training rows too, up to 10 times as many; their last columns are of the held-out rows alone. "
        "*Heteroscedastic*: the column on which the mean depends is relevant; the one on which the standard deviation "
        "depends is not counted.",
        _found_table(trials),
        "## Noise found",
        f"Share of data sets in which any noise is found at a family-wise level of {ALPHA:.0%}, beside the relevant "
        "features, and the number of data sets.",
        _error_table(trials),
        *_refusals(trials),
    ]


NOTES = {
    DEFAULT: "the default of an audit: [residuals](../significance.md#the-test-of-residuals) are permuted; where fewer "
    "than ten rows are outside the largest class, the response",
    "response": "the default before: the response is permuted, or normal scores of it where few rows dominate; a "
    "t-test if blocks have different sizes",
    "permutation": "`permutation(p_values=True)`",
    "ablation": "the scorer of debias, with its own p-values",
    "AICO": "the sign test of AICO with Holm's method; a row that masking does not change counts for or against the "
    "feature with probability 1/2",
    "Pearson": "t-tests of Pearson's correlation with Holm's method, on training and held-out rows, without a model; "
    "of three classes the smallest p-value of a class, times three",
    "LOCO": "the model is fitted again without each feature (Lei et al. 2018); Wilcoxon's signed-rank test of the "
    "absolute errors of held-out rows, with Holm's method",
    "Boruta": "20 rounds with forests of 50 trees, fitted to training and held-out rows; binomial tests with "
    "Bonferroni's method",
    "Pearson, held out": "the same on held-out rows alone",
    "Boruta, held out": "the same, fitted to held-out rows alone",
}
"""What each test is, for the page."""


def _refusals(trials: list[dict[str, Any]]) -> list[str]:
    reasons = {
        (name, score["refused"])
        for each in trials
        for name, score in each["scores"].items()
        if not isinstance(score, list)
    }
    return ["## Refused", "\n".join(f"- {name}: {reason}" for name, reason in sorted(reasons))] if reasons else []


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"design": setting.name, "test": test, "data_sets": len(values), "quantity": what, "value": value,
         "standard_error": error}
        for setting in settings()
        for test in TESTS
        if len(values := _values(trials, setting.name, test))
        for what, (value, error) in {"found": rate(values[:, 0]), "any noise": rate_of(values[:, 1])}.items()
    ]  # fmt: skip


run = Measurement("held-out", 100, _tasks, _parts, _lines).run
