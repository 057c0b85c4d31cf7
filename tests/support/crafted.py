"""Model files made to crash, hang or run code, of every format."""

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


def lightgbm_text(source, wrong):
    """Return a model text with one thing wrong; the length stays, since the reader aborts on another."""
    text = source.read_text()
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


def forest_skops(model, path, wrong):
    """Save a forest whose first tree has one thing wrong."""
    import skops.io

    if wrong in ("truncated", "nested", "claim"):
        skops.io.dump(model, path)
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
    """Unpickled, it makes a folder: the sign that code of a model file was run."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def pickle_with(canary):
    """Return a pickle that makes the folder `canary` when it is loaded."""
    return pickle.dumps({"model": Canary(canary), "array": np.zeros(3)})
