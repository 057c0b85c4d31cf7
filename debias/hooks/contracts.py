"""The contracts of plugins: what a scorer, a meta-method and the problem of a meta-method must offer."""

from __future__ import annotations

import enum
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    import pandas as pd
    from numpy.typing import NDArray

    from debias.data.dataset import Data
    from debias.parallel import Engine
    from debias.trees.ensemble import TreeEnsemble


C = TypeVar("C")
Lines = Literal["refused", "left out", "used"]
"""What a scorer does with lines in the leaves of trees."""


class Gives(enum.Flag):
    """What a scorer reports beside its values."""

    NOTHING = 0
    NULL = enum.auto()
    """``null``: scores of permuted responses, and ``unadjusted``: the score of the true response."""
    P_VALUE = enum.auto()
    """``p_value``."""
    DECISION = enum.auto()
    """``selected`` and ``threshold``."""


class _KindOfScorer(type(Protocol)):  # type: ignore[misc]  # mypy does not know the class of a protocol
    """Class of the contracts of scorers: ``isinstance`` first asks whether the class of an object says its kind.

    A class says it by inheriting from the kind, or by the decorator `scorer_kind`. Comparing all members, as protocols
    do, takes 50 microseconds, and an audit asks dozens of times. So members are compared only if the class does not say
    it.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        bases = _KINDS.get(type(instance), type(instance)).__mro__
        if cls in bases:
            return True
        kinds = (TreeScorer, DataScorer, RefitScorer)
        if cls in kinds and any(kind in bases for kind in kinds):
            return False
        return bool(super().__instancecheck__(instance))


_KINDS: dict[type, type] = {}
"""The kind of each class that `scorer_kind` decorates."""


def scorer_kind(kind: type) -> Callable[[type[C]], type[C]]:
    """Return a decorator of classes that cannot inherit from their kind of scorer, such as those with fields."""

    def say(scorer_class: type[C]) -> type[C]:
        _KINDS[scorer_class] = kind
        return scorer_class

    return say


@runtime_checkable
class Scorer(Protocol, metaclass=_KindOfScorer):
    """An object that gives each feature a score.

    There are three kinds: :class:`TreeScorer`, :class:`DataScorer` and :class:`RefitScorer`. They differ in what
    ``score`` takes. A class that inherits from one of them need only define ``name``, ``unit``, ``score`` and
    ``with_options``.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Unique name, with the options that differ from the defaults."""
        ...

    @property
    @abstractmethod
    def unit(self) -> str:
        """Unit of the score."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Options that the user set."""
        return {}

    @property
    def gives(self) -> Gives:
        """What the details contain beside the values."""
        return Gives.NOTHING

    @property
    def inner(self) -> Scorer | None:
        """The scorer that this one wraps; None if it wraps none."""
        return None

    @abstractmethod
    def with_options(self, **options: Any) -> Scorer:
        """Return this scorer with other options."""
        ...


@runtime_checkable
class TreeScorer(Scorer, Protocol):
    """A scorer of the trees of a fitted model."""

    @property
    def needs_rows(self) -> bool:
        """Whether it needs evaluation rows. Without this need `rows` may be None."""
        return True

    @property
    def needs_running_loss(self) -> bool:
        """Whether it reads ``rows.running_loss``, the loss of boosted models tree by tree."""
        return False

    @property
    def compared(self) -> bool:
        """Whether :func:`debias.compare` shows it by default, beside ``native`` and ``mdi_oob``.

        Where it raises a `CompositionError` for a model, it is left out of the comparison.
        """
        return False

    @property
    def lines(self) -> Lines:
        """What it does with lines in the leaves of trees (LightGBM's ``linear_tree``).

        "refused": such trees are refused. "left out": it needs only splits, values of leaves and the response at the
        constant start, and is defined without the lines; a note says so. "used": it is about the model with its lines.
        """
        return "refused"

    @abstractmethod
    def score(self, ensemble: TreeEnsemble, rows: Any) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return one number for each feature, and details.

        Parameters
        ----------
        ensemble : TreeEnsemble
        rows : Rows or None

        Returns
        -------
        (array of float64 of shape (n_features,), dict)
            Details are kept with the scores. The details ``selected`` (bool, shape (n_features,)) and ``threshold``
            become fields of :class:`Scores`.
        """
        ...

    def node_weight(self, ensemble: TreeEnsemble, rows: Any) -> NDArray[np.float64] | None:
        """Return the factor of the centred covariance of each node, shape (n_nodes,), if the score sums such terms.

        Such a score is a sum over rows, so it has contributions of rows, standard errors and p-values. Return None if
        the score is not such a sum.
        """
        return None

    def effects(self, ensemble: TreeEnsemble, rows: Any) -> Any:
        """Return the linear effects whose contributions decide about the features, if the score rests on such.

        They come from ``rows.linear_effects(...)``. Such scores have p-values too (``test="combined"``). Return None
        otherwise.
        """
        return None


@runtime_checkable
class DataScorer(Scorer, Protocol):
    """A scorer that uses X and y alone, even if there is a model."""

    @abstractmethod
    def score(self, data: Any) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return one number for each feature, and details; see :class:`TreeScorer`. `data` is a ``plugin.Data``."""
        ...

    def null_mean(self, data: Data) -> NDArray[np.float64] | None:
        """Return the mean score of each feature over permutations of its values, if a formula for it is known."""
        return None


@runtime_checkable
class RefitScorer(Scorer, Protocol):
    """A meta-method around a scorer of trees: it refits the model several times and scores each refit."""

    @property
    def fits_again(self) -> bool:
        """Always True; it distinguishes this kind from the others."""
        return True

    @abstractmethod
    def score(self, problem: Any) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return one number for each feature, and details; `problem` is a `Problem`. See :class:`TreeScorer`."""
        ...


class Problem(Protocol):
    """What a meta-method changes and scores: rows of data, and the model that is fitted on them, if there is one.

    It is :class:`debias.plugin.Data` for scorers that need only data, and otherwise :class:`debias.plugin.Experiment`,
    which refits the model for each change.
    """

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that are scored: columns, or groups of columns."""
        ...

    @property
    def n_features(self) -> int:
        """Number of features that are scored."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of training rows; of data without a model, number of rows."""
        ...

    @property
    def members(self) -> tuple[tuple[str, ...], ...]:
        """Columns of each of `feature_names`."""
        ...

    @property
    def seed(self) -> int | None:
        """Seed of all random draws; None means 0."""
        ...

    @property
    def engine(self) -> Engine:
        """How replicates are run: workers, progress, time budget and checkpoint."""
        ...

    def permuted(self, rng: np.random.Generator) -> Self:
        """Return the problem with a permuted response; training rows and held-out rows are permuted separately.

        Copies of a row, made by `rows`, keep one response. The responses of a ranker are permuted within queries.
        """
        ...

    def changed(self, change: Callable[..., pd.DataFrame], copies: Mapping[str, str] | None = None) -> Self:
        """Return the problem with other columns.

        Parameters
        ----------
        change : callable
            Called with the columns of the training rows, and with those of the held-out rows if there are any. It
            returns a new frame with the same rows in the same order, and leaves the old frame as it is. If it has an
            argument `query`, it is also called with the query of each row of a ranker, ``query=`` an array of int64 of
            shape (n_rows,).
        copies : mapping of str to str, optional
            Maps the name of each column that `change` adds at the end to the column it is a copy of. Scores of copies
            follow those of the originals, in the same order.

        Raises
        ------
        RowsError
            The change moves whole rows, or makes other rows, so that X and y are no longer paired.
        """
        ...

    def rows(self, indices: Any) -> Self:
        """Return the problem with some of its training rows: a subsample, or a bootstrap sample.

        Parameters
        ----------
        indices : array-like of int of shape (n_chosen,)
            Positions of the training rows, from 0 to `n_rows` - 1. The same position may be repeated. Held-out rows
            stay as they are. Rows of a ranker stay in their query.

        Notes
        -----
        Copies of a row are one block: where out-of-bag rows are evaluated, a row counts as out of bag only for trees
        that have none of its copies in their bag. Otherwise a tree would be evaluated on rows that it has seen.

        Raises
        ------
        RowsError
            An index is not the position of a training row.
        """
        ...

    def weighted(self, weights: Any) -> Self:
        """Return the problem with other weights of its training rows.

        Parameters
        ----------
        weights : array-like of shape (n_rows,)
            Finite numbers of 0 or more. They are multiplied by the weights that the user passed, if there are any.
            Out-of-bag rows are training rows, so they are evaluated with these weights too; held-out rows keep theirs.

        Raises
        ------
        RowsError
            The weights do not have this shape, or are not weights.
        """
        ...

    def inside(self, seed: int) -> Self:
        """Return the problem for use within a replicate: with another seed, and a serial engine without progress."""
        ...

    def score(self, scorer: Scorer) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return one number for each feature, shape (n_features,), and details; refit the model if necessary."""
        ...

    def fingerprint(self) -> str:
        """Return a text that identifies data, model, settings and versions, for checkpoints."""
        ...


@runtime_checkable
class MetaMethod(Protocol):
    """An object that wraps a scorer and returns another scorer."""

    @property
    def name(self) -> str:
        """Unique name, also among scorers."""
        ...

    def with_options(self, **options: Any) -> MetaMethod:
        """Return this meta-method with other options."""
        ...

    def __call__(self, scorer: Scorer) -> Scorer:
        """Wrap a scorer; raise a CompositionError if the combination has no meaning."""
        ...


def innermost(scorer: Scorer) -> Scorer:
    """Return the scorer under all meta-methods.

    Parameters
    ----------
    scorer : Scorer

    Returns
    -------
    Scorer
    """
    while scorer.inner is not None:
        scorer = scorer.inner
    return scorer


def how_to_write(plugin: Any) -> str:
    """Return what an object lacks to be a scorer, and how to write one, for error messages."""
    lacking = [
        name for name in ("name", "unit", "options", "gives", "inner", "with_options") if not hasattr(plugin, name)
    ]
    what = f"It has no {', '.join(lacking)}. " if lacking and hasattr(plugin, "score") else ""
    return (
        f"{what}A scorer is an instance of a class that inherits from debias.plugin.TreeScorer or "
        "debias.plugin.DataScorer"
    )
