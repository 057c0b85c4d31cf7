"""A response, weights or labels whose pandas index has the rows of X in another order are refused, and said."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline

import debias
from debias.data.row_order import refuse_other_order

N = 120


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"), index=rng.permutation(N) + 1000)
    return X, X["a"] + rng.normal(size=N)


@pytest.fixture(scope="module")
def forest(rows):
    X, y = rows
    again = np.random.default_rng(1).normal(size=(2 * N, 3))
    return RandomForestRegressor(5, random_state=0).fit(pd.DataFrame(again, columns=X.columns), again[:, 0])


def shuffled(series):
    return series.sample(frac=1, random_state=1)


REFUSED = r"{} has the same index as X, but in another order \(row 0 is .* in X and .* in {}\): {}\.loc\[X\.index\]"


@pytest.mark.parametrize("call", [debias.score, debias.audit, debias.contributions])
def test_y_in_another_order_is_refused(call, forest, rows):
    X, y = rows
    with pytest.raises(debias.RowsError, match=REFUSED.format("y", "y", "y")):
        call(forest, X, shuffled(y), rows="held-out")
    assert call(forest, X, y, rows="held-out") is not None


def test_aligned_as_the_message_says_it_is_the_same_response(forest, rows):
    X, y = rows
    found = debias.score(forest, X, shuffled(y).loc[X.index], rows="held-out")
    np.testing.assert_array_equal(found.values, debias.score(forest, X, y, rows="held-out").values)


@pytest.mark.parametrize("name", ["sample_weight", "blocks"])
def test_weights_and_blocks_in_another_order_are_refused(name, forest, rows):
    X, y = rows
    other = shuffled(pd.Series(np.arange(N) // 2 + 1, index=X.index))
    for call in (debias.score, debias.audit, debias.contributions):
        with pytest.raises(debias.RowsError, match=REFUSED.format(name, name, name)):
            call(forest, debias.Dataset(X, y, **{name: other}), rows="held-out")


def test_a_base_margin_in_another_order_is_refused(rows):
    import xgboost

    X, y = rows
    model = xgboost.XGBRegressor(n_estimators=2, n_jobs=1).fit(X, y)
    with pytest.raises(debias.RowsError, match="base_margin has the same index"):
        debias.score(model, debias.Dataset(X, y, base_margin=shuffled(y)), rows="held-out")


def test_training_rows_in_another_order_are_refused(forest, rows):
    X, y = rows
    for train in ((X, shuffled(y)), debias.Dataset(X, y, sample_weight=shuffled(y.abs()))):
        with pytest.raises(debias.RowsError, match="of train has the same index as the X of train"):
            debias.score(forest, X.to_numpy(), y, rows="held-out", train=train)


def test_it_is_seen_before_a_pipeline_makes_arrays(rows):
    X, y = rows
    model = make_pipeline(make_column_transformer(("passthrough", list("abc"))), RandomForestRegressor(3)).fit(X, y)
    with pytest.raises(debias.RowsError, match="y has the same index"):
        debias.score(model, X, shuffled(y), rows="held-out")


def test_batches_and_node_sums_are_looked_at(forest, rows):
    X, y = rows
    with pytest.raises(debias.RowsError, match="batch that begins with row 60.*y has the same index"):
        debias.score(forest, [(X[:60], y[:60]), (X[60:], shuffled(y[60:]))], rows="held-out")
    with pytest.raises(debias.RowsError, match="y has the same index"):
        debias.NodeSums(forest).update(X, shuffled(y))


def test_data_refits_comparisons_and_selectors_are_looked_at(forest, rows):
    X, y = rows
    from debias_plugins.integrations.selector import DebiasedSelector

    for call in (
        lambda: debias.score(None, X, shuffled(y), "guide"),
        lambda: debias.plugin.Data.of(X, shuffled(y)),
        lambda: debias.refit(forest, X, shuffled(y)),
        lambda: debias.compare(forest, X, shuffled(y), ["mdi", "mdi_oob"], rows="held-out"),
        lambda: debias.score(forest, X, shuffled(y), "response_permutation(mdi)", rows="held-out", train=(X, y)),
        lambda: DebiasedSelector(RandomForestRegressor(3), validation_fraction=0.5).fit(X, shuffled(y)),
    ):
        with pytest.raises(debias.RowsError, match="y has the same index"):
            call()


@pytest.mark.parametrize(
    "other",
    [
        lambda y: y.to_numpy(),
        lambda y: y.tolist(),
        lambda y: y.reset_index(drop=True),
        lambda y: y.set_axis(y.index.astype(str)),
        lambda y: y.set_axis(y.index.astype(float)),
        lambda y: y.to_frame(),
        lambda y: pl.Series(y.to_numpy()),
    ],
)
def test_other_indexes_tell_nothing_and_rows_are_taken_by_position(other, forest, rows):
    X, y = rows
    expected = debias.score(forest, X, y, rows="held-out").values
    np.testing.assert_array_equal(debias.score(forest, X, other(y), rows="held-out").values, expected)


@pytest.mark.parametrize("other", [lambda y: y.set_axis(y.index + 5000), lambda y: y.set_axis([*y.index[1:], -1])])
def test_other_labels_of_the_same_type_may_be_of_other_rows(other, forest, rows):
    """Such as X of one part of a split and y of another, which have the same length by accident."""
    X, y = rows
    with pytest.raises(debias.RowsError, match=r"another index than X \(row 0 is (\d+) in X and (?!\1).*to_numpy"):
        debias.score(forest, X, other(y), rows="held-out")
    refuse_other_order(X.reset_index(drop=True), y=other(y))


def test_a_range_index_beside_its_permutation_cannot_be_told_and_is_refused():
    """X was shuffled, and y either was not, or was and lost its labels: which, nobody can say."""
    X = pd.DataFrame({"a": range(5)}).sample(frac=1, random_state=0)
    with pytest.raises(debias.RowsError, match=r"pass y\.to_numpy\(\): arrays are matched by position"):
        refuse_other_order(X, y=pd.Series(range(5)))
    refuse_other_order(X, y=pd.Series(range(5)).to_numpy())


def test_labels_that_repeat_cannot_be_put_in_order():
    X = pd.DataFrame({"a": range(4)}, index=[1, 1, 2, 2])
    refuse_other_order(X, y=pd.Series(range(4), index=[1, 1, 2, 2]))
    with pytest.raises(debias.RowsError, match=r"another index than X \(row 1 is 1 in X and 2 in y\)"):
        refuse_other_order(X, y=pd.Series(range(4), index=[1, 2, 2, 2]))
    with pytest.raises(debias.RowsError, match="labels are repeated, so they cannot be put in order"):
        refuse_other_order(X, y=pd.Series(range(4), index=[1, 2, 1, 2]))


def test_indexes_of_several_levels_and_missing_labels_are_compared():
    levels = pd.MultiIndex.from_product([["u", "v"], [1, 2]])
    X = pd.DataFrame({"a": range(4)}, index=levels)
    with pytest.raises(debias.RowsError, match=r"row 0 is \('u', .* in X and \('v', "):
        refuse_other_order(X, y=pd.Series(range(4), index=levels[::-1]))
    missing = pd.Index([1.0, np.nan, 2.0])
    refuse_other_order(pd.DataFrame({"a": range(3)}, index=missing), y=pd.Series(range(3), index=missing))
    with pytest.raises(debias.RowsError, match=r"row 1 is .*nan.* in X and .*2\.0.* in y"):
        refuse_other_order(
            pd.DataFrame({"a": range(3)}, index=missing), y=pd.Series(range(3), index=[1.0, 2.0, np.nan])
        )
