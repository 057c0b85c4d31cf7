"""The hooks a plugin may implement, as module-level functions marked ``@debias.hookimpl``.

Adapters answer the ``firstresult`` hooks about a model: they return None for "not mine", and raise a named
error for "mine, but impossible". Recognition must be disjoint, so that the order of calls never decides a number.
Catalogues are collected from every plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from debias.hooks.contracts import MetaMethod, Scorer
    from debias.hooks.training_weights import TrainingWeights
    from debias.hooks.wrapping import Unwrapped
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag

PROJECT = "debias"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Take one layer off a model around models: a pipeline, a search, a vote.

    Parameters
    ----------
    model : object
        What the user passed, or what another layer held. Never change it.

    Returns
    -------
    Unwrapped or None
        The models inside, how they see X and y, and which column of the outer model each of their columns comes from.
        None if the model is no wrapper of this adapter's.

    Raises
    ------
    UnsupportedModelError
        It is not fitted, or scores of the models inside say nothing of the whole; the message says what to do.
    """
    ...


@hookspec(firstresult=True)
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Turn a fitted model into the common node representation.

    Parameters
    ----------
    model : object
        What the user passed: a fitted estimator or a Booster. Never change it.

    Returns
    -------
    TreeEnsemble or None
        None if the model is not of this adapter's library or family.

    Raises
    ------
    UnsupportedModelError
        The model is of this adapter's family, but not fitted or not supported; the message names the reason.
    """
    ...


@hookspec(firstresult=True)
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Route rows with the library's own code, which our router must agree with.

    Parameters
    ----------
    model : object
        A model this adapter's ``debias_extract`` accepts.
    ensemble : TreeEnsemble
        What it was extracted to.
    X : array, or pandas frame where the ensemble's ``rows_as_frame`` is true, of shape (n_rows, n_features)
        Numbers in the ensemble's ``routing_dtype``, codes in the place of labels, columns in the model's order, missing
        values as NaN. An array is C-contiguous; a frame has the ensemble's ``feature_names``.

    Returns
    -------
    array of int32 of shape (n_rows, n_trees), or None
        Index of the leaf within its tree, in the numbering of the ensemble. None if the model is not this adapter's.
    """
    ...


@hookspec(firstresult=True)
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return the library's own raw output, which the common form must reproduce.

    Parameters
    ----------
    model : object
        A model this adapter's ``debias_extract`` accepts.
    X : array of shape (n_rows, n_features)
        As in ``debias_leaves``.

    Returns
    -------
    array of float64 of shape (n_rows, n_outputs), or None
        Class probabilities of a forest, means of a regression forest, margins of a boosted model.
    """
    ...


@hookspec(firstresult=True)
def debias_predict_native(model: Any, X: Any) -> NDArray[np.float64] | None:
    """Return the library's own raw output for rows as the user passed them, which shows what an encoding gets wrong.

    Without it rows are compared only after debias has read them as numbers.

    Parameters
    ----------
    model : object
        A model this adapter's ``debias_extract`` accepts.
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
        Some of the user's rows in the user's own container (numpy, scipy.sparse, pandas, polars, pyarrow), with the
        user's types and labels; columns in the model's order. Hand it to the library as it is.

    Returns
    -------
    array of float64 of shape (n_rows, n_outputs), or None
        As from ``debias_predict_raw``. None if the model is not this adapter's, or the library takes no such container:
        then it is asked again for a pandas frame of the same values (at once, where the ensemble's ``takes_tables`` is
        false). What the library raises may pass through: such
        rows are refused by its words, unless they are labels that it takes in a pandas frame.
    """
    ...


@hookspec(firstresult=True)
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Recover which training rows each tree was grown on.

    Parameters
    ----------
    model : object
        A model this adapter's ``debias_extract`` accepts.
    y : array of shape (n_rows,)
        The claimed training response as class codes (classification) or numbers; weights such as scikit-learn's
        ``balanced_subsample`` depend on it.
    sample_weight : array of shape (n_rows,), or None
        Weights the user gave with the rows; where a library weighs nodes with them, those of training.

    Returns
    -------
    InBag or None
        None if the model is not this adapter's.

    Raises
    ------
    InBagUnavailableError
        The model was grown without bags, or they cannot be recovered; the message says what to do instead.
    """
    ...


@hookspec(firstresult=True)
def debias_training_weights(model: Any) -> TrainingWeights | None:
    """Say what a model shows of the weights of rows and of classes it was trained with.

    A model that was trained with weights has to be refitted with them. Without this hook only the ensemble's `weight`
    and `count` can show that it was.

    Parameters
    ----------
    model : object
        A model this adapter's ``debias_extract`` accepts.

    Returns
    -------
    TrainingWeights or None
        None if the model is not this adapter's, or shows nothing of them.
    """
    ...


@hookspec(firstresult=True)
def debias_reported_importance(model: Any) -> tuple[NDArray[np.float64], str] | None:
    """Return the importance the library itself reports today, and what the library calls it.

    Parameters
    ----------
    model : object
        A model this adapter's ``debias_extract`` accepts.

    Returns
    -------
    (array of shape (n_features,), str) or None
        The figures, unscaled, and their name, e.g. ``"total gain"``.
    """
    ...


@hookspec(firstresult=True)
def debias_refit(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: NDArray[np.float64] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
    n_jobs: int | None,
) -> Any | None:
    """Train a new model of the same kind, with the same settings, on other rows.

    Early stopping is off, and there are as many rounds as the model predicts with.

    Parameters
    ----------
    model : object
        A model this adapter's ``debias_extract`` accepts. Never change it.
    X : array or data frame of shape (n_rows, n_features)
        What the model's library takes: columns in the model's order and, in a frame, under its names.
    y : array-like of shape (n_rows,) or (n_rows, n_responses)
        Response, as the model was trained on: labels, or numbers.
    sample_weight : array of shape (n_rows,), or None
    seed : int or None
        Random state of the new model; None for the settings of the old one.
    params : mapping or None
        Hyper-parameters, which go before those the model kept; all of them where it kept none.
    n_jobs : int or None
        Threads of the new model, unless `params` say otherwise; None for those of the old one. An adapter whose library
        has no such setting leaves this argument out.

    Returns
    -------
    object or None
        The fitted model; None if the model is not this adapter's.

    Raises
    ------
    UnsupportedModelError
        The model did not keep its settings and `params` is None, or it cannot be trained again for another reason.
    RowsError
        The library cannot take these columns.
    """
    ...


@hookspec(firstresult=True)
def debias_load_model(path: Path, trust: tuple[str, ...], try_apart: Callable[[], None]) -> Any | None:
    """Load a model from a file of this adapter's own format, running no code that is in the file.

    Parameters
    ----------
    path : Path
        An existing file.
    trust : tuple of str
        Types the user trusts beside the adapter's own list, for formats that name types.
    try_apart : callable
        Loads the file in a process of its own first, and raises if that crashes. To be called for a format that only a
        native reader understands, so that nothing can be checked before. Other adapters leave it out.

    Returns
    -------
    object or None
        The model, or None if the file is not of this adapter's format. Its trees are checked by extracting them.

    Raises
    ------
    UnsupportedModelError
        The file is of this format but broken, or its library is not installed.
    UntrustedModelError
        It holds a type that is not trusted.
    """
    ...


@hookspec(firstresult=True)
def debias_restore(model: Any, params: Any) -> Any | None:
    """Put hyper-parameters back into a model whose file lost them.

    Parameters
    ----------
    model : object
        A model this adapter's ``debias_extract`` accepts. Never change it.
    params : mapping or estimator
        Names and plain values, or an unfitted estimator as the model was before it was trained.

    Returns
    -------
    object or None
        A copy that is scored and trained again with these; None if such models are not this adapter's, or lose none.

    Raises
    ------
    RowsError
        There is no such hyper-parameter, or the trees say that it was another.
    """
    ...


@hookspec
def debias_scorers() -> Sequence[Scorer]:
    """Return the scorers this plugin offers.

    Returns
    -------
    sequence of Scorer
        Objects with unique names; two plugins that offer one name are refused. A scorer is called with the ensemble
        and its evaluation rows, or, if its `needs` say "data-only", with None and a :class:`debias.Data`: the user's
        columns with their types, the response, weights and seed, whether or not there is a model.
    """
    ...


@hookspec
def debias_meta_methods() -> Sequence[MetaMethod]:
    """Return the meta-methods this plugin offers.

    Returns
    -------
    sequence of MetaMethod
        Objects with unique names, also among scorers. A meta-method is called with a scorer and returns a scorer; that
        is called with None and a :class:`debias.Problem`, whose changes it scores with the scorer inside.
    """
    ...
