"""The experiments of Hong, Hosking and Winograd (1996), sections 2 and 4."""

from __future__ import annotations

from functools import partial

from debias.benchmarks import simulate
from debias.benchmarks.study import Design, Draw, Published, Study

VERDICTS = {"A": (1, 1, 1, 1), "B": (0, 1, 0, 1), "C": (0, 1, 0, 1)}
"""Whether the ranking succeeds in the single draw of Table 2, for CM0, NCM0, CM1, NCM1."""
COLUMN = "EXOR(3, 10, 200)"


def contextual() -> Study:
    """Return the study of Table 2: contextual merits on exclusive-or problems."""
    designs, published = [], []
    for case, verdicts in VERDICTS.items():
        scorers = tuple(
            f"contextual_merit(weights={weights!r}, form={form!r}, threshold={0.3333 if case == 'C' else 0.5})"
            for weights in ("CM0", "CM1")
            for form in ("merit", "normalized")
        )
        design = Design(
            table=f"case {case}",
            column=COLUMN,
            draw=partial(_exor, case="A" if case == "A" else "B"),
            fit=None,
            stream="exor",
            scorers=scorers,
        )
        designs.append(design)
        published += [
            Published(design.table, COLUMN, scorer, verdict, float("inf"), "on_top", "paper, one draw")
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
