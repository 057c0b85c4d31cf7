"""Damaged files of every format of models: none crashes, hangs, runs code, or raises what nobody named.

Two thousand of each are tried by ``pytest -m slow tests/attack/test_model_files.py -s``, which prints the table of
docs/files.md, and a slice of them in each run of the CI.
"""

import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from threadpoolctl import threadpool_limits

from debias.errors import UnsupportedModelError
from debias.models.sandbox import check
from support import model_mutants, mutants

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with a whole file of every format, and their bytes; processes are forked, so nothing uses threads."""
    with threadpool_limits(1):
        home = tmp_path_factory.mktemp("attack")
        yield home, model_mutants.make_models(home)


@pytest.fixture(scope="module")
def tables():
    """The rows of the table, printed when all are there."""
    found = []
    yield found
    print("\n" + "\n".join([mutants.Table.heading(), *map(str, found)]))


@pytest.mark.parametrize("name", model_mutants.FORMATS)
def test_no_mutant_harms(whole, tables, name, count):
    home, contents = whole
    damaged = model_mutants.FORMATS[name](contents[name], count, seed=18)
    assert len(damaged) >= count
    if name in model_mutants.APART:  # tests before this one have used threads of its library, which no fork outlives
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            table = process.submit(model_mutants.tried, home, name, contents, damaged).result()
    else:
        table = model_mutants.tried(home, name, contents, damaged)
    tables.append(table)
    table.require()
    assert name != "model.pkl" or table.counts["clear"] == count
    for case in [case for case in table.cases if case.outcome == "guarded"][:3]:
        (home / name).write_bytes(damaged[case.number])  # the guard above is a fork; in use it is a process of its own
        with pytest.raises(UnsupportedModelError, match=re.escape(name)):
            check(home / name)
    of_a_slice = count < 2000  # few end the guard
    assert name != "model.cbm" or of_a_slice or table.counts["guarded"], (
        "no mutant ends the guard, so this tries nothing"
    )
