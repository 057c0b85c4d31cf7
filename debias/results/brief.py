"""A short form of an audit, for dashboards and language models. ``docs/schema/brief.schema.json`` describes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.answers import MOST_NAMED, answers
from debias.results.fields import SCHEMA_VERSION
from debias.results.sentences import doubts, headline
from debias.results.vocabulary import Verdict
from debias.text import escaped

if TYPE_CHECKING:
    from debias.results.audit import Audit

MOST_BYTES = 4000
"""The JSON of a brief is not longer than this, unless its sentences alone are."""
NAMED = (MOST_NAMED, 3, 1)
"""Answers name so many features, or fewer if names are long, so that there is room for some numbers."""
LEAST_FEATURES = 3
COLUMNS = ("reported", "share", "z", "p_adjusted", "verdict", "dependence")
"""Columns of the table of an audit that are in a brief, as far as it has them."""


def brief(audit: Audit) -> dict[str, Any]:
    """Return the short form of an audit: sentences, and the features with the largest shares that have room."""
    plain: dict[str, Any] = {}
    for most_named in NAMED:
        plain = _with(audit, most_named)
        if len(plain["features"]) >= LEAST_FEATURES or not plain["n_features_left_out"]:
            break
    return plain


def _with(audit: Audit, most_named: int) -> dict[str, Any]:
    """Return the short form whose answers name at most so many features."""
    frame, scores, performance = audit.to_frame(), audit.tested_scores, audit.performance
    columns = [name for name in COLUMNS if name in frame]
    verdicts = {verdict.value: int(audit.which(verdict).sum()) for verdict in Verdict}
    plain: dict[str, Any] = {
        "kind": "brief of an audit",
        "schema_version": SCHEMA_VERSION,
        "model": scores.settings["model"],
        "rows": {"kind": audit.rows_in_words, "number": scores.n_rows, "status": scores.provenance.get("status")},
        "performance": None
        if performance is None or performance.value is None
        else {
            "metric": performance.metric,
            "value": _rounded(performance.value),
            "better_than_constant": performance.better_than_constant,
        },
        "headline": [*doubts(audit), headline(audit)],
        "answers": answers(audit, most_named),
        "verdicts": {name: number for name, number in verdicts.items() if number},
        "error_rate": {name: scores.details.get("test", {}).get(name) for name in ("error", "alpha")},
        "columns": ["feature", *columns],
        "features": [],
        "n_features_left_out": len(frame),
    }
    room = MOST_BYTES - len(_json(plain).encode())
    for name, row in zip(frame.index, frame[columns].itertuples(index=False), strict=True):
        entry = [escaped(str(name)), *map(_rounded, row)]
        room -= len(_json(entry).encode()) + 2
        if room < 0:
            break
        plain["features"].append(entry)
    plain["n_features_left_out"] -= len(plain["features"])
    return plain


def _json(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=True)


def _rounded(value: Any) -> Any:
    """Return a number with three digits; None if it is not known; other values as they are."""
    if not isinstance(value, (float, np.floating)):
        return value
    return None if np.isnan(value) else float(f"{value:.3g}")
