"""Write model texts with an old version of LightGBM, and beside them what that version predicts.

The files in ``lightgbm/3.3.5`` and ``lightgbm/4.0.0`` were made by this script, in environments of their own::

    Python 3.9:  pip install lightgbm==3.3.5 numpy==1.23.5 scipy==1.10.1 scikit-learn==1.2.2 pandas==1.5.3
    Python 3.10: pip install lightgbm==4.0.0 numpy==1.24.4 scipy==1.10.1 scikit-learn==1.3.2 pandas==1.5.3

    python make_lightgbm.py

A model NAME is ``lightgbm/VERSION/NAME.txt``; ``NAME.csv`` has its raw scores of the fresh rows. All models are of the
rows of ``lightgbm/rows.csv``, which has training rows and fresh rows. If it is not there, it is made.
"""

from __future__ import annotations

import os

import lightgbm
import numpy as np
import pandas as pd

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lightgbm")
N_TRAIN, N_FRESH = 240, 120
NUMBERS = ["a", "b", "c", "d"]
COMMON = {"num_leaves": 5, "min_data_in_leaf": 8, "num_threads": 1, "verbose": -1, "seed": 7}
FOREST = {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1}
CATEGORIES = {"cat_smooth": 1, "min_data_per_group": 5, "max_cat_to_onehot": 2}


def draw_rows():
    """Return the rows: numbers with missing values and zeros, labels of categories, and their codes."""
    rng = np.random.default_rng(0)
    n = N_TRAIN + N_FRESH
    rows = pd.DataFrame({name: rng.normal(size=n).round(3) for name in NUMBERS})
    label = rng.integers(0, 6, n)
    y = rows["a"] + (rows["b"] > 0) + 2 * np.isin(label, [1, 4]) + rng.normal(size=n) / 2
    rows.loc[rng.random(n) < 0.15, "c"] = np.nan
    rows.loc[rng.random(n) < 0.15, "d"] = 0.0
    rows["label"] = np.array(["red", "green", "blue", "black", "white", "grey"])[label]
    rows["code"] = label
    rows["y"] = y.round(3)
    rows["part"] = np.repeat(["train", "fresh"], [N_TRAIN, N_FRESH])
    return rows


def own_objective(margin, data):
    """Return gradients and hessians of squared error."""
    return margin - data.get_label(), np.ones(len(margin))


def train(y, X, rounds=4, columns=(), **settings):
    """Train on numbers, or on other columns of the rows too."""
    frame = X[NUMBERS + list(columns)]
    if "label" in columns:
        frame = frame.assign(label=pd.Categorical(frame["label"]))
    objective = settings.get("objective")
    dataset = {"linear_tree": True} if "linear_tree" in settings else {}
    categorical = ["code"] if "code" in columns else "auto"
    data = lightgbm.Dataset(frame, y, categorical_feature=categorical, params=dataset, free_raw_data=False)
    if objective != "custom":
        return lightgbm.train(dict(COMMON, **settings), data, rounds)
    if lightgbm.__version__ < "4":
        return lightgbm.train(COMMON, data, rounds, fobj=own_objective)
    return lightgbm.train(dict(COMMON, objective=own_objective), data, rounds)


MODELS = {
    "regression": {},
    "binary": {"objective": "binary"},
    "multiclass": {"objective": "multiclass", "num_class": 3, "rounds": 2},
    "quantile": {"objective": "quantile", "alpha": 0.3},
    "custom": {"objective": "custom"},
    "rf": dict(FOREST, rounds=8),
    "rf_binary": dict(FOREST, objective="binary"),
    "dart": {"boosting": "dart", "drop_rate": 0.6, "skip_drop": 0.0},
    "goss": {"boosting": "goss", "learning_rate": 0.6},
    "zero_as_missing": {"zero_as_missing": True},
    "labels": dict(CATEGORIES, columns=["label"]),
    "codes": dict(CATEGORIES, columns=["code"]),
    "single_leaf": {"min_data_in_leaf": 200},
    "linear_tree": {"linear_tree": True},
}


def main():
    """Write the rows, the models and the raw scores."""
    to, path = os.path.join(FOLDER, lightgbm.__version__), os.path.join(FOLDER, "rows.csv")
    os.makedirs(to, exist_ok=True)
    if not os.path.exists(path):
        draw_rows().to_csv(path, index=False)
    rows = pd.read_csv(path)
    y = {"binary": (rows["y"] > 0.5).astype(int), "multiclass": np.digitize(rows["y"], [0.0, 1.2])}
    in_training = (rows["part"] == "train").to_numpy()
    for name, settings in MODELS.items():
        settings = dict(settings)
        response = np.asarray(y.get(settings.get("objective"), rows["y"]))
        model = train(response[in_training], rows[in_training], **settings)
        model.save_model(os.path.join(to, name + ".txt"))
        columns = NUMBERS + list(settings.get("columns", []))
        fresh = rows.loc[~in_training, columns]
        if "label" in columns:
            fresh = fresh.assign(label=pd.Categorical(fresh["label"]))
        np.savetxt(os.path.join(to, name + ".csv"), model.predict(fresh, raw_score=True), fmt="%.17g")


if __name__ == "__main__":
    main()
