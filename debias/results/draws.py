"""The draws of permutation tests apart from the other numbers of a result, because they are nearly all of its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from debias.atomic_files import replacing
from debias.errors import DebiasError
from debias.text import six_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from debias.results.scores import Scores

NOISE_BAND = "noise_band"
"""In ``details["test"]`` of scores without their draws: the 5% and 95% quantiles of the draws of each feature."""


def noise_band(scores: Scores) -> NDArray[np.float64] | None:
    """Return the 5% and 95% quantiles of the draws of each feature, shape (2, n_features); None without draws."""
    if scores.null is not None:
        return _quantiles(scores.null)
    stored = scores.details.get("test", {}).get(NOISE_BAND)
    return None if stored is None else np.asarray(stored, dtype=np.float64)


def without_draws(plain: dict[str, Any]) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Return a result without the draws of its scores, and the draws by the place that they had.

    Parameters
    ----------
    plain : dict
        From ``to_dict`` of a result; it is not changed.

    Returns
    -------
    plain : dict
        ``null`` of all scores is None, and ``details["test"]`` has the band of noise.
    draws : dict of str to array of shape (n_draws, n_features)
    """
    draws: dict[str, NDArray[np.float64]] = {}

    def taken(at: str, scores: dict[str, Any]) -> dict[str, Any]:
        if scores["null"] is None:
            return scores
        draws[at] = np.asarray(scores["null"], dtype=np.float64)
        details = scores["details"]
        if "test" in details:
            details = {**details, "test": {**details["test"], NOISE_BAND: _quantiles(draws[at]).tolist()}}
        return {**scores, "null": None, "details": details}

    return _each_scores(plain, taken), draws


def with_draws(plain: dict[str, Any], draws: dict[str, NDArray[np.float64]]) -> dict[str, Any]:
    """Return a result with the draws of its scores: the opposite of :func:`without_draws`.

    Raises
    ------
    DebiasError
        The draws are of another result.
    """
    left = dict(draws)

    def restored(at: str, scores: dict[str, Any]) -> dict[str, Any]:
        if at not in left:
            return scores
        null, details = left.pop(at), scores["details"]
        if null.ndim != 2 or null.shape[1] != len(scores["feature_names"]):
            raise DebiasError(f"the draws of {at} have shape {null.shape} for {len(scores['feature_names'])} features")
        if "test" in details:
            test = dict(details["test"])
            band = test.pop(NOISE_BAND, None)
            if band is not None and not np.allclose(band, _quantiles(null)):
                raise DebiasError(f"the draws of {at} are those of another audit: their quantiles differ")
            details = {**details, "test": test}
        return {**scores, "null": null.tolist(), "details": details}

    whole = _each_scores(plain, restored)
    if left:
        raise DebiasError(f"the file of draws has {next(iter(left))!r}, which this result does not have")
    return whole


def write_draws(path: Any, draws: dict[str, NDArray[np.float64]]) -> None:
    """Write draws to a compressed file of NumPy (.npz)."""
    with replacing(path) as file:
        np.savez_compressed(file, **draws)  # type: ignore[arg-type]


def read_draws(path: Any) -> dict[str, NDArray[np.float64]]:
    """Return the draws that :func:`write_draws` wrote; raise a DebiasError if it did not."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: np.asarray(file[name], dtype=np.float64) for name in file.files}
    except OSError:
        raise
    except Exception as error:  # what NumPy and zipfile raise for other files differs by version
        raise DebiasError(f"{path}: not a file of draws written by to_json(draws=...): {error}") from None


def _each_scores(plain: dict[str, Any], change: Any, at: str = "") -> dict[str, Any]:
    """Return a result in which every entry with scores is changed; `at` is the place of the entry."""
    if "null" in plain:
        return dict(change(at.removesuffix("."), plain))
    return {
        name: {key: _each_scores(each, change, f"{at}{name}.{key}.") for key, each in value.items()}
        if name in ("scores", "audits") and isinstance(value, dict) and all(_holds_scores(value))
        else value
        for name, value in plain.items()
    }


def _holds_scores(entries: dict[str, Any]) -> Iterator[bool]:
    """Return of each entry whether it has scores, or is a result that has some."""
    return (isinstance(each, dict) and ("null" in each or "scores" in each) for each in entries.values())


def _quantiles(null: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quantiles in six digits: they are drawn, and more digits would take a tenth of the JSON."""
    return six_digits(np.quantile(null, [0.05, 0.95], axis=0))
