"""The command that a user gives to a verb of ours: its start, the signals that it gets, and its exit code.

Every verb that runs a command does it by this module, so that all answer alike: with a shell's exit codes,
and with the same line for a command that cannot be run. The command stays in our process group and keeps our
terminal, as under ``nohup`` or ``time``; a verb may give it a session of its own instead.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from chimbuko.core.errors import ChimbukoError
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.wakeup import Wakeup

NOT_EXECUTABLE = 126
NOT_FOUND = 127
FOR_THE_COMMAND = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that mean something to the command alone; they would end a process of ours that does not heed
them."""
PASSED_ON = (*FROM_OTHERS, *FOR_THE_COMMAND)
_FROM_TERMINALS = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal sends to its whole foreground process group."""
_TERMINAL = "/dev/tty"


class CommandError(ChimbukoError):
    """A user's command that cannot be run; its exit code is the one that a shell gives.

    Parameters
    ----------
    program
        First word of the command.
    number
        Error number of the attempt.
    """

    def __init__(self, program: str, number: int) -> None:
        super().__init__(f"{program}: cannot be run ({_reason(program, number)})")
        self.number = number
        self.exit_code = NOT_FOUND if number in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE


def _reason(program: str, number: int) -> str:
    if number == errno.ENOENT and os.sep not in program:
        return "no such file" if program.endswith(".py") else "no such command"
    if number == errno.ENOENT and os.path.exists(program):
        return "the interpreter that its first line names does not exist"
    if number == errno.EACCES and os.path.isdir(program):
        return "it is a folder"
    if number == errno.EACCES and not _may_execute(program):
        return f"it is not executable; do: chmod +x {program}"
    return os.strerror(number)


def _may_execute(program: str) -> bool:
    """Return whether a file's mode lets anybody execute it; True where that cannot be seen."""
    try:
        return bool(os.stat(program).st_mode & 0o111)
    except OSError:
        return True


def check_command(program: str) -> None:
    """Raise CommandError for a command that cannot be run, before anything else begins for its sake."""
    if shutil.which(program) is None:
        is_there = os.sep in program and os.path.exists(program)
        raise CommandError(program, errno.EACCES if is_there else errno.ENOENT)


def shell_code(status: int) -> int:
    """Return the exit code that a shell gives for an exit status, which is negative after a signal."""
    return status if status >= 0 else 128 - status


class UserCommand:
    """A user's command from its start to its exit code, and as a context the signals passed on to it.

    Within the context a signal to this process is the command's: it is passed on as it is, and this process
    goes on until the command has ended. Ctrl-C at a terminal reaches the command by itself. The second
    interrupt also sends SIGTERM, and the third one SIGKILL. What is ignored here, as SIGHUP under ``nohup``,
    the command ignores too.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._leads_session = False
        self._early: list[int] = []
        self._interrupts = 0
        self._handlers: dict[signal.Signals, Any] = {}
        self.asked_to_end = 0
        """First signal that asked the command to end; 0 for none."""

    def __enter__(self) -> Self:
        self._handlers = {number: signal.getsignal(number) for number in PASSED_ON}
        heed(PASSED_ON, self.pass_on)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def start(
        self,
        words: Sequence[str] | Sequence[bytes],
        environment: Mapping[str, str] | Mapping[bytes, bytes],
        **options: Any,
    ) -> None:
        """Start the command; signals that came before reach it now.

        Parameters
        ----------
        options
            Further arguments of ``subprocess.Popen``; ``start_new_session`` sends signals to all of the
            session's processes.

        Raises
        ------
        CommandError
            The command cannot be run.
        """
        self._leads_session = options.get("start_new_session", False)
        # What a launcher has opened for its ranks, as MPICH's does, they inherit; Python's own files never.
        options = {"close_fds": self._leads_session, **options}
        try:
            self._process = subprocess.Popen(words, env=environment, **options)
        except OSError as error:
            raise CommandError(os.fsdecode(words[0]), self._number(error, os.fsdecode(words[0]))) from error
        while self._early:
            self.send(self._early.pop(0))

    @staticmethod
    def _number(error: OSError, program: str) -> int:
        # A folder of PATH that may not be searched hides that the command is nowhere.
        is_nowhere = os.sep not in program and shutil.which(program) is None
        return errno.ENOENT if is_nowhere else error.errno or 0

    @property
    def pid(self) -> int:
        """Process id of the command, which must have been started."""
        assert self._process is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Return the command's exit code as a shell gives it, or None while it runs."""
        assert self._process is not None
        status = self._process.poll()
        return None if status is None else shell_code(status)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the command's end, and return its exit code as a shell gives it.

        Raises
        ------
        subprocess.TimeoutExpired
            The command has not ended within ``timeout`` seconds.
        """
        assert self._process is not None
        return shell_code(self._process.wait(timeout))

    def pass_on(self, number: int, frame: object = None) -> None:
        """Pass a signal on to the command, as the handler of that signal."""
        if number in FROM_OTHERS:
            self.asked_to_end = self.asked_to_end or number
        if number == signal.SIGINT:
            self._interrupts += 1
        if not self._has_heard(number):
            self.send(number)
        if number == signal.SIGINT and self._interrupts > 1:
            self.send(signal.SIGTERM if self._interrupts == 2 else signal.SIGKILL)

    def _has_heard(self, number: int) -> bool:
        """Return whether a terminal has sent a signal to the command as it has to this process."""
        if self._process is None or self._leads_session or number not in _FROM_TERMINALS:
            return False
        try:
            terminal = os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        except OSError:
            return False
        finally:
            os.close(terminal)

    def send(self, number: int) -> None:
        """Send the command a signal, as soon as it runs and unless it has ended."""
        if self._process is None:
            self._early.append(number)
            return
        # It may have ended just now, or run as another user.
        with suppress(OSError):
            if not self._leads_session:
                self._process.send_signal(number)
            elif self._process.returncode is None:
                os.killpg(self._process.pid, number)


def run_beside(
    words: Sequence[str], variables: Mapping[str, str], look: Callable[[], object], period_s: float
) -> int:
    """Run a command to its end, look each period and once more then; return its exit code.

    Parameters
    ----------
    variables
        Variables of its environment, beside our own.

    Raises
    ------
    CommandError
        The command cannot be run.
    """
    with Wakeup() as wakeup, UserCommand() as command:
        command.start(words, {**os.environ, **variables})
        while command.poll() is None:
            look()
            wakeup.wait(period_s)
        look()
        return command.wait()
