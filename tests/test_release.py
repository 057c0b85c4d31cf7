"""Tests of what a release runs: checks of a tag and of files, the notes, the workflows, the versions of the site."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from hashlib import sha256
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.selection import DebiasedSelector
from debias_plugins import estimators
from debias_plugins.estimators import page
from debias_plugins.oob_forest.forests import OOBForestRegressor

CHECKOUT = Path(__file__).parents[1]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
SITE = PROJECT["project"]["urls"]["Documentation"]
SOURCE = PROJECT["project"]["urls"]["Source"]
TAG = f"v{debias.__version__}"
WORKFLOWS = CHECKOUT / ".github" / "workflows"
in_a_checkout = pytest.mark.skipif(
    not WORKFLOWS.exists(), reason="the workflows are in a checkout, not in the source distribution"
)


@pytest.fixture
def release(tmp_path):
    """Return the functions of .ci/release.py, and the folder that they take for the checkout."""
    names = runpy.run_path(str(CHECKOUT / ".ci" / "release.py"))
    (tmp_path / "debias").mkdir()
    (tmp_path / "debias" / "_version.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("title: x\nversion: 0.2.0\ndate-released: 2027-01-02\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cite.md").write_text("  version = {0.2.0},\n  year    = {2027},\n")
    changelog = "# Changelog\n\n## 0.2.0 (2027-01-02)\n\nAdded\n\n## 0.1.0 (2026-11-23)\n\nFirst\n"
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    names["check"].__globals__["ROOT"] = tmp_path
    return names, tmp_path


def test_a_tag_that_all_files_name_passes(release, capsys):
    names, _ = release
    names["check"]("v0.2.0")
    assert "version and date agree" in capsys.readouterr().out
    names["notes"]("v0.2.0")
    assert capsys.readouterr().out == "Added\n"
    names["notes"]("v0.1.0")
    assert capsys.readouterr().out == "First\n"


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("debias/_version.py", "0.2.0", "0.2.1", "_version.py has 0.2.1"),
        ("CITATION.cff", "version: 0.2.0", "version: 0.1.0", "CITATION.cff has 0.1.0"),
        ("CITATION.cff", "2027-01-02", "2027-01-01", "the date 2027-01-01, and CHANGELOG.md 2027-01-02"),
        ("docs/cite.md", "{0.2.0}", "{0.1.0}", "docs/cite.md has another version"),
        ("docs/cite.md", "{2027}", "{2026}", "docs/cite.md has another year"),
        ("CHANGELOG.md", "(2027-01-02)", "(unreleased)", "no heading '## 0.2.0"),
    ],
)
def test_a_tag_that_a_file_does_not_name(release, file, old, new, message):
    names, home = release
    text = (home / file).read_text()
    assert old in text
    (home / file).write_text(text.replace(old, new))
    with pytest.raises(SystemExit, match=re.escape(message)):
        names["check"]("v0.2.0")


def test_a_name_that_is_no_tag(release):
    for tag in ("0.2.0", "v0.2", "v0.2.0-final"):
        with pytest.raises(SystemExit, match="is not a tag of a release"):
            release[0]["check"](tag)


PLATFORMS = {
    "ubuntu-24.04": ("manylinux2014_x86_64.manylinux_2_17_x86_64", "musllinux_1_2_x86_64"),
    "ubuntu-24.04-arm": ("manylinux2014_aarch64.manylinux_2_17_aarch64", "musllinux_1_2_aarch64"),
    "macos-15": ("macosx_11_0_arm64",),
    "macos-15-intel": ("macosx_10_9_x86_64",),
    "windows-2025": ("win_amd64",),
}
"""What cibuildwheel builds on each machine of wheels.yml."""
FILES = [
    "debias_trees-0.2.0.tar.gz",
    *(f"debias_trees-0.2.0-cp311-abi3-{platform}.whl" for platforms in PLATFORMS.values() for platform in platforms),
]


@pytest.fixture
def dist(tmp_path):
    """Return a folder with the files of version 0.2.0."""
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in FILES:
        (folder / name).touch()
    return folder


def test_files_of_a_release_are_listed_with_digests(release, dist, capsys):
    release[0]["files"]("v0.2.0", str(dist))
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in printed] == sorted(FILES)
    assert all(re.match(r"[0-9a-f]{64} ", line) for line in printed)


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_a_release_is_needed(release, dist, name):
    (dist / name).unlink()
    with pytest.raises(SystemExit, match=r"dist: [^;]+: 0 files instead of 1$"):
        release[0]["files"]("v0.2.0", str(dist))


@pytest.mark.parametrize(
    "name",
    [
        "debias_trees-0.2.0.1-cp311-abi3-win_amd64.whl",
        "debias_trees-0.2.0-cp312-cp312-win_amd64.whl",
        "debias_trees-0.2.0-cp311-abi3-linux_x86_64.whl",
        "debias_trees-0.1.0.tar.gz",
        "notes.md",
    ],
)
def test_other_files_are_not_released(release, dist, name):
    (dist / name).touch()
    with pytest.raises(SystemExit, match=re.escape(f"{name} is no file of version 0.2.0")):
        release[0]["files"]("v0.2.0", str(dist))


def test_two_wheels_for_one_system_are_not_released(release, dist):
    (dist / "debias_trees-0.2.0-cp311-abi3-manylinux_2_28_x86_64.whl").touch()
    with pytest.raises(SystemExit, match="a wheel for manylinux, x86-64: 2 files"):
        release[0]["files"]("v0.2.0", str(dist))


def test_the_parts_of_a_release_are_its_files_and_what_they_require(release, dist, capsys):
    shutil.copyfile(CHECKOUT / "pyproject.toml", release[1] / "pyproject.toml")
    release[0]["sbom"]("v0.2.0", str(dist))
    parts = json.loads(capsys.readouterr().out)
    assert (parts["bomFormat"], parts["specVersion"]) == ("CycloneDX", "1.6")
    files = {each["name"]: each["hashes"][0]["content"] for each in parts["components"] if each["type"] == "file"}
    assert files == dict.fromkeys(sorted(FILES), sha256(b"").hexdigest())
    (needs,) = parts["dependencies"]
    assert needs["ref"] == parts["metadata"]["component"]["bom-ref"] == "pkg:pypi/debias-trees@0.2.0"
    required = {Requirement(each).name for each in PROJECT["project"]["dependencies"]}
    assert {each.removeprefix("pkg:pypi/") for each in needs["dependsOn"]} == required


@in_a_checkout
def test_every_action_is_pinned_to_a_commit_and_files_are_attested():
    names = runpy.run_path(str(CHECKOUT / ".ci" / "release.py"))
    assert names["unpinned"]() == []
    assert names["attests"]()


@pytest.fixture
def workflows(release):
    """Return the functions of .ci/release.py, and a folder of workflows and of a page that are not ready."""
    names, root = release
    folder = root / ".github" / "workflows"
    folder.mkdir(parents=True)
    pinned = f"uses: a/b@{'1' * 40} # v1\nuses: ./.github/workflows/tests.yml\n"
    (folder / "tests.yml").write_text(pinned + "uses: c/d@v4\n")
    (folder / "release.yml").write_text(pinned)
    (root / "docs" / "versions.md").write_text("| onnx | added since |\n")
    shutil.copyfile(CHECKOUT / "pyproject.toml", root / "pyproject.toml")
    return names, root


def test_the_checklist_names_what_is_missing(workflows, monkeypatch, capsys):
    names, root = workflows
    monkeypatch.setitem(names["checklist"].__globals__, "unanswered", lambda address: [address])
    monkeypatch.setitem(names["checklist"].__globals__, "taken", lambda name: [])
    with pytest.raises(SystemExit, match="1"):
        names["checklist"]()
    printed = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0].strip() for line in printed] == [*["missing"] * 4, "ready", "by hand"]
    assert printed[0].endswith("pinned to a commit: tests.yml: c/d@v4")
    assert printed[3].endswith(f"the repository answers: {SOURCE}")
    (root / ".github" / "workflows" / "tests.yml").unlink()
    attesting = "attestations: write\nuses: actions/attest-build-provenance@" + "2" * 40
    (root / ".github" / "workflows" / "release.yml").write_text(attesting)
    (root / "docs" / "versions.md").write_text("| onnx | 1.18 |\n")
    monkeypatch.setitem(names["checklist"].__globals__, "unanswered", lambda address: [])
    names["checklist"]()
    assert "missing" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "out", "err", "found"),
    [
        (0, "debias-trees (0.1.0)\nAvailable versions: 0.1.0", "", ["there is debias-trees (0.1.0): is it ours?"]),
        (1, "", "ERROR: No matching distribution found for debias-trees", []),
        (1, "", "ERROR: something else", ["pip got no answer"]),
    ],
)
def test_a_name_is_free_if_pip_finds_nothing_of_it(workflows, monkeypatch, code, out, err, found):
    done = subprocess.CompletedProcess([], code, out, err)
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: done)
    assert workflows[0]["taken"]("debias-trees") == found


def test_a_repository_that_is_not_there_does_not_answer(workflows, tmp_path):
    names, _ = workflows
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "there")], check=True)
    assert names["unanswered"](str(tmp_path / "there")) == []
    assert names["unanswered"](str(tmp_path / "absent")) == [str(tmp_path / "absent")]


def test_notes_have_the_addresses_of_their_links(release, capsys):
    names, home = release
    changelog = (home / "CHANGELOG.md").read_text().replace("Added", "Added, see [docs/a.md]")
    links = "[docs/a.md]: https://example.org/a\n[docs/b.md]: https://example.org/b\n"
    (home / "CHANGELOG.md").write_text(changelog + "\n" + links)
    names["notes"]("v0.2.0")
    assert capsys.readouterr().out == "Added, see [docs/a.md]\n\n[docs/a.md]: https://example.org/a\n"
    names["notes"]("v0.1.0")
    assert capsys.readouterr().out == "First\n"


def test_notes_of_a_release_are_not_those_of_its_candidate(release, capsys):
    names, home = release
    (home / "CHANGELOG.md").write_text("## 0.2.0rc1 (2027-01-01)\n\nCandidate\n\n## 0.2.0 (2027-01-02)\n\nFinal\n")
    names["notes"]("v0.2.0")
    assert capsys.readouterr().out == "Final\n"


def open_next(home, version, heading):
    """Change the folder of a release to what main has after it."""
    (home / "debias" / "_version.py").write_text(f'__version__ = "{version}"\n')
    changelog = (home / "CHANGELOG.md").read_text().replace("# Changelog\n", f"# Changelog\n\n## {heading}\n", 1)
    (home / "CHANGELOG.md").write_text(changelog)


@pytest.mark.parametrize("version", ["0.3.0.dev0", "0.3.0rc2.dev0"])
def test_between_releases_version_and_changelog_agree(release, capsys, version):
    names, home = release
    open_next(home, version, "0.3.0 (unreleased)")
    names["between"]()
    assert capsys.readouterr().out == f"{version}: the changelog is open for 0.3.0\n"
    with pytest.raises(SystemExit, match="is not a tag of a release"):
        names["check"](f"v{version}")
    with pytest.raises(SystemExit, match=re.escape(f"_version.py has {version}")):
        names["check"]("v0.3.0")


@pytest.mark.parametrize(
    ("version", "heading", "message"),
    [
        ("0.2.0", "0.3.0 (unreleased)", "has 0.2.0: between releases it ends with .dev0"),
        ("0.3.0.dev0", "0.2.1 (unreleased)", "is not '## 0.3.0 (unreleased)'"),
        ("0.3.0.dev0", "0.3.0 (2027-03-01)", "is not '## 0.3.0 (unreleased)'"),
    ],
)
def test_between_releases_something_is_forgotten(release, version, heading, message):
    names, home = release
    open_next(home, version, heading)
    with pytest.raises(SystemExit, match=re.escape(message)):
        names["between"]()


def test_this_version_is_ready_for_its_tag_or_the_changelog_is_open(capsys):
    names = runpy.run_path(str(CHECKOUT / ".ci" / "release.py"))
    if "dev" in debias.__version__:
        names["between"]()
        return
    if f"## {debias.__version__} (unreleased)" in (CHECKOUT / "CHANGELOG.md").read_text():
        with pytest.raises(SystemExit, match="CHANGELOG.md has no heading"):
            names["check"](TAG)
        return
    names["check"](TAG)
    names["notes"](TAG)
    assert "### Added" in capsys.readouterr().out


def test_addresses_are_those_of_the_project():
    """The links of README on PyPI and of the changelog name them again."""
    readme = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    raw = SOURCE.replace("https://github.com/", "https://raw.githubusercontent.com/")
    assert [raw in readme[0]["replacement"], SOURCE in readme[1]["replacement"], len(readme)] == [True, True, 2]
    changelog = (CHECKOUT / "CHANGELOG.md").read_text()
    links = dict(re.findall(r"^\[([^\]\n]+)\]: (\S+)$", changelog, flags=re.M))
    for path, address in links.items():
        assert address in (f"{SOURCE}/blob/main/{path}", f"{SOURCE}/tree/main/{path}")
        assert (CHECKOUT / path).exists(), path
    text = changelog.split("\n[docs/", 1)[0]
    assert set(re.findall(r"\[(docs/[^\]]+)\]", text)) == links.keys()
    assert re.findall(r"(?<!\[)\bdocs/[\w/-]+", text) == []  # a path without a link


def workflow(name):
    """Return a workflow."""
    return pytest.importorskip("yaml").safe_load((WORKFLOWS / f"{name}.yml").read_text())


def jobs():
    """Return (workflow, name, job) of all jobs."""
    if not WORKFLOWS.exists():
        return []
    names = sorted(path.stem for path in WORKFLOWS.glob("*.yml"))
    return [(name, job, each) for name in names for job, each in workflow(name)["jobs"].items()]


@pytest.mark.parametrize(("name", "job", "each"), jobs(), ids=lambda part: part if isinstance(part, str) else "")
def test_jobs_of_workflows_are_limited(name, job, each):
    """They end; those that may write install nothing, and only those that push keep a token in the checkout."""
    if "uses" in each:  # the jobs of another workflow
        return
    assert each["timeout-minutes"] <= 120
    may_write = each.get("permissions", workflow(name)["permissions"]) != {"contents": "read"}
    commands = " ".join(step.get("run", "") for step in each["steps"])
    assert not may_write or "install" not in commands
    for step in each["steps"]:
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"]["persist-credentials"] == (may_write and "publish-site" in commands)


@in_a_checkout
def test_a_release_needs_everything_before_it_is_published():
    release = workflow("release")["jobs"]

    def needed(name):
        needs = release[name].get("needs", [])
        direct = [needs] if isinstance(needs, str) else needs
        return set(direct).union(*map(needed, direct))

    assert needed("pypi") == {"check", "tests", "build", "site", "files", "metadata", "attest"}
    assert "pypi" in needed("github") & needed("publish-site")
    for job in ("tests", "build"):
        called = Path(release[job]["uses"]).stem
        triggers = workflow(called)[True]  # YAML reads the key "on" as true
        assert "workflow_call" in triggers


@in_a_checkout
def test_wheels_are_built_on_the_machines_that_a_release_needs():
    assert workflow("wheels")["jobs"]["wheels"]["strategy"]["matrix"]["runner"] == list(PLATFORMS)
    assert PROJECT["tool"]["cibuildwheel"]["linux"]["environment-pass"] == ["SOURCE_DATE_EPOCH"]


@pytest.mark.parametrize(
    ("folder", "version", "shown"),
    [
        (None, "0.1.0", "dev"),
        ("dev", "0.1.0", "dev"),
        ("dev", "0.2.0.dev0", "0.2.0.dev0"),
        ("v0.1.0", "0.1.0", "0.1.0"),
        ("v0.2.0rc1", "0.2.0rc1", "0.2.0rc1"),
    ],
)
def test_pages_of_dev_name_no_release(monkeypatch, folder, version, shown):
    """The theme shows its banner only on pages of another version than the newest release."""
    monkeypatch.delenv("DEBIAS_SITE_VERSION", raising=False)
    if folder is not None:
        monkeypatch.setenv("DEBIAS_SITE_VERSION", folder)
    monkeypatch.setattr(debias, "__version__", version)
    names = runpy.run_path(str(CHECKOUT / "docs" / "conf.py"))
    assert names["release"] == shown
    assert names["html_theme_options"]["switcher"]["version_match"] == (folder or "dev").removeprefix("v")


def test_pages_that_begin_with_a_table_are_described_by_what_they_estimate():
    pytest.importorskip("sphinxext.opengraph")
    from docutils.core import publish_doctree

    described = runpy.run_path(str(CHECKOUT / "docs" / "conf.py"))["description_of"]
    heading = "Title\n=====\n\n.. list-table::\n\n   * - property\n     - of this score\n"
    one = f"{heading}   * - Estimates\n     - how *much*\n"
    assert described(publish_doctree(one)) == "Estimates how much."
    two = one.replace("     - of this score\n", "     - a\n     - b\n").replace(
        "     - how *much*\n", "     - x\n     - y\n"
    )
    assert described(publish_doctree(two)) == "a: x; b: y."
    assert described(publish_doctree("Title\n=====\n\nWords.\n")) is None
    assert described(publish_doctree(one.replace("Estimates", "Name"))) is None


def test_the_site_lists_its_versions(tmp_path):
    publish = runpy.run_path(str(CHECKOUT / ".ci" / "site_versions.py"))["publish"]
    site, pages = tmp_path / "site", tmp_path / "pages"
    for folder in (site, pages):
        folder.mkdir()
    (site / "index.html").write_text("first")
    (site / ".doctrees").mkdir()
    (site / ".doctrees" / "index.doctree").touch()
    publish(site, "dev", pages)
    assert sorted(path.name for path in pages.rglob(".*")) == [".nojekyll"]
    assert "url=dev/" in (pages / "index.html").read_text()
    for version in ("v0.9.0", "v0.10.0", "v0.10.0rc1", "v0.11.0rc1"):
        publish(site, version, pages)
    (site / "index.html").write_text("second")
    publish(site, "v0.9.0", pages)
    entries = json.loads((pages / "switcher.json").read_text())
    assert [entry["version"] for entry in entries] == ["dev", "0.11.0rc1", "0.10.0", "0.10.0rc1", "0.9.0"]
    assert [entry["name"] for entry in entries if "stable" in entry["name"]] == ["0.10.0 (stable)"]
    assert [entry["version"] for entry in entries if entry["preferred"]] == ["0.10.0"]  # the theme wants exactly one
    assert entries[2]["url"] == f"{SITE}/0.10.0/"
    assert "url=0.10.0/" in (pages / "index.html").read_text()
    assert f'href="{SITE}/0.10.0/search.html"' in (pages / "404.html").read_text()
    assert (pages / "0.9.0" / "index.html").read_text() == "second"
    with pytest.raises(SystemExit, match="neither dev nor a version"):
        publish(site, "main", pages)
    (site / "index.html").unlink()
    with pytest.raises(SystemExit, match="is not a built site"):
        publish(site, "dev", pages)


def test_a_candidate_may_be_the_first_version_of_the_site(tmp_path):
    publish = runpy.run_path(str(CHECKOUT / ".ci" / "site_versions.py"))["publish"]
    site, pages = tmp_path / "site", tmp_path / "pages"
    for folder in (site, pages):
        folder.mkdir()
    (site / "index.html").touch()
    publish(site, "v0.1.0rc1", pages)
    assert "url=0.1.0rc1/" in (pages / "index.html").read_text()
    (entry,) = json.loads((pages / "switcher.json").read_text())
    assert (entry["name"], entry["preferred"]) == ("0.1.0rc1", True)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="a script for bash, which runs on Linux only")
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_site_is_published_and_the_checkout_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # has a python3 with tomllib
    checkout, site, temporary = tmp_path / "checkout", tmp_path / "site", tmp_path / "temporary"
    for folder in (checkout / ".ci", site, temporary):
        folder.mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(temporary))
    for name in (".ci/publish-site", ".ci/site_versions.py", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, checkout / name)

    def git(*words, cwd=checkout):
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *author, *words], cwd=cwd, check=True, capture_output=True, text=True).stdout

    def publish(version):
        words = [str(checkout / ".ci" / "publish-site"), str(site), version]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)

    def state():
        return [git(*words) for words in (("status", "--short"), ("branch",), ("worktree", "list"))]

    git("init", "--quiet", "--bare", "origin.git", cwd=tmp_path)
    git("init", "--quiet")
    git("remote", "add", "origin", "../origin.git")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    (checkout / "pyproject.toml").write_text((checkout / "pyproject.toml").read_text() + "# changed\n")
    (checkout / ".git" / "info" / "exclude").write_text("*.orig\n")
    (site / "index.html").write_text("first")
    (site / "page.orig").touch()
    before = state()
    for version, exit_code in (("dev", 0), ("main", 1), ("v0.1.0", 0), ("v0.1.0", 0)):
        done = publish(version)
        assert done.returncode == exit_code, done.stderr
        assert state() == before
        assert not list(temporary.iterdir())
    published = git("ls-tree", "-r", "--name-only", "gh-pages", cwd=tmp_path / "origin.git").split()
    root = [".nojekyll", "404.html", "index.html", "switcher.json"]
    pages = [f"{version}/{page}" for version in ("0.1.0", "dev") for page in ("index.html", "page.orig")]
    assert sorted(published) == sorted(root + pages)
    log = git("log", "--format=%s", "gh-pages", cwd=tmp_path / "origin.git").splitlines()
    assert log == ["Site of v0.1.0", "Site of v0.1.0", "Site of dev"]
    assert git("rev-parse", "--is-shallow-repository").strip() == "false"

    # Another site is published meanwhile: the first push of this one is refused, and the second one keeps both.
    other = f"git --git-dir='{tmp_path}/origin.git'"
    tree = f"$({other} rev-parse gh-pages^{{tree}})"
    author = "-c user.name=a -c user.email=a@example.org"
    commit = f"{other} {author} commit-tree {tree} -p gh-pages -m 'Site of another'"
    (checkout / ".git" / "hooks" / "pre-push").write_text(
        f"#!/bin/sh\n[ ! -e once ] && touch once && {other} update-ref refs/heads/gh-pages $({commit})\nexit 0\n"
    )
    (checkout / ".git" / "hooks" / "pre-push").chmod(0o755)
    done = publish("dev")
    assert done.returncode == 0, done.stderr
    assert "gh-pages has changed" in done.stdout
    log = git("log", "--format=%s", "gh-pages", cwd=tmp_path / "origin.git").splitlines()
    assert log[:2] == ["Site of dev", "Site of another"]
    assert not list(temporary.iterdir())

    # A push that is refused for another reason is not repeated.
    (checkout / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\nexit 1\n")
    done = publish("dev")
    assert (done.returncode, done.stdout) == (1, "")
    (tmp_path / "origin.git").rename(tmp_path / "away.git")
    assert publish("dev").returncode == 128


def test_estimators_link_to_their_pages():
    for estimator, name in (
        (DebiasedSelector(RandomForestRegressor()), "selector.html"),
        (OOBForestRegressor(), "generated/debias_plugins.oob_forest.forests.OOBForestRegressor.html"),
    ):
        address = page(name)
        assert address.startswith(f"{SITE}/")
        assert estimator._get_doc_link() == address
        assert address in estimator._repr_html_()


def test_without_metadata_there_is_no_link(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(estimators, "metadata", missing)
    assert page("selector.html") == ""


@pytest.mark.parametrize(("version", "folder"), [("0.1.0", "0.1.0"), ("0.2.0rc1", "0.2.0rc1"), ("0.2.0.dev0", "dev")])
def test_links_lead_to_a_folder_of_the_site(version, folder, monkeypatch):
    monkeypatch.setattr(debias, "__version__", version)
    assert page("selector.html") == f"{SITE}/{folder}/selector.html"
