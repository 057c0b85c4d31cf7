"""Faults of a weak feature beside a strong one, which may cost more; and a model without splits."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

import debias


def drawn(n, seed, n_classes):
    """A strong feature, a weak one, one that works together with the strong one, and noise."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=["strong", "weak", "third", "noise"])
    f = 2 * X.strong + X.weak + 0.5 * X.strong * X.third
    if n_classes == 3:
        return X, np.digitize(f + rng.normal(size=n), [-1, 1])
    return X, (rng.random(n) < 1 / (1 + np.exp(-f))).astype(int)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_a_weak_feature_that_is_stuck_is_the_cause_although_a_strong_one_costs_more(tmp_path, seed):
    model = HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(*drawn(2000, 0, 3))
    history = debias.History(model, tmp_path / "a.history")
    for day in range(40):
        X, y = drawn(100, [seed, day], 3)
        X["weak"] = 0.0 if day >= 30 else X["weak"]
        history.add(X, y, at=day, rows="held-out")
    loss = history.changes(10).loss
    assert [cause.feature for cause in loss.causes] == ["weak"]
    assert loss.causes[0].kind == "values"


@pytest.mark.thorough
def test_the_column_that_moved_is_tried_although_what_it_saves_did_not_change(tmp_path):
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(*drawn(400, 0, 2))
    named, tried = 0, 0
    for seed in range(6):
        history = debias.History(model, tmp_path / f"{seed}.history")
        for day in range(40):
            X, y = drawn(45, [seed, day], 2)
            X["weak"] = 2 * X["weak"] + 0.5 if day >= 30 else X["weak"]
            history.add(X, y if day < 30 else None, at=day, rows="held-out")
        found = history.changes(10).provisional
        assert set(found.broken) <= {"weak"}
        tried += found.no_broken_because is None
        named += found.broken == ("weak",)
    # A column that is broken is acquitted by chance at about a fifth of the level.
    assert tried >= 4
    assert named >= tried - 1


def test_a_model_without_splits_has_no_shift_to_tell(tmp_path):
    X, y = drawn(200, 0, 2)
    model = GradientBoostingClassifier(n_estimators=2, min_samples_leaf=200, random_state=0).fit(X, y)
    history = debias.History(model, tmp_path / "a.history")
    for day in range(12):
        X, y = drawn(30 + day, day, 2)  # of a model without splits, rows are alike if their responses are
        history.add(X, y if day < 9 else None, at=day, rows="held-out")
    found = history.changes(3).provisional
    assert found.waiting.n_periods == 3
    assert not found.statistics["shifted"].any()
    assert np.isnan(found.statistics["left_after"]).all()
    assert "Provisional: no shift was tested: the model has no splits." in found.summary()
    changes = history.changes(3)
    assert set(changes.verdict) == {"no splits"}
    assert changes.to_frame()[["p_adjusted", "shift"]].isna().all(axis=None)
