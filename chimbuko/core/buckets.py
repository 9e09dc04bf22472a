"""Buckets in which runtimes are counted: eight per doubling, 6 to 12 % wide, from 1 µs to 38 hours.

They are apart from the loops over them, so that whoever only reads counts loads no compiled code.
"""

from __future__ import annotations

import numpy as np

PER_DOUBLING = 8
DOUBLINGS = 37
BUCKETS = PER_DOUBLING * DOUBLINGS + 1
"""Number of buckets: bucket 0 holds runtimes below 1 µs, the last one all that are too long for the others.
"""

EDGES_US = np.array(
    [0.5] + [2.0**power * (1 + part / PER_DOUBLING) for power in range(DOUBLINGS) for part in range(8)]
    + [2.0**DOUBLINGS]
)  # fmt: skip
"""Edges of the buckets in µs, float64[BUCKETS + 1]: bucket b holds runtimes from edge b up to edge b + 1.

Half a µs stands for less than 1.
"""
LN_EDGES = np.log(EDGES_US)
for _edges in (EDGES_US, LN_EDGES):
    # Read-only, as kernels see global arrays: both are one type, for which kernels are compiled once.
    _edges.flags.writeable = False
