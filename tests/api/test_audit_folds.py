"""``debias.audit_folds``: against audits of each fold by hand, and what it does with folds that tell less."""

from itertools import combinations
from math import factorial

import numpy as np
import pandas as pd
import pyarrow
import pytest
from scipy.stats import t as student
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor, VotingRegressor
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, LeaveOneOut, TimeSeriesSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from xgboost import XGBRegressor

import debias
from debias.errors import CompositionError, DebiasError, DebiasWarning, RowsError
from debias.results.folds_audit import FoldsAudit
from debias.significance.fold_evidence import fold_correlation, standard_error, sum_of_z
from debias.significance.procedure import Procedure

N_ROWS = 240
SETTINGS = {"random_state": 3}
PERMUTED = {"test": debias.Permutation(39), **SETTINGS}

pytestmark = pytest.mark.filterwarnings("ignore:the mean of y is .* among these rows:debias.DebiasWarning")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N_ROWS, 4)), columns=["strong", "weak", "noise", "other"])
    return X, 2 * X["strong"] + 0.5 * X["weak"] + rng.normal(size=N_ROWS)


def forest(**settings):
    return RandomForestRegressor(20, min_samples_leaf=3, random_state=0, **settings)


def fitted(X, y, splits, model=forest):
    return [model().fit(X.iloc[train], y.iloc[train]) for train, _ in splits]


@pytest.fixture(scope="module")
def splits(data):
    return list(KFold(4, shuffle=True, random_state=1).split(data[0]))


@pytest.fixture(scope="module")
def forests(data, splits):
    return fitted(*data, splits)


@pytest.fixture(scope="module")
def audit(data, splits, forests):
    return debias.audit_folds(forests, *data, splits, **PERMUTED)


def by_hand(X, y, splits, models, **settings):
    return [
        debias.audit(
            model,
            X.iloc[test],
            y.iloc[test],
            rows="held-out",
            **SETTINGS | {"test": debias.Permutation(39, adaptive=False, of="response")} | settings,
        )
        for model, (_, test) in zip(models, splits, strict=True)
    ]


@pytest.mark.thorough
def test_each_fold_is_audited_on_its_test_rows(audit, data, splits, forests):
    expected = by_hand(*data, splits, forests)
    assert len(audit.audits) == 4
    for (name, fold), of_hand in zip(audit.audits.items(), expected, strict=True):
        assert np.array_equal(fold.tested_scores.values, of_hand.tested_scores.values)
        assert np.array_equal(fold.tested_scores.p_adjusted, of_hand.tested_scores.p_adjusted)
        assert fold.tested_scores.n_rows == 60
        assert np.array_equal(audit.scores.loc[name], of_hand.tested_scores.values)
    assert list(audit.scores.columns) == list(data[0].columns)


def test_the_verdict_is_that_of_the_sum_of_z(audit, splits):
    mains = [each.tested_scores for each in audit.audits.values()]
    correlation = fold_correlation([train for train, _ in splits], [test for _, test in splits], N_ROWS)
    evidence = sum_of_z(mains, correlation, np.sqrt([60.0] * 4), Procedure(limits=debias.Permutation(39)), 3)
    assert np.array_equal(audit.z, evidence.z)
    assert np.array_equal(audit.p_adjusted, evidence.p_adjusted)
    assert audit.verdict == ["informative" if p <= 0.05 else "indistinguishable" for p in evidence.p_adjusted]
    assert audit.verdict[0] == "informative"
    assert audit.test["correlation"] == pytest.approx(1 / 3)


def test_the_interval_allows_for_shared_rows(audit):
    scores = audit.scores.to_numpy()
    error = np.sqrt(4 * 3**2 / (2**2 * 4) * scores.var(axis=0, ddof=1))
    table = audit.to_frame().loc[list(audit.feature_names)]
    assert table["mean"].to_numpy() == pytest.approx(scores.mean(axis=0))
    assert table["standard_error"].to_numpy() == pytest.approx(error)
    assert table["low"].to_numpy() == pytest.approx(scores.mean(axis=0) - student.ppf(0.975, 3) * error)
    assert table["high"].to_numpy() == pytest.approx(scores.mean(axis=0) + student.ppf(0.975, 3) * error)


@pytest.mark.thorough
def test_results_of_cross_validate_give_the_same_audit(audit, data):
    cv = KFold(4, shuffle=True, random_state=1)
    results = cross_validate(forest(), *data, cv=cv, return_estimator=True, return_indices=True)
    same = debias.audit_folds(results, *data, **PERMUTED)
    assert np.array_equal(same.p_adjusted, audit.p_adjusted)
    pd.testing.assert_frame_equal(same.scores, audit.scores)


def test_threads_change_nothing(audit, data, splits, forests):
    threads = debias.audit_folds(forests, *data, splits, n_jobs=2, **PERMUTED)
    assert threads.to_json() == audit.to_json()


def test_data_are_not_changed(data, splits, forests):
    X, y = data
    before = X.copy(), y.copy()
    debias.audit_folds(forests, X, y, splits, **SETTINGS)
    pd.testing.assert_frame_equal(X, before[0])
    pd.testing.assert_series_equal(y, before[1])


def test_arguments_with_a_value_a_row_are_divided_into_folds(data, splits, forests):
    X, y = data
    weight = np.random.default_rng(1).uniform(0.5, 2, size=N_ROWS)
    blocks = np.arange(N_ROWS) // 2 % 30
    audit = debias.audit_folds(
        forests,
        debias.Dataset(X, y, blocks=blocks),
        cv=splits,
        sample_weight=pd.Series(weight),
        test="naive",
        **SETTINGS,
    )
    for each, model, (_, test) in zip(audit.audits.values(), forests, splits, strict=True):
        of_hand = debias.audit(
            model,
            debias.Dataset(X.iloc[test], y.iloc[test], blocks=blocks[test]),
            rows="held-out",
            sample_weight=weight[test],
            test="naive",
            dependence=False,
            **SETTINGS,
        )
        assert np.array_equal(each.tested_scores.values, of_hand.tested_scores.values)
        assert np.array_equal(each.tested_scores.p_value, of_hand.tested_scores.p_value)


@pytest.mark.thorough
def test_blocks_that_folds_divide_are_told_first(data):
    X, y = data
    blocks, splits = np.repeat([f"day {k}" for k in range(40)], 6), [*KFold(5).split(X), *KFold(4).split(X)][3:]
    audit = debias.audit_folds(
        fitted(X, y, splits), debias.Dataset(X, y, blocks=blocks), cv=splits, test="naive", **SETTINGS
    )
    assert audit.notes == ()
    splits[1] = KFold(7).split(X).__next__()
    audit = debias.audit_folds(
        fitted(X, y, splits), debias.Dataset(X, y, blocks=blocks), cv=splits, test="naive", **SETTINGS
    )
    assert audit.summary()[0].startswith("In fold 1 some blocks have both training and test rows.")


@pytest.mark.parametrize("chunked", [False, True])
def test_columns_of_pyarrow_are_taken(data, splits, forests, chunked):
    (X, y), labels = data, np.empty(N_ROWS, dtype=object)
    for k, (_, test) in enumerate(splits):
        labels[test] = f"part {k}"

    def column(values):
        return pyarrow.chunked_array([values[:100], values[100:]]) if chunked else pyarrow.array(values)

    weight, blocks = np.random.default_rng(1).uniform(0.5, 2, size=N_ROWS), np.arange(N_ROWS) % 30
    given = {"sample_weight": weight, "blocks": blocks}
    expected = debias.audit_folds(forests, debias.Dataset(X, y, **given), cv=labels, test="naive", **SETTINGS)
    columns = debias.Dataset(X, column(y.to_numpy()), **{name: column(values) for name, values in given.items()})
    audit = debias.audit_folds(forests, columns, cv=column(labels), test="naive", **SETTINGS)
    assert list(audit.audits) == ["part 0", "part 1", "part 2", "part 3"]
    pd.testing.assert_frame_equal(audit.to_frame(), expected.to_frame())


def test_a_fold_of_one_block_is_scored_and_not_tested(data, splits, forests):
    blocks = np.arange(N_ROWS) // 2 % 30
    blocks[splits[1][1]] = 99
    audit = debias.audit_folds(forests, debias.Dataset(*data, blocks=blocks), cv=splits, test="naive", **SETTINGS)
    assert list(audit.untested_folds) == ["fold 1"]
    assert audit.summary()[1] == (
        "The audit could not test fold 1: the rows held out are in too few blocks, and a test needs at least 4. Train "
        "the models with fewer and larger folds, so that each holds out more blocks."
    )
    assert audit.summary()[2] == "The verdicts are from the other 3 folds."
    one_block = audit.audits["fold 1"]
    assert one_block.tested_scores.p_value is one_block.tested_scores.standard_error is None
    scored = by_hand(*data, splits, forests, test=None)[1]
    assert np.array_equal(audit.scores.loc["fold 1"], scored.tested_scores.values)
    assert audit.mean == pytest.approx(audit.scores.mean().to_numpy())
    assert audit.verdict[0] == "informative"
    assert FoldsAudit.from_json(audit.to_json()).to_json() == audit.to_json()


def test_folds_of_one_block_each_are_scored_and_say_what_to_do(data):
    X, y = data
    groups = np.arange(N_ROWS) // 60
    splits = list(LeaveOneGroupOut().split(X, y, groups))
    audit = debias.audit_folds(fitted(X, y, splits), debias.Dataset(X, y, blocks=groups), cv=splits, **SETTINGS)
    assert set(audit.verdict) == {"untested"}
    assert audit.summary()[0].startswith("No feature was tested: the rows held out are in too few blocks")
    assert "fewer and larger folds" in audit.untested_because
    assert audit.scores.notna().all(axis=None)
    for_scores = debias.audit_folds(fitted(X, y, splits), debias.Dataset(X, y, blocks=groups), cv=splits, test=None)
    pd.testing.assert_frame_equal(for_scores.scores, audit.scores)
    assert for_scores.untested_because.startswith("no test was requested")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n_blocks", "n_folds", "tested"),
    [(8, 8, 0), (8, 4, 0), (7, 5, 0), (12, 4, 0), (16, 4, 4), (15, 4, 3)],
    ids=["one each", "two each", "one or two", "three each", "four each", "three or four"],
)
def test_folds_of_fewer_blocks_than_a_test_needs_are_scored_and_not_tested(data, n_blocks, n_folds, tested):
    X, y = data
    blocks = np.arange(N_ROWS) % n_blocks
    splits = list(GroupKFold(n_folds).split(X, y, blocks))
    models = fitted(X, y, splits)
    audit = debias.audit_folds(models, debias.Dataset(X, y, blocks=blocks), cv=splits, test="naive", **SETTINGS)
    few = [name for name, (_, test) in zip(audit.audits, splits, strict=True) if np.unique(blocks[test]).size < 4]
    assert list(audit.untested_folds) == few
    assert n_folds - len(few) == tested
    assert all("too few blocks, and a test needs at least 4." in each for each in audit.untested_folds.values())
    assert audit.tested == (tested > 0)
    scored = debias.audit_folds(models, debias.Dataset(X, y, blocks=blocks), cv=splits, test=None)
    pd.testing.assert_frame_equal(audit.scores, scored.scores)
    assert audit.mean == pytest.approx(audit.scores.mean().to_numpy())


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_a_fold_of_few_blocks_and_one_response_tells_nothing(data, splits, n_blocks):
    X, y = data[0], data[1].copy()
    test = splits[1][1]
    y.iloc[test] = 1.0
    blocks = np.arange(N_ROWS) // 2 % 30
    blocks[test] = 99 + np.arange(test.size) % n_blocks
    with pytest.warns(DebiasWarning, match="nothing was tested"):
        audit = debias.audit_folds(
            fitted(X, y, splits), debias.Dataset(X, y, blocks=blocks), cv=splits, test="naive", **SETTINGS
        )
    assert audit.untested_folds["fold 1"].startswith("the response is the same")
    assert audit.scores.loc["fold 1"].isna().all()


def test_blocks_without_a_label_are_refused(data, splits, forests):
    blocks = np.arange(N_ROWS) % 30.0
    blocks[7] = np.nan
    with pytest.raises(RowsError, match="blocks has no label in row 7"):
        debias.audit_folds(forests, debias.Dataset(*data, blocks=blocks), cv=splits, **SETTINGS)


def test_models_of_different_kinds_are_told(data, splits, forests):
    models = [*forests[:3], *fitted(*data, splits[3:], lambda: XGBRegressor(n_estimators=10))]
    audit = debias.audit_folds(models, *data, splits, test=None)
    assert audit.notes == (
        "the models of the folds are of different kinds: scikit-learn RandomForestRegressor in fold 0, fold 1, fold "
        "2; XGBoost XGBRegressor in fold 3",
    )
    assert repr(audit).startswith("Audit of 4 folds of scikit-learn RandomForestRegressor, XGBoost XGBRegressor:")


def test_settings_are_those_of_audit(data, splits, forests):
    groups = {"both": ["strong", "weak"], "rest": ["noise", "other"]}
    audit = debias.audit_folds(
        forests, *data, splits, ["mdi"], tested="mdi_oob(shrinkage=100)", groups=groups, error_rate=0.1, **SETTINGS
    )
    assert audit.tested_scorer == "mdi_oob(shrinkage=100)"
    assert audit.feature_names == ("both", "rest")
    assert set(audit.first.scores) == {"mdi_oob(shrinkage=100)", "mdi"}
    assert audit.test["alpha"] == 0.1
    assert audit.verdict[0] == "informative"


def test_large_folds_weigh_more(data):
    X, y = data
    order = np.random.default_rng(2).permutation(N_ROWS)
    tests = np.split(order, [8, 40])
    splits = [(np.setdiff1d(order, test), test) for test in tests]
    audit = debias.audit_folds(fitted(X, y, splits), X, y, splits, **SETTINGS)
    weight = np.sqrt([8.0, 32.0, 200.0])
    z = np.stack([each.tested_scores.z for each in audit.audits.values()])
    correlation = fold_correlation([train for train, _ in splits], tests, N_ROWS)
    assert audit.z == pytest.approx(weight @ z / np.sqrt(weight @ correlation @ weight))
    assert audit.n_train == (232, 208, 40)


@pytest.mark.thorough
def test_a_fold_with_one_response_is_left_out_and_the_reason_comes_first(data, splits):
    X, y = data[0], data[1].copy()
    y.iloc[splits[1][1]] = 1.0
    models = fitted(X, y, splits)
    with pytest.warns(DebiasWarning, match="nothing was tested"):
        audit = debias.audit_folds(models, X, y, splits, **SETTINGS)
    assert list(audit.untested_folds) == ["fold 1"]
    assert audit.summary()[0].startswith("The audit could not test fold 1: the response is the same")
    assert audit.summary()[1] == "The verdicts and the mean scores are from the other 3 folds."
    assert audit.scores.loc["fold 1"].isna().all()
    others = audit.scores.drop("fold 1").to_numpy()
    assert audit.mean == pytest.approx(others.mean(axis=0))
    assert audit.standard_error == pytest.approx(
        standard_error(others, [splits[k][0] for k in (0, 2, 3)], [splits[k][1] for k in (0, 2, 3)], N_ROWS)
    )
    assert (audit.to_frame()["folds"] == 3).all()
    assert audit.verdict[0] == "informative"


def test_folds_that_all_tell_nothing_are_refused_with_the_reason(data, splits):
    X, y = data[0], pd.Series(np.ones(N_ROWS))
    with (
        pytest.warns(DebiasWarning, match="nothing was tested"),
        pytest.raises(RowsError, match="none of the folds tells anything .* fold 0: the response is the same"),
    ):
        debias.audit_folds(fitted(X, y, splits), X, y, splits, **SETTINGS)


@pytest.mark.thorough
def test_folds_of_one_row_are_refused_with_what_to_do_and_without_a_warning_for_each(data):
    X, y = data[0][:12], data[1][:12]
    splits = list(LeaveOneOut().split(X))
    with pytest.raises(RowsError, match="no fold has more than 1 test row, .* fewer and larger folds"):
        debias.audit_folds(fitted(X, y, splits), X, y, splits, **SETTINGS)


def test_without_a_test_there_are_scores_and_the_reason(data, splits, forests):
    audit = debias.audit_folds(forests, *data, splits, test=None)
    assert audit.verdict == ["untested"] * 4
    assert audit.to_frame()["p_adjusted"].isna().all()
    assert audit.summary()[0].startswith("No feature was tested: no test was requested")
    assert (audit.to_frame()["folds"] == 0).all()
    assert audit.standard_error is not None
    assert audit.untested_because in audit.to_csv()
    with pytest.raises(
        DebiasError, match="the folds say of no feature whether it is informative: no test was requested"
    ):
        audit.features  # noqa: B018


def test_two_folds_have_no_standard_error(data):
    X, y = data
    splits = list(KFold(2).split(X))
    audit = debias.audit_folds(fitted(X, y, splits), X, y, splits, **SETTINGS)
    assert audit.standard_error is None
    assert audit.to_frame()["low"].isna().all()
    assert any(line.startswith("The mean scores have no standard error: it comes from") for line in audit.summary())
    assert audit.test["correlation"] == 1
    assert audit.verdict[0] == "informative"


@pytest.mark.thorough
def test_periods_are_independent_and_have_different_training_rows(data):
    X, y = data
    splits = list(TimeSeriesSplit(4).split(X))
    audit = debias.audit_folds(fitted(X, y, splits), X, y, splits, **SETTINGS)
    assert audit.test["correlation"] == 0
    assert audit.n_train == (48, 96, 144, 192)
    expected = standard_error(audit.scores.to_numpy(), *map(list, zip(*splits, strict=True)), N_ROWS)
    assert audit.standard_error == pytest.approx(expected)


def test_folds_with_and_without_permutations_are_combined():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(2600, 3)), columns=["a", "b", "c"])
    y = X["a"] + rng.normal(size=2600)
    order = np.arange(2600)
    splits = [(order[2300:], order[:2300]), (order[:2300], order[2300:])]
    audit = debias.audit_folds(fitted(X, y, splits, lambda: XGBRegressor(n_estimators=10)), X, y, splits, **SETTINGS)
    assert [each.tested_scores.details["test"]["method"] for each in audit.audits.values()] == ["naive", "permutation"]
    assert "n_permutations" not in audit.test
    assert audit.verdict == ["informative", "indistinguishable", "indistinguishable"]


@pytest.mark.filterwarnings("ignore:these rows differ from the training rows:debias.DebiasWarning")
@pytest.mark.filterwarnings("ignore:the share of class:debias.DebiasWarning")
def test_a_class_that_is_missing_in_the_test_rows_of_a_fold_is_no_obstacle(data):
    X, _ = data
    y = pd.Series(np.select([X["strong"] < -0.5, X["strong"] > 0.5], ["low", "high"], "middle"))
    order = np.argsort(y.to_numpy(), kind="stable")
    test = order[y.to_numpy()[order] != "low"][::3]
    splits = [(np.setdiff1d(order, test), test), (np.setdiff1d(order, order[::5]), order[::5])]
    models = fitted(X, y, splits, lambda: RandomForestClassifier(10, min_samples_leaf=3, random_state=0))
    audit = debias.audit_folds(models, X, y, splits, **SETTINGS)
    assert audit.untested_folds == {}
    assert audit.verdict[0] == "informative"


def test_a_class_that_a_model_does_not_know_is_an_error_that_names_the_fold(data):
    X, _ = data
    y = pd.Series(np.where(X["strong"] > 0, "high", "low"))
    y.iloc[:20] = "rare"
    splits = [(np.arange(20, N_ROWS), np.arange(20)), (np.arange(0, 200), np.arange(200, N_ROWS))]
    models = fitted(X, y, splits, lambda: RandomForestClassifier(10, random_state=0))
    with pytest.raises(RowsError, match="^fold 0: "):
        debias.audit_folds(models, X, y, splits, **SETTINGS)


@pytest.mark.thorough
def test_pipelines_of_folds_with_other_columns_are_scored_by_the_columns_of_X_or_refused():
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"city": rng.choice(list("abc"), size=90)})
    X.loc[0, "city"] = "d"
    y = pd.Series((X["city"] == "a") * 2.0 + rng.normal(size=90))
    splits = list(KFold(3).split(X))

    def pipeline():
        return make_pipeline(OneHotEncoder(handle_unknown="ignore"), forest())

    models = fitted(X, y, splits, pipeline)
    with pytest.warns(debias.DebiasWarning, match="column 'city' has values that a step before the trees never saw"):
        audit = debias.audit_folds(models, X, y, splits, level="source", **SETTINGS)
    assert audit.feature_names == ("city",)
    assert audit.verdict == ["informative"]
    with pytest.raises(RowsError, match=r"different features: fold 0 has no .*city_d"):
        debias.audit_folds(models, X, y, splits, level="model", **SETTINGS)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"test": "combined"}, "test='combined' is not a test of folds"),
        ({"test": "conservative"}, "test='conservative' is not a test of folds"),
        ({"combine": "fisher"}, "combine='fisher' is not one of 'sum', 'harmonic'"),
        ({"error_rate": 2}, "error_rate=2 is not an error rate"),
        ({"tested": "nothing"}, "nothing"),
        ({"refits": debias.Refits(checkpoint="run.sqlite")}, "a checkpoint is for one model"),
        ({"sample_weight": np.ones(10)}, f"sample_weight has 10 entries for {N_ROWS} rows"),
        ({"random_state": -1}, "random_state=-1 must be"),
    ],
)
def test_wrong_arguments_are_refused_with_what_is_wrong(data, splits, forests, wrong, message):
    with pytest.raises((CompositionError, RowsError), match=message):
        debias.audit_folds(forests, *data, splits, **wrong)


def test_the_harmonic_mean_is_the_alternative(audit, data, splits, forests):
    other = debias.audit_folds(forests, *data, splits, combine="harmonic", **SETTINGS)
    assert other.z is None
    assert other.test["method"] == "harmonic mean of p-values"
    plain = 4 / sum(1 / each.tested_scores.p_adjusted for each in other.audits.values())
    assert (other.p_adjusted >= plain - 1e-12).all()
    assert other.verdict[0] == "informative"


@pytest.mark.filterwarnings("ignore:.* permutations give no p-value below:debias.DebiasWarning")
def test_false_discovery_rates_go_through_to_the_folds(data, splits, forests):
    audit = debias.audit_folds(forests, *data, splits, error_rate=("fdr", 0.05), test=debias.Permutation(99))
    assert {each.tested_scores.details["test"]["error"] for each in audit.audits.values()} == {"fdr"}
    assert audit.test["error"] == "fdr"
    assert "false discovery rate 5%" in " ".join(audit.summary())


def output_knowing(tree, row, known, node=0):
    """Mean output of a tree for a row of which some columns are known: both sides, by training weight, at others."""
    if tree.children_left[node] < 0:
        return tree.value[node, 0, 0]
    children = tree.children_left[node], tree.children_right[node]
    if tree.feature[node] in known:
        return output_knowing(tree, row, known, children[not row[tree.feature[node]] <= tree.threshold[node]])
    weight = tree.weighted_n_node_samples
    return sum(weight[child] * output_knowing(tree, row, known, child) for child in children) / weight[node]


def saved_by_brute_force(forest, X, y):
    """Loss, base and what each feature saves, by the definition of Shapley values over all sets of columns.

    Of squared errors the mean slope between the base F0 and the prediction F is 2 (y - (F0 + F) / 2).
    """
    n, found = X.shape[1], []
    for row, response in zip(X.to_numpy(dtype=np.float32), y, strict=True):
        of = {
            known: np.mean([output_knowing(each.tree_, row, known) for each in forest.estimators_])
            for size in range(n + 1)
            for known in combinations(range(n), size)
        }
        phi = np.zeros(n)
        for known in of:
            for k in set(range(n)) - set(known):
                weight = factorial(len(known)) * factorial(n - len(known) - 1) / factorial(n)
                phi[k] += weight * (of[tuple(sorted((*known, k)))] - of[known])
        first, last = of[()], of[tuple(range(n))]
        found.append([(response - last) ** 2, (response - first) ** 2, *(2 * phi * (response - (first + last) / 2))])
    return np.array(found)


@pytest.mark.thorough
def test_the_loss_of_each_fold_divides_as_by_brute_force(data):
    X, y = data[0].iloc[:48], data[1].iloc[:48]
    splits = list(KFold(4).split(X))
    models = [RandomForestRegressor(3, max_depth=4, random_state=0).fit(X.iloc[own], y.iloc[own]) for own, _ in splits]
    loss = debias.audit_folds(models, X, y, splits, loss=True, test=None).loss
    for k, (_, test) in enumerate(splits):
        expected = saved_by_brute_force(models[k], X.iloc[test], y.iloc[test]).mean(axis=0)
        np.testing.assert_allclose(loss.means[k], expected, rtol=0, atol=1e-12)


@pytest.mark.thorough
def test_the_loss_of_each_fold_is_that_of_its_predictions_and_adds_up(data, splits, forests, audit):
    X, y = data
    found = debias.audit_folds(forests, X, y, splits, loss=True, **PERMUTED)
    loss = found.loss
    predicted = [np.mean((y.iloc[test] - model.predict(X.iloc[test])) ** 2) for model, (_, test) in
                 zip(forests, splits, strict=True)]  # fmt: skip
    np.testing.assert_allclose(loss.loss, predicted, rtol=1e-12)
    np.testing.assert_allclose(loss.base - loss.saved.sum(axis=1), predicted, rtol=1e-12)
    assert loss.saved.columns.tolist() == list(X.columns)
    assert loss.saved.index.tolist() == [f"fold {k}" for k in range(4)]
    means = np.column_stack([loss.loss, loss.base, loss.saved])
    np.testing.assert_allclose(loss.error_of_mean, np.sqrt(1 / 4 + 60 / 180) * means.std(axis=0, ddof=1))
    assert audit.loss is None
    assert found.p_adjusted.tolist() == audit.p_adjusted.tolist()
    assert found.summary()[-len(loss.summary()) :] == loss.summary()
    again = FoldsAudit.from_json(found.to_json())
    assert again.to_json() == found.to_json()
    assert "What features save" in found.to_html()


@pytest.mark.thorough
def test_a_fold_whose_column_is_broken_is_worse_by_this_column(data):
    """Rows of the last fold have other rows' values of the strong column."""
    X, y = data[0].copy(), data[1]
    X.iloc[180:, 0] = np.random.default_rng(1).permutation(X.iloc[180:, 0])
    splits = list(KFold(4).split(X))
    loss = debias.audit_folds(fitted(X, y, splits), X, y, splits, loss=True, test=None).loss
    assert loss.worse == ["fold 3"]
    assert list(loss.costs_more("fold 3")) == ["strong"]
    assert any(text.startswith("fold 3 is worse than the other folds") for text in loss.summary())


@pytest.mark.thorough
def test_what_has_no_loss_of_rows_is_refused(data, splits, forests):
    X, y = data
    with pytest.raises(CompositionError, match="loss=1 is neither True nor False"):
        debias.audit_folds(forests, X, y, splits, loss=1)
    other = XGBRegressor(n_estimators=3, max_depth=2, objective="reg:absoluteerror")
    mixed = [*forests[:3], other.fit(X.iloc[splits[3][0]], y.iloc[splits[3][0]])]
    with pytest.raises(CompositionError, match="are different figures: mean squared error in fold 0, "):
        debias.audit_folds(mixed, X, y, splits, loss=True, test=None)
    votes = [VotingRegressor([("a", forest()), ("b", forest())]).fit(X.iloc[own], y.iloc[own]) for own, _ in splits]
    with pytest.raises(
        CompositionError, match="fold 0: loss=True divides the loss of one model of trees, and this Vot"
    ):
        debias.audit_folds(votes, X, y, splits, loss=True, test=None)
    cox = [
        XGBRegressor(objective="survival:cox", n_estimators=2).fit(X.iloc[own], y.iloc[own].abs()) for own, _ in splits
    ]
    with pytest.raises(CompositionError, match="fold 0: .* has no parts of the loss: its loss, cox, compares rows"):
        debias.audit_folds(cox, X, y.abs(), splits, loss=True, test=None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda loss: loss["means"][0].__setitem__(0, 9.0), "the parts of loss do not add up"),
        (lambda loss: loss.update(worse=["fold 1"]), "loss.worse does not follow"),
        (lambda loss: loss["fold_names"].reverse(), "loss does not have 4 folds"),
        (lambda loss: loss["errors"][0].__setitem__(0, -1.0), "below 0"),
        (lambda loss: loss["freedom"].pop(), "arrays of other lengths"),
        (lambda loss: loss.pop("metric"), "metric"),
        (lambda loss: loss.update(more=1), "more"),
    ],
)
def test_a_file_with_a_loss_that_is_not_ours_is_refused(data, splits, forests, change, message):
    plain = debias.audit_folds(forests, *data, splits, loss=True, test=None).to_dict()
    change(plain["loss"])
    with pytest.raises(DebiasError, match=message):
        FoldsAudit.from_dict(plain)


def test_a_label_that_a_fold_lacks_in_training_is_told_with_what_helps(data, splits):
    X, y = data
    label = np.where(np.arange(N_ROWS) < N_ROWS // len(splits), "rare", np.where(y > 0, "high", "low"))
    parts = [(own, test) for own, test in KFold(len(splits)).split(X)]
    models = [RandomForestClassifier(5, random_state=0).fit(X.iloc[own], label[own]) for own, _ in parts]
    with pytest.raises(RowsError, match="^fold 0: y has labels that the model never saw: .* as StratifiedKFold does"):
        debias.audit_folds(models, X, label, parts, test=None)


def test_columns_without_names_have_other_names_in_other_libraries(data, splits):
    X, y = data[0].to_numpy(), data[1].to_numpy()
    models = [
        (XGBRegressor(n_estimators=3) if k else forest()).fit(X[own], y[own]) for k, (own, _) in enumerate(splits)
    ]
    with pytest.raises(RowsError, match="If these are the same columns, train the models on data frames"):
        debias.audit_folds(models, X, y, splits, test=None)
