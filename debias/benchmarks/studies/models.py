"""The forests that the studies fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from debias.benchmarks.simulate import Simulation


def forest(simulation: Simulation, seed: int, **settings: Any) -> Any:
    """Return a fitted random forest of scikit-learn: a classifier if y holds integers, otherwise a regressor."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestClassifier if simulation.y.dtype.kind == "i" else RandomForestRegressor
    return kind(**{"n_estimators": 100, **settings}, random_state=seed, n_jobs=1).fit(simulation.numeric, simulation.y)
