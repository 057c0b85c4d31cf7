"""An MLflow model directory: which file in it is the model. Its own list of trusted types is not looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from debias.errors import UnsupportedModelError

LARGEST = 1 << 20
"""Bytes of an MLmodel file; real ones have some thousand."""
DEEPEST = 50
KEYS = {"sklearn": "pickled_model", "xgboost": "data", "lightgbm": "data"}
"""Flavours, and the key under which each names its file."""


def model_file(directory: Path) -> Path:
    """Return the model's file in an MLflow directory.

    Raises
    ------
    UnsupportedModelError
        There is no MLmodel, it is no plain YAML, it has no flavour debias reads, or it names a file outside.
    ImportError
        PyYAML is not installed.
    """
    description = directory / "MLmodel"
    if not description.is_file():
        raise UnsupportedModelError(f"{directory} is no MLflow model directory: it has no MLmodel")
    flavors = _parsed(description).get("flavors")
    flavors = flavors if isinstance(flavors, dict) else {}
    for flavor, key in KEYS.items():
        found = flavors.get(flavor)
        name = found.get(key) if isinstance(found, dict) else None
        if isinstance(name, str) and name:
            path = (directory / name).resolve()
            if not path.is_relative_to(directory.resolve()):
                raise UnsupportedModelError(f"{description} names a file outside its directory: {name!r}")
            if not path.is_file():
                raise UnsupportedModelError(f"{description} names {name!r}, which is not there")
            return path
    known = ", ".join(map(str, flavors)) or "none"
    raise UnsupportedModelError(f"{description} has the flavours {known}; debias reads {', '.join(KEYS)}")


def _parsed(path: Path) -> dict[str, Any]:
    if path.stat().st_size > LARGEST:
        raise UnsupportedModelError(f"{path} has {path.stat().st_size:,} bytes; no MLmodel is so large")
    try:
        import yaml
    except ImportError as error:
        raise ImportError("MLflow directories need PyYAML: pip install debias-trees[files]") from error
    try:
        text = path.read_text(encoding="utf-8")
        depth, loader = 0, getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the slow one takes minutes over nesting
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > DEEPEST:
                raise UnsupportedModelError(f"{path} has aliases, or is nested so deeply, as no MLmodel has need of")
        content = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnsupportedModelError(f"{path} is no plain YAML: {type(error).__name__}") from None
    if not isinstance(content, dict):
        raise UnsupportedModelError(f"{path} is no MLmodel: it holds no mapping")
    return content
