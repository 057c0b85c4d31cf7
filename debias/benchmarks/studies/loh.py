"""The experiments of Loh and Zhou (2020), sections 4 and 7."""

from __future__ import annotations

from functools import partial

from debias.benchmarks import simulate
from debias.benchmarks.studies.models import forest
from debias.benchmarks.study import Design, Draw, Study

SCORERS = ("mdi", "mdi_oob", "ufi", "oob_split", "oob_loss", "honest_splits", "guide")
DATA = (
    "400 rows and eleven variables: B1, B2 are binary; C1, C2 are categories 1 to 10 (passed to the forest as numbers);"
    " N1 to N4 are normal, and N2, N3, N4 have correlation .9; S1, S2, S3 are positive with sum 1. The noise is "
    "standard normal. Forests have 100 trees and scikit-learn's defaults."
)


def null() -> Study:
    """Return the study of Figure 3: mean scores if no variable matters."""
    return Study(
        name="loh-null",
        title="Which scores are equal where nothing matters?",
        source="Loh and Zhou (2020), section 4, model E0, Figure 3",
        designs=(_design("E0", "scores", "y is noise"),),
        scorers=SCORERS,
        repeats=200,
        measures=("fwer",),
        picture="means",
        feature_means=True,
        remark=(
            f"{DATA} An unbiased score has overlapping bars. The paper calls a score unbiased if its means are equal. "
            "Of its twelve methods, CFOREST2, CTREE, GUIDE and RANGER have equal means; RF and BARTM prefer the "
            "correlated N2 to N4; GBM, RLT and RPART prefer the categorical C1 and C2. The paper ran 1000 trials."
        ),
    )


def power() -> Study:
    """Return the study of Figures 4 to 8: scores if one or two variables matter."""
    means = {"E1": ".2 N2", "E2": ".1 (N1 + N2)", "E3": ".2 B1", "E4": ".2 B2", "E5": ".5 at B1 x C1"}
    return Study(
        name="loh-power",
        title="Which scores put the variables that matter first?",
        source="Loh and Zhou (2020), section 4, models E1 to E5, Figures 4 to 8",
        designs=tuple(_design(model, "models", f"{model}: {mean}") for model, mean in means.items()),
        scorers=SCORERS,
        repeats=200,
        measures=("first", "auc", "on_top", "order", "found"),
        picture="boxes",
        remark=(
            f"{DATA} Variables that affect y, directly or by correlation, are red. The paper shows boxplots and no "
            "numbers: in its E1, all methods except GBM give N2, N3, N4 the highest medians; in E3 and E4, methods "
            "with a bias against binary variables miss B1 and B2; E5 is an interaction of B1 and C1. The paper ran "
            "1000 trials."
        ),
    )


def missing() -> Study:
    """Return the study of section 7: scores of noise with 0 to 95 % of the values of some variables missing."""
    shares = ", ".join(f"{name} {share:.0%}" for name, share in simulate._loh.MISSING.items())
    return Study(
        name="loh-missing",
        title="Do missing values move the scores?",
        source="Loh and Zhou (2020), section 7, on models E0 and E1",
        designs=(
            _design("E0", "scores", "E0 with missing values", True),
            _design("E1", "scores", "E1 with missing values", True),
        ),
        scorers=SCORERS,
        repeats=200,
        measures=("first", "auc"),
        picture="means",
        feature_means=True,
        remark=(
            f"{DATA} Values missing completely at random: {shares}. The paper uses survey data that is not public; on "
            "these, only GUIDE has equal means."
        ),
    )


def _design(model: str, table: str, column: str, missing: bool = False) -> Design:
    return Design(
        table=table,
        column=column,
        draw=partial(_loh, model=model, missing=missing),
        fit=forest,
        stream=f"{model} {'missing' if missing else ''}",
    )


def _loh(seed: int, *, model: str, missing: bool) -> Draw:
    return Draw(simulate.loh_missing(model, seed=seed) if missing else simulate.loh(model, seed=seed))
