"""Where the recorded streams of a run are."""

from __future__ import annotations

import os
from pathlib import Path

from chimbuko.capture.trace.discovery import StreamName
from chimbuko.capture.trace.recordedstreams import note_recorded, recorded_streams, stamp_of
from chimbuko.core.config import AnalysisConfig
from chimbuko.runtime.runs.directory import RunDirectory, new_run


def made(folder: Path) -> RunDirectory:
    return new_run(folder, ["--trace", "x"], AnalysisConfig(), None)


def stream(folder: Path, rank: int, first_rank: int = 0) -> StreamName:
    path = folder / f"tau-metrics-heat-{rank}.bp"
    path.mkdir(parents=True)
    (path / "data.0").write_bytes(b"x" * (rank + 1))
    return StreamName("heat", rank + first_rank, path, first_rank)


def test_streams_that_were_noted_are_found_as_far_as_they_are_still_there(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    streams = [stream(tmp_path / "traces", 0), stream(tmp_path / "traces", 1, 4)]
    note_recorded(run, streams)
    assert recorded_streams(run) == streams
    (streams[0].path / "data.0").unlink()
    streams[0].path.rmdir()
    assert recorded_streams(run) == streams[1:]


def test_streams_in_the_folder_of_the_run_are_found_without_a_note(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    assert recorded_streams(run) == []
    beside = stream(run.trace, 3)
    assert recorded_streams(run) == [beside]


def test_a_damaged_note_is_no_stream(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    run.recorded_path.write_text("{")
    assert recorded_streams(run) == []


def test_a_stamp_changes_with_the_stream(tmp_path: Path) -> None:
    path = stream(tmp_path, 2).path
    before = stamp_of(path)
    assert before[1] == 3
    (path / "data.0").write_bytes(b"xxxx")
    os.utime(path / "data.0", ns=(1, 5))
    assert stamp_of(path) == (5, 4)
    assert stamp_of(path / "data.0") == (5, 4)
