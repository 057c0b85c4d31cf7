"""Adapter of AutoGluon's TabularPredictor: its weighted ensemble, the bags of folds in it, and the models of a fold."""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.errors import ProvenanceError, RowsError, UnsupportedModelError
from debias.hooks.cross_validated import CrossValidated
from debias.hooks.library import Library
from debias.hooks.wrapping import BEFORE_CALIBRATION, Inner, Unwrapped
from debias.text import listed
from debias_adapters.sklearn.columns import sources

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.hooks.wrapping import Columns

LIBRARY = Library(
    "AutoGluon",
    "autogluon.tabular",
    "its models are those of the other libraries",
    tested=("1.6", "1.6"),
    extra="autogluon",
    page="libraries/automl",
)
OF_TREES = ("LGBModel", "XGBoostModel", "CatBoostModel", "RFModel")
"""AutoGluon's classes around models of trees; its extra trees inherit from the last."""
TOLERANCE = 1e-4
"""Predictions are stored as float32."""
_PASS = (
    "Pass all rows of the training data, unchanged and in training order, or rows the model has not seen, with "
    "rows='held-out'"
)


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return the models that predict for a predictor, the children of a bag, or the model of a library inside one."""
    tabular, core = sys.modules.get("autogluon.tabular"), sys.modules.get("autogluon.core.models")
    if tabular is None or core is None:
        return None
    if isinstance(model, tabular.TabularPredictor):
        return _of_predictor(model, core)
    if isinstance(model, core.BaggedEnsembleModel):
        return _of_bag(model)
    if isinstance(model, ModelOfFold):
        return Unwrapped(
            "fold of a TabularPredictor", (model.inner,), tuple(map(str, model.predictor.original_features))
        )
    return _of_model(model) if isinstance(model, core.AbstractModel) else None


@debias.plugin.hookimpl
def debias_cross_validated(results: Any) -> CrossValidated | None:
    """Return the models of the folds of the bag that a predictor predicts with."""
    tabular, core = sys.modules.get("autogluon.tabular"), sys.modules.get("autogluon.core.models")
    if tabular is None or core is None or not isinstance(results, tabular.TabularPredictor):
        return None
    best, weights = _best_with_weights(results, core)
    members = {name: results._trainer.load_model(name) for name in weights}
    bags = {name: member for name, member in members.items() if _is_of_trees(member) and _has_folds(member)}
    if not bags:
        raise UnsupportedModelError(
            f"this AutoGluon TabularPredictor predicts with {best.name!r}, and no bag of trees in it has models of "
            "folds: choose one of model_names() that ends in _BAG_L1, with predictor.set_model_best(name). Random "
            "forests have folds only if they are fitted with ag_args_ensemble={'use_child_oof': False}"
        )
    name = max(bags, key=lambda each: weights[each])
    note = (
        f"the folds are those of {name!r}, which has the largest weight ({weights[name]:.2f}) of the bags with folds "
        f"in {best.name!r}"
        if len(weights) > 1
        else None
    )
    bag = bags[name]
    outer = _member(results, bag, 1.0)
    assert outer.transform is not None
    assert outer.response is not None
    seen, labels = outer.transform, outer.response
    return CrossValidated(
        "TabularPredictor",
        [ModelOfFold(results, replace(outer, model=child, name=f"fold {child.name}")) for child in _children(bag)],
        unseen=lambda X, y: unseen(bag, seen(X), labels(y)),
        proof="each model predicts for the rows of its fold what AutoGluon stored when it held them out",
        note=note,
        tuned_on_test=_tuned(bag),
    )


@dataclass(frozen=True, eq=False)
class ModelOfFold:
    """The model of one fold of a bag, which takes rows as the predictor does."""

    predictor: Any
    inner: Inner


@debias.plugin.hookimpl
def debias_load_model(path: Path) -> None:
    """Refuse the folder of a predictor: all its files are pickles."""
    if all((path / name).is_file() for name in ("predictor.pkl", "learner.pkl")):
        raise UnsupportedModelError(
            f"{path} is the folder of an AutoGluon predictor, whose files are pickles: loading them runs code "
            "in them. If you trust it, load it with autogluon.tabular.TabularPredictor.load, and pass the predictor"
        )


def _of_predictor(model: Any, core: Any) -> Unwrapped:
    best, weights = _best_with_weights(model, core)
    load = model._trainer.load_model
    members = {name: load(name) for name in weights}
    _refuse_other_members(model, members, load)
    inner = tuple(_member(model, member, float(weights[name])) for name, member in members.items())
    notes = [f"scores are sums over {len(inner)} models, times their weights in {best.name}"] if len(inner) > 1 else []
    if any(member.temperature_scalar for member in (best, *members.values())):
        notes.append(BEFORE_CALIBRATION)
    names = tuple(map(str, model.original_features))
    return Unwrapped("TabularPredictor", inner, names, note="; ".join(notes) or None)


def _best_with_weights(model: Any, core: Any) -> tuple[Any, dict[str, float]]:
    """Return the model that a predictor predicts with, and the weights of its members, or its own."""
    if not model.is_fit:
        raise UnsupportedModelError("this AutoGluon TabularPredictor is not fitted; fit it first")
    if model.problem_type not in ("binary", "multiclass", "regression"):
        raise UnsupportedModelError(
            f"this AutoGluon TabularPredictor was fitted for the problem {model.problem_type!r}: debias scores binary, "
            "multiclass and regression"
        )
    best = load_best(model)
    weights = best._get_model_weights() if isinstance(best, core.WeightedEnsembleModel) else {best.name: 1.0}
    return best, {name: float(weight) for name, weight in weights.items()}


def load_best(model: Any) -> Any:
    """Return the model that a predictor predicts with."""
    return model._trainer.load_model(model.model_best)


def _refuse_other_members(model: Any, members: dict[str, Any], load: Any) -> None:
    """Refuse members that are not of trees, or that see predictions of other models as features."""
    others = [name for name, member in members.items() if not _is_of_trees(member)]
    stacked = [name for name, member in members.items() if getattr(member, "base_model_names", None)]
    if not others and not stacked:
        return
    kinds = {name: load(name) for name in model.model_names()}
    scored = [
        name for name, kind in kinds.items() if _is_of_trees(kind) and not getattr(kind, "base_model_names", None)
    ]
    why = (
        f"{listed([repr(name) for name in stacked])} have predictions of other models as features, which are not "
        "columns of X"
        if stacked
        else f"{listed([repr(name) for name in others])} are no models of trees, so the scores cannot be combined"
    )
    remedy = f'predictor.set_model_best("{scored[0]}") chooses one that can be scored' if scored else "No other can be"
    raise UnsupportedModelError(
        f"this AutoGluon TabularPredictor predicts with {model.model_best!r}, and of its models {why}. {remedy}"
    )


def _is_of_trees(model: Any) -> bool:
    models = sys.modules["autogluon.tabular.models"]
    kinds = tuple(getattr(models, name) for name in OF_TREES)
    return issubclass(getattr(model, "_child_type", type(model)), kinds)


def _member(model: Any, member: Any, weight: float) -> Inner:
    links: dict[str, list[str]] = model._learner.feature_generator.get_feature_links()
    original = list(model.original_features)
    features = list(_children(member)[0].features)
    columns = [tuple(original.index(name) for name, made in links.items() if each in made) for each in features]
    return Inner(
        member,
        f"model {member.name!r}",
        weight,
        transform=partial(_features, model, features),
        response=partial(_labels, model),
        columns=columns,
    )


def _features(model: Any, features: list[str], X: Any) -> Any:
    return model.transform_features(X)[features].reset_index(drop=True)


def _labels(model: Any, y: Any) -> NDArray[Any]:
    import pandas as pd

    given = pd.Series(np.asarray(y))
    encoded = model.transform_labels(given)
    if encoded.isna().any():
        unknown = sorted(set(given[encoded.isna().to_numpy()]), key=str)
        raise RowsError(f"y has labels that the model never saw: {unknown[:5]}")
    numbers = encoded.to_numpy()
    return numbers if model.problem_type == "regression" else numbers.astype(np.int64)


def _of_bag(model: Any) -> Unwrapped:
    children = _children(model)
    tuned = _tuned(model)
    inner = tuple(
        Inner(child, f"fold {child.name}", 1 / len(children), tuned_on_unseen=tuned if model._bagged_mode else None)
        for child in children
    )
    note = None
    if len(children) > 1 and tuned is not None and model.problem_type != "regression":
        note = "AutoGluon takes the mean of the probabilities of the folds, and scores are means for their margins"
    return Unwrapped("bag", inner, note=note, unseen=partial(unseen, model) if model._bagged_mode else None)


def _tuned(bag: Any) -> str | None:
    """Return what was chosen on the rows of the folds of a bag."""
    if issubclass(bag._child_type, sys.modules["autogluon.tabular.models"].RFModel):
        return None
    return "AutoGluon chose the number of trees in each fold by the loss on its rows"


def _has_folds(model: Any) -> bool:
    return bool(getattr(model, "_bagged_mode", False)) and len(model.models) > 1


def _children(model: Any) -> list[Any]:
    """Return the models of the folds of a bag; a model that is no bag itself."""
    return [model.load_child(child) for child in model.models] if hasattr(model, "load_child") else [model]


def _of_model(model: Any) -> Unwrapped:
    prepared = Prepared(model)
    names = tuple(map(str, model.features))
    inner = Inner(
        model.model,
        type(model).__name__,
        transform=prepared.transform,
        columns=partial(_columns, prepared, len(names)),
        feature_names=None if _makes_columns(model) else names,
    )
    return Unwrapped(type(model).__name__, (inner,), names)


class Prepared:
    """The columns that a model of AutoGluon makes of the features before its library sees them."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def transform(self, X: Any) -> Any:
        """Return the columns that the library sees."""
        return self.model.preprocess(X)


def _columns(prepared: Prepared, n_features: int, X: Any) -> Columns:
    if _makes_columns(prepared.model):
        return sources(prepared, n_features, None if X is None else lambda: X)
    return np.arange(n_features)


def _makes_columns(model: Any) -> bool:
    """Whether the library sees other columns than the features, such as one for each category."""
    has_own_generators = getattr(model, "_model_specific_feature_generators", None) not in (None, "NOTSET")
    return has_own_generators or bool(getattr(model, "_ohe", False))


def unseen(bag: Any, X: Any, y: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Return for each model of a bag the positions of the rows of its own fold, on which it was not trained.

    Parameters
    ----------
    bag : BaggedEnsembleModel
    X : DataFrame of shape (n_rows, n_features)
        The features that AutoGluon makes.
    y : array of shape (n_rows,)
        The response as AutoGluon encodes it.

    Raises
    ------
    ProvenanceError
        The stored predictions are not those of the models for these rows, or the stored validation score is not that
        of these predictions for this response.
    """
    import pandas as pd

    loaded = copy(bag)
    try:
        loaded._load_oof()
    except OSError as error:
        raise ProvenanceError(
            "AutoGluon did not keep its predictions of the training rows, so rows cannot be proven to be training "
            "rows. Pass rows the model has not seen, with rows='held-out'"
        ) from error
    stored, n_models = loaded._oof_pred_proba, loaded._oof_pred_model_repeats
    if len(stored) != len(X):
        raise ProvenanceError(f"AutoGluon trained this model on {len(stored)} rows, but X has {len(X)}. {_PASS}")
    labels = pd.Series(y)
    positions = _folds(bag, X, labels)
    predicted = np.zeros(stored.shape)
    for child, of_fold in zip(bag.models, positions, strict=True):
        predicted[of_fold] += bag.load_child(child).predict_proba(X.iloc[of_fold])
    agree = np.isclose(predicted, stored, rtol=TOLERANCE, atol=TOLERANCE * np.abs(stored).mean())
    if not agree.all():
        share = agree.reshape(len(X), -1).all(axis=1)[n_models > 0].mean()
        raise ProvenanceError(
            "these are not the training rows in training order: the models predict what AutoGluon stored for "
            f"{share:.0%} of them only. {_PASS}"
        )
    if bag.val_score is not None and not np.isclose(loaded.score_with_oof(labels), bag.val_score, rtol=TOLERANCE):
        raise ProvenanceError(
            "y is not the training response: with it, the predictions of the training rows do not have the validation "
            f"score that AutoGluon stored. {_PASS}"
        )
    return positions


def _folds(bag: Any, X: Any, labels: Any) -> list[NDArray[np.int64]]:
    positions, first = [], 0
    for splitter, n_folds in zip(bag._cv_splitters, bag._k_per_n_repeat, strict=True):
        of_repeat = splitter.split(X=X, y=labels)[first : first + n_folds]
        positions += [np.asarray(of_fold, dtype=np.int64) for _, of_fold in of_repeat]
        first += n_folds
    return positions
