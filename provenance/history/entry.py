"""Entry of a run in the index of a memory over runs, with the series that it is of: what later questions
need, without its store.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from chimbuko.runtime.runs.directory import RunInfo
from chimbuko.runtime.runs.environment import LABEL
from chimbuko.runtime.runs.programname import program_of

WALL, NODES = "wall", "nodes"
"""Names of the quantities of a run as a whole: its time, and its slowest node relative to the others."""
PART, LOST, FUNCTION = "part ", "lost ", "function "
"""Beginnings of the names of others: parts of the time of all threads, of the time lost, and functions."""


class Version(msgspec.Struct, frozen=True):
    """Version of what ran; a fact that is not known is empty."""

    commit: str = ""
    """Git commit of the folder that the run was started in."""
    build: str = ""
    """Build id of the program, or the first digits of a script's checksum."""
    modules: str = ""
    """Loaded modules, as in ``LOADEDMODULES``."""

    def changes_from(self, before: Version) -> list[str]:
        """Return what is known to be another than in a version before, in words."""
        found = []
        for name, was, now in (
            ("commit", before.commit[:10], self.commit[:10]),
            ("build", before.build[:10], self.build[:10]),
        ):
            if was and now and was != now:
                found.append(f"{name} {was} → {now}")
        if before.modules != self.modules:
            were, are = set(before.modules.split(":")), set(self.modules.split(":"))
            apart = [f"−{one}" for one in sorted(were - are) if one] + [
                f"+{one}" for one in sorted(are - were) if one
            ]
            found.append(f"modules {' '.join(apart)}")
        return found


class IncidentKind(msgspec.Struct, frozen=True, array_like=True):
    """Incidents of a run that are the same: function, cause and place."""

    program: str
    function: str
    kind: str
    """Main cause."""
    rank: int
    """Rank where the delay was; -1 if that is not known."""
    number: int
    cost_us: float

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Key by which the same is found in other runs."""
        return self.program, self.function, self.kind, self.rank


class Details(msgspec.Struct, frozen=True):
    """Part of an entry that is read only for some questions."""

    incidents: list[IncidentKind] = []
    paces: dict[str, dict[str, float]] = {}
    """Mean time of a call by function and node, relative to the median of the nodes."""
    troubles: dict[str, dict[str, int]] = {}
    """Number of incidents by node and cause."""


class Entry(msgspec.Struct, frozen=True):
    """Entry of a run."""

    id: str
    name: str
    folder: str
    key: str
    """Key of the series that the run is of by what it is."""
    start_key: str
    """Key by which a run of the series is found before it is known how many ranks it has."""
    title: str
    """Series in words: program, size and input."""
    program: str
    started_us: int
    is_good: bool
    """Whether the run ended in order, and was seen nearly whole."""
    quantities: dict[str, float]
    """Quantities by name, in µs but for ``nodes``."""
    version: Version = Version()
    details: Details = Details()
    model: bytes = b""
    """Statistics of the run's own calls, as ``priors`` packs them."""


def day(time_us: int) -> str:
    """Return the day of a time, in UTC."""
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d")


# Series that a run is of: the same program, size, input and machine. Pure.


RELEVANT = re.compile(r"(OMP|GOMP|KMP)_\w+|\w+_NUM_THREADS")
"""Environment variables that are part of the input."""
_CLUSTERS = "SLURM_CLUSTER_NAME", "PBS_SERVER", "LSB_MASTER"
_CHANGING = re.compile(r"\d{4}-\d\d-\d\d\S*|[0-9a-f]{12,}|\d{6,}")
"""Dates, checksums and numbers of jobs or processes: other ones in each run of the same."""
_PATH = re.compile(r"[^\s=:,]*/([^\s=:,/]+)/?")


class SeriesIdentity(msgspec.Struct, frozen=True):
    """Properties that runs of a series have in common."""

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
