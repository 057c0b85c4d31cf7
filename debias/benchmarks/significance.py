"""Error rates, power and cost of the significance tests, by simulation with fixed seeds.

Every rate comes with its Monte-Carlo standard error. Data sets are kept in a file as they come, so that a run goes on
where it was stopped; models are trained with fixed seeds too, so a run repeats.
"""

from __future__ import annotations

import tracemalloc
import warnings
from functools import partial
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import numpy as np

import debias
from debias.atomic_files import write_text
from debias.benchmarks.machine import machine_line, versions
from debias.benchmarks.markdown import markdown_table
from debias.benchmarks.runner import run_tasks, write_index
from debias.benchmarks.significance_settings import N_TREES, Setting, forest, loh_rows, seed_of, settings
from debias.benchmarks.trials import TrialFile
from debias.p_values import false_discovery

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.console import Console

LEVELS = (0.01, 0.05, 0.1, 0.25)
POWER = ("E1", "E3", "E4", "E5")
N_PERMUTATIONS = 199
N_REFITS = 100
Found = list[tuple["NDArray[np.float64]", "NDArray[np.float64]", "NDArray[np.bool_]"]]


def run(out: Path, messages: Console, *, repeats: int = 500, jobs: int = 1, restart: bool = False) -> str:
    """Simulate what is missing, and write the page of tables.

    Parameters
    ----------
    out : Path
        Folder to write ``significance.md`` to; data sets there are gone on with.
    messages : rich.console.Console
        Where progress goes.
    repeats : int
        Simulated data sets of each setting; a fifth of them for the comparison of power, which refits a hundred times.
    jobs : int
        Processes, as joblib counts them.
    restart : bool
        Throw away what is there.

    Returns
    -------
    str
        The page.
    """
    of_power = max(2, repeats // 5)
    with TrialFile(
        out / "significance.trials.jsonl", {"study": "significance", "versions": versions()}, restart
    ) as file:
        tasks: list[Any] = [
            (_level_trial, setting, repeat)
            for repeat in range(repeats)
            for setting in settings()
            if not file.scored(setting.name, repeat)
        ]
        tasks += [
            (_power_trial, model, repeat)
            for repeat in range(of_power)
            for model in POWER
            if not file.scored(_power_name(model), repeat)
        ]
        run_tasks(tasks, file, jobs, messages)
    level = [trial for trial in file.trials if trial["repeat"] < repeats]
    power = [trial for trial in file.trials if trial["repeat"] < of_power]
    page = "\n\n".join(
        [
            "# Error rates, power and cost of the significance tests",
            "`debias bench significance`: audits of simulated data whose truth is known; "
            "[what the tests are](../significance.md).",
            f"*Written by the runner; {machine_line()}.*",
            "## Error rates",
            "Of features of noise, with standard errors over data sets in (); the rate of the feature that comes "
            "out most often; family-wise error and false discovery rate at 5 %; relevant features found by step-down "
            "max-z.",
            markdown_table(_level_rows(level)),
            "## Power beside refits",
            f"Relevant features found at 5 %, one by one: {N_PERMUTATIONS} permutations of the frozen forest, all "
            f"drawn, beside PIMP (Altmann et al. 2010): MDI beside {N_REFITS} refits on permuted responses.",
            markdown_table(_power_rows(power)),
            "## Cost",
            *_cost_lines(),
        ]
    )
    write_text(out / "significance.md", page + "\n")
    _write_figures(level, power, out / "significance.csv")
    write_index(out)
    return page + "\n"


def p_values(setting: Setting, repeats: int, seed: int = 0) -> Found:
    """Return p-values, adjusted p-values and relevance of the features of `repeats` simulated data sets."""
    return [one_data_set(setting, seed, each) for each in range(repeats)]


def one_data_set(
    setting: Setting, seed: int, number: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Draw a data set, train the model and test it: p-values, adjusted p-values and relevance of the features."""
    rng = np.random.default_rng([seed, number])
    X, y, relevant = setting.draw(rng)
    model = setting.model(seed_of(rng)).fit(X, y)
    if setting.held_out:
        X, y, relevant = setting.draw(rng)
    given: dict[str, Any] = {
        "rows": "held-out" if setting.held_out else "oob",
        "blocks": np.arange(len(y)) // setting.block if setting.block else None,
        "n_permutations": setting.n_permutations,
        "adaptive": False,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", debias.DebiasWarning)  # of repeated rows, and of rows that look like training's
        found = debias.audit(model, X, y, ["mdi_oob"], test=setting.test, error="fwer", seed=seed_of(rng), **given).main
    assert found.p_value is not None
    assert found.p_adjusted is not None
    return found.p_value, found.p_adjusted, relevant


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
        For "frozen" and "PIMP": ``found``, the share of relevant features with p <= 0.05, and ``seconds`` of the
        processor.
    """
    rng = np.random.default_rng([7, number])
    X, y, relevant = loh_rows(model, rng)
    fitted = forest(seed_of(rng), min_samples_leaf=5).fit(X, y)
    begin = process_time()
    # All permutations: p-values of single features rest on too few where drawing stops at the family's verdicts.
    given: Any = {"rows": "oob", "n_permutations": N_PERMUTATIONS, "adaptive": False, "seed": number}
    scores = debias.audit(fitted, X, y, ["mdi_oob"], **given).main
    took = process_time() - begin
    assert scores.p_value is not None
    begin = process_time()
    count = np.zeros(X.shape[1])
    for _ in range(n_refits):
        refit = forest(seed_of(rng), min_samples_leaf=5).fit(X, rng.permutation(y))
        count += refit.feature_importances_ >= fitted.feature_importances_
    pimp = (1 + count) / (1 + n_refits)
    return {
        "frozen": {"found": float((scores.p_value[relevant] <= 0.05).mean()), "seconds": took},
        "PIMP": {"found": float((pimp[relevant] <= 0.05).mean()), "seconds": process_time() - begin},
    }


def level_figures(found: Found) -> dict[str, tuple[float, float]]:
    """Return rates over noise features, the highest of one feature, family-wise error, FDR and power, each with SE."""
    p, adjusted, relevant = (np.array(part) for part in zip(*found, strict=True))
    noise = ~relevant
    figures = {f"P(p <= {u:g})": _rate(np.array([(p[i][noise[i]] <= u).mean() for i in range(len(p))])) for u in LEVELS}
    always = noise.all(axis=0)
    if always.any():
        figures["highest feature at .05"] = float((p[:, always] <= 0.05).mean(axis=0).max()), float("nan")
    figures["FWER"] = _rate(np.array([(adjusted[i][noise[i]] <= 0.05).any() for i in range(len(p))]))
    if relevant.any():
        chosen = np.array([false_discovery(row) <= 0.05 for row in p])
        figures["FDR"] = _rate((chosen & noise).sum(axis=1) / np.maximum(chosen.sum(axis=1), 1))
        with_signal = relevant.any(axis=1)
        shares = (adjusted <= 0.05)[with_signal], relevant[with_signal]
        figures["power"] = _rate((shares[0] & shares[1]).sum(axis=1) / shares[1].sum(axis=1))
    return figures


def _level_trial(setting: Setting, repeat: int) -> dict[str, Any]:
    p, adjusted, relevant = one_data_set(setting, 0, repeat)
    scores = {"frozen": {"p": p.tolist(), "adjusted": adjusted.tolist(), "relevant": relevant.tolist()}}
    return {"design": setting.name, "repeat": repeat, "scores": scores}


def _power_trial(model: str, repeat: int) -> dict[str, Any]:
    return {"design": _power_name(model), "repeat": repeat, "scores": power(model, repeat)}


def _power_name(model: str) -> str:
    return f"power, {model}"


def _levels(trials: list[dict[str, Any]]) -> dict[str, tuple[int, dict[str, tuple[float, float]]]]:
    """Return by setting how many data sets there are, and the figures."""
    found: dict[str, Found] = {setting.name: [] for setting in settings()}
    for trial in trials:
        if trial["design"] in found:
            scores = trial["scores"]["frozen"]
            p, adjusted, relevant = (np.array(scores[key]) for key in ("p", "adjusted", "relevant"))
            found[trial["design"]].append((p, adjusted, relevant))
    return {name: (len(of), level_figures(of)) for name, of in found.items() if of}


def _level_rows(trials: list[dict[str, Any]]) -> list[list[str]]:
    columns = [*(f"P(p <= {u:g})" for u in LEVELS), "highest feature at .05", "FWER", "FDR", "power"]
    lines = [["setting", "data sets", *columns], ["---", *["---:"] * (1 + len(columns))]]
    for name, (n, figures) in _levels(trials).items():
        lines.append([name, str(n), *(_shown(figures[key]) if key in figures else "" for key in columns)])
    return lines


def _powers(trials: list[dict[str, Any]]) -> dict[str, tuple[int, dict[str, tuple[float, float]]]]:
    """Return by design how many data sets there are, what each method found, the difference and the ratio of times."""
    every = {}
    for model in POWER:
        of = [trial["scores"] for trial in trials if trial["design"] == _power_name(model)]
        if not of:
            continue
        found, seconds = (
            np.array([[scores[method][key] for method in ("frozen", "PIMP")] for scores in of])
            for key in ("found", "seconds")
        )
        every[model] = (
            len(of),
            {
                "frozen forest": _rate(found[:, 0]),
                "PIMP": _rate(found[:, 1]),
                "difference": _rate(found[:, 0] - found[:, 1]),
                "time, PIMP : frozen": (float(np.median(seconds[:, 1] / seconds[:, 0])), float("nan")),
            },
        )
    return every


def _power_rows(trials: list[dict[str, Any]]) -> list[list[str]]:
    columns = ["frozen forest", "PIMP", "difference", "time, PIMP : frozen"]
    lines = [["design", "data sets", *columns], ["---", *["---:"] * (1 + len(columns))]]
    for model, (n, figures) in _powers(trials).items():
        lines.append([model, str(n), *(_shown(figures[key]) for key in columns)])
    return lines


def _write_figures(level: list[dict[str, Any]], power: list[dict[str, Any]], path: Path) -> None:
    import pandas as pd

    lines = [
        {"setting": name, "data_sets": n, "figure": figure, "value": value, "standard_error": error}
        for part in (_levels(level), {_power_name(model): cells for model, cells in _powers(power).items()})
        for name, (n, figures) in part.items()
        for figure, (value, error) in figures.items()
    ]
    write_text(path, pd.DataFrame(lines).to_csv(index=False, float_format="%.6g"))


def _rate(values: NDArray[Any]) -> tuple[float, float]:
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else float("nan")
    return float(values.mean()), float(error)


def _shown(figure: tuple[float, float]) -> str:
    value, error = figure
    text = f"{value:.0f}" if value >= 10 else f"{value:.3f}"
    return text if np.isnan(error) else f"{text} ({error:.3f})"


def _cost_lines(n_rows: int = 20_000, n_features: int = 50, threads: int = 2) -> list[str]:
    """Time 200 permutations beside one fit of the forest, with the same threads."""
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
        audit = partial(debias.audit, model, X, y, ["mdi_oob"], rows="oob", n_jobs=threads, seed=0, adaptive=False)
        audit(test=None)  # compile, warm the caches
        plain = _time(partial(audit, test=None))
        tracemalloc.start()
        audit(n_permutations=31)
        memory = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        test = _time(partial(audit, n_permutations=200)) - plain
        clock, processor = test / fit
        lines.append(
            f"- {name}: fit {fit[0]:.1f} s, score {plain[0]:.1f} s, 200 permutations {test[0]:.1f} s = {clock:.2f} "
            f"fits by the clock, {processor:.2f} by processor time, {memory:.0f} MB; PIMP with 200 refits would take "
            f"{200 / processor:.0f} times as long"
        )
    return [lines[0], "\n".join(lines[1:])]


def _time(call: Callable[[], Any]) -> NDArray[np.float64]:
    """Return seconds of the clock and of the processor; the latter do not depend on what else the machine does."""
    clock, processor = perf_counter(), process_time()
    call()
    return np.array([perf_counter() - clock, process_time() - processor])
