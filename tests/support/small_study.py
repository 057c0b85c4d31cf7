"""A benchmark study that takes seconds. It is in a module that worker processes can import."""

from functools import partial

from debias_bench import simulate
from debias_bench.study import Design, Draw, Published, Study, forest


def draw(seed):
    return Draw(simulate.strobl(60, seed=seed), simulate.strobl(60, seed=seed + 1))


STUDY = Study(
    name="small",
    title="A small study",
    source="nowhere",
    designs=tuple(
        Design(
            table="all",
            column=f"leaf {leaf}",
            draw=draw,
            fit=partial(forest, n_estimators=5, min_samples_leaf=leaf),
            stream="s",
            x=leaf,
        )
        for leaf in (1, 10)
    ),
    scorers=("mdi", "mdi_oob", "mdi_oob@held-out", "no_such_plugin"),
    repeats=3,
    measures=("auc", "fwer"),
    picture="dots",
    feature_means=True,
    published=(Published("all", "leaf 1", "mdi", 0.5, 0.1), Published("all", "leaf 1", "theirs", 0.7)),
)
