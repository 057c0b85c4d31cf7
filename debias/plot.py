"""Pictures of models and audits, as displays of the kind that scikit-learn has. Drawing one loads matplotlib."""

from debias.api.contributions_display import ContributionsDisplay
from debias.api.effects_display import EffectsDisplay
from debias.api.importance_display import ImportanceDisplay

__all__ = ["ContributionsDisplay", "EffectsDisplay", "ImportanceDisplay"]
