"""Held-out rows that may contain training rows: the result says so wherever it is read."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from xgboost import XGBRegressor

import debias


def squared(y, margin):
    """An objective of the user's own: XGBoost stores its hessians, but nobody knows them for other rows."""
    return margin - y, np.ones_like(margin)


@pytest.fixture(scope="module")
def of_custom_loss(diabetes):
    X, y = diabetes
    model = XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1, objective=squared, base_score=float(y.mean()))
    return model.fit(X[:300], y[:300]), X, y


@pytest.mark.parametrize("of_training", [True, False])
def test_boosters_need_the_users_word(of_custom_loss, of_training):
    model, X, y = of_custom_loss
    rows = slice(0, 300) if of_training else slice(300, None)
    with pytest.raises(debias.ProvenanceError, match="cannot check whether these rows contain training rows"):
        debias.audit(model, X[rows], y[rows])


@pytest.mark.thorough
def test_what_is_not_known_of_the_rows_is_said_everywhere(of_custom_loss):
    model, X, y = of_custom_loss
    audit = debias.audit(model, X[300:], y[300:], rows="held-out")
    unknown = "it is not known whether some of these rows are training rows"
    assert unknown in audit.tested_scores.unproven_because
    assert f"{audit!r} {audit.tested_scores!r}".count("142 assumed held-out rows") == 2
    assert ", if none of the rows is a training row" in audit.summary()[0]
    assert "on these 142 rows, if none of them is a training row and rows are independent." in audit.test_summary()
    assert audit.summary()[-1].startswith(f"Scored on 142 assumed held-out rows: {unknown}")
    assert "unproven_because" not in audit.to_frame()
    told = pd.read_csv(io.StringIO(audit.to_csv()))["unproven_because"].tolist()
    assert told == [audit.tested_scores.unproven_because] * audit.share.size
    written = json.loads(audit.to_json())
    assert written["provenance"]["status"] == "cannot be told"
    assert unknown in written["provenance"]["detail"]
    assert (
        debias.Audit.from_json(audit.to_json()).tested_scores.unproven_because == audit.tested_scores.unproven_because
    )
    assert "assumed held-out" in audit.to_html()
    assert unknown in audit._repr_html_()
    (rule,) = [each for each in audit.check({"min_rows": 1}).results if each.rule == "min_provenance"]
    assert (rule.status, rule.value) == ("passed", "unknown")
    assert unknown in rule.reason
    assert not audit.check({"min_provenance": "checked"}).passed


@pytest.mark.thorough
def test_rows_that_were_checked_are_not_called_assumed(diabetes):
    X, y = diabetes
    model = XGBRegressor(n_estimators=20, max_depth=6, n_jobs=1).fit(X[:250], y[:250])
    audit = debias.audit(model, X[250:], y[250:])
    assert audit.provenance["status"] == "not recognised as training rows"
    assert audit.tested_scores.unproven_because is None
    assert "unproven_because" not in audit.to_csv()
    assert "assumed" not in audit.to_html() + " ".join(audit.summary())
