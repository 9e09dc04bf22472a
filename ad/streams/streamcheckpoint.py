"""Checkpoint that a stream's process keeps for the one that takes over when it dies: two files, one of them
in use.

The exchange file says which of them is in use (``ad.handoff.exchange``), so that statistics handed over,
findings and the state of the analysis are of the same step, whenever a process is killed.
"""

from __future__ import annotations

import os
import pickle
import struct
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis
from chimbuko.ad.handoff.spool import SpoolFrame
from chimbuko.ad.streams.commits import Told
from chimbuko.core.traceschema import StreamNames
from chimbuko.runtime.process.lifetime import log

Array = npt.NDArray[Any]


class Checkpoint(msgspec.Struct):
    """State of a stream's process between two steps."""

    analysis: StreamAnalysis
    epoch: int
    reports_seen: int
    """Number of reports of overdue calls that the process knows."""
    told: Told
    frame: SpoolFrame | None
    """Findings that may not be in the spool yet."""
    sequence: int
    """Sequence number of this frame in the spool."""


class CheckpointFiles:
    """The two checkpoint files of one stream, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / f"checkpoint.{slot}" for slot in (0, 1)]
        self._content = BytesIO()
        """Buffer that is used again and again, as the files are: fresh memory and fresh blocks cost more than
        to write.
        """
        self.is_failing = False
        """Whether the last checkpoint could not be saved."""
        self._is_reported = False

    def save(self, slot: int, checkpoint: Checkpoint) -> None:
        """Write one of the files. Where the disk is full, the process goes on without."""
        path, content = self._paths[slot], self._content
        content.seek(0)
        _write(content, checkpoint)
        try:
            # The rest of a longer, earlier checkpoint stands after the end, and is ignored.
            _overwrite(path, content.getbuffer()[: content.tell()])
            self.is_failing = False
        except OSError as error:
            if not self._is_reported:
                log(f"{path}: the checkpoint of a stream cannot be saved ({error.strerror})")
            self.is_failing = self._is_reported = True
            # Half a checkpoint, or that of an earlier step, would be taken for this one.
            path.unlink(missing_ok=True)

    def load(self, slot: int, names: StreamNames) -> Checkpoint | None:
        """Return the checkpoint that was saved last, whose analysis knows ``names``; None if there is
        none.
        """
        try:
            content = self._paths[slot].read_bytes()
        except OSError:
            return None
        return _read(content, names)


_HEAD = struct.Struct("<Q")


def _write(content: BytesIO, checkpoint: Checkpoint) -> None:
    """Write the offset of the arrays, the objects with descriptions of arrays in place of these, and the
    arrays.
    """
    content.write(bytes(_HEAD.size))
    objects = _Objects(content)
    objects.dump(checkpoint)
    arrays_at = content.tell()
    content.writelines(objects.arrays)
    content.getbuffer()[: _HEAD.size] = _HEAD.pack(arrays_at)


def _read(content: bytes, names: StreamNames) -> Checkpoint:
    checkpoint: Checkpoint = _Restored(content, names).load()
    return checkpoint


class _Objects(pickle.Pickler):
    """Pickler that sets arrays aside, which would take most of the time, and leaves out names, which have a
    file.
    """

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.arrays: list[Any] = []

    def reducer_override(self, obj: object) -> Any:
        """Reduce an object, as ``pickle`` asks for each one that is not of its own types."""
        if type(obj) is np.ndarray:
            self.arrays.append(obj if obj.flags.c_contiguous else np.ascontiguousarray(obj))
            return _array, (_kind(obj.dtype), obj.shape)
        return (_names, ()) if type(obj) is StreamNames else NotImplemented


class _Restored(pickle.Unpickler):
    """Unpickler of such objects, which come in the order in which they were written."""

    def __init__(self, content: bytes, names: StreamNames) -> None:
        super().__init__(BytesIO(memoryview(content)[_HEAD.size :]))
        self._content = content
        (self._at,) = _HEAD.unpack_from(content)
        self._known = {_array.__name__: self._next_array, _names.__name__: lambda: names}

    def find_class(self, module: str, name: str) -> Any:
        """Return a stand-in for an array, or for the names: what was kept of it."""
        is_kept = module == __name__ and name in self._known
        return self._known[name] if is_kept else super().find_class(module, name)

    def _next_array(self, kind: bytes, shape: tuple[int, ...]) -> Array:
        # A copy is aligned, and can be written to: for others kernels would be compiled once more.
        array: Array = np.ndarray(shape, pickle.loads(kind), self._content, self._at).copy()
        self._at += array.nbytes
        return array


def _array(kind: bytes, shape: tuple[int, ...]) -> Array:
    """Return the next array in a checkpoint; stands for it in the pickle."""
    raise NotImplementedError


def _names() -> StreamNames:
    """Return the names in a checkpoint; stands for them in the pickle."""
    raise NotImplementedError


@cache
def _kind(dtype: np.dtype[Any]) -> bytes:
    return pickle.dumps(dtype)


def _overwrite(path: Path, content: memoryview) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        at = 0
        while at < len(content):
            at += os.pwrite(file, content[at:], at)
    finally:
        os.close(file)
