"""``chimbuko serve``: the services of a run whose agents are on other nodes."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import click
import msgspec
import redis

from chimbuko.cli.options.analysis import AnalysisOptions, analysis_options
from chimbuko.cli.options.services import run_with_store, service_options
from chimbuko.errors import ConfigError, ServiceError
from chimbuko.follow.space import MEMORY
from chimbuko.launcher.closing import close_run
from chimbuko.launcher.controller import INTERRUPTED
from chimbuko.launcher.kernels import await_kernels
from chimbuko.launcher.nodescript import node_command
from chimbuko.launcher.outcome.progress import Progress, say
from chimbuko.launcher.services import AlertOptions, ServiceOptions, Services
from chimbuko.process.lifetime import heed
from chimbuko.process.mishaps import Mishaps
from chimbuko.process.wakeup import Wakeup
from chimbuko.protocol.broker import LOOPBACK, address_of
from chimbuko.protocol.membership import RollCall
from chimbuko.runs.directory import RunDirectory, write_secret
from chimbuko.trace.discovery import Transport
from chimbuko.trace.tausettings import application_settings

LOOK_PERIOD_S = 0.5
"""Agents say no more often that they are there."""


@click.command("serve", short_help="Run the services of a run on many nodes.")
@click.argument("run_dir", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--bind",
    default=LOOPBACK,
    show_default=True,
    metavar="WHERE[:PORT]",
    help="What the broker listens on: a network interface, an address, or a name of this host.",
)
@click.option(
    "--streams",
    type=click.Path(path_type=Path),
    help=f"Folder, on each node's own storage, where streams meet their agent; default {MEMORY}, and over "
    "SST trace/ of the run.",
)
@click.option(
    "--transport",
    type=click.Choice([Transport.FILES.value, Transport.SST.value]),
    default=Transport.FILES.value,
    show_default=True,
    help="How traces come to the agent of their node: through files in its memory, or over SST.",
)
@service_options
@analysis_options
def command(
    run_dir: Path,
    bind: str,
    streams: Path | None,
    transport: str,
    store: str | None,
    broker: str | None,
    port: int,
    dashboard_processes: int,
    dashboard: bool | None,
    metrics: int | None,
    alerts: AlertOptions | None,
    as_json: bool,
    analysis: AnalysisOptions,
) -> None:
    """Run the services of RUN, a new folder on a file system that all nodes share.

    Agents join with 'chimbuko agent RUN', and programs are started with RUN/settings/node. It ends, with
    the summary, after 'chimbuko stop RUN' (or SIGTERM) when all agents have ended; a second signal ends it
    without them. Address and password of the broker are in RUN/broker, and the address of the dashboard is
    in RUN/dashboard; only you can read these.

    \b
    Examples:
      chimbuko serve runs/heat
      chimbuko serve runs/heat --bind ib0 --streams /tmp/heat
      chimbuko stop runs/heat
    """
    address = _address(bind)
    await_kernels()
    run = run_with_store(run_dir, ["chimbuko", "serve", str(run_dir)], analysis.config, store)
    info = run.read_info()
    run.write_info(msgspec.structs.replace(info, transport=transport))
    settings = {
        one: application_settings(run.settings, run.trace, analysis.config.period_us, os.environ, one)
        for one in (Transport.FILES, Transport.SST)
    }
    # A folder of the node may hold what is left of other runs.
    in_memory = MEMORY / f"chimbuko-{info.id}" if transport == Transport.FILES else run.trace
    folder = (streams / info.id if streams else in_memory).absolute()
    run.streams_path.write_text(str(folder))
    run.node_command.write_text(node_command(settings, folder))
    run.node_command.chmod(0o700)
    options = ServiceOptions(
        config=analysis.config,
        broker_url=broker,
        bind=address,
        has_dashboard=dashboard is not False,
        port=port,
        dashboard_processes=dashboard_processes,
        metrics_port=metrics,
        alerts=alerts,
        load_model=analysis.load_model,
        save_model=analysis.save_model,
    )
    sys.exit(Host(run, options).host(analysis.relabel, as_json))


class Host:
    """Keeps the services of one run until it is to end and all its agents have ended."""

    def __init__(self, run: RunDirectory, options: ServiceOptions) -> None:
        self._run = run
        self._options = options
        self._signals = 0
        self._problems: list[str] = []
        self._mishaps = Mishaps(self._problems)

    def host(self, is_relabelling: bool, as_json: bool) -> int:
        """Exit code: 130 where agents were not waited for."""
        heed([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], self._on_signal)
        problems = self._problems
        with Wakeup() as wakeup, Services(self._run, self._options, problems) as services:
            roll_call = RollCall(services.client)
            roll_call.look()
            services.wait_ready()
            try:
                self._announce(services)
                self._wait_for_end(services, roll_call, wakeup)
            finally:
                with suppress(OSError):
                    self._run.dashboard_path.unlink(missing_ok=True)
            services.finish()
            problems += roll_call.problems
            is_whole = self._signals < 2
            state = "finished" if is_whole else "interrupted"
            closing_code = close_run(self._run, services, problems, state, None, is_relabelling, as_json)
        return closing_code if is_whole else INTERRUPTED

    def _announce(self, services: Services) -> None:
        """Say that it can begin. Job scripts' output can often be read by others: no secrets in it."""
        if not self._run.broker_path.exists():
            raise ServiceError(f"{self._run.broker_path}: cannot be written, so no agent can join")
        if services.dashboard_url:
            write_secret(self._run.dashboard_path, services.dashboard_url)
            say(f"the dashboard's address is in {self._run.dashboard_path}")
        if services.metrics_url:
            say(f"metrics: {services.metrics_url}")
        is_local = not self._options.broker_url and self._options.bind[0].startswith("127.")
        who = "agents of this node" if is_local else "agents"
        say(f"services are ready; {who} join with: chimbuko agent {self._run.path}")

    def _wait_for_end(self, services: Services, roll_call: RollCall, wakeup: Wakeup) -> None:
        with Progress(services.client, services.info.id) as progress:
            while not roll_call.is_over and self._signals < 2:
                roll_call.is_ending = roll_call.is_ending or self._signals > 0
                self._look(progress, services, roll_call)
                wakeup.wait(LOOK_PERIOD_S, services.visitors)

    def _look(self, progress: Progress, services: Services, roll_call: RollCall) -> None:
        """See once that all goes on; what fails is tried again at the next look."""
        with self._mishaps.survived("the services cannot be looked after"):
            progress.show()
            lines = services.look_after()
            # A broker that is away comes back, or 'look_after' brings it back.
            with suppress(redis.RedisError):
                lines += roll_call.look()
            for line in lines:
                progress.say(line)

    def _on_signal(self, signum: int, frame: object) -> None:
        self._signals += 1


def _address(bind: str) -> tuple[str, int]:
    name, colon, port = bind.partition(":")
    if colon and not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise ConfigError(f"--bind {bind}: {port!r} is no port; give one like ib0:6400")
    address = address_of(name)
    if address == "0.0.0.0":
        raise ConfigError("--bind 0.0.0.0: agents need the address of one network; name it, or its interface")
    return address, int(port or 0)
