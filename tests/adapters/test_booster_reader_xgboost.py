"""Tests of the reader of XGBoost's binary form, and of the numbers of its nodes."""

import json
import struct

import numpy as np
import pandas as pd
import pytest
import xgboost

import debias
from debias_adapters.xgboost import reading, ubjson
from debias_adapters.xgboost.reading import Nodes
from support import families


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    return X, X[:, 0] + rng.normal(size=400)


def boosters(X, y):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        e=pd.Categorical(np.where(X[:, 1] > 0, "up", np.where(X[:, 2] > 0, "down", "ärger")))
    )
    common = {"n_estimators": 6, "max_depth": 4, "n_jobs": 1}
    yield xgboost.XGBRegressor(**common).fit(X, y)
    yield xgboost.XGBClassifier(rate_drop=0.5, **families.XGB_DROPOUT, **common).fit(X, np.digitize(y, [-1, 1]))
    yield xgboost.XGBRegressor(enable_categorical=True, max_cat_to_onehot=1, **common).fit(frame, y)
    yield xgboost.XGBRegressor(multi_strategy="multi_output_tree", **common).fit(X, np.stack([y, -y], axis=1))


def test_what_is_read_is_what_xgboost_writes_as_json(data):
    for model in boosters(*data):
        booster = model.get_booster()
        assert_same(ubjson.read(bytes(booster.save_raw("ubj"))), json.loads(booster.save_raw("json").decode()))


def assert_same(ours, theirs):
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for name in theirs:
            assert_same(ours[name], theirs[name])
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        if isinstance(ours, np.ndarray):
            assert not ours.flags.writeable
            np.testing.assert_array_equal(ours, np.array(theirs, dtype=ours.dtype))
        else:
            for one, other in zip(ours, theirs, strict=True):
                assert_same(one, other)
    else:
        assert type(ours) is type(theirs)
        assert ours == (float(np.float32(theirs)) if isinstance(theirs, float) else theirs)  # to nine digits in JSON


WHOLE = {
    b"i\xff": -1,
    b"U\xff": 255,
    b"I\x01\x00": 256,
    b"l" + struct.pack(">i", -70000): -70000,
    b"L" + struct.pack(">q", 2**40): 2**40,
    b"d" + struct.pack(">f", 0.5): 0.5,
    b"D" + struct.pack(">d", 0.1): 0.1,
    b"T": True,
    b"F": False,
    b"Z": None,
    b"Si\x02\xc3\xa4": "ä",
    b"[]": [],
    b"[i\x01T[Z]]": [1, True, [None]],
    b"[#U\x02Si\x01ai\x05": ["a", 5],
    b"[$S#I\x00\x02i\x01ai\x01b": ["a", "b"],
    b"[${#i\x02i\x01aT}}": [{"a": True}, {}],
    b"{}": {},
    b"{i\x01a{i\x01bF}i\x01cZ}": {"a": {"b": False}, "c": None},
}


@pytest.mark.parametrize("data", WHOLE, ids=repr)
def test_every_marker_of_the_format_is_read(data):
    found = ubjson.read(data)
    assert found == WHOLE[data]
    assert type(found) is type(WHOLE[data])


@pytest.mark.parametrize("marker", ["i", "U", "I", "l", "L", "d", "D"])
def test_arrays_of_one_numeric_type_are_read_and_cut_ones_refused(marker):
    code = {"i": "b", "U": "B", "I": "h", "l": "i", "L": "q", "d": "f", "D": "d"}[marker]
    data = f"[${marker}#i".encode() + bytes([3]) + struct.pack(f">3{code}", 1, 0, 100)
    found = ubjson.read(data)
    assert found.dtype == np.dtype(code).newbyteorder(">")
    np.testing.assert_array_equal(found, [1, 0, 100])
    for end in range(len(data)):
        with pytest.raises(ValueError, match=r"UBJSON|buffer is smaller"):
            ubjson.read(data[:end])


def test_no_part_of_a_document_passes_for_a_whole_one(data):
    for whole in WHOLE:
        for end in range(len(whole)):
            with pytest.raises(ValueError, match="UBJSON"):
                ubjson.read(whole[:end])
    model = bytes(xgboost.XGBRegressor(n_estimators=2).fit(*data).get_booster().save_raw("ubj"))
    for end in range(0, len(model), 7):
        with pytest.raises(ValueError, match=r"UBJSON|buffer is smaller"):
            ubjson.read(model[:end])


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"[#i\xff",  # a negative length
        b"Si\xff",
        b"[$i#i\xff",
        b"Sd" + struct.pack(">f", 1.0) + b"a",  # a length that is no whole number
        b"[$i\x01]",  # a type without a count
        b"[$x#i\x01\x00",
        b"[$Z#L" + struct.pack(">q", 2**40),  # nothing, so many times
        b"[$l#L" + struct.pack(">q", 2**40),
        b"[#L" + struct.pack(">q", 2**40) + b"Z",
        b"{i\x01aT]",
        b"Si\x01\xff",  # no UTF-8
        b"[" * 100_000,
    ],
    ids=lambda data: repr(data[:8]),
)
def test_what_is_no_ubjson_is_refused(data):
    with pytest.raises(ValueError, match=r"UBJSON|buffer is smaller"):
        ubjson.read(data)


def grown(rng, prune):
    """Return a tree as XGBoost stores one, with subtrees cut off and left in place."""
    left, right, depth = [-1], [-1], [0]
    for node in range(40):
        if node < len(left) and depth[node] < 6 and rng.random() < (0.9 if depth[node] < 3 else 0.5):
            left[node], right[node] = len(left), len(left) + 1
            for _ in range(2):
                left.append(-1)
                right.append(-1)
                depth.append(depth[node] + 1)
    before = len(left)
    for node in rng.permutation(before)[: before // 4] if prune else []:
        left[node] = right[node] = -1
    gone = before - len(walk(left, right))
    return {
        "left_children": np.array(left, dtype=">i4"),
        "right_children": np.array(right, dtype=">i4"),
        "label": rng.random(before).astype(">f4"),
        "tree_param": {"num_deleted": str(gone)},
    }


def walk(left, right, node=0):
    """Return the nodes below a node, itself among them."""
    return [node] if left[node] < 0 else [node, *walk(left, right, left[node]), *walk(left, right, right[node])]


def test_nodes_that_are_left_are_numbered_as_a_walk_from_the_roots_finds_them():
    rng = np.random.default_rng(1)
    trees = [grown(rng, prune=k % 3 > 0) for k in range(60)]
    nodes = Nodes.of(trees, "test")
    left, right = nodes.children()
    native, label = nodes.native_number(), nodes.joined("label")
    assert native is not None
    assert sum(int(tree["tree_param"]["num_deleted"]) > 0 for tree in trees) > 20
    for k, tree in enumerate(trees):
        at = slice(nodes.start[k], nodes.start[k + 1])
        old = sorted(walk(tree["left_children"].tolist(), tree["right_children"].tolist()))
        assert native[at].tolist() == old
        np.testing.assert_array_equal(label[at], tree["label"][old])
        for children, name in ((left[at], "left_children"), (right[at], "right_children")):
            expected = [old.index(child) if child >= 0 else -1 for child in tree[name][old].tolist()]
            assert children.tolist() == expected
        for node in range(tree["left_children"].size):
            assert nodes.place(k, node) == (nodes.start[k] + old.index(node) if node in old else -1)
    np.testing.assert_array_equal(nodes.tree, np.repeat(np.arange(60), np.diff(nodes.start)))


def test_trees_without_pruned_nodes_are_taken_as_they_stand():
    rng = np.random.default_rng(2)
    trees = [grown(rng, prune=False) for _ in range(5)]
    nodes = Nodes.of(trees, "test")
    assert nodes.native_number() is None
    np.testing.assert_array_equal(nodes.children()[0], np.concatenate([tree["left_children"] for tree in trees]))
    assert nodes.children()[0].dtype == np.int32  # in the byte order of the machine
    assert nodes.place(3, 2) == nodes.start[3] + 2


def test_arrays_of_another_length_than_their_tree_are_refused_even_if_the_lengths_add_up():
    rng = np.random.default_rng(3)
    trees = [grown(rng, prune=False) for _ in range(3)]
    trees[1]["label"], trees[2]["label"] = trees[1]["label"][:-1], np.append(trees[2]["label"], trees[1]["label"][-1:])
    with pytest.raises(debias.UnsupportedModelError, match="tree 1 has .* entries of label"):
        Nodes.of(trees, "test").joined("label")


def test_a_pruned_tree_that_leads_in_circles_is_no_endless_walk():
    tree = grown(np.random.default_rng(4), prune=True)
    circle = tree["left_children"].copy()
    circle[circle[0]] = 0
    kept = Nodes.of([tree | {"left_children": circle, "tree_param": {"num_deleted": "1"}}], "test")
    assert 0 < kept.start[-1] <= circle.size


def test_labels_that_xgboost_has_cut_inside_of_a_letter_are_refused():
    def learner(text, ends):
        encoded = {"offsets": np.array(ends), "values": np.frombuffer(text, dtype=np.int8)}
        model = {"cats": {"enc": [{"values": np.array([], dtype=np.int8), "offsets": np.array([0])}, encoded]}}
        return {"feature_names": ["size", "city"], "gradient_booster": {"name": "gbtree", "model": model}}

    whole = "abÇd".encode()
    assert reading.category_labels(learner(whole, [0, 1, 2, 4, 5]), "XGBoost")[1].tolist() == ["a", "b", "Ç", "d"]
    # XGBoost 3.2 counts letters, and stores as many bytes.
    with pytest.raises(debias.UnsupportedModelError, match="labels of column 'city' .+ is not ASCII"):
        reading.category_labels(learner(whole[:4], [0, 1, 2, 3, 4]), "XGBoost")
