"""The check of adapters: whatever can be compared with the library's own figures, is."""

from __future__ import annotations

import pickle
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.response import Response, encode
from debias.data.table import Table
from debias.errors import DebiasError, DebiasWarning, InBagUnavailableError
from debias.hooks.registry import adapters_loaded, plugin_manager
from debias.hooks.training_weights import TrainingWeights
from debias.hooks.wrapping import Unwrapped
from debias.models.extraction import as_the_adapter_wants
from debias.rows.bag_proof import prove
from debias.testing.outputs import ROWS_TO_TRY, check_native, check_outputs, varied
from debias.testing.promises import require
from debias.trees.ensemble import TreeEnsemble
from debias.trees.in_bag import InBag
from debias.warning_log import WarningLog

if TYPE_CHECKING:
    from numpy.typing import NDArray

ABOUT_A_MODEL = ("debias_unwrap", "debias_extract", "debias_training_weights", "debias_reported_importance")


def check_adapter(model: Any, X: Any, y: Any) -> tuple[str, ...]:
    """Check what adapters say of a fitted model against the model's own library.

    The adapter has to be registered: installed with its entry point, or by ``debias.register(module)``.

    Parameters
    ----------
    model : estimator or Booster
        Fitted, and so small that it is quick.
    X : array or data frame of shape (n_rows, n_features)
        Its training rows, in training order.
    y : array-like of shape (n_rows,)
        Their response.

    Returns
    -------
    tuple of str
        The hooks that answered, so that one that was forgotten or misspelt is missed.

    Raises
    ------
    AssertionError
        No adapter recognises the model, or several do, or one answers for models that are not its own; trees, leaves,
        raw output, bags, importance or a refit are not what the library has; the model is changed.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from debias.testing import check_adapter
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> "debias_in_bag" in check_adapter(RandomForestRegressor(5, random_state=0).fit(X, y), X, y)
    True
    """
    before = _pickled(model)
    plugin, unwrapped = _recognised(model)
    _check_foreign(plugin)
    if unwrapped is not None:
        _check_wrapper(model, unwrapped, X, y)
        answered = ["debias_unwrap"]
    else:
        answered = _check_trees(model, X, y)
    require(
        _pickled(model) == before,
        f"the adapter {plugin} changes the {type(model).__name__}: work on copies, a user's model stays as it was",
    )
    return tuple(answered)


def _recognised(model: Any) -> tuple[str, Unwrapped | None]:
    """Return the name of the one plugin whose model this is, and what it unwraps it to, if it does."""
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    extracted, unwrapped = _answers("debias_extract", model=model), _answers("debias_unwrap", model=model)
    names = sorted({name for name, _ in extracted + unwrapped})
    require(
        bool(names),
        f"no adapter recognises {kind}: debias_extract of every plugin returned None. Is yours there? Loaded are "
        f"{', '.join(adapters_loaded())}. Call debias.register(module), or reinstall after a change of entry points",
    )
    require(
        len(extracted) + len(unwrapped) == 1,
        f"{kind} is recognised more than once, by {', '.join(names)}: recognition must be disjoint, or the order of "
        "plugins would decide the numbers. Ask for the exact class (isinstance, less what others serve), and either "
        "extract a model or unwrap it",
    )
    if unwrapped:
        return names[0], unwrapped[0][1]
    require(
        isinstance(extracted[0][1], TreeEnsemble),
        f"debias_extract of {names[0]} returns a {type(extracted[0][1]).__name__}, not a debias.TreeEnsemble",
    )
    return names[0], None


def _check_foreign(plugin: str) -> None:
    """Ask the adapter about objects that are no model of anybody's."""
    for hook in ABOUT_A_MODEL:
        for foreign in (object(), "text", None):
            for name, answer in _answers(hook, model=foreign, only=plugin):
                raise AssertionError(
                    f"{hook} of {name} answers {answer!r} for {foreign!r}, which is none of its models: return None "
                    "for whatever is not yours, and ask with isinstance"
                )


def _check_wrapper(model: Any, unwrapped: Any, X: Any, y: Any) -> None:
    require(
        isinstance(unwrapped, Unwrapped) and len(unwrapped.inner) > 0,
        f"debias_unwrap returns {unwrapped!r}: return debias.hooks.wrapping.Unwrapped(kind, inner)",
    )
    names = unwrapped.feature_names
    for inner in unwrapped.inner:
        require(
            inner.columns is None or names is not None,
            f"{inner.name} of the {unwrapped.kind} has columns=, but Unwrapped has no feature_names to map them to",
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
        "debias_extract gives other trees the second time: it must not change the model nor draw",
    )
    repeated = sorted({name for name in ensemble.feature_names if ensemble.feature_names.count(name) > 1})
    require(not repeated, f"debias_extract names several features {repeated}: names must be unique")
    table = _table(X, ensemble)
    check_outputs(model, ensemble, varied(ensemble, table))
    answered = ["debias_extract", "debias_leaves", "debias_predict_raw"]
    if check_native(model, ensemble, table):
        answered.append("debias_predict_native")
    kind = "train"
    response = _encoded(y, ensemble, table)
    if _check_bags(model, ensemble, table, response):
        answered.append("debias_in_bag")
        kind = "oob"
    shown = hook.debias_training_weights(model=model)
    if shown is not None:
        require(
            isinstance(shown, TrainingWeights),
            f"debias_training_weights returns a {type(shown).__name__}: return "
            "debias.hooks.training_weights.TrainingWeights(rows, classes, multiplied)",
        )
        answered.append("debias_training_weights")
    reported = hook.debias_reported_importance(model=model)
    if reported is not None:
        _check_reported(reported, ensemble)
        answered.append("debias_reported_importance")
    _score(model, X, y, rows=kind)
    if _answers("debias_refit", model=model, X=X, y=y, sample_weight=None, seed=1, params=None, n_jobs=None):
        _check_refit(model, ensemble, X, y, table)
        answered.append("debias_refit")
    return answered


def _table(X: Any, ensemble: TreeEnsemble) -> Table:
    try:
        return Table(X).aligned_to(ensemble, WarningLog(quiet=True))
    except DebiasError as error:
        raise AssertionError(
            f"the rows do not fit what debias_extract says of the model: {error}. It has feature_names="
            f"{ensemble.feature_names}, named={ensemble.named}; named=False says that the model saw no names"
        ) from error


def _encoded(y: Any, ensemble: TreeEnsemble, table: Table) -> Response:
    try:
        return encode(y, ensemble, table.n_rows)
    except DebiasError as error:
        raise AssertionError(
            f"y does not fit what debias_extract says of the model: {error}. `classes` has the labels in the order of "
            "the outputs, or is None in regression"
        ) from error


def _check_bags(model: Any, ensemble: TreeEnsemble, table: Table, response: Response) -> bool:
    y = response.codes if response.codes is not None else response.values
    try:
        bags = plugin_manager().hook.debias_in_bag(model=model, y=y, sample_weight=None)
    except InBagUnavailableError:
        return False
    if bags is None:
        return False
    require(
        isinstance(bags, InBag),
        f"debias_in_bag returns a {type(bags).__name__}, not a debias.InBag: InBag.from_rows(lists of row positions, "
        "n_rows) makes one",
    )
    require(
        (bags.n_rows, bags.n_trees) == (table.n_rows, ensemble.n_trees),
        f"debias_in_bag has bags of {bags.n_rows} rows for {bags.n_trees} trees, but there are {table.n_rows} training "
        f"rows and {ensemble.n_trees} trees",
    )
    require(
        any(bags.out_of_bag(tree).size for tree in range(bags.n_trees)),
        "no row is out of any bag: raise debias.InBagUnavailableError, with the advice to hold rows out",
    )
    for name in ("count", "weight"):
        require(
            getattr(ensemble, name) is not None,
            f"there are bags, but debias_extract gives no `{name}`: without the {name} of training rows at each node "
            "nothing proves the bags",
        )
    proof = prove(ensemble, bags, table, response)
    require(
        proof.holds,
        "the bags do not reproduce what the nodes store of the training rows passed: of the trees compared "
        f"{proof.root_counts:.0%} have the count of their root, and {proof.counts:.0%} of the nodes theirs and "
        f"{proof.values:.0%} their values (mean_values={ensemble.mean_values} says whether these are in-bag means). "
        "Are X and y the training rows in training order, and `count` the number of distinct rows, `weight` their "
        "number with repetitions?",
    )
    return True


def _check_reported(reported: Any, ensemble: TreeEnsemble) -> None:
    require(
        isinstance(reported, tuple) and len(reported) == 2 and isinstance(reported[1], str),
        f"debias_reported_importance returns {reported!r}, not the pair (figures, what the library calls them)",
    )
    shape = np.shape(reported[0])
    require(
        shape == (ensemble.n_features,) and bool(np.isfinite(reported[0]).all()),
        f"debias_reported_importance returns figures of shape {shape}, not ({ensemble.n_features},), or not all "
        "finite: features the model does not use have 0",
    )


def _score(model: Any, X: Any, y: Any, rows: str) -> NDArray[np.float64]:
    """Score the model from end to end; on training rows that is biased, and here only a trial."""
    import debias

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DebiasWarning)
        try:
            return debias.score(model, X, y, "mdi_oob", rows=rows).values
        except DebiasError as error:
            raise AssertionError(f"debias.score refuses the model: {error}") from error


def _check_refit(model: Any, ensemble: TreeEnsemble, X: Any, y: Any, table: Table) -> None:
    import debias

    matrix = as_the_adapter_wants(ensemble, table.matrix(ensemble)[:ROWS_TO_TRY])
    hook = plugin_manager().hook
    first, second = (debias.refit(model, X, y, seed=1) for _ in range(2))
    require(first is not model, "debias_refit returns the user's own model: fit a new one")
    kind = f"debias_refit returns a {type(first).__name__}"
    require(hook.debias_extract(model=first) is not None, f"{kind}, which no adapter recognises")
    raw = [hook.debias_predict_raw(model=each, X=matrix) for each in (first, second)]
    require(np.array_equal(*raw), "debias_refit gives other models for the same seed: set every random state from it")
    fewer = debias.refit(model, X[::2], y[::2], seed=1)
    require(
        not np.array_equal(raw[0], hook.debias_predict_raw(model=fewer, X=matrix)),
        "debias_refit gives the same model for other rows: it must be trained on X and y",
    )


def _answers(hook: str, *, only: str | None = None, **arguments: Any) -> list[tuple[str, Any]]:
    """Return what each plugin answers but None, with its name."""
    found = []
    for impl in getattr(plugin_manager().hook, hook).get_hookimpls():
        if only is not None and impl.plugin_name != only:
            continue
        try:
            answer = impl.function(*(arguments[name] for name in impl.argnames))
        except DebiasError as error:
            raise AssertionError(f"{hook} of {impl.plugin_name} refuses the model: {error}") from error
        except Exception as error:
            of = type(arguments["model"]).__name__
            raise AssertionError(
                f"{hook} of {impl.plugin_name} fails for a {of}: {type(error).__name__}: {error}. For models that are "
                "not its own an adapter returns None; of its own, what it cannot serve is refused by an error of "
                "debias.errors"
            ) from error
        if answer is not None:
            found.append((impl.plugin_name, answer))
    return found


def _pickled(model: Any) -> bytes | None:
    try:
        return pickle.dumps(model)
    except Exception:  # what cannot be pickled cannot be compared
        return None
