"""Tests of what a release runs: the checks of a tag and of files, the notes, and the versions of the site."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias.selection import DebiasedSelector
from debias_plugins.oob_forest.forests import OOBForestRegressor

CHECKOUT = Path(__file__).parents[1]
SITE = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["urls"]["Documentation"]
TAG = f"v{debias.__version__}"


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


def test_a_tag_that_all_files_name(release, capsys):
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


def test_files_of_a_release(release, tmp_path, capsys):
    names, _ = release
    dist = tmp_path / "dist"
    dist.mkdir()
    wheels = [f"debias_trees-0.2.0-cp311-abi3-{system}.whl" for system in
              ("manylinux_2_17_x86_64", "musllinux_1_2_x86_64", "macosx_11_0_arm64", "win_amd64")]  # fmt: skip
    for name in ("debias_trees-0.2.0.tar.gz", *wheels):
        (dist / name).touch()
    names["files"]("v0.2.0", str(dist))
    assert "debias_trees-0.2.0.tar.gz" in capsys.readouterr().out
    (dist / wheels[-1]).rename(dist / "debias_trees-0.2.0.1-cp311-abi3-win_amd64.whl")
    with pytest.raises(SystemExit, match="debias_trees-0.2.0.1-cp311-abi3-win_amd64.whl is not of version 0.2.0"):
        names["files"]("v0.2.0", str(dist))
    (dist / "debias_trees-0.2.0.1-cp311-abi3-win_amd64.whl").unlink()
    with pytest.raises(SystemExit, match="no wheel for win_amd64"):
        names["files"]("v0.2.0", str(dist))


def test_this_version_is_ready_for_its_tag_unless_the_changelog_is_open(capsys):
    names = runpy.run_path(str(CHECKOUT / ".ci" / "release.py"))
    is_open = f"## {debias.__version__} (unreleased)" in (CHECKOUT / "CHANGELOG.md").read_text()
    if is_open:
        with pytest.raises(SystemExit, match="CHANGELOG.md has no heading"):
            names["check"](TAG)
        return
    names["check"](TAG)
    names["notes"](TAG)
    assert "### Added" in capsys.readouterr().out


def test_the_site_lists_its_versions(tmp_path):
    publish = runpy.run_path(str(CHECKOUT / ".ci" / "site_versions.py"))["publish"]
    site, pages = tmp_path / "site", tmp_path / "pages"
    for folder in (site, pages):
        folder.mkdir()
    (site / "index.html").write_text("first")
    publish(site, "dev", pages)
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
    (tmp_path / "origin.git").rename(tmp_path / "away.git")
    assert publish("dev").returncode == 128


def test_estimators_link_to_their_pages():
    for estimator, page in (
        (DebiasedSelector(RandomForestRegressor()), "selector.html"),
        (OOBForestRegressor(), "generated/debias_plugins.oob_forest.forests.OOBForestRegressor.html"),
    ):
        address = f"{SITE}/{debias.__version__}/{page}"
        assert estimator._get_doc_link() == address
        assert address in estimator._repr_html_()
