"""Brings into the statistics of a run what its agents had learned and could not deliver."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from chimbuko.ad.modelsync.leftdeltas import agents_in, left_deltas
from chimbuko.errors import ConfigError, ServiceError
from chimbuko.process.lifetime import log
from chimbuko.protocol.messages import Delta, FunctionStatistics, RunStatistics
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.pserver.state.checkpoint import SavedState, read_state, write_state
from chimbuko.pserver.state.runreport import write_report
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runs.directory import RunDirectory, RunInfo
from chimbuko.runs.scratch import SERVICES_PART, saved_statistics
from chimbuko.statistics.model import Model, load_model, save_model
from chimbuko.statistics.schema import schema_of


def merge_left(folder: Path, info: RunInfo, path: Path) -> None:
    """Merge what agents have left in a folder into what a parameter server has saved, before one goes on with
    that. Each delta is merged once.

    Parameters
    ----------
    path
        File that the server has saved its state in; without it agents' deltas are all that is known.

    Raises
    ------
    ChimbukoError
        The file cannot be read or written.
    """
    deltas = _deltas(folder, info)
    if deltas:
        saved = read_state(path)
        state = _restored(info, saved) if saved else ServerState(schema=schema_of(info.config.detector))
        _merge(state, deltas)
        _write(path, state)


def deliver_statistics(run: RunDirectory, info: RunInfo, folder: Path) -> bool:
    """Merge what agents of a run that is over have left in a folder into its statistics: in the store, in its
    model and in its report. Nothing is counted twice; false where there was nothing, or nothing to merge it
    with.

    Raises
    ------
    ChimbukoError
        A file or the store cannot be written.
    """
    # A store that is still on another node will replace this one, with what is merged into it.
    is_elsewhere = run.scratch_note(SERVICES_PART).exists()
    deltas, path = [] if is_elsewhere else _deltas(folder, info), saved_statistics(run, info.id)
    saved = read_state(path) if deltas and path is not None else None
    if saved is None:
        return False
    state = _restored(info, saved)
    state.name_programs({number: name for name, number in run.read_programs().items()})
    before = _functions(state.statistics(is_last=True))
    _merge(state, deltas)
    statistics = state.statistics(is_last=True)
    with open_run(run) as provenance:
        stored = _functions(RunStatistics(functions=provenance.function_statistics()))
    if statistics is not None:
        functions = [
            with_later(stored.get(key), before.get(key), after)
            for key, after in _functions(statistics).items()
        ]
        engine = open_for_writing(run.used_store_url(info))
        try:
            # That of the streams came with their findings.
            Writer(engine, info.id).write_statistics(
                msgspec.structs.replace(statistics, functions=functions, health=[])
            )
        finally:
            close(engine)
    _save_model(run, info, state)
    write_report(run.report_path, state.report(str(run.model_path)))
    # Last of all: killed before, another try does it again.
    _write(run.statistics_path, state)
    return True


def with_later(
    stored: FunctionStatistics | None, before: FunctionStatistics | None, after: FunctionStatistics
) -> FunctionStatistics:
    """A function's row in the store after more was learned of it. Calls that were judged again at the end of
    the run stay counted as they were judged.

    Parameters
    ----------
    stored, before
        What is stored; and what the server knew at its end.
    """
    if stored is None or before is None or stored.calls not in (before.calls, after.calls):
        return after
    if stored.calls == after.calls:
        # Another try was killed in its middle, or nothing was learned of it.
        return stored
    if (stored.anomalies, stored.severity_us) == (before.anomalies, before.severity_us):
        return after
    return msgspec.structs.replace(
        after,
        anomalies=stored.anomalies + after.anomalies - before.anomalies,
        severity_us=stored.severity_us + after.severity_us - before.severity_us,
        flagged_steps=0,
    )


def _deltas(folder: Path, info: RunInfo) -> list[Delta]:
    return [delta for agent in agents_in(folder) for delta in left_deltas(agent, info.config)]


def _restored(info: RunInfo, saved: SavedState) -> ServerState:
    schema = schema_of(info.config.detector)
    state = ServerState(saved.lockstep_streams, schema, None, info.config.is_frozen)
    state.restore(saved)
    return state


def _merge(state: ServerState, deltas: list[Delta]) -> None:
    for delta in deltas:
        try:
            state.apply(delta)
        except ValueError as error:
            log(f"statistics of {delta.agent} are left out ({error})")


def _write(path: Path, state: ServerState) -> None:
    try:
        write_state(path, state.save())
    except OSError as error:
        raise ServiceError(f"{path}: cannot be written ({error.strerror}); make room there") from error


def _functions(statistics: RunStatistics | None) -> dict[tuple[int, str], FunctionStatistics]:
    functions = statistics.functions if statistics else []
    return {(function.program, function.name): function for function in functions}


def _save_model(run: RunDirectory, info: RunInfo, state: ServerState) -> None:
    """With what the run began with and has not called."""
    functions, table = state.learned()
    known = dict(zip(functions, table, strict=True))
    with suppress(ConfigError):
        before = load_model(run.model_path, info.config)
        known = dict(zip(before.functions, before.table, strict=True)) | known
    if known:
        table = np.array(list(known.values()))
        save_model(run.model_path, Model(info.config.detector, info.config.metric, list(known), table))
