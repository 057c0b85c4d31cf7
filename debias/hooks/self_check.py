"""What an adapter offers to ``debias doctor``: a small model of its library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from debias.trees.tested_versions import TestedVersions


@dataclass(frozen=True)
class SelfCheck:
    """A small model of a library, which ``debias doctor`` trains and compares with what its adapter says.

    Parameters
    ----------
    library : str
        Its name, as users write it.
    distribution : str
        What to pass to pip to install it.
    train : callable or str
        ``train(X, y)`` returns a fitted model, or the model and the X and y it was trained on, if it takes others. X
        has shape (n_rows, 4), and y (n_rows,) has numbers. It imports the library. A text instead says why nothing is
        trained.
    module : str, optional
        Its import name, if that is not `distribution` with ``_`` for ``-``.
    tested : TestedVersions, optional
        The versions that the adapter was tested with.

    Examples
    --------
    >>> from debias.hooks.self_check import SelfCheck
    >>> SelfCheck("a library", "a-library", "a model takes minutes").library
    'a library'
    """

    library: str
    distribution: str
    train: Callable[[NDArray[np.float64], NDArray[np.float64]], Any] | str
    module: str | None = None
    tested: TestedVersions | None = None
