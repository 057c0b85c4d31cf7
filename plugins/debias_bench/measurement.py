"""What measurements by simulation share: trials that a file keeps, a page, a table, and rates with standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.atomic_files import write_text
from debias_bench.runner import run_tasks, versions, write_index
from debias_bench.trials import TrialFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.console import Console

    Trials = list[dict[str, Any]]

Estimate = tuple[float, float]
"""An estimate and its standard error, which is NaN if it is not known."""


@dataclass(frozen=True)
class Measurement:
    """A measurement by simulation.

    Parameters
    ----------
    name : str
        Of the command and of the files.
    repeats : int
        Usual number of trials of each setting.
    tasks : callable
        ``tasks(repeats)`` yields the design and the number of each trial, the function that runs it, and its arguments.
    parts : callable
        ``parts(trials, repeats)`` returns the paragraphs of the page.
    lines : callable
        ``lines(trials)`` returns the lines of the CSV file.
    """

    name: str
    repeats: int
    tasks: Callable[[int], Iterable[tuple[Any, ...]]]
    parts: Callable[[Trials, int], list[str]]
    lines: Callable[[Trials], list[dict[str, Any]]]

    def run(
        self,
        out: Path,
        messages: Console,
        *,
        repeats: int | None = None,
        jobs: int = 1,
        restart: bool = False,
        first: int | None = None,
    ) -> str:
        """Simulate the missing trials, and write the page and its numbers.

        Parameters
        ----------
        out : Path
            Folder to write to. If it has trials, the run continues from there.
        messages : rich.console.Console
            Console for progress.
        repeats : int, optional
            Number of trials of each setting; by default the usual number.
        jobs : int
            Number of processes, as in joblib.
        restart : bool
            Whether to delete existing trials.
        first : int, optional
            Number of trials to run and to show, the first ones; by default all.

        Returns
        -------
        str
            The page.
        """
        repeats = repeats or self.repeats
        tasks = {(design, number): task for design, number, *task in islice(self.tasks(repeats), first)}
        header = {"study": self.name, "versions": versions()}
        with TrialFile(out / f"{self.name}.trials.jsonl", header, restart) as file:
            run_tasks([task for trial, task in tasks.items() if not file.scored(*trial)], file, jobs, messages)
        trials = [trial for trial in file.trials if (trial["design"], trial["repeat"]) in tasks]
        return publish(self.name, out, self.parts(trials, repeats), self.lines(trials))


def publish(name: str, out: Path, parts: Sequence[str], lines: Any) -> str:
    """Write the page and the table of a measurement, and the index of the folder.

    Parameters
    ----------
    name : str
    out : Path
    parts : sequence of str
        The paragraphs of the page.
    lines : list of dict, or DataFrame
        The lines of the CSV file.

    Returns
    -------
    str
        The page.
    """
    import pandas as pd

    page = "\n\n".join(parts) + "\n"
    write_text(out / f"{name}.md", page)
    write_text(out / f"{name}.csv", pd.DataFrame(lines).to_csv(index=False, float_format="%.6g"))
    write_index(out)
    return page


def lines_of_settings(found: Mapping[str, tuple[int, Mapping[str, Estimate]]]) -> list[dict[str, Any]]:
    """Return the lines of a CSV file, from the number of data sets and the estimates of each setting."""
    return [
        {"setting": name, "data_sets": n, "quantity": what, "value": value, "standard_error": error}
        for name, (n, estimates) in found.items()
        for what, (value, error) in estimates.items()
    ]


def rate(values: NDArray[Any]) -> Estimate:
    """Return the mean of values in [0, 1], or of other numbers, over trials, and its standard error."""
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else float("nan")
    return float(values.mean()), float(error)


def rate_of(found: NDArray[Any]) -> Estimate:
    """Return a share of data sets and its standard error; shares of 0 and 1 have that of one other data set."""
    n = found.size
    share = min(max(found.mean(), 1 / n), 1 - 1 / n) if n > 1 else 0.5
    return float(found.mean()), float(np.sqrt(share * (1 - share) / n))


def holds(found: NDArray[Any], level: float = 0.05) -> bool:
    """Whether noise is found in at most a share `level` of the data sets plus two standard errors of that rate."""
    return bool(found.mean() <= level + 2 * np.sqrt(level * (1 - level) / found.size))


def with_error(estimate: Estimate | None) -> str:
    """Return an estimate with its standard error in brackets, if that is known; "" for None."""
    if estimate is None:
        return ""
    value, error = estimate
    return f"{value:.3f}" if np.isnan(error) else f"{value:.3f} ({error:.3f})"
