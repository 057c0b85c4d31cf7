"""One test for a model that is a sum of several models of trees: its definition, and what it must be equal to."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.rows.dependent_columns import dependent, dependent_features, dependent_features_of_members
from debias.significance import residuals
from debias.significance.member_rows import MemberRows, by_response
from support.residuals import residual_by_definition, t_of, uses_by_definition
from support.sums_of_models import DESIGNS, FOLDS, OUT_OF_BAG, noise_p_values, p_values_of_all
from support.without import evaluation_weight, output_without

HELD_OUT = {"rows": "held-out", "random_state": 3}
TEST = debias.Permutation(19, adaptive=False)


def rows(kind="regression", n=300, seed=0):
    """Columns of which the first two matter, the fourth is the first with noise, and the last is noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).round(1)
    X[:, 3] = (X[:, 0] + 0.5 * rng.normal(size=n)).round(1)
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n)
    if kind != "regression":
        y = np.digitize(y, [0.0] if kind == "binary" else [-0.5, 0.5])
    return pd.DataFrame(X, columns=list("abcde")), y


def boosted(kind="regression", seed=0, **settings):
    make = XGBRegressor if kind == "regression" else XGBClassifier
    return make(n_estimators=5, max_depth=3, n_jobs=1, random_state=seed, subsample=0.8, **settings)


def forest(kind="regression", seed=0):
    make = RandomForestRegressor if kind == "regression" else RandomForestClassifier
    return make(4, max_depth=4, random_state=seed)


def vote(members, weights=None, voting="soft"):
    """A vote of fitted members, as scikit-learn makes it."""
    named = [(f"m{k}", member) for k, member in enumerate(members)]
    if not hasattr(members[0], "classes_"):
        made = VotingRegressor(named, weights=weights)
    else:
        from sklearn.preprocessing import LabelEncoder

        made = VotingClassifier(named, voting=voting, weights=weights)
        made.le_ = LabelEncoder().fit(members[0].classes_)
        made.classes_ = made.le_.classes_
    made.estimators_, made.named_estimators_ = list(members), dict(named)
    return made


def stack(members, coefficients):
    """A stack of fitted members with given coefficients."""
    classes = getattr(members[0], "classes_", None)
    made, final = StackingRegressor, LinearRegression()
    if classes is not None:
        made, final = StackingClassifier, LogisticRegression()
    made = made([(f"m{k}", member) for k, member in enumerate(members)], final)
    made.estimators_, made.final_estimator_ = list(members), final
    final.coef_, final.intercept_ = np.array(coefficients), 0.0
    made.stack_method_ = ["predict"] * len(members)
    if classes is not None:
        final.coef_, final.intercept_, final.classes_ = final.coef_[None], np.zeros(1), np.arange(2)
        made.stack_method_, made.classes_ = ["predict_proba"] * len(members), classes
    return made


def scored(model, X, y, **options):
    return debias.audit(model, X, y, **(HELD_OUT | {"test": TEST} | options)).tested_scores


def same_test(one, other, rtol=1e-9):
    for name in ("values", "z", "null", "p_value", "p_adjusted", "standard_error"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=1e-10, err_msg=name)
    assert one.details.get("ranks") == other.details.get("ranks")
    assert one.details.get("rest") == other.details.get("rest")


# --- by the definition -----------------------------------------------------------------------------------


def statistic_by_definition(models, weights, X, y, weight, n_features, kind, orders):
    """The largest of three studentised sums, of the weighted sums of uses and of expected responses of the members.

    `X` has for each model its matrix, and the feature of each of its columns.
    """
    ensembles = [debias.plugin.extract(model) for model in models]
    used = weight > 0
    matrices = [np.asarray(matrix).astype(e.routing_dtype) for e, (matrix, _) in zip(ensembles, X, strict=True)]
    features = [of for _, of in X]
    split_on = [np.unique(e.feature[e.splits]) for e in ensembles]
    # All columns with splits of all models, beside one another.
    beside = np.hstack([m[used][:, s].astype(float) for m, s in zip(matrices, split_on, strict=True)])
    of_beside = np.concatenate([of[s] for of, s in zip(features, split_on, strict=True)])
    pairs = dependent(beside, np.zeros(of_beside.size, dtype=bool), 0.2)
    target = y[:, None].astype(float)
    if kind != "regression":
        target = np.eye(int(y.max()) + 1)[y]
        target = target[:, 1:] if ensembles[0].n_outputs == 1 else target
    z = np.zeros((len(orders), n_features))
    for k in range(n_features):
        depends = pairs[of_beside == k].any(axis=0)
        use, expected, begin = 0.0, 0.0, 0
        for ensemble, matrix, of, splits, share in zip(ensembles, matrices, features, split_on, weights, strict=True):
            theirs = np.flatnonzero(of == k)
            left_out = set(theirs) | set(splits[depends[begin : begin + splits.size]])
            begin += splits.size
            use = use + share * uses_by_definition(ensemble, matrix, weight, tuple(theirs))
            reached = evaluation_weight(ensemble, matrix, weight)
            without = np.array([output_without(ensemble, x, sorted(left_out), reached) for x in matrix])
            if not ensemble.averaged and kind == "binary":
                without = 1 / (1 + np.exp(-without))
            elif not ensemble.averaged and kind != "regression":
                without = np.exp(without) / np.exp(without).sum(axis=1, keepdims=True)
            expected = expected + share * without
        if not np.isin(k, of_beside):
            continue
        of_outputs = zip(target.T, expected.T, strict=True)
        psi = [residual_by_definition(t, without, weight, kind != "regression") for t, without in of_outputs]
        psi, use = np.stack(psi, axis=1)[used], use[:, used]
        use = use - use.mean(axis=1, keepdims=True)
        z[:, k] = [max(t_of((a * psi[order]).sum(axis=1)) for a in use) for order in orders]
    return z


@pytest.mark.parametrize(
    ("kind", "libraries", "coefficients"),
    [
        ("regression", ("forest", "boosted"), None),
        ("binary", ("forest", "forest"), [1.7, -0.4]),
        pytest.param("binary", ("boosted", "boosted"), None, marks=pytest.mark.thorough),
        pytest.param("binary", ("boosted", "boosted"), [0.8, 2.1], marks=pytest.mark.thorough),
        pytest.param("three classes", ("boosted", "boosted"), None, marks=pytest.mark.thorough),
        pytest.param("three classes", ("forest", "forest"), None, marks=pytest.mark.thorough),
    ],
)
def test_z_is_that_of_the_definition(kind, libraries, coefficients, monkeypatch):
    """The members see other columns: a is in the first, and d, which depends on it, is in the second only."""
    monkeypatch.setattr(residuals, "FEW_FOR_SCORES", 0)
    X, y = rows(kind, 180)
    columns = [["a", "b", "e"], ["b", "c", "d", "e"]]
    make = {"forest": forest, "boosted": boosted}
    models = [
        make[name](kind, seed).set_params(n_estimators=2, max_depth=3).fit(X[:120][of].to_numpy(), y[:120])
        for seed, (name, of) in enumerate(zip(libraries, columns, strict=True))
    ]
    members = []
    for of, model in zip(columns, models, strict=True):
        chosen = make_pipeline(ColumnTransformer([("chosen", "passthrough", of)]), clone(model))
        chosen.steps[0] = (chosen.steps[0][0], chosen.steps[0][1].fit(X[:120]))
        chosen.steps[1] = (chosen.steps[1][0], model)
        members.append(chosen)
    fresh, of_fresh = X[120:], y[120:]
    made = vote(members, [3.0, 1.0]) if coefficients is None else stack(members, coefficients)
    weights = [0.75, 0.25] if coefficients is None else coefficients
    sample_weight = np.random.default_rng(0).integers(0, 3, 60).astype(float)
    scores = scored(made, fresh, of_fresh, sample_weight=sample_weight)
    used = sample_weight > 0
    random = np.random.default_rng(np.random.SeedSequence(3))
    orders = [np.arange(used.sum()), *(random.permutation(used.sum()) for _ in range(19))]
    seen = [(fresh[of].to_numpy(), np.array(["abcde".index(name) for name in of])) for of in columns]
    z = statistic_by_definition(models, weights, seen, of_fresh, sample_weight, 5, kind, orders)
    np.testing.assert_allclose(scores.z, z[0], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(scores.null, z[1:], rtol=1e-5, atol=1e-7)
    assert scores.details["test"]["method"] == "residuals"
    parts = [scored(model, fresh, of_fresh, sample_weight=sample_weight, test=None).values for model in members]
    np.testing.assert_allclose(scores.values, weights[0] * parts[0] + weights[1] * parts[1], rtol=1e-12, atol=1e-14)


def test_standard_errors_are_those_of_the_summed_contributions():
    X, y = rows()
    members = [forest().fit(X[:150], y[:150]), boosted().fit(X[:150], y[:150])]
    model, block = vote(members, [1, 2]), np.arange(150) // 3
    phi = debias.contributions(model, X[150:], y[150:], rows="held-out").to_numpy()
    for blocks, of_units in ((None, phi), (block, phi.reshape(50, 3, -1).sum(axis=1))):
        scores = scored(model, debias.Dataset(X[150:], y[150:], blocks=blocks), None)
        expected = np.sqrt(len(of_units)) * of_units.std(axis=0, ddof=1)
        # Deviations from node means are a little too small, and the test enlarges them.
        np.testing.assert_allclose(scores.standard_error, expected, rtol=0.15)
        assert (scores.standard_error >= expected * (1 - 1e-12)).all()


# --- identities ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [forest, boosted])
@pytest.mark.parametrize("kind", ["regression", "binary", "three classes"])
def test_a_vote_of_copies_is_the_model(make, kind):
    X, y = rows(kind)
    model = make(kind).fit(X[:150], y[:150])
    for copies, weights in ((2, None), (3, [1, 5, 2])):
        same_test(scored(vote([model] * copies, weights), X[150:], y[150:]), scored(model, X[150:], y[150:]))


def test_a_forest_is_the_vote_of_its_parts():
    X, y = rows()
    whole = RandomForestRegressor(6, max_depth=4, random_state=0).fit(X[:150], y[:150])
    parts = parts_of(whole, X[:150], y[:150], (4, 2))
    same_test(scored(vote(parts, [4, 2]), X[150:], y[150:]), scored(whole, X[150:], y[150:]))


def test_a_member_of_weight_0_changes_nothing():
    """Nor do its columns: d depends on a, and only the member of weight 0 sees it."""
    X, y = rows()
    first = [make_pipeline(ColumnTransformer([("c", "passthrough", list("abc"))]), make()).fit(X[:150], y[:150])
             for make in (forest, boosted)]  # fmt: skip
    other = boosted(seed=1).fit(X[:150], y[:150])
    with_other, without = (
        scored(vote(members, weights), X[150:], y[150:])
        for members, weights in (([*first, other], [1, 2, 0]), (first, [1, 2]))
    )
    same_test(with_other, without)


def test_the_order_of_members_changes_nothing():
    X, y = rows()
    members = [forest().fit(X[:150], y[:150]), boosted().fit(X[:150], y[:150]), forest(seed=1).fit(X[:150], y[:150])]
    one = scored(vote(members, [1, 2, 3]), X[150:], y[150:])
    same_test(scored(vote(members[::-1], [3, 2, 1]), X[150:], y[150:]), one)


def test_a_stack_with_the_coefficients_of_a_vote_is_the_vote_and_a_scale_changes_no_z():
    X, y = rows()
    members = [forest().fit(X[:150], y[:150]), boosted().fit(X[:150], y[:150])]
    of_vote = scored(vote(members, [1, 3]), X[150:], y[150:])
    same_test(scored(stack(members, [0.25, 0.75]), X[150:], y[150:]), of_vote)
    tripled = scored(stack(members, [0.75, 2.25]), X[150:], y[150:])
    np.testing.assert_allclose(tripled.z, of_vote.z, rtol=1e-9)
    np.testing.assert_allclose(tripled.standard_error, 3 * of_vote.standard_error, rtol=1e-9)


def test_members_that_cancel_have_no_effect_and_a_negative_one_turns_it_around():
    X, y = rows()
    model = forest().fit(X[:150], y[:150])
    cancelled = scored(stack([model, model], [0.5, -0.5]), X[150:], y[150:])
    assert (cancelled.p_value == 1).all()
    assert not cancelled.selected.any()
    turned = scored(stack([model, model], [-0.25, -0.75]), X[150:], y[150:])
    assert turned.z[0] < 0 < scored(model, X[150:], y[150:]).z[0]  # it predicts the opposite


def test_one_member_with_a_coefficient_has_the_z_of_the_member():
    X, y = rows()
    model = forest().fit(X[:150], y[:150])
    one, alone = scored(stack([model], [0.4]), X[150:], y[150:]), scored(model, X[150:], y[150:])
    np.testing.assert_allclose(one.z, alone.z, rtol=1e-9)
    np.testing.assert_allclose(one.p_adjusted, alone.p_adjusted)
    np.testing.assert_allclose(one.values, 0.4 * alone.values)


@pytest.mark.thorough
@pytest.mark.parametrize("make", [forest, boosted])
def test_a_stack_of_classes_is_what_stacks_and_votes_are(make):
    """One member, copies, the weights of a vote, another order, weight 0, and members that cancel."""
    X, y = rows("binary")
    fresh = X[150:], y[150:]
    one, other = (make("binary", seed).fit(X[:150], y[:150]) for seed in (0, 1))
    alone, of_one = scored(one, *fresh), scored(stack([one], [3.5]), *fresh)
    for name in ("z", "null", "p_value", "p_adjusted"):
        np.testing.assert_allclose(getattr(of_one, name), getattr(alone, name), rtol=1e-9, atol=1e-10)
    for name in ("values", "standard_error"):
        np.testing.assert_allclose(getattr(of_one, name), 3.5 * getattr(alone, name), rtol=1e-9, atol=1e-12)
    same_test(scored(stack([one, one], [1.5, 2.0]), *fresh), of_one)
    both = scored(stack([one, other], [0.25, 0.75]), *fresh)
    same_test(both, scored(vote([one, other], [1, 3]), *fresh))
    same_test(scored(stack([other, one], [0.75, 0.25]), *fresh), both)
    same_test(scored(stack([one, other, one], [0.25, 0.75, 0.0]), *fresh), both)
    assert (scored(stack([one, one], [2.0, -2.0]), *fresh).p_value == 1).all()
    turned = scored(stack([one], [-2.0]), *fresh)
    assert turned.z[0] < 0 < alone.z[0]


def test_models_of_several_responses_are_the_outputs_of_one():
    """XGBoost trains one model for each response, inside of its own model too."""
    X, y = rows()
    both = np.column_stack([y, X["b"] - 0.5 * y + np.random.default_rng(5).normal(size=len(y))])
    model = XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1, base_score=0.5)
    several = MultiOutputRegressor(model).fit(X[:150], both[:150])
    one = clone(model).fit(X[:150], both[:150])
    np.testing.assert_allclose(several.predict(X), one.predict(X), rtol=1e-4, atol=1e-5)
    same_test(scored(several, X[150:], both[150:]), scored(one, X[150:], both[150:]), rtol=1e-4)


def test_scores_have_the_test_of_the_audit():
    X, y = rows()
    model = vote([forest().fit(X[:150], y[:150]), boosted().fit(X[:150], y[:150])])
    scores = debias.score(model, X[150:], y[150:], test=TEST, **HELD_OUT)
    np.testing.assert_array_equal(scores.p_adjusted, scored(model, X[150:], y[150:]).p_adjusted)
    assert "rest" not in scores.details


def test_the_same_seed_gives_the_same_bits_with_any_number_of_threads():
    X, y = rows()
    members = [forest().fit(X[:150], y[:150]), boosted().fit(X[:150], y[:150])]
    one, two = (debias.audit(vote(members), X[150:], y[150:], n_jobs=n, **HELD_OUT).tested_scores for n in (1, 2))
    for name in ("values", "z", "null", "p_adjusted", "standard_error"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    other = debias.audit(vote(members), X[150:], y[150:], rows="held-out", random_state=4).tested_scores
    assert not np.array_equal(one.null, other.null)


# --- tests of scores ---------------------------------------------------------------------------------------


def parts_of(whole, X, y, sizes):
    """Forests of the first trees of a forest, the next ones, and so on."""
    parts, begin = [], 0
    for size in sizes:
        part = clone(whole).set_params(n_estimators=size).fit(X, y)
        part.estimators_ = whole.estimators_[begin : begin + size]
        parts.append(part)
        begin += size
    return parts


@pytest.mark.thorough
@pytest.mark.parametrize("blocks", [None, np.arange(150) // 3])
def test_the_null_distribution_of_scores_is_made_of_the_contributions_to_the_sum(blocks):
    X, y = rows()
    model = vote([boosted(seed=k).fit(X[:150], y[:150]) for k in (0, 1)], [1, 2])
    fresh, of_fresh = X[150:], y[150:]
    given = {"test": debias.Permutation(19, adaptive=False, of="response")}
    scores = scored(model, debias.Dataset(fresh, of_fresh, blocks=blocks), None, **given)
    random, units = np.random.default_rng(np.random.SeedSequence(3)), np.arange(150).reshape(50, 3)
    units = np.arange(150)[:, None] if blocks is None else units
    orders = [np.arange(150), *(units[random.permutation(len(units))].ravel() for _ in range(19))]
    z = []
    for order in orders:
        phi = debias.contributions(model, fresh, of_fresh[order], rows="held-out").to_numpy()
        phi = phi.reshape(len(units), -1, 5).sum(axis=1)
        z.append(phi.sum(axis=0) / (np.sqrt(len(phi)) * phi.std(axis=0, ddof=1)))
    np.testing.assert_allclose(scores.z, z[0], rtol=1e-6)
    np.testing.assert_allclose(scores.null, z[1:], rtol=1e-6, atol=1e-9)
    by_t = scored(model, debias.Dataset(fresh, of_fresh, blocks=blocks), None, test="naive")
    # Deviations from node means are a little too small, and Student's t takes enlarged ones.
    assert (np.abs(by_t.z) <= np.abs(z[0]) * (1 + 1e-9)).all()
    np.testing.assert_allclose(by_t.z, z[0], rtol=0.15)


@pytest.mark.parametrize("make", [forest, boosted])
@pytest.mark.parametrize("kind", ["regression", "binary", "three classes"])
@pytest.mark.parametrize("test", ["permutation", "naive"])
def test_scores_of_a_vote_of_copies_have_the_test_of_the_model(make, kind, test):
    X, y = rows(kind)
    model, fresh = make(kind).fit(X[:150], y[:150]), (X[150:], y[150:])
    alone = scored(model, *fresh, test=test)
    of_copies = scored(vote([model] * 3, [1, 5, 2]), *fresh, test=test)
    names = ("values", "z", "p_value", "p_adjusted", "standard_error", *(["null"] if test == "permutation" else []))
    for name in names:
        np.testing.assert_allclose(getattr(of_copies, name), getattr(alone, name), rtol=1e-9, atol=1e-10, err_msg=name)
    assert of_copies.details["rest"]["p_value"] == pytest.approx(alone.details["rest"]["p_value"])


@pytest.mark.parametrize("kind", ["regression", "binary", "three classes", "balanced", "skewed"])
def test_a_forest_is_the_vote_of_its_parts_out_of_bag(kind):
    """All trees must have rows out of bag for this: the mean over trees is one over those that have some."""
    X, y = rows("binary" if kind == "balanced" else "regression" if kind == "skewed" else kind)
    y = np.exp(3 * y) if kind == "skewed" else y
    make = RandomForestRegressor if kind in ("regression", "skewed") else RandomForestClassifier
    settings = {"class_weight": "balanced"} if kind == "balanced" else {}
    whole = make(10, max_depth=4, random_state=0, **settings).fit(X, y)
    parts = parts_of(whole, X, y, (7, 3))
    given = {"rows": "oob", "test": debias.Permutation(19, adaptive=False), "dependence": False}
    of_whole, of_parts = scored(whole, X, y, **given), scored(vote(parts, [7, 3]), X, y, **given)
    same_test(of_parts, of_whole)
    assert ("response" in of_whole.details["test"]) == (kind == "skewed")
    assert of_parts.details["test"].get("response") == of_whole.details["test"].get("response")


def test_standard_errors_out_of_bag_are_those_of_blocks():
    X, y = rows()
    block = np.arange(300) // 2
    whole = RandomForestRegressor(10, max_depth=4, random_state=0).fit(X, y)
    data = debias.Dataset(X, y, blocks=block)
    given = {"rows": "oob", "test": "conservative", "dependence": False}
    same = ("values", "z", "p_adjusted", "standard_error")
    of_whole = scored(whole, data, None, **given)
    of_parts = scored(vote(parts_of(whole, X, y, (6, 4)), [6, 4]), data, None, **given)
    for name in same:
        np.testing.assert_allclose(getattr(of_parts, name), getattr(of_whole, name), rtol=1e-9, atol=1e-12)


@pytest.mark.thorough
def test_folds_of_votes_of_copies_are_folds_of_the_model():
    X, y = rows()
    splits = list(KFold(5).split(X))
    models = [boosted().fit(X.iloc[train], y[train]) for train, _ in splits]
    votes = [vote([model] * 2, [1, 2]) for model in models]
    one, other = (debias.audit_folds(each, X, y, cv=splits, random_state=0) for each in (models, votes))
    np.testing.assert_allclose(other.p_adjusted, one.p_adjusted)
    np.testing.assert_allclose(other.z, one.z, rtol=1e-9)
    np.testing.assert_allclose(other.standard_error, one.standard_error, rtol=1e-9)


# --- the parts -------------------------------------------------------------------------------------------


def seen_by(columns, X):
    """A stand-in for rows: the matrix of some columns, all of which have splits."""
    matrix = X[:, columns]
    ensemble = SimpleNamespace(
        feature=np.arange(len(columns)), splits=np.arange(len(columns)), category_set=None, n_features=len(columns)
    )
    return SimpleNamespace(ensemble=ensemble, table=SimpleNamespace(matrix=lambda _: matrix))


def test_columns_that_depend_on_a_feature_are_found_in_every_member():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 2] = X[:, 0] + 0.3 * rng.normal(size=300)
    members = [(seen_by([0, 1], X), np.array([0, 1])), (seen_by([3, 2], X), np.array([3, 2]))]
    first, second = dependent_features_of_members(members, np.arange(4), 0.2)
    assert [first[k].tolist() for k in range(4)] == [[True, False], [False, True], [True, False], [False, False]]
    assert [second[k].tolist() for k in range(4)] == [[False, True], [False, False], [False, True], [True, False]]


def test_one_member_has_the_dependent_columns_of_a_model():
    X, y = rows()
    model, caught = forest().fit(X[:150], y[:150]), []

    @debias.plugin.scorer_plugin("caught", unit="none")
    def caught_rows(ensemble, rows):
        caught.append(rows)
        return np.zeros(ensemble.n_features)

    debias.score(model, X[150:], y[150:], caught_rows, rows="held-out")
    used = np.unique(caught[0].ensemble.feature[caught[0].ensemble.splits])
    alone = dependent_features(caught[0], np.arange(5), used, 0.2)
    for masks in dependent_features_of_members([(caught[0], np.arange(5))] * 2, used, 0.2):
        assert all(np.array_equal(masks[k], alone[k]) for k in alone)


def test_members_with_one_response_are_together():
    def member(values):
        response = SimpleNamespace(values=np.array(values)[:, None], codes=None)
        return MemberRows(SimpleNamespace(response=response), np.arange(1))

    a, shifted, other = member([1.0, 2, 4]), member([0.0, 1, 3]), member([1.0, 2, 3])
    assert by_response([a, other, shifted]) == [[a, shifted], [other]]


# --- the level -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", DESIGNS)
def test_noise_keeps_its_level_beside_effects(name):
    """docs/significance.md has the rates of these sets."""
    keeps_its_level([noise_p_values(name, seed) for seed in range(1, 201)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::debias.DebiasWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", [*OUT_OF_BAG, *FOLDS])
def test_noise_keeps_its_level_out_of_bag_and_in_folds(name):
    """docs/significance.md has the rates of 60 to 200 sets."""
    found = []
    for seed in range(1, 61):
        p_value, p_adjusted, noise = p_values_of_all(name, seed)
        found.append((p_value[noise], p_adjusted[noise]))
    keeps_its_level(found)


def keeps_its_level(found):
    """Check p-values of noise, and adjusted ones, of several data sets."""
    single = np.array([p_value <= 0.05 for p_value, _ in found])
    together = np.array([(p_adjusted <= 0.05).any() for _, p_adjusted in found])
    error = single.mean(axis=1).std(ddof=1) / np.sqrt(len(found))
    assert single.mean() <= 0.05 + 4 * error
    assert together.mean() <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / len(found))
    assert single.any()  # a test that finds no noise at all would have no power
