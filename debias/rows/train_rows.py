"""What is proven about rows given as training rows beside held-out ones: in-bag sums of other rows would be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.errors import InBagUnavailableError, ProvenanceError
from debias.rows.bag_proof import prove, response_fits
from debias.rows.provenance import EVERY_LEAF, SURE, Provenance, prove_bags, proven
from debias.rows.recognition import recognise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from debias.data.response import Response
    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag
    from debias.warning_log import Notes

ENOUGH_PRESENT = 0.75
"""Least estimated share of the training set that rows given as train= must contain."""


def prove_training(
    ensemble: TreeEnsemble,
    model: Any,
    table: Table,
    response: Response,
    weight: NDArray[np.float64] | None,
    notes: Notes,
) -> tuple[InBag | None, Provenance]:
    """Prove rows given as training rows beside held-out ones: in-bag sums of other rows would be wrong.

    Parameters
    ----------
    ensemble, model, table, response, notes
        As for :func:`debias.rows.provenance.resolve`.
    weight : array of shape (n_rows,), or None
        Weights of training the user gave with them.

    Returns
    -------
    (InBag or None, Provenance)

    Raises
    ------
    ProvenanceError
        They are not the training rows, or not all of them. Of a model that stores no row counts it is only noted.
    """
    try:
        in_bag, proof = prove_bags(
            ensemble, model, table.n_rows, response, weight, lambda in_bag: prove(ensemble, in_bag, table, response)
        )
    except InBagUnavailableError:
        pass
    except ProvenanceError as error:
        raise ProvenanceError(f"train: {error}") from None
    else:
        if proof.holds:
            if not proof.values_prove:
                _refuse_another_response(ensemble, table, response)
            return in_bag, proven(proof)
        raise ProvenanceError(f"train is not the training rows in training order: {proof.mismatch()}")
    found = recognise(ensemble, table, response)
    _refuse_another_response(ensemble, table, response)
    if found.exact:
        return None, Provenance("train", "rows proven, y plausible", EVERY_LEAF, 1.0)
    too_few = table.n_rows < found.n_grown - 0.5
    as_many = abs(table.n_rows - found.n_grown) < 0.5 and not found.agrees
    if found.share is not None and (too_few or as_many or (found.power > SURE and found.present < ENOUGH_PRESENT)):
        wrong = (
            f"train does not look like the training rows: trees were grown on {found.n_grown:.0f} rows, and by the "
            f"counts in the leaves about {min(1.0, max(0.0, found.present)):.0%} of them are among these {table.n_rows}"
        )
        if ensemble.count is not None:
            raise ProvenanceError(f"{wrong}. Pass all rows the model was trained on.")
        # XGBoost stores sums of hessians, which training weights change in a way the model does not tell.
        notes.warn(f"{wrong}. If it was trained with weights, this cannot be told.")
    return None, Provenance("train", "stated by the user", "taken as training rows because train= says so", found.share)


def known_bags(model: Any, response: Response, sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Return the bags of a model that debias itself has just trained on these rows; None if it has none.

    Parameters
    ----------
    model, response
        As for :func:`debias.rows.provenance.resolve`.
    sample_weight : array of shape (n_rows,), or None
        Weights of training.
    """
    from debias.hooks.registry import plugin_manager

    y = response.codes if response.codes is not None else response.values
    try:
        found: InBag | None = plugin_manager().hook.debias_in_bag(model=model, y=y, sample_weight=sample_weight)
    except InBagUnavailableError:
        return None
    return found


def _refuse_another_response(ensemble: TreeEnsemble, table: Table, response: Response) -> None:
    if not response_fits(ensemble, table, response):
        raise ProvenanceError(
            "train: y is not the response the model was trained on: the leaves of the first trees do not follow it"
        )
