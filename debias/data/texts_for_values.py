"""Refusal of texts where the values of a column are wanted: ``y="wage"`` for rows in memory."""

from __future__ import annotations

from typing import Any

from debias.data.table import names_of_columns
from debias.errors import RowsError


def refuse_texts(X: Any, **of_rows: Any) -> None:
    """Raise a RowsError if an argument that needs one value per row is a text, such as the name of a column.

    Parameters
    ----------
    X : array, sparse matrix or data frame
        Rows in memory. Sources of rows, such as files, do take names of columns.
    **of_rows
        Arguments with one value per row.
    """
    for argument, text in of_rows.items():
        if not isinstance(text, str):
            continue
        if text not in (names_of_columns(X) or ()):
            what = "the response itself" if argument == "y" else "the values themselves"
            raise RowsError(f"{argument} is the text {text!r}, which is no column of X: pass {what}, one value per row")
        is_pandas = hasattr(X, "iloc")
        if argument == "y":
            how = f": X.drop(columns=[{text!r}]) as X, and X[{text!r}] as y" if is_pandas else ""
            raise RowsError(
                f"y is the text {text!r}, the name of a column of X: pass the column itself as y, and X without it{how}"
            )
        how = f": {argument}=X[{text!r}]" if is_pandas else ""
        raise RowsError(f"{argument} is the text {text!r}, the name of a column of X: pass the column itself{how}")
