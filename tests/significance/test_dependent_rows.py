"""Tests of the warning that consecutive rows are alike, in audits."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import debias
from support.simulated import autoregressive

pytestmark = pytest.mark.filterwarnings("ignore:about .* rows (are|may be) training rows:debias.DebiasWarning")
N, P = 400, 4


@pytest.fixture(scope="module")
def series():
    """Return noise of 800 rows in which X and y are AR(1) .8, and a forest that was trained on the first half."""
    both = autoregressive(np.random.default_rng(0), (2 * N, P + 1), 0.8)
    X, y = both[:, 1:], both[:, 0]
    return X, y, RandomForestRegressor(40, random_state=0, min_samples_leaf=5).fit(X[:N], y[:N])


def audited(series, held_out, blocks=None, **given):
    X, y, forest = series
    part = slice(N, 2 * N) if held_out else slice(N)
    rows = "held-out" if held_out else "oob"
    return debias.audit(
        forest, debias.Dataset(X[part], y[part], blocks=blocks), scorers=[], rows=rows, random_state=0, **given
    )


WORDS = (
    r"consecutive {0} are alike: they have similar responses and similar values of x\d( and \d more features?)?, as in "
    r"a time series, or if several rows are of one subject or place\. P-values treat {0} as independent\. If they are "
    r"not, noise is called informative too often\. Similarity reaches over about (\d+) rows: pass blocks in "
    r"debias\.Dataset\(X, y, blocks=\.\.\.\), of (\d+) "
    r"consecutive rows or more(, on rows that the model has not seen \(rows='held-out'\), since hardly any block of "
    r"this length is out of bag)?\. If independent rows were sorted by a column, they may be alike for this reason only"
)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.filterwarnings("ignore:a tree has .* whole blocks:debias.DebiasWarning")
def test_rows_and_blocks_of_a_series_are_warned_of(series, held_out, size):
    with pytest.warns(debias.DebiasWarning, match="consecutive .* are alike") as caught:
        audit = audited(series, held_out, None if size == 1 else np.arange(N) // size)
    (text,) = [str(warning.message) for warning in caught if "are alike" in str(warning.message)]
    said = re.fullmatch(WORDS.format("rows" if size == 1 else "blocks"), text)
    assert said
    reach, advised = int(said[2]), int(said[3])
    assert 4 <= reach <= 30  # .8^reach is .05, the limit of chance, at 13.4 rows
    assert advised == 2 * reach
    assert (said[4] is None) == held_out
    assert text in audit.warnings


def test_long_blocks_held_out_are_not_warned_of(series):
    audit = audited(series, True, np.arange(N) // 20)  # warnings are errors here
    assert audit.tested_scores.details["test"]["method"] == "residuals"


def test_neighbours_in_another_order_are_not_seen(series):
    X, y, forest = series
    order = np.random.default_rng(0).permutation(np.arange(N, 2 * N))
    assert not debias.audit(forest, X[order], y[order], scorers=[], rows="held-out", random_state=0).warnings


def test_blocks_that_do_not_follow_one_another_are_examined_in_the_order_of_their_first_rows(series):
    """Rows of a block may lie anywhere: block b of a series has the rows b and b + 100, ..., and its mean is noise."""
    X, y, forest = series
    order = (np.arange(N).reshape(100, 4).T).ravel()  # of each block of four first one row, then the next
    block = np.tile(np.arange(100), 4)
    with pytest.warns(debias.DebiasWarning, match="consecutive blocks are alike"):
        debias.audit(
            forest,
            debias.Dataset(X[N:][order], y[N:][order], blocks=block),
            scorers=[],
            rows="held-out",
            random_state=0,
        )


def test_a_warning_tells_what_is_not_tested_is_not_given(series):
    assert not audited(series, True, test=None).warnings


@pytest.mark.parametrize("by", ["class", "feature"])
def test_sorted_rows_are_not_taken_for_dependent_ones(by):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    y = (X[:, 0] + rng.normal(size=N) > 0).astype(int)
    order = np.argsort(y if by == "class" else X[:, 0], kind="stable")
    X, y = X[order], y[order]
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    assert not debias.audit(forest, X, y, scorers=[], random_state=0).warnings


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(consecutive rows|these rows|the mean of y):debias.DebiasWarning")
def test_noise_in_held_out_blocks_of_twice_the_reach_is_found_at_about_the_level():
    """AR(1) .8, 60 series of 400 held-out rows. With other seeds and 200 series, the rate was .055 (SE .007) in blocks
    of 20, and .164 (.012) without blocks.
    """
    found = {1: 0, 20: 0}
    for seed in range(60):
        both = autoregressive(np.random.default_rng([1, seed]), (2 * N, P + 1), 0.8)
        X, y = both[:, 1:], both[:, 0]
        forest = RandomForestRegressor(40, random_state=seed, min_samples_leaf=5).fit(X[:N], y[:N])
        for size in found:
            blocks = None if size == 1 else np.arange(N) // size
            audit = audited((X, y, forest), True, blocks, test=debias.Permutation(adaptive=False))
            found[size] += int((audit.tested_scores.p_value <= 0.05).sum())
    assert binomtest(found[20], 60 * P, 0.06, alternative="greater").pvalue > 1e-3
    assert binomtest(found[1], 60 * P, 0.06, alternative="greater").pvalue < 1e-3


@pytest.mark.filterwarnings("ignore:these rows differ from the training rows:debias.DebiasWarning")
@pytest.mark.parametrize("size", [1, 4])
def test_a_part_of_a_long_series_is_examined(monkeypatch, size):
    monkeypatch.setattr("debias.significance.dependent_rows.LEAST_ROWS", 400)
    monkeypatch.setattr("debias.significance.dependent_rows.MOST_CELLS", 400)
    both = autoregressive(np.random.default_rng(0), (4000, P + 1), 0.8)
    X, y = both[:, 1:], both[:, 0]
    forest = RandomForestRegressor(5, random_state=0).fit(X[:100], y[:100])
    blocks = None if size == 1 else np.arange(3900) // size
    with pytest.warns(debias.DebiasWarning, match="are alike"):
        debias.audit(
            forest,
            debias.Dataset(X[100:], y[100:], blocks=blocks),
            scorers=[],
            rows="held-out",
            test=debias.Permutation(19),
        )
