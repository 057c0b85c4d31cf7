"""What hands type: each movement gives the answer, or one sentence that says what to type instead.

A line of a table is a movement: what is typed, and what is said, as a pattern; ``None`` where the answer must be that
of the call as it should be.
"""

import inspect
import io
import re
import warnings
from pathlib import Path
from rlcompleter import Completer

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from lightgbm import LGBMRegressor
from scipy.sparse import csr_matrix, dok_matrix
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor, VotingRegressor
from sklearn.model_selection import GridSearchCV, cross_validate, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRegressor

import debias
from debias.wrong_arguments import explains_wrong_arguments

X, Y = load_diabetes(return_X_y=True, as_frame=True)
X_TRAIN, X_TEST, Y_TRAIN, Y_TEST = train_test_split(X, Y, test_size=0.4, random_state=0)
BOOSTER = {"n_estimators": 10, "max_depth": 3, "n_jobs": 1, "random_state": 0}


def forest():
    return RandomForestRegressor(10, max_depth=5, random_state=0)


def piped(model):
    return Pipeline([("scale", StandardScaler()), ("model", model)])


MAKERS = {
    "forest": forest,
    "XGBoost": lambda: XGBRegressor(**BOOSTER),
    "LightGBM": lambda: LGBMRegressor(**BOOSTER, verbose=-1),
    "pipeline of a forest": lambda: piped(forest()),
    "pipeline of a booster": lambda: piped(XGBRegressor(**BOOSTER)),
    "search of a forest": lambda: GridSearchCV(forest(), {"max_depth": [3, 5]}, cv=2),
    "search of a booster": lambda: GridSearchCV(XGBRegressor(**BOOSTER), {"max_depth": [2, 3]}, cv=2),
}
SENTENCES_AT_MOST = 520
"""Characters of what is said; the addresses of files are not in it."""
SHOWN = ("forest", "XGBoost", "pipeline of a booster")
"""The models of the default tests."""
PIPES = ("pipeline of a forest", "pipeline of a booster")


@pytest.fixture(scope="module")
def models():
    """Every model, fitted to the training rows, with the rows to audit it on and what the audit should say."""
    fitted = {}
    for name, make in MAKERS.items():
        model = make().fit(X_TRAIN, Y_TRAIN)
        rows = (X_TRAIN, Y_TRAIN) if "forest" in name else (X_TEST, Y_TEST)
        fitted[name] = (model, *rows, debias.audit(model, *rows, test=None, random_state=0))
    return fitted


def with_target(X, y):
    return X.assign(target=y)


ALL_ROWS = r"training rows.*(pass only such rows|pass only rows the model has not seen|They are used as held-out rows)"
LEFT_OUT = "columns of X that the model does not know are left out: {}"
ROWS = {
    "the call as it should be": (lambda m, X, y: (m, X, y), None),
    "y of shape (n, 1)": (lambda m, X, y: (m, X, y.to_numpy()[:, None]), None),
    "y as a frame of one column": (lambda m, X, y: (m, X, y.to_frame()), None),
    "y with its index reset": (lambda m, X, y: (m, X, y.reset_index(drop=True)), None),
    "y as a list": (lambda m, X, y: (m, X, y.tolist()), None),
    "frames of polars": (lambda m, X, y: (m, pl.from_pandas(X), pl.from_pandas(y)), None),
    "train and test together": (lambda m, *rows: (m, X, Y), ALL_ROWS),
    "y as a name": (lambda m, X, y: (m, with_target(X, y), "target"), r"X\.drop\(columns=\['target'\]\) as X, and X\["),
    "y as a name of nothing": (lambda m, X, y: (m, X, "target"), "no column of X: pass the response itself"),
    "no y": (lambda m, X, y: (m, X), "y is missing; pass the response"),
    "y in another order": (lambda m, X, y: (m, X, y.sort_index()), r"y\.loc\[X\.index\] puts it in the order of X"),
    "y of other rows": (
        lambda m, X, y: (m, X, y.set_axis(y.index + 9999)),
        r"y has another index.*pass that of the rows",
    ),
    "too short a y": (lambda m, X, y: (m, X, y[:50]), r"y has 50 entries, but X has \d+ rows"),
    "X with y in it": (lambda m, X, y: (m, with_target(X, y), y), (LEFT_OUT.format("target"), "unknown to it: target")),
    "a column more": (lambda m, X, y: (m, X.assign(more=1.0), y), (LEFT_OUT.format("more"), "unknown to it: more")),
    "columns in another order": (lambda m, X, y: (m, X[X.columns[::-1]], y), ("matched by name", "another order")),
    "a column twice": (
        lambda m, X, y: (m, pd.concat([X, X[["bmi"]]], axis=1), y),
        ("X has columns of the same name: bmi", "more than once: bmi"),
    ),
    "a column less": (lambda m, X, y: (m, X.drop(columns="bmi"), y), r"missing: bmi.*Pass the training columns"),
    "an array with a column more": (
        lambda m, X, y: (m, X.assign(more=1.0).to_numpy(), y),
        "X has 11 features, but .*10",
    ),
    "X and y swapped": (lambda m, X, y: (m, y, X), "pass the table of features as X, and the response as y"),
    "X and y swapped, polars": (lambda m, X, y: (m, pl.from_pandas(y), pl.from_pandas(X)), "the response as y"),
    "model and X swapped": (lambda m, X, y: (X, m, y), r"X is an? \w+: pass the model first, then X and y"),
    "the model last": (lambda m, X, y: (X, y, m), "model is a DataFrame: pass the model first, then X and y"),
    "X and y as a tuple": (lambda m, X, y: (m, (X, y)), "X is a tuple of 2 tables: pass them one by one, as X and y"),
    "X as a dictionary": (lambda m, X, y: (m, X.to_dict("list"), y), r"X is a dict: pass pandas\.DataFrame\(X\)"),
    "X as dictionaries": (
        lambda m, X, y: (m, X.to_dict("records"), y),
        r"rows in dictionaries, pass pandas\.DataFrame",
    ),
    "X as names": (lambda m, X, y: (m, ["bmi", "bp"], y), r"names of columns, pass the table with these columns"),
    "features after y": (lambda m, X, y: (m, X, y, ["bmi"]), r"'bmi' is a column of X, not a scorer. Leave it out"),
    "one scorer after y": (lambda m, X, y: (m, X, y, "ufi"), r"scorers must be a list: pass \['ufi'\]"),
    "a seed after y": (lambda m, X, y: (m, X, y, 0), r"a list of names, and this is an int.*or random_state=0"),
    "the order of train_test_split": (
        lambda m, X, y: (m, X_TRAIN, X_TEST, Y_TRAIN, Y_TEST),
        r"takes model, X, y, scorers by position, and 5 .* must have a name, such as train=\(X_train, y_train\)",
    ),
    "half the order of train_test_split": (
        lambda m, X, y: (m, X_TRAIN, X_TEST, Y_TEST),
        "a list of names, and this is a Series: what follows y must have a name",
    ),
}
"""What is passed as model, X and y. Of two patterns the first is of a model, the second of a pipeline."""
OF_SCIKIT_LEARN = "X does not have valid feature names"
"""A warning of pipelines of scikit-learn 1.7 about frames of polars 2, also when they predict."""


@pytest.mark.parametrize("movement", ROWS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name not in SHOWN)) for name in MAKERS]
)
def test_rows_as_hands_pass_them(name, movement, models):
    model, X, y, expected = models[name]
    arguments, said = ROWS[movement]
    if isinstance(said, tuple):
        said = said[name in PIPES]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = debias.audit(*arguments(model, X, y), test=None, random_state=0)
        except (debias.DebiasError, TypeError) as error:
            told = str(error)
        else:
            told = "\n".join(str(each.message) for each in caught if OF_SCIKIT_LEARN not in str(each.message))
            scores = [each.to_frame()["mdi_oob"].to_numpy() for each in (found, expected)]
            assert movement == "train and test together" or np.array_equal(*scores)
    if said is None:
        assert told == ""
    else:
        assert re.search(said, told), told
        assert len(told) < SENTENCES_AT_MOST, told


SETTINGS = {
    "seed=0": ({"seed": 0}, "audit() has no argument 'seed': pass the seed as random_state"),
    "a seed as a text": ({"random_state": "0"}, "random_state='0' must be a whole number"),
    "the old generator": ({"random_state": np.random.RandomState(0)}, "from numpy.random.default_rng"),  # noqa: NPY002
    "X_train=": ({"X_train": X_TRAIN, "y_train": Y_TRAIN}, "'X_train': pass training rows as train=(X_train, y_train)"),
    "X_test=": ({"X_test": X_TEST}, "'X_test': pass rows that the model has not seen as X and y"),
    "train without y": ({"train": X_TRAIN}, "train must be (X_train, y_train)"),
    "features=": ({"features": ["bmi"]}, "'features': choose features in the result, which has all of them"),
    "step=": ({"step": "model"}, "'step': pass the whole pipeline. level='model' scores the columns"),
    "the name of a step as level": ({"level": "scale"}, "pass 'source' for the columns of X, 'model' for the columns"),
    "cv=": ({"cv": 5}, "'cv': use debias.audit_folds for the models of a cross-validation"),
    "blocks=": ({"blocks": [1]}, "'blocks': pass debias.Dataset(X, y, blocks=...)"),
    "alpha=": ({"alpha": 0.05}, "'alpha': pass the error rate as error_rate"),
    "n_permutations=": ({"n_permutations": 9}, "pass test=debias.Permutation(n_permutations=...)"),
    "weights=": ({"weights": None}, "'weights': pass weights as sample_weight"),
    "target=": ({"target": "y"}, "'target': pass the response itself as y"),
    "df=": ({"df": X}, "'df': pass the table of features as X and the response as y"),
    "a slip": ({"random_sate": 0}, "audit() has no argument 'random_sate'. Did you mean 'random_state'?"),
    "no known word": ({"zzz": 0}, "audit() has no argument 'zzz'. It has model, X, y, scorers, tested, rows"),
    "rows='test'": ({"rows": "test"}, "rows='test' is not one of 'auto', 'oob', 'held-out', 'train'"),
}


@pytest.mark.parametrize("movement", SETTINGS)
def test_settings_as_hands_pass_them(movement, models):
    settings, said = SETTINGS[movement]
    model, X, y, _ = models["XGBoost"]
    with pytest.raises((debias.DebiasError, TypeError), match=re.escape(said)):
        debias.audit(model, X, y, **settings)


NOT_FITTED = "is not fitted; fit it first"
CLASS = "is a class: pass a model, that is, a fitted instance of it"
STEPS = "steps of a pipeline is not a model: pass the whole pipeline"
MODELS = {
    **{f"{name}, not fitted": (lambda models, make=make: make(), NOT_FITTED) for name, make in MAKERS.items()},
    **{
        f"the class {each.__name__}": (lambda models, each=each: each, CLASS)
        for each in (RandomForestRegressor, XGBRegressor, LGBMRegressor, Pipeline, GridSearchCV)
    },
    "a booster of XGBoost": (lambda models: models["XGBoost"][0].get_booster(), None),
    "a booster of LightGBM": (lambda models: models["LightGBM"][0].booster_, None),
    "the best of a search": (lambda models: models["search of a booster"][0].best_estimator_, None),
    "a path": (lambda models: "models/model.ubj", r"pass debias.load_model('models/model.ubj')"),
    "a path as such": (lambda models: Path("model.json"), "pass debias.load_model('model.json')"),
    "the name of a step": (lambda models: "model", "or the whole pipeline if this is the name of a step"),
    "a step": (lambda models: models[PIPES[1]][0].steps[-1], STEPS),
    "the steps": (lambda models: models[PIPES[1]][0].steps, STEPS),
    "a pipeline and the name of a step": (lambda models: (models[PIPES[1]][0], "model"), STEPS),
    "several models": (
        lambda models: [models["XGBoost"][0]] * 2,
        "a list of models is not a model: pass them one by one",
    ),
    "models by name": (lambda models: {"a": models["XGBoost"][0]}, "a dict of models is not a model: pass them one by"),
    "results of a cross-validation": (
        lambda models: cross_validate(forest(), X, Y, cv=2, return_estimator=True),
        "pass them to debias.audit_folds(cv_results, X, y)",
    ),
    "predictions": (lambda models: Y.to_numpy(), "model is an ndarray: pass the model first, then X and y"),
    "a method": (lambda models: models["XGBoost"][0].predict, "'predict' of an XGBRegressor: pass the model itself"),
    "nothing": (lambda models: None, "model is None: pass a fitted model"),
    "an open file": (lambda models: io.BytesIO(), "pass debias.load_model(path)"),
    "a search that kept no model": (
        lambda models: GridSearchCV(forest(), {"max_depth": [3]}, cv=2, refit=False).fit(X, Y),
        "was fitted with refit=False. Fit it with refit=True",
    ),
}


@pytest.mark.parametrize("movement", MODELS)
def test_models_as_hands_pass_them(movement, models):
    make, said = MODELS[movement]
    model = make(models)
    if said is None:
        assert debias.audit(model, X_TEST, Y_TEST, random_state=0).features
        return
    with pytest.raises(debias.UnsupportedModelError, match=re.escape(said)) as caught:
        debias.audit(model, X_TEST, Y_TEST)
    assert len(str(caught.value)) < SENTENCES_AT_MOST


@pytest.mark.filterwarnings("ignore:y varies .* times as much as the predictions")
def test_the_inner_model_of_a_pipeline_with_the_rows_of_the_pipeline_is_told(models):
    """Nobody can know it for sure: the columns are as many. Training rows are refused, and others warned of."""
    with pytest.raises(debias.ProvenanceError, match="If the model is a step of a pipeline, pass the whole pipeline"):
        debias.audit(models["pipeline of a forest"][0]["model"], X_TRAIN, Y_TRAIN)
    with pytest.warns(debias.DebiasWarning, match="if the model is a step of a pipeline, pass the whole pipeline"):
        debias.audit(models["pipeline of a booster"][0]["model"], X_TEST, Y_TEST)


CALLS = {
    "nothing": (lambda m: debias.audit(), "audit() needs model, X: write debias.audit(model, X, y)"),
    "a model only": (lambda m: debias.audit(m), "audit() needs X: write debias.audit(model, X, y)"),
    "droppable without train": (
        lambda m: debias.droppable(m, X_TEST, Y_TEST),
        "droppable() needs train: write debias.droppable(model, X, y, train=(X_train, y_train))",
    ),
    "clusters of a table": (
        lambda m: debias.clusters(X_TEST),
        "clusters() needs X: write debias.clusters(model, X, y)",
    ),
    "contributions, seed": (
        lambda m: debias.contributions(m, X_TEST, Y_TEST, random_state=0),
        "contributions() has no argument 'random_state': leave it out, since nothing is drawn at random here",
    ),
    "load_model, seed": (lambda m: debias.load_model("m.ubj", random_state=0), "load_model() has no argument 'random_"),
    "refit, features": (lambda m: debias.refit(m, X, Y, rows="all"), "refit() has no argument 'rows'. It has model, X"),
    "several scorers": (
        lambda m: debias.score(m, X_TEST, Y_TEST, ["mdi_oob", "ufi"]),
        "scorer must be one scorer: pass ['mdi_oob', 'ufi'] one by one, or to debias.audit as scorers",
    ),
    "score of a feature": (lambda m: debias.score(m, X_TEST, Y_TEST, "bmi"), "'bmi' is a column of X, not a scorer"),
    "score, seed": (lambda m: debias.score(m, X_TEST, Y_TEST, seed=0), "Instead, pass the seed as random_state"),
    "score, rows": (
        lambda m: debias.score(m, X_TEST, Y_TEST, X_train=X_TRAIN),
        "Instead, pass training rows as train=",
    ),
    "compare, features": (lambda m: debias.compare(m, X_TEST, Y_TEST, ["bmi", "bp"]), "'bmi' is a column of X, not a"),
    "partial_dependence with y": (
        lambda m: debias.partial_dependence(m, X_TEST, Y_TEST),
        "No response is needed: leave y out",
    ),
    "a matrix of XGBoost": (
        lambda m: debias.audit(m, xgboost.DMatrix(X_TEST, Y_TEST)),
        "Pass the table that it was made from",
    ),
}


@pytest.mark.parametrize("movement", CALLS)
def test_calls_as_hands_type_them(movement, models):
    call, said = CALLS[movement]
    with pytest.raises((debias.DebiasError, TypeError), match=re.escape(said)):
        call(models["XGBoost"][0])


def test_a_sparse_matrix_that_is_a_dictionary_is_no_dictionary():
    model = XGBRegressor(**BOOSTER).fit(X_TRAIN.to_numpy(), Y_TRAIN)
    expected = debias.score(model, csr_matrix(X_TEST.to_numpy()), Y_TEST).values
    np.testing.assert_array_equal(debias.score(model, dok_matrix(X_TEST.to_numpy()), Y_TEST).values, expected)


def test_an_error_from_inside_is_not_taken_for_a_wrong_argument():
    @explains_wrong_arguments
    def function(X, *, seed=None):
        raise TypeError(f"of the function itself, {X}, {seed}")

    with pytest.raises(TypeError, match="of the function itself, 1, 2"):
        function(1, seed=2)
    with pytest.raises(TypeError, match=r"function\(\) has no argument 'random_state': leave it out"):
        function(1, random_state=2)


FUNCTIONS = [name for name in debias.__all__ if inspect.isfunction(getattr(debias, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature_and_help_are_those_of_the_function(name):
    """What ``?`` and editors show: real names of arguments, not ``*args``, and the whole docstring."""
    function = getattr(debias, name)
    assert not {"args", "kwargs"} & set(inspect.signature(function).parameters)
    assert inspect.getdoc(function)
    assert function.__module__.startswith("debias.")


def test_tab_completes_public_names_and_what_results_offer(models):
    model, X, y, expected = models["forest"]
    completer = Completer({"debias": debias, "audit": expected})
    offered = {completer.complete("debias.", k) for k in range(200)}
    assert {name for each in offered if each for name in [each.removeprefix("debias.").rstrip("()")]} >= {
        *debias.__all__
    }
    assert completer.complete("debias.partial", 0).startswith("debias.partial_dependence(")
    of_audit = {completer.complete("audit.", k) for k in range(200)} - {None}
    assert {"audit.to_frame()", "audit.to_html(", "audit.summary()"} <= of_audit
    assert not any("._" in each for each in of_audit)


SPACED = X_TEST.set_axis([f"{name} of blood" if name.startswith("s") else name for name in X], axis=1)


@pytest.mark.parametrize("kind", ["booster", "pipeline", "vote"])
def test_columns_are_called_as_x_calls_them_though_lightgbm_replaces_blanks(kind):
    training = X_TRAIN.set_axis(SPACED.columns, axis=1)
    booster = MAKERS["LightGBM"]()
    made = {
        "booster": booster,
        "pipeline": Pipeline([("scale", StandardScaler().set_output(transform="pandas")), ("model", booster)]),
        "vote": VotingRegressor([("booster", booster), ("forest", forest())]),
    }
    model = made[kind].fit(training, Y_TRAIN)
    audit = debias.audit(model, SPACED, Y_TEST, rows="held-out")
    assert set(audit.to_frame().index) == set(SPACED)
    assert audit.explain("s5 of blood")[0].startswith("s5 of blood has")
    grouped = debias.audit(model, SPACED, Y_TEST, rows="held-out", groups={"blood": ["s1 of blood", "s5 of blood"]})
    assert "blood" in grouped.to_frame().index


def test_columns_with_the_names_of_lightgbm_itself_keep_them():
    model = MAKERS["LightGBM"]().fit(X_TRAIN.set_axis(SPACED.columns, axis=1), Y_TRAIN)
    expected = debias.score(model, SPACED, Y_TEST, rows="held-out")
    underscored = SPACED.set_axis([name.replace(" ", "_") for name in SPACED], axis=1)
    found = debias.score(model, underscored, Y_TEST, rows="held-out")
    assert (found.feature_names[4], expected.feature_names[4]) == ("s1_of_blood", "s1 of blood")
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(debias.score(model, SPACED.to_numpy(), Y_TEST, rows="held-out").values, found.values)
