"""Tests of each family of models and each capability, as docs/support.md lists them."""

from __future__ import annotations

import pickle
from functools import cache
from importlib.metadata import version

import numpy as np
import pytest

import debias
from support import families, support_table
from support.missing_values import IN_FORESTS, WHY
from support.versions import at_least

PAGE = support_table.read()


@cache  # debias changes no model, which the tests of each capability see too
def fitted(family, **columns):
    X, y = families.rows(0, **columns)
    response = families.response(family, y)
    made = {**families.FAMILIES, **families.ON_SPARK}[family]()
    return made.fit(X, response), X, response


def fresh_rows(family, **columns):
    X, y = families.rows(1, **columns)
    return X, families.response(family, y)


def out_of_bag(family):
    model, X, y = fitted(family)
    scores = debias.score(model, X, y, rows="oob")
    assert scores.provenance["status"] == "proven"
    with pytest.raises(debias.ProvenanceError):
        debias.score(model, X[::-1], y[::-1], rows="oob")


def held_out(family, **columns):
    model, _, _ = fitted(family, **columns)
    X, y = fresh_rows(family, **columns)
    scores = debias.score(model, X, y, rows="held-out")  # compares leaves and raw output with the library's
    assert scores.values[0] != 0
    if family in families.UNNAMED:
        return
    other = debias.score(model, X[list("cba")], y, rows="held-out")
    assert other.feature_names == scores.feature_names
    np.testing.assert_array_equal(other.values, scores.values)


def weights(family):
    model, _, _ = fitted(family)
    X, y = fresh_rows(family)
    times = np.random.default_rng(2).integers(0, 4, len(X))
    repeated = np.repeat(np.arange(len(X)), times)
    for scorer in ("mdi_oob", "oob_split"):
        weighted = debias.score(model, X, y, scorer, rows="held-out", sample_weight=times).values
        many = debias.score(model, X.iloc[repeated], y[repeated], scorer, rows="held-out").values
        np.testing.assert_allclose(weighted, many, rtol=1e-10, atol=1e-10)
        assert weighted.any()


def refit(family):
    model, X, y = fitted(family)
    before = None if family in families.UNPICKLED else pickle.dumps(model)
    half, same, whole = (debias.refit(model, X[:n], y[:n], random_state=3) for n in (80, 80, 150))
    evaluation = fresh_rows(family)
    one, two, other = (debias.score(each, *evaluation, rows="held-out").values for each in (half, same, whole))
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()
    assert pickle.dumps(model) == before


REASONS = {
    "missing": "ith scikit-learn 1.8 or later|Input X contains NaN",  # extra trees of 1.5 refuse them
    "categories": "XGBoost keeps them",
}
"""What is said of versions that lack a capability, by debias or by the library."""
CAPABILITIES = {
    "out-of-bag": out_of_bag,
    "held-out": held_out,
    "weights": weights,
    "missing": lambda family: held_out(family, missing=True),
    "categories": lambda family: held_out(family, categories=True),
    "refit": refit,
}


BASE = ("RandomForest", "Extra", "Decision", "Bagging", "Gradient", "AdaBoost", "Hist", "XGBoost", "LightGBM")
"""Beginnings of the names of families that every developer has the libraries of."""


def marks_of(family, capability):
    if family in families.ON_SPARK:
        return [pytest.mark.integration]
    return [pytest.mark.quick] * (capability == "held-out" and family.startswith(BASE))


@pytest.mark.filterwarnings("ignore::debias.DebiasWarning")  # of columns in another order
@pytest.mark.parametrize(
    ("family", "capability"),
    [
        pytest.param(family, each, marks=marks_of(family, each), id=f"{family}-{each}")
        for family in (*families.FAMILIES, *families.ON_SPARK)
        for each in support_table.CAPABILITIES
    ],
)
def test_the_table_of_support_holds(family, capability, record_property, request):
    if family in families.ON_SPARK:
        request.getfixturevalue("spark")
    record_property("family", family)
    record_property("capability", capability)
    if lacks := lacking(family, capability):
        record_property("lacks", lacks)
        record_property("outcome", "refused")
        with pytest.raises((debias.errors.DebiasError, ValueError), match=REASONS[capability]):
            CAPABILITIES[capability](family)
        return
    if capability in ("missing", "categories") and not takes(family, capability):
        outcome = "no"
    else:
        try:
            CAPABILITIES[capability](family)
            outcome = "yes"
        except (debias.InBagUnavailableError, debias.UnsupportedModelError):
            outcome = "refused"
    record_property("outcome", outcome)
    if PAGE:
        written = PAGE.get((family, capability), "not there")
        assert outcome == written, "docs/support.md: run python tests/support/support_table.py if this is meant"


def lacking(family, capability):
    """Return what the installed version of the library lacks, so that debias must refuse; None if nothing."""
    if family in families.ON_SPARK:
        return None
    boosters = ("Hist", "Gradient", "AdaBoost", "XGBoost", "LightGBM", "CatBoost")
    others = ("YDF", "treelite", "H2O", "PMML", "FLAML", "AutoGluon")  # they fill missing values, or route them
    if capability == "missing" and not IN_FORESTS and not family.startswith((*boosters, *others)):
        return f"scikit-learn {version('scikit-learn')}: {WHY}"
    if capability == "categories" and family.startswith("XGBoost") and not at_least("xgboost", "3.1"):
        return f"xgboost {version('xgboost')}: it keeps no labels of categories"
    return None


def takes(family, columns):
    """Whether the library trains on such columns at all."""
    try:
        fitted(family, **{columns: True})
    except ValueError:
        return False
    return True
