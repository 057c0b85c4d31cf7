"""Lines in the leaves of LightGBM's trees: the output, the scores, what is refused, and the mean for noise.

One file for all of it: each test needs a model of ``linear_tree``.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from itertools import pairwise

import lightgbm
import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp
from sklearn.inspection import permutation_importance
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import debias
from debias.errors import CompositionError, ExtractionError
from debias.hooks.contracts import RefitScorer, TreeScorer
from debias.hooks.registry import scorers as offered_scorers
from debias.lines_note import LINES
from debias.models.extraction import gaps
from debias.testing.adapters import check_adapter
from debias.trees.fingerprint import trees_digest
from debias.trees.routing import raw_output, route
from debias_adapters.lightgbm.changed_leaves import were_changed
from debias_adapters.lightgbm.reading import ModelText, text_in_parts
from support import oracle
from support.versions import needs

SETTINGS = {"num_leaves": 6, "min_data_in_leaf": 10, "verbose": -1, "num_threads": 1, "seed": 0, "linear_tree": True}
VARIANTS = {
    "squared": {},
    "many rounds": {"num_leaves": 31},
    "from 0": {"boost_from_average": False},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "goss": {"data_sample_strategy": "goss"},
    "sampled": {"bagging_fraction": 0.5, "bagging_freq": 1, "linear_lambda": 1.0},
    "penalty": {"lambda_l2": 3.0},
    "no missing": {"use_missing": False},
    "huber": {"objective": "huber"},
    "quantile": {"objective": "quantile", "alpha": 0.3},
    "poisson": {"objective": "poisson"},
    "binary": {"objective": "binary"},
    "classes": {"objective": "multiclass", "num_class": 3},
}
LEFT_OUT = {
    "mdi", "mdi_oob", "ufi", "oob_split", "honest_effects", "honest_splits", "gain", "cover", "split_count", "native",
}  # fmt: skip


def draw(seed=0, n=400):
    """Return rows with missing values, of a line, a kink, labels and a feature without effect, and their latent y."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    X["label"] = pd.Categorical(rng.choice(list("uvwx"), n))
    y = 2 * X["a"] + X["b"].abs() + X["label"].isin(["u", "v"]) + rng.normal(size=n)
    X = X.mask(rng.random(X.shape) < [0.1, 0.1, 0.1, 0, 0])
    return X, y.to_numpy()


def response(name, y):
    """Return y as the loss of a variant takes it."""
    if name == "classes":
        return np.digitize(y, [0.0, 1.5])
    return {"binary": (y > 0.5).astype(int), "poisson": np.abs(y)}.get(name, y)


def trained(name="squared", rounds=8, seed=0, **more):
    X, y = draw(seed)
    data = lightgbm.Dataset(X, response(name, y), params={"min_data_per_group": 5})
    return lightgbm.train(SETTINGS | VARIANTS[name] | more, data, rounds)


@pytest.fixture(scope="module")
def wrapper():
    X, y = draw()
    settings = {"num_leaves": 6, "n_jobs": 1, "verbose": -1, "random_state": 0, "n_estimators": 8}
    return lightgbm.LGBMRegressor(**settings, linear_tree=True).fit(X, y)


@pytest.fixture(scope="module")
def fresh():
    return draw(1)


def codes(X):
    """Return rows as the library compares them: labels as their positions."""
    return X.assign(label=X["label"].cat.codes).to_numpy(dtype=np.float64)


def lines_in(model):
    """Return (value, constant, {feature: slope}) of the leaves of each tree, read from the text line by line."""
    found = []
    for block in model.model_to_string().partition("end of trees")[0].split("\nTree=")[1:]:
        line = dict(each.split("=", 1) for each in block.splitlines() if "=" in each)
        value = [float(word) for word in line["leaf_value"].split()]
        if line["is_linear"] == "0":
            found.append([(each, each, {}) for each in value])
            continue
        ends = np.cumsum([0, *map(int, line["num_features"].split())])
        feature, slope = line["leaf_features"].split(), line["leaf_coeff"].split()
        terms = [dict(zip(map(int, feature[a:b]), map(float, slope[a:b]), strict=True)) for a, b in pairwise(ends)]
        found.append(list(zip(value, map(float, line["leaf_const"].split()), terms, strict=True)))
    return found


def by_hand(model, X):
    """Return the raw output of rows by brute force: the leaves are the library's, the lines those of the text."""
    leaves, found = model.predict(X, pred_leaf=True).reshape(len(X), -1), lines_in(model)
    raw = np.zeros((len(X), model.num_model_per_iteration()))
    for i, x in enumerate(codes(X)):
        for tree, leaf in enumerate(leaves[i]):
            value, constant, slopes = found[tree][leaf]
            missing = any(np.isnan(x[k]) for k in slopes)
            raw[i, tree % raw.shape[1]] += value if missing else constant + sum(b * x[k] for k, b in slopes.items())
    return raw


# --- the output ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VARIANTS)
def test_output_is_that_of_the_library_and_of_the_definition(name, fresh):
    model, X = trained(name), fresh[0]
    ensemble, rows = debias.plugin.extract(model), codes(fresh[0])
    assert ensemble.has_lines
    assert any(slopes for tree in lines_in(model) for *_, slopes in tree)
    ours = raw_output(ensemble, route(ensemble, rows), rows)
    library = model.predict(X, raw_score=True).reshape(len(X), -1)
    np.testing.assert_allclose(ours, library, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(by_hand(model, X), library, rtol=1e-12, atol=1e-12)
    assert np.abs(ours - raw_output(replace(ensemble, **NO_LINES), route(ensemble, rows))).max() > 0.01


@pytest.mark.parametrize("seed", range(40))
def test_leaves_and_outputs_of_drawn_models_are_those_of_the_library(seed):
    """Forty models of drawn settings: rows at thresholds, huge and missing values, labels, and trees of one leaf."""
    rng = np.random.default_rng(seed)
    name = list(VARIANTS)[seed % len(VARIANTS)]
    settings = {
        "num_leaves": int(rng.choice([2, 4, 9, 40])),
        "min_data_in_leaf": int(rng.choice([2, 20, 150, 300])),  # of 400 rows: some trees have one leaf
        "linear_lambda": float(rng.choice([0, 0.1, 10])),
        "max_bin": int(rng.choice([4, 63, 255])),
        "learning_rate": float(rng.choice([0.05, 0.3, 1])),
    }
    model, X = trained(name, rounds=int(rng.choice([1, 5, 30])), seed=seed, **settings), draw(seed + 100)[0]
    ensemble = debias.plugin.extract(model)
    of_numbers = ensemble.splits[ensemble.feature[ensemble.splits] < 4]
    thresholds = ensemble.threshold[of_numbers]
    # The library reads values within 1e-35 of 0 as 0, and lines overflow at its largest threshold.
    thresholds = thresholds[(np.abs(thresholds) > 1e-30) & (np.abs(thresholds) < 1e300)]
    if thresholds.size:
        X.loc[:40, list("abcd")] = rng.choice(thresholds, (41, 4))
    X.loc[41:50, list("abcd")] = rng.choice([1e6, -1e6, 0.0, np.nan], (10, 4))
    rows = codes(X)
    leaves = route(ensemble, rows)
    library = model.predict(X, pred_leaf=True).reshape(len(X), -1)
    for tree in range(ensemble.n_trees):  # the same rows are together in a leaf
        pairs = np.unique(np.column_stack([leaves[:, tree], library[:, tree]]), axis=0)
        assert len(pairs) == len(np.unique(pairs[:, 0])) == len(np.unique(pairs[:, 1]))
    raw = model.predict(X, raw_score=True).reshape(len(X), -1)
    np.testing.assert_allclose(raw_output(ensemble, leaves, rows), raw, rtol=1e-11, atol=1e-9)


NO_LINES = dict.fromkeys(("line_start", "line_feature", "line_slope", "line_offset"))


def test_lines_use_only_features_that_split_on_the_way_to_their_leaf():
    """LightGBM grows them so: a feature without splits has no slopes either, and is rightly said to be unused."""
    ensemble = debias.plugin.extract(trained("many rounds", rounds=20))
    for tree in range(ensemble.n_trees):
        begin = ensemble.tree_start[tree]
        for leaf in np.flatnonzero(ensemble.tree(tree).left < 0):
            node, on_the_way = leaf, set()
            while (node := ensemble.tree(tree).parent[node]) >= 0:
                on_the_way.add(int(ensemble.tree(tree).feature[node]))
            at = slice(*ensemble.line_start[[begin + leaf, begin + leaf + 1]])
            assert set(ensemble.line_feature[at].tolist()) <= on_the_way


def test_lines_do_not_use_categories():
    ensemble = debias.plugin.extract(trained("many rounds", rounds=20))
    assert (ensemble.category_set >= 0).any()
    assert set(ensemble.line_feature.tolist()) == {0, 1, 2, 3}


def test_a_row_with_a_missing_feature_of_its_line_gets_the_value_of_its_leaf(wrapper, fresh):
    ensemble = debias.plugin.extract(wrapper)
    X = codes(fresh[0])[:50]
    X[:, :4] = np.nan
    leaves = route(ensemble, X)
    plain = raw_output(replace(ensemble, **NO_LINES), leaves)
    first = np.diff(ensemble.line_start)[leaves + ensemble.tree_start[:-1]] > 0
    assert first.any(axis=1).all()
    np.testing.assert_allclose(raw_output(ensemble, leaves, X), plain, rtol=1e-12)


def test_infinite_and_huge_values_predict_what_the_library_predicts(wrapper, fresh):
    X, y = fresh
    X = X.copy()
    X.loc[:5, "a"] = [np.inf, -np.inf, 1e300, -1e300, np.inf, 0]
    X.loc[4, "b"] = -np.inf
    ensemble, rows = debias.plugin.extract(wrapper), codes(X)
    library = wrapper.predict(X, raw_score=True)
    assert np.isinf(library).any()
    np.testing.assert_allclose(raw_output(ensemble, route(ensemble, rows), rows)[:, 0], library, rtol=1e-12)
    X.loc[2:3, "a"] = 0
    audit = debias.audit(wrapper, X, y)
    assert audit.performance.value is None
    assert "not finite" in audit.performance.untold_because


def test_a_gap_in_one_row_is_seen_beside_a_row_with_a_huge_output(wrapper, fresh):
    ensemble = debias.plugin.extract(wrapper)
    expected = np.array([[np.inf], [1e300], [1.0], [np.nan]])
    assert (gaps(ensemble, expected, expected) == 0).all()
    for row, wrong in ((0, -np.inf), (0, 1.0), (1, 1.001e300), (2, 1.001), (3, 1.0), (2, np.nan)):
        output = expected.copy()
        output[row] = wrong
        assert gaps(ensemble, output, expected)[row] > 1


def test_lines_that_were_read_wrongly_are_found(wrapper, fresh, monkeypatch):
    from debias_adapters.lightgbm import hooks

    read = hooks.line_arrays
    monkeypatch.setattr(
        hooks, "line_arrays", lambda trees: read(trees) | {"line_slope": 1.01 * read(trees)["line_slope"]}
    )
    with pytest.raises(ExtractionError, match="predict otherwise than the library"):
        debias.score(wrapper, *fresh)


def test_the_adapter_keeps_its_contract(wrapper):
    X, y = draw()
    assert {"debias_leaves", "debias_predict_raw", "debias_predict_native"} <= set(check_adapter(wrapper, X, y))


# --- the scores ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mdi_oob", "oob_split", "ufi", "mdi"])
def test_scores_are_those_of_the_definition_with_the_values_of_leaves(name):
    (X, y), (X_train, y_train) = (draw(seed, n=60) for seed in (1, 0))
    X, X_train = X[list("abcd")], X_train[list("abcd")]
    data = lightgbm.Dataset(X_train, y_train)
    model = lightgbm.train(SETTINGS | {"min_data_in_leaf": 5}, data, 6)
    train = (X_train, y_train)
    form = oracle.lightgbm_model(model)
    seen = oracle.see_boosted(form, X.to_numpy(), y, train=(X_train.to_numpy(), y_train))
    expected = oracle.score(name, seen, 4, averaged=False, **({"criterion": "variance"} if name == "mdi" else {}))
    found = debias.score(model, X, y, name, train=train, rows="held-out")
    np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-12)
    assert found.warnings[0] == LINES


def test_the_librarys_own_importances_are_reported(wrapper, fresh):
    booster = wrapper.booster_
    assert (debias.score(wrapper, *fresh, "native").values == wrapper.feature_importances_).all()
    assert (debias.score(wrapper, scorer="split_count").values == booster.feature_importance("split")).all()
    np.testing.assert_allclose(
        debias.score(wrapper, scorer="gain").values, booster.feature_importance("gain"), rtol=1e-5
    )
    assert debias.score(wrapper, scorer="gain").warnings[0] == LINES


def test_contributions_add_up_to_the_scores(wrapper, fresh):
    phi = debias.contributions(wrapper, *fresh)
    np.testing.assert_allclose(phi.sum(), debias.score(wrapper, *fresh).values, rtol=1e-9, atol=1e-12)


def test_batches_and_node_sums_score_as_rows_in_memory(wrapper, fresh):
    X, y = fresh
    whole = debias.score(wrapper, X, y).values
    parts = [slice(0, 150), slice(150, None)]
    batches = debias.audit(wrapper, ((X[part], y[part]) for part in parts), test=None)
    np.testing.assert_allclose(batches.tested_scores.values, whole, rtol=1e-9, atol=1e-12)
    assert list(batches.scores) == ["mdi_oob"]
    assert batches.performance.value is None
    sums = debias.NodeSums(wrapper)
    for part in parts:
        sums.update(X[part], y[part])
    np.testing.assert_allclose(debias.score(wrapper, sums).values, whole, rtol=1e-9, atol=1e-12)
    assert LINES in sums.notes.texts


def test_a_file_and_the_model_in_memory_have_the_same_scores(wrapper, fresh, tmp_path):
    wrapper.booster_.save_model(tmp_path / "model.txt")
    loaded = debias.load_model(tmp_path / "model.txt")
    assert (debias.score(loaded, *fresh).values == debias.score(wrapper, *fresh).values).all()


# --- an audit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["squared", "binary", "classes"])
def test_the_performance_is_that_of_the_model(name, fresh):
    X, latent = fresh
    model, y = trained(name), response(name, latent)
    performance = debias.audit(model, X, y, test=None, rows="held-out").performance
    predicted = model.predict(X)
    expected = r2_score(y, predicted) if name == "squared" else log_loss(y, predicted)
    assert performance.value == pytest.approx(expected, rel=1e-9)


def test_an_audit_begins_with_what_it_does_not_see(wrapper, fresh):
    audit = debias.audit(wrapper, *fresh, train=draw(), random_state=0)
    assert audit.summary()[0] == f"T{LINES[1:]}."
    assert audit.warnings[0] == LINES
    assert list(audit.scores) == ["mdi_oob", "honest_effects"]  # oob_loss is left out
    assert audit.to_frame().loc[["a", "b"], "verdict"].tolist() == ["informative"] * 2
    assert audit.reported_unseen is None
    assert audit.provenance["status"] != "unproven"


def test_training_rows_are_recognised(wrapper):
    X, y = draw()
    with pytest.raises(debias.ProvenanceError, match="training rows"):
        debias.score(wrapper, X[::-1], y[::-1])


def test_gains_on_unseen_rows_are_not_told(fresh):
    X, y = draw()
    model = lightgbm.LGBMRegressor(n_estimators=5, linear_tree=True, importance_type="gain", n_jobs=1, verbose=-1)
    audit = debias.audit(model.fit(X, y), *fresh, test=None, rows="held-out")
    assert audit.reported_unseen is None
    assert "leaves have lines" in audit.no_unseen_because


def test_partial_dependence_is_the_mean_prediction(wrapper, fresh):
    X, _ = fresh
    curve = debias.partial_dependence(wrapper, X, ["a"], max_rows=len(X)).to_frame()
    assert len(curve) > 10
    assert np.isnan(curve["value"].iloc[-1])
    for at, mean in curve[["value", "prediction"]].to_numpy()[::10].tolist():
        assert mean == pytest.approx(wrapper.predict(X.assign(a=at)).mean(), rel=1e-9)


def test_a_pipeline_is_read_as_its_model(fresh):
    columns, (X, y) = list("abcd"), draw()
    settings = {"n_estimators": 5, "num_leaves": 6, "linear_tree": True, "n_jobs": 1, "verbose": -1}
    model = make_pipeline(StandardScaler().set_output(transform="pandas"), lightgbm.LGBMRegressor(**settings))
    model.fit(X[columns], y)
    held = fresh[0][columns]
    audit = debias.audit(model, held, fresh[1], test=None, rows="held-out")
    assert audit.performance.value == pytest.approx(r2_score(fresh[1], model.predict(held)), rel=1e-9)
    assert audit.tested_scores.warnings[0] == LINES
    curve = debias.partial_dependence(model, held, ["a"], max_rows=len(held)).to_frame()
    at, mean = curve[["value", "prediction"]].to_numpy()[3].tolist()
    assert mean == pytest.approx(model.predict(held.assign(a=at)).mean(), rel=1e-9)


@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "r2"])
def test_permutation_is_that_of_scikit_learn(wrapper, fresh, scoring):
    X, y = fresh
    theirs = permutation_importance(wrapper, X, y, scoring=scoring, n_repeats=3, random_state=4)
    ours = debias.score(wrapper, X, y, "permutation", metric=scoring, n_repeats=3, random_state=4)
    np.testing.assert_allclose(ours.values, theirs.importances_mean, rtol=1e-9, atol=1e-12)
    assert ours.details["baseline"] == pytest.approx(
        r2_score(y, wrapper.predict(X)) if scoring == "r2" else -np.mean((y - wrapper.predict(X)) ** 2), rel=1e-9
    )
    assert LINES not in ours.warnings


def test_permutation_of_classes_is_that_of_scikit_learn():
    X, latent = draw()
    settings = {"n_estimators": 4, "num_leaves": 6, "n_jobs": 1, "verbose": -1}
    model = lightgbm.LGBMClassifier(**settings, linear_tree=True).fit(X, response("classes", latent))
    held, y = draw(1)
    y = response("classes", y)
    theirs = permutation_importance(model, held, y, scoring="neg_log_loss", n_repeats=2, random_state=0)
    ours = debias.score(
        model, held, y, "permutation", metric="neg_log_loss", n_repeats=2, random_state=0, rows="held-out"
    )
    np.testing.assert_allclose(ours.values, theirs.importances_mean, rtol=1e-9, atol=1e-12)


def test_columns_that_are_permuted_together_predict_with_their_lines(wrapper, fresh):
    X, y = fresh
    options = {"metric": "neg_mean_squared_error", "n_repeats": 1, "random_state": 0, "together": {"ab": ["a", "b"]}}
    found = debias.score(wrapper, X, y, "permutation", **options)
    generator = np.random.RandomState(np.random.RandomState(0).randint(np.iinfo(np.int32).max + 1))
    order = np.arange(len(y))
    generator.shuffle(order)
    changed = X.copy()
    changed[["a", "b"]] = X[["a", "b"]].to_numpy()[order]
    saved = (y - wrapper.predict(changed)) ** 2 - (y - wrapper.predict(X)) ** 2
    assert found.details["together"]["ab"] == pytest.approx(saved.mean(), rel=1e-9)
    tested = debias.score(wrapper, X, y, "permutation", **options, p_values=True)
    assert tested.z[0] == pytest.approx(ttest_1samp(saved, 0).statistic, rel=1e-9)  # its p-value has fewer degrees


# --- what is refused -------------------------------------------------------------------------------------


def test_scorers_of_trees_either_say_how_they_treat_lines_or_are_refused_by_name(wrapper, fresh):
    of_trees = {name: each for name, each in offered_scorers().items() if isinstance(each, TreeScorer)}
    assert {name for name, each in of_trees.items() if each.lines == "left out"} == LEFT_OUT
    assert {name for name, each in of_trees.items() if each.lines == "used"} == {"permutation"}
    refused = {name for name, each in of_trees.items() if each.lines == "refused"}
    assert len(refused) > 5
    for name in refused:
        with pytest.raises(CompositionError, match=rf"{name} is about leaves that are constant.*\(linear_tree\)"):
            debias.score(wrapper, *fresh, name)
        with pytest.raises(CompositionError, match=rf"{name} is about leaves that are constant"):
            debias.audit(wrapper, *fresh, [name], test=None)


def test_meta_methods_are_refused(wrapper, fresh):
    with pytest.raises(CompositionError, match=r"response_permutation\(mdi_oob\) is about leaves that are constant"):
        debias.score(wrapper, *fresh, "response_permutation(mdi_oob)")
    with pytest.raises(CompositionError, match="is about leaves that are constant"):
        debias.audit(wrapper, *fresh, ["response_permutation(mdi_oob)"])
    assert isinstance(debias.plugin.scorer("response_permutation(mdi_oob)"), RefitScorer)


@pytest.mark.parametrize(
    "ask",
    {
        "compare": lambda model, X, y: debias.compare(model, X, y),
        "compare two": lambda model, X, y: debias.compare(model, X, y, baseline=model, rows="held-out"),
        "compare pairs": lambda model, X, y: debias.compare(model, X, y, of="pairs"),
        "interactions": debias.interactions,
        "droppable": lambda model, X, y: debias.droppable(model, X, y, train=draw()),
        "clusters": lambda model, X, y: debias.clusters(model, X, y),
        "running loss": lambda model, X, y: debias.NodeSums(model, running_loss=True),
    }.items(),
    ids=lambda each: each[0],
)
def test_other_questions_are_refused_by_name(wrapper, fresh, ask):
    with pytest.raises(debias.UnsupportedModelError, match=r"LGBMRegressor has lines in its leaves \(linear_tree\)"):
        ask[1](wrapper, *fresh)


def test_histories_are_refused(wrapper, tmp_path):
    with pytest.raises(debias.UnsupportedModelError, match="has lines in its leaves"):
        debias.History(wrapper, tmp_path / "history.parquet")
    assert not list(tmp_path.iterdir())


@needs("lightgbm", "4.5", "lightgbm.cv fails with numpy 2")
def test_folds_are_refused():
    X, y = draw()
    cv = list(KFold(3).split(X))
    results = lightgbm.cv(SETTINGS, lightgbm.Dataset(X, y), 3, folds=cv, return_cvbooster=True)
    with pytest.raises(debias.UnsupportedModelError, match="has lines in its leaves"):
        debias.audit_folds(results, X, y, cv=cv)


def test_forests_of_lines_are_refused(fresh):
    model = trained(boosting="rf", bagging_freq=1, bagging_fraction=0.5)
    with pytest.raises(debias.UnsupportedModelError, match=r"is a forest .* \(linear_tree\), so its output"):
        debias.score(model, *fresh)


def test_a_loss_without_lines_is_not_run(wrapper, fresh):
    """Whoever builds rows without the gate of the scorers gets no loss either."""
    from debias.api.prepared import prepared_members
    from debias.rows.request import Request

    (prepared,) = prepared_members(Request.of(wrapper, *fresh, takes_lines=True), [])
    assert not prepared.rows.can_run_loss
    with pytest.raises(CompositionError, match="have lines, so its loss is not that of the values of leaves"):
        _ = prepared.rows.running_loss
    ensemble, X = prepared.ensemble, codes(fresh[0])
    with pytest.raises(ExtractionError, match="needs the rows and not only leaves"):
        raw_output(ensemble, route(ensemble, X))


def test_a_refit_is_a_model_of_lines_again(wrapper):
    again = debias.refit(wrapper, *draw())
    assert debias.plugin.extract(again).has_lines
    assert trees_digest(debias.plugin.extract(again)) == trees_digest(debias.plugin.extract(wrapper))


# --- arrays and texts ------------------------------------------------------------------------------------


def test_changed_leaves_are_seen_beside_lines():
    model = trained(rounds=20)
    X, y = draw(2)
    refitted = model.refit(codes(X), y + 3)
    assert not were_changed(ModelText.parse(text_in_parts(model), "test"))
    assert were_changed(ModelText.parse(text_in_parts(refitted), "test"))


def test_lines_are_part_of_the_fingerprint(wrapper):
    ensemble = debias.plugin.extract(wrapper)
    digests = {trees_digest(ensemble), trees_digest(replace(ensemble, **NO_LINES))}
    digests.add(trees_digest(replace(ensemble, line_slope=2 * ensemble.line_slope)))
    assert len(digests) == 3
    assert {*NO_LINES} < {field.name for field in fields(ensemble)}


def changes(ensemble):
    n_terms = ensemble.line_feature.size
    start = ensemble.line_start.copy()
    start[1] += 1  # the root
    at_root = np.zeros(ensemble.n_nodes)
    at_root[0] = 1.0
    return {
        "some arrays of lines": {"line_slope": None},
        "does not divide": {"line_start": ensemble.line_start[:-1]},
        "does not divide .* terms": {"line_start": ensemble.line_start + 1},
        "one finite slope": {"line_slope": np.full(n_terms, np.nan)},
        "one finite slope for each term": {"line_slope": np.ones(n_terms + 1)},
        "and finite offsets": {"line_offset": np.full(ensemble.n_nodes, np.inf)},
        "uses a feature that": {"line_feature": np.full(n_terms, 5)},
        "a line in a leaf uses a feature": {"line_feature": np.full(n_terms, -1)},
        "only leaves have lines": {"line_start": np.maximum(start, np.where(np.arange(start.size) > 0, 1, 0))},
        "that splits has a line": {"line_offset": at_root},
        "sums of trees": {"averaged": True},
    }


def test_arrays_that_are_no_lines_are_refused(wrapper):
    ensemble = debias.plugin.extract(wrapper)
    for message, changed in changes(ensemble).items():
        with pytest.raises(ExtractionError, match=message):
            replace(ensemble, **changed)


def edited(text, name, change):
    """Return a text with another value of a line of its second tree, and lengths that fit."""
    head, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    blocks[1] = re.sub(rf"(?m)^{name}=(.*)$", lambda found: change(found[1]), blocks[1], count=1)
    sizes = " ".join(str(len(f"Tree={block}\n".encode())) for block in blocks)
    head = re.sub(r"tree_sizes=.*", f"tree_sizes={sizes}", head)
    return "\nTree=".join([head, *blocks]) + "\nend of trees" + text.partition("\nend of trees")[2]


EDITS = {
    "more features than leaves": ("num_features", lambda was: f"num_features={was} 1"),
    "a negative number": ("num_features", lambda was: f"num_features=-{was}"),
    "a huge number": ("num_features", lambda was: f"num_features=2000000000{was[1:]}"),
    "no number of features": ("num_features", lambda was: ""),
    "no such feature": ("leaf_features", lambda was: f"leaf_features=9{was[1:]}"),
    "a feature below 0": ("leaf_features", lambda was: f"leaf_features=-1{was[1:]}"),
    "one feature less": ("leaf_features", lambda was: f"leaf_features={was[1:]}"),
    "no slopes": ("leaf_coeff", lambda was: "leaf_coeff="),
    "a slope that is no number": ("leaf_coeff", lambda was: f"leaf_coeff=nan {was.split(' ', 1)[1]}"),
    "an infinite constant": ("leaf_const", lambda was: f"leaf_const=inf {was.split(' ', 1)[1]}"),
    "a letter in a slope": ("leaf_coeff", lambda was: f"leaf_coeff={was[:4]}x{was[4:]}"),
    "one constant less": ("leaf_const", lambda was: f"leaf_const={was.split(' ', 1)[1]}"),
    "other kind": ("is_linear", lambda was: "is_linear=2"),
}


@pytest.mark.parametrize("name", EDITS)
def test_damaged_lines_are_refused_before_the_library_reads_them(name, wrapper, tmp_path, monkeypatch):
    text, path = wrapper.booster_.model_to_string(), tmp_path / "model.txt"
    path.write_text(edited(text, *EDITS[name]))
    assert path.read_text() != text
    monkeypatch.setattr(lightgbm, "Booster", None)
    with pytest.raises(debias.UnsupportedModelError, match=re.escape(str(path))):
        debias.load_model(path)


# --- noise -----------------------------------------------------------------------------------------------


def noise_scores(seed, names):
    """Return the scores of two noise features, one of them with few values, beside two that matter by their slopes."""
    rng = np.random.default_rng(seed)

    def rows(n):
        X = np.column_stack([rng.normal(size=(n, 2)), rng.normal(size=n), rng.integers(0, 3, n)])
        return X, 2 * X[:, 0] + np.abs(X[:, 1]) + rng.normal(size=n)

    train, held = rows(150), rows(150)
    model = lightgbm.train(SETTINGS, lightgbm.Dataset(*train), 10)
    scores = [debias.score(model, *held, name, train=train, rows="held-out") for name in names]
    return np.array([each.values for each in scores])


NULL = ["mdi_oob", "ufi", "honest_effects(kind='linear')", "honest_splits", "permutation"]


def z_of_noise(n_sets, names):
    found = np.array([noise_scores(seed, names) for seed in range(n_sets)])
    assert (found[:, 0, :2].mean(axis=0) > 0.02).all()
    noise = found[:, :, 2:]
    assert (noise != 0).any(axis=0).all()
    return noise.mean(axis=0) / (noise.std(axis=0, ddof=1) / np.sqrt(n_sets))


@pytest.mark.thorough
def test_noise_scores_0_on_average():
    assert (np.abs(z_of_noise(25, NULL[:2])) < 3.5).all()


@pytest.mark.slow
def test_noise_scores_0_on_average_over_many_sets():
    assert (np.abs(z_of_noise(200, NULL)) < 3).all()


def test_printed_scores_begin_with_the_lines_they_leave_out():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    y = X[:, 0] + random.normal(size=300) / 4
    booster = lightgbm.LGBMRegressor(n_estimators=3, num_leaves=4, linear_tree=True, verbose=-1, n_jobs=1)
    printed = str(debias.score(booster.fit(X[:150], y[:150]), X[150:], y[150:], rows="held-out"))
    assert " ".join(printed.split()).partition(". ")[0].endswith("The leaves of these trees have lines")
