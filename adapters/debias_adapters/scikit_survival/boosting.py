"""Reader of scikit-survival's GradientBoostingSurvivalAnalysis with the Cox partial likelihood."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from debias.errors import UnsupportedModelError, with_article
from debias.trees.ensemble import TreeEnsemble
from debias.trees.survival_objectives import CoxObjective
from debias_adapters.scikit_survival import LIBRARY
from debias_adapters.sklearn.reading import common_arrays, names_of

NOT_SCORED = {
    "squared": (
        "the model starts at the logarithm of time 0, so that the gradient of a row before any tree depends on the "
        "unit of time and leaves out the rows that were censored before time 1"
    ),
    "ipcwls": "its trees weigh rows by the inverse probability of censoring, and the model does not keep these weights",
}


def extract(model: Any) -> TreeEnsemble:
    """Return the trees stage by stage. Stored leaf values do not include the learning rate and factors of dropout."""
    source = f"scikit-survival {type(model).__name__}"
    if model.loss in NOT_SCORED:
        raise UnsupportedModelError(
            f"this {source} has loss={model.loss!r}: {NOT_SCORED[model.loss]}. Train it with loss='coxph'"
        )
    compiled = trees(model)
    scale = getattr(model, "_scale", np.ones(len(compiled)))[: len(compiled)]
    arrays = common_arrays(compiled)
    arrays |= {"version": sys.modules["sksurv"].__version__, "tested_versions": LIBRARY.tested_versions}
    return TreeEnsemble(
        **arrays,
        **names_of(model),
        value=np.concatenate([tree.value[:, 0] * factor for tree, factor in zip(compiled, scale, strict=True)])
        * model.learning_rate,
        tree_output=np.zeros(len(compiled), dtype=np.int32),
        base=np.zeros(1),
        averaged=False,
        objective=CoxObjective(signed=False),
        classes=None,
        missing_refusal=f"{with_article(source)} does not take missing values",
        rescaled=hasattr(model, "_scale"),
        source=source,
        criterion="squared_error",
        sampled_share=float(model.subsample),
    )


def trees(model: Any) -> list[Any]:
    """Return the compiled trees, stage by stage."""
    return [tree.tree_ for tree in model.estimators_[:, 0]]
