from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from debias.errors import HistoryError
from debias.monitor.times import (
    LABEL,
    LOCAL,
    NUMBER,
    ZONED,
    Moment,
    Window,
    index_of,
    refuse_far_future,
    time_text,
    times_as_text,
)

NOON = datetime(2026, 11, 23, 12)
DAY = 86_400_000_000


@pytest.mark.parametrize(
    "at",
    [date(2026, 11, 23), "2026-11-23", datetime(2026, 11, 23), np.datetime64("2026-11-23"), pd.Timestamp("2026-11-23")],
)
def test_a_date_is_its_midnight_however_it_is_written(at):
    assert Moment.of(at) == Moment(LOCAL, 20780 * DAY, "2026-11-23T00:00:00")
    assert (np.datetime64("2026-11-23") - np.datetime64("1970-01-01")).astype(int) == 20780
    assert time_text(Moment.of(at)) == "2026-11-23"


def test_times_with_a_zone_are_stored_in_utc():
    india = timezone(timedelta(hours=5, minutes=30))
    moments = [Moment.of(at) for at in (NOON.replace(tzinfo=india), "2026-11-23T12:00+05:30", "2026-11-23 06:30Z")]
    assert {moment.text for moment in moments} == {"2026-11-23T06:30:00Z"}
    assert {moment.kind for moment in moments} == {ZONED}
    assert index_of(moments[:1])[0] == NOON.replace(tzinfo=india)
    assert Moment.of(pd.Timestamp("2026-11-23", tz="Asia/Tokyo")).text == "2026-11-22T15:00:00Z"


def test_numbers_and_labels_are_told_apart():
    assert Moment.of(7) == Moment.of(np.int64(7)) == Moment(NUMBER, 7, "7")
    assert Moment.of(2.5) == Moment(NUMBER, 2.5, "2.5")
    assert Moment.of("batch 7") == Moment(LABEL, None, "batch 7")
    assert Moment.of(7.0) == Moment.of(np.float32(7)) == Moment.of(7)  # a column with a missing number has floats
    assert Moment.of(-0.0) == Moment.of(0)
    assert Moment.of("batch 7\r\n") == Moment.of("batch 7")
    assert Moment.of(" 2026-11-23\n") == Moment.of("2026-11-23")
    assert Moment.of("20261123").kind == LABEL  # only the form with hyphens is a date


@pytest.mark.parametrize(
    "at",
    [
        None,
        True,
        float("nan"),
        float("inf"),
        pd.NaT,
        np.datetime64("NaT", "D"),
        [1],
        "",
        " ",
        "x\0",
        "\ud800",
        "x" * 201,
        2**60,
        10**400,
        np.timedelta64(3, "D"),
        pd.NA,
        np.array([1, 2]),
        pd.Series(["2026-11-23"]),
        pd.to_datetime(["2026-11-23", "2026-11-24"]),
        np.datetime64("20000-01-01"),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_what_is_no_time_is_refused(at):
    with pytest.raises(HistoryError, match="is not a"):
        Moment.of(at)


def test_a_date_that_does_not_exist_is_no_label():
    with pytest.raises(HistoryError, match="day is out of range"):
        Moment.of("2026-02-30")


@pytest.mark.parametrize("at", ["2026-1-1", "2026-1-31 10:00", "26-1-1", "2026/01/31", "31/1/2026", "31.1.2026"])
def test_a_date_in_another_form_is_no_label(at):
    with pytest.raises(HistoryError, match="write dates as year-month-day, such as 2026-01-31"):
        Moment.of(at)


@pytest.mark.parametrize("at", ["2026-01", "1.2.3", "2026.1.1", "1.10", "007", "1-2", "1-2-3-4", "1-2-b", "2026-1-1a"])
def test_texts_that_are_no_dates_are_labels(at):
    assert Moment.of(at) == Moment(LABEL, None, at)


def test_the_index_has_the_times_that_were_given():
    days = [date(2026, 1, k) for k in (1, 2)]
    assert index_of(list(map(Moment.of, days))).tolist() == [pd.Timestamp(day) for day in days]
    assert index_of([Moment.of(NOON.replace(tzinfo=UTC))]).tz is not None
    assert index_of([Moment.of(3), Moment.of(4.5)]).tolist() == [3, 4.5]
    assert index_of([Moment.of("b"), Moment.of("a")]).tolist() == ["b", "a"]
    for at in (days, [NOON, datetime(2026, 1, 1, 1)], [1, 2], [0.5, 2.5], ["b", "a"]):
        moments = [Moment.of(each) for each in at]
        assert times_as_text(index_of(moments)) == [time_text(moment) for moment in moments]


def test_windows_are_a_number_of_periods_or_a_length_of_time():
    assert Window.of(7) == Window.of("7") == Window.of(np.int64(7)) == Window(count=7)
    assert Window.of("2w") == Window.of(timedelta(days=14)) == Window.of(pd.Timedelta("14D")) == Window.of("14d")
    assert Window.of(np.timedelta64(14, "D")) == Window.of(np.timedelta64(14 * DAY * 1000, "ns")) == Window.of("14d")
    for text in (np.timedelta64(1, "M"), np.timedelta64("NaT", "D")):
        with pytest.raises(HistoryError, match="window"):
            Window.of(text)
    for text in ("0d", "-1d", "d", "1y", "", 0, -3, 2.5, True, None, timedelta(0), "9" * 30 + "d"):
        with pytest.raises(HistoryError, match="window"):
            Window.of(text)


def test_a_window_of_time_is_open_at_its_begin_and_closed_at_its_end():
    keys = [DAY * k for k in (0, 1, 2, 9, 10)]
    window = Window.of("2d")
    assert [window.begin(keys, k, LOCAL) for k in range(5)] == [0, 0, 1, 3, 3]
    assert [Window.of(2).begin(keys, k, LOCAL) for k in range(5)] == [0, 0, 1, 2, 3]
    with pytest.raises(HistoryError, match="pass a number of periods"):
        window.begin(keys, 1, NUMBER)


def test_a_window_of_a_day_has_two_midnights_with_a_zone_when_summer_time_begins():
    zoned = [Moment.of(f"2026-03-{day}T00:00{offset}") for day, offset in ((29, "+01:00"), (30, "+02:00"))]
    plain = [Moment.of(f"2026-03-{day}") for day in (29, 30)]
    begins = [Window.of("1d").begin([each.key for each in days], 1, days[0].kind) for days in (zoned, plain)]
    assert begins == [0, 1]


def test_a_date_in_the_far_future_is_refused_and_a_near_one_is_not():
    now = datetime(2026, 11, 23, tzinfo=UTC)
    for near in ("2026-11-24", "2036-11-20", "2036-11-20T10:00Z", "release 3000", 30000, date(2027, 1, 1)):
        refuse_far_future(Moment.of(near), now)
    for far in ("2062-11-23", "9999-12-31", "2062-11-23T10:00Z"):
        with pytest.raises(HistoryError, match="more than ten years ahead of the clock of this machine .2026-11-23"):
            refuse_far_future(Moment.of(far), now)
