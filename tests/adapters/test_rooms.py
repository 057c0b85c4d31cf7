"""Tests of what stands where: a room a library in the adapters, and no library in the core."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = sorted(folder for folder in (ROOT / "adapters/debias_adapters").iterdir() if (folder / "__init__.py").exists())
FILES = {"__init__", "hooks", "reading", "bags", "refit", "files"}
OTHERS = {
    "sklearn": {"forests", "boosting", "hist_boosting", "bagging", "wrappers", "columns"},
    "lightgbm": {"decimals"},
    "xgboost": {"ubjson"},
    "skops": {"checked_boosters"},
}
"""Files with a subject of their own."""
CORE = sorted(path for path in (ROOT / "debias").rglob("*.py") if "benchmarks" not in path.parts)
LIBRARIES = re.compile(r"sklearn|scikit|xgboost|lightgbm|catboost|imblearn|quantile_forest|LGBM|XGB", re.IGNORECASE)
OF_MODELS = {"model", "estimator", "booster", "forest"}
FORMATS = {"debias/models/files.py": {"sklearn", "xgboost", "lightgbm"}}
"""Names of a file format, and not of a library's models: flavours of an MLmodel, modules of a pickle."""


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_rooms_of_adapters_have_the_same_file_names(room):
    names = {path.stem for path in room.glob("*.py")}
    assert names <= FILES | OTHERS.get(room.name, set())
    if room.name == "sklearn":
        assert "hooks" not in names, "its five families are five plugins"
    else:
        assert "hooks" in names


def test_modules_with_hooks_are_entry_points():
    """A new adapter is a folder and one line in pyproject.toml: whoever forgets the line finds it here."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        registered = set(tomllib.load(file)["project"]["entry-points"]["debias"].values())
    marked = {
        ".".join(path.relative_to(ROOT / "adapters").with_suffix("").parts)
        for path in (ROOT / "adapters").rglob("*.py")
        if "@debias.hookimpl" in path.read_text()
    }
    assert marked == {each for each in registered if each.startswith("debias_adapters.")}


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
        if reads_a_model(node):
            found.append((node.lineno, ast.unparse(node)))
    assert not found


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
