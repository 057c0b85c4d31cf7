"""Error rates of tests on held-out rows if a class is rare, by simulation with fixed seeds.

The trees are fixed, and the error rate is over draws of held-out rows. Each model is therefore tested on many sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.api.prepared import prepared_members
from debias.rows.request import Request
from debias.significance.procedure import Procedure
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, with_error
from debias_bench.runner import machine_line
from debias_bench.significance_settings import seed_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

N_FEATURES = 10
N_TRAINING_ROWS = 5000
SETS = 20
"""Number of held-out sets for each model."""
ALPHA = 0.05
TESTS = {
    "auto": "permuted response",
    "effective": "Student's law by effective rows",
    "normal": "by the number of rows",
}
"""The tests of scores: the one that is chosen where residuals are not tested, which is a t-test if more than 2,000 rows
count; the test of rows in batches; and the test before effective rows were counted."""
MODELS = ("forest, balanced", "forest, balanced_subsample", "forest", "XGBoost", "LightGBM, scale_pos_weight")


@dataclass(frozen=True)
class Setting:
    """One row of the table: a class of one in `ratio` rows, a model, and how many rows are held out."""

    ratio: int
    model: str
    n_rows: int

    @property
    def name(self) -> str:
        """Name of the setting in the file of trials."""
        return f"1:{self.ratio}, {self.model}, {self.n_rows}"


def settings() -> list[Setting]:
    """Return the settings of the table."""
    return [
        *(Setting(ratio, model, 5000) for ratio in (20, 50, 100, 200, 500) for model in MODELS[:2]),
        *(Setting(ratio, model, 5000) for ratio in (20, 100, 500) for model in MODELS[2:]),
        *(Setting(ratio, MODELS[0], n_rows) for ratio, n_rows in ((100, 1000), (20, 20_000), (100, 20_000))),
        *(Setting(2, model, 5000) for model in (MODELS[0], MODELS[3])),
    ]


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        yield from ((setting.name, repeat, _trial, setting, repeat) for setting in settings())


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    return [
        "# How often is noise found where a class is rare?",
        f"`debias bench rare-classes`: {N_FEATURES} features that are independent of the class. Models are trained "
        f"on {N_TRAINING_ROWS:,} rows, with 25 trees in a forest and 50 in a boosted model, and each is tested on "
        f"{SETS} sets of fresh rows. The table shows the share of sets in which any feature is found, at a "
        f"family-wise error rate of {ALPHA:.0%}. Standard errors in () are over models, or binomial if that is "
        "larger; [what the tests are](../significance.md).",
        "These are the tests of scores; [that of residuals](held-out.md) is the default where ten rows or more are "
        "outside the largest class. *Permuted response* is a t-test if more than 2,000 rows count. "
        "*By the number of rows* is the test of more than 2,000 rows before effective rows were counted. Sets with "
        "fewer than five rows of the rare class have no t-test, and count as sets in which it finds nothing.",
        f"*Written by the runner; {machine_line()}.*",
        _table(trials),
    ]


def any_found(setting: Setting, number: int, sets: int = SETS) -> dict[str, NDArray[np.bool_]]:
    """Train a model on noise, and return for several sets of fresh rows whether any feature is found.

    Parameters
    ----------
    setting : Setting
    number : int
        Number of the model; the same number gives the same data.
    sets : int
        Number of sets.

    Returns
    -------
    dict
        For each key of TESTS, an array of bool of shape (sets,).
    """
    from scipy.special import stdtr

    rng = np.random.default_rng([setting.ratio, setting.n_rows, MODELS.index(setting.model), number])
    model = _model(setting, seed_of(rng)).fit(*_draw(rng, N_TRAINING_ROWS, setting.ratio))
    scorer, rejections = debias.plugin.scorer("mdi_oob"), []
    for _ in range(sets):
        X, y = _draw(rng, setting.n_rows, setting.ratio)
        request = Request.of(model, X, y, rows="held-out", random_state=seed_of(rng))
        (prepared,) = prepared_members(request, [scorer], known=True)  # the rows are fresh: nothing to recognise
        scores = prepared.score(scorer)
        procedures = (Procedure("auto", ALPHA), Procedure("naive", ALPHA))
        auto, naive = (prepared.test(scores, scorer, procedure) for procedure in procedures)
        # A t-test of fewer than five rows of a class is refused: it finds nothing, whatever the data.
        normal = naive.z is not None and (N_FEATURES * stdtr(setting.n_rows - 1, -naive.z) <= ALPHA).any()
        rejections.append([_any(auto.selected), _any(naive.selected), normal])
    return dict(zip(TESTS, np.array(rejections).T, strict=True))


def _any(selected: NDArray[np.bool_] | None) -> bool:
    """Whether a test found any feature; one that was not made found none."""
    return selected is not None and bool(selected.any())


def rate(rejections: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the share of sets in which any feature was found, and its standard error.

    Parameters
    ----------
    rejections : array of shape (n_models, sets)

    Returns
    -------
    share : float
    standard_error : float
        Over models, or binomial if that is larger: sets of one model may be similar, and a few models may agree by
        chance.
    """
    share = float(rejections.mean())
    binomial = np.sqrt(max(share, 1 / rejections.size) * (1 - share) / rejections.size)
    over_models = rejections.mean(axis=1).std(ddof=1) / np.sqrt(len(rejections)) if len(rejections) > 1 else 0.0
    return share, float(max(binomial, over_models))


def _draw(rng: np.random.Generator, n_rows: int, ratio: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw features with 2, 4, 20 and infinitely many values, and classes that are independent of them."""
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
    by_method = {method: rejected.tolist() for method, rejected in any_found(setting, repeat).items()}
    return {"design": setting.name, "repeat": repeat, "scores": by_method}


def _rejections(trials: list[dict[str, Any]]) -> dict[Setting, dict[str, NDArray[np.bool_]]]:
    """Return, for each setting and method, whether any feature was found, as an array of shape (n_models, sets)."""
    rejections = {}
    for setting in settings():
        by_model = [trial["scores"] for trial in trials if trial["design"] == setting.name]
        rejections[setting] = {method: np.array([scores[method] for scores in by_model]) for method in TESTS}
    return rejections


def _table(trials: list[dict[str, Any]]) -> str:
    lines = []
    for setting, by_method in _rejections(trials).items():
        n_rare = f"{setting.n_rows / setting.ratio:,.0f}"
        n_sets = str(by_method["auto"].size)
        cells = [f"1:{setting.ratio}", f"{setting.n_rows:,}", n_rare, setting.model, n_sets]
        lines.append([*cells, *(with_error(rate(by_method[method])) for method in TESTS)])
    heading = ["classes", "held out", "rows of the rare class", "model", "sets", *TESTS.values()]
    return markdown_table(heading, lines, texts=(0, 3))


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for setting, by_method in _rejections(trials).items():
        for method, rejected in by_method.items():
            share, error = rate(rejected)
            row = {"ratio": setting.ratio, "n_rows": setting.n_rows, "model": setting.model, "test": method}
            lines.append(row | {"sets": rejected.size, "found": share, "standard_error": error})
    return lines


run = Measurement("rare-classes", 10, _tasks, _parts, _lines).run  # 10 models, each on 20 sets of rows
