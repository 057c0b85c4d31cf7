"""`conditional_importance`: what it finds, its terms by hand, its level, and what it refuses.

One file, since all tests share the held-out rows and the correlated columns.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.testing import check_scorer
from debias_bench.conditional import case_of, of_debias
from debias_bench.conditional_designs import Cell
from support.versions import at_least

NAME = "conditional_importance"
RHO = 0.8


def correlated(n, seed, effect=0.0):
    """Return X and y: column 1 is correlated 0.8 with column 0, and has an effect of its own or none."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] = RHO * X[:, 0] + np.sqrt(1 - RHO**2) * X[:, 1]
    return X, X[:, 0] + effect * X[:, 1] + rng.normal(size=n)


def true_conditional(X, columns, generator):
    """Draw columns of `correlated` given the others."""
    assert columns.size == 1
    k = int(columns[0])
    noise = generator.normal(size=(len(X), 1))
    return noise if k == 2 else RHO * X[:, [1 - k]] + np.sqrt(1 - RHO**2) * noise


@pytest.fixture(scope="module")
def held_out():
    X, y = correlated(600, 0)
    forest = RandomForestRegressor(40, max_features=1, min_samples_leaf=3, random_state=0).fit(X[:300], y[:300])
    return forest, X[300:], y[300:]


def scored(model, X, y, seed=0, **options):
    of_rows = {name: options.pop(name) for name in ("sample_weight", "blocks") if name in options}
    arguments = {name: options.pop(name) for name in ("train", "n_jobs") if name in options}
    rows, scorer = debias.Dataset(X, y, **of_rows), debias.plugin.scorer(NAME, **options)
    return debias.score(model, rows, scorer=scorer, rows="held-out", random_state=seed, **arguments)


def found(dependence, number, correlation=0.8, effect=0.0, train=False):
    """Whether the test finds the second column of a data set of the measurement."""
    return of_debias(case_of(Cell(dependence, correlation, 300, "forest", effect), number), train)[0] <= 0.05


# --- the question --------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_noise_correlated_with_a_relevant_column_is_not_found_and_the_marginal_test_finds_it(held_out):
    marginal = debias.score(held_out[0], *held_out[1:], "mdi_oob", rows="held-out", test="naive", random_state=0)
    assert marginal.selected.tolist() == [True, True, False]
    conditional = scored(*held_out)
    assert conditional.selected.tolist() == [True, False, False]
    assert conditional.details["explained"][1] == pytest.approx(RHO**2, abs=0.08)
    assert conditional.details["explained"][2] < 0.05


@pytest.mark.thorough
def test_a_code_far_from_all_other_values_hides_nothing_of_its_column():
    """In units of its standard deviation all other values of the column are alike: no regression could use them."""
    X, y = correlated(800, 2)
    X[::40, 0] = 1e10
    forest = RandomForestRegressor(40, max_features=1, min_samples_leaf=3, random_state=0).fit(X[:400], y[:400])
    found = scored(forest, X[400:], y[400:])
    assert found.selected.tolist() == [True, False, False]
    assert found.p_value[1] > 0.05


@pytest.mark.thorough
def test_a_column_without_a_split_scores_exactly_0(held_out):
    _, X, y = held_out
    X = np.column_stack([X, np.zeros(len(X))])
    train = np.column_stack([correlated(600, 0)[0][:300], np.zeros(300)])
    model = RandomForestRegressor(5, random_state=0).fit(train, correlated(600, 0)[1][:300])
    for statistic in ("covariance", "loss"):
        scores = scored(model, X, y, statistic=statistic)
        assert (scores.values[3], scores.standard_error[3], scores.p_value[3]) == (0, 0, 1)
        assert scores.details["test"]["n_tested"] == 3
        assert scores.details["explained"][3] is None


@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_a_model_without_any_split_gives_zeros(held_out):
    _, X, y = held_out
    model = RandomForestRegressor(3, random_state=0).fit(X, np.ones(len(X)))
    scores = scored(model, correlated(300, 9)[0], y)
    assert (scores.values == 0).all()
    assert (scores.p_value == 1).all()


# --- the score, from its definition --------------------------------------------------------------------


def test_the_loss_is_a_loop_over_draws(held_out):
    model, X, y = held_out
    scores = scored(model, X, y, seed=5, statistic="loss", sampler=true_conditional, n_draws=3)
    before = (y - model.predict(X)) ** 2
    for k in range(3):
        generator = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(k,)))
        loss = np.zeros(len(y))
        for _ in range(3):
            drawn = X.copy()
            # Forests compare float32 numbers.
            drawn[:, [k]] = true_conditional(X.astype(np.float32).astype(float), np.array([k]), generator)
            loss += (y - model.predict(drawn)) ** 2 / 3
        term = loss - before
        assert scores.values[k] == pytest.approx(term.mean())
        assert scores.standard_error[k] == pytest.approx(term.std(ddof=1) / np.sqrt(len(y)))


@pytest.mark.parametrize("kind", ["forest", "xgboost", "three classes"])
def test_the_loss_of_classes_is_the_brier_score(kind):
    X, y = correlated(400, 3)
    y = np.digitize(y, [0.0, 1.0] if kind == "three classes" else [0.0])
    model = XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1)
    if kind == "forest":
        model = RandomForestClassifier(10, random_state=0)
    model.fit(X[:200], y[:200])
    X, y = X[200:].astype(np.float32).astype(float), y[200:]

    def reverse(X, columns, generator):
        return X[::-1][:, columns]

    scores = scored(model, X, y, statistic="loss", sampler=reverse, n_draws=1)
    for k in range(3):
        drawn = X.copy()
        drawn[:, k] = X[::-1, k]
        one_hot = np.eye(y.max() + 1)[y]
        brier = [((one_hot - model.predict_proba(rows)) ** 2).sum(axis=1).mean() for rows in (drawn, X)]
        assert scores.values[k] == pytest.approx(brier[0] - brier[1], abs=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize(("statistic", "given"), [("covariance", False), ("loss", True)])
def test_a_linear_model_has_the_closed_form(statistic, given):
    """The squared error of a model beta x rises by 2 beta^2 var(x_k | x_-k) if x_k is drawn again."""
    X, _ = correlated(12_000, 1)
    beta = np.array([1.0, 0.5, 0.0])
    rng = np.random.default_rng(2)
    model = RandomForestRegressor(10, min_samples_leaf=2, random_state=0).fit(X[:10_000], X[:10_000] @ beta)
    rows, y = X[10_000:], X[10_000:] @ beta + rng.normal(size=2000)
    scores = scored(model, rows, y, statistic=statistic, sampler=true_conditional if given else None)
    expected = 2 * beta**2 * np.array([1 - RHO**2, 1 - RHO**2, 1])
    # The forest is linear but for steps and its edges, which cost at most 5 %.
    assert (np.abs(scores.values - expected) <= 4 * scores.standard_error + 0.05 * expected).all()


@pytest.mark.thorough
def test_both_statistics_estimate_the_same(held_out):
    model, X, y = held_out
    covariance = scored(model, X, y, sampler=true_conditional, n_draws=20)
    loss = scored(model, X, y, statistic="loss", sampler=true_conditional, n_draws=20)
    assert (np.abs(covariance.values - loss.values) <= 4 * loss.standard_error).all()


# --- level ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_with_the_true_conditional_noise_has_mean_0_and_the_level_holds():
    trials = 60  # `slow` has more, of every kind of dependence
    z = []
    for seed in range(trials):
        X, y = correlated(400, seed)
        model = XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1).fit(X[:200], y[:200])
        scores = scored(model, X[200:], y[200:], seed, statistic="loss", sampler=true_conditional, n_draws=2)
        z.append(scores.z[1])
    z = np.array(z)
    assert abs(z.mean()) < 4 / np.sqrt(trials)
    assert (z > 1.653).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
@pytest.mark.parametrize("n_draws", [1, 10])
def test_the_noise_of_a_few_true_draws_does_not_look_like_a_covariance(n_draws):
    """Column and response follow a site, which is in both factors if both are compared with the same draws."""
    trials, n_sites = 60, 15
    z = []
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        mean = rng.normal(size=n_sites)
        site = rng.integers(0, n_sites, 400)
        X = np.column_stack([site, mean[site] + 0.6 * rng.normal(size=400)])
        y = mean[site] + rng.normal(size=400)

        def true(X, columns, generator, mean=mean):
            return (mean[X[:, 0].astype(int)] + 0.6 * generator.normal(size=len(X)))[:, None]

        model = RandomForestRegressor(10, min_samples_leaf=3, max_features=1, random_state=seed).fit(X[:200], y[:200])
        z.append(scored(model, X[200:], y[200:], seed, sampler=true, n_draws=n_draws).z[1])
    assert abs(np.mean(z)) < 4 / np.sqrt(trials)
    assert (np.array(z) > 1.653).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    "dependence", ["linear", "changed", "square", "product", "binary", "category", "15 sites", "field", "max"]
)
def test_the_error_rate_is_kept(dependence, train):
    trials = 40
    rate = np.mean([found(dependence, k, train=train) for k in range(trials)])
    assert rate <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


@pytest.mark.slow
@pytest.mark.parametrize("dependence", ["circle", "band", "ball"])
def test_curved_jumps_are_not_tested(dependence):
    trials = 20
    untested = [of_debias(case_of(Cell(dependence, 0.8, 300, "forest"), k))[1] for k in range(trials)]
    assert np.mean(untested) >= 0.9 - 3 * np.sqrt(0.9 * 0.1 / trials)


@pytest.mark.slow
def test_a_conditional_effect_is_found():
    assert np.mean([found("linear", k, 0.5, 0.3) for k in range(50)]) >= 0.7


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_an_untested_column_has_a_reason_and_is_not_selected():
    case = case_of(Cell("ball", 0.8, 150, "forest"), 0)
    scores = scored(case.model, *case.new)
    details = scores.details
    untested = np.isin(scores.feature_names, list(details["untested_features"]))
    assert untested[1]
    assert not scores.selected[untested].any()
    allowance, plain = (np.array(details[name], dtype=float) for name in ("allowance", "p_plain"))
    np.testing.assert_array_equal(untested, ((allowance > 1) | (plain <= 0.05)) & ~scores.selected)
    assert (scores.p_value >= plain).all()
    assert any("could not test" in text and "'x1'" in text for text in scores.warnings)


def test_the_terms_are_products_of_residuals_and_the_allowance_moves_the_larger_mean(held_out):
    from scipy.special import ndtr, ndtri

    from debias_plugins.scorers.conditional_test import RowTerms

    rng = np.random.default_rng(0)
    values = rng.normal(0.15, 1, size=(200, 3))
    terms = RowTerms(values, 3 * values, np.array([0.0, 0.1, 0.5]), np.full(3, 0.5))
    found = terms.verdict(np.ones(200), None, "fwer", 0.05)
    tested = debias.plugin.row_test(values)
    np.testing.assert_allclose(found.p_plain, tested.p_value)  # both statistics are the same
    allowance = terms.bias / (3 * tested.standard_error)
    np.testing.assert_allclose(found.allowance, allowance)
    np.testing.assert_allclose(found.test.p_value, ndtr(ndtri(tested.p_value) + allowance))
    assert [bool(reason) for reason in found.reasons] == found.untested.tolist()
    assert found.untested[2]
    apart = RowTerms(values, rng.normal(size=values.shape), np.zeros(3), np.full(3, 0.5)).verdict(
        np.ones(200), None, "fwer", 0.05
    )
    assert (apart.p_plain <= 2 * tested.p_value + 1e-12).all()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:these rows differ from the training rows", "ignore:the mean of y is")
def test_a_level_of_column_and_response_that_moved_since_the_training_is_no_effect():
    X, y = correlated(500, 6)
    X[:400, 1] += 2
    y[:400] += 2
    forest = RandomForestRegressor(40, max_features=1, min_samples_leaf=3, random_state=0).fit(X[:400], y[:400])
    assert scored(forest, X[400:], y[400:], train=(X[:400], y[:400])).p_value[1] > 0.05


@pytest.mark.thorough
def test_with_a_known_sampler_the_score_is_the_covariance_of_effect_and_residual(held_out):
    """The effect is the prediction minus its mean over the draws, and the residual has nothing of the draws."""
    from debias_plugins.scorers.conditional_design import Design
    from debias_plugins.scorers.conditional_mean import ConditionalMean

    model, X, y = held_out
    X, n = X.astype(np.float32).astype(float), len(y)

    def constant(X, columns, generator):
        return np.zeros((len(X), columns.size))

    scores = scored(model, X, y, seed=7, sampler=constant, n_draws=2)
    features = np.concatenate([tree.tree_.feature for tree in model.estimators_])
    design = Design.of(X, np.zeros(3, dtype=bool), np.bincount(features[features >= 0], minlength=3))
    for k in range(3):
        drawn = X.copy()
        drawn[:, k] = 0
        generator = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(k, 1)))
        targets = [np.empty((n, 0)), y[:, None]]
        fit = ConditionalMean.fit(design.without(np.array([k])), targets, np.ones(n), np.arange(n), generator)
        term = 2 * (model.predict(X) - model.predict(drawn)) * (y - fit.stack[:, 0])
        # Responses are stored without their mean, and the search for the kernel feels the last bits.
        error = term.std(ddof=1) / np.sqrt(n)
        assert scores.values[k] == pytest.approx(term.mean(), abs=0.02 * error)
        assert scores.standard_error[k] == pytest.approx(error, rel=0.02)
        assert scores.details["allowance"][k] == 0


# --- rows ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_out_of_bag_and_training_rows_are_refused():
    X, y = correlated(100, 0)
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    with pytest.raises(
        debias.plugin.CompositionError, match="conditional_importance is not possible on out-of-bag rows"
    ):
        debias.score(forest, X, y, NAME, rows="oob")
    with pytest.raises(debias.RowsError, match="training rows"):
        debias.score(forest, X, y, NAME, rows="train")


@pytest.mark.thorough
def test_rows_of_weight_0_do_not_count(held_out):
    model, X, y = held_out
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)

    def reverse(X, columns, generator):
        return X[::-1][:, columns]

    # Rows of weight 0 do not count: neither their terms nor as donors.
    both = [
        scored(model, *rows, sample_weight=weights, statistic=statistic, sampler=reverse, n_draws=1)
        for statistic in ("loss", "covariance")
        for rows, weights in (((X, y), weight), ((X[weight > 0], y[weight > 0]), weight[weight > 0]))
    ]
    for one, other in (both[:2], both[2:]):
        np.testing.assert_allclose(one.values, other.values)
        np.testing.assert_allclose(one.p_value, other.p_value)
    assert both[0].n_rows == (weight > 0).sum()


@pytest.mark.thorough
def test_blocks_are_left_out_whole_and_are_the_units_of_the_test(held_out):
    model, X, y = held_out
    blocks = np.arange(len(y)) // 2
    scores = scored(model, X, y, blocks=blocks)
    assert scores.details["test"]["n_independent"] == 150
    assert scores.details["test"]["blocks"]
    assert scores.selected.tolist() == [True, False, False]
    # A block of copies tells no more than one row: the z-values stay as they are, up to the draws.
    copied = scored(model, np.repeat(X, 3, axis=0), np.repeat(y, 3), blocks=np.repeat(np.arange(len(y)), 3))
    assert copied.z[0] < 1.5 * scored(model, X, y).z[0]
    with pytest.raises(debias.RowsError, match="one block"):
        scored(model, X, y, blocks=np.arange(len(y)) // 30, sample_weight=(np.arange(len(y)) < 30) * 1.0)


@pytest.mark.thorough
def test_training_rows_fit_the_regressions(held_out):
    model, X, y = held_out
    X_train, y_train = correlated(600, 0)
    scores = scored(model, X, y, train=(X_train[:300], y_train[:300]))
    assert scores.selected.tolist() == [True, False, False]
    assert scores.details["explained"] != scored(model, X, y).details["explained"]


@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_few_rows_are_refused_or_warned_of(held_out):
    model, X, y = held_out
    with pytest.raises(debias.RowsError, match="at least 20 rows"):
        scored(model, X[:19], y[:19])
    few = scored(model, X[:50], y[:50])
    assert any("only 50 rows" in text for text in few.warnings)


def test_an_infinite_value_is_refused(held_out):
    _, X, y = held_out
    model = XGBRegressor(n_estimators=3, max_depth=2, n_jobs=1).fit(X, y)
    rows = correlated(100, 5)[0]
    rows[3, 2] = np.inf
    with pytest.raises(debias.RowsError, match="infinite"):
        scored(model, rows, y[:100])


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_a_column_that_others_explain_gets_a_warning():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=600)
    y = X[:, 0] + rng.normal(size=600)
    model = RandomForestRegressor(10, max_features=1, random_state=0).fit(X[:300], y[:300])
    scores = scored(model, X[300:], y[300:])
    assert any("explain more than 95% of 'x0', 'x1'" in text for text in scores.warnings)
    # Drawn together they are found, and share the score.
    joint = scored(model, X[300:], y[300:], together={"pair": ["x0", "x1"]})
    assert joint.selected.tolist() == [True, True, False]
    assert joint.values[0] == joint.values[1] == joint.details["together"]["pair"] / 2
    assert not any("explain" in text for text in joint.warnings)


@pytest.mark.thorough
def test_groups_are_refused_with_what_to_do(held_out):
    with pytest.raises(debias.plugin.CompositionError, match="together="):
        debias.score(*held_out, NAME, rows="held-out", groups={"both": ["x0", "x1"]})


# --- mixed data ----------------------------------------------------------------------------------------


def mixed(n, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    letter = np.array(["a", "b", "c"])[np.digitize(z + 0.8 * rng.normal(size=n), [-0.5, 0.5])]
    gaps = np.where(rng.random(n) < 0.5 * (z > 0), np.nan, z + rng.normal(size=n))
    X = pd.DataFrame({"z": z, "letter": pd.Categorical(letter, categories=["a", "b", "c"]), "gaps": gaps})
    return X, z + 1.5 * (letter == "b") + rng.normal(size=n)


@pytest.mark.thorough
@pytest.mark.skipif(not at_least("xgboost", "3.1"), reason="XGBoost keeps the labels of categories from 3.1 on")
def test_categories_and_missing_values_are_sampled_too():
    X, y = mixed(1000, 0)
    model = XGBRegressor(n_estimators=40, max_depth=3, enable_categorical=True, n_jobs=1).fit(X[:500], y[:500])
    scores = scored(model, X[500:], y[500:])
    assert scores.selected.tolist() == [True, True, False]
    assert debias.Scores.from_json(scores.to_json()).p_value.tolist() == scores.p_value.tolist()


# --- manners -------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:conditional_importance could not test:debias.DebiasWarning")  # with a fresh seed
def test_one_seed_gives_one_answer_whatever_the_threads(held_out):
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - it is the global state that is looked at
    one = scored(*held_out, seed=3)
    two = scored(*held_out, seed=3, n_jobs=2)
    assert (one.values == two.values).all()
    assert (one.p_value == two.p_value).all()
    fresh = debias.score(*held_out, NAME, rows="held-out")
    assert fresh.details["seed"] != 3
    assert (fresh.values != one.values).any()
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


@pytest.mark.thorough
def test_a_draw_of_one_column_does_not_change_the_others(held_out):
    """The columns have random numbers of their own, so a part of them at a time gives the same scores."""
    from debias_plugins.scorers import conditional_importance as module

    whole = scored(*held_out, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "NUMBERS_AT_ONCE", 1)
        assert (scored(*held_out, seed=1).values == whole.values).all()


@pytest.mark.thorough
def test_adjusted_p_values_are_those_by_hand(held_out):
    from debias import p_values

    for error, adjust in (("fwer", p_values.holm), ("fdr", p_values.false_discovery)):
        scores = scored(*held_out, error=error, alpha=0.2)
        np.testing.assert_allclose(scores.p_adjusted, adjust(scores.p_value))
        assert (scores.selected == (scores.p_adjusted <= 0.2)).all()


@pytest.mark.thorough
def test_it_keeps_the_contract_of_scorers(held_out):
    check_scorer(debias.plugin.scorer(NAME))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"statistic": "r2"}, "statistic='r2' is not one of 'covariance', 'loss'"),
        ({"n_draws": 0}, "n_draws must be a whole number"),
        ({"n_draws": True}, "n_draws must be a whole number"),
        ({"error": "none"}, "error='none'"),
        ({"alpha": 0}, "alpha must be between 0 and 1"),
        ({"sampler": 3}, "sampler must be a function"),
        ({"sampler": lambda X, columns, generator: X}, "sampler returned shape"),
        ({"sampler": lambda X, columns, generator: X[:, columns] * np.inf}, "not finite"),
    ],
)
def test_wrong_options_are_refused(held_out, options, said):
    with pytest.raises(debias.plugin.CompositionError, match=said):
        scored(*held_out, **options)
