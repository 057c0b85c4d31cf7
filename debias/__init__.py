"""Which features of a trained forest really matter: debiased importances, after training.

>>> import debias
>>> debias.scorer("mdi_oob").unit
'covariance of tree and response'
"""

from debias import selection as selection
from debias._version import __version__ as __version__
from debias.api.audit import audit
from debias.api.compare import compare
from debias.api.contributions_display import ContributionsDisplay
from debias.api.effects_display import EffectsDisplay
from debias.api.folds import audit_folds
from debias.api.importance_display import ImportanceDisplay
from debias.api.partial_dependence import partial_dependence
from debias.api.score import contributions, score
from debias.data.dataset import Data
from debias.errors import (
    CompositionError,
    DebiasError,
    DebiasWarning,
    ExtractionError,
    HistoryError,
    InBagUnavailableError,
    PluginError,
    PolicyError,
    ProvenanceError,
    RefitError,
    RowsError,
    UnsupportedModelError,
    UntrustedModelError,
)
from debias.hooks.contracts import DataScorer, Gives, MetaMethod, Problem, RefitScorer, Scorer, TreeScorer
from debias.hooks.expressions import meta_method, scorer
from debias.hooks.meta_methods import meta_method_plugin
from debias.hooks.registry import plugins, register, unregister
from debias.hooks.scorers import data_scorer_plugin, scorer_plugin
from debias.hooks.specs import hookimpl
from debias.models.files import load_model
from debias.models.refitting import refit
from debias.models.wrappers import extract
from debias.monitor.history import History
from debias.results.audit import Audit
from debias.results.changes import Changes
from debias.results.comparison import Comparison
from debias.results.folds_audit import FoldsAudit
from debias.results.partial_dependence import PartialDependence
from debias.results.scores import Scores
from debias.retraining.experiment import Experiment
from debias.rows.node_sums import NodeSums
from debias.rows.rows import Rows
from debias.trees.ensemble import TreeEnsemble
from debias.trees.in_bag import InBag

__all__ = [
    "Audit",
    "Changes",
    "Comparison",
    "CompositionError",
    "ContributionsDisplay",
    "Data",
    "DataScorer",
    "DebiasError",
    "DebiasWarning",
    "EffectsDisplay",
    "Experiment",
    "ExtractionError",
    "FoldsAudit",
    "Gives",
    "History",
    "HistoryError",
    "ImportanceDisplay",
    "InBag",
    "InBagUnavailableError",
    "MetaMethod",
    "NodeSums",
    "PartialDependence",
    "PluginError",
    "PolicyError",
    "Problem",
    "ProvenanceError",
    "RefitError",
    "RefitScorer",
    "Rows",
    "RowsError",
    "Scorer",
    "Scores",
    "TreeEnsemble",
    "TreeScorer",
    "UnsupportedModelError",
    "UntrustedModelError",
    "audit",
    "audit_folds",
    "compare",
    "contributions",
    "data_scorer_plugin",
    "extract",
    "hookimpl",
    "load_model",
    "meta_method",
    "meta_method_plugin",
    "partial_dependence",
    "plugins",
    "refit",
    "register",
    "score",
    "scorer",
    "scorer_plugin",
    "unregister",
]
