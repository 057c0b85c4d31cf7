"""The runner of studies: it runs the missing trials on several cores, keeps each one, and writes the result pages."""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from debias.atomic_files import write_text
from debias.plugin import CompositionError, DataScorer, plugins
from debias_bench import markdown, pictures, summary
from debias_bench.rival_scorers import RIVALS, is_installed
from debias_bench.trials import Entrant, TrialFile, run_trial

if TYPE_CHECKING:
    from rich.console import Console

    from debias_bench.study import Design, Study

INDEX = "index.md"
MEASURED_ON = r"\*Written by the runner[^\n]*commit \w+, (\d{4}-\d\d-\d\d)"
WITH_DEBIAS = r"\*Written by the runner[^\n]*debias ([\w.]+),"
"""When a page was measured, and with which version, as its last lines say."""
QUICK_MARK = "*From a quick run"
"""How the note begins on pages that `debias bench --all --quick` made."""


def run_study(
    study: Study,
    *,
    out: Path,
    repeats: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    scorers: tuple[str, ...] = (),
    restart: bool = False,
    messages: Console,
) -> str:
    """Run the missing trials of a study, and write its CSV file, Markdown page and SVG picture.

    Parameters
    ----------
    study : Study
    out : Path
        Folder to write to. If it has trials of this study, the run continues from there.
    repeats : int, optional
        Number of trials of each design; by default the number of the study.
    seed : int
        Repeat r of a design draws the same data for any number of repeats or jobs.
    jobs : int
        Number of processes, as in joblib.
    scorers : tuple of str
        Scorers to use instead of those of the study. The study's references always take part.
    restart : bool
        Whether to delete existing trials.
    messages : Console
        Console for progress and messages.

    Returns
    -------
    str
        The page.
    """
    count = study.repeats if repeats is None else repeats
    study = _settled(study, scorers, messages)
    path = out / f"{study.name}.trials.jsonl"
    header = {"study": study.name, "seed": seed, "versions": versions()}
    with TrialFile(path, header | ({"data": study.data} if study.data else {}), restart) as file:
        tasks = [
            (run_trial, design, repeat, seed, missing)
            for repeat in range(count)
            for design in study.designs
            if (missing := _missing(file, design, repeat))
        ]
        run_tasks(tasks, file, jobs, messages)
    labels = {design.name: [entrant.label for entrant in entrants(design)] for design in study.designs}
    trials = [trial for trial in file.trials if trial["repeat"] < count]
    cells = summary.cells(study, trials, labels)
    numbers = summary.summarise(study, cells)
    write_text(out / f"{study.name}.csv", summary.to_frame(numbers).to_csv(index=False, float_format="%.6g"))
    seconds = sum(trial["seconds"] for trial in trials)
    how = f"{count} repeats, seed {seed}; the trials took {seconds:.0f} s, one by one; {machine_line()}."
    page = markdown.page(study, cells, numbers, how)
    write_text(out / f"{study.name}.md", page)
    try:
        pictures.draw(study, cells, numbers, out / f"{study.name}.svg")
    except ImportError:
        messages.print("no picture: matplotlib is not installed (it comes with the extra `report`)")
    write_index(out)
    return page


def entrants(design: Design) -> tuple[Entrant, ...]:
    """Return the entrants that the texts of a design's scorers describe."""
    return tuple(Entrant.of(text) for text in design.scorers)


def _settled(study: Study, asked: tuple[str, ...], messages: Console) -> Study:
    """Return the study with its scorers in every design: those asked for, or those of the study that are installed."""
    if asked:
        for entrant in map(Entrant.of, asked):
            if entrant.is_rival:
                continue
            if isinstance(entrant.scorer, DataScorer) and entrant.rows != "oob":  # raises for one that is not there
                raise CompositionError(
                    f"{entrant.label}: this scorer has no model, and sees the training rows only; drop @{entrant.rows}"
                )
        asked = tuple(dict.fromkeys((*study.references, *asked)))
        return replace(study, designs=tuple(replace(design, scorers=asked) for design in study.designs))
    absent: dict[str, None] = {}
    designs = []
    for design in study.designs:
        wanted = design.scorers or study.scorers
        installed = tuple(text for text in wanted if _is_installed(text))
        absent |= dict.fromkeys(text for text in wanted if text not in installed)
        designs.append(replace(design, scorers=installed))
    if absent:
        messages.print(f"left out, because their plugins are not installed: {', '.join(absent)}", highlight=False)
    return replace(study, designs=tuple(designs))


def _is_installed(text: str) -> bool:
    if text in RIVALS:
        return is_installed(text)
    name = Entrant.of(text).expression.partition("(")[0]
    return name in _offered()


@functools.cache
def _offered() -> frozenset[str]:
    """Return the names of all scorers and meta-methods."""
    return frozenset(plugins()["name"])


def _missing(file: TrialFile, design: Design, repeat: int) -> tuple[Entrant, ...]:
    scored = file.scored(design.name, repeat)
    return tuple(entrant for entrant in entrants(design) if entrant.label not in scored)


def run_tasks(tasks: list[Any], file: TrialFile, jobs: int, messages: Console) -> None:
    """Run tasks, each a function with its arguments, in processes, and keep each returned trial at once."""
    from joblib import Parallel, delayed

    if not tasks:
        return
    with _progress(len(tasks), messages) as advance:
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
        for trial in parallel(delayed(function)(*arguments) for function, *arguments in tasks):
            file.add(trial)
            advance()


@contextmanager
def _progress(total: int, messages: Console) -> Iterator[Callable[[], Any]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, disable=not messages.is_terminal) as progress:
        task = progress.add_task("trials", total=total)
        yield lambda: progress.advance(task)


def write_index(out: Path) -> None:
    """Write a table of the pages in the folder: the first line of each, when it was measured, and with which debias."""
    pages = sorted(path for path in out.glob("*.md") if path.name != INDEX and path.with_suffix(".csv").exists())
    lines = ["| page | measured | with debias |", "| --- | --- | --- |"]
    for path in pages:
        text = path.read_text(encoding="utf-8")
        day, of_debias = (re.search(pattern, text) for pattern in (MEASURED_ON, WITH_DEBIAS))
        title = text.splitlines()[0].lstrip("# ")
        measured = (day[1] if day else "not dated") + (", quick run" if QUICK_MARK in text else "")
        cells = (measured, of_debias[1] if of_debias else "not told")
        lines.append(f"| [{title}]({path.name}) | {' | '.join(cells)} |")
    head = (
        "# Results\n\nExperiments of the papers, rerun: written by `debias bench`, never by hand. A page says on which "
        "machine and with which versions it was measured. Pages that are not dated were written before pages kept "
        "their date.\n\n"
    )
    write_text(out / INDEX, head + "\n".join(lines) + "\n")


LIBRARIES = ("numpy", "scipy", "scikit-learn", "xgboost", "lightgbm", "shap")


def versions() -> dict[str, str]:
    """Return the versions of Python, debias and the libraries on which the numbers depend."""
    import debias

    numbers = {"Python": platform.python_version(), "debias": debias.__version__}
    for name in LIBRARIES:
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            continue
    return numbers


def machine() -> str:
    """Return operating system, processor and number of cores as a text."""
    return f"{platform.system()} {platform.machine()}, {processor()}, {os.cpu_count()} cores"


def processor() -> str:
    """Return the model of the processor, or what Python knows of it."""
    with suppress(OSError):  # a file of Linux
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def commit() -> str:
    """Return the last commit of the checkout that runs, if it is one, and the date: a page names what it measured."""
    asked = ("git", "-C", str(Path(__file__).parent), "log", "-1", "--format=%h")
    with suppress(OSError):  # no git
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return f"commit {done.stdout.strip()}, {date.today():%Y-%m-%d}"
    return f"{date.today():%Y-%m-%d}"


def machine_line() -> str:
    """Return commit, date, machine and versions in one line of text."""
    return f"{commit()}; {machine()}; " + ", ".join(f"{name} {number}" for name, number in versions().items())
