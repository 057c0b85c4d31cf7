"""
A scorer of your own
====================

A scorer is a function of the trees and the rows. This one uses the depth at which a feature is used: the earlier, the
higher the score. After registration it works with every model that debias supports, like all other scorers, and
inside every meta-method.
"""

import matplotlib.pyplot as plt
import numpy as np
from lightgbm import LGBMClassifier
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import debias
from debias.testing import check_scorer


@debias.plugin.scorer_plugin("early_use", unit="share of 1 / depth over splits", needs_rows=False)
def early_use(ensemble, rows):
    score = np.zeros(ensemble.n_features)
    for number in range(ensemble.n_trees):
        tree = ensemble.tree(number)
        depth = np.ones(len(tree.left))
        for node in np.flatnonzero(tree.left >= 0):  # inner nodes; parents precede children
            depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
            score[tree.feature[node]] += 1 / depth[node]
    return score / max(score.sum(), 1e-300)  # a model without splits scores 0


check_scorer(early_use)
debias.plugin.register(early_use)

# %%
# The data describe three cultivars of wine. We add a noise column with many values.
X, y = load_wine(return_X_y=True, as_frame=True)
X["noise"] = np.random.default_rng(0).normal(size=len(X))
forest = RandomForestClassifier(60, random_state=0, n_jobs=2).fit(X, y)
booster = LGBMClassifier(n_estimators=30, min_child_samples=5, random_state=0, n_jobs=2, verbose=-1).fit(X, y)

figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True)
for model, where in ((forest, axes[0]), (booster, axes[1])):
    scores = debias.score(model, scorer="early_use")
    scores.to_frame()["early_use"].plot.barh(ax=where, title=type(model).__name__)
figure.tight_layout()

# %%
# Like every score of training rows, it is above 0 for noise, and it does not say what is chance. A meta-method compares
# it with the scores for a permuted response. The forest is refitted 19 times:
against_chance = debias.score(forest, X, y, "response_permutation(early_use, replicates=19)", random_state=0, n_jobs=2)
against_chance.to_frame().sort_values("p_value").round(2)
