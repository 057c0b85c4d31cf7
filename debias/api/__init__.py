"""The public functions: ``score``, ``contributions``, ``audit`` and ``compare``; ``evaluation`` is their pipeline."""
