"""Experiments of papers, simulated data, error rates, speed beside named rivals, and the demo: they train models.

This plugin adds the commands ``bench`` and ``demo`` to ``debias``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import debias

if TYPE_CHECKING:
    import click


@debias.plugin.hookimpl
def debias_commands() -> list[click.Command]:
    """Return the commands, which import what they run when they run."""
    from debias_bench import bench, demo

    return [bench.command, demo.command]
