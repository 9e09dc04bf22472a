"""``chimbuko run``: the analysis around a program, over a replay, or over a recorded trace."""

from __future__ import annotations

import os
import platform
import sys
import time
from dataclasses import replace
from pathlib import Path

import click
import msgspec

from chimbuko.cli.options.analysis import AnalysisOptions, analysis_options
from chimbuko.cli.options.services import run_with_store, service_options
from chimbuko.errors import ConfigError
from chimbuko.launcher.agents import AgentOptions, check_agents
from chimbuko.launcher.controller import Conductor
from chimbuko.launcher.kernels import await_kernels
from chimbuko.launcher.services import AlertOptions, ServiceOptions
from chimbuko.launcher.transport import (
    StreamPlace,
    TransportOptions,
    place_streams,
    shielded,
    transport_options,
)
from chimbuko.runs.directory import RUNS_FOLDER
from chimbuko.runs.manifest import note_recorded
from chimbuko.trace.discovery import Transport, find_recorded
from chimbuko.trace.isolated import readable
from chimbuko.trace.tausettings import application_settings, transport_settings


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--trace",
    multiple=True,
    metavar="PATTERN",
    help="Analyse recorded BP files, as fast as they can be read. May be given again.",
)
@click.option(
    "--replay",
    multiple=True,
    metavar="PATTERN",
    help="Analyse recorded BP files as a live stream, over SST. May be given again.",
)
@click.option("--pace", default="original", show_default=True, help="Of a replay: original, N times, or max.")
@click.option("--lockstep", is_flag=True, help="Streams of a replay wait for each other, as with --trace.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the run (new).")
@click.option("--agents", default=1, show_default=True, help="Agents that share the ranks of this node.")
@transport_options
@service_options
@analysis_options
@click.option("--keep", is_flag=True, help="Keep the dashboard after the end, until Ctrl-C.")
@click.argument("command_line", metavar="[--] COMMAND...", nargs=-1, type=click.UNPROCESSED)
def command(
    trace: tuple[str, ...],
    replay: tuple[str, ...],
    pace: str,
    lockstep: bool,
    output: Path | None,
    transport: TransportOptions,
    store: str | None,
    broker: str | None,
    agents: int,
    analysis: AnalysisOptions,
    port: int,
    dashboard_processes: int,
    dashboard: bool | None,
    metrics: int | None,
    alerts: AlertOptions | None,
    keep: bool,
    as_json: bool,
    command_line: tuple[str, ...],
) -> None:
    """Run COMMAND with the analysis beside it, or analyse a recorded trace.

    COMMAND runs in your environment with TAU's settings added; its exit code is passed on.

    \b
    Examples:
      chimbuko run -- mpirun -n 4 tau_exec -T mpi,pthread -adios2_trace ./app
      chimbuko run -- chimbuko trace simulation.py --steps 100
      chimbuko run --trace 'traces/tau-metrics-*.bp' --json
      chimbuko run --trace 'first/*.bp' --trace 'second/*.bp'
      chimbuko run --replay 'traces/tau-metrics-*.bp' --pace 4
    """
    if sum(map(bool, (trace, replay, command_line))) != 1:
        raise ConfigError("give one of: a COMMAND after '--', --trace PATTERN, --replay PATTERN")
    if lockstep and not replay:
        raise ConfigError("--lockstep goes with --replay: how many streams a live program has is not known")
    recorded, unreadable = readable(find_recorded(trace + replay)) if trace or replay else ([], [])
    check_agents(agents, recorded)
    config = msgspec.structs.replace(analysis.config, lockstep=bool(trace) or lockstep)
    source = "trace" if trace else "replay"
    words = list(command_line) or [f"--{source}", *trace, *replay]
    await_kernels()
    name = Path(command_line[0]).name if command_line else source
    folder = output or RUNS_FOLDER / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    run = run_with_store(folder, words, config, store)
    if recorded:
        note_recorded(run, recorded)
    services = ServiceOptions(
        config=config,
        lockstep_streams=len(recorded) if config.lockstep else 0,
        programs=tuple(sorted({stream.program for stream in recorded} if trace else ())),
        broker_url=broker,
        has_dashboard=keep or (not trace if dashboard is None else dashboard),
        port=port,
        dashboard_processes=dashboard_processes,
        metrics_port=metrics,
        alerts=alerts,
        load_model=analysis.load_model,
        save_model=analysis.save_model,
    )
    problems = list(unreadable)
    place = None
    if not trace:
        # Over SST a replay waits for its readers, whatever its pace.
        wanted = replace(transport, transport=transport.transport or Transport.SST) if replay else transport
        place = place_streams(run, run.read_info().id, platform.node(), wanted)
        problems += place.refusals
    came = place.transport if place else Transport.RECORDED
    run.write_info(msgspec.structs.replace(run.read_info(), transport=came.value))
    readers = AgentOptions(
        config=config,
        node=platform.node(),
        names=tuple(f"agent-{index}" for index in range(agents)),
        place=place,
        recorded=recorded if trace else [],
    )
    application, environment = list(command_line), dict(os.environ)
    if replay and place is not None:
        application = _replay(replay, pace, place)
    elif place is not None:
        environment |= application_settings(
            run.settings, place.folder, config.period_us, os.environ, place.transport
        )
        environment = shielded(place, transport, environment, problems)
    conductor = Conductor(run, services, readers, application, environment, problems)
    sys.exit(conductor.conduct(analysis.relabel, keep, as_json))


def _replay(patterns: tuple[str, ...], pace: str, place: StreamPlace) -> list[str]:
    """The command that replays recorded streams into a run."""
    engine, _ = transport_settings(place.transport)
    words = [*patterns, "--to", str(place.folder), "--pace", pace, "--engine", engine]
    return [sys.executable, "-m", "chimbuko", "replay", *words]
