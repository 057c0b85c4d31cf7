"""The joint effects of pairs on some rows, with the values that these rows have in the user's columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.table import names_of_columns
from debias.data.user_columns import column_values
from debias.positions import evenly_spaced
from debias.results.joint_effects import JointEffects

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.trees.ensemble import TreeEnsemble

MOST_DRAWN = 2000
"""So many rows, evenly spread, are kept for pictures."""


def drawn_rows(n_rows: int) -> NDArray[np.int64]:
    """Return the positions of the rows whose joint effects are kept."""
    return evenly_spaced(n_rows, MOST_DRAWN)


def joint_effects(
    X: Any, ensemble: TreeEnsemble, names: tuple[str, ...], interaction: NDArray[np.float64]
) -> JointEffects:
    """Return the joint effects on some rows of X.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rows, n_columns)
        As the user passed it.
    ensemble : TreeEnsemble
    names : tuple of str
        Names of the features.
    interaction : array of shape (n_drawn_rows, n_pairs, n_outputs)
        From :func:`debias.rows.interactions.parts`, of the `drawn_rows`.
    """
    drawn = drawn_rows(len(X) if not hasattr(X, "shape") else X.shape[0])
    position = _positions(X, names)
    columns = {name: column_values(X, at)[drawn] for name, at in position.items()}
    # Of two classes the second one, whose effect is that of the first with the other sign.
    varies = interaction.std(axis=0) * (1 + 1e-9 * np.arange(interaction.shape[2]))
    most = varies.argmax(axis=1)
    effect = np.take_along_axis(interaction, most[None, :, None], axis=2)[:, :, 0]
    several = interaction.shape[2] > 1
    labels = ensemble.classes if ensemble.classes is not None else np.arange(1, 1 + interaction.shape[2])
    output = tuple(str(labels[k]) if several else "" for k in most)
    return JointEffects(columns, effect, output)


def _positions(X: Any, names: tuple[str, ...]) -> dict[str, int]:
    """Return the position in X of each feature that is one of its columns."""
    known = names_of_columns(X)
    if known is None:
        shape = tuple(getattr(X, "shape", ()))
        return {name: k for k, name in enumerate(names)} if len(shape) == 2 and shape[1] == len(names) else {}
    stored = {re.sub(r"\s", "_", each): at for at, each in enumerate(known)}  # as LightGBM stores names
    position = stored | {each: at for at, each in enumerate(known)}
    return {name: position[name] for name in names if name in position}
