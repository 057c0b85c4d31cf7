"""Columns that are nearly the same, against rank correlations of scipy and the definition of the sets."""

import numpy as np
import pytest
from scipy.stats import spearmanr

import debias
from debias.data.similar_columns import MOST_ROWS, near_duplicates


def found(X, categories=()):
    names = [f"f{k}" for k in range(X.shape[1])]
    of_categories = np.isin(np.arange(X.shape[1]), list(categories))
    return {each.features: each.correlation for each in near_duplicates(X, names, of_categories)}


@pytest.mark.parametrize("seed", range(20))
def test_sets_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(60, 3))
    X = np.column_stack(
        [base[:, rng.integers(3)] * rng.choice([-1, 1]) + rng.normal(size=60) * s for s in rng.choice([0, 0.1, 0.3], 9)]
    )
    X[:, 0] = np.round(X[:, 0], 1)  # ties
    rho = np.abs(spearmanr(X).statistic)
    free, expected = list(range(9)), {}
    while free:
        chosen = [free.pop(0)]
        for k in list(free):
            if min(rho[k, j] for j in chosen) >= 0.95:
                chosen.append(k)
                free.remove(k)
        if len(chosen) > 1:
            expected[tuple(f"f{k}" for k in chosen)] = min(rho[j, k] for j in chosen for k in chosen if j != k)
    sets = found(X)
    assert list(sets) == list(expected)
    assert list(sets.values()) == pytest.approx(list(expected.values()))


def test_a_monotone_function_is_the_same_column_and_a_constant_is_like_none():
    x = np.random.default_rng(0).normal(size=40)
    assert found(np.column_stack([x, np.exp(x), -x, np.ones(40)])) == {("f0", "f1", "f2"): pytest.approx(1)}
    assert found(np.ones((40, 2))) == {}


def test_columns_are_compared_if_the_same_rows_are_missing():
    """Two columns that are missing in nearly all rows, the same ones, are not the same for this reason."""
    rng = np.random.default_rng(0)
    x, gap = rng.normal(size=200), rng.random(200) < 0.5
    missing = np.where(gap, np.nan, x)
    assert found(np.column_stack([missing, 2 * missing])) == {("f0", "f1"): pytest.approx(1)}
    assert found(np.column_stack([missing, x])) == {}
    assert found(np.column_stack([missing, np.where(gap, np.nan, rng.normal(size=200))])) == {}
    assert found(np.full((200, 2), np.nan)) == {}


def test_categories_are_compared_by_what_they_group_not_by_the_order_of_codes():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, 200).astype(float)
    other = np.array([3.0, 0.0, 4.0, 1.0, 2.0])[codes.astype(int)]
    X = np.column_stack([codes, other, codes])
    assert found(X, categories=(0, 1, 2)) == {("f0", "f1", "f2"): 1.0}
    assert found(X) == {("f0", "f2"): pytest.approx(1)}
    coarser = np.minimum(codes, 3)
    assert found(np.column_stack([codes, coarser]), categories=(0, 1)) == {}
    codes[:9] = np.nan
    assert found(np.column_stack([codes, other]), categories=(0, 1)) == {}


def test_few_rows_show_no_resemblance():
    x = np.arange(9.0)
    assert found(np.column_stack([x, x])) == {}
    assert found(np.column_stack([np.arange(11.0)] * 2)) == {("f0", "f1"): pytest.approx(1)}


def test_rare_values_that_agree_in_few_rows_show_no_resemblance():
    """In 2,000 of 100,000 rows, two flags with a correlation of one half may have the same one or two rows."""
    flags = np.zeros((2000, 2))
    flags[[5, 900]] = 1
    assert found(flags) == found(flags, categories=(0, 1)) == {}
    assert found(np.zeros((2000, 2)), categories=(0, 1)) == {}
    flags[1000:] = np.nan
    assert found(flags) == {}
    flags[:10] = 1
    assert found(flags) == {("f0", "f1"): pytest.approx(1)}


@pytest.fixture(scope="module")
def doubled(diabetes, models):
    X, y = diabetes
    X = X.assign(bmi_in_pounds=2.2 * X["bmi"] + 1, twin_of_noise=0.0, noise=0.0)
    X["noise"] = np.random.default_rng(0).normal(size=len(X))
    X["twin_of_noise"] = X["noise"]
    return models("sklearn", n_estimators=60, max_features=0.5).fit(X, y), X, y


@pytest.mark.thorough
def test_an_audit_names_informative_columns_that_are_the_same(doubled):
    model, X, y = doubled
    audit = debias.audit(model, X, y, random_state=0)
    (each,) = audit.near_duplicates
    assert set(each.features) == {"bmi", "bmi_in_pounds"}
    assert each.features[0] == max(each.features, key=lambda name: audit.to_frame().loc[name, "share"])
    told = next(line for line in audit.summary() if "nearly the same column" in line)
    assert told.startswith(f"{each.features[0]} and {each.features[1]} are nearly the same column")
    assert told in audit.to_html()


def test_what_is_not_known_is_none(doubled):
    model, X, y = doubled
    assert debias.audit(model, X, y, test=None).near_duplicates is None
    grouped = debias.audit(model, X, y, groups={"both": ["bmi", "bmi_in_pounds"]}, random_state=0)
    assert grouped.near_duplicates == ()  # groups are not compared


def test_many_rows_are_thinned_out_and_nothing_is_changed():
    rng = np.random.default_rng(0)
    from sklearn.ensemble import RandomForestRegressor

    X = rng.normal(size=(MOST_ROWS + 2000, 1)) * [1.0, 2.0]
    before = X.copy()
    model = RandomForestRegressor(5, max_leaf_nodes=20, max_features=1, random_state=0).fit(X[:2000], X[:2000, 0])
    audit = debias.audit(model, X[2000:], X[2000:, 0], [], rows="held-out", random_state=0)
    assert [each.features for each in audit.near_duplicates] in ([("x0", "x1")], [("x1", "x0")])
    np.testing.assert_array_equal(X, before)


def test_categories_of_a_booster_are_found_in_its_trees():
    import lightgbm
    import pandas as pd

    rng = np.random.default_rng(0)
    code = rng.integers(0, 6, 900)
    label = np.array(list("uvwxyz"))[code]
    other = np.array(list("CAFBED"))[code]
    X = pd.DataFrame({"one": pd.Categorical(label), "two": pd.Categorical(other), "three": rng.normal(size=900)})
    y = np.array([0, 5, 1, 4, 2, 3])[code] + rng.normal(size=900)
    model = lightgbm.LGBMRegressor(n_estimators=30, colsample_bytree=0.4, verbose=-1, n_jobs=1).fit(X[:500], y[:500])
    audit = debias.audit(model, X[500:], y[500:], [], random_state=0)
    assert [set(each.features) for each in audit.near_duplicates] == [{"one", "two"}]
    assert audit.near_duplicates[0].correlation == 1
