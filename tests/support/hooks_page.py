"""Write the reference of each hook into docs/hooks.md, from its signature and docstring, as plain Markdown.

``python -m support.hooks_page`` writes the page. A reader of the repository, without the site, sees the same as one of
the site.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from debias.hooks import specs

PAGE = Path(__file__).parent.parent.parent / "docs" / "hooks.md"
BEGIN, END = "<!-- from the docstring of {} -->\n", "<!-- end -->\n"


def with_references(page: str) -> str:
    """Return the text of the page with the reference of every hook between its two comments."""
    for name in re.findall(BEGIN.format(r"(\w+)"), page):
        begin = re.escape(BEGIN.format(name))
        page = re.sub(
            f"({begin}).*?({END})",
            lambda found, name=name: found[1] + reference(getattr(specs, name)) + found[2],
            page,
            flags=re.S,
        )
    return page


def reference(hook: Any) -> str:
    """Return signature, purpose, parameters, results and errors of a hook as Markdown."""
    text = inspect.getdoc(hook) or ""
    purpose, *parts = re.split(r"^(\w+)\n-{3,}$", text, flags=re.M)
    signature = str(inspect.signature(hook)).replace("'", "")
    if len(signature) > 100:
        inside, returned = signature[1:].split(") -> ")
        signature = "(\n" + "".join(f"    {each},\n" for each in re.split(r", (?=\w+: )", inside)) + f") -> {returned}"
    lines = [f"```py\ndef {hook.__name__}{signature}\n```\n", f"{markdown(purpose)}\n"]
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        lines += [f"**{title}**\n", *items(body, title), ""]
    return "\n" + "\n".join(lines).rstrip("\n") + "\n\n"


def items(body: str, title: str) -> list[str]:
    """Return the entries of a section of a docstring as items of a list."""
    entries = re.findall(r"^(\S.*)\n((?:(?:    .*)?\n?)*)", body.strip("\n") + "\n", flags=re.M)
    listed = []
    for head, description in entries:
        name, _, kind = head.partition(" : ")
        term = f"`{name}` ({markdown(kind)})" if kind else f"`{name}`" if title == "Raises" else markdown(name)
        meaning = " ".join(markdown(description).split())
        listed.append(f"- {term}: {meaning}" if meaning else f"- {term}")
    return listed


def markdown(text: str) -> str:
    """Return text of a docstring with Markdown's marks of code."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text.strip())
    return text.replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(with_references(PAGE.read_text()))
