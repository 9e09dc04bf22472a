"""Identity of a process, and what it was started with: rank, command, cores that it may use, settings."""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec

from chimbuko.core.redaction import without_secrets
from chimbuko.monitor.procfs.task import allowed_cpus, parse_stat
from chimbuko.runtime.process.ranks import size_from, stated_rank
from chimbuko.runtime.runs.environment import kept_variables

EXEC_LOOKS, EXEC_LOOK_S = 100, 0.001
"""Number of looks, and seconds between them, for what a process was started with: between the moment at which
``exec`` lets its parent go on and the one at which the kernel knows where arguments and environment lie,
both read as empty (663 of 1,500 processes that were looked at at once).
"""
_OPENMP = re.compile(rb"/lib(?:gomp|omp|iomp5)[-.][^/\n]*$", re.MULTILINE)


class Identity(msgspec.Struct, frozen=True):
    """A process as it was when it was first seen."""

    pid: int
    start_ticks: int
    """Start in ticks; together with the pid it stands for one process, also when the number is used again."""
    command: str
    rank: int | None
    """Rank; None if the launcher does not say."""
    size: int
    cpus: tuple[int, ...]
    """Hardware threads that the process may use."""
    variables: dict[str, str]
    """Settings of MPI, OpenMP, GPUs and schedulers in its environment."""


def read_identity(pid: int) -> Identity | None:
    """Return a process of this node; None if it is gone. What may not be read of it is empty."""
    folder = Path(f"/proc/{pid}")
    stat = parse_stat(_bytes(folder / "stat"))
    if stat is None or stat.state in "ZX":
        return None
    command, environment = _started_with(folder)
    return Identity(
        pid=pid,
        start_ticks=stat.start_ticks,
        command=command or stat.name,
        rank=stated_rank(environment),
        size=size_from(environment),
        cpus=allowed_cpus(_bytes(folder / "status")),
        variables=kept_variables(environment),
    )


def _started_with(folder: Path) -> tuple[str, dict[str, str]]:
    """Return the arguments and environment; of a few processes both are empty for good."""
    for _ in range(EXEC_LOOKS):
        # In this order, since the kernel sets the environment last.
        arguments, environment = _bytes(folder / "cmdline"), _bytes(folder / "environ")
        if arguments:
            break
        time.sleep(EXEC_LOOK_S)
    words = without_secrets(arguments.decode(errors="replace").split("\0"))
    return " ".join(words).strip(), parse_environment(environment)


def parse_environment(data: bytes) -> dict[str, str]:
    """``/proc/PID/environ``: the variables that the process was started with."""
    pairs = (entry.decode(errors="replace").partition("=") for entry in data.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}


def uses_openmp(pid: int) -> bool:
    """Whether an OpenMP library is loaded into a process."""
    return maps_openmp(_bytes(Path(f"/proc/{pid}/maps")))


def maps_openmp(maps: bytes) -> bool:
    """Return whether a process has loaded an OpenMP library, by ``/proc/PID/maps``."""
    return _OPENMP.search(maps) is not None


def start_ticks_of(pid: int) -> int | None:
    """Return the start of a process, in ticks; None if it has ended, even if nobody has waited for it yet."""
    stat = parse_stat(_bytes(Path(f"/proc/{pid}/stat")))
    return None if stat is None or stat.state in "ZX" else stat.start_ticks


def _bytes(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
