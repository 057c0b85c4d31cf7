"""Simulated data of the papers, with the truth: which features matter, and in which order.

Every generator takes one ``seed`` and returns a :class:`Simulation`; the same seed gives the same bytes. ``null=True``
permutes the response at the end. This keeps its distribution and makes it independent of all features.

>>> from debias import simulate
>>> drawn = simulate.loh("E3", seed=0)
>>> drawn.X.shape, drawn.relevant
((400, 11), ('B1',))
"""

from debias.benchmarks.simulate._agarwal import agarwal
from debias.benchmarks.simulate._deng import deng_t1, deng_t2
from debias.benchmarks.simulate._hong import hong_case, hong_exor, rannum
from debias.benchmarks.simulate._li import chip_style, li, strobl
from debias.benchmarks.simulate._loh import loh, loh_missing
from debias.benchmarks.simulate._shapes import shapes
from debias.benchmarks.simulate._simulation import Simulation

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
