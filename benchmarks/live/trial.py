"""Runs the MPI program under a real TAU, alone or with the analysis beside it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.live.aims import Outcome, Variant, losses_of
from chimbuko.core.errors import ChimbukoError
from chimbuko.launcher.checkup import check_tau, is_for_mpi, tau_bindings
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from examples.findings import all_anomalies
from examples.truth import match, read_truth
from tests.integration.conftest import AGENT, READER, command_line, descendants

SOURCE = Path(__file__).parent.parent.parent / "examples" / "heat_mpi.c"
COMPILE = ("mpicc", "-O2", "-g", "-finstrument-functions")
TAU_EXEC = ("tau_exec", "-T", "mpi,pthread", "-adios2_trace")
RECORDER = (sys.executable, "-m", "chimbuko", "trace")
FIRST_KILL_S = 1.0
LONGEST_PAUSE_S = 4.0
MOST_KILLS = 6
"""Of one run: a service that ends on its own too often is given up."""
PATIENCE_S = 60.0
"""Beyond twice its nominal length; an application that has not ended by then hangs."""
CLOSING_S = 60.0
"""How long the analysis may take to come to its end once the application has."""
TIMED = 'date +%s%N > "$0.begin"; "$@" > "$0.output" 2>&1; code=$?; date +%s%N > "$0.end"; exit $code'
"""For sh: runs a command and leaves in three files when it began, what it said, and when it ended."""


@dataclass(frozen=True)
class Program:
    """The program and how long it runs."""

    executable: Path
    ranks: int
    seconds: float
    delays: int
    period_s: float

    def command(self, truth: Path, seed: int, tracer: tuple[str, ...] = TAU_EXEC) -> list[str]:
        """Under a tracer, on all ranks."""
        delays = ["--delays", str(self.delays), "--seed", str(seed), "--truth", str(truth)]
        return [
            *("mpirun", "-n", str(self.ranks), *tracer),
            *(str(self.executable), "--seconds", str(self.seconds), *delays),
        ]

    @property
    def patience_s(self) -> float:
        """So long may it take, with the start of what is beside it."""
        return 2 * self.seconds + PATIENCE_S


def what_is_missing() -> str:
    """Why nothing can be run here, as one sentence; empty if all is there."""
    for tool in ("mpicc", "mpirun"):
        if shutil.which(tool) is None:
            return f"There is no {tool} on the PATH: this needs an MPI to compile and start a program."
    found = check_tau()
    if found.state != "ok":
        return f"There is no TAU to run beside: {found.text}."
    bindings = tau_bindings(Path(shutil.which("tau_exec") or ""))
    return "" if any(map(is_for_mpi, bindings)) else f"This TAU is not for MPI: {found.text}."


def build(folder: Path) -> Path:
    """Compile the program."""
    executable = folder / SOURCE.stem
    subprocess.run([*COMPILE, str(SOURCE), "-o", str(executable)], check=True)
    return executable


def run_alone(program: Program, folder: Path, seed: int) -> Outcome:
    """Under TAU with TAU's own settings, into files that nobody reads."""
    folder.mkdir()
    settings = {
        "TAU_ADIOS2_PERIODIC": "1",
        "TAU_ADIOS2_PERIOD": str(round(program.period_s * 1e6)),
        "TAU_ADIOS2_ENGINE": "BPFile",
        "TAU_ADIOS2_FILENAME": str(folder / "tau-metrics"),
        "TAU_TRACK_MESSAGE": "1",
        "TAU_THROTTLE": "0",
        "TAU_PROFILE": "0",
    }
    latest = time.monotonic() + program.patience_s
    process = _start(_timed(folder, program.command(folder, seed)), settings)
    code = _wait(process, program, latest)
    return Outcome(Variant(""), _wall_s(folder), code)


def run_beside(program: Program, variant: Variant, folder: Path, seed: int) -> Outcome:
    """With the analysis beside it."""
    folder.mkdir()
    run = folder / "run"
    command = program.command(folder, seed, RECORDER if variant.is_recorded else TAU_EXEC)
    latest = time.monotonic() + program.patience_s
    process = _start(
        [
            *(sys.executable, "-m", "chimbuko", "run", "--json", "--no-dashboard"),
            *("--period", str(program.period_s), "--output", str(run)),
            *("--transport", variant.transport, "--", *_timed(folder, command)),
        ],
        {},
        output=folder / "summary.json",
    )
    kills = _kill_again_and_again(process, folder, random.Random(seed), latest) if variant.is_killed else 0
    code = _wait(process, program, latest)
    try:
        summary = json.loads((folder / "summary.json").read_text())
        with open_run(RunDirectory(run)) as provenance:
            flagged = all_anomalies(provenance)
    except (ChimbukoError, json.JSONDecodeError, OSError):
        summary, flagged = {}, []
    delays = read_truth(folder.glob("truth-*.txt"))
    return Outcome(
        variant=variant,
        wall_s=_wall_s(folder),
        exit_code=code,
        delays=len(delays),
        found=sum(call is not None for _, call in match(delays, flagged)),
        flags=len(flagged),
        steps=summary.get("steps", 0),
        lost_steps=summary.get("gap_steps", 0),
        losses=losses_of(summary),
        kills=kills,
    )


def _timed(folder: Path, command: list[str]) -> list[str]:
    return ["sh", "-c", TIMED, str(folder / "application"), *command]


def _start(
    command: list[str], environment: dict[str, str], output: Path | None = None
) -> subprocess.Popen[bytes]:
    with open(output or os.devnull, "wb") as target:
        return subprocess.Popen(
            command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=target
        )


def _wait(process: subprocess.Popen[bytes], program: Program, latest: float) -> int | None:
    """Exit code; None where the application hung: it is killed then, and the analysis may still come to
    its end."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(max(latest - time.monotonic(), 0.0))
    for pid in descendants(process.pid):
        if command_line(pid).startswith(str(program.executable)):
            _send_kill(pid)
    with suppress(subprocess.TimeoutExpired):
        process.wait(CLOSING_S)
        return None
    for pid in (*descendants(process.pid), process.pid):
        _send_kill(pid)
    process.wait()
    return None


def _wall_s(folder: Path) -> float:
    """How long the application has run; for ever where it has not ended."""
    begin, end = (folder / f"application.{name}" for name in ("begin", "end"))
    return (int(end.read_text()) - int(begin.read_text())) / 1e9 if end.exists() else float("inf")


def _kill_again_and_again(
    process: subprocess.Popen[bytes], folder: Path, chance: random.Random, latest: float
) -> int:
    """Kill the agent or one of its readers at random moments, as long as the application runs."""
    kills = 0
    begin, end = folder / "application.begin", folder / "application.end"

    def is_going_on() -> bool:
        return process.poll() is None and not end.exists() and time.monotonic() < latest

    while is_going_on() and not begin.exists():
        time.sleep(0.02)
    time.sleep(FIRST_KILL_S)
    while is_going_on() and kills < MOST_KILLS:
        time.sleep(chance.uniform(0.0, LONGEST_PAUSE_S))
        if is_going_on():
            kills += _kill_one(process.pid, chance)
    return kills


def _kill_one(root: int, chance: random.Random) -> int:
    """Kill the agent, with one chance in three, or a reader; 1 if there was one."""
    ours = {pid: command_line(pid) for pid in descendants(root)}
    agents = sorted(pid for pid, command in ours.items() if AGENT in command)
    readers = sorted(pid for pid, command in ours.items() if READER in command)
    victims = agents if chance.random() < 1 / 3 else readers
    if not victims:
        return 0
    _send_kill(chance.choice(victims))
    return 1


def _send_kill(pid: int) -> None:
    # It may have ended by itself.
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
