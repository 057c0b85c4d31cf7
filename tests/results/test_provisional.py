"""What rows without responses tell: its sentences, table and JSON, from numbers that are made up."""

import json
from dataclasses import replace

import numpy as np
import pytest

from debias import Changes
from debias.errors import DebiasError
from debias.results.provisional import UNSEEN, Provisional
from debias.results.windows import MeanOfPeriods, WindowOfPeriods
from support.made_over_time import made_changes

NAMES = ("price", "promo", "<b>id\u202e", "day")


def provisional(**given):
    """Price and promo are expected to save less; rows shifted at the splits on the price."""
    statistics = {
        "expected_before": np.array([0.5, 0.2, 0.1, 0.0]),
        "expected_after": np.array([0.3, 0.15, 0.1, 0.0]),
        "expected_error": np.full(4, 0.02),
        "expected_p_adjusted": np.array([1e-6, 0.01, 0.9, np.nan]),
        "used": np.ones(4, dtype=bool),
        "shift": np.array([0.4, 0.05, 0.02, np.nan]),
        "shift_p_adjusted": np.array([1e-9, 0.5, 1.0, np.nan]),
        "shifted": np.array([True, False, False, False]),
        "left_before": np.array([0.2, 0.5, 0.5, np.nan]),
        "left_after": np.array([0.35, 0.5, 0.5, np.nan]),
        "unseen_before": np.zeros(4),
        "unseen_after": np.array([0.0, 0.3, 0.0, 0.0]),
    }
    settings = {
        "feature_names": NAMES,
        "reference": WindowOfPeriods("2026-01-01", "2026-01-30", 30, 3000),
        "waiting": WindowOfPeriods("2026-02-01", "2026-02-07", 7, 700),
        "level": 0.05,
        "splits": ("price <= 3.1", "", "", ""),
        "prediction": MeanOfPeriods("prediction", 0.1, 0.15, 0.001, True, "2026-02-03"),
        "broken": ("price",),
        "no_broken_because": None,
    }
    return Provisional(**settings | {"statistics": statistics | given.pop("statistics", {})} | given)


def test_the_sentences_begin_with_what_cannot_be_told():
    assert provisional().summary() == [
        UNSEEN,
        "Provisional: 7 periods without responses (2026-02-01 to 2026-02-07), 700 rows, compared with 30 periods, "
        "3,000 rows.",
        "Provisional: categories that the model never saw: promo (30.0% of the rows; before, 0%).",
        "Provisional: the mean prediction changed by +0.05, beyond chance; 2026-02-03 deviates most.",
        "Provisional: rows shifted at the splits on price (effect size 0.40; at price <= 3.1, 20.0% of the rows there "
        "went left before, 35.0% now). Too few rows to tell at the splits on day.",
        "Provisional: what the model expects to save changed, beyond chance, by price -0.2, promo -0.05.",
        "Provisional: the recent values of price alone, in the rows of the reference, give the same: its values "
        "changed or are broken.",
    ]


def test_what_is_not_known_is_said():
    def last(**given):
        return provisional(**given).summary()[-1]

    assert "one of price, promo alone" in last(broken=("price", "promo"))
    assert "The rows do not tell which" in last(broken=("price", "promo"))
    assert "no column was found that explains this alone" in last(broken=())
    assert last(no_broken_because="no rows") == "Whether the values of a column are broken is not known: no rows."
    quiet = {"expected_p_adjusted": np.array([0.5, 0.6, 0.9, np.nan])}
    assert last(statistics=quiet, broken=()).endswith("by its features did not change beyond chance.")
    unknown = {"expected_p_adjusted": np.full(4, np.nan)}
    assert last(statistics=unknown, broken=()).endswith("was not tested: there are too few periods.")
    untested = {"shift": np.full(4, np.nan), "shifted": np.zeros(4, dtype=bool)}
    assert "no shift was tested" in provisional(statistics=untested).summary()[4]
    none = provisional(statistics={"shifted": np.zeros(4, dtype=bool)}).summary()[4]
    assert none == (
        "Provisional: no shift of the rows was detected at the splits (effect size 0.1 or more). Too few rows to tell "
        "at the splits on day."
    )


def test_the_mean_prediction_is_told_if_it_is_known():
    def said(mean, **given):
        summary = provisional(prediction=mean, **given).summary()
        return [text for text in summary if "prediction is" in text or "the mean" in text]

    mean = provisional().prediction
    assert said(None) == []
    quiet = "Provisional: no change of the mean prediction was detected (+0.05)."
    assert said(replace(mean, changed=False)) == [quiet]
    unknown, of_few = replace(mean, changed=False, p_value=np.nan), WindowOfPeriods("2026-01-01", "2026-01-07", 7, 700)
    not_tested = "Provisional: the mean prediction is +0.05 from that before, which was not tested: "
    (few_rows,), (few_periods,) = said(unknown), said(unknown, reference=of_few)
    assert few_rows.startswith(f"{not_tested}predictions for rows of these periods differ among themselves by more")
    assert few_periods == f"{not_tested}7 periods to compare with do not show how much means vary."
    one = provisional(waiting=WindowOfPeriods("2026-02-01", "2026-02-01", 1, 100)).summary()[1]
    assert "1 period without responses (2026-02-01), 100 rows" in one


def test_the_table_is_sorted_by_shift():
    frame = provisional().to_frame()
    assert list(frame.index) == ["price", "promo", "<b>id\u202e", "day"]
    assert frame["may_be_broken"].tolist() == [True, False, False, False]
    assert not [name for name in frame.columns if name.startswith("left")]


def changes(**given):
    return replace(made_changes(NAMES), provisional=provisional(**given))


def test_json_is_read_back():
    unknown = replace(provisional().prediction, p_value=np.nan)
    for each in (changes(), changes(broken=(), no_broken_because="no rows"), changes(prediction=unknown)):
        again = Changes.from_json(each.to_json())
        assert again.to_json() == each.to_json()
        assert again.summary() == each.summary()
    assert Changes.from_json(changes(prediction=None).to_json()).provisional.prediction is None
    older = {name: value for name, value in changes().to_dict().items() if name != "provisional"}
    assert Changes.from_json(json.dumps(older)).provisional is None


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda plain: plain["statistics"].pop("shift"), "provisional.statistics does not have 4 numbers"),
        (lambda plain: plain["statistics"]["shift"].append(1.0), "provisional.statistics does not have 4 numbers"),
        (lambda plain: plain.update(broken=["other"]), "provisional names other features"),
        (lambda plain: plain.update(shift_split=[]), "provisional names other features"),
        (lambda plain: plain.update(more=1), "more"),
    ],
)
def test_broken_json_is_refused(broken, message):
    plain = json.loads(changes().to_json())
    broken(plain["provisional"])
    with pytest.raises(DebiasError, match=message):
        Changes.from_json(json.dumps(plain))


def test_the_page_has_the_table_and_no_markup_of_names():
    page = changes().to_html()
    assert "Before the responses" in page
    assert "may be broken" in page
    assert "<b>id" not in page
    assert "Before the responses" not in replace(changes(), provisional=None).to_html()
