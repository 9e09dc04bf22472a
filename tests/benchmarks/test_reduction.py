"""How much smaller what is stored is than the trace: bytes, which no other work on the machine changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reduction import results

FLOOR = 20
"""Bytes of trace per byte stored, at one abnormal call in a thousand; a hundred in runs that are longer, as a
third of it here is the runtimes of 4,096 call paths."""


@pytest.mark.thorough
def test_a_short_trace_is_reduced_manyfold(tmp_path: Path) -> None:
    (result,) = results(rows=400_000, rows_per_step=100_000, traces=None, folder=tmp_path)
    assert 0.0005 < result.anomalies / result.calls < 0.002
    assert result.reduction > FLOOR
    if result.parts:
        assert sum(result.parts.values()) == result.stored_bytes
