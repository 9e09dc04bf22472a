"""Leads one run, and sees its program through to the end, whatever becomes of the analysis.

What the analysis needs is loaded when the program has started already, and has its guard: that takes 0.3 s.
"""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from chimbuko.capture.follow.starter import GuardStarter
from chimbuko.launcher.application import Begun, Interrupts
from chimbuko.launcher.options import AgentOptions
from chimbuko.launcher.services.choices import ServiceOptions
from chimbuko.runtime.process.failures import Failures, words_of
from chimbuko.runtime.process.lifetime import Sacrifice, log, oom_score
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.starting import Launch, Process, fork_then_load, load
from chimbuko.runtime.runs.directory import RunDirectory

if TYPE_CHECKING:
    from chimbuko.launcher.closing import Show

EARLY_LOOKS = "chimbuko.monitor.collector.earlylooks"


class Controller:
    """Leads the analysis of a run, beside its program.

    The user's program begins first, and goes on whatever becomes of the analysis: its streams wait for their
    readers.

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
        self._interrupts = Interrupts() if application is None else application.interrupts
        self._guard = GuardStarter(agents.place.guard, run.logs / "guard.log") if agents.place else None
        self._early: Process | None = None
        self._has_begun = False

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
            self._look_early()
            self._guard_streams()
            code = self._analyse(is_relabelling, keep, show)
        except Exception as error:
            if begun is None or begun.is_ours:
                self._end_replay()
                raise
            fate = "the analysis ended early" if self._has_begun else "the program runs without analysis"
            log(f"{fate}: {words_of(error)}")
        finally:
            if begun is not None:
                # The program's own code, whatever happens to the analysis.
                code = begun.application.wait()
            self._tidy_up()
            if not self._has_begun:
                with self._failures.survived("what became of the run cannot be noted"):
                    self._note_failed_start(code)
        return code

    def _analyse(self, is_relabelling: bool, keep: bool, show: Show) -> int:
        """Analyse the run; return its exit code where there is no application."""
        load("chimbuko.launcher.liverun")
        from chimbuko.launcher.baseline import with_baseline
        from chimbuko.launcher.liverun import LiveRun

        services = with_baseline(self._run, self._services, self._problems)
        live = LiveRun(self._run, services, self._agents, self._begun, self._interrupts, self._problems)
        try:
            return live.lead(is_relabelling, keep, show)
        finally:
            self._has_begun = live.has_begun

    def _note_failed_start(self, code: int) -> None:
        # It may not be loaded yet, and numpy must never be without ``one_blas_thread``.
        load("chimbuko.launcher.outcome.recovery")
        from chimbuko.launcher.outcome.recovery import note_failed_start

        note_failed_start(self._run, None if self._begun is None else code)

    def _guard_streams(self) -> None:
        """Have the streams guarded as soon as there can be some; agents see later that a guard is there."""
        if self._guard is not None:
            with self._failures.survived("the streams have no guard yet"):
                self._guard.begin(None if self._begun is None else self._begun.application.pid)

    def _look_early(self) -> None:
        """Have the program's processes looked at until the agent does that."""
        place = self._agents.place
        if self._begun is None or place is None or not self._agents.config.node_samples:
            return
        log_file = self._run.logs / f"{self._agents.names[0]}.log"
        score = oom_score(Sacrifice.AGENT)
        launch = Launch(EARLY_LOOKS, (str(place.folder),), dict(os.environ), log_file, (), score)
        with self._failures.survived("what slows the program while it begins is not seen"):
            self._early = fork_then_load(launch)

    def _end_replay(self) -> None:
        """End the application of ours whose streams nobody is going to read."""
        if self._begun is not None:
            with suppress(OSError):
                os.kill(self._begun.application.pid, signal.SIGTERM)

    def _tidy_up(self) -> None:
        """Remove the folder of the streams where no guard has come that would do it."""
        if self._early is not None:
            # Not SIGTERM, which a fork ignores where this process does. It leaves nothing to be tidied up.
            self._early.send_signal(signal.SIGKILL)
            self._early.wait()
        # What the application has started in the background may still write streams, under its guard.
        if self._guard is not None and self._guard.stop():
            shutil.rmtree(self._guard.folder, ignore_errors=True)
