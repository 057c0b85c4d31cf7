"""The registry of plugins, which are found by entry points.

A name may be used once. A plugin that cannot be loaded raises an error and is never skipped.
"""

from __future__ import annotations

import functools
import os
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import pluggy

from debias.errors import CompositionError, PluginError, nearest
from debias.hooks import specs as hookspecs
from debias.hooks.contracts import MetaMethod, Scorer, how_to_write
from debias.hooks.failures import name_failures
from debias.hooks.library import Library
from debias.hooks.specs import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pandas as pd


DISABLE_VARIABLE = "DEBIAS_DISABLE_PLUGINS"
_OURS = ("debias", "debias_adapters", "debias_plugins", "debias_bench")


@functools.cache
def plugin_manager() -> pluggy.PluginManager:
    """Return the plugin manager of this process; it is built when it is first needed."""
    return build_manager(entry_points(group=PROJECT), _disabled())


def build_manager(points: Iterable[EntryPoint], blocked: Iterable[str] = ()) -> pluggy.PluginManager:
    """Load plugins into a fresh manager.

    Parameters
    ----------
    points : iterable of EntryPoint
        Entry points to load.
    blocked : iterable of str
        Entry-point names to leave out.

    Returns
    -------
    pluggy.PluginManager

    Raises
    ------
    PluginError
        A plugin cannot be imported, has a hook with an unknown name, or has the name of another plugin.
    """
    manager, seen = _empty(blocked), dict[str, EntryPoint]()
    for point in sorted(points, key=lambda point: point.name):
        _add(manager, point, seen)
    return manager


def build_what_works(
    points: Iterable[EntryPoint], check: Callable[[pluggy.PluginManager], object]
) -> tuple[pluggy.PluginManager, dict[str, str]]:
    """Load the plugins that work into a fresh manager, without those that the environment variable disables.

    Those of debias are loaded first: where two do not go together, the other one is left out.

    Parameters
    ----------
    points : iterable of EntryPoint
        Entry points to load.
    check : callable
        It is called with the manager after each plugin, and raises what is wrong.

    Returns
    -------
    tuple of (PluginManager, dict)
        The manager, and what is wrong with each plugin that was left out, by the name of the plugin.
    """
    manager, seen, failures = _empty(_disabled()), dict[str, EntryPoint](), dict[str, str]()
    for point in sorted(points, key=lambda point: (point.value.partition(".")[0] not in _OURS, point.name)):
        try:
            _add(manager, point, seen)
            with _naming(point, "be used"):
                check(manager)
        except PluginError as error:
            failures[point.name] = str(error)
            manager.set_blocked(point.name)  # which also removes it
    return manager, failures


def register(plugin: Any, name: str | None = None) -> None:
    """Add a plugin to this process: a module or object with ``@debias.plugin.hookimpl`` functions.

    Parameters
    ----------
    plugin : object
        A module or object with hook implementations, or a single scorer or meta-method.
    name : str, optional
        Name of the plugin; by default pluggy makes one from the object.

    Raises
    ------
    PluginError
        The plugin, or one of its scorers, has a name that is taken, or it has a hook with an unknown name.

    Examples
    --------
    >>> import debias
    >>> @debias.plugin.scorer_plugin("n_splits_at_root", unit="splits")
    ... def n_splits_at_root(ensemble, rows):
    ...     import numpy as np
    ...     roots = ensemble.feature[ensemble.tree_start[:-1]]
    ...     return np.bincount(roots[roots >= 0], minlength=ensemble.n_features).astype(float)
    >>> debias.plugin.register(n_splits_at_root)
    >>> debias.plugin.scorer("n_splits_at_root").unit
    'splits'
    >>> debias.plugin.unregister(n_splits_at_root)
    """
    manager = plugin_manager()
    holder = plugin if _has_hooks(manager, plugin) else _catalogue_of(plugin)
    name = name or getattr(plugin, "name", None)
    if name is not None and manager.has_plugin(name):
        raise PluginError(
            f"a plugin {name!r} is registered already: remove it with debias.plugin.unregister({name!r}), or choose "
            "another name"
        )
    try:
        manager.register(holder, name=name)
        name_failures(manager, holder)
        manager.check_pending()
        meta_methods(manager)
    except Exception as error:  # whatever a plugin of a user raises must leave the registry as it was
        if manager.is_registered(holder):
            manager.unregister(holder)
        raise PluginError(f"the plugin {name or plugin!r} cannot be registered: {error}") from error


def unregister(plugin: Any) -> None:
    """Remove a plugin from this process, for example to register a changed version of it in a notebook.

    Parameters
    ----------
    plugin : object or str
        What was passed to :func:`register`, or the name of the plugin: the column ``plugin`` of
        :func:`debias.plugin.plugins`.

    Raises
    ------
    PluginError
        There is no such plugin.

    Examples
    --------
    >>> import debias
    >>> @debias.plugin.scorer_plugin("always_0", unit="nothing", needs_rows=False)
    ... def always_0(ensemble, rows):
    ...     import numpy as np
    ...     return np.zeros(ensemble.n_features)
    >>> debias.plugin.register(always_0)
    >>> debias.plugin.unregister(always_0)
    >>> "always_0" in set(debias.plugin.plugins()["name"])
    False
    """
    manager = plugin_manager()
    named = [(name, holder) for name, holder in manager.list_name_plugin() if holder is not None]
    for name, holder in named:
        offered = holder.offered if isinstance(holder, _Catalogue) else ()
        if (name == plugin) if isinstance(plugin, str) else any(plugin is each for each in (holder, *offered)):
            manager.unregister(holder)
            return
    known = [name for name, _ in named]
    hint = nearest(plugin, known) if isinstance(plugin, str) else ""
    raise PluginError(f"no plugin {plugin!r} is registered.{hint} There are: {', '.join(sorted(known))}")


def scorers(manager: pluggy.PluginManager | None = None) -> dict[str, Scorer]:
    """Return every scorer of every plugin by name, sorted, each name once."""
    manager = manager or plugin_manager()
    return dict(_offered(manager)[0])


def meta_methods(manager: pluggy.PluginManager | None = None) -> dict[str, MetaMethod]:
    """Return every meta-method of every plugin by name, sorted, each name once, also among scorers."""
    manager = manager or plugin_manager()
    return dict(_offered(manager)[1])


def find_scorer(name: str) -> Scorer:
    """Return the scorer with this name, or raise a CompositionError that lists the known names."""
    known, metas = _offered(plugin_manager())
    if name in metas:
        raise CompositionError(f"{name} wraps a scorer: write {name}(mdi_oob)")
    if name not in known:
        there_are = f"there is no scorer {name!r}.{nearest(name, known)} There are: {', '.join(known)}"
        raise CompositionError(". ".join(filter(None, (there_are, disabled_in_words()))))
    return known[name]


def missing_scorer(name: str) -> str:
    """Return that no plugin offers a scorer, and which plugins are disabled: the end of a sentence."""
    return ". ".join(filter(None, (f"the scorer {name!r}, and no plugin offers it", disabled_in_words())))


def disabled_in_words() -> str:
    """Return which plugins the environment variable disables, as a sentence without its full stop; "" if none."""
    names = sorted(_disabled())
    return f"{DISABLE_VARIABLE} disables {', '.join(names)}" if names else ""


def libraries(manager: pluggy.PluginManager | None = None) -> list[Library]:
    """Return the libraries that all adapters declare, sorted by name, each name once."""
    declared: dict[str, Library] = {}
    plugin_of: dict[str, str] = {}
    for adapter in (manager or plugin_manager()).hook.debias_libraries.get_hookimpls():
        plugin = adapter.plugin_name
        for library in cast("Sequence[object] | None", adapter.function()) or ():
            if not isinstance(library, Library):
                raise PluginError(f"debias_libraries of the plugin {plugin!r} gives no Library: {library!r}")
            name = library.name
            if name in declared:
                raise PluginError(f"two plugins declare the library {name!r}: {plugin_of[name]} and {plugin}")
            declared[name], plugin_of[name] = library, plugin
    return sorted(declared.values(), key=lambda library: library.name.lower())


def adapters_loaded() -> list[str]:
    """Return the names of the plugins that can extract a model."""
    return sorted(impl.plugin_name for impl in plugin_manager().hook.debias_extract.get_hookimpls())


def _offered(manager: pluggy.PluginManager) -> tuple[dict[str, Scorer], dict[str, MetaMethod]]:
    """Return scorers and meta-methods by name; names are cached, because computing them takes long."""
    offers = manager.hook.debias_scorers(), manager.hook.debias_meta_methods()
    objects = [plugin for offer in offers for sequence in offer for plugin in (*sequence, None)]
    if manager not in _offers or not _are(_offers[manager][0], objects):
        _offers[manager] = objects, _by_name(*offers)
    return _offers[manager][1]


_offers: WeakKeyDictionary[pluggy.PluginManager, tuple[list[Any], Any]] = WeakKeyDictionary()


def _are(objects: list[Any], others: list[Any]) -> bool:
    """Whether two lists hold the same objects."""
    return len(objects) == len(others) and all(a is b for a, b in zip(objects, others, strict=True))


def _by_name(
    scorers: Iterable[Iterable[Scorer]], meta_methods: Iterable[Iterable[MetaMethod]]
) -> tuple[dict[str, Scorer], dict[str, MetaMethod]]:
    scorer_of_name: dict[str, Scorer] = {}
    for offered in scorers:
        for scorer in offered:
            _require_name(scorer, "scorer")
            if scorer.name in scorer_of_name:
                raise PluginError(f"two scorers are called {scorer.name!r}; rename one, or disable its plugin")
            scorer_of_name[scorer.name] = scorer
    meta_of_name: dict[str, MetaMethod] = {}
    for offered_metas in meta_methods:
        for meta in offered_metas:
            _require_name(meta, "meta-method")
            if meta.name in meta_of_name:
                raise PluginError(f"two meta-methods are called {meta.name!r}; rename one, or disable its plugin")
            meta_of_name[meta.name] = meta
    both = sorted(set(meta_of_name) & set(scorer_of_name))
    if both:
        raise PluginError(f"a scorer and a meta-method are both called {both[0]!r}; rename one, or disable its plugin")
    return dict(sorted(scorer_of_name.items())), dict(sorted(meta_of_name.items()))


def _require_name(plugin: Any, kind: str) -> None:
    """Raise a PluginError unless a scorer or meta-method is an instance with a name that can stand in expressions."""
    if isinstance(plugin, type):
        raise PluginError(f"{plugin.__name__} is a class: register an instance of it, {plugin.__name__}()")
    if not isinstance(plugin.name, str) or not plugin.name.isidentifier():
        raise PluginError(f"a {kind} has the name {plugin.name!r}: use letters, digits and _")


def _disabled() -> set[str]:
    """Return the names of the plugins that the environment variable disables."""
    return {name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",") if name.strip()}


def _empty(blocked: Iterable[str]) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    for name in blocked:
        manager.set_blocked(name)
    return manager


def _add(manager: pluggy.PluginManager, point: EntryPoint, seen: dict[str, EntryPoint]) -> None:
    """Load a plugin that is not blocked, and enter it among those seen so far."""
    if manager.is_blocked(point.name):
        return
    if point.name in seen:
        raise PluginError(
            f"two plugins are called {point.name!r}: {seen[point.name].value} and {point.value}. "
            f"Uninstall one of them, or set {DISABLE_VARIABLE}={point.name} to load neither."
        )
    seen[point.name] = point
    with _naming(point, "be loaded"):
        plugin = point.load()
        manager.register(plugin, name=point.name)
        name_failures(manager, plugin)
        manager.check_pending()


@contextmanager
def _naming(point: EntryPoint, what: str) -> Iterator[None]:
    """Make any error a PluginError that names the plugin and what it cannot."""
    try:
        yield
    except (Exception, SystemExit) as error:
        cause = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
        raise PluginError(
            f"the plugin {point.name!r} ({point.value}) cannot {what}: {cause}. "
            f"Fix or uninstall it, or set {DISABLE_VARIABLE}={point.name} to continue without it."
        ) from error


def _has_hooks(manager: pluggy.PluginManager, plugin: Any) -> bool:
    return any(manager.parse_hookimpl_opts(plugin, name) for name in dir(plugin))


def _catalogue_of(plugin: Any) -> Any:
    """Return a plugin that offers a single scorer or meta-method."""
    if isinstance(plugin, type):
        raise PluginError(f"{plugin.__name__} is a class: register an instance of it, {plugin.__name__}()")
    if isinstance(plugin, Scorer):
        return _Catalogue([plugin], [])
    if isinstance(plugin, MetaMethod):
        return _Catalogue([], [plugin])
    raise PluginError(
        f"{plugin!r} has no function marked @debias.plugin.hookimpl and is not a scorer or meta-method: there is "
        f"nothing to register. {how_to_write(plugin)}"
    )


class _Catalogue:
    def __init__(self, scorers: list[Scorer], metas: list[MetaMethod]) -> None:
        self._scorers, self._metas = scorers, metas

    @property
    def offered(self) -> list[Any]:
        """The scorers and meta-methods together."""
        return [*self._scorers, *self._metas]

    @pluggy.HookimplMarker(PROJECT)
    def debias_scorers(self) -> list[Scorer]:
        return self._scorers

    @pluggy.HookimplMarker(PROJECT)
    def debias_meta_methods(self) -> list[MetaMethod]:
        return self._metas


def plugins() -> pd.DataFrame:
    """List the installed scorers, meta-methods and adapters.

    Returns
    -------
    DataFrame
        One row for each scorer, meta-method or adapter: ``name``, ``kind``, ``unit``, ``plugin``, ``distribution``,
        ``version``.

    Examples
    --------
    >>> import debias
    >>> "mdi_oob" in set(debias.plugin.plugins()["name"])
    True
    """
    import pandas as pd

    manager = plugin_manager()
    distribution = _distributions()
    listed = [
        (impl.plugin_name, "adapter", "", impl.plugin_name, *distribution.get(impl.plugin_name, ("", "")))
        for impl in manager.hook.debias_extract.get_hookimpls()
    ]
    for impl in manager.hook.debias_scorers.get_hookimpls():
        name_and_version = distribution.get(impl.plugin_name, ("", ""))
        offered = cast("Sequence[Scorer]", impl.function())
        listed += [(scorer.name, "scorer", scorer.unit, impl.plugin_name, *name_and_version) for scorer in offered]
    for impl in manager.hook.debias_meta_methods.get_hookimpls():
        name_and_version = distribution.get(impl.plugin_name, ("", ""))
        metas = cast("Sequence[MetaMethod]", impl.function())
        listed += [(meta.name, "meta-method", "", impl.plugin_name, *name_and_version) for meta in metas]
    columns = ["name", "kind", "unit", "plugin", "distribution", "version"]
    return pd.DataFrame(listed, columns=columns).sort_values(["kind", "name"], ignore_index=True)


def _distributions() -> dict[str, tuple[str, str]]:
    from importlib.metadata import entry_points

    return {
        point.name: (point.dist.name, point.dist.version)
        for point in entry_points(group="debias")
        if point.dist is not None
    }
