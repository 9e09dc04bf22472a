"""A workflow that is interrupted, or killed, at each moment of its start and its end; and their order."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from chimbuko.observe.namespaces.exchange.jobaddress import DEFAULT_JOB, WRITER
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import Command, children, command_line
from tests.observe.workflow.processes import marked, new_mark, none_left

pytestmark = pytest.mark.thorough

WORKFLOW = """
[analysis]
options = ["--no-dashboard", "--period", "0.2"]
[monitor]
period = "500ms"
[[task]]
name = "first"
command = ["sh", "first.sh"]
[[task]]
name = "second"
command = "touch never"
after = ["first"]
"""
FIRST = """
setsid sleep 1000 &
touch runs
until test -e go; do sleep 0.02; done
"""
SERVED, ANALYSED, AGENTS, MONITORED, TASK = (
    "chimbuko namespaces serve",
    "chimbuko serve",
    "chimbuko agent",
    "chimbuko monitor",
    "first.sh",
)
"""What the command lines of a workflow's processes hold, in the order in which these start."""


@dataclass(frozen=True)
class Begun:
    """A workflow that has begun in a folder."""

    folder: Path
    mark: dict[str, str]
    command: Command

    @property
    def out(self) -> Path:
        """Its own folder."""
        return self.folder / "out"

    @property
    def run(self) -> RunDirectory:
        """Of its analysis."""
        return RunDirectory(self.out / "run")

    @property
    def leader(self) -> int | None:
        """The one of its two processes that leads."""
        found = [pid for pid in children(self.command.process.pid) if "workflow" in command_line(pid)]
        return found[0] if found else None

    def has(self, words: str) -> bool:
        """Whether a process with such a command line is there."""
        return any(words in line for line in marked(self.mark))

    def logs(self, name: str) -> bool:
        """Whether it has started what has this log."""
        return (self.out / "logs" / name).exists()

    def says(self, text: str) -> bool:
        """Whether it has said that."""
        return any(text in line for line in self.command.lines)


def begin(folder: Path) -> Begun:
    mark = new_mark(folder)
    (folder / "w.toml").write_text(WORKFLOW)
    (folder / "first.sh").write_text(FIRST)
    return Begun(folder, mark, Command("workflow", folder / "w.toml", "-o", folder / "out", environment=mark))


MOMENTS: dict[str, Callable[[Begun], bool]] = {
    "it begins": lambda begun: begun.leader is not None,
    "namespaces start": lambda begun: begun.logs("namespaces.log"),
    "namespaces are served": lambda begun: (begun.out / "observations/jobs" / DEFAULT_JOB / WRITER).exists(),
    "the analysis starts": lambda begun: begun.run.info_path.exists(),
    "the analysis has its broker": lambda begun: begun.run.broker_path.exists(),
    "the analysis is ready": lambda begun: begun.run.node_command.exists(),
    "agents start": lambda begun: begun.logs("agents.log"),
    "the monitor starts": lambda begun: begun.logs("monitor.log"),
    "a task runs": lambda begun: (begun.folder / "runs").exists(),
    "a task has ended": lambda begun: begun.says("first: is done"),
    "monitors end": lambda begun: begun.says("second: is done"),
    "the analysis ends": lambda begun: not begun.has(MONITORED),
    "namespaces end": lambda begun: not begun.has(ANALYSED),
}
NAMES = list(MOMENTS)
CAN_DIE = {"it begins"}
"""Of a signal, before it heeds them."""
HAS_STATES = set(NAMES[NAMES.index("a task runs") :])
HAS_ENDED = set(NAMES[NAMES.index("a task has ended") :])
IS_OVER = set(NAMES[NAMES.index("monitors end") :])


def until(begun: Begun, moment: str) -> None:
    """Let it go on to a moment."""
    if moment in HAS_ENDED:
        (begun.folder / "go").touch()
        begun.command.wait_until(lambda: begun.says("first: runs on"), pause_s=0.01)
    if moment in IS_OVER:
        begun.command.wait_for_line("second: is done")
    begun.command.wait_until(lambda: MOMENTS[moment](begun), pause_s=0.005)


@pytest.mark.parametrize("moment", NAMES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_no_moment_of_a_signal_leaves_a_process(tmp_path: Path, moment: str, number: int) -> None:
    begun = begin(tmp_path)
    until(begun, moment)
    begun.command.process.send_signal(number)
    code = begun.command.end()
    allowed = (
        {130} | ({1, 128 + number} if moment in CAN_DIE else set()) | ({0} if moment in HAS_ENDED else set())
    )
    assert code in allowed, begun.command.output
    assert none_left(begun.mark) == [], begun.command.output
    if moment in HAS_STATES:
        assert begun.run.read_info().state == "finished", begun.command.output
        assert states(begun.out)["first"] == ("DONE" if moment in HAS_ENDED else "CANCELED")


@pytest.mark.parametrize("moment", NAMES)
def test_no_moment_of_the_leader_s_death_leaves_a_process(tmp_path: Path, moment: str) -> None:
    begun = begin(tmp_path)
    until(begun, moment)
    if (leader := begun.leader) is not None:
        os.kill(leader, signal.SIGKILL)
    code = begun.command.end()
    assert code == 128 + signal.SIGKILL or (code == 0 and moment in HAS_ENDED), begun.command.output
    assert none_left(begun.mark, 40.0) == [], begun.command.output
    if moment in HAS_STATES:
        # The last one may not have been sent.
        assert states(begun.out)["first"] in ("SCHEDULED", "EXECUTING", "DONE")


def states(out: Path) -> dict[str, str]:
    """Of tasks, as they were published: the service is started once more."""
    again = Command("namespaces", "serve", out / "observations")
    again.wait_for_line("are served")
    with Reader(out / "observations") as reader:
        found = {name: task["state"] for name, task in reader.read("workflow").items()}
    again.interrupt()
    assert again.end() == 0, again.output
    return found


def test_services_are_first_in_and_last_out_with_monitors_and_tasks_between(tmp_path: Path) -> None:
    begun = begin(tmp_path)
    looks: list[dict[str, int]] = []
    has_ended = threading.Event()

    def look() -> None:
        while not has_ended.is_set():
            looks.append(started(begun.mark))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        begun.command.wait_for_line("first: runs on")
        begun.command.wait_until(lambda: any(TASK in one for one in looks))
        (tmp_path / "go").touch()
        assert begun.command.end() == 0, begun.command.output
    finally:
        has_ended.set()
        looking.join()
    order = (SERVED, ANALYSED, AGENTS, MONITORED, TASK)
    since = [min(one[words] for one in looks if words in one) for words in order]
    assert since == sorted(since), begun.command.output
    last = [max(at for at, one in enumerate(looks) if words in one) for words in order]
    # Agents and analysis end together: each when it has delivered.
    ends = [last[0], max(last[1:3]), last[3], last[4]]
    assert all(outer >= inner for outer, inner in pairwise(ends)), begun.command.output


def started(mark: dict[str, str]) -> dict[str, int]:
    """By what their command lines hold, when the first of the processes that are there began, in ticks."""
    found: dict[str, int] = {}
    for line in marked(mark):
        pid, _, words = line.partition(" ")
        for one in (SERVED, ANALYSED, AGENTS, MONITORED, TASK):
            if one in words:
                try:
                    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
                except OSError:
                    continue
                found[one] = min(ticks, found.get(one, ticks))
    return found
