"""What a release has to keep: rules for an audit, written in TOML or as a mapping."""

from __future__ import annotations

import os
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


@dataclass(frozen=True)
class Feature:
    """A feature a rule names; unless it is `optional`, a model that does not have it fails the rule."""

    name: str
    optional: bool = False


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
    must_be_informative : list of str, Feature or mapping
        Features that have to be found informative. A name that is no feature of the model fails, unless it is given as
        ``{"name": "income", "optional": True}``. Kept as a tuple of `Feature`.
    must_not_matter : list of str, Feature or mapping
        Features that must not be found informative: identifiers, leaks, what must not be used. Names as above.
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
        to know of these; "proven": training rows scored out of bag. Without this rule, rows that look like training
        rows and are only stated to be held out fail; "stated" lets them pass.
    max_shift : float
        Most by which the rows may differ from those of training at the splits on any one feature: an effect size,
        from 0 (no difference beyond chance) to 2; 0.1 is small, 0.3 is medium, 0.5 is large.

    Raises
    ------
    PolicyError
        A value is of a wrong kind or out of range, or there is no rule at all.
    """

    max_unsupported_share: float | None = None
    min_rows: int | None = None
    must_be_informative: tuple[Feature, ...] | None = None
    must_not_matter: tuple[Feature, ...] | None = None
    min_informative: int | None = None
    max_inflation: float | None = None
    max_verdict_changes: int | None = None
    max_rank_change: int | None = None
    max_share_change: float | None = None
    min_provenance: str | None = None
    max_shift: float | None = None

    def __post_init__(self) -> None:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        given = {name: value for name, value in given.items() if value is not None}
        if not given:
            raise PolicyError(f"a policy without rules would pass everything; rules are {', '.join(RULES)}")
        for name, value in given.items():
            kind = _KINDS[name]
            if kind == "names":
                object.__setattr__(self, name, _features(name, value))
            elif kind == "share":
                if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                    raise PolicyError(f"{name} is a share from 0 to 1, not {value!r}")
            elif kind == "effect":
                if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 2:
                    raise PolicyError(f"{name} is an effect size from 0 to 2, 0.5 is large; not {value!r}")
            elif kind == "count":
                if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                    raise PolicyError(f"{name} is a whole number from 0, not {value!r}")
            elif not isinstance(value, str) or value not in PROVENANCE:
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
            The file cannot be read as TOML, has no such table or has rules outside of it, or a rule does not exist;
            the message names the nearest.
        """
        if isinstance(given, Policy):
            return given
        if not isinstance(given, (Mapping, str, os.PathLike)):
            raise PolicyError(f"a policy is a Policy, a mapping of rules or the path of a TOML file, not {given!r}")
        rules, where = (given, "the policy") if isinstance(given, Mapping) else (_read(Path(given)), str(given))
        for name, value in rules.items():
            if name not in RULES:
                raise PolicyError(f"{where} has no rule {name!r}; {_no_rule(str(name), value)}")
            if value is None:
                raise PolicyError(f"{where}: {name} is None; give its limit, or leave the rule out")
        try:
            return cls(**rules)
        except PolicyError as error:
            raise PolicyError(f"{where}: {error}") from None


_COMPARING = ("max_verdict_changes", "max_rank_change", "max_share_change")
RULES = tuple(each.name for each in fields(Policy))
_KINDS = dict.fromkeys(("max_unsupported_share", "max_inflation", "max_share_change"), "share")
_KINDS |= dict.fromkeys(("min_rows", "min_informative", "max_verdict_changes", "max_rank_change"), "count")
_KINDS |= {"must_be_informative": "names", "must_not_matter": "names", "min_provenance": "level", "max_shift": "effect"}
_OF_PYPROJECT = ("project", "build-system", "dependency-groups", "tool")
"""Tables at the top of a pyproject.toml, which may stand beside ours under another file name too."""


def _features(rule: str, value: Any) -> tuple[Feature, ...]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, (list, tuple)) or not value:
        raise PolicyError(f"{rule} is a list of names of features, not {value!r}")
    found = tuple(_feature(rule, each) for each in value)
    if len({each.name for each in found}) < len(found):
        raise PolicyError(f"{rule} lists different names of features; not {value!r}")
    return found


def _feature(rule: str, value: Any) -> Feature:
    if isinstance(value, Feature):
        value = {"name": value.name, "optional": value.optional}
    given = {"name": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not {"name"} <= set(given) <= {"name", "optional"}:
        raise PolicyError(
            f'{rule} lists names of features, as text or as {{name = "income", optional = true}}; not {value!r}'
        )
    name, optional = given["name"], given.get("optional", False)
    if not isinstance(name, str) or not isinstance(optional, bool):
        raise PolicyError(f"{rule}: the name of a feature is text, and optional is true or false; not {value!r}")
    return Feature(name, optional)


def _no_rule(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return "rules stand at the top of a file of their own, or under [tool.debias], in no further table"
    return f"rules are {', '.join(RULES)}.{nearest(name, RULES)}"


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:  # no TOML, or not in UTF-8; a path with a null byte
        raise PolicyError(f"the policy {path} cannot be read: {error}") from None
    table = content.get("tool", {})
    if not isinstance(table, dict) or "debias" not in table:
        if path.name == "pyproject.toml":
            raise PolicyError(f"{path} has no table [tool.debias] with rules.{_misplaced(content, table)}")
        return content
    _refuse_rules_beside(path, content)
    rules = table["debias"]
    if not isinstance(rules, dict):
        raise PolicyError(f"{path}: tool.debias is no table of rules")
    return cast("Mapping[str, Any]", rules)


def _refuse_rules_beside(path: Path, content: Mapping[str, Any]) -> None:
    """Refuse what stands beside [tool.debias] and would be ignored, though it may be meant as a rule."""
    for name, value in content.items():
        if name in _OF_PYPROJECT:
            continue
        if name in RULES or not isinstance(value, dict):
            raise PolicyError(
                f"{path} has a table [tool.debias], and {name!r} stands outside of it and would be ignored: "
                "move it below [tool.debias]"
            )
        if path.name != "pyproject.toml" or name == "debias":
            raise PolicyError(
                f"{path} has a table [tool.debias], and beside it a table [{name}], which would be ignored: "
                "move its rules below [tool.debias]"
            )


def _misplaced(content: Mapping[str, Any], tables: Any) -> str:
    """Return where rules of a pyproject.toml without our table seem to stand."""
    places = [name for name in content if name in RULES or name == "debias"]
    if places:
        return f" {places[0]!r} stands at the top: write it below [tool.debias]"
    near = [name for name in tables if "debias" in name.casefold()] if isinstance(tables, dict) else []
    return f" It has [tool.{near[0]}]" if near else ""
