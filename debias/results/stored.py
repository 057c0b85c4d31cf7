"""Scores and audits as JSON is read: every field of its type and size, or a clear refusal."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasError
from debias.results.checks import check_audit, check_scores

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.results.audit import Audit
    from debias.results.scores import Scores

SCHEMA_VERSION = 4
DEEPEST = 50
"""Levels to which what has no fixed form (details, settings, provenance) may be nested."""
AGREE = 1e-9
"""Shares are those that follow from the scores but for this: another version of NumPy may add in another order."""
DERIVED = ("share", "verdict", "unsupported_share", "provenance", "warnings")
"""What is written beside an audit for other readers, and follows from the rest."""
WORDS = ("untested_because",)
"""Sentences written beside an audit, which another version may put otherwise, or not have."""


def read_scores(text: str | bytes) -> dict[str, Any]:
    """Return the fields of scores in JSON; raise a DebiasError if it is none that ``Scores.to_json`` wrote."""
    return _scores_fields(_parsed(text, "scores"), "")


def read_audit(text: str | bytes) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the fields of an audit in JSON, those of its scores by name, and what was written beside.

    Raises
    ------
    DebiasError
        It is no audit that ``Audit.to_json`` wrote, or of another schema version.
    """
    plain = _parsed(text, "audit")
    names = ("reported", "reported_kind", "n_values", "fingerprints", "scores")
    _require(plain, (*names, *DERIVED), "")
    _refuse_unknown(plain, (*names, *DERIVED, *WORDS), "")
    fields: dict[str, Any] = {
        "reported": _or_none(_numbers)(plain["reported"], "reported"),
        "reported_kind": _text(plain["reported_kind"], "reported_kind"),
        "n_values": _or_none(_whole_numbers)(plain["n_values"], "n_values"),
        "fingerprints": {
            name: _text(value, f"fingerprints.{name}")
            for name, value in _mapping(plain["fingerprints"], "fingerprints").items()
        },
    }
    scores = {}
    for name, each in _mapping(plain["scores"], "scores").items():
        _require_version(_mapping(each, f"scores.{name}"), "scores")
        scores[name] = _scores_fields(each, f"scores.{name}.")
    return fields, scores, {name: plain[name] for name in DERIVED}


def check_read_scores(scores: Scores) -> None:
    """Raise a DebiasError if scores that were read do not fit together."""
    try:
        check_scores(scores)
    except DebiasError as error:
        raise _no_audit(str(error)) from None


def check_read_audit(audit: Audit, written: dict[str, Any]) -> None:
    """Raise a DebiasError if an audit that was read does not fit together, or with what was written beside."""
    try:
        check_audit(audit)
    except DebiasError as error:
        raise _no_audit(str(error)) from None
    if not _agree(written["share"], audit.share.tolist()):
        raise _no_audit("share is not what follows from scores.mdi_oob")
    if not _agree(written["unsupported_share"], audit.unsupported_share):
        raise _no_audit("unsupported_share is not what follows from reported and scores.mdi_oob")
    if written["verdict"] != audit.verdict:
        raise _no_audit("verdict contradicts scores.mdi_oob.selected")
    provenance, known = _mapping(written["provenance"], "provenance"), audit.provenance
    differing = [name for name in provenance if name in known and provenance[name] != known[name]]
    if differing:
        raise _no_audit(f"provenance.{differing[0]} contradicts scores.mdi_oob")


def _parsed(text: str | bytes, what: str) -> dict[str, Any]:
    try:
        plain = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_each_once)
    except RecursionError:
        raise _no_audit("it is nested too deep") from None
    except (ValueError, TypeError) as error:  # no JSON, no text; a number of thousands of digits
        raise _no_audit(f"it cannot be read as JSON: {error}") from None
    if not isinstance(plain, dict):
        raise _no_audit("it is no JSON object")
    if what == "audit" and "schema_version" in plain and "scores" not in plain and "feature_names" in plain:
        raise _no_audit("it holds the scores of one scorer (debias score)")
    _require_version(plain, what)
    return plain


def _require_version(plain: dict[str, Any], what: str) -> None:
    version = plain.pop("schema_version", None)
    if version is None:
        raise _no_audit("it has no schema_version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise _no_audit(f"its schema_version is {_shown(version)}")
    if version != SCHEMA_VERSION:
        what = "an audit" if what == "audit" else "scores"
        how = (
            "written by a newer debias: update this one"
            if version > SCHEMA_VERSION
            else "written by an older debias: write it again with this one, from the old model and its rows"
        )
        raise DebiasError(f"{what} of schema version {version}, {how}, which reads schema version {SCHEMA_VERSION}")


def _scores_fields(plain: dict[str, Any], at: str) -> dict[str, Any]:
    required = tuple(name for name in _OF_SCORES if name != "null")
    _require(plain, required, at)
    _refuse_unknown(plain, tuple(_OF_SCORES), at)
    return {name: _OF_SCORES[name](value, at + name) for name, value in plain.items()}


def _or_none(read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda value, at: None if value is None else read(value, at)


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str):
        raise _no_audit(f"{at} is no text: {_shown(value)}")
    return value


def _texts(value: Any, at: str) -> tuple[str, ...]:
    return tuple(_text(each, at) for each in _list(value, at))


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise _no_audit(f"{at} is no list: {_shown(value)}")
    return value


def _mapping(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _no_audit(f"{at} is no JSON object: {_shown(value)}")
    return value


def _tree(value: Any, at: str) -> dict[str, Any]:
    """Return an object that may hold anything, but not nested without end nor numbers that are not finite."""
    level: list[Any] = [_mapping(value, at)]
    for _ in range(DEEPEST):
        inside = [each for one in level for each in (one.values() if isinstance(one, dict) else one)]
        if not all(_finite(each) for each in inside if isinstance(each, (int, float))):
            raise _no_audit(f"{at} has numbers that are not finite")
        level = [each for each in inside if isinstance(each, (dict, list))]
        if not level:
            return dict(value)
    raise _no_audit(f"{at} is nested too deep")


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _number(value: Any, at: str) -> float:
    return float(_numbers([value], at)[0])


def _numbers(value: Any, at: str) -> NDArray[np.float64]:
    if not set(map(type, _list(value, at))) <= {int, float}:
        raise _no_audit(f"{at} is no list of numbers")
    try:
        figures = np.array(value, dtype=np.float64)
    except OverflowError:
        raise _no_audit(f"{at} has numbers that are not finite") from None
    if not np.isfinite(figures).all():
        raise _no_audit(f"{at} has numbers that are not finite")
    return figures


def _whole(value: Any, at: str) -> int:
    return int(_whole_numbers([value], at)[0])


def _whole_numbers(value: Any, at: str) -> NDArray[np.int64]:
    if not set(map(type, _list(value, at))) <= {int} or any(not 0 <= each < 2**63 for each in value):
        raise _no_audit(f"{at} is no whole number from 0, or no list of such")
    return np.array(value, dtype=np.int64)


def _yes_or_no(value: Any, at: str) -> NDArray[np.bool_]:
    if not set(map(type, _list(value, at))) <= {bool}:
        raise _no_audit(f"{at} is no list of true and false")
    return np.array(value, dtype=bool)


def _table(value: Any, at: str) -> NDArray[np.float64]:
    rows = [_numbers(each, at) for each in _list(value, at)]
    if len({row.size for row in rows}) > 1:
        raise _no_audit(f"{at} has rows of different lengths")
    return np.array(rows, dtype=np.float64)


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
"""How each field of scores is read."""


def _require(plain: dict[str, Any], names: tuple[str, ...], at: str) -> None:
    lacking = [name for name in names if name not in plain]
    if lacking:
        raise _no_audit(f"it has no {at}{lacking[0]}")


def _refuse_unknown(plain: dict[str, Any], names: tuple[str, ...], at: str) -> None:
    unknown = [name for name in plain if name not in names]
    if unknown:
        raise _no_audit(f"{at}{unknown[0]} is no field of schema version {SCHEMA_VERSION}")


def _agree(written: Any, follows: Any) -> bool:
    if written is None or follows is None:
        return written is follows
    written, follows = (value if isinstance(value, list) else [value] for value in (written, follows))
    numbers = set(map(type, written)) <= {int, float} and len(written) == len(follows)
    return numbers and all(
        _finite(one) and abs(one - other) <= AGREE for one, other in zip(written, follows, strict=True)
    )


def _refuse_constant(name: str) -> None:
    raise _no_audit(f"it holds {name}, which is no JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _no_audit(f"it has {twice!r} twice in one object")
    return found


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _no_audit(what: str) -> DebiasError:
    return DebiasError(f"no audit or scores written by debias (to_json, debias audit --json): {what}")
