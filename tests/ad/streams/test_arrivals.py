"""Streams as an agent notices them, and the numbers that instances of a program get."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimbuko.ad.streams.arrivals import CONTACT_LOOKS, Arrival, Arrivals
from chimbuko.capture.follow.instances import aside_of, first_rank_of
from chimbuko.capture.trace.discovery import Transport
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.rankclaims import beginnings, claim_instance, claim_ranks
from chimbuko.runtime.protocol.runbroker import RunBroker

APP = "tau-metrics-app-0.bp"


def arrivals(folder: Path, index: int = 0, count: int = 1, is_ours: bool = True) -> Arrivals:
    return Arrivals(folder, index, count, is_ours)


def begin(folder: Path, name: str = APP) -> None:
    """A program opens its files."""
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "md.idx").write_bytes(b"")


def end(folder: Path, first_rank: int, name: str = APP) -> None:
    """It has ended, and its reader has made room."""
    path = folder / name
    path.rename(aside_of(path, first_rank))
    path.mkdir()


def close(folder: Path, name: str = APP) -> None:
    """A program closes its files; its reader has not noticed."""
    (folder / name / "md.idx").write_bytes(bytes(64))


def contact(folder: Path, time_ns: int, name: str = APP) -> None:
    path = folder / f"{name}.sst"
    path.write_text("where the writer is")
    os.utime(path, ns=(time_ns, time_ns))


def test_a_stream_appears_once(tmp_path: Path) -> None:
    watched = arrivals(tmp_path)
    assert watched.look() == []
    (tmp_path / APP).mkdir()
    contact(tmp_path, 1, "tau-metrics-app-1.bp")
    first, second = watched.look()
    assert (first.name.rank, first.transport, first.is_further) == (0, Transport.FILES, False)
    assert (second.name.rank, second.transport, second.contact) == (1, Transport.SST, "1")
    # Until it is taken: perhaps the broker was away.
    assert watched.look() == [first, second]
    for arrival in (first, second):
        watched.take(arrival, 0)
    for _ in range(2 * CONTACT_LOOKS):
        assert watched.look() == []


def test_the_next_instance_is_noticed_when_it_opens_its_files(tmp_path: Path) -> None:
    watched = arrivals(tmp_path)
    begin(tmp_path)
    (first,) = watched.look()
    watched.take(first, 0)
    end(tmp_path, 0)
    assert watched.look() == [] and not watched.is_written(first)
    begin(tmp_path)
    (second,) = watched.look()
    assert second.is_further and not second.is_numbered
    watched.take(second, 4)
    assert watched.look() == [] and watched.is_written(second)
    assert first_rank_of(tmp_path / APP) == 4
    assert (second.as_instance(4).rank, second.as_instance(4).file_name) == (4, "tau-metrics.4-app-0.bp")


def test_what_is_closed_is_not_written_before_its_reader_has_noticed(tmp_path: Path) -> None:
    watched = arrivals(tmp_path)
    begin(tmp_path)
    (first,) = watched.look()
    watched.take(first, 0)
    assert watched.is_written(first)
    close(tmp_path)
    assert not watched.is_written(first)


def test_a_successor_learns_from_the_folder_which_instances_there_are(tmp_path: Path) -> None:
    watched = arrivals(tmp_path)
    for first_rank in (0, 4):
        begin(tmp_path)
        (arrival,) = watched.look()
        watched.take(arrival, first_rank)
        end(tmp_path, first_rank)
        watched.look()
    successor = arrivals(tmp_path)
    found = successor.look()
    assert [(one.name.rank, one.is_numbered) for one in found] == [(0, True), (4, True)]
    for one in found:
        successor.take(one, one.name.first_rank)
    assert successor.look() == []
    begin(tmp_path)
    (third,) = successor.look()
    assert third.is_further and third == without_number(arrivals(tmp_path))
    successor.take(third, 9)
    assert {one.name.rank for one in arrivals(tmp_path).look()} == {0, 4, 9}


def without_number(watched: Arrivals) -> Arrival:
    (found,) = [one for one in watched.look() if not one.is_numbered]
    return found


def test_a_new_contact_file_is_another_instance(tmp_path: Path) -> None:
    watched = arrivals(tmp_path)
    contact(tmp_path, 1)
    (first,) = watched.look()
    watched.take(first, 0)
    (tmp_path / f"{APP}.sst").unlink()
    assert watched.look() == [] and not watched.is_written(first)
    contact(tmp_path, 2)
    (second,) = watched.look()
    assert second.is_further and second.contact == "2"
    watched.take(second, 1)
    assert watched.look() == []
    # Killed, a program leaves it behind.
    contact(tmp_path, 3)
    found = [arrival for _ in range(CONTACT_LOOKS) for arrival in watched.look()]
    assert [one.contact for one in found] == ["3"]
    # Whoever comes later knows the one that was numbered.
    contact(tmp_path, 2)
    (again,) = arrivals(tmp_path).look()
    assert (again.is_numbered, again.name.rank) == (True, 1)


def test_what_others_write_is_left_alone(tmp_path: Path) -> None:
    watched = arrivals(tmp_path, is_ours=False)
    begin(tmp_path)
    contact(tmp_path, 1, "tau-metrics-app-1.bp")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    for arrival in watched.look():
        watched.take(arrival, 0)
    contact(tmp_path, 2, "tau-metrics-app-1.bp")
    for _ in range(2 * CONTACT_LOOKS):
        assert watched.look() == []
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_agents_share_the_ranks_as_the_paths_name_them(tmp_path: Path) -> None:
    for rank in range(4):
        begin(tmp_path, f"tau-metrics-app-{rank}.bp")
    found = [[one.name.rank for one in arrivals(tmp_path, index, 2).look()] for index in (0, 1)]
    assert found == [[0, 2], [1, 3]]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunBroker]:
    with PrivateBroker(tmp_path / "broker.log") as private:
        yield RunBroker.connect(private.url, "run")


def test_ranks_of_an_instance_follow_those_before(broker: RunBroker) -> None:
    ranks = [("app", rank) for rank in range(4)]
    assert all(claim_ranks(broker, [*ranks, ("other, rank 7", 90)], "agent-0"))
    for rank in (1, 0, 3, 2):
        assert claim_instance(broker, "app", rank, f"agent-{rank % 2}", 1) == (1, 4)
    # One that has seen fewer instances than there are gets a rank that nobody has.
    assert claim_instance(broker, "app", 2, "agent-1", 1) == (2, 8)
    assert claim_instance(broker, "app", 0, "agent-0", 2) == (2, 8)
    assert beginnings(broker) == [
        "app was started again: its ranks count from 4 on",
        "app was started again: its ranks count from 8 on",
    ]
    assert broker.client.hlen(broker.keys.instances) == 2
