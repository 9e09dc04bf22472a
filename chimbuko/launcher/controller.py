"""Leads one run, beside its program, from the first service to the summary."""

from __future__ import annotations

import math
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import redis

from chimbuko.capture.follow.starter import GuardStarter
from chimbuko.capture.trace.discovery import Transport
from chimbuko.core.errors import ServiceError, StoreError
from chimbuko.core.kernels.library import is_prepared
from chimbuko.launcher.agents import RESCUE_AFTER_S, AgentOptions, Agents
from chimbuko.launcher.application import Begun, Interrupts, news_of_application
from chimbuko.launcher.closing import Show, close_run
from chimbuko.launcher.kernels import await_kernels
from chimbuko.launcher.outcome.progress import FrameHealth, Progress, say
from chimbuko.launcher.outcome.recovery import note_failed_start
from chimbuko.launcher.services.addressfile import AddressFile
from chimbuko.launcher.services.choices import ServiceOptions
from chimbuko.launcher.services.services import Services
from chimbuko.launcher.transport import shield_news
from chimbuko.provenance.manage.lifecycle import INTERRUPTED
from chimbuko.runtime.process.failures import Failures, words_of
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.supervisor import Revivals
from chimbuko.runtime.process.wakeup import Wakeup
from chimbuko.runtime.runs.directory import RunDirectory

INTERRUPTED_CODE = 130
STDERR = 2
TOO_LATE = (
    "the program had ended before the analysis could begin, and over SST nothing of it is kept; "
    "take --transport files"
)
LOOK_S = 0.5
"""Seconds between two looks, where nothing happens."""
MOST_STARTS = 5
"""Number of starts of the services, of which each but the first comes after a pause: what could not start in
the seven seconds of all pauses will not."""


class Controller:
    """Starts the application, then services and agents; waits for their end, and shows what was found.

    The user's program begins first, and goes on whatever becomes of the analysis: its streams wait for their
    readers. What of ours does not start is tried again beside it, or left out.

    Parameters
    ----------
    application
        Application of the run; None for a recorded trace.
    problems
        One line each, for what was wrong from the start.
    """

    def __init__(
        self,
        run: RunDirectory,
        services: ServiceOptions,
        agents: AgentOptions,
        application: Begun | None,
        problems: list[str],
    ) -> None:
        self._run = run
        self._services = services
        self._agents = agents
        self._begun = application
        self._problems = problems
        self._failures = Failures(problems)
        self._address = AddressFile(run.dashboard_path)
        self._interrupts = Interrupts() if application is None else application.interrupts
        self._rescue_at_s = math.inf
        self._has_begun = False
        self._guard = GuardStarter(agents.place.guard, run.logs / "guard.log") if agents.place else None

    def lead(self, is_relabelling: bool, keep: bool, show: Show) -> int:
        """Lead the run to its end; exit code of the application; 130 where a recorded run was interrupted.

        Beside a program of the user nothing is raised: whatever fails, it is waited for.

        Raises
        ------
        ChimbukoError
            The analysis of what was recorded cannot begin.
        """
        heed(FROM_OTHERS, self._interrupts.note)
        begun = self._begun
        code = 0
        try:
            self._guard_streams()
            code = self._lead(is_relabelling, keep, show)
        except Exception as error:
            if begun is None or begun.is_ours:
                self._end_replay()
                if isinstance(error, (OSError, MemoryError, redis.RedisError)):
                    raise ServiceError(f"the analysis cannot be done: {words_of(error)}") from error
                raise
            fate = "the analysis ended early" if self._has_begun else "the program runs without analysis"
            say(f"{fate}: {words_of(error)}")
        finally:
            if begun is not None:
                # The program's own code, whatever happens to the analysis.
                code = begun.application.wait()
            self._tidy_up()
            if not self._has_begun:
                with self._failures.survived("what became of the run cannot be noted"):
                    note_failed_start(self._run, None if begun is None else code)
        return code

    def _lead(self, is_relabelling: bool, keep: bool, show: Show) -> int:
        """Exit code where there is no application."""
        await_kernels(lambda: self._interrupts.count > 0)
        if not is_prepared():
            raise ServiceError("it was interrupted while kernels were compiled")
        with Wakeup() as wakeup, self._started(wakeup) as (services, agents):
            self._announce(services)
            self._note_if_too_late()
            code = self._watch(services, agents, wakeup)
            is_delivered = agents.finish()
            services.finish()
            if not is_delivered:
                self._bring_left(services, agents)
            state = INTERRUPTED if self._interrupts.count else "finished"
            exit_code = None if self._begun is None else code
            asked = self._interrupts.count
            result = close_run(
                *(self._run, services.place, self._problems, state, exit_code, is_relabelling),
                is_hasty=lambda: self._interrupts.count > asked,
            )
            show(result)
            if keep and services.dashboard_url and self._interrupts.count == 0:
                say(f"dashboard stays until Ctrl-C: {self._address.words_for(STDERR)}")
                # Not signal.pause(): a signal just before it would be waited for again, for ever.
                while self._interrupts.count == 0:
                    with self._failures.survived("the dashboard cannot be looked after"):
                        services.look_after_dashboard()
                    wakeup.wait(LOOK_S, services.visitors)
        return code or result.store_code

    def _bring_left(self, services: Services, agents: Agents) -> None:
        """Store what an agent has left that died again and again: nobody else writes any more."""
        # Loaded here: hardly any run needs it.
        from chimbuko.launcher.outcome.leftstatistics import bring_left

        agents.bring(partial(bring_left, self._run, services.info))

    @contextmanager
    def _started(self, wakeup: Wakeup) -> Iterator[tuple[Services, Agents]]:
        """Start services and agents: beside a program again and again, for one of them may be killed."""
        starts = Revivals()
        while True:
            with ExitStack() as parts:
                try:
                    services = parts.enter_context(Services(self._run, self._services, self._problems))
                    run_id, url = services.info.id, services.broker_url
                    agents = parts.enter_context(Agents(self._run, run_id, self._agents, url, self._problems))
                    services.wait_ready()
                    agents.wait_ready()
                except (ServiceError, StoreError, OSError, MemoryError, redis.RedisError) as error:
                    starts = starts.started(time.monotonic())
                    if not self._is_started_again(starts):
                        raise
                    say(f"the analysis could not begin, and is started again: {words_of(error)}")
                else:
                    self._has_begun = True
                    yield services, agents
                    return
            while not starts.is_due(time.monotonic()) and self._interrupts.count == 0:
                wakeup.wait(LOOK_S)

    def _is_started_again(self, starts: Revivals) -> bool:
        """Return whether services that did not start are tried once more: a program is there to analyse."""
        is_for_a_program = self._begun is not None and not self._begun.is_ours
        return is_for_a_program and self._interrupts.count == 0 and starts.in_a_row < MOST_STARTS

    def _note_if_too_late(self) -> None:
        """Note it where nothing of the program can be read any more: files wait for readers, SST does not."""
        place, begun = self._agents.place, self._begun
        is_kept = place is None or place.transport is not Transport.SST
        if begun is None or begun.is_ours or is_kept or begun.application.poll() is None:
            return
        self._problems.append(TOO_LATE)

    def _announce(self, services: Services) -> None:
        if services.dashboard_url:
            self._address.keep(services.dashboard_url)
            say(f"dashboard: {self._address.words_for(STDERR)}")
            if tunnel := self._address.tunnel():
                say(f"from the computer where you sit: {tunnel}")
        if services.metrics_url:
            say(f"metrics: {services.metrics_url} (its token: {services.run.metrics_token_path})")

    def _guard_streams(self) -> None:
        """Have the streams guarded as soon as there can be some; agents see later that a guard is there."""
        if self._guard is not None:
            with self._failures.survived("the streams have no guard yet"):
                self._guard.begin(None if self._begun is None else self._begun.application.pid)

    def _end_replay(self) -> None:
        """End the application of ours whose streams nobody is going to read."""
        if self._begun is not None:
            with suppress(OSError):
                os.kill(self._begun.application.pid, signal.SIGTERM)

    def _tidy_up(self) -> None:
        """Remove the address, and the folder of the streams where no guard has come that would do it."""
        self._address.remove()
        # What the application has started in the background may still write streams, under its guard.
        if self._guard is not None and self._guard.stop():
            shutil.rmtree(self._guard.folder, ignore_errors=True)

    def _watch(self, services: Services, agents: Agents, wakeup: Wakeup) -> int:
        """Wait for the application (or the agents, for a recorded trace), then for the agents to deliver."""
        application = news_of_application()
        with Progress(FrameHealth(services.broker)) as progress:
            while self._is_going_on(agents):
                self._look(progress, services, agents)
                wakeup.wait(LOOK_S, [*services.visitors, *application])
            if self._begun is not None and self._agents.place is not None:
                with self._failures.survived("what the shield reports cannot be read"):
                    self._problems += shield_news(
                        self._agents.place, self._begun.environment, agents.streams_seen
                    )
            # What they still have to deliver, they cannot without the services.
            for _ in agents.delivering(lambda: self._rescue_at_s):
                self._look(progress, services, None)
                wakeup.wait(LOOK_S, services.visitors)
        if self._begun is not None:
            return self._begun.application.wait()
        if agents.has_failed:
            return ServiceError.exit_code
        return INTERRUPTED_CODE if self._interrupts.count else 0

    def _look(self, progress: Progress, services: Services, agents: Agents | None) -> None:
        """See once how far all is and that it goes on; what fails is tried again at the next look."""
        with self._failures.survived("the analysis cannot be looked after"):
            progress.show()
            if self._interrupts.count and self._rescue_at_s == math.inf:
                self._rescue_at_s = time.monotonic() + RESCUE_AFTER_S
                services.hasten(is_interrupted=True)
            for line in (*services.look_after(), *(agents.look_after() if agents else ())):
                progress.say(line)
            self._address.keep(services.dashboard_url)

    def _is_going_on(self, agents: Agents) -> bool:
        if self._begun is not None:
            return self._begun.application.poll() is None
        return agents.is_analysing and not agents.has_failed and self._interrupts.count == 0
