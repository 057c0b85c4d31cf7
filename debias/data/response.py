"""The response: the user's y as class codes, or as numbers minus a constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import CompositionError, RowsError, with_article
from debias.trees.mean_slopes import y_as_predicted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble
    from debias.warning_log import WarningLog


SMALLEST_SPREAD = 1e-70
"""Smallest range of y; its reciprocal is the largest. Beyond these, fourth powers overflow or underflow."""


@dataclass(frozen=True, eq=False)
class Response:
    """An encoded response.

    Parameters
    ----------
    codes : array of int64 of shape (n_rows,), or None
        Class of each row; None in regression.
    values : array of float64 of shape (n_rows, n_outputs), or None
        The values that node sums add: y minus the ensemble's `centre`, or r_0 of a boosted model or of an objective
        that compares rows. None for averaged classifiers, whose one-hot response is never written out.
    target : array of float64 of shape (n_rows, n_outputs), or None
        The response in the loss of a boosted model, or of an objective that compares rows, which may have other columns
        (times and events); None for other averaged ensembles.
    margin : array of float64 of shape (n_rows, n_outputs), or None
        The margin of each row before any tree, if the user gave one; otherwise it is the ensemble's `base`.
    """

    codes: NDArray[np.int64] | None
    values: NDArray[np.float64] | None
    target: NDArray[np.float64] | None = None
    margin: NDArray[np.float64] | None = None

    @property
    def is_scored(self) -> bool:
        """Whether there are `codes` or `values`, which scores are computed from."""
        return True

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        array = self.codes if self.codes is not None else self.values
        assert array is not None
        return len(array)

    def part(self, rows: slice | NDArray[np.int64]) -> Response:
        """Return the response of some rows."""
        return Response(
            codes=None if self.codes is None else self.codes[rows],
            values=None if self.values is None else self.values[rows],
            target=None if self.target is None else self.target[rows],
            margin=None if self.margin is None else self.margin[rows],
        )


class UnscoredResponse(Response):
    """The response of rows that have no gradient: y itself for metrics, and no `values`."""

    _why: str

    def __init__(self, why: str, target: NDArray[np.float64], margin: NDArray[np.float64] | None) -> None:
        for name, value in (("codes", None), ("target", target), ("margin", margin), ("_why", why)):
            object.__setattr__(self, name, value)

    @property
    def values(self) -> NDArray[np.float64]:
        """Raise a CompositionError that says why there are none, and which scorers need none."""
        raise CompositionError(self._why)

    @property
    def is_scored(self) -> bool:
        """Whether there are `values`: never."""
        return False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        assert self.target is not None
        return len(self.target)


def as_passed(response: Response, ensemble: TreeEnsemble) -> NDArray[Any]:
    """Return class codes, or the numbers that the user passed, of shape (n_rows,) for one number a row."""
    if response.codes is not None:
        return response.codes
    numbers = response.target
    if numbers is None:
        assert response.values is not None
        numbers = response.values + ensemble.centre
    return numbers[:, 0] if numbers.shape[1] == 1 else numbers


def encode(
    y: Any,
    ensemble: TreeEnsemble,
    n_rows: int,
    log: WarningLog | None = None,
    base_margin: Any = None,
    weight: NDArray[np.float64] | None = None,
    query: NDArray[np.int64] | None = None,
) -> Response:
    """Encode y for an ensemble.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_responses)
        Labels, or numbers, as the model was trained on.
    ensemble : TreeEnsemble
    n_rows : int
        Number of rows of X.
    log : WarningLog, optional
        Gets a warning about labels that may differ from those the model was trained on.
    base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        The margin from which a boosted model starts, for each row.
    weight : array of shape (n_rows,), optional
        Evaluation weights, for objectives that compare rows; ones by default.
    query : array of int64 of shape (n_rows,), optional
        Query of each row, numbered from 0, for rankers.

    Returns
    -------
    Response

    Raises
    ------
    RowsError
        `y` has another length, missing values, or labels that the model never saw; or `base_margin` does not fit.
    """
    _refuse_fields(y, ensemble)
    array = _columns(y, ensemble.n_responses, ensemble.objective.columns_in_words)
    if len(array) != n_rows:
        raise RowsError(f"y has {len(array)} entries, but X has {n_rows} rows")
    margin = None if base_margin is None else _margin(base_margin, ensemble, n_rows)
    if ensemble.classes is not None:
        return _encode_labels(array, ensemble, log, margin)
    if ensemble.class_sets is not None:
        return _encode_label_sets(array, ensemble.class_sets, ensemble)
    numbers = _numbers(array, ensemble)
    numbers = numbers if numbers.ndim == 2 else numbers[:, None]
    objective = ensemble.objective
    if ensemble.averaged and not objective.compares_rows:
        return Response(codes=None, values=numbers - ensemble.centre)
    target = objective.target_of(numbers, ensemble.n_outputs)
    unscored = objective.why_unscored(has_queries=query is not None)
    if unscored is not None:
        return UnscoredResponse(unscored, np.ascontiguousarray(target), margin)
    return _boosted(ensemble, None, target, margin, weight, query)


def warn_of_codes(ensemble: TreeEnsemble, n_rows: int, n_of_first: int, log: WarningLog) -> None:
    """Warn of labels that may have another coding than in training, if the model did not keep its labels."""
    if ensemble.classes is not None and not ensemble.labelled and n_rows >= 20 and not n_of_first:
        log.warn(
            f"y has no label 0, but this {ensemble.source} knows its classes only as 0 to {ensemble.classes.size - 1}: "
            "make sure that y has this coding"
        )


def as_predicted(ensemble: TreeEnsemble, output: NDArray[np.float64], base_margin: Any = None) -> Response:
    """Return the response that the model expects of rows: the one at which the slope of the loss is 0.

    Parameters
    ----------
    ensemble : TreeEnsemble
        With a loss of single rows.
    output : array of shape (n_rows, n_outputs)
        Mean of the leaves of averaged trees, or the sum of the leaves of boosted ones, without a start.
    base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        As for :func:`encode`.
    """
    margin = None if base_margin is None else _margin(base_margin, ensemble, len(output))
    if ensemble.averaged:
        return Response(codes=None, values=output + ensemble.base - ensemble.centre)
    last = output + (ensemble.base if margin is None else margin)
    return _boosted(ensemble, None, y_as_predicted(ensemble.objective, last), margin)


def _encode_labels(
    labels: NDArray[Any], ensemble: TreeEnsemble, log: WarningLog | None, margin: NDArray[np.float64] | None
) -> Response:
    classes = ensemble.classes
    assert classes is not None
    codes = _known_codes(labels, classes)
    if log is not None:
        warn_of_codes(ensemble, labels.size, int((codes == 0).sum()), log)
    if ensemble.averaged:
        return Response(codes=codes, values=None)
    if ensemble.n_outputs == 1:
        return _boosted(ensemble, codes, codes[:, None].astype(np.float64), margin)
    return _boosted(ensemble, codes, np.eye(ensemble.n_outputs)[codes], margin)


def _encode_label_sets(labels: NDArray[Any], class_sets: tuple[NDArray[Any], ...], ensemble: TreeEnsemble) -> Response:
    """Encode all responses as one-hot columns side by side; their covariances and errors add up."""
    one_hot = [
        np.eye(classes.size)[_known_codes(column, classes)]
        for column, classes in zip(labels.T, class_sets, strict=True)
    ]
    return Response(codes=None, values=np.concatenate(one_hot, axis=1) - ensemble.centre)


def _known_codes(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    refuse_missing(labels)
    unknown, codes = _codes(labels, classes)
    if len(unknown):
        raise RowsError(
            f"y has labels that the model never saw: {[_plain(label) for label in unknown[:5]]}; it knows "
            f"{[_plain(label) for label in classes[:10]]}. Pass y as the model was trained on."
        )
    return codes


def _boosted(
    ensemble: TreeEnsemble,
    codes: NDArray[np.int64] | None,
    target: NDArray[np.float64],
    margin: NDArray[np.float64] | None,
    weight: NDArray[np.float64] | None = None,
    query: NDArray[np.int64] | None = None,
) -> Response:
    """Return the response r_0 = -g(F_0): the negative gradient at the margin before any tree (methods, section 3)."""
    start = ensemble.base if margin is None else margin
    values = ensemble.objective.first_response(target, start, weight, query)
    if not np.isfinite(values).all():
        raise RowsError(
            "the gradient of the loss is not finite at the margin before any tree "
            f"({start.min():.6g} to {start.max():.6g}): y or base_margin is far from its values in training"
        )
    return Response(codes=codes, values=values, target=target, margin=margin)


def _margin(base_margin: Any, ensemble: TreeEnsemble, n_rows: int) -> NDArray[np.float64]:
    if ensemble.averaged:
        raise RowsError(
            f"base_margin is for boosted models only, and this is {with_article(ensemble.source)}; leave it out"
        )
    try:
        margin = np.array(base_margin, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RowsError(f"base_margin has values that are no numbers: {error}") from None
    try:
        margin = margin.reshape(n_rows, ensemble.n_outputs)
    except ValueError:
        raise RowsError(
            f"base_margin must have {ensemble.n_outputs} number(s) for each of {n_rows} rows, in the order of the rows"
        ) from None
    if not np.isfinite(margin).all():
        row = int(np.argmin(np.isfinite(margin).all(axis=1)))
        raise RowsError(f"base_margin has missing or infinite values, first in row {row}")
    return margin if ensemble.margin_replaces_base else margin + ensemble.base


def one_column(y: Any) -> NDArray[Any]:
    """Return a response in any container as one array of shape (n_rows,)."""
    return _columns(y, 1)


def _columns(y: Any, n_responses: int, in_words: str | None = None) -> NDArray[Any]:
    """Return y as an array of shape (n_rows,), or (n_rows, n_responses) if the model has several responses."""
    import narwhals.stable.v2 as nw

    if y is None:
        raise RowsError("y is missing; pass the response, as the model was trained on")
    if isinstance(y, str):
        raise RowsError(f"y is the text {y!r}: pass the response itself, one value per row")
    frame = nw.from_native(y, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        frame = frame.get_column(frame.columns[0]) if frame.shape[1] == 1 else frame
    if isinstance(frame, nw.DataFrame):
        array = np.array([frame.get_column(name).to_list() for name in frame.columns], dtype=object).T
    elif isinstance(frame, nw.Series):
        array = np.asarray(frame.to_list(), dtype=object) if frame.is_null().any() else frame.to_numpy()
    else:
        try:
            array = np.asarray(y.to_pylist() if hasattr(y, "to_pylist") else y)
        except ValueError:
            raise RowsError("y must have one value per row; its rows have different lengths") from None
    if array.dtype.names is not None:
        array = _time_and_event(array)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != (1 if n_responses == 1 else 2) or array.shape[1:] not in ((), (n_responses,)):
        wanted = "one value" if n_responses == 1 else f"{n_responses} values"
        described = f" ({in_words})" if in_words else ""
        raise RowsError(f"y must have {wanted} per row{described}; it has shape {array.shape}")
    return array


def _refuse_fields(y: Any, ensemble: TreeEnsemble) -> None:
    """Refuse a structured array for models of other responses than times and events in two columns."""
    how = ensemble.objective.instead_of_fields
    if how is None or getattr(getattr(y, "dtype", None), "names", None) is None:
        return
    raise RowsError(f"y is an array with fields, and this {ensemble.source} takes plain numbers or labels{how}")


def _time_and_event(y: NDArray[Any]) -> NDArray[np.float64]:
    """Return the columns time and event of a structured array, in which the event is the field of booleans."""
    names = y.dtype.names or ()
    events = [name for name in names if y.dtype[name].kind == "b"]
    if len(names) != 2 or len(events) != 1 or y.ndim != 1:
        raise RowsError(
            f"y has the fields {', '.join(names)}. A response with fields must have two: a boolean, which is True for "
            "an event, and the time of the event or of censoring"
        )
    time = names[1 - names.index(events[0])]
    return np.column_stack([y[time], y[events[0]]]).astype(np.float64)


def _numbers(array: NDArray[Any], ensemble: TreeEnsemble) -> NDArray[np.float64]:
    if array.dtype == object:
        import pandas as pd

        array = np.where(pd.isna(array), np.nan, array)  # pandas' NA is no float
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError):
        reason = (
            "knows only the numbers 0 and 1, not labels: encode y as in training"
            if ensemble.objective.name == "logistic"
            else "is a regression"
        )
        raise RowsError(f"y is not numeric (dtype {array.dtype}), but this {ensemble.source} {reason}") from None
    may_be_infinite = ensemble.objective.may_be_infinite
    finite = ~np.isnan(numbers) if may_be_infinite else np.isfinite(numbers)
    wrong = np.flatnonzero(~(finite if finite.ndim == 1 else finite.all(axis=1)))
    if wrong.size:
        raise RowsError(f"y is missing or infinite in {wrong.size} rows, the first at position {wrong[0]}; drop them")
    spread = float(np.ptp(numbers, axis=0).max()) if numbers.size and not may_be_infinite else 0.0
    if spread and not SMALLEST_SPREAD < spread < 1 / SMALLEST_SPREAD:
        raise RowsError(
            f"y spans {spread:.3g}. Scores grow with its square and their variances with its fourth power, which is "
            "outside the range of floats: train and score in another unit"
        )
    return numbers


def refuse_missing(labels: NDArray[Any]) -> None:
    """Raise a RowsError that says where labels or numbers are missing, if any are missing."""
    missing = labels != labels if labels.dtype.kind in "fc" else np.zeros(labels.size, dtype=bool)
    if labels.dtype.kind == "O":
        missing = np.array([label is None or _differs(label) for label in labels.tolist()], dtype=bool)
    wrong = np.flatnonzero(missing)
    if wrong.size:
        raise RowsError(f"y is missing in {wrong.size} rows, the first at position {wrong[0]}; drop those rows")


def _differs(label: Any) -> bool:
    """Return whether a label is not equal to itself: NaN, NaT, and pandas' NA, whose comparison is NA again."""
    different = label != label
    return bool(different) if isinstance(different, (bool, np.bool_)) else True


def _codes(labels: NDArray[Any], classes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the labels that are not in `classes`, and the position of every label in `classes`."""
    if not any({labels.dtype.kind, classes.dtype.kind} <= set(kinds) for kinds in ("biuf", "US", "M")):
        # Mixed types cannot be sorted. In a dictionary 1, 1.0 and True are equal, and "1" is different.
        position = {label: k for k, label in enumerate(classes.tolist())}
        codes = np.array([position.get(label, -1) for label in labels.tolist()], dtype=np.int64)
        unknown = list(dict.fromkeys(np.asarray(labels, dtype=object)[codes < 0].tolist()))
        return np.array(unknown, dtype=object), codes
    order = np.argsort(classes)
    place = np.searchsorted(classes[order], labels).clip(max=classes.size - 1)
    codes = order[place]
    wrong = classes[codes] != labels
    return np.unique(labels[wrong]), codes


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
