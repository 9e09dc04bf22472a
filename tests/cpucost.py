"""A plugin of pytest: the CPU time that files of tests take, with all processes that they start.

    python -m pytest -p tests.cpucost …

Not counted is what a process has taken that left its parent and ended by itself.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT

MOST = 20
TICKS = os.sysconf("SC_CLK_TCK")

_spent_s: Counter[str] = Counter()
"""By file, below ``tests/``."""
_counting: int | None = None
"""Process that counts: this one once it runs tests, its parent until then."""
_until_now_s = 0.0


def cpu_s() -> float:
    """CPU time of this process, of its children that have ended, and of all descendants that live."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + _living_s()


def _living_s() -> float:
    children: dict[int, list[int]] = defaultdict(list)
    taken: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name, in brackets, may hold anything.
            fields = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
            children[int(fields[1])].append(int(path.name))
            taken[int(path.name)] = sum(map(int, fields[11:15]))
    waiting, total = list(children[os.getpid()]), 0
    while waiting:
        process = waiting.pop()
        total += taken[process]
        waiting += children.get(process, [])
    return total / TICKS


def begin_here() -> None:
    """Begin to count at nothing in a process that has not begun.

    One that runs tests once more is a fork of the one that adds up what others have counted.
    """
    global _counting, _until_now_s
    if _counting != os.getpid():
        _counting, _until_now_s = os.getpid(), cpu_s()
        _spent_s.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Count at the end of each file, from the first test on: what was imported is no test's cost.

    To look at all processes takes milliseconds.
    """
    global _until_now_s
    begin_here()
    result = yield
    if nextitem is None or nextitem.path != item.path:
        now_s = cpu_s()
        _spent_s[str(item.path.relative_to(ROOT / "tests"))] += max(now_s - _until_now_s, 0.0)
        _until_now_s = now_s
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Of several processes each leaves what it has counted for the one that prints it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cpu_s"] = dict(_spent_s)


@pytest.hookimpl(optionalhook=True)
def pytest_shard_finished(output: dict[str, Any]) -> None:
    """Take what a process has counted, where it has come to its end."""
    _spent_s.update(output["cpu_s"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the files that take most, and what each folder takes."""
    terminalreporter.section(f"CPU time: {_spent_s.total():,.0f} s in {len(_spent_s)} files")
    for file, spent_s in _spent_s.most_common(MOST):
        terminalreporter.write_line(f"{spent_s:7.1f} s  {file}")
    folders: Counter[str] = Counter()
    for file, spent_s in _spent_s.items():
        folders[file.partition("/")[0]] += spent_s
    terminalreporter.write_line(", ".join(f"{name} {s:.0f} s" for name, s in folders.most_common()))
