"""What the summary asks the user to mend."""

from __future__ import annotations

import gzip
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chimbuko.ad.calls.stacks import LOSS_NAMES
from chimbuko.core.calls.record import (
    BEYOND_BUDGET,
    NO_ROOM_RECORDS,
    UNREAD_STREAMS,
    Metadata,
    StepCount,
    StreamHealth,
)
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.sourcecensus import SourceCensus
from chimbuko.core.traceschema import ENDING, UNNAMED_FUNCTIONS, UNTRACED_CHILDREN
from chimbuko.core.units import number_of
from chimbuko.launcher.outcome.losses import ADVICE, Loss, LossyStream, loss_lines, place_lines, report_lines
from chimbuko.launcher.outcome.summary import (
    MOST_SHOWN,
    Summary,
    slow_lines,
    summarize,
    summary_lines,
    worst_lines,
)
from chimbuko.provenance.incidents.origins import Origin, OriginList
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import FunctionStatistics, RunStatistics
from chimbuko.runtime.protocol.telemetry import SlowRank
from chimbuko.runtime.runs.directory import RunDirectory, new_run
from tests.sample_records import make_batch

Summarize = Callable[..., Summary]


@pytest.fixture
def summary_of(tmp_path: Path) -> Summarize:
    """The summary of a run with one stream, of 10 steps of a second each, and these functions."""

    def summary(
        functions: list[FunctionStatistics], metadata: Sequence[Metadata] = (), **health: Any
    ) -> Summary:
        run = new_run(tmp_path / "run", ["./app"], AnalysisConfig(), None)
        engine = open_for_writing(run.store_url)
        writer = Writer(engine, run.read_info().id)
        writer.write_run(run.read_info())
        writer.write_statistics(RunStatistics({0: "app"}))
        steps = [StepCount(0, 3, n, n * 1_000_000, (n + 1) * 1_000_000, 1, 0, 0.0) for n in range(10)]
        usual = {"state": "ended", "steps": 10, "rows": 50_000, "size_bytes": 2_400_000}
        stream = StreamHealth(
            **{"program": 0, "rank": 3, "node": "n", "calls": 1, "anomalies": 0, "gap_steps": 0, "losses": {}}
            | usual
            | health
        )
        writer.write([make_batch(stream="0:3", steps=steps, health=stream, metadata=[*metadata])])
        writer.write_statistics(RunStatistics(functions=functions))
        close(engine)
        return summarize(run, [])

    return summary


def function(name: str, calls: int, mean_us: float) -> FunctionStatistics:
    return FunctionStatistics(0, name, calls, 0, 0.0, mean_us, 0.0, mean_us, mean_us, mean_us, mean_us)


def test_sound_run_has_nothing_to_mend(summary_of: Summarize) -> None:
    summary = summary_of([function("main", 1, 1e6)], largest_step_bytes=5_000_000)
    assert (summary.large_step, summary.unresolved, summary.broken_streams) == (None, {}, [])
    text = "\n".join(summary_lines(summary))
    assert not any(word in text for word in ("Largest", "Unresolved", "Not traced"))


def test_large_step_comes_with_what_would_mend_it(summary_of: Summarize) -> None:
    functions = [function("norm", 20_000, 2.0), function("main", 1, 1e6)]
    summary = summary_of(functions, largest_step_bytes=10_000_000)
    (line,) = (line for line in summary_lines(summary) if line.startswith("Largest step"))
    assert "10.0 MB, of rank 0:3" in line
    assert "(--period 0.5) or by leaving out norm (chimbuko filter" in line


def test_addresses_without_names_are_reported_once(summary_of: Summarize) -> None:
    names = [f"addr=<55{n}> [{{app}} {{0,0}}] (rank {rank})" for n in range(3) for rank in (0, 1)]
    summary = summary_of([function(name, 10, 100.0) for name in names])
    assert summary.unresolved == {"app": 6}
    (line,) = (line for line in summary_lines(summary) if line.startswith("Unresolved"))
    assert "6 functions of app" in line and "-no-pie" not in line


def test_functions_without_a_name_come_with_the_reason(summary_of: Summarize) -> None:
    names = [
        "bare+0x12a6 [{/a/bare} {0,0}]",
        "[PTHREAD] addr=<55d1> [{/a/bare} {0, 0}] (rank 1)",
        "f [{f.c} {1,0}]",
    ]
    reported = [Metadata(0, rank, 0, f"{UNNAMED_FUNCTIONS}/a/bare", "it has no symbols") for rank in (0, 1)]
    summary = summary_of([function(name, 10, 100.0) for name in names], reported)
    assert (summary.unresolved, summary.unnamed) == ({"app": 2}, {"app": ["/a/bare: it has no symbols"]})
    (line,) = (line for line in summary_lines(summary) if line.startswith("Unresolved"))
    assert line.endswith("known by address only; /a/bare: it has no symbols")


def test_child_processes_that_were_not_traced_are_counted_and_named(summary_of: Summarize) -> None:
    reported = [
        Metadata(0, 0, 0, UNTRACED_CHILDREN, "2 (2 ls)"),
        Metadata(0, 1, 0, UNTRACED_CHILDREN, "12 (12 forked without work for long enough)"),
    ]
    summary = summary_of([], reported)
    assert [line for line in summary_lines(summary) if line.startswith("Not traced")] == [
        "Not traced: 14 child processes, of rank 0:1: 12 (12 forked without work for long enough); "
        "0:0: 2 (2 ls)"
    ]


def test_only_ranks_that_died_are_said_to_have(summary_of: Summarize) -> None:
    reported = [
        Metadata(0, 3, 0, ENDING, "signal 11 in solve"),
        Metadata(0, 4, 0, "Ending Timestamp", "1795574191585281"),
    ]
    lines = summary_lines(summary_of([], reported))
    assert [line for line in lines if line.startswith("Died")] == ["Died: rank 0:3 signal 11 in solve"]


@pytest.mark.parametrize("state", ["reading", "silent", "broken", "lost"])
def test_stream_without_an_end_is_reported(state: str, summary_of: Summarize) -> None:
    summary = summary_of([], state=state)
    assert summary.broken_streams == ["0:3"]
    assert any("the end of 1 stream (0:3)" in line for line in summary_lines(summary))


def test_what_agents_that_are_gone_had_not_delivered_is_lost(summary_of: Summarize) -> None:
    summary = msgspec.structs.replace(summary_of([]), lost_agents=["agent-node1", "agent-node2"])
    (line,) = (line for line in summary_lines(summary) if line.startswith(("Lost: ", "Call data: ")))
    assert line == "Lost: what agent-node1, agent-node2 had not delivered"


def test_functions_that_have_slowly_changed_are_named(summary_of: Summarize) -> None:
    drifts = {"main": 1.0, "solve": 1.9, "norm": 1.15, "pack": 0.45, "send": 0.9}
    functions = [msgspec.structs.replace(function(name, 9000, 10.0), drift=f) for name, f in drifts.items()]
    summary = summary_of(functions)
    assert [(f.name, f.drift) for f in summary.drifted] == [("pack", 0.45), ("solve", 1.9)]
    assert [line for line in summary_lines(summary) if line.startswith("Drifted")] == [
        "Drifted: pack now takes 0.45 times as long as at first",
        "Drifted: solve now takes 1.9 times as long as at first",
    ]


def slow(rank: int, node: str, function: str, ratio: float, lost_s: float) -> SlowRank:
    return SlowRank(0, rank, node, function, ratio, 9.0, 1e6 * lost_s, 10, 100)


def test_slow_ranks_of_a_node_are_reported_together_and_each_once() -> None:
    of_node = [slow(rank, "node7", "", 1.1, 2.0) for rank in range(40, 50)]
    twice = [slow(40, "node7", "solve", 1.2, 90.0), slow(3, "node1", "write", 1.5, 6.0)]
    first, second = (" ".join(line.split()) for line in slow_lines(twice + of_node))
    ranks = "0:40, 0:41, 0:42, 0:43, 0:44 and 5 more on node7"
    assert first == f"20.0 s {ranks}: 1.10 times as long in all they compute"
    assert second == "6.00 s 0:3 on node1: 1.50 times as long in write"


def lost_lines(summary: Summary) -> list[str]:
    lines = summary_lines(summary)
    first = next(number for number, line in enumerate(lines) if line.startswith(("Lost: ", "Call data: ")))
    return [line for number, line in enumerate(lines) if number == first or line.startswith("  ")]


def test_nothing_lost_is_one_line(summary_of: Summarize) -> None:
    assert lost_lines(summary_of([])) == [
        "Call data: no loss known, but what recorded 1 rank does not say how many calls it saw"
    ]


def test_nothing_is_not_said_alone_where_more_may_be_lost(summary_of: Summarize) -> None:
    whole = summary_of([])
    unrecorded = msgspec.structs.replace(whole.reports, unrecorded={"0:3": "7 calls"})
    partial = msgspec.structs.replace(whole, reports=unrecorded)
    assert lost_lines(partial) == ["Call data: no loss known, but not all was recorded: see below"]
    (first,) = lost_lines(msgspec.structs.replace(partial, problems=["the recorder has failed"]))
    assert first == "Call data: no loss known, but not all was recorded and there were problems: see below"
    (first,) = lost_lines(msgspec.structs.replace(whole, problems=["the dashboard has failed"]))
    assert first == "Call data: no loss known, but there were problems: see below"


def test_functions_that_share_a_row_are_said(summary_of: Summarize) -> None:
    whole = summary_of([])
    sharing = {f"0:{rank}": f"{1000 * rank} functions" for rank in range(1, 8)}
    reports = msgspec.structs.replace(whole.reports, sharing=sharing, sharing_calls=123_456)
    (line,) = (one for one in report_lines(reports) if one.startswith("Together"))
    assert "(7,000 of rank 0:7, 6,000 of rank 0:6" in line and "and those of 2 more ranks)" in line
    assert "'other functions' and are not judged, 123,456 calls" in line
    assert not report_lines(whole.reports)


def test_what_was_lost_comes_with_what_to_do(summary_of: Summarize) -> None:
    losses = {"EXIT without ENTRY": 4, "calls whose EXIT was lost": 5, "things of a new kind": 6}
    first, exits, steps, place = lost_lines(summary_of([], losses=losses, gap_steps=2))
    assert first == (
        "Lost: 4 EXIT without ENTRY; 5 calls whose EXIT was lost; 6 things of a new kind; 2 steps never seen"
    )
    assert exits.startswith("  4 EXIT without ENTRY and 5 calls whose EXIT was lost: ")
    assert steps.startswith("  2 steps never seen: ") and "leave a core free" in steps
    assert place == (
        "  on n, rank 0:3: 4 EXIT without ENTRY, 5 calls whose EXIT was lost, 6 things of a new kind, "
        "2 steps never seen"
    )


def test_what_was_lost_is_named_by_node_and_rank_the_worst_first() -> None:
    streams = [
        LossyStream(f"0:{rank}", f"node{rank % 7}", {"steps never seen": 1 + (rank == 9)})
        for rank in range(50)
    ]
    first, *others = place_lines(streams)
    assert first.startswith("  on node2, rank 0:9: 2 steps never seen; rank 0:2: 1 step never seen; ")
    assert first.endswith("; and 2 more ranks")
    assert len(others) == 4 and others[-1].endswith("; and 2 more nodes")
    assert place_lines([]) == []


def test_a_program_that_was_ended_with_its_run_has_lost_its_last_moments(summary_of: Summarize) -> None:
    summary = msgspec.structs.replace(summary_of([], state="broken"), is_interrupted=True)
    assert any("in their last moments" in line for line in lost_lines(summary))


@pytest.mark.parametrize(("steps", "lost"), [(0, "every step"), (3, "every call")])
def test_no_call_seen_is_never_nothing_lost(steps: int, lost: str, summary_of: Summarize) -> None:
    first, advice = lost_lines(summary_of([], calls=0, steps=steps))
    assert first == f"Lost: {lost}"
    assert "long enough" in advice


def test_run_without_a_stream_says_what_it_most_often_means(tmp_path: Path) -> None:
    run = new_run(tmp_path / "it's a run", ["./app"], AnalysisConfig(), None)
    engine = open_for_writing(run.store_url)
    Writer(engine, run.read_info().id).write_run(run.read_info())
    close(engine)
    lines = summary_lines(summarize(run, []))
    assert not any(line.startswith("Lost: ") for line in lines)
    (again,) = (line for line in lines if line.startswith("Look again: "))
    assert shlex.split(again)[2:] == [
        "chimbuko",
        "view",
        str(run.path),
        "or",
        "chimbuko",
        "query",
        str(run.path),
    ]
    (line,) = (line for line in lines if line.startswith("No trace stream appeared"))
    for words in ("not linked with MPI", "tau_exec -T serial,pthread", "'chimbuko trace'"):
        assert words in line
    run.write_info(msgspec.structs.replace(run.read_info(), exit_code=1))
    (line,) = (line for line in summary_lines(summarize(run, [])) if line.startswith("No trace stream"))
    assert "the program ended with exit code 1 before anything of it was recorded" in line
    assert "'chimbuko trace'" in line
    recorded = ["mpirun", "-n", "4", "chimbuko", "trace", "./app"]
    run.write_info(msgspec.structs.replace(run.read_info(), command=recorded))
    assert not any("Put 'chimbuko trace'" in line for line in summary_lines(summarize(run, [])))
    run.interrupted_path.touch()
    lines = summary_lines(summarize(run, []))
    assert "No trace stream had appeared when the run was interrupted" in lines
    assert not any("'chimbuko trace'" in line for line in lines)


@pytest.mark.parametrize("kind", LOSS_NAMES.values())
def test_every_kind_of_loss_has_an_advice(kind: str) -> None:
    assert ADVICE[kind]


def test_losses_without_advice_are_named_only() -> None:
    assert loss_lines([Loss("7 of these", "")], "complete") == ["Lost: 7 of these"]


def test_what_there_was_no_room_for_comes_with_its_remedy_and_counts_once(summary_of: Summarize) -> None:
    losses = {NO_ROOM_RECORDS: 7, UNREAD_STREAMS: 1}
    summary = msgspec.structs.replace(summary_of([function("main", 1, 1e6)], losses=losses), dropped=9)
    lines = summary_lines(summary)
    (lost,) = (line for line in lines if line.startswith(("Lost: ", "Call data: ")))
    assert f"7 {NO_ROOM_RECORDS}" in lost and number_of(1, UNREAD_STREAMS) in lost
    assert "records of 2 anomalies, too many of their functions" in lost
    assert any("set TMPDIR" in line for line in lines)


def test_functions_whose_calls_are_only_counted_are_named(summary_of: Summarize) -> None:
    of = {f"f{n}": 2_000 // (1 + n) for n in range(MOST_SHOWN + 2)}
    losses = {BEYOND_BUDGET: 1_500}
    known = summary_of([function("main", 1, 1e6)], losses=losses)
    lines = summary_lines(msgspec.structs.replace(known, dropped=sum(of.values()), dropped_of=of))
    (named,) = (line for line in lines if line.startswith("Only counted: "))
    assert named.startswith("Only counted: 2,000 of f0, 1,000 of f1")
    rest = sum(list(of.values())[MOST_SHOWN:])
    assert named.endswith(f", {rest:,} of 2 functions more")
    (lost,) = (line for line in lines if line.startswith(("Lost: ", "Call data: ")))
    assert f"1,500 {BEYOND_BUDGET}" in lost
    assert f"records of {sum(of.values()) - 1_500:,} anomalies, too many of their functions" in lost
    assert any("--store-writers" in line for line in lines)


def test_all_that_is_left_in_the_folder_counts(summary_of: Summarize) -> None:
    summary = summary_of([function("main", 1, 1e6)])
    run = RunDirectory(Path(summary.run))
    (run.logs / "agent-0.log").write_bytes(bytes(1000))
    run.report_path.write_bytes(gzip.compress(b'{"slow_ranks": []}'))
    (run.path / "the user's").write_bytes(bytes(5000))
    with_all = summarize(run, [])
    kept = (run.info_path, run.store_path, run.report_path, run.logs / "agent-0.log")
    assert with_all.stored_bytes == sum(path.stat().st_size for path in kept) > summary.stored_bytes
    for trace_bytes, less in ((with_all.stored_bytes, ""), (40 * with_all.stored_bytes, " (40× less)")):
        traced = msgspec.structs.replace(with_all, trace_bytes=trace_bytes)
        (line,) = (line for line in summary_lines(traced) if line.startswith("Data: "))
        assert line.endswith(f"left in the run's folder{less}")


def test_call_data_is_complete_where_the_source_has_seen_as_many(summary_of: Summarize) -> None:
    summary = summary_of([], calls=40, open_calls=2, source=SourceCensus("the recorder", 42))
    assert lost_lines(summary) == ["Call data: complete"]
    assert summary.census.ranks[0].unended == 2


def test_what_the_source_has_seen_and_is_not_here_is_lost_by_reason(summary_of: Summarize) -> None:
    source = SourceCensus("the recorder", 1000, {"without room in the buffer of a thread": 30})
    summary = summary_of([], calls=940, source=source, gap_steps=2)
    assert lost_lines(summary)[0] == (
        "Lost: 30 of 1,000 calls (3 %) without room in the buffer of a thread; "
        "30 of 1,000 calls (3 %) in steps that were never read; 2 steps never seen"
    )


def test_a_stream_that_nobody_read_to_its_end_is_not_laid_at_the_programs_door(summary_of: Summarize) -> None:
    summary = summary_of([], calls=240, source=SourceCensus("the recorder", 1000), state="broken")
    first, advice, place = lost_lines(summary)
    assert first == (
        "Lost: 760 of 1,000 calls (76 %) in steps at the end of the stream, which nobody read although the "
        "program ended in order"
    )
    assert "their reader was killed" in advice and "what the program said" not in advice
    assert place.startswith("  on n, rank 0:3: 760 calls in steps at the end of the stream")


def test_nothing_is_called_complete_of_which_no_event_is_on_record(summary_of: Summarize) -> None:
    assert lost_lines(summary_of([], rows=0)) == [
        "Call data: unknown, as how much was recorded is not on record"
    ]


def of(*origins: Origin) -> OriginList:
    return OriginList(list(origins), len(origins), sum(one.lost_us for one in origins), 0.0)


def test_who_waited_is_not_among_the_worst() -> None:
    functions = of(
        Origin(0, None, "relax [{heat.c} {47,0}]", 2, 350e3, 0.0),
        Origin(0, None, "MPI_Waitall()", 1, 20e3, 40e3),
        Origin(0, None, "MPI_Allreduce()", 0, 0.0, 900e3),
    )
    ranks = of(Origin(0, 3, None, 3, 370e3, 0.0), Origin(0, 1, None, 0, 0.0, 940e3))
    assert worst_lines(functions, ranks, programs=1) == [
        "Worst functions, by time lost because of them:",
        "    350 ms      2×  relax",
        "   20.0 ms      1×  MPI_Waitall()",
        "Held up: 900 ms in MPI_Allreduce(), 40.0 ms in MPI_Waitall()",
        "Worst ranks, by time lost because of them:",
        "    370 ms      3×  rank 3",
    ]


def test_ranks_of_several_programs_have_both_numbers() -> None:
    worst = of(Origin(0, None, "relax", 2, 350e3, 0.0)), of(Origin(1, 3, None, 3, 370e3, 0.0))
    assert worst_lines(*worst, programs=2)[-1] == "    370 ms      3×  rank 1:3"


def test_where_nothing_is_known_to_have_begun_there_is_nothing_to_say() -> None:
    waits = of(Origin(0, None, "MPI_Recv()", 0, 0.0, 5e3))
    assert worst_lines(waits, of(), programs=1) == []
