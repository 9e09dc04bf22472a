"""What processes were doing when a test had waited too long, as a part of its report.

A hang that comes once in a thousand runs cannot be looked at later. So the report of such a test lists the
processes that it has left, with what the kernel says that each waits for; those that would write their stacks
where they abort (``PYTHONFAULTHANDLER``) are aborted; and the last lines of all logs below its folder follow.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ABORT_S = 2.0
"""How long processes have to write their stacks."""
LAST_LINES = 40
_TICKS = os.sysconf("SC_CLK_TCK")
_ABORTS = 1 << (signal.SIGABRT - 1)


class WaitedTooLong(AssertionError):
    """Something did not come for as long as tests wait."""


class Left(NamedTuple):
    """A process that a test has started, and that still lives."""

    pid: int
    began_s: float
    """Since the boot."""
    line: str

    @property
    def writes_stacks(self) -> bool:
        """Whether it writes the stacks of its threads where it aborts."""
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
            caught = next(line for line in lines if line.startswith("SigCgt:"))
            return bool(int(caught.split()[1], 16) & _ABORTS)
        return False


def left_processes(since_s: float, of: int | None = None) -> list[Left]:
    """Descendants of a process, by default this one, that began later than that, in seconds since boot."""
    found: list[Left] = []
    for task in Path(f"/proc/{of or os.getpid()}/task").glob("*/children"):
        with suppress(OSError):
            for pid in map(int, task.read_text().split()):
                with suppress(OSError):
                    if (one := _looked_at(pid)).began_s >= since_s:
                        found.append(one)
                found += left_processes(since_s, pid)
    return found


def _looked_at(pid: int) -> Left:
    place = Path(f"/proc/{pid}")
    name, _, rest = (place / "stat").read_text(errors="replace").rpartition(")")
    state, _, *fields = rest.split()
    cpu_s, began_s = (int(fields[9]) + int(fields[10])) / _TICKS, int(fields[17]) / _TICKS
    command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    words = (str(pid), state, f"{cpu_s:.2f} s", _word(place / "wchan"), _word(place / "syscall"))
    return Left(pid, began_s, f"{' '.join(words)}  {command or name.partition('(')[2]}"[:300])


def _word(path: Path) -> str:
    """First word of a file that may be for root only."""
    with suppress(OSError):
        return path.read_text().partition(" ")[0].strip()
    return "?"


def described(since_s: float, folder: Path | None) -> str:
    """State of the processes that began since then, and what they have logged below a folder; ends some."""
    left = left_processes(since_s)
    for one in left:
        if one.writes_stacks:
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGABRT)
    if left:
        time.sleep(ABORT_S)
    lines = ["pid, state, CPU time, where in the kernel, system call, command:", *(one.line for one in left)]
    for log in sorted(folder.rglob("*.log")) if folder else ():
        with suppress(OSError):
            last = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
            lines += [f"--- {log.relative_to(folder)}", *last] if last else []
    return "\n".join(lines)


_BEGAN = pytest.StashKey[float]()


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note when a test began."""
    item.stash[_BEGAN] = _now_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Add to the report of a test that waited too long why it may have."""
    report: Any = yield
    if call.excinfo is not None and has_hung(call.excinfo.value):
        folder = getattr(item, "funcargs", {}).get("tmp_path")
        report.sections.append(("processes that were left", described(item.stash[_BEGAN], folder)))
    return report


def has_hung(error: BaseException) -> bool:
    """Whether a test failed as it waited too long; pytest-timeout says so in words."""
    is_out_of_time = isinstance(error, pytest.fail.Exception) and str(error).startswith("Timeout")
    return is_out_of_time or isinstance(error, WaitedTooLong | subprocess.TimeoutExpired)
