"""`debias check`: check an audit against a policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from debias.cli.gate import errors_in, exit_unless_passed, report, with_allowed, with_files_of_gate
from debias.cli.options import Command, error_rate_option, input_options, permutations_option
from debias.cli.output import check_files, errors, warn
from debias.progress import show_progress
from debias.results.policy import RULES

if TYPE_CHECKING:
    from debias.cli.inputs import Source


@click.command(
    "check",
    cls=Command,
    examples=[
        "debias check model.ubj heldout.csv --target outcome --policy debias.toml \\\n    --baseline old.json",
    ],
)
@input_options()
@click.option(
    "--policy",
    default="pyproject.toml",
    type=click.Path(exists=True, dir_okay=False),
    show_default=True,
    help="TOML file with rules, at its top or under [tool.debias].",
)
@click.option("--baseline", type=click.Path(exists=True, dir_okay=False), help="JSON of the audit of the old model.")
@error_rate_option
@permutations_option
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, writable=True), help="Write the audit to this file."
)
@click.option(
    "--html", "html_file", type=click.Path(dir_okay=False, writable=True), help="Write a report to this file."
)
@with_files_of_gate
@with_allowed(RULES)
def command(
    source: Source,
    form: str,
    policy: str,
    baseline: str | None,
    error_rate: float,
    permutations: int | None,
    json_file: str | None,
    html_file: str | None,
    junit: str | None,
    summary: str | None,
    allowed: tuple[str, ...],
) -> None:
    """Audit a MODEL on DATA and check the audit against a policy; exit with 0 only if all rules passed.

    Exit codes: 0 all rules passed, 1 a rule failed, 4 no rule failed but one could not be judged, 2 wrong usage or
    policy, 3 an error while loading or running.
    """
    read = source.files | {"--policy": policy, "--baseline": baseline}
    check_files(read, {"--json": json_file, "--html": html_file, "--junit": junit, "--summary": summary})
    with errors(), errors_in(junit):
        import debias
        from debias.results.policy import Policy

        rules = Policy.of(policy)  # before the audit, which takes longer
        old = None if baseline is None else debias.Audit.from_json(Path(baseline))
        if rules.needs_baseline and old is None:
            raise click.UsageError(
                f"{' and '.join(rules.needs_baseline)} in {policy} need a baseline: pass --baseline AUDIT.json"
            )
        with show_progress(source.progress):
            model, rows, options = source.read()
            test: Any = "auto" if permutations is None else debias.Permutation(permutations)
            result = debias.audit(model, rows, test=test, error_rate=error_rate, **options)
        warn(result.warnings)
        gate = result.check(rules, old).allowing(*allowed)
        warn(tuple(text for text in gate.warnings if text not in result.warnings))
        if json_file:
            result.to_json(json_file)
        if html_file:
            result.to_html(html_file)
        report(gate, source.model, form, junit, summary)
    exit_unless_passed(gate)
