"""Tests of the reader of LightGBM's model texts, against the library's JSON."""

import re

import lightgbm
import numpy as np
import pandas as pd
import pytest

import debias
from debias_adapters.lightgbm import reading
from debias_adapters.lightgbm.file_checks import checked
from debias_adapters.lightgbm.reading import ModelText, read_trees, text_in_parts

ARRAYS = (
    *("start", "feature", "threshold", "left", "right", "missing_left", "zero_is_missing", "value", "count", "gain"),
    *("category_set", "root_value"),
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    codes = rng.integers(0, 30, 500)
    return X, codes, np.nan_to_num(X[:, 0]) + (codes % 3 == 0) + rng.normal(size=500)


def boosters(X, codes, y):
    settings = {"num_leaves": 9, "min_data_in_leaf": 5, "verbosity": -1, "num_threads": 1}
    frame = pd.DataFrame(X, columns=list("abcd")).assign(e=pd.Categorical(codes))
    yield "numbers", lightgbm.train(settings, lightgbm.Dataset(X, y), 12)
    yield "zeros", lightgbm.train({**settings, "zero_as_missing": True}, lightgbm.Dataset(X, y), 12)
    yield "categories", lightgbm.train({**settings, "cat_smooth": 1}, lightgbm.Dataset(frame, y), 12)
    several = {**settings, "objective": "multiclass", "num_class": 3}
    yield "classes", lightgbm.train(several, lightgbm.Dataset(X, np.digitize(y, [-1, 1])), 12)
    yield "leaves", lightgbm.train({**settings, "min_data_in_leaf": 400}, lightgbm.Dataset(X, y), 12)
    # The third class is so rare that its trees are single leaves, between trees that have splits.
    rare = np.where(np.arange(500) < 2, 2, (y > 0).astype(int))
    yield "some leaves", lightgbm.train({**several, "min_gain_to_split": 3}, lightgbm.Dataset(X, rare), 12)


@pytest.fixture(scope="module")
def trained(data):
    return dict(boosters(*data))


NAMES = ("numbers", "zeros", "categories", "classes", "leaves", "some leaves")


@pytest.mark.parametrize("name", NAMES)
def test_trees_are_those_of_the_librarys_json(trained, name):
    booster = trained[name]
    trees = ModelText.parse(text_in_parts(booster), "test").trees
    dumped = booster.dump_model()["tree_info"]
    assert len(trees) == len(dumped) == booster.num_trees()
    if name == "some leaves":
        assert 0 < sum(tree["num_leaves"] == 1 for tree in dumped) < len(dumped)
    for k, tree in enumerate(dumped):
        n_leaves = tree["num_leaves"]
        assert trees.start[k + 1] - trees.start[k] == 2 * n_leaves - 1
        weights = trees.hessians(slice(k, k + 1))
        compare(trees, k, tree["tree_structure"], 0, n_leaves, weights)


def compare(trees, k, node, at, n_leaves, weights):
    """Compare a node of a tree of the JSON, and all below it, with the arrays; doubles are to be the very same."""
    flat = trees.start[k] + at
    if "split_index" not in node:
        assert trees.value[flat] == node["leaf_value"]
        assert (trees.left[flat], trees.right[flat], trees.feature[flat], trees.category_set[flat]) == (-1, -1, -1, -1)
        if n_leaves > 1:
            assert at == n_leaves - 1 + node["leaf_index"]
            assert trees.count[flat] == node["leaf_count"]
            assert weights[node["leaf_index"]] == node["leaf_weight"]
        return
    assert at == node["split_index"]
    assert (trees.feature[flat], trees.count[flat]) == (node["split_feature"], node["internal_count"])
    assert trees.gain[flat] == pytest.approx(node["split_gain"], rel=1e-5)
    if node["decision_type"] == "==":
        codes = trees.sets[trees.category_set[flat]]
        assert "||".join(map(str, codes)) == node["threshold"]
        assert not trees.missing_left[flat]
    else:
        assert min(trees.threshold[flat], 1e300) == node["threshold"]  # JSON knows no infinity
        assert trees.category_set[flat] == -1
        if node["missing_type"] != "None":
            assert trees.missing_left[flat] == node["default_left"]
        assert trees.zero_is_missing[flat] == (node["missing_type"] == "Zero")
    compare(trees, k, node["left_child"], trees.left[flat], n_leaves, weights)
    compare(trees, k, node["right_child"], trees.right[flat], n_leaves, weights)


def test_the_cases_have_what_they_are_for(trained):
    read = {name: ModelText.parse(booster.model_to_string(), "test").trees for name, booster in trained.items()}
    assert read["categories"].sets
    assert read["zeros"].zero_is_missing.any()
    assert (read["numbers"].threshold % 1 != 0).any()
    assert (np.diff(read["leaves"].start) == 1).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("at_once", [1, 5_000, 20_000])
def test_a_text_in_parts_is_read_as_the_whole(trained, name, at_once, monkeypatch):
    monkeypatch.setattr(reading, "TEXT_AT_ONCE", at_once)
    monkeypatch.setattr(reading, "FRAME_AT_MOST", 10**9)
    booster = trained[name]
    parts = list(text_in_parts(booster))
    assert len(parts) == booster.current_iteration() or at_once > 1
    same(ModelText.parse(parts, "test"), ModelText.parse(booster.model_to_string(), "test"))


def same(found, expected):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found.trees, name), getattr(expected.trees, name), err_msg=name)
    np.testing.assert_array_equal(found.trees.hessians(), expected.trees.hessians())
    assert [each.tolist() for each in found.trees.sets] == [each.tolist() for each in expected.trees.sets]
    assert {k: v for k, v in found.head.items() if k != "tree_sizes"} == {
        k: v for k, v in expected.head.items() if k != "tree_sizes"
    }
    for name in ("settings", "pandas_categories", "shrinkage"):
        assert getattr(found, name) == getattr(expected, name)


@pytest.mark.thorough
def test_no_part_is_so_long_that_the_library_writes_it_twice(data):
    X, _, y = data
    long = lightgbm.train({"verbosity": -1, "num_threads": 1}, lightgbm.Dataset(X, y), 1500)
    parts = list(text_in_parts(long))
    assert 1 < len(parts) < 20
    assert max(map(len, parts)) < reading.TEXT_AT_ONCE < len(long.model_to_string())


def test_rounds_behind_the_best_are_not_read(data):
    X, _, y = data
    booster = lightgbm.train({"verbosity": -1, "num_threads": 1}, lightgbm.Dataset(X, y), 8)
    for best in (3, 8, 20):
        booster.best_iteration = best
        assert len(ModelText.parse(text_in_parts(booster), "test").trees) == min(best, 8)
        same(ModelText.parse(text_in_parts(booster), "test"), ModelText.parse(booster.model_to_string(), "test"))


@pytest.mark.thorough
def test_a_text_that_is_mostly_frame_is_taken_whole():
    """With thousands of columns each part would repeat their names and ranges."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5000))
    wide = lightgbm.train({"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5}, lightgbm.Dataset(X, X[:, 0]), 5)
    parts = list(text_in_parts(wide))
    assert parts == [wide.model_to_string()]


def blocks_of(text):
    body = text.partition("\nend of trees")[0]
    return [reading.lines_of(block) for block in reading.blocks_of(body)[1]]


@pytest.mark.parametrize("space", ["  ", "\t", " \t "])
def test_other_white_space_is_as_good(trained, space):
    blocks = blocks_of(trained["numbers"].model_to_string())
    expected = read_trees(blocks, "test")
    for name in ("threshold", "left_child", "leaf_value"):
        blocks[2] = blocks[2] | {name: blocks[2][name].replace(" ", space, 2) + " "}
    found = read_trees(blocks, "test")
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("name", ["threshold", "split_feature", "leaf_value", "leaf_count", "decision_type"])
def test_a_field_of_another_length_than_its_tree_is_refused_even_if_the_lengths_add_up(trained, name):
    blocks = blocks_of(trained["numbers"].model_to_string())
    first, *rest = blocks[3][name].split()
    blocks[3], blocks[4] = blocks[3] | {name: " ".join(rest)}, blocks[4] | {name: f"{first} {blocks[4][name]}"}
    with pytest.raises(debias.UnsupportedModelError, match=rf"{len(rest)} entries of {name} for .*\(tree 3\)"):
        read_trees(blocks, "test")


def test_a_field_that_is_missing_or_no_numbers_is_refused(trained):
    whole = blocks_of(trained["numbers"].model_to_string())
    without = [whole[0] | {"threshold": ""}, *whole[1:]]
    with pytest.raises(debias.UnsupportedModelError, match=r"0 entries of threshold for \d+ nodes \(tree 0\)"):
        read_trees(without, "test")
    for word in ("abc", "1.2.3", "0x"):
        changed = re.sub(r"^\S+", word, whole[5]["leaf_value"])
        with pytest.raises(ValueError, match="could not convert"):
            read_trees([*whole[:5], whole[5] | {"leaf_value": changed}, *whole[6:]], "test")


@pytest.mark.parametrize("word", ["99999999999", "-3e9", "nan", "inf"])
def test_numbers_of_nodes_no_tree_can_have_are_refused(trained, word):
    blocks = blocks_of(trained["numbers"].model_to_string())
    blocks[6] = blocks[6] | {"left_child": re.sub(r"^\S+", word, blocks[6]["left_child"])}
    with pytest.raises(debias.UnsupportedModelError, match="in left_child: it is not in the range of int32"):
        read_trees(blocks, "test")


def test_extreme_numbers_are_read_to_the_last_digit(trained):
    blocks = blocks_of(trained["numbers"].model_to_string())
    words = blocks[1]["threshold"].split()
    extreme = ["1.0000000180025095e-35", "-1.7976931348623157e+308", "4.9406564584124654e-324", "0.1"]
    blocks[1] = blocks[1] | {"threshold": " ".join([*extreme, *words[len(extreme) :]])}
    trees = read_trees(blocks, "test")
    begin = trees.start[1]
    assert trees.threshold[begin : begin + len(extreme)].tolist() == [float(word) for word in extreme]


def edited(text, tree, name, change):
    """Return a text in which a line of one tree is changed, and its length kept."""
    at = text.index(f"Tree={tree}\n")
    found = re.compile(rf"^{name}=(.*)$", re.M).search(text, at)
    changed = change(found.group(1))
    assert len(changed) == len(found.group(1))
    return text[: found.start(1)] + changed + text[found.end(1) :]


def test_damage_is_told_by_its_tree(trained):
    text = trained["numbers"].model_to_string()
    checked(text, "file")
    twice = edited(text, 7, "left_child", lambda line: re.sub(r"-\d", "-1", line))
    with pytest.raises(debias.UnsupportedModelError, match="the nodes of tree 7 do not form a tree"):
        checked(twice, "file")
    back = edited(text, 4, "right_child", lambda line: re.sub(r"(?<!\S)\d", "0", line))
    with pytest.raises(debias.UnsupportedModelError, match="the nodes of tree 4 do not form a tree"):
        checked(back, "file")
    with pytest.raises(debias.UnsupportedModelError, match="the nodes of tree 4 do not form a tree"):
        checked(edited(back, 7, "left_child", lambda line: re.sub(r"-\d", "-1", line)), "file")
    other = edited(text, 9, "split_feature", lambda line: re.sub(r"\d", "9", line, count=1))
    with pytest.raises(debias.UnsupportedModelError, match="tree 9 splits on a feature"):
        checked(other, "file")
    with pytest.raises(debias.UnsupportedModelError, match="tree 2 is not as long"):
        checked(text.replace("Tree=2\n", "Tree=2\n\n"), "file")


@pytest.mark.parametrize("child", ["2000000000", "-2000000000", "0"])
def test_links_of_a_weighted_forest_are_checked_before_weights_are_summed_along_them(data, child):
    X, _, y = data
    settings = {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1, "n_estimators": 3, "verbose": -1}
    forest = lightgbm.LGBMRegressor(**settings, num_leaves=8).fit(X, y, sample_weight=1 + np.arange(len(y)) % 3)
    text = re.sub(r"^tree_sizes=.*\n", "", forest.booster_.model_to_string(), flags=re.M)
    text = re.sub(r"^left_child=\S+", f"left_child={child}", text, count=1, flags=re.M)
    with pytest.raises(debias.DebiasError, match="tree 0"):
        debias.plugin.extract(lightgbm.Booster(model_str=text))


def test_sets_of_categories_that_are_not_there_are_refused(trained):
    """LightGBM's own reader, or its predict, ends the process on such a file."""
    numbers, categories = trained["numbers"].model_to_string(), trained["categories"].model_to_string()
    checked(categories, "file")
    in_tree = int(re.search(r"Tree=(\d+)\n(?:(?!\nTree=)[\s\S])*?num_cat=[1-9]", categories).group(1))

    def last_word(line):
        return line[:-1] + "0"

    faults = {
        "has a line 'num_kat'": numbers.replace("num_cat=0", "num_kat=0", 1),
        "has a line 'num_leave3'": numbers.replace("num_leaves=", "num_leave3=", 1),
        "whose boundaries are wrong": edited(categories, in_tree, "cat_boundaries", last_word),
        "a set of categories it does not have": edited(numbers, 3, "decision_type", lambda line: "3" + line[1:]),
    }
    for complaint, text in faults.items():
        with pytest.raises(debias.UnsupportedModelError, match=f"tree \\d+ .*{complaint}"):
            checked(text, "file")
    value = edited(numbers, 2, "leaf_value", lambda line: "-" * len(line))
    with pytest.raises(debias.UnsupportedModelError, match="file is damaged: ValueError"):
        checked(value, "file")
