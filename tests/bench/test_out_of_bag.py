"""The benchmark of tests out of bag: its trials repeat, and its page has the rates of each test."""

import io

import numpy as np
import pytest
from rich.console import Console

from debias_bench import out_of_bag
from debias_bench.out_of_bag import DESIGNS, N_ROWS, TESTED, trial


def test_relevant_features_come_first_and_the_others_are_independent_of_the_response():
    for draw in DESIGNS.values():
        X, y, n_relevant = draw(np.random.default_rng(0))
        assert X.shape[0] == len(y) == N_ROWS
        assert n_relevant < X.shape[1]


@pytest.mark.thorough
def test_a_trial_gives_the_same_rates_again():
    first = trial("noise correlated .95 beside two effects", 0)
    np.testing.assert_equal(first, trial("noise correlated .95 beside two effects", 0))
    assert first.keys() == TESTED.keys()
    assert all(rates[2] == 1 for rates in first.values())  # two strong effects


@pytest.mark.thorough
def test_a_run_writes_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(out_of_bag, "DESIGNS", {name: DESIGNS[name] for name in ("noise correlated .95", "weak")})
    page = out_of_bag.run(tmp_path, Console(file=io.StringIO()), repeats=2)
    assert "| weak | shap_oob | 2 |" in page
    assert "| noise correlated .95 | mdi_oob | 2 |" in page
