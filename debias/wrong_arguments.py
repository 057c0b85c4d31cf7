"""What to type instead of an argument that a public function does not have."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from debias.errors import nearest
from debias.text import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

P = ParamSpec("P")
R = TypeVar("R")

SEED = ("random_state", "pass the seed as random_state")
TRAIN = ("train", "pass training rows as train=(X_train, y_train)")
UNSEEN = ("X", "pass rows that the model has not seen as X and y")
TABLE = ("X", "pass the table of features as X and the response as y")
RESPONSE = ("y", "pass the response itself as y")
ALL_FEATURES = (
    "level",
    "choose features in the result, which has all of them. To name columns that have no names, pass "
    "debias.Dataset(X, y, feature_names=...)",
)
INSTEAD = {
    **dict.fromkeys(("seed", "random_seed", "rng"), SEED),
    **dict.fromkeys(("X_train", "y_train"), TRAIN),
    **dict.fromkeys(("X_test", "y_test", "X_val", "y_val", "eval_set"), UNSEEN),
    **dict.fromkeys(("data", "df"), TABLE),
    **dict.fromkeys(("target", "y_true", "label", "labels"), RESPONSE),
    **dict.fromkeys(("feature", "features", "columns", "feature_names"), ALL_FEATURES),
    **dict.fromkeys(("weight", "weights"), ("sample_weight", "pass weights as sample_weight")),
    **dict.fromkeys(("n_repeats", "n_permutations"), ("test", "pass test=debias.Permutation(n_permutations=...)")),
    "blocks": ("X", "pass debias.Dataset(X, y, blocks=...)"),
    "qid": ("X", "pass debias.Dataset(X, y, qid=...)"),
    "base_margin": ("X", "pass debias.Dataset(X, y, base_margin=...)"),
    "alpha": ("error_rate", "pass the error rate as error_rate"),
    "step": ("level", "pass the whole pipeline. level='model' scores the columns that its trees see"),
    "cv": ("model", "use debias.audit_folds for the models of a cross-validation"),
}
"""For a name that people type: the argument that it needs, and what to type with it."""
NOTHING_IS_DRAWN = "leave it out, since nothing is drawn at random here"


def explains_wrong_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: a call with arguments that it does not have is told what to type.

    The error is a `TypeError`, as Python raises it.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            message = _what_is_wrong(function, args, kwargs)
            if message is None:  # the error comes from inside
                raise
        raise TypeError(message)

    return called


def instead_of(name: str, known: Collection[str]) -> str | None:
    """Return what to type instead of an argument with this name, or None if nobody can know.

    Parameters
    ----------
    name : str
    known : collection of str
        The arguments that there are.

    Examples
    --------
    >>> instead_of("seed", ["X", "y", "random_state"])
    'pass the seed as random_state'
    """
    if name == "random_state" and name not in known:
        return NOTHING_IS_DRAWN
    needed, what = INSTEAD.get(name, (None, None))
    return what if needed in known else None


def _what_is_wrong(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> str | None:
    """Return what is wrong with the arguments of a call, and what to type; None if they fit the function."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        reason = str(error)
    else:
        return None
    name, parameters = function.__name__, signature.parameters
    open_ended = any(each.kind == each.VAR_KEYWORD for each in parameters.values())
    for unknown in () if open_ended else (each for each in kwargs if each not in parameters):
        what = instead_of(unknown, parameters)
        if what is not None:
            return f"{name}() has no argument {unknown!r}: {what}"
        hint = nearest(unknown, parameters) or f" It has {listed(list(parameters))}"
        return f"{name}() has no argument {unknown!r}.{hint}"
    by_position = [each.name for each in parameters.values() if each.kind == each.POSITIONAL_OR_KEYWORD]
    if len(args) > len(by_position):
        after = "train=(X_train, y_train)" if "train" in parameters else "random_state=0"
        return (
            f"{name}() takes {listed(by_position)} by position, and {len(args)} arguments were passed: what follows "
            f"must have a name, such as {after}"
        )
    missing = [
        each.name
        for each in parameters.values()
        if each.default is each.empty
        and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        and each.name not in kwargs
        and each.name not in by_position[: len(args)]
    ]
    if not missing:
        return f"{name}(): {reason}"
    example = ", ".join(each for each in by_position if each in ("model", "X", "y", "path", "cv_results"))
    if "train" in missing:
        example += ", train=(X_train, y_train)"
    return f"{name}() needs {listed(missing)}: write debias.{name}({example})"
