"""Held-out rows of weight 0 change nothing: neither scores nor errors, draws, proofs, counts or numbers of rows."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import KFold
from xgboost import XGBRegressor

import debias
from debias.errors import DebiasError, ProvenanceError

MODELS = [RandomForestRegressor(20, max_depth=4, random_state=0), XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1)]
ANSWERS = {
    "audit": lambda model, given, train, **how: debias.audit(model, given, train=train, **how),
    "audit(rows='auto')": lambda model, given, train, **how: debias.audit(model, given, random_state=0),
    "naive": lambda model, given, train, **how: debias.score(model, given, test="naive", **how),
    "permutation": lambda model, given, train, **how: debias.score(model, given, scorer="permutation", **how),
    "oob_loss": lambda model, given, train, **how: debias.score(model, given, scorer="oob_loss(p_values=True)", **how),
    "clusters": lambda model, given, train, **how: debias.clusters(
        model, given, least_likeness=0.3, n_permutations=20, **how
    ),
    "compare": lambda model, given, train, **how: debias.compare(model, given, **how),
    "pairs": lambda model, given, train, **how: debias.compare(model, given, of="pairs", **how),
    "droppable": lambda model, given, train, **how: debias.droppable(
        model, given, train=train, columns=["few"], tolerance=0.5, **how
    ),
}


@pytest.fixture(scope="module")
def training_rows():
    return rows_of(150, seed=1)


def rows_of(number, seed):
    random = np.random.default_rng(seed)
    X = pd.DataFrame(random.normal(size=(number, 4)), columns=["x", "other", "few", "noise"])
    X["few"] = X["few"].round()
    X["other"] += X["x"]
    return X, (X["x"] * 2 + X["few"] + 0.5 * random.normal(size=number)).to_numpy()


def with_more(X, y, further):
    """Return a Dataset of rows among which are further rows of weight 0, in a random order."""
    more, of_more = further
    is_used = np.arange(len(y) + len(of_more)) < len(y)
    mixed = np.random.default_rng(0).permutation(is_used)
    order = np.empty(mixed.size, dtype=int)
    order[mixed], order[~mixed] = np.arange(len(y)), np.arange(len(y), mixed.size)
    of_rows = np.append(y, of_more)[order]
    all_rows = pd.concat([X, more], ignore_index=True).iloc[order]
    return debias.Dataset(all_rows, of_rows, sample_weight=mixed.astype(float)), mixed


def told(answer):
    """Return all that an answer tells, without the digest of the rows."""
    found = json.loads(answer.to_json())
    found.pop("fingerprints", None)
    found.get("provenance", {}).pop("data_blake3", None)
    return found


@pytest.mark.parametrize("what", ANSWERS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_rows_of_weight_0_change_no_answer(model, what, training_rows):
    model.fit(*training_rows)
    X, y = rows_of(120, seed=2)
    more, of_more = rows_of(40, seed=3)
    mixed, _ = with_more(X, y, (more * 3, of_more * 100))
    how = {"rows": "held-out", "random_state": 0}
    expected = ANSWERS[what](model, debias.Dataset(X, y, sample_weight=np.ones(len(y))), training_rows, **how)
    assert told(ANSWERS[what](model, mixed, training_rows, **how)) == told(expected)


@pytest.mark.parametrize(
    "model", [*MODELS, GradientBoostingRegressor(n_estimators=10)], ids=lambda model: type(model).__name__
)
def test_training_rows_are_not_hidden_among_rows_of_weight_0(model, training_rows):
    model.fit(*training_rows)
    mixed, _ = with_more(training_rows[0].iloc[::-1], training_rows[1][::-1], rows_of(600, seed=4))
    with pytest.raises(ProvenanceError):
        debias.audit(model, mixed, test=None)


def test_training_rows_of_weight_0_are_no_training_rows_of_the_evaluation(training_rows):
    model = GradientBoostingRegressor(n_estimators=10).fit(*training_rows)
    X, y = rows_of(120, seed=2)
    mixed, _ = with_more(X, y, training_rows)
    alone = debias.score(model, debias.Dataset(X, y, sample_weight=np.ones(len(y))))
    found = debias.score(model, mixed)
    assert found.provenance == alone.provenance
    np.testing.assert_array_equal(found.values, alone.values)


def test_rows_of_weight_0_keep_their_place_in_contributions(training_rows):
    model = MODELS[1].fit(*training_rows)
    X, y = rows_of(120, seed=2)
    mixed, is_used = with_more(X, y, rows_of(40, seed=3))
    of_rows = debias.contributions(model, mixed, rows="held-out")
    assert of_rows.index.equals(mixed.X.index)
    assert (of_rows[~is_used] == 0).all(axis=None)
    np.testing.assert_array_equal(of_rows[is_used], debias.contributions(model, X, y, rows="held-out"))


def test_bags_know_training_rows_of_weight_0_by_their_place(training_rows):
    X, y = training_rows
    weight = np.random.default_rng(0).permutation(np.repeat([0.0, 1.0], [50, 100]))
    # So many trees that each row is out of some bag, whatever the version draws.
    forest = RandomForestRegressor(60, max_depth=4, random_state=0).fit(X, y, sample_weight=weight)
    scores = debias.score(forest, X, y, sample_weight=weight)
    assert (scores.rows, scores.n_rows, scores.provenance["status"]) == ("oob", 100, "proven")


@pytest.mark.parametrize("waits", [False, True])
def test_histories_keep_nothing_of_rows_of_weight_0(waits, training_rows, tmp_path):
    model = MODELS[1].fit(*training_rows)
    histories = [debias.History(model, tmp_path / name) for name in ("alone", "mixed")]
    for day in range(4):
        X, y = rows_of(60, seed=10 + day)
        mixed, _ = with_more(X, y, rows_of(20, seed=20 + day))
        mixed.X.iloc[np.flatnonzero(mixed.sample_weight == 0)[1]] = mixed.X.iloc[
            np.flatnonzero(mixed.sample_weight == 0)[0]
        ]  # a repeated row
        of_rows = debias.Dataset(X, y, sample_weight=np.ones(len(y)))
        for history, rows in zip(histories, (of_rows, mixed), strict=True):
            response = None if waits and day == 3 else rows.y
            history.add(rows.X, response, sample_weight=rows.sample_weight, at=day)
    alone, mixed = (each.changes(recent=2, reference="first 2").to_json() for each in histories)
    assert alone == mixed
    pd.testing.assert_frame_equal(*(each.standard_errors() for each in histories))
    assert (histories[1].periods["n_rows"] == 60).all()


def test_rows_in_batches(training_rows):
    model = MODELS[1].fit(*training_rows)
    X, y = rows_of(120, seed=2)
    mixed, _ = with_more(X, y, rows_of(40, seed=3))

    def in_batches(rows):
        half = len(rows.y) // 2
        return [(rows.X[part], rows.y[part], rows.sample_weight[part]) for part in (slice(half), slice(half, None))]

    alone = debias.Dataset(X, y, sample_weight=np.ones(len(y)))
    found, expected = (debias.score(model, in_batches(each), rows="held-out", test="naive") for each in (mixed, alone))
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)
    np.testing.assert_allclose(found.standard_error, expected.standard_error, rtol=1e-12)
    np.testing.assert_allclose(found.p_value, expected.p_value, rtol=1e-12)


@pytest.mark.parametrize("where", [0, 1, 2])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_batches_of_rows_of_weight_0(model, where, training_rows, tmp_path):
    model.fit(*training_rows)
    X, y = rows_of(120, seed=2)
    batches = [(X[:60], y[:60], np.ones(60)), (X[60:], y[60:], np.ones(60))]
    more, of_more = rows_of(40, seed=3)
    nothing = (more * 3, of_more * 100, np.zeros(40))
    both = batches, [*batches[:where], nothing, *batches[where:]]
    found, expected = (debias.score(model, each, rows="held-out", test="naive") for each in both)
    for name in ("values", "standard_error", "p_value"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    found, expected = (debias.audit(model, each, rows="held-out", random_state=0) for each in both)
    assert told(found) == told(expected)
    history = debias.History(model, tmp_path / "x.history")
    history.add(both[0], at=1, rows="held-out")
    assert not history.add(both[1], at=1, rows="held-out")  # the same rows
    with pytest.raises(DebiasError, match="there are no evaluation rows: none has a weight above 0"):
        debias.score(model, [nothing, nothing], rows="held-out")


def test_classes_only_of_rows_that_count(training_rows):
    X, y = training_rows
    model = GradientBoostingClassifier(n_estimators=5).fit(X, y > 0)
    given = debias.Dataset(*rows_of(120, seed=2))
    weight = (given.X["x"] > -1).to_numpy().astype(float)
    is_used = weight > 0
    how = {"rows": "held-out", "random_state": 0}
    found = debias.audit(model, given.X, given.y > 0, sample_weight=weight, **how)
    expected = debias.audit(model, given.X[is_used], given.y[is_used] > 0, sample_weight=weight[is_used], **how)
    assert told(found) == told(expected)


@pytest.mark.thorough
def test_folds_with_rows_of_weight_0():
    X, y = rows_of(180, seed=1)
    more, of_more = rows_of(45, seed=3)
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    models = [XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X.iloc[train], y[train]) for train, _ in folds]
    how = {"random_state": 0, "interactions": [("x", "few")]}
    expected = debias.audit_folds(models, X, y, folds, sample_weight=np.ones(180), **how)
    of_all = pd.concat([X, more * 3], ignore_index=True), np.append(y, of_more * 100)
    wider = [(train, np.append(test, np.arange(180 + k, 225, 3))) for k, (train, test) in enumerate(folds)]
    found = debias.audit_folds(models, *of_all, wider, sample_weight=np.repeat([1.0, 0.0], [180, 45]), **how)
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame())
    pd.testing.assert_frame_equal(found.interactions.to_frame(), expected.interactions.to_frame())
    assert found.summary() == expected.summary()
