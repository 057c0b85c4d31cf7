"""The request: the model, the rows and the settings that a user passed, checked once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from debias.data.row_order import refuse_other_order
from debias.data.sources import is_source
from debias.data.spark_rows import SparkFrame, is_spark
from debias.data.table import is_one_column, names_of_columns, refuse_library_rows, repeated
from debias.data.texts_for_values import refuse_texts
from debias.errors import RowsError
from debias.models.refitting import with_params
from debias.models.wrappers import Member, require_one_scale, unwrap
from debias.parallel import threads
from debias.rows.node_sums import NodeSums
from debias.text import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from debias.rows.fold_proof import FoldProof

Level = Literal["source", "model"]
LEVELS = (None, *get_args(Level))


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """The model, the rows and the settings that a user passed. Make it with :meth:`of`, which checks them.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, base_margin, groups, level, blocks, qid, params
        As for :func:`debias.score`.
    feature_names : tuple of str, or None
        Names of the columns of X, for an X without names.
    seed : int or None
    n_jobs : int
        Number of threads.
    fold : FoldProof, or None
        What is known about the rows, if they are the test rows of a fold.
    """

    model: Any
    X: Any = None
    y: Any = None
    rows: str = "auto"
    train: tuple[Any, ...] | None = None
    sample_weight: Any = None
    base_margin: Any = None
    groups: Mapping[str, Any] | None = None
    level: str | None = None
    feature_names: tuple[str, ...] | None = None
    blocks: Any = None
    qid: Any = None
    params: Mapping[str, Any] | None = None
    seed: int | None = None
    n_jobs: int = 1
    fold: FoldProof | None = None

    @classmethod
    def of(cls, model: Any, X: Any = None, y: Any = None, **passed: Any) -> Request:
        """Check what a user passed: the order of rows, the seed, the number of threads, hyper-parameters.

        Parameters
        ----------
        model, X, y
            As for :func:`debias.score`.
        **passed
            The other fields.

        Raises
        ------
        RowsError
            y or weights are a text instead of values, or their rows are in another order than those of X; X is a
            container of a library that debias cannot read; there is no such level; `feature_names` are not names of
            columns without names; or the seed or the number of threads is not a whole number.
        """
        X = SparkFrame(X) if is_spark(X) else X
        refuse_library_rows(X)
        one_value_per_row = {name: passed.get(name) for name in ("sample_weight", "base_margin", "blocks", "qid")}
        if not is_source(X, y):
            refuse_texts(X, y=y, **one_value_per_row)
        refuse_other_order(X, passed.get("train"), y=y, **one_value_per_row)
        if passed.get("level") not in LEVELS:
            raise RowsError(
                f"level={passed['level']!r} is not a level: pass 'source' for the columns of X, 'model' for the "
                "columns that the trees see, or None"
            )
        passed["feature_names"] = _names_for(X, passed.get("feature_names"))
        seed, n_jobs = whole_seed(passed.pop("seed", None)), threads(passed.pop("n_jobs", None))
        model, params = with_params(model, passed.pop("params", None))
        return cls(model=model, X=X, y=y, params=params, seed=seed, n_jobs=n_jobs, **passed)

    @property
    def in_batches(self) -> bool:
        """Whether the rows come in batches, or as node sums."""
        return isinstance(self.X, NodeSums) or is_source(self.X, self.y)

    @property
    def level_of_columns(self) -> str:
        """The level of the scores: that of the model if X is one column of texts, whose one score would say nothing."""
        return self.level or ("model" if is_one_column(self.X) else "source")

    @cached_property
    def members(self) -> list[Member]:
        """The models of trees inside the model, each with the rows as it sees them.

        Raises
        ------
        UnsupportedModelError
            The model cannot be audited, or its members give outputs on different scales.
        """
        X, y = (None, None) if self.in_batches else (self.X, self.y)
        members = [
            member.at(self.level_of_columns, self.feature_names)
            for member in unwrap(self.model, X, y, self.train, self.rows)
        ]
        if len(members) > 1:
            require_one_scale(members)
        return members

    def without_rows(self) -> Request:
        """Return the request without evaluation rows."""
        return replace(self, X=None, level=self.level_of_columns)


def _names_for(X: Any, feature_names: Any) -> tuple[str, ...] | None:
    """Return names of columns as a tuple; refuse anything else, and names for an X that has names."""
    if feature_names is None:
        return None
    if isinstance(feature_names, str) or not all(isinstance(name, str) for name in feature_names):
        raise RowsError("feature_names must be a list of texts, one for each column of X")
    names = tuple(map(str, feature_names))
    twice = repeated(names)
    if twice:
        raise RowsError(f"feature_names has names more than once: {listed(twice)}")
    if names_of_columns(X) not in (None, names):
        raise RowsError("feature_names are for an X without names, and this X has others: leave feature_names out")
    return names


def whole_seed(seed: Any) -> int | None:
    """Return a seed as a number; raise a RowsError if it is not one."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise RowsError(f"seed={seed!r} is not a seed: pass a whole number, 0 or more")
    return int(seed)
