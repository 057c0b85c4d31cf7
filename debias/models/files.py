"""Model files: which code reads them, what is refused, whether they hold trees, checked before anyone walks these."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from debias.errors import DebiasError, DebiasWarning, UnsupportedModelError, UntrustedModelError
from debias.hooks.registry import plugin_manager
from debias.models.refitting import restored
from debias.models.wrappers import extract, unwrap

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST = 1 << 20
"""Bytes of an MLmodel file; real ones have some thousand."""
DEEPEST = 50
KEYS = {"sklearn": "pickled_model", "xgboost": "data", "lightgbm": "data"}
"""Flavours, and the key under which each names its file."""


PICKLES = (".pkl", ".pickle", ".joblib", ".cloudpickle")
_READ = "skops files (.skops), XGBoost .json or .ubj, LightGBM .txt (save_model), and MLflow model directories"


def load_model(path: str | Path, *, trust: Sequence[str] = (), allow_pickle: bool = False, params: Any = None) -> Any:
    """Load a model from a file, running no code that is in it, and check that it holds trees.

    Parameters
    ----------
    path : str or Path
        A file of skops, XGBoost (JSON or UBJSON) or LightGBM (text), or an MLflow model directory with such a file.
    trust : sequence of str
        Full names of types a skops file may hold beside those models of trees are made of.
    allow_pickle : bool
        Whether pickles are loaded (also joblib's and cloudpickle's): they run code from the file.
    params : mapping or estimator, optional
        Hyper-parameters the file lost: XGBoost's keep none. Names and plain values; or an unfitted ``XGBRegressor``,
        ``XGBClassifier``, ..., which also brings an objective of its own, and comes back fitted. Meta-methods train
        with them, and ``missing`` counts in every score. How many rounds there are, the file says.

    Returns
    -------
    object
        The estimator, or a Booster of the library that wrote the file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    UnsupportedModelError, ExtractionError
        The file is of another format, damaged, of another version, or its library is not installed.
    UntrustedModelError
        It is a pickle, or holds a type that is not trusted.
    RowsError
        There is no such hyper-parameter, or the trees say that it was another.

    Notes
    -----
    XGBoost's and LightGBM's files are checked whole before the libraries read them, also those inside skops files.
    CatBoost's are of a form only CatBoost reads: such a file is loaded in a process of its own first, as
    ``debias.models.sandbox.check`` does, which takes some seconds. The command line does so with every file.
    """
    return load(Path(path), tuple(trust), allow_pickle, params)


def load(
    path: Path, trust: tuple[str, ...] = (), allow_pickle: bool = False, params: Any = None, guard: bool = True
) -> Any:
    """Load a model, and check that what it holds are trees; parameters and errors as for :func:`debias.load_model`.

    Without `guard`, this is the process a file is tried in, or it has been tried already.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        path = model_file(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = _read(path, trust, allow_pickle, guard)
        except DebiasError:
            raise
        except RecursionError:
            raise UnsupportedModelError(f"{path} is damaged: it is nested too deeply") from None
        except MemoryError as error:
            raise _too_large(path) from error
        except Exception as error:  # whatever a reader raises on a damaged file
            raise _translated(path, error) from error
    if params is not None:
        model = restored(model, params)
    _require_trees(path, model)
    for note in dict.fromkeys(str(each.message) for each in caught if "InconsistentVersion" in each.category.__name__):
        text = f"{path} was saved by another version of scikit-learn: {note.partition('. ')[0]}"
        warnings.warn(text, DebiasWarning, stacklevel=3)
    return model


def _read(path: Path, trust: tuple[str, ...], allow_pickle: bool, guard: bool) -> Any:
    def try_apart() -> None:
        if guard:
            from debias.models.sandbox import check

            check(path, trust)

    model = plugin_manager().hook.debias_load_model(path=path, trust=tuple(trust), try_apart=try_apart)
    if model is not None:
        return model
    if not _is_pickle(path):
        raise UnsupportedModelError(f"{path} is not a model file debias reads: {_READ}")
    if not allow_pickle:
        raise UntrustedModelError(
            f"{path} is a pickle, which runs code from the file when it is loaded. If you made it yourself, pass "
            f"allow_pickle=True (--allow-pickle); better save the model as one of: {_READ}"
        )
    import joblib

    return joblib.load(path)


def _is_pickle(path: Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(2)
    return path.suffix in PICKLES or (head[:1] == b"\x80" and head[1:] <= b"\x05")


def _require_trees(path: Path, model: Any) -> None:
    """Extract every model inside, which refuses children out of range, cycles and short arrays."""
    try:
        for member in unwrap(model):
            extract(member.model)
    except DebiasError as error:
        raise type(error)(f"{path}: {error}") from error
    except RecursionError:
        raise UnsupportedModelError(f"{path} is damaged: its models are nested without end") from None
    except MemoryError as error:
        raise _too_large(path) from error
    except Exception as error:  # arrays that do not fit each other fail in as many ways
        raise _translated(path, error) from error


def _too_large(path: Path) -> UnsupportedModelError:
    return UnsupportedModelError(f"{path} is damaged, or too large: memory does not suffice for the sizes it claims")


def _translated(path: Path, error: Exception) -> UnsupportedModelError:
    missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
    if missing == "_loss" or (missing or "").startswith("sklearn"):
        return UnsupportedModelError(
            f"{path} was saved by another version of scikit-learn, whose modules this one does not have ({error}): "
            "load it with the version that wrote it, and save it anew"
        )
    if missing is not None:
        return UnsupportedModelError(f"{path} needs the package {missing}, which is not installed")
    return UnsupportedModelError(f"{path} is damaged, or not of its format: {type(error).__name__}: {error}")


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
