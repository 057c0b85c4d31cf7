"""The numbers of a study, computed from its trials: measures by design and scorer, and mean scores by feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias_bench.measures import MEASURES, Outcome, correlation, homogeneity, mean_and_error

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias_bench.study import Design, Published, Study

FLAT = "homogeneity"
"""Name of the measure that is the p-value of equal means."""
CORRELATION = "correlation with "
"""Beginning of the names of measures that compare with a reference."""


@dataclass(frozen=True)
class Number:
    """One number of a study: its place in the tables, its value, and the published number beside it."""

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
        """Distance between our number and the published one, in joint standard errors; NaN if one is missing.

        A published number without a standard error is assumed to have ours.
        """
        if self.published is None or np.isinf(self.published.error):
            return np.nan
        their_error = self.standard_error if np.isnan(self.published.error) else self.published.error
        joint_error = np.hypot(self.standard_error, their_error)
        return float(abs(self.mean - self.published.value) / joint_error) if joint_error > 0 else np.nan


@dataclass(frozen=True, eq=False)
class Cell:
    """All trials of one design with one scorer.

    Parameters
    ----------
    design : Design
    label : str
        Name of the scorer in tables.
    features : tuple of str
    repeats : array of shape (n_trials,)
        Number of each trial. Trials of two scorers with the same number have the same data and model.
    values : array of shape (n_trials, n_features)
    rank, relevant : arrays of the same shape
    selected : array of the same shape, or None
    refusals : tuple of str
        Reasons why the scorer gave no scores in the other trials.
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
        """Return the value of one measure in every trial."""
        score = np.maximum(self.values, 0) if self.design.clip else self.values
        selected = [None] * len(score) if self.selected is None else self.selected
        outcomes = (Outcome(*trial) for trial in zip(score, self.rank, self.relevant, selected, strict=True))
        return np.array([MEASURES[measure].of(outcome) for outcome in outcomes], dtype=np.float64)


def cells(study: Study, trials: list[dict[str, Any]], labels: dict[str, list[str]]) -> list[Cell]:
    """Return the trials by design and scorer, in the order of the study and of the `labels` of each design."""
    result = []
    for design in study.designs:
        of_design = sorted((trial for trial in trials if trial["design"] == design.name), key=lambda t: t["repeat"])
        for label in labels.get(design.name, []):
            attempted = [trial for trial in of_design if label in trial["scores"]]
            scored = [trial for trial in attempted if "values" in trial["scores"][label]]
            refusals = {trial["scores"][label]["refused"] for trial in attempted if trial not in scored}
            if not attempted:
                continue
            selected = [trial["scores"][label]["selected"] for trial in scored]
            result.append(
                Cell(
                    design=design,
                    label=label,
                    features=tuple(attempted[0]["features"]),
                    repeats=np.array([trial["repeat"] for trial in scored], dtype=np.int64),
                    values=np.array([trial["scores"][label]["values"] for trial in scored], dtype=np.float64),
                    rank=np.array([trial["rank"] for trial in scored]),
                    relevant=np.array([trial["relevant"] for trial in scored], dtype=bool),
                    selected=np.array(selected, dtype=bool) if selected and None not in selected else None,
                    refusals=tuple(sorted(refusals)),
                )
            )
    return result


def summarise(study: Study, cells: list[Cell]) -> list[Number]:
    """Return all numbers of a study, each with the published one beside it; methods of the paper only come last."""
    published = {(number.table, number.column, number.scorer, number.measure): number for number in study.published}
    by_label = {(cell.design.name, cell.label): cell for cell in cells}
    numbers = []
    for cell in cells:
        where = (cell.design.table, cell.design.column, cell.label)
        for measure in study.measures:
            judged = mean_and_error(cell.judged(measure))
            if judged[2] or (*where, measure) in published:
                numbers.append(Number(*where, measure, "", *judged, published.pop((*where, measure), None)))
        for reference in study.references:
            other = by_label.get((cell.design.name, reference))
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
    shown = {(cell.design.table, cell.design.column) for cell in cells}
    for only_theirs in published.values():
        if (only_theirs.table, only_theirs.column) in shown:
            where = (only_theirs.table, only_theirs.column, only_theirs.scorer)
            numbers.append(Number(*where, only_theirs.measure, "", np.nan, np.nan, 0, only_theirs))
    return numbers


def to_frame(numbers: list[Number]) -> pd.DataFrame:
    """Return the numbers as a table with one row per number."""
    import pandas as pd

    names = ("table", "column", "scorer", "measure", "feature", "mean", "standard_error", "trials")
    rows = [
        {name: getattr(number, name) for name in names}
        | {"published": number.published.value if number.published else np.nan}
        | {"published_by": number.published.by if number.published else ""}
        for number in numbers
    ]
    return pd.DataFrame(rows)
