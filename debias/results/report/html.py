"""An audit as one self-contained HTML page: no script, nothing loaded, every name escaped."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.sentences import headline, procedure_in_words, z_that_is_found
from debias.results.console import cells
from debias.results.report import figures
from debias.results.report.svg import Styles, to_svg
from debias.text import shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.audit import Audit

NEEDS = "a report needs matplotlib and Jinja2: pip install debias-trees[report]"
MOST_IN_FIGURE = 30
MOST_IN_NOTEBOOK = 20
"""Features a notebook shows; the page has them all."""
TEST_IN_WORDS = {
    "method": "test: method",
    "alpha": "test: error rate",
    "error": "test: which error rate",
    "shrinkage": "test: shrinkage of small nodes",
    "n_independent": "test: independent rows, or blocks",
    "blocks": "test: rows in blocks",
    "n_permutations": "test: permutations",
    "stopped": "test: permutations ended because",
    "seed": "test: seed",
}


def page(audit: Audit, title: str | None = None) -> str:
    """Return the report of an audit.

    Parameters
    ----------
    audit : Audit
    title : str, optional
        What stands on top; the kind of model by default.

    Returns
    -------
    str
        One HTML file: works offline, in print, in dark and light.

    Raises
    ------
    ImportError
        matplotlib or Jinja2 is not installed.
    """
    return _render("page.html.j2", audit, title, most=None)


def fragment(audit: Audit) -> str:
    """Return what a notebook shows of an audit: the page without its frame, with the most important features."""
    return _render("fragment.html.j2", audit, None, most=MOST_IN_NOTEBOOK)


def _render(name: str, audit: Audit, title: str | None, most: int | None) -> str:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup

        styles = Styles()
        pictures = _figures(audit, styles, brief=most is not None)
    except ImportError as error:
        raise ImportError(f"{NEEDS} ({error})") from error
    environment = Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: shown(value) if type(value) is str else value,  # markup is no name
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = f"{_resource('style.css')}\n{styles.rules}\n"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return environment.get_template(name).render(
        title=title or f"Which features of this {audit.main.settings['model']} matter",
        headline=headline(audit),
        sentences=audit.summary(),
        facts=_facts(audit),
        figures=[{**each, "svg": Markup(each["svg"])} for each in pictures],
        table=_table(audit, _order(audit)[:most], every=most is None),
        provenance=_provenance(audit),
        warnings=audit.warnings,
        about_table=_about_table(audit),
        audit=audit,
        style=Markup(style),
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
    )


@cache
def _resource(name: str) -> str:
    return resources.files("debias.results.report").joinpath(name).read_text(encoding="utf-8")


def _facts(audit: Audit) -> list[tuple[str, str]]:
    facts = [("rows, " + audit.rows_in_words, f"{audit.main.n_rows:,}"), ("features", f"{audit.share.size:,}")]
    if audit.tested:
        facts.append(("informative", f"{audit.verdict.count('informative'):,}"))
        test = audit.main.details.get("test", {})
        error = {"fwer": "family-wise error", None: "error rate"}.get(test.get("error"), "false discoveries")
        facts += [(error, f"{100 * test['alpha']:g}%")] if "alpha" in test else []
    return facts


def _provenance(audit: Audit) -> list[tuple[str, str]]:
    found, test = audit.provenance, audit.main.details.get("test", {})
    told = {
        "model": found["model"],
        "trees": found["n_trees"],
        "version of its library": found["library_version"],
        "reported importance": found["reported"],
        "rows": f"{found['n_rows']:,} {audit.rows_in_words}",
        "status of the rows": found["status"],
        "what was found": found["detail"],
        "scores": ", ".join(audit.scores),
        **({} if audit.tested else {"not tested because": audit.untested_because}),
        **{TEST_IN_WORDS.get(name, f"test: {name}"): each for name, each in test.items() if not isinstance(each, list)},
        "seed": "none given" if found["seed"] is None else found["seed"],
        "version of debias": found["debias_version"],
        "fingerprint of the model": found.get("model_sha256", "not recorded"),
        "fingerprint of the data": found.get("data_sha256", "not recorded"),
    }
    return [(name, str(value)) for name, value in told.items()]


def _about_table(audit: Audit) -> str:
    reported = f"“reported” is the importance by {audit.reported_kind}, scaled to sum 1; "
    debiased = "“debiased” has the same unit" if audit.reported is not None else "“debiased” is scaled to sum 1"
    counts = "; “values” counts distinct values" if audit.n_values is not None else ""
    return f"Sorted by debiased share. {reported if audit.reported is not None else ''}{debiased}{counts}."


def _order(audit: Audit) -> NDArray[np.int64]:
    """Return the features by share, as the audit's own table has them."""
    return np.lexsort((-audit.main.values, -audit.share))


def _table(audit: Audit, which: NDArray[np.int64], every: bool = True) -> dict[str, Any]:
    """Return headings and rows of formatted text for some features, in the order given."""
    main, verdict = audit.main, audit.verdict
    columns: dict[str, list[str]] = {"feature": [shown(main.feature_names[k]) for k in which]}
    if audit.reported is not None:
        columns["reported"] = cells("reported", audit.reported[which])
    columns["debiased"] = cells("share", audit.share[which])
    if main.standard_error is not None:
        bounds = main.interval().to_numpy()[which] / (np.maximum(main.values, 0.0).sum() or 1.0)
        columns["95% interval"] = [f"{lower:z.1%} to {upper:z.1%}" for lower, upper in bounds]
    if main.z is not None and main.p_adjusted is not None:
        columns["z"] = cells("z", main.z[which])
        columns["adjusted p"] = cells("p_adjusted", main.p_adjusted[which])
    if audit.n_values is not None:
        columns["values"] = [f"{count:,}" for count in audit.n_values[which]]
    if every:
        columns |= {name: cells(name, scores.values[which]) for name, scores in audit.scores.items()}
    columns["verdict"] = [verdict[k] for k in which]
    return {
        "headings": list(columns),
        "rows": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "left_out": audit.share.size - len(which),
    }


def _figures(audit: Audit, styles: Styles, brief: bool) -> list[dict[str, Any]]:
    """Return the figures there is something for, each with what it says in words and its numbers as a table."""
    n_features = audit.share.size
    n_shown = min(MOST_IN_FIGURE, n_features)
    found = [
        _figure(*("shares", "How much", figures.draw_shares, audit, styles, 0.9 + 0.2 * n_shown), _about_shares(audit))
    ]
    if brief:
        return found
    if audit.main.z is not None:
        about = _about_evidence(audit)
        found.append(
            _figure(*("evidence", "How sure", figures.draw_evidence, audit, styles, 0.9 + 0.2 * n_shown), about)
        )
    if audit.reported is not None:
        about = _about_slopes(audit)
        found.append(_figure(*("slopes", "Before and after", figures.draw_slopes, audit, styles, 4.6), about))
    if audit.reported is not None and audit.n_values is not None:
        heading, about = "Importance and number of values", _about_values(audit)
        found.append(_figure(*("values", heading, figures.draw_values, audit, styles, 3.6), about))
    return found


def _about_shares(audit: Audit) -> str:
    interval = " with its 95% interval" if audit.main.standard_error is not None else ""
    about = f"Debiased share of each feature (filled){interval}"
    if audit.reported is not None:
        about += ", beside the share the model reports (hollow diamond)"
        if audit.main.rows != "train":
            about += ". If the share lies far to the left of the diamond, the model ranks the feature too high"
    return f"{about}.{_which(audit)}"


def _about_evidence(audit: Audit) -> str:
    law = figures.law_of_noise(audit)
    about = f"The test statistic z of each feature over the grey band in which 90% of noise would lie ({law})."
    if audit.main.threshold is None:
        return about + _which(audit)
    about += " The dashed line is what a single feature has to exceed to be found family-wise, all features considered;"
    if audit.main.details.get("test", {}).get("error") == "fwer":
        about += " those found by later steps may lie below it."
    else:
        about += f" the verdicts are of another procedure ({procedure_in_words(audit)}), so informative features may "
        about += "lie below it." if z_that_is_found(audit) is not None else "lie below it, and others above it."
    return about + _which(audit)


def _about_slopes(audit: Audit) -> str:
    n, few = audit.share.size, figures.MOST_IN_SLOPES
    some = f"the {few} features of the largest reported or debiased share, among themselves,"
    which = "each feature" if n <= few else some
    dashed = " Dashed lines are features that are indistinguishable from noise." if audit.tested else ""
    return f"Rank of {which} by what the model reports (left) and after debiasing (right).{dashed}"


def _about_values(audit: Audit) -> str:
    return (
        "Shares against the number of distinct values a feature has. Impurity-based importance grows with it, whether "
        f"or not the feature matters.{_correlations(audit)}"
    )


def _which(audit: Audit) -> str:
    """Say which features a figure shows, if these are not all."""
    n, largest = audit.share.size, "debiased" if audit.reported is None else "reported or debiased"
    if n <= MOST_IN_FIGURE:
        return ""
    return f" These are the {MOST_IN_FIGURE} features of the largest {largest} share; the table has all {n:,}."


def _figure(
    name: str, heading: str, draw: Any, audit: Audit, styles: Styles, height: float, caption: str
) -> dict[str, Any]:
    from matplotlib.figure import Figure

    with figures.settings(name):
        figure = Figure(figsize=(4.9, height + 0.5), layout="constrained")
        axes = figure.subplots()
        draw(audit, axes)
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False, fontsize=8.5)
        svg = to_svg(figure, name, heading, caption, styles)
    which = np.array(figures.most_important(audit, MOST_IN_FIGURE), dtype=np.int64)
    return {"name": name, "heading": heading, "caption": caption, "svg": svg, "table": _table(audit, which, False)}


def _correlations(audit: Audit) -> str:
    """Say how strongly shares rise with the number of values, where all vary."""
    from scipy.stats import rankdata

    def correlation(values: NDArray[np.float64]) -> float:
        ranks, counts = rankdata(values), rankdata(audit.n_values)
        if np.ptp(ranks) == 0 or np.ptp(counts) == 0:
            return float("nan")
        return float(np.corrcoef(ranks, counts)[0, 1])

    assert audit.reported is not None
    before, after = correlation(audit.reported), correlation(audit.share)
    if audit.share.size < 5 or np.isnan([before, after]).any():
        return ""
    return (
        f" The rank correlation of a share with the number of values is {before:z.2f} as reported and {after:z.2f} "
        "debiased."
    )
