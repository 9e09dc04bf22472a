"""Traces that grow: what comes piece by piece is what is there in the end."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.capture.formats.conversion import Converted, convert
from chimbuko.capture.formats.following import Following, GrowingFile, Held, LiveRanks, without_end
from chimbuko.capture.formats.readers.events import Catalogue, Dropped, Kind, table_of
from chimbuko.capture.formats.readers.jsontext import JsonText
from chimbuko.capture.trace.discovery import find_recorded
from chimbuko.capture.trace.tausettings import WriterSettings
from chimbuko.core.errors import TraceFormatError
from tests.capture.formats.traces import PERIOD_US, calls_of

EVENTS = st.lists(
    st.fixed_dictionaries(
        {"ph": st.just("C"), "name": st.text(max_size=3), "args": st.lists(st.just({"a": [1]}))}
    ),
    max_size=12,
)


@given(EVENTS, st.booleans(), st.lists(st.integers(0, 3), max_size=14))
def test_a_file_that_is_kept_whole_is_read_once(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any], is_object: bool, groups: list[int]
) -> None:
    """As our annotations write it: what closes it is written over by what follows."""
    path = tmp_path_factory.mktemp("growing") / "trace.pfw"
    begin, end = ('{"traceEvents": [\n', "\n]}\n") if is_object else ("[\n", "\n]\n")
    file, reader, found, written = GrowingFile(path), JsonText(), [], 0
    for size in [*groups, len(events)]:
        written = min(written + size, len(events))
        path.write_text(begin + ",\n".join(map(json.dumps, events[:written])) + end)
        while data := file.more():
            found += reader.feed(data)
    while data := file.more(is_all=True):
        found += reader.feed(data)
    reader.finish()
    assert [json.loads(one) for one in found] == events
    assert reader.is_whole and not reader.complaint


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (b'[{"a": 1}\n]\n', b'[{"a": 1}'),
        (b'{"t": [{}\n]}', b'{"t": [{}'),
        (b'[{"a": 1},\n', b'[{"a": 1},'),
        (b'[{"a": {}}', b'[{"a": {}}'),
        (b"", b""),
    ],
)
def test_what_closes_a_file_is_left(text: bytes, kept: bytes) -> None:
    assert without_end(text) == kept


def test_a_file_that_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("[1,2,3,4,5")
    file = GrowingFile(path)
    assert file.more() == b"[1,2,3,4,5"
    path.write_text("[")
    with pytest.raises(TraceFormatError, match="it was written anew"):
        file.more()


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9), st.sampled_from(Kind)), max_size=6))
)
def test_held_events_come_in_order_or_are_counted(parts: list[list[tuple[int, int, Kind]]]) -> None:
    """Times and durations in tenths of a second."""
    catalogue = Catalogue()
    catalogue.track(catalogue.process(0), 0)
    held = Held(catalogue)
    due = []
    for part in parts:
        held.put(table_of([(time * 10**8, value * 10**8, 0, 0, 0, kind) for time, value, kind in part]))
        due.append(held.due()[0])
    events, _ = held.due(is_all=True)
    found = np.concatenate([*due, events])
    assert (np.diff(found["time_ns"]) >= 0).all()
    assert len(found) + catalogue.losses[Dropped.LATE] == sum(map(len, parts))


def test_ranks_stay_what_they_are() -> None:
    catalogue = Catalogue()
    for number, rank in enumerate((None, 0, 5, 5, -1, 1 << 70)):
        catalogue.processes[catalogue.process(number)].rank = rank
    ranks = LiveRanks(catalogue)
    assert [ranks.of(process) for process in (0, 1, 2, 3, 0, 4, 5)] == [0, 1, 5, 2, 0, 3, 4]


def test_what_is_followed_is_what_is_converted(tmp_path: Path) -> None:
    """Two files that grow in turns, of which one comes later and is cut off."""
    texts = []
    for process in (0, 1):
        lines = ["["]
        for call in range(400):
            about = {"name": f"f{call % 3}", "pid": process, "tid": process}
            lines += [
                json.dumps(about | {"ph": phase, "ts": 10**7 * call + after}) + ","
                for phase, after in (("B", process), ("E", 5 * 10**6))
            ]
        texts.append("\n".join(lines))
    texts[1] = texts[1][:-7]
    settings = WriterSettings.from_environment(
        {"TAU_ADIOS2_FILENAME": str(tmp_path / "live" / "tau-metrics")}
    )
    (tmp_path / "live").mkdir()
    with ExitStack() as stack:
        following = Following([str(tmp_path / "*.pfw")], "p", settings, stack)
        for share in range(1, 8):
            for number, text in enumerate(texts[: 1 + (share > 3)]):
                (tmp_path / f"{number}.pfw").write_text(text[: len(text) * share // 7])
            while following.look():
                pass
            following.write()
        following.finish()
    followed = Converted(find_recorded([str(tmp_path / "live" / "*.bp")]))
    expected = convert([tmp_path / f"{n}.pfw" for n in (0, 1)], tmp_path / "whole", "p", PERIOD_US)
    assert calls_of(followed)[:400] == calls_of(expected)[:400]
    assert "it ends within what begins at byte" in following.catalogue.complaints[0]
    # The second one came when the first was beyond it: of that what is not too late is there.
    late = following.catalogue.losses[Dropped.LATE]
    assert 0 < late < 800
    assert len(calls_of(followed)) < 800
