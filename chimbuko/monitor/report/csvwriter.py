"""Files ``zs.data.RANK.csv`` in ZeroSum's columns: written period by period, and read into values."""

from __future__ import annotations

import csv
import errno
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.report.locks import LockCounts
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.sample import SAMPLER
from chimbuko.monitor.sampling.span import Span, ThreadSpan

COLUMNS = ("hostname", "rank", "shmrank", "step", "resource", "type", "index", "name", "value")


class Value(msgspec.Struct, frozen=True):
    """One line: a value of one thing at one step."""

    hostname: str
    rank: int
    shmrank: int
    """Among the ranks of the node."""
    step: int
    resource: str
    """``Node``, ``HWT``, ``GPU`` or ``LWP``."""
    type: str
    """``Property`` or ``Metric``."""
    index: str
    """Index of the item; for threads, their number."""
    name: str
    value: str

    @property
    def number(self) -> float | None:
        """The value as a number, None where it is none."""
        try:
            return float(self.value)
        except ValueError:
            return None


def read_zerosum(path: Path) -> Iterator[Value]:
    """Yield all lines of a file, in its order, which is not that of the steps. A last one that was cut off,
    as the program was killed, is left out.

    Raises
    ------
    ConfigError
        It cannot be read, or is not in ZeroSum's columns.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
            lines = csv.reader(line for line in file if line.endswith("\n"))
            if tuple(word.strip() for word in next(lines, [])) != COLUMNS:
                raise ConfigError(f"{path}: not ZeroSum's columns; give a file like zs.data.0.csv")
            for words in lines:
                if words:
                    yield _value(path, lines.line_num, words)
    except (OSError, csv.Error) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from error


def _value(path: Path, number: int, words: list[str]) -> Value:
    # Some versions write " Metric" with a blank before it.
    stripped = [word.strip() for word in words]
    if len(stripped) != len(COLUMNS):
        raise ConfigError(
            f"{path}:{number}: not a line of ZeroSum's ({len(stripped)} values in place of {len(COLUMNS)})"
        )
    host, rank, shmrank, step, resource, kind, index, name, value = stripped
    try:
        return Value(host, int(rank), int(shmrank), int(step), resource, kind, index, name, value)
    except ValueError as error:
        raise ConfigError(f"{path}:{number}: not a line of ZeroSum's ({error})") from error


TICKS = 100
"""Times of threads are written in hundredths of a second, as ZeroSum's are on all machines of today."""


class CsvWriter:
    """The files of all processes of a node; those without a rank are named by their numbers.

    Parameters
    ----------
    goes_on
        Whether files that are there are of this run, and appended to; those of an earlier one are replaced.
    """

    def __init__(self, folder: Path, node: str, goes_on: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._node = node
        self._goes_on = goes_on
        self._files: dict[int, IO[str]] = {}
        """Open files of the processes that live."""
        self._paths: dict[int, Path] = {}

    def write(
        self,
        span: Span,
        total: Span,
        identities: Mapping[int, Identity],
        locks: Mapping[int, LockCounts] | None = None,
    ) -> None:
        """Append a period: of hardware threads shares, of threads counts since they were first seen, and of
        their locks, where these are counted, since they began.
        """
        for pid in self._files.keys() - span.processes.keys():
            self._files.pop(pid).close()
        if len(self._paths) > 2 * len(identities):
            self._paths = {pid: path for pid, path in self._paths.items() if pid in identities}
        ranked = [one.pid for one in identities.values() if one.rank is not None]
        for pid, identity in identities.items():
            if pid not in span.processes:
                continue
            lines = _lines_into(self._file(identity))
            head = (self._node, identity.rank or 0, ranked.index(pid) if pid in ranked else 0, total.periods)
            lines.writerows((*head, *line) for line in self._lines(identity, span, total, locks or {}))

    def close(self) -> None:
        """End all files."""
        while self._files:
            self._files.popitem()[1].close()

    def _file(self, identity: Identity) -> IO[str]:
        pid = identity.pid
        if pid not in self._files:
            known = self._paths.get(pid)
            path = self._paths[pid] = known or self._new_path(identity)
            is_begun = path.exists() and (known is not None or self._goes_on)
            self._files[pid] = self._open(path, "a" if is_begun else "w")
            if not is_begun:
                _lines_into(self._files[pid]).writerow(COLUMNS)
        return self._files[pid]

    def _open(self, path: Path, mode: str) -> IO[str]:
        try:
            return open(path, mode, newline="", encoding="utf-8")
        except OSError as error:
            if error.errno != errno.EMFILE or not self._files:
                raise
        # There are more processes than files that may be open (ulimit -n).
        self.close()
        return open(path, mode, newline="", encoding="utf-8")

    def _new_path(self, identity: Identity) -> Path:
        name = f"{self._node}.{identity.pid}" if identity.rank is None else str(identity.rank)
        path = self._folder / f"zs.data.{name}.csv"
        # What a rank starts says that it is this rank, too.
        is_taken = path in self._paths.values()
        return self._folder / f"zs.data.{name}.{identity.pid}.csv" if is_taken else path

    def _lines(
        self, identity: Identity, span: Span, total: Span, locks: Mapping[int, LockCounts]
    ) -> Iterator[tuple[str, str, str, str, str]]:
        if span.memory:
            for name, value in (
                ("MemAvailable kB", span.memory.available_bytes),
                ("MemFree kB", span.memory.free_bytes),
                ("MemTotal kB", span.memory.total_bytes),
            ):
                yield "Node", "Property", "0", name, str(value // 1024)
        for cpu in identity.cpus:
            core = span.cores.get(cpu)
            for name, seconds in sorted(core.details.items()) if core else ():
                yield "HWT", "Metric", str(cpu), name, f"{100 * core.share(seconds):.2f}" if core else ""
        for number, gpu in sorted(span.gpus.items()):
            yield "GPU", "Property", str(number), "Name", gpu.name
            for name, metric in gpu.metrics.items():
                yield "GPU", "Metric", str(number), name, f"{metric.mean:.2f}"
        for tid in sorted(span.threads):
            thread = total.threads[tid]
            if thread.pid == identity.pid or thread.kind == SAMPLER:
                for name, text in _metrics(thread):
                    yield "LWP", "Metric", str(tid), name, text
                if tid in locks:
                    yield "LWP", "Metric", str(tid), "locks", str(locks[tid].locks)
                    yield "LWP", "Metric", str(tid), "trylocks", str(locks[tid].trylocks)
                    yield "LWP", "Metric", str(tid), "failed_trylocks", str(locks[tid].failed)
            if tid == identity.pid and (process := span.processes.get(tid)) is not None:
                # The kernel has it of whole processes alone, in bytes; in ZeroSum's column it is 0 for ever.
                pages = process.swapped_bytes // resource.getpagesize()
                yield "LWP", "Metric", str(tid), "nswap", str(pages)


def _lines_into(file: IO[str]) -> Any:
    """Return a writer of rows in ZeroSum's form: text in quotes, and ends of lines as in Unix."""
    return csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")


def _metrics(thread: ThreadSpan) -> Iterator[tuple[str, str]]:
    yield "majflt", str(thread.major_faults)
    yield "minflt", str(thread.minor_faults)
    yield "nonvoluntary_ctxt_switches", str(thread.involuntary)
    yield "processor", str(thread.processor)
    yield "state", thread.state
    yield "stime", str(round(TICKS * thread.system_s))
    yield "utime", str(round(TICKS * thread.user_s))
    yield "voluntary_ctxt_switches", str(thread.voluntary)
    if thread.waited_s is not None:
        yield "wait_ms", str(round(1000 * thread.waited_s))
