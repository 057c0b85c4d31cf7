"""Tests of `debias.testing.check_adapter` with adapters that are broken in one way each."""

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from debias_toy import adapter as toy
from debias_toy.model import ToyForest

import debias
from debias.hooks.registry import plugin_manager
from debias.hooks.wrapping import Inner, Unwrapped
from debias.testing import check_adapter
from support.families import FAMILIES, response, rows
from support.versions import at_least

HOOKS = {name: getattr(toy, name) for name in vars(toy) if name.startswith("debias_")}


@pytest.mark.parametrize(
    "family",
    ["RandomForest", "ExtraTrees", "HistGradientBoosting", "XGBoost gbtree", "LightGBM rf", "GridSearchCV",
     "MultiOutputRegressor", "VotingRegressor"],
)  # fmt: skip
def test_ours_are_right(family):
    labelled = ("HistGradientBoosting", "GridSearchCV", *(("XGBoost gbtree",) if at_least("xgboost", "3.1") else ()))
    X, y = rows(0, categories=family in labelled)
    y = response(family, y)
    assert check_adapter(FAMILIES[family]().fit(X, y), X, y)


@pytest.fixture
def checked():
    """Return a function that checks the toy forest with some hooks of its adapter changed."""
    added = []

    def add(plugin, name):
        debias.plugin.register(plugin, name)
        added.append(plugin)

    def check(y=None, X=None, model=None, second=None, tryfirst=False, **changed):
        data = np.random.default_rng(0).normal(size=(80, 4))
        target = data[:, 0] + np.random.default_rng(1).normal(size=80)
        forest = ToyForest(n_trees=5).fit(data, target) if model is None else model
        marked = {name: debias.plugin.hookimpl(function) for name, function in changed.items() if function is not None}
        dropped = {name for name, function in changed.items() if function is None}
        hooks = {name: function for name, function in HOOKS.items() if name not in dropped}
        add(SimpleNamespace(**hooks | marked), "the_toy")
        if second is not None:
            add(SimpleNamespace(debias_extract=debias.plugin.hookimpl(second, tryfirst=tryfirst)), "another")
        return check_adapter(forest, data if X is None else X, target if y is None else y)

    yield check
    for plugin in added:
        plugin_manager().unregister(plugin)


def test_an_adapter_of_subclasses_is_asked_first(checked):
    assert "debias_extract" in checked(second=lambda model: toy.debias_extract(model), tryfirst=True)


def with_fields(**changed):
    """Return a debias_extract whose ensemble has other fields; a function gets the field."""

    def debias_extract(model):
        found = toy.debias_extract(model)
        if found is None:
            return None
        given = {each.name: getattr(found, each.name) for each in fields(found) if each.init}
        new = {name: value(given[name]) if callable(value) else value for name, value in changed.items()}
        return replace(found, **given | new)

    return debias_extract


class OfChangingPickles(ToyForest):
    """Its pickle holds a number of its own each time, as models with locks, times or sets may."""

    def __getstate__(self):
        return self.__dict__ | {"pickled": np.random.default_rng().random()}


def test_a_model_whose_pickles_differ_is_not_said_to_be_changed(checked):
    X = np.random.default_rng(0).normal(size=(80, 4))
    y = X[:, 0] + np.random.default_rng(1).normal(size=80)
    assert "debias_extract" in checked(model=OfChangingPickles(n_trees=5).fit(X, y))


@pytest.mark.quick
def test_the_toy_adapter_is_right(checked):
    assert checked() == tuple(name for name in HOOKS)


def test_hooks_that_are_left_out_are_seen_in_what_is_returned(checked):
    left_out = {"debias_predict_native": None, "debias_in_bag": None, "debias_refit": None}
    assert checked(**left_out) == ("debias_extract", "debias_leaves", "debias_predict_raw")


def test_a_model_nobody_recognises_fails():
    with pytest.raises(AssertionError, match=r"no adapter recognises .*ToyForest.*debias\.plugin\.register\(module\)"):
        check_adapter(ToyForest(), None, None)


def test_a_model_two_recognise_fails(checked):
    with pytest.raises(AssertionError, match="recognised more than once, by another, the_toy: .* must be disjoint"):
        checked(second=toy.debias_extract)


def test_a_wrapper_without_models_fails(checked):
    def debias_unwrap(model):
        return Unwrapped("toy", ()) if toy.is_mine(model) else None

    with pytest.raises(AssertionError, match="return debias.hooks.wrapping.Unwrapped"):
        checked(debias_extract=None, debias_unwrap=debias_unwrap)


def refusing(hook):
    def function(model):
        if toy.is_mine(model):
            raise debias.UnsupportedModelError("not today")

    function.__name__ = hook
    return function


def not_mine(model):
    return toy.debias_extract(model) if isinstance(model, ToyForest) else model


def fails_for_others(model):
    return toy.debias_extract(model) if model.trees else None


def no_ensemble(model):
    return {"trees": model.trees} if toy.is_mine(model) else None


def drawing(model):
    shift = np.random.default_rng().normal()
    return with_fields(value=lambda value: value + shift)(model)


def changing(model):
    if toy.is_mine(model):
        model.seen = getattr(model, "seen", 0) + 1
    return toy.debias_extract(model)


def numbered_leaves(model, X):
    leaves = toy.debias_leaves(model, X)
    return np.unique(leaves, return_inverse=True)[1].reshape(leaves.shape)


def without_bags(model):
    return debias.plugin.InBag.from_rows([np.arange(80)] * 5, 80)


def other_bags(model):
    rng = np.random.default_rng(5)
    return debias.plugin.InBag.from_rows([rng.integers(0, 80, 80) for _ in range(5)], 80)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"debias_extract": refusing("debias_extract")}, "debias_extract of the_toy refuses the model: not today"),
        ({"debias_extract": not_mine}, "answers <object.*which is not one of its models: return None"),
        ({"debias_extract": fails_for_others}, "fails for a object: AttributeError.*an adapter returns None"),
        ({"debias_extract": no_ensemble}, "returns a dict, not a debias.plugin.TreeEnsemble"),
        ({"debias_extract": drawing}, "other trees the second time"),
        ({"debias_extract": changing}, "the adapter the_toy changes the ToyForest"),
        ({"debias_extract": with_fields(feature_names=("a", "a", "b", "c"))}, r"several features \['a'\]"),
        ({"debias_extract": with_fields(feature_names=tuple("abc"), feature=lambda of: np.minimum(of, 2))},
         "the rows do not match what debias_extract says.*named=False"),
        ({"debias_extract": with_fields(classes=np.array(["no", "yes"]), base=np.zeros(1))},
         "refuses the model: .*`classes` has 2 labels, `value` 1 columns"),
        ({"debias_extract": with_fields(classes=np.array(["no"]))},
         "y does not match what debias_extract says.*`classes`"),
        ({"debias_leaves": lambda model, X: None}, "debias_leaves returns None"),
        ({"debias_leaves": lambda model, X: toy.debias_leaves(model, X)[:, :1]}, "one leaf per row and tree"),
        ({"debias_leaves": numbered_leaves}, "which is not a leaf: return the index of the leaf within its tree"),
        ({"debias_extract": with_fields(threshold=lambda of: np.nextafter(of, np.inf))},
         "equals a threshold: x <= threshold goes left.*nextafter"),
        ({"debias_extract": with_fields(missing_left=lambda of: ~of)}, "is missing: check missing_left"),
        ({"debias_extract": with_fields(threshold=lambda of: of + 0.5)}, "check left and right, feature"),
        ({"debias_predict_raw": lambda model, X: None}, "debias_predict_raw returns None"),
        ({"debias_predict_raw": lambda model, X: model.predict(X)}, r"not \(\d+, 1\): one column per output"),
        ({"debias_extract": with_fields(base=np.ones(1))}, r"the gap is \[-1.*`base` is the raw output"),
        ({"debias_extract": with_fields(averaged=False, mean_values=False)},
         "the library's output is 0.2 times as large in every row: averaged=False"),
        ({"debias_predict_raw": lambda model, X: np.exp(model.predict(X))[:, None]}, "margins or transformed output"),
        ({"debias_predict_native": lambda model, X: model.predict(X)}, r"debias_predict_native returns shape \(\d+,\)"),
        ({"debias_predict_native": lambda model, X: np.exp(model.predict(X))[:, None]}, "link functions do not belong"),
        ({"debias_predict_native": lambda model, X: model.predict(X.iloc)}, "debias_predict_native fails for"),
        ({"debias_in_bag": lambda model: model.bags}, "not a debias.plugin.InBag: create one with InBag.from_rows"),
        ({"debias_in_bag": lambda model: debias.plugin.InBag.from_rows(model.bags[:2], 80)}, "of 80 rows for 2 trees"),
        ({"debias_in_bag": without_bags}, "no row is out of any bag: raise debias.InBagUnavailableError"),
        ({"debias_in_bag": other_bags}, "the bags do not reproduce.*in training order"),
        ({"debias_extract": with_fields(count=None)}, "debias_extract returns no `count`"),
        ({"debias_training_weights": lambda model: True if toy.is_mine(model) else None}, "returns a bool: return"),
        ({"debias_reported_importance": lambda model: np.ones(4) if toy.is_mine(model) else None},
         "not the pair"),
        ({"debias_reported_importance": lambda model: (np.ones(3), "gain") if toy.is_mine(model) else None},
         r"values of shape \(3,\), not \(4,\)"),
        ({"debias_refit": lambda model, X, y: model}, "returns the user's own model: fit a new one"),
        ({"debias_refit": lambda model, X, y: "model"}, "returns a str, which no adapter recognises"),
        ({"debias_refit": lambda model, X, y: ToyForest(seed=np.random.default_rng().integers(9**9)).fit(X, y)},
         "different models for the same seed"),
        ({"debias_refit": lambda model, X, y: ToyForest().fit(np.eye(80, 4), np.arange(80))},
         "the same model for other rows"),
    ],
)  # fmt: skip
def test_what_is_broken_is_told(checked, changed, message):
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        checked(**changed)


def test_a_response_debias_does_not_take(checked):
    with pytest.raises(AssertionError, match="y does not match.*drop them"):
        checked(y=np.r_[np.nan, np.ones(79)])


def test_a_wrapper_whose_scores_are_of_other_columns(checked):
    X, y = rows(0)
    inner = FAMILIES["RandomForest"]().fit(X[["a", "b"]], y)

    def debias_unwrap(model):
        if not isinstance(model, SimpleNamespace):
            return None
        return Unwrapped("toy", (Inner(model.inner, "it", transform=lambda X: X[["a", "b"]]),))

    with pytest.raises(AssertionError, match="but X has 3 columns: give feature_names"):
        checked(model=SimpleNamespace(inner=inner), X=X, y=y, debias_unwrap=debias_unwrap)
