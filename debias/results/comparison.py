"""Scores side by side: where they disagree about a feature, and what about the feature may be the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from debias.text import CLOSE, percent

if TYPE_CHECKING:
    import pandas as pd

    from debias.results.scores import Scores

CORRELATED = 0.5
"""Rank correlation with another feature from which on it is named as a reason,"""
INTERACTING = 0.25
"""share of the variance of a feature's SHAP values that the feature alone does not explain,"""
NOT_UPHELD = 0.5
"""part of the reported share that is gone on the evaluation rows,"""
MANY = 2.0
"""and number of values, in multiples of the median over features,"""
LEAST_MANY = 3
"""but no fewer than this."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several scores of one model, side by side.

    Parameters
    ----------
    scores : dict of str to Scores
        By scorer name.
    traits : DataFrame of shape (n_features, 5)
        Index ``feature``; ``n_values``; ``correlation`` (largest absolute rank correlation with another feature) and
        ``correlated_with`` (that feature); ``interaction`` (share of the variance of the feature's SHAP values that the
        feature alone does not explain, in the model; NaN if the model does not use it); ``not_upheld`` (part of the
        share of the reported importance that it loses in the share of ``mdi_oob``; NaN without these two scores, and on
        training rows).
    """

    scores: dict[str, Scores]
    traits: pd.DataFrame

    @property
    def table(self) -> pd.DataFrame:
        """Scores, one row a feature (index ``feature``), one column a scorer; the first scorer's largest on top."""
        import pandas as pd

        frame = pd.concat([each.to_frame() for each in self.scores.values()], axis=1)
        return frame.sort_values(frame.columns[0], ascending=False, kind="stable")

    @property
    def ranks(self) -> pd.DataFrame:
        """Rank of each feature by each scorer, 1 the largest; ties share their mean rank."""
        return self.table.rank(ascending=False)

    @property
    def rank_correlation(self) -> pd.DataFrame:
        """Spearman correlation of each two scorers over features; NaN where all scores of one are equal."""
        return self.table.corr(method="spearman")

    @property
    def disagreements(self) -> pd.DataFrame:
        """Where scorers disagree, and what about the feature may be the reason.

        Returns
        -------
        DataFrame
            One row a feature, the widest disagreement on top: ``highest`` and ``lowest`` rank (1 is the largest score)
            and ``highest_by``, ``lowest_by`` the scorers that give them; ``spread``, their difference over the
            largest possible; ``why``, the traits out of the ordinary. They are hints, not proofs: what a trait does
            to a score is in docs/comparing.md.
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


def _reasons(trait: pd.Series[Any], median_values: float) -> list[str]:
    reasons = []
    if trait["n_values"] >= max(LEAST_MANY, MANY * median_values):
        reasons.append(f"many values ({trait['n_values']})")
    if trait["correlation"] >= CORRELATED:
        reasons.append(f"correlated with {trait['correlated_with']} ({_correlation(trait['correlation'])})")
    if trait["interaction"] >= INTERACTING:
        reasons.append(f"interacts ({percent(trait['interaction'], 0)} of its SHAP variance is not its own)")
    if trait["not_upheld"] >= NOT_UPHELD:
        reasons.append(f"overfitted ({percent(trait['not_upheld'], 0)} of its reported share is gone on unseen rows)")
    return reasons


def _correlation(value: float) -> str:
    return "more than 0.99" if 0.99 < value < 1 - CLOSE else f"{value:.2f}"
