"""The attack on rows: real data sets x families of models x wrong and right uses x numbers of rows.

Run it in the folder `tests`:

    python -m attack.rows_attack --quick                                 # a small slice, about a minute
    python -m attack.rows_attack --full --jobs 2 --write ../docs/rows.md # all of it, about 40 minutes of a processor
    python -m attack.rows_attack --data Boston OJ --families XGBoost --uses "y " --words

It prints tables in Markdown: for each family the share of wrong uses that pass silently, with a standard error, and the
share of right rows that are refused and warned of; the same by wrong use and by number of rows; a list of what stays
unseen. `--write` puts them between the two marks of a page. Each audit is a line of the file of `--results`
(build/rows_attack.jsonl). A run that was stopped goes on where it was, runs with other values of `--seed` (other rows)
are added, and `--table` prints the tables of what is there. After a change of debias, remove the file or name another.

A family is fitted once per data set, except for held-out rows, weights, early stopping and continued training. Audits
have no test, because what is said of the rows does not depend on it. Wrong rows that pass silently are audited again
with the default test, to see whether a column of noise is informative, and so are some right rows.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from zlib import crc32

import numpy as np

from attack.attack_table import END, START, tables
from attack.attacked_models import FAMILIES, MAIN
from attack.outcomes import outcome
from attack.real_data import DATA
from attack.wrong_uses import USES, World

ROWS_AT_MOST = 1000
TESTED_RIGHT = ("held-out rows", "training rows in order, out of bag")
"""Right uses that are tested too, so that noise of wrong uses has something to be compared with."""
QUICK_DATA = ("CPS1985", "OJ", "TravelMode", "gbsg")
RESULTS = Path(__file__).parents[2] / "build" / "rows_attack.jsonl"


@dataclass(frozen=True)
class Cell:
    """What became of one use of one model.

    Parameters
    ----------
    data, family, use : str
    size : float
        Rows that were passed, for every training row.
    seed : int
    found, words, noise_informative
        As for :class:`attack.outcomes.Outcome`.
    """

    data: str
    family: str
    use: str
    size: float
    seed: int
    found: str
    words: str
    noise_informative: bool | None

    @property
    def key(self) -> tuple[str, str, str, float, int]:
        """What the cell is about."""
        return self.data, self.family, self.use, self.size, self.seed


def cells(
    data: str,
    family: str,
    uses: Iterable[str],
    seed: int,
    quick: bool = False,
    done: frozenset[tuple[str, float]] = frozenset(),
    verdicts: bool = True,
) -> Iterator[Cell]:
    """Make the attempts of one family on one data set that are not done yet.

    Parameters
    ----------
    quick : bool
        Whether only one number of rows is passed for each use, another for the next family.
    done : set of (str, float)
        Uses and numbers of rows that are done.
    verdicts : bool
        Whether silent rows are tested.
    """
    if DATA[data].task not in FAMILIES[family].makers:
        return
    world = World(DATA[data], FAMILIES[family], seed, ROWS_AT_MOST)
    for name in uses:
        use = USES[name]
        for size in sizes_of(name, family, data, quick):
            if (name, size) in done:
                continue
            rng = np.random.default_rng([seed, crc32(name.encode()), round(100 * size)])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the libraries, about the data
                attempt = use.make(world, size, rng)
            if attempt is not None:
                tested = verdicts and (not use.right or (name in TESTED_RIGHT and size == use.sizes[0]))
                found = outcome(attempt, use.about, with_verdicts=tested)
                yield Cell(data, family, name, size, seed, found.found, found.words, found.noise_informative)


def sizes_of(use: str, family: str, data: str, quick: bool) -> tuple[float, ...]:
    """Return how many rows are passed, for every training row."""
    sizes = USES[use].sizes
    return (sizes[crc32(f"{use}, {family}, {data}".encode()) % len(sizes)],) if quick else sizes


def stored(path: Path) -> list[Cell]:
    """Return the cells of a file; none if there is no file."""
    if not path.exists():
        return []
    return [Cell(**json.loads(line)) for line in path.read_text().splitlines()]


def run(options: argparse.Namespace) -> list[Cell]:
    """Make all attempts that are asked for and not stored; return all cells that are asked for."""
    data = [name for name in DATA if not options.data or name in options.data]
    families = [name for name in FAMILIES if named(name, options.families) or (not options.families and name in MAIN)]
    uses = [name for name in USES if not options.uses or named(name, options.uses)]
    if options.quick and not options.data:
        data = list(QUICK_DATA)
    known = {cell.key: cell for cell in stored(options.results)}
    done: dict[tuple[str, str], set[tuple[str, float]]] = {}
    for each_data, family, use, size, seed in known:
        if seed == options.seed:
            done.setdefault((each_data, family), set()).add((use, size))
    verdicts = not options.untested
    wanted = [
        (each, family, uses, options.seed, options.quick, frozenset(done.get((each, family), set())), verdicts)
        for each in data
        for family in families
    ]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that are started
    start = time.perf_counter()
    with (
        options.results.open("a") as file,
        ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as processes,
    ):
        tasks = [] if options.table else [processes.submit(listed, *each) for each in wanted]
        for number, task in enumerate(as_completed(tasks), 1):
            if task.exception() is not None:  # what waits is not begun, so that the error is seen at once
                processes.shutdown(wait=False, cancel_futures=True)
            for cell in task.result():
                known[cell.key] = cell
                file.write(json.dumps(asdict(cell)) + "\n")
            file.flush()
            if number % 20 == 0:
                print(f"{number} of {len(tasks)} models, {time.perf_counter() - start:.0f} s", flush=True)
    return [
        cell
        for cell in known.values()
        if cell.data in data
        and cell.family in families
        and cell.use in uses
        and cell.size in sizes_of(cell.use, cell.family, cell.data, options.quick)
    ]


def listed(*of_cells: object) -> list[Cell]:
    """Return cells in a list, as a process sends them."""
    return list(cells(*of_cells))  # type: ignore[arg-type]


def named(name: str, beginnings: Sequence[str]) -> bool:
    """Return whether a name is one of some names, or begins with one that ends in a space or a star."""
    return any(name == each or (each.endswith("*") and name.startswith(each[:-1])) for each in beginnings)


def write(path: Path, text: str) -> None:
    """Put the tables between the marks of a page."""
    page = path.read_text()
    if START not in page or END not in page:
        raise SystemExit(f"{path} has no {START} ... {END}")
    before, after = page.partition(START)[0], page.partition(END)[2]
    path.write_text(f"{before}{START}\n\n{text}\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how_much = parser.add_mutually_exclusive_group()
    how_much.add_argument("--full", action="store_true", help="everything, the default")
    how_much.add_argument(
        "--quick", action="store_true", help=f"only {', '.join(QUICK_DATA)}, and one number of rows for each use"
    )
    parser.add_argument("--data", nargs="*", default=[], choices=list(DATA), help="only these data sets")
    parser.add_argument("--families", nargs="*", default=[], help="only these; 'XGBoost*' for all that begin so")
    parser.add_argument("--uses", nargs="*", default=[], help="only these; 'y *' for all that begin so")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--untested", action="store_true", help="do not test what passes silently")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of JSON lines")
    parser.add_argument("--table", action="store_true", help="only print what the file has")
    parser.add_argument("--words", action="store_true", help="print what was said in each cell")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables between the marks of this page")
    options = parser.parse_args()
    found = run(options)
    if options.words:
        for cell in found:
            print(f"{cell.data} | {cell.family} | {cell.use} | {cell.size:.2g} | {cell.found} | {cell.words}")
    text = tables(found)
    print(text)
    if options.write is not None:
        write(options.write, text)


if __name__ == "__main__":
    main()
