"""The hooks that a plugin may implement, as module-level functions marked ``@debias.plugin.hookimpl``.

Adapters answer the ``firstresult`` hooks about a model. They return None for a model that is not theirs, and raise an
error of debias for a model that is theirs but cannot be handled. Two adapters must not accept the same model, so that
the order of calls never decides a number. `debias_scorers`, `debias_meta_methods`, `debias_commands` and
`debias_self_checks` are collected from every plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import click
    import numpy as np
    from numpy.typing import NDArray

    from debias.hooks.contracts import MetaMethod, Scorer
    from debias.hooks.cross_validated import CrossValidated
    from debias.hooks.library import Library
    from debias.hooks.reported import ReportedImportance
    from debias.hooks.training_weights import TrainingWeights
    from debias.hooks.wrapping import Unwrapped
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag

PROJECT = "debias"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Remove one layer from a model around other models: a pipeline, a search, a voting model.

    Parameters
    ----------
    model : object
        The model that the user passed, or that another layer contained. Never change it.

    Returns
    -------
    Unwrapped or None
        The models inside, how they see X and y, and the column of the outer model that each of their columns comes
        from. None if the model is not a wrapper of this adapter.

    Raises
    ------
    UnsupportedModelError
        The model is not fitted, or the scores of the models inside cannot be combined; the message says what to do.
    """
    ...


@hookspec(firstresult=True)
def debias_cross_validated(results: Any) -> CrossValidated | None:
    """Return the models of the folds from what a cross-validation of this library returned.

    Parameters
    ----------
    results : object
        What the user passed to :func:`debias.audit_folds`, such as a calibrated classifier or a bag of boosters. Never
        change it. Lists and mappings of models, and the dict of scikit-learn's ``cross_validate``, need no hook.

    Returns
    -------
    CrossValidated or None
        The models, and the folds as far as the library keeps them. None if it is not a container of this adapter.

    Raises
    ------
    UnsupportedModelError
        The container is of this adapter, but holds no models of folds; the message gives the reason.
    """
    ...


@hookspec(firstresult=True)
def debias_splits(
    cv: int, X: Any, y: Any, is_classifier: bool
) -> Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]] | None:
    """Divide rows into a number of folds, as the library does it for ``cv=5``.

    Parameters
    ----------
    cv : int
        Number of folds.
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    is_classifier : bool
        Whether the models predict classes.

    Returns
    -------
    sequence of (array of int64, array of int64), or None
        The positions of the training rows and of the test rows of each fold. None if this adapter divides no rows.

    Raises
    ------
    RowsError
        The rows cannot be divided into so many folds.
    """
    ...


@hookspec(firstresult=True)
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Turn a fitted model into the common node representation.

    Parameters
    ----------
    model : object
        The model that the user passed: a fitted estimator or a Booster. Never change it.

    Returns
    -------
    TreeEnsemble or None
        None if the model is not of the library or family of this adapter.

    Raises
    ------
    UnsupportedModelError
        The model belongs to this adapter, but is not fitted or not supported; the message gives the reason.
    """
    ...


@hookspec(firstresult=True)
def debias_leaves(model: Any, ensemble: TreeEnsemble, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Route rows with the code of the library. The router of debias must agree with it.

    Parameters
    ----------
    model : object
        A model that ``debias_extract`` of this adapter accepts.
    ensemble : TreeEnsemble
        The trees that were extracted from it.
    X : array, or pandas frame where the ensemble's ``rows_as_frame`` is true, of shape (n_rows, n_features)
        Numbers in the ``routing_dtype`` of the ensemble, with codes instead of labels, the columns in the order of the
        model, and missing values as NaN. An array is C-contiguous; a frame has the ``feature_names`` of the ensemble.

    Returns
    -------
    array of int32 of shape (n_rows, n_trees), or None
        Index of the leaf within its tree, in the numbering of the ensemble. None if the model is not of this adapter.
    """
    ...


@hookspec(firstresult=True)
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.float64] | None:
    """Return the raw output of the library. The extracted trees must reproduce it.

    It is asked for if ``debias_predict_native`` returns None, or other numbers than the extracted trees give.

    Parameters
    ----------
    model : object
        A model that ``debias_extract`` of this adapter accepts.
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
    """Return the raw output of the library for rows as the user passed them. It shows errors of the encoding.

    Without this hook, rows are compared only after debias has converted them to numbers.

    Parameters
    ----------
    model : object
        A model that ``debias_extract`` of this adapter accepts.
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
        Some of the rows in the container that the user passed (numpy, scipy.sparse, pandas, polars, pyarrow), with the
        same types and labels and with the columns in the order of the model. Pass it to the library as it is.

    Returns
    -------
    array of float64 of shape (n_rows, n_outputs), or None
        As from ``debias_predict_raw``. None if the model is not of this adapter, or if the library does not take such a
        container: then the hook is called again with a pandas frame of the same values (at once, if ``takes_tables`` of
        the ensemble is false). Errors of the library may pass through: debias then refuses the rows with the message of
        the library, unless they contain labels that the library takes in a pandas frame.
    """
    ...


@hookspec(firstresult=True)
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> InBag | None:
    """Recover the training rows that each tree was grown on.

    Parameters
    ----------
    model : object
        A model that ``debias_extract`` of this adapter accepts.
    y : array of shape (n_rows,), or (n_rows, 2)
        The response that may be the training response, as class codes (classification) or numbers. Weights such as
        ``balanced_subsample`` of scikit-learn depend on it. Of survival models: times, and 1 for events or 0.
    sample_weight : array of shape (n_rows,), or None
        Weights that the user passed with the rows. If the library uses weights in the nodes, they are training weights.

    Returns
    -------
    InBag or None
        None if the model is not of this adapter.

    Raises
    ------
    InBagUnavailableError
        The model was grown without bags, or they cannot be recovered; the message says what to do instead.
    TrainingRowsError
        The bags cannot be recovered, but the rows are the training rows, so that they are not held-out rows either.
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
def debias_reported_importance(model: Any) -> ReportedImportance | tuple[NDArray[np.float64], str] | None:
    """Return the feature importance that the library reports, the name that the library gives it, and what it measures.

    Parameters
    ----------
    model : object
        A model that ``debias_extract`` of this adapter accepts.

    Returns
    -------
    ReportedImportance or (array of shape (n_features,), str) or None
        The importances, not scaled, and their name, for example ``"total_gain"``. With a ``measure`` audits compute the
        same figure on unseen rows, and say which features are reported too high. With a pair they cannot.
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
    qid: NDArray[np.int64] | None,
) -> Any | None:
    """Fit a new model of the same kind, with the same settings, on other rows.

    Early stopping is off. The number of rounds is the number that the model uses for prediction.

    Parameters
    ----------
    model : object
        A model that ``debias_extract`` of this adapter accepts. Never change it.
    X : array or data frame of shape (n_rows, n_features)
        Rows in a container that the library takes, with the columns in the order of the model and, in a frame, with its
        names.
    y : array-like of shape (n_rows,) or (n_rows, n_responses)
        Response, as the model was trained on: labels or numbers.
    sample_weight : array of shape (n_rows,), or None
    seed : int or None
        Random state of the new model; None keeps the setting of the old model.
    params : mapping or None
        Hyper-parameters that replace those the model stores; all of them, if it stores none.
    n_jobs : int or None
        Number of threads of the new model, unless `params` say otherwise; None for the number of the old one. An
        adapter whose library has no such setting leaves this argument out.
    qid : array of int64 of shape (n_rows,), or None
        The query of each row, for rankers: numbers from 0 that never fall, so that rows of a query are together. The
        weights of the rows of a query are the same. An adapter that trains no rankers leaves this argument out, and is
        then not asked if there are queries.

    Returns
    -------
    object or None
        The fitted model; None if the model is not of this adapter.

    Raises
    ------
    UnsupportedModelError
        The model does not store its settings and `params` is None, or it cannot be refitted for another reason.
    RowsError
        The library cannot take these columns.
    """
    ...


@hookspec(firstresult=True)
def debias_download_model(address: str, folder: Path) -> Path | None:
    """Copy a model that has an address, such as ``models:/name/1``, to a folder, without running code from it.

    Parameters
    ----------
    address : str
        What was passed instead of a path.
    folder : Path
        An empty folder, which is deleted when the model is loaded.

    Returns
    -------
    Path or None
        The file or directory of the model in `folder`, or None if the address is of another kind.

    Raises
    ------
    UnsupportedModelError
        There is no model at this address, or it cannot be reached.
    """
    ...


@hookspec(firstresult=True)
def debias_load_model(path: Path, trust: tuple[str, ...], try_apart: Callable[[], None]) -> Any | None:
    """Load a model from a file or directory in a format of this adapter, without running code from it.

    Parameters
    ----------
    path : Path
        An existing file, or a directory that is not an MLflow model: libraries such as TensorFlow Decision Forests and
        Spark save models as directories. Adapters that read files only return None for it.
    trust : tuple of str
        Types that the user trusts in addition to the list of the adapter, for formats that contain type names.
    try_apart : callable
        Loads the file in a separate process first, and raises an error if that process crashes. Call it for a format
        that only a native reader understands, so that nothing can be checked before. Other adapters may leave it out.

    Returns
    -------
    object or None
        The model, or None if `path` is not in a format of this adapter. Its trees are checked when they are
        extracted.

    Raises
    ------
    UnsupportedModelError
        The file is in this format but broken, or its library is not installed.
    UntrustedModelError
        The file contains a type that is not trusted.
    """
    ...


@hookspec(firstresult=True)
def debias_save_model(model: Any, path: Path) -> bool | None:
    """Write a model to a file in the format of this adapter.

    Parameters
    ----------
    model : object
        A fitted model of any library, or a wrapper of one.
    path : Path
        A new file in an empty folder. Its suffix chooses the format.

    Returns
    -------
    bool or None
        True if the file was written; None for models and suffixes of others.

    Raises
    ------
    Exception
        Any error of the library, which the user gets with the name of the file.
    """
    ...


@hookspec(firstresult=True)
def debias_restore(model: Any, params: Any) -> Any | None:
    """Restore the hyper-parameters of a model whose file lost them.

    Parameters
    ----------
    model : object
        A model that ``debias_extract`` of this adapter accepts. Never change it.
    params : mapping or estimator
        Names and plain values, or an unfitted estimator with the hyper-parameters of the model.

    Returns
    -------
    object or None
        A copy that is scored and refitted with these hyper-parameters. None if the model is not of this adapter, or if
        such models do not lose hyper-parameters.

    Raises
    ------
    RowsError
        There is no such hyper-parameter, or the trees show that it had another value.
    """
    ...


@hookspec
def debias_scorers() -> Sequence[Scorer]:
    """Return the scorers of this plugin.

    Returns
    -------
    sequence of Scorer
        Scorers with unique names; the same name in two plugins is an error. A :class:`debias.plugin.TreeScorer` is
        called with the ensemble and its evaluation rows. A :class:`debias.plugin.DataScorer` is called with a
        :class:`debias.plugin.Data`: the columns of the user with their types, the response, weights and seed, whether
        or not there is a model.
    """
    ...


@hookspec
def debias_meta_methods() -> Sequence[MetaMethod]:
    """Return the meta-methods of this plugin.

    Returns
    -------
    sequence of MetaMethod
        Meta-methods with unique names, which are also not names of scorers. A meta-method is called with a scorer and
        returns a scorer. That scorer is called with a :class:`debias.plugin.Problem`; it changes the problem and scores
        the changes with the scorer inside.
    """
    ...


@hookspec
def debias_commands() -> Sequence[click.Command]:
    """Return the commands that this plugin adds to ``debias`` in the shell.

    ``debias --help`` asks for them, and ``debias NAME`` does if debias itself has no command NAME. Import
    libraries inside of the functions of the commands, so that neither ``import debias`` nor ``debias --help`` waits for
    them.

    Returns
    -------
    sequence of click.Command
        Commands or groups of commands of the package click. A name that debias or another plugin has is an error, which
        ``debias --help`` and ``debias doctor`` print. An error of debias, a file or an import ends the command with one
        line on stderr and exit code 3, any other error with its traceback and exit code 3. For an exit code of its own
        a command calls ``sys.exit``.
    """
    ...


@hookspec
def debias_libraries() -> Sequence[Library]:
    """Declare the libraries that this adapter reads.

    Returns
    -------
    sequence of Library
        One for each library, with a name that no other plugin declares. This hook must not import the library.
    """
    ...
