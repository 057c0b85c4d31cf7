"""Damaged files of sums, replicates, results, rows, policies and parameters: refused clearly, or harmless."""

import json
import warnings

import click
import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBRegressor

import debias
from debias.cli.inputs import read_mapping
from debias.cli.tables import TableFile
from debias.parallel import Engine
from debias.results.policy import Policy
from debias.retraining.replicates import replicate
from support.mutants import Table, answer_of, damaged, damaged_documents, damaged_lines, run

pytestmark = pytest.mark.integration

TABLES: list[Table] = []
FRAME = pd.DataFrame(
    {
        "number": np.random.default_rng(3).normal(size=40),
        "whole": np.arange(40),
        "text": pd.Series(list("abcd") * 10),
        "kind": pd.Categorical(list("xy") * 20),
        "y": np.tile([0, 1], 20),
    }
)
POLICY = b"""# rules of a release
[tool.debias]
max_unsupported_share = 0.25
min_rows = 500
must_be_informative = ["age", "bmi"]
must_not_matter = ["id"]
min_informative = 3
max_inflation = 0.1
min_provenance = "checked"
"""
PARAMS = {"n_estimators": 100, "learning_rate": 0.1, "objective": "binary:logistic", "monotone": [0, 1, -1], "x": None}


@pytest.fixture(scope="module", autouse=True)
def table():
    """Print what all mutants did, when all are done."""
    yield
    print("\n".join(["", Table.heading(), *map(str, TABLES)]))


@pytest.fixture
def file(tmp_path):
    """Return a function that writes bytes to a file, always the same one, and returns its path."""

    def write(data, name="file"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def judged(*args, unchanged=False, refused=True, **kwargs):
    found = run(*args, refusals=(FileNotFoundError, click.UsageError), **kwargs)
    TABLES.append(found)
    if refused:
        found.require()
    assert not found.bad, found.bad[:5]
    if unchanged:
        assert not found.counts["changed"], [case for case in found.cases if case.outcome == "changed"][:5]


MODELS = {
    "forest of classes": (RandomForestClassifier(4, max_depth=4, random_state=0), "whole"),
    "xgboost": (XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1), "number"),
    "lightgbm": (LGBMClassifier(n_estimators=4, num_leaves=5, verbose=-1, n_jobs=1), "whole"),
}


@pytest.mark.parametrize("name", MODELS)
def test_node_sums(name, file, tmp_path, count):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + rng.normal(size=300)
    model, task = MODELS[name]
    y = (y > 0).astype(int) if task == "whole" else y
    model.fit(X[:150], y[:150])
    sums = debias.NodeSums(model, running_loss=True)
    sums.update(X[150:], y[150:], sample_weight=rng.uniform(size=150) if name == "xgboost" else None)
    sums.save(tmp_path / "sums")
    original = (tmp_path / "sums").read_bytes()

    def target(data):
        read = debias.NodeSums.load(file(data), model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scored = debias.score(model, read, scorer="oob_loss")
        return answer_of([scored.values, read.squares, *read.state().values()])

    target(original)
    judged(damaged(original, count, 1), target, original=original, name=f"NodeSums, {name}", unchanged=True)
    forged = [_forged(original, k) for k in range(count // 2)]
    judged(forged, target, original=original, name=f"NodeSums, {name}, sealed again")


def _forged(original, seed):
    """Return a file with other values in one array, and the digest of these."""
    from debias.rows.node_sums import FORMAT, KIND
    from debias.rows.sealed import seal, unseal

    draw = np.random.default_rng(seed)
    facts, arrays = unseal(original, KIND, FORMAT)
    name = str(draw.choice(list(arrays)))
    array = arrays[name]
    extremes = [-1, 1, 2, 1e9, -(2**31), 2**31 - 1] if array.dtype.kind == "i" else [-1, 0, 1e300, np.inf, np.nan, 3.5]
    match draw.integers(4):
        case 0 if array.ndim:
            arrays[name] = array[: draw.integers(len(array) + 1)]
        case 1 if array.ndim:
            arrays[name] = np.concatenate([array, array])
        case 2:
            arrays[name] = array.astype(draw.choice(["f4", "i8", "u1", "c16", "M8[s]", "?"]))
        case _:
            arrays[name] = array.copy()
            arrays[name].reshape(-1)[draw.integers(max(1, array.size)) :][: draw.choice([1, 1, 5, 1000])] = draw.choice(
                extremes
            )
    return seal(KIND, FORMAT, facts, arrays)


def drawn(child):
    return np.random.default_rng(child).normal(size=(3, 2))


def test_damaged_checkpoints_do_no_harm(file, tmp_path, count):
    engine = Engine(checkpoint=tmp_path / "run.sqlite")
    whole = replicate(drawn, n=8, seed=0, engine=engine, fingerprint=lambda: "a").values
    replicate(drawn, n=3, seed=1, engine=engine, fingerprint=lambda: "b")
    original = (tmp_path / "run.sqlite").read_bytes()

    def target(data):
        for rest in ("-journal", "-wal"):
            (tmp_path / f"file{rest}").unlink(missing_ok=True)
        path = file(data)
        found = replicate(drawn, n=8, seed=0, engine=Engine(checkpoint=path), fingerprint=lambda: "a")
        assert (found.values == whole).all() or not found.n_damaged
        return answer_of([found.values])

    judged(damaged(original, count, 2), target, original=original, name="checkpoint", unchanged=True)
    values = {at for at in range(len(original)) if any(original[at : at + 48] == each.tobytes() for each in whole)}
    assert len(values) == 8
    mutants = [_with_byte(original, at + k, 7) for at in sorted(values) for k in range(48)]
    judged(mutants, target, original=original, name="checkpoint, values", unchanged=True, refused=False)
    file(mutants[0])
    found = replicate(drawn, n=8, seed=0, engine=Engine(checkpoint=tmp_path / "file"), fingerprint=lambda: "a")
    assert found.n_damaged == 1
    assert "were damaged" in found.report()["warnings"][0]


def _with_byte(data, at, add):
    return data[:at] + bytes([(data[at] + add) % 256]) + data[at + 1 :]


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    forest = RandomForestRegressor(5, random_state=0).fit(X, X["a"])
    return debias.audit(forest, X, X["a"], test=debias.Permutation(30), random_state=0)


@pytest.mark.parametrize("kind", ["Audit", "Scores"])
def test_damaged_results_do_no_harm(kind, audit, count):
    found = audit if kind == "Audit" else audit.tested_scores
    original = found.to_json().encode()

    def target(data):
        read = type(found).from_json(data.decode("utf-8", "surrogateescape"))
        if kind == "Audit":
            read.summary(), read.check({"max_unsupported_share": 0.5, "must_be_informative": ["a"]}).to_json()
        return read.to_json()

    mutants = damaged(original, count // 2, 3)
    documents = damaged_documents(json.loads(original), count // 2, 4)
    mutants += [json.dumps(each).encode() for each in documents]
    judged(mutants, target, original=original, name=f"{kind} JSON")


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather", "arrow"])
def test_damaged_rows_do_no_harm(ending, file, tmp_path, count):
    path = tmp_path / f"rows.{ending}"
    write = {"csv": lambda: FRAME.to_csv(path, index=False), "parquet": lambda: FRAME.to_parquet(path)}
    write.get(ending, lambda: FRAME.to_feather(path))()
    original = path.read_bytes()

    def target(data):
        frame = TableFile(str(file(data, f"file.{ending}"))).read()
        return [list(map(str, frame.columns)), [[str(value) for value in frame[name]] for name in frame.columns]]

    damage = damaged(original, count // 2, 5) + damaged_lines(original, count // 2, 6) if ending == "csv" else None
    judged(damage or damaged(original, count, 5), target, original=original, name=ending)


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_damaged_rows_in_batches_do_no_harm(ending, file, tmp_path, count):
    path = tmp_path / f"rows.{ending}"
    frame = FRAME[["number", "whole", "y"]].assign(label=FRAME["text"])
    frame.to_parquet(path) if ending == "parquet" else frame.to_feather(path)
    forest = RandomForestClassifier(3, random_state=0).fit(FRAME[["number", "whole"]][::-1], FRAME["y"][::-1])
    original = path.read_bytes()

    def target(data):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return answer_of([debias.score(forest, file(data, f"file.{ending}"), "y", rows="held-out").values])

    target(original)
    judged(damaged(original, count, 11), target, original=original, name=f"{ending} in batches")


def test_damaged_policies_do_no_harm(file, count):
    def target(data):
        return repr(Policy.of(str(file(data, "policy.toml"))))

    mutants = damaged(POLICY, count // 2, 7) + damaged_lines(POLICY, count // 2, 8)
    judged(mutants, target, original=POLICY, name="policy")


@pytest.mark.parametrize("ending", ["json", "toml"])
def test_damaged_params_do_no_harm(ending, file, count):
    lines = [f"{name} = {json.dumps(value)}" for name, value in PARAMS.items() if value is not None]
    original = (json.dumps(PARAMS, indent=1) if ending == "json" else "\n".join(lines)).encode()

    def target(data):
        return repr(read_mapping(str(file(data, f"params.{ending}")), "hyper-parameters"))

    mutants = damaged(original, count // 2, 9) + damaged_lines(original, count // 2, 10)
    judged(mutants, target, original=original, name=f"params, {ending}")
