"""The command line: one file per command. Results go to stdout, everything else to stderr.

Plugins add commands by the hook ``debias_commands``. They are loaded for ``debias --help``, and for a command that
debias itself does not have.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from debias import __version__
from debias.child_process import safe_path
from debias.cli import audit, check, clusters, compare, doctor, drop, fleet, interactions, monitor, plugins, score
from debias.cli.gate import not_finished
from debias.cli.output import COULD_NOT_RUN, defused, errors, warn

if TYPE_CHECKING:
    from debias.hooks.commands import Offered


monitor.command.add_command(fleet.fleet)
monitor.command.add_command(fleet.metrics)


class Group(click.Group):
    """The commands. Errors of click are printed outside of every context, so their output is guarded here."""

    def main(self, *arguments: Any, **settings: Any) -> Any:
        """Run a command."""
        with defused():
            not_finished(_given(*arguments, **settings))
            return super().main(*arguments, **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted([*self.commands, *self._of_plugins(ctx)[0]])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of debias or of a plugin, or None."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        offered = self._of_plugins(ctx)[0].get(cmd_name)
        return offered and _with_exit_codes(offered.command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command to run; say which plugins do not work if it may be, or might have been, one of theirs."""
        if args[0] not in self.commands:
            from debias.hooks.registry import disabled_in_words

            found, wrong = self._of_plugins(ctx)
            warn(tuple(wrong))
            if wrong and args[0] not in found:
                click.echo(f"error: there is no command {args[0]!r} of debias or of the plugins that work", err=True)
                sys.exit(COULD_NOT_RUN)
            if args[0] not in found and (disabled := disabled_in_words()):
                raise click.UsageError(f"No such command {args[0]!r}. {disabled}.", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands; print to stderr which plugins do not work."""
        super().format_commands(ctx, formatter)
        warn(tuple(self._of_plugins(ctx)[1]))

    def _of_plugins(self, context: click.Context) -> tuple[dict[str, Offered], list[str]]:
        """Return the commands of plugins, and what is wrong with plugins; they are loaded once for each run."""
        if _OF_PLUGINS not in context.meta:
            from debias.hooks.commands import commands_that_work

            with errors(may_exit=True), redirect_stdout(sys.stderr):  # what plugins print is no result
                context.meta[_OF_PLUGINS] = commands_that_work(self.commands)
        return context.meta[_OF_PLUGINS]


_OF_PLUGINS = f"{__name__}.of_plugins"


def _with_exit_codes(command: click.Command) -> click.Command:
    """Return a copy of a command of a plugin whose errors are printed, and end it, as those of debias do."""

    def invoke(context: click.Context) -> Any:
        with errors(may_exit=True):
            return command.invoke(context)

    guarded = copy.copy(command)
    vars(guarded)["invoke"] = invoke
    return guarded


def _given(args: Sequence[str] | None = None, *_: Any, **__: Any) -> Sequence[str]:
    return sys.argv[1:] if args is None else args


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="debias")
def main() -> None:
    """Find out which features of a trained tree model really matter."""
    click.get_current_context().with_resource(safe_path())


def debias_commands() -> list[click.Command]:
    """Return the commands of debias itself: what the hook of this name returns, and no plugin has to be loaded."""
    return [
        audit.command,
        check.command,
        clusters.command,
        compare.command,
        doctor.command,
        drop.command,
        interactions.command,
        monitor.command,
        plugins.command,
        score.command,
    ]


for each in debias_commands():
    main.add_command(each)
