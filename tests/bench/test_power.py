"""The tables of power: numbers from the definition, each restated test on models whose answer is known, and a run."""

import io
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from rich.console import Console
from scipy import stats

import debias
from debias.cli import main
from debias.p_values import holm
from debias_bench import downstream, power, power_designs, power_methods, simulate
from debias_bench.downstream import DATA_SETS


class Sum:
    """A model that predicts the sum of its first two features, and reports these as its importances."""

    def fit(self, X, y):
        self.feature_importances_ = np.arange(X.shape[1], 0, -1, dtype=float) * (np.arange(X.shape[1]) < 2)
        return self

    def predict(self, X):
        return X[:, 0] + X[:, 1]


def case(n_rows=200, held_out=True, noise=0.5):
    rng = np.random.default_rng(0)

    def rows():
        X = pd.DataFrame(rng.normal(size=(n_rows, 5)), columns=list("abcde"))
        y = X["a"].to_numpy() + X["b"].to_numpy() + rng.normal(scale=noise, size=n_rows)
        return simulate.Simulation(X, y, (("a", "b"), ("c", "d", "e")), ("a", "b"))

    train = rows()
    model = Sum().fit(train.X.to_numpy(), train.y)
    return power_methods.Case(model, train, rows() if held_out else None, lambda seed: Sum(), 0)


def test_numbers_are_those_of_the_definition():
    truth = {"relevant": [True, True, False, False], "noise": [False, False, True, False]}
    trials = [
        {"design": "d", **truth, "scores": {"t": {"p": [0.01, 0.2, 0.04, 0.001], "adjusted": [0.04, 0.5, 0.2, 0.01]}}},
        {"design": "d", **truth, "scores": {"t": {"p": [0.5, 0.04, 0.9, 0.9], "adjusted": [0.9, 0.1, 0.01, 1.0]}}},
        {"design": "d", **truth, "scores": {"t": {"refused": "no"}}},
        {"design": "other", **truth, "scores": {"t": {"p": None, "adjusted": [0, 1, 1, 1]}}},
    ]
    (row,) = power.estimates(trials, "d")
    assert row["data_sets"] == 2
    assert row["one by one"] == pytest.approx((0.5, 0.0))
    assert row["family-wise"] == pytest.approx((0.25, 0.25))
    assert row["noise at 5 %"] == pytest.approx((0.5, 0.5))
    assert row["FWER"] == pytest.approx((0.5, 0.5))
    # q-values of the first: .02, .2, .0533, .004: one relevant of two, one noise of two that count; the second none.
    assert row["BH .1"] == pytest.approx((0.25, 0.25))
    assert row["FDR"] == pytest.approx((0.25, 0.25))
    (only_selects,) = power.estimates(trials, "other")
    assert only_selects["one by one"] is None
    assert only_selects["family-wise"][0] == 0.5


@pytest.mark.parametrize(("rate", "holds"), [((0.05, 0.01), True), ((0.06, 0.01), True), ((0.08, 0.01), False)])
def test_a_test_holds_its_level_within_two_standard_errors(rate, holds):
    row = {"data_sets": 100, "noise at 5 %": rate, "FWER": (0.05, 0.02)}
    assert power.holds(row) is holds
    assert not power.holds(row | {"noise at 5 %": None, "FWER": (0.1, 0.03)})


def test_tests_on_held_out_rows_find_what_the_model_uses():
    of = case()
    for method in (power_methods.paired_permutation, power_methods.sign_of_masking):
        found = method(of)
        assert (found.p[:2] < 1e-6).all()
        assert (found.p[2:] > 0.01).all()
        assert np.array_equal(found.adjusted, holm(found.p))


def test_the_sign_test_of_aico_is_randomised_between_the_two_binomial_p_values():
    of = case()
    full = (of.held_out.y - of.model.predict(of.held_out.X.to_numpy())) ** 2
    masked = of.held_out.X.assign(a=of.train.X["a"].mean()).to_numpy()
    above = int(((of.held_out.y - of.model.predict(masked)) ** 2 > full).sum())
    upper, lower = (stats.binomtest(k, 200, alternative="greater").pvalue for k in (above, above + 1))
    assert lower < power_methods.sign_of_masking(of).p[0] < upper


def test_rows_that_masking_does_not_change_count_against_a_feature_unless_ties_are_split():
    of = case()  # the model does not use c, d and e
    assert (power_methods.sign_of_masking(of).p[2:] > 1 - 1e-9).all()
    split = power_methods.sign_of_masking(of, split_ties=True).p[2:]
    assert ((split > 1e-4) & (split < 1 - 1e-4)).all()


def test_aico_masks_numbers_by_the_mean_and_whole_numbers_by_the_most_frequent_values():
    assert power_methods._mask(np.array([1.0, 2.0]), np.array([0.5, 1.0])) == 0.75
    counts = np.array([3.0, 3, 3, 1, 1, 7])
    assert power_methods._mask(np.array([3.0, 1, 7]), counts).tolist() == [1, 3, 3]


def test_the_design_of_aico_has_the_published_distributions():
    sample = power_designs.aico(0, deviation=1, n_rows=20_000)
    X = sample.simulation.X
    assert list(X) == [f"X{k}" for k in range(1, 20)]
    assert X["X1"].corr(X["X6"]) == pytest.approx(0.85, abs=0.01)
    assert X["X15"].corr(X["X16"]) == pytest.approx(0.85, abs=0.01)
    assert sorted(X["X9"].unique()) == [0, 1]
    # X9 = 1 where X2 + Z < 0: its correlation with X2 is -sqrt(2 / pi) / sqrt(2).
    assert X["X9"].corr(X["X2"]) == pytest.approx(-np.sqrt(1 / np.pi), abs=0.02)
    assert X["X10"].mean() == pytest.approx(3, abs=0.05)
    assert X["X10"].var() == pytest.approx(3, abs=0.15)
    assert X["X11"].var() == pytest.approx(5 / 3, abs=0.15)
    assert np.abs(X["X8"]).max() <= 1
    x = {int(name[1:]): X[name].to_numpy() for name in X}
    mean = 3 + 4 * x[1] + x[1] * x[2] + 3 * x[3] ** 2 + 2 * x[4] * x[5] + 6 * x[6] + 2 * np.sin(x[7]) + np.exp(x[8])
    mean += 5 * x[9] + 3 * x[10] + 4 * x[11] + 5 * x[12]
    assert np.std(sample.simulation.y - mean) == pytest.approx(1, abs=0.02)
    assert sample.noise.tolist() == [False] * 12 + [True] * 7


def test_the_sign_test_refuses_out_of_bag_rows():
    with pytest.raises(debias.DebiasError, match="held-out"):
        power_methods.sign_of_masking(case(held_out=False))


def test_correlation_uses_all_rows():
    of = case()
    found = power_methods.verdicts("correlation", of)
    both = np.concatenate([of.train.X["c"], of.held_out.X["c"]]), np.concatenate([of.train.y, of.held_out.y])
    assert found.p[2] == stats.pearsonr(*both).pvalue


def test_correlation_of_three_classes_takes_the_smallest_p_value_of_a_class_times_three():
    of = case()
    y = np.digitize(of.train.y, [-1, 1])
    classes = replace(of, train=replace(of.train, y=y), held_out=None)
    smallest = min(stats.pearsonr(of.train.X["c"], (y == value).astype(float)).pvalue for value in range(3))
    assert power_methods.correlation(classes).p[2] == min(3 * smallest, 1)


class LeastSquares:
    """Linear regression; the third column has no weight if it is there."""

    def fit(self, X, y):
        self.weight = np.linalg.lstsq(X, y, rcond=None)[0]
        return self

    def predict(self, X):
        return X @ self.weight


def test_leaving_a_feature_out_compares_absolute_errors_of_held_out_rows():
    of = case()
    of = replace(of, model=LeastSquares().fit(of.X, of.train.y), unfitted=lambda seed: LeastSquares())
    found = power_methods.leave_out(of)
    X, y = of.held_out.X.to_numpy(), of.held_out.y
    without = LeastSquares().fit(of.X[:, 1:], of.train.y)
    more = np.abs(y - without.predict(X[:, 1:])) - np.abs(y - of.model.predict(X))
    assert found.p[0] == stats.wilcoxon(more, alternative="greater").pvalue < 1e-6
    assert (found.p[2:] > 0.001).all()
    assert np.array_equal(found.adjusted, holm(found.p))
    with pytest.raises(debias.DebiasError, match="held-out"):
        power_methods.leave_out(case(held_out=False))


def test_the_loss_of_classes_is_half_of_the_squared_errors_of_all_probabilities():
    y, share = np.array([0, 1, 2]), np.array([[0.8, 0.1, 0.1], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    model = SimpleNamespace(classes_=np.arange(3), predict_proba=lambda X: share)
    np.testing.assert_allclose(power_methods._loss(model, X=None, y=y), [0.03, 0.25, 1.0])
    two = SimpleNamespace(classes_=np.arange(2), predict_proba=lambda X: np.array([[0.3, 0.7], [0.3, 0.7]]))
    np.testing.assert_allclose(power_methods._loss(two, X=None, y=np.array([0, 1])), [0.49, 0.09])


def test_boruta_counts_forests_in_which_a_feature_beats_all_copies():
    of = case()
    # The importances of 2 x 5 columns fall from 10: the first two columns are above all copies, which have 0.
    hits, importance = power_methods.boruta_hits(of.unfitted, of.X, of.train.y, 7, 0)
    assert hits.tolist() == [7, 7, 0, 0, 0]
    assert importance.tolist() == [10, 9, 0, 0, 0]
    assert (power_methods.boruta(of).adjusted <= 0.05).tolist() == [True, True, False, False, False]


def test_refits_that_do_not_depend_on_the_response_find_nothing():
    of = case()
    for method in (power_methods.pimp, power_methods.altmann):
        found = method(of)
        assert (found.p == 1).all()
        assert (found.adjusted > 0.05).all()


@pytest.mark.thorough
def test_pimp_counts_refits_with_as_large_an_importance():
    design = power_designs.forests()[5]
    sample = design.draw(3)
    y = sample.simulation.y

    def unfitted(seed):
        return design.model(seed, y).set_params(n_estimators=5)

    of = power_methods.Case(None, sample.simulation, None, unfitted, 1)
    p = power_methods.pimp(of).p
    rng = np.random.default_rng(1)
    own = unfitted(int(rng.integers(2**31))).fit(of.X, y).feature_importances_
    count = np.zeros(p.size)
    for _ in range(power_methods.N_REFITS):
        permuted = rng.permutation(y)
        count += unfitted(int(rng.integers(2**31))).fit(of.X, permuted).feature_importances_ >= own
    assert np.array_equal(p, (1 + count) / 20)


def test_janitzas_null_is_mirrored(monkeypatch):
    increase = np.array([0.5, -0.2, 0.1, 0.0, -0.05])
    monkeypatch.setattr(power_methods, "_increase_of_loss", lambda *_: increase[None])
    p = power_methods.janitza(case()).p
    # Twice the increase: 1, -.4, .2, 0, -.1; null -.4, -.1, 0, .1, .4.
    assert p.tolist() == [0.0, 1.0, 0.2, 0.6, 0.8]


def test_an_audit_is_that_of_debias():
    design = power_designs.forests()[6]
    sample = design.draw(0)
    y = sample.simulation.y
    model = design.model(0, y).set_params(n_estimators=20).fit(sample.simulation.numeric.to_numpy(), y)
    found = power_methods.verdicts("audit:conservative", power_methods.Case(model, sample.simulation, None, None, 0))
    expected = debias.audit(
        model, sample.simulation.numeric.to_numpy(), y, test="conservative", rows="oob", dependence=False
    ).tested_scores
    assert np.array_equal(found.p, expected.p_value)
    assert np.array_equal(found.adjusted, expected.p_adjusted)


def test_the_combined_test_has_permutations_enough_for_one_discovery():
    for n_features, n_permutations in ((11, 199), (20, 199), (50, 499), (100, 999)):
        assert power_methods.permutations("combined", n_features) == n_permutations
        assert n_features / (n_permutations + 1) <= 0.1
    assert power_methods.permutations("permutation", 11) == 999


def test_an_unknown_test_is_named():
    with pytest.raises(debias.DebiasError, match="no test 'corelation'"):
        power_methods.verdicts("corelation", SimpleNamespace())


@pytest.mark.thorough
def test_designs_say_what_is_relevant_and_what_is_noise():
    sample = power_designs.blocks(0, n_rows=20_000)
    correlations = np.corrcoef(sample.simulation.X.to_numpy().T)
    assert correlations[0, 1:5] == pytest.approx(np.full(4, 0.5), abs=0.03)
    assert correlations[0, 5:] == pytest.approx(np.zeros(95), abs=0.04)
    assert sample.simulation.is_relevant.sum() == 5
    assert sample.noise.sum() == 75
    assert power_designs.loh_rows(0, "E1").simulation.relevant == ("N2",)
    assert power_designs.loh_rows(0, "E1").noise.sum() == 8
    booster_rows = power_designs.aico(0, 0.0)
    x = booster_rows.held_out.X.to_numpy().T
    mean = 3 + 4 * x[0] + x[0] * x[1] + 3 * x[2] ** 2 + 2 * x[3] * x[4] + 6 * x[5] + 2 * np.sin(x[6]) + np.exp(x[7])
    assert booster_rows.held_out.y == pytest.approx(mean + 5 * x[8] + 3 * x[9] + 4 * x[10] + 5 * x[11])


@pytest.mark.thorough
def test_a_run_writes_a_page_and_a_test_joins_later(tmp_path, monkeypatch):
    few = [design for design in power_designs.forests() if design.name in ("E0", "E3")]
    monkeypatch.setattr(power, "forests", lambda: few)
    monkeypatch.setattr(power_methods, "N_PERMUTATIONS", 19)
    messages = Console(file=io.StringIO())
    power.run("power", tmp_path, messages, repeats=2, tests=["correlation"])
    before = (tmp_path / "power.trials.jsonl").read_text()
    page = power.run("power", tmp_path, messages, repeats=2, tests=["audit:permutation", "audit:none_such"])
    assert (tmp_path / "power.trials.jsonl").read_text().startswith(before)
    assert "| correlation | 2 |" in page
    assert "| audit:permutation | 2 |" in page.replace("[", "").replace("]", "")
    assert "- audit:none_such: test='none_such'" in page
    figures = pd.read_csv(tmp_path / "power.csv")
    assert set(figures["test"]) == {"correlation", "audit:permutation"}
    assert "(power.md)" in (tmp_path / "index.md").read_text()


@pytest.mark.thorough
def test_bench_from_the_shell_writes_its_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(downstream, "DATA_SETS", {"wine": DATA_SETS["wine"]})
    for study in ("aico", "citrees"):
        name = "correlation" if study == "aico" else "|correlation|"
        arguments = ["bench", study, "--repeats", "1", "--out", str(tmp_path), "--scorers", name]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        assert (tmp_path / f"{study}.csv").exists()
    assert CliRunner().invoke(main, ["bench", "aico", "--data", __file__]).exit_code == 2


def test_a_column_of_one_whole_number_is_masked_by_it():
    """A rare binary column may have one value in the training rows."""
    column = np.array([0.0, 1.0, 0.0])
    np.testing.assert_array_equal(power_methods._mask(column, np.zeros(5)), 0)
    np.testing.assert_array_equal(power_methods._mask(column, np.array([0.0, 0, 1])), [1, 0, 1])
    assert power_methods._mask(column, np.array([0.25, 0.75])) == 0.5
