"""How often noise is found on held-out rows where a class is rare, by simulation with fixed seeds.

The trees are given, and the level is about rows they have not seen: so each model is tested on many sets of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.api.evaluation import prepared_members
from debias.benchmarks.machine import machine_line, versions
from debias.benchmarks.markdown import markdown_table
from debias.benchmarks.runner import run_tasks, write_index
from debias.benchmarks.significance_settings import seed_of
from debias.benchmarks.trials import TrialFile
from debias.rows.request import Request
from debias.significance.procedure import Procedure

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.console import Console

N_FEATURES = 10
N_TRAINING_ROWS = 5000
SETS = 20
"""Held-out sets of each model."""
ALPHA = 0.05
WAYS = {
    "auto": 'test="auto"',
    "effective": "Student's law by effective rows",
    "normal": "by the number of rows",
}
"""How it is tested: as by default, as rows that come in batches are, and as before effective rows were counted."""
MODELS = ("forest, balanced", "forest, balanced_subsample", "forest", "XGBoost", "LightGBM, scale_pos_weight")


@dataclass(frozen=True)
class Setting:
    """One row of the table: a class of one in `ratio` rows, a model, and how many rows are held out."""

    ratio: int
    model: str
    n_rows: int

    @property
    def name(self) -> str:
        """What the file of trials calls it."""
        return f"1:{self.ratio}, {self.model}, {self.n_rows}"


def settings() -> list[Setting]:
    """Return the settings of the table."""
    return [
        *(Setting(ratio, model, 5000) for ratio in (20, 50, 100, 200, 500) for model in MODELS[:2]),
        *(Setting(ratio, model, 5000) for ratio in (20, 100, 500) for model in MODELS[2:]),
        *(Setting(ratio, MODELS[0], n_rows) for ratio, n_rows in ((100, 1000), (20, 20_000), (100, 20_000))),
        *(Setting(2, model, 5000) for model in (MODELS[0], MODELS[3])),
    ]


def run(out: Path, messages: Console, *, repeats: int = 10, jobs: int = 1, restart: bool = False) -> str:
    """Simulate what is missing, and write the page and its figures.

    Parameters
    ----------
    out : Path
        Folder to write ``rare-classes.md`` to; trials there are gone on with.
    messages : rich.console.Console
        Where progress goes.
    repeats : int
        Models of each setting, each tested on 20 sets of rows.
    jobs : int
        Processes, as joblib counts them.
    restart : bool
        Throw away what is there.

    Returns
    -------
    str
        The page.
    """
    header = {"study": "rare-classes", "versions": versions()}
    with TrialFile(out / "rare-classes.trials.jsonl", header, restart) as file:
        tasks: list[Any] = [
            (_trial, setting, repeat)
            for repeat in range(repeats)
            for setting in settings()
            if not file.scored(setting.name, repeat)
        ]
        run_tasks(tasks, file, jobs, messages)
    found = {setting: _found(file.trials, setting, repeats) for setting in settings()}
    page = "\n\n".join(
        [
            "# How often is noise found where a class is rare?",
            f"`debias bench rare-classes`: {N_FEATURES} features that know nothing of the class, and models of "
            f"{N_TRAINING_ROWS:,} rows, 25 trees to a forest and 50 to a boosted model, each tested on {SETS} sets of "
            f"fresh rows. The share of sets in which any feature is found at a family-wise error of {ALPHA:.0%}, with "
            "standard errors over models in (), binomial where they are larger; "
            "[what the tests are](../significance.md).",
            "*By the number of rows* is the test of rows above 2,000 before effective rows were counted.",
            f"*Written by the runner; {machine_line()}.*",
            markdown_table(_lines(found)),
        ]
    )
    (out / "rare-classes.md").write_text(page + "\n", encoding="utf-8")
    _write_figures(found, out / "rare-classes.csv")
    write_index(out)
    return page + "\n"


def any_found(setting: Setting, number: int, sets: int = SETS) -> dict[str, NDArray[np.bool_]]:
    """Train a model on noise, and tell for each of some sets of fresh rows whether anything is found in it.

    Parameters
    ----------
    setting : Setting
    number : int
        Of the model; the same gives the same data.
    sets : int

    Returns
    -------
    dict
        By way of testing, arrays of shape (sets,).
    """
    from scipy.special import stdtr

    rng = np.random.default_rng([setting.ratio, setting.n_rows, MODELS.index(setting.model), number])
    model = _model(setting, seed_of(rng)).fit(*_draw(rng, N_TRAINING_ROWS, setting.ratio))
    scorer, found = debias.scorer("mdi_oob"), []
    for _ in range(sets):
        X, y = _draw(rng, setting.n_rows, setting.ratio)
        request = Request.of(model, X, y, rows="held-out", seed=seed_of(rng))
        (prepared,) = prepared_members(request, [scorer], known=True)  # they are fresh: there is nothing to recognise
        scores = prepared.score(scorer)
        procedures = (Procedure("auto", ALPHA), Procedure("naive", ALPHA))
        auto, naive = (prepared.test(scores, scorer, procedure) for procedure in procedures)
        assert auto.selected is not None
        assert naive.selected is not None
        assert naive.z is not None
        normal = N_FEATURES * stdtr(setting.n_rows - 1, -naive.z) <= ALPHA
        found.append([auto.selected.any(), naive.selected.any(), normal.any()])
    return dict(zip(WAYS, np.array(found).T, strict=True))


def rate(found: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the share of sets in which anything was found, and its standard error.

    Parameters
    ----------
    found : array of shape (n_models, sets)

    Returns
    -------
    (share, standard error)
        Over models, or binomial if that is larger: sets of one model may be alike, and few models may agree by chance.
    """
    share = float(found.mean())
    binomial = np.sqrt(max(share, 1 / found.size) * (1 - share) / found.size)
    of_models = found.mean(axis=1).std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
    return share, float(max(binomial, of_models))


def _draw(rng: np.random.Generator, n_rows: int, ratio: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw features of 2, 4, 20 and infinitely many values, and classes that know nothing of them."""
    X = rng.normal(size=(n_rows, N_FEATURES))
    X[:, -3:] = rng.integers(0, [2, 4, 20], (n_rows, 3))
    y = (rng.random(n_rows) < 1 / ratio).astype(np.int64)
    y[:2] = 0, 1
    return X, y


def _model(setting: Setting, seed: int) -> Any:
    if setting.model == "XGBoost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=50, random_state=seed, n_jobs=1)
    if setting.model.startswith("LightGBM"):
        from lightgbm import LGBMClassifier

        return LGBMClassifier(
            n_estimators=50, scale_pos_weight=setting.ratio - 1, random_state=seed, n_jobs=1, verbose=-1
        )
    from sklearn.ensemble import RandomForestClassifier

    weight = setting.model.partition(", ")[2] or None
    return RandomForestClassifier(25, class_weight=weight, random_state=seed)


def _trial(setting: Setting, repeat: int) -> dict[str, Any]:
    found = any_found(setting, repeat)
    return {"design": setting.name, "repeat": repeat, "scores": {way: each.tolist() for way, each in found.items()}}


def _found(trials: list[dict[str, Any]], setting: Setting, repeats: int) -> dict[str, NDArray[np.bool_]]:
    of = [trial["scores"] for trial in trials if trial["design"] == setting.name and trial["repeat"] < repeats]
    return {way: np.array([scores[way] for scores in of]) for way in WAYS}


def _lines(found: dict[Setting, dict[str, NDArray[np.bool_]]]) -> list[list[str]]:
    head = ["classes", "held out", "rows of the rare class", "model", "sets", *WAYS.values()]
    lines = [head, ["---", "---:", "---:", "---", *["---:"] * (1 + len(WAYS))]]
    for setting, of in found.items():
        rare = setting.n_rows / setting.ratio
        what = [f"1:{setting.ratio}", f"{setting.n_rows:,}", f"{rare:,.0f}", setting.model, str(of["auto"].size)]
        lines.append([*what, *("{:.3f} ({:.3f})".format(*rate(of[way])) for way in WAYS)])
    return lines


def _write_figures(found: dict[Setting, dict[str, NDArray[np.bool_]]], path: Path) -> None:
    import pandas as pd

    lines = []
    for setting, of in found.items():
        for way, each in of.items():
            share, error = rate(each)
            what = {"ratio": setting.ratio, "n_rows": setting.n_rows, "model": setting.model, "test": way}
            lines.append(what | {"sets": each.size, "found": share, "standard_error": error})
    pd.DataFrame(lines).to_csv(path, index=False, float_format="%.6g", encoding="utf-8")
