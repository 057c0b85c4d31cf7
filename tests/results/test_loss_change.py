"""The change of the loss: its sentences, gate, JSON, pictures and pages, from numbers that are made up."""

import json
import re
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.stats import t

from debias import Changes
from debias.errors import CompositionError, DebiasError, PolicyError
from debias.results.loss_change import LossCause, LossChange, PartOfLoss
from debias.results.vocabulary import GREY, VERMILION, LossKind
from debias.results.windows import WindowOfPeriods
from support.made_over_time import made_changes

mpl.use("Agg")
NAMES = ("price", "promo", "<b>id\u202e", "day", "unused")


def loss(error=0.008, rise=0.059, **given):
    """The log loss rose by .059: price made .047 of it and promo .009; the last feature is not used."""
    cost = np.array([0.047, 0.009, 0.002, -0.001, 0.0]) * rise / 0.059
    statistics = {name: np.zeros(5) for name in LossChange.STATISTICS} | {
        "saved_before": np.array([0.1, 0.05, 0.01, 0.01, 0.0]),
        "saved_after": np.array([0.1, 0.05, 0.01, 0.01, 0.0]) - cost,
        "cost": cost,
        "error": np.full(5, error),
        "response_cost": cost,
        "p_adjusted": np.array([0.001, 0.04, 0.8, 1.0, np.nan]) if error == error else np.full(5, np.nan),
    }
    base = rise - cost.sum()
    settings = {
        "metric": "log loss",
        "feature_names": NAMES,
        "loss": PartOfLoss(0.412, 0.412 + rise, error, 20.0),
        "base": PartOfLoss(0.69, 0.69 + base, error / 4, 20.0),
        "level": 0.05,
        "n_periods": (30, 7),
        "n_rows": (3000, 700),
        "no_causes_because": "no rows are kept",
    }
    return LossChange(**settings | {"statistics": statistics | given.pop("statistics", {})} | given)


def changes(found=None, **given):
    made = made_changes(NAMES)
    return replace(made, loss=loss() if found is None else found, **given)


def sentence(found):
    told = [text for text in changes(found).summary() if text.startswith("The log loss")]
    assert len(told) == 1
    return told[0]


def test_the_sentence_says_what_the_table_says():
    assert sentence(loss()) == (
        "The log loss rose from 0.412 to 0.471 (+0.059, standard error 0.008). More than before, beyond chance, cost: "
        "price +0.047, promo +0.009. The rest: the base +0.002, 3 other features together +0.001."
    )
    number = r"[+-]\d[\d.e-]*\d"
    for rise in (0.1, 0.0031, -0.2):
        found = loss(rise=rise)
        said = [float(text) for text in re.findall(number, sentence(found))]
        total, *parts = said
        assert total == pytest.approx(rise, rel=1e-2)
        assert sum(parts) == pytest.approx(rise, rel=2e-2)  # what is said adds up, up to its rounding


def test_a_change_that_may_be_chance_is_no_rise():
    none = {"statistics": {"p_adjusted": np.array([1.0, 1.0, 1.0, 1.0, np.nan])}}
    said = sentence(loss(rise=0.005, **none))
    assert said == (
        "The log loss went from 0.412 to 0.417 (+0.005, standard error 0.008), which may be chance: the base "
        "+0.000169, 5 features together +0.00483. No feature costs more than before by more than chance."
    )
    assert "fell from 0.412 to 0.312" in sentence(loss(rise=-0.1, **none))
    assert "may be chance" not in sentence(loss(rise=-0.1, **none))


def test_without_errors_nothing_is_said_of_features():
    said = sentence(loss(error=np.nan))
    assert said.endswith(
        "There are too few periods to tell whether this is chance, and what single features cost was not tested."
    )
    assert "price" not in said
    assert loss(error=np.nan).verdict == ["not tested"] * 5


def test_why_the_loss_is_not_known_is_said_once():
    lacking = replace(changes(loss()), no_loss_because="7 of 8 recent periods without parts of the loss: old")
    (result,) = lacking.check({"max_loss_increase": 0.06}).results
    assert (str(result.status), result.reason[-5:]) == ("not judged", ": old")
    assert str(lacking.check({"max_loss_increase": 0.02}).results[0].status) == "failed"
    bare = replace(changes(), loss=None, no_loss_because="30 reference periods without parts of the loss: <old>")
    said = [text for text in bare.summary() if "loss" in text]
    assert said == ["The change of the loss is not known: 30 reference periods without parts of the loss: <old>."]
    some = changes(no_loss_because="3 of 30 reference periods without parts of the loss: they are old")
    assert "The parts of the loss are not those of all periods: 3 of 30 reference periods" in " ".join(some.summary())
    assert not [text for text in replace(bare, no_loss_because=None).summary() if "loss" in text]


def test_a_level_that_moved_explains_what_features_cost():
    found = loss(no_causes_because=None, level_moved=True)
    assert found.explained == ("price", "promo")
    moved = changes(found)
    told = (
        "The mean response moved against the predictions of the model. Beyond what this explains, no feature is found "
        "to cost more, so none of these is called a cause: price, promo."
    )
    assert told in moved.summary()
    (result,) = moved.check({"max_loss_increase": 0.02}).results
    assert str(result.status) == "failed"
    assert "; explained by a mean response that moved; the base" in result.reason
    again = Changes.from_json(moved.to_json())
    assert (again.loss.level_moved, again.loss.explained) == (True, found.explained)
    older = json.loads(moved.to_json())
    del older["loss"]["level_moved"]
    assert Changes.from_json(json.dumps(older)).loss.level_moved is False
    still = changes(loss(no_causes_because=None))
    assert "No feature is found to be a cause by itself." in still.summary()


def test_causes_are_said_with_what_they_explain():
    price = LossCause("price", LossKind.VALUES, 0.9, 0.001)
    found = loss(causes=(price,), no_causes_because=None)
    assert found.explained == ("promo",)
    (said,) = [text for text in changes(found).summary() if text.startswith("Causes")]
    assert said == "Causes, step by step: price: its values changed or are broken. It explains what these cost: promo."
    both = loss(causes=(price, LossCause("promo", LossKind.NEITHER, 0.01, 0.001)), no_causes_because=None)
    assert both.explained == ()
    (said,) = [text for text in changes(both).summary() if text.startswith("Causes")]
    assert said == (
        "Causes, step by step: price: its values changed or are broken; promo: it alone does not explain this, as "
        "after two faults, or with rows on which the model errs more."
    )
    assert Changes.from_json(changes(both).to_json()).loss.causes == both.causes
    partly = replace(found, partly_explained=("promo",))
    assert partly.explained == ()
    (said,) = [text for text in changes(partly).summary() if text.startswith("Causes")]
    assert said == (
        "Causes, step by step: price: its values changed or are broken. What these cost is not explained in full, "
        "so they may be weaker causes: promo."
    )
    older = json.loads(changes(partly).to_json())
    assert Changes.from_json(json.dumps(older)).loss.partly_explained == ("promo",)
    del older["loss"]["partly_explained"]
    assert Changes.from_json(json.dumps(older)).loss.partly_explained == ()
    drifted = loss(causes=(replace(price, kind=LossKind.ROWS, p_rows=0.4, followed=True),), no_causes_because=None)
    told = " ".join(changes(drifted).summary())
    assert "price: other rows came, and nothing shows that its values are broken" in told
    assert "Other rows explain what these cost: promo." in told
    plain = json.loads(changes(drifted).to_json())
    later = ("p_rows", "followed")
    assert [plain["loss"]["causes"][0].pop(name) for name in later] == [0.4, True]  # earlier versions wrote neither
    (older,) = Changes.from_json(json.dumps(plain)).loss.causes
    assert (older.p_rows, older.followed) == (None, None)
    moved = replace(found, level_moved=True)
    told = " ".join(changes(moved).summary())
    assert "It, and a mean response that moved against the predictions, explain what these cost: promo." in told
    # Nothing is called a cause of a rise that may be chance.
    calm = loss(causes=(price,), no_causes_because=None, loss=PartOfLoss(0.412, 0.413, 0.008, 20.0))
    told = " ".join(changes(calm).summary())
    assert "Causes" not in told
    assert "The loss did not rise beyond chance. What costs more, step by step: price: its values changed" in told
    unknown = loss()
    assert unknown.explained == ()
    told = "Which features are causes, and which only go together with one, is not known: no rows are kept."
    assert told in changes(unknown).summary()
    odd = json.loads(changes(found).to_json())
    odd["loss"]["causes"][0]["kind"] = "magic"
    with pytest.raises(DebiasError, match=r"loss.causes has a kind that debias does not write"):
        Changes.from_json(json.dumps(odd))


def test_verdicts_and_the_table():
    found = loss()
    expected = ["costs more", "costs more", "no increase detected", "no increase detected", "not tested"]
    assert found.verdict == expected
    frame = found.to_frame()
    assert list(frame.index) == ["price", "promo", "<b>id\u202e", "unused", "day"]
    assert list(frame["verdict"])[:2] == ["costs more"] * 2
    assert list(frame.columns) == [*LossChange.STATISTICS, "verdict"]


def test_p_values_are_one_sided_students():
    part = PartOfLoss(1.0, 1.3, 0.1, 9.0)
    assert part.p_value == pytest.approx(t.sf(3, 9))
    assert part.p_above(0.5) == pytest.approx(t.sf(-2, 9))
    assert np.isnan(PartOfLoss(1.0, 1.3, np.nan, 9.0).p_value)


def test_json_is_read_back():
    for each in (changes(), changes(loss(error=np.nan)), replace(changes(), loss=None, no_loss_because="old")):
        again = Changes.from_json(each.to_json())
        assert again.to_json() == each.to_json()
        assert again.summary() == each.summary()
    older = {name: value for name, value in changes().to_dict().items() if name not in ("loss", "no_loss_because")}
    assert Changes.from_json(json.dumps(older)).loss is None


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda plain: plain["statistics"].pop("cost"), "loss.statistics does not have 5 numbers"),
        (lambda plain: plain["statistics"]["cost"].append(1.0), "loss.statistics does not have 5 numbers"),
        (lambda plain: plain.update(verdict=["costs more"] * 5), "loss.verdict does not follow"),
        (lambda plain: plain.update(n_rows=[1]), "not a list of two numbers"),
        (lambda plain: plain["base"].pop("error"), "error"),
        (lambda plain: plain.update(more=1), "more"),
    ],
)
def test_broken_json_is_refused(broken, message):
    plain = json.loads(changes().to_json())
    broken(plain["loss"])
    with pytest.raises(Exception, match=message):
        Changes.from_json(json.dumps(plain))


def outcome(found, limit, **given):
    (result,) = changes(found, **given).check({"max_loss_increase": limit}).results
    return str(result.status), result.value, result.reason


def test_the_gate_fails_beyond_chance_only_and_names_the_features():
    status, value, reason = outcome(loss(), 0.02)
    assert (status, value) == ("failed", "+0.059")
    assert reason == (
        "log loss 0.412 before, 0.471 recently (standard error of the difference 0.008); more than before cost price "
        "+0.047, promo +0.009; the base +0.002"
    )
    known = loss(causes=(LossCause("price", LossKind.VALUES, 0.9, 0.001),), no_causes_because=None)
    assert "promo +0.009; causes: price (its values changed or are broken); the base" in outcome(known, 0.02)[2]
    assert outcome(loss(), 0.06)[0] == "passed"
    status, _, reason = outcome(loss(), 0.05)  # 0.009 more, with a standard error of 0.008
    assert status == "not judged"
    assert "may be chance" in reason
    assert outcome(loss(error=np.nan), 0.02)[0] == "not judged"
    none = {"statistics": {"p_adjusted": np.array([1.0, 1.0, 1.0, 1.0, np.nan])}}
    assert "no single feature by more than chance" in outcome(loss(**none), 0.02)[2]
    bare = replace(changes(), loss=None, no_loss_because="the periods are old")
    (result,) = bare.check({"max_loss_increase": 1}).results
    assert (str(result.status), result.reason) == ("not judged", "the periods are old")
    nothing = replace(
        bare, statistics={}, not_compared_because="too few", reference=WindowOfPeriods(None, None, 0, 0), means=()
    )
    assert str(nothing.check({"max_loss_increase": 1}).results[0].status) == "not judged"


@pytest.mark.parametrize("limit", [-1, True, "10%", float("nan")])
def test_a_limit_is_a_number(limit):
    with pytest.raises(PolicyError, match="max_loss_increase must be a number of 0 or more, in the unit of the loss"):
        changes().check({"max_loss_increase": limit})


@pytest.mark.parametrize("most", [1, 2, 30])
def test_the_bars_go_from_the_loss_before_to_the_recent_one(most):
    found = loss()
    axes = changes().plot("loss", max_features=most)
    bars = [patch for patch in axes.patches if patch.get_height() == pytest.approx(0.6)]
    steps = [bar.get_width() for bar in bars]
    assert len(steps) == 1 + min(most, 5) + (most < 5)
    assert sum(steps) == pytest.approx(found.loss.change)
    begin = found.loss.before
    for bar in bars:
        assert bar.get_x() + min(0, bar.get_width()) == pytest.approx(begin + min(0, bar.get_width()))
        begin += bar.get_width()
    assert begin == pytest.approx(found.loss.after)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert (labels[0], labels[1], labels[2], labels[-1]) == ("before", "base", "price", "recently")
    mpl.pyplot.close("all")


def colours_of(axes):
    """Return the colours of the bars from the base on, by the labels beside them."""
    bars = [patch for patch in axes.patches if patch.get_height() == pytest.approx(0.6)]
    labels = [label.get_text() for label in axes.get_yticklabels()][1:-1]
    return dict(zip(labels, [to_hex(bar.get_facecolor()) for bar in bars], strict=True))


def test_bars_have_colours_of_verdicts_only_and_are_not_cut():
    axes = changes().plot("loss")
    colours = colours_of(axes)
    assert (colours["price"], colours["promo"]) == (VERMILION, VERMILION)
    assert {colour for name, colour in colours.items() if name not in ("price", "promo")} == {GREY}  # "day" costs less
    low, high = axes.get_xlim()
    assert low < 0.412 - 0.002
    assert high > 0.471 + 0.002
    untested = changes(loss(error=np.nan))
    assert set(colours_of(untested.plot("loss")).values()) == {GREY}
    mpl.pyplot.close("all")


@pytest.mark.thorough
def test_the_caption_explains_every_colour_of_the_bars():
    page = changes().to_html()
    assert (
        "with 95% intervals of each change. Orange: features that cost more than before, beyond chance; grey: " in page
    )
    page = changes(loss(error=np.nan)).to_html()
    assert "each feature changed. No feature was tested for what it costs, so all bars are grey." in page


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="nothing to draw: old"):
        replace(changes(), loss=None, no_loss_because="old").plot("loss")
    with pytest.raises(CompositionError, match="kind='bars' is not one of 'interval', 'loss'"):
        changes().plot("bars")


def test_the_page_has_the_picture_the_table_and_no_markup_of_names():
    page = changes().to_html()
    assert "How the loss changed" in page
    assert "What changed the loss" in page
    assert "More than before, beyond chance, cost: price +0.047" in page
    assert "<b>id" not in page
    assert "What changed the loss" not in replace(changes(), loss=None).to_html()
