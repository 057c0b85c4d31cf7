"""``debias.interactions``: which features a model uses together, tested on rows it has not seen, without a refit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from debias._version import __version__
from debias.api.joint_effects import drawn_rows, joint_effects
from debias.api.prepared import prepared_members
from debias.data.chosen_rows import taken
from debias.errors import CompositionError, RowsError, nearest
from debias.hooks.expressions import scorer
from debias.models.wrappers import is_one, members_in_words
from debias.parallel import in_threads
from debias.positions import evenly_spaced
from debias.progress import with_progress
from debias.results.interactions import DRAWN_BY_CLASS, Interactions
from debias.results.vocabulary import RowsKind
from debias.rows.interactions import pairs_on_paths, parts, spreads
from debias.rows.request import Request
from debias.rows.without import child_shares, effects
from debias.significance.interactions import refuse_responses_without_mean, test_interactions
from debias.significance.procedure import Procedure
from debias.significance.tested_rows import MOST_IN_TRIPLES, ROWS_PER_TRIPLE, rows_to_test
from debias.text import counted, listed
from debias.warning_log import WarningLog
from debias.wrong_arguments import explains_wrong_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from debias.data.groups import Grouping
    from debias.data.user_rows import Dataset
    from debias.random_state import RandomState
    from debias.results.joint_effects import JointEffects
    from debias.rows.provenance import RowsOption
    from debias.rows.request import Level
    from debias.rows.rows import Rows
    from debias.significance.procedure import ErrorRate

MOST_VALUES = 2**25
"""Rows times interactions times outputs that are held in memory: 256 MB, a few times. If the model uses more pairs,
those that vary most are held, and the others are one part of the output."""
MOST_SAMPLED = 100_000
"""Of rows that are not in memory so many are drawn at random."""
ROWS_OF_TRIPLES = 1000
"""How much triples vary, which chooses among them, is found on so many rows: there may be 4,060 of them."""
FEW_OF_CLASS = 10
"""Of a class with fewer rows, a warning says that hardly anything can be confirmed."""
FEWEST_BLOCKS = 20
"""With fewer blocks of rows nothing is tested."""


@explains_wrong_arguments
@in_threads
@with_progress
def interactions(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    features: Iterable[str] | Iterable[tuple[str, ...]] | None = None,
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
        As for :func:`score`. The rows must be held-out rows. Of very many, some are drawn at random, and the summary
        says so; of rows in files and batches 100,000 at first, to have them in memory. Frames of Dask and Spark, and
        sums of rows, are refused. Rows of a block depend on one another; 20 blocks or more are needed. A group is one
        feature.
    features : iterable of str or of tuples of str, optional
        Test the pairs of these features; of all features by default. Tuples name what is tested: ``("a", "b")`` is this
        pair, and ``("a", "b", "c")`` what the three features do together and no two of them.
    with_ : str, optional
        Test only the pairs that have this feature.
    error_rate : float, or ({"fwer", "fdr", "fdr_by"}, float)
        Error rate of the verdicts over all interactions that are tested. A number is a family-wise error rate (Holm).

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
        The rows are not held-out rows, or are in fewer than 20 blocks; they are too few for additive functions of all
        columns; or a feature is not a column.
    DebiasError
        As for :func:`score`.

    Notes
    -----
    The interaction of features j and k on a row is ``v_jk - v_j - v_k + v``, where v_S is the output with the splits on
    S only: at other splits the row goes both ways, in the shares of the evaluation rows. Null hypothesis: given
    additive functions of all columns, any functions of the confirmed pairs and the other interactions of the model, the
    response does not go with this interaction. It is Tukey's (1949) test of one degree of freedom for non-additivity,
    with the direction from the model (docs/interactions.md). One interaction is tested for every 20 rows: those that
    vary most beside additive functions, which does not depend on the response.

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
    given: dict[str, Any] = {"rows": rows, "train": train, "groups": groups, "level": level}
    given |= {"random_state": random_state, "n_jobs": n_jobs}
    request, log = Request.of(model, X, y, sample_weight=sample_weight, **given), WarningLog()
    _refuse_models(request)  # before a long source is read
    sampled = request.passed.sampled(request, "debias.interactions", MOST_SAMPLED, log)
    if sampled is None:
        return interactions_of(request, features, with_, error_rate)
    request = Request.of(model, sampled.X, sampled.y, sample_weight=sampled.weight, **given)
    found = interactions_of(request, features, with_, error_rate)
    n_passed = sampled.n_passed if len(sampled.y) < sampled.n_passed else found.n_passed
    return replace(found, n_passed=n_passed, warnings=(*log.texts, *found.warnings))


def interactions_of(
    request: Request, features: Any, with_: str | None, error_rate: ErrorRate, told_apart: float | None = None
) -> Interactions:
    """Return the tested interactions of a request; parameters as for :func:`interactions`."""
    request.passed.refuse_batches("debias.interactions")
    procedure = Procedure.of("auto", error_rate)
    assert procedure is not None
    _refuse_models(request)
    (prepared,) = prepared_members(request, [scorer("mdi_oob")])
    evaluated: Rows = prepared.rows
    if evaluated.kind != RowsKind.HELD_OUT:
        raise _seen(evaluated.kind)
    if evaluated.blocks is not None:
        n_blocks = np.unique(evaluated.blocks[evaluated.weight > 0]).size
        if n_blocks < FEWEST_BLOCKS:
            raise RowsError(
                f"the rows are in {n_blocks} blocks, and debias.interactions needs at least {FEWEST_BLOCKS}: what "
                "varies between fewer blocks is not known well enough"
            )
    if told_apart is None:  # with the family-wise error rate, pairs that are confirmed join the model of the test
        told_apart = 0.0 if procedure.error == "fwer" else procedure.alpha
    asked = Asked.of(prepared.grouping.names, features, with_)
    return _of_prepared(prepared, evaluated, asked, procedure, told_apart)


def _refuse_models(request: Request) -> None:
    """Refuse what can be told without the rows: several models of trees, responses without a mean, training rows."""
    if not is_one(request.members):
        raise CompositionError(f"{members_in_words(request.members, 'Pass')} to debias.interactions")
    refuse_responses_without_mean(request.members[0].ensemble)
    if request.rows == RowsKind.TRAIN:
        raise _seen(request.rows)


@dataclass(frozen=True, eq=False)
class Asked:
    """Which interactions are asked for.

    Parameters
    ----------
    pairs : array of bool of shape (n_features, n_features)
        True above the diagonal only.
    triples : list of tuple of int
    """

    pairs: NDArray[np.bool_]
    triples: list[tuple[int, ...]]

    @classmethod
    def of(cls, names: tuple[str, ...], features: Any = None, with_: str | None = None) -> Asked:
        """Return the pairs and triples that `features` and `with_` name; see :func:`interactions`."""
        if isinstance(features, str):
            raise RowsError(f"features must be a list of two names or more: use with_={features!r} for its pairs")
        position = {name: k for k, name in enumerate(names)}

        def place(name: Any) -> int:
            if str(name) not in position:
                raise RowsError(f"there is no feature {name!r}.{nearest(str(name), names)} There are: {listed(names)}")
            return position[str(name)]

        asked, wanted = np.zeros((len(names), len(names)), dtype=bool), np.zeros(len(names), dtype=bool)
        if features is not None and not hasattr(features, "__iter__"):
            raise RowsError(f"features must be a list of names, or of tuples of names, not {features!r}")
        items = list(names if features is None else features)
        if any(isinstance(item, tuple | list) for item in items):
            sets = [tuple(sorted(place(name) for name in _names_of(item))) for item in items]
            if with_ is not None:
                raise RowsError("features has tuples, which name what is tested: leave with_ out")
            wrong = [
                item
                for item, members in zip(items, sets, strict=True)
                if len(members) not in (2, 3) or len(set(members)) < len(members)
            ]
            if wrong:
                raise RowsError(f"{wrong[0]!r} in features is not two or three different features")
            for members in sets:
                if len(members) == 2:
                    asked[members] = True
            return cls(asked, sorted({members for members in sets if len(members) == 3}))
        wanted[[place(name) for name in items]] = True
        if with_ is None:
            asked = np.outer(wanted, wanted)
        else:
            asked[place(with_)] = asked[:, place(with_)] = wanted
        asked = np.triu(asked, 1) | np.tril(asked, -1).T
        if len(names) < 2:
            raise RowsError(
                f"an interaction is of two features, and there is one, {names[0]!r}. The columns of a group are one "
                "feature"
            )
        if not asked.any():
            raise RowsError("an interaction is of two features: pass two names or more in features, or one and with_")
        return cls(asked, [])


def _names_of(item: Any) -> tuple[Any, ...]:
    if not isinstance(item, tuple | list):
        raise RowsError(f"features has tuples and the name {item!r}: pass names only, or tuples only")
    return tuple(item)


def _of_prepared(prepared: Any, passed: Rows, asked: Asked, procedure: Procedure, told_apart: float) -> Interactions:
    """Return the tested interactions of rows, with what is told of these and drawn."""
    grouping, log, rows = prepared.grouping, prepared.log, passed
    meets = pairs_on_paths(passed.ensemble, grouping.index, len(grouping.names))
    drawn = rows_to_test(passed, grouping.index, int(np.triu(meets).sum()))
    if drawn is not None:
        rows = passed.part(drawn)
    found = tested_on(rows, grouping, meets, asked, procedure, told_apart, prepared.request.seed)
    _warn_of_few(rows, log)
    by_class = {DRAWN_BY_CLASS: True} if drawn is not None and rows.response.codes is not None else {}
    return replace(
        found,
        settings=found.settings | by_class,
        n_passed=int((passed.weight > 0).sum()),
        warnings=tuple(log.texts),
        joint=_drawn(prepared.request.X, rows, grouping.names, grouping.index, found.pairs),
    )


def tested_on(
    rows: Rows,
    grouping: Grouping,
    meets: NDArray[np.bool_],
    asked: Asked,
    procedure: Procedure,
    told_apart: float,
    seed: int | None,
) -> Interactions:
    """Return the interactions that are asked for, tested on all of the given rows.

    Parameters
    ----------
    rows : Rows
        Held-out rows, not too many (:func:`debias.significance.tested_rows.rows_to_test`).
    grouping : Grouping
    meets : array of bool of shape (n_features, n_features)
        From :func:`debias.rows.interactions.pairs_on_paths`.
    asked : Asked
    procedure : Procedure
        The error rate.
    told_apart : float
        As for :func:`debias.significance.interactions.test_interactions`.
    seed : int or None
        That of the request, for the settings.
    """
    ensemble, names, group, pairs = rows.ensemble, grouping.names, grouping.index, np.argwhere(np.triu(meets))
    X, n, n_groups = rows.table.matrix(ensemble), rows.node_sums.n, len(names)
    of_pairs = asked.pairs[pairs[:, 0], pairs[:, 1]]

    def spread_of(sets: Any, some: Any = slice(None)) -> NDArray[np.float64]:
        return spreads(ensemble, X[some], n, group, sets, n_groups, rows.weight[some])

    spread, most = spread_of(pairs), MOST_VALUES // (rows.n_rows * ensemble.n_outputs)
    # Those that are asked for first, then those that vary most.
    held = pairs[np.sort(np.lexsort((-spread, ~of_pairs))[: max(1, most)])]
    named = [members for members in asked.triples if all(meets[pair] for pair in combinations(members, 2))]
    of_features: NDArray[np.float64] = np.bincount(pairs.ravel(), np.repeat(spread, 2), n_groups).astype(np.float64)
    others = _other_triples(meets, of_features, named)
    n_rows = int((rows.weight > 0).sum())
    of_others = spread_of(others, evenly_spaced(rows.n_rows, ROWS_OF_TRIPLES))
    others = [others[k] for k in np.argsort(-of_others, kind="stable")[: n_rows // ROWS_PER_TRIPLE]]
    sets = [*map(tuple, held.tolist()), *named, *others]
    is_asked = np.array(
        [len(members) == 2 and asked.pairs[members] or members in named for members in sets], dtype=bool
    )
    test = test_interactions(
        rows,
        parts(ensemble, X, n, group, sets, n_groups),
        parts(ensemble, X, n, group, np.arange(n_groups)[:, None], n_groups),
        effects(ensemble, X, child_shares(ensemble, n), np.full(group.size, -1), 0)[0],
        sets,
        group,
        is_asked,
        procedure.alpha,
        told_apart,
    )
    place = {members: k for k, members in enumerate(sets)}
    at = np.array(
        [place.get(members, -1) for members in (*map(tuple, pairs[of_pairs].tolist()), *named)], dtype=np.int64
    )
    numbers: dict[str, Any] = {
        name: np.where(at >= 0, np.append(getattr(test, name), np.nan)[at], np.nan)
        for name in ("score", "standard_error", "z", "p_value", "p_apart", "total")
    }
    return Interactions(
        feature_names=names,
        pairs=pairs[of_pairs],
        triples=np.array(named, dtype=np.int64).reshape(-1, 3),
        similar=tuple(test.similar[k] if k >= 0 else () for k in at.tolist()),
        **numbers,
        spread=np.append(spread[of_pairs], spread_of(named)),
        n_asked=int(asked.pairs.sum()) + len(asked.triples),
        n_rows=n_rows,
        n_passed=n_rows,
        n_functions=test.n_functions,
        about=tuple(np.array([*test.about, ""], dtype=object)[at].tolist()) if any(test.about) else (),
        unfollowed=tuple(names[k] for k in np.unique(group[test.unfollowed]).tolist()),
        n_blocks=None if rows.blocks is None else int(np.unique(rows.blocks[rows.weight > 0]).size),
        error=procedure.error,
        alpha=procedure.alpha,
        provenance=rows.provenance.to_dict(),
        settings={
            "model": ensemble.source,
            "library_version": ensemble.version,
            "n_trees": ensemble.n_trees,
            "debias_version": __version__,
            "seed": seed,
            **({} if test.scale is None else {"scale": test.scale}),
        },
    )


def _warn_of_few(rows: Rows, log: WarningLog) -> None:
    """Warn if a class has so few rows that hardly anything can be confirmed."""
    codes, classes = rows.response.codes, rows.ensemble.classes
    if codes is None or classes is None:
        return
    counts = np.bincount(codes[rows.weight > 0], minlength=classes.size)
    if classes.size > 1 and counts.min() < FEW_OF_CLASS:
        log.warn(
            f"class {classes[counts.argmin()].item()!r} has {counted(int(counts.min()), 'row')} of "
            f"{int(counts.sum()):,}: hardly any interaction can be confirmed for it, so one that is not confirmed may "
            "well be there"
        )


def _drawn(
    X: Any, rows: Rows, names: tuple[str, ...], group: NDArray[np.int64], pairs: NDArray[np.int64]
) -> JointEffects | None:
    """Return the joint effects of the pairs for pictures; None if they are too many to be kept."""
    ensemble, drawn = rows.ensemble, drawn_rows(rows.n_rows)
    if drawn.size * len(pairs) * ensemble.n_outputs > MOST_VALUES:
        return None
    seen = rows.table.matrix(ensemble, drawn)
    if rows.is_kept is not None:
        X = taken(X, np.flatnonzero(rows.is_kept))
    return joint_effects(X, ensemble, names, parts(ensemble, seen, rows.node_sums.n, group, pairs, len(names)))


def _other_triples(
    meets: NDArray[np.bool_], spread: NDArray[np.float64], named: list[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """Return the triples whose pairs share paths, without the named ones, of the features whose pairs vary most."""
    features = np.sort(np.argsort(-spread, kind="stable")[:MOST_IN_TRIPLES]).tolist()
    return [
        members
        for members in combinations(features, 3)
        if members not in named and all(meets[pair] for pair in combinations(members, 2))
    ]


def _seen(kind: str) -> RowsError:
    return RowsError(
        f"debias.interactions needs rows that the model has not seen, and these are {RowsKind(kind).text} rows: pass "
        "held-out rows"
    )
