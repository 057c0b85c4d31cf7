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
from debias_adapters.pmml.model import SUMS, PmmlModel, PmmlTrees
from debias_adapters.pmml.splits import leaves_of

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
TOO_LARGE = "the splits of a tree would be too many if values could be missing"
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
    made = model.made.scored
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
        missing_refusal=TOO_LARGE if model.made.no_missing else None,
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
    rows = np.asarray(X, dtype=np.float64)
    leaves = leaves_of(model.made.scored, rows)
    node = np.column_stack([each.node[leaf] for each, leaf in zip(model.made.scored, leaves.T, strict=True)])
    agree = (node == model.winners(rows)) | _is_refused(model, rows)
    return np.where(agree, leaves, -1).astype(np.int32)


def _is_refused(model: PmmlTrees, X: Floats) -> NDArray[np.bool_]:
    """Return of which trees a row has no prediction: :meth:`PmmlTrees.transform` refuses such rows of a user."""
    return model.without_prediction(X) & (model.winners(X) < 0)


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
        np.where(each.node[:, None] >= 0, of_nodes[each.node], 0.0)
        for each, of_nodes in zip(model.made.scored, model.scores, strict=True)
    ]
    if said.link != "none":
        objective, guess = OF_LINK[said.link]
        return _added(said, scores, objective, None if said.is_classifier else guess)
    (found,) = said.sums
    if said.is_classifier and (found.method in SUMS or (found.factor, found.constant) != (1.0, 0.0)):
        raise unsupported("classes whose scores are added, or rescaled by Targets")
    if not said.is_classifier and "Vote" in found.method:
        raise unsupported("a regression by a vote of its trees")
    if found.method in SUMS:
        return _added(said, scores, SQUARED_ERROR, ("squared error", "the sum itself"))
    if len(set(found.weights)) > 1:
        return _weighted(found, scores, model.made.scored)
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
    if any("Vote" in each.method for each in said.sums):
        raise unsupported("a chain of models with a vote inside")
    share = [iter(each.shares) for each in said.sums]
    value = np.vstack([each * next(share[k]) for each, k in zip(scores, output, strict=True)])
    base = np.array([each.constant for each in said.sums])
    notes = () if guess is None else (_GUESS.format(*guess),)
    return _Reading(value, output, base, False, objective, base.size, notes)


def _weighted(found: Sum, scores: list[Floats], made: list[Splits]) -> _Reading:
    """Return the reading of a weighted mean: steps from the mean of the leaves of each tree, all in one round."""
    share = np.array(found.shares)
    is_leaf = [each.node[:, None] >= 0 for each in made]
    means = [each.sum(axis=0) / leaf.sum() for each, leaf in zip(scores, is_leaf, strict=True)]
    steps = zip(scores, is_leaf, means, share, strict=True)
    value = np.vstack([np.where(leaf, each - mean, 0.0) * part for each, leaf, mean, part in steps])
    base = share @ np.array(means) + found.constant
    return _Reading(value, np.zeros(len(scores), dtype=np.int32), base, False, SQUARED_ERROR, len(scores))


def _predict(model: PmmlTrees, X: NDArray[np.floating[Any]]) -> Floats:
    """Return means, shares of classes or margins: from the scores in the file, without the splits."""
    said = model.model.said
    winner = model.winners(X)
    if (winner < 0).any():
        rows = np.asarray(X, dtype=np.float64)
        leaves = leaves_of(model.made.scored, rows)
        node = np.column_stack([each.node[leaf] for each, leaf in zip(model.made.scored, leaves.T, strict=True)])
        winner = np.where(_is_refused(model, rows), node, winner)
    made = np.zeros((len(X), len(said.sums) if said.link != "none" or not said.is_classifier else len(said.labels)))
    share = [iter(each.shares) for each in said.sums]
    for tree, (output, _) in enumerate(said.in_order):
        scores = np.where(winner[:, tree, None] >= 0, model.scores[tree][winner[:, tree]], np.nan)
        if made.shape[1] == scores.shape[1]:
            made += scores * next(share[output])
        else:
            made[:, output] += scores[:, 0] * next(share[output])
    return made + np.array([each.constant for each in said.sums])


def _arrays(made: list[Splits]) -> dict[str, Any]:
    """Return the splits of all trees as fields of a TreeEnsemble."""
    arrays: dict[str, Any] = {
        "tree_start": np.cumsum([0, *(each.feature.size for each in made)]),
        **{name: np.concatenate([getattr(each, name) for each in made]) for name in FIELDS},
    }
    of_set = np.concatenate([each.of_set for each in made])
    tree = np.repeat(np.arange(len(made)), [each.feature.size for each in made])
    at = np.flatnonzero(of_set >= 0)
    listed = [made[t].sets[k] for t, k in zip(tree[at].tolist(), of_set[at].tolist(), strict=True)]
    if listed:
        is_set = of_set >= 0
        arrays |= {
            "category_set": np.where(is_set, np.cumsum(is_set) - 1, -1),
            "category_start": np.cumsum([0, *map(len, listed)]),
            "category_codes": np.array([code for codes in listed for code in codes]),
            "listed_left": np.ones(len(listed), dtype=bool),
        }
    return arrays


FIELDS = ("feature", "threshold", "left", "right", "missing_left")


def _weights(trees: list[PmmlTree], made: list[Splits]) -> Floats | None:
    """Return the numbers of training rows of the leaves, if the file has such numbers that add up; None otherwise."""
    found = [_weights_of(tree, splits) for tree, splits in zip(trees, made, strict=True)]
    return None if any(each is None for each in found) else np.concatenate([each for each in found if each is not None])


def _weights_of(tree: PmmlTree, splits: Splits) -> Floats | None:
    count = tree.counts
    if np.isnan(count).all():
        return None
    below = np.bincount(tree.parent[1:], weights=count[1:], minlength=count.size)
    has_children = np.diff(tree.child_start) > 0
    node = splits.node
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
