"""Scorers as text: ``threshold(response_permutation(mdi, replicates=300), alpha=0.05)``. Nothing is ever evaluated."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from debias.errors import CompositionError, nearest
from debias.hooks.contracts import MetaMethod, Scorer

if TYPE_CHECKING:
    pass

LONGEST = 5_000
"""Characters; what is longer is no expression somebody wrote."""


def parse(text: str) -> Scorer:
    """Build the scorer an expression describes.

    Parameters
    ----------
    text : str
        ``name``, ``name(option=value, ...)``, or ``meta_method(expression, option=value, ...)``; values are literals.

    Returns
    -------
    Scorer

    Raises
    ------
    CompositionError
        The text is no expression, names what does not exist, or has no meaning; the message points at the character.
    """
    line = " ".join(text.split())
    if not line or len(line) > LONGEST:
        raise CompositionError(f"a scorer expression has 1 to {LONGEST} characters, not {len(line)}; {_FORM}")
    try:
        tree = ast.parse(line, mode="eval").body
    except SyntaxError as error:
        raise _pointing(line, (error.offset or 1) - 1, f"{error.msg}; {_FORM}") from None
    except (ValueError, RecursionError, MemoryError):
        raise CompositionError(f"{line!r} is no scorer expression; {_FORM}") from None
    return _scorer(tree, line)


def _scorer(node: ast.expr, line: str) -> Scorer:
    from debias.hooks.registry import find_scorer, meta_methods, scorers

    if isinstance(node, ast.Name):
        head, arguments, keywords = node, [], []
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        head, arguments, keywords = node.func, node.args, node.keywords
    else:
        raise _pointing(line, _column(line, node), f"this is no scorer; {_FORM}")
    name, at = head.id, _column(line, head)
    options = [_option(keyword, line) for keyword in keywords]
    if name not in meta_methods():
        if arguments:
            is_scorer = name in scorers()
            what = f"{name} is a scorer, and wraps none" if is_scorer else f"there is no meta-method {name!r}"
            raise _pointing(line, at, f"{what}; the meta-methods are {', '.join(meta_methods())}")
        found: Any = _located(line, at, find_scorer, name)
    else:
        if len(arguments) != 1:
            raise _pointing(line, at, f"{name} wraps one scorer, not {len(arguments)}: write {name}(mdi_oob)")
        found = meta_methods()[name]
    given: set[str] = set()
    for keyword, (option, value) in zip(keywords, options, strict=True):
        if option in given:
            raise _pointing(line, _column(line, keyword), f"{option} is given twice")
        given.add(option)
        found = _located(line, _column(line, keyword), found.with_options, **{option: value})
    return _located(line, at, found, _scorer(arguments[0], line)) if arguments else found


def _option(keyword: ast.keyword, line: str) -> tuple[str, Any]:
    """Return name and value; the value is a literal."""
    if keyword.arg is None:
        raise _pointing(line, _column(line, keyword), f"options have names; {_FORM}")
    try:
        return keyword.arg, ast.literal_eval(keyword.value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        at = _column(line, keyword.value)
        raise _pointing(line, at, f"the value of {keyword.arg} is no plain number or text") from None


def _located(line: str, at: int, function: Any, *arguments: Any, **options: Any) -> Any:
    """Call a function, and point at a character if it refuses."""
    try:
        return function(*arguments, **options)
    except CompositionError as error:
        raise _pointing(line, at, str(error)) from None


def _column(line: str, node: ast.expr | ast.keyword) -> int:
    """Return the number of the character a node begins at; ast counts bytes."""
    return len(line.encode()[: node.col_offset].decode())


def _pointing(line: str, at: int, message: str) -> CompositionError:
    return CompositionError(f"{message}\n  {line}\n  {' ' * at}^ character {at + 1}")


_FORM = "write name, name(option=value) or meta_method(scorer, option=value)"


def scorer(expression: str | Scorer, **options: Any) -> Scorer:
    """Return a scorer by name, by expression, or as it is, with options set.

    Parameters
    ----------
    expression : str or Scorer
        ``"mdi_oob"``, ``"mdi_oob(shrinkage=100)"``, ``"response_permutation(mdi, replicates=50)"``, or a scorer.
    **options
        Options of the scorer, of an expression those of the outermost.

    Returns
    -------
    Scorer

    Raises
    ------
    CompositionError
        No such scorer, meta-method or option, or a composition without meaning; the message points at the character.

    Examples
    --------
    >>> import debias
    >>> debias.scorer("mdi_oob(shrinkage=100)").name
    'mdi_oob(shrinkage=100)'
    """
    if isinstance(expression, str):
        found = parse(expression)
    elif isinstance(expression, Scorer):
        found = expression
    else:
        raise CompositionError(f"{expression!r} is no scorer: pass a name, or an object with name, unit and score")
    return found.with_options(**options) if options else found


def meta_method(name: str | MetaMethod, **options: Any) -> MetaMethod:
    """Return a meta-method by name, with options set; call it with a scorer to wrap that.

    Parameters
    ----------
    name : str or MetaMethod
    **options
        Options of the meta-method.

    Returns
    -------
    MetaMethod

    Raises
    ------
    CompositionError
        No such meta-method or option; the message lists those there are.

    Examples
    --------
    >>> import debias
    >>> wrapped = debias.meta_method("response_permutation", replicates=50)(debias.scorer("mdi"))
    >>> wrapped.name
    'response_permutation(mdi, replicates=50)'
    >>> debias.scorer(wrapped.name) == wrapped
    True
    """
    from debias.hooks.registry import meta_methods

    if isinstance(name, str):
        known = meta_methods()
        if name not in known:
            there = ", ".join(known)
            raise CompositionError(f"there is no meta-method {name!r}.{nearest(name, known)} There are: {there}")
        found = known[name]
    elif isinstance(name, MetaMethod):
        found = name
    else:
        raise CompositionError(f"{name!r} is no meta-method: pass a name, or an object that wraps scorers")
    return found.with_options(**options) if options else found
