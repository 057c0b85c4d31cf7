"""What the pictures of shares show, against the numbers of the audit."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

import debias
from debias.results.report.figures import apart, drawn_features
from debias.text import percent_in_table
from support.audits import made
from support.drawn_audits import drawn

NAMES = [f"feature {k}" for k in range(12)]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def texts(axes):
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("most", [5, 20])
def test_bars_are_the_debiased_shares_with_patterns_by_verdict(most):
    audit = made(NAMES)
    display = debias.plot.ImportanceDisplay.from_audit(audit, kind="bar", max_features=most)
    features, n_left = drawn_features(audit, most)
    bars = sorted((bar.get_y(), bar) for container in display.ax_.containers for bar in container)
    assert [bar.get_width() for _, bar in bars] == list(audit.share[features])
    assert [bar.get_hatch() or "" for _, bar in bars] == [audit.verdict[k].display.hatch for k in features]
    for diamonds, shares in zip(display.ax_.lines, (audit.reported, audit.reported_unseen), strict=True):
        np.testing.assert_array_equal(diamonds.get_xdata(), shares[features])
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == [NAMES[k] for k in features] + [f"+{n_left} more"] * bool(n_left)
    left = np.setdiff1d(np.arange(12), features)
    for shares in (audit.share, audit.reported, audit.reported_unseen):
        numbers = [percent_in_table(shares[k]) for k in features] + [percent_in_table(shares[left].sum())] * bool(
            n_left
        )
        assert " ".join(numbers) in " ".join(texts(display.ax_))


def test_intervals_are_those_of_the_plot_of_an_audit():
    audit = made(NAMES)
    ours, theirs = debias.plot.ImportanceDisplay.from_audit(audit, kind="interval").ax_, audit.plot(max_features=20)
    for line, expected in zip(ours.lines, theirs.lines, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), expected.get_xydata())


def test_slopes_join_the_reported_share_and_the_same_on_unseen_rows():
    audit = made(NAMES)
    axes = debias.plot.ImportanceDisplay.from_audit(audit, kind="slope").ax_
    lines = [line for line in axes.lines if line.get_marker() != "None"]
    features, _ = drawn_features(audit, 20)
    for k, line in zip(features, lines, strict=True):
        assert list(line.get_ydata()) == [audit.reported[k], audit.reported_unseen[k]]
        assert line.get_color() == audit.verdict[k].display.colour
        assert line.get_marker() == audit.verdict[k].display.marker
    assert len({line.get_linestyle() for line in lines}) == 2  # not by colour alone
    for k in features:
        assert f"{NAMES[k]}  {percent_in_table(audit.reported[k])}" in texts(axes)
        assert f"{percent_in_table(audit.reported_unseen[k])}  {NAMES[k]}" in texts(axes)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["bar", "interval", "slope"])
def test_every_audit_can_be_drawn(kind):
    """Warnings are errors, so nothing is drawn outside of its range or left without a font."""
    for seed in range(9):  # as many as there are numbers of features below
        audit = drawn(seed)
        if kind == "slope" and audit.reported_unseen is None:
            with pytest.raises(debias.plugin.CompositionError, match="needs the reported importance on these rows"):
                debias.plot.ImportanceDisplay.from_audit(audit, kind=kind)
            continue
        debias.plot.ImportanceDisplay.from_audit(audit, kind=kind, max_features=1 + seed % 9).figure_.canvas.draw()
        plt.close("all")


def test_the_axes_of_the_user_are_used_and_returned():
    axes = plt.subplots()[1]
    display = debias.plot.ImportanceDisplay(made(NAMES))
    assert display.plot(ax=axes, kind="slope") is display
    assert display.ax_ is axes
    assert display.figure_ is axes.figure


@pytest.mark.parametrize("gap", [0.1, 1.0])
def test_labels_are_moved_apart_as_little_as_possible(gap):
    rng = np.random.default_rng(0)
    for _ in range(20):
        at = np.sort(rng.random(6))
        places = apart(at, gap)
        assert (np.diff(places) >= gap - 1e-12).all()
        if (np.diff(at) >= gap).all():
            np.testing.assert_allclose(places, at)
        assert places.mean() == pytest.approx(at.mean())


def test_wrong_use_is_refused():
    audit = made(NAMES)
    with pytest.raises(
        debias.plugin.CompositionError, match="kind='pie' is not one of 'bar', 'interval', 'slope', 'evidence'"
    ):
        debias.plot.ImportanceDisplay.from_audit(audit, kind="pie")
    with pytest.raises(debias.plugin.CompositionError, match="kind='pie'"):  # before the audit
        debias.plot.ImportanceDisplay.from_estimator(None, None, None, kind="pie")
    with pytest.raises(ValueError, match="at least 1"):
        debias.plot.ImportanceDisplay.from_audit(audit, max_features=0)


@pytest.mark.thorough
def test_hollow_marks_have_the_colour_of_the_page():
    """White marks would be filled ones on a dark page."""
    page = made(["a", "b", "c"], informative=[True, False, False]).to_html()
    assert "fill: var(--paper)" in page
    assert "fffffe" not in page
