"""Tests that the documentation names what exists and that its examples run; test_site.py builds the site."""

import doctest
import importlib
import inspect
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from debias_toy.command import tree_sizes

import debias
import debias.testing
import debias_adapters
import debias_bench.simulate
import debias_plugins
from debias.hooks import specs as hookspecs
from debias.hooks.commands import commands
from debias.hooks.registry import meta_methods, plugin_manager, scorers
from debias.trees.objectives import LOSSES
from support import hooks_page

HERE = Path(__file__).parent.parent
INTEGRATIONS = ("mlflow", "skore")
"""Modules that import what the default tests do without; their own tests run their pages."""
DOCS = HERE / "docs"
PAGES = sorted(str(path.relative_to(HERE)) for path in DOCS.rglob("*.md") if "gallery" not in path.parts)
MODULES = [
    module.name
    for package in (debias, debias_adapters, debias_plugins)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if module.name.split(".")[-1] not in INTEGRATIONS
]

TRAIN_MODELS = {
    *("debias.api.audit_folds", "debias.api.compare", "debias.api.displays", "debias.api.droppable"),
    *("debias.monitor.history", "debias.results.audit", "debias_plugins.integrations.importance_getter"),
}
"""Modules whose examples take more than a second: they train several models, or draw pictures."""


ON_PYPI = False
"""Whether a release is on PyPI: docs/releasing.md says when to change it. Until then, debias comes from a checkout."""
FROM_AN_INDEX = re.compile(r"\bpip install [^`\n]*?(?<![\w./-])debias(-trees)?\b")


@pytest.mark.parametrize(
    "module",
    [
        # `debias doctor`, whose own tests run it, checks every library in a process of its own: seconds for each
        pytest.param(
            each,
            marks=[pytest.mark.integration] * (each == "debias.testing.self_check")
            + [pytest.mark.thorough] * (each in TRAIN_MODELS),
        )
        for each in MODULES
    ],
)
def test_examples_in_docstrings_run(module):
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(importlib.import_module(module), optionflags=options).failed == 0


def blocks(language, page="README.md"):
    """Return the code of a page as (marker, text); a marker is a comment on the line before."""
    found = re.findall(
        rf"(?:^<!-- ([^\n]*?) -->\n)?^```{language}\n(.*?)^```", (HERE / page).read_text(), flags=re.M | re.S
    )
    return [(marker, text) for marker, text in found]


def code(language, page="README.md"):
    return "\n".join(text for _, text in blocks(language, page))


@pytest.mark.skipif(ON_PYPI, reason="a release can be installed from PyPI")
def test_nothing_advises_to_install_debias_from_an_index_that_does_not_have_it():
    files = [*HERE.glob("*.md"), *HERE.glob(".github/**/*.*"), *DOCS.rglob("*.md"), *DOCS.glob("examples/*.py")]
    files += [path for room in ("debias", "adapters", "plugins") for path in (HERE / room).rglob("*.py")]
    advice = {path.name: FROM_AN_INDEX.findall(path.read_text()) for path in files if path.name != "releasing.md"}
    assert len(advice) > 200
    assert [name for name, found in advice.items() if found] == []
    for wrong in ('pip install "debias-trees[all]"', "pip install debias", "pip install -U pytest debias-trees"):
        assert FROM_AN_INDEX.search(wrong)
    assert not FROM_AN_INDEX.search('pip install ".[all]" && .venv/bin/debias-demo')


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/quickstart.md"])
def test_the_first_code_block_installs_what_can_be_installed(page):
    _, first = blocks("sh", page)[0]
    assert re.search(r'pip install "([^"]+)"', first)[1] == ("debias-trees[all]" if ON_PYPI else ".[all]")
    assert ("no release on PyPI yet" in (HERE / page).read_text()) != ON_PYPI


@pytest.mark.skipif(not ON_PYPI, reason="there is no release yet")
@pytest.mark.parametrize("page", ["docs/gate.md", "docs/spark.md"])
def test_pages_install_the_release(page):
    assert "./debias[" not in (HERE / page).read_text()


def numbers_and_words(text):
    """Return the numbers of a text, and its words, without line breaks."""
    return [float(each) for each in re.findall(r"\d+(?:\.\d+)?", text)], re.sub(r"\d+(?:\.\d+)?", "0", text).split()


@pytest.mark.quick
def test_python_in_the_readme_runs_and_prints_what_stands_there(capsys):
    exec(code("python"), {})  # noqa: S102 - it is our own README
    (shown,) = (text for marker, text in blocks("text") if marker == "output")
    (printed, words), (expected, expected_words) = map(numbers_and_words, (capsys.readouterr().out, shown))
    assert words == expected_words
    assert printed == pytest.approx(expected, rel=0.05, abs=0.1)  # other versions of numpy and scikit-learn


def test_the_readme_is_short():
    lines = (HERE / "README.md").read_text().splitlines()
    assert len(lines) <= 90
    assert len([line for line in code("python").splitlines() if line]) <= 8


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_links_of_the_page_lead_to_files(page):
    """Whoever reads it in the repository, without the site, can follow them."""
    text = re.sub(r"^```.*?^```", "", (HERE / page).read_text(), flags=re.M | re.S)
    made_by_the_site = ("gallery/", "generated/")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link or link.startswith("#") or (page == "docs/index.md" and link.startswith(made_by_the_site)):
            continue
        assert ((HERE / page).parent / link.split("#")[0]).exists(), f"{page} links to {link}, which does not exist"


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_commands_of_the_page_exist_with_their_options(page):
    from debias.cli import main

    of_plugins = {name: each.command for name, each in commands(plugin_manager()).items()}
    text = (HERE / page).read_text()
    shell = [text for _, text in blocks("sh", page)] + re.findall(r"^    (debias .*)$", text, flags=re.M)
    shell += re.findall(r"`(debias [a-z]+ [^`]*)`", text)
    lines = [line for each in shell for line in each.replace("\\\n", " ").splitlines()]
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[:1] != ["debias"] or len(words) < 2 or words[1].isupper() or words[1].startswith("-"):
            continue
        command = ({"tree-sizes": tree_sizes} | of_plugins | main.commands).get(words[1])
        assert command, line
        if hasattr(command, "commands"):  # a group, such as debias monitor
            assert words[2] in command.commands, line
            command = command.commands[words[2]]
        known = {"-h", "--help"} | {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        assert [word for word in words[2:] if word.startswith("--") and word.split("=")[0] not in known] == [], line


def test_the_page_of_the_shell_begins_with_the_everyday_commands():
    named = set(re.findall(r"^debias (\w+)", blocks("sh", "docs/shell.md")[0][1], flags=re.M))
    assert named >= {"audit", "score", "check", "doctor"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the short examples of pages take for given: data, a forest, a booster, their audits, files of models."""
    import numpy as np
    import pandas as pd
    import skops.io
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import RandomForestRegressor
    from xgboost import XGBRegressor

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    booster = XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X[:250], y[:250])
    home = tmp_path_factory.mktemp("home")
    skops.io.dump(forest, home / "model.skops")
    pd.to_pickle(forest, home / "model.pkl")
    audit = debias.audit(forest, X, y, random_state=0)
    (home / "audit.json").write_text(audit.to_json())
    (home / "debias.toml").write_text("min_rows = 100\n")
    return home, {
        "debias": debias, "np": np, "X": X, "y": y, "forest": forest, "model": forest, "booster": booster,
        "X_train": X[:250], "y_train": y[:250], "X_new": X[250:], "y_new": y[250:],
        "audit": audit, "old_audit": audit, "scores": audit.tested_scores,
    }  # fmt: skip


ELSEWHERE = {
    "docs/writing-plugins.md": "test_writing_plugins_shows_the_distribution_that_is_tested",
    "docs/quickstart.md": "test_the_quickstart_runs_from_first_line_to_last",
    "docs/selector.md": "test_the_page_runs",  # of tests/plugins/integrations/test_selector.py
}
"""Pages whose code runs in a test of their own."""
LONG = (
    "docs/recipes.md",
    "docs/meta-methods.md",
    "docs/scorers/conditional-importance.md",
    "docs/intervals.md",
    "docs/coming-from.md",
    "docs/elsewhere.md",
)
"""Pages that train models by the dozen, fit many regressions, or need further packages."""
THOROUGH = ("docs/displays.md", "docs/droppable.md", "docs/folds.md", "docs/interactions.md", "docs/report.md")
"""Pages that take more than a second."""
CLASSES = ("docs/merits.md", "docs/oob-forest.md")
"""Pages whose response is of classes."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, marks=[pytest.mark.integration] * (page in LONG) + [pytest.mark.thorough] * (page in THOROUGH)
        )
        for page in PAGES
        if page not in ELSEWHERE and blocks("python", page)
    ],
)
@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")  # of rows of small examples
@pytest.mark.filterwarnings("ignore:Matplotlib is currently using agg")
def test_python_on_the_page_runs(page, made, tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    home, given = made
    for path in home.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    namespace = dict(given)
    if page in CLASSES:
        for name in ("y", "y_train", "y_new"):
            namespace[name] = given[name] > 140
    for marker, text in blocks("python", page):
        if marker.startswith("needs"):
            compile(text, page, "exec")
            continue
        exec(text.replace("n_jobs=2", "n_jobs=1"), namespace)  # noqa: S102 - they are our own pages
    plt.close("all")


@pytest.mark.integration
def test_the_quickstart_runs_from_first_line_to_last(tmp_path):
    """All of the page but the installation, in a directory of its own."""
    (tmp_path / "quickstart.py").write_text(code("python", "docs/quickstart.md"))
    run = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    done = subprocess.run([sys.executable, "-W", "error", "quickstart.py"], **run)
    assert done.returncode == 0, done.stderr
    assert "informative" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} >= {"report.html", "audit.json", "model.ubj", "heldout.csv"}
    (command,) = (text.strip() for marker, text in blocks("sh", "docs/quickstart.md") if marker == "shell")
    words = [str(Path(sys.executable).parent / "debias"), *shlex.split(command)[1:]]
    done = subprocess.run(words, **run)
    assert done.returncode == 0, done.stderr
    assert "not confirmed alone" in done.stdout


@pytest.mark.quick
def test_writing_plugins_shows_the_distribution_that_is_tested():
    """Every file of tests/plugin_dist stands on the page, to the letter; tests/hooks/test_plugin_dist.py runs it."""
    home = HERE / "tests/plugin_dist"
    shown = dict(blocks("(?:python|toml)", "docs/writing-plugins.md"))
    files = {str(path.relative_to(home)) for path in home.rglob("*") if path.suffix in (".py", ".toml")}
    assert shown.keys() == files - {"debias_toy/__init__.py"}
    for name, text in shown.items():
        assert (home / name).read_text() == text, name
    lines = [line for line in shown["debias_toy/scorer.py"].splitlines() if line.strip()]
    assert len(lines) <= 20


@pytest.mark.parametrize("page", ["docs/scorers/index.md", "docs/methods.md"])
def test_every_scorer_of_the_core_is_on_the_page(page):
    of_core = [name for name, each in scorers().items() if each.function.__module__.startswith("debias.")]
    text = (HERE / page).read_text()
    assert len(of_core) > 5
    missing = [name for name in of_core if f"`{name}" not in text]
    assert not missing, (
        f"{page} does not name the scorer `{missing[0]}`: say in a line what it measures, and its source"
    )


OURS = ("debias.", "debias_plugins.")
"""How the modules of scorers begin that come with debias."""


@pytest.mark.parametrize(
    "scorer", [name for name, each in scorers().items() if each.function.__module__.startswith(OURS)]
)
def test_every_scorer_has_a_page_that_says_what_it_cannot_see(scorer):
    """The table of all scorers links to it; the page has the table of what it estimates, its cost and so on."""
    rows = ("Estimates", "Source", "Rows", "Cost", "Noise", "Cannot see")
    pages = [path for path in DOCS.rglob("*.md") if f"`{scorer}" in path.read_text()]
    assert any(all(f"\n| {row} |" in path.read_text() for row in rows) for path in pages), (
        f"no page of docs/ that names `{scorer}` has a table with the rows {', '.join(rows)}: write one in "
        "docs/scorers; docs/scorers/conditional-importance.md is an example"
    )


def test_every_meta_method_says_what_it_cannot_see():
    text = (DOCS / "meta-methods.md").read_text()
    (table,) = re.findall(r"^\| meta-method \| what it estimates .*?\n\n", text, flags=re.M | re.S)
    ours = {name for name, each in meta_methods().items() if "debias_plugins" in each.function.__module__}
    told = set(re.findall(r"^\| `(\w+)` \|", table, flags=re.M))
    assert told == ours, (
        f"docs/meta-methods.md: correct the lines of its first table for {', '.join(sorted(told ^ ours))}"
    )


def test_writing_plugins_lists_every_loss():
    page = (DOCS / "writing-plugins.md").read_text()
    (table,) = re.findall(r"^\| name of the loss \|.*?\n\n", page, flags=re.M | re.S)
    named = {name for names in re.findall(r"^\| (`.*?) \|", table, flags=re.M) for name in re.findall(r"\w+", names)}
    wrong = named ^ {*LOSSES, "softmax"}
    assert not wrong, (
        f"docs/writing-plugins.md: its table of losses and LOSSES of debias/trees/objectives.py differ in "
        f"{', '.join(sorted(wrong))}: correct the table"
    )


@pytest.mark.integration
@pytest.mark.parametrize("package", ["boruta", "eli5", "skore"])
def test_lines_of_other_packages_run(package, made):
    pytest.importorskip(package)
    lines = [text for marker, text in blocks("python", "docs/coming-from.md") if marker == f"needs {package}"]
    assert lines
    exec("".join(lines).replace("max_iter=100", "max_iter=5"), dict(made[1]))  # noqa: S102 - it is our own page


def hooks():
    """Return the hooks there are; plugins of other tests may have brought in names that are none."""
    return sorted(name for name in vars(hookspecs) if name.startswith("debias_"))


def test_every_hook_has_a_section_titled_by_its_signature():
    """And a test named for it: tests/hooks/test_specs.py."""
    titles = re.findall(r"^## `(.*)`$", (DOCS / "hooks.md").read_text(), flags=re.M)
    signatures = [f"{name}({', '.join(inspect.signature(getattr(hookspecs, name)).parameters)})" for name in hooks()]
    wrong = sorted({*titles} ^ {*signatures})
    assert not wrong, (
        f"docs/hooks.md: a section is titled by the signature of its hook in debias/hooks/specs.py; correct {wrong[0]}"
    )
    assert sorted(titles) == signatures
    relay = vars(plugin_manager().hook)
    assert hooks() == sorted(name for name, caller in relay.items() if name.startswith("debias_") and caller.has_spec())


def test_the_reference_of_each_hook_is_its_docstring():
    """Written by ``python -m support.hooks_page``."""
    page = hooks_page.PAGE.read_text()
    assert hooks_page.with_references(page) == page, "run python -m support.hooks_page in tests/"
    for name in hooks():
        after = page.partition(hooks_page.BEGIN.format(name))[2].partition(hooks_page.END)[0]
        assert f"def {name}(" in after
        assert "**Returns**" in after


def documented():
    """Return every name of the API page, whole."""
    found, module = [], None
    for line in (DOCS / "api.md").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.removeprefix(".. currentmodule:: ")
        elif re.fullmatch(r"   [\w.]+", line):
            found.append(f"{module}.{line.strip()}")
    return found


@pytest.mark.quick
def test_the_api_page_is_what_is_public():
    names = documented()
    twice = sorted(name for name in names if names.count(name) > 1)
    assert not twice, f"docs/api.md lists {twice[0]} twice"
    listed = {name for name in names if name.count(".") == 1}
    missing = sorted({f"debias.{name}" for name in debias.__all__} - listed)
    assert not missing, (
        f"docs/api.md does not list {missing[0]}: add its name below a currentmodule of debias, or take it out of "
        "debias/__init__.py"
    )
    gone = sorted(listed - {f"debias.{name}" for name in debias.__all__})
    assert not gone, f"docs/api.md lists {gone[0]}, which debias/__init__.py does not offer: take the line away"
    for module in (debias.plot, debias.plugin, debias.testing, debias_bench.simulate):
        there = {name for name in names if name.startswith(f"{module.__name__}.")}
        wrong = sorted(there ^ {f"{module.__name__}.{name}" for name in module.__all__})
        assert not wrong, f"docs/api.md and __all__ of {module.__name__} differ in {wrong[0]}: correct one of them"


def test_every_error_is_on_the_api_page():
    errors = {
        name for name, each in vars(debias.errors).items() if inspect.isclass(each) and issubclass(each, Exception)
    }
    assert errors - {name.rpartition(".")[2] for name in documented()} == set()


def resolved(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


FUNCTIONS = [name for name in documented() if inspect.isfunction(resolved(name))]
CLASSES_OF_API = [name for name in documented() if inspect.isclass(resolved(name))]
RAISES_NOTHING = {
    "debias.trees.shapley.shapley_values_of_leaves",
    *(f"debias.plugin.{name}" for name in (
        "plugins", "scorer_plugin", "data_scorer_plugin", "meta_method_plugin", "permuted_positions", "apart_from_far"
    )),
    "debias.retraining.replicates.child_seed",
    "debias.data.digest.digest_of", "debias.errors.nearest", "debias.hooks.contracts.innermost",
    "debias.parallel.allowed", "debias.parallel.over_parts", "debias.parallel.worth",
    "debias.progress.task", "debias.positions.evenly_spaced",
    "debias.data.user_columns.copied", "debias.text.listed", "debias.text.percent",
    "debias.rows.dependent_columns.dependent_features", "debias.rows.without.child_shares",
    "debias.rows.without.effects", "debias.rows.without.outputs_without",
    "debias.child_process.command", "debias.cli.output.terminal", "debias.trees.routing.tree_nodes",
    "debias.trees.leaf_lines.add_lines",
    "debias.trees.shapley.shapley_products", "debias.trees.shapley.shapley_values",
    *(f"debias.p_values.{name}" for name in (
        "adjusted", "exceeds", "false_discovery", "holm", "permutation_p_values", "step_down_max"
    )),
    *(f"debias_bench.simulate.{name}" for name in (
        "deng_t1", "deng_t2", "hong_case", "hong_exor", "loh", "loh_missing", "rannum", "strobl"
    )),
}  # fmt: skip
SOURCES = r"\b(19|20)\d\d\b"
"""A year: whose formula it is."""


def sections(function):
    parts = re.split(r"^(\w+)\n-{3,}$", inspect.getdoc(function) or "", flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_are_documented_whole(name):
    """Every parameter, what is returned and raised; arrays with their shape."""
    function = resolved(name)
    parts = sections(function)
    parameters = [each.name for each in inspect.signature(function).parameters.values()]
    listed = re.findall(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: :|$)", parts.get("Parameters", ""), flags=re.M)
    told = [each.strip("* ") for names in listed for each in names.split(",")]
    wrong = sorted({*told} ^ {*parameters})
    assert not wrong, f"{name}: the section Parameters of its docstring and its arguments differ in {', '.join(wrong)}"
    if inspect.signature(function).return_annotation not in (None, "None"):
        assert parts.get("Returns", parts.get("Yields", "")).strip()
    assert (name in RAISES_NOTHING) != bool(parts.get("Raises", "").strip()), (
        f"{name}: write the section Raises of its docstring, or, if it raises nothing, add it to RAISES_NOTHING here"
    )
    for section in ("Parameters", "Returns"):
        for line in re.findall(r"^(?:\w+ : )?array\b.*$", parts.get(section, ""), flags=re.M):
            assert "shape" in line, f"{name}: say the shape of the array in its docstring: {line}"


@pytest.mark.parametrize("name", CLASSES_OF_API)
def test_public_classes_and_their_methods_are_documented(name):
    for each, member in vars(resolved(name)).items():
        if each.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        assert inspect.getdoc(member), f"write a docstring for {name}.{each}"


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name.startswith("debias_bench.simulate.")])
def test_simulations_name_their_source(name):
    text = inspect.getdoc(resolved(name)) + inspect.getdoc(inspect.getmodule(resolved(name)))
    assert re.search(SOURCES, text)


@pytest.mark.parametrize("name", [*scorers(), *meta_methods()])
def test_scorers_and_meta_methods_document_their_options_units_and_source(name):
    found = scorers().get(name) or meta_methods()[name]
    function, text = found.function, inspect.getdoc(found.function) or ""
    options = [each.name for each in inspect.signature(function).parameters.values() if each.kind == each.KEYWORD_ONLY]
    missing = [option for option in options if not re.search(rf"\b{option}\b", text)]
    assert not missing, f"the docstring of {name} does not say what its option {missing[0]} does"
    assert found.unit, f"{name} has no unit: give its decorator unit="
    module = inspect.getdoc(inspect.getmodule(function)) or ""
    own = {"split_count", "gain", "cover", "native", "oob_loss", "honest_splits"}  # the libraries' or our own
    assert name in own or re.search(SOURCES, text + module), (
        f"the docstring of {name} names no paper: say whose formula it is, with the year, or add it to `own` here"
    )


def test_paths_of_the_page_for_contributors_exist():
    text = (DOCS / "contributing.md").read_text()
    for path in re.findall(r"`((?:debias|adapters|plugins|tests|docs)/[\w./]*)`", text):
        assert "NAME" in path or (HERE / path).exists(), f"docs/contributing.md names {path}, which does not exist"
    for functions, paths in re.findall(r"^\| \d+\. [^|]*\|([^|]*)\|([^|]*)\|$", text, flags=re.M):
        sources = "".join(
            (HERE / path).read_text()
            for path in re.findall(r"`([\w/]+\.py)`", paths)
            if path.split("/")[0] in ("debias", "plugins")
        )
        for name in re.findall(r"`([\w.]+)`", functions):
            if name not in ("mdi_oob", "Audit") and "results" not in paths:
                assert re.search(rf"\b{name.split('.')[-1]}\b", sources), (
                    f"docs/contributing.md: {name} is not in the files of its line, {paths.strip()}"
                )
