"""The report of an audit: what its page shows, and its part for a notebook."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.answers import answers
from debias.results.performance import three_digits
from debias.results.report import figures
from debias.results.report.figures import HIGHEST, MOST_DRAWN, drawn_features
from debias.results.report.pages import Styles, packages_of_reports, picture, render
from debias.results.sentences import (
    MOST_IN_HEADLINE,
    doubts,
    enumerated,
    headline,
    on_unseen_rows,
    reports_anything,
    sufficient_z,
    test_description,
)
from debias.results.tables import Column, Table, rows_named
from debias.results.vocabulary import ERROR_RATES, Verdict
from debias.text import UNKNOWN, percent_in_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.audit import Audit

MOST_IN_NOTEBOOK = 20
"""A notebook shows this many features; the page has all of them."""
TEST_IN_WORDS = {
    "method": "test: method",
    "null_hypothesis": "test: null hypothesis of each feature",
    "alpha": "test: error rate",
    "error": "test: kind of error rate",
    "shrinkage": "test: shrinkage of small nodes",
    "n_independent": "test: independent rows, or blocks",
    "blocks": "test: rows in blocks",
    "n_permutations": "test: permutations",
    "response": "test: response in the test",
    "stopped": "test: reason to stop permuting",
    "seed": "test: seed",
}


def page(audit: Audit, title: str | None = None) -> str:
    """Return the report of an audit.

    Parameters
    ----------
    audit : Audit
    title : str, optional
        Title of the page. By default it names the kind of model.

    Returns
    -------
    str
        One HTML file. It works offline, in print, and in dark and light mode.

    Raises
    ------
    ImportError
        matplotlib or Jinja2 is not installed.
    """
    return _render("page.html.j2", audit, title, most=None)


def fragment(audit: Audit) -> str:
    """Return the audit as HTML for a notebook: part of the page, with the most important features only."""
    return _render("fragment.html.j2", audit, None, most=MOST_IN_NOTEBOOK)


def _render(name: str, audit: Audit, title: str | None, most: int | None) -> str:
    styles = Styles()
    with packages_of_reports():
        pictures = _figures(audit, styles, brief=most is not None)
    first = [*doubts(audit), headline(audit)][0]
    by_question = answers(audit) if most is None else {}
    said = {first, *(line for lines in by_question.values() for line in lines)}
    return render(
        name,
        styles,
        title=title or f"Which features of this {audit.tested_scores.settings['model']} matter",
        headline=first,
        answers=by_question,
        sentences=[sentence for sentence in audit.summary() if sentence not in said],
        facts=_facts(audit),
        figures=pictures,
        table=_table(audit, audit.strongest_first[:most], with_scores=most is None),
        provenance=_provenance(audit),
        warnings=audit.warnings,
        about_table=_about_table(audit),
        audit=audit,
    )


def _facts(audit: Audit) -> list[tuple[str, str]]:
    facts = [("rows, " + audit.rows_in_words, f"{audit.tested_scores.n_rows:,}"), ("features", f"{audit.share.size:,}")]
    performance = audit.performance
    if performance is not None and performance.metric is not None:
        facts += [(name, three_digits(value)) for name, value in performance.named_values()]
    if audit.tested:
        facts.append((Verdict.INFORMATIVE.text, f"{audit.which(Verdict.INFORMATIVE).sum():,}"))
        test = audit.tested_scores.details.get("test", {})
        error, _ = ERROR_RATES[test.get("error")]
        n_noise = audit.which(Verdict.INDISTINGUISHABLE).sum()
        if audit.unsupported_share is not None and 0 < n_noise < audit.share.size and reports_anything(audit):
            noise = Verdict.INDISTINGUISHABLE.text
            others = f"reported, {noise}" if audit.untested_features else "reported for the others"
            facts.append((others, percent_in_table(audit.unsupported_share)))
        if audit.untested_features and reports_anything(audit):
            facts.append((f"reported, {Verdict.UNTESTED.phrase}", percent_in_table(audit.untested_share)))
        facts += [(error, f"{100 * test['alpha']:g}%")] if "alpha" in test else []
    return facts


def _provenance(audit: Audit) -> list[tuple[str, str]]:
    provenance, test = audit.provenance, audit.tested_scores.details.get("test", {})
    facts = {
        "model": provenance["model"],
        "trees": provenance["n_trees"],
        "version of its library": provenance["library_version"],
        "reported importance": provenance["reported"],
        "rows": f"{provenance['n_rows']:,} {audit.rows_in_words}",
        "status of the rows": provenance["status"],
        "evidence": provenance["detail"],
        **_performance(audit),
        "scores": ", ".join(audit.scores),
        **({} if audit.tested else {"not tested because": audit.untested_because}),
        **{
            TEST_IN_WORDS.get(name, f"test: {name}"): value
            for name, value in test.items()
            if not isinstance(value, list)
        },
        "seed": "none" if provenance["seed"] is None else provenance["seed"],
        "version of debias": provenance["debias_version"],
        "fingerprint of the model": provenance.get("model_blake3", "not recorded"),
        "fingerprint of the data": provenance.get("data_blake3", "not recorded"),
    }
    return [(name, str(value)) for name, value in facts.items()]


def _performance(audit: Audit) -> dict[str, str]:
    """Return the performance of the model on these rows, and how sure it is that it is better than a constant."""
    performance = audit.performance
    if performance is None:
        return {}
    facts = {"performance on these rows": performance.in_words()}
    if performance.p_value is not None:
        p = "< 0.001" if performance.p_value < 0.001 else f"{performance.p_value:.3f}"
        facts["p-value: no better than a constant"] = p
    return facts


def _about_table(audit: Audit) -> str:
    parts = []
    if audit.reported is not None:
        parts.append(f"“reported” is the importance by {audit.reported_kind}, scaled to sum 1")
    if audit.reported_unseen is not None:
        parts.append(f"“on unseen rows” is the same importance, computed {on_unseen_rows(audit)}")
    other_unit = ", in another unit than the reported importance" if audit.reported is not None else ""
    parts.append(f"“debiased” is the score {audit.tested_scorer}, scaled to sum 1{other_unit}")
    if audit.n_values is not None:
        parts.append("“values” is the number of distinct values")
    return f"Sorted by debiased share. {'; '.join(parts)}."


def _table(audit: Audit, features: NDArray[np.int64], with_scores: bool = True) -> dict[str, Any]:
    """Return headings and rows of formatted text for some features, in their order."""
    scores = audit.tested_scores
    names = [scores.feature_names[k] for k in features]
    frame = rows_named(audit.to_frame(), names)
    of_test = ["z", "p_adjusted"] if scores.z is not None and scores.p_adjusted is not None else []
    shown_columns = [
        "finding",
        *(["dependence"] if audit.dependence is not None else []),
        *(["reported"] if audit.reported is not None else []),
        *(["reported_unseen"] if audit.reported_unseen is not None else []),
        "share",
        *of_test,
        *(audit.scores if with_scores else []),
    ]
    table = Table.of(frame, shown_columns, {"share": "debiased"})
    extra: dict[str, list[Column]] = {"share": []}
    bounds = figures.share_intervals(audit)
    if bounds is not None:
        title = "95% interval, splits fixed"
        intervals = [
            UNKNOWN if name in audit.untested_features else f"{lower:z.1%} to {upper:z.1%}"
            for name, (lower, upper) in zip(names, bounds[features], strict=True)
        ]
        extra["share"].append(Column(title, title, intervals))
    if audit.n_values is not None:
        last = of_test[-1] if of_test else "share"
        values = Column("values", "values", [f"{count:,}" for count in audit.n_values[features]])
        extra.setdefault(last, []).append(values)
    columns = [each for column in _with_reasons(table, audit) for each in (column, *extra.get(column.name, ()))]
    return Table(table.names, columns).to_html() | {"left_out": audit.share.size - len(features)}


def _with_reasons(table: Table, audit: Audit) -> list[Column]:
    """Return the columns of a table, in which the finding says why a feature was not tested."""
    reasons = audit.untested_features
    told = [f": {reasons[name]}" if name in reasons else "" for name in table.names.cells]
    return [
        replace(each, cells=[cell + reason for cell, reason in zip(each.cells, told, strict=True)])
        if each.name == "finding"
        else each
        for each in table.columns
    ]


def _figures(audit: Audit, styles: Styles, brief: bool) -> list[dict[str, Any]]:
    """Return the figures for which the audit has numbers, each with a caption and a table of its numbers."""
    drawn, n_left = drawn_features(audit)
    height = 0.9 + 0.2 * (len(drawn) + bool(n_left))
    pictures = [
        _figure("shares", "How much", figures.draw_shares, audit, styles, height, _about_shares(audit)),
    ]
    if brief:
        return pictures
    if audit.tested_scores.z is not None:
        about = _about_evidence(audit)
        pictures.append(_figure("evidence", "How sure", figures.draw_evidence, audit, styles, height, about))
    if audit.inflation is not None:
        about = _about_slopes(audit)
        most = figures.MOST_IN_SLOPES
        height = 1.4 + 0.2 * min(most, audit.share.size)
        pictures.append(
            _figure("slopes", "Reported, and on unseen rows", figures.draw_slopes, audit, styles, height, about, most)
        )
    if audit.inflation is not None and audit.n_values is not None:
        heading, about = "Importance and number of values", _about_values(audit)
        pictures.append(_figure("values", heading, figures.draw_values, audit, styles, 3.6, about))
    return pictures


def _about_shares(audit: Audit) -> str:
    interval = "" if figures.share_intervals(audit) is None else " with its 95% confidence interval (splits fixed)"
    about = f"Debiased share of each feature (filled marker){interval}"
    if audit.reported_unseen is not None:
        about += (
            f". The hollow diamond is the share that the model reports (by {audit.reported_kind}), and the grey "
            f"diamond the same figure {on_unseen_rows(audit)}: if it is far to the left of the hollow one, the model "
            "reports the feature too high. The debiased share has another unit than the diamonds"
        )
    return f"{about}.{_interval_or_mark(audit)}{_which(audit)}"


def _interval_or_mark(audit: Audit) -> str:
    """Return why intervals and marks differ, if they do for any feature that is shown."""
    drawn, differs = drawn_features(audit)[0], figures.interval_differs(audit)
    names = [audit.tested_scores.feature_names[k] for k in drawn if differs[k]]
    if not names:
        return ""
    return (
        f" Interval and mark differ for {enumerated(names, MOST_IN_HEADLINE)}: an interval is about the size of one "
        "score, and the mark is from a test with another statistic (z), which allows for all "
        f"{audit.share.size:,} features. Go by the mark."
    )


def _about_evidence(audit: Audit) -> str:
    noise, informative = figures.noise_distribution(audit), Verdict.INFORMATIVE.text
    about = f"The test statistic z of each feature. For noise, 90% of z would lie in the grey band ({noise})."
    if audit.tested_scores.threshold is None:
        return about + _which(audit)
    about += " The dashed line is the z that a single feature must exceed in a family-wise test of all features."
    if audit.tested_scores.details.get("test", {}).get("error") == "fwer":
        about += f" Later steps of the test have lower limits, so {informative} features may lie below the line."
    else:
        about += f" The verdicts come from another test ({test_description(audit)}), so {informative} features may lie "
        about += "below the line" + ("." if sufficient_z(audit) is not None else ", and other features above it.")
    return about + _which(audit)


def _about_slopes(audit: Audit) -> str:
    drawn, n_left = drawn_features(audit, figures.MOST_IN_SLOPES)
    some = f"{len(drawn)} of {audit.share.size:,} features, ranked among themselves,"
    which = some if n_left else "each feature"
    dashed = f" Dashed lines mark features that are {Verdict.INDISTINGUISHABLE.phrase}." if audit.tested else ""
    return (
        f"Rank of {which} by the reported importance ({audit.reported_kind}, left), and by the same importance "
        f"{on_unseen_rows(audit)} (right).{dashed}"
    )


def _about_values(audit: Audit) -> str:
    return (
        "Share of the reported importance (diamond), and of the same figure on unseen rows (filled marker), against "
        "the number of distinct values. Importance from training rows grows with this number, whether or not the "
        f"feature matters.{_correlations(audit)}"
    )


def _which(audit: Audit) -> str:
    """Return a sentence on which features a figure shows, if it does not show all."""
    (drawn, n_left), n_features = drawn_features(audit), audit.share.size
    if not n_left:
        return ""
    highest = f"the {HIGHEST} {'reported highest' if reports_anything(audit) else 'with the highest score'}"
    others = f"the {Verdict.INFORMATIVE.text} ones" if audit.tested else "those with a debiased share above 0"
    return (
        f" Shown are {len(drawn)} of {n_features:,} features: {highest}, and {others} (the strongest, if there "
        f"are more than {MOST_DRAWN}). The table has all {n_features:,}."
    )


def _figure(
    name: str,
    heading: str,
    draw: Any,
    audit: Audit,
    styles: Styles,
    height: float,
    caption: str,
    most: int = MOST_DRAWN,
) -> dict[str, Any]:
    return picture(
        name,
        heading,
        caption,
        styles,
        (4.9, height + 0.5),
        lambda figure: draw(audit, figure.subplots()),
        legend_columns=2,
        wide=False,
        about_table="The features shown, by debiased share",
        table=_table(audit, drawn_features(audit, most)[0], with_scores=False),
    )


def _correlations(audit: Audit) -> str:
    """Return the rank correlations of shares and numbers of values in a sentence, if both vary."""
    from scipy.stats import rankdata

    def correlation(values: NDArray[np.float64]) -> float:
        ranks, counts = rankdata(values), rankdata(audit.n_values)
        if np.ptp(ranks) == 0 or np.ptp(counts) == 0:
            return float("nan")
        return float(np.corrcoef(ranks, counts)[0, 1])

    assert audit.reported is not None
    assert audit.reported_unseen is not None
    before, after = correlation(audit.reported), correlation(audit.reported_unseen)
    if audit.untested_features or audit.share.size < 5 or np.isnan([before, after]).any():
        return ""
    return (
        f" The rank correlation between share and number of values is {before:z.2f} as reported and {after:z.2f} "
        "on unseen rows."
    )
