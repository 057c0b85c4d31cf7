"""An audit about one feature, in sentences. The tests recompute each sentence from the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from debias.errors import DebiasError
from debias.results import untested
from debias.results.feature_likeness import like
from debias.results.sentences import condition, condition_of_verdicts, enumerated, rank_of, rows_of, scored_on
from debias.results.vocabulary import DEPENDENCE, TWINS, Dependence, Verdict, error_rate_in_words
from debias.text import correlation_in_words, listed, name_in_text, percent

if TYPE_CHECKING:
    from debias.results.audit import Audit

MOST_NAMED = 5


def explanation(audit: Audit, feature: str) -> list[str]:
    """Return the sentences of ``Audit.explain``."""
    names = audit.tested_scores.feature_names
    given, feature = feature, str(feature)  # names of columns may be numbers
    if feature not in names:
        near = like(feature, names)
        instead = f"The most similar: {', '.join(near)}" if near else f"There are: {listed(names)}"
        raise DebiasError(f"the audit has no feature {given!r}. {instead}")
    k = names.index(feature)
    return [_importance(audit, k), _verdict(audit, k), _dependence(audit, k), *_nearly_the_same(audit, feature)]


def _importance(audit: Audit, k: int) -> str:
    """Return shares and ranks. The two shares may have other units, so they are not compared."""
    name = name_in_text(audit.tested_scores.feature_names[k])
    reported = ""
    if audit.reported is not None:
        importance = f"{percent(audit.reported[k])} of the importance by {audit.reported_kind}"
        reported = f" The model reports {importance} for it ({rank_of(audit.reported, k)})."
    if audit.tested and audit.verdict[k] is Verdict.UNTESTED:
        return f"{name} has no debiased score on these rows.{reported}"
    debiased = f"{percent(audit.share[k])} of the debiased scores ({rank_of(audit.tested_scores.values, k)})"
    return f"{name} has {debiased} on {rows_of(audit.tested_scores)}.{reported}"


def _verdict(audit: Audit, k: int) -> str:
    if not audit.tested:
        return f"It was not tested: {audit.untested_because}."
    scores, verdict = audit.tested_scores, audit.verdict[k]
    if verdict is Verdict.UNTESTED:
        return f"It was not tested: {audit.untested_features[scores.feature_names[k]]}."
    if scores.feature_names[k] in audit.unused_features:
        return "No tree of this model splits on it. A model that is trained again may use it."
    test, numbers = scores.details.get("test", {}), []
    if scores.z is not None:
        numbers.append(f"z {scores.z[k]:z.2f}")
    if scores.p_adjusted is not None:
        numbers.append(f"adjusted p {_p(scores.p_adjusted[k])}")
    if "alpha" in test:
        numbers.append(error_rate_in_words(test.get("error"), test["alpha"]))
    found = f"It is {verdict.phrase}" + (f" ({', '.join(numbers)})" if numbers else "")
    if verdict is Verdict.INFORMATIVE:
        return f"{found}{condition_of_verdicts(audit, named=False)}."
    return f"{found}{condition(audit, named=False)}. This alone is no reason to drop it."


def _dependence(audit: Audit, k: int) -> str:
    """Return what the second test says; without one, what is known of the rows."""
    if audit.dependence is None or not audit.tested:
        return scored_on(audit.tested_scores)
    if audit.dependence[k] is Dependence.UNTESTED:
        reason = untested.reason_of(audit.scores[DEPENDENCE]) or audit.untested_features.get(
            audit.tested_scores.feature_names[k], untested.UNKNOWN
        )
        return f"Whether the response depends on it was not tested: {reason}."
    p_adjusted = audit.scores[DEPENDENCE].p_adjusted
    number = "" if p_adjusted is None else f" (adjusted p {_p(p_adjusted[k])})"
    if audit.dependence[k] is Dependence.NOT_DETECTED:
        return f"No dependence of the response on it was detected in the nodes of the trees{number}."
    is_used = audit.tested_scores.feature_names[k] not in audit.unused_features
    although = (
        ", although what this model does with it is not confirmed"
        if is_used and audit.verdict[k] is Verdict.INDISTINGUISHABLE
        else ""
    )
    return f"The response depends on it in the nodes of the trees{number}{although}."


def _nearly_the_same(audit: Audit, feature: str) -> list[str]:
    """Return the features that are nearly the same, which both are informative or both are not confirmed alone."""
    informative = [(one.features, one.correlation, "") for one in audit.near_duplicates or ()]
    unconfirmed = [
        (one["features"], one["correlation"], " None of them is confirmed alone; debias.clusters tests them together.")
        for one in audit.tested_scores.details.get(TWINS, [])
    ]
    return [
        f"It is nearly the same column as {enumerated([each for each in features if each != feature], MOST_NAMED)} "
        f"(absolute rank correlation {correlation_in_words(correlation, least=len(features) > 2)}): they may "
        f"share their score.{more}"
        for features, correlation, more in [*informative, *unconfirmed]
        if feature in features
    ]


def _p(value: float | np.floating) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
