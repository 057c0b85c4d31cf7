"""
A boosted model, on rows it has not seen
========================================

Every tree of a boosted model is fitted to the residuals of the trees before it. All training rows influence it, even
rows that this tree did not draw. Scores on training rows are as biased as the reported gain. debias recognises
training rows, in any order, and raises an error. Score held-out rows instead.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import debias

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X.iloc[:, :10].assign(noise=np.random.default_rng(0).normal(size=len(X)))
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
model = XGBClassifier(n_estimators=100, max_depth=3, random_state=0, n_jobs=2).fit(X_train, y_train)

try:
    debias.audit(model, X_train.sample(frac=1, random_state=1), y_train)
except debias.DebiasError as error:
    print(f"{type(error).__name__}: {error}")

# %%
# On the other 228 rows:
audit = debias.audit(model, X_test, y_test, random_state=0, n_jobs=2)
print("\n".join(audit.summary()))

# %%
audit.plot(ax=plt.figure(figsize=(7, 4.5)).subplots())
plt.tight_layout()

# %%
# The ten measurements are strongly correlated (especially radius, perimeter and area), and the model uses one in place
# of another. "Not confirmed alone" means that *this model* has no clear gain from a column in addition to the others.
# It does not mean that the column has no information about the disease. ``debias.compare`` shows which columns are
# correlated.
comparison = debias.compare(model, X_test, y_test, random_state=0, n_jobs=2)
comparison.traits.round(2)
