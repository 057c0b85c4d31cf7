"""
An id column: harmless noise, or a leak?
========================================

This example adds two columns that should not be in a model to scikit-learn's diabetes data. ``row`` is a random row
number: it has no information, but a different value in every row, and impurity-based importance prefers that.
``visit`` is a consecutive number in a file where patients with a worse outcome tend to come first, so it leaks the
response.

Both look similar in the importances that the forest reports. The debiased scores separate them.
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
# The audit needs only the training rows: each tree is scored on its out-of-bag rows.
audit = debias.audit(forest, X, y, random_state=0, n_jobs=2)
audit.to_frame()[["reported", "reported_unseen", "share", "p_adjusted", "verdict"]].round(3)

# %%
# ``row`` was among the real measurements and is now at the bottom. ``visit`` stays, because it does have information
# about the response. In the figure a diamond is the reported share, and a point the debiased share with its 95%
# interval. A feature with an orange cross is not confirmed alone.
audit.plot(ax=plt.figure(figsize=(7, 5)).subplots())
plt.tight_layout()

# %%
# A score cannot know which columns will be available when the model is used: ``visit`` is informative, and this is the
# problem. List features that must never matter in a policy, and a gate checks them:
gate = audit.check({"must_not_matter": ["row", "visit"]})
for result in gate.results:
    print(f"{result.status}: {result.reason}")
