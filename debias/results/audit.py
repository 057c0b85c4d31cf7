"""The audit: the reported importance and debiased scores of one model, with verdicts.

Over 500 lines, because one result has one class: half are docstrings of its fields and views, for its readers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias import p_values
from debias.atomic_files import written
from debias.errors import DebiasError
from debias.results import console, rest, sentences, stored, untested
from debias.results.base import ReportedResult
from debias.results.fields import SCHEMA_VERSION
from debias.results.report import figures
from debias.results.scores import Scores
from debias.results.vocabulary import (
    DEPENDENCE,
    ERROR_RATE_OF_INFLATION,
    UNUSED,
    Dependence,
    Finding,
    Verdict,
)
from debias.text import feature_index

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.gate_outcome import Gate
    from debias.results.performance import NearDuplicates, Performance
    from debias.results.rest import Rest
    from debias.results.rows_needed import RowsNeeded

_FINDINGS = {Verdict.INFORMATIVE: Finding.CONFIRMED, Verdict.UNTESTED: Finding.UNTESTED}
"""What is found about a feature by its verdict,"""
_NOT_INFORMATIVE = {
    Dependence.DEPENDENT: Finding.RELATED,
    Dependence.NOT_DETECTED: Finding.UNCONFIRMED,
    Dependence.UNTESTED: Finding.UNCONFIRMED,
}
"""and about an indistinguishable one by the test of dependence."""
_NOT_USED = {Finding.RELATED: Finding.RELATED_UNUSED, Finding.UNCONFIRMED: Finding.UNUSED}
"""and if no tree splits on it."""
NOT_COMPUTED = "the reported importance was not computed on these rows"


@dataclass(frozen=True, eq=False, repr=False)
class Audit(ReportedResult):
    """Several scores of one model, side by side.

    Parameters
    ----------
    reported : array of shape (n_features,), or None
        The importance that the library itself reports, scaled to sum 1; None if it reports none.
    reported_kind : str
        Name of the reported importance in the library.
    reported_unseen : array of shape (n_features,), or None
        The same figure, computed on the evaluation rows: entries below 0 set to 0, scaled to sum 1. Of `reported` and
        this one can say that a feature is reported too high, since both have one unit. None if it was not computed.
    no_unseen_because : str or None
        Why `reported_unseen` is None.
    reported_unseen_error : array of shape (n_features,), or None
        Standard errors of `reported_unseen`, for other rows and these trees: by a jackknife over 20 groups of rows
        (blocks), with 19 degrees of freedom. None if `reported_unseen` is, if the rows came in batches, or if there are
        fewer than 20 rows (blocks).
    inflation_p : array of shape (n_features,), or None
        One-sided p-values of the hypothesis that the same figure on other rows has the reported share, by t-tests with
        these errors, before figures below 0 are set to 0. Not adjusted for the number of features. None without errors.
    scores : dict of str to Scores
        Scores by name of the scorer.
    n_values : array of int64 of shape (n_features,), or None
        Number of distinct values of each feature on these rows, without missing values.
    fingerprints : dict of str to str
        BLAKE3 digests: ``model_blake3`` of the trees, ``data_blake3`` of rows, response and weights.
    tested_scorer : str
        Name of the scorer whose scores are tested, and from which the shares are computed.
    near_duplicates : tuple of NearDuplicates, or None
        Sets of informative features whose columns are nearly the same on these rows, so that they may share their
        score. None if that is not known: nothing was tested.
    performance : Performance or None
        How well the model predicts these rows, and whether better than a constant; None if that was not computed.

    Notes
    -----
    ``share`` is max(score, 0) of the tested scorer divided by its sum. A feature with share 0 explains nothing of the
    response on rows the trees have not seen; `verdict` has the result of the test. Libraries report figures in other
    units (gains, numbers of splits), so compare `share` among features, and `reported` with `reported_unseen`.
    """

    WRITTEN_AS: ClassVar[str] = Scores.WRITTEN_AS

    reported: NDArray[np.float64] | None
    reported_kind: str
    scores: dict[str, Scores]
    n_values: NDArray[np.int64] | None = None
    fingerprints: dict[str, str] = field(default_factory=dict)
    tested_scorer: str = "mdi_oob"
    near_duplicates: tuple[NearDuplicates, ...] | None = None
    performance: Performance | None = None
    reported_unseen: NDArray[np.float64] | None = None
    no_unseen_because: str | None = None
    reported_unseen_error: NDArray[np.float64] | None = None
    inflation_p: NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        return console.short_audit(self)

    @classmethod
    def of(
        cls,
        reported: NDArray[np.float64] | None,
        kind: str,
        scores: dict[str, Scores],
        n_values: NDArray[np.int64] | None = None,
        fingerprints: dict[str, str] | None = None,
        tested_scorer: str = "mdi_oob",
        near_duplicates: tuple[NearDuplicates, ...] | None = None,
        performance: Performance | None = None,
        reported_unseen: NDArray[np.float64] | None = None,
        no_unseen_because: str | None = None,
        reported_unseen_error: NDArray[np.float64] | None = None,
        inflation_p: NDArray[np.float64] | None = None,
    ) -> Audit:
        """Return an audit made from scores and unscaled reported importance, with the same figure on these rows."""
        if reported_unseen is None and no_unseen_because is None:
            no_unseen_because = NOT_COMPUTED
        return cls(
            None if reported is None else _shares(reported),
            kind,
            scores,
            n_values,
            fingerprints or {},
            tested_scorer,
            near_duplicates,
            performance,
            None if reported_unseen is None else _shares(np.maximum(reported_unseen, 0.0)),
            no_unseen_because,
            reported_unseen_error,
            inflation_p,
        )

    @property
    def tested_scores(self) -> Scores:
        """The scores of `tested_scorer`, from which the shares are computed. :attr:`tested` is False without a test."""
        return self.scores[self.tested_scorer]

    @property
    def share(self) -> NDArray[np.float64]:
        """max(score, 0) of the tested scorer, scaled to sum 1, shape (n_features,); all 0 if no score is positive."""
        return _shares(np.maximum(self.tested_scores.values, 0.0))

    @property
    def strongest_first(self) -> NDArray[np.int64]:
        """Positions of the features, the largest share first, as in :meth:`to_frame`.

        Of features without a share, those with the larger score come first, then those that no tree splits on, and
        those that these rows could not test.
        """
        names, scores = self.tested_scores.feature_names, self.tested_scores.values
        unused, untested_features = set(self.unused_features), self.untested_features
        without_score = np.array([2 if name in untested_features else int(name in unused) for name in names])
        return np.lexsort((-scores, without_score, -self.share)).astype(np.int64)

    @property
    def inflation(self) -> NDArray[np.float64] | None:
        """`reported` less `reported_unseen`, shape (n_features,): how much too high the library reports each feature.

        NaN for features that these rows could not test. None if it is not known: on training rows, if nothing was
        reported or computed on these rows, or if no feature has a figure above 0 on them.
        """
        if self.reported is None or self.reported_unseen is None or not self.reported_unseen.any():
            return None
        return self.where_tested(self.reported - self.reported_unseen)

    @property
    def inflation_shown(self) -> NDArray[np.bool_] | None:
        """Whether the inflation of each feature is more than chance in the rows explains, shape (n_features,).

        By `inflation_p`, at a false discovery rate of 5 % over the features that these rows could test (Benjamini and
        Hochberg). The reported figure is that of this model, so it has no error. None if it is not known.
        """
        if self.inflation is None or self.inflation_p is None:
            return None
        told = ~np.isnan(self.inflation)
        shown = np.zeros(told.size, dtype=bool)
        shown[told] = p_values.false_discovery(self.inflation_p[told]) <= ERROR_RATE_OF_INFLATION
        return shown

    @property
    def tested(self) -> bool:
        """Whether the scores were tested."""
        return self.tested_scores.selected is not None

    @property
    def untested_because(self) -> str | None:
        """Why every verdict is "untested" and what to do; None if the scores were tested."""
        return untested.reason_of(self.tested_scores)

    @property
    def verdict(self) -> list[Verdict]:
        """One verdict per feature: "informative", "indistinguishable" (not confirmed alone) or "untested"."""
        scores = self.tested_scores
        return untested.verdicts_of(scores.feature_names, scores.selected, self.untested_features)

    def which(self, verdict: Verdict | str) -> NDArray[np.bool_]:
        """Return for each feature whether it has this verdict.

        Parameters
        ----------
        verdict : {"informative", "indistinguishable", "untested"}

        Returns
        -------
        array of bool of shape (n_features,)
        """
        return np.array([each is Verdict(verdict) for each in self.verdict])

    @property
    def features(self) -> list[str]:
        """Names of the informative features, the strongest first, as in :meth:`to_frame`.

        Features that could not be tested (:attr:`untested_features`) are not among them, and that is no reason to drop
        them.

        Raises
        ------
        DebiasError
            Nothing was tested, or the test could not have found any feature: the audit is no reason to drop features.
        """
        if self.untested_because is not None:
            raise DebiasError(f"the audit says of no feature whether it is informative: {self.untested_because}")
        if self.which(Verdict.UNTESTED).all():
            reason = next(iter(self.untested_features.values()))
            raise DebiasError(
                f"these rows could test none of the features; {self.tested_scores.feature_names[0]}: {reason}"
            )
        informative = self.which(Verdict.INFORMATIVE)
        if not informative.any():
            untested.refuse_powerless(self.tested_scores.details.get("test", {}))
        return [self.tested_scores.feature_names[k] for k in self.strongest_first if informative[k]]

    @property
    def untested_features(self) -> dict[str, str]:
        """Features that a test of the others could not test, with the reason: these rows differ at none of its splits.

        Their columns are empty or constant, or no row reaches their splits. Such a score is 0 whatever the response is.
        """
        return dict(self.tested_scores.details.get(untested.FEATURES, {})) if self.tested else {}

    def where_tested(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values of the tested scorer with NaN for the features that these rows could not test.

        If they could tell nothing about any feature, all are NaN.

        Parameters
        ----------
        values : array of shape (n_features,)

        Returns
        -------
        array of shape (n_features,)
        """
        known = self.untested_features
        if untested.tell_nothing(self.tested_scores):
            return np.full(len(values), np.nan)
        return np.where([name in known for name in self.tested_scores.feature_names], np.nan, values)

    @property
    def dependence(self) -> list[Dependence] | None:
        """Whether the response depends on each feature, within the nodes of the trees; None if this was not asked.

        "dependent", "not detected" or "untested", from the combined test of ``honest_effects``. A feature may be
        "dependent" and yet "indistinguishable": the response depends on it, and what this model does with it is not
        confirmed.
        """
        scores = self.scores.get(DEPENDENCE)
        if scores is None:
            return None
        if scores.selected is None:
            return [Dependence.UNTESTED] * self.share.size if "untested_because" in scores.details else None
        return [
            Dependence.DEPENDENT
            if selected
            else Dependence.UNTESTED
            if name in self.untested_features
            else Dependence.NOT_DETECTED
            for name, selected in zip(self.tested_scores.feature_names, scores.selected, strict=True)
        ]

    @property
    def finding(self) -> list[Finding]:
        """What :attr:`verdict` and :attr:`dependence` say together, in words, for each feature.

        "used and confirmed": the model uses the feature in a way that holds on unseen rows (informative). "related, use
        unconfirmed": the response depends on the feature, but what this model does with it is not more than noise on
        these rows (indistinguishable, but dependent). "unconfirmed alone": these rows do not show a use that holds,
        and no dependence, or dependence was not tested (:attr:`dependence` says which). "related, no
        splits" and "no splits": the same two, where no tree splits on the feature (:attr:`unused_features`).
        "untested".
        """
        dependence = self.dependence or [Dependence.UNTESTED] * self.share.size
        findings = [
            _NOT_INFORMATIVE[found] if verdict is Verdict.INDISTINGUISHABLE else _FINDINGS[verdict]
            for verdict, found in zip(self.verdict, dependence, strict=True)
        ]
        unused, names = set(self.unused_features), self.tested_scores.feature_names
        return [
            _NOT_USED.get(found, found) if name in unused else found
            for name, found in zip(names, findings, strict=True)
        ]

    @property
    def unused_features(self) -> list[str]:
        """The features that no tree of the model splits on, so that its predictions do not depend on them.

        Empty if there are none, if nothing was tested, behind the steps of a pipeline, if columns of the trees are
        combinations of several, and in results of versions that did not look for them.
        """
        return list(self.tested_scores.details.get(UNUSED, []))

    @property
    def rest(self) -> Rest | None:
        """The features that are not confirmed alone, and the test of all of them as one group.

        Weak features may each be too weak for a test of their own, and carry information together. ``rest.informative``
        says whether they do, ``rest.p_value`` how sure that is, and ``rest.features`` which features they are. That is
        about information, not about cost: a model may do without it. None if nothing was tested, or fewer than two
        features are not confirmed alone.
        """
        return rest.rest_of(self)

    @property
    def unsupported_share(self) -> float | None:
        """Share of the reported importance that belongs to features that are not confirmed alone.

        It gets smaller with more rows, so read it together with ``tested_scores.n_rows`` and the minimum detectable z,
        ``tested_scores.threshold``. Features that could not be tested are not part of it. None if no feature was tested
        or no importance is reported.
        """
        if self.reported is None or self.tested_scores.selected is None:
            return None
        return self._reported_by(Verdict.INDISTINGUISHABLE)

    @property
    def untested_share(self) -> float:
        """Share of the reported importance that belongs to features that were not tested."""
        return self._reported_by(Verdict.UNTESTED)

    def _reported_by(self, verdict: Verdict) -> float:
        return 0.0 if self.reported is None else float(self.reported[self.which(verdict)].sum())

    @property
    def provenance(self) -> dict[str, Any]:
        """What is known about the rows, and the model, versions, seed and fingerprints."""
        return {
            **self.tested_scores.provenance,
            **self.tested_scores.settings,
            "reported": self.reported_kind,
            "n_rows": self.tested_scores.n_rows,
            **self.fingerprints,
        }

    @property
    def rows_in_words(self) -> str:
        """The kind of the evaluation rows as text: "out-of-bag", "held-out", "assumed held-out" or "training"."""
        return self.tested_scores.rows_in_words

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all scores, each once."""
        return tuple(dict.fromkeys(text for scores in self.scores.values() for text in scores.warnings))

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature``, sorted by share (:attr:`strongest_first`).

        Columns: ``reported``, ``reported_unseen`` (the same figure on these rows), ``share``, one column per scorer,
        then for the tested scorer the columns
        ``standard_error`` (with the splits fixed), ``z``, ``p_value``, ``p_adjusted`` and ``verdict``. All of them and
        the share are NaN for features that these rows could not test, and then a column ``untested_because`` says why.
        If nothing at all was tested, :attr:`untested_because` says why; rows that can tell nothing have no shares
        (NaN). What is not known about held-out rows is in ``tested_scores.unproven_because``.
        ``dependence_p_adjusted`` and ``dependence`` are there if dependence was tested too. ``finding`` says in words
        what both tests say (:attr:`finding`).

        Sort by ``honest_effects`` or ``z`` to see relevant features with few values near the top more often.
        """
        import pandas as pd

        columns: dict[str, Any] = {} if self.reported is None else {"reported": self.reported}
        if self.reported_unseen is not None:
            columns["reported_unseen"] = self.where_tested(self.reported_unseen)
        columns["share"] = self.where_tested(self.share)
        columns |= {name: scores.values for name, scores in self.scores.items()}
        columns[self.tested_scorer] = self.where_tested(self.tested_scores.values)
        for name in ("standard_error", "z", "p_value", "p_adjusted"):
            values = getattr(self.tested_scores, name)
            columns[name] = np.full(self.share.size, np.nan) if values is None else self.where_tested(values)
        columns["verdict"] = [verdict.value for verdict in self.verdict]
        if self.untested_features:
            columns["untested_because"] = [
                self.untested_features.get(name, "") for name in self.tested_scores.feature_names
            ]
        if self.dependence is not None:
            p_adjusted = self.scores[DEPENDENCE].p_adjusted
            known = np.array([found is not Dependence.UNTESTED for found in self.dependence])
            columns["dependence_p_adjusted"] = np.nan if p_adjusted is None else np.where(known, p_adjusted, np.nan)
            columns["dependence"] = [found.value for found in self.dependence]
        columns["finding"] = [found.value for found in self.finding]
        frame = pd.DataFrame(columns, index=feature_index(self.tested_scores.feature_names))
        return frame.iloc[self.strongest_first]

    def _reservations(self) -> dict[str, str]:
        reasons = {"unproven_because": self.tested_scores.unproven_because, "untested_because": self.untested_because}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def summary(self) -> list[str]:
        """Return the result in sentences: what matters, what the model ranks too high, then what cannot be told.

        Returns
        -------
        list of str
            If the model predicts these rows no better than a constant, that comes first. Then the informative features,
            the strongest first: at most five names, and how many more there are. Whether the other features carry
            information together (:attr:`rest`). A possible leak of the response
            (docs/report.md), and informative columns that are nearly the same. At most three features whose reported
            share is at least twice the same figure on these rows and more than 1 percentage point above it, and how
            many more there are; or why this was not judged. Then :meth:`test_summary`, dependence, how well the model
            predicts the rows, and what they are.
            If nothing was tested, the reason and the rows come before the features.
        """
        return sentences.summary(self)

    def test_summary(self) -> str:
        """Return the number of features that are not confirmed alone, and the test and error rate, in sentences.

        Returns
        -------
        str
            One of the sentences of :meth:`summary`. If no feature was tested, it is the first, and says why and what to
            do.
        """
        return sentences.test_summary(self)

    def rank_interval(self) -> pd.DataFrame:
        """Return simultaneous intervals of the ranks by the tested score: with their level, all of them hold together.

        A feature whose last rank is 3 is among the first three. The level is 1 minus the error rate, .95 by default.

        Returns
        -------
        DataFrame
            Index ``feature``, columns ``first`` and ``last``, the ranks that the feature may have, in the order of
            :meth:`to_frame`. Features that these rows could not test are missing, and may have any rank.

        Raises
        ------
        DebiasError
            The features were not compared: the rows are not held-out rows in memory, or nothing was tested.

        See Also
        --------
        debias.Scores.rank_interval : the same for one scorer, such as ``audit.scores["ablation"]``.

        Examples
        --------
        >>> import debias
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> forest = RandomForestRegressor(random_state=0).fit(X[:250], y[:250])
        >>> audit = debias.audit(forest, X[250:], y[250:], rows="held-out")
        >>> audit.rank_interval().loc["bmi"].tolist()
        [1, 2]
        """
        if self.untested_because is not None:
            raise DebiasError(f"the ranks were not compared: {self.untested_because}")
        ranks = self.tested_scores.rank_interval()
        tested = ~self.which(Verdict.UNTESTED)
        # A feature that was not tested may rank above those that its score of 0 lies below.
        ranks["last"] = np.minimum(ranks["last"] + (~tested).sum(), tested.size)
        return ranks.iloc[[k for k in self.strongest_first if tested[k]]]

    def rows_needed(self, effect: float, power: float = 0.8) -> RowsNeeded:
        """Return how many rows like these find a feature of a given effect, and which effect these rows find.

        Parameters
        ----------
        effect : float
            Score of a feature as a share of the variance of y, such as 0.01.
        power : float
            Probability with which the feature is found.

        Returns
        -------
        RowsNeeded
            ``.rows`` is the number of rows, ``.least_effect`` the effect that these rows find; ``str()`` is a sentence.

        Raises
        ------
        CompositionError
            `effect` or `power` is not between 0 and 1.
        DebiasError
            The audit cannot tell: nothing was tested, the error rate is a false discovery rate, the scores have no
            standard errors, or they are no shares of a variance of y (survival, ranking, other losses, rows in
            batches).

        Notes
        -----
        The plan is for the test of this audit, with this model, and rows of the same kind. It rests on two things that
        hold for all of the tests: a feature is found if its z is above the critical z of the audit
        (``tested_scores.threshold``), and z grows with the square root of the number of rows. Out of bag it also
        assumes that a model of more rows uses the features in the same way (docs/intervals.md has simulations).

        Examples
        --------
        >>> import debias
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
        >>> audit = debias.audit(forest, X, y, random_state=0)
        >>> print(audit.rows_needed(effect=0.01))
        With these 442 rows an effect of 1.9% of the variance is found with probability 0.8; for 1.0% you need about \
930 rows.
        """
        from debias.results.rows_needed import rows_needed

        return rows_needed(self, effect, power)

    def explain(self, feature: str) -> list[str]:
        """Return what the audit says of one feature, in sentences with its numbers.

        Parameters
        ----------
        feature : str
            A feature or group of the audit.

        Returns
        -------
        list of str
            Its ranks and shares; its verdict; whether the response depends on it (if that was not tested, what the rows
            are). A fourth sentence names columns that are nearly the same.

        Raises
        ------
        DebiasError
            The audit has no such feature.

        Examples
        --------
        >>> import debias
        >>> from sklearn.datasets import load_diabetes
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> forest = RandomForestRegressor(random_state=0).fit(X, y)
        >>> print(debias.audit(forest, X, y, random_state=0).explain("sex")[1])
        It is not confirmed alone (z 0.38, adjusted p 0.552, family-wise error rate 5%). This alone is no \
reason to drop it.
        """
        from debias.results.explanation import explanation

        return explanation(self, feature)

    def to_markdown(self, path: Any = None, max_features: int = 15, title: str | None = None) -> str:
        """Return one page of Markdown, as GitHub shows it, and write it to `path` if that is not None.

        Parameters
        ----------
        path : str or Path, optional
        max_features : int
            The table has at most this many features; a line tells of the others.
        title : str, optional
            By default it names the kind of model.

        Returns
        -------
        str
        """
        from debias.results.markdown import markdown

        return written(path, markdown(self, max_features, title))

    def to_dict(self, *, brief: bool = False) -> dict[str, Any]:
        """Return plain Python values, with a schema version.

        Parameters
        ----------
        brief : bool
            Whether to return a short form for dashboards and language models, whose JSON has less than 4 kB: the
            headline, what to keep and to look at, and the features with the largest shares, with numbers of three
            digits (docs/schema/brief.schema.json). :meth:`from_dict` does not read it.

        Returns
        -------
        dict
        """
        if brief:
            from debias.results.brief import brief as in_brief

            return in_brief(self)
        sets = self.near_duplicates
        return {
            "schema_version": SCHEMA_VERSION,
            "reported": None if self.reported is None else self.reported.tolist(),
            "reported_kind": self.reported_kind,
            "reported_unseen": None if self.reported_unseen is None else self.reported_unseen.tolist(),
            "no_unseen_because": self.no_unseen_because,
            "inflation_p": None if self.inflation_p is None else self.inflation_p.tolist(),
            "reported_unseen_error": None
            if self.reported_unseen_error is None
            else self.reported_unseen_error.tolist(),
            "tested_scorer": self.tested_scorer,
            "share": self.share.tolist(),
            "verdict": self.verdict,
            "untested_because": self.untested_because,
            "unsupported_share": self.unsupported_share,
            "n_values": None if self.n_values is None else self.n_values.tolist(),
            "near_duplicates": None if sets is None else [each.to_dict() for each in sets],
            "performance": None if self.performance is None else self.performance.to_dict(),
            "fingerprints": self.fingerprints,
            "provenance": self.provenance,
            "warnings": list(self.warnings),
            "scores": {name: scores.to_dict() for name, scores in self.scores.items()},
        }

    def _page(self, title: str | None) -> str:
        from debias.results.report.html import page

        return page(self, title)

    def check(self, policy: Any, baseline: Audit | None = None) -> Gate:
        """Check the audit against a policy.

        Parameters
        ----------
        policy : mapping of rules, or path of a TOML file
            The rules are the parameters of :class:`debias.results.policy.Policy`.
        baseline : Audit, optional
            Audit of the previous model, for rules that compare.

        Returns
        -------
        Gate
            ``gate.passed``, and one result per rule.

        Raises
        ------
        PolicyError
            The policy is wrong, or it compares and there is no baseline.
        RowsError
            The audit is of training rows.
        """
        from debias.results.gate import check

        return check(self, policy, baseline)

    def plot(self, kind: str = "interval", ax: Any = None, max_features: int = 30) -> Any:
        """Draw the debiased shares, and what the model reports. Colour, pattern and marker show the verdicts.

        Parameters
        ----------
        kind : {"bar", "interval", "slope", "evidence"}
            - "bar": the debiased share as a bar. Diamonds show the reported share, and the same figure on these rows.
            - "interval": the debiased share with its 95% interval (splits fixed), and the same diamonds.
            - "slope": a line from the reported share on the left to the same figure on these rows on the right.
            - "evidence": the test statistic z, and the band in which noise would lie.
        ax : matplotlib Axes, optional
            New axes by default. A new figure has a title, and a note that says what its marks and lines are.
        max_features : int
            Draw at most this many features: those reported highest (10, but at most half of them), then the informative
            ones with the largest scores. A last line stands for the others.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        CompositionError
            There is no such kind; the reported importance was not computed on these rows, which "slope" needs; or the
            scores have no z, which
            "evidence" needs.
        ImportError
            matplotlib is not installed (``pip install matplotlib``).

        See Also
        --------
        debias.partial_dependence : In which direction the model uses features, with the verdicts of an audit.
        """
        return figures.draw_audit(self, kind, ax, max_features)

    def _repr_html_(self) -> str:
        """Return the audit as HTML for a notebook, or only its table if a package for reports is missing."""
        from debias.results.report.html import fragment

        try:
            return fragment(self)
        except ImportError:
            return super()._repr_html_()

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> Audit:
        fields, scores, derived = stored.audit_fields(plain)
        audit = cls(scores={name: Scores(**each) for name, each in scores.items()}, **fields)
        stored.check_read_audit(audit, derived)
        return audit


def _shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values scaled to sum 1; zeros if they have no sum."""
    values = np.asarray(values, dtype=np.float64)
    total = values.sum()
    return values / total if total > 0 else np.zeros_like(values)
