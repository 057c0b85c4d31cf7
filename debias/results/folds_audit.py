"""The audit of a cross-validation: the audits of its folds, and what they tell together."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.errors import DebiasError
from debias.results import console, sentences, stored, untested
from debias.results.audit import Audit
from debias.results.base import ReportedResult
from debias.results.fields import SCHEMA_VERSION
from debias.results.interactions import Interactions
from debias.results.untested import tell_nothing
from debias.results.vocabulary import Verdict
from debias.text import feature_index, listed

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.folds_loss import FoldsLoss

LEVEL = 0.95
"""Confidence level of ``low`` and ``high``."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FoldsAudit(ReportedResult):
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
    interactions : Interactions or None
        The pairs and triples that were named, over all folds; None if none was.
    loss : FoldsLoss or None
        How the loss of each fold divides into the base and what each feature saves; None if this was not asked for.

    Notes
    -----
    ``mean`` estimates the expected score of a model that is trained on as many rows as those of the folds, over other
    data sets of the same kind. Its standard error allows for the rows that folds share. It is approximate, and too
    large for noise (docs/folds.md has the measured coverage of the intervals). Each fold counts the same in the mean,
    as in scikit-learn's ``cross_validate``. A fold whose rows can tell nothing about any feature is left out of it.
    """

    WRITTEN_AS: ClassVar[str] = "an audit of folds written by debias (FoldsAudit.to_json)"

    audits: dict[str, Audit]
    n_train: tuple[int | None, ...]
    standard_error: NDArray[np.float64] | None = None
    z: NDArray[np.float64] | None = None
    p_value: NDArray[np.float64] | None = None
    p_adjusted: NDArray[np.float64] | None = None
    test: dict[str, Any] = field(default_factory=dict)
    no_error_because: str | None = None
    notes: tuple[str, ...] = ()
    interactions: Interactions | None = None
    loss: FoldsLoss | None = None

    def __repr__(self) -> str:
        return console.short_folds(self)

    @property
    def first(self) -> Audit:
        """The audit of the first fold."""
        return next(iter(self.audits.values()))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in the order of the audits."""
        return self.first.tested_scores.feature_names

    @property
    def tested_scorer(self) -> str:
        """Name of the scorer that is tested."""
        return self.first.tested_scorer

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
        """Mean score of the tested scorer over folds, shape (n_features,)."""
        values: NDArray[np.float64] = self._usable_scores.mean(axis=0)
        return values

    @property
    def share(self) -> NDArray[np.float64]:
        """max(mean score, 0), scaled to sum 1, shape (n_features,); all 0 if no mean score is positive."""
        positive = np.maximum(self.mean, 0.0)
        return positive / positive.sum() if positive.sum() > 0 else positive

    @property
    def verdict(self) -> list[Verdict]:
        """One verdict per feature, by all folds together: "informative", "indistinguishable" or "untested"."""
        found = None if self.p_adjusted is None else self.p_adjusted <= self.test["alpha"]
        return untested.verdicts_of(self.feature_names, found, self.untested_features)

    def which(self, verdict: Verdict | str) -> NDArray[np.bool_]:
        """Return for each feature whether it has this verdict, as an array of shape (n_features,)."""
        return np.array([each is Verdict(verdict) for each in self.verdict])

    @property
    def features(self) -> list[str]:
        """Names of the features that all folds together call informative, the strongest first.

        Features that could not be tested (:attr:`untested_features`) are not among them, and that is no reason to drop
        them.

        Raises
        ------
        DebiasError
            Nothing was tested, or the test could not have found any feature: the audit is no reason to drop features.
        """
        if self.untested_because is not None:
            raise DebiasError(f"the folds say of no feature whether it is informative: {self.untested_because}")
        informative = self.which(Verdict.INFORMATIVE)
        if not informative.any():
            untested.refuse_powerless(self.test)
        return [self.feature_names[k] for k in np.lexsort((-self.mean, -self.share)) if informative[k]]

    @property
    def untested_features(self) -> dict[str, str]:
        """Features that the rows of no tested fold could test, with the reason in the first of these folds."""
        tested = [audit.untested_features for audit in self.audits.values() if audit.tested]
        names = set(self.feature_names).intersection(*tested) if tested else set()
        return {name: reason for name, reason in tested[0].items() if name in names} if tested else {}

    @property
    def unused_features(self) -> list[str]:
        """The features that no tree of the model of any fold splits on; see ``Audit.unused_features``."""
        unused = set(self.feature_names).intersection(*(audit.unused_features for audit in self.audits.values()))
        return [name for name in self.feature_names if name in unused]

    def where_tested(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return values, one per feature, with NaN for the features that no fold could test."""
        return np.where([name in self.untested_features for name in self.feature_names], np.nan, values)

    @property
    def informative_folds(self) -> NDArray[np.int64] | None:
        """Number of folds whose own audit calls a feature informative, shape (n_features,); None if none was tested."""
        if not self.tested:
            return None
        found = [
            audit.tested_scores.selected for audit in self.audits.values() if audit.tested_scores.selected is not None
        ]
        return np.sum([np.zeros(len(self.feature_names), dtype=np.int64), *found], axis=0, dtype=np.int64)

    @property
    def scores(self) -> pd.DataFrame:
        """Scores of the tested scorer: one row per fold (index ``fold``), one column per feature.

        They are NaN in a fold whose rows can tell nothing about any feature.
        """
        import pandas as pd

        values = [
            np.full(len(self.feature_names), np.nan)
            if tell_nothing(audit.tested_scores)
            else audit.tested_scores.values
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

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature``, sorted by share.

        Columns: ``share`` of the mean score, ``mean`` score over folds, its ``standard_error``, ``low`` and ``high``,
        its 95% interval (NaN without a standard error); ``rank`` of the mean score (1 is the highest), and the
        ``lowest_rank`` and ``highest_rank`` that the feature has in a fold (highest: nearest to 1);
        ``informative_folds``, the number of folds whose own audit calls it informative (NaN if no fold was tested), and
        ``folds``, the number of folds that were tested; ``p_adjusted`` and ``verdict`` of all folds together. If single
        features were not tested, their numbers are NaN, and a column ``untested_because`` has the reason.
        """
        import pandas as pd
        from scipy.special import stdtrit

        mean, ranks = self.where_tested(self.mean), self.ranks
        error = np.full(mean.size, np.nan) if self.standard_error is None else self.standard_error
        counts: NDArray[Any] = np.full(mean.size, np.nan)
        if self.informative_folds is not None:  # whole numbers, if all are known
            counts = self.where_tested(self.informative_folds) if self.untested_features else self.informative_folds
        freedom = max(1, len(self._usable_scores) - 1)
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
            "informative_folds": counts,
            "folds": len(self.audits) - len(self.untested_folds),
            "p_adjusted": np.full(mean.size, np.nan) if self.p_adjusted is None else self.where_tested(self.p_adjusted),
            "verdict": [verdict.value for verdict in self.verdict],
        }
        if self.untested_features:
            columns["untested_because"] = [self.untested_features.get(name, "") for name in self.feature_names]
        frame = pd.DataFrame(columns, index=feature_index(self.feature_names))
        return frame.sort_values(["share", "mean"], ascending=False, kind="stable")

    def _reservations(self) -> dict[str, str]:
        return {} if self.untested_because is None else {"untested_because": self.untested_because}

    @property
    def models_in_words(self) -> str:
        """The kind of the models of the folds; all kinds if they differ."""
        return listed(list(dict.fromkeys(str(audit.tested_scores.settings["model"]) for audit in self.audits.values())))

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
        of_audits = (sentences.about(folds, text, len(self.audits)) for text, folds in folds_of.items())
        return tuple(dict.fromkeys((*self.notes, *of_audits)))

    @property
    def _usable_scores(self) -> NDArray[np.float64]:
        """Scores of the folds that tell something about the features, shape (n_folds, n_features)."""
        return np.stack(
            [audit.tested_scores.values for audit in self.audits.values() if not tell_nothing(audit.tested_scores)]
        )

    def summary(self) -> list[str]:
        """Return the result in sentences: what matters over all folds, where folds disagree, then what is not known.

        Returns
        -------
        list of str
            Folds that could not be tested come first, with the reason. Then the informative features, the strongest
            first; how many folds agree; features that single folds call informative and all folds together do not; how
            stable the ranks are; the test; what the standard error covers; what the rows are; how the loss divides.
        """
        return sentences.summary_of_folds(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version."""
        tests = {name: getattr(self, name) for name in stored.TESTS_OF_FOLDS}
        return {
            "kind": stored.FOLDS,
            "schema_version": SCHEMA_VERSION,
            "tested_scorer": self.tested_scorer,
            "feature_names": list(self.feature_names),
            "mean": self.mean.tolist(),
            "share": self.share.tolist(),
            "verdict": self.verdict,
            "informative_folds": None if self.informative_folds is None else self.informative_folds.tolist(),
            "rank_stability": self.rank_stability,
            "n_train": list(self.n_train),
            **{name: None if values is None else values.tolist() for name, values in tests.items()},
            "test": self.test,
            "no_error_because": self.no_error_because,
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "interactions": None if self.interactions is None else self.interactions.to_dict(),
            "loss": None if self.loss is None else self.loss.to_dict(),
            "audits": {name: each.to_dict() for name, each in self.audits.items()},
        }

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> FoldsAudit:
        fields, derived = stored.folds_fields(plain, Audit.from_dict, Interactions.from_dict)
        audit = cls(**fields)
        stored.check_read_folds(audit, derived)
        return audit

    def _page(self, title: str | None) -> str:
        from debias.results.report.folds_page import folds_page

        return folds_page(self, title)

    def plot(self, kind: str = "interval", ax: Any = None, max_features: int = 30) -> Any:
        """Draw the scores of every fold, and the mean with its 95% interval, the largest share on top.

        Parameters
        ----------
        kind : {"interval"}
        ax : matplotlib Axes, optional
            New axes by default.
        max_features : int
            Draw at most this many features. A last line stands for the others.

        Returns
        -------
        matplotlib Axes
        """
        from debias.results.report.figures import refuse_kind
        from debias.results.report.folds_page import folds_on_axes

        refuse_kind(kind, ("interval",))
        return folds_on_axes(ax, self.scores, self.to_frame(), self.first.tested_scores.unit, max_features)
