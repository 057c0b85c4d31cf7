"""The benchmark of many features: that it tests as an audit does, its page, and that it goes on where it stopped."""

import io
import warnings

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import debias
from debias_bench import many_features
from debias_bench.many_features import Setting
from debias_bench.significance_settings import seed_of

SMALL = [Setting("classes", 100, 60, many_features._classes), Setting("numbers", 100, 60, many_features._numbers, 0.5)]


@pytest.mark.thorough
def test_a_data_set_is_tested_as_an_audit_tests_it(monkeypatch):
    found = []
    forests = many_features._forest

    def kept(y, seed):
        model = forests(y, seed)
        fit = model.fit
        model.fit = lambda X, y: (found.append((model, X, y)), fit(X, y))[1]
        return model

    monkeypatch.setattr(many_features, "settings", lambda: SMALL)
    monkeypatch.setattr(many_features, "_forest", kept)
    for number in range(3):
        any_found = many_features.any_found(SMALL[1], number)
        model, X, y = found[-1]
        assert X.shape == (100, 60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", debias.DebiasWarning)
            seeds = np.random.default_rng([10, 1, number])
            seeds.normal(size=(100, 60)), seeds.normal(size=(100, 1)), seeds.normal(size=100), seed_of(seeds)
            audit = debias.audit(model, X, y, rows="oob", random_state=seed_of(seeds))
        assert bool(audit.scores["honest_effects"].selected.any()) == any_found
        assert audit.scores["honest_effects"].details["test"]["trees_of_lines"] == many_features.FEW_TREES


@pytest.mark.thorough
def test_a_run_writes_a_page_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(many_features, "settings", lambda: SMALL)
    messages = Console(file=io.StringIO())
    many_features.run(tmp_path, messages, repeats=1)
    before = (tmp_path / "many-features.trials.jsonl").read_text()
    page = many_features.run(tmp_path, messages, repeats=3)
    after = (tmp_path / "many-features.trials.jsonl").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 1 + 3 * 2
    assert "| classes | 3 | 0." in page
    assert "| all | 6 | 0." in page
    figures = pd.read_csv(tmp_path / "many-features.csv")
    assert figures["data_sets"].tolist() == [3, 3, 6]


def test_the_share_is_over_data_sets_of_all_settings(monkeypatch):
    monkeypatch.setattr(many_features, "settings", lambda: SMALL)
    trials = [
        {"design": name, "repeat": k, "scores": {"default": {"found": k in found}}}
        for name, found in (("classes", {0}), ("numbers", {1, 2}), ("another", {0, 1, 2, 3}))
        for k in range(4)
    ]
    found = many_features.estimates(trials)
    assert [(name, n, shares["FWER"][0]) for name, (n, shares) in found.items()] == [
        ("classes", 4, 0.25),
        ("numbers", 4, 0.5),
        ("all", 8, 0.375),
    ]
    assert found["all"][1]["FWER"][1] == pytest.approx(np.sqrt(0.375 * 0.625 / 7))
