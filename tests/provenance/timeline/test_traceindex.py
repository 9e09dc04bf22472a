"""The index of a recorded trace: any range of it is what the list of its calls says."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from chimbuko.provenance.timeline.edges import LINK, SEND, UNKNOWN, numbered
from chimbuko.provenance.timeline.spans import (
    ANOMALY,
    MOST_SPANS,
    RECORDED,
    Spans,
    new_spans,
    reduced,
    rows_of,
)
from chimbuko.provenance.timeline.traceindex import VERSION, IndexFiles, IndexHeader, SpanIndex, write_index

START_US = 1_700_000_000_000_000
CALLS = 20_000


def made_calls() -> tuple[Spans, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Calls of two threads by chance, one in 500 abnormal; and their threads."""
    chance = np.random.default_rng(5)
    spans = new_spans(CALLS)
    threads = np.arange(CALLS, dtype=np.int32) % 2
    for thread in (0, 1):
        of = threads == thread
        gaps, runtimes = chance.integers(0, 50, of.sum()), chance.lognormal(3, 1, of.sum()).astype(np.int64)
        spans["begin_us"][of] = START_US + np.cumsum(gaps + runtimes) - runtimes
        spans["end_us"][of] = spans["begin_us"][of] + runtimes
    spans["longest_us"] = spans["end_us"] - spans["begin_us"]
    spans["function"] = chance.integers(0, 5, CALLS)
    spans["row"] = np.arange(CALLS)
    spans["flags"] = np.where(np.arange(CALLS) % 500 == 0, ANOMALY | RECORDED, 0)
    return spans, threads


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> SpanIndex:
    """Of the calls."""
    files = IndexFiles(tmp_path_factory.mktemp("index") / "timelines", 0, 3)
    spans, threads = made_calls()
    order = np.random.default_rng(1).permutation(CALLS)
    rows = rows_of(spans[order], threads[order], np.zeros(CALLS, np.int32))
    links = np.zeros(50, LINK)
    links["time_us"], links["other_us"] = START_US + 100 * np.arange(50), UNKNOWN
    links["kind"], links["count"] = SEND, 1
    interval = int(spans["begin_us"].min()), int(spans["end_us"].max())
    gaps = [(START_US + 1000, START_US + 2000)]
    header = IndexHeader(VERSION, (1, 2), 40, interval, gaps, list("abcde"), [1], [], CALLS)
    return SpanIndex(files, write_index(files, header, rows, numbered(links)))


@pytest.mark.parametrize("level", [0, 3, 6, 9, 14, 20])
@pytest.mark.parametrize(("first", "length"), [(0, 2_000_000), (12_345, 40_000), (200_000, 3), (-50, 10)])
def test_a_range_is_what_the_calls_say(index: SpanIndex, level: int, first: int, length: int) -> None:
    first_us, last_us = START_US + first, START_US + first + length
    window, shown = index.window(first_us, last_us, level, [])
    assert shown == level
    spans, threads = made_calls()
    found = {row.thread: row.spans for row in window.rows}
    for thread in (0, 1):
        whole = reduced(spans[threads == thread], level)
        expected = whole[(whole["end_us"] >= first_us) & (whole["begin_us"] <= last_us)]
        assert found.get(thread, whole[:0]).tolist() == expected.tolist()


def test_a_picture_of_all_reads_little(index: SpanIndex) -> None:
    window, _ = index.window(START_US, START_US + 2_000_000, 12, [])
    read = sum(place.end - place.first for place in index.header.rows if place.level == 12)
    assert window.size < 1000 and read < CALLS / 10
    stored = max(place.end for place in index.header.rows)
    assert stored <= 2 * CALLS
    abnormal = sum(int(((row.spans["flags"] & ANOMALY) != 0).sum()) for row in window.rows)
    assert abnormal == CALLS // 500


def test_what_was_lost_is_reported_and_the_rest_is_known(index: SpanIndex) -> None:
    window, _ = index.window(START_US, START_US + 10, 0, [])
    assert window.lost_us == [(START_US + 1000, START_US + 2000)]
    assert window.known_us[0] == [
        (index.header.interval_us[0], START_US + 1000),
        (START_US + 2000, index.header.interval_us[1]),
    ]
    assert window.gpu_threads == [1]
    assert len(window.links) == 1


def test_more_than_an_answer_takes_is_reduced_further(
    index: SpanIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_SPANS > CALLS
    monkeypatch.setattr("chimbuko.provenance.timeline.spans.MOST_SPANS", 3000)
    window, level = index.window(START_US, START_US + 2_000_000, 0, [])
    assert level > 0 and window.size <= 3000


def test_an_index_of_another_version_or_none_is_none(tmp_path: Path) -> None:
    files = IndexFiles(tmp_path, 0, 0)
    assert files.header() is None
    files.path("header").write_text('{"version": 0}')
    assert files.header() is None
    files.path("header").write_text("damaged")
    assert files.header() is None


def test_calls_of_a_row_never_overlap_whatever_a_trace_says() -> None:
    spans = new_spans(3)
    spans["begin_us"], spans["end_us"] = [100, 50, 120], [150, 300, 130]
    (row,) = rows_of(spans, np.zeros(3, np.int32), np.zeros(3, np.int32))
    assert row.spans["begin_us"].tolist() == [50, 100, 120]
    assert row.spans["end_us"].tolist() == [100, 120, 130]


def test_what_a_planted_link_leads_to_is_not_overwritten(tmp_path: Path) -> None:
    files, victim = IndexFiles(tmp_path, 0, 0), tmp_path / "victim"
    victim.write_text("mine")
    for kind in ("spans", "links", "header"):
        (tmp_path / f"0-0.{kind}.{os.getpid()}.new").symlink_to(victim)
    header = IndexHeader(VERSION, (1, 2), 0, (0, 1), [], [], [], [], 0)
    write_index(files, header, [], np.zeros(0, LINK))
    assert victim.read_text() == "mine" and files.header() == header
