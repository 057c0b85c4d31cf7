"""Responses of the table of combinations: what a response looks like, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow


def cut(latent, *cuts):
    return np.digitize(latent, cuts)


def spoilt(y, value, at=3):
    y = np.array(y, dtype=float)
    y[at] = value
    return y


TARGETS: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda z: z,
    "whole numbers": lambda z: np.round(5 * z).astype(int),
    "positive": lambda z: np.exp(z / 2),
    "counts": lambda z: np.random.default_rng(3).poisson(np.exp(z / 2)),
    "shares": lambda z: 1 / (1 + np.exp(-z)),
    "0/1": lambda z: cut(z, 0),
    "-1/1": lambda z: 2 * cut(z, 0) - 1,
    "1/2": lambda z: 1 + cut(z, 0),
    "bool": lambda z: z > 0,
    "0.0/1.0": lambda z: cut(z, 0).astype(float),
    "two strings": lambda z: np.where(z > 0, "yes", "no"),
    "two objects": lambda z: np.where(z > 0, "yes", "no").astype(object),
    "pandas category": lambda z: pd.Series(np.where(z > 0, "yes", "no"), dtype="category"),
    "pandas string": lambda z: pd.Series(np.where(z > 0, "yes", "no"), dtype="string"),
    "pandas Int64": lambda z: pd.Series(cut(z, 0), dtype="Int64"),
    "pandas boolean": lambda z: pd.Series(z > 0, dtype="boolean"),
    "Arrow numbers": lambda z: pd.Series(z, dtype="float64[pyarrow]"),
    "polars series": lambda z: polars.Series(z),
    "pyarrow array": lambda z: pyarrow.array(z),
    "list": lambda z: list(z),
    "list of strings": lambda z: ["yes" if each > 0 else "no" for each in z],
    "one column": lambda z: z[:, None],
    "frame of one column": lambda z: pd.DataFrame({"y": z}),
    "rare class (5 %)": lambda z: cut(z, np.quantile(z, 0.95)),
    "three classes": lambda z: cut(z, -1, 1),
    "three strings": lambda z: np.array(["low", "middle", "high"])[cut(z, -1, 1)],
    "ordered category": lambda z: pd.Series(
        pd.Categorical.from_codes(cut(z, -1, 1), ["low", "middle", "high"], ordered=True)
    ),
    "ten classes": lambda z: cut(z, *np.quantile(z, np.arange(0.1, 1, 0.1))),
    "two columns": lambda z: np.column_stack([z, -z + np.random.default_rng(3).normal(size=len(z))]),
    "frame of two columns": lambda z: pd.DataFrame({"u": z, "v": -z}),
    "two labels": lambda z: np.column_stack([cut(z, 0), cut(z, 1)]),
    "classes of two kinds": lambda z: np.column_stack([cut(z, 0), cut(z, -1, 1)]),
    "grades in groups": lambda z: cut(z, -2, 0, 2),
    "bounds of times": lambda z: np.column_stack([np.exp(z / 2), np.where(z > 1, np.inf, np.exp(z / 2))]),
    "constant": lambda z: np.ones(len(z)),
    "one class": lambda z: np.ones(len(z), dtype=int),
    "dates": lambda z: pd.Timestamp("2024-01-01") + pd.to_timedelta(np.round(1000 * z), unit="min"),
}
SPOILT: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "numbers, one NaN in the rows": ("numbers", lambda y: spoilt(y, np.nan)),
    "numbers, one infinity in the rows": ("numbers", lambda y: spoilt(y, np.inf)),
    "0/1, one NaN in the rows": ("0/1", lambda y: spoilt(y, np.nan)),
    "two strings, one None in the rows": ("two objects", lambda y: np.where(np.arange(len(y)) == 3, None, y)),
    "0/1, an unknown class in the rows": ("0/1", lambda y: np.where(np.arange(len(y)) == 3, 2, y)),
    "two strings, 0/1 in the rows": ("two strings", lambda y: (y == "yes").astype(int)),
    "numbers, strings in the rows": ("numbers", lambda y: np.where(y > 0, "yes", "no")),
    "counts, a negative one in the rows": ("counts", lambda y: spoilt(y, -1)),
    "numbers, too few in the rows": ("numbers", lambda y: y[:-1]),
    "numbers, two columns in the rows": ("numbers", lambda y: np.column_stack([y, y])),
    "numbers, constant in the rows": ("numbers", lambda y: np.ones(len(y))),
}
"""What the model was trained on, and what is done to the y that is passed to debias."""
