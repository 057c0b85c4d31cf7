"""Which features of a trained forest really matter: debiased importances, after training.

>>> import debias
>>> debias.scorer("mdi_oob").unit
'covariance of tree and response'
"""

from debias import selection as selection
from debias.api import contributions, score
from debias.auditing import audit
from debias.audits import Audit
from debias.comparison import Comparison, compare
from debias.data import Data
from debias.discovery import register
from debias.ensemble import TreeEnsemble
from debias.errors import (
    CompositionError,
    DebiasError,
    DebiasWarning,
    ExtractionError,
    InBagUnavailableError,
    PluginError,
    PolicyError,
    ProvenanceError,
    RefitError,
    RowsError,
    UnsupportedModelError,
    UntrustedModelError,
)
from debias.experiment import Experiment
from debias.inbag import InBag
from debias.listing import plugins
from debias.markers import hookimpl
from debias.meta_methods import MetaMethod, Problem, meta_method, meta_method_plugin
from debias.model_files import load_model
from debias.node_sums import NodeSums
from debias.preparation import extract
from debias.refitting import refit
from debias.rows import Rows
from debias.scores import Scores
from debias.scoring import Scorer, scorer, scorer_plugin

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Comparison",
    "CompositionError",
    "Data",
    "DebiasError",
    "DebiasWarning",
    "Experiment",
    "ExtractionError",
    "InBag",
    "InBagUnavailableError",
    "MetaMethod",
    "NodeSums",
    "PluginError",
    "PolicyError",
    "Problem",
    "ProvenanceError",
    "RefitError",
    "Rows",
    "RowsError",
    "Scorer",
    "Scores",
    "TreeEnsemble",
    "UnsupportedModelError",
    "UntrustedModelError",
    "audit",
    "compare",
    "contributions",
    "extract",
    "hookimpl",
    "load_model",
    "meta_method",
    "meta_method_plugin",
    "plugins",
    "refit",
    "register",
    "score",
    "scorer",
    "scorer_plugin",
]
