"""``debias.interactions``: which features a model uses together, tested on rows it has not seen, without a refit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias._version import __version__
from debias.api.joint_effects import joint_effects
from debias.api.prepared import prepared_members
from debias.errors import CompositionError, RowsError, nearest
from debias.hooks.expressions import scorer
from debias.models.wrappers import is_one, members_in_words
from debias.parallel import in_threads
from debias.progress import with_progress
from debias.results.interactions import Interactions
from debias.results.vocabulary import RowsKind
from debias.rows.interactions import interactions as interactions_of_rows
from debias.rows.interactions import main_effects, pairs_on_paths
from debias.rows.request import Request
from debias.rows.without import child_shares, effects
from debias.significance.interactions import test_interactions
from debias.significance.procedure import Procedure
from debias.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from debias.data.user_rows import Dataset
    from debias.random_state import RandomState
    from debias.rows.provenance import RowsOption
    from debias.rows.request import Level
    from debias.rows.rows import Rows
    from debias.significance.procedure import ErrorRate

MOST_VALUES = 2**28
"""Rows times pairs times outputs that are held in memory: 2 GB."""


@in_threads
@with_progress
def interactions(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    features: Iterable[str] | None = None,
    with_: str | None = None,
    rows: RowsOption = "auto",
    train: tuple[Any, Any] | Dataset | None = None,
    sample_weight: Any = None,
    groups: Mapping[str, Any] | None = None,
    level: Level | None = None,
    error_rate: ErrorRate = 0.05,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Interactions:
    """Test which pairs of features a model uses together in a way that rows it has not seen confirm.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, groups, level, random_state, n_jobs
        As for :func:`score`. The rows must be held-out rows in memory, and independent: no `blocks`. A group is one
        feature.
    features : iterable of str, optional
        Test the pairs of these features; of all features by default.
    with_ : str, optional
        Test only the pairs that have this feature.
    error_rate : float, or ({"fwer", "fdr", "fdr_by"}, float)
        Error rate of the verdicts over all pairs that are tested. A number is a family-wise error rate (Holm).

    Returns
    -------
    Interactions
        ``to_frame()`` has a row for each pair, ``confirmed`` the confirmed pairs, ``summary()`` the sentences.

    Raises
    ------
    CompositionError
        The model holds several models of trees, or its response has no mean of its own on each row (survival times,
        ranks, custom objectives).
    RowsError
        The rows are not held-out rows, have blocks or come in batches; they are too few for additive functions of all
        columns; or a feature is not a column.
    DebiasError
        As for :func:`score`.

    Notes
    -----
    The interaction of features j and k on a row is ``e_j + e_k - e_jk``, where e_S is the output of the trees less
    their output without the splits on S. Null hypothesis: given additive functions of all columns and the other
    interactions of the model, the response does not go with this interaction. It is Tukey's (1949) test of one degree
    of freedom for non-additivity, with the direction from the model (docs/interactions.md). One pair is tested for
    every 20 rows: those whose interactions vary most beside additive functions, which does not depend on the response.

    Examples
    --------
    >>> import debias
    >>> import numpy as np
    >>> import pandas as pd
    >>> from xgboost import XGBRegressor
    >>> X = pd.DataFrame(np.random.default_rng(0).normal(size=(800, 4)), columns=list("abcd"))
    >>> y = X.a + 2 * X.b * X.c + np.random.default_rng(1).normal(size=800)
    >>> model = XGBRegressor(n_estimators=50, max_depth=3).fit(X[:400], y[:400])
    >>> found = debias.interactions(model, X[400:], y[400:])
    >>> found.confirmed
    [('b', 'c')]
    """
    request = Request.of(
        model,
        X,
        y,
        rows=rows,
        train=train,
        sample_weight=sample_weight,
        groups=groups,
        level=level,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    request.passed.refuse_batches("debias.interactions")
    if request.blocks is not None:
        raise RowsError(
            "debias.interactions treats rows as independent, and these have blocks: pass one row of each block, "
            "without blocks"
        )
    procedure = Procedure.of("auto", error_rate)
    assert procedure is not None
    if not is_one(request.members):
        raise CompositionError(f"{members_in_words(request.members)} to debias.interactions")
    if request.rows == RowsKind.TRAIN:
        raise _seen(request.rows)
    (prepared,) = prepared_members(request, [scorer("mdi_oob")])
    evaluated: Rows = prepared.rows
    if evaluated.kind != RowsKind.HELD_OUT:
        raise _seen(evaluated.kind)
    names, group = prepared.grouping.names, prepared.grouping.index
    asked = _asked(names, features, with_)
    meets = pairs_on_paths(evaluated.ensemble, group, len(names))
    pairs = np.argwhere(np.triu(meets))
    n_values = evaluated.n_rows * len(pairs) * evaluated.ensemble.n_outputs
    if n_values > MOST_VALUES:
        raise RowsError(
            f"rows times pairs times outputs are {n_values:.1e}, more than {MOST_VALUES:.1e}: pass fewer rows"
        )
    return _tested(prepared, evaluated, pairs, asked, procedure)


def _tested(
    prepared: Any, rows: Rows, pairs: NDArray[np.int64], asked: NDArray[np.bool_], procedure: Procedure
) -> Interactions:
    ensemble, names, group = rows.ensemble, prepared.grouping.names, prepared.grouping.index
    X, n, seed = rows.table.matrix(ensemble), rows.node_sums.n, prepared.request.seed
    interaction = interactions_of_rows(ensemble, X, n, group, pairs, len(names))
    alone = main_effects(ensemble, X, n, group, len(names))
    output = effects(ensemble, X, child_shares(ensemble, n), np.full(group.size, -1), 0)[0]
    is_asked = asked[pairs[:, 0], pairs[:, 1]]
    test = test_interactions(rows, interaction, alone, output, is_asked, procedure.alpha)
    share = rows.weight / rows.weight.sum()
    deviation = interaction - np.tensordot(share, interaction, axes=1)
    spread = np.sqrt(np.tensordot(share, deviation**2, axes=1).sum(axis=1))
    return Interactions(
        feature_names=names,
        pairs=pairs[is_asked],
        score=test.score[is_asked],
        standard_error=test.standard_error[is_asked],
        z=test.z[is_asked],
        p_value=test.p_value[is_asked],
        spread=spread[is_asked],
        total=test.total[is_asked],
        n_asked=int(asked.sum()),
        n_rows=int((rows.weight > 0).sum()),
        n_functions=test.n_functions,
        error=procedure.error,
        alpha=procedure.alpha,
        provenance=rows.provenance.to_dict(),
        settings={
            "model": ensemble.source,
            "library_version": ensemble.version,
            "n_trees": ensemble.n_trees,
            "debias_version": __version__,
            "seed": seed,
        },
        warnings=tuple(prepared.log.texts),
        joint=joint_effects(prepared.request.X, ensemble, names, interaction[:, is_asked]),
    )


def _seen(kind: str) -> RowsError:
    return RowsError(
        f"debias.interactions needs rows that the model has not seen, and these are {RowsKind(kind).text} rows: pass "
        "held-out rows"
    )


def _asked(names: tuple[str, ...], features: Iterable[str] | None, with_: str | None) -> NDArray[np.bool_]:
    """Return the pairs that were asked for, shape (n_features, n_features), True above the diagonal only."""
    if isinstance(features, str):
        raise RowsError(f"features must be a list of two names or more: use with_={features!r} for its pairs")
    position = {name: k for k, name in enumerate(names)}

    def place(name: str) -> int:
        if str(name) not in position:
            raise RowsError(f"there is no feature {name!r}.{nearest(str(name), names)} There are: {listed(names)}")
        return position[str(name)]

    wanted = np.zeros(len(names), dtype=bool)
    wanted[slice(None) if features is None else [place(name) for name in features]] = True
    if with_ is None:
        asked = np.outer(wanted, wanted)
    else:
        asked = np.zeros((len(names), len(names)), dtype=bool)
        asked[place(with_)] = asked[:, place(with_)] = wanted
    asked = np.triu(asked, 1) | np.tril(asked, -1).T
    if not asked.any():
        raise RowsError("an interaction is of two features: pass two names or more in features, or one and with_")
    return asked
