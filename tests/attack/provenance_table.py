"""The attack on rows: every case on every family of models, and what debias said.

python tests/attack/provenance_table.py                    # one seed, cell by cell
python tests/attack/provenance_table.py --seeds 20 --markdown  # rates, as docs/rows.md has them
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attacked_models import FAMILIES
from outcomes import PROVEN, RAW, REFUSED, SAID, SILENT, WARNED, outcome
from provenance_cases import CASES, World

SIGNS = {REFUSED: "R", WARNED: "w", SAID: "s", PROVEN: "p", SILENT: ".", RAW: "X"}


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
    def wrong(self) -> bool:
        """Whether wrong rows gave a verdict without a word, right rows none, or there was a foreign error."""
        case = CASES[self.case]
        if self.found == RAW:
            return True
        if case.right:
            return self.found == REFUSED
        return self.found == SILENT or (self.found == PROVEN and not self.may_be_proven)

    @property
    def may_be_proven(self) -> bool:
        """Whether the trees may have sent the rows of this case as they sent those of training."""
        return CASES[self.case].right_if_proven


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), help="only those whose names begin so")
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--words", action="store_true", help="print what was said in each cell")
    options = parser.parse_args()
    families = [name for name in FAMILIES if name.startswith(tuple(options.families))]
    count: dict[tuple[str, str], Counter[str]] = {}
    texts: Counter[tuple[str, str, str]] = Counter()
    start = time.perf_counter()
    for cell in cells(families, options.cases, range(options.seeds)):
        count.setdefault((cell.family, cell.case), Counter())[cell.found] += 1
        texts[cell.family, cell.case, f"{cell.found}: {cell.words}"] += 1
    print(f"{time.perf_counter() - start:.0f} s")
    for case in options.cases:
        signs = "".join(SIGNS[count[f, case].most_common(1)[0][0]] if (f, case) in count else " " for f in families)
        print(f"{case:36s} {signs}")
    if options.words:
        for (family, case, text), n in texts.items():
            print(f"{family} | {case} | {n} | {text}")


if __name__ == "__main__":
    main()
