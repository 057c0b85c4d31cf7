"""Scorers: what they are, and how a function becomes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from debias.errors import CompositionError, DebiasError, nearest
from debias.hooks.options import plain_options, shown_options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.data.dataset import Data
    from debias.hooks.contracts import Problem
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble

    NullMean = Callable[..., NDArray[np.float64] | None]
    NodeWeight = Callable[..., NDArray[np.float64] | None]
    ScoreFunction = Callable[..., NDArray[np.float64] | tuple[NDArray[np.float64], dict[str, Any]]]


@dataclass(frozen=True)
class FunctionScorer:
    """A scorer made of a function ``(ensemble, rows, *, options) -> array of shape (n_features,)``.

    A data-only one is made of a function ``(data, *, options)``.
    """

    base_name: str
    unit: str
    function: ScoreFunction
    needs: frozenset[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    node_weight_function: NodeWeight | None = None
    null_mean_function: NullMean | None = None

    @property
    def name(self) -> str:
        """The registered name, followed by the options that were set."""
        given = shown_options(self.options)
        return f"{self.base_name}({given})" if given else self.base_name

    def with_options(self, **options: Any) -> FunctionScorer:
        """Return this scorer with other options; unknown ones are refused by name."""
        known = [p.name for p in inspect.signature(self.function).parameters.values() if p.kind == p.KEYWORD_ONLY]
        for option in options:
            if option not in known:
                there = f"it has {', '.join(known)}" if known else "it has none"
                raise CompositionError(f"{self.base_name} has no option {option!r}; {there}.{nearest(option, known)}")
        return replace(self, options={**self.options, **plain_options(options)})

    def score(
        self, ensemble: TreeEnsemble | None, rows: Rows | Problem | None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Call the function and check what it returns."""
        features: Data | TreeEnsemble
        if "data-only" in self.needs:
            result, features = self.function(rows, **self.options), cast("Data", rows)
        else:
            result, features = self.function(ensemble, rows, **self.options), cast("TreeEnsemble", ensemble)
        values, details = result if isinstance(result, tuple) else (result, {})
        values = np.asarray(values, dtype=np.float64)
        if values.shape != (features.n_features,):
            raise DebiasError(
                f"the scorer {self.name} returned shape {values.shape} for {features.n_features} features"
            )
        if not np.isfinite(values).all():
            bad = [features.feature_names[k] for k in np.flatnonzero(~np.isfinite(values))[:5]]
            raise DebiasError(f"the scorer {self.name} returned scores that are not finite, for {bad}")
        return values, details

    def node_weight(self, ensemble: TreeEnsemble, rows: Rows) -> NDArray[np.float64] | None:
        """Return what each node's centred covariance is multiplied with, if the score is a sum of such terms.

        Such a score is a sum of contributions of rows, so it has standard errors and p-values. None: it is not.
        """
        if self.node_weight_function is None:
            return None
        return self.node_weight_function(ensemble, rows, **self.options)

    def null_mean(self, data: Data) -> NDArray[np.float64] | None:
        """Return the mean score of each feature were its values permuted, in closed form; None if there is none."""
        if self.null_mean_function is None:
            return None
        return self.null_mean_function(data, **self.options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function."""
        return self.function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name where the function's module has it, so that processes need no copy of the code."""
        from debias.hooks.options import by_name

        return by_name(self) or (type(self), tuple(getattr(self, name) for name in self.__dataclass_fields__))


def scorer_plugin(
    name: str,
    *,
    unit: str,
    needs: frozenset[str] | set[str] = frozenset({"rows"}),
    node_weight: NodeWeight | None = None,
    null_mean: NullMean | None = None,
) -> Callable[[ScoreFunction], FunctionScorer]:
    """Turn a function ``(ensemble, rows, *, option=default, ...)`` into a scorer.

    Parameters
    ----------
    name : str
        Unique among all plugins.
    unit : str
        What one unit of the score is, for tables.
    needs : set of str
        "rows" if it looks at evaluation rows (the default; without it `rows` may be None); "running-loss" if it
        reads ``rows.running_loss`` of boosted models; {"data-only"} if it looks at no model: the function is then
        called as ``(data, *, options)`` with a :class:`debias.Data`, and ``debias.score(None, X, y, name)`` works.
    node_weight : callable, optional
        For scores that sum ``node weight x centred covariance`` over splits, as ``mdi_oob`` does: a function
        ``(ensemble, rows, *, options) -> array of shape (n_nodes,)``. Such scores have contributions of rows, standard
        errors and p-values. It returns None for options with which the score is no such sum.
    null_mean : callable, optional
        For data-only scores whose mean over permutations of a feature's values is known: a function
        ``(data, *, options) -> array of shape (n_features,)``, or None for options with which it is not known.

    Returns
    -------
    callable
        A decorator.

    Examples
    --------
    >>> import numpy as np
    >>> import debias
    >>> @debias.scorer_plugin("depth_of_first_use", unit="splits from the root", needs=set())
    ... def depth_of_first_use(ensemble, rows):
    ...     return np.zeros(ensemble.n_features)
    >>> depth_of_first_use.name
    'depth_of_first_use'
    """

    def decorate(function: ScoreFunction) -> FunctionScorer:
        return FunctionScorer(
            name, unit, function, frozenset(needs), node_weight_function=node_weight, null_mean_function=null_mean
        )

    return decorate
