"""Merging rows of statistics tables, compiled; wrapped by ``chimbuko.core.statistics``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chimbuko.core.kernels.declare import kernel
from chimbuko.core.kernels.rules import MOMENTS_WIDTH, RULE_ADD, RULE_MIN, RULE_MOMENTS


@kernel
def merge_moments(into: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> None:
    """Merge moments ``other``, float64[7], into ``into``, float64[7], in place.

    Pébay, SAND2008-6212, equations 2.1 (mean, M2) and 3.1 (M3, M4). Merging with n = 0 is the identity.
    """
    n_b = other[0]
    if n_b == 0.0:
        return
    n_a = into[0]
    if n_a == 0.0:
        for i in range(7):
            into[i] = other[i]
        return
    n = n_a + n_b
    delta = other[1] - into[1]
    delta_n = delta / n
    delta_n2 = delta_n * delta_n
    m2_a, m2_b = into[2], other[2]
    m3_a, m3_b = into[3], other[3]
    into[4] += (
        other[4]
        + delta * delta_n2 * delta_n * n_a * n_b * (n_a * n_a - n_a * n_b + n_b * n_b)
        + 6.0 * delta_n2 * (n_a * n_a * m2_b + n_b * n_b * m2_a)
        + 4.0 * delta_n * (n_a * m3_b - n_b * m3_a)
    )
    into[3] = (
        m3_a + m3_b + delta * delta_n2 * n_a * n_b * (n_a - n_b) + 3.0 * delta_n * (n_a * m2_b - n_b * m2_a)
    )
    into[2] = m2_a + m2_b + delta * delta_n * n_a * n_b
    into[1] += delta_n * n_b
    into[0] = n
    if other[5] < into[5]:
        into[5] = other[5]
    if other[6] > into[6]:
        into[6] = other[6]


@kernel
def add_value(into: npt.NDArray[np.float64], x: float) -> None:
    """Add one value to moments ``into``, float64[7], in place. Pébay, SAND2008-6212, equation 3.1 with n_B =
    1.
    """
    n_a = into[0]
    n = n_a + 1.0
    delta = x - into[1]
    delta_n = delta / n
    delta_n2 = delta_n * delta_n
    term = delta * delta_n * n_a
    into[0] = n
    into[1] += delta_n
    into[4] += term * delta_n2 * (n * n - 3.0 * n + 3.0) + 6.0 * delta_n2 * into[2] - 4.0 * delta_n * into[3]
    into[3] += term * delta_n * (n - 2.0) - 3.0 * delta_n * into[2]
    into[2] += term
    if x < into[5]:
        into[5] = x
    if x > into[6]:
        into[6] = x


@kernel
def merge_rows(
    into: npt.NDArray[np.float64],
    rows: npt.NDArray[np.int64],
    other: npt.NDArray[np.float64],
    starts: npt.NDArray[np.int64],
    widths: npt.NDArray[np.int64],
    rules: npt.NDArray[np.int64],
) -> None:
    """Merge ``other[i]`` into ``into[rows[i]]`` for all i, column by column.

    ``into`` is float64[rows, width], ``rows`` int64[n], ``other`` float64[n, width]; ``starts``, ``widths``
    and ``rules``, int64[columns], are the begin of each column, its width, and its rule of merging.
    """
    for i in range(len(rows)):
        target = into[rows[i]]
        source = other[i]
        for c in range(len(starts)):
            at = starts[c]
            rule = rules[c]
            if rule == RULE_MOMENTS:
                merge_moments(target[at : at + MOMENTS_WIDTH], source[at : at + MOMENTS_WIDTH])
            elif rule == RULE_ADD:
                for cell in range(at, at + widths[c]):
                    target[cell] += source[cell]
            elif rule == RULE_MIN:
                for cell in range(at, at + widths[c]):
                    target[cell] = min(target[cell], source[cell])
            else:
                for cell in range(at, at + widths[c]):
                    target[cell] = max(target[cell], source[cell])


@kernel
def add_cells(
    into: npt.NDArray[np.float64],
    rows: npt.NDArray[np.int64],
    begin: int,
    counts: npt.NDArray[np.uint16],
    cells: npt.NDArray[np.uint16],
    values: npt.NDArray[np.float64],
) -> None:
    """Add sparse rows: of row i the next ``counts[i]`` numbers of ``values`` go to ``into[rows[i]]``.

    ``into`` is float64[rows, width]; ``rows`` int64[n]; ``counts`` uint16[n]; ``cells``, uint16[m], are
    columns counted from ``begin``; ``values`` is float64[m].
    """
    at = 0
    for i in range(len(rows)):
        target = into[rows[i]]
        for _ in range(counts[i]):
            target[begin + cells[at]] += values[at]
            at += 1
