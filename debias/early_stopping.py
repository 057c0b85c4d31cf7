"""Notes of boosted models whose number of trees was chosen by the loss on rows that they do not store."""

_IF_SCORED = (
    "by the loss on rows that the model does not store (early stopping); if these are the rows that are scored, scores "
    "are too high on average, also those of noise: score other rows then"
)
STOPPED_EARLY = f"the number of trees was chosen {_IF_SCORED}"
"""Note of a boosted model for which an adapter finds this,"""
PERHAPS_STOPPED_EARLY = f"the number of trees may have been chosen {_IF_SCORED}"
"""and of one that does not tell whether all trees that were asked for were grown."""
NOTES_OF_STOPPING = (STOPPED_EARLY, PERHAPS_STOPPED_EARLY)
"""Both."""
