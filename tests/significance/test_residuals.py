"""The test of residuals against its definition: uses leaf by leaf, regression, clipping, z, step-down max-z."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRanker, XGBRegressor

import debias
from debias.api.prepared import prepared_members
from debias.data.groups import Grouping
from debias.rows import without
from debias.rows.classes import class_codes, is_of_classes
from debias.rows.dependent_columns import dependent
from debias.rows.request import Request
from debias.rows.without import child_shares, effects, outputs_without
from debias.significance import residuals
from debias.significance.member_rows import MemberRows
from debias.significance.residuals import ResidualStatistic
from support.residuals import expected_by_definition, residual_by_definition, t_of, uses_by_definition
from support.without import CASES, drawn, evaluation_weight, fitted

HELD_OUT = {"rows": "held-out", "random_state": 0}
IN_SHORT = (("sklearn", "three classes"), ("xgboost", "regression"))
"""The cases of :data:`CASES` that the default tests compute by the definition, which takes a second for each."""


@pytest.mark.parametrize(
    ("library", "kind"),
    [pytest.param(*case, marks=[pytest.mark.thorough] * (case not in IN_SHORT)) for case in CASES],
)
def test_z_and_p_values_are_those_of_the_definition(models, library, kind, monkeypatch):
    monkeypatch.setattr(residuals, "FEW_FOR_SCORES", 0)
    model, X, y = fitted(models, library, kind)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    X[:, 4] = 0.5 * X[:, 4] + np.nan_to_num(X[:, 3])  # two columns that depend on one another
    ensemble = debias.plugin.extract(model)
    rows, used = X.astype(ensemble.routing_dtype), weight > 0
    target = y[:, None].astype(float)
    if kind != "regression":
        target = np.eye(len(model.classes_))[y]
        target = target[:, 1:] if ensemble.n_outputs == 1 else target
    pairs = dependent(rows[used], np.zeros(5, dtype=bool), 0.2)
    assert pairs[3, 4]
    assert not pairs.all()
    test = debias.Permutation(19, adaptive=False)
    scores = debias.score(model, X, y, "mdi_oob", rows="held-out", sample_weight=weight, test=test, random_state=3)
    split_on = np.unique(ensemble.feature[ensemble.splits])
    products = []
    for k in range(5):
        use = uses_by_definition(ensemble, rows, weight, (k,))
        # The sum of steps times the response is the score.
        score = np.average((use[1] * target).sum(axis=1), weights=weight)
        np.testing.assert_allclose(score, scores.values[k], rtol=1e-7, atol=1e-10)
        left_out = np.flatnonzero(pairs[k] & np.isin(np.arange(5), split_on))
        expected = expected_by_definition(ensemble, rows, weight, left_out, kind)
        psi = np.stack([residual_by_definition(y_, e, weight, kind != "regression")
                        for y_, e in zip(target.T, expected.T, strict=True)], axis=1)  # fmt: skip
        use = use[:, used]
        products.append((use - use.mean(axis=1, keepdims=True), psi[used]))
    random = np.random.default_rng(np.random.SeedSequence(3))
    orders = [np.arange(used.sum()), *(random.permutation(used.sum()) for _ in range(19))]
    z = np.array([[max(t_of((a * psi[order]).sum(axis=1)) for a in use) for use, psi in products] for order in orders])
    np.testing.assert_allclose(scores.z, z[0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scores.null, z[1:], rtol=1e-6, atol=1e-9)
    adjusted, largest = np.empty(5), 0.0
    for place, k in enumerate(ranked := np.argsort(-z[0])):
        largest = max(largest, np.mean(z[:, ranked[place:]].max(axis=1) >= z[0, k] - 1e-9))
        adjusted[k] = largest
    np.testing.assert_allclose(scores.p_adjusted, adjusted)
    assert scores.details["test"]["method"] == "residuals"


@pytest.mark.parametrize("kind", ["regression", "three classes"])
def test_of_few_rows_the_score_is_a_further_statistic(models, kind, monkeypatch):
    """In the data and in each permutation, which is the same for both."""
    model, X, y = fitted(models, "sklearn", kind)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)

    def tested(of):
        test = debias.Permutation(19, adaptive=False, of=of)
        return debias.score(model, X, y, "mdi_oob", sample_weight=weight, test=test, **HELD_OUT | {"random_state": 3})

    together, of_scores = tested("residuals"), tested("response")
    monkeypatch.setattr(residuals, "FEW_FOR_SCORES", (weight > 0).sum() - 1)
    alone = tested("residuals")
    np.testing.assert_array_equal(together.z, np.maximum(alone.z, of_scores.z))
    np.testing.assert_array_equal(together.null, np.maximum(alone.null, of_scores.null))
    assert (together.z != alone.z).any()
    assert (together.z != of_scores.z).any()
    assert together.details["test"]["with_scores"] is True
    assert "with_scores" not in alone.details["test"]


def statistic_of(model, X, y, groups=None, **options):
    """The statistic of a model and held-out rows, and its rows."""
    caught = []

    @debias.plugin.scorer_plugin("caught", unit="none")
    def caught_rows(ensemble, rows):
        caught.append(rows)
        return np.zeros(ensemble.n_features)

    debias.score(model, X, y, caught_rows, rows="held-out", **options)
    (rows,) = caught
    grouping = Grouping.of(groups, rows.ensemble.feature_names)
    return ResidualStatistic([MemberRows(rows, grouping.index)], len(grouping.names)), rows


@pytest.fixture(scope="module")
def boosted():
    """A booster that uses three columns of six, its held-out rows, and blocks of different sizes."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(360, 6))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=360)
    model = XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1).fit(X[:200], y[:200])
    return model, X[200:], y[200:]


def products(statistic):
    """The products of uses and residuals, shape (n_used, 3, n_rows)."""
    return (statistic.use * statistic.residual[:, None]).sum(axis=3)


@pytest.mark.parametrize("unequal", [False, True])
def test_products_are_summed_by_block_and_blocks_are_permuted_or_get_signs(boosted, unequal):
    model, X, y = boosted
    size = [1, 2, 5] if unequal else [4]
    block = np.repeat(np.arange(160), np.resize(size, 160))[:160]
    block = np.random.default_rng(0).permutation(block.max() + 1)[block]
    dataset = debias.Dataset(X, y, blocks=block)
    statistic, _ = statistic_of(model, dataset, None)
    test = debias.Permutation(10, adaptive=False)
    scores = debias.audit(model, dataset, test=test, error_rate=0.1, **HELD_OUT).tested_scores
    drawn = scores.details["test"]["draws"]
    assert drawn == ("random signs" if unequal else "permutations")
    number = np.unique(statistic.block, return_inverse=True)[1]
    n_blocks = number.max() + 1
    random = np.random.default_rng(np.random.SeedSequence(0))
    null = []
    for draw in range(11):
        if unequal:
            sign = np.ones(n_blocks) if draw == 0 else 2.0 * random.integers(0, 2, n_blocks) - 1
            drawn_products = products(statistic) * sign[number]
        else:
            rows = np.arange(160).reshape(-1, 4)
            rows = rows.ravel() if draw == 0 else rows[random.permutation(len(rows))].ravel()
            drawn_products = (statistic.use * statistic.residual[:, None, rows]).sum(axis=3)
        by_block = np.zeros((*drawn_products.shape[:2], n_blocks))
        np.add.at(by_block, (slice(None), slice(None), number), drawn_products)
        z = np.zeros(6)
        z[statistic.used] = [max(map(t_of, of_feature)) for of_feature in by_block]
        null.append(z)
    np.testing.assert_allclose(scores.z, null[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(scores.null, null[1:], rtol=1e-9, atol=1e-12)


def test_blocks_with_the_same_responses_get_signs(boosted):
    model, X, _ = boosted
    y, block = np.tile([0.0, 1.0, 5.0, 2.0], 40), np.repeat(np.arange(40), 4)
    statistic, _ = statistic_of(model, debias.Dataset(X, y, blocks=block), None)
    assert not statistic.permutes
    y[0] = 3.0
    statistic, _ = statistic_of(model, debias.Dataset(X, y, blocks=block), None)
    assert statistic.permutes


@pytest.mark.thorough
def test_a_group_is_one_feature(boosted):
    model, X, y = boosted
    names = debias.plugin.extract(model).feature_names
    statistic, rows = statistic_of(model, X, y, groups={"pair": names[1:3]})
    single, _ = statistic_of(model, X, y)
    ensemble = rows.ensemble
    expected = uses_by_definition(ensemble, X.astype(ensemble.routing_dtype), np.ones(160), (1, 2))
    expected -= expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(statistic.use[1], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(statistic.use[1, 1:], single.use[1, 1:] + single.use[2, 1:], atol=1e-12)
    assert np.abs(statistic.use[1, 0] - single.use[1, 0] - single.use[2, 0]).max() > 0.01  # they interact


def test_threads_and_parts_of_the_rows_change_no_bit(boosted, monkeypatch):
    model, X, y = boosted
    one, two = (debias.audit(model, X, y, n_jobs=n, **HELD_OUT).tested_scores for n in (1, 2))
    monkeypatch.setattr(residuals, "row_blocks", lambda *_: [slice(0, 50), slice(50, 51), slice(51, 160)])
    parts = debias.audit(model, X, y, n_jobs=2, **HELD_OUT).tested_scores
    for other in (two, parts):
        np.testing.assert_array_equal(one.z, other.z)
        np.testing.assert_array_equal(one.null, other.null)


def test_more_rows_get_random_signs(boosted, monkeypatch):
    model, X, y = boosted
    monkeypatch.setattr(residuals, "FEW_ROWS", 5)
    scores = debias.audit(model, X, y, **HELD_OUT)
    assert scores.tested_scores.details["test"]["draws"] == "random signs"
    assert "random signs of residuals, family-wise" in " ".join(scores.summary())


def test_a_result_says_its_null_hypothesis(boosted):
    audit = debias.audit(*boosted, **HELD_OUT)
    test = audit.tested_scores.details["test"]
    assert test["null_hypothesis"] == residuals.NULL_HYPOTHESIS
    assert (test["method"], test["draws"], test["shrinkage"]) == ("residuals", "permutations", 0.0)
    assert f"Test: {test['n_permutations']} permutations of residuals, family-wise error rate 5%" in " ".join(
        audit.summary()
    )


def test_scores_are_tested_where_residuals_cannot_be(boosted, monkeypatch):
    model, X, y = boosted

    def why(model, X, y, **options):
        test = debias.audit(model, X, y, **(HELD_OUT | options)).tested_scores.details["test"]
        assert test["method"] in ("permutation", "naive")
        return test["scores_tested_because"]

    rng = np.random.default_rng(0)
    labels = (rng.random(160) < 0.3).astype(int)
    forest = RandomForestClassifier(5, random_state=0).fit(X, labels)
    new = rng.normal(size=X.shape)
    assert why(forest, new, labels, tested="mdi_oob(shrinkage=5)") == "the score weights the splits"
    few = np.r_[np.ones(9, int), np.zeros(151, int)]
    assert why(forest, new, few) == "fewer than 10 rows are outside the largest class"
    few[9] = 1
    assert debias.audit(forest, new, few, **HELD_OUT).tested_scores.details["test"]["method"] == "residuals"
    ranker = XGBRanker(n_estimators=5, n_jobs=1).fit(X, labels, qid=np.repeat(np.arange(16), 10))
    queries = debias.Dataset(new, labels, qid=np.repeat(np.arange(16), 10))
    assert why(ranker, queries, None) == "the gradient of a row depends on other rows"
    block = np.repeat(np.arange(5), [20, 30, 40, 30, 40])
    assert why(model, debias.Dataset(X, y, blocks=block), None) == "there are fewer than 6 blocks, of different sizes"
    rare, block = np.r_[np.ones(11, int), np.zeros(149, int)], np.r_[0, 1, 2, 2, np.repeat(np.arange(3, 55), 3)]
    dataset = debias.Dataset(new, rare, blocks=block)
    assert why(forest, dataset, None) == "blocks have different sizes, and few rows dominate the response"
    skewed = debias.Dataset(X, np.exp(3 * y), blocks=block)
    assert debias.audit(model, skewed, **HELD_OUT).tested_scores.details["test"]["draws"] == "random signs"
    monkeypatch.setattr(residuals, "MOST_VALUES", 100)
    assert why(model, X, y) == "rows times features times outputs are more than 1e+02"


def test_residuals_that_cannot_be_tested_are_refused_by_name(boosted):
    model, X, y = boosted
    forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    with pytest.raises(debias.errors.CompositionError, match="not possible here, because the rows are not held-out"):
        debias.audit(forest, X, y, rows="oob", test="residuals")
    with pytest.raises(debias.errors.CompositionError, match="of='rows' is not one of 'auto', 'residuals', 'response'"):
        debias.Permutation(of="rows")
    folds = {"cv": [(np.arange(80), np.arange(80, 160))]}
    with pytest.raises(debias.errors.CompositionError, match="residuals are not tested in folds"):
        debias.audit_folds([model], X, y, test=debias.Permutation(of="residuals"), **folds)


def test_the_response_is_permuted_if_that_is_asked_for(boosted):
    by_name, by_limit = (
        debias.audit(*boosted, test=test, **HELD_OUT).tested_scores
        for test in ("permutation", debias.Permutation(of="response"))
    )
    assert by_name.details["test"]["method"] == by_limit.details["test"]["method"] == "permutation"
    np.testing.assert_array_equal(by_name.z, by_limit.z)


def test_outliers_and_other_columns_are_taken_out_of_the_response(boosted):
    model, X, y = boosted
    with_outlier = y.copy()
    with_outlier[0] += 1e6
    assert debias.audit(model, X, with_outlier, **HELD_OUT).tested_scores.p_adjusted[0] < 0.05
    strong = y + 30 * X[:, 3]
    model = XGBRegressor(n_estimators=60, max_depth=3, n_jobs=1).fit(X[:80], strong[:80])
    scores, old = (
        debias.audit(model, X[80:], strong[80:], test=test, **HELD_OUT).tested_scores
        for test in ("auto", "permutation")
    )
    assert scores.p_adjusted[0] < 0.05 < old.p_adjusted[0]


def test_outputs_without_several_sets_are_those_without_each(models, monkeypatch):
    X, y = drawn("regression", missing=0.1)
    model = models("xgboost", n_estimators=4, max_depth=5).fit(X, y)
    ensemble = debias.plugin.extract(model)
    rows = X.astype(ensemble.routing_dtype)
    share = child_shares(ensemble, evaluation_weight(ensemble, rows, np.ones(len(y))))
    left_out = np.random.default_rng(0).random((6, 5)) < 0.4
    small = outputs_without(ensemble, rows, share, left_out)
    step = np.random.default_rng(1).normal(size=(2, ensemble.n_nodes, 1))
    group = np.array([0, 1, -1, 0, 2])
    at_once = effects(ensemble, rows, share, group, 3, step)
    monkeypatch.setattr(without, "MOST_NODES", 0)  # rows one after the other from here on
    expected = [effects(ensemble, rows, share, np.where(one, 0, -1), 1) for one in left_out]
    expected = np.array([raw - effect[0] for raw, effect, _ in expected])
    for part, one_by_one in zip(at_once, effects(ensemble, rows, share, group, 3, step), strict=True):
        np.testing.assert_allclose(part, one_by_one, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(part == 0, one_by_one == 0)  # no effect is exactly none
    np.testing.assert_allclose(small, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(outputs_without(ensemble, rows, share, left_out), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("value", [-99.0, 99.0])
def test_splits_that_divide_no_rows_have_no_effect_at_all(value):
    """An effect of 1e-17 would be studentised, and count in the largest z of every permutation."""
    X, y = drawn("regression", missing=0.0)
    # Leaves of boosted trees of XGBoost are float32 numbers, whose differences are exact.
    ensemble = debias.plugin.extract(RandomForestRegressor(20, max_depth=5, random_state=0).fit(X, y))
    assert (ensemble.feature[ensemble.splits] == 1).sum() > 20
    X[:, 1] = value
    rows = X.astype(ensemble.routing_dtype)
    share = child_shares(ensemble, evaluation_weight(ensemble, rows, np.ones(len(y))))
    _, effect, _ = effects(ensemble, rows, share, np.arange(5), 5)
    assert (effect[1] == 0).all()
    assert (effect[0] != 0).any()


def found_in_noise(n_sets, n_rows=80, seed=0, **options):
    """The share of p-values of at most .05 and of sets with an informative feature, for noise beside one signal."""
    rng, single, together = np.random.default_rng(seed), [], []
    for _ in range(n_sets):
        X = rng.normal(size=(2 * n_rows, 4)).round(1)
        X[:, 3] = rng.integers(0, 2, 2 * n_rows)
        y = np.exp(X[:, 0]) * rng.lognormal(0, 0.5, 2 * n_rows)
        model = XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X[:n_rows], y[:n_rows])
        scores = debias.score(model, X[n_rows:], y[n_rows:], "mdi_oob", rows="held-out", test="auto", **options)
        single.append(scores.p_value[1:] <= 0.05)
        together.append(scores.p_adjusted <= 0.05)
    return np.array(single), np.array(together)


@pytest.mark.thorough
def test_noise_beside_a_signal_keeps_the_level_and_the_signal_is_found():
    single, together = found_in_noise(30)
    # Three noise features in 30 sets: four standard errors of a rate of .05, rows of one set taken as one.
    assert single.mean() <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 30)
    assert together[:, 0].mean() >= 0.8


@pytest.mark.slow
def test_noise_beside_a_signal_keeps_the_level_in_many_sets():
    single, together = found_in_noise(600, seed=1)
    error = single.mean(axis=1).std(ddof=1) / np.sqrt(len(single))
    assert single.mean() <= 0.05 + 4 * error  # features that a model does not use have p = 1
    assert together[:, 1:].any(axis=1).mean() <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 600)


@pytest.mark.slow
def test_weights_that_follow_the_response_keep_the_level():
    rng, single = np.random.default_rng(2), []
    for _ in range(200):
        X = rng.normal(size=(400, 5))
        X[:, 4] = rng.integers(0, 2, 400)
        y = rng.permuted(np.tile(np.arange(200) % 10 == 0, (2, 1)), axis=1).ravel().astype(int)
        forest = RandomForestClassifier(15, random_state=0).fit(X[:200], y[:200])
        weight = np.where(y == 1, 9.0, 1.0)[200:]
        scores = debias.score(
            forest, X[200:], y[200:], "mdi_oob", rows="held-out", sample_weight=weight, test=debias.Permutation(99)
        )
        assert scores.details["test"]["method"] == "residuals"
        single.append(scores.p_value <= 0.05)
    single = np.array(single)
    error = single.mean(axis=1).std(ddof=1) / np.sqrt(len(single))
    assert single.mean() <= 0.05 + 4 * error


def test_a_column_that_the_model_does_not_use_changes_nothing():
    """The copy of x1 has no split, so x1 stays in the regression of a group that holds the copy."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 4))
    X = np.column_stack([X, X[:, 1]])
    y = X[:, 0] + X[:, 1] + rng.normal(size=400)
    model = XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1).fit(X[:200], y[:200])
    assert 4 not in debias.plugin.extract(model).feature[debias.plugin.extract(model).splits]
    both, alone = (
        statistic_of(model, X[200:], y[200:], groups={"group": columns})[0] for columns in (["f0", "f4"], ["f0"])
    )
    np.testing.assert_array_equal(both.residual[0], alone.residual[0])
    np.testing.assert_array_equal(both.use[0], alone.use[0])


def test_a_verdict_on_few_rows_of_a_class_says_that_noise_is_found_too_often():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1300, 4))
    y = (3 * X[:, 0] + rng.logistic(size=1300) > 5).astype(int)
    model = RandomForestClassifier(20, min_samples_leaf=5, random_state=0).fit(X[:1000], y[:1000])
    assert 3 < y[1000:1100].sum() < 10 < y[1000:].sum()
    told = [
        any("noise informative too often" in text for text in debias.audit(model, X[at], y[at], **HELD_OUT).warnings)
        for at in (slice(1000, 1100), slice(1000, None))
    ]
    assert told == [True, False]


@pytest.mark.parametrize("library", ["XGBoost", "LightGBM"])
@pytest.mark.parametrize("n_rare", [20, 6])
@pytest.mark.filterwarnings("ignore:fewer than 10 rows are outside the largest class:debias.DebiasWarning")
def test_a_booster_of_classes_has_the_verdicts_of_its_classifier(library, n_rare):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 4))
    y = (X[:, 0] + rng.normal(size=700) > 2.2).astype(int)
    if library == "XGBoost":
        model = XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1).fit(X[:400], y[:400])
        booster = model.get_booster()
    else:
        model = LGBMClassifier(n_estimators=15, num_leaves=8, n_jobs=1, verbose=-1).fit(X[:400], y[:400])
        booster = model.booster_
    X, y = X[400:], y[400:]
    y[np.flatnonzero(y)[n_rare:]] = 0
    of_classifier, of_booster = (debias.audit(each, X, y, **HELD_OUT).tested_scores for each in (model, booster))
    np.testing.assert_array_equal(of_booster.z, of_classifier.z)
    np.testing.assert_array_equal(of_booster.p_value, of_classifier.p_value)
    because = of_booster.details["test"].get("scores_tested_because")
    assert because == ("fewer than 10 rows are outside the largest class" if n_rare < 10 else None)
    assert because == of_classifier.details["test"].get("scores_tested_because")


def test_shares_between_0_and_1_are_no_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = 1 / (1 + np.exp(-X[:, 0] - rng.normal(size=200)))
    model = XGBRegressor(objective="reg:logistic", n_estimators=5, n_jobs=1).fit(X[:100], y[:100])
    request = Request.of(model, debias.Dataset(X[100:], y[100:]), rows="held-out")
    (prepared,) = prepared_members(request, [], tested=False)
    assert not is_of_classes(prepared.rows.ensemble, prepared.rows.response)
    assert class_codes(prepared.rows.ensemble, prepared.rows.response) is None
