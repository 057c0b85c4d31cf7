"""The contracts of plugins: what a scorer, a meta-method and the problem it changes must offer."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    import pandas as pd
    from numpy.typing import NDArray

    from debias.data.dataset import Data
    from debias.parallel import Engine
    from debias.trees.ensemble import TreeEnsemble


class Gives(enum.Flag):
    """What a scorer reports beside its values."""

    NOTHING = 0
    NULL = enum.auto()
    """``null``: scores of permuted responses, and ``unadjusted``: the score of the true response."""
    P_VALUE = enum.auto()
    """``p_value``."""
    DECISION = enum.auto()
    """``selected`` and ``threshold``."""


@runtime_checkable
class Scorer(Protocol):
    """Anything that gives each feature a number.

    There are three kinds: :class:`TreeScorer`, :class:`DataScorer` and :class:`RefitScorer`. They differ in what
    ``score`` takes. A class that inherits from one of them need only define ``name``, ``unit``, ``score`` and
    ``with_options``.
    """

    @property
    def name(self) -> str:
        """Unique name, with options where they differ from the defaults."""
        ...

    @property
    def unit(self) -> str:
        """What one unit of the score is."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Options that were set."""
        return {}

    @property
    def gives(self) -> Gives:
        """What the details hold beside the values."""
        return Gives.NOTHING

    @property
    def inner(self) -> Scorer | None:
        """The scorer that this one wraps; None if it wraps none."""
        return None

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

    def score(self, ensemble: TreeEnsemble, rows: Any) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return one number a feature, and details.

        Parameters
        ----------
        ensemble : TreeEnsemble
        rows : Rows or None

        Returns
        -------
        (array of float64 of shape (n_features,), dict)
            Details are kept with the scores. ``selected`` (bool, shape (n_features,)) and ``threshold`` among them
            become fields of :class:`Scores`.
        """
        ...

    def node_weight(self, ensemble: TreeEnsemble, rows: Any) -> NDArray[np.float64] | None:
        """Return the factor of each node's centred covariance, shape (n_nodes,), if the score sums such terms.

        Such a score is a sum over rows. So it has contributions of rows, standard errors and p-values. None: it is
        not such a sum.
        """
        return None


@runtime_checkable
class DataScorer(Scorer, Protocol):
    """A scorer that looks at X and y alone, also where a model is given."""

    def score(self, data: Any) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return one number a feature, and details, as a :class:`TreeScorer` does; `data` is :class:`debias.Data`."""
        ...

    def null_mean(self, data: Data) -> NDArray[np.float64] | None:
        """Return the mean score of each feature over permutations of its values, if it is known in closed form."""
        return None


@runtime_checkable
class RefitScorer(Scorer, Protocol):
    """A meta-method around a scorer of trees: it fits the model again and scores it each time."""

    @property
    def fits_again(self) -> bool:
        """Always True; it tells this kind from the others."""
        return True

    def score(self, problem: Any) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return one number a feature, and details, as a :class:`TreeScorer` does; `problem` is a `Problem`."""
        ...


class Problem(Protocol):
    """What a meta-method changes and scores: rows of data, and the model, if any, that is trained on them.

    :class:`debias.Data` for scorers that need only data, else :class:`debias.Experiment`, which trains the model again
    for each change.
    """

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of what is scored: columns, or groups of them."""
        ...

    @property
    def n_features(self) -> int:
        """Number of what is scored."""
        ...

    @property
    def members(self) -> tuple[tuple[str, ...], ...]:
        """Columns of each of `feature_names`."""
        ...

    @property
    def seed(self) -> int | None:
        """Of all that is drawn; None is 0."""
        ...

    @property
    def engine(self) -> Engine:
        """How replicates are run."""
        ...

    def permuted(self, rng: np.random.Generator) -> Self:
        """Return the problem with the response permuted; of training and held-out rows each among themselves."""
        ...

    def changed(self, change: Callable[[pd.DataFrame], pd.DataFrame], copies: Mapping[str, str] | None = None) -> Self:
        """Return the problem with other columns.

        Parameters
        ----------
        change : callable
            Called with the columns of the training rows, and of held-out rows if there are such.
        copies : mapping of str to str, optional
            Names of columns that `change` adds at the end, to the column each is a copy of. Scores of copies follow
            those of the originals, in the same order.
        """
        ...

    def inside(self, seed: int) -> Self:
        """Return the problem as it is within a replicate: another seed, and a quiet engine."""
        ...

    def score(self, scorer: Scorer) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return one number a feature, shape (n_features,), and details; the model is trained if it has to be."""
        ...

    def fingerprint(self) -> str:
        """Return a text that names data, model, settings and versions, for checkpoints."""
        ...


@runtime_checkable
class MetaMethod(Protocol):
    """Anything that makes a scorer of a scorer."""

    @property
    def name(self) -> str:
        """Unique name, also among scorers."""
        ...

    def with_options(self, **options: Any) -> MetaMethod:
        """Return this meta-method with other options."""
        ...

    def __call__(self, scorer: Scorer) -> Scorer:
        """Wrap a scorer; raise a CompositionError if that has no meaning."""
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
