"""Every kind of page is read by a screen reader, and by eyes that see little contrast: axe finds nothing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import cross_validate
from xgboost import XGBRegressor

import debias
from support import chromium
from support.accessibility import violations

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(chromium.PATH is None, reason="no Chromium on this machine (apt-get install chromium)"),
]
PAGES = ("audit", "folds", "clusters", "interactions", "droppable", "models", "history", "changes", "fleet")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A folder with a page of every kind."""
    home = tmp_path_factory.mktemp("pages")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    forest = RandomForestRegressor(40, min_samples_leaf=5, random_state=0).fit(X, y)
    debias.audit(forest, X, y, random_state=0).to_html(home / "audit.html")
    debias.clusters(forest, X, y, random_state=0).to_html(home / "clusters.html")
    folds = cross_validate(
        RandomForestRegressor(10, random_state=0), X, y, cv=3, return_estimator=True, return_indices=True
    )
    debias.audit_folds(folds, X, y, interactions=[("bmi", "s5")]).to_html(home / "folds.html")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1600, 5)), columns=list("abcde"))
    y = X.a + 2 * X.b * X.c + rng.normal(size=1600)
    booster = XGBRegressor(n_estimators=40, max_depth=3, n_jobs=1).fit(X[:800], y[:800])
    debias.interactions(booster, X[800:], y[800:]).to_html(home / "interactions.html")
    debias.droppable(booster, X[800:], y[800:], train=(X[:800], y[:800])).to_html(home / "droppable.html")
    smaller = XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1).fit(X[:800], y[:800])
    debias.compare(booster, X[800:], y[800:], baseline=smaller).to_html(home / "models.html")
    history = debias.History(booster, home / "booster.history")
    for day in range(20):
        part = slice(800 + 40 * day, 840 + 40 * day)
        rows = X[part].copy()
        if day >= 10:
            rows["a"] = rng.permutation(rows["a"])
        history.add(rows, y[part], at=f"2026-11-{day + 1:02}")
    history.to_html(home / "history.html")
    history.changes(recent=10, reference=10).to_html(home / "changes.html")
    debias.History.fleet(home / "*.history", recent=10, reference=10, html=home / "fleet.html")
    return home


@pytest.fixture(scope="module")
def browser():
    with chromium.Browser() as opened:
        yield opened


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_axe_finds_nothing(pages, browser, name, width, scheme):
    assert violations(browser, pages / f"{name}.html", width, scheme) == []


def test_axe_would_find_something(browser, tmp_path):
    page = tmp_path / "wrong.html"
    page.write_text("<html><body><img src='a.png'><p style='color: #ddd'>pale</p></body></html>")
    found = " ".join(violations(browser, page))
    for rule in ("html-has-lang", "image-alt", "color-contrast"):
        assert rule in found
