"""Scores that are not debias's: from the definition, and as entrants of a study."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from debias_bench import rival_scorers, runner, simulate
from debias_bench.study import forest
from support.small_study import STUDY


def test_correlation_is_that_of_numpy_and_the_largest_over_classes():
    drawn = simulate.loh("E1", 50, seed=0)
    X = drawn.numeric.to_numpy()
    expected = [abs(np.corrcoef(column, drawn.y)[0, 1]) for column in X.T]
    assert rival_scorers.absolute_correlation(None, drawn, 0) == pytest.approx(expected)
    classes = replace(drawn, y=np.arange(50) % 3)
    expected = [max(abs(np.corrcoef(column, classes.y == c)[0, 1]) for c in range(3)) for column in X.T]
    assert rival_scorers.absolute_correlation(None, classes, 0) == pytest.approx(expected)
    constant = simulate.Simulation(drawn.X.assign(B1=1), drawn.y, drawn.groups, drawn.relevant)
    assert rival_scorers.absolute_correlation(None, constant, 0)[0] == 0


def test_mdi_plus_of_imodels_finds_a_strong_signal():
    pytest.importorskip("imodels")
    drawn = simulate.agarwal("linear", 0.8, seed=0)
    model = forest(drawn, 0, n_estimators=5, min_samples_leaf=5)
    scores = rival_scorers.mdi_plus(model, drawn, 0)
    assert scores[drawn.is_relevant].min() > scores[~drawn.is_relevant].max()


def test_rivals_take_part_in_a_study(tmp_path):
    runner.run_study(
        STUDY, out=tmp_path, messages=Console(file=io.StringIO()), repeats=1, scorers=("|correlation|", "boruta")
    )
    table = pd.read_csv(tmp_path / "small.csv")
    assert {"|correlation|", "boruta"} <= set(table["scorer"])
