"""Generators against the papers' definitions. Tolerances are 4.5 standard errors (7e-6 two-sided) at fixed seeds."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import debias
from debias_bench import simulate

N = 20_000
SE = 4.5

GENERATORS = {
    "strobl": simulate.strobl,
    "li": simulate.li,
    "li regression": lambda **given: simulate.li("regression", **given),
    "li mirror": lambda **given: simulate.li(mirror=True, **given),
    "chip_style": lambda **given: simulate.chip_style(np.random.default_rng(9).normal(size=(300, 9)), **given),
    "deng_t1": simulate.deng_t1,
    "deng_t2": simulate.deng_t2,
    **{f"loh {model}": lambda model=model, **given: simulate.loh(model, **given) for model in ("E1", "E3", "E5")},
    "loh_missing": lambda **given: simulate.loh_missing("E1", **given),
    "hong_exor": simulate.hong_exor,
    "hong_case": lambda **given: simulate.hong_case("B", **given),
}


def share_is(found, expected, n=N):
    assert abs(found - expected) <= SE * np.sqrt(expected * (1 - expected) / n), (found, expected)


def correlation_is(a, b, expected):
    assert abs(np.corrcoef(a, b)[0, 1] - expected) < SE * (1 - expected**2) / np.sqrt(len(a))


def uniform_on(column, values):
    assert sorted(pd.unique(column)) == list(values)
    counts = column.value_counts()
    assert stats.chisquare(counts).pvalue > 7e-6


@pytest.mark.parametrize("name", GENERATORS)
class TestEveryGenerator:
    def test_one_seed_gives_the_same_bytes_and_another_does_not(self, name):
        first, again, other = (GENERATORS[name](seed=seed) for seed in (3, 3, 4))
        pd.testing.assert_frame_equal(first.X, again.X)
        np.testing.assert_array_equal(first.y, again.y)
        assert first.groups == again.groups
        assert not first.X.equals(other.X)

    def test_groups_hold_every_feature_once_and_relevant_ones_come_first(self, name):
        drawn = GENERATORS[name](seed=1)
        assert sorted(name for group in drawn.groups for name in group) == sorted(drawn.X.columns)
        assert set(drawn.relevant) == {name for group in drawn.groups[:-1] for name in group}
        assert drawn.is_relevant.sum() == len(drawn.relevant)
        assert (drawn.expected_rank[drawn.is_relevant].max()) < drawn.expected_rank[~drawn.is_relevant].min()

    def test_the_null_form_keeps_x_and_the_distribution_of_y(self, name):
        drawn, null = GENERATORS[name](seed=1), GENERATORS[name](seed=1, null=True)
        pd.testing.assert_frame_equal(drawn.X, null.X)
        np.testing.assert_array_equal(np.sort(drawn.y), np.sort(null.y))
        assert not np.array_equal(drawn.y, null.y)
        assert (null.relevant, len(null.groups)) == ((), 1)

    def test_global_random_state_is_left_alone(self, name):
        before = np.random.get_state()[1].tolist()  # noqa: NPY002 - the state that must stay untouched
        GENERATORS[name](seed=1)
        GENERATORS[name]()
        assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_strobl_has_the_published_distribution():
    drawn = simulate.strobl(N, seed=0)
    X, y = drawn.X, drawn.y
    assert drawn.relevant == ("X2",)
    assert stats.kstest(X["X1"], "norm").pvalue > 7e-6
    for name, n_values in {"X2": 2, "X3": 4, "X4": 10, "X5": 20}.items():
        uniform_on(X[name], range(n_values))
    for value in (0, 1):
        rows = X["X2"] == value
        share_is(y[rows].mean(), (1 + value) / 3, rows.sum())


@pytest.mark.parametrize("mirror", [False, True])
def test_li_features_have_the_published_distribution(mirror):
    drawn = simulate.li(n_rows=N, mirror=mirror, seed=0)
    for j in (1, 2, 10, 50):
        uniform_on(drawn.X[f"X{j}"], range(j + 1))
    numbers = [int(name[1:]) for name in drawn.relevant]
    assert len(numbers) == 5
    assert set(numbers) <= (set(range(41, 51)) if mirror else set(range(1, 11)))
    correlation_is(drawn.X["X3"], drawn.X["X40"], 0)


@pytest.mark.parametrize(("variant", "shift"), [("text", 1), ("published", 0)])
def test_li_classes_have_the_published_probabilities(variant, shift):
    drawn = simulate.li(n_rows=N, variant=variant, seed=0)
    scaled = sum(drawn.X[name] / int(name[1:]) for name in drawn.relevant)
    p = 1 / (1 + np.exp(-(0.4 * scaled - shift)))
    for low, high in ((0, 2), (2, 3), (3, 5.01)):
        rows = (scaled >= low) & (scaled < high)
        share_is(drawn.y[rows].mean(), p[rows].mean(), rows.sum())
    if variant == "published":
        assert drawn.y.mean() == pytest.approx(0.73, abs=0.02)  # the base rate that gave the authors' runs away


@pytest.mark.parametrize("variant", ["text", "published"])
def test_li_numbers_have_the_published_noise(variant):
    drawn = simulate.li("regression", n_rows=N, variant=variant, seed=0)
    mean = sum(drawn.X[name] / int(name[1:]) for name in drawn.relevant) / 5
    noise = drawn.y - mean
    variance = 100 * mean.var(ddof=0)
    expected = variance if variant == "text" else variance**2
    assert noise.var() == pytest.approx(expected, rel=SE * np.sqrt(2 / N))
    assert stats.kstest(noise / np.sqrt(expected), "norm").pvalue > 7e-6
    correlation_is(noise, mean, 0)


def test_chip_style_permutes_all_columns_but_the_relevant():
    source = np.random.default_rng(0).lognormal(size=(N, 12))
    drawn = simulate.chip_style(source, seed=0)
    assert (drawn.X.min() == 0).all()
    assert (drawn.X.max() == 1).all()
    scaled = (source - source.min(axis=0)) / np.ptp(source, axis=0)
    for k, name in enumerate(drawn.X.columns):
        assert np.array_equal(drawn.X[name], scaled[:, k]) == (name in drawn.relevant)
        np.testing.assert_array_equal(np.sort(drawn.X[name]), np.sort(scaled[:, k]))
    p = 1 / (1 + np.exp(-(0.4 * drawn.X[list(drawn.relevant)].sum(axis=1) - 1)))
    share_is(drawn.y.mean(), p.mean())
    assert len(drawn.relevant) == 5


@pytest.mark.parametrize("X", [np.zeros((10, 8)), np.ones((10, 3)), np.full((10, 8), np.nan)])
def test_chip_style_refuses_what_it_cannot_scale(X):
    with pytest.raises(debias.RowsError, match="columns"):
        simulate.chip_style(X)


def test_chip_style_refuses_words_and_names_that_are_there_twice():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(10, 8)))
    with pytest.raises(debias.RowsError, match="matrix of numbers"):
        simulate.chip_style(X.assign(place="here"))
    for names in (list("aabcdefg"), [1, "1", 2, 3, 4, 5, 6, 7]):
        with pytest.raises(debias.RowsError, match="two columns named"):
            simulate.chip_style(X.set_axis(names, axis=1))


@pytest.mark.parametrize("mirror", [False, True])
def test_li_needs_the_features_that_the_relevant_ones_are_drawn_among(mirror):
    with pytest.raises(debias.RowsError, match="n_features=9"):
        simulate.li(n_features=9, mirror=mirror)
    assert len(simulate.li(n_features=10, mirror=mirror, seed=0).relevant) == 5


def test_deng_t1_has_the_published_distribution():
    drawn = simulate.deng_t1(seed=0)
    X, y = drawn.X, drawn.y
    assert (len(X), drawn.groups) == (
        5120,
        (("X1", "X2", "X3", "X4"), ("X5",), ("X6",), ("U1", "U2", "U3", "U4", "U5", "U6")),
    )
    for family in "XU":
        for k, n_values in zip(range(2, 7), (64, 8, 2, 8, 32), strict=True):
            assert X[f"{family}{k}"].value_counts().tolist() == [5120 // n_values] * n_values
    assert stats.kstest(X["X1"] / 10, "norm").pvalue > 7e-6
    assert stats.kstest(X["U1"], "uniform", (-10, 20)).pvalue > 7e-6
    share_is((X["X4"] == y).mean(), 0.95, 5120)
    # A permuted row of k values falls on its own value again once in k times.
    undisturbed = pd.qcut(X["X1"], 8, labels=False), pd.qcut(X["X1"], 32, labels=False)
    for name, quantile, share, n_values in (("X5", 0, 0.3, 8), ("X6", 1, 0.5, 32)):
        assert (X[name] != undisturbed[quantile]).mean() == pytest.approx(share * (1 - 1 / n_values), abs=0.02)
    assert (X["X3"] == pd.qcut(X["X1"], 8, labels=False)).all()
    correlation_is(X["X1"], X["U1"], 0)


def test_deng_t2_has_the_published_distribution():
    drawn = simulate.deng_t2(seed=0)
    X, y = drawn.X, drawn.y
    share_is(((X["X4"] ^ X["Y4"]) == y).mean(), 0.95, 5120)
    share_is((X["X4"] == y).mean(), 0.5, 5120)  # no main effect
    assert [len(group) for group in drawn.groups] == [8, 2, 2, 6]
    correlation_is(X["X1"], X["Y1"], 0)


def test_deng_cardinalities_must_make_attribute_4_binary():
    with pytest.raises(debias.RowsError, match="attribute 4"):
        simulate.deng_t1(cardinalities=(2, 2, 3, 2, 2))


def test_loh_features_have_the_published_distribution():
    X = simulate.loh("E0", N, seed=0).X
    assert list(X.columns) == ["B1", "B2", "C1", "C2", "N1", "N2", "N3", "N4", "S1", "S2", "S3"]
    uniform_on(X["B1"], [0, 1])
    for name in ("C1", "C2"):
        assert X[name].dtype == "category"
        uniform_on(X[name].astype(int), range(1, 11))
    assert (X["B2"] == (X["C2"].astype(int) <= 5)).all()
    for name in ("N1", "N2", "N3", "N4"):
        assert stats.kstest(X[name], "norm").pvalue > 7e-6
    for a, b, expected in (("N2", "N3", 0.9), ("N3", "N4", 0.9), ("N2", "N4", 0.9), ("N1", "N2", 0)):
        correlation_is(X[a], X[b], expected)
    np.testing.assert_allclose(X[["S1", "S2", "S3"]].sum(axis=1), 1)
    for a, b in (("S1", "S2"), ("S2", "S3"), ("S1", "S3")):
        assert np.corrcoef(X[a], X[b])[0, 1] == pytest.approx(-0.5, abs=SE / np.sqrt(N))
    correlation_is(X["B1"], X["S1"], 0)


@pytest.mark.parametrize(
    ("model", "relevant", "mean"),
    [
        ("E0", (), lambda X: 0 * X["N1"]),
        ("E1", ("N2", "N3", "N4"), lambda X: 0.2 * X["N2"]),
        ("E2", ("N1", "N2", "N3", "N4"), lambda X: 0.1 * (X["N1"] + X["N2"])),
        ("E3", ("B1",), lambda X: 0.2 * X["B1"]),
        ("E4", ("B2", "C2"), lambda X: 0.2 * (X["C2"].astype(int) <= 5)),
        (
            "E5",
            ("B1", "C1"),
            lambda X: (
                0.5 * (((X["B1"] == 0) & (X["C1"].astype(int) <= 5)) | ((X["B1"] == 1) & (X["C1"].astype(int) > 5)))
            ),
        ),
    ],
)
def test_loh_responses_have_the_published_means(model, relevant, mean):
    drawn = simulate.loh(model, N, seed=1)
    assert drawn.relevant == relevant
    noise = drawn.y - mean(drawn.X)
    assert stats.kstest(noise, "norm").pvalue > 7e-6
    for name in ("N1", "N2", "B1", "B2", "S1"):
        correlation_is(noise, drawn.X[name], 0)


def test_loh_missing_values_have_the_published_shares():
    full, holed = simulate.loh("E1", N, seed=2), simulate.loh_missing("E1", N, seed=2)
    np.testing.assert_array_equal(full.y, holed.y)
    for name in full.X.columns:
        expected = {"N1": 0.95, "N4": 0.5, "S1": 0.25, "B1": 0.25, "C2": 0.5}.get(name, 0.0)
        share_is(holed.X[name].isna().mean(), expected)
        kept = holed.X[name].notna()
        assert (holed.X[name][kept] == full.X[name][kept]).all()
        if expected:
            correlation_is(holed.X[name].isna() + 0.0, full.X["N2"], 0)
    with pytest.raises(debias.RowsError, match="pass a share of at least 0 and below 1"):
        simulate.loh_missing(missing={"N1": 1.0})
    with pytest.raises(debias.RowsError, match="there is no model 'E6'"):
        simulate.loh("E6")


def test_numeric_has_codes_for_categories():
    drawn = simulate.loh_missing("E0", seed=0)
    numeric = drawn.numeric
    assert (numeric.dtypes == np.float64).all()
    np.testing.assert_array_equal(numeric["C1"], drawn.X["C1"].astype(int) - 1)
    assert (numeric["C2"].isna() == drawn.X["C2"].isna()).all()


def test_hong_exor_is_the_parity_of_the_relevant():
    drawn = simulate.hong_exor(3, 10, N, seed=0)
    X, y = drawn.X, drawn.y
    assert drawn.relevant == ("X1", "X2", "X3")
    np.testing.assert_array_equal(y, X[["X1", "X2", "X3"]].sum(axis=1) % 2)
    rows = X[["X1", "X2", "X3"]].value_counts()
    assert len(rows) == 8
    assert stats.chisquare(rows).pvalue > 7e-6
    for name in ("X1", "R1", "R10"):
        share_is((X[name] == y).mean(), 0.5)


def test_hong_rows_are_drawn_without_replacement():
    """No row of bits can come up more often than it stands in the repeated truth table."""
    X = simulate.hong_exor(3, 0, 8, seed=0).X
    assert X.value_counts().max() <= 3  # 2 N = 16 is just exceeded by three tables of 8


def test_rannum_keeps_the_bit_and_spreads_the_value():
    drawn, numeric = simulate.hong_case("A", seed=0), simulate.hong_case("B", seed=0)
    for name in drawn.X.columns:
        if name in ("X3", "R1", "R2", "R3", "R4"):
            assert ((numeric.X[name] >= 100) == (drawn.X[name] == 1)).all()
            assert numeric.X[name].nunique() > 50
        else:
            assert (numeric.X[name] == drawn.X[name]).all()
    column = pd.Series(simulate.rannum(np.arange(N) % 2, seed=0))
    uniform_on(column, range(200))
    with pytest.raises(debias.RowsError):
        simulate.rannum([0, 2])


@pytest.mark.thorough
def test_a_matched_mirror_has_the_variance_of_the_original():
    # X_j / j is uniform on 0, 1/j, ..., 1.
    variance = {j: np.var(np.arange(j + 1) / j) for j in range(1, 51)}
    ratio = np.mean([variance[j] for j in range(1, 11)]) / np.mean([variance[j] for j in range(41, 51)])
    logits = []
    for matched in (False, True):
        drawn = simulate.li(mirror=True, matched=matched, n_rows=100_000, seed=0)
        share = drawn.y[drawn.X[list(drawn.relevant)].sum(axis=1) / 45 > 4].mean()
        logits.append(np.log(share / (1 - share)))
    assert logits[1] / logits[0] == pytest.approx(np.sqrt(ratio), rel=0.15)
    plain, other = (simulate.li("regression", mirror=True, matched=matched, seed=0).y for matched in (False, True))
    assert np.corrcoef(plain, other)[0, 1] == pytest.approx(1), "the noise is scaled with the signal"


@pytest.mark.parametrize("shape", ["U", "step", "xor"])
def test_shapes_explain_their_share_of_the_variance(shape):
    drawn = simulate.shapes(shape, 50_000, seed=0)
    numbers = [int(name[1:]) for name in drawn.relevant]
    assert all(j % 5 == 0 for j in numbers)
    z = drawn.X[list(drawn.relevant)].to_numpy() / numbers
    above = np.sign(z - 0.5)
    mean = {
        "U": ((2 * z - 1) ** 2).sum(axis=1),
        "step": (z > 0.75).sum(axis=1),
        "xor": above[:, 0] * above[:, 1] + above[:, 2] * above[:, 3],
    }[shape]
    assert np.corrcoef(mean, drawn.y)[0, 1] ** 2 == pytest.approx(1 / (1 + (4 if shape == "xor" else 20)), abs=0.01)
    assert simulate.shapes(shape, 50, null=True, seed=0).relevant == ()


def test_an_unknown_shape_is_named():
    with pytest.raises(debias.RowsError, match="no shape 'V'"):
        simulate.shapes("V")


def test_responses_of_agarwal_are_those_of_the_paper():
    for response in ("linear", "lss", "polynomial", "linear + lss"):
        drawn = simulate.agarwal(response, 1.0, seed=0)
        assert len(drawn.relevant) == (5 if response == "linear" else 6)
        assert drawn.X.shape == (250, 100)
    linear = simulate.agarwal("linear", 1.0, seed=0)
    x = linear.X[list(linear.relevant)]
    assert linear.y == pytest.approx(((x - x.mean()) / x.std(ddof=0)).sum(axis=1).to_numpy())
    assert set(simulate.agarwal("lss", 1.0, seed=0).y) <= {0.0, 1.0, 2.0, 3.0}
    noisy = [simulate.agarwal("linear", 0.2, seed=seed) for seed in range(40)]
    explained = []
    for drawn in noisy:
        x = drawn.X[list(drawn.relevant)]
        mean = ((x - x.mean()) / x.std(ddof=0)).sum(axis=1)
        explained.append(np.corrcoef(mean, drawn.y)[0, 1] ** 2)
    assert np.mean(explained) == pytest.approx(0.2, abs=0.03)
    block = simulate.agarwal("linear", 0.4, correlation=0.8, seed=0).X.corr().to_numpy()
    assert block[0, 1:25].mean() == pytest.approx(0.8, abs=0.08)
    assert abs(block[0, 25:]).mean() < 0.1


def test_agarwal_takes_a_matrix():
    X = np.random.default_rng(0).normal(size=(300, 12))
    X[:, 3] = 1.0
    drawn = simulate.agarwal("polynomial", 0.4, X=X, seed=0)
    assert drawn.X.shape == (250, 12)
    assert "3" not in drawn.relevant, "a constant column cannot matter"
    with pytest.raises(debias.RowsError, match="pve=0"):
        simulate.agarwal("linear", 0)
