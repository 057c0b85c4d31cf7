"""The features that are not found are tested together: as one group of ``groups=``, by the same draws."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.results.rest import REST
from debias.significance import procedure as procedures


def data(seed=0, n=240, n_weak=10, n_noise=6, weak=0.15):
    """Return two features with effects, weak ones, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2 + n_weak + n_noise))
    y = 1.2 * X[:, 0] + X[:, 1] + weak * X[:, 2 : 2 + n_weak].sum(axis=1) + rng.normal(size=n)
    return X, y


def forest(X, y, seed=0):
    return RandomForestRegressor(40, min_samples_leaf=3, max_features=1 / 3, random_state=seed).fit(X, y)


CASES = {
    "out of bag": ({"rows": "oob"}, "auto", "permutation"),
    "out of bag, t-test": ({"rows": "oob"}, "conservative", "conservative"),
    "residuals": ({"rows": "held-out"}, "auto", "residuals"),
    "held-out permutation": ({"rows": "held-out"}, "permutation", "permutation"),
    "held-out t-test": ({"rows": "held-out"}, "naive", "naive"),
    "false discovery rate": ({"rows": "oob", "error_rate": ("fdr", 0.1)}, "auto", "permutation"),
}


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore:the score of the rest depends on few rows")
@pytest.mark.parametrize("case", CASES)
def test_the_rest_is_the_group_that_a_user_would_pass(case):
    of_rows, test, method = CASES[case]
    X, y = data()
    seen = slice(None) if of_rows["rows"] == "oob" else slice(0, 120)
    rows = slice(None) if of_rows["rows"] == "oob" else slice(120, None)
    model = forest(X[seen], y[seen])
    asked = {"scorers": [], "dependence": False, "random_state": 3, **of_rows}
    audit = debias.audit(model, X[rows], y[rows], test=test, **asked)
    assert audit.tested_scores.details["test"]["method"] == method
    told = audit.tested_scores.details[REST]
    assert set(audit.rest.features) == set(
        np.array(audit.tested_scores.feature_names)[audit.which("indistinguishable")]
    )
    if "n_permutations" in told:
        of = "response" if test == "permutation" else "auto"
        test = debias.Permutation(told["n_permutations"], adaptive=False, of=of)
    group = {"the rest": list(audit.rest.features)}
    together = debias.audit(model, X[rows], y[rows], test=test, groups=group, **(asked | {"error_rate": 0.1}))
    k = together.tested_scores.feature_names.index("the rest")
    assert audit.rest.p_value == told["p_value"] == pytest.approx(together.tested_scores.p_value[k], rel=1e-12)
    assert audit.rest.alpha == audit.tested_scores.details["test"]["alpha"]


def test_the_rest_changes_no_other_number(monkeypatch):
    X, y = data()
    model = forest(X, y)
    audit = debias.audit(model, X, y, random_state=3)
    monkeypatch.setattr(procedures, "rest_of", lambda *_: {})
    without = debias.audit(model, X, y, random_state=3)
    assert audit.to_csv() == without.to_csv()
    assert "made without such a test" in without.rest.untested_because


@pytest.mark.parametrize("rows", ["oob", "held-out"])
def test_more_threads_give_the_same_p_value(rows):
    X, y = data(1)
    model = forest(X[:120], y[:120])
    part = slice(0, 120) if rows == "oob" else slice(120, None)
    one, two = (
        debias.audit(model, X[part], y[part], rows=rows, dependence=False, random_state=3, n_jobs=n).rest
        for n in (1, 2)
    )
    assert one == two


def test_weak_features_carry_information_together():
    """None of ten weak features is found alone, and together they are: the model of the issue."""
    X, y = data(0, n=400, n_noise=2, weak=0.2)
    X, y = X[:, 2:], y - 1.2 * X[:, 0] - X[:, 1]
    audit = debias.audit(forest(X[:200], y[:200]), X[200:], y[200:], rows="held-out", dependence=False, random_state=0)
    assert audit.rest.informative
    assert len(audit.rest.features) >= 9
    assert any(line.startswith("Together the") and "may cost accuracy" in line for line in audit.summary())


def test_a_rest_that_the_model_does_not_use_is_not_confirmed():
    X, y = data()
    X = np.column_stack([X[:, :2], np.zeros((len(X), 3))])
    for part, rows in ((slice(0, 120), "oob"), (slice(120, None), "held-out")):
        audit = debias.audit(forest(X[:120], y[:120]), X[part], y[part], rows=rows, dependence=False, random_state=0)
        assert audit.rest.p_value == 1
        assert len(audit.rest.features) == 3


def test_one_feature_is_no_group():
    X, y = data()
    audit = debias.audit(forest(X[:, :3], y), X[:, :3], y, dependence=False, random_state=0)
    assert audit.which("indistinguishable").sum() <= 1
    assert REST not in audit.tested_scores.details
    assert audit.rest is None


def test_what_was_not_tested_has_a_reason():
    X, y = data()
    model = forest(X[:120], y[:120])
    batches = [(X[120:180], y[120:180]), (X[180:], y[180:])]
    audit = debias.audit(model, batches, rows="held-out", random_state=0)
    assert audit.tested
    assert (audit.rest.p_value, audit.rest.informative) == (None, None)
    assert audit.rest.untested_because.startswith("the rows came in batches")
    assert any("were not tested together: the rows came in batches" in line for line in audit.summary())
    short = debias.Permutation(budget=1e-9)
    with pytest.warns(debias.DebiasWarning, match="too few to reject"):
        audit = debias.audit(model, X[120:], y[120:], rows="held-out", test=short, dependence=False)
    assert audit.rest.untested_because.startswith("the time budget ended the test")


def test_a_rest_in_a_file_is_read_and_checked():
    X, y = data()
    audit = debias.audit(forest(X, y), X, y, dependence=False, random_state=0)
    assert debias.Audit.from_json(audit.to_json()).rest == audit.rest
    for wrong in ({"p_value": 0.0}, {"p_value": "0.1"}, {}, {"p_value": 0.1, "untested_because": "why"}, [0.1]):
        scores = replace(audit.tested_scores, details={**audit.tested_scores.details, REST: wrong})
        changed = replace(audit, scores={**audit.scores, "mdi_oob": scores})
        with pytest.raises(debias.DebiasError, match=r"details\.rest has neither a p-value nor a reason"):
            debias.Audit.from_json(changed.to_json())


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["oob", "held-out"])
@pytest.mark.parametrize("effects", [False, True])
def test_a_rest_of_noise_is_informative_at_the_error_rate(rows, effects):
    """Pure noise, and noise beside two effects: with 400 sets, .05 and three standard errors are .083."""
    n_sets, found = 400, 0
    for seed in range(n_sets):
        rng = np.random.default_rng([17, seed])
        X = rng.normal(size=(240, 14))
        X[:, 2:8] = rng.integers(0, 3, size=(240, 6))
        y = rng.normal(size=240) + (1.2 * X[:, 0] + X[:, 1] if effects else 0)
        part = slice(0, 120) if rows == "oob" else slice(120, None)
        model = forest(X[:120], y[:120], seed)
        audit = debias.audit(model, X[part], y[part], rows=rows, scorers=[], dependence=False, random_state=seed)
        if effects and not {"x0", "x1"} <= set(audit.features):
            continue  # a missed effect is in the rest, which is then no noise
        found += bool(audit.rest is not None and audit.rest.informative)
    assert found / n_sets <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_sets)
