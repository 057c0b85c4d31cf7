"""``History.plot`` and ``History.to_html`` on a real file."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.ensemble import RandomForestRegressor

import debias
from support.pages import is_safe


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    y = X[:, 0] + rng.normal(size=700)
    path = tmp_path_factory.mktemp("history") / "a.history"
    for model, days in enumerate((range(3), range(3, 6))):
        forest = RandomForestRegressor(5, random_state=model).fit(X[:100], y[:100])
        found = debias.History(forest, path)
        for day in days:
            rows = slice(90 * day + 100, 90 * day + 190)
            found.add(X[rows], y[rows], at=f"2026-01-0{day + 1}")
    return found


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_both_models_are_in_one_picture_and_the_recent_periods_are_those_of_the_changes(history):
    changes = history.changes(recent=1)
    figure = history.plot(changes=changes, max_features=2)
    figure.canvas.draw()
    assert [axes.get_title("left") for axes in figure.axes] == list(history.scores().mean().nlargest(2).index)
    for axes in figure.axes:
        assert "model 2" in [text.get_text() for text in axes.texts]
        (ground,) = axes.patches
        assert ground.get_width() == pytest.approx(1)  # one day
        assert ground.get_x() + 0.5 == np.datetime64("2026-01-06").astype(int)


def test_the_strip_shows_every_period(history):
    mesh = history.plot(kind="strip").axes[0].collections[0]
    np.testing.assert_array_equal(np.sort(mesh.get_array().ravel()), np.sort(history.scores().to_numpy().ravel()))


@pytest.mark.thorough
def test_the_page_shows_the_window_and_the_changes(history, tmp_path):
    changes = history.changes(recent=1)
    text = history.to_html(tmp_path / "a.html", window=2, changes=changes)
    is_safe(text)
    assert (tmp_path / "a.html").read_text() == text
    assert "Each score is of the window of 2 periods that ends with its period." in text
    assert "What changed" in text
    assert "What changed" not in history.to_html()


def test_wrong_kinds_are_refused(history):
    with pytest.raises(ValueError, match="kind='pie' is not one of 'lines', 'strip'"):
        history.plot(kind="pie")
