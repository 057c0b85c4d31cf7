"""What an adapter says about the library that it reads: messages, ``debias doctor`` and the docs are made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from debias.trees.tested_versions import TestedVersions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Library:
    """A model library, or a format of model files, as its adapter declares it.

    The oldest version that works is not declared here: it is that of the requirement in the metadata of the adapter's
    distribution.

    Parameters
    ----------
    name : str
        Its name, as users write it. Error messages list it among the libraries that are supported.
    distribution : str or None
        What to pass to pip to install it; None for a format of files that the adapter reads without any package.
    train : callable or str
        ``train(X, y)`` returns a fitted model, or the model and the X and y it was trained on, if it takes others. X
        has shape (n_rows, 4), and y (n_rows,) has numbers. It imports the library, and needs less than a second.
        ``debias doctor`` compares this model with what the adapter says about it. A text instead says why nothing is
        trained.
    module : str, optional
        Its import name, if that is not `distribution` with ``_`` for ``-``.
    tested : tuple of (str, str), optional
        The first and the last version that the adapter was tested with, as "major.minor".
    extra : str, optional
        The extra of the adapter's distribution that installs the library; None if it is always installed.
    page : str, optional
        The page about it, in the docs of the adapter's distribution, without its suffix.

    Examples
    --------
    >>> from debias.hooks.library import Library
    >>> library = Library("XYZ", "xyz", "a model takes minutes", tested=("1.0", "1.4"))
    >>> library.tested_versions.doubt("1.5")[:39]
    'XYZ 1.5 was not tested with this versio'
    """

    name: str
    distribution: str | None
    train: Callable[[NDArray[np.float64], NDArray[np.float64]], Any] | str
    module: str | None = None
    tested: tuple[str, str] | None = None
    extra: str | None = None
    page: str | None = None

    @property
    def tested_versions(self) -> TestedVersions | None:
        """The tested versions, as a :class:`debias.plugin.TreeEnsemble` takes them."""
        return None if self.tested is None else TestedVersions(self.name, *self.tested)
