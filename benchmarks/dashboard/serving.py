"""The dashboard of a run in a process of its own, as ``chimbuko view`` and ``run`` start it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from benchmarks.measuring import cpu_of, descendants
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.runs.directory import RunDirectory

TOKEN = "of-a-benchmark"


class Dashboard:
    """The server of a run's dashboard.

    Parameters
    ----------
    broker_url
        Where the run's frames are; None for a run that has ended.
    """

    def __init__(self, run: RunDirectory, broker_url: str | None = None) -> None:
        self.run = run
        self._broker_url = broker_url

    def __enter__(self) -> Self:
        secrets = {"CHIMBUKO_TOKEN": TOKEN}
        if self._broker_url is not None:
            secrets[BROKER_VARIABLE] = self._broker_url
        words = ["--run-dir", str(self.run.path)]
        self._service = Service("dashboard", "chimbuko.viz", words, secrets, self.run.logs)
        self.url: str = self._service.wait_ready()["url"]
        return self

    def __exit__(self, *exception: object) -> None:
        self._service.stop(10.0)

    @property
    def base(self) -> str:
        """Its address, without the token."""
        return self.url.partition("?")[0]

    def cpu_s(self) -> float:
        """CPU time so far of its processes."""
        pid = self._service.process.pid
        return cpu_of([pid, *(process.pid for process in descendants(pid))])


@contextmanager
def scratch(folder: Path | None = None) -> Iterator[Path]:
    """A folder for what a benchmark makes, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="chimbuko-benchmark-", dir=folder) as made:
        yield Path(made)
