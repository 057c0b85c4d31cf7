"""Adapter of PMML: trees in the files that sklearn2pmml, nyoka and packages of R write, read without Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.hooks.library import Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HEAD = """<PMML xmlns="http://www.dmg.org/PMML-4_4" version="4.4"><Header/><DataDictionary>{fields}</DataDictionary>
<MiningModel functionName="regression"><MiningSchema><MiningField name="y" usageType="target"/>{columns}</MiningSchema>
<Segmentation multipleModelMethod="average">{trees}</Segmentation></MiningModel></PMML>"""
TREE = """<Segment><True/><TreeModel functionName="regression"><MiningSchema><MiningField name="x0"/></MiningSchema>
<Node><True/><Node score="{low}"><SimplePredicate field="x0" operator="lessOrEqual" value="{limit}"/></Node>
<Node score="{high}"><SimplePredicate field="x0" operator="greaterThan" value="{limit}"/></Node></Node>
</TreeModel></Segment>"""


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    """Return two stumps on the first column, made by hand: the writers are packages of their own, most need Java."""
    from debias_adapters.pmml.model import PmmlModel

    names = [f"x{k}" for k in range(X.shape[1])]
    fields = "".join(f'<DataField name="{name}" optype="continuous" dataType="double"/>' for name in (*names, "y"))
    columns = "".join(f'<MiningField name="{name}"/>' for name in names)
    limits = [(float(k), X[:, 0] <= k) for k in range(2)]
    trees = "".join(TREE.format(limit=limit, low=y[left].mean(), high=y[~left].mean()) for limit, left in limits)
    return PmmlModel(HEAD.format(fields=fields, columns=columns, trees=trees).encode())


LIBRARY = Library("PMML", None, _small_model, tested=("4.2", "4.4"), page="libraries/pmml")
