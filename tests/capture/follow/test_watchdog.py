"""What is done about stopped processes, as a list of looks."""

from __future__ import annotations

import pytest

from chimbuko.capture.follow.guard import Watchdog
from chimbuko.capture.follow.presence import Process, Role


def signals(role: Role, states: str, passed_s: float = 1.0) -> str:
    """What a process is sent at each look: ``c`` to go on, ``k`` to end, or nothing."""
    watchdog, process = Watchdog(3.0), Process(17, 400, role)
    sent = ""
    for state in states:
        now = watchdog.look([(process, state)], passed_s)
        sent += {"SIGCONT": "c", "SIGKILL": "k"}[now[0][1].name] if now else "."
    return sent


@pytest.mark.parametrize(
    ("role", "states", "sent"),
    [
        (Role.READING, "STTTTTTTT", "....c...k"),
        (Role.READING, "STTTTSSTTTT", "....c.....k"),
        (Role.READING, "STTTSTTTSTTT", "............"),
        (Role.READING, "Sttttttttt", ".........."),
        (Role.JOINING, "STTTTTTTTTT", "....c...c.."),
        (Role.AGENT, "STTTTTTTTTT", "....c......"),
        (Role.LAUNCHER, "STTTTTTTTTT", "..........."),
        (Role.APPLICATION, "STTTTTTTTTT", "..........."),
    ],
)
def test_who_is_made_to_go_on_and_who_is_killed(role: Role, states: str, sent: str) -> None:
    assert len(states) == len(sent)
    assert signals(role, states) == sent


def test_another_process_of_the_same_number_begins_anew() -> None:
    watchdog = Watchdog(3.0)
    for started in range(20):
        assert watchdog.look([(Process(17, started, Role.READING), "T")], 2.0) == []


def test_a_reader_that_joined_meanwhile_was_made_to_go_on_before() -> None:
    watchdog = Watchdog(1.0)
    joining, reading = Process(17, 4, Role.JOINING), Process(17, 4, Role.READING)
    watchdog.look([(joining, "T")], 1.0)
    assert [sent for _, sent in watchdog.look([(joining, "T")], 1.0)] == [18]
    assert watchdog.look([(reading, "S")], 1.0) == []
    assert watchdog.look([(reading, "T")], 1.0) == []
    assert [sent for _, sent in watchdog.look([(reading, "T")], 1.0)] == [9]
