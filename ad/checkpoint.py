"""What a stream's process keeps for the one that takes over when it dies: two files, one of them in use.

Which of them is in use stands in the exchange (``ad.exchange``), so that statistics handed over, findings
and the state of the analysis are of the same step, whenever a process is killed.
"""

from __future__ import annotations

import copyreg
import os
import pickle
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from chimbuko.ad.analysis import StreamAnalysis
from chimbuko.ad.spool import SpoolFrame
from chimbuko.processes import log
from chimbuko.trace.schema import StreamNames


@dataclass
class Checkpoint:
    """The state of a stream's process between two steps."""

    analysis: StreamAnalysis
    epoch: int
    reports_seen: int
    """Reports of overdue calls that it knows."""
    known_metadata: set[tuple[int, int, str]]
    """What the store was told of."""
    counters_due_us: int
    frame: SpoolFrame | None
    """Findings that may not be in the spool yet."""
    sequence: int
    """Of this frame in the spool."""


class CheckpointFiles:
    """The two files of one stream, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / f"checkpoint.{slot}" for slot in (0, 1)]
        # Used again and again: fresh memory, and files of new blocks, would cost more than what is written.
        self._content = BytesIO()
        self.is_failing = False
        """Whether the last one could not be saved."""
        self._is_told = False

    def save(self, slot: int, checkpoint: Checkpoint) -> None:
        """Write one of them. Where the disk is full, all goes on without."""
        path, content = self._paths[slot], self._content
        content.seek(0)
        pickler = pickle.Pickler(content, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = _WITHOUT_NAMES
        pickler.dump(checkpoint)
        try:
            # What is left of a longer one stands behind the end, and is not looked at.
            _overwrite(path, content.getbuffer()[: content.tell()])
            self.is_failing = False
        except OSError as error:
            if not self._is_told:
                log(f"{path}: what is known of a stream cannot be kept ({error.strerror})")
            self.is_failing = self._is_told = True
            # Half of it, or that of an earlier step, would be taken for this one.
            path.unlink(missing_ok=True)

    def load(self, slot: int, names: StreamNames) -> Checkpoint | None:
        """The one that was saved last, whose analysis knows ``names``; None where there is none."""
        global _names
        try:
            content = self._paths[slot].read_bytes()
        except OSError:
            return None
        _names = names
        checkpoint: Checkpoint = pickle.loads(content)
        return checkpoint


def _overwrite(path: Path, content: memoryview) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        at = 0
        while at < len(content):
            at += os.pwrite(file, content[at:], at)
    finally:
        os.close(file)


_names = StreamNames()


def _names_of_stream() -> StreamNames:
    return _names


# Names are in a file of their own, which grows only with them.
_WITHOUT_NAMES = copyreg.dispatch_table | {StreamNames: lambda names: (_names_of_stream, ())}
