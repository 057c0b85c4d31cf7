"""Family-wise error rates of models behind steps that have seen y: refused out of bag, at the level on other rows."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder

import debias
from debias.selection import DebiasedSelector

N_SETS = 200
LIMIT = 0.05 + 2 * np.sqrt(0.05 * 0.95 / N_SETS)
FOREST = RandomForestRegressor(40, min_samples_leaf=3, max_features=1 / 3, random_state=0)
EXTRA = ExtraTreesRegressor(40, min_samples_leaf=3, random_state=0)
BOOSTER = HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=5)


class MeansOfAllRows(TransformerMixin, BaseEstimator):
    """An encoder without cross-fitting: each category becomes the mean response of its training rows."""

    def fit(self, X, y):
        self.mean_, frame = float(np.mean(y)), pd.DataFrame(np.asarray(X))
        self.means_ = [pd.Series(y).groupby(frame[k].to_numpy()).mean().to_dict() for k in frame]
        return self

    def transform(self, X):
        frame = pd.DataFrame(np.asarray(X))
        return np.column_stack([frame[k].map(means).fillna(self.mean_) for k, means in enumerate(self.means_)])


def numbers(n, n_columns, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(n, n_columns)), columns=[f"x{k}" for k in range(n_columns)]), rng.normal(
        size=n
    )


def categories(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"id": rng.integers(0, 100, n), "town": rng.integers(0, 20, n), "a": rng.normal(size=n)})
    return X, rng.normal(size=n)


def encoded(encoder, model):
    return make_pipeline(make_column_transformer((encoder, ["id", "town"]), remainder="passthrough"), model)


SETTINGS = {
    "TargetEncoder, forest": (lambda: encoded(TargetEncoder(), FOREST), partial(categories, 600)),
    "TargetEncoder, booster": (lambda: encoded(TargetEncoder(), BOOSTER), partial(categories, 600)),
    "TargetEncoder, ExtraTrees": (lambda: encoded(TargetEncoder(), EXTRA), partial(categories, 600)),
    "SelectKBest, forest": (
        lambda: make_pipeline(SelectKBest(f_regression, k=8), FOREST),
        partial(numbers, 300, 200),
    ),
    "DebiasedSelector, forest": (
        lambda: make_pipeline(DebiasedSelector(FOREST, random_state=0), FOREST),
        partial(numbers, 300, 20),
    ),
    "means of all rows, forest": (lambda: encoded(MeansOfAllRows(), FOREST), partial(categories, 600)),
}


def finds_noise(audit):
    assert audit.tested, audit.untested_because
    return "informative" in audit.verdict


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_error_rate_on_rows_that_no_step_has_seen(setting):
    make, draw = SETTINGS[setting]
    found = []
    for seed in range(N_SETS):
        X, y = draw(seed)
        half = len(y) // 2
        model = make().fit(X[:half], y[:half])
        with pytest.raises(debias.ProvenanceError, match="these are the training rows"):
            debias.audit(model, X[:half], y[:half], random_state=seed)
        found.append(
            finds_noise(
                debias.audit(
                    model, X[half:], y[half:], rows="held-out", test="permutation", random_state=seed, dependence=False
                )
            )
        )
    print(f"{setting}: {np.mean(found):.3f}")
    assert np.mean(found) <= LIMIT


def best_columns(X, y, half):
    return X[X.columns[np.argsort(-np.abs(X[:half].corrwith(pd.Series(y[:half]))).to_numpy())[:8]]]


def means_of_categories(encoder, X, y, half):
    """Return categories encoded as in a notebook: training rows by `fit_transform`, later rows by `transform`."""
    encoder = make_column_transformer((encoder, ["id", "town"]), remainder="passthrough")
    return np.vstack([encoder.fit_transform(X[:half], y[:half]), encoder.transform(X[half:])])


BY_HAND = {
    "best 8 columns": (best_columns, partial(numbers, 300, 200)),
    "means of all rows": (partial(means_of_categories, MeansOfAllRows()), partial(categories, 600)),
    "cross-fitted means": (partial(means_of_categories, TargetEncoder()), partial(categories, 600)),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* of the rows repeat the values")  # cross-fitted means are nearly unique
@pytest.mark.filterwarnings("ignore:these rows differ from the training rows")  # cross-fitted means vary more
@pytest.mark.parametrize("kind", BY_HAND)
def test_what_is_done_by_hand_before_the_model_is_seen_on_other_rows_only(kind):
    make, draw = BY_HAND[kind]
    out_of_bag, held_out = [], []
    for seed in range(N_SETS):
        X, y = draw(seed)
        half = len(y) // 2
        made = make(X, y, half)
        model = FOREST.fit(made[:half], y[:half])
        given = {"test": "permutation", "dependence": False, "random_state": seed}
        out_of_bag.append(finds_noise(debias.audit(model, made[:half], y[:half], rows="oob", **given)))
        held_out.append(finds_noise(debias.audit(model, made[half:], y[half:], rows="held-out", **given)))
    print(f"{kind} by hand: out of bag {np.mean(out_of_bag):.3f}, held out {np.mean(held_out):.3f}")
    assert np.mean(out_of_bag) > LIMIT, "docs/significance.md says that it cannot be seen"
    assert np.mean(held_out) <= LIMIT
