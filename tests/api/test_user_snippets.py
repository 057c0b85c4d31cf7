"""Snippets of users run, and type checkers find nothing wrong in them; in wrong ones they find what is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest

from support import user_snippets

CHECKOUT = Path(__file__).parents[2]
WRONG = {
    "debias.audit(None, [[1.0]], [1.0], random_state='0')": "[arg-type]",
    "debias.audit(None, [[1.0]], [1.0], rows='test')": "[arg-type]",
    "debias.audit(None, [[1.0]], [1.0], seed=0)": "[call-arg]",
    "debias.audit(None, [[1.0]], [1.0]).to_pandas()": "[attr-defined]",
    "debias.audits": "[attr-defined]",
    "number: int = debias.score(None, [[1.0]], [1.0])": "[assignment]",
}


@pytest.mark.parametrize("snippet", user_snippets.SNIPPETS, ids=lambda snippet: snippet.__name__)
@pytest.mark.filterwarnings("ignore::debias.errors.DebiasWarning")  # of rows of small examples
def test_the_snippet_runs(snippet, tmp_path, monkeypatch):
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    snippet()


def test_there_are_twenty():
    assert len(user_snippets.SNIPPETS) == 20


def checked(path):
    run = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        CHECKOUT / "pyproject.toml",
        "--follow-imports",
        "silent",
        path,
    ]
    return subprocess.run(run, cwd=CHECKOUT, capture_output=True, text=True, check=False)


@pytest.mark.integration
def test_pyright_agrees_with_the_snippets(tmp_path):
    config = {"include": [user_snippets.__file__], "typeCheckingMode": "standard", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    run = [sys.executable, "-m", "basedpyright", "--project", tmp_path, "--pythonpath", sys.executable]
    done = subprocess.run(run, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 errors" in done.stdout
