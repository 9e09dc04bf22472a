"""Which processes are of a run's own analysis, by who has started them, whatever they call themselves."""

from __future__ import annotations

import pytest

from chimbuko.monitor.procfs.task import TaskStat
from chimbuko.monitor.sampling.ownrun import ANOTHER_RUN, ITSELF, OwnRun, is_of_analysis, spoken

RUN = {
    # A shell has started a run, with a program, and the run of somebody else.
    2: ("bash", 1),
    10: ("python", 2),
    11: ("chimbuko.launch", 10),
    12: ("chimbuko.ad.age", 11),
    13: ("chimbuko.proven", 11),
    20: ("app", 10),
    21: ("chimbuko.hog", 20),
    22: ("chimbuko.drain", 20),
    23: ("chimbuko", 20),
    30: ("chimbuko.launch", 2),
    31: ("chimbuko.proven", 30),
    32: ("chimbuko.drain", 1),
    33: ("chimbuko", 2),
}
STATS = {pid: TaskStat(pid, name, "R", parent, 0, 0, 0, 0, 7, 0) for pid, (name, parent) in RUN.items()}


@pytest.mark.parametrize(
    ("pid", "name"),
    [
        (2, "bash"),
        # The command of the run.
        (10, ITSELF),
        (11, ITSELF),
        (12, ITSELF),
        (13, ITSELF),
        (20, "app"),
        (21, "chimbuko.hog"),
        # Commands that run beside it, one of them the program's own.
        (23, "chimbuko"),
        (33, "chimbuko"),
        # What the program has started itself is its own, whatever it is called.
        (22, ANOTHER_RUN),
        (30, ANOTHER_RUN),
        (31, ANOTHER_RUN),
        # Of a rank of another run.
        (32, ANOTHER_RUN),
    ],
)
def test_a_process_is_ours_by_who_has_started_it(pid: int, name: str) -> None:
    assert OwnRun(own=12).name_in_samples(STATS[pid], STATS.get, [20]) == name


def test_a_shell_that_has_started_an_agent_and_the_program_is_none_of_ours() -> None:
    job = {2: ("bash", 1), 12: ("chimbuko.ad.age", 2), 20: ("app", 2), 40: ("python3.11", 2)}
    stats = {pid: TaskStat(pid, name, "R", parent, 0, 0, 0, 0, 7, 0) for pid, (name, parent) in job.items()}
    run = OwnRun(own=12)
    names = [run.name_in_samples(stats[pid], stats.get, [20]) for pid in (2, 40)]
    assert names == ["bash", "python3.11"]


def test_what_writes_the_trace_of_a_rank_is_ours_by_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is its parent any more, and it was started with what the rank was."""
    for variables, name in (
        ({20: "a", 32: "a"}, ITSELF),
        ({20: "a", 32: "b"}, ANOTHER_RUN),
        ({}, ANOTHER_RUN),
    ):
        monkeypatch.setattr("chimbuko.monitor.sampling.ownrun._started_with", variables.get)
        assert OwnRun(own=12).name_in_samples(STATS[32], STATS.get, [20]) == name


def test_samples_of_earlier_versions_have_titles() -> None:
    assert is_of_analysis(ITSELF) and is_of_analysis("chimbuko.proven")
    assert not is_of_analysis(ANOTHER_RUN) and not is_of_analysis("chimbuko.hog")
    assert spoken(ANOTHER_RUN) == "another run of chimbuko" and spoken("app") == "app"
