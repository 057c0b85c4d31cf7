"""Errors inside plugins: they name the plugin and the hook, or the scorer, so that a user knows whom to ask."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from debias.errors import DebiasError, PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pluggy

OF_THE_LIBRARY = ("debias_predict_native", "debias_refit", "debias_load_model", "debias_save_model")
"""Hooks in which errors of the library are about the rows or the file of the user: debias reports them as such."""
OF_SIZE = (MemoryError, RecursionError)
"""Errors that any correct code can raise for a model or table that is too large."""


def name_failures(manager: pluggy.PluginManager, plugin: Any) -> None:
    """Make every error of the hooks of a registered plugin name the plugin and the hook.

    An error of debias stays as it is, since its message was written for the user. Another error becomes a PluginError,
    or gets a note where it is about the rows or the file of the user. Errors that are not an Exception, such as
    KeyboardInterrupt, pass.

    Parameters
    ----------
    manager : PluginManager
    plugin : object
        A plugin that was just registered.
    """
    for caller in manager.get_hookcallers(plugin) or []:
        for implementation in caller.get_hookimpls():
            if implementation.plugin is plugin:
                named = _naming(implementation.function, caller.name, implementation.plugin_name)
                implementation.function = named  # type: ignore[misc]  # pluggy offers no other way around one function


@contextmanager
def noting(who: str) -> Iterator[None]:
    """Add a note that names a scorer or meta-method to an error of its function, unless the error is one of debias."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, DebiasError):
            error.add_note(f"raised by {who}")
        raise


def _naming(function: Callable[..., Any], hook: str, plugin: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except (DebiasError, *OF_SIZE):
            raise
        except Exception as error:
            where = f"{hook} of the plugin {plugin!r}"
            if hook in OF_THE_LIBRARY:
                error.add_note(f"raised in {where}")
                raise
            raise PluginError(f"{where} failed: {type(error).__name__}: {error}") from error

    return call
