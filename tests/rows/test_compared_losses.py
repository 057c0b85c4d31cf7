"""The losses by which models are compared, against XGBoost, scikit-learn and the definitions."""

import numpy as np
import pytest
import xgboost
from scipy.optimize import minimize_scalar
from sklearn.metrics import ndcg_score

import debias
from adapters.test_rankers import ranked, xgb
from adapters.test_survival_boosters import aft_model, intervals
from debias import RowsError
from debias.api.prepared import prepared_members
from debias.rows.compared_losses import compared_losses, queries_to_rank
from debias.rows.performance import performance_of
from debias.rows.request import Request
from debias.significance.lost_gain import lost_gain
from debias.trees.survival_objectives import LARGEST_LOSS, AftObjective, CoxObjective
from support import survival

DISTRIBUTIONS = ["normal", "logistic", "extreme"]


def rows_of(model, X, y, **settings):
    (prepared,) = prepared_members(Request.of(model, debias.Dataset(X, y, **settings), rows="held-out"), [])
    return prepared.rows


def nloglik_of_xgboost(y, margin, distribution, scale):
    """Return XGBoost's metric ``aft-nloglik`` of each row: the mean of one row."""
    X = np.zeros((2, 1))
    start = xgboost.DMatrix(X, label_lower_bound=[1, 2], label_upper_bound=[1, 2])
    empty = xgboost.train({"objective": "survival:aft", "nthread": 1}, start, 0)
    # The metric has the settings of the loss only if it is named together with them.
    loss = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": scale}
    empty.set_param({"eval_metric": "aft-nloglik", **loss})
    found = []
    for (lower, upper), at in zip(y, margin, strict=True):
        one = xgboost.DMatrix(X[:1], label_lower_bound=[lower], label_upper_bound=[upper], base_margin=[at])
        found.append(float(empty.eval(one).split(":")[1]))
    return np.array(found)


@pytest.mark.parametrize("scale", [0.7, 2.0])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_loss_of_failure_times_is_the_metric_of_xgboost(distribution, scale):
    y, rng = intervals(60, 0)[1], np.random.default_rng(0)
    margin = rng.normal(scale=3.0, size=60)
    margin[:6] += 70.0  # XGBoost counts no row more than this
    loss = AftObjective(parameter=(scale,), distribution=distribution).loss(y, margin[:, None])
    y = y.astype(np.float32)
    np.testing.assert_allclose(loss, nloglik_of_xgboost(y, margin, distribution, scale), rtol=2e-4, atol=2e-5)
    assert (loss == LARGEST_LOSS).any()
    assert (loss < LARGEST_LOSS).sum() > 40
    kinds = (y[:, 0] == y[:, 1]) + 2 * (y[:, 0] == 0) + 4 * np.isinf(y[:, 1])
    assert np.unique(kinds).size == 4  # exact, before, after and between bounds


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_response_of_failure_times_is_the_slope_of_their_loss(distribution):
    objective = AftObjective(parameter=(0.8,), distribution=distribution)
    y, step = intervals(200, 1)[1], 1e-5
    margin = np.random.default_rng(0).normal(size=(200, 1))
    slope = (objective.loss(y, margin - step) - objective.loss(y, margin + step)) / (2 * step)
    inside = (objective.loss(y, margin) < LARGEST_LOSS - 1) & (np.abs(slope) < 14)
    assert inside.sum() > 150
    np.testing.assert_allclose(objective.response(y, margin)[inside, 0], slope[inside], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_best_constant_of_failure_times_has_the_least_loss(distribution):
    objective = AftObjective(parameter=(0.3,), distribution=distribution)
    y = intervals(150, 2, effect=2.0)[1]
    weight = np.random.default_rng(0).integers(0, 3, 150).astype(float)
    (best,) = objective.best_constant(y, weight)

    def loss(constant):
        return weight @ objective.loss(y, np.full((150, 1), constant))

    assert loss(best) <= min(loss(constant) for constant in np.linspace(-15, 15, 1001)) + 1e-9
    assert loss(best) < loss(0.0)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_least_loss_of_a_failure_time_is_that_of_the_best_margin_for_it(distribution):
    objective = AftObjective(parameter=(0.8,), distribution=distribution)
    y = np.array([[2.0, 2.0], [0.3, 0.3], [1.0, 2.0], [0.5, 40.0], [0.0, 3.0], [2.0, np.inf]])
    for row, least in zip(y, objective.least_loss(y), strict=True):

        def loss(margin, row=row):
            return float(objective.loss(row[None], np.array([[margin]]))[0])

        found = minimize_scalar(loss, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9})
        assert least == pytest.approx(min(found.fun, loss(-30.0), loss(30.0)), abs=1e-6)


def test_the_performance_by_the_loss_of_failure_times_is_the_metric_of_xgboost():
    model, (X, y) = aft_model(*intervals(200, 0)), intervals(200, 1)
    rows = rows_of(model, X, y)
    found = performance_of(rows, of_loss=True)
    theirs = model.eval(xgboost.DMatrix(X, label_lower_bound=y[:, 0], label_upper_bound=y[:, 1]))
    assert found.metric == "negative log likelihood"
    assert found.value == pytest.approx(float(theirs.split(":")[1]), rel=1e-5)
    assert compared_losses(rows).loss(rows.margins).mean() == pytest.approx(found.value)
    assert compared_losses(rows).of_constant().mean() == pytest.approx(found.constant)
    assert performance_of(rows).metric == "concordance"
    found.check()


def rankings(seed=0):
    """Return a ranker and its rows of 60 queries in a random order: one of one row, one of one relevance."""
    X, y, query = ranked(seed)
    y[query == 7] = 2
    kept = (query != 5) | (np.arange(len(query)) == 40)
    X, y, query = X[kept], y[kept], query[kept]
    order = np.random.default_rng(seed).permutation(len(y))
    return xgb(*ranked(3), max_depth=2, rounds=2), X.iloc[order].reset_index(drop=True), y[order], query[order]


def test_the_loss_of_a_query_is_one_minus_its_ndcg_and_ties_are_a_mean_over_orders():
    model, X, y, query = rankings()
    rows = rows_of(model, X, y, qid=query)
    compared, margin = compared_losses(rows), rows.margins[:, 0]
    labels = query[np.unique(rows.query, return_index=True)[1]][queries_to_rank(rows)]
    assert np.unique(margin).size < 20  # few leaves, so many ties
    assert set(range(60)) - set(labels.tolist()) == {5, 7}
    gain = 2.0**y - 1  # scikit-learn takes the gain for relevance
    expected = [1 - ndcg_score([gain[query == q]], [margin[query == q]]) for q in labels]
    np.testing.assert_allclose(compared.loss(rows.margins), expected, atol=1e-9)
    tied = [1 - ndcg_score([gain[query == q]], [np.zeros((query == q).sum())]) for q in labels]
    np.testing.assert_allclose(compared.of_constant(), tied, atol=1e-9)
    assert compared.n_independent == 58


def test_the_mean_over_queries_is_the_ndcg_of_xgboost_where_nothing_ties():
    X, y, query = ranked(1)
    model = xgb(*ranked(0), rounds=200, max_depth=6)
    rows = rows_of(model, X, y, qid=query)
    compared, data = compared_losses(rows), xgboost.DMatrix(X, y, qid=query)
    model.set_param({"eval_metric": "ndcg"})
    theirs = float(model.eval(data).split("ndcg:")[1].split("\t")[0])
    ties = sum(np.unique(rows.margins[query == q]).size < 8 for q in range(60))
    assert ties == 0
    assert queries_to_rank(rows).size == 60
    assert 1 - compared.loss(rows.margins).mean() == pytest.approx(theirs, abs=1e-6)


def test_queries_have_their_weights_and_blocks():
    model, X, y, query = rankings()
    weight, block = (query % 3).astype(float), query // 2
    compared = compared_losses(rows_of(model, X, y, qid=query, sample_weight=weight, blocks=block))
    first = np.unique(query, return_index=True)[1]
    used = [q for q in range(60) if q not in (5, 7) and q % 3]  # queries of weight 0 are left out
    assert compared.weight.size == compared.blocks.size == len(used)
    assert sorted(compared.weight) == sorted(float(q % 3) for q in used)
    pairs = [block[first[q]] for q in used]
    assert compared.n_independent == np.unique(pairs).size


def test_rows_that_cannot_be_ranked_are_refused():
    model, X, y, query = rankings()
    with pytest.raises(RowsError, match="all rows of each query have the same relevance"):
        rows_of(model, X, np.ones_like(y), qid=query)
    with pytest.raises(RowsError, match="each query has one row"):
        rows_of(model, X, y, qid=np.arange(len(y)))


class SurvivalRows:
    """Rows of a survival model, as far as their losses need them."""

    class ensemble:  # noqa: N801
        objective = CoxObjective(signed=False)

    def __init__(self, y, weight=None, blocks=None):
        self.response = type("Response", (), {"target": np.column_stack([y["time"], y["event"]])})
        self.n_rows, self.blocks = len(y), blocks
        self.weight = np.ones(len(y)) if weight is None else weight


def discordance(y, risk):
    """Return the number of pairs in the wrong order, a tie of predictions as half, by loops over rows."""
    wrong, event, time = 0.0, y["event"], y["time"]
    for i in np.flatnonzero(event):
        for j in range(len(time)):
            if time[j] > time[i] or (time[j] == time[i] and not event[j]):
                wrong += 0.5 if risk[i] == risk[j] else float(risk[i] < risk[j])
    return wrong


@pytest.mark.parametrize("ties", [False, True])
def test_losses_of_survival_models_are_pseudo_values_of_the_jackknife(ties):
    n, rng = 40, np.random.default_rng(0)
    _, y = survival.rows(n, 0)
    if ties:
        y["time"] = np.ceil(4 * y["time"])
    risk = rng.integers(0, 8, n).astype(float)
    loss = compared_losses(SurvivalRows(y)).loss(risk[:, None])
    concordance = survival.concordance(y["event"], y["time"], risk, np.ones(n))
    assert loss.mean() == pytest.approx(1 - concordance, abs=1e-12)
    # The U-statistic is the share of all pairs of rows, comparable or not; the losses are it in another unit.
    of_all = discordance(y, risk) / (n * (n - 1) / 2)
    left_out = np.array([discordance(np.delete(y, k), np.delete(risk, k)) for k in range(n)]) / ((n - 1) * (n - 2) / 2)
    pseudo = n * of_all - (n - 1) * left_out
    np.testing.assert_allclose(loss, pseudo * (1 - concordance) / of_all, atol=1e-10)
    constant = compared_losses(SurvivalRows(y)).of_constant()
    assert constant.mean() == pytest.approx(0.5)


def test_a_weight_counts_pairs_as_rows_repeated():
    _, y = survival.rows(30, 1)
    rng = np.random.default_rng(0)
    risk, weight = rng.normal(size=30), rng.integers(0, 3, 30)
    weighted = compared_losses(SurvivalRows(y, weight.astype(float))).loss(risk[:, None])
    expected = 1 - survival.concordance(y["event"], y["time"], risk, weight)
    assert weighted @ weight / weight.sum() == pytest.approx(expected, abs=1e-12)


def test_survival_rows_without_a_pair_are_refused():
    y = survival.fields([False, True, False], [1.0, 2.0, 1.5])
    with pytest.raises(RowsError, match="no pair of these rows can be compared"):
        compared_losses(SurvivalRows(y)).of_constant()


def rejected(n, seed, n_draws):
    """Return the share of draws in which a loss of 30 % is denied, and in which it is claimed, where it is the truth.

    The risk of the model is that of the hazard, and the refit adds the noise with which it loses 30 % of the gain.
    """
    rng, low, high = np.random.default_rng(seed), 0, 0
    tolerance = true_loss()
    for _ in range(n_draws):
        y, risks = drawn(n, rng)
        compared = compared_losses(SurvivalRows(y))
        model, refit = (compared.loss(risk[:, None]) for risk in risks)
        gain = compared.of_constant() - model
        of = lost_gain((refit - model)[:, None], gain, compared.weight, None, tolerance=tolerance, alpha=0.05)
        high += of.high[0] < tolerance
        low += of.low[0] > tolerance
    return high / n_draws, low / n_draws


def drawn(n, rng):
    signal, noise = rng.normal(size=(2, n))
    time, censored = rng.exponential(np.exp(-signal)), rng.exponential(2.0, n)
    y = survival.fields(time <= censored, np.minimum(time, censored))
    return y, (signal, signal + 0.9 * noise)


def true_loss():
    """Return the share of the gain that the refit of :func:`drawn` loses, from 20,000 rows."""
    y, risks = drawn(20_000, np.random.default_rng(123))
    compared = compared_losses(SurvivalRows(y))
    model, refit = (compared.loss(risk[:, None]).mean() for risk in risks)
    return (refit - model) / (0.5 - model)


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 100])
def test_bounds_of_the_loss_of_concordance_are_wrong_as_often_as_they_say(n):
    n_draws = 250
    for share in rejected(n, n, n_draws):
        assert abs(share - 0.05) < 3 * np.sqrt(0.05 * 0.95 / n_draws)
