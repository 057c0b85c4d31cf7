"""A verdict "untested" says why and what to do, wherever an audit is read."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRegressor

import debias
from debias.cli import main
from debias.results import untested
from debias.results.sentences import doubts
from debias.significance.residuals import NULL_HYPOTHESIS
from support.audits import made

pytestmark = pytest.mark.filterwarnings("ignore::debias.DebiasWarning")
CONSTANT = "every row has the response 1, so nothing can be told apart. Audit rows of two classes or more"


def forest(kind=RandomForestRegressor):
    return kind(5, random_state=0, max_depth=3)


@pytest.fixture(scope="module")
def halves(diabetes):
    X, y = diabetes
    return (X[:220], y[:220]), (X[220:], y[220:])


def voting(train, fresh):
    members = [("bagged", forest()), ("extra", forest(ExtraTreesRegressor))]
    return VotingRegressor(members).fit(*train), *fresh, {}


def soft_voting(train, fresh):
    members = [(f"member{k}", forest(RandomForestClassifier)) for k in range(7)]
    return VotingClassifier(members, voting="soft").fit(train[0], train[1] > 140), fresh[0], fresh[1] > 140, {}


def calibrated(train, fresh):
    model = CalibratedClassifierCV(forest(RandomForestClassifier), cv=3).fit(train[0], train[1] > 140)
    return model, fresh[0], fresh[1] > 140, {}


def several_outputs(train, fresh):
    model = MultiOutputRegressor(forest()).fit(train[0], np.stack([train[1], -train[1]], axis=1))
    return model, fresh[0], np.stack([fresh[1], -fresh[1]], axis=1), {}


def one_weighted(train, fresh):
    return StackingRegressor([("only", forest())], LinearRegression()).fit(*train), *fresh, {}


def stacked_classes(train, fresh):
    members = [("bagged", forest(RandomForestClassifier)), ("extra", forest(ExtraTreesClassifier))]
    return StackingClassifier(members, cv=2).fit(train[0], train[1] > 140), fresh[0], fresh[1] > 140, {}


def members_in_a_pipeline(train, fresh):
    return make_pipeline(StandardScaler(), voting(train, fresh)[0]).fit(*train), *fresh, {}


def votes_of_votes(train, fresh):
    inner = VotingRegressor([("a", forest()), ("b", forest(ExtraTreesRegressor))])
    return VotingRegressor([("c", inner), ("d", forest())]).fit(*train), *fresh, {}


def out_of_bag(train, fresh):
    return VotingRegressor([("one", forest()), ("other", forest())]).fit(*train), *train, {"rows": "oob"}


def stacked_out_of_bag(train, fresh):
    return StackingRegressor([("one", forest()), ("other", forest())]).fit(*train), *train, {"rows": "oob"}


def in_batches(train, fresh):
    return voting(train, fresh)[0], [fresh], None, {"rows": "held-out"}


def without_weight(train, fresh):
    model = one_weighted(train, fresh)[0]
    model.final_estimator_.coef_[:] = 0
    return model, *fresh, {}


def training_rows(train, fresh):
    return XGBRegressor(n_estimators=5).fit(*train), *train, {"rows": "train"}


def members_on_training_rows(train, fresh):
    members = [("one", XGBRegressor(n_estimators=5)), ("other", XGBRegressor(n_estimators=3))]
    return VotingRegressor(members).fit(*train), *train, {"rows": "train"}


def no_test(train, fresh):
    return forest().fit(*train), *train, {"test": None}


def no_test_of_training_rows(train, fresh):
    return XGBRegressor(n_estimators=5).fit(*train), *train, {"rows": "train", "test": None}


WHY = {
    stacked_out_of_bag: "the coefficients of this StackingRegressor were fitted to predictions of its members for "
    r"them\. Features of noise would be informative too often\. Pass rows the model has not seen, with rows='held-out'",
    in_batches: r"the 2 models inside this VotingRegressor are tested together on rows in memory, and these came in",
    without_weight: "every model inside this StackingRegressor has the weight 0, so no feature changes its predictions",
    training_rows: "these are training rows.*Audit rows the model has not seen",
    members_on_training_rows: "these are training rows.*Audit rows the model has not seen",
    no_test: r"no test was requested \(test=None\)\. Audit again with test='auto'",
    no_test_of_training_rows: "these are training rows.*Audit rows the model has not seen",
}


def read(csv):
    return pd.read_csv(io.StringIO(csv))


def says_why(audit, pattern):
    """Check that everything an audit is read from has the reason."""
    reason = audit.untested_because
    assert re.match(pattern, reason)
    assert set(audit.to_frame()["verdict"]) == {"untested"}
    assert "untested_because" not in audit.to_frame()  # it is the same for all features; a file says it in a column
    assert read(audit.to_csv())["untested_because"].tolist() == [reason] * audit.share.size
    with pytest.raises(debias.DebiasError, match="says of no feature whether it is informative") as error:
        audit.features  # noqa: B018  # an empty list would look like a reason to drop all features
    assert reason in str(error.value)
    assert audit.test_summary() == f"No feature was tested: {reason}."
    assert next(line for line in audit.summary() if line not in doubts(audit)) == audit.test_summary()
    assert (audit.tested, audit.unsupported_share) == (False, None)
    assert json.loads(audit.to_json())["untested_because"] == reason
    again = debias.Audit.from_json(audit.to_json())
    assert again.untested_because == reason
    assert again.to_json() == audit.to_json()


@pytest.mark.parametrize("case", WHY, ids=lambda case: case.__name__)
def test_every_case_says_why_and_what_to_do(case, halves):
    model, X, y, given = case(*halves)
    audit = debias.audit(model, X, y, **(given or {"rows": "held-out"}))
    says_why(audit, WHY[case])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case",
    [
        voting,
        soft_voting,
        calibrated,
        several_outputs,
        one_weighted,
        stacked_classes,
        members_in_a_pipeline,
        votes_of_votes,
    ],
    ids=lambda case: case.__name__,
)
def test_models_around_several_are_tested(case, halves):
    model, X, y, _ = case(*halves)
    audit = debias.audit(model, X, y, rows="held-out")
    assert (audit.tested, audit.untested_because) == (True, None)
    assert set(audit.to_frame()["verdict"]) <= {"informative", "indistinguishable"}
    assert "bmi" in audit.features
    text = " ".join(audit.summary())
    assert "No feature was tested" not in text
    n_inside = len(audit.tested_scores.details.get("members", [0]))
    assert f"permutations of residuals{f' of {n_inside} models together' * (n_inside > 1)}, family" in text
    test = audit.tested_scores.details["test"]
    assert (test["method"], test["null_hypothesis"]) == ("residuals", NULL_HYPOTHESIS)
    assert debias.Audit.from_json(audit.to_json()).to_json() == audit.to_json()
    assert audit.performance.better_than_constant
    assert "No feature was tested" not in audit.to_html()


def test_forests_are_tested_together_out_of_bag(halves):
    model, X, y, given = out_of_bag(*halves)
    audit = debias.audit(model, X, y, **given)
    assert "bmi" in audit.features
    assert "permutations of 2 models together, family" in " ".join(audit.summary())


def test_the_scores_of_several_are_tested_where_their_residuals_cannot_be(halves):
    model, X, y, _ = soft_voting(*halves)
    y = y.to_numpy(copy=True)
    y[np.flatnonzero(y)[8:]] = False
    test = debias.audit(model, X, y, rows="held-out").tested_scores.details["test"]
    assert (test["method"], test["models"]) == ("permutation", 7)
    assert test["scores_tested_because"] == "fewer than 10 rows are outside the largest class"


def test_a_gate_judges_a_vote(halves):
    model, X, y, _ = voting(*halves)
    audit = debias.audit(model, X, y, rows="held-out")
    results = audit.check({"must_predict": True, "must_be_informative": ["bmi"]}).results
    assert {result.rule: result.status for result in results}["must_predict"] == "passed"


def test_the_page_says_why(halves):
    from html import unescape

    model, X, y, given = in_batches(*halves)
    audit = debias.audit(model, X, y, **given)
    assert unescape(audit.to_html()).count(audit.untested_because) == 3  # below the headline, in words, in provenance
    assert audit.untested_because in unescape(audit._repr_html_())


@pytest.mark.thorough
def test_several_models_have_the_tests_of_one_but_of_dependence(halves):
    for case in (voting, one_weighted, votes_of_votes):
        model, X, y, _ = case(*halves)
        for test, method in (
            ("naive", "naive"),
            ("residuals", "residuals"),
            ("permutation", "permutation"),
            (debias.Permutation(50), "residuals"),
            (debias.Permutation(50, of="residuals"), "residuals"),
        ):
            scores = debias.score(model, X, y, rows="held-out", test=test)
            assert scores.details["test"]["method"] == method
            assert scores.selected[scores.feature_names.index("bmi")]
        with pytest.raises(debias.plugin.CompositionError, match="fits lines in the trees of one model"):
            debias.audit(model, X, y, rows="held-out", dependence=True)


def test_a_feature_that_only_a_later_member_divides_is_tested_and_one_of_one_value_is_not(halves):
    (X, y), (fresh, y_fresh) = halves
    members = [
        make_pipeline(ColumnTransformer([("chosen", "passthrough", of)]), forest())
        for of in (["bmi", "age"], ["s5", "age"])
    ]
    model = VotingRegressor([("one", members[0]), ("other", members[1])]).fit(X, y)
    audit = debias.audit(model, fresh.assign(age=0.0), y_fresh, rows="held-out")
    assert audit.untested_features == {"age": "it has only one value on these rows"}
    assert audit.features == ["bmi", "s5"]
    assert audit.to_frame()["verdict"].value_counts().to_dict() == {
        "indistinguishable": 7,
        "informative": 2,
        "untested": 1,
    }


@pytest.mark.thorough
def test_folds_of_votes_are_tested(halves):
    (X, y), _ = halves
    splits = [(np.arange(0, 110), np.arange(110, 220)), (np.arange(110, 220), np.arange(0, 110))]
    models = [voting((X.iloc[train], y.iloc[train]), (X, y))[0] for train, _ in splits]
    audit = debias.audit_folds(models, X, y, cv=splits)
    assert audit.tested
    assert {"bmi", "s5"} <= set(audit.features)
    assert debias.FoldsAudit.from_json(audit.to_json()).to_json() == audit.to_json()


def undecided(scores, rows, *rest, **_):
    rest[-1].warn(CONSTANT)
    return replace(scores, warnings=tuple(rest[-1].texts))


def test_a_test_without_verdict_says_why(halves, monkeypatch):
    """What the test warns of, where it gives no verdict, is the reason."""
    monkeypatch.setattr("debias.api.prepared.significance", undecided)
    train, fresh = halves
    model = XGBRegressor(n_estimators=5).fit(*train)
    with pytest.warns(debias.DebiasWarning, match="every row has the response 1"):
        audit = debias.audit(model, *fresh)
    says_why(audit, CONSTANT)
    assert CONSTANT in audit.warnings
    assert debias.score(model, *fresh, test="auto").details["untested_because"] == CONSTANT
    monkeypatch.setattr("debias.api.prepared.significance", lambda scores, *rest, **_: scores)
    says_why(debias.audit(model, *fresh), untested.NO_VERDICT)
    known = untested.with_reason(debias.score(model, *fresh), "a reason of its own. Audit other rows")
    monkeypatch.setattr("debias.api.prepared.significance", lambda *rest, **_: known)
    says_why(debias.audit(model, *fresh), "a reason of its own")


def test_a_streamed_test_without_verdict_says_why(halves, monkeypatch):
    monkeypatch.setattr("debias.api.prepared.significance", undecided)
    train, fresh = halves
    model = XGBRegressor(n_estimators=5).fit(*train)
    scores = debias.score(model, [fresh], test="naive", rows="held-out")
    assert scores.details["untested_because"] == CONSTANT


def test_scores_that_were_made_without_a_test_say_so(halves):
    """Of sums over rows that are gone, of an audit made by hand, and of one written before reasons were kept."""
    train, fresh = halves
    model = XGBRegressor(n_estimators=5).fit(*train)
    sums = debias.NodeSums(model)
    sums.update(*fresh)
    scores = debias.score(model, sums, rows="held-out")
    for each in (scores, made(["a", "b"], tested=False).tested_scores):
        says_why(debias.Audit.of(None, "not reported", {"mdi_oob": each}), "the scores were computed without a test")


def test_what_was_tested_has_no_reason(halves):
    train, fresh = halves
    audit = debias.audit(XGBRegressor(n_estimators=5).fit(*train), *fresh)
    assert audit.untested_because is None
    assert "untested_because" not in audit.to_frame()
    assert json.loads(audit.to_json())["untested_because"] is None
    assert "No feature was tested" not in " ".join(audit.summary())
    stray = replace(audit.tested_scores, details={**audit.tested_scores.details, "untested_because": "no"})
    assert debias.Audit.of(None, "", {"mdi_oob": stray}).untested_because is None


def test_the_command_says_why(tmp_path, halves, monkeypatch):
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)  # has its own tests
    train, _ = halves
    XGBRegressor(n_estimators=5).fit(*train).save_model(tmp_path / "model.ubj")
    train[0].assign(outcome=train[1]).to_csv(tmp_path / "rows.csv", index=False)
    given = ["audit", str(tmp_path / "model.ubj"), str(tmp_path / "rows.csv"), "--target", "outcome", "--rows", "train"]
    told = CliRunner().invoke(main, [*given, "--html", str(tmp_path / "report.html")])
    assert told.exit_code == 0, told.output
    assert f"No feature was tested: {untested.TRAINING_ROWS}." in " ".join(told.stdout.split())
    assert "these are training rows" in (tmp_path / "report.html").read_text()
    form = {form: CliRunner().invoke(main, [*given, "--format", form]).stdout for form in ("json", "csv")}
    assert json.loads(form["json"])["untested_because"] == untested.TRAINING_ROWS
    assert form["csv"].count("these are training rows") == 10


def test_reasons_end_without_a_full_stop_and_say_what_to_do():
    for reason in (untested.NOT_ASKED, untested.TRAINING_ROWS, untested.UNKNOWN, untested.NO_VERDICT):
        assert ". Audit " in reason
        assert not reason.endswith(".")
    scores = untested.with_reason(made(["a"], tested=False).tested_scores, "so it is. Audit another.")
    assert scores.details["untested_because"] == "so it is. Audit another"
