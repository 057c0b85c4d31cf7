"""The seed of all random draws of a call, from what users pass as ``random_state``."""

from __future__ import annotations

import numpy as np

from debias.errors import RowsError

RandomState = int | np.random.Generator | None


def seed_of(random_state: RandomState) -> int | None:
    """Return the seed of all draws: the number itself, or one that a generator draws; None for None.

    Raises
    ------
    RowsError
        It is something else.
    """
    if random_state is None:
        return None
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    is_number = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if not is_number or random_state < 0:
        raise RowsError(
            f"random_state={random_state!r} must be a whole number, 0 or more, a numpy.random.Generator (from "
            "numpy.random.default_rng), or None"
        )
    return int(random_state)
