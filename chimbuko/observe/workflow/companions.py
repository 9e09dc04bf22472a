"""What runs beside the tasks: services, agents and monitors, each started again if it ends early."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from chimbuko.core.errors import ServiceError
from chimbuko.observe.workflow.children import Child
from chimbuko.runtime.process.lifetime import log as say
from chimbuko.runtime.process.restarts import Revivals

CHIMBUKO = (sys.executable, "-m", "chimbuko")
READY_S = 120.0
"""For a service to become ready: kernels may have to be compiled first."""
LOOK_S = 0.05


class Companion:
    """One process beside the tasks.

    Parameters
    ----------
    name
        For people.
    words, again
        Command, and the one by which it is started again.
    log
        Gets its output; None for that of this process.
    """

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path | None = None,
        again: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self._again = list(again or words)
        self._environment = environment
        self._folder = folder
        self._log = log
        self._revivals = Revivals()
        self._is_ending = False
        try:
            self._child = Child(words, environment, folder, log)
        except OSError as error:
            raise ServiceError(f"{name}: {words[0]} cannot be started ({error.strerror})") from error

    @property
    def pid(self) -> int:
        """Number of its process."""
        return self._child.pid

    def wait_until(self, is_ready: Callable[[], bool], should_stop: Callable[[], bool]) -> None:
        """Wait until it is ready, or the workflow shall end.

        Raises
        ------
        ServiceError
            It ended before, or takes too long.
        """
        deadline_s = time.monotonic() + READY_S
        while not should_stop() and not is_ready():
            code = self._child.code
            if code is not None:
                raise ServiceError(f"{self.name} did not start (exit code {code}){self._last_words()}")
            if time.monotonic() > deadline_s:
                raise ServiceError(f"{self.name} is not ready after {READY_S:.0f} s{self._last_words()}")
            time.sleep(LOOK_S)

    def look_after(self) -> None:
        """Start it again if it has ended early."""
        now_s = time.monotonic()
        code = self._child.code
        if code is None or self._is_ending or self._revivals.is_hopeless(now_s):
            return
        if not self._revivals.is_due(now_s):
            return
        self._revivals = self._revivals.started(now_s)
        if self._revivals.is_hopeless(now_s):
            say(f"{self.name} ends again and again; the workflow goes on without it{self._last_words()}")
            return
        say(f"{self.name} ended early (exit code {code}) and is started again{self._last_words()}")
        with suppress(OSError):
            self._child = Child(self._again, self._environment, self._folder, self._log)

    def ask_to_end(self) -> None:
        """Ask it to end; how long it may take is for who waits for it."""
        self._is_ending = True
        if self._child.code is None:
            self._child.send(signal.SIGTERM)

    def expect_end(self) -> None:
        """It will end by itself."""
        self._is_ending = True

    @property
    def has_ended(self) -> bool:
        """Whether it has."""
        return self._child.code is not None

    def kill(self) -> None:
        """Kill it, and what it has started."""
        self._is_ending = True
        self._child.kill()

    def _last_words(self) -> str:
        if self._log is None:
            return ""
        with suppress(OSError):
            if lines := self._log.read_text(errors="replace").strip().splitlines():
                return f": {lines[-1].removeprefix('chimbuko: ')} (its log is {self._log})"
        return f" (its log is {self._log})"
