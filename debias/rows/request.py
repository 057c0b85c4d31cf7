"""The request: the model, the rows and the settings that a user passed, checked once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.row_order import refuse_other_order
from debias.data.sources import is_source
from debias.errors import RowsError
from debias.models.refitting import with_params
from debias.models.wrappers import Member, require_one_scale, unwrap
from debias.parallel import threads
from debias.rows.node_sums import NodeSums

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """The model, the rows and the settings that a user passed. Make it with :meth:`of`, which checks them.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, base_margin, groups, blocks, params
        As for :func:`debias.score`.
    seed : int or None
    n_jobs : int
        Number of threads.
    """

    model: Any
    X: Any = None
    y: Any = None
    rows: str = "auto"
    train: tuple[Any, ...] | None = None
    sample_weight: Any = None
    base_margin: Any = None
    groups: Mapping[str, Any] | None = None
    blocks: Any = None
    params: Mapping[str, Any] | None = None
    seed: int | None = None
    n_jobs: int = 1

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
            The rows of y or of weights are in another order than those of X, or the seed or the number of threads is
            not a whole number.
        """
        one_value_per_row = {name: passed.get(name) for name in ("sample_weight", "base_margin", "blocks")}
        refuse_other_order(X, passed.get("train"), y=y, **one_value_per_row)
        seed, n_jobs = whole_seed(passed.pop("seed", None)), threads(passed.pop("n_jobs", None))
        model, params = with_params(model, passed.pop("params", None))
        return cls(model=model, X=X, y=y, params=params, seed=seed, n_jobs=n_jobs, **passed)

    @property
    def in_batches(self) -> bool:
        """Whether the rows come in batches, or as node sums."""
        return isinstance(self.X, NodeSums) or is_source(self.X, self.y)

    @cached_property
    def members(self) -> list[Member]:
        """The models of trees inside the model, each with the rows as it sees them.

        Raises
        ------
        UnsupportedModelError
            The model cannot be audited, or its members give outputs on different scales.
        """
        X, y = (None, None) if self.in_batches else (self.X, self.y)
        members = unwrap(self.model, X, y, self.train)
        if len(members) > 1:
            require_one_scale(members)
        return members

    def without_rows(self) -> Request:
        """Return the request without evaluation rows."""
        return replace(self, X=None)


def whole_seed(seed: Any) -> int | None:
    """Return a seed as a number; raise a RowsError if it is not one."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise RowsError(f"seed={seed!r} is not a seed: pass a whole number, 0 or more")
    return int(seed)
