"""Models of MLflow's registry, by their addresses and as directories, in Python and in the shell."""

import json
import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.cli import main
from debias_bench.demo import demo_data

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]  # MLflow warns of itself at every turn
FOREST_TYPES = ["sklearn.tree._tree.Tree"]


@pytest.fixture(scope="module")
def data():
    X, y = demo_data()
    return X[:300], y[:300], X[300:], y[300:]


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    """MLflow with a registry of its own in a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow = pytest.importorskip("mlflow")
    home = tmp_path_factory.mktemp("registry")
    before = mlflow.get_tracking_uri()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        mlflow.set_tracking_uri(f"sqlite:///{home}/runs.db")
        yield mlflow
    mlflow.set_tracking_uri(before)


@pytest.fixture(scope="module")
def registered(mlflow, data):
    """A forest that is version 1 of "forest" and has the alias "champion"; and the address of its run."""
    forest = RandomForestRegressor(20, random_state=0).fit(*data[:2])
    with mlflow.start_run() as run:
        mlflow.sklearn.log_model(forest, name="model", skops_trusted_types=FOREST_TYPES, registered_model_name="forest")
    mlflow.MlflowClient().set_registered_model_alias("forest", "champion", "1")
    return forest, run.info.run_id


@pytest.mark.parametrize("address", ["models:/forest/1", "models:/forest@champion", "runs:/{run}/model"])
def test_an_address_gives_the_model_in_python_and_in_the_shell(registered, data, tmp_path, address):
    forest, run = registered
    address = address.format(run=run)
    loaded = debias.load_model(address)
    expected = debias.score(forest, *data[2:], rows="held-out").values
    np.testing.assert_array_equal(debias.score(loaded, *data[2:], rows="held-out").values, expected)
    data[2].assign(outcome=data[3]).to_parquet(tmp_path / "rows.parquet")
    given = [address, str(tmp_path / "rows.parquet"), "--target", "outcome", "--rows", "held-out"]
    done = CliRunner().invoke(main, ["score", *given, "--format", "json"])
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(debias.Scores.from_json(done.stdout).values, expected)


def test_a_history_takes_an_address(registered, data, tmp_path):
    data[2].assign(outcome=data[3]).to_parquet(tmp_path / "rows.parquet")
    given = ["models:/forest@champion", str(tmp_path / "rows.parquet"), "--target", "outcome", "--at", "1"]
    done = CliRunner().invoke(main, ["monitor", "add", str(tmp_path / "forest.history"), *given])
    assert done.exit_code == 0, done.output
    periods = debias.History.open(tmp_path / "forest.history").periods
    assert periods["n_rows"].tolist() == [len(data[2])]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("models:/forest/7", "MLflow has no model at models:/forest/7: .*MLFLOW_TRACKING_URI"),
        ("models:/nothing@champion", "MLflow has no model at models:/nothing@champion"),
        ("models:/", "MLflow has no model at models:/"),
        ("s3://bucket/model", "no plugin knows the address s3://bucket/model"),
    ],
)
def test_an_address_without_a_model_says_so(registered, data, tmp_path, address, message):
    with pytest.raises(debias.UnsupportedModelError, match=message):
        debias.load_model(address)
    data[2].assign(outcome=data[3]).to_parquet(tmp_path / "rows.parquet")
    done = CliRunner().invoke(main, ["score", address, str(tmp_path / "rows.parquet"), "--target", "outcome"])
    assert done.exit_code == 3
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_name_the_address_and_not_the_copy(mlflow, data):
    forest = RandomForestRegressor(2, random_state=0).fit(*data[:2])
    with mlflow.start_run():
        mlflow.sklearn.log_model(
            forest, name="model", serialization_format="cloudpickle", registered_model_name="pickled"
        )
    with pytest.raises(debias.UntrustedModelError, match=r"^models:/pickled/1/model\.pkl is a pickle"):
        debias.load_model("models:/pickled/1")
    assert debias.load_model("models:/pickled/1", allow_pickle=True).n_estimators == 2


@pytest.mark.parametrize("flavour", ["sklearn", "xgboost", "lightgbm", "catboost"])
def test_check_and_monitor_read_the_directories(mlflow, models, data, tmp_path, flavour):
    X, y, X_test, y_test = data
    if flavour == "sklearn":
        model, how = RandomForestRegressor(20, random_state=0).fit(X, y), {"skops_trusted_types": FOREST_TYPES}
    elif flavour == "catboost":
        catboost = pytest.importorskip("catboost")
        model = catboost.CatBoostRegressor(iterations=5, depth=3, silent=True, allow_writing_files=False).fit(X, y)
        how = {}
    else:
        model, how = models(flavour, n_estimators=5).fit(X, y), {}
    getattr(mlflow, flavour).save_model(model, tmp_path / "model", **how)
    X_test.assign(outcome=y_test).to_parquet(tmp_path / "rows.parquet")
    given = [str(tmp_path / "model"), str(tmp_path / "rows.parquet"), "--target", "outcome"]
    (tmp_path / "debias.toml").write_text("min_rows = 10\n")
    rules = ["--policy", str(tmp_path / "debias.toml"), "--rows", "held-out", "--format", "json"]
    done = CliRunner().invoke(main, ["check", *given, *rules])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["passed"] is True
    history = str(tmp_path / "model.history")
    done = CliRunner().invoke(main, ["monitor", "add", history, *given, "--at", "2026-11-23", "--rows", "held-out"])
    assert done.exit_code == 0, done.output
    kept = debias.History.open(history).scores().iloc[0]
    expected = debias.score(model, X_test, y_test, rows="held-out").values
    np.testing.assert_allclose(kept.to_numpy(), expected, rtol=1e-9)
