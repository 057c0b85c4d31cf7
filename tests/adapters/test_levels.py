"""Tests of the two levels of columns: those of the user's X ("source"), and those that the trees see ("model")."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse
from lightgbm import LGBMRegressor
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor, VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

import debias
from debias.data import probing
from debias_adapters.sklearn.columns import names_out

N = 240
WORDS = [f"w{k}" for k in range(30)]
rng = np.random.default_rng(0)
TEXTS = [" ".join(rng.choice(WORDS, 10)) for _ in range(N)]
CLASSES = np.array(["w3" in text.split() for text in TEXTS]).astype(int)
NUMBERS = pd.DataFrame({"a": rng.normal(size=N), "b": rng.exponential(size=N), "c": rng.normal(size=N)})
RESPONSE = NUMBERS["a"].to_numpy() + rng.normal(size=N) / 2
TABLE = NUMBERS.assign(town=rng.choice(list("ABC"), N), txt=TEXTS)


def forest(classes=False):
    kind = RandomForestClassifier if classes else RandomForestRegressor
    return kind(15, random_state=0, min_samples_leaf=2)


def by_name(scores):
    return dict(zip(scores.feature_names, scores.values.tolist(), strict=True))


# --- texts ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_words():
    return make_pipeline(TfidfVectorizer(), forest(classes=True)).fit(TEXTS, CLASSES)


@pytest.mark.parametrize(
    "container",
    [list, tuple, np.array, lambda texts: np.array(texts, dtype=object), pd.Series],
    ids=["list", "tuple", "array", "objects", "Series"],
)
def test_words_of_texts_are_scored_as_the_columns_of_the_forest(of_words, container):
    scores = debias.score(of_words, container(TEXTS), CLASSES)
    assert scores.rows == "oob"
    assert scores.feature_names == tuple(of_words[0].get_feature_names_out())
    inner = debias.score(of_words[-1], of_words[0].transform(TEXTS), CLASSES)
    np.testing.assert_array_equal(scores.values, inner.values)


def test_a_frame_of_texts_is_told_to_be_a_series(of_words):
    with pytest.raises(debias.RowsError, match=r"1 rows of the 240 rows of X.*pass X\['text'\]"):
        debias.score(of_words, pd.DataFrame({"text": TEXTS}), CLASSES)


def test_an_audit_of_texts_finds_the_word(of_words):
    audit = debias.audit(
        of_words,
        TEXTS,
        CLASSES,
        error_rate=("fdr", 0.05),
        test=debias.Permutation(600),
        random_state=0,
        dependence=False,
    )
    assert audit.to_frame().loc["w3", "verdict"] == "informative"
    assert not any("repeat the values" in text for text in audit.warnings)
    phi = debias.contributions(of_words, pd.Series(TEXTS, index=range(7, 7 + N)), CLASSES)
    assert phi.index[0] == 7
    np.testing.assert_allclose(phi.sum(), audit.to_frame().loc[phi.columns, "mdi_oob"], atol=1e-12)
    found = debias.compare(of_words, TEXTS, CLASSES, ["mdi_oob", "native"])
    assert found.to_frame()["mdi_oob"].idxmax() == "w3"


def test_texts_as_one_source_are_one_row_which_is_the_sum(of_words):
    words = debias.score(of_words, TEXTS, CLASSES)
    source = debias.score(of_words, TEXTS, CLASSES, level="source")
    assert source.feature_names == ("text",)
    assert source.values[0] == pytest.approx(words.values.sum(), abs=1e-12)
    assert debias.score(
        of_words, debias.Dataset(TEXTS, CLASSES, feature_names=["review"]), level="source"
    ).feature_names == ("review",)


def test_groups_of_words_add_up(of_words):
    words = by_name(debias.score(of_words, TEXTS, CLASSES))
    grouped = by_name(debias.score(of_words, TEXTS, CLASSES, groups={"both": ["w3", "w4"]}))
    assert grouped["both"] == pytest.approx(words["w3"] + words["w4"], abs=1e-12)
    with pytest.raises(debias.RowsError, match="'w99' that the model does not know"):
        debias.score(of_words, TEXTS, CLASSES, groups={"both": ["w3", "w99"]})


@pytest.mark.parametrize(
    ("transformer", "names"),
    [
        (CountVectorizer(), tuple(sorted(WORDS))),
        (HashingVectorizer(n_features=64), tuple(f"x{k}" for k in range(64))),
        (
            make_pipeline(TfidfVectorizer(), TruncatedSVD(3, random_state=0)),
            tuple(f"truncatedsvd{k}" for k in range(3)),
        ),
        (FeatureUnion([("w", TfidfVectorizer()), ("n", TfidfVectorizer())]), None),
    ],
    ids=["count", "hashing", "svd", "union"],
)
def test_other_vectorizers_name_their_words(transformer, names):
    model = make_pipeline(transformer, forest(classes=True)).fit(TEXTS, CLASSES)
    scores = debias.score(model, TEXTS, CLASSES)
    assert scores.feature_names == (names or tuple(model[0].get_feature_names_out()))
    assert scores.rows == "oob"


def test_a_refit_of_a_pipeline_of_texts_keeps_the_words(of_words):
    scores = debias.score(of_words, TEXTS, CLASSES, "response_permutation(mdi, replicates=3)", random_state=0)
    assert scores.feature_names == tuple(of_words[0].get_feature_names_out())
    with pytest.raises(debias.plugin.CompositionError, match="changes columns of X"):
        debias.score(of_words, TEXTS, CLASSES, "shadow(mdi, replicates=3)", random_state=0)


def test_a_vote_of_pipelines_of_texts():
    members = [(f"m{k}", make_pipeline(TfidfVectorizer(), forest(classes=True))) for k in range(2)]
    vote = VotingClassifier(members, voting="soft").fit(TEXTS, CLASSES)
    words = debias.score(vote, TEXTS, CLASSES)
    assert words.feature_names[words.values.argmax()] == "w3"


# --- both levels of a table -----------------------------------------------------------------------------


def mixed():
    parts = [
        ("t", TfidfVectorizer(), "txt"),
        ("o", OneHotEncoder(), ["town"]),
        ("l", FunctionTransformer(np.log1p), ["b"]),
        ("s", StandardScaler(), ["a"]),
    ]
    return make_pipeline(ColumnTransformer(parts), forest()).fit(TABLE, RESPONSE)


def test_sources_are_sums_of_the_columns_the_trees_see():
    model = mixed()
    source, inner = debias.score(model, TABLE, RESPONSE), by_name(debias.score(model, TABLE, RESPONSE, level="model"))
    assert [name for name in inner if not name.startswith("t__")] == [
        "o__town_A",
        "o__town_B",
        "o__town_C",
        "l__b",
        "s__a",
    ]
    values = by_name(source)
    assert set(values) == set(TABLE)
    for prefix, column in (("t__", "txt"), ("o__", "town"), ("l__", "b"), ("s__", "a")):
        assert values[column] == pytest.approx(sum(v for k, v in inner.items() if k.startswith(prefix)), abs=1e-12)
    assert values["c"] == 0
    note = f"the {len(WORDS)} columns that the transformers make of 'txt' are one row"
    assert any(text.startswith(note) for text in source.warnings)
    assert not debias.score(model, TABLE, RESPONSE, level="source").warnings
    both = by_name(debias.score(model, TABLE, RESPONSE, level="model", groups={"g": ["o__town_A", "s__a"]}))
    assert both["g"] == pytest.approx(inner["o__town_A"] + inner["s__a"], abs=1e-12)
    both = by_name(debias.score(model, TABLE, RESPONSE, groups={"g": ["town", "a"]}))
    assert both["g"] == pytest.approx(values["town"] + values["a"], abs=1e-12)


def test_an_audit_of_columns_of_several_columns_names_them():
    model = make_pipeline(PolynomialFeatures(2), forest()).fit(NUMBERS, RESPONSE)
    values = by_name(debias.score(model, NUMBERS, RESPONSE))
    inner = by_name(debias.score(model, NUMBERS, RESPONSE, level="model"))
    assert list(values) == ["a", "b", "c", "a + b", "a + c", "b + c"]
    assert values["a"] == pytest.approx(inner["a"] + inner["a^2"], abs=1e-12)
    assert values["a + b"] == pytest.approx(inner["a b"], abs=1e-12)
    audit = debias.audit(model, NUMBERS, RESPONSE, random_state=0)
    assert audit.to_frame().loc["a", "verdict"] == "informative"


def test_nested_transformers_are_traced_to_their_columns():
    parts = ColumnTransformer(
        [
            ("bins", KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"), [0]),
            ("products", PolynomialFeatures(2, include_bias=False), [0, 1]),
        ]
    )
    steps = ColumnTransformer([("n", make_pipeline(SimpleImputer(), parts), ["a", "b"]), ("p", PCA(1), ["b", "c"])])
    model = make_pipeline(steps, forest()).fit(NUMBERS, RESPONSE)
    assert debias.score(model, NUMBERS, RESPONSE).feature_names == ("a", "b", "a + b", "b + c")


@pytest.mark.parametrize(
    "part",
    [
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
        ColumnTransformer([("i", SimpleImputer(), [])], remainder=OneHotEncoder()),
        SelectKBest(k=1),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_part_without_columns_is_not_fitted_and_says_nothing(part):
    numbers, texts = make_column_selector(dtype_include="number"), make_column_selector(dtype_exclude="number")
    steps = ColumnTransformer([("n", StandardScaler(), numbers), ("t", part, texts)])
    model = make_pipeline(steps, forest()).fit(NUMBERS, RESPONSE)
    plain = make_pipeline(StandardScaler(), forest()).fit(NUMBERS, RESPONSE)
    found, expected = (debias.score(each, NUMBERS, RESPONSE).values for each in (model, plain))
    np.testing.assert_allclose(found, expected)


def test_a_selector_after_a_vectorizer_names_what_it_keeps():
    model = make_pipeline(TfidfVectorizer(), SelectKBest(f_regression, k=4), forest()).fit(TEXTS, RESPONSE)
    with pytest.warns(debias.DebiasWarning, match="'selectkbest' \\(SelectKBest\\) saw y of all training rows"):
        scores = debias.score(model, TEXTS, RESPONSE, rows="oob")
    assert scores.feature_names == tuple(model[:-1].get_feature_names_out())


def test_a_function_that_adds_a_column():
    model = make_pipeline(FunctionTransformer(lambda X: X.assign(s=X["a"] * X["b"])), forest()).fit(NUMBERS, RESPONSE)
    assert debias.score(model, NUMBERS, RESPONSE).feature_names == ("a", "b", "c", "a + b")
    assert debias.score(model, NUMBERS, RESPONSE, level="model").feature_names == ("a", "b", "c", "s")


def test_levels_are_checked(of_words):
    with pytest.raises(debias.RowsError, match="level='words' is not a level"):
        debias.score(of_words, TEXTS, CLASSES, level="words")
    with pytest.raises(debias.plugin.CompositionError, match="cannot score the columns that the trees see"):
        debias.score(of_words, TEXTS, CLASSES, "guide")
    plain = forest().fit(NUMBERS, RESPONSE)
    for level in (None, "source", "model"):
        assert debias.score(plain, NUMBERS, RESPONSE, level=level).feature_names == ("a", "b", "c")


def test_batches_are_scored_at_the_level_of_the_model():
    model = make_pipeline(PolynomialFeatures(2), forest()).fit(NUMBERS, RESPONSE)
    draws = np.random.default_rng(1)
    X = pd.DataFrame({"a": draws.normal(size=100), "b": draws.exponential(size=100), "c": draws.normal(size=100)})
    y = X["a"].to_numpy() + draws.normal(size=100) / 2
    batches = [(X[:50], y[:50]), (X[50:], y[50:])]
    with pytest.raises(debias.UnsupportedModelError, match="there are none in memory.*level='model'"):
        debias.score(model, batches, rows="held-out")
    found = debias.score(model, batches, rows="held-out", level="model")
    expected = debias.score(model, X, y, rows="held-out", level="model")
    assert found.feature_names == expected.feature_names
    np.testing.assert_allclose(found.values, expected.values, atol=1e-12)


# --- probing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "container",
    [lambda X: X, pd.DataFrame.to_numpy, lambda X: scipy.sparse.csr_matrix(X), polars.from_pandas],
    ids=["pandas", "array", "sparse", "polars"],
)
def test_probing_finds_what_each_column_is_made_of(container):
    X = container(NUMBERS)
    before = X.copy() if hasattr(X, "copy") else X.clone()

    def change(rows):
        dense = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
        made = np.column_stack([dense[:, 2], dense[:, 0] * dense[:, 1], np.ones(len(dense)), dense[:, 1] > 3])
        return scipy.sparse.csc_matrix(made) if hasattr(rows, "toarray") else made

    transformer = FunctionTransformer(change, accept_sparse=True, validate=False).fit(X)
    assert probing.probed(transformer, X) == [(2,), (0, 1), (), (1,)]
    after = (before != X).sum() if hasattr(X, "tocsr") else (np.asarray(X) != np.asarray(before)).sum()
    assert after == 0


def test_a_constant_column_that_no_tree_uses_has_no_part_in_the_scores():
    model = make_pipeline(PolynomialFeatures(1), forest()).fit(NUMBERS, RESPONSE)  # the first column is 1
    values = debias.score(model, NUMBERS, RESPONSE).values
    np.testing.assert_allclose(values, debias.score(model, NUMBERS, RESPONSE, level="model").values[1:], atol=1e-12)


def test_a_column_that_is_constant_on_these_rows_but_not_in_training_is_refused():
    is_large = FunctionTransformer(lambda X: np.column_stack([X["a"] > 1.5, X["b"]]))
    model = make_pipeline(is_large, RandomForestRegressor(20, random_state=0)).fit(NUMBERS, RESPONSE)
    draws = np.random.default_rng(1)
    small = pd.DataFrame({name: draws.uniform(0, 1, 12) for name in NUMBERS})
    with pytest.raises(debias.UnsupportedModelError, match="no column of X could be found that changes 'x0'"):
        debias.score(model, small, draws.normal(size=12), rows="held-out")


def test_a_column_that_matters_in_few_rows_is_not_overlooked():
    """In 1 of 2,000 rows the second column decides: too few for the rows in which single columns are permuted."""
    X = np.random.default_rng(0).normal(size=(2000, 2))
    X[:, 1] = 0
    X[777, 1] = 9
    rare = FunctionTransformer(lambda X: np.where(X[:, 1] == 9, 0, X[:, 0])[:, None]).fit(X)
    with pytest.raises(debias.UnsupportedModelError, match="matter in few rows.*level='model'"):
        probing.probed(rare, X)


def test_a_rare_value_is_found_beyond_the_rows_that_are_tried_first():
    X = np.zeros((2000, 2))
    X[:, 0], X[777, 1] = np.random.default_rng(0).normal(size=2000), 9
    assert probing.probed(FunctionTransformer(lambda X: np.sqrt(np.abs(X))), X) == [(0,), (1,)]


def test_the_trial_gives_no_warnings():
    X = NUMBERS.to_numpy()
    with np.errstate(invalid="warn"):
        assert probing.probed(FunctionTransformer(np.log), X) == [(0,), (1,), (2,)]


def doubled_in_place(X):
    X *= 2
    return X


@pytest.mark.parametrize("container", [pd.DataFrame.to_numpy, pd.DataFrame.copy], ids=["array", "pandas"])
@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(copy=False),
        FunctionTransformer(doubled_in_place),
        make_pipeline(doubled := FunctionTransformer(doubled_in_place), doubled),
    ],
    ids=["scaler", "function", "steps"],
)
def test_a_transformer_that_changes_what_it_gets_does_not_change_the_users_rows(container, transformer):
    X, before = container(NUMBERS).copy(), np.array(NUMBERS)
    model = make_pipeline(transformer, forest()).fit(container(NUMBERS).copy(), RESPONSE)
    first = debias.score(model, X, RESPONSE)
    np.testing.assert_array_equal(np.asarray(X), before)
    np.testing.assert_array_equal(debias.score(model, X, RESPONSE).values, first.values)
    again = debias.refit(model, X, RESPONSE)
    np.testing.assert_array_equal(np.asarray(X), before)
    np.testing.assert_allclose(again.predict(X.copy()), model.predict(X.copy()))


def test_a_transformer_that_draws_numbers_is_refused():
    draws = np.random.default_rng(0)
    noisy = FunctionTransformer(lambda X: X + draws.normal(size=X.shape)).fit(NUMBERS.to_numpy())
    with pytest.raises(debias.UnsupportedModelError, match="other values each time.*level='model'"):
        probing.probed(noisy, NUMBERS.to_numpy())


def test_names_that_a_transformer_gives_twice_are_not_used():
    class Twice:
        def get_feature_names_out(self):
            return ["a", "a"]

    assert names_out(Twice(), ("x", "y")) is None


# --- names, sparse frames, rows of libraries --------------------------------------------------------------


def test_names_for_a_sparse_matrix():
    X = scipy.sparse.csr_matrix(NUMBERS.to_numpy())
    model = forest().fit(X, RESPONSE)
    scores = debias.score(model, debias.Dataset(X, RESPONSE, feature_names=["a", "b", "c"]))
    assert scores.feature_names == ("a", "b", "c")
    np.testing.assert_array_equal(scores.values, debias.score(model, X, RESPONSE).values)
    grouped = debias.score(model, debias.Dataset(X, RESPONSE, feature_names=["a", "b", "c"]), groups={"g": ["a", "b"]})
    assert grouped.feature_names == ("g", "c")
    audit = debias.audit(model, debias.Dataset(X, RESPONSE, feature_names=["a", "b", "c"]), random_state=0)
    assert set(audit.to_frame().index) == {"a", "b", "c"}
    permuted = debias.score(
        model,
        debias.Dataset(X.toarray(), RESPONSE, feature_names=list("abc")),
        scorer="response_permutation(mdi, replicates=3)",
        random_state=0,
    )
    assert permuted.feature_names == ("a", "b", "c")
    assert debias.score(
        None, debias.Dataset(X.toarray(), RESPONSE, feature_names=list("abc")), scorer="guide"
    ).feature_names == (
        "a",
        "b",
        "c",
    )


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["a", "b"], "has 2 names, but the model takes 3 columns"),
        (["a", "b", "b"], "more than once: b"),
        ("abc", "must be a list of texts"),
        ([1, 2, 3], "must be a list of texts"),
    ],
)
def test_wrong_names_are_refused(names, complaint):
    X = NUMBERS.to_numpy()
    with pytest.raises(debias.RowsError, match=complaint):
        debias.score(forest().fit(X, RESPONSE), debias.Dataset(X, RESPONSE, feature_names=names))


def test_names_beside_other_names_are_refused(of_words):
    model = forest().fit(NUMBERS, RESPONSE)
    with pytest.raises(debias.RowsError, match="this X has others"):
        debias.score(model, debias.Dataset(NUMBERS, RESPONSE, feature_names=["x", "y", "z"]))
    with pytest.raises(debias.RowsError, match="trained on columns with names"):
        debias.score(model, debias.Dataset(NUMBERS.to_numpy(), RESPONSE, feature_names=["x", "y", "z"]))
    with pytest.raises(debias.RowsError, match="names of the columns of X"):
        debias.score(of_words, debias.Dataset(TEXTS, CLASSES, feature_names=["review"]))


@pytest.mark.parametrize("kind", [RandomForestRegressor, LGBMRegressor])
def test_sparse_frames_are_equal_to_dense_ones(kind):
    dense = pd.DataFrame(np.where(rng.random((N, 3)) < 0.6, 0.0, NUMBERS), columns=list("abc"))
    sparse = dense.astype(pd.SparseDtype(float, 0.0))
    settings = {"verbose": -1, "n_jobs": 1} if kind is LGBMRegressor else {}
    model = kind(n_estimators=10, random_state=0, **settings).fit(sparse, RESPONSE)
    rows = "train" if kind is LGBMRegressor else "oob"
    with pytest.warns(debias.DebiasWarning) if rows == "train" else np.errstate():
        of_sparse = debias.score(model, sparse, RESPONSE, rows=rows)
        of_dense = debias.score(model, dense, RESPONSE, rows=rows)
    np.testing.assert_array_equal(of_sparse.values, of_dense.values)
    assert of_sparse.feature_names == ("a", "b", "c")


def test_one_sparse_column_that_leaves_out_another_value():
    b = np.where(NUMBERS["a"] > 0, 7.0, NUMBERS["b"])
    dense, X = NUMBERS.assign(b=b), NUMBERS.assign(b=pd.arrays.SparseArray(b, fill_value=7.0))
    model = LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(dense[: N // 2], RESPONSE[: N // 2])
    y = RESPONSE[N // 2 :]
    found, expected = (debias.score(model, rows[N // 2 :], y, rows="held-out").values for rows in (X, dense))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("make", ["xgboost.DMatrix", "lightgbm.Dataset"])
def test_rows_in_the_form_of_a_library_are_refused(make):
    module, _, kind = make.partition(".")
    rows = getattr(pytest.importorskip(module), kind)(NUMBERS)
    with pytest.raises(debias.RowsError, match=f"X has the type {module}.{kind}.*Pass the table"):
        debias.score(forest().fit(NUMBERS, RESPONSE), rows, RESPONSE)


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (RandomForestRegressor, "RandomForestRegressor'> is a class"),
        ([], "a list of models is not a model"),
        (Path("models/churn.ubj"), r"pass debias.load_model\('models/churn.ubj'\)"),
    ],
)
def test_what_is_no_model_is_told(model, complaint):
    with pytest.raises(debias.UnsupportedModelError, match=complaint):
        debias.score(model, NUMBERS, RESPONSE)


def test_the_test_of_dependence_is_left_out_where_it_would_take_minutes(monkeypatch):
    model = forest().fit(NUMBERS, RESPONSE)
    assert "dependence" in debias.audit(model, NUMBERS, RESPONSE, random_state=0).to_frame()
    monkeypatch.setattr("debias.api.prepared.MOST_FITTED", N * 15 * 3 - 1)
    with pytest.warns(debias.DebiasWarning, match="dependence was not tested"):
        audit = debias.audit(model, NUMBERS, RESPONSE, random_state=0)
    assert "dependence" not in audit.to_frame()
    assert any("rows times trees times features" in text for text in audit.warnings)
    assert any(line.startswith("Dependence was not tested: rows times trees times") for line in audit.summary())
    assert "dependence" in debias.audit(model, NUMBERS, RESPONSE, random_state=0, dependence=True).to_frame()


@pytest.mark.parametrize("function", [lambda X: X[:, ::-1], lambda X: X.cumsum(axis=1)], ids=["reversed", "sums"])
def test_names_that_a_function_gives_its_columns_are_tried(function):
    X = NUMBERS.to_numpy()
    claimed = FunctionTransformer(function, feature_names_out="one-to-one")
    model = make_pipeline(claimed, RandomForestRegressor(10, random_state=0)).fit(X, RESPONSE)
    honest = make_pipeline(FunctionTransformer(function), RandomForestRegressor(10, random_state=0))
    expected = debias.score(honest.fit(X, RESPONSE), X, RESPONSE)
    scores = debias.score(model, X, RESPONSE)
    assert scores.feature_names == expected.feature_names
    np.testing.assert_array_equal(scores.values, expected.values)
    assert scores.values.argmax() == scores.feature_names.index("x0")
