"""The process that a user starts with ``chimbuko run``: parent of the application and of the launcher.

It stays small, and does nothing but start the application when the launcher says so, and wait. Whatever
becomes of the launcher, the application's exit code is passed on, and its streams are guarded. Where memory
ends, all else of ours ends before it.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec
from setproctitle import setproctitle

from chimbuko.capture.follow.guard import Options as GuardOptions
from chimbuko.capture.follow.starter import GuardStarter
from chimbuko.core.files import write_atomically
from chimbuko.runtime.process.lifetime import (
    OOM_VARIABLE,
    Sacrifice,
    die_with_parent,
    log,
    oom_score,
    oom_score_of_application,
    set_oom_score,
)
from chimbuko.runtime.process.signals import FROM_OTHERS, heed
from chimbuko.runtime.process.starting import end_fork
from chimbuko.runtime.process.usercommand import (
    FOR_THE_COMMAND,
    PASSED_ON,
    CommandError,
    UserCommand,
    shell_code,
)
from chimbuko.runtime.process.wakeup import Wakeup

TITLE = "chimbuko.launcher"
PATIENCE_S = 3600.0
GUARD_LOOK_S = 1.0
MOST_LAUNCHERS = 3
"""Maximum number of launchers, one after the other, of which none has begun the application."""
_LENGTH = struct.Struct("Q")

_link: socket.socket | None = None
"""Connection of the launcher to its parent; None if there is no such parent."""
_launchers = 0
"""Number of launchers so far, the present one included."""
_parted_us = 0
"""Time at which the first of them was started."""


class Order(msgspec.Struct, frozen=True):
    """An application to be started."""

    words: list[bytes]
    environment: dict[bytes, bytes]
    info: bytes
    """Path of the description of the run (``RunInfo``), which gets the exit code if the launcher dies."""
    is_ours: bool
    """Whether it is no program of the user, so that the exit code is the launcher's."""
    guard: GuardOptions
    """Task of the guard of its streams, which has nobody else who starts it if the launcher dies."""


class News(msgspec.Struct, frozen=True):
    """Report of the application: first its process id, or the error number; then its exit code."""

    pid: int = 0
    error: int = 0
    code: int | None = None


class Application(Protocol):
    """The application, for the launcher: its own child, or its parent's. See ``UserCommand``."""

    @property
    def pid(self) -> int:
        """Process id of the application, which must have been started."""

    def start(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the application; raises CommandError where it cannot be run."""

    def poll(self) -> int | None:
        """Return its exit code as a shell gives it, or None while it runs."""

    def wait(self) -> int:
        """Wait for its end, and return its exit code as a shell gives it."""

    def pass_on(self, number: int, frame: object) -> None:
        """Pass a signal on to it, as the handler of that signal."""


def part() -> None:
    """Go on as the launcher, in a process of its own; without one, in this process.

    A launcher that was killed before it began the application has another after it.
    """
    global _launchers, _parted_us
    _parted_us = time.time_ns() // 1000
    for _launchers in range(1, MOST_LAUNCHERS + 1):
        ours, its = socket.socketpair()
        score = oom_score_of_application()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            its.close()
            return
        if pid == 0:
            ours.close()
            _become_launcher(parent, its, score)
            return
        its.close()
        try:
            code = _Parent(pid, ours).attend(is_last=_launchers == MOST_LAUNCHERS)
        except BaseException:
            traceback.print_exc()
            code = 1
        if code is not None:
            end_fork(partial(sys.exit, code))
        ours.close()


def _become_launcher(parent: int, link: socket.socket, score: int) -> None:
    # Ctrl-C and a lost terminal come by way of the parent, once.
    os.setsid()
    # As if it were killed itself: it must not end the application, as it does when it is asked to end.
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    os.environ[OOM_VARIABLE] = str(score)
    set_oom_score(oom_score(Sacrifice.LAUNCHER))
    setproctitle(TITLE)
    global _link
    _link = link


def is_left(started_us: int) -> bool:
    """Whether a run that began then is of an earlier launcher of this command, which began no application."""
    return _launchers > 1 and started_us >= _parted_us


def is_apart() -> bool:
    """Whether another process starts the application, so that it does not keep to the cores of this one."""
    return _link is not None


class Interrupts:
    """Number of signals that have asked a run to end, each of which its application gets, too."""

    def __init__(self, application: Application | None = None) -> None:
        self.count = 0
        self._application = application

    def note(self, number: int, frame: object) -> None:
        """Note one, as the handler of a signal."""
        self.count += 1
        if self._application is not None:
            self._application.pass_on(number, frame)


class Begun(msgspec.Struct, frozen=True):
    """An application that was started, before anything of ours that analyses it."""

    application: Application
    words: Sequence[str]
    began_s: float
    """Time of its start, on the monotonic clock."""
    environment: Mapping[str, str]
    interrupts: Interrupts
    is_ours: bool
    """Whether it is no program of the user, but a replay of ours, which is of no use without the analysis."""


def begin(
    words: Sequence[str], environment: Mapping[str, str], info: Path, is_ours: bool, guard: GuardOptions
) -> Begun:
    """Start the application: as a child of this process's parent, where that waits for it.

    Parameters
    ----------
    info
        File with the description of the run.
    guard
        Task of the guard of its streams.

    Raises
    ------
    CommandError
        It cannot be run.
    """
    application: Application = UserCommand() if _link is None else _Application(_link, info, is_ours, guard)
    interrupts = Interrupts(application)
    heed(FROM_OTHERS, interrupts.note)
    heed(FOR_THE_COMMAND, application.pass_on)
    own = {name: value for name, value in environment.items() if name != OOM_VARIABLE}
    began_s = time.monotonic()
    application.start(words, own)
    return Begun(application, words, began_s, environment, interrupts, is_ours)


def news_of_application() -> list[int]:
    """Descriptor that becomes readable when the application, which is no child of this process, has ended."""
    return [] if _link is None else [_link.fileno()]


class _Application:
    """The application as the child of the launcher's parent, which passes signals on to it."""

    def __init__(self, link: socket.socket, info: Path, is_ours: bool, guard: GuardOptions) -> None:
        self.pid = 0
        self._code: int | None = None
        self._link = link
        self._info = info
        self._is_ours = is_ours
        self._guard = guard

    def start(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """See ``Application``."""
        encoded = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
        info = os.fsencode(self._info.absolute())
        order = Order([os.fsencode(word) for word in words], encoded, info, self._is_ours, self._guard)
        _send(self._link, msgspec.msgpack.encode(order))
        news = _news(self._link)
        if news is None or not news.pid:
            raise CommandError(words[0], news.error if news else errno.ECHILD)
        self.pid = news.pid

    def poll(self) -> int | None:
        """See ``Application``."""
        return self._look(0.0)

    def wait(self) -> int:
        """See ``Application``."""
        while (code := self._look(PATIENCE_S)) is None:
            pass
        return code

    def pass_on(self, number: int, frame: object) -> None:
        """See ``Application``; the parent gets the same signals, and passes them on itself."""

    def _look(self, timeout_s: float) -> int | None:
        if self._code is None and select.select([self._link], [], [], timeout_s)[0]:
            news = _news(self._link)
            if news is not None:
                self._code = news.code
        return self._code


class _Parent:
    """The launcher's parent, which starts the application and waits for both."""

    def __init__(self, launcher: int, link: socket.socket) -> None:
        self._launcher = launcher
        self._link = link
        self._application = UserCommand()
        self._order: Order | None = None
        """What was started as the application."""
        self._is_reported = False

    def attend(self, is_last: bool) -> int | None:
        """Wait for application and launcher; return the exit code, or None where the launcher was killed
        before it began the application, and is not the last one.
        """
        before = {number: signal.getsignal(number) for number in FROM_OTHERS}
        heed(FROM_OTHERS, self._pass_on)
        listening = [self._link.fileno()]
        with Wakeup() as wakeup:
            while (status := os.waitpid(self._launcher, os.WNOHANG))[0] == 0:
                if self._order and not self._is_reported:
                    self._report()
                wakeup.wait(PATIENCE_S, listening)
                if listening and select.select(listening, [], [], 0.0)[0]:
                    listening = listening if self._obey() else []
        code = os.waitstatus_to_exitcode(status[1])
        self._launcher = 0
        order = self._order
        if code == -signal.SIGKILL and order is None and not is_last:
            for number, handler in before.items():
                signal.signal(number, handler)
            return None
        ended = code if order is None else self._application.poll()
        if order is None or ended == code or (ended is not None and code >= 0 and order.is_ours):
            return shell_code(code)
        # A library that finds no memory ends the launcher with a code of its own.
        why = f"signal {-code}" if code < 0 else f"code {code}"
        log(f"the analysis has ended early ({why})" + ("; the program goes on" if ended is None else ""))
        code = self._outlast(order)
        _note_exit_code(Path(os.fsdecode(order.info)), code)
        return code

    def _outlast(self, order: Order) -> int:
        """Wait for the application, and see that its streams are guarded: nobody else of ours may be left."""
        guard = GuardStarter(order.guard)
        with suppress(OSError):
            guard.begin(self._application.pid)
        with Wakeup() as wakeup:
            while (code := self._application.poll()) is None:
                wakeup.wait(GUARD_LOOK_S, [])
                with suppress(OSError):
                    guard.ensure()
        return code

    def _obey(self) -> bool:
        """Start what the launcher wants; return False where the launcher has gone."""
        order = _receive(self._link)
        if order is None:
            return False
        wanted = msgspec.msgpack.decode(order, type=Order)
        heed(PASSED_ON, self._pass_on)
        try:
            self._application.start(wanted.words, wanted.environment)
        except CommandError as error:
            news = News(error=error.number)
        else:
            self._order = wanted
            news = News(pid=self._application.pid)
        _send(self._link, msgspec.msgpack.encode(news))
        return True

    def _report(self) -> None:
        code = self._application.poll()
        if code is not None:
            self._is_reported = True
            _send(self._link, msgspec.msgpack.encode(News(code=code)))

    def _pass_on(self, number: int, frame: object) -> None:
        """Tell the launcher of a signal that ends the run, and the application of every one."""
        if self._launcher and number in FROM_OTHERS:
            with suppress(OSError):
                os.kill(self._launcher, number)
        self._application.pass_on(number)


def _note_exit_code(path: Path, code: int) -> None:
    """Note the exit code of an application whose launcher has died in the description of the run."""
    # The folder may have been moved, and the disk be full.
    with suppress(OSError, msgspec.DecodeError):
        info = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        write_atomically(path, msgspec.json.encode({**info, "exit_code": code}))


def _send(link: socket.socket, message: bytes) -> None:
    # Whoever has gone needs no news.
    with suppress(OSError):
        link.sendall(_LENGTH.pack(len(message)) + message)


def _receive(link: socket.socket) -> bytes | None:
    """Return the next message; None if the other side has gone."""
    head = _exactly(link, _LENGTH.size)
    return _exactly(link, _LENGTH.unpack(head)[0]) if head else None


def _exactly(link: socket.socket, size: int) -> bytes:
    """Return exactly ``size`` bytes, or none if the other side has gone."""
    content = b""
    while len(content) < size:
        with suppress(ConnectionError):
            if received := link.recv(size - len(content)):
                content += received
                continue
        return b""
    return content


def _news(link: socket.socket) -> News | None:
    message = _receive(link)
    return msgspec.msgpack.decode(message, type=News) if message else None
