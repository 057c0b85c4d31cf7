"""Reading of scores and audits from JSON: every field is checked for type and size."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasError
from debias.results.checks import check_audit, check_scores
from debias.results.near_duplicates import NearDuplicates
from debias.results.performance import Performance

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.results.audit import Audit
    from debias.results.scores import Scores

SCHEMA_VERSION = 7
READABLE = (5, 6, SCHEMA_VERSION)
"""The versions that can be read."""
ADDED = ("near_duplicates", "performance")
"""Fields that an audit of version 5 does not have; one of version 6 has the first of them."""
DEEPEST = 50
"""Fields without a fixed form (details, settings, provenance) may be nested to this many levels."""
AGREE = 1e-9
"""Tolerance for shares computed from the scores: another version of NumPy may add in another order."""
DERIVED = ("share", "verdict", "unsupported_share", "provenance", "warnings")
"""Fields of an audit that follow from the others. They are written for other programs."""
WORDS = ("untested_because",)
"""Sentences in an audit. Another version may word them differently or not have them."""


def read_scores(text: str | bytes) -> dict[str, Any]:
    """Return the fields of scores in JSON.

    Raises
    ------
    DebiasError
        ``Scores.to_json`` did not write this text, or it has another schema version.
    """
    return _scores_fields(_parsed(text, "scores"), "")


def read_audit(text: str | bytes) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the fields of an audit in JSON, the fields of its scores by name, and the derived fields.

    Raises
    ------
    DebiasError
        ``Audit.to_json`` did not write this text, or it has another schema version.
    """
    plain = _parsed(text, "audit")
    names = ("reported", "reported_kind", "main_scorer", "n_values", "fingerprints", "scores")
    _require(plain, (*names, *DERIVED), "")
    _refuse_unknown(plain, (*names, *ADDED, *DERIVED, *WORDS), "")
    fields: dict[str, Any] = {
        "reported": _or_none(_numbers)(plain["reported"], "reported"),
        "reported_kind": _text(plain["reported_kind"], "reported_kind"),
        "main_scorer": _text(plain["main_scorer"], "main_scorer"),
        "n_values": _or_none(_whole_numbers)(plain["n_values"], "n_values"),
        "fingerprints": {
            name: _text(value, f"fingerprints.{name}")
            for name, value in _mapping(plain["fingerprints"], "fingerprints").items()
        },
        "near_duplicates": _or_none(_near_duplicates)(plain.get("near_duplicates"), "near_duplicates"),
        "performance": _or_none(_performance)(plain.get("performance"), "performance"),
    }
    scores = {}
    for name, plain_scores in _mapping(plain["scores"], "scores").items():
        _require_version(_mapping(plain_scores, f"scores.{name}"), "scores")
        scores[name] = _scores_fields(plain_scores, f"scores.{name}.")
    return fields, scores, {name: plain[name] for name in DERIVED}


def check_read_scores(scores: Scores) -> None:
    """Raise a DebiasError if the figures of scores contradict each other."""
    try:
        check_scores(scores)
    except DebiasError as error:
        raise _malformed(str(error)) from None


def check_read_audit(audit: Audit, written: dict[str, Any]) -> None:
    """Raise a DebiasError if the figures of an audit contradict each other or the derived fields in the file."""
    try:
        check_audit(audit)
    except DebiasError as error:
        raise _malformed(str(error)) from None
    at = f"scores.{audit.main_scorer}"
    if not _agree(written["share"], audit.share.tolist()):
        raise _malformed(f"share does not follow from {at}")
    if not _agree(written["unsupported_share"], audit.unsupported_share):
        raise _malformed(f"unsupported_share does not follow from reported and {at}")
    if written["verdict"] != audit.verdict:
        raise _malformed(f"verdict contradicts {at}.selected")
    provenance, known = _mapping(written["provenance"], "provenance"), audit.provenance
    differing = [name for name in provenance if name in known and provenance[name] != known[name]]
    if differing:
        raise _malformed(f"provenance.{differing[0]} contradicts {at}")


def _parsed(text: str | bytes, what: str) -> dict[str, Any]:
    try:
        plain = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_each_once)
    except RecursionError:
        raise _malformed("it is nested too deeply") from None
    except (ValueError, TypeError) as error:  # not JSON, not text, or a number of thousands of digits
        raise _malformed(f"it cannot be read as JSON: {error}") from None
    if not isinstance(plain, dict):
        raise _malformed("it is not a JSON object")
    if what == "audit" and "schema_version" in plain and "scores" not in plain and "feature_names" in plain:
        raise _malformed("it holds the scores of one scorer (debias score)")
    _require_version(plain, what)
    return plain


def _require_version(plain: dict[str, Any], what: str) -> None:
    version = plain.pop("schema_version", None)
    if version is None:
        raise _malformed("it has no schema_version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise _malformed(f"its schema_version is {_shown(version)}")
    if version not in READABLE:
        what = "an audit" if what == "audit" else "scores"
        how = (
            "A newer debias wrote it: update debias"
            if version > SCHEMA_VERSION
            else "An older debias wrote it: write it again with this version, from the old model and its rows"
        )
        raise DebiasError(
            f"{what} of schema version {version}, but this debias reads schema versions {READABLE[0]} to "
            f"{SCHEMA_VERSION}. {how}"
        )


def _scores_fields(plain: dict[str, Any], at: str) -> dict[str, Any]:
    required = tuple(name for name in _OF_SCORES if name != "null")
    _require(plain, required, at)
    _refuse_unknown(plain, tuple(_OF_SCORES), at)
    return {name: _OF_SCORES[name](value, at + name) for name, value in plain.items()}


def _or_none(read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda value, at: None if value is None else read(value, at)


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str):
        raise _malformed(f"{at} is not text: {_shown(value)}")
    return value


def _texts(value: Any, at: str) -> tuple[str, ...]:
    return tuple(_text(item, at) for item in _list(value, at))


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise _malformed(f"{at} is not a list: {_shown(value)}")
    return value


def _mapping(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _malformed(f"{at} is not a JSON object: {_shown(value)}")
    return value


def _tree(value: Any, at: str) -> dict[str, Any]:
    """Return an object of any form, but with finite numbers and limited nesting."""
    level: list[Any] = [_mapping(value, at)]
    for _ in range(DEEPEST):
        below = [item for node in level for item in (node.values() if isinstance(node, dict) else node)]
        if not all(_finite(item) for item in below if isinstance(item, (int, float))):
            raise _malformed(f"{at} has numbers that are not finite")
        level = [item for item in below if isinstance(item, (dict, list))]
        if not level:
            return dict(value)
    raise _malformed(f"{at} is nested too deeply")


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _number(value: Any, at: str) -> float:
    return float(_numbers([value], at)[0])


def _numbers(value: Any, at: str) -> NDArray[np.float64]:
    if not set(map(type, _list(value, at))) <= {int, float}:
        raise _malformed(f"{at} is not a list of numbers")
    try:
        figures = np.array(value, dtype=np.float64)
    except OverflowError:
        raise _malformed(f"{at} has numbers that are not finite") from None
    if not np.isfinite(figures).all():
        raise _malformed(f"{at} has numbers that are not finite")
    return figures


def _whole(value: Any, at: str) -> int:
    return int(_whole_numbers([value], at)[0])


def _whole_numbers(value: Any, at: str) -> NDArray[np.int64]:
    if not set(map(type, _list(value, at))) <= {int} or any(not 0 <= item < 2**63 for item in value):
        raise _malformed(f"{at} is not a whole number of at least 0, or a list of them")
    return np.array(value, dtype=np.int64)


def _yes_or_no(value: Any, at: str) -> NDArray[np.bool_]:
    if not set(map(type, _list(value, at))) <= {bool}:
        raise _malformed(f"{at} is not a list of true and false")
    return np.array(value, dtype=bool)


def _table(value: Any, at: str) -> NDArray[np.float64]:
    rows = [_numbers(row, at) for row in _list(value, at)]
    if len({row.size for row in rows}) > 1:
        raise _malformed(f"{at} has rows of different lengths")
    return np.array(rows, dtype=np.float64)


def _near_duplicates(value: Any, at: str) -> tuple[NearDuplicates, ...]:
    sets = []
    for k, plain in enumerate(_list(value, at)):
        here = f"{at}[{k}]."
        _require(_mapping(plain, f"{at}[{k}]"), ("features", "correlation"), here)
        _refuse_unknown(plain, ("features", "correlation"), here)
        features = _texts(plain["features"], f"{here}features")
        sets.append(NearDuplicates(features, _number(plain["correlation"], f"{here}correlation")))
    return tuple(sets)


def _performance(value: Any, at: str) -> Performance:
    plain = _mapping(value, at)
    _require(plain, (*_OF_PERFORMANCE, "better_than_constant"), f"{at}.")
    _refuse_unknown(plain, (*_OF_PERFORMANCE, "better_than_constant"), f"{at}.")
    performance = Performance(**{name: read(plain[name], f"{at}.{name}") for name, read in _OF_PERFORMANCE.items()})
    if plain["better_than_constant"] is not performance.better_than_constant:
        raise _malformed(f"{at}.better_than_constant does not follow from {at}.skill and {at}.p_value")
    return performance


_OF_PERFORMANCE: dict[str, Callable[[Any, str], Any]] = {
    "metric": _or_none(_text),
    **dict.fromkeys(("value", "constant", "skill", "auc", "correlation"), _or_none(_number)),
    "n_rows": _or_none(_whole),
    "p_value": _or_none(_number),
    "untold_because": _or_none(_text),
}
"""The function that reads each field of the performance."""
_OF_SCORES: dict[str, Callable[[Any, str], Any]] = {
    "values": _numbers,
    "feature_names": _texts,
    "scorer": _text,
    "unit": _text,
    "rows": _or_none(_text),
    "n_rows": _or_none(_whole),
    "provenance": _tree,
    "details": _tree,
    "warnings": _texts,
    "settings": _tree,
    "standard_error": _or_none(_numbers),
    "z": _or_none(_numbers),
    "p_value": _or_none(_numbers),
    "p_adjusted": _or_none(_numbers),
    "selected": _or_none(_yes_or_no),
    "threshold": _or_none(_number),
    "null": _or_none(_table),
}
"""The function that reads each field of scores."""


def _require(plain: dict[str, Any], names: tuple[str, ...], at: str) -> None:
    missing = [name for name in names if name not in plain]
    if missing:
        raise _malformed(f"it has no {at}{missing[0]}")


def _refuse_unknown(plain: dict[str, Any], names: tuple[str, ...], at: str) -> None:
    unknown = [name for name in plain if name not in names]
    if unknown:
        raise _malformed(f"{at}{unknown[0]} is not a field of schema version {SCHEMA_VERSION}")


def _agree(written: Any, follows: Any) -> bool:
    if written is None or follows is None:
        return written is follows
    written, follows = (value if isinstance(value, list) else [value] for value in (written, follows))
    numbers = set(map(type, written)) <= {int, float} and len(written) == len(follows)
    return numbers and all(
        _finite(one) and abs(one - other) <= AGREE for one, other in zip(written, follows, strict=True)
    )


def _refuse_constant(name: str) -> None:
    raise _malformed(f"it holds {name}, which is not JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _malformed(f"it has {twice!r} twice in one object")
    return entries


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _malformed(problem: str) -> DebiasError:
    return DebiasError(f"not an audit or scores written by debias (to_json, debias audit --json): {problem}")
