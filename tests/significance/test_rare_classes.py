"""Tests of verdicts when so few rows of a class are evaluated that no test could reject."""

from __future__ import annotations

import io

import numpy as np
import pytest
import sklearn
from rich.console import Console
from scipy.special import stdtr
from sklearn.ensemble import RandomForestClassifier

import debias
from debias.results.console import print_audit
from debias.significance.rare_classes import FEWEST_CARRIERS, FEWEST_FOR_T, OutOfBagClasses, too_rare_for_t

pytestmark = [
    pytest.mark.filterwarnings("ignore:about .* rows (are|may be) training rows:debias.DebiasWarning"),
    pytest.mark.filterwarnings("ignore:shift:debias.DebiasWarning"),
]
draws_by_weight = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="scikit-learn draws rows by class weight from version 1.9 on",
)


def rows(n, n_rare, seed=0, third=False):
    """Return rows of which the largest values of the first feature are the rare class."""
    X = np.random.default_rng(seed).normal(size=(n, 4))
    y = np.zeros(n, dtype=int)
    y[np.argsort(-X[:, 0])[:n_rare]] = 1
    if third:
        y[(y == 0) & (X[:, 1] > 0)] = 2
    return X, y


def balanced(X, y, class_weight="balanced", n_trees=50, seed=0):
    return RandomForestClassifier(n_trees, random_state=seed, class_weight=class_weight, max_features=None).fit(X, y)


@pytest.fixture(scope="module")
def unseen():
    """The audit of a class of 1 in 100, which is never out of bag."""
    X, y = rows(400, 4)
    with pytest.warns(debias.DebiasWarning, match="nothing was tested: rows of class 1 are never out of bag"):
        return debias.audit(balanced(X, y), X, y, random_state=0)


@draws_by_weight
def test_a_class_that_is_never_out_of_bag_gives_no_verdict(unseen):
    assert set(unseen.verdict) == {"untested"}
    assert unseen.unsupported_share is None
    assert len(unseen.warnings) == 1
    assert unseen.untested_because.startswith("rows of class 1 are never out of bag, and those of another class")
    assert unseen.untested_because.endswith("Pass rows the model has not seen, with rows='held-out'")


@draws_by_weight
def test_the_reason_comes_first_everywhere(unseen):
    reason = unseen.untested_because
    first, *_, shares = unseen.summary()
    (scored_on,) = (sentence for sentence in unseen.summary() if sentence.startswith("Scored on"))
    assert first == unseen.test_summary() == f"No feature was tested: {reason}."
    n_rows = unseen.tested_scores.n_rows  # a few may be in every bag
    assert scored_on.startswith(f"Scored on {n_rows} out-of-bag rows")
    assert shares == "The scores and shares of these rows say nothing about the features."
    text = io.StringIO()
    print_audit(Console(file=text, width=100), unseen)
    assert text.getvalue().startswith("No feature was tested: rows of class 1")
    page = unseen.to_html()
    headline = page.index("No feature was tested: these rows can tell nothing about the features.")
    assert headline < page.index("never out of bag") < page.index(f"Scored on {n_rows}")
    gate = unseen.check({"max_unsupported_share": 0.5})
    assert not gate.passed
    assert gate.results[0].reason.startswith("rows of class 1 are never out of bag")
    again = debias.Audit.from_json(unseen.to_json())
    assert again.summary() == unseen.summary()


def test_other_untested_audits_begin_with_the_reason_too():
    X, y = rows(200, 60)
    audit = debias.audit(balanced(X, y, None, 10), X, y, test=None)
    assert audit.summary()[0] == audit.test_summary()
    n_rows = audit.tested_scores.n_rows  # a few may be in all ten bags
    assert any(sentence.startswith(f"Scored on {n_rows} out-of-bag rows") for sentence in audit.summary())


@pytest.mark.parametrize("class_weight", [None, "balanced_subsample"])
def test_a_rare_class_that_is_out_of_bag_is_tested(class_weight):
    X, y = rows(400, 8)
    audit = debias.audit(balanced(X, y, class_weight), X, y, random_state=0)  # warnings are errors here
    assert audit.verdict[0] == "informative"


@draws_by_weight
def test_with_other_classes_verdicts_are_about_these():
    X, y = rows(400, 4, third=True)
    with pytest.warns(debias.DebiasWarning, match=r"of class 1 are never .* other classes only \(0, 2\), so a feature"):
        audit = debias.audit(balanced(X, y), X, y, random_state=0)
    assert audit.verdict[1] == "informative"
    assert audit.verdict[0] == "indistinguishable"  # it is the cause of class 1 only, as the warning says


@draws_by_weight
def test_a_class_that_is_sometimes_out_of_bag_is_tested_with_a_warning():
    X, y = rows(400, 40)
    with pytest.warns(debias.DebiasWarning, match=r"rows of class 1 are out of bag 0\.\d+% of the time"):
        audit = debias.audit(balanced(X, y, n_trees=100), X, y, random_state=0)
    assert audit.verdict[0] == "informative"


@pytest.mark.thorough
@draws_by_weight
def test_no_z_exceeds_the_square_root_of_the_number_of_rows_that_carry_it(monkeypatch):
    """The limit comes from this: the cause of a class has z = sqrt(m), and with m < 3 rows that is below 1.65."""
    monkeypatch.setattr(OutOfBagClasses, "no_verdict", lambda classes: seen.append(classes.effective.min()))
    monkeypatch.setattr(OutOfBagClasses, "warn", lambda classes, log: None)
    found = []
    for n_rare in (28, 30, 32, 34):
        X, y = rows(400, n_rare, seed=n_rare)
        seen = []
        with np.errstate(all="ignore"):
            audit = debias.audit(balanced(X, y, n_trees=100, seed=n_rare), X, y, scorers=[], random_state=0)
        if audit.tested:
            found.append((seen[0], audit.tested_scores.z.max()))
    number, z = np.array(found).T
    assert number.min() < FEWEST_CARRIERS < number.max()
    assert (z <= 1.05 * np.sqrt(number) + 0.01).all()
    assert (z[number < FEWEST_CARRIERS] < 1.645).all()


def test_the_fewest_rows_of_a_t_test_are_those_that_can_be_significant():
    """A t of sqrt(m) with m - 1 degrees of freedom is significant at 5 % from m = 5 on."""
    p = [stdtr(m - 1, -np.sqrt(m)) for m in range(2, 8)]
    assert np.argmax(np.array(p) <= 0.05) + 2 == FEWEST_FOR_T


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([100, 4], "there are 4 rows of class b, and with fewer than 5 a t-test at 5 % finds nothing"),
        ([100, 1, 3], "there are 3 rows of class c"),
        ([100, 1, 0], "there is 1 row of class b"),
        ([100, 5], None),
        ([100, 50, 1], None),
        ([100, 0, 0], None),
    ],
)
def test_classes_that_are_too_rare_for_a_t_test(counts, said):
    reason = too_rare_for_t(np.array(counts), np.array(["a", "b", "c"])[: len(counts)])
    assert reason is None if said is None else reason.startswith(said)


def held_out(n_rare, n=300):
    X, y = rows(2000, 60)
    new_X, new_y = rows(4000, 120, seed=1)
    chosen = np.r_[np.flatnonzero(new_y == 1)[:n_rare], np.flatnonzero(new_y == 0)[: n - n_rare]]
    return balanced(X, y, None), new_X[chosen], new_y[chosen]


@pytest.mark.filterwarnings("ignore:.*:debias.DebiasWarning")
def test_held_out_permutations_find_the_cause_of_a_single_row():
    """They are exact, and the z of permuted responses has the same bound. So they are not refused."""
    audit = debias.audit(*held_out(1), scorers=[], rows="held-out", random_state=0)
    assert audit.tested_scores.details["test"]["method"] == "permutation"
    assert audit.verdict[0] == "informative"


@pytest.mark.filterwarnings("ignore:.*:debias.DebiasWarning")
@pytest.mark.parametrize("how", ["naive", "blocks of several sizes", "batches"])
def test_a_t_test_of_four_rows_gives_no_verdict(how):
    for n_rare in (4, 5):
        model, X, y = held_out(n_rare)
        if how == "batches":
            scores = debias.score(model, [(X[:100], y[:100]), (X[100:], y[100:])], rows="held-out", test="auto")
        elif how == "naive":
            scores = debias.score(model, X, y, rows="held-out", test="naive")
        else:
            scores = debias.score(
                model, debias.Dataset(X, y, blocks=np.minimum(np.arange(300), 298)), rows="held-out", test="auto"
            )
        assert (scores.selected is None) == (n_rare < 5)
        assert scores.details.get("rows_tell_nothing", False) == (n_rare < 5)


@draws_by_weight
@pytest.mark.filterwarnings("ignore:.*:debias.DebiasWarning")
def test_dependence_is_not_tested_where_every_bag_has_one_class():
    """No line fits anything there: a z would be that of rounding."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    audit = debias.audit(balanced(X, y, {0: 1e-12, 1: 1.0}), X, y, rows="oob", random_state=0)
    of_dependence = audit.scores["honest_effects"]
    assert of_dependence.z is None
    assert np.ptp(of_dependence.values) == 0
    assert of_dependence.details["untested_because"].startswith("the response is the same in all rows of each bag")
    assert set(audit.to_frame()["dependence"]) == {"untested"}
    assert any("Dependence was not tested: the response is the same" in line for line in audit.summary())
