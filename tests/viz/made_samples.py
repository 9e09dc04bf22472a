"""Samples of a node of the made run: two ranks that share cores, and an idle one."""

from __future__ import annotations

import numpy as np

from chimbuko.monitor.sampling.nodebatch import NodeBatch, NodeFinding, NodePart, ThreadName
from chimbuko.monitor.sampling.rows import CORE, GPU, NODE, THREAD

NODE_NAME = "node0"
_FOUND = NodeFinding("oversubscribed", "2 threads of 2 processes share 1 core (0)", "start 1 rank here")
_PARTS = [
    NodePart(0, "Machine", 0, 0, "0-1", 1 << 34),
    NodePart(1, "NUMANode", 0, 0, "0-1", 1 << 34),
    NodePart(1, "Core", 0, 0, "0", None),
    NodePart(2, "PU", 0, 0, "0", None),
    NodePart(1, "Core", 1, 1, "1", None),
    NodePart(2, "PU", 1, 1, "1", None),
]
SUMS = 4


def samples(begin_us: int, length_us: int) -> list[NodeBatch]:
    """Sums over an interval, in equal parts."""
    part_us = length_us // SUMS
    return [_sum(number, begin_us + number * part_us, part_us) for number in range(SUMS)]


def _sum(number: int, begin_us: int, length_us: int) -> NodeBatch:
    half = length_us // 2
    threads = np.zeros(2, THREAD)
    threads["begin_us"], threads["length_us"], threads["state"] = begin_us, length_us, b"R"
    threads["pid"] = threads["tid"] = (100, 101)
    threads["ran_us"], threads["waited_us"], threads["system_us"] = half, half // 2, half // 4
    cores = [
        (begin_us, length_us, cpu, busy_us, 0, length_us - busy_us, 0, busy_us)
        for cpu, busy_us in ((0, length_us), (1, 0))
    ]
    return NodeBatch(
        NODE_NAME,
        number + 1,
        True,
        begin_us,
        begin_us + length_us,
        [ThreadName(100 + rank, 100 + rank, "heat2d", 0, rank, 0, "0") for rank in range(2)],
        threads.tobytes(),
        np.array(cores, CORE).tobytes(),
        states=np.array([(begin_us, length_us, 1 << 34, 1 << 33, 0, 0, 0, 0, 0, 0)], NODE).tobytes(),
        gpus=_gpu(number, begin_us, length_us).tobytes(),
        findings=[_FOUND] if number % 2 else [],
        parts=[] if number else _PARTS,
    )


def _gpu(number: int, begin_us: int, length_us: int) -> np.ndarray:
    """One that computes half of the time, and is slowed down in each second sum."""
    row = (begin_us, length_us, 0, 100, 0, length_us // 2, length_us * (number % 2))
    of_memory, energy_mj = (30 * 10**9, 80 * 10**9), 300 * length_us // 1000
    return np.array([(*row, *of_memory, energy_mj, 70, b"Made 100")], GPU)
