"""The slow and obvious twin of the kernel that packs the details of a call: out of values, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from chimbuko.core.calls.record import CallRecord, CounterValue, StackFrame, WindowCall

NO_PLACE = (-1, -1)


def packed_details(record: CallRecord, functions: Mapping[str, int], texts: Mapping[str, int]) -> bytes:
    """The bytes that ``chimbuko.provenance.store.decode.read_details`` reads."""
    lists = (
        record.call_stack,
        record.window,
        record.messages,
        record.counters,
        record.metrics,
        record.launch_stack,
    )
    numbers = [len(values) for values in lists]
    numbers[2] += len(record.collectives)
    numbers += stack_numbers(record, record.call_stack, functions)
    numbers += window_numbers(record, functions)
    time_us = record.entry_us
    for message in record.messages:
        is_send = message.kind == "SEND"
        partner = message.destination if is_send else message.source
        found, place = owner_numbers(record, message.call_id)
        numbers += [folded(message.time_us - time_us), message.size_bytes, partner, message.tag]
        numbers += [2 * found + is_send, *place]
        time_us = message.time_us
    for one in record.collectives:
        found, place = owner_numbers(record, one.call_id)
        numbers += [folded(one.time_us - time_us), one.size_bytes, one.root, 0, 2 * found, *place]
        time_us = one.time_us
    numbers += counter_numbers(record, record.counters, texts)
    numbers += counter_numbers(record, record.metrics, texts)
    numbers += stack_numbers(record, record.launch_stack, functions)
    numbers += known_numbers(record)
    return seven_bits_a_byte(numbers)


def known_numbers(record: CallRecord) -> list[int]:
    notes = [(message.communicator, message.number, 0) for message in record.messages]
    notes += [(one.communicator, one.number, 1) for one in record.collectives]
    numbers = []
    before = 0
    for communicator, number, is_collective in notes if any(map(any, notes)) else ():
        numbers += [4 * number + 2 * is_collective + (communicator != before)]
        numbers += [communicator] if communicator != before else []
        before = communicator
    return numbers


def packed_node_state(values: Sequence[CounterValue], texts: Mapping[str, int]) -> bytes:
    """The bytes that ``chimbuko.provenance.store.decode.read_node_state`` reads."""
    numbers = [len(values)]
    time_us = 0
    for value in values:
        numbers += [folded(value.time_us - time_us), value.value, texts[value.counter]]
        time_us = value.time_us
    return seven_bits_a_byte(numbers)


def stack_numbers(
    record: CallRecord, frames: Sequence[StackFrame], functions: Mapping[str, int]
) -> list[int]:
    numbers = []
    before = (record.entry_us, *place_of(record.id))
    for frame in frames:
        numbers += call_numbers(record, frame, before, functions)
        before = (frame.entry_us, *place_of(frame.id))
    return numbers


def window_numbers(record: CallRecord, functions: Mapping[str, int]) -> list[int]:
    numbers = []
    before = (record.entry_us, *place_of(record.id))
    own_step, own_row = place_of(record.id)
    for i, call in enumerate(record.window):
        numbers += call_numbers(record, call, before, functions)
        numbers += [folded(call.depth - record.depth)]
        others = [other.id for other in reversed(record.window[:i])] + [f.id for f in record.call_stack]
        if call.parent_id in others:
            numbers += [others.index(call.parent_id) + 1]
        else:
            step, row = place_of(call.parent_id)
            numbers += [0, folded(step - own_step), folded(row - own_row)]
        before = (call.entry_us, *place_of(call.id))
    return numbers


def call_numbers(
    record: CallRecord,
    call: StackFrame | WindowCall,
    before: tuple[int, int, int],
    functions: Mapping[str, int],
) -> list[int]:
    entry_us, step, row = before
    own_step, own_row = place_of(call.id)
    runtime = (call.exit_us - call.entry_us + 1) % (1 << 63) if call.exit_us else 0
    numbers = [folded(call.entry_us - entry_us), 2 * runtime + call.is_anomaly]
    numbers += [2 * folded(own_row - row) + (own_step != step)]
    if own_step != step:
        numbers += [folded(own_step - step)]
    return [*numbers, folded(functions[call.function] - functions[record.function])]


def counter_numbers(
    record: CallRecord, values: Sequence[CounterValue], texts: Mapping[str, int]
) -> list[int]:
    numbers = []
    time_us = record.entry_us
    for value in values:
        found, place = owner_numbers(record, value.call_id)
        numbers += [folded(value.time_us - time_us), value.value, texts[value.counter], found, *place]
        time_us = value.time_us
    return numbers


def owner_numbers(record: CallRecord, call_id: str) -> tuple[int, list[int]]:
    members = [call.id for call in record.window]
    if call_id in members:
        return members.index(call_id) + 1, []
    own_step, own_row = place_of(record.id)
    step, row = place_of(call_id)
    return 0, [folded(step - own_step), folded(row - own_row)]


def place_of(call_id: str) -> tuple[int, int]:
    if not call_id:
        return NO_PLACE
    _, _, step, row = call_id.split(":")
    return int(step), int(row)


def folded(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def seven_bits_a_byte(numbers: Iterable[int]) -> bytes:
    written = bytearray()
    for number in numbers:
        while number >= 128:
            written.append(number % 128 + 128)
            number //= 128
        written.append(number)
    return bytes(written)
