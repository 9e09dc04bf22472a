"""One stream as its agent sees it, whichever process reads it at the moment."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from chimbuko.ad.child import NAMES, read_names, totals_of
from chimbuko.ad.delivery import SpoolDelivery
from chimbuko.ad.exchange import Cell, ExchangeBox, Outbox, Phase
from chimbuko.ad.journal import Taken
from chimbuko.ad.opencalls import OpenCallsFile
from chimbuko.ad.orders import ChildSpec
from chimbuko.ad.silence import Rhythm
from chimbuko.ad.spool import SpoolWriter
from chimbuko.config import AnalysisConfig
from chimbuko.messages import ALL_EPOCHS
from chimbuko.packed import PackedRecords
from chimbuko.records import Silence, StreamHealth
from chimbuko.tables import TableSchema
from chimbuko.trace.discovery import StreamName
from chimbuko.trace.schema import StreamNames

_BOX = "exchange"
TAU_MARK = "TAU Version"
"""Metadata that only TAU writes."""


@dataclass
class AgentStream:
    """Files and state of one stream."""

    name: StreamName
    engine: str
    program: int
    node: str
    folder: Path
    config: AnalysisConfig
    schema: TableSchema
    attempts: int = 0
    pid: int = 0
    is_over: bool = False
    """No process will read it again."""
    heartbeat: int = 0
    quiet_ticks: int = 0
    generations: list[tuple[int, int]] = field(default_factory=list)
    """(delta sequence, generation of the outbox that it carried), oldest first."""
    merged_generation: int = -1
    model_version: int = 0
    sent_epoch: int = -1
    leftovers: list[Outbox] = field(default_factory=list)
    """What ended processes learned and nobody took."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while the box is used or replaced: the supervisor and the link are two threads."""
    names: StreamNames = field(default_factory=StreamNames)
    health: StreamHealth | None = None
    """Totals as last told by its process."""
    silence: Silence | None = None
    """Set while it is silent."""
    told_silence: Silence | None = None
    """As last told to the server."""
    named: int = 0
    """How many of its functions the server was told of."""
    _names_version: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.delivery = SpoolDelivery(self.key, self.folder / "spool")
        self.box = self._new_box()
        self.open_calls = OpenCallsFile(self._open_calls_path)
        self.rhythm = Rhythm(self.config.period_us / 1e6)

    @property
    def key(self) -> str:
        """``program:rank``."""
        return f"{self.program}:{self.name.rank}"

    @property
    def closed_epoch(self) -> int:
        """Last epoch that the stream has ended; all of them once nobody reads it any more."""
        return ALL_EPOCHS if self.is_over else self.box[Cell.CLOSED_EPOCH]

    @property
    def phase(self) -> Phase:
        """What its process is doing."""
        return Phase(self.box[Cell.PHASE])

    def next_attempt(self) -> ChildSpec:
        """Order for a new process; it gets a new box, since nobody knows what a dead one did to the old."""
        with self.lock:
            if self.attempts:
                self._empty_box()
            learned_steps = self.box.learned_steps
            self.attempts += 1
            self.box = self._new_box()
            self.box[Cell.TAKEN_STEPS] = learned_steps
            self.generations.clear()
            self.merged_generation = -1
            self.model_version = 0
            self.heartbeat = 0
            self.quiet_ticks = 0
            self._names_version = 0
        return ChildSpec(
            key=self.key,
            path=str(self.name.path),
            engine=self.engine,
            program=self.program,
            rank=self.name.rank,
            node=self.node,
            box=str(self._box_path),
            spool=str(self.delivery.folder),
            names=str(self._names_path),
            open_calls=str(self._open_calls_path),
            recorder=str(self.recorder_path),
            config=self.config,
            first_rank=self.name.first_rank,
        )

    def give_up(self) -> None:
        """Nobody reads it any further: say so where its findings queue, on behalf of a process that died."""
        spool = SpoolWriter(self.delivery.folder, self.key, self.config.spool_limit_bytes)
        nothing = StreamHealth(self.program, self.name.rank, self.node, "", 0, 0, 0, 0, 0, 0, {})
        with self.lock:
            totals = totals_of(spool, self.box.learned_steps) or nothing
        if totals.state not in ("ended", "broken"):
            spool.append(PackedRecords(), [], [], msgspec.structs.replace(totals, state="lost"))
        self.is_over = True

    def learn_names(self) -> None:
        """Learn the names that the stream's process has saved since the last time."""
        with self.lock:
            version = self.box[Cell.NAMES_VERSION]
            if version != self._names_version:
                self.names = read_names(self._names_path)
                self._names_version = version
                self.model_version = 0

    @property
    def is_prompt(self) -> bool:
        """Whether its steps tell of every event within a period, and not only when its main thread allows."""
        return not any(key == TAU_MARK for _, _, key in self.names.metadata)

    def _empty_box(self) -> None:
        """The process that used it has ended: nobody holds its lock."""
        outbox = self.box.take()
        if outbox is not None:
            self.leftovers.append(outbox)
        self.box.close()

    def inherit(self, taken: Taken | None) -> None:
        """Take over what was learned for an agent that died; ``taken`` was in its last delta already."""
        for path in sorted(self.folder.glob(f"{_BOX}.*")):
            if path == self._box_path:
                continue
            box = ExchangeBox(path, self.schema, self.program, self.name.rank)
            self.box[Cell.TAKEN_STEPS] = max(self.box[Cell.TAKEN_STEPS], box.learned_steps)
            outbox = box.look()
            if outbox is not None and taken is not None and outbox.generation == taken.generation:
                timers = np.frombuffer(taken.timers, np.int64)
                box.remove(outbox, np.isin(outbox.learned.timers, timers), taken.has_paths)
                box.release()
                outbox = box.look()
            if outbox is not None:
                self.leftovers.append(outbox)
            box.close()
            path.unlink()
        if self.leftovers and self._names_path.exists():
            self.names = read_names(self._names_path)

    @property
    def _box_path(self) -> Path:
        return self.folder / f"{_BOX}.{self.attempts}"

    @property
    def recorder_path(self) -> Path:
        """Its flight recorder."""
        return self.folder / "recorder"

    @property
    def _open_calls_path(self) -> Path:
        return self.folder / "open-calls"

    @property
    def _names_path(self) -> Path:
        return self.folder / NAMES

    def _new_box(self) -> ExchangeBox:
        self._box_path.unlink(missing_ok=True)
        return ExchangeBox(self._box_path, self.schema, self.program, self.name.rank)
