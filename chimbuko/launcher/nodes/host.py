"""The services of a run whose agents are on other nodes."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import msgspec
import redis

from chimbuko.errors import ServiceError
from chimbuko.follow.space import MEMORY
from chimbuko.launcher.assembly import run_with_store
from chimbuko.launcher.closing import Show, close_run
from chimbuko.launcher.controller import INTERRUPTED
from chimbuko.launcher.kernels import await_kernels
from chimbuko.launcher.nodes.nodescript import node_command
from chimbuko.launcher.options import AnalysisOptions, ServiceChoices
from chimbuko.launcher.outcome.progress import Progress, say
from chimbuko.launcher.services import ServiceOptions, Services
from chimbuko.process.lifetime import heed
from chimbuko.process.mishaps import Mishaps
from chimbuko.process.wakeup import Wakeup
from chimbuko.protocol.membership import Membership
from chimbuko.runs.directory import RunDirectory, write_secret
from chimbuko.trace.discovery import Transport
from chimbuko.trace.tausettings import application_settings

LOOK_PERIOD_S = 0.5
"""Agents say no more often that they are there."""


def host(
    folder: Path,
    analysis: AnalysisOptions,
    services: ServiceChoices,
    transport: Transport,
    bind: tuple[str, int],
    streams: Path | None,
    show: Show,
) -> int:
    """Make a run's folder on a file system that all nodes share, and lead the run; exit code.

    Parameters
    ----------
    bind
        Address and port that the broker listens on; port 0 for any that is free.
    streams
        Folder for streams, on each node's own storage; None for one in its memory.
    """
    await_kernels()
    run = run_with_store(folder, ["chimbuko", "serve", str(folder)], analysis.config, services.store)
    info = run.read_info()
    run.write_info(msgspec.structs.replace(info, transport=transport.value))
    settings = {
        one: application_settings(run.settings, run.trace, analysis.config.period_us, os.environ, one)
        for one in (Transport.FILES, Transport.SST)
    }
    # A folder of the node may hold what is left of other runs.
    in_memory = MEMORY / f"chimbuko-{info.id}" if transport is Transport.FILES else run.trace
    on_node = (streams / info.id if streams else in_memory).absolute()
    run.streams_path.write_text(str(on_node))
    run.node_command.write_text(node_command(settings, on_node))
    run.node_command.chmod(0o700)
    options = ServiceOptions(
        config=analysis.config,
        bind=bind,
        has_dashboard=services.dashboard is not False,
        choices=services,
        load_model=analysis.load_model,
        save_model=analysis.save_model,
    )
    return Host(run, options).host(analysis.relabel, show)


class Host:
    """Keeps the services of one run until it is to end and all its agents have ended."""

    def __init__(self, run: RunDirectory, options: ServiceOptions) -> None:
        self._run = run
        self._options = options
        self._signals = 0
        self._problems: list[str] = []
        self._mishaps = Mishaps(self._problems)

    def host(self, is_relabelling: bool, show: Show) -> int:
        """Lead the run to its end; exit code: 130 where agents were not waited for."""
        heed([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], self._on_signal)
        problems = self._problems
        with Wakeup() as wakeup, Services(self._run, self._options, problems) as services:
            membership = Membership(services.broker)
            membership.look()
            services.wait_ready()
            try:
                self._announce(services)
                self._wait_for_end(services, membership, wakeup)
            finally:
                with suppress(OSError):
                    self._run.dashboard_path.unlink(missing_ok=True)
            services.finish()
            problems += membership.problems
            is_whole = self._signals < 2
            state = "finished" if is_whole else "interrupted"
            result = close_run(self._run, services, problems, state, None, is_relabelling)
            show(result)
        return result.store_code if is_whole else INTERRUPTED

    def _announce(self, services: Services) -> None:
        """Say that it can begin. Job scripts' output can often be read by others: no secrets in it."""
        if not self._run.broker_path.exists():
            raise ServiceError(f"{self._run.broker_path}: cannot be written, so no agent can join")
        if services.dashboard_url:
            write_secret(self._run.dashboard_path, services.dashboard_url)
            say(f"the dashboard's address is in {self._run.dashboard_path}")
        if services.metrics_url:
            say(f"metrics: {services.metrics_url}")
        is_local = not self._options.choices.broker and self._options.bind[0].startswith("127.")
        who = "agents of this node" if is_local else "agents"
        say(f"services are ready; {who} join with: chimbuko agent {self._run.path}")

    def _wait_for_end(self, services: Services, membership: Membership, wakeup: Wakeup) -> None:
        with Progress(services.broker) as progress:
            while not membership.is_over and self._signals < 2:
                membership.is_ending = membership.is_ending or self._signals > 0
                self._look(progress, services, membership)
                wakeup.wait(LOOK_PERIOD_S, services.visitors)

    def _look(self, progress: Progress, services: Services, membership: Membership) -> None:
        """See once that all goes on; what fails is tried again at the next look."""
        with self._mishaps.survived("the services cannot be looked after"):
            progress.show()
            lines = services.look_after()
            # A broker that is away comes back, or 'look_after' brings it back.
            with suppress(redis.RedisError):
                lines += membership.look()
            for line in lines:
                progress.say(line)

    def _on_signal(self, signum: int, frame: object) -> None:
        self._signals += 1
