"""Queue of alerts for one sink, with a thread of its own, so that nobody waits for the sink."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from chimbuko.provenance.alerts.sink import Sink

MOST_WAITING = 100
"""Maximum number of alerts that wait; more are left out while a sink does not take them."""
PAUSES_S = (1.0, 4.0, 16.0)
"""Pause before each further try."""
STOP_S = 5.0
"""Maximum time at the end of the run to go on handing over what waits."""


class SinkQueue:
    """Hands alerts over one after the other, and tries again where it fails.

    Parameters
    ----------
    report
        Takes a line for the user: once that alerts are not taken, and once that they are again.
    """

    def __init__(self, sink: Sink, report: Callable[[str], None]) -> None:
        self._sink = sink
        self._report = report
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        self._is_stopping = threading.Event()
        self._is_failing = False
        self._stop_at_s = 0.0
        self._lost = 0
        self._thread = threading.Thread(target=self._work, name=sink.name, daemon=True)
        self._thread.start()

    def put(self, body: bytes) -> None:
        """Hand an alert over soon; it is left out where too many wait already."""
        try:
            self._waiting.put_nowait(body)
        except queue.Full:
            self._lost += 1

    def stop(self) -> None:
        """Hand over what waits, if that does not take long."""
        self._stop_at_s = time.monotonic() + STOP_S
        self._is_stopping.set()
        # Where it is full there is no need to wake the thread.
        if not self._waiting.full():
            self._waiting.put_nowait(None)
        self._thread.join(STOP_S)
        lost = self._lost + self._waiting.qsize()
        if lost:
            self._report(f"{lost} alerts were not taken by the {self._sink.name}")

    def _work(self) -> None:
        while not (self._is_stopping.is_set() and (self._waiting.empty() or self._is_late)):
            body = self._waiting.get()
            if body is not None and not self._is_taken(body):
                self._lost += 1

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._stop_at_s

    def _is_taken(self, body: bytes) -> bool:
        for pause_s in (*PAUSES_S, 0.0):
            try:
                self._sink.take(body)
            except Exception as error:
                # Whatever it was: the thread goes on, so that later alerts are taken.
                if not self._is_failing:
                    self._report(f"the {self._sink.name} takes no alerts: {error}; trying again")
                self._is_failing = True
                if self._is_stopping.wait(pause_s):
                    return False
            else:
                if self._is_failing:
                    self._report(f"the {self._sink.name} takes alerts again")
                self._is_failing = False
                return True
        return False
