"""Compiled loop over the splits of a tree: what one feature does alone, and what two or three need one another for."""

from cython cimport floating
from libc.stdint cimport int32_t, int64_t

import numpy as np

from debias.trees.kernels.walking cimport Walk, child


def add_parts(
    const floating[:, ::1] X,
    tuple nodes,
    const double[::1] share,
    const double[:, ::1] value,
    int64_t first,
    const int64_t[::1] group,
    list sets,
    double[:, :, ::1] part,
):
    """Add the part of one tree that needs all groups of a set and no other, for each row and set.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    nodes : tuple
        The tree, as :func:`debias.trees.routing.tree_nodes` returns it.
    share : array of shape (n_nodes,)
        Share of each node in its parent; the shares of two children sum to 1.
    value : array of shape (n_nodes, width)
    first : int
        First output of the tree.
    group : array of shape (n_features,)
    sets : list of dict
        For each group, the sets of up to three groups that have it: {second group: [(number of the set, third group)]},
        each set once; -1 for a group that the set does not have.
    part : array of shape (n_rows, n_sets, n_outputs)
        The parts are added to it.

    Notes
    -----
    Let the output with the splits on a set S only be that where rows go both ways, in the shares, at all other splits.
    It is the sum over the splits on S of the probability that the row comes there, times the step from the mean of the
    split to that of its child. The probability is the product of a_g over the groups g of S above the split, 1 if the
    row agrees with all splits on g and else 0, and of the shares s_g of the other groups. The part of a set is the sum
    of these outputs over its subsets, with alternating signs. So a split on g counts for a set with g if all its other
    groups h are above: a_g times the product of all a_h - s_h, and of the shares of the groups that are not in the set.
    """
    cdef Walk tree = Walk(*nodes)
    cdef int64_t size = value.shape[0], width = value.shape[1]
    cdef double[:, ::1] mean = np.array(value)
    cdef int64_t[::1] above = np.full(size, -1, dtype=np.int64), side = np.full(size, -1, dtype=np.int64)
    cdef int64_t[::1] went = np.full(size, -1, dtype=np.int64), start = np.zeros(size + 1, dtype=np.int64)
    cdef int64_t i, at, below, c, t
    cdef double product
    for at in range(size - 1, -1, -1):
        if tree.left[at] >= 0:
            for c in range(width):
                mean[at, c] = share[tree.left[at]] * mean[tree.left[at], c] + share[tree.right[at]] * mean[tree.right[at], c]
    # For each node, the groups above it: product of the shares, the nearest split, and its child on the way.
    ways, terms = {0: {}}, []
    for at in range(size):
        way = ways.pop(at)
        if tree.left[at] >= 0:
            g = group[tree.feature[at]]
            _, above[at], side[at] = own = way.get(g, (1.0, -1, -1))
            terms.extend(_terms(sets[g], {h: of_group for h, of_group in way.items() if h != g}))
            for below in (tree.left[at], tree.right[at]):
                ways[below] = {**way, g: (own[0] * share[below], at, below)}
        start[at + 1] = len(terms)
    cdef int32_t[::1] number = np.array([term[0] for term in terms], dtype=np.int32)
    cdef double[::1] coefficient = np.array([term[1] for term in terms], dtype=np.float64)
    # Of the second and the third group of a set: share, nearest split, its child.
    cdef double[:, ::1] of_way = np.array([term[2] for term in terms], dtype=np.float64).reshape(-1, 2)
    cdef int64_t[:, ::1] split = np.array([term[3] for term in terms], dtype=np.int64).reshape(-1, 2)
    cdef int64_t[:, ::1] on_way = np.array([term[4] for term in terms], dtype=np.int64).reshape(-1, 2)
    with nogil:
        for i in range(X.shape[0]):
            for at in range(size):
                if tree.left[at] < 0:
                    continue
                went[at] = -1
                if above[at] >= 0 and went[above[at]] != side[at]:
                    continue
                below = child(tree, at, X[i, tree.feature[at]])
                went[at] = below
                for t in range(start[at], start[at + 1]):
                    product = coefficient[t]
                    for c in range(2):
                        if split[t, c] >= 0:
                            product *= (went[split[t, c]] == on_way[t, c]) - of_way[t, c]
                    for c in range(width):
                        part[i, number[t], first + c] += product * (mean[below, c] - mean[at, c])


def _terms(of_group, way):
    """Yield number, coefficient, and the shares, splits and children of the other groups, of the sets of a split."""
    for second in (-1, *way):
        for number, third in of_group.get(second, ()):
            if third >= 0 and third not in way:
                continue
            coefficient = 1.0
            for h, (share, _, _) in way.items():
                if h != second and h != third:
                    coefficient *= share
            yield number, coefficient, *zip(way.get(second, NOT_THERE), way.get(third, NOT_THERE))


NOT_THERE = 1.0, -1, -1
