"""Two runs at the same time on services that the user brings along, and that are killed once meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.runbroker import RunKeys
from tests.calldata import no_loss
from tests.cluster import Cluster
from tests.integration.conftest import AGENT, SERVER, Run, Start
from tests.integration.faults import kill
from tests.integration.marked import RANKS, STEPS
from tests.integration.test_faults import assert_nothing_lost
from tests.postgresql import PostgresqlServer

LIVE = ("--pace", "1.25", "--period", "0.2", "--no-dashboard", "--transport", "files")


class SharedBroker:
    """One server."""

    def __init__(self, folder: Path) -> None:
        self._broker = PrivateBroker(folder / "shared.log")
        self._broker.start()
        self.options = ["--broker", self._broker.url]

    def kill(self, runs: list[Run]) -> None:
        """It comes back empty."""
        self._broker.stop()
        self._broker.start()

    def assert_left_clean(self, runs: list[Run]) -> None:
        """Nothing of either run stays."""
        with connect(self._broker.url) as client:
            assert client.keys("*") == []

    def stop(self) -> None:
        self._broker.stop()


class SharedCluster:
    """Three servers, any of which may have the keys of a run."""

    def __init__(self, folder: Path) -> None:
        self._cluster = Cluster(folder, 3)
        self.options = ["--broker", self._cluster.urls[0]]

    def kill(self, runs: list[Run]) -> None:
        """Those that have the keys of the runs come back empty, one after the other."""
        for number in {self._cluster.place_of(RunKeys(run.info.id).programs) for run in runs}:
            node = self._cluster.nodes[number]
            node.kill()
            node.start()
            self._cluster.wait()

    def assert_left_clean(self, runs: list[Run]) -> None:
        assert [node.client.keys("*") for node in self._cluster.nodes] == [[]] * 3

    def stop(self) -> None:
        self._cluster.stop()


class SharedStore:
    """One PostgreSQL, and in it one schema for both."""

    def __init__(self, server: PostgresqlServer) -> None:
        self._server = server
        self.options = ["--store", server.new_schema()]

    def kill(self, runs: list[Run]) -> None:
        """What it had not committed is gone."""
        self._server.kill()
        self._server.start()

    def assert_left_clean(self, runs: list[Run]) -> None:
        """Each has its own calls, which the caller has compared."""

    def stop(self) -> None:
        """Others use it, too."""


Shared = SharedBroker | SharedCluster | SharedStore


@contextmanager
def shared_service(request: pytest.FixtureRequest, folder: Path, kind: str) -> Iterator[Shared]:
    """One of them, until both runs are over."""
    make: dict[str, Callable[[], Shared]] = {
        "broker": lambda: SharedBroker(folder),
        "cluster": lambda: SharedCluster(folder),
        "store": lambda: SharedStore(request.getfixturevalue("postgresql")),
    }
    service = make[kind]()
    try:
        yield service
    finally:
        service.stop()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["cluster", "broker", "store"])
def test_two_runs_share_a_service_that_is_killed(
    request: pytest.FixtureRequest, start: Start, marked: Path, tmp_path: Path, kind: str
) -> None:
    """And each of them loses a process of its own."""
    with shared_service(request, tmp_path, kind) as service:
        runs = [start("--replay", marked / "*.bp", *LIVE, *service.options) for _ in range(2)]
        for run in runs:
            run.wait_until(lambda run=run: sum(stream.steps for stream in run.health_so_far) > RANKS)
        service.kill(runs)
        for run, module in zip(runs, (SERVER, AGENT), strict=True):
            kill(module)(run, 0.0)
        for run in runs:
            assert run.end() == 0, run.output
            assert_nothing_lost(run, marked)
            assert sum(stream.steps for stream in run.health) == RANKS * STEPS
            assert no_loss(run.output)
        service.assert_left_clean(runs)
