import gc
import os
from hashlib import sha256
from pathlib import Path

# Small models train faster on one thread, and threads of several workers fight for the cores: so do those of linear
# algebra. Before libgomp is loaded, and before the workers are started, whose NumPy comes with OpenBLAS.
os.environ.setdefault("OMP_THREAD_LIMIT", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from xgboost import XGBClassifier, XGBRegressor

from debias import _cython_shared
from support.spark import sessions

CHECKOUT = Path(__file__).parent.parent
ROOMS = ("debias", "adapters/debias_adapters", "plugins/debias_plugins", "plugins/debias_bench")
settings.register_profile("repeatable", derandomize=True, deadline=None)  # the same examples in each run, never timed
settings.load_profile("repeatable")
collect_ignore = ["plugin_dist/tests"]  # a plugin's own, run where it is installed: hooks/test_plugin_dist.py


TAKE_MINUTES = (
    "test_site.py",
    "test_rows_attack.py",
    "test_model_files.py",
    "test_on_a_cluster.py",
    "test_on_spark.py",
    "test_spark.py",
    "test_mlflow.py",
)
"""Files of tests marked integration, the longest first, as measured on two cores."""


def pytest_sessionstart():
    """Refuse to run on kernels that an editable install compiled from other sources than those of the checkout."""
    compiled = Path(_cython_shared.__file__).with_name("kernels.sha256")  # beside what the build made
    if compiled.exists():  # otherwise the install is not editable: a wheel
        sources = [
            path for room in ROOMS for kind in ("*.pyx", "*.pxd", "*.h") for path in (CHECKOUT / room).rglob(kind)
        ]
        digests = {path.relative_to(CHECKOUT).as_posix(): sha256(path.read_bytes()).hexdigest() for path in sources}
        if digests != dict(reversed(line.split()) for line in compiled.read_text().splitlines()):
            pytest.exit("kernels changed after they were compiled: run pip install -e .", returncode=1)
    gc.disable()  # while more than a million objects are made that stay


def pytest_collection_modifyitems(items):
    """Begin with the files that take minutes, so that no process is left with one of them in the end."""
    place = {name: number for number, name in enumerate(TAKE_MINUTES)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))  # stable: the others keep their order


def pytest_collection_finish():
    """Take the tests and what was imported out of the garbage collection, which would go through them all each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before fixtures, of a whole module too
def pytest_runtest_setup():
    """Start every test from one state, so that an estimator without a seed gives the same model in each run."""
    np.random.seed(0)  # noqa: NPY002 - it is what scikit-learn draws from


@pytest.fixture(scope="session")
def diabetes():
    """Diabetes data as a frame and a series."""
    return load_diabetes(return_X_y=True, as_frame=True)


@pytest.fixture(scope="session")
def cancer():
    """Breast cancer data as arrays, rows shuffled with a fixed seed."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


@pytest.fixture(scope="session")
def models():
    """Return a function that makes an unfitted model by library and task."""

    def make(library, task="regression", **settings):
        kinds = {
            "sklearn": {"regression": RandomForestRegressor, "classification": RandomForestClassifier},
            "xgboost": {"regression": XGBRegressor, "classification": XGBClassifier},
            "lightgbm": {"regression": LGBMRegressor, "classification": LGBMClassifier},
        }
        if library == "lightgbm":
            settings = {"verbose": -1} | settings
        return kinds[library][task](**({"n_estimators": 40, "random_state": 0, "n_jobs": 1} | settings))

    return make


@pytest.fixture(scope="session")
def spark_sessions(tmp_path_factory):
    """A classic and a Connect session of Spark, which starts once; skipped without Spark or Java."""
    with sessions(tmp_path_factory.mktemp("spark")) as both:
        yield both


@pytest.fixture
def spark(spark_sessions):
    """The classic session of Spark."""
    return spark_sessions[0]
