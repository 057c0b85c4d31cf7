"""The studies by name, made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from debias.benchmarks.studies import data_sets, deng, hong, li, loh
from debias.errors import RowsError

if TYPE_CHECKING:
    import pandas as pd

    from debias.benchmarks.study import Study

STUDIES: dict[str, Callable[[], Study]] = {
    "li-table1": li.table_1,
    "li-depth": li.depth,
    "loh-null": loh.null,
    "loh-power": loh.power,
    "loh-missing": loh.missing,
    "deng": deng.study,
    "deng-partial": deng.partial_permutation,
    "hong": hong.contextual,
    "merits": hong.merits,
}
ON_DATA: dict[str, Callable[[pd.DataFrame], Study]] = {"li-chip": li.chip}
"""Studies of a matrix that the user gives."""
WITH_DATA: dict[str, Callable[[pd.DataFrame | None], Study]] = {
    "guide-sets": data_sets.guide_sets,
    "predictive-value": data_sets.predictive_value,
}
"""Studies that take one more data set, the 2004 cars."""


def study(name: str, data: pd.DataFrame | None = None) -> Study:
    """Return a study by name.

    Parameters
    ----------
    name : str
        Of STUDIES, ON_DATA or WITH_DATA.
    data : DataFrame, optional
        For the latter two.

    Raises
    ------
    RowsError
        The study needs data, or takes none.
    """
    if name in ON_DATA:
        if data is None:
            raise RowsError(f"{name} needs a matrix of numbers: pass --data FILE")
        return replace(ON_DATA[name](data), data=_fingerprint(data))
    if name in WITH_DATA:
        return replace(WITH_DATA[name](data), data="" if data is None else _fingerprint(data))
    if data is not None:
        raise RowsError(f"{name} draws its own data and takes none")
    return STUDIES[name]()


def _fingerprint(data: pd.DataFrame) -> str:
    from pandas.util import hash_pandas_object

    names = repr([str(name) for name in data.columns]).encode()
    return sha256(names + hash_pandas_object(data, index=False).to_numpy().tobytes()).hexdigest()[:16]
