"""CatBoost's statistics of categories (CTR): the bin of each category among the borders that a model splits at.

A statistic is a mean or a count of training rows, for each category or for each combination of categories and answers
to other splits. The model keeps tables of them by hashes. Two categories in the same bins of all statistics go the same
way at every split.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEVER_SEEN = "never seen"
"""Stands for the hashes that are in no table."""


def bins_of_keys(statistics: list[dict[str, Any]], tables: dict[str, Any]) -> NDArray[np.int64]:
    """Return the bins that some category has, of several statistics of the same categories or combinations.

    Parameters
    ----------
    statistics : list of dict
        Entries of ``features_info.ctrs``; ``used`` lists the borders that the model splits at, ascending.
    tables : dict
        ``ctr_data`` of the model.

    Returns
    -------
    array of int64 of shape (n_distinct, n_statistics)
        Distinct rows. A category in no table is among them.

    Raises
    ------
    UnsupportedModelError
        CatBoost cannot read the tables from JSON, or the model has none.
    """
    if any(statistic["identifier"] not in tables for statistic in statistics):
        raise UnsupportedModelError(
            "this CatBoost model has no tables of its statistics of categories, so it cannot predict for new rows. "
            "Train it without final_ctr_computation_mode='Skip'"
        )
    by_key = [_bins(statistic, tables[statistic["identifier"]]) for statistic in statistics]
    keys = set().union(*by_key)
    return np.unique([[bins.get(key, bins[NEVER_SEEN]) for bins in by_key] for key in keys], axis=0)


def _bins(statistic: dict[str, Any], table: dict[str, Any]) -> dict[Any, int]:
    """Return the bin of each hash."""
    stride = table["hash_stride"]
    hashes = table["hash_map"][::stride]
    stored = np.array([table["hash_map"][at::stride] for at in range(1, stride)], dtype=np.float64).reshape(
        stride - 1, len(hashes)
    )
    stored = np.column_stack([stored, np.zeros(stride - 1)])  # a category that was never seen has no rows
    kind, target = statistic["ctr_type"], statistic["target_border_idx"]
    if kind in ("Counter", "FeatureFreq"):
        good, total = stored[0], np.full(stored.shape[1], table["counter_denominator"], dtype=np.float64)
    elif kind in ("BinarizedTargetMeanValue", "FloatTargetMeanValue"):
        good, total = stored
        if (good != np.round(good)).any():
            raise UnsupportedModelError(
                f"this CatBoost model has statistics of categories of the kind {kind} with broken sums, which CatBoost "
                "does not read from its own JSON. Train it with simple_ctr and combinations_ctr of the kinds Borders "
                "(the default) or Buckets"
            )
    else:  # numbers of rows by class of the target
        good = stored[target] if kind == "Buckets" else stored[target + 1 :].sum(axis=0)
        total = stored.sum(axis=0)
    # CatBoost computes in float32. Its JSON spells "denominator" so.
    single = np.float32
    value = (good.astype(single) + single(statistic["prior_numerator"])) / (
        total.astype(single) + single(statistic["prior_denomerator"])
    )
    value = (value + single(statistic["shift"])) * single(statistic["scale"])
    bins = np.searchsorted(np.array(statistic["used"], dtype=single), value, side="left")
    return dict(zip([*hashes, NEVER_SEEN], bins.tolist(), strict=True))
