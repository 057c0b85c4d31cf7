"""Evaluation rows that were summed and forgotten, as scorers see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from debias.errors import CompositionError
from debias.rows.rows import Rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from debias.rows.provenance import Provenance
    from debias.rows.streamed_sums import NodeSums
    from debias.trees.in_bag import InBag


class StreamedRows(Rows):
    """Evaluation rows of which only sums are left; whatever needs the rows themselves is refused."""

    def __init__(
        self,
        sums: NodeSums,
        model: Any,
        kind: str,
        provenance: Provenance,
        in_bag: InBag | None,
        train: Rows | None,
        seed: int | None,
    ) -> None:
        self.ensemble, self.model, self.kind, self.provenance = sums.ensemble, model, kind, provenance
        self.in_bag, self.train, self.seed, self.n_jobs = in_bag, train, seed, sums.n_jobs
        self.sums = self.__dict__["node_sums"] = sums

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.sums.n_rows

    @property
    def n_evaluated(self) -> int:
        """As for any rows."""
        return self.sums.n_evaluated

    @property
    def running_loss(self) -> NDArray[np.float64]:
        """As for any rows."""
        drop = self.sums.running_loss
        if not self.can_run_loss:
            self.refuse_running_loss()
        if drop is None:
            raise CompositionError(
                "these node sums have no running loss added up: make them with debias.NodeSums(model, "
                "running_loss=True) before the first row"
            )
        return drop / self.sums.total_weight

    def __getattr__(self, name: str) -> Any:
        if name in ("table", "response", "weight"):
            raise CompositionError(
                "this scorer looks at the rows one by one, and rows that come in batches are not kept: pass X and y in "
                "memory, or a sample of them. Scores of node sums can be streamed: mdi, mdi_oob, ufi, oob_split, "
                "oob_loss"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
