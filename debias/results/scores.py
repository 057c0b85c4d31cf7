"""Scores: the result of one scorer, with its tests and everything needed to interpret it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias import p_values
from debias.errors import DebiasError
from debias.results import console, stored
from debias.results.base import BaseResult
from debias.results.fields import SCHEMA_VERSION
from debias.results.report import figures
from debias.results.vocabulary import NO_INTERVAL, RANKS, UNPROVEN, RowsKind
from debias.text import escaped, feature_index

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Scores(BaseResult):
    """The scores of one scorer, with everything needed to interpret them.

    Parameters
    ----------
    values : array of shape (n_features,)
    feature_names : tuple of str
    scorer, unit : str
        Name of the scorer with its options; unit of the scores.
    rows : str or None
        Kind of the evaluation rows; "data" if the scorer needs only data; None if it used no rows.
    n_rows : int or None
        Number of evaluation rows.
    provenance : dict
        What is known about the evaluation rows.
    details : dict
        Further results of the scorer, such as trees without rows or the base step of a running loss.
    warnings : tuple of str
    settings : dict
        Model, versions, seed.
    standard_error : array of shape (n_features,), or None
        Standard error of `values`, with the splits fixed: what another forest would split on is not part of it. On
        out-of-bag rows it comes from the infinitesimal jackknife, because a row also contributes to the node means of
        the bags that contain it. None if the score was not tested, or if out-of-bag rows are permuted and the leaves
        hold no means of y (medians, quantiles, clipped or shrunken means).
    z : array of shape (n_features,), or None
        Test statistic: a studentised score. Its node terms are multiplied by n_t / (n_t + 30) if the model stores
        in-bag counts, so it is not values / standard_error. Of scorers that test by rows (``ablation``,
        ``permutation`` and ``oob_loss`` with ``p_values=True``): the larger one of their statistics.
    p_value, p_adjusted : array of shape (n_features,), or None
        One-sided p-values, for a score above 0; `p_adjusted` is adjusted for the number of features as
        ``details["test"]`` says.
    selected : array of bool of shape (n_features,), or None
        Whether p_adjusted is at most alpha, or the decision of a scorer with its own rule (``guide``).
    threshold : float or None
        The minimum detectable z: a feature must exceed it to be selected at the family-wise error rate alpha if no
        other feature is informative. For a scorer with its own rule, the smallest score that it selects.
    null : array of shape (n_permutations, n_features), or None
        z of the permuted responses or residuals. For a meta-method, the scores of the inner scorer in each replicate,
        for permuted responses or for copies.
    """

    WRITTEN_AS: ClassVar[str] = "an audit or scores written by debias (to_json, debias audit --json)"

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

    def __repr__(self) -> str:
        return console.short_scores(self)

    @property
    def unproven_because(self) -> str | None:
        """What is not known about held-out rows: whether they contain training rows. None for all other rows."""
        unproven = self.rows == RowsKind.HELD_OUT and self.provenance.get("status") in UNPROVEN
        return str(self.provenance["detail"]) if unproven else None

    @property
    def rows_in_words(self) -> str:
        """The kind of the evaluation rows as text: "out-of-bag", "held-out", "assumed held-out" or "training"."""
        kind = RowsKind(self.rows).text if self.rows in set(RowsKind) else str(self.rows)
        return kind if self.unproven_because is None else f"assumed {kind}"

    @property
    def has_intervals(self) -> bool:
        """Whether :meth:`interval` has intervals of these scores."""
        return self.standard_error is not None and NO_INTERVAL not in self.details

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature``: the score and, if it was tested, the statistics of the test."""
        import pandas as pd

        columns = {self.scorer: self.values}
        for name in ("standard_error", "z", "p_value", "p_adjusted", "selected"):
            if getattr(self, name) is not None:
                columns[name] = getattr(self, name)
        return pd.DataFrame(columns, index=feature_index(self.feature_names))

    def interval(self, level: float = 0.95) -> pd.DataFrame:
        """Return confidence intervals of the score for these splits, from its standard error with the splits fixed.

        Parameters
        ----------
        level : float
            Confidence level.

        Returns
        -------
        DataFrame
            Index ``feature``, columns ``lower`` and ``upper``: the score minus and plus its standard error times a
            quantile of Student's t. Its degrees of freedom are the effective number of held-out rows (blocks) less
            one, by which few large contributions make an interval wider; out of bag the number of rows less one. Of
            scores without such a number it is a normal quantile.

        Raises
        ------
        DebiasError
            The score has no standard error, or one for a test only (``permutation(p_values=True)``).

        Notes
        -----
        The interval is about the score that these splits have on other rows. For ``ablation(measure='loss')`` and
        ``oob_loss(p_values=True)`` on held-out rows, this is the loss that the feature saves in this model. New
        training rows also give other splits, and this variation is not part of it:
        ``conditional_predictive_value(population=True)`` has intervals for what a feature saves in models of new
        training rows (docs/intervals.md). With forests trained on 200 new data sets, intervals at 95 % covered the mean
        score in .91 to .98 of them for a feature with many values and for noise, but in .83 (SE .03) for a weak feature
        with two values (docs/significance.md).
        """
        import pandas as pd
        from scipy.special import ndtri, stdtrit

        if NO_INTERVAL in self.details:
            raise DebiasError(f"{self.scorer} has no intervals: {self.details[NO_INTERVAL]}")
        if self.standard_error is None:
            if self.z is not None:
                raise DebiasError(
                    f"{self.scorer} was tested without standard errors: the leaves hold no means of y, so the "
                    "standard error on out-of-bag rows is not known. Use rows the model has not seen"
                )
            raise DebiasError(f"{self.scorer} was scored without standard errors. Score it with test='auto'")
        if not 0 < level < 1:
            raise DebiasError(f"level must be between 0 and 1, not {level!r}")
        test = self.details.get("test", {})
        units = test.get("effective_rows", test.get("n_independent"))
        freedom = None if units is None else np.maximum(np.asarray(units, dtype=np.float64) - 1, 1.0)
        quantile = ndtri((1 + level) / 2) if freedom is None else stdtrit(freedom, (1 + level) / 2)
        reach = quantile * self.standard_error
        return pd.DataFrame(
            {"lower": self.values - reach, "upper": self.values + reach}, index=feature_index(self.feature_names)
        )

    def rank_interval(self) -> pd.DataFrame:
        """Return simultaneous intervals of the ranks of the scores: with their level, all of them hold together.

        A feature whose last rank is 3 is among the first three. The level is 1 - alpha of the test, .95 by default.

        Returns
        -------
        DataFrame
            Index ``feature``, columns ``first`` and ``last``: the ranks that the feature may have, 1 for the largest
            score.

        Raises
        ------
        DebiasError
            The features were not compared: the scores were not tested on held-out rows in memory, by a scorer whose
            score is a sum over rows (``mdi_oob``, ``ablation``, ``oob_loss(p_values=True)``).

        Notes
        -----
        The rank is that of the scores that these splits have on new rows, not that of another model. Scores of two
        features are compared on the same rows, so features may be told apart although their intervals of
        :meth:`interval` overlap (docs/intervals.md).
        """
        import pandas as pd

        ranks = self.details.get(RANKS)
        if ranks is None:
            raise DebiasError(
                f"the ranks of {self.scorer} were not compared. Test it on rows the model has not seen, in memory: "
                "pass rows='held-out', and test='auto' for mdi_oob, or score 'ablation' or 'oob_loss(p_values=True)'"
            )
        if "untold_because" in ranks:
            raise DebiasError(f"the ranks were not compared: {ranks['untold_because']}")
        return pd.DataFrame({name: ranks[name] for name in ("first", "last")}, index=feature_index(self.feature_names))

    def mirrored(self, alpha: float = 0.05) -> Scores:
        """Return these scores with p-values from the non-positive scores and their mirror image.

        This is the test of Janitza, Celik and Boulesteix (2018). It is for scores whose noise is symmetric about 0 and
        has the same distribution for all features. The non-positive scores and their mirror image are the null
        distribution, so there must be many of them.

        Parameters
        ----------
        alpha : float
            Select each feature with a p-value of at most this. There is no adjustment for multiple testing.

        Returns
        -------
        Scores
            With `p_value` and `selected`, and None for what else a test gives. With a warning if fewer than 100 scores
            are not positive.
        """
        p_value, null = p_values.mirrored_p_values(self.values)
        n_not_positive = int((self.values <= 0).sum())
        are = "score is" if n_not_positive == 1 else "scores are"
        few = f"only {n_not_positive} {are} not positive: the mirrored null is coarse below about 100 such scores"
        return replace(
            self,
            standard_error=None,
            z=None,
            p_value=p_value,
            p_adjusted=None,
            selected=p_value <= alpha,
            threshold=None,
            null=None,
            warnings=(*self.warnings, few) if n_not_positive < 100 else self.warnings,
            details={**self.details, "test": {"method": "mirror", "alpha": float(alpha), "null_size": int(null.size)}},
        )

    def plot(self, kind: str = "interval", ax: Any = None, max_features: int = 30) -> Any:
        """Draw the scores, the largest on top, with 95% intervals (splits fixed) if they have standard errors.

        Parameters
        ----------
        kind : {"interval"}
        ax : matplotlib Axes, optional
            New axes by default.
        max_features : int
            Draw at most this many features: the highest scores (10, but at most half of them), then the selected ones
            with the largest scores. A last line stands for the others.

        Returns
        -------
        matplotlib Axes
        """
        figures.refuse_kind(kind, ("interval",))
        return figures.on_axes(figures.draw_scores, self, ax, max_features)

    def _repr_html_(self) -> str:
        """Return the scores as an HTML table for a notebook, the largest first."""
        frame = self.to_frame()
        largest_first = frame.sort_values(frame.columns[0], ascending=False, kind="stable")
        return str(largest_first.rename(index=escaped).to_html())

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain |= {
            "schema_version": SCHEMA_VERSION,
            "feature_names": list(self.feature_names),
            "warnings": list(self.warnings),
        }
        for name, value in plain.items():
            if isinstance(value, np.ndarray):
                plain[name] = value.tolist()
        return plain

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> Scores:
        scores = cls(**stored.scores_fields(plain))
        stored.check_read_scores(scores)
        return scores
