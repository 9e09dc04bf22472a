"""Puts a run on this node together from what is asked for, and leads it."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from chimbuko.capture.symbols.buildid import build_of
from chimbuko.capture.trace.discovery import StreamName, Transport, find_recorded
from chimbuko.capture.trace.recordedstreams import note_recorded
from chimbuko.capture.trace.tausettings import application_settings, transport_settings
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ChimbukoError, ConfigError, ServiceError
from chimbuko.launcher.application import Begun, begin, is_apart, is_left
from chimbuko.launcher.controller import Controller
from chimbuko.launcher.kernels import await_kernels
from chimbuko.launcher.options import AgentOptions, RunOptions, check_agents
from chimbuko.launcher.services.choices import ServiceChoices, ServiceOptions
from chimbuko.launcher.transport import StreamPlace, place_streams, shielded
from chimbuko.provenance.store.urls import public_url
from chimbuko.runtime.process.cores import pin
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.signals import ended_by_ctrl_c
from chimbuko.runtime.process.starting import load
from chimbuko.runtime.process.usercommand import CommandError, check_command
from chimbuko.runtime.protocol.brokerplace import metrics_of_part, metrics_place
from chimbuko.runtime.runs import finding
from chimbuko.runtime.runs.directory import RUNS_FOLDER, RunDirectory, new_run
from chimbuko.runtime.runs.environment import labelled, surroundings
from chimbuko.runtime.runs.programname import as_folder, program_of
from chimbuko.runtime.runs.scratch import ensure_temporary_files

if TYPE_CHECKING:
    from chimbuko.launcher.closing import Show


def lead(options: RunOptions, show: Show) -> int:
    """Make the run's folder, and lead the run to its end.

    A program begins first: from then on it goes on whatever becomes of the analysis. The exit code is the
    program's, or 130 where a recorded run was interrupted.

    Raises
    ------
    ChimbukoError
        What was given is wrong, and nothing was started; or the analysis of what was recorded cannot begin.
    """
    if options.command:
        check_command(_started(options)[0])
    recorded, others, problems = _recorded(options)
    if not others:
        check_agents(options.agents, recorded)
    config = msgspec.structs.replace(
        options.analysis.config, lockstep=bool(options.trace) or options.lockstep
    )
    _check_ports(options.services, config.server_parts)
    if options.cores and is_apart():
        pin(options.cores)
    if options.is_in_one_process:
        await_kernels()
        with ended_by_ctrl_c():
            load("chimbuko.launcher.tracecontroller")
    run = _folder(options, config, _program(options.command, others, recorded))
    ensure_temporary_files(run)
    if others:
        period_us = options.analysis.config.period_us
        recorded += taken_in(run, others, options.agents, period_us, problems)
    if recorded:
        note_recorded(run, recorded)
    try:
        place = _place(options, run)
        begun = None if place is None else _begin(options, run, place, problems)
    except ChimbukoError:
        _discard(run)
        raise
    readers = AgentOptions(
        config=config,
        node=platform.node(),
        names=tuple(f"agent-{index}" for index in range(options.agents)),
        place=place,
        recorded=recorded if options.trace else [],
    )
    services = _services(options, config, recorded)
    if begun is None:
        run.write_info(msgspec.structs.replace(run.read_info(), transport=Transport.RECORDED.value))
    if options.is_in_one_process:
        code = _led_in_one_process(options, run, services, recorded, problems, show)
        if code is not None:
            return code
    controller = Controller(run, services, readers, begun, problems)
    return controller.lead(options.analysis.relabel, options.keep, show)


def _led_in_one_process(
    options: RunOptions,
    run: RunDirectory,
    services: ServiceOptions,
    recorded: list[StreamName],
    problems: list[str],
    show: Show,
) -> int | None:
    """Analyse recorded streams in one process; return the exit code, or None if that came to no end."""
    from chimbuko.launcher.tracecontroller import RecordedTrace, TraceController, Unfinished

    trace = RecordedTrace(recorded, platform.node(), min(len(recorded), len(os.sched_getaffinity(0))))
    try:
        return TraceController(run, services, trace, problems).lead(options.analysis.relabel, show)
    except Unfinished as error:
        log(f"{error}; all is analysed once more, by separate processes")
        return None


def run_with_store(
    folder: Path,
    command: list[str],
    config: AnalysisConfig,
    store: str | None,
    labels: Sequence[str] = (),
) -> RunDirectory:
    """Make a new run; where ``store`` is a URL, only a file that nobody else can read holds its password."""
    shown_url = None if store is None else public_url(store)
    facts = surroundings() | {"build": build_of(command)} | labelled(labels)
    run = new_run(folder, command, config, shown_url, {name: one for name, one in facts.items() if one})
    if store is not None:
        run.write_store_url(store)
    if run.path.parent.name != RUNS_FOLDER.name:
        finding.note(run.read_info().id, run.path)
    return run


def recorded_at(patterns: Sequence[str]) -> tuple[list[StreamName], list[str]]:
    """Return the streams that were recorded, and a line for each that cannot be read."""
    if not patterns:
        return [], []
    # Here, as the module in the next functions: it is not loaded before a program starts.
    from chimbuko.capture.trace.isolated import readable

    return readable(find_recorded(patterns))


def _recorded(options: RunOptions) -> tuple[list[StreamName], Sequence[Path], list[str]]:
    """Return recorded streams, files of other tools, and a line for each stream that cannot be read."""
    others: Sequence[Path] = ()
    patterns = options.replay
    if options.trace:
        from chimbuko.capture.formats.apart import sorted_out

        traces = sorted_out(options.trace)
        patterns, others = traces.streams, traces.others
    recorded, problems = recorded_at(patterns)
    return recorded, others, problems


def taken_in(
    run: RunDirectory, files: Sequence[Path], agents: int, period_us: int, problems: list[str]
) -> list[StreamName]:
    """Make streams of traces of other tools; where that cannot be done the run is discarded."""
    from chimbuko.capture.formats.apart import convert_apart

    try:
        converted = convert_apart(files, run.trace, period_us)
        check_agents(agents, converted.streams)
    except (ChimbukoError, KeyboardInterrupt):
        _discard(run)
        raise
    problems += converted.complaints
    return converted.streams


def _discard(run: RunDirectory) -> None:
    """Remove all of a run that has not begun; what else is in its folder stays."""
    run.info_path.unlink(missing_ok=True)
    for folder in (run.logs, run.trace, run.settings):
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        run.path.rmdir()


def _program(command: Sequence[str], others: Sequence[Path], recorded: Sequence[StreamName]) -> str:
    """Return the name of the program that the run is of, or of the first that was recorded."""
    if command:
        return program_of(command)
    if others:
        from chimbuko.capture.formats.conversion import program_name

        return program_name(others[0])
    return recorded[0].program if recorded else "trace"


def _folder(options: RunOptions, config: AnalysisConfig, program: str) -> RunDirectory:
    source = "trace" if options.trace else "replay"
    words = list(options.command) or [f"--{source}", *options.trace, *options.replay]
    folder = options.folder or RUNS_FOLDER / f"{time.strftime('%Y%m%d-%H%M%S')}-{as_folder(program)}"
    left = RunDirectory(folder.absolute())
    with suppress(ConfigError):
        if is_left(left.read_info().started_us):
            _discard(left)
    return run_with_store(folder, words, config, options.services.store, options.analysis.labels)


def _services(options: RunOptions, config: AnalysisConfig, recorded: Sequence[StreamName]) -> ServiceOptions:
    wanted = options.services
    is_shown = not options.trace if wanted.dashboard is None else wanted.dashboard
    return ServiceOptions(
        config=config,
        lockstep_streams=len(recorded) if config.lockstep else 0,
        programs=tuple(sorted({stream.program for stream in recorded} if options.trace else ())),
        has_dashboard=options.keep or is_shown,
        is_separate=options.is_separate,
        choices=wanted,
        load_model=options.analysis.load_model,
        # What is recorded shall be judged alike whenever it is analysed, unless a model is given.
        is_of_series=options.analysis.is_of_series and bool(options.command),
        save_model=options.analysis.save_model,
    )


def _place(options: RunOptions, run: RunDirectory) -> StreamPlace | None:
    """Choose the place for streams; None if all are recorded."""
    if options.trace:
        return None
    wanted = options.transport
    if options.replay:
        # Over SST a replay waits for its readers, whatever its pace.
        wanted = replace(wanted, transport=wanted.transport or Transport.SST)
    return place_streams(run, run.read_info().id, platform.node(), wanted)


def _started(options: RunOptions) -> Sequence[str]:
    return options.started or options.command


def _begin(options: RunOptions, run: RunDirectory, place: StreamPlace, problems: list[str]) -> Begun:
    """Start the user's program, or the replay that stands for one.

    Raises
    ------
    CommandError
        It cannot be run.
    """
    problems += place.refusals
    environment = dict(os.environ)
    words = list(_started(options))
    if options.replay:
        engine, _ = transport_settings(place.transport)
        replayed = [*options.replay, "--to", str(place.folder), "--pace", options.pace, "--engine", engine]
        words = [sys.executable, "-m", "chimbuko", "replay", *replayed]
    else:
        period_us = options.analysis.config.period_us
        environment |= application_settings(
            run.settings, place.folder, period_us, os.environ, place.transport
        )
        environment = shielded(place, options.transport, environment, problems)
    run.write_info(msgspec.structs.replace(run.read_info(), transport=place.transport.value))
    try:
        return begin(words, environment, run.info_path, bool(options.replay), place.guard)
    except CommandError:
        shutil.rmtree(place.guard.folder, ignore_errors=True)
        raise


def _check_ports(wanted: ServiceChoices, server_parts: int) -> None:
    """Refuse ports that are taken, while nothing has been started that would run without them."""
    if wanted.port:
        wanted.front.listen(wanted.port).close()
    for part in range(server_parts if wanted.metrics is not None else 0):
        address, port = metrics_place(metrics_of_part(wanted.metrics or "", part))
        try:
            socket.create_server((address, port)).close()
        except OSError as error:
            raise ServiceError(
                f"--metrics {wanted.metrics}: port {port} of {address} cannot be used ({error.strerror}); "
                "choose another, 0 takes any"
            ) from None
