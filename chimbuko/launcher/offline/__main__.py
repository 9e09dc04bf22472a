"""Process that analyses a recorded trace: ``python -m chimbuko.launcher.offline SPEC``.

``SPEC`` is a file with its ``OfflineSpec`` in JSON, and ``CHIMBUKO_STORE`` in its environment has the URL of
the store. Its output is one line of JSON when it has begun, and then ``OfflineNews``.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import msgspec

from chimbuko.ad.analysis.streamanalysis import StreamIdentity
from chimbuko.ad.detectors import make_detector
from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.capture.trace.adios import adios2_bindings
from chimbuko.core.calls.record import StreamHealth
from chimbuko.core.errors import ChimbukoError
from chimbuko.core.kernels.declare import load_all
from chimbuko.core.statistics.model import Model, load_model, save_model
from chimbuko.launcher.offline.analysis import Merging, OfflineAnalysis, Questions, TraceClock, answer
from chimbuko.launcher.offline.lockstep import Lockstep
from chimbuko.launcher.offline.lockstepstream import RecordedFile
from chimbuko.launcher.offline.readers import ForkedReaders, Heart, OwnReader, Readers, ToRead
from chimbuko.launcher.offline.shelf import LeftSpools, Shelf
from chimbuko.launcher.offline.spec import UNDELIVERED_CODE, OfflineNews, OfflineSpec
from chimbuko.provenance.explain.relabelling import judge_at_end
from chimbuko.provenance.explain.traceanswers import Answers, recalled
from chimbuko.provenance.service.runstore import Destination
from chimbuko.provenance.service.storing import Storing
from chimbuko.provenance.write.kept import Kept
from chimbuko.pserver.state.runreport import write_report
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.process.failures import words_of
from chimbuko.runtime.process.lifetime import log, say_ready
from chimbuko.runtime.process.signals import StopSignal
from chimbuko.runtime.process.starting import uncollected
from chimbuko.runtime.protocol.messages import WaitsRequest
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.namedstores import STORE_VARIABLE

AGENT = "agent-0"
"""Name under which the process reports what an agent would."""
FIRST_INCARNATION = 1
MOST_UNCOLLECTED = 50_000
"""Number of new objects after which unreachable ones are looked for, some 5 MB."""


@cache
def load() -> None:
    """Load what forks of this process share."""
    with uncollected():
        adios2_bindings()
        load_all()


def main() -> None:
    """Analyse a recorded trace."""
    parser = argparse.ArgumentParser(prog="chimbuko.launcher.offline", description=__doc__)
    parser.add_argument("spec", type=Path)
    options = parser.parse_args()
    should_stop = StopSignal()
    # Calls that are kept, 20,000 objects in a thousand, are looked through in vain: 5 % of the time.
    gc.set_threshold(MOST_UNCOLLECTED)
    try:
        spec = msgspec.json.decode(options.spec.read_bytes(), type=OfflineSpec)
        load()
        sys.exit(_analyse(spec, should_stop))
    except ChimbukoError as error:
        log(str(error))
        sys.exit(error.exit_code)


def _analyse(spec: OfflineSpec, should_stop: StopSignal) -> int:
    """Return the exit code."""
    run, config = RunDirectory(Path(spec.run)), spec.config
    info = run.read_info()
    questions = Questions()
    destination = Destination(os.environ[STORE_VARIABLE], info.id, info if spec.has_own_store else None)
    analysed = TraceClock()
    kept = Kept()
    # Nobody is told of incidents before all is judged.
    storing = Storing(destination, kept.take, questions.ask, analysed, kept)
    beat = Heart(lambda: _say(OfflineNews()))

    def is_to_stop() -> bool:
        beat()
        return should_stop()

    spools = LeftSpools(Path(spec.scratch) / AGENT, spec.programs, config.spool_limit_bytes)
    shelf = Shelf(storing, _report, beat, spools)
    base = load_model(Path(spec.load_model), config) if spec.load_model else None
    schema = make_detector(config).schema
    state = ServerState(len(spec.streams), schema, base, config.is_frozen, time.time_ns())
    streams = [
        ToRead(StreamIdentity(one.program, one.rank, spec.node), RecordedFile(Path(one.path), one.first_rank))
        for one in spec.streams
    ]
    statistics = AgentStatistics(AGENT, FIRST_INCARNATION, schema)
    lockstep = Lockstep(statistics, [one.identity for one in streams], config)
    merging = Merging(state, lockstep, dict(enumerate(spec.programs)))
    analysis = OfflineAnalysis(state, lockstep, merging, shelf, analysed, _show)
    readers: Readers
    if spec.workers > 1:
        readers = ForkedReaders(streams, config, analysis.put, beat, spec.workers)
    else:
        readers = OwnReader(streams, config, analysis.put, is_to_stop)
    say_ready(service="analysis")
    analysis.run(readers, should_stop)
    if not shelf.is_given_up:
        answer(questions, shelf, partial(_look_up, run, storing, config.recorder_bytes, is_to_stop))
        storing.store.close()
    _leave_learned(spec, run, state)
    if shelf.is_given_up:
        return UNDELIVERED_CODE
    _say(OfflineNews(is_read=True))
    _judge(run, spec.is_relabelling, should_stop, kept)
    return 0


def _judge(run: RunDirectory, is_relabelling: bool, is_hasty: Callable[[], bool], kept: Kept) -> None:
    """Judge and explain what is stored once more."""
    try:
        said = judge_at_end(run, is_hasty, _report, is_relabelling, kept)
        _say(OfflineNews(said=said))
    except Exception as error:
        _report(words_of(error))


def _look_up(
    run: RunDirectory,
    storing: Storing,
    most_bytes: int,
    should_stop: Callable[[], bool],
    requests: Sequence[WaitsRequest],
) -> Answers:
    return recalled(run, storing.store.provenance(), requests, most_bytes, should_stop)


def _leave_learned(spec: OfflineSpec, run: RunDirectory, state: ServerState) -> None:
    """Write model and report, as the parameter server does at its end."""
    try:
        for path in spec.save_models:
            model = Model(spec.config.detector, spec.config.metric, *state.learned())
            save_model(Path(path), model)
        write_report(run.report_path, state.report(next(iter(spec.save_models), "")))
    except ChimbukoError as error:
        _report(str(error))


def _show(health: Sequence[StreamHealth]) -> None:
    _say(OfflineNews(health=list(health)))


def _report(line: str) -> None:
    log(line)
    _say(OfflineNews(line=line))


def _say(news: OfflineNews) -> None:
    sys.stdout.write(msgspec.json.encode(news).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
