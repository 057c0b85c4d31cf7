"""Names that must not change a page, and what every page must keep."""

import base64
import hashlib
import re
from html.parser import HTMLParser

from debias.results.report.pages import resource

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "$x_1$ {{ 7*7 }} {% raw %}",
    "a" * 300,
    "\u202eright to left\x1b\n",
    "&amp; \"quoted\" 'name'",
    "年齢 возраст",
    "[red]bold[/]",
]


class Reader(HTMLParser):
    """Tags with attributes, and the pieces of text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text.replace("<wbr>", ""))  # these join what a long name consists of

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


def is_safe(text, pages=()):
    """Assert that a page loads nothing, runs only its own script, has unique ids, and that its figures have texts.

    It may link to other pages, which are named.
    """
    read = Reader(text)
    assert not {"img", "iframe", "link", "object"} & {tag for tag, _ in read.tags}
    assert [attributes for tag, attributes in read.tags if tag == "script"] == [{}]
    policy = next(a["content"] for tag, a in read.tags if a.get("http-equiv") == "Content-Security-Policy")
    allowed = "default-src 'none'"
    for element in ("style", "script"):
        [inside] = re.findall(rf"<{element}>(.*?)</{element}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        allowed += f"; {element}-src 'sha256-{digest}'"
    assert policy.startswith(allowed)
    assert inside == resource("tables.js")
    assert "unsafe" not in policy
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in read.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        for name in ("src", "href"):
            target = attributes.get(name, "#")
            is_link = tag == "a" and target in pages
            assert is_link or target.startswith("#") or (tag == "image" and target.startswith("data:image/png;base64,"))
        wanted = attributes.get("aria-labelledby", "").split()
        wanted += [attributes["href"][1:]] if attributes.get("href", "").startswith("#") else []
        wanted += re.findall(r"url\(#([^)]+)\)", attributes.get("clip-path", ""))
        assert set(wanted) <= set(ids)
    assert ("img-src data:" in policy) == ("data:image/png" in text)
    for part in re.findall(r"<figure>.*?</figure>", text, re.S):
        assert re.search(r'<svg[^>]*role="img"', part)
        for needed in ("<title", "<desc", "<figcaption>"):
            assert needed in part
