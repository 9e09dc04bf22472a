"""Process that wrote a stream, as far as it can be seen on this node."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping as AnyMapping
from pathlib import Path

import msgspec

from chimbuko.capture.symbols.maps import Mapping, parse_maps

CLOCK_SLACK_S = 2.0
"""Time by which a process may seem to begin after TAU: clocks are set, and the kernel counts in ticks."""


class ProcessGoneError(Exception):
    """Error that the process cannot be inspected; its text says why."""


class TracedProcess(msgspec.Struct, frozen=True):
    """Process as TAU describes it."""

    pid: int
    executable: str
    host: str
    started_us: int
    """Time at which TAU began, in µs since the epoch; 0 if it is not known."""

    @staticmethod
    def of(metadata: AnyMapping[tuple[int, int, str], str], rank: int) -> TracedProcess | None:
        """Return the process of a rank from its stream's metadata; None until that is there."""

        def said(key: str) -> str:
            return metadata.get((rank, 0, key), "")

        pid, started = said("pid"), said("Starting Timestamp")
        if not pid.isdecimal() or not said("Executable"):
            return None
        return TracedProcess(
            int(pid), said("Executable"), said("Hostname"), int(started) if started.isdecimal() else 0
        )

    @property
    def is_of_this_node(self) -> bool:
        """Whether the process ran on this node, or has not said where."""
        return not self.host or _short(self.host) == _short(os.uname().nodename)

    def mappings(self) -> list[Mapping]:
        """Return the current mappings of the process.

        Raises
        ------
        ProcessGoneError
            It has ended, or ran on another node, or its process id belongs to another process by now.
        """
        if not self.is_of_this_node:
            raise ProcessGoneError("the program ran on another node")
        folder = Path("/proc", str(self.pid))
        try:
            found = parse_maps((folder / "maps").read_text(errors="surrogateescape"))
            executable = os.readlink(folder / "exe").removesuffix(" (deleted)")
            began_s = _began_s((folder / "stat").read_text(errors="replace"))
        except PermissionError:
            raise ProcessGoneError("the program is another user's") from None
        except (OSError, ValueError, IndexError):
            raise ProcessGoneError("the program had ended") from None
        if executable != self.executable:
            raise ProcessGoneError("the program had ended, or ran in a container of its own")
        if self.started_us and began_s > self.started_us / 1e6 + CLOCK_SLACK_S:
            raise ProcessGoneError("the program had ended")
        return found

    def visible(self, path: str) -> str:
        """Return the path of a file of the process as seen from here: it may have another mount namespace."""
        try:
            is_ours = os.readlink(f"/proc/{self.pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
        except OSError:
            return path
        return path if is_ours else f"/proc/{self.pid}/root{path}"


def _began_s(stat: str) -> float:
    """Return the time at which a process began, in s since the epoch, from its line in ``/proc/PID/stat``."""
    # The name of the program may contain blanks and parentheses.
    ticks = int(stat.rpartition(")")[2].split()[19])
    ago_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - ago_s


def _short(host: str) -> str:
    return host.partition(".")[0]
