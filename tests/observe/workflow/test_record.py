"""Two calls of a workflow engine, in Python and on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from chimbuko.observe.workflow import task_ended, task_started
from chimbuko.observe.workflow.record import format_place, time_key
from tests.integration.conftest import Command
from tests.observe.namespaces.served import served


def test_two_calls_report_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path / "service", namespaces=("workflow",)) as service, Reader(service.path) as reader:
        monkeypatch.setenv(PLACE_VARIABLE, str(service.path))
        task_started("a", program="heat", nodes=["n1", "n2"], ranks=2, cores=8)
        task_ended("a", exit_code=3)
        words = ["--program", "heat", "--nodes", "n1,n2", "--ranks", "2", "--cores", "8"]
        for one in (["started", "b", *words], ["ended", "b", "--exit-code", "3"]):
            command = Command("task", *one)
            assert command.end() == 0, command.output
        with pytest.raises(ObservationError):
            task_started("")
        tasks = reader.read("workflow")
    for task in tasks.values():
        states = task.pop("states")
        assert [state for _, state in sorted(states.items())] == ["EXECUTING", "FAILED"]
        assert task == {
            **{"state": "FAILED", "program": "heat", "nodes": "n1,n2", "ranks": 2, "cores": 8},
            **{"attempt": 1, "exit_code": 3},
        }
    assert tasks.keys() == {"a", "b"}


def test_times_and_places_as_text() -> None:
    assert time_key(1_700_000_000_000_042) == "1700000000.000042"
    assert format_place({"n1": (3, 1, 0), "n2": (7,)}) == "n1:0-1,3 n2:7"
