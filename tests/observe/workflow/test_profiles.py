"""RADICAL-Pilot's profiles: as it wrote them, and what is no such thing."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from chimbuko.observe.workflow.profiles import ProfileFiles, TaskProfiles
from tests.integration.conftest import Command
from tests.observe.namespaces.served import served

EVENTS = (
    *("launch_start", "launch_pre", "launch_submit", "exec_start", "exec_pre", "rank_start", "rank_stop"),
    *("exec_post", "exec_stop", "launch_collect", "launch_post", "launch_stop"),
)
RECORDED = Path(__file__).parent / "radicalpilot"
"""What RADICAL-Pilot 1.103 wrote of two of five tasks on one machine: its client, its agent, each task."""


def test_profiles_are_read_into_the_namespace(tmp_path: Path) -> None:
    with served(tmp_path / "service", namespaces=("workflow",)) as service, Reader(service.path) as reader:
        words = [
            "task",
            "read",
            *(RECORDED / place for place in ("session/*", "pilot.*/*.prof", "*/task.*/*")),
        ]
        command = Command(*words, environment={PLACE_VARIABLE: str(service.path)})
        assert command.end() == 0, command.output
        tasks = reader.read("workflow")
    assert command.lines == ["69 lines of tasks were published"]
    assert {name: task["state"] for name, task in tasks.items()} == {
        "task.000003": "CANCELED",
        "task.000004": "FAILED",
    }
    assert tasks["task.000003"]["states"] == {
        "1795691955.437525": "NEW",
        "1795691955.442611": "NEW",
        "1795691979.304443": "SCHEDULED",
        "1795691979.356404": "EXECUTING",
        "1795691980.786876": "CANCELED",
    }
    events = [event for _, event in sorted(tasks["task.000004"]["events"].items())]
    assert [event for event in events if event in EVENTS] == list(EVENTS)
    assert {"schedule_ok", "task_run_start", "unschedule_stop"} <= set(events)
    assert tasks["task.000004"]["events"]["1795691979.533009"] == "rank_stop"


def test_a_task_may_have_any_name_and_what_is_read_late_is_no_new_state() -> None:
    agent, task, client = (
        (RECORDED / name).read_text().replace("task.000004", "simulate").splitlines()
        for name in ("pilot.0000/agent.prof", "pilot.0000/task.000004/task.000004.prof", "session/tmgr.prof")
    )
    profiles = TaskProfiles()
    found = [values["simulate"] for values in profiles.observations(task) if "simulate" in values]
    assert [list(values["events"].values()) for values in found] == [[event] for event in EVENTS]
    late = [*profiles.observations(client), *profiles.observations(agent)]
    assert {name for values in late for name in values} == {"simulate", "task.000003"}
    states = [values["simulate"]["state"] for values in late if "state" in values.get("simulate", {})]
    assert states == ["NEW", "NEW", "FAILED"]
    entered = {state for values in late for state in values.get("simulate", {}).get("states", {}).values()}
    assert entered == {"NEW", "SCHEDULED", "EXECUTING", "FAILED"}


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
    st.sampled_from(["", "advance", "task.1", "DONE", "AGENT_EXECUTING", "1.5", "nan", "inf", "-1", "#"]),
    st.text(max_size=4),
)


@settings(max_examples=30)
@given(st.lists(st.lists(FIELD, max_size=9).map(",".join)))
def test_nothing_that_stands_in_a_file_breaks_the_reader(lines: list[str]) -> None:
    for values in TaskProfiles().observations(lines):
        ((task, known),) = values.items()
        assert task and "," not in task and known
