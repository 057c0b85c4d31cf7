"""The policy: rules for an audit, for a history or for two models, in TOML or as a mapping.

Over 500 lines, because every rule is described here, and its value is checked here.
"""

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
    "rows proven": ("rows proven, y unproven", "rows proven, y plausible", "proven held-out"),
    "proven": ("proven",),
}
"""Levels of what is known about the rows, the weakest first, and the statuses of an audit they cover."""
SMALLEST_SHIFT = 0.1
"""Smallest effect size of a shift of rows that is reported. Smaller ones are real in large samples, but change little.
"""


@dataclass(frozen=True)
class Feature:
    """A feature that a rule names. Unless it is `optional`, a model without it fails the rule."""

    name: str
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Rules for an audit. A rule that is None is not checked.

    Parameters
    ----------
    max_unsupported_share : float
        Largest share of the reported importance that may belong to features that are not confirmed alone. This
        share depends on the number of rows, so set `min_rows` too.
    min_rows : int
        Smallest number of evaluation rows. With fewer rows this rule fails, and rules that depend on the number of
        rows are not judged.
    must_be_informative : list of str, Feature or mapping
        Features that must be informative. A name that the model does not have fails, unless it is written as
        ``{"name": "income", "optional": True}``. Stored as a tuple of `Feature`.
    must_not_matter : list of str, Feature or mapping
        Features that must not be informative: identifiers, leaks, and features that must not be used. Names as above.
    rest_must_not_matter : True
        The features that are not confirmed alone must not carry information together, as one group (``audit.rest``).
    min_informative : int
        Smallest number of informative features.
    max_inflation : float
        Largest amount by which the reported share of a feature may exceed the same figure on these rows. Not judged if
        the library reports a figure that cannot be computed on other rows, or if more than this may be chance.
    max_verdict_changes : int
        Largest number of features, among those that both models have, that may be informative in one audit and
        not in the other.
    max_rank_change : int
        Largest number of ranks by which a feature may rise or fall from the baseline. All features that are
        not confirmed alone have the rank after the last informative one.
    max_share_change : float
        Largest difference between the debiased share of a feature and its share in the baseline.
    min_provenance : {"stated", "unknown", "checked", "rows proven", "proven"}
        What must be known about the rows. "checked": held-out rows that do not look like training rows, which is the
        highest level for held-out rows; "rows proven": also the test rows of a fold, if it is proven that the model
        was trained on the others; "proven": training rows scored out of bag. Without this rule, rows fail if
        they look like training rows and only the user says that they are held out; "stated" accepts them. They fail
        too if a part of them are training rows by the leaf counts (p < .01); "unknown" accepts them.
    max_shift : float
        Largest difference between these rows and the training rows at the splits on any one feature. It is an effect
        size from 0 (no difference beyond chance) to 2; 0.1 is small, 0.3 is medium, 0.5 is large.
    max_unseen : float
        Largest share of the rows that may have a category that the model never saw, in any one column.
    max_repeated : float
        Largest share of the rows that may repeat another row in all features, the response and the weight, as after a
        join that found several partners.
    must_predict : True or float
        True: the model must predict these rows better than the best constant does, beyond chance. A number: its skill
        (:class:`debias.results.performance.Performance`), which for numbers is R2, must also be at least this.
    may_drop : list of str, Feature or mapping
        Features that were dropped, or are to be: a model refitted without all of them must be certified. Only
        :func:`debias.droppable` can tell, so :meth:`debias.Droppable.check` checks it, and for an audit it is not
        judged.

    Raises
    ------
    PolicyError
        A value has the wrong type or is out of range, or there is no rule.
    """

    max_unsupported_share: float | None = None
    min_rows: int | None = None
    must_be_informative: tuple[Feature, ...] | None = None
    must_not_matter: tuple[Feature, ...] | None = None
    rest_must_not_matter: bool | None = None
    min_informative: int | None = None
    max_inflation: float | None = None
    max_verdict_changes: int | None = None
    max_rank_change: int | None = None
    max_share_change: float | None = None
    min_provenance: str | None = None
    max_shift: float | None = None
    max_unseen: float | None = None
    max_repeated: float | None = None
    must_predict: bool | float | None = None
    may_drop: tuple[Feature, ...] | None = None

    def __post_init__(self) -> None:
        for name, value in _limits(self, RULES).items():
            kind = _KINDS[name]
            if kind == "names":
                object.__setattr__(self, name, _features(name, value))
            elif kind == "share":
                _refuse_no_share(name, value)
            elif kind == "effect":
                _refuse_no_effect(name, value)
            elif kind == "count":
                _refuse_no_count(name, value)
            elif kind == "yes":
                if value is not True:
                    raise PolicyError(f"{name} must be true, or left out, not {value!r}")
            elif kind == "skill":
                if value is not True and (
                    isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1
                ):
                    raise PolicyError(
                        f"{name} must be true, or the smallest skill, a number between 0 and 1, not {value!r}; without "
                        "this rule nothing is required"
                    )
            elif not isinstance(value, str) or value not in PROVENANCE:
                hint = nearest(str(value), PROVENANCE)
                raise PolicyError(f"{name} must be one of {', '.join(map(repr, PROVENANCE))}, not {value!r}.{hint}")

    @property
    def needs_baseline(self) -> tuple[str, ...]:
        """Rules that compare with another audit."""
        return tuple(name for name in _COMPARING if getattr(self, name) is not None)

    @classmethod
    def of(cls, policy: Policy | Mapping[str, Any] | str | Path) -> Policy:
        """Return a policy from a mapping of rules or the path of a TOML file; a Policy is returned unchanged.

        The rules of a file are in its table ``[tool.debias]``. A file without this table, other than
        ``pyproject.toml``, has the rules at its top. The tables ``history`` and ``models`` among them have the rules
        for a history (:class:`HistoryPolicy`) and for two models (:class:`ModelsPolicy`), which are left out here.

        Raises
        ------
        PolicyError
            The file is not TOML, has no such table, or has rules outside of it; or a rule does not exist, and then
            the message names the nearest rule.
        """
        if isinstance(policy, Policy):
            return policy
        rules, where = _rules_of(policy)
        of_audit = {name: value for name, value in rules.items() if name not in TABLES}
        if not of_audit:
            for table, (_, kind, how) in TABLES.items():
                if table in rules:
                    raise PolicyError(f"{where} has rules for {kind} only: check those with {how}")
        _refuse_unknown(of_audit, RULES, where)
        try:
            return cls(**of_audit)
        except PolicyError as error:
            raise PolicyError(f"{where}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class HistoryPolicy:
    """Rules for what changed in a history. A rule that is None is not checked.

    Parameters
    ----------
    must_not_fade : "all", or list of str, Feature or mapping
        Features whose score must not become weaker. "all": every feature that was distinguishable from noise in the
        reference window. A name that the model does not have fails, unless it is written as
        ``{"name": "income", "optional": True}``.
    pairs_must_not_fade : "all", or list of lists of two str
        Pairs of features to which, together, the response must not become weaker. They are among `interactions` of the
        history. "all": each of these that was distinguishable from noise in the reference window.
    must_not_shift : "all", or list of str, Feature or mapping
        Features whose splits must divide the rows of both windows in the same way.
    max_shift : float
        Largest difference between the rows of the two windows at the splits on any one feature. It is an effect size
        from 0 to 2; 0.1 is small, 0.3 is medium, 0.5 is large.
    min_periods, min_reference_periods : int
        Smallest number of periods in the recent window, and in the reference window.
    min_rows : int
        Smallest number of rows in the recent window. With fewer rows or periods these rules fail, and other rules that
        would pass are not judged.
    max_unseen : float
        Largest share of the rows of the recent window that may have a category that the model never saw, in any one
        column.
    max_repeated : float
        Largest share of the rows of the recent window that may repeat another row of the same period in all features,
        the response and the weight, as after a join that found several partners.
    must_not_be_biased : bool
        Whether the mean residual of the recent periods must be that of the reference, within chance. A residual is the
        response minus the prediction.
    max_loss_increase : float
        Largest increase of the mean loss from the reference to the recent window, in the unit of the loss, which
        ``Changes.loss`` names. A larger one fails if it is larger by more than chance.
    max_age_days : float
        Largest age of the last period in days, so that a job that no longer adds periods is noticed. The age counts
        from the time of the period, which for a date is its midnight. Times without a zone are local times.
    reference : int or str
        No rule, but the periods to compare with, as for ``History.changes``: "first 30d", "2026-01-01..2026-01-30".

    Raises
    ------
    PolicyError
        A value has the wrong type or is out of range, or there is no rule.
    """

    must_not_fade: str | tuple[Feature, ...] | None = None
    pairs_must_not_fade: str | tuple[tuple[str, str], ...] | None = None
    must_not_shift: str | tuple[Feature, ...] | None = None
    max_shift: float | None = None
    min_periods: int | None = None
    min_reference_periods: int | None = None
    min_rows: int | None = None
    max_unseen: float | None = None
    max_repeated: float | None = None
    must_not_be_biased: bool | None = None
    max_loss_increase: float | None = None
    max_age_days: float | None = None
    reference: int | str | None = None

    def __post_init__(self) -> None:
        limits = _limits(self, RULES_OF_HISTORY)
        for name in ("must_not_fade", "must_not_shift"):
            if name in limits and limits[name] != ALL:
                object.__setattr__(self, name, _features(name, limits[name]))
        if self.pairs_must_not_fade not in (None, ALL):
            object.__setattr__(self, "pairs_must_not_fade", _pairs("pairs_must_not_fade", self.pairs_must_not_fade))
        if self.max_shift is not None:
            _refuse_no_effect("max_shift", self.max_shift)
        for name in ("max_unseen", "max_repeated"):
            if name in limits:
                _refuse_no_share(name, limits[name])
        if self.must_not_be_biased not in (None, True):
            raise PolicyError(f"must_not_be_biased must be true, or left out, not {self.must_not_be_biased!r}")
        if self.max_loss_increase is not None:
            _refuse_no_rise(self.max_loss_increase)
        given = self.reference
        if given is not None and (isinstance(given, bool) or not isinstance(given, (int, str)) or not given):
            raise PolicyError(f"reference must be periods, such as 'first 30d', not {given!r}")
        for name in ("min_periods", "min_reference_periods", "min_rows"):
            if name in limits:
                _refuse_no_count(name, limits[name])
        age = self.max_age_days
        if age is not None and (isinstance(age, bool) or not isinstance(age, (int, float)) or not 0 < age <= LARGEST):
            raise PolicyError(
                f"max_age_days must be a number of days above 0, up to {LARGEST:,}, not {_shortened(age)}"
            )

    def reference_or(self, given: Any) -> Any:
        """Return the periods to compare with: those given, or else those of the policy.

        Raises
        ------
        PolicyError
            Both are there and differ.
        """
        if given is not None and self.reference is not None and str(given) != str(self.reference):
            raise PolicyError(
                f"the policy compares with reference = {self.reference!r}, and reference={given!r} was passed: leave "
                "one of them out"
            )
        return self.reference if given is None else given

    @classmethod
    def of(cls, policy: HistoryPolicy | Mapping[str, Any] | str | Path) -> HistoryPolicy:
        """Return a policy from a mapping of rules or the path of a TOML file; a HistoryPolicy is returned unchanged.

        The rules are in the table ``history`` of the file or mapping, beside those for an audit. Without this table,
        all rules must be for a history.

        Raises
        ------
        PolicyError
            As for :meth:`Policy.of`.
        """
        if isinstance(policy, HistoryPolicy):
            return policy
        rules, where = _rules_of_table(policy, HISTORY)
        try:
            return cls(**rules)
        except PolicyError as error:
            raise PolicyError(f"{where}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class ModelsPolicy:
    """Rules for the losses of a new and an old model on the same rows. A rule that is None is not checked.

    Parameters
    ----------
    max_loss_increase : float
        Largest amount by which the mean loss of the model may be above that of the baseline, in the unit of the loss,
        which ``ModelComparison.metric`` names. A larger one fails if it is larger by more than chance.
    must_not_save_less : "all", or list of str, Feature or mapping
        Features by which the model must not save less loss than the baseline, beyond chance. A name that neither model
        has fails, unless it is written as ``{"name": "income", "optional": True}``.
    min_rows : int
        Smallest number of rows. With fewer rows this rule fails, and other rules that would pass are not judged.

    Raises
    ------
    PolicyError
        A value has the wrong type or is out of range, or there is no rule.
    """

    max_loss_increase: float | None = None
    must_not_save_less: str | tuple[Feature, ...] | None = None
    min_rows: int | None = None

    def __post_init__(self) -> None:
        limits = _limits(self, RULES_OF_MODELS)
        if self.max_loss_increase is not None:
            _refuse_no_rise(self.max_loss_increase)
        if limits.get("must_not_save_less", ALL) != ALL:
            features = _features("must_not_save_less", limits["must_not_save_less"])
            object.__setattr__(self, "must_not_save_less", features)
        if self.min_rows is not None:
            _refuse_no_count("min_rows", self.min_rows)

    @classmethod
    def of(cls, policy: ModelsPolicy | Mapping[str, Any] | str | Path) -> ModelsPolicy:
        """Return a policy from a mapping of rules or the path of a TOML file; a ModelsPolicy is returned unchanged.

        The rules are in the table ``models`` of the file or mapping, beside those for an audit. Without this table, all
        rules must be for two models.

        Raises
        ------
        PolicyError
            As for :meth:`Policy.of`.
        """
        if isinstance(policy, ModelsPolicy):
            return policy
        rules, where = _rules_of_table(policy, MODELS)
        try:
            return cls(**rules)
        except PolicyError as error:
            raise PolicyError(f"{where}: {error}") from None


_COMPARING = ("max_verdict_changes", "max_rank_change", "max_share_change")
RULES = tuple(field.name for field in fields(Policy))
RULES_OF_HISTORY = tuple(field.name for field in fields(HistoryPolicy))
RULES_OF_MODELS = tuple(field.name for field in fields(ModelsPolicy))
LARGEST = 10**9
"""Largest number of rows, periods, days, ranks or verdicts in a rule; larger ones are mistakes."""
HISTORY, MODELS, ALL = "history", "models", "all"
"""The tables with the rules for a history and for two models, and what stands for all features in them."""
TABLES = {
    HISTORY: (RULES_OF_HISTORY, "a history", "debias monitor check"),
    MODELS: (RULES_OF_MODELS, "two models", "debias compare"),
}
"""The rules of each table, what they are for, and the command that reads them."""
_KINDS = dict.fromkeys(
    ("max_unsupported_share", "max_inflation", "max_share_change", "max_unseen", "max_repeated"), "share"
)
_KINDS |= dict.fromkeys(("min_rows", "min_informative", "max_verdict_changes", "max_rank_change"), "count")
_KINDS |= {"must_be_informative": "names", "must_not_matter": "names", "min_provenance": "level", "max_shift": "effect"}
_KINDS |= {"must_predict": "skill", "rest_must_not_matter": "yes", "may_drop": "names"}
_OF_PYPROJECT = ("project", "build-system", "dependency-groups", "tool")
"""Tables of a pyproject.toml. They may also be in a file of another name."""


def _features(rule: str, value: Any) -> tuple[Feature, ...]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, (list, tuple)) or not value:
        raise PolicyError(f"{rule} must be a list of feature names, not {value!r}")
    features = tuple(_feature(rule, name) for name in value)
    if len({feature.name for feature in features}) < len(features):
        raise PolicyError(f"{rule} must not list a feature name twice: {value!r}")
    return features


def _pairs(rule: str, value: Any) -> tuple[tuple[str, str], ...]:
    given = list(value) if isinstance(value, list | tuple) else []
    pairs = [tuple(each) for each in given if isinstance(each, list | tuple)]
    are_pairs = all(len({*pair}) == 2 == len(pair) and all(isinstance(name, str) for name in pair) for pair in pairs)
    if not pairs or len(pairs) < len(given) or not are_pairs:
        raise PolicyError(f'{rule} must be a list of pairs of two features, such as [["age", "income"]], not {value!r}')
    if len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise PolicyError(f"{rule} must not list a pair twice: {value!r}")
    return tuple((one, other) for one, other in pairs)


def _feature(rule: str, value: Any) -> Feature:
    if isinstance(value, Feature):
        value = {"name": value.name, "optional": value.optional}
    entry = {"name": value} if isinstance(value, str) else value
    if not isinstance(entry, Mapping) or not {"name"} <= set(entry) <= {"name", "optional"}:
        raise PolicyError(
            f'{rule} must list feature names, as text or as {{name = "income", optional = true}}, not {value!r}'
        )
    name, optional = entry["name"], entry.get("optional", False)
    if not isinstance(name, str) or not isinstance(optional, bool):
        raise PolicyError(f"{rule}: name must be text, and optional must be true or false, not {value!r}")
    return Feature(name, optional)


def _rules_of(policy: Any) -> tuple[Mapping[str, Any], str]:
    """Return the rules in a mapping or a file, and what messages call it."""
    if not isinstance(policy, (Mapping, str, os.PathLike)):
        raise PolicyError(f"a policy must be a Policy, a mapping of rules or the path of a TOML file, not {policy!r}")
    return (policy, "the policy") if isinstance(policy, Mapping) else (_read(Path(policy)), str(policy))


def _rules_of_table(policy: Any, table: str) -> tuple[Mapping[str, Any], str]:
    """Return the rules in a table of a policy, or all rules if it has no such table, and what messages call them."""
    rules, where = _rules_of(policy)
    known = TABLES[table][0]
    if table in rules:
        for name in rules:
            if name in known and name not in RULES:
                raise PolicyError(
                    f"{where} has a table {table!r}, but {name!r} is outside of it and would be ignored: move it into "
                    "that table"
                )
        rules, where = rules[table], f"{where}, table {table}"
        if not isinstance(rules, Mapping):
            raise PolicyError(f"{where}: {table} is not a table of rules")
    elif any(other in rules for other in TABLES):
        raise PolicyError(f"{where} has no table {table!r} with rules for {TABLES[table][1]}")
    _refuse_unknown(rules, known, where)
    return rules, where


def _refuse_unknown(rules: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name, value in rules.items():
        if name not in known:
            raise PolicyError(f"{where} has no rule {name!r}; {_no_rule(str(name), value, known)}")
        if value is None:
            raise PolicyError(f"{where}: {name} is None; set a limit or remove the rule")


def _no_rule(name: str, value: Any, known: tuple[str, ...]) -> str:
    """Return what to do about a rule that does not exist, or that belongs elsewhere."""
    for table, (rules, kind, how) in TABLES.items():
        if known != rules and name in rules:
            return f"that rule is for {kind}: put it in the table {table!r}, which {how} reads"
        if known == rules and name in RULES:
            return f"that rule is for an audit, which debias check reads: put rules for {kind} in the table {table!r}"
    if isinstance(value, Mapping):
        return "put rules at the top of the file or in the table [tool.debias], not in another table"
    return f"rules are {', '.join(known)}.{nearest(name, known)}"


def _limits(policy: Policy | HistoryPolicy | ModelsPolicy, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the rules that are set; raise a PolicyError if there are none."""
    limits = {name: getattr(policy, name) for name in known if getattr(policy, name) is not None}
    if not limits.keys() - {"reference"}:
        raise PolicyError(f"a policy without rules would pass everything; rules are {', '.join(known)}")
    return limits


def _refuse_no_effect(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 2:
        raise PolicyError(f"{name} must be an effect size from 0 to 2 (0.5 is large), not {value!r}")


def _refuse_no_rise(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST:
        raise PolicyError(
            f"max_loss_increase must be a number of 0 or more, in the unit of the loss, not {_shortened(value)}"
        )


def _refuse_no_share(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise PolicyError(f"{name} must be a share from 0 to 1, not {value!r}")


def _refuse_no_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise PolicyError(f"{name} must be a whole number from 0 to {LARGEST:,}, not {_shortened(value)}")


def _shortened(value: Any) -> str:
    """Return a value for a message; a number may have thousands of digits."""
    text = f"a number of {value.bit_length():,} bits" if isinstance(value, int) and abs(value) > 10**20 else repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a path with a null byte
        raise PolicyError(f"the policy {path} cannot be read: {error}") from None
    table = content.get("tool", {})
    if not isinstance(table, dict) or "debias" not in table:
        if path.name == "pyproject.toml":
            raise PolicyError(f"{path} has no table [tool.debias] with rules.{_misplaced(content, table)}")
        return content
    _refuse_rules_outside(path, content)
    rules = table["debias"]
    if not isinstance(rules, dict):
        raise PolicyError(f"{path}: tool.debias is not a table of rules")
    return cast("Mapping[str, Any]", rules)


def _refuse_rules_outside(path: Path, content: Mapping[str, Any]) -> None:
    """Refuse entries outside of [tool.debias] that may be meant as rules but would be ignored."""
    for name, value in content.items():
        if name in _OF_PYPROJECT:
            continue
        if name in (*RULES, *RULES_OF_HISTORY, *RULES_OF_MODELS) or not isinstance(value, dict):
            raise PolicyError(
                f"{path} has a table [tool.debias], but {name!r} is outside of it and would be ignored: "
                "move it below [tool.debias]"
            )
        if path.name != "pyproject.toml" or name == "debias":
            raise PolicyError(
                f"{path} has a table [tool.debias] and a table [{name}], which would be ignored: "
                "move its rules below [tool.debias]"
            )


def _misplaced(content: Mapping[str, Any], tables: Any) -> str:
    """Return where a pyproject.toml without our table seems to have its rules."""
    places = [name for name in content if name in (*RULES, *RULES_OF_HISTORY, *RULES_OF_MODELS, "debias")]
    if places:
        return f" {places[0]!r} is at the top: move it below [tool.debias]"
    near = [name for name in tables if "debias" in name.casefold()] if isinstance(tables, dict) else []
    return f" It has [tool.{near[0]}]" if near else ""
