"""The comparison of pairs: its sentences are computed again from its table, and files are read without loss."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from debias.errors import DebiasError
from debias.results.interactions import Interactions
from debias.results.pair_comparison import PairComparison

NAMES = ("age", "income", "=city", "b\u202e")
PAIRS = np.array([[0, 1], [0, 2], [1, 2], [2, 3]])


def outcome(p_value, pairs=PAIRS):
    n = len(pairs)
    p_value = np.array(p_value, dtype=float)
    missing = np.where(np.isnan(p_value), np.nan, 1.0)
    return Interactions(
        feature_names=NAMES,
        pairs=pairs,
        score=missing * np.arange(n, 0, -1),
        standard_error=missing,
        z=missing,
        p_value=p_value,
        p_apart=p_value,
        similar=((),) * n,
        spread=np.ones(n),
        total=np.full(n, 20.0),
        n_asked=6,
        n_rows=100,
        n_functions=20,
        settings={"model": "Forest"},
    )


def compared(test, shap=(1.0, 4.0, 3.0, 2.0), pairs=PAIRS, because="", **changed):
    return PairComparison(
        **{
            "feature_names": NAMES,
            "pairs": pairs,
            "shap_interactions": np.array(shap, dtype=float),
            "shap_interactions_oob": np.array(shap, dtype=float)[::-1].copy(),
            "tested": test,
            "untested_because": because,
            "rows": "held-out",
            "n_rows": 100,
            "settings": {"model": "Forest"},
            "warnings": ("a note",),
        }
        | changed
    )


def random_comparison(seed):
    rng = np.random.default_rng(seed)
    p_value = np.where(rng.random(4) < 0.5, 1e-5, 0.4)
    p_value[rng.random(4) < 0.2] = np.nan
    return compared(outcome(p_value), rng.permutation(4) + 1.0)


@pytest.mark.parametrize("seed", range(40))
def test_disagreements_and_sentences_follow_from_the_table(seed):
    comparison = random_comparison(seed)
    frame, sentences = comparison.to_frame(), comparison.summary()
    assert frame["shap_interactions"].is_monotonic_decreasing
    assert list(frame["shap_rank"]) == [1, 2, 3, 4]
    n_confirmed = (frame["verdict"] == "confirmed").sum()
    listed = set(comparison.disagreements.index)
    for pair, row in frame.iterrows():
        name = " with ".join(pair)
        first, confirmed = row["shap_rank"] <= max(1, n_confirmed), row["verdict"] == "confirmed"
        assert (pair in listed) == (first != confirmed and comparison.tested.tested.any())
        of_pair = [s for s in sentences[1:] if s.startswith(name)]
        assert len(of_pair) == (pair in listed)
        if of_pair:
            rank, n = map(int, re.search(r"number (\d+) of (\d+)", of_pair[0]).groups())
            assert (rank, n) == (row["shap_rank"], 4)
            said = {
                "confirmed": "is confirmed, and is only",
                "untested": "was not tested",
                "no evidence": "do not confirm",
            }
            assert said[row["verdict"]] in of_pair[0]
            assert comparison.disagreements.loc[pair, "why"].startswith(row["verdict"])
    found = re.match(r"(\d+) of (\d+) confirmed pairs (?:is|are) among the first (\d+) of 4", sentences[0])
    both = int(((frame["verdict"] == "confirmed") & (frame["shap_rank"] <= n_confirmed)).sum())
    if n_confirmed > 1:
        assert tuple(map(int, found.groups())) == (both, n_confirmed, n_confirmed)
    elif n_confirmed == 1:
        assert sentences[0] == f"SHAP interactions put the confirmed pair {'first' if both else 'behind others'}, of 4."
    elif comparison.tested.tested.any():
        n_tested = int(comparison.tested.tested.sum())
        assert sentences[0].startswith(f"None of {n_tested} tested pair")
        assert " with ".join(frame.index[0]) in sentences[0]
    assert sentences[-1] == "a note"


def test_without_a_test_the_reason_comes_first_and_nothing_disagrees():
    comparison = compared(None, because="these rows have blocks.")
    assert comparison.headline == "SHAP interactions alone, without a test: these rows have blocks."
    assert set(comparison.to_frame()["verdict"]) == {"untested"}
    assert comparison.to_frame()[["share", "p_adjusted", "tested_rank"]].isna().all(axis=None)
    assert not len(comparison.disagreements)
    assert "training rows" not in " ".join(comparison.summary())
    on_training = compared(None, because="x.", rows="train", shap_interactions_oob=np.full(4, np.nan))
    assert "These are training rows" in " ".join(on_training.summary())
    assert on_training.to_frame()["oob_rank"].isna().all()
    nothing = compared(outcome([np.nan] * 4))
    assert nothing.headline.startswith("No pair was tested")
    assert not len(nothing.disagreements)


def test_a_model_without_pairs_says_so():
    none = np.empty((0, 2), dtype=np.int64)
    comparison = compared(outcome([], none), (), none)
    assert comparison.headline.startswith("The model uses no two features together")
    assert comparison.summary() == [comparison.headline, "a note"]
    assert len(comparison.to_frame()) == 0
    assert repr(comparison)


def test_a_pair_that_was_not_asked_for_is_untested():
    comparison = compared(outcome([1e-5, 0.5], PAIRS[:2]))
    assert comparison.to_frame()["verdict"].to_dict()["income", "=city"] == "untested"


@pytest.mark.parametrize("test", [None, outcome([1e-5, 0.4, 0.5, np.nan])])
def test_files_are_read_without_loss(tmp_path, test):
    comparison = compared(test, because="" if test else "because.")
    text = comparison.to_json(tmp_path / "a.json")
    again = PairComparison.from_json(tmp_path / "a.json")
    assert again.to_json() == text
    assert repr(again) == repr(comparison)
    pd.testing.assert_frame_equal(again.to_frame(), comparison.to_frame())
    assert "age" in comparison.to_csv()
    assert "<table" in comparison._repr_html_()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "other"}, "its kind is not"),
        ({"schema_version": 2}, "schema version 2"),
        ({"shap_interactions": [1.0]}, "do not have 4 entries"),
        ({"pairs": [[0, 9]] * 4}, "not of two features"),
        ({"pairs": [[0]] * 4}, "not a list of 2 positions each"),
        ({"tested": {"kind": "other"}}, "not interactions written by debias"),
        ({"rows": 3}, "rows"),
    ],
)
def test_damaged_files_are_refused(changed, message):
    plain = json.loads(compared(outcome([0.5] * 4)).to_json())
    with pytest.raises(DebiasError, match=message):
        PairComparison.from_dict(plain | changed)


def test_the_short_text_names_model_and_pairs():
    text = repr(compared(outcome([1e-5, 1e-5, 0.5, 0.5])))
    assert "Pairs of features of Forest" in text
    assert "age with =city" in text
    assert "\u202e" not in text
    assert repr(replace(compared(None, because="no.")))
