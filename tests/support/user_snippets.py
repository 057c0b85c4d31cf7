"""Twenty snippets as users write them. ``tests/api/test_user_snippets.py`` runs them and has their types checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRegressor

import debias
import debias.plot
from debias import Audit, Dataset, Scores

if TYPE_CHECKING:
    from collections.abc import Callable

bunch: Any = load_diabetes(as_frame=True)
X, y = pd.DataFrame(bunch["data"]), pd.Series(bunch["target"])
X_train, X_test, y_train, y_test = X[:265], X[265:], y[:265], y[265:]
forest = RandomForestRegressor(20, max_depth=6, random_state=0).fit(X, y)
booster = XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X_train, y_train)
quick = debias.Permutation(n_permutations=40)


def audit_a_forest() -> None:
    audit: Audit = debias.audit(forest, X, y, test=quick, random_state=0)
    frame: pd.DataFrame = audit.to_frame()
    informative: list[str] = frame.index[frame["verdict"] == "informative"].tolist()
    assert "bmi" in informative


def audit_a_booster() -> None:
    audit = debias.audit(booster, X_test, y_test, test=quick, random_state=0)
    sentences: list[str] = audit.summary()
    assert sentences


def training_rows_as_well() -> None:
    audit = debias.audit(booster, X_test, y_test, train=(X_train, y_train), dependence=True, test=quick, random_state=0)
    assert audit.dependence is not None


def scores_of_one_scorer() -> None:
    scores: Scores = debias.score(forest, X, y, "ufi")
    best: str = scores.feature_names[int(np.argmax(scores.values))]
    assert best in X


def options_of_a_scorer() -> None:
    scores = debias.score(forest, X, y, "mdi_oob", shrinkage=10)
    assert scores.values.shape == (10,)


def a_pipeline() -> None:
    model = make_pipeline(StandardScaler(), XGBRegressor(n_estimators=10, n_jobs=1)).fit(X_train, y_train)
    assert len(debias.audit(model, X_test, y_test, test=None).to_frame()) == 10
    assert debias.score(model, X_test, y_test, level="model").values.size == 10


def a_search() -> None:
    search = GridSearchCV(XGBRegressor(n_estimators=10, n_jobs=1), {"max_depth": [2, 3]}, cv=2).fit(X_train, y_train)
    assert debias.audit(search, X_test, y_test, test=None, random_state=0).untested_because


def groups_of_columns() -> None:
    audit = debias.audit(forest, X, y, groups={"blood": ["s1", "s2", "s3", "s4", "s5", "s6"]}, test=quick)
    assert "blood" in audit.features


def weights_and_blocks() -> None:
    rows = Dataset(X_test, y_test, sample_weight=np.ones(len(y_test)), blocks=np.arange(len(y_test)) // 3)
    assert len(debias.audit(booster, rows, test=quick, random_state=0).verdict) == 10


def other_frames() -> None:
    scores = debias.score(booster, pl.from_pandas(X_test), pl.from_pandas(y_test), rows="held-out")
    assert scores.rows == "held-out"


def what_to_drop() -> None:
    found: debias.Droppable = debias.droppable(booster, X_test, y_test, train=(X_train, y_train), random_state=0)
    names: list[str] = found.dropped(0)
    assert set(names) <= set(X)


def what_works_together() -> None:
    frame = debias.interactions(booster, X_test, y_test, features=["bmi", "s5", "bp"], random_state=0).to_frame()
    assert len(frame) == 3


def several_scorers() -> None:
    comparison = debias.compare(forest, X, y, ["native", "mdi_oob", "ufi"], random_state=0)
    assert comparison.rank_correlation.shape == (3, 3)


def rows_of_a_score() -> None:
    phi: pd.DataFrame = debias.contributions(forest, X, y)
    assert phi.shape == X.shape


def a_model_file() -> None:
    booster.save_model("model.ubj")
    loaded: Any = debias.load_model("model.ubj")
    audit = debias.audit(loaded, X_test, y_test, test=quick, random_state=0)
    audit.to_json(Path("audit.json"))
    assert Audit.from_json(Path("audit.json")).features == audit.features


def for_a_language_model() -> None:
    brief: dict[str, Any] = debias.audit(forest, X, y, test=quick, random_state=0).to_dict(brief=True)
    assert len(json.dumps(brief)) < 4000


def folds() -> None:
    cv = KFold(3)
    results = cross_validate(forest, X, y, cv=cv, return_estimator=True, return_indices=True)
    audit: debias.FoldsAudit = debias.audit_folds(results, X, y, random_state=0)
    assert len(audit.to_frame()) == 10


def over_time() -> None:
    history = debias.History(booster, "model.history")
    for week in range(3):
        rows = slice(50 * week, 50 * (week + 1))
        history.add(X_test[rows], y_test[rows], at=f"2026-11-{1 + 7 * week:02}")
    assert len(history.scores()) == 3


def a_picture() -> None:
    axes = debias.audit(forest, X, y, test=quick, random_state=0).plot()
    axes.figure.savefig("audit.png")


def what_is_wrong() -> None:
    message = ""
    try:
        debias.audit(booster, X_train, y_train)
    except debias.ProvenanceError as error:
        message = str(error)
    assert "training rows" in message


SNIPPETS: list[Callable[[], None]] = [
    audit_a_forest, audit_a_booster, training_rows_as_well, scores_of_one_scorer, options_of_a_scorer, a_pipeline,
    a_search, groups_of_columns, weights_and_blocks, other_frames, what_to_drop, what_works_together, several_scorers,
    rows_of_a_score, a_model_file, for_a_language_model, folds, over_time, a_picture, what_is_wrong,
]  # fmt: skip
