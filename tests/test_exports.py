import ast
import inspect
import pickle
from importlib import import_module
from pathlib import Path

import pytest

import debias
from debias.lazy_names import lazy_names

LAZY = {"debias": debias, "debias.plugin": debias.plugin, "debias.plot": debias.plot}


def public(module):
    return [name for name in dir(module) if not name.startswith("__")]


def test_all_is_sorted_and_what_is_public():
    assert debias.__all__ == sorted(debias.__all__)
    assert [name for name in public(debias) if not inspect.ismodule(getattr(debias, name))] == debias.__all__


def test_the_top_has_at_most_thirty_names():
    assert len(debias.__all__) <= 30


def test_authors_and_pictures_have_modules_of_their_own_that_are_there_without_an_import():
    for module in (debias.plugin, debias.plot):
        assert module.__all__ == public(module)
        assert not set(module.__all__) & set(debias.__all__)


@pytest.mark.parametrize("name", LAZY)
def test_type_checkers_see_the_names_that_are_imported_on_first_use(name):
    module = LAZY[name]
    (block,) = (node for node in ast.parse(Path(module.__file__).read_text()).body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    imported = {alias.name: node.module for node in block.body for alias in node.names}
    assert sorted(imported) == public(module)
    for each, origin in imported.items():
        seen = getattr(module, each)
        assert seen is getattr(import_module(origin), each), each


def test_a_star_imports_all_names():
    names = {}
    exec("from debias import *", names)
    assert names.keys() - {"__builtins__"} == set(debias.__all__)


def test_a_name_that_does_not_exist_is_named_with_one_that_is_like_it():
    with pytest.raises(AttributeError, match="module 'debias' has no attribute 'adit'") as raised:
        debias.adit  # noqa: B018
    assert raised.value.obj is debias  # Python adds: Did you mean: 'audit'?
    with pytest.raises(ImportError, match="cannot import name 'scorers' from 'debias.plugin'"):
        from debias.plugin import scorers  # noqa: F401


def test_a_name_whose_module_cannot_be_imported_raises_the_error_of_that_import():
    get, _ = lazy_names("debias", {"debias.no_such_module": "audit"})
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'debias\.no_such_module'"):
        get("audit")


def test_public_names_can_be_pickled():
    for name in debias.__all__:
        assert pickle.loads(pickle.dumps(getattr(debias, name))) is getattr(debias, name)


def test_public_names_are_documented():
    for name in debias.__all__:
        assert inspect.getdoc(getattr(debias, name)), name
