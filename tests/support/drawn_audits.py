"""Random audits with the edge cases of real ones: zeros, ties, one feature, nothing informative, nothing tested."""

from dataclasses import replace

import numpy as np
from scipy.special import stdtr, stdtrit

import debias
from debias import p_values
from debias.results.performance import NearDuplicates
from debias.results.untested import with_reason

KINDS = ("permutation", "permutation", "conservative", "naive", "mirror", "own", "untested")


def drawn(seed):
    """Return a random audit. If it has a test, the functions that test real audits made it."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 3, 12, 40, 100, 300, 1000], p=[0.1, 0.1, 0.15, 0.25, 0.2, 0.15, 0.03, 0.02]))
    kind = str(rng.choice(KINDS))
    rows = "train" if kind == "untested" and rng.random() < 0.4 else str(rng.choice(["oob", "held-out"]))
    if kind == "conservative":
        rows = "oob"
    signal = rng.random(n) < rng.choice([0, 0.1, 0.5, 1])
    z = rng.normal(size=n) + np.where(signal, rng.uniform(3, 30, n), 0)
    if rng.random() < 0.15:
        z[:] = -np.abs(z)
    values = z * rng.choice([0.01, 1.0, 100.0], size=n if rng.random() < 0.5 else 1)
    if rng.random() < 0.15:  # one feature has nearly all
        values[0] = 5e3 * np.abs(values).sum() + 1
        z[0] = 40
    if rng.random() < 0.3:
        values[rng.random(n) < 0.5] = 0.0
        z[values == 0] = 0.0
    scores = _scores(rng, values, n, rows)
    scores = _tested(rng, scores, z, kind) if kind != "untested" else _untested(rng, scores)
    if scores.selected is not None:
        scores = replace(scores, details={**scores.details, **_explained_alone(seed, scores), **_rest(seed, scores)})
        scores = replace(scores, details={**scores.details, **_twins(np.random.default_rng([seed, 5]), scores)})
        scores = replace(scores, details={**scores.details, **_unused(np.random.default_rng([seed, 7]), scores, z)})
        scores = replace(scores, details={**scores.details, **_pairs(np.random.default_rng([seed, 8]), scores)})
    if seed % 7 == 0:
        alike = f"consecutive {'blocks' if seed % 2 else 'rows'} are alike: they have similar responses and similar f0"
        scores = replace(scores, warnings=(*scores.warnings, alike))
    reported = _reported(rng, values, n)
    others = {}
    if rng.random() < 0.5:
        others["oob_loss"] = _scores(rng, rng.normal(size=n), n, rows, "oob_loss")
    n_values = rng.integers(1, 500, n) if rng.random() < 0.8 else None
    name = str(rng.choice(["gain", "mean decrease in impurity", "number of splits (of all)"]))
    audit = debias.Audit.of(
        reported,
        name,
        {"mdi_oob": scores, **others},
        n_values,
        reported_unseen=_reported_unseen(np.random.default_rng([seed, 3]), reported, rows),
    )
    if audit.reported_unseen is not None and seed % 3:
        error = audit.reported_unseen * np.random.default_rng([seed, 4]).choice([0.0, 0.05, 3.0], size=n)
        p = np.random.default_rng([seed, 6]).choice([1e-6, 0.01, 0.04, 0.5], size=n)
        audit = replace(audit, reported_unseen_error=error, inflation_p=p)
    return replace(audit, near_duplicates=_near_duplicates(np.random.default_rng([seed, 1]), audit))


def _twins(rng, scores):
    """Return random sets of features that were not found."""
    names = [name for name, found in zip(scores.feature_names, scores.selected, strict=True) if not found]
    sets = []
    while len(names) > 1 and rng.random() < 0.6:
        taken = sorted(rng.choice(len(names), size=min(len(names), int(rng.choice([2, 3, 8]))), replace=False))
        sets.append({"features": [names[k] for k in taken], "correlation": float(rng.choice([0.951, 0.994, 0.996, 1]))})
        names = [name for k, name in enumerate(names) if k not in taken]
    return {"unconfirmed_twins": sets} if sets else {}


def _pairs(rng, scores):
    """Return random pairs that some of the rows confirm; nothing if there are none, as in most audits."""
    n_features, pairs = len(scores.feature_names), []
    if scores.rows != "held-out" or n_features < 2 or rng.random() < 0.3:
        return {}
    classes, names = rng.random() < 0.3, rng.permutation(scores.feature_names).tolist()
    for one, other in zip(names[: 2 * int(rng.choice([1, 2, 3, 4, 6])) : 2], names[1::2], strict=False):
        pairs.append(
            {
                "features": [one, other],
                "p_adjusted": float(rng.choice([1e-300, 0.003, 0.05])),
                "about": str(rng.choice(["b against a", "c against a"])) if classes else "",
            }
        )
    scale, n_rows = "log odds" if classes else None, int(rng.integers(1, scores.n_rows + 1))
    return {"pairs_that_work_together": {"n_rows": n_rows, "alpha": 0.05, "scale": scale, "pairs": pairs}}


def _unused(rng, scores, z):
    """Return that no tree splits on some of the features without a score; nothing as in older audits."""
    without_score = (scores.values == 0) & (z == 0) & ~scores.selected
    names = [name for name, none in zip(scores.feature_names, without_score, strict=True) if none]
    unused = [name for name in names if rng.random() < 0.5]
    return {"unused_features": unused} if unused else {}


def _explained_alone(seed, scores):
    """Return random shares of the response that some features explain by themselves, the most first."""
    rng = np.random.default_rng([seed, 2])
    names = rng.permutation(scores.feature_names)[: rng.choice([0, 1, 1, 2, 5])]
    shares = sorted(rng.choice([0.6, 0.9499, 0.9501, 1.0], size=len(names)), reverse=True)
    return {"explained_alone": dict(zip(map(str, names), map(float, shares), strict=True))}


def _rest(seed, scores):
    """Return a random test of the features that were not found, as one group; nothing as in older audits."""
    rng = np.random.default_rng([seed, 3])
    alpha = scores.details.get("test", {}).get("alpha")
    if (~scores.selected).sum() < 2 or alpha is None or rng.random() < 0.2:
        return {}
    if rng.random() < 0.2:
        return {"rest": {"untested_because": "the rows came in 2 batches. Audit them again"}}
    return {"rest": {"p_value": float(rng.choice([4e-4, 0.004, alpha, np.nextafter(alpha, 1), 0.4, 1.0]))}}


def _reported_unseen(rng, reported, rows):
    """Return the reported figure on these rows: near it, far below, all below 0, or not known."""
    kind = rng.choice(["near", "far", "below", "unknown"], p=[0.2, 0.5, 0.1, 0.2])
    if reported is None or rows == "train" or kind == "unknown":
        return None
    if kind == "below":
        return -reported
    return reported * rng.choice([0.001, 0.3, 0.51, 1.0], size=reported.size) if kind == "far" else reported * 1.0


def _near_duplicates(rng, audit):
    """Return random sets of informative features, in the order of their shares; None where nothing was tested."""
    if not audit.tested or rng.random() < 0.2:
        return None
    names = [name for name, verdict in audit.to_frame()["verdict"].items() if verdict == "informative"]
    if rng.random() < 0.3:
        names = []
    sets = []
    while len(names) > 1 and len(sets) < 6:
        taken = sorted(rng.choice(len(names), size=min(len(names), int(rng.choice([2, 3, 8]))), replace=False))
        correlation = float(rng.choice([0.95, 0.9549, 0.976, 0.994, 0.996, 1.0]))
        sets.append(NearDuplicates(tuple(names[k] for k in taken), correlation))
        names = [name for k, name in enumerate(names) if k not in taken]
    return tuple(sets)


def _suspected(n_rows, n, status):
    """Return the facts of rows of which a part looks like training rows, for some numbers of rows and features."""
    if status != "cannot be told" or n_rows < 30 or n % 2:
        return {}
    detail = "about 42% of these rows may be training rows, as estimated from the leaf counts"
    return {"training_share": 0.417, "detail": detail}


def _scores(rng, values, n, rows, scorer="mdi_oob"):
    n_rows = int(rng.choice([1, 2, 29, 30, 442, 10_000_000], p=[0.1, 0.05, 0.1, 0.1, 0.5, 0.15]))
    status = str(rng.choice(["not recognised as training rows", "cannot be told", "stated by the user"]))
    return debias.Scores(
        values=np.asarray(values, dtype=float),
        feature_names=tuple(f"f{k}" if k % 7 else f"f.{k} (of 3)" for k in range(n)),
        scorer=scorer,
        unit="unit",
        rows=rows,
        n_rows=n_rows,
        provenance={"kind": rows, "status": status, "detail": "as 2 of 3 said: 10% of 1 row"}
        | _suspected(n_rows, n, status),
        details={},
        warnings=(),
        settings={"model": "Forest", "library_version": "1", "n_trees": 3, "debias_version": "0", "seed": None},
    )


def _untested(rng, scores):
    if rng.random() < 0.2:
        return scores  # as an audit written before reasons were kept
    return with_reason(scores, "these rows have 1 class. Audit rows of 2 or more classes")


def _tested(rng, scores, z, kind):
    n, alpha = z.size, float(rng.choice([0.005, 0.05, 0.1]))
    error = str(rng.choice(["fwer", "fwer", "fdr", "fdr_by"]))
    if kind == "mirror":
        return scores.mirrored(alpha)
    if kind == "own":
        return replace(scores, selected=scores.values > 1.0, threshold=1.0)
    test = {"method": kind, "alpha": alpha, "error": error, "blocks": bool(rng.random() < 0.3)}
    if kind == "permutation":
        n_drawn = int(rng.choice([1, 19, 47, 200]))
        null = rng.normal(size=(n_drawn, n))
        p = p_values.permutation_p_values(z, null)
        adjusted = (
            p_values.step_down_max(z, null) if error == "fwer" else p_values.false_discovery(p, error == "fdr_by")
        )
        allowed = int(alpha * (1 + n_drawn) + 1e-9)
        threshold = float(np.sort(null.max(axis=1))[-allowed]) if allowed else None
        given = {"p_value": p, "p_adjusted": adjusted, "threshold": threshold, "null": null}
        test["n_permutations"] = n_drawn
    else:
        rows = rng.choice([2.0, 6.0, 500.0], size=n if rng.random() < 0.5 else 1)
        freedom = np.maximum(rows - 1, 1)
        p = np.where(z == 0, 1.0, np.maximum(stdtr(freedom, -z), np.finfo(float).tiny))
        adjusted = p_values.holm(p) if error == "fwer" else p_values.false_discovery(p, error == "fdr_by")
        given = {"p_value": p, "p_adjusted": adjusted, "threshold": float(-stdtrit(freedom.min(), alpha / n))}
        if rows.size == n:
            test["effective_rows"] = rows.tolist()
        elif rng.random() < 0.5:
            test["n_independent"] = rows[0]
    return replace(
        scores,
        z=z,
        selected=given["p_adjusted"] <= alpha,
        standard_error=np.full(n, 0.5) if rng.random() < 0.8 else None,
        details={"test": test},
        **given,
    )


def _reported(rng, values, n):
    how = rng.choice(["none", "zeros", "noise", "like the scores", "sparse", "ties", "one"])
    if how == "none":
        return None
    if how == "one":
        return np.where(np.arange(n) == rng.integers(n), 1.0, rng.choice([0.0, 1e-7, 1e-4]))
    return {
        "zeros": np.zeros(n),
        "noise": rng.uniform(0.5, 1.5, n),
        "like the scores": np.maximum(values, 0) + rng.uniform(0, 0.1) * np.abs(values).max(initial=1e-9),
        "sparse": np.where(rng.random(n) < 0.3, rng.exponential(size=n), 0.0),
        "ties": rng.integers(0, 3, n).astype(float),
    }[how]
