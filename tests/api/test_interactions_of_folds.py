"""Named interactions over folds: their numbers are those of each fold's test, combined by the definition."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.model_selection import KFold, cross_validate
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.api.interactions_of_folds import combined_interactions
from debias.errors import CompositionError, RowsError
from debias.results.vocabulary import Confirmation
from debias.significance.fold_evidence import fold_correlation

PAIRS = [("b", "c"), ("a", "e"), ("a", "b", "c")]
MODEL = XGBRegressor(n_estimators=30, max_depth=3, learning_rate=0.2, n_jobs=1)


def rows(n=600, seed=0, effect=0.8):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    return X, X.a + effect * X.b * X.c + rng.normal(size=n)


def cross_validated(X, y, model=MODEL, cv=3):
    return cross_validate(model, X, y, cv=KFold(cv), return_estimator=True, return_indices=True)


@pytest.fixture(scope="module")
def folds():
    X, y = rows()
    results = cross_validated(X, y)
    return X, y, results, debias.audit_folds(results, X, y, interactions=PAIRS)


@pytest.mark.thorough
def test_numbers_are_those_of_the_folds_by_definition(folds):
    X, y, results, audit = folds
    trains, tests = results["indices"]["train"], results["indices"]["test"]
    of_folds = [
        debias.interactions(model, X.iloc[test], y.iloc[test], features=PAIRS, rows="held-out")
        for model, test in zip(results["estimator"], tests, strict=True)
    ]
    correlation = fold_correlation(trains, tests, len(X))
    assert correlation[0, 1] == pytest.approx(0.5)  # 1 / (K - 1)
    found, weight = audit.interactions, np.sqrt([len(test) for test in tests])
    assert found.sets == [("a", "e"), ("b", "c"), ("a", "b", "c")]
    for k, members in enumerate(found.sets):
        single = [each.sets.index(members) for each in of_folds]
        score, error, p = (
            np.array([getattr(each, name)[at] for each, at in zip(of_folds, single, strict=True)])
            for name in ("score", "standard_error", "p_value")
        )
        share = weight**2 / (weight**2).sum()
        assert found.score[k] == pytest.approx(share @ score, rel=1e-12)
        assert found.standard_error[k] == pytest.approx(
            np.sqrt((share * error) @ correlation @ (share * error)), rel=1e-12
        )
        z = weight @ norm.isf(p) / np.sqrt(weight @ correlation @ weight)
        assert found.z[k] == pytest.approx(z, rel=1e-9)
        assert found.p_value[k] == pytest.approx(norm.sf(z), rel=1e-9)
    assert found.n_folds == 3
    assert found.n_rows == len(X)
    assert found.confirmed == [("b", "c")]


@pytest.mark.thorough
def test_the_audit_without_names_is_the_same_and_has_none(folds):
    X, y, results, audit = folds
    plain = debias.audit_folds(results, X, y)
    assert plain.interactions is None
    pd.testing.assert_frame_equal(plain.to_frame(), audit.to_frame())
    assert set(plain.summary()) < set(audit.summary())


def test_sentences_page_and_file_have_them(folds):
    *_, audit = folds
    headline = "1 of 3 tested interactions is confirmed over 3 folds: b with c"
    assert any(sentence.startswith(headline) for sentence in audit.summary())
    assert "Means over folds, weighted by their rows" in audit.to_html()
    read = debias.FoldsAudit.from_dict(json.loads(json.dumps(audit.to_dict())))
    pd.testing.assert_frame_equal(read.interactions.to_frame(), audit.interactions.to_frame())
    assert read.summary() == audit.summary()
    old = audit.to_dict()
    del old["interactions"]  # of a version before
    assert debias.FoldsAudit.from_dict(old).interactions is None


def outcomes(folds):
    X, y, results, _ = folds
    tests = results["indices"]["test"]
    return {
        f"fold {k}": debias.interactions(model, X.iloc[test], y.iloc[test], features=PAIRS[:2], rows="held-out")
        for k, (model, test) in enumerate(zip(results["estimator"], tests, strict=True))
    }


def test_a_fold_that_does_not_use_a_pair_counts_as_0_and_one_that_did_not_test_it_is_left_out(folds):
    of_folds, independent = outcomes(folds), np.eye(3)
    every = combined_interactions(of_folds, independent)
    first = of_folds["fold 0"]
    kept = [k for k, members in enumerate(first.sets) if members != ("b", "c")]
    arrays = {
        name: getattr(first, name)[kept]
        for name in ("score", "standard_error", "z", "p_value", "p_apart", "total", "spread")
    }
    arrays["similar"] = tuple(first.similar[k] for k in kept)
    unused = combined_interactions(
        of_folds | {"fold 0": replace(first, pairs=first.pairs[kept], **arrays)}, independent
    )
    at = every.sets.index(("b", "c"))
    others = [each.score[each.sets.index(("b", "c"))] for name, each in of_folds.items() if name != "fold 0"]
    assert unused.score[at] == pytest.approx(sum(others) / 3)
    assert unused.total[at] == pytest.approx(
        np.mean([each.total[0] for name, each in of_folds.items() if name != "fold 0"])
    )
    assert unused.p_value[at] > every.p_value[at]
    without = {name: getattr(first, name).copy() for name in ("score", "standard_error", "z", "p_value")}
    place = first.sets.index(("b", "c"))
    for values in without.values():
        values[place] = np.nan
    untested = combined_interactions(of_folds | {"fold 0": replace(first, **without)}, independent)
    assert untested.score[at] == pytest.approx(sum(others) / 2)
    everywhere = {
        name: replace(each, **{key: np.full(len(each.sets), np.nan) for key in without})
        for name, each in of_folds.items()
    }
    nothing = combined_interactions(everywhere, independent)
    assert set(nothing.verdict) == {Confirmation.UNTESTED}
    assert nothing.headline == "No interaction was tested."


def test_a_fold_without_rows_for_the_second_test_has_no_evidence_that_pairs_are_apart(folds):
    of_folds = outcomes(folds)
    first = of_folds["fold 0"]

    def combined(p_apart, names=("fold 0",)):
        changed = {name: replace(of_folds[name], p_apart=np.full(len(first.p_apart), p_apart)) for name in names}
        return combined_interactions(of_folds | changed, np.eye(3))

    one, certain = combined(np.nan), combined(1.0)
    np.testing.assert_array_equal(one.p_apart, certain.p_apart)
    every = combined(np.nan, tuple(of_folds))
    assert np.isnan(every.p_apart).all()
    assert every.confirmed == []
    np.testing.assert_array_equal(every.p_value, one.p_value)


def test_a_capped_p_value_of_one_fold_does_not_outvote_the_others(folds):
    of_folds = outcomes(folds)
    first = of_folds["fold 0"]
    p = first.p_value.copy()
    p[first.sets.index(("b", "c"))] = 1.0  # of several classes, multiplied by their number
    capped = combined_interactions(of_folds | {"fold 0": replace(first, p_value=p)}, np.eye(3))
    at = capped.sets.index(("b", "c"))
    others = [norm.isf(each.p_value[each.sets.index(("b", "c"))]) for k, each in enumerate(of_folds.values()) if k]
    # As many rows in each fold; the mean of normal scores of p-values above .75.
    assert capped.z[at] == pytest.approx((sum(others) - norm.pdf(norm.ppf(0.75)) / 0.25) / np.sqrt(3), abs=1e-3)


@pytest.mark.thorough
def test_folds_that_tested_nothing_are_not_counted_and_each_fold_is_told(folds):
    X, y, results, audit = folds
    found = audit.interactions
    assert found.tested_folds.tolist() == [3, 3, 3]
    frame = found.to_frame()
    assert frame.loc[("b", "c", ""), "confirmed_folds"] >= 2
    assert frame.loc[("b", "c", ""), "folds"] == 3
    assert "of 3" in repr(audit.interactions)
    constant = y.copy()
    test = results["indices"]["test"][2]
    constant.iloc[test] = constant.iloc[test].mean()
    models = [
        MODEL.__class__(**MODEL.get_params()).fit(X.iloc[at], constant.iloc[at]) for at in results["indices"]["train"]
    ]
    with pytest.warns(debias.DebiasWarning):
        found = debias.audit_folds(models, X, constant, KFold(3), interactions=PAIRS).interactions
    assert (found.n_folds, found.n_rows) == (2, len(X) - len(test))
    assert set(found.tested_folds.tolist()) <= {0, 2}


def test_the_headline_says_on_which_condition():
    X, y = rows()
    model = MODEL.__class__(**MODEL.get_params()).fit(X, y)
    with pytest.warns(debias.DebiasWarning, match="training rows"):
        found = debias.interactions(model, X, y, rows="held-out")
    assert " confirmed, but the rows look like training rows: " in found.headline


@pytest.mark.thorough
def test_wrong_names_are_refused(folds):
    X, y, results, _ = folds
    for wrong in (["a", "b"], "ab", []):
        with pytest.raises(CompositionError, match="does not name pairs: pass a list of tuples"):
            debias.audit_folds(results, X, y, interactions=wrong)
    with pytest.raises(RowsError, match="fold 0: there is no feature 'z'"):
        debias.audit_folds(results, X, y, interactions=[("a", "z")])


@pytest.mark.thorough
def test_classes_are_tested_in_folds_too():
    X, y = rows(900, seed=1)
    classes = np.digitize(y, [-0.7, 0.7])
    model = XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1)
    found = debias.audit_folds(cross_validated(X, classes, model), X, classes, interactions=PAIRS[:2]).interactions
    assert found.tested.all()
    assert (found.p_adjusted >= found.p_value).all()


@pytest.mark.slow
def test_the_level_holds_over_folds_that_share_rows():
    # 200 sets, 10 pairs without any interaction: a family-wise error of .05 has a standard error of .015.
    names = [(one, other) for k, one in enumerate("abcde") for other in "abcde"[k + 1 :]]
    false = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = np.sqrt(0.5) * rng.normal(size=(600, 5)) + np.sqrt(0.5) * rng.normal(size=(600, 1))
        X = pd.DataFrame(x, columns=list("abcde"))
        y = X.a + np.sin(2 * X.b) + (X.c > 0) + rng.normal(size=600)
        found = debias.audit_folds(cross_validated(X, y, cv=5), X, y, interactions=names, test=None).interactions
        false += bool(found.confirmed)
    assert false / 200 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
