"""Description of a job, whatever starts it, and differences between schedulers, as text of a bash script."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from chimbuko.core.errors import ConfigError


@dataclass(frozen=True)
class Scheduler:
    """Text of a job script that asks one scheduler for a job, and starts things in it."""

    by: str
    """Sentence that says who runs the script, and where."""
    directives: tuple[str, ...]
    """Lines for the scheduler."""
    job: str
    """Name of the job, to be expanded in double quotes."""
    here: str
    """Name of the services' node, to be expanded in double quotes."""
    submit_host: str
    """Name of the host that the job was submitted from, to be expanded in double quotes; empty if nobody
    knows.
    """
    hosts: str
    """Lines that set whatever ``agents`` and ``ranks`` need."""
    count: str
    """Number of nodes that have ranks, to be expanded in double quotes."""
    agents: str
    """Lines that start ``"${agent[@]}"`` on each of these nodes, and add each process to ``agents``."""
    ranks: str
    """Words that start the ranks."""
    gives_notice: bool = True
    """Whether the scheduler says by itself when the job's time is nearly over; else the script has a clock of
    its own.
    """
    signals: tuple[str, ...] = ("TERM", "INT")
    """Signals that ask the job to end."""
    end: str = 'kill -TERM "$application" 2>/dev/null'
    """Line that asks the program to end; ``$application`` is the process that starts the ranks."""
    send: str = ""
    """Lines that send ``$archive`` to all nodes, and then set it to the path that it has there; empty where
    each node copies it from the shared file system.
    """
    folder: str = ""
    """Folder from which the job was submitted, as an expression, if that is not where the script begins."""


NOTICE_S = 120
"""Time before a job's end at which it is told, in seconds, so that what was found still gets into the store.
"""
LEAST_TIME_S = 300
"""Shortest time of a job, in seconds. Slurm's notice may come a minute early: with less the job would end
before its program has begun.
"""

_WORD = re.compile(r"[\w.:@+%/,-]+")
_UNITS_S = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)")
_NUMBER_AND_UNIT = re.compile(r"(\d+)\s*(s|min|h|d)")


@dataclass(frozen=True)
class Job:
    """Contents of a job script: what is run, and how."""

    program: list[str]
    """Command of each rank; empty if recorded traces are analysed."""
    ranks: int
    """Number of ranks of the program; of recorded traces, number of cores to be asked for."""
    chimbuko: list[str]
    """Command ``chimbuko`` on all nodes."""
    traces: tuple[str, ...] = ()
    """Patterns of recorded traces, which the agents share."""
    run: Path | None = None
    """Folder of the run, on a file system that all nodes share; None for one under ``chimbuko-runs``."""
    is_dedicated: bool = False
    """The first node has the services alone, and neither agent nor ranks."""
    bind: str = ""
    """Address on which the broker listens; empty for the name of the services' node."""
    streams: Path | None = None
    cores: str = ""
    """Cores to which each agent keeps."""
    period_s: float | None = None
    """Seconds between two steps of the trace; None for what the configuration says."""
    transport: str | None = None
    """Name of the transport; None for files."""
    config: Path | None = None
    mpirun: list[str] | None = None
    """Words that start the ranks, in place of the usual ones."""
    modules: tuple[str, ...] = ()
    """Environment modules to be loaded first, by ``module load``."""
    archive: Path | None = None
    """Archive of an installation, which each node unpacks for itself; None to use the one on all nodes."""
    container: Path | None = None
    """Image for Apptainer that has the installation; None for none."""


@dataclass(frozen=True)
class Request:
    """Resources that a scheduler is asked for."""

    nodes: int
    per_node: int
    """Ranks on each node that has ranks."""
    time_s: int | None = None
    """Seconds after which the scheduler ends the job; None for what is usual in the queue."""
    account: str = ""
    queue: str = ""
    """Name of the queue or partition."""
    name: str = ""

    def __post_init__(self) -> None:
        """See that each of its words is one.

        Raises
        ------
        ConfigError
            A word could not stand in a scheduler's line, or the time is too short.
        """
        for option, word in (("account", self.account), ("queue", self.queue), ("job-name", self.name)):
            if word and not _WORD.fullmatch(word):
                raise ConfigError(f"--{option} {word!r}: no name that a scheduler would take")
        if self.time_s is not None and self.time_s < LEAST_TIME_S:
            raise ConfigError(
                f"--time: {self.time_s} s are too short: {NOTICE_S} s before the end the program is asked to "
                f"end, so that what was found is stored; give at least {LEAST_TIME_S // 60}min"
            )


def parse_time_s(text: str) -> int:
    """Seconds of a job's time, written as ``90min``, ``2h``, ``1:30:00`` or ``1-12:00:00``.

    Raises
    ------
    ConfigError
        It is none of these. Without a unit schedulers disagree: minutes for the one, seconds for the other.
    """
    if clock := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if one := _NUMBER_AND_UNIT.fullmatch(text.strip()):
        return int(one[1]) * _UNITS_S[one[2]]
    raise ConfigError(f"--time {text!r}: not a time; give one like 90min, 2h, 1:30:00 or 1-12:00:00")


def clock_of(time_s: int) -> str:
    """``H:MM:SS``, as Slurm and PBS take it."""
    return f"{time_s // 3600}:{time_s // 60 % 60:02}:{time_s % 60:02}"
