"""Each part of ours fails at each moment: what the application lost, what we lost, and what the summary said.

Prints one row of a table for each, with ``pytest -s``; ``make thorough`` tries all of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from chimbuko.core.errors import ChimbukoError
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.scratch import left_behind
from tests.integration.beside import EXIT_CODE, GUARD, Application, begin
from tests.integration.conftest import AGENT, BROKER, SERVER, STORE, Start, command_line
from tests.patience import PATIENCE_S
from tests.thorough import first

STREAMS = 2
SECONDS = 3.0
STOPPED_S = 3.0

Strike = Callable[[Application], None]


def send(find: Callable[[Application], Iterable[int]], number: signal.Signals) -> Strike:
    """A signal to processes; stopped ones go on after a while."""

    def strike(application: Application) -> None:
        pids = list(find(application))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if number is signal.SIGSTOP:
            time.sleep(STOPPED_S)
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    return strike


def of(module: str) -> Callable[[Application], list[int]]:
    """The processes of a module."""
    return lambda application: application.run.processes(module)


def guards(application: Application) -> list[int]:
    """The guard, which is nobody's child."""
    run_id = application.run.info.id
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if GUARD in (line := command_line(pid)) and run_id in line]


def remove_run(application: Application) -> None:
    """``rm -rf``, while others make files in it."""
    while application.run.folder.exists():
        shutil.rmtree(application.run.folder, ignore_errors=True)


def remove_scratch(application: Application) -> None:
    """What agents keep in the folder for temporary files."""
    for _, left in left_behind(RunDirectory(application.run.folder)):
        shutil.rmtree(left.folder, ignore_errors=True)


PARTS: dict[str, Strike] = {
    "run folder removed": remove_run,
    "server killed": send(of(SERVER), signal.SIGKILL),
    "agent killed": send(of(AGENT), signal.SIGKILL),
    "writer killed": send(of(STORE), signal.SIGKILL),
    "broker killed": send(of(BROKER), signal.SIGKILL),
    "readers killed": send(lambda application: application.readers, signal.SIGKILL),
    "guard killed": send(guards, signal.SIGKILL),
    "server stopped": send(of(SERVER), signal.SIGSTOP),
    "agent stopped": send(of(AGENT), signal.SIGSTOP),
    "writer stopped": send(of(STORE), signal.SIGSTOP),
    "broker stopped": send(of(BROKER), signal.SIGSTOP),
    "scratch removed": remove_scratch,
    "launcher hung up": send(lambda application: [application.run.process.pid], signal.SIGHUP),
    "launcher killed": send(lambda application: [application.run.process.pid], signal.SIGKILL),
}
HARMLESS = tuple(part for part in PARTS if part.endswith("killed") or part.endswith("stopped"))
"""After these nothing is lost."""


def at_start(application: Application) -> None:
    """All of the application has just begun: with the folder of the run its settings would be gone, too."""
    application.run.wait_until(lambda: len(application.run.readers) == STREAMS)


def in_the_middle(application: Application) -> None:
    """Its steps are being stored."""
    application.wait_for_steps()


def at_end(application: Application) -> None:
    """It has ended; agents may still have something to deliver."""
    application.run.wait_until(lambda: application.has_ended, pause_s=0.005)


MOMENTS: dict[str, Callable[[Application], None]] = {
    "start": at_start,
    "middle": in_the_middle,
    "end": at_end,
}
CASES = [(part, moment) for moment in ("middle", "end", "start") for part in PARTS]


@dataclass(frozen=True)
class Row:
    """What became of one run."""

    part: str
    moment: str
    code: int
    """As the launcher passed it."""
    programs: list[int]
    """Steps that each process of the application wrote."""
    worst_ms: float
    """The longest that one of these took."""
    stored: list[int] | None
    """Steps of each that are in the store; None where that is gone."""
    said: list[str]

    def __str__(self) -> str:
        stored = "store gone" if self.stored is None else f"{sum(self.stored)} of {sum(self.programs)} steps"
        reported = "; ".join(line[:70] for line in self.said) or "nothing lost"
        worst = f"worst step {self.worst_ms:.0f} ms"
        return f"| {self.part} | {self.moment} | code {self.code}, {worst} | {stored} | {reported} |"


def tried(start: Start, folder: Path, part: str, moment: str) -> Row:
    """Try one of them."""
    application = begin(start, folder, STREAMS, SECONDS)
    MOMENTS[moment](application)
    PARTS[part](application)
    code = application.run.end()
    if part == "launcher killed":
        deadline = time.monotonic() + PATIENCE_S
        while not (folder / "code").exists():
            assert time.monotonic() < deadline, "the application ended with the launcher"
            time.sleep(0.05)
    reported = application.reported if part != "launcher hung up" or application.has_ended else []
    try:
        stored = [stream.steps for stream in application.run.health]
    except ChimbukoError:
        stored = None
    worst_ms = 1000 * max((max(one["step_s"]) for one in reported), default=0.0)
    lines = application.run.output.splitlines()
    said = [line for line in lines if line.startswith(("Problem: ", "Lost: "))]
    return Row(part, moment, code, [one["steps"] for one in reported], worst_ms, stored, said)


@pytest.mark.parametrize(("part", "moment"), first(1, CASES, ids=["-".join(case) for case in CASES]))
def test_the_application_loses_nothing(start: Start, tmp_path: Path, part: str, moment: str) -> None:
    row = tried(start, tmp_path, part, moment)
    print(row)
    if part == "launcher killed":
        # Nobody is left to pass its code.
        assert row.code == -signal.SIGKILL and int((tmp_path / "code").read_text()) == EXIT_CODE
        return
    if part == "launcher hung up":
        assert row.code in (EXIT_CODE, 128 + signal.SIGTERM)
        return
    assert row.code == EXIT_CODE
    assert len(row.programs) == STREAMS
    if part in HARMLESS:
        assert row.stored == row.programs, msgspec.json.encode(row.said)
    elif moment == "middle":
        assert row.said
