"""``chimbuko run``: the analysis around a program, or over a recorded trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import msgspec

from chimbuko.ad.detectors import make_detector
from chimbuko.cli.launcher import Launcher, LaunchOptions, application_environment, check_agents
from chimbuko.cli.progress import Progress
from chimbuko.cli.summary import summarize, summary_lines
from chimbuko.config import METRICS, AnalysisConfig
from chimbuko.errors import ConfigError
from chimbuko.rundir import RUNS_FOLDER, RunDirectory, new_run
from chimbuko.trace.discovery import find_recorded
from chimbuko.trace.tau import application_settings

INTERRUPTED = 130
NOT_FOUND = 127
NOT_EXECUTABLE = 126


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "--trace", metavar="PATTERN", help="Analyse recorded BP files that match, as fast as they can be read."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the run (new).")
@click.option(
    "--store", metavar="URL", help="Provenance in PostgreSQL, by URL; default SQLite in the run's folder."
)
@click.option("--broker", metavar="URL", help="Redis or Valkey by URL; default a private one.")
@click.option("--agents", default=1, show_default=True, help="Agents that share the ranks of this node.")
@click.option(
    "--alpha", default=6.0, show_default=True, help="Flag calls outside mean ± alpha standard deviations."
)
@click.option(
    "--metric", type=click.Choice(METRICS), default="exclusive", show_default=True, help="Runtime to judge."
)
@click.option("--window", default=5, show_default=True, help="Calls kept before and after each anomaly.")
@click.option("--period", default=1.0, show_default=True, help="Seconds between two steps of the trace.")
@click.option("--lockstep", default=0, metavar="STREAMS", help="That many live streams wait for each other.")
@click.option("--port", default=0, help="Port of the dashboard; default any that is free.")
@click.option("--dashboard/--no-dashboard", default=None, help="Default: for live runs only.")
@click.option("--keep", is_flag=True, help="Keep the dashboard after the end, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Summary as JSON on standard output.")
@click.argument("command_line", metavar="[--] COMMAND...", nargs=-1, type=click.UNPROCESSED)
def command(
    trace: str | None,
    output: Path | None,
    store: str | None,
    broker: str | None,
    agents: int,
    alpha: float,
    metric: str,
    window: int,
    period: float,
    lockstep: int,
    port: int,
    dashboard: bool | None,
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
    """
    if bool(trace) == bool(command_line):
        raise ConfigError("give either a COMMAND after '--' or recorded streams with --trace PATTERN")
    if period <= 0 or window < 0:
        raise ConfigError("--period must be positive and --window must not be negative")
    recorded = find_recorded(trace) if trace else []
    check_agents(agents, recorded)
    config = AnalysisConfig(
        alpha=alpha,
        metric=metric,
        window_calls=window,
        period_us=round(period * 1e6),
        lockstep=bool(recorded or lockstep),
    )
    make_detector(config)
    name = "trace" if trace else Path(command_line[0]).name
    folder = output or RUNS_FOLDER / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    run = new_run(folder, list(command_line) or ["--trace", str(trace)], config, store)
    options = LaunchOptions(
        config=config,
        agents=agents,
        lockstep_streams=len(recorded) or lockstep,
        broker_url=broker,
        port=port,
        has_dashboard=keep or (not recorded if dashboard is None else dashboard),
        recorded=recorded,
    )
    sys.exit(Conductor(run, options, list(command_line)).conduct(keep, as_json))


class Conductor:
    """Leads one run from its first service to its summary."""

    def __init__(self, run: RunDirectory, options: LaunchOptions, command_line: list[str]) -> None:
        self._run = run
        self._options = options
        self._command_line = command_line
        self._interrupts = 0
        self._application: subprocess.Popen[bytes] | None = None

    def conduct(self, keep: bool, as_json: bool) -> int:
        """Exit code of the application; 130 where a recorded run was interrupted."""
        signal.signal(signal.SIGINT, self._on_interrupt)
        signal.signal(signal.SIGTERM, self._on_terminate)
        settings = self._settings()
        with Launcher(self._run, self._options) as launcher:
            if launcher.dashboard_url:
                _say(f"dashboard: {launcher.dashboard_url}")
            code = self._start_application(settings)
            if code == 0:
                code = self._watch(launcher)
            launcher.finish_analysis()
            self._note_end(launcher, code)
            self._report(launcher, as_json)
            if keep and launcher.dashboard_url and self._interrupts == 0:
                _say(f"dashboard stays at {launcher.dashboard_url} until Ctrl-C")
                while self._interrupts == 0:
                    signal.pause()
        return code

    def _settings(self) -> dict[str, str]:
        if not self._command_line:
            return {}
        run = self._run
        return application_settings(run.settings, run.trace, self._options.config.period_us, os.environ)

    def _start_application(self, settings: dict[str, str]) -> int:
        """0, or the code that a shell would give for a command that cannot be started."""
        if not self._command_line:
            return 0
        try:
            self._application = subprocess.Popen(self._command_line, env=application_environment(settings))
        except FileNotFoundError:
            _say(f"{self._command_line[0]}: no such command")
            return NOT_FOUND
        except OSError as error:
            _say(f"{self._command_line[0]}: cannot be run ({error.strerror})")
            return NOT_EXECUTABLE
        return 0

    def _watch(self, launcher: Launcher) -> int:
        """Wait for the application, or for the agents to be through with a recorded trace."""
        reported: set[str] = set()
        with Progress(launcher.broker) as progress:
            while self._is_going_on(launcher):
                progress.show_next()
                for name in set(launcher.dead_services()) - reported:
                    reported.add(name)
                    progress.say(f"{name} ended early; see {self._run.logs / name}.log")
        if self._application is None:
            return INTERRUPTED if self._interrupts else 0
        code = self._application.returncode
        return code if code >= 0 else 128 - code

    def _is_going_on(self, launcher: Launcher) -> bool:
        if self._application is not None:
            return self._application.poll() is None
        return launcher.is_analysing and self._interrupts == 0

    def _note_end(self, launcher: Launcher, code: int) -> None:
        info = self._run.read_info()
        summary = summarize(self._run, [])
        launcher.write_info(
            msgspec.structs.replace(
                info,
                state="interrupted" if self._interrupts else "finished",
                ended_us=time.time_ns() // 1000,
                exit_code=code if self._command_line else None,
                trace_bytes=summary.trace_bytes,
                stored_bytes=summary.stored_bytes,
            )
        )

    def _report(self, launcher: Launcher, as_json: bool) -> None:
        summary = summarize(self._run, launcher.problems)
        if as_json:
            print(msgspec.json.format(msgspec.json.encode(summary)).decode())
        else:
            for line in summary_lines(summary):
                print(line, file=sys.stderr)

    def _on_interrupt(self, signum: int, frame: object) -> None:
        """Ctrl-C reaches the application by itself; from the third on it is killed."""
        self._interrupts += 1
        if self._application is not None and self._application.poll() is None:
            if not sys.stdin.isatty():
                self._application.send_signal(signal.SIGINT)
            if self._interrupts == 2:
                self._application.terminate()
            elif self._interrupts > 2:
                self._application.kill()

    def _on_terminate(self, signum: int, frame: object) -> None:
        self._interrupts += 1
        if self._application is not None and self._application.poll() is None:
            self._application.terminate()


def _say(text: str) -> None:
    print(f"chimbuko: {text}", file=sys.stderr, flush=True)
