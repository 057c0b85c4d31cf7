import subprocess
import sys

import pytest

HEAVY = (
    *("sklearn", "xgboost", "lightgbm", "shap", "pandas", "numba", "scipy", "matplotlib", "jinja2", "skops"),
    *("pyarrow", "mlflow", "skore", "rich"),
)


def loaded_after(code):
    check = f"import sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "import debias",
        "import debias; from debias.hooks.registry import scorers; scorers()",
        "import debias.cli",
    ],
)
def test_importing_and_loading_every_plugin_imports_no_heavy_library(code):
    assert loaded_after(code) == "[]"


MOST_MODULES = 3
"""Of debias, with ``import debias``: the package, its version, and how names are imported later."""


def test_importing_debias_imports_none_of_its_rooms_and_no_package():
    code = "import sys; before = set(sys.modules)\nimport debias; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert len([name for name in loaded if name.partition(".")[0] == "debias"]) <= MOST_MODULES
    assert {name.partition(".")[0] for name in loaded} <= {"debias", *sys.stdlib_module_names}


@pytest.mark.thorough
def test_a_forest_is_scored_where_no_booster_library_is_installed():
    code = (
        "import sys; sys.modules['xgboost'] = sys.modules['lightgbm'] = None\n"
        "import debias, numpy as np\n"
        "from sklearn.ensemble import RandomForestRegressor\n"
        "X = np.random.default_rng(0).normal(size=(60, 3))\n"
        "forest = RandomForestRegressor(5, random_state=0).fit(X, X[:, 0])\n"
        "assert debias.score(forest, X, X[:, 0]).values.argmax() == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.thorough
def test_the_file_of_a_library_that_is_not_installed_names_what_to_install(tmp_path):
    (tmp_path / "model.txt").write_text("tree\nversion=v4\n")
    code = (
        "import sys; sys.modules['lightgbm'] = None\n"
        "import debias\n"
        f"try: debias.load_model({str(tmp_path / 'model.txt')!r})\n"
        "except debias.UnsupportedModelError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install lightgbm" in done.stdout
