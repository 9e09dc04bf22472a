"""A text comes apart into the same events however it comes, whole or not."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.capture.formats.readers.jsontext import JsonText
from chimbuko.core.kernels.jsonobjects import ENDED, NEXT, PROGRESS_CELLS, find_objects
from tests.reference.jsonobjects import objects

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(['"', "\\", "]}", "{["]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), max_size=12)


def taken(text: bytes, cuts: list[int]) -> tuple[JsonText, list[Any]]:
    """What comes out of a text that comes in pieces."""
    reader = JsonText()
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    found = []
    for begin, end in itertools.pairwise(places):
        found += reader.feed(text[begin:end])
    reader.finish()
    return reader, [json.loads(one) for one in found]


@given(EVENTS, st.lists(st.integers(0, 10_000), max_size=5), st.sampled_from((None, 1)))
def test_array(events: list[Any], cuts: list[int], indent: int | None) -> None:
    reader, found = taken(json.dumps(events, indent=indent).encode(), cuts)
    assert found == events
    assert reader.is_whole and not reader.complaint and not reader.stray


@given(
    EVENTS,
    st.dictionaries(st.text(max_size=4), VALUES, max_size=3),
    st.lists(st.integers(0, 10_000), max_size=5),
)
def test_object(events: list[Any], beside: dict[str, Any], cuts: list[int]) -> None:
    for key in ("first", "last", "traceEvents"):
        beside.pop(key, None)
    reader, found = taken(
        json.dumps({"first": 1, **beside, "traceEvents": events, "last": [2]}).encode(), cuts
    )
    assert found == events
    assert reader.beside == {"first": 1} | beside | {"last": [2]}
    assert reader.is_whole and not reader.complaint


@given(EVENTS.filter(len), st.lists(st.integers(0, 10_000), max_size=5))
def test_events_without_an_array(events: list[Any], cuts: list[int]) -> None:
    events = [{"ph": "X"} | event for event in events]
    reader, found = taken("\n".join(map(json.dumps, events)).encode(), cuts)
    assert found == events
    assert reader.has_events and not reader.complaint and not reader.stray


@given(EVENTS, st.integers(0, 10_000), st.booleans())
def test_what_comes_before_the_end_is_taken(events: list[Any], cut: int, is_object: bool) -> None:
    """A text that is cut off anywhere gives the events that were complete."""
    text = json.dumps({"traceEvents": events} if is_object else events).encode()
    text = text[: cut % len(text)]
    _, found = taken(text, [])
    begin = text.find(b"[") + 1
    expected = [json.loads(one) for one in objects(text[begin:])[0]] if begin else []
    assert found == expected


@given(st.binary(max_size=60), st.lists(st.integers(0, 100), max_size=3))
def test_no_bytes_do_harm(text: bytes, cuts: list[int]) -> None:
    for head in (b"", b"[", b'{"traceEvents": [', b"{"):
        reader = JsonText()
        places = sorted({0, len(head + text), *(cut % (len(head + text) + 1) for cut in cuts)})
        for begin, end in itertools.pairwise(places):
            reader.feed((head + text)[begin:end])
        reader.finish()


@given(st.text('{}[]",\\ a1', max_size=40))
def test_kernel_is_its_reference(text: str) -> None:
    encoded = text.encode()
    bounds, progress = np.empty((64, 2), np.int64), np.zeros(PROGRESS_CELLS, np.int64)
    find_objects(np.frombuffer(encoded, np.uint8), bounds, progress)
    found = [encoded[begin:end] for begin, end in bounds[: progress[0]]]
    expected, has_ended = objects(encoded)
    assert found == expected
    assert bool(progress[ENDED]) == has_ended
    assert progress[NEXT] <= len(encoded)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "there is nothing in it"),
        (b"   ", "there is nothing in it"),
        (b"hello", "it begins with b'hello', which is no trace in JSON"),
        (b'[{"a": 1}, {"b"', "it ends within what begins at byte 11"),
        (b'[{"a": 1},\n', ""),
        (b'{"traceEvents": [{"a": 1}\n', ""),
        (b"{5}", "at byte 1 there should be the name of a value"),
        (b"[] []", "at byte 3 there is more, behind its end"),
        (b'{"a" 5}', "at byte 5 there should be a colon"),
    ],
)
def test_complaints(text: bytes, complaint: str) -> None:
    reader, _ = taken(text, [])
    assert reader.complaint == complaint
