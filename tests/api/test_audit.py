"""Any order of scorers, any missing plugin and any word for "no test" gives an audit or one clear sentence."""

import itertools
import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from xgboost import XGBRegressor

import debias
from debias.early_stopping import STOPPED_EARLY
from debias.hooks.registry import name_failures, plugin_manager

NEEDED = ("node_scorers", "native_scorers", "permutation", "shap_scorers", "sklearn_forests")
"""Plugins without which a default audit or comparison of a forest cannot be made."""
NOT_NEEDED = ("honest_effects", "sklearn_wrappers", "quantile_forests", "threshold")


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
    y = X["a"] + rng.normal(size=120)
    return RandomForestRegressor(8, random_state=0, n_jobs=1).fit(X, y), X, y


@pytest.fixture
def without():
    """Return a function that removes a plugin until the test ends."""
    manager, removed = plugin_manager(), {}

    def remove(name):
        removed[name] = manager.unregister(name=name)

    yield remove
    for name, plugin in removed.items():
        manager.register(plugin, name=name)
        name_failures(manager, plugin)


@pytest.mark.quick
def test_the_order_of_scorers_changes_no_number(case):
    expected = debias.audit(*case, ["mdi_oob", "honest_effects", "split_count"], random_state=0)
    for order in itertools.permutations(["mdi_oob", "honest_effects", "split_count"]):
        audit = debias.audit(*case, list(order), random_state=0)
        assert list(audit.scores) == list(order)
        pd.testing.assert_frame_equal(audit.to_frame()[expected.to_frame().columns], expected.to_frame())
    alone = debias.audit(*case, ["honest_effects"], random_state=0)
    assert alone.dependence == expected.dependence
    assert alone.verdict == expected.verdict


@pytest.mark.parametrize("scorers", [None, ["honest_effects", "mdi_oob"]])
def test_none_as_a_word_is_no_test(case, scorers):
    word, value = (debias.audit(*case, scorers, test=none, random_state=0) for none in ("none", None))
    assert word.to_json() == value.to_json()
    assert word.verdict == ["untested"] * 3
    assert word.untested_because.startswith("no test was requested")
    assert debias.score(*case, "mdi_oob", test="none").p_value is None
    with pytest.raises(debias.plugin.CompositionError, match="test='nothing' is not one of .*, or None for no test"):
        debias.audit(*case, test="nothing")


def test_an_audit_without_the_scorer_of_dependence_says_so(case, without):
    expected = debias.audit(*case, random_state=0)
    without("honest_effects")
    with pytest.warns(debias.DebiasWarning, match="dependence was not tested: it needs the scorer 'honest_effects'"):
        audit = debias.audit(*case, random_state=0)
    assert audit.dependence is None
    assert audit.verdict == expected.verdict
    said = "Dependence was not tested: it needs the scorer 'honest_effects', and no plugin offers it."
    assert said in audit.summary()
    with pytest.raises(debias.plugin.CompositionError, match="dependence=True needs the scorer"):
        debias.audit(*case, dependence=True)
    with warnings.catch_warnings():  # it could not be tested on these rows anyway, or was not asked for
        warnings.simplefilter("error")
        fresh = pd.DataFrame(np.random.default_rng(1).normal(size=(60, 3)), columns=list("abc"))
        debias.audit(case[0], fresh, fresh["a"], random_state=0)
        debias.audit(*case, test="permutation", random_state=0, dependence=False)


@pytest.mark.filterwarnings("ignore:dependence was not tested:debias.DebiasWarning")
@pytest.mark.parametrize("name", [*NEEDED, *NOT_NEEDED])
def test_without_a_plugin_there_is_an_answer_or_one_sentence(case, without, name):
    model, X, y = case
    without(name)
    calls = (
        lambda: debias.audit(model, X, y, test=debias.Permutation(20), random_state=0),
        lambda: debias.compare(model, X, y, random_state=0),
        lambda: debias.score(model, X, y, random_state=0),
    )
    for call in calls:
        try:
            call()
        except debias.DebiasError as error:
            assert str(error).startswith(("there is no scorer", "no adapter recognises"))  # noqa: PT017
            assert name in NEEDED


def test_the_shell_names_the_plugins_that_are_disabled():
    environment = {**os.environ, "DEBIAS_DISABLE_PLUGINS": "honest_effects,node_scorers"}
    code = (
        "import debias\n"
        "try: debias.plugin.scorer('mdi_oob')\n"
        "except debias.plugin.CompositionError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "DEBIAS_DISABLE_PLUGINS disables honest_effects, node_scorers" in done.stdout


@pytest.fixture(scope="module")
def stopped():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = X[:, 0] + rng.normal(size=400)
    model = XGBRegressor(n_estimators=200, max_depth=3, early_stopping_rounds=5, n_jobs=1)
    return model.fit(X[:200], y[:200], eval_set=[(X[200:300], y[200:300])], verbose=False), X, y


@pytest.mark.parametrize("test", ["auto", None])
def test_a_stopped_model_is_said_to_be_one_wherever_it_is_read(stopped, test):
    model, X, y = stopped
    with pytest.warns(debias.DebiasWarning, match="the number of trees was chosen by the loss on rows") as caught:
        audit = debias.audit(model, X[200:300], y[200:300], test=test, random_state=0)
    assert sum(str(each.message) == STOPPED_EARLY for each in caught) == 1
    assert audit.warnings.count(STOPPED_EARLY) == 1
    sentence = f"T{STOPPED_EARLY[1:]}."
    assert audit.summary()[0 if test else 1] == sentence
    assert sentence in " ".join(str(audit).splitlines())
    in_batches = [(X[200:250], y[200:250]), (X[250:300], y[250:300])]
    with pytest.warns(debias.DebiasWarning, match="score other rows then"):
        debias.score(model, in_batches, rows="held-out")


def test_a_model_that_was_not_stopped_is_not_said_to_be(stopped):
    model, X, y = stopped
    never = XGBRegressor(n_estimators=5, max_depth=3, early_stopping_rounds=5, n_jobs=1)
    never.fit(X[:200], y[:200], eval_set=[(X[200:300], y[200:300])], verbose=False)
    assert STOPPED_EARLY not in debias.audit(never, X[200:300], y[200:300], random_state=0).warnings
    assert STOPPED_EARLY not in debias.score(model, scorer="gain").warnings  # no rows are scored
