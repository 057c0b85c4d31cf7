"""Pictures of models and audits, as displays of the kind that scikit-learn has. Drawing one loads matplotlib."""

from typing import TYPE_CHECKING

from debias.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from debias.api.displays import ContributionsDisplay, EffectsDisplay, ImportanceDisplay
else:
    __getattr__, __dir__ = _lazy_names(
        __name__, {"debias.api.displays": "ContributionsDisplay EffectsDisplay ImportanceDisplay"}
    )

__all__ = ["ContributionsDisplay", "EffectsDisplay", "ImportanceDisplay"]
