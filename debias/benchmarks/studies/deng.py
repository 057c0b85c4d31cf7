"""The experiments of Deng, Runger and Tuv (2011), section 4."""

from __future__ import annotations

from functools import partial

from debias import simulate
from debias.benchmarks.studies.models import forest
from debias.benchmarks.study import Design, Draw, Study


def study() -> Study:
    """Return Figure 2: scores of attributes that carry one signal at different cardinality and noise."""
    designs = tuple(
        Design(table="order", column=column, draw=partial(_draw, target=target), fit=partial(forest, n_estimators=200),
               stream=target)
        for target, column in (("T1", "T1: one attribute"), ("T2", "T2: an interaction"))
    )  # fmt: skip
    return Study(
        name="deng",
        title="Do attributes of equal information get equal scores?",
        source="Deng, Runger and Tuv (2011), section 4, Figure 2",
        designs=designs,
        scorers=("mdi", "mdi_oob", "ufi", "oob_split", "oob_loss", "oob_forest", "chi_square(form='normalized')"),
        repeats=50,
        measures=("order", "auc", "on_top"),
        picture="means",
        feature_means=True,
        remark=(
            "5,120 rows; X1 is continuous, X2 to X6 its discretisations with 64, 8, 2, 8 and 32 values, 30 % of the"
            " rows of X5 and 50 % of those of X6 permuted; in T2 the Y are like them; the U are noise. Forests of "
            "200 trees. Expected: X1 = ... = X4 above X5 above X6 above all U, and the U equal. The paper gives "
            "pictures, no numbers: its random forest (MDI) prefers many values among X and U alike, OOBForest and "
            "pForest keep the order."
        ),
    )


def _draw(seed: int, *, target: str) -> Draw:
    return Draw(simulate.deng_t1(seed=seed) if target == "T1" else simulate.deng_t2(seed=seed))
