"""Leads one run from its first service to its summary."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from chimbuko.cli.launcher import Launcher, LaunchOptions
from chimbuko.cli.progress import Progress
from chimbuko.cli.relabel import relabel_run, relabelled_line
from chimbuko.cli.summary import summarize, summary_lines
from chimbuko.errors import ChimbukoError, ServiceError
from chimbuko.rundir import RunDirectory

INTERRUPTED = 130
NOT_FOUND = 127
NOT_EXECUTABLE = 126


class Conductor:
    """Starts services and application, waits for the end of both, and tells what was found.

    Parameters
    ----------
    application, environment
        Command to run and its whole environment; no command for a recorded trace.
    """

    def __init__(
        self,
        run: RunDirectory,
        options: LaunchOptions,
        application: list[str],
        environment: dict[str, str],
    ) -> None:
        self._run = run
        self._options = options
        self._command_line = application
        self._environment = environment
        self._interrupts = 0
        self._application: subprocess.Popen[bytes] | None = None

    def conduct(self, keep: bool, as_json: bool) -> int:
        """Exit code of the application; 130 where a recorded run was interrupted."""
        signal.signal(signal.SIGINT, self._on_interrupt)
        signal.signal(signal.SIGTERM, self._on_terminate)
        with Launcher(self._run, self._options) as launcher:
            if launcher.dashboard_url:
                _say(f"dashboard: {launcher.dashboard_url}")
            code = self._start_application()
            if code == 0:
                code = self._watch(launcher)
            launcher.finish_analysis()
            with _problems_noted(launcher):
                if self._options.relabel:
                    _say(relabelled_line(relabel_run(self._run, is_deleting=False)))
            with _problems_noted(launcher):
                self._note_end(launcher, code)
            self._report(launcher, as_json)
            if keep and launcher.dashboard_url and self._interrupts == 0:
                _say(f"dashboard stays at {launcher.dashboard_url} until Ctrl-C")
                while self._interrupts == 0:
                    signal.pause()
        return code

    def _start_application(self) -> int:
        """0, or the code that a shell would give for a command that cannot be started."""
        if not self._command_line:
            return 0
        try:
            self._application = subprocess.Popen(self._command_line, env=self._environment)
        except FileNotFoundError:
            _say(f"{self._command_line[0]}: no such command")
            return NOT_FOUND
        except OSError as error:
            _say(f"{self._command_line[0]}: cannot be run ({error.strerror})")
            return NOT_EXECUTABLE
        return 0

    def _watch(self, launcher: Launcher) -> int:
        """Wait for the application, or for the agents to be through with a recorded trace."""
        with Progress(launcher.client) as progress:
            while self._is_going_on(launcher):
                progress.show_next()
                for line in launcher.look_after():
                    progress.say(line)
        if self._application is None and launcher.has_failed:
            return ServiceError.exit_code
        if self._application is None:
            return INTERRUPTED if self._interrupts else 0
        code = self._application.returncode
        return code if code >= 0 else 128 - code

    def _is_going_on(self, launcher: Launcher) -> bool:
        if self._application is not None:
            return self._application.poll() is None
        return launcher.is_analysing and not launcher.has_failed and self._interrupts == 0

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


@contextmanager
def _problems_noted(launcher: Launcher) -> Iterator[None]:
    """Say what went wrong in the summary, which is still to come."""
    try:
        yield
    except ChimbukoError as error:
        launcher.problems.append(str(error))


def _say(text: str) -> None:
    print(f"chimbuko: {text}", file=sys.stderr, flush=True)
