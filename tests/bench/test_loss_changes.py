"""The benchmark of changes of the loss: its faults, what stands beside it, and its page."""

import io

import numpy as np
import pytest
from rich.console import Console

from debias_bench import loss_changes
from debias_bench.loss_changes import EFFECTS, MODELS, NOTHING, VALUES, Setting, drawn, outcome, response, settings

RNG = np.random.default_rng


def test_columns_go_together_as_the_page_says():
    X, seen = drawn(Setting(NOTHING, ""), RNG(0), 50_000, 0, after=True)
    assert seen.tobytes() == X.tobytes()
    expected = np.eye(8)
    together = np.ix_([0, 1, 2, 4], [0, 1, 2, 4])
    expected[together] = np.where(np.eye(4) == 1, 1.0, loss_changes.CORRELATION)
    # The standard error of a correlation is .0045.
    np.testing.assert_allclose(np.corrcoef(X.T), expected, atol=0.02)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [("stuck", np.zeros_like), ("unit", lambda x: 100 * x), ("reversed", np.negative), ("higher", lambda x: x + 1.5)],
)
def test_a_fault_is_of_what_the_model_sees_and_of_its_column_only(fault, expected):
    setting = Setting(VALUES, "", ((0, fault),))
    X, seen = drawn(setting, RNG(0), 100, 0, after=True)
    np.testing.assert_array_equal(seen[:, 0], expected(X[:, 0]))
    np.testing.assert_array_equal(seen[:, 1:], X[:, 1:])
    before = drawn(setting, RNG(0), 100, 0, after=False)
    np.testing.assert_array_equal(*before)


def test_mixed_and_permuted_values_are_those_of_the_column():
    X, permuted = drawn(Setting(VALUES, "", ((0, "permuted"),)), RNG(0), 1000, 0, after=True)
    np.testing.assert_array_equal(np.sort(permuted[:, 0]), np.sort(X[:, 0]))
    assert (permuted[:, 0] != X[:, 0]).mean() > 0.99
    X, mixed = drawn(Setting(VALUES, "", ((0, "mixed"),)), RNG(0), 1000, 0, after=True)
    assert 0.4 < (mixed[:, 0] != X[:, 0]).mean() < 0.6


def test_a_season_is_the_same_in_both_windows():
    setting = Setting(NOTHING, "", season=True)
    means = [drawn(setting, RNG(0), 20_000, number, after=False)[0][:, 1].mean() for number in range(10)]
    assert max(means) > 0.6
    assert abs(np.mean(means)) < 0.02
    assert loss_changes.BEFORE % loss_changes.SEASON == loss_changes.AFTER % loss_changes.SEASON == 0


def test_an_index_and_a_test_by_definition():
    rng = RNG(0)
    before = rng.normal(size=(4000, 3))
    after = rng.normal(size=(2000, 3))
    after[:, 1] += 1
    edges = np.quantile(before[:, 1], np.arange(1, 10) / 10)
    index = 0.0
    for low, high in zip([-np.inf, *edges], [*edges, np.inf], strict=True):
        one, other = (((values > low) & (values <= high)).mean() for values in (before[:, 1], after[:, 1]))
        index += (other - one) * np.log(other / one)
    assert index > loss_changes.LARGE_INDEX
    assert loss_changes._large_index(before, after) == {1}
    assert loss_changes._by_kolmogorov(before, after) == {1}


@pytest.mark.parametrize(("effects", "column"), [((-1.0, 1.0), 0), ((1.0, -1.0), 2)])
def test_only_the_effect_of_one_feature_changes(effects, column):
    X = RNG(0).normal(size=(50, 8))
    one, other = (response(RNG(1), X, "forest", each) for each in ((1.0, 1.0), effects))
    np.testing.assert_allclose(one - other, 2 * (X[:, 0] if column == 0 else np.abs(X[:, 2])))
    assert Setting(EFFECTS, "", effects=effects).truth == (column,)


@pytest.mark.thorough
def test_a_run_writes_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(loss_changes, "N_TRAINING_ROWS", 500)
    chosen = [each for each in settings() if each.name in ("all periods alike", "x0 permuted", "to zero")]
    monkeypatch.setattr(loss_changes, "settings", lambda: chosen)
    page = loss_changes.run(tmp_path, Console(file=io.StringIO()), repeats=1)
    assert page == (tmp_path / "loss-changes.md").read_text()
    for heading in (NOTHING, VALUES, EFFECTS):
        assert f"## {heading}" in page
    assert page.count("| x0 permuted | ") == len(MODELS)
    found = outcome(chosen[1], MODELS[0], 0)
    assert found["found"] == found["rose"] == 1
    assert found["index"] == found["test"] == 0  # its distribution is the same
    assert outcome(chosen[0], MODELS[0], 0)["found"] is None
