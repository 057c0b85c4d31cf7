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
    fraction, every = float(settings["bagging_fraction"]), int(settings["bagging_freq"])
    if every < 1 or fraction >= 1:
        raise InBagUnavailableError(f"this {source} was trained without bags: each tree saw every row. {_HOLD_OUT}")
    other = [
        f"{name}={settings[name]}"
        for name, plain in (
            ("pos_bagging_fraction", "1"),
            ("neg_bagging_fraction", "1"),
            ("bagging_by_query", "0"),
            ("data_sample_strategy", "bagging"),
        )
        if settings.get(name, plain) != plain
    ]
    if other:
        raise InBagUnavailableError(
            f"this {source} was trained with {', '.join(other)}: such bags cannot be redrawn. {_HOLD_OUT}"
        )
    state = int(settings["bagging_seed"]) + np.arange(-(-n_rows // ROWS_A_BLOCK), dtype=np.uint64)
    rounds = len(model.trees) // model.n_outputs
    bags = np.empty((rounds, n_rows), dtype=bool)
    for number in range(rounds):
        if number % every == 0:
            drawn, state = _draw(state, n_rows)
            bags[number] = drawn < fraction
        else:
            bags[number] = bags[number - 1]
    return bags


def _draw(state: NDArray[np.uint64], n_rows: int) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
    """Return one number in [0, 1) for each row, and the next state of the generator of each block of rows."""
    drawn = np.empty((state.size, ROWS_A_BLOCK))
    in_last = n_rows - (state.size - 1) * ROWS_A_BLOCK
    following = state.copy()
    for row in range(ROWS_A_BLOCK):
        state = (state * np.uint64(214013) + np.uint64(2531011)) & np.uint64(0xFFFFFFFF)
        drawn[:, row] = ((state >> np.uint64(16)) & np.uint64(0x7FFF)) / 32768.0
        live = state.size if row < in_last else state.size - 1  # the last block stops after its last row
        following[:live] = state[:live]
    return drawn.reshape(-1)[:n_rows], following


_HOLD_OUT = "Pass rows the model has not seen, with rows='held-out'."
