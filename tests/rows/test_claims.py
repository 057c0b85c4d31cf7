"""Tests of the claims on rows: which one is found, and what it proves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.rows import claims
from debias.rows.preparation import prepare
from debias.rows.request import Request


@pytest.fixture(scope="module")
def request_of():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + rng.normal(size=120)
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    return lambda rows: Request.of(forest, X, y, rows=rows)


def test_each_case_has_a_claim_of_its_own(request_of):
    request = request_of("auto")
    (member,) = request.members
    found = [
        claims.claim_of(request, member),
        claims.claim_of(request, member, known=True),
        claims.claim_of(request, replace(member, resampled="rows were drawn anew")),
        claims.claim_of(request, replace(member, positions=np.arange(3))),
    ]
    assert [type(each) for each in found] == [
        claims.StatedByUser,
        claims.FittedByDebias,
        claims.GrownOnOtherRows,
        claims.UnseenByMember,
    ]
    assert [each.checks_response for each in found] == [True, False, False, False]
    with pytest.raises(debias.RowsError, match="rows='fresh' is not one of"):
        claims.claim_of(request_of("fresh"), member)


def test_training_rows_are_proven_by_the_claim_of_the_user_and_known_by_that_of_debias(request_of):
    request = request_of("oob")
    (member,) = request.members
    stated, _ = prepare(request, member, [])
    known, _ = prepare(request, member, [], known=True)
    assert (stated.kind, stated.provenance.status) == ("oob", "proven")
    assert (known.kind, known.provenance.status) == ("oob", "known")
    for tree in range(10):  # both have the rows that the forest drew
        assert np.array_equal(stated.in_bag.draw(tree), known.in_bag.draw(tree))
