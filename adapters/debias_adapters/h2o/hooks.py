"""Hooks for MOJOs of H2O-3: what the sums of their trees mean, and their files."""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import debias
from debias.errors import InBagUnavailableError, UnsupportedModelError, with_article
from debias.hooks.reported import LeafSums, Measure, ReportedImportance
from debias.hooks.wrapping import BEFORE_CALIBRATION, Inner, Unwrapped
from debias.trees.ensemble import TreeEnsemble
from debias.trees.objectives import SQUARED_ERROR, Objective, UnscoredObjective, expit
from debias_adapters.h2o import LIBRARY, boosters, trees
from debias_adapters.h2o.archive import INFO, damaged
from debias_adapters.h2o.columns import EIGEN, LIMITED, typed
from debias_adapters.h2o.model import DRF, GBM, XGBOOST, EncodedMojo, MojoModel, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from debias.hooks.library import Library
    from debias.trees.in_bag import InBag

    Floats = NDArray[np.float64]

REPRODUCED = 1e-3
"""Largest difference of the stored importances from the sums of gains, as a part of their sum."""
BINARY = b"\x1c\xed"
"""What a file of ``h2o.save_model`` begins with; the version of H2O follows."""
SKOPS = "schema.json"
"""The member of a zip file that is a model of skops."""


@debias.plugin.hookimpl
def debias_libraries() -> list[Library]:
    """Declare the library."""
    return [LIBRARY]


@debias.plugin.hookimpl
def debias_load_model(path: Path) -> Any | None:
    """Read a zip file, or a directory, with a ``model.ini``. Nothing else is needed, and no native code."""
    if path.is_dir():
        return read(path) if (path / INFO).is_file() else None
    with open(path, "rb") as file:
        head = file.read(16)
    if head.startswith(BINARY) and head[3:4].isdigit():
        raise UnsupportedModelError(
            f"{path} is a model in the binary form of H2O, which only the version that wrote it reads: load it there "
            "with h2o.load_model, and save it with model.save_mojo"
        )
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    return read(path) if INFO in names and SKOPS not in names else None


@debias.plugin.hookimpl
def debias_unwrap(model: Any) -> Unwrapped | None:
    """Return a model of a running session of H2O as the MOJO that the session writes of it; of AutoML its leader.

    Of a MOJO whose trees split on columns that H2O makes, return these trees.
    """
    if isinstance(model, EncodedMojo):
        encoding = model.encoding
        inner = Inner(
            model.trees,
            "trees",
            transform=encoding.transform,
            columns=[(made.column,) for made in encoding.made],
            labels=lambda _: {k: typed(labels).tolist() for k, labels in encoding.labels.items()},
        )
        kind = f"{model.trees.source} with {encoding.kind}"
        return Unwrapped(kind, (inner,), feature_names=model.names, named=True, rewrap=_refuse_refit)
    automl, models = sys.modules.get("h2o.automl"), sys.modules.get("h2o.model")
    if automl is not None and isinstance(model, automl.H2OAutoML):
        return Unwrapped("H2OAutoML", (Inner(model.leader, "leader"),))
    if models is None or not isinstance(model, models.ModelBase):
        return None
    kind = type(model).__name__
    if not model.model_id:
        raise UnsupportedModelError(f"this {kind} is not trained: train it first")
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = model.download_mojo(str(Path(folder) / "model.zip"))
        except Exception as error:  # of the session, or of a version that writes no MOJOs
            why = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UnsupportedModelError(
                f"H2O does not write this {kind} as a MOJO, which debias reads: {why}"
            ) from error
        return Unwrapped(kind, (Inner(read(Path(path)), "MOJO"),))


def _refuse_refit(*_: object) -> NoReturn:
    raise UnsupportedModelError(
        "an H2O MOJO cannot be refitted: that needs the fitted model of a library that debias can train with, and not "
        "a file of it"
    )


@debias.plugin.hookimpl
def debias_extract(model: Any) -> TreeEnsemble | None:
    """Return the trees of a MOJO; None for a model of another library."""
    if not isinstance(model, MojoModel):
        return None
    fields = _of_booster(model) if model.algorithm == XGBOOST else _of_trees(model)
    known = model.labels if model.encoding is None else {}  # rows of encoded columns have codes
    labels = {k: typed(labels) for k, labels in known.items() if k < len(model.names)}
    return TreeEnsemble(
        feature_names=model.names,
        named=True,
        category_labels=labels or None,
        source=model.source,
        version=model.version,
        tested_versions=LIBRARY.tested_versions,
        classes=_classes(model),
        **{"notes": _notes(model), **fields},
    )


@debias.plugin.hookimpl
def debias_leaves(model: Any, X: NDArray[np.floating[Any]]) -> NDArray[np.int32] | None:
    """Return the leaves that a walk through the bytes of the file finds."""
    return model.leaves(X) if isinstance(model, MojoModel) else None


@debias.plugin.hookimpl
def debias_predict_raw(model: Any, X: NDArray[np.floating[Any]]) -> Floats | None:
    """Return means, fractions of classes or margins, from the values in the bytes of the file."""
    return _predict(model, X) if isinstance(model, MojoModel) else None


@debias.plugin.hookimpl
def debias_predict_native(model: Any, X: Any) -> Floats | None:
    """Return the same for rows with labels."""
    if not isinstance(model, MojoModel):
        return None
    codes = model.as_codes(X)
    return _predict(model, codes.astype(np.float32) if model.algorithm == XGBOOST else codes)


@debias.plugin.hookimpl
def debias_in_bag(model: Any, y: NDArray[Any], sample_weight: Floats | None) -> InBag | None:
    """Refuse."""
    if not isinstance(model, MojoModel):
        return None
    if model.algorithm != DRF:
        raise InBagUnavailableError.of_boosted(with_article(model.source))
    raise InBagUnavailableError(
        f"no training row is unseen by the trees of {with_article(model.source)}: H2O chooses the first split of each "
        "tree by all training rows, also by those that are out of bag. Pass rows the model has not seen, with "
        "rows='held-out'."
    )


@debias.plugin.hookimpl
def debias_reported_importance(model: Any) -> ReportedImportance | None:
    """Return the relative importances that H2O has stored: decreases of the squared error, or gains of XGBoost."""
    if not isinstance(model, MojoModel) or not model.importances:
        return None
    place = {name: k for k, name in enumerate(model.names)}
    values = np.zeros(len(model.names))
    for name, value in model.importances.items():
        # XGBoost's names of columns of labels are "column.label".
        stem = (
            name if name in place else max((each for each in place if name.startswith(f"{each}.")), key=len, default="")
        )
        if not stem:
            return None
        values[place[stem]] += value
    return ReportedImportance(values, "relative_importance", *_measure(model, values))


def _measure(model: MojoModel, values: Floats) -> tuple[Any, ...]:
    """Return what the importances measure: the gains of the splits, if the splits have these gains.

    H2O leaves rows with a missing value out of the sum of squares before a split, and not out of that after it. So the
    importances of columns with missing values are too low, and are no sums of gains.
    """
    ensemble = debias_extract(model)
    if ensemble is None or ensemble.gain is None or (model.algorithm == DRF and not ensemble.averaged):
        return ()
    gains = np.bincount(ensemble.feature[ensemble.splits], ensemble.gain[ensemble.splits], len(values))
    if np.abs(gains - values).max() > REPRODUCED * max(values.sum(), 0.0):
        return ()
    if model.algorithm != XGBOOST:
        return (Measure.TOTAL_GAIN,)
    rate, penalty = (model.settings.get(name) for name in ("learn_rate", "reg_lambda"))
    if not (isinstance(rate, (int, float)) and isinstance(penalty, (int, float))):
        return ()
    cover = ensemble.cover
    assert cover is not None
    sums = LeafSums(hessian=cover, penalty=float(penalty), learning_rate=float(rate))
    return Measure.TOTAL_GAIN, lambda _: sums


def _of_trees(model: MojoModel) -> dict[str, Any]:
    """Return the fields of GBM and DRF."""
    nodes = model.nodes
    is_plain = not model.settings.get("weights_column") and not model.info.true("balance_classes")
    whole = nodes.weight is not None and bool((nodes.weight == np.round(nodes.weight)).all())
    fields = {
        **trees.arrays(nodes),
        "averaging_weight": nodes.weight,
        "weight": nodes.weight,
        "count": nodes.weight if is_plain and whole and not nodes.sampled else None,
        "gain": nodes.gain,
        "routing_dtype": np.dtype(np.float64),
        "uniform_rows": is_plain and not model.settings.get("sample_rate_per_class"),
        "sampled_share": _share(model),
    }
    return fields | (_of_forest(model) if model.algorithm == DRF else _of_boosted(model))


def _share(model: MojoModel) -> float | None:
    share = model.settings.get("sample_rate")
    if not isinstance(share, (int, float)) or not 0 < share <= 1 or model.settings.get("sample_rate_per_class"):
        return None
    return float(share)


def _of_forest(model: MojoModel) -> dict[str, Any]:
    if _has_trees_of_classes(model):
        return _of_classes(model)
    value = model.nodes.value[:, None]
    if model.n_classes == 2:  # leaves have the share of the first class
        value = np.where((model.nodes.left < 0)[:, None], np.hstack([value, 1 - value]), 0.0)
    return {
        "value": value,
        "tree_output": np.zeros(len(model.trees), dtype=np.int32),
        "base": np.zeros(value.shape[1]),
        "averaged": True,
        "objective": SQUARED_ERROR,
        "mean_values": True,
    }


def _has_trees_of_classes(model: MojoModel) -> bool:
    """Whether each tree of a DRF is of one class, for its share."""
    return model.n_classes > 2 or (model.n_classes == 2 and model.info.true("binomial_double_trees"))


def _of_classes(model: MojoModel) -> dict[str, Any]:
    """Return the fields of a DRF with trees of each class: steps from the mean share of the class, all in one round."""
    nodes, output, n_rounds = model.nodes, np.array(model.output), model.info.whole("n_trees")
    if output.max() >= model.n_classes:
        raise damaged("a tree in it is of a class that does not exist")
    is_leaf = nodes.left < 0
    weight = np.where(is_leaf, 1.0 if nodes.weight is None else np.maximum(nodes.weight, 1e-9), 0.0)
    total, summed = (np.add.reduceat(each, nodes.tree_start[:-1]) for each in (weight, weight * nodes.value))
    n_trees = np.bincount(output, minlength=model.n_classes)
    share = np.bincount(output, summed / total, model.n_classes) / np.maximum(n_trees, 1)
    of_node = np.repeat(share[output], np.diff(nodes.tree_start))
    return {
        "value": np.where(is_leaf, (nodes.value - of_node) / n_rounds, 0.0)[:, None],
        "tree_output": output,
        "base": share * n_trees / n_rounds,
        "averaged": False,
        "objective": SQUARED_ERROR,
        "trees_a_round": len(model.trees),
    }


def _of_boosted(model: MojoModel) -> dict[str, Any]:
    n_outputs = _n_outputs(model)
    if max(model.output) >= n_outputs:
        raise damaged("a tree in it is of a class that does not exist")
    sign = -1 if _is_of_first_class(model) else 1
    return {
        "value": sign * model.nodes.value[:, None],
        "tree_output": np.array(model.output),
        "base": sign * _start(model) + _balance(model, n_outputs),
        "averaged": False,
        "objective": _objective(model),
        "trees_a_round": n_outputs,
        "n_train": model.n_observed,
    }


def _n_outputs(model: MojoModel) -> int:
    """Return the number of margins of a GBM."""
    several = model.info.word("distribution") == "multinomial" and model.n_classes > 2
    return model.n_classes if several else 1


def _is_of_first_class(model: MojoModel) -> bool:
    """Whether the trees of a GBM add up to the margin of the first of two classes, and less this to the other one's."""
    return model.info.word("distribution") == "multinomial" and model.n_classes == 2


def _start(model: MojoModel) -> Floats:
    """Return the margins of a GBM without any tree."""
    n_outputs = _n_outputs(model)
    return np.full(n_outputs, model.info.number("init_f")) if n_outputs == 1 else np.zeros(n_outputs)


def _balance(model: MojoModel, n_outputs: int) -> Floats:
    """Return what H2O adds to margins because it balanced the classes: the log of the ratio of their shares."""
    if not model.info.true("balance_classes"):
        return np.zeros(n_outputs)
    prior, trained = (np.array(model.info.numbers(f"{name}_class_distrib")) for name in ("prior", "model"))
    if prior.size != model.n_classes or trained.size != prior.size or not ((prior > 0) & (trained > 0)).all():
        raise damaged("the shares of its classes are no shares")
    shift = np.log(prior / trained)
    if n_outputs > 1:
        return shift
    return (shift[1:] - shift[:1]) / (2 if _is_of_first_class(model) else 1)


FAMILIES = {
    "gaussian": SQUARED_ERROR,
    "laplace": Objective("absolute_error"),
    "bernoulli": Objective("logistic"),
    "quasibinomial": Objective("logistic"),
    "multinomial": Objective("softmax"),
    "poisson": Objective("poisson", (0.0,)),
    "gamma": Objective("gamma"),
}
PARAMETER = {"tweedie": ("tweedie", "tweedie_power"), "quantile": ("quantile", "quantile_alpha")}
"""Distributions with a parameter: the loss, and the name of the parameter in H2O."""
UNSCORED = {
    "huber": "H2O computes the slope of its loss from the residuals of all rows in each round, and does not store it",
    "modified_huber": "debias has no formula for its loss",
    "custom": "the distribution is a function of the user, which the file does not have",
}
LINKS: dict[str, Callable[[Any], Any]] = {"logit": expit, "log": np.exp, "identity": lambda margin: margin}


def _objective(model: MojoModel) -> Objective:
    family = model.info.word("distribution")
    if _is_of_first_class(model):
        return Objective("logistic", (2.0,))  # of margins f and -f, the difference is 2 f
    if family in FAMILIES:
        return FAMILIES[family]
    if family in PARAMETER:
        loss, name = PARAMETER[family]
        value = model.settings.get(name)
        if isinstance(value, (int, float)):
            return Objective(loss, (float(value),))
        reason = f"the file does not have its {name}"
    else:
        reason = UNSCORED.get(family, "debias has no formula for its loss")
    link = LINKS.get(model.info.values.get("link_function", "identity"))
    return UnscoredObjective(family, reason=reason, link=link)


def _of_booster(model: MojoModel) -> dict[str, Any]:
    stored, layout = model.stored, model.layout
    if not stored.nodes:
        raise UnsupportedModelError(f"this {model.source} has no trees")
    has_offset = model.info.true("has_offset")
    base = 0.0 if has_offset else _margin_of(stored)
    arrays = boosters.arrays(stored, layout)
    return {
        **arrays,
        "averaging_weight": arrays["cover"],
        "base": np.full(stored.n_outputs, base),
        "averaged": False,
        "objective": _booster_objective(model, stored),
        "routing_dtype": np.dtype(np.float32),
        "output_dtype": np.dtype(np.float32),
        "trees_a_round": stored.n_outputs,
        "rescaled": stored.booster == "dart",
        "margin_replaces_base": True,
        "n_train": model.n_observed,
        "sampled_share": _share(model),
        "uniform_rows": not model.settings.get("weights_column"),
        "cover_factor": 2.0 if stored.objective.startswith("multi:") else 1.0,
    }


def _margin_of(stored: boosters.Booster) -> float:
    """Return the margin without any tree. From version 1 on the file has the prediction instead."""
    score = stored.base_score
    if stored.version[0] < 1:
        return score
    is_share, is_mean = stored.objective in SHARES, stored.objective in LOG_LINKS
    if (is_share and not 0 < score < 1) or (is_mean and score <= 0):
        raise damaged(f"the prediction of its XGBoost model without any tree is {score:g}")
    if is_share:
        return float(np.log(score / (1 - score)))
    return float(np.log(score)) if is_mean else score


SHARES = ("binary:logistic", "reg:logistic")
LOG_LINKS = ("count:poisson", "reg:gamma", "reg:tweedie")
"""Objectives that predict shares, and means by way of their logs."""


def _booster_objective(model: MojoModel, stored: boosters.Booster) -> Objective:
    name = stored.objective
    if name in ("reg:squarederror", "reg:linear"):
        return SQUARED_ERROR
    if name in SHARES:
        return Objective("logistic")
    if name in ("multi:softprob", "multi:softmax"):
        return Objective("softmax")
    if name == "count:poisson":
        step = model.settings.get("max_delta_step")
        return Objective("poisson", (float(step) if isinstance(step, (int, float)) else 0.7,))  # XGBoost's default
    if name == "reg:gamma":
        return Objective("gamma")
    if name == "reg:tweedie" and isinstance(model.settings.get("tweedie_power"), (int, float)):
        return Objective("tweedie", (float(model.settings["tweedie_power"]),))
    if name.startswith("rank:"):
        return UnscoredObjective(name, reason="it compares rows of one group with each other")
    raise UnsupportedModelError(f"this {model.source} has the objective {name!r}, which debias does not know")


def _classes(model: MojoModel) -> NDArray[Any] | None:
    n_classes = model.n_classes
    if n_classes == 1:
        return None
    labels = model.labels.get(len(model.info.columns) - 1)
    if labels is None:
        return np.arange(n_classes)
    if len(labels) != n_classes:
        raise damaged(f"its response has {len(labels)} labels, and {n_classes} classes are stated")
    return typed(labels)


def _predict(model: MojoModel, X: NDArray[np.floating[Any]]) -> Floats:
    """Return the raw output: what the trees add up to, as H2O puts it together."""
    total = model.sums(X)
    if model.algorithm == XGBOOST:
        return total + (0.0 if model.info.true("has_offset") else _margin_of(model.stored))
    if model.algorithm == GBM:
        n_outputs = _n_outputs(model)
        made = np.zeros((len(X), n_outputs))
        made[:, : total.shape[1]] = total
        made += _start(model)
        return (-made if _is_of_first_class(model) else made) + _balance(model, n_outputs)
    mean = total / model.info.whole("n_trees")
    if model.n_classes == 2 and not _has_trees_of_classes(model):
        return np.hstack([mean, 1 - mean])
    made = np.zeros((len(X), model.n_classes))
    made[:, : mean.shape[1]] = mean
    return made


def _notes(model: MojoModel) -> tuple[str, ...]:
    notes = ["the model was read from a file, so its predictions were not compared with those of H2O, which needs Java"]
    if "offset_column" in model.info:
        notes.append(
            f"the model was trained with the offset column {model.info.word('offset_column')!r}. Its values belong to "
            "each row: pass them as base_margin"
        )
    if model.encoding is not None and model.encoding.kind in (LIMITED, EIGEN):
        notes.append(
            f"rows are encoded as H2O's scorer of MOJOs does it, by what training has seen. In a session, H2O may "
            f"answer otherwise: it seems to make {model.encoding.kind} anew from the rows that it predicts"
        )
    if "calib_method" in model.info:
        notes.append(BEFORE_CALIBRATION)
    if model.algorithm == DRF and model.n_classes > 1:
        if model.info.true("balance_classes"):
            notes.append("scores are of the probabilities before H2O corrects them for the balance of classes")
        if _has_trees_of_classes(model):
            notes.append(
                "each class has trees of its own, and scores are of their means before H2O scales them to sum 1"
            )
    return tuple(notes)
