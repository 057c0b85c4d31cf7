"""The catalogue of studies: functions that make them, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from debias import RowsError
from debias_bench.studies import data_sets, li, papers

if TYPE_CHECKING:
    import pandas as pd

    from debias_bench.study import Study

STUDIES: dict[str, Callable[[], Study]] = {
    "li-table1": li.table_1,
    "li-depth": li.depth,
    "li-matched": li.matched,
    "loh-null": papers.loh_null,
    "loh-power": papers.loh_power,
    "loh-missing": papers.loh_missing,
    "deng": papers.deng,
    "deng-partial": papers.deng_partial,
    "hong": papers.hong,
    "merits": papers.merits,
}
ON_DATA: dict[str, Callable[[pd.DataFrame], Study]] = {"li-chip": li.chip}
"""Studies that need a matrix from the user."""
WITH_DATA: dict[str, Callable[[pd.DataFrame | None], Study]] = {
    "guide-sets": data_sets.guide_sets,
    "predictive-value": data_sets.predictive_value,
    "mdi-plus": papers.mdi_plus,
}
"""Studies that take one more data set from the user: the 2004 cars, or a matrix of real features."""


def study(name: str, data: pd.DataFrame | None = None) -> Study:
    """Return a study by name.

    Parameters
    ----------
    name : str
        A key of STUDIES, ON_DATA or WITH_DATA.
    data : DataFrame, optional
        For a study of ON_DATA or WITH_DATA.

    Raises
    ------
    RowsError
        The study needs data but got none, or takes no data but got some.
    """
    if name in ON_DATA:
        if data is None:
            raise RowsError(f"{name} needs a matrix of numbers: pass --data FILE")
        return replace(ON_DATA[name](data), data=_digest(data))
    if name in WITH_DATA:
        return replace(WITH_DATA[name](data), data="" if data is None else _digest(data))
    if data is not None:
        raise RowsError(f"{name} draws its own data: leave --data out")
    return STUDIES[name]()


def _digest(data: pd.DataFrame) -> str:
    from pandas.util import hash_pandas_object

    names = repr([str(name) for name in data.columns]).encode()
    return sha256(names + hash_pandas_object(data, index=False).to_numpy().tobytes()).hexdigest()[:16]
