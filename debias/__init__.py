"""Which features of a trained forest really matter: debiased importances, after training.

What authors of plugins need is :mod:`debias.plugin`. Pictures are in :mod:`debias.plot`, all errors in
:mod:`debias.errors`.

>>> import debias
>>> debias.plugin.scorer("mdi_oob").unit
'covariance of tree and response'
"""

from typing import TYPE_CHECKING

from debias._version import __version__ as __version__
from debias.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from debias import errors as errors
    from debias import plot as plot
    from debias import plugin as plugin
    from debias import selection as selection
    from debias.api.audit import audit
    from debias.api.audit_folds import audit_folds
    from debias.api.clusters import clusters
    from debias.api.compare import compare
    from debias.api.droppable import droppable
    from debias.api.interactions import interactions
    from debias.api.partial_dependence import partial_dependence
    from debias.api.score import contributions, score
    from debias.data.user_rows import Dataset
    from debias.errors import (
        DebiasError,
        DebiasWarning,
        InBagUnavailableError,
        ProvenanceError,
        RefitError,
        RowsError,
        UnsupportedModelError,
        UntrustedModelError,
    )
    from debias.models.loading import load_model
    from debias.models.refitting import refit
    from debias.monitor.history import History
    from debias.parallel import Refits
    from debias.progress import show_progress
    from debias.results.audit import Audit
    from debias.results.changes import Changes
    from debias.results.droppable import Droppable
    from debias.results.folds_audit import FoldsAudit
    from debias.results.scores import Scores
    from debias.rows.node_sums import NodeSums
    from debias.significance.procedure import Permutation
else:
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {
            "debias.api.audit": "audit",
            "debias.api.audit_folds": "audit_folds",
            "debias.api.clusters": "clusters",
            "debias.api.compare": "compare",
            "debias.api.droppable": "droppable",
            "debias.api.interactions": "interactions",
            "debias.api.partial_dependence": "partial_dependence",
            "debias.api.score": "contributions score",
            "debias.data.user_rows": "Dataset",
            "debias.errors": (
                "DebiasError DebiasWarning InBagUnavailableError ProvenanceError RefitError "
                "RowsError UnsupportedModelError UntrustedModelError"
            ),
            "debias.models.loading": "load_model",
            "debias.models.refitting": "refit",
            "debias.monitor.history": "History",
            "debias.parallel": "Refits",
            "debias.progress": "show_progress",
            "debias.results.audit": "Audit",
            "debias.results.changes": "Changes",
            "debias.results.droppable": "Droppable",
            "debias.results.folds_audit": "FoldsAudit",
            "debias.results.scores": "Scores",
            "debias.rows.node_sums": "NodeSums",
            "debias.significance.procedure": "Permutation",
        },
        submodules="errors plot plugin selection",
    )

__all__ = [
    "Audit",
    "Changes",
    "Dataset",
    "DebiasError",
    "DebiasWarning",
    "Droppable",
    "FoldsAudit",
    "History",
    "InBagUnavailableError",
    "NodeSums",
    "Permutation",
    "ProvenanceError",
    "RefitError",
    "Refits",
    "RowsError",
    "Scores",
    "UnsupportedModelError",
    "UntrustedModelError",
    "audit",
    "audit_folds",
    "clusters",
    "compare",
    "contributions",
    "droppable",
    "interactions",
    "load_model",
    "partial_dependence",
    "refit",
    "score",
    "show_progress",
]
