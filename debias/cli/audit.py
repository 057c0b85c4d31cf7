"""`debias audit`: compare the reported importance with debiased scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from debias.cli.options import Command, input_options
from debias.cli.output import check_files, errors, terminal, warn
from debias.progress import shown

if TYPE_CHECKING:
    from debias.cli.inputs import Source
    from debias.results.audit import Audit
    from debias.results.folds_audit import FoldsAudit


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
    "--main",
    default="mdi_oob",
    show_default=True,
    metavar="EXPR",
    help="Scorer that gives the shares and, by its test, the verdicts. The test of dependence does not use it.",
)
@click.option(
    "--test",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "combined", "permutation", "conservative", "naive", "none"]),
    help="How to test the main scorer. auto and combined also test whether the response depends on each feature, "
    "which needs out-of-bag rows or --train; combined is an error without them.",
)
@click.option("--alpha", default=0.05, show_default=True, type=click.FloatRange(0, 1, True, True), help="Error rate.")
@click.option(
    "--error",
    default="fwer",
    show_default=True,
    type=click.Choice(["fwer", "fdr", "fdr_by"]),
    help="Kind of error rate: family-wise error or false discovery rate.",
)
@click.option(
    "--permutations", default=200, show_default=True, type=click.IntRange(1), help="Maximum number of permutations."
)
@click.option(
    "--folds",
    metavar="COLUMN",
    help="Column of DATA with the fold in which each row was held out; audits the models of a cross-validation. MODEL "
    "is then a directory of model files whose names end with the label of the fold, or a skops file of several models.",
)
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, writable=True), help="Also write JSON to this file."
)
@click.option(
    "--html", "html_file", type=click.Path(dir_okay=False, writable=True), help="Also write a report to this file."
)
def command(
    source: Source,
    form: str,
    scorers: tuple[str, ...],
    main: str,
    test: str,
    alpha: float,
    error: str,
    permutations: int,
    folds: str | None,
    json_file: str | None,
    html_file: str | None,
) -> None:
    """Compare the importance that MODEL reports with debiased scores on DATA, and test the scores.

    MODEL is a skops, XGBoost (.json, .ubj) or LightGBM (.txt) file, or an MLflow model directory. DATA is a CSV,
    Parquet or Feather table of rows the model has not seen, or of the training rows of a bagged forest. With --folds it
    has all rows of a cross-validation.
    """
    check_files(source.files, {"--json": json_file, "--html": html_file})
    with errors():
        import debias
        from debias.api.audit import chosen_scorers
        from debias.results.console import print_audit, print_folds

        chosen_scorers(main, list(scorers) or None)  # before the model is loaded, which takes longer
        settings: dict[str, Any] = {"main": main, "test": test, "alpha": alpha, "error": error}
        settings["n_permutations"] = permutations
        result: Audit | FoldsAudit
        with shown(source.progress):
            if folds is None:
                model, X, y, options = source.read()
                result = debias.audit(model, X, y, list(scorers) or None, **options, **settings)
            else:
                models, X, y, labels, options = source.read_folds(folds)
                result = debias.audit_folds(models, X, y, labels, list(scorers) or None, **options, **settings)
        warn(result.warnings)
        if json_file:
            result.to_json(json_file)
        if html_file:
            result.to_html(html_file)
        if form != "table":
            click.echo(result.to_json() if form == "json" else result.to_csv(), nl=form == "json")
        elif isinstance(result, debias.Audit):
            print_audit(terminal(), result)
        else:
            print_folds(terminal(), result)
