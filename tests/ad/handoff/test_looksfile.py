"""Looks at threads on their way from the agent to the stream's process."""

from __future__ import annotations

from pathlib import Path

from chimbuko.ad.handoff.looksfile import MOST_LOOKS, LooksFile


def test_looks_are_taken_once_and_up_to_the_time_that_is_known(tmp_path: Path) -> None:
    stream, agent = LooksFile(tmp_path / "looks"), LooksFile(tmp_path / "looks")
    for number in range(5):
        agent.put(1_000 + number, 20_000, number % 2, number == 3)
    assert stream.take(1_002)["time_us"].tolist() == [1_000, 1_001, 1_002]
    rest = stream.take(2_000)
    assert rest.tolist() == [(1_003, 20_000, 1, 1), (1_004, 20_000, 0, 0)]
    assert not len(stream.take(3_000))


def test_of_many_the_newest_are_kept(tmp_path: Path) -> None:
    stream, agent = LooksFile(tmp_path / "looks"), LooksFile(tmp_path / "looks")
    for number in range(MOST_LOOKS + 10):
        agent.put(number, 1, 0, False)
    assert stream.take(MOST_LOOKS + 10)["time_us"].tolist() == list(range(10, MOST_LOOKS + 10))


def test_a_successor_takes_what_comes_from_then_on(tmp_path: Path) -> None:
    agent = LooksFile(tmp_path / "looks")
    agent.put(5, 1, 0, False)
    successor = LooksFile(tmp_path / "looks")
    agent.put(6, 1, 0, True)
    assert successor.take(10)["time_us"].tolist() == [6]


def test_without_room_there_are_none(tmp_path: Path) -> None:
    nowhere = tmp_path / "missing" / "looks"
    LooksFile(nowhere).put(5, 1, 0, True)
    assert not len(LooksFile(nowhere).take(10))
