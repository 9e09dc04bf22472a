"""Runs of the real command line."""

from __future__ import annotations

import inspect
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.errors import ChimbukoError
from chimbuko.provenance.query.filters import CallSummary
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.protocol.messages import PathStatistics
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo
from examples.findings import all_anomalies
from examples.truth import InjectedDelay, read_truth
from tests.hangs import WaitedTooLong
from tests.integration.held import Held
from tests.integration.marked import write_marked
from tests.once import Once
from tests.patience import PATIENCE_S
from tests.places import DATA, STAND_INS

BROKEN = DATA / "broken"
"""Traces with faults of all kinds."""
STAND_IN = ["env", sys.executable, STAND_INS / "tau_exec"]
"""Words that record a program; a run would record a Python that it is given."""
"""Command that stands in for `tau_exec`."""


SPOKEN = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
"""Variables of commands: each line comes at once, and what hangs says where (``tests.hangs``)."""


class Command:
    """One ``chimbuko`` with these words, under way or ended."""

    def __init__(self, *words: str | Path, environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "chimbuko", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **SPOKEN, **(environment or {})},
        )
        self.lines: list[str] = []
        self.times_s: list[float] = []
        """When each of them came, by the monotonic clock."""
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read_lines, daemon=True)
        self._reader.start()

    def wait_for_line(self, text: str, timeout_s: float = PATIENCE_S) -> str:
        """The first line of output that holds ``text``."""
        with self._news:
            found = self._news.wait_for(
                lambda: (
                    next((line for line in self.lines if text in line), None)
                    or (None if self.process.poll() is None else "ended")
                ),
                timeout_s,
            )
        if not found:
            raise WaitedTooLong(f"no {text!r} in: {self.output}")
        assert found != "ended", f"no {text!r} in: {self.output}"
        return found

    def end(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for its end; its exit code."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise WaitedTooLong(f"it has not ended: {self.output}") from None
        self._reader.join(10)
        return code

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    @property
    def output(self) -> str:
        """What it and its application have said so far."""
        return "\n".join(self.lines)

    def wait_until(
        self, condition: Callable[[], bool], timeout_s: float = PATIENCE_S, pause_s: float = 0.05
    ) -> None:
        """Wait for a condition by asking for it."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self.process.poll() is None, self.output
            if time.monotonic() > deadline:
                raise WaitedTooLong(f"{inspect.getsource(condition).strip()} in: {self.output}")
            time.sleep(pause_s)

    def service(self, module: str) -> int:
        """Process of a service, once it is there."""
        found: list[int] = []

        def is_there() -> bool:
            found[:] = self.processes(module)
            return bool(found)

        self.wait_until(is_there)
        return found[0]

    @property
    def readers(self) -> list[int]:
        """Processes of the streams."""
        return self.processes(READER)

    def processes(self, module: str) -> list[int]:
        """Ids of the run's processes of one module, oldest first, found among its descendants."""
        return sorted(pid for pid in descendants(self.process.pid) if module in command_line(pid))

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                with self._news:
                    self.times_s.append(time.monotonic())
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()


class Outcome:
    """What a run leaves in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def info(self) -> RunInfo:
        return RunDirectory(self.folder).read_info()

    @property
    def anomalies(self) -> list[CallSummary]:
        with open_run(RunDirectory(self.folder)) as provenance:
            return all_anomalies(provenance)

    @property
    def ids(self) -> set[str]:
        return {call.id for call in self.anomalies}

    @property
    def health(self) -> list[StreamHealth]:
        with open_run(RunDirectory(self.folder)) as provenance:
            return provenance.health()

    @property
    def paths(self) -> dict[tuple[int, tuple[str, ...]], PathStatistics]:
        """By program and functions, outermost first."""
        with open_run(RunDirectory(self.folder)) as provenance:
            return {(one.program, tuple(one.functions)): one for one in provenance.path_statistics()}

    @property
    def health_so_far(self) -> list[StreamHealth]:
        """The same while the run goes on: nothing before there is a store."""
        try:
            return self.health
        except ChimbukoError:
            return []


class Run(Command, Outcome):
    """One ``chimbuko run``."""

    def __init__(
        self, folder: Path, *arguments: str | Path, environment: dict[str, str] | None = None
    ) -> None:
        Command.__init__(self, "run", "--output", folder, *arguments, environment=environment)
        Outcome.__init__(self, folder)

    def dashboard_url(self) -> str:
        """Address of its dashboard, as soon as there is one; its output only names the file."""
        file = RunDirectory(self.folder).dashboard_path
        assert self.wait_for_line("dashboard: ").endswith(f" is in {file}")
        return file.read_text()


def children(pid: int) -> list[int]:
    """Ids of the processes that one has started."""
    found: list[int] = []
    # It may end meanwhile.
    with suppress(FileNotFoundError):
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, task.read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """Ids of all processes below one."""
    return [one for child in children(pid) for one in (child, *descendants(child))]


def command_line(pid: int) -> str:
    """Command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


AGENT = "chimbuko.ad.agent"
FORK_SERVER = "chimbuko.ad.streams.forkserver"
READER = "chimbuko.ad.streams.process"
STORE = "chimbuko.provenance.service"
BROKER = "valkey-server"
SERVER = "chimbuko.pserver"

ROUNDS = int(os.environ.get("CHIMBUKO_FAULTS_ROUNDS", "1"))
"""How often each test with faults is done, at other moments each time; ``make faults`` does it ten times."""
SEED_VARIABLE = "CHIMBUKO_FAULTS_SEED"
"""Environment variable that chooses the same moments again."""

Start = Callable[..., Run]


@pytest.fixture(params=range(ROUNDS))
def moments(request: pytest.FixtureRequest) -> random.Random:
    """Chooses when things go wrong; the seed is in the output of a test that fails.

    Where the same examples are tried every time, it is that of the test's name.
    """
    is_same = os.environ.get("CHIMBUKO_SAME_EXAMPLES")
    chosen = zlib.crc32(request.node.nodeid.encode()) if is_same else random.SystemRandom().randrange(1 << 32)
    seed = int(os.environ.get(SEED_VARIABLE) or chosen)
    print(f"{SEED_VARIABLE}={seed}")
    return random.Random(seed)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts runs, each in a folder of its own, and ends those that a failed test leaves."""
    runs: list[Run] = []

    def start_run(*arguments: str | Path, environment: dict[str, str] | None = None) -> Run:
        run = Run(tmp_path / f"run{len(runs)}", *arguments, environment=environment)
        runs.append(run)
        return run

    yield start_run
    for run in runs:
        if run.process.poll() is None:
            run.process.terminate()
            run.end()


@pytest.fixture
def command() -> Iterator[Callable[..., Command]]:
    """Starts commands, and ends those that a failed test leaves."""
    commands: list[Command] = []

    def start_command(*words: str | Path) -> Command:
        commands.append(Command(*words))
        return commands[-1]

    yield start_command
    for one in commands:
        if one.process.poll() is None:
            one.process.terminate()
            one.end()


@pytest.fixture(scope="session")
def heat4(real_traces: Path) -> Path:
    """The recorded MPI program with 41 delays."""
    return real_traces / "heat4"


@pytest.fixture(scope="session")
def heat4_delays(heat4: Path) -> list[InjectedDelay]:
    """Its delays."""
    return read_truth(heat4.glob("truth*.txt"))


@pytest.fixture(scope="session")
def heat4_run(heat4_analysed: Path) -> Outcome:
    """Its offline analysis by one agent, to compare others with."""
    return Outcome(heat4_analysed)


@pytest.fixture(scope="session")
def heat4_live(heat4: Path, once: Once) -> Outcome:
    """The same without its final judgement: what a run has that came to no orderly end."""

    def analyse(folder: Path) -> None:
        run = Run(folder, "--no-relabel", "--trace", heat4 / "*.bp")
        assert run.end() == 0, run.output

    return Outcome(once.made("heat-live", analyse))


class BrokenRun(Outcome):
    """The analysis of all broken traces of the corpus."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "run")
        self.streams = folder / "*.bp"
        self.output = (folder / "output").read_text()
        """What it said."""


@pytest.fixture(scope="session")
def broken_run(once: Once) -> BrokenRun:
    """The analysis of all broken traces, by one process."""

    def analyse(folder: Path) -> None:
        folder.mkdir()
        shutil.unpack_archive(BROKEN / "streams.tar.xz", folder)
        run = Run(folder / "run", "--trace", folder / "*.bp")
        assert run.end() == 0, run.output
        (folder / "output").write_text(run.output)

    return BrokenRun(once.made("broken", analyse))


@pytest.fixture(scope="session")
def marked(once: Once) -> Path:
    """Recorded streams of a program all of whose calls are known."""

    def write(folder: Path) -> None:
        folder.mkdir()
        write_marked(folder)

    return once.made("marked", write)


@pytest.fixture
def held(tmp_path: Path) -> Held:
    """A program that ends when it is released."""
    folder = tmp_path / "application"
    folder.mkdir()
    return Held(folder)
