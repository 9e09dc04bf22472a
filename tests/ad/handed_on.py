"""A stream analysed by one process, or by one after the other, and all that anybody sees of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from chimbuko.ad.analysis.streamanalysis import StreamAnalysis, StreamIdentity
from chimbuko.ad.calls.reportedcalls import REPORT
from chimbuko.ad.handoff.opencalls import OpenCallsFile
from chimbuko.ad.streams.commits import Told
from chimbuko.ad.streams.streamcheckpoint import Checkpoint, CheckpointFiles
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.calls.pathtable import PATH
from chimbuko.core.calls.recordarrays import HEAD, PARTS, PackedRecords
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.traceschema import StreamNames, TraceStep
from chimbuko.runtime.protocol.messages import NO_EPOCH
from tests.capture.trace.whole_streams import Step

MODEL_EVERY = 3
"""After so many steps the agent gives back as the model what it took, twice as much of it."""
REPORT_EVERY = 4
"""After so many steps the agent reports the innermost of the open calls as overdue."""
TAKE_EVERY = 2
HEADS = {"heads": HEAD}


@dataclass
class Seen:
    """What came out of the analysis, in order and byte by byte."""

    parts: list[tuple[str, object]] = field(default_factory=list)
    records: int = 0
    sizes_bytes: list[int] = field(default_factory=list)
    """Of all checkpoints."""

    def add(self, what: str, value: object) -> None:
        self.parts.append((what, value))


def rows_of(records: PackedRecords) -> dict[str, object]:
    """All rows of all parts: between their fields there may be anything."""
    parts: dict[str, object] = {
        part: np.frombuffer(getattr(records, part), dtype).tolist() for part, dtype in (PARTS | HEADS).items()
    }
    return parts | {"functions": records.functions, "counter names": records.counter_names}


def plain_steps(steps: Iterable[TraceStep], names: StreamNames) -> list[Step]:
    """Steps whose names are all known from the beginning."""
    return [Step(step.step, step.events, step.comms, step.counters, names) for step in steps]


def read_steps(path: Path) -> list[Step]:
    """A recorded stream; one whose writer died ends where it breaks off."""
    steps: list[Step] = []
    with StreamReader(path, "BPFile") as reader:
        while isinstance(step := reader.next_step(0.2), TraceStep):
            arrays = (step.events.copy(), step.comms.copy(), step.counters.copy())
            steps.append(Step(step.step, *arrays, copy.deepcopy(reader.names)))
    return steps


def analyse_stream(
    steps: list[Step],
    config: AnalysisConfig,
    rank: int,
    folder: Path,
    is_saved: Callable[[int], bool] = lambda number: False,
    is_handed_on: bool = True,
) -> Seen:
    """Analyse a stream; after the steps of these numbers the state is saved, and another process goes on."""
    seen, names = Seen(), StreamNames()
    files = CheckpointFiles(folder)
    open_calls = OpenCallsFile(folder / "open-calls")
    analysis = StreamAnalysis(StreamIdentity(0, rank, "node"), config)
    generation = version = 0
    model: np.ndarray | None = None
    for number, step in enumerate(steps):
        for kind in ("timers", "counters", "event_types", "metadata"):
            getattr(names, kind).update(getattr(step.names, kind))
        analysis.expect(open_calls.new_reports())
        result = analysis.analyse(TraceStep(step.number, step.events, step.comms, step.counters), names)
        open_calls.publish(analysis.stacks, result.count)
        seen.records += result.records.count
        seen.add("records", rows_of(result.records))
        seen.add("count", result.count)
        seen.add("left out", result.left_out)
        reported = open_calls.read()
        assert reported is not None
        seen.add("open", (reported.step, reported.newest_us, reported.calls.tolist()))
        if number % TAKE_EVERY == 0:
            findings = analysis.hand_out(generation)
            learned, telemetry = findings.learned, findings.telemetry
            seen.add("timers", learned.timers.tolist())
            seen.add("learned", learned.table.tobytes())
            seen.add(
                "telemetry", [np.asarray(rows).tobytes() for rows in (telemetry.traffic, telemetry.paces)]
            )
            seen.add("flagged steps", np.asarray(telemetry.flagged_steps).tobytes())
            paths = findings.paths
            # Without calls, the other columns mean nothing.
            for column in PATH.names[3:]:
                paths[column][paths["calls"] == 0] = 0.0
            seen.add("paths", paths.tobytes())
        seen.add("health", analysis.health("reading"))
        seen.add("counters", analysis.counter_statistics())
        if is_saved(number):
            files.save(number % 2, _checkpoint(analysis, open_calls.reports_seen))
            seen.sizes_bytes.append((folder / f"checkpoint.{number % 2}").stat().st_size)
        if is_saved(number) and is_handed_on:
            kept = files.load(number % 2, names)
            assert kept is not None
            analysis = kept.analysis
            open_calls = OpenCallsFile(folder / "open-calls")
            open_calls.go_on(analysis.stacks, kept.reports_seen)
            if model is not None:
                analysis.take_model(model, generation - 1, version)
        if number % MODEL_EVERY == 2 and len(learned.timers):
            model = analysis._detection.schema.empty(int(learned.timers.max()) + 1)
            analysis._detection.schema.merge(model, learned.timers, learned.table)
            analysis._detection.schema.merge(model, learned.timers, learned.table)
            version += 1
            analysis.take_model(model, generation, version)
            generation += 1
        if number % REPORT_EVERY == 1 and len(reported.calls):
            report = np.zeros(1, REPORT)
            report["limit_us"], report["score"] = 10.0, 7.0
            report["step"], report["row"] = reported.calls["step"][-1], reported.calls["row"][-1]
            open_calls.report(report)
    seen.add("last records", rows_of(analysis.finish()))
    seen.add("last health", analysis.health("ended"))
    findings = analysis.hand_out(generation)
    learned, telemetry = findings.learned, findings.telemetry
    seen.add("last learned", (learned.timers.tolist(), learned.table.tobytes()))
    seen.add("last telemetry", [np.asarray(rows).tobytes() for rows in (telemetry.traffic, telemetry.paces)])
    return seen


def _checkpoint(analysis: StreamAnalysis, reports_seen: int) -> Checkpoint:
    return Checkpoint(
        analysis=analysis,
        epoch=NO_EPOCH,
        reports_seen=reports_seen,
        told=Told(),
        frame=None,
        sequence=1,
    )
