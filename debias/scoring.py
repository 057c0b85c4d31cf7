"""Scorers: what they are, how a function becomes one, and what they return."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np

from debias.errors import CompositionError, DebiasError, nearest

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.data import Data
    from debias.ensemble import TreeEnsemble
    from debias.rows import Rows

    ScoreFunction = Callable[..., NDArray[np.float64] | tuple[NDArray[np.float64], dict[str, Any]]]

SCHEMA_VERSION = 1


@runtime_checkable
class Scorer(Protocol):
    """Anything that gives each feature of a model a number."""

    @property
    def name(self) -> str:
        """Unique name, with options where they differ from the defaults."""
        ...

    @property
    def unit(self) -> str:
        """What one unit of the score is."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """What must be there, of these.

        "rows"
            Evaluation rows.
        "running-loss"
            Their loss tree by tree, of boosters.
        "data-only"
            No model: the scorer looks at X and y alone. It is called as ``score(None, data)`` with a
            :class:`debias.Data`, also where a model is given, and then scores whatever rows were passed, training or
            fresh. What wraps such a scorer declares the same need, and passes it other data.
        """
        ...

    def score(
        self, ensemble: TreeEnsemble | None, rows: Rows | Data | None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return one number a feature, shape (n_features,), and details worth reporting."""
        ...

    def with_options(self, **options: Any) -> Scorer:
        """Return this scorer with other options."""
        ...


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

    @property
    def name(self) -> str:
        """The registered name, followed by the options that were set."""
        given = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return f"{self.base_name}({given})" if given else self.base_name

    def with_options(self, **options: Any) -> FunctionScorer:
        """Return this scorer with other options; unknown ones are refused by name."""
        known = [p.name for p in inspect.signature(self.function).parameters.values() if p.kind == p.KEYWORD_ONLY]
        for option in options:
            if option not in known:
                there = f"it has {', '.join(known)}" if known else "it has none"
                raise CompositionError(f"{self.base_name} has no option {option!r}; {there}.{nearest(option, known)}")
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
        return replace(self, options={**self.options, **plain})

    def score(
        self, ensemble: TreeEnsemble | None, rows: Rows | Data | None
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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function."""
        return self.function(*args, **kwargs)


def scorer_plugin(
    name: str, *, unit: str, needs: frozenset[str] | set[str] = frozenset({"rows"})
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
        return FunctionScorer(name, unit, function, frozenset(needs))

    return decorate


def scorer(expression: str | Scorer, **options: Any) -> Scorer:
    """Return a scorer by name, by expression, or as it is, with options set.

    Parameters
    ----------
    expression : str or Scorer
        ``"mdi_oob"``, ``"mdi_oob(shrinkage=100)"``, or a scorer.
    **options
        Options of the scorer.

    Returns
    -------
    Scorer

    Raises
    ------
    CompositionError
        No such scorer or option; the message lists those there are.

    Examples
    --------
    >>> import debias
    >>> debias.scorer("mdi_oob(shrinkage=100)").name
    'mdi_oob(shrinkage=100)'
    """
    from debias.discovery import find_scorer

    if not isinstance(expression, str):
        found: Scorer = expression
        written: dict[str, Any] = {}
        if not isinstance(expression, Scorer):
            raise CompositionError(f"{expression!r} is no scorer: pass a name, or an object with name, unit and score")
    else:
        name, written = _parse(expression)
        found = find_scorer(name)
    merged = {**written, **options}
    return found.with_options(**merged) if merged else found


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores:
    """The scores of one scorer, with all that is needed to understand them.

    Parameters
    ----------
    values : array of shape (n_features,)
    feature_names : tuple of str
    scorer, unit : str
        Name with options; what one unit is.
    rows : str or None
        Kind of the evaluation rows; "data" if the scorer needs only data; None if it looked at no rows.
    n_rows : int or None
        Number of evaluation rows.
    provenance : dict
        What was proven about them.
    details : dict
        What the scorer reports beside: trees without rows, the base step of a running loss.
    warnings : tuple of str
    settings : dict
        Model, versions, seed.
    """

    values: NDArray[np.float64]
    feature_names: tuple[str, ...]
    scorer: str
    unit: str
    rows: str | None
    n_rows: int | None
    provenance: dict[str, Any]
    details: dict[str, Any]
    warnings: tuple[str, ...]
    settings: dict[str, Any]

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature`` and one column, the score."""
        import pandas as pd

        return pd.DataFrame({self.scorer: self.values}, index=pd.Index(self.feature_names, name="feature"))

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain |= {
            "schema_version": SCHEMA_VERSION,
            "values": self.values.tolist(),
            "feature_names": list(self.feature_names),
            "warnings": list(self.warnings),
        }
        return plain

    def to_json(self, indent: int | None = None) -> str:
        """Return JSON that ``Scores.from_json`` reads back without loss."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Scores:
        """Read what ``to_json`` wrote."""
        plain = json.loads(text)
        version = plain.pop("schema_version", None)
        if version != SCHEMA_VERSION:
            raise DebiasError(f"scores of schema version {version!r}; this debias reads version {SCHEMA_VERSION}")
        plain |= {
            "values": np.array(plain["values"], dtype=np.float64),
            "feature_names": tuple(plain["feature_names"]),
            "warnings": tuple(plain["warnings"]),
        }
        return cls(**plain)


def _parse(expression: str) -> tuple[str, dict[str, Any]]:
    """Split ``name(option=literal, ...)``; nothing is ever evaluated but literals."""
    wrong = CompositionError(f"{expression!r} is no scorer expression; write name or name(option=value)")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise wrong from None
    if isinstance(tree, ast.Name):
        return tree.id, {}
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args:
        raise wrong
    options = {}
    for keyword in tree.keywords:
        if keyword.arg is None:
            raise wrong
        try:
            options[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            raise CompositionError(
                f"in {expression!r}: the value of {keyword.arg} is no plain number or text"
            ) from None
    return tree.func.id, options
