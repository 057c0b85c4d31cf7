"""Displays by scikit-learn's conventions: what they draw, against the audit, the curves and the contributions."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xgboost
from matplotlib import pyplot as plt
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import debias
from debias.results.report.effects import MOST_LABELS
from debias.results.report.swarms import swarm
from debias.text import percent_in_table
from support.audits import made

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def table(n=150):
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=["strong", "weak", "noise", "other noise"])
    return X, (2 * X["strong"] - X["weak"] + 0.3 * rng.normal(size=n)).to_numpy()


@pytest.fixture(scope="module")
def audited():
    X, y = table()
    model = RandomForestRegressor(40, random_state=0).fit(X, y)
    return model, X, y, debias.audit(model, X, y, random_state=0)


def test_from_estimator_is_the_display_of_its_audit(audited):
    model, X, y, audit = audited
    display = debias.plot.ImportanceDisplay.from_estimator(model, X, y, random_state=0, max_features=3)
    assert display.audit.to_json() == audit.to_json()
    expected = debias.plot.ImportanceDisplay.from_audit(audit, max_features=3)
    for bar, other in zip(display.ax_.patches, expected.ax_.patches, strict=True):
        assert bar.get_width() == other.get_width()


def test_effects_of_the_informative_features_by_share(audited):
    model, X, y, audit = audited
    display = debias.plot.EffectsDisplay.from_estimator(model, X, y, random_state=0)
    informative = [name for name in audit.to_frame().index if audit.to_frame().loc[name, "verdict"] == "informative"]
    assert [axes.get_title(loc="left") for axes in display.axes_] == informative
    curves = debias.partial_dependence(model, X, informative)
    for name, axes in zip(informative, display.axes_, strict=True):
        (line,) = [line for line in axes.lines if len(line.get_xdata()) > 1 and line.get_marker() != "|"]
        np.testing.assert_array_equal(line.get_xdata(), curves[name].values)
        np.testing.assert_array_equal(line.get_ydata(), curves[name].mean[:, 0])
        share = audit.share[audit.tested_scores.feature_names.index(name)]
        assert f"informative, share {percent_in_table(share)}" in [text.get_text() for text in axes.texts]
    assert len({axes.get_ylim() for axes in display.axes_}) == 1
    assert display.figure_ is display.axes_[0].figure


def test_effects_with_an_audit_need_no_response(audited):
    model, X, _, audit = audited
    display = debias.plot.EffectsDisplay.from_estimator(
        model, X, audit=audit, features=["noise", "strong"], individual=True
    )
    assert [axes.get_title(loc="left") for axes in display.axes_] == ["noise", "strong"]
    assert len(display.axes_[0].lines) > 30  # single rows
    with pytest.raises(debias.RowsError, match="pass y, or an audit"):
        debias.plot.EffectsDisplay.from_estimator(model, X)
    with pytest.raises(debias.RowsError, match="'strange', which is not a column"):
        debias.plot.EffectsDisplay.from_estimator(model, X, audit=audit, features="strange")
    with pytest.raises(ValueError, match="max_features must be a whole number and at least 1"):
        debias.plot.EffectsDisplay.from_estimator(model, X, audit=audit, max_features=0)
    with pytest.raises(ValueError, match="at least 1, not 2.5"):
        debias.plot.ImportanceDisplay.from_audit(audit, max_features=2.5)
    with pytest.raises(ValueError, match="columns must be a whole number and at least 1, not 0"):
        display.plot(columns=0)


def test_without_an_informative_feature_the_largest_shares_are_drawn(audited):
    model, X, _, _ = audited
    audit = made(X.columns, informative=[False] * 4)
    display = debias.plot.EffectsDisplay.from_estimator(model, X, audit=audit, max_features=2)
    assert [axes.get_title(loc="left") for axes in display.axes_] == audit.to_frame().index[:2].tolist()


def test_effects_show_labels_and_missing_values():
    X, y = table()
    rng = np.random.default_rng(0)
    X["kind"] = pd.Categorical(rng.choice([f"label {k}" for k in range(15)], len(X)))
    X.loc[::3, "weak"] = np.nan
    X.loc[::7, "kind"] = None
    model = HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype").fit(X, y)
    display = debias.plot.EffectsDisplay(debias.partial_dependence(model, X, ["kind", "weak"])).plot()
    labels = [label.get_text() for label in display.axes_[0].get_xticklabels()]
    values = display.partial_dependence["kind"].values
    assert labels == [*values[:MOST_LABELS], "missing"]
    (points,) = display.axes_[0].lines
    assert list(points.get_ydata()) == [
        *display.partial_dependence["kind"].mean[:MOST_LABELS, 0],
        display.partial_dependence["kind"].mean[-1, 0],
    ]
    assert "5 more" in display.axes_[0].get_xlabel()
    assert [text.get_text() for text in display.axes_[1].texts] == ["missing"]
    display.figure_.canvas.draw()


@pytest.mark.thorough
def test_odd_columns_can_be_drawn():
    """Warnings are errors: none about empty slices, or axes without room."""
    X, y = table()
    X = X.assign(constant=1.0, missing=np.nan, flag=y > 0, huge=1e30 * X["noise"], tiny=1e-12 * X["noise"])
    X = X.rename(columns={"weak": "b>$x$\u202e\n" + 20 * "long"})
    model = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(X, y)
    for settings in ({"individual": True}, {"n_values": 1}):
        debias.plot.EffectsDisplay(debias.partial_dependence(model, X, **settings)).plot().figure_.canvas.draw()
    debias.plot.EffectsDisplay(debias.partial_dependence(model, X[:1])).plot(columns=1).figure_.canvas.draw()


def test_classes_are_lines_of_their_own_and_the_second_of_two_is_named():
    X, y = table()
    three = RandomForestClassifier(5, random_state=0).fit(X, np.digitize(y, [-1, 1]))
    axes = debias.plot.EffectsDisplay(debias.partial_dependence(three, X, "strong")).plot().axes_[0]
    assert [text.get_text() for text in axes.figure.legends[0].get_texts()] == ["0", "1", "2"]
    mine = plt.subplots()[1]
    debias.plot.EffectsDisplay(debias.partial_dependence(three, X, "strong")).plot(ax=mine)
    assert [text.get_text() for text in mine.get_legend().get_texts()] == ["0", "1", "2"]
    lines = [line for line in axes.lines if line.get_marker() != "|"]
    assert len({line.get_color() for line in lines}) == len({str(line._dash_pattern) for line in lines}) == 3
    two = RandomForestClassifier(5, random_state=0).fit(X, np.where(y > 0, "yes", "no"))
    axes = debias.plot.EffectsDisplay(debias.partial_dependence(two, X, "strong")).plot().axes_[0]
    assert axes.get_ylabel() == "mean probability of yes"


def test_axes_of_the_user_are_drawn_on_if_they_are_as_many_as_features(audited):
    model, X, _, audit = audited
    given = plt.subplots(1, 2)[1]
    display = debias.plot.EffectsDisplay.from_estimator(model, X, audit=audit, max_features=2, ax=given)
    assert list(display.axes_) == list(given)
    with pytest.raises(ValueError, match="ax holds 2 axes, but there is 1 feature to draw"):
        debias.plot.EffectsDisplay.from_estimator(model, X, audit=audit, max_features=1, ax=given)


def test_one_picture_refuses_what_is_not_one_axes(audited):
    for given in (plt.subplots(1, 2)[1], 3):
        with pytest.raises(debias.DebiasError, match="ax must be one matplotlib Axes, or None for new ones, not"):
            audited[3].plot(ax=given)


def test_a_generator_gives_the_audit_and_the_curves_one_seed(audited):
    model, X, y, _ = audited
    drawn = [
        debias.plot.EffectsDisplay.from_estimator(model, X, y, random_state=random_state, max_rows=50)
        for random_state in (np.random.default_rng(5), int(np.random.default_rng(5).integers(2**32)))
    ]
    assert drawn[0].audit.to_json() == drawn[1].audit.to_json()
    assert drawn[0].partial_dependence.to_json() == drawn[1].partial_dependence.to_json()


def test_columns_that_are_computed_from_several_have_no_curve_of_their_own():
    X, y = table()
    y = y + 3 * (X["noise"] * X["other noise"]).to_numpy()
    model = make_pipeline(PolynomialFeatures(), RandomForestRegressor(40, random_state=0)).fit(X, y)
    audit = debias.audit(model, X, y, random_state=0)
    assert audit.verdict[audit.tested_scores.feature_names.index("noise + other noise")] == "informative"
    display = debias.plot.EffectsDisplay.from_estimator(model, X, audit=audit)
    drawn = [axes.get_title(loc="left") for axes in display.axes_]
    assert set(drawn) <= set(X)
    assert drawn[0] == "strong"
    by_row = debias.plot.ContributionsDisplay.from_estimator(model, X, y, audit=audit, row=3)
    labels = [label.get_text().split("\n")[0] for label in by_row.ax_.get_yticklabels()]
    assert "noise + other noise" in labels  # without a value


def test_columns_that_the_trees_see():
    X, y = table()
    model = make_pipeline(PCA(2), RandomForestRegressor(20, random_state=0)).fit(X, y)
    display = debias.plot.EffectsDisplay.from_estimator(model, X, y, level="model", random_state=0)
    components = model[:-1].get_feature_names_out()
    assert display.axes_[0].get_title(loc="left") in components
    rows = debias.plot.ContributionsDisplay.from_estimator(model, X, y, level="model", random_state=0, row=3)
    first = model[:-1].transform(X)[3]
    labels = " ".join(label.get_text() for label in rows.ax_.get_yticklabels())
    assert all(f"{name} = {value:.4g}\n" in labels for name, value in zip(components, first, strict=True))
    with pytest.raises(debias.RowsError, match="are not columns that can be changed.*same level="):
        debias.plot.EffectsDisplay.from_estimator(model, X, audit=display.audit)


def test_effects_of_words_of_texts_are_drawn():
    rng = np.random.default_rng(0)
    words = ["good", *(f"word{k}" for k in range(12))]
    texts = [" ".join(rng.choice(words, 12)) for _ in range(200)]
    y = np.array(["good" in text for text in texts])
    model = make_pipeline(TfidfVectorizer(), RandomForestClassifier(20, random_state=0)).fit(texts, y)
    display = debias.plot.EffectsDisplay.from_estimator(model, texts, y, random_state=0)
    assert display.axes_[0].get_title(loc="left") == "good"
    assert display.partial_dependence["good"].mean[0, 0] < display.partial_dependence["good"].mean[-1, 0]
    rows = debias.plot.ContributionsDisplay.from_estimator(model, texts, y, random_state=0)
    assert rows.plot(row=5).ax_.get_title(loc="left") == "Row 5"


def test_points_of_a_swarm_are_the_contributions(audited):
    model, X, y, audit = audited
    display = debias.plot.ContributionsDisplay.from_estimator(model, X, y, audit=audit)
    phi = debias.contributions(model, X, y) * len(X)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert len(labels) == len(display.ax_.collections) == 4
    for label, points in zip(labels, display.ax_.collections, strict=True):
        name, verdict = label.split("\n")
        k = audit.tested_scores.feature_names.index(name)
        assert verdict == f"{audit.verdict[k].text}, {percent_in_table(audit.share[k])}"
        x = points.get_offsets()[:, 0]
        np.testing.assert_array_equal(x, phi[name])
        assert x.mean() == pytest.approx(audit.tested_scores.values[k])  # as the axis says
        order = X[name].rank() - 1
        np.testing.assert_allclose(points.get_array(), order / order.max())


def test_bars_of_a_row_are_its_contributions(audited):
    model, X, y, audit = audited
    X = X.set_axis([f"row {k}" for k in range(len(X))])
    display = debias.plot.ContributionsDisplay.from_estimator(model, X, y, audit=audit, row="row 17", max_features=3)
    phi = debias.contributions(model, X, y).loc["row 17"] * len(X)
    strongest = phi.abs().sort_values(ascending=False).index
    assert [bar.get_width() for bar in display.ax_.patches[:3]] == phi[strongest[:3]].tolist()
    assert display.ax_.patches[3].get_width() == pytest.approx(phi[strongest[3]])
    assert [bool(bar.get_hatch()) for bar in display.ax_.patches] == [
        bar.get_width() < 0 for bar in display.ax_.patches
    ]
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels[0].startswith(f"{strongest[0]} = {X.loc['row 17', strongest[0]]:.4g}\n")
    assert labels[3] == "+1 more"
    assert display.ax_.get_title(loc="left") == "Row row 17"


def test_missing_values_and_labels_of_a_row_are_shown():
    X, y = table()
    X["kind"] = pd.Categorical(np.where(y > 0, "above", "below"))
    X.loc[0, "weak"] = np.nan
    model = HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype").fit(X[:100], y[:100])
    held_out = {"rows": "held-out", "test": None}
    X.loc[120, "weak"] = np.nan
    display = debias.plot.ContributionsDisplay.from_estimator(model, X[100:], y[100:], row=120, **held_out)
    labels = " ".join(label.get_text() for label in display.ax_.get_yticklabels())
    assert "weak = missing\nnot tested" in labels
    assert f"kind = {X.loc[120, 'kind']}\n" in labels
    axes = display.plot().ax_
    axes.figure.canvas.draw()
    assert [text.get_text() for text in axes.get_figure().axes[1].get_yticklabels()] == ["low", "high"]
    assert "grey: no order" in axes.get_figure().axes[1].get_ylabel()


def test_wrong_use_of_contributions_is_refused(audited):
    model, X, y, audit = audited
    display = debias.plot.ContributionsDisplay.from_estimator(model, X, y, audit=audit)
    with pytest.raises(debias.RowsError, match="no row has the label 999"):
        display.plot(row=999)
    with pytest.raises(ValueError, match="max_features must be a whole number and at least 1"):
        display.plot(max_features=0)
    twice = pd.concat([display.contributions[:1], display.contributions[:-1]])
    with pytest.raises(debias.RowsError, match="2 rows have the label 0"):
        debias.plot.ContributionsDisplay(twice, audit, X).plot(row=0)
    with pytest.raises(debias.RowsError, match="contributions have 150 rows, but X has 10"):
        debias.plot.ContributionsDisplay(display.contributions, audit, X[:10])
    with pytest.raises(debias.RowsError, match="other features than the audit"):
        debias.plot.ContributionsDisplay(display.contributions[["strong"]], audit, X)
    with pytest.raises(debias.RowsError, match="other features than the audit"):
        debias.plot.ContributionsDisplay.from_estimator(model, X, y, groups={"both": ["strong", "weak"]}, test=None)


def test_points_of_a_swarm_do_not_leave_their_row():
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=500), np.zeros(300), np.array([0.0])):
        height = swarm(x, 0.1)
        assert np.abs(height).max() <= 0.45
        place = np.round(x / 0.1)
        assert len({(a, round(b, 9)) for a, b in zip(place, height, strict=True)}) == len(x)


def test_without_matplotlib_the_message_says_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import debias\n"
        "from support.audits import made\n"
        "try: debias.plot.ImportanceDisplay.from_audit(made(['a', 'b']))\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=TESTS)
    assert "a picture needs matplotlib: pip install matplotlib" in done.stdout
