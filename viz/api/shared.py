"""Answers that many ask for at the same time: each is made once, and given to all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future

LASTS_S = 0.5
"""A page asks again every two seconds, so 100 of them ask the same 50 times a second."""


class SharedAnswers:
    """Answers for a moment, by question. What fails is not kept.

    Parameters
    ----------
    lasts_s
        How old an answer may be, from when it was begun.
    """

    def __init__(self, lasts_s: float = LASTS_S) -> None:
        self._lasts_s = lasts_s
        self._lock = threading.Lock()
        self._answers: dict[Hashable, tuple[float, Future[bytes]]] = {}

    def get(self, question: Hashable, make: Callable[[], bytes]) -> bytes:
        """The answer that is there, or is being made, or is made now."""
        now_s = time.monotonic()
        with self._lock:
            self._answers = {
                key: held for key, held in self._answers.items() if now_s - held[0] < self._lasts_s
            }
            is_mine = question not in self._answers
            if is_mine:
                self._answers[question] = now_s, Future()
            begun_s, answer = self._answers[question]
        if is_mine:
            try:
                answer.set_result(make())
            except BaseException as error:
                answer.set_exception(error)
                with self._lock:
                    if self._answers.get(question) == (begun_s, answer):
                        del self._answers[question]
        return answer.result()
