"""The contracts of plugins: what a scorer, a meta-method and the problem it changes must offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    import pandas as pd
    from numpy.typing import NDArray

    from debias.parallel import Engine
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble


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


def given_by(scorer: Scorer) -> frozenset[str]:
    """Return what a scorer gives beside values; nothing, if it does not say."""
    return cast("frozenset[str]", getattr(scorer, "gives", frozenset()))


def innermost(scorer: Scorer) -> Scorer:
    """Return the scorer under all meta-methods."""
    while hasattr(scorer, "inner"):
        scorer = scorer.inner
    return scorer
