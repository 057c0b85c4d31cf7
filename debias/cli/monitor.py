"""`debias monitor`: the scores of a model over time, in a history.

Over 500 lines, because each command stands whole, with its options and help.
"""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal

import click

from debias.cli.gate import errors_in, exit_unless_passed, report, with_allowed, with_files_of_gate
from debias.cli.inputs import Source
from debias.cli.options import (
    MODEL,
    TABLE,
    Command,
    base_margin_option,
    decimal_option,
    drop_option,
    error_rate_option,
    format_option,
    html_option,
    jobs_option,
    load_option,
    na_option,
    params_option,
    pickle_option,
    separator_option,
    trust_option,
    weight_option,
    with_options,
)
from debias.cli.output import check_files, errors, in_options, terminal, warn
from debias.progress import show_progress
from debias.results.policy import RULES_OF_HISTORY
from debias.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from debias.monitor.history import History
    from debias.results.changes import Changes


def number_of_looks(ctx: click.Context, param: click.Parameter, value: str) -> int | str:
    """Return a number of comparisons, or "any"."""
    from debias.results.any_look import ANY

    if value == ANY:
        return ANY
    if not value.strip().isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is not a number of comparisons: pass 1 or more, such as 365, or any")
    return int(value)


history_argument = click.argument("history", type=click.Path(dir_okay=False))
with_comparison = with_options(
    click.option("--recent", default="30d", show_default=True, metavar="WINDOW", help="Last periods: 30d, 12h, 4w, 7."),
    click.option(
        "--reference",
        metavar="WINDOW",
        help="Periods to compare with: 'first 30d', 2026-01-01..2026-01-30, or 30d for those before --recent.  "
        "[default: that of the policy, or the first 60 days of the model]",
    ),
    error_rate_option,
    click.option(
        "--looks",
        default="1",
        show_default=True,
        metavar="N|any",
        callback=number_of_looks,
        help="Number of comparisons that share --error-rate, such as 365 for one a day in a year; or any.",
    ),
)
with_windows = with_options(
    with_comparison,
    click.option("--series", metavar="LABEL", help="The model; the one with the latest period by default."),
)

with_model = with_options(
    click.option("--model", type=MODEL, help="The model in HISTORY: with it, causes of a higher loss are told."),
    trust_option,
    pickle_option,
    load_option,
    params_option,
)


@click.group("monitor")
def command() -> None:
    """Keep the scores of a model over time in a file HISTORY, and tell what changed."""


@command.command(
    "add",
    cls=Command,
    examples=[
        "debias monitor add model.history model.ubj today.csv --at 2026-11-23  # before the responses",
        "debias monitor add model.history model.ubj today.csv --target outcome --at 2026-11-23",
    ],
)
@history_argument
@click.argument("model", type=MODEL)
@click.argument("data", type=TABLE)
@click.option("--at", required=True, help="The period: a date or time (2026-11-23), a number (7, 1.1), or a label.")
@click.option("--part", metavar="NAME", help="A part of the period, such as a machine. The parts of a period add up.")
@click.option("--replace", is_flag=True, help="Replace other rows of the same period and part.")
@click.option("--label", metavar="NAME", help="Name of the model in the history, such as its version.")
@click.option(
    "--target",
    metavar="COLUMN",
    help="Column of DATA with the response. Without it the rows wait for their responses: add them again with it.",
)
@with_options(weight_option, base_margin_option, drop_option, separator_option, decimal_option, na_option)
@click.option(
    "--rows",
    type=click.Choice(["auto", "held-out"]),
    default="auto",
    show_default=True,
    help="auto refuses rows that look like training rows.",
)
@click.option(
    "--loss-rows",
    type=click.IntRange(0),
    metavar="N",
    help="Divide the loss of N rows at most into what each feature saves; more take longer.  [default: 1000]",
)
@click.option(
    "--kept-rows",
    type=click.IntRange(0, 1000),
    metavar="N",
    help="Keep N of these rows at most in HISTORY, to tell causes of a higher loss; 0 where that is not allowed.  "
    "[default: 50]",
)
@click.option(
    "--interaction",
    "interactions",
    nargs=2,
    multiple=True,
    metavar="A B",
    help="Keep sums for what MODEL does with these two features together; can be repeated. Give it with each period.",
)
@with_options(trust_option, pickle_option, load_option, params_option, jobs_option)
@click.option(
    "--timeout", default=60.0, show_default=True, type=click.FloatRange(0), help="Seconds to wait for another writer."
)
def add(
    history: str,
    at: str,
    part: str | None,
    replace: bool,
    label: str | None,
    loss_rows: int | None,
    kept_rows: int | None,
    interactions: tuple[tuple[str, str], ...],
    timeout: float,
    **options: Any,
) -> None:
    """Add the rows of DATA, which MODEL has not seen, to HISTORY as the period --at.

    The same rows may be added again: nothing changes. Other rows of the same period need --replace or --part. A new
    MODEL begins a new series in the same file. Rows without --target are provisional until they are added with it.

    Exit codes: 0 the rows are in the history, 2 wrong usage, 3 an error while loading or running.
    """
    if any(one == other for one, other in interactions):
        raise click.UsageError("--interaction takes two different features")
    source = _source(**options)
    check_files(source.files, {"HISTORY": history})
    with errors():
        import debias

        with show_progress(source.progress):
            model, rows, options = source.read() if source.target else source.read_unlabelled()
            numbers = {"loss_rows": loss_rows, "kept_rows": kept_rows}
            settings: dict[str, Any] = {name: number for name, number in numbers.items() if number is not None}
            settings |= {"interactions": interactions} if interactions else {}
            log = debias.History(model, history, label=label, timeout=timeout, n_jobs=source.jobs, **settings)
            of_rows = {"sample_weight": rows.sample_weight, "base_margin": rows.base_margin}
            with warnings_at_the_end():
                added = log.add(
                    rows.X,
                    rows.y,
                    at=_period(at, log.path, timeout),
                    part=part,
                    replace=replace,
                    rows=options["rows"],
                    **of_rows,
                )
        done = "added" if source.target else "added, without responses"
        click.echo(f"{at}: {done if added else 'these rows were there before, so nothing changed'}")


@command.command(
    "show",
    cls=Command,
    examples=["debias monitor show model.history --window 30d", "debias monitor show model.history --html scores.html"],
)
@history_argument
@click.option(
    "--window", metavar="WINDOW", help="Show moving windows (30d, 12h, 4w, or 7 periods), not single periods."
)
@html_option
@format_option
def show(history: str, window: str | None, html_file: str | None, form: str) -> None:
    """Show the scores of each period of HISTORY, or of moving windows of periods."""
    check_files({"HISTORY": history}, {"--html": html_file})
    with errors():
        import debias
        from debias.monitor.showing import print_history

        refuse_other_windows(window=window)
        found = debias.History.open(history)
        if form == "table":
            print_history(terminal(), found, window)
        else:
            click.echo((found.to_json if form == "json" else found.to_csv)(window=window), nl=form == "json")
        if html_file:
            has_dates = found.periods.index.dtype.kind == "M"
            found.to_html(html_file, window=window, changes=found.changes("30d" if has_dates else 30))


def refuse_other_windows(**given: str | None) -> None:
    """Refuse options for windows that are none, before a file is read."""
    from debias.monitor.times import parsed

    for name, window in given.items():
        if window is not None:
            parsed(window, name)


@command.command("changes", cls=Command, examples=["debias monitor changes model.history --recent 7d --reference 60d"])
@history_argument
@with_windows
@with_model
@html_option
@format_option
def changes(
    history: str,
    form: str,
    html_file: str | None,
    model: str | None,
    trust: tuple[str, ...],
    allow_pickle: bool,
    load_seconds: float,
    params: str | None,
    **windows: Any,
) -> None:
    """Compare the recent periods of HISTORY with earlier ones: what changed, and what shifted."""
    source = _source(model=model, trust=trust, allow_pickle=allow_pickle, load_seconds=load_seconds, params=params)
    check_files({"HISTORY": history, **source.files}, {"--html": html_file})
    with errors():
        from debias.results.console import print_changes

        refuse_other_windows(recent=windows["recent"], reference=windows["reference"])
        found = _worded(_opened(history, source).changes(**windows))
        warn(found.warnings)
        if html_file:
            found.to_html(html_file)
        if form == "table":
            print_changes(terminal(), found)
        else:
            click.echo(found.to_json() if form == "json" else found.to_csv(), nl=form == "json")


@command.command(
    "check", cls=Command, examples=["debias monitor check model.history --policy debias.toml --recent 7d --looks 365"]
)
@history_argument
@click.option(
    "--policy",
    default="pyproject.toml",
    type=click.Path(exists=True, dir_okay=False),
    show_default=True,
    help="TOML file with rules, in its table history.",
)
@with_windows
@with_model
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, writable=True), help="Write the changes to this file."
)
@with_files_of_gate
@with_allowed([rule for rule in RULES_OF_HISTORY if rule != "reference"])
@format_option
def check(
    history: str,
    policy: str,
    form: str,
    json_file: str | None,
    junit: str | None,
    summary: str | None,
    allowed: tuple[str, ...],
    model: str | None,
    trust: tuple[str, ...],
    allow_pickle: bool,
    load_seconds: float,
    params: str | None,
    **windows: Any,
) -> None:
    """Check what changed in HISTORY against a policy; exit with 0 only if all rules passed.

    Exit codes: 0 all rules passed, 1 a rule failed, 4 no rule failed but one could not be judged, 2 wrong usage or
    policy, 3 an error while reading or running.
    """
    source = _source(model=model, trust=trust, allow_pickle=allow_pickle, load_seconds=load_seconds, params=params)
    inputs = {"HISTORY": history, "--policy": policy, **source.files}
    check_files(inputs, {"--json": json_file, "--junit": junit, "--summary": summary})
    with errors(), errors_in(junit):
        from debias.results.policy import HistoryPolicy

        rules = HistoryPolicy.of(policy)  # before the periods are read, which takes longer
        refuse_other_windows(recent=windows["recent"], reference=windows["reference"])
        windows["reference"] = rules.reference_or(windows["reference"])
        found = _worded(_opened(history, source).changes(**windows))
        gate = found.check(rules).allowing(*allowed)
        warn(gate.warnings)
        if json_file:
            found.to_json(json_file)
        report(gate, history, form, junit, summary)
    exit_unless_passed(gate)


def _source(**given: Any) -> Source:
    """Return the input of a command that has a part of the options."""
    return Source(**{field.name: None for field in fields(Source)} | given)


def _worded(changes: Changes) -> Changes:
    """Return changes which say in the words of the commands why nothing was compared, and what to pass."""
    because = changes.not_compared_because
    return changes if because is None else replace(changes, not_compared_because=in_options(because))


def _opened(history: str, source: Source) -> History:
    """Open a history, with its model if there is one."""
    import debias

    if source.model is None:
        return debias.History.open(history)
    return debias.History(source.load(source.model), history)


@command.command("remove", cls=Command, examples=["debias monitor remove model.history --at 2026-11-23"])
@history_argument
@click.option("--at", required=True, help="The period, as it was added.")
@click.option("--part", metavar="NAME", help="A part of the period; all by default.")
@click.option("--series", metavar="LABEL", help="The model; the one with the latest period by default.")
def remove(history: str, at: str, part: str | None, series: str | None) -> None:
    """Remove a period of HISTORY that was added by mistake, or a part of it."""
    with errors():
        import debias

        log = debias.History.open(history)
        number = log.remove(at=_period(at, log.path), part=part, series=series)
        click.echo(f"{at}: {number} part{'' if number == 1 else 's'} removed")


@command.command(
    "backfill",
    cls=Command,
    examples=[
        "debias monitor backfill model.history new.ubj past.csv --target outcome --period day \\\n"
        "    --trained-until 2026-06-30"
    ],
)
@history_argument
@click.argument("model", type=MODEL)
@click.argument("data", type=TABLE)
@click.option("--period", "column", required=True, metavar="COLUMN", help="Column of DATA with the period of each row.")
@click.option(
    "--trained-until",
    required=True,
    metavar="PERIOD",
    help="Last period of the training of MODEL; none if it was trained on none of these.",
)
@click.option("--like", metavar="LABEL", help="The older model; the only other one by default.")
@click.option("--label", metavar="NAME", help="Name of MODEL in the history, such as its version.")
@click.option("--target", required=True, metavar="COLUMN", help="Column of DATA with the response.")
@with_options(weight_option, base_margin_option, drop_option, separator_option, decimal_option, na_option)
@click.option(
    "--rows",
    type=click.Choice(["auto", "held-out"]),
    default="auto",
    show_default=True,
    help="auto refuses rows that look like training rows.",
)
@with_options(trust_option, pickle_option, load_option, params_option, jobs_option)
def backfill(
    history: str,
    column: str,
    trained_until: str,
    like: str | None,
    label: str | None,
    rows: Literal["auto", "held-out"],
    **options: Any,
) -> None:
    """Add past periods, which HISTORY has of an older model, to the series of a new MODEL.

    DATA has all rows of these periods, the same as those of the older model. Other periods of DATA, and those up to
    --trained-until, are left out, and a warning says which. Then `debias monitor data-or-model` tells whether the data
    or the model changed the scores.

    Exit codes: 0 the rows are in the history, 2 wrong usage, 3 an error while loading or running.
    """
    source = _source(**options)
    check_files({"HISTORY": history, **source.files}, {})
    with errors():
        import debias
        from debias.monitor.backfilling import backfilled

        with show_progress(source.progress):
            model, found = source.read_periods(column)
            log = debias.History(model, history, label=label, n_jobs=source.jobs)
            periods = [
                (
                    _period(at, log.path) if isinstance(at, str) else at,
                    own.X,
                    own.y,
                    {"sample_weight": own.sample_weight, "base_margin": own.base_margin},
                )
                for at, own in found
            ]
            until = None if trained_until == "none" else _period(trained_until, log.path)
            with warnings_at_the_end():
                number, there = backfilled(log, periods, until, like, rows)
        click.echo(f"{counted(number, 'period')} added" + (f", {there:,} were there before" if there else ""))


@command.command(
    "data-or-model", cls=Command, examples=["debias monitor data-or-model model.history --recent 30d --new 2.1"]
)
@history_argument
@click.option("--recent", default="30d", show_default=True, metavar="WINDOW", help="Last periods: 30d, 12h, 4w, 7.")
@click.option(
    "--reference", metavar="WINDOW", help="Periods before.  [default: all periods of the old model before --recent]"
)
@click.option("--old", metavar="LABEL", help="The old model; the only other one by default.")
@click.option("--new", metavar="LABEL", help="The new model; the one with the latest period by default.")
@with_options(error_rate_option)
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, writable=True), help="Also write JSON to this file."
)
@html_option
@format_option
def data_or_model(history: str, json_file: str | None, html_file: str | None, form: str, **windows: Any) -> None:
    """Tell whether the data or a new model changed the scores of HISTORY: both models on the same days."""
    check_files({"HISTORY": history}, {"--json": json_file, "--html": html_file})
    with errors():
        import debias
        from debias.results.console import print_data_or_model

        refuse_other_windows(recent=windows["recent"], reference=windows["reference"])
        found = debias.History.open(history).data_or_model(**windows)
        if json_file:
            found.to_json(json_file)
        if html_file:
            found.to_html(html_file)
        if form == "table":
            print_data_or_model(terminal(), found)
        else:
            click.echo(found.to_json() if form == "json" else found.to_csv(), nl=form == "json")


@command.command("merge", cls=Command, examples=["debias monitor merge model.history machine-1.history"])
@history_argument
@click.argument("others", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--replace", is_flag=True, help="Replace parts that have other rows.")
def merge(history: str, others: tuple[str, ...], replace: bool) -> None:
    """Add the periods and parts of OTHERS to HISTORY, which is made if there is none."""
    with errors():
        import debias

        target = debias.History.open(history, must_exist=False)
        for other in others:
            with warnings_at_the_end():
                number = target.merge(other, replace=replace)
            click.echo(f"{other}: {number} part{'' if number == 1 else 's'} added")


@contextmanager
def warnings_at_the_end() -> Iterator[None]:
    """Print the warnings of the library at the end, one per line."""
    from debias.errors import DebiasWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    warn(tuple(str(entry.message) for entry in caught if issubclass(entry.category, DebiasWarning)))


def _period(text: str, history: Path, timeout: float = 60.0) -> str | int | float:
    """Return a period as a number if the text is how Python writes this number, and the history has no labels.

    1.10 and 007 are labels: as numbers they would be the periods 1.1 and 7.
    """
    from debias.monitor.store import Store
    from debias.monitor.times import LABEL

    if not re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]+)?", text):
        return text
    number = float(text) if "." in text else int(text)
    if repr(number) != text:
        return text
    store = Store(history, timeout)
    if not store.exists:
        return number
    with store.reading() as content:
        return text if LABEL in content.kinds() else number
