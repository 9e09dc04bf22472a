"""The drain: a process beside a recorded program that empties its rings and writes its streams.

It begins in ``main``. It is no child of the program, which may wait for any child, and ends soon after it.
It forks a writer for each process of the program that records something.
"""

from __future__ import annotations

import gc
import itertools
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from chimbuko.capture.trace.adios import adios2_bindings
from chimbuko.capture.trace.tausettings import WriterSettings
from chimbuko.core.errors import ChimbukoError
from chimbuko.instrument.recorder.recording import Recording
from chimbuko.instrument.recorder.ring import ProcessFile
from chimbuko.instrument.recorder.ringfolder import (
    READY,
    Listing,
    in_order_of_start,
    is_alive,
    lock_as_drained,
    process_files,
    remove_recording,
    remove_ring_folder,
    unwritten,
)
from chimbuko.instrument.tracer.chunks import Handover, Header
from chimbuko.instrument.tracer.members import MOST_IN_ALL, Members, State
from chimbuko.instrument.tracer.places import Launched, Place, Places, launched
from chimbuko.instrument.tracer.writer import STUCK_AFTER_S, Writing, ignore_signals
from chimbuko.instrument.tracer.writerserver import MOST_AT_A_TIME
from chimbuko.runtime.preload import BUILDING
from chimbuko.runtime.process.lifetime import Sacrifice, log, oom_score, set_oom_score
from chimbuko.runtime.process.ranks import rank_from, stated_rank

SUFFIX = ".unrecorded"
"""End of the names of the library's files about such starts, in a folder of rings."""
_MOST_NAMED = 3


def unrecorded_starts(folder: Path) -> list[str]:
    """Return a sentence for each program that has started others so, and what it preloaded into them."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    with suppress(OSError):
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            starter, started, preloaded, *_ = [*path.read_text(errors="replace").split("\n"), "", ""]
            # A library of ours is tried so, in a recorded program, when it is built.
            if f"/{BUILDING}" not in preloaded:
                names = found.setdefault((os.path.basename(starter), preloaded), {})
                names[os.path.basename(started)] = None
    return [_sentence(starter, list(names), preloaded) for (starter, preloaded), names in found.items()]


def _sentence(starter: str, started: list[str], preloaded: str) -> str:
    more = f" and {len(started) - _MOST_NAMED} more" if len(started) > _MOST_NAMED else ""
    names = f"{', '.join(started[:_MOST_NAMED])}{more}"
    what, advice = "without LD_PRELOAD", "leave LD_PRELOAD as it is"
    if preloaded:
        what = "with an LD_PRELOAD of its own"
        advice = f"add to what is there, as in LD_PRELOAD={preloaded}:$LD_PRELOAD"
    return f"{starter} starts {names} {what}, so nothing records it; {advice}"


LOOK_PERIOD_S = 0.1
"""Time between two looks at how full the rings are. A ring fills up in 13 ms at 5 million events a second,
and in more than a second at the rates of real programs."""
DRAIN_PERIOD_S = 0.4
"""Longest time until the rings are emptied: each time costs some 0.5 ms, however few events there are."""
EMPTY_ABOVE = 0.125
"""Fill level from which they are emptied at the next look: a step may then take 0.4 s to be written."""
LINGER_S = 0.3
"""Time for which the drain stays while no process is recorded: one may be about to begin."""
RANK_PATIENCE_S = 5.0
"""Longest wait for MPI to say the rank, where no launcher has. The rings are emptied meanwhile."""


def main() -> None:
    """Serve a folder of rings. The arguments are the folder, and the process that it was made for.

    It writes to standard output that it is ready, and closes that.
    """
    folder, pid = Path(sys.argv[1]), int(sys.argv[2])
    os.setsid()
    ignore_signals()
    # The lock stays open until the last process that this one forks has ended.
    lock_as_drained(folder)
    set_oom_score(oom_score(Sacrifice.WRITER))
    gc.disable()
    adios2_bindings()
    gc.freeze()
    gc.enable()
    streams = WriterSettings.from_environment(os.environ).prefix.absolute().parent
    os.write(1, READY)
    os.dup2(0, 1)
    try:
        _Drain(folder, pid).serve()
    except Exception as error:
        log(f"what {folder.name} recorded is lost: {type(error).__name__}: {error}")
    finally:
        remove_ring_folder(folder, streams)


class _Drain:
    """Drain of one program: of its first process, and of all processes that this starts."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._folder = folder
        self._listing = Listing(folder)
        self._first = pid
        self._first_descriptor = _process_descriptor(pid)
        self._members = Members()
        self._places = Places(os.environ)
        self._writers: dict[int, tuple[int, Path]] = {}
        """Number and file of the recorded process, by the process id of its writer."""
        self._unattended: dict[Path, str] = {}
        """Files of the processes whose writers have failed, and how each has failed."""
        self._seen: set[Path] = set()
        self._waiting: deque[Path] = deque()
        """Files of processes that have no writer yet, as there are many; rings keep what they record."""

    def serve(self) -> None:
        """Serve until no process has been recorded for a while."""
        alone_since: float | None = None
        while alone_since is None or time.monotonic() < alone_since + LINGER_S:
            self._take_in()
            self._reap()
            self._count_lost()
            is_first_there = not _ends_within(self._first_descriptor, self._first, 0.0)
            if self._writers or self._waiting or self._unattended or is_first_there:
                alone_since = None
            elif alone_since is None:
                alone_since = time.monotonic()
            # On a busy node this lasts for longer than LINGER_S: only a look at the processes ends the wait.
            time.sleep(LOOK_PERIOD_S)
        for sentence in unrecorded_starts(self._folder):
            log(sentence)
        if refused := self._members.refused:
            log(f"{refused} processes were not recorded: the program has started more than {MOST_IN_ALL}")

    def _take_in(self) -> None:
        for name in in_order_of_start(self._listing.news()):
            path = self._folder / name
            if path not in self._seen:
                self._seen.add(path)
                self._waiting.append(path)
        # Those that have ended already are written, too, however many end in a moment.
        while self._waiting and len(self._writers) < MOST_AT_A_TIME:
            self._begin(self._waiting.popleft())

    def _begin(self, path: Path) -> None:
        if self._members.count >= MOST_IN_ALL:
            self._members.refuse()
            remove_recording(path)
            return
        try:
            recording = Recording(path)
        except ChimbukoError as error:
            log(f"rank {rank_from(os.environ)} is not recorded: {error}")
            return
        program = os.path.basename(recording.executable) or "program"
        number = self._members.add(recording.pid, self._header(recording, program, 0))
        # All that is known of a process that has ended is what MPI said. It is not asked before: it may
        # speak in the moment between.
        process = recording.process
        parent = process.number("parent")
        place = self._places.of(launched(recording.pid, parent) or _in_mpi(process, parent))
        if writer := os.fork():
            self._writers[writer] = number, path
            return
        code = 1
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            code = self._write(recording, program, number, place)
        finally:
            os._exit(code)

    def _write(self, recording: Recording, program: str, number: int, place: Place) -> int:
        """Write a stream, and log what goes wrong; return the exit code of the writer."""
        rank = rank_from(os.environ)
        try:
            handovers = _handovers(recording, lambda: self._has_successor(recording))
            stated = stated_rank(os.environ) if place.rank is None else place.rank
            rank, first = ranked(recording, handovers, stated)
            header = self._header(recording, program, rank)
            writing = Writing(header, recording.pid, self._members, number, place, recording.note_stored)
            writing.write_stream(itertools.chain(first, handovers))
        except ChimbukoError as error:
            log(f"rank {rank} is not recorded to its end: {error}")
            return 1
        except Exception as error:
            # ADIOS2 raises errors of any kind, with texts of several lines.
            said = " ".join(str(error).split())
            log(f"rank {rank} is not recorded to its end: {type(error).__name__}: {said}")
            return 1
        return 0

    def _header(self, recording: Recording, program: str, rank: int) -> Header:
        header = recording.header(program, rank)
        # The parent of the first process is the launcher.
        return header._replace(parent_pid=0) if recording.pid == self._first else header

    def _has_successor(self, recording: Recording) -> bool:
        """Whether the process has become another program by exec, recorded or not."""
        with suppress(OSError):
            if os.readlink(f"/proc/{recording.pid}/exe").removesuffix(" (deleted)") != recording.executable:
                return True
        begins = f"{recording.pid}-"
        return any(
            path.name.startswith(begins) and _began(path) > _began(recording.process.path)
            for path in process_files(self._folder)
        )

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0] > 0:
                number, path = self._writers.pop(ended[0])
                self._members.set_state(number, State.OVER)
                code = os.waitstatus_to_exitcode(ended[1])
                if not code:
                    # A program may fork thousands, and each takes 3 MB of the node's memory.
                    remove_recording(path)
                else:
                    how = "has failed" if code > 0 else f"was ended by {signal.Signals(-code).name}"
                    self._unattended[path] = how

    def _count_lost(self) -> None:
        """Log the lost events of each process that has ended after its writer had failed."""
        for path, how in list(self._unattended.items()):
            if not is_alive(int(path.name.partition("-")[0])):
                del self._unattended[path]
                if lost := unwritten(path):
                    log(f"{lost}; the process that wrote its stream {how}")


def ranked(
    recording: Recording, handovers: Iterator[Handover], stated: int | None
) -> tuple[int, list[Handover]]:
    """Return the rank of a process, and what it handed over until that was known.

    Parameters
    ----------
    stated
        Rank that its launcher says; None if MPI has to say it.
    """
    first: list[Handover] = []
    if stated is not None or not recording.is_linked_with_mpi:
        return stated or 0, first
    latest = time.monotonic() + RANK_PATIENCE_S
    while recording.process.number("world_rank") < 0 and time.monotonic() < latest:
        if (handover := next(handovers, None)) is None:
            break
        first.append(handover)
    return max(recording.process.number("world_rank"), 0), first


def _handovers(recording: Recording, has_successor: Callable[[], bool]) -> Iterator[Handover]:
    """Yield all that a process records, until it has ended."""
    # This wait is for the program, and not for a reader that may be stuck.
    signal.alarm(0)
    process = _process_descriptor(recording.pid)
    drained_s = looked_s = time.monotonic()
    has_become_another = False
    while not _ends_within(process, recording.pid, LOOK_PERIOD_S):
        now_s = time.monotonic()
        if now_s - looked_s >= 1.0:
            looked_s = now_s
            if has_become_another := has_successor():
                break
        if now_s - drained_s >= DRAIN_PERIOD_S or recording.fill > EMPTY_ABOVE:
            drained_s = now_s
            yield recording.take(time.monotonic_ns())
            signal.alarm(0)
    signal.alarm(0)
    last = recording.last(time.monotonic_ns(), has_become_another)
    signal.alarm(STUCK_AFTER_S)
    yield last


def _in_mpi(process: ProcessFile, parent: int) -> Launched:
    """Return what MPI said to a process."""
    rank, size = process.number("world_rank"), process.number("world_size")
    return Launched(parent, rank, size) if rank >= 0 and size > 1 else Launched()


def _process_descriptor(pid: int) -> int | None:
    with suppress(OSError):
        return os.pidfd_open(pid)
    return None


def _ends_within(process: int | None, pid: int, seconds: float) -> bool:
    if process is None:
        return not is_alive(pid)
    return bool(select.select([process], [], [], seconds)[0])


def _began(path: Path) -> int:
    return int(path.stem.rpartition("-")[2] or 0)


if __name__ == "__main__":
    main()
