"""Normal scores of a response that few rows dominate: from the definition, when they are used, and what they find."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import debias
from debias.significance import normal_scores as module
from debias.significance.normal_scores import normal_scores, normal_scores_if_few_count

ALL = debias.Permutation(60, adaptive=False)


def rows(values, codes=None, compares_rows=False):
    objective = SimpleNamespace(compares_rows=compares_rows)
    return SimpleNamespace(
        response=SimpleNamespace(values=values, codes=codes),
        ensemble=SimpleNamespace(objective=objective),
        weight=np.ones(len(values)),
    )


def forest(response, n_rows=150, seed=0, **settings):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    y = response(X, rng)
    model = RandomForestRegressor(40, max_features=1 / 3, min_samples_leaf=5, random_state=seed, **settings)
    return model.fit(X, y), X, y


def lognormal(X, rng):
    return np.exp(0.5 * X[:, 0] + 1.2 * rng.normal(size=len(X)))


def test_scores_are_normal_quantiles_of_mean_ranks():
    values = np.array([[5.0, 1.0], [1e9, 1.0], [5.0, 0.0], [-3.0, 2.0]])
    mean_rank = np.array([[2.5, 2.5], [4.0, 2.5], [2.5, 1.0], [1.0, 4.0]])
    assert np.allclose(normal_scores(values), stats.norm.ppf((mean_rank - 0.5) / 4))
    assert np.array_equal(normal_scores(np.exp(values[:, 1:])), normal_scores(values[:, 1:]))


def test_normal_scores_are_used_where_few_rows_dominate():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(300, 1))
    assert normal_scores_if_few_count(rows(normal)) is None
    skewed = np.exp(2 * normal)
    assert np.array_equal(normal_scores_if_few_count(rows(skewed)), normal_scores(skewed))
    one_of_two = np.hstack([normal, skewed])
    assert np.array_equal(normal_scores_if_few_count(rows(one_of_two)), normal_scores(one_of_two))


def test_classes_and_columns_of_two_values_and_ranked_rows_keep_their_response():
    skewed = np.exp(2 * np.random.default_rng(0).normal(size=(300, 1)))
    rare = (skewed > np.quantile(skewed, 0.98)).astype(float)
    assert normal_scores_if_few_count(rows(rare)) is None
    assert normal_scores_if_few_count(rows(np.hstack([skewed, rare]))) is None
    assert normal_scores_if_few_count(rows(skewed, codes=rare[:, 0].astype(int))) is None
    assert normal_scores_if_few_count(rows(skewed, compares_rows=True)) is None
    assert normal_scores_if_few_count(SimpleNamespace(response=SimpleNamespace(values=None))) is None


def test_a_response_that_is_its_own_normal_scores_is_tested_alike(monkeypatch):
    model, X, y = forest(lambda X, rng: normal_scores(lognormal(X, rng)[:, None])[:, 0])
    options = {"rows": "oob", "test": ALL, "dependence": True, "random_state": 0}
    as_it_is = debias.audit(model, X, y, ["mdi_oob"], **options)
    monkeypatch.setattr(module, "FEW", 2.0)  # always
    scored = debias.audit(model, X, y, ["mdi_oob"], **options)
    assert "response" not in as_it_is.tested_scores.details["test"]
    for name in ("mdi_oob", "honest_effects"):
        assert scored.scores[name].details["test"]["response"] == "normal scores"
        # The response is stored less its mean, and lines are computed in single precision.
        assert np.allclose(scored.scores[name].z, as_it_is.scores[name].z, atol=2e-4)
        assert np.allclose(scored.scores[name].p_adjusted, as_it_is.scores[name].p_adjusted, atol=1.01 / 61)
        assert np.array_equal(scored.scores[name].values, as_it_is.scores[name].values)


def test_scores_keep_the_unit_of_the_response(monkeypatch):
    model, X, y = forest(lognormal)
    options = {"rows": "oob", "test": ALL, "dependence": False, "random_state": 0}
    of_ranks = debias.audit(model, X, y, ["mdi_oob"], **options)
    monkeypatch.setattr(module, "FEW", 0.0)  # never
    of_values = debias.audit(model, X, y, ["mdi_oob"], **options)
    for name in ("values", "standard_error"):
        assert np.array_equal(getattr(of_ranks.tested_scores, name), getattr(of_values.tested_scores, name))
    assert not np.allclose(of_ranks.tested_scores.z, of_values.tested_scores.z)
    assert "60 permutations of the ranks of the response" in " ".join(of_ranks.summary())
    assert "ranks" not in " ".join(of_values.summary())


@pytest.mark.thorough
def test_a_cause_of_a_lognormal_response_is_found_by_its_ranks(monkeypatch):
    def found():
        p = []
        for seed in range(6):
            model, X, y = forest(lognormal, seed=seed)
            audit = debias.audit(model, X, y, ["mdi_oob"], rows="oob", test=ALL, dependence=False, random_state=seed)
            p.append(audit.tested_scores.p_adjusted[0] <= 0.05)
        return sum(p)

    by_ranks = found()
    monkeypatch.setattr(module, "FEW", 0.0)
    assert by_ranks >= 4
    assert by_ranks > found()


def test_a_forest_of_classes_does_not_change():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] + rng.normal(size=200) > 2).astype(int)
    model = RandomForestClassifier(30, random_state=0).fit(X, y)
    audit = debias.audit(model, X, y, ["mdi_oob"], rows="oob", test=ALL, dependence=False, random_state=0)
    assert "response" not in audit.tested_scores.details["test"]


@pytest.mark.slow
@pytest.mark.parametrize("few", [0.0, 0.5])
def test_noise_is_found_as_often_as_the_error_rate_says(monkeypatch, few):
    monkeypatch.setattr(module, "FEW", few)
    n_sets, any_found = 300, {"mdi_oob": 0, "honest_effects": 0}
    for seed in range(n_sets):
        model, X, y = forest(lambda X, rng: np.exp(1.2 * rng.normal(size=len(X))), n_rows=120, seed=seed)
        audit = debias.audit(model, X, y, ["mdi_oob"], rows="oob", dependence=True, random_state=seed)
        for name in any_found:
            any_found[name] += bool((audit.scores[name].p_adjusted <= 0.05).any())
    most = 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_sets)
    assert max(any_found.values()) / n_sets <= most
