"""A file is written whole or not at all, and nothing remains of what failed."""

import errno
import os
import re
import sqlite3
import stat
import subprocess
import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import debias
from debias import atomic_files
from debias.cli import output
from support.audits import made


def saved_sums(path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    sums = debias.NodeSums(RandomForestRegressor(3, random_state=0).fit(X[:30], X[:30, 0]))
    sums.update(X[30:], X[30:, 0])
    sums.save(path)


WAYS = {
    "audit json": lambda path: made(["a", "b"]).to_json(path),
    "audit html": lambda path: made(["a", "b"]).to_html(path),
    "audit csv": lambda path: made(["a", "b"]).to_csv(path),
    "scores csv": lambda path: made(["a", "b"]).tested_scores.to_csv(path),
    "node sums": saved_sums,
    "a file of the command": lambda path: output.write(path, "text"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(way, tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left") as caught:
            WAYS[way](path)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
    WAYS[way](path)
    assert path.read_bytes() not in (b"old", b"")
    assert os.listdir(tmp_path) == ["file"]


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
from debias.atomic_files import append_text, write_text
for write in (write_text, append_text):
    try:
        write(sys.argv[1], "new " * 1000)
    except OSError as error:
        print(type(error).__name__, error.errno)
"""


def test_a_file_that_grows_too_large_leaves_the_old_one(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["OSError", str(errno.EFBIG)] * 2
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_interrupt_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted():
        with atomic_files.replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_is_followed_and_the_mode_of_the_file_is_kept(tmp_path):
    (tmp_path / "folder").mkdir()
    path, link = tmp_path / "folder" / "file", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    atomic_files.write_text(link, "new\n")
    assert link.is_symlink()
    assert path.read_bytes() == b"new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    atomic_files.write_text(tmp_path / "fresh", "new")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o666 & ~umask


def test_what_is_no_plain_file_is_written_to(tmp_path):
    atomic_files.write_text(os.devnull, "nothing")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    read, write = os.pipe()
    atomic_files.write_text(f"/dev/fd/{write}", "through a pipe")
    os.close(write)
    assert os.read(read, 100) == b"through a pipe"
    os.close(read)


def test_a_folder_that_does_not_exist_is_named_and_not_a_file_beside(tmp_path):
    path = tmp_path / "none" / "file"
    what_to_do = f"the folder {re.escape(str(path.parent))} does not exist: make it, or choose another path"
    for write in (atomic_files.write_text, atomic_files.append_text, lambda path, _: made(["a", "b"]).to_json(path)):
        with pytest.raises(FileNotFoundError, match=what_to_do) as caught:
            write(path, "text")
        assert caught.value.filename == str(path)
    with pytest.raises(FileNotFoundError, match=what_to_do):
        debias.History.fleet("a.history", html=path)


def test_text_is_added_at_the_end(tmp_path):
    path = tmp_path / "file"
    atomic_files.append_text(path, "one\n")
    atomic_files.append_text(path, "two \udc80\n")
    assert path.read_bytes() == b"one\ntwo \\udc80\n"


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are of Linux")
def test_nothing_remains_of_a_process_that_is_killed(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = (
        "import os, signal, sys\nfrom debias.atomic_files import replacing\n"
        "with replacing(sys.argv[1]) as file:\n    file.write(b'half')\n    file.flush()\n"
        "    os.kill(os.getpid(), signal.{})"
    )
    for number in ("SIGTERM", "SIGKILL"):
        done = subprocess.run([sys.executable, "-c", code.format(number), str(path)])
        assert done.returncode < 0
        assert os.listdir(tmp_path) == ["file"]
        assert path.read_bytes() == b"old"


@pytest.mark.parametrize("named", [False, True])
def test_the_new_file_never_has_more_rights_than_the_old_one(tmp_path, monkeypatch, named):
    if named:
        monkeypatch.setattr(atomic_files, "_without_name", lambda folder: None)
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with atomic_files.replacing(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        assert len(os.listdir(tmp_path)) == (2 if named else 1) or not hasattr(os, "O_TMPFILE")
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no disk that is always full")
    (tmp_path / "link").symlink_to("/dev/full")
    for write in (atomic_files.write_text, atomic_files.append_text):
        with pytest.raises(OSError, match="No space left") as caught:
            write(tmp_path / "link", "text")
        assert caught.value.filename == str(tmp_path / "link")


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_a_history_is_not_replaced_by_a_report(way, tmp_path):
    path = tmp_path / "sales.history"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE series (id INTEGER)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="a database, such as a history of debias, and is not replaced"):
        WAYS[way](path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
