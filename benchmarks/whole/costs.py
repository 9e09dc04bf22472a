"""What a command costs, with all processes that it starts, also those that outlive their parents."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import TICKS_PER_S, in_child
from benchmarks.whole.cases import Case

SAMPLE_S = 0.1
MEMORY_EVERY = 5
"""Samples; to look through the memory of a process takes a millisecond."""
_PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Cost:
    """Of one execution."""

    cpu_s: float
    """Without the processes of the application."""
    wall_s: float
    began_s: float | None
    """Until the program said that it runs."""
    pss_mb: float
    """The most that all processes have had at a time, without those of the application."""
    left_bytes: int
    """In the command's folder."""
    cpu_s_by_process: dict[str, float]
    pss_mb_by_process: dict[str, float]
    """At the time of the most."""


def measure(case: Case) -> Cost:
    """Execute a command, wait for all of its processes, and see what they have cost.

    Raises
    ------
    SystemExit
        It failed.
    """
    # In a process of its own, whose only child is the command.
    found = in_child(lambda: _measured(case))
    if isinstance(found, str):
        sys.exit(found)
    return found


def _measured(case: Case) -> Cost | str:
    """The costs, or why there are none."""
    folder = Path(tempfile.mkdtemp(prefix="chimbuko-whole-"))
    # What outlives its parent becomes this process's child, and is waited for.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    samples = _Samples(os.getpid(), case.application)
    began_s, began_ns = time.monotonic(), time.time_ns()
    began = folder / "began"
    # As a user has it: without compiled modules each start compiles them, and takes 60 MB more.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with open(folder / "output", "wb") as output:
        process = subprocess.Popen(
            case.command.format(folder=shlex.quote(str(folder / "left")), began=shlex.quote(str(began))),
            shell=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    code, wall_s, cpu_s = 0, 0.0, 0.0
    with samples:
        while True:
            try:
                pid, status, usage = os.wait4(-1, 0)
            except ChildProcessError:
                break
            cpu_s += usage.ru_utime + usage.ru_stime
            if pid == process.pid:
                code, wall_s = os.waitstatus_to_exitcode(status), time.monotonic() - began_s
                process.returncode = code
    if code:
        return f"{case.name}: ended with code {code}\n{(folder / 'output').read_text(errors='replace')}"
    left = sum(path.stat().st_size for path in (folder / "left").rglob("*") if path.is_file())
    until_s = (began.stat().st_mtime_ns - began_ns) / 1e9 if began.exists() else None
    shutil.rmtree(folder)
    named = dict(samples.cpu_s_by_name())
    named["short-lived"] = max(cpu_s - sum(named.values()), 0.0)
    cpu_s -= sum(named.pop(name, 0.0) for name in case.application)
    pss_mb = dict(samples.most_pss_mb)
    return Cost(cpu_s, wall_s, until_s, sum(pss_mb.values()), left, named, pss_mb)


class _Samples:
    """Looks again and again at all processes below one: whose the CPU time is, and what memory they take.

    Parameters
    ----------
    application
        Names of processes whose memory does not count.
    """

    def __init__(self, root: int, application: Sequence[str]) -> None:
        self._root = root
        self._application = application
        self._seen: dict[int, tuple[str, float]] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.most_pss_mb: Counter[str] = Counter()
        """PSS by what processes are, when all together had most."""

    def __enter__(self) -> _Samples:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()

    def cpu_s_by_name(self) -> Counter[str]:
        """CPU-seconds of processes that lived for a while, by what they are."""
        found: Counter[str] = Counter()
        for name, cpu_s in self._seen.values():
            found[name] += cpu_s
        return found

    def _look(self) -> None:
        number = 0
        while not self._is_over.wait(SAMPLE_S):
            pids = _below(self._root)
            for pid in pids:
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                except OSError:
                    continue
                cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
                # One that is about to be gone has no name any more.
                name = _name_of(words) if words != [""] else self._seen.get(pid, ("?",))[0]
                self._seen[pid] = name, cpu_s
            if number % MEMORY_EVERY == 0:
                self._look_at_memory(pids)
            number += 1

    def _look_at_memory(self, pids: Sequence[int]) -> None:
        found: Counter[str] = Counter()
        for pid in pids:
            name = self._seen.get(pid, ("?",))[0]
            if name not in self._application:
                found[name] += _pss_mb(pid)
        if found.total() > self.most_pss_mb.total():
            self.most_pss_mb = found


def _below(root: int) -> list[int]:
    """All processes below one."""
    found: list[int] = []
    # The process may end meanwhile, and so may any of its threads.
    with suppress(OSError):
        for task in Path(f"/proc/{root}/task").glob("*/children"):
            children: list[int] = []
            with suppress(OSError):
                children = list(map(int, task.read_text().split()))
            for child in children:
                found += [child, *_below(child)]
    return found


def _pss_mb(pid: int) -> float:
    try:
        found = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def _name_of(words: Sequence[str]) -> str:
    """What a process is: its module, or its program."""
    if "-m" in words[:-1]:
        module = words[words.index("-m") + 1]
        verb = words[words.index("-m") + 2 : words.index("-m") + 3] if module == "chimbuko" else []
        return " ".join([module, *verb])
    if words[1:2] == ["-c"]:
        return "python -c"
    # Who has set a title has it as its first word.
    firsts = [word.split()[0] for word in words[:2] if word.strip() and not word.startswith("-")]
    names = [Path(word).name for word in firsts]
    return names[-1] if names and names[0].startswith("python") else (names[0] if names else "?")
