"""Publishing of a node's activity, in the namespace ``hardware`` in SOMA's layout, under the name of
the node.

``Uptime`` in s, ``Num Processes``, ``Available RAM`` in kB, and ``stat/cpu``, ``stat/cpu0`` and so on: the
numbers of these lines of ``/proc/stat``, which are ticks since the machine booted.
"""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.jobaddress import JobAddress

NAMESPACE = "hardware"
_PROC = Path("/proc")


class HardwarePublisher:
    """Publisher of this node's activity, as a context manager.

    Parameters
    ----------
    place
        Address of the service of namespaces; default that in ``CHIMBUKO_NAMESPACES``.

    Raises
    ------
    ConfigError, ServiceError
        There is no such place, or nobody answers there.
    """

    def __init__(self, place: str | Path | JobAddress | None = None) -> None:
        self._client = Client(place)
        self._hardware = self._client.create(NAMESPACE)
        self._node = platform.node()

    def __enter__(self) -> HardwarePublisher:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def publish(self) -> None:
        """Publish the node's activity as of now, without waiting."""
        values = observed(_read("stat"), _read("uptime"), _read("meminfo"), _count_processes())
        self._hardware.update_all({self._node: values})
        self._hardware.publish_async()

    def close(self) -> None:
        """Wait until all has arrived; raises ServiceError where it does not."""
        self._client.close()


def observed(stat: str, uptime: str, meminfo: str, processes: int) -> dict[str, Any]:
    """Return the values of one sample from the contents of files of ``/proc``; what is not there is
    left out.
    """
    cpus = {}
    for line in stat.splitlines():
        name, _, ticks = line.partition(" ")
        if not name.startswith("cpu"):
            # These lines stand first.
            break
        cpus[name] = ticks.strip()
    values: dict[str, Any] = {"Num Processes": processes, "stat": cpus}
    with suppress(ValueError, IndexError):
        values["Uptime"] = float(uptime.split()[0])
    for line in meminfo.splitlines():
        name, _, amount = line.partition(":")
        if name == "MemAvailable":
            with suppress(ValueError, IndexError):
                values["Available RAM"] = int(amount.split()[0])
            break
    return values


def _read(name: str) -> str:
    with suppress(OSError):
        return (_PROC / name).read_text(errors="replace")
    return ""


def _count_processes() -> int:
    return sum(name.isdecimal() for name in os.listdir(_PROC))
