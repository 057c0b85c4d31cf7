"""`debias compare`: how the loss of a model differs from that of an older one, and by which features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from debias.cli.gate import errors_in, exit_unless_passed, report, with_allowed, with_files_of_gate
from debias.cli.options import MODEL, Command, html_option, input_options
from debias.cli.output import check_files, errors, terminal, warn
from debias.progress import show_progress
from debias.results.policy import RULES_OF_MODELS

if TYPE_CHECKING:
    from debias.cli.inputs import Source


@click.command(
    "compare",
    cls=Command,
    examples=[
        "debias compare new.ubj heldout.csv --target outcome --baseline old.ubj --html new.html",
        "debias compare new.ubj heldout.csv --target outcome --baseline old.ubj --policy debias.toml",
    ],
    refused={name: f"two models are compared without --{name}: leave it out" for name in ("groups", "train", "qid")},
)
@input_options()
@click.option("--baseline", type=MODEL, required=True, help="The older model, to compare with.")
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False),
    help="TOML file with rules in its table models, or under [tool.debias.models]. The gate is printed then.",
)
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, writable=True), help="Write the comparison to this file."
)
@html_option
@with_files_of_gate
@with_allowed(RULES_OF_MODELS)
def command(
    source: Source,
    form: str,
    baseline: str,
    policy: str | None,
    json_file: str | None,
    html_file: str | None,
    junit: str | None,
    summary: str | None,
    allowed: tuple[str, ...],
) -> None:
    """Compare the loss of MODEL with that of an older one on DATA, rows that neither has seen.

    The difference is divided into a base and each feature. Each model takes the columns that it knows.

    Exit codes with --policy: 0 all rules passed, 1 a rule failed, 4 no rule failed but one could not be judged. In any
    case: 2 wrong usage or policy, 3 an error while loading or running.
    """
    read = source.files | {"--baseline": baseline, "--policy": policy}
    check_files(read, {"--json": json_file, "--html": html_file, "--junit": junit, "--summary": summary})
    if policy is None and (junit or allowed):
        raise click.UsageError("--junit and --allow-not-judged are about rules: give --policy, or leave them out")
    with errors(), errors_in(junit):
        import debias
        from debias.results.console import print_models
        from debias.results.policy import ModelsPolicy

        rules = None if policy is None else ModelsPolicy.of(policy)  # before the work, which takes longer
        with show_progress(source.progress):
            model, old, rows, options = source.read_with(baseline)
            found = debias.compare(model, rows, baseline=old, **options)
        warn(found.warnings)
        if json_file:
            found.to_json(json_file)
        if html_file:
            found.to_html(html_file)
        if rules is not None:
            gate = found.check(rules).allowing(*allowed)
            warn(tuple(text for text in gate.warnings if text not in found.warnings))
            report(gate, source.model, form, junit, summary)
        elif form == "table":
            print_models(terminal(), found)
        else:
            click.echo(found.to_json() if form == "json" else found.to_csv(), nl=form == "json")
    if rules is not None:
        exit_unless_passed(gate)
