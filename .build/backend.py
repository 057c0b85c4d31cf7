"""The build backend: scikit-build-core, and a C compiler from a package where the machine has none.

``pip install`` of a checkout compiles the kernels. A machine that has only Python has no C compiler. There the build
asks for the package ``ziglang`` and uses ``python -m ziglang cc``. A compiler that the machine has, or that the
environment variable ``CC`` names, is always preferred. On Windows, CMake looks for Visual Studio by itself.
"""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig

from scikit_build_core import build as _build
from scikit_build_core.build import *  # noqa: F403  # all hooks but the four below are those of scikit-build-core
from scikit_build_core.build import build_sdist, get_requires_for_build_sdist  # noqa: F401

ZIG = "ziglang>=0.17,<0.18"  # the version that was tried


def get_requires_for_build_wheel(config_settings=None):
    """Return what the build of a wheel needs, with a compiler where there is none."""
    return [*_build.get_requires_for_build_wheel(config_settings), *_compiler_requirement()]


def get_requires_for_build_editable(config_settings=None):
    """Return what an editable install needs, with a compiler where there is none."""
    return [*_build.get_requires_for_build_editable(config_settings), *_compiler_requirement()]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Build a wheel."""
    _set_compiler()
    return _build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Build an editable wheel."""
    _set_compiler()
    return _build.build_editable(wheel_directory, config_settings, metadata_directory)


def _compiler_requirement():
    return [] if sys.platform == "win32" or _compiler() else [ZIG]


def _set_compiler():
    """Set `CC` to the compiler to use; exit with what to do if there is none."""
    if sys.platform == "win32":
        return
    compiler = _compiler()
    if compiler is None:
        if importlib.util.find_spec("ziglang") is None:  # only with --no-build-isolation
            sys.exit("debias: there is no C compiler. Install one (gcc or clang), or: pip install ziglang")
        compiler = f"{shlex.quote(sys.executable)} -m ziglang cc -mcpu=baseline"
        os.environ.setdefault("ZIG_LOCAL_CACHE_DIR", os.path.join(os.getcwd(), "build", "zig"))
    os.environ["CC"] = compiler


def _compiler():
    """Return the compiler that `CC` names, else the one that Python was built with or a usual one, else None."""
    named = os.environ.get("CC")
    if named:
        if shutil.which(shlex.split(named)[0]) is None:
            sys.exit(f"debias: the C compiler that the variable CC names is not here: {named}. Correct CC, or unset it")
        return named
    built_with = shlex.split(sysconfig.get_config_var("CC") or "")[:1]
    return next(filter(_runs, [*built_with, "cc", "gcc", "clang"]), None)


def _runs(program):
    """Return whether a program runs; without its developer tools, macOS has a `cc` that does not."""
    try:
        return subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
