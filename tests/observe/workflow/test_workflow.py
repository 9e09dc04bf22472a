"""``chimbuko workflow`` with real processes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import BROKER, Command, children, command_line
from tests.observe.namespaces.served import served
from tests.observe.workflow.processes import marked, new_mark, none_left
from tests.thorough import first

PUBLISH = f"{sys.executable} -m chimbuko namespaces publish"


def started(path: Path, text: str, environment: dict[str, str] | None = None) -> Command:
    """A workflow of this text, in ``path/out``."""
    (path / "w.toml").write_text(text)
    return Command("workflow", path / "w.toml", "-o", path / "out", environment=environment)


LOOP = """
[namespaces]
place = "{place}"
[[task]]
name = "simulate"
command = ["sh", "-c", "test -e again || {{ touch again; exit 3; }}; echo $CHIMBUKO_TASK >>ran"]
retries = 1
[[task]]
name = "analyse"
command = "{python} -m chimbuko namespaces analyse application advice-of-test --publish advice"
after = ["simulate"]
[[task]]
name = "learn"
command = ["sh", "-c", "echo learn {{rate}} $CHIMBUKO_RECOMMENDED_CORES >>ran; taskset -p $$ >>ran"]
after = ["analyse"]
recommended.rate = {{ key = "advice/rate", default = 0.1 }}
recommended.cores = {{ key = "advice/cores", default = 1 }}
[[task]]
name = "missing"
command = "no-such-program"
[[task]]
name = "after-missing"
command = "true"
after = ["missing"]
"""


def installed_analysis(folder: Path) -> dict[str, str]:
    """An analysis of another package, as pip would install it; returns the environment that finds it."""
    folder.mkdir()
    (folder / "advising.py").write_text(
        "def advise(observations):\n"
        "    losses = [one.change.put[('loss',)] for one in observations if ('loss',) in one.change.put]\n"
        "    return {'rate': min(losses) / 2, 'cores': 2}\n"
    )
    information = folder / "advising-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: advising\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[chimbuko.analyses]\nadvice-of-test = advising:advise\n")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two cores are recommended")
def test_a_phase_heeds_what_an_analysis_has_recommended(tmp_path: Path) -> None:
    """The loop: a program publishes, an analysis recommends, the next phase obeys."""
    with served(tmp_path / "service") as service:
        with Client(service.path) as client:
            application = client.create("application")
            for loss in (0.5, 0.25, 0.75):
                application.publish_tree({"loss": loss})
        text = LOOP.format(place=service.path, python=sys.executable)
        command = started(tmp_path, text, installed_analysis(tmp_path / "package"))
        assert command.end() == 127, command.output
        with Reader(service.path) as reader:
            tasks = reader.read("workflow")
    ran = (tmp_path / "ran").read_text().splitlines()
    assert ran[:2] == ["simulate", "learn 0.125 2"], command.output
    assert int(ran[2].split()[-1], 16).bit_count() == 2
    assert {name: task["state"] for name, task in tasks.items()} == {
        "simulate": "DONE",
        "analyse": "DONE",
        "learn": "DONE",
        "missing": "FAILED",
        "after-missing": "CANCELED",
    }
    simulate = tasks["simulate"]
    by_time = [state for _, state in sorted(simulate["states"].items())]
    assert by_time == ["NEW", "SCHEDULED", "EXECUTING", "SCHEDULED", "EXECUTING", "DONE"]
    assert (simulate["attempt"], simulate["exit_code"], simulate["program"]) == (2, 0, "sh")
    assert tasks["learn"]["cores"] == 2 and tasks["learn"]["nodes"] == os.uname().nodename
    assert tasks["missing"]["reason"] == "no-such-program: cannot be run (no such command)"
    assert "after-missing: is cancelled: missing has failed" in command.output


STUBBORN = """
[[task]]
name = "stubborn"
command = ["sh", "stubborn.sh"]
[[task]]
name = "next"
command = "touch never"
after = ["stubborn"]
"""
STUBBORN_PROGRAM = """
trap '' TERM
setsid sleep 1000 &
(trap '' TERM; sleep 1000) &
touch runs
wait
"""


def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    mark = new_mark(tmp_path)
    (tmp_path / "stubborn.sh").write_text(STUBBORN_PROGRAM)
    command = started(tmp_path, STUBBORN, mark)
    command.wait_until((tmp_path / "runs").exists)
    command.interrupt()
    command.wait_for_line("next: is cancelled")
    command.interrupt()
    assert command.end() == 130, command.output
    assert none_left(mark) == []
    assert not (tmp_path / "never").exists()


TRACED = """
[analysis]
options = ["--no-dashboard", "--period", "0.2"]
[monitor]
period = "500ms"
[[task]]
name = "simulate"
command = "{python} -m chimbuko trace simulation.py"
[[task]]
name = "first-learner"
command = "{python} -m chimbuko trace learner.py"
after = ["simulate"]
[[task]]
name = "second-learner"
command = "{python} -m chimbuko trace learner.py"
after = ["simulate"]
"""
NEWEST, STARTING = "newest ", "starting "
PROGRAM = """
import time
def work():
    time.sleep(0.01)
for _ in range(30):
    work()
"""


SERVERS = (
    *("", "chimbuko namespaces", "chimbuko serve", "chimbuko agent", "chimbuko monitor"),
    *("chimbuko.pserver", "chimbuko.provenance.service", "chimbuko.observe.namespaces.service.instance"),
    *("chimbuko.observe.namespaces.service", BROKER, NEWEST + BROKER, STARTING + BROKER),
)


@pytest.mark.thorough
@pytest.mark.parametrize("killed", SERVERS)
def test_tasks_are_instances_of_their_programs_in_one_analysis(tmp_path: Path, killed: str) -> None:
    """Whichever server or broker is killed (the oldest is that of the namespaces; that of the analysis also
    while the others start), tasks go on, and all that was published arrives."""
    for name in ("simulation", "learner"):
        (tmp_path / f"{name}.py").write_text(PROGRAM)
    mark = new_mark(tmp_path)
    command = started(tmp_path, TRACED.format(python=sys.executable), mark)
    if killed:
        is_starting, is_newest = killed.startswith(STARTING), killed.startswith((NEWEST, STARTING))
        # Another server that is killed while it starts is one that cannot be started.
        if not is_starting:
            command.wait_for_line("services are ready")
        words = f"{killed.removeprefix(NEWEST).removeprefix(STARTING)} "
        numbers: list[int] = []

        def is_there() -> bool:
            numbers[:] = [int(line.split()[0]) for line in marked(mark) if words in line]
            return len(numbers) > is_starting

        command.wait_until(is_there)
        os.kill((max if is_newest else min)(numbers), signal.SIGKILL)
    assert command.end() == 0, command.output
    assert none_left(mark) == []
    with open_run(RunDirectory(tmp_path / "out" / "run")) as provenance:
        names = provenance.programs()
        streams = {(names[stream.program], stream.rank) for stream in provenance.health()}
    assert streams == {("simulation", 0), ("learner", 0), ("learner", 1)}, command.output
    observations = tmp_path / "out" / "observations"
    again = Command("namespaces", "serve", observations)
    again.wait_for_line("are served")
    with Reader(observations) as reader:
        states = {name: task["state"] for name, task in reader.read("workflow").items()}
    again.interrupt()
    assert again.end() == 0
    assert states == {"simulate": "DONE", "first-learner": "DONE", "second-learner": "DONE"}


@pytest.mark.parametrize("is_leader", first(1, [True, False]))
def test_nothing_is_left_where_who_leads_is_killed(tmp_path: Path, is_leader: bool) -> None:
    """Nor of a task that ignores what asks it to end, in a session of its own. Two processes lead: what one
    of them leaves the other one ends."""
    mark = new_mark(tmp_path)
    text = '[[task]]\nname = "sleeper"\ncommand = ["sh", "-c", "setsid sleep 500 & sleep 500"]\n'
    command = started(tmp_path, text, mark)
    command.wait_for_line("sleeper: runs on")
    (leader,) = (pid for pid in children(command.process.pid) if "workflow" in command_line(pid))
    os.kill(leader if is_leader else command.process.pid, signal.SIGKILL)
    assert command.end() == (128 + signal.SIGKILL if is_leader else -signal.SIGKILL), command.output
    assert none_left(mark, 40.0) == []
