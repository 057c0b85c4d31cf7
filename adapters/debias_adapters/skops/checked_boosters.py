"""Stand-ins for the Boosters of XGBoost and LightGBM, used while a skops file is read.

A stand-in checks the state of the Booster in the file, and then becomes a Booster. The reader puts these classes in the
place of the libraries' own, so that bytes and text of a Booster are always checked before native code reads them. The
classes take no arguments, so a file cannot call them.
"""

from __future__ import annotations

from typing import Any

from debias.errors import UnsupportedModelError
from debias_adapters.lightgbm import files as lightgbm_files
from debias_adapters.xgboost import files as xgboost_files

INSTEAD_OF = {"xgboost.core.Booster": "XGBoostBooster", "lightgbm.basic.Booster": "LightGBMBooster"}


class XGBoostBooster:
    """Checks the state of an XGBoost Booster, and becomes that Booster."""

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
    """Checks the state of a LightGBM Booster, and becomes that Booster."""

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
