"""Conditional importance: whether a model uses a column for what the other columns do not say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias import RowsError
from debias.data.groups import Grouping
from debias.parallel import allowed
from debias.plugin import CompositionError, check_procedure, refuse_seen_rows
from debias.progress import task
from debias_plugins.scorers.conditional_design import Design, categorical_features
from debias_plugins.scorers.conditional_test import Regressions, RowTerms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.plugin import Rows, TreeEnsemble

    Array = NDArray[np.float64]
    Drawer = Callable[[Array, NDArray[np.int64], np.random.Generator], Any]

STATISTICS = ("covariance", "loss")
FEWEST_ROWS, FEW_ROWS = 20, 100
"""Fewer rows than the first are refused, fewer than the second get a warning."""
NEARLY_A_FUNCTION = 0.95
"""A column of which the other columns explain this share gets a warning."""
NUMBERS_AT_ONCE = 2**24
"""At most about this many draws, and this many outputs, are held in memory."""


@debias.plugin.scorer_plugin("conditional_importance", unit="increase of the squared error")
def conditional_importance(
    ensemble: TreeEnsemble,
    rows: Rows,
    *,
    statistic: str = "covariance",
    n_draws: int = 10,
    together: Mapping[str, Sequence[str]] | None = None,
    sampler: Drawer | None = None,
    error: str = "fwer",
    alpha: float = 0.05,
) -> tuple[Array, dict[str, Any]]:
    """Return the increase of the squared error when a column is drawn again given all others, with a test by rows.

    The null hypothesis of the test is that the response is independent of the column given the other columns. So noise
    that is correlated with a relevant column has mean 0, which is not so for ``permutation`` and ``mdi_oob``. The trees
    stay as they are. Rows must be rows the model has not seen.

    Parameters
    ----------
    statistic : {"covariance", "loss"}
        "covariance": twice the product of two residuals of each row given the other columns, that of the response and
        that of the prediction (Shah and Peters 2020; Lundborg et al. 2024); the test also looks at the residual of the
        column itself, and allows for errors of the regressions. "loss": the difference of squared errors with drawn and
        true values (CPI, Watson and Wright 2021). Both have the same mean if the sampler is right. Only the first has a
        mean near 0 for noise if the sampler is slightly wrong, and only the first says if it cannot test a column.
    n_draws : int
        Number of draws of each column for each row.
    together : mapping of str to sequence of str, optional
        Groups of columns to draw together. The columns of a group share its score equally, and have its p-value.
    sampler : callable, optional
        The conditional distribution, if you know it: ``sampler(X, columns, generator)`` returns one draw of the columns
        with numbers ``columns`` for every row of X, shape (n_rows, len(columns)). X has the columns of the model as
        numbers, categories as their codes.
    error : {"fwer", "fdr", "fdr_by"}
        Error rate of the adjusted p-values: family-wise (Holm), or false discovery rate (Benjamini-Hochberg,
        Benjamini-Yekutieli). Columns without a split do not count.
    alpha : float
        Columns with an adjusted p-value of at most this are selected.

    Returns
    -------
    (array of shape (n_features,), dict)
        With p-values and standard errors by rows, which become fields of :class:`debias.Scores`.
        ``details["untested_features"]`` has the columns that could not be tested, with the reason; they are not
        selected, which is no evidence against them. For each column, None for columns without a split:
        ``details["explained"]``, the share of its variance that the other columns explain (None if `sampler` is
        passed); ``details["allowance"]``, the most by which errors of the regressions may move its statistic, in
        standard errors; ``details["p_plain"]``, the p-value without this allowance. ``details["seed"]`` is the seed,
        drawn at random if none was passed.

    Raises
    ------
    CompositionError
        An option is out of range, or the rows are out-of-bag rows.
    RowsError
        The rows are training rows, there are fewer than 20, or groups overlap or name an unknown column.

    Notes
    -----
    The squared error is that of the prediction on the scale of the response; for classes it is the Brier score, summed
    over the classes. A model of something else than a mean (a quantile, a custom objective) is tested too; its score is
    then twice the covariance of response and output given the other columns.

    The regressions on the other columns are estimates, made from these rows and from training rows if they are passed
    (``train=``). What they miss of the column *and* of the response looks like a signal. The p-values allow for what
    the learning curves show of this. A column is untested if the allowance is above 1 standard error and the column is
    not selected, or if it would be selected only without the allowance. Dependence that no regression finds at all is
    not seen by the allowance either: several jumps that depend on many columns at once, and codes with more values than
    one for 6 rows. The documentation has measured levels. A feature without a split has score 0 and p-value 1.

    References
    ----------
    Watson and Wright (2021), Machine Learning 110, 2107-2129. Shah and Peters (2020), Annals of Statistics 48,
    1514-1538. Lundborg, Kim, Shah and Samworth (2024), Annals of Statistics 52 (projected covariance measure). Blesch
    et al. (2025), AAAI 39, arXiv 2501.11178 (conditional samplers from leaves of forests). Breiman (1996), Machine
    Learning 24, 49-64 (stacked regressions). Rasmussen and Williams (2006), Gaussian Processes for Machine Learning.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import debias
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 3))
    >>> X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]  # of no use once column 0 is known
    >>> y = X[:, 0] + X[:, 2] + rng.normal(size=600)
    >>> forest = RandomForestRegressor(50, max_features=1, random_state=0).fit(X[:300], y[:300])
    >>> scores = debias.score(forest, X[300:], y[300:], "conditional_importance", rows="held-out", random_state=0)
    >>> scores.selected
    array([ True, False,  True])
    """
    _check_options(statistic, n_draws, sampler)
    check_procedure(error, alpha)
    refuse_seen_rows(rows, "conditional_importance")
    if not ensemble.objective.predicts_response:
        raise CompositionError(
            "conditional_importance compares predictions with y, and those of this model are not on the scale of y "
            f"({ensemble.objective.name})"
        )
    grouping = Grouping.of(together, ensemble.feature_names)
    group, size = grouping.index, np.bincount(grouping.index)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if rows.seed is None else int(rows.seed)
    used_rows = np.flatnonzero(rows.weight > 0)
    if used_rows.size < FEWEST_ROWS:
        raise RowsError(
            f"conditional_importance fits regressions to the rows, and there are {used_rows.size} with a weight above "
            f"0: pass at least {FEWEST_ROWS} rows the model has not seen"
        )
    work = _Work(ensemble, rows, used_rows, grouping, statistic, n_draws, sampler, seed)
    tested = np.unique(group[ensemble.feature[ensemble.splits]])
    terms = work.terms(tested)
    blocks = None if rows.blocks is None else rows.blocks[used_rows]
    found = terms.verdict(rows.weight[used_rows], blocks, error, alpha)
    details: dict[str, Any] = {**found.test.details(alpha, blocks is not None), "statistic": statistic}
    for name, absent in (("standard_error", 0.0), ("z", 0.0), ("p_value", 1.0), ("p_adjusted", 1.0)):
        details[name] = _spread(details[name], tested, group, absent)
    details["standard_error"] = details["standard_error"] / size[group]
    details["selected"] = details["p_adjusted"] <= alpha
    details["test"]["n_tested"] = int(tested.size)
    effective = _spread(found.test.effective, tested, group, float(used_rows.size))
    details["test"]["effective_rows"] = [float(f"{number:.6g}") for number in effective]
    reasons = {int(g): reason for g, reason in zip(tested, found.reasons, strict=True) if reason}
    if reasons:
        names = zip(ensemble.feature_names, group.tolist(), strict=True)
        details["untested_features"] = {name: reasons[g] for name, g in names if g in reasons}
    details |= {"n_draws": n_draws, "seed": seed, "warnings": work.warnings(tested, terms.explained, found.untested)}
    for name, values in (("explained", terms.explained), ("allowance", found.allowance), ("p_plain", found.p_plain)):
        spread = _spread(values, tested, group, np.nan)
        details[name] = [None if np.isnan(value) else float(value) for value in spread]
    score = _spread(found.test.mean, tested, group, 0.0)
    if together:
        details["together"] = {name: float(score[group == grouping.names.index(name)][0]) for name in together}
    return score / size[group], details


@debias.plugin.hookimpl
def debias_scorers() -> Sequence[debias.plugin.Scorer]:
    """Return conditional importance."""
    return [conditional_importance]


class _Work:
    """The rows of one call, and what is computed once for all columns.

    The regressions know the rows and the training rows, if these were passed. They predict each row without its block.
    """

    def __init__(
        self,
        ensemble: TreeEnsemble,
        rows: Rows,
        used: NDArray[np.int64],
        grouping: Grouping,
        statistic: str,
        n_draws: int,
        sampler: Drawer | None,
        seed: int,
    ) -> None:
        self.ensemble, self.rows, self.used, self.grouping = ensemble, rows, used, grouping
        self.statistic, self.n_draws, self.sampler, self.seed = statistic, n_draws, sampler, seed
        self.X = rows.table.matrix(ensemble, used)
        self.weight = rows.weight[used]
        self.categorical = categorical_features(ensemble)
        two = ensemble.classes is not None and len(ensemble.classes) == 2
        self.n_classes_a_column = 2 if two else 1  # the errors of both classes are equal, so one is computed
        parts = [(rows, used)]
        if rows.train is not None:
            parts.append((rows.train, np.flatnonzero(rows.train.weight > 0)))
        response = np.concatenate([_response(ensemble, part)[at] for part, at in parts])
        self.response = response[:, -1:] if two else response
        self.known = np.concatenate([part.table.matrix(ensemble, at) for part, at in parts]).astype(np.float64)
        self.known_weight = np.concatenate([part.weight[at] for part, at in parts])
        self.blocks = _blocks(parts)
        if int(self.blocks[: used.size].max()) == 0:
            raise RowsError("all rows with a weight above 0 are in one block: p-values need at least two blocks")
        if np.isinf(self.known).any():
            name = ensemble.feature_names[int(np.isinf(self.known).any(axis=0).argmax())]
            raise RowsError(
                f"column {name!r} has an infinite value, and conditional_importance fits regressions to the columns: "
                "replace it by a missing value or a large number"
            )
        n_splits = np.bincount(ensemble.feature[ensemble.splits], minlength=ensemble.n_features)
        if rows.train is None:
            self.design = Design.of(self.known, self.categorical, n_splits)
        else:  # column and response may follow the others in another way since the training
            is_new = np.arange(len(self.known)) < used.size
            self.design = Design.of(
                np.column_stack([self.known, is_new]),
                np.append(self.categorical, False),
                np.append(n_splits, n_splits.max() + 1),
            )

    def terms(self, tested: NDArray[np.int64]) -> RowTerms:
        """Return the terms of every row for each of some groups.

        The groups are taken some at a time, because their draws are held in memory.
        """
        from threadpoolctl import threadpool_limits

        n = self.used.size
        terms = RowTerms.empty(n, tested.size)
        unchanged = self._outputs(self.X, tested[:0])[0]
        step = max(1, NUMBERS_AT_ONCE // (n * max(self.n_draws, self.ensemble.n_outputs)))
        by_loss = self.statistic == "loss"
        # The matrices are small: several threads of linear algebra for each only wait for one another.
        with threadpool_limits(1), allowed(self.rows.n_jobs) as threads, task("regressions", tested.size) as advance:

            def fitted(g: np.int64) -> tuple[Regressions, NDArray[np.floating[Any]]]:
                features = np.flatnonzero(self.grouping.index == g)
                regressions = self._regressions(features)
                advance()
                return regressions, self._draws(features, regressions)

            for begin in range(0, tested.size, step):
                part = tested[begin : begin + step]
                fits = threads.map(fitted, part)
                mean = np.zeros((part.size, n, unchanged.shape[1]))
                loss = np.zeros((part.size, n))
                for draw in range(self.n_draws):
                    values = self.X.copy()
                    for g, (_, drawn) in zip(part, fits, strict=True):
                        values[:, self.grouping.index == g] = drawn[draw]
                    outputs = self._outputs(values, part)
                    mean += outputs / self.n_draws
                    loss += ((self.response[:n] - outputs) ** 2).sum(axis=2) / self.n_draws
                before = ((self.response[:n] - unchanged) ** 2).sum(axis=1)
                for k, (regressions, _) in enumerate(fits):
                    terms.explained[begin + k] = regressions.explained
                    if by_loss:
                        terms.of_model[:, begin + k] = self.n_classes_a_column * (loss[k] - before)
                    else:
                        terms.fill(begin + k, regressions, unchanged - mean[k], self.weight)
        return terms if by_loss else replace(terms, of_model=2 * self.n_classes_a_column * terms.of_model)

    def warnings(self, tested: NDArray[np.int64], explained: Array, untested: NDArray[np.bool_]) -> list[str]:
        """Return what users should know about these rows and columns."""
        texts = []
        if self.used.size < FEW_ROWS:
            texts.append(
                f"conditional_importance has only {self.used.size} rows: its regressions on the other columns are "
                "rough, so its p-values are too"
            )
        near = [self.grouping.names[g] for g, share in zip(tested, explained, strict=True) if share > NEARLY_A_FUNCTION]
        if near:
            texts.append(
                f"the other columns explain more than {NEARLY_A_FUNCTION:.0%} of {', '.join(map(repr, near[:5]))}"
                f"{' and others' if len(near) > 5 else ''}: a conditional test has almost no power there, and is "
                "sensitive to errors of the sampler. Score such columns as a group, with together="
            )
        if untested.any():
            names = [self.grouping.names[g] for g in tested[untested]]
            texts.append(
                f"conditional_importance could not test {', '.join(map(repr, names[:5]))}"
                f"{' and others' if len(names) > 5 else ''}: the regressions on the other columns are too rough, as "
                f"details['untested_features'] says. Pass more rows{'' if self.rows.train else ', and train='}"
            )
        return texts

    def _regressions(self, features: NDArray[np.int64]) -> Regressions:
        """Return what the other columns say of some features, and of the response."""
        generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(int(features[0]), 1)))
        return Regressions.fit(
            self.known[:, features],
            self.categorical[features],
            self.response[:, :0] if self.statistic == "loss" else self.response,
            self.design.without(features),
            self.known_weight,
            self.blocks,
            known_sampler=self.sampler is not None,
            generator=generator,
        )

    def _draws(self, features: NDArray[np.int64], regressions: Regressions) -> NDArray[np.floating[Any]]:
        """Return draws of some features, shape (n_draws, n_rows, n_features of the group)."""
        generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(int(features[0]),)))
        if self.sampler is not None:
            drawn = np.stack([self._given_draw(self.sampler, features, generator) for _ in range(self.n_draws)])
        else:
            drawn = regressions.draws(self.known[:, features], self.n_draws, self.used.size, generator)
        return drawn.astype(self.X.dtype)

    def _given_draw(self, sampler: Drawer, features: NDArray[np.int64], generator: np.random.Generator) -> Array:
        X = self.known[: self.used.size].copy()
        drawn = np.asarray(sampler(X, features, generator), dtype=np.float64)
        if drawn.shape != (self.used.size, features.size):
            raise CompositionError(
                f"sampler returned shape {drawn.shape} for {self.used.size} rows and columns {features.tolist()}: "
                f"return one draw of them for every row, shape ({self.used.size}, {features.size})"
            )
        if np.isinf(drawn).any() or (np.isnan(drawn).any() and not np.isnan(X[:, features]).any()):
            raise CompositionError(f"sampler returned draws of the columns {features.tolist()} that are not finite")
        return drawn

    def _outputs(self, values: NDArray[np.floating[Any]], which: NDArray[np.int64]) -> Array:
        """Return predictions on the scale of the response, with each of some groups of columns taken from `values`.

        The shape is (len(which), n_rows, n_outputs). If `which` is empty, there is one output, with nothing changed.
        """
        from debias.trees.routing import tree_nodes
        from debias_plugins.scorers.kernels import permutation as kernels

        ensemble, n = self.ensemble, self.used.size
        number = np.full(len(self.grouping.names), -1)
        number[which] = np.arange(which.size)
        at = np.arange(n)
        both = np.vstack([self.X, values])
        raw = np.zeros((n, max(1, which.size), ensemble.n_outputs))
        for tree in range(ensemble.n_trees):
            value = ensemble.value[ensemble.tree_start[tree] : ensemble.tree_start[tree + 1]]
            first, nodes = int(ensemble.tree_output[tree]), tree_nodes(ensemble, tree)
            kernels.add_permuted_outputs(
                both, at, n + at[None, :], nodes, value, first, number[self.grouping.index], raw
            )
        if ensemble.averaged:
            raw /= ensemble.n_trees
        margin = self.rows.response.margin
        start = ensemble.base if margin is None else margin[self.used]
        output = ensemble.objective.mean(raw.transpose(1, 0, 2) + start)
        return output[:, :, -1:] if self.n_classes_a_column == 2 else output


def _response(ensemble: TreeEnsemble, rows: Rows) -> Array:
    """Return the response on the scale of predictions; classes are one-hot."""
    response = rows.response
    if response.codes is not None:
        assert ensemble.classes is not None
        return np.eye(len(ensemble.classes))[response.codes]
    if response.target is not None:
        target = response.target  # for LightGBM's reg_sqrt it is on the scale of margins
        return np.sign(target) * target**2 if ensemble.objective.root else target
    assert response.values is not None
    return response.values + ensemble.centre


def _blocks(parts: list[tuple[Rows, NDArray[np.int64]]]) -> NDArray[np.int64]:
    """Return the block of every row of some parts from 0 on: a row without blocks is one, and parts share none."""
    blocks: list[NDArray[np.int64]] = []
    for rows, used in parts:
        own = np.arange(used.size) if rows.blocks is None else np.unique(rows.blocks[used], return_inverse=True)[1]
        blocks.append(own + (int(blocks[-1].max()) + 1 if blocks else 0))
    return np.concatenate(blocks)


def _spread(of_tested: Array, tested: NDArray[np.int64], group: NDArray[np.int64], absent: float) -> Array:
    """Return values of the tested groups for every feature; `absent` for features of other groups."""
    of_groups = np.full(int(group.max()) + 1, absent)
    of_groups[tested] = of_tested
    return of_groups[group]


def _check_options(statistic: Any, n_draws: Any, sampler: Any) -> None:
    if statistic not in STATISTICS:
        raise CompositionError(f"statistic={statistic!r} is not one of {', '.join(map(repr, STATISTICS))}")
    if isinstance(n_draws, bool) or not isinstance(n_draws, int) or n_draws < 1:
        raise CompositionError(f"n_draws must be a whole number of 1 or more, not {n_draws!r}")
    if sampler is not None and not callable(sampler):
        raise CompositionError(f"sampler must be a function (X, columns, generator) or None, not {sampler!r}")
