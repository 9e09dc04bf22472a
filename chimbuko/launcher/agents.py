"""The agents of this node, for one run.

Programs that write one stream at the same time are noticed, as only one of them can be analysed. Those that
write it one after the other are instances, and do no harm (``chimbuko.ad.streams.arrivals``).
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from chimbuko.ad.handoff.namesfile import NAMES
from chimbuko.ad.handoff.processspecs import AgentSpec, RecordedStream
from chimbuko.ad.handoff.spoolcopies import SpoolCopies
from chimbuko.ad.streams.deltalog import LOG_FILES
from chimbuko.capture.follow.leftovers import remove_leftovers
from chimbuko.capture.follow.steps import INDEX, is_closed
from chimbuko.capture.trace.discovery import CONTACT_SUFFIX, StreamName, Transport, find_live
from chimbuko.core.files import unnamed_file
from chimbuko.instrument.recorder.ringfolder import await_drained
from chimbuko.instrument.recorder.watch import RecorderWatch
from chimbuko.launcher.options import AgentOptions
from chimbuko.runtime.process.failures import Failures
from chimbuko.runtime.process.lifetime import Sacrifice
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.process.starting import fork
from chimbuko.runtime.process.supervisor import ServiceGroup
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.scratch import ScratchNote, agents_part, note_run, scratch_folder
from chimbuko.runtime.runs.shares import Share


class _Followed(msgspec.Struct):
    """A stream in files, as it was when it was last looked at."""

    number: int = 0
    """Inode number of the stream's index."""
    size: int = 0
    changed_ns: int = 0
    is_closed: bool = False

    def is_written_anew(self, index: Path) -> bool:
        """Whether another program has begun to write it since the last look."""
        if index.stat().st_mtime_ns == self.changed_ns:
            return False
        before = replace(self)
        # In this order: what is closed does not change any more.
        self.is_closed = is_closed(index)
        state = index.stat()
        self.number, self.size, self.changed_ns = state.st_ino, state.st_size, state.st_mtime_ns
        return self.number == before.number and (before.is_closed or self.size < before.size)


class Collisions:
    """Watches the folder in which the streams of a run appear.

    The index of a stream in files only grows, and is as it is once its program has closed it; an instance
    that follows has another one. Two paths that stand for the same rank are two programs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._owners: dict[tuple[str, int], Path] = {}
        self._followed: dict[Path, _Followed] = {}
        self._contacts: set[tuple[Path, int]] = set()
        self._known: set[tuple[str, int]] = set()

    @property
    def streams_seen(self) -> int:
        """Number of streams over SST that have appeared."""
        return len(self._contacts)

    def news(self) -> list[str]:
        """Return one line for each rank that turned out to be written by several programs since the last
        call.
        """
        lines: list[str] = []
        try:
            found = find_live(self._folder)
        except FileNotFoundError:
            # Its guard removes it when the program has ended, and an agent that was stopped may come later.
            return lines
        for stream, transport in found:
            key = stream.program, stream.rank
            # It may be gone by now.
            with suppress(OSError):
                if self._is_shared(stream, transport) and key not in self._known:
                    self._known.add(key)
                    lines.append(_advice(stream))
        return lines

    def _is_shared(self, stream: StreamName, transport: Transport) -> bool:
        path = stream.path
        has_another = self._owners.setdefault((stream.program, stream.rank), path) != path
        if transport is Transport.SST:
            contact = path.with_name(path.name + CONTACT_SUFFIX)
            self._contacts.add((path, contact.stat().st_mtime_ns))
            return has_another
        followed = self._followed.setdefault(path, _Followed())
        return followed.is_written_anew(path / INDEX) or has_another


def _advice(stream: StreamName) -> str:
    return (
        f"several programs write the stream of {stream.program}, rank {stream.rank}, at the same time; only "
        "one was analysed: "
        "number them, as with TAU_ADIOS2_FILENAME=$TAU_ADIOS2_FILENAME.1 for the one that shall be rank 1"
    )


LONGEST_DELIVERY_S = 600.0
"""Longest time for the delivery of findings, in seconds. An agent gives up by itself when nothing gets
through any more.
"""
LONGEST_DRAIN_S = 5.0
"""Longest wait for a recorder to write out what it has of a program that has ended, in seconds; it takes 0.2
s where nothing else is done.
"""
RESCUE_AFTER_S = 2.0
"""Time for which agents of a job that is being ended deliver, before they load the file system that all
share.
"""


class Agents:
    """Agents of one node, as a context: they are gone when it ends.

    Parameters
    ----------
    run_id
        Id of the run that the agents take part in.
    problems
        Gets one line for each thing that did not end as it should.
    """

    def __init__(
        self, run: RunDirectory, run_id: str, options: AgentOptions, broker_url: str, problems: list[str]
    ) -> None:
        self._run = run
        self._options = options
        self._broker_url = broker_url
        self._problems = problems
        self._failures = Failures(problems)
        self._group = ServiceGroup(problems)
        self._is_delivered = True
        self._scratch = scratch_folder(run_id, agents_part(options.node))
        note_run(self._scratch, run)
        self._note = ScratchNote(run, agents_part(options.node), self._scratch)
        place = options.place
        self._copies = SpoolCopies(self._scratch, run.rescued(options.node), NAMES, f"*/{LOG_FILES}")
        self._is_rescued = False
        self._collisions = None if place is None else Collisions(place.folder)
        recorder_log = run.logs / f"recorder-{options.node}.log"
        self._recorder = None if place is None else RecorderWatch(place.folder, recorder_log)

    def __enter__(self) -> Agents:
        is_live = self._options.place is not None
        remove_leftovers()
        self._note.write()
        try:
            for index in range(len(self._options.names)):
                self._group.add(self._start(index), can_go_on=True, may_end=not is_live)
        except BaseException:
            self.finish()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.finish()

    def wait_ready(self) -> None:
        """Wait until they can read streams.

        Raises
        ------
        ServiceError
            One did not start.
        """
        self._group.wait_ready()

    @property
    def is_analysing(self) -> bool:
        """Whether any agent is still at work, or is going to be started again."""
        return self._group.is_at_work

    @property
    def has_failed(self) -> bool:
        """Whether an agent of a recorded trace ended early, for good: others would wait for its streams."""
        return self._collisions is None and self._group.has_failed

    def look_after(self) -> list[str]:
        """Start again what ended on its own and can go on; one line for each thing that went wrong."""
        lines = self._group.look_after()
        with self._failures.survived("programs that write one stream cannot be looked for"):
            collisions = self._collisions.news() if self._collisions else []
            self._problems += collisions
            lines += collisions
        return lines + self._recorder_news(is_last=False)

    def _recorder_news(self, is_last: bool) -> list[str]:
        lines: list[str] = []
        with self._failures.survived("it cannot be seen whether all was recorded"):
            lines += self._recorder.news(is_last) if self._recorder else []
            self._problems += lines
        return lines

    @property
    def streams_seen(self) -> int:
        """Number of streams over SST that have appeared."""
        return self._collisions.streams_seen if self._collisions else 0

    def delivering(self, rescue_at_s: Callable[[], float]) -> Iterator[None]:
        """Ask them to come to an end, and go on while they deliver what they have found.

        Parameters
        ----------
        rescue_at_s
            When what is not delivered is also copied into the run's folder, on the monotonic clock.
        """
        self._ask_to_stop()
        latest_s = time.monotonic() + LONGEST_DELIVERY_S
        while self._group.is_running and time.monotonic() < latest_s:
            if time.monotonic() >= rescue_at_s():
                self._rescue()
            yield

    def _ask_to_stop(self) -> None:
        """Ask the agents to stop when all that was recorded of programs is in their streams."""
        if self._options.place is not None:
            await_drained(self._options.place.folder, LONGEST_DRAIN_S)
            self._recorder_news(is_last=True)
        self._group.ask_to_stop()

    def _rescue(self) -> None:
        """Copy what is not delivered into the run's folder: this node may not be ours much longer."""
        with self._failures.survived(f"what is not delivered cannot be copied from {self._options.node}"):
            self._copies.keep_up()
            self._is_rescued = True
            self._note.write(is_rescued=True)

    def finish(self) -> bool:
        """Ask them to come to an end, and wait for it; True if all that they found was delivered."""
        self._group.ask_to_stop()
        if not self._group.stop(LONGEST_DELIVERY_S):
            self._is_delivered = False
            if self._is_rescued:
                self._rescue()
            self._problems.append(self._undelivered())
        if self._is_delivered:
            self._remove_left()
        return self._is_delivered

    def bring(self, store: Callable[[Path], object]) -> None:
        """Have what was not delivered stored from its folder, by a function; the services have ended."""
        line = self._undelivered()
        if self._is_delivered or not self._scratch.is_dir():
            return
        with self._failures.survived("what could not be delivered cannot be stored yet"):
            store(self._scratch)
            self._is_delivered = True
            self._problems.remove(line)
            self._remove_left()

    def _remove_left(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._copies.remove()
        self._note.remove()

    def _undelivered(self) -> str:
        if not self._scratch.is_dir():
            return f"what could not be delivered is lost: {self._scratch} was removed"
        if self._is_rescued:
            return (
                f"what could not be delivered from {self._options.node} is in the run's folder; store it "
                f"with: " + shlex.join(["chimbuko", "runs", "deliver", str(self._run.path)])
            )
        return (
            f"what could not be delivered is kept on {self._options.node}; store it there with: "
            + shlex.join(["chimbuko", "runs", "deliver", str(self._run.path), str(self._scratch)])
        )

    def _start(self, index: int) -> Service:
        options, place = self._options, self._options.place
        name = options.names[index]
        share = options.share or Share(index, len(options.names))
        spec = AgentSpec(
            agent=name,
            run=self._run.read_info().id,
            index=share.index,
            count=share.count,
            node=options.node,
            scratch=str(self._scratch / name),
            config=options.config,
            live_folder=str(place.folder) if place else "",
            kept_trace=str(place.kept_trace) if place and place.kept_trace else "",
            is_ours=place is None or place.is_ours,
            guard=place.guard if place else None,
            recorded=[
                RecordedStream(str(s.path.absolute()), s.program, s.rank, s.first_rank)
                for s in options.recorded
            ],
            broker_file=str(self._run.broker_path),
            is_revived=options.is_revived,
        )
        # In memory: $TMPDIR may be full. It lives as long as this process, for agents that are started again.
        file = unnamed_file(name)
        with open(file, "wb", closefd=False) as content:
            content.write(msgspec.json.encode(spec))
        secret = {BROKER_VARIABLE: self._broker_url}
        return Service(
            name,
            "chimbuko.ad.agent",
            [f"/proc/self/fd/{file}"],
            secret,
            self._run.logs,
            inherited=(file,),
            sacrifice=Sacrifice.AGENT,
            start=fork,
        )
