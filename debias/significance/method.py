"""What a way to test scores must offer, and what it returns."""

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
    """Figures of a test, one for each group of features.

    Parameters
    ----------
    z, p_value, p_adjusted : arrays of shape (n_groups,)
    threshold : float or None
        What z must exceed for a feature to be found, if that does not depend on the others.
    details : dict
        Kept with the scores.
    null : array of shape (n_draws, n_groups), or None
        z of permuted responses.
    standard_error : array of shape (n_groups,), or None
        Of the scores.
    """

    z: NDArray[np.float64]
    p_value: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    threshold: float | None
    details: dict[str, object] = field(default_factory=dict)
    null: NDArray[np.float64] | None = None
    standard_error: NDArray[np.float64] | None = None

    def with_error(self, standard_error: NDArray[np.float64] | None) -> Tested:
        """Return the same figures with the standard error of the scores."""
        return replace(self, standard_error=standard_error)


class Method(Protocol):
    """A way to test scores. Its name stands in `debias.significance.procedure.METHODS`."""

    @property
    def name(self) -> str:
        """What users pass as ``test=``."""

    def require(self, evidence: Evidence) -> None:
        """Raise a CompositionError if these rows cannot be tested so."""

    def test(
        self, evidence: Evidence, node_weight: NDArray[np.float64], procedure: Procedure, log: WarningLog
    ) -> Tested:
        """Test scores.

        Parameters
        ----------
        evidence : Evidence
        node_weight : array of shape (n_nodes,)
            Node weights of the test statistic, which shrinks those of the score in small nodes.
        procedure : Procedure
        log : WarningLog
            Takes what a reader must know of the decisions.
        """
