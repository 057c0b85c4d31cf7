"""Refits of LightGBM models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError, UnsupportedModelError
from debias.trees.ranking_objectives import required_queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias_adapters.lightgbm.reading import ModelText

ROUNDS = (
    "n_estimators", "num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round", "num_rounds",
    "nrounds", "num_boost_round", "max_iter",
)  # fmt: skip
STOPPING = ("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change")
SEEDS = ("random_seed", "random_state", "bagging_fraction_seed")


def refit_wrapper(
    model: Any,
    text: ModelText,
    X: Any,
    y: Any,
    sample_weight: NDArray[Any] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
    qid: NDArray[np.int64] | None,
) -> Any:
    """Fit a clone of a scikit-learn wrapper, with the rounds that predictions use and without early stopping."""
    from sklearn.base import clone

    clean = clone(model)
    parameter_names = clean.get_params()
    settings: dict[str, Any] = {name: _rounds(text) for name in ROUNDS if name in parameter_names}
    settings |= {name: None for name in STOPPING if name in parameter_names}  # LightGBM 4.3 does not take 0 for none
    clean.set_params(**{**settings, **(params or {}), **({} if seed is None else {"random_state": seed})})
    X = checked(X)
    return clean.fit(X, y, sample_weight=sample_weight, categorical_feature=_categorical(text, X), **_groups(text, qid))


def refit_booster(
    model: Any,
    text: ModelText,
    X: Any,
    y: Any,
    sample_weight: NDArray[Any] | None,
    seed: int | None,
    params: Mapping[str, Any] | None,
    qid: NDArray[np.int64] | None,
) -> Any:
    """Train a Booster with the settings of another one."""
    import lightgbm

    if text.head.get("objective") is None:
        raise UnsupportedModelError(
            "this LightGBM Booster was trained with a function as its objective, and does not keep the function: it "
            "cannot be refitted. Train the scikit-learn wrapper with objective=your_function"
        )
    if not model.params and params is None:  # before 4.7, LightGBM restores parameters from files, but not from strings
        raise UnsupportedModelError(
            "this LightGBM Booster kept no hyper-parameters; pass them as refits=debias.Refits(params={...}) "
            "(params={} if it was trained with the defaults), or as params= of debias.refit"
        )
    settings = {
        name: value
        for name, value in model.params.items()
        if name not in (*ROUNDS, *STOPPING, "categorical_feature", "cat_feature", "categorical_column", "cat_column")
    }
    if seed is not None:  # the settings have a seed for each purpose, and these would override the one seed
        settings = {name: value for name, value in settings.items() if not (name.endswith("_seed") or name in SEEDS)}
        settings["seed"] = seed
    X = checked(X)
    response = np.asarray(y)  # with numpy 2, LightGBM 4.3 does not take lists
    names = "auto" if hasattr(X, "columns") else text.head["feature_names"].split(" ")
    data = lightgbm.Dataset(
        X,
        response,
        weight=sample_weight,
        categorical_feature=_categorical(text, X),
        feature_name=names,
        **_groups(text, qid),
    )
    return lightgbm.train({**settings, "verbosity": -1, **(params or {})}, data, num_boost_round=_rounds(text))


def _groups(text: ModelText, qid: NDArray[np.int64] | None) -> dict[str, Any]:
    """Return the sizes of queries, which rankers take."""
    if text.head.get("objective", "").split(" ")[0] not in ("lambdarank", "rank_xendcg"):
        return {}
    return {"group": np.unique(required_queries(qid), return_counts=True)[1]}


def checked(X: Any) -> Any:
    """Return X in a container that LightGBM takes.

    Parameters
    ----------
    X : array or data frame

    Returns
    -------
    array or pandas data frame
        Tables of other libraries are converted to arrays of numbers.

    Raises
    ------
    RowsError
        A column holds text. LightGBM refuses it in a pandas frame; in an Arrow or polars table it aborts the process.
    """
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return X
    is_pandas = frame.implementation.is_pandas()
    unsupported = {
        str(name): str(dtype)
        for name, dtype in zip(frame.columns, frame.schema.dtypes(), strict=True)
        if not (
            dtype.is_numeric() or dtype == nw.Boolean or (is_pandas and isinstance(dtype, (nw.Categorical, nw.Enum)))
        )
    }
    if unsupported:
        raise RowsError(
            f"LightGBM cannot be trained on these columns: "
            f"{', '.join(f'{name} ({dtype})' for name, dtype in unsupported.items())}. Encode them as in training, or "
            "pass a pandas frame with columns of dtype category"
        )
    if is_pandas:
        return X
    return np.column_stack([np.asarray(frame[name].to_numpy(), dtype=np.float64) for name in frame.columns])


def _rounds(text: ModelText) -> int:
    return len(text.trees) // text.n_outputs


def _categorical(text: ModelText, X: Any) -> Any:
    """Return the categorical features: by the dtypes of a pandas frame, otherwise by the settings of the model."""
    if text.pandas_categories and hasattr(X, "dtypes") and hasattr(X, "iloc"):
        return "auto"
    positions = [int(k) for k in text.settings.get("categorical_feature", "").split(",") if k]
    names = text.head["feature_names"].split(" ")
    if not positions or X.shape[1] == len(names):
        return positions or "auto"
    if not hasattr(X, "columns"):
        raise RowsError(
            f"the model has categories in some of its {len(names)} columns by position, and these rows have "
            f"{X.shape[1]} columns without names: pass a data frame with columns of dtype category, also in training"
        )
    kept = [str(name).replace(" ", "_") for name in X.columns]
    return [kept.index(names[k]) for k in positions if names[k] in kept] or "auto"
