"""The settings of the table of error rates: simulated data with a known truth, and the models trained on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from debias_bench.simulate import li, loh, strobl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Drawn = tuple[NDArray[np.float64], NDArray[Any], NDArray[np.bool_]]
    DrawnOf = Drawn | tuple[NDArray[np.float64], NDArray[Any], NDArray[np.bool_], dict[str, NDArray[Any]]]

N_TREES = 100


@dataclass(frozen=True)
class Setting:
    """One row of the table of error rates.

    Parameters
    ----------
    name : str
    draw : callable
        ``draw(rng)`` returns X, y and which features are relevant; error rates count the p-values of the others. A
        fourth value is further arguments of ``debias.Dataset``, such as weights.
    model : callable
        ``model(seed)`` returns an unfitted model.
    held_out : bool
        True: the model is tested on held-out rows, as many as it was trained on. False: on its out-of-bag rows.
    block : int
        Number of rows in a block; 0: no blocks.
    test : str
    n_permutations : int
        199 by default: then p-values of a true null are at most 0.05 and 0.01 with exactly these probabilities. 999
        for the settings that count false discoveries among 50 features.
    """

    name: str
    draw: Callable[[np.random.Generator], DrawnOf]
    model: Callable[[int], Any]
    held_out: bool = False
    block: int = 0
    test: str = "auto"
    n_permutations: int = 199


def settings() -> list[Setting]:
    """Return the settings of the table of error rates."""
    deep = partial(forest, min_samples_leaf=1)
    return [
        Setting("E0, min leaf 1", partial(loh_rows, "E0"), deep),
        Setting("E0, min leaf 5", partial(loh_rows, "E0"), partial(forest, min_samples_leaf=5)),
        Setting("E0, min leaf 20", partial(loh_rows, "E0"), partial(forest, min_samples_leaf=20)),
        Setting("E0, mtry all", partial(loh_rows, "E0"), partial(forest, min_samples_leaf=5, max_features=1.0)),
        Setting("E0, n = 200", partial(loh_rows, "E0", n_rows=200), deep),
        Setting("E0, n = 2000", partial(loh_rows, "E0", n_rows=2000), deep),
        Setting("5 features, 2 classes", strobl_rows, partial(classifier)),
        Setting("5 features, 3 classes", partial(strobl_rows, n_classes=3), partial(classifier)),
        Setting("5 features, 5 % of class 1", partial(strobl_rows, share=0.05), partial(classifier)),
        Setting(
            "5 features, 10 %, balanced subsample",
            partial(strobl_rows, share=0.1),
            partial(classifier, class_weight="balanced_subsample"),
        ),
        Setting(
            "5 features, 10 %, balanced", partial(strobl_rows, share=0.1), partial(classifier, class_weight="balanced")
        ),
        Setting("heteroscedastic noise", heteroscedastic, deep),
        Setting("strong signals beside, R2 = 0.9", strong_signal, partial(forest, min_samples_leaf=5)),
        Setting("rows in pairs, blocks", partial(clusters, size=2), deep, block=2),
        Setting(
            "clusters of 5 with a shared effect, blocks",  # too few are out of bag for another test
            partial(clusters, size=5, shared=0.5),
            deep,
            block=5,
            test="conservative",
        ),
        Setting("clusters of 3, blocks", partial(clusters, size=3, shared=0.5), deep, block=3),
        Setting("clusters of 5, blocks, held out", partial(clusters, size=5, shared=0.5), deep, block=5, held_out=True),
        Setting(
            "clusters of 5, blocks, held out, naive",
            partial(clusters, size=5, shared=0.5),
            deep,
            block=5,
            held_out=True,
            test="naive",
        ),
        Setting("rows in pairs, no blocks", partial(clusters, size=2), deep),
        Setting("E0, conservative", partial(loh_rows, "E0"), deep, test="conservative"),
        Setting("E0, held out", partial(loh_rows, "E0"), deep, held_out=True),
        Setting("E0, held out, naive", partial(loh_rows, "E0"), deep, held_out=True, test="naive"),
        Setting("E0, XGBoost, held out", partial(loh_rows, "E0"), xgboost_model, held_out=True),
        Setting("E0, XGBoost, held out, naive", partial(loh_rows, "E0"), xgboost_model, held_out=True, test="naive"),
        Setting("E0, LightGBM, held out", partial(loh_rows, "E0"), lightgbm_model, held_out=True),
        Setting("E0, LightGBM, held out, naive", partial(loh_rows, "E0"), lightgbm_model, held_out=True, test="naive"),
        Setting("50 features, 5 relevant", partial(li_rows, mirror=False), classifier, n_permutations=999),
        Setting("50 features, 5 relevant, mirror", partial(li_rows, mirror=True), classifier, n_permutations=999),
    ]


def forest(seed: int, **settings: Any) -> Any:
    """Return a regression forest that tries a third of the features at each split."""
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(N_TREES, **{"max_features": 1 / 3, "random_state": seed, **settings})


def classifier(seed: int, **settings: Any) -> Any:
    """Return a classification forest."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(N_TREES, random_state=seed, **settings)


def xgboost_model(seed: int) -> Any:
    """Return a boosted regression of XGBoost."""
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=50, max_depth=4, learning_rate=0.1, random_state=seed, n_jobs=1)


def lightgbm_model(seed: int) -> Any:
    """Return a boosted regression of LightGBM."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=50, learning_rate=0.1, random_state=seed, n_jobs=1, verbose=-1)


def loh_rows(model: str, rng: np.random.Generator, n_rows: int = 400) -> Drawn:
    """Draw one of the designs E0 to E5 of Loh and Zhou (2020)."""
    drawn = loh(model, n_rows, seed=seed_of(rng))
    return drawn.numeric.to_numpy(), drawn.y, drawn.is_relevant


def strobl_rows(rng: np.random.Generator, n_classes: int = 2, share: float | None = None) -> Drawn:
    """Draw the five features of the first simulation of Li et al. (2019), and classes independent of them."""
    X = strobl(seed=seed_of(rng), null=True).numeric.to_numpy()
    weights = None if share is None else [1 - share, share]
    y = rng.choice(n_classes, len(X), p=weights)
    y[:n_classes] = range(n_classes)
    return X, y, np.zeros(X.shape[1], dtype=bool)


def li_rows(rng: np.random.Generator, mirror: bool) -> Drawn:
    """Draw 1,000 rows of 50 features, of which 5 matter (Li et al. 2019, second simulation)."""
    drawn = li(mirror=mirror, seed=seed_of(rng))
    return drawn.numeric.to_numpy(), drawn.y, drawn.is_relevant


def heteroscedastic(rng: np.random.Generator) -> Drawn:
    """Draw noise whose standard deviation depends on a feature; its mean is 0 for every row."""
    X, _, none = loh_rows("E0", rng)
    return X, rng.normal(size=len(X)) * np.exp(X[:, 4]), none


def strong_signal(rng: np.random.Generator) -> Drawn:
    """Draw a response of which two features explain 90 %."""
    X, noise, _ = loh_rows("E0", rng)
    mean = 3 * X[:, 0] + 1.5 * X[:, 4] * np.sqrt(2)
    y = mean + noise * np.sqrt(mean.var() / 9)
    relevant = np.zeros(X.shape[1], dtype=bool)
    relevant[[0, 4]] = True
    return X, y, relevant


def clusters(rng: np.random.Generator, size: int, shared: float = 1.0) -> Drawn:
    """Draw clusters of rows with equal features and a shared effect on y; `shared` is its share of the variance."""
    X, _, none = loh_rows("E0", rng, n_rows=400 // size)
    X = np.repeat(X, size, axis=0)
    effect = np.repeat(rng.normal(size=len(X) // size), size)
    return X, np.sqrt(shared) * effect + np.sqrt(1 - shared) * rng.normal(size=len(X)), none


def seed_of(rng: np.random.Generator) -> int:
    """Draw a seed."""
    return int(rng.integers(2**31))
