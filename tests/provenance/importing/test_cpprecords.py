"""One record of theirs, whatever its version leaves out, becomes one of ours, or is refused with a reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from chimbuko.core.calls.record import CounterValue, Message, Metadata
from chimbuko.core.calls.recordarrays import UNKNOWN_THREAD
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.importing.cpprecords import ForeignCall, call_of, metadata_of

STATISTICS = {"count": 101, "mean": 100.0, "stddev": 10.0, "minimum": 80.0, "maximum": 140.0}


def theirs(**changes: Any) -> dict[str, Any]:
    """A record with no more than every version has."""
    usual = {
        **{"rid": 3, "tid": 0, "event_id": "3:2:40", "fid": 9, "func": "solve", "io_step": 2},
        **{"entry": 5_000, "exit": 5_400, "runtime_total": 400, "runtime_exclusive": 150},
    }
    return usual | changes


def frame(index: int, entry: int, exit_us: int, **more: Any) -> dict[str, Any]:
    return {
        "event_id": f"3:2:{index}",
        "func": f"f{index}",
        "entry": entry,
        "exit": exit_us,
        "fid": 1,
        **more,
    }


def read(**changes: Any) -> ForeignCall:
    return call_of(theirs(**changes), Label.ANOMALY)


def test_what_version_1_does_not_report_follows_from_its_statistics_of_total_runtimes() -> None:
    call = read(func_stats=STATISTICS)
    record = call.record
    assert (record.id, record.program, record.rank, record.node) == ("0:3:2:40", 0, 3, "")
    assert (record.score, record.severity_us) == (30.0, 300.0)
    assert (record.expected_us, record.spread_us, record.seen) == (100.0, pytest.approx(10.0), 101)
    assert (call.metric, record.detector) == ("inclusive", "sstd")


def test_a_call_without_statistics_lost_all_of_its_time() -> None:
    record = read().record
    assert (record.score, record.severity_us, record.seen, record.detector) == (0.0, 400.0, 0, "")


@pytest.mark.parametrize(("score", "metric"), [(5.0, "exclusive"), (30.0, "inclusive")])
def test_the_score_reports_which_runtime_was_judged(score: float, metric: str) -> None:
    call = read(version=2, outlier_score=score, outlier_severity=150, algo_params=STATISTICS)
    assert (call.metric, call.record.score, call.record.severity_us) == (metric, score, 150)


def test_a_score_beyond_all_numbers_is_worked_out() -> None:
    assert read(version=2, outlier_score=None, algo_params=STATISTICS).record.score == pytest.approx(5.0)


def test_an_open_call_has_its_time_so_far() -> None:
    record = read(version=2, exit=0, outlier_severity=390.0).record
    assert (record.exit_us, record.revision, record.inclusive_us) == (0, 0, 400)


def test_the_depth_of_neighbours_follows_from_their_parents() -> None:
    stack = [frame(40, 5_000, 5_400), frame(8, 4_000, 0), frame(1, 1_000, 0)]
    window = [
        frame(33, 4_100, 4_200, parent_event_id="3:2:30"),
        frame(40, 5_000, 5_400, parent_event_id="3:2:8"),
        frame(41, 5_010, 5_020, parent_event_id="3:2:40"),
        frame(42, 5_012, 5_015, parent_event_id="3:2:41"),
        frame(43, 5_500, 0, parent_event_id="root"),
    ]
    record = read(call_stack=stack, event_window={"exec_window": window}).record
    # The first one's parent is not known: it lay in both callers.
    assert [call.depth for call in record.window] == [3, 2, 3, 4, 0]
    assert [call.parent_id for call in record.window][-1] == ""
    assert (record.depth, record.children) == (2, 1)


def test_messages_and_counters_belong_to_calls() -> None:
    sent = {"type": "SEND", "src": 3, "tar": 4, "bytes": 8, "tag": 2**63, "timestamp": 5_100}
    window = {"comm_window": [{**sent, "execdata_key": "3:2:40"}, {**sent, "execdata_key": "3:2:41"}]}
    counter = {"counter_name": "heap", "counter_value": 2**64 - 1, "ts": 5_200, "counter_idx": 4}
    record = read(event_window=window, counter_events=[counter]).record
    assert record.messages[0] == Message("SEND", 3, 4, 2**63, 8, 5_100, record.id)
    assert (len(record.messages), record.messages_count) == (2, 1)
    assert record.counters == [CounterValue("heap", 2**64 - 1, 5_200, record.id)]


def test_the_state_of_the_node_is_watched_counters() -> None:
    state = {"timestamp": 4_900, "data": [{"field": "load", "value": 3}, {"field": "free MB", "value": 7.6}]}
    values = [(value.counter, value.value) for value in read(node_state=state).record.node_state]
    assert values == [("monitoring: load", 3), ("monitoring: free MB", 8)]


def test_a_kernel_has_its_launch_and_its_place() -> None:
    launch = {"event_id": "3:1:7", "tid": 2, "call_stack": [frame(7, 4_000, 4_010)]}
    place = {"thread": 0, "device": 0, "context": -1, "stream": 13}
    call = read(is_gpu_event=True, gpu_location=place, gpu_parent=launch)
    record = call.record
    assert (record.is_gpu, record.launch_id, record.launch_thread) == (True, "0:3:1:7", 2)
    assert [one.function for one in record.launch_stack] == ["f7"]
    assert call.gpu_attributes == [
        Metadata(0, 3, 0, "CUDA Device", "0"),
        Metadata(0, 3, 0, "CUDA Stream", "13"),
    ]


def test_a_text_in_place_of_a_launch_is_why_there_is_none() -> None:
    record = read(is_gpu_event=True, gpu_parent="Chimbuko error: not recorded", gpu_location="lost").record
    assert (record.launch_id, record.launch_stack, record.launch_thread) == ("", [], UNKNOWN_THREAD)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"func": None}, r"\$\.func"),
        ({"entry": -1}, r"\$\.entry"),
        ({"entry": "soon"}, r"\$\.entry"),
        ({"exit": 4_999}, "before entry"),
        ({"event_id": "root"}, "names no call"),
        ({"event_id": "3:2"}, "rank:step:index"),
        ({"event_id": "4:2:40"}, "another rank"),
        ({"event_id": "3:2:4000000000"}, "32 bits"),
        ({"version": 3}, "version"),
        ({"counter_events": [{"counter_name": "x", "counter_value": 2**64, "ts": 1}]}, "64 bits"),
        ({"func_stats": {"mean": 2}}, "count"),
    ],
)
def test_what_is_wrong_with_a_record_is_said(changes: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, msgspec.ValidationError), match=said):
        read(**changes)
    with pytest.raises(msgspec.ValidationError, match="object"):
        call_of(["a", "list"], Label.NORMAL)


def test_attributes_are_texts() -> None:
    assert metadata_of({"descr": "cores", "rid": 1, "tid": 0, "value": 8}) == Metadata(0, 1, 0, "cores", "8")
    with pytest.raises(msgspec.ValidationError, match="descr"):
        metadata_of({"rid": 1, "tid": 0, "value": "8"})
