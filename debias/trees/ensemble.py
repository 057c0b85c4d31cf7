"""The class TreeEnsemble: all trees of a model as one frozen set of flat arrays, validated once.

The file is long because every array is described here, and checked here before a compiled loop follows it.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.early_stopping import PERHAPS_STOPPED_EARLY as PERHAPS_STOPPED_EARLY  # for adapters
from debias.early_stopping import STOPPED_EARLY as STOPPED_EARLY
from debias.errors import CompositionError, ExtractionError
from debias.lines_note import LINES
from debias.parallel import over_parts, worth
from debias.text import without_blanks
from debias.trees.leaf_lines import check_leaf_lines
from debias.trees.routing import Bins

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from debias.trees.objectives import Objective
    from debias.trees.tested_versions import TestedVersions

FAULTS = (
    "has one child only",
    "has a child that does not come after it in its tree",
    "is not the child of exactly one node",
    "is a leaf that splits, or a split without a feature",
    "splits on a feature the model does not have",
    "has a threshold that is not a number",
    "is a leaf whose value is not finite",
    "is a leaf whose weight is negative or not finite",
)
NODE_ARRAYS: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "value": np.float64,
    "averaging_weight": np.float64,
    "weight": np.float64,
    "count": np.int64,
    "impurity": np.float64,
    "gain": np.float64,
    "cover": np.float64,
    "zero_is_missing": np.bool_,
    "category_set": np.int32,
    "native_node": np.int32,
    "line_offset": np.float64,
}
OTHER_ARRAYS: dict[str, Any] = {
    "tree_start": np.int64,
    "tree_output": np.int32,
    "base": np.float64,
    "category_start": np.int64,
    "category_codes": np.int32,
    "listed_left": np.bool_,
    "line_start": np.int64,
    "line_feature": np.int32,
    "line_slope": np.float64,
}


PLAIN_MEANS = (
    "leaves have no training weights, so that values of inner nodes are plain means of the leaves below. Scores may be "
    "far from those with weights: pass the training rows with train=, which are then counted in the leaves"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeEnsemble:
    """All trees of a fitted model, as flat arrays.

    Arrays that own their memory are not copied, and become read-only; views are copied. Node arrays have one entry per
    node. The nodes of tree ``t`` are ``tree_start[t]:tree_start[t + 1]``, its root first. Child indices count from the
    root of their own tree, as the leaf ids of the libraries do. Optional statistics that the library does not store
    are None, never NaN or 0.

    Parameters
    ----------
    tree_start : array of int64 of shape (n_trees + 1,)
    feature : array of int32 of shape (n_nodes,)
        Split feature; -1 at leaves.
    threshold : array of float64 of shape (n_nodes,)
        ``x <= threshold`` goes left, for every library. Not read at splits on categories.
    left, right : array of int32 of shape (n_nodes,)
        Children; -1 at leaves. Parents precede children.
    missing_left : array of bool of shape (n_nodes,)
        True if missing values go left.
    value : array of float64 of shape (n_nodes, width)
        At leaves, the prediction of the tree: a mean response or class fractions (averaged models), or a margin step
        that includes the learning rate (additive models). Values of inner nodes are computed here as the means of the
        leaves below, weighted by `averaging_weight`: in many models the stored values are unshrunk, rounded or on
        another scale.
    averaging_weight : array of float64 of shape (n_nodes,), or None
        Training weight at the leaves (inner entries are not read). None if the format stores none: values of inner
        nodes are then plain means of the leaves below, and Shapley values are refused.
    tree_output : array of int32 of shape (n_trees,)
        First of the ``width`` output columns that the tree adds to.
    base : array of float64 of shape (n_outputs,)
        Raw output without any tree.
    averaged : bool
        True if the raw output is the mean over trees, False if it is their sum.
    objective : Objective
        Loss and gradient that the trees were grown for.
    feature_names : tuple of str
    named : bool
        False if the model saw no names, and `feature_names` were made up.
    classes : array of shape (n_classes,), or None
        Labels in the order of the outputs; None in regression.
    class_sets : tuple of array, or None
        Labels of each response, for a model with several responses (`classes` is None then). The outputs are their
        one-hot columns, one response after another.
    labelled : bool
        False if the model kept no labels, and `classes` are 0, 1, 2, ...
    routing_dtype : dtype
        Precision in which the library compares values with thresholds.
    output_dtype : dtype
        Precision in which the library adds up the values of the trees; float64 by default. The output of the trees must
        equal that of the library up to rounding errors of this precision.
    spaces_in_names : bool
        False if the library stores an underscore for each blank in a column's name (LightGBM).
    missing_value : float
        Value that the model treats as missing in addition to NaN; NaN if there is none.
    narrowed_kinds : str
        Kinds of numpy arrays (``dtype.kind``) that the library rounds to float32 before it compares them in
        `routing_dtype`. This changes whole numbers beyond 2**24.
    sparse_absent : float, or None
        Value of an entry that a sparse matrix does not store; None if the library takes no sparse matrices.
    missing_refusal : str, or None
        Why rows with missing values are refused, as the end of a sentence; None if they are not.
    takes_tables : bool
        False if the library predicts for numpy arrays, sparse matrices and pandas frames only.
        ``debias_predict_native`` then gets other tables (polars, pyarrow) as pandas frames.
    rows_as_frame : bool
        True if ``debias_leaves`` and ``debias_predict_raw`` want rows as a pandas frame of numbers whose columns are
        called as in `feature_names`. They get an array by default.
    criterion : str or None
        Split criterion, if the model names one.
    mean_values : bool
        True if leaf values are (weighted) in-bag means of the response, so that they prove y.
    weight : array of float64 of shape (n_nodes,), or None
        In-bag weighted count n_t.
    count : array of int64 of shape (n_nodes,), or None
        Number of distinct training rows; number of training samples if an adapter's bags say that rows were repeated.
    impurity, gain, cover : array of float64 of shape (n_nodes,), or None
        In-bag impurity by `criterion`; the library's split gain; its cover.
    cover_factor : float
        How many times the second derivative of `objective` a row adds to `cover` (2 for XGBoost's softmax).
    zero_is_missing : array of bool of shape (n_nodes,), or None
        True at splits that treat zeros as missing (LightGBM's ``zero_as_missing``).
    category_set : array of int32 of shape (n_nodes,), or None
        At splits on categories, the number of the set of categories that is listed; -1 elsewhere. None if the model has
        no such splits.
    category_start : array of int64 of shape (n_sets + 1,), or None
    category_codes : array of int32, or None
        Set ``s`` is ``category_codes[category_start[s]:category_start[s + 1]]``, ascending. A value is compared as
        an integer, without its fraction.
    listed_left : array of bool of shape (n_sets,), or None
        True if listed codes go left and all others right, also negative and unknown ones; False if listed codes go
        right and all others left. `missing_left` says where missing values go.
    line_start : array of int64 of shape (n_nodes + 1,), or None
        For leaves with lines (LightGBM's ``linear_tree``): the terms of the line of node ``t`` are
        ``line_start[t]:line_start[t + 1]``; inner nodes have none. None if leaves are constant.
    line_feature : array of int32, or None
    line_slope : array of float64, or None
        Feature and slope of each term.
    line_offset : array of float64 of shape (n_nodes,), or None
        A leaf adds ``value + line_offset + sum of slope times feature`` to the raw output; its value alone for a row in
        which one of these features is missing.
    category_labels : dict of int to array, or None
        For features that the model saw as labels: feature index -> labels. The position of a label is the code that
        the model splits on. Features that are codes already are not listed.
    unknown_label : float
        Code of labels that `category_labels` does not have; NaN if they are missing to the model.
    n_train : int or None
        Number of training rows, if the model keeps it.
    sampled_share : float or None
        Share of the training rows that were drawn for each tree, 1 if each tree was grown on all of them; None if the
        model does not tell. It is not needed beside `n_train`.
    uniform_rows : bool
        True if each tree saw all rows or a uniform sample of them; False if the sample depends, or may depend, on
        weights or labels.
    trees_a_round : int
        Number of trees grown at the same margin: outputs times parallel trees.
    rescaled : bool
        True if steps were scaled after their growth (dropout), so that the margin before a tree is not known.
    margin_replaces_base : bool
        True if a margin that the user gives for each row replaces `base` (XGBoost); False if it is added to it.
    made_of : tuple of str, or None
        For each feature, the column of the user's X that the transformers around the model make it of, for messages.
        None if the features are columns of X. debias sets it; adapters do not.
    native_node : array of int32 of shape (n_nodes,), or None
        The library's own number of each node within its tree, ascending in each tree; None if the numbers are equal.
    positive_weight : float
        Weight of the positive class in sums of hessians (XGBoost's ``scale_pos_weight``).
    notes : tuple of str
        What a reader of scores of this model must know.
    source, version : str
        The kind of model, and the version of its library.
    tested_versions : TestedVersions, or None
        The versions of the library that the adapter was tested with. Scores of a model of another version get a
        warning. None if the adapter does not state them: there is no warning then.

    Raises
    ------
    ExtractionError
        The arrays do not form trees; the message names the tree and the node.
    """

    tree_start: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    value: NDArray[np.float64]
    averaging_weight: NDArray[np.float64] | None = None
    tree_output: NDArray[np.int32]
    base: NDArray[np.float64]
    averaged: bool
    objective: Objective
    feature_names: tuple[str, ...]
    named: bool
    classes: NDArray[Any] | None
    class_sets: tuple[NDArray[Any], ...] | None = None
    labelled: bool = True
    routing_dtype: np.dtype[Any]
    source: str
    version: str
    output_dtype: np.dtype[Any] = np.dtype(np.float64)
    spaces_in_names: bool = True
    missing_value: float = np.nan
    narrowed_kinds: str = ""
    sparse_absent: float | None = None
    missing_refusal: str | None = None
    takes_tables: bool = True
    rows_as_frame: bool = False
    criterion: str | None = None
    mean_values: bool = False
    weight: NDArray[np.float64] | None = None
    count: NDArray[np.int64] | None = None
    impurity: NDArray[np.float64] | None = None
    gain: NDArray[np.float64] | None = None
    cover: NDArray[np.float64] | None = None
    cover_factor: float = 1.0
    zero_is_missing: NDArray[np.bool_] | None = None
    category_set: NDArray[np.int32] | None = None
    category_start: NDArray[np.int64] | None = None
    category_codes: NDArray[np.int32] | None = None
    listed_left: NDArray[np.bool_] | None = None
    line_start: NDArray[np.int64] | None = None
    line_feature: NDArray[np.int32] | None = None
    line_slope: NDArray[np.float64] | None = None
    line_offset: NDArray[np.float64] | None = None
    category_labels: dict[int, NDArray[Any]] | None = None
    unknown_label: float = np.nan
    n_train: int | None = None
    sampled_share: float | None = None
    uniform_rows: bool = True
    trees_a_round: int = 1
    rescaled: bool = False
    margin_replaces_base: bool = False
    made_of: tuple[str, ...] | None = None
    native_node: NDArray[np.int32] | None = None
    positive_weight: float = 1.0
    notes: tuple[str, ...] = ()
    tested_versions: TestedVersions | None = None

    def __post_init__(self) -> None:
        from debias.trees.kernels import nodes as kernels

        for name, dtype in {**NODE_ARRAYS, **OTHER_ARRAYS}.items():
            self._set(name, dtype)
        for name in ("routing_dtype", "output_dtype"):
            object.__setattr__(self, name, np.dtype(getattr(self, name)))
        for check in (check_shapes, check_classes, check_trees, check_categories, check_leaf_lines):
            check(self)
        nodes = (self.left, self.right, self.value, _averaging_weight(self))
        over_parts(
            self.n_trees,
            lambda trees: kernels.average_leaves(self.tree_start[trees.start : trees.stop + 1], *nodes),
            at_least=self.trees_worth,
        )
        if self.averaging_weight is None and PLAIN_MEANS not in self.notes:
            object.__setattr__(self, "notes", (*self.notes, PLAIN_MEANS))
        if self.has_lines and LINES not in self.notes:
            object.__setattr__(self, "notes", (LINES, *self.notes))
        self._freeze()

    @property
    def version_doubt(self) -> str | None:
        """What a reader of scores must know of the version of the library; None if the adapter was tested with it."""
        return None if self.tested_versions is None else self.tested_versions.doubt(self.version)

    @property
    def has_lines(self) -> bool:
        """Whether leaves have lines, so that values of leaves are not what the model predicts."""
        return self.line_start is not None

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.tree_start.size - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees together."""
        return self.feature.size

    @property
    def trees_worth(self) -> int:
        """How many trees are worth a thread, for a loop over their nodes."""
        return worth(self.n_trees, self.n_nodes)

    @property
    def n_features(self) -> int:
        """Number of features the model was trained on."""
        return len(self.feature_names)

    @property
    def n_outputs(self) -> int:
        """Number of response columns: classes, or 1 in regression and for a binary booster."""
        return self.base.size

    @property
    def n_responses(self) -> int:
        """Number of columns of y."""
        if self.class_sets is not None:
            return len(self.class_sets)
        if self.is_classifier:
            return 1
        return self.objective.n_response_columns or self.n_outputs

    def refuse_parts(self) -> None:
        """Raise a CompositionError if rows in batches have no response, because it depends on all rows together."""
        if self.objective.compares_rows:
            raise CompositionError(
                f"the loss of this {self.source}, {self.objective.name}, compares rows with each other, so all rows "
                "are needed at once. Batches, and periods of a history, cannot be added up: audit rows in memory, each "
                "period by itself"
            )

    @property
    def is_classifier(self) -> bool:
        """Whether the response is one class label."""
        return self.classes is not None

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """Parent of each node within its tree; -1 at roots."""
        from debias.trees.kernels import nodes as kernels

        parent = np.full(self.n_nodes, -1, dtype=np.int32)
        links = (self.left, self.right, parent)
        over_parts(
            self.n_trees,
            lambda trees: kernels.list_parents(self.tree_start[trees.start : trees.stop + 1], *links),
            at_least=self.trees_worth,
        )
        parent.flags.writeable = False
        return parent

    @cached_property
    def splits(self) -> NDArray[np.int64]:
        """Flat indices of all inner nodes, ascending."""
        return self.links[0].astype(np.int64)

    @cached_property
    def children(self) -> NDArray[np.int64]:
        """Flat indices of the two children of each of `splits`, shape (n_splits, 2)."""
        return self.links[1].astype(np.int64)

    @cached_property
    def tree_of_split(self) -> NDArray[np.int64]:
        """The tree that each of `splits` belongs to."""
        return self.links[2].astype(np.int64)

    @cached_property
    def links(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """`splits`, `children` and `tree_of_split` for compiled loops: as int32 where the nodes are few enough."""
        from debias.trees.kernels import nodes as kernels

        n_splits = (self.n_nodes - self.n_trees) // 2
        integer = np.int32 if self.n_nodes <= np.iinfo(np.int32).max else np.int64
        splits, children = np.empty(n_splits, integer), np.empty((n_splits, 2), integer)
        tree = np.empty(n_splits, integer)

        def list_splits(trees: slice) -> None:
            # A tree of k nodes has (k - 1) / 2 splits, so the first t trees have (tree_start[t] - t) / 2.
            at = slice(*((self.tree_start[edge] - edge) // 2 for edge in (trees.start, trees.stop)))
            start = self.tree_start[trees.start : trees.stop + 1]
            kernels.list_splits(start, trees.start, self.left, self.right, splits[at], children[at], tree[at])

        over_parts(self.n_trees, list_splits, at_least=self.trees_worth)
        return splits, children, tree

    @cached_property
    def centre(self) -> NDArray[np.float64]:
        """Constant subtracted from response and node values of an averaged regression, shape (n_outputs,).

        No score depends on it (eq. 14 in its literal form adds it back). It keeps sums exact: if y has a large mean,
        sums of y lose digits that sums of y - centre keep.
        """
        if not self.averaged or self.is_classifier:
            return np.zeros(self.n_outputs)
        return self.value[self.tree_start[:-1]].mean(axis=0)

    @cached_property
    def centred_value(self) -> NDArray[np.float64]:
        """`value` minus `centre`, shape (n_nodes, width)."""
        if not self.centre.any():
            return self.value
        # numpy is slow at subtracting an array of one number from each row.
        return self.value - (self.centre[0] if self.centre.size == 1 else self.centre)

    @cached_property
    def routing_threshold(self) -> NDArray[np.floating[Any]]:
        """`threshold` rounded down to the precision of the rows, which sends every value the same way."""
        from debias.trees.kernels import nodes as kernels

        rounded = np.empty(self.n_nodes, dtype=self.routing_dtype)
        over_parts(
            self.n_nodes, lambda nodes: kernels.round_down(self.threshold[nodes], rounded[nodes]), at_least=100_000
        )
        return rounded

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, or of the only class whose log odds or probability the output is."""
        if self.class_sets is not None:
            return tuple(f"response {k}: {label}" for k, labels in enumerate(self.class_sets) for label in labels)
        if self.classes is not None:
            labels = self.classes.tolist()
            return tuple(map(str, labels[-1:] if self.n_outputs == 1 else labels))
        return numbered_outputs(self.n_outputs)

    @cached_property
    def bins(self) -> Bins | None:
        """The bins that route many rows at once; None if the trees are too large, or have splits without a cut."""
        return Bins.of(self)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # cached properties are left out

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # pickles do not keep the read-only flags

    def renamed(self, names: tuple[str, ...]) -> TreeEnsemble:
        """Return the same trees with other feature names; the arrays are shared."""
        other = copy(self)
        object.__setattr__(other, "feature_names", names)
        return other

    def named_as_in(self, names: Iterable[str]) -> TreeEnsemble:
        """Return the same trees with the names of a table, where the library replaces blanks in names.

        Parameters
        ----------
        names : iterable of str
            Names of the columns of the table, in any order. A feature without a column keeps its name.
        """
        if self.spaces_in_names:
            return self
        name_in_table = {self.stored_name(name): name for name in names}
        return self.renamed(tuple(name_in_table.get(self.stored_name(name), name) for name in self.feature_names))

    def with_leaf_weights(self, weight: NDArray[np.float64]) -> TreeEnsemble:
        """Return the same trees with training weights of the leaves, for a format that stores none.

        Parameters
        ----------
        weight : array of float64 of shape (n_nodes,)
            Inner entries are not read. Below a node without any weight, values are plain means of the leaves.
        """
        least = 1e-9 * max(float(weight.max()), 1.0)
        notes = tuple(note for note in self.notes if note != PLAIN_MEANS)
        return replace(self, averaging_weight=np.maximum(weight, least), notes=notes)

    def with_sources(self, made_of: tuple[str, ...]) -> TreeEnsemble:
        """Return the same trees with the columns of X that their features are made of; the arrays are shared."""
        other = copy(self)
        object.__setattr__(other, "made_of", made_of)
        return other

    def source_of(self, feature: int) -> str:
        """Return the name of the column of X that a feature is, or is made of."""
        return (self.made_of or self.feature_names)[feature]

    def column_in_words(self, feature: int) -> str:
        """Return the column of a feature for an error: "column 'age' of X", "a column made of 'sector'"."""
        if self.made_of is not None:
            return f"a column made of {self.made_of[feature]!r}"
        return f"column {self.feature_names[feature]!r} of X"

    def stored_name(self, name: str) -> str:
        """Return the name of a column as the library stores it."""
        return name if self.spaces_in_names else without_blanks(name)

    def tree(self, index: int) -> Tree:
        """Return a view of one tree."""
        begin, end = self.tree_start[index], self.tree_start[index + 1]
        return Tree(
            **{name: getattr(self, name)[begin:end] for name in ("feature", "threshold", "left", "right", "value")},
            parent=self.parent[begin:end],
            missing_left=self.missing_left[begin:end],
            weight=None if self.weight is None else self.weight[begin:end],
        )

    def _freeze(self) -> None:
        for field in fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray) and field.name != "classes":
                array.flags.writeable = False

    def _set(self, name: str, dtype: Any) -> None:
        value = getattr(self, name)
        if value is None and hasattr(type(self), name):
            return  # it is optional: it has a default
        try:
            with np.errstate(invalid="ignore"):  # NaN as an integer is found below
                array = np.ascontiguousarray(value, dtype=dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise ExtractionError(f"{self.source}: `{name}` cannot be an array of {np.dtype(dtype)}: {error}") from None
        if array.dtype.kind == "i" and array is not value and (array != value).any():
            raise ExtractionError(f"{self.source}: `{name}` has values that are no whole numbers of {array.dtype}")
        if array.base is not None or not array.flags.writeable:
            array = array.copy()  # a view may be the model's own memory, which must not become read-only
        object.__setattr__(self, name, array)


@dataclass(frozen=True, eq=False)
class Tree:
    """A view of one tree of a TreeEnsemble. The arrays have the ensemble's names and meanings."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    parent: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    weight: NDArray[np.float64] | None


def check_shapes(ensemble: TreeEnsemble) -> None:
    """Raise an ExtractionError if the shapes of arrays do not fit each other."""
    n_nodes, source = ensemble.feature.size, ensemble.source
    for name in NODE_ARRAYS:
        array = getattr(ensemble, name)
        if array is not None and (array.shape[0] != n_nodes or array.ndim != (2 if name == "value" else 1)):
            raise ExtractionError(f"{source}: `{name}` has shape {array.shape} for {n_nodes} nodes")
    for name in OTHER_ARRAYS:
        array = getattr(ensemble, name)
        if array is not None and array.ndim != 1:
            raise ExtractionError(f"{source}: `{name}` has shape {array.shape}, but must have one dimension")
    start = ensemble.tree_start
    if start.size < 2 or start[0] != 0 or start[-1] != n_nodes or (start[1:] <= start[:-1]).any():
        raise ExtractionError(f"{source}: `tree_start` does not divide {n_nodes} nodes into trees")
    if not np.isfinite(ensemble.base).all():
        raise ExtractionError(f"{source}: the raw output without any tree is {ensemble.base}, not a finite number")
    if ensemble.sampled_share is not None and not 0 < ensemble.sampled_share <= 1:
        raise ExtractionError(f"{source}: `sampled_share` is {ensemble.sampled_share}, not a share above 0 and up to 1")
    width = ensemble.value.shape[1]
    if width == 0:
        raise ExtractionError(f"{source}: `value` has no column: trees must have at least one output")
    if ensemble.tree_output.shape != (ensemble.n_trees,):
        raise ExtractionError(f"{source}: `tree_output` must have one entry for each of {ensemble.n_trees} trees")
    if ensemble.tree_output.min() < 0 or int(ensemble.tree_output.max()) + width > ensemble.n_outputs:
        raise ExtractionError(f"{source}: a tree adds to an output that `base` does not have")
    for name in ("routing_dtype", "output_dtype"):
        if getattr(ensemble, name) not in (np.float32, np.float64):
            raise ExtractionError(f"{source}: `{name}` is {getattr(ensemble, name)}, not float32 or float64")


def check_classes(ensemble: TreeEnsemble) -> None:
    """Raise an ExtractionError if the labels do not fit the outputs."""
    source, width, n_outputs = ensemble.source, ensemble.value.shape[1], ensemble.n_outputs
    if ensemble.classes is None and ensemble.class_sets is None:
        return
    if ensemble.classes is not None and ensemble.class_sets is not None:
        raise ExtractionError(f"{source}: `classes` must be None if `class_sets` is given")
    name = "class_sets" if ensemble.classes is None else "classes"
    labels = ensemble.class_sets if ensemble.classes is None else (ensemble.classes,)
    if any(np.ndim(of_response) != 1 for of_response in labels or ()):
        raise ExtractionError(f"{source}: the labels in `{name}` must be arrays of one dimension")
    n_labels = sum(len(of_response) for of_response in labels or ())
    if ensemble.averaged and not n_labels == width == n_outputs:
        raise ExtractionError(
            f"{source}: `{name}` has {n_labels} labels, `value` {width} columns and `base` {n_outputs} entries. They "
            "must be as many: an averaged classifier has one output for each label"
        )
    if n_outputs > 1 and n_labels > n_outputs:
        raise ExtractionError(f"{source}: `{name}` has {n_labels} labels, but `base` only {n_outputs} entries")


def numbered_outputs(n_outputs: int) -> tuple[str, ...]:
    """Return names of outputs that have none."""
    return ("prediction",) if n_outputs == 1 else tuple(f"output {k}" for k in range(n_outputs))


def check_trees(ensemble: TreeEnsemble) -> None:
    """Raise an ExtractionError that names the first node at which the arrays do not form a tree."""
    from debias.trees.kernels import nodes as kernels

    links = (ensemble.left, ensemble.right, ensemble.feature)
    nodes = (*links, ensemble.threshold, ensemble.value, _averaging_weight(ensemble))
    first_faults = over_parts(
        ensemble.n_trees,
        lambda trees: kernels.check_trees(
            ensemble.tree_start[trees.start : trees.stop + 1], *nodes, ensemble.n_features
        ),
        at_least=ensemble.trees_worth,
    )
    node, fault = next(((node, fault) for node, fault in first_faults if node >= 0), (-1, 0))
    if node >= 0:
        tree = int(np.searchsorted(ensemble.tree_start, node, side="right")) - 1
        raise ExtractionError(
            f"{ensemble.source}: node {node - ensemble.tree_start[tree]} of tree {tree} {FAULTS[fault]}. The model is "
            "damaged, or its adapter has a fault: please report it with the library's version."
        )


def check_categories(ensemble: TreeEnsemble) -> None:
    """Raise an ExtractionError if the arrays of category sets do not fit each other or the nodes."""
    for feature, labels in (ensemble.category_labels or {}).items():
        if not 0 <= feature < ensemble.n_features or np.ndim(labels) != 1:
            raise ExtractionError(
                f"{ensemble.source}: `category_labels` must have arrays of one dimension, for some of the features 0 "
                f"to {ensemble.n_features - 1}; its entry of feature {feature} is not so"
            )
    arrays = (ensemble.category_set, ensemble.category_start, ensemble.category_codes, ensemble.listed_left)
    if all(array is None for array in arrays):
        return
    which, start, codes, listed_left = arrays
    if which is None or start is None or codes is None or listed_left is None:
        raise ExtractionError(f"{ensemble.source}: some arrays of category sets are given, others are None")
    if start.size != listed_left.size + 1 or start[0] != 0 or start[-1] != codes.size or (start[1:] < start[:-1]).any():
        raise ExtractionError(f"{ensemble.source}: `category_start` does not divide {codes.size} codes into sets")
    if which.min() < -1 or which.max() >= listed_left.size or (which[ensemble.left < 0] >= 0).any():
        raise ExtractionError(f"{ensemble.source}: `category_set` names a set that does not exist, or one at a leaf")
    not_first_of_set = np.ones(codes.size, dtype=bool)
    not_first_of_set[start[:-1][start[:-1] < codes.size]] = False
    if (codes < 0).any() or (np.diff(codes, prepend=-1)[not_first_of_set] <= 0).any():
        raise ExtractionError(f"{ensemble.source}: the codes of a category set are negative, repeated or not ascending")


def _averaging_weight(ensemble: TreeEnsemble) -> NDArray[np.float64]:
    """Return the weight of each leaf in the means of inner nodes: the same for all leaves, where none is stored."""
    return np.ones(ensemble.n_nodes) if ensemble.averaging_weight is None else ensemble.averaging_weight
