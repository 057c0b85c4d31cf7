"""The tests with the versions of Python and of the libraries that people have: ``nox -f .ci/noxfile.py -s SESSION``.

- ``newest-3.11`` to ``newest-3.14``: what pip gives today on that Python.
- ``floors``: the minimum version of every package that pyproject.toml names, together.
- ``released-...``: what pip gave in the years between.
- ``old-files``: model files that older libraries wrote, read by the newest ones.
- ``automl``: the tests of AutoGluon and PyCaret, which need older versions of pandas than the other tests.
- ``ngboost``: the tests of NGBoost, which needs pandas before 3.
- ``wheel``, ``sdist``: the wheel, and what pip builds of the source distribution, where there is no checkout: what a
  user does (as_a_user.py), and the tests of the core.
- ``reproducible``: two builds in two folders give the same files.
- ``versions``: write docs/versions.md from what the sessions above recorded.

Each session installs the wheel, as users do, and runs the default tests, those marked thorough of the rooms that depend
most on libraries, and those of further libraries. Arguments after ``--`` replace the tests: ``-s floors --
tests/adapters``; nothing is recorded then. ``-- ci`` stands for those that ``.ci/run`` runs of each session. ``-s sdist
-- FILE`` takes that file and builds none. A session whose Python is not installed is skipped.
"""

import os
import shutil
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path

import nox

ROOT = Path(__file__).parent.parent
BUILT = ROOT / "build" / "nox"
NOT_TOGETHER = {"autogluon", "ngboost", "spark", "all", "docs", "integration"}
"""Extras that need older versions or Java, and those that repeat others."""
EXTRAS = sorted(
    nox.project.load_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"].keys() - NOT_TOGETHER
)
FURTHER = (
    "tests/adapters/test_further_libraries.py",
    "tests/adapters/test_ydf.py",
    "tests/adapters/test_flaml.py",
    "tests/adapters/test_scikit_survival.py",
    "tests/plugins/integrations",
)
"""Tests marked integration that need no browser, cluster or built documentation."""
CORE = tuple(f"tests/{room}" for room in ("trees", "data", "rows", "significance", "results", "hooks", "cli"))
"""Tests of the core, which need nothing of a checkout but the tests themselves."""
ON_LIBRARIES = tuple(f"tests/{room}" for room in ("adapters", "cli", "data", "models"))
"""The rooms that depend most on libraries."""
CI = {
    "newest": (*(f"tests/{room}" for room in ("cli", "data", "hooks", "models")), "tests/monitor/test_history.py"),
    "floors": (
        *(room for room in ON_LIBRARIES if room != "tests/cli"),
        *(f"tests/cli/test_{what}.py" for what in ("cli", "doctor", "text_tables")),
    ),
    "wheel": ("-m", "quick", *CORE),
}
"""What ``.ci/run`` runs of a session; all tests have run on Python 3.11 with the newest versions before.

On a second Python, whose libraries are the same, what rests on Python itself: the shell, files of models and data,
plugins, the store of histories; on minimum versions, what reads models, data and tables of other libraries, and what
prints them; of the wheel, one test of each room, beside what a user does. Once a week the sessions run all of their
tests.
"""
WHOLE = ("-m", "not slow and not integration", *CORE)
"""All tests of the core but the slow ones."""
NEED_SOURCES = ("--ignore=tests/cli/test_wording.py",)
"""It reads the messages in the sources."""
RELEASED = {
    "2025-03": (
        "3.11",
        ("scikit-learn==1.6.*", "xgboost==3.0.*", "lightgbm==4.6.*", "pandas==2.2.*", "numpy==2.2.*", "scipy==1.15.*"),
    ),
    "2025-10": (
        "3.12",
        ("scikit-learn==1.7.*", "xgboost==3.1.*", "lightgbm==4.6.*", "pandas==2.3.*", "numpy==2.3.*", "scipy==1.16.*"),
    ),
    "2026-07": (
        "3.13",
        ("scikit-learn==1.8.*", "xgboost==3.3.*", "lightgbm==4.6.*", "pandas==3.0.*", "numpy==2.4.*", "scipy==1.17.*"),
    ),
}
"""Sessions between the floors and the newest: Python, and the versions that pip gave about that month."""
FLOORS_NEED = ("pyparsing<3.3",)
"""Newer versions of what the minimum versions depend on, which these do not work with: matplotlib 3.10."""
SEEDED = ["--seed"]
"""The environments get pip: a test installs a plugin with it."""

nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = []
if pyenv := shutil.which("pyenv"):  # its commands python3.12, python3.13, ... run once their versions are chosen
    installed = subprocess.run([pyenv, "versions", "--bare"], capture_output=True, text=True, check=True).stdout
    os.environ.setdefault("PYENV_VERSION", ":".join(reversed(installed.split())))


@nox.session(python=["3.11", "3.12", "3.13", "3.14"], venv_params=SEEDED)
def newest(session: nox.Session) -> None:
    """Run the tests with what pip gives today."""
    session.install(wheel(",".join(EXTRAS)))
    run_tests(session)


@nox.session(python="3.11", venv_params=SEEDED)
def floors(session: nox.Session) -> None:
    """Run the tests with the minimum version of every package."""
    folder = Path(session.create_tmp()).resolve()
    constraints, pins = folder / "constraints.txt", folder / "floors.txt"
    constraints.write_text("\n".join(FLOORS_NEED))
    compile_pins = ("uv", "pip", "compile", "--quiet", "--resolution=lowest-direct", f"--constraints={constraints}")
    extras = [f"--extra={extra}" for extra in EXTRAS]
    of_session = f"--python={session.virtualenv.location}"
    session.chdir(ROOT)
    session.run_install(*compile_pins, of_session, "pyproject.toml", *extras, f"--output-file={pins}", external=True)
    session.install("-r", str(pins))
    session.install("--no-deps", wheel())
    run_tests(session)


def released(name: str, python: str, pins: tuple[str, ...]) -> None:
    """Add the session of the versions of one month."""

    @nox.session(python=python, name=f"released-{name}", venv_params=SEEDED)
    def session_of_the_month(session: nox.Session) -> None:
        session.install(wheel(",".join(EXTRAS)), *pins)
        run_tests(session)


for month, versions_of_month in RELEASED.items():
    released(month, *versions_of_month)


@nox.session(name="old-files", python="3.11")
def old_files(session: nox.Session) -> None:
    """Read the model files that older libraries wrote."""
    session.install(wheel("test"))
    session.chdir(ROOT)
    session.run("python", "-m", "pytest", *map(str, sorted(ROOT.glob("tests/adapters/test_old_files_*.py"))), env=SAFE)


@nox.session(python="3.11")
def automl(session: nox.Session) -> None:
    """Run the tests of AutoGluon and of the pre-release of PyCaret 4."""
    session.install(wheel("test,catboost,flaml,autogluon"), "pycaret>=4.0.0a8")
    session.chdir(ROOT)
    tests = ("tests/adapters/test_autogluon.py", "tests/adapters/test_pycaret.py", "tests/adapters/test_support.py")
    session.run("python", "-m", "pytest", "-q", "-m", "integration or not integration", *tests, env=SAFE)


@nox.session(python="3.11")
def ngboost(session: nox.Session) -> None:
    """Run the tests of NGBoost."""
    session.install(wheel("test,ngboost"))
    session.chdir(ROOT)
    session.run("python", "-m", "pytest", "-q", "-m", "not slow", "tests/adapters/test_ngboost.py", env=SAFE)


@nox.session(name="wheel", python="3.11", venv_params=SEEDED)
def installed_wheel(session: nox.Session) -> None:
    """Use and test the wheel where there is no checkout."""
    use_apart(session, _built(), CI["wheel"] if session.posargs == ["ci"] else WHOLE)


@nox.session(python="3.11", venv_params=SEEDED)
def sdist(session: nox.Session) -> None:
    """Use and test what pip builds of the source distribution, or of the file after ``--``; there is no checkout."""
    if session.posargs:
        (made,) = (Path(session.invoked_from, each).resolve() for each in session.posargs)
    else:
        (made,) = built_files(session, ROOT, Path(session.create_tmp()).resolve() / "dist", "--sdist")
    use_apart(session, made)


@nox.session(python="3.11")
def reproducible(session: nox.Session) -> None:
    """Build everything twice, from clean copies of the last commit, and compare the files."""
    digests = []
    for name in ("one", "another"):
        copy = Path(session.create_tmp()).resolve() / name / "checkout"
        shutil.rmtree(copy.parent, ignore_errors=True)
        session.run_install("git", "clone", "--quiet", str(ROOT), str(copy), external=True)
        made = built_files(session, copy, copy.parent / "dist")
        digests.append({path.name: sha256(path.read_bytes()).hexdigest() for path in made})
    session.log(f"{digests[0]}")
    if digests[0] != digests[1]:
        session.error(f"a second build gave other files: {digests[1]}")


@nox.session(python="3.11")
def versions(session: nox.Session) -> None:
    """Write docs/versions.md from what the sessions recorded."""
    session.install("pytest", "packaging")
    session.chdir(ROOT)
    session.run("python", "-m", "support.versions_table", env=SAFE)


SAFE = {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(ROOT / "tests")}
"""Keeps the checkout off the path, so that the tests import the wheel, also those that run Python in another folder."""


@cache
def _built() -> Path:
    """Build the wheel, once for all sessions; CMake compiles only what changed."""
    shutil.rmtree(BUILT, ignore_errors=True)
    subprocess.run(["uv", "build", "--quiet", "--wheel", "--python=3.11", f"--out-dir={BUILT}"], check=True, cwd=ROOT)
    (built,) = BUILT.glob("*.whl")
    return built


def built_files(session: nox.Session, checkout: Path, folder: Path, *kinds: str) -> list[Path]:
    """Build the source distribution and the wheel, or one of them, and return the files."""
    date = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    shutil.rmtree(folder, ignore_errors=True)
    build = ("uv", "build", "--quiet", f"--out-dir={folder}", "--python=3.11", *kinds, str(checkout))
    session.run_install(*build, external=True, env={"SOURCE_DATE_EPOCH": date.stdout.strip()})
    return sorted(path for path in folder.iterdir() if path.name != ".gitignore")


def use_apart(session: nox.Session, built: Path, tests: tuple[str, ...] = WHOLE) -> None:
    """Install a wheel or a source distribution, and use and test it in a folder that has only the tests."""
    session.install(f"debias-trees[test] @ {built.as_uri()}")
    apart = Path(session.create_tmp()).resolve() / "apart"
    shutil.rmtree(apart, ignore_errors=True)
    for folder in ("tests", "docs"):  # tests read pages and schemas
        shutil.copytree(
            ROOT / folder, apart / folder, ignore=shutil.ignore_patterns("__pycache__", "gallery", "generated")
        )
    shutil.copyfile(ROOT / "pyproject.toml", apart / "pyproject.toml")  # the settings of pytest
    shutil.copyfile(ROOT / ".ci" / "as_a_user.py", apart / "as_a_user.py")
    session.chdir(apart)
    session.run("python", "as_a_user.py", "tests/plugin_dist", env={"PYTHONSAFEPATH": "1"})
    session.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", "debias-toy")
    safe = SAFE | {"PYTHONPATH": str(apart / "tests")}
    session.run("python", "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", *tests, *NEED_SOURCES, env=safe)


def wheel(extras: str = "") -> str:
    """Return a requirement: the wheel, with extras."""
    return f"debias-trees[{extras}] @ {_built().as_uri()}" if extras else str(_built())


def run_tests(session: nox.Session) -> None:
    """Run the tests in an environment, and record what ran with which versions."""
    session.chdir(ROOT)
    pytest = ("python", "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal")
    if session.posargs:
        of_ci = CI[session.name.partition("-")[0]] if session.posargs == ["ci"] else session.posargs
        session.run(*pytest, *of_ci, env=SAFE)
        return
    folder = Path(session.create_tmp()).resolve()
    # The ignored file tests the records, which this session is about to write.
    parts = {
        "default": ("--ignore=tests/test_versions.py",),
        "thorough": ("-m", "thorough and not integration and not slow", *ON_LIBRARIES),
        "further": ("-m", "integration and not slow", *FURTHER),
    }
    for part, arguments in parts.items():
        session.run(*pytest, *arguments, f"--junitxml={folder / part}.xml", env=SAFE, success_codes=[0, 1])
    junit = [str(folder / f"{part}.xml") for part in parts]
    session.run("python", "-m", "support.versions_table", session.name, *junit, env=SAFE)  # fails if a test did
