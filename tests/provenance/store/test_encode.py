"""Details of calls as bytes: the kernel writes what its twin writes, and both can be read again."""

from __future__ import annotations

import msgspec
import pytest
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
from chimbuko.core.calls.recordarrays import PackedRecords, pack
from chimbuko.core.traceschema import MAX_TIME_US
from chimbuko.provenance.store.decode import Names, OwnCall, read_details, read_node_state
from chimbuko.provenance.store.encode import (
    CALL_COLUMNS,
    StoredRecords,
    call_rows,
    node_state_rows,
    store_records,
)
from chimbuko.provenance.store.engine import StoreRefused
from tests.plainpython import examples
from tests.reference.details import packed_details, packed_node_state
from tests.sample_records import make_record

PROGRAM, RANK = 2, 5
HEALTH = StreamHealth(PROGRAM, RANK, "node7", "reading", 1, 1, 1, 1, 1, 0, {})
FUNCTIONS = {name: 7 * i for i, name in enumerate(("main", "größe [{a.c} {1,0}]", "MPI_Send()", ""))}
TEXTS = {name: 100 * i for i, name in enumerate(FUNCTIONS)}
NAMES = Names({n: name for name, n in FUNCTIONS.items()}, {n: text for text, n in TEXTS.items()})
EXAMPLES = examples(60)

names = st.sampled_from(sorted(FUNCTIONS))
times = st.integers(0, MAX_TIME_US - 1)
whole = st.integers(0, (1 << 64) - 1)
few = st.integers(0, 3)
"""So few that calls are often those of the stack or window."""
ids = st.builds(
    "{}:{}:{}:{}".format, st.just(PROGRAM), st.just(RANK), few, few | st.integers(0, (1 << 31) - 1)
)
# An open call ends at 0, and one that ended did so when it was entered or later.
intervals = st.tuples(times, times).map(sorted).map(tuple) | st.tuples(times, st.just(0))
frames = st.builds(
    lambda identity, name, interval, flag: StackFrame(identity, name, interval[0], interval[1], flag),
    *(ids, names, intervals, st.booleans()),
)
calls = st.builds(
    lambda frame, parent, depth: WindowCall(
        frame.id, frame.function, frame.entry_us, frame.exit_us, parent, depth, frame.is_anomaly
    ),
    *(frames, st.just("") | ids, st.integers(0, 99)),
)
values = st.lists(st.builds(CounterValue, names, whole, times, st.just("") | ids), max_size=3)
notes = st.integers(0, 1 << 30), st.just(0) | st.integers(0, 1 << 30)
"""Communicator and number."""
messages = st.one_of(
    st.builds(Message, st.just("SEND"), st.just(RANK), whole, whole, whole, times, ids, *notes),
    st.builds(Message, st.just("RECV"), whole, st.just(RANK), whole, whole, times, ids, *notes),
)
collectives = st.lists(st.builds(Collective, *notes, whole, whole, times, ids), max_size=2)
records = st.builds(
    make_record,
    id=ids,
    program=st.just(PROGRAM),
    rank=st.just(RANK),
    function=names,
    entry_us=st.integers(0, MAX_TIME_US // 2),
    exit_us=st.integers(MAX_TIME_US // 2, MAX_TIME_US - 1),
    depth=st.integers(0, 99),
    call_stack=st.lists(frames, max_size=4),
    window=st.lists(calls, max_size=6),
    messages=st.lists(messages, max_size=3),
    counters=values,
    metrics=values,
    node_state=values.map(lambda values: [msgspec.structs.replace(value, call_id="") for value in values]),
    launch_stack=st.lists(frames, max_size=2),
    collectives=collectives,
)


BARE = {name: [] for name in ("call_stack", "window", "messages", "counters", "metrics", "node_state")}
"""A record that names nothing but its function."""


def stored(packed: PackedRecords) -> StoredRecords:
    return store_records(
        packed,
        {number: FUNCTIONS[name] for number, name in packed.functions.items()},
        {number: TEXTS[name] for number, name in packed.counter_names.items()},
    )


@EXAMPLES
@given(st.lists(records, max_size=4))
def test_the_kernel_writes_what_its_twin_writes(made: list[CallRecord]) -> None:
    written = stored(pack(made))
    assert written.details == [packed_details(record, FUNCTIONS, TEXTS) for record in made]
    assert written.node_states == [packed_node_state(record.node_state, TEXTS) for record in made]


@EXAMPLES
@given(st.lists(records, max_size=4))
def test_what_was_written_is_read_again(made: list[CallRecord]) -> None:
    written = stored(pack(made))
    for record, details, state in zip(made, written.details, written.node_states, strict=True):
        step, row = map(int, record.id.split(":")[2:])
        own = OwnCall(PROGRAM, RANK, step, row, FUNCTIONS[record.function], record.entry_us, record.depth)
        read = read_details(details, own, NAMES)
        assert all(getattr(read, name) == getattr(record, name) for name in read.__struct_fields__)
        assert read_node_state(state, NAMES) == record.node_state


def test_a_usual_neighbour_costs_few_bytes() -> None:
    def record(neighbours: int) -> CallRecord:
        own = make_record(function="main", **BARE)
        window = [
            WindowCall(
                f"0:1:3:{4 * i}", "main", own.entry_us + 90 * i, own.entry_us + 90 * i + 60, own.id, 2, False
            )
            for i in range(1, neighbours + 1)
        ]
        own_window = WindowCall(own.id, "main", own.entry_us, own.exit_us, "", 1, True)
        return msgspec.structs.replace(own, window=[own_window, *window])

    few, many = (len(details) for details in stored(pack([record(1), record(31)])).details)
    assert (many - few) / 30 <= 8


def test_the_rows_of_a_table_are_those_of_the_records() -> None:
    made = [
        make_record(row=1, function="main", **BARE),
        make_record(row=2, function="", exit_us=0, inclusive_us=8_000, exclusive_us=8_000, **BARE),
    ]
    packed = stored(pack(made))
    rows = [dict(zip(CALL_COLUMNS, row, strict=True)) for row in call_rows(3, HEALTH, packed, [5, 6])]
    assert [row["path"] for row in rows] == [5, 6]
    assert [(row["run"], row["program"], row["rank"]) for row in rows] == [(3, PROGRAM, RANK)] * 2
    assert [(row["begin_step"], row["begin_row"]) for row in rows] == [(3, 1), (3, 2)]
    assert [row["function"] for row in rows] == [FUNCTIONS["main"], FUNCTIONS[""]]
    assert [(row["is_open"], row["inclusive_us"]) for row in rows] == [(False, 9_000), (True, 8_000)]


def test_the_node_s_state_is_kept_once_per_step() -> None:
    states = [[CounterValue("main", value, 10, "")] for value in (1, 2, 3)]
    made = [
        make_record(row=row, step=step, **(BARE | {"node_state": state}))
        for row, (step, state) in enumerate(zip((3, 3, 4), states, strict=True))
    ]
    made.append(make_record(row=9, step=5, **BARE))
    named = [msgspec.structs.replace(record, function="main") for record in made]
    rows = node_state_rows(3, HEALTH, stored(pack(named)))
    assert {key: read_node_state(state, NAMES) for key, state in rows.items()} == {
        (3, PROGRAM, RANK, 3): states[1],
        (3, PROGRAM, RANK, 4): states[2],
    }


@pytest.mark.parametrize("damage", ["cut", "rows", "name"])
def test_arrays_that_do_not_fit_together_are_refused(damage: str) -> None:
    packed = pack([make_record(function="main", **BARE)])
    whole = pack([make_record()])
    damaged = {
        "cut": msgspec.structs.replace(packed, heads=packed.heads[:-1]),
        "rows": msgspec.structs.replace(packed, members=whole.members),
        "name": msgspec.structs.replace(packed, functions={}),
    }[damage]
    with pytest.raises(StoreRefused):
        stored(damaged)
