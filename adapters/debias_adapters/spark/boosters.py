"""Boosters of XGBoost and LightGBM that were trained on Spark: the library's own model inside is scored."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from debias.errors import UnsupportedModelError
from debias_adapters.xgboost import file_checks

if TYPE_CHECKING:
    from pathlib import Path

SAVED = ("SparkXGBClassifierModel", "SparkXGBRegressorModel", "SparkXGBRankerModel")
SYNAPSE = ("LightGBMClassificationModel", "LightGBMRegressionModel", "LightGBMRankerModel")


def booster_of(model: Any) -> Any | None:
    """Return the model of XGBoost or LightGBM inside a model that was trained on Spark; None for any other model."""
    xgboost, synapse = sys.modules.get("xgboost.spark.core"), sys.modules.get("synapse.ml.lightgbm.mixin")
    if xgboost is not None and isinstance(model, xgboost._SparkXGBModel):
        if model._xgb_sklearn_model is None:
            raise UnsupportedModelError(f"this {type(model).__name__} is not fitted; fit it first")
        return model._xgb_sklearn_model
    if synapse is not None and isinstance(model, synapse.LightGBMModelMixin):
        import lightgbm

        return lightgbm.Booster(model_str=model.getNativeModel())
    return None


def saved(directory: Path, kind: str, params: dict[str, Any]) -> Any:
    """Return the model of XGBoost that `xgboost.spark` saved: its JSON, in lines of text."""
    try:
        import xgboost
    except ImportError as error:
        raise UnsupportedModelError(
            f"{directory} is an XGBoost model, but xgboost is not installed: pip install xgboost"
        ) from error
    parts = sorted((directory / "model").glob("part-*"))
    text = b"".join(line for part in parts for line in part.read_bytes().splitlines())
    data = file_checks.checked(text, str(directory))
    model = getattr(xgboost, kind.replace("Spark", "").replace("Model", ""))(
        missing=float(params.get("missing", "nan"))
    )
    model.load_model(bytearray(data))
    return model


def refuse_unreadable(kind: str) -> None:
    """Refuse models of SynapseML, whose files only Java can read."""
    if kind in SYNAPSE:
        raise UnsupportedModelError(
            f"a saved {kind} of SynapseML is written as objects of Java, which debias does not read. Load it in Spark, "
            "write model.saveNativeModel(path), and pass the text file to debias.load_model"
        )
