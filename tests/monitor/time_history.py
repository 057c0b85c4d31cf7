"""Time and disk of a history of 1,000 periods of 10,000 rows, for an XGBoost of 500 trees.

Run it by hand: ``OMP_NUM_THREADS=1 python tests/monitor/time_history.py FOLDER [PERIODS]``. Rows are drawn once, and
each period is a bootstrap sample of them. Adding is timed in turn with ``debias.score`` of the same rows, with one
thread.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from xgboost import XGBRegressor

import debias

N_ROWS, N_FEATURES, N_TREES = 10_000, 20, 500


def main(folder, n_periods):
    rng = np.random.default_rng(0)
    names = [f"x{k}" for k in range(N_FEATURES)]
    X = pd.DataFrame(rng.standard_normal((40_000, N_FEATURES)), columns=names)
    y = X.x0 + X.x1 * X.x2 + np.sin(X.x3) + rng.standard_normal(len(X))
    model = XGBRegressor(n_estimators=N_TREES, n_jobs=1, random_state=0).fit(X[:N_ROWS], y[:N_ROWS])
    ensemble = debias.plugin.extract(model)
    limit = 2 * ensemble.n_nodes * ensemble.n_outputs * 8
    path = Path(folder) / "speed.history"
    path.unlink(missing_ok=True)
    history = debias.History(model, path)
    days = pd.date_range("2024-01-01", periods=n_periods)
    adding, scoring, ratio = [], [], []
    for number, day in enumerate(days):
        chosen = rng.integers(N_ROWS, len(X), N_ROWS)
        rows, response = X.iloc[chosen].reset_index(drop=True), y.iloc[chosen].to_numpy()
        begin = time.perf_counter()
        history.add(rows, response, at=day)
        adding.append(time.perf_counter() - begin)
        if number % 5 == 4:
            begin = time.perf_counter()
            debias.score(model, rows, response, rows="held-out", n_jobs=1)
            scoring.append(time.perf_counter() - begin)
            ratio.append(adding[-1] / scoring[-1])
    add, score = np.median(adding), np.median(scoring)
    print(f"{ensemble.n_nodes:,} nodes, {n_periods} periods of {N_ROWS:,} rows")
    print(f"add {1e3 * add:.0f} ms, score {1e3 * score:.0f} ms; in turn: {np.median(ratio):.2f} times")
    print(f"the last 20 periods: add {1e3 * np.median(adding[-20:]):.0f} ms")
    size = path.stat().st_size
    print(f"{size / n_periods:,.0f} bytes a period: {size / n_periods / limit:.2f} of 2 x nodes x outputs x 8 bytes")
    looked = debias.History.open(path)
    for what, call in (
        ("changes()", looked.changes),
        ("changes(reference='90d')", lambda: looked.changes(reference="90d")),
        ("scores()", looked.scores),
        ("scores('30d')", lambda: looked.scores("30d")),
    ):
        begin = time.perf_counter()
        call()
        print(f"{what}: {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
