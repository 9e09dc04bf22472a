"""RADICAL-Pilot's profiles: a task's, as its executor writes them, and what is no such thing."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.namespaces.exchange.place import PLACE_VARIABLE
from chimbuko.namespaces.exchange.reader import Reader
from chimbuko.workflow.records.profilefiles import ProfileFiles
from chimbuko.workflow.records.profiles import observations_of
from tests.integration.conftest import Command
from tests.namespaces.served import served

EVENTS = (
    *("launch_start", "launch_pre", "launch_submit", "exec_start", "exec_pre", "rank_start", "rank_stop"),
    *("exec_post", "exec_stop", "launch_collect", "launch_post", "launch_stop"),
)
TASK = "#time,event,comp,thread,uid,state,msg\n" + "".join(
    f"1700000000.{at:02d}5,{event},,,task.000003,AGENT_EXECUTING,\n" for at, event in enumerate(EVENTS)
)
AGENT = """#time,event,comp,thread,uid,state,msg
1699999999.0,sync_abs,agent.0,MainThread,agent.0,,node7:10.0.0.7:1699999999.0:1699999999.0:ntp
1699999999.25,advance,agent_scheduling.0000,MainThread,task.000003,AGENT_SCHEDULING,
1700000000.0,advance,agent_executing.0000,MainThread,task.000003,AGENT_EXECUTING,
1700000000.0,get,agent_executing.0000,MainThread,pilot.0000,,a, b
1700000001.0,advance,agent.0,MainThread,task.000003,DONE,
1700000001.5,advance,agent.0,MainThread,task.000003,SOMETHING_NEW,
"""


def test_profiles_are_read_into_the_namespace(tmp_path: Path) -> None:
    (tmp_path / "task.000003").mkdir()
    (tmp_path / "task.000003" / "task.000003.prof").write_text(TASK)
    (tmp_path / "agent.prof").write_text(AGENT)
    with served(tmp_path / "service", namespaces=("workflow",)) as service, Reader(service.path) as reader:
        words = ["task", "read", tmp_path / "*.prof", tmp_path / "task.*" / "*.prof"]
        command = Command(*words, environment={PLACE_VARIABLE: str(service.path)})
        assert command.end() == 0, command.output
        task = reader.read("workflow")["task.000003"]
    assert command.lines == ["15 lines of tasks were published"]
    assert task["state"] == "DONE"
    assert task["states"] == {
        "1699999999.250000": "SCHEDULED",
        "1700000000.000000": "EXECUTING",
        "1700000001.000000": "DONE",
    }
    assert [event for _, event in sorted(task["events"].items())] == list(EVENTS)
    assert task["events"]["1700000000.065000"] == "rank_stop"


def test_no_file_is_one_line(tmp_path: Path) -> None:
    with served(tmp_path / "service", namespaces=("workflow",)) as service:
        command = Command("task", "read", tmp_path / "*.prof", "--service", service.path)
        assert command.end() == 2
    assert len(command.lines) == 1 and "no file matches" in command.output


def test_files_that_grow_give_whole_lines_once_and_in_order(tmp_path: Path) -> None:
    files = ProfileFiles([str(tmp_path / "*.prof")])
    assert files.new_lines() == [] and files.is_empty
    (tmp_path / "b.prof").write_text("2.0,b\n3.0,brok")
    (tmp_path / "a.prof").write_text("2.5,a\n")
    assert files.new_lines() == ["2.0,b", "2.5,a"]
    with (tmp_path / "b.prof").open("a") as file:
        file.write("en\n")
    assert files.new_lines() == ["3.0,broken"] and not files.is_empty
    assert files.new_lines() == []


FIELD = st.one_of(
    st.sampled_from(["", "advance", "task.1", "DONE", "1.5", "nan", "inf", "-1", "#"]), st.text(max_size=4)
)


@settings(max_examples=30)
@given(st.lists(st.lists(FIELD, max_size=9).map(",".join)))
def test_nothing_that_stands_in_a_file_breaks_the_reader(lines: list[str]) -> None:
    for values in observations_of(lines):
        ((task, known),) = values.items()
        assert task.startswith(("task.", "unit.")) and known
