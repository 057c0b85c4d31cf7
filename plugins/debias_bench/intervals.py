"""Coverage of intervals, and power at planned numbers of rows, by simulation with fixed seeds.

There are three kinds of trials: intervals for one model over sets of new rows, intervals for the population over data
sets, and plans of rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, rate, with_error
from debias_bench.runner import machine_line
from debias_bench.significance_settings import seed_of
from debias_bench.trials import KindOfRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Trials = list[dict[str, Any]]

N_TRAINING_ROWS = 600
MANY_ROWS = 30_000
"""So many new rows tell what a feature saves in a model."""
SETS = 10
"""Number of sets of new rows of a model."""
MODELS_EACH = 6
"""A model is trained in one of so many repeats."""
FOLDS = 5
PLANNED = (1, 2, 3)
"""The features whose rows are planned."""


@dataclass(frozen=True)
class OfModel:
    """Intervals for one model: the kind of response, the model, and the number of new rows."""

    response: str
    model: str
    n_rows: int

    @property
    def name(self) -> str:
        """Name of the setting in the file of trials."""
        return f"model, {self.response}, {self.model}, {self.n_rows}"


@dataclass(frozen=True)
class OfPopulation:
    """Intervals for the population: the learner, and the number of rows."""

    learner: str
    n_rows: int

    @property
    def name(self) -> str:
        """Name of the setting in the file of trials."""
        return f"population, {self.learner}, {self.n_rows}"


@dataclass(frozen=True)
class Plan:
    """Plans of rows: the kind of response, the model, the kind of the rows, and their number in the pilot audit."""

    response: str
    model: str
    rows: KindOfRows
    n_rows: int

    @property
    def name(self) -> str:
        """Name of the setting in the file of trials."""
        return f"plan, {self.response}, {self.model}, {self.rows}, {self.n_rows}"


def settings() -> list[OfModel | OfPopulation | Plan]:
    """Return the settings of the tables."""
    kinds = (("normal", "XGBoost"), ("normal", "forest"), ("skewed", "XGBoost"), ("classes", "XGBoost"))
    return [
        *(OfModel(*kind, n_rows) for kind in kinds for n_rows in (200, 1000)),
        *(OfPopulation(learner, n_rows) for learner in LEARNERS for n_rows in (300, 1000, 5000)),
        Plan("normal", "XGBoost", "held-out", 500),
        Plan("classes", "XGBoost", "held-out", 1000),
        Plan("normal", "forest", "held-out", 500),
        Plan("normal", "forest", "oob", 300),
    ]


def of_model(setting: OfModel, number: int, sets: int = SETS) -> dict[str, Any]:
    """Train a model, and return which intervals contain what they are about, for several sets of new rows.

    Parameters
    ----------
    setting : OfModel
    number : int
        Number of the model.
    sets : int

    Returns
    -------
    dict
        For each scorer the share of covered losses, and the share of sets in which all ranks are covered.
    """
    rng = np.random.default_rng([len(setting.name), setting.n_rows, KINDS.index(setting.response), number])
    model = trained(setting.response, setting.model, N_TRAINING_ROWS, rng)
    many, found = _drawn(setting.response, MANY_ROWS, rng), {}
    rows = [_drawn(setting.response, setting.n_rows, rng) for _ in range(sets)]
    for name, scorer, test in SCORERS:
        of_many = _score(model, many, scorer, test).values
        rank = 1 + np.argsort(np.argsort(-of_many, kind="stable"), kind="stable")
        losses, ranks, widths = [], [], []
        for each in rows:
            scores = _score(model, each, scorer, test)
            bounds, between = scores.interval(), scores.rank_interval()
            losses.append(((bounds["lower"] <= of_many) & (of_many <= bounds["upper"])).mean())
            ranks.append(((between["first"] <= rank) & (rank <= between["last"])).all())
            widths.append((between["last"] - between["first"]).mean())
        found[name] = {"loss": float(np.mean(losses)), "ranks": float(np.mean(ranks)), "width": float(np.mean(widths))}
    return found


def of_population(setting: OfPopulation, number: int) -> dict[str, Any]:
    """Draw a data set, and return scores and standard errors of each feature, by method."""
    rng = np.random.default_rng([setting.n_rows, list(LEARNERS).index(setting.learner), number])
    X, y, _ = population(setting.learner, setting.n_rows, rng)
    estimator, seed = LEARNERS[setting.learner](), seed_of(rng)
    options = {"estimator": estimator, "cv": FOLDS, "random_state": seed}
    ours = debias.score(None, X, y, "conditional_predictive_value", population=True, **options)
    plain = debias.score(None, X, y, "conditional_predictive_value", **options)
    assert ours.standard_error is not None
    found = {
        "ours": [ours.values.tolist(), ours.standard_error.tolist()],
        "paired": [plain.values.tolist(), plain.details["standard_error"]],
    }
    if setting.learner == "least squares":
        found["halves"] = [each.tolist() for each in halves(X, y, estimator, seed)]
    return found


def halves(X: Array, y: Array, estimator: Any, seed: int) -> tuple[Array, Array]:
    """Return what each feature saves by the sample splitting of Williamson et al. (2023), and its standard error.

    Of twice as many folds, half are for the loss with all features, and half for the loss without one.
    """
    from sklearn.model_selection import KFold, cross_val_predict

    folds = list(KFold(2 * FOLDS, shuffle=True, random_state=seed).split(X))
    first = np.concatenate([test for _, test in folds[:FOLDS]])
    second = np.concatenate([test for _, test in folds[FOLDS:]])

    def losses(X: Array) -> Array:
        of_rows: Array = (y - cross_val_predict(estimator, X, y, cv=folds)) ** 2
        return of_rows

    with_all = losses(X)[first]
    without = [losses(np.delete(X, k, axis=1))[second] for k in range(X.shape[1])]
    saved = np.array([each.mean() - with_all.mean() for each in without])
    error = np.array([np.sqrt(each.var() / each.size + with_all.var() / with_all.size) for each in without])
    return saved, error


def planned(setting: Plan, number: int) -> dict[str, Any]:
    """Plan rows from a pilot audit, and return the numbers and whether the features are found in new rows."""
    rng, found = np.random.default_rng([setting.n_rows, KINDS.index(setting.response), 7, number]), {}
    effects = _effects(setting)
    pilot = _audited(setting, setting.n_rows, rng)
    for k in PLANNED:
        n_rows = pilot.rows_needed(effects[k]).rows
        audit = _audited(setting, max(n_rows, 20), rng)
        found[str(k)] = {"rows": n_rows, "found": bool(audit.which("informative")[k]), "effect": effects[k]}
    return found


@cache
def _effects(setting: Plan) -> list[float]:
    """Return the effects of the features: in one model from many rows, or out of bag as a mean over data sets."""
    rng = np.random.default_rng(11)
    audits = [_audited(setting, MANY_ROWS if setting.rows == "held-out" else setting.n_rows, rng)]
    if setting.rows == "oob":
        audits += [_audited(setting, setting.n_rows, rng) for _ in range(29)]
    shares = [audit.tested_scores.values / audit.tested_scores.details["response_variance"] for audit in audits]
    return [float(share) for share in np.mean(shares, axis=0)]


def _audited(setting: Plan, n_rows: int, rng: np.random.Generator) -> debias.Audit:
    if setting.rows == "held-out":
        model = _model_of(setting.response, setting.model)
        X, y = _drawn(setting.response, n_rows, rng)
    else:
        X, y = _drawn(setting.response, n_rows, rng)
        model = _unfitted(setting.response, setting.model, seed_of(rng)).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        return debias.audit(model, X, y, [], rows=setting.rows, dependence=False, random_state=seed_of(rng))


@cache
def _model_of(response: str, model: str) -> Any:
    return trained(response, model, N_TRAINING_ROWS, np.random.default_rng(5))


def trained(response: str, model: str, n_rows: int, rng: np.random.Generator) -> Any:
    """Return a model of rows that are drawn."""
    return _unfitted(response, model, seed_of(rng)).fit(*_drawn(response, n_rows, rng))


def _unfitted(response: str, model: str, seed: int) -> Any:
    if model == "forest":
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(40, min_samples_leaf=5, max_features=0.5, random_state=seed, n_jobs=1)
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBClassifier if response == "classes" else XGBRegressor
    return kind(n_estimators=40, max_depth=3, learning_rate=0.15, n_jobs=1, random_state=seed)


KINDS = ("normal", "skewed", "classes")
SCORERS = (
    ("mdi_oob", "mdi_oob", "naive"),
    ("ablation loss", "ablation(measure='loss')", None),
    ("oob_loss", "oob_loss(p_values=True)", None),
)
"""Name, scorer and test of the intervals for one model."""
SLOPES = np.array([0.8, 0.45, 0.3, 0.2, 0, 0, 0, 0])
EFFECTS = np.array([0.8, 0.3, 0.1, 0.0, 0.0])
"""Slopes of least squares in the population; the last feature is correlated .71 with the first one."""


def _drawn(response: str, n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    X = rng.normal(size=(n_rows, SLOPES.size))
    X[:, 5] = X[:, 5] > 0
    mean = X @ SLOPES
    if response == "normal":
        return X, mean + rng.normal(size=n_rows)
    if response == "skewed":
        return X, np.exp(mean / 2 + 0.5 * rng.normal(size=n_rows))
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-1.5 * mean))).astype(np.float64)


def population(learner: str, n_rows: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return X, y, and what the best prediction with all features saves beside the best one without each feature."""
    if learner == "least squares":
        X = rng.normal(size=(n_rows, EFFECTS.size))
        X[:, 4] = np.sqrt(0.5) * (X[:, 0] + X[:, 4])
        return X, X @ EFFECTS + rng.normal(size=n_rows), EFFECTS**2 * [0.5, 1, 1, 1, 1]
    X = rng.uniform(-1, 1, (n_rows, 5))
    mean = 1.2 * np.sin(3 * X[:, 0]) + 0.5 * (X[:, 1] > 0) + 0.2 * X[:, 2] + 0.8 * X[:, 2] * X[:, 3]
    best = [1.44 * (0.5 - np.sin(6) / 12), 0.0625, 0.04 / 3 + 0.64 / 9, 0.64 / 9, 0.0]
    return X, mean + rng.normal(size=n_rows), np.array(best)


def _least_squares() -> Any:
    from sklearn.linear_model import LinearRegression

    return LinearRegression()


def _boosting() -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=40, max_depth=3, learning_rate=0.15, max_bin=64, n_jobs=1)


LEARNERS = {"least squares": _least_squares, "boosting": _boosting}


def _score(model: Any, rows: tuple[Array, Array], scorer: str, test: Any) -> debias.Scores:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        return debias.score(model, *rows, scorer, rows="held-out", test=test)


def _trial(setting: Any, repeat: int) -> dict[str, Any]:
    if isinstance(setting, OfModel):
        scores = of_model(setting, repeat)
    else:
        scores = of_population(setting, repeat) if isinstance(setting, OfPopulation) else planned(setting, repeat)
    return {"design": setting.name, "repeat": repeat, "scores": scores}


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        for setting in settings():
            if not isinstance(setting, OfModel) or repeat % MODELS_EACH == 0:
                yield setting.name, repeat, _trial, setting, repeat


def _of(trials: Trials, setting: Any) -> list[dict[str, Any]]:
    return [trial["scores"] for trial in trials if trial["design"] == setting.name]


def _parts(trials: Trials, repeats: int) -> list[str]:
    return [
        "# Do the intervals cover, and do planned rows find the effect?",
        "`debias bench intervals`: all intervals are at 95 %. Standard errors in () are over models, data sets or "
        "plans. [What the intervals are about](../intervals.md).",
        f"*Written by the runner; {machine_line()}.*",
        "## One model on new rows",
        f"Models are trained on {N_TRAINING_ROWS} rows with eight features, four of them of use, and scored on {SETS} "
        f"sets of new rows each. What an interval is about comes from {MANY_ROWS:,} other rows. *Score*: the share of "
        "intervals of `Scores.interval()` that contain the score; *ranks*: the share of sets in which the intervals of "
        "`Scores.rank_interval()` contain all eight ranks; *width*: the mean of last minus first, of at most 7.",
        _table_of_models(trials),
        "## The population",
        f"`conditional_predictive_value(population=True)`, {FOLDS} folds, five features. The intervals are about what "
        "a feature saves in models of other data sets of this size: the mean score over the data sets. *Best "
        "prediction*: how often they contain what it saves for the best possible prediction. Least squares: slopes .8, "
        ".3, .1, 0, 0, the last feature with a correlation of .71 with the first. Boosting: 40 trees of depth 3 "
        "(XGBoost), a sine, a step, a line, a product, and a feature of no use. *Paired*: the standard error of the "
        "paired differences alone. *Halves*: Williamson et al. (2023), with the two losses on different halves.",
        _table_of_population(trials),
        "## Planned rows",
        "Each audit plans the rows for three features with known effects, with power .8, and new rows of this number "
        "are audited. Held out: in one model, with effects from many rows. Out of bag: new forests; the effect is the "
        "mean score of forests of the size of the pilot.",
        _table_of_plans(trials),
    ]


def _table_of_models(trials: Trials) -> str:
    lines = []
    for setting in settings():
        found = _of(trials, setting)
        if isinstance(setting, OfModel) and found:
            for name, *_ in SCORERS:
                cells = [_estimate([each[name][what] for each in found]) for what in ("loss", "ranks", "width")]
                n_sets = str(SETS * len(found))
                lines.append([setting.response, setting.model, str(setting.n_rows), n_sets, f"`{name}`", *cells])
    heading = ["response", "model", "new rows", "sets", "scorer", "score", "ranks", "width"]
    return markdown_table(heading, lines, texts=(0, 1, 4))


def _coverages(trials: Trials, setting: OfPopulation) -> Iterator[tuple[str, int, Array, Array, Array]]:
    """Yield, for each method, what is covered of each feature: the mean score and the best prediction; and widths."""
    found = _of(trials, setting)
    best = population(setting.learner, 2, np.random.default_rng(0))[2]
    for method in found[0] if found else ():
        score, error = np.array([each[method] for each in found]).transpose(1, 0, 2)
        reach = 1.959964 * error
        covered = [np.abs(score - target) <= reach for target in (score.mean(axis=0), best)]
        yield method, len(found), *covered, 2 * reach


def _table_of_population(trials: Trials) -> str:
    lines = []
    for setting in settings():
        if isinstance(setting, OfPopulation):
            for method, n, mean, best, width in _coverages(trials, setting):
                least = f"{mean.mean(axis=0).min():.3f}"
                cells = [with_error(rate(mean.mean(axis=1))), least, with_error(rate(best.mean(axis=1)))]
                widths = [f"{width[:, k].mean():.3f}" for k in (0, -1 if setting.learner == "boosting" else 3)]
                lines.append([setting.learner, f"{setting.n_rows:,}", str(n), method, *cells, *widths])
    heading = [
        "learner", "rows", "data sets", "standard error", "covered", "least of five features", "best prediction",
        "width, strongest", "width, of no use",
    ]  # fmt: skip
    return markdown_table(heading, lines, texts=(0, 3))


def _table_of_plans(trials: Trials) -> str:
    lines = []
    for setting in settings():
        found = _of(trials, setting)
        if isinstance(setting, Plan) and found:
            for k in map(str, PLANNED):
                effect, rows = found[0][k]["effect"], np.median([each[k]["rows"] for each in found])
                power = _estimate([each[k]["found"] for each in found])
                kind = [setting.response, setting.model, setting.rows, str(setting.n_rows), str(len(found))]
                lines.append([*kind, f"{effect:.2%}", f"{rows:,.0f}", power])
    heading = ["response", "model", "rows", "pilot", "plans", "effect", "median plan", "power"]
    return markdown_table(heading, lines, texts=(0, 1, 2))


def _estimate(values: Sequence[float]) -> str:
    return with_error(rate(np.array(values, dtype=np.float64)))


def _lines(trials: Trials) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []

    def add(setting: Any, method: str, figure: str, values: Any) -> None:
        value, error = rate(np.array(values, dtype=np.float64))
        lines.append({"setting": setting.name, "method": method, "figure": figure, "trials": len(values),
                      "value": value, "standard_error": error})  # fmt: skip

    for setting in settings():
        found = _of(trials, setting)
        if isinstance(setting, OfModel):
            for name, *_ in SCORERS if found else ():
                for what in ("loss", "ranks", "width"):
                    add(setting, name, what, [each[name][what] for each in found])
        elif isinstance(setting, OfPopulation):
            for method, _, mean, best, width in _coverages(trials, setting):
                for k in range(width.shape[1]):
                    add(setting, method, f"covers the mean score of feature {k}", mean[:, k])
                    add(setting, method, f"covers the best prediction of feature {k}", best[:, k])
                    add(setting, method, f"width of feature {k}", width[:, k])
        else:
            for feature in map(str, PLANNED) if found else ():
                add(setting, "plan", f"rows for feature {feature}", [each[feature]["rows"] for each in found])
                add(setting, "plan", f"power for feature {feature}", [each[feature]["found"] for each in found])
    return lines


run = Measurement("intervals", 60, _tasks, _parts, _lines).run
