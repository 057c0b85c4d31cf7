"""Model files of every format: whole ones are read, crafted ones refused, and no code of theirs is run."""

import io
import os
import pickle
import warnings
import zipfile
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost
from click.testing import CliRunner
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import debias
from debias.cli import main
from debias.models.loading import load_and_predict
from debias.models.sandbox import check
from support import crafted, simulated
from support.versions import at_least

XGBOOST = ("child", "feature", "cycle", "short", "claim", "truncated")
LIGHTGBM = ("child", "feature", "cycle", "short", "claim", "nested", "length", "truncated")
UBJ = (*XGBOOST, "nested", "text")
SKOPS = ("child", "feature", "cycle", "short", "truncated", "nested", "claim")
HIST = ("child", "feature", "cycle", "short", "bitset")


@pytest.fixture(scope="module")
def data():
    return simulated.rows(300)


@pytest.fixture(scope="module")
def home(tmp_path_factory, data, models):
    """Whole files of the boosters, and crafted ones of every format."""
    here = tmp_path_factory.mktemp("files")
    X, y = data
    booster = models("xgboost", n_estimators=5, max_depth=4).fit(X, y)
    gbm = models("lightgbm", n_estimators=5).fit(X, y)
    booster.save_model(here / "model.json")
    booster.save_model(here / "model.ubj")
    gbm.booster_.save_model(here / "model.txt")
    text = (here / "model.txt").read_text()
    for wrong in (*XGBOOST, "nested"):
        (here / f"xgboost-{wrong}.json").write_text(crafted.xgboost_json(here / "model.json", wrong))
    for wrong in LIGHTGBM:
        (here / f"lightgbm-{wrong}.txt").write_text(crafted.lightgbm_text(text, wrong))
    for wrong in UBJ:
        (here / f"xgboost-{wrong}.ubj").write_bytes(crafted.xgboost_ubj((here / "model.ubj").read_bytes(), wrong))
    for wrong in HIST:
        crafted.hist_skops(HistGradientBoostingRegressor(max_iter=3).fit(X, y), here / f"hist-{wrong}.skops", wrong)
    for wrong in ("child", "claim"):
        crafted.booster_skops(booster, here / f"xgboost-{wrong}.skops", lambda data: crafted.xgboost_ubj(data, wrong))  # noqa: B023
        crafted.booster_skops(gbm, here / f"lightgbm-{wrong}.skops", lambda text: crafted.lightgbm_text(text, wrong))  # noqa: B023
    for wrong in SKOPS:
        crafted.forest_skops(RandomForestRegressor(3, random_state=0).fit(X, y), here / f"skops-{wrong}.skops", wrong)
    (here / "data.csv").write_text("x0,x1,x2,outcome\n1,2,3,4\n2,1,5,3\n")
    return here


CRAFTED = [
    *(f"lightgbm-{wrong}.txt" for wrong in LIGHTGBM),
    *(f"skops-{wrong}.skops" for wrong in SKOPS),
    *(f"hist-{wrong}.skops" for wrong in HIST),
]
CRASHING = [
    *(f"xgboost-{wrong}.json" for wrong in (*XGBOOST, "nested")),
    *(f"xgboost-{wrong}.ubj" for wrong in UBJ),
    *(f"{library}-{wrong}.skops" for library in ("xgboost", "lightgbm") for wrong in ("child", "claim")),
]
"""The libraries' readers may crash on these, so they are for child processes."""


@pytest.mark.thorough
@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_files_are_refused_by_name(home, name):
    with pytest.raises((debias.UnsupportedModelError, debias.errors.ExtractionError), match=name):
        debias.load_model(home / name)


@pytest.mark.thorough
def test_the_command_ends_with_3_on_a_crafted_file(home):
    name = "xgboost-child.ubj"
    done = CliRunner().invoke(main, ["audit", str(home / name), str(home / "data.csv"), "--target", "outcome"])
    assert done.exit_code == 3
    assert done.stderr.startswith("error: ")
    assert name in done.stderr


@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_a_tree_for_several_classes_is_read_or_refused_by_version(tmp_path, data, ending):
    X, y = data
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2, multi_strategy="multi_output_tree", n_jobs=1)
    model.fit(X, np.digitize(y, [-1, 1]))
    path = tmp_path / f"model.{ending}"
    model.save_model(path)
    if not at_least("xgboost", "3.2"):
        with pytest.raises(debias.UnsupportedModelError, match="which XGBoost writes since 3.2"):
            debias.load_model(path)
        return
    rows = xgboost.DMatrix(X)
    assert np.array_equal(debias.load_model(path).predict(rows), model.get_booster().predict(rows))


@pytest.mark.filterwarnings("ignore:.*booster=gblinear. is deprecated:UserWarning")  # by XGBoost 3.3
@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_a_model_that_cannot_be_audited_is_not_called_damaged(tmp_path, data, ending):
    X, y = data
    path = tmp_path / f"model.{ending}"
    xgboost.train({"booster": "gblinear", "nthread": 1}, xgboost.DMatrix(X, y), 2).save_model(path)
    with pytest.raises(debias.UnsupportedModelError, match="'gblinear', which is linear and has no trees") as caught:
        debias.load_model(path)
    assert "damaged" not in str(caught.value)


@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_a_ranker_is_loaded_and_says_which_scorers_work(tmp_path, data, ending):
    X, y = data
    path = tmp_path / f"model.{ending}"
    rows = xgboost.DMatrix(X, (y > 0).astype(int), qid=np.repeat(np.arange(30), 10))
    model = xgboost.train({"objective": "rank:ndcg", "lambdarank_unbiased": True, "nthread": 1}, rows, 2)
    model.save_model(path)
    loaded = debias.load_model(path)
    np.testing.assert_array_equal(
        debias.score(loaded, scorer="split_count").values, debias.score(model, scorer="split_count").values
    )
    with pytest.raises(debias.plugin.CompositionError, match="compares the rows of one query: pass debias.Dataset"):
        debias.audit(loaded, X, y, rows="held-out")


@pytest.mark.slow
@pytest.mark.parametrize("name", CRAFTED + CRASHING)
def test_the_command_ends_with_3_on_every_crafted_file(home, name):
    done = CliRunner().invoke(main, ["audit", str(home / name), str(home / "data.csv"), "--target", "outcome"])
    assert (done.exit_code, done.stderr[:7]) == (3, "error: ")
    assert name in done.stderr


@pytest.mark.thorough
def test_a_file_that_ends_the_process_ends_the_child(tmp_path):
    (tmp_path / "model.pkl").write_bytes(b"cos\nabort\n(tR.")
    with pytest.raises(debias.UnsupportedModelError, match=r"model\.pkl is damaged: .* ended the process \(SIGABRT\)"):
        check(tmp_path / "model.pkl", allow_pickle=True)


@pytest.mark.thorough
def test_what_the_trees_do_not_predict_is_refused_in_the_child(home, monkeypatch):
    """A native reader that reads beyond an end need not crash: its predictions are then not those of the trees."""
    load_and_predict(home / "model.txt")
    monkeypatch.setattr("debias.models.loading.raw_output", lambda ensemble, leaves, X: np.ones((len(leaves), 1)) * 1e3)
    with pytest.raises(debias.errors.ExtractionError, match=r"model\.txt is damaged: its library does not predict"):
        load_and_predict(home / "model.txt")


def test_a_claim_of_memory_that_is_not_there_is_named(tmp_path, monkeypatch):
    def too_much(path):
        raise MemoryError

    (tmp_path / "model.pkl").write_bytes(pickle.dumps(1))
    monkeypatch.setattr("joblib.load", too_much)
    with pytest.raises(
        debias.UnsupportedModelError, match=r"model\.pkl is damaged or too large: there is not enough memory"
    ):
        debias.load_model(tmp_path / "model.pkl", allow_pickle=True)


class Run:
    """Runs a statement when it is loaded."""

    def __init__(self, statement):
        self.statement = statement

    def __reduce__(self):
        return exec, (self.statement,)


@pytest.mark.thorough
def test_a_file_that_is_walked_without_end_is_given_up(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(Run("while True: pass")))
    with pytest.raises(debias.UnsupportedModelError, match=r"model.pkl did not finish within 1 s of processor time"):
        check(path, allow_pickle=True, seconds=1)


@pytest.mark.thorough
def test_a_model_is_not_called_damaged_because_the_machine_is_busy(home, monkeypatch):
    """The guard waited 60 s by the clock, and then said that the file is damaged."""
    monkeypatch.setattr("debias.models.sandbox.WAIT", 1e-6)
    with pytest.raises(debias.UnsupportedModelError, match=r"did not finish within .* The machine may be busy") as told:
        check(home / "model.txt")
    assert "damaged" not in str(told.value)


@pytest.mark.thorough
def test_a_file_that_needs_too_much_memory_for_its_size_is_given_up(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(Run("x = [bytearray(b'1' * 2**20) for _ in range(3000)]\nwhile True: pass")))
    with pytest.raises(debias.UnsupportedModelError, match=r"model.pkl needed more than 600 MB of memory"):
        check(path, allow_pickle=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_model_is_a_file_or_a_directory_of_files(home, tmp_path):
    (tmp_path / "zero.ubj").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "data.pb")
    for name in ("zero.ubj", "pipe.json", "folder"):
        for load in (debias.load_model, check):
            with pytest.raises(debias.UnsupportedModelError, match="is no regular file"):
                load(tmp_path / name)
    (tmp_path / "link.txt").symlink_to(home / "model.txt")
    assert debias.load_model(tmp_path / "link.txt") is not None


@pytest.mark.thorough
def test_errors_of_the_child_keep_their_kind(home, tmp_path):
    (tmp_path / "model.pkl").write_bytes(crafted.pickle_with(tmp_path / "canary"))
    with pytest.raises(debias.UntrustedModelError, match="--allow-pickle"):
        check(str(tmp_path / "model.pkl"))
    assert not (tmp_path / "canary").exists()
    check(str(home / "model.txt"))


@pytest.mark.parametrize("name", ["model.pkl", "model.joblib", "model.json", "model.txt", "model.skops", "no_suffix"])
def test_no_pickle_is_run_under_any_name(tmp_path, name):
    canary = tmp_path / "canary"
    (tmp_path / name).write_bytes(crafted.pickle_with(canary))
    with pytest.raises(debias.UntrustedModelError, match="runs code from the file"):
        debias.load_model(tmp_path / name)
    assert not canary.exists()
    with pytest.raises(debias.UnsupportedModelError):  # what comes out is no model
        debias.load_model(tmp_path / name, allow_pickle=True)
    assert canary.exists(), "the canary does not sing, so its silence proves nothing"


def test_no_pickle_inside_a_skops_file_is_run(tmp_path, data):
    X, y = data
    canary, path = tmp_path / "canary", tmp_path / "model.skops"
    crafted.skops_with_pickled_array(RandomForestRegressor(3, random_state=0).fit(X, y), path, canary)
    with pytest.raises(debias.UnsupportedModelError, match=r"model\.skops"):
        debias.load_model(path)
    assert not canary.exists()
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                np.load(archive.open(name), allow_pickle=True)
    assert canary.exists(), "the canary does not sing, so its silence proves nothing"


def test_a_pickle_is_loaded_when_allowed(tmp_path, data):
    X, y = data
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(forest))
    loaded = debias.load_model(tmp_path / "model.pkl", allow_pickle=True)
    np.testing.assert_array_equal(debias.score(loaded, X, y).values, debias.score(forest, X, y).values)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomForestRegressor(5, random_state=0),
        lambda: HistGradientBoostingRegressor(max_iter=5),
        lambda: make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=0)),
        lambda: VotingRegressor([("a", RandomForestRegressor(3)), ("b", RandomForestRegressor(3))]),
        lambda: GridSearchCV(RandomForestRegressor(3, random_state=0), {"max_depth": [2]}, cv=3),
    ],
    ids=["forest", "hist", "pipeline", "vote", "search"],
)
def test_skops_files_of_models_of_trees_need_no_flag(tmp_path, data, make):
    X, y = data
    model = make().fit(X, y)
    skops.io.dump(model, tmp_path / "model.skops")
    loaded = debias.load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.quick
def test_skops_files_of_boosters_and_classifiers_need_no_flag(tmp_path, data, models, library):
    X, y = data
    model = models(library, "classification", n_estimators=3).fit(X, (y > 0).astype(int))
    skops.io.dump(model, tmp_path / "model.skops")
    loaded = debias.load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_several_models_in_a_skops_file_are_each_tried_and_checked(tmp_path, data):
    X, y = data
    models = [RandomForestRegressor(3, random_state=k).fit(X, y) for k in range(2)]
    results = {"fit_time": np.zeros(2), "estimator": models, "indices": {"train": [np.arange(2)], "test": []}}
    for content in (models, {"a": models[0], "b": models[1]}, results):
        skops.io.dump(content, tmp_path / "several.skops")
        load_and_predict(tmp_path / "several.skops")
        loaded = debias.load_model(tmp_path / "several.skops")
        assert type(loaded) is type(content)
    for content, message in (([models[0], 5], "no adapter recognises"), ([], "holds no models: it is an empty list")):
        skops.io.dump(content, tmp_path / "other.skops")
        with pytest.raises(debias.UnsupportedModelError, match=message):
            debias.load_model(tmp_path / "other.skops")


@pytest.mark.thorough
def test_other_classifiers_of_skops_are_read(tmp_path, data):
    X, y = data
    for model in (
        GradientBoostingClassifier(n_estimators=3),
        CalibratedClassifierCV(GradientBoostingClassifier(), cv=2),
    ):
        skops.io.dump(model.fit(X, (y > 0).astype(int)), tmp_path / "model.skops")
        assert type(debias.load_model(tmp_path / "model.skops")) is type(model)


def test_a_type_nobody_trusts_is_refused_with_the_flag_to_trust_it(tmp_path, data):
    X, y = data
    pipeline = make_pipeline(FunctionTransformer(crafted.Canary), RandomForestRegressor(3))
    pipeline.steps[1][1].fit(X, y)
    skops.io.dump(pipeline, tmp_path / "model.skops")
    with pytest.raises(debias.UntrustedModelError, match=r"\.Canary.*--trust-type support\.crafted\.Canary"):
        debias.load_model(tmp_path / "model.skops")


def test_types_can_be_trusted_one_by_one(tmp_path, monkeypatch):
    """scikit-learn's histogram boosting of categories holds a functools.partial, which we do not trust by ourselves."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": pd.Categorical(rng.choice(["u", "v", "w"], 200))})
    y = X["a"] + (X["b"] == "w") + rng.normal(size=200)
    model = HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype").fit(X, y)
    skops.io.dump(model, tmp_path / "model.skops")
    X.assign(outcome=y).to_parquet(tmp_path / "train.parquet")
    with pytest.raises(debias.UntrustedModelError, match=r"--trust-type functools\.partial") as caught:
        debias.load_model(tmp_path / "model.skops")
    flags = caught.value.args[0].partition("pass ")[2].partition(" (from Python")[0].split()
    asked = []
    monkeypatch.setattr("debias.models.sandbox.check", lambda path, trust, *_, **__: asked.append(trust))
    given = ["score", str(tmp_path / "model.skops"), str(tmp_path / "train.parquet"), "--target", "outcome"]
    refused = CliRunner().invoke(main, given)
    assert (refused.exit_code, "--trust-type" in refused.stderr) == (3, True)
    done = CliRunner().invoke(main, [*given, "--rows", "train", "--format", "csv", *flags])
    assert done.exit_code == 0, done.output
    assert asked == [(), tuple(flags[1::2])]
    found = pd.read_csv(io.StringIO(done.stdout), index_col=0)["mdi_oob"]
    with pytest.warns(debias.DebiasWarning, match="scores on training rows"):
        expected = debias.score(model, X, y, rows="train").values
    np.testing.assert_allclose(found, expected)


def test_no_name_on_the_list_is_a_function_or_of_a_builtin():
    """A trusted function would be called with arguments of the file; functools.partial is one in disguise."""
    import importlib
    import inspect

    from debias_adapters.skops import TRUSTED

    for name in TRUSTED:
        if name.startswith("sksurv.") and find_spec("sksurv") is None:
            continue
        module, _, kind = name.rpartition(".")
        assert inspect.isclass(getattr(importlib.import_module(module), kind)), name
    assert not {name for name in TRUSTED if name.startswith(("builtins.", "os.", "functools.", "operator."))}


def mlflow(home, model_file, flavor="sklearn: {pickled_model: %s}"):
    home.mkdir(exist_ok=True)
    (home / "MLmodel").write_text(f"flavors:\n  python_function: {{loader_module: os}}\n  {flavor % model_file}\n")
    return home


def test_mlflow_directories_are_read_without_mlflow_and_their_own_trust_is_not_looked_at(home, tmp_path, data):
    X, y = data
    there = mlflow(tmp_path / "a", "model.skops")
    skops.io.dump(RandomForestRegressor(3).fit(X, y), there / "model.skops")
    assert type(debias.load_model(there)) is RandomForestRegressor
    booster = mlflow(tmp_path / "b", "model.json", "xgboost: {data: %s, model_class: xgboost.Booster}")
    (booster / "model.json").write_bytes((home / "model.json").read_bytes())
    assert debias.load_model(booster).num_boosted_rounds() == 5
    crafty = mlflow(
        tmp_path / "c", "model.skops", "sklearn: {pickled_model: %s, skops_trusted_types: [support.crafted.Canary]}"
    )
    pipeline = make_pipeline(FunctionTransformer(crafted.Canary), RandomForestRegressor(3).fit(X, y))
    skops.io.dump(pipeline, crafty / "model.skops")
    with pytest.raises(debias.UntrustedModelError, match=r"crafted\.Canary"):
        debias.load_model(crafty)
    pickled = mlflow(tmp_path / "d", "model.pkl")
    (pickled / "model.pkl").write_bytes(crafted.pickle_with(tmp_path / "canary"))
    with pytest.raises(debias.UntrustedModelError, match="--allow-pickle"):
        debias.load_model(pickled)
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "it has no file MLmodel"),
        ("flavors: [", "is not plain YAML"),
        ("just text", "does not hold a mapping"),
        ("flavors: 3", "has the flavours none"),
        ("flavors: {keras: {data: x}}", "has the flavours keras; debias reads sklearn, xgboost, lightgbm"),
        ("flavors: {sklearn: {pickled_model: ../../etc/passwd}}", "a file outside its directory"),
        ("flavors: {sklearn: {pickled_model: model.skops}}", "does not exist"),
        ("flavors: {sklearn: {pickled_model: !!python/object/apply:os.system [touch canary]}}", "is not plain YAML"),
        ("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nflavors: *c", "has aliases"),
        ("[" * 60, "more than 50 levels of nesting"),
        ("[" * 500_000, "more than 50 levels of nesting|is not plain YAML"),  # PyYAML 6.0.4 itself has a limit
        ("x" * (2 << 20), "a real MLmodel file is smaller"),
        ("flavors: \x00", "is not plain YAML"),
    ],
)
def test_crafted_descriptions_are_refused(tmp_path, text, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "MLmodel").write_text(text)
    with pytest.raises(debias.UnsupportedModelError, match=message):
        debias.load_model(tmp_path)
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"{[$d#L" + (2 << 30).to_bytes(8, "big")])
@pytest.mark.parametrize("name", ["model.skops", "model.ubj", "model.txt"])
def test_wrong_magic_is_refused(tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(debias.UnsupportedModelError, match="is not a model file that debias can read"):
        debias.load_model(tmp_path / name)


@pytest.mark.slow
def test_a_claim_of_2_gb_in_binary_json_is_refused(tmp_path):
    claim = b"{L" + (7).to_bytes(8, "big") + b"learner[$d#L" + (2 << 30).to_bytes(8, "big")
    (tmp_path / "model.ubj").write_bytes(claim)
    with pytest.raises(debias.UnsupportedModelError, match=r"model\.ubj"):
        check(str(tmp_path / "model.ubj"), seconds=60)


def test_other_archives_are_no_models(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.skops", "w") as archive:
        archive.writestr("else.txt", "x")
    with pytest.raises(debias.UnsupportedModelError, match="is not a model file"):
        debias.load_model(tmp_path / "model.skops")


def test_another_version_of_scikit_learn_is_told(tmp_path, data, monkeypatch):
    X, y = data
    forest = RandomForestRegressor(3, random_state=0).fit(X, y)
    state = forest.__getstate__()
    monkeypatch.setattr(RandomForestRegressor, "__getstate__", lambda self: state | {"_sklearn_version": "1.5.2"})
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(forest))
    skops.io.dump(forest, tmp_path / "model.skops")
    monkeypatch.undo()
    for name in ("model.pkl", "model.skops"):
        with pytest.warns(debias.DebiasWarning, match=rf"{name} was saved by another version of scikit-learn.*1\.5\.2"):
            debias.load_model(tmp_path / name, allow_pickle=True)
    (tmp_path / "old.pkl").write_bytes(b"\x80\x04c_loss\nLoss\n.")
    with pytest.raises(debias.UnsupportedModelError, match="load it with the version that wrote it"):
        debias.load_model(tmp_path / "old.pkl", allow_pickle=True)
    (tmp_path / "other.pkl").write_bytes(b"\x80\x04cno_such_package\nModel\n.")
    with pytest.raises(debias.UnsupportedModelError, match="needs the package no_such_package"):
        debias.load_model(tmp_path / "other.pkl", allow_pickle=True)


@pytest.mark.thorough
def test_the_command_audits_a_forest_from_a_skops_file_on_its_training_rows(tmp_path, diabetes, monkeypatch):
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)  # has its own tests
    X, y = diabetes
    forest = RandomForestRegressor(40, random_state=0).fit(X, y)
    skops.io.dump(forest, tmp_path / "model.skops")
    X.assign(outcome=y).to_parquet(tmp_path / "train.parquet")
    given = [str(tmp_path / "model.skops"), str(tmp_path / "train.parquet"), "--target", "outcome", "--format", "json"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = CliRunner().invoke(main, ["audit", *given])
    assert done.exit_code == 0, done.output
    found = debias.Audit.from_json(done.stdout)
    assert (found.tested_scores.rows, found.provenance["status"]) == ("oob", "proven")
    np.testing.assert_array_equal(found.tested_scores.values, debias.score(forest, X, y).values)


def test_the_folder_of_an_autogluon_predictor_is_named(tmp_path):
    for name in ("predictor.pkl", "learner.pkl"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(debias.UnsupportedModelError, match=r"folder of an AutoGluon predictor.*TabularPredictor\.load"):
        debias.load_model(tmp_path)


@pytest.mark.integration
def test_a_directory_of_mlflow_with_a_model_of_catboost_is_read(tmp_path):
    catboost = pytest.importorskip("catboost")
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = catboost.CatBoostRegressor(iterations=3, depth=2, verbose=0, allow_writing_files=False).fit(X, X[:, 0])
    model.save_model(tmp_path / "model.cb")
    (tmp_path / "MLmodel").write_text("flavors:\n  catboost:\n    data: model.cb\n    model_type: CatBoostRegressor\n")
    np.testing.assert_array_equal(debias.load_model(tmp_path).predict(X), model.predict(X))
