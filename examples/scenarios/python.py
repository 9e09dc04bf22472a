"""Python program that is delayed by one known cause: three calls of step() among 300 take 200 ms and more.

chimbuko run -- chimbuko trace python.py lock

Usage: python.py NAME [FOLDER]; a module that is slow to import is written to FOLDER/site-packages, since what
is installed there is none of the program's own functions.
"""

from __future__ import annotations

import gc
import importlib
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

STEPS = 300
DELAYED = 150, 200, 260
DELAY_S, USUAL_S = 0.2, 0.003
SLOW_MODULE = f"import time\nuntil = time.thread_time() + {DELAY_S}\nwhile time.thread_time() < until: pass\n"

lock = threading.Lock()
jobs: queue.Queue[None] = queue.Queue()
is_held = threading.Event()


def hold_lock() -> None:
    """Hold the lock for as long as a delay lasts."""
    with lock:
        is_held.set()
        time.sleep(DELAY_S)


def have_interpreter() -> None:
    """Compute in one call of the interpreter, which meanwhile runs nobody else."""
    sum(range(12_000_000))


def prepare(name: str, is_delayed: bool) -> None:
    """Begin what delays the next step."""
    if not is_delayed:
        return
    if name == "lock":
        is_held.clear()
        threading.Thread(target=hold_lock).start()
        is_held.wait()
    elif name == "gil":
        threading.Thread(target=have_interpreter).start()
    elif name == "queue":
        threading.Timer(DELAY_S, jobs.put, [None]).start()


def step(name: str, number: int, is_delayed: bool) -> None:
    """Compute as usual, and be delayed."""
    until = time.thread_time() + (DELAY_S if is_delayed and name == "computes" else USUAL_S)
    while time.thread_time() < until:
        for _ in range(1000):
            pass
    if not is_delayed:
        return
    if name == "sleeps":
        time.sleep(DELAY_S)
    elif name == "gc":
        gc.collect()
    elif name == "lock":
        with lock:
            pass
    elif name == "child":
        subprocess.run(["sleep", str(DELAY_S)], check=True)
    elif name == "queue":
        jobs.get()
    elif name == "import":
        importlib.import_module(f"chimbuko_slow_{number}")


def write_slow_modules(folder: Path) -> None:
    """Write the modules that take long to import."""
    folder.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(folder))
    for number in DELAYED:
        (folder / f"chimbuko_slow_{number}.py").write_text(SLOW_MODULE)


def main(name: str, folder: str = ".") -> None:
    """Run all steps."""
    gc.disable()
    kept = [[[number]] for number in range(600_000)] if name == "gc" else []
    gc.enable()
    if name == "import":
        write_slow_modules(Path(folder) / "site-packages")
    for number in range(STEPS):
        prepare(name, number in DELAYED)
        step(name, number, number in DELAYED)
        time.sleep(0.002)
    del kept


main(*sys.argv[1:])
