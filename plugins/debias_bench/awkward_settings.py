"""Further settings of the table of error rates: data and models on which tests often fail, most on held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from debias_bench.significance_settings import Setting, forest, li_rows, xgboost_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias_bench.significance_settings import Drawn, DrawnOf

    Array = NDArray[np.float64]

N_NOISE = 12


def awkward_settings() -> list[Setting]:
    """Return the settings: skewed, clustered, selected, encoded, imbalanced and others."""
    leaf_5 = partial(forest, min_samples_leaf=5)
    oob: dict[str, Callable[[np.random.Generator], DrawnOf]] = {
        "exp(2x) lognormal": partial(_of_noise, response=RESPONSES["exp(2x) lognormal"], n=200),
        "claims, 80 % zero": partial(_of_noise, response=RESPONSES["claims, 80 % zero"], n=400),
        "two outputs": _two_outputs,
    }
    held_out: dict[str, tuple[Callable[[np.random.Generator], DrawnOf], Callable[[int], Any]]] = {
        "exp(2x) lognormal, 200 rows": (oob["exp(2x) lognormal"], xgboost_model),
        "counts, LightGBM, 300 rows": (partial(_of_noise, response=RESPONSES["counts"], n=300), _lightgbm),
        "blocks of 1 to 12, 300 rows": (_clustered, xgboost_model),
        "blocks of 1 to 12, 10 % of class 1": (partial(_clustered, share=0.1), _classes),
        "weights of classes, 10 % of class 1": (_weights_of_classes, _classes),
        "5 % of class 1, 300 rows": (partial(_of_noise, response=_rare, n=300), _classes),
        "5 % of class 1, 100 rows": (partial(_of_noise, response=_rare, n=100), _classes),
        "three classes, 200 rows": (partial(_of_noise, response=RESPONSES["three classes"], n=200), _classes),
        "SelectKBest, forest": (partial(_of_noise, response=_normal, n=300, more=88), _selected),
        "TargetEncoder, forest": (_categories, _encoded),
        "50 features, 5 relevant": (partial(li_rows, mirror=False), _classes),
        "censored times (AFT)": (_censored, AcceleratedFailure),
        "3,000 rows (signs)": (partial(_of_noise, response=_normal, n=3000), xgboost_model),
        "beside signals, heteroscedastic": (_beside_signals, xgboost_model),
        "beside signals, two outputs": (_beside_two_outputs, _booster(multi_strategy="multi_output_tree")),
        "beside signals, weights of rows": (_weights_of_rows, xgboost_model),
        "beside signals, quantile .9": (
            partial(_beside_signals, response=lambda mean, rng: mean + rng.exponential(size=mean.size)),
            _booster(objective="reg:quantileerror", quantile_alpha=0.9),
        ),
        "beside signals, absolute error": (
            partial(_beside_signals, response=lambda mean, rng: mean + rng.standard_t(2, mean.size)),
            _booster(objective="reg:absoluteerror"),
        ),
        "beside signals, Huber, LightGBM": (
            partial(_beside_signals, response=lambda mean, rng: mean + rng.standard_t(2, mean.size)),
            partial(_lightgbm, objective="huber"),
        ),
        "beside signals, gamma": (
            partial(_beside_signals, response=lambda mean, rng: rng.gamma(2, np.exp(0.4 * mean))),
            _booster(objective="reg:gamma"),
        ),
        "beside signals, Tweedie, 70 % zero": (
            partial(
                _beside_signals,
                response=lambda mean, rng: (rng.random(mean.size) < 0.3) * rng.gamma(2, np.exp(0.4 * mean)),
            ),
            _booster(objective="reg:tweedie"),
        ),
    }
    many = {"50 features, 5 relevant": 999}
    return [
        *(Setting(name, draw, leaf_5) for name, draw in oob.items()),
        *(
            Setting(f"{name}, held out", draw, model, held_out=True, n_permutations=many.get(name, 199))
            for name, (draw, model) in held_out.items()
        ),
    ]


def noise(rng: np.random.Generator, n: int) -> Array:
    """Draw columns with few values, rare ones, heavy tails, and some that depend on one another."""
    X = rng.normal(size=(n, N_NOISE))
    X[:, :3] = rng.integers(0, [2, 4, 20], (n, 3))
    X[:, 3] = rng.random(n) < 0.05
    X[:, 4], X[:, 5] = rng.standard_t(2, n), rng.lognormal(0, 1.5, n)
    X[:, 6] = rng.poisson(1.0, n)
    X[:, 8] = 0.95 * X[:, 7] + 0.3 * X[:, 8]
    X[:, 9] = X[:, 7] ** 2 + rng.normal(size=n)
    return X


def unequal_blocks(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """Draw blocks of 1 to 12 rows."""
    return np.repeat(np.arange(n), rng.integers(1, 13, n))[:n]


def _normal(rng: np.random.Generator, n: int) -> Array:
    return rng.normal(size=n)


def _rare(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    return (np.arange(n) % 20 == 0)[rng.permutation(n)].astype(np.int64)


RESPONSES: dict[str, Callable[[np.random.Generator, int], NDArray[Any]]] = {
    "exp(2x) lognormal": lambda rng, n: np.exp(2 * rng.normal(size=n)),
    "claims, 80 % zero": lambda rng, n: (rng.random(n) < 0.2) * rng.gamma(1, 1000 * np.exp(0.7 * rng.normal(size=n))),
    "counts": lambda rng, n: rng.poisson(rng.gamma(0.5, 2.0, n)).astype(float),
    "three classes": lambda rng, n: rng.choice(3, n, p=[0.6, 0.3, 0.1]),
}


def _of_noise(
    rng: np.random.Generator, response: Callable[[np.random.Generator, int], NDArray[Any]], n: int, more: int = 0
) -> Drawn:
    """Draw noise, with `more` normal columns, and a response that depends on none of it."""
    X = np.column_stack([noise(rng, n), rng.normal(size=(n, more))])
    return X, response(rng, n), np.zeros(X.shape[1], dtype=bool)


def _two_outputs(rng: np.random.Generator) -> Drawn:
    """Draw two correlated responses, one of them with heavy tails."""
    common = rng.normal(size=(200, 1))
    y = common + np.column_stack([rng.normal(size=200), rng.standard_t(3, 200)])
    return noise(rng, 200), y, np.zeros(N_NOISE, dtype=bool)


def _clustered(rng: np.random.Generator, share: float | None = None, n: int = 300) -> DrawnOf:
    """Draw columns and a response of which half of the variance is between blocks of unequal size."""
    block = unequal_blocks(rng, n)
    X = np.where(rng.random((n, N_NOISE)) < 0.5, noise(rng, n)[block], noise(rng, n))
    y = (rng.normal(size=n)[block] + rng.normal(size=n)) / np.sqrt(2)
    response = y if share is None else (y > np.quantile(y, 1 - share)).astype(np.int64)
    return X, response, np.zeros(N_NOISE, dtype=bool), {"blocks": block}


def _weights_of_classes(rng: np.random.Generator, n: int = 300) -> DrawnOf:
    y = (rng.random(n) < 0.1).astype(np.int64)
    return noise(rng, n), y, np.zeros(N_NOISE, dtype=bool), {"sample_weight": np.where(y == 1, 9.0, 1.0)}


def _beside_signals(
    rng: np.random.Generator, n: int = 300, response: Callable[[Array, np.random.Generator], Array] | None = None
) -> Drawn:
    """Draw three relevant columns beside columns of noise; the response has the mean of `response`, or other noise.

    Without `response`, the response is the mean with heteroscedastic noise.
    """
    signal = rng.normal(size=(n, 3))
    mean = signal[:, 0] + signal[:, 1] * signal[:, 2]
    y = mean + np.exp(0.5 * signal[:, 0]) * rng.normal(size=n) if response is None else response(mean, rng)
    return np.column_stack([noise(rng, n), signal]), y, np.arange(N_NOISE + 3) >= N_NOISE


def _beside_two_outputs(rng: np.random.Generator) -> Drawn:
    """Draw two responses of the same three columns, one of them with heavy tails."""
    X, y, relevant = _beside_signals(rng)
    return X, np.column_stack([y, X[:, -1] + rng.standard_t(3, len(y))]), relevant


def _weights_of_rows(rng: np.random.Generator) -> DrawnOf:
    """Draw weights with heavy tails, which depend on a column of noise too; rows of large weight have less noise."""
    X, mean, relevant = _beside_signals(rng, response=lambda mean, _: mean)
    weight = rng.lognormal(0, 1, len(mean)) * np.exp(0.5 * np.tanh(X[:, 7]))
    return X, mean + rng.normal(size=len(mean)) / np.sqrt(weight), relevant, {"sample_weight": weight}


def _categories(rng: np.random.Generator, n: int = 300) -> Drawn:
    """Draw codes of 100 and of 20 categories, and a number."""
    X = np.column_stack([rng.integers(0, 100, n), rng.integers(0, 20, n), rng.normal(size=n)])
    return X, rng.normal(size=n), np.zeros(3, dtype=bool)


def _censored(rng: np.random.Generator, n: int = 300) -> Drawn:
    """Draw lower and upper bounds of times; a third of the times is censored, depending on the first column."""
    X = noise(rng, n)
    time, end = rng.exponential(size=n), rng.exponential(2.0, size=n) * np.exp(0.2 * X[:, 0])
    observed = time <= end
    bounds = np.column_stack([np.minimum(time, end), np.where(observed, time, np.inf)])
    return X, bounds, np.zeros(N_NOISE, dtype=bool)


def _classes(seed: int) -> Any:
    """Return an unfitted boosted classifier of XGBoost."""
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=50, max_depth=4, learning_rate=0.1, random_state=seed, n_jobs=1)


def _booster(**settings: Any) -> Callable[[int], Any]:
    """Return a function of a seed: an unfitted boosted regression of XGBoost with these settings."""
    return lambda seed: xgboost_model(seed).set_params(**settings)


def _lightgbm(seed: int, **settings: Any) -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=50, num_leaves=15, random_state=seed, n_jobs=1, verbose=-1, **settings)


def _selected(seed: int) -> Any:
    """Return a forest of the eight columns that go most with the response of the training rows."""
    from sklearn.feature_selection import SelectKBest, f_regression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(SelectKBest(f_regression, k=8), forest(seed, min_samples_leaf=5))


def _encoded(seed: int) -> Any:
    """Return a forest of categories that are encoded by the mean response."""
    from sklearn.compose import make_column_transformer
    from sklearn.model_selection import KFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import TargetEncoder

    how: dict[str, Any] = {"random_state": seed}
    if TargetEncoder().random_state == "deprecated":  # from scikit-learn 1.9 on
        how = {"cv": KFold(5, shuffle=True, random_state=seed)}
    encoder = make_column_transformer((TargetEncoder(**how), [0, 1]), remainder="passthrough")
    return make_pipeline(encoder, forest(seed, min_samples_leaf=5))


class AcceleratedFailure:
    """An unfitted boosted model of accelerated failure times."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: Array, bounds: Array) -> Any:
        """Return a booster trained on rows with bounds of times."""
        import xgboost

        rows = xgboost.DMatrix(X, label_lower_bound=bounds[:, 0], label_upper_bound=bounds[:, 1])
        settings = {"objective": "survival:aft", "max_depth": 3, "nthread": 1, "seed": self.seed}
        return xgboost.train(settings, rows, 50)
