"""The option --base-margin: the commands give what the library gives for rows with start margins."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from xgboost import XGBRegressor

import debias
from debias.cli import main
from debias.models.loading import load

FEATURES = ["age", "power"]


def claims(seed, n=400):
    random = np.random.default_rng(seed)
    exposure = random.uniform(0.05, 2, n)
    X = pd.DataFrame({"age": random.integers(18, 80, n), "power": random.integers(4, 12, n)})
    rate = 0.2 + 0.8 * (X["age"] < 30)
    return X.assign(log_exposure=np.log(exposure), claims=random.poisson(rate * exposure))


def fitted(n_trees, rows):
    model = XGBRegressor(n_estimators=n_trees, max_depth=2, objective="count:poisson", n_jobs=1)
    return model.fit(rows[FEATURES], rows["claims"], base_margin=rows["log_exposure"])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claims")
    train, new = claims(0), claims(1)
    model = fitted(20, train)
    model.save_model(folder / "model.ubj")
    fitted(5, train).save_model(folder / "old.ubj")
    train.to_csv(folder / "train.csv", index=False)
    new.to_csv(folder / "new.csv", index=False)
    new.drop(columns="claims").to_csv(folder / "waiting.csv", index=False)
    return folder, model, new


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def given(folder, margin="log_exposure"):
    options = ("--target", "claims", "--rows", "held-out", "--random-state", "0", "--no-progress")
    return (folder / "model.ubj", folder / "new.csv", *options, "--base-margin", margin)


@pytest.mark.thorough
def test_an_audit_is_that_of_the_library(files):
    folder, model, new = files
    rows = debias.Dataset(new[FEATURES], new["claims"], base_margin=new["log_exposure"])
    expected = debias.audit(model, rows, rows="held-out", random_state=0)
    done = run("audit", *given(folder), "--format", "json")
    assert done.exit_code == 0, done.output
    ours = json.loads(done.stdout)["scores"]["mdi_oob"]["values"]
    np.testing.assert_allclose(ours, expected.scores["mdi_oob"].values, rtol=1e-5)
    without = debias.audit(model, new[FEATURES], new["claims"], rows="held-out", random_state=0)
    assert not np.allclose(ours, without.scores["mdi_oob"].values, rtol=1e-3)  # the margins are used


@pytest.mark.thorough
def test_two_models_are_compared_with_margins(files):
    folder, _, new = files
    done = run("compare", *given(folder), "--baseline", folder / "old.ubj", "--format", "json")
    assert done.exit_code == 0, done.output
    models = [load(folder / name) for name in ("model.ubj", "old.ubj")]
    rows = debias.Dataset(new[FEATURES], new["claims"], base_margin=new["log_exposure"])
    expected = debias.compare(models[0], rows, baseline=models[1], rows="held-out")
    assert json.loads(done.stdout)["loss"] == pytest.approx(expected.to_dict()["loss"])


@pytest.mark.thorough
def test_a_history_keeps_what_the_library_keeps(files, tmp_path):
    folder, model, new = files
    options = ("--base-margin", "log_exposure", "--rows", "held-out")
    wait = run("monitor", "add", tmp_path / "log", folder / "model.ubj", folder / "waiting.csv", "--at", 1, *options)
    assert wait.exit_code == 0, wait.output
    late = (folder / "new.csv", "--at", 1, "--target", "claims", *options)
    settled = run("monitor", "add", tmp_path / "log", folder / "model.ubj", *late)
    assert settled.exit_code == 0, settled.output
    own = debias.History(model, tmp_path / "own")
    own.add(new[FEATURES], new["claims"], at=1, base_margin=new["log_exposure"], rows="held-out")
    found = debias.History.open(tmp_path / "log")
    pd.testing.assert_frame_equal(found.scores(), own.scores())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("audit", "no_such_column"), "has no column 'no_such_column'"),
        (("audit", "claims"), "--target and --base-margin are both 'claims'"),
        (("drop", "log_exposure"), "--train cannot be used together with --base-margin"),
    ],
)
def test_wrong_use_is_refused_in_words_of_the_shell(files, arguments, message):
    folder, *_ = files
    command, margin = arguments
    extra = ("--train", folder / "train.csv") if command == "drop" else ()
    done = run(command, *given(folder, margin), *extra)
    assert done.exit_code in (2, 3)
    assert message in " ".join(done.output.split())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "--base-margin has missing or infinite values"), ("low", "--base-margin has values that are no numbers")],
)
def test_margins_that_are_no_numbers_are_refused(files, tmp_path, value, message):
    folder, _, new = files
    margins = new["log_exposure"].astype(object)
    margins.iloc[3] = value
    new.assign(log_exposure=margins).to_csv(tmp_path / "wrong.csv", index=False)
    model, _, *options = given(folder)
    done = run("audit", model, tmp_path / "wrong.csv", *options)
    assert done.exit_code in (2, 3)
    assert message in " ".join(done.output.split())
    assert "Traceback" not in done.output
