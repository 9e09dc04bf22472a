"""Series that a run is of: the same program, size, input and machine. Pure."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from chimbuko.runtime.runs.directory import RunInfo
from chimbuko.runtime.runs.environment import LABEL
from chimbuko.runtime.runs.programname import program_of

RELEVANT = re.compile(r"(OMP|GOMP|KMP)_\w+|\w+_NUM_THREADS")
"""Environment variables that are part of the input."""
_CLUSTERS = "SLURM_CLUSTER_NAME", "PBS_SERVER", "LSB_MASTER"
_CHANGING = re.compile(r"\d{4}-\d\d-\d\d\S*|[0-9a-f]{12,}|\d{6,}")
"""Dates, checksums and numbers of jobs or processes: other ones in each run of the same."""
_PATH = re.compile(r"[^\s=:,]*/([^\s=:,/]+)/?")


class SeriesIdentity(msgspec.Struct, frozen=True):
    """What runs of a series have in common."""

    words: list[str]
    """Command without folders and what changes from run to run."""
    environment: dict[str, str]
    labels: dict[str, str]
    machine: str
    program: str = ""
    """Name of the program; this and the following are known at the end of a run only."""
    ranks: int = 0
    nodes: int = 0

    @property
    def key(self) -> str:
        """Key that two runs share where all is the same."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]

    @property
    def title(self) -> str:
        """Series in words."""
        size = f"{self.ranks} {'rank' if self.ranks == 1 else 'ranks'}"
        where = f" on {self.nodes} nodes" if self.nodes > 1 else ""
        given = [f"{name}={value}" for name, value in (*self.environment.items(), *self.labels.items())]
        return ", ".join(
            [f"{size}{where}", shlex.join(self.words), *given, *([self.machine] if self.machine else [])]
        )


def steady_words(command: Sequence[str]) -> list[str]:
    """Return the words of a command without folders, dates and long numbers, which change from run to run."""
    return [_CHANGING.sub("#", _PATH.sub(r"\1", word)) for word in command]


def machine_of(host: str, environment: Mapping[str, str]) -> str:
    """Return the name of the machine: its cluster, or the host without the number of a node; and its
    processor.
    """
    cluster = next((environment[name] for name in _CLUSTERS if environment.get(name)), "")
    first, dot, rest = host.partition(".")
    name = cluster or re.sub(r"\d+$", "", first) + dot + rest
    return ", ".join(part for part in (name, environment.get("cpu", "")) if part)


def at_start(info: RunInfo) -> SeriesIdentity:
    """Return what is known of a run's series when it begins."""
    facts = info.environment
    return SeriesIdentity(
        steady_words(info.command),
        {name: value for name, value in sorted(facts.items()) if RELEVANT.fullmatch(name)},
        {name.removeprefix(LABEL): value for name, value in sorted(facts.items()) if name.startswith(LABEL)},
        machine_of(info.host, facts),
    )


def at_end(info: RunInfo, programs: Sequence[str], ranks: int, nodes: int) -> SeriesIdentity:
    """Return what a run's series is, when its size is known."""
    named = ", ".join(sorted(programs)) or (program_of(info.command) if info.command else "unknown")
    return msgspec.structs.replace(at_start(info), program=named, ranks=ranks, nodes=nodes)
