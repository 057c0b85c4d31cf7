"""The definition of a study: designs to draw data from, models, scorers to compare, and the numbers of a paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from debias_bench.simulate import Simulation


@dataclass(frozen=True, eq=False)
class Draw:
    """One data set for training, and held-out rows with the same truth if the design has them."""

    train: Simulation
    held_out: Simulation | None = None


@dataclass(frozen=True, kw_only=True)
class Design:
    """One setting of an experiment: a column of one of its tables.

    Parameters
    ----------
    table, column : str
        Heading of the table and of the column in it; together they name the design.
    draw : callable
        Seed -> Draw. A module-level function or a partial of one, so that it can be sent to processes.
    fit : callable or None
        (Simulation, seed) -> fitted model; None if only scorers without a model take part.
    stream : str
        Designs with the same stream draw the same data in the same repeat, so differences between them are paired.
    clip : bool
        Whether to measure max(score, 0), as the authors of a paper did; stored scores are not changed.
    x : float or None
        The horizontal position of this design in a picture, if the designs of a table are a series.
    scorers : tuple of str
        Scorers of this design only; if empty, those of the study.
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
        """Name of the design, unique in the study."""
        return f"{self.table} / {self.column}"


@dataclass(frozen=True)
class Published:
    """One number from a paper, or from a run of its authors' code.

    Parameters
    ----------
    table, column : str
        The design that the number belongs to.
    scorer : str
        Name of the scorer in tables; any other name for a method that only the paper has.
    value, error : float
        The number and its standard error: NaN if unknown, infinite if the number is from a single data set.
    measure : str
        Key of :data:`debias_bench.measures.MEASURES`.
    by : str
        Source of the number, for the heading of its column.
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
        The name on the command line; the question; and the paper with section and table.
    designs : tuple of Design
    scorers : tuple of str
        Expressions, each optionally followed by ``@oob``, ``@held-out`` or ``@train`` for the rows to score on.
        Scorers that are not installed are left out with a message, unless the user names them.
    repeats : int
        Default number of repeats; the number of the paper if that takes minutes only.
    measures : tuple of str
        Keys of :data:`debias_bench.measures.MEASURES`; each gives one table.
    picture : {"dots", "means", "lines", "boxes"}
        Kind of the picture, see :mod:`debias_bench.pictures`.
    feature_means : bool
        Whether to add a table of the mean score of each feature.
    references : tuple of str
        Scorers whose correlation with each other scorer, over features, is shown in a table.
    sets : bool
        Whether to list the features that each scorer selects, beside the relevant features.
    published : tuple of Published
    data : str
        Digest of the data that the user gave, if any: a run does not continue with trials on other data.
    remark : str
        Text for the results page: how to read the tables, and what the paper found.
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


def forest(simulation: Simulation, seed: int, **settings: Any) -> Any:
    """Return a fitted random forest of scikit-learn: a classifier if y holds integers, otherwise a regressor."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestClassifier if simulation.y.dtype.kind == "i" else RandomForestRegressor
    return kind(**{"n_estimators": 100, **settings}, random_state=seed, n_jobs=1).fit(simulation.numeric, simulation.y)
