"""Rows that come in parts give the numbers of rows in memory, and what cannot be streamed is refused.

Sources, sums and their files stand in one file: all are compared with the same scores in memory.
"""

import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor, VotingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.rows.node_sums import FORMAT, KIND
from debias.rows.period_sums import PeriodSums
from debias.rows.sealed import seal, unseal
from support import simulated
from support.agreement import assert_same_scores

N_TRAIN, N_FRESH = 900, 2500
MODELS = {
    "forest of classes": lambda: RandomForestClassifier(15, random_state=0),
    "forest of numbers": lambda: RandomForestRegressor(15, random_state=0),
    "xgboost": lambda: XGBClassifier(n_estimators=15, max_depth=4, random_state=0),
    "lightgbm": lambda: LGBMClassifier(n_estimators=15, verbose=-1, random_state=0),
    "three classes": lambda: LGBMClassifier(n_estimators=8, verbose=-1, random_state=0),
    "pipeline": lambda: make_pipeline(StandardScaler(), RandomForestRegressor(10, random_state=0)),
}
SOURCES = ("parquet", "feather", "dataset", "list", "iterator", "repeatable")


class Repeatable:
    """Yields its batches anew whenever it is iterated over."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    X, mean = simulated.rows(N_TRAIN + N_FRESH, 5, simulated.interacting, names="abcde", seed=rng)
    X["d"] = X["d"].round(1)
    weight = rng.uniform(0.0, 2.0, len(X)) * (rng.random(len(X)) > 0.1)
    return X.assign(number=mean, two=(mean > 0).astype(int), three=np.digitize(mean, [-0.7, 0.7]), weight=weight)


@pytest.fixture(scope="module")
def fitted(frame):
    """Return a function that gives a model and the name of its response."""
    train, made = frame[:N_TRAIN], {}

    def get(name):
        if name not in made:
            target = {"forest of numbers": "number", "pipeline": "number", "three classes": "three"}.get(name, "two")
            made[name] = MODELS[name]().fit(train[list("abcde")], train[target]), target
        return made[name]

    return get


def stream(kind, part, target, weight, folder):
    """Return what to pass to score: the rows in one of the forms of a source, and the names of columns."""
    columns = [*"abcde", target, *([] if weight is None else [weight])]
    if kind in ("parquet", "dataset"):
        part[columns].to_parquet(folder / "rows.parquet", row_group_size=333)
        path = folder / "rows.parquet"
        return (str(path) if kind == "parquet" else pyarrow.dataset.dataset(path), target), {"sample_weight": weight}
    if kind == "feather":
        part[columns].reset_index(drop=True).to_feather(folder / "rows.feather", chunksize=400)
        return (folder / "rows.feather", target), {"sample_weight": weight}
    batches = []
    for begin in [0, 1, 8, 500, 1111, 2000]:
        end = {0: 1, 1: 8, 8: 500, 500: 1111, 1111: 2000}.get(begin, len(part))
        rows = part[begin:end]
        batches.append((rows[list("abcde")], rows[target], *([] if weight is None else [rows[weight]])))
    batches = [batch for batch in batches if len(batch[0])]
    return ({"list": batches, "iterator": iter(batches), "repeatable": Repeatable(batches)}[kind],), {}


@pytest.fixture(scope="module")
def in_memory(frame, fitted):
    """Return a function that scores the fresh rows at once, each model, weight and test only once."""
    fresh = frame[N_TRAIN:]

    @cache
    def scores(model, weight, test):
        estimator, target = fitted(model)
        sample_weight = None if weight is None else fresh[weight]
        return quiet(estimator, fresh[list("abcde")], fresh[target], test=test, sample_weight=sample_weight)

    return scores


def parts(frame, n):
    edges = np.linspace(0, len(frame), n + 1).astype(int)
    return [frame[begin:end] for begin, end in zip(edges[:-1], edges[1:], strict=True)]


def quiet(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        return debias.score(*args, **kwargs)


READ = [(model, kind, weight) for model in ("forest of classes", "xgboost") for kind in SOURCES for weight in (0, 1)]
"""A source is read in the same way for every model: all sources with two of them, and the other models with two."""
READ += [(model, *how) for model in MODELS if (model, "list", 0) not in READ for how in (("parquet", 1), ("list", 0))]


@pytest.mark.parametrize(
    ("model", "kind", "weight"), [(*pair, "weight" if weighted else None) for *pair, weighted in READ]
)
def test_fresh_rows_in_parts_give_the_scores_of_rows_in_memory(model, kind, weight, frame, fitted, in_memory, tmp_path):
    estimator, target = fitted(model)
    test = None if kind == "iterator" else "naive"
    given, named = stream(kind, frame[N_TRAIN:], target, weight, tmp_path)
    assert_same_scores(quiet(estimator, *given, test=test, **named), in_memory(model, weight, test))


@pytest.mark.parametrize("scorer", ["oob_loss", "oob_split", "mdi_oob(centre='none')", "ufi", "mdi_oob(shrinkage=20)"])
@pytest.mark.parametrize("model", ["forest of classes", "forest of numbers", "xgboost", "three classes"])
def test_every_node_score_is_streamed(model, scorer, frame, fitted, tmp_path):
    estimator, target = fitted(model)
    fresh, train = frame[N_TRAIN:], frame[:N_TRAIN]
    beside = None if model.startswith("forest") else (train[list("abcde")], train[target])
    if beside is not None and "(s" not in scorer and scorer != "ufi":
        beside = None
    given, named = stream("parquet", fresh, target, "weight", tmp_path)
    found = quiet(estimator, *given, scorer, train=beside, **named)
    expected = quiet(
        estimator, fresh[list("abcde")], fresh[target], scorer, train=beside, sample_weight=fresh["weight"]
    )
    if beside is not None:  # rows in memory are compared with train= one by one
        assert expected.provenance["status"] == "proven held-out"
        expected = replace(expected, provenance=found.provenance)
    assert_same_scores(found, expected)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["parquet", "list", "repeatable"])
@pytest.mark.parametrize("model", ["forest of classes", "forest of numbers", "pipeline"])
def test_training_rows_in_order_are_proven_and_scored_out_of_bag(model, kind, frame, fitted, tmp_path):
    estimator, target = fitted(model)
    train = frame[:N_TRAIN]
    for scorer, test in (("mdi_oob", "conservative"), ("mdi_oob", "naive"), ("ufi", None)):
        given, _ = stream(kind, train, target, None, tmp_path)
        found = quiet(estimator, *given, scorer=scorer, test=test)
        expected = quiet(estimator, train[list("abcde")], train[target], scorer, test=test)
        assert_same_scores(found, expected)
        assert found.rows == "oob"


def test_weighted_training_rows_of_a_forest_whose_bags_were_drawn_by_weight(frame):
    train = frame[:N_TRAIN]
    forest = RandomForestRegressor(12, random_state=1).fit(
        train[list("abcde")], train["number"], sample_weight=train["weight"]
    )
    batches = [
        (train[list("abcde")][a : a + 250], train["number"][a : a + 250], train["weight"][a : a + 250])
        for a in range(0, N_TRAIN, 250)
    ]
    given = (train[list("abcde")], train["number"])
    found = quiet(forest, batches, rows="oob", test="naive")
    assert_same_scores(found, quiet(forest, *given, rows="oob", sample_weight=train["weight"], test="naive"))
    assert found.details["test"]["n_independent"] == int((train["weight"] > 0).sum())


def test_auto_takes_the_test_that_needs_no_permutations(frame, fitted, tmp_path):
    estimator, target = fitted("forest of numbers")
    for part, expected in ((frame[:N_TRAIN], "conservative"), (frame[N_TRAIN : N_TRAIN + 400], "naive")):
        given, _ = stream("parquet", part, target, None, tmp_path)
        assert quiet(estimator, *given, test="auto").details["test"]["method"] == expected


@pytest.mark.parametrize("model", ["forest of numbers", "xgboost", "lightgbm"])
def test_shuffled_training_rows_do_not_pass_as_fresh(model, frame, fitted):
    estimator, target = fitted(model)
    train = frame[:N_TRAIN].sample(frac=1, random_state=3)
    batches = ((train[list("abcde")][a : a + 100], train[target][a : a + 100]) for a in range(0, N_TRAIN, 100))
    with pytest.raises(debias.ProvenanceError, match="training rows"):
        debias.score(estimator, batches)


def test_shuffled_training_rows_in_node_sums_do_not_pass_as_fresh(frame, fitted):
    estimator, target = fitted("lightgbm")
    sums = debias.NodeSums(estimator)
    for part in parts(frame[:N_TRAIN].sample(frac=1, random_state=3), 4):
        sums.update(part[list("abcde")], part[target])
    with pytest.raises(debias.ProvenanceError, match="these are the training rows"):
        debias.score(estimator, sums)


@pytest.mark.parametrize("model", MODELS)
def test_node_sums_kept_up_to_date_on_two_machines_and_stored(model, frame, fitted, tmp_path):
    estimator, target = fitted(model)
    fresh = frame[N_TRAIN:]
    one, other = (debias.NodeSums(estimator, running_loss=True) for _ in range(2))
    for number, part in enumerate(parts(fresh, 7)):
        weight = part["weight"] if number > 3 else None
        (one, other)[number % 2].update(part[list("abcde")], part[target], weight)
    other.save(tmp_path / "sums")
    both = one + debias.NodeSums.load(tmp_path / "sums", estimator)
    weight = np.concatenate([np.ones(len(part)) if k < 4 else part["weight"] for k, part in enumerate(parts(fresh, 7))])
    for scorer in ("mdi_oob", "oob_loss"):
        expected = quiet(estimator, fresh[list("abcde")], fresh[target], scorer, sample_weight=weight)
        assert_same_scores(quiet(estimator, both, scorer=scorer), expected)
    assert one.n_rows + other.n_rows == both.n_rows == N_FRESH


def test_node_sums_learn_the_names_of_columns_from_the_rows_also_from_a_file(frame, tmp_path):
    train, fresh = frame[:N_TRAIN], frame[N_TRAIN:]
    forest = RandomForestRegressor(5, random_state=0).fit(train[list("abcde")].to_numpy(), train["number"])
    sums = debias.NodeSums(forest)
    sums.update(fresh[list("abcde")], fresh["number"])
    sums.save(tmp_path / "sums")
    again = debias.NodeSums.load(tmp_path / "sums", forest)
    assert quiet(forest, again).feature_names == tuple("abcde")
    with pytest.warns(debias.DebiasWarning, match="matched by name"):
        again.update(fresh[list("edcba")], fresh["number"])
    assert np.allclose(quiet(forest, again).values, quiet(forest, sums).values, rtol=1e-12)


def test_faulty_rows_leave_node_sums_as_they_were(frame, fitted):
    estimator, target = fitted("forest of numbers")
    fresh = frame[N_TRAIN:]
    sums = debias.NodeSums(estimator)
    sums.update(fresh[list("abcde")], fresh[target])
    before = quiet(estimator, sums).values
    many = pd.concat([fresh[list("abcde")]] * 28, ignore_index=True)  # more than one block of rows
    many.loc[len(many) - 1, "c"] = np.inf
    with pytest.raises(debias.RowsError, match="'c'.*infinite"):
        sums.update(many, pd.concat([fresh[target]] * 28))
    for wrong in ({"sample_weight": -np.ones(len(fresh))}, {"y": fresh[target][1:]}, {"X": fresh[["a"]]}):
        with pytest.raises(debias.RowsError):
            sums.update(**({"X": fresh[list("abcde")], "y": fresh[target]} | wrong))
    assert (quiet(estimator, sums).values == before).all()


def test_node_sums_of_other_models_are_told_apart(frame, fitted, tmp_path):
    one, _ = fitted("forest of numbers")
    other = RandomForestRegressor(15, random_state=1).fit(frame[list("abcde")], frame["number"])
    sums = debias.NodeSums(one)
    with pytest.raises(debias.RowsError, match="no evaluation rows"):
        debias.score(one, sums)
    with pytest.raises(debias.RowsError, match="another model"):
        debias.score(other, sums)
    with pytest.raises(debias.RowsError, match="two different ensembles"):
        sums + debias.NodeSums(other)
    sums.save(tmp_path / "sums")
    with pytest.raises(debias.RowsError, match="another model"):
        debias.NodeSums.load(tmp_path / "sums", other)
    for content in (b"", b"no sums", b"PK\x03\x04broken"):
        (tmp_path / "broken").write_bytes(content)
        with pytest.raises(debias.RowsError, match="was not written by debias.NodeSums"):
            debias.NodeSums.load(tmp_path / "broken", one)
    np.savez(tmp_path / "numpy.npz", n=np.zeros(3))
    with pytest.raises(debias.RowsError, match="was not written by debias.NodeSums"):
        debias.NodeSums.load(tmp_path / "numpy.npz", one)


@pytest.mark.thorough
def test_an_audit_of_a_file_has_the_numbers_of_memory(frame, fitted, tmp_path):
    forest, target = fitted("forest of numbers")
    fresh = frame.loc[N_TRAIN:, [*"abcde", target]]
    fresh.to_parquet(tmp_path / "fresh.parquet")
    found = debias.audit(forest, tmp_path / "fresh.parquet", target)
    expected = debias.audit(forest, fresh[list("abcde")], fresh[target], test="naive", dependence=False)
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame(), rtol=1e-10)
    assert found.verdict == expected.verdict
    assert found.n_values is None
    assert found.near_duplicates is None
    assert found.fingerprints["model_blake3"] == expected.fingerprints["model_blake3"]
    again = debias.audit(forest, tmp_path / "fresh.parquet", target)
    assert again.fingerprints == found.fingerprints
    fresh.assign(**{target: fresh[target] + 0.5}).to_parquet(tmp_path / "fresh.parquet")
    other = debias.audit(forest, tmp_path / "fresh.parquet", target)
    assert other.fingerprints["data_blake3"] != found.fingerprints["data_blake3"]
    assert found.summary()
    assert found.to_html()


def test_an_audit_refuses_what_needs_all_rows_at_once(frame, fitted, tmp_path):
    forest, target = fitted("forest of numbers")
    frame.loc[N_TRAIN:, [*"abcde", target]].to_parquet(tmp_path / "fresh.parquet")
    needing_all = ({"scorers": ["guide"]}, {"scorers": ["response_permutation(mdi)"]})
    of_rows = ({"blocks": np.arange(5)}, {"qid": np.arange(5)})
    for of_dataset, settings in (*(({}, each) for each in needing_all), *((each, {}) for each in of_rows)):
        with pytest.raises(debias.plugin.CompositionError, match="needs all rows at once: pass X and y in memory"):
            debias.audit(forest, debias.Dataset(tmp_path / "fresh.parquet", target, **of_dataset), **settings)


def test_node_sums_as_bytes(frame, fitted, tmp_path):
    forest, target = fitted("forest of numbers")
    sums = debias.NodeSums(forest)
    sums.update(frame[N_TRAIN:][list("abcde")], frame[target][N_TRAIN:])
    data = sums.to_bytes()
    sums.save(tmp_path / "sums")
    assert data == (tmp_path / "sums").read_bytes()
    for form in (bytes, bytearray, memoryview):
        again = debias.NodeSums.from_bytes(form(data), forest)
        assert all((array == again.state()[name]).all() for name, array in sums.state().items())
    other = RandomForestRegressor(15, random_state=1).fit(frame[list("abcde")], frame["number"])
    flipped = bytearray(data)
    flipped[-1] ^= 1  # in the last array
    for wrong, model, match in (
        (data, other, "data holds node sums of another model"),
        (data[:-100], forest, "data is damaged: its arrays are longer or shorter than its head says"),
        (flipped, forest, "data is damaged: its digest does not fit its contents. Use an undamaged copy"),
        (b"", forest, "data was not written by debias.NodeSums"),
        ("text", forest, "data is a str: pass the bytes that to_bytes returned"),
        (None, forest, "data is a NoneType"),
    ):
        with pytest.raises(debias.RowsError, match=match):
            debias.NodeSums.from_bytes(wrong, model)


@pytest.mark.parametrize(
    ("more", "error", "match"),
    [
        ({"scorer": "permutation"}, debias.plugin.CompositionError, "needs the rows themselves"),
        ({"scorer": "shap"}, debias.plugin.CompositionError, "needs the rows themselves"),
        ({"scorer": "honest_splits"}, debias.DebiasError, "training rows|rows themselves"),
        ({"scorer": "guide"}, debias.plugin.CompositionError, "in memory"),
        ({"scorer": "shadow(mdi)"}, debias.plugin.CompositionError, "in memory"),
        ({"test": "permutation"}, debias.plugin.CompositionError, "needs all rows at once"),
        ({"y": None}, debias.RowsError, "name of the column"),
        ({"y": "nothing"}, debias.RowsError, "no column 'nothing'"),
        ({"sample_weight": np.ones(3)}, debias.RowsError, "no column"),
    ],
)
def test_what_cannot_be_streamed_is_refused(more, error, match, frame, fitted, tmp_path):
    estimator, target = fitted("forest of numbers")
    given, _ = stream("parquet", frame[N_TRAIN:], target, None, tmp_path)
    with pytest.raises(error, match=match):
        quiet(estimator, given[0], **({"y": target} | more))
    with pytest.raises(debias.plugin.CompositionError, match="all rows at once"):
        quiet(estimator, debias.Dataset(given[0], target, blocks=[1]))


def test_what_takes_two_passes_is_refused_of_an_iterator(frame, fitted):
    estimator, target = fitted("forest of numbers")
    train = frame[:N_TRAIN]
    vote = VotingRegressor([("one", estimator), ("two", XGBRegressor(n_estimators=3))]).fit(
        train[list("abcde")], train["number"]
    )
    for model, more in ((estimator, {"test": "naive"}), (estimator, {"rows": "oob"}), (vote, {})):
        batches = iter([(frame[list("abcde")], frame[target])])
        with pytest.raises(debias.DebiasError, match="read only once"):
            debias.score(model, batches, **more)


def test_an_audit_without_a_test_takes_an_iterator(frame, fitted):
    estimator, target = fitted("forest of numbers")
    fresh = frame.loc[N_TRAIN:]
    batches = [(part[list("abcde")], part[target]) for part in parts(fresh, 4)]
    audit = debias.audit(estimator, iter(batches), None, rows="held-out", test=None)
    assert_same_scores(
        audit.tested_scores, debias.score(estimator, fresh[list("abcde")], fresh[target], rows="held-out")
    )
    with pytest.raises(debias.plugin.CompositionError, match="second pass over the rows"):
        debias.audit(estimator, iter(batches), None, rows="held-out")


def test_a_vote_reads_the_rows_once_for_each_member(frame):
    train, fresh = frame[:N_TRAIN], frame[N_TRAIN:]
    members = [("one", RandomForestRegressor(5, random_state=0)), ("two", XGBRegressor(n_estimators=5))]
    vote = VotingRegressor(members).fit(train[list("abcde")], train["number"])
    batches = [(part[list("abcde")], part["number"]) for part in parts(fresh, 3)]
    found = quiet(vote, batches)
    assert_same_scores(found, quiet(vote, fresh[list("abcde")], fresh["number"]))


@pytest.mark.thorough
def test_datasets_of_several_files_and_with_a_filter_score_as_in_memory(frame, fitted, tmp_path):
    estimator, target = fitted("forest of numbers")
    fresh = frame[N_TRAIN:].assign(place=np.where(np.arange(N_FRESH) % 3, "here", "there"))
    fresh[[*"abcde", target, "place"]].to_parquet(tmp_path / "rows", partition_cols=["place"], index=False)
    dataset = pyarrow.dataset.dataset(tmp_path / "rows", format="parquet", partitioning="hive")
    for source, kept in (
        (dataset, fresh.sort_values("place", kind="stable")),
        (dataset.filter(pyarrow.dataset.field("a") < 0.5), fresh[fresh["a"] < 0.5]),
        (dataset.filter(pyarrow.dataset.field("place") == "there"), fresh[fresh["place"] == "there"]),
    ):
        found = quiet(estimator, source, target, test="naive")
        assert_same_scores(found, quiet(estimator, kept[list("abcde")], kept[target], test="naive"))


def test_faults_in_a_batch_are_placed(frame, fitted):
    estimator, target = fitted("forest of numbers")
    X, y = frame[list("abcde")], frame[target]
    with pytest.raises(debias.RowsError, match="begins with row 500.*missing: a; .*zz"):
        debias.score(estimator, [(X[:500], y[:500]), (X[500:].rename(columns={"a": "zz"}), y[500:])])
    with pytest.raises(debias.RowsError, match="batch 1 is a DataFrame"):
        debias.score(estimator, iter([(X[:500], y[:500]), X]), rows="held-out")
    with pytest.raises(debias.RowsError, match="no evaluation rows"):
        debias.score(estimator, iter([]))


def test_files_that_are_none_are_refused(frame, fitted, tmp_path):
    estimator, target = fitted("forest of numbers")
    with pytest.raises(FileNotFoundError):
        debias.score(estimator, tmp_path / "nothing.parquet", target)
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(debias.RowsError, match="end in .parquet"):
        debias.score(estimator, tmp_path / "rows.csv", target)
    (tmp_path / "broken.parquet").write_bytes(b"broken")
    with pytest.raises(debias.RowsError, match="cannot be read as Parquet"):
        debias.score(estimator, tmp_path / "broken.parquet", target)


def test_labels_that_are_sorted_by_class_are_not_taken_for_miscoded_ones(frame):
    train, fresh = frame[:N_TRAIN], frame[N_TRAIN:].sort_values("three", ascending=False)
    booster = LGBMClassifier(n_estimators=5, verbose=-1).fit(train[list("abcde")], train["three"]).booster_
    batches = [(part[list("abcde")], part["three"]) for part in parts(fresh, 4)]
    assert debias.score(booster, iter(batches)).warnings == ()
    rest = fresh[fresh["three"] > 0]
    with (
        pytest.warns(debias.DebiasWarning, match="no label 0"),
        pytest.warns(debias.DebiasWarning, match="differ from the training rows at the splits of the model"),
    ):
        debias.score(booster, iter([(rest[list("abcde")], rest["three"])]))


MEMORY = """
    import resource, sys, warnings
    import numpy as np
    import debias
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    forest = RandomForestRegressor(20, max_depth=6, random_state=0).fit(X, X[:, 0])

    class Drawn:
        def __init__(self, n):
            self.n = n
        def __iter__(self):
            for seed in range(self.n):
                X = np.random.default_rng(seed).normal(size=(50_000, 20))
                yield X, X[:, 0]

    debias.score(forest, Drawn(2), test="naive")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    debias.score(forest, Drawn(12), test="naive")
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="resource is of Unix")
@pytest.mark.integration  # a process of its own that makes 160 MB of rows
def test_memory_does_not_grow_with_the_number_of_rows():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(MEMORY)], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 16  # ten more batches of 8 MB each, gone through twice


def test_leaves_that_are_kept_keep_no_batch_alive():
    """A view of a few rows would hold the leaves of all rows of its batch, and memory grow with the rows."""
    from debias.data.response import encode
    from debias.rows.leaf_counts import LeafCounter
    from debias.trees.routing import KnownLeaves

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    ensemble = debias.plugin.extract(RandomForestRegressor(3, random_state=0).fit(X, y))
    counter = LeafCounter(ensemble, keep=100)
    leaves = np.tile(np.flatnonzero(ensemble.left[: ensemble.tree_start[1]] < 0)[:1], (300, counter.trees.size))
    counter.trees = counter.trees[:1]
    counter._leaf, counter._sums = counter._leaf[:1], counter._sums[:1]
    for _ in range(5):
        counter.add(KnownLeaves(ensemble, leaves[:, :1].astype(np.int32)), encode(y, ensemble, 300))
    assert [len(each) for each in counter._kept] == [100]
    assert all(each.base is None for each in counter._kept)


def small(seed=0):
    X, y = simulated.rows(300, noise=0.3, names="abc", seed=seed)
    return X, y.to_numpy()


def small_forest():
    return RandomForestRegressor(5, min_samples_leaf=5, random_state=0)


def test_sums_of_a_model_that_was_trained_again_are_refused():
    (X, y), (fresh, fresh_y) = small(), small(1)
    forest = small_forest().fit(X, y)
    sums = debias.NodeSums(forest)
    sums.update(fresh, fresh_y)
    forest.fit(X, -X["c"])
    with pytest.raises(debias.RowsError, match="before it was refitted"):
        debias.score(forest, sums)
    with pytest.raises(debias.errors.ExtractionError, match="predict otherwise|other leaves"):
        sums.update(fresh, fresh_y)


def test_a_file_that_lacks_a_column_is_named(tmp_path):
    (X, y), (fresh, fresh_y) = small(), small(1)
    forest = small_forest().fit(X, y)
    table = fresh.assign(y=fresh_y)
    table[:150].to_parquet(tmp_path / "0.parquet")
    table[150:].drop(columns="a").to_parquet(tmp_path / "1.parquet")
    with pytest.raises(debias.RowsError, match="1.parquet has no column a"):
        debias.score(forest, tmp_path, "y", rows="held-out")


@pytest.mark.parametrize("later", ["more", "fewer", "reversed"])
def test_rows_that_change_between_passes_are_refused(later):
    X, y = small()

    class Changing:
        times = 0

        def __iter__(self):
            self.times += 1
            if self.times <= 2 or later == "more":
                yield X, y
            if self.times > 2:
                part = {"more": slice(None), "fewer": slice(100), "reversed": slice(None, None, -1)}[later]
                yield X[part], y[part]

    with pytest.raises(debias.RowsError, match="same rows each time"):
        debias.score(small_forest().fit(X, y), Changing())


def test_sums_with_and_without_the_running_loss_do_not_add():
    (X, y), (fresh, fresh_y) = small(), small(1)
    booster = XGBRegressor(n_estimators=3, max_depth=2, n_jobs=1).fit(X, y)
    having, lacking = debias.NodeSums(booster, running_loss=True), debias.NodeSums(booster)
    for each in (having, lacking):
        each.update(fresh, fresh_y)
    for one, other in ((having, lacking), (lacking, having)):
        with pytest.raises(debias.RowsError, match="running loss"):
            one + other
    nothing = debias.NodeSums(booster, running_loss=True)
    with pytest.raises(debias.plugin.CompositionError, match="no running loss"):
        debias.score(booster, nothing + lacking, scorer="oob_loss")


@pytest.mark.parametrize("kind", [debias.NodeSums, PeriodSums])
def test_merged_sums_are_not_those_that_were_merged(kind):
    (X, y), (fresh, fresh_y) = small(), small(1)
    booster = XGBRegressor(n_estimators=3, max_depth=2, n_jobs=1).fit(X, y)
    options = {"running_loss": True} if kind is debias.NodeSums else {}
    one, other = kind(booster, **options), kind(booster, **options)
    other.update(fresh, fresh_y)
    before = {name: array.copy() for name, array in other.state().items()}
    one.merge(other.state())
    one.update(fresh[:50], fresh_y[:50])
    for name, array in other.state().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_names_are_compared_where_the_model_has_none():
    X, y = small()
    forest = small_forest().fit(X.to_numpy(), y)
    fresh, fresh_y = small(1)
    one, other = debias.NodeSums(forest), debias.NodeSums(forest)
    one.update(fresh, fresh_y)
    other.update(fresh[["c", "b", "a"]], fresh_y)
    with pytest.raises(debias.RowsError, match="same names in the same order"):
        one + other
    with pytest.raises(debias.RowsError, match="same names in the same order"):
        one.update(fresh.rename(columns={"a": "z"}), fresh_y)


def test_what_looks_at_no_rows_scores_a_source_too(tmp_path):
    X, y = small()
    forest = small_forest().fit(X, y)
    fresh, fresh_y = small(1)
    fresh.assign(y=fresh_y).to_parquet(tmp_path / "rows.parquet")
    expected = debias.score(forest, scorer="mdi").values
    for source, name in ((tmp_path / "rows.parquet", "y"), ([(fresh, fresh_y)], None)):
        np.testing.assert_array_equal(debias.score(forest, source, name, scorer="mdi").values, expected)


DAMAGES = {
    "no s": lambda a: a.pop("s"),
    "another array": lambda a: a.update(further=np.zeros(3)),
    "short s": lambda a: a.update(s=a["s"][:1]),
    "s of other type": lambda a: a.update(s=a["s"].astype(np.float32)),
    "n of other shape": lambda a: a.update(n=a["n"][:, None]),
    "weights": lambda a: a.update(totals=2 * a["totals"]),
    "half a row": lambda a: a.update(totals=a["totals"] + [0.5, 0, 0, 0]),
    "nan": lambda a: a["s"].__setitem__(0, np.nan),
    "negative counts": lambda a: a.update(leaf_counts=-a["leaf_counts"]),
    "leaves out of range": lambda a: a.update(leaves_kept=a["leaves_kept"] + 2**20),
    "leaves below 0": lambda a: a.update(leaves_kept=-1 - a["leaves_kept"]),
    "too few leaves": lambda a: a.update(leaves_kept=a["leaves_kept"][:-1]),
    "leaves without counts": lambda a: a.pop("leaf_counts"),
    "rows nobody added": lambda a: a.update(rows_counted=np.array(10**6)),
}


@pytest.fixture
def small_sums():
    (X, y), (fresh, fresh_y) = small(), small(1)
    sums = debias.NodeSums(small_forest().fit(X, y))
    sums.update(fresh, fresh_y)
    return sums


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_sums_are_refused_also_with_the_right_digest(small_sums, damage):
    facts, arrays = unseal(small_sums.to_bytes(), KIND, FORMAT)
    DAMAGES[damage](arrays)
    with pytest.raises(
        debias.RowsError, match=r"(?s)^data is damaged.*NodeSums\(model\)\.update|leaf counts are damaged"
    ):
        debias.NodeSums.from_bytes(seal(KIND, FORMAT, facts, arrays), small_sums.model)


@pytest.mark.parametrize(
    "facts", [{"names": None}, {"names": [1, 2, 3]}, {"names": ["z"]}, {"warnings": "text"}, {"running_loss": None}]
)
def test_damaged_facts_are_refused_also_with_the_right_digest(small_sums, facts):
    known, arrays = unseal(small_sums.to_bytes(), KIND, FORMAT)
    changed = {name: value for name, value in (known | facts).items() if value is not None}
    with pytest.raises(debias.RowsError, match="data is damaged"):
        debias.NodeSums.from_bytes(seal(KIND, FORMAT, changed, arrays), small_sums.model)


def test_any_changed_byte_of_sums_is_found(small_sums):
    data = small_sums.to_bytes()
    assert debias.NodeSums.from_bytes(data, small_sums.model).n_rows == small_sums.n_rows
    rng = np.random.default_rng(0)
    for position in [*range(200), *rng.integers(len(data), size=200)]:
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises(debias.RowsError, match="damaged|of format|of another model"):
            debias.NodeSums.from_bytes(bytes(changed), small_sums.model)


@pytest.mark.thorough
def test_sums_that_would_take_more_memory_than_their_model_are_refused_before_they_are_read(small_sums, tmp_path):
    import tracemalloc

    facts, arrays = unseal(small_sums.to_bytes(), KIND, FORMAT)
    (tmp_path / "large").write_bytes(seal(KIND, FORMAT, facts, arrays | {"n": np.zeros(2**25)}))
    tracemalloc.start()
    with pytest.raises(debias.RowsError, match="'n' does not fit this model"):
        debias.NodeSums.load(tmp_path / "large", small_sums.model)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_sums_of_another_format_say_what_to_do(small_sums):
    newer = seal(KIND, FORMAT + 1, {}, {})
    with pytest.raises(debias.RowsError, match=r"of format 2.*Add the rows up again"):
        debias.NodeSums.from_bytes(newer, small_sums.model)
    with pytest.raises(debias.RowsError, match="was not written by debias.NodeSums"):
        debias.NodeSums.from_bytes(seal("sums of a part", FORMAT, {}, {}), small_sums.model)


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_a_file_whose_notes_for_pandas_are_damaged_is_named(ending, tmp_path):
    (X, y), (fresh, fresh_y) = small(), small(1)
    forest, path = small_forest().fit(X, y), tmp_path / f"rows.{ending}"
    table = pyarrow.Table.from_pandas(fresh.assign(y=fresh_y)).replace_schema_metadata({"pandas": "{"})
    write = pyarrow.parquet.write_table if ending == "parquet" else pyarrow.feather.write_feather
    write(table, path)
    with pytest.raises(debias.RowsError, match="cannot be read"):
        debias.score(forest, path, "y", rows="held-out")


def test_a_file_whose_columns_differ_in_kind_or_stand_in_the_index(tmp_path):
    (X, y), (fresh, fresh_y) = small(), small(1)
    forest = small_forest().fit(X, y)
    table = fresh.assign(y=fresh_y)
    table.set_index("y").to_parquet(tmp_path / "index.parquet")
    expected = debias.score(forest, fresh, fresh_y, rows="held-out").values
    found = debias.score(forest, tmp_path / "index.parquet", "y", rows="held-out").values
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    (tmp_path / "torn.parquet").write_bytes((tmp_path / "index.parquet").read_bytes()[:-200])
    with pytest.raises((debias.RowsError, debias.DebiasError), match="torn.parquet"):
        debias.score(forest, tmp_path / "torn.parquet", "y")
    with pytest.raises(debias.RowsError, match="both the response and the weights"):
        debias.score(forest, tmp_path / "index.parquet", "y", sample_weight="y")
