"""What a scorer returns: the scores of the features, with all that is needed to understand them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.atomic_files import write_text
from debias.errors import DebiasError
from debias.results import stored as stored_results
from debias.results.stored import SCHEMA_VERSION
from debias.text import feature_index, shown, to_csv

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores:
    """The scores of one scorer, with all that is needed to understand them.

    Parameters
    ----------
    values : array of shape (n_features,)
    feature_names : tuple of str
    scorer, unit : str
        Name with options; what one unit is.
    rows : str or None
        Kind of the evaluation rows; "data" if the scorer needs only data; None if it looked at no rows.
    n_rows : int or None
        Number of evaluation rows.
    provenance : dict
        What was proven about them.
    details : dict
        What the scorer reports beside: trees without rows, the base step of a running loss.
    warnings : tuple of str
    settings : dict
        Model, versions, seed.
    standard_error : array of shape (n_features,), or None
        Of `values`, the splits held: on out-of-bag rows by the infinitesimal jackknife, which sees that a row also
        makes node means in the bags it is in; None where the score was not tested, or where those are permuted and
        the leaves hold no means of y (medians, quantiles, clipped or shrunken means).
    z : array of shape (n_features,), or None
        The statistic of the test: a studentised score, whose node terms are multiplied by n_t / (n_t + 30) where the
        model stores in-bag counts; so it is not values / standard_error.
    p_value, p_adjusted : array of shape (n_features,), or None
        One-sided, for a score above 0; adjusted for the number of features as ``details["test"]`` says.
    selected : array of bool of shape (n_features,), or None
        Whether p_adjusted is at most alpha, or what the scorer itself decides (``guide``).
    threshold : float or None
        The z a feature must exceed to be found family-wise at alpha were it the only one: the minimum detectable z.
        Of a scorer that decides by itself, the score from which on it selects.
    null : array of shape (n_permutations, n_features), or None
        z of the permuted responses. Of a meta-method, what the scorer inside gave in each replicate: scores of permuted
        responses, or of copies.
    """

    values: NDArray[np.float64]
    feature_names: tuple[str, ...]
    scorer: str
    unit: str
    rows: str | None
    n_rows: int | None
    provenance: dict[str, Any]
    details: dict[str, Any]
    warnings: tuple[str, ...]
    settings: dict[str, Any]
    standard_error: NDArray[np.float64] | None = None
    z: NDArray[np.float64] | None = None
    p_value: NDArray[np.float64] | None = None
    p_adjusted: NDArray[np.float64] | None = None
    selected: NDArray[np.bool_] | None = None
    threshold: float | None = None
    null: NDArray[np.float64] | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature``: the score, and what there is of its significance."""
        import pandas as pd

        columns = {self.scorer: self.values}
        for name in ("standard_error", "z", "p_value", "p_adjusted", "selected"):
            if getattr(self, name) is not None:
                columns[name] = getattr(self, name)
        return pd.DataFrame(columns, index=feature_index(self.feature_names))

    def interval(self, level: float = 0.95) -> pd.DataFrame:
        """Return confidence intervals of the score, from its standard error.

        Parameters
        ----------
        level : float
            Confidence.

        Returns
        -------
        DataFrame
            Index ``feature``, columns ``lower`` and ``upper``: score plus and minus a normal quantile of its standard
            errors. It is conditional on the splits of these trees (docs/significance.md).

        Raises
        ------
        DebiasError
            The score has no standard error.
        """
        import pandas as pd
        from scipy.special import ndtri

        if self.standard_error is None:
            if self.z is not None:
                raise DebiasError(
                    f"{self.scorer} was tested without standard errors: the leaves hold no means of y, and the "
                    "standard error of such a score on out-of-bag rows is not known. Use rows the model has not seen"
                )
            raise DebiasError(f"{self.scorer} was scored without standard errors; ask for them with test='auto'")
        if not 0 < level < 1:
            raise DebiasError(f"level must be between 0 and 1, not {level!r}")
        reach = float(ndtri((1 + level) / 2)) * self.standard_error
        return pd.DataFrame(
            {"lower": self.values - reach, "upper": self.values + reach}, index=feature_index(self.feature_names)
        )

    def mirrored(self, alpha: float = 0.05) -> Scores:
        """Return these scores with p-values against the mirror image of the non-positive ones.

        The test of Janitza, Celik and Boulesteix (2018), for any score whose noise is symmetric about 0 and alike for
        all features. The non-positive scores and their mirror image are the null, so there have to be many of them.

        Parameters
        ----------
        alpha : float
            Features with a p-value of at most this are selected, one by one: no adjustment is made.

        Returns
        -------
        Scores
            `p_value` and `selected` are set, other figures of significance None. `warnings` says so if fewer than 100
            scores are not positive.
        """
        from debias import p_values

        p_value, null = p_values.mirrored_p_values(self.values)
        found = int((self.values <= 0).sum())
        what = "score is" if found == 1 else "scores are"
        few = f"only {found} {what} not positive: the mirrored null is coarse below about 100"
        return replace(
            self,
            standard_error=None,
            z=None,
            p_value=p_value,
            p_adjusted=None,
            selected=p_value <= alpha,
            threshold=None,
            null=None,
            warnings=(*self.warnings, few) if found < 100 else self.warnings,
            details={**self.details, "test": {"method": "mirror", "alpha": float(alpha), "null_size": int(null.size)}},
        )

    def plot(self, axes: Any = None, most: int = 30) -> Any:
        """Draw the scores, the largest on top, with 95% intervals where they have standard errors.

        Parameters
        ----------
        axes : matplotlib Axes, optional
            New ones by default.
        most : int
            At most so many features.

        Returns
        -------
        matplotlib Axes
        """
        from debias.results.report import figures

        return figures.on_axes(figures.draw_scores, self, axes, most)

    def _repr_html_(self) -> str:
        """Show the scores in a notebook, the largest first."""
        frame = self.to_frame()
        largest_first = frame.sort_values(frame.columns[0], ascending=False, kind="stable")
        return str(largest_first.rename(index=shown).to_html())

    def to_csv(self, path: Any = None) -> str:
        """Return the data frame as CSV, and write it to `path` if one is given.

        A spreadsheet runs none of it: a name it would take for a formula has an apostrophe before it, and characters
        that are not seen are escaped. Numbers stay as they are. :meth:`to_frame` has the names as they are.
        """
        text = to_csv(self.to_frame())
        if path is not None:
            write_text(path, text)
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain |= {
            "schema_version": SCHEMA_VERSION,
            "feature_names": list(self.feature_names),
            "warnings": list(self.warnings),
        }
        for name, value in plain.items():
            if isinstance(value, np.ndarray):
                plain[name] = value.tolist()
        return plain

    def to_json(self, indent: int | None = None) -> str:
        """Return JSON that ``Scores.from_json`` reads back without loss."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Scores:
        """Read what ``to_json`` wrote.

        Raises
        ------
        DebiasError
            It is nothing that ``to_json`` wrote, or of another schema version; the message says what is wrong where.
        """
        scores = cls(**stored_results.read_scores(text))
        stored_results.check_read_scores(scores)
        return scores
