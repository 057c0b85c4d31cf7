"""Refusals of models whose leaves have lines: of questions that are not answered for them, and of scorers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from debias.errors import CompositionError, UnsupportedModelError
from debias.hooks.contracts import TreeScorer

if TYPE_CHECKING:
    from debias.hooks.contracts import Scorer
    from debias.trees.ensemble import TreeEnsemble


def refuse_lines(ensemble: TreeEnsemble) -> None:
    """Raise an UnsupportedModelError if leaves have lines, for a question that is answered for constant leaves only."""
    if ensemble.has_lines:
        raise UnsupportedModelError(
            f"this {ensemble.source} has lines in its leaves (linear_tree), and this needs constant leaves. For such "
            "a model there are scores (permutation has the lines), contributions, audits and partial dependence; for "
            "all else train the model without linear_tree"
        )


def refuse_scorer(scorer: Scorer, ensemble: TreeEnsemble) -> None:
    """Raise a CompositionError if leaves have lines, and a scorer of trees refuses them."""
    if ensemble.has_lines and not (isinstance(scorer, TreeScorer) and scorer.lines != "refused"):
        raise CompositionError(
            f"{scorer.name} is about leaves that are constant, and this {ensemble.source} has lines in its leaves "
            "(linear_tree). Use mdi_oob, oob_split, ufi, mdi, honest_effects, honest_splits, gain, cover, split_count, "
            "native or permutation; or train the model without linear_tree"
        )
