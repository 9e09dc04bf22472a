"""Ends of messages in what is stored: they are taken for one only where nothing can have been between."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimbuko.core.calls.record import CallRecord, Message, StackFrame, WindowCall, call_id
from chimbuko.core.config import AnalysisConfig
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.timeline.storedspans import stored_window
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RunStatistics
from chimbuko.runtime.runs.directory import new_run
from tests.sample_records import make_batches, make_record


def end(rank: int, kind: str, begin: int, finish: int, time: int) -> CallRecord:
    """A call of a rank in which rank 0 sends to rank 1, with nothing around it."""
    event = call_id(0, rank, 3, 8)
    return make_record(
        row=8,
        rank=rank,
        entry_us=begin,
        exit_us=finish,
        depth=0,
        call_stack=[StackFrame(event, "exchange", begin, finish, True)],
        window=[WindowCall(event, "exchange", begin, finish, "", 0, True)],
        function="exchange",
        messages=[Message(kind, 0, 1, 5, 64, time, event)],
    )


def stored(folder: Path, *records: CallRecord) -> Provenance:
    """A run with these records."""
    run = new_run(folder, ["./heat"], AnalysisConfig(), None)
    info = run.read_info()
    engine = open_for_writing(info.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    writer.write_statistics(RunStatistics({0: "heat"}))
    writer.write(make_batches(records))
    engine.dispose()
    return open_run(run)


@pytest.mark.parametrize(
    ("sender", "receiver", "is_one"),
    [
        ((1_000, 2_000, 1_500), (1_400, 2_500, 1_800), True),
        # The receiver is known from after the send on only.
        ((1_000, 2_000, 1_500), (1_700, 2_500, 1_800), False),
        # The sender is not known any more when it is received.
        ((1_000, 1_600, 1_500), (1_400, 2_500, 1_800), False),
        # It would have been received before it was sent.
        ((1_000, 2_000, 1_900), (1_400, 2_500, 1_800), False),
    ],
)
def test_two_ends_are_one_message_where_both_ranks_are_known_all_the_time(
    tmp_path: Path, sender: tuple[int, int, int], receiver: tuple[int, int, int], is_one: bool
) -> None:
    send, receive = end(0, "SEND", *sender), end(1, "RECV", *receiver)
    with stored(tmp_path / "heat", send, receive) as provenance:
        for rank, own, other in ((0, sender, receiver), (1, receiver, sender)):
            window, _ = stored_window(provenance, (0, rank), 0, 10_000, 0, [(0, 1 - rank)])
            (link,) = window.links
            assert link["time_us"] == own[2] and link["other_rank"] == 1 - rank
            assert link["other_us"] == (other[2] if is_one else -1)
            assert link["depth"] == 0


def test_without_its_partner_an_end_is_alone(tmp_path: Path) -> None:
    send, receive = end(0, "SEND", 1_000, 2_000, 1_500), end(1, "RECV", 1_400, 2_500, 1_800)
    with stored(tmp_path / "heat", send, receive) as provenance:
        window, _ = stored_window(provenance, (0, 0), 0, 10_000, 0, [])
        assert window.links["other_us"].tolist() == [-1]
        assert window.known_us == {0: [(1_000, 2_000)]}
