"""The process of a live stream does not grow with the length of the run, nor do the files that it leaves."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.generate import SyntheticTrace
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.streams.forkserver import ForkServer, Request
from chimbuko.ad.streams.streamhandle import StreamHandle
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.capture.trace.replay import LOSSLESS_SST_PARAMETERS
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.config import AnalysisConfig
from tests.ad.forking import warm_fork_server
from tests.patience import PATIENCE_S

ROWS_PER_STEP = 500
OUTLIER_SHARE = 0.02
"""Ten records per step or so: what is held of them must be let go."""
WARM_STEPS = 2000
"""Until then it still makes pages its own that it shared with the fork server, and its tables grow."""
STEPS = 4000
TICK_STEPS = 20
"""After so many steps the agent takes what was learned and delivers what was found."""
MOST_GROWTH_KB = 2048
"""1 kB per step; a record, or a page, that is kept of each step would be many times as much. Tables may still
grow, by 256 kB, to what the largest step so far needs, and so may, by 1 MB, what a checkpoint is made in."""
MOST_SPOOL_BYTES = 12 << 20
"""4 MB of them are the flight recorder, and up to 6 MB two checkpoints; 10 MB were measured."""
MOST_CHECKPOINT_BYTES = 3 << 20
MOST_UNREAD_BYTES = 16 << 20


@pytest.fixture
def forks() -> Iterator[ForkServer]:
    server = warm_fork_server()
    yield server
    server.close()


def private_kb(pid: int) -> int:
    """Memory that belongs to this process alone, files apart."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    shared = re.search(r"^Shared_Dirty: +(\d+)", text, re.MULTILINE)
    anonymous = re.search(r"^Anonymous: +(\d+)", text, re.MULTILINE)
    assert shared and anonymous
    return int(anonymous[1]) - int(shared[1])


def file_bytes(folder: Path) -> int:
    """Disk space of all files: the exchange is a sparse one."""
    return sum(512 * path.stat().st_blocks for path in folder.rglob("*") if path.is_file())


class Agent:
    """The part of an agent that takes away what its stream's process leaves."""

    def __init__(self, stream: StreamHandle) -> None:
        self._stream = stream
        self._version = 0

    def tick(self) -> None:
        """Take what was learned, give it back as the model, and deliver what was found."""
        box = self._stream.box
        while (taken := box.take()) is None:
            pass
        generation, learned = taken.generation, taken.learned
        if len(learned.timers):
            table = self._stream.schema.empty(int(learned.timers[-1]) + 1)
            table[learned.timers] = learned.table
            self._version += 1
            while not box.put_model(self._version, 0, generation, table):
                pass
        for sequence, _ in self._stream.delivery.take(1 << 30):
            self._stream.delivery.arrived(sequence)


@pytest.mark.thorough
@pytest.mark.parametrize("transport", [Transport.SST, Transport.FILES])
def test_process_and_files_do_not_grow(forks: ForkServer, tmp_path: Path, transport: Transport) -> None:
    path = tmp_path / "tau-metrics-long-0.bp"
    config = AnalysisConfig()
    stream = StreamHandle(
        StreamName("long", 0, path),
        transport,
        0,
        "node",
        tmp_path / "files",
        config,
        make_detector(config).schema,
    )
    trace = SyntheticTrace(ROWS_PER_STEP, outlier_share=OUTLIER_SHARE)
    agent = Agent(stream)
    sizes_kb: list[int] = []
    spooled: list[int] = []
    checkpoints: list[int] = []
    unread: list[int] = []
    engine, parameters = ("SST", LOSSLESS_SST_PARAMETERS) if transport is Transport.SST else ("BP5", {})

    def wait_for(steps: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while stream.open_calls.steps < steps:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    forks.ask(Request(start=stream.next_attempt()))
    with StreamWriter(path, engine, parameters) as writer:
        while not (events := forks.events()):
            time.sleep(0.001)
        (started,) = events
        for number in range(1, STEPS + 1):
            step = trace.next_step()
            writer.write_step(step.events, step.comms, step.counters, trace.names)
            # On a busy machine more steps would be analysed at once now and then, and held together.
            wait_for(number - 1)
            if number % TICK_STEPS == 0:
                agent.tick()
            if number >= WARM_STEPS and number % 250 == 0:
                wait_for(number)
                sizes_kb.append(private_kb(started.pid))
                spooled.append(file_bytes(stream.folder))
                checkpoints.append(max(file.stat().st_size for file in stream.folder.glob("checkpoint.*")))
                unread.append(file_bytes(path))
    assert stream.attempts == 1
    assert max(sizes_kb) - sizes_kb[0] < MOST_GROWTH_KB, sizes_kb
    assert max(spooled) < MOST_SPOOL_BYTES, spooled
    assert max(checkpoints) < MOST_CHECKPOINT_BYTES, checkpoints
    # Of what is not committed yet, out of 100 MB.
    assert max(unread) < MOST_UNREAD_BYTES, unread
