"""Scorers: what they are, how a function becomes one, and what they return."""

from __future__ import annotations

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
    from debias.experiment import Experiment
    from debias.meta_methods import Problem
    from debias.rows import Rows

    NullMean = Callable[..., NDArray[np.float64] | None]
    NodeWeight = Callable[..., NDArray[np.float64] | None]
    ScoreFunction = Callable[..., NDArray[np.float64] | tuple[NDArray[np.float64], dict[str, Any]]]

SCHEMA_VERSION = 3


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
        "refit"
            A model that can be trained again: what wraps a scorer of models. It is called as ``score(None, problem)``
            with a :class:`debias.Problem`.
        """
        ...

    def score(
        self, ensemble: TreeEnsemble | None, rows: Rows | Problem | None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return one number a feature, shape (n_features,), and details worth reporting.

        A scorer that decides which features matter has ``selected`` (bool, (n_features,)) and ``threshold`` among its
        details; they become fields of :class:`Scores`.
        """
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
        from debias.meta_methods import by_name

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


def scorer(expression: str | Scorer, **options: Any) -> Scorer:
    """Return a scorer by name, by expression, or as it is, with options set.

    Parameters
    ----------
    expression : str or Scorer
        ``"mdi_oob"``, ``"mdi_oob(shrinkage=100)"``, ``"response_permutation(mdi, replicates=50)"``, or a scorer.
    **options
        Options of the scorer, of an expression those of the outermost.

    Returns
    -------
    Scorer

    Raises
    ------
    CompositionError
        No such scorer, meta-method or option, or a composition without meaning; the message points at the character.

    Examples
    --------
    >>> import debias
    >>> debias.scorer("mdi_oob(shrinkage=100)").name
    'mdi_oob(shrinkage=100)'
    """
    from debias.expressions import parse

    if isinstance(expression, str):
        found = parse(expression)
    elif isinstance(expression, Scorer):
        found = expression
    else:
        raise CompositionError(f"{expression!r} is no scorer: pass a name, or an object with name, unit and score")
    return found.with_options(**options) if options else found


def decided(found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Part what a scorer reports: details, fields of :class:`Scores`, and warnings."""
    details, fields = dict(found), dict[str, Any]()
    warned = details.pop("warnings", [])
    for name in ("p_value", "p_adjusted", "null"):
        if name in details:
            fields[name] = np.asarray(details.pop(name), dtype=np.float64)
    if "selected" in details:
        fields["selected"] = np.asarray(details.pop("selected"), dtype=bool)
    if "threshold" in details:
        fields["threshold"] = details.pop("threshold")
    return details, fields, warned


def refitted(scorer: Scorer, experiment: Experiment, observed: Scores) -> Scores:
    """Score an experiment; `observed` are the scores of the model as it is, with what is known of the rows."""
    from debias.notes import Notes

    values, found = scorer.score(None, experiment)
    details, fields, warned = decided(found)
    notes = Notes(observed.warnings)
    for text in warned:
        notes.warn(text)
    return replace(
        observed,
        **{"values": values, "scorer": scorer.name, "unit": scorer.unit, "details": details, **fields},
        warnings=tuple(notes.texts),
    )


def shown_options(options: Mapping[str, Any]) -> str:
    """Return options as they are written in an expression."""
    return ", ".join(f"{key}={value!r}" for key, value in options.items())


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with numpy's scalars as Python's, which read back from a name."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}


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
    standard_error : array of shape (n_features,), or None
        Of `values`, the splits held: on out-of-bag rows by the infinitesimal jackknife, which sees that a row also
        makes node means in the bags it is in; None where the score was not tested, or where those are permuted and
        the leaves hold no means of y (medians, quantiles, clipped or shrunken means).
    z : array of shape (n_features,), or None
        The statistic of the test: a studentised score, whose node terms are multiplied by n_t / (n_t + 30) where the
        model stores in-bag counts; so it is not values / standard_error.
    p_value, p_adjusted : array of shape (n_features,), or None
        One-sided, for a score above 0; adjusted for the number of features as ``details["test"]`` says.
    selected : array of bool of shape (n_features,), or None
        Whether p_adjusted is at most alpha, or what the scorer itself decides (``guide``).
    threshold : float or None
        The z a feature must exceed to be found family-wise at alpha were it the only one: the minimum detectable z.
        Of a scorer that decides by itself, the score from which on it selects.
    null : array of shape (n_permutations, n_features), or None
        z of the permuted responses. Of a meta-method, what the scorer inside gave in each replicate: scores of permuted
        responses, or of copies.
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
    standard_error: NDArray[np.float64] | None = None
    z: NDArray[np.float64] | None = None
    p_value: NDArray[np.float64] | None = None
    p_adjusted: NDArray[np.float64] | None = None
    selected: NDArray[np.bool_] | None = None
    threshold: float | None = None
    null: NDArray[np.float64] | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature``: the score, and what there is of its significance."""
        import pandas as pd

        columns = {self.scorer: self.values}
        for name in ("standard_error", "z", "p_value", "p_adjusted", "selected"):
            if getattr(self, name) is not None:
                columns[name] = getattr(self, name)
        return pd.DataFrame(columns, index=pd.Index(self.feature_names, name="feature"))

    def interval(self, level: float = 0.95) -> pd.DataFrame:
        """Return confidence intervals of the score, from its standard error.

        Parameters
        ----------
        level : float
            Confidence.

        Returns
        -------
        DataFrame
            Index ``feature``, columns ``lower`` and ``upper``: score plus and minus a normal quantile of its standard
            errors. It is conditional on the splits of these trees (docs/significance.md).

        Raises
        ------
        DebiasError
            The score has no standard error.
        """
        import pandas as pd
        from scipy.special import ndtri

        if self.standard_error is None:
            if self.z is not None:
                raise DebiasError(
                    f"{self.scorer} was tested without standard errors: the leaves hold no means of y, and the "
                    "standard error of such a score on out-of-bag rows is not known. Use rows the model has not seen"
                )
            raise DebiasError(f"{self.scorer} was scored without standard errors; ask for them with se='auto'")
        if not 0 < level < 1:
            raise DebiasError(f"level must be between 0 and 1, not {level!r}")
        reach = float(ndtri((1 + level) / 2)) * self.standard_error
        index = pd.Index(self.feature_names, name="feature")
        return pd.DataFrame({"lower": self.values - reach, "upper": self.values + reach}, index=index)

    def mirrored(self, alpha: float = 0.05) -> Scores:
        """Return these scores with p-values against the mirror image of the non-positive ones.

        The test of Janitza, Celik and Boulesteix (2018), for any score whose noise is symmetric about 0 and alike for
        all features. The non-positive scores and their mirror image are the null, so there have to be many of them.

        Parameters
        ----------
        alpha : float
            Features with a p-value of at most this are selected, one by one: no adjustment is made.

        Returns
        -------
        Scores
            `p_value` and `selected` are set, other figures of significance None. `warnings` says so if fewer than 100
            scores are not positive.
        """
        from debias import nulls

        p_value, null = nulls.mirrored_p_values(self.values)
        found = int((self.values <= 0).sum())
        few = f"only {found} scores are not positive: the mirrored null is coarse below about 100"
        return replace(
            self,
            standard_error=None,
            z=None,
            p_value=p_value,
            p_adjusted=None,
            selected=p_value <= alpha,
            threshold=None,
            null=None,
            warnings=(*self.warnings, few) if found < 100 else self.warnings,
            details={**self.details, "test": {"method": "mirror", "alpha": float(alpha), "null_size": int(null.size)}},
        )

    def plot(self, axes: Any = None, most: int = 30) -> Any:
        """Draw the scores, the largest on top, with 95% intervals where they have standard errors.

        Parameters
        ----------
        axes : matplotlib Axes, optional
            New ones by default.
        most : int
            At most so many features.

        Returns
        -------
        matplotlib Axes
        """
        from debias.report import figures

        return figures.on_axes(figures.draw_scores, self, axes, most)

    def _repr_html_(self) -> str:
        """Show the scores in a notebook, the largest first."""
        frame = self.to_frame()
        return str(frame.sort_values(frame.columns[0], ascending=False, kind="stable").to_html())

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain |= {
            "schema_version": SCHEMA_VERSION,
            "feature_names": list(self.feature_names),
            "warnings": list(self.warnings),
        }
        for name, value in plain.items():
            if isinstance(value, np.ndarray):
                plain[name] = value.tolist()
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
            "feature_names": tuple(plain["feature_names"]),
            "warnings": tuple(plain["warnings"]),
        }
        for name in ("values", "standard_error", "z", "p_value", "p_adjusted", "null"):
            plain[name] = None if plain[name] is None else np.array(plain[name], dtype=np.float64)
        plain["selected"] = None if plain["selected"] is None else np.array(plain["selected"], dtype=bool)
        return cls(**plain)
