"""What a source says to have seen comes back as it was said, and nothing else is taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.sourcecensus import (
    LEFT_OUT,
    NOT_WRITTEN,
    UNCOUNTED,
    SourceCensus,
    census_beside,
    census_from,
    parse_census,
)

CENSUS = SourceCensus("the recorder", 10, {"without room in the buffer of a thread": 3})


def test_a_census_is_read_as_it_was_said(tmp_path: Path) -> None:
    assert parse_census(CENSUS.text()) == CENSUS
    stream = tmp_path / "tau-metrics-app-0.bp"
    assert census_beside(stream) is None
    CENSUS.leave_beside(stream)
    assert census_beside(stream) == CENSUS
    CENSUS.leave_beside(tmp_path / "no" / "such.bp")


@pytest.mark.parametrize("text", [None, "", "7 calls", "[1]", '{"seen": "many"}'])
def test_what_is_no_census_says_nothing(text: str | None) -> None:
    assert parse_census(text) is None
    assert census_from("the recorder", text, 7) == SourceCensus("the recorder", 7)


def test_calls_that_were_not_written_have_their_reasons() -> None:
    counts = '{"seen": 30, "recorded": 20, "for which there was no room": 10, "nested too deeply": 0}'
    reasons = {"for which there was no room": 10}
    assert census_from("us", counts, 21) == SourceCensus("us", 31, reasons)
    assert census_from("us", counts, 17) == SourceCensus("us", 30, reasons | {NOT_WRITTEN: 3})


def test_functions_whose_calls_were_not_all_counted_are_no_reason() -> None:
    counts = f'{{"seen": 20, "recorded": 15, "{LEFT_OUT}": 5, "{UNCOUNTED}": 2}}'
    assert census_from("us", counts, 15) == SourceCensus("us", 20, {LEFT_OUT: 5}, 2)
