"""Programs that write the same stream one after the other, and readers that make room for the next one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chimbuko.capture.follow.followedstream import FollowedStream
from chimbuko.capture.follow.guard import Options
from chimbuko.capture.follow.instances import aside_of, empty_aside, first_rank_of, number, parse_aside
from chimbuko.capture.follow.limits import Limits
from chimbuko.capture.follow.starter import GuardStarter
from chimbuko.capture.follow.trimmer import is_stream
from chimbuko.capture.trace.source import Waiting
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import StreamNames, TraceStep
from tests.capture.follow.streams import ROWS, opened, wait_until, write_step
from tests.places import ROOT

STEPS = 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    stream = tmp_path / "tau-metrics-app-0.bp"
    stream.mkdir()
    return stream


def followed(path: Path, first_rank: int, first_step: int = 0, is_ours: bool = True) -> FollowedStream:
    return FollowedStream(path, first_rank, first_rank, first_step, StreamNames(), is_ours=is_ours)


def read_all(stream: FollowedStream) -> tuple[list[int], Waiting]:
    """Numbers of all steps that there are; each has its own rows, of its instance's rank."""
    numbers = []
    while isinstance(step := stream.next_step(0.0), TraceStep):
        assert step.events[:, 0].tolist() == [step.step + 1] * ROWS
        numbers.append(step.step)
    return numbers, step


def write(path: Path, steps: int = STEPS) -> None:
    with opened(path) as writer:
        for step in range(steps):
            write_step(writer, step)


def test_each_instance_is_read_whole_though_all_have_one_path(path: Path) -> None:
    """The next one begins as soon as the reader has seen that the one before has ended."""
    readers = []
    for instance in range(4):
        assert first_rank_of(path) is None
        write(path, STEPS + instance)
        reader = followed(path, 2 * instance)
        assert reader.next_step(0.0).events[0, 0] == 1  # type: ignore[union-attr]
        readers.append(reader)
    # None of them has read more than one step by now.
    for instance, reader in enumerate(readers):
        assert read_all(reader) == (list(range(1, STEPS + instance)), Waiting.END)
        reader.give_back(STEPS)
        reader.close()
        assert aside_of(path, 2 * instance).is_dir()


def test_a_successor_finds_what_was_set_aside(path: Path) -> None:
    write(path)
    followed(path, 0).next_step(0.0)
    write(path, 2)
    followed(path, 3).next_step(0.0)
    for first_rank, steps in ((0, STEPS), (3, 2)):
        successor = followed(path, first_rank, first_step=1)
        assert read_all(successor) == (list(range(1, steps)), Waiting.END)
        successor.close()


def test_a_killed_program_makes_room_too(path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path\n"
        "from tests.capture.follow.streams import opened, write_step\n"
        "writer = opened(Path(sys.argv[1])); write_step(writer, 0); print(); sys.stdout.flush()\n"
        "time.sleep(60)"
    )
    program = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, cwd=ROOT)
    assert program.stdout is not None
    with program.stdout as said:
        assert said.readline()
    reader = followed(path, 0)
    assert read_all(reader) == ([0], Waiting.NOT_READY)
    assert not aside_of(path, 0).exists()
    program.send_signal(signal.SIGKILL)
    program.wait()
    assert reader.next_step(0.0) is Waiting.NOT_READY
    assert aside_of(path, 0).exists() and os.listdir(path) == []
    reader.end()
    assert reader.next_step(0.0) is Waiting.BROKEN


def test_a_reader_that_comes_too_late_leaves_the_next_program_alone(path: Path) -> None:
    write(path)
    number(path, 0)
    reader = followed(path, 0)
    # The next one has begun to open the files: those that are open have no content.
    (path / "md.0").write_bytes(b"")
    assert first_rank_of(path) == 0
    with pytest.raises(TraceFormatError, match=f"^{re.escape(str(path))}: "):
        reader.next_step(0.0)
    assert not aside_of(path, 0).exists()


def test_streams_of_others_stay_where_they_are(path: Path) -> None:
    write(path)
    before = sorted(os.listdir(path))
    reader = followed(path, 0, is_ours=False)
    assert read_all(reader) == (list(range(STEPS)), Waiting.END)
    reader.close()
    assert sorted(os.listdir(path)) == before
    assert os.listdir(path.parent) == [path.name]


def test_what_was_read_takes_no_space_but_stays_known(path: Path) -> None:
    write(path)
    reader = followed(path, 0)
    read_all(reader)
    reader.close()
    empty_aside(path, 0)
    assert os.listdir(aside_of(path, 0)) == ["first-rank"] and first_rank_of(aside_of(path, 0)) == 0
    empty_aside(path, 7)


def test_names() -> None:
    aside = aside_of(Path("/streams/tau-metrics.4-my.app-2.bp"), 12)
    assert parse_aside(aside) == (Path("/streams/tau-metrics.4-my.app-2.bp"), 12)
    assert is_stream(aside.name) and is_stream("tau-metrics-app-0.bp")
    for name in ("tau-metrics-app-0.bp.sst", "tau-metrics-app-0.bp.17.first-rank", "agent.pid", "x.bp.01"):
        assert parse_aside(Path("/streams") / name) is None
    assert not is_stream("tau-metrics-app-0.bp.sst") and not is_stream("agent.pid")


def test_the_guard_bounds_what_was_set_aside(path: Path) -> None:
    write(path, 40)
    followed(path, 0).next_step(0.0)
    write(path, 2)
    held = aside_of(path, 0) / "data.0"
    before = held.stat().st_blocks
    guard = GuardStarter(Options(str(path.parent), Limits(200_000, 1 << 30, 0), keep=True))
    guard.ensure()
    try:
        wait_until(lambda: held.stat().st_blocks < before // 4)
    finally:
        guard.stop(60.0)
