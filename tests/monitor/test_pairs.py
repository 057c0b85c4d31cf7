"""Named pairs in a history: whether the response to what the model does with two features together changed."""

import dataclasses
import pickle
import sqlite3
import warnings
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestRegressor

import debias
from debias.errors import CompositionError, HistoryError, PolicyError
from debias.models.wrappers import unwrap
from debias.monitor.reading import NamedPairs, OwnModel
from debias.monitor.records import FORMAT, SUMS
from debias.results.changes import Changes
from debias.results.fleet import Findings
from debias.rows.pair_sums import OF_PAIRS
from debias.rows.period_sums import PeriodSums
from debias.rows.sealed import seal, unseal

from .conftest import FIRST

PAIRS = [("a", "b"), ("c", "a")]
N_DAYS, TURN = 20, 10


def day(number, together=1.0, alone=1.0, moved=0.0, n_rows=60):
    rng = np.random.default_rng([41, number])
    X = pd.DataFrame(rng.standard_normal((n_rows, 4)), columns=list("abcd"))
    X["a"] += moved
    y = alone * X["a"] + X["b"].abs() + X["c"] + 1.5 * together * X["a"] * X["b"] + 0.5 * rng.standard_normal(n_rows)
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def product():
    return GradientBoostingRegressor(n_estimators=60, max_depth=3, random_state=0).fit(*day(1000, n_rows=800))


def filled(model, path, pairs=PAIRS, numbers=range(N_DAYS), **later):
    history = debias.History(model, path, interactions=pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)  # of a shift, on some days
        for number in numbers:
            history.add(*day(number, **(later if number >= TURN else {})), at=FIRST + timedelta(number))
    return history


def compared(history, **settings):
    return history.changes(**({"recent": TURN, "reference": TURN} | settings))


@pytest.fixture(scope="module")
def faded(product, tmp_path_factory):
    """From day 10 on, a and b do nothing together."""
    return filled(product, tmp_path_factory.mktemp("faded") / "model.history", together=0.0).path


@pytest.mark.thorough
def test_a_pair_that_does_nothing_together_any_more_has_faded(faded):
    changes = compared(debias.History.open(faded))
    found = changes.pairs
    frame = found.to_frame()
    assert frame.index.names == ["feature", "other"]
    assert list(frame.index) == [("a", "b"), ("a", "c")]  # in the order of the columns, the strongest evidence first
    assert list(frame["verdict"]) == ["faded", "no change detected"]
    assert 0.7 < frame["slope_before"].iloc[0] < 1.6  # the model has learned a part of it
    assert abs(frame["slope_after"].iloc[0]) < 0.1
    sentences = " ".join(changes.summary())
    assert "together changed for 1 of 2 tested pairs: a with b (faded; slope" in sentences


@pytest.mark.thorough
@pytest.mark.parametrize("later", [{"alone": -1.0}, {"moved": 0.4}, {}])
def test_nothing_together_changes_if_one_effect_or_the_rows_do(product, path, later):
    found = compared(filled(product, path, **later)).pairs
    assert [str(each) for each in found.verdict] == ["no change detected"] * 2
    assert found.kept[0]


@pytest.mark.thorough
def test_an_effect_that_turns_or_grows_is_told(product, path, tmp_path):
    turned = compared(filled(product, path, together=-1.0)).pairs
    assert str(turned.verdict[0]) == "faded"
    assert turned.statistics["slope_after"][0] < -0.6
    assert not turned.kept[0]
    grown = compared(filled(product, tmp_path / "grown.history", together=2.0)).pairs
    assert str(grown.verdict[0]) == "changed (stronger)"
    halved = compared(filled(product, tmp_path / "halved.history", together=0.5)).pairs
    assert str(halved.verdict[0]) == "changed (weaker)"


def sizes(found):
    """Return the numbers of periods and rows in which each pair was compared."""
    frame = found.to_frame()[["periods_before", "periods_after", "rows_before", "rows_after"]]
    return [tuple(row) for row in frame.to_numpy().tolist()]


def sums_of(path):
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT sums FROM parts").fetchall()
    database.close()
    return [unseal(sums, SUMS, FORMAT)[1] for (sums,) in rows]


@pytest.mark.thorough
def test_parts_late_labels_corrections_and_merging_give_the_same(product, faded, tmp_path):
    """As for the scores of features. Sums of parts are over the same rows, so they are equal up to rounding."""
    one, other = (debias.History(product, tmp_path / f"{name}.history", interactions=PAIRS) for name in "xy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        for number in range(N_DAYS):
            X, y = day(number, together=0.0 if number >= TURN else 1.0)
            at = FIRST + timedelta(number)
            if number % 3 == 0:  # rows wait for their responses
                one.add(X, at=at, part="x")
                one.add(X, y, at=at, part="x")
            elif number % 3 == 1:  # another machine has half of the day, and wrong rows were corrected
                one.add(X[:30], -y[:30], at=at, part="x")
                one.add(X[:30], y[:30], at=at, part="x", replace=True)
                other.add(X[30:], y[30:], at=at, part="y")
            else:
                other.add(X, y, at=at, part="y")
    one.merge(other.path)
    ours, whole = (compared(each).pairs for each in (one, debias.History.open(faded)))
    for name in ("slope_before", "slope_after", "error", "p_value"):
        np.testing.assert_allclose(ours.statistics[name], whole.statistics[name], rtol=1e-6)
    for each in (ours, whole):
        assert sizes(each) == [(10, 10, 600, 600)] * 2


@pytest.mark.thorough
def test_scores_do_not_depend_on_pairs(product, faded, tmp_path):
    plain = filled(product, tmp_path / "plain.history", pairs=None, together=0.0)
    pd.testing.assert_frame_equal(plain.scores(), debias.History.open(faded).scores())
    ours, other = compared(plain), compared(debias.History.open(faded))
    assert ours.pairs is None
    pd.testing.assert_frame_equal(ours.to_frame(), other.to_frame())
    assert not {*OF_PAIRS} & {name for state in sums_of(plain.path) for name in state}


@pytest.mark.thorough
def test_periods_that_lack_pairs_are_told_and_completed(product, path):
    filled(product, path, pairs=None, together=0.0)
    filled(product, path, numbers=range(TURN + 1, N_DAYS), together=0.0)  # the same rows, now with pairs
    found = compared(debias.History.open(path)).pairs
    assert found.not_tested_because == (
        "the reference window has 0 periods with sums for these pairs, and 8 are needed (10 reference periods without "
        "sums for these pairs)"
    )
    assert {str(each) for each in found.verdict} == {"not compared"}
    assert "No pair of features was tested: the reference window has 0 periods" in " ".join(found.summary())
    assert "two features together: the reference window has 0 periods" in " ".join(
        Findings.of(compared(debias.History.open(path))).not_judged()
    )
    history = filled(product, path, numbers=range(TURN), together=0.0)
    fewer = compared(history)
    assert sizes(fewer.pairs) == [(10, 9, 600, 540)] * 2
    assert (
        "Compared in the periods with sums for them, 10 of 10 before and 9 of 10 recent ones: a with b, a with c."
    ) in " ".join(fewer.summary())
    assert [str(each) for each in compared(history).pairs.verdict] == ["faded", "no change detected"]
    assert not history.add(*day(3), at=FIRST + timedelta(3))  # nothing changes any more
    # Other pairs take the place of the first ones, from now on.
    assert debias.History(product, path, interactions=[("b", "c")]).add(*day(3), at=FIRST + timedelta(3))


def test_periods_of_whose_rows_some_have_no_pairs_have_none(product, path):
    X, y = day(0)
    debias.History(product, path).add(X[:30], y[:30], at="2026-01-01", part="x")
    debias.History(product, path, interactions=PAIRS).add(X[30:], y[30:], at="2026-01-01", part="y")
    debias.History(product, path, interactions=PAIRS).add(*day(1), at="2026-01-02")
    found = debias.History.open(path).changes(recent=1, reference=1).pairs
    assert found.not_tested_because == (
        "the reference window has 0 periods with sums for these pairs, and 8 are needed (1 reference period without "
        "sums for these pairs, 1 of them because some of their rows have none)"
    )


def test_pairs_of_no_complete_period_are_told(product, path):
    """A machine that names no pairs must not silence those of the others."""
    for number in (0, 1):
        X, y = day(number)
        at = FIRST + timedelta(number)
        debias.History(product, path).add(X[:30], y[:30], at=at, part="x")
        debias.History(product, path, interactions=PAIRS).add(X[30:], y[30:], at=at, part="y")
    changes = debias.History.open(path).changes(recent=1, reference=1)
    assert [str(each) for each in changes.pairs.verdict] == ["not compared"] * 2
    assert "1 of them because some of their rows have none" in " ".join(changes.summary())
    assert Changes.from_json(changes.to_json()).to_json() == changes.to_json()


@pytest.mark.thorough
def test_a_part_without_pairs_takes_its_period_out_and_is_told(product, path, faded):
    history = filled(product, path, together=0.0)
    debias.History(product, path).add(*day(50), at=FIRST + timedelta(3), part="late rows")
    found = compared(history)
    assert sizes(found.pairs) == [(9, 10, 540, 600)] * 2
    told = " ".join(found.summary())
    assert "In 1 period, some of the rows have no sums for pairs" in told
    assert "Name the same interactions wherever rows of a period are added." in told


@pytest.mark.thorough
def test_a_pair_that_is_named_later_leaves_the_first_one_tested(product, path, tmp_path):
    one, both = [("a", "b")], [("a", "c"), ("a", "b")]
    filled(product, path, pairs=one, numbers=range(TURN), together=0.0)
    history = filled(product, path, pairs=both, numbers=range(TURN, N_DAYS), together=0.0)
    found = compared(history)
    # As if the later one had never been named: its interaction belongs to the rest of the output.
    alone = compared(filled(product, tmp_path / "alone.history", pairs=one, together=0.0)).pairs.to_frame()
    frame = found.pairs.to_frame()
    pd.testing.assert_frame_equal(frame.loc[[("a", "b")]], alone, rtol=1e-6)
    assert list(frame["verdict"]) == ["faded", "not compared"]
    assert sizes(found.pairs) == [(10, 10, 600, 600), (0, 10, 0, 600)]
    assert found.pairs.not_tested_because is None
    assert (
        "Not every pair was tested: a with c, because the reference window has 0 periods with sums for these pairs"
    ) in " ".join(found.summary())
    assert "two features together: a with c, because" in " ".join(Findings.of(found).not_judged())
    gate = found.check({"pairs_must_not_fade": [["a", "c"], ["a", "b"]]})
    assert [result.status for result in gate.results] == ["not judged", "failed"]
    assert "the reference window has 0 periods" in gate.results[0].reason
    assert Changes.from_json(found.to_json()).to_json() == found.to_json()
    # Where every period has both, each is compared beside the other.
    whole = compared(filled(product, tmp_path / "both.history", pairs=both, together=0.0)).pairs.to_frame()
    assert list(whole["verdict"]) == ["faded", "no change detected"]


def test_json_html_and_the_terminal_have_the_pairs(faded, tmp_path, capsys):
    from rich.console import Console

    from debias.results.console import print_changes

    changes = compared(debias.History.open(faded))
    again = Changes.from_json(changes.to_json())
    pd.testing.assert_frame_equal(again.pairs.to_frame(), changes.pairs.to_frame())
    assert again.to_json() == changes.to_json()
    text = changes.to_json().replace('"p_lost"', '"lost"')
    with pytest.raises(debias.DebiasError, match=r"pairs\.statistics"):
        Changes.from_json(text)
    changes.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Two features together" in page
    assert Findings.of(changes).reasons()[-1] == "the response follows these together less: a with b"
    assert "a with b" in page
    print_changes(Console(width=160), changes)
    shown = capsys.readouterr().out
    assert "slope recently" in shown
    assert "a with c" in shown


@pytest.mark.thorough
def test_rows_that_moved_are_named_beside_a_pair_that_changed(product, path, faded):
    said = "Shifted rows may be the reason for a with b, if the model has another shape than the response."
    changes = compared(filled(product, path, together=0.0, moved=0.6))
    assert said in changes.summary()
    (result,) = changes.check({"pairs_must_not_fade": [["a", "b"]]}).results
    assert result.reason.endswith("; rows shifted at the splits on a, which may be the reason")
    assert said not in compared(debias.History.open(faded)).summary()


def test_a_pair_that_is_no_longer_distinguishable_is_named(faded):
    changed = compared(debias.History.open(faded)).pairs
    values = {"p_before": [0.001, 0.5], "p_after": [0.2, 0.5], "p_adjusted": [0.8, 0.9], "slope_after": [-0.001, 0.0]}
    statistics = changed.statistics | {name: np.array(each) for name, each in values.items()}
    pairs = dataclasses.replace(changed, statistics=statistics)
    assert pairs.summary() == [
        "No change of the response to what the model does with two features together was detected for any of 2 tested "
        "pairs.",
        "No longer distinguishable from noise, without a change that is more than chance: a with b. The recent window "
        "may be too short to show it.",
    ]
    assert " before, 0.00 recently" in pairs.in_words(0)


def test_the_gate_judges_pairs(faded):
    changes = compared(debias.History.open(faded))
    gate = changes.check({"pairs_must_not_fade": [["b", "a"], ["c", "d"], ["a", "B"]]})
    assert [str(result.status) for result in gate.results] == ["failed", "not judged", "failed"]
    assert gate.results[0].rule == "pairs_must_not_fade: b with a"
    assert "slope" in gate.results[0].reason
    # The shell shows this too, where arguments have other names.
    assert gate.results[1].reason == "the last periods have no sums for this pair: name it when adding rows"
    assert gate.results[2].value == "not in the model"
    assert gate.results[2].reason == "the model has no feature B, but it has 'b'"
    assert [str(result.status) for result in changes.check({"pairs_must_not_fade": "all"}).results][0] == "failed"


@pytest.mark.thorough
def test_the_gate_passes_a_pair_that_is_kept(product, path):
    changes = compared(filled(product, path))
    (result,) = changes.check({"pairs_must_not_fade": [["a", "b"]]}).results
    assert str(result.status) == "passed"
    (of_all,) = changes.check({"pairs_must_not_fade": "all"}).results  # a and c never did anything together
    assert (of_all.rule, str(of_all.status)) == ("pairs_must_not_fade: a with b", "passed")
    at_any = compared(debias.History.open(path), looks="any", reference=("2026-01-01", "2026-01-10"))
    assert at_any.pairs is None
    (result,) = at_any.check({"pairs_must_not_fade": "all"}).results
    assert str(result.status) == "not judged"


@pytest.mark.parametrize("pairs", ["all of them", [["a", "a"]], [["a"]], ["a", "b"], [["a", "b"], ["b", "a"]], []])
def test_rules_that_name_no_pairs_are_refused(faded, pairs):
    with pytest.raises(PolicyError, match="pairs_must_not_fade must"):
        compared(debias.History.open(faded)).check({"pairs_must_not_fade": pairs})


@pytest.mark.parametrize("pairs", ["ab", [], [("a",)], [("a", "b", "c")], ["ab"], [("a", "a")], [("a", 1)], 5])
def test_what_names_no_pairs_is_refused(product, path, pairs):
    with pytest.raises(HistoryError, match="does not name pairs of two features"):
        debias.History(product, path, interactions=pairs)


def test_an_unknown_feature_is_refused_and_nothing_is_written(product, path):
    history = debias.History(product, path, interactions=[("a", "bb")])
    with pytest.raises(HistoryError, match=r"names 'bb', which is no column\. Did you mean 'b'\?"):
        history.add(*day(0), at="2026-01-01")
    with pytest.raises(HistoryError, match="names 'bb', which is no column"):
        history.add(day(0)[0], at="2026-01-01")  # before the responses come
    assert not path.exists()


def test_classes_are_refused(path):
    X, y = day(0)
    classifier = GradientBoostingClassifier(n_estimators=3).fit(X, y > 0)
    with pytest.raises(CompositionError, match=r"this one has classes.*debias\.interactions"):
        debias.History(classifier, path, interactions=PAIRS)
    robust = GradientBoostingRegressor(n_estimators=3, loss="absolute_error").fit(X, y)
    with pytest.raises(CompositionError, match="the loss 'absolute_error'"):
        debias.History(robust, path, interactions=PAIRS)


def test_forged_sums_for_pairs_are_damage(product, path):
    filled(product, path, numbers=range(2))
    with sqlite3.connect(path) as database:
        number, sums = database.execute("SELECT id, sums FROM parts").fetchone()
        facts, state = unseal(sums, SUMS, FORMAT)
        state["pair_sums"] = state["pair_sums"][:, :-1]
        database.execute("UPDATE parts SET sums = ? WHERE id = ?", (seal(SUMS, FORMAT, facts, state), number))
    database.close()
    with pytest.raises(HistoryError, match="pairs"):
        debias.History.open(path).changes(recent=1, reference=1)


@pytest.mark.thorough
def test_columns_behind_a_pipeline_are_those_of_the_user(path):
    """Two columns of categories become ten, and are named as they are."""
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    def rows(number, n_rows=80):
        rng = np.random.default_rng([5, number])
        X = pd.DataFrame({"shop": rng.choice(list("xyz"), n_rows), "size": rng.standard_normal(n_rows)})
        y = X["size"] * X["shop"].map({"x": 1.5, "y": 0.0, "z": -1.5}) + 0.3 * rng.standard_normal(n_rows)
        return X, y.to_numpy()

    encode = make_column_transformer((OneHotEncoder(), ["shop"]), remainder="passthrough")
    model = make_pipeline(encode, RandomForestRegressor(20, min_samples_leaf=3, random_state=0, n_jobs=1))
    model.fit(*rows(1000, 400))
    history = debias.History(model, path, interactions=[("size", "shop")])
    for number in range(16):
        X, y = rows(number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", debias.DebiasWarning)  # y goes down where predictions go up
            history.add(X, y if number < 8 else -y, at=number)
    found = history.changes(recent=8, reference=8).pairs
    assert found.pairs == (("shop", "size"),)
    assert str(found.verdict[0]) == "faded"
    assert found.statistics["slope_before"][0] > 0.5
    assert found.statistics["slope_after"][0] < -0.5


@pytest.mark.thorough
def test_too_few_rows_are_told(product, path):
    history = debias.History(product, path, interactions=PAIRS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)
        for number in range(16):
            history.add(*day(number, n_rows=10), at=number)
    found = history.changes(recent=8, reference=8).pairs
    assert "the reference window has 80 rows in these sums, and" in found.not_tested_because


def test_sums_are_sent_to_other_processes_with_the_pairs(product, path):
    """Partitions of a cluster are added up there, and the states come back."""
    own = OwnModel(product, None, 0, 0, (("b", "a"),))
    X, y = day(0)
    sums = PeriodSums(own.ensemble, loss_rows=0)
    sums.watch(NamedPairs(unwrap(product)[0].at("source", None), (("b", "a"),)))
    sent = pickle.loads(pickle.dumps(sums.empty()))
    sent.model = product
    sent.update(X, y)
    here, _ = own.read(X, y, None, "held-out")
    np.testing.assert_array_equal(sent.pairs.pairs, [[0, 1]])
    np.testing.assert_allclose(sent.pairs.products, here.pairs.products, rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
def test_batches_of_a_period_are_added(product, path):
    history = debias.History(product, path, interactions=PAIRS)
    X, y = day(0, n_rows=600)
    batches = [(X[begin : begin + 200], y[begin : begin + 200]) for begin in (0, 200, 400)]
    history.add(iter(batches), at=0)
    assert sums_of(path)[0]["pair_rows"] == [600]


def test_batches_of_weight_0_change_nothing(product, path):
    X, y = day(0, n_rows=300)
    history = debias.History(product, path, interactions=PAIRS)
    nothing = (X[:100], y[:100], np.zeros(100))
    history.add([nothing, (X[100:], y[100:], np.ones(200)), nothing], at=0)
    with pytest.warns(debias.DebiasWarning, match="period 1 has the same rows as period 0"):
        history.add(X[100:], y[100:], at=1)
    found = debias.History.open(path).changes(recent=1, reference=1).pairs
    assert sizes(found) == [(1, 1, 200, 200)] * 2
