"""Profiles of speedscope: those with events hold calls, those of samples none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chimbuko.core.errors import TraceFormatError
from tests.capture.formats.traces import calls_of, converted

FRAMES = [{"name": "main"}, {"name": "solve", "file": "app.py", "line": 7}]


def profile(*profiles: dict[str, Any]) -> bytes:
    about = {"$schema": "https://www.speedscope.app/file-format-schema.json", "name": "app"}
    return json.dumps(about | {"shared": {"frames": FRAMES}, "profiles": profiles}).encode()


def evented(*events: tuple[str, int, float], unit: str = "milliseconds") -> dict[str, Any]:
    rows = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]
    return {"type": "evented", "name": "t", "unit": unit, "startValue": 0, "endValue": 9, "events": rows}


SAMPLED = {"type": "sampled", "unit": "seconds", "samples": [[0], [0, 1]], "weights": [1, 1]}


def test_events_are_calls_and_profiles_are_threads(tmp_path: Path) -> None:
    one = evented(("O", 0, 1), ("O", 1, 2.5), ("C", 1, 3), ("C", 0, 4))
    result = converted(tmp_path, profile(one, evented(("O", 1, 5), ("C", 1, 6))), name="app.speedscope.json")
    solve = "solve [{app.py} {7,0}]"
    assert calls_of(result) == [
        (0, 0, "main", 1000, 4000),
        (0, 0, solve, 2500, 3000),
        (0, 1, solve, 5000, 6000),
    ]
    assert result.complaints == []


def test_what_is_no_call_is_counted(tmp_path: Path) -> None:
    calls = evented(("O", 0, 1), ("C", 0, 4), ("?", 0, 5), ("O", 9, 5), ("O", 0, -5))
    result = converted(tmp_path, profile(calls, SAMPLED, evented(("O", 0, 1), unit="bytes")))
    assert len(calls_of(result)) == 1
    assert result.complaints == [
        "left out of the traces: events of an unknown type: 2, events without a time: 2, samples: 2"
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (profile(SAMPLED), "there are no calls in it (left out of the traces: samples: 2)"),
        (b'{"$schema": 1, "shared": 2, "profiles": 3}', "it is no profile of speedscope ("),
    ],
)
def test_what_holds_no_calls(tmp_path: Path, text: bytes, complaint: str) -> None:
    with pytest.raises(TraceFormatError) as raised:
        converted(tmp_path, text)
    assert complaint in str(raised.value)
