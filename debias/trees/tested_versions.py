"""Versions of model libraries: which ones an adapter was tested with, and what is said of others."""

from __future__ import annotations

import re
from dataclasses import dataclass


def major_minor(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version."""
    first, second, *_ = [*re.findall(r"\d+", str(version)), "0", "0"]
    return int(first), int(second)


@dataclass(frozen=True)
class TestedVersions:
    """The versions of a model library that an adapter was tested with.

    Parameters
    ----------
    library : str
        Its name, as users write it.
    oldest, newest : str
        The first and the last of them, as "major.minor".
    """

    __test__ = False  # pytest takes other classes with such a name for tests

    library: str
    oldest: str
    newest: str

    def doubt(self, version: str) -> str | None:
        """Return what a reader of scores must know of this version of the library; None if it was tested."""
        if major_minor(self.oldest) <= major_minor(version) <= major_minor(self.newest):
            return None
        between = self.newest if self.oldest == self.newest else f"{self.oldest} to {self.newest}"
        return (
            f"{self.library} {version} was not tested with this version of debias, which was tested with "
            f"{self.library} {between}. What is checked all the same: for rows of X, the leaves and the output of the "
            "trees are compared with those of the library; training rows are compared with the counts that the nodes "
            "store. Other changes of the library are not found"
        )
