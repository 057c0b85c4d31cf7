"""The jobs of docs/recipes.md that keep a history: what cron, Airflow and GitHub Actions would run."""

import ast
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from xgboost import XGBRegressor

import debias
from debias.results.fleet import FeatureCost, Fleet, FleetLine
from debias.results.prometheus import HELP, exposition
from debias.results.vocabulary import FleetVerdict
from support.shell import in_bash

PAGE = (Path(__file__).parents[2] / "docs/recipes.md").read_text()
N_DAYS, FADED_FROM = 45, 40
COST = FeatureCost("age", 0.2, 0.1, 0.1, 0.01, True)
LINE = FleetLine(history="a.history", verdict=FleetVerdict.LOOK, series="model 1", features=(COST,))
FLEET = Fleet(lines=(LINE,), alpha=0.05, looks=1, recent="30d", reference="first 30d")


def block(marker, language):
    (text,) = re.findall(rf"^<!-- {marker} -->\n```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)
    return text


JOB, POLICY = block("job", "sh"), block("job policy", "toml")
IN_CRON = block("crontab", "")
IN_AIRFLOW = block("needs airflow", "python")
(IN_ACTIONS,) = re.findall(r"(?<!-->\n)^```yaml\n(.*?)^```", PAGE, flags=re.M | re.S)
FOR_ALL = block("fleet crontab", "") + block("metrics crontab", "")
ALERTS, DASHBOARD = block("alerts", "yaml"), block("grafana", "json")
REGISTRY = block("registry", "sh")


def commands(text):
    """Return the calls of debias in a text, with one name for the day."""
    text = re.sub(r'"?rows/\S+?\.parquet"?', "rows/DAY.parquet", text)
    text = re.sub(r"""--at ("\$DAY"|\S+?(?=["\s]))""", "--at DAY", text)
    return [" ".join(found.split()) for found in re.findall(r"debias monitor [^&\"\n]*", text)]


@pytest.mark.parametrize("scheduled", [IN_CRON, IN_AIRFLOW, IN_ACTIONS], ids=["cron", "airflow", "actions"])
def test_schedulers_run_the_commands_of_the_job(scheduled):
    assert len(commands(JOB)) == 2
    assert commands(scheduled) == commands(JOB)


@pytest.mark.parametrize("line", [IN_CRON.strip(), *FOR_ALL.splitlines()])
def test_cron_does_not_cut_the_line(line):
    assert "\n" not in line
    assert re.search(r"(?<!\\)%", line) is None  # cron ends the command there
    assert re.fullmatch(r"(\S+ ){5}.*", line)


def test_the_dag_is_python_and_the_workflow_is_yaml():
    names = {node.func.id for node in ast.walk(ast.parse(IN_AIRFLOW)) if isinstance(node, ast.Call)
             and isinstance(node.func, ast.Name)}  # fmt: skip
    assert names == {"DAG", "BashOperator"}
    steps = yaml.safe_load(IN_ACTIONS)["jobs"]["importance"]["steps"]
    assert [step["run"].split()[0] for step in steps] == ["echo", "debias", "debias"]


def test_alerts_and_panels_ask_for_gauges_that_there_are():
    rules = [rule["expr"] for group in yaml.safe_load(ALERTS)["groups"] for rule in group["rules"]]
    panels = [target["expr"] for panel in json.loads(DASHBOARD)["panels"] for target in panel["targets"]]
    variables = [each["query"]["query"] for each in json.loads(DASHBOARD)["templating"]["list"][1:]]
    assert len(rules) == len(panels) == 3
    labels = set(re.findall(r"(\w+)=", "".join(exposition(FLEET).splitlines()[-1:])))
    for expression in (*rules, *panels, *variables):
        names = re.findall(r"debias_\w+", expression)
        assert names, expression
        assert set(names) <= set(HELP), expression
        for label, value in re.findall(r'(\w+)!?="([^"]*)"', expression):
            assert label in labels | {"verdict"}, expression
            assert label != "verdict" or value in set(FleetVerdict), expression
    table = PAGE[PAGE.index("| gauge |") :].partition("\n\n")[0]
    assert set(re.findall(r"`(debias_\w+)`", table)) == set(HELP)


@pytest.fixture
def service(tmp_path):
    """A folder with a model, the policy, and the rows of each day; on the last days `b` has lost its effect."""
    rng = np.random.default_rng(0)

    def rows(n, effect):
        X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
        return X.assign(outcome=X["a"] + effect * X["b"] + rng.normal(size=n))

    train = rows(2000, 1.0)
    model = XGBRegressor(n_estimators=40, max_depth=3, n_jobs=1, random_state=0)
    model.fit(train[list("abc")], train["outcome"]).save_model(tmp_path / "model.ubj")
    (tmp_path / "rows").mkdir()
    days = [str(day.date()) for day in pd.date_range("2026-10-01", periods=N_DAYS)]
    for number, day in enumerate(days):
        rows(200, float(number < FADED_FROM)).to_parquet(tmp_path / f"rows/{day}.parquet")
    (tmp_path / "monitor.toml").write_text(POLICY)
    return tmp_path, days


@pytest.mark.integration
def test_the_job_of_each_day_fails_when_a_feature_has_faded(service):
    """It passes while nothing has changed, may run twice, and fails when a feature has faded."""
    folder, days = service

    def run(day):
        return in_bash(JOB, cwd=folder, environment={"DAY": day, "OMP_NUM_THREADS": "1"})

    def add(some_days):
        for day in some_days:
            rows = pd.read_parquet(folder / f"rows/{day}.parquet")
            history.add(rows.drop(columns="outcome"), rows["outcome"], at=day)

    first = run(days[0])
    assert first.returncode == 1  # too few days to compare with: the rule about their number fails
    assert "added" in first.stdout
    history = debias.History(debias.load_model(folder / "model.ubj"), folder / "model.history")
    add(days[1 : FADED_FROM - 1])
    assert [run(days[FADED_FROM - 1]).returncode for _ in range(2)] == [0, 0]
    missing = run("2026-12-24")
    assert missing.returncode == 2  # so nothing was checked
    assert "2026-12-24.parquet" in missing.stderr
    add(days[FADED_FROM:-1])
    last = run(days[-1])
    assert last.returncode == 1
    assert "The gate failed: must_not_fade" in last.stdout


@pytest.mark.integration
def test_all_models_are_looked_at_as_cron_would(service):
    folder, days = service
    (folder / "models").mkdir()
    history = debias.History(debias.load_model(folder / "model.ubj"), folder / "models/a.history")
    for day in days:
        rows = pd.read_parquet(folder / f"rows/{day}.parquet")
        history.add(rows.drop(columns="outcome"), rows["outcome"], at=day)
    (folder / "models/b.history").write_text("not a history")
    for line in FOR_ALL.splitlines():
        command = line.split(maxsplit=5)[5]
        for place in ("/srv/www", "/var/lib/node_exporter/textfile", "/srv"):
            command = command.replace(place, str(folder))
        done = in_bash(command, environment={"OMP_NUM_THREADS": "1"})
        assert done.returncode == (1 if " fleet " in line else 0), done.stderr
    assert 'href="fleet_models/a.html"' in (folder / "fleet.html").read_text()
    text = (folder / "debias.prom").read_text()
    assert 'debias_verdict{history="models/b.history",series="",verdict="not judged"} 1.0' in text


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")  # MLflow warns of itself at every turn
def test_the_model_with_an_alias_gets_a_series_for_each_version(service, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    folder, days = service
    monkeypatch.chdir(folder)
    address = f"sqlite:///{folder}/runs.db"
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(address)
    try:
        for version, day in enumerate(days[:2], 1):
            rows = pd.read_parquet(folder / f"rows/{days[-version]}.parquet")
            model = XGBRegressor(n_estimators=10, n_jobs=1).fit(rows.drop(columns="outcome"), rows["outcome"])
            with mlflow.start_run():
                mlflow.xgboost.log_model(model, name="model", registered_model_name="credit")
            mlflow.MlflowClient().set_registered_model_alias("credit", "champion", str(version))
            environment = {"DAY": day, "MLFLOW_TRACKING_URI": address, "OMP_NUM_THREADS": "1"}
            done = in_bash(REGISTRY, cwd=folder, environment=environment)
            assert done.returncode == 0, done.stderr
    finally:
        mlflow.set_tracking_uri(before)
    assert debias.History.open(folder / "credit.history").models.index.tolist() == ["version 1", "version 2"]


@pytest.mark.integration
def test_airflow_reads_the_dag(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    pytest.importorskip("airflow.sdk")
    names = {}
    exec(IN_AIRFLOW, names)  # noqa: S102 - it is our own page
    assert names["dag"].task_dict["check"].upstream_task_ids == {"add"}
