"""Permutations that stop when decisions are settled, beside all of them: the same draws, and the same decisions."""

import warnings
from collections import Counter

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import debias
from debias.p_values import step_down_max
from debias.significance.permutation import RISK

KINDS = (
    "classes",
    "3 classes",
    "numbers",
    "missing",
    "categories",
    "weights",
    "groups",
    "blocks",
    "skewed",
    "held out",
)


def audit_of(kind, seed, **given):
    """Return an audit of a small forest, or of a boosted model on held-out rows; a third of the features matters."""
    rng = np.random.default_rng([3, seed])
    n, p = int(rng.choice([100, 140, 240])), int(rng.choice([4, 9, 25]))
    X = rng.normal(size=(2 * n, p))
    X[:, 1] = np.round(X[:, 1])
    effects = rng.choice([0.0, 0.2, 0.4, 0.8], size=p) * (rng.random(p) < 1 / 3)
    y = X @ effects + rng.normal(size=2 * n)
    given |= {"random_state": seed}
    if kind == "skewed":
        y = np.exp(1.5 * y)
    if kind == "missing":
        X[rng.random(X.shape) < 0.1] = np.nan
    if "classes" in kind or kind == "missing":
        y = np.digitize(y, [-0.5, 0.5] if kind == "3 classes" else [0.0])
    if kind == "groups":
        given["groups"] = {"both": ["x0", "x1"], "others": [f"x{k}" for k in range(2, p)]}
    if kind in ("held out", "categories"):
        data = pd.DataFrame(X, columns=[f"x{k}" for k in range(p)])
        if kind == "categories":
            data["x1"] = data["x1"].astype("category")
            model = lightgbm.LGBMRegressor(n_estimators=20, num_leaves=7, n_jobs=1, verbose=-1)
        else:
            model = xgboost.XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1)
        model.fit(data[:n], y[:n])
        given |= {"rows": "held-out", "train": (data[:n], y[:n])}
        return debias.audit(model, data[n:], y[n:], **given)
    X, y = X[:n], y[:n]
    forest = (RandomForestRegressor if y.dtype.kind == "f" else RandomForestClassifier)(30, random_state=seed)
    weight = rng.choice([1.0, 2.0, 5.0], size=n) if kind == "weights" else None
    blocks = np.arange(n) // 2 if kind == "blocks" else None
    forest.fit(X, y, sample_weight=weight)
    return debias.audit(forest, debias.Dataset(X, y, sample_weight=weight, blocks=blocks), rows="oob", **given)


def compared(seeds):
    """Return counts of decisions, and the differences of stopped and full tests."""
    counts = Counter()
    for seed in seeds:
        kind = KINDS[seed % len(KINDS)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", debias.DebiasWarning)
            # Residuals are not drawn until they are settled, so the response is permuted on held-out rows, too.
            stopped, full = (
                audit_of(kind, seed, test=debias.Permutation(of="response", adaptive=adaptive))
                for adaptive in (True, False)
            )
        assert stopped.scores.keys() == full.scores.keys()
        for name in stopped.scores.keys() & {"mdi_oob", "honest_effects"}:
            few, every = stopped.scores[name], full.scores[name]
            assert (few.selected is None) == (every.selected is None), (kind, seed)
            if few.selected is None:
                counts["untested"] += 1
                continue
            n = len(few.null)
            np.testing.assert_array_equal(few.z, every.z)
            np.testing.assert_array_equal(few.null, every.null[:n])
            counts["tests"] += 1
            counts[kind] += 1
            counts["stopped"] += n < len(every.null)
            counts["draws"] += n
            counts["decisions"] += few.selected.size
            counts["found"] += int(every.selected.sum())
            counts["other decisions"] += int((few.selected != every.selected).sum())
            # The z of lines is lowered by its rounding before it is compared, so a draw may tie with it.
            null = every.null[:n]
            has_splits = (few.z != 0) | (null != 0).any(axis=0)  # others are no tests
            of_first = np.ones(few.z.size)
            of_first[has_splits] = step_down_max(few.z[has_splits], null[:, has_splits])
            assert (np.abs(of_first - few.p_adjusted) <= 1.001 / (1 + n)).all()
            p, spread = every.p_adjusted, np.sqrt(1 / n - 1 / (1 + len(every.null))) if n < len(every.null) else 0.0
            error = np.sqrt(p * (1 - p)) * spread + 1 / (1 + n)
            counts["p-values"] += p.size
            counts["p-values 3 errors apart"] += int((np.abs(few.p_adjusted - p) > 3 * error).sum())
    return counts


@pytest.mark.thorough
def test_stopped_tests_decide_as_all_permutations():
    counts = compared(range(len(KINDS)))
    assert counts["tests"] >= 18
    assert set(KINDS) <= set(counts)
    assert 0 < counts["found"] < counts["decisions"]
    assert counts["stopped"] > 10
    assert counts["other decisions"] == 0


@pytest.mark.slow
def test_of_200_audits_no_more_decisions_change_than_the_resampling_risk_allows():
    from scipy.stats import binom

    counts = compared(range(200))
    print(dict(counts))
    assert counts["tests"] > 380
    assert counts["stopped"] > counts["tests"] / 2
    # The risk holds for the p-values with the largest risk, those next to the error rate: most have none.
    assert counts["other decisions"] <= binom.ppf(0.999, counts["decisions"], RISK)
