"""Hooks for PMML: files, the columns that they compute before their trees, and what the sums of their trees mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import debias
from debias.errors import InBagUnavailableError, UnsupportedModelError, with_article
from debias.hooks.wrapping import Inner, Unwrapped
from debias.trees.ensemble import TreeEnsemble
from debias.trees.objectives import SQUARED_ERROR, Objective
from debias_adapters.pmml import LIBRARY
from debias_adapters.pmml.document import SOURCE, to_number, unsupported
from debias_adapters.pmml.model import PmmlModel, PmmlTrees

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from debias.hooks.library import Library
    from debias.hooks.wrapping import Labels
    from debias.trees.in_bag import InBag
    from debias_adapters.pmml.fields import Fields
    from debias_adapters.pmml.model import Content, Sum
    from debias_adapters.pmml.nodes import PmmlTree
    from debias_adapters.pmml.splits import Splits

    Floats = NDArray[np.float64]

HEAD = 4096
"""A file is PMML if so many of its first bytes name the element."""
ROUNDED = 1e-6
"""Largest difference of a number of rows from the sum of those of its parts, as a part of it."""


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the format."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_load_model(path: Path) -> Any | None:
    """Read an XML file with an element ``PMML``. Nothing else is needed, and no native code but Python's own."""
    if path.is_dir():
        return None
    with open(path, "rb") as file:
        head = file.read(HEAD)
    is_xml = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    if not (is_xml and (b"<PMML" in head or path.suffix == ".pmml")):
        return None
    model = PmmlModel(path.read_bytes())
    debias_extract(model.trees)  # a damaged file is refused here
    return model


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return the trees, and the columns that the file computes before them."""
    if not isinstance(model, PmmlModel):
        return None
    said = model.said
    origins = [said.fields.origin(name) for name in said.columns]
    labels = partial(_labels, said.fields)
    inner = Inner(model.trees, "trees", transform=model.trees.transform, columns=origins, labels=labels)
    return Unwrapped(SOURCE, (inner,), feature_names=model.names, named=True, rewrap=_refuse_refit)


def _labels(fields: Fields, _: Labels) -> Labels:
    """Return the labels of the columns of texts, by which tables in text are read: "01" is no number there."""
    return {
        k: list(each.labels) if each.closed else None
        for k, each in enumerate(fields.inputs)
        if each.labels is not None and each.type == "string"
    }


def _refuse_refit(*_: object) -> NoReturn:
    raise UnsupportedModelError(
        f"{with_article(SOURCE)} cannot be refitted: that needs the fitted model of a library that debias can train "
        "with, and not a file of it"
    )


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Return the trees of a file; None for a model of another library."""
    if not isinstance(model, PmmlTrees):
        return None
    said = model.model.said
    read = _reading(model)
    made, no_missing = model.made
    nodes = [tree for _, tree in said.in_order]
    weight = _weights(nodes, made)
    return TreeEnsemble(
        feature_names=tuple(said.columns),
        named=True,
        source=SOURCE,
        version=said.version,
        tested_versions=LIBRARY.tested_versions,
        routing_dtype=np.dtype(np.float64),  # fields of the type float are rounded before
        value=read.value,
        averaging_weight=weight,
        tree_output=read.tree_output,
        base=read.base,
        averaged=read.averaged,
        objective=read.objective,
        classes=_typed(said) if said.is_classifier else None,
        trees_a_round=read.trees_a_round,
        missing_refusal="it gives no prediction that is one leaf for rows with missing values" if no_missing else None,
        notes=(
            "the model was read from a file, so its predictions were not compared with those of another program",
            *read.notes,
            *said.notes,
        ),
        **_arrays(made),
    )


@debias.plugin.hookimpl
def debias_leaves(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the leaf of the node that predicts by the rules of the standard; -1 if the splits lead to another node."""
    if not isinstance(model, PmmlTrees):
        return None
    found = np.empty((len(X), len(model.made[0])), dtype=np.int32)
    winners = model.winners(X)
    for tree, splits in enumerate(model.made[0]):
        leaf = _descended(splits, np.asarray(X, dtype=np.float64))
        found[:, tree] = np.where(np.array(splits.node)[leaf] == winners[:, tree], leaf, -1)
    return found


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> Floats | None:
    """Return the raw output, from the scores of the nodes that predict by the rules of the standard."""
    return _predict(model, X) if isinstance(model, PmmlTrees) else None


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> Floats | None:
    """Return the same."""
    is_array = isinstance(X, np.ndarray) and X.dtype.kind in "fiub"
    return _predict(model, X) if isinstance(model, PmmlTrees) and is_array else None


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: Floats | None) -> InBag | None:
    """Refuse: a PMML file keeps nothing that its bags could be drawn from."""
    if not isinstance(model, PmmlTrees):
        return None
    raise InBagUnavailableError(
        f"{with_article(SOURCE)} does not keep which rows its trees were grown on. Pass rows the model has not seen, "
        "with rows='held-out', or pass the model that it was made from"
    )


@dataclass(frozen=True, eq=False)
class _Reading:
    """What the sums of the trees mean, as fields of a TreeEnsemble."""

    value: Floats
    tree_output: NDArray[np.int32]
    base: Floats
    averaged: bool
    objective: Objective
    trees_a_round: int
    notes: tuple[str, ...] = ()


_GUESS = "PMML does not keep the loss that a model was trained for; it is scored with the {}, because its output is {}"


def _reading(model: PmmlTrees) -> _Reading:
    """Return what the sums of the trees mean.

    Raises
    ------
    UnsupportedModelError
        It is not known what they mean.
    """
    said = model.model.said
    scores = [
        np.where(node[:, None] >= 0, of_nodes[node], 0.0)
        for node, of_nodes in zip((np.array(each.node) for each in model.made[0]), model.scores, strict=True)
    ]
    if said.link != "none":
        objective, guess = OF_LINK[said.link]
        return _added(said, scores, objective, None if said.is_classifier else guess)
    (found,) = said.sums
    if said.is_classifier and (found.method == "sum" or (found.factor, found.constant) != (1.0, 0.0)):
        raise unsupported("classes whose scores are added, or rescaled by Targets")
    if not said.is_classifier and "Vote" in found.method:
        raise unsupported("a regression by a vote of its trees")
    if found.method == "sum":
        return _added(said, scores, SQUARED_ERROR, ("squared error", "the sum itself"))
    if len(set(found.weights)) > 1:
        return _weighted(found, scores, model.made[0])
    value = np.vstack(scores) * found.factor + (0.0 if said.is_classifier else found.constant)
    of_trees = np.zeros(len(scores), dtype=np.int32)
    return _Reading(value, of_trees, np.zeros(value.shape[1]), True, SQUARED_ERROR, 1)


OF_LINK = {
    "exp": (Objective("poisson", (0.0,)), ("Poisson loss", "an exponential")),
    "logit": (Objective("logistic", (1.0,)), ("logistic loss", "a logistic function")),
    "softmax": (Objective("softmax"), None),
}
"""Of a function of the sums: the loss, and what is said of it in a regression, where it is a guess."""


def _added(said: Content, scores: list[Floats], objective: Objective, guess: tuple[str, str] | None) -> _Reading:
    """Return the reading of trees that add steps, each to one output."""
    output = np.array([output for output, _ in said.in_order], dtype=np.int32)
    value = np.vstack([each * _share(said.sums[k]) for each, k in zip(scores, output, strict=True)])
    base = np.array([each.constant for each in said.sums])
    notes = () if guess is None else (_GUESS.format(*guess),)
    return _Reading(value, output, base, False, objective, base.size, notes)


def _share(found: Sum) -> float:
    """Return what the score of a tree is multiplied by in a sum."""
    if len(set(found.weights)) > 1 or "Vote" in found.method:
        raise unsupported("a chain of models with a weighted mean or a vote inside")
    return found.factor if found.method == "sum" else found.factor / len(found.trees)


def _weighted(found: Sum, scores: list[Floats], made: list[Splits]) -> _Reading:
    """Return the reading of a weighted mean: steps from the mean of the leaves of each tree, all in one round."""
    share = np.array(found.weights) / sum(found.weights) * found.factor
    is_leaf = [np.array(each.node)[:, None] >= 0 for each in made]
    means = [each.sum(axis=0) / leaf.sum() for each, leaf in zip(scores, is_leaf, strict=True)]
    steps = zip(scores, is_leaf, means, share, strict=True)
    value = np.vstack([np.where(leaf, each - mean, 0.0) * part for each, leaf, mean, part in steps])
    base = share @ np.array(means) + found.constant
    return _Reading(value, np.zeros(len(scores), dtype=np.int32), base, False, SQUARED_ERROR, len(scores))


def _predict(model: PmmlTrees, X: NDArray[np.floating[Any]]) -> Floats:
    """Return means, shares of classes or margins: from the scores in the file, without the splits."""
    said = model.model.said
    winner = model.winners(X)
    made = np.zeros((len(X), len(said.sums) if said.link != "none" or not said.is_classifier else len(said.labels)))
    weight_of = {id(tree): weight for each in said.sums for tree, weight in zip(each.trees, each.weights, strict=True)}
    for tree, (output, nodes) in enumerate(said.in_order):
        found = said.sums[output]
        part = 1.0 if found.method == "sum" else weight_of[id(nodes)] / sum(found.weights)
        scores = np.where(winner[:, tree, None] >= 0, model.scores[tree][winner[:, tree]], np.nan)
        if made.shape[1] == scores.shape[1]:
            made += scores * part * found.factor
        else:
            made[:, output] += scores[:, 0] * part * found.factor
    return made + np.array([each.constant for each in said.sums])


def _descended(splits: Splits, X: Floats) -> NDArray[np.int64]:
    """Return the leaf of each row."""
    at = np.zeros(len(X), dtype=np.int64)
    for node, column in enumerate(splits.feature):  # parents come first
        if column < 0:
            continue
        rows = np.flatnonzero(at == node)
        x, codes = X[rows, column], splits.sets[node]
        goes_left = x <= splits.threshold[node] if codes is None else np.isin(x, codes)
        goes_left = np.where(np.isnan(x), splits.missing_left[node], goes_left)
        at[rows] = np.where(goes_left, splits.left[node], splits.right[node])
    return at


def _arrays(made: list[Splits]) -> dict[str, Any]:
    """Return the splits of all trees as fields of a TreeEnsemble."""
    sets = [codes for each in made for codes in each.sets]
    listed = [codes for codes in sets if codes is not None]
    arrays: dict[str, Any] = {
        "tree_start": np.cumsum([0, *(len(each.feature) for each in made)]),
        **{
            name: np.array([value for each in made for value in getattr(each, name)], dtype=dtype)
            for name, dtype in FIELDS.items()
        },
    }
    if listed:
        is_set = np.array([codes is not None for codes in sets])
        arrays |= {
            "category_set": np.where(is_set, np.cumsum(is_set) - 1, -1),
            "category_start": np.cumsum([0, *map(len, listed)]),
            "category_codes": np.array([code for codes in listed for code in codes]),
            "listed_left": np.ones(len(listed), dtype=bool),
        }
    return arrays


FIELDS: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
}


def _weights(trees: list[PmmlTree], made: list[Splits]) -> Floats | None:
    """Return the numbers of training rows of the leaves, if the file has such numbers that add up; None otherwise."""
    found = [_weights_of(tree, splits) for tree, splits in zip(trees, made, strict=True)]
    return None if any(each is None for each in found) else np.concatenate([each for each in found if each is not None])


def _weights_of(tree: PmmlTree, splits: Splits) -> Floats | None:
    count = np.array(tree.counts)
    below = np.array([count[children].sum() for children in tree.children])
    has_children = np.array([bool(children) for children in tree.children])
    node = np.array(splits.node)
    own = (count - np.where(has_children, below, 0.0))[node[node >= 0]]
    adds_up = tree.keeps_last or bool((np.abs(count - below)[has_children] <= ROUNDED * count[has_children]).all())
    if not adds_up or not (own > 0).all() or np.unique(node[node >= 0]).size < own.size:
        return None
    weight = np.zeros(node.size)
    weight[node >= 0] = own
    return weight


def _typed(said: Content) -> NDArray[Any]:
    """Return the classes in the type of the response."""
    kind = said.response.type
    if kind == "boolean":
        return np.array([label == "true" for label in said.labels])
    if kind in ("integer", "double", "float"):
        values = np.array([to_number(label, "a class") for label in said.labels])
        return values.astype(np.int64) if kind == "integer" else values
    labels = np.empty(len(said.labels), dtype=object)
    labels[:] = said.labels
    return labels
