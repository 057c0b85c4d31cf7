"""The benchmark of rivals of the test of interactions: its designs, its rivals against their formulas, and its page."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats

from debias_bench import interaction_rivals
from debias_bench.interaction_rivals import Design, _pairs, designs, h_of_pairs, iloco, measured


def test_h_is_the_share_of_the_joint_dependence_that_is_not_a_sum():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 3))
    h = h_of_pairs(lambda X: X[:, 0] + X[:, 1] ** 2 + np.sin(X[:, 2]), points)
    np.testing.assert_allclose(h, 0, atol=1e-7)
    h = h_of_pairs(lambda X: X[:, 0] * X[:, 1] + X[:, 2], points)
    x = points - 0.0
    # By hand: joint dependence x0 x1, single ones x0 mean(x1) and mean(x0) x1, all centred over the points.
    product = x[:, 0] * x[:, 1] - (x[:, 0] * x[:, 1]).mean()
    single = [(x[:, a] - x[:, a].mean()) * x[:, b].mean() for a, b in ((0, 1), (1, 0))]
    expected = np.sqrt(((product - sum(single)) ** 2).sum() / (product**2).sum())
    np.testing.assert_allclose(h, [expected, 0, 0], atol=1e-7)


def test_iloco_adds_up_losses_of_refits(monkeypatch):
    class Means:
        """A model that predicts from the columns it is given, so that losses are known."""

        def fit(self, X, y):
            self.known = X.shape[1]
            return self

        def predict(self, X):
            return X.sum(axis=1)

    monkeypatch.setattr(interaction_rivals, "_model", lambda name, seed: Means())
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X.sum(axis=1)
    score, found = iloco(None, (X, y), (X, y), "", 0)
    # Without j the loss is x_j^2, without both (x_j + x_k)^2: x_j^2 + x_k^2 - (x_j + x_k)^2 = -2 x_j x_k.
    expected = [(-2 * X[:, j] * X[:, k]).mean() for j, k in _pairs(3)]
    np.testing.assert_allclose(score, expected, atol=1e-12)
    z = [stats.ttest_1samp(-2 * X[:, j] * X[:, k], 0).statistic for j, k in _pairs(3)]
    assert list(found) == list(np.array(z) > 2.4) == [False] * 3


@pytest.mark.integration
def test_fast_ranks_a_product_first():
    pytest.importorskip("interpret")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = X[:, 0] + 2 * X[:, 1] * X[:, 3] + rng.normal(size=600)
    score, found = interaction_rivals.fast(None, (X, y), (X, y), "", 0)
    assert found is None
    assert _pairs(4)[int(score.argmax())] == (1, 3)


def test_what_is_right_is_counted():
    design = Design("d", lambda rng, n: None, ((0, 1),), ((0, 2),))
    order = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert _pairs(4) == order
    score, found = np.array([2.0, 9, 3, 1, 1, -np.inf]), np.array([True, True, False, False, False, False])
    result = measured(design, (score, found), 4)
    assert result == {"auc": 0.75, "first": 0.0, "found": 1.0, "false": 0.0}
    ties = measured(design, (np.full(6, -np.inf), None), 4)
    assert ties == {"auc": 0.5, "first": 1.0, "found": None, "false": None}
    none = measured(Design("n", lambda rng, n: None, ()), (score, found), 4)
    assert none == {"auc": None, "first": None, "found": None, "false": 1.0}


@pytest.mark.parametrize("design", designs(), ids=lambda design: design.name)
def test_designs_draw_rows_of_known_pairs(design):
    X, y = design.draw(np.random.default_rng(0), 200)
    again = design.draw(np.random.default_rng(0), 200)
    assert len(X) == len(y) == 200
    assert np.isfinite(X).all()
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(y, again[1])
    assert set(design.pairs) | set(design.left_out) <= set(_pairs(X.shape[1]))


@pytest.mark.thorough
def test_a_run_writes_a_page(tmp_path, monkeypatch):
    kept = [design for design in designs() if design.name == "product, correlation 0.5"]
    monkeypatch.setattr(interaction_rivals, "designs", lambda: kept)
    monkeypatch.setattr(interaction_rivals, "MODELS", ("XGBoost, depth 3", "forest"))
    monkeypatch.setattr(interaction_rivals, "OF_THE_OTHERS", 2)
    monkeypatch.setattr(interaction_rivals, "N_ROWS", 400)
    monkeypatch.setattr(interaction_rivals, "DRAWS", 3)
    page = interaction_rivals.run(tmp_path, Console(file=io.StringIO()), repeats=1)
    assert "| product, correlation 0.5 | XGBoost, depth 3 | debias.interactions | 1 | " in page
    assert "| product, correlation 0.5 | forest | debias.interactions | 2 | " in page
    table = pd.read_csv(tmp_path / "interaction-rivals.csv")
    assert set(table["quantity"]) == {"auc", "first", "found", "false"}
    costly = table.query("method in ('H statistic, permutations', 'iLOCO')")
    assert {*zip(costly["method"], costly["model"], strict=True)} == {
        ("H statistic, permutations", "XGBoost, depth 3"),
        ("iLOCO", "XGBoost, depth 3"),
    }
