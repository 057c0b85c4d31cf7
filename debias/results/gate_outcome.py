"""The outcome of a gate: the result of each rule, as JSON, CSV, JUnit XML, Markdown and GitHub annotations.

The rules about odd rows and about features that the model does not have are here too, because the gate of an audit and
that of a history both have them.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from debias.results.console import short_gate
from debias.results.feature_likeness import alike, like
from debias.results.tables import Table, for_markdown
from debias.results.vocabulary import GateStatus, Verdict, displayed
from debias.text import counted, escaped, few_digits, json_text, listed, percent, to_csv

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from debias.results.policy import Feature

EXIT_CODES = {GateStatus.PASSED: 0, GateStatus.FAILED: 1, GateStatus.NOT_JUDGED: 4}
"""The exit code of a command for each status of a gate."""
NAMED = 5
"""A reason names at most this many features or columns."""


@dataclass(frozen=True)
class Result:
    """The result of one rule.

    Parameters
    ----------
    rule : str
        Name of the rule, with the name of the feature if the rule is about one feature.
    status : {"passed", "failed", "not judged"}
    value, limit : str
        The value in the audit, and the limit of the policy. A verdict is the word that is stored.
    reason : str
        Explanation in a sentence.
    """

    rule: str
    status: GateStatus
    value: str
    limit: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", GateStatus(self.status))

    @classmethod
    def of(cls, rule: str, passed: bool, value: str, limit: str, reason: str) -> Result:
        """Return the result of a rule that passed or failed."""
        return cls(rule, GateStatus.PASSED if passed else GateStatus.FAILED, value, limit, reason)

    def unjudged(self, reason: str) -> Result:
        """Return the same result as not judged, for this reason."""
        return replace(self, status=GateStatus.NOT_JUDGED, reason=reason)


@dataclass(frozen=True)
class Change:
    """A feature whose rank or verdict differs from the baseline. Each pair is (baseline, audit).

    Parameters
    ----------
    feature : str
    rank : tuple of int or None
        None if that audit does not have the feature, as for the other pairs, or could not test it.
    share : tuple of float or None
        None in the same cases.
    verdict : tuple of str or None
    """

    feature: str
    rank: tuple[int | None, int | None]
    share: tuple[float | None, float | None]
    verdict: tuple[Verdict | None, Verdict | None]

    def in_words(self) -> str:
        """Return the values before and after in one line."""
        sides = [
            ("not in the model" if verdict is None else verdict.text)
            if rank is None
            else f"rank {rank}, {share:.1%}, {displayed(verdict)}"
            for rank, share, verdict in zip(self.rank, self.share, self.verdict, strict=True)
        ]
        return f"{self.feature}: {sides[0]} -> {sides[1]}"


@dataclass(frozen=True)
class Gate:
    """The outcome of a check.

    Parameters
    ----------
    results : tuple of Result
        One per rule, or one for each feature that a rule names.
    changes : tuple of Change
        Features whose rank or verdict differs from the baseline, with the largest change of share first.
    warnings : tuple of str
        What a reader must know about the audit and the policy, although it fails no rule.
    allowed : frozenset of str
        Names of rules that need not be judged: see :meth:`allowing`.
    checked : str
        What was checked, in a sentence: the rows, or the model and the windows of a history.
    command : str
        The command that makes such a check, for the titles of files.

    Notes
    -----
    A gate is true if it passed, so ``assert audit.check(policy)`` raises if a rule failed or was not judged.
    """

    results: tuple[Result, ...]
    changes: tuple[Change, ...] = ()
    warnings: tuple[str, ...] = ()
    allowed: frozenset[str] = frozenset()
    checked: str = ""
    command: str = "debias check"

    def __repr__(self) -> str:
        return short_gate(self)

    def allowing(self, *rules: str) -> Gate:
        """Return the gate that also passes if these rules are not judged. They must not fail.

        Parameters
        ----------
        *rules : str
            Names of rules, such as "must_not_fade", or one result of a rule, such as "must_not_fade: income".
        """
        return replace(self, allowed=self.allowed | set(rules))

    @property
    def status(self) -> GateStatus:
        """The outcome: "failed" if a rule failed, else "not judged" if a rule was not judged, else "passed".

        A gate without results is not judged. Rules that are allowed not to be judged do not count.
        """
        if self.failures:
            return GateStatus.FAILED
        return GateStatus.NOT_JUDGED if self.not_judged or not self.results else GateStatus.PASSED

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0 passed, 1 failed, 4 not judged."""
        return EXIT_CODES[self.status]

    @property
    def passed(self) -> bool:
        """Whether every rule passed. A rule that is not judged does not pass, unless this is allowed."""
        return self.status is GateStatus.PASSED

    def __bool__(self) -> bool:
        return self.passed

    @property
    def failures(self) -> tuple[Result, ...]:
        """The rules that failed."""
        return tuple(result for result in self.results if result.status is GateStatus.FAILED)

    @property
    def not_judged(self) -> tuple[Result, ...]:
        """The rules that could not be judged, without those for which this is allowed."""
        return tuple(result for result in self._unjudged if not self._allows(result))

    @property
    def allowed_not_judged(self) -> tuple[Result, ...]:
        """The rules that could not be judged and for which this is allowed."""
        return tuple(result for result in self._unjudged if self._allows(result))

    @property
    def _unjudged(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.status is GateStatus.NOT_JUDGED)

    def _allows(self, result: Result) -> bool:
        return not self.allowed.isdisjoint((result.rule, result.rule.split(":")[0]))

    def to_table(self, *, marks: bool = False) -> Table:
        """Return the table of the rules for a reader, if asked for with a mark before each result."""
        return Table.of_cells(
            {
                "rule": [each.rule for each in self.results],
                "result": [f"{each.status.display.mark} " * marks + each.status.text for each in self.results],
                "value": [displayed(each.value) for each in self.results],
                "limit": [displayed(each.limit) for each in self.results],
                "reason": [each.reason for each in self.results],
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain Python values."""
        return {
            "passed": self.passed,
            "status": self.status,
            "exit_code": self.exit_code,
            "checked": self.checked,
            "allowed_not_judged": sorted(self.allowed),
            "results": [asdict(result) for result in self.results],
            "changes": [
                {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(change).items()}
                for change in self.changes
            ],
            "warnings": list(self.warnings),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return the outcome as JSON."""
        return json_text(self.to_dict(), indent=indent, allow_nan=False)

    def to_csv(self) -> str:
        """Return the results as CSV, one line per rule. A spreadsheet runs nothing in it."""
        import pandas as pd

        return to_csv(pd.DataFrame([asdict(result) for result in self.results], dtype=object), index=False)

    def to_junit(self) -> str:
        """Return the outcome as JUnit XML, one test case per rule. Warnings are the error output of the suite.

        A rule that failed is a failure. A rule that is not judged is an error, or is skipped if this is allowed.
        """
        kinds = {"failure": self.failures, "error": self.not_judged, "skipped": self.allowed_not_judged}
        totals = {"tests": str(len(self.results)), "failures": str(len(self.failures))}
        totals["errors"] = str(len(self.not_judged))
        root = ElementTree.Element("testsuites", totals)
        n_skipped = str(len(self.allowed_not_judged))
        suite = ElementTree.SubElement(root, "testsuite", totals, name=self.command, skipped=n_skipped)
        for result in self.results:
            case = ElementTree.SubElement(
                suite, "testcase", classname=_class_of(self.command), name=_for_xml(result.rule)
            )
            for kind, those in kinds.items():
                if result in those:
                    ElementTree.SubElement(case, kind, message=_for_xml(_in_line(result)))
        if self.warnings:
            ElementTree.SubElement(suite, "system-err").text = _for_xml("\n".join(self.warnings))
        return _in_full(root)

    def to_markdown(self) -> str:
        """Return the outcome as Markdown, for the summary of a GitHub job."""
        failed, not_judged = GateStatus.FAILED.text, GateStatus.NOT_JUDGED.text
        counts = [
            f"{counted(len(those), 'rule')} {what}"
            for those, what in (
                (self.failures, failed),
                (self.not_judged, not_judged),
                (self.allowed_not_judged, f"{not_judged}, which is allowed"),
            )
            if those
        ]
        title = f"{self.status.text} ({', '.join(counts)})" if counts else self.status.text
        checked = [f"Checked: {for_markdown(self.checked)}", ""] if self.checked else []
        lines = [f"## {self.command}: {title}", "", *checked, *self.to_table(marks=True).to_markdown()]
        if self.warnings:
            lines += ["", "Warnings:", "", *(f"- {for_markdown(text)}" for text in self.warnings)]
        if self.changes:
            lines += ["", "Changes from the baseline:", ""]
            lines += [f"- {for_markdown(change.in_words())}" for change in self.changes]
        return "\n".join(lines) + "\n"

    def to_annotations(self) -> list[str]:
        """Return GitHub workflow commands: an error for each rule that failed, a warning for each not judged, warnings.

        No name can end a command or begin another.
        """
        errors = [f"::error title={self.command}::{_for_command(_in_line(result))}" for result in self.failures]
        warnings = [*map(_in_line, (*self.not_judged, *self.allowed_not_judged)), *self.warnings]
        return errors + [f"::warning title={self.command}::{_for_command(text)}" for text in warnings]


def result_of_unseen(
    shares: Mapping[str, float] | None, limit: float, which: str, not_counted: str, uncounted: Sequence[str] = ()
) -> Result:
    """Return the result of ``max_unseen``.

    Parameters
    ----------
    shares : mapping of str to float, or None
        Share of the rows with a category that the model never saw, by column; None if they were not counted.
    limit : float
    which : str
        What the rows are called.
    not_counted : str
        The reason if they were not counted.
    uncounted : sequence of str
        Columns whose categories cannot be counted: the rule is not judged if no other column breaks it.
    """
    rule, allowed = "max_unseen", f"<= {limit:g}"
    if shares is None:
        return Result(
            rule, GateStatus.NOT_JUDGED, "none", allowed, f"categories that the model never saw {not_counted}"
        )
    found = sorted(((share, name) for name, share in shares.items() if share > 0), key=lambda each: -each[0])
    reason = "no category was found that the model never saw"
    if found:
        named = listed([f"{escaped(name)} {percent(share)}" for share, name in found], NAMED)
        reason = f"{which} with a category that the model never saw: {named}"
    largest = found[0][0] if found else 0.0
    result = Result.of(rule, largest <= limit, few_digits(largest), allowed, reason)
    if uncounted and result.status is GateStatus.PASSED:
        names = listed([*map(escaped, uncounted)], NAMED)
        return result.unjudged(f"{reason}; steps before the trees do not tell which categories they know of {names}")
    return result


def result_of_repeated(share: float | None, limit: float, which: str, not_counted: str, known: str = "") -> Result:
    """Return the result of ``max_repeated``; `known` says what is known of earlier rows."""
    rule, allowed = "max_repeated", f"<= {limit:g}"
    if share is None:
        return Result(rule, GateStatus.NOT_JUDGED, "none", allowed, f"rows that repeat another row {not_counted}")
    reason = f"{percent(share)} of {which}{known}"
    return Result.of(rule, share <= limit, few_digits(share), allowed, reason)


def but_it_has(absent: str, names: Sequence[str]) -> str:
    """Return which of these names are like one that is not among them, to follow a sentence; "" if none is."""
    near = [repr(other) for other in like(absent, names)]
    return f", but it has {listed(near, NAMED)}" if near else ""


def result_of_absent(rule: str, feature: Feature, names: Sequence[str], wanted: str) -> Result:
    """Return the result of a rule that names a feature which the model, with features of these names, does not have."""
    reason = f"the model has no such feature{but_it_has(feature.name, names)}"
    if not feature.optional:
        reason += "; to accept a model without it, write {name = ..., optional = true}"
    return Result.of(rule, feature.optional, "not in the model", wanted, reason)


def warnings_of_absent(rule: str, features: Iterable[Feature], names: Sequence[str]) -> Iterator[str]:
    """Yield warnings of optional features that the model does not have, if it has features of similar names."""
    for feature in features:
        if feature.optional and feature.name not in names and (near := alike(feature.name, names)):
            yield (
                f"{rule}: the model has no feature {feature.name!r}, which is optional, but it has "
                f"{listed([repr(name) for name in near], NAMED)}: is that the same feature?"
            )


def junit_of_error(text: str, command: str) -> str:
    """Return JUnit XML for a check that could not run, or did not finish: one test case with an error."""
    totals, command = {"tests": "1", "failures": "0", "errors": "1"}, _for_xml(command)  # it may be mistyped
    root = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(root, "testsuite", totals, name=command, skipped="0")
    case = ElementTree.SubElement(suite, "testcase", classname=_class_of(command), name=command)
    ElementTree.SubElement(case, "error", message=_for_xml(text))
    return _in_full(root)


def _class_of(command: str) -> str:
    return command.replace(" ", ".")


def _in_line(result: Result) -> str:
    value, limit = displayed(result.value), displayed(result.limit)
    return escaped(f"{result.rule} {result.status.text}: {value}, required {limit}; {result.reason}")


def _in_full(root: ElementTree.Element) -> str:
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _for_command(text: str) -> str:
    return escaped(text, keep="\n").replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _for_xml(text: str) -> str:
    return re.sub("[^\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", escaped(text, keep="\n"))
