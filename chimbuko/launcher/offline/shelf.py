"""Findings on their way into the store: they gather, and what cannot be stored waits in files."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from chimbuko.ad.handoff.namesfile import NAMES, NamesFile
from chimbuko.ad.handoff.spool import SpoolFrame, SpoolWriter
from chimbuko.causes.incident import Asked
from chimbuko.core.traceschema import StreamNames
from chimbuko.provenance.service.steps import GiveUp
from chimbuko.provenance.service.storing import Storing
from chimbuko.provenance.service.writercore import Troubles
from chimbuko.provenance.store.engine import StoreBusy
from chimbuko.provenance.write.events import RanksAsked
from chimbuko.runtime.protocol.messages import RecordBatch, RunStatistics

Made = TypeVar("Made")

MOST_BATCHES = 256
"""Most batches of a transaction: 1,000 records in one are stored ten times as fast as one each."""
MOST_BYTES = 4 << 20
"""Size of records from which no more are gathered."""
MOST_UNEXPLAINED = 2_000
"""Records from which they are explained at the end of an epoch: it goes by their number, so that runs of
one trace are alike.
"""
LONGEST_S = 2.0
"""Longest time from one transaction to the next, in seconds: others may look at the store meanwhile."""


class LeftSpools:
    """Spools of all streams, in which findings wait for ``chimbuko runs deliver``.

    Parameters
    ----------
    folder
        Folder for the spools.
    programs
        Names of the programs by number.
    limit_bytes
        Size of a spool beyond which records of low severity are dropped and counted.
    """

    def __init__(self, folder: Path, programs: Sequence[str], limit_bytes: int) -> None:
        self._folder = folder
        self._programs = programs
        self._limit_bytes = limit_bytes
        self._writers: dict[str, SpoolWriter] = {}

    def append(self, stream: str, frame: SpoolFrame, dropped: Counter[str]) -> None:
        """Leave a frame of a stream of which so many calls of each function were not recorded before."""
        if stream not in self._writers:
            folder = self._folder / stream.replace(":", "-")
            folder.mkdir(parents=True, exist_ok=True)
            NamesFile(folder / NAMES).save(StreamNames(program=self._programs[frame.health.program]))
            self._writers[stream] = SpoolWriter(folder / "spool", stream, self._limit_bytes)
            self._writers[stream].dropped.update(dropped)
        self._writers[stream].append(frame)


class Shelf:
    """Shelf for findings of streams, which are stored from it in large transactions.

    If the store cannot be used for so long that it is given up, later findings are left in spools.

    Parameters
    ----------
    report
        Takes a line for the user.
    beat
        Called again and again, as a sign of life.
    spools
        Spools for what cannot be stored.
    """

    def __init__(
        self,
        storing: Storing,
        report: Callable[[str], None],
        beat: Callable[[], None],
        spools: LeftSpools,
    ) -> None:
        self._storing = storing
        self._report = report
        self._beat = beat
        self._spools = spools
        self._frames: list[tuple[str, SpoolFrame]] = []
        self._size_bytes = 0
        self._stored_s = time.monotonic()
        self._unexplained = 0
        self._sequences: Counter[str] = Counter()
        self._dropped: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.is_given_up = False
        """Whether the store is given up."""

    def put(self, stream: str, frame: SpoolFrame) -> None:
        """Take what a stream has found; it is stored at once where it is much."""
        if self.is_given_up:
            self._spools.append(stream, frame, self._dropped[stream])
            return
        self._frames.append((stream, frame))
        self._unexplained += frame.records.count
        self._size_bytes += sum(map(len, msgspec.structs.astuple(frame.records)))
        if self._size_bytes >= MOST_BYTES:
            self.store()

    def end_epoch(self) -> None:
        """Store what was put where that is due, and explain it where it is much."""
        if self._unexplained >= MOST_UNEXPLAINED:
            self.store()
            self.explain()
        elif len(self._frames) >= MOST_BATCHES or time.monotonic() - self._stored_s >= LONGEST_S:
            self.store()

    def store(self, statistics: RunStatistics | None = None) -> None:
        """Store all that was put, and the statistics."""
        # In one order, whichever stream was read first.
        frames = sorted(self._frames, key=lambda one: one[0])
        self._frames, self._size_bytes = [], 0
        if self.is_given_up:
            return
        batches = [self._batch(stream, frame) for stream, frame in frames]
        try:
            self.write(batches)
            if statistics is not None:
                self._tried(lambda: self._storing.statistics(statistics))
        except StoreBusy:
            self.is_given_up = True
            for stream, frame in frames:
                self._dropped[stream].subtract(frame.left_out)
            for stream, frame in frames:
                self._spools.append(stream, frame, self._dropped[stream])
        self._stored_s = time.monotonic()

    def write(self, batches: Sequence[RecordBatch]) -> None:
        """Write batches."""
        if batches:
            self._tried(lambda: self._storing.records(batches))

    def note_asked(self, asked: Mapping[int, Asked]) -> None:
        """Take which ranks have answered who waited, by the number of the incident."""
        if asked and not self.is_given_up:
            self._storing.explainer.take(RanksAsked(time.monotonic(), asked))

    def explain(self) -> None:
        """Explain all calls that are stored."""
        self._unexplained = 0
        if self.is_given_up:
            return
        try:
            self._tried(lambda: self._storing.explain(True))
        except StoreBusy:
            self.is_given_up = True

    def _tried(self, store: Callable[[], Made]) -> Made:
        """Return what was made; where the store cannot be used now it is tried again.

        Raises
        ------
        StoreBusy
            It could not be used for ten seconds.
        """
        troubles = Troubles()
        while True:
            self._beat()
            try:
                made = store()
            except StoreBusy as error:
                todo = troubles.failed(time.monotonic(), error, is_stopping=True)
                if isinstance(todo, GiveUp):
                    raise
                if todo.line:
                    self._report(todo.line)
                time.sleep(todo.pause_s)
                continue
            if over := troubles.over(time.monotonic()):
                self._report(over.line)
            return made

    def _batch(self, stream: str, frame: SpoolFrame) -> RecordBatch:
        self._sequences[stream] += 1
        self._dropped[stream].update(frame.left_out)
        return frame.batch(stream, self._sequences[stream], self._dropped[stream])
