"""`debias.droppable` against refits and tests made by hand, its errors, and what it must not change."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xgboost
from lightgbm import Booster, LGBMClassifier, LGBMRegressor
from scipy import stats
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.metrics import log_loss, mean_poisson_deviance, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias import Dataset, ProvenanceError, RowsError, UnsupportedModelError
from debias.plugin import CompositionError
from support.versions import at_least

NAMES = ["a", "b", "c", "noise 1", "noise 2"]
BOOSTER = {"n_estimators": 40, "max_depth": 3, "learning_rate": 0.2, "n_jobs": 1, "random_state": 0}


def drawn(n=700, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 5)), columns=NAMES)
    return X, (X["a"] + X["b"] * X["c"] + 0.7 * rng.normal(size=n)).to_numpy()


def divided(X, y, n_train=400):
    return (X[:n_train], y[:n_train]), (X[n_train:], y[n_train:])


def asked(model, X, y, n_train=400, **settings):
    train, held_out = divided(X, y, n_train)
    return debias.droppable(model, *held_out, train=train, **settings)


@pytest.fixture(scope="module")
def booster():
    X, y = drawn(1000, seed=3)  # noise is certified with every version of XGBoost, whose trees differ a little
    return XGBRegressor(**BOOSTER).fit(X[:400], y[:400]), X, y


@pytest.fixture(scope="module")
def result(booster):
    return asked(*booster)


@pytest.mark.quick
def test_what_is_certified_is_a_refit_without_the_columns(booster, result):
    model, X, y = booster
    assert result.columns == result.features == list(result.order[: result.size])
    assert set(result.columns) == {"noise 1", "noise 2"}
    kept = X.drop(columns=result.columns)
    again = debias.refit(model, kept[:400], y[:400], random_state=0, n_jobs=1)
    np.testing.assert_allclose(result.model.predict(kept), again.predict(kept), rtol=1e-6)  # no draws in this booster


def test_estimates_and_statuses_are_those_of_refits_and_tests_by_hand(booster, result):
    model, X, y = booster
    (X_train, y_train), (X_test, y_test) = divided(X, y)
    before = (y_test - model.predict(X_test)) ** 2
    gain = (y_test - y_test.mean()) ** 2 - before
    for k, size in enumerate(result.sizes.tolist()):
        kept = [name for name in X if name not in result.order[:size]]
        refit = debias.refit(model, X_train[kept], y_train, n_jobs=1)
        predicted = refit.predict(X_test[kept])
        risen = (y_test - predicted) ** 2 - before
        assert result.lost[k] == pytest.approx(risen.mean() / gain.mean(), abs=1e-5)
        assert result.to_frame()["R2"].iloc[k] == pytest.approx(r2_score(y_test, predicted), abs=1e-5)
        u = risen - 0.05 * gain
        t = u.mean() / stats.sem(u)
        limit = stats.t.ppf(0.95, u.size - 1)
        assert abs(abs(t) - limit) > 0.01  # libraries round predictions
        assert (result.high[k] < 0.05) == (t < -limit)
        assert (result.low[k] > 0.05) == (t > limit)
    assert result.performance.value == pytest.approx(r2_score(y_test, model.predict(X_test)))


@pytest.mark.thorough
def test_classes_and_counts_are_measured_by_the_loss_of_the_model():
    X, y = drawn()
    labels = np.where(y > 0.5, "yes", "no")
    model = RandomForestClassifier(40, min_samples_leaf=5, random_state=0).fit(X[:400], labels[:400])
    result = asked(model, X, labels, columns=["noise 1", "a"])
    refit = debias.refit(model, X[:400].drop(columns=["noise 1", "a"]), labels[:400], random_state=result_seed(0))
    brier = [
        ((1.0 * (labels[400:] == "yes") - each.predict_proba(rows)[:, 1]) ** 2).mean()
        for each, rows in ((model, X[400:]), (refit, X[400:].drop(columns=["noise 1", "a"])))
    ]
    share = (labels[400:] == "yes").mean()
    constant = share * (1 - share)
    assert result.performance.metric == "Brier score"
    assert result.lost[0] == pytest.approx((brier[1] - brier[0]) / (constant - brier[0]), rel=1e-5)

    codes = np.digitize(y, [-0.5, 0.8])
    model = XGBClassifier(**BOOSTER).fit(X[:400], codes[:400])
    result = asked(model, X, codes, columns=["noise 1"])
    kept = X.drop(columns="noise 1")
    refit = debias.refit(model, kept[:400], codes[:400], n_jobs=1)
    of_model, of_refit = (
        log_loss(codes[400:], each.predict_proba(rows)) for each, rows in ((model, X[400:]), (refit, kept[400:]))
    )
    constant = stats.entropy(np.bincount(codes[400:]))
    assert result.lost[0] == pytest.approx((of_refit - of_model) / (constant - of_model), abs=1e-4)

    counts = np.random.default_rng(1).poisson(np.exp(0.5 + y / 2))
    model = XGBRegressor(objective="count:poisson", **BOOSTER | {"learning_rate": 0.1}).fit(X[:400], counts[:400])
    result = asked(model, X, counts, columns=["noise 1"], rows="held-out")
    refit = debias.refit(model, kept[:400], counts[:400], n_jobs=1)
    of_model, of_refit = (
        mean_poisson_deviance(counts[400:], each.predict(rows))
        for each, rows in ((model, X[400:]), (refit, kept[400:]))
    )
    constant = mean_poisson_deviance(counts[400:], np.full(300, counts[400:].mean()))
    assert result.lost[0] == pytest.approx((of_refit - of_model) / (constant - of_model), abs=1e-4)
    assert result.performance.metric == "Poisson deviance"


def result_seed(number):
    return int(np.random.SeedSequence([0, number]).generate_state(1)[0] >> 1)


@pytest.mark.thorough
def test_the_same_call_gives_the_same_result_serial_and_parallel_and_changes_nothing():
    X, y = drawn(500)
    forest = RandomForestRegressor(20, min_samples_leaf=5).fit(X[:300], y[:300])  # without a seed of its own
    before, state = X.copy(), np.random.get_state()[1].copy()  # noqa: NPY002
    predictions = forest.predict(X)
    one, other = (asked(forest, X, y, 300, n_jobs=n_jobs) for n_jobs in (None, 2))
    assert one.to_json() == other.to_json()
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    pd.testing.assert_frame_equal(X, before)
    np.testing.assert_array_equal(forest.predict(X), predictions)
    assert asked(forest, X, y, 300, random_state=1).to_json() != one.to_json()


def test_a_group_is_dropped_as_one(booster):
    model, X, y = booster
    result = asked(model, X, y, groups={"noise": ["noise 1", "noise 2"]})
    assert result.feature_names == ("a", "b", "c", "noise")
    assert result.features == ["noise"]
    assert result.columns == ["noise 1", "noise 2"]
    assert result.model.n_features_in_ == 3


def test_one_set_can_be_named_and_needs_one_fit(booster):
    model, X, y = booster
    result = asked(model, X, y, columns=["noise 2", "noise 1"])
    assert (result.path, result.n_fits, result.sizes.tolist()) == ("given", 1, [2])
    assert [status.value for status in result.status] == ["certified"]
    assert [status.value for status in asked(model, X, y, columns=["a"]).status] == ["do not drop together"]


def test_weights_and_blocks_are_those_of_rows_repeated(booster):
    _, X, y = booster
    weight = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    model = XGBRegressor(**BOOSTER).fit(X[:400], y[:400], sample_weight=weight[:400])
    train = Dataset(X[:400], y[:400], sample_weight=weight[:400])
    block = np.arange(600) // 3
    repeated = np.repeat(np.arange(400, 1000), weight[400:].astype(int))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)  # repeated rows
        weighted, by_row = (
            debias.droppable(model, rows, train=train, rows="held-out", columns=["noise 1"])
            for rows in (
                Dataset(X[400:], y[400:], sample_weight=weight[400:], blocks=block),
                Dataset(X.iloc[repeated], y[repeated], blocks=block[repeated - 400]),
            )
        )
    assert weighted.n_independent == by_row.n_independent == 200
    for name in ("lost", "low", "high"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(by_row, name), rtol=1e-6)
    assert weighted.units == "blocks of held-out rows"


@pytest.mark.thorough
def test_columns_of_a_pipeline_are_those_of_the_user():
    X, y = drawn()
    X["kind"] = pd.Categorical(np.random.default_rng(1).choice(list("uvw"), len(X)))
    y = y + 1.5 * (X["kind"] == "u").to_numpy()
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    by_type = make_column_transformer(
        (encoder, make_column_selector(dtype_include="category")), remainder="passthrough"
    )
    forest = RandomForestRegressor(30, min_samples_leaf=3, random_state=0)
    model = make_pipeline(by_type, forest).fit(X[:400], y[:400])
    result = asked(model, X, y, tolerance=0.1)
    assert set(result.feature_names) == set(X)
    assert {"noise 1", "noise 2"} <= set(result.columns)
    assert "kind" not in result.columns
    result.model.predict(X.drop(columns=result.columns))

    named = make_pipeline(make_column_transformer((encoder, ["kind"]), remainder="passthrough"), forest)
    with pytest.raises(RowsError, match="cannot be trained without kind: .*choose them by type"):
        asked(named.fit(X[:400], y[:400]), X, y, columns=["kind"])
    numbers = X[NAMES]
    scaled = make_pipeline(StandardScaler(), forest).fit(numbers[:400], y[:400])
    assert asked(scaled, numbers, y, columns=["noise 1"]).columns == ["noise 1"]
    mixed = make_pipeline(PolynomialFeatures(2), forest).fit(numbers[:400], y[:400])
    with pytest.raises(CompositionError, match=r"makes columns of several columns of X \(a \+ b"):
        asked(mixed, numbers, y)


@pytest.mark.thorough
def test_containers_give_the_same_result(booster):
    import polars

    _, X, y = booster
    array = X.to_numpy()
    model = XGBRegressor(**BOOSTER).fit(array[:400], y[:400])
    plain = asked(model, array, y)
    named = debias.droppable(
        model, Dataset(array[400:], y[400:], feature_names=NAMES), train=Dataset(array[:400], y[:400])
    )
    frame = polars.DataFrame(X[NAMES[::-1]].to_dict("list"))  # held-out columns in another order
    of_frame = XGBRegressor(**BOOSTER).fit(X[:400], y[:400])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        ordered = debias.droppable(of_frame, frame[400:], y[400:], train=(X[:400], y[:400]))
    np.testing.assert_allclose(plain.lost, named.lost)
    np.testing.assert_allclose(plain.lost, ordered.lost, rtol=1e-6)
    assert named.columns == ordered.columns == [NAMES[int(name[1:])] for name in plain.columns]


def test_categories_stay_categories_of_the_same_columns_in_refits(tmp_path):
    X, y = drawn()
    X["kind"] = np.random.default_rng(1).choice(5, len(X))
    y = y + np.array([2.0, -1.0, 0.5, -2.0, 1.0])[X["kind"]]
    settings = {"n_estimators": 40, "num_leaves": 7, "verbosity": -1, "n_jobs": 1}
    model = LGBMRegressor(**settings).fit(X[:400], y[:400], categorical_feature=["kind"])
    result = asked(model, X, y, columns=["noise 1", "a"])
    kept = X.drop(columns=["noise 1", "a"])
    by_hand = LGBMRegressor(**settings).fit(kept[:400], y[:400], categorical_feature=["kind"])
    before, after = (((y[400:] - each) ** 2).mean() for each in (model.predict(X[400:]), by_hand.predict(kept[400:])))
    assert result.lost[0] == pytest.approx((after - before) / (y[400:].var() - before), abs=1e-6)
    model.booster_.save_model(tmp_path / "model.txt")
    from_file = asked(Booster(model_file=tmp_path / "model.txt"), X, y, columns=["noise 1", "a"])  # it has positions
    assert from_file.lost == pytest.approx(result.lost, abs=1e-6)
    positions = LGBMRegressor(**settings).fit(X.to_numpy()[:400], y[:400], categorical_feature=[5])
    with pytest.raises(RowsError, match="categories in some of its 6 columns by position"):
        asked(positions, X.to_numpy(), y, columns=["Column_0"])


def test_categories_of_catboost_stay_categories_in_refits():
    catboost = pytest.importorskip("catboost")
    X, y = drawn()
    X["kind"] = np.random.default_rng(1).choice(5, len(X))
    y = y + np.array([2.0, -1.0, 0.5, -2.0, 1.0])[X["kind"]]
    words = X.assign(kind=X["kind"].map(str))
    cat = catboost.CatBoostRegressor(
        iterations=40, depth=3, cat_features=["kind"], max_ctr_complexity=1, verbose=0, allow_writing_files=False
    ).fit(words[:400], y[:400])
    result = asked(cat, words, y, columns=["noise 1", "noise 2"], rows="held-out")
    assert result.lost[0] < 0.2  # the category is still one: without it, more than half of the gain is lost
    assert asked(cat, words, y, columns=["kind"], rows="held-out").lost[0] > 0.3


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"tolerance": 0}, CompositionError, "tolerance=0 must be between 0 and 1"),
        ({"tolerance": True}, CompositionError, "tolerance=True"),
        ({"alpha": 1.5}, CompositionError, "alpha must be between 0 and 1"),
        ({"folds": 1}, CompositionError, "folds=1 must be a whole number, 2 or more"),
        ({"folds": 250}, RowsError, "too few for 250 folds"),
        ({"rows": "oob"}, CompositionError, "rows='oob' cannot be used"),
        ({"columns": ["nose 1"]}, RowsError, "'nose 1', which is no feature .* Did you mean 'noise 1'"),
        ({"columns": NAMES}, RowsError, "one or more, and not all of them"),
        ({"columns": []}, RowsError, "one or more"),
        ({"groups": {"all": NAMES}}, CompositionError, "there is one feature, 'all'"),
        ({"refits": debias.Refits(budget=3.0)}, CompositionError, "no time limit"),
    ],
)
def test_arguments_without_a_meaning_are_refused(booster, settings, error, match):
    with pytest.raises(error, match=match):
        asked(*booster, **settings)


def test_a_model_of_resampled_rows_is_refused_with_the_cause():
    """Its probabilities fail, and not the response: checking y would lead nowhere."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2400, 4))
    y = (X[:, 0] + 0.7 * rng.normal(size=2400) > 1.6).astype(int)
    rare = np.flatnonzero(y[:1600])
    drawn = np.concatenate([rare, rng.choice(np.flatnonzero(y[:1600] == 0), rare.size, replace=False)])
    train = X[drawn], y[drawn]
    model = LGBMClassifier(n_estimators=20, min_child_samples=5, verbose=-1).fit(*train)
    warned = pytest.warns(debias.DebiasWarning, match="on rows drawn by class")
    with (
        warned,
        pytest.raises(RowsError, match="no gain .* The model gives class 1 .* without class weights or resampling"),
    ):
        debias.droppable(model, X[1600:], y[1600:], train=train)


@pytest.mark.thorough
def test_rows_that_cannot_certify_are_refused(booster):
    model, X, y = booster
    train, held_out = divided(X, y)
    with pytest.raises(RowsError, match=r"pass its training rows as train=\(X_train, y_train\)"):
        debias.droppable(model, *held_out, train=None)
    with pytest.raises(RowsError, match="pass the model, X and y"):
        debias.droppable(model, None, train=train)
    with pytest.raises(RowsError, match="does not predict these rows better than a constant"):
        debias.droppable(model, held_out[0], np.random.default_rng(0).permutation(held_out[1]), train=train)
    forest = RandomForestRegressor(30, random_state=0).fit(*train)
    with pytest.raises(ProvenanceError, match="training rows of the model"):
        debias.droppable(forest, *train, train=train)
    with pytest.raises(ProvenanceError, match="also in train="):
        debias.droppable(forest, X[300:600], y[300:600], train=train)
    for stated in (X[:400], X[200:600]):  # training rows, and some of them, that are said to be held out
        warned = pytest.warns(debias.DebiasWarning, match="are also in train=")
        with warned, pytest.raises(RowsError, match="of the evaluation rows are also in train="):
            debias.droppable(model, stated, y[stated.index], train=train, rows="held-out")
    with pytest.raises(ProvenanceError):  # train= are not the training rows
        debias.droppable(forest, *held_out, train=(X[100:400], y[100:400]))
    exchanged = pytest.raises((ProvenanceError, debias.DebiasWarning), match="train does not look like the training")
    with exchanged:
        debias.droppable(model, *train, train=held_out)
    with pytest.raises(ProvenanceError, match="train does not look like the training"):  # also by its units
        debias.droppable(model, *train, train=(held_out[0], 30 * held_out[1]))


@pytest.mark.thorough
def test_models_that_cannot_be_compared_are_refused(booster):
    _, X, y = booster
    vote = VotingRegressor([("one", XGBRegressor(**BOOSTER)), ("two", GradientBoostingRegressor(n_estimators=9))])
    with pytest.raises(CompositionError, match="combines several models of trees"):
        asked(vote.fit(X[:400], y[:400]), X, y)
    monotone = XGBRegressor(monotone_constraints=(1, 0, 0, 0, 0), **BOOSTER).fit(X[:400], y[:400])
    with pytest.raises(UnsupportedModelError, match="setting monotone_constraints"):
        asked(monotone, X, y)
    for constraints in ("(1,0,0,0,0)", "(1,0)"):
        settings = {"max_depth": 3, "monotone_constraints": constraints}
        trained = xgboost.train(settings, xgboost.DMatrix(X[:400], y[:400]), 20)
        with pytest.raises(RowsError, match="has monotone_constraints by the positions of its 5 columns"):
            asked(trained, X, y, columns=["noise 1"])
    custom = XGBRegressor(objective=lambda y, margin: (margin - y, np.ones(len(y))), **BOOSTER).fit(X[:400], y[:400])
    with pytest.raises(CompositionError, match="droppable compares losses, and a custom objective gives only its grad"):
        asked(custom, X, y)  # before the user is asked whether the rows are held out
    weighted = RandomForestRegressor(9, random_state=0).fit(X[:400], y[:400], np.linspace(1, 2, 400))
    with pytest.raises(
        ProvenanceError,
        match="trained with sample_weight" if at_least("scikit-learn", "1.9") else "the weights are different",
    ):
        asked(weighted, X, y, rows="held-out")


def test_steps_that_mix_all_columns_are_refused_with_what_helps_here(booster):
    """The advice of other questions, level="model", is none here: `droppable` drops columns of X."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    mixed = make_pipeline(PCA(3), XGBRegressor(n_estimators=3, n_jobs=1)).fit(X[:200], y[:200])
    what_helps = "Pass the model inside, with the rows as its steps transform them"
    with pytest.raises(CompositionError, match=what_helps) as told:
        debias.droppable(mixed, X[200:], y[200:], train=(X[:200], y[:200]))
    assert "level" not in str(told.value)


def test_progress_counts_the_refits(booster):
    seen = []
    with debias.show_progress(lambda done, total: seen.append((done, total))):
        asked(*booster)
    assert (3, 3) in seen  # models of folds
    assert (4, 4) in seen  # sets: 1, 2, 3 and 4 of 5 features


@pytest.mark.thorough
def test_the_refitted_path_trains_the_models_of_folds_at_each_size(booster):
    result = asked(*booster, refit_path=True)
    assert (result.path, result.n_fits) == ("refitted", 4 + 3 * 4)
    assert set(result.columns) == {"noise 1", "noise 2"}


@pytest.mark.thorough
def test_of_many_features_several_are_dropped_at_a_time_and_it_is_said():
    X, y = drawn()
    noise = np.random.default_rng(5).normal(size=(len(X), 37))
    X = X.join(pd.DataFrame(noise, columns=[f"z{k}" for k in range(37)]))
    model = XGBRegressor(**BOOSTER | {"n_estimators": 60}).fit(X[:400], y[:400])
    result = asked(model, X, y, tolerance=0.2)
    assert result.at_a_time == 2
    assert "so 2 were dropped at a time" in " ".join(result.summary())
    assert not {"a", "b", "c"} & set(result.columns)
    assert len(result.columns) >= 20


@pytest.mark.slow
def test_certificates_of_whole_runs_are_wrong_in_at_most_alpha_of_draws():
    """Each draw has new training rows and held-out rows; the true loss of the refit is that on 20,000 rows."""
    from sklearn.metrics import mean_squared_error

    wrong, n_draws = 0, 150
    X_new, y_new = weak(20_000, 10_000)
    for seed in range(n_draws):
        X, y = weak(450, seed)
        model = XGBRegressor(**BOOSTER | {"n_estimators": 30}).fit(X[:250], y[:250])
        try:
            result = asked(model, X, y, 250, tolerance=0.1, random_state=seed)
        except RowsError:  # no gain beyond chance: nothing is certified
            continue
        if not result.columns:
            continue
        before = mean_squared_error(y_new, model.predict(X_new))
        after = mean_squared_error(y_new, result.model.predict(X_new.drop(columns=result.columns)))
        wrong += (after - before) / (y_new.var() - before) > 0.1
    assert wrong / n_draws < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_draws)


def weak(n, seed):
    """Ten features whose effects fall from strong to none, so that no size is clearly right."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 10)), columns=[f"x{k}" for k in range(10)])
    return X, X.to_numpy() @ 0.8 ** np.arange(10) + rng.normal(size=n)


@pytest.mark.thorough
def test_a_column_made_from_the_response_is_told_before_all_others_are_dropped():
    X, y = drawn()
    with_leak = X.assign(leak=2 * y + 0.01 * np.random.default_rng(5).normal(size=y.size))
    model = XGBRegressor(**BOOSTER).fit(with_leak[:400], y[:400])
    audited = debias.audit(model, with_leak[400:], y[400:], train=(with_leak[:400], y[:400]))
    (of_audit,) = [line for line in audited.summary() if "may be a leak" in line]
    for columns in (None, ["a", "b"], ["leak", "a"]):
        found = asked(model, with_leak, y, columns=columns)
        (told,) = [line for line in found.summary() if "may be a leak" in line]
        assert told == f"{of_audit} If so, take it out and train the model again, before you drop others."
    few = debias.droppable(
        model, with_leak[400:425], y[400:425], train=(with_leak[:400], y[:400]), columns=["a"], tolerance=0.2
    )
    assert not any("may be a leak" in line for line in few.summary())  # as in audits, of fewer than 30 rows


def test_no_column_is_called_a_leak_without_one(result):
    assert not any("may be" in line and "leak" in line for line in result.summary())


@pytest.mark.filterwarnings("ignore:these rows differ from the training rows:debias.DebiasWarning")
@pytest.mark.filterwarnings("ignore:rows that are near in:debias.DebiasWarning")
def test_rows_of_subjects_are_told_unless_they_are_passed_in_blocks():
    rng = np.random.default_rng(6)
    subject = np.repeat(np.arange(200), 5)
    X = pd.DataFrame(rng.normal(size=(200, 5))[subject] + 0.1 * rng.normal(size=(1000, 5)), columns=NAMES)
    y = (2 * X["a"] + X["b"] + rng.normal(size=200)[subject] + 0.3 * rng.normal(size=1000)).to_numpy()
    model = XGBRegressor(**BOOSTER).fit(X[:500], y[:500])
    with pytest.warns(debias.DebiasWarning, match="consecutive rows are alike.*sets are certified too often"):
        found = asked(model, X, y, n_train=500, columns=["noise 1"])
    assert any("The tests take rows as independent" in line for line in found.summary())
    held_out = Dataset(X[500:], y[500:], blocks=subject[500:])
    in_blocks = debias.droppable(model, held_out, train=(X[:500], y[:500]), columns=["noise 1"])
    assert not any("alike" in text for text in [*in_blocks.warnings, *in_blocks.summary()])


def test_more_training_rows_than_the_model_had_are_told(booster):
    model, X, y = booster
    with pytest.warns(debias.DebiasWarning, match="grown on about 400 of the 700 rows of train=. Refits"):
        debias.droppable(model, X[700:], y[700:], train=(X[:700], y[:700]), columns=["noise 1"])


@pytest.mark.filterwarnings(
    "ignore:.* of the rows repeat:debias.DebiasWarning", "ignore:consecutive rows are alike:debias.DebiasWarning"
)
def test_the_gate_does_not_judge_on_rows_that_look_alike(booster):
    model, X, y = booster
    twice = np.repeat(np.arange(400, 1000), 2)
    noise = ["noise 1", "noise 2"]
    found = debias.droppable(model, X.iloc[twice], y[twice], train=(X[:400], y[:400]), columns=noise, tolerance=0.2)
    assert found.status[0] == "certified"
    (judged,) = found.check({"may_drop": noise}).results
    assert judged.status == "not judged"
    assert judged.reason.endswith("but some rows are alike, which the tests take as independent: pass blocks")
    assert any(
        "A kind of row that is rarer than 1 in 400 may not be among the held-out ones" in text
        for text in found.summary()
    )


def test_a_set_too_large_for_the_settings_of_the_model_is_told_with_what_to_do():
    X, y = drawn()
    bagged = BaggingRegressor(n_estimators=10, max_features=3, random_state=0).fit(X[:400], y[:400])
    with pytest.raises(RowsError, match=r"max_features must be <= n_features\. Smaller sets may work: pass columns="):
        asked(bagged, X, y, tolerance=0.2)


def test_the_response_with_the_largest_variance_is_told():
    X, y = drawn()
    both = np.column_stack([y, 100 * X["c"]])
    model = XGBRegressor(**BOOSTER).fit(X[:400], both[:400])
    with pytest.warns(debias.DebiasWarning, match="2 responses: .* Column 2 of y has more than 99.9% of the"):
        asked(model, X, both, columns=["noise 1"])
