"""Tests of scorers that are written as classes: what they must offer, and what is refused with which words."""

from typing import Protocol, runtime_checkable

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).normal(size=(120, 4))
    return X, X[:, 0] + X[:, 1]


@pytest.fixture(scope="module")
def forest(rows):
    return RandomForestRegressor(10, random_state=0).fit(*rows)


class Ones(debias.plugin.TreeScorer):
    name, unit = "ones", "none"

    def score(self, ensemble, rows):
        return np.ones(ensemble.n_features), {}

    def with_options(self, **options):
        raise debias.plugin.CompositionError("ones has no options")


class OnesOfData(debias.plugin.DataScorer):
    name, unit = "ones_of_data", "none"

    def score(self, data):
        return np.ones(data.n_features), {}

    def with_options(self, **options):
        raise debias.plugin.CompositionError("ones_of_data has no options")


class Old:
    name, unit, needs = "old", "none", frozenset({"rows"})

    def score(self, ensemble, rows):
        return np.ones(ensemble.n_features), {}

    def with_options(self, **options):
        return self


def variant(**members):
    return type("Variant", (Ones,), members)()


def test_classes_that_inherit_are_scorers(forest, rows):
    assert debias.score(forest, *rows, Ones()).values.tolist() == [1.0] * 4
    assert debias.score(None, *rows, OnesOfData()).values.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Ones, "Ones is a class: register an instance of it"),
        (variant(name="two words"), "use letters, digits and _"),
        (variant(name=None), "the name None"),
        (Old(), "It has no options, gives, inner. .* inherits from debias.plugin.TreeScorer"),
    ],
)
def test_what_cannot_be_registered_leaves_no_trace(plugin, message):
    with pytest.raises(debias.plugin.PluginError, match=message):
        debias.plugin.register(plugin)
    assert debias.plugin.scorer("mdi").name == "mdi"


def test_a_class_without_a_name_cannot_be_an_instance():
    with pytest.raises(TypeError, match="abstract"):
        type("Nameless", (debias.plugin.TreeScorer,), {"score": Ones.score, "with_options": Ones.with_options})()


@pytest.mark.parametrize("scorer", [Old(), Ones])
def test_other_objects_are_told_how_to_be_a_scorer(scorer, forest, rows):
    with pytest.raises(debias.plugin.CompositionError, match="inherits from debias.plugin.TreeScorer"):
        debias.score(forest, *rows, scorer)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.ones(3), r"returned shape \(3,\) for 4 features"),
        ((np.ones(4), None), "an array and a dict of details"),
        (np.full(4, np.nan), "not finite"),
        (None, "returned shape|not an array"),
        ("text", "not an array of numbers"),
    ],
)
def test_what_a_class_returns_is_checked(result, message, forest, rows):
    with pytest.raises(debias.DebiasError, match=message):
        debias.score(forest, *rows, variant(score=lambda self, ensemble, rows: result))


@pytest.mark.parametrize("weight", [np.ones(3), "nan"])
def test_node_weights_are_checked(weight, forest, rows):
    def node_weight(self, ensemble, rows):
        return np.full(ensemble.n_nodes, np.nan) if isinstance(weight, str) else weight

    with pytest.raises(debias.DebiasError, match="node_weight of ones must be"):
        debias.audit(forest, *rows, tested=variant(node_weight=node_weight))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tested": "mdi"}, "uses no rows"),
        ({"tested": "guide"}, "not a scorer of trees, .* such as mdi_oob"),
        ({"tested": "shadow(mdi)"}, "not a scorer of trees"),
        ({"tested": "ufi"}, "no contributions of rows"),
        ({"scorers": "mdi"}, "must be a list"),
        ({"scorers": [variant(name="share")]}, "cannot be called 'share'"),
        ({"tested": variant(), "scorers": [variant()]}, "ones is asked for twice"),
    ],
)
def test_what_an_audit_cannot_rest_on_is_refused(options, message, forest, rows):
    with pytest.raises(debias.DebiasError, match=message):
        debias.audit(forest, *rows, **options)


def test_the_default_scorer_beside_may_be_the_main_one(forest, rows):
    assert list(debias.audit(forest, *rows, tested="oob_loss", test=None).scores) == ["oob_loss"]


def test_an_untested_audit_shows_no_decision_of_its_scorer(forest, rows):
    def decides(self, ensemble, rows):
        return np.ones(4), {"selected": np.ones(4, dtype=bool), "p_value": np.full(4, 0.01)}

    audit = debias.audit(forest, *rows, tested=variant(score=decides), test=None)
    assert set(audit.verdict) == {"untested"}
    assert debias.Audit.from_json(audit.to_json()).verdict == audit.verdict


def test_a_gate_compares_audits_of_one_main_scorer(forest, rows):
    old, new = (
        debias.audit(forest, *rows, random_state=0, tested=name) for name in ("mdi_oob", "mdi_oob(shrinkage=50)")
    )
    with pytest.raises(debias.errors.PolicyError, match="tested scorers differ: mdi_oob.shrinkage=50. now, mdi_oob in"):
        new.check({"max_share_change": 0.5}, baseline=old)


def test_rows_in_batches_have_no_contributions(forest, rows):
    with pytest.raises(debias.plugin.CompositionError, match="debias.contributions needs all rows at once"):
        debias.contributions(forest, [rows], None)


@pytest.mark.parametrize(
    ("call", "scorer"),
    [(debias.audit, ["shadow(mdi)"]), (debias.score, "shadow(mdi)"), (debias.score, "gini_merit")],
)
def test_blocks_are_not_dropped_where_they_cannot_count(call, scorer, forest, rows):
    with pytest.raises(debias.plugin.CompositionError, match="blocks(,| and| or) "):
        call(forest, debias.Dataset(*rows, blocks=np.arange(120) // 2), None, scorer)


def test_a_class_of_a_kind_may_meet_a_protocol_of_the_users_own():
    @runtime_checkable
    class Named(debias.plugin.TreeScorer, Protocol):
        kind_of_scorer: str

    class Mine(debias.plugin.TreeScorer):
        name, unit, kind_of_scorer = "mine", "1", "text"

        def score(self, ensemble, rows):
            return np.zeros(ensemble.n_features), {}

        def with_options(self, **options):
            return self

    assert isinstance(Mine(), Named)
    assert isinstance(Mine(), debias.plugin.TreeScorer)
    assert not isinstance(Mine(), debias.plugin.DataScorer)
    kinds = {
        "mdi": debias.plugin.TreeScorer,
        "guide": debias.plugin.DataScorer,
        "response_permutation(mdi)": debias.plugin.RefitScorer,
    }
    for name, kind in kinds.items():
        scorer = debias.plugin.scorer(name)
        assert [isinstance(scorer, each) for each in kinds.values()] == [each is kind for each in kinds.values()]
