"""Pictures and the page of a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.errors import HistoryError
from debias.monitor.times import shown_index

if TYPE_CHECKING:
    import pandas as pd

    from debias.monitor.history import History
    from debias.results.changes import Changes


def drawn(history: History, window: Any, kind: str, most: int | None, changes: Changes | None) -> Any:
    """Return a new pyplot figure of a history; see ``History.plot``."""
    from debias.results.report import history as pictures
    from debias.results.report.drawn import refuse_most
    from debias.results.report.figures import settings
    from debias.results.report.needs import require_matplotlib

    if kind not in ("lines", "strip"):
        raise ValueError(f"kind={kind!r} is not one of 'lines', 'strip'")
    most = (pictures.MOST_IN_HISTORY if kind == "lines" else pictures.MOST_IN_STRIP) if most is None else most
    refuse_most(most)
    require_matplotlib()
    import matplotlib.pyplot as plt

    scores, series = _scores(history, window), list(history.periods["series"])
    n_drawn = min(most, scores.shape[1])
    with settings():
        if kind == "strip":
            figure, axes = plt.subplots(figsize=pictures.size_of_strip(n_drawn), layout="constrained")
            pictures.draw_strip(axes, scores, series, most)
            return figure
        figure = plt.figure(figsize=pictures.size_of_history(n_drawn), layout="constrained")
        errors, recent = history.standard_errors(window), _recent(scores, series, changes)
        pictures.draw_history(figure, scores, errors, series, most, verdicts=_verdicts(changes), recent=recent)
    return figure


def page(history: History, window: Any, changes: Changes | None, title: str | None) -> str:
    """Return the page of a history; see ``History.to_html``."""
    from debias.results.report.history_page import history_page

    scores, periods = _scores(history, window), history.periods
    return history_page(
        scores,
        history.standard_errors(window),
        periods,
        history.models,
        window=None if window is None else f"{window} periods" if isinstance(window, int) else str(window),
        changes=changes,
        recent=_recent(scores, list(periods["series"]), changes),
        title=title,
    )


def _scores(history: History, window: Any) -> pd.DataFrame:
    scores = history.scores(window)
    if scores.empty:
        raise HistoryError(f"there is nothing to draw: there is no period in {history.path}")
    return scores


def _verdicts(changes: Changes | None) -> dict[str, str] | None:
    if changes is None or not changes.compared:
        return None
    return dict(zip(changes.feature_names, changes.verdict, strict=True))


def _recent(scores: pd.DataFrame, series: list[str], changes: Changes | None) -> tuple[int, int] | None:
    """Return the positions of the first and last recent period of the changes."""
    if changes is None or not changes.compared:
        return None
    position = {
        at: k
        for k, (at, label) in enumerate(zip(shown_index(scores.index), series, strict=True))
        if label == changes.series
    }
    first, last = (position.get(str(at)) for at in (changes.recent.first, changes.recent.last))
    return None if first is None or last is None else (first, last)
