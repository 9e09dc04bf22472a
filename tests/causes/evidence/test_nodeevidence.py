"""Rows of a node by thread and time, beside the obvious way to look for them, and letting go of the past."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.causes.evidence.nodeevidence import NodeEvidence
from chimbuko.monitor.sampling.nodebatch import NodeBatch, ThreadName
from chimbuko.monitor.sampling.rows import THREAD, Rows, overlapping

TIDS = (3, 5, 8)
_row = st.tuples(st.integers(0, 60), st.integers(1, 20), st.sampled_from(TIDS))
_batches = st.lists(st.lists(_row, max_size=12), max_size=6)


def made(values: list[tuple[int, int, int]]) -> Rows:
    rows = np.zeros(len(values), THREAD)
    for name, column in zip(("begin_us", "length_us", "tid"), zip(*values, strict=True), strict=False):
        rows[name] = column
    return rows


@given(_batches, st.integers(0, 70), st.integers(1, 20), st.integers(0, 40))
def test_threads_have_the_rows_of_an_interval(
    found: list[list[tuple[int, int, int]]], begin_us: int, length_us: int, forgotten_us: int
) -> None:
    evidence = NodeEvidence()
    names = [ThreadName(1, tid, f"thread {tid}", 0, 0, -1) for tid in TIDS]
    for number, values in enumerate(found):
        batch = NodeBatch("n", number, False, 0, 90, names, threads=made(values).tobytes())
        assert evidence.add(batch)
        assert not evidence.add(batch), "it is known"
    kept = made([value for values in found for value in values])
    for time_us in (0, forgotten_us):
        evidence.forget_before(time_us)
        kept = kept[kept["begin_us"] >= time_us]
        for first_us, last_us in ((begin_us, begin_us + length_us), (0, 90)):
            expected = overlapping(kept, first_us, last_us)
            seen = {name.tid: rows for name, rows in evidence.threads("n", first_us, last_us)}
            for tid in TIDS:
                own = np.sort(expected[expected["tid"] == tid])
                assert np.array_equal(np.sort(seen.get(tid, own[:0])), own)


def test_what_ended_before_what_is_forgotten_is_not_taken_again() -> None:
    evidence = NodeEvidence()
    batch = NodeBatch("n", 1, False, 0, 90, [], threads=made([(0, 90, 3)]).tobytes())
    assert evidence.add(batch)
    evidence.forget_before(91)
    assert not evidence.add(batch)
