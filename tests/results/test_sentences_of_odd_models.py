"""Sentences that users of pipelines, weighted models, models with few splits and wrong input read. Each fact in them is
computed again, from the data or the library."""

import re
import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from click.testing import CliRunner
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import debias
from debias.cli import main
from debias.errors import with_article

N_TRAIN = 400


def wages(n=600, seed=0):
    """Return X with a text column, numbers and noise, and y."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "educ": rng.integers(8, 18, n).astype(float),
            "exper": rng.normal(size=n),
            "sector": rng.choice(list("abcdefgh"), n),
            "age": rng.normal(40, 10, n),
        }
    )
    y = X["educ"] + 2 * X["sector"].map({letter: k for k, letter in enumerate("abcdefgh")}) + rng.normal(size=n)
    return X, y


def numbers(n=600, seed=0):
    X, y = wages(n, seed)
    return X.drop(columns="sector"), y


def one_hot(model):
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(make_column_transformer((encoder, ["sector"]), remainder="passthrough"), model)


def told(function, *arguments, **settings):
    """Return the result of a call and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments, **settings)
    return result, [str(each.message) for each in caught]


def refusal(function, *arguments, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(debias.errors.DebiasError) as caught:
            function(*arguments, **settings)
    return str(caught.value)


# --- pipelines ------------------------------------------------------------------------------------------


def test_a_shift_behind_a_pipeline_names_the_columns_of_the_user_and_the_shares_of_a_split():
    X, y = wages()
    pipeline = one_hot(GradientBoostingRegressor(n_estimators=20, random_state=0)).fit(X[:N_TRAIN], y[:N_TRAIN])
    here = X[N_TRAIN:].assign(sector="h")
    audit, texts = told(debias.audit, pipeline, here, y[N_TRAIN:], [], rows="held-out", test=None)
    (text,) = [text for text in texts if "differ from the training rows" in text]
    limit, share_here, share_there = re.search(
        r"a column made of 'sector' is at most ([\d.]+) for ([\d.]+)% of these rows and for ([\d.]+)% of the training",
        text,
    ).groups()
    assert not re.search(r"\bx\d|more feature", text)
    assert audit.provenance["shifted_features"] == ["sector"]
    (rule,) = audit.check({"max_shift": 0.1}).failures
    assert "'sector'" in rule.reason

    shares = set()
    for tree in pipeline[-1].estimators_[:, 0]:
        reached = [tree.decision_path(pipeline[0].transform(rows).astype(np.float32)) for rows in (here, X[:N_TRAIN])]
        structure = tree.tree_
        for node in np.flatnonzero((structure.children_left >= 0) & (structure.threshold == float(limit))):
            n = [paths[:, [node, structure.children_left[node]]].sum(axis=0).A1 for paths in map(_matrix, reached)]
            if n[0][0]:
                shares.add(tuple(f"{100 * left / all_:.1f}" for all_, left in n))
    assert (share_here, share_there) in shares


def _matrix(sparse):
    from scipy.sparse import csr_matrix

    return csr_matrix(sparse)


def test_the_proof_of_a_pipeline_names_the_columns_of_the_user():
    X, y = wages(300)
    pipeline = one_hot(RandomForestRegressor(30, random_state=0, min_samples_leaf=5)).fit(X, y)
    for name in ("age", "educ"):
        changed = X.assign(**{name: X[name].to_numpy()[::-1]})
        assert f"these columns of X differ: '{name}'. " in refusal(debias.score, pipeline, changed, y)


# --- columns that differ from training --------------------------------------------------------------------

FORESTS = {
    "forest": lambda y: RandomForestRegressor(40, random_state=1).fit,
    "shallow": lambda y: RandomForestRegressor(40, max_depth=4, random_state=1).fit,
    "extra trees": lambda y: ExtraTreesRegressor(40, bootstrap=True, random_state=1).fit,
    "classes": lambda y: RandomForestClassifier(40, random_state=1).fit,
    "bagging": lambda y: BaggingClassifier(n_estimators=30, max_features=0.7, random_state=1).fit,
}
CHANGES = {
    "another order": lambda values, rng: rng.permutation(values),
    "another unit": lambda values, rng: values * 1000,
    "other codes": lambda values, rng: rng.permutation(np.unique(values))[np.unique(values, return_inverse=True)[1]],
    "fresh values": lambda values, rng: rng.normal(values.mean(), values.std(), values.size),
}


def drawn_rows(seed, n=300):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 6)), columns=list("abcdef"))
    X["b"], X["d"] = rng.integers(0, 5, n).astype(float), rng.integers(0, 20, n).astype(float)
    return X, X["a"] + X["b"] / 2 + np.sin(2 * X["c"]) + X["d"] / 10 + X["e"] / 2 + rng.normal(size=n)


@pytest.mark.thorough
@pytest.mark.parametrize("forest", FORESTS)
def test_the_columns_that_differ_are_named_and_no_others(forest):
    """Before, 10 of 96 messages named an innocent column, and 80 of 176 named none."""
    n_cases = n_none = 0
    for seed, change in enumerate(CHANGES):
        X, y = drawn_rows(seed)
        y = pd.Series(np.digitize(y, np.quantile(y, [0.3, 0.7]))) if forest in ("classes", "bagging") else y
        model = FORESTS[forest](y)(X, y)
        rng = np.random.default_rng(seed)
        for n_changed in (1, 2, 3):
            columns = sorted(rng.choice(list("abcdef"), n_changed, replace=False).tolist())
            changed = X.assign(**{name: CHANGES[change](X[name].to_numpy(), rng) for name in columns})
            text = refusal(debias.score, model, changed, y, "mdi_oob")
            found = re.search(r"these columns of X differ: (.+?)\. If", text) or re.search(
                r"columns of X have other values than in training \(the first wrong splits are on (.+?)\)", text
            )
            named = set(re.findall(r"'(\w)'", found[1])) if found else set()
            assert named <= set(columns), (change, columns, text)
            n_cases, n_none = n_cases + 1, n_none + (not named)
    assert n_cases == 12
    assert n_none <= 1


def test_a_few_changed_rows_are_no_changed_column():
    X, y = drawn_rows(0)
    model = RandomForestRegressor(40, random_state=1).fit(X, y)
    changed = X.copy()
    changed.iloc[7] = X.iloc[200].to_numpy()
    text = refusal(debias.score, model, changed, y)
    share = float(re.search(r"([\d.]+)% of the nodes hold other rows: a few rows of X were changed", text)[1])
    assert 0 < share < 10


# --- leaks ------------------------------------------------------------------------------------------------


def leaks(audit):
    return [line for line in audit.summary() if "leak" in line]


def explained(x, y):
    """Von Neumann's ratio, for values that do not repeat."""
    y = np.asarray(y)[np.argsort(x)]
    return 1 - (np.diff(y) ** 2).mean() / 2 / y.var(ddof=1)


def test_a_model_with_one_split_has_no_leak():
    X, y = numbers()
    X = X.assign(zero=0.0)
    settings = {"n_estimators": 1, "max_depth": 1, "learning_rate": 1.0, "random_state": 0}
    stump = GradientBoostingRegressor(**settings).fit(X[:N_TRAIN], y[:N_TRAIN])
    audit = debias.audit(stump, X[N_TRAIN:], y[N_TRAIN:], [], rows="held-out", test="naive", dependence=False)
    assert audit.share.max() == 1
    assert audit.verdict[int(audit.share.argmax())] == "informative"
    assert not leaks(audit)


def test_two_leaks_that_share_their_score_are_named_together():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    y = X["a"] + 0.1 * rng.normal(size=400)
    X["b"] = np.exp(X["a"] + 0.05 * rng.normal(size=400))
    forest = RandomForestRegressor(20, random_state=0, min_samples_leaf=3, max_features=1, n_jobs=1).fit(X, y)
    audit = debias.audit(forest, X, y, [], test="conservative", random_state=0, dependence=False)
    assert audit.share.max() < 0.9
    [line] = leaks(audit)
    assert f"by themselves: a ({explained(X['a'], y):.1%}) and b ({explained(X['b'], y):.1%})" in line


@pytest.mark.parametrize(("noise", "is_leak"), [(0.5, False), (0.1, True)])
def test_a_feature_is_called_a_leak_only_if_it_tells_the_response_by_itself(noise, is_leak):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 6)), columns=list("abcdef"))
    y = X["a"] + noise * rng.normal(size=400)
    forest = RandomForestRegressor(40, random_state=0, min_samples_leaf=3).fit(X, y)
    audit = debias.audit(forest, X, y, [], test="conservative", random_state=0, dependence=False)
    assert audit.share[0] > 0.95
    assert audit.tested_scores.details["explained_alone"] == {"a": pytest.approx(explained(X["a"], y))}
    assert bool(leaks(audit)) is is_leak is bool(explained(X["a"], y) >= 0.95)
    if is_leak:
        assert f"explains {explained(X['a'], y):.1%} of the variation of the response by itself" in leaks(audit)[0]
    assert debias.Audit.from_json(audit.to_json()).summary() == audit.summary()


def test_a_forest_without_splits_names_no_z():
    X, y = numbers()
    forest = RandomForestRegressor(10, min_samples_leaf=len(X), random_state=0).fit(X, y)
    assert all(tree.tree_.node_count == 1 for tree in forest.estimators_)
    audit = debias.audit(forest, X, y, [], random_state=0)
    assert not any("with z above" in line for line in audit.summary())
    assert set(audit.verdict) == {"indistinguishable"}


# --- wrong input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("mdi-oob", "mdi_oob"),
        ("MDI_OOB", "mdi_oob"),
        ("mdi oob", "mdi_oob"),
        ("oob_mdi", "mdi_oob"),
        ("mdi_obb", "mdi_oob"),
        ("response-permutation(mdi)", "response_permutation"),
        ("response_permutation(split-count)", "split_count"),
    ],
)
def test_the_scorer_that_was_meant_is_suggested(written, meant):
    text = refusal(debias.plugin.scorer, written)
    assert f"Did you mean '{meant}'?" in text
    line, marker = text.splitlines()[-2:]
    assert line.strip() == written
    at = marker.index("^") - 2
    assert not re.match(r"\W", written[at])
    assert debias.plugin.scorer(meant if meant != "response_permutation" else "response_permutation(mdi)")


def test_the_shell_suggests_the_right_scorer_too(tmp_path, monkeypatch):
    monkeypatch.setattr("debias.models.sandbox.check", lambda *_: None)
    X, y = numbers(60)
    X.assign(wage=y).to_csv(tmp_path / "rows.csv", index=False)
    xgboost.XGBRegressor(n_estimators=2).fit(X, y).save_model(tmp_path / "model.ubj")
    files = [str(tmp_path / "model.ubj"), str(tmp_path / "rows.csv"), "--target", "wage"]
    for command in (["score", *files, "--scorer", "mdi-oob"], ["audit", *files, "--tested", "mdi-oob"]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code != 0
        assert "Did you mean 'mdi_oob'?" in done.output


def test_a_text_for_y_is_told_what_to_pass(tmp_path):
    X, y = numbers()
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    table = X.assign(wage=y)
    history = debias.History(forest, tmp_path / "a.history")
    results = cross_validate(forest, X, y, cv=3, return_estimator=True, return_indices=True)
    functions = [
        lambda rows: debias.audit(forest, rows, "wage"),
        lambda rows: debias.score(forest, rows, "wage"),
        lambda rows: debias.compare(forest, rows, "wage"),
        lambda rows: debias.contributions(forest, rows, "wage"),
        lambda rows: history.add(rows, "wage", at="2026-11-23"),
        lambda rows: debias.audit_folds(results, rows, "wage"),
    ]
    for function in functions:
        text = refusal(function, table)
        assert "y is the text 'wage', the name of a column of X: pass the column itself as y, and X without it" in text
        new_X, new_y = re.search(r": (X.+) as X, and (X.+) as y$", text).groups()
        assert eval(new_X, {"X": table}).equals(X)
        assert eval(new_y, {"X": table}).equals(y.rename("wage"))
        for rows in (X, X.to_numpy()):
            assert "y is the text 'wage', which is no column of X: pass the response itself" in refusal(function, rows)
    weights = refusal(debias.score, forest, X.assign(w=1.0), y, sample_weight="w")
    assert weights.endswith(
        "sample_weight is the text 'w', the name of a column of X: pass the column itself: sample_weight=X['w']"
    )
    assert "y is the text 'wage': pass the response itself" in refusal(debias.score, forest, X, y, train=(X, "wage"))


def test_columns_that_are_not_numeric_have_the_types_of_their_library():
    X, y = numbers(60)
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    for values in (["a"] * 60, pd.Categorical(["a"] * 60), pd.to_datetime(["2026-11-23"] * 60)):
        wrong = X.assign(age=values)
        assert f"not numeric: age ({wrong['age'].dtype}). " in refusal(debias.score, forest, wrong, y)
    polars = pytest.importorskip("polars")
    wrong = polars.DataFrame({name: X[name].to_numpy() for name in X} | {"age": ["a"] * 60})
    assert f"not numeric: age ({wrong['age'].dtype}). " in refusal(debias.score, forest, wrong, y)


# --- weights, mixtures, repeats -----------------------------------------------------------------------------


def test_a_weighted_xgboost_is_told_about_sums_and_not_about_counts():
    X, y = numbers()
    weight = np.random.default_rng(0).exponential(size=N_TRAIN)
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3).fit(X[:N_TRAIN], y[:N_TRAIN], sample_weight=weight)
    text = refusal(debias.audit, model, X[N_TRAIN:], y[N_TRAIN:])
    assert "its leaves hold sums of hessians, which are not numbers of rows: the model was trained with weights" in text
    assert "how many training rows" not in text
    covers = model.get_booster().trees_to_dataframe()
    root = covers[(covers["Tree"] == 0) & (covers["Node"] == 0)]["Cover"].item()
    assert root == pytest.approx(weight.sum(), rel=1e-5)
    assert abs(root - round(root)) > 1e-3

    plain = xgboost.XGBRegressor(n_estimators=5, max_depth=3).fit(X[:N_TRAIN], y[:N_TRAIN])
    detail = debias.score(plain, X[N_TRAIN:], y[N_TRAIN:]).provenance["detail"]
    assert "by the sums of hessians in the leaves up to " in detail


def test_training_rows_among_others_are_told_what_to_pass():
    X, y = numbers()
    model = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN])
    mixed = refusal(debias.audit, model, X[:530], y[:530])
    assert mixed.startswith(
        "the training rows are among these 530 rows: each leaf holds as many as in training, or more."
    )
    assert "pass only such rows" in mixed
    for tree in model.estimators_[:, 0]:
        leaves = tree.apply(X[:530].to_numpy(dtype=np.float32))
        stored = tree.tree_.n_node_samples
        assert all((leaves == leaf).sum() >= stored[leaf] for leaf in np.flatnonzero(tree.tree_.children_left < 0))
    assert refusal(debias.audit, model, X[:N_TRAIN], y[:N_TRAIN]).startswith("these are the training rows:")

    forest = RandomForestRegressor(30, random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN])
    mixed = refusal(debias.audit, forest, X[:530], y[:530])
    assert "Pass all training rows and no others, in training order" in mixed
    assert "or pass only rows the model has not seen" in mixed


@pytest.mark.parametrize("named", [True, False])
def test_repeated_rows_are_named_by_their_column(named):
    X, y = numbers()
    model = GradientBoostingRegressor(n_estimators=10, random_state=0).fit(X[:N_TRAIN].to_numpy(), y[:N_TRAIN])
    rows = np.r_[N_TRAIN:600, N_TRAIN:580]
    here = X.iloc[rows] if named else X.iloc[rows].to_numpy()
    _, texts = told(debias.audit, model, here, y.iloc[rows].to_numpy(), [], test="naive", rows="held-out")
    (text,) = [text for text in texts if "rows repeat" in text]
    share, column = re.match(
        r"(\d+)% of the rows repeat the values of another row in column (number \d|'\w+'), which is", text
    ).groups()
    position = list(X).index(column.strip("'")) if named else int(column.removeprefix("number "))
    values = X.iloc[rows, position]
    assert share == f"{100 * values.duplicated(keep=False).mean():.0f}"
    assert values.nunique() == 200


# --- lines of the user, articles, numbers of libraries ------------------------------------------------------

CALLS = {
    "audit": "debias.audit(model, X, y, [], test='naive', rows='held-out')",
    "score": "debias.score(model, X, y, rows='held-out')",
    "compare": "debias.compare(model, X, y, ['mdi_oob', 'oob_split'], rows='held-out')",
    "contributions": "debias.contributions(model, X, y, rows='held-out')",
    "partial_dependence": "debias.partial_dependence(model, X, 'educ')",
    "audit_folds": "debias.audit_folds(results, X, y, test='naive')",
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("notebook", [True, False])
def test_warnings_point_at_the_line_of_the_user(call, notebook):
    X, y = numbers(200)
    twice = pd.concat([X, X[:40]], ignore_index=True)
    y_twice = pd.concat([y, y[:40]], ignore_index=True)
    model = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(-X[:100], y[:100])
    in_order = twice.sort_values("exper", ignore_index=True)  # so that each fold has other values than the others
    results = cross_validate(model, in_order, y_twice, cv=3, return_estimator=True, return_indices=True)
    known = {"debias": debias, "model": model, "results": results, "X": twice[list(X)[::-1]], "y": y_twice}
    if call == "audit_folds":
        known["X"] = in_order
    file = "/tmp/ipykernel_7/1234.py" if notebook else __file__
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile("\n\n" + CALLS[call], file, "exec"), known)
    ours = [each for each in caught if issubclass(each.category, debias.errors.DebiasWarning)]
    assert ours
    assert {(each.filename, each.lineno) for each in ours} == {(file, 3)}


@pytest.mark.parametrize(
    ("name", "spoken"),
    [
        ("XGBoost Booster", "an"),
        ("LightGBM Booster", "a"),
        ("LGBMRegressor", "an"),
        ("ExtraTreesRegressor", "an"),
        ("scikit-learn RandomForestRegressor", "a"),
        ("Pipeline", "a"),
        ("dict", "a"),
        ("int", "an"),
        ("MLPRegressor", "an"),
    ],
)
def test_the_article_fits_the_name(name, spoken):
    assert with_article(name) == f"{spoken} {name}"


def test_the_article_of_xgboost_is_right_in_a_message():
    X, y = numbers()
    model = xgboost.XGBRegressor(n_estimators=2).fit(X[:N_TRAIN], y[:N_TRAIN])
    text = refusal(debias.audit, model, X[N_TRAIN:], y[N_TRAIN:], rows="oob")
    assert (
        "an XGBoost XGBRegressor has no out-of-bag rows" in text or "adapter can recover the bags of an XGBoost" in text
    )


def test_numbers_of_the_libraries_are_equal_as_the_documentation_says():
    X, y = numbers()
    names = list(X)
    booster = xgboost.XGBRegressor(n_estimators=30, random_state=0).fit(X, y)
    for scorer, kind, rtol in (
        ("split_count", "weight", 0),
        ("gain", "total_gain", 1e-6),
        ("cover", "total_cover", 1e-6),
    ):
        figures = booster.get_booster().get_score(importance_type=kind)
        np.testing.assert_allclose(debias.score(booster, scorer=scorer).values, [figures[k] for k in names], rtol=rtol)
    light = lightgbm.LGBMRegressor(n_estimators=30, verbose=-1).fit(X, y)
    for scorer, kind, rtol in (("split_count", "split", 0), ("gain", "gain", 1e-7)):
        figures = light.booster_.feature_importance(kind)
        np.testing.assert_allclose(debias.score(light, scorer=scorer).values, figures, rtol=rtol)
