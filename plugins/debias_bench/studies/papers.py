"""The experiments of Hong et al. (1996), Deng et al. (2011), Loh and Zhou (2020) and Agarwal et al. (2023)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from debias_bench import simulate
from debias_bench.simulate._agarwal import RESPONSES
from debias_bench.simulate._loh import MISSING
from debias_bench.study import Design, Draw, Published, Study, forest

if TYPE_CHECKING:
    import pandas as pd

SUCCEEDS = {"A": (1, 1, 1, 1), "B": (0, 1, 0, 1), "C": (0, 1, 0, 1)}
"""Whether the ranking succeeds in the single draw of Table 2, for CM0, NCM0, CM1, NCM1."""
EXOR = "EXOR(3, 10, 200)"


def hong() -> Study:
    """Return the study of Table 2: contextual merits on exclusive-or problems."""
    designs, published = [], []
    for case, verdicts in SUCCEEDS.items():
        scorers = tuple(
            f"contextual_merit(weights={weights!r}, form={form!r}, threshold={0.3333 if case == 'C' else 0.5})"
            for weights in ("CM0", "CM1")
            for form in ("merit", "normalized")
        )
        design = Design(
            table=f"case {case}",
            column=EXOR,
            draw=partial(_exor, case="A" if case == "A" else "B"),
            fit=None,
            stream="exor",
            scorers=scorers,
        )
        designs.append(design)
        published += [
            Published(design.table, EXOR, scorer, verdict, float("inf"), "on_top", "paper, one draw")
            for scorer, verdict in zip(scorers, verdicts, strict=True)
        ]
    return Study(
        name="hong",
        title="Which merits find the three variables of an exclusive or?",
        source="Hong, Hosking and Winograd (1996), section 4, Table 2",
        designs=tuple(designs),
        scorers=(),
        repeats=100,
        measures=("on_top", "auc"),
        picture="dots",
        published=tuple(published),
        remark=(
            "EXOR(3, 10, 200): the class is the parity of X1, X2, X3; R1 to R10 are noise. A: all variables are binary."
            " B: X3 and R1 to R4 are made numeric, and two numbers count as different if they differ by half of the "
            "range or more. C: as B, with a third of the range. A ranking succeeds if X1, X2, X3 all rank above R1 to "
            "R10. The paper's verdict is from one draw."
        ),
    )


def merits() -> Study:
    """Return the study of merits of single features, without and with correction for the number of values."""
    forms = ("merit", "normalized")
    names = ("gini_merit", "entropy_merit", "chi_square")
    return Study(
        name="merits",
        title="Do merits of a single feature grow with its number of values?",
        source="Hong, Hosking and Winograd (1996), sections 1 and 2, on the data of Li et al. (2019), first simulation",
        designs=(
            Design(table="scores", column="all noise", draw=partial(_strobl, null=True), fit=None, stream="noise"),
            Design(table="scores", column="X2 matters", draw=partial(_strobl, null=False), fit=None, stream="signal"),
        ),
        scorers=(
            *(f"{name}(form={form!r})" for name in names for form in forms),
            *(
                f"{name}(form={form!r})"
                for name in ("gain_ratio", "symmetric_uncertainty")
                for form in ("merit", "excess")
            ),
            "chi_square(form='log_p')",
        ),
        repeats=200,
        measures=("first",),
        picture="means",
        feature_means=True,
        remark=(
            "200 rows, two classes. X1 is continuous, with a branch for every value; X2 has 2 values; X3, X4, X5 "
            "have 4, 10 and 20. `merit` is the uncorrected score, `normalized` is the score divided by its exact mean "
            "for noise (1 for noise), and `excess` is the score minus that mean (0 for noise)."
        ),
    )


def _exor(seed: int, *, case: str) -> Draw:
    return Draw(simulate.hong_case(case, seed=seed))


def _strobl(seed: int, *, null: bool) -> Draw:
    return Draw(simulate.strobl(null=null, seed=seed))


def deng() -> Study:
    """Return the study of Figure 2: scores of attributes with the same signal, different cardinality and noise."""
    designs = tuple(
        Design(table="order", column=column, draw=partial(_deng, target=target), fit=partial(forest, n_estimators=200),
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


def deng_partial() -> Study:
    """Return the study of the full Algorithm 1: 200 replicates of 200 trees, about a quarter of an hour per scorer."""
    design = Design(
        table="share of replicates above a partly permuted copy",
        column="T1: one attribute",
        draw=partial(_deng, target="T1"),
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


def _deng(seed: int, *, target: str) -> Draw:
    return Draw(simulate.deng_t1(seed=seed) if target == "T1" else simulate.deng_t2(seed=seed))


LOH_SCORERS = ("mdi", "mdi_oob", "ufi", "oob_split", "oob_loss", "honest_splits", "guide")
LOH_DATA = (
    "400 rows and eleven variables: B1, B2 are binary; C1, C2 are categories 1 to 10 (passed to the forest as numbers);"
    " N1 to N4 are normal, and N2, N3, N4 have correlation .9; S1, S2, S3 are positive with sum 1. The noise is "
    "standard normal. Forests have 100 trees and scikit-learn's defaults."
)


def loh_null() -> Study:
    """Return the study of Figure 3: mean scores if no variable matters."""
    return Study(
        name="loh-null",
        title="Which scores are equal where nothing matters?",
        source="Loh and Zhou (2020), section 4, model E0, Figure 3",
        designs=(_loh_design("E0", "scores", "y is noise"),),
        scorers=LOH_SCORERS,
        repeats=200,
        measures=("fwer",),
        picture="means",
        feature_means=True,
        remark=(
            f"{LOH_DATA} An unbiased score has overlapping bars. The paper calls a score unbiased if its means are "
            "equal. Of its twelve methods, CFOREST2, CTREE, GUIDE and RANGER have equal means; RF and BARTM prefer the "
            "correlated N2 to N4; GBM, RLT and RPART prefer the categorical C1 and C2. The paper ran 1000 trials."
        ),
    )


def loh_power() -> Study:
    """Return the study of Figures 4 to 8: scores if one or two variables matter."""
    means = {"E1": ".2 N2", "E2": ".1 (N1 + N2)", "E3": ".2 B1", "E4": ".2 B2", "E5": ".5 at B1 x C1"}
    return Study(
        name="loh-power",
        title="Which scores put the variables that matter first?",
        source="Loh and Zhou (2020), section 4, models E1 to E5, Figures 4 to 8",
        designs=tuple(_loh_design(model, "models", f"{model}: {mean}") for model, mean in means.items()),
        scorers=LOH_SCORERS,
        repeats=200,
        measures=("first", "auc", "on_top", "order", "found"),
        picture="boxes",
        remark=(
            f"{LOH_DATA} Variables that affect y, directly or by correlation, are red. The paper shows boxplots and no "
            "numbers: in its E1, all methods except GBM give N2, N3, N4 the highest medians; in E3 and E4, methods "
            "with a bias against binary variables miss B1 and B2; E5 is an interaction of B1 and C1. The paper ran "
            "1000 trials."
        ),
    )


def loh_missing() -> Study:
    """Return the study of section 7: scores of noise with 0 to 95 % of the values of some variables missing."""
    shares = ", ".join(f"{name} {share:.0%}" for name, share in MISSING.items())
    return Study(
        name="loh-missing",
        title="Do missing values move the scores?",
        source="Loh and Zhou (2020), section 7, on models E0 and E1",
        designs=(
            _loh_design("E0", "scores", "E0 with missing values", True),
            _loh_design("E1", "scores", "E1 with missing values", True),
        ),
        scorers=LOH_SCORERS,
        repeats=200,
        measures=("first", "auc"),
        picture="means",
        feature_means=True,
        remark=(
            f"{LOH_DATA} Values missing completely at random: {shares}. The paper uses survey data that is not public; "
            "on these, only GUIDE has equal means."
        ),
    )


def _loh_design(model: str, table: str, column: str, missing: bool = False) -> Design:
    return Design(
        table=table,
        column=column,
        draw=partial(_loh, model=model, missing=missing),
        fit=forest,
        stream=f"{model} {'missing' if missing else ''}",
    )


def _loh(seed: int, *, model: str, missing: bool) -> Draw:
    return Draw(simulate.loh_missing(model, seed=seed) if missing else simulate.loh(model, seed=seed))


EXPLAINED = (0.1, 0.2, 0.4, 0.8)
CORRELATION = 0.8


def mdi_plus(X: pd.DataFrame | None = None) -> Study:
    """Return the study: four responses, four shares of explained variance, AUC of relevant against other features."""
    covariates: dict[str, float] = (
        {"independent": 0.0, "correlated": CORRELATION} if X is None else {"real matrix": 0.0}
    )
    designs = tuple(
        Design(
            table=f"{response}, {kind}",
            column=f"PVE {pve:g}",
            draw=partial(_agarwal, response=response, pve=pve, X=X, correlation=correlation),
            fit=partial(forest, max_features=1 / 3, min_samples_leaf=5),
            stream=f"{response} {kind} {pve}",
        )
        for kind, correlation in covariates.items()
        for response in RESPONSES
        for pve in EXPLAINED
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


def _agarwal(seed: int, *, response: str, pve: float, X: pd.DataFrame | None, correlation: float) -> Draw:
    return Draw(simulate.agarwal(response, pve, X=X, correlation=correlation, seed=seed))
