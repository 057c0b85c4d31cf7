"""An audit points to columns that are nearly the same and not confirmed alone."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor

import debias


def audited(noise):
    rng = np.random.default_rng(9)
    shared = rng.normal(size=150)
    X = pd.DataFrame({name: shared + noise * rng.normal(size=150) for name in ("state", "area_code")})
    X = X.assign(**{f"x{k}": rng.normal(size=150) for k in range(3)})
    y = 0.2 * shared + 1.5 * X["x0"] + rng.normal(size=150)
    forest = RandomForestRegressor(30, min_samples_leaf=5, max_features=0.5, random_state=0, n_jobs=1).fit(X, y)
    test = debias.Permutation(99, adaptive=False)
    return X, debias.audit(forest, X, y, [], test=test, error_rate=0.01, dependence=False, random_state=0)


def pointers(audit):
    return [line for line in audit.summary() if "debias.clusters tests such features together" in line]


def test_unconfirmed_twins_are_named_with_their_share():
    X, audit = audited(0.1)
    assert not audit.which("informative")[:2].any()
    [line] = pointers(audit)
    correlation = abs(spearmanr(X["state"], X["area_code"]).statistic)
    [twins] = audit.tested_scores.details["unconfirmed_twins"]
    assert set(twins["features"]) == {"state", "area_code"}
    assert twins["correlation"] == pytest.approx(correlation, abs=1e-6)
    share = dict(zip(audit.tested_scores.feature_names, audit.share, strict=True))
    assert f"have {share['state'] + share['area_code']:.1%} of the debiased scores together. Neither is" in line
    assert pointers(debias.Audit.from_json(audit.to_json())) == [line]
    for name, other in (("state", "area_code"), ("area_code", "state")):
        assert f"It is nearly the same column as {other} (" in audit.explain(name)[-1]
        assert audit.explain(name)[-1].endswith("None of them is confirmed alone; debias.clusters tests them together.")
    assert len(audit.explain("x1")) == 3


def test_columns_that_are_less_alike_are_passed_over():
    assert pointers(audited(0.6)[1]) == []
