"""The regression simulations of Agarwal, Kenney, Tan, Tang and Yu (2023), MDI+."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from debias.benchmarks import simulate
from debias.benchmarks.simulate._agarwal import RESPONSES
from debias.benchmarks.studies.models import forest
from debias.benchmarks.study import Design, Draw, Study

if TYPE_CHECKING:
    import pandas as pd

PVE = (0.1, 0.2, 0.4, 0.8)
CORRELATION = 0.8


def study(X: pd.DataFrame | None = None) -> Study:
    """Return the study: four responses, four shares of explained variance, AUC of relevant against other features."""
    covariates: dict[str, float] = (
        {"independent": 0.0, "correlated": CORRELATION} if X is None else {"real matrix": 0.0}
    )
    designs = tuple(
        Design(
            table=f"{response}, {kind}",
            column=f"PVE {pve:g}",
            draw=partial(_draw, response=response, pve=pve, X=X, correlation=correlation),
            fit=partial(forest, max_features=1 / 3, min_samples_leaf=5),
            stream=f"{response} {kind} {pve}",
        )
        for kind, correlation in covariates.items()
        for response in RESPONSES
        for pve in PVE
    )
    return Study(
        name="mdi-plus",
        title="Which scores find the signal in the simulations of MDI+?",
        source="Agarwal et al. (2023), regression simulations",
        designs=designs,
        scorers=(
            "mdi", "mdi_plus", "permutation", "shap@train", "|correlation|",
            "mdi_oob", "honest_splits", "honest_effects",
        ),
        repeats=10,
        measures=("auc",),
        picture="dots",
        remark=(
            "250 rows, forests of 100 trees with leaves of 5 rows or more and a third of the features tried at each "
            "split, as in the paper. *linear*: the sum of five features; *lss*: three products of two indicators "
            "x > 0; *polynomial*: x_a + x_b + x_a x_b for three pairs; *linear + lss*: both for three pairs. PVE is "
            "the share of the variance of y that the mean explains. The paper has real matrices (pass one with "
            "--data) and, for its study of correlation, normal features. Here these are 100 normal features, "
            f"*independent*, or with a correlation of {CORRELATION:g} among the 25 that include the relevant ones "
            "(*correlated*); the other features of this block count as noise, as in the paper. `mdi_plus` is MDI+ of "
            "the package imodels with its defaults, `--scorers boruta` adds a restated Boruta. CPI "
            "is an R package and is left out."
        ),
    )  # fmt: skip


def _draw(seed: int, *, response: str, pve: float, X: pd.DataFrame | None, correlation: float) -> Draw:
    return Draw(simulate.agarwal(response, pve, X=X, correlation=correlation, seed=seed))
