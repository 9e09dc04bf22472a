"""Analysis of one run, beside its program, from the first service to the summary; a notice where nothing
records the program.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import redis

from chimbuko.capture.trace.discovery import Transport, find_live
from chimbuko.core.errors import ServiceError, StoreError
from chimbuko.core.kernels.library import is_prepared
from chimbuko.launcher.agents import RESCUE_AFTER_S, Agents
from chimbuko.launcher.application import Begun, Interrupts, news_of_application
from chimbuko.launcher.closing import Show, close_run
from chimbuko.launcher.kernels import await_kernels
from chimbuko.launcher.options import AgentOptions
from chimbuko.launcher.outcome.losses import HOW_TO_RECORD
from chimbuko.launcher.outcome.progress import Progress, say
from chimbuko.launcher.services.choices import ServiceOptions
from chimbuko.launcher.services.dashboard import AddressFile
from chimbuko.launcher.services.services import FrameHealth, Services
from chimbuko.launcher.transport import shield_news
from chimbuko.provenance.manage.lifecycle import INTERRUPTED
from chimbuko.runtime.process.failures import Failures, words_of
from chimbuko.runtime.process.supervisor import Revivals
from chimbuko.runtime.process.wakeup import Wakeup
from chimbuko.runtime.runs.directory import RunDirectory

SAID_AFTER_S: Final = 4.0
"""Time that a program has until its first stream; ours appear within 0.5 s, where a core is free."""
_RECORDING: Final = frozenset(("tau_exec", "tau_python"))
_OURS: Final = "chimbuko"


class UnrecordedProgram:
    """Search for the first stream of a program.

    Parameters
    ----------
    command
        Words of the program; those that have it recorded get the time that they need.
    folder
        Folder in which its streams appear.
    began_s
        Time at which the program began, on the monotonic clock.
    """

    def __init__(self, command: Sequence[str], folder: Path, began_s: float) -> None:
        self._folder = folder
        self._due_s = began_s + SAID_AFTER_S
        self._is_over = _is_recorded(command)

    def news(self, now_s: float) -> str:
        """Return what is to be said of the program now; empty for nothing. It is said once."""
        if self._is_over or now_s < self._due_s:
            return ""
        self._is_over = True
        try:
            return "" if find_live(self._folder) else f"nothing records the program so far. {HOW_TO_RECORD}"
        except FileNotFoundError:
            # Who keeps the folder removes it when the program has ended.
            return ""


def _is_recorded(command: Sequence[str]) -> bool:
    names = [os.path.basename(word) for word in command]
    ours = itertools.pairwise(names)
    return not _RECORDING.isdisjoint(names) or any(pair == (_OURS, "trace") for pair in ours)


INTERRUPTED_CODE = 130
STDERR = 2
TOO_LATE = (
    "the program had ended before the analysis could begin, and over SST nothing of it is kept; "
    "take --transport files"
)
LOOK_S = 1.0
"""Seconds between two looks, where nothing happens."""
MOST_STARTS = 5
"""Number of starts of the services, of which each but the first comes after a pause: what could not start in
the seven seconds of all pauses will not."""


class LiveRun:
    """Starts services and agents, waits for their end and the application's, and shows what was found.

    What of ours does not start beside a program is tried again, or left out.

    Parameters
    ----------
    application
        Application of the run; None for a recorded trace.
    interrupts
        Number of signals that asked the run to end.
    problems
        One line each, for what was wrong from the start.
    """

    def __init__(
        self,
        run: RunDirectory,
        services: ServiceOptions,
        agents: AgentOptions,
        application: Begun | None,
        interrupts: Interrupts,
        problems: list[str],
    ) -> None:
        self._run = run
        self._services = services
        self._agents = agents
        self._begun = application
        self._interrupts = interrupts
        self._problems = problems
        self._failures = Failures(problems)
        self._address = AddressFile(run.dashboard_path)
        self._rescue_at_s = math.inf
        self.has_begun = False
        """Whether services and agents were ready."""

    def lead(self, is_relabelling: bool, keep: bool, show: Show) -> int:
        """Lead it to its end; return the exit code where there is no application.

        Raises
        ------
        ChimbukoError
            The analysis cannot begin, or not go on.
        """
        try:
            return self._lead(is_relabelling, keep, show)
        except (OSError, MemoryError, redis.RedisError) as error:
            if self._is_for_a_program:
                raise
            raise ServiceError(f"the analysis cannot be done: {words_of(error)}") from error
        finally:
            self._address.remove()

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

    @property
    def _is_for_a_program(self) -> bool:
        """Whether a program of the user runs beside it, and not a replay or nothing."""
        return self._begun is not None and not self._begun.is_ours

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
                    self.has_begun = True
                    yield services, agents
                    return
            while not starts.is_due(time.monotonic()) and self._interrupts.count == 0:
                wakeup.wait(LOOK_S)

    def _is_started_again(self, starts: Revivals) -> bool:
        """Return whether services that did not start are tried once more: a program is there to analyse."""
        return self._is_for_a_program and self._interrupts.count == 0 and starts.in_a_row < MOST_STARTS

    def _note_if_too_late(self) -> None:
        """Note it where nothing of the program can be read any more: files wait for readers, SST does not."""
        place, begun = self._agents.place, self._begun
        is_kept = place is None or place.transport is not Transport.SST
        if begun is None or begun.is_ours or is_kept or begun.application.poll() is None:
            return
        self._problems.append(TOO_LATE)

    def _announce(self, services: Services) -> None:
        if services.dashboard_url:
            self._keep_address(services)
            say(f"dashboard: {self._address.words_for(STDERR)}")
            if tunnel := self._address.tunnel():
                say(f"from the computer where you sit: {tunnel}")
            if self._services.choices.is_opened and (reason := self._address.open()):
                say(f"--open: {reason}")
        if services.metrics_url:
            say(f"metrics: {services.metrics_url} (its token: {services.run.metrics_token_path})")

    def _watch(self, services: Services, agents: Agents, wakeup: Wakeup) -> int:
        """Wait for the application (or the agents, for a recorded trace), then for the agents to deliver."""
        application = news_of_application()
        unrecorded = self._unrecorded()
        with Progress(FrameHealth(services.broker)) as progress:
            while self._is_going_on(agents):
                self._look(progress, services, agents)
                if unrecorded is not None and (said := unrecorded.news(time.monotonic())):
                    progress.say(said)
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

    def _unrecorded(self) -> UnrecordedProgram | None:
        """Return a search for the first stream of a program of the user on this node; None without one."""
        begun, place = self._begun, self._agents.place
        if begun is None or place is None or not self._is_for_a_program:
            return None
        return UnrecordedProgram(begun.words, place.folder, begun.began_s)

    def _look(self, progress: Progress, services: Services, agents: Agents | None) -> None:
        """Look once at the progress and the services; a step that fails is tried again at the next look."""
        with self._failures.survived("the analysis cannot be looked after"):
            progress.show()
            if self._interrupts.count and self._rescue_at_s == math.inf:
                self._rescue_at_s = time.monotonic() + RESCUE_AFTER_S
                services.hasten(is_interrupted=True)
            for line in (*services.look_after(), *(agents.look_after() if agents else ())):
                progress.say(line)
        self._keep_address(services)

    def _keep_address(self, services: Services) -> None:
        with self._failures.survived("the dashboard's address cannot be kept"):
            self._address.keep(services.dashboard_url)

    def _is_going_on(self, agents: Agents) -> bool:
        if self._begun is not None:
            return self._begun.application.poll() is None
        return agents.is_analysing and not agents.has_failed and self._interrupts.count == 0
