"""Answers that many ask for at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from chimbuko.viz.api.blueprint import SharedAnswers


def test_what_many_ask_for_at_once_is_made_once() -> None:
    shared = SharedAnswers(lasts_s=3600)
    made: list[int] = []
    everybody_asks = threading.Barrier(8)

    def make() -> bytes:
        made.append(1)
        return b"answer"

    def ask() -> bytes:
        everybody_asks.wait(20)
        return shared.get("question", make)

    with ThreadPoolExecutor(8) as browsers:
        answers = [one.result(20) for one in [browsers.submit(ask) for _ in range(8)]]
    assert answers == [b"answer"] * 8
    assert made == [1]
    assert shared.get("other", lambda: b"another") == b"another"


def test_an_answer_is_made_anew_when_it_is_old() -> None:
    shared = SharedAnswers(lasts_s=0)
    assert [shared.get("question", lambda at=at: b"%d" % at) for at in range(2)] == [b"0", b"1"]  # type: ignore[misc]


def test_what_fails_is_raised_and_not_kept() -> None:
    shared = SharedAnswers(lasts_s=3600)

    def fail() -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        shared.get("question", fail)
    assert shared.get("question", lambda: b"now") == b"now"
