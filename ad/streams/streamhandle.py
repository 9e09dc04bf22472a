"""One stream as its agent sees it, whichever process reads it at the moment.

``Rhythm`` decides, without a clock, when a stream counts as silent: it gives no step for much longer than
before. ``core_use`` and ``own_time_s`` say how much of its time a process could do anything; waiting for a
core does not count. ``left_streams`` finds the streams of an agent that has died: their findings and
statistics wait in its folder.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from chimbuko.ad.handoff.exchange import Cell, ExchangeBox, Phase
from chimbuko.ad.handoff.looksfile import LOOKS
from chimbuko.ad.handoff.namesfile import NAMES, read_names
from chimbuko.ad.handoff.opencalls import OpenCallsFile
from chimbuko.ad.handoff.processspecs import READER, StreamProcessSpec
from chimbuko.ad.handoff.shortage import StorageShortage
from chimbuko.ad.handoff.spool import SpoolDelivery, SpoolFrame, SpoolWriter
from chimbuko.ad.streams.deltalog import Taken
from chimbuko.capture.follow.instances import empty_aside
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.calls.record import READING, SILENT, Silence, StreamHealth
from chimbuko.core.calls.recordarrays import PackedRecords
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.sourcecensus import census_beside
from chimbuko.core.statistics.schema import TableSchema, schema_of
from chimbuko.core.traceschema import StreamNames
from chimbuko.monitor.procfs.task import parse_schedstat, parse_stat
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.messages import ALL_EPOCHS

LEAST_S = 5.0
LEAST_PERIODS = 5
TIMES_LONGEST = 3
"""Factor by which a stream is quiet longer than ever before when it counts as silent. Steps end where the
program allows it, so they are uneven: a rank that waits for others, or writes a checkpoint, gives none
meanwhile, and will do so again.
"""


@dataclass
class Rhythm:
    """Rhythm of the steps of one stream.

    Parameters
    ----------
    period_s
        Usual time between two steps.
    """

    period_s: float
    steps: int = 0
    quiet_s: float = 0.0
    """Time since the last step, in seconds."""
    longest_s: float = 0.0
    """Longest time between two steps so far."""

    def note(self, steps: int, seconds: float) -> None:
        """Note that the stream was waited for ``seconds``, and has given ``steps`` steps in all."""
        self.quiet_s += seconds
        if steps != self.steps:
            if self.steps:
                self.longest_s = max(self.longest_s, self.quiet_s)
            self.steps = steps
            self.quiet_s = 0.0

    @property
    def is_silent(self) -> bool:
        """Return whether the stream is quiet much longer than ever before. A stream that never gave a step is
        not silent.
        """
        limit_s = max(LEAST_S, LEAST_PERIODS * self.period_s, TIMES_LONGEST * self.longest_s)
        return self.steps > 0 and self.quiet_s > limit_s


_RUNNABLE, _STOPPED = "R", "Tt"
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class CoreUse(NamedTuple):
    """Kernel's account of a process's main thread."""

    state: str
    """State as a letter, as in ``TaskStat``."""
    ran_ns: int
    waited_ns: int
    """Time spent waiting for a core, in ns. A wait counts when it is over."""

    @property
    def is_stopped(self) -> bool:
        """Whether the process is stopped by a signal: it would notice nothing."""
        return self.state in _STOPPED


def core_use(pid: int) -> CoreUse | None:
    """Return the core use of a process until now; None if it is gone. A kernel may not tell the waiting
    time.
    """
    folder = Path(f"/proc/{pid}")
    times = None
    try:
        stat = parse_stat((folder / "stat").read_bytes())
        with suppress(FileNotFoundError):
            times = parse_schedstat((folder / "schedstat").read_bytes())
    except OSError:
        return None
    if stat is None:
        return None
    if times is None:
        return CoreUse(stat.state, (stat.user_ticks + stat.system_ticks) * _TICK_NS, 0)
    return CoreUse(stat.state, times.ran_ns, times.waited_ns)


def own_time_s(before: CoreUse | None, now: CoreUse | None, passed_s: float) -> float:
    """Return the time in which a process ran or slept, of ``passed_s`` seconds; all of it where nothing is
    known.
    """
    if before is None or now is None:
        return passed_s
    if now.state == _RUNNABLE and now.ran_ns == before.ran_ns:
        # It is still waiting, so the kernel has not counted the wait yet.
        return 0.0
    return max(passed_s - (now.waited_ns - before.waited_ns) / 1e9, 0.0)


BOX = "exchange"
"""Name of the file in a stream's folder by which it exchanges statistics with its agent."""
LOOK_PAUSE_S = 0.001
TAU_MARK = "TAU Version"
"""Key of metadata that only TAU writes."""


def is_prompt(names: StreamNames) -> bool:
    """Return whether the steps of a stream report every event within a period, and not only when its main
    thread allows.
    """
    return not any(key == TAU_MARK for _, _, key in names.metadata)


@dataclass
class StreamHandle:
    """Files and state of one stream."""

    name: StreamName
    transport: Transport
    program: int
    node: str
    folder: Path
    config: AnalysisConfig
    schema: TableSchema
    kept_trace: str = ""
    """Folder in which there is to be a copy of the stream; empty for none."""
    is_ours: bool = True
    """Whether what was read of followed files is deleted."""
    guarded: str = ""
    """Folder in which the stream's process registers with the guard; empty for none."""
    contact: str = ""
    """Identity of its contact file, different for another instance of its program; empty over files."""
    attempts: int = 0
    pid: int = 0
    is_over: bool = False
    """Whether no process will read the stream again."""
    looks: int = 0
    quiet_s: float = 0.0
    """Time in seconds in which its process, or the fork server before there is one, could have looked and did
    not.
    """
    own_s: float = 0.0
    """Time in seconds, of the last tick, in which they could have."""
    core_use: CoreUse | None = None
    """Core use of its process at the last tick, where that is quiet."""
    stood_at: int = 0
    """First step that was not committed when its process was started."""
    failures: int = 0
    """Number of processes that have died, one after the other, without having committed anything."""
    is_abandoned: bool = False
    """Whether nobody shall read the stream any more."""
    is_waiting: bool = False
    """Whether the stream waits for another process, after ``pause_ticks``."""
    pause_ticks: int = 0
    generations: list[tuple[int, int]] = field(default_factory=list)
    """Rounds of deltas, each with the generation of the outbox that it carried, oldest first."""
    merged_generation: int = -1
    model_edition: int = 0
    sent_epoch: int = -1
    names: StreamNames = field(default_factory=StreamNames)
    health: StreamHealth | None = None
    """Totals as last reported by its process."""
    silence: Silence | None = None
    """Silence of the stream; None while it gives steps."""
    reported_silence: Silence | None = None
    """Silence as last reported to the server."""
    stood: tuple[Silence, int] | None = None
    """Newest silence of the stream, also if it is over, with the number of calls that had ended by then."""
    named: int = 0
    """Number of its functions that the server was sent."""
    _names_version: int = 0

    word: StreamHealth | None = None
    """Totals that came past the spool: there was no room in it."""
    _shortage_version: int = 0
    _is_word_new: bool = False

    def __post_init__(self) -> None:
        """Make all files that its process cannot do without; raises ``OSError`` where there is no room."""
        self.delivery = SpoolDelivery(self.key, self.folder / "spool")
        self.delivery.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / READER).touch(mode=0o600)
        self.box = ExchangeBox(self._box_path, self.schema, self.program, self.name.rank)
        self.open_calls = OpenCallsFile(self._open_calls_path)
        self.rhythm = Rhythm(self.config.period_us / 1e6)

    @property
    def key(self) -> str:
        """Key of the stream, ``program:rank``."""
        return f"{self.program}:{self.name.rank}"

    @property
    def closed_epoch(self) -> int:
        """Last epoch that the stream has ended; all of them once nobody reads it any more."""
        return ALL_EPOCHS if self.is_over else self.box[Cell.CLOSED_EPOCH]

    @property
    def phase(self) -> Phase:
        """Current activity of its process."""
        return Phase(self.box[Cell.PHASE])

    def next_attempt(self) -> StreamProcessSpec:
        """Return the specification of a process that continues where the last one was."""
        self.attempts += 1
        self.quiet_s, self.core_use = 0.0, None
        return StreamProcessSpec(
            key=self.key,
            path=str(self.name.path),
            transport=self.transport,
            program=self.program,
            rank=self.name.rank,
            node=self.node,
            box=str(self._box_path),
            spool=str(self.delivery.folder),
            names=str(self._names_path),
            open_calls=str(self._open_calls_path),
            looks=str(self.folder / LOOKS),
            recorder=str(self.recorder_path),
            config=self.config,
            first_rank=self.name.first_rank,
            kept_trace=str(Path(self.kept_trace) / self.name.file_name) if self.kept_trace else "",
            is_ours=self.is_ours,
            guarded=self.guarded,
            contact=self.contact,
        )

    def give_up(self, loss: str = "") -> None:
        """Give the stream up: append that to its spool, on behalf of a process that died.

        Parameters
        ----------
        loss
            Kind under which the stream itself counts as lost.
        """
        spool, totals = self._last_totals()
        if totals.state not in ("ended", "broken"):
            losses = totals.losses | ({loss: 1} if loss else {})
            self._append_totals(spool, msgspec.structs.replace(totals, state="lost", losses=losses))
        self.is_over = True

    def look_for_census(self) -> None:
        """Look once more what the source has left beside a stream that was not read to its end.

        Its program may have ended since.
        """
        if self.phase is not Phase.ENDED and census_beside(self.name.path) is not None:
            spool, totals = self._last_totals()
            if totals.source is None:
                self._append_totals(spool, totals)

    def _last_totals(self) -> tuple[SpoolWriter, StreamHealth]:
        """Return the spool, and the newest totals that are in it or came past it."""
        spool = SpoolWriter(self.delivery.folder, self.key, self.config.spool_limit_bytes)
        nothing = StreamHealth(self.program, self.name.rank, self.node, "", 0, 0, 0, 0, 0, 0, {})
        totals = spool.health or nothing
        if self.word is not None and self.word.steps >= totals.steps:
            totals = self.word
        return spool, totals

    def _append_totals(self, spool: SpoolWriter, totals: StreamHealth) -> None:
        """Report totals on behalf of a process that is gone, with what the source says by now."""
        totals = msgspec.structs.replace(totals, source=totals.source or census_beside(self.name.path))
        spool.append(SpoolFrame(PackedRecords(), [], [], totals))
        self.word, self._is_word_new = totals, True

    def new_shortage(self) -> StorageShortage | None:
        """Return the process's storage shortage, if it has reported one since the last call."""
        version = self.box.shortage.version
        if version == self._shortage_version:
            return None
        shortage = self.box.shortage.read()
        if shortage is not None:
            self._shortage_version = version
            if not self.is_over or shortage.health.state != READING:
                self.word, self._is_word_new = shortage.health, True
        return shortage

    def last_health(self, health: StreamHealth) -> StreamHealth:
        """Return these totals, with the silence in which the stream ended if it did: no call of it has ended
        since.
        """
        if health.state in (READING, SILENT):
            # Totals of before the silence may come when it has begun.
            self.stood = self.stood if self.silence is None else (self.silence, health.calls)
            return health
        if self.stood is None or not health.open_calls:
            return health
        silence, calls = self.stood
        return msgspec.structs.replace(health, silence=silence) if health.calls == calls else health

    def new_word(self) -> StreamHealth | None:
        """Return ``word``, if there is one since the last call."""
        is_new, self._is_word_new = self._is_word_new, False
        return self.word if is_new else None

    def forget_files(self) -> None:
        """Free the storage of a stream that was read to its end, where another may follow it."""
        if self.transport is Transport.FILES and self.is_ours:
            empty_aside(self.name.path, self.name.first_rank)

    def inherit(self, deltas: Sequence[tuple[int, Taken]]) -> None:
        """Take over from an agent that died.

        Parameters
        ----------
        deltas
            Deltas of the dead agent that may not be merged yet, oldest first: number of the round, and what
            it took from the stream. All before are merged.
        """
        outbox = self.box.look()
        while outbox is None:
            time.sleep(LOOK_PAUSE_S)
            outbox = self.box.look()
        self.generations += [(number, taken.generation) for number, taken in deltas]
        self.merged_generation = (deltas[0][1].generation if deltas else outbox.generation) - 1
        if deltas and deltas[-1][1].generation == outbox.generation:
            taken = deltas[-1][1]
            timers = np.frombuffer(taken.timers, np.int64)
            outbox.remove(np.isin(outbox.learned.timers, timers), taken.has_paths)
        outbox.release()
        self.is_over = self.phase in (Phase.ENDED, Phase.BROKEN)

    def learn_names(self) -> None:
        """Learn the names that the stream's process has saved since the last time."""
        version = self.box[Cell.NAMES_VERSION]
        if version != self._names_version:
            self.names = read_names(self._names_path)
            self._names_version = version
            self.model_edition = 0

    @property
    def is_prompt(self) -> bool:
        """Whether its steps report every event within a period, and not only when its main thread allows."""
        return is_prompt(self.names)

    @property
    def _box_path(self) -> Path:
        return self.folder / BOX

    @property
    def recorder_path(self) -> Path:
        """Path of its flight recorder."""
        return self.folder / "recorder"

    @property
    def _open_calls_path(self) -> Path:
        return self.folder / "open-calls"

    @property
    def _names_path(self) -> Path:
        return self.folder / NAMES


_STREAM_FOLDER = re.compile(r"(?P<program>\d+)-(?P<rank>\d+)")


def left_streams(
    folder: Path, node: str, config: AnalysisConfig, known: Collection[Path] = ()
) -> list[StreamHandle]:
    """Return the streams in an agent's folder, except those that are known; none has a process."""
    found: list[StreamHandle] = []
    for place in sorted(folder.glob(f"*/{BOX}")):
        parts = _STREAM_FOLDER.fullmatch(place.parent.name)
        if parts is None or place.parent in known:
            continue
        name = StreamName("", int(parts["rank"]), place.parent)
        program, schema = int(parts["program"]), schema_of(config.detector)
        try:
            found.append(StreamHandle(name, Transport.SST, program, node, place.parent, config, schema))
        except (OSError, MemoryError) as error:
            log(f"{place.parent}: findings left in it cannot be delivered ({error})")
    return found
