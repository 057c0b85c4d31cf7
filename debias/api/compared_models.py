"""``debias.compare(baseline=)``: the losses of two models on the same rows, and by which features they differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from debias._version import __version__
from debias.api.prepared import prepared_members
from debias.api.row_losses import row_losses
from debias.data.table import names_of_columns
from debias.data.user_rows import dataset
from debias.errors import CompositionError, ProvenanceError, RowsError, with_article
from debias.hooks.expressions import scorer
from debias.models.known_labels import known_labels
from debias.models.wrappers import is_one, members_in_words
from debias.results.model_comparison import ModelComparison
from debias.results.vocabulary import RowsKind, loss_in_words
from debias.rows.loss_parts import metric_of
from debias.rows.performance import Measure
from debias.rows.request import Request
from debias.significance.model_losses import RowLosses, compare_models

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.models.wrappers import Member
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

    Array = NDArray[np.float64]

ALPHA = 0.05
WITHOUT_PARAMETER = ("squared_error", "logistic", "softmax", "exponential", "poisson")
"""Losses whose value does not depend on their parameter, given what the model predicts."""


def compared_models(model: Any, baseline: Any, X: Any, y: Any, settings: dict[str, Any]) -> ModelComparison:
    """Return how the loss of a model differs from that of a baseline on the same rows.

    Parameters
    ----------
    model, baseline : estimator or Booster
    X, y
        Rows that neither model has seen. Of columns with names, each model takes those that it knows.
    settings : dict
        Further arguments of :func:`debias.compare`.

    Raises
    ------
    CompositionError
        The losses of the models differ, or have no parts; or a model holds several models of trees.
    ProvenanceError
        The rows are training rows of one of the models.
    RowsError
        All rows have the same response.
    DebiasError
        As for :func:`debias.score`.
    """
    if settings.pop("train") is not None:
        raise CompositionError("two models may have different training rows: leave train= out with baseline=")
    if settings["rows"] not in ("auto", "held-out"):
        raise CompositionError(
            f"rows={settings['rows']!r} is not one of 'auto', 'held-out': two models are compared on rows that neither "
            "has seen"
        )
    old = Side.of("the baseline", baseline, X, y, settings)
    new = Side.of("the model", model, X, y, settings)
    _refuse_other_losses(old, new)
    _refuse_other_responses(old, new)
    used, blocks = new.rows.weight > 0, new.rows.blocks
    _refuse_one_response(_response(new)[used])
    names = _names_of_both(X, old, new)
    found = compare_models(
        old.losses(names[0], used),
        new.losses(names[1], used),
        new.rows.weight[used],
        None if blocks is None else blocks[used],
    )
    warnings = _warnings(old, new)
    return ModelComparison(
        metric=loss_in_words(new.metric, warnings),
        feature_names=found.feature_names,
        only_in=found.only_in,
        loss=found.loss,
        base=found.base,
        alpha=ALPHA,
        statistics=found.statistics,
        n_rows=int(used.sum()),
        n_units=found.n_units,
        in_blocks=blocks is not None,
        settings={
            "model": new.ensemble.source,
            "model_version": new.ensemble.version,
            "baseline": old.ensemble.source,
            "baseline_version": old.ensemble.version,
            "debias_version": __version__,
        },
        warnings=warnings,
    )


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two models, with the rows as it sees them.

    Parameters
    ----------
    called : str
        What messages call it.
    metric : str
    member : Member
    rows : Rows
    grouping : Grouping
    warnings : tuple of str
    """

    called: str
    metric: str
    member: Member
    rows: Rows
    grouping: Grouping
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, called: str, model: Any, X: Any, y: Any, settings: dict[str, Any]) -> Side:
        """Return one of the models with its rows; the arguments are those of :func:`compared_models`."""
        passed = dataset(X, y, settings["sample_weight"])
        own = {name: value for name, value in settings.items() if name != "sample_weight"}
        request = Request.of(model, replace(passed, X=_own_columns(model, passed.X)), **own)
        request.passed.refuse_batches("compare")
        if not is_one(request.members):
            raise CompositionError(f"{members_in_words(request.members, 'Pass')} to debias.compare with baseline=")
        metric = metric_of(request.members[0].ensemble)  # before the rows, which take longer
        try:
            (prepared,) = prepared_members(request, [scorer("mdi_oob")])
        except (ProvenanceError, RowsError) as error:
            raise type(error)(f"{called}: {error}") from None
        if prepared.rows.kind != RowsKind.HELD_OUT:
            raise ProvenanceError(
                f"these are training rows of {called}, which has an advantage on them: pass rows that neither model "
                "has seen"
            )
        return cls(called, metric, prepared.member, prepared.rows, prepared.grouping, tuple(prepared.log.texts))

    @property
    def ensemble(self) -> TreeEnsemble:
        """The trees of the model."""
        return self.rows.ensemble

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the model takes, which may be made up."""
        return self.ensemble.feature_names if self.member.columns is None else self.member.sources

    @property
    def named(self) -> bool:
        """Whether the model knows its columns by name."""
        return self.ensemble.named if self.member.columns is None else self.member.named

    @property
    def behind_steps(self) -> bool:
        """Whether the features are columns that steps make of those of X, with level="model"."""
        return bool(self.member.sources) and not self.member.layers

    def names_with(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the features, sums of columns among them, if the columns have these names."""
        return self.member.at("source", columns).grouping(None, self.ensemble).names

    def losses(self, names: tuple[str, ...], used: NDArray[np.bool_]) -> RowLosses:
        """Return the losses of the rows that are used, and what each column of the user saves, by these names."""
        return row_losses(self.rows, self.grouping, names, used, f"the {self.metric} of {self.called}")


def _own_columns(model: Any, X: Any) -> Any:
    """Return the columns of a data frame that a model knows, in its order, if all of them are there by name."""
    names, known = names_of_columns(X), known_labels(model).names
    if names is None or known is None or not set(known) <= set(names) or not hasattr(X, "columns"):
        return X
    at = {name: k for k, name in enumerate(names)}
    columns = list(X.columns)
    return X[[columns[at[name]] for name in known]]


def _names_of_both(X: Any, old: Side, new: Side) -> list[tuple[str, ...]]:
    """Return the names of the features of both models.

    Columns of an X without names are the same at each place. Columns that steps make of them are not: they have the
    names that the steps give them.
    """
    if old.behind_steps or new.behind_steps:
        return [old.grouping.names, new.grouping.names]
    passed = dataset(X)
    columns = [old.columns, new.columns]
    if names_of_columns(passed.X) is not None or passed.feature_names is not None or len({*map(len, columns)}) > 1:
        return [old.grouping.names, new.grouping.names]
    if new.named and old.named and columns[0] != columns[1]:
        raise RowsError(
            "X has no names of columns, and the two models know their columns by other names or in another order: "
            "pass X as a data frame"
        )
    chosen = columns[1] if new.named or not old.named else columns[0]
    return [side.names_with(chosen) for side in (old, new)]


def _refuse_other_losses(old: Side, new: Side) -> None:
    """Refuse models whose losses are not the same function of the response and of what is predicted."""
    if old.metric != new.metric:
        raise CompositionError(
            f"the losses of these models are different figures: the {new.metric} of "
            f"{with_article(new.ensemble.source)}, and the {old.metric} of {with_article(old.ensemble.source)}, the "
            "baseline. Compare models that were trained for one loss; averaged trees have the squared error or the "
            "Brier score"
        )
    objectives = [each.ensemble.objective for each in (old, new)]
    if old.ensemble.averaged or objectives[0].name in WITHOUT_PARAMETER:
        return
    before, after = (np.unique(each.parameter) for each in objectives)
    if not np.array_equal(before, after):
        told = [", ".join(f"{value:g}" for value in each) for each in (after, before)]
        raise CompositionError(
            f"the losses of these models have other parameters: {new.metric} with {told[0]}, and {told[1]} in the "
            "baseline. Compare models that were trained for one loss"
        )


def _refuse_other_responses(old: Side, new: Side) -> None:
    """Refuse models that take the response of these rows for different numbers or classes."""
    before, after = _response(old), _response(new)
    if before.shape != after.shape or not np.allclose(before, after, rtol=1e-9, atol=1e-12):
        raise CompositionError(
            "these models see the response in different ways, such as other classes or another order of them: compare "
            "models of the same response"
        )


def _refuse_one_response(y: Array) -> None:
    """Refuse rows that all have the same response: the model that leans towards it has the lower loss on them."""
    if len(y) and (y == y[0]).all():
        raise RowsError(
            "all of these rows have the same response, so they do not show which model predicts other responses "
            "better. Pass rows with different responses (for a classifier: rows of two classes or more)"
        )


def _response(side: Side) -> Array:
    """Return the response in the loss. Of two classes with an output each, one column is enough."""
    ensemble, response = side.ensemble, side.rows.response
    y = Measure.of(ensemble, response).target
    if ensemble.averaged and response.codes is None:
        y = y + ensemble.centre
    return y[:, 1:] if y.shape[1] == 2 and side.metric in ("log loss", "Brier score") else y


def _warnings(old: Side, new: Side) -> tuple[str, ...]:
    """Return the warnings about both models; one that is about the baseline alone says so."""
    of_baseline = [f"the baseline: {text}" for text in old.warnings if text not in new.warnings]
    return (*new.warnings, *of_baseline)
