"""The reported importance beside debiased scores, and which of them are more than chance."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.api.evaluation import combined, require_one_scale, scored, tested, whole_seed
from debias.api.score import score
from debias.data.blocks import warn_of_repeats
from debias.data.row_order import refuse_other_order
from debias.data.table import distinct_values
from debias.errors import CompositionError, RowsError
from debias.hooks.expressions import scorer
from debias.hooks.registry import plugin_manager
from debias.models.extraction import extract
from debias.models.refitting import with_params
from debias.models.wrappers import is_one, members_in_words, unwrap
from debias.parallel import in_threads, meanwhile
from debias.results.audit import Audit
from debias.results.untested import NOT_ASKED, TRAINING_ROWS, with_reason
from debias.rows.preparation import prepare
from debias.significance.procedure import Procedure
from debias.trees.fingerprint import feed, feed_trees

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from debias.hooks.contracts import Scorer
    from debias.results.scores import Scores
    from debias.rows.rows import Rows
    from debias.trees.ensemble import TreeEnsemble


@in_threads
def audit(
    model: Any,
    X: Any,
    y: Any,
    scorers: list[str | Scorer] | None = None,
    *,
    rows: str = "auto",
    train: tuple[Any, ...] | None = None,
    sample_weight: Any = None,
    base_margin: Any = None,
    groups: Mapping[str, Any] | None = None,
    blocks: Any = None,
    test: str | None = "auto",
    alpha: float = 0.05,
    error: str = "fwer",
    n_permutations: int = 200,
    budget: float | None = None,
    adaptive: bool = True,
    params: Any = None,
    seed: int | None = None,
    n_jobs: int | None = None,
) -> Audit:
    """Set the importance a model reports beside debiased scores, and tell which of them are more than chance.

    Parameters
    ----------
    model, X, y, rows, train, sample_weight, base_margin, groups, blocks, params, seed, n_jobs
        As for :func:`score`.
    scorers : list of str or Scorer, optional
        What to set beside the reported importance. ``mdi_oob`` is always there, since the share is made of it; by
        default ``oob_loss`` as well, where it is defined.
    test : {"auto", "permutation", "conservative", "naive", None}
        How ``mdi_oob`` is tested. "permutation": the response is permuted, the trees stay as they are. "conservative":
        a test by Student's law with sqrt(2) times the naive standard error, for out-of-bag rows. "naive": Student's
        law, for held-out rows. "auto": "permutation" for out-of-bag rows, and for held-out ones where up to 2,000 rows
        (blocks of one size) count, those of a rare class for instance (docs/significance.md), else "naive";
        "conservative" where fewer than 5 rows, or whole blocks, a tree are out of bag. None: no test, every verdict is
        "untested", and ``audit.untested_because`` says why.
    alpha : float
        Error rate of the verdicts.
    error : {"fwer", "fdr", "fdr_by"}
        "fwer": the chance to call any noise informative (step-down max-z, or Holm). "fdr": the expected share of noise
        among what is called informative (Benjamini-Hochberg; "fdr_by" under any dependence); needs many permutations.
    n_permutations : int
        At most so many. On out-of-bag rows 200 take about half the time in which the forest was fitted.
    budget : float, optional
        Seconds the permutations may take; no limit by default. What was drawn until then counts.
    adaptive : bool
        Whether drawing stops once every verdict is settled, but for a risk of 1e-3 a feature that further draws would
        have changed it. P-values rest on what was drawn until then.

    Returns
    -------
    Audit
        ``audit.table`` has the figures, ``audit.summary()`` the sentences.

    Raises
    ------
    DebiasError
        As for :func:`score`.

    Examples
    --------
    >>> import debias
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
    >>> audit = debias.audit(forest, X, y, seed=0)
    >>> list(audit.table.columns)
    ['reported', 'share', 'mdi_oob', 'oob_loss', 'standard_error', 'z', 'p_value', 'p_adjusted', 'verdict']
    >>> audit.table.loc["bmi", "verdict"]
    'informative'
    """
    refuse_other_order(X, train, y=y, sample_weight=sample_weight, base_margin=base_margin, blocks=blocks)
    chosen = [scorer(each) for each in (["mdi_oob", "oob_loss"] if scorers is None else scorers)]
    if "mdi_oob" not in [each.name for each in chosen]:
        chosen.insert(0, scorer("mdi_oob"))
    names = [each.name for each in chosen]
    if len(set(names)) < len(names):
        raise RowsError(f"a scorer is asked for twice: {', '.join(names)}")
    procedure = None if test is None else Procedure(test, alpha, error, n_permutations, budget, adaptive)
    untested = NOT_ASKED
    seed = whole_seed(seed)
    model, params = with_params(model, params)
    wrapping = [each for each in chosen if "refit" in each.needs]
    if params is not None and not wrapping:
        raise CompositionError("none of the scorers trains anything again: params are of meta-methods")
    chosen = [each for each in chosen if each not in wrapping]
    members = unwrap(model, X, y, train)
    for each in chosen:
        if "data-only" in each.needs and any(member.columns is not None for member in members):
            raise CompositionError(
                f"{each.name} scores data, and this {members[0].path[0]} shows its trees other columns than X has: "
                f"score X by itself, debias.score(None, X, y, {each.name!r})"
            )
    ensembles = [extract(member.model) for member in members] if len(members) > 1 else []
    require_one_scale(members, ensembles)
    if procedure is not None and not is_one(members):
        if test != "auto":
            raise CompositionError(f"{members_in_words(members)}, or leave test out")
        procedure, untested = None, members_in_words(members)
    scores: dict[str, list[Scores]] = {}
    reported, kind = None, "not reported"
    fingerprints, n_values = Fingerprints(), None
    for member in members:
        ensemble, given, caught = prepare(
            *(member.model, member.X, member.y, chosen, rows, member.train, sample_weight, seed, n_jobs),
            *(base_margin, blocks, member.notes),
        )
        assert given is not None
        if scorers is None and not (ensemble.averaged or given.can_run_loss):
            del chosen[1:]  # no loss to run
        grouping = member.grouping(groups, ensemble)
        matrix = given.table.matrix(ensemble)
        with meanwhile(partial(fingerprints.add, ensemble, given, matrix)):
            n_values = distinct_values(matrix, grouping) if n_values is None else n_values
            del matrix
            if procedure is not None and blocks is None and member.columns is None:  # transformers may make repeats
                warn_of_repeats(given.table, caught)
            for each in chosen:
                found = scored(each, ensemble, given, grouping, caught, seed)
                if each.name == "mdi_oob":
                    if procedure is None or given.kind == "train":
                        found = with_reason(found, TRAINING_ROWS if given.kind == "train" else untested)
                    else:
                        found = tested(found, each, given, grouping, procedure, caught)
                scores.setdefault(each.name, []).append(found)
        if len(members) == 1:
            importance = plugin_manager().hook.debias_reported_importance(model=member.model)
            if importance is not None:
                reported, kind = grouping.sum(np.asarray(importance[0], dtype=np.float64)), importance[1]
    every = {name: combined(members, each, ensembles) for name, each in scores.items()}
    passed: dict[str, Any] = {"train": train, "sample_weight": sample_weight, "groups": groups, "seed": seed}
    for each in wrapping:
        every[each.name] = score(model, X, y, each, rows=rows, n_jobs=n_jobs, params=params, **passed)
    return Audit.of(reported, kind, every, n_values, fingerprints.to_dict())


class Fingerprints:
    """SHA-256 of the trees of a model, and of the rows it was audited on.

    The same trees have the same fingerprint whatever object or file held them, and the same rows whatever container.
    Of a model around several, each is added in turn.
    """

    def __init__(self) -> None:
        self._model = hashlib.sha256()
        self._data = hashlib.sha256()

    def add(self, ensemble: TreeEnsemble, rows: Rows, X: NDArray[np.floating[Any]]) -> None:
        """Add a model and its rows: X as the model's library compares it, y as it was encoded, weights."""
        self._model.update("\0".join(ensemble.feature_names).encode("utf-8", "surrogatepass"))
        feed_trees(self._model, ensemble)
        for given in (X, rows.response.codes, rows.response.values, rows.response.target, rows.weight):
            feed(self._data, given)

    def to_dict(self) -> dict[str, str]:
        """Return both as hexadecimal text."""
        return {"model_sha256": self._model.hexdigest(), "data_sha256": self._data.hexdigest()}
