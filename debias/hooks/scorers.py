"""Scorers and meta-methods made from functions, and the decorators that make them.

A meta-method wraps a scorer: it draws replicates of a problem and scores each.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, cast, get_args

import numpy as np

from debias.errors import CompositionError, DebiasError, nearest
from debias.hooks.contracts import DataScorer, Gives, Lines, RefitScorer, Scorer, TreeScorer, scorer_kind
from debias.hooks.failures import noting
from debias.wrong_arguments import instead_of

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
    from numpy.typing import NDArray

    Details = dict[str, Any]
    MetaFunction = Callable[..., tuple[NDArray[np.float64], Details]]
    GivesOf = Callable[[Mapping[str, Any]], Gives]
    Check = Callable[[Scorer, Mapping[str, Any]], None]
    from collections.abc import Mapping


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
        options = _options_text(self.options)
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
        return replace(self, options=_with_known(self, options))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function."""
        return self.function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name if the module of the function has it, so that processes need no copy of the code."""
        return _by_name(self) or (
            _made,
            (type(self), {name: getattr(self, name) for name in self.__dataclass_fields__}),
        )


@scorer_kind(TreeScorer)
@dataclass(frozen=True, kw_only=True)
class FunctionTreeScorer(_FunctionScorer):
    """A scorer of trees made from a function ``(ensemble, rows, *, options) -> array of shape (n_features,)``."""

    needs_rows: bool = True
    needs_running_loss: bool = False
    compared: bool = False
    lines: Lines = "refused"
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
    lines: Lines = "refused",
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
    lines : {"refused", "left out", "used"}
        What it does with lines in the leaves of trees, see :class:`debias.plugin.TreeScorer`.
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
    if lines not in get_args(Lines):
        raise CompositionError(f"lines={lines!r} is not one of {', '.join(map(repr, get_args(Lines)))}")

    def decorate(function: ScoreFunction) -> FunctionTreeScorer:
        return FunctionTreeScorer(
            base_name=name,
            unit=unit,
            function=function,
            needs_rows=needs_rows,
            needs_running_loss=needs_running_loss,
            compared=compared,
            lines=lines,
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


@dataclass(frozen=True)
class FunctionMetaMethod:
    """A meta-method of a function ``(inner, problem, *, options) -> (array of shape (n_features,), details)``."""

    base_name: str
    unit: str
    function: MetaFunction
    gives: GivesOf
    check: Check | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The registered name."""
        return self.base_name

    def with_options(self, **options: Any) -> FunctionMetaMethod:
        """Return this meta-method with other options; raise a CompositionError for an unknown option."""
        return replace(self, options=_with_known(self, options))

    def __call__(self, scorer: Scorer) -> _Wrapped:
        """Wrap a scorer."""
        if not isinstance(scorer, Scorer):
            raise CompositionError(
                f"{self.base_name} wraps a scorer, not {scorer!r}: debias.plugin.scorer(name) gives one"
            )
        if Gives.DECISION in scorer.gives:
            raise CompositionError(
                f"{scorer.name} makes a decision, and replicates of a decision have no meaning: put {self.base_name} "
                "inside"
            )
        if self.check is not None:
            self.check(scorer, self.all_options)
        return WrappedDataScorer(self, scorer) if isinstance(scorer, DataScorer) else WrappedTreeScorer(self, scorer)

    @property
    def all_options(self) -> dict[str, Any]:
        """Options that the user set, and the defaults of the others."""
        return _options_of(self.function) | dict(self.options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name if the module of the function has it, so that processes need no copy of the code."""
        return _by_name(self) or (type(self), tuple(getattr(self, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class _Wrapped:
    """A scorer inside a meta-method, which is a scorer itself."""

    meta: FunctionMetaMethod
    inner: Scorer

    @property
    def name(self) -> str:
        """Both names, and the options that the user set."""
        options = _options_text(self.meta.options)
        return f"{self.meta.base_name}({self.inner.name}{', ' if options else ''}{options})"

    @property
    def unit(self) -> str:
        """Unit of the score."""
        return self.meta.unit.format(unit=self.inner.unit, **self.meta.all_options)

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the meta-method that the user set."""
        return self.meta.options

    @property
    def gives(self) -> Gives:
        """What the details contain beside the values."""
        return self.meta.gives(self.meta.all_options)

    def with_options(self, **options: Any) -> Self:
        """Return this scorer with other options of the meta-method."""
        return cast("Self", self.meta.with_options(**options)(self.inner))

    def score(self, problem: Any) -> tuple[NDArray[np.float64], Details]:
        """Call the function on a problem."""
        with noting(f"the meta-method {self.meta.base_name}"):
            return self.meta.function(self.inner, problem, **self.meta.options)


@scorer_kind(DataScorer)
@dataclass(frozen=True)
class WrappedDataScorer(_Wrapped):
    """A scorer of data inside a meta-method, which scores changed data."""

    def null_mean(self, data: Data) -> NDArray[np.float64] | None:
        """Return None: no formula for the mean is known."""
        return None


@scorer_kind(RefitScorer)
@dataclass(frozen=True)
class WrappedTreeScorer(_Wrapped):
    """A scorer of trees inside a meta-method, which refits the model."""

    @property
    def fits_again(self) -> bool:
        """Always True."""
        return True


def meta_method_plugin(
    name: str, *, unit: str, gives: Gives | GivesOf = Gives.NOTHING, check: Check | None = None
) -> Callable[[MetaFunction], FunctionMetaMethod]:
    """Turn a function ``(inner, problem, *, option=default, ...)`` into a meta-method.

    Parameters
    ----------
    name : str
        Unique among all meta-methods and scorers.
    unit : str
        Unit of the result; ``{unit}`` stands for that of the scorer inside, ``{option}`` for an option.
    gives : Gives, or callable
        What the details contain beside the values, or a function of the options that returns it.
    check : callable, optional
        Called with the scorer to wrap and all options; raises a CompositionError if the combination has no meaning.

    Returns
    -------
    callable
        A decorator. The function gets the scorer inside and a :class:`debias.plugin.Problem`, and returns values and
        details.

    Examples
    --------
    >>> import debias
    >>> @debias.plugin.meta_method_plugin("doubled", unit="2 x {unit}")
    ... def doubled(inner, problem):
    ...     values, _ = problem.score(inner)
    ...     return 2 * values, {}
    >>> doubled(debias.plugin.scorer("mdi_oob")).name
    'doubled(mdi_oob)'
    """

    def decorate(function: MetaFunction) -> FunctionMetaMethod:
        gives_of = (lambda options: gives) if isinstance(gives, Gives) else gives
        return FunctionMetaMethod(name, unit, function, gives_of, check)

    return decorate


def _with_known(plugin: _FunctionScorer | FunctionMetaMethod, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a plugin with further ones; raise a CompositionError for an unknown option.

    Numpy scalars become those of Python, so that options can be read back from a name.
    """
    known = list(_options_of(plugin.function))
    for option in options:
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            argument = instead_of(option, ("X", "y", "train", "level", "random_state"))
            instead = f" Instead, {argument}." if argument else nearest(option, known)
            raise CompositionError(f"{plugin.base_name} has no option {option!r}; {has}.{instead}")
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
    return {**plugin.options, **plain}


def _options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a function, which are its keyword-only parameters, with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind == p.KEYWORD_ONLY}


def _options_text(options: Mapping[str, Any]) -> str:
    """Return options as they are written in an expression."""
    return ", ".join(f"{key}={value!r}" for key, value in options.items())


def _by_name(plugin: Any) -> tuple[Any, ...] | None:
    """Return how another process finds a plugin that is made from a function; None if it cannot find it."""
    module, name = (getattr(plugin.function, part, "") for part in ("__module__", "__qualname__"))
    if module == "__main__":  # a script or notebook: another process has its own __main__
        return None
    in_module = getattr(sys.modules.get(module), name, None)
    if getattr(in_module, "function", None) is not plugin.function:
        return None
    return _found_by_name, (module, name, dict(plugin.options))


def _found_by_name(module: str, name: str, options: dict[str, Any]) -> Any:
    from importlib import import_module

    plugin = getattr(import_module(module), name)
    return plugin.with_options(**options) if options else plugin
