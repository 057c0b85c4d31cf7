"""Scorers as text: ``threshold(response_permutation(mdi, replicates=300), alpha=0.05)``.

The text is parsed; Python's ``eval`` is never used.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from debias.errors import CompositionError, nearest
from debias.hooks.contracts import MetaMethod, Scorer, how_to_write
from debias.hooks.registry import find_scorer, meta_methods, scorers

_WORDS = re.compile(r"\w+([-\s.]+\w+)*")
LONGEST = 5_000
"""Largest number of characters of an expression."""


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
        The text is not an expression, contains an unknown name, or has no meaning; the message points at the character.
    """
    line = " ".join(text.split())
    if not line or len(line) > LONGEST:
        raise CompositionError(f"a scorer expression has 1 to {LONGEST} characters, not {len(line)}; {_FORM}")
    try:
        tree = ast.parse(line, mode="eval").body
    except SyntaxError as error:
        _refuse_misspelt(line, line, 0)
        raise _pointing(line, (error.offset or 1) - 1, f"{error.msg}; {_FORM}") from None
    except (ValueError, RecursionError, MemoryError):
        raise CompositionError(f"{line!r} is not a scorer expression; {_FORM}") from None
    return _scorer(tree, line)


def _scorer(node: ast.expr, line: str) -> Scorer:
    metas = meta_methods()
    if isinstance(node, ast.Name):
        head, arguments, keywords = node, [], []
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        head, arguments, keywords = node.func, node.args, node.keywords
    else:
        at = _column(line, node)
        _refuse_misspelt(ast.get_source_segment(line, node) or "", line, at)
        raise _pointing(line, at, f"this is not a scorer; {_FORM}")
    name, at = head.id, _column(line, head)
    options = [_option(keyword, line) for keyword in keywords]
    if name not in metas:
        if arguments:
            is_scorer = name in scorers()
            problem = (
                f"{name} is a scorer, and wraps no scorer."
                if is_scorer
                else f"there is no meta-method {name!r}.{nearest(name, metas)}"
            )
            raise _pointing(line, at, f"{problem} The meta-methods are {', '.join(metas)}")
        plugin: Any = _located(line, at, find_scorer, name)
    else:
        if len(arguments) != 1:
            raise _pointing(line, at, f"{name} wraps one scorer, not {len(arguments)}: write {name}(mdi_oob)")
        plugin = metas[name]
    options_set: set[str] = set()
    for keyword, (option, value) in zip(keywords, options, strict=True):
        if option in options_set:
            raise _pointing(line, _column(line, keyword), f"{option} is set twice")
        options_set.add(option)
        plugin = _located(line, _column(line, keyword), plugin.with_options, **{option: value})
    return _located(line, at, plugin, _scorer(arguments[0], line)) if arguments else plugin


def _refuse_misspelt(text: str, line: str, at: int) -> None:
    """Raise a CompositionError if text begins with what is nearly a name, such as "mdi-oob"; it begins at `at`."""
    name, known = text.partition("(")[0].strip(), [*scorers(), *meta_methods()]
    hint = nearest(name, known) if name not in known and _WORDS.fullmatch(name) else ""
    if hint:
        raise _pointing(line, at, f"there is no scorer {name!r}.{hint}")


def _option(keyword: ast.keyword, line: str) -> tuple[str, Any]:
    """Return name and value; the value is a literal."""
    if keyword.arg is None:
        raise _pointing(line, _column(line, keyword), f"an option needs a name; {_FORM}")
    try:
        return keyword.arg, ast.literal_eval(keyword.value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        at = _column(line, keyword.value)
        raise _pointing(line, at, f"the value of {keyword.arg} is not a plain number or text") from None


def _located(line: str, at: int, function: Any, *arguments: Any, **options: Any) -> Any:
    """Call a function; if it raises a CompositionError, add the position in the expression."""
    try:
        return function(*arguments, **options)
    except CompositionError as error:
        raise _pointing(line, at, str(error)) from None


def _column(line: str, node: ast.expr | ast.keyword) -> int:
    """Return the number of the character at which a node begins; ast counts bytes."""
    return len(line.encode()[: node.col_offset].decode())


def _pointing(line: str, at: int, message: str) -> CompositionError:
    return CompositionError(f"{message}\n  {line}\n  {' ' * at}^ character {at + 1}")


_FORM = "write name, name(option=value) or meta_method(scorer, option=value)"


def scorer(expression: str | Scorer, **options: Any) -> Scorer:
    """Return a scorer from its name, from an expression, or from a scorer, with options set.

    Parameters
    ----------
    expression : str or Scorer
        ``"mdi_oob"``, ``"mdi_oob(shrinkage=100)"``, ``"response_permutation(mdi, replicates=50)"``, or a scorer.
    **options
        Options of the scorer; for an expression, of its outermost scorer or meta-method.

    Returns
    -------
    Scorer

    Raises
    ------
    CompositionError
        There is no such scorer, meta-method or option, or the combination has no meaning; the message points at the
        character.

    Examples
    --------
    >>> import debias
    >>> debias.plugin.scorer("mdi_oob(shrinkage=100)").name
    'mdi_oob(shrinkage=100)'
    """
    if isinstance(expression, str):
        parsed = parse(expression)
    elif isinstance(expression, Scorer) and not isinstance(expression, type):
        parsed = expression
    else:
        raise CompositionError(f"{expression!r} is not a scorer: pass a name or a scorer. {how_to_write(expression)}")
    return parsed.with_options(**options) if options else parsed


def meta_method(name: str | MetaMethod, **options: Any) -> MetaMethod:
    """Return a meta-method by name, with options set; call it with a scorer to wrap the scorer.

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
        There is no such meta-method or option; the message lists the known ones.

    Examples
    --------
    >>> import debias
    >>> wrapped = debias.plugin.meta_method("response_permutation", replicates=50)(debias.plugin.scorer("mdi"))
    >>> wrapped.name
    'response_permutation(mdi, replicates=50)'
    >>> debias.plugin.scorer(wrapped.name) == wrapped
    True
    """
    if isinstance(name, str):
        known = meta_methods()
        if name not in known:
            names = ", ".join(known)
            raise CompositionError(f"there is no meta-method {name!r}.{nearest(name, known)} There are: {names}")
        chosen = known[name]
    elif isinstance(name, MetaMethod):
        chosen = name
    else:
        raise CompositionError(f"{name!r} is not a meta-method: pass a name, or an object that wraps scorers")
    return chosen.with_options(**options) if options else chosen
