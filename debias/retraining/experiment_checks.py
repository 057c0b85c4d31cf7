"""What is refused before a model is trained again, because the model that came of it would be another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.dataset import as_frame
from debias.errors import CompositionError, RowsError
from debias.models.extraction import extract
from debias.models.wrappers import unwrap
from debias.rows.preparation import training_rows
from debias.warning_log import Notes

if TYPE_CHECKING:
    from debias.retraining.experiment import Part


def require_training(model: Any, part: Part) -> None:
    """Refuse rows that are not those of training, as far as that can be told: scores of refits would be of others."""
    weight = () if part.weight is None else (part.weight,)
    for member in unwrap(model, part.X, part.y, (part.X, part.y, *weight)):
        assert member.train is not None
        training_rows(extract(member.model), member.model, member.train, None, Notes(), False)


def refuse_forgotten_weights(model: Any, y: Any) -> None:
    """Refuse to train without weights what was trained with them: the null would be that of another model."""
    for member in unwrap(model):
        if _was_weighted(member.model, y):
            raise RowsError(
                f"the {type(member.model).__name__} was trained with sample weights, and none came with its training "
                "rows: it would be trained again without them. Pass sample_weight= (beside held-out rows as the third "
                "entry of train=), or ones to leave them out"
            )


def _was_weighted(model: Any, y: Any) -> bool:
    """Whether a model shows that its rows had weights of their own. One that stores no weights cannot show it.

    Where weights decide which rows are drawn, scikit-learn's models keep them, times those of classes. Else the weight
    at a root is the number of rows in the bag, and the same for all trees of a bootstrap.
    """
    kept = getattr(model, "_sample_weight", None)
    if kept is not None:
        labels = np.asarray(y) if getattr(model, "class_weight", None) is not None else np.zeros(len(kept))
        if labels.shape != np.shape(kept):
            return False
        return any(np.ptp(kept[labels == label]) > 1e-9 * np.max(kept) for label in np.unique(labels))
    settings: dict[str, Any] = getattr(model, "get_params", dict)()
    ensemble = extract(model)
    if ensemble.weight is None or ensemble.count is None:
        return False
    if any(value is not None for name, value in settings.items() if name.split("__")[-1] == "class_weight"):
        return False
    roots = ensemble.tree_start[:-1]
    weight, count = ensemble.weight[roots], ensemble.count[roots]
    near = 1e-6 * weight.max()
    all_rows = count == (ensemble.n_train or count.max())
    repeated = ~all_rows & (np.ptp(weight) <= near) & (np.abs(weight - np.round(weight)) <= near)
    return bool((~repeated & (np.abs(weight - count) > near)).any())


def refuse_class_weights(model: Any, train: Part | None) -> None:
    """Refuse weights of rows that have those of classes in them already: they would count twice."""
    for member in unwrap(model):
        if train is not None and getattr(member.model, "class_weight", None) is not None:
            raise RowsError(
                "train has weights that include those of classes, and the model would weigh classes again when it is "
                "trained; leave the third entry of train out if rows have no weights of their own"
            )


def refuse_more_columns(model: Any, X: Any) -> None:
    """Refuse to add columns that the model would not treat as it treats the originals."""
    import pandas as pd

    frame = as_frame(X)
    for member in unwrap(model):
        if member.columns is not None:
            raise CompositionError(
                f"this meta-method adds copies of columns, and a {member.path[0]} transforms columns by their names: "
                "score the model inside on the transformed rows, or use response_permutation"
            )
        ensemble = extract(member.model)
        if ensemble.category_set is None:
            continue
        by_set = np.unique(ensemble.feature[ensemble.category_set >= 0])
        plain = [str(frame.columns[k]) for k in by_set if not isinstance(frame.iloc[:, k].dtype, pd.CategoricalDtype)]
        if plain:
            raise CompositionError(
                f"the model splits {', '.join(plain)} by categories, but X has numbers there, so that copies would be "
                "split as numbers: train it on a frame with columns of dtype category"
            )
