"""Makes the files of tests/old_files/xgboost: small models of older XGBoosts, with the margins that these predict.

Each version is run in an environment of its own (pandas and scikit-learn play no part):

    python3.10 -m venv old && old/bin/pip install xgboost==1.7.6 "numpy<2" scipy
    python3.11 -m venv old && old/bin/pip install xgboost==2.1.4 "numpy<2.3" scipy
    python3.11 -m venv old && old/bin/pip install xgboost==3.0.5 "numpy<2.3" scipy
    old/bin/python tests/old_files/make_xgboost.py

It writes ``VERSION/NAME.json``, ``VERSION/NAME.ubj`` and ``VERSION/margins.json``, and ``rows.csv``, which is the same
for all versions: the columns a, b, c (codes of categories) and d (with missing values), and the response. The first
N_TRAIN rows are the training rows.
"""

import json
from pathlib import Path

import numpy as np
import xgboost

HOME = Path(__file__).parent / "xgboost"
N, N_TRAIN = 160, 100
MODELS = {
    "squared": {},
    "logistic": {"objective": "binary:logistic"},
    "softprob": {"objective": "multi:softprob", "num_class": 3},
    "absolute": {"objective": "reg:absoluteerror"},
    "dart": {"booster": "dart", "rate_drop": 0.5, "one_drop": 1, "seed": 1},
    "categories": {"tree_method": "hist", "max_cat_to_onehot": 1},
    "stopped": {"learning_rate": 1.0},
}


def rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(N, 2)).round(2), rng.integers(0, 6, N), rng.normal(size=N).round(2)])
    y = X[:, 0] + 2 * np.isin(X[:, 2], (1, 4)) + 0.5 * np.maximum(X[:, 3], -1) + rng.normal(size=N)
    X[rng.random(N) < 0.2, 3] = np.nan
    return X, y.round(2)


def response(name, y):
    if name == "logistic":
        return (y > 1) * 1
    return np.digitize(y, [0, 1.5]) if name == "softprob" else y


def matrix(name, X, y=None):
    types = ["q", "q", "c" if name == "categories" else "q", "q"]
    return xgboost.DMatrix(X, y, feature_names=list("abcd"), feature_types=types, enable_categorical=True, nthread=1)


def trained(name, X, y):
    data = matrix(name, X[:N_TRAIN], y[:N_TRAIN])
    settings = {"max_depth": 3, "nthread": 1, "tree_method": "hist", **MODELS[name]}
    stopping = {}
    if name == "stopped":
        stopping = {"evals": [(matrix(name, X[N_TRAIN:], y[N_TRAIN:]), "fresh")], "early_stopping_rounds": 2}
    return xgboost.train(settings, data, 20 if stopping else 3, verbose_eval=False, **stopping)


def main():
    X, y = rows()
    np.savetxt(HOME / "rows.csv", np.column_stack([X, y]), fmt="%g", delimiter=",", header="a,b,c,d,y", comments="")
    folder = HOME / xgboost.__version__
    folder.mkdir(exist_ok=True)
    margins = {}
    for name in MODELS:
        model = trained(name, X, response(name, y))
        rounds = model.num_boosted_rounds()
        found = model.predict(matrix(name, X), output_margin=True, iteration_range=(0, rounds))
        margins[name] = [float(f"{margin:.9g}") for margin in np.ravel(found)]
        for ending in ("json", "ubj"):
            model.save_model(folder / (name + "." + ending))
    (folder / "margins.json").write_text(json.dumps(margins) + "\n")


if __name__ == "__main__":
    main()
