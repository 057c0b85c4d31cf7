"""Windows of periods: the pinned reference, the first periods, and those between two times."""

import pytest

import debias
from debias.monitor.store import Period
from debias.monitor.times import Moment, parsed, pinned, positions_of


def periods_at(times):
    moments = [Moment.of(at) for at in times]
    return [Period(k, 1, at.kind, at.key, at.text) for k, at in enumerate(moments)]


DAILY = periods_at(str(day) for day in __import__("numpy").arange("2026-01-01", "2026-06-01", dtype="M8[D]"))
NUMBERED = periods_at(range(100))


def never(before, after):
    return False


@pytest.mark.parametrize(
    ("periods", "end", "length"),
    [
        *((DAILY, end, end) for end in (0, 5, 30)),
        *((DAILY, end, 30) for end in (31, 37, 43)),
        *((DAILY, end, length) for end, length in ((44, 37), (50, 37), (51, 44), (64, 51), (65, 58), (71, 58))),
        *((DAILY, end, 60) for end in (72, 150)),
        *((NUMBERED, end, length) for end, length in ((30, 30), (43, 30), (44, 37), (65, 58), (72, 60), (90, 60))),
    ],
)
def test_the_reference_is_pinned_to_the_first_sixty_days(periods, end, length):
    """A week comes into it when the week after it is complete, too."""
    assert pinned(periods, end, never) == range(length)


def test_days_that_are_missing_do_not_make_the_reference_longer():
    every_second = periods_at(period.at for period in DAILY[::2])
    assert pinned(every_second, 70, never) == range(30)


def test_long_periods_are_eight_at_least():
    monthly = periods_at(f"{2024 + k // 12}-{1 + k % 12:02}-01" for k in range(20))
    assert pinned(monthly, 15, never) == range(8)
    assert pinned(monthly, 5, never) == range(5)


@pytest.mark.parametrize("periods", [DAILY, NUMBERED])
@pytest.mark.parametrize(
    ("first_bad", "end"),
    [(30, 30), (36, 30), (37, 30), (43, 30), (44, 37), (50, 37), (58, 51), (64, 51), (65, 58), (71, 58), (72, 60)],
)
def test_a_week_that_differs_ends_the_reference_a_week_before_it(periods, first_bad, end):
    seen = []

    def differs(before, after):
        seen.append((before, after))
        return first_bad in after

    assert pinned(periods, 90, differs) == range(end)
    assert all(before == range(30) for before, _ in seen)
    steps = [after for _, after in seen]
    assert steps[0].start == 30
    assert all(one.stop == other.start for one, other in zip(steps, steps[1:], strict=False))


@pytest.mark.parametrize("needed", range(1, 8))
def test_no_day_of_a_lasting_fault_comes_in_however_many_a_week_needs_to_differ(needed):
    for fault in range(30, 61):

        def differs(before, after, fault=fault):
            return sum(day >= fault for day in after) >= needed

        for end in range(fault, 120):
            assert pinned(DAILY, end, differs).stop <= fault, fault


def test_the_reference_never_rolls():
    """Whatever comes later, days that were in it stay, and no day after the first sixty comes into it."""
    lengths = [len(pinned(DAILY, end, never)) for end in range(150)]
    assert lengths == sorted(lengths)
    assert max(lengths) == 60


def test_the_first_periods_and_those_between_two_times_are_chosen():
    assert positions_of(DAILY, "first 30d", "reference", 99) == range(30)
    assert positions_of(DAILY, "first 30", "reference", 99) == range(30)
    assert positions_of(DAILY, "first 4w", "reference", 10) == range(11)  # as far as they are before the recent ones
    assert positions_of(DAILY, "first 4w", "reference", -1) == range(0)
    assert positions_of(NUMBERED, "first 7", "reference", 50) == range(7)
    between = positions_of(DAILY, "2026-01-03..2026-01-05", "reference", 99)
    assert between == positions_of(DAILY, ("2026-01-03", "2026-01-05"), "reference", 99) == range(2, 5)
    with pytest.raises(debias.errors.HistoryError, match="needs periods with times"):
        positions_of(NUMBERED, "first 30d", "reference", 50)


@pytest.mark.parametrize("window", ["first", "first x", "..", "2026-01-01..", "a..b..c", "last 30d", "first 0d", ""])
def test_a_text_that_is_no_window_is_refused(window):
    with pytest.raises(debias.errors.HistoryError, match=r"reference=.* is not a window"):
        parsed(window, "reference")
