"""Error rates, power and cost of the significance tests, by simulation with fixed seeds.

Every rate has its Monte-Carlo standard error. Results of data sets are kept in a file at once, so a stopped run can
continue. Models have fixed seeds too, so a second run gives the same numbers.
"""

from __future__ import annotations

import tracemalloc
import warnings
from functools import partial
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import debias
from debias.p_values import false_discovery
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Estimate, Measurement, lines_of_settings, rate, with_error
from debias_bench.runner import machine_line
from debias_bench.significance_settings import N_TREES, Setting, forest, loh_rows, seed_of, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

LEVELS = (0.01, 0.05, 0.1, 0.25)
POWER = ("E1", "E3", "E4", "E5")
N_PERMUTATIONS = 199
N_REFITS = 100
Results = list[tuple["NDArray[np.float64]", "NDArray[np.float64]", "NDArray[np.bool_]"]]
"""P-values, adjusted p-values and relevance of the features, for each data set."""


def _tasks(repeats: int) -> Iterator[tuple[Any, ...]]:
    for repeat in range(repeats):
        yield from ((setting.name, repeat, _level_trial, setting, repeat) for setting in settings())
    for repeat in range(_n_power(repeats)):
        yield from ((_power_name(model), repeat, _power_trial, model, repeat) for model in POWER)


def _n_power(repeats: int) -> int:
    """Return the number of data sets for the comparison of power, which refits a hundred times."""
    return max(2, repeats // 5)


def _parts(trials: list[dict[str, Any]], repeats: int) -> list[str]:
    table, counts = level_page(trials, settings())
    powers = _powers(trials)
    return [
        "# Error rates, power and cost of the significance tests",
        "`debias bench significance`: audits of simulated data whose truth is known; "
        "[what the tests are](../significance.md). Held-out rows have the test of scores here; the default has a "
        "[table of its own](default-levels.md).",
        f"*Written by the runner; {machine_line()}.*",
        "## Error rates",
        "Rates of noise features, with standard errors over data sets in (); the rate of the noise feature with "
        "the highest rate; family-wise error rate and false discovery rate at 5 %; share of relevant features "
        "found by step-down max-z.",
        table,
        *unfinished(counts, repeats),
        "## Power beside refits",
        f"Share of relevant features found at 5 %, without adjustment for several features; [power](power.md) has "
        f"family-wise power, false discovery rates and other tests. The frozen forest uses "
        f"all {N_PERMUTATIONS} permutations. PIMP (Altmann et al. 2010) compares MDI with {N_REFITS} refits on "
        "permuted responses.",
        _table("design", powers, ["frozen forest", "PIMP", "difference", "time, PIMP : frozen"]),
        *unfinished({model: n for model, (n, _) in powers.items()}, _n_power(repeats)),
        "## Cost",
        *_cost_lines(),
    ]


def p_values(setting: Setting, repeats: int, seed: int = 0) -> Results:
    """Return p-values, adjusted p-values and relevance of the features of `repeats` simulated data sets."""
    return [one_data_set(setting, seed, number) for number in range(repeats)]


def one_data_set(
    setting: Setting,
    seed: int,
    number: int,
    dependence: bool = False,
    of: Literal["response", "auto"] = "response",
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Draw a data set, train a model and test it; return p-values, adjusted p-values and relevance of features.

    With `dependence` they are those of the combined test; with `of`, those of the test that permutes it ("auto" is the
    default of an audit).
    """
    rng = np.random.default_rng([seed, number])
    X, y, relevant, *more = setting.draw(rng)
    of_training: dict[str, Any] = dict(*more)
    weights = {"sample_weight": of_training["sample_weight"]} if "sample_weight" in of_training else {}
    model = setting.model(seed_of(rng)).fit(X, y, **weights)
    train = (X, y)
    if setting.held_out:
        X, y, relevant, *more = setting.draw(rng)
    permutation = debias.Permutation(setting.n_permutations, adaptive=False, of=of)
    options: dict[str, Any] = {
        "rows": "held-out" if setting.held_out else "oob",
        "test": permutation if setting.test == "auto" else setting.test,
        "dependence": dependence,
        "train": train if dependence and setting.held_out else None,
        "random_state": seed_of(rng),
    }
    given: dict[str, Any] = dict(*more)
    if setting.block:
        given["blocks"] = np.arange(len(y)) // setting.block
    with warnings.catch_warnings():
        # The warnings are about repeated rows, and about rows that look like training rows.
        warnings.simplefilter("ignore", debias.DebiasWarning)
        audit = debias.audit(model, debias.Dataset(X, y, **given), scorers=["mdi_oob"], **options)
    scores = audit.scores["honest_effects"] if dependence else audit.tested_scores
    if scores.p_value is None or scores.p_adjusted is None:  # untested: these rows can tell nothing
        return np.ones(relevant.size), np.ones(relevant.size), relevant
    return scores.p_value, scores.p_adjusted, relevant


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


def level_estimates(results: Results) -> dict[str, Estimate]:
    """Return rates of noise features, the highest rate of one feature, FWER, FDR and power, each with its SE."""
    p, adjusted, relevant = (np.array(part) for part in zip(*results, strict=True))
    noise = ~relevant
    estimates = {
        f"P(p <= {u:g})": rate(np.array([(p[i][noise[i]] <= u).mean() for i in range(len(p))])) for u in LEVELS
    }
    always_noise = noise.all(axis=0)
    if always_noise.any():
        estimates["highest feature at .05"] = float((p[:, always_noise] <= 0.05).mean(axis=0).max()), float("nan")
    estimates["FWER"] = rate(np.array([(adjusted[i][noise[i]] <= 0.05).any() for i in range(len(p))]))
    if relevant.any():
        discovered = np.array([false_discovery(row) <= 0.05 for row in p])
        estimates["FDR"] = rate((discovered & noise).sum(axis=1) / np.maximum(discovered.sum(axis=1), 1))
        with_signal = relevant.any(axis=1)
        found, to_find = (adjusted <= 0.05)[with_signal], relevant[with_signal]
        estimates["power"] = rate((found & to_find).sum(axis=1) / to_find.sum(axis=1))
    return estimates


def unfinished(counts: dict[str, int], wanted: int) -> list[str]:
    """Return a paragraph that names the settings with fewer data sets than wanted; none if all are complete."""
    fewer = {name: n for name, n in counts.items() if n < wanted}
    if not fewer:
        return []
    listed = "; ".join(f"{name}: {n}" for name, n in fewer.items())
    return [f"The run was stopped before all {wanted} data sets of these settings were simulated: {listed}."]


def _level_trial(setting: Setting, repeat: int) -> dict[str, Any]:
    p, adjusted, relevant = one_data_set(setting, 0, repeat)
    return {"design": setting.name, "repeat": repeat, "scores": kept(p, adjusted, relevant)}


def kept(
    p: NDArray[np.float64], adjusted: NDArray[np.float64], relevant: NDArray[np.bool_]
) -> dict[str, dict[str, Any]]:
    """Return the result of one data set as `levels` reads it from the file of trials."""
    return {"frozen": {"p": p.tolist(), "adjusted": adjusted.tolist(), "relevant": relevant.tolist()}}


def _power_trial(model: str, repeat: int) -> dict[str, Any]:
    return {"design": _power_name(model), "repeat": repeat, "scores": power(model, repeat)}


def _power_name(model: str) -> str:
    return f"power, {model}"


def level_page(trials: list[dict[str, Any]], of: list[Setting]) -> tuple[str, dict[str, int]]:
    """Return the table of error rates of these settings, and the number of data sets of each."""
    found = levels(trials, of)
    columns = [*(f"P(p <= {u:g})" for u in LEVELS), "highest feature at .05", "FWER", "FDR", "power"]
    return _table("setting", found, columns), {name: n for name, (n, _) in found.items()}


def levels(trials: list[dict[str, Any]], of: list[Setting]) -> dict[str, tuple[int, dict[str, Estimate]]]:
    """Return the number of data sets and the estimates of each setting."""
    by_setting: dict[str, Results] = {setting.name: [] for setting in of}
    for trial in trials:
        if trial["design"] in by_setting:
            scores = trial["scores"]["frozen"]
            p, adjusted, relevant = (np.array(scores[key]) for key in ("p", "adjusted", "relevant"))
            by_setting[trial["design"]].append((p, adjusted, relevant))
    return {name: (len(results), level_estimates(results)) for name, results in by_setting.items() if results}


def _powers(trials: list[dict[str, Any]]) -> dict[str, tuple[int, dict[str, Estimate]]]:
    """Return, for each design, the number of data sets, the power of both methods, and the ratio of their times."""
    by_model = {}
    for model in POWER:
        results = [trial["scores"] for trial in trials if trial["design"] == _power_name(model)]
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


def _table(of: str, found: dict[str, tuple[int, dict[str, Estimate]]], columns: list[str]) -> str:
    lines = [
        [name, str(n), *(_cell(estimates[column]) if column in estimates else "" for column in columns)]
        for name, (n, estimates) in found.items()
    ]
    return markdown_table([of, "data sets", *columns], lines)


def _lines(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    powers = {_power_name(model): found for model, found in _powers(trials).items()}
    return lines_of_settings(levels(trials, settings()) | powers)


def _cell(estimate: Estimate) -> str:
    return f"{estimate[0]:.0f}" if estimate[0] >= 10 and np.isnan(estimate[1]) else with_error(estimate)


def _cost_lines(n_rows: int = 20_000, n_features: int = 50, threads: int = 2) -> list[str]:
    """Return lines with the time of 200 permutations beside that of one fit of the forest, with the same threads."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    latent = X[:, :5].sum(axis=1) + rng.normal(scale=2, size=n_rows)
    lines = [f"n = {n_rows:,}, p = {n_features}, {N_TREES} grown-out trees, {threads} threads."]
    for name, model, y in (
        ("classification, sqrt(p) features tried", RandomForestClassifier(N_TREES), (latent > 0).astype(int)),
        ("regression, p / 3 features tried", RandomForestRegressor(N_TREES, max_features=1 / 3), latent),
    ):
        model.set_params(random_state=0, n_jobs=threads)
        fit = _time(partial(model.fit, X, y))
        audit = partial(debias.audit, model, X, y, ["mdi_oob"], rows="oob", n_jobs=threads, random_state=0)
        audit(test=None)  # loads the libraries and warms the caches
        plain = _time(partial(audit, test=None))
        tracemalloc.start()
        audit(test=debias.Permutation(31, adaptive=False), dependence=False)
        memory = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        permutation = debias.Permutation(200, adaptive=False)
        test = _time(partial(audit, test=permutation, dependence=False)) - plain
        both = (_time(partial(audit, test=permutation, dependence=True)) - plain) / fit
        clock, processor = test / fit
        lines.append(
            f"- {name}: fit {fit[0]:.1f} s, score {plain[0]:.1f} s, 200 permutations {test[0]:.1f} s = {clock:.2f} "
            f"fits by the clock, {processor:.2f} by processor time, with the test of dependence {both[0]:.2f} and "
            f"{both[1]:.2f}, {memory:.0f} MB; PIMP with 200 refits would take "
            f"{200 / processor:.0f} times as long"
        )
    return [lines[0], "\n".join(lines[1:])]


def _time(call: Callable[[], Any]) -> NDArray[np.float64]:
    """Return elapsed seconds and seconds of processor time; the latter do not depend on other load of the machine."""
    clock, processor = perf_counter(), process_time()
    call()
    return np.array([perf_counter() - clock, process_time() - processor])


run = Measurement("significance", 300, _tasks, _parts, _lines).run
