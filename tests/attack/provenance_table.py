"""The table of the attack on rows: every case on every family of models. Run it in the folder tests:

python -m attack.provenance_table                        # one seed, a sign a cell
python -m attack.provenance_table --words                # and what was said in each cell
python -m attack.provenance_table --seeds 20 --markdown  # rates by group of models, as docs/rows.md has them
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attack.attacked_models import BOOSTED, FAMILIES, GROUPS, group_of
from attack.outcomes import PROVEN, RAW, REFUSED, SAID, SILENT, WARNED, outcome
from attack.provenance_cases import CASES, CONTROL, World

SIGNS = {REFUSED: "R", WARNED: "w", SAID: "s", PROVEN: "p", SILENT: ".", RAW: "X"}


@dataclass(frozen=True)
class Unseen:
    """Wrong rows that may pass without a word, and why nothing of them can be seen.

    Parameters
    ----------
    cases, groups : tuple of str
        By name, and groups of families.
    reason : str
    """

    cases: tuple[str, ...]
    groups: tuple[str, ...]
    reason: str


SELECTED = "fresh, of one class or y high"
RECODED = "codes of a category permuted"
UNSEEN = (
    Unseen(
        ("validation rows of early stopping",),
        BOOSTED,
        "no tree was grown on them; they chose the number of trees, and the model keeps no trace of that",
    ),
    Unseen(
        ("half training, half fresh", "a fifth", "one column permuted"),
        GROUPS[1:],
        "few training rows, or training rows that only some splits send where they sent them in training, and a model "
        "whose leaves are large, or hold samples of the rows",
    ),
    Unseen(
        ("of one class, or y high",),
        GROUPS[1:],
        "training rows chosen by their response: they fill the leaves of that response, as no random part of them does",
    ),
    Unseen(
        (RECODED,),
        (GROUPS[0], *GROUPS[3:6]),
        "splits by sets of categories or by one-hot columns, or on few of the rows: the shares of the two sides may "
        "change little",
    ),
    Unseen(
        ("y x 1000", "log of y"),
        ("XGBoost",),
        "quantiles, which are meant to lie to one side, and counts, whose errors are as large as they are",
    ),
    Unseen(
        (SELECTED,),
        GROUPS,
        "fresh rows chosen by their response: it shifts columns as far as they tell of it, maybe too little",
    ),
)
"""What docs/rows.md says cannot be told, by case and group of models."""


@dataclass(frozen=True)
class Cell:
    """What became of one case on one family of models.

    Parameters
    ----------
    family, case : str
    seed : int
    found : str
        One of the outcomes.
    words : str
        What was said.
    """

    family: str
    case: str
    seed: int
    found: str
    words: str

    @property
    def right(self) -> bool:
        """Whether the rows were what an audit needs."""
        return CASES[self.case].right

    @property
    def falsely_refused(self) -> bool:
        """Whether right rows gave no verdict."""
        return self.right and self.found == REFUSED

    @property
    def silent(self) -> bool:
        """Whether wrong rows gave a verdict without a word, or were proven to be what they are not."""
        if self.right:
            return False
        return self.found == SILENT or (self.found == PROVEN and not CASES[self.case].right_if_proven)

    @property
    def unseen(self) -> bool:
        """Whether it is documented that nothing can be seen here."""
        return any(self.case in each.cases and group_of(self.family) in each.groups for each in UNSEEN)


def cells(families: Iterable[str], cases: Iterable[str], seeds: Iterable[int]) -> Iterator[Cell]:
    """Go through all cells that make sense."""
    cases = list(cases)
    for seed in seeds:
        for family in families:
            world = World(FAMILIES[family], seed)
            for case in cases:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of the libraries, about the data
                    attempt = CASES[case].make(world)
                if attempt is not None:
                    yield Cell(family, case, seed, *outcome(attempt.model, attempt.X, attempt.y, **attempt.passed))


def signs(found: list[Cell]) -> str:
    """Return a table with a sign a cell, one line a case and one column a family; the first seed's."""
    families = list(dict.fromkeys(cell.family for cell in found))
    first = {(cell.family, cell.case): cell for cell in reversed(found)}
    lines = [f"{k:3d} {family}" for k, family in enumerate(families)]
    lines += [f"{' ' * 36} {''.join(str(k // 10) for k in range(len(families)))}"]
    lines += [f"{' ' * 36} {''.join(str(k % 10) for k in range(len(families)))}"]
    for case in [case for case in CASES if any(cell.case == case for cell in found)]:
        row = [first.get((family, case)) for family in families]
        lines.append(f"{case:36s} {''.join(' ' if cell is None else SIGNS[cell.found] for cell in row)}")
    return "\n".join([*lines, ", ".join(f"{sign} {name}" for name, sign in SIGNS.items())])


def markdown(found: list[Cell]) -> str:
    """Return the rates in percent: of silence for wrong rows, of refusal and of warning for right ones."""
    seeds = len({cell.seed for cell in found})
    head = [f"| {{}} | {' | '.join(GROUPS)} | all |", f"| --- |{' --- |' * (len(GROUPS) + 1)}"]
    lines = [f"{len(found):,} runs, {seeds} draws a cell. Percent of runs without a word on wrong rows:", ""]
    lines += [head[0].format("wrong rows"), head[1]]
    wrong = [case for case in CASES if not CASES[case].right]
    lines += [_line(case, [cell for cell in found if cell.case == case], "silent") for case in wrong]
    lines.append(_line("all", [cell for cell in found if not cell.right], "silent"))
    lines += ["", "Percent of runs on right rows that were refused / warned of:", ""]
    lines += [head[0].format("right rows"), head[1]]
    right = [case for case in CASES if CASES[case].group == CONTROL]
    lines += [_line(case, [cell for cell in found if cell.case == case], "refused") for case in right]
    lines.append(_line("all", [cell for cell in found if cell.right], "refused"))
    return "\n".join(lines)


def _line(name: str, found: list[Cell], what: str) -> str:
    groups = [[cell for cell in found if group_of(cell.family) == group] for group in GROUPS]
    return f"| {name} | {' | '.join(_rate(group, what) for group in [*groups, found])} |"


def _rate(found: list[Cell], what: str) -> str:
    if not found:
        return "-"
    if what == "silent":
        return f"{100 * sum(cell.silent for cell in found) / len(found):.1f}"
    warned = sum(cell.found == WARNED for cell in found)
    return f"{100 * sum(cell.falsely_refused for cell in found) / len(found):.1f} / {100 * warned / len(found):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--families", nargs="*", default=[""], help="only those whose names begin so")
    parser.add_argument("--cases", nargs="*", default=[""], help="only those whose names begin so")
    parser.add_argument("--words", action="store_true", help="print what was said in each cell")
    parser.add_argument("--markdown", action="store_true", help="print rates as Markdown tables")
    options = parser.parse_args()
    families = [name for name in FAMILIES if name.startswith(tuple(options.families))]
    cases = [name for name in CASES if name.startswith(tuple(options.cases))]
    start = time.perf_counter()
    found = list(cells(families, cases, range(options.seeds)))
    if options.markdown:
        print(markdown(found))
        return
    print(f"{signs(found)}\n{time.perf_counter() - start:.0f} s; {dict(Counter(cell.found for cell in found))}")
    silent = Counter((group_of(cell.family), cell.unseen) for cell in found if cell.silent)
    print(f"wrong rows, silent, by group and whether that is documented: {dict(silent)}; right rows, refused:")
    for cell in found:
        if cell.falsely_refused or cell.found == RAW:
            print(f"- {cell.family}, {cell.case}: {cell.words}")
    if options.words:
        for cell in found:
            print(f"{cell.family} | {cell.case} | {cell.seed} | {cell.found} | {cell.words}")


if __name__ == "__main__":
    main()
