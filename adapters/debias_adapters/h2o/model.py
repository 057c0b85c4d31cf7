"""The class MojoModel: a MOJO of H2O-3 as data that needs neither Java nor H2O."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import UnsupportedModelError
from debias.text import listed
from debias_adapters.h2o import boosters
from debias_adapters.h2o.archive import INFO, Archive, Info, damaged, labels_of
from debias_adapters.h2o.columns import Encoding, codes_of, columns_of
from debias_adapters.h2o.trees import Nodes, leaf_positions, nodes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

GBM, DRF, XGBOOST = "gbm", "drf", "xgboost"
ALGORITHMS = {
    "Gradient Boosting Machine": GBM,
    "Gradient Boosting Method": GBM,
    "Distributed Random Forest": DRF,
    "XGBoost": XGBOOST,
}
"""Names in files of the algorithms that are read."""
WHY_NOT = {
    "Isolation Forest": "its trees were grown without a response",
    "Extended Isolation Forest": "its trees were grown without a response",
    "Uplift Distributed Random Forest": "its trees predict effects of treatments, and no response of a row is their "
    "truth",
    "Stacked Ensemble": "it is made of several models. Save those inside, and audit them one by one",
    "StackedEnsemble": "it is made of several models. Save those inside, and audit them one by one",
    "RuleFit": "it is a linear model of rules",
}
"""Algorithms that are refused although they have trees: the reason."""
OLDEST, NEWEST = 1.2, 1.4
"""Versions of MOJOs of GBM and DRF: written since 2017."""
BOOSTER = "boosterBytes"
"""The member with a model of XGBoost."""
MOST_TREES = 1_000_000


@dataclass(frozen=True, eq=False)
class MojoModel:
    """A model of H2O-3, read from a MOJO.

    Parameters
    ----------
    info : Info
        The content of ``model.ini``.
    algorithm : {"gbm", "drf", "xgboost"}
    labels : dict of int to tuple of str
        Labels of columns of categories, in the order of their codes.
    settings : dict
        Parameters of the training by name, as far as the file has them.
    importances : dict of str to float
        The variable importances that H2O has stored.
    n_observed : int or None
        Number of rows of the metrics of training.
    trees, records : tuple of bytes
        Trees of GBM and DRF in the order of their growth, and their training rows. `records` is empty if the file has
        none.
    output : tuple of int
        Class that each tree is of.
    booster : bytes
        The model of XGBoost.
    encoding : Encoding or None
        How the columns of GBM and DRF are made of those of the user, if they are other columns.
    """

    info: Info
    algorithm: str
    labels: dict[int, tuple[str, ...]]
    settings: dict[str, Any]
    importances: dict[str, float]
    n_observed: int | None
    trees: tuple[bytes, ...] = ()
    records: tuple[bytes, ...] = ()
    output: tuple[int, ...] = ()
    booster: bytes = b""
    encoding: Encoding | None = None

    @classmethod
    def of(cls, path: Path) -> MojoModel:
        """Read a MOJO, a zip file or the directory that it was unpacked to.

        Parameters
        ----------
        path : Path

        Raises
        ------
        UnsupportedModelError
            The file is damaged, or has a model of another algorithm.
        """
        with Archive(path) as archive:
            info = Info(archive.text(INFO))
            algorithm = _algorithm(info)
            details = archive.details()
            of_trees = {"booster": archive.blob(BOOSTER)} if algorithm == XGBOOST else _trees(archive, info)
            return cls(
                info=info,
                algorithm=algorithm,
                labels=_labels(archive, info),
                settings=_settings(details),
                importances=_importances(details),
                n_observed=_n_observed(details),
                encoding=None if algorithm == XGBOOST else Encoding.of(archive, info),
                **of_trees,
            )

    def __repr__(self) -> str:
        return f"<{self.source} of {len(self.names)} features, H2O {self.version}>"

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # what is computed is left out

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def source(self) -> str:
        """Name for messages."""
        return f"H2O {self.algorithm.upper() if self.algorithm != XGBOOST else 'XGBoost'} MOJO"

    @property
    def version(self) -> str:
        """The version of H2O that wrote the file."""
        return self.info.values.get("h2o_version", "unknown")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(self.info.columns[: self.info.whole("n_features")])

    @property
    def n_classes(self) -> int:
        """Number of classes; 1 in regression."""
        return self.info.whole("n_classes")

    @cached_property
    def n_labels(self) -> list[int]:
        """Number of labels of each feature; 0 for numbers."""
        return [len(self.labels.get(k, ())) for k in range(len(self.names))]

    @cached_property
    def nodes(self) -> Nodes:
        """Nodes of the trees of GBM and DRF."""
        return nodes_of(self.trees, self.records or None, self.n_labels)

    @cached_property
    def stored(self) -> boosters.Booster:
        """The trees of XGBoost, as they are stored."""
        return boosters.booster_of(self.booster)

    @cached_property
    def layout(self) -> boosters.Layout:
        """The columns of XGBoost."""
        n_cats, n_numbers = self.info.whole("cats"), self.info.whole("nums")
        if n_cats < 0 or n_numbers < 0 or n_cats + n_numbers != len(self.names):
            raise UnsupportedModelError(
                f"this {self.source} has {len(self.names)} features, of which {n_cats} are categories and {n_numbers} "
                "numbers: it was trained with a categorical_encoding that makes other columns. Train with 'AUTO', or "
                "pass columns of numbers"
            )
        return boosters.Layout(
            offsets=tuple(map(int, self.info.numbers("cat_offsets"))) if "cat_offsets" in self.info else (0,),
            n_labels=tuple(self.n_labels[:n_cats]),
            n_numbers=n_numbers,
            sparse=self.info.true("sparse"),
            all_labels=self.info.true("use_all_factor_levels"),
        )

    def leaves(self, X: NDArray[np.floating[Any]]) -> NDArray[np.int32]:
        """Return the leaf of each row in each tree, by a walk through the bytes of the file, row by row.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Codes of labels, and numbers.
        """
        found = np.empty((len(X), self.n_trees), dtype=np.int32)
        for tree, positions in enumerate(self._walked(X)):
            found[:, tree] = self._place_of[tree][positions]
        return found

    def sums(self, X: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return what the trees of each output add up to, shape (n_rows, n_outputs), from the values in the bytes."""
        n_outputs = max(self.output, default=0) + 1 if self.algorithm != XGBOOST else self.stored.n_outputs
        total = np.zeros((len(X), n_outputs))
        for tree, positions in enumerate(self._walked(X)):
            if self.algorithm == XGBOOST:
                value = self.stored.nodes[tree]["value"][positions] * self.stored.factor[tree]
                total[:, self.stored.output[tree]] += value
            else:
                at = np.asarray(positions)[:, None] + np.arange(4)
                value = np.frombuffer(self.trees[tree], np.uint8)[at].view("<f4")[:, 0]
                total[:, self.output[tree]] += value
        return total

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.stored.nodes) if self.algorithm == XGBOOST else len(self.trees)

    def _walked(self, X: NDArray[np.floating[Any]]) -> list[Any]:
        """Return, for each tree, where in the file the leaf of each row is."""
        if self.algorithm == XGBOOST:
            return list(boosters.leaves(self.stored, self.layout, X).T)
        rows = X.tolist()
        return [leaf_positions(tree, rows, self.n_labels) for tree in self.trees]

    @cached_property
    def _place_of(self) -> list[NDArray[np.int32]]:
        """The place of the leaf among the nodes of its tree, by where it is in the file."""
        if self.algorithm == XGBOOST:
            return boosters.places(self.stored)
        places = []
        for tree, (begin, end) in enumerate(zip(self.nodes.tree_start, self.nodes.tree_start[1:], strict=False)):
            position = self.nodes.position[begin:end]
            place = np.full(len(self.trees[tree]), -1, dtype=np.int32)
            place[position[position >= 0]] = np.flatnonzero(position >= 0)
            places.append(place)
        return places

    def as_codes(self, X: Any) -> NDArray[np.float64]:
        """Return rows as the user has them with the codes of labels, as H2O reads them: unknown labels are missing."""
        return codes_of(columns_of(X), self.labels if self.encoding is None else {})


@dataclass(frozen=True, eq=False)
class EncodedMojo:
    """A model of H2O-3 whose trees split on columns that H2O makes of those of the user.

    Parameters
    ----------
    trees : MojoModel
        For rows of the columns that H2O makes.
    encoding : Encoding
    """

    trees: MojoModel
    encoding: Encoding

    def __repr__(self) -> str:
        return f"<{self.trees.source} of {len(self.names)} features, {self.encoding.kind}, H2O {self.trees.version}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that the model takes."""
        return self.encoding.names


def read(path: Path) -> MojoModel | EncodedMojo:
    """Read a MOJO; the parameter and the errors are those of :meth:`MojoModel.of`."""
    model = MojoModel.of(path)
    return model if model.encoding is None else EncodedMojo(model, model.encoding)


def _algorithm(info: Info) -> str:
    name = info.word("algorithm")
    if name not in ALGORITHMS:
        raise UnsupportedModelError(
            f"this MOJO has a model of the algorithm {name}"
            + (f": {WHY_NOT[name]}" if name in WHY_NOT else ", which has no trees that debias knows")
            + f". debias reads MOJOs of {listed(['GBM', 'DRF', 'XGBoost'])}"
        )
    algorithm, version = ALGORITHMS[name], info.number("mojo_version")
    n_features = info.whole("n_features")
    if not 0 < n_features < len(info.columns):
        raise damaged(f"it states {n_features} features of {len(info.columns)} columns")
    if not 1 <= info.whole("n_classes") <= 10_000:
        raise damaged(f"it states {info.whole('n_classes')} classes")
    if algorithm == XGBOOST:
        booster = info.values.get("booster", "gbtree")  # the first versions did not write it
        if booster not in boosters.BOOSTERS:
            raise UnsupportedModelError(f"this MOJO has an XGBoost model with booster={booster!r}, which has no trees")
        return algorithm
    if not OLDEST <= version <= NEWEST:
        raise UnsupportedModelError(
            f"this MOJO has the version {version:.2f}. debias reads versions {OLDEST:.2f} to {NEWEST:.2f}: load it in "
            "H2O of that time, and save the model again"
        )
    if info.values.get("endianness", "LITTLE_ENDIAN") != "LITTLE_ENDIAN":
        raise UnsupportedModelError("this MOJO was written on a machine with another order of bytes (big-endian)")
    return algorithm


def _labels(archive: Archive, info: Info) -> dict[int, tuple[str, ...]]:
    escaped = info.true("escape_domain_values")
    return {
        column: tuple(labels_of(archive.text(name), n_labels, escaped))
        for column, (n_labels, name) in info.label_files.items()
        if column < len(info.columns)
    }


def _trees(archive: Archive, info: Info) -> dict[str, Any]:
    """Return the bytes of the trees in the order of growth; those of classes without rows are not in the file."""
    n_trees = info.whole("n_trees")
    n_of_class = info.whole("n_trees_per_class") if "n_trees_per_class" in info else _n_of_class(info)
    if not (0 <= n_trees <= MOST_TREES and 0 < n_of_class <= 10_000):
        raise damaged(f"it states {n_trees} trees of {n_of_class} classes")
    found, records, output = list[bytes](), list[bytes](), list[int]()
    for number in range(n_trees):
        before = len(found)
        for of_class in range(n_of_class):
            name = f"trees/t{of_class:02d}_{number:03d}"
            if f"{name}.bin" in archive.names:
                found.append(archive.blob(f"{name}.bin"))
                output.append(of_class)
                if f"{name}_aux.bin" in archive.names:
                    records.append(archive.blob(f"{name}_aux.bin"))
        if len(found) == before:  # a class without rows has no trees, and some class has rows
            raise damaged(f"it states {n_trees} trees, and has none of number {number}")
    if not found:
        raise UnsupportedModelError("this MOJO has no trees")
    if len(records) not in (0, len(found)):
        raise damaged("it has no records of training rows of some of its trees")
    return {"trees": tuple(found), "records": tuple(records), "output": tuple(output)}


def _n_of_class(info: Info) -> int:
    n_classes = info.whole("n_classes")
    return 1 if n_classes == 2 and not info.true("binomial_double_trees") else n_classes


def _settings(details: dict[str, Any]) -> dict[str, Any]:
    given = details.get("parameters")
    return {
        each["name"]: each.get("actual_value")
        for each in (given if isinstance(given, list) else [])
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    }


def _importances(details: dict[str, Any]) -> dict[str, float]:
    output = details.get("output")
    table = output.get("variable_importances") if isinstance(output, dict) else None
    columns = table.get("data") if isinstance(table, dict) else None
    if not isinstance(columns, list) or len(columns) < 2:
        return {}
    names, values = columns[:2]
    if not (isinstance(names, list) and isinstance(values, list) and len(names) == len(values)):
        return {}
    return {
        str(name): float(value)
        for name, value in zip(names, values, strict=True)
        if isinstance(value, (int, float)) and np.isfinite(value)
    }


def _n_observed(details: dict[str, Any]) -> int | None:
    output = details.get("output")
    metrics = output.get("training_metrics") if isinstance(output, dict) else None
    n = metrics.get("nobs") if isinstance(metrics, dict) else None
    return n if isinstance(n, int) and not isinstance(n, bool) and n > 0 else None
