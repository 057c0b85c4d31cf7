"""Tests of an audit whose tested scorer is a third party's: centred covariances, each times a factor of its node."""

import numpy as np
import pytest
from debias_toy import tested_scorer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import debias
from debias.hooks.registry import plugin_manager
from debias.selection import DebiasedSelector

TESTED = "large_nodes(power=0.5)"


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Register the scorer of the distribution that docs/writing-plugins.md shows."""
    debias.plugin.register(tested_scorer)
    yield
    plugin_manager().unregister(tested_scorer)


@pytest.fixture(scope="module")
def rows():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return X.assign(noise=np.random.default_rng(0).normal(size=len(X))), y


@pytest.fixture(scope="module")
def forest(rows):
    return RandomForestRegressor(40, random_state=0).fit(*rows)


@pytest.fixture(scope="module")
def audit(forest, rows):
    return debias.audit(forest, *rows, tested=TESTED, random_state=0, test=debias.Permutation(100))


def test_with_a_factor_of_1_it_is_mdi_oob(forest, rows):
    """A check of the formula on the page: a power of 0 gives every node the factor 1."""
    own = debias.score(forest, *rows, "large_nodes(power=0.0)", random_state=0)
    np.testing.assert_allclose(own.values, debias.score(forest, *rows, random_state=0).values, rtol=1e-9)


def test_its_contributions_sum_to_the_score(forest, rows):
    contributions = debias.contributions(forest, *rows, scorer=TESTED)
    np.testing.assert_allclose(np.asarray(contributions).sum(axis=0), debias.score(forest, *rows, TESTED).values)


def test_verdicts_and_shares_are_of_this_scorer(audit):
    assert audit.tested_scores.scorer == TESTED
    assert audit.tested_scores.standard_error is not None
    positive = np.maximum(audit.tested_scores.values, 0.0)
    np.testing.assert_array_equal(audit.share, positive / positive.sum())
    verdict = dict(zip(audit.tested_scores.feature_names, audit.verdict, strict=True))
    assert (verdict["bmi"], verdict["s5"], verdict["noise"]) == ("informative", "informative", "indistinguishable")


def test_the_table_and_the_sentences_are_of_this_scorer(audit):
    assert list(audit.to_frame().columns) == [
        *("reported", "reported_unseen", "share", TESTED, "oob_loss", "honest_effects", "standard_error", "z"),
        *("p_value", "p_adjusted", "verdict", "dependence_p_adjusted", "dependence", "finding"),
    ]
    np.testing.assert_array_equal(
        audit.to_frame()[TESTED].sort_index(), audit.tested_scores.to_frame()[TESTED].sort_index()
    )
    assert any("not confirmed alone" in sentence for sentence in audit.summary())


def test_an_own_scorer_is_tested_on_held_out_rows_of_a_boosted_model(rows):
    X, y = rows
    booster = GradientBoostingRegressor(n_estimators=30, random_state=0).fit(X[:300], y[:300])
    audit = debias.audit(
        booster, X[300:], y[300:], tested=TESTED, rows="held-out", train=(X[:300], y[:300]), random_state=0
    )
    assert audit.tested_scores.scorer == TESTED
    assert audit.to_frame().loc["bmi", "verdict"] == "informative"


def test_beside_another_scorer_that_is_not_tested(forest, rows):
    audit = debias.audit(forest, *rows, ["mdi_oob"], tested=TESTED, random_state=0, test=debias.Permutation(20))
    assert audit.scores["mdi_oob"].z is None
    assert audit.tested_scores.z is not None


def test_the_selector_keeps_what_the_audit_finds_informative(rows, audit):
    forest = RandomForestRegressor(40, random_state=0)
    selector = DebiasedSelector(
        forest, scorer=TESTED, threshold="informative", test=debias.Permutation(100), random_state=0
    )
    np.testing.assert_array_equal(selector.fit(*rows).get_support(), audit.tested_scores.selected)


def test_a_scorer_without_node_weights_is_refused_by_name(forest, rows):
    with pytest.raises(debias.plugin.CompositionError, match="oob_split"):
        debias.audit(forest, *rows, tested="oob_split", random_state=0)


def test_the_audit_can_be_written_and_read_again(audit):
    again = debias.Audit.from_json(audit.to_json())
    assert again.tested_scores.scorer == TESTED
    assert again.to_json() == audit.to_json()
    np.testing.assert_array_equal(again.share, audit.share)


def test_the_gate_judges_it(audit):
    gate = audit.check({"min_rows": 100, "max_unsupported_share": 0.9})
    assert gate.passed


def test_the_gate_compares_it_with_a_baseline(audit):
    gate = audit.check({"max_share_change": 0.5}, baseline=debias.Audit.from_json(audit.to_json()))
    assert gate.passed


@pytest.mark.thorough
def test_the_report_names_it(audit):
    page = audit.to_html()
    assert "(the score mdi_oob" not in page
