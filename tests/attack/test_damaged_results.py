"""Damaged files of what debias itself writes: a history and audits. Reading one gives an answer or a clear error."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_validate
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

import debias
from support import mutants

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The bytes of a history of four days and of an audit of folds, and how each is read."""
    with threadpool_limits(1):
        home = tmp_path_factory.mktemp("results")
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        tree = DecisionTreeRegressor(max_leaf_nodes=4, random_state=0)
        history = debias.History(tree.fit(X[:200], y[:200]), home / "tree.history")
        for number in range(4):
            part = slice(200 + 60 * number, 260 + 60 * number)
            history.add(X[part], y[part], at=f"2026-11-{number + 1:02}")
        results = cross_validate(tree, X, y, cv=3, return_estimator=True, return_indices=True)
        folds = debias.audit_folds(results, X, y, test=debias.Permutation(20))

        def of_history(data):
            (home / "damaged.history").write_bytes(data)
            read = debias.History.open(home / "damaged.history")
            return mutants.answer_of([read.scores().to_numpy(), read.changes(2).to_frame()["p_value"].to_numpy()])

        def of_folds(data):
            read = debias.FoldsAudit.from_json(data)
            return mutants.answer_of([read.mean, np.array(read.verdict)])

        def of_audit(data):
            read = debias.Audit.from_json(data)
            return mutants.answer_of([read.share, np.array(read.verdict)])

        yield {
            "history": ((home / "tree.history").read_bytes(), of_history),
            "folds": (folds.to_json().encode(), of_folds),
            "audit": (folds.first.to_json().encode(), of_audit),
        }


@pytest.mark.parametrize("name", ["history", "folds", "audit"])
def test_no_mutant_harms(made, name, count):
    data, read = made[name]
    half = count // 2
    damaged = mutants.damaged(data, half, seed=18)
    if name == "history":
        damaged += mutants.damaged_numbers(data, half, seed=19)
    else:
        documents = mutants.damaged_documents(json.loads(data), half, seed=19)
        damaged += [json.dumps(document).encode() for document in documents]
    table = mutants.run(damaged, read, original=data, name=name)
    print(f"\n{mutants.Table.heading()}\n{table}")
    table.require()
