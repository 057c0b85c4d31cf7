"""`debias score`: the scores of one scorer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from debias.cli.options import Command, input_options
from debias.cli.output import errors, terminal, warn
from debias.progress import show_progress

if TYPE_CHECKING:
    from debias.cli.inputs import Source


@click.command(
    "score",
    cls=Command,
    examples=[
        "debias score model.txt heldout.csv --target outcome \\\n    --scorer \"mdi_oob(centre='none')\"",
        "debias score --no-model table.csv --target outcome --scorer gini_merit",
    ],
)
@input_options(data_required=False)
@click.option("--no-model", is_flag=True, help="There is no MODEL: the scorer needs only DATA.")
@click.option("--scorer", default="mdi_oob", show_default=True, metavar="EXPR", help="Name, or name(option=value).")
def command(source: Source, form: str, no_model: bool, scorer: str) -> None:
    """Score the features of a MODEL on DATA with one scorer, or the features of DATA without a model."""
    if no_model == (source.data is not None):
        raise click.UsageError("pass MODEL and DATA, or --no-model and only DATA")
    with errors():
        import debias
        from debias.results.console import print_scores

        chosen = debias.plugin.scorer(scorer)  # before the model is loaded, which takes longer
        if no_model and not isinstance(chosen, debias.plugin.DataScorer):
            raise click.UsageError(f"{scorer} scores a model: pass MODEL and DATA, without --no-model")
        for option, value in (("--params", source.params), ("--train", source.train), ("--level", source.level)):
            if no_model and value is not None:
                raise click.UsageError(f"{option} needs a model, but there is none with --no-model")
        with show_progress(source.progress):
            model, rows, options = source.read()
            scores = debias.score(model, rows, scorer=scorer, **options)
        warn(scores.warnings)
        if form == "table":
            print_scores(terminal(), scores)
        else:
            click.echo(scores.to_json(indent=2) if form == "json" else scores.to_csv(), nl=form == "json")
