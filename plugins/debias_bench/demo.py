"""The demo: real data with two columns of noise, a model of each library, and an audit of each model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import debias
from debias.cli.options import Command, threads
from debias.cli.output import check_files, terminal
from debias.text import percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from debias import Audit

UNIQUE, BINARY = "noise_unique", "noise_binary"
N_TREES = 200


def demo_data(seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Return scikit-learn's diabetes data with two columns of noise that are independent of the response.

    Parameters
    ----------
    seed : int
        Seed of the noise.

    Returns
    -------
    X : DataFrame of shape (442, 12)
        Ten measurements, ``noise_unique`` (a different value in every row) and ``noise_binary``.
    y : Series of shape (442,)
        Disease progression.
    """
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    rng = np.random.default_rng(seed)
    X = X.assign(**{UNIQUE: rng.permutation(len(X)).astype(float), BINARY: rng.integers(0, 2, len(X)).astype(float)})
    return X, y


def demo_audits(seed: int = 0, n_jobs: int = 1) -> Iterator[Audit]:
    """Train a forest, an XGBoost model and a LightGBM model, and audit each.

    The forest is scored on its out-of-bag rows, the boosters on a third of the rows that is held out.

    Parameters
    ----------
    seed : int
        Seed of the noise, the split and the models.
    n_jobs : int
        Number of threads for training and scoring.

    Yields
    ------
    Audit
    """
    from sklearn.model_selection import train_test_split

    X, y = demo_data(seed)
    train_X, test_X, train_y, test_y = train_test_split(X, y, test_size=1 / 3, random_state=seed)
    forest, *boosters = _models(seed, n_jobs)
    yield debias.audit(forest.fit(X, y), X, y, rows="oob", random_state=seed, n_jobs=n_jobs)
    for model in boosters:
        model.fit(train_X, train_y)
        # With train=, the test rows are proven not to be training rows.
        yield debias.audit(
            model, test_X, test_y, rows="held-out", train=(train_X, train_y), random_state=seed, n_jobs=n_jobs
        )


def on_noise(audit: Audit) -> str:
    """Return what is reported of the noise column that the library ranks higher, and the same on unseen rows."""
    assert audit.reported is not None
    assert audit.reported_unseen is not None
    names = list(audit.tested_scores.feature_names)
    reported = dict(zip(names, audit.reported, strict=True))
    noise = max((UNIQUE, BINARY), key=reported.__getitem__)
    below = sorted(name for name in names if reported[name] < reported[noise] and name not in (UNIQUE, BINARY))
    k, rank = names.index(noise), _rank(reported, noise)
    above = f", above {', '.join(below)}" if below else ""
    return (
        f"{noise} has {percent(reported[noise])} of the reported importance: {rank} of {len(names):,} by "
        f"{audit.reported_kind}{above}. On unseen rows it has "
        f"{percent(audit.reported_unseen[k])} of the same."
    )


def _models(seed: int, n_jobs: int) -> list[Any]:
    from lightgbm import LGBMRegressor
    from sklearn.ensemble import RandomForestRegressor
    from xgboost import XGBRegressor

    return [
        RandomForestRegressor(n_estimators=N_TREES, random_state=seed, n_jobs=n_jobs),
        XGBRegressor(n_estimators=N_TREES, learning_rate=0.05, max_depth=4, random_state=seed, n_jobs=n_jobs),
        LGBMRegressor(
            n_estimators=N_TREES,
            learning_rate=0.05,
            importance_type="gain",
            random_state=seed,
            n_jobs=n_jobs,
            verbose=-1,
        ),
    ]


@click.command("demo", cls=Command, examples=["debias demo --html report.html"])
@click.option(
    "--seed", default=0, type=click.IntRange(0, 2**31), show_default=True, help="Seed of noise, split and models."
)
@click.option("--jobs", default=2, callback=threads, show_default=True, help="Number of threads.")
@click.option(
    "--html",
    default="debias-demo.html",
    type=click.Path(dir_okay=False, writable=True),
    show_default=True,
    help="File for the report about the forest.",
)
def command(seed: int, jobs: int, html: str) -> None:
    """Fit three models to real data plus two columns of noise, audit them, and write a report.

    The data are the diabetes data of scikit-learn; nothing is downloaded.
    """
    check_files({}, {"--html": html})
    from debias.results.console import print_table

    console = terminal()
    console.print(
        f"Diabetes data of 442 patients with two columns of random numbers added: {UNIQUE} (a different value in "
        f"every row) and {BINARY}. The tables show the importance that each library reports, and debiased scores "
        "on rows the trees have not seen.\n",
        highlight=False,
    )
    for number, audit in enumerate(demo_audits(seed, jobs)):
        print_table(console, audit)
        first = audit.summary()[: 1 if audit.rest is None else 2]  # the headline, and the other features together
        told = (*first, on_noise(audit), audit.test_summary())
        console.print("".join(f"=> {sentence}\n" for sentence in told), highlight=False)
        if number == 0:
            audit.to_html(html)
    console.print(f"Open the report about the forest in a browser: {os.path.abspath(html)}", highlight=False)


def _rank(shares: Mapping[str, float], name: str) -> str:
    """Return the rank of a share, 1 for the largest. Equal shares have the best of their ranks."""
    rank = 1 + sum(share > shares[name] for share in shares.values())
    tied = sum(share == shares[name] for share in shares.values()) > 1
    return f"{'tied for rank' if tied else 'rank'} {rank:,}"
