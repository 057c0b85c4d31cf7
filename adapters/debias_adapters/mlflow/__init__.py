"""Adapter of MLflow: the directory of a model that is named by its address, as in ``models:/name/1``."""

from __future__ import annotations

from pathlib import Path

import debias
from debias.errors import UnsupportedModelError

BEGINNINGS = ("models:/", "runs:/")
"""How the addresses of models begin that MLflow knows."""


@debias.plugin.hookimpl
def debias_download_model(address: str, folder: Path) -> Path | None:
    """Copy the directory of a model of MLflow to a folder. Nothing in it is loaded or run."""
    if not address.startswith(BEGINNINGS):
        return None
    try:
        from mlflow.artifacts import download_artifacts
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise UnsupportedModelError(
            f"{address} is an address of MLflow, but mlflow is not installed: pip install mlflow"
        ) from error
    try:
        return Path(download_artifacts(artifact_uri=address, dst_path=str(folder)))
    except MlflowException as error:
        raise UnsupportedModelError(f"MLflow has no model at {address}: {error}. {_WHERE}") from error


_WHERE = "MLflow looks where MLFLOW_TRACKING_URI and MLFLOW_REGISTRY_URI say, or mlflow.set_tracking_uri"
