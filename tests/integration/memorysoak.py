"""Memory of all processes of a run that lasts: a program of two ranks and eight threads, with its page open.

``python -m tests.integration.memorysoak --minutes 46`` prints a table with the memory of each process over
time, and what the run takes on disk; exit code 1 where a process has grown by more than a tenth.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

from chimbuko.monitor.collector.fastring import KEPT_US
from tests.integration.conftest import Run, command_line, descendants
from tests.patience import PATIENCE_S

PROGRAM = """
import sys, threading, time

def work(seconds):
    time.sleep(seconds)

def compute(until_s):
    number = 0
    while time.perf_counter() < until_s:
        number += 1

def walk(ends_s, shift):
    number = 0
    while time.time() < ends_s:
        number += 1
        work(0.15 if (number + shift) % 1000 == 0 else 0.02)
        compute(time.perf_counter() + 0.001)

ends_s = time.time() + float(sys.argv[1])
threads = [threading.Thread(target=walk, args=(ends_s, 211 * shift)) for shift in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
PERIOD_S = 10.0
SETTLED_S = KEPT_US / 1e6 + 60.0
"""Time after which memory should not grow any more: all that is kept for some time is full by then, of which
samples of threads are kept the longest.
"""
MOST_GROWTH = 0.1
LEAST_MB = 1.0
"""Growth that counts: a shell has 0.2 MB, and what it shares is divided by how many have it just now."""
COLUMNS = 6
ANSWERS = "run", "incidents", "budget", "ranks", "health"
"""What an open page asks for now and then."""

Memory = dict[str, list[tuple[float, float]]]
"""Times in seconds and proportional memory in MB, by process."""


def memory_mb(pid: int) -> float:
    """Return the proportional set size of a process; 0 if it is gone."""
    with suppress(OSError):
        found = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0
    return 0.0


def name_of(pid: int) -> str:
    """Return what a process is, with its number."""
    words = command_line(pid)
    found = re.search(r"chimbuko\.[a-z.]+|valkey-server|chimbuko trace|chimbuko run|namespace", words)
    return f"{found[0] if found else ' '.join(words.split()[:2])} {pid}"


class Page:
    """A page of the run that is open: it asks for its answers again and again."""

    def __init__(self, url: str) -> None:
        self._base = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))
        self._opener.open(url, timeout=PATIENCE_S).close()

    def look(self) -> None:
        """Ask once."""
        for answer in ANSWERS:
            with suppress(OSError):
                self._opener.open(f"{self._base}/api/{answer}", timeout=PATIENCE_S).read()


def folder_mb(folder: Path) -> float:
    """Return what the files of a folder have, in MB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def soak(folder: Path, minutes: float) -> tuple[Memory, list[tuple[float, float]]]:
    """Run the program for so long; return the memory of all processes, and times and sizes of the folder."""
    (folder / "program.py").write_text(PROGRAM)
    traced = f"{sys.executable} -m chimbuko trace {folder / 'program.py'} {60 * minutes}"
    run = Run(folder / "run", "--", "sh", "-c", f"{traced} & {traced} & wait")
    page = Page(run.dashboard_url())
    memory: Memory = defaultdict(list)
    sizes = []
    began_s = time.monotonic()
    while run.process.poll() is None:
        since_s = time.monotonic() - began_s
        for pid in [run.process.pid, *descendants(run.process.pid)]:
            if (size_mb := memory_mb(pid)) > 0:
                memory[name_of(pid)].append((since_s, size_mb))
        sizes.append((since_s, folder_mb(folder / "run")))
        page.look()
        time.sleep(PERIOD_S)
    assert run.end() == 0, run.output
    print(run.output)
    return memory, sizes


def between(points: list[tuple[float, float]], begin_s: float, end_s: float) -> float:
    """Return the median of what was measured between two times; NaN where nothing was."""
    found = [value for at_s, value in points if begin_s <= at_s < end_s]
    return statistics.median(found) if found else float("nan")


def main() -> None:
    """Soak, print the table, and tell by the exit code whether memory was flat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=46.0)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        memory, sizes = soak(Path(name), minutes)
    end_s = 60 * minutes
    settled_s = min(SETTLED_S, end_s / 3)
    window_s = max(end_s / 10, 2 * PERIOD_S)
    starts_s = [settled_s + part * (end_s - window_s - settled_s) / COLUMNS for part in range(COLUMNS + 1)]
    print(f"{'MB of memory at minute':40}" + "".join(f"{at_s / 60:7.0f}" for at_s in starts_s) + "  growth")
    grown = 0
    for process, points in sorted(memory.items()):
        if points[-1][0] < end_s - window_s:
            continue  # It has ended as it should, or it was counted as it was forked.
        sizes_mb = [between(points, at_s, at_s + window_s) for at_s in starts_s]
        growth = sizes_mb[-1] / sizes_mb[0] - 1
        grown += growth > MOST_GROWTH and sizes_mb[-1] - sizes_mb[0] > LEAST_MB
        print(f"{process:40}" + "".join(f"{size_mb:7.1f}" for size_mb in sizes_mb) + f"{growth:8.1%}")
    first, last = (between(sizes, at_s, at_s + window_s) for at_s in (starts_s[0], starts_s[-1]))
    per_hour_mb = (last - first) * 3600 / (starts_s[-1] - starts_s[0])
    print(
        f"the run's folder: {last:.1f} MB, {per_hour_mb:.1f} MB an hour, {per_hour_mb * 168:,.0f} MB a week"
    )
    sys.exit(grown > 0)


if __name__ == "__main__":
    main()
