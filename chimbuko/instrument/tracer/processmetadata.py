"""Description of this process: program name, and the metadata that TAU records."""

from __future__ import annotations

import os
import platform
import shlex
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from chimbuko import __version__
from chimbuko.core.redaction import without_secrets


def program_name(script: str) -> str:
    """Return the base name of a script without ``.py``; ``python`` for an interactive program."""
    return Path(script).name.removesuffix(".py") if script not in ("", "-c", "-") else "python"


def script_folder(script: str) -> str:
    """Return the folder of a script, or the current one of a program without a script."""
    path = os.path.abspath(script)
    return os.path.dirname(path) if os.path.isfile(path) else os.getcwd()


def describe_process(start_us: int) -> dict[str, str]:
    """Return the metadata of this process, under TAU's keys."""
    # Not platform.uname: it runs a program to find the processor, which would be the traced one's child.
    system = os.uname()
    processor = _fields("/proc/cpuinfo")
    described = {
        "CPU Cores": str(os.cpu_count() or 1),
        "CPU MHz": processor.get("cpu MHz", ""),
        "CPU Type": processor.get("model name", ""),
        "CPU Vendor": processor.get("vendor_id", ""),
        "CPUs Allowed List": _fields("/proc/self/status").get("Cpus_allowed_list", ""),
        "CWD": os.getcwd(),
        "Chimbuko Version": __version__,
        "Command Line": shlex.join(without_secrets(getattr(sys, "argv", sys.orig_argv))),
        "Executable": sys.executable,
        "Hostname": socket.gethostname(),
        "Local Time": datetime.now().astimezone().isoformat(timespec="seconds"),
        "Memory Size": _fields("/proc/meminfo").get("MemTotal", ""),
        "Node Name": system.nodename,
        "OS Machine": system.machine,
        "OS Name": system.sysname,
        "OS Release": system.release,
        "OS Version": system.version,
        "Python Version": platform.python_version(),
        "Starting Timestamp": str(start_us),
        "Timestamp": str(time.time_ns() // 1000),
        "UTC Time": datetime.now(UTC).isoformat(timespec="seconds"),
        "pid": str(os.getpid()),
        # Of the main thread; in a forked child a thread of ours asks.
        "tid": str(os.getpid()),
    }
    return {key: value for key, value in described.items() if value}


def _fields(path: str) -> dict[str, str]:
    """Return the ``name : value`` lines of a file in /proc, the first of each name; none without the file."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in reversed(lines))
    return {name.strip(): value.strip() for name, _, value in pairs}
