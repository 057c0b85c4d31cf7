"""The rest in a gate, both verdicts in words, and what is said where an interval and a mark differ."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from debias.errors import PolicyError
from debias.results.performance import Performance, Recalibration
from debias.results.report import html
from debias.results.report.figures import interval_differs
from debias.results.rest import REST
from debias.results.vocabulary import Dependence, Finding, Verdict
from support.audits import made

NAMES = ["a", "b", "c", "d"]
BAD = Performance(metric="R2", value=-0.1, constant=0.0, skill=-0.1, n_rows=500, p_value=0.9)


def with_rest(told, informative=(True, False, False, False), untested=None):
    audit = made(NAMES, informative=informative)
    details = audit.tested_scores.details | ({} if told is None else {REST: told})
    scores = replace(audit.tested_scores, details=details)
    if untested is not None:
        scores = replace(
            scores,
            values=np.where(np.array(NAMES) == untested, 0.0, scores.values),
            details=details | {"untested_features": {untested: "it has only one value on these rows"}},
        )
    return replace(audit, scores={"mdi_oob": scores})


@pytest.mark.parametrize(
    ("p_value", "status"),
    [(0.05, "failed"), (float(np.nextafter(0.05, 1)), "passed"), (0.004, "failed"), (1.0, "passed")],
)
def test_a_gate_fails_if_the_rest_carries_information(p_value, status):
    audit = with_rest({"p_value": p_value})
    assert audit.rest.informative == (status == "failed")
    (result,) = audit.check({"rest_must_not_matter": True}).results
    assert (result.status, result.limit) == (status, "p > 0.05")
    assert result.reason.startswith("3 features are not confirmed alone, and were tested as one group: ")
    assert all(repr(name) in result.reason for name in audit.rest.features)


@pytest.mark.parametrize(
    ("audit", "rules", "reason"),
    [
        (
            with_rest({"untested_because": "the rows came in batches"}),
            {},
            "not tested together: the rows came in batches",
        ),
        (with_rest(None), {}, "not tested together: this audit was made without such a test"),
        (with_rest({"p_value": 0.4}), {"min_rows": 501}, "with fewer than 501 rows the test may miss a group"),
        (replace(with_rest({"p_value": 0.4}), performance=BAD), {}, "predicts these rows no better than a constant"),
        (with_rest({"p_value": 0.4}, untested="d"), {}, "not tested: d (it has only one value on these rows)"),
    ],
)
def test_a_gate_does_not_judge_a_rest_that_could_have_been_missed(audit, rules, reason):
    results = {each.rule: each for each in audit.check({"rest_must_not_matter": True, **rules}).results}
    assert results["rest_must_not_matter"].status == "not judged"
    assert reason in results["rest_must_not_matter"].reason


def test_a_gate_passes_if_there_is_no_such_group_and_fails_without_a_test():
    (result,) = with_rest(None, informative=[True, True, True, False]).check({"rest_must_not_matter": True}).results
    assert result.status == "passed"
    assert "fewer than two features are not confirmed alone" in result.reason
    (result,) = made(NAMES, tested=False).check({"rest_must_not_matter": True}).results
    assert result.status == "failed"


@pytest.mark.parametrize("wrong", [False, 1, "yes", 0.05])
def test_a_policy_says_that_the_rest_must_not_matter_or_nothing(wrong):
    with pytest.raises(PolicyError, match="rest_must_not_matter must be true, or left out"):
        made(NAMES).check({"rest_must_not_matter": wrong})


@pytest.mark.quick
def test_a_finding_tells_both_verdicts():
    audit = with_rest(None, informative=[True, True, False, False], untested=None)
    assert audit.finding == [Finding.CONFIRMED] * 2 + [Finding.UNCONFIRMED] * 2  # dependence was not tested
    found = np.array([True, False, True, False])
    dependent = replace(audit.tested_scores, scorer="honest_effects", selected=found)
    both = replace(audit, scores={**audit.scores, "honest_effects": dependent})
    assert both.finding == [Finding.CONFIRMED, Finding.CONFIRMED, Finding.RELATED, Finding.UNCONFIRMED]
    told = dict(zip(both.tested_scores.feature_names, both.finding, strict=True))
    assert both.to_frame()["finding"].to_dict() == told
    reason = {"untested_because": "the rows are too few"}
    untested = replace(dependent, selected=None, details=reason)
    neither = replace(audit, scores={**audit.scores, "honest_effects": untested})
    assert set(neither.dependence) == {Dependence.UNTESTED}
    assert neither.finding == audit.finding  # what was not tested is not "no evidence"
    assert set(made(NAMES, tested=False).finding) == {Finding.UNTESTED}
    assert with_rest(None, untested="d").finding[3] is Finding.UNTESTED


def test_a_legend_says_why_an_interval_and_a_mark_differ():
    audit = made(NAMES, informative=[True, False, False, False])
    values = np.array(
        [1.0, 0.5, 0.1, -0.2]
    )  # the standard errors are .1, so that of b excludes 0 and that of c does not
    differs = replace(audit, scores={"mdi_oob": replace(audit.tested_scores, values=values)})
    assert interval_differs(differs).tolist() == [False, True, False, False]
    assert "Interval and mark differ for b: " in html._about_shares(differs)
    agrees = replace(audit, scores={"mdi_oob": replace(audit.tested_scores, values=values - [0, 0.4, 0, 0])})
    assert not interval_differs(agrees).any()
    assert "differ" not in html._about_shares(agrees)
    for each, shown in ((differs, True), (agrees, False)):
        axes = each.plot(ax=plt.figure().subplots())
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert any("95% interval of one feature" in label for label in labels) == shown
        plt.close(axes.figure)
    assert not interval_differs(made(NAMES, tested=False)).any()


def test_a_loss_of_informative_features_is_explained():
    audit = made(NAMES, informative=[True, True, False, False])
    loss = replace(audit.tested_scores, scorer="oob_loss", values=np.array([-0.1, 0.2, -0.5, 0.1]))
    told = [line for line in replace(audit, scores={**audit.scores, "oob_loss": loss}).summary() if "oob_loss" in line]
    assert told == [
        "a has an oob_loss below 0 and is informative: the splits on it point the right way on these rows, but go too "
        "far, and so they raise the loss of the trees. Larger leaves or stronger regularisation may help. This is no "
        "reason to drop it."
    ]
    recalibration = Recalibration(
        label="yes",
        predicted=0.3,
        observed=0.1,
        shifted=0.2,
        shifted_p_value=0.001,
        power=1.0,
        raised=0.3,
        raised_p_value=0.9,
        power_of_both=1.0,
        both=0.2,
        both_p_value=0.001,
    )
    weighted = replace(BAD, metric="log loss", auc=0.8, correlation=None, recalibration=recalibration)
    of_weights = replace(audit, performance=weighted, scores={**audit.scores, "oob_loss": loss}).summary()
    assert "Class weights, resampling before training" in of_weights[1]
    (told,) = [line for line in of_weights if "oob_loss" in line]
    assert "Probabilities that do not fit these rows have this effect." in told
    assert "Larger leaves" not in told
    gains = replace(loss, values=np.abs(loss.values))
    assert "oob_loss" not in " ".join(replace(audit, scores={**audit.scores, "oob_loss": gains}).summary())


def test_the_other_features_are_others_than_informative_ones():
    told = [with_rest({"p_value": 0.4}, found, "d").summary() for found in ([True, False, False, False], [False] * 4)]
    assert told[0][1].startswith(
        "Even together the other 2 tested features are not confirmed in this model (p = 0.400)"
    )
    assert told[1][:1] == ["3 of 4 features are not confirmed alone."]
    assert told[1][1].startswith("Even together the 3 tested features are not confirmed in this model (p = 0.400)")


def test_the_group_that_was_not_confirmed_is_never_called_noise():
    """The words of a verdict invite nobody to delete: no summary, and no word of the table, says "noise"."""
    words = " ".join(word.text + word.phrase for kind in (Verdict, Finding) for word in kind)
    assert "noise" not in words
    assert "noise" not in " ".join(with_rest({"p_value": 0.4}).summary())
