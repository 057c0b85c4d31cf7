"""Results from JSON: every field is read by its reader, and numbers that follow from others must follow from them.

Over 500 lines, because the kinds of results share their readers and checks.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import DebiasError
from debias.results.any_look import ANY, THE_LOSS, RankedUnits
from debias.results.fields import (
    AGREE,
    Malformed,
    agree,
    flag,
    list_of,
    mapping,
    number,
    number_or_missing,
    numbers,
    or_missing,
    or_none,
    record,
    refuse_unknown,
    repeated,
    require,
    table,
    text_of,
    texts,
    tree,
    whole,
    whole_numbers,
    without_version,
    yes_or_no,
)
from debias.results.folds_loss import FoldsLoss
from debias.results.performance import NearDuplicates, Performance, Recalibration
from debias.results.rest import check_rest
from debias.results.untested import FEATURES, tell_nothing
from debias.results.vocabulary import EXPLAINED_ALONE, PAIRS, TWINS, UNUSED, RowsKind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from debias.results.audit import Audit
    from debias.results.changes import Changes
    from debias.results.droppable import Droppable
    from debias.results.fields import Reader
    from debias.results.folds_audit import FoldsAudit
    from debias.results.interactions import Interactions
    from debias.results.scores import Scores

DERIVED = ("share", "verdict", "unsupported_share", "provenance", "warnings")
"""Fields of an audit that follow from the others. They are written for other programs."""
WORDS = ("untested_because",)
"""Sentences in an audit. Another version may word them differently or not have them."""
FOLDS, COMPARISON, CURVES = "folds audit", "comparison", "partial dependence"
DROPPABLE = "droppable"
"""The field ``kind`` of the JSON of these results, by which it differs from that of one audit."""
OF_FOLDS = ("n_train", "test", "no_error_because", "notes", "audits")
TESTS_OF_FOLDS = ("standard_error", "z", "p_value", "p_adjusted")
DERIVED_OF_FOLDS = ("feature_names", "mean", "share", "verdict", "informative_folds", "rank_stability", "warnings")
ROUNDING = 1e-6
"""Tolerance for shares: they sum to 1 and lie between 0 and 1."""
OF_A_TEST = ("z", "p_value", "p_adjusted", "selected")


def scores_fields(plain: dict[str, Any], at: str = "") -> dict[str, Any]:
    """Return the fields of scores from what ``Scores.to_dict`` returned."""
    return record(without_version(plain, "scores"), OF_SCORES, at, optional=("null",))


def audit_fields(plain: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the fields of an audit, the fields of its scores by name, and the derived fields."""
    if "schema_version" in plain and "scores" not in plain and "feature_names" in plain:
        raise Malformed("it holds the scores of one scorer (debias score)")
    plain = without_version(plain, "an audit")
    require(plain, (*OF_AUDIT, "scores", *DERIVED), "")
    refuse_unknown(plain, (*OF_AUDIT, "scores", *DERIVED, *WORDS), "")
    fields = {name: read(plain[name], name) for name, read in OF_AUDIT.items()}
    return fields, _fields_by_scorer(mapping(plain["scores"], "scores")), {name: plain[name] for name in DERIVED}


def check_read_scores(scores: Scores) -> None:
    """Raise a Malformed if the numbers of scores contradict each other."""
    with _as_malformed():
        check_scores(scores)


def check_read_audit(audit: Audit, written: dict[str, Any]) -> None:
    """Raise a Malformed if the numbers of an audit contradict each other or the derived fields in the file."""
    with _as_malformed():
        check_audit(audit)
    at = f"scores.{audit.tested_scorer}"
    if not agree(written["share"], audit.share.tolist()):
        raise Malformed(f"share does not follow from {at}")
    if not agree(written["unsupported_share"], audit.unsupported_share):
        raise Malformed(f"unsupported_share does not follow from reported and {at}")
    if written["verdict"] != audit.verdict:
        raise Malformed(f"verdict contradicts {at}.selected")
    provenance, known = mapping(written["provenance"], "provenance"), audit.provenance
    differing = [name for name in provenance if name in known and provenance[name] != known[name]]
    if differing:
        raise Malformed(f"provenance.{differing[0]} contradicts {at}")


def folds_fields(
    plain: dict[str, Any],
    audit_from: Callable[[dict[str, Any]], Audit],
    interactions_from: Callable[[dict[str, Any]], Interactions],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of an audit of folds, and the derived fields.

    `audit_from` reads the audit of a fold, and `interactions_from` those of all folds.
    """
    _require_kind(plain, FOLDS)
    plain = without_version(plain, "an audit of folds")
    require(plain, (*OF_FOLDS, *TESTS_OF_FOLDS, *DERIVED_OF_FOLDS, "tested_scorer"), "")
    if not isinstance(plain["audits"], dict) or not plain["audits"]:
        raise Malformed("audits is not a JSON object with an audit for each fold")
    audits = {}
    for name, of_fold in plain["audits"].items():
        try:
            audits[name] = audit_from(mapping(of_fold, f"audits.{name}"))
        except Malformed:
            raise
        except DebiasError as error:
            raise DebiasError(f"audits.{name}: {error}") from None
    names = {each.tested_scores.feature_names for each in audits.values()}
    if len(names) > 1 or any(each.tested_scorer != plain["tested_scorer"] for each in audits.values()):
        raise Malformed("its audits have different features or scorers")
    if all(tell_nothing(each.tested_scores) for each in audits.values()):
        raise Malformed("none of its audits tells anything about the features")
    n_features = len(names.pop())
    fields: dict[str, Any] = {
        "audits": audits,
        "n_train": _rows_of_folds(plain["n_train"], len(audits)),
        "test": _test_of_folds(mapping(plain["test"], "test")),
        "no_error_because": or_none(text_of)(plain["no_error_because"], "no_error_because"),
        "notes": texts(plain["notes"], "notes"),
    }
    fields |= {name: or_none(_one_per_feature(n_features))(plain[name], name) for name in TESTS_OF_FOLDS}
    if plain.get("interactions") is not None:
        fields["interactions"] = interactions_from(mapping(plain["interactions"], "interactions"))
    if plain.get("loss") is not None:
        fields["loss"] = FoldsLoss.read(mapping(plain["loss"], "loss"), tuple(audits))
    if (fields["standard_error"] is None) != (fields["no_error_because"] is not None):
        raise Malformed("standard_error contradicts no_error_because")
    untested = all(each.tested_scores.selected is None for each in audits.values())
    if (fields["p_adjusted"] is None) != untested or bool(fields["test"]) == untested:
        raise Malformed("p_adjusted or test contradicts the tests of its audits")
    return fields, {name: plain[name] for name in DERIVED_OF_FOLDS}


def check_read_folds(audit: FoldsAudit, written: dict[str, Any]) -> None:
    """Raise a Malformed if the derived fields in the file do not follow from the others."""
    follows = audit.to_dict()
    if not audit.tested and written["informative_folds"] == [0] * len(audit.feature_names):  # of an earlier version
        follows["informative_folds"] = written["informative_folds"]
    for name, value in written.items():
        if name != "warnings" and not _same(value, follows[name]):
            raise Malformed(f"{name} does not follow from its audits")


def changes_fields(plain: dict[str, Any], read_changes: Reader) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of changes, and the verdicts that follow from them; `read_changes` reads longer windows."""
    readers = OF_CHANGES | {"longer": lambda value, at: tuple(read_changes(each, at) for each in list_of(value, at))}
    of_later_versions = ("loss", "no_loss_because", "provisional", "newer_waiting", "last_waiting", "any_look", "pairs")
    fields = record(without_version(plain, "changes"), readers, "", optional=of_later_versions)
    verdict = fields.pop("verdict")
    fields.pop("summary")
    n_features, statistics = len(fields["feature_names"]), fields["statistics"]
    if statistics and any(values.size != n_features for values in statistics.values()):
        raise Malformed(f"statistics has entries that are not {n_features} numbers")
    fields["splits"] = fields.pop("shift_split")
    return fields, verdict


def check_read_changes(changes: Changes, verdict: list[str]) -> None:
    """Raise a Malformed if statistics are missing, or the verdicts in the file do not follow from them."""
    missing = [name for name in changes.STATISTICS if name not in changes.statistics]
    if changes.statistics and (missing or len(changes.statistics) > len(changes.STATISTICS)):
        raise Malformed(
            f"statistics has no {missing[0]}" if missing else "statistics has some of another schema version"
        )
    if changes.splits and len(changes.splits) != len(changes.feature_names):
        raise Malformed("shift_split does not have one split for each feature")
    if changes.compared == (changes.not_compared_because is not None):
        raise Malformed("statistics contradict not_compared_because")
    if (changes.looks == ANY) != (changes.any_look is not None) and changes.compared:
        raise Malformed("any_look contradicts looks")
    loss, about = changes.loss, changes.any_look
    if about is not None and loss is not None and (THE_LOSS in about.by_ranks) != loss.loss.by_ranks:
        raise Malformed("any_look.by_ranks contradicts the units of the loss")
    if verdict != changes.verdict:
        raise Malformed("verdict does not follow from statistics")


def comparison_fields(plain: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the fields of the scores of a comparison by name, and its traits by column."""
    _require_kind(plain, COMPARISON)
    fields = record(without_version(plain, "a comparison"), {"kind": text_of, "scores": mapping, "traits": mapping}, "")
    scores = _fields_by_scorer(fields["scores"])
    if len({each["feature_names"] for each in scores.values()}) != 1:
        raise Malformed("its scores are of different features")
    traits = record(fields["traits"], OF_TRAITS, "traits.")
    n_features = len(next(iter(scores.values()))["feature_names"])
    if any(len(column) != n_features for column in traits.values()):
        raise Malformed(f"traits has columns that do not have {n_features} entries")
    return scores, traits


def curves_fields(plain: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the fields of a partial dependence, and those of its curves."""
    _require_kind(plain, CURVES)
    fields = record(without_version(plain, "a partial dependence"), OF_CURVES, "")
    del fields["kind"]
    curves = []
    for k, each in enumerate(fields.pop("curves")):
        at = f"curves[{k}]."
        curve = record(mapping(each, at), OF_CURVE, at)
        curve["values"] = _values_of_curve(curve["values"], curve.pop("is_numeric"), at)
        shape = (len(curve["values"]), len(fields["output_names"]))
        individual = curve["individual"]
        if curve["mean"].shape != shape or (individual is not None and any(row.shape != shape for row in individual)):
            raise Malformed(f"{at}mean or {at}individual does not have an output for each value")
        if individual is not None:
            curve["individual"] = np.stack(individual) if individual else np.empty((0, *shape))
        curves.append(curve)
    if not curves:
        raise Malformed("curves is empty")
    if (twice := repeated([curve["feature"] for curve in curves])) is not None:
        raise Malformed(f"curves has {twice!r} twice")
    return fields, curves


def droppable_fields(plain: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of features to drop, and those that follow from them."""
    _require_kind(plain, DROPPABLE)
    plain = without_version(plain, "features to drop")
    derived = {name: plain.pop(name, None) for name in ("status", "columns", "decisions", "summary")}
    fields = record(plain, OF_DROPPABLE, "")
    del fields["kind"]
    for name, without in (("low", -math.inf), ("high", math.inf), ("needed", math.inf)):
        fields[name] = np.where(np.isnan(fields[name]), without, fields[name])
    return fields, derived


def check_read_droppable(result: Droppable, written: dict[str, Any]) -> None:
    """Raise a Malformed if numbers of features to drop contradict each other or the fields that follow from them."""
    names, sizes = result.feature_names, result.sizes
    if not names or len(result.members) != len(names) or repeated(names) is not None:
        raise Malformed("feature_names are not names of features that are all different, with the columns of each")
    if not set(result.order) <= set(names) or repeated(result.order) is not None:
        raise Malformed("order has features that are not in feature_names, or one twice")
    if not sizes.size or sizes[0] < 1 or (np.diff(sizes) < 1).any() or sizes[-1] != len(result.order):
        raise Malformed("sizes are not ascending numbers of features up to the length of order")
    if any(getattr(result, name).size != sizes.size for name in NUMBERS_OF_SETS):
        raise Malformed(f"{', '.join(NUMBERS_OF_SETS)} do not have a number for each of sizes")
    if np.isnan(result.lost).any() or (result.low > result.lost).any() or (result.high < result.lost).any():
        raise Malformed("lost is not between low and high")
    if not ((result.p_value >= 0) & (result.p_value <= 1)).all():
        raise Malformed("p_value is not between 0 and 1")
    if not 0 < result.tolerance < 1 or not 0 < result.alpha < 1:
        raise Malformed("tolerance and alpha are not between 0 and 1")
    if result.performance.value is None:
        raise Malformed("performance has no value")
    if written["decisions"] not in (None, result.decisions):  # results of older versions have none
        raise Malformed("decisions do not follow from p_value, low and tolerance")
    if written["status"] != result.status or written["columns"] != result.columns:
        raise Malformed("status and columns do not follow from p_value, low and tolerance")


def _fields_by_scorer(plain: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields of the scores of an object, by the name of the scorer."""
    return {name: scores_fields(mapping(each, f"scores.{name}"), f"scores.{name}.") for name, each in plain.items()}


@contextmanager
def _as_malformed() -> Iterator[None]:
    """Raise a Malformed in place of other errors of debias: the numbers are those of a file."""
    try:
        yield
    except DebiasError as error:
        raise Malformed(str(error)) from None


def _require_kind(plain: dict[str, Any], kind: str) -> None:
    if plain.get("kind") != kind:
        is_audit = "reported" in plain
        raise Malformed("it holds one audit (Audit.from_json reads it)" if is_audit else f"its kind is not {kind!r}")


def _near_duplicates(value: Any, at: str) -> tuple[NearDuplicates, ...]:
    readers: dict[str, Reader] = {"features": texts, "correlation": number}
    return tuple(
        NearDuplicates(**record(mapping(plain, f"{at}[{k}]"), readers, f"{at}[{k}]."))
        for k, plain in enumerate(list_of(value, at))
    )


def _pairs_that_work_together(value: Any, at: str) -> list[dict[str, Any]]:
    readers: dict[str, Reader] = {
        "features": texts,
        "p_adjusted": number,
        "about": text_of,
    }
    return [record(mapping(plain, f"{at}[{k}]"), readers, f"{at}[{k}].") for k, plain in enumerate(list_of(value, at))]


def _performance(value: Any, at: str) -> Performance:
    # Results of earlier versions have nothing about calibration.
    fields = record(mapping(value, at), OF_PERFORMANCE, f"{at}.", optional=("recalibration", "before_calibration"))
    better = fields.pop("better_than_constant")
    performance = Performance(**fields)
    if better is not performance.better_than_constant:
        raise Malformed(f"{at}.better_than_constant does not follow from {at}.skill and {at}.p_value")
    return performance


def _recalibration(value: Any, at: str) -> Recalibration:
    return Recalibration(**record(mapping(value, at), OF_RECALIBRATION, f"{at}."))


def _fingerprints(value: Any, at: str) -> dict[str, str]:
    return {name: text_of(each, f"{at}.{name}") for name, each in mapping(value, at).items()}


def _anything(value: Any, at: str) -> Any:
    return value


def _one_per_feature(n_features: int) -> Reader:
    """Return a reader of the numbers of a test of folds: one for each feature."""

    def read(value: Any, at: str) -> NDArray[np.float64]:
        try:
            array = numbers(value, at)
        except Malformed as error:
            raise Malformed(str(error).replace("a list of numbers", f"a list of {n_features} numbers")) from None
        if array.size != n_features:
            raise Malformed(f"{at} is not a list of {n_features} numbers")
        if at == "standard_error" and (array < 0).any():
            raise Malformed(f"{at} has negative numbers")
        if at.startswith("p_") and not ((array >= 0) & (array <= 1)).all():
            raise Malformed(f"{at} is not between 0 and 1")
        return array

    return read


def _rows_of_folds(value: Any, n_folds: int) -> tuple[int | None, ...]:
    if not isinstance(value, list) or len(value) != n_folds:
        raise Malformed(f"n_train is not a list of {n_folds} numbers of rows")
    if any(item is not None and (type(item) is not int or item < 1) for item in value):
        raise Malformed("n_train has entries that are not numbers of rows")
    return tuple(value)


def _test_of_folds(test: dict[str, Any]) -> dict[str, Any]:
    alpha = test.get("alpha")
    if test and not (type(alpha) is float and 0 < alpha < 1):
        raise Malformed("test.alpha is not a number between 0 and 1")
    if test and (not isinstance(test.get("method"), str) or test.get("error") not in ("fwer", "fdr", "fdr_by")):
        raise Malformed("test has no method, or an unknown error rate")
    correlation, n_permutations = test.get("correlation", 0.0), test.get("n_permutations", 1)
    if type(correlation) not in (int, float) or not 0 <= correlation <= 1:
        raise Malformed("test.correlation is not a number between 0 and 1")
    if type(n_permutations) is not int or n_permutations < 1:
        raise Malformed("test.n_permutations is not a number of permutations")
    return test


def _same(written: Any, follows: Any) -> bool:
    if isinstance(follows, float):
        return type(written) in (int, float) and abs(written - follows) <= AGREE * max(1.0, abs(follows))
    if isinstance(follows, list):
        same_size = isinstance(written, list) and len(written) == len(follows)
        return same_size and all(map(_same, written, follows))
    return bool(written == follows)


def _statistics_of_changes(value: Any, at: str) -> dict[str, NDArray[Any]]:
    statistics: dict[str, NDArray[Any]] = {}
    for name, values in mapping(value, at).items():
        are_flags = bool(values) and isinstance(values, list) and set(map(type, values)) == {bool}
        statistics[name] = (yes_or_no if are_flags else or_missing)(values, f"{at}.{name}")
    return statistics


def _window(value: Any, at: str) -> dict[str, Any]:
    readers = {"first": or_none(text_of), "last": or_none(text_of), "n_periods": whole, "n_rows": whole}
    return record(mapping(value, at), readers, f"{at}.")


def _means(value: Any, at: str) -> list[dict[str, Any]]:
    readers: dict[str, Reader] = {
        "of": text_of,
        "before": number,
        "after": number,
        "p_value": number_or_missing,
        "changed": flag,
        "most": text_of,
        "since": or_none(text_of),
        "most_mean": or_none(number),
        "alone": flag,
        "output": or_none(text_of),
        "typical_change": or_none(number),
    }
    of_later_versions = ("since", "most_mean", "alone", "output", "typical_change")
    return [record(mapping(each, at), readers, f"{at}.", optional=of_later_versions) for each in list_of(value, at)]


def _time(value: Any, at: str) -> datetime:
    try:
        return datetime.fromisoformat(text_of(value, at))
    except ValueError:
        raise Malformed(f"{at} is not a time: {value!r}") from None


def _loss(value: Any, at: str) -> dict[str, Any]:
    numbers_of: dict[str, Reader] = dict.fromkeys(("before", "after", "error", "freedom", "p_value"), number_or_missing)

    def part(value: Any, at: str) -> dict[str, Any]:
        return record(mapping(value, at), numbers_of | {"starts": _starts}, f"{at}.", optional=("starts",))

    readers: dict[str, Reader] = {
        "metric": text_of,
        "loss": part,
        "base": part,
        "level": number,
        "n_periods": _of_two_windows,
        "n_rows": _of_two_windows,
        "verdict": list_of,
        "causes": _causes,
        "no_causes_because": or_none(text_of),
        "p_response": or_none(number),
        "partly_explained": texts,
        "level_moved": flag,
        "since": texts,
        "cost_since": or_none(or_missing),
        "statistics": _statistics_of_changes,
    }
    of_later_versions = ("p_response", "partly_explained", "level_moved", "since", "cost_since")
    return record(mapping(value, at), readers, f"{at}.", optional=of_later_versions)


def _starts(value: Any, at: str) -> dict[str, Any]:
    names = ("share", "difference", "squares", "variance", "freedom")
    readers: dict[str, Reader] = {"since": texts, **dict.fromkeys(names, numbers), "prior": number}
    found = record(mapping(value, at), readers | {"units": _ranked_units}, f"{at}.", optional=("units",))
    if not found["since"] or any(found[name].size != len(found["since"]) for name in names):
        raise Malformed(f"{at} does not have as many numbers as starts")
    if found["prior"] <= 0 or any((found[name] <= 0).any() for name in names if name != "difference"):
        raise Malformed(f"{at} has numbers that are not above 0")
    if "units" in found:
        if found["units"]["first"].size != len(found["since"]):
            raise Malformed(f"{at}.units does not have as many first units as starts")
        scores = RankedUnits(**found["units"]).scores()
        if not all(
            np.allclose(found[name], each) for name, each in zip(("difference", "squares"), scores, strict=True)
        ):
            raise Malformed(f"{at} has other differences than those of its units")
    return found


def _ranked_units(value: Any, at: str) -> dict[str, Any]:
    readers: dict[str, Reader] = {"before": numbers, "later": numbers, "first": whole_numbers}
    found = record(mapping(value, at), readers, f"{at}.")
    before, later, first = found["before"], found["later"], found["first"]
    if before.size < 2 or (np.diff(before) < 0).any() or before[0] == before[-1]:
        raise Malformed(f"{at}.before has fewer than two different numbers, or is not in ascending order")
    if (np.diff(first, prepend=-1) <= 0).any() or (first >= later.size).any():
        raise Malformed(f"{at}.first is not ascending, or has positions that `later` does not have")
    return found


def _looks(value: Any, at: str) -> int | str:
    return ANY if value == ANY else whole(value, at)


def _any_look(value: Any, at: str) -> dict[str, Any]:
    readers: dict[str, Reader] = {
        **dict.fromkeys(("first", "last"), text_of),
        **dict.fromkeys(("n_periods", "n_starts"), whole),
        **dict.fromkeys(("of_weeks", "by_ranks"), texts),
    }
    return record(mapping(value, at), readers, f"{at}.", optional=("by_ranks",))


def _provisional(value: Any, at: str) -> dict[str, Any]:
    readers: dict[str, Reader] = {
        "reference": _window,
        "waiting": _window,
        "level": number,
        "statistics": _statistics_of_changes,
        "shift_split": texts,
        "prediction": or_none(lambda value, at: _means([value], at)[0]),
        "broken": texts,
        "no_broken_because": or_none(text_of),
        "summary": texts,
    }
    return record(mapping(value, at), readers, f"{at}.")


def _pairs(value: Any, at: str) -> dict[str, Any]:
    readers: dict[str, Reader] = {
        "pairs": lambda value, at: tuple(texts(pair, at) for pair in list_of(value, at)),
        "alpha": number,
        "looks": whole,
        "n_incomplete": _of_two_windows,
        "untested_because": lambda value, at: tuple(or_none(text_of)(each, at) for each in list_of(value, at)),
        "verdict": list_of,
        "statistics": lambda value, at: {name: or_missing(each, at) for name, each in mapping(value, at).items()},
    }
    return record(mapping(value, at), readers, f"{at}.")


def _causes(value: Any, at: str) -> list[dict[str, Any]]:
    readers: dict[str, Reader] = {"feature": text_of, "kind": text_of, "p_values": number, "p_effect": number}
    of_later_versions: dict[str, Reader] = {"p_rows": or_none(number), "followed": or_none(flag)}
    return [
        record(mapping(each, at), readers | of_later_versions, f"{at}.", optional=tuple(of_later_versions))
        for each in list_of(value, at)
    ]


def _of_two_windows(value: Any, at: str) -> tuple[int, int]:
    counts = list_of(value, at)
    if len(counts) != 2:
        raise Malformed(f"{at} is not a list of two numbers")
    return whole(counts[0], at), whole(counts[1], at)


def _repeated(value: Any, at: str) -> tuple[float, float]:
    shares = or_missing(value, at)
    if shares.size != 2:
        raise Malformed(f"{at} is not a list of two shares")
    return float(shares[0]), float(shares[1])


def _individual(value: Any, at: str) -> list[NDArray[np.float64]]:
    return [table(row, at) for row in list_of(value, at)]


def _values_of_curve(values: list[Any], is_numeric: bool, at: str) -> NDArray[Any]:
    """Return the values of a feature: numbers, with null for missing and text for infinity, or labels."""
    if not values:
        raise Malformed(f"{at}values is empty")
    if is_numeric:
        return np.array([math.nan if each is None else _value(each, at) for each in values], dtype=np.float64)
    if any(isinstance(each, (dict, list)) for each in values):
        raise Malformed(f"{at}values has entries that are no labels")
    labels = np.empty(len(values), dtype=object)
    labels[:] = values
    return labels


def _value(value: Any, at: str) -> float:
    return float(value) if value in ("inf", "-inf") else number(value, f"{at}values")


OF_SCORES: dict[str, Reader] = {
    "values": numbers,
    "feature_names": texts,
    "scorer": text_of,
    "unit": text_of,
    "rows": or_none(text_of),
    "n_rows": or_none(whole),
    "provenance": tree,
    "details": tree,
    "warnings": texts,
    "settings": tree,
    "standard_error": or_none(numbers),
    "z": or_none(numbers),
    "p_value": or_none(numbers),
    "p_adjusted": or_none(numbers),
    "selected": or_none(yes_or_no),
    "threshold": or_none(number),
    "null": or_none(table),
}
"""The reader of each field of scores,"""
OF_RECALIBRATION: dict[str, Reader] = {
    "label": text_of,
    **dict.fromkeys(("predicted", "observed", *Recalibration.OTHERS), number),
    **dict.fromkeys(("shifted_p_value", "raised_p_value", "both_p_value"), or_none(number)),
}
"""of the recalibration of probabilities,"""
OF_PERFORMANCE: dict[str, Reader] = {
    "metric": or_none(text_of),
    **dict.fromkeys(("value", "constant", "skill", "auc", "correlation"), or_none(number)),
    "n_rows": or_none(whole),
    "p_value": or_none(number),
    "untold_because": or_none(text_of),
    "recalibration": or_none(_recalibration),
    "before_calibration": flag,
    "better_than_constant": _anything,
}
"""of the performance,"""
OF_PAIRS_IN_DETAILS: dict[str, Reader] = {
    "n_rows": whole,
    "alpha": number,
    "scale": or_none(text_of),
    "pairs": _pairs_that_work_together,
}
"""of the pairs that work together, in the details of the tested scores,"""
OF_AUDIT: dict[str, Reader] = {
    "reported": or_none(numbers),
    "reported_kind": text_of,
    "reported_unseen": or_none(numbers),
    "no_unseen_because": or_none(text_of),
    "reported_unseen_error": or_none(numbers),
    "inflation_p": or_none(numbers),
    "tested_scorer": text_of,
    "n_values": or_none(whole_numbers),
    "fingerprints": _fingerprints,
    "near_duplicates": or_none(_near_duplicates),
    "performance": or_none(_performance),
}
"""of an audit without its scores,"""
OF_CHANGES: dict[str, Reader] = {
    "series": text_of,
    "model": text_of,
    "reference": _window,
    "recent": _window,
    "alpha": number,
    "least": number,
    "looks": _looks,
    "method": text_of,
    "not_compared_because": or_none(text_of),
    "n_other_series": whole,
    "last_period": or_none(_time),
    "newer_waiting": whole,
    "last_waiting": or_none(_time),
    "reference_given": text_of,
    "repeated": _repeated,
    "means": _means,
    "loss": or_none(_loss),
    "no_loss_because": or_none(text_of),
    "provisional": or_none(_provisional),
    "any_look": or_none(_any_look),
    "pairs": or_none(_pairs),
    "feature_names": texts,
    "verdict": list_of,
    "statistics": _statistics_of_changes,
    "shift_split": texts,
    "summary": texts,
    "warnings": texts,
}
"""of changes without longer windows,"""
OF_TRAITS: dict[str, Reader] = {
    "n_values": whole_numbers,
    "correlation": numbers,
    "correlated_with": texts,
    "interaction": or_missing,
    "not_upheld": or_missing,
}
"""of the traits of a comparison,"""
OF_CURVES: dict[str, Reader] = {
    "kind": text_of,
    "model": text_of,
    "unit": text_of,
    "output_names": texts,
    "rows": whole_numbers,
    "notes": texts,
    "curves": list_of,
}
"""of a partial dependence,"""
NUMBERS_OF_SETS = ("lost", "low", "high", "p_value", "needed")
"""Fields of features to drop with a number for each set that was tried, null where there is none."""
OF_DROPPABLE: dict[str, Reader] = {
    "kind": text_of,
    "feature_names": texts,
    "members": lambda value, at: tuple(texts(columns, at) for columns in list_of(value, at)),
    "order": texts,
    "sizes": whole_numbers,
    **dict.fromkeys(NUMBERS_OF_SETS, or_missing),
    "tolerance": number,
    "alpha": number,
    "performance": _performance,
    **dict.fromkeys(("n_rows", "n_independent", "n_train", "folds", "at_a_time", "n_fits"), whole),
    "blocks": flag,
    "path": text_of,
    "provenance": tree,
    "settings": tree,
    "warnings": texts,
}
"""of features to drop,"""
OF_CURVE: dict[str, Reader] = {
    "feature": text_of,
    "is_numeric": flag,
    "values": list_of,
    "mean": table,
    "individual": or_none(_individual),
    "n_omitted": whole,
}
"""and of one of its curves."""


def check_scores(scores: Scores) -> None:
    """Raise a DebiasError unless every array has one finite number per feature, and names are unique."""
    names = scores.feature_names
    if not names:
        raise DebiasError("there is no feature")
    if (twice := repeated(names)) is not None:
        raise DebiasError(f"feature_names has {twice!r} twice")
    for name in ("values", "standard_error", *OF_A_TEST):
        _check_values(name, getattr(scores, name), len(names))
    if scores.standard_error is not None and (scores.standard_error < 0).any():
        raise DebiasError("standard_error has numbers below 0")
    for name in ("p_value", "p_adjusted"):
        values = getattr(scores, name)
        if values is not None and ((values < 0) | (values > 1)).any():
            raise DebiasError(f"{name} has numbers outside 0 to 1")
    if scores.null is not None and (scores.null.ndim != 2 or not np.isfinite(scores.null).all()):
        raise DebiasError("null is not a table of finite numbers")
    if scores.threshold is not None and not np.isfinite(scores.threshold):
        raise DebiasError(f"threshold is {scores.threshold}")


def check_audit(audit: Audit) -> None:
    """Raise a DebiasError unless all scores of an audit have the same features and the verdicts follow from them."""
    if audit.tested_scorer not in audit.scores:
        raise DebiasError(f"scores has no {audit.tested_scorer!r}, from which the shares are computed")
    tested, at = audit.tested_scores, f"scores.{audit.tested_scorer}"
    for name, scores in audit.scores.items():
        try:
            check_scores(scores)
        except DebiasError as error:
            raise DebiasError(f"scores.{name}: {error}") from None
        if scores.feature_names != tested.feature_names:
            raise DebiasError(f"scores.{name} has other features than {at}")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.abs(tested.values).sum()):
            raise DebiasError(f"{at}.values are too large to add, and shares need their sum")
    _check_values("reported", audit.reported, len(tested.feature_names))
    _check_values("n_values", audit.n_values, len(tested.feature_names))
    _check_values("reported_unseen", audit.reported_unseen, len(tested.feature_names))
    _check_values("reported_unseen_error", audit.reported_unseen_error, len(tested.feature_names))
    if audit.reported_unseen_error is not None and (audit.reported_unseen_error < 0).any():
        raise DebiasError("reported_unseen_error has numbers below 0")
    _check_values("inflation_p", audit.inflation_p, len(tested.feature_names))
    if audit.inflation_p is not None and ((audit.inflation_p < 0) | (audit.inflation_p > 1)).any():
        raise DebiasError("inflation_p has numbers outside 0 to 1")
    if (audit.inflation_p is None) != (audit.reported_unseen_error is None):
        raise DebiasError("inflation_p contradicts reported_unseen_error")
    if audit.reported_unseen_error is not None and audit.reported_unseen is None:
        raise DebiasError("reported_unseen_error has no reported_unseen")
    for name in ("reported", "reported_unseen"):
        if getattr(audit, name) is not None:
            _check_shares(name, getattr(audit, name))
    if (audit.reported_unseen is None) == (audit.no_unseen_because is None):
        raise DebiasError("no_unseen_because contradicts reported_unseen")
    if tested.rows not in set(RowsKind) or not tested.n_rows or tested.n_rows < 1:
        raise DebiasError(f"{at} has {tested.n_rows!r} rows of kind {tested.rows!r}: there is no such audit")
    if not all(isinstance(tested.provenance.get(name), str) for name in ("status", "detail")):
        raise DebiasError(f"{at}.provenance does not say what is known about the rows: no status, or no detail")
    _check_test(tested, at)
    _check_alone(tested, at)
    _check_twins(tested, at)
    _check_unused(tested, at)
    _check_pairs(tested, at)
    _check_near_duplicates(audit)
    if audit.performance is not None:
        audit.performance.check()


def _check_values(name: str, values: Any, n_features: int) -> None:
    if values is None:
        return
    if np.shape(values) != (n_features,):
        raise DebiasError(f"{name} has shape {np.shape(values)} for {n_features} features")
    if not np.isfinite(values).all():
        raise DebiasError(f"{name} has numbers that are not finite")


def _check_shares(name: str, shares: Any) -> None:
    if (shares < 0).any() or (shares > 1 + ROUNDING).any():
        raise DebiasError(f"{name} has shares outside 0 to 1")
    if shares.any() and abs(shares.sum() - 1) > ROUNDING:
        raise DebiasError(f"{name} has shares that sum to {shares.sum():g}, not to 1")


def _check_test(tested: Scores, at: str) -> None:
    """Raise unless the selected features follow from the numbers of the test. Untested scores have no verdicts."""
    if tested.selected is None:
        return
    test = tested.details.get("test")
    missing = [name for name in OF_A_TEST if getattr(tested, name) is None]
    if missing or not isinstance(test, dict):
        missing = missing or ["details.test"]
        raise DebiasError(f"{at} is tested, but has no {', '.join(missing)}")
    n_drawn = test.get("n_permutations", 1)
    if isinstance(n_drawn, bool) or not isinstance(n_drawn, int) or n_drawn < 1:
        raise DebiasError(f"{at}.details.test.n_permutations is not a number of permutations: {n_drawn!r}")
    alpha = test.get("alpha")
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha < 1:
        raise DebiasError(f"{at}.details.test.alpha is not an error rate: {alpha!r}")
    if test.get("error") not in (None, "fwer", "fdr", "fdr_by"):
        raise DebiasError(f"{at}.details.test.error is not a kind of error rate: {test['error']!r}")
    _check_untested(tested, at)
    check_rest(tested, at)
    if not np.array_equal(tested.selected, tested.p_adjusted <= alpha):  # type: ignore[operator]
        raise DebiasError(f"{at}.selected contradicts p_adjusted at alpha={alpha:g}")


def _check_untested(tested: Scores, at: str) -> None:
    """Raise unless the features that were not tested exist, have a reason, and have scores of 0."""
    reasons = tested.details.get(FEATURES, {})
    if not isinstance(reasons, dict) or not all(isinstance(reason, str) for reason in reasons.values()):
        raise DebiasError(f"{at}.details.{FEATURES} does not give a reason for each feature")
    position = {name: k for k, name in enumerate(tested.feature_names)}
    for name in reasons:
        if name not in position or tested.values[position[name]] != 0:
            raise DebiasError(f"{at}.details.{FEATURES} has {name!r}, which is no feature with a score of 0")


def _check_alone(tested: Scores, at: str) -> None:
    """Raise unless what features explain by themselves is a share of the response for each of some features."""
    alone = tested.details.get(EXPLAINED_ALONE, {})
    known = isinstance(alone, dict) and set(alone) <= set(tested.feature_names)
    if not known or not all(type(share) in (int, float) and 0 <= share <= 1 for share in alone.values()):
        raise DebiasError(f"{at}.details.{EXPLAINED_ALONE} is not a share of the response for each of some features")


def _check_twins(tested: Scores, at: str) -> None:
    """Raise unless the sets are of two or more features that were not found."""
    try:
        sets = _near_duplicates(tested.details.get(TWINS, []), f"{at}.details.{TWINS}")
    except Malformed as error:
        raise DebiasError(str(error)) from None
    found = tested.selected if tested.selected is not None else np.ones(len(tested.feature_names), dtype=bool)
    free = {name for name, yes in zip(tested.feature_names, found, strict=True) if not yes}
    if any(len(each.features) < 2 or not free.issuperset(each.features) for each in sets):
        raise DebiasError(f"{at}.details.{TWINS} has sets that are not of two or more features that were not found")


def _check_unused(tested: Scores, at: str) -> None:
    """Raise unless the features that no tree splits on are a list of features, each once."""
    unused = tested.details.get(UNUSED, [])
    is_list = isinstance(unused, list) and all(isinstance(name, str) for name in unused)
    if not is_list or not set(unused) <= set(tested.feature_names) or len(set(unused)) < len(unused):
        raise DebiasError(f"{at}.details.{UNUSED} is not a list of features, each of them once")


def _check_pairs(tested: Scores, at: str) -> None:
    """Raise unless the pairs that work together are of two known features each, found at the error rate."""
    if PAIRS not in tested.details:
        return
    try:
        named = f"{at}.details.{PAIRS}"
        found = record(mapping(tested.details[PAIRS], named), OF_PAIRS_IN_DETAILS, f"{named}.")
    except Malformed as error:
        raise DebiasError(str(error)) from None
    pairs = {frozenset(each["features"]) for each in found["pairs"]}
    are_pairs = all(len(pair) == 2 and pair <= set(tested.feature_names) for pair in pairs)
    if not pairs or not are_pairs or len(pairs) < len(found["pairs"]):
        raise DebiasError(f"{named} does not have pairs of features, each of them once")
    if any(not 0 <= each["p_adjusted"] <= found["alpha"] for each in found["pairs"]):
        raise DebiasError(f"{named} has a pair that is not confirmed at its error rate")
    if not 1 <= found["n_rows"] <= (tested.n_rows or 0):
        raise DebiasError(f"{named} has more rows than the audit, or none")


def _check_near_duplicates(audit: Audit) -> None:
    """Raise unless the sets are of two or more informative features, and no feature is in two of them."""
    names = [name for each in audit.near_duplicates or () for name in each.features]
    informative = {audit.tested_scores.feature_names[k] for k in np.flatnonzero(audit.which(Verdict.INFORMATIVE))}
    if not informative.issuperset(names):
        stray = next(name for name in names if name not in informative)
        raise DebiasError(f"near_duplicates has {stray!r}, which is no informative feature")
    if len(set(names)) < len(names) or any(len(each.features) < 2 for each in audit.near_duplicates or ()):
        raise DebiasError("near_duplicates must have two or more features in each set, and each feature in one set")
    if any(not 0 <= each.correlation <= 1 for each in audit.near_duplicates or ()):
        raise DebiasError("near_duplicates has a correlation outside 0 to 1")
