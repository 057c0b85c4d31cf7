"""`debias audit`: compare the reported importance with debiased scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from debias.cli.options import Command, error_rate_option, html_option, input_options, permutations_option
from debias.cli.output import check_files, errors, terminal, warn
from debias.progress import show_progress

if TYPE_CHECKING:
    from debias.cli.inputs import Source
    from debias.results.audit import Audit
    from debias.results.folds_audit import FoldsAudit


PERMUTED: dict[str, Literal["auto", "residuals", "response"]] = {
    "auto": "auto",
    "residuals": "residuals",
    "permutation": "response",
}
"""What the tests that can have a number of permutations permute."""


@click.command(
    "audit",
    cls=Command,
    examples=[
        "debias audit model.ubj heldout.csv --target outcome --html report.html",
        "debias audit models/ all.csv --target outcome --folds fold",
    ],
)
@input_options()
@click.option("--scorer", "scorers", multiple=True, metavar="EXPR", help="Scorer to show; can be repeated.")
@click.option(
    "--tested",
    default="mdi_oob",
    show_default=True,
    metavar="EXPR",
    help="Scorer that gives the shares and, by its test, the verdicts. The test of dependence does not use it.",
)
@click.option(
    "--test",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "residuals", "permutation", "conservative", "naive", "none"]),
    help="How to test the scores.",
)
@click.option(
    "--dependence/--no-dependence",
    default=None,
    help="Test too whether the response depends on each feature, which needs out-of-bag rows or --train. The default "
    "is to do so if the rows allow it; --dependence is an error without them.",
)
@error_rate_option
@click.option(
    "--error-method",
    default="fwer",
    show_default=True,
    type=click.Choice(["fwer", "fdr", "fdr_by"]),
    help="Kind of error rate: family-wise error or false discovery rate.",
)
@permutations_option
@click.option(
    "--folds",
    metavar="COLUMN",
    help="Column of DATA with the fold in which each row was held out; audits the models of a cross-validation. MODEL "
    "is then a directory of model files whose names end with the label of the fold, or a skops file of several models.",
)
@click.option(
    "--loss", is_flag=True, help="With --folds: divide the loss of each fold among the features, and compare the folds."
)
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, writable=True), help="Also write JSON to this file."
)
@click.option(
    "--markdown",
    "markdown_file",
    type=click.Path(dir_okay=False, writable=True),
    help="Also write one page of Markdown to this file, for example for the summary of a GitHub job.",
)
@html_option
def command(
    source: Source,
    form: str,
    scorers: tuple[str, ...],
    tested: str,
    test: str,
    dependence: bool | None,
    error_rate: float,
    error_method: Any,
    permutations: int | None,
    folds: str | None,
    loss: bool,
    json_file: str | None,
    markdown_file: str | None,
    html_file: str | None,
) -> None:
    """Compare the importance that MODEL reports with debiased scores on DATA, and test the scores.

    MODEL is a skops, XGBoost (.json, .ubj) or LightGBM (.txt) file, or an MLflow model directory. DATA is a CSV,
    Parquet or Feather table of rows the model has not seen, or of the training rows of a bagged forest. With --folds it
    has all rows of a cross-validation.
    """
    check_files(source.files, {"--json": json_file, "--markdown": markdown_file, "--html": html_file})
    with errors():
        import debias
        from debias.api.audit import chosen_scorers
        from debias.results.console import print_audit, print_folds

        chosen_scorers(tested, list(scorers) or None)  # before the model is loaded, which takes longer
        if permutations is not None and test not in PERMUTED:
            raise click.UsageError(
                f"--permutations is for --test residuals or permutation, not --test {test}: leave one of them out"
            )
        if folds is not None and dependence:
            raise click.UsageError("dependence is not tested in folds: leave --dependence out")
        if folds is not None and markdown_file:
            raise click.UsageError("folds have no page of Markdown: use --html, or leave --markdown out")
        if loss and folds is None:
            raise click.UsageError("--loss compares folds: pass --folds too, or leave it out")
        settings: dict[str, Any] = {
            "tested": tested,
            "test": test if permutations is None else debias.Permutation(permutations, of=PERMUTED[test]),
            "error_rate": (error_method, error_rate),
        }
        result: Audit | FoldsAudit
        with show_progress(source.progress):
            if folds is None:
                settings["dependence"] = "auto" if dependence is None else dependence
                model, rows, options = source.read()
                result = debias.audit(model, rows, scorers=list(scorers) or None, **options, **settings)
            else:
                models, rows, labels, options = source.read_folds(folds)
                settings["loss"] = loss
                result = debias.audit_folds(models, rows, None, labels, list(scorers) or None, **options, **settings)
        warn(result.warnings)
        if json_file:
            result.to_json(json_file)
        if markdown_file and isinstance(result, debias.Audit):
            result.to_markdown(markdown_file)
        if html_file:
            result.to_html(html_file)
        if form != "table":
            click.echo(result.to_json() if form == "json" else result.to_csv(), nl=form == "json")
        elif isinstance(result, debias.Audit):
            print_audit(terminal(), result)
        else:
            print_folds(terminal(), result)
