"""The real parameter server and a private Valkey, and what they take."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from benchmarks.measuring import TICKS_PER_S
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE, LOOPBACK
from chimbuko.runtime.protocol.messages import Seal
from chimbuko.runtime.protocol.runbroker import RunKeys

RUN_ID = "benchmark"
KEYS, SEAL = RunKeys(RUN_ID), Seal(RUN_ID)


class Services:
    """A private broker and the parameter server, on one core."""

    def __init__(self, folder: Path, cores: Iterable[int]) -> None:
        self._folder = folder
        self._cores = set(cores)
        self.broker = PrivateBroker(folder / "broker.log", address=LOOPBACK)

    def __enter__(self) -> Self:
        self.broker.start()
        words = ["--run-id", RUN_ID, "--state", str(self._folder / "server.state")]
        secret = {BROKER_VARIABLE: self.broker.url}
        self.server = Service("pserver", "chimbuko.pserver", words, secret, self._folder)
        self.server.wait_ready()
        for pid in self.pids:
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), self._cores)
        return self

    def __exit__(self, *exception: object) -> None:
        self.server.stop(30.0)
        self.broker.stop()

    @property
    def pids(self) -> tuple[int, int]:
        """Server and broker."""
        return self.server.process.pid, self.broker.pid

    def cpu_s(self) -> tuple[float, float]:
        """CPU time so far of server and broker, user and system."""
        server, broker = map(cpu_seconds_of, self.pids)
        return server, broker

    def memory_mb(self) -> tuple[float, float]:
        """Proportional memory of server and broker."""
        server, broker = map(pss_mb, self.pids)
        return server, broker


def cpu_seconds_of(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def pss_mb(pid: int) -> float:
    """Proportional memory of a process."""
    found = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def cores_apart() -> tuple[set[int], set[int]]:
    """For the agents, and for server and broker; the same ones where there is one only."""
    cores = sorted(os.sched_getaffinity(0))
    return {cores[0]}, {cores[-1]}
