"""
An id column: harmless noise, or a leak?
========================================

Two columns that should not be in a model, on scikit-learn's diabetes data. ``row`` is a random row number: it knows
nothing, but has a different value in every row, and impurity-based importance likes that. ``visit`` is a number that
was given out in order, in a file where patients with a worse outcome tend to come first: it leaks the response.

Both look alike in the importances that the forest reports. Debiased, they come apart.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import debias

X, y = load_diabetes(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
X["row"] = rng.permutation(len(X)).astype(float)
X["visit"] = np.argsort(np.argsort(-y + rng.normal(scale=3 * y.std(), size=len(y)))).astype(float)
forest = RandomForestRegressor(200, random_state=0, n_jobs=2).fit(X, y)

# %%
# The training rows are all it takes: each is scored in the trees that did not see it.
audit = debias.audit(forest, X, y, seed=0, n_jobs=2)
audit.table[["reported", "share", "p_adjusted", "verdict"]].round(3)

# %%
# ``row`` falls from among the real measurements to nothing. ``visit`` stays: it does tell something of the response.
# In the picture a diamond is the reported share, a point the debiased one with its 95% interval; an orange cross is
# indistinguishable from noise.
audit.plot(plt.figure(figsize=(7, 5)).subplots())
plt.tight_layout()

# %%
# A score cannot know which columns will be there when the model is used: that ``visit`` is found informative is true,
# and is the problem. What should never matter belongs into a policy, and a gate then says so:
gate = audit.check({"must_not_matter": ["row", "visit"]})
for result in gate.results:
    print(f"{result.status}: {result.reason}")
