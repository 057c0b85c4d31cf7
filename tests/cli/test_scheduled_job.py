"""The jobs of docs/recipes.md that keep a history: what cron, Airflow and GitHub Actions would run."""

import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from xgboost import XGBRegressor

import debias
from support.shell import in_bash

PAGE = (Path(__file__).parents[2] / "docs/recipes.md").read_text()
N_DAYS, FADED_FROM = 45, 40


def block(marker, language):
    (text,) = re.findall(rf"^<!-- {marker} -->\n```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)
    return text


JOB, POLICY = block("job", "sh"), block("job policy", "toml")
IN_CRON = block("crontab", "")
IN_AIRFLOW = block("needs airflow", "python")
(IN_ACTIONS,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, flags=re.M | re.S)


def commands(text):
    """Return the calls of debias in a text, with one name for the day."""
    text = re.sub(r'"?rows/\S+?\.parquet"?', "rows/DAY.parquet", text)
    text = re.sub(r"""--at ("\$DAY"|\S+?(?=["\s]))""", "--at DAY", text)
    return [" ".join(found.split()) for found in re.findall(r"debias monitor [^&\"\n]*", text)]


@pytest.mark.parametrize("scheduled", [IN_CRON, IN_AIRFLOW, IN_ACTIONS], ids=["cron", "airflow", "actions"])
def test_schedulers_run_the_commands_of_the_job(scheduled):
    assert len(commands(JOB)) == 2
    assert commands(scheduled) == commands(JOB)


def test_cron_does_not_cut_the_line():
    (line,) = IN_CRON.splitlines()
    assert re.search(r"(?<!\\)%", line) is None  # cron ends the command there
    assert re.fullmatch(r"(\S+ ){5}.*", line)


def test_the_dag_is_python_and_the_workflow_is_yaml():
    names = {node.func.id for node in ast.walk(ast.parse(IN_AIRFLOW)) if isinstance(node, ast.Call)
             and isinstance(node.func, ast.Name)}  # fmt: skip
    assert names == {"DAG", "BashOperator"}
    steps = yaml.safe_load(IN_ACTIONS)["jobs"]["importance"]["steps"]
    assert [step["run"].split()[0] for step in steps] == ["echo", "debias", "debias"]


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
def test_airflow_reads_the_dag(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    pytest.importorskip("airflow.sdk")
    names = {}
    exec(IN_AIRFLOW, names)  # noqa: S102 - it is our own page
    assert names["dag"].task_dict["check"].upstream_task_ids == {"add"}
