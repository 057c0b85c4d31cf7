"""The request: the model, the rows and the settings that a user passed, checked once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from debias.data.arrow_streams import is_stream, refuse_unreadable
from debias.data.mistaken_rows import refuse_mistaken_rows
from debias.data.row_order import refuse_other_order
from debias.data.spark_rows import SparkFrame, is_spark
from debias.data.table import is_one_column, names_of_columns, refuse_library_rows, repeated
from debias.data.user_rows import dataset, training_tuple
from debias.errors import RowsError
from debias.models.refitting import with_params
from debias.models.wrappers import Member, require_one_scale, unwrap
from debias.parallel import threads
from debias.random_state import seed_of
from debias.rows.leaf_lines import refuse_lines
from debias.rows.passed_rows import PassedRows
from debias.text import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from debias.random_state import RandomState
    from debias.rows.fold_proof import FoldProof

Level = Literal["source", "model"]
LEVELS = (None, *get_args(Level))
VALUES_OF_ROWS = ("sample_weight", "base_margin", "blocks", "qid")
"""What a Dataset has for each row beside X and y."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """The model, the rows and the settings that a user passed. Make it with :meth:`of`, which checks them.

    Parameters
    ----------
    model, X, y, rows, sample_weight, groups, level
        As for :func:`debias.score`.
    train : (X, y), (X, y, weight) or (X, y, weight, qid), or None
        Training rows, if they are passed in addition to held-out rows.
    base_margin, blocks, qid
        As for :class:`debias.Dataset`.
    params : mapping, or None
        Hyper-parameters for refits.
    feature_names : tuple of str, or None
        Names of the columns of X, for an X without names.
    seed : int or None
    n_jobs : int
        Number of threads.
    fold : FoldProof, or None
        What is known about the rows, if they are the test rows of a fold.
    takes_lines : bool
        Whether the question is answered for models with lines in their leaves. Others refuse such models.
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
    takes_lines: bool = False

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any = None,
        y: Any = None,
        *,
        train: Any = None,
        sample_weight: Any = None,
        params: Any = None,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        **passed: Any,
    ) -> Request:
        """Check what a user passed: the order of rows, the seed, the number of threads, hyper-parameters.

        Parameters
        ----------
        model, X, y, train, sample_weight, random_state, n_jobs
            As for :func:`debias.score`; X and `train` may be a :class:`debias.Dataset`.
        params : mapping or estimator, optional
            As for :class:`debias.Refits`.
        **passed
            The other fields: `rows`, `groups`, `level`, `takes_lines`.

        Raises
        ------
        CompositionError
            The rows are not in memory, and there are blocks, queries or start margins.
        RowsError
            y or weights are a text instead of values, or their rows are in another order than those of X; X is a
            container of a library that debias cannot read; there is no such level; `feature_names` are not names of
            columns without names; or the seed or the number of threads is not a whole number.
        """
        evaluation = dataset(X, y, sample_weight)
        X = SparkFrame(evaluation.X) if is_spark(evaluation.X) else evaluation.X
        if is_stream(X):
            refuse_unreadable(X)
        else:
            refuse_library_rows(X)
            refuse_mistaken_rows(X, evaluation.y)
        of_rows = {name: getattr(evaluation, name) for name in VALUES_OF_ROWS}
        feature_names = _names_for(X, evaluation.feature_names)
        train = training_tuple(train, feature_names or names_of_columns(X))
        PassedRows.of(X, evaluation.y).check(**of_rows)
        refuse_other_order(X, train, y=evaluation.y, **of_rows)
        if passed.get("level") not in LEVELS:
            raise RowsError(
                f"level={passed['level']!r} is not a level: pass 'source' for the columns of X, 'model' for the "
                "columns that the trees see, or None"
            )
        model, params = with_params(model, params)
        return cls(
            model=model,
            X=X,
            y=evaluation.y,
            train=train,
            feature_names=feature_names,
            params=params,
            seed=seed_of(random_state),
            n_jobs=threads(n_jobs),
            **of_rows,
            **passed,
        )

    @cached_property
    def passed(self) -> PassedRows:
        """The rows in the form in which they were passed: in memory, in batches, or as sums."""
        return PassedRows.of(self.X, self.y)

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
            The model cannot be audited, or its members give outputs on different scales; or it has lines in its
            leaves, and the question is not answered for such models.
        """
        found = unwrap(self.model, *self.passed.as_wrappers_take_them(), self.train, self.rows)
        if not self.takes_lines:
            for member in found:
                refuse_lines(member.ensemble)
        members = [member.at(self.level_of_columns, self.feature_names) for member in found]
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
    is_list = np.iterable(feature_names) and not isinstance(feature_names, str)
    if not is_list or not all(isinstance(name, str) for name in feature_names):
        raise RowsError("feature_names must be a list of texts, one for each column of X")
    names = tuple(map(str, feature_names))
    twice = repeated(names)
    if twice:
        raise RowsError(f"feature_names has names more than once: {listed(twice)}")
    if names_of_columns(X) not in (None, names):
        raise RowsError("feature_names are for an X without names, and this X has others: leave feature_names out")
    return names
