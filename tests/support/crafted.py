"""Model files of every format that are made to crash a reader, to hang it, or to run code."""

import io
import json
import os
import pickle
import re
import zipfile

import numpy as np


def xgboost_json(source, wrong):
    """Return the JSON of a model file with one thing wrong."""
    model = json.loads(source.read_text())
    trees = model["learner"]["gradient_booster"]["model"]["trees"]
    tree = next(each for each in trees if len(each["left_children"]) > 5)
    if wrong == "child":
        tree["left_children"][0] = 2_000_000_000
    elif wrong == "feature":
        tree["split_indices"][0] = 2_000_000_000
    elif wrong == "cycle":
        tree["left_children"][tree["left_children"][0]] = 0
        tree["right_children"][tree["left_children"][0]] = 0
    elif wrong == "short":
        tree["left_children"] = tree["left_children"][:-2]
    elif wrong == "claim":
        tree["tree_param"]["num_nodes"] = "2000000000"
    elif wrong == "nested":
        return '{"learner": ' + "[" * 200_000
    else:
        return json.dumps(model)[: len(json.dumps(model)) // 2]
    return json.dumps(model)


def lightgbm_text(text, wrong):
    """Return a model text with one thing wrong. Its length is kept, because the reader aborts on any other length."""
    children = re.search(r"left_child=(.*)", text)
    words = children.group(1).split()
    if wrong == "child":
        words[0] = "9" * len(words[0])
    elif wrong == "cycle":
        at = next(k for k, word in enumerate(words) if k > 0 and len(word) == 1)
        words[at] = "0"
    elif wrong == "feature":
        return re.sub(r"split_feature=\d", "split_feature=9", text, count=1)
    elif wrong == "short":
        words = words[:-2]
    elif wrong == "claim":
        return re.sub(r"num_leaves=\d+", "num_leaves=2000000000", text, count=1)
    elif wrong == "nested":
        return text.replace("pandas_categorical:null", "pandas_categorical:" + "[" * 200_000)
    elif wrong == "length":
        return text.replace("shrinkage=", "shrinkage=0000")
    else:
        return text[: len(text) // 2]
    return text[: children.start(1)] + " ".join(words) + text[children.end(1) :]


def xgboost_ubj(data, wrong):
    """Return the UBJSON of a model file with one thing wrong.

    The bytes are changed directly: an array is stored as `[$l#L`, its size, its numbers.
    """
    if wrong == "nested":
        return b"{L" + (7).to_bytes(8, "big") + b"learner" + b"[" * 200_000
    if wrong == "truncated":
        return data[: len(data) // 2]
    if wrong == "text":  # a number where trees belong
        return data.replace(b"left_children[$l#L", b"left_children[$D#L", 1)
    begin, size = _numbers_of(data, b"split_indices" if wrong == "feature" else b"left_children")
    numbers = np.frombuffer(data, ">i4", size, begin).copy()
    if wrong in ("child", "feature"):
        numbers[0] = 2_000_000_000
    elif wrong == "cycle":
        numbers[numbers[0]] = 0
    kept = numbers[:-2] if wrong == "short" else numbers
    claimed = 2_000_000_000 if wrong == "claim" else kept.size
    return data[: begin - 8] + claimed.to_bytes(8, "big") + kept.tobytes() + data[begin + numbers.nbytes :]


def _numbers_of(data, name):
    """Return start and size of the first array of this name that has more than five numbers."""
    for found in re.finditer(name + rb"\[\$l#L", data):
        size = int.from_bytes(data[found.end() : found.end() + 8], "big")
        if size > 5:
            return found.end() + 8, size
    raise ValueError(f"no array {name!r} of int32 in the file")


def hist_skops(model, path, wrong):
    """Save a histogram boosting model whose first tree has one thing wrong."""
    import skops.io

    predictor = model._predictors[0][0]
    nodes = predictor.nodes.copy()
    if wrong == "child":
        nodes["left"][0] = 2_000_000_000
    elif wrong == "feature":
        nodes["feature_idx"][0] = 2_000_000_000
    elif wrong == "cycle":
        nodes["left"][nodes["left"][0]] = 0
        nodes["is_leaf"][nodes["left"][0]] = False
    elif wrong == "short":
        nodes = nodes[:-2]
    elif wrong == "bitset":
        nodes["is_categorical"][0], nodes["bitset_idx"][0] = True, 2_000_000_000
    predictor.nodes = nodes
    skops.io.dump(model, path)


def booster_skops(model, path, change):
    """Save a wrapper of XGBoost or LightGBM whose booster's own bytes or text are changed."""
    import lightgbm
    import pytest
    import skops.io

    kind = lightgbm.Booster if hasattr(model, "booster_") else type(model.get_booster())
    name = "_handle" if kind is lightgbm.Booster else "handle"
    whole = kind.__getstate__

    def state(self):
        found = whole(self)
        return {**found, name: change(found[name])}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "__getstate__", state)
        skops.io.dump(model, path)


def skops_with_pickled_array(model, path, canary):
    """Save a model and replace one of its arrays by a pickle that makes the folder `canary`."""
    import skops.io

    array = np.empty(1, dtype=object)
    array[0] = Canary(canary)
    skops.io.dump(model, path)
    _exchange_array(path, lambda _: array)


def _exchange_array(path, change):
    """Change the first array of more than five entries in a skops file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    arrays = {name: np.load(io.BytesIO(content)) for name, content in members.items() if name.endswith(".npy")}
    name = next(name for name, array in arrays.items() if array.size > 5)
    buffer = io.BytesIO()
    np.save(buffer, change(arrays[name]), allow_pickle=True)
    members[name] = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in members.items():
            archive.writestr(each, content)


def forest_skops(model, path, wrong):
    """Save a forest whose first tree has one thing wrong."""
    import skops.io

    if wrong in ("truncated", "nested", "claim", "short"):
        skops.io.dump(model, path)
        if wrong == "short":
            _exchange_array(path, lambda array: array[:-2])
            return
        content = path.read_bytes()
        if wrong == "truncated":
            path.write_bytes(content[: len(content) // 2])
            return
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            if wrong == "nested":
                archive.writestr("schema.json", "[" * 200_000)
            else:
                archive.writestr("schema.json", b" " * 200_000_000)
        return
    tree = model.estimators_[0].tree_
    state = tree.__getstate__()
    nodes = state["nodes"].copy()
    if wrong == "child":
        nodes["left_child"][0] = 2_000_000_000
    elif wrong == "feature":
        nodes["feature"][0] = 2_000_000_000
    elif wrong == "cycle":
        nodes["left_child"][nodes["left_child"][0]] = 0
    tree.__setstate__({**state, "nodes": nodes})
    skops.io.dump(model, path)


class Canary:
    """An object that makes a folder when it is unpickled. The folder shows that code of a model file was run."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def pickle_with(canary):
    """Return a pickle that makes the folder `canary` when it is loaded."""
    return pickle.dumps({"model": Canary(canary), "array": np.zeros(3)})
