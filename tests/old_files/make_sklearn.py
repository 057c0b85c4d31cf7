"""Make the files in ``tests/old_files/sklearn`` with the installed scikit-learn.

Run it in an environment of its own for each of 1.5.2, 1.6.1 and 1.7.2::

    pip install "scikit-learn==1.5.2" "numpy<2.3" skops
    python tests/old_files/make_sklearn.py

Each run writes models as skops files, the rows they were trained on, and what the installed version predicts for them.
"""

from pathlib import Path

import numpy as np
import sklearn
import skops.io
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

FOLDER = Path(__file__).parent / "sklearn"
FOREST = {"n_estimators": 3, "max_depth": 3, "random_state": 0}
BOOSTED = {"n_estimators": 3, "max_depth": 2, "random_state": 0}
HISTOGRAMS = {"max_iter": 3, "max_leaf_nodes": 4, "min_samples_leaf": 5}
MODELS = {
    "forest-classes": RandomForestClassifier(**FOREST, class_weight="balanced"),
    "boosting": GradientBoostingRegressor(**BOOSTED),
    "boosting-classes": GradientBoostingClassifier(**BOOSTED),
    "histograms": HistGradientBoostingRegressor(**HISTOGRAMS),
    "histograms-classes": HistGradientBoostingClassifier(**HISTOGRAMS),
    "missing": RandomForestRegressor(**FOREST),
}
IN_ONE_VERSION_ONLY = {
    "forest": RandomForestRegressor(**FOREST),
    "extra": ExtraTreesRegressor(**FOREST, bootstrap=True),
    "bagging": BaggingRegressor(DecisionTreeRegressor(max_depth=3), n_estimators=3, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), RandomForestRegressor(**FOREST)),
    "remainder": make_pipeline(
        make_column_transformer((StandardScaler(), [True, False, False]), remainder="passthrough"),
        RandomForestRegressor(**FOREST),
    ),
}


def main() -> None:
    version = sklearn.__version__
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).round(2)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=60)).round(2)
    labels = np.where(y > 0, "yes", "no")
    with_holes = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    predictions = {}
    for name, model in {**MODELS, **(IN_ONE_VERSION_ONLY if version.startswith("1.5.") else {})}.items():
        rows = with_holes if name == "missing" else X
        model.fit(rows, labels if name.endswith("classes") else y)
        predictions[name] = model.predict_proba(rows) if name.endswith("classes") else model.predict(rows)
        skops.io.dump(model, FOLDER / f"{name}-{version}.skops", compression=8, compresslevel=9)  # 8: deflate
    given = {"X": X, "y": y, "labels": labels, "with_holes": with_holes}
    np.savez_compressed(FOLDER / f"rows-{version}.npz", **given, **{f"of {name}": p for name, p in predictions.items()})


if __name__ == "__main__":
    main()
