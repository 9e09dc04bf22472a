"""Calls out of pandas frames."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from chimbuko.capture.formats.conversion import convert_frame
from chimbuko.core.errors import TraceFormatError
from tests.capture.formats.traces import calls_of


def test_a_frame_of_calls(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "function": ["inner", "outer", "outer"],
            "begin_us": [1_700_000_000_000_010.0, 1_700_000_000_000_000.0, 1_700_000_000_000_000.0],
            "end_us": [1_700_000_000_000_020.5, 1_700_000_000_000_030.0, 1_700_000_000_000_001.0],
            "rank": [1, 1, 0],
            "thread": [7, 7, 0],
        }
    )
    begin = 1_700_000_000_000_000
    assert calls_of(convert_frame(frame, tmp_path / "streams")) == [
        (0, 0, "outer", begin, begin + 1),
        (1, 0, "outer", begin, begin + 30),
        (1, 0, "inner", begin + 10, begin + 20),
    ]


def test_a_frame_of_pipit(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "Timestamp (ns)": [1_000_000, 2_000_000, 3_000_000, 3_500_000, 4_000_000],
            "Event Type": ["Enter", "Enter", "Leave", "Instant", "Leave"],
            "Name": ["main", "foo", "foo", "marker", "main"],
            "Process": [2, 2, 2, 2, 2],
        }
    )
    assert calls_of(convert_frame(frame, tmp_path / "streams")) == [
        (2, 0, "main", 1000, 4000),
        (2, 0, "foo", 2000, 3000),
    ]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"function": ["f"], "begin_us": [1]}, "the frame has the columns function, begin_us; needed are"),
        ({"function": ["f"], "begin_us": [2], "end_us": [1]}, "end before they begin"),
        (
            {"function": ["f"], "begin_us": ["x"], "end_us": [1]},
            "column begin_us of the frame holds what is no number",
        ),
        ({"function": ["f"], "begin_us": [1.0], "end_us": [float("nan")]}, "holds what is no number"),
        ({"function": ["f"], "begin_us": [1.0], "end_us": [1e30]}, "holds what is no time"),
        ({"function": ["f"], "begin_us": [1], "end_us": [2], "rank": ["a"]}, "column rank of the frame"),
        ({"function": [], "begin_us": [], "end_us": []}, "there are no calls in the frame"),
    ],
)
def test_frames_that_cannot_be(tmp_path: Path, columns: dict[str, list[object]], complaint: str) -> None:
    frame = pd.DataFrame(columns)
    if not len(frame):
        frame = frame.astype({"begin_us": "int64", "end_us": "int64"})
    with pytest.raises(TraceFormatError, match=complaint):
        convert_frame(frame, tmp_path / "streams")
