"""Audits made from fixed numbers, for tests of how audits are shown, stored and gated."""

import numpy as np

import debias


def made(names, seed=0, tested=True, reported=True, rows="oob", warnings=(), n_permutations=50, informative=None):
    """Return an audit of the named features. The first third is informative, unless `informative` says otherwise."""
    rng = np.random.default_rng(seed)
    n = len(names)
    chosen = np.arange(n) < max(1, n // 3) if informative is None else np.asarray(informative, dtype=bool)
    z = np.where(chosen, rng.uniform(5, 12, n), rng.uniform(-2, 2, n))
    values = z * 0.1
    null = rng.normal(size=(n_permutations, n))
    scores = debias.Scores(
        values=values,
        feature_names=tuple(names),
        scorer="mdi_oob",
        unit="covariance of tree and response",
        rows=rows,
        n_rows=500,
        provenance={"kind": rows, "status": "proven", "detail": "as the test says", "training_share": None},
        details={
            "test": {
                "method": "permutation",
                "alpha": 0.05,
                "error": "fwer",
                "n_permutations": n_permutations,
                "seed": 0,
            }
        }
        if tested
        else {},
        warnings=tuple(warnings),
        settings={"model": "forest", "library_version": "1", "n_trees": 3, "debias_version": "0", "seed": None},
        **(
            {
                "standard_error": np.full(n, 0.1),
                "z": z,
                "p_value": np.where(chosen, 0.01, 0.5),
                "p_adjusted": np.where(chosen, 0.02, 0.9),
                "selected": chosen,
                "threshold": 3.0,
                "null": null,
            }
            if tested
            else {}
        ),
    )
    figures = rng.uniform(0.1, 1, n) if reported else None
    n_values = rng.integers(2, 500, n)
    return debias.Audit.of(
        figures,
        "gain",
        {"mdi_oob": scores},
        n_values,
        {"model_blake3": "0" * 64, "data_blake3": "1" * 64},
        reported_unseen=figures * np.where(chosen, rng.uniform(0.5, 2, n), rng.uniform(-0.2, 0.2, n))
        if reported and rows != "train"
        else None,
    )
