"""The topology of this node, from hwloc where it is installed, or else from the kernel."""

from __future__ import annotations

import shutil
import subprocess

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.procfs.hwloc import parse_hwloc
from chimbuko.monitor.procfs.sysfs import read_sysfs
from chimbuko.monitor.procfs.topologytree import Topology

PROGRAMS = ("lstopo-no-graphics", "lstopo")
LONGEST_S = 20.0


def read_topology() -> Topology:
    """All of this node, also what this process may not use. An ``lstopo`` that fails is passed over."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is not None:
        command = [program, "--of", "xml", "--disallowed", "--no-io"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONGEST_S)
            return parse_hwloc(done.stdout)
        except (OSError, subprocess.SubprocessError, ConfigError):
            pass
    return read_sysfs()
