"""One stream as its agent sees it, whichever process reads it at the moment."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from chimbuko.ad.analysis import Learned
from chimbuko.ad.child import ChildSpec, read_names
from chimbuko.ad.exchange import Cell, ExchangeBox, Phase
from chimbuko.ad.spool import SpoolReader
from chimbuko.config import AnalysisConfig
from chimbuko.messages import ALL_EPOCHS
from chimbuko.tables import TableSchema
from chimbuko.trace.discovery import StreamName


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
    acknowledged: int = 0
    """Last frame of the spool that is in the store."""
    in_flight: dict[int, int] = field(default_factory=dict)
    """Frame to its size, for frames sent and not yet acknowledged."""
    generations: list[tuple[int, int]] = field(default_factory=list)
    """(delta sequence, generation of the outbox that it carried), oldest first."""
    merged_generation: int = -1
    model_version: int = 0
    sent_epoch: int = -1
    leftovers: list[Learned] = field(default_factory=list)
    """What ended processes learned and nobody took."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while the box is used or replaced: the supervisor and the link are two threads."""
    timers: dict[int, str] = field(default_factory=dict)
    _names_version: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.spool = SpoolReader(self.spool_folder)
        self.box = self._new_box()

    @property
    def key(self) -> str:
        """``program:rank``."""
        return f"{self.program}:{self.name.rank}"

    @property
    def spool_folder(self) -> Path:
        """Where its findings queue."""
        return self.folder / "spool"

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
            self.attempts += 1
            self.box = self._new_box()
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
            spool=str(self.spool_folder),
            names=str(self._names_path),
            config=self.config,
            first_rank=self.name.first_rank,
        )

    def refresh_timers(self) -> None:
        """Learn the names that the stream's process has saved since the last time."""
        version = self.box[Cell.NAMES_VERSION]
        if version != self._names_version:
            self.timers = read_names(self._names_path).timers
            self._names_version = version
            self.model_version = 0

    def _empty_box(self) -> None:
        taken = self.box.take()
        if taken is not None:
            self.leftovers.append(taken[1])
        self.box.close()

    @property
    def _box_path(self) -> Path:
        return self.folder / f"exchange.{self.attempts}"

    @property
    def _names_path(self) -> Path:
        return self.folder / "names"

    def _new_box(self) -> ExchangeBox:
        self._box_path.unlink(missing_ok=True)
        return ExchangeBox(self._box_path, self.schema)
