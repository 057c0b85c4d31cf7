"""The nodes of one tree, for compiled loops that follow rows from the root, one row at a time."""

cimport cython


@cython.final
cdef class Walk:
    """The nodes of a tree, as :func:`debias.trees.routing.tree_nodes` returns them."""

    def __init__(
        self, parent, feature, left, right, threshold, plain, missing_left, zero_is_missing, category_set, sets
    ):
        self.feature, self.left, self.right, self.threshold = feature, left, right, threshold
        self.plain, self.missing_left, self.zero_is_missing = plain, missing_left, zero_is_missing
        self.category_set = category_set
        self.set_start, self.set_codes, self.listed_left = sets
