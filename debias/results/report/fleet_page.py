"""Many models as one HTML page: those first that a person should look at, with links to the pages of the models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.results.report.pages import Styles, render
from debias.results.tables import DASH
from debias.results.vocabulary import FleetVerdict
from debias.text import counted

if TYPE_CHECKING:
    from debias.results.fleet import Fleet, FleetLine

READING = (
    (
        "Loss and change",
        "are the mean loss in the recent window, and the difference from the reference. Each model has a loss and a "
        "unit of its own: do not compare them between models.",
    ),
    ("Rose, fell", "are said where the change is more than chance at the stated error rate."),
    ("Until", "is the last period of the model that came, also if it waits for its responses."),
    (
        "Waiting",
        "is the number of periods with rows that wait for their responses. They are in no loss and in no verdict.",
    ),
    (
        "The worst feature",
        "is the one to look at first: the one that costs most more loss than before, by more than chance, or one with "
        "another fault. Without one, no feature was found.",
    ),
    ("Missing", "is the number of periods that did not come since the recent window began, at their usual distance."),
    (
        FleetVerdict.NOTHING.text.capitalize(),
        "does not prove that nothing changed. With more rows a change may be found.",
    ),
    (
        FleetVerdict.NOT_JUDGED.text.capitalize(),
        "is no good news: the file cannot be read, or the periods do not tell.",
    ),
)


def fleet_page(fleet: Fleet, title: str | None = None) -> str:
    """Return many models as one HTML page.

    Raises
    ------
    ImportError
        Jinja2 is not installed.
    """
    headline, *sentences = fleet.summary()
    by_verdict = {each: [line for line in fleet.lines if line.verdict is each] for each in FleetVerdict}
    table = fleet.table(DASH, why=False).to_html()
    table["links"] = {fleet.name_of(line): line.page for line in fleet.lines if line.page}
    return render(
        "fleet.html.j2",
        Styles(),
        title=title or f"A fleet of {counted(len(fleet.lines), 'model')}",
        headline=headline,
        sentences=sentences,
        facts=[("models", f"{len(fleet.lines):,}"), *((each.text, f"{len(of):,}") for each, of in by_verdict.items())],
        headings=("Look at these", FleetVerdict.NOT_JUDGED.text.capitalize()),
        look=[_entry(fleet, line, [*line.reasons, *_open(line)]) for line in by_verdict[FleetVerdict.LOOK]],
        not_judged=[_entry(fleet, line, list(line.not_judged)) for line in by_verdict[FleetVerdict.NOT_JUDGED]],
        figures=(),
        table=table,
        caption="Sorted: those first that a person should look at.",
        reading=READING,
        provenance=[
            ("recent periods", fleet.recent),
            ("compared with", fleet.reference),
            ("error rate of each test, over all models", f"{100 * fleet.alpha:g}%"),
            ("looks that share it", fleet.looks_in_words),
        ],
    )


def _entry(fleet: Fleet, line: FleetLine, texts: list[str]) -> dict[str, Any]:
    known = [f"last period {line.last_period}"] if line.last_period else []
    known += [f"{counted(line.waiting, 'period')} waiting for responses"] if line.waiting else []
    known += [f"{counted(line.missing, 'period')} missing"] if line.missing else []
    return {"history": fleet.name_of(line), "page": line.page, "about": ", ".join(known), "texts": texts}


def _open(line: FleetLine) -> list[str]:
    return [f"{FleetVerdict.NOT_JUDGED.text}: {text}" for text in line.not_judged]
