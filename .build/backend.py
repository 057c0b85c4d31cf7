"""The build backend: scikit-build-core, and a C compiler from a package where the machine has none.

``pip install`` of a checkout compiles the kernels. A machine that has only Python has no C compiler. There the build
asks for the package ``ziglang`` and uses ``python -m ziglang cc``. A compiler that the machine has, or that the
environment variable ``CC`` names, is always preferred.
"""

import os
import shlex
import shutil
import sys
import sysconfig

from scikit_build_core import build as _build
from scikit_build_core.build import *  # noqa: F403  # all hooks but the four below are those of scikit-build-core
from scikit_build_core.build import build_sdist, get_requires_for_build_sdist  # noqa: F401

ZIG = "ziglang>=0.14,<0.18"  # these versions were tried


def get_requires_for_build_wheel(config_settings=None):
    """Return what the build of a wheel needs, with a compiler where there is none."""
    return [*_build.get_requires_for_build_wheel(config_settings), *_compiler_requirement()]


def get_requires_for_build_editable(config_settings=None):
    """Return what an editable install needs, with a compiler where there is none."""
    return [*_build.get_requires_for_build_editable(config_settings), *_compiler_requirement()]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Build a wheel."""
    _choose_compiler()
    return _build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Build an editable wheel."""
    _choose_compiler()
    return _build.build_editable(wheel_directory, config_settings, metadata_directory)


def _compiler_requirement():
    return [] if _has_compiler() else [ZIG]


def _choose_compiler():
    if not _has_compiler():
        os.environ["CC"] = f"{shlex.quote(sys.executable)} -m ziglang cc -mcpu=baseline"
        os.environ.setdefault("ZIG_LOCAL_CACHE_DIR", os.path.join(os.getcwd(), "build", "zig"))


def _has_compiler():
    """Return whether there is a C compiler: the one that `CC` names, that Python was built with, or a usual one."""
    if os.environ.get("CC") or sys.platform == "win32":  # on Windows, CMake finds Visual Studio by itself
        return True
    built_with = shlex.split(sysconfig.get_config_var("CC") or "")[:1]
    found = next(filter(shutil.which, [*built_with, "cc", "gcc", "clang"]), None)
    if found is not None:
        os.environ["CC"] = found  # Python may have been built with a compiler that this machine does not have
    return found is not None
