"""Files of models that debias has trained, in the format of their library."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from debias.atomic_files import replacing
from debias.errors import DebiasError, UnsupportedModelError, with_article
from debias.hooks.registry import plugin_manager
from debias.models.loading import PICKLES


def save_model(model: Any, path: str | Path) -> None:
    """Write a model to a file; an existing file is replaced when the new one is complete.

    Parameters
    ----------
    model : estimator or Booster
    path : str or Path
        The suffix chooses the format: ``.skops`` for models of scikit-learn's kind and pipelines, ``.ubj`` or
        ``.json`` of XGBoost, ``.txt`` of LightGBM, ``.cbm`` of CatBoost, ``.joblib`` or ``.pkl`` for a pickle.

    Raises
    ------
    UnsupportedModelError
        No library writes this model to such a file, or it fails to.
    OSError
        The file cannot be written.
    """
    with replacing(path) as file:
        file.write(_written(model, Path(path)))


def refuse_unsaveable(model: Any, path: str | Path) -> None:
    """Raise an UnsupportedModelError unless a model can be written to such a file; the file is not written."""
    _written(model, Path(path))


def _written(model: Any, path: Path) -> bytes:
    kind = with_article(type(model).__name__)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"model{path.suffix}"
        try:
            if path.suffix in PICKLES:
                import joblib

                joblib.dump(model, file)
            elif not plugin_manager().hook.debias_save_model(model=model, path=file):
                raise UnsupportedModelError(
                    f"{path}: {kind} cannot be written to a {path.suffix or 'file without a suffix'}. Use .skops "
                    "(scikit-learn, and pipelines), .ubj or .json (XGBoost), .txt (LightGBM), .cbm (CatBoost), or "
                    ".joblib (a pickle)"
                )
        except DebiasError:
            raise
        except Exception as error:  # what libraries raise differs
            raise UnsupportedModelError(f"{path}: {kind} cannot be written to this file: {error}") from error
        return file.read_bytes()
