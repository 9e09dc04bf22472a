"""Follows the profiles that Caliper writes, and publishes what is in them."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.observe.namespaces.analyses.loadbalance import CALIPER
from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.sources.caliperprofile import RANK, is_whole, read_profile
from chimbuko.observe.namespaces.sources.running import run_beside
from chimbuko.observe.namespaces.tree.paths import key_of
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.wakeup import repeat_until_asked

NAMESPACE = "performance"
LOOK_S: Final = 0.5
MOST_BYTES: Final = 16 << 20
SERVICES: Final = "aggregate,event,mpi,recorder,timer"
"""Caliper leaves out what it was built without."""
UNTIMED: Final = "MPI_Comm_rank,MPI_Comm_size,MPI_Wtick,MPI_Wtime"
"""Functions of MPI that take no time: without a list Caliper measures none of MPI's."""
_CHOICES: Final = ("CALI_SERVICES_ENABLE", "CALI_CONFIG", "CALI_CONFIG_PROFILE")
_PROCESS: Final = re.compile(r"_(\d+)_")
"""In the names that Caliper makes: a date, the number of the process, and a random word."""


def monitor(command: Sequence[str], folder: Path | None, program: str, service: str | None) -> int:
    """Publish what profiles say, until a program has ended, or without one until asked; its exit code, or 0.

    Parameters
    ----------
    command
        A program to run; empty for none.
    folder
        Where the profiles are; without one a program writes into a temporary folder.
    program
        Stands before the keys; empty for nothing.

    Raises
    ------
    ConfigError, ServiceError
        There is no such folder or service, or the program cannot be run.
    """
    # A place that does not answer is said before the program runs. All ranks are published by this process.
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
    """The profiles in a folder: of each process the newest, which has all that the ones before had.

    Parameters
    ----------
    is_ours
        The folder is for nobody else: profiles that there are newer ones of are removed.
    """

    def __init__(self, folder: Path, client: Client, program: str, is_ours: bool) -> None:
        self._folder = folder
        self._namespace = client.create(NAMESPACE)
        self._prefix = (program, CALIPER) if program else (CALIPER,)
        self._is_ours = is_ours
        self._seen: dict[str, tuple[int, int, int]] = {}
        """Of each process the version of its profile that was read last."""
        self._node = key_of(platform.node())
        self._numbers: dict[str, int] = {}
        """Of processes that have no rank in MPI."""
        self._regions: dict[str, dict[str, None]] = defaultdict(dict)
        self._said: set[str] = set()
        self.count = 0
        """Profiles that were published."""

    def look(self) -> None:
        """Publish what is new."""
        for process, path in self._newest().items():
            # One that is just being written is read the next time.
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
        """By process."""
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
        """Of the rank in MPI, or else of the node, whose processes without one are counted as they come."""
        if rank is not None:
            return *self._prefix, f"Rank {rank}"
        number = self._numbers.setdefault(process, len(self._numbers))
        return *self._prefix, self._node, f"Rank {number}"
