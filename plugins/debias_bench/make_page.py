"""The page of one study, whatever kind of study it is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from rich.console import Console

SIMULATED = (
    *("significance", "default-levels", "held-out", "out-of-bag", "dependence", "many-features", "rare-classes"),
    *("folds", "monitor", "days", "loss-changes", "alarms", "intervals", "decisions", "droppable"),
    *("droppable-rankers", "droppable-survival"),
    *("interactions", "interaction-rivals", "conditional"),
)
"""Measurements that keep their trials, each in a module of its name."""
COMPARED = ("power", "aico", "citrees")
"""Measurements that keep their trials, and take names of tests or scorers."""
TIMED = ("speed", "growth")
"""Measurements of time, which begin anew each time."""


def make_page(
    name: str,
    out: Path,
    messages: Console,
    *,
    repeats: int | None = None,
    jobs: int = 1,
    seed: int = 0,
    scorers: tuple[str, ...] = (),
    restart: bool = False,
    data: pd.DataFrame | None = None,
    first: int | None = None,
    **of_speed: bool,
) -> str:
    """Run what is missing of a study, and write its page and numbers to the folder.

    Parameters
    ----------
    name : str
        Of a study, or of a measurement that writes a page.
    out : Path
    messages : rich.console.Console
        Console for progress and messages.
    repeats : int, optional
        By default the usual number of the study.
    jobs : int
        Number of processes, as in joblib.
    seed : int
        For studies and COMPARED.
    scorers : tuple of str
        For studies and COMPARED: what takes part instead of their own.
    restart : bool
        Whether to delete existing trials.
    data : DataFrame, optional
        Data of the user, for the studies that take some.
    first : int, optional
        For SIMULATED: number of trials to run and to show, the first ones; by default all.
    **of_speed
        ``full`` and ``memory`` of :func:`debias_bench.speed.run`.

    Returns
    -------
    str
        The page.
    """
    given: dict[str, Any] = {} if repeats is None else {"repeats": repeats}
    if name in SIMULATED:
        module = import_module(f"debias_bench.{'change' if name == 'monitor' else name.replace('-', '_')}")
        return str(module.run(out, messages, jobs=jobs, restart=restart, first=first, **given))
    if name in COMPARED:
        from debias_bench import downstream, power

        given |= {"seed": seed, "jobs": jobs, "restart": restart}
        if name == "citrees":
            return downstream.run(out, messages, scorers=scorers, **given)
        return power.run(name, out, messages, tests=scorers, **given)
    if name == "speed":
        from debias_bench import speed

        speed.run(messages, jobs=jobs, out=out, **given, **of_speed)
        return (out / "speed.md").read_text(encoding="utf-8")
    if name == "growth":
        from debias_bench import growth

        return growth.run(out, messages, **given)
    from debias_bench import studies
    from debias_bench.runner import run_study

    return run_study(
        studies.study(name, data),
        out=out, repeats=repeats, seed=seed, jobs=jobs, scorers=scorers, restart=restart, messages=messages,
    )  # fmt: skip
