"""The class InBag: which training rows were in the bag of each tree, as one bit per row and tree."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


class InBag:
    """The bags of an ensemble.

    Parameters
    ----------
    draw : callable
        ``draw(tree)`` returns the in-bag weight of every training row in the nodes of one tree, an array of shape
        (n_rows,): the number of times the row was drawn, times any weight that went into the nodes. 0 means out of bag.
    n_rows : int
        Number of training rows.
    n_trees : int
    excluded : array of bool of shape (n_rows,), optional
        Rows that had weight 0 in training. They are in no bag, and they are not evaluated either.
    multiplicity : callable, optional
        ``multiplicity(tree)`` returns the weights of `draw` without the factor that depends on the response. Needed
        only if there is such a factor.
    class_weight : array of shape (n_classes,), or "balanced", optional
        The factor that depends on the response: one factor for each class, or "balanced" for the factors that give
        all classes the same weight in each bag.
    samples : callable, optional
        ``samples(tree)`` returns the number of training samples that each row contributes to the node counts, an array
        of shape (n_rows,); by default 1 for each row in the bag. It is larger where rows were repeated before the bag
        was drawn.
    bits : array of uint8 of shape (n_trees, ceil(n_rows / 8)), optional
        The rows in each bag, packed by ``np.packbits``, if they are known without drawing.
    fits_response : bool, optional
        Whether the response gives, for these bags, the values that the model stores at the roots. For models whose
        values are no means, so that only their adapter can tell.

    Raises
    ------
    RowsError
        An array, or what a function returns, does not have the shape above.

    Notes
    -----
    The functions may return arrays of any real type.

    The weights of one tree are in memory at a time. The bits, n_rows * n_trees, stay in memory.
    """

    def __init__(
        self,
        draw: Callable[[int], NDArray[np.float64]],
        n_rows: int,
        n_trees: int,
        excluded: NDArray[np.bool_] | None = None,
        multiplicity: Callable[[int], NDArray[np.float64]] | None = None,
        class_weight: NDArray[np.float64] | str | None = None,
        samples: Callable[[int], NDArray[np.float64]] | None = None,
        bits: NDArray[np.uint8] | None = None,
        fits_response: bool | None = None,
    ) -> None:
        self._draw = draw
        self._multiplicity = draw if multiplicity is None else multiplicity
        self._samples = samples
        self.n_rows = n_rows
        self.n_trees = n_trees
        self.fits_response = fits_response
        self.excluded = None if excluded is None else self._of_each_row("excluded", excluded, np.bool_)
        self.class_weight = (
            class_weight
            if class_weight is None or isinstance(class_weight, str)
            else np.array(class_weight, np.float64)
        )
        if bits is None:
            bits = np.stack([np.packbits(self.draw(tree) > 0) for tree in range(n_trees)])
        shape = (n_trees, (n_rows + 7) // 8)
        if bits.dtype != np.uint8 or bits.shape != shape:
            raise RowsError(
                f"bits of an InBag are an array of {bits.dtype} of shape {bits.shape}, not of uint8 of shape {shape}: "
                "pass np.packbits(is_in_bag, axis=1), where is_in_bag has one row for each tree"
            )
        self._bits = np.ascontiguousarray(bits)

    @classmethod
    def from_rows(cls, rows: Sequence[NDArray[np.int64]], n_rows: int) -> InBag:
        """Return the bags given as lists of in-bag row positions, one list per tree; repeated rows are repeated."""
        for tree, positions in enumerate(rows):
            if len(positions) and (np.min(positions) < 0 or np.max(positions) >= n_rows):
                raise RowsError(f"the bag of tree {tree} names rows that do not exist: there are {n_rows} rows")

        def draw(tree: int) -> NDArray[np.float64]:
            return np.bincount(rows[tree], minlength=n_rows).astype(np.float64)

        return cls(draw, n_rows, len(rows))

    def draw(self, tree: int) -> NDArray[np.float64]:
        """Return the in-bag weight of every row in the nodes of one tree, shape (n_rows,)."""
        return self._of_each_row("draw", self._draw(tree), np.float64)

    def multiplicity(self, tree: int) -> NDArray[np.float64]:
        """Return the weights of `draw` without the factor that depends on the response, shape (n_rows,)."""
        return self._of_each_row("multiplicity", self._multiplicity(tree), np.float64)

    def samples(self, tree: int, drawn: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the number of training samples that each row contributes to the node counts, shape (n_rows,).

        `drawn` may be given to save a call of `draw`: it is the result of ``draw(tree)``.
        """
        if self._samples is not None:
            return self._of_each_row("samples", self._samples(tree), np.float64)
        return ((self.draw(tree) if drawn is None else drawn) > 0).astype(np.float64)

    def n_samples(self) -> NDArray[np.int64]:
        """Return the number of samples at each root, shape (n_trees,)."""
        if self._samples is None:
            return self.n_distinct()
        return np.array([int(self.samples(tree).sum()) for tree in range(self.n_trees)])

    def by_block(self, block: NDArray[np.int64]) -> InBag:
        """Return bags in which a row counts as out of bag only if its whole block is out of bag; the weights stay.

        Parameters
        ----------
        block : array of int64 of shape (n_rows,)
            Block of each row, numbered from 0.
        """
        wider = copy(self)
        wider._bits = np.empty_like(self._bits)
        for tree, bits in enumerate(self._bits):
            inside = np.unpackbits(bits, count=self.n_rows)
            wider._bits[tree] = np.packbits(np.bincount(block, weights=inside)[block] > 0)
        return wider

    def in_order(self, positions: NDArray[np.int64], n_rows: int) -> InBag:
        """Return the same bags for rows in another order: row k of these bags is row ``positions[k]`` of the new ones.

        Parameters
        ----------
        positions : array of int64 of shape (self.n_rows,)
            A position may be repeated: such a row is in a bag if one of its copies is.
        n_rows : int
        """

        def summed(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.bincount(positions, weights=values, minlength=n_rows).astype(np.float64)

        excluded = None if self.excluded is None else summed(~self.excluded) == 0
        return InBag(
            draw=lambda tree: summed(self.draw(tree)),
            n_rows=n_rows,
            n_trees=self.n_trees,
            excluded=excluded,
            multiplicity=lambda tree: summed(self.multiplicity(tree)),
            class_weight=self.class_weight,
            samples=lambda tree: summed(self.samples(tree)),
        )

    def part(self, begin: int, end: int) -> InBag:
        """Return the bags restricted to rows begin..end."""
        part = copy(self)
        part.n_rows = end - begin
        bits = np.unpackbits(self._bits[:, begin // 8 : (end + 7) // 8], axis=1)
        part._bits = np.packbits(bits[:, begin % 8 : begin % 8 + part.n_rows], axis=1)
        part.excluded = None if self.excluded is None else self.excluded[begin:end]
        part._draw = lambda tree: self.draw(tree)[begin:end]
        part._multiplicity = lambda tree: self.multiplicity(tree)[begin:end]
        part._samples = lambda tree: self.samples(tree)[begin:end]
        return part

    def block(self, begin: int, end: int) -> NDArray[np.bool_]:
        """Return which of rows begin..end were in each bag, an array of bool of shape (n_trees, end - begin).

        `begin` must be a multiple of 8.
        """
        return np.unpackbits(self.bits(begin, end), axis=1, count=end - begin).view(np.bool_)

    def bits(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the result of `block` as packed bits, an array of shape (n_trees, ceil((end - begin) / 8))."""
        return self._bits[:, begin // 8 : (end + 7) // 8]

    def not_evaluated(self, begin: int, end: int) -> NDArray[np.bool_]:
        """Return which of rows begin..end must not be evaluated: those in the bag, as in `block`, and excluded rows."""
        block = self.block(begin, end)
        return block if self.excluded is None else block | self.excluded[begin:end]

    def bits_not_evaluated(self, begin: int, end: int) -> NDArray[np.uint8]:
        """Return the result of `not_evaluated` as packed bits."""
        bits = self.bits(begin, end)
        return bits if self.excluded is None else bits | np.packbits(self.excluded[begin:end])

    def never_evaluated(self) -> NDArray[np.bool_]:
        """Return which rows no tree may be evaluated on, shape (n_rows,): those in every bag, and excluded rows."""
        in_every_bag = np.unpackbits(np.bitwise_and.reduce(self._bits, axis=0), count=self.n_rows).view(np.bool_)
        return in_every_bag if self.excluded is None else in_every_bag | self.excluded

    def out_of_bag(self, tree: int) -> NDArray[np.int64]:
        """Return the positions of the rows that one tree may be evaluated on, ascending."""
        is_out = np.unpackbits(self._bits[tree], count=self.n_rows) == 0
        return np.flatnonzero(is_out if self.excluded is None else is_out & ~self.excluded)

    def n_distinct(self) -> NDArray[np.int64]:
        """Return the number of distinct rows in each bag, shape (n_trees,)."""
        return np.bitwise_count(self._bits).sum(axis=1, dtype=np.int64)

    def _of_each_row(self, name: str, values: Any, dtype: Any) -> NDArray[Any]:
        """Return what the caller of the constructor gave for each row, in the type that compiled loops read."""
        try:
            array = np.ascontiguousarray(values, dtype=dtype)
        except (TypeError, ValueError) as error:
            raise RowsError(f"{name} of an InBag cannot be an array of {np.dtype(dtype)}: {error}") from None
        if array.shape != (self.n_rows,):
            raise RowsError(f"{name} of an InBag has shape {array.shape}, not one entry for each of {self.n_rows} rows")
        return array
