"""The classes PmmlModel, a PMML file, and PmmlTrees, its trees after the columns that it computes.

Over 500 lines, because what elements of a file are read, and what is refused by name, stands together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import RowsError, UnsupportedModelError
from debias.text import listed
from debias_adapters.pmml.derived import add_derived
from debias_adapters.pmml.document import SOURCE, damaged, number, root_of, to_number, unsupported
from debias_adapters.pmml.fields import Fields, dictionary_of, inputs_of
from debias_adapters.pmml.nodes import tree_of, winners
from debias_adapters.pmml.splits import NOWHERE, Splits, Splitter, leaves_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from numpy.typing import NDArray

    from debias_adapters.pmml.fields import Field
    from debias_adapters.pmml.nodes import PmmlTree

    Floats = NDArray[np.float64]

MODELS = ("TreeModel", "MiningModel")
TOGETHER = ("sum", "average", "weightedSum", "weightedAverage", "majorityVote", "weightedMajorityVote")
"""Ways to put the trees of an ensemble together."""
SUMS = ("sum", "weightedSum")
DEEPEST = 20
"""Most levels of ensembles within ensembles."""


@dataclass(frozen=True, eq=False)
class Sum:
    """Trees that are put together.

    Parameters
    ----------
    trees : list of PmmlTree
    weights : list of float
        The weight of each tree.
    method : str
        One of `TOGETHER`.
    factor, constant : float
        The result is multiplied by the one, and then the other is added.
    """

    trees: list[PmmlTree]
    weights: list[float]
    method: str
    factor: float
    constant: float

    @property
    def shares(self) -> list[float]:
        """What the score of each tree is multiplied by."""
        total = 1.0 if self.method in SUMS else sum(self.weights)
        return [weight / total * self.factor for weight in self.weights]


@dataclass(frozen=True, eq=False)
class Content:
    """What a file says.

    Parameters
    ----------
    fields : Fields
    columns : list of str
        Fields that the trees test.
    response : Field
    is_classifier : bool
    sums : list of Sum
        One, or one for each output.
    link : str
        What is computed of the sums: "none", "exp", "logit" or "softmax".
    labels : tuple of str
        Classes in the order of the outputs; empty in regression. With "logit" the sum is of the second.
    version, writer : str
    notes : tuple of str
        What a reader of scores must know.
    """

    fields: Fields
    columns: list[str]
    response: Field
    is_classifier: bool
    sums: list[Sum]
    link: str
    labels: tuple[str, ...]
    version: str
    writer: str
    notes: tuple[str, ...]

    @cached_property
    def in_order(self) -> list[tuple[int, PmmlTree]]:
        """The trees with their outputs, round by round: the first of all outputs, then the second, ..."""
        longest = max(len(each.trees) for each in self.sums)
        return [
            (output, each.trees[k])
            for k in range(longest)
            for output, each in enumerate(self.sums)
            if k < len(each.trees)
        ]


@dataclass(frozen=True, eq=False)
class PmmlModel:
    """A PMML file.

    Parameters
    ----------
    content : bytes
    """

    content: bytes

    def __getstate__(self) -> dict[str, Any]:
        return {"content": self.content}  # what is computed is left out

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"<{SOURCE} of {len(self.names)} columns, by {self.said.writer}>"

    @cached_property
    def said(self) -> Content:
        """What the file says."""
        return _content(root_of(self.content))

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that the model takes."""
        return tuple(each.name for each in self.said.fields.inputs)

    @cached_property
    def trees(self) -> PmmlTrees:
        """The trees."""
        return PmmlTrees(self)


@dataclass(frozen=True, eq=False)
class PmmlTrees:
    """The trees of a PMML file, for rows of the columns that they test.

    Parameters
    ----------
    model : PmmlModel
    """

    model: PmmlModel

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"<trees of a {SOURCE}>"

    @cached_property
    def made(self) -> Made:
        """Splits of all trees."""
        said = self.model.said
        found = [said.fields.find(name) for name in said.columns]
        n_labels = [len(each.codes) for each in found]
        closed = [each.closed and each.invalid != "asIs" for each in found]
        splitter = Splitter(n_labels, closed, said.columns)
        whole = [splitter.splits_of(tree) for _, tree in said.in_order]
        return Made(whole, [each.scored() for each in whole], splitter.no_missing)

    @cached_property
    def scores(self) -> list[Floats]:
        """Scores of the nodes of each tree, shape (n_nodes, width); NaN where a node has none."""
        said = self.model.said
        if not said.is_classifier or said.link != "none":
            return [_scores(tree.score)[:, None] for _, tree in said.in_order]
        by_vote = "Vote" in said.sums[0].method
        return [_shares(tree, said.labels, by_vote) for _, tree in said.in_order]

    def transform(self, X: Any) -> Floats:
        """Return the columns of the trees of the user's rows.

        Raises
        ------
        RowsError
            The model gives no prediction for a row.
        """
        matrix = self.model.said.fields.columns(X, self.model.said.columns)
        if np.isnan(matrix).any():
            self._refuse(matrix)
        return matrix

    def _refuse(self, matrix: Floats) -> None:
        """Refuse rows with missing values for which a tree gives no prediction, or none that is one leaf."""
        rows = np.flatnonzero(np.isnan(matrix).any(axis=1))
        rows = rows[self.without_prediction(matrix[rows]).any(axis=1)]
        if rows.size:
            fields, missing = self.model.said.fields, np.flatnonzero(np.isnan(matrix[rows[0]])).tolist()
            origins = dict.fromkeys(each for k in missing for each in fields.origin(self.model.said.columns[k]))
            names = [fields.inputs[each].name for each in origins]
            first = ", ".join(map(str, rows[:MOST_NAMED].tolist())) + (", ..." if rows.size > MOST_NAMED else "")
            raise RowsError(
                f"row {rows[0]} has missing values in {listed(names)}, and the {SOURCE} gives no prediction for it "
                f"that has a leaf in every tree ({rows.size} such rows of {len(matrix)}: {first}): leave these rows "
                "out, or fill in the values"
            )

    def without_prediction(self, X: Floats) -> NDArray[np.bool_]:
        """Return whether each tree gives no prediction for each row, shape (n_rows, n_trees)."""
        whole = self.made.whole
        found = np.zeros((len(X), len(whole)), dtype=bool)
        ends = [k for k, each in enumerate(whole) if each.has_nowhere]
        if ends:
            leaves = leaves_of([whole[k] for k in ends], X)
            for k, leaf in zip(ends, leaves.T, strict=True):
                found[:, k] = whole[k].node[leaf] == NOWHERE
        return found

    def winners(self, X: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
        """Return the node of the file that predicts for each row in each tree, by the rules of the standard."""
        rows = np.asarray(X, dtype=np.float64)
        return np.column_stack([winners(tree, rows) for _, tree in self.model.said.in_order])


MOST_NAMED = 5
"""Most rows that an error names."""


@dataclass(frozen=True, eq=False)
class Made:
    """Splits of all trees.

    Parameters
    ----------
    whole : list of Splits
        With leaves for rows without a prediction.
    scored : list of Splits
        Without these.
    no_missing : bool
        Whether no value may be missing.
    """

    whole: list[Splits]
    scored: list[Splits]
    no_missing: bool


def _scores(texts: list[str | None]) -> Floats:
    """Return scores as numbers; NaN where there is none."""
    try:
        found = [float("nan") if text is None else float(text) for text in texts]
        wrong = sum(map(isfinite, found)) < len(texts) - texts.count(None)
    except ValueError:
        wrong = True
    if wrong:
        found = [float("nan") if text is None else to_number(text, "the score of a node") for text in texts]
    return np.array(found)


def _shares(tree: PmmlTree, labels: tuple[str, ...], by_vote: bool) -> Floats:
    """Return the shares of the classes in the nodes, or, for a vote, 1 for the class of the score."""
    code = {label: k for k, label in enumerate(labels)}
    has_score = np.array([each is not None for each in tree.score])
    has_shares = np.zeros(tree.n_nodes, dtype=bool)
    has_shares[tree.share_owner] = True
    by_shares = has_shares & ~has_score if by_vote else has_shares
    made = np.zeros((tree.n_nodes, len(labels)))
    used = by_shares[tree.share_owner]
    of_share = np.array([code.get(label, -1) for label in tree.share_label], dtype=np.int64)
    known = (of_share[used] >= 0).all() and (tree.share >= 0)[used].all()
    made[tree.share_owner[used], of_share[used]] = tree.share[used]
    by_score = has_score & ~by_shares
    of_score = np.array([-1 if each is None else code.get(each, -1) for each in tree.score], dtype=np.int64)
    made[by_score, of_score[by_score]] = 1.0
    total = made.sum(axis=1)
    predicts = by_shares | by_score
    if not (known and (of_score[by_score] >= 0).all() and ((total > 0) & (total < np.inf))[predicts].all()):
        raise damaged("the classes of a node are not those of the response, or their shares are no shares")
    made[~predicts] = np.nan
    made[predicts] /= total[predicts, None]
    if by_vote:
        first = made[by_shares] == made[by_shares].max(axis=1, keepdims=True)
        made[by_shares] = first / first.sum(axis=1, keepdims=True)
    return made


def _content(root: Element) -> Content:
    found = [each for each in root if each.tag.endswith("Model") or each.tag in OTHER_MODELS]
    if len(found) != 1:
        raise unsupported(f"{len(found)} models" if found else "no model")
    (model,) = found
    _refuse_other(model)
    dictionary = dictionary_of(root)
    inputs, response = inputs_of(model, dictionary)
    if response is None:
        raise unsupported("no response (such as an isolation forest, whose trees were grown without one)")
    fields = Fields(inputs)
    add_derived(fields, root.iterfind("TransformationDictionary/DerivedField"))
    reader = _Reader(fields)
    name = model.get("functionName")
    if name not in ("regression", "classification"):
        raise unsupported(f"the function {name!r}")
    if model.tag == "MiningModel" and _method(model) == "modelChain":
        sums, link, labels = reader.chain(model)
    else:
        sums, link, labels = [reader.sum_of(model)], "none", ()
    is_classifier = name == "classification"
    if is_classifier and not labels:
        labels = response.labels or _classes_in(sums[0])
    application = root.find("Header/Application")
    by = ("unknown", "unknown") if application is None else (application.get("name"), application.get("version"))
    return Content(
        fields,
        list(reader.column_of) or [inputs[0].name],
        response,
        is_classifier,
        sums,
        link,
        tuple(labels),
        root.get("version", ""),
        " ".join(str(each) for each in by),
        _notes(model),
    )


def _notes(model: Element) -> tuple[str, ...]:
    """Return a note if the file computes further results from its prediction."""
    further = [
        each.get("name", "")
        for each in model.iterfind("Output/OutputField")
        if each.get("feature") in ("transformedValue", "decision")
    ]
    if not further:
        return ()
    return (f"scores are of the prediction itself, and not of what the file computes from it ({listed(further)})",)


OTHER_MODELS = ("NeuralNetwork", "Scorecard")


def _refuse_other(model: Element) -> None:
    if model.tag not in MODELS:
        raise UnsupportedModelError(
            f"this PMML file has a {model.tag}, which has no trees. debias reads {' and '.join(MODELS)}"
        )
    if model.get("isScorable", "true") != "true":
        raise unsupported("a model that is not for scoring (isScorable)")


def _classes_in(found: Sum) -> tuple[str, ...]:
    labels = {label for tree in found.trees for label in tree.share_label}
    return tuple(sorted(labels | {score for tree in found.trees for score in tree.score if score is not None}))


def _method(model: Element) -> str:
    segmentation = model.find("Segmentation")
    if segmentation is None:
        raise unsupported("a MiningModel without a Segmentation")
    return segmentation.get("multipleModelMethod", "")


@dataclass
class _Reader:
    """Reads models, and collects the columns that their trees test.

    Parameters
    ----------
    fields : Fields
    column_of : dict of str to int
        Number of the column of the trees by its field.
    """

    fields: Fields
    column_of: dict[str, int] = field(default_factory=dict)

    def chain(self, model: Element) -> tuple[list[Sum], str, tuple[str, ...]]:
        """Read sums whose results a last model turns into a prediction: outputs, link and classes."""
        self._local(model)
        _refuse_targets(model)
        found = [_of_segment(each) for each in model.iterfind("Segmentation/Segment")]
        if not found or found[-1].tag != "RegressionModel":
            raise unsupported("a chain of models whose last one is no RegressionModel")
        *before, last = found
        sums = dict[str, Sum]()
        for each in before:
            if each.tag not in MODELS or each.get("functionName") != "regression":
                raise unsupported(f"a chain of models with a {each.tag} for {each.get('functionName')}")
            sums[_output(each)] = self.sum_of(each)
        return _linked(last, sums)

    def sum_of(self, model: Element, level: int = 0) -> Sum:
        """Read one tree, or trees that are put together, also by ensembles within ensembles."""
        self._local(model)
        factor, constant = _rescaled(model)
        if model.tag == "TreeModel":
            tree = tree_of(model, self)
            return Sum([tree], [1.0], "average", factor, constant)
        if level == DEEPEST:
            raise unsupported(f"ensembles within ensembles in more than {DEEPEST} levels")
        method = _method(model)
        if method not in TOGETHER:
            raise unsupported(f"{'an ensemble inside' if level else 'trees'} that is put together by {method!r}")
        parts: list[Sum] = []
        weights: list[float] = []
        for segment in model.findall("Segmentation/Segment"):
            inside = _of_segment(segment)
            if inside.tag not in MODELS:
                raise unsupported(f"a {inside.tag} inside an ensemble by {method!r}")
            if inside.get("functionName") != model.get("functionName"):
                raise unsupported(f"models for different functions inside an ensemble by {method!r}")
            parts.append(self.sum_of(inside, level + 1))
            weights.append(number(segment, "weight", 1.0))
        if not parts:
            raise damaged("an ensemble has no trees")
        if not method.startswith("weighted"):
            weights = [1.0] * len(parts)
        elif min(weights) < 0 or sum(weights) <= 0:
            raise damaged("the weights of its trees are no weights")
        return _joined(parts, weights, method, factor, constant)

    def _local(self, model: Element) -> None:
        """Read the columns that a model derives, and refuse one that changes columns by its MiningSchema."""
        add_derived(self.fields, model.iterfind("LocalTransformations/DerivedField"))
        known = {each.name: each.replacement for each in self.fields.inputs}
        for each in model.iterfind("MiningSchema/MiningField"):
            name = each.get("name", "")
            changed = each.get("missingValueReplacement"), each.get("outliers", "asIs")
            if changed not in ((None, "asIs"), (known.get(name), "asIs")):
                raise unsupported(f"values of {name!r} that a model inside replaces")

    def number_of(self, name: str) -> int:
        """Return the position of a column of the trees, for the name of a field."""
        self.fields.find(name)
        return self.column_of.setdefault(name, len(self.column_of))

    def is_label(self, name: str) -> bool:
        """Whether a field has categories."""
        return self.fields.find(name).labels is not None

    def value_of(self, name: str, text: str) -> float:
        """Return a text as a value of a field."""
        return self.fields.code_of(name, text)

    def is_single(self, name: str) -> bool:
        """Whether a field has numbers of 32 bits."""
        return self.fields.find(name).type == "float"


def _joined(parts: list[Sum], weights: list[float], method: str, factor: float, constant: float) -> Sum:
    """Return the sum of sums as one, in which each tree has a share of its own."""
    if all(len(each.trees) == 1 and each.shares == [1.0] and each.constant == 0 for each in parts):
        return Sum([each.trees[0] for each in parts], weights, method, factor, constant)
    if "Vote" in method or any("Vote" in each.method for each in parts):
        raise unsupported("a vote of ensembles, or an ensemble of votes")
    total = 1.0 if method in SUMS else sum(weights)
    of_part = [weight / total * factor for weight in weights]
    shares = [share * each for share, part in zip(of_part, parts, strict=True) for each in part.shares]
    added = sum(share * part.constant for share, part in zip(of_part, parts, strict=True)) + constant
    trees = [tree for part in parts for tree in part.trees]
    if len(set(shares)) == 1:
        together = "sum" if any(each.method in SUMS for each in parts) or method in SUMS else "average"
        return Sum(trees, [1.0] * len(trees), together, shares[0] * (1 if together == "sum" else len(trees)), added)
    is_mean = method not in SUMS and all(each.method not in SUMS for each in parts) and min(shares) >= 0
    if is_mean and abs(sum(shares) - 1) < ROUNDED:
        return Sum(trees, shares, "weightedAverage", 1.0, added)
    return Sum(trees, shares, "weightedSum", 1.0, added)


ROUNDED = 1e-9
"""Largest error of the sum of weights that are 1 together."""


def _of_segment(segment: Element) -> Element:
    """Return the model of a segment, which must hold for all rows."""
    if segment.find("True") is None:
        raise unsupported("a model for a part of the rows (a Segment with a predicate)")
    found = [each for each in segment if each.tag.endswith("Model") or each.tag in OTHER_MODELS]
    if len(found) != 1:
        raise damaged(f"a Segment has {len(found)} models")
    return found[0]


def _rescaled(model: Element) -> tuple[float, float]:
    """Return the factor and the constant by which a model changes its result."""
    targets = model.findall("Targets/Target")
    if len(targets) > 1:
        raise unsupported("several Targets")
    if not targets:
        return 1.0, 0.0
    odd = next((name for name in ("castInteger", "min", "max") if name in targets[0].attrib), None)
    if odd is not None:
        raise unsupported(f"{odd} of a Target")
    return number(targets[0], "rescaleFactor", 1.0), number(targets[0], "rescaleConstant", 0.0)


def _refuse_targets(model: Element) -> None:
    if _rescaled(model) != (1.0, 0.0):
        raise unsupported("Targets that change the result of a chain of models")


def _output(model: Element) -> str:
    """Return the name under which a model of a chain hands on its result."""
    found = model.findall("Output/OutputField")
    if len(found) != 1 or found[0].get("feature", "predictedValue") != "predictedValue":
        raise unsupported("a model of a chain with other outputs than its result")
    return found[0].get("name", "")


def _linked(model: Element, sums: dict[str, Sum]) -> tuple[list[Sum], str, tuple[str, ...]]:
    """Return the outputs in the order of the classes: each is one sum times its coefficient, plus the intercept."""
    _refuse_targets(model)
    method = model.get("normalizationMethod", "none")
    tables = model.findall("RegressionTable")
    parts = [_of_table(each, sums) for each in tables]
    labels = tuple(each.get("targetCategory", "") for each in tables)
    used = [each for each in parts if each is not None]
    if len(used) != len(sums):
        raise unsupported("a chain of models in which a result is used twice or never")
    if model.get("functionName") == "regression":
        if len(parts) != 1 or len(used) != 1 or method not in ("none", "exp", "logit"):
            raise unsupported(f"a regression with {len(parts)} tables and the normalizationMethod {method!r}")
        return used, method, ()
    if method == "logit" and len(tables) == 2 and parts[0] is not None and parts[1] is None:
        if number(tables[1], "intercept", 0.0) != 0:
            raise unsupported("a logistic function of two sums")
        return used, "logit", (labels[1], labels[0])
    if len({len(each.trees) for each in used}) > 1:
        raise unsupported("classes with different numbers of trees, so that the rounds are not known")
    if method == "softmax" and len(used) == len(tables) > 1:
        return used, "softmax", labels
    raise unsupported(f"{len(tables)} classes of {len(used)} sums with the normalizationMethod {method!r}")


def _of_table(table: Element, sums: dict[str, Sum]) -> Sum | None:
    odd = next((each.tag for each in table if each.tag not in ("NumericPredictor", "Extension")), None)
    predictors = table.findall("NumericPredictor")
    if odd is not None or len(predictors) > 1:
        raise unsupported(f"a chain of models that ends with {odd or 'a function of several results'}")
    if not predictors:
        return None
    name = predictors[0].get("name", predictors[0].get("field", ""))
    if name not in sums or number(predictors[0], "exponent", 1.0) != 1:
        raise unsupported(f"a chain of models that ends with a function of {name!r}")
    coefficient, before = number(predictors[0], "coefficient"), sums[name]
    constant = before.constant * coefficient + number(table, "intercept", 0.0)
    return Sum(before.trees, before.weights, before.method, before.factor * coefficient, constant)
