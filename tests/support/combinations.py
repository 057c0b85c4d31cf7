"""Write docs/combinations.md from audits that ran: ``python tests/support/combinations.py``."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent.parent))  # as pytest does, for a run by hand

import debias
from support.combined_models import MODELS
from support.combined_tables import ABORTS, CONTAINERS
from support.combined_targets import SPOILT, TARGETS

PAGE = Path(__file__).parent.parent.parent / "docs" / "combinations.md"
N = 200
N_FRESH = 150
FAILED = "FAILED"
LIBRARIES = (
    "scikit-learn",
    "xgboost",
    "lightgbm",
    "pandas",
    "polars",
    "pyarrow",
    "catboost",
    "imbalanced-learn",
    "skrub",
)
LINES = {
    r"rows=['\"]held-out['\"]": {"rows": "held-out"},
    r"level=['\"]model['\"]": {"level": "model"},
}
"""What a message may tell the user to write, and the argument that it means. The table runs it."""
MEANING = """\
Written by `tests/support/combinations.py`. Every line is one run. A model is trained on 200 rows, and the first column
explains most of the response. Then `debias.audit(model, X, y)` is called: on the training rows if the model is bagged,
else on 150 other rows. A test runs the lines again, and fails if one of them changes.

- *out-of-bag*, *held-out*, *assumed held-out*: the rows that the audit used. The first column has the largest share.
  "untested" gives the reason why there are no p-values.
- *refused*: the message of the error. If it names an argument to pass, that was run too, and the result follows.
- *not trained*: the library itself does not take such columns or such a response. debias then got these columns with a
  model that was trained on its usual columns.
"""
TITLES = {
    "Models": "Each model on the rows that it is usually given.",
    "Tables": "What `X` may be.",
    "Responses": "What `y` may be.",
}


@dataclass(frozen=True)
class Combination:
    """One line of the table: a model, what X is, what y is."""

    title: str
    model: str
    container: str
    target: str

    @property
    def cells(self) -> tuple[str, str, str]:
        """The first three cells of the line."""
        return self.model, self.container, self.target

    def __str__(self) -> str:
        return ", ".join(self.cells)


def combinations() -> Iterator[Combination]:
    """Yield each model on its usual rows, then each container and each target with the models that may take them."""
    seen = set()
    for combination in _every():
        if combination.cells not in seen:
            seen.add(combination.cells)
            yield combination


def run(combination: Combination) -> str:
    """Return what an audit says: the rows it used, or why it refuses. It begins with FAILED where debias is wrong."""
    model, container = MODELS[combination.model], CONTAINERS[combination.container]
    known, spoil = SPOILT.get(combination.target, (combination.target, np.asarray))
    spoil = spoil if combination.target in SPOILT else (lambda y: y)
    X, latent = rows(0, N)
    fresh, latent_of_fresh = (X, latent) if model.bagged else rows(1, N_FRESH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = ""
        try:
            if combination.model.startswith("LGBM") and combination.container in ABORTS:
                raise ValueError("LightGBM would end the process")
            fitted = model.fit(container(X), TARGETS[known](latent))
        except Exception:  # whatever the library raises
            if combination.container == model.container:
                return "not trained"
            before = "not trained; "
            fitted = model.fit(CONTAINERS[model.container](X), TARGETS[known](latent))
        of_rows = {"qid": np.arange(N_FRESH) // 20} if known == "grades in groups" else {}
        result, best = audited(fitted, container(fresh), spoil(TARGETS[known](latent_of_fresh)), of_rows)
        if best not in (None, "good", "bad") and "texts" not in combination.container:
            return f"{FAILED}: the largest share has {best}"
        return before + result


def audited(model: Any, X: Any, y: Any, of_rows: dict[str, Any], **line: Any) -> tuple[str, str | None]:
    """Return the rows of an audit, or the refusal and the result of the line that it gives.

    The second result is the feature with the largest share, if that is not the first one.
    """
    try:
        rows = debias.Dataset(X, y, **of_rows)
        audit = debias.audit(model, rows, random_state=0, n_jobs=1, **line)
    except debias.DebiasError as error:
        message = " ".join(str(error).split())
        found = f"refused: {message}"
        for words, argument in LINES.items():
            if re.search(words, message) and not line:
                (name, value) = next(iter(argument.items()))
                found += f" **With `{name}={value!r}`**: {audited(model, X, y, of_rows, **argument)[0]}"
        return found, None
    except Exception as error:  # this is what must not happen
        return f"{FAILED}: {type(error).__name__}: {error}", None
    reason = audit.untested_because
    best = str(audit.to_frame()["share"].astype(float).fillna(0).idxmax())  # NaN where the rows tell nothing
    as_expected = best == audit.tested_scores.feature_names[0] or str(reason).startswith("the response is the same")
    result = audit.rows_in_words + (f"; untested: {reason}" if reason else "")
    return result, None if as_expected else best


def rows(seed: int, n: int) -> tuple[pd.DataFrame, Any]:
    """Return three columns, and a response of which the first explains most."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    return X, 2 * X["a"].to_numpy() + 0.5 * X["b"].to_numpy() + rng.normal(scale=0.5, size=n)


def installed() -> str:
    """Return the versions that the table depends on, in words."""
    return ", ".join(f"{name} {version(name)}" for name in LIBRARIES if find_spec(_MODULES.get(name, name)))


def read() -> tuple[str, dict[tuple[str, ...], str]]:
    """Return the versions that the page was written with, and the result of each line by its first three cells."""
    text = PAGE.read_text() if PAGE.exists() else ""
    versions = re.search(r"^Run with (.*)\.$", text, re.MULTILINE)
    lines = [_cells(line) for line in text.splitlines() if line.startswith("| ")]
    return versions.group(1) if versions else "", {tuple(line[:3]): line[3] for line in lines}


def shown(result: str) -> str:
    """Return a result as a cell of the page."""
    return result.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")


def page(results: dict[Combination, str]) -> str:
    """Return the page as Markdown."""
    parts = [f"# Combinations that were tried\n\n{MEANING}\nRun with {installed()}.\n"]
    parts.append(f"{len(results)} combinations: {sum('refused' not in each for each in results.values())} work.\n")
    for title, meaning in TITLES.items():
        parts.append(f"## {title}\n\n{meaning}\n\n| model | X | y | result |\n|---|---|---|---|")
        of_title = {each: result for each, result in results.items() if each.title == title}
        parts[-1] += "".join(
            f"\n| {' | '.join(map(shown, (*each.cells, result)))} |" for each, result in of_title.items()
        )
        parts[-1] += "\n"
    return "\n".join(parts)


def _every() -> Iterator[Combination]:
    for name, model in MODELS.items():
        yield Combination("Models", name, model.container, model.target)
    for container in CONTAINERS:
        for name in _takers(container):
            yield Combination("Tables", name, container, MODELS[name].target)
    for target in (*TARGETS, *SPOILT):
        for name in _learners(target):
            yield Combination("Responses", name, "pandas", target)


def _takers(container: str) -> tuple[str, ...]:
    """Return the models that are tried with a container."""
    one_hot = "Pipeline of a ColumnTransformer (one-hot)"
    if "DMatrix" in container:
        return ("xgboost.Booster", "XGBRegressor")
    if "Dataset" in container:
        return ("lightgbm.Booster",)
    if "texts" in container:
        return () if "pandas" in container else ("Pipeline of a TfidfVectorizer",)
    boosters = ("HistGradientBoostingRegressor", "XGBRegressor", "LGBMRegressor")
    if "categories" in container or "dictionary" in container:
        return (*boosters, one_hot)
    if "text" in container or " str" in container:
        return (one_hot, "RandomForestRegressor", "LGBMRegressor")
    return ("RandomForestRegressor", *boosters)


def _learners(target: str) -> tuple[str, ...]:
    """Return the models that are tried with a response."""
    known = SPOILT[target][0] if target in SPOILT else target
    y = np.asarray(TARGETS[known](np.linspace(-3, 3, 40)))
    numbers = y.dtype.kind in "fM" or known in ("whole numbers", "counts")
    if known in ("grades in groups", "bounds of times"):
        return ()
    if known == "counts" and target != known:
        return ("XGBRegressor(objective='count:poisson')", "HistGradientBoostingRegressor(loss='poisson')")
    if y.ndim == 2 and y.shape[1] == 2:
        return ("RandomForestRegressor", "XGBRegressor") if numbers else ("RandomForestClassifier", "XGBClassifier")
    if numbers and known != "0.0/1.0":
        return ("RandomForestRegressor", "XGBRegressor", "LGBMRegressor")
    first = ("RandomForestClassifier", "HistGradientBoostingClassifier", "LGBMClassifier")
    from_0 = y.dtype.kind in "biuf" and y.min() == 0  # what XGBoost calls classes
    return (*first, "XGBClassifier") if from_0 else first


def _cells(line: str) -> list[str]:
    unescaped = re.split(r"(?<!\\)\|", line.strip()[1:-1])
    return [cell.strip().replace("\\|", "|").replace("&lt;", "<").replace("\\[", "[") for cell in unescaped]


_MODULES = {"scikit-learn": "sklearn", "imbalanced-learn": "imblearn", "quantile-forest": "quantile_forest"}


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else None
    results = {each: run(each) for each in combinations() if wanted is None or wanted in str(each)}
    failed = {str(each): result for each, result in results.items() if FAILED in result}
    if wanted is None and not failed:
        PAGE.write_text(page(results))
    for name, result in (failed if wanted is None else {str(each): result for each, result in results.items()}).items():
        print(f"{name}: {result}")
    sys.exit(bool(failed))
