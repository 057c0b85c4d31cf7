"""The representations of results: a headline, and a table whose cells are those of the result."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import debias
from debias.results.comparison import Comparison
from debias.results.gate_outcome import Gate, Result
from debias.results.sentences import headline, of_rest
from debias.results.tables import cells, columns_that_fit
from debias.text import shortened
from support.audits import made
from support.drawn_audits import drawn


def parts(text, head="feature"):
    """Return the lines above the table as one text, its heading, its rows, and the line below it."""
    lines = text.split("\n")
    at = next(k for k, line in enumerate(lines) if line.startswith(f"{head}  "))
    more = lines.pop() if re.fullmatch(r"\.\.\. [\d,]+ more", lines[-1]) else ""
    return " ".join(lines[:at]), lines[at], lines[at + 1 :], more


def rows(table):
    return [re.split(r" {2,}", row) for row in table]


def fits(text):
    lines = text.split("\n")
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 20
    assert not [line for line in lines if line != line.rstrip()]


@pytest.mark.thorough
def test_an_audit_is_its_headline_and_the_largest_shares():
    for seed in range(150):
        audit = drawn(seed)
        fits(repr(audit))
        above, heading, table, more = parts(repr(audit))
        assert above.endswith(" ".join([headline(audit), *of_rest(audit)]))
        assert above.startswith("Audit of Forest: ")
        n = audit.share.size
        assert len(table) == min(n, 10)
        assert more == (f"... {n - 10:,} more" if n > 10 else "")
        expected = audit.to_frame().head(10)
        assert [row[0] for row in rows(table)] == [shortened(name, 24) for name in expected.index]
        kept = [name for name in ("reported", "reported_unseen", "share") if name in audit.to_frame()]
        for place, name in enumerate(kept, start=1):
            assert [row[place] for row in rows(table)] == cells(name, audit.to_frame()[name])[:10]
        assert heading.endswith("finding") == audit.tested
        if audit.tested:
            assert [row[-1] for row in rows(table)] == cells("finding", expected["finding"])


@pytest.mark.thorough
def test_scores_are_their_largest():
    for seed in range(60):
        scores = drawn(seed).tested_scores
        fits(repr(scores))
        above, _, table, more = parts(repr(scores))
        assert above.startswith("Scores mdi_oob of Forest: ")
        order = np.argsort(-scores.values, kind="stable")[:10]
        assert [row[0] for row in rows(table)] == [scores.feature_names[k] for k in order]
        assert [row[1] for row in rows(table)] == cells("mdi_oob", scores.values[order])
        assert bool(more) == (scores.values.size > 10)


def test_the_start_of_a_change_is_a_label_of_the_user():
    assert cells("since", ["2026-03-02", "", "a\x1b[31m"]) == ["2026-03-02", "-", r"a\x1b[31m"]


def test_scores_of_data_have_no_model():
    X = np.random.default_rng(0).normal(size=(60, 2))
    scores = debias.score(None, X, X[:, 0], "guide")
    assert repr(scores).startswith("Scores guide: 60 data rows, 2 features (")


def compared(**values):
    names = tuple(f"f{k}" for k in range(len(next(iter(values.values())))))
    scores = {
        name: debias.Scores(
            values=np.array(each), feature_names=names, scorer=name, unit="", rows="oob", n_rows=9, provenance={},
            details={}, warnings=(), settings={},
        )
        for name, each in values.items()
    }  # fmt: skip
    return Comparison(scores, pd.DataFrame(index=pd.Index(names, name="feature")))


def test_a_comparison_is_its_largest_disagreement_and_the_scores():
    comparison = compared(native=[3.0, 2.0, 1.0, 0.0], shap=[3.0, 0.0, 1.0, 2.0])
    fits(repr(comparison))
    above, heading, table, more = parts(repr(comparison))
    assert above == (
        "Comparison of native, shap: 4 features Largest disagreement: f1 has rank 2 by native and rank 4 by shap."
    )
    assert heading.split() == ["feature", "native", "shap"]
    assert rows(table)[1] == ["f1", "2.000", "0.000"]
    assert more == ""
    assert "same ranks" in repr(compared(native=[1.0, 2.0], shap=[10.0, 20.0]))
    fits(repr(compared(**{f"scorer_of_trees_{k}": np.arange(40.0) for k in range(9)})))


def test_a_gate_is_its_outcome_and_the_failures_first():
    results = [Result(f"rule {k}", "passed", "informative", "informative", "a reason") for k in range(12)]
    gate = Gate((*results, Result("max_unsupported_share", "failed", "56.0%", "<= 10.0%", "because " * 50)))
    fits(repr(gate))
    above, heading, table, more = parts(repr(gate), "rule")
    assert above == "Gate failed: 13 rules (1 failed, 12 passed)"
    assert heading.split() == ["rule", "result", "value", "limit"]
    assert rows(table)[0] == ["max_unsupported_share", "failed", "56.0%", "<= 10.0%"]
    assert more == "... 3 more"
    assert repr(Gate(tuple(results[:1]))).startswith("Gate passed: 1 rule (1 passed)\n")
    assert made(["a", "b", "c"]).check({"must_be_informative": ["a"]}) in [
        made(["a", "b", "c"]).check({"must_be_informative": ["a"]})
    ]  # it is still a value


@pytest.mark.parametrize("name", ["a" * 300, "a\nb", "$x$", "\u202eright to left", ""])
def test_no_name_breaks_the_lines(name):
    audit = made([name, "b", "c"], informative=[0, 1, 0])
    for result in (audit, audit.tested_scores, audit.check({"must_be_informative": ["b"], "must_not_matter": ["c"]})):
        fits(repr(result))
        assert "\u202e" not in repr(result)


def test_a_thousand_features_are_as_short_as_ten():
    audit = made([f"feature {k}" for k in range(1000)], n_permutations=5)
    assert len(repr(audit)) < 1500
    assert repr(audit).endswith("... 990 more")
    assert len(repr(audit.tested_scores)) < 1500


def test_columns_give_way_by_importance():
    widths = {"reported": 10, "share": 10, "mdi_oob": 10, "z": 5, "verdict": 20}
    assert columns_that_fit(widths, 55) == list(widths)
    assert columns_that_fit(widths, 54) == ["reported", "share", "z", "verdict"]
    assert columns_that_fit(widths, 44) == ["reported", "share", "verdict"]
    assert columns_that_fit(widths, 35) == ["share", "verdict"]
    assert columns_that_fit(widths, 3) == ["verdict"]
    assert columns_that_fit({}, 3) == []


def test_a_representation_computes_nothing_that_can_fail():
    """Scores made by hand may have empty settings."""
    assert repr(replace(drawn(0).tested_scores, settings={})).startswith("Scores mdi_oob: ")


@pytest.mark.parametrize("name", ["before", "p_adjusted", "shift"])
def test_a_number_that_is_not_known_is_a_dash(name):
    assert cells(name, [np.nan, 0.5])[0] == "-"
    assert "0.5" in cells(name, [np.nan, 0.5])[1]
    assert cells(name, [np.nan, np.nan]) == ["-", "-"]


def test_columns_of_very_large_or_small_numbers_have_exponents():
    assert cells("mdi_oob", [34_391_759_060, -46_312_209]) == ["3.439e+10", "-4.631e+07"]
    assert cells("mdi_oob", [99_999_999, 1.2]) == ["99,999,999", "1"]
    assert cells("mdi_oob", [1.234e-9, 0.0]) == ["1.234e-09", "0.000e+00"]
