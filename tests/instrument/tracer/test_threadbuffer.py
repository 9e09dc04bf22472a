"""Rows of a thread are taken whole while the thread goes on appending."""

from __future__ import annotations

import threading
from array import array

from chimbuko.instrument.tracer.eventrecorder import ThreadBuffer


def numbers(taken: bytes) -> list[int]:
    return array("q", taken).tolist()


def test_taking_empties_the_buffer() -> None:
    buffer = ThreadBuffer(4, threading.main_thread, int)
    buffer.events.extend((2, 100, 3, 200))
    buffer.comms.extend((2, 0, 1, 8, 150))
    rows = buffer.take()
    assert rows.thread == 4
    assert numbers(rows.events) == [2, 100, 3, 200]
    assert numbers(rows.comms) == [2, 0, 1, 8, 150]
    assert buffer.take().events == b""


def test_events_that_are_packed_meanwhile_are_taken_in_their_order() -> None:
    buffer = ThreadBuffer(0, threading.main_thread, int)
    buffer.events.extend((2, 100))
    buffer.pack()
    buffer.pack()
    buffer.events.extend((3, 2**63 - 1))
    assert numbers(buffer.take().events) == [2, 100, 3, 2**63 - 1]
    assert buffer.take().events == b""


def test_nothing_is_lost_while_a_thread_appends() -> None:
    buffer = ThreadBuffer(0, threading.main_thread, int)
    last = 200_000

    def append() -> None:
        for number in range(last):
            buffer.events.extend((number, -number))

    thread = threading.Thread(target=append)
    thread.start()
    taken: list[int] = []
    while thread.is_alive():
        taken += numbers(buffer.take().events)
    taken += numbers(buffer.take().events)
    assert taken == [sign * number for number in range(last) for sign in (1, -1)]
