"""Finding streams by TAU's file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.capture.trace.discovery import (
    StreamName,
    Transport,
    find_live,
    find_recorded,
    parse_stream_path,
)
from chimbuko.core.errors import TraceFormatError


@pytest.mark.parametrize(
    ("name", "program", "rank"),
    [
        ("tau-metrics-heat2d-3.bp", "heat2d", 3),
        ("tau-metrics-nwchem.mpich-12.bp", "nwchem.mpich", 12),
        ("tau-metrics-my-own-app-0.bp", "my-own-app", 0),
        ("tau-metrics-heat-1.bp.sst", "heat", 1),
        ("trace-app-7.bp", "app", 7),
        ("tau-metrics.4-app-2.bp", "app", 6),
        ("tau-metrics.0-app-0.bp.sst", "app", 0),
        ("tau-metrics.train-python3.11-1.bp", "train", 1),
        ("tau-metrics.train.2-python3.11-1.bp", "train", 3),
    ],
)
def test_program_and_rank_come_from_the_name(name: str, program: str, rank: int) -> None:
    stream = parse_stream_path(Path("/run") / name)
    assert stream is not None
    assert (stream.program, stream.rank) == (program, rank)
    assert stream.path == Path("/run") / name.removesuffix(".sst")


@pytest.mark.parametrize(
    "name", ["app.bp", "tau-metrics-app.bp", "tau-metrics-app-x.bp", "tau-metrics-app-1234567890.bp", "a.txt"]
)
def test_other_names_are_no_streams(name: str) -> None:
    assert parse_stream_path(Path(name)) is None


def test_recorded_streams_come_sorted_by_program_and_rank(tmp_path: Path) -> None:
    for name in ("tau-metrics-b-0.bp", "tau-metrics-a-10.bp", "tau-metrics-a-2.bp"):
        (tmp_path / name).mkdir()
    found = find_recorded([str(tmp_path / "*.bp")])
    assert [(stream.program, stream.rank) for stream in found] == [("a", 2), ("a", 10), ("b", 0)]


@pytest.mark.parametrize(
    "name",
    ["tau-metrics-app-3.bp", "tau-metrics.2-my-app-1.bp", "tau-metrics.train.2-python3-1.bp", "t-a-0.bp"],
)
def test_canonical_name_is_found_as_the_same_program_and_rank(name: str) -> None:
    stream = parse_stream_path(Path(name))
    assert stream is not None
    again = parse_stream_path(Path(stream.file_name))
    assert again is not None
    assert (again.program, again.rank, again.first_rank) == (stream.program, stream.rank, stream.first_rank)


def made_streams(folder: Path, *names: str) -> str:
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    return str(folder / "*.bp")


def test_same_ranks_in_another_folder_are_another_instance(tmp_path: Path) -> None:
    first = made_streams(
        tmp_path / "z", "tau-metrics-app-0.bp", "tau-metrics-app-1.bp", "tau-metrics-other-0.bp"
    )
    second = made_streams(tmp_path / "a", "tau-metrics-app-0.bp", "tau-metrics-app-1.bp")
    found = find_recorded([first, second])
    assert [(stream.program, stream.rank, stream.first_rank) for stream in found] == [
        ("app", 0, 0),
        ("app", 1, 0),
        ("app", 2, 2),
        ("app", 3, 2),
        ("other", 0, 0),
    ]
    assert [stream.path.parent.name for stream in found] == ["z", "z", "a", "a", "z"]


def test_other_ranks_in_another_folder_are_the_same_instance(tmp_path: Path) -> None:
    first = made_streams(tmp_path / "node1", "tau-metrics-app-0.bp", "tau-metrics-app-1.bp")
    second = made_streams(tmp_path / "node2", "tau-metrics-app-2.bp", "tau-metrics-app-3.bp")
    found = find_recorded([first, second])
    assert [(stream.rank, stream.first_rank) for stream in found] == [(rank, 0) for rank in range(4)]


def test_stream_that_two_patterns_match_is_there_once(tmp_path: Path) -> None:
    pattern = made_streams(tmp_path / "run", "tau-metrics-app-0.bp")
    assert len(find_recorded([pattern, pattern])) == 1


def test_pattern_without_match_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="no trace stream matches"):
        find_recorded([str(tmp_path / "*.bp")])


def test_match_that_is_no_stream_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(TraceFormatError, match=r"notes\.txt"):
        find_recorded([str(tmp_path / "*")])


def test_live_streams_are_those_with_a_contact_file_and_those_in_files(tmp_path: Path) -> None:
    for name in (
        "tau-metrics-app-1.bp.sst",
        "tau-metrics-app-0.bp.sst",
        "tau-metrics.3-app-0.bp.sst",
        "tau-metrics-app-2.bp.first",
        "tau-metrics-app-1.bp.read",
        "x-app-3.bp.sst",
        "tau-metricsx-app-3.bp.sst",
    ):
        (tmp_path / name).touch()
    for name in ("tau-metrics-app-2.bp", "x-app-4.bp", "tau-metricsx-app-5.bp", "tau-metrics-app-6"):
        (tmp_path / name).mkdir()
    assert find_live(tmp_path) == [
        (StreamName("app", 0, tmp_path / "tau-metrics-app-0.bp"), Transport.SST),
        (StreamName("app", 1, tmp_path / "tau-metrics-app-1.bp"), Transport.SST),
        (StreamName("app", 2, tmp_path / "tau-metrics-app-2.bp"), Transport.FILES),
        (StreamName("app", 3, tmp_path / "tau-metrics.3-app-0.bp", 3), Transport.SST),
    ]


def test_prefix_of_live_streams_is_taken_literally(tmp_path: Path) -> None:
    (tmp_path / "my[1]-app-0.bp.sst").touch()
    (tmp_path / "my1-app-1.bp").mkdir()
    assert [stream.program for stream, _ in find_live(tmp_path, "my[1]")] == ["app"]
