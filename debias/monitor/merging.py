"""Merging of two histories: the parts of one are added to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from debias.errors import HistoryError

if TYPE_CHECKING:
    from debias.monitor.records import Records


def merged(source: Records, target: Records, replace: bool) -> tuple[int, list[str]]:
    """Add all parts of a source to a target, and return how many were added or replaced, and what to warn of.

    Parameters
    ----------
    source, target : Records
    replace : bool
        Whether parts of the source replace those of the target that have other rows.

    Raises
    ------
    HistoryError
        As for ``History.merge``.
    """
    number, repeated = 0, list[str | None]()
    for series in source.content.series():
        trees = source.content.blob("series", "trees", series.id)
        own = target.series_of(series.digest)
        if own is None:
            own = target.add_series(series.digest, series.given_label, trees)
        elif series.given_label is not None and own.given_label is None:
            target.take_label(own, series.given_label)
        one, other = source.trees(series), target.trees(own)
        if one.ensemble.feature_names != other.ensemble.feature_names or one.grouping.names != other.grouping.names:
            raise HistoryError(
                f"the columns of {series.label!r} have other names in {source.content.path} than in "
                f"{target.content.path}, so their scores cannot be put side by side"
            )
        for period in source.content.periods(series.id):
            moment = period.moment if period.kind != "label" else period.moment.without_key
            for part in source.content.parts(period.id):
                state, notes = source.state(series, period, part)
                if target.put(own, moment, part.part, state, notes, replace):
                    number += 1
                    repeated.append(target.repeated(own, moment, part.part, state))
    return number, [text for text in repeated if text is not None]
