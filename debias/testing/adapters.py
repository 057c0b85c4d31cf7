"""The check of adapters. It compares everything an adapter says with the library's own results, where possible."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.response import Response, as_passed, encode
from debias.data.table import Table
from debias.errors import (
    DebiasError,
    DebiasWarning,
    InBagUnavailableError,
    PluginError,
    UnsupportedModelError,
    with_article,
)
from debias.hooks.registry import adapters_loaded, plugin_manager
from debias.hooks.reported import ReportedImportance
from debias.hooks.training_weights import TrainingWeights
from debias.hooks.wrapping import Unwrapped
from debias.models.extraction import as_the_adapter_wants, gaps, native_output, odd_rows
from debias.positions import evenly_spaced
from debias.rows.bag_proof import prove
from debias.testing.promises import require
from debias.trees.ensemble import TreeEnsemble
from debias.trees.in_bag import InBag
from debias.trees.routing import raw_output, route
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.table import Table
    from debias.rows.provenance import RowsOption
    from debias.trees.ensemble import TreeEnsemble

PICKLES = 4
"""Number of pickles of a model that are compared."""
ABOUT_A_MODEL = ("debias_unwrap", "debias_extract", "debias_training_weights", "debias_reported_importance")


def check_adapter(model: Any, X: Any, y: Any) -> tuple[str, ...]:
    """Compare what an adapter says about a fitted model with the model's own library.

    The adapter must be registered: installed with its entry point, or passed to ``debias.plugin.register(module)``.

    Parameters
    ----------
    model : estimator or Booster
        A fitted model, small enough for a quick check.
    X : array or data frame of shape (n_rows, n_features)
        Its training rows in training order.
    y : array-like of shape (n_rows,)
        Their response.

    Returns
    -------
    tuple of str
        The hooks that answered, so you notice a hook that was forgotten or misspelt.

    Raises
    ------
    AssertionError
        No adapter recognises the model, or several do, or an adapter answers for models that are not its own. The
        trees, leaves, raw output, bags, importance or refit differ from those of the library. The adapter changes the
        model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from debias.testing import check_adapter
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> "debias_in_bag" in check_adapter(RandomForestRegressor(5, random_state=0).fit(X, y), X, y)
    True
    """
    before = _pickles(model)
    plugin, unwrapped = _recognised(model)
    _check_foreign(plugin)
    if unwrapped is not None:
        _check_wrapper(model, unwrapped, X, y)
        answered = ["debias_unwrap"]
    else:
        answered = _check_trees(model, X, y)
    require(
        len(before) > 1 or not before.isdisjoint(_pickles(model)),  # pickles that differ by themselves show nothing
        f"the adapter {plugin} changes the {type(model).__name__}: work on a copy, and do not change the user's model",
    )
    return tuple(answered)


def _recognised(model: Any) -> tuple[str, Unwrapped | None]:
    """Return the name of the only plugin that recognises the model, and what it unwraps the model to, if it does."""
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    extracted, unwrapped = _answers("debias_extract", model=model), _answers("debias_unwrap", model=model)
    names = sorted({name for name, _ in extracted + unwrapped})
    first = _marked_first(names)
    if len(first) == 1:  # pluggy asks it first: its models are subclasses of those of another adapter
        extracted, unwrapped = ([each for each in answers if each[0] in first] for answers in (extracted, unwrapped))
        names = first
    require(
        bool(names),
        f"no adapter recognises {kind}: debias_extract of every plugin returned None. The loaded adapters are "
        f"{', '.join(adapters_loaded())}. Call debias.plugin.register(module), or reinstall after a change of entry "
        "points",
    )
    require(
        len(extracted) + len(unwrapped) == 1,
        f"{kind} is recognised more than once, by {', '.join(names)}: recognition must be disjoint, otherwise the "
        "order of plugins would decide the numbers. Check for the exact class (isinstance, without subclasses that "
        "other adapters recognise), and either extract a model or unwrap it. An adapter of such subclasses marks its "
        "hooks with debias.plugin.hookimpl(tryfirst=True)",
    )
    if unwrapped:
        return names[0], unwrapped[0][1]
    require(
        isinstance(extracted[0][1], TreeEnsemble),
        f"debias_extract of {names[0]} returns {with_article(type(extracted[0][1]).__name__)}, not a "
        "debias.plugin.TreeEnsemble",
    )
    return names[0], None


def _marked_first(names: list[str]) -> list[str]:
    """Return the plugins among some whose hooks about a model are asked before those of others."""
    hook = plugin_manager().hook
    implementations = [*hook.debias_extract.get_hookimpls(), *hook.debias_unwrap.get_hookimpls()]
    return sorted({each.plugin_name for each in implementations if each.plugin_name in names and each.tryfirst})


def _check_foreign(plugin: str) -> None:
    """Check that the adapter returns None for objects that are not models."""
    for hook in ABOUT_A_MODEL:
        for foreign in (object(), "text", None):
            for name, answer in _answers(hook, model=foreign, only=plugin):
                raise AssertionError(
                    f"{hook} of {name} answers {answer!r} for {foreign!r}, which is not one of its models: return None "
                    "for everything that is not yours, and check with isinstance"
                )


def _check_wrapper(model: Any, unwrapped: Any, X: Any, y: Any) -> None:
    require(
        isinstance(unwrapped, Unwrapped) and len(unwrapped.inner) > 0,
        f"debias_unwrap returns {unwrapped!r}: return debias.hooks.wrapping.Unwrapped(kind, inner)",
    )
    values = _score(model, X, y, rows="train")
    n_columns = Table(X).shape[1]
    require(
        values.shape == (n_columns,),
        f"scores of the {unwrapped.kind} have shape {values.shape}, but X has {n_columns} columns: give feature_names "
        "and, for each Inner, the outer column each of its columns comes from",
    )


def _check_trees(model: Any, X: Any, y: Any) -> list[str]:
    hook = plugin_manager().hook
    ensemble: TreeEnsemble = hook.debias_extract(model=model)
    again: TreeEnsemble = hook.debias_extract(model=model)
    require(
        np.array_equal(ensemble.value, again.value) and np.array_equal(ensemble.left, again.left),
        "debias_extract returns other trees the second time: it must not change the model or draw random numbers",
    )
    repeated = sorted({name for name in ensemble.feature_names if ensemble.feature_names.count(name) > 1})
    require(not repeated, f"debias_extract names several features {repeated}: names must be unique")
    table = _table(X, ensemble)
    check_outputs(model, ensemble, varied(ensemble, table))
    answered = ["debias_extract", "debias_leaves", "debias_predict_raw"]
    if check_native(model, ensemble, table):
        answered.append("debias_predict_native")
    kind: RowsOption = "train"
    response = _encoded(y, ensemble, table)
    if _check_bags(model, ensemble, table, response):
        answered.append("debias_in_bag")
        kind = "oob"
    weights = hook.debias_training_weights(model=model)
    if weights is not None:
        require(
            isinstance(weights, TrainingWeights),
            f"debias_training_weights returns {with_article(type(weights).__name__)}: return "
            "debias.hooks.training_weights.TrainingWeights(rows, classes, multiplied)",
        )
        answered.append("debias_training_weights")
    reported = hook.debias_reported_importance(model=model)
    if reported is not None:
        _check_reported(reported, ensemble)
        answered.append("debias_reported_importance")
    _score(model, X, y, rows=kind)
    if _refits(model, X, y):
        _check_refit(model, ensemble, X, y, table)
        answered.append("debias_refit")
    return answered


def _table(X: Any, ensemble: TreeEnsemble) -> Table:
    try:
        return Table(X).aligned_to(ensemble, WarningLog(quiet=True))
    except DebiasError as error:
        raise AssertionError(
            f"the rows do not match what debias_extract says about the model: {error}. It has "
            f"feature_names={ensemble.feature_names}, named={ensemble.named}; named=False says that the model was "
            "fitted without names"
        ) from error


def _encoded(y: Any, ensemble: TreeEnsemble, table: Table) -> Response:
    try:
        return encode(y, ensemble, table.n_rows)
    except DebiasError as error:
        raise AssertionError(
            f"y does not match what debias_extract says about the model: {error}. `classes` has the labels in the "
            "order of the outputs, or is None in regression"
        ) from error


def _check_bags(model: Any, ensemble: TreeEnsemble, table: Table, response: Response) -> bool:
    try:
        bags = plugin_manager().hook.debias_in_bag(model=model, y=as_passed(response, ensemble), sample_weight=None)
    except InBagUnavailableError:
        return False
    if bags is None:
        return False
    require(
        isinstance(bags, InBag),
        f"debias_in_bag returns {with_article(type(bags).__name__)}, not a debias.plugin.InBag: create one with "
        "InBag.from_rows(lists of row positions, n_rows)",
    )
    require(
        (bags.n_rows, bags.n_trees) == (table.n_rows, ensemble.n_trees),
        f"debias_in_bag has bags of {bags.n_rows} rows for {bags.n_trees} trees, but there are {table.n_rows} training "
        f"rows and {ensemble.n_trees} trees",
    )
    require(
        any(bags.out_of_bag(tree).size for tree in range(bags.n_trees)),
        "no row is out of any bag: raise debias.InBagUnavailableError, and advise to hold rows out",
    )
    for name in ("count", "weight"):
        require(
            getattr(ensemble, name) is not None,
            f"there are bags, but debias_extract returns no `{name}`: the {name} of the training rows at each node is "
            "needed to prove the bags",
        )
    proof = prove(ensemble, bags, table, response).with_response(bags.fits_response)
    at_roots = min(proof.root_counts, proof.root_weights)
    require(
        proof.holds,
        "the bags do not reproduce what the nodes store about the training rows. The count agrees at "
        f"{at_roots:.0%} of the roots and {proof.counts:.0%} of the nodes, the value at {proof.values:.0%} of "
        f"the nodes (mean_values={ensemble.mean_values} says whether values are in-bag means). Are X and y the "
        "training rows in training order? Is `count` the number of distinct rows, and `weight` their number with "
        "repetitions?",
    )
    return True


def _check_reported(reported: Any, ensemble: TreeEnsemble) -> None:
    require(
        isinstance(reported, tuple)
        and (len(reported) == 2 or isinstance(reported, ReportedImportance))
        and isinstance(reported[1], str),
        f"debias_reported_importance returns {reported!r}, not the pair (values, the library's name for them) "
        "or a debias.hooks.reported.ReportedImportance",
    )
    shape = np.shape(reported[0])
    require(
        shape == (ensemble.n_features,) and bool(np.isfinite(reported[0]).all()),
        f"debias_reported_importance returns values of shape {shape}, not ({ensemble.n_features},), or values that are "
        "not finite: features that the model does not use have 0",
    )


def _score(model: Any, X: Any, y: Any, rows: RowsOption) -> NDArray[np.float64]:
    """Score the model from end to end. On training rows the scores are biased, but here this is only a trial."""
    import debias

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DebiasWarning)
        try:
            return debias.score(model, X, y, "mdi_oob", rows=rows).values
        except DebiasError as error:
            raise AssertionError(f"debias.score refuses the model: {error}") from error


def _refits(model: Any, X: Any, y: Any) -> bool:
    """Whether the adapter refits the model. It may refuse a model that does not store its settings."""
    passed: dict[str, Any] = {"sample_weight": None, "seed": 1, "params": None, "n_jobs": None, "qid": None}
    try:
        return bool(_answers("debias_refit", model=model, X=X, y=y, **passed))
    except AssertionError as error:
        if isinstance(error.__cause__, UnsupportedModelError):
            return False
        raise


def _check_refit(model: Any, ensemble: TreeEnsemble, X: Any, y: Any, table: Table) -> None:
    import debias

    matrix = as_the_adapter_wants(ensemble, table.matrix(ensemble)[:ROWS_TO_TRY])
    hook = plugin_manager().hook
    first, second = (debias.refit(model, X, y, random_state=1) for _ in range(2))
    require(first is not model, "debias_refit returns the user's own model: fit a new one")
    kind = f"debias_refit returns {with_article(type(first).__name__)}"
    require(hook.debias_extract(model=first) is not None, f"{kind}, which no adapter recognises")
    raw = [hook.debias_predict_raw(model=refitted, X=matrix) for refitted in (first, second)]
    require(
        np.array_equal(*raw),
        "debias_refit returns different models for the same seed: set every random state from the seed",
    )
    fewer = debias.refit(model, X[::2], y[::2], random_state=1)
    require(
        not np.array_equal(raw[0], hook.debias_predict_raw(model=fewer, X=matrix)),
        "debias_refit returns the same model for other rows: it must fit to X and y",
    )


def _answers(hook: str, *, only: str | None = None, **arguments: Any) -> list[tuple[str, Any]]:
    """Return the name and the answer of each plugin whose answer is not None."""
    answers = []
    for impl in getattr(plugin_manager().hook, hook).get_hookimpls():
        if only is not None and impl.plugin_name != only:
            continue
        try:
            answer = impl.function(*(arguments[name] for name in impl.argnames))
        except Exception as error:
            cause = error.__cause__ if isinstance(error, PluginError) and error.__cause__ is not None else error
            if isinstance(cause, DebiasError):
                raise AssertionError(f"{hook} of {impl.plugin_name} refuses the model: {cause}") from cause
            of = type(arguments["model"]).__name__
            raise AssertionError(
                f"{hook} of {impl.plugin_name} fails for a {of}: {type(cause).__name__}: {cause}. For models that are "
                "not its own an adapter returns None; for its own models that it cannot serve it raises an error of "
                "debias.errors"
            ) from cause
        if answer is not None:
            answers.append((impl.plugin_name, answer))
    return answers


def _pickles(model: Any) -> set[bytes | None]:
    """Return the sorted bytes of pickles of a model, because libraries may write its parts in an order that changes."""
    try:
        pickles = [np.frombuffer(pickle.dumps(model), np.uint8) for _ in range(PICKLES)]
        return {np.sort(each).tobytes() for each in pickles}
    except Exception:  # a model that cannot be pickled cannot be compared
        return {None}


SPLITS_TO_TRY, ROWS_TO_TRY = 64, 64
NEARLY_ZERO = 1e-30
"""LightGBM reads values within 1e-35 of 0 as 0. Data do not have such values, so thresholds there are not tried."""


def varied(ensemble: TreeEnsemble, table: Table) -> NDArray[np.floating[Any]]:
    """Return some rows, and copies with a value at, just below or just above a threshold, or with a missing value."""
    X = table.matrix(ensemble)[:ROWS_TO_TRY]
    numeric = ensemble.splits if ensemble.category_set is None else np.flatnonzero(ensemble.category_set < 0)
    numeric = numeric[(ensemble.left[numeric] >= 0) & (abs(ensemble.threshold[numeric]) > NEARLY_ZERO)]
    chosen = numeric[evenly_spaced(len(numeric), SPLITS_TO_TRY)]
    at = ensemble.threshold[chosen].astype(X.dtype)
    added = []
    for values in (at, np.nextafter(at, X.dtype.type(-np.inf)), np.nextafter(at, X.dtype.type(np.inf))):
        rows = X[np.arange(len(chosen)) % len(X)].copy()
        rows[np.arange(len(chosen)), ensemble.feature[chosen]] = values
        added.append(rows)
    if ensemble.missing_refusal is None:
        rows = X[np.arange(ensemble.n_features) % len(X)].copy()
        np.fill_diagonal(rows, np.nan)
        added.append(rows)
    return np.ascontiguousarray(np.concatenate([X, *added]))


def check_outputs(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> None:
    """Compare the leaves and the raw output of some rows with those of the library."""
    hook, n = plugin_manager().hook, len(X)
    ours = route(ensemble, X)
    seen = as_the_adapter_wants(ensemble, X)
    theirs = hook.debias_leaves(model=model, ensemble=ensemble, X=seen)
    require(theirs is not None, "debias_leaves returns None for this model: without the library's own leaves debias "
            "cannot check the trees, and refuses to score them")  # fmt: skip
    theirs = np.asarray(theirs)
    require(
        theirs.shape == (n, ensemble.n_trees),
        f"debias_leaves returns shape {theirs.shape}, not ({n}, {ensemble.n_trees}): one leaf per row and tree",
    )
    off = np.argwhere(ours != theirs)
    if len(off):
        row, tree = off[0]
        leaf = ensemble.tree(int(tree)).left
        inner = theirs[row, tree] >= leaf.size or leaf[int(theirs[row, tree])] >= 0
        require(
            not inner,
            f"debias_leaves puts row {row} into node {theirs[row, tree]} of tree {tree}, which is not a leaf: return "
            "the index of the leaf within its tree, as the ensemble numbers nodes, not a running number of leaves",
        )
        at_threshold = (X[row, ensemble.feature[ensemble.splits]] == ensemble.threshold[ensemble.splits]).any()
        hint = (
            "a value of this row is missing: check missing_left"
            if np.isnan(X[row]).any()
            else "a value of this row equals a threshold: x <= threshold goes left, so a library that sends "
            "x < threshold left needs np.nextafter(threshold, -inf) in its own precision"
            if at_threshold
            else "check left and right, feature, and routing_dtype, the precision in which the library compares"
        )
        raise AssertionError(
            f"{len(np.unique(off[:, 0]))} of {n} rows do not reach the leaves that the library names: row {row} "
            f"reaches leaf {ours[row, tree]} of tree {tree} by the arrays of debias_extract, and leaf "
            f"{theirs[row, tree]} by debias_leaves; {hint}"
        )
    expected = hook.debias_predict_raw(model=model, X=seen)
    require(expected is not None, "debias_predict_raw returns None for this model: without the library's own output "
            "debias cannot check the trees, and refuses to score them")  # fmt: skip
    _check_raw(ensemble, raw_output(ensemble, ours, X), np.asarray(expected))


def check_native(model: Any, ensemble: TreeEnsemble, table: Table) -> bool:
    """Compare the library's predictions for the user's own rows with the trees; return whether an adapter has them."""
    rows = np.union1d(np.arange(min(table.n_rows, ROWS_TO_TRY)), odd_rows(table, ensemble))
    try:
        expected = native_output(model, ensemble, table, rows)
    except DebiasError as error:
        raise AssertionError(f"debias_predict_native fails for the training rows: {error}") from error
    if expected is None:
        return False
    X = table.matrix(ensemble, rows)
    ours = raw_output(ensemble, route(ensemble, X), X)
    require(
        expected.shape == ours.shape,
        f"debias_predict_native returns shape {expected.shape}, not {ours.shape}: the output of debias_predict_raw, "
        "for the user's own rows",
    )
    off = np.flatnonzero(~(gaps(ensemble, ours, expected) <= 1))
    row = off[0] if len(off) else 0
    require(
        not len(off),
        f"debias_predict_native returns {expected[row]} for row {rows[row]} as it was passed, and the trees predict "
        f"{ours[row]} for the same row as numbers: check `category_labels`, and how the library reads missing values; "
        "link functions do not belong here",
    )
    return True


def _check_raw(ensemble: TreeEnsemble, ours: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    require(
        ours.shape == expected.shape,
        f"debias_predict_raw returns shape {expected.shape}, not {ours.shape}: one column per output, and `base` says "
        f"that there are {ensemble.n_outputs}",
    )
    if (gaps(ensemble, ours, expected) <= 1).all():
        return
    gap = expected - ours
    scale = np.abs(expected).max() + np.abs(ensemble.value).max() + np.abs(ensemble.base).max()
    row = int(np.abs(gap).max(axis=1).argmax())
    steps = ours - ensemble.base
    factor = (expected - ensemble.base)[np.abs(steps) > 1e-6 * scale] / steps[np.abs(steps) > 1e-6 * scale]
    in_float32 = replace(ensemble, output_dtype=np.dtype(np.float32))
    if (gaps(in_float32, ours, expected) <= 1).all():
        hint = (
            "the gap is of the size of float32 rounding errors: if the library adds up in float32, give the ensemble "
            "output_dtype=np.dtype(np.float32)"
        )
    elif np.ptp(gap, axis=0).max() <= 1e-6 * scale:
        hint = f"the gap is {gap[0]} in every row: `base` is the raw output before the first tree"
    elif factor.size and np.ptp(factor) < 1e-5 * np.abs(factor).max():
        hint = (
            f"the library's output is {factor.mean():.6g} times as large in every row: averaged={ensemble.averaged} "
            f"says whether the {ensemble.n_trees} trees are averaged or summed, and values of additive trees include "
            "the learning rate"
        )
    else:
        hint = "check the values of the leaves, and whether debias_predict_raw returns margins or transformed output"
    raise AssertionError(
        f"the extracted trees predict {ours[row]} for row {row}, and the library {expected[row]}; {hint}"
    )
