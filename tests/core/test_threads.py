import threading
import time

import pytest
from joblib import cpu_count

from debias.threads import Threads


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_come_in_the_order_of_the_items(n_jobs):
    def slow_first(item):
        time.sleep(0.02 if item == 0 else 0)
        return item, threading.get_ident()

    with Threads(n_jobs) as threads:
        items, where = zip(*threads.map(slow_first, range(6)), strict=True)
    assert items == tuple(range(6))
    assert len(set(where)) == n_jobs


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_call_begun_gives_its_result_later(n_jobs):
    with Threads(n_jobs) as threads:
        assert threads.begin(lambda: 3)() == 3


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_come_out(n_jobs):
    with pytest.raises(ZeroDivisionError), Threads(n_jobs) as threads:
        threads.map(lambda item: 1 / item, [1, 0])


@pytest.mark.parametrize("n", [1, 5, 16, 1000])
def test_shares_cover_all_once(n):
    for n_jobs in (1, 3):
        with Threads(n_jobs) as threads:
            covered = [i for begin, end in threads.shares(n) for i in range(begin, end)]
        assert covered == list(range(n))


def test_negative_numbers_count_from_all_cores():
    with Threads(-1) as threads:
        assert threads.n == cpu_count()
    with Threads(-1000) as threads:
        assert threads.n == 1
