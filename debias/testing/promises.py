"""Checks that all scorers share: values of the right shape, unchanged data, reproducible numbers."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from debias.data.dataset import Data
from debias.hooks.contracts import Gives, Scorer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    ValuesAndDetails = tuple[NDArray[np.float64], dict[str, Any]]


def require(holds: bool, message: str) -> None:
    """Raise an AssertionError with this message unless `holds` is true."""
    if not holds:
        raise AssertionError(message)


def check_call(
    scorer: Scorer, score: Callable[[Scorer], ValuesAndDetails], shared: Callable[[], Any], n_features: int
) -> Any:
    """Call a scorer and a copy as another process would get it; return the values.

    Parameters
    ----------
    scorer : Scorer
    score : callable
        Calls a scorer.
    shared : callable
        Returns the data that all scorers of a run share and that none may change.
    n_features : int

    Returns
    -------
    array of shape (n_features,)

    Raises
    ------
    AssertionError
        The scorer breaks its contract.
    """
    before, state = pickle.dumps(shared()), _global_state()
    values, details = score(scorer)
    check_values(scorer, values, details, n_features)
    require(
        pickle.dumps(shared()) == before,
        f"{scorer.name} changes the data it gets, which all scorers of a run share: copy an array before you write to "
        "it",
    )
    require(
        _global_state() == state,
        f"{scorer.name} draws from the global random state, so its numbers depend on what ran before: draw from "
        "numpy.random.default_rng(rows.seed)",
    )
    again, _ = score(copied(scorer))
    require(
        np.array_equal(values, again),
        f"{scorer.name} returns other numbers for the same seed: draw only from numpy.random.default_rng(rows.seed)",
    )
    return values


def copied(scorer: Scorer) -> Scorer:
    """Return the scorer as another process gets it."""
    import cloudpickle

    try:
        sent = cloudpickle.dumps(scorer)
    except Exception as error:
        raise AssertionError(
            f"{scorer.name} cannot be sent to another process ({type(error).__name__}: {error}): define it at the top "
            "of a module, and keep locks, files and generators out of its options"
        ) from error
    return pickle.loads(sent)


def check_values(scorer: Scorer, values: Any, details: Any, n_features: int) -> None:
    """Check the values and details that a scorer returns."""
    require(
        np.shape(values) == (n_features,),
        f"{scorer.name} returns shape {np.shape(values)}, not ({n_features},): one number per feature, in the order of "
        "feature_names, also for features without a split (np.bincount(..., minlength=ensemble.n_features))",
    )
    require(
        bool(np.isfinite(values).all()),
        f"{scorer.name} returns scores that are not finite: a feature without a split, or a node without rows, needs a "
        "number too (np.divide(a, b, out=np.zeros_like(a), where=b > 0))",
    )
    require(isinstance(details, dict), f"{scorer.name} returns details that are not a dictionary, but {details!r}")
    promised = {Gives.P_VALUE: ("p_value",), Gives.DECISION: ("selected",), Gives.NULL: ("null", "unadjusted")}
    for what in scorer.gives:
        for name in promised[what]:
            require(name in details, f"{scorer.name} says it gives {what.name}, but the details have no {name!r}")
    for name in ("p_value", "selected", "unadjusted", "null"):
        if name in details:
            shape = np.shape(details[name])
            require(
                shape[-1:] == (n_features,),
                f"details[{name!r}] of {scorer.name} has shape {shape}; the last axis must have the {n_features} "
                "features",
            )
    if "p_value" in details:
        p = np.asarray(details["p_value"])
        require(
            bool(((p > 0) & (p <= 1)).all()),
            f"p-values of {scorer.name} are not above 0 and at most 1: count the observed score as one of the draws, "
            "(1 + exceeding) / (1 + draws)",
        )


def small_data(seed: int = 0, classes: bool = False) -> Data:
    """Return 80 rows with categories, missing values and a constant column."""
    import pandas as pd

    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    X = pd.DataFrame(
        {
            "informative": x,
            "missing": np.where(rng.random(80) < 0.3, np.nan, rng.normal(size=80)),
            "category": pd.Categorical(rng.choice(["a", "b", "c"], 80)),
            "constant": np.ones(80),
        }
    )
    y = x + rng.normal(size=80)
    return Data.of(X, np.where(y > 0, "high", "low") if classes else y, seed=seed)


def _global_state() -> tuple[object, ...]:
    """Return NumPy's global random state: its words, and the position in them."""
    _, words, position, *_ = np.random.get_state()  # noqa: NPY002 - the check reads the state that scorers must not use
    return tuple(np.asarray(words).tolist()), position
