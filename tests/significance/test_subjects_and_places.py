"""Tests of the warning that rows of one subject or place are alike, in whatever order they come."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.significance.subjects_and_places import (
    Column,
    EqualRows,
    NearRows,
    columns_of,
    coordinates,
    is_identifier,
    moments_of_products,
    near_in_columns,
    near_places,
    ranks,
    same_subject,
)

FEATURES = [f"f{k}" for k in range(5)]


def named(values):
    return pd.DataFrame(values, columns=[f"f{k}" for k in range(values.shape[1])])


def patients(rng, told_by="id", n=60, size=5, between=0.5):
    """Return rows of patients in random order; a share of the variance of y and of five features is between patients.

    Patients are told by their id, by a code without such a name, or by age and sex.
    """
    patient = np.repeat(np.arange(n), size)
    shape = (6, n * size)
    both = np.sqrt(between) * rng.normal(size=(6, n))[:, patient] + np.sqrt(1 - between) * rng.normal(size=shape)
    X = named(both[1:].T)
    if told_by == "id":
        X["patient_id"] = rng.permutation(n)[patient]
    elif told_by == "code":
        X["code"] = np.array([f"k{k:03d}" for k in rng.permutation(999)[:n]])[patient]
    else:
        X["age"], X["sex"] = rng.integers(20, 80, n)[patient], rng.integers(0, 2, n)[patient]
    order = rng.permutation(n * size)
    return X.iloc[order].reset_index(drop=True), both[0][order]


def fields(rng, n=300, scale=0.15, n_fields=6):
    """Return smooth fields at random places of the unit square: sums of waves, with lon and lat as the last columns."""
    place, n_waves = rng.uniform(size=(n, 2)), 100
    waves = rng.normal(size=(n_fields, n_waves, 2)) / scale
    field = np.cos(place @ waves.transpose(0, 2, 1) + rng.uniform(0, 2 * np.pi, (n_fields, 1, n_waves))).sum(axis=2)
    X = named(field[1:].T)
    return X.assign(lon=place[:, 0], lat=place[:, 1]), field[0]


def unnamed(made):
    X, y = made
    return X.rename(columns={"lon": "c0", "lat": "c1"}), y


def series(rng, n=300, memory=0.8, p=5):
    """Return autoregressions in random order, and a column that tells the time."""
    noise = rng.normal(size=(n, p + 1))
    for t in range(1, n):
        noise[t] += memory * noise[t - 1]
    order = rng.permutation(n)
    X = named(noise[:, 1:]).assign(t=1000.0 + np.arange(n))
    return X.iloc[order].reset_index(drop=True), noise[order, 0]


def correlated(rng, n=300, p=6):
    return np.sqrt(0.5) * rng.normal(size=(n, 1)) + np.sqrt(0.5) * rng.normal(size=(n, p))


def whole_numbers(rng, response, n=300, p=6, unit=8):
    X = np.round(unit * correlated(rng, n, p))
    return named(X), response(X, rng.normal(size=n))


def people(rng, n=300):
    age = rng.integers(20, 80, n)
    X = pd.DataFrame(
        {
            "age": age,
            "pressure": np.round(100 + 0.8 * age + 8 * rng.normal(size=n)),
            "sex": rng.integers(0, 2, n),
            "education": np.clip(np.round(16 - 0.08 * age + 2 * rng.normal(size=n)), 6, 20),
            "smoker": (rng.random(n) < 0.4 - 0.003 * age).astype(int),
        }
    )
    return X, 5.0 * (age > 50) + 3 * X.sex.to_numpy() + 0.1 * rng.normal(size=n)


def code_with_effects(rng, name="brand", n_codes=40):
    code = rng.integers(0, n_codes, 300)
    X = named(correlated(rng, p=5)).assign(**{name: np.array([f"b{k}" for k in range(n_codes)])[code]})
    return X, 2 * rng.normal(size=n_codes)[code] + X.f0.to_numpy() + rng.normal(size=300)


def encoded_code(rng):
    X, y = code_with_effects(rng)
    return X.assign(mean=pd.Series(y).groupby(X.brand).transform("mean")), y


def unrelated(rng, made, what):
    X, y = made
    if what == "y":
        return X, rng.normal(size=len(y))
    return X.assign(**dict(zip(FEATURES, rng.normal(size=(5, len(y))), strict=True))), y


def random_identifiers(rng, n_values):
    X = named(correlated(rng, p=5)).assign(user_id=rng.integers(0, n_values, 300))
    return X, 3 * X.f0.to_numpy() + rng.normal(size=300)


def functions_of_two(rng, n=300):
    """Return features that follow two others closely, smoothly or in steps, as of carats and tables of diamonds."""
    u, v = rng.lognormal(0, 0.5, n), rng.normal(size=n)
    noise = rng.normal(size=(n, 2)) / 20
    X = np.column_stack([u, v, u ** (1 / 3) + noise[:, 0], u * (1 + v / 10) + noise[:, 1], (u > 1) + (v > 0)])
    return named(X), np.log(u) + v / 4 + rng.normal(size=n) / 10


def long_tails(rng, n=300):
    """Return exponentials of two factors and noise, of several units, and a response to one factor."""
    factors = rng.normal(size=(n, 2))
    X = np.exp(2 * (factors[:, [0, 0, 0, 1, 1, 1]] + 0.2 * rng.normal(size=(n, 6))))
    return named(X), factors[:, 0] + rng.normal(size=n) / 2


def steps_in_one(rng, n=300):
    """Return features that are steps or waves of one of them, with noise, and such a response."""
    x = rng.normal(size=n)
    X = np.column_stack([x, (x > 0) + rng.normal(size=n), np.sin(2 * x) + rng.normal(size=n), rng.normal(size=(n, 3))])
    return named(X), 2.0 * (x > 0.5) + rng.normal(size=n)


def with_coordinates(rng, response):
    X = correlated(rng)
    return named(X).rename(columns={"f0": "lon", "f1": "lat"}), response(X) + rng.normal(size=300)


INDEPENDENT = {
    "weak": lambda rng: whole_numbers(rng, lambda X, noise: 0.05 * X[:, 0] + noise),
    "linear": lambda rng: whole_numbers(rng, lambda X, noise: X @ np.arange(1, 7) + noise),
    "y is a feature": lambda rng: whole_numbers(rng, lambda X, _: X[:, 0]),
    "heteroscedastic": lambda rng: whole_numbers(rng, lambda X, noise: X[:, 0] + np.exp(X[:, 1] / 4) * noise),
    "skewed": lambda rng: whole_numbers(rng, lambda X, noise: np.exp(X[:, 0] / 4 + 1.5 * noise)),
    "few rows": lambda rng: whole_numbers(rng, lambda X, noise: X[:, 0] + noise, n=100, unit=3),
    "many columns": lambda rng: whole_numbers(rng, lambda X, noise: X[:, :10].sum(axis=1) + noise, n=150, p=100),
    "a rare class": lambda rng: whole_numbers(rng, lambda X, noise: X[:, 0] + 5 * noise > 22, n=1000),
    "people": people,
    "code with effects": code_with_effects,
    "code and its mean of y": encoded_code,
    "unique identifiers": lambda rng: random_identifiers(rng, 10**9),
    "random identifiers": lambda rng: random_identifiers(rng, 60),
    "subjects alike in X only": lambda rng: unrelated(rng, patients(rng, "code"), "y"),
    "subjects alike in y only": lambda rng: unrelated(rng, patients(rng, "code"), "X"),
    "fields in X only": lambda rng: unrelated(rng, fields(rng), "y"),
    "a field in y only": lambda rng: unrelated(rng, fields(rng), "X"),
    "functions of two features": functions_of_two,
    "steps in one feature": steps_in_one,
    "long tails": long_tails,
    "linear in coordinates": lambda rng: with_coordinates(rng, lambda X: X @ np.arange(1, 7)),
    "a step in coordinates": lambda rng: with_coordinates(rng, lambda X: 5.0 * (X[:, 0] > 0) * (X[:, 1] > 0) + X[:, 3]),
}
DEPENDENT = {
    "patients by id": patients,
    "patients by code": lambda rng: patients(rng, "code"),
    "patients by age and sex": lambda rng: patients(rng, "age and sex"),
    "pairs by id": lambda rng: patients(rng, n=150, size=2),
    "smooth fields": fields,
    "rough fields": lambda rng: fields(rng, scale=0.05),
    "series in random order": series,
    "smooth fields, other names": lambda rng: unnamed(fields(rng)),
    "rough fields, other names": lambda rng: unnamed(fields(rng, scale=0.05)),
}


def n_found(design, n_sets):
    found = 0
    for seed in range(n_sets):
        X, y = design(np.random.default_rng([39, seed]))
        columns, y = columns_of(X, [1] * X.shape[1]), np.asarray(y, dtype=np.float64)[:, None]
        found += (
            same_subject(columns, y) is not None
            or bool(near_places(columns, y))
            or near_in_columns(columns, y) is not None
        )
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("kind", INDEPENDENT)
def test_independent_rows_are_hardly_ever_warned_of(kind):
    assert binomtest(n_found(INDEPENDENT[kind], 12), 12, 0.01, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("kind", DEPENDENT)
def test_rows_of_one_subject_or_place_are_nearly_always_warned_of(kind):
    assert binomtest(n_found(DEPENDENT[kind], 20), 20, 0.9, alternative="less").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("kind", INDEPENDENT)
def test_the_rate_of_false_warnings_is_at_most_one_in_a_hundred(kind):
    assert binomtest(n_found(INDEPENDENT[kind], 400), 400, 0.01, alternative="greater").pvalue > 1e-3


def test_moments_of_products_are_those_of_all_permutations():
    values = np.array([-1.5, 0.2, 0.1, 2.0, -0.9, 0.4])
    values = (values - values.mean()) / values.std()
    pairs = [(0, 1), (1, 2), (0, 2), (3, 4)]
    drawn = [2 * sum(p[i] * p[j] for i, j in pairs) for p in itertools.permutations(values)]
    degree = np.bincount(np.ravel(pairs), minlength=6)
    sums = [np.array([float(each)]) for each in (6, 2 * len(pairs), (degree**2).sum(), np.mean(values**4))]
    mean, variance = moments_of_products(*sums)
    assert mean[0] == pytest.approx(np.mean(drawn), rel=1e-12)
    assert variance[0] == pytest.approx(np.var(drawn), rel=1e-12)


def test_similarity_of_equal_rows_is_that_of_a_plain_loop():
    rng = np.random.default_rng(0)
    code, y = rng.integers(0, 30, 200), rng.normal(size=200)
    equal = EqualRows.of(Column("code", code.astype(float), 1))
    assert np.array_equal(np.sort(equal.rows), np.arange(200))
    rank, total, mean, variance = ranks(y[:, None])[:, 0], 0.0, 0.0, 0.0
    for window in np.unique(equal.window):
        rows = equal.rows[equal.window == window]
        assert len(rows) >= 20
        assert np.unique(code[rows]).size >= 6
        place = np.unique(code[rows], return_inverse=True)[1]
        left = rank[rows] - np.polyval(np.polyfit(place, rank[rows], 1), place)
        left = left / left.std()
        same = (code[rows][:, None] == code[rows]) & ~np.eye(len(rows), dtype=bool)
        total += left @ same @ left
        moments = (len(rows), same.sum(), (same.sum(axis=1) ** 2).sum(), np.mean(left**4))
        of_window = moments_of_products(*(np.array([float(each)]) for each in moments))
        mean, variance = mean + of_window[0][0], variance + of_window[1][0]
    assert equal.similarity(y[:, None]) == pytest.approx(max(0, (total - mean) / np.sqrt(variance)), rel=1e-9)


def test_similarity_of_near_rows_is_standard_normal_for_independent_rows():
    rng = np.random.default_rng(0)
    near = NearRows(rng.uniform(size=(200, 2)))
    z = np.array([near.similarity(rng.normal(size=(200, 1))) for _ in range(300)])
    assert binomtest(int((z > 1.645).sum()), 300, 0.05, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("design", [patients, lambda rng: patients(rng, "age and sex"), fields])
def test_the_order_of_rows_changes_nothing(design):
    X, y = design(np.random.default_rng(3))
    order = np.random.default_rng(4).permutation(len(y))
    either = []
    for rows in (np.arange(len(y)), order):
        columns = columns_of(X.iloc[rows], [1] * X.shape[1])
        found = [same_subject(columns, y[rows, None]), *near_places(columns, y[rows, None])]
        either.append([(each.by, each.features, round(each.z, 6)) for each in found if each is not None])
    assert either[0] == either[1] != []


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        (["a", "Longitude", "Latitude"], [(1, 2)]),
        (["lat", "lon"], [(1, 0)]),
        (["pickup_lat", "pickup_long", "dropoff_lat", "dropoff_long"], [(1, 0), (3, 2)]),
        (["x", "y", "price"], [(0, 1)]),
        (["utm_x", "utm_y"], [(0, 1)]),
        (["coordX", "coordY"], [(0, 1)]),
        (["utm_e", "utm_n"], [(0, 1)]),
        (["gx", "gy"], []),
        (["sales_east", "sales_north"], []),
        (["x", "y", "z"], []),
        (["long", "flat"], []),
        (["belongs", "belats"], []),
        (["x1", "y"], []),
        (["la\nz", "lat\nlon", "", "\n", "lat", "lon\n"], [(5, 4)]),
        ([], []),
    ],
)
def test_coordinates_are_known_by_their_names(names, pairs):
    assert coordinates(names) == pairs


def test_identifiers_are_known_by_their_names():
    assert all(map(is_identifier, ["id", "ID", "patient_id", "userId", "Subject", "site", "school", "customer id"]))
    assert not any(map(is_identifier, ["age", "width", "humidity", "paid", "idle", "sitemap", "grouping", "identity"]))


def audited(X, y, used=None, **given):
    used = list(X) if used is None else used
    forest = RandomForestRegressor(20, random_state=0, min_samples_leaf=5).fit(X[used], y)
    dataset = debias.Dataset(X, y, blocks=given.pop("blocks", None))
    return debias.audit(forest, dataset, scorers=[], random_state=0, dependence=False, **given)


def warned(*args, **given):
    with pytest.warns(debias.DebiasWarning) as caught:
        audited(*args, **given)
    (text,) = [str(each.message) for each in caught if "are alike" in str(each.message)]
    return text


def labels_in(text, X):
    """Return what the warning says to type, evaluated."""
    typed = re.search(r"debias\.Dataset\(X, y, blocks=(.*?)\), on ", text)[1]
    return typed, np.asarray(eval(typed, {"X": X, "numpy": np}))  # noqa: S307, this is the text of the warning


def test_the_warning_names_the_identifier_and_a_feature():
    X, y = patients(np.random.default_rng(0))
    text = warned(X, y)
    assert re.match(
        r"rows with the same value of patient_id are alike: they have similar responses and similar values of f\d( and "
        r"\d more features?)?, more than rows with neighbouring values\. ",
        text,
    )
    typed, labels = labels_in(text, X)
    assert typed == "X['patient_id']"
    assert np.array_equal(labels, X.patient_id)


@pytest.mark.filterwarnings("ignore:a tree has .* whole blocks:debias.DebiasWarning")
def test_rows_with_blocks_or_without_a_test_are_not_warned_of():
    X, y = patients(np.random.default_rng(0))
    assert not any("are alike" in each for each in audited(X, y, blocks=X.patient_id).warnings)
    assert not any("are alike" in each for each in audited(X, y, test=None).warnings)


@pytest.mark.filterwarnings("ignore:columns of X that the model does not know:debias.DebiasWarning")
def test_the_summary_of_the_test_says_that_rows_are_alike():
    X, y = patients(np.random.default_rng(0))
    said = "It takes rows as independent, but a warning says that some are alike."
    with pytest.warns(debias.DebiasWarning, match="are alike"):
        assert audited(X, y).test_summary().endswith(said)
    assert said not in audited(X, np.random.default_rng(1).normal(size=len(y))).test_summary()


def test_repeated_rows_are_told_of_instead_of_columns_without_the_name_of_an_identifier():
    rng = np.random.default_rng(0)
    X, y = patients(rng, "age and sex")
    person = X.groupby(["age", "sex"]).ngroup()
    X = X.assign(weight=rng.normal(size=len(X))[person], height=rng.normal(size=len(X))[person])
    with pytest.warns(debias.DebiasWarning) as caught:
        audited(X, y)
    texts = [str(each.message) for each in caught]
    assert any("repeat the values of another row in columns" in text for text in texts)
    assert not any("are alike" in text for text in texts)
    with pytest.warns(debias.DebiasWarning) as caught:
        audited(X.assign(patient_id=person), y)
    texts = [str(each.message) for each in caught]
    assert any("rows with the same value of patient_id are alike" in text for text in texts)
    assert not any("repeat the values" in text for text in texts)


def test_the_warning_of_two_columns_says_what_they_may_be():
    X, y = unnamed(fields(np.random.default_rng(0), n=600, scale=0.04))
    text = warned(X, y)
    assert text.startswith(
        "rows that are near in c0 and c1 are alike: they have similar responses and similar values of f"
    )
    assert "If c0 and c1 are coordinates: similarity reaches over about 0." in text
    assert text.endswith("If they are independent, these features depend on c0 and c1, and no blocks are needed")
    typed, labels = labels_in(text, X)
    assert typed.startswith("X[['c0', 'c1']].floordiv(")
    assert labels.shape == (600,)


def test_a_time_is_told_of_with_blocks_of_it():
    X, y = series(np.random.default_rng(0), memory=0.9)
    text = warned(X, y)
    assert text.startswith("rows that are near in t are alike: they have similar responses and similar values of f")
    assert "If t is a time or a place: similarity reaches over about " in text
    assert "If the rows are of subjects instead, pass labels" in text
    typed, labels = labels_in(text, X)
    side = float(re.fullmatch(r"X\['t'\] // (\S+)", typed)[1])
    assert np.array_equal(labels, X["t"] // side)
    forest = RandomForestRegressor(20, random_state=0, min_samples_leaf=5).fit(X.to_numpy(), y)
    with pytest.warns(debias.DebiasWarning, match=r"near in x5 are alike.*blocks=X\[:, 5\] // "):
        debias.audit(forest, X.to_numpy(), y, scorers=[], random_state=0, dependence=False)


def test_a_named_pair_or_a_subject_is_told_of_instead_of_two_columns():
    X, y = fields(np.random.default_rng(0))
    assert near_in_columns(columns_of(X, [1] * X.shape[1]), y[:, None]) is not None
    assert "near in lon and lat" in warned(X, y)


def test_columns_that_the_model_does_not_know_tell_places_and_times():
    for made, by in (
        (unnamed(fields(np.random.default_rng(0))), ("c0", "c1")),
        (series(np.random.default_rng(0)), ("t",)),
    ):
        X, y = made
        columns = columns_of(X, [1] * 5 + [0] * len(by))
        assert near_in_columns(columns, y[:, None]).by == by
        assert near_in_columns([columns[0], *columns[-len(by) :]], y[:, None]) is None  # one feature is too few


def test_columns_that_the_model_does_not_know_tell_subjects():
    X, y = patients(np.random.default_rng(0), "code")
    typed, labels = labels_in(warned(X, y, FEATURES), X)
    assert typed == "X['code']"
    assert np.array_equal(labels, X.code)


def test_constant_features_tell_subjects():
    X, y = patients(np.random.default_rng(0), "age and sex")
    text = warned(X, y)
    assert "rows with the same values of age and sex are alike" in text
    _, labels = labels_in(text, X)
    pairs = X.assign(label=labels)[["age", "sex", "label"]].drop_duplicates()
    assert len(pairs) == pairs.label.nunique() == len(X[["age", "sex"]].drop_duplicates())


@pytest.mark.parametrize("told_by", ["id", "age and sex"])
def test_columns_of_arrays_are_named_by_their_position(told_by):
    X, y = patients(np.random.default_rng(0), told_by)
    array = X.to_numpy()
    forest = RandomForestRegressor(20, random_state=0, min_samples_leaf=5).fit(array, y)
    with pytest.warns(debias.DebiasWarning, match="are alike") as caught:
        debias.audit(forest, array, y, scorers=[], random_state=0, dependence=False)
    text = next(str(each.message) for each in caught if "are alike" in str(each.message))
    _, labels = labels_in(text, array)
    expected = X.groupby(list(X)[5:]).ngroup()
    assert pd.DataFrame({"a": labels, "b": expected}).drop_duplicates().shape[0] == expected.nunique()


def test_polars_frames_are_examined():
    polars = pytest.importorskip("polars")
    X, y = fields(np.random.default_rng(0))
    forest = RandomForestRegressor(20, random_state=0, min_samples_leaf=5).fit(X, y)
    frame = polars.from_pandas(X)
    with pytest.warns(debias.DebiasWarning, match="near in lon and lat") as caught:
        debias.audit(forest, frame, y, scorers=[], random_state=0, dependence=False)
    text = next(str(each.message) for each in caught if "are alike" in str(each.message))
    _, labels = labels_in(text, frame)
    assert labels.shape == (300,)


def test_the_warning_of_places_gives_cells_of_twice_the_reach():
    X, y = fields(np.random.default_rng(0), n=600, scale=0.04)
    text = warned(X, y)
    typed, labels = labels_in(text, X)
    side = float(re.search(r"floordiv\((.*?)\)", typed)[1])
    # The correlation exp(-d^2 / (2 .04^2)) is 2 / sqrt(600), the limit of chance, at a distance of .09.
    assert 0.1 <= side <= 0.4
    cells = np.unique(X[["lon", "lat"]].to_numpy() // side, axis=0)
    assert len(np.unique(labels)) == len(cells)
    reach = float(re.search(r"reaches over about (\S+): pass cells of about twice that size", text)[1])
    assert side == pytest.approx(2 * reach, rel=0.35)  # one digit of it
    assert ("cells, on which a test finds little" in text) == (len(cells) < 20)


def test_rows_in_batches_are_not_compared():
    X, y = patients(np.random.default_rng(0))
    forest = RandomForestRegressor(20, random_state=0, min_samples_leaf=5).fit(X, y)
    fresh_X, fresh = patients(np.random.default_rng(1))
    batches = [(fresh_X.iloc[k : k + 100], fresh[k : k + 100]) for k in range(0, 300, 100)]
    audit = debias.audit(forest, batches, scorers=[], rows="held-out", test="naive", dependence=False)
    assert not any("are alike" in each for each in audit.warnings)
