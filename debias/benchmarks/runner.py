"""Run a study: what is missing of it, on several cores, each trial kept as it comes; then write what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from debias.atomic_files import write_text
from debias.benchmarks import markdown, pictures, summary
from debias.benchmarks.machine import machine_line, versions
from debias.benchmarks.trials import Entrant, TrialFile, run_trial
from debias.errors import CompositionError
from debias.hooks import registry as discovery
from debias.hooks.contracts import DataScorer

if TYPE_CHECKING:
    from rich.console import Console

    from debias.benchmarks.study import Design, Study

INDEX = "index.md"


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
    """Run the trials of a study that are missing, and write its CSV, Markdown page and SVG.

    Parameters
    ----------
    study : Study
    out : Path
        Folder to write to; trials there are gone on with.
    repeats : int, optional
        Trials of each design; the study's own number by default.
    seed : int
        Repeat r of a design draws the same data whatever the number of repeats or jobs.
    jobs : int
        Processes, as joblib counts them.
    scorers : tuple of str
        Instead of the study's, save those that it compares all others with.
    restart : bool
        Throw away trials that are there.
    messages : Console
        Where progress and notes go.

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
    of = summary.cells(study, trials, labels)
    numbers = summary.summarise(study, of)
    write_text(out / f"{study.name}.csv", summary.to_frame(numbers).to_csv(index=False, float_format="%.6g"))
    took = sum(trial["seconds"] for trial in trials)
    how = f"{count} repeats, seed {seed}; the trials took {took:.0f} s, one by one; {machine_line()}."
    page = markdown.page(study, of, numbers, how)
    write_text(out / f"{study.name}.md", page)
    try:
        pictures.draw(study, of, numbers, out / f"{study.name}.svg")
    except ImportError:
        messages.print("no picture: matplotlib is not installed (it comes with the extra `report`)")
    write_index(out)
    return page


def entrants(design: Design) -> tuple[Entrant, ...]:
    """Return the scorers of a design, read."""
    return tuple(Entrant.of(text) for text in design.scorers)


def _settled(study: Study, asked: tuple[str, ...], messages: Console) -> Study:
    """Give every design the scorers that take part: those asked for, or those of the study that are installed."""
    if asked:
        for entrant in map(Entrant.of, asked):
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
        there = tuple(text for text in wanted if _is_installed(text))
        absent |= dict.fromkeys(text for text in wanted if text not in there)
        designs.append(replace(design, scorers=there))
    if absent:
        messages.print(f"left out, for their plugins are not installed: {', '.join(absent)}", highlight=False)
    return replace(study, designs=tuple(designs))


def _is_installed(text: str) -> bool:
    name = Entrant.of(text).expression.partition("(")[0]
    return name in discovery.scorers() or name in discovery.meta_methods()


def _missing(file: TrialFile, design: Design, repeat: int) -> tuple[Entrant, ...]:
    there = file.scored(design.name, repeat)
    return tuple(entrant for entrant in entrants(design) if entrant.label not in there)


def run_tasks(tasks: list[Any], file: TrialFile, jobs: int, messages: Console) -> None:
    """Run tasks, each a function and its arguments, in processes, and keep the trial that each returns as it comes."""
    from joblib import Parallel, delayed

    if not tasks:
        return
    with _progress(len(tasks), messages) as advance:
        for trial in Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(f)(*given) for f, *given in tasks):
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
    """List the pages in the folder, by the first line of each."""
    pages = sorted(path for path in out.glob("*.md") if path.name != INDEX and path.with_suffix(".csv").exists())
    titles = [path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ") for path in pages]
    lines = [f"- [{title}]({path.name})" for title, path in zip(titles, pages, strict=True)]
    head = "# Results\n\nExperiments of the papers, rerun: written by `debias bench`, never by hand.\n\n"
    write_text(out / INDEX, head + "\n".join(lines) + "\n")
