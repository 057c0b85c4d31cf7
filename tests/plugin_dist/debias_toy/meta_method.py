import numpy as np

import debias
from debias.retraining.replicates import child_seed, replicate


@debias.plugin.meta_method_plugin(
    "beats_chance", unit="share of permuted responses beaten by: {unit}", gives=debias.plugin.Gives.NULL
)
def beats_chance(inner, problem, *, replicates=20):
    values, _ = problem.score(inner)
    drawn = replicate(by_chance, inner, problem, n=replicates, seed=problem.seed or 0, engine=problem.engine)
    beaten = (values > drawn.values).mean(axis=0)
    return beaten, {**drawn.report(), "null": drawn.values, "unadjusted": values.tolist()}


def by_chance(inner, problem, child):  # at the top level of a module: other processes import it
    permuted = problem.permuted(np.random.default_rng(child))
    return permuted.inside(child_seed(child)).score(inner)[0]


@debias.plugin.hookimpl
def debias_meta_methods():
    return [beats_chance]
