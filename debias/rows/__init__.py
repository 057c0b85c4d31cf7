"""Evaluation rows: how they are prepared, proven, and summed at the nodes.

- ``request``: the model, the rows and the settings that a user passed. ``preparation`` encodes the rows.
- ``provenance``: where rows are proven. It uses ``bag_proof`` (training rows in training order), ``recognition``
  (training rows in another order, from ``leaf_counts``) and ``shift``. ``response_check`` checks y.
- ``rows``: the evaluation rows that scorers read, in memory or in batches, with ``node_totals`` and ``running_loss``.
- ``node_sums``: ``debias.NodeSums``. ``paths``: the paths of rows, for contributions and tests.
"""
