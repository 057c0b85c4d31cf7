"""Steps of a pipeline that have seen y: which are found, which rows are refused, and what is known of cross-fitting."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import (
    RFE,
    SelectFromModel,
    SelectKBest,
    SequentialFeatureSelector,
    VarianceThreshold,
    f_regression,
)
from sklearn.linear_model import Lasso
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, StandardScaler, TargetEncoder

import debias
from debias.selection import DebiasedSelector
from debias_adapters.sklearn import supervised
from debias_adapters.sklearn.supervised import supervised_in
from support.versions import at_least

N = 160
FOREST = RandomForestRegressor(20, random_state=0)


def draw(seed=0, n=N):
    """Return rows of two numbers and a category of 40 values, of which only the first number matters."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "id": rng.integers(0, 40, n)})
    return X, X["a"].to_numpy() + rng.normal(size=n)


X, Y = draw()
NUMBERS = X[["a", "b"]]


def global_state():
    return str(np.random.get_state())  # noqa: NPY002  # what scikit-learn draws from without a seed


def encoded(model, seed=3):
    if at_least("scikit-learn", "1.9") and seed is not None:
        settings = {"cv": KFold(5, shuffle=True, random_state=seed)}
    else:
        settings = {} if seed is None else {"random_state": seed}
    encoder = TargetEncoder(target_type="continuous", **settings)
    return make_pipeline(make_column_transformer((encoder, ["id"]), remainder="passthrough"), model)


class Transformer(TransformerMixin, BaseEstimator):
    """Nothing is changed, and scikit-learn's tags say nothing."""

    def fit(self, X, y=None):
        self.mean_ = np.mean(np.asarray(X), axis=0)
        return self

    def transform(self, X):
        return X


class WithoutY(Transformer):
    def fit(self, X):
        return super().fit(X)


class UsesY(Transformer):
    """It takes y if there is one, as many libraries do, and says nothing about it."""

    def fit(self, X, y=None):
        super().fit(X)
        self.slopes_ = None if y is None else {"all": [np.asarray(X).T @ np.asarray(y)]}
        return self


class Drawn(Transformer):
    """Each fit draws other numbers, whatever y is."""

    def fit(self, X, y=None):
        self.numbers_ = np.random.default_rng().normal(size=3)
        return self


class OfFewRows(Transformer):
    """It cannot be tried: it takes no fewer rows than all."""

    def fit(self, X, y):
        assert len(X) == N
        return super().fit(X)


class WithoutTags:
    """A step that knows nothing of scikit-learn."""

    def fit(self, X, y=None):
        return self

    def fit_transform(self, X, y=None):
        return X

    def transform(self, X):
        return X


SEES_Y = {
    "selection by a test": SelectKBest(f_regression, k=1),
    "selection by a linear model": SelectFromModel(Lasso(0.01)),
    "selection by a fitted model": SelectFromModel(Lasso(0.01).fit(NUMBERS, Y), prefit=True),
    "elimination": RFE(Lasso(0.01), n_features_to_select=1),
    "forward selection": SequentialFeatureSelector(Lasso(0.01), n_features_to_select=1),
    "debiased selection": DebiasedSelector(FOREST, random_state=0),
    "of a user": UsesY(),
    "in a pipeline": make_pipeline(StandardScaler(), SelectKBest(f_regression, k=1)),
    "in a union": FeatureUnion([("all", StandardScaler()), ("best", SelectKBest(f_regression, k=1))]),
    "among columns": make_column_transformer((SelectKBest(f_regression, k=1), ["a", "b"])),
}
SEES_NO_Y = {
    "scaler": StandardScaler(),
    "projection": PCA(2),
    "function": FunctionTransformer(),
    "bins": KBinsDiscretizer(3, **({"quantile_method": "linear"} if at_least("scikit-learn", "1.7") else {})),
    "variance": VarianceThreshold(),
    "y is ignored": Transformer(),
    "fit takes no y": WithoutY(),
    "fit draws numbers": Drawn(),
    "nothing": "passthrough",
    "union": FeatureUnion([("a", StandardScaler()), ("b", PCA(1))]),
}


@pytest.mark.parametrize("kind", [*SEES_Y, *SEES_NO_Y])
def test_which_steps_have_seen_y(kind):
    step = (SEES_Y | SEES_NO_Y)[kind]
    fitted = make_pipeline(step, "passthrough").fit(NUMBERS, Y) if kind != "fit takes no y" else make_pipeline(step)
    fitted = fitted if kind != "fit takes no y" else make_pipeline(step.fit(NUMBERS))
    found = supervised_in(fitted, NUMBERS, Y)
    assert (found is not None) == (kind in SEES_Y)
    assert found is None or found.cross_fitted is None
    without_rows = supervised_in(fitted, None, None)  # as of rows in batches: tried on random numbers
    assert (without_rows is not None) == (kind in SEES_Y)


def test_what_cannot_be_tried_is_judged_by_its_arguments():
    with_tags = make_pipeline(OfFewRows().fit(NUMBERS, Y))
    assert supervised_in(with_tags, NUMBERS, Y) is not None  # its `fit` requires y
    assert supervised_in(make_pipeline(WithoutTags()), NUMBERS, Y) is None


def test_a_selection_is_named_refused_and_not_tested_out_of_bag():
    model = make_pipeline(SelectKBest(f_regression, k=2), FOREST).fit(X, Y)
    for ask in (
        debias.score,
        debias.audit,
        lambda *passed: debias.compare(*passed, ["native", "mdi_oob"], level="model"),
    ):
        with pytest.raises(debias.ProvenanceError, match=r"'selectkbest' \(SelectKBest\) saw y of all training rows"):
            ask(model, X, Y)
    with pytest.warns(debias.DebiasWarning, match="also those of noise, and are not tested") as caught:
        audit = debias.audit(model, X, Y, rows="oob", random_state=0)
    assert len(caught) == 1
    assert set(audit.verdict) == set(audit.dependence) == {"untested"}
    assert audit.tested_scores.p_value is None
    assert "saw y of all training rows" in audit.summary()[0]
    assert "Pass rows the model has not seen, with rows='held-out'" in audit.summary()[0]
    inner = debias.score(model[-1], model[:-1].transform(X), Y)
    kept = model[0].get_support()
    np.testing.assert_array_equal(audit.tested_scores.values[kept], inner.values)
    new_X, new_y = draw(1, 200)
    assert debias.audit(model, new_X, new_y, random_state=0).to_frame().loc["a", "verdict"] == "informative"


def test_what_holds_the_pipeline_changes_nothing():
    pipeline = make_pipeline(SelectKBest(f_regression, k=2), FOREST)
    search = GridSearchCV(pipeline, {"selectkbest__k": [2]}, cv=2).fit(X, Y)
    with pytest.raises(debias.ProvenanceError, match="selectkbest"):
        debias.audit(search, X, Y)
    batches = [(X.iloc[:100], Y[:100]), (X.iloc[100:], Y[100:])]
    with pytest.raises(debias.ProvenanceError, match="selectkbest"):
        debias.score(pipeline.fit(X, Y), batches)
    with pytest.warns(debias.DebiasWarning, match="selectkbest"):
        in_batches = debias.score(pipeline, batches, rows="oob", test="conservative")
    assert "saw y" in in_batches.details["untested_because"]
    selected = DebiasedSelector(pipeline, threshold="informative", random_state=0)
    with (
        pytest.warns(debias.DebiasWarning, match="selectkbest"),
        pytest.raises(debias.plugin.CompositionError, match="no feature was tested: the step 'selectkbest'"),
    ):
        selected.fit(NUMBERS.assign(c=X["id"]), Y)


def test_models_of_folds_with_a_selection_are_audited_as_before():
    splits = list(KFold(4).split(X))
    models = [make_pipeline(SelectKBest(f_regression, k=2), RandomForestRegressor(20, random_state=0)) for _ in splits]
    for model, (train, _) in zip(models, splits, strict=True):
        model.fit(X.iloc[train], Y[train])
    audit = debias.audit_folds(models, X, Y, cv=splits, scorers=[], random_state=0)
    assert {each.provenance["status"] for each in audit.audits.values()} == {"proven held-out"}
    assert audit.to_frame().loc["a", "verdict"] == "informative"


def test_the_columns_of_training_are_those_that_cross_fitting_made():
    model = encoded(FOREST).fit(X, Y)
    trained_on = make_pipeline(encoded(FOREST)[:-1]).fit_transform(X, Y)
    forest = RandomForestRegressor(20, random_state=0).fit(trained_on, Y)
    expected = debias.score(forest, trained_on, Y)
    before, state = X.copy(deep=True), global_state()
    with pytest.warns(debias.DebiasWarning, match=r"\(TargetEncoder\) saw y of all training rows"):
        scores = debias.score(model, X, Y, rows="oob", level="model")
    np.testing.assert_array_equal(scores.values, expected.values)
    assert scores.provenance["status"] == expected.provenance["status"] == "proven"
    assert not np.allclose(model[:-1].transform(X), trained_on)
    new = draw(1)
    with_training_rows = debias.score(model, *new, "ufi", rows="held-out", train=(X, Y), level="model")
    seen = model[:-1].transform(new[0])
    direct = debias.score(forest, seen, new[1], "ufi", rows="held-out", train=(trained_on, Y))
    np.testing.assert_array_equal(with_training_rows.values, direct.values)
    pd.testing.assert_frame_equal(X, before)
    assert global_state() == state


@pytest.mark.parametrize("seed", [3, None])
@pytest.mark.parametrize(
    "model",
    [HistGradientBoostingRegressor(max_iter=10), ExtraTreesRegressor(10, random_state=0), FOREST],
    ids=lambda model: type(model).__name__,
)
def test_training_rows_behind_an_encoder_with_cross_fitting_are_refused(model, seed):
    fitted, order = encoded(model, seed).fit(X, Y), np.random.default_rng(0).permutation(N)
    for rows in (np.arange(N), order):
        with pytest.raises(debias.ProvenanceError, match=r"these are the training rows: the step .* is the same"):
            debias.score(fitted, X.iloc[rows], Y[rows])
        with pytest.warns(debias.DebiasWarning, match="these are the training rows"):
            scores = debias.score(fitted, X.iloc[rows], Y[rows], rows="held-out")
        assert scores.provenance["status"] == "stated by the user"
        assert scores.provenance["training_share"] == 1
    new = draw(1)
    for part in ((X.iloc[order[:80]], Y[order[:80]]), new):
        unknown = "cannot check whether these rows contain training rows .*pass rows='held-out'"
        if isinstance(model, HistGradientBoostingRegressor):
            with pytest.raises(debias.ProvenanceError, match=unknown):
                debias.score(fitted, *part)
        else:
            with pytest.warns(debias.DebiasWarning, match=f"(?i){unknown}"):
                assert debias.score(fitted, *part).provenance["status"] == "cannot be told"
        scores = debias.score(fitted, *part, rows="held-out")
        assert scores.provenance["status"] == "cannot be told"
        assert "(TargetEncoder) gave the training rows other values" in scores.unproven_because
    expected = debias.score(fitted[-1], fitted[:-1].transform(new[0]), new[1], rows="held-out")
    np.testing.assert_array_equal(debias.score(fitted, *new, rows="held-out", level="model").values, expected.values)


def test_cross_fitting_without_a_seed_cannot_be_repeated():
    model = encoded(FOREST, None).fit(X, Y).fit(X, Y)  # again: the first may draw what a seed of 0 draws
    state = global_state()
    with pytest.raises(debias.ProvenanceError, match="cannot be made again: .* random_state is not a number"):
        debias.score(model, X, Y, rows="oob")
    assert global_state() == state


def test_a_step_is_the_same_only_on_the_rows_it_was_fitted_on():
    fitted = encoded(FOREST, None).fit(X, Y)
    order = np.random.default_rng(0).permutation(N)
    other_y = Y.copy()
    other_y[:2] = other_y[1::-1]
    for rows, y, same in (
        (X, Y, True),
        (X.iloc[order], Y[order], True),
        (X.iloc[1:], Y[1:], False),
        (X, other_y, False),
        (*draw(1), False),
    ):
        found = supervised_in(fitted[:-1], rows, y)
        assert found.fitted_on_these() is same


def test_a_comparison_that_could_not_fail_tells_nothing():
    """The classes of two halves are the same, and the encoder keeps only their mean."""

    class Mean(TransformerMixin, BaseEstimator):
        def fit(self, X, y):
            self.middle_ = float(np.median(y))
            return self

        def fit_transform(self, X, y):
            return np.asarray(X) + self.fit(X, y).middle_ + np.arange(len(X))[:, None]

        def transform(self, X):
            return np.asarray(X)

    y = np.repeat([0.0, 1.0, 1.0], 50)
    fitted = make_pipeline(Mean(), RandomForestRegressor(3)).fit(NUMBERS[:150], y)
    found = supervised_in(fitted[:-1], NUMBERS[:150], y)
    assert found.cross_fitted is not None
    assert not found.fitted_on_these()


def test_training_rows_behind_a_discriminant_analysis_are_refused():
    classes = (Y > 0).astype(int)
    model = make_pipeline(LinearDiscriminantAnalysis(), RandomForestClassifier(10, random_state=0)).fit(
        NUMBERS, classes
    )
    with pytest.raises(debias.ProvenanceError, match="LinearDiscriminantAnalysis"):
        debias.score(model, NUMBERS, classes, level="model")


@pytest.mark.thorough
def test_a_meta_method_fits_the_steps_again_for_each_permutation():
    rng = np.random.default_rng(0)
    noise = pd.DataFrame(rng.normal(size=(60, 30))).rename(columns=str)
    y = rng.normal(size=60)
    model = make_pipeline(SelectKBest(f_regression, k=2), RandomForestRegressor(10, random_state=0)).fit(noise, y)
    with pytest.warns(debias.DebiasWarning, match="selectkbest"):
        scores = debias.score(
            model, noise, y, "response_permutation(mdi_oob, replicates=19)", rows="oob", random_state=0
        )
    kept = {tuple(np.flatnonzero(draw != 0)) for draw in scores.null}
    assert len(kept) > 5, "each permutation has its own best columns"


@pytest.mark.parametrize(("n_columns", "said"), [(49, False), (50, True)])
def test_many_columns_give_a_sentence_about_selections(n_columns, said):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(100, n_columns))).rename(columns=str)
    y = rng.normal(size=100)
    model = RandomForestRegressor(10, random_state=0).fit(wide, y)
    audit = debias.audit(model, wide, y, [], test="permutation", random_state=0, dependence=False)
    expected = (
        f"There are {n_columns} features for {audit.tested_scores.n_rows} rows. Out-of-bag rows cannot show a selection"
    )
    assert any(sentence.startswith(expected) for sentence in audit.summary()) is said
    new = pd.DataFrame(rng.normal(size=(100, n_columns))).rename(columns=str), rng.normal(size=100)
    held_out = debias.audit(model, *new, [], rows="held-out", random_state=0)
    assert not any("selection" in sentence for sentence in held_out.summary())


def test_numbers_of_a_fitted_step_are_found_wherever_they_are():
    step = UsesY().fit(NUMBERS, Y)
    assert set(supervised.numbers(step)) == {"mean_/", "slopes_/all/0/"}
    step.frame_ = pd.DataFrame({"value": [1.0, 2.0], "name": ["x", "y"]})
    assert "frame_/value/" in supervised.numbers(step)
