"""Tests of the warning about versions of model libraries that debias was not tested with."""

import warnings
from dataclasses import replace

import lightgbm
import numpy as np
import pytest
import sklearn
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, VotingRegressor

import debias
from debias.trees.tested_versions import TestedVersions, major_minor
from debias_adapters import lightgbm as lightgbm_adapter
from debias_adapters import sklearn as sklearn_adapter
from debias_adapters import xgboost as xgboost_adapter

LIBRARIES = {
    sklearn: (RandomForestRegressor(10, random_state=0), sklearn_adapter.LIBRARY.tested_versions),
    xgboost: (xgboost.XGBRegressor(n_estimators=3), xgboost_adapter.LIBRARY.tested_versions),
    lightgbm: (lightgbm.LGBMRegressor(n_estimators=3, verbose=-1), lightgbm_adapter.LIBRARY.tested_versions),
}


def about_versions(caught):
    return [str(each.message) for each in caught if "was not tested with" in str(each.message)]


def collected(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, about_versions(caught)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return X, X[:, 0] + rng.normal(size=200)


@pytest.mark.filterwarnings("ignore:'force_all_finite' was renamed:FutureWarning")  # LightGBM 4.5
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
@pytest.mark.parametrize("version", ["99.0.1", "0.1"], ids=["newer", "older"])
def test_another_version_gives_one_warning_and_is_kept_in_the_result(library, version, rows, monkeypatch):
    X, y = rows
    model, tested = LIBRARIES[library]
    model.fit(X[:100], y[:100])
    fresh = {"X": X[100:], "y": y[100:], "rows": "held-out"}
    before, told = collected(lambda: debias.audit(model, test=debias.Permutation(19), random_state=0, **fresh))
    assert told == []
    monkeypatch.setattr(library, "__version__", version)
    audit, told = collected(lambda: debias.audit(model, test=debias.Permutation(19), random_state=0, **fresh))
    assert len(told) == 1
    assert told[0].startswith(f"{tested.library} {version} was not tested with this version of debias")
    assert f"{tested.library} {tested.oldest} to {tested.newest}" in told[0]
    assert "leaves and the output of the trees are compared with those of the library" in told[0]
    assert told[0] in audit.tested_scores.warnings
    assert told[0] in audit.to_dict()["warnings"]
    np.testing.assert_array_equal(audit.tested_scores.values, before.tested_scores.values)


def test_every_way_to_scores_tells_it_once(rows, monkeypatch):
    X, y = rows
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    vote = VotingRegressor([("a", RandomForestRegressor(5)), ("b", HistGradientBoostingRegressor(max_iter=3))])
    vote.fit(X[:100], y[:100])
    batches = [(X[:100], y[:100]), (X[100:], y[100:])]
    sums = debias.NodeSums(forest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sums.update(X, y)
    monkeypatch.setattr(sklearn, "__version__", "99.0")
    ways = {
        "no rows": lambda: debias.score(forest, scorer="mdi"),
        "rows": lambda: debias.score(forest, X, y),
        "batches": lambda: debias.score(forest, batches, rows="held-out"),
        "refits": lambda: debias.score(forest, X, y, "response_permutation(mdi, replicates=2)", random_state=0),
        "members": lambda: debias.score(vote, X[100:], y[100:], rows="held-out"),
    }
    for way, call in ways.items():
        scores, told = collected(call)
        assert len(told) == 1, way
        assert sum("was not tested with" in text for text in scores.warnings) == 1, way


def test_versions_are_compared_as_numbers():
    tested = TestedVersions("scikit-learn", "1.5", "1.9")
    for version in ("1.5.0", "1.9", "1.9.1", "1.9.dev0", "1.6rc1"):
        assert tested.doubt(version) is None
    for version in ("1.10.0", "1.4.2", "2.0", "0.24.2", "1.10.dev0+git"):
        assert f"scikit-learn {version} was not tested" in tested.doubt(version)
    assert [major_minor(version) for version in ("2", "3.4.1", "unknown")] == [(2, 0), (3, 4), (0, 0)]
    assert "with CatBoost 1.2. What" in TestedVersions("CatBoost", "1.2", "1.2").doubt("1.3")


def test_adapters_that_state_nothing_cause_no_warning(rows):
    ensemble = debias.plugin.extract(RandomForestRegressor(2).fit(*rows))
    assert replace(ensemble, version="99.0").version_doubt is not None
    assert replace(ensemble, version="99.0", tested_versions=None).version_doubt is None


def test_the_installed_versions_are_among_those_tested():
    """Whoever installs a newer library for the tests adds it to the table."""
    for library, (_, tested) in LIBRARIES.items():
        assert tested.doubt(library.__version__) is None
