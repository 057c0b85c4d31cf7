"""Tests of the adapter of H2O-3: MOJOs that H2O wrote, with its own leaves and predictions, and MOJOs made by hand.

tests/old_files/make_h2o.py made the files and wrote down what H2O answers. Over 500 lines: all tests share these files,
and one session of H2O.
"""

from __future__ import annotations

import json
import pickle
import re
import shutil
import struct
import sys
import types
import warnings
import zipfile
from functools import cache
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import debias
from debias.cli import main
from debias.data.table import Table
from debias.errors import DebiasError, InBagUnavailableError, ProvenanceError, UnsupportedModelError
from debias.hooks.registry import plugin_manager
from debias.hooks.wrapping import BEFORE_CALIBRATION
from debias.testing import check_adapter
from debias.trees.routing import raw_output, route
from debias.warning_log import WarningLog
from debias_adapters.h2o import boosters
from debias_adapters.h2o.columns import typed
from support import mojo, simulated

HOME = Path(__file__).parents[1] / "old_files/h2o"
VERSIONS = tuple(sorted(path.name for path in HOME.iterdir() if path.is_dir()))
N_TRAIN, FIRST = 200, 150
ANSWERS = {version: json.loads((HOME / version / "answers.json").read_text()) for version in VERSIONS}
ENCODED = ("gbm_label_encoder", "gbm_one_hot", "gbm_binary", "drf_one_hot")
BY_TRAINING = ("gbm_limited", "gbm_eigen", "drf_limited", "drf_eigen")
READ = [(v, name) for v in VERSIONS for name in ANSWERS[v] if name not in ENCODED + BY_TRAINING]
EACH = pytest.mark.parametrize(("version", "name"), READ, ids=lambda each: each)
UNSEEN_LABELS = pytest.mark.filterwarnings("ignore:column '(many|kind)' has values that the model never saw")
OTHER_ORDER = pytest.mark.filterwarnings("ignore:the columns of X are in another order")
pytestmark = [UNSEEN_LABELS, OTHER_ORDER]


@cache
def table():
    return pd.read_csv(HOME / "rows.csv")


@cache
def loaded(version, name):
    return debias.load_model(HOME / version / f"{name}.zip")


def rows_of(model):
    return table()[list(model.names)]


def answered(model):
    """Return the rows that H2O was asked about."""
    return rows_of(model)[FIRST:]


def matrix(model, ensemble, X):
    return Table(X).aligned_to(ensemble, WarningLog()).matrix(ensemble)


def margins(name):
    return table()["log_exposure"].to_numpy() if name.endswith("offset") else None


def dataset(name, model, rows):
    answer = next(answers[name] for answers in ANSWERS.values() if name in answers)
    margin = margins(name)
    return debias.Dataset(
        rows_of(model)[rows], table()[answer["response"]][rows], base_margin=None if margin is None else margin[rows]
    )


@EACH
def test_every_leaf_is_the_one_that_h2o_names(version, name):
    model = loaded(version, name)
    ensemble = debias.plugin.extract(model)
    X = matrix(model, ensemble, answered(model))
    leaves = route(ensemble, X)
    expected = np.array(list(ANSWERS[version][name]["leaves"].values())).T
    if name == "gbm_one_leaf":
        assert (expected == 0).all()
        assert (leaves == 0).all()
        return
    if model.algorithm == "xgboost":
        places = boosters.places(model.stored)
        ours = np.stack([places[t][expected[:, t]] for t in range(expected.shape[1])], axis=1)
        np.testing.assert_array_equal(leaves, ours)
    else:
        np.testing.assert_array_equal(model.nodes.native_node[leaves + ensemble.tree_start[:-1]], expected)
    np.testing.assert_array_equal(model.leaves(X), leaves)


@EACH
def test_predictions_are_those_of_h2o(version, name):
    """To 1e-12 for GBM and DRF, which add up in double precision, and 1e-6 for XGBoost."""
    model, predicted = loaded(version, name), ANSWERS[version][name]["predictions"]
    ensemble = debias.plugin.extract(model)
    columns = [each for each in predicted if each != "predict" and not each.startswith("cal_")] or ["predict"]
    expected = np.array([predicted[each] for each in columns], dtype=np.float64).T
    raw = raw_output(ensemble, route(ensemble, matrix(model, ensemble, answered(model))))
    if (margin := margins(name)) is not None:
        raw = raw - (ensemble.base if ensemble.margin_replaces_base else 0) + margin[FIRST:, None]
    ours = raw if ensemble.averaged else ensemble.objective.mean(raw)
    if ours.shape[1] == 1 < expected.shape[1]:
        ours = np.hstack([1 - ours, ours])
    if name == "drf_balanced":  # H2O corrects the shares of classes afterwards: there is a note
        ours = ours * np.array(model.info.numbers("prior_class_distrib")) / model.info.numbers("model_class_distrib")
        assert any("balance of classes" in note for note in ensemble.notes)
    if name in ("drf_double", "drf_multinomial", "drf_balanced"):  # of the first two there is a note too
        ours = ours / ours.sum(axis=1, keepdims=True)
    tolerance = 1e-6 if model.algorithm == "xgboost" else 1e-12
    np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance)


@EACH
def test_the_adapter_keeps_its_promises(version, name):
    if name == "gbm_huber":
        return  # its loss is not known: the next test
    model = loaded(version, name)
    response = ANSWERS[version][name]["response"]
    hooks = check_adapter(model, rows_of(model)[:N_TRAIN], table()[response][:N_TRAIN])
    assert {"debias_extract", "debias_reported_importance"} <= set(hooks)


@EACH
def test_fresh_rows_are_audited(version, name):
    model = loaded(version, name)
    fresh = dataset(name, model, slice(N_TRAIN, None))
    if name == "gbm_huber":
        with pytest.raises(DebiasError, match="computes the slope of its loss from the residuals"):
            debias.score(model, fresh, rows="held-out")
        return
    scores = debias.score(model, fresh, rows="held-out")
    values = dict(zip(scores.feature_names, scores.values, strict=True))
    if name != "gbm_one_leaf":
        assert max(values, key=values.get) == "a"  # the response depends on it most
    assert tuple(scores.feature_names) == model.names


@EACH
def test_weights_of_splits_are_sums_of_their_sides_and_of_the_training_rows(version, name):
    model = loaded(version, name)
    ensemble = debias.plugin.extract(model)
    if model.algorithm == "xgboost" or ensemble.weight is None:
        return
    left, right = ensemble.children.T
    np.testing.assert_allclose(
        ensemble.weight[left] + ensemble.weight[right], ensemble.weight[ensemble.splits], rtol=1e-5
    )
    if ensemble.count is not None:  # all training rows are in each tree
        X = matrix(model, ensemble, rows_of(model)[:N_TRAIN])
        leaves = route(ensemble, X)
        for tree, (begin, end) in enumerate(zip(ensemble.tree_start, ensemble.tree_start[1:], strict=False)):
            counted = np.bincount(leaves[:, tree], minlength=end - begin)
            is_leaf = ensemble.left[begin:end] < 0
            np.testing.assert_array_equal(counted[is_leaf], ensemble.count[begin:end][is_leaf])


@EACH
def test_reported_importances_are_those_of_h2o(version, name):
    """Gains of the splits add up to them, except those of columns with missing values."""
    model = loaded(version, name)
    ensemble = debias.plugin.extract(model)
    reported = plugin_manager().hook.debias_reported_importance(model=model)
    stored = ANSWERS[version][name]["importances"]
    if name == "gbm_one_leaf":
        assert not reported.values.any()
        return
    assert reported.values.sum() == pytest.approx(sum(stored.values()), rel=1e-6)
    gains = np.bincount(ensemble.feature[ensemble.splits], ensemble.gain[ensemble.splits], ensemble.n_features)
    whole = np.isin(model.names, ["a", "many", "whole"])
    np.testing.assert_allclose(gains[whole], reported.values[whole], rtol=1e-5, atol=1e-4)
    assert (gains >= reported.values * (1 - 1e-5)).all()


@pytest.mark.filterwarnings("ignore:these are scores on training rows:debias.DebiasWarning")
def test_importances_on_training_rows_are_the_reported_ones():
    model = loaded("3.46", "gbm_gaussian")
    training = dataset("gbm_gaussian", model, slice(N_TRAIN))
    shares = [
        debias.score(model, training, scorer=scorer, rows="train").values for scorer in ("native", "native_unseen")
    ]
    shares = [each / each.sum() for each in shares]
    np.testing.assert_allclose(shares[0], shares[1], atol=1e-4)


def test_training_rows_are_recognised_in_any_order():
    for name in ("gbm_gaussian", "xgb_dense"):
        model = loaded("3.46", name)
        X, y = rows_of(model)[:N_TRAIN], table()["y"][:N_TRAIN]
        with pytest.raises(ProvenanceError, match="these are the training rows"):
            debias.score(model, X[::-1], y[::-1])


def test_rows_out_of_bag_are_refused_because_the_first_splits_saw_them():
    for name in ("drf_regression", "drf_binomial", "gbm_gaussian"):
        model = loaded("3.46", name)
        with pytest.raises(InBagUnavailableError, match="unseen by the trees|no out-of-bag rows"):
            debias.score(model, dataset(name, model, slice(N_TRAIN)), rows="oob")


def test_the_first_splits_of_forests_saw_all_rows_and_the_others_the_sample():
    """What the refusal says. The seed draws the rows of each tree: H2O compares the second word of a PCG generator."""
    model = loaded("3.46", "drf_regression")
    ensemble = debias.plugin.extract(model)
    assert model.nodes.sampled
    assert ensemble.count is None
    leaves = route(ensemble, matrix(model, ensemble, rows_of(model)[:N_TRAIN]))
    share, seeds = model.settings["sample_rate"], _longs(model.settings["seed"], len(model.trees))
    for tree, record in enumerate(model.records):
        (left, right) = struct.unpack_from("<ff", record, 8)
        assert left + right == N_TRAIN
        begin, end = ensemble.tree_start[tree : tree + 2]
        drawn = np.array([_word(_seeded(seeds[tree] + row), 1) % 2**24 / 2**24 < share for row in range(N_TRAIN)])
        counted = np.bincount(leaves[drawn, tree], minlength=end - begin)
        parent = ensemble.parent[begin:end]
        deep = (ensemble.left[begin:end] < 0) & (parent > 0)
        np.testing.assert_array_equal(counted[deep], ensemble.weight[begin:end][deep])
        assert deep.sum() > 5


def _seeded(seed):
    return ((3 + seed) * 6364136223846793005 + 3) % 2**64


def _word(state, n):
    for _ in range(n):
        state = (state * 6364136223846793005 + 3) % 2**64
    mixed, turn = ((state >> 18 ^ state) >> 27) % 2**32, state >> 59
    return (mixed >> turn | mixed << (-turn % 32)) % 2**32


def _longs(seed, n):
    state = _seeded(seed)
    return [_word(state, 2 * k) << 32 | _word(state, 2 * k + 1) for k in range(n)]


@pytest.mark.parametrize(("name", "response"), [("drf_multinomial", "three"), ("drf_double", "two")])
def test_a_forest_of_classes_scores_as_the_forests_of_each_class_together(name, response, tmp_path):
    """The trees of a class are a regression forest for the 0 and 1 of that class."""
    model, fresh = loaded("3.46", name), table()[N_TRAIN:]
    members = mojo.unpacked((HOME / "3.46" / f"{name}.zip").read_bytes())
    together = np.zeros(len(model.names))
    for number, label in enumerate(sorted(table()[response].unique())):
        of_class = {each: content for each, content in members.items() if not each.startswith("trees/")}
        info = members["model.ini"].decode().replace(f"n_classes = {model.n_classes}", "n_classes = 1")
        of_class["model.ini"] = info.replace(f"n_trees_per_class = {model.n_classes}", "n_trees_per_class = 1").encode()
        stem = f"trees/t{number:02d}"
        of_class |= {each.replace(stem, "trees/t00"): members[each] for each in members if each.startswith(stem)}
        (tmp_path / "model.zip").write_bytes(mojo.packed(of_class))
        forest = debias.load_model(tmp_path / "model.zip")
        scores = debias.score(forest, fresh[list(model.names)], fresh[response] == label, rows="held-out")
        together += scores.values
    whole = debias.score(model, fresh[list(model.names)], fresh[response], rows="held-out")
    np.testing.assert_allclose(whole.values, together, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("refused_isolation_forest", "Isolation Forest: its trees were grown without a response"),
        ("refused_glm", "Generalized Linear Model.*no trees that debias knows"),
        ("refused_xgb_linear", "booster='gblinear', which has no trees"),
    ],
)
def test_other_models_are_refused_by_name(name, message):
    with pytest.raises(UnsupportedModelError, match=message):
        debias.load_model(HOME / "3.46" / f"{name}.zip")


@pytest.mark.parametrize("kind", ["EnumLimited", "Eigen"])
def test_encodings_that_the_file_does_not_hold_are_refused(kind, tmp_path):
    """The columns of another encoding, with the name of this one."""
    with zipfile.ZipFile(HOME / "3.46/gbm_one_hot.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["model.ini"] = members["model.ini"].replace(b"= OneHotExplicit", f"= {kind}".encode())
    (tmp_path / "model.zip").write_bytes(mojo.packed(members))
    with pytest.raises(UnsupportedModelError, match=f"which {kind} does not make of its columns"):
        debias.load_model(tmp_path / "model.zip")


def test_another_encoding_is_refused_by_name(tmp_path):
    with zipfile.ZipFile(HOME / "3.46/gbm_one_hot.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["model.ini"] = members["model.ini"].replace(b"= OneHotExplicit", b"= OneHotInternal")
    (tmp_path / "model.zip").write_bytes(mojo.packed(members))
    with pytest.raises(
        UnsupportedModelError, match="categorical_encoding='OneHotInternal', so its trees split on othe"
    ):
        debias.load_model(tmp_path / "model.zip")


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("gbm_eigen", (b"_orig_projection_array = [", b"_orig_projection_array = [1.0, "), "one number for each label"),
        ("gbm_eigen", (b"_orig_projection_array = [-0.4", b"_orig_projection_array = [nan, -0.4"), "one number"),
        ("gbm_limited", (b"few\nmany.top", b"many\nmany.top"), "same name|other labels|has no labels|not make"),
        ("gbm_limited", (b"\n3: 11 d001.txt", b""), "'many.top_10_levels' of its trees has no labels|damaged"),
    ],
)
def test_encodings_that_contradict_themselves_are_refused(name, changed, message, tmp_path):
    with zipfile.ZipFile(HOME / f"3.46/{name}.zip") as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    assert changed[0] in members["model.ini"]
    members["model.ini"] = members["model.ini"].replace(*changed)
    (tmp_path / "model.zip").write_bytes(mojo.packed(members))
    with pytest.raises(UnsupportedModelError, match=message):
        debias.load_model(tmp_path / "model.zip")


@pytest.mark.parametrize("name", BY_TRAINING)
def test_encodings_by_training_rows_have_the_predictions_of_the_scorer_of_mojos(name):
    """Also for labels that the model never saw, and for missing ones."""
    model, answer = loaded("3.46", name), ANSWERS["3.46"][name]
    fresh = table()[FIRST:]
    without = fresh.copy()
    without.loc[without.index[::3], "many"] = None
    ensemble = debias.plugin.extract(model.trees)
    for rows, part in ((fresh, "predictions"), (without, "without_many")):
        X = model.encoding.transform(rows[list(model.names)])
        leaves = route(ensemble, X)
        np.testing.assert_array_equal(model.trees.leaves(X), leaves)
        expected = answer[part]["yes" if name.startswith("drf") else "predict"]
        np.testing.assert_allclose(raw_output(ensemble, leaves)[:, -1], expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(model.encoding.transform(rows[list(model.names)].to_numpy()), X)


@pytest.mark.filterwarnings("ignore:column 'many' has values that a step before the trees never saw")
@pytest.mark.parametrize("name", BY_TRAINING)
def test_scores_of_encodings_by_training_rows_are_of_the_columns_of_the_user(name):
    model, response = loaded("3.46", name), ANSWERS["3.46"][name]["response"]
    fresh = table()[N_TRAIN:]
    whole = debias.audit(model, fresh[list(model.names)], fresh[response], rows="held-out", random_state=0)
    assert whole.tested_scores.feature_names == model.names == ("a", "b", "few", "many", "whole")
    matrix = model.encoding.transform(fresh[list(model.names)])
    inside = debias.score(model.trees, matrix, fresh[response], rows="held-out").values
    np.testing.assert_allclose(whole.tested_scores.values, inside, rtol=1e-12, atol=1e-15)
    assert any("In a session, H2O may answer otherwise" in text for text in whole.tested_scores.warnings)


def test_columns_of_one_name_are_refused(tmp_path):
    with zipfile.ZipFile(HOME / "3.46/gbm_one_hot.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["_orig_names"] = members["_orig_names"].replace(b"whole", b"few.north")
    members["model.ini"] = members["model.ini"].replace(b"\nwhole\n", b"\nfew.north\n")
    (tmp_path / "model.zip").write_bytes(mojo.packed(members))
    with pytest.raises(
        UnsupportedModelError, match="two columns of the same name, by categorical_encoding='OneHotExpl"
    ):
        debias.load_model(tmp_path / "model.zip")


def rows_h2o_knows(name, rows):
    """Without labels that the model never saw: what H2O makes of them with Binary depends on the other rows."""
    return rows[rows["many"] != "never seen"] if name == "gbm_binary" else rows


@pytest.mark.parametrize("name", ENCODED)
def test_leaves_and_predictions_of_encoded_columns_are_those_of_h2o(name):
    model, answer = loaded("3.46", name), ANSWERS["3.46"][name]
    fresh = rows_h2o_knows(name, table()[FIRST:])
    at, inside = fresh.index - FIRST, model.trees
    X = model.encoding.transform(fresh[list(model.names)])
    ensemble = debias.plugin.extract(inside)
    leaves = route(ensemble, X)
    expected = np.array(list(answer["leaves"].values())).T[at]
    np.testing.assert_array_equal(inside.nodes.native_node[leaves + ensemble.tree_start[:-1]], expected)
    np.testing.assert_array_equal(inside.leaves(X), leaves)
    predicted = np.array(answer["predictions"]["yes" if name.startswith("drf") else "predict"])[at]
    np.testing.assert_allclose(raw_output(ensemble, leaves)[:, -1], predicted, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(model.encoding.transform(fresh[list(model.names)].to_numpy()), X)


@pytest.mark.filterwarnings("ignore:column 'many' has values that a step before the trees never saw")
@pytest.mark.parametrize("name", ENCODED)
def test_scores_of_encoded_columns_are_added_up_for_the_columns_of_the_user(name):
    model, response = loaded("3.46", name), ANSWERS["3.46"][name]["response"]
    fresh = rows_h2o_knows(name, table()[N_TRAIN:])
    whole = debias.audit(model, fresh[list(model.names)], fresh[response], rows="held-out", random_state=0)
    assert whole.tested_scores.feature_names == model.names
    assert set(model.names) == {"a", "b", "few", "many", "whole"}
    ensemble = debias.plugin.extract(model.trees)
    matrix = model.encoding.transform(fresh[list(model.names)])
    inside = debias.score(model.trees, matrix, fresh[response], rows="held-out").values
    origin = np.array([made.column for made in model.encoding.made])
    together = np.bincount(origin, inside, minlength=len(model.names))
    np.testing.assert_allclose(whole.tested_scores.values, together, rtol=1e-12, atol=1e-15)
    assert ensemble.n_features == (5 if name == "gbm_label_encoder" else matrix.shape[1])
    with pytest.raises(UnsupportedModelError, match="cannot be refitted"):
        debias.refit(model, table()[list(model.names)][:N_TRAIN], table()[response][:N_TRAIN])


def test_rows_that_an_encoding_cannot_take_are_refused():
    model = loaded("3.46", "gbm_binary")
    fresh = table()[N_TRAIN:]
    with pytest.raises(debias.RowsError, match="labels that the model never saw, in many.*depends on the other rows"):
        debias.score(model, fresh[list(model.names)], fresh["y"], rows="held-out")
    with pytest.raises(debias.RowsError, match="no column 'many', which the MOJO needs"):
        debias.score(model, fresh[["a", "b", "few", "whole"]], fresh["y"], rows="held-out")
    rows = fresh[list(model.names)]
    for wrong in (rows.assign(more=1).to_numpy(), rows.to_numpy()[:, :4]):
        with pytest.raises(
            debias.RowsError, match=r"X has the shape \(60, [46]\), and the MOJO takes 5 columns: a, b, few"
        ):
            debias.score(model, wrong, fresh["y"], rows="held-out")


def test_notes_say_what_belongs_to_the_rows():
    offset = debias.plugin.extract(loaded("3.46", "gbm_poisson_offset")).notes
    assert any("offset column 'log_exposure'" in note for note in offset)
    calibrated = debias.plugin.extract(loaded("3.46", "gbm_calibrated")).notes
    assert BEFORE_CALIBRATION in calibrated


def test_hessians_of_xgboost_are_those_of_the_loss():
    model, training = loaded("3.46", "xgb_poisson_offset"), table()[:N_TRAIN]
    ensemble = debias.plugin.extract(model)
    expected = ensemble.objective.curvature(training["log_exposure"].to_numpy()).sum()
    assert ensemble.cover[0] == pytest.approx(expected, rel=1e-6)


def test_an_offset_changes_the_scores():
    model = loaded("3.46", "gbm_poisson_offset")
    fresh = dataset("gbm_poisson_offset", model, slice(N_TRAIN, None))
    X, y = rows_of(model)[N_TRAIN:], table()["count"][N_TRAIN:]
    with_offset, without = debias.score(model, fresh, rows="held-out"), debias.score(model, X, y, rows="held-out")
    assert not np.allclose(with_offset.values, without.values)


def test_a_directory_and_a_pickle_are_the_same_model(tmp_path):
    path = HOME / "3.46/gbm_multinomial.zip"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    one, other = loaded("3.46", "gbm_multinomial"), debias.load_model(tmp_path / "unpacked")
    again = pickle.loads(pickle.dumps(one))
    for model in (other, again):
        first, second = debias.plugin.extract(one), debias.plugin.extract(model)
        np.testing.assert_array_equal(first.value, second.value)
        np.testing.assert_array_equal(first.threshold, second.threshold)


@pytest.mark.thorough
def test_the_shell_audits_a_file(tmp_path):
    table()[N_TRAIN:].to_csv(tmp_path / "rows.csv", index=False)
    arguments = ["audit", str(HOME / "3.46/drf_binomial.zip"), str(tmp_path / "rows.csv"), "--target", "two"]
    done = CliRunner().invoke(main, [*arguments, "--rows", "held-out"])
    assert done.exit_code == 0, done.output
    assert "many" in done.output


def fitted(name):
    """Return a model of another library and fresh rows: numbers with missing values, and 40 labels."""
    rng = np.random.default_rng(0)
    X, y = simulated.rows(500, 3, (1, 1), names="abc", seed=rng)
    if name == "forest":
        return RandomForestRegressor(5, random_state=0, max_depth=5).fit(X[:300], y[:300]), X[300:], y.to_numpy()[300:]
    X.loc[rng.random(500) < 0.2, "b"] = np.nan
    codes = rng.integers(0, 40, 500)
    X["kind"] = pd.Categorical.from_codes(codes, pd.Index([f"k{k}" for k in range(40)], dtype=object))
    y = y.to_numpy() + codes % 3
    small = {"n_estimators": 5, "max_depth": 4, "n_jobs": 1, "verbose": -1, "min_data_per_group": 5, "cat_smooth": 1}
    makers = {
        "lightgbm": lambda: lightgbm.LGBMRegressor(**small),
        "hist": lambda: HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype"),
    }
    return makers[name]().fit(X[:300], y[:300]), X[300:], y[300:]


@pytest.mark.parametrize("name", ["lightgbm", "hist", "forest"])
def test_trees_of_other_libraries_score_the_same_as_mojos(name, tmp_path):
    model, X, y = fitted(name)
    ensemble = debias.plugin.extract(model)
    path = tmp_path / "model.zip"
    path.write_bytes(mojo.mojo(ensemble))
    copy = debias.load_model(path)
    scores = [debias.score(each, X, y, rows="held-out").values for each in (model, copy)]
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-5, atol=1e-6)  # values of leaves have 32 bits
    assert debias.plugin.extract(copy).n_nodes == ensemble.n_nodes


STATED = {
    "h2o_version": "3.46.0.7",
    "mojo_version": "1.40",
    "algorithm": "Gradient Boosting Machine",
    "supervised": "true",
    "n_features": "2",
    "n_classes": "1",
    "n_columns": "3",
    "escape_domain_values": "true",
    "n_trees": "1",
    "n_trees_per_class": "1",
    "distribution": "gaussian",
    "init_f": "0.5",
}


def by_hand(tmp_path, *trees, labels=("u", "v", "w"), **values):
    """Load a GBM with the columns x, a number, and kind, whose trees are these bytes."""
    stated = {**STATED, "n_trees": len(trees), **values}
    lines = ["[info]", *(f"{name} = {value}" for name, value in stated.items()), "[columns]", "x", "kind", "y"]
    content = {
        "model.ini": "\n".join([*lines, "[domains]", f"1: {len(labels)} d000.txt"]).encode(),
        "domains/d000.txt": "".join(f"{label}\n" for label in labels).encode(),
        **{f"trees/t00_{number:03d}.bin": tree for number, tree in enumerate(trees)},
    }
    path = tmp_path / "model.zip"
    path.write_bytes(mojo.packed(content))
    return debias.load_model(path)


STEP = struct.pack("<ff", 1.0, 2.0)


def test_splits_of_missing_values_send_all_others_to_the_left(tmp_path):
    model = by_hand(tmp_path, *(struct.pack("<BHB", 0xF0, column, 1) + STEP for column in (0, 1)))
    ensemble = debias.plugin.extract(model)
    X = pd.DataFrame({"x": [np.nan, -np.inf, 1e300], "kind": ["u", None, "never seen"]})
    rows = matrix(model, ensemble, X)
    np.testing.assert_array_equal(route(ensemble, rows), [[2, 1], [1, 2], [1, 2]])
    np.testing.assert_array_equal(model.leaves(rows), route(ensemble, rows))


@pytest.mark.parametrize("way", [2, 3, 4, 5])
@pytest.mark.parametrize(("first", "n_bits"), [(0, 32), (0, 3), (1, 1), (2, 40), (1, 2)])
def test_labels_out_of_a_set_go_the_way_of_missing_values(tmp_path, way, first, n_bits):
    bits = np.random.default_rng(n_bits).integers(0, 2, n_bits)
    content = np.packbits(bits.astype(bool), bitorder="little").tobytes()
    small = n_bits == 32
    head = struct.pack("<BHB", 0xF0 | (8 if small else 12), 1, way)
    model = by_hand(tmp_path, head + (b"" if small else struct.pack("<HI", first, n_bits)) + content + STEP)
    ensemble = debias.plugin.extract(model)
    rows = matrix(model, ensemble, pd.DataFrame({"x": 0.0, "kind": ["u", "v", "w", None, "never seen"]}))
    leftward = way in (2, 4)
    codes = [0, 1, 2, -1, -1]
    right = [bits[code - first] == 1 if 0 <= code - first < n_bits and code >= 0 else not leftward for code in codes]
    np.testing.assert_array_equal(route(ensemble, rows)[:, 0], 1 + np.array(right))
    np.testing.assert_array_equal(model.leaves(rows), route(ensemble, rows))


def test_a_value_equal_to_a_threshold_goes_right_in_double_precision(tmp_path):
    model = by_hand(tmp_path, struct.pack("<BHBf", 0xF0, 0, 4, 0.1) + STEP)
    threshold = float(np.float32(0.1))
    ensemble = debias.plugin.extract(model)
    X = pd.DataFrame({"x": [threshold, np.nextafter(threshold, 0), 0.1], "kind": "u"})
    np.testing.assert_array_equal(route(ensemble, matrix(model, ensemble, X))[:, 0], [2, 1, 1])


def test_labels_of_whole_numbers_are_numbers(tmp_path):
    model = by_hand(tmp_path, struct.pack("<BHBI", 0xF8, 1, 4, 0b10) + STEP, labels=("0", "7", "-3"))
    assert debias.plugin.extract(model).category_labels[1].tolist() == [0, 7, -3]
    X = pd.DataFrame({"x": 0.0, "kind": [7.0, 0.0, np.nan]})  # floats, because one is missing
    scores = debias.score(model, X, [1.0, 0.0, 0.5], rows="held-out")
    assert scores.feature_names == ("x", "kind")
    texts = by_hand(tmp_path, struct.pack("<BHBI", 0xF8, 1, 4, 0b10) + STEP, labels=("0", "07", 'a\\n"b"'))
    assert debias.plugin.extract(texts).category_labels[1].tolist() == ["0", "07", 'a\n"b"']


LEAF = struct.pack("<BHf", 0, 65_535, 1.0)


@pytest.mark.parametrize(
    ("tree", "values", "message"),
    [
        (LEAF[:-1], {}, "tree 0 ends too early"),
        (LEAF + b"x", {}, "more bytes than nodes"),
        (b"", {}, "tree 0 ends too early"),
        (struct.pack("<BHBf", 0xF0, 7, 4, 0.0) + STEP, {}, "on column 7"),
        (struct.pack("<BHBf", 0xF4, 0, 4, 0.0) + STEP, {}, "of a kind that H2O no longer writes"),
        (struct.pack("<BHBf", 0xF0, 0, 4, np.nan) + STEP, {}, "not a finite number"),
        (struct.pack("<BHBf", 0xD0, 0, 4, 0.0) + STEP, {}, "flags"),
        (struct.pack("<BHBfB", 0xC0, 0, 4, 0.0, 99) + LEAF + STEP, {}, "size of a part"),
        (struct.pack("<BHBHI", 0xFC, 1, 4, 0, 2**32 - 1) + STEP, {}, "set of categories"),
        (struct.pack("<BHBI", 0xF8, 0, 4, 1) + STEP, {}, "set of categories"),
        (struct.pack("<BHBf", 0xF0, 0, 4, 0.0) + struct.pack("<ff", np.inf, 1), {}, "not finite"),
        (LEAF, {"mojo_version": "1.00"}, "has the version 1.00"),
        (LEAF, {"mojo_version": "1.50"}, "has the version 1.50"),
        (LEAF, {"endianness": "BIG_ENDIAN"}, "order of bytes"),
        (LEAF, {"n_trees": "2"}, "has none of number 1"),
        (LEAF, {"n_trees": "-1"}, "-1 trees"),
        (LEAF, {"n_trees": "99999999999999999999999"}, "trees of 1 classes|has no"),
        (LEAF, {"n_columns": "4"}, "lists 3 columns, and states 4"),
        (LEAF, {"n_features": "3"}, "3 features of 3 columns"),
        (LEAF, {"init_f": "x"}, "init_f = 'x', which is no number"),
        (LEAF, {"init_f": "nan"}, "not a finite number"),
        (LEAF, {"distribution": "null"}, "has no distribution"),
        (LEAF, {"n_classes": "100000000"}, "100000000 classes"),
        (LEAF, {"algorithm": "Stacked Ensemble"}, "made of several models"),
        (LEAF, {"algorithm": "null"}, "has no algorithm"),
    ],
)
def test_a_damaged_file_gets_a_clear_error(tmp_path, tree, values, message):
    with pytest.raises(DebiasError, match=message):
        by_hand(tmp_path, tree, **values)


def test_a_file_that_unpacks_to_more_than_a_model_is_refused(tmp_path):
    with pytest.raises(UnsupportedModelError, match="unpacks to more than 25 times its size"):
        by_hand(tmp_path, LEAF + bytes(50_000_000))


def test_a_cut_file_is_refused(tmp_path):
    content = (HOME / "3.46/gbm_gaussian.zip").read_bytes()
    (tmp_path / "model.zip").write_bytes(content[: len(content) // 2])
    with pytest.raises(DebiasError):
        debias.load_model(tmp_path / "model.zip")


@pytest.fixture
def session_without_java(monkeypatch):
    """A stand-in for the package h2o, whose models write a stored file."""

    class ModelBase:
        model_id, written = "GBM_1", HOME / "3.46/gbm_gaussian.zip"

        def download_mojo(self, path):
            if self.written is None:
                raise ValueError("MOJO export requires H2O-3 Secure. Contact ...\nmore lines")
            return shutil.copy(self.written, path)

    monkeypatch.setitem(sys.modules, "h2o.model", types.SimpleNamespace(ModelBase=ModelBase))
    return ModelBase


def test_a_model_of_a_session_is_read_from_the_file_that_the_session_writes(session_without_java):
    model, stored = session_without_java(), loaded("3.46", "gbm_gaussian")
    fresh = dataset("gbm_gaussian", stored, slice(N_TRAIN, None))
    scores = [debias.score(each, fresh, rows="held-out").values for each in (model, stored)]
    np.testing.assert_array_equal(*scores)
    model.model_id = None
    with pytest.raises(UnsupportedModelError, match="this ModelBase is not trained: train it first"):
        debias.score(model, fresh)
    model.model_id, model.written = "GBM_1", None
    with pytest.raises(UnsupportedModelError, match="does not write this ModelBase as a MOJO.*requires H2O-3 Secure"):
        debias.score(model, fresh)


def test_the_binary_form_of_h2o_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "GBM_1").write_bytes(b"\x1c\xed\t3.46.0.7\x01" + bytes(100))
    with pytest.raises(UnsupportedModelError, match="binary form of H2O.*save it with model.save_mojo"):
        debias.load_model(tmp_path / "GBM_1")


@pytest.fixture(scope="module")
def session():
    """A session of H2O, which needs Java."""
    h2o = pytest.importorskip("h2o")
    if shutil.which("java") is None:
        pytest.skip("H2O needs Java")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        h2o.init(max_mem_size="2g", nthreads=1, port=54441)
        h2o.no_progress()
        yield h2o
        h2o.cluster().shutdown()


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize(
    ("kind", "response", "settings"),
    [
        ("H2OGradientBoostingEstimator", "y", {"ntrees": 30, "max_depth": 6}),
        ("H2OGradientBoostingEstimator", "three", {"ntrees": 20, "histogram_type": "Random", "sample_rate": 0.7}),
        ("H2OGradientBoostingEstimator", "two", {"ntrees": 20, "learn_rate_annealing": 0.9, "max_depth": 12}),
        ("H2OGradientBoostingEstimator", "two", {"ntrees": 20, "distribution": "multinomial"}),
        ("H2OGradientBoostingEstimator", "two", {"ntrees": 9, "distribution": "multinomial", "balance_classes": True}),
        ("H2OGradientBoostingEstimator", "many", {"ntrees": 2, "nbins_cats": 4}),
        ("H2ORandomForestEstimator", "y", {"ntrees": 30}),
        ("H2ORandomForestEstimator", "three", {"ntrees": 10, "binomial_double_trees": True}),
        ("H2ORandomForestEstimator", "two", {"ntrees": 20, "histogram_type": "UniformRobust", "nbins_cats": 8}),
        ("H2OXGBoostEstimator", "three", {"ntrees": 20}),
        ("H2OXGBoostEstimator", "y", {"ntrees": 20, "tree_method": "exact", "max_depth": 8}),
    ],
)
def test_a_model_of_a_session_is_the_one_that_h2o_predicts_with(session, tmp_path, kind, response, settings):
    names = [name for name in ("a", "b", "few", "many", "whole") if name != response]
    texts = dict.fromkeys(("few", "many", "two", "three"), "enum")
    frame = session.import_file(str(HOME / "rows.csv"), col_types=texts)
    model = getattr(session.estimators, kind)(seed=3, min_rows=2, **settings)
    model.train(names, response, training_frame=frame[:N_TRAIN, :])
    (inner,) = plugin_manager().hook.debias_unwrap(model=model).inner
    ensemble = debias.plugin.extract(inner.model)
    X = matrix(inner.model, ensemble, rows_of(inner.model))
    leaves = route(ensemble, X)
    np.testing.assert_array_equal(inner.model.leaves(X), leaves)
    raw = raw_output(ensemble, leaves)
    ours = ensemble.objective.mean(raw)
    predicted = model.predict(frame).as_data_frame()
    expected = predicted[list(predicted.columns[1:]) or ["predict"]].to_numpy()
    if ours.shape[1] == 1 < expected.shape[1]:
        ours = np.hstack([1 - ours, ours])
    if inner.model.algorithm == "drf" and expected.shape[1] > 1:
        ours = ours / ours.sum(axis=1, keepdims=True)
    tolerance = 1e-6 if inner.model.algorithm == "xgboost" else 1e-12
    np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance)
    numbers = model.predict_leaf_node_assignment(frame, "Node_ID").as_data_frame().to_numpy()
    if inner.model.algorithm != "xgboost":
        np.testing.assert_array_equal(inner.model.nodes.native_node[leaves + ensemble.tree_start[:-1]], numbers)
    if response != "many":  # fresh rows have a class that the model never saw
        fresh = table()[N_TRAIN:]
        assert np.isfinite(debias.score(model, fresh[names], fresh[response], rows="held-out").values).all()


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore::Warning")
def test_the_leader_of_automl_is_audited_and_what_is_not_trained_is_refused(session):
    names = ["a", "b", "few"]
    frame = session.import_file(str(HOME / "rows.csv"), col_types={"few": "enum"})
    search = session.automl.H2OAutoML(max_models=1, include_algos=["GBM"], nfolds=0, seed=1)
    search.train(names, "y", training_frame=frame[:N_TRAIN, :])
    fresh = table()[N_TRAIN:]
    scores = debias.score(search, fresh[names], fresh["y"], rows="held-out")
    assert scores.feature_names[scores.values.argmax()] == "a"
    with pytest.raises(UnsupportedModelError, match="is not trained"):
        debias.score(session.estimators.H2OGradientBoostingEstimator(), fresh[names], fresh["y"])
    linear = session.estimators.H2OGeneralizedLinearEstimator()
    linear.train(names, "y", training_frame=frame[:N_TRAIN, :])
    with pytest.raises(UnsupportedModelError, match="no trees that debias knows"):
        debias.score(linear, fresh[names], fresh["y"])


def test_a_file_that_claims_many_trees_is_refused_at_once(tmp_path):
    """One missing tree is enough: no loop over all that are claimed."""
    path = tmp_path / "claims.zip"
    with zipfile.ZipFile(HOME / "3.46" / "gbm_multinomial.zip") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "model.ini":
                text = re.sub(r"n_trees = \d+", "n_trees = 1000000", content.decode())
                content = re.sub(r"n_trees_per_class = \d+", "n_trees_per_class = 9999", text).encode()
            new.writestr(name, content)
    with pytest.raises(UnsupportedModelError, match="it states 1000000 trees, and has none of number"):
        debias.load_model(path)


def test_labels_of_truth_values_are_truth_values():
    assert typed(("False", "True")).tolist() == [False, True]
    assert typed(("True", "yes")).tolist() == ["True", "yes"]
