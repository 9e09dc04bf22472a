"""One process finds in a recorded trace what agents and services find in it, and leaves the same store."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chimbuko.core.config import DETECTORS, AnalysisConfig
from chimbuko.core.statistics.model import load_model
from chimbuko.provenance.query.filters import CallFilter, CallSummary
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.scratch import left_behind
from tests.integration.conftest import AGENT, SERVER, BrokenRun, Outcome, Run, Start
from tests.places import DATA
from tests.storecontents import differences
from tests.thorough import first

ANALYSIS = "chimbuko.launcher.offline"
AGAIN = "all is analysed once more, by separate processes"


def analysed(start: Start, *words: str | Path) -> Run:
    run = start(*words)
    assert run.end() == 0, run.output
    assert AGAIN not in run.output
    return run


def is_without_services(run: Outcome) -> bool:
    return [path.name for path in (run.folder / "logs").glob("*.log")] == ["analysis.log"]


def records(run: Outcome) -> list[Any]:
    """Abnormal calls with all that belongs to them, but the numbers of their incidents."""
    with open_run(RunDirectory(run.folder)) as provenance:
        found = provenance.calls.in_time(CallFilter())
        return sorted(
            (one.id, repr(one).replace(f"incident_id={one.incident_id!r}", "incident_id")) for one in found
        )


def without_numbers(value: Any) -> Any:
    """Part of a report without numbers of functions, which follow the order in which streams came."""
    if isinstance(value, dict):
        return {name: without_numbers(part) for name, part in value.items() if name != "fid"}
    return sorted(map(without_numbers, value), key=repr) if isinstance(value, list) else value


def report(run: Outcome) -> dict[str, Any]:
    """Final report, without what depends on the processes and on the clock."""
    with gzip.open(run.folder / "report.json.gz") as file:
        found: dict[str, Any] = json.load(file)
    found["analysis"]["agents"] = sorted(found["analysis"]["agents"])
    found.pop("model")
    return {name: without_numbers(part) for name, part in found.items()}


def is_alike(one: Any, other: Any) -> bool:
    """Whether two reports agree, but for the last digits of sums: agents add as they hear."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def judged_calls(run: Outcome) -> list[CallSummary]:
    """All recorded calls that have ended."""
    with open_run(RunDirectory(run.folder)) as provenance:
        found = provenance.calls.page(CallFilter(label=None), limit=100_000).calls
    return [call for call in found if call.exit_us]


def assert_labels_follow(run: Outcome) -> None:
    """Flagged is what reaches the threshold and lost the minimum: what ``query --min-score`` finds."""
    config, calls = run.info.config, judged_calls(run)
    assert calls
    for call in calls:
        reaches = call.score >= config.usual_threshold
        is_flagged = call.label == "anomaly"
        assert reaches or not is_flagged, call
        if reaches and call.severity_us > 0.0:
            assert is_flagged == (call.severity_us >= config.min_anomaly_us), call


def assert_longer_calls_score_no_less(run: Outcome) -> None:
    """By the final model, within a function; what an incident upholds has the threshold for its score."""
    by_function: dict[str, list[tuple[int, float]]] = {}
    for call in judged_calls(run):
        if call.score != run.info.config.usual_threshold:
            by_function.setdefault(call.function, []).append((call.exclusive_us, call.score))
    for function, calls in by_function.items():
        scores = [score for _, score in sorted(calls)]
        assert scores == sorted(scores), function


@pytest.mark.parametrize(
    "detector", first(1, sorted(DETECTORS, key=("robust", "hbos", "sstd", "copod").index))
)
def test_leaves_what_separate_processes_leave(
    detector: str, heat4: Path, heat4_run: Outcome, start: Start
) -> None:
    words = ["--trace", heat4 / "*.bp", "--detector", detector]
    one = heat4_run if detector == AnalysisConfig().detector else analysed(start, *words)
    separate = analysed(start, *words, "--separate")
    assert is_without_services(one) and not is_without_services(separate)
    assert differences(one.folder, separate.folder) == []
    assert records(one) == records(separate)
    assert is_alike(report(one), report(separate))
    assert_labels_follow(one)
    if detector in ("robust", "sstd"):
        assert_longer_calls_score_no_less(one)
    config = one.info.config
    models = [load_model(run.folder / "model.msgpack", config) for run in (one, separate)]
    ours, theirs = (dict(zip(model.functions, model.table.tolist(), strict=True)) for model in models)
    assert ours == theirs


def test_without_a_final_judgement_and_with_one_core(heat4: Path, start: Start) -> None:
    words = ["--trace", heat4 / "*.bp", "--no-relabel", "--fast-side", "--min-anomaly", "0"]
    # The only run here, but for thorough ones, by a detector that keeps histograms.
    words += ["--detector", "hbos"]
    one, separate = analysed(start, *words, "--cores", "0"), analysed(start, *words, "--separate")
    assert differences(one.folder, separate.folder, is_judged_again=False) == []
    assert records(one) == records(separate)
    assert_labels_follow(one)


def test_broken_traces(start: Start, broken_run: BrokenRun) -> None:
    assert AGAIN not in broken_run.output
    separate = analysed(start, "--trace", broken_run.streams, "--separate")
    assert differences(broken_run.folder, separate.folder) == []


def test_traces_of_other_tools(start: Start) -> None:
    words = ["--trace", DATA / "kineto" / "rank*.json.gz"]
    one, separate = analysed(start, *words), analysed(start, *words, "--separate")
    assert is_without_services(one)
    assert differences(one.folder, separate.folder) == []
    assert_labels_follow(one)


@pytest.mark.parametrize("more", first(1, [((),), (("--freeze",),)], ids=["learns on", "frozen"]))
def test_learned_model_goes_on(heat4: Path, heat4_run: Outcome, start: Start, more: tuple[str, ...]) -> None:
    words = ["--trace", heat4 / "*.bp", *more]
    words += ["--load-model", heat4_run.folder / "model.msgpack", "--period", "0.5"]
    one, separate = analysed(start, *words), analysed(start, *words, "--separate")
    assert differences(one.folder, separate.folder) == []


@pytest.mark.parametrize("option", ["--dashboard", "--agents=2", "--server-parts=2"])
def test_services_are_there_where_something_needs_them(option: str, start: Start) -> None:
    assert not is_without_services(analysed(start, "--trace", DATA / "kineto" / "rank*.json.gz", option))


def process_of(run: Run) -> int:
    """Process that analyses, as soon as it is there."""
    return run.service(ANALYSIS)


def test_interrupted_run_keeps_what_was_found(heat4: Path, start: Start) -> None:
    run = start("--trace", heat4 / "*.bp")
    process_of(run)
    run.interrupt()
    assert run.end() == 130, run.output
    assert run.info.state == "interrupted"
    assert {stream.state for stream in run.health} <= {"lost", "ended"}
    assert run.processes("chimbuko") == []
    assert left_behind(RunDirectory(run.folder)) == []


def wait_until_it_reads(run: Run, pid: int) -> None:
    """Wait until a process has a recorded stream open."""

    def is_reading() -> bool:
        with suppress(OSError):
            return any(".bp/" in os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir())
        return False

    run.wait_until(is_reading, pause_s=0.001)


def test_killed_process_is_replaced_by_separate_ones(heat4: Path, heat4_run: Outcome, start: Start) -> None:
    run = start("--trace", heat4 / "*.bp", "--cores", "0")
    pid = process_of(run)
    wait_until_it_reads(run, pid)
    os.kill(pid, signal.SIGKILL)
    assert run.end() == 0, run.output
    assert AGAIN in run.output
    assert run.ids == heat4_run.ids


def test_killed_reader_ends_its_process_too(heat4: Path, heat4_run: Outcome, start: Start) -> None:
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("there is a core for one process only")
    run = start("--trace", heat4 / "*.bp")
    reader = run.service(f"{ANALYSIS} reader")
    wait_until_it_reads(run, reader)
    os.kill(reader, signal.SIGKILL)
    assert run.end() == 0, run.output
    assert run.ids == heat4_run.ids


def test_killed_run_can_be_done_again(heat4: Path, heat4_run: Outcome, start: Start) -> None:
    run = start("--trace", heat4 / "*.bp")
    analysis = process_of(run)
    for pid in (*run.processes("chimbuko.launcher"), run.process.pid):
        os.kill(pid, signal.SIGKILL)
    run.end()
    deadline_s = time.monotonic() + 10
    while Path(f"/proc/{analysis}").exists():
        assert time.monotonic() < deadline_s, "it outlives the run"
        time.sleep(0.05)
    again = analysed(start, "--trace", heat4 / "*.bp")
    assert again.ids == heat4_run.ids
    assert SERVER not in again.output and AGENT not in again.output
