"""What stands for the Boosters of XGBoost and LightGBM while a skops file is read: checks a state, then becomes one.

The classes are named in the place of the libraries' own, so that whatever way a file takes to make a Booster, its bytes
or its text are checked before native code sees them. They take no arguments: a file cannot call them.
"""

from __future__ import annotations

from typing import Any

from debias.errors import UnsupportedModelError
from debias_adapters.lightgbm import files as lightgbm_files
from debias_adapters.xgboost import files as xgboost_files

INSTEAD_OF = {"xgboost.core.Booster": "XGBoostBooster", "lightgbm.basic.Booster": "LightGBMBooster"}


class XGBoostBooster:
    """Becomes a Booster of XGBoost when its state is set."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Check the bytes of model and configuration."""
        import xgboost

        data = state.get("handle")
        if not isinstance(data, (bytes, bytearray)):
            raise UnsupportedModelError("its XGBoost Booster holds no model")
        state = {**state, "handle": xgboost_files.checked_state(bytes(data), "its XGBoost Booster")}
        self.__class__ = xgboost.Booster
        self.__setstate__(state)


class LightGBMBooster:
    """Becomes a Booster of LightGBM when its state is set."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Check the model text."""
        import lightgbm

        text = state.get("_handle", state.get("handle"))
        if not isinstance(text, str):
            raise UnsupportedModelError("its LightGBM Booster holds no model")
        others = {name: value for name, value in state.items() if name != "handle"}
        state = {**others, "_handle": lightgbm_files.checked(text, "its LightGBM Booster")}
        self.__class__ = lightgbm.Booster
        self.__setstate__(state)
