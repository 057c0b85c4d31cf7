"""From a fitted model to its trees."""
