"""Adapters: each reads fitted models of one library into a TreeEnsemble. They are loaded as entry points.

The versions of the libraries that debias was tested with stand here: the adapters and the docs read them.
"""

from __future__ import annotations

from debias.trees.tested_versions import TestedVersions

SCIKIT_LEARN = TestedVersions("scikit-learn", "1.5", "1.9")
XGBOOST = TestedVersions("XGBoost", "2.1", "3.4")
LIGHTGBM = TestedVersions("LightGBM", "4.3", "4.7")
CATBOOST = TestedVersions("CatBoost", "1.2", "1.2")
YDF = TestedVersions("YDF", "0.16", "0.16")
TREELITE = TestedVersions("treelite", "4.4", "4.8")
SCIKIT_SURVIVAL = TestedVersions("scikit-survival", "0.23", "0.28")
