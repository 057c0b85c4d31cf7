"""Kernels that are compiled twice: for every processor, and for those with AVX2. Both give the same numbers."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import numpy

if TYPE_CHECKING:
    from types import ModuleType


def suited(package: str, kernel: str) -> ModuleType:
    """Return a kernel as it was compiled for this processor.

    Parameters
    ----------
    package : str
        The package of kernels, such as ``debias.trees.kernels``.
    kernel : str
        Name of the module; ``{kernel}_avx2`` has the same functions compiled for AVX2, if the build made it.

    Returns
    -------
    module

    Raises
    ------
    AttributeError
        There is no such kernel: this is what ``__getattr__`` of a package must raise.
    """
    for name in ([f"{kernel}_avx2"] if has_avx2() else []) + [kernel]:
        try:
            module = import_module(f"{package}.{name}")
        except ModuleNotFoundError:
            continue
        setattr(sys.modules[package], kernel, module)  # Python asks once
        return module
    raise AttributeError(f"module {package!r} has no attribute {kernel!r}")


def has_avx2() -> bool:
    """Whether this processor has the instructions AVX2."""
    # NumPy knows the processor. Its table is private: without it, kernels for every processor are used.
    features: dict[str, bool] = getattr(numpy._core._multiarray_umath, "__cpu_features__", {})  # type: ignore[attr-defined]
    return bool(features.get("AVX2"))
