"""Features to drop: statuses, sentences recomputed from the table, JSON, picture, page and gate."""

import json
import re
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from debias import DebiasError, Droppable
from debias.early_stopping import PERHAPS_STOPPED_EARLY, STOPPED_EARLY
from debias.errors import PolicyError
from debias.p_values import passed_on
from debias.results import vocabulary
from debias.results.drop_sentences import warnings_of_leaks
from debias.results.performance import Performance, three_digits
from debias.text import listed, rounded_up
from results.test_short_text import fits
from support.drawn_audits import drawn

mpl.use("agg")
METRICS = {
    "R2": (0.6, 0.0),
    "log loss": (0.21, 0.64),
    "Poisson deviance": (1.3, 1.9),
    "negative log likelihood": (-0.4, 0.2),
    "concordance": (0.71, 0.5),
    "NDCG": (0.83, 0.62),
}
REFERENCE = {"concordance": "a constant", "NDCG": "a random order"}


def made(lost, reach, *, n_features=6, path="frozen", sizes=None, **changed):
    """Return a result of some estimates and half widths of intervals."""
    lost, reach = np.asarray(lost, dtype=float), np.asarray(reach, dtype=float)
    sizes = np.arange(1, lost.size + 1) if sizes is None else np.asarray(sizes)
    names = tuple(f"f{k}" for k in range(n_features))
    value, constant = METRICS[changed.pop("metric", "R2")]
    metric = next(name for name, values in METRICS.items() if values == (value, constant))
    settings = {"model": "Forest", "library_version": "1", "n_trees": 3, "debias_version": "0", "seed": 0}
    fields = {
        "feature_names": names,
        "members": tuple((name,) for name in names),
        "order": names[::-1][: sizes[-1]],
        "sizes": sizes,
        "lost": lost,
        "low": lost - reach,
        "high": lost + reach,
        "p_value": ndtr((lost - 0.05) / reach * ndtri(0.95)),
        "needed": np.full(lost.size, 1234.5),
        "tolerance": 0.05,
        "alpha": 0.05,
        "performance": Performance(metric=metric, value=value, constant=constant, skill=0.5, n_rows=300, p_value=0.0),
        "n_rows": 300,
        "n_independent": 300,
        "blocks": False,
        "n_train": 500,
        "path": path,
        "folds": 3,
        "at_a_time": 1,
        "n_fits": 10,
        "provenance": {"status": "proven held-out", "detail": "none of them is a training row"},
        "settings": settings,
    }
    return Droppable(**(fields | changed))


def random_result(seed):
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(2, 40))
    n_sets = int(rng.integers(1, min(7, n_features)))
    sizes = np.sort(rng.choice(np.arange(1, n_features), n_sets, replace=False))
    lost = np.sort(rng.normal(0.04, 0.1, n_sets)) if rng.random() < 0.7 else rng.normal(0.05, 0.08, n_sets)
    reach = rng.exponential(0.04, n_sets) + 1e-3
    result = made(
        lost,
        reach,
        n_features=n_features,
        sizes=sizes,
        path=str(rng.choice(["frozen", "refitted"])) if n_sets > 1 else "given",
        metric=str(rng.choice(list(METRICS))),
        needed=rng.exponential(20_000, n_sets),
        blocks=bool(rng.random() < 0.3),
        at_a_time=-(-n_features // 30),
    )
    tolerance, alpha = float(rng.choice([0.01, 0.05, 0.2])), float(rng.choice([0.05, 0.1]))
    p_value = ndtr((lost - tolerance) / reach * ndtri(1 - alpha))  # the bounds are where it is alpha
    result = replace(result, tolerance=tolerance, alpha=alpha, p_value=p_value)
    if rng.random() < 0.2:
        without = {"low": np.full(n_sets, -np.inf), "high": np.full(n_sets, np.inf), "p_value": np.ones(n_sets)}
        result = replace(result, **without)
    return result


def statuses(result):
    """The rules of :attr:`Droppable.status`, set by set."""
    found = ["undecided"] * result.sizes.size
    for k in np.flatnonzero(passed_on(result.p_value, result.alpha)):
        found[k] = "certified"
    for k in reversed(range(result.sizes.size)):
        if not result.low[k] > result.tolerance:
            break
        found[k] = "do not drop together"
    return found


@pytest.mark.quick
@pytest.mark.parametrize(
    ("lost", "reach", "expected", "size"),
    [
        ([0.0, 0.01, 0.2], [0.01, 0.01, 0.1], ["certified", "certified", "do not drop together"], 2),
        ([0.0, 0.06, 0.01, 0.2], [0.01] * 4, ["certified", "undecided", "certified", "do not drop together"], 3),
        ([0.04, 0.0], [0.02, 0.01], ["undecided", "certified"], 2),
        (
            [0.038, 0.03],
            [0.01, 0.01],
            ["certified", "certified"],
            2,
        ),  # p = .024 and .0005: the first gets what it lacks
        ([0.038, 0.06], [0.01, 0.01], ["certified", "undecided"], 1),
        ([0.039, 0.06], [0.01, 0.01], ["undecided", "undecided"], 0),  # p = .035 is above alpha / 2
        ([0.2, 0.1, 0.3], [0.01, 0.06, 0.01], ["undecided", "undecided", "do not drop together"], 0),
        ([0.2, 0.3], [0.01, 0.01], ["do not drop together"] * 2, 0),
        ([0.05 - 0.01], [0.01], ["undecided"], 0),  # a bound at the tolerance is not below it
    ],
)
def test_sets_share_alpha_and_pass_it_on(lost, reach, expected, size):
    result = made(lost, reach)
    assert [status.value for status in result.status] == expected
    assert result.size == size
    assert result.features == result.columns == list(result.order[:size])


@pytest.mark.thorough
def test_statuses_are_those_of_the_rule():
    found = set()
    for seed in range(300):
        result = random_result(seed)
        assert [status.value for status in result.status] == statuses(result)
        certified = [size for size, word in zip(result.sizes, statuses(result), strict=True) if word == "certified"]
        assert result.size == max(certified, default=0)
        assert {name for name, word in result.decisions.items() if word == "drop"} == set(result.features)
        found |= set(statuses(result))
        assert result.to_frame()["status"].tolist() == statuses(result)
    assert len(found) == 3


def test_the_metric_is_a_linear_function_of_the_loss():
    """R2 .6 means a loss of .4 of that of the constant: a refit that loses a tenth of the gain has R2 .54."""
    assert made([0.1], [0.01]).to_frame()["R2"].tolist() == pytest.approx([0.54])
    assert made([1.0], [0.01], metric="log loss").to_frame()["log loss"].tolist() == pytest.approx([0.64])
    assert made([0.0], [0.01], metric="log loss").to_frame()["log loss"].tolist() == pytest.approx([0.21])


def test_columns_are_those_of_the_groups():
    names = ("a", "both")
    result = made([0.0], [0.01], feature_names=names, members=(("a",), ("x", "y")), order=("both",))
    assert result.features == ["both"]
    assert result.columns == ["x", "y"]


def bounds(result, k):
    low, high = (f"{value:z.1%}" if np.isfinite(value) else "not bounded" for value in (result.low[k], result.high[k]))
    level = f"{100 * (1 - result.alpha):g}%"
    return f"(estimate {result.lost[k]:z.1%}, lower bound {low}, upper bound {high}, each with {level} confidence)"


def expected_sentences(result):
    """Return the sentences that follow from the table, written once more."""
    frame, found = result.to_frame(), statuses(result)
    sizes, allowed = frame.index.tolist(), f"{100 * result.tolerance:g}% of the gain"
    certified = [k for k, status in enumerate(found) if status == "certified"]
    harmful = [k for k, status in enumerate(found) if status == "do not drop together"]
    undecided = [k for k, status in enumerate(found) if status == "undecided" and k > max(certified, default=-1)]
    n, sentences = len(result.feature_names), []

    def names(k):
        return list(result.order[: sizes[k]])

    def together(k):
        return " together" if sizes[k] > 1 else ""

    def it(k):
        return "them" if sizes[k] > 1 else "it"

    over = f"{allowed} of this model over a constant"
    if certified:
        k = certified[-1]
        sentences.append(
            f"{sizes[k]} of {n} features may be dropped{together(k)}: {listed(names(k))}. The model that was trained "
            f"again without {it(k)} loses at most {over} {bounds(result, k)}. It keeps "
            f"{listed([name for name in result.feature_names if name not in names(k)])}."
        )
    elif found[0] == "do not drop together":
        sentences.append(
            f"Do not drop {listed(names(0))}{together(0)}. The model that was trained again without {it(0)} loses more "
            f"than {over} {bounds(result, 0)}."
        )
    else:
        which = "set that was asked for" if result.path == "given" else "smallest set that was dropped"
        sentences.append(
            f"It is not shown that any features may be dropped. The {which} is {listed(names(0))}. Whether the model "
            f"without {it(0)} loses less than {100 * result.tolerance:g}% of the gain of this model over a constant is "
            f"not known {bounds(result, 0)}."
        )
    metric, value, constant = result.performance.metric, result.performance.value, result.performance.constant
    parts = [f"{three_digits(value)} with all {n} features"]
    if certified:
        kept = n - sizes[certified[-1]]
        parts.append(f"{three_digits(frame[metric].iloc[certified[-1]])} with the {kept} kept")
    sentences.append(
        f"The {metric} on these rows is {', '.join(parts)}, and {three_digits(constant)} for "
        f"{REFERENCE.get(metric, 'the best constant')}."
    )
    if metric == "NDCG" and not result.blocks:
        sentences.append("The tests are by query, and of the held-out queries 300 have rows to rank.")
    if undecided:

        def sets(which):
            each = [f"{sizes[k]:,}" for k in which]
            noun = "feature" if each == ["1"] else "features"
            return f"the {'sets' if len(each) > 1 else 'set'} of {listed(each)} {noun}"

        what = "the set that was asked for" if result.path == "given" else sets(undecided)
        keep = "the features that no certified set has" if certified else "these features"
        text = f"Undecided: {what}. Keep {keep}, or pass more held-out rows."
        above = [k for k in undecided if result.low[k] > result.tolerance]
        unknown = [k for k in undecided if k not in above]
        unknown.sort(
            key=lambda k: (result.lost[k] >= result.tolerance, result.needed[k] * (result.lost[k] < result.tolerance))
        )
        for k in unknown[:1]:
            if result.needed[k] > 100 * result.n_independent:
                text += (
                    f" The estimate for {sets([k])} is so near to the tolerance that 100 times as many rows would "
                    "probably not decide."
                )
            else:
                units = "held-out queries" if metric == "NDCG" else "held-out rows"
                units = "blocks of held-out rows" if result.blocks else units
                side = "at most" if result.lost[k] < result.tolerance else "more than"
                assert frame["rows_needed"].iloc[k] == np.ceil(result.needed[k])
                text += (
                    f" If the estimate for {sets([k])} is right, about {rounded_up(result.needed[k]):,} {units} in all "
                    f"are needed to show that its refit loses {side} {allowed}."
                )
        if below := [k for k in undecided if result.high[k] < result.tolerance]:
            text += (
                f" The upper bound of {sets(below)} is below the tolerance. That would do for the only set, but "
                f"{len(sizes)} sets were tried. To certify one, try it as the only set on other held-out rows."
            )
        if above:
            text += (
                f" The lower bound of {sets(above)} is above the tolerance, but the tests ended before: they begin "
                "with the largest set and end at the first that they do not decide."
            )
        sentences.append(text)
    if harmful and harmful[0] > 0:
        k = harmful[0]
        more = ", and the same holds for the larger sets" if len(harmful) > 1 else ""
        what = listed(names(k)) if sizes[k] <= 12 else f"the first {sizes[k]} features of the order"
        sentences.append(
            f"Do not drop {what} together: that loses more than {allowed} {bounds(result, k)}{more}. This does not say "
            "what some of them alone cost."
        )
    return sentences


@pytest.mark.thorough
def test_every_sentence_follows_from_the_table():
    kinds = set()
    for seed in range(400):
        result = random_result(seed)
        text = " ".join(result.summary())
        expected = expected_sentences(result)
        assert text.startswith(" ".join(expected)), seed
        rest = text.removeprefix(" ".join(expected))
        kinds |= {re.sub(r"[^a-z ]", "", sentence[:40].lower()) for sentence in expected}
        assert ("were dropped at a time" in rest) == (result.at_a_time > 1)
        assert (f"{result.n_fits} models were trained" in rest) == (result.path != "given")
        assert rest.endswith("if these rows were not used before to choose features or settings.")
    for beginning in ("it is not shown that any", "undecided the sets of", "undecided the set of"):
        assert any(kind.startswith(beginning) for kind in kinds), beginning


def test_a_sentence_never_says_that_a_set_is_certified_which_is_not():
    for seed in range(300):
        result = random_result(seed)
        text = " ".join(result.summary())
        assert ("may be dropped" in text.replace("any features may be dropped", "")) == (
            "certified" in statuses(result)
        )
        assert "safe" not in text


@pytest.mark.thorough
def test_json_is_read_without_loss():
    for seed in range(100):
        result = random_result(seed)
        again = Droppable.from_json(result.to_json())
        assert again.to_json() == result.to_json()
        assert again.summary() == result.summary()
        assert again.model is None
        for name in ("low", "high", "p_value", "needed"):
            np.testing.assert_array_equal(getattr(again, name), getattr(result, name))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"kind": "audit"}, "its kind is not 'droppable'"),
        ({"schema_version": 2}, "schema version 2"),
        ({"order": ["f5", "f5"]}, "order has features"),
        ({"sizes": [2, 1]}, "sizes are not ascending"),
        ({"sizes": [1, 3]}, "up to the length of order"),
        ({"lost": [0.1]}, "do not have a number for each"),
        ({"lost": [9.0, 0.1]}, "lost is not between low and high"),
        ({"p_value": [0.0, 1.5]}, "p_value is not between 0 and 1"),
        ({"p_value": [0.0, None]}, "p_value is not between 0 and 1"),
        ({"p_value": [1.0, 1.0]}, "do not follow from p_value"),
        ({"tolerance": 0.0}, "tolerance and alpha"),
        ({"columns": ["f1"]}, "status and columns do not follow"),
        ({"status": ["undecided", "undecided"]}, "status and columns do not follow"),
        ({"members": [["f0"]]}, "feature_names are not names"),
        ({"unknown": 1}, "unknown is not a field"),
    ],
)
def test_json_that_contradicts_itself_is_refused(change, match):
    plain = json.loads(made([0.0, 0.1], [0.01, 0.2]).to_json())
    with pytest.raises(DebiasError, match=match):
        Droppable.from_json(json.dumps(plain | change))


def test_in_a_prompt_it_is_its_first_sentences_and_the_table():
    for seed in range(60):
        result = random_result(seed)
        text = repr(result)
        assert max(map(len, text.split("\n"))) <= 80
        assert result.summary()[0].split(":")[0] in " ".join(text.split())
        rows = text.split("\n")[-result.sizes.size :]
        assert [row.split("  ")[0] for row in rows] == [f"{size:,}" for size in result.sizes]
        assert all(row.endswith(status) for row, status in zip(rows, statuses(result), strict=True))
    fits(repr(made([0.0, 0.1], [0.01, 0.2])))


def test_the_picture_has_a_point_for_each_set_and_its_bounds():
    result = made([0.0, 0.06, 0.3], [0.01, 0.05, 0.1])
    axes = result.plot()
    points = np.concatenate([line.get_xydata() for line in axes.lines if line.get_marker() not in ("None", "D")])
    np.testing.assert_allclose(points[np.argsort(-points[:, 0])], np.column_stack([[5, 4, 3], 0.6 * (1 - result.lost)]))
    ends = np.concatenate([segment for part in axes.collections for segment in part.get_segments()])
    expected = np.sort(0.6 * (1 - np.concatenate([result.low, result.high])))
    np.testing.assert_allclose(np.sort(ends[:, 1]), expected)
    assert axes.get_ylabel() == "R2 (higher is better)"
    assert made([0.0], [0.01], metric="log loss").plot().get_ylabel() == "log loss (lower is better)"
    mpl.pyplot.close("all")


def test_the_page_has_every_sentence_and_escapes_names():
    result = made([0.0, 0.1], [0.01, 0.2], feature_names=("<b>", "f1", "f2", "f3", "f4", "f5"))
    result = replace(result, members=tuple((name,) for name in result.feature_names), order=("<b>", "f1"))
    page = result.to_html()
    plain = re.sub(r"\s+", " ", page)
    for sentence in result.summary():
        assert sentence.replace("<", "&lt;").replace(">", "&gt;") in plain
    assert "<b>" not in page
    assert page.count("<script") == 1  # that of tables
    assert "&lt;b&gt;" in result._repr_html_()


def test_the_gate_passes_for_a_certified_set_only():
    result = made([0.0, 0.03, 0.3], [0.01, 0.05, 0.1])
    outcomes = {
        ("f5",): "passed",
        ("f4", "f5"): "not judged",  # undecided
        ("f3", "f4", "f5"): "failed",
        ("f4",): "not judged",  # a part of a set, or another one, was not tried
        ("f9",): "failed",
    }
    for names, status in outcomes.items():
        assert result.check({"may_drop": list(names)}).status == status, names
    reasons = {names: result.check({"may_drop": list(names)}).results[0].reason for names in outcomes}
    assert reasons[("f4",)] == "no model was refitted without exactly f4: name them as columns= to try that set"
    assert reasons[("f3", "f4", "f5")].startswith("the refit without f3, f4, f5 loses 30.0% of the gain")
    optional = [{"name": "gone", "optional": True}, "f5"]
    assert result.check({"may_drop": optional}).passed
    assert result.check({"may_drop": optional[:1]}).passed
    gate = result.check({"may_drop": ["f5"], "min_rows": 10})
    assert gate.warnings == ("not checked here, because they are rules for an audit: min_rows",)
    with pytest.raises(PolicyError, match="no rule may_drop"):
        result.check({"min_rows": 10})


def test_an_audit_does_not_judge_what_may_be_dropped():
    gate = drawn(0).check({"may_drop": ["a"]})
    (rule,) = [each for each in gate.results if each.rule == "may_drop"]
    assert (rule.status, rule.value) == ("not judged", "untested")
    assert not gate.passed


def test_other_words_for_a_status_are_shown_everywhere(monkeypatch):
    result = made([0.0, 0.06, 0.3], [0.01, 0.05, 0.1])
    table = {word: replace(display, text=f"W{k}", phrase=f"W{k}") for k, (word, display) in enumerate(TABLE.items())}
    monkeypatch.setitem(vocabulary.DISPLAYS, vocabulary.DropStatus, table)
    page = re.sub(r"<[^>]+>", " ", result.to_html())
    for shown in (repr(result), page):
        assert {"W0", "W1", "W2"} <= set(re.findall(r"W\d", shown))
    assert "W1: the set of 2 features." in " ".join(result.summary())
    assert result.to_frame()["status"].tolist() == ["certified", "undecided", "do not drop together"]


TABLE = vocabulary.DISPLAYS[vocabulary.DropStatus]


def test_each_feature_has_the_decision_of_the_first_set_that_has_it():
    result = made([-0.1, 0.0, 0.3], [0.02, 0.2, 0.1], sizes=[1, 3, 4])  # drops f5, then f4 and f3, then f2
    drop, keep, left = (vocabulary.DropDecision(word) for word in ("drop", "keep", "not settled"))
    assert result.decisions == {"f0": keep, "f1": keep, "f2": keep, "f3": left, "f4": left, "f5": drop}
    without_harm = made([-0.1, 0.0], [0.02, 0.2], sizes=[1, 3]).decisions
    assert [without_harm[name].value for name in ("f0", "f3", "f5")] == ["not tried", "not settled", "drop"]
    given = made([0.3], [0.1], sizes=[2], path="given", at_a_time=2, n_fits=1).decisions
    assert [given[name].value for name in ("f0", "f3", "f4", "f5")] == ["not tried", "not tried", "keep", "keep"]
    page = result.to_html()
    assert "Feature by feature" in page
    plain = json.loads(result.to_json())
    assert plain["decisions"]["f5"] == "drop"
    plain["decisions"]["f5"] = "keep"
    with pytest.raises(DebiasError, match="decisions do not follow"):
        Droppable.from_json(json.dumps(plain))


@pytest.mark.parametrize("seed", range(20))
def test_features_to_drop_are_those_with_the_decision_drop(seed):
    result = random_result(seed)
    decisions = result.decisions
    assert list(decisions) == list(result.feature_names)
    assert {name for name, decision in decisions.items() if decision is vocabulary.DropDecision.DROP} == set(
        result.features
    )


@pytest.mark.parametrize("note", [STOPPED_EARLY, PERHAPS_STOPPED_EARLY])
def test_rows_that_may_have_chosen_the_number_of_trees_are_a_sentence_not_only_a_warning(note):
    found = made([-0.01, 0.2], [0.01, 0.01], warnings=(note, "another warning"))
    lines = [line for line in found.summary() if "early stopping" in line]
    assert len(lines) == 1
    assert lines[0].startswith(note.split(" by the loss")[0].capitalize())
    assert "nothing here is certified: pass others." in lines[0]
    assert lines[0] in found.to_html()
    assert not any("early stopping" in line for line in made([-0.01], [0.01], warnings=("another",)).summary())


def test_features_that_may_be_leaks_are_told_once_and_first_of_what_to_do():
    told = warnings_of_leaks({"visits": 0.999, "date": 0.96})
    assert warnings_of_leaks({}) == []
    assert told[0].startswith("Some features each explain at least 95%")
    assert told[0].endswith("If so, take them out and train the model again, before you drop others.")
    found = made([-0.01, 0.2], [0.01, 0.01], warnings=(*told, "another warning"))
    assert [line for line in found.summary() if "leak" in line] == told
    page = re.sub(r"\s+", " ", found.to_html())
    assert page.count(told[0]) == 1
    assert page.count("another warning") == 1


@pytest.mark.parametrize("unit", ["rows", "blocks"])
def test_rows_that_are_alike_are_a_sentence_not_only_a_warning(unit):
    text = f"consecutive {unit} are alike: they have similar responses and similar values of x"
    found = made([-0.01, 0.2], [0.01, 0.01], warnings=("another warning", text))
    (told,) = [line for line in found.summary() if "alike" in line]
    assert told.startswith(f"The tests take {unit} as independent, but a warning says that some are alike")
    assert "nothing here is certified: pass blocks." in told
    assert not any("alike" in line for line in made([-0.01], [0.01], warnings=("another",)).summary())


def test_rows_that_repeat_others_are_a_sentence_too():
    text = "86% of the rows repeat the values of another row in columns 'a', 'c', which are otherwise nearly unique. If"
    (told,) = [line for line in made([-0.01], [0.01], warnings=(text,)).summary() if "alike" in line]
    assert told.startswith("The tests take rows as independent, but a warning says that some are alike")


def test_names_in_sentences_cannot_change_the_lines_around_them():
    names = ("\x1b[31mred", "two\nlines", "f2", "f3", "f4", "f5")
    for lost in ([-0.01], [0.3], [0.05]):
        changed = {"feature_names": names, "members": tuple((name,) for name in names), "order": names[:1]}
        sentences = replace(made(lost, [0.01]), **changed).summary()
        assert "\\x1b[31mred" in " ".join(sentences)
        assert all(line.isprintable() for line in sentences)
    together = replace(made([0.0, 0.3], [0.01, 0.01]), **(changed | {"order": names[:2]})).summary()
    assert any("two\\nlines together" in line for line in together)
    assert all(line.isprintable() for line in together)
