"""``debias.compare(of="pairs")``: SHAP interactions of pairs of features beside the test of interactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias._version import __version__
from debias.api.interactions import interactions
from debias.api.prepared import prepared_members
from debias.errors import CompositionError, RowsError
from debias.hooks.expressions import scorer
from debias.models.wrappers import is_one, members_in_words
from debias.results.pair_comparison import PairComparison
from debias.results.vocabulary import RowsKind
from debias.rows.request import Request
from debias.rows.shap_interactions import shap_interactions

if TYPE_CHECKING:
    from debias.results.interactions import Interactions
    from debias.rows.rows import Rows


def compared_pairs(model: Any, X: Any, y: Any, settings: dict[str, Any]) -> PairComparison:
    """Return the SHAP interactions of a model, and its tested interactions where these rows can be tested.

    Parameters
    ----------
    model, X, y
    settings : dict
        Further arguments of :func:`debias.compare` and :func:`debias.interactions`.

    Raises
    ------
    CompositionError
        The model holds several models of trees.
    DebiasError
        As for :func:`debias.score`.
    """
    request = Request.of(model, X, y, **settings)
    request.passed.refuse_batches("compare")
    if not is_one(request.members):
        raise CompositionError(f"{members_in_words(request.members, 'Pass')} to debias.compare with of='pairs'")
    (prepared,) = prepared_members(request, [scorer("mdi_oob")])
    rows: Rows = prepared.rows
    names, ensemble = prepared.grouping.names, rows.ensemble
    found = shap_interactions(rows, prepared.grouping.index, len(names))
    tested, untested_because = _tested(model, X, y, settings, rows.kind)
    return PairComparison(
        feature_names=names,
        pairs=found.pairs,
        shap_interactions=found.size,
        shap_interactions_oob=np.full(len(found.pairs), np.nan) if found.covariance is None else found.covariance,
        tested=tested,
        untested_because=untested_because,
        rows=str(rows.kind),
        n_rows=int((rows.weight > 0).sum()),
        provenance=rows.provenance.to_dict(),
        settings={
            "model": ensemble.source,
            "library_version": ensemble.version,
            "n_trees": ensemble.n_trees,
            "debias_version": __version__,
            "seed": request.seed,
        },
        warnings=tuple(prepared.log.texts),
    )


def _tested(model: Any, X: Any, y: Any, settings: dict[str, Any], kind: str) -> tuple[Interactions | None, str]:
    """Return the test, or None and why it was refused."""
    if kind == RowsKind.TRAIN:
        return None, "training rows confirm what the trees have memorised. Pass rows that the model has not seen."
    try:
        return interactions(model, X, y, **settings), ""
    except (CompositionError, RowsError) as error:
        return None, f"{str(error).rstrip('.')}."
