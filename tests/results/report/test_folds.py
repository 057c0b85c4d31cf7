"""The picture of scores over folds and its page, against the numbers of the audits."""

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from debias.results.report.figures import settings
from debias.results.report.folds_page import draw_folds
from debias.results.vocabulary import Verdict
from debias.text import escaped
from support.made_over_time import made_folds
from support.pages import HOSTILE, Reader, is_safe

NAMES = [f"feature {k}" for k in range(12)]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def words_of(audit):
    return " ".join(" ".join(Reader(audit.to_html()).text).split())


def names_of_rows(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


@pytest.mark.parametrize("most", [5, 30])
def test_the_points_are_the_scores_and_the_lines_are_the_intervals(most):
    audit = made_folds(NAMES)
    axes, table = audit.plot(max_features=most), audit.to_frame().iloc[:most]
    points, *means = axes.lines
    x, y = points.get_xydata().T
    for row, name in enumerate(table.index):
        of_row = np.abs(y - row) < 0.5
        np.testing.assert_array_equal(x[of_row][np.argsort(y[of_row])], audit.scores[name])  # first fold on top
    drawn = {(*at,): line for line in means for at in line.get_xydata()}
    segments = [segment for part in axes.collections for segment in part.get_segments()]
    intervals = {(segment[0, 0], segment[1, 0], segment[0, 1]) for segment in segments}
    for row, (name, told) in enumerate(table.iterrows()):
        line = drawn[told["mean"], row]
        look = Verdict(told["verdict"]).display
        assert (line.get_color(), line.get_marker()) == (look.colour, look.marker), name
        assert (told["low"], told["high"], row) in intervals
    assert names_of_rows(axes) == [*table.index, *(["+7 more"] if most == 5 else [])]


def test_the_last_line_tells_the_means_that_are_left_out():
    audit = made_folds(NAMES)
    axes, left = audit.plot(max_features=3), audit.to_frame()["mean"].iloc[3:]
    assert f"means from {left.min():z.3g} to {left.max():z.3g}" in [text.get_text() for text in axes.texts]


def test_one_fold_has_no_interval_and_the_users_axes_are_used():
    audit = made_folds(["a"], n_folds=1, tested=False, known=False)
    axes = Figure().subplots()
    assert audit.plot(ax=axes) is axes
    ends = np.concatenate(
        [part.get_paths()[0].vertices for part in axes.collections if len(part.get_paths()[0].vertices)]
    )
    assert set(ends[np.isfinite(ends[:, 0]), 0]) == {0}  # only the line at 0
    with pytest.raises(ValueError, match="max_features must be a whole number and at least 1, not 0"):
        audit.plot(max_features=0)


def test_folds_without_scores_are_left_out():
    audit = made_folds(NAMES)
    scores = audit.scores.copy()
    scores.iloc[1] = np.nan
    with settings():
        figure = Figure(layout="constrained")
        draw_folds(figure.subplots(), scores, audit.to_frame())
        figure.canvas.draw()


@pytest.mark.thorough
def test_the_page_tells_the_table_and_escapes_names():
    audit = made_folds([*HOSTILE, *NAMES], n_folds=3)
    text = audit.to_html()
    is_safe(text)
    read = Reader(text)
    for name in HOSTILE:
        assert escaped(name) in read.text
    for sentence in audit.summary():
        assert escaped(sentence) in read.text
    section = text[text.index('<section id="features"') :]
    for name in NAMES:
        row, told = re.search(rf"<bdi>{name}</bdi></th>(.*?)</tr>", section, re.S).group(1), audit.to_frame().loc[name]
        assert told["verdict"] in row
        assert f">{told['informative_folds']} of 3<" in row
        assert f">{told['rank']}<" in row
    assert text == audit.to_html()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "given", [{"n_folds": 1, "tested": False, "known": False}, {"n_folds": 2, "known": False}, {"n_folds": 60}]
)
def test_pages_of_few_and_many_folds_show_intervals_where_they_are_known(given):
    text = made_folds(["a", "b"], **given).to_html(title="<T>")
    assert "<h1>&lt;T&gt;</h1>" in text
    assert ("95% interval" in text) == given.get("known", True)


@pytest.mark.thorough
def test_the_page_explains_an_interval_that_contradicts_the_mark():
    agreeing = made_folds(["a", "b", "c", "d"])
    table = agreeing.to_frame()
    # first the error is so large that the interval of a feature that is informative contains 0; then so small that
    # the interval of one that is not does not
    informative = table["verdict"] == "informative"
    [name], error = table.index[informative], agreeing.standard_error.copy()
    positive = [each for each in table.index[~informative] if table.loc[each, "mean"] > 0]
    error[:] = 10.0
    audit = replace(agreeing, standard_error=error)
    assert audit.to_frame().loc[name, "low"] < 0 < audit.to_frame().loc[name, "high"]
    assert f"Interval and mark differ for {name}: an interval is about the mean score over" in words_of(audit)
    audit = replace(agreeing, standard_error=error / 1e9)
    assert f"Interval and mark differ for {' and '.join(positive)}: an" in words_of(audit)
    assert (audit.to_frame().loc[positive, "low"] > 0).all()
    nothing_known = made_folds(["a", "b", "c", "d"], known=False)
    assert "Interval and mark differ" not in words_of(nothing_known)


@pytest.mark.thorough
def test_a_page_of_folds_that_were_not_tested_does_not_count_informative_ones():
    page = made_folds(["a", "b"], tested=False).to_html()
    assert ">ranks in folds<" in page
    assert ">in folds<" not in page
    assert "“in folds”" not in page


@pytest.mark.thorough
def test_a_page_of_1000_features_is_small():
    text = made_folds([f"feature {k}" for k in range(1000)], n_folds=3).to_html()
    assert len(text) < 500_000
    assert "+970 more" in text
    assert text[text.index('<section id="features"') :].count('<th scope="row">') == 1000 + 3
