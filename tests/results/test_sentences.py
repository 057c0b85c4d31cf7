"""Every sentence about an audit, read back and computed again from its table.

A sentence is a pattern with a check. A sentence that fits no pattern fails the tests, as does a pattern no sentence
ever fits, and a check that lets a changed number pass. Patterns and checks stand together, so that none is forgotten.
"""

import io
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy.stats import spearmanr, t

import debias
from debias.results.answers import answers
from debias.results.comparison import Comparison
from debias.results.console import print_audit, print_scores
from debias.results.report import html
from debias.results.report.figures import drawn_features
from debias_bench import demo
from support.audits import made
from support.drawn_audits import drawn

AUDITS = range(200)
PERCENT = r"(?:(?:(?:less|more) than )?[\d.]+%)"
WORDS = {"oob": "out-of-bag", "held-out": "held-out", "train": "training"}


def shows(text, share, decimals=1):
    """Whether a percentage in a sentence is that of a share: 0% and 100% are exact, others round."""
    step = 10.0**-decimals / 100
    if text in ("0%", "100%"):
        return share == 0 if text == "0%" else abs(share - 1) < 1e-8
    if text.startswith("less than"):
        return text == f"less than {100 * step:g}%" and 0 < share < step
    if text.startswith("more than"):
        return text == f"more than {100 - 100 * step:g}%" and 1 - step < share < 1
    exact = re.fullmatch(rf"(\d+\.\d{{{decimals}}}|\d+)%", text)
    return bool(exact) and abs(float(text[:-1]) / 100 - share) <= step / 2 + 1e-12 and step <= share <= 1 - step + 1e-12


def whole(text):
    """Return the number of a sentence, with a comma at the thousands."""
    number = int(text.replace(",", ""))
    assert text == f"{number:,}"
    return number


def unproven(scores):
    return scores.rows == "held-out" and scores.provenance["status"] in ("cannot be told", "stated by the user")


def rows_of(scores):
    return "assumed held-out" if unproven(scores) else WORDS[scores.rows]


class Facts:
    """What the sentences are held against: computed from the table and the scores, not by what makes sentences."""

    def __init__(self, audit):
        self.audit, self.table, self.tested_scores = audit, audit.to_frame(), audit.tested_scores
        positive = self.table["mdi_oob"].clip(lower=0)
        self.share = positive / (positive.sum() or 1)
        assert np.allclose(self.share, self.table["share"])
        assert ("unproven_because" in audit.to_csv().partition("\n")[0]) == unproven(self.tested_scores)
        self.reported = self.table.get("reported", None)
        self.verdict = self.table["verdict"]
        self.informative = list(self.table.index[self.verdict == "informative"])
        self.noise = self.table.index[self.verdict == "indistinguishable"]
        self.n = len(self.table)
        self.test = self.tested_scores.details.get("test", {})
        self.rest = self.tested_scores.details.get("rest", {})
        self.unseen = self.table.get("reported_unseen", None)
        if self.reported is not None and self.unseen is not None:
            self.excess = self.reported - self.unseen
            self.twice = (self.reported >= 2 * self.unseen) & (self.reported > 0)
            error = audit.reported_unseen_error
            self.error = None if error is None else pd.Series(error, self.tested_scores.feature_names)[self.table.index]
            self.beyond = True
            if error is not None:  # Benjamini and Hochberg, over the features that were tested
                p = pd.Series(audit.inflation_p, self.tested_scores.feature_names)[self.table.index]
                p = p[self.unseen.notna()].sort_values()
                passed = np.flatnonzero(p <= 0.05 * np.arange(1, p.size + 1) / p.size)
                self.beyond = self.table.index.isin(p.index[: 1 + passed[-1]] if passed.size else [])
            self.inflated = self.table.index[self.twice & (self.excess > 0.01) & self.beyond]
            self.slight = self.table.index[self.twice & (self.excess <= 0.01)]

    @property
    def nothing_reported(self):
        return self.reported is None or self.reported.sum() == 0


def scored_on(facts, n, words, noun, detail):
    assert whole(n) == facts.tested_scores.n_rows
    assert words == rows_of(facts.tested_scores)
    assert noun == ("row" if n == "1" else "rows")
    assert detail == facts.tested_scores.provenance["detail"]


def found(facts, some, of, verb, every, all_of, none, none_of, rows, n_rows, condition, they, part, procedure, alike):
    assert whole(n_rows or "1") == facts.tested_scores.n_rows
    assert (rows == "this 1 row") == (facts.tested_scores.n_rows == 1)
    assert condition == with_independence(facts, condition_of(facts.tested_scores))
    if some is not None:
        assert (whole(some), whole(of)) == (len(facts.noise), facts.n)
        assert verb == ("is" if some == "1" else "are")
        assert 0 < len(facts.noise) < facts.n
    all_or_none(facts, every, all_of, none, none_of)
    told = some is not None and not facts.nothing_reported
    assert (part is not None) == told
    if told:
        assert they == ("It has" if len(facts.noise) == 1 else "Together they have")
        assert shows(part, facts.reported[facts.noise].sum())
    by_procedure(facts, procedure)
    assert alike == about_alike(facts.audit)


def what_matters(facts, some, of, verb, every, all_of, condition, ordered, names):
    n_informative = len(facts.informative)
    if every is None:
        assert (whole(some), whole(of)) == (n_informative, facts.n)
        assert verb == ("is" if some == "1" else "are")
        assert 0 < n_informative < facts.n
    else:
        all_or_none(facts, every, all_of, None, None)
    verdict_condition(facts, condition)
    assert bool(ordered) == (n_informative > 1)
    named(names, facts.informative, most=5)


def named(text, names, most, last="and"):
    """Whether a text names the first features of a list in order, and how many more there are."""
    if len(names) > most:
        text, more = text.rsplit(f" {last} ", 1)
        assert more == f"{len(names) - most:,} more"
    assert re.split(f", | {last} ", text) == names[:most]


def nothing_matters(facts, none, none_of, condition):
    verdict_condition(facts, condition)
    all_or_none(facts, None, None, none, none_of)


def informative_rest(facts, others, n, tested, unused, p, condition):
    rest(facts, others, n, tested, unused)
    p_value(facts, p)
    assert facts.rest["p_value"] <= facts.test["alpha"]
    headline_condition(facts, condition)


def unconfirmed_rest(facts, others, n, tested, unused, p):
    rest(facts, others, n, tested, unused)
    p_value(facts, p)
    assert facts.rest["p_value"] > facts.test["alpha"]


def untested_rest(facts, others, n, tested, unused, reason):
    rest(facts, others, n, tested, unused)
    made = "this audit was made without such a test. Audit the model again"
    assert reason == facts.rest.get("untested_because", made)
    assert "p_value" not in facts.rest


def rest(facts, others, n, tested, unused):
    assert whole(n) == len(facts.noise) >= 2
    without_splits = facts.tested_scores.details.get("unused_features", [])
    assert whole(unused or "0") == sum(name in without_splits for name in facts.noise)
    assert (others is None) == (len(facts.informative) == 0)
    assert tested is None


def p_value(facts, text):
    p = facts.rest["p_value"]
    assert text == "p < 0.001" if p < 0.001 else abs(float(text.removeprefix("p = ")) - p) <= 0.0005


def losing(facts, names, n_named, verb, it, last):
    loss = facts.table["oob_loss"][(facts.table["mdi_oob"] > 0) & (facts.verdict == "informative")]
    loss = loss[loss < 0].reindex(facts.tested_scores.feature_names).dropna().sort_values(kind="stable")
    named(names, list(loss.index), most=3)
    assert (n_named, verb, it, last) == (
        ("has", "is", "it", "it") if len(loss) == 1 else ("have", "are", "them", "them")
    )


def alone_at_least(facts, least=0.95):
    alone = facts.audit.tested_scores.details.get("explained_alone", {})
    return {name: share for name, share in alone.items() if share >= least} if facts.tested_scores.n_rows >= 30 else {}


def leak(facts, name, alone):
    assert [name] == list(alone_at_least(facts))
    assert shows(alone, facts.audit.tested_scores.details["explained_alone"][name])


def leaks(facts, least, text):
    leaks = alone_at_least(facts)
    assert float(least) == 95
    assert len(leaks) > 1
    shown = re.findall(rf"(?:^|, | and )(.+?) \(({PERCENT})\)(?=$|, | and )", text)
    named(re.sub(rf" \({PERCENT}\)", "", text), list(leaks), most=3)
    assert len(shown) == min(3, len(leaks))
    for name, share in shown:
        assert shows(share, leaks[name])


def near_duplicates(facts, names, *correlation):
    ours = [each for each in facts.audit.near_duplicates if each.features[0] == re.split(", | and ", names)[0]]
    assert len(ours) == 1
    each = ours[0]
    assert each in facts.audit.near_duplicates[:3]
    of_set(each.features, each.correlation, names, *correlation)


def of_set(features, value, names, more_than, correlation, least):
    named(names, list(features), most=5)
    assert bool(least) == (len(features) > 2 and value < 1)
    if more_than:
        assert 0.99 < value < 1
    elif least:
        assert 0 <= value - float(correlation) < 0.01
    else:
        assert correlation == f"{value:.2f}"
        assert (correlation == "1.00") == (value == 1)


def notable_twins(facts):
    """Sets that were not confirmed, by the share that they have together, the largest first."""
    sets = facts.tested_scores.details.get("unconfirmed_twins", [])
    by_share = sorted(((facts.share[each["features"]].sum(), k) for k, each in enumerate(sets)), reverse=True)
    return [(sets[k], share) for share, k in by_share if share > 0.01]


def twins(facts, names, more_than, correlation, least, together, how_many):
    first = re.split(", | and ", names)[0]
    ours = [(each, share) for each, share in notable_twins(facts)[:3] if each["features"][0] == first]
    assert len(ours) == 1
    each, share = ours[0]
    assert not set(each["features"]) & set(facts.informative)
    of_set(each["features"], each["correlation"], names, more_than, correlation, least)
    assert shows(together, share)
    assert (how_many == "Neither") == (len(each["features"]) == 2)


def work_together(facts, n, pairs, more, scale):
    found = facts.tested_scores.details["pairs_that_work_together"]
    shown = [
        " with ".join(each["features"]) + (f" (for {each['about']})" if each["about"] else "")
        for each in found["pairs"][:3]
    ]
    assert pairs == ", ".join(shown)
    n_more = len(found["pairs"]) - 3
    assert more == (f"{n_more} more pair{'s' if n_more > 1 else ''}" if n_more > 0 else None)
    assert whole(n) == found["n_rows"] <= facts.tested_scores.n_rows
    assert scale == found["scale"]


def unused_features(facts, names, them):
    unused = facts.tested_scores.details["unused_features"]
    named(names, unused, most=5, last="or")
    assert (facts.table.loc[unused, "finding"] != "used and confirmed").all()
    assert (facts.table.loc[unused, "mdi_oob"] == 0).all()
    assert them == ("it" if len(unused) == 1 else "them")


def more_near_duplicates(facts, n, noun, verb):
    assert whole(n) == len(facts.audit.near_duplicates) - 3
    assert (noun, verb) == (("set", "is") if n == "1" else ("sets", "are"))


def condition_of(scores, them="them", they="they", it="it"):
    if not unproven(scores):
        return None
    share = scores.provenance.get("training_share")
    if scores.n_rows > 1 and share is not None:
        verb = "look like" if " are training rows" in scores.provenance["detail"] else "may be"
        return f", but about {share:.0%} of {them} {verb} training rows"
    if scores.provenance["status"] == "cannot be told":
        return f", if {it} is not a training row" if scores.n_rows == 1 else f", if none of {them} is a training row"
    return f", but {it} looks like a training row" if scores.n_rows == 1 else f", but {they} look like training rows"


def with_independence(facts, clause):
    """Return the clause of a verdict with that of independent rows: without blocks, and if no doubt is told."""
    doubtful = clause is not None and ", but" in clause
    if facts.test.get("blocks", True) or doubtful or facts.tested_scores.n_rows == 1 or about_alike(facts.audit):
        return clause
    if not facts.informative:
        return clause
    return ", if rows are independent" if clause is None else f"{clause} and rows are independent"


def verdict_condition(facts, condition):
    assert condition == with_independence(facts, condition_in_headlines(facts))


def headline_condition(facts, condition):
    assert condition == condition_in_headlines(facts)


def condition_in_headlines(facts):
    clause = condition_of(facts.tested_scores, "the rows", "the rows", "the row")
    alike = about_alike(facts.audit)
    if alike is not None:
        joined = "and" if clause is not None and clause.startswith(", but") else "but"
        clause = f"{clause or ''}, {joined} a warning says that some {alike} are alike"
    return clause


def about_alike(audit):
    """Return "rows" or "blocks", of which a warning says that some are alike; else None."""
    about = [text.split(" are alike: they have")[0] for text in audit.warnings if " are alike: they have" in text]
    return ("blocks" if "consecutive blocks" in about else "rows") if about else None


def all_or_none(facts, every, all_of, none, none_of):
    for text, number, wanted in ((every, all_of, "informative"), (none, none_of, "indistinguishable")):
        if text is not None:
            few = {
                "The only feature is": 1,
                "Both features are": 2,
                "The only feature is not": 1,
                "Neither feature is": 2,
            }
            assert text in few or whole(number) > 2
            assert facts.n == few.get(text, whole(number or "0"))
            assert set(facts.verdict) == {wanted}


def by_procedure(facts, text):
    """Check the description of the test: method, error rate, and the z above which every feature is informative."""
    told = re.fullmatch(PROCEDURE, text)
    assert told, text
    n_drawn, drawn_noun, method, mirrored, error, rate, dependence, alone, itself, z = told.groups()
    test = facts.test
    if itself is not None:
        assert itself == facts.tested_scores.scorer
        assert not test
    else:
        assert float(rate or alone) == pytest.approx(100 * test["alpha"])
        assert {"family-wise error rate": "fwer", "false discovery rate": "fdr", None: None}[error] == (
            "fdr" if test.get("error") == "fdr_by" else test.get("error")
        )
        assert bool(dependence) == (test.get("error") == "fdr_by")
    if n_drawn is not None:
        assert whole(n_drawn) == len(facts.tested_scores.null) == test["n_permutations"]
        assert drawn_noun == ("permutation" if n_drawn == "1" else "permutations")
    assert bool(mirrored) == (test.get("method") == "mirror")
    assert method == (test.get("method") if n_drawn is None and not mirrored else None)
    if z is not None:
        assert (facts.verdict[facts.table["z"] > float(z)] == "informative").all()
        assert -1e-9 <= float(z) - facts.tested_scores.threshold <= 0.01
    family = (
        facts.tested_scores.threshold is not None and test.get("error") == "fwer" and facts.tested_scores.threshold >= 0
    )
    family = family and bool(facts.tested_scores.values.any())  # without splits there is no z
    assert z is not None or not family


def not_tested(facts, reason):
    assert set(facts.verdict) == {"untested"}
    assert facts.audit.untested_because == reason
    assert ". Audit " in reason
    assert reason[-1] != "."


def training(facts):
    assert facts.tested_scores.rows == "train"


def too_few(facts, n, verb):
    assert whole(n) == facts.tested_scores.n_rows < 30
    assert verb == ("row is" if n == "1" else "rows are")


def where(facts, kind):
    """The rows on which the reported importance was computed again."""
    assert kind == rows_of(facts.tested_scores)


def not_judged(facts, reason, kind):
    assert facts.unseen is None
    assert reason == facts.audit.no_unseen_because
    assert kind == facts.audit.reported_kind


def inflated(facts, name, part, rank, k, of, kind, unseen, error, rows):
    where(facts, rows)
    assert whole(of) == facts.n
    assert kind == facts.audit.reported_kind
    assert whole(k) == 1 + (facts.reported > facts.reported[name]).sum()
    assert (rank == "tied for rank") == ((facts.reported == facts.reported[name]).sum() > 1)
    assert shows(part, facts.reported[name])
    assert (
        facts.unseen[name] == 0
        if unseen == "0 or less"
        else facts.unseen[name] > 0 and shows(unseen, facts.unseen[name])
    )
    assert name in facts.inflated
    assert (error is None) == (facts.error is None or unseen == "0 or less")
    assert error is None or shows(error, min(facts.error[name], 1.0))


def more_inflated(facts, n, verb, rows, beyond):
    assert (beyond is None) == (facts.error is None)
    where(facts, rows)
    assert whole(n) == len(facts.inflated) - 3
    assert verb == ("feature has" if n == "1" else "features have")


def before_a_selection(facts, features, rows):
    assert whole(features) == facts.n
    assert whole(rows) == facts.tested_scores.n_rows


def none_inflated(facts, rows, beyond):
    assert (beyond is None) == (facts.error is None)
    where(facts, rows)
    assert len(facts.inflated) == 0


def slightly_inflated(facts, n, of, part, unseen, *rows):
    for each in rows:
        where(facts, each)
    assert (whole(n), whole(of)) == (len(facts.slight), facts.n)
    assert shows(part, facts.reported[facts.slight].sum())
    assert shows(unseen, facts.unseen[facts.slight].sum())


def without_error(facts):
    assert facts.error is None


def no_reason_to_drop(facts):
    return len(facts.inflated) > 0 or facts.slight.any()


def nothing_above_0(facts, kind, rows):
    where(facts, rows)
    assert kind == facts.audit.reported_kind
    assert (facts.unseen == 0).all()


def nothing_reported(facts):
    assert (facts.reported == 0).all()


EVERY = r"(The only feature is|Both features are|All ([\d,]+) features are)"
NONE = r"(The only feature is not|Neither feature is|None of the ([\d,]+) features is) informative"
HOW_MANY = rf"(?:([\d,]+) of ([\d,]+) features (is|are) not confirmed alone|{EVERY} informative|{NONE})"
COUNT = rf"(?:([\d,]+) of ([\d,]+) features (is|are)|{EVERY})"
REST = r"[Tt]he (other )?([\d,]+) (tested )?features(?: \(([\d,]+) of them without splits\))?"
HEADLINE = {
    rf"{COUNT} informative(, (?:if|but) [a-z\d%, ]+)?(?:: |(\. Strongest first: ))(.+)\.": what_matters,
    rf"{NONE}(, (?:if|but) [a-z\d%, ]+)?\.": nothing_matters,
}
PROCEDURE = (
    r"(?:([\d,]+) (permutations?), |(naive|conservative) standard errors, |(null distribution) of mirrored scores, )?"
    r"(?:(family-wise error rate|false discovery rate) ([\d.]+)%( under any dependence)?"
    r"|error rate ([\d.]+)% per feature, not adjusted for multiple testing|decision rule of (\S+))"
    r"(?:; every feature with z above ([\d.]+) is informative)?"
)
ROWS = "on the (out-of-bag|held-out|assumed held-out) rows"
SUMMARY = {
    **HEADLINE,
    rf"(.+) explains ({PERCENT}) of the variation of the response by itself\. This may be a leak: check that its "
    r"values are known before the response is, and are not made from it\.": leak,
    r"Some features each explain at least ([\d.]+)% of the variation of the response by themselves: (.+)\. They may be "
    r"leaks: check that their values are known before the response is, and are not made from it\.": leaks,
    r"(.+) are nearly the same column \(absolute rank correlation (?:(more than 0\.99)|([\d.]+)( or more)?)\): they "
    r"may share their score\.": near_duplicates,
    r"(.+) are nearly the same column \(absolute rank correlation (?:(more than 0\.99)|([\d.]+)( or more)?)\) and have "
    rf"({PERCENT}) of the debiased scores together\. (Neither|None of them) is confirmed alone\. debias\.clusters "
    r"tests such features together\.": twins,
    r"Interactions, confirmed on ([\d,]+) of these rows, drawn at random: (.+?)(?:, and (\d+ more pairs?))?\. What the "
    r"model does with both features of such a pair holds beyond functions of single columns that add up(?: to the (log "
    r"odds))?\. debias\.interactions tests all pairs on more rows, and says how much they explain\.": work_together,
    r"No tree of this model splits on (.+)\. A model that is trained again "
    r"may use (it|them)\.": unused_features,
    r"([\d,]+) more (set|sets) of informative columns (is|are) nearly the same\.": more_near_duplicates,
    r"There are ([\d,]+) features for ([\d,]+) rows\. Out-of-bag rows cannot show a selection of columns by y: if "
    r"columns were selected before the model was fitted, or will be for the next one, audit that model on rows that "
    r"the selection has not seen\.": before_a_selection,
    r"Scored on ([\d,]+) (out-of-bag|held-out|assumed held-out|training) (rows?): (.*)\.": scored_on,
    rf"{HOW_MANY} on (this 1 row|these ([\d,]+) rows)(, (?:if|but) [a-z\d%, ]+)?\."
    rf"(?: (It has|Together they have) ({PERCENT}) of the reported importance\.)? Test: (.*?)\."
    r"(?: It takes (rows|blocks) as independent, but a warning says that some are alike\.)?": found,
    rf"Together {REST} carry information about the response \((p [=<] [\d.]+)\)(, (?:if|but) [a-z\d%, ]+)?\. None of "
    r"them is confirmed alone\. Dropping all of them may cost accuracy\.": informative_rest,
    rf"Even together {REST} are not confirmed in this model \((p [=<] [\d.]+)\)\. This does not prove that they carry "
    r"no information\.": unconfirmed_rest,
    rf"{REST} were not tested together: (.+)\.": untested_rest,
    r"(.+) (has|have) an oob_loss below 0 and (is|are) informative: the splits on (it|them) point the right way on "
    r"these rows, but go too far, and so they raise the loss of the trees\. (?:Larger leaves or stronger "
    r"regularisation may help|Probabilities that do not fit these rows have this effect)\. This is "
    r"no reason to drop (it|them)\.": losing,
    r"No feature was tested: (.+)\.": not_tested,
    "On training rows the scores have the same bias as the reported importance, so they cannot show which features "
    r"are reported too high\.": training,
    r"([\d,]+) (row is|rows are) too few to say which features are reported too high\.": too_few,
    r"Whether features are reported too high was not judged: (.+)\. The reported importance \(by (.+)\) and the "
    r"debiased share have different units, so a difference between the two is no bias\.": not_judged,
    rf"Reported too high: (.+) has ({PERCENT}) of the reported importance \((rank|tied for rank) ([\d,]+) of ([\d,]+) "
    rf"by (.+)\), but ({PERCENT}|0 or less)(?: \(standard error ({PERCENT})\))? if the same importance is computed "
    rf"{ROWS}\.": inflated,
    r"([\d,]+) more (feature has|features have) a reported share that is at least twice the share "
    rf"{ROWS} and more than 1 percentage point above it(, beyond the error of these rows)?\.": more_inflated,
    rf"No feature has a reported share that is at least twice its share {ROWS} and more than 1 percentage point above "
    r"it(, beyond the error of these rows)?\.": none_inflated,
    r"The shares on these rows have no standard error here, so the differences may be chance\.": without_error,
    r"A reported share that is too high is no reason to drop a feature\.": no_reason_to_drop,
    rf"Reported too high together: ([\d,]+) of ([\d,]+) features have ({PERCENT}) of the reported importance, but "
    rf"({PERCENT}) if the same importance is computed {ROWS}\. Each has at least twice its share {ROWS}, but at most 1 "
    r"percentage point more\.": slightly_inflated,
    r"The model reports an importance of 0 for every feature\.": nothing_reported,
    rf"By (.+), no feature has an importance above 0 {ROWS}, so there are no shares to compare with the reported "
    r"ones\.": nothing_above_0,
}


def untested_headline(facts):
    assert set(facts.verdict) == {"untested"}
    assert facts.tested_scores.rows != "train"


HEADLINE |= {
    r"No feature was tested: this audit shows scores but no verdicts\.": untested_headline,
    r"Scored on training rows: this audit cannot show which features are more than noise\.": training,
}


def shares_have_intervals(facts):
    if facts.tested_scores.standard_error is None or not (facts.tested_scores.values > 0).any():
        return False
    return not facts.audit.tested or (facts.verdict == "informative").any()


def shares_shown(facts, interval):
    assert bool(interval) == shares_have_intervals(facts)
    assert facts.unseen is None


def shares_and_diamonds_shown(facts, interval, kind, rows):
    where(facts, rows)
    assert bool(interval) == shares_have_intervals(facts)
    assert kind == facts.audit.reported_kind
    assert facts.unseen is not None


def evidence_shown(facts, law):
    student = {"effective_rows", "n_independent"} & facts.test.keys()
    by_law = "Student's t" if student else "standard normal"
    assert law == (by_law if facts.tested_scores.null is None else "from permuted responses")


def line_family_wise(facts):
    assert facts.test["error"] == "fwer"
    assert facts.tested_scores.threshold is not None


def line_of_others(facts, procedure, above):
    """What lies above the line is found, unless the sentence says that it need not be."""
    assert facts.test.get("error") != "fwer"
    by_procedure(facts, procedure)
    assert above or (facts.verdict[facts.table["z"] > facts.tested_scores.threshold] == "informative").all()


def figure_shows(facts, n, of, how, others, every):
    drawn = drawn_features(facts.audit)[0]
    assert whole(n) == len(drawn) <= 30
    assert whole(of) == whole(every) == facts.n
    assert how == ("with the highest score" if facts.nothing_reported else "reported highest")
    tested = facts.audit.tested
    assert others == ("the informative ones" if tested else "those with a debiased share above 0")
    shown = facts.table.loc[[facts.tested_scores.feature_names[k] for k in drawn]]
    by = "mdi_oob" if facts.nothing_reported else "reported"
    assert sorted(shown[by])[-10:] == sorted(facts.table[by])[-10:]
    if len(drawn) < 30:
        left = facts.table.drop(index=shown.index)
        assert not (left["verdict"] == "informative").any() if tested else not (left["share"] > 0).any()


def ranks_shown(facts, some, n, of, kind, rows, dashed):
    where(facts, rows)
    assert kind == facts.audit.reported_kind
    n_drawn, n_left = len(drawn_features(facts.audit, 16)[0]), drawn_features(facts.audit, 16)[1]
    assert bool(some) == bool(n_left)
    assert some is None or (whole(n), whole(of)) == (n_drawn, facts.n)
    assert bool(dashed) == facts.audit.tested


def values_shown(facts):
    assert facts.audit.n_values is not None


def interval_or_mark(facts, names, n):
    scores, shown = facts.tested_scores, drawn_features(facts.audit)[0]
    verdict = facts.verdict[list(scores.feature_names)].to_numpy()
    units = facts.test.get("effective_rows", facts.test.get("n_independent"))
    quantile = 1.959964 if units is None else t.ppf(0.975, np.maximum(np.asarray(units) - 1, 1))
    differ = (scores.values - quantile * scores.standard_error > 0) != (verdict == "informative")
    named(names, [scores.feature_names[k] for k in shown if differ[k]], most=5)
    assert whole(n) == facts.n


def correlations(facts, before, after):
    values = pd.Series(facts.audit.n_values, index=facts.tested_scores.feature_names)[facts.table.index]
    for told, share in ((before, facts.reported), (after, facts.unseen)):
        assert float(told) == pytest.approx(spearmanr(share, values).statistic, abs=0.00501)
        assert told != "-0.00"


CAPTIONS = {
    r"Debiased share of each feature \(filled marker\)( with its 95% confidence interval \(splits "
    r"fixed\))?\.": shares_shown,
    r"Debiased share of each feature \(filled marker\)( with its 95% confidence interval \(splits fixed\))?\. The "
    r"hollow diamond is the share that the model reports \(by (.+)\), and the grey diamond the same figure "
    rf"{ROWS}: if it is far to the left of the hollow one, the model reports the feature too high\. The debiased share "
    r"has another unit than the diamonds\.": shares_and_diamonds_shown,
    r"The test statistic z of each feature\. For noise, 90% of z would lie in the grey band \((from permuted "
    r"responses|standard normal|Student's t)\)\.": evidence_shown,
    r"The dashed line is the z that a single feature must exceed in a family-wise test of all features\. Later steps "
    r"of the test have lower limits, so informative features may lie below the line\.": line_family_wise,
    r"The dashed line is the z that a single feature must exceed in a family-wise test of all features\. The verdicts "
    r"come from another test \((.+)\), so informative features may lie below the line(, and other features above "
    r"it)?\.": line_of_others,
    r"Shown are (\d+) of ([\d,]+) features: the 10 (reported highest|with the highest score), and (the informative "
    r"ones|those with a debiased share above 0) \(the strongest, if there are more than 30\)\. The table has all "
    r"([\d,]+)\.": figure_shows,
    r"Rank of (?:each feature|((\d+) of ([\d,]+) features, ranked among themselves,)) by the reported importance "
    rf"\((.+), left\), and by the same importance {ROWS} \(right\)\.(?: (Dashed lines mark features that are "
    r"not confirmed alone\.))?": ranks_shown,
    r"Interval and mark differ for (.+): an interval is about the size of one score, and the mark is from a test with "
    r"another statistic \(z\), which allows for all ([\d,]+) features\. Go by the mark\.": interval_or_mark,
    r"Share of the reported importance \(diamond\), and of the same figure on unseen rows \(filled marker\), against "
    r"the number of distinct values\. Importance from training rows grows with this number, whether or not the feature "
    r"matters\.": values_shown,
    r"The rank correlation between share and number of values is (-?[\d.]+) as reported and (-?[\d.]+) on unseen "
    r"rows\.": correlations,
}


def check(sentence, facts, patterns, used=None):
    """Check a sentence by the one pattern it fits."""
    fitting = [(made, re.fullmatch(pattern, sentence)) for pattern, made in patterns.items()]
    fitting = [(made, match) for made, match in fitting if match]
    assert len(fitting) == 1, f"{len(fitting)} patterns fit: {sentence}"
    made, match = fitting[0]
    made(facts, *match.groups())
    if used is not None:
        used[made.__name__] += 1
    return made


def expected(facts):
    """Return which sentences a summary must have, in order."""
    if not facts.audit.tested:
        return ["not_tested", "scored_on", *too_high(facts)]
    n_sets = len(facts.audit.near_duplicates or ())
    kinds = ["what_matters" if facts.informative else "nothing_matters"]
    if len(facts.noise) > 1 and not set(facts.noise) <= set(facts.tested_scores.details.get("unused_features", [])):
        p = facts.rest.get("p_value")
        of_p = "informative_rest" if p is not None and p <= facts.test["alpha"] else "unconfirmed_rest"
        kinds.append("untested_rest" if p is None else of_p)
    n_leaks = len(alone_at_least(facts))
    kinds += ["unused_features"] * ("unused_features" in facts.tested_scores.details)
    kinds += ["leak"] * (n_leaks == 1) + ["leaks"] * (n_leaks > 1)
    kinds += ["near_duplicates"] * min(n_sets, 3) + ["more_near_duplicates"] * (n_sets > 3)
    kinds += ["twins"] * min(3, len(notable_twins(facts)))
    many = (
        facts.tested_scores.rows == "oob"
        and facts.tested_scores.n_rows >= 30
        and facts.n >= facts.tested_scores.n_rows / 2
    )
    loses = "oob_loss" in facts.table and bool(
        ((facts.table["oob_loss"] < 0) & (facts.table["mdi_oob"] > 0))[facts.informative].any()
    )
    pairs = ["work_together"] * ("pairs_that_work_together" in facts.tested_scores.details)
    later = [*pairs, *["before_a_selection"] * many, "found", "scored_on"]
    return [*kinds, *too_high(facts), *["losing"] * loses, *later]


def too_high(facts):
    if facts.reported is None:
        return []
    if facts.nothing_reported:
        return ["nothing_reported"]
    if facts.tested_scores.rows == "train":
        return ["training"]
    if facts.tested_scores.n_rows < 30:
        return ["too_few"]
    if facts.unseen is None:
        return ["not_judged"]
    if (facts.unseen == 0).all():
        return ["nothing_above_0"]
    n = len(facts.inflated)
    amount = facts.reported[facts.slight].sum() - facts.unseen[facts.slight].sum()
    error = 0 if facts.error is None else t.ppf(0.95, 19) * np.sqrt((facts.error[facts.slight] ** 2).sum())
    together = amount > max(0.1, error)
    kinds = ["inflated"] * min(n, 3) + ["more_inflated"] * (n > 3) + ["slightly_inflated"] * bool(together)
    return [*kinds, *["without_error"] * (facts.error is None), "no_reason_to_drop"] if kinds else ["none_inflated"]


def captions(audit):
    """Return the sentences under the figures of a report."""
    shown = [html._about_shares(audit)]
    shown += [html._about_evidence(audit)] if audit.tested_scores.z is not None else []
    if audit.inflation is not None:
        shown.append(html._about_slopes(audit))
        if audit.n_values is not None:
            shown.append(html._about_values(audit))
    begins = "|".join(
        (
            *("Interval and mark", "The dashed line", "Shown are", "Rank of", "Share of the reported"),
            "The rank correlation",
        )
    )
    return [each for text in shown for each in re.split(rf" (?={begins})", text)]


@pytest.mark.thorough
def test_every_sentence_of_a_summary_is_true_of_its_table():
    used = Counter()
    for seed in AUDITS:
        facts = Facts(drawn(seed))
        told = [check(line, facts, SUMMARY, used).__name__ for line in facts.audit.summary()]
        assert told == expected(facts), (seed, facts.audit.summary())
        of_one = [line.removeprefix("Reported too high: ") for line in facts.audit.summary() if "too high: " in line]
        largest = [line.split(" has ")[0] for line in of_one]
        if largest:
            excess = facts.excess[facts.inflated].sort_values(ascending=False)
            assert facts.excess[largest].tolist() == excess[:3].tolist()
        assert facts.audit.test_summary() == facts.audit.summary()[-2 if facts.audit.tested else 0]
        assert not facts.audit.tested or facts.audit.summary()[0] == html.headline(facts.audit)
    assert min(used[made.__name__] for made in SUMMARY.values()) > 5, used


@pytest.mark.thorough
def test_headlines_and_captions_are_true_of_the_table():
    used = Counter()
    for seed in AUDITS:
        facts = Facts(drawn(seed))
        check(html.headline(facts.audit), facts, HEADLINE, used)
        for sentence in captions(facts.audit):
            check(sentence, facts, CAPTIONS, used)
    assert min(used[made.__name__] for made in (*HEADLINE.values(), *CAPTIONS.values())) > 0, used


@pytest.mark.thorough
def test_a_changed_number_or_word_is_noticed():
    """The checks can fail: each number of each sentence, raised by one, and words that are turned round."""
    turned = {"informative": "not confirmed alone", "held-out": "out-of-bag", "out-of-bag": "held-out"}
    noticed, missed = Counter(), []
    for seed in range(150):
        facts = Facts(drawn(seed))
        detail = facts.tested_scores.provenance["detail"]
        for line in facts.audit.summary():
            for number in re.finditer(r"(?<![\w.])\d+(?:\.\d+)?(?! percentage)(?! standard)", line):
                inside = detail in line and number.start() >= line.index(detail)
                if inside or "No feature was tested" in line:
                    continue
                changed = (
                    line[: number.start()] + f"{float(number[0].replace(',', '')) + 1:,.12g}" + line[number.end() :]
                )
                try:
                    check(changed, facts, SUMMARY)
                except (AssertionError, KeyError):
                    noticed["number"] += 1
                else:
                    missed.append(changed)
            for word, other in turned.items():
                if word in line and detail not in line.split(word)[0] and "tested:" not in line:
                    with pytest.raises((AssertionError, KeyError)):
                        check(line.replace(word, other, 1), facts, SUMMARY)
                    noticed["word"] += 1
    assert not missed, missed[:5]
    assert min(noticed["number"], noticed["word"]) > 100


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.quick), *range(1, 6), 1000])
def test_a_page_holds_these_sentences_and_figures(seed):
    """What the page shows is what was checked: headline, summary, captions, facts, and the table cell by cell."""
    from html import unescape

    audit = next(a for a in map(drawn, range(seed * 10, seed * 10 + 50)) if a.share.size <= 100)
    text, facts = audit.to_html(), Facts(audit)
    header = text[text.index('<header id="headline">') : text.index("</header>")]
    paragraphs = [unescape(each) for each in re.findall(r"<p(?: [^>]*)?>(.*?)</p>", header)]
    answered = [line for lines in answers(audit).values() for line in lines]
    assert paragraphs == list(dict.fromkeys([html.headline(audit), *answered, *audit.summary()]))
    told = [unescape(each) for each in re.findall(r"<figcaption>(.*?)</figcaption>", text)]
    assert " ".join(told) == " ".join(captions(audit))
    shown = dict(re.findall(r"<div><dt>(.*?)</dt><dd>(.*?)</dd></div>", header))
    assert shown.pop(f"rows, {rows_of(audit.tested_scores)}") == f"{audit.tested_scores.n_rows:,}"
    assert shown.pop("features") == f"{facts.n:,}"
    if audit.tested:
        assert int(shown.pop("informative").replace(",", "")) == facts.n - len(facts.noise)
        others = shown.pop("reported for the others", None)
        assert (others is not None) == (not facts.nothing_reported and 0 < len(facts.noise) < facts.n)
        words = unescape(others or "").replace("<", "less than ").replace(">", "more than ")
        words = {"0.0%": "0%", "100.0%": "100%"}.get(words, words)
        assert others is None or shows(words, facts.reported[facts.noise].sum())
    rates = {"family-wise error rate": "fwer", "false discovery rate": "fdr", "error rate": None}
    for name, rate in shown.items():
        assert float(rate.rstrip("%")) == pytest.approx(100 * facts.test["alpha"])
        assert rates[name] == (facts.test.get("error") or "")[:4].rstrip("_") if name != "error rate" else True
    assert bool(shown) == ("alpha" in facts.test)
    reading = text[text.index('<section id="reading"') :]
    for word, there in (
        ("Untested", not audit.tested),
        ("Informative", audit.tested),
        ("Reported", "reported" in facts.table),
        ("On unseen rows", facts.unseen is not None),
        (
            "reported too high",
            facts.reported is not None and facts.unseen is None and facts.tested_scores.rows != "train",
        ),
    ):
        assert (f"<strong>{word}</strong>" in reading) == there
    assert ("are training rows, so it is as biased" in reading) == (audit.tested_scores.rows == "train")
    if not audit.tested:
        assert unescape(reading).count(audit.untested_because) == 2  # where verdicts are explained, and in provenance
    caption = re.search(r'<section id="features".*?<caption><span>(.*?)</span>', text, re.S)[1]
    assert ("“reported”" in caption) == ("reported" in facts.table)
    assert ("“on unseen rows”" in caption) == (facts.unseen is not None)
    assert ("in another unit" in caption) == ("reported" in facts.table)
    assert ("“values”" in caption) == (audit.n_values is not None)


@pytest.mark.thorough
def test_cells_never_round_to_nothing_or_all():
    for seed in AUDITS:
        facts = Facts(drawn(seed))
        for name in ("reported", "reported_unseen", "share"):
            if name not in facts.table:
                continue
            for cell, share in zip(
                debias.results.tables.cells(name, facts.table[name]), facts.table[name], strict=True
            ):
                words = cell.replace("<", "less than ").replace(">", "more than ")
                assert shows({"0.0%": "0%", "100.0%": "100%"}.get(words, words), share), (cell, share)


def printed(show, of):
    console = Console(file=io.StringIO(), width=1000)
    show(console, of)
    return console.file.getvalue().splitlines()


@pytest.mark.thorough
def test_a_terminal_has_what_matters_first_then_the_table_then_what_cannot_be_told():
    for seed in range(60):
        audit = drawn(seed)
        lines, told = printed(print_audit, audit), audit.summary()
        noun = "row" if audit.tested_scores.n_rows == 1 else "rows"
        n_before = lines.index(f"Forest, {audit.tested_scores.n_rows:,} {rows_of(audit.tested_scores)} {noun}")
        assert lines[:n_before] == told[:n_before] != []
        assert lines[-len(told[n_before:]) :] == told[n_before:]
        assert (audit.test_summary() in told[n_before:]) == audit.tested
        check(printed(print_scores, audit.tested_scores)[-1], Facts(audit), SUMMARY)


@pytest.mark.thorough
def test_what_the_demo_says_of_noise_is_true():
    pattern = (
        rf"(noise_\w+) has ({PERCENT}) of the reported importance: (rank|tied for rank) ([\d,]+) of ([\d,]+) by "
        rf"(.+?)(?:, above (.+?))?\. On unseen rows it has ({PERCENT}) of the same\."
    )
    seen = Counter()
    for seed in AUDITS:
        audit = drawn(seed)
        if audit.share.size < 3 or audit.reported_unseen is None:
            continue
        names = (demo.UNIQUE, demo.BINARY, *audit.tested_scores.feature_names[2:])
        from dataclasses import replace

        audit = replace(audit, scores={"mdi_oob": replace(audit.tested_scores, feature_names=names)})
        facts = Facts(audit)
        name, part, rank, k, n, kind, above, unseen = re.fullmatch(pattern, demo.on_noise(audit)).groups()
        figure = facts.reported[name]
        assert (kind, whole(n)) == (audit.reported_kind, facts.n)
        assert figure == facts.reported[[demo.UNIQUE, demo.BINARY]].max()
        assert whole(k) == 1 + (facts.reported > figure).sum()
        assert (rank == "tied for rank") == ((facts.reported == figure).sum() > 1)
        assert shows(part, figure)
        assert shows(unseen, facts.unseen[name])
        below = sorted(set(facts.table.index[facts.reported < figure]) - {demo.UNIQUE, demo.BINARY})
        assert (above.split(", ") if above else []) == below
        seen[rank] += 1
    assert min(seen.values()) > 5


@pytest.mark.parametrize("name", ["short", "a name of which the terminal has no room for"])
def test_a_terminal_of_80_columns_shows_every_verdict_whole(name):
    console = Console(file=io.StringIO(), width=80)
    print_audit(console, made([name, f"{name} 2", f"{name} 3"]))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if re.search(r"(used and confirmed|unconfirmed alone) +│$", line)]
    assert len(rows) == 3


def test_many_small_excesses_are_counted():
    """A sentence said that none of these has twice its share on unseen rows, where 96 of 100 do."""
    names = [f"f{k}" for k in range(100)]
    audit = made(names, informative=np.arange(100) < 4)
    unseen = np.where(np.arange(100) < 4, 24.0, 1 / 24)
    reported = np.where(np.arange(100) < 4, 24.0, 1.0)
    audit = debias.Audit.of(reported, "gain", audit.scores, reported_unseen=unseen)
    assert audit.summary()[2] == (
        "Reported too high together: 96 of 100 features have 50.0% of the reported importance, but 4.0% if the same "
        "importance is computed on the out-of-bag rows. Each has at least twice its share on the out-of-bag rows, but "
        "at most 1 percentage point more."
    )


def drawn_comparison(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 3, 20]))
    names = pd.Index([f"f{k}" for k in range(n)], name="feature")
    near = rng.choice([0.0, 0.5, 0.994, 0.996, 1.0, 0.499, 0.7], size=n)
    traits = pd.DataFrame(
        {
            "n_values": rng.choice([0, 1, 2, 5, 500], size=n, p=[0.1, 0.3, 0.2, 0.2, 0.2]),
            "correlation": near,
            "correlated_with": [str(names[(k + 1) % n]) if r > 0 else "" for k, r in enumerate(near)],
            "interaction": rng.choice([0.0, 0.2499, 0.25, 0.5, 0.996, 1.0, np.nan], size=n),
            "not_upheld": rng.choice([0.0, 0.4999, 0.5, 0.8, 0.996, 1.0, np.nan], size=n),
        },
        index=names,
    )
    scores = {}
    for name in ("native", "mdi_oob", "shap")[: int(rng.integers(2, 4))]:
        values = rng.normal(size=n) if rng.random() < 0.7 else rng.integers(0, 2, n).astype(float)
        scores[name] = debias.Scores(
            values=values, feature_names=tuple(names), scorer=name, unit="", rows="oob", n_rows=9, provenance={},
            details={}, warnings=(), settings={},
        )  # fmt: skip
    return Comparison(scores, traits)


@pytest.mark.thorough
def test_what_a_comparison_gives_as_reasons_is_true_of_the_traits():
    patterns = {
        r"many values \((\d+)\)": "n_values",
        r"correlated with (\S+) \((more than 0\.99|[\d.]+)\)": "correlation",
        rf"interacts \(({PERCENT}) of its SHAP variance depends on other features\)": "interaction",
        rf"overfitted \(({PERCENT}) of its reported share is lost on unseen rows\)": "not_upheld",
    }
    used = Counter()
    for seed in range(200):
        comparison = drawn_comparison(seed)
        traits, median = comparison.traits, comparison.traits["n_values"].median()
        for feature, why in comparison.disagreements["why"].items():
            trait, told = traits.loc[feature], set()
            for reason in why.split("; ") if why else []:
                ((name, match),) = [(name, m) for p, name in patterns.items() if (m := re.fullmatch(p, reason))]
                told.add(name)
                if name == "n_values":
                    assert int(match[1]) == trait[name]
                elif name == "correlation":
                    assert match[1] == trait["correlated_with"]
                    assert 0.99 < trait[name] < 1 if match[2].startswith("more") else match[2] == f"{trait[name]:.2f}"
                else:
                    assert shows(match[1], trait[name], decimals=0)
                used[name] += 1
            assert ("n_values" in told) == (trait["n_values"] >= 2 * median and trait["n_values"] > 2)
            for name, least in (("correlation", 0.5), ("interaction", 0.25), ("not_upheld", 0.5)):
                assert (name in told) == (trait[name] >= least)
    assert set(used) == set(patterns.values())


@pytest.mark.thorough
def test_disagreements_are_those_of_the_ranks():
    for seed in range(100):
        comparison = drawn_comparison(seed)
        frame = comparison.disagreements
        for feature, row in frame.iterrows():
            ranks = {
                name: (np.sum(each.values > value) + 1 + np.sum(each.values >= value)) / 2
                for name, each in comparison.scores.items()
                for value in [each.values[each.feature_names.index(feature)]]
            }
            assert ranks[row["highest_by"]] == row["highest"] == min(ranks.values())
            assert ranks[row["lowest_by"]] == row["lowest"] == max(ranks.values())
            assert row["spread"] == pytest.approx((row["lowest"] - row["highest"]) / max(1, len(frame) - 1))


def test_a_possible_leak_is_named_by_what_it_tells_alone_whatever_its_share():
    from dataclasses import replace

    def leaks(alone, n_rows=500):
        audit = made([f"f{k}" for k in range(4)], informative=[True, False, False, False])
        details = {**audit.tested_scores.details, "explained_alone": alone}
        tested = replace(audit.tested_scores, values=np.array([10.0, 8.0, 1.0, 0.0]), n_rows=n_rows, details=details)
        return [line for line in replace(audit, scores={"mdi_oob": tested}).summary() if "leak" in line]

    assert leaks({"f3": 0.97})[0].startswith("f3 explains 97.0% of the variation of the response by itself.")
    assert "by themselves: f0 (98.0%) and f1 (96.0%)." in leaks({"f0": 0.98, "f1": 0.96, "f2": 0.6})[0]
    assert not leaks({"f0": 0.94})  # strong, but the response is not made of it
    assert not leaks({})
    assert not leaks({"f0": 0.97}, n_rows=29)


@pytest.mark.thorough
def test_the_leak_of_a_copy_is_named(diabetes, models):
    X, y = diabetes
    rng = np.random.default_rng(0)
    for leak in (y + rng.normal(size=len(y)), y.rank(method="first")):  # a noisy copy, and an id sorted by y
        told = debias.audit(
            models("sklearn").fit(X.assign(leak=leak), y), X.assign(leak=leak), y, random_state=0
        ).summary()
        assert told[0] == "1 of 11 features is informative, if rows are independent: leak."
        assert told[2].startswith("leak explains more than 99.9% of the variation of the response by itself")
    told = debias.audit(models("sklearn").fit(X, y), X, y, random_state=0).summary()
    assert not [line for line in told if "leak" in line]


@pytest.mark.parametrize("width", [50, 60, 80, 100, 140])
def test_the_verdict_is_whole_at_every_width(width):
    from dataclasses import replace

    audit = made(["a", "an unusually long name of a feature", "c", "d"])
    dependence = replace(audit.tested_scores, scorer="honest_effects")
    audit = replace(audit, scores={**audit.scores, "oob_loss": audit.tested_scores, "honest_effects": dependence})
    console = Console(file=io.StringIO(), width=width)
    print_audit(console, audit)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    cells = [[cell.strip() for cell in line.split("│")] for line in text.splitlines() if line.startswith("│")]
    text_of_rows = " ".join(part for row in cells for part in row[-2:-1])
    assert text_of_rows.count("unconfirmed alone") == 3
    assert text_of_rows.count("used and confirmed") == 1
    assert "dependence" not in text  # the finding says it
    assert ("oob_loss" in text) == (width >= 140)


def test_a_terminal_shows_the_features_of_the_pictures_if_there_are_many():
    audit = made([f"feature {k}" for k in range(300)], informative=np.arange(300) < 3, n_permutations=20)
    drawn_ones, n_left = drawn_features(audit)
    for show, of in ((print_audit, audit), (print_scores, audit.tested_scores)):
        lines = printed(show, of)
        assert sum(line.startswith("│ feature ") for line in lines) in (len(drawn_ones), 10)
        assert any(
            re.fullmatch(r"\.\.\. 2\d\d more features; CSV, JSON and data frames have all\.", line) for line in lines
        )
    assert f"... {n_left} more features; CSV, JSON and data frames have all." in printed(print_audit, audit)


@pytest.mark.parametrize(("length", "n_named"), [(18, 5), (19, 4), (45, 2), (46, 1), (300, 1)])
def test_a_headline_names_fewer_features_if_their_names_are_long(length, n_named):
    names = [f"{k}".ljust(length, "x") for k in range(7)]
    audit = made(names, informative=np.ones(7))
    named = audit.to_frame().index[:n_named]
    assert audit.summary()[0].endswith(f"Strongest first: {', '.join(named)} and {7 - n_named} more.")
