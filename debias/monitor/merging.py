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
    number, repeated, unlabelled = 0, list[str | None](), list[str]()
    for series in source.content.series():
        trees = source.content.blob("series", "trees", series.id)
        own = target.series_of(series.digest)
        if own is None:
            own = target.add_series(series.digest, None, trees)
        label = series.given_label
        if label is not None and own.given_label is None and not target.take_label(own, label):
            unlabelled.append(
                f"{own.label!r} stays without a label: {label!r}, its label in {source.content.path}, is that of "
                f"another model in {target.content.path}"
            )
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
                if target.put(own, moment, part.part, state, notes, replace, source=source.content.path):
                    number += 1
                    repeated.append(target.repeated(own, moment, part.part, state))
    told = [text for text in repeated if text is not None]
    if unlabelled:  # before the first text, since each of the others is for one more part
        told[:1] = ["; ".join([*unlabelled, *told[:1]])]
    return number, told
