"""Benchmark of speed: the time of scores and audits beside calls of the libraries on the same rows, and how it grows.

One run writes the page and its numbers as CSV. The README quotes some: ``python docs/figures.py`` writes new ones.
"""

from __future__ import annotations

import csv
import io
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.atomic_files import write_text
from debias.child_process import command
from debias_bench import speed_cases
from debias_bench.runner import machine_line, write_index

if TYPE_CHECKING:
    from rich.console import Console

    Row = tuple[str, str, str, str, str, str]

HEADINGS = ("what", "debias", "beside", "its time", "ratio", "wanted")
WRITE = """
import sys
import joblib, numpy as np, pyarrow as pa, pyarrow.parquet as pq
from sklearn.ensemble import RandomForestRegressor
n, folder, chunk = int(sys.argv[1]), sys.argv[2], 100_000
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 20))
forest = RandomForestRegressor(50, max_depth=8, random_state=0).fit(X, X[:, 0] + X[:, 1])
joblib.dump(forest, folder + "/forest.joblib")
writer = None
for _ in range(n // chunk):
    X = rng.normal(size=(chunk, 20))
    columns = {f"x{k}": X[:, k] for k in range(20)} | {"target": X[:, 0] + X[:, 1] + rng.normal(size=chunk)}
    table = pa.table(columns)
    writer = writer or pq.ParquetWriter(folder + "/rows.parquet", table.schema)
    writer.write_table(table)
writer.close()
"""
SCORE = """
import resource, sys, time, warnings
import joblib, debias
warnings.simplefilter("ignore")
forest = joblib.load(sys.argv[2] + "/forest.joblib")
begin = time.perf_counter()
debias.score(forest, sys.argv[2] + "/rows.parquet", "target")
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def run(
    console: Console,
    repeats: int = 5,
    memory: bool = False,
    full: bool = False,
    jobs: int = 2,
    out: Path | None = None,
) -> None:
    """Time all cases, print each result at once, and write a page.

    Parameters
    ----------
    console : rich.console.Console
    repeats : int
        Number of paired runs of each case; the order within a pair alternates.
    memory : bool
        Whether to measure also the peak memory for 10,000,000 rows from a file.
    full : bool
        Whether to go up to 1,000,000 rows, 5,000 trees and 1,000 features, which takes about an hour.
    jobs : int
        Number of threads to measure with, in addition to one thread.
    out : Path, optional
        Folder for speed.md and speed.csv.
    """
    line = f"Medians of {repeats} paired runs, after one of each; {machine_line()}."
    console.print(line, highlight=False)
    rows: list[Row] = []

    def say(row: Row) -> None:
        rows.append(row)
        cells = [f"{heading} {cell}" for heading, cell in zip(HEADINGS[1:], row[1:], strict=True) if cell]
        console.print(f"\n{row[0]}\n  {'; '.join(cells)}", highlight=False)

    cases = chain(
        speed_cases.forests(jobs, full),
        speed_cases.audits(jobs),
        speed_cases.boosters(jobs, full),
        speed_cases.many_small_trees(full),
        speed_cases.histories(full),
        speed_cases.explained(full),
    )
    for case in cases:
        say(_timed(case, repeats))
    for what, setting, calls, wanted in speed_cases.growth(full):
        say(grown(what, f"{setting}, five scores", calls, wanted, min(repeats, 3)))
    for name, call in speed_cases.busy():
        say((name, f"{_share_of_cores(call):.0%} of 2 cores", "", "", "", "85 %"))
    if memory:
        say(_out_of_core(10_000_000))
    if out is not None:
        _write(out, rows, line)


def _timed(case: speed_cases.Case, repeats: int) -> Row:
    """Time a case, and return its line of the table."""
    first = (_time(case.ours), _time(case.rival))  # loads the libraries and warms the caches
    pairs = []
    for turn in range(1 if case.once else repeats):
        if case.once:
            pairs.append((_time(case.ours), first[1]))
        elif turn % 2:
            their_time, our_time = _time(case.rival), _time(case.ours)
            pairs.append((our_time, their_time))
        else:
            pairs.append((_time(case.ours), _time(case.rival)))
    ours, theirs = (median(times) for times in zip(*pairs, strict=True))
    ratios = sorted(our_time / (their_time * case.scale) for our_time, their_time in pairs)
    spread = f"{median(ratios):.3g} ({ratios[0]:.3g} to {ratios[-1]:.3g})" if len(ratios) > 1 else f"{ratios[0]:.3g}"
    return case.name, f"{ours:.3f} s", case.rival_name, f"{theirs * case.scale:.3f} s", spread, case.target


def grown(what: str, setting: str, calls: list[tuple[int, Callable[[], Any]]], wanted: str, repeats: int) -> Row:
    """Return the line of times at several sizes, and of the slope of their logarithms over all and the last two.

    Parameters
    ----------
    what, setting : str
        What grows, and what stays.
    calls : list of (int, callable)
        Each size, and the call to time.
    wanted : str
        The exponent to reach.
    repeats : int
        Number of runs of each call, after a first one.
    """
    seconds = []
    for _, call in calls:
        call()
        seconds.append(median(_time(call) for _ in range(repeats)))
    sizes = [size for size, _ in calls]
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    last = float(np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2]))
    shown = ", ".join(f"{size:,}: {second:.3f} s" for size, second in zip(sizes, seconds, strict=True))
    return (
        f"growth in {what}: {setting}",
        f"exponent {exponent:.2f}, at the end {last:.2f}",
        shown,
        "",
        "",
        wanted,
    )


def _share_of_cores(call: Callable[[], Any]) -> float:
    """Return processor time, including that of child processes, divided by twice the elapsed time."""
    call()  # starts the workers and loads the libraries
    before, begin = _processor_seconds(), perf_counter()
    call()
    elapsed = perf_counter() - begin
    return (_processor_seconds() - before) / (2 * elapsed)


def _processor_seconds() -> float:
    """Return the processor time of this process and its descendants (on Linux; elsewhere of this process only)."""
    if not Path("/proc/self/stat").exists():
        return process_time()
    parent, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process may have ended
            fields = stat.read_text().rpartition(")")[2].split()
            parent[int(stat.parent.name)], ticks[int(stat.parent.name)] = (
                int(fields[1]),
                int(fields[11]) + int(fields[12]),
            )
    ours = {os.getpid()}
    while grown := {pid for pid, above in parent.items() if above in ours} - ours:
        ours |= grown
    return sum(ticks[pid] for pid in ours) / os.sysconf("SC_CLK_TCK")


def _out_of_core(n_rows: int) -> Row:
    """Return the line of time and peak memory of a process that scores a Parquet file."""
    with TemporaryDirectory() as folder:
        subprocess.run(command(WRITE, str(n_rows), folder), check=True)
        done = subprocess.run(command(SCORE, str(n_rows), folder), capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    name = f"out of core: {n_rows:,} rows of Parquet, p=20, 50 trees of depth 8: mdi_oob"
    return name, f"{seconds:.0f} s", "peak memory of the process", f"{megabytes:,.0f} MB", "", "1 GB"


def _time(call: Callable[[], Any]) -> float:
    """Return the processor time of a call, of all threads: it hardly depends on what else the machine does."""
    begin = process_time()
    call()
    return process_time() - begin


def _write(out: Path, rows: list[Row], line: str) -> None:
    """Write the page, and its numbers as a CSV file."""
    out.mkdir(parents=True, exist_ok=True)
    table = ["| " + " | ".join(cells) + " |" for cells in (HEADINGS, ("---",) * len(HEADINGS), *rows)]
    text = (
        "# Speed\n\n`debias bench speed`: seconds of processor time of one call, of all threads, beside calls of other "
        "packages on the same rows. The ratio is our time divided by theirs. Our calls include reading the trees, "
        "checking them against the library and proving the rows. Exponents are slopes of log seconds over log size, "
        "over all sizes and between the two largest. The first is below 1 if a part of the time is the same for every "
        "size.\n\n"
        f"*Written by the runner. {line}*\n\n" + "\n".join(table) + "\n"
    )
    write_text(out / "speed.md", text)
    buffer = io.StringIO()
    csv.writer(buffer).writerows([HEADINGS, *rows])
    write_text(out / "speed.csv", buffer.getvalue())
    write_index(out)
