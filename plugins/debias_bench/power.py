"""Power and errors of tests, one by one, family-wise and by false discovery rate, with other tests beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias import DebiasError
from debias.p_values import false_discovery
from debias_bench.markdown import markdown_table
from debias_bench.measurement import Estimate, publish, rate, with_error
from debias_bench.power_designs import PowerDesign, boosters, forests, seeds
from debias_bench.power_methods import (
    AUDIT,
    METHODS,
    N_PERMUTATIONS,
    N_REFITS,
    ON_HELD_OUT_ROWS,
    REFITTING,
    SLOW,
    Case,
    verdicts,
)
from debias_bench.runner import machine_line, run_tasks, versions
from debias_bench.trials import TrialFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from rich.console import Console

LEVEL, DISCOVERY = 0.05, 0.1
COLUMNS = ("one by one", "family-wise", "BH .1", "noise at 5 %", "FWER", "FDR")
TESTS = {
    "power": (
        f"{AUDIT}:permutation",
        f"{AUDIT}:combined",
        *(name for name in METHODS if name not in ON_HELD_OUT_ROWS),
    ),
    "aico": (
        AUDIT,
        f"{AUDIT}:permutation",
        f"{AUDIT}:combined",
        "correlation",
        "paired permutation",
        *ON_HELD_OUT_ROWS,
    ),
}
TITLES = {
    "power": "How many relevant features do tests find?",
    "aico": "How many relevant features do tests of a boosted model find?",
}
ABOUT = {
    "power": (
        "`debias bench power`: random forests of 100 trees, tested on their own rows. [significance](significance.md) "
        "compares with PIMP one by one."
    ),
    "aico": (
        "`debias bench aico`: the simulated regression of Giesecke, Horel and Jirachotkulthorn (2025), with the "
        "distributions and coefficients of their public code. Twelve of 19 features matter: y = 3 + 4 X1 + X1 X2 + "
        "3 X3^2 + 2 X4 X5 + 6 X6 + 2 sin X7 + exp X8 + 5 X9 + 3 X10 + 4 X11 + 5 X12 + noise. X1 to X7 are normal, with "
        "a correlation of .85 between X1 and X6; X8 is uniform between -1 and 1; X9 = 1 where X2 + Z < 0, with Z "
        "N(0, 1); X10 is Poisson with mean 3; X11 and X12 have Student's t distribution with 5 degrees of freedom. The "
        "noise features are two normal ones, two with a correlation of .85 and three with Student's t distribution. "
        "XGBoost, 100 trees of depth 3, is fitted to 1,000 rows and tested on 1,000 others. The authors have 1,000,000 "
        "and 500,000 rows, a neural network, and noise with standard deviation 1."
    ),
}
REFITS = (
    f"the share of {N_REFITS} refits to permuted responses one by one and for BH, which cannot be below "
    f"1/{N_REFITS + 1}, and a normal distribution of the refits with Holm's method family-wise"
)
NOTES = {
    AUDIT: f"`debias.audit` as it is, with all {N_PERMUTATIONS} permutations: on held-out rows of residuals",
    f"{AUDIT}:permutation": f'`debias.audit` with `test="permutation"` and all {N_PERMUTATIONS} permutations',
    f"{AUDIT}:combined": (
        "the verdict of an audit on dependence, with 199 permutations up to 20 features, 499 up to 50, 999 for more; "
        "it uses the training rows too"
    ),
    "correlation": "the t-test of Pearson's correlation with Holm's method, on all rows and without a model",
    "guide": "GUIDE (Loh and Zhou 2020) at 5 %; it only selects",
    "boruta": "20 rounds, binomial tests with Bonferroni's method; it only selects",
    "PIMP": f"MDI (Altmann et al. 2010), {REFITS}",
    "ranger, Altmann": f"the same for MDI of a feature minus that of its permuted copy in one forest: {REFITS}",
    "Janitza": (
        "hold-out importance of two forests, each fitted to a half (Janitza et al. 2018). A p-value is 0 above the "
        "largest mirrored value, so Holm's method does not control the family-wise error rate"
    ),
    "paired permutation": (
        "one-sided paired t-test of the loss with and without a permuted column, on the held-out rows; without these "
        "the model is fitted to two thirds of the rows and tested on the others"
    ),
    "LOCO": (
        "the model is fitted again without each feature (Lei et al. 2018); Wilcoxon's signed-rank test of the absolute "
        "errors of held-out rows"
    ),
    "ablation": "the scorer of debias, with its own p-values by rows",
    "permutation": (
        "`permutation(p_values=True)` of debias: the mean loss over 5 permuted columns, with p-values by rows"
    ),
    "AICO": (
        "the authors' sign test, restated: masking the feature makes the loss larger in more than half of the rows. It "
        "is masked by its mean in the training rows, X9 and X10 by the most frequent value. A row that does not change "
        "counts against the feature"
    ),
    "AICO, ties split": (
        "the same, but a row that does not change counts for or against the feature with probability 1/2: trees have "
        "many such rows"
    ),
}
"""What each test is, for the page."""


def run(
    name: str,
    out: Path,
    messages: Console,
    *,
    repeats: int = 100,
    seed: int = 0,
    jobs: int = 1,
    tests: Sequence[str] = (),
    restart: bool = False,
) -> str:
    """Run the missing trials, and write the page, and its numbers as CSV.

    Parameters
    ----------
    name : {"power", "aico"}
    out : Path
        Folder to write to. If it has trials, the run continues from there.
    messages : rich.console.Console
        Console for progress.
    repeats : int
        Number of data sets of each design; a fifth of them for tests that refit many forests.
    seed, jobs : int
    tests : sequence of str
        Names of tests: ``audit``, ``audit:TEST``, or a key of METHODS; by default those of the study. Trials of other
        tests that the folder has are shown too.
    restart : bool
        Whether to delete existing trials.

    Returns
    -------
    str
        The page.
    """
    designs = forests() if name == "power" else boosters()
    asked = tuple(tests) or TESTS[name]
    header = {"study": name, "seed": seed, "versions": versions()}
    with TrialFile(out / f"{name}.trials.jsonl", header, restart) as file:
        tasks: list[Any] = [
            (trial, design, repeat, seed, missing)
            for repeat in range(repeats)
            for design in designs
            if (missing := _missing(design, asked, file.scored(design.name, repeat), repeat, repeats))
        ]
        run_tasks(tasks, file, jobs, messages)
    trials = [trial for trial in file.trials if trial["repeat"] < repeats]
    rows = [row for design in designs for row in estimates(trials, design.name)]
    shown = dict.fromkeys(row["test"] for row in rows)
    parts = [
        f"# {TITLES[name]}",
        ABOUT[name],
        "\n".join(f"- *{test}*: {NOTES[test]}." for test in shown if test in NOTES),
        "Tests that take long have fewer data sets, the first ones of the others.",
        _columns_explained(),
        f"*Written by the runner, seed {seed}; {machine_line()}.*",
    ]
    for design in designs:
        of_design = [row for row in rows if row["design"] == design.name]
        if of_design:
            parts.append(f"## {design.name}\n\n{design.about}\n\n{_table(of_design)}")
    refused = _refusals(trials)
    if refused:
        parts.append("## Refused\n\n" + "\n".join(refused))
    return publish(name, out, parts, _lines(rows))


def trial(design: PowerDesign, repeat: int, seed: int, tests: Sequence[str]) -> dict[str, Any]:
    """Draw one data set, fit the model and run the tests; return plain values."""
    data_seed, model_seed = seeds(seed, design.name, repeat)
    sample = design.draw(data_seed)
    y = sample.simulation.y

    def unfitted(refit_seed: int) -> Any:
        return design.model(refit_seed, y)

    model = unfitted(model_seed).fit(sample.simulation.numeric.to_numpy(), y)
    case = Case(model, sample.simulation, sample.held_out, unfitted, model_seed)
    truth = {"relevant": sample.simulation.is_relevant.tolist(), "noise": sample.noise.tolist()}
    return {
        "design": design.name,
        "repeat": repeat,
        **truth,
        "scores": {name: _plain(name, case) for name in tests},
    }


def estimates(trials: list[dict[str, Any]], design: str) -> list[dict[str, Any]]:
    """Return for each test of a design the rates of COLUMNS with their standard errors, over data sets.

    Parameters
    ----------
    trials : list of dict
        Results of `trial`.
    design : str

    Returns
    -------
    list of dict
        ``design``, ``test``, ``data_sets``, and for each column (mean, standard error), or None where a test has no
        such estimate.
    """
    of_design = [trial for trial in trials if trial["design"] == design]
    names = dict.fromkeys(name for trial in of_design for name in trial["scores"])
    rows = []
    for name in names:
        with_name = [trial for trial in of_design if "refused" not in trial["scores"].get(name, {"refused": ""})]
        each = [
            _rates(trial["scores"][name], np.array(trial["relevant"]), np.array(trial["noise"])) for trial in with_name
        ]
        if each:
            cells = {column: _mean([rates[column] for rates in each]) for column in COLUMNS}
            rows.append({"design": design, "test": name, "data_sets": len(each), **cells})
    return rows


def _rates(score: dict[str, Any], relevant: NDArray[np.bool_], noise: NDArray[np.bool_]) -> dict[str, float | None]:
    """Return the numbers of one data set: shares of relevant features found, and errors among noise."""
    rates: dict[str, float | None] = dict.fromkeys(COLUMNS)
    if score["p"] is not None:
        p = np.array(score["p"])
        discovered = false_discovery(p) <= DISCOVERY
        rates["noise at 5 %"] = float((p[noise] <= LEVEL).mean())
        rates["FDR"] = float((discovered & noise).sum() / max((discovered & (noise | relevant)).sum(), 1))
        if relevant.any():
            rates["one by one"] = float((p[relevant] <= LEVEL).mean())
            rates["BH .1"] = float(discovered[relevant].mean())
    if score["adjusted"] is not None:
        found = np.array(score["adjusted"]) <= LEVEL
        rates["FWER"] = float(found[noise].any())
        if relevant.any():
            rates["family-wise"] = float(found[relevant].mean())
    return rates


def _plain(name: str, case: Case) -> dict[str, Any]:
    try:
        result = verdicts(name, case)
    except DebiasError as error:
        return {"refused": str(error)}
    parts = {"p": result.p, "adjusted": result.adjusted}
    return {key: None if part is None else np.round(part, 9).tolist() for key, part in parts.items()}


def _missing(design: PowerDesign, tests: Sequence[str], scored: set[str], repeat: int, repeats: int) -> tuple[str, ...]:
    """Return the tests that this trial still lacks."""

    def takes_part(name: str) -> bool:
        if name in (*REFITTING, *SLOW) and repeat >= max(2, repeats // 5):
            return False
        return design.refits or name not in REFITTING

    return tuple(name for name in tests if name not in scored and takes_part(name))


def _mean(values: list[float | None]) -> Estimate | None:
    given = np.array([value for value in values if value is not None])
    return rate(given) if given.size else None


def holds(row: dict[str, Any]) -> bool:
    """Whether the errors of a test are at most their level plus two standard errors, in one design.

    The family-wise error has the binomial standard error of its level, since a rate of 0 has none of its own.
    """
    binomial = np.sqrt(LEVEL * (1 - LEVEL) / row["data_sets"])
    one, family = row["noise at 5 %"], row["FWER"]
    return bool((one is None or one[0] <= LEVEL + 2 * one[1]) and (family is None or family[0] <= LEVEL + 2 * binomial))


def _columns_explained() -> str:
    return (
        "Shares of relevant features found: *one by one* at p <= .05, *family-wise* at 5 % by the method's own "
        "adjustment or Holm's, *BH .1* by Benjamini and Hochberg's method at a false discovery rate of .1. *noise at "
        "5 %* is the share of noise features with p <= .05, *FWER* the share of data sets in which the family-wise "
        "method finds noise, *FDR* the share of noise among the discoveries of BH .1. Means over data sets, with "
        "standard errors in (). A test in brackets does not hold its level in that design: noise at 5 % or FWER is "
        "above .05 by more than two standard errors. Its power is not comparable."
    )


def _table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        name = row["test"] if holds(row) else f"[{row['test']}]"
        lines.append([name, str(row["data_sets"]), *(with_error(row[column]) for column in COLUMNS)])
    return markdown_table(["test", "data sets", *COLUMNS], lines)


def _refusals(trials: list[dict[str, Any]]) -> list[str]:
    reasons: dict[tuple[str, str], None] = {}
    for one in trials:
        for name, score in one["scores"].items():
            if "refused" in score:
                reasons[name, score["refused"]] = None
    return [f"- {name}: {reason}" for name, reason in reasons]


def _lines(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "design": row["design"], "test": row["test"], "data_sets": row["data_sets"], "quantity": column,
            "value": row[column][0], "standard_error": row[column][1],
        }
        for row in rows
        for column in COLUMNS
        if row[column] is not None
    ]  # fmt: skip
