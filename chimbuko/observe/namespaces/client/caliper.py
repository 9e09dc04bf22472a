"""Publishing of Caliper's profiles (``.cali``) as they are written.

Caliper's services aggregate and recorder write a profile at each flush: records with a region's
path and sums, and at the end one with the metadata of the whole process.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from caliperreader import CaliperStreamReader

from chimbuko.capture.formats.readers.caliper import CheckedNodes
from chimbuko.core.errors import ChimbukoError, ConfigError, ObservationError
from chimbuko.observe.namespaces.analyses.standard import CALIPER
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.paths import key_of
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.usercommand import run_beside
from chimbuko.runtime.process.wakeup import repeat_until_asked

MOST_REGIONS: Final = 64
"""Most regions of a process that have keys of their own."""
MOST_METRICS: Final = 32
OTHERS: Final = "(others)"
NO_REGION: Final = "(no region)"
_LAST: Final = b"__rec=globals"
_TIMES: Final = {"time.duration.ns": 1e-3, "time.duration": 1.0}
"""Names of times with their factors to µs; for the latter ones where the profile does not give another unit.
"""
_UNITS: Final = {"nsec": 1e-3, "usec": 1.0, "msec": 1e3, "sec": 1e6}
RANK: Final = "mpi.rank"
_CALLS: Final = "region.count"


@dataclass
class Profile:
    """Profile of one process."""

    rank: int | None = None
    """Rank in MPI, where Caliper knows it."""
    exclusive_us: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Exclusive time of each region in µs, over all its call paths."""
    calls: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Number of calls of each region, as far as Caliper counts them."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Other numbers, under Caliper's names: sums over all regions, and minima and maxima (``min#NAME``,
    ``max#NAME``).
    """

    def leaves(self, chosen: dict[str, None]) -> Iterator[tuple[str, float]]:
        """Return the keys below the rank's, and their values.

        Parameters
        ----------
        chosen
            Regions that have a key: others come to them, those that take the most time first, while there is
            room.
        """
        by_time = sorted(self.exclusive_us.items(), key=lambda entry: -entry[1])
        for region, _ in by_time:
            if len(chosen) == MOST_REGIONS:
                break
            chosen.setdefault(region)
        rest_us = 0.0
        for region, time_us in by_time:
            if region in chosen:
                yield f"{key_of(region)}_Exclusive", time_us
                if region in self.calls:
                    yield f"{key_of(region)}_Calls", self.calls[region]
            else:
                rest_us += time_us
        if rest_us:
            yield f"{OTHERS}_Exclusive", rest_us
        for name in sorted(self.metrics)[:MOST_METRICS]:
            yield key_of(name), self.metrics[name]


def is_whole(data: bytes) -> bool:
    """Whether a profile is complete: Caliper writes the metadata of the process last."""
    last = data.rstrip(b"\n").rpartition(b"\n")[-1]
    return data.endswith(b"\n") and last.startswith(_LAST)


def read_profile(data: bytes) -> Profile:
    """Read a complete profile.

    Raises
    ------
    ObservationError
        It is none of Caliper's, or has no times of regions.
    """
    reader, nodes, profile = CaliperStreamReader(), CheckedNodes(), Profile()
    lines = (nodes.checked(line) for line in data.decode(errors="replace").splitlines() if line.strip())
    try:
        reader.read(lines, lambda record: _take(record, reader, profile))
    except Exception as error:
        # Caliper's reader fails in many ways: a backslash at the end of a line stops one of its iterators.
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise ObservationError(f"it holds a line that is not Caliper's ({reason})") from error
    if not profile.exclusive_us:
        raise ObservationError(
            "it has no times of regions; record with CALI_SERVICES_ENABLE=aggregate,event,recorder,timer"
        )
    rank = reader.globals.get(RANK)
    if profile.rank is None and rank is not None:
        profile.rank = _number(rank)
    return profile


def _take(record: Mapping[str, Any], reader: CaliperStreamReader, profile: Profile) -> None:
    """Add one record to a profile."""
    path = record.get("path", ())
    region = str(path[-1]) if isinstance(path, Sequence) and path else NO_REGION
    for name, value in record.items():
        kind, _, metric = name.rpartition("#")
        if name == RANK:
            profile.rank = _number(value)
        elif metric in _TIMES and kind in ("", "sum"):
            profile.exclusive_us[region] += float(value) * _microseconds(reader, metric)
        elif metric == _CALLS:
            if kind == "sum":
                profile.calls[region] += float(value)
        elif not metric.startswith("time.") and (kind in ("sum", "min", "max") or _is_metric(reader, name)):
            _add(profile.metrics, kind, name.removeprefix("sum#"), float(value))


def _add(metrics: dict[str, float], kind: str, name: str, value: float) -> None:
    if kind in ("min", "max"):
        metrics[name] = (min if kind == "min" else max)(metrics.get(name, value), value)
    else:
        metrics[name] = metrics.get(name, 0.0) + value


def _is_metric(reader: CaliperStreamReader, name: str) -> bool:
    attribute = reader.db.attributes.get(name)
    return attribute is not None and attribute.is_value() and attribute.is_aggregatable() and name != "count"


def _microseconds(reader: CaliperStreamReader, metric: str) -> float:
    attribute = reader.db.attributes.get(metric)
    unit = None if attribute is None else attribute.get("time.unit")
    return _UNITS.get(str(unit), _TIMES[metric])


def _number(text: Any) -> int | None:
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 9 else None


NAMESPACE = "performance"
LOOK_S: Final = 0.5
MOST_BYTES: Final = 16 << 20
SERVICES: Final = "aggregate,event,mpi,recorder,timer"
"""Services of Caliper that are asked for; Caliper leaves out those that it was built without."""
UNTIMED: Final = "MPI_Comm_rank,MPI_Comm_size,MPI_Wtick,MPI_Wtime"
"""Functions of MPI that take no time: without a list of exceptions Caliper measures none of MPI's functions.
"""
_CHOICES: Final = ("CALI_SERVICES_ENABLE", "CALI_CONFIG", "CALI_CONFIG_PROFILE")
_PROCESS: Final = re.compile(r"_(\d+)_")
"""Pattern of the names that Caliper makes: a date, the number of the process, and a random word."""


def monitor(command: Sequence[str], folder: Path | None, program: str, service: str | None) -> int:
    """Publish profiles until a program has ended, or without a program until asked to stop; return the
    exit code, or 0.

    Parameters
    ----------
    command
        Program to run; empty for none.
    folder
        Folder of the profiles; without one a program writes to a temporary folder.
    program
        Name that stands before the keys; empty for none.

    Raises
    ------
    ConfigError, ServiceError
        There is no such folder or service.
    CommandError
        The program cannot be run.
    """
    # A service that does not answer is reported before the program runs. This process publishes for all
    # ranks.
    with Client(service, rank=0) as client, _place(folder) as profiles:
        following = CaliperProfiles(profiles, client, program, is_ours=folder is None)
        if not command:
            repeat_until_asked(following.look, LOOK_S)
            return 0
        # Without that key Caliper's mpi.rank is in no profile.
        key = os.environ.get("CALI_AGGREGATE_KEY", RANK)
        variables = {"CALI_RECORDER_DIRECTORY": str(profiles), "CALI_AGGREGATE_KEY": key}
        if not any(choice in os.environ for choice in _CHOICES):
            variables["CALI_SERVICES_ENABLE"] = SERVICES
            if "CALI_MPI_WHITELIST" not in os.environ:
                variables["CALI_MPI_BLACKLIST"] = os.environ.get("CALI_MPI_BLACKLIST", UNTIMED)
        code = run_beside(command, variables, following.look, LOOK_S)
        if not following.count:
            log("Caliper has written no profile: is the program built with it, and does it end in order?")
        return code


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        if not folder.is_dir():
            raise ConfigError(f"{folder}: is no folder; name that into which Caliper writes")
        yield folder
        return
    made = Path(tempfile.mkdtemp(prefix="chimbuko-caliper-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


class CaliperProfiles:
    """Profiles in a folder: the newest of each process, which contains all earlier ones.

    Parameters
    ----------
    is_ours
        Whether the folder is this program's own, so that profiles with newer ones are removed.
    """

    def __init__(self, folder: Path, client: Client, program: str, is_ours: bool) -> None:
        self._folder = folder
        self._namespace = client.create(NAMESPACE)
        self._prefix = (program, CALIPER) if program else (CALIPER,)
        self._is_ours = is_ours
        self._seen: dict[str, tuple[int, int, int]] = {}
        """Version of the profile that was read last, by process."""
        self._node = key_of(platform.node())
        self._numbers: dict[str, int] = {}
        """Numbers of the processes that have no rank in MPI."""
        self._regions: dict[str, dict[str, None]] = defaultdict(dict)
        self._said: set[str] = set()
        self.count = 0
        """Number of published profiles."""

    def look(self) -> None:
        """Publish new profiles."""
        for process, path in self._newest().items():
            # A profile that is just being written is read the next time.
            with suppress(OSError):
                about = path.stat()
                version = about.st_mtime_ns, about.st_size, about.st_ino
                if version != self._seen.get(process) and about.st_size <= MOST_BYTES:
                    data = path.read_bytes()
                    if is_whole(data):
                        self._seen[process] = version
                        self._publish(process, path, data)
        self._namespace.publish_async()

    def _newest(self) -> dict[str, Path]:
        """Return the newest profile of each process."""
        found: dict[str, list[tuple[int, Path]]] = defaultdict(list)
        for path in sorted(self._folder.glob("*.cali")):
            number = _PROCESS.search(path.name)
            with suppress(OSError):
                found[number[1] if number else path.name].append((path.stat().st_mtime_ns, path))
        newest = {}
        for process, paths in found.items():
            paths.sort()
            newest[process] = paths[-1][1]
            if self._is_ours:
                for _, path in paths[:-2]:
                    path.unlink(missing_ok=True)
        return newest

    def _publish(self, process: str, path: Path, data: bytes) -> None:
        try:
            profile = read_profile(data)
            keys = self._keys(process, profile.rank)
            for key, value in profile.leaves(self._regions[process]):
                self._namespace.update((*keys, key), value)
            self.count += 1
        except ChimbukoError as error:
            line = f"{path}: {error}"
            if line not in self._said:
                self._said.add(line)
                log(line)

    def _keys(self, process: str, rank: int | None) -> tuple[str, ...]:
        """Return the keys of the rank in MPI, or else of the node, whose processes without a rank are
        numbered as they come.
        """
        if rank is not None:
            return *self._prefix, f"Rank {rank}"
        number = self._numbers.setdefault(process, len(self._numbers))
        return *self._prefix, self._node, f"Rank {number}"
