"""Put a built site beside those of other versions: ``python .ci/site_versions.py SITE VERSION PAGES``.

PAGES then has a folder for each version, ``switcher.json`` for the menu of versions, ``404.html``, and ``index.html``,
which leads to the newest release, or to ``dev`` before the first one.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SITE = PROJECT["urls"]["Documentation"]


def publish(site: Path, version: str, pages: Path) -> None:
    """Copy a site to its folder, and write the files at the root anew."""
    name = version.removeprefix("v")
    if name != "dev" and not re.fullmatch(r"\d+\.\d+\.\d+\w*", name):
        sys.exit(f"{version!r} is neither dev nor a version such as v0.1.0")
    if not (site / "index.html").exists():
        sys.exit(f"{site} is not a built site: it has no index.html")
    shutil.rmtree(pages / name, ignore_errors=True)
    # Nothing that begins with a dot is a page: Sphinx may keep its own files, with paths of the machine, in .doctrees.
    shutil.copytree(site, pages / name, ignore=shutil.ignore_patterns(".*"))
    (pages / ".nojekyll").touch()  # folders that begin with _ are published too
    folders = sorted(
        (path.name for path in pages.iterdir() if (path / "index.html").exists()), key=_order, reverse=True
    )
    newest = next((folder for folder in folders if _is_release(folder)), folders[0])
    # The pages of all versions but the preferred one show a banner that leads to it. The theme compares the preferred
    # version with the one that conf.py names, and therefore conf.py never names a release in the pages of dev.
    entries = [
        {
            "name": _label(folder, newest),
            "version": folder,
            "url": f"{SITE}/{folder}/",
            "preferred": folder == newest,
        }
        for folder in folders
    ]
    (pages / "switcher.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    (pages / "index.html").write_text(_REDIRECT.format(to=f"{newest}/"), encoding="utf-8")
    (pages / "404.html").write_text(_NOT_FOUND.format(site=SITE, newest=newest), encoding="utf-8")


def _order(folder: str) -> tuple[bool, list[int], bool]:
    """Return what versions are sorted by: dev is the newest, and a release comes after its candidates."""
    return (
        folder == "dev",
        [int(number) for number in re.findall(r"\d+", folder)[:3]],
        _is_release(folder),
    )


def _label(folder: str, newest: str) -> str:
    return f"{folder} (stable)" if folder == newest and _is_release(folder) else folder


def _is_release(folder: str) -> bool:
    """Whether it has a release: dev and candidates are none."""
    return re.fullmatch(r"[\d.]+", folder) is not None


_REDIRECT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>debias</title>
<meta http-equiv="refresh" content="0; url={to}"><link rel="canonical" href="{to}"></head>
<body><a href="{to}">debias</a></body></html>
"""

# GitHub shows it for every address that does not exist, so its links are absolute and it needs no other file.
_NOT_FOUND = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Page not found - debias</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.6 system-ui, sans-serif; max-width: 36em; margin: 15vh auto; padding: 0 1em; }}
</style></head>
<body><h1>There is no such page</h1>
<p>It may have moved, or it may be in another version of the documentation.</p>
<ul>
<li><a href="{site}/{newest}/">Start page of the documentation</a></li>
<li><a href="{site}/{newest}/search.html">Search</a></li>
<li><a href="{site}/{newest}/api.html">API</a></li>
</ul></body></html>
"""

if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    publish(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
