"""What can go wrong with the processes of a run, at moments that nobody chose, and what must hold then."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.protocol.broker import connect
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import AGENT, SERVER, STORE, Outcome, Run

STOPPED_S = 10.0
WITHOUT_MEMORY_S = 3.0
ROOM_BYTES = 30_000
"""Findings of a second of the program take so much."""

GIVEN_UP_S = 3.0
"""A process that is not started again for so long is not any more."""

Fault = Callable[[Run, float], None]
"""Does something to a run after so many seconds, and returns when that is over."""


def kill(module: str) -> Fault:
    """kill -9 of a service; over when the run has noticed."""

    def strike(run: Run, after_s: float) -> None:
        time.sleep(after_s)
        if not has_come_to_its_end(run):
            _kill(run, run.service(module))

    return strike


def has_come_to_its_end(run: Run) -> bool:
    """Whether the program has: on a busy machine that may be before something goes wrong."""
    return "replayed" in run.output


def _kill(run: Run, pid: int) -> None:
    before = run.output.count("ended early")
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    run.wait_until(lambda: run.output.count("ended early") > before or has_come_to_its_end(run))


def kill_each_part(run: Run, after_s: float) -> None:
    """kill -9 of one part of the parameter server after the other, each while the others go on."""
    parts = run.processes(SERVER)
    assert len(parts) > 1
    for pid in parts:
        time.sleep(after_s / len(parts))
        if not has_come_to_its_end(run):
            _kill(run, pid)


def kill_readers(run: Run, after_s: float) -> None:
    """kill -9 of the processes of all streams."""
    time.sleep(after_s)
    for pid in run.readers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_at_end(module: str) -> Fault:
    """kill -9 of a service when the program has ended, and the agents still have findings to deliver."""

    def strike(run: Run, after_s: float) -> None:
        run.wait_for_line("replayed")
        store = run.service(STORE)
        os.kill(store, signal.SIGSTOP)
        before = run.output.count("ended early")
        os.kill(run.service(module), signal.SIGKILL)
        run.wait_until(lambda: run.output.count("ended early") > before)
        # It is gone where it shares its process with what was killed.
        with suppress(ProcessLookupError):
            os.kill(store, signal.SIGCONT)

    return strike


def kill_agents_at_end(run: Run, after_s: float) -> None:
    """They still have findings to deliver."""
    run.wait_for_line("replayed")
    store = run.service(STORE)
    os.kill(store, signal.SIGSTOP)
    for pid in run.processes(AGENT):
        os.kill(pid, signal.SIGKILL)
    os.kill(store, signal.SIGCONT)


def kill_agents_for_good_and_the_server_at_end(run: Run, after_s: float) -> None:
    """Agents are killed whenever they come back, until nobody starts them again."""
    run.wait_for_line("replayed")
    store = run.service(STORE)
    os.kill(store, signal.SIGSTOP)
    seen_s = time.monotonic()
    while time.monotonic() < seen_s + GIVEN_UP_S:
        for pid in run.processes(AGENT):
            seen_s = time.monotonic()
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    for pid in run.processes(SERVER):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(store, signal.SIGCONT)


def kill_server_at_the_very_end(run: Run, after_s: float) -> None:
    """All agents have ended by then, and it has yet to write the model."""
    run.wait_for_line("replayed")
    run.wait_until(lambda: not run.processes(AGENT), pause_s=0.001)
    for pid in run.processes(SERVER):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stop(module: str, seconds: float = STOPPED_S) -> Fault:
    """A service stands still."""

    def strike(run: Run, after_s: float) -> None:
        time.sleep(after_s)
        pid = run.service(module)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    return strike


def take_memory(run: Run, after_s: float) -> None:
    """The broker takes nothing any more, for a while."""
    time.sleep(after_s)
    with _memory_limited(run, 1):
        time.sleep(WITHOUT_MEMORY_S)


def fill_memory(run: Run, after_s: float) -> None:
    """The store's writer stands still, and what waits for it takes all that the broker may use."""
    time.sleep(after_s)
    with connect(RunDirectory(run.folder).read_broker_url()) as client:
        used_bytes = client.info("memory")["used_memory"]
    store = run.service(STORE)
    os.kill(store, signal.SIGSTOP)
    with _memory_limited(run, used_bytes + ROOM_BYTES):
        time.sleep(WITHOUT_MEMORY_S)
    os.kill(store, signal.SIGCONT)


@contextmanager
def _memory_limited(run: Run, limit_bytes: int) -> Iterator[None]:
    """The time within begins when the broker has refused something: on a busy machine that takes its time."""
    with connect(RunDirectory(run.folder).read_broker_url()) as client:
        client.config_set("maxmemory", limit_bytes)
        run.wait_until(lambda: "errorstat_OOM" in client.info("errorstats"))
        yield
        client.config_set("maxmemory", 0)


def assert_all_stored_once(run: Outcome) -> None:
    """Each finding of each analysed step is in the store."""
    with open_run(RunDirectory(run.folder)) as provenance:
        steps, dropped = provenance.steps.counts(), provenance.dropped()
    assert dropped == []
    by_rank = Counter[int]()
    for step in steps:
        by_rank[step.rank] += step.anomalies
    assert Counter(call.rank for call in run.anomalies) == +by_rank


def assert_all_counted_once(run: Outcome) -> None:
    """Each finding is in the server's statistics."""
    with open_run(RunDirectory(run.folder)) as provenance:
        functions = provenance.function_statistics()
    counted = {f.name: f.anomalies for f in functions if f.anomalies}
    assert Counter(call.function for call in run.anomalies) == counted
