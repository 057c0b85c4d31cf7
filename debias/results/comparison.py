"""The comparison: several scores of one model, where they disagree, and possible reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from debias.results import console, stored
from debias.results.base import BaseResult
from debias.results.fields import SCHEMA_VERSION
from debias.results.report import figures
from debias.results.scores import Scores
from debias.results.tables import rows_named
from debias.text import correlation_in_words, feature_index, percent

if TYPE_CHECKING:
    import pandas as pd

CORRELATED = 0.5
"""A rank correlation with another feature of at least this is a reason."""
INTERACTING = 0.25
"""So is this share of the variance of a feature's SHAP values that the feature alone does not explain,"""
NOT_UPHELD = 0.5
"""this part of the reported share that is lost on the evaluation rows,"""
MANY = 2.0
"""and a number of values of at least this multiple of the median over features,"""
LEAST_MANY = 3
"""if it is at least this."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(BaseResult):
    """Several scores of one model, side by side.

    Parameters
    ----------
    scores : dict of str to Scores
        Scores by name of the scorer.
    traits : DataFrame of shape (n_features, 5)
        Index ``feature``; ``n_values``; ``correlation`` (largest absolute rank correlation with another feature) and
        ``correlated_with`` (that feature); ``interaction`` (share of the variance of the feature's SHAP values that the
        feature alone does not explain; NaN if the model does not use the feature); ``not_upheld`` (part of its reported
        share that the feature loses if the same importance is computed on the evaluation rows, as ``native_unseen``
        does; NaN without the score ``native``, on training rows, and where that is not known).
    """

    WRITTEN_AS: ClassVar[str] = "a comparison written by debias (Comparison.to_json)"

    scores: dict[str, Scores]
    traits: pd.DataFrame

    def __repr__(self) -> str:
        return console.short_comparison(self)

    def to_frame(self) -> pd.DataFrame:
        """Return the scores: a row per feature (index ``feature``), a column per scorer, sorted by the first scorer."""
        import pandas as pd

        frame = pd.concat([scores.to_frame()[[scores.scorer]] for scores in self.scores.values()], axis=1)
        return frame.sort_values(frame.columns[0], ascending=False, kind="stable")

    @property
    def ranks(self) -> pd.DataFrame:
        """Rank of each feature by each scorer, 1 for the largest score. Ties get their mean rank."""
        return self.to_frame().rank(ascending=False)

    @property
    def rank_correlation(self) -> pd.DataFrame:
        """Spearman correlation between scorers over features; NaN if all scores of one scorer are equal."""
        return self.to_frame().corr(method="spearman")

    @property
    def disagreements(self) -> pd.DataFrame:
        """Features on which scorers disagree, and possible reasons.

        Returns
        -------
        DataFrame
            One row per feature, the largest disagreement on top: ``highest`` and ``lowest`` rank (1 is the largest
            score); ``highest_by`` and ``lowest_by``, the scorers that give these ranks; ``spread``, the difference of
            the two ranks divided by the largest possible difference; ``why``, the unusual traits of the feature. These
            are hints, not proofs: docs/comparing.md says how each trait affects a score.
        """
        import pandas as pd

        ranks = self.ranks.loc[list(self.traits.index)]
        frame = pd.DataFrame(
            {
                "highest": ranks.min(axis=1),
                "highest_by": ranks.idxmin(axis=1),
                "lowest": ranks.max(axis=1),
                "lowest_by": ranks.idxmax(axis=1),
                "spread": (ranks.max(axis=1) - ranks.min(axis=1)) / max(1, len(ranks) - 1),
            }
        )
        median = float(self.traits["n_values"].median())
        frame["why"] = ["; ".join(_reasons(trait, median)) for _, trait in self.traits.iterrows()]
        return frame.sort_values("spread", ascending=False, kind="stable")

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version. Traits that are not known are None."""
        traits = rows_named(self.traits, next(iter(self.scores.values())).feature_names)
        return {
            "kind": stored.COMPARISON,
            "schema_version": SCHEMA_VERSION,
            "scores": {name: scores.to_dict() for name, scores in self.scores.items()},
            "traits": {name: [None if each != each else each for each in traits[name].tolist()] for name in traits},
        }

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> Comparison:
        import pandas as pd

        scores, traits = stored.comparison_fields(plain)
        read = {name: Scores(**fields) for name, fields in scores.items()}
        for each in read.values():
            stored.check_read_scores(each)
        return cls(read, pd.DataFrame(traits, index=feature_index(next(iter(read.values())).feature_names)))

    def plot(self, kind: str = "ranks", ax: Any = None, max_features: int = 30) -> Any:
        """Draw the rank of each feature by each scorer, with a line for each feature.

        Parameters
        ----------
        kind : {"ranks"}
        ax : matplotlib Axes, optional
            New axes by default.
        max_features : int
            Draw at most this many features: those with the best mean rank. The title says how many are left out.

        Returns
        -------
        matplotlib Axes
        """
        figures.refuse_kind(kind, ("ranks",))
        return figures.on_axes(figures.draw_ranks, self, ax, max_features)


def _reasons(trait: pd.Series[Any], median_values: float) -> list[str]:
    reasons = []
    if trait["n_values"] >= max(LEAST_MANY, MANY * median_values):
        reasons.append(f"many values ({trait['n_values']})")
    if trait["correlation"] >= CORRELATED:
        reasons.append(f"correlated with {trait['correlated_with']} ({correlation_in_words(trait['correlation'])})")
    if trait["interaction"] >= INTERACTING:
        reasons.append(f"interacts ({percent(trait['interaction'], 0)} of its SHAP variance depends on other features)")
    if trait["not_upheld"] >= NOT_UPHELD:
        reasons.append(f"overfitted ({percent(trait['not_upheld'], 0)} of its reported share is lost on unseen rows)")
    return reasons
