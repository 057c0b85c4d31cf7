"""The losses of the models of a cross-validation on the rows that were held out from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from debias.api.prepared import prepared_members
from debias.api.row_losses import row_losses
from debias.errors import CompositionError
from debias.hooks.expressions import scorer
from debias.models.wrappers import is_one, names_of
from debias.rows.loss_parts import metric_of
from debias.significance.fold_losses import LossOfFold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from debias.rows.request import Request


def loss_of_fold(request: Request) -> LossOfFold:
    """Return the losses of the test rows of a fold, with what each feature saves.

    Parameters
    ----------
    request : Request
        The model of the fold with its test rows.

    Raises
    ------
    CompositionError
        There are several models of trees, or the loss has no parts.
    RowsError
        The loss of some rows is not finite.
    """
    if not is_one(request.members):
        raise CompositionError(
            f"loss=True divides the loss of one model of trees, and this {request.members[0].path[0]} has other parts: "
            f"{', '.join(names_of(request.members))}. Leave it out, or train one of these in each fold"
        )
    metric = metric_of(request.members[0].ensemble)  # before the rows, which take longer
    (prepared,) = prepared_members(request, [scorer("mdi_oob")])
    rows = prepared.rows
    used = rows.weight > 0
    losses = row_losses(rows, prepared.grouping, prepared.grouping.names, used, f"the {metric} of the model")
    return LossOfFold(metric, losses, rows.weight[used], None if rows.blocks is None else rows.blocks[used])


def refuse_other_losses(folds: Mapping[str, LossOfFold]) -> None:
    """Refuse folds whose losses are different figures."""
    named: dict[str, str] = {}
    for name, fold in folds.items():
        named.setdefault(fold.metric, name)
    if len(named) > 1:
        told = ", ".join(f"{metric} in {name}" for metric, name in named.items())
        raise CompositionError(
            f"the losses of the models of these folds are different figures: {told}. Leave loss=True out, or train the "
            "models of all folds for one loss"
        )
