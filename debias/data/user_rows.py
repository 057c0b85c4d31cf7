"""The class Dataset: rows that a user passes, with all that belongs to them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from debias.data.table import names_of_columns
from debias.errors import RowsError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with all that belongs to them. Pass it as X of :func:`debias.audit` and the like, without y, or as `train`.

    Nothing is copied or checked before it is used.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rows, n_features), list of texts, or a source of rows
        As for :func:`debias.score`.
    y : array-like of shape (n_rows,), or str
        Response of the rows, or the name of its column in a source of rows.
    sample_weight : array-like of shape (n_rows,), or str, optional
        Weights of the rows, or the name of their column in a source of rows. For training rows: the weight of each row
        in training (sample weight times class weight).
    base_margin : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Start margin of each row, for boosted models that were trained with one (XGBoost's ``base_margin``, LightGBM's
        ``init_score``). The model does not store it. Not for training rows.
    qid : array-like of shape (n_rows,), optional
        The query of each row, for rankers, which need it. Rows of a query need not be together. From the sizes of
        groups it is ``np.repeat(np.arange(len(group)), group)``. Queries are the blocks of a test, unless `blocks` has
        larger ones.
    blocks : array-like of shape (n_rows,), optional
        A label for each row. Rows with the same label depend on one another (repeated measurements, neighbours in
        time). A row is then out of bag for a tree only if its whole block is. Not for training rows.
    feature_names : sequence of str, optional
        Names of the columns of X, for a sparse matrix or an array and a model that stores no names.

    Examples
    --------
    Four rows for each patient:

    >>> import debias
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> patients = np.arange(442) // 4
    >>> debias.score(forest, debias.Dataset(X, y, blocks=patients)).rows
    'oob'
    """

    X: Any
    y: Any = None
    _: KW_ONLY
    sample_weight: Any = None
    base_margin: Any = None
    qid: Any = None
    blocks: Any = None
    feature_names: Sequence[str] | None = None


def dataset(X: Any, y: Any = None, sample_weight: Any = None, base_margin: Any = None) -> Dataset:
    """Return what a user passed as X, y, weights and start margins as one Dataset.

    Parameters
    ----------
    X, y, sample_weight, base_margin
        As for :class:`Dataset`; X may be a Dataset.

    Raises
    ------
    RowsError
        X is a Dataset that has y, weights or margins of its own, and others are passed beside it; or it is the X of a
        Dataset.
    """
    if not isinstance(X, Dataset):
        return Dataset(X, y, sample_weight=sample_weight, base_margin=base_margin)
    if isinstance(X.X, Dataset):
        raise RowsError("the X of a Dataset is a Dataset itself: pass one of them")
    given = {"y": y, "sample_weight": sample_weight, "base_margin": base_margin}
    beside = {name: values for name, values in given.items() if values is not None}
    for name in beside:
        if getattr(X, name) is not None:
            after = ". What follows a Dataset must have a name, such as scorer=" if name == "y" else ""
            raise RowsError(f"{name} is passed beside a Dataset that has {name} of its own: pass one of them{after}")
    return replace(X, **beside)


def training_tuple(train: Any, feature_names: Sequence[str] | None) -> tuple[Any, ...] | None:
    """Return training rows that a user passed as (X, y), (X, y, weight) or (X, y, weight, qid).

    Parameters
    ----------
    train : (X, y), Dataset or None
    feature_names : sequence of str or None
        The names of the columns of the evaluation rows, if they have names.

    Raises
    ------
    RowsError
        `train` is neither, or has what training rows cannot have.
    """
    if train is None:
        return None
    if not isinstance(train, Dataset):
        if not isinstance(train, (tuple, list)) or len(train) != 2:
            raise RowsError(
                "train must be (X_train, y_train), or debias.Dataset(X_train, y_train, sample_weight=..., qid=...)"
            )
        return tuple(train)
    if train.y is None:
        raise RowsError("the Dataset of train= has no response: pass debias.Dataset(X_train, y_train)")
    for name in ("base_margin", "blocks"):
        if getattr(train, name) is not None:
            raise RowsError(f"the Dataset of train= has {name}, which is for evaluation rows: leave {name} out")
    if train.feature_names is not None:
        names = tuple(train.feature_names)
        of_evaluation = names if feature_names is None else tuple(name for name in feature_names if name in names)
        if names_of_columns(train.X) not in (None, names) or of_evaluation != names:
            raise RowsError("train= has other feature_names than its columns or the evaluation rows: pass the same")
    return (train.X, train.y, train.sample_weight, train.qid)[: 4 if train.qid is not None else 3]
