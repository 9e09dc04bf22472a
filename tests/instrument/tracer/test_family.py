"""What children of a traced program find in their environment, and what is no part of the program."""

from __future__ import annotations

import pytest

from chimbuko.instrument.tracer.children import MOST_NAMED, StartedPrograms, is_helper, module_of
from chimbuko.instrument.tracer.chunks import Header
from chimbuko.instrument.tracer.family import FAMILY_VARIABLE, STARTUP_FOLDER, Family, leave
from chimbuko.instrument.tracer.members import MOST_IN_ALL, Members, State


@pytest.mark.parametrize("include", [None, (), ("json.*", "a b.c")])
@pytest.mark.parametrize("before", [{}, {"PYTHONPATH": "/a:/b"}])
def test_environment_says_all_and_is_restored(
    include: tuple[str, ...] | None, before: dict[str, str]
) -> None:
    family = Family("address", "my program", 3, "/home/of the/program", "/bin/python")
    family.include = include
    environment = {"HOME": "/", **before}
    for _ in range(2):
        family.enter(environment)
    assert (
        environment["PYTHONPATH"].split(":")
        == [STARTUP_FOLDER, *before.get("PYTHONPATH", "").split(":")][: 3 if before else 1]
    )
    found = Family.from_text(environment[FAMILY_VARIABLE])
    assert vars(found) == vars(family)
    leave(environment)
    assert environment == {"HOME": "/", **before}


@pytest.mark.parametrize(
    ("command", "is_no_part"),
    [
        ("python script.py", False),
        ("python chimbuko_like.py", False),
        ("python -X utf8 /usr/bin/chimbuko trace x.py", True),
        ("python -P -m chimbuko.ad.agent.__main__", True),
        ("python -m chimbuko trace x.py", True),
        ("python -m package.chimbuko", False),
        ("python", False),
    ],
)
def test_helpers_are_known_by_their_command(command: str, is_no_part: bool) -> None:
    assert is_helper(module_of(command.split())) == is_no_part


def test_code_that_names_a_helper_is_none() -> None:
    assert module_of(["python", "-c", "from chimbuko import tracer"]) == ""
    served = "from multiprocessing.forkserver import main; main(3, 4)"
    assert is_helper(module_of(["python", "-I", "-c", served]))


def test_names_of_started_programs_are_bounded() -> None:
    started = StartedPrograms()
    for pid in range(MOST_NAMED + 5):
        started.note(pid, [b"/bin/ls", b"-l"])
    taken = started.take()
    assert taken.programs is not None
    assert (len(taken.programs), taken.others) == (MOST_NAMED, 5)
    assert started.take().programs == {}


def test_members_are_no_untraced_children() -> None:
    members = Members()
    members.add(10, Header("p", 0, 0))
    members.add(11, Header("p", 0, 0, parent_pid=10, is_forked=True))
    started = members.add(12, Header("p", 0, 0, parent_pid=10))
    members.set_rank(started, 7)
    members.set_state(started, State.OVER)
    programs = {12: "python", 13: "ls", 14: "ls"}
    reported = members.not_traced(10, forks=2, programs=programs, others=1)
    assert reported == "4 (2 ls, 1 others, 1 forked without work for long enough)"
    assert members.not_traced(10, forks=1, programs={12: "python"}, others=0) == ""
    assert (members.rank_of(12), members.rank_of(11), members.rank_of(99)) == (7, None, None)
    assert MOST_IN_ALL > members.count == 3
