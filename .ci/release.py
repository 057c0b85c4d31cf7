"""Checks and notes of a release: ``python .ci/release.py check|notes v0.1.0``, ``... files v0.1.0 dist``.

- ``check``: the tag, ``debias/_version.py``, CITATION.cff, docs/cite.md and CHANGELOG.md agree.
- ``files``: a folder has the source distribution and a wheel for each system, all of this version.
- ``notes``: print the section of CHANGELOG.md, for the page of the release.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SYSTEMS = ("manylinux", "musllinux", "macosx", "win_amd64")


def check(tag: str) -> None:
    """Exit with what is wrong if a file names another version than the tag."""
    version = version_of(tag)
    named = re.search(r'__version__ = "(.+)"', (ROOT / "debias" / "_version.py").read_text(encoding="utf-8"))
    cited = re.search(r"^version: (\S+)\ndate-released: (\S+)$", citation(), flags=re.M)
    wrong = []
    if named is None or named[1] != version:
        wrong.append(f"debias/_version.py has {None if named is None else named[1]}")
    if cited is None or cited[1] != version:
        wrong.append(f"CITATION.cff has {None if cited is None else cited[1]}")
    entry = (ROOT / "docs" / "cite.md").read_text(encoding="utf-8")
    if f"version = {{{version}}}" not in entry:
        wrong.append("docs/cite.md has another version")
    dated = re.search(rf"^## {re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)$", changelog(), flags=re.M)
    if dated is None:
        wrong.append(f"CHANGELOG.md has no heading '## {version} (YYYY-MM-DD)'")
    elif cited is not None and cited[2] != dated[1]:
        wrong.append(f"CITATION.cff has the date {cited[2]}, and CHANGELOG.md {dated[1]}")
    if dated is not None and f"year    = {{{dated[1][:4]}}}" not in entry:
        wrong.append("docs/cite.md has another year")
    if wrong:
        sys.exit(f"{tag} is not the version of these files: {'; '.join(wrong)}")
    print(f"{tag}: version and date agree")


def files(tag: str, folder: str) -> None:
    """Exit with what is missing, or of another version, in the folder of what is published."""
    version, names = version_of(tag), sorted(path.name for path in Path(folder).iterdir())
    beginning = f"debias_trees-{version}"
    of_version = re.compile(rf"{re.escape(beginning)}(-|\.tar)")
    wrong = [f"{name} is not of version {version}" for name in names if not of_version.match(name)]
    if f"{beginning}.tar.gz" not in names:
        wrong.append("no source distribution")
    wheels = [name for name in names if name.endswith(".whl")]
    wrong += [f"no wheel for {system}" for system in SYSTEMS if not any(system in name for name in wheels)]
    if wrong:
        sys.exit(f"{folder}: {'; '.join(wrong)}")
    print("\n".join(names))


def notes(tag: str) -> None:
    """Print the section of the changelog."""
    version = re.escape(version_of(tag))
    section = re.search(rf"^## {version}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog(), flags=re.M | re.S)
    if section is None:
        sys.exit(f"CHANGELOG.md has no section {version_of(tag)}")
    print(section[1].strip())


def version_of(tag: str) -> str:
    """Return the version that a tag names."""
    found = re.fullmatch(r"v(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)", tag)
    if found is None:
        sys.exit(f"{tag!r} is not a tag of a release, such as v0.1.0 or v0.2.0rc1")
    return found[1]


def changelog() -> str:
    """Return the text of CHANGELOG.md."""
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def citation() -> str:
    """Return the text of CITATION.cff."""
    return (ROOT / "CITATION.cff").read_text(encoding="utf-8")


if __name__ == "__main__":
    commands = {"check": check, "files": files, "notes": notes}
    if len(sys.argv) < 3 or sys.argv[1] not in commands or len(sys.argv) != (4 if sys.argv[1] == "files" else 3):
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
