"""Draw docs/pictures/folds.svg and history.svg: scores over folds and over time. Real runs, nothing by hand."""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold, cross_validate

import debias

NAMES = ["income", "debt", "age", "noise 1", "noise 2", "noise 3"]


def rows(rng, n, debt=1.0):
    """Return rows of a simulated table; `debt` is the effect of that column."""
    X = pd.DataFrame(rng.normal(size=(n, len(NAMES))), columns=NAMES)
    return X, X["income"] + debt * X["debt"] + rng.normal(size=n)


def main(folder):
    """Write both pictures."""
    rng = np.random.default_rng(0)
    X, y = rows(rng, 400)
    forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0)
    found = cross_validate(forest, X, y, cv=KFold(5), return_estimator=True)
    _save(debias.audit_folds(found, X, y, KFold(5), random_state=0).plot().figure, folder / "folds.svg")
    with tempfile.TemporaryDirectory() as home:
        history = debias.History(forest.fit(X, y), f"{home}/a.history")
        for day, at in enumerate(pd.date_range("2026-01-01", periods=60)):
            if day == 50:
                history = debias.History(forest.fit(*rows(rng, 400, debt=0.3)), f"{home}/a.history")
            history.add(*rows(rng, 150, debt=1.0 if day < 40 else 0.3), at=at)
        _save(history.plot(max_features=3), folder / "history.svg")


def _save(figure, path):
    with plt.rc_context({"svg.hashsalt": "debias", "svg.fonttype": "path"}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main(Path(__file__).parent)
