"""The watch of a run: from what a program publishes to what the run's broker has for its store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from chimbuko.core.errors import ServiceError
from chimbuko.observe.namespaces.analyses.metricfinding import Finding, Problem
from chimbuko.observe.namespaces.analyses.views import read_views
from chimbuko.observe.namespaces.client import performance
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.client.performance import PerformancePublisher
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from chimbuko.observe.namespaces.service import publishing
from chimbuko.observe.namespaces.service import watching as observing
from chimbuko.observe.namespaces.service.publishing import FindingsBoard, published
from chimbuko.observe.namespaces.service.watching import NAMESPACE, LateObservations, ViewsFile, watch
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.protocol.telemetry import TIMER, RankTimers
from tests.observe.namespaces.served import Served, served


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(
        tmp_path_factory.mktemp("namespaces") / "service", 2, ("application", "performance")
    ) as service:
        yield service


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunBroker]:
    with PrivateBroker(tmp_path / "broker.log") as private, connect(private.keeper_url) as client:
        yield RunBroker(client, "run")


def publish(service: Served, value: float) -> None:
    """Two ranks, at two instances; one has no number at step 1."""
    for rank in (0, 1):
        with Client(service.path, rank=rank) as client:
            diagnostics = client.create(NAMESPACE)
            for step in range(3):
                diagnostics.publish_tree({"step": step, "mass": value if (rank, step) == (1, 1) else 1.0})


def timers_of(rank: int, calls: int) -> RankTimers:
    """What a part of the server says of one rank."""
    rows = np.array([(0, rank, 0, calls, 10.0 * calls, 10.0 * calls)], TIMER)
    return RankTimers(rows.tobytes(), {0: "heat"}, {0: "MPI_Recv()"}, [(0, rank, "node0")])


def answer(broker: RunBroker, part: int, timers: RankTimers) -> None:
    """What a part of the server does that was asked."""
    broker.client.set(broker.keys.part(part).timers, broker.seal.encode(timers))


def test_what_was_published_in_the_run_is_watched_to_its_end(
    service: Served, broker: RunBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the service comes later than the run; what an earlier run has published is left out."""
    monkeypatch.setattr(observing, "TRY_AGAIN_S", 0.0)
    publish(service, float("inf"))
    since_us = time.time_ns() // 1000
    tries, said = iter([True]), []

    def opened() -> Reader:
        if next(tries, False):
            raise ServiceError("nobody is there")
        return Reader(service.path)

    observations = LateObservations(opened, since_us, said.append)
    assert observations.new() == []
    publish(service, float("nan"))
    board = FindingsBoard(broker)
    publisher = PerformancePublisher(broker, 2, lambda: Client(service.path, rank=0), said.append)
    for part in (0, 1):
        answer(broker, part, timers_of(rank=64 * part, calls=3 + part))
    watch(observations, board, ViewsFile(tmp_path / "views"), publisher, lambda: True)
    assert said == [
        "what programs publish is not watched yet: nobody is there",
        "what programs publish is watched from now on",
    ]
    sealed, (found,) = published(broker, b"")
    assert (found.kind, found.quantity, found.ranks) == (Problem.NOT_A_NUMBER, "mass", (1,))
    assert found.step == 1 and since_us <= found.begin_us == found.found_us <= time.time_ns() // 1000
    assert published(broker, sealed) == (sealed, ())
    lines = {one.quantity: one.lines for one in read_views(tmp_path / "views").quantities}
    assert [line.values for line in lines["mass"]] == [[1.0, 1.0, 1.0], [1.0, None, 1.0]]
    assert [line.values for line in lines["step"]] == 2 * [[0.0, 1.0, 2.0]]
    mpi = read_views(tmp_path / "views").mpi
    assert [(one.program, one.rank, one.time_us) for one in mpi] == [("heat", 0, 30.0), ("heat", 64, 40.0)]


def test_what_functions_take_is_published_as_totals_whoever_publishes(
    service: Served, broker: RunBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces, and asked for again when all of them are published."""
    monkeypatch.setattr(performance, "PERIOD_S", 0.0)
    monkeypatch.setattr(performance, "PIECE", 2)
    said: list[str] = []
    for calls in (3, 7):
        publisher = PerformancePublisher(broker, 1, lambda: Client(service.path, rank=0), said.append)
        with Reader(service.path) as reader:
            for observation in reader.history(performance.NAMESPACE):
                publisher.note(observation)
            wanted = broker.keys.part(0).timers_wanted
            # The second one publishes what the server has answered the first one, too.
            while broker.client.getdel(wanted) is None:
                publisher.keep_up()
            answer(broker, 0, timers_of(rank=1, calls=calls))
            publisher.keep_up()
            assert broker.client.get(wanted) is None
            publisher.finish()
            of_rank = reader.tree(performance.NAMESPACE, "heat/TAU/node0/Rank 1/MPI_Routines")
            assert {path[-1]: leaf for path, leaf in of_rank} == {
                "MPI_Recv()_Calls": calls,
                "MPI_Recv()_Inclusive": 10.0 * calls,
                "MPI_Recv()_Exclusive": 10.0 * calls,
            }
    assert said == []


def test_who_may_only_read_learns_once_that_nothing_is_published(service: Served, broker: RunBroker) -> None:
    said: list[str] = []
    place = service.path / "jobs" / "default" / "reader"
    publisher = PerformancePublisher(broker, 1, lambda: Client(place, rank=0), said.append)
    answer(broker, 0, timers_of(rank=1, calls=1))
    publisher.finish()
    publisher.finish()
    publisher.keep_up()
    (line,) = said
    assert "are not published" in line and "not permitted" in line


def test_a_broker_that_lost_all_gets_the_findings_again(
    broker: RunBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "AGAIN_S", 0.0)
    monkeypatch.setattr(publishing, "MOST_FINDINGS", 2)
    board = FindingsBoard(broker)
    for number in range(4):
        assert board.add(Finding(Problem.DEPARTURE, f"q{number}", (1,), 0, 0, 1.0)) == (number < 2)
    board.keep_up()
    before = published(broker, b"")
    broker.client.flushall()
    assert published(broker, b"") == (b"", ())
    board.keep_up()
    assert published(broker, b"") == before
    assert [one.quantity for one in before[1]] == ["q0", "q1"] and board.left_out == 2
