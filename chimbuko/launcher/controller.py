"""Leads one run from its first service to its summary."""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress

import redis

from chimbuko.capture.follow.presence import Role, announce
from chimbuko.core.errors import ServiceError
from chimbuko.launcher.agents import RESCUE_AFTER_S, AgentOptions, Agents
from chimbuko.launcher.application import Application, application_to_start, news_of_application
from chimbuko.launcher.closing import Show, close_run
from chimbuko.launcher.outcome.progress import FrameHealth, Progress, say
from chimbuko.launcher.outcome.recovery import note_failed_start
from chimbuko.launcher.services.addressfile import AddressFile
from chimbuko.launcher.services.choices import ServiceOptions
from chimbuko.launcher.services.services import Services
from chimbuko.launcher.transport import shield_news
from chimbuko.provenance.manage.lifecycle import INTERRUPTED
from chimbuko.runtime.process.failures import Failures, words_of
from chimbuko.runtime.process.lifetime import OOM_VARIABLE
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.usercommand import FOR_THE_COMMAND, CommandError
from chimbuko.runtime.process.wakeup import Wakeup
from chimbuko.runtime.runs.directory import RunDirectory

INTERRUPTED_CODE = 130
STDERR = 2
LOOK_S = 0.5
"""Seconds between two looks, where nothing happens."""


class Controller:
    """Starts services, agents and application, waits for their end, and shows what was found.

    Parameters
    ----------
    application, environment
        Command to run and its whole environment; no command for a recorded trace.
    problems
        One line each, for what was wrong from the start.
    """

    def __init__(
        self,
        run: RunDirectory,
        services: ServiceOptions,
        agents: AgentOptions,
        application: list[str],
        environment: dict[str, str],
        problems: list[str],
    ) -> None:
        self._run = run
        self._services = services
        self._agents = agents
        self._command_line = application
        self._environment = environment
        self._problems = problems
        self._failures = Failures(problems)
        self._address = AddressFile(run.dashboard_path)
        self._interrupts = 0
        self._rescue_at_s = math.inf
        self._to_start = application_to_start()
        self._application: Application | None = None
        """The application, once it runs."""
        self._has_begun = False

    def lead(self, is_relabelling: bool, keep: bool, show: Show) -> int:
        """Lead the run to its end; exit code of the application; 130 where a recorded run was interrupted.

        Once the application runs nothing is raised: whatever fails, it is waited for.

        Raises
        ------
        ChimbukoError
            The analysis cannot begin; the application was not started.
        """
        heed(FROM_OTHERS, self._on_interrupt)
        heed(FOR_THE_COMMAND, self._to_start.pass_on)
        code = 0
        try:
            code = self._lead(is_relabelling, keep, show)
        except (OSError, MemoryError, redis.RedisError) as error:
            if self._application is None:
                raise ServiceError(f"the analysis cannot be done: {words_of(error)}") from error
            say(f"the analysis ended early: {words_of(error)}")
        except Exception as error:
            if self._application is None:
                raise
            say(f"the analysis ended early: {words_of(error)}")
        finally:
            self._tidy_up()
            if not self._has_begun:
                note_failed_start(self._run)
        # The program's own code, whatever happens to the analysis.
        return code if self._application is None else self._application.wait()

    def _lead(self, is_relabelling: bool, keep: bool, show: Show) -> int:
        """Exit code where no application was started."""
        problems, run_id = self._problems, self._run.read_info().id
        with Wakeup() as wakeup, Services(self._run, self._services, problems) as services:
            with Agents(self._run, run_id, self._agents, services.broker_url, problems) as agents:
                services.wait_ready()
                agents.wait_ready()
                self._has_begun = True
                if services.dashboard_url:
                    self._address.keep(services.dashboard_url)
                    say(f"dashboard: {self._address.words_for(STDERR)}")
                    if tunnel := self._address.tunnel():
                        say(f"from the computer where you sit: {tunnel}")
                if services.metrics_url:
                    say(f"metrics: {services.metrics_url} (its token: {services.run.metrics_token_path})")
                code = self._start_application()
                if code == 0:
                    code = self._watch(services, agents, wakeup)
            services.finish()
            state = INTERRUPTED if self._interrupts else "finished"
            exit_code = code if self._command_line else None
            asked = self._interrupts
            result = close_run(
                *(self._run, services.place, problems, state, exit_code, is_relabelling),
                is_hasty=lambda: self._interrupts > asked,
            )
            show(result)
            if keep and services.dashboard_url and self._interrupts == 0:
                say(f"dashboard stays until Ctrl-C: {self._address.words_for(STDERR)}")
                # Not signal.pause(): a signal just before it would be waited for again, for ever.
                while self._interrupts == 0:
                    with self._failures.survived("the dashboard cannot be looked after"):
                        services.look_after_dashboard()
                    wakeup.wait(LOOK_S, services.visitors)
        return code if self._command_line else code or result.store_code

    def _tidy_up(self) -> None:
        """Remove the address, and the folder of the streams where no guard has come that would do it."""
        self._address.remove()
        if self._agents.place is not None:
            with suppress(OSError):
                os.rmdir(self._agents.place.guard.folder)

    def _start_application(self) -> int:
        """0, or the code that a shell would give for a command that cannot be started."""
        if not self._command_line:
            return 0
        if self._interrupts:
            return INTERRUPTED_CODE
        own = {name: value for name, value in self._environment.items() if name != OOM_VARIABLE}
        try:
            self._to_start.start(self._command_line, own)
        except CommandError as error:
            say(str(error))
            return error.exit_code
        self._application = self._to_start
        if self._agents.place is not None:
            # Without a word of it the guard looks at its streams alone.
            with suppress(OSError):
                announce(
                    self._agents.place.guard.folder, "application", Role.APPLICATION, self._application.pid
                )
        return 0

    def _watch(self, services: Services, agents: Agents, wakeup: Wakeup) -> int:
        """Wait for the application (or the agents, for a recorded trace), then for the agents to deliver."""
        application = news_of_application()
        with Progress(FrameHealth(services.broker)) as progress:
            while self._is_going_on(agents):
                self._look(progress, services, agents)
                wakeup.wait(LOOK_S, [*services.visitors, *application])
            if self._agents.place is not None:
                with self._failures.survived("what the shield reports cannot be read"):
                    self._problems += shield_news(self._agents.place, self._environment, agents.streams_seen)
            # What they still have to deliver, they cannot without the services.
            for _ in agents.delivering(lambda: self._rescue_at_s):
                self._look(progress, services, None)
                wakeup.wait(LOOK_S, services.visitors)
        if self._application is None and agents.has_failed:
            return ServiceError.exit_code
        if self._application is None:
            return INTERRUPTED_CODE if self._interrupts else 0
        return self._application.wait()

    def _look(self, progress: Progress, services: Services, agents: Agents | None) -> None:
        """See once how far all is and that it goes on; what fails is tried again at the next look."""
        with self._failures.survived("the analysis cannot be looked after"):
            progress.show()
            if self._interrupts and self._rescue_at_s == math.inf:
                self._rescue_at_s = time.monotonic() + RESCUE_AFTER_S
                services.hasten(is_interrupted=True)
            for line in (*services.look_after(), *(agents.look_after() if agents else ())):
                progress.say(line)
            self._address.keep(services.dashboard_url)

    def _is_going_on(self, agents: Agents) -> bool:
        if self._application is not None:
            return self._application.poll() is None
        return agents.is_analysing and not agents.has_failed and self._interrupts == 0

    def _on_interrupt(self, number: int, frame: object) -> None:
        """Note that the run is to end, which its application is told by the same signal."""
        self._interrupts += 1
        self._to_start.pass_on(number, frame)
