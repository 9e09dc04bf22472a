"""Finding streams by TAU's file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.errors import TraceFormatError
from chimbuko.trace.discovery import StreamName, find_live, find_recorded, parse_stream_path


@pytest.mark.parametrize(
    ("name", "program", "rank"),
    [
        ("tau-metrics-heat2d-3.bp", "heat2d", 3),
        ("tau-metrics-nwchem.mpich-12.bp", "nwchem.mpich", 12),
        ("tau-metrics-my-own-app-0.bp", "my-own-app", 0),
        ("tau-metrics-heat-1.bp.sst", "heat", 1),
        ("trace-app-7.bp", "app", 7),
    ],
)
def test_program_and_rank_come_from_the_name(name: str, program: str, rank: int) -> None:
    stream = parse_stream_path(Path("/run") / name)
    assert stream is not None
    assert (stream.program, stream.rank) == (program, rank)
    assert stream.path == Path("/run") / name.removesuffix(".sst")


@pytest.mark.parametrize("name", ["app.bp", "tau-metrics-app.bp", "tau-metrics-app-x.bp", "a.txt"])
def test_other_names_are_no_streams(name: str) -> None:
    assert parse_stream_path(Path(name)) is None


def test_recorded_streams_come_sorted_by_program_and_rank(tmp_path: Path) -> None:
    for name in ("tau-metrics-b-0.bp", "tau-metrics-a-10.bp", "tau-metrics-a-2.bp"):
        (tmp_path / name).mkdir()
    found = find_recorded(str(tmp_path / "*.bp"))
    assert [(stream.program, stream.rank) for stream in found] == [("a", 2), ("a", 10), ("b", 0)]


def test_pattern_without_match_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="no trace stream matches"):
        find_recorded(str(tmp_path / "*.bp"))


def test_match_that_is_no_stream_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(TraceFormatError, match=r"notes\.txt"):
        find_recorded(str(tmp_path / "*"))


def test_live_streams_are_those_with_a_contact_file(tmp_path: Path) -> None:
    for name in (
        "tau-metrics-app-1.bp.sst",
        "tau-metrics-app-0.bp.sst",
        "tau-metrics-app-2.bp",
        "x-app-3.bp.sst",
    ):
        (tmp_path / name).touch()
    paths = [tmp_path / f"tau-metrics-app-{rank}.bp" for rank in (0, 1)]
    assert find_live(tmp_path) == [StreamName("app", rank, path) for rank, path in enumerate(paths)]


def test_prefix_of_live_streams_is_taken_literally(tmp_path: Path) -> None:
    (tmp_path / "my[1]-app-0.bp.sst").touch()
    assert [stream.program for stream in find_live(tmp_path, "my[1]")] == ["app"]
