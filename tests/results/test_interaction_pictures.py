"""Pictures of interactions: what is drawn is what the result says, and wrong use is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot as plt

import debias
from debias.errors import CompositionError
from debias.results.interactions import Interactions
from debias.results.joint_effects import JointEffects
from debias.results.vocabulary import Confirmation
from results.test_pair_comparison import PAIRS, outcome

NAMES = ("age", "income", "=city", "b\u202e")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def found(p_value=(1e-6, 1e-5, 0.4, np.nan), n=400):
    rng = np.random.default_rng(0)
    age, income = rng.normal(size=n), rng.integers(0, 3, n).astype(float)
    age[:20] = np.nan
    city = rng.choice(np.array(["Bonn", "Ulm", None], dtype=object), n)
    effect = rng.normal(size=(n, 4))
    joint = JointEffects({"age": age, "income": income, "=city": city}, effect, ("",) * 4)
    return replace(outcome(p_value), joint=joint)


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_rows_of_long_names_show_a_part_of_both():
    names = ("age", "household_income_after_tax", "number_of_days_since_payment", "b")
    axes = replace(found(), feature_names=names, joint=None).plot()
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert len(labels) == 3
    for label in labels:
        for text in label.split(" with "):
            assert text in ("age", "b") or (text[:6] in ("househ", "number") and "…" in text)
            assert len(text) <= 15


def test_a_matrix_has_a_cell_and_a_mark_for_each_pair():
    result = found()
    axes = result.plot("matrix")
    cells = axes.images[0].get_array()
    across, down = ([label.get_text() for label in at()] for at in (axes.get_xticklabels, axes.get_yticklabels))
    assert across[1:] == down[:-1]  # below the diagonal
    place = {NAMES.index(name) if name in NAMES else 3: k for k, name in enumerate([across[0], *down])}
    assert sorted(place) == [0, 1, 2, 3]
    shares = dict(zip(map(tuple, PAIRS.tolist()), result.share, strict=True))
    for (one, other), share in shares.items():
        row, column = max(place[one], place[other]) - 1, min(place[one], place[other])
        drawn = cells[row, column]
        assert (np.ma.is_masked(drawn) or np.isnan(drawn)) if np.isnan(share) else drawn == share
    assert np.isfinite(np.ma.filled(cells, np.nan)).sum() == 3
    markers = {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}
    result = replace(result, p_apart=np.array([1e-6, 0.9, 0.9, np.nan]))
    assert set(result.verdict) == set(Confirmation)
    axes = result.plot("matrix")
    markers = {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}
    for verdict in Confirmation:
        assert markers[verdict.text].get_marker() == verdict.display.marker
        assert len(markers[verdict.text].get_xdata()) == result.verdict.count(verdict)
    assert sum("%" in text for text in texts(axes)) == 3


def test_shares_are_percentages_in_every_picture():
    result = found()
    result.score[1] = -0.004  # of 20: a share of -0.02%
    axes = result.plot("interval")
    axes.figure.canvas.draw()
    assert all(label.get_text().endswith("%") for label in axes.get_xticklabels())
    in_table = result.to_table().columns[0].cells
    assert "<0.1%" in in_table
    shown = [text for text in texts(result.plot("matrix")) if "%" in text]
    assert sorted(shown) == sorted(cell for cell in in_table if "%" in cell)


def test_a_large_matrix_leaves_features_out_and_says_so():
    axes = found().plot("matrix", max_features=2)
    assert axes.get_title(loc="right") == "+2 more features"
    assert [len(labels) for labels in (axes.get_xticklabels(), axes.get_yticklabels())] == [1, 1]


def test_a_network_has_a_line_for_each_confirmed_pair():
    result = found()
    axes = result.plot("network")
    lines = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert len(lines) == len(result.confirmed) == 2
    assert lines[0].get_linewidth() > lines[1].get_linewidth()  # the larger share
    drawn = texts(axes)
    assert {"age", "income", "=city"} <= set(drawn)
    assert sum("%" in text for text in drawn) == 2
    assert {line.get_linestyle() for line in lines} == {"-"}
    one = result.plot("network", max_features=1)
    assert one.get_title(loc="right") == "+1 more confirmed pairs"
    unclear = replace(result, p_apart=np.array([1e-6, 0.9, 0.9, np.nan])).plot("network")
    of_pairs = [line.get_linestyle() for line in unclear.lines if len(line.get_xdata()) == 2]
    assert of_pairs == ["-", "--"]  # matplotlib calls every pattern of dashes "--"


def test_a_surface_has_the_mean_over_the_rows_of_each_cell():
    result = found()
    axes = result.plot("surface", pair=("income", "=city"))
    k = 2
    cells = np.ma.filled(axes.images[0].get_array(), np.nan)
    income, city = result.joint.columns["income"], result.joint.columns["=city"]
    ticks = [label.get_text() for label in axes.get_yticklabels()]
    assert ticks == ["Bonn", "Ulm", "missing"]
    for row, name in enumerate(["Bonn", "Ulm", None]):
        for column in range(3):
            rows = (income == column) & (city == name if name else np.array([each is None for each in city]))
            np.testing.assert_allclose(cells[row, column], result.joint.effect[rows, k].mean())
    assert axes.get_xlabel() == "income"
    assert axes.get_title(loc="left").startswith("no evidence")


def test_cells_of_numbers_have_equally_many_rows_and_missing_values_their_own():
    result = found()
    axes = result.plot("surface", pair=("age", "income"))
    cells = np.ma.filled(axes.images[0].get_array(), np.nan)
    age, income = result.joint.columns["age"], result.joint.columns["income"]
    edges = np.nanquantile(age, np.linspace(0, 1, cells.shape[1]))
    for row in range(3):
        for column in range(cells.shape[1] - 1):
            last = column == cells.shape[1] - 2
            inside = (age >= edges[column]) & ((age <= edges[column + 1]) if last else (age < edges[column + 1]))
            expected = result.joint.effect[inside & (income == row), 0]
            np.testing.assert_allclose(cells[row, column], expected.mean() if expected.size else np.nan)
        np.testing.assert_allclose(cells[row, -1], result.joint.effect[np.isnan(age) & (income == row), 0].mean())
    turned = result.plot("surface", pair=("income", "age"))
    np.testing.assert_array_equal(np.ma.filled(turned.images[0].get_array(), np.nan), cells.T)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "heat"}, "kind='heat' is not one of"),
        ({"kind": "matrix", "pair": ("age", "income")}, "pair is for kind='surface'"),
        ({"kind": "surface"}, r"pass pair=\(one, other\). Confirmed pairs: \('age', 'income'\)"),
        ({"kind": "surface", "pair": "age"}, "two names of features, not 'age'"),
        ({"kind": "surface", "pair": ("age",)}, "two names"),
        ({"kind": "surface", "pair": ("age", "incom")}, "no feature 'incom'. Did you mean 'income'"),
        ({"kind": "surface", "pair": ("age", "b\u202e")}, "on no path of a tree together"),
        ({"kind": "surface", "pair": ("=city", "b\u202e")}, "is not one column of X"),
        ({"kind": "matrix", "max_features": 0}, "max_features"),
        ({"kind": "network", "ax": [1, 2]}, "one matplotlib Axes"),
    ],
)
def test_wrong_use_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):  # a CompositionError is one
        found().plot(**arguments)


def test_without_confirmed_pairs_or_rows_the_reason_is_said():
    with pytest.raises(CompositionError, match="no pair is confirmed"):
        found([0.5] * 4).plot("network")
    again = Interactions.from_json(found().to_json())
    assert again.joint is None
    with pytest.raises(CompositionError, match="not kept in files"):
        again.plot("surface", pair=("age", "income"))
    assert again.plot("matrix")


def test_pictures_go_on_the_axes_of_the_user():
    figure, axes = plt.subplots(1, 3)
    result = found()
    for place, kind in zip(axes, ("matrix", "network", "surface"), strict=True):
        assert result.plot(kind, ax=place, pair=("age", "income") if kind == "surface" else None) is place
    assert figure.get_suptitle() == ""


def test_the_surface_of_a_product_rises_with_it(models):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    y = X[:, 0] + 2 * X[:, 0] * X[:, 1] + rng.normal(size=700)
    model = models("xgboost", n_estimators=40, max_depth=3).fit(X[:350], y[:350])
    result = debias.interactions(model, X[350:], y[350:])
    names = result.feature_names
    axes = result.plot("surface", pair=names[:2])
    cells = np.ma.filled(axes.images[0].get_array(), np.nan)
    assert cells[0, 0] > 0 > cells[0, -1]
    assert cells[-1, -1] > 0 > cells[-1, 0]
    assert axes.get_title(loc="left").startswith("confirmed, share ")


def drawn_on(page):
    """The pictures of a page, by the prefixes of their ids."""
    return re.findall(r'<svg[^>]* aria-labelledby="([a-z0-9-]+)-title ', page)


@pytest.mark.thorough
def test_the_page_draws_shares_the_matrix_and_the_confirmed_pairs_of_columns(tmp_path):
    result = found()
    assert result.confirmed == [("age", "income"), ("age", "=city")]
    page = result.to_html()
    assert drawn_on(page) == ["interactions", "matrix", "surface-0", "surface-1"]
    assert "age with income" in page
    assert "age with =city" in page
    # Rows are not kept in files, and so there are no surfaces.
    result.to_json(tmp_path / "found.json")
    stored = Interactions.from_json(tmp_path / "found.json")
    assert drawn_on(stored.to_html()) == ["interactions", "matrix"]


def test_the_page_of_untested_pairs_has_no_picture_and_that_of_one_pair_no_matrix():
    assert drawn_on(found((np.nan,) * 4).to_html()) == []
    one = replace(outcome((0.4,), PAIRS[:1]), joint=None)
    assert drawn_on(one.to_html()) == ["interactions"]


@pytest.mark.thorough
def test_the_page_draws_few_surfaces_and_says_so():
    n = 8
    names = tuple(f"x{k}" for k in range(n))
    pairs = np.array([[k, k + 1] for k in range(n - 1)])
    rng = np.random.default_rng(0)
    joint = JointEffects({name: rng.normal(size=50) for name in names}, rng.normal(size=(50, n - 1)), ("",) * (n - 1))
    result = replace(outcome((1e-9,) * (n - 1), pairs), feature_names=names, joint=joint)
    page = result.to_html()
    assert [name for name in drawn_on(page) if "surface" in name] == [f"surface-{k}" for k in range(4)]
    assert page.count("Drawn are 4 of 7 confirmed pairs.") >= 1


def test_cells_of_0_are_transparent_on_paper_of_any_colour():
    colours = found().plot("matrix").images[0].get_cmap()
    assert colours(0.5)[3] == pytest.approx(0.0, abs=0.01)
    assert colours(0.0)[3] == colours(1.0)[3] == 0.75
