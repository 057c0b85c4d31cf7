import subprocess
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.hooks.registry import build_manager, plugin_manager, scorers

PLUGIN = """
import numpy as np
import debias

@debias.plugin.scorer_plugin("inverse_depth", unit="mean of 1/(1 + depth) over splits", needs_rows=False)
def inverse_depth(ensemble, rows):
    total, count = np.zeros(ensemble.n_features), np.zeros(ensemble.n_features)
    for tree in map(ensemble.tree, range(ensemble.n_trees)):
        depth = np.zeros(len(tree.left), dtype=int)
        for node in np.flatnonzero(tree.left >= 0):
            depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
            total[tree.feature[node]] += 1 / (1 + depth[node])
            count[tree.feature[node]] += 1
    return np.divide(total, count, out=np.zeros_like(total), where=count > 0)

@debias.plugin.hookimpl
def debias_scorers():
    return [inverse_depth]
"""


def point(name, value):
    return EntryPoint(name=name, value=value, group="debias")


@pytest.fixture
def installed(tmp_path):
    """Make a directory that holds an installed distribution with a plugin; return how to run Python beside it."""

    def install(module, source, name="foreign"):
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"debias_{module}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: debias-{module}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[debias]\n{name} = {module}\n")

    def run(code, **environment):
        import os

        paths = [str(tmp_path), *[path for path in sys.path if path]]
        return subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return install, run


@pytest.mark.quick
def test_first_party_plugins_come_by_entry_points():
    assert set(scorers()) >= {"mdi", "mdi_oob", "ufi", "oob_split", "oob_loss", "split_count", "gain", "cover"}
    frame = debias.plugin.plugins()
    assert set(frame.loc[frame["kind"] == "adapter", "name"]) >= {
        "sklearn_forests",
        "xgboost_boosters",
        "lightgbm_boosters",
    }
    assert (frame.loc[frame["name"] == "mdi_oob", "distribution"] == "debias-trees").all()


@pytest.mark.thorough
def test_a_third_party_distribution_is_found_and_used(installed):
    install, run = installed
    install("depth_plugin", PLUGIN)
    done = run(
        "import debias, numpy as np\n"
        "from sklearn.ensemble import RandomForestRegressor\n"
        "X = np.random.default_rng(0).normal(size=(50, 3))\n"
        "forest = RandomForestRegressor(5, random_state=0).fit(X, X[:, 0])\n"
        "print(debias.score(forest, scorer='inverse_depth').values.argmax())\n"
        "frame = debias.plugin.plugins().set_index('name').loc['inverse_depth']\n"
        "print(frame['distribution'], frame['version'])"
    )
    assert done.stdout.split() == ["0", "debias-depth_plugin", "1.2"], done.stderr


@pytest.mark.thorough
def test_a_broken_plugin_is_named_with_the_way_to_disable_it(installed):
    install, run = installed
    install("broken_plugin", "import a_module_that_is_not_there")
    done = run("import debias; debias.plugin.plugins()")
    assert done.returncode != 0
    assert "the plugin 'foreign' (broken_plugin) cannot be loaded" in done.stderr
    assert "DEBIAS_DISABLE_PLUGINS=foreign" in done.stderr
    assert run("import debias; debias.plugin.plugins()", DEBIAS_DISABLE_PLUGINS="foreign").returncode == 0


def test_two_plugins_of_one_name_are_refused():
    points = [point("same", "debias.scorers.node"), point("same", "debias.scorers.native")]
    with pytest.raises(debias.plugin.PluginError, match="two plugins are called 'same'.*DEBIAS_DISABLE_PLUGINS=same"):
        build_manager(points)


def test_two_scorers_of_one_name_are_refused():
    @debias.plugin.scorer_plugin("mdi_oob", unit="x")
    def another(ensemble, rows):
        return np.zeros(ensemble.n_features)

    with pytest.raises(debias.plugin.PluginError, match="two scorers are called 'mdi_oob'"):
        debias.plugin.register(another)
    assert "mdi_oob" in scorers()  # the refused plugin is gone again


def test_a_misspelt_hook_is_refused():
    class Plugin:
        @debias.plugin.hookimpl
        def debias_scorer(self):
            return []

    with pytest.raises(debias.plugin.PluginError, match="debias_scorer"):
        debias.plugin.register(Plugin())


def test_what_is_no_plugin_is_refused():
    with pytest.raises(debias.plugin.PluginError, match="nothing to register"):
        debias.plugin.register(object())


@pytest.mark.quick
def test_a_registered_scorer_is_used_and_its_result_checked():
    @debias.plugin.scorer_plugin("of_the_wrong_shape", unit="x", needs_rows=False)
    def wrong(ensemble, rows):
        return np.zeros(1)

    debias.plugin.register(wrong)
    from sklearn.tree import DecisionTreeRegressor

    X = np.arange(20.0).reshape(10, 2)
    with pytest.raises(debias.DebiasError, match="of_the_wrong_shape returned shape"):
        debias.score(DecisionTreeRegressor().fit(X, X[:, 0]), scorer="of_the_wrong_shape")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("mdi_oop", "there is no scorer 'mdi_oop'. Did you mean 'mdi_oob'?"),
        ("mdi_oob(shrink=1)", "no option 'shrink'.*Did you mean 'shrinkage'?"),
        ("ufi(a=1)", "ufi has no option 'a'; it has none"),
        ("mdi_oob(__import__('os'))", "mdi_oob is a scorer, and wraps no scorer"),
        ("mdi_oob(shrinkage=__import__('os'))", "not a plain number or text"),
        ("mdi_oob +", "invalid syntax"),
        (7, "is not a scorer"),
    ],
)
def test_wrong_expressions_are_refused(expression, message):
    with pytest.raises(debias.plugin.CompositionError, match=message):
        debias.plugin.scorer(expression)


@pytest.mark.parametrize("hook", sorted(spec for spec in dir(plugin_manager().hook) if spec.startswith("debias_")))
def test_every_hook_is_implemented_by_a_first_party_plugin(hook):
    assert getattr(plugin_manager().hook, hook).get_hookimpls()


@pytest.mark.integration  # workers import everything anew
def test_a_scorer_of_a_script_goes_to_other_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import debias, numpy as np\n"
        "from sklearn.ensemble import RandomForestRegressor\n"
        "@debias.plugin.scorer_plugin('mine', unit='splits', needs_rows=False)\n"
        "def mine(ensemble, rows):\n"
        "    return np.bincount(ensemble.feature[ensemble.splits], minlength=ensemble.n_features)\n"
        "debias.plugin.register(mine)\n"
        "X = np.random.default_rng(0).normal(size=(60, 3))\n"
        "forest = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])\n"
        "text = 'response_permutation(mine, replicates=3)'\n"
        "one, two = (debias.score(forest, X, X[:, 0], text, random_state=0, n_jobs=n).values for n in (1, 2))\n"
        "print((one == two).all())\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True"], done.stderr


def a_scorer(unit="x"):
    @debias.plugin.scorer_plugin("comes_and_goes", unit=unit, needs_rows=False)
    def comes_and_goes(ensemble, rows):
        return np.zeros(ensemble.n_features)

    return comes_and_goes


@pytest.mark.parametrize("by_name", [False, True])
def test_what_is_registered_can_be_unregistered(by_name):
    first = a_scorer()
    debias.plugin.register(first)
    with pytest.raises(debias.plugin.PluginError, match="comes_and_goes"):
        debias.plugin.register(a_scorer("y"))
    debias.plugin.unregister("comes_and_goes" if by_name else first)
    assert "comes_and_goes" not in scorers()
    second = a_scorer("y")
    debias.plugin.register(second)
    assert scorers()["comes_and_goes"].unit == "y"
    debias.plugin.unregister(second)


def test_a_plugin_and_a_meta_method_can_be_unregistered():
    class Plugin:
        @debias.plugin.hookimpl
        def debias_scorers(self):
            return [a_scorer()]

    plugin = Plugin()
    debias.plugin.register(plugin, "of_this_test")
    debias.plugin.unregister("of_this_test")
    debias.plugin.register(plugin)
    debias.plugin.unregister(plugin)
    doubled = debias.plugin.meta_method_plugin("doubled_here", unit="x")(lambda inner, problem: problem.score(inner))
    debias.plugin.register(doubled)
    debias.plugin.unregister(doubled)
    assert {"comes_and_goes", "doubled_here"}.isdisjoint(debias.plugin.plugins()["name"])


@pytest.mark.parametrize("unknown", ["xgboost_booster", object()])
def test_what_is_not_registered_cannot_be_unregistered(unknown):
    hint = ".*Did you mean 'xgboost_boosters'?" if isinstance(unknown, str) else ".*There are: .*xgboost_boosters"
    with pytest.raises(debias.plugin.PluginError, match=f"no plugin .* is registered{hint}"):
        debias.plugin.unregister(unknown)


def test_what_a_plugin_offers_may_change():
    offered = [debias.plugin.scorer_plugin("changing", unit="1", needs_rows=False)(lambda ensemble, rows: np.zeros(2))]

    class Plugin:
        @debias.plugin.hookimpl
        def debias_scorers(self):
            return offered

    plugin = Plugin()
    debias.plugin.register(plugin, "of_a_changing_mind")
    try:
        first = debias.hooks.registry.scorers()["changing"]
        offered[0] = debias.plugin.scorer_plugin("changing", unit="2", needs_rows=False)(
            lambda ensemble, rows: np.ones(2)
        )
        assert (first.unit, debias.hooks.registry.scorers()["changing"].unit) == ("1", "2")
        offered.append(debias.hooks.registry.scorers()["mdi_oob"])
        with pytest.raises(debias.errors.PluginError, match="two scorers are called 'mdi_oob'"):
            debias.hooks.registry.scorers()
    finally:
        plugin_manager().unregister(plugin)


@pytest.mark.parametrize("hook", ["debias_extract", "debias_unwrap"])
def test_a_hook_that_returns_another_type_is_named(hook):
    class Wrong:
        pass

    setattr(Wrong, hook, staticmethod(debias.plugin.hookimpl(lambda model: "trees" if model == b"model" else None)))
    plugin = Wrong()
    debias.plugin.register(plugin)
    try:
        with pytest.raises(debias.plugin.PluginError, match=f"{hook} returned a str for b'model', not an? "):
            debias.plugin.extract(b"model")
    finally:
        debias.plugin.unregister(plugin)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [(lambda scores: scores[::-1], "in another order"), (lambda scores: scores * 1j, "complex numbers")],
)
def test_scores_that_would_be_taken_for_others_are_refused(change, complaint):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b", "c"])

    @debias.plugin.scorer_plugin("as_series", unit="1")
    def as_series(ensemble, rows):
        return change(pd.Series([1.0, 2.0, 3.0], index=list(ensemble.feature_names)))

    model = RandomForestRegressor(5, random_state=0).fit(X, X["a"])
    with pytest.raises(debias.DebiasError, match=f"as_series returned .*{complaint}"):
        debias.score(model, X, X["a"], as_series)
