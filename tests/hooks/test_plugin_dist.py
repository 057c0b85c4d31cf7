"""A plugin of a third party: its own distribution, built, installed, found by its entry points, and used."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from xgboost import XGBRegressor

HOME = Path(__file__).parents[1] / "plugin_dist"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Install the plugin into a directory of its own; return how to run Python beside it. Needs no network."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", target, HOME], check=True)

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=target,
            env={**os.environ, "PYTHONPATH": str(target)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.thorough
def test_its_own_tests_pass(python):
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(HOME / "tests"), str(HOME / "tests"))
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


@pytest.mark.thorough
def test_its_scorer_adapter_and_meta_method_are_listed_under_its_name(python):
    code = "import debias; f = debias.plugin.plugins(); print(*sorted(f.loc[f.distribution == 'debias-toy', 'name']))"
    done = python("-c", code)
    assert done.stdout.split() == ["beats_chance", "inverse_depth", "large_nodes", "toy_adapter"], done.stderr


@pytest.mark.thorough
def test_its_command_runs_under_its_name_and_stands_in_the_help(python, tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    booster = XGBRegressor(n_estimators=3, max_depth=2).fit(X, X[:, 0] * X[:, 1])
    booster.save_model(tmp_path / "model.ubj")
    expected = booster.get_booster().trees_to_dataframe().groupby("Tree").size()
    done = python("-m", "debias.cli", "tree-sizes", str(tmp_path / "model.ubj"))
    assert done.stdout.splitlines() == [f"tree {tree}: {size} nodes" for tree, size in expected.items()], done.stderr
    assert re.search(r"^  tree-sizes +Print the number of nodes", python("-m", "debias.cli", "--help").stdout, re.M)
