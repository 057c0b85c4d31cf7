"""Pictures and pages of scores over time and of what changed, against the frames that they show."""

import datetime
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from debias.results.report.figures import MUTED, settings
from debias.results.report.history import TimeAxis, draw_history, draw_strip, important
from debias.results.report.history_page import history_page
from debias.results.vocabulary import ChangeVerdict
from debias.text import escaped
from support.made_over_time import made_changes, made_scores
from support.pages import HOSTILE, Reader, is_safe

NAMES = [f"feature {k}" for k in range(5)]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def panels(scores, errors, series, **given):
    figure = Figure(figsize=(9.6, 4), layout="constrained")
    with settings():
        draw_history(figure, scores, errors, series, **given)
        figure.canvas.draw()
    return {axes.get_title("left"): axes for axes in figure.axes}


def strip(scores, series):
    figure = Figure(figsize=(9.6, 4), layout="constrained")
    with settings():
        draw_strip(figure.subplots(), scores, series)
        figure.canvas.draw()
    return figure.axes[0]


def page(scores, errors, series, **given):
    periods = pd.DataFrame({"series": series, "n_rows": 100}, index=scores.index)
    labels = pd.Index(dict.fromkeys(series))
    return history_page(scores, errors, periods, pd.DataFrame({"model": "forest", "version": "1"}, labels), **given)


def test_the_lines_are_the_scores_and_break_where_a_new_model_begins():
    scores, errors, series = made_scores(20, NAMES, n_models=2)
    for name, axes in panels(scores, errors, series).items():
        lines = [line for line in axes.lines if line.get_label() == "score"]
        assert [len(line.get_xdata()) for line in lines] == [10, 10]
        np.testing.assert_array_equal(np.concatenate([line.get_ydata() for line in lines]), scores[name])
        (mark,) = [line for line in axes.lines if list(line.get_ydata()) == [0, 1]]
        assert lines[0].get_xdata()[-1] < mark.get_xdata()[0] < lines[1].get_xdata()[0]
        assert "model 2" in [text.get_text() for text in axes.texts]


def test_the_band_is_the_interval():
    scores, errors, series = made_scores(6, ["a"])
    (axes,) = panels(scores, errors, series).values()
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    for end in (-1, 1):
        for value in scores["a"] + end * 1.959964 * 0.01:
            assert np.isclose(band, value).any()


def test_the_features_are_those_with_the_largest_mean_over_the_known_periods():
    scores, errors, series = made_scores(10, NAMES)
    scores.loc[scores.index[5:], "feature 3"] = np.nan
    scores.loc[scores.index[:5], "feature 3"] = 9.0
    scores["feature 0"] = np.nan
    assert list(scores.columns[important(scores)]) == ["feature 3", "feature 1", "feature 2", "feature 4", "feature 0"]
    drawn = panels(scores, errors, series, most=2)
    assert list(drawn) == ["feature 3", "feature 1"]
    title = drawn["feature 1"].figure.legends[0].get_title().get_text()
    assert title == "+3 more features"


def test_an_older_model_that_is_still_scored_is_grey_from_where_the_new_one_begins():
    old, errors, _ = made_scores(10, ["a"])
    scores = pd.concat([old, old.iloc[5:] + 1]).sort_index(kind="stable")
    series = ["old"] * 5 + ["old", "new"] * 5
    (axes,) = panels(scores, pd.concat([errors, errors.iloc[5:]]), series).values()
    (grey,) = [line for line in axes.lines if line.get_label() == "score of an earlier model"]
    assert grey.get_color() == MUTED
    np.testing.assert_array_equal(grey.get_ydata(), old["a"][5:])
    mesh = strip(scores, series).collections[0]
    np.testing.assert_array_equal(mesh.get_array().ravel(), np.concatenate([old["a"][:5], old["a"][5:] + 1]))


def test_the_verdicts_are_in_words_and_marks_and_the_recent_periods_have_a_ground():
    scores, errors, series = made_scores(10, NAMES)
    verdicts = dict(zip(NAMES, ChangeVerdict, strict=False))
    for name, axes in panels(scores, errors, series, verdicts=verdicts, recent=(7, 9)).items():
        mark = verdicts[name].display.mark
        assert f"{mark} {verdicts[name]}" in [text.get_text() for text in axes.texts]
        (ground,) = axes.patches
        places = TimeAxis(scores.index, series).places
        assert places[6] < ground.get_x() < places[7]


def test_the_strip_has_a_gap_where_periods_are_missing():
    index = pd.date_range("2026-01-01", periods=10).delete([3, 4])
    scores, _, series = made_scores(8, NAMES, index=index)
    cells = strip(scores, series).collections[0].get_array()
    assert cells.shape == (5, 9)
    assert cells.mask.any(axis=0).tolist() == [k == 3 for k in range(9)]
    order = important(scores)
    np.testing.assert_array_equal(np.delete(cells.data, 3, axis=1), scores.to_numpy().T[order])


def test_the_colours_of_a_strip_are_white_at_0_and_differ_in_grey():
    scores, _, series = made_scores(3, ["a"])
    scores["a"] = [-1.0, 0.0, 1.0]
    mesh = strip(scores, series).collections[0]
    colours = mesh.cmap(mesh.norm(scores["a"].to_numpy()))[:, :3]
    grey = colours @ [0.299, 0.587, 0.114]
    np.testing.assert_allclose(colours[1], 1, atol=0.01)
    assert grey[2] < grey[0] - 0.15


INDICES = {
    "dates": pd.date_range("2026-01-31", periods=12, freq="ME"),
    "times in Berlin": pd.date_range("2026-03-28 22:00", periods=12, freq="h", tz="Europe/Berlin"),
    "dates as objects": pd.Index([datetime.date(2026, 1, day) for day in range(1, 13)], dtype=object),
    "numbers": pd.Index(np.arange(12) / 4),
    "names": pd.Index([f"$release_{k}$ of the very long year" for k in range(12)], dtype=object),
    "hostile names": pd.Index((HOSTILE * 2)[:12], dtype=object),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", INDICES)
def test_periods_may_be_dates_numbers_and_names(kind):
    scores, errors, series = made_scores(12, ["a", "b"], index=INDICES[kind], n_models=2)
    axis = TimeAxis(scores.index, series)
    assert axis.kind in kind.replace("times", "dates")
    panels(scores, errors, series)
    strip(scores, series)
    text = page(scores, errors, series)
    is_safe(text)
    if kind == "times in Berlin":
        assert axis.texts[0] == "2026-03-28 21:00 UTC"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n_periods", "n_features", "n_models"), [(1, 1, 1), (1, 3, 1), (2, 4, 2), (400, 2, 1), (20, 4, 20)]
)
def test_every_size_can_be_drawn(n_periods, n_features, n_models):
    names = [f"feature {k}" for k in range(n_features)]
    scores, errors, series = made_scores(n_periods, names, n_models=n_models, missing=0.2 if n_periods > 2 else 0)
    panels(scores, errors, series)
    panels(scores * 0, errors * np.nan, series)
    panels(scores * np.nan, errors, series)
    strip(scores, series)
    strip(scores * np.nan, series)


def test_wrong_use_is_refused():
    scores, errors, series = made_scores(3, NAMES)
    with pytest.raises(ValueError, match="there is nothing to draw"):
        draw_history(Figure(), scores.iloc[:0], errors.iloc[:0], [])
    with pytest.raises(ValueError, match="series has 2 labels, but scores has 3 periods"):
        draw_strip(Figure().subplots(), scores, series[:2])
    with pytest.raises(ValueError, match="max_features must be a whole number"):
        draw_history(Figure(), scores, errors, series, most=0)
    with pytest.raises(ValueError, match="there is nothing to draw: there is only one period"):
        made_changes(NAMES, compared=False).plot()


def test_the_picture_of_changes_shows_both_scores():
    changes = made_changes(NAMES)
    axes, table = changes.plot(max_features=3), changes.to_frame()
    before = next(line for line in axes.lines if line.get_label() == "before")
    np.testing.assert_array_equal(before.get_xdata(), table["before"][:3])
    after = {at[1]: (at[0], line.get_marker()) for line in axes.lines for at in line.get_xydata() if line is not before}
    for row, (_, told) in enumerate(table[:3].iterrows()):
        assert after[row] == (told["after"], ChangeVerdict(told["verdict"]).display.marker)
    assert [text.get_text() for text in axes.texts].count("rows shifted") == table["shifted"][:3].sum()
    assert [label.get_text() for label in axes.get_yticklabels()] == [*table.index[:3], "+2 more"]


@pytest.mark.thorough
def test_pages_of_changes_tell_the_table_and_escape_names():
    changes = made_changes([*HOSTILE, *NAMES])
    text = changes.to_html()
    is_safe(text)
    read = Reader(text)
    for name in HOSTILE:
        assert escaped(name) in read.text
    for sentence in changes.summary():
        assert escaped(sentence) in read.text
    (said,) = [sentence for sentence in read.text if " features changed" in sentence]  # once
    assert said.startswith(f"The response to {int(changes.statistics['changed'].sum())} of 13 features changed: ")
    for name in NAMES:
        row = re.search(rf"<bdi>{name}</bdi></th>(.*?)</tr>", text, re.S).group(1)
        assert changes.to_frame().loc[name, "verdict"] in row
    assert text == changes.to_html()
    nothing = made_changes(NAMES, compared=False).to_html()
    is_safe(nothing)
    assert "Not judged: there is only one period." in nothing
    assert "<svg" not in nothing


@pytest.mark.thorough
def test_the_page_of_a_history_tells_scores_models_and_changes():
    names = [*HOSTILE, *NAMES]
    scores, errors, series = made_scores(12, names, n_models=2, missing=0.1)
    changes = made_changes(names)
    text = page(scores, errors, series, window="7d", changes=changes, recent=(8, 11))
    is_safe(text)
    read = Reader(text)
    assert "Scores of 13 features in 12 periods from 2026-01-01 to 2026-01-12, with 2 models." in read.text
    assert "Each score is of the window of 7d that ends with its period." in read.text
    for sentence in changes.summary():
        assert escaped(sentence) in read.text
    section = text[text.index('<section id="features"') : text.index('<section id="models"')]
    for name in NAMES:
        row = re.search(rf"<bdi>{name}</bdi></th>(.*?)</tr>", section, re.S).group(1)
        mean, lowest, highest, last, n_periods = re.findall(r"<td>([^<]+)</td>", row)
        known = scores[name].dropna()
        told = [float(figure) for figure in (mean, lowest, highest, last)]
        np.testing.assert_allclose(told, [known.mean(), known.min(), known.max(), known.iloc[-1]], atol=6e-5)
        assert int(n_periods) == known.size
    assert text == page(scores, errors, series, window="7d", changes=changes, recent=(8, 11))


@pytest.mark.slow
def test_a_page_of_1000_features_and_400_periods_is_bounded():
    text = page(*made_scores(400, [f"feature {k}" for k in range(1000)], n_models=5))
    assert len(text) < 2_000_000
