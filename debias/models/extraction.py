"""An adapter is checked, not believed: its trees must predict what the library predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasError, ExtractionError, RowsError, UnsupportedModelError
from debias.hooks.registry import adapters_loaded, plugin_manager
from debias.models.odd_rows import odd_rows
from debias.models.wrappers import names_of, unwrap
from debias.trees.routing import REPORT, raw_output, route, rows_to_check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.table import Table
    from debias.trees.ensemble import TreeEnsemble


def verify_prediction(ensemble: TreeEnsemble, model: Any, table: Table, rows: NDArray[np.int64] | None = None) -> None:
    """Compare leaves and raw output of sample rows with the library's own.

    The leaves and the output of encoded rows are compared, and then the output the library gives for the same rows as
    the user passed them: what an encoding of ours gets wrong shows there only.

    Parameters
    ----------
    ensemble : TreeEnsemble
    model : object
    table : Table
    rows : array of int64, optional
        Which rows; by default 64, evenly spaced, of more than 50 trees fewer, and up to 64 that show what is special
        in the table.

    Raises
    ------
    ExtractionError
        A leaf or an output differs; the message says which.
    RowsError
        The library does not predict for these rows.
    """
    from debias.hooks.registry import plugin_manager

    if rows is None:
        rows = np.union1d(rows_to_check(ensemble, table.n_rows), odd_rows(table, ensemble))
    X = table.matrix(ensemble, rows)
    ours = route(ensemble, X)
    seen = as_the_adapter_wants(ensemble, X)
    theirs = plugin_manager().hook.debias_leaves(model=model, ensemble=ensemble, X=seen)
    expected = plugin_manager().hook.debias_predict_raw(model=model, X=seen)
    if theirs is None or expected is None:
        raise ExtractionError(
            f"the adapter of this {ensemble.source} gives no leaves or raw output of the library's own, so its trees "
            "cannot be checked"
        )
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
    found = raw_output(ensemble, ours)
    gap = gaps(ensemble, found, expected)
    if not (gap <= 1).all():
        raise ExtractionError(
            f"the extracted trees of this {ensemble.source} predict otherwise than the library does (largest gap "
            f"{_largest(found, expected):.3g}). {REPORT}"
        )
    _verify_native(ensemble, model, table, rows, found)


def as_the_adapter_wants(ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> Any:
    """Return rows as the hooks that check the trees get them: the array, or a frame if the ensemble says so."""
    if not ensemble.rows_as_frame:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=list(ensemble.feature_names))


def gaps(ensemble: TreeEnsemble, found: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far the raw output of each row is from the library's, in units of what rounding explains."""
    if found.shape != expected.shape:
        return np.full(len(found), np.inf)
    # XGBoost adds up float32 margins; one rounding a tree is allowed for.
    precision = np.finfo(np.float32).eps if not ensemble.averaged else 1e-9
    scale = np.abs(ensemble.base).max() + np.abs(expected).max() + _largest_step(ensemble)
    difference: NDArray[np.float64] = np.abs(found - expected).max(axis=1)
    difference[np.isnan(difference)] = np.inf
    if scale == 0:  # a model that predicts 0 for every row
        return np.where(difference > 0, np.inf, 0.0)
    gap: NDArray[np.float64] = difference / (precision * scale * (4 + ensemble.n_trees))
    return np.where(np.isnan(gap), np.inf, gap)


def native_output(model: Any, ensemble: TreeEnsemble, table: Table, rows: NDArray[np.int64]) -> Any:
    """Return what the library predicts for rows as the user passed them; None if no adapter says so.

    A library that does not take the user's container, or text in the place of categories, is asked for a pandas frame
    of the same values and labels.

    Raises
    ------
    RowsError
        It takes neither.
    """
    from debias.hooks.registry import plugin_manager

    predict = plugin_manager().hook.debias_predict_native
    refused: Exception | None = None
    for put in (table.native, lambda rows: table.labelled(ensemble, rows)):
        given = put(rows)
        try:
            found = None if given is None or not _takes(ensemble, given) else predict(model=model, X=given)
        except DebiasError:
            raise
        except Exception as error:  # whatever a library raises is about these rows
            refused = error
            continue
        if found is not None:
            return np.asarray(found, dtype=np.float64)
    if refused is not None:
        said = (str(refused).strip() or type(refused).__name__).splitlines()[0]
        raise RowsError(
            f"this {ensemble.source} itself does not predict for rows of X as they were passed: {said}. Pass rows as "
            "the model takes them"
        ) from refused
    return None


def _takes(ensemble: TreeEnsemble, X: Any) -> bool:
    """Whether the library of a model takes such a container: all take arrays, sparse matrices and pandas frames."""
    return ensemble.takes_tables or isinstance(X, np.ndarray) or hasattr(X, "tocsr") or hasattr(X, "iloc")


def _verify_native(
    ensemble: TreeEnsemble, model: Any, table: Table, rows: NDArray[np.int64], found: NDArray[np.float64]
) -> None:
    expected = native_output(model, ensemble, table, rows)
    if expected is None:
        return
    wrong = np.flatnonzero(~(gaps(ensemble, found, expected) <= 1))
    if wrong.size:
        worst = wrong[0]
        raise ExtractionError(
            f"this {ensemble.source} predicts otherwise for X as it was passed than its trees do on the values that "
            f"debias reads there: in {wrong.size} of {rows.size} rows compared, the first being row {rows[worst]} "
            f"({_outputs(expected, worst)} instead of {_outputs(found, worst)}). The library reads a value of such a "
            "row in another way: a label that is missing, a category given as a code, a whole number too large for "
            "a float. Pass X with the types the model was trained on"
        )


def _outputs(output: NDArray[np.float64], row: int) -> str:
    return ", ".join(f"{value:.6g}" for value in output[row, :3]) if row < len(output) else "nothing"


def _largest(found: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    return float(np.abs(found - expected).max()) if found.shape == expected.shape else np.inf


def _largest_step(ensemble: TreeEnsemble) -> float:
    return float(max(ensemble.value.max(), -ensemble.value.min()))


def extract(model: Any) -> TreeEnsemble:
    """Return the trees of a fitted model in the common form, those inside a wrapper if it holds one model.

    Parameters
    ----------
    model : estimator or Booster

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    UnsupportedModelError
        No adapter recognises the model, or it cannot be audited.
    """
    ensemble: TreeEnsemble | None = plugin_manager().hook.debias_extract(model=model)
    if ensemble is None:
        members = unwrap(model)
        if len(members) > 1:
            raise UnsupportedModelError(
                f"a {type(model).__name__} holds several models, whose trees are not one ensemble: extract "
                f"{', '.join(names_of(members))} one by one"
            )
        if members[0].model is not model:
            return extract(members[0].model)
        kind = type(model)
        loaded = ", ".join(adapters_loaded()) or "none; install debias itself (pip install -e . in a checkout)"
        raise UnsupportedModelError(
            f"no adapter recognises {kind.__module__}.{kind.__qualname__}. Supported are scikit-learn's ensembles of "
            f"trees, XGBoost and LightGBM models, and pipelines, searches and votes of them. Adapters loaded: {loaded}."
        )
    return ensemble
