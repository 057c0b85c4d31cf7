"""Classes of which so few rows are evaluated that no test could reject, whatever the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.results.vocabulary import RowsKind
from debias.text import escaped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.rows.rows import Rows
    from debias.warning_log import WarningLog

RARELY_OUT = 0.1
"""A class is rarely out of bag if its rows are out of bag less than this times as often as those of another class."""
FEWEST_CARRIERS = 3
"""A score that m rows of a class carry has a z of at most about sqrt(m). For two rows this is less than the 1.64 that a
test at 5 % needs. With two such rows or fewer the cause of the class was not found in 24 of 25 forests, with three it
was found in 3 of 3."""
FEWEST_FOR_T = 5
"""A score that m held-out rows of a class carry has a t of at most about sqrt(m), with m - 1 degrees of freedom. For
four rows p is then at least .07, for five .045."""


@dataclass(frozen=True, eq=False)
class OutOfBagClasses:
    """How often the rows of each class are out of bag, if there are bags and classes.

    Parameters
    ----------
    names : list of str
        The classes that have rows.
    evaluations : array of shape (n_classes,)
        Number of times that a row of the class is out of the bag of a tree.
    effective : array of shape (n_classes,)
        Number of rows of each class that count: (sum of times)^2 / (sum of squared times).
    rate : array of shape (n_classes,)
        Share of rows and trees in which the row is out of the bag.
    """

    names: list[str]
    evaluations: NDArray[np.float64]
    effective: NDArray[np.float64]
    rate: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Rows) -> OutOfBagClasses | None:
        """Return the numbers of some rows; None if these are not out-of-bag rows with classes."""
        codes, classes = rows.response.codes, rows.ensemble.classes
        if rows.kind != RowsKind.OOB or codes is None or classes is None:
            return None
        code, times = codes[rows.paths.order], rows.paths.evaluated.sum(axis=0).astype(np.float64)
        n = np.bincount(code, minlength=classes.size)
        present = n > 0
        total = np.bincount(code, weights=times, minlength=classes.size)[present].astype(np.float64)
        squares = np.bincount(code, weights=times**2, minlength=classes.size)[present]
        return cls(
            names=[escaped(str(name)) for name in classes[present]],
            evaluations=total,
            effective=np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0),
            rate=total / (n[present] * rows.ensemble.n_trees),
        )

    @property
    def rarely(self) -> NDArray[np.bool_]:
        """Whether each class is out of bag much less often than another class."""
        return self.rate < RARELY_OUT * self.rate.max()

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Whether nothing can be told about each class.

        If a class is out of bag as often as others, the z of permuted responses has the same bound as the observed z,
        and a test can reject with very few rows. If it is hardly ever out of bag, a permutation gives its labels to
        rows that are out of bag more often, and z* is about normal.
        """
        return self.rarely & (self.effective < FEWEST_CARRIERS)

    def no_verdict(self) -> str | None:
        """Return why no feature can be tested, if nothing can be told about all classes but one; otherwise None."""
        unseen = self.unseen
        if not unseen.any() or (~unseen).sum() > 1:
            return None
        return (
            f"{self._how_rarely(unseen)}. The other rows all have one response, so no test could find a feature that "
            "matters. Pass rows the model has not seen, with rows='held-out'"
        )

    def warn(self, log: WarningLog) -> None:
        """Warn of classes that out-of-bag rows say little or nothing about, unless there is no verdict at all."""
        if self.no_verdict() is not None or not self.rarely.any():
            return
        if self.unseen.any():
            others = [name for name, unseen in zip(self.names, self.unseen, strict=True) if not unseen]
            log.warn(
                f"{self._how_rarely(self.unseen)}. Scores and verdicts are about the difference between the other "
                f"classes only ({_listed(others)}), so a feature that identifies such a class may show no evidence "
                "here. Pass rows the model has not seen, with rows='held-out'"
            )
            return
        rarest = int(self.rate.argmin())
        log.warn(
            f"rows of class {self.names[rarest]} are out of bag {self.rate[rarest]:.2%} of the time, and those of "
            f"another class {self.rate.max():.0%}, as happens if weights decide which rows are drawn. Out-of-bag rows "
            "say little about this class, so a feature that identifies it may show no evidence here. "
            "Pass rows the model has not seen, with rows='held-out'"
        )

    def _how_rarely(self, unseen: NDArray[np.bool_]) -> str:
        names = [name for name, is_unseen in zip(self.names, unseen, strict=True) if is_unseen]
        n = int(self.evaluations[unseen].sum())
        often = "never out of bag" if n == 0 else f"out of bag only {n} time{'s' if n > 1 else ''} in all trees"
        return (
            f"rows of class{'es' if len(names) > 1 else ''} {_listed(names)} are {often}, and those of another class "
            f"{self.rate.max():.0%} of the time, as happens if weights decide which rows are drawn"
        )


def too_rare_for_t(n_rows: NDArray[Any], classes: NDArray[Any]) -> str | None:
    """Return why a t-test cannot reject on held-out rows, if all classes but one have too few; otherwise None.

    Parameters
    ----------
    n_rows : array of shape (n_classes,)
        Number of held-out rows of each class.
    classes : array of shape (n_classes,)
        The names of the classes.
    """
    present = n_rows > 0
    few = present & (n_rows < FEWEST_FOR_T)
    if not few.any() or (present & ~few).sum() > 1:
        return None
    rarest = int(np.flatnonzero(few)[n_rows[few].argmax()])
    n = int(n_rows[rarest])
    rows = "there is 1 row" if n == 1 else f"there are {n} rows"
    return (
        f"{rows} of class {escaped(str(classes[rarest]))}, and with fewer than {FEWEST_FOR_T} a t-test at 5 % finds "
        "nothing, whatever the data. Pass more rows of this class, or use test='permutation' with rows in memory and "
        "blocks, if any, of one size"
    )


def _listed(names: list[str]) -> str:
    """Return some names as text; of many, the first three and their number."""
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
