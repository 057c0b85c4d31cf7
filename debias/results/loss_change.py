"""How the loss of a model changed between two windows of a history, divided into the base and each feature."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from debias.p_values import p_of_mean_below
from debias.results.any_look import Starts
from debias.results.fields import Malformed, plain_numbers
from debias.results.vocabulary import LossKind, LossVerdict
from debias.text import escaped, feature_index, with_sign

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

MOST_CAUSES = 5
"""At most so many features are named as causes."""
ROUNDING = 2.0**-23
"""A part of a difference is 0 up to rounding if it is at most this part of the loss: libraries compute in single
precision."""
FAR = 3.0
"""The base changed far more than the loss if it changed by more than so many times as much."""


@dataclass(frozen=True)
class PartOfLoss:
    """The mean of the loss, or of its base, in two windows, or of two models.

    Parameters
    ----------
    before, after : float
    error : float
        Standard error of the difference; NaN if it is not known.
    freedom : float
        Its degrees of freedom.
    starts : Starts or None
        The evidence of all periods after the reference, with ``looks="any"``. P-values are then those of any look.
    skewness : float
        Of the difference of two models: that of a row, or block, over the root of their number.
    """

    before: float
    after: float
    error: float
    freedom: float
    starts: Starts | None = None
    skewness: float = 0.0

    @property
    def change(self) -> float:
        """The difference, above 0 if it rose."""
        return self.after - self.before

    @property
    def p_value(self) -> float:
        """One-sided p-value of an increase; NaN without a standard error."""
        return self.p_above(0.0)

    def p_above(self, limit: float) -> float:
        """Return the one-sided p-value of an increase by more than a limit; NaN without a standard error."""
        if self.starts is not None:
            return self.starts.above(limit)[0]
        return float(p_of_mean_below((limit - self.change) / self.error, self.freedom, -self.skewness))

    @property
    def p_fall(self) -> float:
        """One-sided p-value of a fall; NaN without a standard error."""
        if self.starts is not None:
            return self.starts.below()[0]
        return float(p_of_mean_below(self.change / self.error, self.freedom, self.skewness))

    @property
    def since(self) -> tuple[str, float] | None:
        """First period of the start with the smallest p-value of a rise or a fall, and the change since then.

        None without ``looks="any"``.
        """
        if self.starts is None:
            return None
        at = min(self.starts.above(), self.starts.below())[1]
        return self.starts.since[at], self.starts.difference_at(at)

    @property
    def by_ranks(self) -> bool:
        """Whether the ranks of periods are compared, because few of the reference lie far from the others."""
        return self.starts is not None and self.starts.units is not None

    def part_in_words(self, part: float) -> str:
        """Return a part of the change of this loss with its sign; "0" if it is no more than an error of rounding."""
        return "0" if abs(part) <= ROUNDING * max(abs(self.before), abs(self.after)) else with_sign(part)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values; ``starts`` only if there are any. Numbers that are not known are None."""
        names = ("before", "after", "error", "freedom", "p_value")
        numbers = plain_numbers(np.array([getattr(self, name) for name in names]))
        starts = {} if self.starts is None else {"starts": self.starts.to_dict()}
        return dict(zip(names, numbers, strict=True)) | starts


@dataclass(frozen=True)
class LossCause:
    """A feature that costs more than before, which no other feature explains.

    Parameters
    ----------
    feature : str
    kind : LossKind
        "values": all costs are as they would be in the reference if this feature had its recent values there, at
        random in all rows or in a part of them, or in the order of its own. "effect": no cost differs from the
        reference if the response to this feature had not changed. "rows": the response follows its values
        (`followed`), and neither what any feature costs by the response, nor the loss beyond what the predictions let
        expect, differs. "values or effect", "rows or values" and "rows, values or effect": the data do not tell.
        "neither alone": nothing of this holds, as after two faults, or a drift to rows on which the model errs more.
        Of two or three causes of which none explains all costs alone, each has the kind by which all explain them
        together: one may be broken, while the response to another changed. If all may be broken in a part of the rows,
        it is "values or effect". If nothing explains the costs exactly, "values" or "effect" is said if one of them
        explains them alone, and the other does not, up to 3 % of what the cause costs.
    p_values, p_effect : float
        The smallest adjusted p-value (Holm, two-sided) of a difference, for the values and for the effect. The kind
        holds if it is above the level. If values explain the costs only as those of other rows in a part of the rows,
        the effect is that of this feature, or of this one and another one that costs more. Of causes that explain the
        costs together, it is the largest one of all combinations in which the feature has this kind. Of a cause that
        explains the costs only up to 3 %, it is that of a difference of more than this.
    p_rows : float or None
        The same for the rows, which may explain the costs if it is above .05, for all features alike. The costs by the
        response are those of all rows. None if an earlier version found the cause.
    followed : bool or None
        Whether the recent rows show that the response follows the values of this feature: the loss is larger if these
        are exchanged among the rows (one-sided, p <= .001). None if an earlier version found the cause.
    """

    feature: str
    kind: LossKind
    p_values: float
    p_effect: float
    p_rows: float | None = None
    followed: bool | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class LossChange:
    """The change of the mean loss of a model: that of the base, and what each feature costs more than before.

    ``loss.change`` is ``base.change`` plus the sum of ``statistics["cost"]``.

    Parameters
    ----------
    metric : str
        The loss: "log loss", "mean squared error", ...
    feature_names : tuple of str
    loss, base : PartOfLoss
        The base is the loss of one constant prediction, the mean output of the model over its training rows.
    level : float
        Largest adjusted p-value of a feature that costs more: ``alpha / looks``.
    n_periods, n_rows : tuple of int
        In the reference and in the recent window: the periods whose loss was divided, and the number of their rows for
        which it was (at most 1,000 of a table by default).
    statistics : dict of str to array of shape (n_features,)
        See :meth:`to_frame`.
    causes : tuple of LossCause
        Those features that cost more which the others do not explain, step by step; at most 5.
    no_causes_because : str or None
        Why they are not known; None if they are.
    p_response : float or None
        The smallest p-value that what features cost by the response differs: of each feature (two-sided, Holm), or of
        the sum over features. None if an earlier version compared the windows.
    partly_explained : tuple of str
        Features whose cost the causes do not explain in full, beyond chance. What is left is at most 3 % of what the
        causes cost, or may be, so it is not known whether they are causes, too.
    level_moved : bool
        Whether the mean response moved against the predictions. Features that this explains are no causes. False if
        causes were not looked for, as where no feature costs more.
    since : tuple of str
        With ``looks="any"``, for each feature the first period of the start with the smallest p-value; "" if it is not
        tested. Otherwise empty.
    cost_since : array of shape (n_features,), or None
        What each feature costs more since then.

    Notes
    -----
    docs/methods.md has the formulas.
    """

    STATISTICS: ClassVar[tuple[str, ...]] = (
        "saved_before",
        "saved_after",
        "cost",
        "error",
        "rows_cost",
        "rows_error",
        "response_cost",
        "response_error",
        "p_value",
        "p_adjusted",
    )

    metric: str
    feature_names: tuple[str, ...]
    loss: PartOfLoss
    base: PartOfLoss
    level: float
    n_periods: tuple[int, int]
    n_rows: tuple[int, int]
    statistics: dict[str, NDArray[Any]] = field(default_factory=dict)
    causes: tuple[LossCause, ...] = ()
    no_causes_because: str | None = "they were not looked for"
    p_response: float | None = None
    partly_explained: tuple[str, ...] = ()
    level_moved: bool = False
    since: tuple[str, ...] = ()
    cost_since: NDArray[np.float64] | None = None

    @cached_property
    def verdict(self) -> list[LossVerdict]:
        """One verdict per feature.

        - "costs more": the feature saves less loss than before, by the adjusted p-value;
        - "no increase detected";
        - "not tested": no standard error is known, or the model does not use the feature.
        """
        p = self.statistics["p_adjusted"]
        return [
            LossVerdict.UNTESTED if np.isnan(each) else LossVerdict.MORE if each <= self.level else LossVerdict.NO_MORE
            for each in p
        ]

    @property
    def costs_more(self) -> NDArray[np.int64]:
        """Positions of the features that cost more than before, the largest cost first."""
        found = np.flatnonzero(self.statistics["p_adjusted"] <= self.level)
        return found[np.argsort(-self.statistics["cost"][found], kind="stable")]

    @property
    def explained(self) -> tuple[str, ...]:
        """Features that cost more than before only because of the causes, or because the level of the response moved.

        None if it is not known which these are.
        """
        if self.no_causes_because is not None or len(self.causes) == MOST_CAUSES:
            return ()
        if not self.causes and not self.level_moved:
            return ()
        own = {*(cause.feature for cause in self.causes), *self.partly_explained}
        return tuple(self.feature_names[k] for k in self.costs_more if self.feature_names[k] not in own)

    @property
    def direction(self) -> str | None:
        """Whether the loss "rose" or "fell" by more than chance; None if neither is shown."""
        level = self.level / 2
        return "rose" if self.loss.p_value <= level else "fell" if self.loss.p_fall <= level else None

    @property
    def base_hides(self) -> bool:
        """Whether the base changed far more than the loss, beyond chance, so that a feature may cost more unseen."""
        p, error = self.base.p_value, self.loss.error
        if np.isnan(p) or not min(p, self.base.p_fall) <= self.level / 2:
            return False
        return abs(self.base.change) > FAR * max(abs(self.loss.change), 2 * error)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know about the parts."""
        if not self.base_hides:
            return ()
        return (
            f"the loss of a constant prediction changed by {with_sign(self.base.change)}, far more than the "
            f"{self.metric} of the model ({with_sign(self.loss.change)}). Responses lie elsewhere than before, perhaps "
            "because rows are beyond those of the training. What features save changes with it, so a feature that "
            "costs loss may not be named",
        )

    def cost_in_words(self, k: int) -> str:
        """Return what a feature costs more, with a blank before it; with ``looks="any"`` since when."""
        if not self.since or self.cost_since is None:
            return f" {with_sign(self.statistics['cost'][k])}"
        # By ranks, the median of the differences of two periods is 0 if it does not show how they differ.
        size = f" {with_sign(self.cost_since[k])}" if self.cost_since[k] else ""
        return f"{size} since {escaped(self.since[k])}"

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with index ``feature``, the largest cost first.

        Columns: ``saved_before`` and ``saved_after``, the mean loss that the feature saves in the two windows;
        ``cost``, the difference: above 0 if it saves less than before, so that the loss rose; and its standard error
        ``error``. ``cost`` is the sum of ``rows_cost`` (other rows) and ``response_cost`` (the response differs from
        what the model predicts in another way), with ``rows_error`` and ``response_error``. ``p_value`` and
        ``p_adjusted`` (Holm) are of the one-sided test that the cost is above 0. And ``verdict``. All but the p-values
        have the unit of the loss. With ``looks="any"`` also ``since``, the first period of the start that has this
        p-value, and ``cost_since``, the cost since then.
        """
        import pandas as pd

        frame = pd.DataFrame(self.statistics, index=feature_index(self.feature_names), columns=self.STATISTICS)
        if self.since:
            frame["since"], frame["cost_since"] = list(self.since), self.cost_since
        frame["verdict"] = list(map(str, self.verdict))
        return frame.iloc[np.argsort(-frame["cost"].to_numpy(), kind="stable")]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values. Numbers that are not known are None."""
        return {
            "metric": self.metric,
            "loss": self.loss.to_dict(),
            "base": self.base.to_dict(),
            "level": self.level,
            "n_periods": list(self.n_periods),
            "n_rows": list(self.n_rows),
            "verdict": self.verdict,
            "causes": [asdict(cause) for cause in self.causes],
            "no_causes_because": self.no_causes_because,
            "p_response": self.p_response,
            "partly_explained": list(self.partly_explained),
            "level_moved": self.level_moved,
            "since": list(self.since),
            "cost_since": None if self.cost_since is None else plain_numbers(self.cost_since),
            "statistics": {name: plain_numbers(values) for name, values in self.statistics.items()},
        }

    @classmethod
    def read(cls, fields: Mapping[str, Any], feature_names: tuple[str, ...]) -> LossChange:
        """Return what :meth:`to_dict` returned, from its fields.

        Raises
        ------
        Malformed
            They contradict each other.
        """
        names = ("metric", "level", "n_periods", "n_rows", "statistics", "no_causes_because")
        own: dict[str, Any] = {name: fields[name] for name in names}
        if not {cause["kind"] for cause in fields["causes"]} <= set(LossKind):
            raise Malformed("loss.causes has a kind that debias does not write")
        own["causes"] = tuple(LossCause(**each | {"kind": LossKind(each["kind"])}) for each in fields["causes"])
        for name in ("loss", "base"):
            part = fields[name]
            starts = None if part.get("starts") is None else Starts.read(part["starts"])
            own[name] = PartOfLoss(part["before"], part["after"], part["error"], part["freedom"], starts)
        found = cls(
            feature_names=feature_names,
            p_response=fields.get("p_response"),  # earlier versions wrote none of these
            partly_explained=fields.get("partly_explained", ()),
            level_moved=fields.get("level_moved", False),
            since=fields.get("since", ()),
            cost_since=fields.get("cost_since"),
            **own,
        )
        n_features, statistics = len(feature_names), found.statistics
        n_since = 0 if found.cost_since is None else found.cost_since.size
        if (len(found.since), n_since) not in ((0, 0), (n_features, n_features)):
            raise Malformed(f"loss.since and loss.cost_since do not have {n_features} entries")
        if set(statistics) != set(cls.STATISTICS) or any(values.size != n_features for values in statistics.values()):
            raise Malformed(
                f"loss.statistics does not have {n_features} numbers for each of {', '.join(cls.STATISTICS)}"
            )
        if fields["verdict"] != found.verdict:
            raise Malformed("loss.verdict does not follow from loss.statistics")
        return found
