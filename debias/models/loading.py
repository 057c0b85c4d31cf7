"""Model files and addresses: which code reads them, which files are refused, and a check that they hold valid trees."""

from __future__ import annotations

import re
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.errors import (
    DebiasError,
    DebiasWarning,
    ExtractionError,
    PluginError,
    UnsupportedModelError,
    UntrustedModelError,
)
from debias.hooks.registry import plugin_manager
from debias.models import sandbox
from debias.models.extraction import as_the_adapter_wants
from debias.models.folds import models_in
from debias.models.refitting import restored
from debias.models.wrappers import extract, keep_load_notes, unwrap
from debias.trees.routing import raw_output, route
from debias.wrong_arguments import explains_wrong_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from debias.trees.ensemble import TreeEnsemble

DESCRIPTION = "MLmodel"
"""The file that describes an MLflow model in its directory."""
LARGEST = 1 << 20
"""Largest size of an MLmodel file in bytes; real ones have a few thousand."""
DEEPEST = 50
"""Deepest nesting of an MLmodel file."""
KEYS = {"sklearn": "pickled_model", "xgboost": "data", "lightgbm": "data", "catboost": "data"}
"""Flavours of MLflow models, and the key with which each names its file."""
PICKLES = (".pkl", ".pickle", ".joblib", ".cloudpickle")
ROWS, NUMBERS = 8, 1_000_000
"""Rows of random numbers that a child process predicts, in addition to a row of zeros and a row of missing values. With
many features there are fewer rows: at most this many numbers."""
_VERSIONS = re.compile(r"from version (\S+) when using version (\S+?)\.?(?:\s|$)")
"""The two versions in scikit-learn's warning about a file of another version."""
_READ = (
    "skops files (.skops), XGBoost .json or .ubj (binary files such as .bst: load them with XGBoost 3.0 or older and "
    "save them as .ubj), LightGBM .txt (save_model), CatBoost .cbm, ONNX files, PMML files, MOJO files of H2O (.zip), "
    "and MLflow model directories"
)


@explains_wrong_arguments
def load_model(path: str | Path, *, trust: Sequence[str] = (), allow_pickle: bool = False, params: Any = None) -> Any:
    """Load a model from a file without running code that is in it, and check that it holds valid trees.

    Parameters
    ----------
    path : str or Path
        A file of skops, XGBoost (JSON or UBJSON) or LightGBM (text), an MLflow model directory with such a file, or a
        file or directory that another adapter reads. With MLflow installed, also an address of it: ``models:/name/1``,
        ``models:/name@alias`` or ``runs:/id/name``.
    trust : sequence of str
        Full names of types that a skops file may hold in addition to the types of tree models.
    allow_pickle : bool
        Whether to load pickles (also those of joblib and cloudpickle). Loading a pickle runs code from the file.
    params : mapping or estimator, optional
        Hyper-parameters that the file does not keep; XGBoost's files keep none. A mapping of names to plain values, or
        an unfitted ``XGBRegressor``, ``XGBClassifier``, ..., which is returned fitted and may have a custom objective.
        Meta-methods refit with these, and ``missing`` changes every score. The number of rounds is read from the file.

    Returns
    -------
    object
        The estimator, or a Booster of the library that wrote the file. A skops file may also hold a list or mapping of
        models, or the dict of ``cross_validate``, for :func:`debias.audit_folds`.

    Raises
    ------
    FileNotFoundError
        The file does not exist.
    UnsupportedModelError, ExtractionError
        The file has another format, is damaged, comes from another version, or its library is not installed.
    UntrustedModelError
        The file is a pickle, or holds a type that is not trusted.
    RowsError
        A hyper-parameter does not exist, or the trees show that it had another value.

    Notes
    -----
    Files of XGBoost and LightGBM are checked completely before the libraries read them, also those inside skops files.
    Only CatBoost, YDF, treelite and onnxruntime can read their files. Such a file is first loaded in a separate
    process, by ``debias.models.sandbox.check``, which takes some seconds. The command line does this with every file.
    """
    with local_copy(path) as file:
        return load(file, tuple(trust), allow_pickle, params)


def load(
    path: Path, trust: tuple[str, ...] = (), allow_pickle: bool = False, params: Any = None, guard: bool = True
) -> Any:
    """Load a model, and check that it holds valid trees; parameters and errors are those of :func:`debias.load_model`.

    Pass ``guard=False`` in the separate process that tries a file, or if the file has been tried already.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    sandbox.refuse_devices(path)
    if (path / DESCRIPTION).is_file():
        path = model_file(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = _read(path, trust, allow_pickle, params, guard)
        except DebiasError:
            raise
        except RecursionError:
            raise UnsupportedModelError(f"{path} is damaged: it is nested too deeply") from None
        except MemoryError as error:
            raise _too_large(path) from error
        except Exception as error:  # readers raise many types of errors for damaged files
            raise _translated(path, error) from error
    if params is not None:
        model = restored(model, params)
    _require_trees(path, model)
    messages = [str(warning.message) for warning in caught if "InconsistentVersion" in warning.category.__name__]
    versions = {found.groups() for found in map(_VERSIONS.search, messages) if found}
    texts = tuple(
        f"{path} was saved by another version of scikit-learn: {saved_by}, and {installed} is installed. For rows of "
        "X, the output of the trees is compared with that of the installed version, not with that of the other one"
        for saved_by, installed in sorted(versions)
    )
    for text in texts:
        warnings.warn(text, DebiasWarning, stacklevel=3)
    for each in models_in(model):
        keep_load_notes(each, texts)
    return model


def _read(path: Path, trust: tuple[str, ...], allow_pickle: bool, params: Any, guard: bool) -> Any:
    def try_apart() -> None:
        if guard:
            sandbox.check(path, trust, params=params)

    model = plugin_manager().hook.debias_load_model(path=path, trust=tuple(trust), try_apart=try_apart)
    if model is not None:
        return model
    if path.is_dir():
        raise UnsupportedModelError(
            f"{path} is not an MLflow model directory, since it has no file {DESCRIPTION}, and no adapter reads it"
        )
    if not _is_pickle(path):
        raise UnsupportedModelError(f"{path} is not a model file that debias can read. It reads {_READ}")
    if not allow_pickle:
        raise UntrustedModelError(
            f"{path} is a pickle: loading it runs code from the file. If you made the file yourself, pass "
            f"allow_pickle=True (--allow-pickle). It is safer to save the model in another format. debias reads {_READ}"
        )
    import joblib

    return joblib.load(path)


def load_and_predict(path: Path, trust: tuple[str, ...] = (), allow_pickle: bool = False, params: Any = None) -> None:
    """Load a model file in this process, and predict rows of zeros, of missing values and of random numbers.

    An error that the library raises is no danger: some models take no missing values. The danger is a crash, or a read
    beyond the end of an array without a crash. Such a read shows as a prediction that differs from that of the trees.

    Raises
    ------
    DebiasError
        As :func:`debias.load_model` raises, or the library predicts otherwise than the trees.
    """
    hook = plugin_manager().hook
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = models_in(load(path, trust, allow_pickle, params, guard=False))
        for member in (member for model in models for member in unwrap(model)):
            ensemble = extract(member.model)
            for kind, X in _rows(ensemble.n_features, ensemble.routing_dtype):
                seen = as_the_adapter_wants(ensemble, X)
                leaves = _answer(lambda: hook.debias_leaves(model=member.model, ensemble=ensemble, X=seen))  # noqa: B023
                raw = _answer(lambda: hook.debias_predict_raw(model=member.model, X=seen))  # noqa: B023
                if kind == "random" and ensemble.category_set is None and ensemble.category_labels is None:
                    _require_alike(path, ensemble, X, leaves, raw)


def _answer(call: Callable[[], Any]) -> Any:
    """Return the result of a call of a library, or None if it raised an error of any type."""
    try:
        return call()
    except MemoryError:
        raise
    except Exception:
        return None


def _require_alike(path: Path, ensemble: TreeEnsemble, X: Any, leaves: Any, raw: Any) -> None:
    our_leaves = route(ensemble, X)
    ours = raw_output(ensemble, our_leaves, X)
    tolerance = 1e-3 * (np.abs(ours).max() + np.abs(ensemble.value).max())
    same_leaves = leaves is not None and np.array_equal(leaves, our_leaves)
    if not same_leaves or raw is None or raw.shape != ours.shape or not (np.abs(raw - ours) <= tolerance).all():
        raise ExtractionError(
            f"{path} is damaged: its library does not predict what its trees predict ({ensemble.source})"
        )


def _rows(n_features: int, dtype: Any) -> Iterator[tuple[str, Any]]:
    yield "zeros", np.zeros((1, n_features), dtype=dtype)
    yield "missing", np.full((1, n_features), np.nan, dtype=dtype)
    n_rows = max(1, min(ROWS, NUMBERS // max(1, n_features)))
    yield "random", np.random.default_rng(0).normal(scale=100, size=(n_rows, n_features)).astype(dtype)


def _is_pickle(path: Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(2)
    return path.suffix in PICKLES or (head[:1] == b"\x80" and head[1:] <= b"\x05")


def _require_trees(path: Path, model: Any) -> None:
    """Extract every model inside; extraction refuses children out of range, cycles and short arrays."""
    models = models_in(model)
    if not models:
        raise UnsupportedModelError(f"{path} holds no models: it is an empty {type(model).__name__}")
    try:
        for each in models:
            for member in unwrap(each):
                extract(member.model)
    except PluginError as error:  # arrays that do not fit each other cause many types of errors
        raise _translated(path, error.__cause__ or error) from error
    except DebiasError as error:
        raise type(error)(f"{path}: {error}") from error
    except RecursionError:
        raise UnsupportedModelError(f"{path} is damaged: its models are nested without end") from None
    except MemoryError as error:
        raise _too_large(path) from error
    except Exception as error:
        raise _translated(path, error) from error


def _too_large(path: Path) -> UnsupportedModelError:
    return UnsupportedModelError(f"{path} is damaged or too large: there is not enough memory for the sizes it states")


def _translated(path: Path, error: BaseException) -> UnsupportedModelError:
    missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
    module_is_gone = missing == "_loss" or (missing or "").startswith("sklearn")
    if module_is_gone or (isinstance(error, AttributeError) and "<module 'sklearn." in str(error)):
        return UnsupportedModelError(
            f"{path} was saved by another version of scikit-learn, and the installed version lacks what it needs "
            f"({error}): load it with the version that wrote it, and save it with skops"
        )
    if missing is not None:
        return UnsupportedModelError(f"{path} needs the package {missing}, which is not installed")
    return UnsupportedModelError(f"{path} is damaged, or has another format: {type(error).__name__}: {error}")


def model_file(directory: Path) -> Path:
    """Return the path of the model's file in an MLflow directory, which has a file MLmodel.

    Raises
    ------
    UnsupportedModelError
        The file MLmodel is not plain YAML, has no flavour that debias reads, or names a file outside the directory.
    ImportError
        PyYAML is not installed.
    """
    description = directory / DESCRIPTION
    flavors = _parsed(description).get("flavors")
    flavors = flavors if isinstance(flavors, dict) else {}
    for flavor, key in KEYS.items():
        entry = flavors.get(flavor)
        name = entry.get(key) if isinstance(entry, dict) else None
        if isinstance(name, str) and name:
            path = (directory / name).resolve()
            if not path.is_relative_to(directory.resolve()):
                raise UnsupportedModelError(f"{description} names a file outside its directory: {name!r}")
            if not path.is_file():
                raise UnsupportedModelError(f"{description} names {name!r}, which does not exist")
            return path
    known = ", ".join(map(str, flavors)) or "none"
    raise UnsupportedModelError(f"{description} has the flavours {known}; debias reads {', '.join(KEYS)}")


def _parsed(path: Path) -> dict[str, Any]:
    if path.stat().st_size > LARGEST:
        raise UnsupportedModelError(f"{path} has {path.stat().st_size:,} bytes; a real MLmodel file is smaller")
    try:
        import yaml
    except ImportError as error:
        raise ImportError("MLflow directories need PyYAML: pip install pyyaml") from error
    try:
        text = path.read_text(encoding="utf-8")
        depth, loader = 0, getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # SafeLoader takes minutes for deep nesting
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > DEEPEST:
                raise UnsupportedModelError(
                    f"{path} has aliases, or more than {DEEPEST} levels of nesting; a real MLmodel file has neither"
                )
        content = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnsupportedModelError(f"{path} is not plain YAML: {type(error).__name__}") from None
    if not isinstance(content, dict):
        raise UnsupportedModelError(f"{path} is not an MLmodel file: it does not hold a mapping")
    return content


_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/")
"""How an address begins. A drive of Windows has one letter."""


def is_address(path: str | Path) -> bool:
    """Return whether a text is the address of a model, and no path of a file."""
    return _ADDRESS.match(str(path)) is not None and not Path(path).exists()


@contextmanager
def local_copy(path: str | Path) -> Iterator[Path]:
    """Give the path of a model's file or directory. What has an address is copied first, and deleted afterwards.

    Errors name the address and not the copy.

    Parameters
    ----------
    path : str or Path
        A path, or an address that a plugin knows.

    Raises
    ------
    UnsupportedModelError
        No plugin knows the address, or there is no model.
    """
    if not is_address(path):
        yield Path(path)
        return
    address = str(path)
    with tempfile.TemporaryDirectory(prefix="debias-") as folder:
        copy = plugin_manager().hook.debias_download_model(address=address, folder=Path(folder))
        if copy is None:
            raise UnsupportedModelError(
                f"no plugin knows the address {address}. debias reads models:/ and runs:/ of MLflow, and files"
            )
        try:
            yield copy
        except DebiasError as error:
            raise type(error)(str(error).replace(str(copy), address)) from error
