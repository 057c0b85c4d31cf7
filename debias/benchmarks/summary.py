"""From trials to the numbers of a study: measures by design and scorer, and mean scores by feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.benchmarks.measures import MEASURES, Outcome, correlation, homogeneity, mean_and_error

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.benchmarks.study import Design, Published, Study

FLAT = "homogeneity"
"""Name of the measure that holds the p-value of equal means."""
CORRELATION = "correlation with "
"""How measures begin that compare with a reference."""


@dataclass(frozen=True)
class Number:
    """One number of a study: where it stands, what it is, and the paper's beside it."""

    table: str
    column: str
    scorer: str
    measure: str
    feature: str
    mean: float
    standard_error: float
    trials: int
    published: Published | None = None

    @property
    def distance(self) -> float:
        """How many standard errors, of both together, ours lies from theirs; NaN where one is absent.

        A published figure without a standard error is taken to have ours.
        """
        if self.published is None or np.isinf(self.published.error):
            return np.nan
        theirs = self.standard_error if np.isnan(self.published.error) else self.published.error
        both = np.hypot(self.standard_error, theirs)
        return float(abs(self.mean - self.published.value) / both) if both > 0 else np.nan


@dataclass(frozen=True, eq=False)
class Cell:
    """All trials of one design with one scorer.

    Parameters
    ----------
    design : Design
    label : str
        The scorer, as tables call it.
    features : tuple of str
    repeats : array of shape (n_trials,)
        Number of each trial: those of two scorers with the same number are of the same data and model.
    values : array of shape (n_trials, n_features)
    rank, relevant : arrays of the same shape
    selected : array of the same shape, or None
    refusals : tuple of str
        Why the scorer gave nothing in the other trials.
    """

    design: Design
    label: str
    features: tuple[str, ...]
    repeats: NDArray[np.int64]
    values: NDArray[np.float64]
    rank: NDArray[np.int64]
    relevant: NDArray[np.bool_]
    selected: NDArray[np.bool_] | None
    refusals: tuple[str, ...]

    def judged(self, measure: str) -> NDArray[np.float64]:
        """Return one measure of every trial."""
        score = np.maximum(self.values, 0) if self.design.clip else self.values
        chosen = [None] * len(score) if self.selected is None else self.selected
        outcomes = (Outcome(*trial) for trial in zip(score, self.rank, self.relevant, chosen, strict=True))
        return np.array([MEASURES[measure].of(outcome) for outcome in outcomes], dtype=np.float64)


def cells(study: Study, trials: list[dict[str, Any]], labels: dict[str, list[str]]) -> list[Cell]:
    """Return the trials by design and scorer, in the order of the study and of the `labels` of each design."""
    found = []
    for design in study.designs:
        there = sorted((t for t in trials if t["design"] == design.name), key=lambda trial: trial["repeat"])
        for label in labels.get(design.name, []):
            given = [trial for trial in there if label in trial["scores"]]
            good = [trial for trial in given if "values" in trial["scores"][label]]
            refusals = {trial["scores"][label]["refused"] for trial in given if trial not in good}
            if not given:
                continue
            chosen = [trial["scores"][label]["selected"] for trial in good]
            found.append(
                Cell(
                    design=design,
                    label=label,
                    features=tuple(given[0]["features"]),
                    repeats=np.array([trial["repeat"] for trial in good], dtype=np.int64),
                    values=np.array([trial["scores"][label]["values"] for trial in good], dtype=np.float64),
                    rank=np.array([trial["rank"] for trial in good]),
                    relevant=np.array([trial["relevant"] for trial in good], dtype=bool),
                    selected=np.array(chosen, dtype=bool) if chosen and None not in chosen else None,
                    refusals=tuple(sorted(refusals)),
                )
            )
    return found


def summarise(study: Study, of: list[Cell]) -> list[Number]:
    """Return every number of a study, with the paper's beside it; methods that only the paper has come last."""
    published = {(each.table, each.column, each.scorer, each.measure): each for each in study.published}
    labelled = {(cell.design.name, cell.label): cell for cell in of}
    numbers = []
    for cell in of:
        where = (cell.design.table, cell.design.column, cell.label)
        for measure in study.measures:
            judged = mean_and_error(cell.judged(measure))
            if judged[2] or (*where, measure) in published:
                numbers.append(Number(*where, measure, "", *judged, published.pop((*where, measure), None)))
        for reference in study.references:
            other = labelled.get((cell.design.name, reference))
            measure = f"{CORRELATION}{reference}"
            if other is not None and other is not cell:
                _, ours, theirs = np.intersect1d(cell.repeats, other.repeats, return_indices=True)
                pairs = zip(cell.values[ours], other.values[theirs], strict=True)
                judged = mean_and_error(np.array([correlation(*pair) for pair in pairs]))
                numbers.append(Number(*where, measure, "", *judged, published.pop((*where, measure), None)))
        if study.feature_means and len(cell.values):
            for k, feature in enumerate(cell.features):
                numbers.append(Number(*where, "mean", feature, *mean_and_error(cell.values[:, k])))
            numbers.append(Number(*where, FLAT, "", homogeneity(cell.values), np.nan, len(cell.values)))
    shown = {(cell.design.table, cell.design.column) for cell in of}
    for each in published.values():
        if (each.table, each.column) in shown:
            where = (each.table, each.column, each.scorer)
            numbers.append(Number(*where, each.measure, "", np.nan, np.nan, 0, each))
    return numbers


def to_frame(numbers: list[Number]) -> pd.DataFrame:
    """Return the numbers as a table, a row each."""
    import pandas as pd

    names = ("table", "column", "scorer", "measure", "feature", "mean", "standard_error", "trials")
    rows = [
        {name: getattr(number, name) for name in names}
        | {"published": number.published.value if number.published else np.nan}
        | {"published_by": number.published.by if number.published else ""}
        for number in numbers
    ]
    return pd.DataFrame(rows)
