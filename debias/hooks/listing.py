"""What is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from debias.hooks.registry import plugin_manager

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from debias.hooks.meta_methods import MetaMethod
    from debias.hooks.scorers import Scorer


def plugins() -> pd.DataFrame:
    """List what is installed.

    Returns
    -------
    DataFrame
        One row a scorer, meta-method or adapter: ``name``, ``kind``, ``unit``, ``plugin``, ``distribution``,
        ``version``.

    Examples
    --------
    >>> import debias
    >>> "mdi_oob" in set(debias.plugins()["name"])
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
        where = distribution.get(impl.plugin_name, ("", ""))
        offered = cast("Sequence[Scorer]", impl.function())
        listed += [(each.name, "scorer", each.unit, impl.plugin_name, *where) for each in offered]
    for impl in manager.hook.debias_meta_methods.get_hookimpls():
        where = distribution.get(impl.plugin_name, ("", ""))
        wrappers = cast("Sequence[MetaMethod]", impl.function())
        listed += [(each.name, "meta-method", "", impl.plugin_name, *where) for each in wrappers]
    columns = ["name", "kind", "unit", "plugin", "distribution", "version"]
    return pd.DataFrame(listed, columns=columns).sort_values(["kind", "name"], ignore_index=True)


def _distributions() -> dict[str, tuple[str, str]]:
    from importlib.metadata import entry_points

    return {
        point.name: (point.dist.name, point.dist.version)
        for point in entry_points(group="debias")
        if point.dist is not None
    }
