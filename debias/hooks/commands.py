"""Commands that plugins add to ``debias``. A plugin that does not work takes no command of others with it."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from debias.errors import PluginError
from debias.hooks.registry import build_what_works, plugin_manager
from debias.hooks.specs import PROJECT

if TYPE_CHECKING:
    from collections.abc import Collection

    import click
    import pluggy


class Offered(NamedTuple):
    """A command, and the name of its plugin."""

    command: click.Command
    plugin: str


def commands(manager: pluggy.PluginManager, own: Collection[str] = ()) -> dict[str, Offered]:
    """Return every command of every plugin by name, sorted, each name once.

    Parameters
    ----------
    manager : PluginManager
    own : collection of str
        Names of the commands of debias itself, which no plugin may take.

    Returns
    -------
    dict of str to Offered

    Raises
    ------
    PluginError
        What a plugin offers is no command, or has a name that is taken; or the hook of a plugin failed.
    """
    found: dict[str, Offered] = {}
    for implementation in manager.hook.debias_commands.get_hookimpls():  # in the order they were loaded
        offered, plugin = cast("Any", implementation.function()), implementation.plugin_name
        for command in offered if isinstance(offered, list | tuple) else [offered]:
            _require_command(command, plugin)
            name = command.name
            if name in own:
                raise PluginError(f"the plugin {plugin!r} has a command {name!r}, and so has debias: rename it")
            if name in found:
                both = f"{found[name].plugin!r} and {plugin!r}"
                raise PluginError(f"two plugins, {both}, have a command {name!r}: rename one, or disable its plugin")
            found[name] = Offered(command, plugin)
    return dict(sorted(found.items()))


def commands_that_work(own: Collection[str] = ()) -> tuple[dict[str, Offered], list[str]]:
    """Return the commands of the plugins that work, and what is wrong with each of the others.

    Where two plugins have a command of the same name, it is that of debias, or of the plugin whose name comes first.

    Parameters
    ----------
    own : collection of str
        Names of the commands of debias itself.

    Returns
    -------
    tuple of (dict of str to Offered, list of str)
    """
    try:
        return commands(plugin_manager(), own), []
    except PluginError:
        manager, failures = build_what_works(entry_points(group=PROJECT), lambda manager: commands(manager, own))
        return commands(manager, own), list(failures.values())


def _require_command(command: click.Command, plugin: str) -> None:
    """Raise a PluginError if something is no command, or its name is not one word."""
    import click

    if not isinstance(command, click.Command):
        raise PluginError(
            f"debias_commands of the plugin {plugin!r} must return a list of commands, such as functions with the "
            f"decorator click.command, and not {type(command).__name__}"
        )
    name = command.name
    if not name or name.startswith("-") or name.split() != [name]:
        raise PluginError(f"a command of the plugin {plugin!r} has the name {name!r}: use a word, such as 'my-command'")
