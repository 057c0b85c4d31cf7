"""``llms.txt``, a list of all pages for language models, and ``llms-full.txt``, their text with all public docstrings.

``python docs/llms.py`` writes docs/llms.txt, whose links lead to the pages beside it. The build of the site writes both
files, with links into the site.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

DOCS = Path(__file__).parent
RECIPES = ("mlflow", "selector", "large-data", "spark", "shell")
"""Pages of parts that may or may not be there; they go under Recipes."""
LAST = "Evidence"
"""Pages of this part have tables of runs: they come last, under the name that language models may leave out."""
NOT_WHOLE = ("combinations", "hooks", "results/", "changelog", "gallery/")
"""Pages of tables, and of what is written for programs: they are listed, and their text is left out."""
COMMENT_OF_FIGURES = re.compile(r"\s*<!-- figures\b.*?-->", flags=re.DOTALL)
"""What `figures.py` reads after a paragraph."""
MOST_WORDS = 30
"""Words of a description."""


def parts() -> dict[str, list[str]]:
    """Return the pages of each part of the site by its caption, in the order of the front page."""
    found: dict[str, list[str]] = {}
    listed: set[str] = set()
    toctree = r"^```\{toctree\}\n:caption: ([^\n]*)\n(?::[^\n]*\n)*\n(.*?)^```"
    for caption, body in re.findall(toctree, _text("index"), flags=re.M | re.S):
        for name in [*body.split(), *(RECIPES if caption == "Recipes" else ())]:
            for page in sorted(_pages(name)) if "*" in name else [name]:
                if page not in listed and (DOCS / f"{page}.md").exists():
                    found.setdefault(caption, []).append(page)
                    listed.add(page)
    return found


def short(address: str = "{}.md") -> str:
    """Return the text of llms.txt; `address` makes a link of the name of a page."""
    lines = [
        "# debias",
        "",
        "> debias tells which features of a trained tree model (scikit-learn, XGBoost, LightGBM, CatBoost and others) "
        "really matter: it scores them on rows that the trees have not seen, where noise scores 0 on average, and "
        "tests which scores are more than chance. `debias.audit(model, X, y)` is the first call.",
        "",
        "For an assistant: `audit.to_dict(brief=True)` has the sentences and numbers of an audit in less than 4 kB. A "
        'feature "not confirmed alone" is not proven to be useless, "untested" is not a pass, and no score shows a '
        "cause.",
    ]
    for caption, pages in parts().items():
        lines += ["", f"## {'Optional' if caption == LAST else caption}", ""]
        lines += [f"- [{title(page)}]({address.format(page)}){description(page)}" for page in pages]
    return "\n".join(lines) + "\n"


def full(address: str = "{}.md") -> str:
    """Return the text of llms-full.txt: the pages one after the other, then the docstrings of the public names."""
    pages = [page for pages in parts().values() for page in pages if not page.startswith(NOT_WHOLE)]
    texts = {page: COMMENT_OF_FIGURES.sub("", _text(page)).strip() for page in pages if page != "api"}
    whole = [f"<!-- {address.format(page)} -->\n{text}" for page, text in texts.items()]
    return "\n\n".join([*whole, "# Docstrings of the public names", *docstrings()]) + "\n"


def docstrings() -> list[str]:
    """Return signature and docstring of every public name of debias."""
    import debias

    texts = []
    for name in debias.__all__:
        member = getattr(debias, name)
        signature = str(inspect.signature(member)).replace("'", "") if inspect.isfunction(member) else ""
        texts.append(f"## debias.{name}{signature}\n\n{inspect.getdoc(member)}")
    return texts


def title(page: str) -> str:
    """Return the title of a page, without marks of code."""
    found = re.search(r"^# (.*)$", _text(page), flags=re.M)
    return found[1].replace("`", "") if found else page.capitalize()


def description(page: str) -> str:
    """Return what the page of a scorer says that it estimates, or the first sentence of a page that begins with text.

    A colon comes first. Nothing is returned if the sentence is long or breaks off.
    """
    estimates = re.search(r"^\| Estimates \| ([^|]*) \|$", _text(page), flags=re.M)
    first = re.split(r"\n\s*\n", _text(page).partition("\n")[2].strip())[0]
    if not estimates and not re.match(r"[A-Z`\[]", first):
        return ""
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", estimates[1] if estimates else " ".join(first.split()))
    sentence = re.split(r"(?<=[.?!:])\s", plain)[0]
    breaks_off = not estimates and not re.search(r"[^A-Z][.?!]$", sentence)
    return "" if breaks_off or len(sentence.split()) > MOST_WORDS else f": {sentence}"


def _pages(pattern: str) -> list[str]:
    return [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.glob(f"{pattern}.md")]


def _text(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    (DOCS / "llms.txt").write_text(short(), encoding="utf-8")
