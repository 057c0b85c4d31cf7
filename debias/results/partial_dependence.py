"""Partial dependence: how the mean prediction of a model changes with one feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.text import counted

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Curve:
    """The partial dependence on one feature.

    Parameters
    ----------
    feature : str
    values : array of shape (n_values,)
        Values of the feature: float64 in ascending order, or labels (objects), the most frequent first. A missing value
        (NaN or None) is the last one.
    mean : array of float64 of shape (n_values, n_outputs)
        Mean output over the rows, with the feature set to each value in all of them.
    individual : array of float64 of shape (n_rows, n_values, n_outputs), or None
        Output of each row (individual conditional expectation); None if it was not asked for.
    n_omitted : int
        Number of labels without a value here, because there are too many.
    """

    feature: str
    values: NDArray[Any]
    mean: NDArray[np.float64]
    individual: NDArray[np.float64] | None = None
    n_omitted: int = 0

    @property
    def is_numeric(self) -> bool:
        """Whether the values are numbers and not labels."""
        return self.values.dtype.kind == "f"

    @property
    def n_present(self) -> int:
        """Number of values without the missing one."""
        last = self.values[-1]
        return self.values.size - int(last is None or last != last)


@dataclass(frozen=True, eq=False)
class PartialDependence:
    """The partial dependence of a model on several features, as :func:`debias.partial_dependence` returns it.

    Parameters
    ----------
    curves : dict of str to Curve
        By feature, in the order in which they were asked for.
    output_names : tuple of str
        Names of the outputs: classes, or responses.
    unit : str
        What the outputs are: "probability", "prediction", "log odds" or "raw output"; "... of the trees" if `notes`
        say that the model predicts something else.
    rows : array of int64 of shape (n_rows,)
        Positions in X of the rows that were averaged.
    model : str
        Kind of the model.
    notes : tuple of str
        What a reader of the curves must know.
    """

    curves: dict[str, Curve]
    output_names: tuple[str, ...]
    unit: str
    rows: NDArray[np.int64]
    model: str
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        features, rows = counted(len(self.curves), "feature"), counted(self.rows.size, "row")
        return f"<PartialDependence of {self.model}: {features}, mean {self.unit} over {rows}>"

    def __getitem__(self, feature: str) -> Curve:
        return self.curves[feature]

    def to_frame(self) -> pd.DataFrame:
        """Return the mean outputs as a data frame.

        Returns
        -------
        DataFrame
            One row per feature and value, with the columns ``feature``, ``value`` and one for each output.
        """
        import pandas as pd

        parts = [
            pd.DataFrame(
                {"feature": curve.feature, "value": curve.values.astype(object)}
                | dict(zip(self.output_names, curve.mean.T, strict=True))
            )
            for curve in self.curves.values()
        ]
        return pd.concat(parts, ignore_index=True)
