"""Makes the files of tests/old_files/h2o: MOJOs of H2O-3, with the leaves and predictions of H2O.

Each version is run in an environment of its own, with Java 8 to 17:

    python3.11 -m venv old && old/bin/pip install h2o==3.46.0.7 pandas
    old/bin/python tests/old_files/make_h2o.py
    python3.11 -m venv old && old/bin/pip install h2o==3.36.1.5 "pandas<3" "numpy<2.3"
    old/bin/python tests/old_files/make_h2o.py gbm_bernoulli gbm_gaussian drf_multinomial xgb_multinomial

3.46.0.11 is the last version that writes MOJOs without a license; ``gbm_binary`` and ``drf_one_hot`` are by that one.
The script writes ``VERSION/NAME.zip``, ``VERSION/answers.json`` and ``rows.csv``, which is the same for all versions:
numbers, categories of 40 and of 4 labels, missing values, a label that only fresh rows have, weights, an offset, and
responses. The first N_TRAIN rows are the training rows, and the answers are for the rows from FIRST on. Most files are
without the parts of ``modelDetails.json`` that nothing reads; those in WHOLE are as H2O wrote them, without the table
about the machine.
"""

import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import h2o
import numpy as np
import pandas as pd
from h2o import estimators

HOME = Path(__file__).parent / "h2o"
N, N_TRAIN, FIRST = 260, 200, 150
WHOLE = ("gbm_gaussian", "drf_binomial", "xgb_sparse")
FEATURES = ["a", "b", "few", "many", "whole"]
SMALL = {"ntrees": 3, "max_depth": 3, "seed": 7, "min_rows": 5}
GBM, DRF, XGB = "H2OGradientBoostingEstimator", "H2ORandomForestEstimator", "H2OXGBoostEstimator"
FOREST = {"ntrees": 4, "max_depth": 4, "seed": 7}
MODELS = {
    "gbm_gaussian": (GBM, "y", {}),
    "gbm_bernoulli": (GBM, "two", {}),
    "gbm_two_margins": (GBM, "two", {"distribution": "multinomial"}),
    "gbm_multinomial": (GBM, "three", {"ntrees": 2}),
    "gbm_poisson_offset": (GBM, "count", {"distribution": "poisson", "offset_column": "log_exposure"}),
    "gbm_gamma": (GBM, "positive", {"distribution": "gamma"}),
    "gbm_tweedie": (GBM, "count", {"distribution": "tweedie", "tweedie_power": 1.3}),
    "gbm_laplace": (GBM, "y", {"distribution": "laplace"}),
    "gbm_quantile": (GBM, "y", {"distribution": "quantile", "quantile_alpha": 0.8}),
    "gbm_huber": (GBM, "y", {"distribution": "huber"}),
    "gbm_quasibinomial": (GBM, "share", {"distribution": "quasibinomial"}),
    "gbm_weighted": (GBM, "y", {"weights_column": "weight"}),
    "gbm_sampled": (GBM, "y", {"sample_rate": 0.6, "col_sample_rate": 0.7}),
    "gbm_balanced": (GBM, "two", {"balance_classes": True}),
    "gbm_calibrated": (GBM, "two", {"calibrate_model": True}),
    "gbm_one_leaf": (GBM, "y", {"ntrees": 1, "min_split_improvement": 1e9}),
    "gbm_label_encoder": (GBM, "y", {"categorical_encoding": "LabelEncoder"}),
    "gbm_sorted_labels": (GBM, "y", {"categorical_encoding": "SortByResponse"}),
    "gbm_one_hot": (GBM, "y", {"categorical_encoding": "OneHotExplicit"}),
    "gbm_binary": (GBM, "y", {"categorical_encoding": "Binary", "max_depth": 5}),
    "gbm_limited": (GBM, "y", {"categorical_encoding": "EnumLimited"}),
    "gbm_eigen": (GBM, "y", {"categorical_encoding": "Eigen"}),
    "drf_limited": (DRF, "two", {**FOREST, "max_depth": 6, "categorical_encoding": "EnumLimited"}),
    "drf_eigen": (DRF, "two", {**FOREST, "max_depth": 6, "categorical_encoding": "Eigen"}),
    "drf_one_hot": (DRF, "two", {**FOREST, "max_depth": 6, "categorical_encoding": "OneHotExplicit"}),
    "drf_regression": (DRF, "y", FOREST),
    "drf_binomial": (DRF, "two", FOREST),
    "drf_double": (DRF, "two", {**FOREST, "binomial_double_trees": True}),
    "drf_multinomial": (DRF, "three", {**FOREST, "ntrees": 3}),
    "drf_balanced": (DRF, "two", {**FOREST, "balance_classes": True}),
    "drf_weighted": (DRF, "y", {**FOREST, "weights_column": "weight"}),
    "xgb_bernoulli": (XGB, "two", {}),
    "xgb_multinomial": (XGB, "three", {"ntrees": 2}),
    "xgb_poisson_offset": (XGB, "count", {"distribution": "poisson", "offset_column": "log_exposure"}),
    "xgb_dense": (XGB, "y", {"dmatrix_type": "dense"}),
    "xgb_sparse": (XGB, "y", {"dmatrix_type": "sparse"}),
    "xgb_dart": (XGB, "y", {"booster": "dart", "rate_drop": 0.5, "one_drop": True}),
    "refused_xgb_linear": (XGB, "y", {"booster": "gblinear", "max_depth": None}),
    "refused_isolation_forest": ("H2OIsolationForestEstimator", None, {"min_rows": None}),
    "refused_glm": ("H2OGeneralizedLinearEstimator", "y", dict.fromkeys(("ntrees", "max_depth", "min_rows"))),
}


def rows():
    """Return the table."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=N).round(2), "b": rng.normal(size=N).round(2)})
    few, many = rng.integers(0, 4, N), rng.integers(0, 40, N)
    table["few"] = [["north", "south", 'the "east"', "west, far"][k] for k in few]
    table["many"] = [f"m{k:02d}" for k in many]
    table["whole"] = rng.integers(0, 5, N)
    signal = table["a"] + (few == 1) + (many % 3 == 0) + 0.5 * np.maximum(table["b"], 0)
    table["y"] = (signal + 0.5 * rng.normal(size=N)).round(2)
    table.loc[rng.random(N) < 0.2, "b"] = np.nan
    table.loc[rng.random(N) < 0.1, "few"] = None
    table.loc[N_TRAIN + np.flatnonzero(rng.random(N - N_TRAIN) < 0.1), "many"] = "never seen"
    table["two"] = np.where(table["y"] > 1, "yes", "no")
    table["three"] = np.array(["low", "middle", "top"])[np.digitize(table["y"], [0.4, 1.6])]
    table["log_exposure"] = rng.normal(0, 0.5, N).round(2)
    table["count"] = rng.poisson(np.exp(0.4 * signal + table["log_exposure"]))
    table["positive"] = np.exp(table["y"]).round(3)
    table["share"] = (table["y"] > 1).astype(int)
    table["weight"] = rng.integers(1, 4, N)
    return table


def frame(table):
    """Return a table as a frame of H2O, by way of a file: empty fields are missing values."""
    texts = dict.fromkeys(("few", "many", "two", "three"), "enum")
    with tempfile.TemporaryDirectory() as new:
        path = Path(new) / "rows.csv"
        table.to_csv(path, index=False)
        return h2o.upload_file(str(path), col_types=texts)


def copy_of(path, to, whole):
    """Copy a MOJO without what it says of the machine, and without what nothing reads of its details."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("modelDetails.json"):
                content = json.dumps(kept(json.loads(content), whole))
            if whole or not name.endswith("README.md"):
                new.writestr(name, content)


def kept(details, whole):
    output = details["output"]
    if whole:
        return {**details, "output": {**output, "reproducibility_information_table": None}}
    return {
        "parameters": [{key: each[key] for key in ("name", "actual_value")} for each in details["parameters"]],
        "output": {
            "variable_importances": output.get("variable_importances"),
            "training_metrics": {"nobs": (output.get("training_metrics") or {}).get("nobs")},
        },
    }


def answers_of_file(model, table):
    """Return what the MOJO answers. In the session, these encodings are made anew of the rows that are predicted."""
    without_many = table[FIRST:].copy()
    without_many.loc[without_many.index[::3], "many"] = None
    with tempfile.TemporaryDirectory() as new:
        of_file = h2o.import_mojo(model.download_mojo(str(Path(new) / "model.zip")))
    # One frame, so that all labels are in it.
    predicted = of_file.predict(frame(pd.concat([table[FIRST:], without_many]))).as_data_frame()
    parts = {"predictions": predicted[: len(without_many)], "without_many": predicted[len(without_many) :]}
    return {name: {each: part[each].tolist() for each in part} for name, part in parts.items()}


def main():
    version = ".".join(h2o.__version__.split(".")[:2])
    folder = HOME / version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    table = rows()
    table.to_csv(HOME / "rows.csv", index=False)
    h2o.init(max_mem_size="2g", nthreads=1, port=54421)
    h2o.no_progress()
    answers = {}
    try:
        fresh, train = frame(table[FIRST:]), frame(table[:N_TRAIN])
        for name, (kind, response, settings) in MODELS.items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            settings = {key: value for key, value in {**SMALL, **settings}.items() if value is not None}
            if settings.get("calibrate_model"):
                settings["calibration_frame"] = train
            model = getattr(estimators, kind)(**settings)
            model.train(FEATURES, response, training_frame=train)
            with tempfile.TemporaryDirectory() as new:
                copy_of(Path(model.save_mojo(new)), folder / f"{name}.zip", name in WHOLE)
            if name.startswith("refused"):
                continue
            if settings.get("categorical_encoding") in ("EnumLimited", "Eigen"):
                answers[name] = answers_of_file(model, table)
            else:
                predicted = model.predict(fresh).as_data_frame()
                answers[name] = {"predictions": {each: predicted[each].tolist() for each in predicted}}
                leaves = model.predict_leaf_node_assignment(fresh, "Node_ID").as_data_frame()
                answers[name]["leaves"] = {each: leaves[each].tolist() for each in leaves}
            importances = model.varimp(use_pandas=False)
            answers[name]["importances"] = {each[0]: each[1] for each in importances or []}
            answers[name]["response"] = response
    finally:
        h2o.cluster().shutdown()
    (folder / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
