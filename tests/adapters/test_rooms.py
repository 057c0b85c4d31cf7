"""Tests of the layout: one room for each library in the adapters, and no library in the core."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from debias.hooks.registry import plugin_manager
from support import families

ROOT = Path(__file__).parents[2]
ROOMS = sorted(folder for folder in (ROOT / "adapters/debias_adapters").iterdir() if (folder / "__init__.py").exists())
CORE = sorted((ROOT / "debias").rglob("*.py"))
NOT_OF_MODELS = {"numpy", "scipy", "pandas", "narwhals", "joblib", "pyarrow", "pyspark", "spark"}
"""Libraries that adapters and the core use alike."""
OF_MODELS = {"model", "estimator", "booster", "forest"}
FORMATS = {"debias/models/loading.py": {"sklearn", "xgboost", "lightgbm", "catboost"}}
"""Names of a file format, and not of a library's models: flavours of an MLmodel, modules of a pickle."""


CONVENTIONS = {"debias/models/known_labels.py": {"getattr(model, 'classes_', None)"}}
"""Attributes that the estimators of all libraries have: the labels of a wrapper that no adapter describes."""


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_hooks_of_a_library_stand_in_one_place(room):
    """They are in `hooks`, or in the package if it has one module; scikit-learn's six families are six plugins."""
    hooks = {path.stem for path in room.glob("*.py") if "@debias.plugin.hookimpl" in path.read_text()}
    families_of_sklearn = {"forests", "boosting", "hist_boosting", "adaboost", "bagging", "wrappers"}
    alone = {path.stem for path in room.glob("*.py")} == {"__init__"}
    expected = families_of_sklearn if room.name == "sklearn" else {"__init__"} if alone else {"hooks"}
    assert hooks == expected, (
        f"adapters/debias_adapters/{room.name}: put its functions with @debias.plugin.hookimpl into "
        f"{' and '.join(sorted(expected))}.py; now they are in {', '.join(sorted(hooks)) or 'no module'}"
    )


def test_modules_with_hooks_are_entry_points():
    """A new adapter is a folder and one line in pyproject.toml: whoever forgets the line finds it here."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        registered = set(tomllib.load(file)["project"]["entry-points"]["debias"].values())
    marked = {
        ".".join(path.relative_to(ROOT / "adapters").with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "adapters").rglob("*.py")
        if "@debias.plugin.hookimpl" in path.read_text()
    }
    registered = {each for each in registered if each.startswith("debias_adapters.")}
    assert marked <= registered, (
        f'{min(marked - registered)} has hooks and is not found: give it a line NAME = "{min(marked - registered)}" in '
        "pyproject.toml, under [project.entry-points.debias], and install again: pip install -e ."
    )
    assert registered <= marked, (
        f"pyproject.toml names {min(registered - marked)} under [project.entry-points.debias], which has no function "
        "with @debias.plugin.hookimpl: take the line away, or mark the hooks"
    )


@pytest.mark.thorough
def test_every_adapter_reads_a_model_of_the_tests():
    """The models are those of docs/support.md; adapters of further libraries have a file of tests that names them."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["debias"]
    waiting = {name for name, module in points.items() if module.startswith("debias_adapters.")}
    for family, make in families.FAMILIES.items():
        X, y = families.rows(0)
        model = make().fit(X, families.response(family, y))
        hooks = [getattr(plugin_manager().hook, name) for name in ("debias_extract", "debias_unwrap")]
        for hook in hooks:
            waiting -= {each.plugin_name for each in hook.get_hookimpls() if each.function(model=model) is not None}
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    for name in waiting:
        room = ROOT / "adapters" / "/".join(points[name].split(".")[:2])
        assert any(
            word in text for text in texts for word in {room.name, room.name.replace("_", "-")} | looked_up(room)
        ), (
            f"no test reads a model with the plugin {name!r}: add a family to FAMILIES in tests/support/families.py "
            f"or a file tests/adapters/test_{room.name}.py"
        )


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_every_library_is_named_in_the_docs(room):
    text = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md")).lower()
    assert room.name.replace("_", "") in text.replace("-", "").replace("_", ""), (
        f"no page of docs/ names {room.name}: write docs/libraries/{room.name.replace('_', '-')}.md (what it takes, "
        "on which rows, what is not)"
    )


def looked_up(room):
    """Return the libraries that a room looks up among the loaded modules, by their import names."""
    found = set()
    for path in room.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            looks_up = isinstance(node, ast.Call) and ast.unparse(node.func) == "sys.modules.get"
            if looks_up and isinstance(node.args[0], ast.Constant):
                found.add(node.args[0].value.partition(".")[0])
    return found


def libraries():
    """Return the names of model libraries: of the rooms, and of what the adapters import."""
    found = {room.name for room in ROOMS}.union(*map(looked_up, ROOMS))
    for path in (ROOT / "adapters").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    ours = {"debias", "debias_adapters"}
    return found - ours - NOT_OF_MODELS - sys.stdlib_module_names


LIBRARIES = re.compile("|".join(sorted(libraries() | {"scikit", "LGBM", "XGB"})), re.IGNORECASE)


@pytest.mark.thorough
def test_the_names_of_libraries_are_found():
    assert libraries() >= {"sklearn", "xgboost", "lightgbm", "catboost", "imblearn", "quantile_forest"}


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_core_knows_no_library(path):
    """Outside of docstrings, and of sentences to the user, no library is named; and no attribute of a model is read."""
    found = []
    allowed = FORMATS.get(str(path.relative_to(ROOT)), set())
    tree = ast.parse(path.read_text())
    texts = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in texts:
            sentence = " " in node.value.strip()
            if LIBRARIES.search(node.value) and not sentence and node.value not in allowed:
                found.append((node.lineno, node.value))
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if LIBRARIES.search(name):
            found.append((node.lineno, name))
        if reads_a_model(node) and ast.unparse(node) not in CONVENTIONS.get(str(path.relative_to(ROOT)), set()):
            found.append((node.lineno, ast.unparse(node)))
    assert not found, (
        f"{path.relative_to(ROOT)}, line {found[0][0]}: {found[0][1]} is of a library, or an attribute of its models. "
        "The core knows none: let the adapter answer by a hook of debias/hooks/specs.py"
    )


def docstrings(tree):
    """Return the texts that stand by themselves, as docstrings and comments on constants do."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def reads_a_model(node):
    """Whether a node of the syntax tree looks at an attribute of the user's model."""
    if isinstance(node, ast.Attribute):
        return is_model(node.value)
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    return called in ("getattr", "hasattr", "vars") and is_model(node.args[0])


def is_model(node):
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in OF_MODELS


@pytest.mark.parametrize(
    "line",
    [
        "getattr(model, 'class_weight', None)",
        "hasattr(member.model, 'get_params')",
        "model.get_params(deep=False)",
        "member.model.n_jobs",
    ],
)
def test_a_look_at_a_model_is_seen(line):
    assert any(reads_a_model(node) for node in ast.walk(ast.parse(line)))
