"""Meta-methods made from functions. A meta-method wraps a scorer: it draws replicates of a problem and scores each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from debias.errors import CompositionError, nearest
from debias.hooks.contracts import DataScorer, Gives, RefitScorer, Scorer, scorer_kind
from debias.hooks.failures import noting
from debias.hooks.options import by_name, options_text, plain_options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.dataset import Data

    Details = dict[str, Any]
    MetaFunction = Callable[..., tuple[NDArray[np.float64], Details]]
    GivesOf = Callable[[Mapping[str, Any]], Gives]
    Check = Callable[[Scorer, Mapping[str, Any]], None]


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
        known = [p.name for p in inspect.signature(self.function).parameters.values() if p.kind == p.KEYWORD_ONLY]
        for option in options:
            if option not in known:
                raise CompositionError(
                    f"{self.base_name} has no option {option!r}; it has {', '.join(known)}.{nearest(option, known)}"
                )
        return replace(self, options={**self.options, **plain_options(options)})

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
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind == p.KEYWORD_ONLY} | dict(self.options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name if the module of the function has it, so that processes need no copy of the code."""
        return by_name(self) or (type(self), tuple(getattr(self, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class _Wrapped:
    """A scorer inside a meta-method, which is a scorer itself."""

    meta: FunctionMetaMethod
    inner: Scorer

    @property
    def name(self) -> str:
        """Both names, and the options that the user set."""
        options = options_text(self.meta.options)
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
