"""Programs in order under ``chimbuko monitor`` and ``chimbuko run``: none of them is stuck or late.

``python -m benchmarks.cleanprograms`` runs each for some seconds, beside ``--load`` busy processes; other
findings than how the cores are used are false, and so is each incident of at least 10 ms, but for those that
processes beside the program explain. Exit code 1 where there is any.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import table
from benchmarks.nodecauses import load
from chimbuko.causes.kinds.heldup import STOPPED, WAITED_FOR_CORE

NOT_FALSE = {
    "foreign load",
    "sampler beside a worker",
    "analysis beside workers",
    "oversubscribed",
    "undersubscribed",
}
"""Findings that are true where others compute on the cores of a program, or nobody does."""
OF_OTHERS = {cause.id for cause in (STOPPED, WAITED_FOR_CORE)}
LEAST_COST_US = 10_000
"""Cost of an incident from which on a person calls it one."""
HEAD = """
import asyncio, multiprocessing, os, queue, select, signal, socket, subprocess, sys, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
END_S = time.monotonic() + float(sys.argv[1])

def going():
    return time.monotonic() < END_S

def spin(seconds):
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass

def repeat(pause_s, work_s=0.0):
    while going():
        spin(work_s)
        time.sleep(pause_s)

def in_threads(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""
PROGRAMS = {
    # Pollers and sleepers.
    "poller, 10 ms": "repeat(0.01)",
    "poller, 300 ms": "repeat(0.3)",
    "poller, 1 ms of work a second": "repeat(0.999, 0.001)",
    "poller, select": "while going(): select.select([], [], [], 0.1)",
    "poller of a pipe": "r, w = os.pipe()\nwhile going(): select.select([r], [], [], 0.05)",
    "sleeper": "time.sleep(END_S - time.monotonic())",
    "sleeper after work": "spin(0.5)\ntime.sleep(max(0.0, END_S - time.monotonic()))",
    "work after sleep": "time.sleep(1.0)\nspin(1.0)",
    "timer by signals": (
        "signal.signal(signal.SIGALRM, lambda *_: spin(0.001))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)\n"
        ""
        "while going(): signal.pause()\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.0)"
    ),
    "half busy": "repeat(0.05, 0.05)",
    "busy": "while going(): spin(0.1)",
    "busy in bursts": "while going():\n  spin(0.4)\n  time.sleep(0.4)",
    # Threads.
    "thread that waits for another": "in_threads(lambda: repeat(0.01, 0.002))",
    "threads that sleep": "in_threads(*[lambda: repeat(0.1)] * 8)",
    "threads one after the other": "for _ in range(6): in_threads(lambda: spin(0.2))",
    "condition": (
        "ready = threading.Condition()\n"
        "def give():\n  while going():\n    time.sleep(0.2)\n    with ready: ready.notify_all()\n"
        "def take():\n  while going():\n    with ready: ready.wait(1.0)\n"
        "in_threads(give, take, take)"
    ),
    "event": (
        "event = threading.Event()\n"
        "in_threads(lambda: (time.sleep(END_S - time.monotonic()), event.set()), event.wait)"
    ),
    "lock in turns": (
        "lock = threading.Lock()\n"
        "def work():\n  while going():\n    with lock: time.sleep(0.02)\n    time.sleep(0.02)\n"
        "in_threads(work, work)"
    ),
    "barrier": (
        "barrier = threading.Barrier(3)\n"
        "def work():\n  for _ in range(20):\n    time.sleep(0.05)\n    barrier.wait()\n"
        "in_threads(work, work, work)"
    ),
    "timer thread": "threading.Timer(2.0, lambda: None).start()\nrepeat(0.2)",
    "watchdog thread": "threading.Thread(target=lambda: time.sleep(3600), daemon=True).start()\n"
    "repeat(0.01, 0.01)",
    # Queues, pools and pipelines.
    "queue": (
        "work = queue.Queue()\n"
        "def give():\n  while going():\n    work.put(1)\n    time.sleep(0.05)\n  work.put(None)\n"
        "def take():\n  while work.get(): spin(0.001)\n"
        "in_threads(give, take)"
    ),
    "bounded queue": (
        "work = queue.Queue(2)\n"
        "def give():\n  while going(): work.put(1)\n  work.put(None)\n"
        "def take():\n  while work.get(): time.sleep(0.05)\n"
        "in_threads(give, take)"
    ),
    "thread pool": (
        "with ThreadPoolExecutor(4) as pool:\n  while going(): list(pool.map(time.sleep, [0.02] * 8))"
    ),
    "idle thread pool": (
        "pool = ThreadPoolExecutor(4)\n"
        "list(pool.map(time.sleep, [0.1] * 8))\n"
        "repeat(0.1, 0.01)\n"
        "pool.shutdown()"
    ),
    "process pool": (
        "with ProcessPoolExecutor(2) as pool:\n"
        "  while going():\n    list(pool.map(abs, range(20)))\n    time.sleep(0.05)"
    ),
    "process pool that computes": (
        "with multiprocessing.Pool(2) as pool:\n  while going(): pool.map(spin, [0.05] * 4)"
    ),
    "pipeline of processes": (
        "subprocess.run(f'timeout {sys.argv[1]} yes | tr y n | cat >/dev/null', shell=True)"
    ),
    "slow pipeline": (
        "subprocess.run('for i in $(seq 12); do echo $i; sleep 0.2; done | cat >/dev/null', shell=True)"
    ),
    # Children.
    "parent of a child that computes": (
        "child = multiprocessing.Process(target=spin, args=(2.0,))\nchild.start()\nchild.join()"
    ),
    "parent of a child that sleeps": "subprocess.run(['sleep', sys.argv[1]])",
    "children one after the other": "while going(): subprocess.run(['sleep', '0.2'])",
    "child that ends early": (
        "child = multiprocessing.Process(target=spin, args=(0.5,))\n"
        "child.start()\n"
        "repeat(0.1, 0.01)\n"
        "child.join()"
    ),
    "parent that waits for the first of two": (
        "children = [subprocess.Popen(['sleep', str(s)]) for s in (1, 2)]\n"
        "[child.wait() for child in children]"
    ),
    # Servers.
    "server without clients": (
        "server = socket.create_server(('127.0.0.1', 0))\nserver.settimeout(END_S - time.monotonic())\n"
        "try: server.accept()\nexcept TimeoutError: pass"
    ),
    "server with a client": (
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "def serve():\n  link, _ = server.accept()\n  while data := link.recv(64): link.send(data)\n"
        "def ask():\n  with socket.create_connection(server.getsockname()) as link:\n"
        "    while going():\n      link.send(b'?')\n      link.recv(64)\n      time.sleep(0.05)\n"
        "in_threads(serve, ask)"
    ),
    "socket pair of processes": (
        "here, there = socket.socketpair()\n"
        "if os.fork() == 0:\n  while there.recv(1): there.send(b'!')\n  os._exit(0)\n"
        "there.close()\n"
        "while going():\n  here.send(b'?')\n  here.recv(1)\n  time.sleep(0.1)\nhere.close()\nos.wait()"
    ),
    # Coroutines.
    "asyncio, sleeping": (
        "async def main():\n  while going(): await asyncio.gather(*[asyncio.sleep(0.1) for _ in range(20)])\n"
        "asyncio.run(main())"
    ),
    "asyncio with an executor": (
        "async def main():\n  while going(): await asyncio.to_thread(time.sleep, 0.1)\nasyncio.run(main())"
    ),
    "files, now and then": (
        "while going():\n  with open('clean.dat', 'w') as file: file.write('x' * 100000)\n  time.sleep(0.2)"
    ),
}


def under_monitor(source: str, seconds: float, folder: Path) -> list[str]:
    """Kinds of what the monitor finds in a program; a program that fails is one."""
    done = _under(["monitor", "--period", "500ms"], source, seconds, folder)
    if done.returncode:
        return [f"failed: {done.stderr.strip().splitlines()[0]}"]
    _, _, found = done.stderr.rpartition("\nFindings:")
    return sorted(set(re.findall(r"^([a-zA-Z][a-zA-Z ]*):", found, re.MULTILINE)) - NOT_FALSE)


def under_run(source: str, seconds: float, folder: Path) -> list[str]:
    """Sentences of the incidents and findings that a run of a program reports; one that fails is one."""
    done = _under(["run", "--output", "run"], source, seconds, folder)
    if done.returncode:
        return [f"failed: {done.stderr.strip().splitlines()[0]}"]
    listed = subprocess.run(
        [sys.executable, "-m", "chimbuko", "incidents", "run", "--limit", "1000", "--json"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(listed.stdout)
    shutil.rmtree(folder / "run")
    told = [(one, one["sentence"]) for one in found["incidents"]]
    told += [(one["recurrence"], one["sentence"]) for one in found["recurrences"]]
    return [
        sentence for one, sentence in told if one["cost_us"] >= LEAST_COST_US and one["kind"] not in OF_OTHERS
    ]


def _under(words: list[str], source: str, seconds: float, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(HEAD + source + "\n")
    return subprocess.run(
        [sys.executable, "-m", "chimbuko", *words, "--", sys.executable, "program.py", str(seconds)],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )


UNDER = {"monitor": under_monitor, "run": under_run}


def main() -> None:
    """Run all of them, print what was found, and tell by the exit code whether anything was false."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--load", type=int, nargs="+", default=[0, 2, 8])
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--under", choices=UNDER, nargs="+", default=[*UNDER])
    options = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        for verb, processes in itertools.product(options.under, options.load):
            programs = {name: source for name, source in PROGRAMS.items() if options.only in name}
            false: list[str] = []
            for name, source in programs.items():
                with load(processes):
                    found = UNDER[verb](source, options.seconds, Path(folder))
                if found:
                    false.append(f"{name}: {', '.join(found)}")
                    print(false[-1], file=sys.stderr, flush=True)
            rows.append((verb, str(processes), str(len(programs)), str(len(false)), "; ".join(false)))
    print(table(("under", "load", "programs", "with false findings", "which"), rows))
    sys.exit(any(row[3] != "0" for row in rows))


if __name__ == "__main__":
    main()
