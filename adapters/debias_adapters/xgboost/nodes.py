"""The node arrays of all trees of an XGBoost model side by side, without the nodes that were pruned after growth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Nodes:
    """Which nodes of the trees are in use.

    Parameters
    ----------
    trees : list of dict
        As they stand in the model.
    source : str
    stored : array of int64 of shape (n_trees + 1,)
        Where each tree begins, all nodes counted.
    kept : array of bool of shape (stored[-1],), or None
        Nodes that hang together with a root: pruning leaves the others in place. None if there are no others.
    start : array of int64 of shape (n_trees + 1,)
        Where each tree begins among the nodes that are kept.
    tree : array of int64 of shape (start[-1],)
        The tree each of them belongs to.
    """

    trees: list[dict[str, Any]]
    source: str
    stored: NDArray[np.int64]
    kept: NDArray[np.bool_] | None
    start: NDArray[np.int64]
    tree: NDArray[np.int64]

    @classmethod
    def of(cls, trees: list[dict[str, Any]], source: str) -> Nodes:
        """Find them."""
        stored = np.cumsum([0] + [tree["left_children"].size for tree in trees])
        tree = np.repeat(np.arange(len(trees)), np.diff(stored))
        whole = cls(trees, source, stored, None, stored, tree)
        pruned = np.array([int(each["tree_param"]["num_deleted"]) > 0 for each in trees])
        if not pruned.any():
            return whole
        kept = whole._reachable() | ~pruned[tree]
        start = np.concatenate(([0], np.cumsum(kept)[stored[1:] - 1]))
        return whole if kept.all() else cls(trees, source, stored, kept, start, tree[kept])

    def joined(self, name: str) -> NDArray[Any]:
        """Return an array of all nodes."""
        parts = [tree[name] for tree in self.trees]
        sizes = np.array([part.size for part in parts])
        if not np.array_equal(sizes, np.diff(self.stored)):
            tree = int(np.argmax(sizes != np.diff(self.stored)))
            raise UnsupportedModelError(
                f"this {self.source} is damaged: tree {tree} has {sizes[tree]} entries of {name} for "
                f"{np.diff(self.stored)[tree]} nodes"
            )
        array: NDArray[Any] = np.concatenate(parts)  # in native byte order
        return array if self.kept is None else array[self.kept]

    def children(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return both children of each node, numbered within its tree; of leaves what the model has there."""
        left, right = self.joined("left_children"), self.joined("right_children")
        if self.kept is None:
            return left, right
        split, place = left >= 0, np.cumsum(self.kept) - 1
        old, new = self.stored[self.tree[split]], self.start[self.tree[split]]
        for child in (left, right):
            child[split] = place[old + child[split]] - new
        return left, right

    def place(self, tree: int, node: int) -> int:
        """Return where a node of a tree is among those that are kept; -1 if it is not."""
        at = int(self.stored[tree]) + node
        if self.kept is None:
            return at
        return int(self.kept[:at].sum()) if self.kept[at] else -1

    def native_number(self) -> NDArray[np.int32] | None:
        """Return the model's own number of each node within its tree; None if it is the one here."""
        if self.kept is None:
            return None
        at = np.flatnonzero(self.kept)
        return (at - self.stored[self.tree]).astype(np.int32)

    def _reachable(self) -> NDArray[np.bool_]:
        """Return the nodes that hang together with a root, level by level."""
        left, right = self.joined("left_children"), self.joined("right_children")
        found = np.zeros(self.tree.size, dtype=bool)
        level = self.stored[:-1]
        while level.size:
            found[level] = True
            split = level[left[level] >= 0]
            begin = self.stored[self.tree[split]]
            level = np.concatenate([begin + left[split], begin + right[split]])
            level = level[~found[level]]  # a damaged model may lead in circles
        return found
