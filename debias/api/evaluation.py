"""One scorer applied to rows that are prepared: what it says becomes Scores, tested if asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.dataset import Data
from debias.errors import CompositionError, RowsError
from debias.hooks.scorers import Scorer, decided
from debias.results.scores import Scores
from debias.results.untested import unless_tested
from debias.rows.rows import Rows
from debias.significance.verdict import Procedure, significance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import Notes


def scored(
    scorer: Scorer,
    ensemble: TreeEnsemble | None,
    rows: Rows | Data | None,
    grouping: Grouping,
    notes: Notes,
    seed: int | None,
) -> Scores:
    """Score rows, or data, and say with what."""
    from debias._version import __version__

    data = rows.data if isinstance(rows, Rows) and "data-only" in scorer.needs else rows
    values, found = scorer.score(None if isinstance(data, Data) else ensemble, data)
    details, fields, warned = decided(found)
    for text in warned:
        notes.warn(text)
    proven = rows if isinstance(rows, Rows) and "rows" in scorer.needs else None
    return Scores(
        values=grouping.sum(values),
        feature_names=grouping.names,
        scorer=scorer.name,
        unit=scorer.unit,
        rows="data" if isinstance(data, Data) else None if proven is None else proven.kind,
        n_rows=data.n_rows if isinstance(data, Data) else None if proven is None else proven.n_evaluated,
        provenance={} if proven is None else proven.provenance.to_dict(),
        details=details,
        warnings=tuple(notes.texts),
        settings={
            "model": None if ensemble is None else ensemble.source,
            "library_version": None if ensemble is None else ensemble.version,
            "n_trees": None if ensemble is None else ensemble.n_trees,
            "debias_version": __version__,
            "seed": whole_seed(seed),
        },
        **fields,
    )


def tested(
    scores: Scores, scorer: Scorer, rows: Rows | None, grouping: Grouping, test: Procedure, notes: Notes
) -> Scores:
    """Return scores with standard errors, z and p-values, or with the reason why there are none."""
    if rows is None:
        raise CompositionError(f"{scorer.name} looks at no rows, so it cannot be tested")
    known = len(notes.texts)
    found = significance(scores, rows, node_weight_of(scorer, rows.ensemble, rows), grouping, test, notes)
    return unless_tested(found, notes.texts[known:])


def node_weight_of(scorer: Scorer, ensemble: TreeEnsemble, rows: Rows) -> NDArray[np.float64]:
    """Return what a scorer multiplies the covariance of each node with; raise if it is no sum over rows."""
    function = getattr(scorer, "node_weight", None)
    weight: NDArray[np.float64] | None = None if function is None else function(ensemble, rows)
    if weight is None:
        raise CompositionError(
            f"{scorer.name} has no contributions of rows, and so no standard errors: it is no weighted sum of centred "
            "covariances. mdi_oob is, also with shrinkage= or, of a model that stores in-bag counts, weights='in_bag'"
        )
    return weight


def whole_seed(seed: Any) -> int | None:
    """Return a seed as a number; raise a RowsError if it is none."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise RowsError(f"seed={seed!r} is no seed: pass a whole number, 0 or more")
    return int(seed)
