"""Scores over folds: a picture with a point for each fold and the mean with its interval, and the page with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.report.figures import (
    MOST_DRAWN,
    MUTED,
    draw_by_verdict,
    name_rows,
    new_axes,
    refuse_axes,
    refuse_most,
    settings,
)
from debias.results.report.pages import Styles, picture, render
from debias.results.sentences import MOST_IN_HEADLINE, enumerated, headline_of_folds
from debias.results.tables import DASH, Table, cells
from debias.results.vocabulary import Verdict
from debias.text import escaped

if TYPE_CHECKING:
    import pandas as pd

    from debias.results.folds_audit import FoldsAudit

MOST_FOLDS = 50
"""The numbers of the picture have this many folds."""

REACH = 0.28
"""The points of a feature lie within this distance of its line, those of the first fold on top."""


def draw_folds(axes: Any, scores: pd.DataFrame, table: pd.DataFrame, most: int = MOST_DRAWN) -> None:
    """Draw the score of each fold as a hollow point, and the mean with its interval in the style of the verdict.

    Parameters
    ----------
    axes : matplotlib Axes
    scores : DataFrame
        Index: names of folds. Columns: features, in any order. NaN if a fold has no score.
    table : DataFrame
        Index: the same features, the most important first. Columns ``mean``, ``low``, ``high`` (NaN if there is no
        interval) and ``verdict`` ("informative", "indistinguishable" or "untested").
    most : int
        Draw at most this many features. A last line says how many others there are, and the range of their means.

    Notes
    -----
    The points of one fold lie at the same height in every line, so a fold that differs from the others can be seen.
    """
    refuse_most(most)
    drawn, n_left = table.iloc[:most], max(0, len(table) - most)
    of_drawn = scores.iloc[:, scores.columns.get_indexer(drawn.index)].to_numpy(dtype=np.float64)  # (n_folds, n_drawn)
    place = np.arange(len(drawn))
    beside = np.linspace(-REACH, REACH, len(scores)) if len(scores) > 1 else np.zeros(1)
    axes.plot(
        of_drawn.ravel(),
        np.add.outer(beside, place).ravel(),
        "o",
        mfc="none",
        mec=MUTED,
        ms=3.5 if len(scores) <= 10 else 2.5,
        mew=0.8,
        label="one fold",
    )
    mean, verdicts = drawn["mean"].to_numpy(dtype=np.float64), drawn["verdict"].to_numpy(dtype=object)
    low, high = (drawn[side].to_numpy(dtype=np.float64) for side in ("low", "high"))
    draw_by_verdict(axes, verdicts, place, (low, high), mean, {v: f"mean, {v.phrase}" for v in Verdict})
    axes.vlines(0, -0.5, len(drawn) - 0.5, color=MUTED, lw=1, zorder=1)
    left = table["mean"].to_numpy(dtype=np.float64)[most:]
    about_left = f"means from {np.nanmin(left):z.3g} to {np.nanmax(left):z.3g}" if np.isfinite(left).any() else ""
    name_rows(axes, list(drawn.index), n_left, about_left)
    axes.locator_params(axis="x", nbins=6)


def folds_on_axes(axes: Any, scores: pd.DataFrame, table: pd.DataFrame, unit: str, most: int) -> Any:
    """Draw on the user's axes, or on new pyplot axes of sufficient height, and return them."""
    refuse_axes(axes)
    own_figure = axes is None
    with settings():
        if axes is None:
            refuse_most(most)
            axes = new_axes(6.4, 1.4 + 0.28 * (min(most, len(table)) + (len(table) > most)))
        draw_folds(axes, scores, table, most)
        axes.set_xlabel(unit)
        if own_figure:  # from the left edge of the figure on: beside long names there is too little room above the axes
            axes.figure.legend(loc="outside upper left", ncols=3, frameon=False)
        else:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)  # points may be anywhere below
    return axes


def folds_page(audit: FoldsAudit, title: str | None = None) -> str:
    """Return the report of an audit of folds as one HTML page.

    Raises
    ------
    ImportError
        matplotlib or Jinja2 is not installed.
    """
    summary, first = audit.summary(), headline_of_folds(audit)
    styles = Styles()
    facts = [("folds", f"{len(audit.audits):,}"), ("features", f"{len(audit.feature_names):,}")]
    if audit.tested:
        facts += [(Verdict.INFORMATIVE.text, f"{audit.which(Verdict.INFORMATIVE).sum():,}")]
    if audit.rank_stability is not None:
        facts += [("rank correlation of two folds", f"{audit.rank_stability:z.2f}")]
    return render(
        "findings.html.j2",
        styles,
        title=title or f"Which features matter in {len(audit.audits):,} folds of {audit.models_in_words}",
        headline=first,
        sentences=[sentence for sentence in summary if sentence != first],
        facts=facts,
        warnings=audit.warnings,
        figures=[_figure(audit, styles)],
        tables=[
            {
                "name": "features",
                "heading": "All features",
                "table": _table(audit.to_frame()),
                "caption": f"Sorted by share of the mean score.{_about_counts(audit)}",
            },
            {
                "name": "folds",
                "heading": "Folds",
                "table": _table_of_folds(audit),
                "caption": "Each model was scored on the rows that were held out from it.",
            },
            *_interactions(audit),
            *_loss(audit),
        ],
        reading=_reading(),
        provenance=_provenance(audit),
    )


def _reading() -> tuple[tuple[str, str], ...]:
    informative, noise = Verdict.INFORMATIVE.text, Verdict.INDISTINGUISHABLE.text
    return (
        ("Mean", "is the mean of the scores of the folds. For noise it is 0 on average."),
        (
            "The interval",
            "is about the mean score of models that are trained on as many rows, over other data sets of the same "
            "kind. It allows for the training rows that folds share, and it is approximate.",
        ),
        (
            informative.capitalize(),
            "means that the evidence of all folds together is too strong for noise, at the stated error rate. "
            f"{noise.capitalize()} does not prove that a feature is noise: with more rows it may become {informative}.",
        ),
        ("Verdicts", "are about dependence, not causes, and about models of this kind on these rows."),
    )


def _figure(audit: FoldsAudit, styles: Styles) -> dict[str, Any]:
    table = audit.to_frame()
    n_left = max(0, len(table) - MOST_DRAWN)
    some = f" Shown are the {MOST_DRAWN} of {len(table):,} features with the largest share." if n_left else ""
    known = table["low"].notna().any()
    caption = (
        "Scores of each feature: one hollow point for each fold (the first fold on top), and the mean over folds"
        f"{' with its 95% interval' if known else ''}, whose colour and marker show the verdict."
        f"{_interval_or_mark(table)}{some}"
    )
    drawn = list(table.index[:MOST_DRAWN])
    numbers = audit.scores[drawn][:MOST_FOLDS]
    more = f"; the first {MOST_FOLDS} folds" if len(audit.audits) > MOST_FOLDS else ""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        draw_folds(axes, audit.scores, table)
        axes.set_xlabel(audit.first.tested_scores.unit)

    return picture(
        "folds",
        "Scores over folds",
        caption,
        styles,
        (9.6, 1.3 + 0.25 * (len(drawn) + bool(n_left))),
        draw,
        legend_columns=3,
        table=Table.of_cells(
            {"feature": drawn}
            | {
                escaped(str(fold)): cells("score", row, DASH)
                for fold, row in zip(numbers.index, numbers.to_numpy(), strict=True)
            }
        ).to_html(),
        about_table=f"Scores of the features shown in each fold{more}",
    )


def _interval_or_mark(table: pd.DataFrame) -> str:
    """Return why intervals and marks differ, with a blank before it, if they do for any feature that is drawn."""
    drawn = table.iloc[:MOST_DRAWN]
    judged = drawn["low"].notna() & (drawn["verdict"] != Verdict.UNTESTED.value)
    differs = judged & ((drawn["low"] > 0) != (drawn["verdict"] == Verdict.INFORMATIVE.value))
    if not differs.any():
        return ""
    return (
        f" Interval and mark differ for {enumerated(list(map(str, drawn.index[differs])), MOST_IN_HEADLINE)}: an "
        "interval is about the mean score over other data sets, and the mark is from a test of all folds together "
        f"with another statistic, which allows for all {len(table):,} features. Go by the mark."
    )


def _about_counts(audit: FoldsAudit) -> str:
    """Return what the column of numbers of folds means, with a blank before it; "" if the table does not have it."""
    if not audit.tested:
        return ""
    calls = f"whose own audit calls the feature {Verdict.INFORMATIVE.text}"
    return f" “in folds” is the number of folds {calls}, of those that were tested."


def _table(table: pd.DataFrame) -> dict[str, Any]:
    columns = {"feature": list(map(str, table.index))}
    columns |= {
        heading: cells(name, table[name].to_numpy()) for name, heading in (("share", "share"), ("mean", "mean"))
    }
    if table["low"].notna().any():
        low, high = (cells("mean", table[side], DASH) for side in ("low", "high"))
        columns["95% interval"] = [f"{one} to {other}" for one, other in zip(low, high, strict=True)]
    columns["rank"] = cells("rank", table["rank"].to_numpy())
    ranks = zip(table["highest_rank"], table["lowest_rank"], strict=True)
    columns["ranks in folds"] = [f"{one:,}" if one == other else f"{one:,} to {other:,}" for one, other in ranks]
    if table["p_adjusted"].notna().any():  # otherwise nothing was tested
        informative, n_folds = cells("informative_folds", table["informative_folds"], DASH), int(table["folds"].iloc[0])
        columns["in folds"] = [one if one == DASH else f"{one} of {n_folds:,}" for one in informative]
        columns["adjusted p"] = cells("p_adjusted", table["p_adjusted"], DASH)
    columns["verdict"] = cells("verdict", table["verdict"])
    return Table.of_cells(columns).to_html()


def _table_of_folds(audit: FoldsAudit) -> dict[str, Any]:
    each = list(audit.audits.values())
    return Table.of_cells(
        {
            "fold": list(audit.audits),
            "training rows": ["not known" if n is None else f"{n:,}" for n in audit.n_train],
            "held-out rows": [f"{one.tested_scores.n_rows:,}" for one in each],
            Verdict.INFORMATIVE.text: [
                f"{one.which(Verdict.INFORMATIVE).sum():,}" if one.tested else Verdict.UNTESTED.phrase for one in each
            ],
        }
    ).to_html()


def _interactions(audit: FoldsAudit) -> list[dict[str, Any]]:
    if audit.interactions is None:
        return []
    return [
        {
            "name": "interactions",
            "heading": "Interactions",
            "table": audit.interactions.to_table().to_html(),
            "caption": "Means over folds, weighted by their rows, and one test of all folds together. Confirmed ones "
            "first, then by score.",
        }
    ]


def _loss(audit: FoldsAudit) -> list[dict[str, Any]]:
    if audit.loss is None:
        return []
    frame, folds, metric = audit.loss.to_frame(), audit.loss.of_folds(), audit.loss.metric
    columns = {"feature": list(map(str, frame.index))}
    columns |= {
        heading: cells("saved_after", frame[name].to_numpy(), DASH)
        for name, heading in (
            ("saved", "saved"),
            ("standard_error", "standard error"),
            ("lowest", "least in a fold"),
            ("highest", "most in a fold"),
        )
    }
    columns["costs more in"] = [escaped(text) or DASH for text in frame["costs_more_in"]]
    of_folds = {"fold": list(map(str, folds.index))} | {
        heading: cells("saved_after", folds[name].to_numpy(), DASH)
        for name, heading in (("loss", metric), ("error", "standard error"), ("base", "of a constant"))
    }
    of_folds["above the others"] = cells("cost", folds["above_others"].to_numpy(), DASH)
    of_folds["adjusted p"] = cells("p_adjusted", folds["p_adjusted"].to_numpy(), DASH)
    return [
        {
            "name": "loss",
            "heading": "What features save",
            "table": Table.of_cells(columns).to_html(),
            "caption": f"In the unit of the {metric}, means over folds, the largest first. The loss of a constant "
            "less all of them is the loss. “costs more in”: folds that are worse than the others, in which the feature "
            "saves less than elsewhere, beyond chance.",
        },
        {
            "name": "loss_of_folds",
            "heading": "The loss of each fold",
            "table": Table.of_cells(of_folds).to_html(),
            "caption": "Standard errors are over the rows of a fold, with its model as it is.",
        },
    ]


def _provenance(audit: FoldsAudit) -> list[tuple[str, str]]:
    first = audit.first.tested_scores.settings
    facts = {
        "model": first["model"],
        "version of its library": first["library_version"],
        "rows": audit.rows_in_words,
        "scores": audit.tested_scorer,
        **{
            f"test: {name}".replace("_", " "): value
            for name, value in audit.test.items()
            if not isinstance(value, list)
        },
        **({} if audit.tested else {"not tested because": audit.untested_because}),
        **({} if audit.no_error_because is None else {"no standard error because": audit.no_error_because}),
        "seed": "none" if first["seed"] is None else first["seed"],
        "version of debias": first["debias_version"],
    }
    return [(name, str(value)) for name, value in facts.items()]
