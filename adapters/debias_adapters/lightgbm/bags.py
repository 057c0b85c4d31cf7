"""Bags of LightGBM's forests, redrawn: they depend on the seed and the number of rows only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.errors import InBagUnavailableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias_adapters.lightgbm.reading import ModelText

ROWS_A_BLOCK = 1024
"""Number of rows that share a random generator."""


def replay(model: ModelText, n_rows: int, source: str) -> NDArray[np.bool_]:
    """Return which rows were in the bag of each round.

    Parameters
    ----------
    model : ModelText
        Of a forest (``boosting="rf"``).
    n_rows : int
        Number of training rows.
    source : str

    Returns
    -------
    array of bool of shape (n_rounds, n_rows)

    Raises
    ------
    InBagUnavailableError
        The text has no settings, or the bags depend on more than the seed.
    """
    settings = model.settings
    if "bagging_seed" not in settings:
        raise InBagUnavailableError(f"the text of this {source} has no settings to redraw its bags from. {_HOLD_OUT}")
    fraction, rounds_per_bag = float(settings["bagging_fraction"]), int(settings["bagging_freq"])
    if rounds_per_bag < 1 or fraction >= 1:
        raise InBagUnavailableError(f"this {source} was trained without bags: each tree saw every row. {_HOLD_OUT}")
    unsupported = [
        f"{name}={settings[name]}"
        for name, default in (
            ("pos_bagging_fraction", "1"),
            ("neg_bagging_fraction", "1"),
            ("bagging_by_query", "0"),
            ("data_sample_strategy", "bagging"),
        )
        if settings.get(name, default) != default
    ]
    if unsupported:
        raise InBagUnavailableError(
            f"this {source} was trained with {', '.join(unsupported)}: such bags cannot be redrawn. {_HOLD_OUT}"
        )
    states = int(settings["bagging_seed"]) + np.arange(-(-n_rows // ROWS_A_BLOCK), dtype=np.uint64)
    n_rounds = len(model.trees) // model.n_outputs
    bags = np.empty((n_rounds, n_rows), dtype=bool)
    for round_number in range(n_rounds):
        if round_number % rounds_per_bag == 0:
            uniform, states = _draw(states, n_rows)
            bags[round_number] = uniform < fraction
        else:
            bags[round_number] = bags[round_number - 1]
    return bags


def _draw(states: NDArray[np.uint64], n_rows: int) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
    """Return one number in [0, 1) for each row, and the next state of the generator of each block of rows."""
    uniform = np.empty((states.size, ROWS_A_BLOCK))
    n_in_last = n_rows - (states.size - 1) * ROWS_A_BLOCK
    next_states = states.copy()
    for row in range(ROWS_A_BLOCK):
        states = (states * np.uint64(214013) + np.uint64(2531011)) & np.uint64(0xFFFFFFFF)
        uniform[:, row] = ((states >> np.uint64(16)) & np.uint64(0x7FFF)) / 32768.0
        n_unfinished = states.size if row < n_in_last else states.size - 1  # the last block stops after its last row
        next_states[:n_unfinished] = states[:n_unfinished]
    return uniform.reshape(-1)[:n_rows], next_states


_HOLD_OUT = "Pass rows the model has not seen, with rows='held-out'."
