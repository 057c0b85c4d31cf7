"""Tests of the scorers of the core and of the first-party plugins: what is written there is registered."""

import importlib
import pkgutil
import tomllib
from pathlib import Path

import pytest

import debias.scorers
import debias_plugins
from debias.hooks.registry import meta_methods, scorers
from debias.hooks.scorers import FunctionDataScorer, FunctionMetaMethod, FunctionTreeScorer

ROOT = Path(__file__).parents[2]
LOADED_ON_USE = ("debias_plugins.integrations.", "debias_plugins.oob_forest.")
"""Modules that inherit from another library, which they import at once."""
MODULES = [
    module.name
    for room in (debias.scorers, debias_plugins)
    for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
    if not module.ispkg and ".kernels." not in module.name and not module.name.startswith(LOADED_ON_USE)
]


@pytest.mark.parametrize("name", MODULES)
def test_every_scorer_and_meta_method_is_registered(name):
    module = importlib.import_module(name)
    kinds = FunctionTreeScorer | FunctionDataScorer | FunctionMetaMethod
    made_here = [plugin for plugin in vars(module).values() if isinstance(plugin, kinds)]
    offered = [*scorers().values(), *meta_methods().values()]
    for plugin in made_here:
        assert any(plugin is registered for registered in offered), (
            f"{plugin.name} is not registered: return it from the hook debias_scorers or debias_meta_methods of {name}"
        )


@pytest.mark.parametrize("name", MODULES)
def test_modules_with_hooks_are_entry_points(name):
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["debias"].values()
    hooks = [attribute for attribute in vars(importlib.import_module(name)) if attribute.startswith("debias_")]
    assert not hooks or name in points, (
        f'{name} has hooks and is not found: give it a line NAME = "{name}" in pyproject.toml, under '
        "[project.entry-points.debias], and install again: pip install -e ."
    )
