"""The audit of a cross-validation as JSON, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasError
from debias.results.audit import Audit
from debias.results.stored import AGREE
from debias.results.untested import tell_nothing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.folds_audit import FoldsAudit

KIND = "folds audit"
"""The field ``kind`` of the JSON, by which it differs from that of one audit."""
SCHEMA_VERSION = 1
REQUIRED = ("n_train", "test", "no_error_because", "notes", "audits")
OF_FEATURES = ("standard_error", "z", "p_value", "p_adjusted")
DERIVED = ("feature_names", "mean", "share", "verdict", "informative_folds", "rank_stability", "warnings")
"""Fields that follow from the others. They are written for other programs."""


def to_dict(audit: FoldsAudit) -> dict[str, Any]:
    """Return plain Python values, with a schema version."""
    figures = {name: getattr(audit, name) for name in OF_FEATURES}
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "main_scorer": audit.main_scorer,
        "feature_names": list(audit.feature_names),
        "mean": audit.mean.tolist(),
        "share": audit.share.tolist(),
        "verdict": audit.verdict,
        "informative_folds": audit.informative_folds.tolist(),
        "rank_stability": audit.rank_stability,
        "n_train": list(audit.n_train),
        **{name: None if values is None else values.tolist() for name, values in figures.items()},
        "test": audit.test,
        "no_error_because": audit.no_error_because,
        "notes": list(audit.notes),
        "warnings": list(audit.warnings),
        "audits": {name: each.to_dict() for name, each in audit.audits.items()},
    }


def read(text: str | bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a FoldsAudit in JSON, and the derived fields.

    Raises
    ------
    DebiasError
        ``FoldsAudit.to_json`` did not write this text, or it has another schema version.
    """
    plain = _parsed(text)
    missing = [name for name in (*REQUIRED, *OF_FEATURES, *DERIVED, "main_scorer") if name not in plain]
    if missing:
        raise _malformed(f"it has no {missing[0]}")
    if not isinstance(plain["audits"], dict) or not plain["audits"]:
        raise _malformed("audits is not a JSON object with an audit for each fold")
    audits = {}
    for name, of_fold in plain["audits"].items():
        try:
            audits[name] = Audit.from_json(json.dumps(of_fold))
        except DebiasError as error:
            raise DebiasError(f"audits.{name}: {error}") from None
    names = {each.main.feature_names for each in audits.values()}
    if len(names) > 1 or any(each.main_scorer != plain["main_scorer"] for each in audits.values()):
        raise _malformed("its audits have different features or scorers")
    if all(tell_nothing(each.main) for each in audits.values()):
        raise _malformed("none of its audits tells anything about the features")
    n_features = len(names.pop())
    fields: dict[str, Any] = {
        "audits": audits,
        "n_train": tuple(_counts(plain["n_train"], len(audits))),
        "test": _test(plain["test"]),
        "no_error_because": _text_or_none(plain["no_error_because"], "no_error_because"),
        "notes": tuple(_texts(plain["notes"], "notes")),
    }
    fields |= {name: _figures(plain[name], n_features, name) for name in OF_FEATURES}
    if (fields["standard_error"] is None) != (fields["no_error_because"] is not None):
        raise _malformed("standard_error contradicts no_error_because")
    untested = all(each.main.selected is None for each in audits.values())
    if (fields["p_adjusted"] is None) != untested or bool(fields["test"]) == untested:
        raise _malformed("p_adjusted or test contradicts the tests of its audits")
    return fields, {name: plain[name] for name in DERIVED}


def check_read(audit: FoldsAudit, derived: dict[str, Any]) -> None:
    """Raise a DebiasError if the derived fields in the file do not follow from the others."""
    follows = to_dict(audit)
    for name, written in derived.items():
        if name != "warnings" and not _agree(written, follows[name]):
            raise _malformed(f"{name} does not follow from its audits")


def _parsed(text: str | bytes) -> dict[str, Any]:
    try:
        plain = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise _malformed("it is nested too deeply") from None
    except (ValueError, TypeError) as error:
        raise _malformed(f"it cannot be read as JSON: {error}") from None
    if not isinstance(plain, dict):
        raise _malformed("it is not a JSON object")
    if plain.get("kind") != KIND:
        what = "it holds one audit (Audit.from_json reads it)" if "reported" in plain else f"its kind is not {KIND!r}"
        raise _malformed(what)
    if plain.get("schema_version") != SCHEMA_VERSION:
        raise DebiasError(
            f"an audit of folds of schema version {plain.get('schema_version')!r}, but this debias reads version "
            f"{SCHEMA_VERSION}. Another version of debias wrote it: use that version"
        )
    return plain


def _refuse_constant(name: str) -> None:
    raise _malformed(f"it holds {name}, which is not JSON")


def _figures(value: Any, n_features: int, at: str) -> NDArray[np.float64] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != n_features or not set(map(type, value)) <= {int, float}:
        raise _malformed(f"{at} is not a list of {n_features} numbers")
    figures = np.array(value, dtype=np.float64)
    if not np.isfinite(figures).all():
        raise _malformed(f"{at} has numbers that are not finite")
    if at == "standard_error" and (figures < 0).any():
        raise _malformed(f"{at} has negative numbers")
    if at.startswith("p_") and not ((figures >= 0) & (figures <= 1)).all():
        raise _malformed(f"{at} is not between 0 and 1")
    return figures


def _counts(value: Any, n_folds: int) -> list[int | None]:
    if not isinstance(value, list) or len(value) != n_folds:
        raise _malformed(f"n_train is not a list of {n_folds} numbers of rows")
    if any(item is not None and (type(item) is not int or item < 1) for item in value):
        raise _malformed("n_train has entries that are not numbers of rows")
    return value


def _test(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _malformed("test is not a JSON object")
    alpha = value.get("alpha")
    if value and not (type(alpha) is float and 0 < alpha < 1):
        raise _malformed("test.alpha is not a number between 0 and 1")
    if value and (not isinstance(value.get("method"), str) or value.get("error") not in ("fwer", "fdr", "fdr_by")):
        raise _malformed("test has no method, or an unknown error rate")
    correlation, n_permutations = value.get("correlation", 0.0), value.get("n_permutations", 1)
    if type(correlation) not in (int, float) or not 0 <= correlation <= 1:
        raise _malformed("test.correlation is not a number between 0 and 1")
    if type(n_permutations) is not int or n_permutations < 1:
        raise _malformed("test.n_permutations is not a number of permutations")
    return value


def _text_or_none(value: Any, at: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _malformed(f"{at} is not text")
    return value


def _texts(value: Any, at: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _malformed(f"{at} is not a list of texts")
    return value


def _agree(written: Any, follows: Any) -> bool:
    if isinstance(follows, float):
        return type(written) in (int, float) and abs(written - follows) <= AGREE * max(1.0, abs(follows))
    if isinstance(follows, list):
        same_size = isinstance(written, list) and len(written) == len(follows)
        return same_size and all(map(_agree, written, follows))
    return bool(written == follows)


def _malformed(problem: str) -> DebiasError:
    return DebiasError(f"not an audit of folds written by debias (FoldsAudit.to_json): {problem}")
