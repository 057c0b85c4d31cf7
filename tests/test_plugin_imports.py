"""Tests of what plugins import: first-party plugins and adapters use only what docs/api.md lists.

So the interface that authors of plugins read about is enough to write all that debias itself offers.
"""

import ast
import re
from pathlib import Path

import pytest

from debias.hooks.registry import meta_methods, scorers

HERE = Path(__file__).parent.parent
PLUGINS, ADAPTERS, THIRD_PARTY = "plugins/debias_plugins", "adapters", "tests/plugin_dist"
EXPERIMENTS = "plugins/debias_bench"
WITHOUT_RECOGNITION = (
    "scores rows that are fresh by construction, ten thousand times: whether they are is not asked again"
)
OF_HISTORIES = "simulates thousands of histories as sums, without their file"
OTHER_COMBINATIONS = "compares other ways to combine folds, on the audits of the same folds"
PARTS_OF_EXPERIMENTS = {
    "debias.api.prepared.prepared_members": WITHOUT_RECOGNITION,
    "debias.rows.request.Request": WITHOUT_RECOGNITION,
    "debias.rows.preparation.batch_rows": OF_HISTORIES,
    "debias.rows.period_sums.PeriodSums": OF_HISTORIES,
    "debias.monitor.comparing.Comparison": OF_HISTORIES,
    "debias.monitor.store.Period": OF_HISTORIES,
    "debias.monitor.times.Moment": OF_HISTORIES,
    "debias.significance.change.LEAST": OF_HISTORIES,
    "debias.significance.change.compare_windows": OF_HISTORIES,
    "debias.significance.change.groups_of": OF_HISTORIES,
    "debias.significance.kept_windows.KeptWindow": OF_HISTORIES,
    "debias.results.any_look.Starts": OF_HISTORIES,
    "debias.results.provisional.NOT_LOOKED_FOR": OF_HISTORIES,
    "debias.results.provisional.Provisional": OF_HISTORIES,
    "debias.results.windows.WindowOfPeriods": OF_HISTORIES,
    "debias.rows.loss_parts.LossParts": OF_HISTORIES,
    "debias.rows.loss_parts.loss_parts": OF_HISTORIES,
    "debias.rows.period_sums.BEFORE_PARTS": OF_HISTORIES,
    "debias.significance.any_look.PeriodValues": OF_HISTORIES,
    "debias.significance.any_look.evidence_of": OF_HISTORIES,
    "debias.significance.period_means.OF": OF_HISTORIES,
    "debias.significance.provisional.compare_waiting": OF_HISTORIES,
    "debias.significance.provisional.with_broken": OF_HISTORIES,
    "debias.significance.loss_causes.with_causes": OF_HISTORIES,
    "debias.significance.fold_evidence.harmonic_mean": OTHER_COMBINATIONS,
    "debias.significance.fold_evidence.sum_of_z": OTHER_COMBINATIONS,
    "debias.cli.output.COULD_NOT_RUN": "its exit codes are those of the other commands",
    "debias.p_values": "rivals are adjusted as our tests are",
    "debias.results.console.print_table": "the demo prints the table of `debias audit` without the sentences below it",
}
"""What the experiments use beside documented names: the reason. They measure steps of an audit that no user calls."""
GROUND_OF_ADAPTERS = (
    *("debias.errors.", "debias.hooks.", "debias.testing.", "debias.trees.", "debias.data.probing."),
    *("debias.data.table.names_of_columns", "debias.data.table.numbered_columns"),
)
"""Adapters turn models into arrays, so they may use these rooms whole, trace columns by trial, and ask for names."""


def names_on_the_api_page():
    """Return the whole name of everything that docs/api.md lists."""
    names, module = set(), None
    for line in (HERE / "docs/api.md").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.removeprefix(".. currentmodule:: ")
            names |= {module} - {"debias"}
        elif re.fullmatch(r"   [\w.]+", line):
            names.add(f"{module}.{line.strip()}")
    return names


PUBLIC = names_on_the_api_page() | {"debias.__version__"}


def names_used(source):
    """Return every name of debias that a module imports, or reads as an attribute of `debias`."""
    used = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            used |= {imported.name for imported in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            used |= {f"{node.module}.{imported.name}" for imported in node.names}
        elif isinstance(node, ast.Attribute):
            used.add(ast.unparse(node))
    return {name for name in used if re.fullmatch(r"debias(\.\w+)+", name)}


def is_public(name):
    """Return whether a name is on the API page, or is a member of what is there."""
    parts = name.split(".")
    return any(".".join(parts[:n]) in PUBLIC for n in range(2, len(parts) + 1))


def files_of(*folders):
    return [str(path.relative_to(HERE)) for folder in folders for path in sorted((HERE / folder).rglob("*.py"))]


@pytest.mark.parametrize("file", files_of(PLUGINS, THIRD_PARTY))
def test_plugins_use_only_documented_names(file):
    hidden = sorted(name for name in names_used((HERE / file).read_text()) if not is_public(name))
    assert hidden == []


@pytest.mark.parametrize("file", files_of(ADAPTERS))
def test_adapters_use_only_documented_names_and_the_rooms_for_them(file):
    used = names_used((HERE / file).read_text())
    hidden = sorted(name for name in used if not is_public(name) and not name.startswith(GROUND_OF_ADAPTERS))
    assert hidden == []


@pytest.mark.thorough
def test_experiments_use_only_documented_names_and_these_parts():
    used = set().union(*(names_used((HERE / file).read_text()) for file in files_of(EXPERIMENTS)))
    assert {name for name in used if not is_public(name)} == PARTS_OF_EXPERIMENTS.keys()


WORDS = {
    "permutation": "also a test of significance",
    "threshold": "also an array of trees, and a detail of scores",
}
"""Names of plugins that the core uses for something else: what for."""
ADVICE = {
    ("debias/cli/score.py", "gini_merit"): "an example of the help",
    ("debias/retraining/experiment.py", "response_permutation"): "what to use instead, in a message",
}
"""Where a text of the core names a plugin: why. No code depends on it."""


def literals(source):
    """Return the texts of a module that are no docstrings."""
    tree = ast.parse(source)
    docstrings = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    texts = (each for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str))
    return [each.value for each in texts if id(each) not in docstrings]


@pytest.mark.thorough
def test_the_core_names_no_scorer_or_meta_method_of_a_plugin():
    offered = {**scorers(), **meta_methods()}
    of_plugins = {name for name, each in offered.items() if each.function.__module__.startswith("debias_plugins.")}
    assert len(of_plugins) > 15
    assert of_plugins > WORDS.keys()
    found = set()
    for file in files_of("debias"):
        for text in literals((HERE / file).read_text()):
            names = {text.partition("(")[0], *re.findall(r"\w+_\w+", text)}  # other names may be words of a sentence
            found |= {(file, name) for name in names & of_plugins - WORDS.keys()}
    assert found == ADVICE.keys()


def test_literals_are_texts_of_code_and_of_parts_of_messages():
    source = '"""Not shadow."""\nx = ["shap", f(x="ablation(measure=2)"), f"see {y}, or shap_oob"]'
    assert set(literals(source)) == {"shap", "ablation(measure=2)", "see ", ", or shap_oob"}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import debias.rows.paths", {"debias.rows.paths"}),
        ("from debias.rows import paths", {"debias.rows.paths"}),
        ("def f():\n    from debias.rows.paths import Paths", {"debias.rows.paths.Paths"}),
        ("import debias\ndebias.rows.paths.Paths()", {"debias.rows.paths.Paths"}),
    ],
)
def test_a_name_that_is_not_documented_is_found_however_it_is_imported(source, names):
    found = names_used(source)
    assert found >= names
    assert not any(is_public(name) for name in names)
