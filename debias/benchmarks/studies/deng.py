"""The experiments of Deng, Runger and Tuv (2011), section 4."""

from __future__ import annotations

from functools import partial

from debias.benchmarks import simulate
from debias.benchmarks.studies.models import forest
from debias.benchmarks.study import Design, Draw, Study


def study() -> Study:
    """Return the study of Figure 2: scores of attributes with the same signal, different cardinality and noise."""
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
            "5,120 rows. X1 is continuous. X2 to X6 are its discretisations with 64, 8, 2, 8 and 32 values; 30 % of the"
            " rows of X5 and 50 % of those of X6 are permuted. In T2 the Y are like the X. The U are noise. Forests "
            "have 200 trees. Expected: X1 = ... = X4 above X5 above X6 above all U, and equal scores of the U. The "
            "paper shows pictures and no numbers: its random forest (MDI) prefers many values, both among the X and "
            "among the U; OOBForest and pForest keep the expected order."
        ),
    )


def partial_permutation() -> Study:
    """Return the study of the full Algorithm 1: 200 replicates of 200 trees, about a quarter of an hour per scorer."""
    design = Design(
        table="share of replicates above a partly permuted copy",
        column="T1: one attribute",
        draw=partial(_draw, target="T1"),
        fit=partial(forest, n_estimators=200),
        stream="T1",
    )
    return Study(
        name="deng-partial",
        title="How often does an attribute beat a copy with a fifth of its values permuted?",
        source="Deng, Runger and Tuv (2011), Algorithm 1 on the data of section 4",
        designs=(design,),
        scorers=tuple(f"partial_permutation({inner}, replicates=200)" for inner in ("mdi", "mdi_oob")),
        repeats=1,
        measures=("auc", "on_top"),
        picture="means",
        feature_means=True,
        remark=(
            "One data set of `deng`, T1, with 200 replicates, 20 % of the rows permuted, and forests of 200 trees. The "
            "paper's claim: X1 to X4 are near 1, X5 and X6 follow in this order, and all U are near one half. A U can "
            "fall below one half because U1 to U6 are correlated: they share their importance, and a permuted copy "
            "does not share it."
        ),
    )


def _draw(seed: int, *, target: str) -> Draw:
    return Draw(simulate.deng_t1(seed=seed) if target == "T1" else simulate.deng_t2(seed=seed))
