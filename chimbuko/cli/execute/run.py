"""``chimbuko run``: the analysis around a program, over a replay, or over a recorded trace."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chimbuko.capture.follow.limits import Limits
from chimbuko.capture.follow.space import MEMORY
from chimbuko.capture.trace.discovery import Transport
from chimbuko.cli.execute.recordedcommand import recorded_command
from chimbuko.cli.shared.analysis import analysis_options
from chimbuko.cli.shared.placing import advised_option
from chimbuko.cli.shared.services import service_options
from chimbuko.core.redaction import PROGRAM_ONLY_VARIABLE
from chimbuko.core.units import parse_size
from chimbuko.instrument.recorder.overhead import NO_OPENMP_VARIABLE, OVERHEAD_VARIABLE, parse_overhead
from chimbuko.launcher.assembly import lead
from chimbuko.launcher.options import AnalysisOptions, RunOptions, TransportOptions
from chimbuko.launcher.services.choices import ServiceChoices

if TYPE_CHECKING:
    from chimbuko.launcher.outcome.summary import Result


SHIELD_MODES = ("auto", "off")


def transport_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the transport; it gets them as ``transport``, a ``TransportOptions``."""

    @functools.wraps(command)
    def with_transport(
        transport: str | None,
        trace_dir: Path | None,
        keep_trace: bool,
        trace_limit: str,
        node_limit: str,
        sst_shield: str,
        **values: Any,
    ) -> None:
        options = TransportOptions(
            transport=None if transport is None else Transport(transport),
            trace_dir=trace_dir,
            keep_trace=keep_trace,
            limits=Limits(parse_size(trace_limit), parse_size(node_limit)),
            has_shield=sst_shield == "auto",
        )
        command(transport=options, **values)

    wrapped: Callable[..., None] = with_transport
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


_OPTIONS = (
    click.option(
        "--transport",
        type=click.Choice([Transport.FILES.value, Transport.SST.value]),
        help="How the trace reaches its readers: through files in this node's memory, where nothing that "
        "happens to a reader can affect the program (the default), or over SST.",
    ),
    click.option(
        "--trace-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help=f"Folder for these files, on a local disk; default {MEMORY}, or $TMPDIR where that has no room.",
    ),
    click.option(
        "--trace-limit",
        default="64MB",
        show_default=True,
        help="Most that one stream may hold unread; beyond it its oldest steps are dropped, and counted.",
    ),
    click.option(
        "--node-limit",
        default="1GB",
        show_default=True,
        help="Most that all streams of a node together may hold unread.",
    ),
    click.option("--keep-trace", is_flag=True, help="Keep the whole trace in the run's folder."),
    click.option(
        "--sst-shield",
        type=click.Choice(SHIELD_MODES),
        default=SHIELD_MODES[0],
        show_default=True,
        help="Over SST, preload a small library that keeps the program alive when a reader dies while it "
        "joins; auto does so where the library has been tried with the program's build of ADIOS2.",
    ),
)


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--trace",
    multiple=True,
    metavar="PATTERN",
    help="Analyse recorded traces as fast as they can be read: BP files, or those of other tools (PyTorch, "
    "PerfFlowAspect, Chrome, Perfetto, speedscope, Caliper, OTF2, rocprofv3, Nsight Systems). Repeatable.",
)
@click.option(
    "--replay",
    multiple=True,
    metavar="PATTERN",
    help="Analyse recorded BP files as live streams, over SST. Repeatable.",
)
@click.option(
    "--pace",
    default="original",
    show_default=True,
    help="Speed of a replay: original, N times as fast, or max.",
)
@click.option(
    "--lockstep", is_flag=True, help="Have the streams of a replay wait for each other, as with --trace."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="New folder for the run.")
@click.option(
    "--agents", default=1, show_default=True, help="Number of agents that share the ranks of this node."
)
@click.option(
    "--separate",
    is_flag=True,
    help="Give each service a process of its own, as on many nodes; by default parameter server and writer "
    "share one, and one process analyses a recorded trace. --server-parts, --store-writers and --namespaces "
    "imply it.",
)
@click.option(
    "--overhead",
    metavar="PERCENT",
    help="Part of a program's time that recording its functions may cost, such as 2%, the default.",
)
@click.option("--no-openmp", is_flag=True, help="Record no regions, barriers and other constructs of OpenMP.")
@click.option(
    "--cores", default="", metavar="LIST", help="Cores that the analysis keeps to, such as 0 or 0,2-5."
)
@click.option(
    "--no-command-line",
    is_flag=True,
    help="Keep the program's name only, and none of its arguments; also set by CHIMBUKO_NO_COMMAND_LINE.",
)
@click.option(
    "--advise", is_flag=True, help="At the end, say where and how the analysis had best run the next time."
)
@advised_option("agents", "cores", "period", "transport")
@transport_options
@service_options
@analysis_options
@click.option("--keep", is_flag=True, help="Keep the dashboard open after the end, until Ctrl-C.")
@click.argument("command_line", metavar="[--] COMMAND...", nargs=-1, type=click.UNPROCESSED)
def command(
    trace: tuple[str, ...],
    replay: tuple[str, ...],
    pace: str,
    lockstep: bool,
    output: Path | None,
    agents: int,
    separate: bool,
    overhead: str | None,
    no_openmp: bool,
    cores: str,
    no_command_line: bool,
    advise: bool,
    transport: TransportOptions,
    services: ServiceChoices,
    analysis: AnalysisOptions,
    keep: bool,
    as_json: bool,
    command_line: tuple[str, ...],
) -> None:
    """Run COMMAND with the analysis beside it, or analyse a recorded trace.

    COMMAND runs in your environment with TAU's settings added; its exit code is passed on. A Python script,
    a Python with a script or module behind it, and a binary of yours are run by ``chimbuko trace``, and so
    is what torchrun, mpirun, mpiexec or srun start on this node.

    \b
    Examples:
      chimbuko run simulation.py --steps 100
      chimbuko run -- python -m package.tool input.nc
      chimbuko run -- mpirun -n 4 ./app input.nml
      chimbuko run -- mpirun -n 4 tau_exec -T mpi,pthread -adios2_trace ./app
      chimbuko run --advise -o first -- mpirun -n 4 python solver.py
      chimbuko run --advised first -- mpirun -n 4 python solver.py
      chimbuko run --trace 'traces/tau-metrics-*.bp' --json
      chimbuko run --trace 'first/*.bp' --trace 'second/*.bp'
      chimbuko run --trace 'log/rank*.pt.trace.json'
      chimbuko run --trace perfflow.array.node7.4711.pfw
      chimbuko run --replay 'traces/tau-metrics-*.bp' --pace 4
    """
    if overhead is not None:
        # The command, and what it starts on other nodes, has it from its environment, like TAU's settings.
        os.environ[OVERHEAD_VARIABLE] = parse_overhead(overhead)
    if no_openmp:
        os.environ[NO_OPENMP_VARIABLE] = "1"
    if no_command_line:
        os.environ[PROGRAM_ONLY_VARIABLE] = "1"
    options = RunOptions(
        command=command_line,
        started=tuple(recorded_command(command_line)),
        trace=trace,
        replay=replay,
        pace=pace,
        lockstep=lockstep,
        folder=output,
        agents=agents,
        is_separate=separate,
        cores=cores,
        keep=keep,
        analysis=analysis,
        services=services,
        transport=transport,
    )

    def shown(result: Result) -> None:
        # Here because nothing of it is needed to start the program.
        from chimbuko.cli.shared.result import show

        show(result, as_json, advise)

    sys.exit(lead(options, shown))
