"""Adapter of H2O-3: MOJO files of GBM, DRF and XGBoost, read without Java."""

from __future__ import annotations

import struct
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from debias.hooks.library import Library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _small_model(X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    """Return two stumps of a forest on the first column, made by hand: H2O would need Java."""
    from debias_adapters.h2o.model import MojoModel

    values = {
        "h2o_version": "3.46.0.7",
        "mojo_version": "1.40",
        "algorithm": "Distributed Random Forest",
        "supervised": "true",
        "n_features": "4",
        "n_classes": "1",
        "n_columns": "5",
        "n_trees": "2",
        "n_trees_per_class": "1",
    }
    info = "\n".join(["[info]", *(f"{name} = {value}" for name, value in values.items()), "[columns]", *"abcd", "y"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stumps.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model.ini", info)
            for number in range(2):
                is_left = X[:, 0] < number
                step = struct.pack("<ff", y[is_left].mean(), y[~is_left].mean())
                archive.writestr(f"trees/t00_{number:03d}.bin", struct.pack("<BHBf", 0xF0, 0, 4, number) + step)
        return MojoModel.of(path)


LIBRARY = Library("H2O", "h2o", _small_model, tested=("3.36", "3.46"), extra="h2o", page="libraries/h2o")
