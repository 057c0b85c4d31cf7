"""Tests that what the adapters declare of their libraries agrees with pyproject.toml, the docs and the tests."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from debias.hooks.registry import libraries, plugin_manager
from debias.trees.tested_versions import major_minor
from support import support_table

ROOT = Path(__file__).parents[2]
ADAPTERS = ROOT / "adapters" / "debias_adapters"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
NOT_TOGETHER = {"autogluon", "ngboost"}
"""Extras that `integration` leaves out, because they pin versions that the other tests do not."""
OF_NO_LIBRARY = {"mlflow", "skops", "oob_forest"}
"""Folders of a store of models, of a file format, and of debias's own forest."""
DATA_TOO = {"pyspark"}
"""Model libraries whose frames the core takes, so that it may import them."""

every_library = pytest.mark.parametrize("library", libraries(), ids=lambda library: library.name)
every_package = pytest.mark.parametrize(
    "library", [each for each in libraries() if each.distribution is not None], ids=lambda library: library.name
)


def where(library):
    """Return how to find the declaration of a library."""
    return f"LIBRARY of {library.name}, in the __init__.py of its folder of adapters/debias_adapters"


def test_every_folder_of_a_library_declares_it():
    declaring = {impl.plugin.__name__ for impl in plugin_manager().hook.debias_libraries.get_hookimpls()}
    folders = {path.parent.name for path in ADAPTERS.glob("*/__init__.py")} - OF_NO_LIBRARY
    without = folders - {name.split(".")[1] for name in declaring if name.startswith("debias_adapters.")}
    assert not without, (
        f"adapters/debias_adapters/{min(without)} declares no library: define LIBRARY = "
        "debias.hooks.library.Library(...) in its __init__.py, and return it from the hook debias_libraries; "
        "quantile_forest is an example"
    )


@every_library
def test_a_library_has_a_page(library):
    page = ROOT / "docs" / f"{library.page}.md"
    assert page.exists(), (
        f"there is no {page.relative_to(ROOT)}: write this page about {library.name} (what is supported, on which "
        f"rows, what is not), or correct page= in {where(library)}. "
        f"The site finds pages in docs/libraries by itself"
    )
    assert library.extra is None or f"`{library.extra}`" in page.read_text(), (
        f"{page.relative_to(ROOT)} does not name the extra `{library.extra}`: say that {library.name} needs it"
    )


@every_package
def test_the_extra_of_a_library_installs_it(library):
    if library.extra is None:
        needed, key = PYPROJECT["project"]["dependencies"], "dependencies"
    else:
        needed, key = EXTRAS.get(library.extra, []), f"optional-dependencies.{library.extra}"
    found = [each for each in map(Requirement, needed) if each.name == library.distribution]
    minimum = [part.version for each in found for part in each.specifier if part.operator == ">="]
    assert minimum, (
        f'pyproject.toml: project.{key} has no "{library.distribution}>=..." with the oldest version that works: '
        f"add it, or correct distribution= and extra= in {where(library)}"
    )
    assert library.tested is not None, f"say in tested= which versions the tests ran with, in {where(library)}"
    oldest, newest = map(major_minor, library.tested)
    assert oldest <= major_minor(minimum[0]) <= newest, (
        f"the minimum of {library.distribution} in pyproject.toml is {minimum[0]}, but tested={library.tested} in "
        f"{where(library)}"
    )


@every_package
def test_the_further_tests_install_a_library(library):
    """`integration` repeats extras by their names: debias-trees[test,docs,...]."""
    installs, left = set(), {"integration"}
    while left:
        extra = left.pop()
        installs.add(extra)
        ours = [each for each in map(Requirement, EXTRAS[extra]) if each.name == PYPROJECT["project"]["name"]]
        left |= {inner for each in ours for inner in each.extras} - installs
    packages = {Requirement(text).name for extra in installs for text in EXTRAS[extra]}
    assert library.extra is None or library.distribution in packages or library.extra in NOT_TOGETHER, (
        f"pyproject.toml: add {library.extra} to the extras in project.optional-dependencies.integration, which the "
        "tests of further libraries need"
    )


@every_package
def test_the_checks_of_the_layout_know_a_library(library):
    """The core never imports it, and no module imports it at the top."""
    if library.distribution in DATA_TOO:
        return
    package = (library.module or library.distribution.replace("-", "_")).partition(".")[0]
    core = next(each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if each["source_modules"] == ["debias"])
    assert package in core["forbidden_modules"], (
        f"pyproject.toml: add {package!r} to forbidden_modules of the contract {core['name']!r} in tool.importlinter"
    )
    banned = PYPROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-module-level-imports"]
    assert package in banned, f"pyproject.toml: add {package!r} to banned-module-level-imports in tool.ruff.lint"


def test_the_page_of_support_has_what_is_declared():
    assert support_table.with_texts() == support_table.PAGE.read_text(), (
        "run python tests/support/support_table.py texts"
    )


def test_the_page_of_support_says_where_models_of_every_library_come_from():
    absent = {each.page for each in libraries() if f"({each.page}.md)" not in support_table.SOURCES}
    assert not absent, "tests/support/support_table.py: add a row of SOURCES"
