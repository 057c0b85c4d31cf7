"""Sums of a period: residuals against the libraries' predictions, variances against a jackknife from the rows."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRanker, XGBRegressor

import debias
from debias.data.response import encode
from debias.rows.kernels import period_sums as period_kernels
from debias.rows.loss_parts import loss_parts
from debias.rows.period_sums import PeriodSums, group_variance, random_order
from debias.warning_log import WarningLogOnce
from support.windows import members, score

N_TRAIN = 300


def drawn(seed, n, task):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    mean = X[:, 0] + np.abs(X[:, 1])
    y = {
        "numbers": mean + rng.normal(size=n),
        "two": (mean + rng.normal(size=n) > 0.5).astype(int),
        "three": np.digitize(mean + rng.normal(size=n), [0.0, 1.5]),
        "counts": rng.poisson(np.exp(mean / 3)),
    }
    return X, y[task]


def boosted(kind, **settings):
    return kind(n_estimators=8, max_depth=3, n_jobs=1, random_state=0, **settings)


MODELS = {
    "forest": (RandomForestRegressor(6, min_samples_leaf=5, random_state=0), "numbers"),
    "forest of classes": (RandomForestClassifier(6, min_samples_leaf=5, random_state=0), "three"),
    "XGBoost": (boosted(XGBRegressor), "numbers"),
    "XGBoost, two classes": (boosted(XGBClassifier), "two"),
    "XGBoost, three classes": (boosted(XGBClassifier), "three"),
    "XGBoost, counts": (boosted(XGBRegressor, objective="count:poisson"), "counts"),
}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    model, task = MODELS[request.param]
    X, y = drawn(0, N_TRAIN, task)
    model.fit(X, y)
    fresh, response = drawn(1, 137, task)
    if not hasattr(model, "predict_proba"):
        residual = (response - model.predict(fresh))[:, None]
    elif task == "two":
        residual = (response - model.predict_proba(fresh)[:, 1])[:, None]
    else:
        residual = np.eye(3)[response] - model.predict_proba(fresh)
    return model, fresh, response, residual


def of_tree(ensemble, tree, residual):
    first = ensemble.tree_output[tree]
    return residual[:, first : first + ensemble.value.shape[1]]


def summed(model, X, y, weight=None):
    sums = PeriodSums(model)
    sums.update(X, y, weight)
    return sums


def test_rows_know_their_margins_from_the_pass_that_adds_them(case, monkeypatch):
    model, X, y, _ = case
    sums, others = PeriodSums(model), []
    add_rows = sums.add_rows

    def added(rows):
        others.append((rows, replace(rows).margins))  # a copy, which routes the rows itself
        add_rows(rows)

    monkeypatch.setattr(sums, "add_rows", added)
    sums.update(X, y)
    ((rows, expected),) = others
    np.testing.assert_allclose(rows.__dict__["margins"], expected, rtol=0, atol=1e-12)


def test_the_residual_is_y_minus_the_prediction_of_the_library(case):
    model, X, y, residual = case
    weight = np.random.default_rng(2).uniform(0, 2, len(y))
    sums = summed(model, X, y, weight)
    ensemble = sums.ensemble
    reached = members(ensemble, X)
    for tree in range(ensemble.n_trees):
        nodes = slice(ensemble.tree_start[tree], ensemble.tree_start[tree + 1])
        expected = (reached[nodes] * weight) @ of_tree(ensemble, tree, residual)
        np.testing.assert_allclose(sums.residual[nodes], expected, rtol=1e-4, atol=1e-4)  # libraries predict in float32


def test_counts_responses_and_scores_are_those_of_node_sums(case):
    model, X, y, _ = case
    sums, plain = summed(model, X, y), debias.NodeSums(model)
    plain.update(X, y)
    assert (sums.n == plain.n).all()
    np.testing.assert_allclose(sums.s, plain.s, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        debias.score(model, sums, rows="held-out").values, debias.score(model, X, y, rows="held-out").values, rtol=1e-9
    )


@pytest.mark.thorough
def test_variances_are_those_of_a_jackknife_that_scores_the_other_rows_anew(case):
    model, X, y, residual = case
    weight = np.random.default_rng(3).uniform(0, 2, len(y))
    sums = summed(model, X, y, weight)
    order = random_order(len(y))
    X, y, weight, residual = X[order], y[order], weight[order], residual[order]
    ensemble, reached = sums.ensemble, members(sums.ensemble, X)
    one_hot = ensemble.is_classifier and residual.shape[1] > 1
    response = np.eye(3)[y] if one_hot else np.asarray(y, dtype=float)[:, None]
    edges = np.linspace(0, len(y), 11).astype(int)
    deviations, factors = [], []
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        others = np.r_[0:begin, end : len(y)]
        share = weight[begin:end].sum() / weight.sum()
        factors.append((share, 1 - share))
        deviations.append(
            [
                score(ensemble, reached, values, weight)
                - score(ensemble, reached[:, others], values[others], weight[others])
                for values in (response, residual)
            ]
        )
    (share, rest), (of_score, of_residual) = np.array(factors).T, np.swapaxes(deviations, 0, 1)
    variances, freedom = sums.variances()
    expected = [rest @ of_score**2, rest @ of_residual**2, rest @ (of_score * of_residual)]
    np.testing.assert_allclose(variances, expected, rtol=1e-3, atol=1e-10)
    assert freedom == pytest.approx(np.full((2, 4), 1 / (share**2).sum() - 1))


def test_sums_by_the_numbers_of_leaves_are_those_by_their_nodes(case, monkeypatch):
    model, *_ = case
    task = next(task for each, task in MODELS.values() if each is model)
    X, y = drawn(4, 4500, task)  # enough rows for bins
    weight = np.random.default_rng(5).uniform(0, 2, len(y))
    ways = []
    add = period_kernels.add_numbered_groups
    monkeypatch.setattr(period_kernels, "add_numbered_groups", lambda *args: ways.append("numbers") or add(*args))
    by_number = summed(model, X, y, weight).state()
    monkeypatch.setattr("debias.trees.routing.bins_for", lambda *args: None)
    by_node = summed(model, X, y, weight).state()
    assert bool(ways) == (by_number["s"].shape[1] == 1 and debias.plugin.extract(model).bins is not None)
    assert by_number.keys() == by_node.keys()
    for name, array in by_number.items():
        np.testing.assert_array_equal(array, by_node[name], err_msg=name)


def test_a_response_whose_variances_leave_the_range_of_floats_is_refused():
    """Sums that are not finite would be a damaged history."""
    X, y = drawn(6, 300, "numbers")
    model = RandomForestRegressor(5, random_state=0).fit(X, y * 1e45)
    with pytest.raises(debias.RowsError, match="so large that the squares of variances"):
        summed(model, *drawn(7, 50, "numbers")[:1], drawn(7, 50, "numbers")[1] * 1e45)


def batched(model, X, y, order, n_batches, weight=None):
    """Return sums over rows in some order that were added in batches, and the warnings."""
    sums, log = PeriodSums(model), WarningLogOnce(quiet=True)
    for rows in np.array_split(order, n_batches):
        sums.update(X[rows], y[rows], None if weight is None else weight[rows])
    sums.refuse_training_rows("held-out", log)
    return sums, [text for text in log.texts if "in batches that differ" in text]


@pytest.mark.thorough
@pytest.mark.parametrize("by", ["y", "a feature"])
@pytest.mark.parametrize(("n_batches", "n_blocks"), [(1, 1), (1, 3), (2, 1), (10, 1)])
def test_sorted_rows_have_the_variances_of_shuffled_rows_or_none(by, n_batches, n_blocks, monkeypatch):
    def blocks(n_rows, *_):  # of a table that is too large to be routed at once
        return [slice(k * n_rows // n_blocks, (k + 1) * n_rows // n_blocks) for k in range(n_blocks)]

    monkeypatch.setattr("debias.rows.period_sums.row_blocks", blocks)
    X, y = drawn(0, N_TRAIN, "numbers")
    model = MODELS["XGBoost"][0].fit(X, y)
    of_shuffled, of_sorted = [], []
    for seed in range(1, 61 if n_batches == 1 else 6):
        X, y = drawn(seed, 300, "numbers")
        sums, told = batched(model, X, y, np.argsort(y if by == "y" else X[:, 0]), n_batches)
        assert bool(told) == (n_batches > 1)
        assert np.isnan(sums.variances()[0]).all() == (n_batches > 1)
        of_sorted.append(sums.variances()[0])
        of_shuffled.append(summed(model, X, y).variances()[0])
    if n_batches == 1:
        ratio = np.mean(of_sorted, axis=0)[:2] / np.mean(of_shuffled, axis=0)[:2]
        # A mean of 60 variances with 9 degrees of freedom has a relative error of sqrt(2 / 9 / 60) = .06.
        np.testing.assert_allclose(ratio, 1, atol=4 * 0.06 * np.sqrt(2))


@pytest.mark.slow
def test_batches_that_are_random_samples_are_hardly_ever_called_different(case):
    model, _, _, _ = case
    task = next(task for each, task in MODELS.values() if each is model)
    rng, n_told = np.random.default_rng(7), 0
    for seed in range(10):
        X, y = drawn(seed + 100, 200, task)
        weight = rng.exponential(size=200) if seed % 2 else None
        sums, told = batched(model, X, y, rng.permutation(200), rng.integers(2, 40), weight)
        n_told += bool(told)
        assert told or np.isfinite(sums.variances()[0]).all()
    # 10 trials at 1e-4. The tails of F are heavier for skewed responses: at 1e-3, 2 have a probability of 5e-5.
    assert n_told <= 1


def test_batches_of_one_class_each_are_different():
    X, y = drawn(0, N_TRAIN, "two")
    model = MODELS["XGBoost, two classes"][0].fit(X, y)
    X, y = drawn(1, 200, "two")
    sums, told = PeriodSums(model), WarningLogOnce(quiet=True)
    for label in (0, 1):
        sums.update(X[y == label], y[y == label])
    assert "batches" in sums.state()
    sums.refuse_training_rows("held-out", told)
    assert "batches" not in sums.state()
    assert "Add its rows as one table" in told.texts[-1]
    again = PeriodSums(model)
    again.merge(sums.state())
    assert np.isnan(again.variances()[0]).all()
    assert again.total_squared_weight == 200


def test_parts_add_up_to_the_whole(case):
    model, X, y, _ = case
    whole = summed(model, X, y)
    parts = [PeriodSums(model) for _ in range(3)]
    for part, rows in zip(parts, np.array_split(np.arange(len(y)), 3), strict=True):
        part.update(X[rows], y[rows])
    both = parts[0] + parts[1] + parts[2]
    assert both.n_rows == whole.n_rows
    for name in ("n", "s", "residual"):
        np.testing.assert_allclose(getattr(both, name), getattr(whole, name), rtol=1e-10, atol=1e-10)
    # Parts are independent, so the variances of the sums of their terms add up.
    expected = sum(part.variances()[0] * part.n_rows**2 for part in parts) / len(y) ** 2
    np.testing.assert_allclose(both.variances()[0], expected, rtol=1e-10)


def test_a_state_holds_everything(case):
    model, X, y, _ = case
    sums = summed(model, X, y, np.linspace(0, 2, len(y)))
    sums.refuse_training_rows("held-out", WarningLogOnce(quiet=True))
    state = {name: array.copy() for name, array in sums.state().items()}
    again = sums.empty()
    again.merge(state)
    assert (again.n == sums.n).all()
    assert (again.residual == sums.residual).all()
    assert (again.variances()[0] == sums.variances()[0]).all()
    assert again.total_squared_weight == pytest.approx((np.linspace(0, 2, len(y)) ** 2).sum())
    again.merge(state)  # this does not change what was stored
    assert all((array == sums.state()[name]).all() for name, array in state.items())
    assert (PeriodSums.from_bytes(sums.to_bytes(), model).residual == sums.residual).all()


def test_whole_weights_are_repeated_rows(case):
    model, X, y, _ = case
    weight = np.arange(len(y)) % 3
    weighted, repeated = summed(model, X, y, weight), summed(model, np.repeat(X, weight, axis=0), np.repeat(y, weight))
    for name in ("n", "s", "residual"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-10, atol=1e-10)


def test_threads_do_not_change_the_sums(case):
    model, X, y, _ = case
    one, two = PeriodSums(model), PeriodSums(model, n_jobs=2)
    one.update(X, y)
    two.update(X, y)
    assert all((array == two.state()[name]).all() for name, array in one.state().items())


@pytest.mark.thorough
def test_a_state_is_smaller_than_two_numbers_a_node():
    X, y = drawn(0, 3000, "numbers")
    X = np.concatenate([X, np.random.default_rng(5).normal(size=(3000, 16))], axis=1)
    sums = summed(XGBRegressor(n_estimators=100, max_depth=6, n_jobs=1).fit(X[:2000], y[:2000]), X[2000:], y[2000:])
    sums.refuse_training_rows("held-out", WarningLogOnce(quiet=True))
    stored = sum(array.nbytes for array in sums.state().values())
    assert stored < 2 * sums.ensemble.n_nodes * sums.ensemble.n_outputs * 8


def test_groups_of_one_size_give_the_delete_a_group_jackknife():
    values = np.random.default_rng(0).normal(size=(6, 50))
    means = values.mean(axis=1)
    without = (means.sum() - means) / 5
    variance, freedom = group_variance(means.mean(), without, np.full(6, 1 / 6))
    assert variance == pytest.approx(means.var(ddof=1) / 6)
    assert freedom == pytest.approx(5)


def test_one_row_has_no_variance(case):
    model, X, y, _ = case
    sums = PeriodSums(model)
    sums.update(X[:1], y[:1])
    assert np.isnan(sums.variances()[0]).all()
    sums.update(X[1:], y[1:])
    assert np.isfinite(sums.variances()[0]).all()


def test_training_rows_are_refused(models):
    X, y = drawn(0, N_TRAIN, "numbers")
    model = models("lightgbm").fit(X, y)
    sums, log = summed(model, X, y), WarningLogOnce(quiet=True)
    with pytest.raises(debias.ProvenanceError, match="training rows"):
        sums.refuse_training_rows("auto", log)
    with pytest.raises(debias.plugin.CompositionError, match="rows='oob' is not one of"):
        sums.refuse_training_rows("oob", log)
    fresh = summed(model, *drawn(1, N_TRAIN, "numbers"))
    fresh.refuse_training_rows("auto", log)
    assert "leaf_counts" not in fresh.state()


def test_what_period_sums_cannot_do_is_refused(case):
    model, X, y, _ = case
    plain = debias.NodeSums(model)
    plain.update(X, y)
    with pytest.raises(debias.RowsError, match="without residuals"):
        PeriodSums(model).merge(plain.state())
    with pytest.raises(debias.plugin.CompositionError, match="no squares of the response"):
        _ = summed(model, X, y).q


def test_objectives_that_compare_rows_are_refused():
    X, y = drawn(0, 60, "counts")
    ranker = XGBRanker(n_estimators=3).fit(X, y, qid=np.arange(60) // 10)
    with pytest.raises(debias.plugin.CompositionError, match="compares rows .+periods of a history"):
        PeriodSums(ranker)


def test_the_parts_of_the_loss_are_sums_over_the_rows(case):
    model, X, y, _ = case
    weight = np.random.default_rng(11).uniform(0, 2, len(y)) * (np.arange(len(y)) % 5 > 0)
    sums = summed(model, X, y, weight)
    ensemble = sums.ensemble
    parts = loss_parts(ensemble, X.astype(ensemble.routing_dtype), encode(y, ensemble, len(y)))
    expected = [parts.loss, parts.base, *parts.saved.T, *parts.rows.T]
    np.testing.assert_allclose(sums.loss_parts[2:], [weight @ each for each in expected], rtol=1e-9, atol=1e-9)
    assert sums.loss_parts[1] == (weight > 0).sum()
    assert sums.loss_parts[0] == pytest.approx(weight.sum())


def test_a_sample_of_the_rows_stands_for_all_and_the_same_for_the_same_table(case):
    model, X, y, _ = case
    many, y_many = np.tile(X, (3, 1)), np.tile(y, 3)
    one, other = (PeriodSums(model, loss_rows=50) for _ in range(2))
    for sums in (one, other):
        sums.update(many, y_many)
    assert (one.loss_parts == other.loss_parts).all()
    assert one.loss_parts[:2].tolist() == [len(y_many), 50]
    ensemble, at = one.ensemble, random_order(len(y_many))[:50]
    parts = loss_parts(ensemble, many[at].astype(ensemble.routing_dtype), encode(y_many[at], ensemble, 50))
    np.testing.assert_allclose(one.loss_parts[2] / len(y_many), parts.loss.mean(), rtol=1e-9)
    _, _, loss, base, *features = one.loss_parts
    assert base - sum(features[: ensemble.n_features]) == pytest.approx(loss)
    another = PeriodSums(model, loss_rows=None)
    another.update(X, y)
    both = one + another  # tables weigh by their rows, and not by the rows of the sample
    np.testing.assert_allclose(both.loss_parts, one.loss_parts + another.loss_parts)
    assert both.loss_parts[0] == len(y_many) + len(y)


def test_sums_without_parts_of_some_rows_have_none(case):
    model, X, y, _ = case
    without, whole = PeriodSums(model, loss_rows=0), summed(model, X, y)
    assert whole.no_loss is None
    without.update(X, y)
    assert "without parts" in without.no_loss
    assert without.loss_parts is None
    assert (without + whole).loss_parts is None
    older = {name: array for name, array in whole.state().items() if name != "loss_parts"}
    again = whole.empty()
    again.merge(older)
    assert again.loss_parts is None


def test_why_a_model_has_no_parts():
    X, y = drawn(0, N_TRAIN, "numbers")
    custom = boosted(XGBRegressor, objective=lambda y, margin: (margin - y, np.ones_like(y))).fit(X, y)
    sums = summed(custom, *drawn(1, 50, "numbers"))
    assert sums.loss_parts is None
    assert "custom objective" in sums.no_loss
    gamma = HistGradientBoostingRegressor(loss="gamma", max_iter=3).fit(X, np.exp(y))
    sums = summed(gamma, X[:50], np.zeros(50))  # the gamma deviance of 0 is infinite
    assert sums.loss_parts is None
    assert sums.no_loss == "the gamma deviance of some rows is not finite"


def test_of_too_many_kept_rows_all_parts_lose_the_same_share(monkeypatch):
    monkeypatch.setattr("debias.rows.period_sums.MOST_KEPT", 90)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X[:, 0] + rng.normal(size=600)
    model = XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1).fit(X[:200], y[:200])
    sums = PeriodSums(model, kept_rows=50)
    for part in range(3):
        X[200 + 100 * part : 300 + 100 * part, 2] = part
        sums.update(X[200 + 100 * part : 300 + 100 * part], y[200 + 100 * part : 300 + 100 * part])
    rows, weight = sums.kept
    assert weight.size == 90
    assert weight.sum() == pytest.approx(300)
    np.testing.assert_allclose([weight[rows.X[:, 2] == part].sum() for part in range(3)], 100, rtol=0.15)
