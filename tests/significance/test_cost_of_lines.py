"""What a test of dependence says of its cost, before it is long and in the result: operations are counted."""

import logging
import re
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.significance import permutation

N_ROWS, N_FEATURES, N_TREES = 300, 80, 60
FEW = 27
"""Half of log2(300) sqrt(80) times 60 trees, divided by 80 lines."""


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    y = X[:, 0] + rng.normal(size=N_ROWS)
    return RandomForestRegressor(N_TREES, max_features=8, random_state=0).fit(X, y), X, y


def audited(case, **given):
    return debias.audit(*case, rows="oob", random_state=0, **given)


def said_of(dependence, caplog, monkeypatch, case):
    """Return what was logged before the permutations, and the names of the tasks whose progress is shown."""
    tasks = []

    @contextmanager
    def task(what, total):
        tasks.append((what, [each.getMessage() for each in caplog.records]))
        yield lambda n=1: None

    monkeypatch.setattr(permutation, "task", task)
    with caplog.at_level(logging.INFO, logger="debias"):
        audited(case, dependence=dependence)
    return tasks


@pytest.mark.parametrize(("dependence", "n_trees"), [("auto", FEW), (True, N_TREES)], ids=["auto", "asked for"])
def test_a_long_test_says_beforehand_what_it_takes_and_what_was_chosen(dependence, n_trees, caplog, monkeypatch, case):
    monkeypatch.setattr(permutation, "SECONDS_A_STEP", 4e-7)
    *of_scores, (of_dependence, [said]) = said_of(dependence, caplog, monkeypatch, case)
    assert of_scores == [("permutations", [])] * 2  # of the scores, and of the rest together
    seconds, n_drawn, used, of, more = re.fullmatch(
        r"the test of dependence may take about ([\d,]+) s of processor time: ([\d,]+) permutations at most, with "
        r"lines in (\d+) of (\d+) trees(?: \(with dependence=True in (\d+)\))?\. "
        r"debias\.Permutation\(budget=60\.0\) as test limits the time; dependence=False leaves this test out of an "
        r"audit",
        said,
    ).groups()
    # A row is in the bag of a tree or is evaluated there, and every feature has one line.
    steps = N_ROWS * N_FEATURES * n_trees
    assert int(seconds.replace(",", "")) == pytest.approx(4e-7 * steps * 200, rel=0.05)
    assert (int(n_drawn), int(used), int(of)) == (200, n_trees, N_TREES)
    assert more == (str(N_TREES) if n_trees < N_TREES else None)
    assert of_dependence == f"permutations (about {seconds} s at most)"


def test_a_short_test_says_nothing(caplog, monkeypatch, case):
    assert said_of("auto", caplog, monkeypatch, case) == [("permutations", [])] * 3


@pytest.mark.thorough
def test_the_result_says_in_how_many_trees_lines_were_fitted(case):
    for dependence, used in (("auto", FEW), (True, N_TREES)):
        audit = audited(case, dependence=dependence)
        test = audit.scores["honest_effects"].details["test"]
        numbers = test["trees_of_lines"], test["trees"], test["most_trees_of_lines"]
        assert numbers == (used, N_TREES, N_TREES)
        (said,) = [line for line in debias.Audit.from_json(audit.to_json()).summary() if "combined test" in line]
        told = re.search(
            r", with lines in (\d+) of (\d+) trees( and standard errors only where lines score high)?; "
            r"dependence=True takes (\d+)( and all standard errors)?",
            said,
        )
        assert (told is None) == (used == N_TREES)
        if told:
            assert tuple(map(int, told.group(1, 2, 4))) == numbers
            assert [told[3] is not None, told[5] is not None] == [test["screened_lines"]] * 2


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ({"trees_of_lines": 33, "trees": 1040, "most_trees_of_lines": 33}, "with lines in 33 of 1,040 trees"),
        (
            {"trees_of_lines": 20, "trees": 100, "most_trees_of_lines": 60, "screened_lines": True},
            "with lines in 20 of 100 trees and standard errors only where lines score high; dependence=True takes 60 "
            "and all standard errors",
        ),
        (
            {"trees_of_lines": 20, "trees": 20, "most_trees_of_lines": 20, "screened_lines": True},
            "with standard errors only where lines score high; dependence=True takes all standard errors",
        ),
        ({"trees_of_lines": 20}, None),
        ({"trees_of_lines": 40, "trees": 40, "most_trees_of_lines": 40}, None),
    ],
    ids=["few for all", "few and screened", "screened", "older", "all"],
)
def test_the_result_names_no_choice_that_would_take_no_more_trees(case, test, said):
    audit = audited(case)
    scores = audit.scores["honest_effects"]
    for found in (scores.selected, np.zeros_like(scores.selected)):
        old = {
            key: value
            for key, value in scores.details["test"].items()
            if "trees" not in key and key != "screened_lines"
        }
        changed = replace(scores, selected=found, details={"test": {**old, **test}})
        (line,) = [
            line
            for line in replace(audit, scores={**audit.scores, "honest_effects": changed}).summary()
            if "combined test" in line
        ]
        assert ("dependence=True" in line) == (said is not None and "dependence=True" in said)
        assert (", with " in line) == (said is not None)
        assert said is None or f", {said}" in line
