"""The losses of folds: against sums by hand, with rows and blocks, and their levels and coverage by simulation."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold
from xgboost import XGBRegressor

from debias.p_values import holm
from debias.results.fields import Malformed
from debias.results.folds_loss import FoldsLoss
from debias.rows.loss_parts import loss_parts
from debias.rows.period_sums import PeriodSums
from debias.rows.preparation import batch_rows
from debias.significance.fold_losses import LossOfFold, losses_of_folds
from debias.significance.model_losses import RowLosses

N_FEATURES = 3


def made(n_rows=(40, 25, 60), seed=0, shift=0.0, blocks=None):
    """Losses of folds of numbers that add up; the last fold's first feature saves less by `shift`."""
    rng = np.random.default_rng(seed)
    folds, test, begin = {}, [], 0
    for k, n in enumerate(n_rows):
        saved = rng.normal(size=(n, N_FEATURES)) + [1.0, 0.3, 0.0]
        saved[:, 0] -= shift * (k == len(n_rows) - 1)
        base = 3 + rng.normal(size=n)
        losses = RowLosses(("a", "b", "c"), base - saved.sum(axis=1), base, saved, np.ones(N_FEATURES, dtype=bool))
        own = None if blocks is None else np.arange(n) // blocks
        folds[f"fold {k}"] = LossOfFold("log loss", losses, rng.uniform(0.5, 2, n), own)
        test.append(np.arange(begin, begin + n))
        begin += n
    return folds, losses_of_folds(folds, [None] * len(n_rows), test, begin, 0.05), test, begin


def test_means_and_errors_are_those_of_the_definition():
    folds, found, *_ = made()
    for k, fold in enumerate(folds.values()):
        values = np.column_stack([fold.losses.loss, fold.losses.base, fold.losses.saved])
        share = fold.weight / fold.weight.sum()
        mean = sum(share[i] * values[i] for i in range(len(share)))
        np.testing.assert_allclose(found.means[k], mean, rtol=1e-12)
        without = np.array([np.average(np.delete(values, i, 0), 0, np.delete(share, i)) for i in range(len(share))])
        np.testing.assert_allclose(found.errors[k] ** 2, ((1 - share)[:, None] * (mean - without) ** 2).sum(0))
        assert abs(found.loss[k] - found.base[k] + found.saved.iloc[k].sum()) < 1e-12
    corrected = np.sqrt(1 / 3 + np.mean([n / (125 - n) for n in (40, 25, 60)]))
    np.testing.assert_allclose(found.error_of_mean, corrected * found.means.std(axis=0, ddof=1))


def test_a_fold_is_compared_with_the_others_by_welch():
    """Rows of equal weight: Welch's test of two folds is that of scipy; of three, the mean of the others."""
    folds, *_ = made((40, 30))
    even = {
        name: LossOfFold("log loss", fold.losses, np.ones(len(fold.losses.loss)), None) for name, fold in folds.items()
    }
    found = losses_of_folds(even, [None] * 2, [np.arange(40), np.arange(40, 70)], 70, 0.05)
    one, other = (fold.losses for fold in even.values())
    p = [stats.ttest_ind(*pair, equal_var=False, alternative="greater").pvalue for pair in
         ((one.loss, other.loss), (other.loss, one.loss))]  # fmt: skip
    np.testing.assert_allclose(found.p_adjusted, holm(np.array(p)))
    of_saved = [
        stats.ttest_ind(a.saved[:, j], b.saved[:, j], equal_var=False, alternative="less").pvalue
        for a, b in ((one, other), (other, one))
        for j in range(N_FEATURES)
    ]
    np.testing.assert_allclose(found.costs_p_adjusted.ravel(), holm(np.array(of_saved)))


def test_the_worst_fold_is_named_with_its_feature_and_parts_add_up():
    _, found, *_ = made(shift=2.0)
    assert found.worse == ["fold 2"]
    assert list(found.costs_more("fold 2")) == ["a"]
    above = found.above_others[2]
    assert above[0] == pytest.approx(above[1] - above[2:].sum(), abs=1e-12)
    assert above == pytest.approx(found.means[2] - found.means[:2].mean(axis=0))
    assert found.to_frame()["costs_more_in"].to_dict() == {"a": "fold 2", "b": "", "c": ""}
    assert found.of_folds()["worse"].tolist() == [False, False, True]


def test_a_feature_that_the_model_of_a_fold_does_not_use_is_compared():
    """Its part there is 0 in all rows and has no error: it is compared with the mean of the others, by their error."""
    folds, _, test, n_rows = made((40, 30, 60))
    last = folds["fold 2"].losses
    saved = last.saved.copy()
    saved[:, 0] = 0.0
    unused = RowLosses(last.feature_names, last.base - saved.sum(axis=1), last.base, saved, last.used)
    folds["fold 2"] = LossOfFold("log loss", unused, folds["fold 2"].weight, None)
    found = losses_of_folds(folds, [None] * 3, test, n_rows, 0.05)
    assert np.isnan(found.errors[2, 2])
    variances = found.errors[:2, 2] ** 2 / 4
    error = np.sqrt(variances.sum())
    assert found.above_error[2, 2] == pytest.approx(error)
    freedom = variances.sum() ** 2 / (variances**2 / found.freedom[:2]).sum()
    p = stats.t.sf(found.means[:2, 2].mean() / error, freedom)
    assert p < 0.001
    smallest = np.sort(found._p_values[:, 2:].ravel())
    assert p == pytest.approx(smallest[0])
    assert found.costs_p_adjusted[2, 0] == pytest.approx(9 * p)
    assert list(found.costs_more("fold 2")) == ["a"]
    for fold in folds:  # in no fold: nothing to compare
        own = folds[fold].losses
        saved = own.saved * [0.0, 1.0, 1.0]
        none = RowLosses(own.feature_names, own.base - saved.sum(axis=1), own.base, saved, own.used)
        folds[fold] = LossOfFold("log loss", none, folds[fold].weight, None)
    found = losses_of_folds(folds, [None] * 3, test, n_rows, 0.05)
    assert np.isnan(found.costs_p_adjusted[:, 0]).all()
    assert np.isfinite(found.costs_p_adjusted[:, 1:]).all()


def test_blocks_are_the_units():
    folds, found, *_ = made((60, 60), blocks=5)
    fold = folds["fold 0"]
    total = fold.weight.reshape(12, 5).sum(axis=1)
    means = (fold.weight * fold.losses.loss).reshape(12, 5).sum(axis=1) / total
    share = total / total.sum()
    mean = share @ means
    without = (mean - share * means) / (1 - share)
    assert found.errors[0, 0] ** 2 == pytest.approx((1 - share) @ (mean - without) ** 2)
    assert found.n_units.tolist() == [12, 12]
    assert "blocks of rows" in found.summary()[-1]


@pytest.mark.parametrize("n_rows", [(9, 9), (40,)])
def test_few_rows_or_one_fold_are_not_tested(n_rows):
    _, found, *_ = made(n_rows)
    assert np.isnan(found.p_adjusted).all()
    assert found.worse == []
    assert found.of_folds()["worse"].isna().all()
    assert "was not tested" in found.summary()[-1]


def test_a_fold_of_few_rows_changes_nothing_for_the_others():
    """Folds of 40, 5, 30 and 60 rows, against sums by hand without the fold of 5."""
    folds, found, *_ = made((40, 5, 30, 60), shift=3.0)
    without = {name: fold for name, fold in folds.items() if name != "fold 1"}
    ends = np.cumsum([0, 40, 30, 60])
    test = [np.arange(*each) for each in zip(ends[:-1], ends[1:], strict=True)]
    as_if_absent = losses_of_folds(without, [None] * 3, test, 130, 0.05)
    kept = [0, 2, 3]
    for name in ("above_others", "above_error", "p_adjusted", "costs_p_adjusted"):
        assert getattr(found, name)[kept].tolist() == getattr(as_if_absent, name).tolist(), name
        assert np.isnan(getattr(found, name)[1]).all()
    p = []
    for k in kept:
        others = [j for j in kept if j != k]
        above = found.loss[k] - np.mean([found.loss[j] for j in others])
        parts = [found.errors[k, 0] ** 2, *(found.errors[j, 0] ** 2 / 4 for j in others)]
        freedom = sum(parts) ** 2 / sum(v**2 / found.freedom[j] for v, j in zip(parts, [k, *others], strict=True))
        p.append(stats.t.sf(above / np.sqrt(sum(parts)), freedom))
        assert found.above_others[k, 0] == pytest.approx(above)
        assert found.above_error[k, 0] == pytest.approx(np.sqrt(sum(parts)))
    np.testing.assert_allclose(found.p_adjusted[kept], holm(np.array(p)))
    assert (found.worse, found.not_compared) == (["fold 3"], ["fold 1"])
    worse = found.of_folds()["worse"]
    assert worse.iloc[kept].tolist() == [False, False, True]
    assert worse.isna().tolist() == [False, True, False, False]
    assert "Left out of the comparison of folds: fold 1 has fewer than 10 rows." in found.summary()
    again = FoldsLoss.read(found.to_dict(), found.fold_names)
    assert again.to_dict() == found.to_dict()
    with pytest.raises(Malformed, match="not_compared does not follow"):
        FoldsLoss.read(found.to_dict() | {"not_compared": []}, found.fold_names)


def test_why_a_fold_was_not_compared_is_said_of_this_fold():
    folds, *_ = made((40, 5, 7, 30))
    same = folds["fold 3"]
    rows = RowLosses(same.losses.feature_names, np.full(30, 2.0), 2.0 + same.losses.saved.sum(axis=1),
                     same.losses.saved, same.losses.used)  # fmt: skip
    folds["fold 3"] = LossOfFold("log loss", rows, same.weight, None)
    test = [np.arange(len(fold.weight)) for fold in folds.values()]
    found = losses_of_folds(folds, [None] * 4, test, 82, 0.05)
    assert found.of_folds()["worse"].isna().all()
    assert found.summary()[1:] == [
        "Whether a fold is worse than the others was not tested: fold 1 and fold 2 have fewer than 10 rows; fold 3 has "
        "the same loss in all rows; so fold 0 has no other to be compared with."
    ]
    folds["fold 4"] = LossOfFold("log loss", made((25,), seed=1)[0]["fold 0"].losses, np.ones(25), None)
    found = losses_of_folds(folds, [None] * 5, [*test, np.arange(25)], 107, 0.05)
    assert found.not_compared == ["fold 1", "fold 2", "fold 3"]
    assert found.summary()[1:3] == [
        "No fold that was compared has a higher loss than the others beyond chance.",
        "Left out of the comparison of folds: fold 1 and fold 2 have fewer than 10 rows; fold 3 has the same loss in "
        "all rows.",
    ]


def test_two_folds_have_no_error_of_their_mean():
    assert np.isnan(made((40, 40))[1].error_of_mean).all()


def loss_of_fold(model, X, y):
    """The losses of rows, as debias.audit_folds divides them."""
    empty = PeriodSums(model)
    rows = batch_rows(empty.model, empty.ensemble, X, y, None, empty.notes, 1, False)
    parts = loss_parts(empty.ensemble, np.ascontiguousarray(rows.table.matrix(empty.ensemble, np.arange(len(X)))),
                       rows.response)  # fmt: skip
    losses = RowLosses(tuple("abcde"), parts.loss, parts.base, parts.saved, np.ones(5, dtype=bool))
    return LossOfFold("mean squared error", losses, np.ones(len(X)), None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["XGBoost", "forest"])
def test_levels_and_coverage_over_folds(kind):
    """In 200 sets of 300 rows, 5 folds in random order: docs/folds.md cites these, which `pytest -rP` shows."""
    n_sets, n_rows, worse, costs, means, errors = 200, 300, 0, 0, [], []
    for number in range(n_sets):
        rng = np.random.default_rng([number, kind == "forest"])
        X = rng.normal(size=(n_rows, 5))
        y = X[:, 0] + 0.5 * np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + rng.normal(size=n_rows)
        cv = list(KFold(5).split(X))
        settings = {"random_state": number, "n_jobs": 1}
        model = RandomForestRegressor(30, min_samples_leaf=5, **settings)
        if kind == "XGBoost":
            model = XGBRegressor(n_estimators=30, max_depth=3, learning_rate=0.2, **settings)
        folds = {
            f"fold {k}": loss_of_fold(clone(model).fit(X[train], y[train]), X[test], y[test])
            for k, (train, test) in enumerate(cv)
        }
        found = losses_of_folds(folds, *zip(*cv, strict=True), n_rows, 0.05)
        worse += bool(found.worse)
        costs += bool((found.costs_p_adjusted <= 0.05).any())
        means.append(found.means)
        errors.append(found.error_of_mean)
    means, errors = np.array(means), np.array(errors)
    own, truth = means.mean(axis=1), means.mean(axis=(0, 1))
    t = stats.t.ppf(0.975, 4)
    plain = means.std(axis=1, ddof=1) / np.sqrt(5)
    covered = [(np.abs(own - truth) <= t * each).mean(axis=0) for each in (errors, plain)]
    print(f"{kind}: a fold is worse in {worse / n_sets:.3f}, a feature costs more in a fold in {costs / n_sets:.3f}")
    print(f"coverage, loss, base, features: {np.round(covered[0], 3)}, by S / sqrt(K): {np.round(covered[1], 3)}")
    limit = 0.05 + 2 * np.sqrt(0.05 * 0.95 / n_sets)
    assert worse / n_sets <= limit
    assert costs / n_sets <= limit
    assert (covered[0] >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / n_sets)).all()
