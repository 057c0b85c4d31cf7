"""Write docs/support.md from the tests that ran: ``python tests/support/support_table.py``.

``python tests/support/support_table.py texts`` writes everything but the table of models, and runs no test.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from debias.hooks.registry import libraries
from debias.testing.installed import installed, requirements

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "support.md"
OF_MODELS = "## Models"
HEADING = "## Libraries"
CAPABILITIES = ("out-of-bag", "held-out", "weights", "missing", "categories", "refit")
NOT_ALWAYS_INSTALLED = {"AutoGluon TabularPredictor"}
"""Families whose library pins versions that the other tests do not: the session ``automl`` of .ci/noxfile.py."""
SOURCES = """\
## Where does your model come from?

Held-out rows are rows that the model has not seen. *Training rows are recognised*: if you pass them by mistake, debias
refuses them. Where they are not recognised, you state with `rows="held-out"` what the rows are, and nothing checks it.

| your model is | what you need | rows, and what is proven of them | what cannot be told |
|---|---|---|---|
| a forest of [scikit-learn](libraries/scikit-learn.md), [imbalanced-learn](libraries/imbalanced-learn.md), \
[quantile-forest](libraries/quantile-forest.md) or [scikit-survival](libraries/scikit-survival.md), in memory or as \
`.skops` | nothing more | training rows, scored out of bag: the bags are drawn again, and counts and values at the nodes \
prove them. Or held-out rows | bags without bootstrap: these are scored on held-out rows |
| a boosted model of scikit-learn | nothing more | held-out rows; training rows are recognised, if no rows are sampled |\
 nothing; a start estimator (`init=`) is refused |
| a model or file of [XGBoost](libraries/xgboost.md) (`.json`, `.ubj`) | `xgboost` | held-out rows; training rows are \
recognised where sums of hessians are counts of rows | in a file: hyper-parameters, which only refits need. In both: start \
margins of rows. From XGBoost 3.4 on, training rows for the absolute error and quantiles |
| a model or file of [LightGBM](libraries/lightgbm.md) (`.txt`) | `lightgbm` | held-out rows, for `rf` out of bag too; \
training rows are recognised | start scores of rows (`init_score`); in a file: an objective of your own |
| a model or file of [CatBoost](libraries/catboost.md) (`.cbm`) | `catboost` | held-out rows; training rows are recognised | \
training rows, if splits use statistics of categories |
| a model or directory of [YDF](libraries/ydf.md) | `ydf` | forests: training rows, scored out of bag and proven; others: \
held-out rows, and training rows are recognised | settings of the learner, which only refits need |
| a model or directory of [Spark](libraries/spark.md) | nothing for a directory, `pyspark` for a model in memory | held-out \
rows; training rows are recognised, of forests not | bags |
| an [ONNX](libraries/onnx.md) file, of any library | `onnx`, `onnxruntime` | held-out rows; nothing is recognised | bags, \
hyper-parameters, loss; weights of leaves, unless you pass `train=` |
| a MOJO of [H2O-3](libraries/h2o.md), a model of a running session, an `H2OAutoML` | nothing for a file | held-out rows; \
training rows are recognised where each tree has seen them all | bags; losses of your own and Huber's |
| a model or checkpoint of [treelite](libraries/treelite.md), such as from cuML | `treelite` | held-out rows; training rows \
are recognised where nodes hold counts | bags; values of inner nodes, unless the file has weights or you pass `train=` |
| inside [AutoGluon, FLAML or PyCaret](libraries/automl.md) | that library | those of the model inside | the same |
| in a registry of [MLflow](mlflow.md) | `mlflow` for `models:/` and `runs:/`; nothing for a directory | those of the file in \
it | the same |
| a pickle or joblib file | the library that wrote it, and `--allow-pickle`: a pickle runs code | those of the model in it | \
whether the file does harm |
| a model of R | its file: [recipes](elsewhere.md) | those of the file | `ranger`, `randomForest`, `grf` are not read |
| trees of another program | an adapter of your own: [writing plugins](writing-plugins.md) | as the adapter says | |

LightGBM's trees with lines in their leaves (`linear_tree`) are scored without the lines
([which scores](models-boosters.md#lines-in-leaves)); treelite does not read them. Models without trees (`gblinear`) are
refused by name. [Files](files.md) says what each format keeps and how it is checked.

"""
MEANING = """\
Written by `tests/support/support_table.py` from the tests in `tests/adapters/test_support.py`; the tests fail if a cell
no longer holds. *yes*: ran, and its checks passed. *refused*: debias says why it does not. *no*: the library itself
does not take such columns.

- *out-of-bag*: the bags are recovered and proven; the same rows in another order are refused.
- *held-out*: leaves and raw output are the library's; scores are the same from a frame in another column order.
- *weights*: integer weights of held-out rows score as repeated rows do, to 1e-10 (`mdi_oob`, `oob_split`).
- *missing*, *categories*: columns with missing values, or of pandas categories, in training and in the rows scored.
- *refit*: `debias.refit` gives the same model from the same seed, another from other rows, and leaves yours alone.

What each model is scored on, and what is refused, is in [models](models.md) and [boosters](models-boosters.md).
"""
OF_LIBRARIES = """\
Written from what each adapter declares (`LIBRARY` in its folder of `adapters/debias_adapters/`) and from
`pyproject.toml`. Extras are installed as in the [quickstart](quickstart.md). *minimum*: the oldest version that debias
works with; saved models may be of an older Spark. *tested*: the versions of the tests, by [session](versions.md) where
there is a record.
"""


class Outcomes:
    """A pytest plugin that collects the outcome each test recorded."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = dict(report.user_properties)
        if report.when == "call" and "family" in found:
            cell = str(found["outcome"]) if "outcome" in found else "FAILED"
            self.cells.setdefault(str(found["family"]), {})[str(found["capability"])] = cell


def page(cells: dict[str, dict[str, str]]) -> str:
    """Return the page as Markdown, with the rows of families whose library is not installed here as they were."""
    found = [*filter(None, (installed(each.distribution, each.module) for each in libraries())), installed("pandas")]
    ran = ", ".join(f"{each.distribution} {each.version}" for each in found if each is not None)
    lines = ["| model | " + " | ".join(CAPABILITIES) + " |", "|---" * (1 + len(CAPABILITIES)) + "|"]
    for family, found in cells.items():
        lines.append(f"| {family} | " + " | ".join(found[each] for each in CAPABILITIES) + " |")
    table = "\n".join(lines)
    return (
        f"# What is supported\n\n{SOURCES}{OF_MODELS}\n\n{MEANING}\nRun with {ran}.\n\n{table}\n\n{libraries_section()}"
    )


def libraries_section() -> str:
    """Return the section about the libraries, as their adapters declare them."""
    minimum = {name: requirement.minimum for name, requirement in requirements().items()}
    lines = ["| library | extra | minimum | tested | page |", "|---|---|---|---|---|"]
    for each in libraries():
        extra = f"`{each.extra}`" if each.extra else "always installed"
        tested = " to ".join(dict.fromkeys(each.tested or ("unknown",)))
        page = f"[{(each.page or '').rpartition('/')[2]}]({each.page}.md)"
        lines.append(f"| {each.name} | {extra} | {minimum[each.distribution]} | {tested} | {page} |")
    table = "\n".join(lines)
    return f"{HEADING}\n\n{OF_LIBRARIES}\n{table}\n"


def with_texts() -> str:
    """Return the page as it stands, with the sections beside the table of models written again."""
    return f"# What is supported\n\n{SOURCES}{OF_MODELS}{_models()}{libraries_section()}"


def read() -> dict[tuple[str, str], str]:
    """Return the cells of the page by family and capability."""
    found = {}
    for line in _models().splitlines() if PAGE.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "model":
            found.update({(cells[0], each): cell for each, cell in zip(CAPABILITIES, cells[1:], strict=True)})
    return found


def _models() -> str:
    """Return the section about the families of models as it stands on the page."""
    return PAGE.read_text().partition(OF_MODELS)[2].partition(HEADING)[0]


if __name__ == "__main__":
    if sys.argv[1:] == ["texts"]:
        PAGE.write_text(with_texts())
        sys.exit()
    outcomes = Outcomes()
    before = {}
    for (family, capability), cell in read().items():
        before.setdefault(family, {})[capability] = cell
    PAGE.unlink(missing_ok=True)  # without a page the tests record what they find
    status = pytest.main(
        ["-q", "-p", "no:cacheprovider", "-m", "not slow", str(ROOT / "tests/adapters/test_support.py")], [outcomes]
    )
    if status == 0:
        not_installed = {family: before[family] for family in NOT_ALWAYS_INSTALLED & before.keys()}
        PAGE.write_text(page({**outcomes.cells, **not_installed}))
    sys.exit(status)
