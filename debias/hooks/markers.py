"""The two markers of the plugin system: what a spec is, and what implements one."""

import pluggy

PROJECT = "debias"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
