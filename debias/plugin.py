"""What authors of scorers, meta-methods and adapters use: the contracts, the decorators, and the registry.

>>> import debias
>>> debias.plugin.scorer("mdi_oob").unit
'covariance of tree and response'
"""

from typing import TYPE_CHECKING

from debias.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from debias.data.chosen_rows import permuted_positions
    from debias.data.dataset import Data
    from debias.data.far_values import apart_from_far
    from debias.errors import CompositionError, PluginError
    from debias.hooks.contracts import DataScorer, Gives, MetaMethod, Problem, RefitScorer, Scorer, TreeScorer
    from debias.hooks.expressions import meta_method, scorer
    from debias.hooks.registry import plugins, register, unregister
    from debias.hooks.scorers import data_scorer_plugin, meta_method_plugin, scorer_plugin
    from debias.hooks.specs import hookimpl
    from debias.models.wrappers import extract
    from debias.retraining.experiment import Experiment
    from debias.rows.rows import Rows
    from debias.significance.response_test import out_of_bag_effects, response_test
    from debias.significance.row_test import RowTest, check_procedure, refuse_seen_rows, row_test
    from debias.trees.ensemble import TreeEnsemble
    from debias.trees.in_bag import InBag
else:
    __getattr__, __dir__ = _lazy_names(
        __name__,
        {
            "debias.data.chosen_rows": "permuted_positions",
            "debias.data.dataset": "Data",
            "debias.data.far_values": "apart_from_far",
            "debias.errors": "CompositionError PluginError",
            "debias.hooks.contracts": "DataScorer Gives MetaMethod Problem RefitScorer Scorer TreeScorer",
            "debias.hooks.expressions": "meta_method scorer",
            "debias.hooks.registry": "plugins register unregister",
            "debias.hooks.scorers": "data_scorer_plugin meta_method_plugin scorer_plugin",
            "debias.hooks.specs": "hookimpl",
            "debias.models.wrappers": "extract",
            "debias.retraining.experiment": "Experiment",
            "debias.rows.rows": "Rows",
            "debias.significance.response_test": "out_of_bag_effects response_test",
            "debias.significance.row_test": "RowTest check_procedure refuse_seen_rows row_test",
            "debias.trees.ensemble": "TreeEnsemble",
            "debias.trees.in_bag": "InBag",
        },
    )

__all__ = [
    "CompositionError",
    "Data",
    "DataScorer",
    "Experiment",
    "Gives",
    "InBag",
    "MetaMethod",
    "PluginError",
    "Problem",
    "RefitScorer",
    "RowTest",
    "Rows",
    "Scorer",
    "TreeEnsemble",
    "TreeScorer",
    "apart_from_far",
    "check_procedure",
    "data_scorer_plugin",
    "extract",
    "hookimpl",
    "meta_method",
    "meta_method_plugin",
    "out_of_bag_effects",
    "permuted_positions",
    "plugins",
    "refuse_seen_rows",
    "register",
    "response_test",
    "row_test",
    "scorer",
    "scorer_plugin",
    "unregister",
]
