"""The scorers of the core: what an audit, a comparison and a history rest on.

They are plugins like any other, found by the entry points in ``pyproject.toml``; only their place is in the core.

- ``node``: sums over the splits of the model: ``mdi_oob``, which an audit tests, and ``mdi``, ``ufi``, ``oob_split``,
  ``oob_loss``.
- ``honest_effects``: fits at every node, which the test of dependence uses; ``honest_splits`` are its splits.
- ``native``: what the model itself reports: ``native``, ``gain``, ``cover``, ``split_count``.
"""
