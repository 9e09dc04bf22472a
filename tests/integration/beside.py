"""Applications beside which the analysis is killed, stopped and slowed down, over either transport.

TAU cannot be installed here: a stand-in for `tau_exec` obeys the settings that `chimbuko run` makes, and
writes as TAU does, from the thread that computes.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chimbuko.capture.follow.guard import PATIENCE_S
from chimbuko.capture.follow.presence import STOPPED, looked_up
from tests.calldata import no_loss
from tests.integration.conftest import (
    AGENT,
    BROKER,
    FORK_SERVER,
    STAND_IN,
    Run,
    Start,
    command_line,
    descendants,
)

TRANSPORTS = ("files", "sst")
EXIT_CODE = 5
LONGEST_STEP_S = 4.0
"""A step that waited for a reader would be held up until that comes again."""
LONGEST_HELD_S = 120
GUARD = "chimbuko.capture.follow.guard"
LONGEST_HOLD_S = 2 * PATIENCE_S + 6.0
"""So long can processes of ours that are stopped hold the end of an application over SST."""


@dataclass(frozen=True)
class Application:
    """Some processes under the stand-in, with a run around them; each writes one stream."""

    run: Run
    transport: str
    reports: list[Path]
    """Where each says, at its end, what it measured."""
    hold: Path
    """As long as this is there, it goes on."""

    def release(self) -> None:
        """Let it come to its end."""
        self.hold.unlink(missing_ok=True)

    def measured(self) -> list[dict[str, Any]]:
        """What its processes measured; waits for the end of all."""
        assert self.run.end() == EXIT_CODE, self.run.output
        return self.reported

    @property
    def reported(self) -> list[dict[str, Any]]:
        """What its processes, which have ended, measured."""
        return [json.loads(report.read_text()) for report in self.reports]

    @property
    def has_ended(self) -> bool:
        """Whether all its processes have closed their streams."""
        return all(report.exists() for report in self.reports)

    @property
    def readers(self) -> list[int]:
        """Processes of the streams: what the fork server has forked."""
        return self.run.readers

    @property
    def agent_processes(self) -> list[int]:
        """The agent, the fork server and the readers."""
        return self.run.processes(AGENT) + self.run.processes(FORK_SERVER) + self.run.readers

    @property
    def steps(self) -> list[int]:
        """Steps of each stream that are in the store."""
        return [stream.steps for stream in self.run.health_so_far]

    def wait_for_joining_readers(self) -> None:
        """Wait until all readers have asked to be let in; with a long period none has been let in by then."""
        self.run.wait_until(lambda: len(self.readers) == len(self.reports))
        # Nobody can see from outside that they have asked, which takes them some 10 ms.
        time.sleep(0.5)

    def wait_for_steps(self) -> None:
        """Wait until the store gets steps of all streams: then all readers have joined theirs."""
        before = dict(enumerate(self.steps))

        def have_grown() -> bool:
            steps = self.steps
            return len(steps) == len(self.reports) and all(n > before.get(i, 0) for i, n in enumerate(steps))

        self.run.wait_until(have_grown)


def begin(
    start: Start,
    folder: Path,
    streams: int,
    seconds: float,
    period_s: float = 0.2,
    delay_s: float = 0.0,
    environment: dict[str, str] | None = None,
    transport: str = "files",
    options: Sequence[str] = (),
    is_held: bool = False,
) -> Application:
    """Start an application of ``streams`` processes, ``delay_s`` after the analysis.

    Parameters
    ----------
    is_held
        It goes on until it is released, so that a busy machine has the time for what is done to it.
    """
    hold = folder / "hold"
    if is_held:
        hold.touch()
    reports = [folder / f"report-{rank}.json" for rank in range(streams)]
    command = shlex.join([*map(str, STAND_IN), "-T", "mpi,pthread", "-adios2_trace", "sh", "-c"])
    held = f"n=0; while [ -e {hold} ] && [ $n -lt {LONGEST_HELD_S} ]; do sleep 1; n=$((n+1)); done"
    program = shlex.quote(f"sleep {seconds}; {held}; exit {EXIT_CODE}")
    script = f"sleep {delay_s};"
    for rank, report in enumerate(reports):
        script += (
            f" PMI_RANK={rank} STAND_IN_REPORT={shlex.quote(str(report))} {command} {program} & p{rank}=$!;"
        )
    script += "".join(f" wait $p{rank} || code=$?;" for rank in range(streams))
    script += f" echo $code > {shlex.quote(str(folder / 'code'))}; exit $code"
    arguments = ["--transport", transport, "--period", str(period_s), "--no-dashboard", *options]
    return Application(
        start(*arguments, "--", "sh", "-c", script, environment=environment), transport, reports, hold
    )


def check(application: Application) -> None:
    """All processes ended in their time with all steps written; over files all of them were analysed, and
    over SST what was not seen of them is counted."""
    measured = application.measured()
    for process in measured:
        assert max(process["held_s"]) < LONGEST_STEP_S
    health = {stream.rank: stream for stream in application.run.health}
    for rank, process in enumerate(measured):
        stream = health.get(rank)
        if application.transport == "files":
            assert stream is not None, application.run.output
            assert (stream.state, stream.gap_steps, stream.losses) == ("ended", 0, {}), application.run.output
            assert (stream.steps, stream.rows) == (process["steps"], process["rows"])
        elif stream is not None and stream.state == "ended":
            assert stream.steps + stream.gap_steps == process["steps"], application.run.output
        else:
            assert stream is None or stream.steps + stream.gap_steps <= process["steps"]
            assert stream is None or f"0:{rank}" in application.run.output
    if application.transport == "files":
        assert no_loss(application.run.output)
    assert application.run.info.transport == application.transport
    assert application.run.processes("chimbuko") == []


def kill_readers(application: Application) -> None:
    """One after the other, but none while it joins its stream."""
    for turn in range(3):
        application.wait_for_steps()
        victims = application.readers
        os.kill(victims[turn % len(victims)], signal.SIGKILL)


def kill_joining_readers(application: Application) -> None:
    """All, before they have read anything, and then those that come after them: what the shield is for."""
    application.wait_for_joining_readers()
    for _ in range(2):
        victims = application.readers
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        application.run.wait_until(
            lambda victims=victims: (
                len(application.readers) == len(application.reports)
                and not set(victims) & set(application.readers)
            )
        )


def stop_reader(application: Application) -> None:
    """Somebody of us has to notice, and to replace it or to make it go on."""
    application.wait_for_steps()
    victim = application.readers[0]
    os.kill(victim, signal.SIGSTOP)
    application.run.wait_until(lambda: looked_up(victim)[0] != STOPPED)
    application.wait_for_steps()


def slow_readers(application: Application, seconds: float = 2.0) -> None:
    """They rest half of the time, but never so long that they count as stuck."""
    application.wait_for_steps()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        _stop_for(application.readers, 0.3)
        time.sleep(0.3)


def stop_agent(application: Application, seconds: float = 3.0) -> None:
    """All of it: nobody replaces its readers."""
    application.wait_for_steps()
    _stop_for(application.agent_processes, seconds)


def stop_agent_for_good(application: Application) -> None:
    """All of it, and nobody of the user's makes it go on."""
    application.wait_for_steps()
    _send(application.agent_processes, signal.SIGSTOP)


def keep_agent_stopped(application: Application) -> None:
    """All of it, and again whenever somebody of ours has made it go on, until the application has ended."""
    application.wait_for_steps()
    while not application.has_ended:
        _send(application.agent_processes, signal.SIGSTOP)
        time.sleep(0.05)
        assert application.run.process.poll() is None, application.run.output


def kill_everything(application: Application) -> None:
    """All of ours at once, with the launcher, but for the guard of the streams."""
    application.wait_for_steps()
    root = application.run.process.pid
    # The launcher before those that it would start again.
    for pid in (root, *descendants(root)):
        words = command_line(pid)
        ours = "-m chimbuko" in words or words.startswith("chimbuko.")
        if BROKER in words or (ours and GUARD not in words):
            _send([pid], signal.SIGKILL)


def stop_agent_while_readers_join(application: Application, seconds: float = 3.0) -> None:
    """What the application has to wait for: nobody makes the readers go on."""
    application.wait_for_joining_readers()
    _stop_for(application.agent_processes, seconds)


def kill(module: str) -> Callable[[Application], None]:
    """Kill one of the services, once the store gets steps."""

    def disturb(application: Application) -> None:
        application.wait_for_steps()
        before = application.run.output.count("ended early")
        os.kill(application.run.service(module), signal.SIGKILL)
        application.run.wait_until(lambda: application.run.output.count("ended early") > before)

    return disturb


def kill_agent_before(application: Application) -> None:
    """Before it has streams; it has begun only when all services were there."""
    root = application.run.process.pid
    # Begins with it: a process that is just being started still carries the whole script as its command line.
    application.run.wait_until(
        lambda: any(command_line(pid).startswith("sleep") for pid in descendants(root))
    )
    os.kill(application.run.service(AGENT), signal.SIGKILL)


def kill_agent_while_readers_join(application: Application) -> None:
    """Readers wait to be let in until the next step; they outlive their agent for so long."""
    application.wait_for_joining_readers()
    os.kill(application.run.service(AGENT), signal.SIGKILL)


def stop_joining_readers(application: Application) -> None:
    """The analysis has to make them go on, or the application would wait."""
    application.wait_for_joining_readers()
    for pid in application.readers:
        os.kill(pid, signal.SIGSTOP)


def kill_agent_after(application: Application) -> None:
    """When the application has ended, and the analysis has not."""
    application.wait_for_steps()
    application.run.wait_until(lambda: application.has_ended)
    for pid in application.run.processes(AGENT)[:1]:
        # It may be through by now.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _stop_for(processes: list[int], seconds: float) -> None:
    for number, pause_s in ((signal.SIGSTOP, seconds), (signal.SIGCONT, 0.0)):
        _send(processes, number)
        time.sleep(pause_s)


def _send(processes: list[int], number: signal.Signals) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
