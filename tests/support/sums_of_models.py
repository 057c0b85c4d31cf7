"""Designs with noise beside effects for votes, stacks and other sums of models: how often noise is informative."""

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, TargetEncoder
from xgboost import XGBClassifier, XGBRegressor

import debias

NOISE = ["b", "q", "t", "w", "x"]
"""Columns of noise with 2, 4, 10, 20 and infinitely many values."""
LIGHTGBM = {"n_estimators": 15, "num_leaves": 6, "min_child_samples": 5, "verbose": -1, "random_state": 0, "n_jobs": 1}


def mixed(rng, n):
    """Columns of noise, and three for effects."""
    return pd.DataFrame(
        {
            "b": rng.integers(0, 2, n),
            "q": rng.integers(0, 4, n),
            "t": rng.integers(0, 10, n),
            "w": rng.integers(0, 20, n),
            "x": rng.normal(size=n),
            "s1": rng.normal(size=n),
            "s2": rng.normal(size=n),
            "s3": rng.normal(size=n),
        }
    )


def forest(kind=RandomForestRegressor, seed=0, **settings):
    return kind(20, min_samples_leaf=3, random_state=seed, **settings)


def boosted(kind=XGBRegressor):
    return kind(n_estimators=15, max_depth=3, random_state=0, n_jobs=1)


def vote():
    members = [("r", forest()), ("x", boosted()), ("l", LGBMRegressor(**LIGHTGBM))]
    return VotingRegressor(members, weights=[2, 1, 1])


def null_mixed(rng):
    X = mixed(rng, 300)
    return vote(), X, rng.normal(size=300), 150, list(X), None


def skewed(rng):
    X = mixed(rng, 400)
    y = np.exp(0.6 * X.s1 + 0.4 * X.s2 * X.s3) * rng.lognormal(0, 1, 400)
    return vote(), X, y.to_numpy(), 200, NOISE, None


def weak_100(rng):
    X = mixed(rng, 200)
    y = 0.5 * X.s1 + 0.5 * X.s2 + 0.5 * X.s3 + rng.normal(size=200)
    return vote(), X, y.to_numpy(), 100, NOISE, None


def rare(rng, threshold):
    X = mixed(rng, 1000)
    return X, (X.s1 + 0.7 * X.s2 + rng.logistic(size=1000) > threshold).astype(int).to_numpy()


def rare_soft_forests(rng):
    X, y = rare(rng, 3.6)
    members = [
        ("r", forest(RandomForestClassifier, class_weight="balanced")),
        ("e", forest(ExtraTreesClassifier, 1)),
    ]
    return VotingClassifier(members, voting="soft", weights=[1, 2]), X, y, 500, NOISE, None


def rare_soft_boosters(rng):
    X, y = rare(rng, 3.6)
    members = [("r", boosted(XGBClassifier)), ("e", LGBMClassifier(**LIGHTGBM))]
    return VotingClassifier(members, voting="soft"), X, y, 500, NOISE, None


def calibrated_isotonic_rare(rng):
    X, y = rare(rng, 3)
    return CalibratedClassifierCV(forest(RandomForestClassifier), cv=3, method="isotonic"), X, y, 500, NOISE, None


def calibrated_sigmoid_xgb(rng):
    X = mixed(rng, 600)
    y = (0.7 * X.s1 + 0.5 * X.s2 + rng.logistic(size=600) > 0).astype(int).to_numpy()
    return CalibratedClassifierCV(boosted(XGBClassifier), cv=5), X, y, 300, NOISE, None


def clustered(rng):
    block = np.repeat(np.arange(100), 5)
    X = mixed(rng, 500)
    for column in [*NOISE, "s1"]:
        X[column] = X[column].to_numpy()[block * 5]
    y = 0.7 * X.s1 + X.s2 * 0.5 + rng.normal(size=100)[block] + 0.5 * rng.normal(size=500)
    return vote(), X, y.to_numpy(), 250, NOISE, block


def clustered_unequal(rng):
    size = rng.integers(1, 9, 100)
    block = np.repeat(np.arange(100), size)
    X, first = mixed(rng, block.size), np.concatenate([[0], np.cumsum(size)[:-1]])
    for column in [*NOISE, "s1"]:
        X[column] = X[column].to_numpy()[first[block]]
    y = 0.7 * X.s1 + X.s2 * 0.5 + rng.normal(size=100)[block] + 0.5 * rng.normal(size=block.size)
    return vote(), X, y.to_numpy(), int(first[50]), NOISE, block


def encoded(rng):
    X = mixed(rng, 400)
    X["c1"], X["c2"] = rng.integers(0, 12, 400).astype(str), rng.integers(0, 6, 400).astype(str)
    y = 0.6 * X.s1 + 0.6 * X.s2 + 0.5 * (X.c2 == "1") + rng.normal(size=400)
    encoders = [OneHotEncoder(handle_unknown="ignore", sparse_output=False), TargetEncoder(random_state=0)]
    one, target = (
        make_pipeline(ColumnTransformer([("o", encoder, ["c1", "c2"])], remainder="passthrough"), model)
        for encoder, model in zip(encoders, (forest(), boosted()), strict=True)
    )
    return VotingRegressor([("o", one), ("t", target)]), X, y.to_numpy(), 200, [*NOISE, "c1"], None


def other_columns(rng):
    """Each member sees one form of s1, and one of the noise x."""
    X = mixed(rng, 400)
    X["s1b"] = X.s1 + 0.5 * rng.normal(size=400)
    X["x2"] = X.x + 0.3 * rng.normal(size=400)
    y = X.s1 + 0.6 * X.s2 + rng.normal(size=400)
    columns = [["s1", "b", "q", "x"], ["s1b", "s2", "t", "w", "x2"]]
    one, other = (
        make_pipeline(ColumnTransformer([("k", "passthrough", of)]), model)
        for of, model in zip(columns, (forest(), boosted()), strict=True)
    )
    return VotingRegressor([("a", one), ("c", other)]), X, y.to_numpy(), 200, [*NOISE, "x2"], None


def stacked(rng):
    X = mixed(rng, 400)
    y = 0.6 * X.s1 + 0.6 * X.s2 * X.s3 + rng.standard_t(3, size=400)
    members = [("r", forest()), ("e", forest(seed=1, max_features=0.3)), ("x", boosted())]
    return StackingRegressor(members, final_estimator=RidgeCV(), cv=3), X, y.to_numpy(), 200, NOISE, None


def logistic_stack(members, **settings):
    return StackingClassifier(members, final_estimator=LogisticRegression(), cv=3, **settings)


def forests_of_classes():
    balanced = forest(RandomForestClassifier, class_weight="balanced")
    return [("r", balanced), ("e", forest(ExtraTreesClassifier, 1)), ("m", forest(RandomForestClassifier, 2))]


def null_stacked_classes(rng):
    X = mixed(rng, 300)
    return logistic_stack(forests_of_classes()), X, rng.integers(0, 2, 300), 150, list(X), None


def rare_stacked_classes(rng):
    X, y = rare(rng, 3)
    return logistic_stack(forests_of_classes()), X, y, 500, NOISE, None


def stacked_probabilities_of_boosters(rng):
    X = mixed(rng, 600)
    y = (0.6 * X.s1 + 0.6 * X.s2 * X.s3 + rng.logistic(size=600) > 0).astype(int).to_numpy()
    return logistic_stack([("x", boosted(XGBClassifier)), ("l", LGBMClassifier(**LIGHTGBM))]), X, y, 300, NOISE, None


def stacked_margins(rng):
    X = mixed(rng, 600)
    y = (0.7 * X.s1 + 0.5 * X.s2 + rng.logistic(size=600) > 0).astype(int).to_numpy()
    members = [
        ("g", GradientBoostingClassifier(n_estimators=15, random_state=0)),
        ("h", HistGradientBoostingClassifier(max_iter=15, max_leaf_nodes=6, random_state=0)),
    ]
    return logistic_stack(members, stack_method="decision_function"), X, y, 300, NOISE, None


def two_responses(rng):
    X, error = mixed(rng, 400), rng.normal(size=400)
    y = np.column_stack([0.6 * X.s1 + error, 10 * (0.5 * X.s2 - 0.5 * error + rng.normal(size=400))])
    return MultiOutputRegressor(boosted()), X, y, 200, NOISE, None


def one_vs_rest(rng):
    X = mixed(rng, 600)
    y = np.digitize(0.7 * X.s1 + 0.5 * X.s2 + rng.logistic(size=600), [0, 2.5])
    return OneVsRestClassifier(forest(RandomForestClassifier)), X, y, 300, NOISE, None


def many_rows(rng):
    X = mixed(rng, 3500)
    y = (X.s1 + 0.5 * X.s2 + rng.logistic(size=3500) > 2).astype(int).to_numpy()
    members = [("x", boosted(XGBClassifier)), ("l", LGBMClassifier(**LIGHTGBM))]
    return VotingClassifier(members, voting="soft"), X, y, 1000, NOISE, None


def many_columns(rng):
    """Two of the 39 columns of noise depend on one another."""
    X = pd.DataFrame(rng.normal(size=(200, 40)), columns=[f"n{k}" for k in range(40)])
    X["n1"] = X.n0 + 0.2 * rng.normal(size=200)
    y = X.n39 + rng.normal(size=200)
    return vote(), X, y.to_numpy(), 100, [f"n{k}" for k in range(39)], None


DESIGNS = {
    each.__name__: each
    for each in (
        null_mixed,
        skewed,
        weak_100,
        rare_soft_forests,
        rare_soft_boosters,
        calibrated_isotonic_rare,
        calibrated_sigmoid_xgb,
        clustered,
        clustered_unequal,
        encoded,
        other_columns,
        stacked,
        null_stacked_classes,
        rare_stacked_classes,
        stacked_probabilities_of_boosters,
        stacked_margins,
        two_responses,
        one_vs_rest,
        many_rows,
        many_columns,
    )
}


def noise_p_values(name, seed):
    """P-values of the columns of noise of one data set of a design, and the adjusted ones, on its held-out rows."""
    rng = np.random.default_rng([sum(map(ord, name)), seed])
    model, X, y, n_train, noise, block = DESIGNS[name](rng)
    model.fit(X[:n_train], y[:n_train])
    fresh = debias.Dataset(X[n_train:], y[n_train:], blocks=None if block is None else block[n_train:])
    scores = debias.score(model, fresh, scorer="mdi_oob", rows="held-out", test="auto", random_state=seed, n_jobs=1)
    at = [scores.feature_names.index(column) for column in noise]
    return scores.p_value[at], scores.p_adjusted[at]


def bagged(kind=RandomForestRegressor):
    """Three forests with bags that differ in depth, in what splits may use, and in how they are chosen."""
    random = ExtraTreesRegressor if kind is RandomForestRegressor else ExtraTreesClassifier
    return [
        ("r", forest(kind)),
        ("d", kind(20, max_features=0.3, random_state=1)),
        ("e", forest(random, 2, bootstrap=True)),
    ]


def bags_null(rng):
    X = mixed(rng, 150)
    return VotingRegressor(bagged()), X, rng.normal(size=150), list(X)


def bags_weak(rng):
    X = mixed(rng, 200)
    y = 0.5 * X.s1 + 0.5 * X.s2 + 0.5 * X.s3 + rng.normal(size=200)
    return VotingRegressor(bagged(), weights=[2, 1, 1]), X, y.to_numpy(), NOISE


def bags_skewed(rng):
    X = mixed(rng, 200)
    y = np.exp(0.6 * X.s1 + 0.4 * X.s2 * X.s3) * rng.lognormal(0, 1, 200)
    return VotingRegressor(bagged()), X, y.to_numpy(), NOISE


def bags_rare(rng):
    X, y = rare(rng, 3)
    members = [("b", forest(RandomForestClassifier, 3, class_weight="balanced")), *bagged(RandomForestClassifier)]
    return VotingClassifier(members, voting="soft"), X, y, NOISE


def bags_one_vs_rest(rng):
    X = mixed(rng, 300)
    y = np.digitize(0.7 * X.s1 + 0.5 * X.s2 + rng.logistic(size=300), [0, 2.5])
    return OneVsRestClassifier(forest(RandomForestClassifier)), X, y, NOISE


def bags_two_responses(rng):
    X, error = mixed(rng, 200), rng.normal(size=200)
    y = np.column_stack([0.6 * X.s1 + error, 10 * (0.5 * X.s2 - 0.5 * error + rng.normal(size=200))])
    return MultiOutputRegressor(forest()), X, y, NOISE


def folds_null(rng):
    X = mixed(rng, 150)
    return vote(), X, rng.normal(size=150), list(X)


def folds_weak(rng):
    X = mixed(rng, 200)
    y = 0.5 * X.s1 + 0.5 * X.s2 + 0.5 * X.s3 + rng.normal(size=200)
    return vote(), X, y.to_numpy(), NOISE


def folds_skewed(rng):
    X = mixed(rng, 200)
    y = np.exp(0.6 * X.s1 + 0.4 * X.s2 * X.s3) * rng.lognormal(0, 1, 200)
    return vote(), X, y.to_numpy(), NOISE


def folds_rare(rng):
    X, y = rare(rng, 3)
    members = [("r", boosted(XGBClassifier)), ("e", LGBMClassifier(**LIGHTGBM))]
    return VotingClassifier(members, voting="soft"), X, y, NOISE


def folds_stacked(rng):
    X = mixed(rng, 200)
    y = 0.6 * X.s1 + 0.6 * X.s2 * X.s3 + rng.standard_t(3, size=200)
    members = [("r", forest()), ("x", boosted())]
    return StackingRegressor(members, final_estimator=RidgeCV(), cv=3), X, y.to_numpy(), NOISE


OUT_OF_BAG = {
    each.__name__: each for each in (bags_null, bags_weak, bags_skewed, bags_rare, bags_one_vs_rest, bags_two_responses)
}
FOLDS = {each.__name__: each for each in (folds_null, folds_weak, folds_skewed, folds_rare, folds_stacked)}


def p_values_of_all(name, seed):
    """P-values of the columns of one data set, adjusted ones, and which columns are noise: out of bag, or of folds."""
    rng = np.random.default_rng([sum(map(ord, name)), seed])
    model, X, y, noise = (OUT_OF_BAG | FOLDS)[name](rng)
    if name in OUT_OF_BAG:
        scores = debias.score(
            model.fit(X, y), X, y, scorer="mdi_oob", rows="oob", test="auto", random_state=seed, n_jobs=1
        )
        return scores.p_value, scores.p_adjusted, np.isin(scores.feature_names, noise)
    folds = KFold(5, shuffle=True, random_state=seed) if name != "folds_rare" else StratifiedKFold(5)
    found = cross_validate(model, X, y, cv=folds, return_estimator=True, return_indices=True)
    audit = debias.audit_folds(found, X, y, scorers=["mdi_oob"], random_state=seed, n_jobs=1)
    return audit.p_value, audit.p_adjusted, np.isin(audit.feature_names, noise)
