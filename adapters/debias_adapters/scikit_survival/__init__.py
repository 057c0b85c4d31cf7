"""Adapter of scikit-survival, whose forests and boosted models are made of scikit-learn's compiled trees."""
