"""Simulated data of the papers, with the truth: which features matter, and in which order.

Every generator takes one ``seed`` and returns a :class:`Simulation`; the same seed gives the same bytes. ``null=True``
permutes the response at the end. This keeps its distribution and makes it independent of all features.

>>> from debias_bench import simulate
>>> drawn = simulate.loh("E3", seed=0)
>>> drawn.X.shape, drawn.relevant
((400, 11), ('B1',))
"""

from debias_bench.simulate._agarwal import agarwal
from debias_bench.simulate._deng import deng_t1, deng_t2
from debias_bench.simulate._hong import hong_case, hong_exor, rannum
from debias_bench.simulate._li import chip_style, li, shapes, strobl
from debias_bench.simulate._loh import loh, loh_missing
from debias_bench.simulate._simulation import Simulation

__all__ = [
    "Simulation",
    "agarwal",
    "chip_style",
    "deng_t1",
    "deng_t2",
    "hong_case",
    "hong_exor",
    "li",
    "loh",
    "loh_missing",
    "rannum",
    "shapes",
    "strobl",
]
