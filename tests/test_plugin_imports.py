"""Tests of what plugins import: first-party plugins and adapters use only what docs/api.md lists.

So the interface that authors of plugins read about is enough to write all that debias itself offers.
"""

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent
PLUGINS, ADAPTERS, THIRD_PARTY = "plugins", "adapters", "tests/plugin_dist"
GROUND_OF_ADAPTERS = ("debias.errors.", "debias.hooks.", "debias.testing.", "debias.trees.")
"""Adapters turn models into arrays, so they may use these rooms whole."""
ON_UNSEEN_ROWS = "a part of the combined test or of the tests by rows, whose fits and sums are those of the core"
EXEMPT = {
    f"plugins/debias_plugins/scorers/{name}.py": ON_UNSEEN_ROWS
    for name in ("ablation", "honest_effects", "honest_splits", "node", "row_test")
} | {"plugins/debias_plugins/command.py": "no plugin: it starts the command line, and must not lie inside of debias"}
"""Files that may break the rule, by path: the reason."""


def names_on_the_api_page():
    """Return the whole name of everything that docs/api.md lists."""
    names, module = set(), None
    for line in (HERE / "docs/api.md").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.removeprefix(".. currentmodule:: ")
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
    assert hidden == [] or file in EXEMPT


@pytest.mark.parametrize("file", files_of(ADAPTERS))
def test_adapters_use_only_documented_names_and_the_rooms_for_them(file):
    used = names_used((HERE / file).read_text())
    hidden = sorted(name for name in used if not is_public(name) and not name.startswith(GROUND_OF_ADAPTERS))
    assert hidden == [] or file in EXEMPT


def test_exempt_files_exist():
    assert [file for file in EXEMPT if not (HERE / file).is_file()] == []


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
