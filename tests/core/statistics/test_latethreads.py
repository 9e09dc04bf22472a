"""Late threads come back from metadata as they were."""

from __future__ import annotations

import pytest

from chimbuko.core.statistics.latethreads import LateThread, decode_late_threads, encode_late_threads

FOUND = LateThread("OpenMP barrier [{solve.c} {10,0}]", 3, 4, 199, 0.95, 1.39, 2.5e6)


def test_late_threads_come_back() -> None:
    assert decode_late_threads(encode_late_threads([FOUND, FOUND])) == [FOUND, FOUND]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"barrier": 1}]', encode_late_threads([FOUND])[:-2]])
def test_a_damaged_text_has_none(text: str) -> None:
    assert decode_late_threads(text) == []
