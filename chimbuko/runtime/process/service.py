"""One of our processes, as the process that has started it sees it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.lifetime import OOM_VARIABLE, Sacrifice, oom_score, oom_score_of_application
from chimbuko.runtime.process.signals import END
from chimbuko.runtime.process.starting import BLAS_VARIABLE, Launch, Starter, new_python
from chimbuko.runtime.process.storyfile import ENDING, STORY_VARIABLE

READY_TIMEOUT_S = 60.0


class Service:
    """One of our processes, which reports on its first line of output, in JSON, that it is ready.

    Parameters
    ----------
    name
        Name of the service, of its log, ``<name>.log``, and of the story of what it did last,
        ``<name>.story``.
    module
        Python module to run.
    arguments, environment
        Arguments and environment of the process. Secrets belong into the environment: anyone can read a
        command line.
    inherited
        File descriptors that it gets.
    sacrifice
        Rank in being killed where memory runs out.
    start
        Function that starts the process: a fork where this one has no threads.

    Raises
    ------
    ServiceError
        The process ended, or did not become ready in time; the message has its last line and exit code.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: list[str],
        environment: Mapping[str, str],
        logs: Path,
        inherited: tuple[int, ...] = (),
        sacrifice: Sacrifice = Sacrifice.SERVICE,
        start: Starter = new_python,
    ) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        application = {OOM_VARIABLE: str(oom_score_of_application()), BLAS_VARIABLE: "1"}
        application[STORY_VARIABLE] = str(logs / f"{name}{ENDING}")
        self._start = start
        self._launch = Launch(
            module,
            tuple(arguments),
            {**os.environ, **application, **environment},
            self.log,
            inherited,
            oom_score(sacrifice),
        )
        self.process = start(self._launch)

    def start_again(self) -> None:
        """Start the process anew after it has ended."""
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = self._start(self._launch)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> dict[str, Any]:
        """Wait until it is ready; return the facts that it reports then."""
        assert self.process.stdout is not None
        # Not ``select.select``, which refuses descriptors above 1,023.
        output = select.poll()
        output.register(self.process.stdout, select.POLLIN)
        readable = output.poll(1000 * timeout_s)
        line = self.process.stdout.readline() if readable else b""
        try:
            facts: dict[str, Any] = msgspec.json.decode(line)
        except msgspec.DecodeError:
            self.stop(0.0)
            # One that is not ready in time is killed by us.
            code = 0 if line or not readable else self.process.returncode
            why = f"it was killed by signal {-code}" if code < 0 else self._last_words()
            raise ServiceError(f"{self.name} did not start: {why} (its log is {self.log})") from None
        return facts

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self.process.poll() is None

    def ask_to_stop(self) -> None:
        """Ask the process to finish its work and end; one that was stopped is continued for that."""
        if self.is_running:
            self.process.send_signal(END)
            self.process.send_signal(signal.SIGCONT)

    def stop(self, timeout_s: float) -> bool:
        """Ask the process to end and wait; after ``timeout_s`` seconds kill it. Returns whether it ended by
        itself.
        """
        self.ask_to_stop()
        try:
            self.process.wait(timeout_s)
            return True
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            return False
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()

    def _last_words(self) -> str:
        lines: list[str] = []
        with suppress(OSError):
            lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("chimbuko: ") if lines else "it said nothing"
