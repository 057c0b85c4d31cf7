"""A Dataset: what belongs to rows is used, or refused, by everything that takes rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias

NAMES = list("abcd")
pytestmark = pytest.mark.filterwarnings("ignore::debias.DebiasWarning")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(240, 4)), columns=NAMES)
    return X, X["a"] + rng.normal(size=240)


@pytest.fixture(scope="module")
def forest(rows):
    X, y = rows
    return RandomForestRegressor(10, random_state=0).fit(X[:120], y[:120])


def test_a_dataset_gives_the_numbers_of_its_parts(forest, rows):
    X, y = rows[0][120:], rows[1][120:]
    weight = np.random.default_rng(1).uniform(0.5, 2, 120)
    plain = debias.audit(forest, X, y, rows="held-out", sample_weight=weight, random_state=0)
    for given in (
        (debias.Dataset(X, y, sample_weight=weight),),
        (debias.Dataset(X, sample_weight=weight), y),
    ):
        audit = debias.audit(forest, *given, rows="held-out", random_state=0)
        assert audit.to_json() == plain.to_json()
    generator = np.random.default_rng(5)
    drawn = int(np.random.default_rng(5).integers(2**32))
    by_seed, by_generator = (
        debias.audit(forest, X, y, rows="held-out", random_state=state) for state in (drawn, generator)
    )
    assert by_seed.to_json() == by_generator.to_json()


def test_what_is_given_twice_or_inside_one_another_is_refused(forest, rows):
    X, y = rows
    with pytest.raises(debias.RowsError, match="y is passed beside .*must have a name, such as scorer="):
        debias.score(forest, debias.Dataset(X, y), "mdi")
    weighted = debias.Dataset(X, y, sample_weight=np.ones(240))
    with pytest.raises(debias.RowsError, match="sample_weight is passed beside a Dataset that has sample_weight"):
        debias.score(forest, weighted, sample_weight=np.ones(240))
    with pytest.raises(debias.RowsError, match="X of a Dataset is a Dataset itself"):
        debias.score(forest, debias.Dataset(weighted))


def test_training_rows_have_weights_and_queries_and_nothing_else(forest, rows):
    X, y = rows
    fresh = X[120:], y[120:]
    given = {"rows": "held-out", "random_state": 0, "test": None}
    for train, said in (
        ((X[:120], y[:120], None), "train must be"),
        (debias.Dataset(X[:120]), "has no response"),
        (debias.Dataset(X[:120], y[:120], blocks=np.arange(120)), "has blocks, which is for evaluation rows"),
        (debias.Dataset(X[:120].to_numpy(), y[:120], feature_names=NAMES[::-1]), "other feature_names"),
    ):
        with pytest.raises(debias.RowsError, match=said):
            debias.score(forest, *fresh, "ufi", train=train, **given)
    named = debias.Dataset(X[:120].to_numpy(), y[:120], feature_names=NAMES)
    found = debias.score(forest, *fresh, "ufi", train=named, **given).values
    assert (found == debias.score(forest, *fresh, "ufi", train=(X[:120], y[:120]), **given).values).all()


def test_a_history_refuses_what_it_cannot_use(forest, rows, tmp_path):
    X, y = rows[0][120:], rows[1][120:]
    history = debias.History(forest, tmp_path / "model.history")
    for given in ({"blocks": np.arange(120)}, {"qid": np.arange(120)}, {"feature_names": NAMES}):
        with pytest.raises(debias.RowsError, match=f"a history takes no {next(iter(given))}"):
            history.add(debias.Dataset(X, y, **given), at=1)
    assert history.add(debias.Dataset(X, y), at=1)
    assert history.add(X, y, at=1) is False


def test_settings_of_refits_are_checked(forest, rows):
    for refits in ({"params": {}}, debias.Refits):
        with pytest.raises(debias.RowsError, match="must be debias.Refits"):
            debias.score(forest, *rows, refits=refits)
    for wrong in ({"budget": "10"}, {"budget": True}, {"budget": 0}, {"checkpoint": 5}):
        with pytest.raises(debias.RowsError, match="must be"):
            debias.Refits(**wrong)


def test_an_audit_that_could_test_no_feature_lists_no_features(forest, rows):
    constant = debias.audit(forest, rows[0][120:] * 0, rows[1][120:], rows="held-out", random_state=0)
    with pytest.raises(debias.DebiasError, match="these rows could test none of the features; a: "):
        _ = constant.features


def test_dependence_by_a_boolean_of_numpy_is_that_of_python(forest, rows):
    X, y = rows
    train = {"rows": "held-out", "train": (X[:120], y[:120]), "random_state": 0}
    assert debias.audit(forest, X[120:], y[120:], dependence=np.False_, **train).dependence is None
    with pytest.raises(debias.DebiasError):
        debias.audit(forest, X[120:], y[120:], rows="held-out", dependence=np.True_)


def test_folds_without_a_response_are_refused(forest, rows):
    with pytest.raises(debias.RowsError, match="y is missing"):
        debias.audit_folds([forest], rows[0])
