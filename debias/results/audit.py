"""The audit: what the library reports beside debiased scores, in a table and in sentences."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.atomic_files import write_text
from debias.results import sentences, untested
from debias.results import stored as stored_results
from debias.results.scores import Scores
from debias.results.stored import SCHEMA_VERSION
from debias.text import ROWS, feature_index, shown, to_csv

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.gate_outcome import Gate


@dataclass(frozen=True, eq=False)
class Audit:
    """Several scores of one model, side by side.

    Parameters
    ----------
    reported : array of shape (n_features,), or None
        The importance the library itself reports, scaled to sum 1; None if it reports none.
    reported_kind : str
        What the library calls it.
    scores : dict of str to Scores
        By scorer name; ``"mdi_oob"`` is among them.
    n_values : array of int64 of shape (n_features,), or None
        Number of distinct values of each feature on these rows, missing ones apart.
    fingerprints : dict of str to str
        ``model_sha256`` of the trees, ``data_sha256`` of rows, response and weights.

    Notes
    -----
    ``share`` is max(mdi_oob, 0) over its sum: the same unit as `reported`. A feature whose share is 0 explains
    nothing of the response on rows the trees have not seen. How sure that is, `verdict` says.
    """

    reported: NDArray[np.float64] | None
    reported_kind: str
    scores: dict[str, Scores]
    n_values: NDArray[np.int64] | None = None
    fingerprints: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        reported: NDArray[np.float64] | None,
        kind: str,
        scores: dict[str, Scores],
        n_values: NDArray[np.int64] | None = None,
        fingerprints: dict[str, str] | None = None,
    ) -> Audit:
        """Make an audit of unscaled reported figures and scores."""
        if reported is not None:
            reported = np.asarray(reported, dtype=np.float64)
            total = reported.sum()
            reported = reported / total if total > 0 else np.zeros_like(reported)
        return cls(reported, kind, scores, n_values, fingerprints or {})

    @property
    def main(self) -> Scores:
        """The scores the shares are made of."""
        return self.scores["mdi_oob"]

    @property
    def share(self) -> NDArray[np.float64]:
        """max(mdi_oob, 0), scaled to sum 1 (0 throughout if no score is positive), shape (n_features,)."""
        positive = np.maximum(self.main.values, 0.0)
        return positive / positive.sum() if positive.sum() > 0 else positive

    @property
    def tested(self) -> bool:
        """Whether the scores were tested."""
        return self.main.selected is not None

    @property
    def untested_because(self) -> str | None:
        """Why every verdict is "untested" and what to do about it; None if the scores were tested."""
        return untested.reason_of(self.main)

    @property
    def verdict(self) -> list[str]:
        """Feature by feature "informative", "indistinguishable" (from noise, with these rows) or "untested"."""
        if self.main.selected is None:
            return ["untested"] * self.share.size
        return ["informative" if selected else "indistinguishable" for selected in self.main.selected]

    @property
    def unsupported_share(self) -> float | None:
        """Share of the reported importance that falls on features indistinguishable from noise.

        It falls as rows are added, so read it with ``main.n_rows`` and the minimum detectable z, ``main.threshold``.
        None if nothing was tested or reported.
        """
        if self.reported is None or self.main.selected is None:
            return None
        return float(self.reported[~self.main.selected].sum())

    @property
    def provenance(self) -> dict[str, Any]:
        """What was proven about the rows, and which model and versions these are."""
        return {
            **self.main.provenance,
            **self.main.settings,
            "reported": self.reported_kind,
            "n_rows": self.main.n_rows,
            **self.fingerprints,
        }

    @property
    def rows_in_words(self) -> str:
        """What the evaluation rows are called in text."""
        return ROWS[str(self.main.rows)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know, each once."""
        return tuple(dict.fromkeys(note for each in self.scores.values() for note in each.warnings))

    @cached_property
    def table(self) -> pd.DataFrame:
        """Data frame with index ``feature``, sorted by share.

        Columns ``reported``, ``share``, one a scorer, then of ``mdi_oob`` ``standard_error``, ``z``, ``p_value``,
        ``p_adjusted`` (NaN if it was not tested) and ``verdict``; of an audit without a test also
        ``untested_because``. Sorted by ``z``, relevant features of few values come first more often than sorted by
        share.
        """
        import pandas as pd

        columns: dict[str, Any] = {} if self.reported is None else {"reported": self.reported}
        columns["share"] = self.share
        columns |= {name: each.values for name, each in self.scores.items()}
        for name in ("standard_error", "z", "p_value", "p_adjusted"):
            figures = getattr(self.main, name)
            columns[name] = np.full(self.share.size, np.nan) if figures is None else figures
        columns["verdict"] = self.verdict
        if not self.tested:
            columns["untested_because"] = self.untested_because
        frame = pd.DataFrame(columns, index=feature_index(self.main.feature_names))
        return frame.sort_values(["share", "mdi_oob"], ascending=False, kind="stable")

    def summary(self) -> list[str]:
        """Return in sentences what was found, and what the library ranks too high.

        Returns
        -------
        list of str
            What the rows were; how many features are indistinguishable from noise, or why none was tested; at most
            three features whose reported share is at least twice their debiased one and more than 1 percentage point
            above it, and how many more there are.
        """
        return sentences.summary(self)

    def test_summary(self) -> str:
        """Return in a few words how many features are indistinguishable from noise, by which test, at which error rate.

        Returns
        -------
        str
            The second entry of :meth:`summary`. If no feature was tested, why not and what to do.
        """
        return sentences.test_summary(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version."""
        return {
            "schema_version": SCHEMA_VERSION,
            "reported": None if self.reported is None else self.reported.tolist(),
            "reported_kind": self.reported_kind,
            "share": self.share.tolist(),
            "verdict": self.verdict,
            "untested_because": self.untested_because,
            "unsupported_share": self.unsupported_share,
            "n_values": None if self.n_values is None else self.n_values.tolist(),
            "fingerprints": self.fingerprints,
            "provenance": self.provenance,
            "warnings": list(self.warnings),
            "scores": {name: each.to_dict() for name, each in self.scores.items()},
        }

    def to_json(self, path: Any = None, indent: int | None = 2) -> str:
        """Return the audit as JSON, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(), indent=indent, allow_nan=False)
        if path is not None:
            write_text(path, text + "\n")
        return text

    def to_html(self, path: Any = None, title: str | None = None) -> str:
        """Return the audit as one self-contained HTML page, and write it to `path` if one is given.

        Parameters
        ----------
        path : str or Path, optional
        title : str, optional
            What stands on top; the kind of model by default.

        Returns
        -------
        str

        Raises
        ------
        ImportError
            matplotlib or Jinja2 is not installed (``pip install debias-trees[report]``).
        """
        from debias.results.report.html import page

        text = page(self, title)
        if path is not None:
            write_text(path, text)
        return text

    def to_csv(self, path: Any = None) -> str:
        """Return the table as CSV, and write it to `path` if one is given.

        A spreadsheet runs none of it: a name it would take for a formula has an apostrophe before it, and characters
        that are not seen are escaped. Numbers stay as they are. ``audit.table`` has the names as they are.
        """
        text = to_csv(self.table)
        if path is not None:
            write_text(path, text)
        return text

    def check(self, policy: Any, baseline: Audit | None = None) -> Gate:
        """Check the audit against a policy.

        Parameters
        ----------
        policy : mapping of rules, or path of a TOML file
            Rules are the parameters of :class:`debias.results.policy.Policy`.
        baseline : Audit, optional
            Of the model before, for rules that compare.

        Returns
        -------
        Gate
            ``gate.passed``, and one result a rule.

        Raises
        ------
        PolicyError
            The policy is wrong, or compares and there is no baseline.
        RowsError
            The audit is of training rows.
        """
        from debias.results.gate import check

        return check(self, policy, baseline)

    def plot(self, axes: Any = None, most: int = 30) -> Any:
        """Draw debiased shares with their intervals beside the reported ones.

        Parameters
        ----------
        axes : matplotlib Axes, optional
            New ones by default.
        most : int
            At most so many features.

        Returns
        -------
        matplotlib Axes
        """
        from debias.results.report import figures

        return figures.on_axes(figures.draw_shares, self, axes, most)

    def _repr_html_(self) -> str:
        """Show the audit in a notebook; without the packages of reports, its table."""
        from debias.results.report.html import fragment

        try:
            return fragment(self)
        except ImportError:
            return str(self.table.rename(index=shown).to_html())

    @classmethod
    def from_json(cls, text: str | bytes) -> Audit:
        """Read what ``to_json`` returned.

        Raises
        ------
        DebiasError
            It is nothing that ``to_json`` returned, or of another schema version; the message says what is wrong where.
        """
        fields, scores, written = stored_results.read_audit(text)
        audit = cls(scores={name: Scores(**each) for name, each in scores.items()}, **fields)
        stored_results.check_read_audit(audit, written)
        return audit
