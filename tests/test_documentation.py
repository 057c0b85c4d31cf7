import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import debias
import debias_adapters
import debias_plugins

HERE = Path(__file__).parent.parent
INTEGRATIONS = ("mlflow_evaluator", "skore_check")
"""Modules that import what the default tests do without; their own tests run their pages."""
MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (debias, debias_adapters, debias_plugins)
    for module in pkgutil.iter_modules(package.__path__)
    if module.name not in INTEGRATIONS
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module):
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(importlib.import_module(module), optionflags=options).failed == 0


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", (HERE / "README.md").read_text(), flags=re.M | re.S)


def test_python_in_the_readme_runs(capsys):
    exec("\n".join(blocks("python")), {})  # noqa: S102 - it is our own README
    printed = capsys.readouterr().out
    assert "bmi" in printed
    assert "ufi" in printed


def test_commands_of_the_readme_exist():
    from debias.cli import main

    named = set(re.findall(r"^debias (\w+)", "\n".join(blocks("sh")), flags=re.M))
    assert named >= {"audit", "score", "plugins"}
    assert named <= set(main.commands)


@pytest.mark.parametrize("page", ["README.md", "docs/methods.md"])
def test_every_scorer_is_on_the_page(page):
    frame = debias.plugins()
    ours = frame.loc[(frame["kind"] == "scorer") & (frame["distribution"] == "debias-trees"), "name"]
    text = (HERE / page).read_text()
    assert [name for name in ours if f"`{name}" not in text] == []
