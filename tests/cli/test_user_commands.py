"""Every verb that runs a command of the user's treats it alike: verbs by cases, with real processes."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.observe.namespaces.served import served
from tests.observe.workflow.processes import new_mark, none_left
from tests.patience import PATIENCE_S

CHIMBUKO = [sys.executable, "-m", "chimbuko"]
VERBS = {
    "run": ("run", "--no-dashboard", "-o", "run", "--"),
    "follow": ("follow", "--trace", "*.pfw", "--"),
    "monitor": ("monitor", "--"),
    "overhead": ("overhead", "--rounds", "2", "--"),
    "relay": ("namespaces", "relay", "--service", "{service}", "--"),
    "caliper": ("namespaces", "caliper", "--service", "{service}", "--"),
    "workflow": ("workflow", "workflow.toml", "-o", "workflow"),
}
WHOLE_RUNS = ("run", "overhead", "workflow")
"""Verbs that start services of ours beside the command: seconds of CPU time for each case."""
OWN_CODE = 40
PROGRAM = f"""
import os, signal, sys, time

def hear(number, frame):
    with open("heard", "a") as file:
        file.write(f"{{number}}\\n")
    if number != signal.SIGINT or "stay" not in sys.argv:
        os._exit({OWN_CODE} + number)

for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, hear)
open("ready", "w").close()
while True:
    time.sleep(1000)
"""
"""Program that notes the signals that it hears, and ends with a code of its own."""


@dataclass(frozen=True)
class Ended:
    """A command that cannot be run, or ends by itself."""

    words: tuple[str, ...]
    code: int
    said: str = ""


ENDED = {
    "missing": Ended(("./missing",), 127, "./missing: cannot be run (No such file or directory)"),
    "no command": Ended(("no-such-program",), 127, "no-such-program: cannot be run (no such command)"),
    "not executable": Ended(
        ("./plain",), 126, "./plain: cannot be run (it is not executable; do: chmod +x ./plain)"
    ),
    "folder": Ended(("./folder",), 126, "./folder: cannot be run (it is a folder)"),
    "exit code": Ended(("sh", "-c", "exit 3"), 3),
    "killed": Ended(("sh", "-c", "kill -KILL $$"), 128 + signal.SIGKILL),
}
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with served(tmp_path_factory.mktemp("service") / "service", namespaces=("performance",)) as service:
        yield service.path


@pytest.fixture
def words(tmp_path: Path, service: Path) -> Callable[[str, tuple[str, ...]], list[str]]:
    """Makes the words of a verb around those of a command."""
    (tmp_path / "plain").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)

    def around(verb: str, command: tuple[str, ...]) -> list[str]:
        own = [*CHIMBUKO, *(word.format(service=service) for word in VERBS[verb])]
        if verb == "workflow":
            task = f"[[task]]\nname = 'only'\ncommand = {json.dumps(shlex.join(command))}\n"
            (tmp_path / "workflow.toml").write_text(task)
            return own
        return [*own, *command]

    return around


Words = Callable[[str, tuple[str, ...]], list[str]]


def costly(cases: list[tuple[str, object]], kept: tuple[object, ...]) -> list[object]:
    """The cases, of which those that start whole runs are left to ``make thorough``, but for those kept."""
    return [
        pytest.param(
            *case,
            marks=[pytest.mark.thorough] if case[0] in WHOLE_RUNS and case[1] not in kept else [],
            id=f"{case[0]}-{case[1].name if isinstance(case[1], signal.Signals) else case[1]}",
        )
        for case in cases
    ]


@pytest.mark.parametrize(
    ("verb", "case"),
    costly([(verb, case) for case in ENDED for verb in VERBS], kept=("missing", "exit code")),
)
def test_a_command_that_ends_or_cannot_be_run(verb: str, case: str, words: Words, tmp_path: Path) -> None:
    ended = ENDED[case]
    done = subprocess.run(
        words(verb, ended.words), cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    # A program that fails cannot be measured.
    code = 2 if verb == "overhead" and not ended.said else ended.code
    assert done.returncode == code, done.stderr
    if ended.said and verb == "workflow":
        assert f"only: has failed (exit code {code}): {ended.said}; its output is in" in done.stderr
    elif ended.said:
        assert done.stderr == f"chimbuko: {ended.said}\n"


@pytest.mark.parametrize(
    ("verb", "number"),
    costly([(verb, number) for number in SIGNALS for verb in VERBS], kept=(signal.SIGHUP,)),
)
def test_a_signal_is_passed_on_and_nothing_is_left(
    verb: str, number: signal.Signals, words: Words, tmp_path: Path
) -> None:
    mark = new_mark(tmp_path)
    process = subprocess.Popen(
        words(verb, (sys.executable, "program.py")),
        cwd=tmp_path,
        env={**os.environ, **mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Without the terminal that the tests may have.
        start_new_session=True,
    )
    until(process, (tmp_path / "ready").exists)
    process.send_signal(number)
    said, _ = process.communicate(timeout=PATIENCE_S)
    # A workflow asks its tasks to end by SIGTERM, whatever it has heard; a measurement ends without a figure.
    heard = signal.SIGTERM if verb == "workflow" else number
    assert (tmp_path / "heard").read_text().split() == [str(int(heard))], said
    expected = {"workflow": 130, "overhead": 128 + number}.get(verb, OWN_CODE + number)
    assert process.returncode == expected, said
    assert none_left(mark, PATIENCE_S) == []


def until(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.02)


@pytest.mark.parametrize(
    "verb", ["follow", "monitor", "relay", pytest.param("run", marks=pytest.mark.thorough)]
)
def test_ctrl_c_at_a_terminal_reaches_the_command_once(verb: str, words: Words, tmp_path: Path) -> None:
    """Also where standard input is a file, as in ``chimbuko run -- ./app < input``."""
    around = words(verb, (sys.executable, "program.py", "stay"))
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(around[0], around)
    heard = tmp_path / "heard"
    wait_for((tmp_path / "ready").exists)
    os.write(terminal, b"\x03")
    wait_for(lambda: heard.exists() and bool(heard.read_text()))
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert heard.read_text().split() == [str(int(signal.SIGINT)), str(int(signal.SIGTERM))]
    assert os.waitstatus_to_exitcode(status) == OWN_CODE + signal.SIGTERM


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
