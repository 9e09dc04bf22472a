"""What a source says to have seen comes back as it was said, and nothing else is taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.sourcecensus import (
    SourceCensus,
    census_beside,
    parse_census,
    parse_unwritten,
    unwritten_text,
)

CENSUS = SourceCensus("the recorder", 10, {"without room in the buffer of a thread": 3})


def test_a_census_is_read_as_it_was_said(tmp_path: Path) -> None:
    assert parse_census(CENSUS.text()) == CENSUS
    assert parse_unwritten(unwritten_text(CENSUS.unwritten)) == CENSUS.unwritten
    stream = tmp_path / "tau-metrics-app-0.bp"
    assert census_beside(stream) is None
    CENSUS.leave_beside(stream)
    assert census_beside(stream) == CENSUS
    CENSUS.leave_beside(tmp_path / "no" / "such.bp")


@pytest.mark.parametrize("text", [None, "", "7 calls", "[1]", '{"seen": "many"}'])
def test_what_is_no_census_says_nothing(text: str | None) -> None:
    assert parse_census(text) is None
    assert parse_unwritten(text) == {}
