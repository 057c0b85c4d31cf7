"""Missing values in compiled trees: scikit-learn before 1.8 grew trees on other rows than their splits say.

These versions decide at a split to which side missing values go. They then move rows to the sides once more, by the
feature that was chosen, and lose track of the rows with missing values: the children have the right numbers of rows,
but some rows are on the other side. So the values, impurities and deeper splits of the trees are not those of the rows
that reach the nodes, neither in ``predict`` nor here. All trees that take missing values are concerned.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from debias.errors import UnsupportedModelError
from debias.trees.tested_versions import major_minor

if TYPE_CHECKING:
    from debias.trees.ensemble import TreeEnsemble

GROWN_AS_ROUTED = (1, 8)
"""The first version that grows trees on the rows that their splits say."""
KEEPS_WEIGHTS = (1, 9)
"""The first version whose forests have the attribute ``_sample_weight``, which tells them from older ones."""


def missing_refusal() -> str | None:
    """Return why rows with missing values are refused, as `TreeEnsemble` has it; None if they are not."""
    version = sys.modules["sklearn"].__version__
    if major_minor(version) >= GROWN_AS_ROUTED:
        return None
    return (
        f"scikit-learn {version} grows trees with missing values (NaN) on other rows than their splits say, and a "
        "model does not keep whether it was trained with any. With scikit-learn 1.8 or later, train the model again "
        "and score it there; or fill in the missing values before training"
    )


def refuse_grown_otherwise(ensemble: TreeEnsemble) -> TreeEnsemble:
    """Return the trees, if they do not show that an older version grew them with missing values.

    Raises
    ------
    UnsupportedModelError
    """
    if missing_refusal() is not None and saw_missing(ensemble):
        raise UnsupportedModelError(
            f"this {ensemble.source} was trained with missing values (NaN), and scikit-learn {ensemble.version} grows "
            "trees with missing values on other rows than their splits say. With scikit-learn 1.8 or later, train it "
            "again; or fill in the missing values before training"
        )
    return ensemble


def with_doubt(forest: Any, ensemble: TreeEnsemble) -> TreeEnsemble:
    """Return the trees of a forest, with a note if an older version may have grown them with missing values."""
    is_forest = hasattr(forest, "estimators_")
    tells = is_forest and major_minor(ensemble.version) >= KEEPS_WEIGHTS
    if not tells or hasattr(forest, "_sample_weight") or not saw_missing(ensemble):
        return ensemble
    note = (
        "a scikit-learn before 1.9 trained this forest, with missing values. If it was before 1.8, the trees were "
        "grown on other rows than their splits say: training rows do not fit the nodes and are not recognised"
    )
    return replace(ensemble, notes=(*ensemble.notes, note))


def saw_missing(ensemble: TreeEnsemble) -> bool:
    """Whether the trees show that there were missing values in training; a few shallow trees may not.

    If no row of a node has a missing value at its split, scikit-learn notes that missing values go with most rows.
    Trees with random splits of scikit-learn 1.5 take no missing values, and note that they go right at every split.
    """
    assert ensemble.count is not None
    n_left, n_right = ensemble.count[ensemble.children].T
    to_left = ensemble.missing_left[ensemble.splits]
    return bool(to_left.any() and (to_left != (n_left > n_right)).any())
