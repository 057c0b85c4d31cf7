"""Damaged model files of every format, and readers that load a file, extract its trees and predict."""

import io
import json
import pickle
import struct
import zipfile
from importlib.util import find_spec
from pathlib import Path

import catboost
import lightgbm
import numpy as np
import skops.io
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

import debias
from debias.hooks.registry import plugin_manager
from debias.models import loading
from debias.models.wrappers import extract, unwrap
from debias_adapters.xgboost import ubjson
from support import mojo, mutants, simulated

OF_H2O = Path(__file__).parents[1] / "old_files/h2o/3.46"
ONNX_TOO = find_spec("skl2onnx") is not None
MOJOS = ("gbm_gaussian.zip", "gbm_one_hot.zip", "drf_multinomial.zip", "xgb_dense.zip")
OF_ROWS = 8
"""Most columns of a model for which rows are made."""
DESCRIPTION = """artifact_path: model
flavors:
  python_function:
    env: {conda: conda.yaml, virtualenv: python_env.yaml}
    loader_module: mlflow.sklearn
    model_path: forest.skops
    python_version: 3.11.7
  sklearn:
    code: null
    pickled_model: forest.skops
    serialization_format: skops
    sklearn_version: 1.9.1
mlflow_version: 3.17.0
model_size_bytes: 12345
model_uuid: 0123456789abcdef0123456789abcdef
run_id: 0123456789abcdef0123456789abcdef
signature:
  inputs: '[{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1, 3]}}]'
  outputs: '[{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1]}}]'
utc_time_created: '2026-01-01 00:00:00.000000'
"""


def data():
    return simulated.rows(120)


def make_models(home):
    """Save a small model in every format, and return the bytes of each file by its name."""
    X, y = data()
    small = {"n_estimators": 2, "max_depth": 2, "n_jobs": 1}
    booster, gbm = xgboost.XGBRegressor(**small).fit(X, y), lightgbm.LGBMRegressor(**small, verbose=-1).fit(X, y)
    hist = HistGradientBoostingRegressor(max_iter=2, max_leaf_nodes=4).fit(X, y)
    forest = RandomForestRegressor(2, max_depth=2, random_state=0).fit(X, y)
    for name, model in (("forest", forest), ("hist", hist), ("xgboost", booster), ("lightgbm", gbm)):
        skops.io.dump(model, home / f"{name}.skops")
    booster.save_model(home / "model.json")
    booster.save_model(home / "model.ubj")
    gbm.booster_.save_model(home / "model.txt")
    lightgbm.LGBMRegressor(**small, verbose=-1, linear_tree=True).fit(X, y).booster_.save_model(home / "lines.txt")
    catboost.CatBoostRegressor(iterations=2, depth=2, thread_count=1, silent=True, allow_writing_files=False).fit(
        X, y
    ).save_model(home / "model.cbm")
    if ONNX_TOO:
        import onnx
        import skl2onnx

        tree = DecisionTreeRegressor(max_depth=2, random_state=0).fit(np.asarray(X, dtype=np.float32), y)
        onnx.save(skl2onnx.to_onnx(tree, np.asarray(X, dtype=np.float32)[:1]), home / "model.onnx")
    (home / "model.pmml").write_bytes((OF_H2O.parents[1] / "pmml/light_two.pmml").read_bytes())
    for name in MOJOS:
        (home / name).write_bytes((OF_H2O / name).read_bytes())
    (home / "model.pkl").write_bytes(pickle.dumps(forest))
    (home / "MLmodel").write_text(DESCRIPTION)
    return {path.name: path.read_bytes() for path in home.iterdir()}


def reader(home, name):
    """Return a function that loads the bytes of a model file and returns leaves and predictions of a few rows."""
    path = home / name
    given = home if name == "MLmodel" else path

    def read(content):
        path.write_bytes(content)
        return answer(debias.load_model(given))

    return read


def reader_after_a_guard(home, name):
    """Return a function that loads a file as the parent process does after a child process has tried the file."""
    path = home / name
    return lambda content: answer(loading.load(path, guard=False))


def answer(model):
    """Return the raw output and the leaves of a few rows, by which models are compared."""
    hook, found = plugin_manager().hook, []
    for member in unwrap(model):
        ensemble = extract(member.model)
        X = np.asarray(data()[0][:5], dtype=ensemble.routing_dtype)
        if X.shape[1] < ensemble.n_features <= OF_ROWS:
            X = np.resize(X, (len(X), ensemble.n_features))
        if X.shape[1] != ensemble.n_features:
            found.append(ensemble.value)
            continue
        found += [
            hook.debias_predict_raw(model=member.model, X=X),
            hook.debias_leaves(model=member.model, ensemble=ensemble, X=X),
        ]
    return mutants.answer_of(found)


def guard(home, name):
    """Return a function that does what the child process does with a file: load it and predict."""
    path = home / name

    def try_apart(content):
        path.write_bytes(content)
        loading.load_and_predict(path)

    return try_apart


def archives(content, count, seed):
    """Return mutants of a skops file: of the archive, of its schema, and of its members with a correct checksum."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}

    def packed(changed):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, each in (members | changed).items():
                archive.writestr(name, each)
        return buffer.getvalue()

    part, rng = count // 4, np.random.default_rng(seed)
    found = mutants.damaged(content, part, seed)
    schema = mutants.damaged_documents(json.loads(members["schema.json"]), part, seed)
    found += [packed({"schema.json": json.dumps(each)}) for each in schema]
    found += [packed({"schema.json": json.dumps(_with_texts_changed(members, rng))}) for _ in range(part)]
    others = [name for name in members if name != "schema.json"] or ["schema.json"]
    sizes = np.array([float(len(members[name])) for name in others])
    for number in range(count - len(found)):
        name = others[rng.choice(len(others), p=sizes / sizes.sum())]
        damage = {"bin": binary_documents, "npy": _arrays}.get(name.rpartition(".")[2], mutants.damaged)
        found.append(packed({name: damage(members[name], 2, seed + number)[number % 2]}))
    return found


def _arrays(content, count, seed):
    """Return mutants of a NumPy file: of all its bytes, and of its numbers alone, with a correct header."""
    begin = content.index(b"\n") + 1
    body = [content[:begin] + each for each in mutants.damaged_numbers(content[begin:], count - count // 2, seed)]
    return mutants.damaged(content, count // 2, seed) + body


def with_node(content, kind, changed):
    """Return a skops file in which entries of the first node of a class are changed."""

    def change(node):
        if node.get("__class__") == kind:
            node.update(changed)
            return True
        return False

    return _with_schema(content, change)


def with_text(content, name, text, keep_id=False):
    """Return a skops file in which the first JSON value of a name is replaced."""

    def change(node):
        if isinstance(node.get(name), dict) and "content" in node[name]:
            node[name]["content"] = text
            if not keep_id:  # with it, the content is that of the first node of the same id
                node[name].pop("__id__", None)
            return True
        return False

    return _with_schema(content, change)


def _with_schema(content, change):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict) and change(node):
            break
        waiting += node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, each in (members | {"schema.json": json.dumps(schema)}).items():
            archive.writestr(name, each)
    return buffer.getvalue()


def _with_texts_changed(members, rng):
    """Return a schema in which one JSON value is replaced; a long text is damaged instead."""
    schema, found = json.loads(members["schema.json"]), []

    def look(node):
        if isinstance(node, dict):
            if node.get("__loader__") == "JsonNode":
                found.append(node)
            for each in node.values():
                look(each)
        elif isinstance(node, list):
            for each in node:
                look(each)

    look(schema)
    long = [node for node in found if len(node["content"]) > 500]
    node = long[0] if long and rng.random() < 0.7 else found[rng.integers(len(found))]
    node.pop("__id__", None)  # else the content is that of the first node of the same id
    if len(node["content"]) > 500:
        changed = texts(json.loads(node["content"]).encode(), 4, int(rng.integers(2**31)))[rng.integers(4)]
        node["content"] = json.dumps(changed.decode(errors="replace"))
    else:
        value = rng.choice(np.array([*mutants.EXTREMES, *mutants.TEXTS, None, True, 0.5, 1e300], dtype=object))
        node["content"] = json.dumps(value)
    return schema


def documents(content, count, seed):
    """Return mutants of XGBoost's JSON: of its text, and of the document it holds."""
    found = mutants.damaged(content, count // 2, seed)
    return found + [
        json.dumps(each).encode() for each in mutants.damaged_documents(json.loads(content), count - len(found), seed)
    ]


def binary_documents(content, count, seed):
    """Return mutants of XGBoost's UBJSON: of its bytes, and of the document, written as XGBoost writes it."""
    found = mutants.damaged(content, count // 2, seed)
    document, kinds = plain(ubjson.read(content))
    assert written(document, kinds) == content, "the writer does not write what XGBoost does"
    return found + [written(each, kinds) for each in mutants.damaged_documents(document, count - len(found), seed)]


def plain(document, path=(), kinds=None):
    """Return a document with lists instead of arrays, and the type of each array by its name."""
    kinds = {} if kinds is None else kinds
    if isinstance(document, np.ndarray):
        kinds[path] = document.dtype
        return document.tolist(), kinds
    if isinstance(document, dict):
        return {name: plain(each, name, kinds)[0] for name, each in document.items()}, kinds
    if isinstance(document, list):
        return [plain(each, path, kinds)[0] for each in document], kinds
    return document, kinds


_MARKERS = {">i1": b"i", "|i1": b"i", "|u1": b"U", ">i2": b"I", ">i4": b"l", ">i8": b"L", ">f4": b"d", ">f8": b"D"}


def written(value, kinds, name=None):
    """Return a value as UBJSON. Lists of numbers get the type their array had."""
    if isinstance(value, dict):
        return b"{" + b"".join(_text(key) + written(each, kinds, key) for key, each in value.items()) + b"}"
    if isinstance(value, list):
        if name in kinds and all(type(each) in (int, float) for each in value):
            with np.errstate(all="ignore"):
                whole = kinds[name].kind in "iu"
                numbers = [int(each) % 2**64 if abs(each) < 1e30 else 0 for each in value] if whole else value
                array = np.array(numbers, dtype=np.uint64 if whole else np.float64).astype(kinds[name])
            return b"[$" + _MARKERS[kinds[name].str] + b"#" + b"L" + struct.pack(">q", len(value)) + array.tobytes()
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(written(each, kinds) for each in value)
    if isinstance(value, str):
        return b"S" + _text(value)
    if value is None or isinstance(value, bool):
        return {None: b"Z", True: b"T", False: b"F"}[value]
    if isinstance(value, float):
        return b"d" + struct.pack(">f", value if abs(value) < 1e38 else np.inf)
    for marker, size in (("i", 8), ("I", 16), ("l", 32)):
        if -(2 ** (size - 1)) <= value < 2 ** (size - 1):
            return marker.encode() + struct.pack(">" + {"i": "b", "I": "h", "l": "i"}[marker], value)
    return b"L" + struct.pack(">Q", value % 2**64)


def _text(text):
    encoded = text.encode(errors="replace")
    return b"L" + struct.pack(">q", len(encoded)) + encoded


def texts(content, count, seed):
    """Return mutants of a LightGBM text: of its bytes, and of its lines, half of those with correct lengths."""
    found = mutants.damaged(content, count // 4, seed)
    lines = mutants.damaged_lines(content, count - len(found), seed)
    return found + [each if k % 2 else with_lengths(each) for k, each in enumerate(lines)]


def with_lengths(content):
    head, *trees = content.partition(b"\nend of trees")[0].split(b"\nTree=")
    sizes = " ".join(str(len(tree) + 6) for tree in trees).encode()
    return b"\n".join(
        b"tree_sizes=" + sizes if line.startswith(b"tree_sizes=") else line for line in content.split(b"\n")
    )


def mojos(content, count, seed):
    """Return mutants of a MOJO: of the archive, and of the lines and the bytes in it, with a correct checksum."""
    members = mojo.unpacked(content)
    found = mutants.damaged(content, count // 4, seed)
    found += [
        mojo.packed(members | {"model.ini": each})
        for each in mutants.damaged_lines(members["model.ini"], count // 4, seed)
    ]
    details = "experimental/modelDetails.json"
    found += [
        mojo.packed(members | {details: json.dumps(each)})
        for each in mutants.damaged_documents(json.loads(members[details]), count // 8, seed)
    ]
    names, rng = [name for name in members if name not in ("model.ini", details)], np.random.default_rng(seed)
    while len(found) < count:
        name = names[rng.integers(len(names))]
        (damaged, *_) = mutants.damaged(members[name], 1, int(rng.integers(2**31)))
        found.append(mojo.packed(members | {name: damaged}))
    return found


def markup(content, count, seed):
    """Return mutants of an XML file: of its bytes, and of its lines."""
    return mutants.damaged(content, count // 3, seed) + mutants.damaged_lines(content, count - count // 3, seed)


def descriptions(content, count, seed):
    """Return mutants of MLflow's YAML: of its bytes, and of its lines."""
    return mutants.damaged(content, count // 2, seed) + mutants.damaged_lines(content, count - count // 2, seed)


FORMATS = {
    "forest.skops": archives,
    "hist.skops": archives,
    "xgboost.skops": archives,
    "lightgbm.skops": archives,
    "model.json": documents,
    "model.ubj": binary_documents,
    "model.txt": texts,
    "lines.txt": texts,
    "model.cbm": mutants.damaged,
    **({"model.onnx": mutants.damaged} if ONNX_TOO else {}),
    **dict.fromkeys(MOJOS, mojos),
    "model.pmml": markup,
    "MLmodel": descriptions,
    "model.pkl": mutants.damaged,
}
"""The function that damages each format."""
APART = ("model.cbm", "model.onnx")
"""Formats that load_model itself loads in a process of their own first."""


def tried(home, name, contents, damaged):
    """Try the damaged files of a format and return the table of outcomes.

    The whole file is read first, so that no child process has to compile anything. CatBoost's is not: reading it
    starts a thread, and a process that is forked at that moment can wait forever for a lock that this thread had
    (2 of 1,600 forks).
    """
    for file, content in contents.items():  # MLmodel names another file, and tests before this one left mutants
        (home / file).write_bytes(content)
    separate = name in APART
    before = guard(home, name) if separate else None
    read = reader_after_a_guard(home, name) if separate else reader(home, name)
    refused = name == "model.pkl"
    with threadpool_limits(1):
        if not (refused or separate):
            read(contents[name])
        original = contents["forest.skops"] if refused else contents[name]
        return mutants.run(damaged, read, original=original, name=name, guard=before)
