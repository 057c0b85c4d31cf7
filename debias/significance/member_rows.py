"""The models of trees of which a model is the sum, with their rows: one, or the members of a vote, a bag or a stack."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from debias.rows.rows import Rows

    Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MemberRows:
    """A model of trees inside a model, with the evaluation rows as it sees them.

    Parameters
    ----------
    rows : Rows
        The same rows in the same order for all members, with the same weights and blocks.
    group : array of int64 of shape (n_features,)
        The feature of the whole model that each of its columns belongs to.
    weight : float
        Its factor in the output of the whole model.
    """

    rows: Rows
    group: NDArray[np.int64]
    weight: float = 1.0

    @property
    def response(self) -> Array:
        """The response on which ``mdi_oob`` is evaluated, with one-hot classes, shape (n_rows, n_outputs)."""
        if self.rows.response.values is not None:
            return self.rows.response.values
        assert self.rows.response.codes is not None
        return np.eye(self.rows.ensemble.n_outputs)[self.rows.response.codes]

    @property
    def used(self) -> NDArray[np.int64]:
        """The features of the whole model that the trees split on."""
        ensemble = self.rows.ensemble
        return np.unique(self.group[ensemble.feature[ensemble.splits]])

    def divided(self, found: NDArray[np.bool_]) -> MemberRows:
        """Return the member with two features: those that were not found, then those that were."""
        return replace(self, group=found[self.group].astype(np.int64))


def used_features(members: Sequence[MemberRows]) -> NDArray[np.int64]:
    """Return the features of the whole model that any member splits on."""
    return np.unique(np.concatenate([member.used for member in members]))


def by_response(members: Sequence[MemberRows]) -> list[list[MemberRows]]:
    """Return members with the same response together: their outputs are added up. Others have outputs of their own.

    Members have the same response if it differs by a constant only: the gradients of boosted models at other constant
    margins do.
    """
    together: list[tuple[Array, list[MemberRows]]] = []
    for member in members:
        deviation = member.response - member.response.mean(axis=0)
        for of_others, others in together:
            scale = 1e-9 * np.abs(of_others).max(initial=0.0)
            if of_others.shape == deviation.shape and (np.abs(of_others - deviation) <= scale).all():
                others.append(member)
                break
        else:
            together.append((deviation, [member]))
    return [others for _, others in together]
