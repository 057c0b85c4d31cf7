"""The contract of a method of testing: what it must offer, and what it returns.

P-values are made in the ``test`` of a method: :mod:`debias.significance.permutation` and
:mod:`debias.significance.student`. The table of methods is in :mod:`debias.significance.procedure`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from debias.significance.evidence import Evidence
    from debias.significance.procedure import Procedure
    from debias.warning_log import WarningLog


@dataclass(frozen=True, eq=False, kw_only=True)
class Tested:
    """The result of a test: arrays with one entry for each group of features.

    Parameters
    ----------
    z, p_value, p_adjusted : arrays of shape (n_groups,)
    threshold : float or None
        Value of z above which a feature is called informative, if it does not depend on the other features.
    details : dict
        Details to keep with the scores.
    null : array of shape (n_draws, n_groups), or None
        z of permuted responses.
    standard_error : array of shape (n_groups,), or None
        Standard error of the scores, with the splits fixed.
    """

    z: NDArray[np.float64]
    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    threshold: float | None
    details: dict[str, object] = field(default_factory=dict)
    null: NDArray[np.float64] | None = None
    standard_error: NDArray[np.float64] | None = None

    def with_error(self, standard_error: NDArray[np.float64] | None) -> Tested:
        """Return the same result with the standard error of the scores."""
        return replace(self, standard_error=standard_error)


class Method(Protocol):
    """A method of testing scores. `debias.significance.procedure.METHODS` lists the methods by name."""

    @property
    def name(self) -> str:
        """Name that users pass as ``test=``."""

    def require(self, evidence: Evidence) -> None:
        """Raise a CompositionError if this method cannot test these rows."""

    def test(
        self, evidence: Evidence, node_weight: NDArray[np.float64], procedure: Procedure, log: WarningLog
    ) -> Tested:
        """Test scores: compute z, p-values and adjusted p-values.

        Parameters
        ----------
        evidence : Evidence
        node_weight : array of shape (n_nodes,)
            Node weights of the test statistic: those of the score, shrunk in small nodes.
        procedure : Procedure
        log : WarningLog
            Receives the warnings.
        """
