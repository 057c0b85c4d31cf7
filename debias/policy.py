"""What a release has to keep: rules for an audit, written in TOML or as a mapping."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from debias.errors import PolicyError, nearest

PROVENANCE = {
    "stated": ("stated by the user",),
    "unknown": ("cannot be told",),
    "checked": ("not recognised as training rows",),
    "rows proven": ("rows proven, y unproven", "rows proven, y plausible"),
    "proven": ("proven",),
}
"""Words for what is known of the rows, the weakest first, and the statuses of an audit they stand for."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Rules for an audit; those left out (None) are not checked.

    Parameters
    ----------
    max_unsupported_share : float
        Most of the reported importance that may fall on features indistinguishable from noise. It depends on the number
        of rows: set `min_rows` beside it.
    min_rows : int
        Fewest evaluation rows. With fewer the rule fails, and what depends on their number is not judged.
    must_be_informative : tuple of str
        Features that have to be found informative.
    must_not_matter : tuple of str
        Features that must not be found informative: identifiers, leaks, what must not be used.
    min_informative : int
        Fewest features found informative.
    max_inflation : float
        Most by which the reported share of a feature may exceed its debiased share.
    max_verdict_changes : int
        Most features in both models that may be informative in one audit and indistinguishable in the other.
    max_rank_change : int
        Most places by which a feature may rise or fall against the baseline. Features that are indistinguishable from
        noise share the place after the last informative one.
    max_share_change : float
        Most by which the debiased share of a feature may differ from that in the baseline.
    min_provenance : {"stated", "unknown", "checked", "rows proven", "proven"}
        What must be known of the rows. "checked": held-out rows that do not look like training rows, the most there is
        to know of these; "proven": training rows scored out of bag.

    Raises
    ------
    PolicyError
        A value is of a wrong kind or out of range, or there is no rule at all.
    """

    max_unsupported_share: float | None = None
    min_rows: int | None = None
    must_be_informative: tuple[str, ...] | None = None
    must_not_matter: tuple[str, ...] | None = None
    min_informative: int | None = None
    max_inflation: float | None = None
    max_verdict_changes: int | None = None
    max_rank_change: int | None = None
    max_share_change: float | None = None
    min_provenance: str | None = None

    def __post_init__(self) -> None:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        given = {name: value for name, value in given.items() if value is not None}
        if not given:
            raise PolicyError(f"a policy without rules would pass everything; rules are {', '.join(RULES)}")
        for name, value in given.items():
            kind = _KINDS[name]
            if kind == "names":
                object.__setattr__(self, name, _names(name, value))
            elif kind == "share":
                if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                    raise PolicyError(f"{name} is a share from 0 to 1, not {value!r}")
            elif kind == "count":
                if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                    raise PolicyError(f"{name} is a whole number from 0, not {value!r}")
            elif value not in PROVENANCE:
                hint = nearest(str(value), PROVENANCE)
                raise PolicyError(f"{name} is one of {', '.join(map(repr, PROVENANCE))}, not {value!r}.{hint}")

    @property
    def needs_baseline(self) -> tuple[str, ...]:
        """Rules that compare with another audit."""
        return tuple(name for name in _COMPARING if getattr(self, name) is not None)

    @classmethod
    def of(cls, given: Policy | Mapping[str, Any] | str | Path) -> Policy:
        """Return a policy from itself, a mapping of rules, or the path of a TOML file.

        Of a file the table ``[tool.debias]`` is read, or the whole file if it has none and is not ``pyproject.toml``.

        Raises
        ------
        PolicyError
            The file cannot be read as TOML, has no such table, or a rule does not exist; the message names the nearest.
        """
        if isinstance(given, Policy):
            return given
        rules, where = (given, "the policy") if isinstance(given, Mapping) else (_read(Path(given)), str(given))
        for name in rules:
            if name not in RULES:
                raise PolicyError(f"{where} has no rule {name!r}; rules are {', '.join(RULES)}.{nearest(name, RULES)}")
        try:
            return cls(**rules)
        except PolicyError as error:
            raise PolicyError(f"{where}: {error}") from None


_COMPARING = ("max_verdict_changes", "max_rank_change", "max_share_change")
RULES = tuple(each.name for each in fields(Policy))
_KINDS = dict.fromkeys(("max_unsupported_share", "max_inflation", "max_share_change"), "share")
_KINDS |= dict.fromkeys(("min_rows", "min_informative", "max_verdict_changes", "max_rank_change"), "count")
_KINDS |= {"must_be_informative": "names", "must_not_matter": "names", "min_provenance": "level"}


def _names(rule: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)) or not value:
        raise PolicyError(f"{rule} is a list of names of features, not {value!r}")
    if not all(isinstance(name, str) for name in value) or len(set(value)) < len(value):
        raise PolicyError(f"{rule} lists different names of features, as text; not {value!r}")
    return tuple(value)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PolicyError(f"the policy {path} cannot be read: {error}") from None
    table = content.get("tool", {})
    if isinstance(table, dict) and "debias" in table:
        content = table["debias"]
    elif path.name == "pyproject.toml":
        raise PolicyError(f"{path} has no table [tool.debias] with rules")
    if not isinstance(content, dict):
        raise PolicyError(f"{path}: tool.debias is no table of rules")
    return cast("Mapping[str, Any]", content)
