"""Partial dependence: how the mean prediction of a model changes with one feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.errors import DebiasError
from debias.results import stored
from debias.results.base import BaseResult
from debias.results.fields import SCHEMA_VERSION
from debias.text import counted

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.audit import Audit


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

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values: None for a missing value, and text for infinite numbers.

        Raises
        ------
        DebiasError
            A label is no text, number or True or False, so JSON cannot hold it.
        """
        return {
            "feature": self.feature,
            "is_numeric": self.is_numeric,
            "values": [self._plain(value) for value in self.values.tolist()],
            "mean": self.mean.tolist(),
            "individual": None if self.individual is None else self.individual.tolist(),
            "n_omitted": self.n_omitted,
        }

    def _plain(self, value: Any) -> Any:
        if value is None or value != value:
            return None
        if isinstance(value, np.generic):
            value = value.item()
        if self.is_numeric and np.isinf(value):
            return str(value)
        if not isinstance(value, (str, int, float)):
            raise DebiasError(
                f"{self.feature} has the label {value!r}, which JSON cannot hold: only text, numbers, true and false. "
                "Make the labels text before the model is fitted"
            )
        return value


@dataclass(frozen=True, eq=False, repr=False)
class PartialDependence(BaseResult):
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

    WRITTEN_AS: ClassVar[str] = "a partial dependence written by debias (PartialDependence.to_json)"

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version.

        Raises
        ------
        DebiasError
            As for :meth:`Curve.to_dict`.
        """
        return {
            "kind": stored.CURVES,
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "unit": self.unit,
            "output_names": list(self.output_names),
            "rows": self.rows.tolist(),
            "notes": list(self.notes),
            "curves": [curve.to_dict() for curve in self.curves.values()],
        }

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> PartialDependence:
        fields, curves = stored.curves_fields(plain)
        return cls({each["feature"]: Curve(**each) for each in curves}, **fields)

    def plot(
        self,
        kind: str = "effects",
        ax: Any = None,
        max_features: int = 30,
        *,
        audit: Audit | None = None,
        columns: int = 3,
    ) -> Any:
        """Draw one small picture for each feature, all with the same vertical range.

        A tick at the bottom is a value that the feature was set to: a value or a quantile of the rows.

        Parameters
        ----------
        kind : {"effects"}
        ax : array of matplotlib Axes, optional
            One for each feature that is drawn; new axes by default.
        max_features : int
            Draw at most this many features, the first ones.
        audit : Audit, optional
            Gives the verdicts and shares in the titles.
        columns : int
            Number of pictures beside one another.

        Returns
        -------
        array of matplotlib Axes of shape (n_features,)

        Raises
        ------
        ValueError
            `ax` has another number of axes than there are features.
        ImportError
            matplotlib is not installed (``pip install matplotlib``).
        """
        from debias.results.report.effects import draw_effects
        from debias.results.report.figures import refuse_kind

        refuse_kind(kind, ("effects",))
        return draw_effects(self, audit, ax, columns, max_features)
