"""Every scorer against brute force (tests/support/oracle.py), on every kind of model it is defined for."""

from __future__ import annotations

import warnings
from functools import cache

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor

import debias
from support import oracle, simulated
from support.agreement import assert_agree
from support.missing_values import IN_FORESTS

N_TRAIN, N_HELD = 150, 130
N_TREES = 6


def rows_of(n, seed, missing):
    """Draw columns of 2, 4 and 11 values, a rounded and a free one: ties and thresholds between equal values."""
    kinds = ("normal", range(2), range(4), range(-5, 6), "rounded")
    return simulated.rows(n, kinds, (1, 1, 0, -0.2), missing=0.2 * missing, missing_in=(0, 2, 3), seed=seed)


def labelled(latent, task, labels="numbers"):
    """Turn the latent response into y; classes are unbalanced, so that a centre that is off shows."""
    if task == "regression":
        return latent + 3.0  # far from 0, so that a centre that is off shows
    if task == "fractions":
        return 1 / (1 + np.exp(-latent))
    codes = np.digitize(latent, [1.2] if task == "binary" else [-0.5, 1.2])
    return np.array(["maybe", "no", "yes"])[codes] if labels == "text" else codes


def data(task, missing=False, labels="numbers"):
    X, latent = rows_of(N_TRAIN, 0, missing)
    X_held, latent_held = rows_of(N_HELD, 1, missing)
    return X, labelled(latent, task, labels), X_held, labelled(latent_held, task, labels)


def evaluation_weight(n):
    """Draw weights, some of them 0: such rows must not count as evaluation rows."""
    return simulated.weights(n, seed=2)


# --- averaged trees ------------------------------------------------------------------------------------

DEEP = {}
SHALLOW = {"max_depth": 3, "min_samples_leaf": 4}
BAGGED = {"n_estimators": N_TREES, "random_state": 0}
BAGGED_EXTRA = {**BAGGED, "bootstrap": True}

FORESTS = {
    "rf-regression-deep": lambda: (RandomForestRegressor(**BAGGED, **DEEP), "regression"),
    "rf-regression-shallow": lambda: (RandomForestRegressor(**BAGGED, **SHALLOW), "regression"),
    "rf-binary-deep": lambda: (RandomForestClassifier(**BAGGED, **DEEP), "binary"),
    "rf-binary-shallow": lambda: (RandomForestClassifier(**BAGGED, **SHALLOW), "binary"),
    "rf-3-class-deep": lambda: (RandomForestClassifier(**BAGGED, **DEEP), "3-class"),
    "rf-3-class-shallow": lambda: (RandomForestClassifier(**BAGGED, **SHALLOW), "3-class"),
    "et-regression-deep": lambda: (ExtraTreesRegressor(**BAGGED_EXTRA, **DEEP), "regression"),
    "et-3-class-shallow": lambda: (ExtraTreesClassifier(**BAGGED_EXTRA, **SHALLOW), "3-class"),
    "rf-entropy": lambda: (RandomForestClassifier(**BAGGED, criterion="entropy", max_depth=4), "3-class"),
    "rf-poisson": lambda: (RandomForestRegressor(**BAGGED, criterion="poisson", max_depth=4), "counts"),
    "rf-best-first": lambda: (RandomForestRegressor(**BAGGED, max_leaf_nodes=12), "regression"),
    "rf-pruned": lambda: (RandomForestClassifier(**BAGGED, ccp_alpha=0.01), "binary"),
    "rf-small-bags": lambda: (RandomForestRegressor(**BAGGED, max_samples=0.3), "regression"),
    # Medians and clipped means are node values, but no in-bag means.
    "rf-absolute-error": lambda: (
        RandomForestRegressor(**BAGGED, criterion="absolute_error", max_depth=4),
        "regression",
    ),
    "rf-monotonic": lambda: (
        RandomForestRegressor(**BAGGED, monotonic_cst=[1, 0, 0, 1, 0], max_depth=5),
        "regression",
    ),
    "rf-balanced-subsample": lambda: (
        RandomForestClassifier(**BAGGED, class_weight="balanced_subsample", max_depth=5),
        "3-class",
    ),
    "rf-balanced": lambda: (RandomForestClassifier(**BAGGED, class_weight="balanced", max_depth=5), "binary"),
}
TREES = {
    "tree-regression-deep": lambda: (DecisionTreeRegressor(random_state=0), "regression"),
    "tree-regression-shallow": lambda: (DecisionTreeRegressor(random_state=0, **SHALLOW), "regression"),
    "tree-binary-deep": lambda: (DecisionTreeClassifier(random_state=0), "binary"),
    "tree-3-class-shallow": lambda: (DecisionTreeClassifier(random_state=0, **SHALLOW), "3-class"),
    "extra-tree-regression": lambda: (ExtraTreeRegressor(random_state=0), "regression"),
    "et-without-bootstrap": lambda: (ExtraTreesClassifier(**BAGGED), "binary"),
}
NO_MEANS = {"rf-absolute-error", "rf-monotonic"}
NO_MISSING = NO_MEANS | {"tree-3-class-shallow", "rf-best-first"}  # some do not take them, some are there to vary

MDI = [
    ("mdi", {}),
    ("mdi", {"normalize": "tree"}),
    ("mdi", {"min_node_size": 20}),
    ("mdi", {"criterion": "variance"}),
    ("mdi", {"criterion": "variance", "min_node_size": 20}),
    ("mdi", {"criterion": "variance", "normalize": "tree"}),
]
EVALUATED = [
    ("mdi_oob", {}),
    ("mdi_oob", {"centre": "none"}),
    ("mdi_oob", {"weights": "in_bag"}),
    ("mdi_oob", {"shrinkage": 30}),
    ("mdi_oob", {"centre": "none", "shrinkage": 5}),
    ("mdi_oob", {"weights": "in_bag", "shrinkage": 0.5}),
    ("ufi", {}),
    ("oob_split", {}),
    ("oob_loss", {}),
]


def named(scorers):
    return [pytest.param(name, options, id=_expression(name, options)) for name, options in scorers]


def crossed(cases, scorers, of_all):
    """Return the pairs of models and scorers that can differ.

    Every model meets every scorer without options. Options change a score after the sums of the nodes are there, which
    are the same for all scorers, so one model of each response, the cases `of_all`, meets them all.
    """
    assert set(of_all) <= set(cases)
    return [
        pytest.param(case, name, options, id=f"{case}-{_expression(name, options)}")
        for case in cases
        for name, options in scorers
        if case in of_all or not options
    ]


def _expression(name, options):
    return f"{name}({', '.join(f'{key}={value}' for key, value in options.items())})" if options else name


@cache
def fitted(case):
    """Fit a model; return it with its data, missing values in half the cases."""
    model, task = {**FORESTS, **TREES}[case]()
    missing = case not in NO_MISSING and IN_FORESTS
    if task == "counts":
        X, y, X_held, y_held = data("regression", missing)
        y, y_held = np.floor(np.abs(y)), np.floor(np.abs(y_held))
    else:
        X, y, X_held, y_held = data(task, missing, labels="text")
    return model.fit(X, y), X, y, X_held, y_held


@cache
def seen(case, rows, weighted):
    model, X, y, X_held, y_held = fitted(case)
    if rows == "oob":
        return oracle.see_forest(model, X, y, weight=evaluation_weight(N_TRAIN) if weighted else None)
    return oracle.see_forest(model, X, y, X_held, y_held, evaluation_weight(N_HELD) if weighted else None)


def assert_forest_agrees(case, rows, weighted, name, options):
    model, X, y, X_held, y_held = fitted(case)
    if rows == "held-out":
        X, y = X_held, y_held
    weight = evaluation_weight(len(y)) if weighted else None
    found = debias.score(model, X, y, name, rows=rows, sample_weight=weight, **options)
    expected = oracle.score(name, seen(case, rows, weighted), X.shape[1], averaged=True, **options)
    assert_agree(found.values, expected)


@pytest.mark.parametrize(
    ("case", "name", "options"),
    crossed(
        FORESTS,
        MDI + EVALUATED,
        ["rf-regression-deep", "rf-3-class-shallow", "rf-entropy", "rf-poisson", "rf-absolute-error", "rf-balanced"],
    ),
)
def test_scores_of_a_forest_on_oob_rows_are_the_oracles(case, name, options):
    assert_forest_agrees(case, "oob", False, name, options)


@pytest.mark.parametrize(("name", "options"), named(EVALUATED))
@pytest.mark.parametrize("case", ["rf-regression-deep", "rf-3-class-deep", "rf-binary-shallow", "rf-absolute-error"])
def test_scores_of_a_forest_on_weighted_oob_rows_are_the_oracles(case, name, options):
    assert_forest_agrees(case, "oob", True, name, options)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    ("case", "name", "options"),
    crossed(
        ["rf-regression-deep", "rf-3-class-shallow", "rf-balanced-subsample", "rf-entropy", *TREES],
        MDI + EVALUATED,
        ["rf-balanced-subsample", "tree-regression-deep", "tree-3-class-shallow"],
    ),
)
def test_scores_of_averaged_trees_on_held_out_rows_are_the_oracles(case, name, options, weighted):
    assert_forest_agrees(case, "held-out", weighted, name, options)


@pytest.mark.parametrize("name", ["mdi_oob", "oob_split", "oob_loss"])
@pytest.mark.parametrize("case", sorted(NO_MEANS))
def test_node_values_that_are_no_means_on_held_out_rows(case, name):
    assert_forest_agrees(case, "held-out", False, name, {})


@pytest.mark.parametrize(("name", "options"), named(EVALUATED))
@pytest.mark.quick
@pytest.mark.filterwarnings("ignore:few rows have nearly all of the weight:debias.DebiasWarning")  # that is the case
def test_trees_without_evaluation_rows_are_left_out_of_the_mean(name, options):
    # All the weight is on rows that are in the bags of trees 0 and 1, and out of those of trees 2 and 3.
    model, X, y, _, _ = fitted("rf-regression-shallow")
    bags = [set(sample.tolist()) for sample in model.estimators_samples_]
    rows = sorted((bags[0] & bags[1]) - bags[2] - bags[3])
    weight = np.zeros(N_TRAIN)
    weight[rows] = np.linspace(0.5, 2.0, len(rows))
    found = debias.score(model, X, y, name, rows="oob", sample_weight=weight, **options)
    assert found.details["trees_without_rows"] == sum(set(rows) <= bag for bag in bags) == 2
    trees = oracle.see_forest(model, X, y, weight=weight)
    assert_agree(found.values, oracle.score(name, trees, X.shape[1], averaged=True, **options))


@pytest.mark.parametrize(("name", "options"), named(MDI + EVALUATED))
def test_scores_of_a_tree_grown_with_weights_are_the_oracles(name, options):
    # Weights of a single tree go into its nodes.
    X, y, X_held, y_held = data("regression")
    grown_with = evaluation_weight(N_TRAIN) + 0.25
    tree = DecisionTreeRegressor(max_depth=5, random_state=0).fit(X, y, sample_weight=grown_with)
    form = oracle.sklearn_model(tree)
    bag = oracle.arrivals(form.trees[0], X, form.response(y), list(enumerate(grown_with.tolist())))
    held = oracle.arrivals(form.trees[0], X_held, form.response(y_held), [(i, 1.0) for i in range(N_HELD)])
    trees = [oracle.Seen(form.trees[0], [oracle.mean(rows) for rows in bag], held, bag, one_hot=False)]
    found = debias.score(tree, X_held, y_held, name, rows="held-out", **options)
    assert_agree(found.values, oracle.score(name, trees, X.shape[1], averaged=True, **options))


@pytest.mark.parametrize("options", [{}, {"normalize": "tree"}, {"criterion": "variance"}], ids=str)
def test_mdi_needs_no_rows(options):
    found = debias.score(fitted("rf-3-class-deep")[0], scorer="mdi", **options)
    assert_agree(found.values, oracle.score("mdi", seen("rf-3-class-deep", "oob", False), 5, averaged=True, **options))


def test_oracle_values_are_one_whichever_way_they_are_taken():
    # mu_t as the in-bag mean and as the mean of the leaves below: equal where leaf values are means.
    for case in ("rf-regression-deep", "rf-balanced-subsample", "rf-poisson"):
        for tree in seen(case, "oob", False):
            rebuilt = [tree.tree.value(t) for t in range(len(tree.tree.nodes))]
            np.testing.assert_allclose(tree.value, rebuilt, rtol=1e-12, atol=1e-12)


# --- boosted trees -------------------------------------------------------------------------------------

XGB = {"n_estimators": N_TREES, "n_jobs": 1, "random_state": 0}
XGB_SHALLOW = {**XGB, "max_depth": 2}
XGB_DEEP = {**XGB, "max_depth": 9, "min_child_weight": 0.0, "reg_lambda": 0.1}
LGB = {"n_estimators": N_TREES, "n_jobs": 1, "random_state": 0, "verbose": -1}
LGB_SHALLOW = {**LGB, "num_leaves": 4}
LGB_DEEP = {**LGB, "num_leaves": 40, "min_child_samples": 2}


def xgb_raw(X, y, **params):
    return xgboost.train(
        {"max_depth": 3, "nthread": 1, **params}, xgboost.DMatrix(X, y, nthread=1), num_boost_round=N_TREES
    )


def lgb_raw(X, y, **params):
    params = {"num_leaves": 8, "min_data_in_leaf": 4, "num_threads": 1, "verbose": -1, **params}
    return lightgbm.train(params, lightgbm.Dataset(X, y), num_boost_round=N_TREES)


def stopped_early(model, X, y, **fit):
    """Fit so that the best round comes early and rounds after it are stored all the same."""
    rng = np.random.default_rng(5)
    X_valid = X.copy()
    X_valid[::2] = X[rng.permutation(len(y))][::2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # LightGBM 4.7 renames eval_set; 4.6 knows no other name
        return model.fit(X, y, eval_set=[(X_valid, y)], **fit)


def with_zeros(X):
    X = X.copy()
    X[:, 4] = np.where(np.abs(X[:, 4]) < 0.4, 0.0, X[:, 4])
    return X


BOOSTERS = {
    "xgb-regression-deep": ("regression", lambda X, y: xgboost.XGBRegressor(**XGB_DEEP).fit(X, y)),
    "xgb-regression-shallow": ("regression", lambda X, y: xgboost.XGBRegressor(**XGB_SHALLOW).fit(X, y)),
    "xgb-binary-deep": ("binary", lambda X, y: xgboost.XGBClassifier(**XGB_DEEP).fit(X, y)),
    "xgb-3-class-shallow": ("3-class", lambda X, y: xgboost.XGBClassifier(**XGB_SHALLOW).fit(X, y)),
    "xgb-3-class-deep": ("3-class", lambda X, y: xgboost.XGBClassifier(**XGB_DEEP).fit(X, y)),
    "xgb-raw-regression": ("regression", lambda X, y: xgb_raw(X, y, objective="reg:squarederror", base_score=0.5)),
    "xgb-raw-binary": ("binary", lambda X, y: xgb_raw(X, y, objective="binary:logistic", base_score=0.3)),
    "xgb-raw-logitraw": ("binary", lambda X, y: xgb_raw(X, y, objective="binary:logitraw")),
    "xgb-raw-fractions": ("fractions", lambda X, y: xgb_raw(X, y, objective="reg:logistic")),
    "xgb-raw-3-class": ("3-class", lambda X, y: xgb_raw(X, y, objective="multi:softmax", num_class=3)),
    "xgb-parallel-trees": (
        "3-class",
        lambda X, y: xgb_raw(X, y, objective="multi:softprob", num_class=3, num_parallel_tree=2, subsample=0.6),
    ),
    "xgb-stopped-early": (
        "regression",
        lambda X, y: stopped_early(
            xgboost.XGBRegressor(**{**XGB_DEEP, "n_estimators": 40}, early_stopping_rounds=4), X, y, verbose=False
        ),
    ),
    "lgb-regression-deep": ("regression", lambda X, y: lightgbm.LGBMRegressor(**LGB_DEEP).fit(X, y)),
    "lgb-regression-shallow": ("regression", lambda X, y: lightgbm.LGBMRegressor(**LGB_SHALLOW).fit(X, y)),
    "lgb-binary-deep": ("binary", lambda X, y: lightgbm.LGBMClassifier(**LGB_DEEP).fit(X, y)),
    "lgb-3-class-shallow": ("3-class", lambda X, y: lightgbm.LGBMClassifier(**LGB_SHALLOW).fit(X, y)),
    "lgb-3-class-deep": ("3-class", lambda X, y: lightgbm.LGBMClassifier(**LGB_DEEP).fit(X, y)),
    "lgb-raw-regression": ("regression", lambda X, y: lgb_raw(X, y, objective="regression", boost_from_average=False)),
    "lgb-raw-binary": ("binary", lambda X, y: lgb_raw(X, y, objective="binary", bagging_fraction=0.7, bagging_freq=1)),
    "lgb-raw-3-class": ("3-class", lambda X, y: lgb_raw(X, y, objective="multiclass", num_class=3)),
    "lgb-zero-as-missing": ("regression", lambda X, y: lgb_raw(X, y, objective="regression", zero_as_missing=True)),
    "lgb-no-missing": ("regression", lambda X, y: lgb_raw(X, y, objective="regression", use_missing=False)),
    "lgb-stopped-early": (
        "regression",
        lambda X, y: stopped_early(
            lightgbm.LGBMRegressor(**{**LGB_DEEP, "n_estimators": 40, "learning_rate": 0.5}),
            X,
            y,
            callbacks=[lightgbm.early_stopping(4, verbose=False)],
        ),
    ),
}
NO_MISSING_BOOSTERS = {"xgb-regression-shallow", "xgb-3-class-shallow", "lgb-regression-shallow", "lgb-3-class-shallow"}

HELD_OUT = [("mdi_oob", {}), ("mdi_oob", {"centre": "none"}), ("oob_split", {})]
WITH_TRAIN = [
    ("mdi", {}),
    ("mdi", {"criterion": "variance", "min_node_size": 20}),
    ("mdi", {"normalize": "tree"}),
    ("mdi_oob", {"weights": "in_bag"}),
    ("mdi_oob", {"shrinkage": 30}),
    ("mdi_oob", {"weights": "in_bag", "shrinkage": 5}),
    ("ufi", {}),
]


BOOSTED_FOR_ALL = ["xgb-regression-deep", "xgb-parallel-trees", "lgb-binary-deep", "lgb-3-class-shallow"]
"""Boosters that meet every scorer with every option: of each response, and of both libraries."""
WEIGHTED = [*BOOSTED_FOR_ALL, "xgb-raw-fractions", "lgb-zero-as-missing"]
"""Boosters whose rows are weighted, too: weights enter the sums of the nodes, in the same way for all."""


@cache
def boosted(case):
    task, fit = BOOSTERS[case]
    labels = "text" if case.startswith("lgb") and "raw" not in case else "numbers"
    X, y, X_held, y_held = data(task, case not in NO_MISSING_BOOSTERS, labels)
    X, X_held = with_zeros(X), with_zeros(X_held)
    model = fit(X, y)
    form = oracle.xgboost_model(model) if case.startswith("xgb") else oracle.lightgbm_model(model)
    return model, form, X, y, X_held, y_held


@cache
def seen_boosted(case, weighted):
    _, form, X, y, X_held, y_held = boosted(case)
    return oracle.see_boosted(form, X_held, y_held, evaluation_weight(N_HELD) if weighted else None, train=(X, y))


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("case", "name", "options"), crossed(BOOSTERS, HELD_OUT, BOOSTED_FOR_ALL))
def test_scores_of_boosted_trees_on_held_out_rows_are_the_oracles(case, name, options, weighted):
    model, _, _, _, X, y = boosted(case)
    weight = evaluation_weight(N_HELD) if weighted else None
    found = debias.score(model, X, y, name, rows="held-out", sample_weight=weight, **options)
    assert_agree(found.values, oracle.score(name, seen_boosted(case, weighted), 5, averaged=False, **options))


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("case", BOOSTERS)
def test_the_loss_of_boosted_trees_is_the_oracles(case, weighted):
    model, form, _, _, X, y = boosted(case)
    weight = evaluation_weight(N_HELD) if weighted else None
    found = debias.score(model, X, y, "oob_loss", rows="held-out", sample_weight=weight)
    scores, base = oracle.running_loss(form, X, y, weight)
    assert_agree([*found.values, found.details["base"]], [*scores, base])


@pytest.mark.parametrize(
    ("case", "name", "options", "weighted"),
    [
        pytest.param(*each.values, weighted, id=f"{each.id}-{'weighted' if weighted else 'plain'}")
        for weighted, cases in ((False, BOOSTERS), (True, WEIGHTED))
        for each in crossed(cases, WITH_TRAIN, BOOSTED_FOR_ALL)
    ],
)
def test_scores_of_boosted_trees_with_training_rows_are_the_oracles(case, name, options, weighted):
    model, _, X_train, y_train, X, y = boosted(case)
    weight = evaluation_weight(N_HELD) if weighted else None
    found = debias.score(model, X, y, name, rows="held-out", train=(X_train, y_train), sample_weight=weight, **options)
    if name == "mdi":  # a booster stores no impurity: it is the variance of r_0 that decreases
        options = {**options, "criterion": "variance"}
    assert_agree(found.values, oracle.score(name, seen_boosted(case, weighted), 5, averaged=False, **options))


@pytest.mark.parametrize("name", ["split_count", "gain", "cover"])
@pytest.mark.parametrize("case", BOOSTERS)
def test_numbers_of_the_library_are_those_of_its_own_dump(case, name):
    model, form, *_ = boosted(case)
    found = debias.score(model, scorer=name)
    # LightGBM's dump and text give gains in different numbers of digits.
    rtol = 2e-5 if case.startswith("lgb") else 1e-12
    np.testing.assert_allclose(found.values, getattr(oracle, name)(form), rtol=rtol)


def test_the_missing_value_of_an_xgboost_wrapper_is_used():
    X, y, X_held, y_held = data("regression")
    for rows in (X, X_held):
        rows[rows[:, 3] > 3, 3] = -999.0
    model = xgboost.XGBRegressor(**XGB_SHALLOW, missing=-999.0).fit(X, y)
    found = debias.score(model, X_held, y_held, rows="held-out")
    form = oracle.xgboost_model(model)
    assert_agree(found.values, oracle.score("mdi_oob", oracle.see_boosted(form, X_held, y_held), 5, averaged=False))


def test_early_stopping_leaves_rounds_out():
    # Else the cases of early stopping above are no test of it.
    model = boosted("xgb-stopped-early")[0]
    n_stored = model.get_booster().num_boosted_rounds()
    assert len(boosted("xgb-stopped-early")[1].trees) == model.best_iteration + 1 < n_stored
    model = boosted("lgb-stopped-early")[0]
    assert len(boosted("lgb-stopped-early")[1].trees) == model.best_iteration_ < 40


def test_squares_about_medians_take_in_bag_rows_only():
    # In-bag sums of held-out rows, from train=: of the rows in each tree's bag, as often as they were drawn.
    case = "rf-absolute-error"
    model, X, y, X_held, y_held = fitted(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        found = debias.score(model, X_held, y_held, "ufi", rows="held-out", train=(X, y))
    assert_agree(found.values, oracle.score("ufi", seen(case, "held-out", False), 5, averaged=True))
