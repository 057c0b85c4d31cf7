"""Makes the files of tests/old_files/pmml: models that sklearn2pmml and nyoka write, with predictions of JPMML.

They are run in an environment of their own, with Java 11 or later:

    python3.11 -m venv old
    old/bin/pip install sklearn2pmml==0.133.1 "scikit-learn<1.9" xgboost lightgbm nyoka pypmml jpmml_evaluator
    old/bin/python tests/old_files/make_pmml.py

The script writes ``NAME.pmml``, ``rows.csv`` and ``answers.json``: for each file what the evaluator of JPMML answers
for the rows from N_TRAIN on, and for files of nyoka, most of which JPMML refuses, what pypmml answers. The first
N_TRAIN rows are the training rows. ``plain_NAME`` are models of numbers without steps before, which are also written in
the form of their own library; of ``whole_NAME`` sklearn2pmml keeps all splits. ``drawn`` in the answers is what JPMML
answers for the files that ``support.pmml.drawn`` draws, and the rows that ``support.pmml.rows`` draws.
"""

import json
import sys
import tempfile
from pathlib import Path

import lightgbm
import numpy as np
import nyoka
import pandas as pd
from jpmml_evaluator import make_backend, make_evaluator
from pypmml import Model as PmmlModel
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder
from sklearn.tree import DecisionTreeRegressor
from sklearn2pmml import sklearn2pmml
from sklearn2pmml.pipeline import PMMLPipeline
from xgboost import XGBClassifier, XGBRegressor

sys.path.insert(0, str(Path(__file__).parents[1]))
from support import pmml

HOME = Path(__file__).parent / "pmml"
N, N_TRAIN, N_DRAWN = 260, 200, 40
FOREST = {"n_estimators": 4, "max_depth": 3, "random_state": 0}
GRADIENT = {"n_estimators": 4, "max_depth": 2, "random_state": 0}
LIGHT = {"n_estimators": 4, "num_leaves": 5, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}
EXTREME = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1}
FLOATS = ["a", "b", "count"]


def table():
    """Return the rows: numbers, a category, missing values in `a_missing` and `b_missing`, and responses."""
    random = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "a": np.round(random.normal(size=N), 2),
            "b": np.round(random.exponential(size=N), 1),
            "count": random.integers(0, 6, N),
            "kind": random.choice(["red", "green", "light blue"], N),
        }
    )
    for name in ("a", "b"):
        rows[f"{name}_missing"] = rows[name].where(random.random(N) > 0.15)
    rows["y"] = np.round(rows["a"] + 2 * (rows["kind"] == "red") + 0.3 * rows["count"] + random.normal(size=N) / 3, 3)
    rows["two"] = np.where(rows["y"] > rows["y"].median(), "yes", "no")
    rows["number"] = (rows["two"] == "yes").astype(int)
    rows["three"] = pd.cut(rows["y"], 3, labels=["low", "mid", "high"]).astype(str)
    rows["events"] = np.round(np.exp(rows["y"] / 2)).astype(int)
    return rows


def prepared(numbers="passthrough", columns=FLOATS, kinds=OneHotEncoder()):  # noqa: B008
    return ColumnTransformer([("numbers", numbers, columns), ("kind", kinds, ["kind"])])


def models():
    missing = ["a_missing", "b_missing", "count"]
    with_missing = {"columns": missing}
    known, any_label = OrdinalEncoder(), OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return {
        "tree": (prepared(), DecisionTreeRegressor(max_depth=3, random_state=0), "y"),
        "forest": (prepared(), RandomForestRegressor(**FOREST), "y"),
        "forest_two": (prepared(), RandomForestClassifier(**FOREST), "two"),
        "forest_scaled": (prepared(StandardScaler()), RandomForestClassifier(**FOREST), "three"),
        "extra_trees": (prepared(), ExtraTreesRegressor(**FOREST), "y"),
        "gradient_imputed": (prepared(SimpleImputer(), missing), GradientBoostingRegressor(**GRADIENT), "y"),
        "gradient_two": (prepared(), GradientBoostingClassifier(**GRADIENT), "two"),
        "gradient_three": (prepared(), GradientBoostingClassifier(**GRADIENT), "three"),
        "hist": (prepared(), HistGradientBoostingRegressor(max_iter=4, max_depth=3, min_samples_leaf=5), "y"),
        "light": (prepared(**with_missing), lightgbm.LGBMRegressor(**LIGHT), "y"),
        "light_two": (prepared(**with_missing), lightgbm.LGBMClassifier(**LIGHT), "two"),
        "light_three": (prepared(**with_missing), lightgbm.LGBMClassifier(**LIGHT), "three"),
        "extreme": (prepared(**with_missing), XGBRegressor(**EXTREME), "y"),
        "extreme_two": (prepared(**with_missing), XGBClassifier(**EXTREME), "number"),
        "extreme_poisson": (prepared(), XGBRegressor(**EXTREME, objective="count:poisson"), "events"),
        "isolation": (prepared(), IsolationForest(n_estimators=4, random_state=0), None),
        "ordinal": (prepared(kinds=known), RandomForestRegressor(**FOREST), "y"),
        "ordinal_unknown": (prepared(kinds=any_label), GradientBoostingClassifier(**GRADIENT), "two"),
        "targets": (prepared(kinds=TargetEncoder(random_state=0)), RandomForestRegressor(**FOREST), "y"),
        "plain_light": (None, lightgbm.LGBMRegressor(**LIGHT), "y"),
        "plain_extreme": (None, XGBRegressor(**EXTREME), "y"),
        "plain_gradient": (None, GradientBoostingRegressor(**GRADIENT), "y"),
    }


def columns_of(steps):
    return FLOATS if steps is None else [*steps.transformers[0][2], "kind"]


def write(rows):
    for name, (steps, model, response) in models().items():
        X = rows[columns_of(steps)][:N_TRAIN]
        before = [] if steps is None else [("columns", steps)]
        pipeline = PMMLPipeline([*before, ("model", model)])
        pipeline.fit(X) if response is None else pipeline.fit(X, rows[response][:N_TRAIN])
        if name.startswith("plain"):
            pipeline.configure(compact=False)
            sklearn2pmml(pipeline, str(HOME / f"{name.replace('plain', 'whole')}.pmml"))
            pipeline.configure(compact=True)
        sklearn2pmml(pipeline, str(HOME / f"{name}.pmml"))
        if name == "plain_light":
            model.booster_.save_model(HOME / f"{name}.txt")
        elif name == "plain_extreme":
            model.save_model(HOME / f"{name}.json")


def write_with_nyoka(rows):
    X, of_nyoka = (
        rows[FLOATS],
        {
            "nyoka_forest": (RandomForestRegressor(**FOREST), "y", nyoka.skl_to_pmml),
            "nyoka_forest_two": (RandomForestClassifier(**FOREST), "two", nyoka.skl_to_pmml),
            "nyoka_gradient": (GradientBoostingRegressor(**GRADIENT), "y", nyoka.skl_to_pmml),
            "nyoka_light": (lightgbm.LGBMRegressor(**LIGHT), "y", nyoka.lgb_to_pmml),
            "nyoka_light_two": (lightgbm.LGBMClassifier(**LIGHT), "two", nyoka.lgb_to_pmml),
            # nyoka writes the base 0.5 whatever the model has
            "nyoka_extreme": (XGBRegressor(**EXTREME, base_score=0.5), "y", nyoka.xgboost_to_pmml),
        },
    )
    for name, (model, response, writer) in of_nyoka.items():
        pipeline = Pipeline([("scaler", StandardScaler()), ("model", model)])
        pipeline.fit(X[:N_TRAIN], rows[response][:N_TRAIN])
        writer(pipeline, FLOATS, "y", str(HOME / f"{name}.pmml"))
        found = PmmlModel.load(str(HOME / f"{name}.pmml")).predict(X[N_TRAIN:])
        kept = {each: each.replace("_", "(") + ")" for each in found.columns if each.startswith("probability")}
        kept = kept or {"predicted_y": "y"}
        yield name, {new: found[old].astype(float).tolist() for old, new in kept.items()}


def answer(path, rows, backend):
    """Return what JPMML answers: the prediction, or the probabilities of classes; None where there is none."""
    found = make_evaluator(str(path), backend=backend).evaluateAll(rows)
    kept = [name for name in found.columns if name.startswith("probability")] or [found.columns[0]]
    return {name: [None if pd.isna(each) else float(each) for each in found[name]] for name in kept}


def main():
    HOME.mkdir(exist_ok=True)
    rows = table()
    rows.to_csv(HOME / "rows.csv", index=False)
    answers = {"rows": {}, "drawn": {}}
    write(rows)
    answers["rows"] |= dict(write_with_nyoka(rows))
    backend = make_backend("py4j")
    for name, (steps, _, response) in models().items():
        if response is not None and name not in answers["rows"]:
            new = rows[columns_of(steps)][N_TRAIN:].astype(object)
            answers["rows"][name] = answer(HOME / f"{name}.pmml", new.where(new.notna(), None), backend)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(N_DRAWN):
            path = Path(folder) / "drawn.pmml"
            path.write_bytes(pmml.drawn(seed))
            answers["drawn"][seed] = answer(
                path, pd.DataFrame(pmml.rows(seed), columns=pmml.WORDS, dtype=object), backend
            )
    (HOME / "answers.json").write_text(json.dumps(answers, indent=0) + "\n")


if __name__ == "__main__":
    main()
