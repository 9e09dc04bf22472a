"""Ends of messages in what is stored: they are taken for one only where nothing can have been between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chimbuko.core.calls.pathtable import PATH_TIME
from chimbuko.core.calls.record import CallRecord, Message, StackFrame, WindowCall, call_id
from chimbuko.core.config import AnalysisConfig
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.timeline.spans import OPEN
from chimbuko.provenance.timeline.storedspans import stored_window
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import PathTimes, RunStatistics, StreamHealth
from chimbuko.runtime.runs.directory import new_run
from tests.sample_records import make_batch, make_batches, make_record


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


def stored(folder: Path, *records: CallRecord, paths: PathTimes | None = None) -> Provenance:
    """A run with these records, and the call paths of rank 0 where that has ended."""
    run = new_run(folder, ["./heat"], AnalysisConfig(), None)
    info = run.read_info()
    engine = open_for_writing(info.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    writer.write_statistics(RunStatistics({0: "heat"}))
    writer.write(make_batches(records))
    if paths is not None:
        health = StreamHealth(0, 0, "node7", "ended", 9, 0, 0, 400, 0, 0, {})
        writer.write([make_batch(9, "0:0", health=health, paths=paths)])
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


@pytest.mark.parametrize("has_ended", [False, True])
def test_the_only_call_of_its_path_ends_where_the_rank_did(tmp_path: Path, has_ended: bool) -> None:
    frames = [
        StackFrame(call_id(0, 0, 3, 8), "sweep", 1_500, 2_000, True),
        StackFrame(call_id(0, 0, 3, 5), "step", 1_400, 0, False),
        StackFrame(call_id(0, 0, 0, 0), "main", 1_000, 0, False),
    ]
    times = {"entry_us": 1_500, "exit_us": 2_000, "depth": 2}
    record = make_record(row=8, rank=0, call_stack=frames, window=[], function="sweep", **times)
    # Of 6 ms, main itself has 1; it has 4 steps, of which each may have ended anywhere.
    rows = np.array([(-1, 0, 1, 1_000.0), (0, 1, 4, 2_000.0), (1, 2, 4, 3_000.0)], PATH_TIME)
    paths = PathTimes(["main", "step", "sweep"], rows.tobytes())
    with stored(tmp_path / "heat", record, paths=paths if has_ended else None) as provenance:
        window, _ = stored_window(provenance, (0, 0), 0, 10_000, 0, [])
    spans = {window.functions[span["function"]]: span for row in window.rows for span in row.spans}
    assert (spans["main"]["end_us"], spans["step"]["end_us"]) == (7_000 if has_ended else 2_000, 2_000)
    assert bool(spans["main"]["flags"] & OPEN) is not has_ended and spans["step"]["flags"] & OPEN
