"""Extraction of trees by an adapter, and the check that the trees predict what the library predicts."""

from __future__ import annotations

import inspect
import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasError, ExtractionError, PluginError, RowsError, UnsupportedModelError, with_article
from debias.hooks.registry import adapters_loaded, disabled_in_words, libraries, plugin_manager
from debias.positions import evenly_spaced
from debias.trees.ensemble import TreeEnsemble
from debias.trees.routing import LEAVES_TO_CHECK, REPORT, raw_output, route, rows_to_check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.table import Table

CLOSE = 1e-9
"""Largest relative error of outputs that are added up in float64: libraries add them up in another order."""
MOST_ODD, MOST_ODD_OF_MANY_TREES = 64, 32
"""Largest number of unusual rows that are chosen; fewer for more than 50 trees, because every row visits every tree."""
VALUES_SEEN = 2**19
"""Largest number of values in which unusual rows are searched: all of a small table, evenly spaced rows of others."""
ROWS_SEEN = 2**14
"""Largest number of rows that are searched."""


def verify_prediction(ensemble: TreeEnsemble, model: Any, table: Table, rows: NDArray[np.int64] | None = None) -> None:
    """Check that leaves and raw output of sample rows equal those of the library.

    First the leaves of encoded rows are compared, then the output with that of the library for the same rows as the
    user passed them: this shows mistakes of the encoding too. The library's output for encoded rows is asked for only
    if it does not predict for the user's rows, or predicts otherwise: it then tells where the mistake is.

    Parameters
    ----------
    ensemble : TreeEnsemble
    model : object
    table : Table
    rows : array of int64, optional
        The rows to compare. By default up to 64 unusual rows of the table, 32 if there are 100 trees or more, and
        evenly spaced rows: as many as make up 64 rows together, fewer for more than 50 trees, but at least 16.

    Raises
    ------
    ExtractionError
        A leaf or an output differs; the message says which.
    RowsError
        The library does not predict for these rows.
    """
    if rows is None:
        unusual = odd_rows(table, ensemble)
        rows = np.union1d(rows_to_check(ensemble, table.n_rows, unusual.size), unusual)
    X = table.matrix(ensemble, rows)
    ours = route(ensemble, X)
    seen = as_the_adapter_wants(ensemble, X)
    theirs = plugin_manager().hook.debias_leaves(model=model, ensemble=ensemble, X=seen)
    if theirs is None:
        raise _unchecked(ensemble)
    if ours.shape != theirs.shape or (ours != theirs).any():
        where = (
            f"row {rows[np.argwhere(ours != theirs)[0][0]]} in tree {np.argwhere(ours != theirs)[0][1]}"
            if ours.shape == theirs.shape
            else f"shapes {ours.shape} and {theirs.shape}"
        )
        raise ExtractionError(
            f"the extracted trees of this {ensemble.source} route rows to other leaves than the library does "
            f"({where}). {REPORT}"
        )
    output = raw_output(ensemble, ours, X)
    try:
        expected = native_output(model, ensemble, table, rows)
    except DebiasError:
        _verify_raw(ensemble, model, seen, output)
        raise
    if expected is not None and (gaps(ensemble, output, expected) <= 1).all():
        return
    _verify_raw(ensemble, model, seen, output)
    if expected is not None:
        raise _read_otherwise(ensemble, rows, output, expected)


def as_the_adapter_wants(ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> Any:
    """Return rows for the hooks that check the trees: the array, or a frame if the ensemble says so."""
    if not ensemble.rows_as_frame:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=list(ensemble.feature_names))


def gaps(ensemble: TreeEnsemble, output: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the difference between our raw output and the library's, per row; above 1 rounding cannot explain it."""
    if output.shape != expected.shape:
        return np.full(len(output), np.inf)
    precision = max(float(np.finfo(ensemble.output_dtype).eps), CLOSE)
    largest_step = float(max(ensemble.value.max(), -ensemble.value.min()))
    if ensemble.has_lines:
        return _gaps_of_lines(ensemble, output, expected, precision, largest_step)
    scale = np.abs(ensemble.base).max() + np.abs(expected).max() + largest_step
    difference: NDArray[np.float64] = np.abs(output - expected).max(axis=1)
    difference[np.isnan(difference)] = np.inf
    if scale == 0:  # a model that predicts 0 for every row
        return np.where(difference > 0, np.inf, 0.0)
    # One rounding error per tree is allowed.
    gap: NDArray[np.float64] = difference / (precision * scale * (4 + ensemble.n_trees))
    return np.where(np.isnan(gap), np.inf, gap)


def _gaps_of_lines(
    ensemble: TreeEnsemble,
    output: NDArray[np.float64],
    expected: NDArray[np.float64],
    precision: float,
    largest_step: float,
) -> NDArray[np.float64]:
    """Return what `gaps` does, row by row: the output of lines has no bounds, and may be infinite."""
    same = (output == expected) | (np.isnan(output) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        scale = np.abs(ensemble.base).max() + np.abs(expected) + largest_step
        gap = np.abs(output - expected) / (precision * scale * (4 + ensemble.n_trees))
    gap[np.isnan(gap)] = np.inf
    largest: NDArray[np.float64] = np.where(same, 0.0, gap).max(axis=1)
    return largest


def native_output(model: Any, ensemble: TreeEnsemble, table: Table, rows: NDArray[np.int64]) -> Any:
    """Return the library's prediction for rows as the user passed them; None if no adapter gives it.

    If the library does not take the user's container, or text instead of categories, it gets a pandas frame with the
    same values and labels.

    Raises
    ------
    RowsError
        The library takes neither.
    """
    predict = plugin_manager().hook.debias_predict_native
    refusal: Exception | None = None
    for in_container in (table.native, lambda rows: table.labelled(ensemble, rows)):
        X = in_container(rows)
        try:
            output = None if X is None or not _takes(ensemble, X) else predict(model=model, X=X)
        except DebiasError:
            raise
        except Exception as error:  # any error of the library is about these rows
            refusal = error
            continue
        if output is not None:
            return np.asarray(output, dtype=np.float64)
    if refusal is not None:
        reason = (str(refusal).strip() or type(refusal).__name__).splitlines()[0]
        raise RowsError(
            f"this {ensemble.source} does not predict for rows of X as they were passed: {reason}. Pass rows as the "
            "model takes them"
        ) from refusal
    return None


def _takes(ensemble: TreeEnsemble, X: Any) -> bool:
    """Whether the library of a model takes such a container: all take arrays, sparse matrices and pandas frames."""
    return ensemble.takes_tables or isinstance(X, np.ndarray) or hasattr(X, "tocsr") or hasattr(X, "iloc")


def _verify_raw(ensemble: TreeEnsemble, model: Any, seen: Any, output: NDArray[np.float64]) -> None:
    """Raise an ExtractionError if our output of encoded rows is not that of the library."""
    expected = plugin_manager().hook.debias_predict_raw(model=model, X=seen)
    if expected is None:
        raise _unchecked(ensemble)
    if not (gaps(ensemble, output, expected) <= 1).all():
        raise ExtractionError(
            f"the extracted trees of this {ensemble.source} predict otherwise than the library does (largest gap "
            f"{_largest(output, expected):.3g}). {REPORT}"
        )


def _unchecked(ensemble: TreeEnsemble) -> ExtractionError:
    return ExtractionError(
        f"the adapter of this {ensemble.source} does not return the leaves or the raw output of the library, so "
        "its trees cannot be checked"
    )


def _read_otherwise(
    ensemble: TreeEnsemble, rows: NDArray[np.int64], output: NDArray[np.float64], expected: NDArray[np.float64]
) -> ExtractionError:
    wrong = np.flatnonzero(~(gaps(ensemble, output, expected) <= 1))
    first = wrong[0]
    return ExtractionError(
        f"this {ensemble.source} predicts otherwise for X as it was passed than its trees do for the values that "
        f"debias reads from X: in {wrong.size} of {rows.size} rows compared, the first being row {rows[first]} "
        f"({_outputs(expected, first)} instead of {_outputs(output, first)}). The library reads some value of "
        "these rows in another way, for example a missing label, a category given as a code, or a whole number "
        "too large for a float. Pass X with the types the model was trained on"
    )


def _outputs(output: NDArray[np.float64], row: int) -> str:
    return ", ".join(f"{value:.6g}" for value in output[row, :3]) if row < len(output) else "nothing"


def _largest(output: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    return float(np.abs(output - expected).max()) if output.shape == expected.shape else np.inf


def trees_of(model: Any) -> TreeEnsemble:
    """Return the trees of a fitted model that is not a wrapper.

    Raises
    ------
    UnsupportedModelError
        No adapter recognises the model, or it cannot be audited.
    """
    ensemble: TreeEnsemble | None = plugin_manager().hook.debias_extract(model=model)
    if ensemble is not None and not isinstance(ensemble, TreeEnsemble):
        raise PluginError(
            f"debias_extract returned {with_article(type(ensemble).__name__)} for {model!r}, not a TreeEnsemble"
        )
    if ensemble is None:
        _refuse_what_is_no_model(model)
        kind = type(model)
        loaded = ", ".join(adapters_loaded()) or "none; install debias itself (pip install -e . in a checkout)"
        names = ", ".join(library.name for library in libraries())
        unknown = f"no adapter recognises {kind.__module__}.{kind.__qualname__}."
        if names:
            unknown += (
                " Supported are trees, ensembles of trees, and pipelines, searches and votes of them, of these "
                f"libraries: {names}."
            )
        unknown += f" Adapters loaded: {loaded}."
        disabled = disabled_in_words()
        raise UnsupportedModelError(f"{unknown} {disabled}." if disabled else unknown)
    return ensemble


def _refuse_what_is_no_model(passed: Any) -> None:
    """Refuse what stands in the place of a model by mistake, with what to type instead."""
    kind = with_article(type(passed).__name__)
    if passed is None:
        raise UnsupportedModelError("model is None: pass a fitted model")
    if isinstance(passed, type):
        raise UnsupportedModelError(f"{passed!r} is a class: pass a model, that is, a fitted instance of it")
    if isinstance(passed, (str, os.PathLike)):
        address = os.fspath(passed)
        step = "" if re.search(r"\W", address) else ", or the whole pipeline if this is the name of a step"
        raise UnsupportedModelError(
            f"{address!r} is an address, not a model: pass debias.load_model({address!r}){step}"
        )
    if isinstance(passed, dict) and "estimator" in passed:
        raise UnsupportedModelError(
            "these are results of a cross-validation, not a model: pass them to debias.audit_folds(cv_results, X, y)"
        )
    if isinstance(passed, (list, tuple, dict)):
        inside = [each for part in passed for each in (part if isinstance(part, tuple) else (part,))]
        if isinstance(passed, (list, tuple)) and any(isinstance(each, str) for each in inside):
            raise UnsupportedModelError(
                f"{kind} of steps of a pipeline is not a model: pass the whole pipeline, and X as the pipeline takes it"
            )
        raise UnsupportedModelError(
            f"{kind} of models is not a model: pass them one by one, or the models of a cross-validation to "
            "debias.audit_folds"
        )
    if inspect.ismethod(passed):
        raise UnsupportedModelError(
            f"model is the method {passed.__name__!r} of {with_article(type(passed.__self__).__name__)}: pass the "
            "model itself"
        )
    if hasattr(passed, "predict"):
        return
    if hasattr(passed, "read") and hasattr(passed, "close"):
        raise UnsupportedModelError("an open file is not a model: pass debias.load_model(path)")
    if hasattr(passed, "shape"):
        raise UnsupportedModelError(f"model is {kind}: pass the model first, then X and y")


def odd_rows(table: Table, ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Choose unusual rows for a comparison with the model's library.

    For columns of labels: rows with each kind of missing value, then with labels that the model never saw, then with
    the rarest labels. For columns of numbers: rows with a missing value, and with the smallest value, the largest value
    and the value nearest to zero. These include infinite values, values too large for a type, and zeros. If there are
    too many, rows that are unusual in several columns come first.

    Parameters
    ----------
    table : Table
        In the model's order.
    ensemble : TreeEnsemble

    Returns
    -------
    array of int64
        At most `MOST_ODD` rows, ascending; all of a small table.
    """
    most = min(MOST_ODD, max(MOST_ODD_OF_MANY_TREES, LEAVES_TO_CHECK // ensemble.n_trees))
    if table.n_rows <= most:
        return np.arange(table.n_rows)
    with_labels = np.array(list(dict.fromkeys(table.special_labels.values())), dtype=np.int64)[: most // 2]
    with_extremes = _with_extremes(table, ensemble)
    others = with_extremes[~np.isin(with_extremes, with_labels)][: most - with_labels.size]
    return np.sort(np.concatenate([with_labels, others]))


def _with_extremes(table: Table, ensemble: TreeEnsemble) -> NDArray[np.int64]:
    """Return rows with missing or extreme values of columns; those with most of them come first."""
    from debias.data.kernels import columns as kernels

    seen = evenly_spaced(table.n_rows, max(1, min(ROWS_SEEN, VALUES_SEEN // ensemble.n_features)))
    X = table.matrix(ensemble, seen)
    extremes = np.empty((4, ensemble.n_features), dtype=np.int64)
    kernels.extremes(X, extremes)
    rows, count = np.unique(extremes[extremes >= 0], return_counts=True)
    return seen[rows[np.argsort(-count, kind="stable")]]
