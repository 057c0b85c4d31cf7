"""Reader of models saved by skops. It trusts a fixed list of types: those that tree models consist of."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import debias
from debias.errors import UnsupportedModelError, UntrustedModelError
from debias_adapters.lightgbm import file_checks as lightgbm_files
from debias_adapters.sklearn.file_checks import require_sound
from debias_adapters.xgboost import file_checks as xgboost_files

TRUSTED = frozenset(
    {
        "collections.OrderedDict",
        "lightgbm.basic.Booster",
        "lightgbm.sklearn.LGBMClassifier",
        "lightgbm.sklearn.LGBMRegressor",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.model_selection._split.KFold",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
        "sklearn.utils._metadata_requests.MetadataRequest",
        "sklearn.utils._metadata_requests.MethodMetadataRequest",
        "sksurv.ensemble.forest.ExtraSurvivalTrees",
        "sksurv.ensemble.forest.RandomSurvivalForest",
        "sksurv.tree.tree.ExtraSurvivalTree",
        "sksurv.tree.tree.SurvivalTree",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
        "xgboost.sklearn.XGBRFClassifier",
        "xgboost.sklearn.XGBRFRegressor",
        "xgboost.sklearn.XGBRegressor",
    }
)
"""Added to the types that skops trusts. Loading them runs no code from the file; their content is checked later."""
MOST_EXPANDED = 100
"""Largest ratio of unpacked size to file size, beyond the first 100 MB; for real models it is about five."""
INSTEAD_OF = {"xgboost.core.Booster": "XGBoostBooster", "lightgbm.basic.Booster": "LightGBMBooster"}
"""Stand-ins for Boosters while a file is read. A stand-in checks the state of the Booster in the file, and then becomes
a Booster, so that bytes and text of a Booster are always checked before native code reads them. The classes take no
arguments, so a file cannot call them."""
COLUMNS_OF_REMAINDER = "sklearn.compose._column_transformer._RemainderColsList"
_CHECKED = {f"{__name__}.{name}": name for name in INSTEAD_OF.values()}


@debias.plugin.hookimpl
def debias_load_model(path: Path, trust: tuple[str, ...]) -> Any | None:
    """Load a zip file with a ``schema.json`` if all its types are trusted."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        if "schema.json" not in archive.namelist():
            return None
        expanded = sum(member.file_size for member in archive.infolist())
    if expanded > 100_000_000 + MOST_EXPANDED * path.stat().st_size:
        raise UnsupportedModelError(f"{path} claims to unpack to {expanded:,} bytes, more than a model does")
    try:
        import skops.io
    except ImportError as error:
        raise UnsupportedModelError(f"{path} is a skops file, but skops is not installed: pip install skops") from error
    allowed = TRUSTED | set(trust) | _CHECKED.keys()
    file = _as_installed(path)
    unknown = sorted(name for name in skops.io.get_untrusted_types(file=file) if name not in allowed)
    if unknown:
        flags = " ".join(f"--trust-type {name}" for name in unknown)
        raise UntrustedModelError(
            f"{path} holds types that are not trusted: {', '.join(unknown)}. If you know that loading them is "
            f"harmless, pass {flags} (from Python: trust={tuple(unknown)!r})"
        )
    try:
        model = skops.io.load(file, trusted=sorted(allowed))
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{path} is damaged: {error}") from error
    require_sound(model, str(path))
    return model


@debias.plugin.hookimpl
def debias_save_model(model: Any, path: Path) -> bool | None:
    """Write ``.skops`` files."""
    if path.suffix != ".skops":
        return None
    try:
        import skops.io
    except ImportError as error:
        raise UnsupportedModelError("skops is not installed: pip install skops") from error
    skops.io.dump(model, path)
    return True


def _as_installed(path: Path) -> Path | io.BytesIO:
    """Check the schema. Return the file, or a copy in memory with the checked classes and the installed names."""
    with zipfile.ZipFile(path) as archive:
        schema = json.loads(archive.read("schema.json"))
        try:
            changed = _check_and_replace(schema)
        except UnsupportedModelError as error:
            raise UnsupportedModelError(f"{path} is damaged: {error}") from error
        if not changed:
            return path
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w") as copied_archive:
            for name in set(archive.namelist()) - {"schema.json"}:
                copied_archive.writestr(name, archive.read(name))
            copied_archive.writestr("schema.json", json.dumps(schema))
    return copy


def _check_and_replace(schema: Any) -> bool:
    """Check a schema; replace the libraries' Boosters by the checked classes, and old names; return if there were any.

    Before version 1.9, the compiled losses of scikit-learn called their module ``_loss``. Versions 1.5 and 1.6 hold the
    columns of a remainder in a list that warns; a plain list takes its place, as the other versions have it.
    """
    changed, content_of_id = False, dict[Any, Any]()
    losses = _module_of_losses()
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        if not isinstance(node, dict):
            continue
        if f"{node.get('__module__')}.{node.get('__class__')}" == COLUMNS_OF_REMAINDER:
            columns = node["content"]["content"]["data"]["content"]
            node |= {"__module__": "builtins", "__class__": "list", "__loader__": "ListNode", "content": columns}
            changed = True
        waiting += node.values()
        name = INSTEAD_OF.get(f"{node.get('__module__')}.{node.get('__class__')}")
        if name:
            node["__module__"], node["__class__"] = __name__, name
            changed = True
        if node.get("__module__") == "_loss" != losses:
            node["__module__"], changed = losses, True
        # skops builds one object for an id, from the first node that has it. It ignores other nodes with the same id.
        if "__loader__" in node and "__id__" in node:
            content = (node["__loader__"], node["content"] if node["__loader__"] == "JsonNode" else None)
            if content_of_id.setdefault(node["__id__"], content) != content:
                raise UnsupportedModelError("an id in it has two values")
        pool = node.get("pool_size")
        if pool is not None and not re.fullmatch(r"[0-9]{1,3}", str(isinstance(pool, dict) and pool.get("content"))):
            raise UnsupportedModelError("a generator of random numbers in it claims a large pool")
    return changed


def _module_of_losses() -> str:
    from sklearn._loss._loss import CyHalfSquaredError

    return str(CyHalfSquaredError.__module__)


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
