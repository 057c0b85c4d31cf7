"""Tests of `debias.testing.check_scorer`: its messages for scorers that break their contract, each in one way."""

import threading

import numpy as np
import pytest

import debias
from debias.testing import check_scorer


@pytest.mark.parametrize(
    "name", ["mdi", "mdi_oob", "mdi_oob(shrinkage=30)", "ufi", "oob_split", "oob_loss", "gain", "split_count",
             "shap_oob", "gini_merit(form='merit')", "chi_square"]
)  # fmt: skip
def test_ours_keep_their_promises(name):
    check_scorer(debias.plugin.scorer(name))


def test_what_asks_the_library_is_checked_on_a_model(diabetes, models):
    with pytest.raises(AssertionError, match="refuses all models or data.*Pass model="):
        check_scorer(debias.plugin.scorer("native"))
    check_scorer(debias.plugin.scorer("native"), models("sklearn").fit(*diabetes), *diabetes)


def made(function, name="broken", unit="x", **more):
    return debias.plugin.scorer_plugin(name, unit=unit, **more)(function)


def made_of_data(function, **more):
    return debias.plugin.data_scorer_plugin("broken", unit="x", **more)(function)


def zeros(ensemble, rows):
    return np.zeros(ensemble.n_features)


def on_data(data):
    return np.zeros(data.n_features)


class Lenient(debias.plugin.TreeScorer):
    """Takes any option."""

    name, unit = "lenient", "x"

    def score(self, ensemble, rows):
        return np.zeros(ensemble.n_features), {}

    def with_options(self, **options):
        return self


class NoPair(Lenient):
    def score(self, ensemble, rows):
        return np.zeros(ensemble.n_features)

    def with_options(self, **options):
        raise debias.plugin.CompositionError("none")


class NoDictionary(NoPair):
    def score(self, ensemble, rows):
        return np.zeros(ensemble.n_features), "details"


class WrongShape(NoPair):
    def score(self, ensemble, rows):
        return np.zeros(ensemble.n_features - 1), {}


class NotFinite(NoPair):
    def score(self, ensemble, rows):
        return np.full(ensemble.n_features, np.nan), {}


def takes_the_last_column(ensemble, rows):
    score = np.zeros(ensemble.n_features)
    np.add.at(score, ensemble.feature, 1.0)  # -1 at leaves
    return score


def writes_into_the_ensemble(ensemble, rows):
    ensemble.value[:] = 0
    return np.zeros(ensemble.n_features)


def changes_the_sums(ensemble, rows):
    rows.node_sums.s[:] += 1
    return np.zeros(ensemble.n_features)


def draws_globally(ensemble, rows):
    return np.random.rand(ensemble.n_features)  # noqa: NPY002 - it is what is checked


def not_repeatable(ensemble, rows):
    return np.random.default_rng().random(ensemble.n_features)


def fails(ensemble, rows):
    raise KeyError("gain")


def reads_rows(ensemble, rows):
    return np.full(ensemble.n_features, float(rows.n_rows))


def too_short(ensemble, rows):
    return np.zeros(3)


def divides_by_zero(ensemble, rows):
    splits = np.bincount(ensemble.feature[ensemble.splits], minlength=ensemble.n_features)
    with np.errstate(divide="ignore"):
        return 1 / splits


def p_of_zero(ensemble, rows):
    return np.zeros(ensemble.n_features), {"p_value": np.zeros(ensemble.n_features)}


def selects_one(ensemble, rows):
    return np.zeros(ensemble.n_features), {"selected": np.ones(1, dtype=bool)}


def one_factor(ensemble, rows):
    return np.ones(1)


def all_factors(ensemble, rows):
    return np.ones(ensemble.n_nodes)


def refuses(ensemble, rows):
    raise debias.plugin.CompositionError("only models of another library")


def first_values(data):
    return np.array([column.values[0] if np.isfinite(column.values[0]) else 0.0 for column in data.columns])


def correlation(data):
    y = data.numbers
    return np.array([np.nan_to_num(column.values) @ (y - y.mean()) for column in data.columns])


def one_number(data):
    return np.ones(1)


def ones(data):
    return np.ones(data.n_features)


def changes_the_data(data):
    data.y[:] = data.y[0]
    return np.zeros(data.n_features)


LOCK = threading.Lock()


def with_a_lock(ensemble, rows, *, lock=None):
    return np.zeros(ensemble.n_features)


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (object(), "is not a scorer: it has no gives, inner, name, .*Inherit from debias.plugin.TreeScorer"),
        (made(zeros, name="inverse-depth"), "cannot be used in an expression"),
        (made(zeros, unit=""), "say in words what one unit"),
        (debias.plugin.scorer("shadow(mdi)"), "check_meta_method checks its meta-method"),
        (Lenient(), "accepts an unknown option.*keyword-only"),
        (NoPair(), r"returns ndarray, not the pair \(values, details\)"),
        (NoDictionary(), "details that are not a dictionary"),
        (WrongShape(), r"returns shape \(4,\), not \(5,\): one number per feature.*minlength"),
        (NotFinite(), "not finite: a feature without a split"),
        (made(takes_the_last_column), "depend on the position of columns.*Leaves have feature -1"),
        (made(writes_into_the_ensemble), "writes into arrays of the ensemble.*copy an array"),
        (made(changes_the_sums), "changes the data it gets, which all scorers of a run share"),
        (made(draws_globally), "draws from the global random state.*default_rng"),
        (made(not_repeatable), "other numbers for the same seed"),
        (made(fails), "fails on a regression forest: KeyError: 'gain'. A scorer that cannot score a model raises"),
        (made(reads_rows, needs_rows=False), "fails on a regression forest without rows.*set needs_rows=True"),
        (made(too_short), r"broken returns shape \(3,\), not \(5,\)"),
        (made(divides_by_zero), "broken returns scores that are not finite: a feature without a split"),
        (made(p_of_zero), r"not above 0 and at most 1: count the observed score as one of the draws"),
        (made(selects_one), r"details\['selected'\] of broken has shape \(1,\); the last axis"),
        (made(zeros, node_weight=one_factor), r"node_weight of broken has shape \(1,\)"),
        (made(zeros, node_weight=all_factors), "node_weight of broken does not match the score"),
        (made(refuses), "refuses all models or data.*only models of another library"),
        (made(with_a_lock).with_options(lock=LOCK), "cannot be sent to another process.*keep locks"),
        (made_of_data(changes_the_data), "changes the data it gets"),
        (made_of_data(first_values, null_mean=ones), "null_mean of broken is not the mean.*over 300"),
        (made_of_data(correlation, null_mean=one_number), r"not \(4,\)"),
    ],
)  # fmt: skip
def test_what_breaks_a_promise_is_told(scorer, message):
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        check_scorer(scorer)


def test_a_null_mean_that_is_right_passes():
    check_scorer(made_of_data(correlation, null_mean=on_data))  # y is centred, so its mean is 0
