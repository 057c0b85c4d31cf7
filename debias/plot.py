"""Pictures of models and audits, as displays of the kind that scikit-learn has. Drawing one loads matplotlib."""

from debias.api.displays import ContributionsDisplay, EffectsDisplay, ImportanceDisplay

__all__ = ["ContributionsDisplay", "EffectsDisplay", "ImportanceDisplay"]
