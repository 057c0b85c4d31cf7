"""What a model does with two features together on some rows, for pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class JointEffects:
    """The joint effect of pairs of features, less the effects of each alone, on some of the rows that were tested.

    Parameters
    ----------
    columns : dict of str to array of shape (n_drawn,)
        The values of each feature that is one column of X, as the user sees them: numbers with NaN where missing, or
        objects with None where missing.
    effect : array of shape (n_drawn, n_pairs)
        The part of the output that needs both features of each pair and no other, in its unit.
    output : tuple of str
        The output of each pair, if the model has several: that on which the effect varies most. Else an empty text.
    """

    columns: dict[str, NDArray[Any]]
    effect: NDArray[Any]
    output: tuple[str, ...]
