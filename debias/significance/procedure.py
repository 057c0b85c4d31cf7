"""The verdict on scores: the procedure of a test, the table of all methods, and the method that combines two.

:func:`significance` is the entry point. It chooses a method, and the method makes the p-values:
:mod:`debias.significance.permutation`, :mod:`debias.significance.residuals` or :mod:`debias.significance.student`. On
out-of-bag rows the method is the frozen-forest permutation test, or a t-test with the naive standard error or sqrt(2)
times it. On held-out rows it is the test of residuals. Where residuals cannot be tested, the scores are: held-out rows
are independent given the model, so a score is a sum of independent contributions. If many rows count, a t-test is used.
If few count (:func:`debias.significance.contributions.effective_rows`), the response is permuted.

The combined method tests dependence, by the splits of the model or by linear effects at its nodes. The statistic of a
feature is the larger of two studentised scores: that of the model's own splits, and that of lines which are fitted at
every node, whether the model split on the feature there or not (:mod:`debias.rows.effects`). With permutations, the
same larger value is taken in each permutation, so no correction for the two looks is needed. With Student's t
distribution, the smaller of the two p-values is doubled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from debias import p_values
from debias.errors import CompositionError, RowsError
from debias.results.rest import REST
from debias.results.untested import with_reason
from debias.results.vocabulary import RowsKind
from debias.significance.evidence import SHRINKAGE
from debias.significance.method import Tested
from debias.significance.permutation import PERMUTATION
from debias.significance.residuals import FEW_OF_CLASS, RESIDUALS, why_no_residuals
from debias.significance.rest import rest_of
from debias.significance.student import CONSERVATIVE, NAIVE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from debias.results.scores import Scores
    from debias.rows.rows import EvaluationRows
    from debias.significance.evidence import Evidence
    from debias.significance.method import Method
    from debias.warning_log import WarningLog

ErrorMethod = Literal["fwer", "fdr", "fdr_by"]
ERRORS: tuple[str, ...] = get_args(ErrorMethod)
ErrorRate = float | tuple[ErrorMethod, float]
"""A family-wise error rate, or the method and the rate."""
Dependence = Literal["auto", True, False]
NOISE_BESIDE_EFFECTS = (
    f"{FEW_OF_CLASS}: beside strong effects the test then calls noise informative too often (in .13 of simulated data "
    "sets with 5 such rows, instead of .05; docs/significance.md). Audit more rows of the rare classes before a "
    "decision rests on a verdict"
)


@dataclass(frozen=True)
class CombinedMethod:
    """The combined test of splits and linear effects."""

    name: str = "combined"

    def require(self, evidence: Evidence) -> None:
        """Raise a CompositionError if the score has no linear effects, a RowsError if too few blocks are out of bag."""
        if evidence.effects is None:
            raise CompositionError(
                "test='combined' is for honest_effects: it tests linear effects together with the splits of the model. "
                "Score 'honest_effects', or pass test='auto'"
            )

    def test(
        self, evidence: Evidence, node_weight: NDArray[np.float64], procedure: Procedure, log: WarningLog
    ) -> Tested:
        """Test by permutations if they are the best test for these rows, otherwise with Student's t distribution."""
        if evidence.should_permute:
            return PERMUTATION.compare(evidence, node_weight, procedure, log, combined=True)
        of_splits = NAIVE.test_splits(evidence, node_weight, procedure, log)
        of_effects = NAIVE.test_effects(evidence, procedure, log)
        p_value = np.minimum(2 * np.minimum(of_splits.p_value, of_effects.p_value), 1.0)
        p_adjusted = p_values.adjusted(p_value, procedure.error, (of_splits.z != 0) | (of_effects.z != 0))
        return Tested(z=np.maximum(of_splits.z, of_effects.z), p_value=p_value, p_adjusted=p_adjusted, threshold=None)


COMBINED = CombinedMethod()
METHODS: dict[str, Method] = {method.name: method for method in (RESIDUALS, PERMUTATION, CONSERVATIVE, NAIVE, COMBINED)}
"""All methods of testing, by the name that users pass as ``test=``; "auto" chooses among them."""


@dataclass(frozen=True)
class Permutation:
    """A test by permutations, with limits of its own.

    Parameters
    ----------
    n_permutations : int
        Largest number of permutations. docs/results/speed.md has their cost beside the fit of a forest.
    budget : float, optional
        Time limit of the permutations in seconds; no limit by default. The permutations drawn until then are used.
    adaptive : bool
        Whether to stop drawing permutations when every verdict is settled. The risk that all permutations would have
        changed the verdict of a feature is at most 2e-3. P-values are computed from the permutations drawn until then.
    of : {"auto", "residuals", "response"}
        What is permuted. "residuals": as for ``test="residuals"``. "response": as for ``test="permutation"``. "auto":
        residuals of held-out rows, where these can be tested, and otherwise the response.

    Raises
    ------
    CompositionError
        A limit is not a number, or is out of range; or nothing can be permuted by that name.

    Examples
    --------
    >>> import debias
    >>> debias.Permutation(n_permutations=1000, budget=60.0)
    Permutation(n_permutations=1000, budget=60.0, adaptive=True, of='auto')
    """

    n_permutations: int = 200
    budget: float | None = None
    adaptive: bool = True
    of: Literal["auto", "residuals", "response"] = "auto"

    def __post_init__(self) -> None:
        if self.of not in ("auto", "residuals", "response"):
            raise CompositionError(f"of={self.of!r} is not one of 'auto', 'residuals', 'response'")
        if not isinstance(self.adaptive, (bool, np.bool_)):
            raise CompositionError(f"adaptive must be True or False, not {self.adaptive!r}")
        whole = isinstance(self.n_permutations, (int, np.integer)) and not isinstance(self.n_permutations, bool)
        if not whole or self.n_permutations < 1:
            raise CompositionError(f"n_permutations must be a whole number, 1 or more, not {self.n_permutations!r}")
        if self.budget is not None and not (_is_real(self.budget) and self.budget > 0):
            raise CompositionError(f"budget must be a number of seconds above 0, not {self.budget!r}")


TestName = Literal["auto", "residuals", "permutation", "conservative", "naive", "combined", "none"]
Test = TestName | Permutation
"""What users pass as ``test=``, beside None. An audit asks for "combined" by ``dependence=``."""


@dataclass(frozen=True)
class Procedure:
    """The procedure of a test.

    Parameters
    ----------
    test : {"auto", "residuals", "permutation", "conservative", "naive", "combined"}
        "residuals": the test of :mod:`debias.significance.residuals`, for held-out rows. "permutation": the response is
        permuted, the trees are frozen. "conservative": a t-test with sqrt(2) times the naive standard error, for
        out-of-bag rows. "naive": a t-test, for held-out rows. "auto": permutation for out-of-bag rows (conservative if
        fewer than 5 whole blocks per tree are out of bag, or bags have more than 68 % of the rows). For
        held-out rows residuals; where these cannot be tested, permutation if the effective number of rows is at most
        2,000 (:mod:`debias.significance.contributions`), else naive. "combined", which "auto" chooses for linear
        effects: :class:`CombinedMethod`.
    alpha : float
        Error rate.
    error : {"fwer", "fdr", "fdr_by"}
        Family-wise error rate (step-down max-z; Holm for t-tests), or false discovery rate (Benjamini-Hochberg,
        Benjamini-Yekutieli).
    limits : Permutation
        Limits of the permutations, if there are any.
    within_fit : bool
        Whether a test of dependence fits lines in fewer trees where features are many, to take about as long as the
        fit of a forest.
    residuals : bool
        Whether residuals may be tested although `test` does not name them. Folds are combined by their scores.
    """

    test: str = "auto"
    alpha: float = 0.05
    error: str = "fwer"
    limits: Permutation = Permutation()
    within_fit: bool = False
    residuals: bool = False

    @classmethod
    def of(cls, test: Test | None, error_rate: ErrorRate = 0.05, *, adaptive: bool = True) -> Procedure | None:
        """Return the procedure that a user asked for; None for no test.

        Parameters
        ----------
        test, error_rate
            As for :func:`debias.audit`.
        adaptive : bool
            Whether permutations may stop early, if `test` does not say so.

        Raises
        ------
        CompositionError
            There is no such test, or the error rate is none.
        """
        alpha, error = _read(error_rate)
        if test is None or (isinstance(test, str) and test == "none"):
            return None
        if isinstance(test, Permutation):
            limits = replace(test, adaptive=test.adaptive and adaptive)
            method = RESIDUALS if test.of == "residuals" else PERMUTATION
            return cls(method.name, alpha, error, limits, residuals=test.of == "auto")
        if not isinstance(test, str) or test not in ("auto", *METHODS):
            names = ", ".join(map(repr, ("auto", *METHODS)))
            raise CompositionError(f"test={test!r} is not one of {names}, a debias.Permutation, or None for no test")
        return cls(test, alpha, error, Permutation(adaptive=adaptive), residuals=test == "auto")

    @property
    def rows_decide(self) -> bool:
        """Whether the method is chosen by what the rows are."""
        return self.test == "auto"

    def tests_residuals(self, evidence: Evidence) -> bool:
        """Return whether residuals are tested."""
        return self.test == RESIDUALS.name or (self.residuals and why_no_residuals(evidence) is None)

    def method(self, evidence: Evidence) -> Method:
        """Return the method for these rows; raise a CompositionError if it cannot test them."""
        if self.tests_residuals(evidence):
            chosen: Method = RESIDUALS
        elif not self.rows_decide:
            chosen = METHODS[self.test]
        elif evidence.effects is not None:
            chosen = COMBINED
        elif evidence.should_permute:
            chosen = PERMUTATION
        else:
            chosen = CONSERVATIVE if evidence.rows.kind == RowsKind.OOB else NAIVE
        chosen.require(evidence)
        return chosen


@dataclass(frozen=True)
class Tests:
    """What an audit tests: the scores of one scorer, then dependence.

    Parameters
    ----------
    of_scores : Procedure or None
        The test of the scores; None for no test.
    dependence : {True, False, "auto"}
        Whether to test the dependence of the response on the features; "auto": if the rows allow it.
    """

    of_scores: Procedure | None
    dependence: Dependence

    @classmethod
    def asked(cls, test: Test | None, dependence: Dependence, error_rate: ErrorRate) -> Tests:
        """Return the tests that a user asked for.

        Parameters
        ----------
        test, dependence, error_rate
            As for :func:`debias.audit`.

        Raises
        ------
        CompositionError
            An argument has no such value, or dependence is to be tested without a test of the scores.
        """
        if not isinstance(dependence, (bool, np.bool_)) and not (isinstance(dependence, str) and dependence == "auto"):
            raise CompositionError(f'dependence={dependence!r} must be "auto", True or False')
        if isinstance(dependence, np.bool_):
            dependence = bool(dependence)
        if isinstance(test, str) and test == "combined":
            raise CompositionError("test='combined' is a test of dependence: an audit makes it with dependence=True")
        procedure = Procedure.of(test, error_rate)
        if procedure is None and dependence is True:
            raise CompositionError("dependence=True tests, and test=None asks for no test: leave one of the two out")
        return cls(procedure, False if procedure is None else dependence)


def _read(error_rate: Any) -> tuple[float, str]:
    """Return the rate and its method."""
    error, alpha = (
        error_rate if isinstance(error_rate, (tuple, list)) and len(error_rate) == 2 else ("fwer", error_rate)
    )
    if not _is_real(alpha) or not 0 < alpha < 1 or not isinstance(error, str) or error not in ERRORS:
        raise CompositionError(
            f"error_rate={error_rate!r} is not an error rate: pass a number between 0 and 1, such as 0.05, or a method "
            f"({', '.join(map(repr, ERRORS))}) and a number, such as ('fdr', 0.1)"
        )
    return float(alpha), error


def _is_real(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def significance(
    scores: Scores,
    evidence: Evidence,
    procedure: Procedure,
    log: WarningLog,
    *,
    aside: bool = False,
    together: bool = False,
) -> Scores:
    """Return the scores with standard errors, z-values, p-values and decisions.

    Parameters
    ----------
    scores : Scores
        One value for each group of features.
    evidence : Evidence
    procedure : Procedure
    log : WarningLog
        Receives the warnings.
    aside : bool
        Whether this test stands beside another one of the same rows. Then a missing verdict is no warning.
    together : bool
        Whether the features that are not found are tested together too (:mod:`debias.significance.rest`).

    Returns
    -------
    Scores
        Without a verdict if the rows cannot be tested; ``details["untested_because"]`` says why.

    Raises
    ------
    RowsError
        The rows are training rows, or blocks have different sizes and cannot be permuted.
    CompositionError
        The method cannot test these rows, or there are so few permutations that it can never reject.
    """
    _refuse_training_rows(evidence.rows)
    evidence.warn_of_classes(log)
    residuals = procedure.tests_residuals(evidence)
    reason = evidence.no_verdict(RESIDUALS.name if residuals else procedure.test)
    if reason is not None:
        what = "nothing was tested" if evidence.effects is None else "dependence was not tested"
        (log.add if aside else log.warn)(f"{what}: {reason}")
        return replace(with_reason(scores, reason, tell_nothing=True), warnings=tuple(log.texts))
    method = procedure.method(evidence)
    shrinking = evidence.shrinkage
    evidence.warn(method.name, log)
    node_weight, started = evidence.node_weight * shrinking, perf_counter()
    tested = method.test(evidence, node_weight, procedure, log)
    found, seconds = tested.p_adjusted <= procedure.alpha, perf_counter() - started
    rest = rest_of(found, evidence, method, node_weight, procedure, seconds, log) if together else None
    details: dict[str, object] = {
        "method": method.name,
        "alpha": float(procedure.alpha),
        "error": procedure.error,
        "shrinkage": SHRINKAGE if shrinking.min() < 1 and not residuals else 0.0,
        "n_independent": evidence.n_independent,
        "blocks": evidence.has_blocks,
    }
    if procedure.residuals and evidence.rows.kind == RowsKind.HELD_OUT and evidence.effects is None and not residuals:
        details["scores_tested_because"] = because = why_no_residuals(evidence)
        if because == FEW_OF_CLASS and found.any():
            log.add(NOISE_BESIDE_EFFECTS)
    return replace(
        scores,
        standard_error=tested.standard_error,
        z=tested.z,
        p_value=tested.p_value,
        p_adjusted=tested.p_adjusted,
        selected=found,
        threshold=tested.threshold,
        null=tested.null,
        warnings=tuple(log.texts),
        details={**scores.details, "test": details | tested.details, **({REST: rest} if rest else {})},
    )


def _refuse_training_rows(rows: EvaluationRows) -> None:
    if rows.kind == RowsKind.TRAIN:
        raise RowsError(
            "scores on training rows cannot be tested: the trees were fitted to these rows, so every score is above "
            "chance. Pass rows the model has not seen, or pass the training rows of a forest with bags, with rows='oob'"
        )
