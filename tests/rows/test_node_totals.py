"""Node sums: the same with any number of threads, and made only for scorers that read them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import debias
from debias.data.response import Response, encode
from debias.data.table import Table
from debias.rows.node_totals import NodeTotals
from debias.rows.rows import Rows
from debias.testing.scorers import TASKS, toy_rows
from debias.trees.routing import route


def drawn(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).astype(np.float32)
    return X, np.digitize(X[:, 0] + rng.normal(size=n_rows), [-0.5, 0.5])


@pytest.mark.parametrize("kind", [RandomForestClassifier, XGBClassifier])
def test_threads_do_not_change_sums_at_known_leaves(kind):
    X, y = drawn(400)
    ensemble = debias.plugin.extract(kind(n_estimators=7, max_depth=4, n_jobs=1).fit(X, y))
    left_out = np.random.default_rng(1).random((ensemble.n_trees, len(X))) < 0.3
    leaves = route(ensemble, X, in_bag=left_out)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(X))
    one, two = NodeTotals(ensemble), NodeTotals(ensemble)
    one.add(leaves, encode(y, ensemble, len(X)), weight, n_jobs=1)
    two.add(leaves, encode(y, ensemble, len(X)), weight, n_jobs=2)
    for name in ("n", "s", "q"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_allclose(one.n_root, ~left_out @ weight)


def test_the_running_loss_is_made_with_node_sums_only_if_a_scorer_reads_them(monkeypatch):
    X, y = drawn(400)
    model = XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y)
    fresh, labels = drawn(300, seed=1)
    passes = []
    route_blocks = Rows.blocks_to_route
    monkeypatch.setattr(Rows, "blocks_to_route", lambda *args, **how: passes.append(1) or route_blocks(*args, **how))
    alone = {name: debias.score(model, fresh, labels, name, rows="held-out") for name in ("mdi_oob", "oob_loss")}
    assert len(passes) == 1  # node sums and predictions are of the pass that looks for training rows
    both = debias.audit(model, fresh, labels, list(alone), rows="held-out", test=None)
    assert len(passes) == 2  # the reported importance on these rows and its error have a pass over groups of rows
    np.testing.assert_array_equal(both.scores["oob_loss"].values, alone["oob_loss"].values)
    np.testing.assert_allclose(both.scores["mdi_oob"].values, alone["mdi_oob"].values, rtol=1e-9)

    def refuse(*args, **kwargs):
        raise AssertionError("no scorer reads node sums")

    monkeypatch.setattr(NodeTotals, "add", refuse)
    monkeypatch.setattr(NodeTotals, "add_routed", refuse)
    debias.score(model, fresh, labels, "oob_loss", rows="held-out")


def test_an_audit_routes_out_of_bag_rows_once_and_keeps_their_leaves(monkeypatch):
    X, y = drawn(400)
    forest = RandomForestClassifier(10, n_jobs=1, random_state=0).fit(X, y)
    passes, rows_of_audit = [], []
    route_blocks = Rows.blocks_to_route

    def counted(rows, *args, **how):
        passes.append(1)
        rows_of_audit.append(rows)
        return route_blocks(rows, *args, **how)

    monkeypatch.setattr(Rows, "blocks_to_route", counted)
    audit = debias.audit(forest, X, y, ["mdi_oob", "ufi"], rows="oob", test=None)
    assert len(passes) == 1
    assert audit.performance.value is not None
    rows = rows_of_audit[0]
    (kept,) = rows.leaf_blocks()
    assert kept[0] == slice(0, len(X))
    assert (kept[1] == route(rows.ensemble, X, in_bag=rows.in_bag.not_evaluated(0, len(X)))).all()
    for trees in (slice(0, 10), slice(3, 7)):
        found = rows.leaves_in(trees)
        np.testing.assert_array_equal(found, kept[1][:, trees])
        rows._found_leaves = None
        np.testing.assert_array_equal(rows.leaves_in(trees), found)
        rows._found_leaves = [kept]
    monkeypatch.setattr("debias.rows.rows.LEAVES_KEPT", 100)
    again = debias.audit(forest, X, y, ["mdi_oob", "ufi"], rows="oob", test=None)
    assert rows_of_audit[-1]._found_leaves is None
    for name in ("mdi_oob", "ufi"):
        np.testing.assert_array_equal(again.scores[name].values, audit.scores[name].values)


@pytest.mark.parametrize("kind", [RandomForestClassifier, XGBClassifier])
def test_sums_take_arrays_of_any_real_type_and_none_that_do_not_fit(kind):
    X, y = drawn(200)
    ensemble = debias.plugin.extract(kind(n_estimators=4, max_depth=3, n_jobs=1).fit(X, y))
    leaves, response, weight = route(ensemble, X), encode(y, ensemble, len(X)), np.arange(200.0)
    one, two = NodeTotals(ensemble), NodeTotals(ensemble)
    one.add(leaves, response, weight)
    two.add(leaves.astype(np.int64), response, weight.astype(np.float32))
    np.testing.assert_array_equal(one.s, two.s)
    beyond = leaves.copy()
    beyond[7, 1] = 10**6
    short = response.part(slice(0, 3))
    faulty = [
        ((beyond, response, weight), "nodes that their trees do not have"),
        ((leaves - 9, response, weight), "nodes that their trees do not have"),
        ((leaves[:, :2], response, weight), "leaves are an array"),
        ((leaves, response, weight[:3]), "leaves are an array"),
        ((leaves, response, weight[:, None]), "each row must have a weight"),
        ((leaves, short, weight), "each row must have a weight"),
    ]
    if response.values is None:
        faulty.append(((leaves, Response(codes=response.codes + 1, values=None), weight), "codes .* from 0 to 2"))
        faulty.append(((leaves, Response(codes=None, values=np.ones((200, 3))), weight), "has no codes"))
    for arguments, message in faulty:
        with pytest.raises(debias.RowsError, match=message):
            one.add(*arguments)
    with pytest.raises(debias.RowsError, match="trees must be numbers from 0 to"):
        one.add(leaves[:, :1], response, weight, trees=np.array([ensemble.n_trees]))
    np.testing.assert_array_equal(one.s, two.s)


@pytest.mark.parametrize("task", TASKS)
def test_rows_made_by_hand_must_fit(task):
    rows = toy_rows(task)
    expected = rows.node_sums.s
    same = replace(rows, weight=rows.weight.astype(np.float32))
    np.testing.assert_array_equal(same.node_sums.s, expected)
    faulty = {
        "each row must have a response and a weight": {"weight": np.ones(3)},
        "X has 2 features": {"table": Table(np.zeros((rows.n_rows, 2)))},
        "in_bag has 3 rows": {"in_bag": debias.plugin.InBag.from_rows([np.arange(2)] * rows.ensemble.n_trees, 3)},
        "and 1 trees": {"in_bag": debias.plugin.InBag.from_rows([np.arange(2)], rows.n_rows)},
    }
    for message, changes in faulty.items():
        with pytest.raises(debias.RowsError, match=message):
            replace(rows, **changes)
