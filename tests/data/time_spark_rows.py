"""Time and memory of 10 million rows on Spark beside debias's own streaming of the same Parquet files.

Run it by hand: ``python tests/data/time_spark_rows.py FOLDER [MILLIONS OF ROWS]``. Spark runs as local[2], and the
streaming with two threads. A first short run of each is not counted: it starts Java and the Python workers.
"""

import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from xgboost import XGBRegressor

sys.path.insert(0, str(Path(__file__).parent.parent))

import debias
from support.spark import sessions

NAMES = [f"x{k}" for k in range(20)]
ROWS_A_FILE, ROWS_A_GROUP = 1_000_000, 100_000


def rows(n_rows, seed):
    """Return a frame of features and the column y."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n_rows, len(NAMES))), columns=NAMES)
    return frame.assign(y=frame.x0 + frame.x1 * frame.x2 + rng.standard_normal(n_rows))


def write(folder, n_files):
    """Write files of a million rows, unless they are there."""
    folder.mkdir(exist_ok=True)
    for number in range(n_files):
        path = folder / f"{number}.parquet"
        if not path.exists():
            table = pa.Table.from_pandas(rows(ROWS_A_FILE, number), preserve_index=False)
            pq.write_table(table, path, row_group_size=ROWS_A_GROUP)


class PeakOfWorkers(threading.Thread):
    """The largest memory that the Python workers of Spark hold together, in MB."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak = 0

    def run(self):
        while True:
            memory = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    if "python" in process.name():
                        memory += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak = max(self.peak, memory // 2**20)
            time.sleep(0.05)


def timed(call):
    """Return the result of a call and its seconds."""
    begin = time.perf_counter()
    return call(), time.perf_counter() - begin


def main(folder, millions):
    """Measure and print."""
    write(folder, millions)
    train = rows(20_000, 12345)
    model = XGBRegressor(n_estimators=100, max_depth=6, n_jobs=1, random_state=0).fit(train[NAMES], train.y)
    one = str(folder / "0.parquet")
    with TemporaryDirectory() as scratch, sessions(scratch, "local[2]") as (spark, _):
        workers = PeakOfWorkers()
        workers.start()
        debias.score(model, spark.read.parquet(one), "y")
        debias.score(model, one, "y", n_jobs=2)
        for test in (None, "naive"):
            on_spark, seconds = timed(lambda: debias.score(model, spark.read.parquet(str(folder)), "y", test=test))  # noqa: B023
            streamed, own = timed(lambda: debias.score(model, str(folder), "y", test=test, n_jobs=2))  # noqa: B023
            difference = np.abs(on_spark.values - streamed.values).max() / np.abs(streamed.values).max()
            print(
                f"test={test}: {on_spark.n_rows:,} rows, Spark {seconds:.1f} s, streaming {own:.1f} s, "
                f"ratio {seconds / own:.2f}; largest difference {difference:.1e}; workers {workers.peak} MB",
                flush=True,
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10)
