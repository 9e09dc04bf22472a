"""Reader of a stream's files while they are written; what was read is given back, or kept as a copy."""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Callable
from pathlib import Path

from chimbuko.capture.follow.alarm import Alarm
from chimbuko.capture.follow.holes import GUARD, READER, DataFile, FirstStep, punch_file
from chimbuko.capture.follow.instances import InstanceFiles
from chimbuko.capture.follow.presence import has_writer
from chimbuko.capture.follow.steps import DATA, INDEX, METADATA, StepIndex
from chimbuko.capture.trace.discovery import BP_FILE
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.capture.trace.source import Waiting
from chimbuko.core.traceschema import LOST_STEPS, StreamNames, TraceStep
from chimbuko.runtime.process.lifetime import log

CHUNK_BYTES = 1 << 20
FORMATS = "mmd.0"


class KeptTrace:
    """The copy of one stream, as a recorded one that ``chimbuko run --trace`` reads.

    Parameters
    ----------
    stream
        Folder of the stream that is being written.
    copy
        Folder of the copy; made if need be.
    """

    def __init__(self, stream: Path, copy: Path) -> None:
        self._stream = stream
        self._copy = copy
        self._copy.mkdir(parents=True, exist_ok=True)

    def copied(self, name: str) -> int:
        """Return the bytes of a file that are copied, by file."""
        copy = self._copy / name
        return copy.stat().st_size if copy.exists() else 0

    def copy_until(self, name: str, end: int) -> None:
        """Copy what stands before a position of a file, and is not copied yet.

        Raises
        ------
        OSError
            There is no room for it.
        """
        with (self._stream / name).open("rb") as source, (self._copy / name).open("ab") as target:
            # What an earlier process has copied is there.
            left = end - target.tell()
            source.seek(target.tell())
            while left > 0 and (chunk := source.read(min(left, CHUNK_BYTES))):
                target.write(chunk)
                left -= len(chunk)

    def note_lost(self, steps: range) -> None:
        """Note steps that were given up before they could be copied; zeros stand in place of their data."""
        with (self._copy / LOST_STEPS).open("a") as file:
            file.writelines(f"{step}\n" for step in steps)

    def finish(self) -> None:
        """Copy the rest: nobody writes the stream any more.

        Raises
        ------
        OSError
            There is no room for it.
        """
        for name in (DATA, METADATA):
            self.copy_until(name, (self._stream / name).stat().st_size)
        for name in (INDEX, FORMATS):
            shutil.copyfile(self._stream / name, self._copy / name)


POLL_S = 0.05
LONGEST_WAIT_S = 1.25
"""Between two looks at what else there is to do: not while a step comes each second, as usual."""


class FollowedStream:
    """A BP5 stream that is being written on this node.

    Its writer never knows. Steps are read as soon as they are complete; those whose data was given up
    before they were read, for want of room, are a gap in the step numbers.

    Parameters
    ----------
    path
        Under which the stream is, or was, written; its files need not exist yet.
    rank, first_rank, first_step, names
        As for ``StreamReader``. The first rank says which instance of the program it is.
    kept
        Folder of a copy of the whole trace; None for none.
    is_ours
        Somebody else's files stay as they are.

    Raises
    ------
    TraceFormatError
        There is no such folder.
    """

    is_joining = False

    @property
    def written_steps(self) -> int:
        """Number of steps that the writer has completed."""
        return self._index.count

    def __init__(
        self,
        path: Path,
        rank: int | None,
        first_rank: int,
        first_step: int,
        names: StreamNames,
        kept: Path | None = None,
        is_ours: bool = True,
    ) -> None:
        self.names = names
        self._name = path
        self._files = InstanceFiles(path, first_rank)
        self._path = path = self._files.path
        self._ranks = rank, first_rank
        self._next_step = first_step
        self._given_back = first_step
        self._dropped_to = 0
        """Steps before this one were given up, as was known when the last one had been read."""
        self._is_ours = is_ours
        self._index = StepIndex(path)
        self._data = DataFile(path)
        self._first = FirstStep(path)
        self._kept = None if kept is None else KeptTrace(path, kept)
        self._alarm = Alarm(path, POLL_S)
        self._reader: StreamReader | None = None
        self._is_all_written = False
        self._is_numbered = self._is_aside = False
        self._is_complaining = False
        self._held: dict[int, int] = {}
        """Step to where its data ends at least."""

    def next_step(self, timeout_s: float | None) -> TraceStep | Waiting:
        """Return the next step; ``NOT_READY`` where none is complete within ``timeout_s`` seconds, or about a
        second, and when a signal has come.

        Raises
        ------
        TraceFormatError
            It is damaged.
        """
        has_waited = False
        while True:
            # Asked before the index is read: what is there then is all.
            is_all_written = self._is_all_written
            count = self._index.read()
            if count and not self._is_numbered and self._is_ours:
                self._is_numbered = True
                self._files.number()
            if self._index.has_ended and not self._is_aside:
                self._set_aside()
            if count > self._next_step:
                step = self._read()
                if step is not None:
                    return step
            elif self._index.has_ended:
                return Waiting.END
            elif is_all_written:
                return Waiting.BROKEN
            elif has_waited:
                if count and not self._is_aside and not has_writer(self._path):
                    # It was killed.
                    self._set_aside()
                return Waiting.NOT_READY
            else:
                self._alarm.wait(LONGEST_WAIT_S if timeout_s is None else min(timeout_s, LONGEST_WAIT_S))
                has_waited = True

    def give_back(self, first_step: int) -> None:
        """Give back all that is of steps before this one; where the file system cannot, it stays."""
        if first_step <= self._given_back or not self._is_ours:
            return
        end, metadata_end = self._end_before(first_step), self._index.metadata_end(first_step - 1)
        self._keep(lambda kept: self._copy(kept, first_step, end, metadata_end))
        try:
            self._data.give_back(first_step, end)
            # Step 0 has most of the names, for who comes without knowing any.
            punch_file(f"{self._path}/{METADATA}", self._index.first_metadata_end, metadata_end)
        except OSError as error:
            if not self._is_complaining:
                log(f"{self._name}: space cannot be given back ({error.strerror})")
            self._is_complaining = True
        self._given_back = first_step
        self._index.forget_before(first_step)

    def _copy(self, kept: KeptTrace, first_step: int, end: int, metadata_end: int) -> None:
        # Another process may have died before it had copied what it had read. Each step begins with a page.
        begin = self._index.step_at(-(-kept.copied(DATA) // mmap.PAGESIZE) * mmap.PAGESIZE)
        kept.copy_until(DATA, end)
        kept.copy_until(METADATA, metadata_end)
        # Looked at after it was copied: what the guard has dropped by then may be zeros.
        kept.note_lost(range(begin, min(self._first.by(GUARD), first_step)))

    def end(self) -> None:
        """Note that nobody writes the stream any more."""
        self._is_all_written = True

    def close(self) -> None:
        """Let go of the files; what is kept of them is complete then, if the stream is."""
        if self._index.has_ended or self._is_all_written:
            self._keep(lambda kept: kept.finish())
        if self._reader is not None:
            self._reader.close()
        self._alarm.close()
        self._files.close()

    def _set_aside(self) -> None:
        """Make room at the stream's path for the next instance of its program, as this one has ended."""
        self._is_aside = True
        begun = self._index.metadata_end(self._index.count - 1) if self._index.count else 0
        # Where that has begun already, some of the files are its own: then only one can be read.
        if self._is_ours and (self._path / METADATA).stat().st_size >= begun:
            self._files.set_aside()

    def _read(self) -> TraceStep | Waiting | None:
        """Return the next step that is complete; None if its data was given up before it was read."""
        if self._reader is None:
            rank, first_rank = self._ranks
            self._reader = StreamReader(
                self._name,
                BP_FILE,
                rank=rank,
                first_rank=first_rank,
                begin=max(self._next_step, self._first.by(READER)),
                names=self.names,
                files=self._path,
            )
        wanted = self._next_step
        self._reader.first_step = max(wanted, self._dropped_to)
        step = self._reader.next_step(0.0)
        # Looked at after it was read: it may have been zeros by then.
        self._dropped_to = self._first.by(GUARD)
        # Where all that is complete was given up, there is no step.
        number = step.step if isinstance(step, TraceStep) else self._reader.first_step
        if not isinstance(step, TraceStep) and number == wanted:
            return step
        is_there = isinstance(step, TraceStep) and number >= self._dropped_to
        self._next_step = number + 1 if isinstance(step, TraceStep) else number
        lost = range(wanted, number if is_there else self._next_step)
        if lost:
            self._keep(lambda kept: kept.note_lost(lost))
        if not isinstance(step, TraceStep) or not is_there:
            return None
        self._held[number] = self._index.begin(number) + step.size_bytes
        if lost or self._index.defines_names(number):
            # Not all that is new changes a count, and when the step's metadata is gone nobody can know.
            self._reader.read_new_attributes()
        return step

    def _keep(self, act: Callable[[KeptTrace], None]) -> None:
        """Go on with the copy; where there is no room for it, without."""
        if self._kept is None:
            return
        try:
            act(self._kept)
        except OSError as error:
            log(f"{self._name}: the trace cannot be kept any further ({error.strerror})")
            self._kept = None

    def _end_before(self, first_step: int) -> int:
        """Return where the data of the steps before this one ends, as far as that is known."""
        end = self._held.get(first_step - 1, 0)
        self._held = {step: end for step, end in self._held.items() if step >= first_step}
        return self._index.begin(first_step) if first_step < self._index.count else end
