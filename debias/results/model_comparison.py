"""How the loss of a new model differs from that of an old one on the same rows: by the base, and by each feature."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.results import console
from debias.results.base import ReportedResult
from debias.results.fields import (
    SCHEMA_VERSION,
    Malformed,
    flag,
    list_of,
    mapping,
    number,
    number_or_missing,
    or_missing,
    plain_numbers,
    record,
    text_of,
    texts,
    tree,
    whole,
    without_version,
)
from debias.results.loss_change import PartOfLoss
from debias.results.sentences import in_a_row
from debias.results.vocabulary import ModelVerdict, error_rate_in_words
from debias.text import counted, escaped, feature_index, few_digits, told_apart, with_sign

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from debias.results.gate_outcome import Gate

KIND = "comparison of two models"
ONLY_MODEL, ONLY_BASELINE = "model", "baseline"
LEAST_UNITS = 10
"""With fewer rows, or blocks of rows, nothing is tested."""
ROUNDING = 1e-6
"""The parts of a file add up to this share of their size."""
EQUAL = 1e-9
"""Losses that differ by less than this, relatively, are equal up to rounding."""
MOST_NAMED = 5
"""A sentence names at most this many features."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ModelComparison(ReportedResult):
    """The losses of a model and of a baseline on the same held-out rows, and by which features they differ.

    ``debias.compare(model, X, y, baseline=old)`` makes it. ``loss.change`` is ``base.change`` plus the sum of
    ``statistics["cost"]``, exactly.

    Parameters
    ----------
    metric : str
        The loss: "log loss", "mean squared error", ...
    feature_names : tuple of str
        Features of either model.
    only_in : tuple of str
        For each feature "model" or "baseline" if only this one has it; otherwise "".
    loss, base : PartOfLoss
        ``before`` is that of the baseline, ``after`` that of the model. The base is the loss of one constant
        prediction: the mean output of each model over its training rows.
    alpha : float
        Family-wise error rate of the features; also the error rate of the difference of the losses.
    statistics : dict of str to array of shape (n_features,)
        See :meth:`to_frame`.
    n_rows, n_units : int
        Number of rows, and of rows or blocks of rows that are independent.
    in_blocks : bool
        Whether the units are blocks of rows.
    settings : dict
        Both models, and the version of debias.
    warnings : tuple of str
        What a reader must know about the rows.

    Notes
    -----
    docs/methods.md has the formulas.
    """

    WRITTEN_AS: ClassVar[str] = "a comparison of two models written by debias (ModelComparison.to_json)"
    STATISTICS: ClassVar[tuple[str, ...]] = (
        "saved_baseline",
        "saved_model",
        "cost",
        "error",
        "p_value",
        "p_adjusted",
    )

    metric: str
    feature_names: tuple[str, ...]
    only_in: tuple[str, ...]
    loss: PartOfLoss
    base: PartOfLoss
    alpha: float
    statistics: dict[str, NDArray[np.float64]]
    n_rows: int
    n_units: int
    in_blocks: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return console.short_models(self)

    @cached_property
    def verdict(self) -> list[ModelVerdict]:
        """One verdict per feature.

        - "saves more": the model saves more loss by the feature than the baseline does, by the adjusted p-value;
        - "saves less";
        - "no difference detected";
        - "not tested": there are fewer than 10 rows (or blocks), no model uses the feature, or it saves the same in
          every row.
        """
        p, cost = self.statistics["p_adjusted"], self.statistics["cost"]
        return [
            ModelVerdict.UNTESTED
            if np.isnan(p[k])
            else ModelVerdict.ALIKE
            if p[k] > self.alpha
            else ModelVerdict.LESS
            if cost[k] > 0
            else ModelVerdict.MORE
            for k in range(p.size)
        ]

    @property
    def p_value(self) -> float:
        """Two-sided p-value of the difference of the losses; NaN if it was not tested."""
        return min(2 * min(self.loss.p_value, self.loss.p_fall), 1.0)

    def found(self, verdict: ModelVerdict) -> list[int]:
        """Return the positions of the features with a verdict, the largest difference first."""
        size = np.abs(self.statistics["cost"])
        return sorted((k for k, each in enumerate(self.verdict) if each is verdict), key=lambda k: -size[k])

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature``, the largest cost first.

        Columns: ``saved_baseline`` and ``saved_model``, the mean loss that each model saves by the feature; ``cost``,
        the difference, above 0 if the model saves less than the baseline, so that its loss is higher; its standard
        error ``error``; ``p_value`` (two-sided) and ``p_adjusted`` (Holm); ``verdict``; and ``only_in``: "model" or
        "baseline" for features that only one of them has. All but the p-values have the unit of the loss.
        """
        import pandas as pd

        frame = pd.DataFrame(self.statistics, index=feature_index(self.feature_names), columns=self.STATISTICS)
        frame["verdict"] = list(map(str, self.verdict))
        frame["only_in"] = list(self.only_in)
        return frame.iloc[np.argsort(-frame["cost"].to_numpy(), kind="stable")]

    def summary(self) -> list[str]:
        """Return in sentences which model predicts better, and by which features.

        Returns
        -------
        list of str
            At most five features of a kind are named.
        """
        return [self.headline, *self._features(), *self._only_in(), *self._test()]

    @property
    def headline(self) -> str:
        """The most important sentence."""
        loss, metric, change = self.loss, escaped(self.metric), with_sign(self.loss.change)
        of_baseline, of_model = told_apart(loss.before, loss.after)
        ends = f"is {of_model}, that of the baseline {of_baseline}"
        if not self._tested:
            units = counted(self.n_units, "block" if self.in_blocks else "row")
            are = "is" if self.n_units == 1 else "are"
            return (
                f"The {metric} of the model {ends} ({change}). {units} {are} too few to tell whether this is "
                "chance, and no feature was tested."
            )
        if self.alike:
            return f"Both models have the same {metric} in every row: {few_digits(loss.after)}."
        if np.isnan(loss.error):
            return f"The {metric} of the model {ends}: the difference ({change}) is the same in every row."
        size = f"({change}, standard error {few_digits(loss.error, 2)})"
        if self.p_value > self.alpha:
            return f"The {metric} of the model {ends} {size}, a difference that may be chance."
        better = "better" if loss.change < 0 else "worse"
        return f"The model predicts these rows {better}: its {metric} {ends} {size}."

    @property
    def alike(self) -> bool:
        """Whether the losses of both models are equal in every row, up to rounding."""
        loss = self.loss
        return self._tested and bool(np.isnan(loss.error)) and abs(loss.change) <= EQUAL * abs(loss.after)

    @property
    def _tested(self) -> bool:
        """Whether there are enough rows to test anything."""
        return self.n_units >= LEAST_UNITS

    def _features(self) -> list[str]:
        cost = self.statistics["cost"]
        if not np.isfinite(self.statistics["p_adjusted"]).any():
            return []
        more, less = self.found(ModelVerdict.MORE), self.found(ModelVerdict.LESS)

        def named(which: list[int]) -> str:
            return in_a_row([f"{escaped(self.feature_names[k])} {with_sign(cost[k])}" for k in which], MOST_NAMED)

        told = [f"{direction} by {named(which)}" for direction, which in (("lower", more), ("higher", less)) if which]
        others = sorted(set(range(cost.size)) - set(more) - set(less))
        parts = [f"the base {self.loss.part_in_words(self.base.change)}"]
        if others:
            noun = counted(len(others), "other feature" if told else "feature")
            parts.append(f"{noun} {'together ' * (len(others) > 1)}{self.loss.part_in_words(cost[others].sum())}")
        if not told:
            return [f"No single feature makes a difference beyond chance: {', '.join(parts)}."]
        return [f"Beyond chance, the loss of the model is {'; '.join(told)}. The rest: {', '.join(parts)}."]

    def _only_in(self) -> list[str]:
        parts = []
        for which, of in ((ONLY_MODEL, "the model"), (ONLY_BASELINE, "the baseline")):
            names = [
                escaped(name) for name, only in zip(self.feature_names, self.only_in, strict=True) if only == which
            ]
            if names:
                parts.append(f"only in {of}: {in_a_row(names, MOST_NAMED)}")
        if not parts:
            return []
        return [
            f"Features {'; '.join(parts)}. Features that go together share what they save, so a part of one feature "
            "may have gone to another."
        ]

    def _test(self) -> list[str]:
        if not np.isfinite(self.statistics["p_adjusted"]).any():
            return []
        rows = counted(self.n_rows, "row")
        units = f"{self.n_units:,} blocks of {rows}" if self.in_blocks else rows
        return [
            f"Test: paired differences of {units}; {error_rate_in_words('fwer', self.alpha)} of all features. It is "
            "about these two fits: another fit with the same settings and another seed differs too, and with many rows "
            "beyond chance."
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, with a schema version. Numbers that are not known are None."""
        parts = {
            name: dict(
                zip(OF_PART, plain_numbers(np.array([getattr(part, each) for each in OF_PART.values()])), strict=True)
            )
            for name, part in (("loss", self.loss), ("base", self.base))
        }
        return {
            "kind": KIND,
            "schema_version": SCHEMA_VERSION,
            "metric": self.metric,
            "feature_names": list(self.feature_names),
            "only_in": list(self.only_in),
            **parts,
            "alpha": self.alpha,
            "verdict": self.verdict,
            "statistics": {name: plain_numbers(values) for name, values in self.statistics.items()},
            **{name: getattr(self, name) for name in ("n_rows", "n_units", "in_blocks", "settings")},
            "summary": self.summary(),
            "warnings": list(self.warnings),
        }

    @classmethod
    def _read(cls, plain: dict[str, Any]) -> ModelComparison:
        if plain.get("kind") != KIND:
            raise Malformed(f"its kind is not {KIND!r}")
        fields = record(without_version(plain, "a comparison of two models"), FIELDS, "")
        verdict = fields.pop("verdict")
        for name in ("kind", "summary"):
            del fields[name]
        for name in ("loss", "base"):
            fields[name] = PartOfLoss(**{OF_PART[each]: number for each, number in fields[name].items()})
        found = cls(**fields)
        n_features, statistics = len(found.feature_names), found.statistics
        if any(values.size != n_features for values in statistics.values()) or len(found.only_in) != n_features:
            raise Malformed(f"its columns do not have {n_features} entries")
        if not set(found.only_in) <= {"", ONLY_MODEL, ONLY_BASELINE}:
            raise Malformed("only_in has a word that debias does not write")
        if len(set(found.feature_names)) < n_features:
            raise Malformed("feature_names has a name twice")
        if any((statistics[name] < 0).any() or (statistics[name] > 1).any() for name in ("p_value", "p_adjusted")):
            raise Malformed("statistics has p-values that are no probabilities")
        if (statistics["error"] < 0).any() or min(found.loss.error, found.base.error) < 0:
            raise Malformed("a standard error is below 0")
        for part in (found.loss, found.base):
            # The cubes of what adds up to 1 in squares add up to at most 1.
            if not np.isnan(part.error) and not (part.error > 0 and part.freedom > 0 and abs(part.skewness) <= 1):
                raise Malformed("a standard error has no degrees of freedom, or no possible skewness")
        parts = found.base.change + float(statistics["cost"].sum())
        scale = sum(map(abs, (found.loss.before, found.loss.after, found.base.before, found.base.after)))
        if not abs(found.loss.change - parts) <= ROUNDING * (scale + np.abs(statistics["cost"]).sum()):
            raise Malformed("the base and the costs do not add up to the difference of the losses")
        if verdict != found.verdict:
            raise Malformed("verdict does not follow from statistics")
        return found

    def _page(self, title: str | None) -> str:
        from debias.results.report.model_comparison import models_page

        return models_page(self, title)

    def plot(self, kind: str = "loss", ax: Any = None, max_features: int = 12) -> Any:
        """Draw bars from the loss of the baseline to that of the model: the base, and each feature.

        Parameters
        ----------
        kind : {"loss"}
        ax : matplotlib Axes, optional
            New axes by default.
        max_features : int
            Draw at most this many features, those with the largest differences. A bar stands for the others together.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            matplotlib is not installed.
        """
        from debias.results.report.figures import refuse_kind
        from debias.results.report.model_comparison import models_on_axes

        refuse_kind(kind, ("loss",))
        return models_on_axes(ax, self, max_features)

    def check(self, policy: Any) -> Gate:
        """Check the comparison against the rules of a policy.

        Parameters
        ----------
        policy : ModelsPolicy, mapping of rules, or path of a TOML file
            The rules are the parameters of :class:`debias.results.policy.ModelsPolicy`.

        Returns
        -------
        Gate
            ``gate.passed``, and one result per rule.

        Raises
        ------
        PolicyError
            The policy is wrong, or has rules for an audit or a history only.
        """
        from debias.results.gate_of_models import check

        return check(self, policy)


OF_PART = {"baseline": "before", "model": "after", "error": "error", "freedom": "freedom", "skewness": "skewness"}
"""The numbers of a part by their names in JSON."""


def _part(value: Any, at: str) -> dict[str, Any]:
    # Earlier versions of debias stored no skewness.
    return record(mapping(value, at), dict.fromkeys(OF_PART, number_or_missing), f"{at}.", optional=("skewness",))


FIELDS = {
    "kind": text_of,
    "metric": text_of,
    "feature_names": texts,
    "only_in": texts,
    "loss": _part,
    "base": _part,
    "alpha": number,
    "verdict": list_of,
    "statistics": lambda value, at: record(
        mapping(value, at), dict.fromkeys(ModelComparison.STATISTICS, or_missing), f"{at}."
    ),
    "n_rows": whole,
    "n_units": whole,
    "in_blocks": flag,
    "settings": tree,
    "summary": texts,
    "warnings": texts,
}
