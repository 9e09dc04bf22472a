"""What ends a process of ours, and what does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chimbuko.monitor.sampling.ownrun import is_title
from chimbuko.runtime.process import starting
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.process.signals import END, FROM_OTHERS, no_ctrl_c
from chimbuko.runtime.process.starting import Starter
from chimbuko.runtime.process.supervisor import ServiceGroup
from chimbuko.runtime.process.wakeup import Ending
from tests.patience import PATIENCE_S

GOES_ON = """
import signal, subprocess, sys, time
from chimbuko.runtime.process.lifetime import say_ready
from chimbuko.runtime.process.signals import StopSignal

def load():
    pass

def main():
    should_stop, is_urgent = StopSignal(), StopSignal(number=signal.SIGTERM)
    say_ready()
    while not should_stop():
        time.sleep(0.01)
    print("urgent" if is_urgent() else "in peace", file=sys.stderr, flush=True)

if __name__ == "__main__":
    main()
"""
IGNORES = GOES_ON.replace("StopSignal(number=signal.SIGTERM)", "lambda: False")
STARTERS = [starting.new_python, starting.fork]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Starter], Service]]:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    started: list[Service] = []

    def make(text: str, starter: Starter) -> Service:
        (tmp_path / "goes_on.py").write_text(text)
        started.append(Service("made", "goes_on", [], {}, tmp_path, start=starter))
        started[-1].wait_ready()
        return started[-1]

    yield make
    for service in started:
        service.stop(0.0)
    sys.modules.pop("goes_on", None)


@pytest.mark.parametrize("starter", STARTERS)
def test_what_a_scheduler_sends_to_all_processes_does_not_end_a_service(
    start: Callable[[str, Starter], Service], starter: Starter, tmp_path: Path
) -> None:
    service = start(IGNORES, starter)
    for number in FROM_OTHERS:
        os.kill(service.process.pid, number)
    assert service.is_running
    assert service.stop(20.0) and service.process.returncode == 0
    assert (tmp_path / "made.log").read_text() == "in peace\n"


@pytest.mark.parametrize("starter", STARTERS)
def test_a_group_is_warned_and_goes_on(
    start: Callable[[str, Starter], Service], starter: Starter, tmp_path: Path
) -> None:
    problems: list[str] = []
    group = ServiceGroup(problems)
    service = group.add(start(GOES_ON, starter))
    group.warn()
    assert group.stop(20.0) and service.process.returncode == 0 and problems == []
    assert (tmp_path / "made.log").read_text() == "urgent\n"


def test_the_signal_of_our_own_is_nobody_elses() -> None:
    assert signal.SIGRTMIN < END < signal.SIGRTMAX and END not in FROM_OTHERS


def test_what_is_started_without_ctrl_c_never_hears_it_and_we_do_afterwards() -> None:
    with pytest.raises(KeyboardInterrupt), no_ctrl_c():
        words = [sys.executable, "-c", "print(flush=True); input()"]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        os.kill(os.getpid(), signal.SIGINT)
        assert child.stdout is not None and child.stdout.readline()
    child.send_signal(signal.SIGINT)
    child.communicate(b"\n")
    assert child.returncode == 0


ALARMED = """
import signal
from chimbuko.runtime.process.wakeup import Ending

for number in range(3000):
    ending = Ending()
    assert not ending.is_set() and not ending.wait(0.0)
    signal.signal(signal.SIGALRM, ending.set)
    # One each, at another moment: where they come faster than handlers run, these interrupt one another.
    signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + number % 100))
    assert ending.wait(60.0) and ending.is_set()
"""


def test_signals_that_come_at_any_moment_end_each_wait() -> None:
    # A handler that sets an Event waits for ever where its wait() has just taken the lock. Not in this
    # process, where the alarm is that of the tests' time limit.
    subprocess.run([sys.executable, "-c", ALARMED], check=True, timeout=PATIENCE_S)


def test_a_signal_that_another_thread_is_given_ends_the_wait_of_the_main_one() -> None:
    before, ending = signal.getsignal(signal.SIGUSR1), Ending()
    signal.signal(signal.SIGUSR1, ending.set)

    def take() -> None:
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    other = threading.Thread(target=take, daemon=True)
    try:
        other.start()
        assert ending.wait(60.0)
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_process_of_ours_is_known_by_its_name_also_where_it_has_no_packages() -> None:
    program = "from chimbuko.runtime.process.signals import be_called; be_called('chimbuko.guard'); "
    program += "print(open('/proc/self/comm').read())"
    said = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    assert is_title(said.stdout.strip())
