"""Hyper-parameters that an XGBoost file lost: given back, the loaded model is the live one, bit by bit."""

import json
import pickle

import numpy as np
import pytest
import xgboost
from click.testing import CliRunner

import debias
from debias.cli import main
from support import simulated

SETTINGS = {"max_depth": 3, "eta": 0.4, "subsample": 0.7, "seed": 5, "nthread": 1}
META = "response_permutation(mdi_oob, replicates=6)"


@pytest.fixture(scope="module")
def data():
    return simulated.rows(240, names="abc")


@pytest.fixture(scope="module")
def booster(data):
    X, y = data
    return xgboost.train(SETTINGS, xgboost.DMatrix(X[:160], y[:160]), 8)


@pytest.fixture(scope="module")
def path(booster, tmp_path_factory):
    path = tmp_path_factory.mktemp("params") / "model.ubj"
    booster.save_model(path)
    return path


def held_out(data):
    X, y = data
    return {"X": X[160:], "y": y[160:], "train": (X[:160], y[:160])}


@pytest.mark.thorough
def test_a_meta_method_on_a_file_gives_the_numbers_of_the_live_model(data, booster, path):
    expected = debias.score(booster, scorer=META, random_state=1, **held_out(data)).values
    restored = debias.load_model(path, params=SETTINGS)
    given = held_out(data) | {"scorer": META, "random_state": 1}
    np.testing.assert_array_equal(debias.score(restored, **given).values, expected)
    np.testing.assert_array_equal(debias.score(pickle.loads(pickle.dumps(restored)), **given).values, expected)
    np.testing.assert_array_equal(
        debias.score(debias.load_model(path), refits=debias.Refits(params=SETTINGS), **given).values, expected
    )
    assert any("those that the user passed" in note for note in debias.score(restored, **given).warnings)
    with pytest.raises(debias.UnsupportedModelError, match="does not keep its hyper-parameters"):
        debias.score(debias.load_model(path), **given)
    others = debias.score(debias.load_model(path), refits=debias.Refits(params={}), **given).values
    assert np.abs(others - expected).max() > 1e-3, "the parameters make no difference, so the test shows nothing"


@pytest.mark.thorough
def test_an_audit_takes_them_for_its_meta_methods(data, booster, path):
    given = held_out(data) | {"scorers": ["mdi_oob", META], "random_state": 1, "test": debias.Permutation(20)}
    expected = debias.audit(booster, **given)
    found = debias.audit(debias.load_model(path), refits=debias.Refits(params=SETTINGS), **given)
    np.testing.assert_array_equal(found.scores[META].values, expected.scores[META].values)
    with pytest.raises(debias.plugin.CompositionError, match="refits are for meta-methods"):
        debias.audit(booster, refits=debias.Refits(params=SETTINGS), **held_out(data))


def test_an_unfitted_estimator_comes_back_fitted(data, tmp_path):
    X, y = data
    unfitted = xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1, missing=-9.0, subsample=0.8)
    settings = unfitted.get_params()
    X, y = X.where(X > -1, -9.0), (y > 0).astype(int)
    live = xgboost.XGBClassifier(**settings).fit(X[:160], y[:160])
    live.get_booster().save_model(tmp_path / "model.json")
    restored = debias.load_model(tmp_path / "model.json", params=unfitted)
    assert type(restored) is xgboost.XGBClassifier
    assert unfitted.get_params() == settings
    assert not unfitted.__sklearn_is_fitted__()
    expected = debias.score(live, X[160:], y[160:])
    np.testing.assert_array_equal(debias.score(restored, X[160:], y[160:]).values, expected.values)
    booster = debias.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(
        debias.score(booster, X[160:], y[160:], refits=debias.Refits(params=unfitted)).values, expected.values
    )
    again = debias.refit(restored, X[:160], y[:160])
    np.testing.assert_array_equal(again.predict_proba(X), live.predict_proba(X))
    assert np.abs(debias.score(booster, X[160:], y[160:]).values - expected.values).max() > 1e-4, "-9 counts as missing"


def test_what_stands_for_missing_counts_where_it_is_given_as_a_value(data, tmp_path):
    X, y = data
    X = X.where(X > -1, -9.0)
    matrix = xgboost.DMatrix(X[:160], y[:160], missing=-9.0)
    live = xgboost.train({**SETTINGS, "subsample": 1}, matrix, 5)
    live.save_model(tmp_path / "model.ubj")
    restored = debias.load_model(tmp_path / "model.ubj", params={**SETTINGS, "subsample": 1, "missing": -9.0})
    expected = debias.score(live, X[160:].where(X != -9.0), y[160:])
    np.testing.assert_array_equal(debias.score(restored, X[160:], y[160:]).values, expected.values)
    again = debias.refit(restored, X[:160], y[:160])
    np.testing.assert_array_equal(again.predict(matrix), live.predict(matrix))


def test_an_objective_of_ones_own_is_given_back_by_an_estimator(data, tmp_path):
    X, y = data
    X_train, X_test, y_train, y_test = X[:160], X[160:], y[:160], y[160:]
    unfitted = xgboost.XGBRegressor(n_estimators=5, n_jobs=1, objective=asymmetric)
    live = xgboost.XGBRegressor(**unfitted.get_params()).fit(X_train, y_train)
    live.save_model(tmp_path / "model.ubj")
    with pytest.raises(debias.UnsupportedModelError, match="does not keep the function"):
        debias.load_model(tmp_path / "model.ubj")
    restored = debias.load_model(tmp_path / "model.ubj", params=unfitted)
    with pytest.raises(debias.ProvenanceError, match="cannot check whether"):  # what its hessians count, no one knows
        debias.score(live, X_test, y_test)
    expected = debias.score(live, X_test, y_test, rows="held-out").values
    np.testing.assert_array_equal(debias.score(restored, X_test, y_test, rows="held-out").values, expected)
    np.testing.assert_array_equal(debias.refit(restored, X_train, y_train).predict(X), live.predict(X))


def asymmetric(y, margin):
    weight = np.where(margin < y, 1.5, 0.5)
    return weight * (margin - y), weight


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_dept": 3}, "no hyper-parameter 'max_dept'. Did you mean 'max_depth'"),
        ({"objective": "count:poisson"}, "objective='count:poisson', but the model has 'reg:squarederror'"),
        ({"max_depth": 2}, "max_depth=2, but the model has a tree of depth 3"),
        ({"monotone_constraints": np.ones(3)}, "names and plain values"),
        ("max_depth=3", "a mapping of names to values, or an unfitted estimator"),
        (xgboost.XGBRegressor(max_depth=1), "max_depth=1, but the model has a tree of depth 3"),
        (xgboost.XGBClassifier(), "objective='binary:logistic', but the model has 'reg:squarederror'"),
    ],
)
def test_what_cannot_be_true_is_refused(path, params, message):
    with pytest.raises(debias.RowsError, match=message):
        debias.load_model(path, params=params)


def test_names_are_checked_where_a_model_is_trained_again(data, booster):
    with pytest.raises(debias.DebiasError, match="no hyper-parameter 'etaa'"):
        debias.score(booster, scorer=META, refits=debias.Refits(params={"etaa": 0.1}), **held_out(data))


def test_files_that_keep_their_parameters_take_none(data, tmp_path, models):
    X, y = data
    models("lightgbm", n_estimators=3).fit(X, y).booster_.save_model(tmp_path / "model.txt")
    with pytest.raises(debias.UnsupportedModelError, match="keeps its hyper-parameters in its file"):
        debias.load_model(tmp_path / "model.txt", params={})


@pytest.mark.parametrize("form", ["json", "toml"])
def test_the_command_line_takes_them_from_a_file(data, booster, path, tmp_path, monkeypatch, form):
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)
    X, y = data
    text = json.dumps(SETTINGS) if form == "json" else "\n".join(f"{k} = {v}" for k, v in SETTINGS.items())
    (tmp_path / f"params.{form}").write_text(text)
    X[160:].assign(outcome=y).to_csv(tmp_path / "held_out.csv", index=False)
    X[:160].assign(outcome=y).to_csv(tmp_path / "train.csv", index=False)
    given = [
        *(
            "score",
            str(path),
            str(tmp_path / "held_out.csv"),
            "--target",
            "outcome",
            "--scorer",
            META,
            "--random-state",
            "1",
        ),
        *("--train", str(tmp_path / "train.csv"), "--format", "json"),
    ]
    done = CliRunner().invoke(main, [*given, "--params", str(tmp_path / f"params.{form}")])
    assert done.exit_code == 0, done.output
    expected = debias.score(booster, scorer=META, random_state=1, **held_out(data)).values
    np.testing.assert_allclose(json.loads(done.stdout)["values"], expected, rtol=1e-12)
    done = CliRunner().invoke(main, given)
    assert (done.exit_code, "pass them as --params" in done.stderr) == (3, True)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [("[1]", 2, "must be one mapping"), ("{", 2, "cannot be read as JSON"), ('{"etaa": 1}', 3, "no hyper-parameter")],
)
def test_wrong_files_of_parameters_are_refused(data, path, tmp_path, monkeypatch, text, code, message):
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)
    X, y = data
    X.assign(outcome=y).to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "params.json").write_text(text)
    given = ["audit", str(path), str(tmp_path / "data.csv"), "--target", "outcome"]
    done = CliRunner().invoke(main, [*given, "--params", str(tmp_path / "params.json")])
    assert (done.exit_code, message in done.stderr) == (code, True), done.stderr


def test_an_estimator_gives_back_the_settings_of_a_file_of_many_classes(tmp_path):
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    trained = xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y)
    trained.save_model(tmp_path / "iris.json")
    loaded = debias.load_model(tmp_path / "iris.json", params=xgboost.XGBClassifier(max_depth=3))
    np.testing.assert_array_equal(loaded.predict_proba(X), trained.predict_proba(X))
    assert loaded.objective == "multi:softprob"
    with pytest.raises(debias.RowsError, match="not a number"):
        debias.load_model(tmp_path / "iris.json", params={"max_depth": "4"})
