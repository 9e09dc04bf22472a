"""Samples of a node on their way to the store, with its parts, its findings and the losses of its ranks."""

from __future__ import annotations

import zlib

import msgspec
import numpy as np

from chimbuko.core import unpacking
from chimbuko.monitor.sampling.rows import CORE, GPU, NODE, OTHER, THREAD, VERSION, Rows


class NodePart(msgspec.Struct, frozen=True, array_like=True):
    """Part of a node. In a list, each part lies in the last one before it that is less deep."""

    depth: int
    """Depth in the tree; the machine has 0."""
    kind: str
    """Kind in hwloc's words: Machine, Package, NUMANode, L3Cache, L2Cache, Core, PU."""
    logical: int
    """Number of parts of its kind that come before it."""
    physical: int | None
    """The kernel's number; caches have none."""
    cpus: str
    """Hardware threads of the part by their physical numbers, as ``0-3,8``."""
    size_bytes: int | None
    """Size of memory and caches, in bytes."""


class NodeFinding(msgspec.Struct, frozen=True, array_like=True):
    """Something that cost the programs of a node time."""

    kind: str
    """One word, such as ``oversubscribed``."""
    text: str
    """Observation, with the figures that show it."""
    advice: str
    """Advice to the user."""


SAMPLED_US = 10_000_000
"""Longest time from the beginning of a loss of which rows are given, in µs."""


class RankLoss(msgspec.Struct, frozen=True, array_like=True):
    """Time in which the main thread of a rank lost much of it, as the kernel kept it from running.

    One that goes on is said again as it grows: with the same rank and begin.
    """

    program: int
    rank: int
    is_stopped: bool
    """Whether a signal or a debugger stopped the rank; else it waited for a core."""
    begin_us: int
    """Begin in µs since the Unix epoch, by the node's clock."""
    end_us: int
    lost_us: int
    """Time lost in µs; of waits for a core only what exceeds the usual waits of the thread."""


class Awaited(msgspec.Struct, frozen=True, array_like=True):
    """File or child process that a thread slept for between two looks."""

    tid: int
    begin_us: int
    end_us: int
    name: str
    """Path of the file, or name of the child."""
    first_byte: int = 0
    end_byte: int = 0
    """Where in the file the thread was, and with what it moved just then; both 0 if that is not known."""


class ThreadName(msgspec.Struct, frozen=True, array_like=True):
    """Identity of a thread, which joins its samples with calls."""

    pid: int
    tid: int
    name: str
    program: int
    rank: int
    thread: int
    """Number of the thread in the trace; -1 if the trace does not say."""
    cpus: str = ""
    """Cores on which it may run, as ``0-3,8``; empty if that is not known."""
    stacks: tuple[int, ...] = ()
    """Numbers of its further stacks in the trace, as those of coroutines."""


class NodeBatch(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one node. A batch that comes twice counts once."""

    node: str
    sequence: int
    """Number of the batch, which grows from batch to batch of a node, also after a restart of its agent."""
    is_sum: bool
    """Rows are sums over a longer time, of all that the node did; else samples as they were taken, from
    around calls that were flagged."""
    begin_us: int
    end_us: int
    names: list[ThreadName]
    """Names of all threads in the batch."""
    threads: bytes = b""
    """``THREAD`` rows of whole periods, and so on."""
    cores: bytes = b""
    others: bytes = b""
    states: bytes = b""
    """``NODE`` rows."""
    version: int = VERSION
    cost_us: int = 0
    """CPU time of the samples since the batch before, of those once a period and of the fast ones."""
    fast_cost_us: int = 0
    left_out: int = 0
    """Rows since the batch before for which there was no room."""
    looks: bytes = b""
    """``THREAD`` rows of single threads between two fast looks at them; of the same time as ``threads``."""
    findings: list[NodeFinding] = []
    """Findings in the time of a sum."""
    parts: list[NodePart] = []
    """Parts of the node, in the first sum of its agent."""
    gpus: bytes = b""
    losses: list[RankLoss] = []
    """Losses that are new, or have grown since they were last sent, with the rows from around them."""
    awaited: list[Awaited] = []
    """Files and children that the threads of ``looks`` slept for."""

    @property
    def is_known(self) -> bool:
        """Whether its rows are of this version."""
        return self.version == VERSION

    def thread_rows(self) -> Rows:
        """THREAD[n], in no order."""
        return np.frombuffer(self.threads, THREAD)

    def look_rows(self) -> Rows:
        """THREAD[n], in no order; those of one thread do not overlap."""
        return np.frombuffer(self.looks, THREAD)

    def core_rows(self) -> Rows:
        """CORE[n]."""
        return np.frombuffer(self.cores, CORE)

    def other_rows(self) -> Rows:
        """OTHER[n]."""
        return np.frombuffer(self.others, OTHER)

    def state_rows(self) -> Rows:
        """NODE[n]."""
        return np.frombuffer(self.states, NODE)

    def gpu_rows(self) -> Rows:
        """GPU[n]."""
        return np.frombuffer(self.gpus, GPU)


class PackedBatch(msgspec.Struct, frozen=True, array_like=True):
    """A batch as it travels and is stored; its fields are the table's columns.

    Nodes pack it, since the store's one writer has the batches of all.
    """

    node: str
    sequence: int
    begin_us: int
    end_us: int
    is_sum: bool
    rows: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(NodeBatch)
_ROWS = {
    "threads": THREAD,
    "cores": CORE,
    "others": OTHER,
    "states": NODE,
    "looks": THREAD,
    "gpus": GPU,
}
_BY_COLUMNS = b"c"
"""Mark before rows that are packed by columns; earlier versions packed rows as they are, without a mark."""
_LEVEL = 1
"""Compression level of zlib. By columns, the rows of 400 threads take a tenth of the time of level 6 by rows,
and two thirds of the bytes; higher levels gain 2 %.
"""


def packed(batch: NodeBatch) -> PackedBatch:
    """Return a batch in the form in which it is sent."""
    columns = {name: _columns(getattr(batch, name), dtype) for name, dtype in _ROWS.items()}
    data = zlib.compress(_encoder.encode(msgspec.structs.replace(batch, **columns)), _LEVEL)
    return PackedBatch(
        batch.node, batch.sequence, batch.begin_us, batch.end_us, batch.is_sum, _BY_COLUMNS + data
    )


def unpacked(data: bytes) -> NodeBatch:
    """Return the batch that was packed to this.

    Raises
    ------
    msgspec.MsgspecError, ValueError
        It is no batch.
    StoreError
        It is damaged.
    """
    if not data.startswith(_BY_COLUMNS):
        return _decoder.decode(unpacking.unpacked(data))
    batch = _decoder.decode(unpacking.unpacked(data[len(_BY_COLUMNS) :]))
    if not batch.is_known:
        return batch
    rows = {name: _rows(getattr(batch, name), dtype) for name, dtype in _ROWS.items()}
    return msgspec.structs.replace(batch, **rows)


def _columns(data: bytes, dtype: np.dtype[np.void]) -> bytes:
    """Rows, one field after the other: values that are alike stand together."""
    rows = np.frombuffer(data, dtype)
    return b"".join(rows[name].tobytes() for name in dtype.names or ())


def _rows(data: bytes, dtype: np.dtype[np.void]) -> bytes:
    """Return rows in order from bytes that were packed by columns."""
    rows, at = np.empty(len(data) // dtype.itemsize, dtype), 0
    for name in dtype.names or ():
        of_field = np.frombuffer(data, dtype[name], len(rows), at)
        rows[name] = of_field
        at += of_field.nbytes
    return rows.tobytes()
