"""The audit: the reported importance and debiased scores of one model, with verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.atomic_files import written
from debias.errors import DebiasError
from debias.results import sentences, short_text, untested
from debias.results import stored as stored_results
from debias.results.scores import DEPENDENCE, Scores
from debias.results.stored import SCHEMA_VERSION
from debias.text import feature_index, json_text, shown, to_csv

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.gate_outcome import Gate
    from debias.results.near_duplicates import NearDuplicates
    from debias.results.performance import Performance


@dataclass(frozen=True, eq=False)
class Audit:
    """Several scores of one model, side by side.

    Parameters
    ----------
    reported : array of shape (n_features,), or None
        The importance that the library itself reports, scaled to sum 1; None if it reports none.
    reported_kind : str
        Name of the reported importance in the library.
    scores : dict of str to Scores
        Scores by name of the scorer.
    n_values : array of int64 of shape (n_features,), or None
        Number of distinct values of each feature on these rows, without missing values.
    fingerprints : dict of str to str
        BLAKE3 digests: ``model_blake3`` of the trees, ``data_blake3`` of rows, response and weights.
    main_scorer : str
        Name of the scorer that is tested, and from which the shares are computed.
    near_duplicates : tuple of NearDuplicates, or None
        Sets of informative features whose columns are nearly the same on these rows, so that they may share their
        score. None if that is not known: nothing was tested, or an older debias wrote the audit.
    performance : Performance or None
        How well the model predicts these rows, and whether better than a constant; None if an older debias wrote the
        audit.

    Notes
    -----
    ``share`` is max(score, 0) of the main scorer divided by its sum, so it has the same unit as `reported`. A feature
    with share 0 explains nothing of the response on rows the trees have not seen; `verdict` has the result of the test.
    """

    reported: NDArray[np.float64] | None
    reported_kind: str
    scores: dict[str, Scores]
    n_values: NDArray[np.int64] | None = None
    fingerprints: dict[str, str] = field(default_factory=dict)
    main_scorer: str = "mdi_oob"
    near_duplicates: tuple[NearDuplicates, ...] | None = None
    performance: Performance | None = None

    def __repr__(self) -> str:
        return short_text.of_audit(self)

    @classmethod
    def of(
        cls,
        reported: NDArray[np.float64] | None,
        kind: str,
        scores: dict[str, Scores],
        n_values: NDArray[np.int64] | None = None,
        fingerprints: dict[str, str] | None = None,
        main_scorer: str = "mdi_oob",
        near_duplicates: tuple[NearDuplicates, ...] | None = None,
        performance: Performance | None = None,
    ) -> Audit:
        """Return an audit made from unscaled reported figures and scores."""
        if reported is not None:
            reported = np.asarray(reported, dtype=np.float64)
            total = reported.sum()
            reported = reported / total if total > 0 else np.zeros_like(reported)
        return cls(reported, kind, scores, n_values, fingerprints or {}, main_scorer, near_duplicates, performance)

    @property
    def main(self) -> Scores:
        """The scores that are tested, and from which the shares are computed: ``scores[main_scorer]``."""
        return self.scores[self.main_scorer]

    @property
    def share(self) -> NDArray[np.float64]:
        """max(score, 0) of the main scorer, scaled to sum 1, shape (n_features,); all 0 if no score is positive."""
        positive = np.maximum(self.main.values, 0.0)
        return positive / positive.sum() if positive.sum() > 0 else positive

    @property
    def tested(self) -> bool:
        """Whether the scores were tested."""
        return self.main.selected is not None

    @property
    def untested_because(self) -> str | None:
        """Why every verdict is "untested" and what to do; None if the scores were tested."""
        return untested.reason_of(self.main)

    @property
    def verdict(self) -> list[str]:
        """One verdict per feature: "informative", "indistinguishable" (from noise, on these rows) or "untested"."""
        if self.main.selected is None:
            return ["untested"] * self.share.size
        words = ["informative" if selected else "indistinguishable" for selected in self.main.selected]
        return [
            "untested" if name in self.untested_features else word
            for name, word in zip(self.main.feature_names, words, strict=True)
        ]

    @property
    def untested_features(self) -> dict[str, str]:
        """Features that a test of the others could not test, with the reason: these rows differ at none of its splits.

        Their columns are empty or constant, or no row reaches their splits. Such a score is 0 whatever the response is.
        """
        return dict(self.main.details.get(untested.FEATURES, {})) if self.tested else {}

    def where_tested(self, figures: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return figures of the main scorer with NaN for the features that these rows could not test.

        Parameters
        ----------
        figures : array of shape (n_features,)

        Returns
        -------
        array of shape (n_features,)
        """
        return np.where([name in self.untested_features for name in self.main.feature_names], np.nan, figures)

    @property
    def dependence(self) -> list[str] | None:
        """Whether the response depends on each feature, within the nodes of the trees; None if this was not asked.

        "dependent", "not detected" or "untested", from the combined test of ``honest_effects``. A feature may be
        "dependent" and yet "indistinguishable": the response depends on it, but this model hardly uses it.
        """
        scores = self.scores.get(DEPENDENCE)
        if scores is None:
            return None
        if scores.selected is None:
            return ["untested"] * self.share.size if "untested_because" in scores.details else None
        return [
            "dependent" if selected else "untested" if name in self.untested_features else "not detected"
            for name, selected in zip(self.main.feature_names, scores.selected, strict=True)
        ]

    @property
    def unsupported_share(self) -> float | None:
        """Share of the reported importance that belongs to features indistinguishable from noise.

        It gets smaller with more rows, so read it together with ``main.n_rows`` and the minimum detectable z,
        ``main.threshold``. Features that could not be tested are not part of it. None if no feature was tested or no
        importance is reported.
        """
        if self.reported is None or self.main.selected is None:
            return None
        return self._reported_by("indistinguishable")

    @property
    def untested_share(self) -> float:
        """Share of the reported importance that belongs to features that were not tested."""
        return self._reported_by("untested")

    def _reported_by(self, verdict: str) -> float:
        return 0.0 if self.reported is None else float(self.reported[np.array(self.verdict) == verdict].sum())

    @property
    def provenance(self) -> dict[str, Any]:
        """What is known about the rows, and the model, versions, seed and fingerprints."""
        return {
            **self.main.provenance,
            **self.main.settings,
            "reported": self.reported_kind,
            "n_rows": self.main.n_rows,
            **self.fingerprints,
        }

    @property
    def rows_in_words(self) -> str:
        """The kind of the evaluation rows as text: "out-of-bag", "held-out", "assumed held-out" or "training"."""
        return self.main.rows_in_words

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all scores, each once."""
        return tuple(dict.fromkeys(text for scores in self.scores.values() for text in scores.warnings))

    @cached_property
    def table(self) -> pd.DataFrame:
        """Data frame with index ``feature``, sorted by share.

        Columns: ``reported``, ``share``, one column per scorer, then for the main scorer the columns
        ``standard_error`` (with the splits fixed), ``z``, ``p_value``, ``p_adjusted`` and ``verdict``. All of them and
        the share are NaN for features that these rows could not test. ``untested_because`` is there if a feature was
        not tested, and ``unproven_because`` for held-out rows that may contain training rows.
        ``dependence_p_adjusted`` and ``dependence`` are there if dependence was tested too.
        Sort by ``honest_effects`` or ``z`` to see relevant features with few values near the top more often.
        """
        import pandas as pd

        columns: dict[str, Any] = {} if self.reported is None else {"reported": self.reported}
        columns["share"] = self.where_tested(self.share)
        columns |= {name: scores.values for name, scores in self.scores.items()}
        columns[self.main_scorer] = self.where_tested(self.main.values)
        for name in ("standard_error", "z", "p_value", "p_adjusted"):
            figures = getattr(self.main, name)
            columns[name] = np.full(self.share.size, np.nan) if figures is None else self.where_tested(figures)
        columns["verdict"] = self.verdict
        if self.main.unproven_because is not None:
            columns["unproven_because"] = self.main.unproven_because
        if not self.tested:
            columns["untested_because"] = self.untested_because
        elif self.untested_features:
            columns["untested_because"] = [self.untested_features.get(name, "") for name in self.main.feature_names]
        if self.dependence is not None:
            p_adjusted = self.scores[DEPENDENCE].p_adjusted
            known = np.array(self.dependence) != "untested"
            columns["dependence_p_adjusted"] = np.nan if p_adjusted is None else np.where(known, p_adjusted, np.nan)
            columns["dependence"] = self.dependence
        frame = pd.DataFrame(columns, index=feature_index(self.main.feature_names))
        return frame.sort_values(["share", self.main_scorer], ascending=False, kind="stable")

    def summary(self) -> list[str]:
        """Return the result in sentences: what matters, what the model ranks too high, then what cannot be told.

        Returns
        -------
        list of str
            If the model predicts these rows no better than a constant, that comes first. Then the informative features,
            the strongest first: at most five names, and how many more there are. A possible leak of the response
            (docs/report.md), and informative columns that are nearly the same. At most three features whose reported
            share is at least twice their debiased share and more than 1 percentage point above it, and how many more
            there are. Then :meth:`test_summary`, dependence, how well the model predicts the rows, and what they are.
            If nothing was tested, the reason and the rows come before the features.
        """
        return sentences.summary(self)

    def test_summary(self) -> str:
        """Return the number of features indistinguishable from noise, and the test and error rate, in sentences.

        Returns
        -------
        str
            One of the sentences of :meth:`summary`. If no feature was tested, it is the first, and says why and what to
            do.
        """
        return sentences.test_summary(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version."""
        sets = self.near_duplicates
        return {
            "schema_version": SCHEMA_VERSION,
            "reported": None if self.reported is None else self.reported.tolist(),
            "reported_kind": self.reported_kind,
            "main_scorer": self.main_scorer,
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

    def to_json(self, path: Any = None, indent: int | None = 2) -> str:
        """Return the audit as JSON, and write it to `path` if that is not None."""
        return written(path, json_text(self.to_dict(), indent=indent, allow_nan=False), end="\n")

    def to_html(self, path: Any = None, title: str | None = None) -> str:
        """Return the audit as one self-contained HTML page, and write it to `path` if that is not None.

        Parameters
        ----------
        path : str or Path, optional
        title : str, optional
            Title of the page. By default it names the kind of model.

        Returns
        -------
        str

        Raises
        ------
        ImportError
            matplotlib or Jinja2 is not installed (``pip install matplotlib jinja2``).
        """
        from debias.results.report.html import page

        return written(path, page(self, title))

    def to_csv(self, path: Any = None) -> str:
        """Return the table as CSV, and write it to `path` if that is not None.

        The file is safe to open in a spreadsheet: a name that looks like a formula gets an apostrophe in front, and
        invisible characters are escaped. Numbers are unchanged. ``audit.table`` has the original names.
        """
        return written(path, to_csv(self.table))

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

    def plot(self, axes: Any = None, most: int = 30) -> Any:
        """Draw debiased shares with their 95% intervals (splits fixed), and the reported shares.

        Parameters
        ----------
        axes : matplotlib Axes, optional
            New axes by default.
        most : int
            Draw at most this many features: those reported highest (10, but at most half of `most`), then the
            informative ones with the largest scores. A last line stands for the others.

        Returns
        -------
        matplotlib Axes
        """
        from debias.results.report import figures

        return figures.on_axes(figures.draw_shares, self, axes, most)

    def _repr_html_(self) -> str:
        """Return the audit as HTML for a notebook, or only its table if a package for reports is missing."""
        from debias.results.report.html import fragment

        try:
            return fragment(self)
        except ImportError:
            return str(self.table.rename(index=shown).to_html())

    @classmethod
    def from_json(cls, text: str | bytes) -> Audit:
        """Return the audit that ``to_json`` wrote.

        Raises
        ------
        DebiasError
            ``to_json`` did not write this text, or it has another schema version. The message says what is wrong.
        """
        fields, scores, derived = stored_results.read_audit(text)
        audit = cls(scores={name: Scores(**plain) for name, plain in scores.items()}, **fields)
        stored_results.check_read_audit(audit, derived)
        return audit

    @classmethod
    def from_file(cls, path: Any) -> Audit:
        """Return the audit in a file that ``to_json`` wrote.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        DebiasError
            As for :meth:`from_json`; the message begins with the path.
        OSError
            The file cannot be read.
        """
        with open(path, "rb") as file:  # a shell may have written UTF-16, which the JSON reader detects
            text = file.read()
        try:
            return cls.from_json(text)
        except DebiasError as error:
            raise DebiasError(f"{path}: {error}") from None
