"""`debias drop`: which features may be dropped together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from debias.cli.gate import errors_in, exit_unless_passed, report, with_allowed, with_files_of_gate
from debias.cli.options import Command, html_option, input_options
from debias.cli.output import check_files, errors, terminal, warn
from debias.progress import show_progress

if TYPE_CHECKING:
    from debias.cli.inputs import Source
    from debias.data.user_rows import Dataset
    from debias.results.policy import Policy


@click.command(
    "drop",
    cls=Command,
    examples=[
        "debias drop model.ubj heldout.csv --target outcome --train train.csv --params params.json",
        "debias drop model.skops heldout.csv --target outcome --train train.csv \\\n    --feature age --feature zip",
    ],
    refused={"level": "columns of DATA are dropped: leave --level out"},
)
@input_options()
@click.option(
    "--tolerance",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 1, True, True),
    help="Largest share of the gain over a constant that the smaller model may lose.",
)
@click.option(
    "--alpha",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 1, True, True),
    help="Probability of a wrong certificate.",
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="COLUMN",
    help="Try the one set of these features, instead of searching; can be repeated.",
)
@click.option("--refit-path", is_flag=True, help="Train the models that give the order again at each size.")
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False),
    help="TOML file with the rule may_drop: try the one set that it names, and exit with 0 only if it is certified.",
)
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, writable=True), help="Also write JSON to this file."
)
@click.option(
    "--model-out",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Write the certified model to this file: .skops, .ubj, .json, .txt, .cbm or .joblib.",
)
@html_option
@with_files_of_gate
@with_allowed(("may_drop",))
def command(
    source: Source,
    form: str,
    tolerance: float,
    alpha: float,
    features: tuple[str, ...],
    refit_path: bool,
    policy: str | None,
    json_file: str | None,
    model_out: str | None,
    html_file: str | None,
    junit: str | None,
    summary: str | None,
    allowed: tuple[str, ...],
) -> None:
    """Tell which features of MODEL may be dropped together; DATA are rows that nothing has used before.

    The model is trained again without sets of features, on the rows of --train, and its loss on DATA is compared with
    that of MODEL. --model-out writes the certified model without the features, if there is one.

    Exit codes: 0 done; with --policy 0 certified, 1 do not drop together, 4 undecided; 2 wrong usage or policy, 3 an
    error while loading or running.
    """
    outputs = {
        "--json": json_file,
        "--model-out": model_out,
        "--html": html_file,
        "--junit": junit,
        "--summary": summary,
    }
    check_files(source.files | {"--policy": policy}, outputs)
    with errors(), errors_in(junit):
        import debias
        from debias.models.saving import refuse_unsaveable, save_model
        from debias.results.console import print_droppable
        from debias.results.policy import Policy

        _refuse_unusable(source, features, policy)
        rules = None if policy is None else Policy.of(policy)
        if rules is not None and rules.may_drop is None:
            raise click.UsageError(f"{policy} has no rule may_drop: name the features in it, or leave --policy out")
        if policy is None and (junit or allowed):
            raise click.UsageError("--junit and --allow-not-judged are for --policy: leave them out")
        with show_progress(source.progress):
            model, rows, options = source.read()
            del options["level"]
            if model_out:  # before the refits, which take long
                refuse_unsaveable(model, model_out)
            asked = list(features) or (None if rules is None else _of_policy(rules, rows))
            result = debias.droppable(
                model,
                rows,
                tolerance=tolerance,
                alpha=alpha,
                columns=asked,
                refit_path=refit_path,
                **options,
            )
        warn(result.warnings)
        if json_file:
            result.to_json(json_file)
        if html_file:
            result.to_html(html_file)
        if model_out and result.model is not None:
            save_model(result.model, model_out)
        elif model_out:
            click.echo(f"no set of features is certified, so {model_out} is not written", err=True)
        if rules is None:
            if form != "table":
                click.echo(result.to_json() if form == "json" else result.to_csv(), nl=form == "json")
            else:
                print_droppable(terminal(), result)
            return
        gate = result.check(rules).allowing(*allowed)
        warn(tuple(text for text in gate.warnings if text not in result.warnings))
        report(gate, source.model, form, junit, summary)
    exit_unless_passed(gate)


def _refuse_unusable(source: Source, features: tuple[str, ...], policy: str | None) -> None:
    """Refuse options that would have no effect, before the model is loaded."""
    if source.train is None:
        raise click.UsageError("the model is trained again: pass its training rows as --train FILE")
    if features and policy is not None:
        raise click.UsageError("--policy names the features: leave --feature out")


def _of_policy(rules: Policy, rows: Dataset) -> list[str] | None:
    """Return the features that a policy names, without optional ones that are no columns."""
    assert rules.may_drop is not None
    columns = set(map(str, rows.X.columns))
    named = [each.name for each in rules.may_drop if not each.optional or each.name in columns]
    return named or None
