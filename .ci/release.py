"""Checks and notes of a release: ``python .ci/release.py check|notes v0.1.0``, ``files|sbom v0.1.0 dist``, and others.

- ``check``: the checklist of docs/releasing.md, as far as a command can tell: what is ready, and what is missing.
- ``check v0.1.0``: the tag, ``debias/_version.py``, CITATION.cff, docs/cite.md and CHANGELOG.md agree.
- ``files``: a folder has the source distribution and a wheel for each system, all of this version, and nothing else.
- ``sbom``: print the parts and the requirements of these files as CycloneDX, for the page of the release.
- ``notes``: print the section of CHANGELOG.md, for the page of the release.
- ``between``: on main, after a release: the version ends with .dev0, and CHANGELOG.md has an open section for it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

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


def checklist() -> None:
    """Print what a release needs, a line each, and exit with 1 if something is missing. It looks up two addresses."""
    asked = {
        "every action of the workflows is pinned to a commit": unpinned(),
        "the workflow of the release attests its files": [] if attests() else ["release.yml attests nothing"],
        "all sessions of the versions ran": [] if "added since" not in page("versions") else ["docs/versions.md"],
        "the repository answers": unanswered(source()),
        "nobody else has the name on PyPI": taken(project()["name"]),
    }
    for what, wrong in asked.items():
        print(f"{'missing' if wrong else 'ready  '}  {what}{': ' + '; '.join(wrong) if wrong else ''}")
    print("by hand  the settings of the table 'Once' in docs/releasing.md")
    if any(asked.values()):
        sys.exit(1)


def unpinned() -> list[str]:
    """Return the actions of the workflows that are named by a tag or a branch, which may move."""
    paths = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    used = [(path, name) for path in paths for name in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))]
    return [
        f"{path.name}: {name}"
        for path, name in used
        if not name.startswith("./") and not re.fullmatch(r"[^@]+@[0-9a-f]{40}", name)
    ]


def attests() -> bool:
    """Whether the workflow of the release signs where its files come from."""
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    return "actions/attest-build-provenance@" in text and "attestations: write" in text


def unanswered(address: str) -> list[str]:
    """Return the address of a repository if git does not reach it."""
    asked = ["git", "-c", "credential.helper=", "ls-remote", "--quiet", address, "HEAD"]
    silent = {"GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(asked, capture_output=True, env=os.environ | silent, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return [address]
    return [] if done.returncode == 0 else [address]


def taken(name: str) -> list[str]:
    """Return the versions that pip finds of a name on the index, as they are there before the first release."""
    asked = [sys.executable, "-m", "pip", "index", "versions", name]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return [f"there is {done.stdout.splitlines()[0]}: is it ours?"]
    return [] if "No matching distribution" in done.stderr else ["pip got no answer"]


def sbom(tag: str, folder: str) -> None:
    """Print the files of a release and what they require as CycloneDX 1.6. The same files give the same text."""
    version, asked = version_of(tag), project()
    name = asked["name"]
    component = {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
    required = [re.match(r"[\w.-]+", each) for each in asked["dependencies"]]
    components = [
        {"type": "library", "name": found[0], "purl": f"pkg:pypi/{found[0].lower()}", "description": each}
        for found, each in zip(required, asked["dependencies"], strict=True)
        if found is not None
    ]
    made = [
        {
            "type": "file",
            "name": path.name,
            "hashes": [{"alg": "SHA-256", "content": sha256(path.read_bytes()).hexdigest()}],
        }
        for path in sorted(Path(folder).iterdir())
    ]
    licence = {"licenses": [{"license": {"id": asked["license"]}}]}
    text = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component | {"bom-ref": component["purl"]} | licence},
        "components": [*made, *({"bom-ref": each["purl"]} | each for each in components)],
        "dependencies": [{"ref": component["purl"], "dependsOn": [each["purl"] for each in components]}],
    }
    print(json.dumps(text, indent=1))


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


def project() -> dict[str, Any]:
    """Return the table of the project in pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def source() -> str:
    """Return the address of the repository."""
    return project()["urls"]["Source"]


def page(name: str) -> str:
    """Return the text of a page of the manual."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


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
        case ["check"]:
            checklist()
        case ["sbom", its_tag, its_folder]:
            sbom(its_tag, its_folder)
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
