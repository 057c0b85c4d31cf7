"""All studies, one after the other: the pages of docs/results, with one repeat or with as many as were published."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from debias import DebiasError
from debias.atomic_files import write_text
from debias_bench.make_page import TIMED, make_page
from debias_bench.runner import QUICK_MARK, machine_line, write_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import pandas as pd
    from rich.console import Console

PUBLISHED = {
    **{"hong": 100, "li-chip": 16, "loh-power": 100, "mdi-plus": 2, "predictive-value": 1, "citrees": 5},
    **{"rare-classes": 3, "power": 50, "folds": 80, "intervals": 100, "many-features": 160},
    **{"interactions": 200, "interaction-rivals": 75, "loss-changes": 30, "alarms": 12, "aico": 100, "speed": 5},
    **{"days": 40, "held-out": 86},
}
"""Repeats of the published pages, where these are not the usual number of the study."""
FEW = 1
"""Repeats of a quick run. The slowest studies take minutes for one."""
SHORTER = {"deng-partial": tuple(f"partial_permutation({inner}, replicates=3)" for inner in ("mdi", "mdi_oob"))}
"""Scorers of a quick run, where one repeat of those of the study takes half an hour."""
FIRST = {"droppable": 6, "droppable-rankers": 2, "droppable-survival": 2}
"""Number of trials of a quick run, where one repeat takes minutes."""
QUICK_NOTE = (
    f"{QUICK_MARK} (`debias bench --all --quick`): it shows that the study runs. Its numbers say little, "
    "and are not for publication.*"
)


@dataclass(frozen=True)
class Outcome:
    """What became of one study: the seconds that it took, and why it has no new page; "" if it has one."""

    study: str
    seconds: float
    reason: str = ""


def make_all(
    names: Iterable[str],
    out: Path,
    messages: Console,
    *,
    quick: bool,
    jobs: int = 1,
    restart: bool = False,
    data: Mapping[str, pd.DataFrame] | None = None,
) -> list[Outcome]:
    """Make the pages of studies in one folder, one after the other, and the index of the folder.

    A study that fails does not stop the others. Trials that the folder has are not run again, so that the same call
    continues an interrupted run.

    Parameters
    ----------
    names : iterable of str
        Studies that write a page.
    out : Path
    messages : rich.console.Console
        Gets a line for each study, and the messages of the studies.
    quick : bool
        Whether to run one repeat of each, instead of as many as the published pages have. These pages say so.
    jobs : int
        Number of processes, as in joblib.
    restart : bool
        Whether to delete existing trials.
    data : mapping from str to DataFrame, optional
        Data of the user, by the name of the study.

    Returns
    -------
    list of Outcome

    Raises
    ------
    DebiasError
        A quick run would replace pages of the folder that are not of a quick run.
    """
    names = tuple(names)
    if quick and (kept := [name for name in names if (page := out / f"{name}.md").exists() and not _is_quick(page)]):
        raise DebiasError(
            f"{out} has pages that are not of a quick run, and a quick run would replace them: {', '.join(kept)}. "
            "Pass another --out"
        )
    out.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for number, name in enumerate(names, 1):
        messages.print(f"{number} of {len(names)}: {name}", highlight=False)
        begin = perf_counter()
        reason = _reason_of_failure(name, out, messages, quick, jobs, restart, (data or {}).get(name))
        outcomes.append(Outcome(name, perf_counter() - begin, reason))
        messages.print(f"  {told(outcomes[-1])}", highlight=False, markup=False)
    write_index(out)
    return outcomes


def told(outcome: Outcome) -> str:
    """Return what became of a study, in words.

    Examples
    --------
    >>> told(Outcome("hong", 63.2))
    'made in 63 s'
    >>> told(Outcome("li-chip", 0.2, "needs a matrix"))
    'not made: needs a matrix'
    """
    return f"not made: {outcome.reason}" if outcome.reason else f"made in {outcome.seconds:.0f} s"


def _reason_of_failure(
    name: str, out: Path, messages: Console, quick: bool, jobs: int, restart: bool, data: pd.DataFrame | None
) -> str:
    """Make the page of a study; return "", or why it could not be made."""
    page = out / f"{name}.md"
    if name in TIMED and not restart and page.exists() and _is_quick(page) == quick and _is_of_today(page):
        return ""  # it keeps no trials from which to continue
    few: dict[str, Any] = {"repeats": FEW, "scorers": SHORTER.get(name, ()), "first": FIRST.get(name)}
    asked = few if quick else {"repeats": PUBLISHED.get(name)}
    try:
        make_page(name, out, messages, jobs=jobs, restart=restart, data=data, **asked)
    except DebiasError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other studies are made all the same
        return f"{type(error).__name__}: {error}"
    if quick:
        title, _, rest = page.read_text(encoding="utf-8").partition("\n\n")
        write_text(page, f"{title}\n\n{QUICK_NOTE}\n\n{rest}")
    return ""


def _is_quick(page: Path) -> bool:
    return QUICK_MARK in page.read_text(encoding="utf-8")


def _is_of_today(page: Path) -> bool:
    """Whether this commit, with these versions, made the page today."""
    return machine_line() in page.read_text(encoding="utf-8")
