"""Faults of rows and models before the two gates: what `debias check` and `debias monitor check` say of each.

    python -m attack.gate_faults                           # from the folder tests, about 15 seconds
    python -m attack.gate_faults --write ../docs/gate.md   # puts the table between the two marks of the page

One model serves a shop. Its release is checked on 1,500 rows; its history has 40 healthy days of 150 rows, and then 7
days with the fault. Both gates have the policy of `POLICY`. The commands run in this process, as they do in a shell.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from click.testing import CliRunner
from lightgbm import LGBMRegressor

import debias
from debias.cli import main

START, END = "<!-- table of faults -->", "<!-- end of the table of faults -->"
N_TRAIN, N_RELEASE, N_DAY = 2000, 1500, 150
HEALTHY_DAYS, FAULTY_DAYS = 40, 7
SHOPS = ("north", "east", "south", "west")
POLICY = """\
must_predict = true
must_be_informative = ["sensor", "price"]
must_not_matter = ["customer"]
max_unseen = 0.05
max_repeated = 0.05
max_shift = 0.3
min_rows = 500
min_provenance = "checked"

[history]
max_unseen = 0.05
max_repeated = 0.05
must_not_be_biased = true
max_shift = 0.3
must_not_fade = "all"
min_rows = 500
"""

Rows = pd.DataFrame


class Fault(NamedTuple):
    """A fault: its words, and what it does to rows; whether these need the training rows or predictions."""

    words: str
    applied: Callable[[Rows, np.random.Generator, Service], Rows]


class Service:
    """The model, its training rows, and healthy rows."""

    def __init__(self, folder: Path) -> None:
        self.folder, rng = folder, np.random.default_rng(0)
        self.train = rows(rng, N_TRAIN)
        self.model = LGBMRegressor(n_estimators=60, num_leaves=8, n_jobs=1, random_state=0, verbose=-1)
        self.model.fit(self.train.drop(columns="sales"), self.train["sales"])
        self.model.booster_.save_model(folder / "model.txt")
        self.train.to_parquet(folder / "train.parquet")
        (folder / "debias.toml").write_text(POLICY)
        history = debias.History(self.model, folder / "healthy.history")
        for number in range(HEALTHY_DAYS):
            of_day = rows(rng, N_DAY)
            history.add(of_day.drop(columns="sales"), of_day["sales"], at=day(number))

    def release(self, fault: Fault) -> tuple[int, str]:
        """Return the exit code of `debias check` and the line that tells the outcome."""
        rng = np.random.default_rng(1)
        fault.applied(rows(rng, N_RELEASE), rng, self).to_parquet(self.folder / "rows.parquet")
        return self._run("check", "model.txt", "rows.parquet", "--target", "sales", "--train", "train.parquet",
                         "--policy", "debias.toml", "--random-state", "0")  # fmt: skip

    def history(self, fault: Fault) -> tuple[int, str]:
        """Return the same for days with the fault; if a day cannot be added, for the command that adds it."""
        shutil.copyfile(self.folder / "healthy.history", self.folder / "now.history")
        rng = np.random.default_rng(2)
        first, *others = (day(number) for number in range(HEALTHY_DAYS, HEALTHY_DAYS + FAULTY_DAYS))
        fault.applied(rows(rng, N_DAY), rng, self).to_parquet(self.folder / "day.parquet")
        files = ("now.history", "model.txt", "day.parquet")
        added = self._run("monitor", "add", *files, "--target", "sales", "--at", first)
        if added[0]:
            return added
        history = debias.History(self.model, self.folder / "now.history")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in others:
                of_day = fault.applied(rows(rng, N_DAY), rng, self)
                history.add(of_day.drop(columns="sales"), of_day["sales"], at=name)
        return self._run("monitor", "check", "now.history", "--policy", "debias.toml", "--recent", "7d")

    def _run(self, *arguments: str) -> tuple[int, str]:
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            # The check of model files starts a process and has its own tests.
            with warnings.catch_warnings(), patch("debias.models.sandbox.check"):
                warnings.simplefilter("ignore")
                done = CliRunner().invoke(main, list(arguments))
        finally:
            os.chdir(here)
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        told = [line for line in lines if line.startswith(("The gate ", "Error", "error"))]
        return done.exit_code, told[0] if told else next(iter(lines), "")


def day(number: int) -> str:
    """Return the name of a day."""
    return str(np.datetime64("2026-10-01") + number)


def rows(rng: np.random.Generator, n_rows: int) -> Rows:
    """Return healthy rows."""
    sensor, speed, price = rng.normal(size=n_rows), rng.normal(size=n_rows), np.exp(3 + 0.5 * rng.normal(size=n_rows))
    shop, customer = rng.integers(0, 4, n_rows), rng.integers(0, 500, n_rows).astype(float)
    sales = sensor + 0.7 * speed + 1.2 * (np.log(price) - 3) + 0.8 * (shop == 1) + 0.5 * rng.normal(size=n_rows)
    shops = pd.Categorical(np.array(SHOPS)[shop], categories=SHOPS)
    return Rows({"sensor": sensor, "speed": speed, "price": price, "shop": shops, "customer": customer, "sales": sales})


def column(name: str, change: Callable[[pd.Series, np.random.Generator], object]) -> Callable[..., Rows]:
    """Return what changes one column."""
    return lambda X, rng, _: X.assign(**{name: change(X[name], rng)})


def _new_category(shop: pd.Series, rng: np.random.Generator) -> pd.Series:
    return shop.cat.add_categories("online").where(rng.random(len(shop)) >= 0.3, "online")


def _repeated(X: Rows, rng: np.random.Generator, share: float) -> Rows:
    twice = rng.choice(len(X), int(share * len(X)), replace=False)
    return pd.concat([X, X.iloc[twice]], ignore_index=True)


def _of_training(X: Rows, rng: np.random.Generator, service: Service, share: float) -> Rows:
    number = int(share * len(X))
    some = service.train.iloc[rng.choice(len(service.train), number, replace=False)]
    return pd.concat([X[number:], some], ignore_index=True).sample(frac=1, random_state=1, ignore_index=True)


def _predicted(X: Rows, _: np.random.Generator, service: Service) -> Rows:
    return X.assign(sales=service.model.predict(X.drop(columns="sales")))


FAULTS = (
    Fault("none", lambda X, rng, service: X),
    Fault("the sensor is permuted", column("sensor", lambda x, rng: rng.permutation(x))),
    Fault("the sensor is reversed", column("sensor", lambda x, rng: -x)),
    Fault("the sensor is stuck", column("sensor", lambda x, rng: np.full(len(x), 0.4))),
    Fault("the sensor is empty", column("sensor", lambda x, rng: np.full(len(x), np.nan))),
    Fault("half of the sensor is missing", column("sensor", lambda x, rng: x.where(rng.random(len(x)) < 0.5))),
    Fault("the sensor is one standard deviation higher", column("sensor", lambda x, rng: x + 1)),
    Fault("the sensor is noisy (twice the spread)", column("sensor", lambda x, rng: x + 1.7 * rng.normal(size=len(x)))),
    Fault("the sensor is rounded to whole numbers", column("sensor", lambda x, rng: x.round())),
    Fault("EUR become cents", column("price", lambda x, rng: 100 * x)),
    Fault("the price is its logarithm", column("price", lambda x, rng: np.log(x))),
    Fault("30 % of the rows have a new shop", column("shop", _new_category)),
    Fault("shops in capital letters", column("shop", lambda x, rng: x.cat.rename_categories(str.upper))),
    Fault("the shop is empty", column("shop", lambda x, rng: x.where(np.zeros(len(x), dtype=bool)))),
    Fault("a third of the rows come twice", lambda X, rng, _: _repeated(X, rng, 1 / 3)),
    Fault("every row comes twice", lambda X, rng, _: _repeated(X, rng, 1.0)),
    Fault("sensor and speed are exchanged", lambda X, rng, _: X.assign(sensor=X["speed"], speed=X["sensor"])),
    Fault("a column is missing", lambda X, rng, _: X.drop(columns="speed")),
    Fault("a column has another name", lambda X, rng, _: X.rename(columns={"speed": "Speed"})),
    Fault("only 20 rows", lambda X, rng, _: X[:20]),
    Fault("training rows, shuffled", lambda X, rng, service: _of_training(X, rng, service, 1.0)),
    Fault("half of the rows are training rows", lambda X, rng, service: _of_training(X, rng, service, 0.5)),
    Fault("the response is permuted", column("sales", lambda y, rng: rng.permutation(y))),
    Fault("the response times 1,000", column("sales", lambda y, rng: 1000 * y)),
    Fault("the response is reversed", column("sales", lambda y, rng: -y)),
    Fault("the response is one value", column("sales", lambda y, rng: np.full(len(y), 1.0))),
    Fault("the response is what the model predicts", _predicted),
    Fault(
        "a tenth of the responses is missing",
        column("sales", lambda y, rng: y.where(rng.random(len(y)) > 0.1)),
    ),
)
"""What happens to the rows of a release, and to those of each day."""


def table(service: Service, faults: tuple[Fault, ...] = FAULTS) -> str:
    """Return the table in Markdown."""
    lines = ["| fault | `debias check` | says | `debias monitor check` | says |", "|---|---:|---|---:|---|"]
    for fault in faults:
        cells = [f"{code} | {_short(line)}" for code, line in (service.release(fault), service.history(fault))]
        lines.append(f"| {fault.words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(line: str, longest: int = 150) -> str:
    line = line.replace("|", "\\|")
    return line if len(line) <= longest else f"{line[:longest].rsplit(' ', 1)[0]} ..."


def write(page: Path, text: str) -> None:
    """Put the table between the marks of a page."""
    before, _, rest = page.read_text().partition(START)
    page.write_text(f"{before}{START}\n\n{text}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table between the marks of this page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = table(Service(Path(folder)))
    print(found)
    if options.write is not None:
        write(options.write, found)
