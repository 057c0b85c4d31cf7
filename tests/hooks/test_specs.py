"""One test a hook, named for it: what its answer does, in debias as a user sees it."""

import dataclasses
import json
import re
import sys
from types import SimpleNamespace

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from debias_toy import adapter as toy
from debias_toy.model import ToyForest
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor

import debias
from debias.cli import main
from debias.hooks.cross_validated import CrossValidated
from debias.hooks.registry import plugin_manager
from debias.hooks.training_weights import TrainingWeights
from debias.hooks.wrapping import Inner, Unwrapped
from debias.models.saving import save_model
from debias.testing import check_adapter

ADAPTER = {name: getattr(toy, name) for name in vars(toy) if name.startswith("debias_")}


@pytest.fixture
def plugin():
    """Register functions as a plugin for one test."""
    added = []

    def add(**functions):
        made = SimpleNamespace(**{name: debias.plugin.hookimpl(function) for name, function in functions.items()})
        debias.plugin.register(made, "of_this_test")
        added.append(made)

    yield add
    for each in added:
        plugin_manager().unregister(each)


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).normal(size=(120, 4))
    return X, X[:, 0] + np.random.default_rng(1).normal(size=120)


@pytest.fixture(scope="module")
def forest(rows):
    return ToyForest(n_trees=5).fit(*rows)


def without(*hooks):
    return {name: function for name, function in ADAPTER.items() if name not in hooks}


def test_debias_extract(plugin, forest, rows):
    with pytest.raises(debias.UnsupportedModelError, match="no adapter recognises"):
        debias.plugin.extract(forest)
    plugin(**ADAPTER)
    assert debias.plugin.extract(forest).n_trees == 5


def test_debias_leaves(plugin, forest, rows):
    def elsewhere(model, X):
        return toy.debias_leaves(model, X) + 1

    plugin(**ADAPTER | {"debias_leaves": elsewhere})
    with pytest.raises(debias.errors.ExtractionError, match="route rows to other leaves than the library does"):
        debias.score(forest, *rows)


def test_debias_predict_raw(plugin, forest, rows):
    def other(model, X):
        return toy.debias_predict_raw(model, X) + 1

    plugin(**ADAPTER | {"debias_predict_raw": other, "debias_predict_native": lambda model, X: other(model, X)})
    with pytest.raises(debias.errors.ExtractionError, match="predict otherwise than the library does"):
        debias.score(forest, *rows)


def in_float32(model, X):
    exact = toy.debias_predict_raw(model, X)
    return None if exact is None else exact.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_outputs_are_compared_in_the_precision_of_the_library(plugin, forest, rows, dtype):
    """A library that adds up float32 numbers is right up to their rounding errors, also if it averages trees."""

    def extract(model):
        found = toy.debias_extract(model)
        return found if found is None else dataclasses.replace(found, output_dtype=np.dtype(dtype))

    predicting = {"debias_predict_raw": in_float32, "debias_predict_native": in_float32}
    plugin(**ADAPTER | predicting | {"debias_extract": extract})
    if dtype == np.float32:
        assert debias.score(forest, *rows).values.argmax() == 0
        assert check_adapter(forest, *rows)
        return
    with pytest.raises(debias.errors.ExtractionError, match="predict otherwise than the library does"):
        debias.score(forest, *rows)
    with pytest.raises(AssertionError, match="adds up in float32, give the ensemble output_dtype"):
        check_adapter(forest, *rows)


def test_debias_predict_native(plugin, forest, rows):
    """It is given the user's own rows, and what it predicts for them has to be what the trees predict."""
    X, y = rows
    frame = pd.DataFrame(X, columns=list("abcd")).astype({"a": "Float64"})
    seen = []

    def native(model, X):
        seen.append(X)
        return toy.debias_predict_raw(model, X.to_numpy(dtype=float))

    plugin(**ADAPTER | {"debias_predict_native": native})
    debias.score(forest, frame, y)
    assert seen[0].dtypes.tolist() == frame.dtypes.tolist()
    pd.testing.assert_frame_equal(seen[0], frame.loc[seen[0].index])


def test_a_native_prediction_that_differs_is_refused(plugin, forest, rows):
    plugin(**ADAPTER | {"debias_predict_native": lambda model, X: toy.debias_predict_raw(model, X) + 1e-6})
    with pytest.raises(debias.errors.ExtractionError, match="predicts otherwise for X as it was passed.*row 0"):
        debias.score(forest, *rows)


def test_rows_the_library_itself_refuses_are_refused(plugin, forest, rows):
    def refuses(model, X):
        raise ValueError("no such town")

    plugin(**ADAPTER | {"debias_predict_native": refuses})
    with pytest.raises(debias.RowsError, match="does not predict for rows of X as they were passed: no such town"):
        debias.score(forest, *rows)


def test_without_debias_predict_native_rows_are_compared_as_numbers(plugin, forest, rows):
    plugin(**without("debias_predict_native"))
    assert debias.score(forest, *rows).provenance["status"] == "proven"


def test_debias_cross_validated(plugin, rows):
    X, y = rows
    halves = [np.arange(60), np.arange(60, 120)]
    models = [ToyForest(n_trees=5).fit(X[other], y[other]) for other in halves[::-1]]
    of_library = {"models": models, "tuned_on_test": "the toy chose its trees by these rows", "note": "of toys"}
    answers = [
        CrossValidated("Toys", cv=[(halves[1], halves[0]), (halves[0], halves[1])], **of_library),
        CrossValidated("Toys", unseen=lambda X, y: halves, proof="the toy knows", **of_library),
    ]
    plugin(**ADAPTER, debias_cross_validated=lambda results: answers[results.which] if is_toys(results) else None)

    def is_toys(results):
        return isinstance(results, SimpleNamespace)

    plain, proven = (debias.audit_folds(SimpleNamespace(which=which), X, y, test=None) for which in (0, 1))
    assert plain.notes[0].startswith("the toy chose its trees by these rows, so scores on these rows are too high")
    assert plain.notes == (plain.notes[0], "of toys")
    pd.testing.assert_frame_equal(plain.scores, proven.scores)
    assert "the toy knows" in proven.audits["fold 0"].provenance["detail"]
    assert proven.audits["fold 0"].provenance["status"] == "proven held-out"


def test_an_answer_of_debias_cross_validated_of_another_type_is_refused(plugin, rows):
    plugin(debias_cross_validated=lambda results: [1] if isinstance(results, SimpleNamespace) else None)
    with pytest.raises(debias.plugin.PluginError, match="debias_cross_validated returned a list"):
        debias.audit_folds(SimpleNamespace(), *rows)


def test_debias_splits(rows, monkeypatch):
    X, y = rows
    splits = list(KFold(3).split(X))
    models = [DecisionTreeRegressor(random_state=0).fit(X[train], y[train]) for train, _ in splits]
    by_number = debias.audit_folds(models, X, y, 3, test=None)
    pd.testing.assert_frame_equal(by_number.scores, debias.audit_folds(models, X, y, splits, test=None).scores)
    manager = plugin_manager()
    without_adapter = manager.subset_hook_caller("debias_splits", [manager.get_plugin("sklearn_wrappers")])
    monkeypatch.setattr(manager.hook, "debias_splits", without_adapter)
    with pytest.raises(debias.RowsError, match="cv=3 needs scikit-learn's adapter"):
        debias.audit_folds(models, X, y, 3)


def test_debias_in_bag(plugin, forest, rows):
    plugin(**ADAPTER)
    assert debias.score(forest, *rows).provenance["status"] == "proven"


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_bags_of_any_real_type_are_proven(plugin, forest, rows, dtype):
    bags = toy.debias_in_bag(forest)

    def of_another_type(model):
        return debias.plugin.InBag(lambda tree: bags.draw(tree).astype(dtype), bags.n_rows, bags.n_trees)

    plugin(**ADAPTER | {"debias_in_bag": of_another_type})
    assert debias.score(forest, *rows, rows="oob").provenance["status"] == "proven"


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda bags: debias.plugin.InBag(bags.draw, 120, 3),
            debias.errors.ExtractionError,
            "bags of 3 trees, but the model has 5",
        ),
        (
            lambda bags: debias.plugin.InBag(lambda tree: np.append(bags.draw(tree), 0), 121, 5),
            debias.ProvenanceError,
            "the bags are those of 121 rows, but X has 120",
        ),
        (
            lambda bags: debias.plugin.InBag(bags.draw, 120, 5, samples=lambda tree: np.ones(7)),
            debias.RowsError,
            "samples of an InBag has shape",
        ),
    ],
)
def test_bags_of_other_rows_or_trees_are_refused(plugin, forest, rows, change, error, message):
    plugin(**ADAPTER | {"debias_in_bag": lambda model: change(toy.debias_in_bag(model))})
    for how in ({"rows": "oob"}, {"rows": "held-out", "train": rows}):
        with pytest.raises(error, match=message):
            debias.score(forest, *rows, "mdi_oob(weights='in_bag')", **how)


@pytest.mark.parametrize("missing", ["count", "weight"])
def test_bags_of_trees_without_counts_or_weights_are_refused(plugin, forest, rows, missing):
    def extract(model):
        return dataclasses.replace(toy.debias_extract(model), **{missing: None})

    plugin(**ADAPTER | {"debias_extract": extract})
    for kind in ("auto", "oob"):
        with pytest.raises(
            debias.errors.ExtractionError, match=f"its trees have no `{missing}`, so the bags cannot be proven"
        ):
            debias.score(forest, *rows, rows=kind)


def test_without_debias_in_bag_there_are_no_out_of_bag_rows(plugin, forest, rows):
    plugin(**without("debias_in_bag"))
    with pytest.raises(debias.InBagUnavailableError, match="no adapter can recover the bags"):
        debias.score(forest, *rows, rows="oob")


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_debias_training_weights(plugin, forest, rows):
    """A model that kept unequal weights of its rows is not scored without them, unless classes explain them."""
    X, y = rows
    shown = {"rows": 1.0 + (y > 0)}

    def weights(model):
        return TrainingWeights(**shown) if toy.is_mine(model) else None

    plugin(**ADAPTER, debias_training_weights=weights)
    for scorer in ("mdi_oob", "response_permutation(mdi_oob, replicates=2)"):
        with pytest.raises(debias.ProvenanceError, match="was trained with sample_weight, and .* passed without"):
            debias.score(forest, X, y, scorer, random_state=0)
    shown["rows"] = np.ones(len(y))
    assert debias.score(forest, X, y, "response_permutation(mdi_oob, replicates=2)", random_state=0).values.shape == (
        4,
    )
    shown["multiplied"] = True
    fresh = np.random.default_rng(2).normal(size=(60, 4))
    with pytest.raises(debias.RowsError, match="the weights in train include class weights"):
        debias.score(
            *(forest, fresh, fresh[:, 0], "response_permutation(mdi_oob, replicates=2)"),
            rows="held-out",
            train=debias.Dataset(X, y, sample_weight=np.ones(len(y))),
            random_state=0,
        )


def test_debias_reported_importance(plugin, forest, rows):
    def reported(model):
        return (np.array([3.0, 1.0, 0.0, 0.0]), "toy importance") if toy.is_mine(model) else None

    plugin(**ADAPTER, debias_reported_importance=reported)
    found = debias.score(forest, *rows, "native")
    assert found.values.tolist() == [3, 1, 0, 0]
    assert found.details["kind"] == "toy importance"


def test_debias_refit(plugin, forest, rows):
    plugin(**ADAPTER)
    X, y = rows
    again = debias.refit(forest, X, y, random_state=forest.seed)
    assert again is not forest
    np.testing.assert_array_equal(again.predict(X), forest.predict(X))


def test_a_refit_is_told_the_number_of_threads(plugin, forest, rows):
    told = []

    def refit(model, X, y, n_jobs, params):
        told.append((n_jobs, params))
        return ToyForest(n_trees=5).fit(X, y)

    plugin(**ADAPTER | {"debias_refit": refit})
    debias.refit(forest, *rows, n_jobs=2, params={"depth": 3})
    debias.refit(forest, *rows)
    assert told == [(2, {"depth": 3}), (None, None)]


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
@pytest.mark.parametrize("rows_as_frame", [False, True])
def test_an_adapter_gets_rows_as_a_frame_if_its_ensemble_says_so(plugin, forest, rows, rows_as_frame):
    """The frame holds the numbers of the array under the names of the features; the user's rows may be in any order."""
    seen = []

    def extract(model):
        found = toy.debias_extract(model)
        names = tuple("abcd")
        return found and dataclasses.replace(found, feature_names=names, named=True, rows_as_frame=rows_as_frame)

    def leaves(model, X):
        seen.append(X)
        return toy.debias_leaves(model, np.ascontiguousarray(X))

    def raw(model, X):
        seen.append(X)
        return toy.debias_predict_raw(model, np.ascontiguousarray(X))

    changed = {"debias_extract": extract, "debias_leaves": leaves, "debias_predict_raw": raw}
    plugin(**without("debias_predict_native") | changed)
    frame = pd.DataFrame(rows[0], columns=list("abcd"))
    scores = debias.score(forest, frame[list("dcba")], rows[1])
    assert len(seen) == 2
    if rows_as_frame:
        assert all(each.columns.tolist() == list("abcd") for each in seen)
    else:
        assert all(type(each) is np.ndarray for each in seen)
    pd.testing.assert_frame_equal(pd.DataFrame(np.asarray(seen[0])), pd.DataFrame(np.asarray(seen[1])))
    np.testing.assert_array_equal(scores.values, debias.score(forest, frame, rows[1]).values)


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
def test_tables_a_library_does_not_take_come_as_pandas_frames(plugin, forest, rows):
    polars = pytest.importorskip("polars")
    X = rows[0].astype(np.float32).astype(float)
    seen = []

    def extract(model):
        found = toy.debias_extract(model)
        names = tuple("abcd")
        return found and dataclasses.replace(found, feature_names=names, named=True, takes_tables=False)

    def native(model, X):
        seen.append(X)
        return toy.debias_predict_raw(model, X.to_numpy(dtype=float))

    plugin(**ADAPTER | {"debias_extract": extract, "debias_predict_native": native})
    debias.score(forest, polars.DataFrame(X, schema=list("abcd")), rows[1], rows="held-out")
    debias.score(forest, pd.DataFrame(X, columns=list("abcd")), rows[1], rows="held-out")
    assert [type(each) for each in seen] == [pd.DataFrame, pd.DataFrame]


def test_debias_restore(plugin, forest, rows):
    """What the hook makes of a model and an unfitted estimator is what is scored; other models lose nothing."""
    whole = ToyForest(n_trees=3).fit(*rows)
    plugin(**ADAPTER, debias_restore=lambda model, params: whole if params == "as it was" else None)
    restored = debias.score(forest, *rows, refits=debias.Refits(params="as it was"))
    np.testing.assert_array_equal(restored.values, debias.score(whole, *rows).values)
    with pytest.raises(debias.UnsupportedModelError, match="keeps its hyper-parameters in its file"):
        debias.score(forest, *rows, refits=debias.Refits(params="otherwise"))


def test_debias_unwrap(plugin, forest, rows):
    def unwrap(model):
        if not isinstance(model, SimpleNamespace):
            return None
        names = ("both", "third", "fourth")
        return Unwrapped("Doubled", (Inner(model.forest, "it", columns=np.array([0, 0, 1, 2])),), feature_names=names)

    def unwrap_and_double(model):
        found = unwrap(model)
        if found is None:
            return None
        inner = found.inner[0]
        doubled = Inner(inner.model, inner.name, transform=lambda X: X[:, [0, 0, 1, 2]], columns=inner.columns)
        return Unwrapped(found.kind, (doubled,), feature_names=found.feature_names)

    plugin(**ADAPTER, debias_unwrap=unwrap_and_double)
    X, y = rows
    inner = ToyForest(n_trees=5).fit(X[:, [0, 0, 1, 2]], y)
    outer = debias.score(SimpleNamespace(forest=inner), X[:, :3], y)
    alone = debias.score(inner, X[:, [0, 0, 1, 2]], y).values
    assert outer.feature_names == ("both", "third", "fourth")
    np.testing.assert_allclose(outer.values, [alone[0] + alone[1], alone[2], alone[3]], rtol=1e-12)


def test_debias_load_model(plugin, forest, rows, tmp_path):
    path = tmp_path / "forest.toy"
    path.write_text(json.dumps({"toy": [forest.n_trees, forest.depth, forest.seed]}))

    def load(path, trust):
        return ToyForest(*json.loads(path.read_text())["toy"]).fit(*rows) if path.suffix == ".toy" else None

    plugin(**ADAPTER, debias_load_model=load)
    np.testing.assert_array_equal(debias.load_model(path).predict(rows[0]), forest.predict(rows[0]))


def test_debias_save_model(plugin, forest, tmp_path):
    def save(model, path):
        if path.suffix != ".toy":
            return None
        path.write_text(json.dumps([model.n_trees, model.depth, model.seed]))
        return True

    plugin(debias_save_model=save)
    save_model(forest, tmp_path / "forest.toy")
    assert json.loads((tmp_path / "forest.toy").read_text()) == [forest.n_trees, forest.depth, forest.seed]
    with pytest.raises(debias.UnsupportedModelError, match="a ToyForest cannot be written to a .cbm"):
        save_model(forest, tmp_path / "forest.cbm")
    assert not (tmp_path / "forest.cbm").exists()


def test_debias_download_model(plugin, forest, rows, tmp_path):
    made = []

    def download(address, folder):
        if not address.startswith("toys:/"):
            return None
        made.append(folder / "forest.toy")
        made[-1].write_text(json.dumps([forest.n_trees, forest.depth, forest.seed]))
        return made[-1]

    def load(path):
        return ToyForest(*json.loads(path.read_text())).fit(*rows) if path.suffix == ".toy" else None

    plugin(**ADAPTER, debias_download_model=download, debias_load_model=load)
    np.testing.assert_array_equal(debias.load_model("toys:/best").predict(rows[0]), forest.predict(rows[0]))
    assert not made[0].parent.exists()  # the copy is deleted
    with pytest.raises(debias.UnsupportedModelError, match="no plugin knows the address games:/best"):
        debias.load_model("games:/best")


def test_an_adapter_may_load_directories(plugin, forest, rows, tmp_path):
    folder = tmp_path / "forest"
    folder.mkdir()
    with pytest.raises(debias.UnsupportedModelError, match="has no file MLmodel, and no adapter reads it"):
        debias.load_model(folder)
    (folder / "settings.json").write_text(json.dumps([forest.n_trees, forest.depth, forest.seed]))
    tried = []

    def load(path, try_apart):
        if not (path / "settings.json").is_file():
            return None
        tried.append(try_apart)
        return ToyForest(*json.loads((path / "settings.json").read_text())).fit(*rows)

    plugin(**ADAPTER, debias_load_model=load)
    np.testing.assert_array_equal(debias.load_model(str(folder)).predict(rows[0]), forest.predict(rows[0]))
    assert len(tried) == 1
    folder.joinpath("MLmodel").write_text("flavors: {keras: {data: x}}")
    with pytest.raises(debias.UnsupportedModelError, match="has the flavours keras"):
        debias.load_model(folder)


def test_debias_scorers(plugin, forest):
    @debias.plugin.scorer_plugin("of_this_test", unit="x", needs_rows=False)
    def zeros(ensemble, rows):
        return np.zeros(ensemble.n_features)

    plugin(debias_scorers=lambda: [zeros], **ADAPTER)
    assert debias.score(forest, scorer="of_this_test").values.tolist() == [0] * 4


def test_debias_meta_methods(plugin, forest, rows):
    @debias.plugin.meta_method_plugin("negative", unit="- {unit}")
    def negative(inner, problem):
        return -problem.score(inner)[0], {}

    plugin(debias_meta_methods=lambda: [negative], **ADAPTER)
    plain = debias.score(forest, *rows).values
    np.testing.assert_array_equal(debias.score(forest, *rows, "negative(mdi_oob)").values, -plain)


@pytest.mark.parametrize("hook", sorted(set(ADAPTER) - {"debias_predict_native", "debias_refit"}))
def test_an_error_inside_a_hook_names_plugin_and_hook(plugin, forest, rows, hook):
    def fails(model):
        return {}["no such thing"] if toy.is_mine(model) else None

    plugin(**without("debias_predict_native") | {hook: fails})
    message = f"^{hook} of the plugin 'of_this_test' failed: KeyError: 'no such thing'"
    with pytest.raises(debias.plugin.PluginError, match=message) as raised:
        debias.score(forest, *rows)
    assert isinstance(raised.value.__cause__, KeyError)


def test_an_error_of_the_library_keeps_its_meaning_and_gets_a_note(plugin, forest, rows):
    def fails(model, X):
        raise ValueError("no such town")

    plugin(**ADAPTER | {"debias_predict_native": fails, "debias_refit": fails})
    with pytest.raises(debias.RowsError, match="no such town") as raised:
        debias.score(forest, *rows)
    assert raised.value.__cause__.__notes__ == ["raised in debias_predict_native of the plugin 'of_this_test'"]
    with pytest.raises(debias.RowsError, match="cannot be refitted on the rows passed: no such town") as raised:
        debias.refit(forest, *rows)
    assert raised.value.__cause__.__notes__ == ["raised in debias_refit of the plugin 'of_this_test'"]


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(), MemoryError("full"), RecursionError("deep"), debias.RowsError("rows")]
)
def test_other_errors_pass_through_hooks(plugin, forest, error):
    def fails(model):
        if toy.is_mine(model):
            raise error

    plugin(**ADAPTER | {"debias_extract": fails})
    with pytest.raises(type(error)) as raised:
        debias.plugin.extract(forest)
    assert raised.value is error


def test_an_error_inside_a_scorer_or_meta_method_names_it(plugin, forest, rows):
    @debias.plugin.scorer_plugin("fails_here", unit="x")
    def fails_here(ensemble, rows):
        return 1 / 0

    @debias.plugin.data_scorer_plugin("fails_too", unit="x")
    def fails_too(data):
        raise debias.RowsError("of its own")

    @debias.plugin.meta_method_plugin("around", unit="x")
    def around(inner, problem):
        return problem.score(inner)[0] / [][0], {}

    plugin(debias_scorers=lambda: [fails_here, fails_too], debias_meta_methods=lambda: [around], **ADAPTER)
    with pytest.raises(ZeroDivisionError) as raised:
        debias.score(forest, *rows, "fails_here")
    assert raised.value.__notes__ == ["raised by the scorer fails_here"]
    with pytest.raises(IndexError) as raised:
        debias.score(forest, *rows, "around(mdi_oob)")
    assert raised.value.__notes__ == ["raised by the meta-method around"]
    with pytest.raises(debias.RowsError) as raised:
        debias.score(None, *rows, "fails_too")
    assert not hasattr(raised.value, "__notes__")


def test_debias_commands(plugin):
    @click.command("greet")
    def greet():
        """Print a greeting."""
        click.echo("hello")

    assert CliRunner().invoke(main, ["greet"]).exit_code == 2
    plugin(debias_commands=lambda: [greet])
    done = CliRunner().invoke(main, ["greet"])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "hello\n", "")
    assert re.search(r"^  greet +Print a greeting.$", CliRunner().invoke(main, ["--help"]).stdout, re.MULTILINE)


def test_debias_libraries(plugin):
    from debias.hooks.library import Library
    from debias.hooks.registry import libraries

    library = Library("A library", "numpy", "nothing is trained")
    plugin(debias_libraries=lambda: [library])
    assert libraries()[0] is library  # sorted by name
    assert {"XGBoost", "LightGBM", "scikit-learn"} <= {each.name for each in libraries()}
    with pytest.raises(debias.UnsupportedModelError, match="of these libraries: A library, AutoGluon, CatBoost, "):
        debias.plugin.extract(object())


def test_an_error_in_a_catalogue_names_the_plugin(plugin, forest):
    broken = []

    def scorers():
        return [] if not broken else 1 / 0

    plugin(debias_scorers=scorers)
    broken.append(True)
    for call in (lambda: debias.plugin.scorer("mdi"), debias.plugin.plugins):
        with pytest.raises(debias.plugin.PluginError, match="debias_scorers of the plugin 'of_this_test' failed: Zero"):
            call()


@pytest.mark.parametrize("hook", sorted(each for each in dir(plugin_manager().hook) if each.startswith("debias_")))
def test_every_hook_has_its_test(hook):
    assert callable(getattr(sys.modules[__name__], f"test_{hook}", None)), (
        f"write test_{hook} in this file: what an answer of the hook changes for the user"
    )
