"""``debias.NodeSums``: sums over rows at the nodes of a model, which add up over batches, machines and time.

Over 500 lines, because it is a public class with its documentation, and its file is read and checked here.
"""

from __future__ import annotations

import io
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.atomic_files import replacing
from debias.errors import RowsError, with_article
from debias.models.wrappers import extract
from debias.parallel import threads
from debias.rows.leaf_counts import LeafCounter
from debias.rows.leaf_lines import refuse_lines
from debias.rows.node_totals import NodeTotals
from debias.rows.pair_sums import OF_PAIRS, added_pairs
from debias.rows.preparation import batch_rows
from debias.rows.sealed import Damage, Foreign, OtherVersion, Sealed, seal
from debias.text import spelled_alike
from debias.trees.ensemble import TreeEnsemble
from debias.trees.fingerprint import trees_digest
from debias.warning_log import WarningLogOnce

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray

    from debias.rows.rows import Rows

KIND, FORMAT = "node sums", 1
"""What sealed bytes say that they hold, and the version of its format."""
NOT_NEGATIVE = ("n", "q", "squares", "totals", "leaf_counts", "weights", "unseen", "repeated")
"""Arrays of a state whose values are counts, weights or squares."""
_REMEDY = "Use an undamaged copy of it, or add the rows up again with debias.NodeSums(model).update(X, y)"


KEPT = ("kept_x", "kept_y", "kept_start", "kept_weight")
"""Arrays of a state with rows that are kept as they are. Those of two states follow each other."""
ROWS_KEPT = 50_000
"""Number of rows whose leaves in some trees are kept, to estimate how similar the trees are."""


class NodeSums(NodeTotals):
    """Weighted count, response sum and sum of squares of the rows that reach each node.

    The sums of two sets of rows add up to the sums of their union, whatever the order or partition. So a service can
    keep the scores of a model up to date as labels arrive, on one machine or on several:
    ``debias.score(model, sums)`` is fast, however many rows were added.

    Parameters
    ----------
    model : estimator, Booster or TreeEnsemble
        A fitted model, or a wrapper around one. For a TreeEnsemble without its model, sums cannot be updated from X and
        y.
    running_loss : bool
        Whether to add up the running loss, which ``oob_loss`` of boosted models needs. It takes several times as long.
    n_jobs : int, optional
        Number of threads; 1 by default.

    Raises
    ------
    UnsupportedModelError
        The model is not fitted, or no adapter supports it.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X[:300], y[:300])
    >>> monday, tuesday = debias.NodeSums(forest), debias.NodeSums(forest)
    >>> monday.update(X[300:350], y[300:350])
    >>> tuesday.update(X[350:], y[350:])
    >>> scores = debias.score(forest, monday + tuesday)
    >>> scores.n_rows
    142
    """

    def __init__(self, model: Any, *, running_loss: bool = False, n_jobs: int | None = None) -> None:
        super().__init__(model if isinstance(model, TreeEnsemble) else extract(model))
        self.ensemble.refuse_parts()
        if running_loss:
            refuse_lines(self.ensemble)
        self.model = None if isinstance(model, TreeEnsemble) else model
        self.n_jobs = threads(n_jobs)
        self.notes = WarningLogOnce(self.ensemble.notes)
        self._squares: NDArray[np.float64] | None = None
        self._counter: LeafCounter | None = None
        self._drop = np.zeros(self.ensemble.n_features + 1) if running_loss and not self.ensemble.averaged else None
        self._totals = np.zeros(4)  # rows; weight; rows with label 0; rows that are evaluated

    def update(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        """Add rows the model has not seen.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Response of the rows, as the model was trained on.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows; ones by default.

        Raises
        ------
        RowsError
            X, y or weights do not fit the model or each other. Then nothing was added.
        ExtractionError
            The extracted trees do not give the predictions of the model.
        """
        if self.model is None:
            raise RowsError(
                "these node sums were made from a TreeEnsemble, which cannot encode X and y. Make them from the model: "
                "debias.NodeSums(model)"
            )
        before = self.ensemble.feature_names
        rows = batch_rows(self.model, self.ensemble, X, y, sample_weight, self.notes, self.n_jobs, verify=True)
        rows.refuse_faulty()
        if self.n_rows and not spelled_alike(rows.ensemble.feature_names, before):
            raise RowsError(_other_names(rows.ensemble.feature_names, before))
        self.ensemble = rows.ensemble.named_as_in(before) if self.n_rows else rows.ensemble
        self.add_rows(rows)

    def add_rows(self, rows: Rows) -> None:
        """Add rows that are encoded already, and their running loss if these sums have it."""
        from debias.rows.kernels import sums as kernels

        counter = self._counter_for(rows)
        if self._squares is None and (rows.weight != 1).any():
            self._squares = self._n.copy()  # until now all weights were 1
        trees = np.arange(self.ensemble.n_trees)
        by_leaf = self._squares is not None or (self._drop is not None and rows.can_run_loss)
        for part, router in rows.blocks_to_route(trees.size if by_leaf else 1):
            if by_leaf:
                leaves, weight = router.leaves(trees), rows.weight[part]
                self.add(leaves, rows.response, weight, part, n_jobs=rows.n_jobs)
                if self._squares is not None:
                    kernels.add_weights(leaves, trees, self.ensemble.tree_start, weight**2, self._squares)
                if self._drop is not None and rows.can_run_loss:
                    rows.add_running_loss(leaves, part, self._drop)
            else:
                self.add_routed(router, rows.response, rows.weight[part], part)
            if counter is not None:
                counter.add(router, rows.response.part(part))
        self._add_totals(rows)

    def _counter_for(self, rows: Rows) -> LeafCounter | None:
        """Return the counter that these rows are added to, if their leaves can show that they are training rows."""
        if rows.in_bag is None and self._counter is None:
            self._counter = LeafCounter(self.ensemble, keep=ROWS_KEPT)
        counts = rows.in_bag is None and self._counter is not None and self._counter.trees.size > 0
        return self._counter if counts else None

    def _add_totals(self, rows: Rows) -> None:
        codes = rows.response.codes
        of_first_label = 0 if codes is None else np.sum(codes == 0)
        self._totals += rows.n_rows, rows.weight.sum(), of_first_label, rows.n_evaluated

    def __add__(self, other: Any) -> NodeSums:
        """Return the sums over the rows of both."""
        if not isinstance(other, NodeSums):
            return NotImplemented
        both = self.empty()
        both.merge(self.state())
        if other.ensemble is not self.ensemble and other.trees_digest != self.trees_digest:
            raise RowsError("node sums of two different ensembles cannot be added")
        both.merge(other.state())
        return both

    def save(self, path: str | Path) -> None:
        """Write the sums to a file, from which :meth:`load` reads them back for the same model.

        Parameters
        ----------
        path : str or Path
            Path of the file. It has arrays without pickles, and a digest of its contents. An old file is replaced when
            the new one is complete.
        """
        with replacing(path) as file:
            file.write(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the sums as bytes, from which :meth:`from_bytes` reads them back for the same model.

        Returns
        -------
        bytes
            The content of the file that :meth:`save` would write, for a message queue, a database, or a column of a
            table. It holds no pickle.

        Examples
        --------
        >>> import debias
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> forest = RandomForestRegressor(random_state=0).fit(X[:300], y[:300])
        >>> sums = debias.NodeSums(forest)
        >>> sums.update(X[300:], y[300:])
        >>> debias.NodeSums.from_bytes(sums.to_bytes(), forest).n_rows
        142
        """
        state = self.state()
        facts = {
            "trees_digest": self.trees_digest,
            "running_loss": self.running_loss is not None,
            "names": state.pop("names").tolist(),
            "warnings": self.notes.texts,
        }
        return seal(KIND, FORMAT, facts, state)

    @classmethod
    def from_bytes(cls, data: bytes, model: Any, *, n_jobs: int | None = None) -> NodeSums:
        """Read sums that :meth:`to_bytes` returned; more rows can be added to them.

        Parameters
        ----------
        data : bytes, bytearray or memoryview
        model : estimator, Booster or TreeEnsemble
            The model whose sums these are.
        n_jobs : int, optional
            As for the class.

        Returns
        -------
        NodeSums

        Raises
        ------
        RowsError
            The bytes are not node sums of this model, were written by another version, or are damaged.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise RowsError(f"data is {with_article(type(data).__name__)}: pass the bytes that to_bytes returned")
        return cls._from_file(io.BytesIO(data), "data", model, n_jobs)

    @classmethod
    def load(cls, path: str | Path, model: Any, *, n_jobs: int | None = None) -> NodeSums:
        """Read sums that :meth:`save` wrote; more rows can be added to them.

        Parameters
        ----------
        path : str or Path
        model : estimator, Booster or TreeEnsemble
            The model whose sums these are.
        n_jobs : int, optional
            As for the class.

        Returns
        -------
        NodeSums

        Raises
        ------
        RowsError
            The file does not hold node sums of this model, was written by another version, or is damaged.
        OSError
            The file cannot be read.
        """
        with open(path, "rb") as file:
            return cls._from_file(file, str(path), model, n_jobs)

    @classmethod
    def _from_file(cls, file: IO[bytes], name: str, model: Any, n_jobs: int | None) -> NodeSums:
        sums = cls(model, n_jobs=n_jobs)
        about, state = read(file, name, sums)
        if about["running_loss"]:
            sums._drop = np.zeros(sums.ensemble.n_features + 1)
        sums.notes = WarningLogOnce(about["warnings"])
        sums.merge(state)
        return sums

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that can be added, as arrays; partial sums are sent and stored in this form."""
        leaf = np.flatnonzero(self.ensemble.left < 0)  # numbers are taken by number faster than by a mask
        state = {"n": self._n[leaf], "s": self._s[leaf], "totals": self._totals}
        if self._q.size:
            state["q"] = self._q[leaf]
        if self._squares is not None:
            state["squares"] = self._squares[leaf]
        if self._drop is not None:
            state["drop"] = self._drop
        if self._counter is not None:
            state |= self._counter.state()
        state["names"] = np.array(self.ensemble.feature_names)
        return state

    def merge(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Add the :meth:`state` of other sums over the same trees."""
        leaf = np.flatnonzero(self.ensemble.left < 0)
        if state["n"].shape != leaf.shape:
            raise RowsError("node sums of two different ensembles cannot be added")
        names = tuple(state["names"].tolist())
        if self.ensemble.named:
            self.ensemble = self.ensemble if self.n_rows else self.ensemble.named_as_in(names)
        elif state["totals"][0]:
            if self.n_rows and names != self.ensemble.feature_names:
                raise RowsError(_other_names(names, self.ensemble.feature_names))
            if names != self.ensemble.feature_names:
                self.ensemble = self.ensemble.renamed(names)
        if state["totals"][0] and self.n_rows and ("drop" in state) != (self._drop is not None):
            raise RowsError(
                "only one of these node sums has a running loss, so their sum would have none. Make both with "
                "debias.NodeSums(model, running_loss=True), or neither"
            )
        is_empty = not (self._totals.any() or self._n.any())  # `add` keeps no totals
        total = dict(state) if is_empty else added(self.state(), state)
        self._n[leaf], self._s[leaf], self._totals = total["n"], total["s"], total["totals"].copy()
        if self._q.size:
            self._q[leaf] = total.get("q", 0.0)
        if "drop" in total:
            self._drop = total["drop"].copy()
        elif state["totals"][0]:  # sums over no rows take the loss of the others
            self._drop = None
        if "squares" in total:
            self._squares = np.zeros_like(self._n)
            self._squares[leaf] = total["squares"]
        if "leaf_counts" in total:
            self._counter = LeafCounter(self.ensemble, keep=ROWS_KEPT)
            self._counter.restore(total)
        self._summed_up = False

    def empty(self) -> NodeSums:
        """Return sums over no rows of the same model."""
        sums = copy(self)
        sums._n, sums._s, sums._q = np.zeros_like(self._n), np.zeros_like(self._s), np.zeros_like(self._q)
        sums._drop = None if self._drop is None else np.zeros_like(self._drop)
        sums._squares = sums._counter = None
        sums._totals, sums._summed_up = np.zeros(4), True
        sums.notes = WarningLogOnce(self.notes.texts)
        return sums

    @property
    def squares(self) -> NDArray[np.float64]:
        """Sum of squared weights at each node, shape (n_nodes,)."""
        from debias.trees.kernels import nodes as kernels

        if self._squares is None:
            return self.n
        trees = (self.ensemble.tree_start, self.ensemble.left, self.ensemble.right)
        kernels.sum_up(*trees, self._squares, np.zeros((self._squares.size, 0)), np.zeros(0))
        return self._squares

    @property
    def n_rows(self) -> int:
        """Number of rows that were added by :meth:`update`."""
        return int(self._totals[0])

    @property
    def total_weight(self) -> float:
        """Sum of the weights of these rows."""
        return float(self._totals[1])

    @property
    def n_of_first_label(self) -> int:
        """Number of these rows with the first label."""
        return int(self._totals[2])

    @property
    def n_evaluated(self) -> int:
        """Number of these rows with a weight above 0, without the rows that had no weight in training."""
        return int(self._totals[3])

    @property
    def running_loss(self) -> NDArray[np.float64] | None:
        """Loss saved at the splits of each feature and by root steps, summed over rows; None if it is not summed."""
        return self._drop

    @property
    def counter(self) -> LeafCounter | None:
        """Leaf counts, which show whether the rows are training rows."""
        return self._counter

    @cached_property
    def trees_digest(self) -> str:
        """BLAKE3 digest of the trees."""
        return trees_digest(self.ensemble)


def _other_names(names: tuple[str, ...], before: tuple[str, ...]) -> str:
    return (
        f"these rows have the columns {', '.join(names)}, and the rows added before have {', '.join(before)}. The "
        "model stores no feature names, so columns are identified by position: pass the same names in the same order"
    )


def added(one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the sum of two states."""
    total = dict(one)
    for name, array in other.items():
        if name == "leaves_kept":
            total[name] = np.concatenate([one[name], array])[:ROWS_KEPT] if name in one else array
        elif name in KEPT:
            total[name] = np.concatenate([one[name], array]) if name in one else array
        elif name not in ("names", "squares", *OF_PAIRS):
            total[name] = one[name] + array if name in one else array
    if any(name in each for each in (one, other) for name in OF_PAIRS):
        total = {name: array for name, array in total.items() if name not in OF_PAIRS} | added_pairs(one, other)
    if "squares" in one or "squares" in other:
        total["squares"] = one.get("squares", one["n"]) + other.get("squares", other["n"])  # weights of 1
    return total


def read(file: IO[bytes], name: str, sums: NodeSums) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what :meth:`NodeSums.save` wrote for sums of the same model.

    Parameters
    ----------
    file : binary file
    name : str
        What errors call the file.
    sums : NodeSums
        Empty sums of the model. They give the expected types and shapes.

    Returns
    -------
    (dict, dict of str to array)
        Facts about the sums, and their state.

    Raises
    ------
    RowsError
        The file does not hold node sums of this model, was written by another version, or is damaged.
    """
    try:
        stored = Sealed(file, KIND, FORMAT)
        _refuse_other_facts(stored.facts, sums.ensemble.n_features)
        if stored.facts["trees_digest"] != sums.trees_digest:
            raise RowsError(f"{name} holds node sums of another model, not of this {sums.ensemble.source}")
        _refuse_other_forms(stored.forms, sums, bool(stored.facts["running_loss"]))
        state = stored.arrays()
        refuse_impossible(state, sums.ensemble)
        if "rows_counted" in state:
            LeafCounter(sums.ensemble, keep=ROWS_KEPT).restore(state)  # it refuses leaf numbers that do not exist
    except OtherVersion as other:
        raise RowsError(
            f"{name} holds node sums of format {other}, and this version of debias reads format {FORMAT}. Add the rows "
            "up again with debias.NodeSums(model).update(X, y), or read the file with the version that wrote it"
        ) from None
    except Foreign as error:
        raise RowsError(f"{name} was not written by debias.NodeSums, or it is damaged: {error}") from None
    except Damage as damage:
        raise RowsError(f"{name} is damaged: {damage}. {_REMEDY}") from None
    return stored.facts, state | {"names": np.array(stored.facts["names"])}


def _refuse_other_facts(facts: Mapping[str, Any], n_features: int) -> None:
    texts = [facts.get("names"), facts.get("warnings")]
    if not {"trees_digest", "running_loss"} <= facts.keys() or not all(
        isinstance(each, list) and all(isinstance(text, str) for text in each) for each in texts
    ):
        raise Damage("the facts about the node sums are not complete")
    if len(facts["names"]) != n_features:
        raise Damage("its names of features do not fit this model")


def _refuse_other_forms(forms: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]], sums: NodeSums, loss: bool) -> None:
    """Refuse arrays that sums of this model cannot have, before memory is taken for them."""
    of_counter = {name: np.asarray(array) for name, array in LeafCounter(sums.ensemble, keep=ROWS_KEPT).state().items()}
    possible = {**sums.state(), **of_counter, "squares": sums.n[:0], "drop": np.zeros(sums.ensemble.n_features + 1)}
    expected = {name: (array.dtype, array.shape) for name, array in possible.items()}
    expected["squares"] = expected["n"]
    del expected["names"]
    if not loss:
        del expected["drop"]
    missing = expected.keys() - of_counter.keys() - {"squares"} - forms.keys()
    unknown = forms.keys() - expected.keys()
    if missing or unknown:
        name = min(missing or unknown)
        raise Damage(f"its array {name!r} is {'missing' if missing else 'not one that debias writes'}")
    if 0 < len(of_counter.keys() & forms.keys()) < len(of_counter):
        raise Damage("its leaf counts are not complete")
    for name, (dtype, shape) in forms.items():
        wanted = expected[name][1]
        if name == "leaves_kept" and len(shape) == 2 and shape[0] <= ROWS_KEPT:
            wanted = (shape[0], *wanted[1:])
        if (dtype, shape) != (expected[name][0], wanted):
            raise Damage(f"its array {name!r} does not fit this model")


def refuse_impossible(state: Mapping[str, NDArray[Any]], ensemble: TreeEnsemble) -> None:
    """Raise a Damage if a state has values that no rows can give: a forged file may have the right digest."""
    for name, array in state.items():
        if name != KEPT[0] and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Damage(f"its array {name!r} has values that are not finite")
        if name in NOT_NEGATIVE and array.min(initial=0.0) < 0:
            raise Damage(f"its array {name!r} has values below 0")
    n_rows, weight, *parts = state["totals"]
    if n_rows != np.floor(n_rows) or n_rows >= 2**53 or any(n != np.floor(n) or n > n_rows for n in parts):
        raise Damage("its numbers of rows are not possible")
    first_leaves = np.searchsorted(np.flatnonzero(ensemble.left < 0), ensemble.tree_start[:-1])
    if (np.abs(np.add.reduceat(state["n"], first_leaves) - weight) > 1e-6 * weight).any():
        raise Damage("the weights in its leaves do not add up to that of its rows")
    if "rows_counted" in state:
        counted = int(state["rows_counted"])
        if not 0 <= counted <= n_rows or len(state["leaves_kept"]) != min(counted, ROWS_KEPT):
            raise Damage("its numbers of rows contradict each other")
