"""Processes that are none of the run's and ran on a node meanwhile, as far as it was looked for them."""

from __future__ import annotations

from collections import Counter

import msgspec

from chimbuko.monitor.samples.intervals import overlapping, overlaps_us
from chimbuko.provenance.nodes.nodelanes import PERIODS_BELOW_US
from chimbuko.provenance.nodes.nodesamples import NodeSamples
from chimbuko.provenance.query.reader import RunReader


class OtherProcess(msgspec.Struct, frozen=True):
    """One of them."""

    name: str
    user: str
    pid: int
    ran_us: float
    """In the time in question: of a sample that is longer a part like that of its time."""


def other_processes(reader: RunReader, node: str, begin_us: int, end_us: int) -> list[OtherProcess]:
    """Those that ran in an interval, most first.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    samples = NodeSamples(reader)
    # Around abnormal calls they were looked for more often.
    levels = [False, True] if end_us - begin_us < PERIODS_BELOW_US else [True]
    for is_sum in levels:
        ran_us: Counter[tuple[str, str, int]] = Counter()
        for batch in samples.batches(begin_us, end_us, is_sum=is_sum, node=node):
            if not batch.is_known:
                continue
            rows = overlapping(batch.other_rows(), begin_us, end_us)
            for row, inside_us in zip(rows, overlaps_us(rows, begin_us, end_us).tolist(), strict=True):
                name, user = (row[what].decode(errors="replace") for what in ("name", "user"))
                ran_us[name, user, int(row["pid"])] += (
                    float(row["ran_us"]) * inside_us / max(1, row["length_us"])
                )
        if ran_us:
            return [OtherProcess(*who, float(us)) for who, us in ran_us.most_common() if us > 0]
    return []
