"""How the loss changed between two windows: a picture from the loss before to the recent one, and its table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.report.figures import (
    MUTED,
    NORMAL_95,
    name_rows,
    new_axes,
    refuse_axes,
    refuse_most,
    settings,
)
from debias.results.report.pages import picture
from debias.results.tables import DASH, Table
from debias.results.vocabulary import GREY, LossVerdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.results.changes import Changes
    from debias.results.loss_change import LossChange, PartOfLoss
    from debias.results.report.pages import Styles

MARGIN = 0.04
"""Room beside the bars on both sides, as a part of the width of the axes."""
MOST_BARS = 12
"""A picture shows at most this many features, those whose cost changed most."""
OF_TABLE = {
    "cost": "costs more",
    "error": "standard error",
    "rows_cost": "by the rows",
    "response_cost": "by the response",
    "saved_before": "saved before",
    "saved_after": "saved recently",
    "p_adjusted": "adjusted p",
}
"""Columns of numbers of the table, and their headings."""
SINCE = {"since": "since", "cost_since": "costs more since then"}
"""Further columns with any number of looks."""
READING = (
    (
        "Costs more",
        "means that the splits on the feature save less loss than before, by more than chance. Its values may be "
        "broken, the response may depend on it in another way, or rows came of which the model has seen few. Features "
        "that go together with it may share its cost, and be named although nothing is wrong with them.",
    ),
    (
        "Base",
        "is the loss of one constant prediction. It changes if the response became harder to predict, or lies "
        "elsewhere.",
    ),
)


@dataclass(frozen=True, eq=False)
class Bars:
    """What is drawn of two losses and the parts of their difference.

    Parameters
    ----------
    metric : str
    loss, base : PartOfLoss
    feature_names : tuple of str
    cost, error : array of shape (n_features,)
    colours : sequence of str
        Of each feature.
    ends : (str, str)
        What the two losses are called.
    """

    metric: str
    loss: PartOfLoss
    base: PartOfLoss
    feature_names: tuple[str, ...]
    cost: NDArray[np.float64]
    error: NDArray[np.float64]
    colours: Sequence[str]
    ends: tuple[str, str]

    @classmethod
    def of(cls, loss: LossChange) -> Bars:
        """Return the bars of a change over time. Features that cost more beyond chance are orange, all others grey."""
        cost, error = loss.statistics["cost"], loss.statistics["error"]
        colours = [each.display.colour for each in loss.verdict]
        return cls(loss.metric, loss.loss, loss.base, loss.feature_names, cost, error, colours, ("before", "recently"))

    @property
    def intervals(self) -> str:
        """The clause of a caption about the intervals, with a comma before it; "" if no bar has one."""
        known = np.isfinite([self.base.error, *self.error]).any()
        return f", with 95% intervals of each {'change' if self.ends[0] == 'before' else 'difference'}" if known else ""

    def height(self, most: int = MOST_BARS) -> float:
        """Return the height of the picture in inches, with this many features at most."""
        return 1.4 + 0.24 * (min(len(self.feature_names), most + 1) + 3)

    def draw(self, axes: Any, most: int = MOST_BARS) -> None:
        """Draw bars from one loss to the other: the base, and each feature.

        Parameters
        ----------
        axes : matplotlib Axes
        most : int
            Draw at most this many features, those with the largest parts. A bar stands for the others together.
        """
        refuse_most(most)
        cost, error, base = self.cost, self.error, self.base
        order = np.argsort(-np.abs(cost), kind="stable")
        drawn, others = order[:most], order[most:]
        drawn = drawn[np.argsort(-cost[drawn], kind="stable")]
        names = [self.ends[0], "base", *(self.feature_names[k] for k in drawn)]
        steps, errors = [base.change, *cost[drawn]], [base.error, *error[drawn]]
        colours = [GREY, *(self.colours[k] for k in drawn)]
        if others.size:
            names.append(f"{others.size:,} others")
            steps, errors, colours = [*steps, cost[others].sum()], [*errors, np.nan], [*colours, GREY]
        begin = self.loss.before + np.concatenate([[0.0], np.cumsum(steps)[:-1]])
        place = np.arange(1, len(steps) + 1)
        axes.barh(place, steps, left=begin, color=colours, height=0.6, zorder=2)
        known = np.isfinite(errors)
        end = begin + steps
        axes.hlines(
            place[known],
            (end - NORMAL_95 * np.nan_to_num(errors))[known],
            (end + NORMAL_95 * np.nan_to_num(errors))[known],
            color=MUTED,
            lw=1,
            zorder=3,
        )
        for row, at in enumerate([self.loss.before, *end[:-1]]):  # from the end of a bar to the begin of the next one
            axes.vlines(at, row, row + 1, color=MUTED, lw=0.8, zorder=1)
        axes.plot([self.loss.before, self.loss.after], [0, len(steps) + 1], "o", color=MUTED, ms=6, zorder=3)
        axes.vlines(self.loss.after, len(steps), len(steps) + 1, color=MUTED, lw=0.8, zorder=1)
        axes.use_sticky_edges = False  # otherwise bars and dots touch the edges, and the dots are cut
        axes.margins(x=MARGIN)
        name_rows(axes, [*names, self.ends[1]], 0, "")
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel(self.metric)

    def on_axes(self, axes: Any, most: int) -> Any:
        """Draw on the user's axes, or on new pyplot axes of sufficient height, and return them."""
        refuse_axes(axes)
        refuse_most(most)
        with settings():
            if axes is None:
                axes = new_axes(6.8, self.height(most))
            self.draw(axes, most)
        return axes

    def figure(self, heading: str, caption: str, styles: Styles) -> dict[str, Any]:
        """Return the picture as the templates take it."""
        return picture(
            "loss", heading, caption, styles, (9.6, self.height()), lambda figure: self.draw(figure.subplots())
        )


def loss_on_axes(axes: Any, changes: Changes, most: int) -> Any:
    """Draw on the user's axes, or on new pyplot axes of sufficient height, and return them."""
    if changes.loss is None:
        raise ValueError(f"there is nothing to draw: {changes.no_loss_because or changes.not_compared_because}")
    return Bars.of(changes.loss).on_axes(axes, most)


def figure_of_loss(loss: LossChange, styles: Styles) -> dict[str, Any]:
    """Return the picture as the templates take it."""
    bars = Bars.of(loss)
    grey = "grey: the base, all other features, and those that were not tested"
    colours = f"Orange: features that cost more than before, beyond chance; {grey}."
    if np.isnan(loss.statistics["p_adjusted"]).all():
        colours = "No feature was tested for what it costs, so all bars are grey."
    caption = (
        f"From the {loss.metric} before to the recent one: what the base and each feature changed{bars.intervals}. "
        f"{colours}"
    )
    return bars.figure("How the loss changed", caption, styles)


def table_of_loss(loss: LossChange) -> dict[str, Any]:
    """Return the table of all features as the templates take it."""
    frame = loss.to_frame()
    own = OF_TABLE | (SINCE if loss.since else {})
    table = Table.of(frame, ("verdict", *own), own, unknown=DASH)
    of_base = loss.loss.part_in_words(loss.base.change)
    caption = (
        f"In the unit of the {loss.metric}. What a feature costs more than before is the sum of the parts by the rows "
        f"and by the response. The base changed by {of_base}. Features that the model does not use are "
        f"{LossVerdict.UNTESTED.text}, and so are all if there are too few periods."
    )
    if loss.since:
        caption += (
            " P-values hold at any look. Each is of all periods after the reference since the start beside it, one of "
            "those a week, which gives the smallest."
        )
    return {"name": "loss", "heading": "What changed the loss", "table": table.to_html(), "caption": caption}
