import re
from dataclasses import replace
from html import escape

import numpy as np
import pytest

import debias
from debias.results.report import figures
from debias.results.report.figures import drawn_features, drawn_of_scores
from debias.results.report.html import headline
from debias.text import escaped, percent_in_table, shortened
from support.audits import made
from support.contrast import contrast
from support.pages import HOSTILE, Reader, is_safe


@pytest.mark.thorough
def test_hostile_names_stay_text():
    text = made(HOSTILE).to_html()
    is_safe(text)
    read = Reader(text)
    for name in HOSTILE:
        assert escaped(name) in read.text
    assert "49" not in "".join(t for t in read.text if "{{" in t)


@pytest.mark.thorough
def test_no_name_makes_a_figure_fail_or_warn():
    for name in HOSTILE:
        made([name, "b", "c"]).to_html()


@pytest.mark.thorough
def test_a_page_loads_nothing_and_runs_only_its_own_script():
    is_safe(made([f"feature {k}" for k in range(20)]).to_html())


@pytest.mark.thorough
def test_every_figure_has_a_title_a_description_and_a_table():
    text = made([f"f{k}" for k in range(12)]).to_html()
    for part in re.findall(r"<figure>.*?</figure>", text, re.S):
        assert re.search(r'<svg[^>]*role="img"', part)
        for needed in ("<title", "<desc", "<figcaption>", "<table>", "<caption>", 'scope="col"', 'scope="row"'):
            assert needed in part
    assert text.count("<figure>") == 4


@pytest.mark.thorough
def test_the_numbers_of_the_table_are_those_of_the_audit(diabetes, models):
    X, y = diabetes
    audit = debias.audit(models("xgboost").fit(X[:300], y[:300]), X[300:], y[300:], random_state=0)
    text = audit.to_html()
    section = text[text.index('<section id="features"') :]
    for name, row in audit.to_frame().iterrows():
        cells = re.search(rf"<bdi>{name}</bdi></th>(.*?)</tr>", section, re.S).group(1)
        assert f">{escape(percent_in_table(row['reported']))}<" in cells
        assert f">{escape(percent_in_table(row['share']))}<" in cells
        assert row["finding"] in cells
        assert str(X[300:][name].astype("float32").nunique()) in re.findall(r"<td>([\d,]+)</td>", cells)
    assert audit.fingerprints["model_blake3"] in text
    assert audit.test_summary() in text
    assert f"<dt>reported for the others</dt><dd>{audit.unsupported_share:.1%}</dd>" in text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"informative": [1, 1, 1]}, "All 3 features are informative. Strongest first: a, b and c."),
        ({"informative": [0, 1, 0]}, "1 of 3 features is informative: b."),
        ({"informative": [0, 0, 0]}, "None of the 3 features is informative."),
        ({"tested": False}, "No feature was tested"),
        ({"rows": "train", "tested": False}, "Scored on training rows"),
        ({"reported": False}, "1 of 3 features is informative: a."),
    ],
)
def test_the_headline_says_what_was_found(given, words):
    audit = made(["a", "b", "c"], **given)
    assert headline(audit).startswith(words)
    assert words in audit.to_html()


@pytest.mark.thorough
@pytest.mark.parametrize(("n_features", "most"), [(50, 500_000), (4000, 5_000_000)])
def test_many_features_have_top_figures_and_a_whole_table(n_features, most):
    audit = made([f"feature {k}" for k in range(n_features)], n_permutations=20)
    text = audit.to_html()
    assert len(text.encode()) < most
    section = text[text.index('<section id="features"') :]
    assert section.count('<th scope="row">') == n_features
    n_drawn = len(drawn_features(audit)[0])
    assert 10 <= n_drawn <= 30
    assert f"Shown are {n_drawn} of {n_features:,} features: the 10 reported highest, and the informative ones" in text
    shares, evidence = re.findall(r"<svg.*?</svg>", text, re.S)[:2]
    for picture in (shares, evidence):
        assert f">+{n_features - n_drawn:,} more<" in picture
        assert len(re.findall(r">feature \d+<", picture)) == n_drawn


@pytest.mark.thorough
def test_warnings_are_shown_escaped():
    assert "<li>rows &lt;b&gt; repeat</li>" in made(["a", "b"], warnings=["rows <b> repeat"]).to_html()
    assert "There are no warnings." in made(["a", "b"]).to_html()


@pytest.mark.thorough
def test_the_same_audit_gives_the_same_bytes(tmp_path):
    audit = made(["a", "b", "c"])
    assert audit.to_html(tmp_path / "a.html", title="T") == audit.to_html(title="T")
    assert (tmp_path / "a.html").read_text() == audit.to_html(title="T")
    assert "<title>T</title>" in audit.to_html(title="T")


@pytest.mark.thorough
def test_notebooks_show_a_part_without_frame_or_policy():
    text = made([f"feature {k}" for k in range(50)])._repr_html_()
    assert "<html" not in text
    assert "Content-Security-Policy" not in text
    assert "30 more are in audit.to_frame()" in text
    assert text.count("<svg") == 1
    assert "<script" not in made(HOSTILE)._repr_html_()
    assert "&lt;script" in made(HOSTILE).tested_scores._repr_html_()


@pytest.mark.thorough
def test_without_jinja2_the_page_says_what_to_install_and_a_notebook_has_the_table(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    audit = made(["a", "b", "c"])
    with pytest.raises(ImportError, match=r"pip install matplotlib jinja2"):
        audit.to_html()
    assert "<table" in audit._repr_html_()


@pytest.mark.parametrize("scheme", [0, 1])
def test_contrast_is_enough_for_text_and_marks(scheme):
    """WCAG 2.2: 4.5 for text, 3 for marks, on every ground they stand on."""
    from debias.results.report.pages import resource

    blocks = re.findall(r"--paper:.*?(?:\}|color:)", resource("style.css"), re.S)
    hexadecimal = dict(re.findall(r"--([a-z]+): #([0-9a-f]{6})", blocks[scheme]))
    colour = {name: bytes.fromhex(digits) for name, digits in hexadecimal.items()}
    for ground in ("paper", "panel"):
        assert min(contrast(colour[text], colour[ground]) for text in ("ink", "muted")) >= 4.5
    for ground in ("paper", "band"):
        for mark in ("informative", "noise", "untested"):
            assert contrast(colour[mark], colour[ground]) >= (3 if ground == "paper" else 2.5)


def test_plots_return_axes_and_take_them():
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    audit = made(["<b>", "$x$", "c", "d"])
    for result in (audit, audit.tested_scores, made(["a", "b"], tested=False).tested_scores):
        axes = result.plot()
        assert axes.get_yticklabels()[0].get_text() in result.feature_names if result is not audit else True
        plt.close(axes.figure)
        mine = Figure().subplots()
        assert result.plot(ax=mine, max_features=2) is mine
        drawn, n_left = drawn_features(audit, 2) if result is audit else drawn_of_scores(result, 2)
        more = [f"+{n_left} more"] if n_left else []
        assert [label.get_text() for label in mine.get_yticklabels()][len(drawn) :] == more


def test_the_dots_of_the_picture_are_the_scores():
    from matplotlib.figure import Figure

    audit = made([f"f{k}" for k in range(8)])
    axes = Figure().subplots()
    audit.tested_scores.plot(ax=axes)
    drawn = np.sort(np.concatenate([line.get_xdata() for line in axes.lines if line.get_linestyle() == "None"]))
    np.testing.assert_array_equal(drawn, np.sort(audit.tested_scores.values))
    axes = Figure().subplots()
    audit.plot(ax=axes)
    reported = next(line for line in axes.lines if line.get_label() == "reported")
    np.testing.assert_array_equal(np.sort(reported.get_xdata()), np.sort(audit.reported))
    assert [text.get_text() for text in axes.get_yticklabels()] == list(audit.to_frame().index)
    told = {text.get_text() for text in axes.get_legend().get_texts()}
    assert told >= {"reported", "informative"}


def test_long_names_lose_their_middle():
    assert shortened("x" * 10 + "y" * 100 + "z" * 10, 12) == "xxxxxxx…zzzz"
    assert shortened("a\nb\u202e") == r"a\nb\u202e"


@pytest.mark.thorough
def test_the_command_writes_the_report(tmp_path, diabetes, models, monkeypatch):
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)  # has its own tests
    from click.testing import CliRunner

    from debias.cli import main

    X, y = diabetes
    models("lightgbm").fit(X[:300], y[:300]).booster_.save_model(tmp_path / "model.txt")
    X[300:].assign(outcome=y).to_csv(tmp_path / "data.csv", index=False)
    given = [str(tmp_path / "model.txt"), str(tmp_path / "data.csv"), "--target", "outcome"]
    files = ["--html", str(tmp_path / "report.html"), "--markdown", str(tmp_path / "audit.md")]
    done = CliRunner().invoke(main, ["audit", *given, *files])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "audit.md").read_text().startswith("## Which features of this LightGBM")
    done = CliRunner().invoke(main, ["audit", *given, "--folds", "age", *files])
    assert done.exit_code == 2
    assert "folds have no page of Markdown" in done.output
    assert "not confirmed alone" in (tmp_path / "report.html").read_text()


def test_the_band_of_noise_is_that_of_the_test():
    """By permuted responses, else Student's law of the rows each score rests on, else the normal law."""
    from matplotlib.figure import Figure
    from scipy.stats import norm, t

    audit = made(["a", "b", "c"])
    test = {"method": "naive", "alpha": 0.05, "error": "fwer"}
    for told, expected in (
        ({"effective_rows": [3.0, 11.0, 400.0]}, t.ppf(0.95, [2, 10, 399])),
        ({"n_independent": 11}, t.ppf(0.95, [10, 10, 10])),
        ({}, norm.ppf([0.95] * 3)),
    ):
        scores = replace(audit.tested_scores, null=None, details={"test": test | told})
        axes = Figure().subplots()
        drawn = replace(audit, scores={"mdi_oob": scores})
        figures.draw_evidence(drawn, axes)
        bars = sorted(bar.get_width() for bar in axes.patches)
        np.testing.assert_allclose(bars, np.sort(2 * expected))
    axes = Figure().subplots()
    figures.draw_evidence(audit, axes)
    low, high = np.quantile(audit.tested_scores.null, [0.05, 0.95], axis=0)
    widths = sorted(bar.get_width() for bar in axes.patches)
    np.testing.assert_allclose(widths, np.sort(high - low), rtol=1e-5)


def test_a_new_figure_has_a_title_and_says_what_its_marks_are():
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    audit, untested = made(["a", "b", "c"]), made(["a", "b", "c"], tested=False)
    verdicts = "Colour and marker: verdict of the test of all features (family-wise error rate 5%)."
    for kind, begin in (
        (
            "interval",
            "Filled marker: debiased share on 500 out-of-bag rows. Line: its 95% interval, each feature alone",
        ),
        ("bar", "Bar: debiased share on 500 out-of-bag rows."),
        ("slope", "Right: debiased share on 500 out-of-bag rows."),
        ("evidence", "Marker: the statistic z of each feature; for noise, 90% of z lie in the grey band."),
    ):
        figure = audit.plot(kind).figure
        assert figure.get_suptitle() == "Which features of this forest matter"
        note = figure.get_supxlabel().replace("\n", " ")
        assert note.startswith(begin)
        assert verdicts in note
        plt.close(figure)
    note = untested.plot().figure.get_supxlabel().replace("\n", " ")
    assert note == "Filled marker: debiased share on 500 out-of-bag rows. No feature was tested."
    plt.close("all")
    mine = Figure()
    audit.plot(ax=mine.subplots())
    assert mine.get_suptitle() == mine.get_supxlabel() == ""


@pytest.mark.thorough
def test_shares_of_which_none_is_above_0_have_no_intervals():
    from matplotlib.figure import Figure

    audit = made(["a", "b", "c"])
    scores = replace(audit.tested_scores, values=-np.abs(audit.tested_scores.values) - 1)
    nothing = replace(audit, scores={**audit.scores, audit.tested_scorer: scores})
    assert "95% interval, splits fixed" in audit.to_html()
    assert "95%" not in nothing.to_html()
    axes = Figure().subplots()
    figures.draw_shares(nothing, axes)
    assert np.abs(axes.get_xlim()).max() < 2  # shares of the report alone
    assert "interval" not in figures.note_of_plot(nothing, "interval")
