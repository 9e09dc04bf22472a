"""Elects one sampler among the monitors that the ranks of a job start on a node.

Each of them joins with its program. Who holds the lock samples the programs of all, and hands over what it
has seen when its own program ends. The kernel frees the lock of a process that is killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from chimbuko.core.errors import ConfigError
from chimbuko.core.files import write_atomically
from chimbuko.monitor.sampling.identity import start_ticks_of

JOB_VARIABLES = ("SLURM_JOB_ID", "SLURM_STEP_ID", "PBS_JOBID", "PALS_APID", "FLUX_JOB_ID", "LSB_JOBID")
"""Environment variables that name a job's step on a node, as far as its scheduler says."""
LEADER, REGISTRY, MEMBERS, STATE = "leader", "registry", "members", "state"


def folder_of_job(environment: Mapping[str, str], parent: int) -> Path:
    """Return the folder in which the monitors of one job meet on this node, by its scheduler and by who
    started them.
    ``mpirun`` has one process on each node that starts all ranks there. Its start is part of the name, since
    numbers of processes are used again.
    """
    words = [environment.get(name, "") for name in JOB_VARIABLES]
    key = hashlib.sha256(repr((words, parent, start_ticks_of(parent))).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"chimbuko-monitor-{os.getuid()}-{key}"


class Election:
    """The part of one monitor in it. It must stay in the process that made it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._leading: int | None = None
        self.is_first = False
        """Whether this process samples, and no other of the job has done so before it."""
        self._entry = folder / MEMBERS / str(os.getpid())

    @property
    def leads(self) -> bool:
        """Whether it is this process that samples."""
        return self._leading is not None

    def meet(self) -> None:
        """Make the folder where the monitors of this job meet.

        Raises
        ------
        ConfigError
            It is another user's, or cannot be made.
        """
        try:
            with self._registry():
                pass
        except OSError as error:
            raise ConfigError(
                f"{self._folder}: cannot be made ({error.strerror}); set TMPDIR to a folder of yours"
            ) from error

    def join(self, root: int) -> None:
        """Have a program watched by whoever samples."""
        own, its = start_ticks_of(os.getpid()), start_ticks_of(root)
        with self._registry():
            self._entry.parent.mkdir(mode=0o700, exist_ok=True)
            write_atomically(self._entry, f"{own} {root} {its}".encode(), 0o600)

    def lead(self) -> bool:
        """Become the sampler where there is none; whether this process is it."""
        if self._leading is None:
            # A record lock: a program that forks in the middle of it does not take it along.
            number = os.open(self._folder / LEADER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(number)
            else:
                self._leading = number
                self.is_first = not os.fstat(number).st_size
                with suppress(OSError):
                    os.write(number, b"taken")
        return self.leads

    def roots(self) -> list[int]:
        """Return the programs of all that have joined and still run, also where their monitor was killed."""
        return [root for _, _, root, start in self._joined() if start_ticks_of(root) == start]

    def take_over(self) -> bytes:
        """Return what the sampler before has handed over; nothing if there was none, or it was killed."""
        state = self._folder / STATE
        with suppress(OSError):
            handed = state.read_bytes()
            state.unlink()
            return handed
        return b""

    def leave(self, state: Callable[[], bytes]) -> bool:
        """Take part no more. Whether this is the last monitor, whose it is to report, and which leads then.

        Parameters
        ----------
        state
            What is handed over where this process leads, and others stay.
        """
        with self._registry():
            self._entry.unlink(missing_ok=True)
            others = any(start_ticks_of(pid) == start for pid, start, _, _ in self._joined())
            if others and self.leads:
                # Without room for it the next one begins anew.
                with suppress(OSError):
                    write_atomically(self._folder / STATE, state(), 0o600)
            if not others:
                self.lead()
            elif self._leading is not None:
                os.close(self._leading)
                self._leading = None
            return not others

    def close(self) -> None:
        """Leave the group; the last monitor removes the folder."""
        if self._leading is not None:
            with self._registry():
                shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._leading)
            self._leading = None

    def _joined(self) -> Iterator[tuple[int, int, int, int]]:
        """Monitor and program of each entry, as process and its start."""
        with suppress(OSError):
            for entry in sorted((self._folder / MEMBERS).iterdir()):
                with suppress(OSError, ValueError):
                    start, root, root_start = map(int, entry.read_text().split())
                    yield int(entry.name), start, root, root_start

    @contextmanager
    def _registry(self) -> Iterator[None]:
        """Hold the lock with which one monitor at a time joins or leaves, in a folder that still exists."""
        while True:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if self._folder.lstat().st_uid != os.getuid():
                raise ConfigError(f"{self._folder}: belongs to another user; set TMPDIR to a folder of yours")
            path = self._folder / REGISTRY
            try:
                number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue
            try:
                fcntl.lockf(number, fcntl.LOCK_EX)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(number), path.stat()):
                        break
            except BaseException:
                os.close(number)
                raise
            os.close(number)
        try:
            yield
        finally:
            os.close(number)
