"""MLflow itself: audits in runs, the evaluator through ``mlflow.models.evaluate``, its gate, and files it writes."""

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias_bench.demo import demo_data

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]  # MLflow warns of itself at every turn
FOREST_TYPES = ["sklearn.tree._tree.Tree"]


@pytest.fixture(scope="module")
def data():
    X, y = demo_data()
    return X[:300], y[:300], X[300:], y[300:]


@pytest.fixture(scope="module")
def forest(data):
    return RandomForestRegressor(50, random_state=0).fit(data[0], data[1])


@pytest.fixture(scope="module", autouse=True)
def tracking(tmp_path_factory):
    """Import MLflow, which takes seconds, only where these tests are run; runs go to a folder of the test."""
    global mlflow, log_audit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow = pytest.importorskip("mlflow")
        from debias_plugins.integrations.mlflow import log_audit
    home = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        mlflow.set_tracking_uri(f"sqlite:///{home}/runs.db")
        yield home


@pytest.fixture(scope="module")
def uri(forest):
    with mlflow.start_run():
        return mlflow.sklearn.log_model(forest, name="forest", skops_trusted_types=FOREST_TYPES).model_uri


def evaluate(uri, data, **config):
    table = data[2].assign(outcome=data[3])
    with mlflow.start_run() as run:
        given = {"model_type": "regressor", "evaluators": ["debias"], "evaluator_config": {"debias": config}}
        return mlflow.models.evaluate(uri, table, targets="outcome", **given), run.info.run_id


def artefact(run, name):
    return mlflow.artifacts.load_text(f"runs:/{run}/{name}")


def test_mlflow_lists_the_evaluator():
    assert "debias" in mlflow.models.list_evaluators()


def test_training_rows_come_by_the_configuration_and_are_scored_out_of_bag(uri, data, forest):
    result, run = evaluate(uri, data, rows="oob", train=data[:2], random_state=0)
    expected = debias.audit(forest, *data[:2], rows="oob", random_state=0)
    assert result.metrics["debias/unsupported_share"] == expected.unsupported_share
    assert result.metrics["debias/n_informative"] == expected.verdict.count("informative")
    stored = mlflow.get_run(run).data.metrics
    assert stored == pytest.approx(result.metrics)
    for k, name in enumerate(expected.tested_scores.feature_names):
        assert stored[f"debias/share/{name}"] == pytest.approx(expected.share[k])
        assert stored[f"debias/reported/{name}"] == pytest.approx(expected.reported[k])
        assert stored[f"debias/reported_unseen/{name}"] == pytest.approx(expected.reported_unseen[k])
        assert stored[f"debias/z/{name}"] == pytest.approx(expected.tested_scores.z[k])
    found = debias.Audit.from_json(artefact(run, "debias/audit.json"))
    np.testing.assert_array_equal(found.tested_scores.values, expected.tested_scores.values)
    assert found.provenance["status"] == "proven"
    assert "<!doctype html>" in artefact(run, "debias/report.html").lower()[:200]
    assert result.artifacts["debias/audit.json"].content == found.to_dict()


def test_evaluation_rows_are_scored_as_held_out(uri, data, forest):
    result, _ = evaluate(uri, data, rows="held-out", random_state=0, prefix="fresh")
    expected = debias.audit(forest, *data[2:], rows="held-out", random_state=0)
    assert result.metrics["fresh/unsupported_share"] == expected.unsupported_share
    assert result.metrics["fresh/n_rows"] == len(data[2])


def test_mlflow_gates_by_the_metrics(uri, data):
    from mlflow.models import MetricThreshold
    from mlflow.models.evaluation.validation import ModelValidationFailedException

    policy = {"must_be_informative": ["bmi"], "must_not_matter": ["bmi"]}
    result, run = evaluate(uri, data, rows="oob", train=data[:2], random_state=0, policy=policy)
    assert json.loads(artefact(run, "debias/gate.json"))["passed"] is False
    assert r"must\_not\_matter: bmi" in artefact(run, "debias/gate.md")
    share = result.metrics["debias/unsupported_share"]
    passing = {"debias/unsupported_share": MetricThreshold(threshold=share + 0.01, greater_is_better=False)}
    mlflow.validate_evaluation_results(passing, result)
    for name, limit in (("debias/unsupported_share", share - 0.01), ("debias/failed_rules", 0)):
        failing = {name: MetricThreshold(threshold=limit, greater_is_better=False)}
        with pytest.raises(ModelValidationFailedException, match=name):
            mlflow.validate_evaluation_results(failing, result)


def test_models_are_not_audited_unless_asked(uri, data):
    """MLflow runs every evaluator there is when none is named; ours needs rows=."""
    table = data[2].assign(outcome=data[3])
    config = {"log_model_explainability": False}
    with mlflow.start_run():
        found = mlflow.models.evaluate(
            uri, table, targets="outcome", model_type="regressor", evaluator_config=config
        ).metrics
    assert "r2_score" in found
    assert not [name for name in found if name.startswith("debias")]


@pytest.mark.parametrize(
    ("config", "kind", "message"),
    [
        ({"rows": "oob", "eror_rate": 0.1}, debias.RowsError, "Did you mean 'error_rate'"),
        ({"rows": "oob"}, debias.ProvenanceError, "trained on 300 rows, but X has 142"),
        ({"rows": "held-out", "policy": {"min_row": 3}}, debias.errors.PolicyError, "min_rows"),
    ],
)
def test_wrong_configurations_say_so(uri, data, config, kind, message):
    with pytest.raises(kind, match=message):
        evaluate(uri, data, **config)


def test_what_holds_no_trees_is_refused(data):
    table = data[2].assign(outcome=data[3])
    given = {"targets": "outcome", "model_type": "regressor", "evaluators": "debias"}
    with mlflow.start_run(), pytest.raises(debias.UnsupportedModelError, match="flavours sklearn, xgboost or lightgbm"):
        mlflow.models.evaluate(lambda X: X["bmi"], table, evaluator_config={"rows": "held-out"}, **given)


def test_an_audit_is_logged_to_the_active_run_under_names_mlflow_takes(forest, data):
    hostile = ["a/b", "a:b", "<script>", "..", "x" * 400, "年齢"]
    X = data[0].iloc[:, :6].set_axis(hostile, axis=1)
    audit = debias.audit(
        RandomForestRegressor(20, random_state=0).fit(X, data[1]), X, data[1], ["mdi_oob"], random_state=0
    )
    with mlflow.start_run() as run:
        metrics = log_audit(audit, audit.check({"min_rows": 1}))
    assert mlflow.get_run(run.info.run_id).data.metrics == pytest.approx(metrics)
    assert len([name for name in metrics if "/share/" in name]) == 6
    assert metrics["debias/failed_rules"] == 0
    picture = mlflow.artifacts.load_image(f"runs:/{run.info.run_id}/debias/audit.png")
    assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 5  # drawn, not empty
    untested = debias.audit(forest, *data[:2], ["mdi_oob"], test=None)
    with mlflow.start_run():
        assert not {"debias/unsupported_share", "debias/z/bmi"} & set(log_audit(untested))


@pytest.mark.parametrize("flavour", ["sklearn", "sklearn pickled", "xgboost", "xgboost booster", "lightgbm"])
def test_directories_mlflow_writes_are_read_without_it(flavour, data, models, forest, tmp_path):
    X, y, X_test, y_test = data
    if flavour.startswith("sklearn"):
        how = {"serialization_format": "cloudpickle"} if "pickled" in flavour else {"skops_trusted_types": FOREST_TYPES}
        model, save = forest, lambda model, path: mlflow.sklearn.save_model(model, path, **how)
    else:
        library = flavour.split()[0]
        model = models(library, n_estimators=5).fit(X, y)
        model = model.get_booster() if "booster" in flavour else model
        save = getattr(mlflow, library).save_model
    save(model, tmp_path / "model")
    if "pickled" in flavour:
        with pytest.raises(debias.UntrustedModelError, match="--allow-pickle"):
            debias.load_model(tmp_path / "model")
    loaded = debias.load_model(tmp_path / "model", allow_pickle="pickled" in flavour)
    expected = debias.score(model, X_test, y_test, rows="held-out").values
    np.testing.assert_array_equal(debias.score(loaded, X_test, y_test, rows="held-out").values, expected)


def test_the_page_runs(uri, data, forest, tmp_path, monkeypatch):
    page = (Path(__file__).parents[3] / "docs/mlflow.md").read_text().partition("## skore")[0]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "debias.toml").write_text('must_be_informative = ["bmi"]')
    named = {"debias": debias, "forest": forest, "X_train": data[0], "y_train": data[1], "model_uri": uri}
    named["test_table"] = data[2].assign(outcome=data[3])
    page = re.sub(r"^<!-- needs a file -->\n```python\n.*?^```", "", page, flags=re.M | re.S)  # no registry here
    blocks = "\n".join(re.findall(r"^```python\n(.*?)^```", page, flags=re.M | re.S))
    exec(blocks.replace('"default", ', ""), named)  # noqa: S102 - our own page; MLflow's own evaluator takes a minute
    assert named["result"].metrics["debias/failed_rules"] == 0


def test_importing_debias_and_its_plugins_imports_neither_mlflow_nor_skore():
    code = "import sys, debias; debias.plugin.plugins(); print([n for n in ('mlflow', 'skore') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def steps(run, name):
    return [(each.step, each.value, each.timestamp) for each in mlflow.MlflowClient().get_metric_history(run, name)]


def test_folds_are_logged_with_their_numbers_as_steps(data):
    from sklearn.model_selection import KFold, cross_validate

    from debias_plugins.integrations.mlflow import log_folds

    X, y, cv = *data[:2], KFold(3)
    found = cross_validate(RandomForestRegressor(20, random_state=0), X, y, cv=cv, return_estimator=True)
    audit = debias.audit_folds(found, X, y, cv=cv, scorers=["mdi_oob"], random_state=0)
    with mlflow.start_run() as run:
        metrics = log_folds(audit)
    stored = mlflow.get_run(run.info.run_id).data.metrics
    assert {name: stored[name] for name in metrics} == pytest.approx(metrics)
    assert metrics["debias/n_folds"] == 3
    for name, row in audit.to_frame().iterrows():
        for column in ("share", "mean", "informative_folds"):
            assert metrics[f"debias/{column}/{name}"] == pytest.approx(row[column])
        logged = [(step, value) for step, value, _ in steps(run.info.run_id, f"debias/fold_score/{name}")]
        assert sorted(logged) == list(enumerate(audit.scores[name]))
    read = debias.FoldsAudit.from_json(artefact(run.info.run_id, "debias/folds.json"))
    np.testing.assert_array_equal(read.mean, audit.mean)
    assert "Scores over folds" in artefact(run.info.run_id, "debias/folds.html")


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """A history of 20 days; in the last 5 the column `b` is stuck."""
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(2_400, 3)), columns=["a", "b", "c/d"])
    y = X["a"] + 2 * X["b"] + random.normal(size=len(X))
    model = RandomForestRegressor(30, min_samples_leaf=5, random_state=0).fit(X[:1_200], y[:1_200])
    history = debias.History(model, tmp_path_factory.mktemp("days") / "model.history")
    for day in range(20):
        rows = slice(1_200 + 60 * day, 1_260 + 60 * day)
        history.add(X[rows].assign(b=0.5) if day >= 15 else X[rows], y[rows], at=day)
    return history


def test_changes_are_logged_with_the_loss_and_a_gate(days):
    from debias_plugins.integrations.mlflow import log_changes

    changes = days.changes(5)
    gate = changes.check({"max_loss_increase": 0.1})
    with mlflow.start_run() as run:
        metrics = log_changes(changes, gate)
    stored = mlflow.get_run(run.info.run_id).data.metrics
    assert {name: stored[name] for name in metrics} == pytest.approx(metrics)
    loss, frame = changes.loss, changes.to_frame()
    assert metrics["debias/loss/recent"] - metrics["debias/loss/reference"] == pytest.approx(loss.loss.change)
    costs = [metrics[f"debias/cost/{name}"] for name in ("a", "b", "c_d")]
    assert metrics["debias/loss/base_change"] + sum(costs) == pytest.approx(loss.loss.change)
    assert max(costs) == costs[1] == pytest.approx(loss.to_frame().loc["b", "cost"])
    assert metrics["debias/n_cost_more"] == len(loss.costs_more) >= 1
    assert metrics["debias/n_changed"] == frame["verdict"].str.match("faded|changed").sum()
    assert metrics["debias/n_shifted"] == frame["shifted"].sum() == 1
    assert metrics["debias/failed_rules"] == len(gate.failures) == 1
    read = debias.Changes.from_json(artefact(run.info.run_id, "debias/changes.json"))
    assert read.to_dict() == changes.to_dict()
    assert artefact(run.info.run_id, "debias/gate.md") == gate.to_markdown()
    assert "<html" in artefact(run.info.run_id, "debias/changes.html")
    names = {each.path for each in mlflow.MlflowClient().list_artifacts(run.info.run_id, "debias")}
    assert "debias/loss.png" in names


def test_many_comparisons_of_a_run_have_steps_and_folders_of_their_own(days):
    from debias_plugins.integrations.mlflow import log_changes

    with mlflow.start_run() as run:
        logged = [log_changes(days.changes(n_recent), step=step) for step, n_recent in enumerate((4, 5))]
    values = [(step, value) for step, value, _ in steps(run.info.run_id, "debias/loss/recent")]
    assert sorted(values) == [(step, metrics["debias/loss/recent"]) for step, metrics in enumerate(logged)]
    for step, n_recent in enumerate((4, 5)):
        read = debias.Changes.from_json(artefact(run.info.run_id, f"debias/{step}/changes.json"))
        assert read.recent.n_periods == n_recent


def test_what_was_not_compared_has_no_numbers(days, tmp_path, data, forest):
    from debias_plugins.integrations.mlflow import log_changes

    history = debias.History(forest, tmp_path / "young.history")
    history.add(data[2], data[3], at=0)
    changes = history.changes(5)
    assert not changes.compared
    with mlflow.start_run() as run:
        assert log_changes(changes) == {}
    assert not debias.Changes.from_json(artefact(run.info.run_id, "debias/changes.json")).compared


def test_a_history_is_logged_with_periods_as_steps_and_dates_as_times(data, forest, tmp_path):
    from debias_plugins.integrations.mlflow import log_history

    history = debias.History(forest, tmp_path / "forest.history")
    for day, rows in enumerate(np.array_split(np.arange(len(data[2])), 2)):
        history.add(data[2].iloc[rows], data[3].iloc[rows], at=f"2026-11-{20 + day}")
    with mlflow.start_run() as run:
        metrics = log_history(history)
    scores = history.scores()
    for name in scores:
        logged = sorted(steps(run.info.run_id, f"debias/score/{name}"))
        assert [(step, value) for step, value, _ in logged] == list(enumerate(scores[name]))
        assert [time for _, _, time in logged] == [1795132800000, 1795219200000]
        assert metrics[f"debias/score/{name}"] == scores[name].iloc[-1]
    assert json.loads(artefact(run.info.run_id, "debias/history.json"))["feature_names"] == list(scores)
    assert "Scores over time" in artefact(run.info.run_id, "debias/history.html")


def test_a_result_of_another_function_names_the_one_for_it(days, data, forest):
    from debias_plugins.integrations import mlflow as ours

    audit = debias.audit(forest, data[2], data[3], rows="held-out", test=None)
    changes = days.changes(5)
    with pytest.raises(
        TypeError, match=r"log_changes logs a debias\.Changes, but this is of type Audit: use log_audit for it"
    ):
        ours.log_changes(audit)
    with pytest.raises(
        TypeError, match=r"log_audit logs a debias\.Audit, but this is of type Changes: use log_changes for it"
    ):
        ours.log_audit(changes)
    with pytest.raises(
        TypeError, match=r"log_folds logs a debias\.FoldsAudit, but this is of type History: use log_history for it"
    ):
        ours.log_folds(days)
    with pytest.raises(TypeError, match=r"log_history logs a debias\.History, but this is of type str$"):
        ours.log_history("model.history")
    assert mlflow.active_run() is None
