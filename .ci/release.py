"""Checks and notes of a release: ``python .ci/release.py check|notes v0.1.0``, ``files v0.1.0 dist``, or ``between``.

- ``check``: the tag, ``debias/_version.py``, CITATION.cff, docs/cite.md and CHANGELOG.md agree.
- ``files``: a folder has the source distribution and a wheel for each system, all of this version, and nothing else.
- ``notes``: print the section of CHANGELOG.md, for the page of the release.
- ``between``: on main, after a release: the version ends with .dev0, and CHANGELOG.md has an open section for it.
"""

from __future__ import annotations

import re
import sys
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SYSTEMS = {
    "manylinux, x86-64": r"manylinux\S*_x86_64",
    "manylinux, ARM": r"manylinux\S*_aarch64",
    "musllinux, x86-64": r"musllinux\S*_x86_64",
    "musllinux, ARM": r"musllinux\S*_aarch64",
    "macOS, ARM": r"macosx\S*_arm64",
    "macOS, Intel": r"macosx\S*_x86_64",
    "Windows, x86-64": r"win_amd64",
}
"""What the jobs of wheels.yml build, with what the name of the wheel has for it."""


def check(tag: str) -> None:
    """Exit with what is wrong if a file names another version than the tag."""
    version = version_of(tag)
    named = named_version()
    cited = re.search(r"^version: (\S+)\ndate-released: (\S+)$", citation(), flags=re.M)
    wrong = []
    if named != version:
        wrong.append(f"debias/_version.py has {named}")
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
    """Exit with what is missing, or too much, in the folder of what is published; print names and digests."""
    version, paths = version_of(tag), sorted(Path(folder).iterdir())
    beginning = f"debias_trees-{version}"
    expected = {"the source distribution": re.escape(f"{beginning}.tar.gz")}
    for system, platform in SYSTEMS.items():
        expected[f"a wheel for {system}"] = re.escape(f"{beginning}-cp311-abi3-") + platform + r"\.whl"
    wrong, known = [], set()
    for what, pattern in expected.items():
        found = [path.name for path in paths if re.fullmatch(pattern, path.name)]
        known.update(found)
        if len(found) != 1:
            wrong.append(f"{what}: {len(found)} files instead of 1")
    wrong += [f"{path.name} is no file of version {version}" for path in paths if path.name not in known]
    if wrong:
        sys.exit(f"{folder}: {'; '.join(wrong)}")
    for path in paths:
        print(sha256(path.read_bytes()).hexdigest(), path.name)


def notes(tag: str) -> None:
    """Print the section of the changelog, and the addresses of its links, which stand at the end of the file."""
    version = re.escape(version_of(tag))
    section = re.search(rf"^## {version}(?= |$)[^\n]*\n(.*?)(?=^## |\Z)", changelog(), flags=re.M | re.S)
    if section is None:
        sys.exit(f"CHANGELOG.md has no section {version_of(tag)}")
    text = re.sub(LINK, "", section[1], flags=re.M).strip()
    links = [found[0] for found in re.finditer(LINK, changelog(), flags=re.M) if f"[{found[1]}]" in text]
    print("\n\n".join([text, *(["\n".join(links)] if links else [])]))


LINK = r"^\[([^\]\n]+)\]: \S+$"
"""A line with the address of a link: ``[docs/files.md]: https://...``."""


def between() -> None:
    """Exit with what is wrong if main has the version of a release, or no section for what comes next."""
    named = named_version()
    found = re.fullmatch(r"(\d+\.\d+\.\d+)(?:(?:a|b|rc)\d+)?\.dev\d+", named or "")
    if found is None:
        sys.exit(f"debias/_version.py has {named}: between releases it ends with .dev0, such as 0.2.0.dev0")
    first = re.search(r"^## (.+)$", changelog(), flags=re.M)
    if first is None or first[1] != f"{found[1]} (unreleased)":
        sys.exit(f"the first section of CHANGELOG.md is not '## {found[1]} (unreleased)'")
    print(f"{named}: the changelog is open for {found[1]}")


def named_version() -> str | None:
    """Return the version that debias/_version.py has."""
    found = re.search(r'__version__ = "(.+)"', (ROOT / "debias" / "_version.py").read_text(encoding="utf-8"))
    return None if found is None else found[1]


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
    match sys.argv[1:]:
        case ["check", its_tag]:
            check(its_tag)
        case ["files", its_tag, its_folder]:
            files(its_tag, its_folder)
        case ["notes", its_tag]:
            notes(its_tag)
        case ["between"]:
            between()
        case _:
            sys.exit(__doc__)
