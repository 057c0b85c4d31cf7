"""The audit of a cross-validation: the audits of its folds, and what they tell together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.atomic_files import written
from debias.errors import DebiasError
from debias.results import fold_sentences, short_text, stored_folds
from debias.results.audit import Audit
from debias.results.untested import tell_nothing
from debias.text import feature_index, json_text, listed, shown, to_csv

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

LEVEL = 0.95
"""Confidence level of ``low`` and ``high``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldsAudit:
    """The audits of the models of a cross-validation, each on the rows that were held out from it.

    :func:`debias.audit_folds` makes it.

    Parameters
    ----------
    audits : dict of str to Audit
        The audit of each fold, by name. All have the same features in the same order.
    n_train : tuple of (int or None)
        Number of training rows of each fold; None if it is not known.
    standard_error : array of shape (n_features,), or None
        Standard error of the mean score over folds; see Notes. None if it is not known; `no_error_because` says why.
    z : array of shape (n_features,), or None
        Combined statistic of all tested folds; None if it was not tested, or adjusted p-values are combined.
    p_value, p_adjusted : array of shape (n_features,), or None
        Combined p-values of all tested folds, for a score above 0; `p_adjusted` is adjusted for the number of features.
        Both are None if nothing was tested.
    test : dict
        How they were combined: ``method``, ``alpha``, ``error``, ``n_permutations`` and ``correlation``, the mean
        correlation of z between folds that is allowed for.
    no_error_because : str or None
        Why there is no standard error.
    notes : tuple of str
        What a reader must know about the folds, beside the warnings of their audits.

    Notes
    -----
    ``mean`` estimates the expected score of a model that is trained on as many rows as those of the folds, over other
    data sets of the same kind. Its standard error allows for the rows that folds share. It is approximate, and too
    large for noise (docs/folds.md has the measured coverage of the intervals). Each fold counts the same in the mean,
    as in scikit-learn's ``cross_validate``. A fold whose rows can tell nothing about any feature is left out of it.
    """

    audits: dict[str, Audit]
    n_train: tuple[int | None, ...]
    standard_error: NDArray[np.float64] | None = None
    z: NDArray[np.float64] | None = None
    p_value: NDArray[np.float64] | None = None
    p_adjusted: NDArray[np.float64] | None = None
    test: dict[str, Any] = field(default_factory=dict)
    no_error_because: str | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_text.of_folds(self)

    @property
    def first(self) -> Audit:
        """The audit of the first fold."""
        return next(iter(self.audits.values()))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in the order of the audits."""
        return self.first.main.feature_names

    @property
    def main_scorer(self) -> str:
        """Name of the scorer that is tested."""
        return self.first.main_scorer

    @property
    def tested(self) -> bool:
        """Whether the scores were tested, in one fold or more."""
        return self.p_adjusted is not None

    @property
    def untested_folds(self) -> dict[str, str]:
        """Why a fold was not tested, by the name of the fold."""
        reasons = {name: audit.untested_because for name, audit in self.audits.items()}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    @property
    def untested_because(self) -> str | None:
        """Why every verdict is "untested" and what to do; None if the scores were tested."""
        return None if self.tested else next(iter(self.untested_folds.values()))

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean score of the main scorer over folds, shape (n_features,)."""
        values: NDArray[np.float64] = self._told.mean(axis=0)
        return values

    @property
    def share(self) -> NDArray[np.float64]:
        """max(mean score, 0), scaled to sum 1, shape (n_features,); all 0 if no mean score is positive."""
        positive = np.maximum(self.mean, 0.0)
        return positive / positive.sum() if positive.sum() > 0 else positive

    @property
    def verdict(self) -> list[str]:
        """One verdict per feature, by all folds together: "informative", "indistinguishable" or "untested"."""
        if self.p_adjusted is None:
            return ["untested"] * len(self.feature_names)
        untested = self.untested_features
        return [
            "informative" if p <= self.test["alpha"] else "untested" if name in untested else "indistinguishable"
            for name, p in zip(self.feature_names, self.p_adjusted, strict=True)
        ]

    @property
    def untested_features(self) -> dict[str, str]:
        """Features that the rows of no tested fold could test, with the reason in the first of these folds."""
        tested = [audit.untested_features for audit in self.audits.values() if audit.tested]
        names = set(self.feature_names).intersection(*tested) if tested else set()
        return {name: reason for name, reason in tested[0].items() if name in names} if tested else {}

    def where_tested(self, figures: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return figures, one per feature, with NaN for the features that no fold could test."""
        return np.where([name in self.untested_features for name in self.feature_names], np.nan, figures)

    @property
    def informative_folds(self) -> NDArray[np.int64]:
        """Number of folds whose own audit calls a feature informative, shape (n_features,)."""
        found = [audit.main.selected for audit in self.audits.values() if audit.main.selected is not None]
        return np.sum([np.zeros(len(self.feature_names), dtype=np.int64), *found], axis=0, dtype=np.int64)

    @property
    def scores(self) -> pd.DataFrame:
        """Scores of the main scorer: one row per fold (index ``fold``), one column per feature.

        They are NaN in a fold whose rows can tell nothing about any feature.
        """
        import pandas as pd

        values = [
            np.full(len(self.feature_names), np.nan) if tell_nothing(audit.main) else audit.main.values
            for audit in self.audits.values()
        ]
        index = pd.Index(list(self.audits), name="fold", dtype=object)
        return pd.DataFrame(np.stack(values), index=index, columns=feature_index(self.feature_names))

    @property
    def ranks(self) -> pd.DataFrame:
        """Rank of each feature in each fold that tells something, 1 for the highest score; ties get their best rank."""
        return self.scores.dropna().rank(axis=1, ascending=False, method="min").astype(np.int64)

    @property
    def rank_stability(self) -> float | None:
        """Mean Spearman correlation of the scores of two folds: 1 if all folds rank the features in the same way.

        0 if they agree no more than by chance. None for one fold or one feature, or if all scores of folds are equal.
        """
        ranks = [row for row in self.scores.dropna().rank(axis=1).to_numpy() if np.ptp(row) > 0]
        pairs = [float(np.corrcoef(one, other)[0, 1]) for one, other in combinations(ranks, 2)]
        return float(np.mean(pairs)) if pairs else None

    @cached_property
    def table(self) -> pd.DataFrame:
        """Data frame with index ``feature``, sorted by share.

        Columns: ``share`` of the mean score, ``mean`` score over folds, its ``standard_error``, ``low`` and ``high``,
        its 95% interval (NaN without a standard error); ``rank`` of the mean score (1 is the highest), and the
        ``lowest_rank`` and ``highest_rank`` that the feature has in a fold (highest: nearest to 1);
        ``informative_folds``, the number of folds whose own audit calls it informative, and ``folds``, the number of
        folds that were tested; ``p_adjusted`` and ``verdict`` of all folds together. If a feature was not tested,
        its figures are NaN, and ``untested_because`` has the reason.
        """
        import pandas as pd
        from scipy.special import stdtrit

        mean, ranks = self.where_tested(self.mean), self.ranks
        error = np.full(mean.size, np.nan) if self.standard_error is None else self.standard_error
        freedom = max(1, len(self._told) - 1)
        reach = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
        columns: dict[str, Any] = {
            "share": self.where_tested(self.share),
            "mean": mean,
            "standard_error": error,
            "low": mean - reach,
            "high": mean + reach,
            "rank": 1 + (self.mean[:, None] < self.mean).sum(axis=1),
            "lowest_rank": ranks.max(axis=0).to_numpy(),
            "highest_rank": ranks.min(axis=0).to_numpy(),
            "informative_folds": self.informative_folds,
            "folds": len(self.audits) - len(self.untested_folds),
            "p_adjusted": np.full(mean.size, np.nan) if self.p_adjusted is None else self.where_tested(self.p_adjusted),
            "verdict": self.verdict,
        }
        if not self.tested:
            columns["untested_because"] = self.untested_because
        elif self.untested_features:
            columns["untested_because"] = [self.untested_features.get(name, "") for name in self.feature_names]
        frame = pd.DataFrame(columns, index=feature_index(self.feature_names))
        return frame.sort_values(["share", "mean"], ascending=False, kind="stable")

    @property
    def models_in_words(self) -> str:
        """The kind of the models of the folds; all kinds if they differ."""
        return listed(list(dict.fromkeys(str(audit.main.settings["model"]) for audit in self.audits.values())))

    @property
    def rows_in_words(self) -> str:
        """The kind of the rows of all folds as text: "held-out", or "assumed held-out" if that is so in any fold."""
        kinds = {audit.rows_in_words for audit in self.audits.values()}
        return "held-out" if kinds == {"held-out"} else "assumed held-out"

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes on the folds, then the warnings of the audits, each once with the folds that it is about."""
        folds_of: dict[str, list[str]] = {}
        for name, audit in self.audits.items():
            for text in audit.warnings:
                if text not in self.notes:  # those are about all folds
                    folds_of.setdefault(text, []).append(name)
        of_audits = (fold_sentences.about(folds, text, len(self.audits)) for text, folds in folds_of.items())
        return tuple(dict.fromkeys((*self.notes, *of_audits)))

    @property
    def _told(self) -> NDArray[np.float64]:
        """Scores of the folds that tell something about the features, shape (n_folds, n_features)."""
        return np.stack([audit.main.values for audit in self.audits.values() if not tell_nothing(audit.main)])

    def summary(self) -> list[str]:
        """Return the result in sentences: what matters over all folds, where folds disagree, then what is not known.

        Returns
        -------
        list of str
            Folds that could not be tested come first, with the reason. Then the informative features, the strongest
            first; how many folds agree; features that single folds call informative and all folds together do not; how
            stable the ranks are; the test; what the standard error covers; what the rows are.
        """
        return fold_sentences.summary(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version."""
        return stored_folds.to_dict(self)

    def to_json(self, path: Any = None, indent: int | None = 2) -> str:
        """Return the audits and what they tell together as JSON, and write it to `path` if that is not None."""
        return written(path, json_text(self.to_dict(), indent=indent, allow_nan=False), end="\n")

    @classmethod
    def from_json(cls, text: str | bytes) -> FoldsAudit:
        """Return what ``to_json`` wrote.

        Raises
        ------
        DebiasError
            ``to_json`` did not write this text, or it has another schema version. The message says what is wrong.
        """
        fields, derived = stored_folds.read(text)
        read = cls(**fields)
        stored_folds.check_read(read, derived)
        return read

    @classmethod
    def from_file(cls, path: Any) -> FoldsAudit:
        """Return what ``to_json`` wrote to a file.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        DebiasError
            As for :meth:`from_json`; the message begins with the path.
        OSError
            The file cannot be read.
        """
        with open(path, "rb") as file:
            text = file.read()
        try:
            return cls.from_json(text)
        except DebiasError as error:
            raise DebiasError(f"{path}: {error}") from None

    def to_csv(self, path: Any = None) -> str:
        """Return the table as CSV, and write it to `path` if that is not None.

        The file is safe to open in a spreadsheet, as that of :meth:`Audit.to_csv`.
        """
        return written(path, to_csv(self.table))

    def to_html(self, path: Any = None, title: str | None = None) -> str:
        """Return one self-contained HTML page, and write it to `path` if that is not None.

        Parameters
        ----------
        path : str or Path, optional
        title : str, optional
            Title of the page. By default it names the kind of model.

        Returns
        -------
        str

        Raises
        ------
        ImportError
            matplotlib or Jinja2 is not installed (``pip install matplotlib jinja2``).
        """
        from debias.results.report.folds import folds_page

        return written(path, folds_page(self, title))

    def plot(self, axes: Any = None, most: int = 30) -> Any:
        """Draw the scores of every fold, and the mean with its 95% interval, the largest share on top.

        Parameters
        ----------
        axes : matplotlib Axes, optional
            New axes by default.
        most : int
            Draw at most this many features. A last line stands for the others.

        Returns
        -------
        matplotlib Axes
        """
        from debias.results.report.folds import folds_on_axes

        return folds_on_axes(axes, self.scores, self.table, self.first.main.unit, most)

    def _repr_html_(self) -> str:
        """Return the table as HTML for a notebook."""
        return str(self.table.rename(index=shown).to_html())
