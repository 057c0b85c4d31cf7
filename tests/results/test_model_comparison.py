"""The comparison of two models: its sentences, gate, JSON, picture and page, from numbers that are made up."""

import json
import re
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from scipy.stats import t

from debias.errors import CompositionError, DebiasError, PolicyError
from debias.results.console import short_models
from debias.results.loss_change import PartOfLoss
from debias.results.model_comparison import ModelComparison
from debias.results.policy import HistoryPolicy, ModelsPolicy, Policy
from debias.text import with_sign

mpl.use("Agg")
NAMES = ("price", "promo", "<b>id\u202e", "day", "unused")


def compared(change=-0.059, error=0.008, **given):
    """The log loss of the model is lower by .059: price makes .07 of it, promo .02 in the other direction."""
    cost = np.array([-0.07, 0.02, -0.004, 0.001, 0.0])
    base = change - cost.sum()
    settings = {
        "metric": "log loss",
        "feature_names": NAMES,
        "only_in": ("model", "baseline", "", "", ""),
        "loss": PartOfLoss(0.471, 0.471 + change, error, 400.0),
        "base": PartOfLoss(0.69, 0.69 + base, error / 4, 400.0),
        "alpha": 0.05,
        "statistics": {
            "saved_baseline": np.array([0.0, 0.02, 0.01, 0.01, 0.0]),
            "saved_model": np.array([0.07, 0.0, 0.014, 0.009, 0.0]),
            "cost": cost,
            "error": np.full(5, error),
            "p_value": np.array([1e-6, 0.003, 0.5, 0.9, np.nan]),
            "p_adjusted": np.array([4e-6, 0.009, 1.0, 1.0, np.nan]),
        },
        "n_rows": 1200,
        "n_units": 1200,
        "settings": {"model": "Forest", "baseline": "Booster"},
    }
    return ModelComparison(**settings | given)


def with_p(adjusted, **given):
    """The same comparison with other adjusted p-values."""
    found = compared(**given)
    return replace(found, statistics=found.statistics | {"p_adjusted": np.array(adjusted)})


def test_the_sentences_say_what_the_table_says():
    assert compared().summary() == [
        "The model predicts these rows better: its log loss is 0.412, that of the baseline 0.471 (-0.059, standard "
        "error 0.008).",
        "Beyond chance, the loss of the model is lower by price -0.07; higher by promo +0.02. The rest: the base "
        "-0.006, 3 other features together -0.003.",
        "Features only in the model: price; only in the baseline: promo. Features that go together share what they "
        "save, so a part of one feature may have gone to another.",
        "Test: paired differences of 1,200 rows; family-wise error rate 5% of all features. It is about these two "
        "fits: another fit with the same settings and another seed differs too, and with many rows beyond chance.",
    ]
    for change in (-0.059, 0.1):
        found = compared(change)
        said = [float(text) for text in re.findall(r"[+-]\d[\d.e-]*\d", " ".join(found.summary()[:2]))]
        assert said[0] == pytest.approx(change, rel=1e-2)
        assert sum(said[1:]) == pytest.approx(change, abs=1e-3)  # what is said adds up, up to its rounding
    assert compared(0.1).headline.startswith("The model predicts these rows worse: its log loss is 0.571")
    assert compared(0.01).headline.endswith("a difference that may be chance.")


def test_what_was_not_tested_is_not_said_to_be_alike():
    few = with_p([np.nan] * 5, error=np.nan, n_units=9)
    assert few.summary()[0] == (
        "The log loss of the model is 0.412, that of the baseline 0.471 (-0.059). 9 rows are too few to tell whether "
        "this is chance, and no feature was tested."
    )
    assert "9 blocks are too few" in replace(few, in_blocks=True).headline
    assert "Test" not in " ".join(few.summary())
    shifted = compared(error=np.nan)
    assert shifted.headline.endswith("the difference (-0.059) is the same in every row.")
    assert not shifted.alike
    assert compared(0.0, error=np.nan).alike
    none = with_p([1.0, 1.0, 1.0, 1.0, np.nan])
    assert none.summary()[1] == (
        "No single feature makes a difference beyond chance: the base -0.006, 5 features together -0.053."
    )


@pytest.mark.parametrize("unit", [1.0, 1e-14])
@pytest.mark.parametrize(("part", "is_rounding"), [(1e-10, True), (-1e-9, True), (1e-4, False)])
def test_a_part_that_is_an_error_of_rounding_is_0(unit, part, is_rounding):
    """Libraries compute in single precision, so that the base of two models on the same rows differs a little."""
    found = compared()
    ends = {"loss": PartOfLoss(1.32 * unit, 1.36 * unit, 0.001 * unit, 300.0)}
    found = replace(found, base=PartOfLoss(5.0 * unit, (5.0 + part) * unit, np.nan, 300.0), **ends)
    base = "0" if is_rounding else with_sign(found.base.change)
    assert f"The rest: the base {base}, 3 other features" in found.summary()[1]
    assert found.check({"max_loss_increase": 0}).results[0].reason.endswith(f"; the base {base}")
    assert f"The base differs by {base}." in found.to_html()


def test_verdicts_and_the_table():
    found = compared()
    alike = "no difference detected"
    assert found.verdict == ["saves more", "saves less", alike, alike, "not tested"]
    assert list(found.to_frame().index) == ["promo", "day", "unused", "<b>id\u202e", "price"]
    assert list(found.to_frame().columns) == [*ModelComparison.STATISTICS, "verdict", "only_in"]
    assert "saves less" in short_models(found)
    assert repr(found) == short_models(found)
    assert found.p_value == pytest.approx(2 * t.cdf(-0.059 / 0.008, 400))


def test_json_is_read_back():
    for each in (
        compared(),
        with_p([np.nan] * 5, error=np.nan, n_units=9),
        compared(in_blocks=True, warnings=("odd",)),
    ):
        again = ModelComparison.from_json(each.to_json())
        assert again.to_json() == each.to_json()
        assert again.summary() == each.summary()
        assert again.in_blocks is each.in_blocks


def test_skewness_is_read_back_and_older_files_have_none():
    found = compared()
    skewed = replace(found, loss=replace(found.loss, skewness=0.2))
    again = ModelComparison.from_json(skewed.to_json())
    assert (again.loss.skewness, again.p_value) == (0.2, skewed.p_value)
    assert skewed.p_value != found.p_value
    plain = json.loads(found.to_json())
    for name in ("loss", "base"):
        del plain[name]["skewness"]
    assert ModelComparison.from_json(json.dumps(plain)).to_json() == found.to_json()


def test_skewness_only_makes_p_values_of_losses_larger():
    """A long tail of rises hides in a fall, and the other way round; the middle of the distribution stays."""
    for change in (-0.3, 0.0, 0.3):
        plain, skewed = (PartOfLoss(1.0, 1.0 + change, 0.1, 9.0, skewness=a) for a in (0.0, 0.3))
        assert skewed.p_value == plain.p_value
        assert skewed.p_fall > plain.p_fall
        other = replace(skewed, skewness=-0.3)
        assert other.p_fall == plain.p_fall
        assert other.p_value > plain.p_value
        assert other.p_above(0.1) > plain.p_above(0.1)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda plain: plain["statistics"].pop("cost"), "statistics.cost"),
        (lambda plain: plain["statistics"]["cost"].append(1.0), "its columns do not have 5 entries"),
        (lambda plain: plain.update(verdict=["saves more"] * 5), "verdict does not follow"),
        (lambda plain: plain.update(only_in=["x"] * 5), "only_in has a word"),
        (lambda plain: plain["base"].pop("error"), "error"),
        (lambda plain: plain.update(more=1), "more"),
        (lambda plain: plain.update(kind="comparison"), "its kind is not"),
        (lambda plain: plain["statistics"]["cost"].__setitem__(0, 5.0), "do not add up"),
        (lambda plain: plain["loss"].update(model=99.0), "do not add up"),
        (lambda plain: plain["loss"].update(error=-1.0), "a standard error is below 0"),
        (lambda plain: plain["loss"].update(error=0.0), "no degrees of freedom, or no possible skewness"),
        (lambda plain: plain["loss"].update(freedom=None), "no degrees of freedom, or no possible skewness"),
        (lambda plain: plain["base"].update(skewness=None), "no degrees of freedom, or no possible skewness"),
        (lambda plain: plain["loss"].update(skewness=1e300), "no degrees of freedom, or no possible skewness"),
        (lambda plain: plain["statistics"]["p_value"].__setitem__(0, 3.0), "no probabilities"),
        (lambda plain: plain["feature_names"].__setitem__(0, plain["feature_names"][1]), "a name twice"),
    ],
)
def test_broken_json_is_refused(broken, message):
    plain = json.loads(compared().to_json())
    broken(plain)
    with pytest.raises(DebiasError, match=message):
        ModelComparison.from_json(json.dumps(plain))


def outcome(found, rule, limit):
    (result,) = found.check({rule: limit}).results
    return str(result.status), result.value, result.reason


def test_the_gate_of_the_loss():
    assert outcome(compared(), "max_loss_increase", 0)[:2] == ("passed", "-0.059")
    status, value, reason = outcome(compared(0.059), "max_loss_increase", 0.02)
    assert (status, value) == ("failed", "+0.059")
    assert reason == (
        "log loss 0.471 of the baseline, 0.53 of the model (standard error of the difference 0.008); higher by promo "
        "+0.02; the base +0.112"
    )
    assert outcome(compared(0.01), "max_loss_increase", 0)[0] == "not judged"
    unknown = outcome(compared(0.01, error=np.nan), "max_loss_increase", 1)
    assert unknown[0] == "not judged"
    assert "no standard error" in unknown[2]
    assert outcome(compared(0.0, error=np.nan), "max_loss_increase", 0)[0] == "passed"
    assert "no single feature by more than chance" in outcome(with_p([1.0] * 5, change=0.1), "max_loss_increase", 0)[2]


def test_the_gate_of_features():
    found = compared()
    assert outcome(found, "must_not_save_less", "all")[:2] == ("failed", "1 of 4")
    assert outcome(found, "must_not_save_less", ["promo"])[0] == "failed"
    assert "only in the baseline" in outcome(found, "must_not_save_less", ["promo"])[2]
    assert outcome(found, "must_not_save_less", ["price"])[0] == "passed"
    assert outcome(found, "must_not_save_less", ["unused"])[0] == "not judged"
    assert outcome(found, "must_not_save_less", ["income"])[0] == "failed"
    assert outcome(found, "must_not_save_less", [{"name": "income", "optional": True}])[0] == "passed"
    assert outcome(with_p([0.01, 1.0, 1.0, 1.0, np.nan]), "must_not_save_less", "all")[0] == "passed"
    assert outcome(with_p([np.nan] * 5), "must_not_save_less", "all")[0] == "not judged"
    few = found.check({"min_rows": 2000, "max_loss_increase": 0})
    assert [str(result.status) for result in few.results] == ["failed", "not judged"]


def test_rules_stand_in_a_table_of_their_own(tmp_path):
    file = tmp_path / "debias.toml"
    file.write_text("min_rows = 10\n[models]\nmax_loss_increase = 0.0\n[history]\nmax_shift = 0.5\n")
    assert ModelsPolicy.of(file) == ModelsPolicy(max_loss_increase=0.0)
    assert HistoryPolicy.of(file) == HistoryPolicy(max_shift=0.5)
    assert Policy.of(file) == Policy(min_rows=10)
    with pytest.raises(PolicyError, match="rules for two models only: check those with debias compare"):
        Policy.of({"models": {"min_rows": 1}})
    with pytest.raises(PolicyError, match="that rule is for two models: put it in the table 'models'"):
        Policy.of({"must_not_save_less": "all"})
    with pytest.raises(PolicyError, match="has no table 'models' with rules for two models"):
        ModelsPolicy.of({"min_rows": 10, "history": {"max_shift": 0.5}})
    with pytest.raises(PolicyError, match="'max_loss_increase' is outside of it"):
        ModelsPolicy.of({"max_loss_increase": 0, "models": {"min_rows": 1}})
    with pytest.raises(PolicyError, match="max_loss_increase must be a number of 0 or more"):
        compared().check({"max_loss_increase": -1})
    with pytest.raises(PolicyError, match="would pass everything"):
        compared().check({})


@pytest.mark.parametrize("most", [1, 2, 30])
def test_the_bars_go_from_the_loss_of_the_baseline_to_that_of_the_model(most):
    found = compared()
    axes = found.plot(max_features=most)
    bars = [patch for patch in axes.patches if patch.get_height() == pytest.approx(0.6)]
    assert len(bars) == 1 + min(most, 5) + (most < 5)
    assert sum(bar.get_width() for bar in bars) == pytest.approx(found.loss.change)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert (labels[0], labels[1], labels[-1]) == ("baseline", "base", "model")
    mpl.pyplot.close("all")
    with pytest.raises(CompositionError, match="kind='bars' is not one of 'loss'"):
        found.plot("bars")


def test_the_page_has_the_picture_the_table_and_no_markup_of_names():
    page = compared().to_html()
    assert "with 95% intervals of each difference. Orange: the model saves less by the feature, beyond chance; " in page
    assert "blue: more; grey: the base, all other features, and those that were not tested." in page
    assert "How the losses differ" in page
    assert "By which features they differ" in page
    assert "lower by price -0.07" in page
    assert "<b>id" not in page


def test_large_losses_have_no_exponents():
    found = compared(change=-4321.4, error=123.4)
    found = replace(found, loss=PartOfLoss(35678.2, 31356.8, 123.4, 400.0))
    expected = "its mean squared error is 31,357, that of the baseline 35,678 (-4,321, standard error 123)."
    assert expected in replace(found, metric="mean squared error").headline
    assert "e+" not in "".join(found.summary())
    assert "e+" not in "".join(result.reason + result.value for result in found.check({"max_loss_increase": 0}).results)
