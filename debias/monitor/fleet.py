"""Many histories at once: what each model shows, from a few numbers a period, or from full comparisons."""

from __future__ import annotations

import glob
import os
import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from debias.atomic_files import refuse_missing_folder
from debias.errors import DebiasError, HistoryArgumentError, HistoryError
from debias.monitor.any_look import default_in_words, findings_at_any_look, refuse_moving
from debias.monitor.comparing import WaitingPeriods, reference_in_words
from debias.monitor.few_numbers import Summaries
from debias.monitor.records import Records
from debias.monitor.store import Period, Series, Store, Waiting
from debias.monitor.times import n_missing, parsed, positions_of, time_text
from debias.progress import task
from debias.results.any_look import ANY
from debias.results.fleet import Findings, Fleet, FleetLine
from debias.results.gate_of_changes import result_of_age
from debias.results.vocabulary import FleetVerdict, GateStatus
from debias.significance.change import check_settings
from debias.text import counted, escaped

JOURNAL = ("-journal", "-wal", "-shm")
"""Ends of the names of files that SQLite makes beside a history. A pattern does not name them."""
LONGEST_NAME = 100
"""Characters of the name of a page."""


def fleet_of(
    paths: Any,
    recent: Any,
    reference: Any,
    *,
    error_rate: float,
    looks: int | str,
    max_age_days: float | None,
    html: Any,
    timeout: float,
) -> Fleet:
    """Return what the last periods of many models show; see ``History.fleet``."""
    for name, window in (("recent", recent), ("reference", reference)):
        if window is not None:
            parsed(window, name)
    is_number = isinstance(max_age_days, (int, float)) and not isinstance(max_age_days, bool)
    if max_age_days is not None and not (is_number and max_age_days >= 0):
        raise HistoryArgumentError(f"max_age_days={max_age_days!r} is not a number of days")
    files = files_of(paths)
    settings: dict[str, Any] = {"recent": recent, "reference": reference}
    if isinstance(looks, str) and looks == ANY:
        check_settings(error_rate, 0.0, 1)
        refuse_moving(reference)
        settings |= {"alpha": error_rate / len(files), "looks": looks}
    else:
        check_settings(error_rate, 0.0, looks)
        assert not isinstance(looks, str)
        settings |= {"alpha": error_rate, "looks": looks * len(files)}
    pages = Pages(html, files) if html is not None else None
    lines: list[FleetLine] = []
    with task("histories", len(files)) as advance:
        for file in files:
            try:
                lines += lines_of(file, settings, max_age_days, timeout, pages)
            except (DebiasError, OSError) as error:  # one file must not hide the others
                if pages is not None and isinstance(error, OSError):  # of a page that cannot be written
                    raise
                lines.append(FleetLine.unread(file, str(error).replace(str(Path(file).absolute()), file)))
            advance()
    fleet = Fleet(
        lines=tuple(sorted(lines, key=lambda line: line.urgency)),
        alpha=error_rate,
        looks=looks,
        recent=str(recent),
        reference=default_in_words([]) if looks == ANY and reference is None else reference_in_words(reference, []),
    )
    if html is not None:
        fleet.to_html(html)
    return fleet


def files_of(paths: Any) -> list[str]:
    """Return the files that paths and patterns name, each once, in order.

    Raises
    ------
    HistoryError
        A pattern fits no file, or this is not a path.
    """
    given = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, (str, bytes)) else [paths]
    found: dict[str, str] = {}
    for path in given:
        if not isinstance(path, (str, os.PathLike)):
            raise HistoryArgumentError(f"paths has {path!r}, which is not a path: pass paths or patterns of files")
        text = os.fspath(path)
        matched = [text]
        if glob.has_magic(text) and not os.path.exists(text):
            matched = [each for each in sorted(glob.glob(text, recursive=True)) if _may_be_history(each)]
            if not matched:
                raise HistoryArgumentError(f"no file fits {text!r}: check the pattern, and where it starts from")
        for each in matched:
            found.setdefault(os.path.realpath(each), each)
    if not found:
        raise HistoryArgumentError("there are no histories: pass a path or more")
    return list(found.values())


def lines_of(
    file: str, settings: dict[str, Any], max_age_days: float | None, timeout: float, pages: Pages | None
) -> list[FleetLine]:
    """Return the line of a history, or two: see :func:`models_of`. The age of the last period is that of the first.

    Raises
    ------
    DebiasError
        The file cannot be read, or has no windows of this kind.
    """
    if os.path.exists(file) and not os.path.isfile(file):
        raise HistoryError(f"{file} is not a file")
    with Store.of(file, timeout).reading() as content:
        records = Records(content, {})
        read = [_read(file, records, series, settings, pages is None) for series in models_of(records)]
    lines: list[FleetLine] = []
    for line, found in read:
        if pages is not None and line.n_periods:
            found, page = pages.write(file, line.series, settings, timeout)
            line = replace(line, page=page)
        is_old = None
        if max_age_days is not None and not lines:
            age = result_of_age(line.last_at, max_age_days, waits=line.newer_waiting > 0)
            is_old = None if age.status is GateStatus.PASSED else age
        assert found is not None
        lines.append(line.judged_by(found, is_old))
    return lines


def models_of(records: Records) -> list[Series]:
    """Return the model with the latest period; if all of its periods wait for responses, also the latest other model.

    Raises
    ------
    HistoryError
        The history has no period.
    """
    answered = records.latest()
    waiting, periods = records.content.waiting(), records.content.periods(answered.id)
    if not waiting or not periods:
        return [answered]
    last = max(waiting, key=lambda each: (each.key, each.series))
    if (last.key, last.series) <= (periods[-1].key, answered.id) or last.series == answered.id:
        return [answered]
    newest = next(series for series in records.content.series() if series.id == last.series)
    return [newest] if records.content.periods(newest.id) else [newest, answered]


def _read(
    file: str, records: Records, series: Series, settings: dict[str, Any], compares: bool
) -> tuple[FleetLine, Findings | str | None]:
    """Return the line of a model without a verdict, and what was found or why nothing was; None if it is not compared.

    Periods that wait for their responses came, so they are not missing.
    """
    read, waiting = Summaries(records, series), WaitingPeriods(records, series)
    all_periods: list[Period | Waiting] = [*waiting.periods, *read.periods]
    by_key = {each.key: each for each in all_periods}
    came = [by_key[key] for key in sorted(by_key)]
    begin, found = 0, None
    if read.periods:
        after = positions_of(read.periods, settings["recent"], "recent", len(read.periods) - 1)
        begin = bisect_left(sorted(by_key), read.periods[after.start].key) if after else 0
        if compares and settings["looks"] == ANY:
            found = findings_at_any_look(read, settings["recent"], settings["reference"], settings["alpha"])
        elif compares:
            found = read.compared(after, **settings)
    else:
        wait = counted(len(came), "period") + (" waits" if len(came) == 1 else " wait")
        found = f"{escaped(read.label)} has no period with responses: {wait} for them"
    line = FleetLine(
        history=file,
        verdict=FleetVerdict.NOT_JUDGED,
        series=read.label,
        model=read.model,
        last_period=time_text(came[-1].moment),
        last_at=came[-1].moment.as_datetime,
        n_periods=len(read.periods),
        waiting=len(waiting.periods),
        newer_waiting=len(waiting.newer(read.periods)),
        missing=n_missing(came, begin),
    )
    return line, found


class Pages:
    """The pages of models, in a folder beside the page of the fleet.

    Parameters
    ----------
    html : str or Path
        The page of the fleet.
    files : list of str
        The histories.
    """

    def __init__(self, html: Any, files: list[str]) -> None:
        self._folder = Path(html).absolute().with_suffix("")
        self._folder = self._folder.with_name(f"{self._folder.name}_models")
        refuse_missing_folder(html)
        self._folder.mkdir(exist_ok=True)
        self._names: dict[str, str] = {}
        for file in files:
            name = re.sub(r"[^\w.-]", "_", Path(file).stem)[:LONGEST_NAME]
            number, taken = 1, {each.lower() for each in self._names.values()}  # some systems do not tell A from a
            distinct = name
            while distinct.lower() in taken:
                number += 1
                distinct = f"{name}-{number}"
            self._names[file] = distinct

    def write(
        self, file: str, series: str | None, settings: dict[str, Any], timeout: float
    ) -> tuple[Findings | str, str]:
        """Write the page of a model, and return what was found, or why nothing was; and the address of the page."""
        from debias.monitor.history import History

        history = History.open(file, timeout=timeout)
        rest: dict[str, Any] = {"error_rate": settings["alpha"], "looks": settings["looks"], "series": series}
        changes = history.changes(settings["recent"], settings["reference"], **rest)
        name = f"{self._names[file]}.html"
        history.to_html(self._folder / name, f"{changes.model}, {changes.series}: {file}", changes=changes)
        found = Findings.of(changes) if changes.compared else str(changes.not_compared_because)
        return found, f"{quote(self._folder.name)}/{quote(name)}"


def _may_be_history(path: str) -> bool:
    """Return whether a pattern means this file: not a folder, and none that SQLite makes beside a history.

    A link to a file that is not there is meant too: it is a history that cannot be judged.
    """
    return not os.path.isdir(path) and not path.endswith(JOURNAL)
