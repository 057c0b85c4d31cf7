"""The tables of the attack on rows in Markdown, and what stays unseen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attack.attacked_models import FAMILIES, GROUPS
from attack.outcomes import RAW, REFUSED, SAID, SILENT, WARNED
from attack.wrong_uses import SIZES, USES

if TYPE_CHECKING:
    from attack.rows_attack import Cell

START, END = "<!-- attack table -->", "<!-- end of attack table -->"
HEAD_BY_FAMILY = (
    "model",
    "wrong uses",
    "silent, %",
    "silent, and noise is informative",
    "right rows",
    "refused, %",
    "warned of, %",
    "said to be open, %",
    "errors not of debias",
)
"""Columns of the first table."""
HEAD_BY_OUTCOME = ("rows", "audits", "refused", "warned of", "said to be open", "silent")
"""Columns of the table of what is said."""
MOST_NAMED = 6
"""The list names at most this many families a use."""


def tables(found: Sequence[Cell]) -> str:
    """Return all tables and the list."""
    n_sets, n_families = len({cell.data for cell in found}), len({cell.family for cell in found})
    to_see = [cell for cell in found if not USES[cell.use].right and not USES[cell.use].cannot_be_seen]
    uses = [use for use in USES if any(cell.use == use for cell in to_see)]
    return "\n\n".join(
        [
            f"{len(found):,} audits of {n_sets} data sets, {n_families} families of models. In parentheses: standard "
            "errors over data sets; where nothing was counted, that of one.",
            table(HEAD_BY_FAMILY, by_family(found)),
            "Silent wrong uses, in %:",
            table(("wrong use", *GROUPS, "all"), [by_group(use, to_see, lambda c, u=use: c.use == u) for use in uses]),
            table(
                ("rows passed, for every training row", *GROUPS, "all"),
                [by_group(f"{size:g}", to_see, lambda c, s=size: c.size == s) for size in SIZES],
            ),
            "What is said of rows, in %:",
            table(HEAD_BY_OUTCOME, by_outcome(found)),
            "What stays unseen:",
            unseen(found),
        ]
    )


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


def by_family(found: Sequence[Cell]) -> list[list[str]]:
    """Return a line for each family, for each group, and for all."""
    lines = []
    for group in GROUPS:
        of_group = [cell for cell in found if FAMILIES[cell.family].group == group]
        families = [name for name in FAMILIES if any(cell.family == name for cell in of_group)]
        lines += [of_cells(name, [cell for cell in of_group if cell.family == name]) for name in families]
        lines += [of_cells(f"**{group}**", of_group)] if families else []
    return [*lines, of_cells("**all**", found)]


def of_cells(name: str, found: Sequence[Cell]) -> list[str]:
    """Return a line of the first table."""
    wrong = [cell for cell in found if not USES[cell.use].right and not USES[cell.use].cannot_be_seen]
    right = [cell for cell in found if USES[cell.use].right]
    informative = sum(cell.noise_informative is True and cell.found == SILENT for cell in wrong)
    tested = sum(cell.noise_informative is not None for cell in wrong)
    shares = [share(right, lambda cell, outcome=each: cell.found == outcome) for each in (REFUSED, WARNED, SAID)]
    raw = sum(cell.found == RAW for cell in found)
    return [
        name,
        f"{len(wrong):,}",
        share(wrong, is_silent),
        f"{informative:,} of {tested:,}",
        f"{len(right):,}",
        *shares,
        f"{raw:,}",
    ]


def by_outcome(found: Sequence[Cell]) -> list[list[str]]:
    """Return a line for each use of wrong rows that can be seen, and for each right use."""
    lines = []
    for name, use in USES.items():
        cells = [cell for cell in found if cell.use == name]
        if cells and (use.right or (use.about == "rows" and not use.cannot_be_seen)):
            shares = [
                share(cells, lambda cell, o=outcome: cell.found == o) for outcome in (REFUSED, WARNED, SAID, SILENT)
            ]
            lines.append([name, f"{len(cells):,}", *shares])
    return lines


def is_silent(cell: Cell) -> bool:
    """Whether verdicts came without a word."""
    return cell.found == SILENT


def by_group(name: str, found: Sequence[Cell], chosen: Callable[[Cell], bool]) -> list[str]:
    """Return a line with the share of silent cells by group."""
    cells = [cell for cell in found if chosen(cell)]
    groups = [[cell for cell in cells if FAMILIES[cell.family].group == group] for group in GROUPS]
    return [name, *(share(group, is_silent) for group in [*groups, cells])]


def share(cells: Sequence[Cell], counted: Callable[[Cell], bool]) -> str:
    """Return the share of cells in percent, with its standard error; a dash if there are no cells."""
    if not cells:
        return "-"
    rate, error = rate_and_error([(cell.data, counted(cell)) for cell in cells])
    return f"{100 * rate:.1f} ({100 * error:.1f})"


def rate_and_error(cells: Sequence[tuple[str, bool]]) -> tuple[float, float]:
    """Return the share of True, and its standard error.

    Parameters
    ----------
    cells : sequence of (str, bool)
        The data set of each cell, and whether it counts. Cells of one data set depend on one another, so the standard
        error is that of a ratio of sums over data sets. If none or all count, or if there is one data set, it is the
        binomial one, with one cell that counts, or does not.
    """
    n, n_true = Counter[str](), Counter[str]()
    for data, counts in cells:
        n[data] += 1
        n_true[data] += counts
    total, k = n.total(), n_true.total()
    rate = k / total
    if len(n) > 1 and 0 < k < total:
        squares = sum((n_true[data] - rate * n[data]) ** 2 for data in n)
        return rate, math.sqrt(squares * len(n) / (len(n) - 1)) / total
    bounded = min(max(k, 1), total - 1) / total if total > 1 else 0.5
    return rate, math.sqrt(bounded * (1 - bounded) / total)


def unseen(found: Sequence[Cell]) -> str:
    """Return a list of the wrong uses that pass silently, the most frequent first, by family."""
    lines = []
    for use in USES:
        cells = [cell for cell in found if cell.use == use and not USES[use].right]
        silent = Counter(cell.family for cell in cells if is_silent(cell))
        if not silent:
            continue
        of = Counter(cell.family for cell in cells)
        worst = sorted(silent, key=lambda family: -silent[family] / of[family])
        named = ", ".join(f"{family} {silent[family]} of {of[family]}" for family in worst[:MOST_NAMED])
        more = f", and {len(worst) - MOST_NAMED} more" if len(worst) > MOST_NAMED else ""
        reason = USES[use].cannot_be_seen
        because = f" Not counted above: {reason}." if reason else ""
        total = silent.total()
        lines.append((total / len(cells), f"- {use}: {total} of {len(cells)} ({named}{more}).{because}"))
    return "\n".join(text for _, text in sorted(lines, key=lambda line: -line[0])) or "- nothing"
