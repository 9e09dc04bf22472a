"""The loop of kills: readers of a real SST writer die while they join, and what becomes of the writer.

``python tests/capture/shield/kills.py --shielded --kills 110 --period 0.02`` prints the pair of build ids of
the ADIOS2 that this Python has, as ``CHECKED_BUILDS`` names it, and a line of JSON. With ``--shielded`` the
shield acts beside that pair, known or not; it is preloaded into writers only. Each build of ADIOS2 wants a
Python environment of its own. One is checked after 110 kills with steps of 20 ms and 40 with steps of 1 s, of
which none has left a writer ``died`` or ``hung``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import adios2.bindings  # readers are forks of this process, and begin at once
import numpy as np

from chimbuko.capture.symbols.buildid import build_id
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.shield import shield_environment
from chimbuko.capture.trace.source import Waiting
from chimbuko.capture.trace.tausettings import SAFE_SST_PARAMETERS
from chimbuko.capture.trace.writer import StreamWriter
from chimbuko.core.traceschema import StreamNames

HUNG_S = 15.0
"""A writer that makes no step in this time beyond its period never makes one again."""
JOINING_S = 0.6
"""A reader needs some 0.4 s beyond the writer's next step; some are killed a little later."""
GOOD_STEPS = 3


@dataclass
class Outcome:
    """What became of the writers of one loop."""

    kills: int = 0
    """Readers that were killed before they had read a step."""
    too_late: int = 0
    """Readers that had read one already: not counted among the kills."""
    died: int = 0
    hung: int = 0
    good_readers: int = 0
    """Readers that joined a writer after the kills, and read it to its end."""
    close_s: float = 0.0
    """The longest that a writer took to close."""
    grown_kb: float = 0.0
    """Memory that a writer has gained per reader that was killed."""


def write(path: Path, period_s: float, steps: Path, end: Path) -> None:
    """Write steps until the file ``end`` is there; how many is kept in the file ``steps``."""
    names = StreamNames(
        timers={number: f"timer {number}" for number in range(50)}, event_types={0: "ENTRY", 1: "EXIT"}
    )
    events = np.zeros((1000, 6), np.uint64)
    with StreamWriter(path, "SST", SAFE_SST_PARAMETERS) as writer, steps.open("wb", buffering=0) as counter:
        step = 0
        while not end.exists():
            events[:, 5] = np.arange(step * 1000, (step + 1) * 1000)
            writer.write_step(events, np.empty((0, 8), np.uint64), np.empty((0, 6), np.uint64), names)
            step += 1
            os.pwrite(counter.fileno(), struct.pack("qd", step, time.monotonic()), 0)
            time.sleep(period_s)
        began_s = time.monotonic()
    print(time.monotonic() - began_s)


class Writer:
    """One writer in its own process."""

    def __init__(self, folder: Path, period_s: float, environment: Mapping[str, str]) -> None:
        self.path = folder / "tau-metrics-kills-0.bp"
        self._steps, self._end = folder / "steps", folder / "end"
        self._period_s = period_s
        words = [sys.executable, __file__, "--write", str(self.path), str(self._steps), str(self._end)]
        self.process = subprocess.Popen(
            [*words, "--period", str(period_s)], env=dict(environment), stdout=subprocess.PIPE, text=True
        )
        while not self.path.with_name(self.path.name + ".sst").exists() or not self.steps():
            if self.process.poll() is not None:
                raise RuntimeError(f"the writer did not start (exit code {self.process.returncode})")
            time.sleep(0.01)

    def steps(self) -> int:
        """Steps written so far."""
        with suppress(OSError, struct.error):
            return int(struct.unpack("qd", self._steps.read_bytes())[0])
        return 0

    def memory_kb(self) -> float:
        """Resident memory of the process."""
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1024

    def state(self) -> str:
        """``well`` after two more steps, ``died`` or ``hung``."""
        before, began_s = self.steps(), time.monotonic()
        while self.steps() < before + 2:
            if self.process.poll() is not None:
                return "died"
            if time.monotonic() > began_s + HUNG_S + 2 * self._period_s:
                return "hung"
            time.sleep(0.01)
        return "well"

    def close(self) -> float | None:
        """End the stream; how long its writer took, None where it did not."""
        self._end.touch()
        try:
            reported, _ = self.process.communicate(timeout=HUNG_S + 2 * self._period_s)
        except subprocess.TimeoutExpired:
            return None
        return float(reported) if self.process.returncode == 0 else None

    def end(self) -> None:
        """Whatever it does."""
        self.process.kill()
        self.process.communicate()


def start_reader(path: Path, steps: int) -> tuple[int, int]:
    """Process that reads ``steps`` steps (0: to the end), and a pipe with a byte for each step read."""
    report, reported = os.pipe()
    reader = os.fork()
    if reader:
        os.close(reported)
        return reader, report
    code = 1
    try:
        os.close(report)
        with StreamReader(path, "SST", open_timeout_s=30.0) as stream:
            while not isinstance(stream.next_step(), Waiting):
                os.write(reported, b"s")
        code = 0
    finally:
        os._exit(code)


def kill_reader(path: Path, after_s: float) -> bool:
    """Start one and kill it; whether that was before it had read a step."""
    reader, report = start_reader(path, 0)
    time.sleep(after_s)
    os.kill(reader, signal.SIGKILL)
    os.waitpid(reader, 0)
    has_read = bool(os.read(report, 1))
    os.close(report)
    return not has_read


def good_reader(writer: Writer, outcome: Outcome) -> bool:
    """Whether a reader that is left alone reads some steps, then the end of the stream as it is closed."""
    reader, report = start_reader(writer.path, 0)
    has_read = [os.read(report, 1) for _ in range(GOOD_STEPS)]
    took_s = writer.close()
    if took_s is None:
        os.kill(reader, signal.SIGKILL)
    _, code = os.waitpid(reader, 0)
    os.close(report)
    outcome.close_s = max(outcome.close_s, took_s or 0.0)
    return took_s is not None and code == 0 and all(has_read)


def loop(kills: int, period_s: float, per_writer: int, seed: int, environment: Mapping[str, str]) -> Outcome:
    """So many kills, with a new writer after each that died or hung, and after ``per_writer`` kills."""
    outcome = Outcome()
    moments = random.Random(seed)
    while True:
        with TemporaryDirectory() as folder:
            writer = Writer(Path(folder), period_s, environment)
            try:
                _kills_of_one(writer, min(per_writer, kills - outcome.kills), outcome, moments, period_s)
            finally:
                writer.end()
        if outcome.kills >= kills:
            return outcome


def _kills_of_one(
    writer: Writer, kills: int, outcome: Outcome, moments: random.Random, period_s: float
) -> None:
    wanted, state = outcome.kills + kills, "well"
    before_kb = writer.memory_kb()
    while outcome.kills < wanted and state == "well":
        if kill_reader(writer.path, moments.uniform(0.0, JOINING_S + period_s)):
            outcome.kills += 1
        else:
            outcome.too_late += 1
        # Half of the readers come upon a writer that still has to do with the one before.
        if moments.random() < 0.5 or writer.process.poll() is not None:
            state = writer.state()
    if state == "well":
        outcome.grown_kb = max(outcome.grown_kb, (writer.memory_kb() - before_kb) / max(kills, 1))
        state = writer.state()
    if state == "well" and good_reader(writer, outcome):
        outcome.good_readers += 1
    elif state == "well":
        state = "hung" if writer.process.poll() is None else "died"
    outcome.died += state == "died"
    outcome.hung += state == "hung"


def installed_pair() -> str:
    """Build ids of ``libadios2_evpath`` and ``libadios2_core`` that this Python loads."""
    folder = Path(adios2.bindings.__file__).parent.parent
    libraries = (next(iter(folder.rglob(f"libadios2_{name}.so*"))) for name in ("evpath", "core"))
    return "+".join(map(build_id, libraries))


def main() -> None:
    """The loop, or one of its writers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--period", type=float, default=0.02)
    parser.add_argument("--per-writer", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    shields = parser.add_mutually_exclusive_group()
    shields.add_argument("--shielded", action="store_true")
    shields.add_argument("--preload", default="")
    parser.add_argument("--write", nargs=3, type=Path)
    given = parser.parse_args()
    if given.write:
        path, steps, end = given.write
        write(path, given.period, steps, end)
        return
    environment = {**os.environ, "LD_PRELOAD": given.preload} if given.preload else dict(os.environ)
    with TemporaryDirectory() as reports:
        if given.shielded:
            print(pair := installed_pair())
            environment = shield_environment(Path(reports), os.environ, builds=(pair,))
        outcome = loop(given.kills, given.period, given.per_writer, given.seed, environment)
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
