"""Files made to crash, hang or run code, one thing wrong in each: all are refused in words where they are loaded."""

import json
import re
from functools import partial

import numpy as np
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits
from xgboost import XGBRegressor

import debias
from debias_adapters.xgboost import ubjson
from support import crafted, model_mutants, mutants


def of_tree(name, value):
    """Change a value of the first tree, or of what it says of itself."""

    def change(document):
        tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
        holder = tree["tree_param"] if name in tree["tree_param"] else tree
        holder[name] = value(holder[name]) if callable(value) else value

    return change


def of_model(name, value):
    def change(document):
        model = document["learner"]["gradient_booster"]["model"]
        holder = model["gbtree_model_param"] if name in model["gbtree_model_param"] else model
        holder[name] = value

    return change


def of_learner(group, name, value):
    return lambda document: document["learner"][group].__setitem__(name, value)


def first(number):
    return lambda array: [number, *array[1:]]


def with_sets(**changed):
    """Make the root a split on categories, with a set that is not there."""
    sets = {"categories_nodes": [0], "categories_segments": [0], "categories_sizes": [1], "categories": [1]} | changed

    def change(document):
        tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
        tree["split_type"] = [1, *tree["split_type"][1:]]
        tree.update(sets)

    return change


def dart(document):
    grown = document["learner"]["gradient_booster"]
    document["learner"]["gradient_booster"] = {"name": "dart", "gbtree": grown, "weight_drop": [1.0]}


HUGE = "2000000000"
XGBOOST = {
    "left child wraps": of_tree("left_children", first(2147483648)),
    "left child wraps twice": of_tree("left_children", first(2**32 + 1)),
    "right child": of_tree("right_children", first(2_000_000_000)),
    "negative child": of_tree("left_children", first(-2)),
    "one child": of_tree("right_children", first(-1)),
    "cycle": of_tree("left_children", first(0)),
    "child of two": of_tree("right_children", lambda array: [array[0], array[0], *array[2:]]),
    "parents": of_tree("parents", lambda array: [array[0], 2_000_000_000, *array[2:]]),
    "other parents": of_tree("parents", lambda array: [array[0], 5, *array[2:]]),
    "short": of_tree("left_children", lambda array: array[:-1]),
    "short conditions": of_tree("split_conditions", lambda array: array[:-1]),
    "short hessians": of_tree("sum_hessian", lambda array: array[:-1]),
    "feature": of_tree("split_indices", first(2_000_000_000)),
    "split type": of_tree("split_type", first(7)),
    "default": of_tree("default_left", first(-7)),
    "num_nodes": of_tree("num_nodes", HUGE),
    "num_deleted": of_tree("num_deleted", "3"),
    "size_leaf_vector": of_tree("size_leaf_vector", HUGE),
    "size_leaf_vector of 2": of_tree("size_leaf_vector", "2"),
    "num_feature of a tree": of_tree("num_feature", HUGE),
    "id": of_tree("id", 2_000_000_000),
    "negative id": of_tree("id", -1),
    "categories without a set": with_sets(categories_nodes=[], categories_segments=[], categories_sizes=[]),
    "segments": with_sets(categories_segments=[2_000_000_000]),
    "sizes": with_sets(categories_sizes=[2_000_000_000]),
    "negative sizes": with_sets(categories_sizes=[-1]),
    "nodes of sets": with_sets(categories_nodes=[2_000_000_000]),
    "category": with_sets(categories=[2_000_000_000]),
    "negative category": with_sets(categories=[-1]),
    "num_trees": of_model("num_trees", HUGE),
    "num_parallel_tree": of_model("num_parallel_tree", HUGE),
    "tree_info": of_model("tree_info", [2_000_000_000, 0]),
    "short tree_info": of_model("tree_info", [0]),
    "iteration_indptr": of_model("iteration_indptr", [0, 2_000_000_000, 2]),
    "negative iteration_indptr": of_model("iteration_indptr", [0, -5, 2]),
    "num_feature": of_learner("learner_model_param", "num_feature", HUGE),
    "fewer features": of_learner("learner_model_param", "num_feature", "1"),
    "num_class": of_learner("learner_model_param", "num_class", HUGE),
    "num_target": of_learner("learner_model_param", "num_target", HUGE),
    "base_score": of_learner("learner_model_param", "base_score", "[" + "1," * 1000 + "1]"),
    "weight_drop": dart,
}
NOT_IN_BINARY = ("left child wraps", "left child wraps twice")
"""Numbers that an array of 32 bits cannot hold."""


def line(name, text):
    return partial(re.sub, rf"(?m)^{name}=.*$", f"{name}={text}", count=1)


LIGHTGBM = {
    "num_class": line("num_class", HUGE),
    "num_class of 3": line("num_class", "3"),
    "num_tree_per_iteration": line("num_tree_per_iteration", HUGE),
    "num_tree_per_iteration of 0": line("num_tree_per_iteration", "0"),
    "negative num_tree_per_iteration": line("num_tree_per_iteration", "-1"),
    "both of 3": lambda text: line("num_class", "3")(line("num_tree_per_iteration", "3")(text)),
    "max_feature_idx": line("max_feature_idx", HUGE),
    "objective": line("objective", f"multiclass num_class:{HUGE}"),
    "num_leaves": line("num_leaves", HUGE),
    "num_cat": line("num_cat", HUGE),
    "decision": line("decision_type", "1 1 1"),
    "decision of no kind": line("decision_type", "99 2 2"),
    "left_child": line("left_child", "2147483648 -2 -1"),
    "exponent": line("left_child", "1e0 -2 -1"),
    "linear": line("is_linear", "1"),
    "name twice": lambda text: text.replace("num_cat=0\n", "num_cat=0\nnum_cat=0\n", 1),
    "head twice": lambda text: text.replace("num_class=1\n", "num_class=1\nnum_class=2000000000\n", 1),
    "no parameter": lambda text: text.replace("[sigmoid: 1]", "sigmoid", 1),
    "parameters without end": lambda text: text.replace("end of parameters", "", 1),
    "cut off": lambda text: text[: text.index("end of trees")],
    "cut off in a parameter": lambda text: text[: text.index("[min_data_in_bin") + len("[min_")],
    "a letter in a number": lambda text: re.sub(r"(\nleaf_value=-?0\.\d\d)", r"\1x", text, count=1),
    "carriage returns": lambda text: text.replace("\nleft_child", "\rleft_child", 1),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    with threadpool_limits(1):
        home = tmp_path_factory.mktemp("crafted")
        yield home, model_mutants.make_models(home)


def refused(whole, name, cases):
    """Load crafted files in children; each must be refused in words that name the file."""
    home, contents = whole
    read = model_mutants.reader(home, name)
    read(contents[name])
    table = mutants.run(list(cases.values()), read, original=contents[name], name=name)
    told = {title: (case.outcome, case.detail) for title, case in zip(cases, table.cases, strict=True)}
    assert {title: found for title, found in told.items() if found[0] != "clear"} == {}
    assert all(name in detail for _, detail in told.values())


def test_crafted_json_of_xgboost_is_refused(whole):
    cases = {}
    for title, change in XGBOOST.items():
        document = json.loads(whole[1]["model.json"])
        change(document)
        cases[title] = json.dumps(document).encode()
    text = whole[1]["model.json"].decode()
    cases["name twice"] = text.replace('"num_feature":"3"', '"num_feature":"2000000000","num_feature":"3"', 1).encode()
    cases["other digits"] = text.replace('"num_nodes":"7"', '"num_nodes":"\uff17"', 1).encode()
    cases["no Unicode"] = text.replace('"feature_names":[]', '"feature_names":["a","b","\\ud800"]').encode()
    assert len(set(cases.values())) == len(cases)
    refused(whole, "model.json", cases)


def test_crafted_binary_json_of_xgboost_is_refused(whole):
    content = whole[1]["model.ubj"]
    cases = {}
    for title, change in XGBOOST.items():
        if title not in NOT_IN_BINARY:
            document, kinds = model_mutants.plain(ubjson.read(content))
            change(document)
            cases[title] = model_mutants.written(document, kinds)
    again = b"L" + (11).to_bytes(8, "big") + b"num_feature" + b"SL" + (1).to_bytes(8, "big") + b"3"
    cases["name twice"] = content.replace(again, again + again, 1)
    cases["longer"] = content + b"}"
    assert len(set(cases.values())) == len(cases)
    refused(whole, "model.ubj", cases)


def test_crafted_texts_of_lightgbm_are_refused(whole):
    text = whole[1]["model.txt"].decode()
    cases = {title: model_mutants.with_lengths(change(text).encode()) for title, change in LIGHTGBM.items()}
    assert text.encode() not in cases.values()
    refused(whole, "model.txt", cases)


def test_boosters_in_skops_files_are_checked_whatever_way_they_are_made(whole, tmp_path):
    """A schema may call a class instead of setting a state, or give a state that is none."""
    with_booster = {name: whole[1][name] for name in ("xgboost.skops", "lightgbm.skops")}
    for name, content in with_booster.items():
        cases = {}
        for title, changed in {
            "called": {"__loader__": "ConstructorFromReduceNode", "content": TUPLE_OF_A_NAME},
            "no state": {"content": None},
            "a list": {"content": {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode",
                                   "content": []}},
        }.items():  # fmt: skip
            cases[title] = model_mutants.with_node(content, "Booster", changed)
        refused(whole, name, cases)


TUPLE_OF_A_NAME = {
    "__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode",
    "content": [{"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": '{"a": 1}',
                 "is_json": True}],
}  # fmt: skip


@pytest.mark.parametrize("claim", [10**6, 2**40, 0, -1])
def test_a_compiled_tree_that_claims_nodes_it_has_not(tmp_path, claim):
    """Of more nodes than there are scikit-learn itself takes those that are there; fewer are refused."""
    X, y = model_mutants.data()
    forest = RandomForestRegressor(2, max_depth=2, random_state=0).fit(X, y)
    skops.io.dump(forest, tmp_path / "model.skops")
    content = (tmp_path / "model.skops").read_bytes()
    (tmp_path / "model.skops").write_bytes(model_mutants.with_text(content, "node_count", str(claim)))
    if claim > 0:
        np.testing.assert_array_equal(debias.load_model(tmp_path / "model.skops").predict(X), forest.predict(X))
        return
    with pytest.raises(debias.UnsupportedModelError, match=r"model\.skops is damaged: a tree in it claims"):
        debias.load_model(tmp_path / "model.skops")


def test_trees_beside_the_model_are_checked_as_well(tmp_path):
    """A selection of features before the model walks a forest of its own, which is not scored."""
    X, y = model_mutants.data()
    select = SelectFromModel(RandomForestClassifier(2, max_depth=2, random_state=0), max_features=3, threshold=-np.inf)
    model = make_pipeline(select, XGBRegressor(n_estimators=2, max_depth=2)).fit(X, y > 0)
    tree = select.estimator_.estimators_[0].tree_
    state = tree.__getstate__()
    nodes = state["nodes"].copy()
    nodes["feature"][0] = 2_000_000_000
    tree.__setstate__({**state, "nodes": nodes})
    skops.io.dump(model, tmp_path / "model.skops")
    with pytest.raises(debias.UnsupportedModelError, match="splits on a feature it does not have"):
        debias.load_model(tmp_path / "model.skops")


def test_catboosts_files_are_loaded_in_a_process_of_their_own_first(whole, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("debias.models.sandbox.check", lambda path, trust, **_: asked.append(path))
    (tmp_path / "model.cbm").write_bytes(whole[1]["model.cbm"])
    debias.load_model(tmp_path / "model.cbm")
    assert asked == [tmp_path / "model.cbm"]
    (tmp_path / "model.ubj").write_bytes(whole[1]["model.ubj"])
    debias.load_model(tmp_path / "model.ubj")
    assert len(asked) == 1


def test_a_pickle_in_any_place_is_refused(whole, tmp_path):
    canary = tmp_path / "canary"
    for name in ("model.json", "model.txt", "model.cbm", "model.ubj"):
        (tmp_path / name).write_bytes(crafted.pickle_with(canary))
        with pytest.raises(debias.UntrustedModelError):
            debias.load_model(tmp_path / name)
    assert not canary.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("pool_size", "2000000000"), "claims a large pool"),
        (("pool_size", "true"), "claims a large pool"),
    ],
)
def test_a_generator_of_random_numbers_that_would_never_be_ready_is_refused(whole, tmp_path, change, message):
    (tmp_path / "hist.skops").write_bytes(model_mutants.with_text(whole[1]["hist.skops"], *change))
    with pytest.raises(debias.UnsupportedModelError, match=rf"hist\.skops.*{message}"):
        debias.load_model(tmp_path / "hist.skops")


def test_an_id_that_stands_for_two_values_is_refused(whole, tmp_path):
    """Of nodes with one id skops reads the first, so that a check of the other says nothing."""
    two = model_mutants.with_text(whole[1]["hist.skops"], "max_depth", "7", keep_id=True)  # the id of every None
    (tmp_path / "hist.skops").write_bytes(two)
    with pytest.raises(debias.UnsupportedModelError, match="an id in it has two values"):
        debias.load_model(tmp_path / "hist.skops")
