"""Brings into the statistics of a run what its agents had learned and could not deliver."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from chimbuko.ad.modelsync.deltamaker import agents_in, left_deltas
from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.core.statistics.model import Model, joined_models, load_model, save_model
from chimbuko.core.statistics.schema import schema_of
from chimbuko.launcher.outcome.recovery import deliver_spools
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.pserver.state.runreport import joined_reports, write_report
from chimbuko.pserver.state.savedstate import SavedState, read_state, write_state
from chimbuko.pserver.state.serverstate import ServerState
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.messages import Delta, FunctionStatistics, RunStatistics
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo
from chimbuko.runtime.runs.scratch import SERVICES_PART, saved_statistics


def merge_left(folder: Path, info: RunInfo, paths: Sequence[Path]) -> None:
    """Merge what agents have left in a folder into what a parameter server has saved, before one goes on with
    that. Each delta is merged once.

    Parameters
    ----------
    paths
        Files that the parts of the server have saved their state in; without them agents' deltas are all that
        is known.

    Raises
    ------
    ChimbukoError
        A file cannot be read or written.
    """
    for part, deltas in _deltas(folder, info).items():
        state = _restored(info, read_state(paths[part]), part)
        _merge(state, deltas)
        _write(paths[part], state)


def deliver_statistics(run: RunDirectory, info: RunInfo, folder: Path) -> bool:
    """Merge what agents of a run that is over have left in a folder into its statistics: in the store, in its
    model and in its report. Nothing is counted twice; false where there was nothing, or nothing to merge it
    with.

    Raises
    ------
    ChimbukoError
        A file or the store cannot be written.
    """
    parts = info.config.server_parts
    # A store that is still on another node will replace this one, with what is merged into it.
    is_elsewhere = run.scratch_note(SERVICES_PART).exists()
    deltas = {} if is_elsewhere else _deltas(folder, info)
    paths = saved_statistics(run, info.id, parts) if deltas else []
    if not paths:
        return False
    states = [_restored(info, read_state(path), part) for part, path in enumerate(paths)]
    for part, state in enumerate(states):
        state.name_programs({number: name for name, number in run.read_programs().items()})
        _deliver(run, info, state, deltas.get(part, []))
    _save_model(run, info, states)
    reports = [state.report(str(run.model_path)) for state in states]
    write_report(run.report_path, joined_reports(reports, str(run.model_path)))
    # Last of all: killed before, another try does it again.
    for path, state in zip(run.statistics_paths(parts), states, strict=True):
        _write(path, state)
    return True


def bring_left(run: RunDirectory, info: RunInfo, folder: Path) -> tuple[int, int]:
    """Store what agents have found and learned and left in a folder; nothing is stored, or counted, twice.

    Returns how many records that was, each revision of a call counted, and of how many streams.

    Raises
    ------
    ChimbukoError
        A file or the store cannot be written.
    """
    stored = deliver_spools(folder, info, run.used_store_url(info))
    deliver_statistics(run, info, folder)
    return stored


def _deliver(run: RunDirectory, info: RunInfo, state: ServerState, deltas: Sequence[Delta]) -> None:
    """Merge deltas into the state of one part, and store what changes by that."""
    before = _functions(state.statistics(is_last=True))
    _merge(state, deltas)
    statistics = state.statistics(is_last=True)
    if statistics is None:
        return
    with open_run(run) as provenance:
        stored = _functions(RunStatistics(functions=provenance.function_statistics()))
    functions = [
        with_later(stored.get(key), before.get(key), after) for key, after in _functions(statistics).items()
    ]
    engine = open_for_writing(run.used_store_url(info))
    try:
        # That of the streams came with their findings.
        Writer(engine, info.id).write_statistics(
            msgspec.structs.replace(statistics, functions=functions, health=[])
        )
    finally:
        close(engine)


def with_later(
    stored: FunctionStatistics | None, before: FunctionStatistics | None, after: FunctionStatistics
) -> FunctionStatistics:
    """Return a function's row in the store after more was learned of it. Calls that were judged again at the
    end of the run stay counted as they were judged.

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


def _deltas(folder: Path, info: RunInfo) -> dict[int, list[Delta]]:
    """Group deltas by the part of the parameter server."""
    found: dict[int, list[Delta]] = {}
    for agent in agents_in(folder):
        for part, deltas in left_deltas(agent, info.config).items():
            found.setdefault(part, []).extend(deltas)
    return found


def _restored(info: RunInfo, saved: SavedState | None, part: int) -> ServerState:
    state = ServerState(
        saved.lockstep_streams if saved else 0,
        schema_of(info.config.detector),
        is_frozen=info.config.is_frozen,
        part=part,
        parts=info.config.server_parts,
    )
    if saved is not None:
        state.restore(saved)
    return state


def _merge(state: ServerState, deltas: Sequence[Delta]) -> None:
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


def _save_model(run: RunDirectory, info: RunInfo, states: Sequence[ServerState]) -> None:
    """Save the model, with what the run began with and has not called."""
    of = info.config.detector, info.config.metric
    whole = joined_models([Model(*of, *state.learned()) for state in states])
    known = dict(zip(whole.functions, whole.table, strict=True))
    with suppress(ConfigError):
        before = load_model(run.model_path, info.config)
        known = dict(zip(before.functions, before.table, strict=True)) | known
    if known:
        save_model(run.model_path, Model(*of, list(known), np.array(list(known.values()))))
