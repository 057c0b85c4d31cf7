"""Scorers made from functions, and the decorators that make them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from debias.errors import CompositionError, DebiasError, nearest
from debias.hooks.contracts import DataScorer, Gives, TreeScorer, scorer_kind
from debias.hooks.failures import noting
from debias.hooks.options import by_name, options_text, plain_options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.dataset import Data
    from debias.hooks.contracts import Problem, Scorer
    from debias.trees.ensemble import TreeEnsemble

    ValuesAndDetails = tuple[NDArray[np.float64], dict[str, Any]]
    ScoreFunction = Callable[..., NDArray[np.float64] | ValuesAndDetails]
    OfNodes = Callable[..., NDArray[np.float64] | None]
    OfEffects = Callable[..., Any]
    OfFeatures = Callable[..., NDArray[np.float64] | None]


@dataclass(frozen=True, kw_only=True)
class _FunctionScorer:
    """The common part of scorers made from functions: name, options, and how they are sent to other processes."""

    base_name: str
    unit: str
    function: ScoreFunction
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The registered name, followed by the options that were set."""
        options = options_text(self.options)
        return f"{self.base_name}({options})" if options else self.base_name

    @property
    def gives(self) -> Gives:
        """Nothing: a function reports only values."""
        return Gives.NOTHING

    @property
    def inner(self) -> Scorer | None:
        """None: a function wraps no scorer."""
        return None

    def with_options(self, **options: Any) -> Self:
        """Return this scorer with other options; raise a CompositionError for an unknown option."""
        known = [p.name for p in inspect.signature(self.function).parameters.values() if p.kind == p.KEYWORD_ONLY]
        for option in options:
            if option not in known:
                options_text = f"it has {', '.join(known)}" if known else "it has none"
                raise CompositionError(
                    f"{self.base_name} has no option {option!r}; {options_text}.{nearest(option, known)}"
                )
        return replace(self, options={**self.options, **plain_options(options)})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function."""
        return self.function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name if the module of the function has it, so that processes need no copy of the code."""
        return by_name(self) or (_made, (type(self), {name: getattr(self, name) for name in self.__dataclass_fields__}))


@scorer_kind(TreeScorer)
@dataclass(frozen=True, kw_only=True)
class FunctionTreeScorer(_FunctionScorer):
    """A scorer of trees made from a function ``(ensemble, rows, *, options) -> array of shape (n_features,)``."""

    needs_rows: bool = True
    needs_running_loss: bool = False
    compared: bool = False
    node_weight_function: OfNodes | None = None
    effects_function: OfEffects | None = None

    def score(self, ensemble: TreeEnsemble, rows: Any) -> ValuesAndDetails:
        """Call the function; a result without details gets none."""
        with noting(f"the scorer {self.name}"):
            return _pair(self.function(ensemble, rows, **self.options))

    def node_weight(self, ensemble: TreeEnsemble, rows: Any) -> NDArray[np.float64] | None:
        """Return the factor of the centred covariance of each node, or None; see :class:`debias.plugin.TreeScorer`."""
        if self.node_weight_function is None:
            return None
        return self.node_weight_function(ensemble, rows, **self.options)

    def effects(self, ensemble: TreeEnsemble, rows: Any) -> Any:
        """Return linear effects, or None; see :class:`debias.plugin.TreeScorer`."""
        if self.effects_function is None:
            return None
        return self.effects_function(ensemble, rows, **self.options)


@scorer_kind(DataScorer)
@dataclass(frozen=True, kw_only=True)
class FunctionDataScorer(_FunctionScorer):
    """A scorer of data made from a function ``(data, *, options) -> array of shape (n_features,)``."""

    null_mean_function: OfFeatures | None = None

    def score(self, data: Any) -> ValuesAndDetails:
        """Call the function; a result without details gets none."""
        with noting(f"the scorer {self.name}"):
            return _pair(self.function(data, **self.options))

    def null_mean(self, data: Data) -> NDArray[np.float64] | None:
        """Return the mean score of each feature over permutations of its values; None if it is not known."""
        if self.null_mean_function is None:
            return None
        return self.null_mean_function(data, **self.options)


def scorer_plugin(
    name: str,
    *,
    unit: str,
    needs_rows: bool = True,
    needs_running_loss: bool = False,
    compared: bool = False,
    node_weight: OfNodes | None = None,
    effects: OfEffects | None = None,
) -> Callable[[ScoreFunction], FunctionTreeScorer]:
    """Turn a function ``(ensemble, rows, *, option=default, ...)`` into a scorer of trees.

    Parameters
    ----------
    name : str
        Unique among all plugins.
    unit : str
        Unit of the score, for tables.
    needs_rows : bool
        Whether it uses evaluation rows. If not, `rows` may be None.
    needs_running_loss : bool
        Whether it reads ``rows.running_loss`` of boosted models.
    compared : bool
        Whether :func:`debias.compare` shows it by default. Where it raises a `CompositionError` for a model, it is left
        out of the comparison.
    node_weight : callable, optional
        For scores that sum ``node weight x centred covariance`` over splits, as ``mdi_oob`` does: a function
        ``(ensemble, rows, *, options) -> array of shape (n_nodes,)``. Such scores have contributions of rows, standard
        errors and p-values. It returns None for options with which the score is not such a sum.
    effects : callable, optional
        For scores that rest on linear effects at the nodes, as ``honest_effects`` does: a function
        ``(ensemble, rows, *, options)`` that returns them, or None. Such scores have p-values.

    Returns
    -------
    callable
        A decorator.

    Examples
    --------
    >>> import numpy as np
    >>> import debias
    >>> @debias.plugin.scorer_plugin("depth_of_first_use", unit="splits from the root", needs_rows=False)
    ... def depth_of_first_use(ensemble, rows):
    ...     return np.zeros(ensemble.n_features)
    >>> depth_of_first_use.name
    'depth_of_first_use'
    """

    def decorate(function: ScoreFunction) -> FunctionTreeScorer:
        return FunctionTreeScorer(
            base_name=name,
            unit=unit,
            function=function,
            needs_rows=needs_rows,
            needs_running_loss=needs_running_loss,
            compared=compared,
            node_weight_function=node_weight,
            effects_function=effects,
        )

    return decorate


def data_scorer_plugin(
    name: str, *, unit: str, null_mean: OfFeatures | None = None
) -> Callable[[ScoreFunction], FunctionDataScorer]:
    """Turn a function ``(data, *, option=default, ...)`` into a scorer of data, which uses no model.

    Parameters
    ----------
    name : str
        Unique among all plugins.
    unit : str
        Unit of the score, for tables.
    null_mean : callable, optional
        For scores whose mean over permutations of the values of a feature is known: a function
        ``(data, *, options) -> array of shape (n_features,)``. It returns None for options for which the mean is not
        known.

    Returns
    -------
    callable
        A decorator. The function gets :class:`debias.plugin.Data`, and ``debias.score(None, X, y, name)`` works.

    Examples
    --------
    >>> import numpy as np
    >>> import debias
    >>> @debias.plugin.data_scorer_plugin("number_of_values", unit="values")
    ... def number_of_values(data):
    ...     return np.array([column.codes.max() + 1.0 for column in data.columns])
    >>> number_of_values.name
    'number_of_values'
    """

    def decorate(function: ScoreFunction) -> FunctionDataScorer:
        return FunctionDataScorer(base_name=name, unit=unit, function=function, null_mean_function=null_mean)

    return decorate


def _made(kind: type[_FunctionScorer], fields: dict[str, Any]) -> _FunctionScorer:
    return kind(**fields)


def values_and_details(scorer: Scorer, result: Any, features: TreeEnsemble | Data | Problem) -> ValuesAndDetails:
    """Return the values and details in what a scorer returned; raise a DebiasError if they are malformed."""
    pair = _pair(result)
    if len(pair) != 2 or not isinstance(pair[1], dict):
        raise DebiasError(f"the scorer {scorer.name} must return an array, or an array and a dict of details")
    given = pair[0]
    names = list(features.feature_names)
    if hasattr(given, "reindex") and list(given.index) != names and sorted(map(str, given.index)) == sorted(names):
        raise DebiasError(
            f"the scorer {scorer.name} returned a Series in another order than the features: return "
            "series[list(feature_names)]"
        )
    if np.iscomplexobj(given):
        raise DebiasError(f"the scorer {scorer.name} returned complex numbers")
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DebiasError(f"the scorer {scorer.name} returned {pair[0]!r}, which is not an array of numbers") from None
    if values.shape != (features.n_features,):
        raise DebiasError(f"the scorer {scorer.name} returned shape {values.shape} for {features.n_features} features")
    if not np.isfinite(values).all():
        bad = [features.feature_names[k] for k in np.flatnonzero(~np.isfinite(values))[:5]]
        raise DebiasError(f"the scorer {scorer.name} returned scores that are not finite, for {bad}")
    return values, pair[1]


def _pair(result: Any) -> Any:
    return result if isinstance(result, tuple) else (result, {})
