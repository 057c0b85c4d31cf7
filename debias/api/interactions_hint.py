"""The hint of an audit at features that work together: their pairs, tested on a few of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.api.interactions import Asked, tested_on
from debias.errors import DebiasError
from debias.results.sentences import part_like_training, units_alike
from debias.results.vocabulary import PAIRS, UNPROVEN, RowsKind
from debias.rows.interactions import pairs_on_paths
from debias.rows.rows import Rows
from debias.significance.interactions import refuse_responses_without_mean
from debias.significance.procedure import Procedure
from debias.significance.tested_rows import ROWS_PER_COLUMN_WITHIN, drawn_rows

if TYPE_CHECKING:
    from debias.api.prepared import Prepared
    from debias.data.groups import Grouping
    from debias.results.scores import Scores

ONE_OF = 80
"""One of so many rows is tested, so that the test takes less than a tenth of the time of the audit,"""
MANY_LEAVES, OF_LARGE_TREES = 64, 3
"""one of so many times more if trees have more leaves on average,"""
OF_LINKS = 2
"""and one of so many times more for classes and counts, whose additive functions are fitted in steps."""
FEWEST = 300
"""Of fewer rows nothing is tested,"""
MOST = 1000
"""and of more no more: the time grows with their square, and that of the audit with the number of its rows."""


def pairs_in_details(prepared: Prepared, scores: Scores, procedure: Procedure) -> dict[str, Any]:
    """Return the pairs of features that some of the rows confirm, for the details of an audit; empty if there are none.

    It is empty too if there are too few rows for a test that costs little; if they are no held-out rows in memory, may
    be training rows, or are in blocks or alike, so that the test may find what is not there or costs more; or if the
    model has no interactions that :func:`debias.interactions` can test.

    Parameters
    ----------
    prepared : Prepared
        One model, with the rows of the audit.
    scores : Scores
        The tested scores of these rows.
    procedure : Procedure
        The test of the audit. Its error rate is used, if it is a family-wise one, and else 5 %.
    """
    rows, grouping = prepared.rows, prepared.grouping
    if not isinstance(rows, Rows) or rows.kind != RowsKind.HELD_OUT or rows.ensemble.line_feature is not None:
        return {}
    may_be_seen = scores.provenance.get("status") in UNPROVEN or part_like_training(scores.provenance) is not None
    if may_be_seen or rows.blocks is not None or units_alike(scores.warnings) is not None:
        return {}
    most = _most_rows(rows, grouping)
    if most is None:
        return {}
    drawn = drawn_rows(rows, most)
    assert drawn is not None  # one of many
    meets = pairs_on_paths(rows.ensemble, grouping.index, len(grouping.names))
    alpha = procedure.alpha if procedure.error == "fwer" else 0.05
    family_wise = Procedure.of("auto", alpha)
    assert family_wise is not None
    try:
        refuse_responses_without_mean(rows.ensemble)
        asked = Asked.of(grouping.names)
        found = tested_on(rows.part(drawn), grouping, meets, asked, family_wise, 0.0, prepared.request.seed)
    except DebiasError:  # a hint is not worth an error: debias.interactions says what is wrong
        return {}
    at = {members: k for k, members in enumerate(found.sets)}
    pairs = [
        {
            "features": list(members),
            "p_adjusted": float(found.p_adjusted[at[members]]),
            "about": found.about[at[members]] if found.about else "",
        }
        for members in found.confirmed
    ]
    scale = found.settings.get("scale")
    return {PAIRS: {"n_rows": found.n_rows, "alpha": alpha, "scale": scale, "pairs": pairs}} if pairs else {}


def _most_rows(rows: Rows, grouping: Grouping) -> int | None:
    """Return how many rows are tested; None if that is too few."""
    ensemble, codes = rows.ensemble, rows.response.codes
    n_comparisons = ensemble.n_outputs if codes is None else max(1, np.unique(codes).size - 1)
    times = ONE_OF * n_comparisons
    times *= OF_LARGE_TREES if (ensemble.left < 0).sum() > MANY_LEAVES * ensemble.n_trees else 1
    times *= OF_LINKS if codes is not None or ensemble.objective.name != "squared_error" else 1
    most = min(rows.n_rows // times, MOST)
    if len(grouping.names) < 2 or most < max(FEWEST, ROWS_PER_COLUMN_WITHIN * grouping.index.size):
        return None
    return most
