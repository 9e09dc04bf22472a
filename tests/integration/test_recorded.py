"""A real TAU trace goes in; the same anomalies come out, whichever way it is read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.traceschema import EventType, TraceStep
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from evaluation.causes import incidents_of
from examples.truth import InjectedDelay, match
from tests.integration.conftest import Outcome, Start
from tests.reference.cpp_sstd import CppSstd
from tests.reference.paths import moments_of
from tests.thorough import first

LONG_MS = 60
ROWS = 353_612
CALLS = 141_202


def f1(first: set[str], second: set[str]) -> float:
    """Agreement of two sets of flags."""
    return 2 * len(first & second) / (len(first) + len(second))


def calls_of(stream: Path, rank: int) -> Iterator[tuple[tuple[str, ...], int, int, bool]]:
    """Call path, exclusive and inclusive runtime of each call; and whether it is learned from, not as the
    first of a function on its thread.
    """
    reader = StreamReader(stream, "BPFile", rank=rank)
    stacks: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
    child_us: dict[tuple[int, int], int] = defaultdict(int)
    known: set[tuple[int, int]] = set()
    while isinstance(step := reader.next_step(1.0), TraceStep):
        for _, _, thread, kind, timer, time_us in step.events.tolist():
            stack = stacks[thread]
            if kind == reader.names.event_type_id(EventType.ENTRY):
                stack.append((timer, time_us, (thread, timer) in known))
                known.add((thread, timer))
                continue
            path = tuple(reader.names.timer_name(timer) for timer, _, _ in stack)
            _, entry_us, counts = stack.pop()
            inside_us = child_us.pop((thread, len(stack)), 0)
            child_us[thread, len(stack) - 1] += time_us - entry_us
            yield path, time_us - entry_us - inside_us, time_us - entry_us, counts
    reader.close()


def test_every_row_is_used_and_every_call_closed(heat4_run: Outcome) -> None:
    health = heat4_run.health
    assert [stream.state for stream in health] == ["ended"] * 4
    assert sum(stream.rows for stream in health) == ROWS
    assert sum(stream.calls for stream in health) == CALLS
    assert sum(stream.gap_steps for stream in health) == 0
    assert [stream.losses for stream in health] == [{}] * 4


def test_finds_the_delays_without_flooding(heat4_run: Outcome, heat4_delays: list[InjectedDelay]) -> None:
    anomalies = heat4_run.anomalies
    found = [delay for delay, call in match(heat4_delays, anomalies) if call is not None]
    assert len(heat4_delays) == 41
    assert len(found) >= 36
    assert len(anomalies) <= 220


def test_incidents_have_the_ranks_that_waited_without_a_flag(
    heat4_run: Outcome, heat4_delays: list[InjectedDelay]
) -> None:
    """Later in the trace long waits are nothing unusual any more, and hardly any is flagged."""
    found = [one for one in incidents_of(RunDirectory(heat4_run.folder)) if one.call_id]
    long = [delay for delay in heat4_delays if delay.milliseconds >= LONG_MS]
    waited = [{other.rank for other in one.waited} for delay in long for one in found if delay.is_in(one)]
    assert len(long) == 25
    assert sum(len(ranks) == 3 for ranks in waited) >= 20


def test_notes_what_the_run_was(heat4_run: Outcome) -> None:
    info = heat4_run.info
    assert (info.state, info.exit_code) == ("finished", None)
    assert info.trace_bytes > 10 * info.stored_bytes > 0


def test_runtimes_by_call_path_are_those_of_the_trace(heat4: Path, heat4_run: Outcome) -> None:
    exclusive_us: dict[tuple[str, ...], list[int]] = defaultdict(list)
    inclusive_us: dict[tuple[str, ...], list[int]] = defaultdict(list)
    all_us: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank in range(4):
        for path, exclusive, inclusive, counts in calls_of(heat4 / f"tau-metrics-heat2d-{rank}.bp", rank):
            all_us[path].append(exclusive)
            if counts:
                exclusive_us[path].append(exclusive)
                inclusive_us[path].append(inclusive)
    reported = {path: one for (_, path), one in heat4_run.paths.items() if one.calls}
    assert {path: one.calls for path, one in reported.items()} == {
        path: len(runtimes_us) for path, runtimes_us in exclusive_us.items()
    }
    for path, one in reported.items():
        runtimes = msgspec.structs.astuple(one)[3:11]
        expected = (*moments_of(exclusive_us[path]), *moments_of(inclusive_us[path]))
        assert tuple(runtimes) == pytest.approx(expected, rel=1e-9)
    calls, spent_us = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    with open_run(RunDirectory(heat4_run.folder)) as provenance:
        for of_rank in (of_rank for rank in range(4) for of_rank in provenance.rank_paths(0, rank)):
            calls[*of_rank.functions] += of_rank.calls
            spent_us[*of_rank.functions] += round(of_rank.exclusive_us)
    assert calls == {path: len(runtimes_us) for path, runtimes_us in all_us.items()}
    assert spent_us == {path: sum(runtimes_us) for path, runtimes_us in all_us.items()}


@pytest.mark.thorough
def test_four_agents_give_the_same_flags(heat4: Path, heat4_run: Outcome, start: Start) -> None:
    run = start("--trace", heat4 / "*.bp", "--agents", "4")
    assert run.end() == 0, run.output
    assert run.ids == heat4_run.ids
    assert run.paths == heat4_run.paths
    assert sum(stream.rows for stream in run.health) == ROWS


def steps_of(reader: StreamReader) -> Iterator[TraceStep]:
    while isinstance(step := reader.next_step(1.0), TraceStep):
        yield step


def test_sstd_flags_what_the_cpp_system_flags(heat4: Path, start: Start) -> None:
    stream = heat4 / "tau-metrics-heat2d-0.bp"
    run = start(
        *("--trace", stream, "--detector", "sstd", "--threshold", "6"),
        *("--min-anomaly", "0", "--fast-side", "--no-relabel"),
    )
    with StreamReader(stream, "BPFile", rank=0) as reader:
        expected = CppSstd(reader.names).flagged(steps_of(reader))
    assert run.end() == 0, run.output
    assert {(call.thread, call.function, call.entry_us) for call in run.anomalies} == expected
    assert len(expected) == 76


@pytest.mark.thorough
@pytest.mark.parametrize("agents", first(1, ["4", "1"]))
def test_sst_replay_in_lockstep_gives_the_same_flags(
    agents: str, heat4: Path, heat4_run: Outcome, start: Start
) -> None:
    run = start(
        "--replay", heat4 / "*.bp", "--pace", "max", "--lockstep", "--agents", agents, "--no-dashboard"
    )
    assert run.end() == 0, run.output
    assert run.ids == heat4_run.ids
    assert sum(stream.rows for stream in run.health) == ROWS


def test_query_and_show_answer_from_the_store(heat4_run: Outcome) -> None:
    words = ["query", str(heat4_run.folder), "--function", "pack_row*", "--rank", "1", "--json"]
    answer = subprocess.run([sys.executable, "-m", "chimbuko", *words], capture_output=True, check=True)
    calls = json.loads(answer.stdout)["calls"]
    expected = {
        call.id
        for call in heat4_run.anomalies
        if call.rank == 1 and call.function.startswith("pack_row") and call.program == 0
    }
    assert {call["id"] for call in calls} == expected != set()
    worst = max(calls, key=lambda call: call["severity_us"])["id"]
    shown = subprocess.run(
        [sys.executable, "-m", "chimbuko", "show", str(heat4_run.folder), worst, "--json"],
        capture_output=True,
        check=True,
    )
    assert worst in shown.stdout.decode()
