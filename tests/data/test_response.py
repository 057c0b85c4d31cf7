"""Tests of responses: what an adapter gets of y is what the user passed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.data.response import as_passed, encode
from debias.testing.scorers import TASKS, toy_rows


@pytest.mark.parametrize("task", TASKS)
def test_adapters_see_the_response_as_it_was_passed(task):
    """Scores subtract the mean of a forest from y, and replace y of a boosted model by its gradient."""
    ensemble = toy_rows(task).ensemble
    numbers = np.random.default_rng(0).normal(5, 1, 20)
    labels = np.where(numbers > 5, "yes", "no")
    y, expected = (numbers, numbers) if task == TASKS[0] else (labels, labels == "yes")
    seen = as_passed(encode(y, ensemble, 20), ensemble)
    assert seen.shape == (20,)
    np.testing.assert_allclose(seen, expected, rtol=1e-15)


def test_several_responses_stay_several_columns():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    ensemble = debias.plugin.extract(RandomForestRegressor(3, random_state=0).fit(X, y))
    np.testing.assert_allclose(as_passed(encode(y, ensemble, 50), ensemble), y, rtol=1e-15)
