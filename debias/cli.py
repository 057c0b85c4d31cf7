"""The command line: demo, audit, score, check, plugins, bench. Results go to stdout, all else to stderr."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from debias import __version__

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

GATE_FAILED, COULD_NOT_RUN = 1, 3
STUDY_NAMES = (
    "li-table1",
    "li-chip",
    "li-depth",
    "loh-null",
    "loh-power",
    "loh-missing",
    "deng",
    "hong",
    "merits",
    "guide-sets",
    "predictive-value",
)
MEASUREMENTS = ("speed", "significance", "rivals", "replicates")
"""Named here, and not only in the catalogue, so that `debias --help` imports no study."""
WIDE = 160
"""Columns to print on where standard output is no terminal, and nothing has to fit."""


def _threads(context: click.Context, parameter: click.Parameter, value: int) -> int:
    if value < -1 or value == 0:
        raise click.BadParameter("pass 1 or more, or -1 for all cores")
    return value


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="debias")
def main() -> None:
    """Tell which features of a trained tree model matter, and which only look as if they do."""


@main.command()
@click.option("--seed", default=0, type=click.IntRange(0, 2**31), show_default=True, help="Of noise, split, models.")
@click.option("--jobs", default=2, callback=_threads, show_default=True, help="Threads.")
@click.option(
    "--html",
    default="debias-demo.html",
    type=click.Path(dir_okay=False, writable=True),
    show_default=True,
    help="File for the report on the forest.",
)
def demo(seed: int, jobs: int, html: str) -> None:
    """Train three models on real data plus two columns of noise, audit them, and write a report.

    The data are scikit-learn's diabetes measurements; nothing is downloaded.
    """
    with _errors():
        from debias.console import print_table
        from debias.demo import BINARY, UNIQUE, demo_audits, on_noise

        console = _console()
        console.print(
            f"Diabetes data of 442 patients, with two columns added that know nothing of the response: {UNIQUE} (a "
            f"different value in every row) and {BINARY}. The importance that each library reports, beside a score "
            "on rows the trees have not seen:\n",
            highlight=False,
        )
        for number, audit in enumerate(demo_audits(seed, jobs)):
            print_table(console, audit)
            console.print(f"=> {on_noise(audit)}\n=> {audit.chance_in_words()}\n", highlight=False)
            if number == 0:
                audit.to_html(html)
        console.print(f"The report on the forest, to open in a browser: {os.path.abspath(html)}", highlight=False)


def _input_options(command: Any) -> Any:
    options = [
        click.argument("model", type=click.Path(exists=True)),
        click.argument("data", type=click.Path(exists=True, dir_okay=False), required=command.__name__ != "score"),
        click.option(
            "--trust-type",
            "trust",
            multiple=True,
            metavar="NAME",
            help="Type a skops file may hold; may be given again.",
        ),
        click.option("--allow-pickle", is_flag=True, help="Load pickles. They run code from the file."),
        click.option("--target", required=True, metavar="COLUMN", help="Column of DATA with the response."),
        click.option("--weight", metavar="COLUMN", help="Column of DATA with weights of the rows."),
        click.option(
            "--rows",
            type=click.Choice(["auto", "oob", "held-out", "train"]),
            default="auto",
            show_default=True,
            help="What the rows of DATA are to the model.",
        ),
        click.option(
            "--train",
            type=click.Path(exists=True, dir_okay=False),
            help="Training rows beside held-out DATA, for scorers that need in-bag sums.",
        ),
        click.option(
            "--format",
            "form",
            type=click.Choice(["table", "json", "csv"]),
            default="table",
            show_default=True,
            help="What to print.",
        ),
        click.option("--seed", type=int, help="Seed, for scorers that draw."),
        click.option("--jobs", default=1, callback=_threads, show_default=True, help="Threads."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@main.command()
@_input_options
@click.option("--scorer", "scorers", multiple=True, metavar="EXPR", help="Scorer to show; may be given again.")
@click.option("--alpha", default=0.05, show_default=True, type=click.FloatRange(0, 1, True, True), help="Error rate.")
@click.option(
    "--error",
    default="fwer",
    show_default=True,
    type=click.Choice(["fwer", "fdr", "fdr_by"]),
    help="Family-wise error, or false discovery rate.",
)
@click.option("--permutations", default=200, show_default=True, type=click.IntRange(1), help="At most so many.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, writable=True), help="Also write JSON here.")
@click.option("--html", "html_file", type=click.Path(dir_okay=False, writable=True), help="Also write a report here.")
def audit(
    model: str,
    data: str,
    target: str,
    weight: str | None,
    rows: str,
    train: str | None,
    trust: tuple[str, ...],
    allow_pickle: bool,
    form: str,
    seed: int | None,
    jobs: int,
    scorers: tuple[str, ...],
    alpha: float,
    error: str,
    permutations: int,
    json_file: str | None,
    html_file: str | None,
) -> None:
    r"""Set the importance a MODEL reports beside debiased scores on DATA, and tell which are more than chance.

    MODEL is a file of skops, XGBoost (.json, .ubj) or LightGBM (.txt), or an MLflow model directory; DATA a CSV,
    Parquet or Feather table of rows the model has not seen, or of the training rows of a forest.

    \b
    Example: debias audit model.ubj heldout.csv --target outcome --html report.html
    """
    with _errors():
        import debias
        from debias.console import print_audit

        fitted, X, y, given = _inputs(model, data, target, weight, train, trust, allow_pickle)
        given |= {"rows": rows, "seed": seed, "n_jobs": jobs, "alpha": alpha, "error": error}
        found = debias.audit(fitted, X, y, list(scorers) or None, n_permutations=permutations, **given)
        _warn(found.warnings)
        if json_file:
            found.to_json(json_file)
        if html_file:
            found.to_html(html_file)
        if form == "table":
            print_audit(_console(), found)
        else:
            click.echo(found.to_json() if form == "json" else found.table.to_csv(), nl=form == "json")


@main.command()
@_input_options
@click.option(
    "--policy",
    default="pyproject.toml",
    type=click.Path(exists=True, dir_okay=False),
    show_default=True,
    help="TOML with rules, at its top or under [tool.debias].",
)
@click.option("--baseline", type=click.Path(exists=True, dir_okay=False), help="JSON of the audit of the old model.")
@click.option("--alpha", default=0.05, show_default=True, type=click.FloatRange(0, 1, True, True), help="Error rate.")
@click.option("--permutations", default=200, show_default=True, type=click.IntRange(1), help="At most so many.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, writable=True), help="Write the audit here.")
@click.option("--html", "html_file", type=click.Path(dir_okay=False, writable=True), help="Write a report here.")
@click.option("--junit", type=click.Path(dir_okay=False, writable=True), help="Write JUnit XML here.")
@click.option(
    "--summary",
    envvar="GITHUB_STEP_SUMMARY",
    show_envvar=True,
    type=click.Path(dir_okay=False, writable=True),
    help="Append Markdown to this file.",
)
def check(
    model: str,
    data: str,
    target: str,
    weight: str | None,
    rows: str,
    train: str | None,
    trust: tuple[str, ...],
    allow_pickle: bool,
    form: str,
    seed: int | None,
    jobs: int,
    policy: str,
    baseline: str | None,
    alpha: float,
    permutations: int,
    json_file: str | None,
    html_file: str | None,
    junit: str | None,
    summary: str | None,
) -> None:
    r"""Audit a MODEL on DATA and hold it against a policy; exit with 1 if a rule fails.

    Exit codes: 0 passed, 1 a rule failed, 2 wrong usage or policy, 3 could not load or run.

    \b
    Example: debias check model.ubj heldout.csv --target outcome --policy debias.toml --baseline old.json
    """
    with _errors():
        import debias
        from debias.console import print_gate
        from debias.gate import read_audit
        from debias.policy import Policy

        rules = Policy.of(policy)  # before the audit, which takes longer
        old = None if baseline is None else read_audit(baseline)
        if rules.needs_baseline and old is None:
            raise click.UsageError(
                f"{' and '.join(rules.needs_baseline)} in {policy} compare: pass --baseline AUDIT.json"
            )
        fitted, X, y, given = _inputs(model, data, target, weight, train, trust, allow_pickle)
        given |= {"rows": rows, "seed": seed, "n_jobs": jobs, "alpha": alpha, "n_permutations": permutations}
        found = debias.audit(fitted, X, y, **given)
        _warn(found.warnings)
        gate = found.check(rules, old)
        if json_file:
            found.to_json(json_file)
        if html_file:
            found.to_html(html_file)
        if junit:
            _write(junit, gate.to_junit())
        if summary:
            _write(summary, gate.to_markdown(), "a")
        if os.environ.get("GITHUB_ACTIONS") == "true":
            click.echo("\n".join(gate.to_annotations()), err=True, nl=bool(gate.failures))
        if form == "table":
            print_gate(_console(), gate)
        else:
            click.echo(gate.to_json() if form == "json" else gate.to_csv(), nl=form == "json")
    if not gate.passed:
        sys.exit(GATE_FAILED)


@main.command()
@_input_options
@click.option("--no-model", is_flag=True, help="Give no MODEL: the scorer needs only DATA.")
@click.option("--scorer", default="mdi_oob", show_default=True, metavar="EXPR", help="Name, or name(option=value).")
def score(
    model: str,
    data: str | None,
    no_model: bool,
    target: str,
    weight: str | None,
    rows: str,
    train: str | None,
    trust: tuple[str, ...],
    allow_pickle: bool,
    form: str,
    seed: int | None,
    jobs: int,
    scorer: str,
) -> None:
    r"""Score the features of a MODEL on DATA with one scorer, or of DATA alone.

    \b
    Example: debias score model.txt heldout.csv --target outcome --scorer "mdi_oob(centre='none')"
             debias score --no-model table.csv --target outcome --scorer gini_merit
    """
    if no_model == (data is not None):
        raise click.UsageError("give MODEL and DATA, or --no-model and DATA alone")
    with _errors():
        import debias
        from debias.console import print_scores

        fitted, X, y, given = _inputs(
            None if data is None else model, data or model, target, weight, train, trust, allow_pickle
        )
        found = debias.score(fitted, X, y, scorer, rows=rows, seed=seed, n_jobs=jobs, **given)
        _warn(found.warnings)
        if form == "table":
            print_scores(_console(), found)
        else:
            click.echo(found.to_json(indent=2) if form == "json" else found.to_frame().to_csv(), nl=form == "json")


@main.command()
def plugins() -> None:
    """List scorers and adapters, and the distributions they come from."""
    with _errors():
        from rich.table import Table
        from rich.text import Text

        import debias

        table = Table(box=None)
        for heading in ("name", "kind", "plugin", "from"):
            table.add_column(heading, overflow="fold")
        for row in debias.plugins().itertuples():
            cells = (row.name, row.kind, row.plugin, f"{row.distribution} {row.version}")
            table.add_row(*(Text(str(cell)) for cell in cells))
        _console().print(table)


@main.command()
@click.argument("study", type=click.Choice([*STUDY_NAMES, *MEASUREMENTS]))
@click.argument("more", nargs=-1, metavar="")
@click.option("--repeats", type=click.IntRange(1), help="Trials, or paired runs; each study has its own default.")
@click.option("--jobs", default=1, callback=_threads, show_default=True, help="Processes; -1 for all cores.")
@click.option("--seed", default=0, type=click.IntRange(0, 2**31), show_default=True, help="Of data and models.")
@click.option("--scorers", multiple=True, metavar="EXPR...", help="Scorers to compare, instead of the study's.")
@click.option("--out", default="bench", type=click.Path(file_okay=False), show_default=True, help="Folder to write to.")
@click.option("--restart", is_flag=True, help="Throw away trials that an earlier run left in the folder.")
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False),
    help="Matrix for li-chip, or the 2004 cars for guide-sets, predictive-value: CSV, Parquet, Feather.",
)
@click.option("--drop", multiple=True, metavar="COLUMN", help="Column of the matrix to leave out; may be given again.")
@click.option("--memory", is_flag=True, help="speed: also the memory of 10,000,000 rows out of core.")
@click.option("--full", is_flag=True, help="speed: up to 1,000,000 rows and 5,000 trees (an hour or so).")
@click.pass_context
def bench(
    context: click.Context,
    study: str,
    more: tuple[str, ...],
    repeats: int | None,
    jobs: int,
    seed: int,
    scorers: tuple[str, ...],
    out: str,
    restart: bool,
    data: str | None,
    drop: tuple[str, ...],
    memory: bool,
    full: bool,
) -> None:
    r"""Rerun an experiment of the papers, or measure speed.

    A STUDY draws data whose truth is known, fits forests, scores them, and writes STUDY.csv, STUDY.md and STUDY.svg to
    the folder, ours beside the paper's figures. Trials are kept as they come: the same command goes on where it was
    stopped. A scorer is a name or expression, of any plugin, with @held-out or @train for rows other than out-of-bag
    ones. `speed` prints ratios to the libraries' own calls, `replicates` to a bare loop of
    refits, `rivals` to those of shap and of scikit-learn's permutation_importance, `significance` error rates, power
    and cost.

    \b
    Example: debias bench li-table1 --repeats 40 --jobs 2 --scorers mdi mdi_oob "mdi_oob(shrinkage=100)"
    """
    if more and not scorers:
        raise click.UsageError(f"what are {' '.join(more)}? Scorers follow --scorers")
    measured = {"repeats", "memory", "full", "jobs", "out"} if study == "speed" else {"repeats"}
    taken = measured if study in MEASUREMENTS else {*context.params} - {"memory", "full"}
    for name in sorted({*context.params} - taken - {"study", "more"}):
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"{study} takes no --{name}")
    if drop and data is None:
        raise click.UsageError("--drop is about the matrix of --data, and there is none")
    with _errors():
        if study == "significance":
            from debias.benchmarks import significance

            significance.run(_console(), repeats or 500)
            return
        if study == "replicates":
            from debias.benchmarks import replicates

            replicates.run(_console(), repeats or 3)
            return
        if study == "speed":
            from pathlib import Path

            from debias.benchmarks.speed import run

            run(_console(), repeats or 5, memory, full, jobs, Path(out))
            return
        if study == "rivals":
            from debias.benchmarks import rivals

            rivals.run(_console(), repeats or 5)
            return
        from pathlib import Path

        from rich.console import Console

        from debias.benchmarks import catalogue
        from debias.benchmarks.runner import run_study

        page = run_study(
            catalogue.study(study, None if data is None else _matrix(data, drop, study == "li-chip")),
            out=Path(out),
            repeats=repeats,
            seed=seed,
            jobs=jobs,
            scorers=(*scorers, *more),
            restart=restart,
            messages=Console(stderr=True),
        )
        click.echo(page, nl=False)
        click.echo(f"written to {out}: {study}.csv, {study}.md, {study}.svg", err=True)


@contextmanager
def _errors() -> Iterator[None]:
    """Print expected errors to stderr in a line, and exit with the code for "could not run" or "wrong usage".

    Warnings are part of every result, and printed from there.
    """
    from debias.errors import CompositionError, DebiasError, PolicyError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except (CompositionError, PolicyError) as error:
            raise click.UsageError(str(error)) from None
        except (DebiasError, OSError, ImportError) as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(COULD_NOT_RUN)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception:  # a fault of ours must not exit with 1, which is a failed gate
            traceback.print_exc()
            sys.exit(COULD_NOT_RUN)


def _write(path: str, text: str, mode: str = "w") -> None:
    with open(path, mode, encoding="utf-8") as file:
        file.write(text)


def _warn(texts: tuple[str, ...]) -> None:
    for text in texts:
        click.echo(f"warning: {text}", err=True)


def _inputs(
    model: str | None,
    data: str,
    target: str,
    weight: str | None,
    train: str | None,
    trust: tuple[str, ...],
    allow_pickle: bool,
) -> tuple[Any, pd.DataFrame, pd.Series, dict[str, Any]]:
    import debias

    fitted = None if model is None else _model(model, trust, allow_pickle)
    ensemble = None if fitted is None else debias.extract(fitted)
    wanted = list(ensemble.feature_names) if ensemble is not None and ensemble.named else None
    X, y, sample_weight = _columns(data, target, weight, wanted)
    given: dict[str, Any] = {"sample_weight": sample_weight}
    if train is not None:
        given["train"] = _columns(train, target, weight, wanted)[:2]
    return fitted, X, y, given


def _model(path: str, trust: tuple[str, ...], allow_pickle: bool) -> Any:
    """Load a model twice: in a child that may crash, and if it did not, here."""
    import debias
    from debias.model_check import check

    if allow_pickle:
        click.echo(f"warning: --allow-pickle: if {path} is a pickle, code from it is run", err=True)
    check(path, trust, allow_pickle)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = debias.load_model(path, trust=trust, allow_pickle=allow_pickle)
    _warn(tuple(str(each.message) for each in caught if issubclass(each.category, debias.DebiasWarning)))
    return model


def _columns(
    path: str, target: str, weight: str | None, wanted: list[str] | None
) -> tuple[pd.DataFrame, pd.Series, pd.Series | None]:
    """Read a table and take it apart; columns the model does not know are left out, and said to be."""
    frame = _read(path)
    for column in (target, weight):
        if column is not None and column not in frame.columns:
            raise click.UsageError(f"{path} has no column {column!r}; it has {', '.join(map(str, frame.columns))}")
    X = frame.drop(columns=[column for column in (target, weight) if column is not None])
    if wanted is not None and set(wanted) <= set(X.columns):
        unused = [str(column) for column in X.columns if column not in wanted]
        if unused:
            click.echo(f"note: columns of {path} the model does not know are left out: {', '.join(unused)}", err=True)
            X = X[wanted]
    return X, frame[target], None if weight is None else frame[weight]


def _read(path: str) -> pd.DataFrame:
    import pandas as pd

    ending = next((each for each in (".parquet", ".pq", ".feather", ".arrow") if path.endswith(each)), ".csv")
    try:
        if ending == ".csv":
            return pd.read_csv(path)
        return pd.read_parquet(path) if ending in (".parquet", ".pq") else pd.read_feather(path)
    except ImportError:
        raise
    except Exception as error:  # each reader has its own errors for a file that is not of its format
        raise click.UsageError(f"{path} cannot be read as {ending[1:].upper()}: {error}") from None


def _matrix(path: str, drop: tuple[str, ...], numeric: bool) -> pd.DataFrame:
    """Read a table; where it has to be of numbers, columns that are none are left out, and said to be."""
    frame = _read(path)
    absent = [name for name in drop if name not in frame.columns]
    if absent:
        raise click.UsageError(f"{path} has no column {absent[0]!r}; it has {', '.join(map(str, frame.columns))}")
    frame = frame.drop(columns=list(drop))
    if not numeric:
        return frame
    numbers = frame.select_dtypes("number")
    other = [str(name) for name in frame.columns if name not in numbers.columns]
    if other:
        click.echo(f"note: columns of {path} that hold no numbers are left out: {', '.join(other)}", err=True)
    return numbers


def _console() -> Console:
    from rich.console import Console

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have letters the terminal cannot show
    return Console() if sys.stdout.isatty() else Console(width=WIDE)


if __name__ == "__main__":
    main()
