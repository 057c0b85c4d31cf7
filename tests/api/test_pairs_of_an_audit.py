"""The hint of an audit at features that work together: interactions tested on a few of its rows, and silence else."""

from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, VotingRegressor
from xgboost import XGBClassifier, XGBRegressor

import debias
from debias.api import audit as of_audits
from debias.api import interactions_hint
from debias.results.sentences import units_alike

N_TRAIN = 1000
HINT = "Interactions, confirmed on"
KEY = "pairs_that_work_together"


def drawn(n, product=1.0, seed=0):
    """Return rows of which a and b work together."""
    X = pd.DataFrame(np.random.default_rng(seed).normal(size=(n, 4)), columns=list("abcd"))
    y = product * X.a * X.b + X.c + np.random.default_rng([seed, 1]).normal(size=n)
    return X, y


def small():
    return XGBRegressor(n_estimators=30, max_depth=3, n_jobs=1, random_state=0)


@pytest.fixture(scope="module")
def rows():
    X, y = drawn(N_TRAIN + 24_000)
    return (X[:N_TRAIN], y[:N_TRAIN]), (X[N_TRAIN:], y[N_TRAIN:])


@pytest.fixture(scope="module")
def booster(rows):
    return small().fit(*rows[0])


def hints(audit):
    return [sentence for sentence in audit.summary() if sentence.startswith(HINT)]


def test_a_pair_is_named_as_the_interactions_of_the_same_rows_are(booster, rows, monkeypatch):
    """The oracle is the public function on the rows that were drawn."""
    drawn_rows, made = [], interactions_hint.tested_on
    monkeypatch.setattr(
        interactions_hint, "tested_on", lambda rows, *args: (drawn_rows.append(rows.is_kept), made(rows, *args))[1]
    )
    X, y = rows[1]
    audit = debias.audit(booster, X, y, random_state=3)
    (is_drawn,) = drawn_rows
    assert is_drawn.sum() == 300
    alone = debias.interactions(booster, X[is_drawn], y[is_drawn], rows="held-out")
    assert alone.confirmed == [("a", "b")]
    found = audit.tested_scores.details[KEY]
    (pair,), at = found["pairs"], alone.sets.index(("a", "b"))
    assert (found["n_rows"], found["alpha"], found["scale"]) == (300, 0.05, None)
    assert (pair["features"], pair["about"]) == (["a", "b"], "")
    assert pair["p_adjusted"] == pytest.approx(alone.p_adjusted[at], rel=1e-9)
    (sentence,) = hints(audit)
    assert sentence.startswith(
        "Interactions, confirmed on 300 of these rows, drawn at random: a with b. What the model "
    )
    assert debias.Audit.from_json(audit.to_json()).summary() == audit.summary()


@pytest.mark.thorough
def test_other_numbers_stay_and_the_seed_chooses_the_rows(booster, rows, monkeypatch):
    audits = [debias.audit(booster, *rows[1], random_state=seed, n_jobs=n) for seed, n in ((0, 1), (0, 2), (1, 1))]
    details = [audit.tested_scores.details for audit in audits]
    assert details[0][KEY] == details[1][KEY] != details[2][KEY]
    monkeypatch.setattr(of_audits, "pairs_in_details", lambda *_: {})
    without = debias.audit(booster, *rows[1], random_state=0)
    pd.testing.assert_frame_equal(without.to_frame(), audits[0].to_frame(), check_exact=True)
    assert without.warnings == audits[0].warnings


def test_one_row_less_than_enough_is_silent(booster, rows):
    X, y = rows[1]
    assert not hints(debias.audit(booster, X[1:], y[1:]))


def test_an_additive_truth_is_silent():
    X, y = drawn(N_TRAIN + 24_000, product=0.0)
    model = small().fit(X[:N_TRAIN], y[:N_TRAIN])
    audit = debias.audit(model, X[N_TRAIN:], y[N_TRAIN:], error_rate=0.01)
    assert not hints(audit)
    assert KEY not in audit.tested_scores.details


@pytest.mark.thorough
def test_classes_need_more_rows_and_tell_their_scale():
    X, y = drawn(N_TRAIN + 48_000, product=2.0)
    model = XGBClassifier(n_estimators=30, max_depth=3, n_jobs=1).fit(X[:N_TRAIN], y[:N_TRAIN] > 0)
    X, y = X[N_TRAIN:], y[N_TRAIN:] > 0
    assert not hints(debias.audit(model, X[:47_000], y[:47_000]))
    (sentence,) = hints(debias.audit(model, X, y))
    assert "a with b" in sentence
    assert "functions of single columns that add up to the log odds" in sentence


@pytest.mark.thorough
def test_large_trees_need_more_rows(rows):
    (X, y), held_out = rows
    for max_depth, told in ((6, True), (None, False)):
        forest = RandomForestRegressor(10, max_depth=max_depth, random_state=0).fit(X, y)
        assert bool(hints(debias.audit(forest, *held_out))) == told


def test_the_error_rate_is_that_of_the_audit(booster, rows):
    strict = debias.audit(booster, *rows[1], error_rate=0.01)
    assert strict.tested_scores.details[KEY]["alpha"] == 0.01
    of_discoveries = debias.audit(booster, *rows[1], error_rate=("fdr", 0.1))
    assert of_discoveries.tested_scores.details[KEY]["alpha"] == 0.05


@pytest.mark.parametrize(
    "arguments",
    [{"test": None}, {"groups": {"all": list("abcd")}}, {"rows": "train"}],
    ids=["no test", "one feature", "training rows"],
)
@pytest.mark.filterwarnings("ignore:these are scores on training rows:debias.DebiasWarning")
def test_what_was_not_tested_is_silent(booster, rows, arguments):
    assert not hints(debias.audit(booster, *rows[1], **arguments))


def test_blocks_and_batches_are_silent(booster, rows):
    """The model may know the blocks, as of patients who have rows of both kinds; and their test takes longer."""
    X, y = rows[1]
    assert not hints(debias.audit(booster, debias.Dataset(X, y, blocks=np.arange(len(X)) % 100)))
    assert not hints(debias.audit(booster, [(X[:8000], y[:8000]), (X[8000:], y[8000:])]))


@pytest.mark.filterwarnings("ignore:.*(training rows|may be training|weights):debias.DebiasWarning")
def test_rows_that_may_be_training_rows_are_silent(rows):
    X, y = rows[1]
    model = small().fit(X, y)
    audit = debias.audit(model, X, y, rows="held-out")
    assert audit.tested_scores.unproven_because is not None
    assert not hints(audit)


@pytest.mark.filterwarnings("ignore:.* are alike:debias.DebiasWarning")
@pytest.mark.filterwarnings("ignore:.* repeat the values:debias.DebiasWarning")
def test_rows_that_are_alike_are_silent(booster, rows):
    X, y = (values[:6000] for values in rows[1])
    X, y = pd.concat([X] * 4), pd.concat([y] * 4)  # each row four times
    audit = debias.audit(booster, X, y)
    assert units_alike(audit.warnings) == "rows"
    assert not hints(audit)


@pytest.mark.thorough
def test_sums_of_models_leaf_lines_and_out_of_bag_rows_are_silent(rows):
    (X, y), held_out = rows
    vote = VotingRegressor([("one", small()), ("two", HistGradientBoostingRegressor(max_iter=10))]).fit(X, y)
    linear = lightgbm.LGBMRegressor(n_estimators=10, linear_tree=True, verbose=-1, n_jobs=1).fit(X, y)
    for model in (vote, linear):
        audit = debias.audit(model, *held_out, rows="held-out")
        assert audit.tested
        assert not hints(audit)
    forest = RandomForestRegressor(5, max_depth=4, random_state=0).fit(*held_out)
    assert not hints(debias.audit(forest, *held_out, dependence=False, test="conservative"))


def test_a_file_with_a_pair_that_cannot_be_is_refused(booster, rows):
    audit = debias.audit(booster, *rows[1])
    found = audit.tested_scores.details[KEY]
    for wrong, message in (
        ({"pairs": []}, "pairs of features, each of them once"),
        ({"pairs": [{**found["pairs"][0], "features": ["a", "z"]}]}, "pairs of features, each of them once"),
        ({"pairs": found["pairs"] * 2}, "pairs of features, each of them once"),
        ({"pairs": [{**found["pairs"][0], "p_adjusted": 0.06}]}, "not confirmed at its error rate"),
        ({"n_rows": 24_001}, "more rows than the audit"),
        ({"n_rows": "many"}, "n_rows"),
    ):
        scores = replace(audit.tested_scores, details={**audit.tested_scores.details, KEY: {**found, **wrong}})
        with pytest.raises(debias.DebiasError, match=message):
            debias.Audit.from_json(replace(audit, scores={**audit.scores, "mdi_oob": scores}).to_json())
