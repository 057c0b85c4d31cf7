"""Audits of folds, histories and changes made from fixed numbers, for tests of how they are shown."""

import numpy as np
import pandas as pd

from debias.results.changes import Changes
from debias.results.folds_audit import FoldsAudit
from debias.results.windows import WindowOfPeriods
from support.audits import made


def made_folds(names, n_folds=5, tested=True, known=True):
    """Return an audit of folds; the first third of the features is informative."""
    audits = {
        f"fold {k}": made(names, seed=k, rows="held-out", tested=tested, n_permutations=5) for k in range(n_folds)
    }
    n = len(names)
    chosen = np.arange(n) < max(1, n // 3)
    test = {"method": "permutation", "alpha": 0.05, "error": "fwer", "correlation": 0.2, "n_permutations": 5}
    return FoldsAudit(
        audits=audits,
        n_train=(400,) * n_folds,
        standard_error=np.full(n, 0.05) if known else None,
        no_error_because=None if known else "there are fewer than 3 folds",
        **({"p_adjusted": np.where(chosen, 0.01, 0.8), "test": test} if tested else {}),
    )


def made_scores(n_periods, names, index=None, n_models=1, missing=0.0, seed=0):
    """Return scores, standard errors and labels of models of periods."""
    rng = np.random.default_rng(seed)
    n = len(names)
    level = np.linspace(0.2, 0.0, n)
    values = level + rng.normal(scale=0.01, size=(n_periods, n))
    values[rng.random(values.shape) < missing] = np.nan
    index = pd.date_range("2026-01-01", periods=n_periods, name="at") if index is None else index
    scores = pd.DataFrame(values, index=index, columns=names)
    errors = pd.DataFrame(np.full(values.shape, 0.01), index=index, columns=names)
    return scores, errors, [f"model {1 + k * n_models // n_periods}" for k in range(n_periods)]


def made_changes(names, seed=0, compared=True):
    """Return changes: of four features each, one became weaker, one faded, one stronger, and one did not change."""
    rng = np.random.default_rng(seed)
    kind = np.arange(len(names)) % 4
    before = rng.uniform(0.1, 0.5, kind.size)
    response = np.choose(kind, [-0.05, -0.09, 0.05, 0.0])
    statistics = {
        "before": before,
        "after": before + response,
        "before_error": np.full(kind.size, 0.01),
        "after_error": np.full(kind.size, 0.01),
        "change": response,
        "response_change": response,
        "response_error": np.full(kind.size, 0.01),
        "rows_change": np.zeros(kind.size),
        "slope_before": np.ones(kind.size),
        "slope_after": 1 + response,
        "p_value": np.where(kind < 3, 0.001, 0.5),
        "p_adjusted": np.where(kind < 3, 0.01, 1.0),
        "changed": kind < 3,
        "informative_before": np.ones(kind.size, dtype=bool),
        "informative_after": kind != 1,
        "faded": kind == 1,
        "undetected": kind == 1,
        "comparable": np.ones(kind.size, dtype=bool),
        "kept": kind == 3,
        "used": np.ones(kind.size, dtype=bool),
        "unseen_before": np.zeros(kind.size),
        "unseen_after": np.zeros(kind.size),
        "shift": rng.uniform(0, 0.3, kind.size),
        "shift_p_adjusted": np.where(kind == 0, 0.01, 0.9),
        "shifted": kind == 0,
        "left_before": np.ones(kind.size),
        "left_after": np.ones(kind.size),
    }
    return Changes(
        series="model 1",
        model="forest",
        feature_names=tuple(names),
        reference=WindowOfPeriods("2026-01-01", "2026-01-20", 20, 2000),
        recent=WindowOfPeriods("2026-01-21", "2026-01-30", 10, 1000),
        alpha=0.05,
        least=0.1,
        statistics=statistics if compared else {},
        splits=tuple(f"{name} < 3" for name in names) if compared else (),
        method="between periods" if compared else "none",
        not_compared_because=None if compared else "there is only one period",
    )
