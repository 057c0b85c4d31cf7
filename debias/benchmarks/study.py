"""What an experiment is: designs to draw data from, scorers to compare on them, and the figures a paper gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from debias.benchmarks.simulate import Simulation


@dataclass(frozen=True, eq=False)
class Draw:
    """One data set to train on, and fresh rows of the same truth if the design has them."""

    train: Simulation
    held_out: Simulation | None = None


@dataclass(frozen=True, kw_only=True)
class Design:
    """One setting of an experiment: a column of one of its tables.

    Parameters
    ----------
    table, column : str
        Heading of the table and of the column in it; the two name the design.
    draw : callable
        Seed -> Draw. Module-level functions and partials of them, so that processes can share the work.
    fit : callable or None
        (Simulation, seed) -> fitted model; None if only scorers that need no model take part.
    stream : str
        Designs of one stream draw the same data in the same repeat: differences between them are paired.
    clip : bool
        Judge max(score, 0), as the authors of a paper did; what is stored stays as it is.
    x : float or None
        The number a picture draws this design at, if the designs of a table are a series.
    scorers : tuple of str
        Scorers of this design alone; empty for those of the study.
    """

    table: str
    column: str
    draw: Callable[[int], Draw]
    fit: Callable[[Simulation, int], Any] | None
    stream: str
    clip: bool = False
    x: float | None = None
    scorers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Unique in the study."""
        return f"{self.table} / {self.column}"


@dataclass(frozen=True)
class Published:
    """One figure of a paper, or of a run of its authors' code.

    Parameters
    ----------
    table, column : str
        The design it belongs to.
    scorer : str
        As tables call it; a name of its own for a method that only the paper has.
    value, error : float
        The figure and its standard error: NaN if unknown, infinite if it is of one data set and tells no mean.
    measure : str
        Key of :data:`debias.benchmarks.measures.MEASURES`.
    by : str
        Whose figure it is, for the heading of its column.
    """

    table: str
    column: str
    scorer: str
    value: float
    error: float = float("nan")
    measure: str = "auc"
    by: str = "paper"


@dataclass(frozen=True, kw_only=True)
class Study:
    """An experiment that `debias bench` can run.

    Parameters
    ----------
    name, title, source : str
        As on the command line; what it asks; the paper, section and table.
    designs : tuple of Design
    scorers : tuple of str
        Expressions, each optionally followed by ``@oob``, ``@held-out`` or ``@train`` for the rows to score on. Those
        that are not installed are left out of a run that does not ask for them by name, and said to be.
    repeats : int
        By default; the paper's number where that takes minutes.
    measures : tuple of str
        Keys of :data:`debias.benchmarks.measures.MEASURES`: one table each.
    picture : {"dots", "means", "lines", "boxes"}
        Which picture shows it, see :mod:`debias.benchmarks.pictures`.
    feature_means : bool
        Also a table of the mean score of each feature.
    references : tuple of str
        Scorers whose correlation with each of the others, over features, is a table of its own.
    sets : bool
        Also list what each scorer selects, beside the relevant features.
    published : tuple of Published
    data : str
        Fingerprint of the data that the user gave, if any: trials on other data are not gone on with.
    remark : str
        How to read the tables, and what the paper found, for the results page.
    """

    name: str
    title: str
    source: str
    designs: tuple[Design, ...]
    scorers: tuple[str, ...]
    repeats: int
    measures: tuple[str, ...]
    picture: str
    feature_means: bool = False
    references: tuple[str, ...] = ()
    sets: bool = False
    published: tuple[Published, ...] = field(default=())
    data: str = ""
    remark: str = ""
