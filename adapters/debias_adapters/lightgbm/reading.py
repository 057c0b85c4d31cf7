"""What stands in a LightGBM model text: its objective, the margin it starts from, its settings; and its trees."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.trees.objectives import Objective
from debias_adapters.lightgbm.trees import Trees, blocks_of, lines_of, read_trees

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

OBJECTIVES = {
    "regression": "squared_error",
    "regression_l1": "absolute_error",
    "huber": "huber",
    "fair": "fair",
    "poisson": "poisson",
    "quantile": "quantile",
    "mape": "absolute_percentage_error",
    "gamma": "gamma",
    "tweedie": "tweedie",
    "binary": "logistic",
    "cross_entropy": "logistic",
    "multiclass": "softmax",
    "multiclassova": "logistic",
}
PARAMETERS = {
    "huber": "alpha",
    "quantile": "alpha",
    "fair": "fair_c",
    "poisson": "poisson_max_delta_step",
    "tweedie": "tweedie_variance_power",
}
REFUSED = {
    "lambdarank": "a ranking loss compares rows of one query, so a row has no gradient of its own at a constant margin",
    "rank_xendcg": "a ranking loss compares rows of one query, so a row has no gradient of its own",
    "cross_entropy_lambda": "row weights are part of its link, and the model does not keep them",
}


@dataclass(frozen=True, eq=False)
class ModelText:
    """A model text, read.

    Parameters
    ----------
    head : dict of str to str
        The lines before the first tree.
    trees : Trees
    settings : dict of str to str
        The parameters of training that stand after the trees; empty in texts that have none.
    pandas_categories : list of list
        Labels of each categorical column of the training frame.
    shrinkage : float
        Scale of the first tree.
    """

    head: dict[str, str]
    trees: Trees
    settings: dict[str, str]
    pandas_categories: list[list[Any]]
    shrinkage: float

    @classmethod
    def parse(cls, text: str | Iterable[str], source: str) -> ModelText:
        """Read the text that ``model_to_string`` or ``save_model`` writes, or those of consecutive rounds."""
        head, rest, blocks = "", "", list[dict[str, str]]()
        for part in [text] if isinstance(text, str) else text:
            body, _, rest = part.partition("\nend of trees")
            head, of_trees = blocks_of(body)
            blocks += map(lines_of, of_trees)
        if not blocks:
            raise UnsupportedModelError(f"this {source} has no trees; train it first")
        labels = re.search(r"^pandas_categorical:(.*)$", rest, flags=re.M)
        return cls(
            head=lines_of(head),
            trees=read_trees(blocks, source),
            settings=dict(re.findall(r"^\[(\w+): (.*)\]$", rest, flags=re.M)),
            pandas_categories=(json.loads(labels.group(1)) if labels else None) or [],
            shrinkage=float(blocks[0].get("shrinkage", 1)),
        )

    @property
    def n_outputs(self) -> int:
        """Trees a round."""
        return int(self.head["num_tree_per_iteration"])

    @property
    def is_forest(self) -> bool:
        """Whether it was trained with ``boosting="rf"``: outputs are means of trees."""
        return "average_output" in self.head

    @property
    def folds_constant(self) -> bool:
        """Whether the constant margin is folded into leaves: of the first round, or of every tree of a forest."""
        if self.is_forest or self.settings.get("boost_from_average") == "0":
            return self.is_forest
        # The learning rate scales a first tree of nothing but steps; dropout then scales either kind.
        of_steps = float(self.settings.get("learning_rate", 0.1))
        return self.shrinkage == 1 or (self.settings.get("boosting") == "dart" and self.shrinkage > of_steps)

    def objective(self, source: str) -> Objective | None:
        """Return the objective; None if it was a function of the user's own."""
        name, *words = self.head.get("objective", "custom").split()
        if name in REFUSED:
            raise UnsupportedModelError(
                f"this {source} has objective {name!r}, which cannot be audited: {REFUSED[name]}"
            )
        if name in ("custom", "none"):
            return None
        if name not in OBJECTIVES or ("sqrt" in words and name != "regression"):
            raise UnsupportedModelError(
                f"this {source} has objective {self.head['objective']!r}; supported are {', '.join(sorted(OBJECTIVES))}"
            )
        sigmoid = [float(word[8:]) for word in words if word.startswith("sigmoid:")]
        if name in PARAMETERS:
            setting = PARAMETERS[name]
            if setting not in self.settings:
                raise UnsupportedModelError(f"the text of this {source} does not say the {setting!r} of its objective")
            return Objective(OBJECTIVES[name], (float(self.settings[setting]),))
        return Objective(OBJECTIVES[name], tuple(sigmoid) or (1.0,), root="sqrt" in words)

    def category_labels(self) -> dict[int, NDArray[Any]]:
        """Return the labels of each categorical column of the training frame, by feature."""
        if not self.pandas_categories:
            return {}
        features = [int(k) for k in self.settings.get("categorical_feature", "").split(",") if k]
        if len(features) != len(self.pandas_categories):
            raise UnsupportedModelError(
                f"the LightGBM model text has labels of {len(self.pandas_categories)} categorical columns, but names "
                f"{len(features)}: it does not say which labels are whose. Train with the columns of dtype category "
                "as the only categorical features"
            )
        return {k: _labels(each) for k, each in zip(features, self.pandas_categories, strict=True)}


def take_base(model: ModelText) -> NDArray[np.float64]:
    """Take the constant margin out of the trees it is folded into, and return it, shape (n_outputs,).

    That is the first tree of each output; in a forest, every tree. It is what the root of such a tree holds: the
    constant itself, up to one step of the root where rows are sampled or where the loss is smallest elsewhere (huber,
    fair). No centred score depends on it but through the response, which stays a function of y alone. Roots are written
    with six digits; where the leaves average to the same, they have all.
    """
    n_outputs = model.n_outputs
    if not model.folds_constant:
        return np.zeros(n_outputs)
    trees, base = model.trees, np.zeros(n_outputs)
    for k in range(n_outputs):
        folded = range(k, len(trees) if model.is_forest else k + 1, n_outputs)
        base[k] = np.mean([_root_value(trees, tree) for tree in folded]) / (1 if model.is_forest else model.shrinkage)
        for tree in folded:
            trees.value[trees.leaves(tree)] -= base[k]
    return base


def _root_value(trees: Trees, tree: int) -> float:
    leaves = trees.leaves(tree)
    weight = trees.hessians(slice(tree, tree + 1))
    weight = weight if weight.sum() else np.ones(weight.size)
    mean, said = float(np.average(trees.value[leaves], weights=weight)), float(trees.root_value[tree])
    return mean if abs(mean - said) <= 1e-5 * abs(said) else said


def _labels(labels: list[Any]) -> NDArray[Any]:
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
