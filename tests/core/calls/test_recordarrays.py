"""Records as arrays and as values are the same records."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.calls.record import (
    CallRecord,
    Collective,
    CounterValue,
    Message,
    StackFrame,
    StreamHealth,
    WindowCall,
)
from chimbuko.core.calls.recordarrays import PackedRecords, pack, unpack
from chimbuko.core.calls.schema import Label
from tests.plainpython import examples
from tests.sample_records import make_record

PROGRAM, RANK = 2, 5
DETECTOR = "sstd"
HEALTH = StreamHealth(PROGRAM, RANK, "node7", "reading", 1, 1, 1, 1, 1, 0, {})
EXAMPLES = examples(60)

names = st.sampled_from(("main", "größe [{a.c} {1,0}]", "MPI_Send()", ""))
times = st.integers(0, (1 << 64) - 1)
ids = st.builds(
    "{}:{}:{}:{}".format, st.just(PROGRAM), st.just(RANK), st.integers(0, 1 << 30), st.integers(0, 1 << 30)
)
frames = st.lists(st.builds(StackFrame, ids, names, times, times, st.booleans()), max_size=3)
values = st.lists(st.builds(CounterValue, names, times, times, st.just("") | ids), max_size=3)
notes = st.integers(0, 1 << 30), st.just(0) | st.integers(0, 1 << 30)
"""Communicator and number."""
messages = st.lists(
    st.one_of(
        st.builds(Message, st.just("SEND"), st.just(RANK), times, times, times, times, ids, *notes),
        st.builds(Message, st.just("RECV"), times, st.just(RANK), times, times, times, ids, *notes),
    ),
    max_size=3,
)
calls = st.builds(WindowCall, ids, names, times, times, st.just("") | ids, st.integers(0, 99), st.booleans())
collectives = st.lists(st.builds(Collective, *notes, times, times, times, ids), max_size=2)
records = st.builds(
    make_record,
    id=ids,
    detector=st.just(DETECTOR),
    program=st.just(PROGRAM),
    rank=st.just(RANK),
    function=names,
    label=st.sampled_from(Label),
    revision=st.integers(0, 255),
    is_final=st.booleans(),
    is_gpu=st.booleans(),
    entry_us=st.integers(0, 99),
    exit_us=st.integers(99, (1 << 64) - 1),
    severity_us=st.floats(0, 1e9),
    call_stack=frames,
    window=st.lists(calls, max_size=4),
    messages=messages,
    counters=values,
    metrics=values,
    node_state=values,
    launch_id=st.just("") | ids,
    launch_stack=frames,
    collectives=collectives,
    launch_thread=st.integers(-1, 1 << 16),
)


@EXAMPLES
@given(st.lists(records, max_size=5))
def test_records_come_back_as_they_were(made: list[CallRecord]) -> None:
    packed = pack(made)
    assert packed.count == len(made)
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(packed), type=PackedRecords)
    assert unpack(sent, HEALTH, DETECTOR) == made


@EXAMPLES
@given(st.lists(st.tuples(records, st.booleans()), max_size=5))
def test_some_of_the_records_are_those_and_no_others(made: list[tuple[CallRecord, bool]]) -> None:
    packed = pack([record for record, _ in made])
    some = packed.only(np.array([is_wanted for _, is_wanted in made], np.bool_))
    wanted = [record for record, is_wanted in made if is_wanted]
    assert unpack(some, HEALTH, DETECTOR) == wanted
    assert set(some.functions.values()) == set(pack(wanted).functions.values())
    assert set(some.counter_names.values()) == set(pack(wanted).counter_names.values())
