"""The labels of categories and classes that a model knows. Tables in text are read by them.

A cell of a CSV file has no type. "01", "1e5", "True" and "NA" are categories if the model knows them as such.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.hooks.wrapping import together
from debias.models.extraction import trees_of
from debias.models.folds import models_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from debias.hooks.wrapping import Inner, Labels
    from debias.trees.ensemble import TreeEnsemble


UNKNOWN = "\0{}"
"""Stands for the name of a column that no model knows: no column has a null character in its name."""


@dataclass(frozen=True)
class KnownLabels:
    """What a model knows of its columns and classes.

    Parameters
    ----------
    names : tuple of str, or None
        Names of the user's columns; None if the model does not know them.
    of_column : dict of int to list, or None
        By the position of a column, the labels of its categories; None for a column of categories whose labels the
        model does not keep.
    others_are_numbers : bool
        Whether all other columns are numbers. They may be anything if a transformer is before the trees.
    classes : list, or None
        Labels of the classes of a classifier, if it keeps them.
    """

    names: tuple[str, ...] | None = None
    of_column: Labels = field(default_factory=dict)
    others_are_numbers: bool = False
    classes: list[Any] | None = None

    def by_name(self, columns: list[str]) -> dict[str, list[Any] | None]:
        """Return the labels by the names of a table's features. A model without names takes them in order."""
        names = columns if self.names is None else list(self.names)
        found = {names[k]: labels for k, labels in self.of_column.items() if k < len(names)}
        return {name: labels for name, labels in found.items() if name in columns}


def known_labels(models: Any) -> KnownLabels:
    """Return the labels that a model of trees, a wrapper around some, or the models of folds together, know.

    Parameters
    ----------
    models : object
        A model, or what holds the models of folds.

    Raises
    ------
    UnsupportedModelError
        No adapter recognises the model.
    """
    found = [_of_model(model) for model in models_in(models)]
    if len(found) == 1:
        return found[0]
    classes = [label for known in found for label in known.classes or ()]
    return replace(
        found[0], of_column=together([known.of_column for known in found]), classes=list(dict.fromkeys(classes)) or None
    )


def known_by_either(models: Sequence[Any], columns: list[str]) -> KnownLabels:
    """Return what models with columns of their own know of a table together.

    Parameters
    ----------
    models : sequence of estimator or Booster
    columns : list of str
        The features of the table.

    Raises
    ------
    UnsupportedModelError
        No adapter recognises one of the models.
    """
    found = [_of_model(model) for model in models]
    named = [known.names for known in found if known.names is not None]
    at = {name: k for k, name in enumerate(columns)}
    labels = [{at[name]: each for name, each in known.by_name(columns).items()} for known in found]
    classes = [label for known in found for label in known.classes or ()]
    either = None if len(named) < len(found) else {name for names in named for name in names}
    # By the positions in the table: names that no model knows stay at their places, and have no labels.
    names = None if either is None else tuple(name if name in either else UNKNOWN.format(k) for name, k in at.items())
    return KnownLabels(
        names,
        together(labels),
        others_are_numbers=all(known.others_are_numbers for known in found),
        classes=list(dict.fromkeys(classes)) or None,
    )


def _of_model(model: Any) -> KnownLabels:
    from debias.hooks.registry import plugin_manager

    unwrapped = plugin_manager().hook.debias_unwrap(model=model)
    if unwrapped is None:
        return _of_trees(trees_of(model))
    inner = [_of_model(each.model) for each in unwrapped.inner]
    of_column = together([_before(each, known.of_column) for each, known in zip(unwrapped.inner, inner, strict=True)])
    plain = all(each.transform is None for each in unwrapped.inner)
    names = unwrapped.feature_names if unwrapped.named else None
    if names is None and plain:
        names = unwrapped.inner[0].feature_names or inner[0].names
    return KnownLabels(
        names,
        of_column,
        others_are_numbers=plain and all(known.others_are_numbers for known in inner),
        classes=_classes(model) or (inner[0].classes if unwrapped.inner[0].response is None else None),
    )


def _before(inner: Inner, after: Labels) -> Labels:
    """Return the labels of the columns of the outer model."""
    if inner.labels is not None:
        return inner.labels(after)
    return after if inner.transform is None else {}


def _of_trees(ensemble: TreeEnsemble) -> KnownLabels:
    return KnownLabels(
        ensemble.feature_names if ensemble.named else None,
        {k: labels.tolist() for k, labels in (ensemble.category_labels or {}).items()},
        others_are_numbers=True,
        classes=None if ensemble.classes is None else ensemble.classes.tolist(),
    )


def _classes(model: Any) -> list[Any] | None:
    """Return the attribute in which estimators keep their labels; None if there is none, or there are several sets."""
    classes = getattr(model, "classes_", None)
    return classes.tolist() if isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.size else None
