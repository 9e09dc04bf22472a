"""The spool: nothing lost up to its limit, whatever is killed or full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.ad.handoff import spool
from chimbuko.ad.handoff.spool import SpoolDelivery, SpoolFrame, SpoolReader, SpoolWriter, remove_acknowledged
from chimbuko.core.calls.record import CallRecord, CounterStatistics, StepCount, StreamHealth
from chimbuko.core.calls.recordarrays import pack
from chimbuko.core.calls.schema import Label
from chimbuko.runtime.protocol.messages import RecordBatch
from tests.places import ROOT
from tests.sample_records import make_record

LIMIT_BYTES = 1 << 30
HEALTH = StreamHealth(0, 1, "node1", "reading", 1, 10, 480, 5, 1, 0, {})
EVERYTHING = 1 << 62


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> int:
    """Segments of a few frames."""
    monkeypatch.setattr(spool, "SEGMENT_BYTES", 4000)
    return 4000


def step_count(step: int) -> StepCount:
    return StepCount(0, 1, step, 1000 * step, 1000 * step + 999, 5, 1, 2.0)


def abnormal(row: int, severity_us: float, function: str = "solve") -> CallRecord:
    return make_record(row, severity_us=severity_us, function=function, revision=1)


def append(writer: SpoolWriter, step: int, *severities_us: float) -> None:
    records = [abnormal(100 * step + row, us) for row, us in enumerate(severities_us)]
    writer.append(SpoolFrame(pack(records), [step_count(step)], [], HEALTH))


def batches(frames: list[tuple[int, bytes]]) -> list[RecordBatch]:
    return [msgspec.msgpack.decode(frame, type=RecordBatch) for _, frame in frames]


def severities(batch: RecordBatch) -> list[float]:
    us: list[float] = batch.records.head_rows().severity_us.tolist()
    return us


def everything(folder: Path) -> list[RecordBatch]:
    return batches(SpoolReader(folder).read(EVERYTHING))


def size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.spool"))


def test_frames_come_in_order_and_once(tmp_path: Path, small_segments: int) -> None:
    writer, reader = SpoolWriter(tmp_path, "0:1", LIMIT_BYTES), SpoolReader(tmp_path)
    received: list[RecordBatch] = []
    for step in range(60):
        append(writer, step, 5.0)
        if step % 7 == 0:
            received += batches(reader.read(2000))
    received += batches(reader.read(EVERYTHING))
    assert reader.is_drained and reader.read(EVERYTHING) == []
    assert [batch.sequence for batch in received] == list(range(1, 61))
    assert [batch.steps[0].step for batch in received] == list(range(60))
    assert len(list(tmp_path.glob("*.spool"))) > 5


def test_a_read_ends_when_it_exceeds_what_was_asked_for(tmp_path: Path) -> None:
    writer, reader = SpoolWriter(tmp_path, "0:1", LIMIT_BYTES), SpoolReader(tmp_path)
    for step in range(5):
        append(writer, step, 5.0)
    assert [sequence for sequence, _ in reader.read(1)] == [1]
    rest = reader.read(EVERYTHING)
    assert rest[-1][0] == 5


def test_rewinding_gives_again_what_was_not_acknowledged(tmp_path: Path, small_segments: int) -> None:
    writer, reader = SpoolWriter(tmp_path, "0:1", LIMIT_BYTES), SpoolReader(tmp_path)
    for step in range(30):
        append(writer, step, 5.0)
    reader.read(EVERYTHING)
    reader.rewind(12)
    assert not reader.is_drained
    assert [sequence for sequence, _ in reader.read(EVERYTHING)] == list(range(13, 31))


def test_acknowledged_segments_are_removed_and_nothing_else(tmp_path: Path, small_segments: int) -> None:
    writer = SpoolWriter(tmp_path, "0:1", LIMIT_BYTES)
    for step in range(60):
        append(writer, step, 5.0)
    before = len(list(tmp_path.glob("*.spool")))
    remove_acknowledged(tmp_path, 30)
    left = everything(tmp_path)
    assert len(list(tmp_path.glob("*.spool"))) < before
    assert left[0].sequence <= 31 and left[-1].sequence == 60
    remove_acknowledged(tmp_path, 60)
    assert len(list(tmp_path.glob("*.spool"))) == 1
    append(writer, 60, 5.0)
    assert everything(tmp_path)[-1].sequence == 61


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 400))
def test_a_torn_frame_is_cut_off_and_its_number_used_again(
    tmp_path_factory: pytest.TempPathFactory, torn_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    writer = SpoolWriter(folder, "0:1", LIMIT_BYTES)
    for step in range(3):
        append(writer, step, 5.0)
    (segment,) = folder.glob("*.spool")
    os.truncate(segment, segment.stat().st_size - torn_bytes)
    assert [batch.sequence for batch in everything(folder)] == [1, 2]
    append(SpoolWriter(folder, "0:1", LIMIT_BYTES), 3, 5.0)
    assert [(batch.sequence, batch.steps[0].step) for batch in everything(folder)] == [(1, 0), (2, 1), (3, 3)]


def test_a_segment_torn_in_its_first_frame_hides_nothing(tmp_path: Path, small_segments: int) -> None:
    """All before it may be acknowledged and gone: only its name still gives the sequence."""
    writer = SpoolWriter(tmp_path, "0:1", LIMIT_BYTES)
    for step in range(20):
        append(writer, step, 5.0)
    last = max(tmp_path.glob("*.spool"))
    first_in_last = int(last.stem)
    os.truncate(last, 20)
    reader = SpoolReader(tmp_path)
    assert reader.read(EVERYTHING)[-1][0] == first_in_last - 1
    remove_acknowledged(tmp_path, first_in_last - 1)
    assert list(tmp_path.glob("*.spool")) == [last]
    append(SpoolWriter(tmp_path, "0:1", LIMIT_BYTES), 99, 5.0)
    (batch,) = batches(reader.read(EVERYTHING))
    assert (batch.sequence, batch.steps[0].step) == (first_in_last, 99)


WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from tests.ad.handoff.test_spool import append
from chimbuko.ad.handoff.spool import SpoolWriter
writer = SpoolWriter(Path(sys.argv[1]), "0:1", 1 << 40)
step = int(sys.argv[2])
print("writing", flush=True)
while True:
    append(writer, step, *([5.0] * 20))
    step += 1
"""


def test_a_killed_writer_loses_at_most_the_frame_it_wrote(tmp_path: Path) -> None:
    """Killed twice while it writes as fast as it can; a third goes on. The reader watches meanwhile."""
    reader = SpoolReader(tmp_path)
    received: list[int] = []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITE_UNTIL_KILLED, str(tmp_path), str(len(received))],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert process.stdout is not None and process.stdout.readline() == b"writing\n"
        wanted = len(received) + 50
        while len(received) < wanted:
            received += [sequence for sequence, _ in reader.read(1 << 16)]
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        received += [sequence for sequence, _ in reader.read(EVERYTHING)]
    append(SpoolWriter(tmp_path, "0:1", LIMIT_BYTES), 0, 5.0)
    received += [sequence for sequence, _ in reader.read(EVERYTHING)]
    assert received == list(range(1, received[-1] + 1))


def fill(folder: Path, severities_us: Iterator[float], steps: int, limit_bytes: int) -> SpoolWriter:
    writer = SpoolWriter(folder, "0:1", limit_bytes)
    for step, severity_us in zip(range(steps), severities_us, strict=False):
        append(writer, step, severity_us)
    return writer


def kept(folder: Path) -> list[float]:
    return [us for batch in everything(folder) for us in severities(batch)]


def test_at_its_limit_the_spool_keeps_the_most_severe_and_counts_the_others(
    tmp_path: Path, small_segments: int
) -> None:
    limit_bytes = 20 * small_segments
    severities_us = [float(7919 * step % 1000) for step in range(400)]
    writer = fill(tmp_path, iter(severities_us), 400, limit_bytes)
    remaining = kept(tmp_path)
    # While over the limit one segment is compacted per call, so a few more may have come in.
    assert size_bytes(tmp_path) < 1.5 * limit_bytes
    assert writer.dropped == {"solve": 400 - len(remaining)}
    assert everything(tmp_path)[-1].dropped["solve"] > 0
    assert sum(batch.steps[0].step for batch in everything(tmp_path)) == sum(range(400))
    # Of the early ones, where the limit was applied longest, only severe ones are left.
    early = [us for b in everything(tmp_path) if b.steps[0].step < 50 for us in severities(b)]
    assert max(severities_us[:50]) in early
    assert sum(early) / len(early) > sum(severities_us[:50]) / 50


def test_the_limit_holds_where_all_are_equally_severe(tmp_path: Path, small_segments: int) -> None:
    limit_bytes = 10 * small_segments
    writer = fill(tmp_path, iter([5.0] * 300), 300, limit_bytes)
    assert size_bytes(tmp_path) < 1.5 * limit_bytes
    assert writer.dropped == {"solve": 300 - len(kept(tmp_path))}


def test_what_was_dropped_is_known_to_a_successor(tmp_path: Path, small_segments: int) -> None:
    """The count is since the stream began, not since its last process did."""
    writer = fill(tmp_path, iter([5.0] * 300), 300, 10 * small_segments)
    append(writer, 300, 5.0)
    successor = SpoolWriter(tmp_path, "0:1", 10 * small_segments)
    assert successor.dropped == Counter(everything(tmp_path)[-1].dropped)
    assert successor.dropped["solve"] > 0


def test_only_anomalies_are_counted_and_each_once(tmp_path: Path, small_segments: int) -> None:
    writer = SpoolWriter(tmp_path, "0:1", 6 * small_segments)
    for step in range(200):
        one = abnormal(step, 5.0)
        normal = make_record(1000 + step, severity_us=0.0, revision=1, label=Label.NORMAL)
        again = msgspec.structs.replace(one, revision=2)
        writer.append(SpoolFrame(pack([one, normal, again]), [step_count(step)], [], HEALTH))
    heads = np.concatenate([batch.records.head_rows() for batch in everything(tmp_path)])
    first = int(((heads["revision"] == 1) & (heads["severity_us"] > 0)).sum())
    assert writer.dropped == {"solve": 200 - first}


def test_a_reader_is_not_confused_by_compaction(tmp_path: Path, small_segments: int) -> None:
    """Segments are replaced under it: it still gets each step once, in order."""
    writer, reader = SpoolWriter(tmp_path, "0:1", 8 * small_segments), SpoolReader(tmp_path)
    steps: list[int] = []
    for step in range(300):
        append(writer, step, float(step % 37))
        if step % 5 == 0:
            steps += [b.steps[0].step for b in batches(reader.read(600))]
    steps += [b.steps[0].step for b in batches(reader.read(EVERYTHING))]
    assert steps == list(range(300))


def test_statistics_of_counters_go_with_the_frame_in_which_they_are_due(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, "0:1", LIMIT_BYTES)
    statistics = [CounterStatistics("heap", 3.0, 2.0, 2.0, 0.0, 2.0, 1.0, 3.0)]
    append(writer, 0, 5.0)
    writer.append(SpoolFrame(pack([]), [step_count(1)], [], HEALTH, statistics))
    append(writer, 2, 5.0)
    assert [batch.counter_statistics for batch in everything(tmp_path)] == [[], statistics, []]


def test_what_a_stream_left_out_is_counted_with_what_the_spool_dropped(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, "0:1", LIMIT_BYTES)
    for step in range(3):
        left_out = {"solve": step + 1, "norm": 2}
        writer.append(SpoolFrame(pack([]), [step_count(step)], [], HEALTH, left_out=left_out))
    assert everything(tmp_path)[-1].dropped == {"solve": 6, "norm": 6}
    successor = SpoolWriter(tmp_path, "0:1", LIMIT_BYTES)
    successor.append(SpoolFrame(pack([]), [], [], HEALTH, left_out={"solve": 1}))
    assert everything(tmp_path)[-1].dropped == {"solve": 7, "norm": 6}


def test_the_number_of_the_next_frame_reports_whether_one_was_written(
    tmp_path: Path, small_segments: int
) -> None:
    """A checkpoint goes by it; so it must be right whatever was acknowledged, removed or torn."""
    writer = SpoolWriter(tmp_path, "0:1", LIMIT_BYTES)
    for step in range(40):
        assert writer.next_sequence == step + 1
        append(writer, step, 5.0)
        assert SpoolWriter(tmp_path, "0:1", LIMIT_BYTES).next_sequence == step + 2
        if step % 7 == 0:
            remove_acknowledged(tmp_path, step + 1)
            assert SpoolWriter(tmp_path, "0:1", LIMIT_BYTES).next_sequence == step + 2
    last = max(tmp_path.glob("*.spool"))
    os.truncate(last, last.stat().st_size - 1)
    assert SpoolWriter(tmp_path, "0:1", LIMIT_BYTES).next_sequence == 40


def test_two_writers_of_one_spool_lose_nothing(tmp_path: Path) -> None:
    """One is the agent, that gives the stream up; its process is only asked to end, and ends in order."""
    process = SpoolWriter(tmp_path, "0:1", LIMIT_BYTES)
    append(process, 0, 5.0)
    agent = SpoolWriter(tmp_path, "0:1", LIMIT_BYTES)
    agent.append(SpoolFrame(pack([]), [], [], msgspec.structs.replace(HEALTH, state="lost")))
    append(process, 1, 5.0)
    reader = SpoolReader(tmp_path)
    assert [step.step for batch in batches(reader.read(EVERYTHING)) for step in batch.steps] == [0, 1]


def test_leftovers_of_a_killed_compaction_are_removed(tmp_path: Path) -> None:
    append(SpoolWriter(tmp_path, "0:1", LIMIT_BYTES), 0, 5.0)
    (tmp_path / "0000000000000001.tmp").write_bytes(b"half")
    SpoolWriter(tmp_path, "0:1", LIMIT_BYTES)
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".spool"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "chimbuko-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a full disk needs the right to mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_costs_findings_but_no_step_and_no_frame(small_disk: Path) -> None:
    """What does not fit waits in memory, and nothing written before is damaged."""
    writer, reader = SpoolWriter(small_disk / "spool", "0:1", LIMIT_BYTES), SpoolReader(small_disk / "spool")
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 45_000)
    for step in range(40):
        append(writer, step, *[5.0] * 2)
    written = batches(reader.read(EVERYTHING))
    assert 0 < len(written) < 40
    assert (writer.has_room, writer.dropped) == (False, {})
    ballast.unlink()
    append(writer, 40, 5.0)
    late = batches(reader.read(EVERYTHING))
    assert (writer.has_room, late[-1].dropped) == (True, {})
    assert [s.step for b in [*written, *late] for s in b.steps] == list(range(41))
    assert sum(batch.records.count for batch in [*written, *late]) == 81


def test_of_what_waits_for_room_the_severe_half_stays_and_the_rest_is_counted(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "MOST_HELD_BYTES", 20_000)
    monkeypatch.setattr(spool, "MOST_OWED_STEPS", 10)
    ballast = small_disk / "ballast"
    with suppress(OSError):
        ballast.write_bytes(b"x" * 65536)
    writer, reader = SpoolWriter(small_disk / "spool", "0:1", LIMIT_BYTES), SpoolReader(small_disk / "spool")
    for step in range(200):
        append(writer, step, float(step))
    assert writer.lost_records == writer.dropped["solve"] > 0
    assert writer.lost_steps == 190
    ballast.unlink()
    append(writer, 200, 1.0)
    (late,) = batches(reader.read(EVERYTHING))
    assert late.records.count + writer.lost_records == 201
    assert [step.step for step in late.steps] == list(range(190, 201))
    severities_us = late.records.head_rows().severity_us
    assert severities_us.max() == 199.0


def test_what_is_acknowledged_is_removed_without_room_for_a_lock(small_disk: Path) -> None:
    folder = small_disk / "spool"
    writer = SpoolWriter(folder, "0:1", LIMIT_BYTES)
    append(writer, 0, 5.0)
    (folder / "0000000000000002.spool").touch()
    with suppress(OSError):
        (small_disk / "ballast").write_bytes(b"x" * 65536)
    remove_acknowledged(folder, 1)
    assert [path.name for path in folder.iterdir()] == ["0000000000000002.spool"]


def test_a_full_disk_does_not_stop_a_spool_at_its_limit(small_disk: Path, small_segments: int) -> None:
    """There is no room to write a smaller segment beside the larger one."""
    folder = small_disk / "spool"
    writer = SpoolWriter(folder, "0:1", 5 * small_segments)
    (small_disk / "ballast").write_bytes(b"x" * (65536 - 6 * 4096))
    for step in range(60):
        append(writer, step, float(step))
    left = everything(folder)
    records = sum(batch.records.count for batch in left)
    writer.give_up_held()
    assert writer.dropped == {"solve": 60 - records}
    assert [b.sequence for b in left] == list(range(1, len(left) + 1))


actions = st.lists(st.sampled_from(("write", "send", "arrive", "lose")), max_size=30)


@settings(max_examples=40, deadline=None)
@given(actions, st.integers(1, 20_000))
def test_every_frame_arrives_in_order_whatever_is_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], room: int
) -> None:
    folder = tmp_path_factory.mktemp("delivery") / "spool"
    writer, delivery = SpoolWriter(folder, "0:1", 1 << 24), SpoolDelivery("0:1", folder)
    written = arrived = 0
    on_the_way: list[int] = []

    def send() -> None:
        on_the_way.extend(sequence for sequence, _ in delivery.take(room))

    def arrive() -> None:
        nonlocal arrived
        if on_the_way:
            first = on_the_way.pop(0)
            assert first <= arrived + 1, "a frame was skipped"
            arrived = max(arrived, first)
            delivery.arrived(arrived)

    for step in steps:
        if step == "write":
            writer.append(SpoolFrame(pack([make_record(written)]), [], [], HEALTH))
            written += 1
        elif step == "send":
            send()
        elif step == "arrive":
            arrive()
        else:
            on_the_way.clear()
            delivery.send_again()
        assert delivery.is_waiting == (delivery.in_flight_bytes > 0)
    for _ in range(2 * written + 1):
        send()
        arrive()
    assert delivery.is_delivered
    assert (arrived, delivery.acknowledged) == (written, written)
    assert delivery.in_flight_bytes == 0


def test_little_room_is_enough_to_go_on_after_a_loss(tmp_path: Path) -> None:
    """What the store has already takes none of it, however much of it stands before the rest."""
    writer, delivery = SpoolWriter(tmp_path, "0:1", 1 << 24), SpoolDelivery("0:1", tmp_path)
    for number in range(5):
        writer.append(SpoolFrame(pack([make_record(number)]), [], [], HEALTH))
    assert len(delivery.take(1 << 20)) == 5
    delivery.arrived(3)
    delivery.send_again()
    assert [[sequence for sequence, _ in delivery.take(1)] for _ in range(3)] == [[4], [5], []]
    delivery.arrived(5)
    assert delivery.is_delivered
    delivery.send_again()
    assert delivery.is_delivered and delivery.take(1) == []
