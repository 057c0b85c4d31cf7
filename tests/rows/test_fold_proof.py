"""The proof of the rows of folds: right folds are proven or said to be unknown, wrong ones are refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, StratifiedKFold, TimeSeriesSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder
from sklearn.tree import DecisionTreeRegressor
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.api.audit import audit_of_fold
from debias.data.chosen_rows import taken
from debias.errors import DebiasWarning, ProvenanceError, RowsError, UnsupportedModelError
from debias.models.folds import Fold, folds_of
from debias.results.vocabulary import PROVEN_HELD_OUT
from debias.rows.fold_proof import prove_folds
from support import simulated

N_ROWS, K = 300, 4
OF_NUMBERS = {
    "forest": lambda: RandomForestRegressor(8, random_state=0),
    "shallow forest": lambda: RandomForestRegressor(8, max_depth=2, random_state=0),
    "bagging": lambda: BaggingRegressor(n_estimators=8, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(8, random_state=0),
    "tree": lambda: DecisionTreeRegressor(random_state=0),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=8, random_state=0),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=8, early_stopping=True, random_state=0),
    "xgboost": lambda: XGBRegressor(n_estimators=8, n_jobs=1),
    "xgboost, stumps": lambda: XGBRegressor(n_estimators=8, max_depth=1, n_jobs=1),
    "lightgbm": lambda: LGBMRegressor(n_estimators=8, verbose=-1, n_jobs=1),
    "catboost": lambda: pytest.importorskip("catboost").CatBoostRegressor(
        iterations=8, verbose=0, allow_writing_files=False, thread_count=1
    ),
    "scaled forest": lambda: make_pipeline(StandardScaler(), RandomForestRegressor(8, random_state=0)),
    "scaled xgboost": lambda: make_pipeline(StandardScaler(), XGBRegressor(n_estimators=8, n_jobs=1)),
}
OF_CLASSES = {
    "balanced forest": lambda: RandomForestClassifier(8, class_weight="balanced", random_state=0),
    "xgboost": lambda: XGBClassifier(n_estimators=8, n_jobs=1),
    "xgboost, weighted": lambda: XGBClassifier(n_estimators=8, scale_pos_weight=3, n_jobs=1),
    "lightgbm": lambda: LGBMClassifier(n_estimators=8, class_weight="balanced", verbose=-1, n_jobs=1),
}
CATBOOST = pytest.param("catboost", marks=pytest.mark.integration)
SWAPPED = [1, 0, 2, 3]


def data(task="numbers", n=N_ROWS):
    cuts = None if task == "numbers" else [-0.5, 0.7] if task == "three" else [0.3]
    return simulated.rows(n, 4, (1.0, 0.5), names=["a", "b", "c", "d"], cuts=cuts)


def fitted(model, X, y, splits, **settings):
    return [
        model().fit(taken(X, train), taken(y, train), **{name: each[train] for name, each in settings.items()})
        for train, _ in splits
    ]


def statuses(proofs):
    return {member.status for proof in proofs for member in proof.members}


def cases():
    for task, models in (("numbers", OF_NUMBERS), ("classes", OF_CLASSES)):
        for name, model in models.items():
            marks = pytest.mark.integration if name == "catboost" else ()
            yield pytest.param((task, model), id=f"{name}, {task}", marks=marks)


@pytest.fixture(scope="module", params=cases())
def trained(request):
    """Rows, the models of their folds, and the folds."""
    task, model = request.param
    X, y = data(task)
    splits = list(KFold(K, shuffle=True, random_state=1).split(X))
    return X, y, fitted(model, X, y, splits), splits


def test_right_folds_are_proven(trained):
    X, y, models, splits = trained
    proofs = prove_folds(folds_of(models, X, y, splits), X, y)
    assert statuses(proofs) == {"proven"}
    assert all(proof.holds for proof in proofs)


def test_swapped_models_are_refused_with_the_fold_that_fits(trained):
    X, y, models, splits = trained
    folds = folds_of([models[k] for k in SWAPPED], X, y, splits)
    with pytest.raises(
        ProvenanceError, match=r"fold \d: its model was not trained on .* those of fold [01]: the models a"
    ):
        prove_folds(folds, X, y)


def test_folds_of_another_division_are_refused_with_likely_causes(trained):
    X, y, models, _ = trained
    folds = folds_of(models, X, y, KFold(K, shuffle=True, random_state=2))
    with pytest.raises(
        ProvenanceError, match=r"fold \d: its model was not trained .*Likely causes: cv= has another rand"
    ):
        prove_folds(folds, X, y)


def test_rows_in_another_order_are_refused(trained):
    X, y, models, splits = trained
    order = np.random.default_rng(5).permutation(N_ROWS)
    X, y = X.iloc[order].reset_index(drop=True), y.iloc[order].reset_index(drop=True)
    with pytest.raises(ProvenanceError, match=r"fold \d: its model was not trained"):
        prove_folds(folds_of(models, X, y, splits), X, y)


@pytest.mark.thorough
@pytest.mark.parametrize("n_folds", [2, 20])
@pytest.mark.parametrize("name", ["forest", "xgboost", "lightgbm"])
def test_few_and_many_folds_are_proven_and_swapped_models_refused(name, n_folds):
    X, y = data()
    splits = list(KFold(n_folds).split(X))
    models = fitted(OF_NUMBERS[name], X, y, splits)
    assert statuses(prove_folds(folds_of(models, X, y, splits), X, y)) == {"proven"}
    with pytest.raises(ProvenanceError, match=f"fold 0.* those of fold {n_folds - 1}"):
        prove_folds(folds_of(models[::-1], X, y, splits), X, y)


@pytest.mark.parametrize("name", ["forest", "xgboost", "lightgbm", "boosting"])
def test_labels_prove_models_that_were_trained_on_earlier_periods_only(name):
    X, y = data()
    splits = list(TimeSeriesSplit(3).split(X))
    models = fitted(OF_NUMBERS[name], X, y, splits)
    labels = np.full(N_ROWS, -1)
    for k, (_, test) in enumerate(splits):
        labels[test] = k
    proofs = prove_folds(folds_of(models, X, y, labels), X, y)
    assert statuses(proofs) == {"proven"}
    for proof, (train, test) in zip(proofs, splits, strict=True):
        np.testing.assert_array_equal(proof.fold.train, train)
        np.testing.assert_array_equal(proof.fold.test, test)
    assert statuses(prove_folds(folds_of(models, X, y, splits), X, y)) == {"proven"}
    with pytest.raises(ProvenanceError, match="fold 0: its model was not trained"):
        prove_folds(folds_of(models[::-1], X, y, labels), X, y)


def test_labels_of_wrong_rows_say_what_labels_mean():
    X, y = data()
    models = fitted(OF_NUMBERS["tree"], X, y, list(KFold(3).split(X)))
    labels = np.random.default_rng(0).permutation(np.arange(N_ROWS) % 3)
    with pytest.raises(ProvenanceError, match="With labels as cv=, all other rows are the training rows of a fold"):
        prove_folds(folds_of(models, X, y, labels), X, y)


@pytest.mark.parametrize("kind", ["array", "sparse", "dates"])
@pytest.mark.parametrize("name", ["forest", "xgboost"])
def test_any_container_of_rows_gives_the_audits_by_hand(name, kind):
    X, y = data()
    if kind == "dates":
        X.index = y.index = pd.date_range("2024-01-01", periods=N_ROWS)
    else:
        X, y = X.to_numpy(), y.to_numpy()
    X = scipy.sparse.csr_matrix(np.where(X > 0, X, 0)) if kind == "sparse" else X
    splits = list(KFold(3).split(X))
    models = fitted(OF_NUMBERS[name], X, y, splits)
    for proof, model, (_, test) in zip(prove_folds(folds_of(models, X, y, splits), X, y), models, splits, strict=True):
        rows = taken(X, test), taken(y, test)
        of_fold = audit_of_fold(proof, debias.Dataset(*rows), random_state=0)
        by_hand = debias.audit(model, *rows, rows="held-out", test=None, random_state=0)
        pd.testing.assert_frame_equal(
            of_fold.to_frame(), by_hand.to_frame().drop(columns="unproven_because", errors="ignore")
        )
        assert of_fold.provenance["status"] == "proven held-out"
        assert of_fold.provenance["training_share"] == 0
        assert of_fold.rows_in_words == "held-out"
        assert of_fold.warnings == by_hand.warnings


def test_a_fold_of_five_rows_is_proven():
    X, y = data()
    splits = [(np.arange(5, N_ROWS), np.arange(5)), (np.arange(N_ROWS - 5), np.arange(N_ROWS - 5, N_ROWS))]
    models = fitted(OF_NUMBERS["xgboost"], X, y, splits)
    proof = prove_folds(folds_of(models, X, y, splits), X, y)[0]
    audit = audit_of_fold(proof, debias.Dataset(X[:5], y[:5]))
    assert audit.provenance["status"] == "proven held-out"
    with pytest.raises(ProvenanceError, match="those of fold 1"):
        prove_folds(folds_of(models[::-1], X, y, splits), X, y)


def test_string_labels_and_classes_that_are_missing_in_test_rows():
    X, y = data("three")
    y = y.map({0: "low", 1: "middle", 2: "high"})
    few = np.flatnonzero(y == "low")[:10]
    splits = [(np.setdiff1d(np.arange(N_ROWS), few), few), *StratifiedKFold(2).split(X, y)]
    for model in (OF_CLASSES["balanced forest"], OF_CLASSES["lightgbm"]):
        models = fitted(model, X, y, splits)
        assert statuses(prove_folds(folds_of(models, X, y, splits), X, y)) == {"proven"}


def test_a_class_of_training_rows_that_the_model_does_not_know_is_an_error_that_names_the_fold():
    X, y = data("three")
    without = np.flatnonzero(y != 2)
    models = [RandomForestClassifier(5, random_state=0).fit(X.iloc[without], y.iloc[without])] * 2
    with pytest.raises(RowsError, match="fold 0: y has labels that the model never saw"):
        prove_folds(folds_of(models, X, y, 2), X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore:Scoring failed")
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("cv", [None, 3])
def test_a_model_whose_fit_failed_in_cross_validate_is_an_error_that_names_the_fold_and_the_cause(cv, scaled):
    X, y = data()
    y.iloc[0] = np.nan  # a training row of all folds but the first
    model = RandomForestRegressor(8, random_state=0)
    model = make_pipeline(StandardScaler(), model) if scaled else model
    results = cross_validate(model, X, y, cv=3, return_estimator=True, return_indices=cv is None)
    y = y.fillna(0)
    failed = (
        r"fold 1: this .* is not fitted; fit it first\. Its fit may have failed in cross_validate: .*error_score='r"
    )
    with pytest.raises(UnsupportedModelError, match=f"^{failed}"):
        prove_folds(folds_of(results, X, y, cv), X, y)
    results["estimator"].reverse()
    with pytest.raises(UnsupportedModelError, match=f"^{failed.replace('1', '0')}"):
        prove_folds(folds_of(results, X, y, cv), X, y)
    with pytest.raises(UnsupportedModelError, match=r"^fold 0: .* is not fitted; fit it first$"):
        prove_folds(folds_of(results["estimator"], X, y, 3), X, y)


def test_a_model_that_cannot_be_audited_is_an_error_that_names_the_fold():
    X, y = data()
    splits = list(KFold(2).split(X))
    models = [fitted(OF_NUMBERS["tree"], X, y, splits)[0], LinearRegression().fit(X, y)]
    results = {"estimator": models, "indices": dict(zip(("train", "test"), zip(*splits, strict=True), strict=True))}
    for given in (folds_of(models, X, y, splits), folds_of(results, X, y)):
        with pytest.raises(UnsupportedModelError, match="^fold 1: ") as raised:
            prove_folds(given, X, y)
        assert "cross_validate" not in str(raised.value)


@pytest.mark.parametrize("name", ["forest", "xgboost", "lightgbm", "histograms", CATBOOST])
def test_training_weights_are_told_by_sample_weight(name):
    X, y = data()
    weight = np.random.default_rng(3).integers(1, 4, N_ROWS).astype(float)
    splits = list(KFold(3).split(X))
    models = fitted(OF_NUMBERS[name], X, y, splits, sample_weight=weight)
    folds = folds_of(models, X, y, splits)
    assert statuses(prove_folds(folds, X, y, sample_weight=weight)) == {"proven"}
    assert statuses(prove_folds(folds, X, y)) <= {
        "proven",
        "unknown",
    }  # XGBoost and CatBoost do not say that they had weights
    with pytest.raises(ProvenanceError, match="those of fold 2"):
        prove_folds(folds_of(models[::-1], X, y, splits), X, y, sample_weight=weight)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:these rows differ from the training rows:debias.DebiasWarning")  # its values do
@pytest.mark.parametrize("model", ["forest", "xgboost"])
def test_an_encoder_with_cross_fitting_proves_the_rows_it_was_fitted_on(model):
    """TargetEncoder gives the training rows other values in training than later, but is the same if fitted again."""
    X, y = simulated.rows(400, ["normal", range(20)], lambda X: X[:, 0] + (X[:, 1] % 3), names=["a", "b"])
    encoder = make_column_transformer((TargetEncoder(), ["b"]), remainder="passthrough")
    splits = list(KFold(4).split(X))
    models = fitted(lambda: make_pipeline(clone(encoder), OF_NUMBERS[model]()), X, y, splits)
    proofs = prove_folds(folds_of(models, X, y, splits), X, y)
    assert statuses(proofs) == {"proven"}
    assert "(TargetEncoder), fitted again on the training rows of the fold, is the same" in proofs[0].members[0].detail
    audit = audit_of_fold(proofs[0], debias.Dataset(taken(X, splits[0][1]), taken(y, splits[0][1])))
    assert audit.provenance["status"] == "proven held-out"
    with pytest.raises(ProvenanceError, match="those of fold 1: the models are in another order"):
        prove_folds(folds_of(models[1:] + models[:1], X, y, splits), X, y)


@pytest.mark.thorough
def test_models_of_calibration_inside_a_fold_are_trained_on_a_part_of_it():
    X, y = data("classes")
    splits = list(KFold(3).split(X))
    for inner in (RandomForestClassifier(8, random_state=0), OF_CLASSES["lightgbm"]()):
        models = fitted(lambda inner=inner: CalibratedClassifierCV(inner, cv=2), X, y, splits)
        assert statuses(prove_folds(folds_of(models, X, y, splits), X, y)) <= {"proven", "unknown"}


def test_models_that_store_no_counts_are_said_to_be_unproven():
    X, y = data()
    splits = list(KFold(3).split(X))
    weight = np.random.default_rng(3).uniform(0.5, 2, N_ROWS)  # which XGBoost does not store
    models = fitted(OF_NUMBERS["xgboost"], X, y, splits, sample_weight=weight)
    proofs = prove_folds(folds_of(models, X, y, splits), X, y)
    assert statuses(proofs) == {"unknown"}
    audit = audit_of_fold(proofs[0], debias.Dataset(taken(X, splits[0][1]), taken(y, splits[0][1])))
    assert audit.provenance["status"] == "cannot be told"
    assert audit.provenance["detail"].endswith("a loss for which a row does not count as 1")
    assert audit.rows_in_words == "assumed held-out"


def test_test_rows_that_look_like_training_rows_are_refused_if_nothing_is_proven():
    """The training rows of this fold are not known, and its test rows are the training rows."""
    X, y = data()
    model = OF_NUMBERS["xgboost"]().fit(X[:200], y[:200])
    proof = prove_folds([Fold("fold 0", model, None, np.arange(200))], X, y)[0]
    with pytest.raises(ProvenanceError, match="^its test rows look like training rows of its model"):
        audit_of_fold(proof, debias.Dataset(X[:200], y[:200]))
    fresh = prove_folds([Fold("fold 0", model, None, np.arange(200, 300))], X, y)[0]
    assert audit_of_fold(fresh, debias.Dataset(X[200:], y[200:])).provenance["status"] != "proven held-out"


def test_a_y_of_another_order_is_refused():
    X, y = data()
    splits = list(KFold(3).split(X))
    other = y.sample(frac=1, random_state=0).reset_index(drop=True)
    for name in ("forest", "lightgbm", "xgboost"):
        models = fitted(OF_NUMBERS[name], X, y, splits)
        with pytest.raises(ProvenanceError, match=r"fold \d: its model was not trained"):
            prove_folds(folds_of(models, X, other, splits), X, other)


def test_the_gate_takes_proven_folds_as_proven_rows():
    X, y = data()
    splits = list(KFold(3).split(X))
    models = fitted(OF_NUMBERS["forest"], X, y, splits)
    proof = prove_folds(folds_of(models, X, y, splits), X, y)[0]
    audit = audit_of_fold(proof, debias.Dataset(taken(X, splits[0][1]), taken(y, splits[0][1])))
    assert audit.check({"min_provenance": "rows proven"}).passed
    assert not audit.check({"min_provenance": "proven"}).passed
    assert debias.Audit.from_json(audit.to_json()).provenance == audit.provenance


def test_shifted_test_rows_are_still_warned_of():
    X, y = data()
    X.loc[:99, "a"] += 5
    splits = list(KFold(3).split(X))
    models = fitted(OF_NUMBERS["lightgbm"], X, y, splits)
    proof = prove_folds(folds_of(models, X, y, splits), X, y)[0]
    with pytest.warns(DebiasWarning, match="these rows differ from the training rows at the splits"):
        audit = audit_of_fold(proof, debias.Dataset(X[:100], y[:100]))
    assert audit.provenance["shifted_features"] == ["a"]


@pytest.mark.parametrize("name", [name for name in OF_NUMBERS if "bagging" not in name])
def test_models_that_were_trained_on_all_rows_are_refused(name):
    X, y = data()
    model = OF_NUMBERS[name]().fit(X, y)
    with pytest.raises(ProvenanceError, match=r"fold \d: its model was not trained on .*trained on all rows"):
        prove_folds(folds_of([model] * K, X, y, KFold(K)), X, y)


def test_the_right_folds_of_one_stump_are_not_refused():
    """A stump is too small to prove rows, and test rows have the shares of its two leaves by chance."""
    for seed in (13, 17):
        X, y = simulated.rows(400, 4, (1.0,), names=["a", "b", "c", "d"], seed=seed)
        splits = list(KFold(K, shuffle=True, random_state=seed).split(X))
        models = fitted(lambda: DecisionTreeRegressor(max_depth=1, random_state=0), X, y, splits)
        for proof in prove_folds(folds_of(models, X, y, splits), X, y):
            test = proof.fold.test
            audit = audit_of_fold(proof, debias.Dataset(taken(X, test), taken(y, test)))
            assert audit.provenance["status"] != PROVEN_HELD_OUT
