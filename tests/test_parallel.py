import threading

import pytest
from joblib import cpu_count

from debias.errors import RowsError
from debias.parallel import FEWEST_SHARES, allowed, current, in_threads, meanwhile, over_parts


def numbers(of: slice) -> list[int]:
    return list(range(of.start, of.stop))


@pytest.mark.parametrize("n_jobs", [1, 2, 5, -1])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
def test_parts_make_up_the_whole_in_order(n, n_jobs):
    with allowed(n_jobs):
        assert sum(over_parts(n, numbers), []) == list(range(n))
        assert sum(over_parts(n, numbers, at_least=10), []) == list(range(n))
    assert sum(over_parts(n, numbers, n_jobs), []) == list(range(n))


def test_as_many_threads_work_as_are_allowed():
    """Two parts wait for one another: one thread alone would wait for ever."""
    both = threading.Barrier(2, timeout=120)
    with allowed(2):
        over_parts(2, lambda of: both.wait())


def test_little_work_stays_with_the_thread_that_asks():
    with allowed(4):
        assert over_parts(19, lambda of: threading.get_ident(), at_least=10) == [threading.get_ident()]


def test_an_error_in_a_part_surfaces_and_no_thread_stays_behind():
    def fails(of: slice) -> None:
        if of.stop == 100:
            raise RowsError("the last part")

    before = set(threading.enumerate())
    with pytest.raises(RowsError, match="the last part"), allowed(3):
        over_parts(100, fails)
    assert not set(threading.enumerate()) - before


def test_threads_that_are_started_use_one_each():
    """What they call may not start others: there would be more threads than cores."""

    both = threading.Barrier(2, timeout=120)

    def inner(of: slice) -> set[int]:
        both.wait()
        return set(over_parts(10, lambda of: threading.get_ident()))

    with allowed(2):
        others = [idents for idents in over_parts(8, inner) if threading.get_ident() not in idents]
        assert others
        assert all(len(idents) == 1 for idents in others)


def test_meanwhile_runs_beside_the_block_and_is_done_behind_it():
    started, looked, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        started.set()
        assert looked.wait(120)
        done.append(threading.get_ident())

    with allowed(2), meanwhile(slow):
        assert started.wait(120)
        assert sum(over_parts(10, numbers), []) == list(range(10))  # by the other thread alone
        assert not done
        looked.set()
    assert len(done) == 1
    assert done[0] != threading.get_ident()
    with meanwhile(slow):
        assert done[1] == threading.get_ident()  # alone, it does one thing after the other


def test_an_error_meanwhile_surfaces():
    def fails() -> None:
        raise RowsError("meanwhile")

    for n_jobs in (1, 2):
        with pytest.raises(RowsError, match="meanwhile"), allowed(n_jobs), meanwhile(fails):
            pass


@pytest.mark.parametrize("n", [1, 5, 16, 1000])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_shares_cover_all_once(n, n_jobs):
    with allowed(n_jobs) as team:
        assert [i for begin, end in team.shares(n) for i in range(begin, end)] == list(range(n))


def test_one_thread_too_is_asked_between_shares_whether_to_stop():
    assert len(over_parts(100, lambda of: None)) == FEWEST_SHARES


def test_negative_numbers_count_from_all_cores():
    with allowed(-1) as team:
        assert team.n == cpu_count()
    with allowed(-1000) as team:
        assert team.n == 1


def test_n_jobs_of_a_call_holds_for_all_below_it():
    @in_threads
    def call(*, n_jobs=None):
        return current().n

    assert call() == 1
    assert call(n_jobs=2) == 2
    with pytest.raises(RowsError, match="not a number of threads"):
        call(n_jobs=0)
