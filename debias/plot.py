"""Pictures of models and audits, as displays of the kind that scikit-learn has. Drawing one loads matplotlib."""

from typing import TYPE_CHECKING

from debias.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from debias.api.contributions_display import ContributionsDisplay
    from debias.api.effects_display import EffectsDisplay
    from debias.api.importance_display import ImportanceDisplay
else:
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {
            "debias.api.contributions_display": "ContributionsDisplay",
            "debias.api.effects_display": "EffectsDisplay",
            "debias.api.importance_display": "ImportanceDisplay",
        },
    )

__all__ = ["ContributionsDisplay", "EffectsDisplay", "ImportanceDisplay"]
