"""Power of the test with a frozen forest beside PIMP, which refits the forest to permuted responses."""

from __future__ import annotations

from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias_bench.measurement import Estimate, Measurement, lines_of_settings, rate
from debias_bench.runner import machine_line
from debias_bench.significance import table_of, unfinished
from debias_bench.significance_settings import forest, loh_rows, seed_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DESIGNS = ("E1", "E3", "E4", "E5")
N_PERMUTATIONS = 199
N_REFITS = 100


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        yield from ((design, repeat, _trial, design, repeat) for design in DESIGNS)


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    found = _found(trials)
    return [
        "# Power beside refits",
        "`debias bench refits`: share of relevant features found at 5 %, without adjustment for several features; "
        "[power](power.md) has family-wise power, false discovery rates and other tests. The frozen forest uses all "
        f"{N_PERMUTATIONS} permutations. PIMP (Altmann et al. 2010) compares MDI with {N_REFITS} refits to permuted "
        "responses. Forests of Loh and Zhou's (2020) designs, with leaves of five rows or more; standard errors in ().",
        f"*Written by the runner; {machine_line()}.*",
        table_of("design", found, ["frozen forest", "PIMP", "difference", "time, PIMP : frozen"]),
        *unfinished({design: n for design, (n, _) in found.items()}, repeats),
    ]


def power(model: str, number: int, n_refits: int = N_REFITS) -> dict[str, dict[str, Any]]:
    """Test one data set with the frozen forest and with PIMP.

    Parameters
    ----------
    model : str
        E1, E3, E4 or E5 of Loh and Zhou (2020).
    number, n_refits : int

    Returns
    -------
    dict
        For "frozen" and "PIMP": ``found``, the share of relevant features with p <= 0.05, and ``seconds`` of processor
        time.
    """
    rng = np.random.default_rng([7, number])
    X, y, relevant = loh_rows(model, rng)
    fitted = forest(seed_of(rng), min_samples_leaf=5).fit(X, y)
    begin = process_time()
    # All permutations are drawn: adaptive drawing stops too early for p-values of single features.
    options: Any = {"rows": "oob", "test": debias.Permutation(N_PERMUTATIONS, adaptive=False), "random_state": number}
    scores = debias.audit(fitted, X, y, ["mdi_oob"], **options, dependence=False).tested_scores
    seconds = process_time() - begin
    assert scores.p_value is not None
    begin = process_time()
    count = np.zeros(X.shape[1])
    for _ in range(n_refits):
        refit = forest(seed_of(rng), min_samples_leaf=5).fit(X, rng.permutation(y))
        count += refit.feature_importances_ >= fitted.feature_importances_
    pimp = (1 + count) / (1 + n_refits)
    return {
        "frozen": {"found": float((scores.p_value[relevant] <= 0.05).mean()), "seconds": seconds},
        "PIMP": {"found": float((pimp[relevant] <= 0.05).mean()), "seconds": process_time() - begin},
    }


def _trial(model: str, repeat: int) -> dict[str, Any]:
    return {"design": model, "repeat": repeat, "scores": power(model, repeat)}


def _found(trials: list[dict[str, Any]]) -> dict[str, tuple[int, dict[str, Estimate]]]:
    """Return, for each design, the number of data sets, the power of both methods, and the ratio of their times."""
    by_model = {}
    for model in DESIGNS:
        results = [trial["scores"] for trial in trials if trial["design"] == model]
        if not results:
            continue
        found, seconds = (
            np.array([[scores[method][key] for method in ("frozen", "PIMP")] for scores in results])
            for key in ("found", "seconds")
        )
        by_model[model] = (
            len(results),
            {
                "frozen forest": rate(found[:, 0]),
                "PIMP": rate(found[:, 1]),
                "difference": rate(found[:, 0] - found[:, 1]),
                "time, PIMP : frozen": (float(np.median(seconds[:, 1] / seconds[:, 0])), float("nan")),
            },
        )
    return by_model


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return lines_of_settings(_found(trials))


run = Measurement("refits", 100, _tasks, _parts, _lines).run
